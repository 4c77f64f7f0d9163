//go:build linux

package cli_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"coding-proxy/proxy/demo"
)

// rigProvider is one kind of provider, simulated: a key of the pool and what stands behind it.
type rigProvider struct {
	key      string // the entry of pool.keys, of the id k1
	oauth    string // the configuration's section; with it the key is signed in by the command first
	login    string // its entry
	models   []rigModel
	provider *demo.Provider                   // gives the answers
	shown    func(r *demo.Request) string     // what is wrong with how the key was shown; nil: its provider has seen to it
	done     func(t *testing.T, requests int) // after all of them

	copilot  *demo.Copilot
	identity *demo.Identity
	host     *demo.CodeAssistHost
}

// rigModel is a model, and the dialect in which the provider is asked for it.
type rigModel struct {
	name   string
	spoken func(client string) string
}

func always(dialect string) func(string) string { return func(string) string { return dialect } }

// oneOf is the client's own dialect where the provider has it, else the first.
func oneOf(dialects ...string) func(string) string {
	return func(client string) string {
		if slices.Contains(dialects, client) {
			return client
		}
		return dialects[0]
	}
}

// carried wants the key in one header alone.
func carried(header, value string) func(*demo.Request) string {
	return func(r *demo.Request) string {
		for _, name := range []string{"X-Api-Key", "Authorization", "X-Goog-Api-Key", "X-Proxy-Key"} {
			if got := r.Header.Values(name); name == header && !slices.Equal(got, []string{value}) || name != header && len(got) > 0 {
				return fmt.Sprintf("header %s has %d values", name, len(got))
			}
		}
		return ""
	}
}

// rigKinds are all of them.
func rigKinds() map[string]func(*testing.T) *rigProvider {
	return map[string]func(*testing.T) *rigProvider{
		"anthropic": func(t *testing.T) *rigProvider { return anthropicRig(t, "X-Api-Key", "") },
		"anthropic, bearer": func(t *testing.T) *rigProvider {
			return anthropicRig(t, "Authorization", `,"key_header_name":"authorization"`)
		},
		"anthropic, by proxy": outboundRig,
		"openai":              openAIRig,
		"compatible":          compatibleRig,
		"gemini":              geminiRig,
		"copilot":             func(t *testing.T) *rigProvider { return copilotRig(t, demo.CopilotOptions{}) },
		"copilot, other shape": func(t *testing.T) *rigProvider {
			return copilotRig(t, demo.CopilotOptions{OtherShape: true})
		},
		"copilot, signed in":              copilotLoginRig,
		"copilot, direct":                 copilotDirectRig,
		"antigravity":                     antigravityRig,
		"antigravity, generativelanguage": generativeRig,
		"gemini, signed in":               geminiLoginRig,
	}
}

func anthropicRig(t *testing.T, header, more string) *rigProvider {
	p, url := strictProvider(t, "sim", []string{rigAPIKey}, "anthropic")
	value := rigAPIKey
	if header == "Authorization" {
		value = "Bearer " + value
	}
	return &rigProvider{provider: p, shown: carried(header, value), models: []rigModel{{e2eModel, always("anthropic")}},
		key: fmt.Sprintf(`{"id":"k1","provider":"anthropic","base_url":%q,"api_key":%q%s}`, url, rigAPIKey, more)}
}

// outboundRig is reached through a proxy that asks for a password.
func outboundRig(t *testing.T) *rigProvider {
	f := &forwarding{}
	at := strings.TrimPrefix(serve(t, f), "http://")
	p := anthropicRig(t, "X-Api-Key", fmt.Sprintf(`,"proxy_url":"http://me:%s@%s"`, rigProxyPassword, at))
	p.done = func(t *testing.T, requests int) {
		if n := f.passed.Load(); n != int64(requests) {
			t.Errorf("%d of %d requests went through the proxy", n, requests)
		}
	}
	return p
}

func openAIRig(t *testing.T) *rigProvider {
	p, url := strictProvider(t, "sim", []string{rigAPIKey}, "openai-responses", "openai-chat")
	return &rigProvider{provider: p, shown: carried("Authorization", "Bearer "+rigAPIKey), models: []rigModel{{"gpt-5.5", oneOf("openai-responses", "openai-chat")}},
		key: fmt.Sprintf(`{"id":"k1","provider":"openai","endpoints":{"openai-responses":"%[1]s/v1","openai-chat":"%[1]s/v1"},"api_key":%[2]q}`, url, rigAPIKey)}
}

