package daemon

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coding-proxy/proxy"
	"coding-proxy/web"
)

// A visit is a way in which a request comes.
const (
	fromLoopback = iota
	fromLAN
	withForeignHost
	throughTunnel
	withForeignOrigin
	visits
)

var visitNames = [visits]string{"loopback", "LAN", "foreign host", "tunnel", "foreign origin"}

// access has the status of each visit: by which request key is configured and shown.
type access struct {
	open     [visits]int // none is configured, none is shown
	openKey  [visits]int // none is configured, any is shown
	noKey    [visits]int // one is configured, none is shown
	wrongKey [visits]int
	rightKey [visits]int
}

// TestAccess walks all routes. A route without a row fails, so does a row without a route.
func TestAccess(t *testing.T) {
	t.Parallel()
	all := func(status int) [visits]int { return [visits]int{status, status, status, status, status} }
	local := [visits]int{200, 403, 403, 403, 403}
	// A request key makes a client's endpoints independent of address, host and origin.
	client := access{open: local, openKey: local, noKey: all(401), wrongKey: all(401), rightKey: all(200)}
	anybody := access{all(200), all(200), all(200), all(200), all(200)}
	// No request key opens a page.
	page := access{local, local, local, local, local}
	// What is only there with a sign-in to a provider.
	none := [visits]int{404, 403, 403, 403, 403}
	missing := access{none, none, none, none, none}

	table := map[string]access{
		"POST /v1/messages":              client,
		"POST /v1/messages/count_tokens": client,
		"GET /v1/models":                 client,
		"GET /v1/models/{id}":            client,

		"POST /v1/chat/completions":                      client,
		"POST /v1/responses":                             client,
		"POST /v1/responses/compact":                     client,
		"POST /v1/responses/input_tokens":                client,
		"GET /v1/responses/{id}":                         client,
		"POST /v1/embeddings":                            client,
		"POST /v1/completions":                           client,
		"POST /v1/moderations":                           client,
		"POST /v1/images/{id}":                           client,
		"POST /v1/audio/{id}":                            client,
		"GET /v1beta/models":                             client,
		"GET /v1beta/models/{id}":                        client,
		"POST /v1beta/models/{id}:generateContent":       client,
		"POST /v1beta/models/{id}:streamGenerateContent": client,
		"POST /v1beta/models/{id}:countTokens":           client,
		"POST /v1beta/models/{id}:embedContent":          client,
		"POST /v1beta/models/{id}:batchEmbedContents":    client,
		"POST /v1/models/{id}:generateContent":           client,
		"POST /v1/models/{id}:streamGenerateContent":     client,
		"POST /v1/models/{id}:countTokens":               client,
		"POST /v1/models/{id}:embedContent":              client,
		"POST /v1/models/{id}:batchEmbedContents":        client,

		"POST /mcp/{id}":   client,
		"GET /mcp/{id}":    client,
		"DELETE /mcp/{id}": client,

		"POST /api/event_logging/{id}": anybody,
		"HEAD /api/hello":              anybody,
		"GET /":                        anybody,
		"HEAD /":                       anybody,

		"GET /stats":                   page,
		"GET /stats/pool":              page,
		"GET /stats/pool/usage":        page,
		"GET /stats/request-keys":      page,
		"GET /stats/assets/stats.css":  page,
		"GET /stats/assets/stats.js":   page,
		"GET /api/stats":               page,
		"GET /api/pool/stats":          page,
		"GET /api/pool/usage":          page,
		"GET /api/request-keys/usage":  page,
		"GET /healthz":                 anybody,
		"GET /health":                  anybody,
		"GET /readyz":                  page,
		"GET /api/status":              page,
		"GET /api/copilot/diagnostics": missing,
		"GET /api/copilot/models":      missing,
		"GET /api/reauth/status":       page,
	}

	_, url := strict(t, "all")
	pool := poolOf(polyglotKey(k1, url, nil))
	mcp := mcpOf(newBackend(t, says(200, rpcAnswer)).URL)
	open := prepare(t, filepath.Join(t.TempDir(), "data"), pool, mcp)
	keyed := prepare(t, filepath.Join(t.TempDir(), "data"), pool, mcp, oneCaller())
	t.Cleanup(open.Close)
	t.Cleanup(keyed.Close)
	// An answer that can be asked for again, of the caller that each has.
	stored := map[*server]string{open.server: storedAnswer(t, open.server, ""), keyed.server: storedAnswer(t, keyed.server, requestKey)}

	var routes []string
	dialectOf := map[string]string{}
	for _, r := range proxy.Routes() {
		for _, m := range r.Methods {
			routes = append(routes, m+" "+r.Path())
			dialectOf[m+" "+r.Path()] = r.Dialect
		}
	}
	for _, r := range web.Routes() {
		routes = append(routes, "GET "+r.Path)
	}
	for _, route := range routes {
		row, ok := table[route]
		if !ok {
			t.Errorf("no row for the route %s", route)
			continue
		}
		for _, c := range []struct {
			name   string
			server *server
			key    string
			want   [visits]int
		}{
			{"open", open.server, "", row.open},
			{"open, a key shown", open.server, "request-key-of-nobody", row.openKey},
			{"no key", keyed.server, "", row.noKey},
			{"wrong key", keyed.server, "request-key-of-nobody", row.wrongKey},
			{"right key", keyed.server, requestKey, row.rightKey},
		} {
			for visit, want := range c.want {
				for _, prefix := range prefixes(route) {
					got := visited(c.server, visitTo{route, prefix, dialectOf[route], stored[c.server]}, visit, c.key)
					if got != want {
						t.Errorf("%s (prefix %q), %s, %s: %d, want %d", route, prefix, c.name, visitNames[visit], got, want)
					}
				}
			}
		}
	}
	for route := range table {
		if !slices.Contains(routes, route) {
			t.Errorf("a row for %s, which is no route", route)
		}
	}
}

