package antigravity_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"coding-proxy/auth"
	"coding-proxy/auth/oauth"
	"coding-proxy/proxy/demo"
	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/upstream"
	"coding-proxy/proxy/upstream/antigravity"
)

var _ upstream.Kind = (*antigravity.Provider)(nil)

// rig is a provider and the hosts of the service that it asks. There is no network: the hosts' handlers are called.
type rig struct {
	t       *testing.T
	id      *demo.Identity
	service *demo.CodeAssist
	hosts   map[string]http.Handler
	sim     []*demo.CodeAssistHost
	kind    *antigravity.Provider
}

// RoundTrip calls the host's handler.
func (g *rig) RoundTrip(req *http.Request) (*http.Response, error) {
	host := g.hosts[req.URL.Host]
	if host == nil {
		return nil, io.ErrClosedPipe
	}
	in := httptest.NewRequest(req.Method, req.URL.String(), req.Body).WithContext(req.Context())
	in.Header = req.Header.Clone()
	w := httptest.NewRecorder()
	host.ServeHTTP(w, in)
	resp := w.Result()
	resp.Request = req
	return resp, nil
}

func newRig(t *testing.T, hosts int, service demo.CodeAssistOptions, o antigravity.Options) *rig {
	t.Helper()
	g := &rig{t: t, id: demo.NewIdentity(demo.IdentityOptions{RefreshTokens: []string{refreshToken}}), hosts: map[string]http.Handler{}}
	g.hosts["id.test"] = g.id
	service.Valid = g.id.Valid
	g.service = demo.NewCodeAssist(service)
	for i := range hosts {
		name := string(rune('a'+i)) + ".test"
		host := g.service.Host()
		g.sim = append(g.sim, host)
		g.hosts[name] = host
		o.BaseURLs = append(o.BaseURLs, &url.URL{Scheme: "https", Host: name})
	}
	client := func() http.RoundTripper { return g }
	o.HTTP = client
	if o.Token == nil {
		o.Token = oauth.NewSource(refresher("https://id.test", time.Now, client), time.Now)
	}
	g.kind = antigravity.New(o)
	return g
}

// ask makes one attempt as the proxy does, and returns the last answer.
func (g *rig) ask(path, query, body string) (status int, answer string, tries int, fault *ir.Fault) {
	g.t.Helper()
	for try := 0; ; try++ {
		target := path
		if query != "" {
			target += "?" + query
		}
		req, err := http.NewRequestWithContext(g.t.Context(), http.MethodPost, target, strings.NewReader(body))
		if err != nil {
			g.t.Fatal(err)
		}
		if f := g.kind.Sign(req, try); f != nil {
			return 0, "", try, f
		}
		resp, err := g.RoundTrip(req)
		f := &ir.Fault{}
		if err == nil {
			g.kind.Open(resp)
			got, err := io.ReadAll(resp.Body)
			if err != nil {
				g.t.Fatal(err)
			}
			if status, answer = resp.StatusCode, string(got); status < 400 {
				return status, answer, try + 1, nil
			}
			f = faultOf(status, got)
		}
		if try > 5 {
			g.t.Fatal("it asks for ever")
		}
		if !g.kind.Again(req, try, f) {
			return status, answer, try + 1, f
		}
	}
}

// faultOf is what the dialect makes of an error.
func faultOf(status int, body []byte) *ir.Fault {
	var e struct {
		Error struct {
			Status, Message string
			Details         []struct{ Reason string }
		}
	}
	f := &ir.Fault{Status: status, Kind: ir.KindOf(status)}
	if json.Unmarshal(body, &e) == nil {
		f.Type, f.Message = e.Error.Status, e.Error.Message
		for _, d := range e.Error.Details {
			f.Code = max(f.Code, d.Reason)
		}
	}
	return f
}

const (
	plainPath  = "/v1beta/models/gemini-2.5-pro:generateContent"
	streamPath = "/v1beta/models/gemini-2.5-pro:streamGenerateContent"
)

