package daemon

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coding-proxy/auth"
	"coding-proxy/proxy"
	"coding-proxy/web"
)

// accessTable has what a class of routes answers: on a site, to who shows something, by the way in which the request comes
// (columns). ok is the route's own status. Lists have commas, * is each.
const accessTable = `
class      site                  shown                                   loopback LAN rebound tunnel origin proxied no-cors proxy-here
# The clients' endpoints. A request key makes them independent of address, host and origin; nothing else opens them.
client     bare,open             none,wrong,right,admin,cookie,token     ok       403 403     403    403    403     403     403
client     bare,open             cookie+own                              ok       403 403     403    403    403     403     403
client     bare,open             cookie+foreign                          403      403 403     403    403    403     403     403
client     keyed,protected       right                                   ok       ok  ok      ok     ok     ok      ok      ok
client     keyed,protected       none,wrong,admin,token                  401      401 401     401    401    401     401     401
client     keyed,protected       cookie,cookie+own,cookie+foreign        401      401 401     401    401    401     401     401
anybody    *                     *                                       ok       ok  ok      ok     ok     ok      ok      ok
# The pages and their JSON.
page,data  bare                  none,wrong,right,admin,cookie           ok       403 403     403    403    403     403     403
page,data  bare                  cookie+own                              ok       403 403     403    403    403     403     403
page,data  bare                  cookie+foreign                          403      403 403     403    403    403     403     403
page,data  bare                  token                                   ok       403 ok      403    403    403     403     ok
page,data  open,keyed            none,wrong,right                        ok       401 401     401    401    401     403     401
page,data  protected             none,wrong,right                        401      401 401     401    401    401     403     401
page,data  open,keyed,protected  admin                                   ok       ok  ok      ok     ok     ok      403     ok
page,data  open,keyed,protected  cookie,cookie+own                       ok       ok  ok      ok     401    ok      403     ok
page,data  open,keyed,protected  cookie+foreign                          401      401 401     401    401    401     403     401
page,data  open,keyed,protected  token                                   ok       401 ok      401    401    401     403     ok
# The style sheet, which the form of the admin key needs.
style      bare                  none,wrong,right,admin,cookie           ok       403 403     403    403    403     403     403
style      bare                  cookie+own                              ok       403 403     403    403    403     403     403
style      bare                  cookie+foreign                          403      403 403     403    403    403     403     403
style      bare                  token                                   ok       403 ok      403    403    403     403     ok
style      open,keyed,protected  *                                       ok       ok  ok      ok     ok     ok      ok      ok
# Admin calls that change something, and those that only tell.
change     bare                  none,wrong,right,admin,cookie           401      401 401     401    403    401     403     401
change     bare                  cookie+own                              401      401 401     401    403    401     403     401
change     open,keyed,protected  none,wrong,right                        401      401 401     401    403    401     403     401
change     open,keyed,protected  admin,cookie+own                        ok       ok  ok      ok     403    ok      403     ok
change     open,keyed,protected  cookie                                  403      403 403     403    403    403     403     403
change     *                     cookie+foreign                          403      403 403     403    403    403     403     403
tell       bare                  none,wrong,right,admin,cookie           401      401 401     401    401    401     403     401
tell       bare                  cookie+own,cookie+foreign               401      401 401     401    401    401     403     401
tell       open,keyed,protected  none,wrong,right                        401      401 401     401    401    401     403     401
tell       open,keyed,protected  admin                                   ok       ok  ok      ok     ok     ok      403     ok
tell       open,keyed,protected  cookie,cookie+foreign                   403      403 403     403    403    403     403     403
tell       open,keyed,protected  cookie+own                              ok       ok  ok      ok     403    ok      403     ok
change,tell *                    token                                   ok       403 ok      403    403    403     403     ok
# Signing in and out.
form       bare                  *                                       404      404 404     404    404    404     404     404
form       open,keyed,protected  *                                       ok       ok  ok      ok     ok     ok      403     ok
sign       bare                  *                                       404      404 404     404    404    404     404     404
sign       open,keyed,protected  none,wrong,right,admin,token            ok       ok  ok      ok     403    ok      403     ok
sign       open,keyed,protected  cookie,cookie+own                       ok       ok  ok      ok     403    ok      403     ok
sign       open,keyed,protected  cookie+foreign                          403      403 403     403    403    403     403     403
`

