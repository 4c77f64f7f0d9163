package demo_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"coding-proxy/proxy/demo"
)

// Messages of chat conversations.
const (
	chatAsks   = `{"role":"user","content":"hi"}`
	chatCalls  = `{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"a","arguments":"{}"}}]}`
	chatTwo    = `{"role":"assistant","content":"ok","tool_calls":[{"id":"call_1","type":"function","function":{"name":"a","arguments":"{}"}},{"id":"call_2","type":"custom","custom":{"name":"b","input":"x"}}]}`
	chatResult = `{"role":"tool","tool_call_id":"call_1","content":"done"}`
	chatOther  = `{"role":"tool","tool_call_id":"call_2","content":[{"type":"text","text":"done"}]}`
	pngURL     = "data:image/png;base64,iVBORw0KGgo="
)

func chatOf(messages ...string) string {
	return `{"model":"gpt-4.1","messages":[` + strings.Join(messages, ",") + `]}`
}

func chatUser(parts string) string { return chatOf(`{"role":"user","content":[` + parts + `]}`) }

func functionTool(name, parameters string) string {
	return `{"type":"function","function":{"name":"` + name + `","parameters":` + parameters + `}}`
}

func chatImage(url string) string {
	return chatUser(`{"type":"image_url","image_url":{"url":"` + url + `"}}`)
}