func compatibleRig(t *testing.T) *rigProvider {
	p := demo.New(demo.Options{Name: "sim", Keys: []string{rigAPIKey}, ReasoningContent: true, Dialects: []string{"openai-chat"}})
	p.Always(demo.Step{Text: e2eAnswer})
	url := serve(t, p)
	return &rigProvider{provider: p, shown: carried("Authorization", "Bearer "+rigAPIKey), models: []rigModel{{"qwen3-coder", always("openai-chat")}},
		key: fmt.Sprintf(`{"id":"k1","provider":"mine","protocol":"openai-chat","base_url":"%s/compatible/v4","api_key":%q}`, url, rigAPIKey)}
}

func geminiRig(t *testing.T) *rigProvider {
	p, url := strictProvider(t, "sim", []string{rigAPIKey}, "gemini")
	return &rigProvider{provider: p, shown: carried("X-Goog-Api-Key", rigAPIKey), models: []rigModel{{"gemini-3-pro", always("gemini")}},
		key: fmt.Sprintf(`{"id":"k1","provider":"gemini","base_url":"%s/v1beta","api_key":%q}`, url, rigAPIKey)}
}

var copilotModels = []rigModel{
	{"claude-sonnet-4.5", oneOf("anthropic", "openai-chat")},
	{"gpt-5.1-codex", always("openai-responses")},
	{"gpt-4.1", always("openai-chat")},
}

// copilotRig is asked where its exchange says.
func copilotRig(t *testing.T, o demo.CopilotOptions) *rigProvider {
	o.Answers.CheckSignatures, o.GitHubTokens = true, []string{rigGitHubToken}
	c := demo.NewCopilot(o)
	c.Always(demo.Step{Text: e2eAnswer})
	url := serve(t, c)
	return &rigProvider{provider: c.Provider, copilot: c, models: copilotModels,
		key: fmt.Sprintf(`{"id":"k1","provider":"copilot","github_token":%q,"token_url":"%s/copilot_internal/v2/token"}`, rigGitHubToken, url),
		done: func(t *testing.T, _ int) {
			if n, list := c.Exchanges(), c.Complaints(); n != 1 || len(list) > 0 {
				t.Errorf("%d exchanges, complaints: %q", n, list)
			}
		}}
}

// copilotDirectRig has a token that is shown itself.
func copilotDirectRig(t *testing.T) *rigProvider {
	c := demo.NewCopilot(demo.CopilotOptions{Answers: demo.Options{CheckSignatures: true}, GitHubTokens: []string{rigDirectToken}})
	c.Always(demo.Step{Text: e2eAnswer})
	url := serve(t, c)
	return &rigProvider{provider: c.Provider, copilot: c, models: copilotModels, shown: carried("Authorization", "Bearer "+rigDirectToken),
		key: fmt.Sprintf(`{"id":"k1","provider":"copilot","github_token":%q,"token_url":"%s/copilot_internal/v2/token","base_url":%q}`, rigDirectToken, url, url)}
}

// copilotLoginRig has what the command login obtained, by a device's code.
func copilotLoginRig(t *testing.T) *rigProvider {
	i := demo.NewIdentity(demo.IdentityOptions{ClientID: "app", Interval: 1})
	i.SetConsent(demo.Allows)
	c := demo.NewCopilot(demo.CopilotOptions{Answers: demo.Options{CheckSignatures: true}})
	c.Always(demo.Step{Text: e2eAnswer})
	ids := serve(t, i)
	p := &rigProvider{provider: c.Provider, copilot: c, models: copilotModels, identity: i, login: "hub"}
	p.oauth = fmt.Sprintf(`{"hub":{"kind":"copilot","client_id":"app","device_code_url":"%[1]s/login/device/code","token_url":"%[1]s/login/oauth/access_token"}}`, ids)
	p.key = fmt.Sprintf(`{"id":"k1","provider":"copilot","credential":"oauth:hub","token_url":"%s/copilot_internal/v2/token"}`, serve(t, c))
	return p
}