func TestAnswers(t *testing.T) {
	g := newRig(t, 1, demo.CodeAssistOptions{}, antigravity.Options{Version: "1.2.3"})
	g.service.Provider().Always(demo.Step{Text: "hello world"})
	status, plain, _, f := g.ask(plainPath, "", body)
	if status != 200 || f != nil || !strings.HasPrefix(plain, `{"candidates":`) || strings.Contains(plain, "traceId") {
		t.Errorf("plain: %d %s %v", status, plain, f)
	}
	_, stream, _, _ := g.ask(streamPath, "alt=sse", body)
	if !strings.HasPrefix(stream, `data: {"candidates":`) || strings.Contains(stream, `"response"`) {
		t.Errorf("stream: %s", stream)
	}
	_, array, _, _ := g.ask(streamPath, "", body)
	var chunks []struct{ Candidates []json.RawMessage }
	if err := json.Unmarshal([]byte(array), &chunks); err != nil || len(chunks) < 2 || len(chunks[0].Candidates) != 1 {
		t.Errorf("array: %s %v", array, err)
	}
	if status, count, _, _ := g.ask("/v1beta/models/gemini-2.5-pro:countTokens", "", body); status != 200 || !strings.HasPrefix(count, `{"totalTokens":`) {
		t.Errorf("countTokens: %d %s", status, count)
	}
	if n := g.sim[0].Count("loadCodeAssist"); n != 1 {
		t.Errorf("the project was asked for %d times", n)
	}
	for _, r := range g.sim[0].Requests() {
		if got := r.Header.Get("User-Agent"); got != "coding-proxy/1.2.3" {
			t.Errorf("%s calls itself %q", r.Path, got)
		}
	}
	for _, function := range []string{`{"name":"a"}`, `{"name":"a","parametersJsonSchema":{"type":"object","properties":{"p":{"type":"string"}},"required":["p"],"additionalProperties":false}}`} {
		tools := `{"contents":[{"role":"user","parts":[{"text":"hi"}]}],"tools":[{"functionDeclarations":[` + function + `]}],"safetySettings":[]}`
		if status, said, _, _ := g.ask("/v1beta/models/claude-sonnet-5-5:generateContent", "", tools); status != 200 {
			t.Errorf("Claude with tools: %d %s", status, said)
		}
	}
}

func TestChoose(t *testing.T) {
	for _, tc := range []struct{ endpoint, model, want string }{
		{"", "claude-opus-5-5", "claude-opus-5-5"}, {"", "models/gemini-3", "gemini-3"}, {"models/gemini-3", "", "gemini-3"}, {"gemini-3", "x", "x"},
	} {
		protocol, name, f := antigravity.New(antigravity.Options{ModelEndpoint: tc.endpoint}).Choose(t.Context(), "anthropic", tc.model)
		if protocol != "gemini" || name != tc.want || f != nil {
			t.Errorf("%+v: %s %s %v", tc, protocol, name, f)
		}
	}
	if _, _, f := antigravity.New(antigravity.Options{}).Choose(t.Context(), "gemini", ""); f == nil || f.Status != 400 {
		t.Errorf("no model: %v", f)
	}
}

// TestUnknownCalls are faults of the request, not of the key.
func TestUnknownCalls(t *testing.T) {
	g := newRig(t, 1, demo.CodeAssistOptions{}, antigravity.Options{Project: "demo-project"})
	for _, path := range []string{"/v1beta/models/m:embedContent", "/v1beta/models", "/v1beta/cachedContents", "/v1beta/models/:generateContent"} {
		if _, _, _, f := g.ask(path, "", body); f == nil || f.Status != http.StatusNotFound {
			t.Errorf("%s: %v", path, f)
		}
	}
	for _, bad := range []string{"", "[]", "{"} {
		if _, _, _, f := g.ask(plainPath, "", bad); f == nil || f.Status != http.StatusBadRequest {
			t.Errorf("%q: %v", bad, f)
		}
	}
	if got := len(g.sim[0].Requests()); got != 0 {
		t.Errorf("%d requests were sent", got)
	}
}

// TestHosts: what another address may heal goes there, and nothing else.
func TestHosts(t *testing.T) {
	for _, tc := range []struct {
		name  string
		step  demo.AssistStep
		tries int
		good  bool
	}{
		{"503", demo.AssistStep{Status: 503, Message: "No capacity available"}, 2, true},
		{"500", demo.AssistStep{Status: 500}, 2, true},
		{"404", demo.AssistStep{Status: 404}, 2, true},
		{"a page", demo.AssistStep{Status: 404, Raw: "<p>{"}, 2, true},
		{"capacity", demo.AssistStep{Status: 429, Reason: "MODEL_CAPACITY_EXHAUSTED"}, 2, true},
		{"capacity in an array", demo.AssistStep{Status: 429, Reason: "MODEL_CAPACITY_EXHAUSTED", Array: true}, 2, true},
		{"capacity in an envelope", demo.AssistStep{Status: 429, Reason: "MODEL_CAPACITY_EXHAUSTED", Enveloped: true}, 2, true},
		{"quota", demo.AssistStep{Status: 429, Reason: "QUOTA_EXHAUSTED", ResetDelay: "1h"}, 1, false},
		{"rate", demo.AssistStep{Status: 429, Reason: "RATE_LIMIT_EXCEEDED", RetryDelay: "0.5s"}, 1, false},
		{"bad request", demo.AssistStep{Status: 400}, 1, false},
	} {
		g := newRig(t, 2, demo.CodeAssistOptions{}, antigravity.Options{Project: "demo-project"})
		g.sim[0].Push("", tc.step)
		status, _, tries, _ := g.ask(plainPath, "", body)
		if tries != tc.tries || (status == 200) != tc.good {
			t.Errorf("%s: status %d after %d tries", tc.name, status, tries)
		}
		if !tc.good {
			continue
		}
		if g.ask(plainPath, "", body); g.sim[0].Count("generateContent") != 1 {
			t.Errorf("%s: the address that failed is asked again at once", tc.name)
		}
	}
}