func TestChatRequests(t *testing.T) {
	h := func(members string) string { return with(chatHello, members) }
	model := func(model, members string) string {
		return strings.Replace(with(chatHello, members), "gpt-4.1", model, 1)
	}
	tool := functionTool("a", `{"type":"object","properties":{}}`)
	runChecks(t, demo.Options{}, chatPath, map[string]check{
		"all kinds of fields":    {h(`"stop":["a"],"metadata":{"a":"b"},"temperature":1.5,"tools":[` + tool + `,{"type":"custom","custom":{"name":"c","format":{"type":"grammar","grammar":{"definition":"x","syntax":"lark"}}}}],"tool_choice":{"type":"function","function":{"name":"a"}},"parallel_tool_calls":false,"response_format":{"type":"json_schema","json_schema":{"name":"r","schema":{}}}`), ""},
		"no JSON":                {`{`, "could not parse"},
		"no object":              {`[]`, "expected an object"},
		"no model":               {`{"messages":[` + chatAsks + `]}`, "'model'. param=model code=\"missing_required_parameter\""},
		"empty model":            {`{"model":"","messages":[` + chatAsks + `]}`, "provide a model"},
		"no messages":            {`{"model":"m"}`, "'messages'. param=messages"},
		"empty messages":         {chatOf(), "empty array"},
		"unknown field":          {h(`"thinking":{}`), "Unknown parameter: 'thinking'. param=thinking code=\"unknown_parameter\""},
		"Anthropic's fields":     {h(`"stop_sequences":[]`), "'stop_sequences'"},
		"unknown message field":  {chatOf(`{"role":"user","content":"a","cache_control":{}}`), "'messages[0].cache_control'"},
		"unknown part field":     {chatUser(`{"type":"text","text":"a","cache_control":{}}`), "'messages[0].content[0].cache_control'"},
		"unknown tool field":     {h(`"tools":[{"type":"function","function":{"name":"a","input_schema":{}}}]`), "'tools[0].function.input_schema'"},
		"flat tool":              {h(`"tools":[{"type":"function","name":"a"}]`), "'tools[0].function'"},
		"wrong type":             {h(`"temperature":"1"`), "Invalid type for 'temperature': expected a number or null, but got a string instead. param=temperature code=\"invalid_type\""},
		"wrong enum":             {h(`"reasoning_effort":"huge"`), "Invalid value: 'huge'. Supported values are: 'none', 'minimal'"},
		"unknown role":           {chatOf(`{"role":"model","content":"a"}`), "Invalid value: 'model'"},
		"no role":                {chatOf(`{"content":"a"}`), "'messages[0].role'"},
		"no content":             {chatOf(`{"role":"user"}`), "'messages[0].content'"},
		"null content":           {chatOf(`{"role":"user","content":null}`), "Invalid type for 'messages[0].content'"},
		"empty content":          {chatUser(``), "empty array"},
		"temperature":            {h(`"temperature":2.1`), "param=temperature"},
		"penalty":                {h(`"presence_penalty":-3`), "param=presence_penalty"},
		"top_logprobs":           {h(`"top_logprobs":3`), "only allowed when 'logprobs'"},
		"n":                      {h(`"n":0`), "param=n"},
		"both maxima":            {h(`"max_tokens":5,"max_completion_tokens":5`), "at the same time"},
		"five stops":             {h(`"stop":["a","b","c","d","e"]`), "maximum length 4"},
		"stop of o3":             {model("o3", `"stop":"a"`), "'stop' is not supported"},
		"stream options":         {h(`"stream_options":{"include_usage":true}`), "only allowed when 'stream'"},
		"metadata":               {h(`"metadata":{"a":"` + strings.Repeat("x", 513) + `"}`), "too long"},
		"metadata value":         {h(`"metadata":{"a":1}`), "'metadata.a'"},
		"safety identifier":      {h(`"safety_identifier":"` + strings.Repeat("x", 129) + `"`), "maximum length 128"},
		"max_tokens of gpt-5":    {model("gpt-5", `"max_tokens":5`), "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."},
		"max_tokens of o4-mini":  {model("openai/o4-mini", `"max_tokens":5`), "'max_tokens' is not supported"},
		"max_tokens elsewhere":   {model("deepseek-v4", `"max_tokens":5`), ""},
		"temperature of gpt-5":   {model("gpt-5-mini", `"temperature":0.5`), "does not support 0.5"},
		"temperature of gpt-5.4": {model("gpt-5.4-nano", `"temperature":0.5`), ""},
		"default temperature":    {model("o3", `"temperature":1`), ""},
		"penalty of o3":          {model("o3", `"frequency_penalty":1`), "'frequency_penalty' is not supported"},
		"no tools":               {h(`"tools":[]`), "Invalid 'tools': empty array"},
		"tool name":              {h(`"tools":[` + functionTool("a.b", `{"type":"object"}`) + `]`), "param=tools[0].function.name"},
		"long tool name":         {h(`"tools":[` + functionTool(strings.Repeat("a", 65), `{"type":"object"}`) + `]`), "maximum length 64"},
		"schema root":            {h(`"tools":[` + functionTool("a", `{"type":"string"}`) + `]`), "Invalid schema for function 'a'"},
		"strict schema":          {h(`"tools":[{"type":"function","function":{"name":"a","strict":true,"parameters":{"type":"object"}}}]`), "'additionalProperties' is required"},
		"choice without tools":   {h(`"tool_choice":"auto"`), "only allowed when 'tools'"},
		"choice of no tool":      {h(`"tools":[` + tool + `],"tool_choice":{"type":"function","function":{"name":"b"}}`), "'b' is not among"},
		"parallel without tools": {h(`"parallel_tool_calls":true`), "only allowed when 'tools'"},
		"format name":            {h(`"response_format":{"type":"json_schema","json_schema":{"name":"a b"}}`), "response_format.json_schema.name"},
		"image":                  {chatImage(pngURL), ""},
		"image on the web":       {chatImage("https://example.com/a.png"), ""},
		"image/jpg":              {chatImage("data:image/jpg;base64,iVBORw0KGgo="), "unsupported image"},
		"image without base64":   {chatImage("data:image/png;base64,%%%"), "invalid base64"},
		"image path":             {chatImage("/tmp/a.png"), "Expected a valid URL"},
		"file":                   {chatUser(`{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,aaaa"}}`), ""},
		"raw file":               {chatUser(`{"type":"file","file":{"filename":"a.pdf","file_data":"aaaa"}}`), "data URL"},
		"file without data":      {chatUser(`{"type":"file","file":{"filename":"a.pdf"}}`), "exactly one"},
		"audio":                  {chatUser(`{"type":"input_audio","input_audio":{"data":"!","format":"wav"}}`), "input_audio.data"},
		"reasoning_content":      {chatOf(chatAsks, `{"role":"assistant","content":"a","reasoning_content":"b"}`), "'messages[1].reasoning_content'"},
	})
}