// identityOf is the identity provider that all logins with Google have here.
func identityOf(t *testing.T) (*demo.Identity, string) {
	i := demo.NewIdentity(demo.IdentityOptions{ClientID: "app", ClientSecret: rigClientSecret, RefreshTokens: []string{rigRefreshToken}, Offline: true, Rotate: true})
	i.SetConsent(demo.Allows)
	return i, serve(t, i)
}

// antigravityRig is asked in envelopes.
func antigravityRig(t *testing.T) *rigProvider {
	i, ids := identityOf(t)
	service := demo.NewCodeAssist(demo.CodeAssistOptions{Valid: i.Valid, Provider: demo.New(demo.Options{Name: "sim", CheckSignatures: true, Dialects: []string{"gemini"}})})
	service.Provider().Always(demo.Step{Text: e2eAnswer})
	host := service.Host()
	return &rigProvider{provider: service.Provider(), identity: i, host: host, models: []rigModel{{"gemini-3-pro", always("gemini")}},
		key: antigravityKey(ids, serve(t, host)),
		done: func(t *testing.T, requests int) {
			if n, projects := i.Counts().Refresh, host.Count("loadCodeAssist"); n != 1 || projects != 1 {
				t.Errorf("%d exchanges, the project was asked for %d times", n, projects)
			}
		}}
}

func antigravityKey(identity, base string) string {
	return fmt.Sprintf(`{"id":"k1","provider":"antigravity","client_id":"app","client_secret":%q,"refresh_token":%q,"token_url":"%s/token","base_url":%q}`,
		rigClientSecret, rigRefreshToken, identity, base)
}

// generativeRig asks the Gemini API itself with the account's token.
func generativeRig(t *testing.T) *rigProvider {
	i, ids := identityOf(t)
	p := demo.New(demo.Options{Name: "sim", CheckSignatures: true, Dialects: []string{"gemini"}})
	p.Always(demo.Step{Text: e2eAnswer})
	return &rigProvider{provider: p, identity: i, models: []rigModel{{"gemini-3-pro", always("gemini")}},
		key: antigravityKey(ids, serve(t, admitting(i, p))+"/v1beta")}
}

// geminiLoginRig has what the command login obtained.
func geminiLoginRig(t *testing.T) *rigProvider {
	i, ids := identityOf(t)
	p := demo.New(demo.Options{Name: "sim", CheckSignatures: true, Dialects: []string{"gemini"}})
	p.Always(demo.Step{Text: e2eAnswer})
	return &rigProvider{provider: p, identity: i, models: []rigModel{{"gemini-3-pro", always("gemini")}}, login: "work",
		oauth: fmt.Sprintf(`{"work":{"kind":"google","client_id":"app","client_secret":%q,"authorize_url":"%[2]s/auth","token_url":"%[2]s/token"}}`, rigClientSecret, ids),
		key:   fmt.Sprintf(`{"id":"k1","provider":"gemini","credential":"oauth:work","base_url":"%s/v1beta"}`, serve(t, admitting(i, p)))}
}

// admitting lets in who shows a token of the identity provider, and nothing else.
func admitting(i *demo.Identity, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); !ok || !i.Valid(token) || r.Header.Get("X-Goog-Api-Key") != "" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintf(w, `{"error":{"code":401,"message":"Request had invalid authentication credentials: %s","status":"UNAUTHENTICATED"}}`, token)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// start runs the binary before the provider.
func (p *rigProvider) start(t *testing.T, binary string, more ...string) *providerRig {
	t.Helper()
	r := newProviderRig(t, binary, p.oauth, append([]string{p.key}, more...)...)
	if p.oauth != "" {
		r.login(p.login, p.identity)
	}
	r.begin()
	return r
}

// TestProviders runs the built binary before each kind of provider: clients of all dialects hold a conversation with a tool call
// there, plain and streamed. What goes wrong is in TestProviderFaults.
func TestProviders(t *testing.T) {
	binary := buildProxy(t.Context(), t)
	for name, simulate := range rigKinds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := simulate(t)
			r := p.start(t, binary)
			for _, model := range p.models {
				for _, dialect := range e2eDialects {
					for _, stream := range []bool{false, true} {
						p.converse(r, model, dialect, stream)
					}
				}
			}
			requests := p.provider.Requests()
			for _, q := range requests {
				if p.shown != nil && p.shown(&q) != "" {
					t.Errorf("%s: %s", q.Path, p.shown(&q))
				}
			}
			if p.done != nil {
				p.done(t, len(requests))
			}
			p.check(r)
		})
	}
}

