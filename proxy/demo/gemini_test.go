package demo_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"coding-proxy/proxy/demo"
)

// fixed is a clock that stands still.
func fixed(*int) func() time.Time {
	return func() time.Time { return time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC) }
}

const (
	gemAsks   = `{"role":"user","parts":[{"text":"hi"}]}`
	gemSays   = `{"role":"model","parts":[{"text":"well"}]}`
	gemCall   = `{"role":"model","parts":[{"functionCall":{"name":"a","args":{"x":1}}}]}`
	gemTwo    = `{"role":"model","parts":[{"text":"ok"},{"functionCall":{"id":"1","name":"a"}},{"functionCall":{"id":"2","name":"b"}}]}`
	gemResult = `{"role":"user","parts":[{"functionResponse":{"name":"a","response":{"output":"done"}}}]}`
	gemBoth   = `{"role":"user","parts":[{"functionResponse":{"id":"1","name":"a","response":{}}},{"functionResponse":{"id":"2","name":"b","response":{}}}]}`
)

func gemOf(contents ...string) string { return `{"contents":[` + strings.Join(contents, ",") + `]}` }

func gemPart(part string) string { return gemOf(`{"parts":[` + part + `]}`) }

func gemConfig(members string) string { return with(geminiHello, `"generationConfig":{`+members+`}`) }

func gemDeclare(declarations string) string {
	return with(geminiHello, `"tools":[{"functionDeclarations":[`+declarations+`]}]`)
}

func gemSchema(schema string) string {
	return gemDeclare(`{"name":"a","parameters":{"type":"OBJECT","properties":{"p":` + schema + `}}}`)
}

