package demo_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"coding-proxy/proxy/demo"
)

// call sends a body to a host of the service.
func call(host http.Handler, action, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "https://x.test/v1internal:"+action, strings.NewReader(body))
	r.Header.Set("content-type", "application/json")
	r.Header.Set("authorization", "Bearer t")
	for n := 0; n+1 < len(header); n += 2 {
		r.Header.Set(header[n], header[n+1])
	}
	w := httptest.NewRecorder()
	host.ServeHTTP(w, r)
	return w
}

// enveloped is a good request; its id must be new each time.
func enveloped(id, members string) string {
	return `{"project":"demo-project","model":"gemini-2.5-pro","requestId":"agent-` + id + `","userAgent":"antigravity","requestType":"agent","request":{"contents":[{"role":"user","parts":[{"text":"hi"}]}],"sessionId":"-1"` + members + `}}`
}

func TestCodeAssistAnswers(t *testing.T) {
	s := demo.NewCodeAssist(demo.CodeAssistOptions{})
	host := s.Host()
	s.Provider().Always(demo.Step{Text: "one two"})
	type answer struct {
		Response struct {
			Candidates []json.RawMessage `json:"candidates"`
		} `json:"response"`
		Trace string `json:"traceId"`
	}
	good := func(text string) {
		t.Helper()
		var a answer
		if err := json.Unmarshal([]byte(text), &a); err != nil || len(a.Response.Candidates) != 1 || a.Trace == "" {
			t.Errorf("%q: %v", text, err)
		}
	}
	good(call(host, "generateContent", enveloped("1", "")).Body.String())
	events := strings.Split(strings.TrimSpace(call(host, "streamGenerateContent?alt=sse", enveloped("2", "")).Body.String()), "\r\n\r\n")
	if len(events) < 2 {
		t.Errorf("%q", events)
	}
	for _, event := range events {
		good(strings.TrimPrefix(event, "data: "))
	}
	var chunks []json.RawMessage
	if err := json.Unmarshal(call(host, "streamGenerateContent", enveloped("3", "")).Body.Bytes(), &chunks); err != nil || len(chunks) != len(events) {
		t.Fatalf("%d chunks: %v", len(chunks), err)
	}
	for _, chunk := range chunks {
		good(string(chunk))
	}
	host.Push("", demo.AssistStep{Bare: true})
	if got := call(host, "generateContent", enveloped("4", "")).Body.String(); !strings.HasPrefix(got, `{"candidates"`) {
		t.Errorf("bare: %s", got)
	}
	if got := call(host, "countTokens", `{"request":{"contents":[{"parts":[{"text":"hi"}]}]}}`).Body.String(); !strings.HasPrefix(got, `{"totalTokens"`) {
		t.Errorf("countTokens: %s", got)
	}
	s.Provider().Push(demo.Step{Status: 500, Message: "no"})
	if w := call(host, "generateContent", enveloped("5", "")); w.Code != 500 || !strings.HasPrefix(w.Body.String(), `{"error"`) {
		t.Errorf("an error: %d %s", w.Code, w.Body)
	}
	if got := s.Provider().Requests()[0]; got.Path != "/v1beta/models/gemini-2.5-pro:generateContent" || strings.Contains(string(got.Body), "sessionId") {
		t.Errorf("the provider has got %s %s", got.Path, got.Body)
	}
	if host.Count("generateContent") != 3 || host.Count("streamGenerateContent") != 2 || len(host.Requests()) != 6 {
		t.Error("the requests are not counted")
	}
}

