package daemon

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"coding-proxy/proxy"
	"coding-proxy/web"
)

// crossing is an instance with these origins.
func crossing(t *testing.T, origins []string, members ...string) *instance {
	t.Helper()
	b := newBackend(t, says(200, whole, "Access-Control-Allow-Origin: *", "Access-Control-Allow-Credentials: true", "Alt-Svc: h3=\":443\"", "Vary: Accept"))
	i := prepare(t, filepath.Join(t.TempDir(), "data"), append(members, poolOf(poolKey(k1, b.URL)))...)
	i.admit(func(s *liveState) { s.origins = origins })
	t.Cleanup(i.Close)
	return i
}

// fetch is what a browser sends for a page of the origin.
func (i *instance) fetch(method, path, origin string, header ...string) *httptest.ResponseRecorder {
	body := ""
	if method == "POST" {
		body = question(sonnet)
	}
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	come(r, fromLoopback)
	if origin != "" {
		r.Header.Set("Origin", origin)
	}
	for _, line := range header {
		if name, value, ok := strings.Cut(line, ": "); ok {
			r.Header.Set(name, value)
		}
	}
	w := httptest.NewRecorder()
	i.server.ServeHTTP(w, r)
	return w
}

const page = "https://app.test"

// Which pages may read what client endpoints answer, errors too; what upstreams say of it counts for nothing.
func TestCORS(t *testing.T) {
	t.Parallel()
	key := "X-Api-Key: " + requestKey
	for _, c := range []struct {
		name    string
		origins []string
		origin  string
		allowed bool
	}{
		{"none", []string{}, page, false},
		{"another", []string{"https://other.test"}, page, false},
		{"listed", []string{"https://other.test", "https://app.test"}, page, true},
		{"in another scheme", []string{"https://app.test"}, "http://app.test", false},
		{"with a port", []string{"https://app.test"}, "https://app.test:8443", false},
		{"a longer one", []string{"https://app.test"}, "https://app.test.evil.test", false},
		{"any", []string{"*"}, page, true},
		{"any, a page without an origin", []string{"*"}, "null", true},
	} {
		i := crossing(t, c.origins, oneCaller())
		for _, w := range []*httptest.ResponseRecorder{i.fetch("POST", "/v1/messages", c.origin, key), i.fetch("POST", "/v1/messages", c.origin)} {
			h := w.Result().Header
			want := ""
			if c.allowed {
				want = c.origin
			}
			if got := strings.Join(h["Access-Control-Allow-Origin"], "|"); got != want {
				t.Errorf("%s, status %d: allowed %q, want %q", c.name, w.Code, got, want)
			}
			if h.Get("Access-Control-Allow-Credentials") != "" || h.Get("Alt-Svc") != "" {
				t.Errorf("%s: %v", c.name, h)
			}
			if len(c.origins) > 0 != strings.Contains(strings.Join(h["Vary"], ","), "Origin") {
				t.Errorf("%s: Vary %v", c.name, h["Vary"])
			}
		}
	}
}

// What caches must know stands in every answer of a client endpoint that can differ by origin, whoever asks, and beside what the
// upstream says of it: answers that are relayed, counts, errors and what is answered here.
func TestCORSForCaches(t *testing.T) {
	t.Parallel()
	vary := "Vary: Accept"
	for name, says := range map[string]func(http.ResponseWriter, *http.Request, int){
		"answer": says(200, whole, vary), "count": says(200, `{"input_tokens":5}`, vary), "error": says(400, `{"type":"error","error":{"type":"invalid_request_error","message":"no"}}`, vary),
	} {
		b := newBackend(t, says)
		i := prepare(t, filepath.Join(t.TempDir(), "data"), oneCaller(), poolOf(poolKey(k1, b.URL)), `"count_tokens":"upstream"`)
		i.admit(func(s *liveState) { s.origins = []string{page} })
		t.Cleanup(i.Close)
		asked := "/v1/messages"
		if name == "count" {
			asked += "/count_tokens"
		}
		for path, theirs := range map[string]bool{asked: true, "/v1/models": false, "/v1/models/none": false} {
			method := "GET"
			if theirs {
				method = "POST"
			}
			for _, origin := range []string{page, "https://evil.test", ""} {
				w := i.fetch(method, path, origin, "X-Api-Key: "+requestKey)
				got := strings.Join(w.Result().Header["Vary"], ", ")
				if !strings.Contains(got, "Origin") || theirs && !strings.Contains(got, "Accept") {
					t.Errorf("%s, %s for %q: %d, Vary %q", name, path, origin, w.Code, got)
				}
			}
		}
	}
}

