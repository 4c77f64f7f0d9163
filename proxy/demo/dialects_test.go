package demo_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"coding-proxy/proxy/demo"
)

// A short request in each dialect, by the path it goes to.
const (
	chatPath      = "/v1/chat/completions"
	responsesPath = "/v1/responses"
	geminiPath    = "/v1beta/models/gemini-3.8-flash:generateContent"
	geminiSSE     = "/v1beta/models/gemini-3.8-flash:streamGenerateContent?alt=sse"
	geminiArray   = "/v1beta/models/gemini-3.8-flash:streamGenerateContent"

	chatHello      = `{"model":"gpt-4.1","messages":[{"role":"user","content":"say hi"}]}`
	responsesHello = `{"model":"gpt-4.1","input":"say hi"}`
	geminiHello    = `{"contents":[{"role":"user","parts":[{"text":"say hi"}]}]}`
)

// dialectOf is the dialect of a path of this test.
func dialectOf(path string) string {
	switch {
	case strings.Contains(path, "messages"):
		return "anthropic"
	case strings.Contains(path, "v1beta"), strings.Contains(path, ":"):
		return "gemini"
	case strings.Contains(path, "responses"):
		return "openai-responses"
	}
	return "openai-chat"
}

// with adds members to an object.
func with(body, members string) string { return strings.TrimSuffix(body, "}") + "," + members + "}" }

func ask(t *testing.T, url, path, body string) *http.Response {
	t.Helper()
	return post(t, url+path, body, sender(dialectOf(path)))
}

// check is one body and part of its refusal; empty: it is taken.
type check struct{ body, want string }

// runChecks sends bodies and compares how they are refused: with a 400 in the dialect's envelope, unless status says otherwise.
func runChecks(t *testing.T, options demo.Options, path string, checks map[string]check) {
	t.Helper()
	_, url := serve(t, options)
	for name, test := range checks {
		t.Run(name, func(t *testing.T) {
			response := ask(t, url, path, test.body)
			got := read(t, response)
			if test.want == "" {
				if response.StatusCode != http.StatusOK {
					t.Errorf("%d %s", response.StatusCode, got)
				}
				return
			}
			status := http.StatusBadRequest
			if strings.HasPrefix(test.want, "404 ") {
				status = http.StatusNotFound
			}
			want := strings.TrimPrefix(test.want, "404 ")
			if response.StatusCode != status || !strings.Contains(messageOf(t, got), want) {
				t.Errorf("%d %s, want %q", response.StatusCode, got, want)
			}
		})
	}
}

// messageOf reads an error envelope of OpenAI or Google: message, then param and code.
func messageOf(t *testing.T, body string) string {
	t.Helper()
	var e struct {
		Error *struct {
			Message, Type, Status string
			Code                  any
			Param                 *string
		}
	}
	if err := json.Unmarshal([]byte(body), &e); err != nil || e.Error == nil || e.Error.Type+e.Error.Status == "" {
		t.Fatalf("no error envelope: %s", body)
	}
	code, _ := json.Marshal(e.Error.Code)
	param := "null"
	if e.Error.Param != nil {
		param = *e.Error.Param
	}
	return e.Error.Message + " param=" + param + " code=" + string(code) + " " + e.Error.Type + e.Error.Status
}

