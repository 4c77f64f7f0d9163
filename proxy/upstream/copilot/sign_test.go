package copilot

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"coding-proxy/proxy/demo"
	"coding-proxy/proxy/ir"
)

func TestHeaders(t *testing.T) {
	a := newAccount(t, demo.CopilotOptions{}, nil)
	uuid := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	foreign := []string{"Authorization: Bearer client-key", "X-Api-Key: client-key", "Api-Key: client-key", "X-Goog-Api-Key: client-key", "Cookie: a=client-key", "Anthropic-Beta: a,b",
		"Anthropic-Dangerous-Direct-Browser-Access: true", "Openai-Organization: client-org", "Chatgpt-Account-Id: client-id", "X-Initiator: agent", "Copilot-Vision-Request: true",
		"User-Agent: claude-cli/9", "X-Stainless-Lang: js", "Accept: text/event-stream"}
	ids := map[string]bool{}
	for _, test := range []struct{ path, body, intent, beta string }{
		{"/v1/messages", askClaude, "messages-proxy", "a,b"}, {"/v1/responses", askCodex, "conversation-agent", ""}, {"/v1/chat/completions", askChat, "conversation-agent", ""},
	} {
		a.wantGood(test.path, test.body, foreign...)
		h := a.last().Header
		for name, want := range map[string]string{"User-Agent": "coding-proxy/1.2", "Editor-Version": "coding-proxy/1.2", "Editor-Plugin-Version": "coding-proxy/1.2",
			"Copilot-Integration-Id": "vscode-chat", "X-Github-Api-Version": apiVersion, "Openai-Intent": test.intent, "X-Initiator": "user", "Copilot-Vision-Request": "",
			"Content-Type": "application/json", "Anthropic-Beta": test.beta, "Anthropic-Dangerous-Direct-Browser-Access": "", "Openai-Organization": "", "Chatgpt-Account-Id": "",
			"X-Stainless-Lang": "js", "Accept": "text/event-stream"} {
			if got := strings.Join(h.Values(name), "|"); got != want {
				t.Errorf("%s: %s is %q, want %q", test.path, name, got, want)
			}
		}
		for name, values := range h {
			if strings.Contains(strings.Join(values, "|"), "client-") {
				t.Errorf("%s: the client's %s came along", test.path, name)
			}
		}
		if id := h.Get("X-Request-Id"); !uuid.MatchString(id) || ids[id] {
			t.Errorf("x-request-id is %q", id)
		} else {
			ids[id] = true
		}
	}
}

// The demo refuses what does not fit the body, so these show that header and body agree.
func TestTurnsOnTheWire(t *testing.T) {
	a := newAccount(t, demo.CopilotOptions{}, nil)
	const (
		picture = `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}`
		call    = `{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"a","input":{}}]}`
		tools   = `"tools":[{"name":"a","input_schema":{"type":"object"}}]`
	)
	for name, test := range map[string]struct{ body, initiator, vision string }{
		"image":             {`{"model":"claude-sonnet-4.5","max_tokens":9,"messages":[{"role":"user","content":[` + picture + `]}]}`, "user", "true"},
		"result":            {`{"model":"claude-sonnet-4.5","max_tokens":9,` + tools + `,"messages":[{"role":"user","content":"x"},` + call + `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"x"}]}]}`, "agent", ""},
		"image in a result": {`{"model":"claude-sonnet-4.5","max_tokens":9,` + tools + `,"messages":[{"role":"user","content":"x"},` + call + `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":[` + picture + `]},{"type":"text","text":"look"}]}]}`, "user", "true"},
	} {
		a.wantGood("/v1/messages", test.body)
		if h := a.last().Header; h.Get("X-Initiator") != test.initiator || h.Get("Copilot-Vision-Request") != test.vision {
			t.Errorf("%s: %q and %q", name, h.Get("X-Initiator"), h.Get("Copilot-Vision-Request"))
		}
	}
}

func TestPaths(t *testing.T) {
	for _, base := range []string{"https://api.githubcopilot.com", "https://api.githubcopilot.com/", "https://gateway.example/copilot/", "https://gateway.example/a%2Fb"} {
		for path, want := range map[string]string{"/v1/messages": "/v1/messages", "/v1/messages/count_tokens": "/v1/messages/count_tokens", "/v1/chat/completions": "/chat/completions",
			"/v1/responses": "/responses", "/v1/responses/compact": "/responses/compact", "/v1/embeddings": "/embeddings", "/v1/models": "/models", "/v1/models/a%2Fb": "/models/a%2Fb",
			"/v1/messages2": "/messages2", "/other": "/other"} {
			got := below(parse(t, base), parse(t, path+"?beta=true"))
			if want := strings.TrimSuffix(base, "/") + want + "?beta=true"; got.String() != want {
				t.Errorf("%s below %s: %s, want %s", path, base, got, want)
			}
		}
	}
}

// closing notes whether a body was closed.
type closing struct {
	io.Reader
	closed *bool
}

func (c closing) Close() error {
	*c.closed = true
	return nil
}