func TestCodeAssistChecks(t *testing.T) {
	s := demo.NewCodeAssist(demo.CodeAssistOptions{Valid: func(token string) bool { return token == "t" }})
	host := s.Host()
	if w := call(host, "generateContent", enveloped("1", "")); w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	claude := func(id, members string) string {
		return strings.Replace(enveloped(id, members), "gemini-2.5-pro", "claude-x", 1)
	}
	const (
		needs     = `,"tools":[{"functionDeclarations":[{"name":"a","parameters":{"type":"OBJECT","properties":{"p":{"type":"STRING"}},"required":["p"]}}]}]`
		nothing   = `,"tools":[{"functionDeclarations":[{"name":"a","parameters":{"type":"OBJECT"}}]}]`
		validated = `,"toolConfig":{"functionCallingConfig":{"mode":"VALIDATED"}}`
	)
	for name, bad := range map[string]string{
		"seen id":         enveloped("1", ""),
		"no JSON":         "{",
		"not wrapped":     `{"contents":[]}`,
		"no request":      `{"project":"demo-project"}`,
		"other project":   strings.Replace(enveloped("2", ""), "demo-project", "p", 1),
		"model's prefix":  strings.Replace(enveloped("3", ""), "gemini-2.5-pro", "models/gemini", 1),
		"no session":      strings.Replace(enveloped("4", ""), `"-1"`, `"1"`, 1),
		"request type":    strings.Replace(enveloped("5", ""), `"requestType":"agent"`, `"requestType":"x"`, 1),
		"safety settings": enveloped("6", `,"safetySettings":[]`),
		"model inside":    enveloped("7", `,"model":"x"`),
		"no schema":       claude("a", `,"tools":[{"functionDeclarations":[{"name":"a"}]}]`),
		"another schema":  claude("b", `,"tools":[{"functionDeclarations":[{"name":"a","parametersJsonSchema":{"type":"object"}}]}]`),
		"VALIDATED":       claude("c", nothing+validated),
		"bad contents":    strings.Replace(enveloped("8", ""), `"hi"`, `1`, 1),
	} {
		if w := call(host, "generateContent", bad); w.Code < 400 || w.Code > 403 {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	for id, members := range map[string]string{"d": nothing, "e": needs + validated, "f": needs} {
		if w := call(host, "generateContent", claude(id, members)); w.Code != 200 {
			t.Errorf("Claude with %s: %d %s", members, w.Code, w.Body)
		}
	}
	for name, header := range map[string][]string{
		"no token":    {"authorization", ""},
		"bad token":   {"authorization", "Bearer x"},
		"another key": {"x-goog-api-key", "t"},
		"no JSON":     {"content-type", "text/plain"},
	} {
		if w := call(host, "generateContent", enveloped("h"+name, ""), header...); w.Code != 401 && w.Code != 400 {
			t.Errorf("%s: %d", name, w.Code)
		}
	}
	for _, action := range []string{"embedContent", "x/v1internal:generateContent"} {
		if w := call(host, action, `{}`); w.Code != 404 {
			t.Errorf("%s: %d", action, w.Code)
		}
	}
}

func TestCodeAssistAccount(t *testing.T) {
	const who = `{"metadata":{"ideType":"ANTIGRAVITY"}}`
	s := demo.NewCodeAssist(demo.CodeAssistOptions{Onboarding: 2, AsObject: true})
	host, other := s.Host(), s.Host()
	if got := call(host, "loadCodeAssist", who).Body.String(); strings.Contains(got, "cloudaicompanionProject") || !strings.Contains(got, `"isDefault":true`) {
		t.Error(got)
	}
	if w := call(host, "loadCodeAssist", `{}`); w.Code != 400 {
		t.Error(w.Body)
	}
	if w := call(host, "onboardUser", `{"tier_id":"x"}`); w.Code != 400 {
		t.Error(w.Body)
	}
	if got := call(host, "onboardUser", `{"tier_id":"free-tier"}`).Body.String(); strings.Contains(got, "done") {
		t.Error(got)
	}
	if got := call(other, "onboardUser", `{"tierId":"free-tier"}`).Body.String(); !strings.Contains(got, `"done":true,"response":{"cloudaicompanionProject":{"id":"demo-project"`) {
		t.Error(got)
	}
	if got := call(host, "loadCodeAssist", who).Body.String(); !strings.Contains(got, `"cloudaicompanionProject":{"id":"demo-project"`) {
		t.Error(got)
	}
	if got := call(host, "fetchAvailableModels", `{"project":"demo-project"}`).Body.String(); !strings.Contains(got, `"remainingFraction":1`) {
		t.Error(got)
	}
	if w := call(host, "fetchAvailableModels", `{}`); w.Code != 403 {
		t.Error(w.Body)
	}
	barred := demo.NewCodeAssist(demo.CodeAssistOptions{Ineligible: "UNSUPPORTED_LOCATION"}).Host()
	if got := call(barred, "loadCodeAssist", who).Body.String(); !strings.Contains(got, `"reasonCode":"UNSUPPORTED_LOCATION"`) || strings.Contains(got, "allowedTiers") {
		t.Error(got)
	}
}

func TestCodeAssistSteps(t *testing.T) {
	host := demo.NewCodeAssist(demo.CodeAssistOptions{}).Host()
	host.Push("", demo.AssistStep{Status: 429, Reason: "QUOTA_EXHAUSTED", ResetDelay: "1h", ResetAt: "2026-12-01T00:00:00Z", RetryDelay: "3600s", Message: "used up"},
		demo.AssistStep{Status: 503, Array: true}, demo.AssistStep{Status: 500, Enveloped: true}, demo.AssistStep{Status: 404, Raw: "<p>"})
	for _, want := range []string{
		`{"error":{"code":429,"message":"used up","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"QUOTA_EXHAUSTED","domain":"cloudcode-pa.googleapis.com","metadata":{"quotaResetDelay":"1h","quotaResetTimeStamp":"2026-12-01T00:00:00Z"}},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"3600s"}]}}`,
		`[{"error":{"code":503,"message":"Service Unavailable","status":"UNAVAILABLE"}}]`,
		`{"response":{"error":{"code":500,"message":"Internal Server Error","status":"INTERNAL"}}}`,
		`<p>`,
	} {
		if got := call(host, "generateContent", "{}").Body.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	host.Always(demo.AssistStep{Status: 503})
	host.Push("loadCodeAssist", demo.AssistStep{})
	if w := call(host, "loadCodeAssist", `{"metadata":{"ideType":"A"}}`); w.Code != 200 {
		t.Error(w.Code)
	}
	if w := call(host, "loadCodeAssist", `{}`); w.Code != 503 {
		t.Error(w.Code)
	}
}

// TestCodeAssistBreaks: an answer that breaks off does so in its envelope, too.
func TestCodeAssistBreaks(t *testing.T) {
	s := demo.NewCodeAssist(demo.CodeAssistOptions{})
	server := httptest.NewServer(s.Host())
	defer server.Close()
	s.Provider().Push(demo.Step{Text: "one two three", Break: demo.ErrorEvent, After: 1, Status: 0, Type: "overloaded_error"}, demo.Step{Break: demo.Cut})
	post := func(id, action string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/v1internal:"+action, strings.NewReader(enveloped(id, "")))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Authorization": {"Bearer t"}, "Content-Type": {"application/json"}}
		response, err := new(http.Client).Do(r)
		if err != nil {
			return nil
		}
		t.Cleanup(func() { response.Body.Close() })
		return response
	}
	if got := read(t, post("1", "streamGenerateContent?alt=sse")); !strings.Contains(got, `data: {"response": {`) || !strings.Contains(got, `data: {"error"`) {
		t.Errorf("%q", got)
	}
	if post("2", "generateContent") != nil {
		t.Error("the connection was not cut")
	}
	if got := read(t, post("3", "generateContent")); !strings.HasSuffix(got, `"metadata": {}}`) {
		t.Errorf("the whole answer is %q", got)
	}
}
