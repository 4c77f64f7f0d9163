package daemon

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"coding-proxy/daemon/config"
	"coding-proxy/proxy/demo"
	"coding-proxy/web"
)

// tried is what came of a request's attempts, in words.
func (i *instance) tried(r *reply) string {
	var list []string
	for _, a := range i.record(r.trace()).Attempts {
		list = append(list, a.Outcome)
	}
	return strings.Join(list, " ")
}

// KEY-014: a token that was refused is never shown again. It is exchanged once, and the request sent once more; where the new
// one is refused, too, there is an end, and the next key serves.
func TestKEY014RefusedTokenIsEvicted(t *testing.T) {
	t.Parallel()
	for _, status := range []int{401, 403} {
		for _, twice := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d, twice %t", status, twice), func(t *testing.T) {
				t.Parallel()
				p, url := hub(t, demo.CopilotOptions{})
				other, otherURL := strict(t, "other", chat)
				i := start(t, poolOf(copilotKey(k1, url), protocolKey(k2, chat, otherURL)))
				i.say(chat, "gpt-4.1", false) // the list of models is there
				shown := func() (list []string) {
					for _, r := range p.Arrived() {
						if strings.HasSuffix(r.Path, "/chat/completions") {
							list = append(list, r.Header.Get("Authorization"))
						}
					}
					return list
				}
				exchanges := p.Exchanges()
				want, key, sends := "renew ok", k1, 3
				if p.Refuse(status); twice {
					p.Refuse(status)
					want, key = "renew credential ok", k2
				}
				r := i.say(chat, "gpt-4.1", false)
				if got := i.tried(r); r.status != 200 || i.servedBy(r) != key || got != want {
					t.Errorf("status %d by %s: %s: %s", r.status, i.servedBy(r), got, r.body)
				}
				tokens := shown()
				if n := p.Exchanges() - exchanges; n != 1 || len(tokens) != sends || tokens[1] != tokens[0] || tokens[2] == tokens[1] {
					t.Errorf("%d exchanges; tokens %q", n, tokens)
				}
				if n := len(other.Requests()); n != map[bool]int{false: 0, true: 1}[twice] {
					t.Errorf("%d requests at the other key", n)
				}
			})
		}
	}
}

// SEC-010: nor does what is asked beside the requests follow a redirect: what is shown there is worth more than a key.
func TestSEC010RedirectsBesideRequests(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		path, model string
		answered    bool // without what was asked there
	}{
		{"/copilot_internal/v2/token", "gpt-4.1", false}, {"/models", "gpt-4.1", true}, {"/chat/completions", "gpt-4.1", false},
		{"/token", "gemini-3-pro", false}, {":loadCodeAssist", "gemini-3-pro", false}, {":onboardUser", "gemini-3-pro", false}, {":generateContent", "gemini-3-pro", false},
	} {
		for _, status := range []int{301, 302, 303, 307, 308} {
			t.Run(fmt.Sprintf("%d%s", status, c.path), func(t *testing.T) {
				t.Parallel()
				other := newBackend(t, says(200, `{"token":"stolen-token","access_token":"stolen-token","expires_in":600,"done":true,"cloudaicompanionProject":"p","data":[]}`))
				var asked atomic.Int64
				moves := func(h http.Handler) string {
					return listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						if strings.HasSuffix(r.URL.Path, c.path) {
							asked.Add(1)
							http.Redirect(w, r, other.URL+r.URL.Path, status)
							return
						}
						h.ServeHTTP(w, r)
					}))
				}
				p, _ := hub(t, demo.CopilotOptions{})
				g := startGoogle(t, demo.IdentityOptions{})
				if c.path == ":onboardUser" { // of an account that has no project yet
					g.CodeAssist = demo.NewCodeAssist(demo.CodeAssistOptions{Valid: g.Valid, Onboarding: 1})
					g.host = g.Host()
				}
				hubURL := moves(p)
				g.url, g.ids = moves(g.host), moves(g.Identity)
				key := antigravityKey(k1, g)
				if strings.HasPrefix(c.model, "gpt") {
					key = copilotKey(k1, hubURL, fmt.Sprintf(`"base_url":%q`, hubURL))
				}
				i := start(t, poolOf(key))
				r := i.say(chat, c.model, false)
				if (r.status == 200) != c.answered || strings.Contains(r.body, "stolen") || r.header.Get("Location") != "" {
					t.Errorf("status %d, %v: %s", r.status, r.header, r.body)
				}
				if asked.Load() == 0 {
					t.Error("nothing was asked there")
				}
				for _, got := range other.requests() {
					t.Errorf("%s %s went elsewhere: %v", got.method, got.uri, got.header)
				}
			})
		}
	}
}