// A preflight is answered for client endpoints, and for nothing else: every route there is.
func TestPreflights(t *testing.T) {
	t.Parallel()
	i := crossing(t, []string{page}, fmt.Sprintf(`"auth":{"admin_key":"admin-secret","request_keys":[{"code":"laptop","api_key":%q}]}`, requestKey))
	ask := func(method, path, origin string) *httptest.ResponseRecorder {
		return i.fetch("OPTIONS", strings.ReplaceAll(path, "{id}", "x"), origin, "Access-Control-Request-Method: "+method, "Access-Control-Request-Headers: x-api-key,content-type",
			"Authorization: Bearer admin-secret")
	}
	silent := func(name string, w *httptest.ResponseRecorder) {
		for header := range w.Result().Header {
			if strings.HasPrefix(header, "Access-Control-") {
				t.Errorf("%s: %d %s", name, w.Code, header)
			}
		}
	}
	for _, r := range proxy.Routes() {
		for _, method := range r.Methods {
			w := ask(method, r.Path(), page)
			h := w.Result().Header
			if r.Guard != proxy.GuardKey {
				silent(r.Path(), w)
				continue
			}
			if w.Code != http.StatusNoContent || h.Get("Access-Control-Allow-Origin") != page || !strings.Contains(h.Get("Access-Control-Allow-Methods"), method) ||
				h.Get("Access-Control-Allow-Headers") != "x-api-key,content-type" || h.Get("Access-Control-Allow-Credentials") != "" || h.Get("Access-Control-Max-Age") != "600" {
				t.Errorf("%s %s: %d %v", method, r.Path(), w.Code, h)
			}
			if w := ask("PATCH", r.Path(), page); w.Code == http.StatusNoContent {
				t.Errorf("a method that %s does not take: %v", r.Path(), w.Result().Header)
			}
			w = ask(method, r.Path(), "https://evil.test")
			if silent(r.Path(), w); w.Code != http.StatusMethodNotAllowed {
				t.Errorf("%s for a foreign page: %d", r.Path(), w.Code)
			}
		}
	}
	for _, r := range web.Routes() {
		silent(r.Path, ask("GET", r.Path, page))
		silent(r.Path, i.fetch("GET", r.Path, page, "Authorization: Bearer admin-secret"))
	}
	for _, r := range web.AdminRoutes() {
		silent(r.Pattern, ask(r.Method, r.Pattern, page))
		silent(r.Pattern, i.fetch(r.Method, strings.ReplaceAll(r.Pattern, "{id}", k1), page, "Authorization: Bearer admin-secret"))
	}
	silent("no path", ask("GET", "/nothing", page))
}

// Without request keys the pages of this machine and those of listed origins are served; a listed origin changes nothing of the
// rest.
func TestCORSWithoutKeys(t *testing.T) {
	t.Parallel()
	i := crossing(t, []string{page})
	for _, c := range []struct {
		origin, header string
		status         int
	}{
		{"http://localhost:5173", "", 200}, {page, "", 200}, {"https://evil.test", "", 403}, {"null", "", 403},
		{page, "X-Forwarded-For: 203.0.113.7", 403},
	} {
		if w := i.fetch("POST", "/v1/messages", c.origin, c.header); w.Code != c.status {
			t.Errorf("%s, %s: %d", c.origin, c.header, w.Code)
		}
	}
	if w := i.fetch("GET", "/stats", page); w.Code != 403 {
		t.Errorf("a page of ours in a page of theirs: %d", w.Code)
	}
}