func TestEachDialectAnswersBelowAnyPrefix(t *testing.T) {
	p, url := serve(t, demo.Options{Name: "sim"})
	for path, test := range map[string]struct{ body, want string }{
		"/v1/messages":         {`{` + hello + `}`, `"text":"Hello from sim."`},
		chatPath:               {chatHello, `"content":"Hello from sim."`},
		"/v4/chat/completions": {chatHello, `"object":"chat.completion"`},
		responsesPath:          {responsesHello, `"status":"completed"`},
		geminiPath:             {geminiHello, `"text":"Hello from sim."`},
		"/v1/models/gemini-2.5-pro:generateContent":                   {geminiHello, `"finishReason":"STOP"`},
		"/v1/publishers/google/models/gemini-2.5-pro:generateContent": {geminiHello, `"role":"model"`},
		"/v1beta/models/gemini-2.5-pro:countTokens":                   {geminiHello, `"totalTokens":`},
		"/v1beta/models/gemini-2.5-flash:countTokens":                 {`{"generateContentRequest":` + geminiHello + `}`, `"totalTokens":`},
		"/v1beta/models/embed:embedContent":                           {`{"content":{"parts":[{"text":"a"}]}}`, `"embedding":{"values":[`},
		"/v1beta/models/embed:batchEmbedContents":                     {`{"requests":[{"model":"models/embed","content":{"parts":[{"text":"a"}]}}]}`, `"embeddings":[{"values":[`},
		"/v1/responses/input_tokens":                                  {responsesHello, `{"object":"response.input_tokens","input_tokens":`},
		"/v1/responses/compact":                                       {responsesHello, `"object":"response.compaction"`},
		"/v1/embeddings":                                              {`{"model":"e","input":["a","b"]}`, `{"object":"embedding","index":1,"embedding":[`},
		"/v1/completions":                                             {`{"model":"e","prompt":"a"}`, `"text":"Hello from sim."`},
		"/v1/moderations":                                             {`{"input":"a"}`, `"flagged":false`},
		"/v1/images/generations":                                      {`{"prompt":"a"}`, `"b64_json":"iVBOR`},
		"/v1/audio/speech":                                            {`{"model":"tts","input":"hi","voice":"alloy"}`, `ID3 demo speech: hi`},
	} {
		for _, prefix := range []string{"", "/gateway/x"} {
			response := ask(t, url, prefix+path, test.body)
			if got := read(t, response); response.StatusCode != http.StatusOK || !strings.Contains(got, test.want) {
				t.Errorf("%s%s: %d %s", prefix, path, response.StatusCode, got)
			}
		}
	}
	if got := p.Requests(); len(got) != 36 || got[0].Outcome != demo.Completed {
		t.Errorf("%d requests", len(got))
	}
}

func TestOtherDialectsAreNotFound(t *testing.T) {
	for dialect, path := range map[string]string{
		"anthropic": "/v1/messages", "openai-chat": chatPath, "openai-responses": responsesPath, "gemini": geminiPath,
	} {
		_, url := serve(t, demo.Options{Dialects: []string{dialect}})
		for other, body := range map[string]string{"/v1/messages": `{` + hello + `}`, chatPath: chatHello, responsesPath: responsesHello, geminiPath: geminiHello} {
			response := ask(t, url, other, body)
			got := read(t, response)
			if other == path {
				if response.StatusCode != http.StatusOK {
					t.Errorf("%s: %s: %d %s", dialect, other, response.StatusCode, got)
				}
				continue
			}
			want := map[string]string{"anthropic": `"type":"not_found_error"`, "gemini": `"status":"NOT_FOUND"`}[dialectOf(other)]
			if want == "" {
				want = `"type":"invalid_request_error","param":null,"code":null`
			}
			if response.StatusCode != http.StatusNotFound || !strings.Contains(got, want) {
				t.Errorf("%s: %s: %d %s", dialect, other, response.StatusCode, got)
			}
		}
	}
}

func TestCredentialsOfEachDialect(t *testing.T) {
	_, url := serve(t, demo.Options{Keys: []string{"good"}})
	for _, test := range []struct {
		path, body, header, value string
		status                    int
		want                      string
	}{
		{chatPath, chatHello, "authorization", "Bearer good", 200, ""},
		{chatPath, chatHello, "authorization", "Bearer bad", 401, `"code":"invalid_api_key"`},
		{chatPath, chatHello, "authorization", "Basic good", 401, `"code":"invalid_api_key"`},
		{chatPath, chatHello, "x-api-key", "good", 401, `"code":null`},
		{responsesPath, responsesHello, "authorization", "Bearer good", 200, ""},
		{responsesPath, responsesHello, "", "", 401, `"type":"invalid_request_error"`},
		{geminiPath, geminiHello, "x-goog-api-key", "good", 200, ""},
		{geminiPath, geminiHello, "authorization", "Bearer good", 200, ""},
		{geminiPath + "?key=good", geminiHello, "", "", 200, ""},
		{geminiPath + "?key=bad", geminiHello, "x-goog-api-key", "good", 400, `"reason":"API_KEY_INVALID"`},
		{geminiPath, geminiHello, "x-api-key", "good", 403, `"status":"PERMISSION_DENIED"`},
	} {
		response := post(t, url+test.path, test.body, func(h http.Header) {
			h.Del("x-api-key")
			h.Del("anthropic-version")
			if test.header != "" {
				h.Set(test.header, test.value)
			}
		})
		if got := read(t, response); response.StatusCode != test.status || !strings.Contains(got, test.want) {
			t.Errorf("%+v: %d %s", test, response.StatusCode, got)
		}
	}
}