func TestChatConversations(t *testing.T) {
	runChecks(t, demo.Options{}, chatPath, map[string]check{
		"turns":                   {chatOf(`{"role":"system","content":"be"}`, chatAsks, `{"role":"assistant","content":"a"}`, chatAsks), ""},
		"a call":                  {chatOf(chatAsks, chatCalls, chatResult), ""},
		"two calls, any order":    {chatOf(chatAsks, chatTwo, chatOther, chatResult, chatAsks), ""},
		"nothing said":            {chatOf(chatAsks, `{"role":"assistant","content":null}`), "got null"},
		"no calls":                {chatOf(chatAsks, `{"role":"assistant","content":"a","tool_calls":[]}`), "Invalid 'messages[1].tool_calls': empty array"},
		"no result":               {chatOf(chatAsks, chatCalls), "did not have response messages: call_1"},
		"one of two results":      {chatOf(chatAsks, chatTwo, chatResult, chatAsks), "did not have response messages: call_2"},
		"result too late":         {chatOf(chatAsks, chatCalls, chatAsks, chatResult), "did not have response messages: call_1"},
		"result without call":     {chatOf(chatAsks, chatResult), "must be a response to a preceeding message"},
		"result first of all":     {chatOf(chatResult), "must be a response to a preceeding message"},
		"result of another call":  {chatOf(chatAsks, chatCalls, chatResult, chatOther), "'tool_call_id' of 'call_2' not found"},
		"result twice":            {chatOf(chatAsks, chatCalls, chatResult, chatResult), "Duplicate value for 'tool_call_id'"},
		"call twice":              {chatOf(chatAsks, strings.Replace(chatTwo, "call_2", "call_1", 1), chatResult), "Duplicate value"},
		"long id":                 {chatOf(chatAsks, strings.Replace(chatCalls, "call_1", strings.Repeat("a", 65), 1)), "maximum length 64"},
		"empty id":                {chatOf(chatAsks, strings.Replace(chatCalls, "call_1", "", 1)), "empty string"},
		"empty name":              {chatOf(chatAsks, strings.Replace(chatCalls, `"name":"a"`, `"name":""`, 1)), "tool_calls[0].function.name"},
		"arguments are an object": {chatOf(chatAsks, strings.Replace(chatCalls, `"{}"`, `{}`, 1)), "Invalid type for 'messages[1].tool_calls[0].function.arguments'"},
		"image in a result":       {chatOf(chatAsks, chatCalls, `{"role":"tool","tool_call_id":"call_1","content":[{"type":"image_url","image_url":{"url":"`+pngURL+`"}}]}`), "Invalid value: 'image_url'. Supported values are: 'text'."},
		"id on a user message":    {chatOf(`{"role":"user","content":"a","tool_call_id":"x"}`), "'messages[0].tool_call_id'"},
	})
	replayed := strings.Replace(chatCalls, `"content":null`, `"content":null,"reasoning_content":"hm"`, 1)
	runChecks(t, demo.Options{ReasoningContent: true}, chatPath, map[string]check{
		"with reasoning":    {chatOf(chatAsks, replayed, chatResult), ""},
		"without reasoning": {chatOf(chatAsks, chatCalls, chatResult), ""},
	})
	runChecks(t, demo.Options{ReplayReasoning: true}, chatPath, map[string]check{
		"replayed":     {chatOf(chatAsks, replayed, chatResult), ""},
		"not replayed": {chatOf(chatAsks, chatCalls, chatResult), "`reasoning_content` in the thinking mode must be passed back"},
		"no calls":     {chatOf(chatAsks, `{"role":"assistant","content":"a"}`, chatAsks), ""},
	})
}