// prefixes are those below which a route is served: the clients' ones have aliases.
func prefixes(route string) []string {
	if slices.ContainsFunc(proxy.Routes(), func(r proxy.Route) bool { return strings.HasSuffix(route, " "+r.Path()) }) {
		return []string{"", "/anthropic", "/openai", "/gemini"}
	}
	return []string{""}
}

// storedAnswer asks for an answer that is stored, and returns its id.
func storedAnswer(t *testing.T, s *server, key string) string {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/v1/responses", strings.NewReader(bodyOf(responses, "gpt-5.5", false)))
	come(r, fromLoopback)
	if key != "" {
		r.Header.Set("X-Api-Key", key)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	id := parse(t, w.Body.String()).get("id").str()
	if w.Code != http.StatusOK || id == "" {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return id
}

// come makes a request one that comes in this way.
func come(r *http.Request, visit int) {
	r.RemoteAddr, r.Host = "127.0.0.1:50000", "127.0.0.1:3456"
	switch visit {
	case fromLAN:
		r.RemoteAddr = "192.168.1.20:50000"
	case withForeignHost:
		r.Host = "rebound.test:3456"
	case throughTunnel:
		r.Header.Set("X-Forwarded-For", "203.0.113.7")
	case withForeignOrigin:
		r.Header.Set("Origin", "https://evil.test")
	}
}

// visitTo is where a visit goes.
type visitTo struct{ route, prefix, dialect, stored string }

// body is a right one for the route.
func (v visitTo) body() string {
	_, path, _ := strings.Cut(v.route, " ")
	content := `{"parts":[{"text":"zebra"}]}`
	switch _, action, _ := strings.Cut(path, "{id}:"); action {
	case "countTokens":
		return bodyOf(gemini, "", false)
	case "embedContent":
		return `{"content":` + content + `}`
	case "batchEmbedContents":
		return `{"requests":[{"model":"models/m","content":` + content + `}]}`
	}
	switch path {
	case "/v1/embeddings", "/v1/moderations":
		return `{"model":"m","input":"zebra"}`
	case "/v1/completions", "/v1/images/{id}":
		return `{"model":"m","prompt":"zebra"}`
	case "/v1/audio/{id}":
		return `{"model":"m","input":"zebra","voice":"v"}`
	}
	return bodyOf(v.dialect, sonnet, false)
}

// id is what the route's path names.
func (v visitTo) id() string {
	switch _, path, _ := strings.Cut(v.route, " "); path {
	case "/v1/images/{id}":
		return "generations"
	case "/v1/audio/{id}":
		return "speech"
	case "/v1/responses/{id}":
		return v.stored
	case "/mcp/{id}":
		return "tools"
	}
	if v.dialect == gemini {
		return "gemini-2.5-flash"
	}
	return sonnet
}

// visited returns the status that a request to the route gets.
func visited(s *server, to visitTo, visit int, key string) int {
	method, path, _ := strings.Cut(to.route, " ")
	path = to.prefix + strings.ReplaceAll(path, "{id}", to.id())
	var body string
	if method == http.MethodPost {
		body = to.body()
	}
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if to.dialect == claude {
		r.Header.Set("Anthropic-Version", "2023-06-01")
	}
	come(r, visit)
	if key != "" {
		r.Header.Set("X-Api-Key", key)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Code
}

// What counts as this machine's own, where no request key is configured.
func TestLocalRequests(t *testing.T) {
	t.Parallel()
	_, url := provider(t)
	i := prepare(t, filepath.Join(t.TempDir(), "data"), poolOf(poolKey(k1, url)))
	i.admit(func(s *liveState) { s.hosts = []string{"proxy.home.test", "192.168.1.5"} })
	t.Cleanup(i.Close)
	for _, c := range []struct {
		address, host, header string
		ok                    bool
	}{
		{address: "127.0.0.1:1", host: "localhost:3456", ok: true},
		{address: "127.0.0.1:1", host: "LOCALHOST", ok: true},
		{address: "127.0.0.1:1", host: "127.0.0.1", ok: true},
		{address: "127.0.0.1:1", host: "127.9.9.9:80", ok: true},
		{address: "[::1]:1", host: "[::1]:3456", ok: true},
		{address: "[::1]:1", host: "[::1]", ok: true},
		{address: "[::ffff:127.0.0.1]:1", host: "localhost", ok: true},
		{address: "127.0.0.1:1", host: "proxy.home.test:3456", ok: true},
		{address: "127.0.0.1:1", host: "Proxy.Home.Test", ok: true},
		{address: "127.0.0.1:1", host: "192.168.1.5:3456", ok: true},
		{address: "127.0.0.1:1", host: "localhost", header: "Origin: http://localhost:8080", ok: true},
		{address: "127.0.0.1:1", host: "localhost", header: "Origin: https://proxy.home.test", ok: true},

		{address: "192.168.1.20:1", host: "localhost"},
		{address: "192.168.1.20:1", host: "proxy.home.test"},
		{address: "[fe80::1%eth0]:1", host: "localhost"},
		{address: "0.0.0.0:1", host: "localhost"},
		{address: "@", host: "localhost"},
		{address: "127.0.0.1:1", host: ""},
		{address: "127.0.0.1:1", host: "127.0.0.1.evil.test"},
		{address: "127.0.0.1:1", host: "localhost.evil.test"},
		{address: "127.0.0.1:1", host: "evil.test:127"},
		{address: "127.0.0.1:1", host: "sub.proxy.home.test"},
		{address: "127.0.0.1:1", host: "192.168.1.6"},
		{address: "127.0.0.1:1", host: "0.0.0.0"},
		{address: "127.0.0.1:1", host: "localhost", header: "Origin: http://localhost.evil.test:8080"},
		{address: "127.0.0.1:1", host: "localhost", header: "Origin: http://127.0.0.1.evil.test"},
		{address: "127.0.0.1:1", host: "localhost", header: "Origin: null"},
		{address: "127.0.0.1:1", host: "localhost", header: "Origin: file://"},
		{address: "127.0.0.1:1", host: "localhost", header: "Origin: "},
		{address: "127.0.0.1:1", host: "localhost", header: "Forwarded: for=10.0.0.1"},
		{address: "127.0.0.1:1", host: "localhost", header: "X-Forwarded-Proto: https"},
		{address: "127.0.0.1:1", host: "localhost", header: "X-Real-Ip: 10.0.0.1"},
		{address: "127.0.0.1:1", host: "localhost", header: "Cf-Connecting-Ip: 10.0.0.1"},
		{address: "127.0.0.1:1", host: "localhost", header: "True-Client-Ip: 10.0.0.1"},
		{address: "127.0.0.1:1", host: "localhost", header: "Via: 1.1 proxy"},
	} {
		for _, path := range []string{"POST /v1/messages", "GET /stats", "GET /api/pool/stats"} {
			method, target, _ := strings.Cut(path, " ")
			r := httptest.NewRequest(method, target, strings.NewReader(question(sonnet)))
			if method == http.MethodGet {
				r.Body = http.NoBody
			}
			r.RemoteAddr, r.Host = c.address, c.host
			r.Header.Set("Anthropic-Version", "2023-06-01")
			if name, value, ok := strings.Cut(c.header, ": "); ok {
				r.Header.Set(name, value)
			}
			w := httptest.NewRecorder()
			i.server.ServeHTTP(w, r)
			want := http.StatusForbidden
			if c.ok {
				want = http.StatusOK
			}
			if w.Code != want {
				t.Errorf("%s from %s, host %q, %s: %d, want %d", path, c.address, c.host, c.header, w.Code, want)
			}
		}
	}
}

// The watchers' endpoints have errors of their own form (design/api.md).
func TestWatcherErrors(t *testing.T) {
	t.Parallel()
	_, url := provider(t)
	i := start(t, poolOf(poolKey(k1, url)))
	for _, c := range []struct {
		name, method, path, header string
		status                     int
		kind, says                 string
	}{
		{"method", "POST", "/stats", "", 405, "invalid_request_error", "GET"},
		{"method on health", "DELETE", "/healthz", "", 405, "invalid_request_error", "GET"},
		{"parameter", "GET", "/api/stats?windw=today", "", 400, "invalid_request_error", "windw"},
		{"window", "GET", "/api/stats?window=ever", "", 400, "invalid_request_error", "window"},
		{"days", "GET", "/api/stats?window=days:0", "", 400, "invalid_request_error", "days"},
		{"host", "GET", "/stats", "Host: rebound.test", 403, "permission_error", "host"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := i.in(t).ask(c.method, c.path, "", c.header)
			if r.status != c.status || r.header.Get("Content-Type") != "application/json" {
				t.Errorf("status %d, content-type %q", r.status, r.header.Get("Content-Type"))
			}
			if c.status == 405 && r.header.Get("Allow") != "GET, HEAD" {
				t.Errorf("allow %q", r.header.Get("Allow"))
			}
			if want := fmt.Sprintf(`{"error":{"type":%q,"message":"`, c.kind); !strings.HasPrefix(r.body, want) || !strings.Contains(r.body, c.says) {
				t.Errorf("body %s", r.body)
			}
		})
	}
}