// A row is a route's class, and what it answers where it is let in (0: 200).
type routeRow struct {
	class string
	own   int
}

func routeTable() map[string]routeRow {
	client, anybody, page, data, change, tell := routeRow{class: "client"}, routeRow{class: "anybody"}, routeRow{class: "page"}, routeRow{class: "data"}, routeRow{class: "change"}, routeRow{class: "tell"}
	return map[string]routeRow{
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
		"GET /stats/assets/stats.css":  {class: "style"},
		"GET /stats/assets/stats.js":   data,
		"GET /api/stats":               data,
		"GET /api/pool/stats":          data,
		"GET /api/pool/usage":          data,
		"GET /api/request-keys/usage":  data,
		"GET /api/requests":            data,
		"GET /api/requests/{trace}":    {"data", 404},
		"GET /healthz":                 anybody,
		"GET /health":                  anybody,
		"GET /readyz":                  data,
		"GET /metrics":                 data,
		"GET /api/status":              data,
		"GET /api/copilot/diagnostics": {"data", 404}, // without a sign-in to the provider
		"GET /api/copilot/models":      {"data", 404},
		"GET /api/reauth/status":       data,

		"GET /stats/sign-in":   {class: "form"},
		"POST /stats/sign-in":  {"sign", 303},
		"POST /stats/sign-out": {"sign", 303},

		"POST /admin/shutdown":             {"change", 202},
		"POST /admin/reload":               change,
		"POST /admin/reset":                change,
		"POST /admin/keys/{id}/enable":     change,
		"POST /admin/keys/{id}/disable":    change,
		"POST /admin/keys/{id}/reset":      change,
		"POST /admin/sessions/{id}/unbind": {"change", 404}, // none is bound
		"GET /admin/config":                tell,
		"GET /admin/route":                 tell,
		"POST /api/reset":                  change,
		"POST /api/reauth/{id}":            {"change", 404},
	}
}

func shownThings() []string {
	return []string{"none", "right", "wrong", "admin", "cookie", "cookie+own", "cookie+foreign", "token"}
}

// way is one in which a request comes.
type way struct {
	column         int
	from, to, host string // addresses and the Host header; "" = this machine's
	header         string
	trusted        string // proxies
}

func ways() []way {
	list := []way{{column: 0}, {column: 1, from: "192.168.1.20", to: "192.168.1.5"}}
	for _, host := range []string{"rebound.test:3456", "127.0.0.1.evil.test", "localhost.evil.test:3456"} {
		list = append(list, way{column: 2, host: host})
	}
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Real-Ip", "Cf-Connecting-Ip", "True-Client-Ip", "Via"} {
		list = append(list, way{column: 3, header: name + ": 203.0.113.7"})
	}
	for _, origin := range []string{"https://evil.test", "http://localhost.attacker.test:8080", "null"} {
		list = append(list, way{column: 4, header: "Origin: " + origin})
	}
	return append(list,
		way{column: 5, from: "10.0.0.9", to: "10.0.0.1", trusted: "10.0.0.0/8"},
		way{column: 5, from: "10.0.0.9", to: "10.0.0.1", trusted: "10.0.0.0/8", header: "X-Forwarded-For: 127.0.0.1"},
		way{column: 5, trusted: "127.0.0.0/8", header: "X-Forwarded-For: 127.0.0.1"},
		way{column: 6, header: "Sec-Fetch-Site: cross-site\nSec-Fetch-Mode: no-cors"},
		way{column: 7, trusted: "127.0.0.0/8"})
}

// come makes a request one that comes in this way.
func (w way) come(r *http.Request) *http.Request {
	from, to := w.from, w.to
	if from == "" {
		from, to = "127.0.0.1", "127.0.0.1"
	}
	r.RemoteAddr, r.Host = from+":50000", to+":3456"
	if w.host != "" {
		r.Host = w.host
	}
	for line := range strings.Lines(w.header) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		r.Header.Set(name, value)
	}
	local := net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(to), 3456))
	return r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, local))
}