func TestGeminiRequests(t *testing.T) {
	inline := func(media, data string) string {
		return gemPart(`{"inlineData":{"mimeType":"` + media + `","data":"` + data + `"}}`)
	}
	jsonSchema := func(s string) string { return gemDeclare(`{"name":"a","parametersJsonSchema":` + s + `}`) }
	runChecks(t, demo.Options{}, geminiPath, map[string]check{
		"snake case":             {`{"contents":[{"role":"user","parts":[{"inline_data":{"mime_type":"image/png","data":"aaaa"}}]}],"generation_config":{"max_output_tokens":"5","thinking_config":{"thinking_budget":-1}},"system_instruction":{"parts":[{"text":"be"}]}}`, ""},
		"no JSON":                {`{"contents":`, "Invalid JSON payload"},
		"no contents":            {`{}`, "contents is not specified"},
		"empty contents":         {gemOf(), "contents is not specified"},
		"unknown field":          {with(geminiHello, `"messages":[]`), `Unknown name "messages": Cannot find field. param=null code=400 INVALID_ARGUMENT`},
		"unknown content field":  {gemOf(`{"role":"user","parts":[{"text":"a"}],"name":"x"}`), `Unknown name "name" at 'contents[0]': Cannot find field.`},
		"unknown part field":     {gemPart(`{"text":"a","cache_control":{}}`), `Unknown name "cache_control" at 'contents[0].parts[0]'`},
		"unknown config field":   {gemConfig(`"max_tokens":5`), `Unknown name "max_tokens" at 'generationConfig'`},
		"list for text":          {gemPart(`{"text":["a"]}`), `Unknown name "text" at 'contents[0].parts[0]': Proto field is not repeating, cannot start list.`},
		"role":                   {gemOf(`{"role":"assistant","parts":[{"text":"a"}]}`), "valid role: user, model"},
		"no parts":               {gemOf(`{"role":"user"}`), "contents.parts must not be empty"},
		"empty parts":            {gemOf(gemAsks, `{"role":"model","parts":[]}`, gemAsks), "contents.parts must not be empty"},
		"part without data":      {gemPart(`{"thought":true}`), "required oneof field 'data'"},
		"part with two":          {gemPart(`{"text":"a","inlineData":{"mimeType":"image/png","data":"aaaa"}}`), "oneof field 'data' is already set"},
		"signature not base64":   {gemPart(`{"text":"a","thoughtSignature":"!"}`), "thoughtSignature"},
		"url-safe base64":        {inline("image/png", "-_-_"), ""},
		"data not base64":        {inline("image/png", "!"), "inlineData.data"},
		"empty data":             {inline("image/png", ""), "must not be empty"},
		"image/jpg":              {inline("image/jpg", "aaaa"), "Unsupported MIME type: image/jpg"},
		"image/heic":             {inline("image/heic", "aaaa"), ""},
		"pdf":                    {inline("application/pdf", "aaaa"), ""},
		"zip":                    {inline("application/zip", "aaaa"), "Unsupported MIME type"},
		"file uri":               {gemPart(`{"fileData":{"fileUri":"files/x"}}`), "file uri"},
		"image as instruction":   {with(geminiHello, `"systemInstruction":{"parts":[{"inlineData":{"mimeType":"image/png","data":"aaaa"}}]}`), "only text is supported"},
		"temperature":            {gemConfig(`"temperature":2.5`), "temperature"},
		"six stops":              {gemConfig(`"stopSequences":["a","b","c","d","e","f"]`), "stop_sequences"},
		"no output":              {gemConfig(`"maxOutputTokens":0`), "maxOutputTokens"},
		"thinking twice":         {gemConfig(`"thinkingConfig":{"thinkingBudget":1,"thinkingLevel":"LOW"}`), "only one of thinking budget and thinking level"},
		"thinking level":         {gemConfig(`"thinkingConfig":{"thinkingLevel":"max"}`), "TYPE_ENUM"},
		"thinking budget":        {gemConfig(`"thinkingConfig":{"thinkingBudget":-2}`), "budget"},
		"schema without type":    {gemConfig(`"responseSchema":{"type":"OBJECT"}`), "response_mime_type"},
		"both response schemas":  {gemConfig(`"responseMimeType":"application/json","responseSchema":{"type":"OBJECT"},"responseJsonSchema":{}`), "Only one of"},
		"mime type":              {gemConfig(`"responseMimeType":"text/html"`), "allowed mimetypes"},
		"logprobs":               {gemConfig(`"logprobs":3`), "response_logprobs"},
		"function name":          {gemDeclare(`{"name":"1a"}`), "Invalid function name"},
		"dashed name":            {gemDeclare(`{"name":"-a"}`), "Invalid function name"},
		"name with a space":      {gemDeclare(`{"name":"a b"}`), "Invalid function name"},
		"dotted name":            {gemDeclare(`{"name":"a.b:c-d"}`), ""},
		"long name":              {gemDeclare(`{"name":"` + strings.Repeat("a", 129) + `"}`), "Invalid function name"},
		"name twice":             {gemDeclare(`{"name":"a"},{"name":"a"}`), "Duplicate function declaration"},
		"both parameters":        {gemDeclare(`{"name":"a","parameters":{"type":"OBJECT"},"parametersJsonSchema":{}}`), "must not be set when parameters is set"},
		"parameters no object":   {gemDeclare(`{"name":"a","parameters":{"type":"STRING"}}`), "must be of type OBJECT"},
		"openai tool":            {with(geminiHello, `"tools":[`+functionTool("a", `{}`)+`]`), `Unknown name "type" at 'tools[0]'`},
		"empty tool":             {with(geminiHello, `"tools":[{}]`), "tool must have one initialized field"},
		"$schema":                {gemSchema(`{"type":"STRING","$schema":"x"}`), `Unknown name "$schema" at 'tools[0].functionDeclarations[0].parameters.properties.p': Cannot find field.`},
		"additionalProperties":   {gemSchema(`{"type":"OBJECT","additionalProperties":false}`), `Unknown name "additionalProperties"`},
		"const":                  {gemSchema(`{"type":"STRING","const":"a"}`), `Unknown name "const"`},
		"type list":              {gemSchema(`{"type":["string","null"]}`), "Proto field is not repeating, cannot start list."},
		"property called title":  {gemSchema(`{"type":"OBJECT","properties":{"title":{"type":"STRING"},"const":{"type":"STRING"}}}`), ""},
		"lower case type":        {gemSchema(`{"type":"string","nullable":true}`), ""},
		"number in enum":         {gemSchema(`{"type":"INTEGER","enum":[1]}`), "enum"},
		"enum of integer":        {gemSchema(`{"type":"INTEGER","enum":["1"]}`), "only allowed for STRING"},
		"array without items":    {gemSchema(`{"type":"ARRAY"}`), "items: missing field"},
		"required but undefined": {gemSchema(`{"type":"OBJECT","properties":{},"required":["x"]}`), "property is not defined"},
		"no type":                {gemSchema(`{"description":"x"}`), "type: must be specified"},
		"JSON schema":            {jsonSchema(`{"type":["object","null"],"additionalProperties":false,"properties":{"max_items":{"oneOf":[{"type":"string"}]}}}`), ""},
		"JSON schema's allOf":    {jsonSchema(`{"allOf":[]}`), `Unknown name "allOf" at 'tools[0].function_declarations[0].parameters_json_schema'`},
		"sibling of $ref":        {jsonSchema(`{"$ref":"#/$defs/a","description":"x","$defs":{"a":{}}}`), "not allowed beside `$ref`"},
		"mode":                   {with(geminiHello, `"toolConfig":{"functionCallingConfig":{"mode":"required"}}`), "TYPE_ENUM"},
		"any without functions":  {with(geminiHello, `"toolConfig":{"functionCallingConfig":{"mode":"ANY"}}`), "without function_declarations"},
		"allowed names":          {with(gemDeclare(`{"name":"a"}`), `"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["a"]}}`), ""},
		"allowed names in auto":  {with(gemDeclare(`{"name":"a"}`), `"toolConfig":{"functionCallingConfig":{"mode":"AUTO","allowedFunctionNames":["a"]}}`), "only be set when the mode is ANY"},
		"allowed unknown name":   {with(gemDeclare(`{"name":"a"}`), `"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["b"]}}`), "b is not a declared function"},
		"safety":                 {with(geminiHello, `"safetySettings":[{"category":"HARM_CATEGORY_HARASSMENT","threshold":"NO"}]`), "TYPE_ENUM"},
	})
	runChecks(t, demo.Options{}, "/v1beta/models/gemini-2.5-pro:generateContent", map[string]check{
		"thinking level of 2.5": {gemConfig(`"thinkingConfig":{"thinkingLevel":"LOW"}`), "Thinking level is not supported"},
		"thinking off on pro":   {gemConfig(`"thinkingConfig":{"thinkingBudget":0}`), "only works in thinking mode"},
		"65 characters":         {gemDeclare(`{"name":"` + strings.Repeat("a", 65) + `"}`), "Invalid function name"},
		"image beside results":  {gemOf(gemAsks, gemTwo, strings.Replace(gemBoth, `]}`, `,{"inlineData":{"mimeType":"image/png","data":"aaaa"}}]}`, 1)), "number of function response parts"},
	})
}