// SEC-003: no page of another site makes an admin call, whatever it calls its body, and none is made by a GET that changes
// something.
func TestSEC003SimplePost(t *testing.T) {
	t.Parallel()
	_, url := provider(t)
	for name, members := range map[string][]string{"no admin key": nil, "an admin key": {fmt.Sprintf(`"auth":{"admin_key":%q}`, adminKey)}} {
		i := prepare(t, filepath.Join(t.TempDir(), "data"), append(members, poolOf(poolKey(k1, url)), `"oauth":{"work":{"kind":"google","client_id":"tests"}}`)...)
		t.Cleanup(i.Close)
		changed := 0
		for _, route := range web.AdminRoutes() {
			if route.Method == http.MethodGet {
				continue
			}
			changed++
			path := strings.ReplaceAll(route.Pattern, "{id}", k1)
			for _, method := range []string{route.Method, http.MethodGet, http.MethodHead} {
				for _, header := range []string{"Origin: http://evil.test", "Origin: null", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site", ""} {
					r := httptest.NewRequest(method, path, strings.NewReader(`{"grace":0}`))
					come(r, fromLoopback)
					r.Header.Set("Content-Type", "text/plain")
					if field, value, ok := strings.Cut(header, ": "); ok {
						r.Header.Set(field, value)
					}
					w := httptest.NewRecorder()
					i.server.ServeHTTP(w, r)
					if w.Code < 400 {
						t.Errorf("%s: %s %s, %s: %d %s", name, method, path, header, w.Code, w.Body)
					}
				}
			}
		}
		if changed == 0 {
			t.Error("there are no admin calls")
		}
		for _, route := range web.Routes() { // the pages' own take no other method
			r := httptest.NewRequest(http.MethodPost, route.Path, strings.NewReader("{}"))
			come(r, fromLoopback)
			r.Header.Set("Content-Type", "text/plain")
			r.Header.Set("Origin", "http://evil.test")
			w := httptest.NewRecorder()
			i.server.ServeHTTP(w, r)
			if w.Code < 400 {
				t.Errorf("%s: POST %s: %d", name, route.Path, w.Code)
			}
		}
		for login, s := range i.reauth.SignIns() {
			if s.State != loginIdle {
				t.Errorf("%s: the login %s is %s", name, login, s.State)
			}
		}
	}
}

// SEC-005: who would listen to others without asking for a key does not start; nothing has a mode that could be left off, and
// a caller's key opens no page and no admin call.
func TestSEC005ClosedByDefault(t *testing.T) {
	t.Parallel()
	_, url := provider(t)
	for members, wrong := range map[string]string{
		`"server":{"host":"0.0.0.0"}`: "auth.request_keys", `"server":{"host":"::"},"auth":{"admin_key":"admin-key-of-the-owner"}`: "auth.request_keys",
		`"auth":{"mode":"off"}`: "unknown field", `"auth":{"enabled":false}`: "unknown field",
	} {
		path := filepath.Join(t.TempDir(), "config.json")
		if err := os.WriteFile(path, []byte("{"+members+","+poolOf(poolKey(k1, url))+"}"), 0o600); err != nil {
			t.Fatal(err)
		}
		unset := func(string) (string, bool) { return "", false }
		if _, err := config.Load(config.Source{Path: path, Getenv: unset, ReadFile: os.ReadFile, Stat: os.Stat}); err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%s: %v", members, err)
		}
	}
	i := prepare(t, filepath.Join(t.TempDir(), "data"), oneCaller(), poolOf(poolKey(k1, url)), `"oauth":{"work":{"kind":"google","client_id":"tests"}}`)
	t.Cleanup(i.Close)
	for _, c := range []struct{ method, path string }{
		{"GET", "/stats"}, {"GET", "/api/pool/stats"}, {"GET", "/api/status"}, {"GET", "/admin/config"}, {"POST", "/admin/reload"}, {"POST", "/api/reset"},
		{"POST", "/api/reauth/work"}, {"GET", "/api/reauth/status"}, {"GET", "/api/copilot/diagnostics"}, {"GET", "/api/copilot/models"},
	} {
		for _, token := range []string{"", requestKey} {
			r := httptest.NewRequest(c.method, c.path, strings.NewReader("{}"))
			come(r, fromLAN)
			if token != "" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
			w := httptest.NewRecorder()
			i.server.ServeHTTP(w, r)
			if w.Code != 401 && w.Code != 403 {
				t.Errorf("%s %s, key %q: %d %s", c.method, c.path, token, w.Code, w.Body)
			}
		}
	}
}