// expectations are those of accessTable, by class, site, what is shown, column.
func expectations(t *testing.T) map[[3]string][]string {
	t.Helper()
	all := map[[3]string][]string{}
	columns := 0
	for line := range strings.Lines(accessTable) {
		cells := strings.Fields(line)
		if len(cells) == 0 || cells[0] == "#" {
			continue
		}
		if columns == 0 {
			columns = len(cells)
			continue
		}
		if len(cells) != columns {
			t.Fatalf("%d cells: %s", len(cells), line)
		}
		for class := range strings.SplitSeq(cells[0], ",") {
			for site := range strings.SplitSeq(strings.Replace(cells[1], "*", "bare,open,keyed,protected", 1), ",") {
				for shown := range strings.SplitSeq(strings.Replace(cells[2], "*", strings.Join(shownThings(), ","), 1), ",") {
					at := [3]string{class, site, shown}
					if all[at] != nil {
						t.Fatalf("twice: %s", line)
					}
					all[at] = cells[3:]
				}
			}
		}
	}
	return all
}

// accessSite is an instance that is visited.
type accessSite struct {
	*instance
	name   string
	stored string // an answer that can be asked for again
	state  liveState
}

func accessSites(t *testing.T) []*accessSite {
	t.Helper()
	_, upstream := strict(t, "all")
	pool := poolOf(polyglotKey(k1, upstream, nil))
	mcp := mcpOf(newBackend(t, says(200, rpcAnswer)).URL)
	admin := fmt.Sprintf(`"admin_key":%q`, adminKey)
	caller := fmt.Sprintf(`"request_keys":[{"code":"laptop","api_key":%q}]`, requestKey)
	var sites []*accessSite
	for _, c := range []struct{ name, auth, key string }{
		{"bare", "", ""}, {"open", admin, ""}, {"keyed", caller + "," + admin, requestKey}, {"protected", caller + "," + admin + `,"protect_pages":true`, requestKey},
	} {
		i := prepare(t, filepath.Join(t.TempDir(), "data"), pool, mcp, `"auth":{`+c.auth+`}`)
		t.Cleanup(i.Close)
		sites = append(sites, &accessSite{i, c.name, storedAnswer(t, i.server, c.key), *i.server.live.Load()})
	}
	return sites
}

// visit sends a request to the route.
func (s *accessSite) visit(to visitTo, shown string, w way) *httptest.ResponseRecorder {
	state := s.state
	if w.trusted != "" {
		state.trusted = auth.Addresses{netip.MustParsePrefix(w.trusted)}
	}
	s.server.live.Store(&state) // whatever the visit before has changed
	s.server.attempts = auth.Attempts{}
	r := w.come(to.request())
	bearer := map[string]string{"right": requestKey, "wrong": "key-of-nobody", "admin": adminKey, "token": s.Daemon.instance.Token}[shown]
	if bearer != "" {
		r.Header.Set("Authorization", "Bearer "+bearer)
	}
	cookie, origin, _ := strings.Cut(shown, "+")
	if cookie == "cookie" {
		r.AddCookie(&http.Cookie{Name: sessionCookie, Value: state.sessions.Begin(s.server.now()).Reveal()})
	}
	if r.Header.Get("Origin") == "" && origin != "" {
		r.Header.Set("Origin", map[string]string{"own": "http://" + r.Host, "foreign": "http://evil.test"}[origin])
	}
	recorder := httptest.NewRecorder()
	s.server.ServeHTTP(recorder, r)
	return recorder
}

// accessRoutes are all routes of the program with their dialects, in an order in which none spoils the next ones.
func accessRoutes() (routes []string, dialectOf map[string]string) {
	dialectOf = map[string]string{}
	for _, r := range proxy.Routes() {
		for _, m := range r.Methods {
			routes = append(routes, m+" "+r.Path())
			dialectOf[m+" "+r.Path()] = r.Dialect
		}
	}
	for _, r := range web.Routes() {
		routes = append(routes, "GET "+r.Path)
	}
	for _, r := range signRoutes() {
		routes = append(routes, r.method+" "+r.path)
	}
	for _, r := range web.AdminRoutes() {
		routes = append(routes, r.Method+" "+r.Pattern)
	}
	return routes, dialectOf
}