func TestGeminiConversations(t *testing.T) {
	runChecks(t, demo.Options{}, geminiPath, map[string]check{
		"turns":                  {gemOf(gemAsks, gemSays, gemAsks), ""},
		"a call":                 {gemOf(gemAsks, gemCall, gemResult), ""},
		"two calls":              {gemOf(gemAsks, gemTwo, gemBoth, gemCall, gemResult, gemAsks), ""},
		"model first":            {gemOf(gemSays, gemAsks), "begin with a user turn"},
		"call after model":       {gemOf(gemAsks, gemSays, gemCall, gemResult), "function call turn comes immediately after a user turn"},
		"call by user":           {gemOf(strings.Replace(gemCall, "model", "user", 1), gemResult), "function call turn comes immediately after"},
		"no response":            {gemOf(gemAsks, gemCall), "number of function response parts"},
		"no response but text":   {gemOf(gemAsks, gemCall, gemAsks), "number of function response parts"},
		"one of two":             {gemOf(gemAsks, gemTwo, gemResult), "number of function response parts"},
		"response without call":  {gemOf(gemAsks, gemSays, gemResult), "function response turn comes immediately after a function call turn"},
		"responses in two turns": {gemOf(gemAsks, gemTwo, gemResult, gemResult), "number of function response parts"},
		"other order":            {gemOf(gemAsks, gemTwo, `{"role":"user","parts":[{"functionResponse":{"id":"2","name":"b","response":{}}},{"functionResponse":{"id":"1","name":"a","response":{}}}]}`), "does not belong to function call"},
		"other id":               {gemOf(gemAsks, gemTwo, strings.Replace(gemBoth, `"id":"2"`, `"id":"3"`, 1)), "does not match function call id"},
		"empty name":             {gemOf(gemAsks, gemCall, strings.Replace(gemResult, `"a"`, `""`, 1)), "Name cannot be empty"},
		"response is text":       {gemOf(gemAsks, gemCall, strings.Replace(gemResult, `{"output":"done"}`, `"done"`, 1)), "functionResponse.response"},
	})
}