func TestModelListsOfEachDialect(t *testing.T) {
	_, url := serve(t, demo.Options{Models: []string{"m-1", "m-2", "m-3"}})
	for _, test := range []struct{ path, dialect, want string }{
		{"/v1/models", "anthropic", `"first_id":"m-1"`},
		{"/v1/models", "openai-chat", `{"object":"list","data":[{"id":"m-1","object":"model","created":`},
		{"/v1/models/m-2", "openai-chat", `{"id":"m-2","object":"model"`},
		{"/v1/models/m-9", "openai-chat", `"code":"model_not_found"`},
		{"/v1beta/models", "gemini", `{"models":[{"name":"models/m-1"`},
		{"/v1beta/models?pageSize=2", "gemini", `"nextPageToken":"2"`},
		{"/v1beta/models?pageSize=2&pageToken=2", "gemini", `{"models":[{"name":"models/m-3"`},
		{"/v1beta/models?pageToken=x", "gemini", `"INVALID_ARGUMENT"`},
		{"/v1/models", "gemini", `{"models":[`},
		{"/v1beta/models/m-2", "gemini", `"name":"models/m-2"`},
		{"/v1beta/models/m-9", "gemini", `"status":"NOT_FOUND"`},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+test.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := read(t, send(t, request, sender(test.dialect))); !strings.Contains(got, test.want) {
			t.Errorf("%+v: %s", test, got)
		}
	}
}

func TestUnknownModelInEachDialect(t *testing.T) {
	_, url := serve(t, demo.Options{Models: []string{"m"}})
	for path, test := range map[string]struct{ body, want string }{
		chatPath:      {chatHello, `"code":"model_not_found"`},
		responsesPath: {responsesHello, `"code":"model_not_found"`},
		geminiPath:    {geminiHello, `models/gemini-3.8-flash is not found`},
	} {
		response := ask(t, url, path, test.body)
		if got := read(t, response); response.StatusCode != http.StatusNotFound || !strings.Contains(got, test.want) {
			t.Errorf("%s: %d %s", path, response.StatusCode, got)
		}
	}
}

func TestErrorStepsOfEachDialect(t *testing.T) {
	for _, test := range []struct {
		step                        demo.Step
		status                      int
		anthropic, openAI, googleIs string
	}{
		{demo.Step{Status: 429, Header: http.Header{"Retry-After": {"7"}}}, 429, `"rate_limit_error"`, `"code":"rate_limit_exceeded"`, `"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"7s"}]`},
		{demo.Step{Status: 429, Code: "insufficient_quota"}, 429, `"rate_limit_error"`, `"code":"insufficient_quota"`, `"RESOURCE_EXHAUSTED"`},
		{demo.Step{Status: 500}, 500, `"api_error"`, `"server_error"`, `"INTERNAL"`},
		{demo.Step{Status: 503}, 503, `"overloaded_error"`, `"server_error"`, `"UNAVAILABLE"`},
		{demo.Step{Status: 504}, 504, `"timeout_error"`, `"server_error"`, `"DEADLINE_EXCEEDED"`},
		{demo.Step{Status: 529}, 529, `"overloaded_error"`, `"server_error"`, `"UNAVAILABLE"`},
		{demo.Step{Status: 403}, 403, `"permission_error"`, `"invalid_request_error"`, `"PERMISSION_DENIED"`},
		{demo.Step{Status: 401}, 401, `"authentication_error"`, `"invalid_api_key"`, `"UNAUTHENTICATED"`},
		{demo.Step{Status: 400, Message: "own"}, 400, `"message":"own"`, `"message":"own"`, `"INVALID_ARGUMENT"`},
		{demo.Step{Status: 400, Type: "own_word"}, 400, `"own_word"`, `"own_word"`, `"own_word"`},
		{demo.Step{Status: 429, Type: "rate_limit_error"}, 429, `"rate_limit_error"`, `"rate_limit_error"`, `"RESOURCE_EXHAUSTED"`},
	} {
		for path, bodyAndWant := range map[string][2]string{
			"/v1/messages": {`{` + hello + `}`, test.anthropic}, chatPath: {chatHello, test.openAI}, responsesPath: {responsesHello, test.openAI}, geminiPath: {geminiHello, test.googleIs},
		} {
			p, url := serve(t, demo.Options{})
			p.Push(test.step)
			response := ask(t, url, path, bodyAndWant[0])
			if got := read(t, response); response.StatusCode != test.status || !strings.Contains(got, bodyAndWant[1]) {
				t.Errorf("%s %+v: %d %s", path, test.step, response.StatusCode, got)
			}
		}
	}
}