// TestAccess walks all routes: on each site, with each thing that can be shown, in each way in which a request comes. A route
// without a row fails, so does a row without a route.
func TestAccess(t *testing.T) {
	t.Parallel()
	table, expected := routeTable(), expectations(t)
	routes, dialectOf := accessRoutes()
	for route := range table {
		if !slices.Contains(routes, route) {
			t.Errorf("a row for %s, which is no route", route)
		}
	}
	for _, site := range accessSites(t) {
		t.Run(site.name, func(t *testing.T) {
			t.Parallel()
			for _, route := range routes {
				row, ok := table[route]
				if !ok {
					t.Errorf("no row for the route %s", route)
					continue
				}
				for _, shown := range shownThings() {
					cells := expected[[3]string{row.class, site.name, shown}]
					if cells == nil {
						t.Fatalf("no cells for %s, %s, %s", row.class, site.name, shown)
					}
					for _, w := range ways() {
						site.check(t, row, cells[w.column], visitTo{route, "", dialectOf[route], site.stored}, shown, w)
					}
					if row.class != "client" || shown != "none" && shown != "right" {
						continue
					}
					for _, prefix := range []string{"/anthropic", "/openai", "/gemini"} {
						for _, w := range ways()[:3] {
							site.check(t, row, cells[w.column], visitTo{route, prefix, dialectOf[route], site.stored}, shown, w)
						}
					}
				}
			}
		})
	}
}

func (s *accessSite) check(t *testing.T, row routeRow, cell string, to visitTo, shown string, w way) {
	t.Helper()
	want := map[string]int{"ok": cmp.Or(row.own, 200), "401": 401, "403": 403, "404": 404}[cell]
	got := s.visit(to, shown, w)
	if got.Code != want {
		t.Errorf("%s (prefix %q), %s shown, %+v: %d, want %d: %.200s", to.route, to.prefix, shown, w, got.Code, want, got.Body)
	}
	asks := strings.Contains(got.Body.String(), `class="signin"`)
	if asks != (got.Code == 401 && row.class == "page" || got.Code == 200 && row.class == "form") {
		t.Errorf("%s, %s shown, %+v: the form: %v", to.route, shown, w, asks)
	}
	if kind := got.Header().Get("Content-Type"); !asks && got.Code >= 400 && kind != "application/json" {
		t.Errorf("%s, %s shown, %+v: %s", to.route, shown, w, kind)
	}
	if to.route != "POST /stats/sign-in" && to.route != "POST /stats/sign-out" && got.Header().Get("Set-Cookie") != "" {
		t.Errorf("%s, %s shown, %+v: sets a cookie", to.route, shown, w)
	}
}

// Ways in which a request comes, where a test needs but the plain ones.
const (
	fromLoopback = iota
	fromLAN
	withForeignHost
	throughTunnel
	withForeignOrigin
	visits
)

var visitNames = [visits]string{"loopback", "LAN", "foreign host", "tunnel", "foreign origin"}

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
	if strings.Contains(v.route, " /admin/keys/") {
		return k1
	}
	if v.dialect == gemini {
		return "gemini-2.5-flash"
	}
	return sonnet
}

// request is a right one to the route.
func (v visitTo) request() *http.Request {
	method, path, _ := strings.Cut(v.route, " ")
	path = v.prefix + strings.NewReplacer("{id}", v.id(), "{trace}", "0123456789abcdef").Replace(path)
	kind, body := "application/json", ""
	switch {
	case path == web.SignInPath:
		kind, body = "application/x-www-form-urlencoded", "key="+adminKey
	case strings.HasPrefix(path, "/admin/route"):
		path += "?model=" + sonnet
	case method == http.MethodPost:
		body = v.body()
	}
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", kind)
	if v.dialect == claude {
		r.Header.Set("Anthropic-Version", "2023-06-01")
	}
	return r
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