// TestHostsComeBack: an address is passed over for a minute; where all fail, each request tries one.
func TestHostsComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, 2, demo.CodeAssistOptions{}, antigravity.Options{Project: "demo-project"})
		down := demo.AssistStep{Status: 503}
		g.sim[0].Always(down)
		g.sim[1].Always(down)
		if status, _, tries, _ := g.ask(plainPath, "", body); status != 503 || tries != 2 {
			t.Errorf("both down: %d after %d tries", status, tries)
		}
		if bases := g.kind.Diagnose().Bases; len(bases) != 2 || bases[0].Until == nil || bases[1].URL != "https://b.test" {
			t.Errorf("the diagnosis: %+v", bases)
		}
		time.Sleep(time.Second)
		if _, _, tries, _ := g.ask(plainPath, "", body); tries != 1 {
			t.Errorf("while both are known to be down: %d tries", tries)
		}
		g.sim[0].Always(demo.AssistStep{})
		time.Sleep(2 * time.Minute)
		if status, _, tries, _ := g.ask(plainPath, "", body); status != 200 || tries != 1 {
			t.Errorf("later: %d after %d tries", status, tries)
		}
	})
}

// TestModelOfOneHost: a model that one address lacks does not keep others away from it.
func TestModelOfOneHost(t *testing.T) {
	g := newRig(t, 2, demo.CodeAssistOptions{}, antigravity.Options{Project: "demo-project"})
	g.sim[0].Push("", demo.AssistStep{Status: 404}, demo.AssistStep{Status: 429, Reason: "MODEL_CAPACITY_EXHAUSTED"})
	for _, model := range []string{"m1", "m2"} {
		if status, _, tries, _ := g.ask("/v1beta/models/"+model+":generateContent", "", body); status != 200 || tries != 2 {
			t.Errorf("%s: %d after %d tries", model, status, tries)
		}
	}
	if status, _, tries, _ := g.ask("/v1beta/models/m3:generateContent", "", body); status != 200 || tries != 1 || g.sim[0].Count("generateContent") != 3 {
		t.Errorf("m3: %d after %d tries", status, tries)
	}
}