// converse is a question, the call of a tool that is the answer, its result, and an answer in words.
func (p *rigProvider) converse(r *providerRig, model rigModel, dialect string, stream bool) {
	t := r.t
	t.Helper()
	echo := http.Header{"X-Debug": {p.echo()}}
	p.provider.Push(
		demo.Step{Thinking: "The zebra?", Tools: []demo.Tool{tool(lookTool, "at", "stripes")}, Usage: sessionUsage, Header: echo},
		demo.Step{Text: e2eAnswer, Usage: sessionUsage, Header: echo},
	)
	var call *rigCall
	for turn := range 2 {
		what := fmt.Sprintf("%s as %s, stream %t, turn %d", model.name, dialect, stream, turn)
		a := r.say(dialect, model.name, stream, call)
		if a.status != http.StatusOK {
			t.Fatalf("%s: status %d: %s", what, a.status, a.body)
		}
		h := hear(t, dialect, a.body, stream)
		switch {
		case !h.ended:
			t.Errorf("%s: it did not end: %s", what, a.body)
		case turn == 0 && (len(h.calls) != 1 || h.calls[0].name != lookTool || strings.ReplaceAll(h.calls[0].input, " ", "") != lookInput):
			t.Fatalf("%s: calls %+v: %s", what, h.calls, a.body)
		case turn == 0:
			call = &h.calls[0]
		case h.text != e2eAnswer || len(h.calls) > 0:
			t.Errorf("%s: %+v: %s", what, h, a.body)
		}
		l := r.lineOf(a)
		if l.Outcome != "ok" || l.Status != http.StatusOK || l.Key != "k1" || l.Dialect != dialect || l.Upstream != model.spoken(dialect) || l.Model != model.name ||
			l.Stream != stream || len(l.Attempts) != 1 || l.Input != 1000 || l.Output != 50 || l.Estimated {
			t.Errorf("%s: journal: %+v", what, l)
		}
	}
}

// check runs the command check, with and without --live, which tries the key, and looks at a login that nobody ends.
func (p *rigProvider) check(r *providerRig) {
	if p.oauth != "" {
		if a := r.ask("POST", "/api/reauth/"+p.login, "", "Authorization: Bearer "+rigAdminKey); a.status != http.StatusAccepted {
			r.t.Errorf("POST /api/reauth: status %d: %s", a.status, a.body)
		}
	}
	for _, args := range [][]string{{"check"}, {"check", "--live"}, {"check", "--live", "--json"}, {"credentials"}} {
		if exit, printed := r.runCommand(nil, args...); exit != 0 {
			r.t.Errorf("%s: exit %d: %s", strings.Join(args, " "), exit, printed)
		}
	}
}

// serve runs a handler on loopback.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

// strictProvider is a simulated provider of some dialects that takes one key.
func strictProvider(t *testing.T, name string, keys []string, dialects ...string) (*demo.Provider, string) {
	t.Helper()
	p := demo.New(demo.Options{Name: name, Keys: keys, CheckSignatures: true, Dialects: dialects})
	p.Always(demo.Step{Text: e2eAnswer})
	return p, serve(t, p)
}

// forwarding is an HTTP proxy that asks for a password, and counts who passed.
type forwarding struct{ passed atomic.Int64 }

func (f *forwarding) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Proxy-Authorization") != "Basic "+base64.StdEncoding.EncodeToString([]byte("me:"+rigProxyPassword)) {
		w.WriteHeader(http.StatusProxyAuthRequired)
		return
	}
	f.passed.Add(1)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body)) // the server closes its own with the answer's head, which ends a Transport that has not seen its end
	(&httputil.ReverseProxy{Rewrite: func(q *httputil.ProxyRequest) { q.Out.URL = q.In.URL }, FlushInterval: -1}).ServeHTTP(w, r)
}
