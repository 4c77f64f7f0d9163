package demo_test

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"coding-proxy/proxy/demo"
)

// TestNestedMessagesFields has what the grammar of the Messages API adds to the rules of the conversation.
func TestNestedMessagesFields(t *testing.T) {
	_, url := serve(t, demo.Options{})
	h := func(members string) string { return `{` + hello + `,` + members + `}` }
	old := func(members string) string {
		return strings.Replace(h(members), "claude-opus-5-5", "claude-sonnet-4-5", 1)
	}
	tool := `"tools":[{"name":"a","input_schema":{"type":"object"}}]`
	image := func(source string) string {
		return conversation(user(`{"type":"image","source":{` + source + `}}`))
	}
	nested := func(content string) string {
		return conversation(asks, calls, user(`{"type":"tool_result","tool_use_id":"toolu_1","content":[`+content+`]}`))
	}
	thinks := func(assistant string) string {
		return strings.Replace(conversation(asks, assistant, user(result)), `"max_tokens":1`, `"max_tokens":4096,"thinking":{"type":"enabled","budget_tokens":1024}`, 1)
	}
	for name, test := range map[string]check{
		"cache ttl":              {h(`"cache_control":{"type":"ephemeral","ttl":"1h"}`), ""},
		"cache of another kind":  {h(`"cache_control":{"type":"persistent"}`), "cache_control.type: Input should be 'ephemeral'"},
		"unknown message field":  {conversation(`{"role":"user","content":"a","name":"b"}`), "messages.0.name: Extra inputs are not permitted"},
		"unknown block field":    {conversation(user(`{"type":"text","text":"a","prompt_cache_breakpoint":{}}`)), "messages.0.content.0.prompt_cache_breakpoint: Extra inputs"},
		"unknown block":          {conversation(user(`{"type":"input_text","text":"a"}`)), "messages.0.content.0.type: Input should be 'text'"},
		"unknown tool field":     {h(`"tools":[{"name":"a","input_schema":{"type":"object"},"parameters":{}}]`), "tools.0.parameters: Extra inputs"},
		"tool of OpenAI":         {h(`"tools":[` + functionTool("a", `{}`) + `]`), "tools.0.type: Input should be"},
		"unknown thinking":       {h(`"thinking":{"type":"auto"}`), "thinking.type: Input should be"},
		"effort":                 {h(`"output_config":{"effort":"none"}`), "output_config.effort: Input should be"},
		"result without content": {conversation(asks, calls, user(`{"type":"tool_result","tool_use_id":"toolu_1","is_error":true}`)), ""},
		"error flag of a string": {conversation(asks, calls, user(`{"type":"tool_result","tool_use_id":"toolu_1","is_error":"yes"}`)), "messages.2.content.0.is_error"},
		"call without input":     {conversation(asks, `{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"a"}]}`, user(result)), "input: Field required"},
		"unsigned thinking":      {conversation(asks, `{"role":"assistant","content":[{"type":"thinking","thinking":"x"},{"type":"text","text":"a"}]}`, asks), "signature: Field required"},
		"image":                  {image(`"type":"base64","media_type":"image/png","data":"aaaa"`), ""},
		"image/jpg":              {image(`"type":"base64","media_type":"image/jpg","data":"aaaa"`), "messages.0.content.0.image.source.base64.media_type"},
		"image no base64":        {image(`"type":"base64","media_type":"image/png","data":"!"`), "source.data"},
		"empty image":            {image(`"type":"base64","media_type":"image/png","data":""`), "cannot be empty"},
		"image by ftp":           {image(`"type":"url","url":"ftp://x"`), "Only HTTP(S)"},
		"image in a result":      {nested(`{"type":"image","source":{"type":"base64","media_type":"image/tiff","data":"aaaa"}}`), "messages.2.content.0.tool_result.content.0.image.source"},
		"call in a result":       {nested(`{"type":"tool_use","id":"x","name":"a","input":{}}`), "content.0.content.0.type"},
		"document no pdf":        {conversation(user(`{"type":"document","source":{"type":"base64","media_type":"text/html","data":"aaaa"}}`)), "'application/pdf'"},
		"union at the root":      {h(`"tools":[{"name":"a","input_schema":{"type":"object","anyOf":[]}}]`), "does not support oneOf, allOf, or anyOf"},
		"choice":                 {h(tool + `,"tool_choice":{"type":"tool","name":"a"}`), ""},
		"choice as a string":     {h(tool + `,"tool_choice":"auto"`), "tool_choice: Input should be"},
		"choice without tools":   {h(`"tool_choice":{"type":"auto"}`), "only be specified while providing tools"},
		"choice of no tool":      {h(tool + `,"tool_choice":{"type":"tool","name":"b"}`), "Tool 'b' not found"},
		"forced while thinking":  {h(tool + `,"tool_choice":{"type":"any"},"thinking":{"type":"adaptive"}`), "Thinking may not be enabled when tool_choice forces tool use."},
		"none with a flag":       {h(tool + `,"tool_choice":{"type":"none","disable_parallel_tool_use":true}`), "disable_parallel_tool_use: Extra inputs"},
		"temperature":            {old(`"temperature":0.5`), ""},
		"temperature over 1":     {old(`"temperature":1.5`), "temperature: Input should be"},
		"temperature of 5.5":     {h(`"temperature":0.5`), "`temperature` is deprecated"},
		"top_p of 5.5":           {h(`"top_p":0.9`), "`top_p` is deprecated"},
		"top_k of 5.5":           {h(`"top_k":5`), "`top_k` is deprecated"},
		"top_k of 4.5":           {old(`"top_k":5`), ""},
		"warm thinking":          {strings.Replace(old(`"temperature":0.5,"thinking":{"type":"enabled","budget_tokens":1024}`), `"max_tokens":100`, `"max_tokens":4096`, 1), "may only be set to 1 when thinking"},
		"blank stop":             {h(`"stop_sequences":["a"," "]`), "stop_sequences.1"},
		"loop without thinking":  {thinks(calls), "Expected `thinking` or `redacted_thinking`, but found `text`"},
		"loop with thinking":     {thinks(`{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"x"},{"type":"tool_use","id":"toolu_1","name":"a","input":{}}]}`), ""},
		"loop with redacted":     {thinks(`{"role":"assistant","content":[{"type":"redacted_thinking","data":"x"},{"type":"tool_use","id":"toolu_1","name":"a","input":{}}]}`), ""},
		"finished loop":          {strings.Replace(thinks(calls), `]}`+`]}`, `]}`+`,`+says+`,`+asks+`]}`, 1), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if test.want != "" {
				wantRefusal(t, url, test.body, test.want)
				return
			}
			if response := post(t, url+"/v1/messages", test.body); response.StatusCode != http.StatusOK {
				t.Errorf("%d: %s", response.StatusCode, read(t, response))
			}
		})
	}
}