// chatTrace writes what each chunk says in a few words.
func chatTrace(t *testing.T, list []frame) string {
	t.Helper()
	var trace []string
	for _, f := range list {
		if f.data == "[DONE]" {
			trace = append(trace, "done")
			continue
		}
		var c struct {
			Object  string
			Choices []struct {
				Delta struct {
					Role             string
					Content          *string
					ReasoningContent string `json:"reasoning_content"`
					ToolCalls        []struct {
						Index    *int
						ID       string
						Function *struct {
							Name      string
							Arguments *string
						}
						Custom *struct {
							Name  string
							Input *string
						}
					} `json:"tool_calls"`
				}
				FinishReason *string `json:"finish_reason"`
			}
			Usage json.RawMessage
		}
		if err := json.Unmarshal([]byte(f.data), &c); err != nil || c.Object != "chat.completion.chunk" || f.event != "" {
			t.Fatalf("%v: %+v", err, f)
		}
		if len(c.Choices) == 0 {
			trace = append(trace, "usage")
			continue
		}
		d := c.Choices[0].Delta
		switch {
		case c.Choices[0].FinishReason != nil:
			trace = append(trace, *c.Choices[0].FinishReason)
		case d.Role != "":
			trace = append(trace, d.Role)
		case d.ReasoningContent != "":
			trace = append(trace, "think")
		case len(d.ToolCalls) == 1 && d.ToolCalls[0].Function != nil:
			call := d.ToolCalls[0]
			trace = append(trace, fmt.Sprintf("%d:%s%s=%s", *call.Index, call.ID, call.Function.Name, *call.Function.Arguments))
		case len(d.ToolCalls) == 1:
			call := d.ToolCalls[0]
			trace = append(trace, fmt.Sprintf("%d:%s%s~%s", *call.Index, call.ID, call.Custom.Name, *call.Custom.Input))
		default:
			trace = append(trace, "text")
		}
	}
	return strings.Join(trace, " ")
}

func TestChatStreams(t *testing.T) {
	usage := `,"stream_options":{"include_usage":true}`
	two := []demo.Tool{{ID: "A", Name: "x", Input: json.RawMessage(`{"a":"0123456789012345678901"}`)}, {ID: "B", Name: "y"}}
	for name, test := range map[string]struct {
		step       demo.Step
		more, want string
	}{
		"text":        {demo.Step{Text: "a b"}, "", "assistant text text stop done"},
		"usage":       {demo.Step{Text: "a"}, usage, "assistant text stop usage done"},
		"reasoning":   {demo.Step{Thinking: "h m", Text: "a"}, "", "assistant think think text stop done"},
		"calls":       {demo.Step{Text: "a", Tools: two}, "", `assistant text 0:Ax= 0:={"a":"012345678901234567 0:=8901"} 1:By= 1:={} tool_calls done`},
		"interleaved": {demo.Step{Tools: two, Interleave: true}, "", `assistant 0:Ax= 1:By= 0:={"a":"012345678901234567 1:={} 0:=8901"} tool_calls done`},
		"custom":      {demo.Step{Tools: []demo.Tool{{ID: "C", Name: "p", Custom: "raw text"}}}, "", `assistant 0:Cp~ 0:~raw text tool_calls done`},
		"length":      {demo.Step{Text: "a", StopReason: "max_tokens"}, "", "assistant text length done"},
		"filter":      {demo.Step{Text: "a", StopReason: "refusal"}, "", "assistant text content_filter done"},
		"no finish":   {demo.Step{Text: "a", Break: demo.NoFinish}, usage, "assistant text usage done"},
		"pings":       {demo.Step{Text: "a", Pings: 3}, "", "assistant text stop done"},
	} {
		t.Run(name, func(t *testing.T) {
			p, url := serve(t, demo.Options{})
			p.Push(test.step)
			body := read(t, ask(t, url, chatPath, with(chatHello, `"stream":true`+test.more)))
			list, _ := frames(strings.NewReader(strings.ReplaceAll(body, ": ping\n\n", "")))
			if got := chatTrace(t, list); got != test.want {
				t.Errorf(" got %s\nwant %s", got, test.want)
			}
			if strings.Count(body, ": ping\n\n") != test.step.Pings {
				t.Error(body)
			}
			if hasNull := strings.Contains(list[0].data, `"usage":null`); hasNull != (test.more != "") {
				t.Error(list[0].data)
			}
		})
	}
}

func TestChatAnswerAndUsage(t *testing.T) {
	p, url := serve(t, demo.Options{})
	step := everything()
	step.Usage.Reasoning = 9
	p.Push(step)
	got := read(t, ask(t, url, chatPath, chatHello))
	for _, want := range []string{
		`"role":"assistant","content":"I'll look — one moment, dröge Prüfung. ","reasoning_content":"They want a list.","refusal":null,"tool_calls":[{"id":"call_demo`,
		`"finish_reason":"tool_calls"`, `{"id":"toolu_mine","type":"function","function":{"name":"Now","arguments":"{}"}}`,
		`"usage":{"prompt_tokens":23,"completion_tokens":34,"total_tokens":57,"prompt_tokens_details":{"cached_tokens":6,"cache_write_tokens":5,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":9,`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("want %s in %s", want, got)
		}
	}
}