// TestUnreachableHost: a fault without a status is the network's.
func TestUnreachableHost(t *testing.T) {
	for project, tries := range map[string]int{"demo-project": 2, "": 1} { // the search has seen that the first is away
		g := newRig(t, 2, demo.CodeAssistOptions{}, antigravity.Options{Project: project})
		delete(g.hosts, "a.test")
		if status, _, n, f := g.ask(plainPath, "", body); status != 200 || n != tries {
			t.Errorf("%q: %d after %d tries, %v", project, status, n, f)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, plainPath, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	g := newRig(t, 2, demo.CodeAssistOptions{}, antigravity.Options{Project: "demo-project"})
	if f := g.kind.Sign(req, 0); f != nil {
		t.Fatal(f)
	}
	if g.kind.Again(req, 0, &ir.Fault{Type: "timeout"}) {
		t.Error("who has waited until the timeout is to wait once more")
	}
	if g.kind.Diagnose().Bases[0].Until == nil {
		t.Error("the silent address is asked by the next request, too")
	}
}

func TestAccountIsShutOut(t *testing.T) {
	for reason, word := range map[string]string{"TOS_VIOLATION": "tos_violation", "VALIDATION_REQUIRED": "validation_required",
		"ACCESS_TOKEN_SCOPE_INSUFFICIENT": "insufficient_scope"} {
		g := newRig(t, 2, demo.CodeAssistOptions{}, antigravity.Options{Project: "demo-project"})
		g.sim[0].Push("", demo.AssistStep{Status: 403, Reason: reason, Message: "see https://x.test/?secret=1"})
		status, _, tries, f := g.ask(plainPath, "", body)
		if status != 403 || tries != 1 || f.Type != word || f.Message == "" || strings.Contains(f.Message, "x.test") {
			t.Errorf("%s: %d after %d tries, %+v", reason, status, tries, f)
		}
		if got := g.kind.Diagnose().Refused; got != word {
			t.Errorf("%s: the diagnosis says %q", reason, got)
		}
		if word == "insufficient_scope" { // no other token would do
			if _, _, _, f := g.ask(plainPath, "", body); f == nil || f.Type != word || !g.kind.Diagnose().Token.NeedsReauth {
				t.Errorf("%s: then %+v", reason, f)
			}
		} else if g.ask(plainPath, "", body); g.kind.Diagnose().Refused != "" {
			t.Errorf("%s: it is never forgotten", reason)
		}
	}
	g := newRig(t, 1, demo.CodeAssistOptions{}, antigravity.Options{Project: "another"})
	if _, _, _, f := g.ask(plainPath, "", body); f.Type != "PERMISSION_DENIED" || !strings.Contains(f.Message, "another") {
		t.Errorf("another 403 is worded anew: %+v", f)
	}
}

// TestRefusedToken: a token that has ended early is dropped, and the request is tried once more.
func TestRefusedToken(t *testing.T) {
	g := newRig(t, 2, demo.CodeAssistOptions{}, antigravity.Options{})
	g.ask(plainPath, "", body)
	g.id.Expire()
	if status, _, tries, _ := g.ask(plainPath, "", body); status != 200 || tries != 2 || g.id.Counts().Refresh != 2 {
		t.Errorf("%d after %d tries, %d exchanges", status, tries, g.id.Counts().Refresh)
	}
	g.sim[0].Always(demo.AssistStep{Status: 401})
	if status, _, tries, _ := g.ask(plainPath, "", body); status != 401 || tries != 2 {
		t.Errorf("for good: %d after %d tries", status, tries)
	}
}

func TestGenerativeLanguage(t *testing.T) {
	for _, project := range []string{"", "quota-1"} {
		g := newRig(t, 0, demo.CodeAssistOptions{}, antigravity.Options{GenerativeLanguage: true, Project: project,
			BaseURLs: []*url.URL{{Scheme: "https", Host: "gl.test", Path: "/v1beta"}}})
		p := demo.New(demo.Options{Dialects: []string{"gemini"}})
		g.hosts["gl.test"] = p
		asked := `{"contents":[{"parts":[{"text":"hi"}]}], "safetySettings": []}`
		if status, answer, _, f := g.ask("/v1beta/models/gemini-2.5-pro:streamGenerateContent", "alt=sse", asked); status != 200 || f != nil || !strings.HasPrefix(answer, "data: {") {
			t.Errorf("%d %s %v", status, answer, f)
		}
		got := p.Requests()[0]
		if got.Path != "/v1beta/models/gemini-2.5-pro:streamGenerateContent" || got.Query != "alt=sse" || string(got.Body) != asked ||
			got.Header.Get("X-Goog-User-Project") != project || !strings.HasPrefix(got.Header.Get("Authorization"), "Bearer demo-access-") {
			t.Errorf("%s?%s %s, project %q", got.Path, got.Query, got.Body, got.Header.Get("X-Goog-User-Project"))
		}
		if d := g.kind.Diagnose(); d.Mode != "generative_language" || !d.Token.Good {
			t.Errorf("the diagnosis: %+v", d)
		}
	}
}

// TestHeaders: configured headers replace ours, and are sent with the search for the project, too.
func TestHeaders(t *testing.T) {
	g := newRig(t, 1, demo.CodeAssistOptions{}, antigravity.Options{Headers: map[string]auth.Secret{"user-agent": auth.NewSecret("mine/1"), "x-more": auth.NewSecret("m")}})
	g.ask(plainPath, "", body)
	requests := g.sim[0].Requests()
	if len(requests) != 2 {
		t.Fatalf("%d requests", len(requests))
	}
	for _, r := range requests {
		if r.Header.Get("User-Agent") != "mine/1" || r.Header.Get("X-More") != "m" {
			t.Errorf("%s: %q", r.Path, r.Header.Get("User-Agent"))
		}
	}
}

// TestKnownBases: without addresses the known ones are asked, in their order.
func TestKnownBases(t *testing.T) {
	bases := antigravity.New(antigravity.Options{Token: oauth.NewSource(func(context.Context) (oauth.Token, error) { return oauth.Token{}, nil }, time.Now)}).Diagnose().Bases
	if len(bases) != 2 || bases[0].URL != "https://daily-cloudcode-pa.googleapis.com" || bases[1].URL != "https://cloudcode-pa.googleapis.com" {
		t.Errorf("%+v", bases)
	}
}

// TestStreamsAsTheyCome: an event is out before the next one has come.
func TestStreamsAsTheyCome(t *testing.T) {
	r, w := io.Pipe()
	defer r.Close()
	resp := &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: r}
	antigravity.New(antigravity.Options{}).Open(resp)
	for _, event := range []string{`{"candidates":[{"index":0}]}`, `{"candidates":[]}`} {
		go io.WriteString(w, `data: {"response": `+event+`, "traceId": "1"}`+"\n\n")
		want := []byte("data: " + event + "\n\n")
		got := make([]byte, len(want))
		if _, err := io.ReadFull(resp.Body, got); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%q, %v, want %q", got, err, want)
		}
	}
}