func TestBlocksThatTheNewVersionRefuses(t *testing.T) {
	_, url := serve(t, demo.Options{})
	document := `{"type":"document","source":{"type":"text","media_type":"text/plain","data":"x"}}`
	for body, want := range map[string]string{
		conversation(asks, `{"role":"assistant","content":[`+document+`]}`, asks):               "`document` blocks are not permitted",
		conversation(user(`{"type":"text","text":"a","citations":[{"type":"char_location"}]}`)): "citations: not permitted",
	} {
		for version, status := range map[string]int{"2023-06-01": 200, "2026-10-21": 400} {
			response := post(t, url+"/v1/messages", body, func(h http.Header) { h.Set("anthropic-version", version) })
			if got := read(t, response); response.StatusCode != status || status == 400 && !strings.Contains(got, want) {
				t.Errorf("%s: %d %s", version, response.StatusCode, got)
			}
		}
	}
}

func TestReasoningIsCountedWhenAsked(t *testing.T) {
	p, url := serve(t, demo.Options{})
	p.Push(demo.Step{Thinking: "hm", Usage: demo.Usage{Output: 9, Reasoning: 4}})
	if got := read(t, post(t, url+"/v1/messages", `{`+hello+`}`)); !strings.Contains(got, `"output_tokens":9,"output_tokens_details":{"thinking_tokens":4}`) {
		t.Error(got)
	}
}

func TestTranscription(t *testing.T) {
	_, url := serve(t, demo.Options{})
	for _, test := range []struct {
		model, file, want string
		status            int
	}{
		{"whisper-1", "RIFFxxxx", `{"text":"A recording.","model":"whisper-1","bytes":8}`, 200},
		{"", "RIFF", `"param":"model"`, 400},
		{"whisper-1", "", `"param":"file"`, 400},
	} {
		var body bytes.Buffer
		form := multipart.NewWriter(&body)
		if test.model != "" {
			if err := form.WriteField("model", test.model); err != nil {
				t.Fatal(err)
			}
		}
		if test.file != "" {
			part, err := form.CreateFormFile("file", "a.wav")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := part.Write([]byte(test.file)); err != nil {
				t.Fatal(err)
			}
		}
		if err := form.Close(); err != nil {
			t.Fatal(err)
		}
		response := post(t, url+"/v1/audio/transcriptions", body.String(), sender("openai-chat"), func(h http.Header) { h.Set("content-type", form.FormDataContentType()) })
		if got := read(t, response); response.StatusCode != test.status || !strings.Contains(got, test.want) {
			t.Errorf("%+v: %d %s", test, response.StatusCode, got)
		}
	}
	if response := ask(t, url, "/v1/audio/transcriptions", `{}`); response.StatusCode != http.StatusBadRequest {
		t.Errorf("%d", response.StatusCode)
	}
}

func TestSideEndpointsAreStrict(t *testing.T) {
	for path, test := range map[string]check{
		"/v1/embeddings":             {`{"model":"e","input":"a","task":"x"}`, "'task'"},
		"/v1/completions":            {`{"model":"e"}`, "'prompt'"},
		"/v1/moderations":            {`{}`, "'input'"},
		"/v1/images/generations":     {`{"prompt":1}`, "'prompt'"},
		"/v1/audio/speech":           {`{"model":"tts","input":"a"}`, "'voice'"},
		"/v1/responses/compact":      {`{"model":"m","input":"a","stream":true}`, "'stream'"},
		"/v1/responses/input_tokens": {`{"model":"m","input":"a","store":true}`, "'store'"},
	} {
		runChecks(t, demo.Options{}, path, map[string]check{path: test})
	}
	runChecks(t, demo.Options{}, "/v1beta/models/e:embedContent", map[string]check{"embedContent": {`{"content":{"parts":[]},"contents":[]}`, `Unknown name "contents"`}})
	runChecks(t, demo.Options{}, "/v1beta/models/e:countTokens", map[string]check{"both": {`{"contents":[` + gemAsks + `],"generateContentRequest":` + geminiHello + `}`, "Only one"}})
}

func TestCompletionStream(t *testing.T) {
	p, url := serve(t, demo.Options{})
	p.Push(demo.Step{Text: "a b"})
	list, _ := frames(ask(t, url, "/v1/completions", `{"model":"e","prompt":"a","stream":true}`).Body)
	if len(list) != 4 || list[3].data != "[DONE]" || !strings.Contains(list[2].data, `"finish_reason":"stop"`) {
		t.Errorf("%+v", list)
	}
}