func TestGeminiStreams(t *testing.T) {
	for name, test := range map[string]struct {
		step demo.Step
		want []string // of each chunk: its part and its finish
	}{
		"text":     {demo.Step{Text: "a b"}, []string{`"text":"a "`, `"text":"b"`, `"text":"","thoughtSignature":"`}},
		"thinking": {demo.Step{Thinking: "hm", Text: "a", StopReason: "max_tokens"}, []string{`"text":"hm","thought":true`, `"text":"a"`, `MAX_TOKENS`}},
		"calls":    {demo.Step{Tools: []demo.Tool{{ID: "i", Name: "x", Input: json.RawMessage(`{"a":1}`)}, {Name: "y", Custom: "raw"}}}, []string{`{"functionCall":{"id":"i","name":"x","args":{"a":1}},"thoughtSignature":"`, `{"functionCall":{"name":"y","args":{"input":"raw"}}}`}},
		"refusal":  {demo.Step{Text: "a", StopReason: "refusal"}, []string{`"a"`, `"finishReason":"SAFETY"`}},
		"bad call": {demo.Step{Tools: []demo.Tool{{Name: "x", Input: json.RawMessage(`{`)}}}, []string{`"parts":[],"role":"model"},"finishReason":"MALFORMED_FUNCTION_CALL"`}},
	} {
		for _, path := range []string{geminiSSE, geminiArray} {
			t.Run(name+path[len(geminiArray):], func(t *testing.T) {
				p, url := serve(t, demo.Options{})
				test.step.Usage = demo.Usage{Input: 10, Output: 8, CacheRead: 5, Reasoning: 3}
				p.Push(test.step)
				response := ask(t, url, path, geminiHello)
				chunks := geminiChunks(t, response)
				if len(chunks) != len(test.want) {
					t.Fatalf("%d chunks: %s", len(chunks), chunks)
				}
				for i, chunk := range chunks {
					if !strings.Contains(chunk, test.want[i]) || strings.Contains(chunk, `"finishReason"`) != (i == len(chunks)-1) || !strings.Contains(chunk, `"promptTokenCount":15,"cachedContentTokenCount":5`) {
						t.Errorf("chunk %d: %s, want %s", i, chunk, test.want[i])
					}
				}
				if last := chunks[len(chunks)-1]; !strings.Contains(last, `"candidatesTokenCount":5,"thoughtsTokenCount":3,"totalTokenCount":23`) {
					t.Error(last)
				}
			})
		}
	}
}

// geminiChunks reads a stream in either form, compacted.
func geminiChunks(t *testing.T, response *http.Response) []string {
	t.Helper()
	body := read(t, response)
	var raw []json.RawMessage
	if strings.HasPrefix(response.Header.Get("content-type"), "application/json") {
		if err := json.Unmarshal([]byte(body), &raw); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
	} else {
		list, _ := frames(strings.NewReader(body))
		for _, f := range list {
			raw = append(raw, json.RawMessage(f.data))
		}
	}
	var chunks []string
	for _, r := range raw {
		compact, err := json.Marshal(r)
		if err != nil {
			t.Fatalf("%v: %s", err, r)
		}
		chunks = append(chunks, string(compact))
	}
	return chunks
}

func TestGeminiArrayOfAnError(t *testing.T) {
	p, url := serve(t, demo.Options{})
	p.Push(demo.Step{Status: 503})
	for _, test := range []check{{geminiHello, `[{"error":{"code":503,`}, {`{}`, `[{"error":{"code":400,`}} {
		if got := read(t, ask(t, url, geminiArray, test.body)); !strings.HasPrefix(got, test.want) {
			t.Error(got)
		}
	}
}

func TestGeminiArrayThatBreaks(t *testing.T) {
	for _, after := range []int{0, 1} {
		p, url := serve(t, demo.Options{})
		p.Push(demo.Step{Break: demo.ErrorEvent, After: after, Status: 0, Type: "api_error"})
		chunks := geminiChunks(t, ask(t, url, geminiArray, geminiHello))
		if len(chunks) != after+1 || !strings.HasPrefix(chunks[after], `{"error":{"code":500,`) {
			t.Error(chunks)
		}
	}
}