// TestBreaksOfEachDialect: what has come stays whole, and the end is the dialect's.
func TestBreaksOfEachDialect(t *testing.T) {
	chat, responses := with(chatHello, `"stream":true`), with(responsesHello, `"stream":true`)
	for name, test := range map[string]struct {
		path, body string
		step       demo.Step
		last       string
		err        error
	}{
		"chat error":         {chatPath, chat, demo.Step{Break: demo.ErrorEvent, After: 2, Status: 0, Message: "broken"}, `{"error":{"message":"broken","type":"server_error"`, io.EOF},
		"chat cut":           {chatPath, chat, demo.Step{Break: demo.Cut, After: 1}, `"delta":{"role":"assistant"`, io.ErrUnexpectedEOF},
		"chat end":           {chatPath, chat, demo.Step{Break: demo.End, After: 1}, `"delta":{"role":"assistant"`, io.EOF},
		"chat no finish":     {chatPath, chat, demo.Step{Break: demo.NoFinish}, `[DONE]`, io.EOF},
		"responses error":    {responsesPath, responses, demo.Step{Break: demo.ErrorEvent, After: 5, Type: "rate_limit_error"}, `{"type":"response.failed","sequence_number":5,"response":{"id":"resp_demo`, io.EOF},
		"responses cut":      {responsesPath, responses, demo.Step{Break: demo.Cut, After: 2}, `"type":"response.in_progress"`, io.ErrUnexpectedEOF},
		"responses end":      {responsesPath, responses, demo.Step{Break: demo.End, After: 3}, `"type":"response.output_item.added"`, io.EOF},
		"responses finish":   {responsesPath, responses, demo.Step{Break: demo.NoFinish}, `"type":"response.output_item.done"`, io.EOF},
		"gemini error":       {geminiSSE, geminiHello, demo.Step{Break: demo.ErrorEvent, After: 1}, `{"error":{"code":503,"message":"Service Unavailable","status":"UNAVAILABLE"}}`, io.EOF},
		"gemini cut":         {geminiSSE, geminiHello, demo.Step{Break: demo.Cut, After: 1}, `"text":"Hello "`, io.ErrUnexpectedEOF},
		"gemini end":         {geminiSSE, geminiHello, demo.Step{Break: demo.End, After: 1}, `"text":"Hello "`, io.EOF},
		"gemini no finish":   {geminiSSE, geminiHello, demo.Step{Break: demo.NoFinish}, `"thoughtSignature":`, io.EOF},
		"messages no finish": {"/v1/messages", `{` + hello + `,"stream":true}`, demo.Step{Break: demo.NoFinish}, `{"type":"message_stop"}`, io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			p, url := serve(t, demo.Options{})
			p.Push(test.step)
			list, err := frames(ask(t, url, test.path, test.body).Body)
			if err != test.err || len(list) == 0 || !strings.Contains(list[len(list)-1].data, test.last) {
				t.Fatalf("%v after %+v", err, list)
			}
			for _, f := range list {
				if test.step.Break == demo.NoFinish && (strings.Contains(f.data, `"finish_reason":"`) || strings.Contains(f.data, `"finishReason"`) || strings.Contains(f.data, "response.completed") || strings.Contains(f.data, `"stop_reason":"`)) {
					t.Error(f.data)
				}
			}
		})
	}
}

func TestHoldInEachDialect(t *testing.T) {
	for path, body := range map[string]string{chatPath: with(chatHello, `"stream":true`), responsesPath: with(responsesHello, `"stream":true`), geminiSSE: geminiHello, geminiArray: geminiHello} {
		p, url := serve(t, demo.Options{})
		hold := demo.HoldAt(3)
		p.Push(demo.Step{Hold: hold, Text: "one two three four"})
		response := ask(t, url, path, body)
		<-hold.Reached()
		hold.Release()
		if got := read(t, response); !strings.Contains(got, "four") {
			t.Errorf("%s: %s", path, got)
		}
	}
}