// A second try has the name that the list has now, in the path's own dialect, and nothing else changes.
func TestRenamedOnASecondTry(t *testing.T) {
	a := newAccount(t, demo.CopilotOptions{Models: []demo.CopilotModel{{ID: "claude-sonnet-4.5", Endpoints: []string{"/v1/messages"}},
		{ID: "claude-sonnet-4.6", Endpoints: []string{"/chat/completions"}}, {ID: "gpt-5"}}}, nil)
	if _, f := a.Models(t.Context()); f != nil {
		t.Fatalf("%+v", f)
	}
	for _, test := range []struct {
		try              int
		path, body, want string
	}{
		{0, "/v1/messages", `{ "model" : "claude-sonnet-4" }`, `{ "model" : "claude-sonnet-4" }`},
		{1, "/v1/messages", `{ "a":{"model":"x"}, "model" : "claude-sonnet-4", "b":1 }`, `{ "a":{"model":"x"}, "model" : "claude-sonnet-4.5", "b":1 }`},
		{1, "/v1/messages", `{"mod\u0065l":"claude-sonnet-4"}`, `{"mod\u0065l":"claude-sonnet-4.5"}`},
		{1, "/v1/messages", `{"model":"claude-sonnet-4.5"}`, `{"model":"claude-sonnet-4.5"}`},
		{1, "/v1/messages", `{"model":"claude-opus-4"}`, `{"model":"claude-opus-4"}`},
		{1, "/v1/chat/completions", `{"model":"claude-sonnet-4"}`, `{"model":"claude-sonnet-4.6"}`},
		{2, "/v1/responses", `{"model":"gpt-5-2025-08-07"}`, `{"model":"gpt-5"}`},
		{1, "/v1/embeddings", `{"model":"gpt-5-2025-08-07"}`, `{"model":"gpt-5-2025-08-07"}`},
		{1, "/v1/messages", `{"model":7}`, `{"model":7}`},
		{1, "/v1/messages", `{"model":"claude-sonnet-4"`, `{"model":"claude-sonnet-4"`},
	} {
		closed := false
		req := &http.Request{Method: http.MethodPost, URL: parse(t, test.path), Header: http.Header{}, ContentLength: int64(len(test.body))}
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(test.body)), nil }
		req.Body = closing{strings.NewReader(test.body), &closed}
		if f := a.Sign(req, test.try); f != nil {
			t.Fatalf("%+v", f)
		}
		for _, again := range []bool{false, true} {
			if again {
				req.Body, _ = req.GetBody()
			}
			got, err := io.ReadAll(req.Body)
			if err != nil || string(got) != test.want || req.ContentLength != int64(len(test.want)) {
				t.Errorf("%s, try %d: %s (%d bytes promised), want %s", test.path, test.try, got, req.ContentLength, test.want)
			}
		}
		if closed != (test.body != test.want) {
			t.Errorf("%s: the old body's end: %v", test.body, closed)
		}
	}
}

func TestModelNotSupported(t *testing.T) {
	a := newAccount(t, demo.CopilotOptions{}, nil)
	if protocol, name, f := a.Choose(t.Context(), anthropic, "claude-sonnet-4-5-20250929"); f != nil || protocol != anthropic || name != "claude-sonnet-4.5" {
		t.Errorf("%s %s %+v", protocol, name, f)
	}
	lists := func() (n int) {
		for _, r := range a.demo.Arrived() {
			if strings.HasSuffix(r.Path, "/models") {
				n++
			}
		}
		return n
	}
	a.demo.Unknown("claude-sonnet-4.5") // until the list is asked for
	if r := a.wantGood("/v1/messages", askClaude); len(r.sends) != 2 || lists() != 2 {
		t.Errorf("%d tries, %d lists", len(r.sends), lists())
	}
	a.demo.SetModels(demo.CopilotModel{ID: "claude-sonnet-4.6"})
	if r := a.wantGood("/v1/messages", askClaude); len(r.sends) != 2 || !strings.Contains(string(a.last().Body), `"claude-sonnet-4.6"`) {
		t.Errorf("%d tries, then %s", len(r.sends), a.last().Body)
	}
	a.demo.SetModels(demo.CopilotModel{ID: "gpt-4.1"})
	before := lists()
	if r := a.ask("/v1/messages", askClaude); r.status != 400 || len(r.sends) != 2 || lists() != before+1 {
		t.Errorf("status %d after %d tries, %d lists", r.status, len(r.sends), lists()-before)
	}
	for _, f := range []ir.Fault{{Status: 400, Code: "model_not_supported"}, {Status: 400, Type: "model_not_supported"}, {Status: 400, Message: "The requested model is not supported."}, {Status: 404, Code: "model_not_supported"}} {
		if !unknownModel(&f) {
			t.Errorf("%+v is not seen", f)
		}
	}
	if unknownModel(&ir.Fault{Status: 400, Message: "the tool is not supported"}) || unknownModel(&ir.Fault{Status: 500, Code: "model_not_supported"}) {
		t.Error("too much is seen")
	}
}

// A multipart body keeps its type, a request without a body gets none.
func TestOtherBodies(t *testing.T) {
	a := newAccount(t, demo.CopilotOptions{}, nil)
	req := &http.Request{Method: http.MethodGet, URL: parse(t, "/v1/models"), Header: http.Header{"X-Initiator": {"agent"}}}
	if f := a.Sign(req, 1); f != nil || req.Body != nil || req.Header.Get("Content-Type") != "" || req.Header.Get("X-Initiator") != "" {
		t.Errorf("%+v %v", f, req.Header.Get("Content-Type"))
	}
	const multipart = "multipart/form-data; boundary=x"
	req, err := http.NewRequest(http.MethodPost, "/v1/images/edits", strings.NewReader("--x--"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", multipart)
	if f := a.Sign(req, 0); f != nil || req.Header.Get("Content-Type") != multipart || req.URL.Path != "/images/edits" {
		t.Errorf("%+v %s %s", f, req.Header.Get("Content-Type"), req.URL)
	}
}