func TestSignaturesOfEachDialect(t *testing.T) {
	one, oneURL := serve(t, demo.Options{Name: "one", CheckSignatures: true})
	_, twoURL := serve(t, demo.Options{Name: "two", CheckSignatures: true})
	step := demo.Step{Thinking: "hm", Text: "ok", Tools: []demo.Tool{{ID: "c1", Name: "a", Input: json.RawMessage(`{"y":1,"x":"2"}`)}}}
	try := func(url, path, body, want string) {
		t.Helper()
		response := ask(t, url, path, body)
		got := read(t, response)
		if (want == "") != (response.StatusCode == http.StatusOK) || !strings.Contains(got, want) {
			t.Errorf("%s: %d %s, want %q\n%s", path, response.StatusCode, got, want, body)
		}
	}

	one.Push(step)
	var message struct{ Content json.RawMessage }
	unmarshal(t, read(t, ask(t, oneURL, "/v1/messages", `{`+hello+`}`)), &message)
	result := `{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"done"}]}`
	body := conversation(asks, fmt.Sprintf(`{"role":"assistant","content":%s}`, message.Content), result)
	try(oneURL, "/v1/messages", body, "")
	try(oneURL, "/v1/messages", strings.Replace(body, `"thinking":"hm"`, `"thinking":""`, 1), "")
	try(twoURL, "/v1/messages", body, "messages.1.content.0: Invalid `signature` in `thinking` block")
	try(oneURL, "/v1/messages", strings.Replace(body, `"thinking":"hm"`, `"thinking":"ha"`, 1), "Invalid `signature`")
	try(oneURL, "/v1/messages", strings.Replace(body, `"signature":"ZGVt`, `"signature":"ZGVT`, 1), "Invalid `signature`")

	step.Redacted = true
	one.Push(step)
	unmarshal(t, read(t, ask(t, oneURL, "/v1/messages", `{`+hello+`}`)), &message)
	body = conversation(asks, fmt.Sprintf(`{"role":"assistant","content":%s}`, message.Content), result)
	try(oneURL, "/v1/messages", body, "")
	try(twoURL, "/v1/messages", body, "Invalid `data` in `redacted_thinking` block")

	one.Push(step)
	var answer struct{ Output []json.RawMessage }
	unmarshal(t, read(t, ask(t, oneURL, responsesPath, responsesHello)), &answer)
	items := []string{itemAsks}
	for _, item := range answer.Output {
		items = append(items, string(item))
	}
	body = itemsOf(append(items, itemResult)...)
	try(oneURL, responsesPath, body, "")
	try(twoURL, responsesPath, body, `"code":"invalid_encrypted_content"`)
	try(oneURL, responsesPath, strings.Replace(body, `"gAAAA`, `"gAAAAA`, 1), `"code":"invalid_encrypted_content"`)
	try(oneURL, responsesPath, strings.Replace(body, `"id":"rs_one`, `"id":"rs_two`, 1), `"code":"invalid_encrypted_content"`)

	one.Push(step)
	var gem struct {
		Candidates []struct{ Content json.RawMessage }
	}
	unmarshal(t, read(t, ask(t, oneURL, geminiPath, geminiHello)), &gem)
	body = gemOf(gemAsks, string(gem.Candidates[0].Content), strings.Replace(gemResult, `"name"`, `"id":"c1","name"`, 1))
	try(oneURL, geminiPath, body, "")
	try(oneURL, geminiPath, strings.Replace(body, `{"y":1,"x":"2"}`, `{"x":"2", "y":1}`, 1), "")
	try(twoURL, geminiPath, body, "Invalid thought signature")
	try(oneURL, geminiPath, strings.Replace(body, `{"y":1,"x":"2"}`, `{"y":2,"x":"2"}`, 1), "Invalid thought signature")
	try(oneURL, geminiPath, gemOf(gemAsks, gemCall, gemResult), "Function call is missing a thought_signature in functionCall parts")
	try(oneURL, geminiPath, gemOf(gemAsks, gemCall, gemResult, gemSays, gemAsks), "")
	try(oneURL, "/v1beta/models/gemini-2.5-pro:generateContent", gemOf(gemAsks, gemCall, gemResult), "")
	try(oneURL, geminiPath, gemOf(gemAsks, strings.Replace(gemCall, `{"functionCall"`, `{"thoughtSignature":"skip_thought_signature_validator","functionCall"`, 1), gemResult), "")
}

func unmarshal(t *testing.T, body string, value any) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), value); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
}
