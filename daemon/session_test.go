package daemon

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"coding-proxy/auth"
	"coding-proxy/web"
)

// protectedPages is an auth member with the admin key; more are further members.
func protectedPages(more ...string) string {
	return fmt.Sprintf(`"auth":{"admin_key":%q,"protect_pages":true%s}`, adminKey, rest(more))
}

// browser is somebody who looks at the pages and keeps cookies. It follows no redirects.
type browser struct {
	i       *instance
	from    string // address
	host    string
	headers []string // "name: value"
	cookies map[string]string
	last    *httptest.ResponseRecorder
}

func (i *instance) browser() *browser {
	return &browser{i: i, from: "127.0.0.1:50000", host: "127.0.0.1:3456", cookies: map[string]string{}}
}

// do sends a request with a browser's headers; form is the body of a POST. It returns the status.
func (b *browser) do(method, path, form string, headers ...string) int {
	b.i.t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(form))
	r.RemoteAddr, r.Host = b.from, b.host
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", "http://"+b.host)
	}
	for _, line := range append(slices.Clone(b.headers), headers...) {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	for name, value := range b.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	b.last = httptest.NewRecorder()
	b.i.server.ServeHTTP(b.last, r)
	for _, c := range b.last.Result().Cookies() {
		if b.cookies[c.Name] = c.Value; c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		}
	}
	if body := b.last.Body.String(); strings.Contains(body, adminKey) || b.session() != "" && strings.Contains(body, b.session()) {
		b.i.t.Errorf("%s %s shows a secret", method, path)
	}
	return b.last.Code
}

func (b *browser) session() string { return b.cookies[sessionCookie] }

func (b *browser) signIn(key string, headers ...string) int {
	b.i.t.Helper()
	return b.do("POST", web.SignInPath+"?next=/stats/pool", url.Values{"key": {key}}.Encode(), headers...)
}

// signedIn is a browser that has signed in.
func (i *instance) signedIn() *browser {
	i.t.Helper()
	b := i.browser()
	if status := b.signIn(adminKey); status != http.StatusSeeOther || b.session() == "" {
		i.t.Fatalf("signing in: %d %s", status, b.last.Body)
	}
	return b
}

func guarded(t *testing.T, members ...string) *instance {
	t.Helper()
	_, upstream := provider(t)
	return start(t, append(members, poolOf(poolKey(k1, upstream)))...)
}

// From the form by a wrong key to the pages, and out again.
func TestSignIn(t *testing.T) {
	t.Parallel()
	i := guarded(t, protectedPages())
	b := i.browser()
	if status := b.do("GET", "/stats/pool", ""); status != 401 || !strings.Contains(b.last.Body.String(), `action="/stats/sign-in?next=%2Fstats%2Fpool"`) {
		t.Fatalf("the form: %d %s", status, b.last.Body)
	}
	if status := b.do("GET", "/api/pool/stats", ""); status != 401 || b.last.Header().Get("Content-Type") != "application/json" {
		t.Errorf("JSON: %d %s", status, b.last.Body)
	}
	if status := b.do("HEAD", "/stats", ""); status != 401 {
		t.Errorf("HEAD: %d", status)
	}
	if status := b.do("POST", "/stats", "key="+adminKey); status != 401 || b.last.Header().Get("Content-Type") != "application/json" {
		t.Errorf("POST to a page: %d %s", status, b.last.Header())
	}
	if status := b.signIn("wrong"); status != 401 || !strings.Contains(b.last.Body.String(), "That is not the admin key.") || b.session() != "" {
		t.Errorf("a wrong key: %d %s", status, b.last.Body)
	}
	if status := b.signIn(""); status != 401 || b.session() != "" {
		t.Errorf("no key: %d", status)
	}
	if status := b.signIn(" " + adminKey + "\r\n"); status != 303 || b.last.Header().Get("Location") != "/stats/pool" {
		t.Fatalf("the right key: %d %s", status, b.last.Header())
	}
	want := sessionCookie + "=" + b.session() + "; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict"
	if got := b.last.Header()["Set-Cookie"]; !slices.Equal(got, []string{want}) || len(b.session()) != 43 {
		t.Errorf("cookies %q", got)
	}
	for _, path := range []string{"/stats/pool", "/api/pool/stats", "/readyz", "/api/reauth/status"} {
		if status := b.do("GET", path, ""); status != 200 {
			t.Errorf("%s: %d", path, status)
		}
	}
	if b.do("GET", "/stats", ""); !strings.Contains(b.last.Body.String(), `action="/stats/sign-out"`) {
		t.Error("no way out")
	}
	if status := b.do("POST", "/admin/reset", ""); status != 200 {
		t.Errorf("an admin call: %d %s", status, b.last.Body)
	}
	old := b.session()
	if status := b.do("POST", web.SignOutPath, ""); status != 303 || b.last.Header().Get("Location") != "/stats" || b.session() != "" {
		t.Errorf("signing out: %d %s", status, b.last.Header())
	}
	if got := b.last.Header().Get("Set-Cookie"); got != sessionCookie+"=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict" {
		t.Errorf("cookie %q", got)
	}
	b.cookies[sessionCookie] = old
	if status := b.do("GET", "/stats", ""); status != 401 {
		t.Errorf("the old session: %d", status)
	}
}

// Signing in anew ends the session that a browser had; others go on.
func TestSignInReplacesTheSession(t *testing.T) {
	t.Parallel()
	i := guarded(t, protectedPages())
	b, other := i.signedIn(), i.signedIn()
	old := b.session()
	if b.signIn(adminKey); b.session() == old || b.session() == other.session() {
		t.Error("the same session")
	}
	if i.server.live.Load().sessions.Has(old, time.Now()) {
		t.Error("the old one goes on")
	}
	if status := other.do("GET", "/stats", ""); status != 200 {
		t.Errorf("the other browser: %d", status)
	}
	// Somebody else on this host has set a cookie of the name, too.
	if status := b.do("GET", "/stats", "", "Cookie: "+sessionCookie+"=x; "+sessionCookie+"="+b.session()); status != 200 {
		t.Errorf("with a foreign cookie: %d", status)
	}
}

func TestSessionEndsAfterTwelveHours(t *testing.T) {
	t.Parallel()
	_, upstream := provider(t)
	clock := &clock{time: time.Now()}
	i := startAt(t, clock, nil, protectedPages(), poolOf(poolKey(k1, upstream)))
	b := i.signedIn()
	clock.set(clock.now().Add(12*time.Hour - time.Second))
	if status := b.do("GET", "/stats", ""); status != 200 {
		t.Errorf("a second before: %d", status)
	}
	clock.set(clock.now().Add(time.Second))
	if status := b.do("GET", "/stats", ""); status != 401 {
		t.Errorf("after twelve hours: %d", status)
	}
	if status := b.do("POST", "/admin/reset", ""); status != 401 {
		t.Errorf("an admin call: %d", status)
	}
}

// Another admin key ends all sessions, any other change of the configuration none.
func TestNewAdminKeyEndsSessions(t *testing.T) {
	t.Parallel()
	i := guarded(t, protectedPages())
	b := i.signedIn()
	change := func(from, to string) {
		t.Helper()
		path := i.config().Path
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), from) {
			t.Fatalf("%v: no %s", err, from)
		}
		if err := os.WriteFile(path, []byte(strings.Replace(string(text), from, to, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := i.Reload(); err != nil {
			t.Fatal(err)
		}
	}
	change(`"max_wait_seconds":0`, `"max_wait_seconds":1`)
	if status := b.do("GET", "/stats", ""); status != 200 {
		t.Errorf("after another change: %d", status)
	}
	before := i.server.live.Load()
	change(adminKey, "admin-key-of-another")
	if status := b.do("GET", "/stats", ""); status != 401 {
		t.Errorf("after the change of the key: %d", status)
	}
	// Who signs in while the key changes does so by the old one: that is no session of the new one.
	late := before.sessions.Begin(time.Now())
	b.cookies[sessionCookie] = late.Reveal()
	if status := b.do("GET", "/stats", ""); status != 401 {
		t.Errorf("a session of the old key: %d", status)
	}
	change("admin-key-of-another", adminKey)
	if status := b.do("GET", "/stats", ""); status != 401 {
		t.Errorf("the old key again: %d", status)
	}
	b = i.signedIn()
	change(fmt.Sprintf(`"admin_key":%q,"protect_pages":true`, adminKey), `"protect_pages":false`)
	if status := b.do("POST", "/admin/reset", ""); status != 401 {
		t.Errorf("no admin key: %d", status)
	}
	if status := b.do("POST", web.SignInPath, "key="+adminKey); status != 404 {
		t.Errorf("signing in without an admin key: %d", status)
	}
}

// Wrong keys are counted together, however they are shown, by the address of the client.
func TestWrongAdminKeysAreLimited(t *testing.T) {
	t.Parallel()
	_, upstream := provider(t)
	clock := &clock{time: time.Now()}
	i := startAt(t, clock, nil, protectedPages(), poolOf(poolKey(k1, upstream)))
	i.admit(func(s *liveState) { s.trusted = auth.Addresses{netip.MustParsePrefix("10.0.0.0/8")} })
	known := i.signedIn()
	b := i.browser()
	for n := range 2 {
		b.signIn(fmt.Sprint("guess", n))
		b.do("GET", "/stats", "", "Authorization: Bearer guess")
	}
	b.do("POST", "/admin/reset", "", "Authorization: Bearer guess")
	clock.set(clock.now().Add(500 * time.Millisecond))
	for name, ask := range map[string]func() int{
		"form": func() int { return b.signIn(adminKey) }, "page": func() int { return b.do("GET", "/stats", "", "Authorization: Bearer "+adminKey) },
		"JSON": func() int { return b.do("GET", "/api/stats", "", "Authorization: Bearer "+adminKey) }, "call": func() int { return b.do("POST", "/admin/reset", "", "Authorization: Bearer "+adminKey) },
	} {
		if status := ask(); status != 429 || b.last.Header().Get("Retry-After") != "60" || b.session() != "" {
			t.Errorf("%s: %d %s", name, status, b.last.Header())
		}
		if told := strings.Contains(b.last.Body.String(), "Too many wrong keys from this address."); told != (name == "form" || name == "page") {
			t.Errorf("%s: %s", name, b.last.Body)
		}
	}
	if status := b.do("GET", "/stats", ""); status != 401 {
		t.Errorf("nothing shown: %d", status)
	}
	if status := known.do("GET", "/stats", ""); status != 200 {
		t.Errorf("who has signed in: %d", status)
	}
	clock.set(clock.now().Add(time.Minute))
	if status := b.signIn(adminKey); status != 303 {
		t.Errorf("a minute later: %d", status)
	}
	for _, c := range []struct {
		name, from, header string
		other, otherHeader string
		shared             bool
	}{
		{"two clients of a proxy", "10.0.0.9:1", "X-Forwarded-For: 192.0.2.1", "10.0.0.9:1", "X-Forwarded-For: 192.0.2.2", false},
		{"one client of two proxies", "10.0.0.9:1", "X-Forwarded-For: 192.0.2.3", "10.0.0.8:1", "X-Forwarded-For: 192.0.2.3", true},
		{"no proxy of ours", "192.0.2.4:1", "X-Forwarded-For: 192.0.2.5", "192.0.2.4:1", "X-Forwarded-For: 192.0.2.6", true},
		{"unreadable headers", "10.0.0.7:1", "X-Forwarded-For: nobody", "10.0.0.7:1", "X-Forwarded-For: somebody", true},
		{"unreadable headers of two proxies", "10.0.0.6:1", "X-Forwarded-For: nobody", "10.0.0.5:1", "X-Forwarded-For: nobody", false},
		{"one subscriber", "[2001:db8::1]:1", "", "[2001:db8::ffff:1]:1", "", true},
		{"two subscribers", "[2001:db8:0:1::1]:1", "", "[2001:db8:0:2::1]:1", "", false},
		{"mapped", "192.0.2.7:1", "", "[::ffff:192.0.2.7]:1", "", true},
		{"no address", "@", "", "@", "", true},
	} {
		b := i.browser()
		b.from, b.headers = c.from, []string{c.header}
		for range 5 {
			b.signIn("guess")
		}
		b.from, b.headers = c.other, []string{c.otherHeader}
		if got := b.signIn(adminKey); (got == 429) != c.shared || !c.shared && got != 303 {
			t.Errorf("%s: %d", c.name, got)
		}
	}
}

// Login CSRF: no other site makes a browser sign in or out. Browsers say where a form comes from, other programs nothing.
func TestSignInFromElsewhere(t *testing.T) {
	t.Parallel()
	i := guarded(t, protectedPages())
	for header, want := range map[string]int{
		"Origin: http://evil.test": 403, "Origin: null": 403, "Origin: http://127.0.0.1:8080": 403, "Origin: http://127.0.0.1": 403, "Origin: http://127.0.0.1:3456.evil.test": 403,
		"Sec-Fetch-Site: cross-site": 403, "Sec-Fetch-Site: same-site": 403, "Sec-Fetch-Site: same-origin": 303, "Sec-Fetch-Site: none": 303, "X-Nothing: said": 303,
	} {
		b := i.browser()
		if status := b.signIn(adminKey, header); status != want || (b.session() != "") != (want == 303) {
			t.Errorf("in, %s: %d", header, status)
		}
		b = i.signedIn()
		if status := b.do("POST", web.SignOutPath, "", header); status != want || (b.session() == "") != (want == 303) {
			t.Errorf("out, %s: %d", header, status)
		}
	}
	for _, c := range []struct {
		method, path, header string
		status               int
	}{
		{"GET", web.SignOutPath, "", 405}, {"PUT", web.SignInPath, "", 405}, {"DELETE", web.SignOutPath, "", 405}, {"HEAD", web.SignInPath, "", 200},
		{"POST", web.SignInPath, "Content-Type: text/plain", 415}, {"POST", web.SignInPath, "Content-Type: application/json", 415},
		{"POST", web.SignInPath + "?key=" + "0123456789", "", 400}, {"GET", web.SignInPath + "?x=1", "", 400}, {"POST", web.SignInPath + "/", "", 404},
	} {
		b := i.browser()
		if status := b.do(c.method, c.path, "key="+adminKey, c.header); status != c.status || b.session() != "" {
			t.Errorf("%s %s, %s: %d", c.method, c.path, c.header, status)
		}
		if allow := b.last.Header().Get("Allow"); (allow != "") != (c.status == 405) || allow != "" && allow != map[string]string{web.SignInPath: "GET, POST", web.SignOutPath: "POST"}[c.path] {
			t.Errorf("%s %s: allow %q", c.method, c.path, allow)
		}
	}
	if status := i.browser().do("POST", web.SignInPath, "key="+strings.Repeat("a", 1<<20)); status != 413 {
		t.Errorf("a large body: %d", status)
	}
}

// Where a browser goes after signing in is one of the pages, whatever the form's address says.
func TestSignInRedirectsToOwnPages(t *testing.T) {
	t.Parallel()
	i := guarded(t, protectedPages())
	for next, want := range map[string]string{
		"/stats?window=week": "/stats?window=week", "//evil.test": "/stats", `/\evil.test`: "/stats", "http://evil.test/stats": "/stats",
		"/stats\r\nSet-Cookie: a=b": "/stats", "/admin/config": "/stats", "": "/stats",
	} {
		b := i.browser()
		status := b.do("POST", web.SignInPath+"?"+url.Values{"next": {next}}.Encode(), "key="+adminKey)
		if got := b.last.Header()["Location"]; status != 303 || !slices.Equal(got, []string{want}) || len(b.cookies) != 1 {
			t.Errorf("%q: %d %q", next, status, got)
		}
	}
}

// The cookie is for TLS alone where the browser came by it, as far as that can be believed.
func TestSessionCookieIsSecure(t *testing.T) {
	t.Parallel()
	i := guarded(t, protectedPages())
	i.admit(func(s *liveState) { s.trusted = auth.Addresses{netip.MustParsePrefix("10.0.0.0/8")} })
	for _, c := range []struct {
		from, header string
		want         bool
	}{
		{"10.0.0.9:1", "X-Forwarded-Proto: https", true}, {"10.0.0.9:1", "X-Forwarded-Proto: HTTPS , http", true}, {"10.0.0.9:1", "X-Forwarded-Proto: http", false},
		{"10.0.0.9:1", "", false}, {"192.0.2.1:1", "X-Forwarded-Proto: https", false}, {"127.0.0.1:1", "X-Forwarded-Proto: https", false},
	} {
		b := i.browser()
		b.from = c.from
		status := b.signIn(adminKey, c.header, "Origin: https://127.0.0.1:3456")
		if cookie := b.last.Header().Get("Set-Cookie"); status != 303 || strings.HasSuffix(cookie, "; HttpOnly; Secure; SameSite=Strict") != c.want {
			t.Errorf("%s, %s: %d %q", c.from, c.header, status, cookie)
		}
		// A page that came without TLS is another origin where the proxy is reached by it.
		want := 200
		if c.want {
			want = 403
		}
		if status := b.do("POST", "/admin/reset", "", c.header, "Origin: http://127.0.0.1:3456"); status != want {
			t.Errorf("%s, %s: an admin call of http: %d", c.from, c.header, status)
		}
		if status := b.do("POST", "/admin/reset", "", c.header, "Origin: https://127.0.0.1:3456"); status != 200 {
			t.Errorf("%s, %s: an admin call of https: %d", c.from, c.header, status)
		}
	}
}

// SEC-001: a rebound page gets neither figures nor admin calls, with an admin key either, and no cookie of another host.
func TestSEC001RebindingWithAnAdminKey(t *testing.T) {
	t.Parallel()
	for name, members := range map[string]string{"open": fmt.Sprintf(`"auth":{"admin_key":%q}`, adminKey), "protected": protectedPages()} {
		i := guarded(t, members)
		for host, want := range map[string]int{
			"r.attacker.test:3456": 401, "": 401, "127.0.0.1.evil.test": 401, "localhost.evil.test:3456": 401, "192.168.1.9": 401, "0.0.0.0:3456": 401,
			"[::1]:3456": 200, "127.0.0.1:3456": 200, "localhost": 200,
		} {
			if name == "protected" {
				want = 401
			}
			b := i.browser()
			b.host = host
			for _, path := range []string{"/stats", "/stats/pool", "/api/pool/stats", "/readyz"} {
				if status := b.do("GET", path, "", "Origin: http://"+host); status != want && host != "" {
					t.Errorf("%s: %s by %q: %d, want %d", name, path, host, status, want)
				}
				if strings.Contains(b.last.Body.String(), k1) && want != 200 {
					t.Errorf("%s: %s by %q tells: %s", name, path, host, b.last.Body)
				}
			}
			if status := b.do("POST", "/admin/reset", "", "Origin: http://"+host); status != 401 && status != 403 {
				t.Errorf("%s: an admin call by %q: %d", name, host, status)
			}
		}
	}
}

// SEC-002: what an origin begins with is not what it is.
func TestSEC002OriginsOfSessions(t *testing.T) {
	t.Parallel()
	i := guarded(t, protectedPages())
	b := i.signedIn()
	for origin, own := range map[string]bool{
		"http://127.0.0.1:3456": true, "https://127.0.0.1:3456": true,
		"https://127.0.0.1:34567": false, "https://127.0.0.1:3456.evil.test": false, "https://127.0.0.1": false,
		"http://127.0.0.1:34567": false, "http://127.0.0.1": false, "http://127.0.0.1:3456.evil.test": false, "http://127.0.0.1:3456/": false, "http://localhost:3456": false,
		"http://evil.test/127.0.0.1:3456": false, "http://x@127.0.0.1:3456": false, "null": false, "ftp://127.0.0.1:3456": false, "file://": false,
		"http://127.0.0.1.attacker.test:3456": false, " http://127.0.0.1:3456": false, "127.0.0.1:3456": false, "": false,
	} {
		for _, c := range []struct {
			method, path string
			ok           bool
		}{{"GET", "/api/pool/stats", own}, {"GET", "/stats", own}, {"GET", "/admin/config", own}, {"POST", "/admin/reset", own}} {
			if status := b.do(c.method, c.path, "", "Origin: "+origin); (status == 200) != c.ok || status != 200 && status != 401 && status != 403 {
				t.Errorf("%s %s, origin %q: %d", c.method, c.path, origin, status)
			}
		}
	}
	r := httptest.NewRequest("POST", "/admin/reset", nil)
	come(r, fromLoopback)
	r.AddCookie(&http.Cookie{Name: sessionCookie, Value: b.session()})
	r.Header["Origin"] = []string{"http://127.0.0.1:3456", "http://evil.test"}
	w := httptest.NewRecorder()
	if i.server.ServeHTTP(w, r); w.Code != 403 {
		t.Errorf("two origins: %d", w.Code)
	}
	// Another port of the host is the same site: the cookie goes along with what its pages embed.
	for header, want := range map[string]int{"Sec-Fetch-Site: same-site": 401, "Sec-Fetch-Site: cross-site": 403, "Sec-Fetch-Site: same-origin": 200, "Sec-Fetch-Site: none": 200} {
		for _, path := range []string{"/api/pool/stats", "/stats/assets/stats.js"} {
			if status := b.do("GET", path, "", header, "Sec-Fetch-Mode: no-cors"); status != want {
				t.Errorf("%s, %s: %d", path, header, status)
			}
		}
	}
	if status := b.do("GET", "/stats", "", "Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: navigate"); status != 200 {
		t.Errorf("a link: %d", status)
	}
}

// SEC-003: no page of another site makes an admin call by a browser that has signed in.
func TestSEC003SimplePostOfASession(t *testing.T) {
	t.Parallel()
	i := guarded(t, protectedPages())
	b := i.signedIn()
	for _, route := range web.AdminRoutes() {
		path := strings.ReplaceAll(route.Pattern, "{id}", k1)
		for _, header := range []string{"Origin: http://evil.test", "Origin: null", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site", "Origin: http://127.0.0.1:8080"} {
			for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"} {
				if status := b.do(route.Method, path, `{"grace":0}`, header, "Content-Type: "+kind); status != 403 {
					t.Errorf("%s %s, %s, %s: %d", route.Method, path, kind, header, status)
				}
			}
		}
	}
}

// SEC-005: pages cannot be protected by a key that is not there.
func TestSEC005ProtectedByNothing(t *testing.T) {
	t.Parallel()
	for _, members := range []string{`"auth":{"protect_pages":true}`, `"auth":{"protect_pages":true,"admin_key":""}`} {
		if _, err := load(t, t.TempDir(), members, poolOf(poolKey(k1, "http://127.0.0.1:1"))); err == nil || !strings.Contains(err.Error(), "protect_pages") {
			t.Errorf("%s: %v", members, err)
		}
	}
	i := guarded(t)
	i.admit(func(s *liveState) { s.protect = true }) // whatever a configuration can say
	for _, path := range []string{"/stats", "/api/stats", "/readyz"} {
		if status := i.browser().do("GET", path, ""); status != 403 {
			t.Errorf("%s: %d", path, status)
		}
	}
	for _, path := range []string{"/healthz", "/health"} {
		if status := i.browser().do("GET", path, ""); status != 200 {
			t.Errorf("%s: %d", path, status)
		}
	}
}

// SEC-006: an empty key is none, wherever it is shown.
func TestSEC006EmptyAdminKey(t *testing.T) {
	t.Parallel()
	for name, members := range map[string][]string{"none": nil, "empty": {`"auth":{"admin_key":""}`}, "one": {protectedPages()}} {
		i := guarded(t, members...)
		i.admit(func(s *liveState) { s.protect = true })
		for _, header := range []string{"", "Authorization: Bearer ", "Authorization: Bearer", "Authorization: ", "Cookie: " + sessionCookie + "=", "Cookie: " + sessionCookie} {
			b := i.browser()
			if status := b.do("GET", "/api/stats", "", header); status != 401 && status != 403 {
				t.Errorf("%s, %q: a page: %d", name, header, status)
			}
			if status := b.do("POST", "/admin/reset", "", header); status != 401 && status != 403 {
				t.Errorf("%s, %q: an admin call: %d", name, header, status)
			}
			if status := b.do("POST", web.SignInPath, "key=", header); status == 303 || b.session() != "" {
				t.Errorf("%s, %q: signing in: %d", name, header, status)
			}
		}
	}
}

// The commands of this machine are let in by the token of this start, whatever is protected and whoever is trusted; what has come
// through something is not.
func TestTokenOpensProtectedPages(t *testing.T) {
	t.Parallel()
	for _, trusted := range []string{"", "127.0.0.0/8"} {
		i := guarded(t, protectedPages())
		i.admit(func(s *liveState) {
			if trusted != "" {
				s.trusted = auth.Addresses{netip.MustParsePrefix(trusted)}
			}
		})
		token := "Authorization: Bearer " + i.instance.Token
		for _, path := range []string{"/api/pool/stats", "/api/stats", "/stats", "/admin/config"} {
			for header, want := range map[string]int{"": 200, "X-Forwarded-For: 127.0.0.1": 0, "Forwarded: for=127.0.0.1": 0, "Via: 1.1 proxy": 0, "Origin: http://evil.test": 0} {
				r := i.ask("GET", path, "", token, header)
				if want == 200 && r.status != 200 || want == 0 && r.status != 401 && r.status != 403 {
					t.Errorf("trusted %q: %s, %q: %d %s", trusted, path, header, r.status, r.body)
				}
			}
			if r := i.ask("GET", path, ""); r.status != 401 {
				t.Errorf("trusted %q: %s without a token: %d", trusted, path, r.status)
			}
			i.server.attempts = auth.Attempts{}
		}
	}
}

// Without request keys nobody is served who comes through a trusted proxy, though the proxy runs here and hides it.
func TestTrustedProxyIsNotLocal(t *testing.T) {
	t.Parallel()
	i := guarded(t)
	i.admit(func(s *liveState) { s.trusted = auth.Addresses{netip.MustParsePrefix("127.0.0.1/32")} })
	for _, header := range []string{"", "X-Forwarded-For: 127.0.0.1", "X-Real-Ip: 127.0.0.1"} {
		if r := i.message(question(sonnet), header); r.status != 403 || !strings.Contains(r.body, "trusted proxy") {
			t.Errorf("%q: %d %s", header, r.status, r.body)
		}
		if r := i.ask("GET", "/stats", "", header); r.status != 403 {
			t.Errorf("%q: a page: %d", header, r.status)
		}
	}
}

// No session id and no key gets into the log, a file or upstream.
func TestSessionsAreKeptQuiet(t *testing.T) {
	t.Parallel()
	backend := newBackend(t, says(200, whole))
	i := start(t, protectedPages(), poolOf(poolKey(k1, backend.URL)))
	b := i.signedIn()
	b.do("GET", "/stats", "")
	b.do("POST", "/admin/reset", "")
	i.ask("POST", web.SignInPath, "key=guess-of-somebody", "Content-Type: application/x-www-form-urlencoded")
	i.good(question(sonnet), "Cookie: "+sessionCookie+"="+b.session())
	i.stop()
	secrets := []string{b.session(), adminKey, "guess-of-somebody"}
	look := func(where, text string) {
		for _, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("%s shows %q", where, secret)
			}
		}
	}
	look("the log", i.log.String())
	for _, q := range backend.requests() {
		look("a request upstream", q.text())
	}
	files, err := filepath.Glob(filepath.Join(i.dir, "*"))
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, path := range files {
		if data, err := os.ReadFile(path); err == nil {
			look(path, string(data))
		}
	}
}

// Who may not come at all cannot sign in either.
func TestSignInFromDeniedAddresses(t *testing.T) {
	t.Parallel()
	i := guarded(t, protectedPages(`"deny_addresses":["192.0.2.0/24"]`))
	b := i.browser()
	b.from = "192.0.2.1:1"
	for _, path := range []string{web.SignInPath, web.SignOutPath} {
		if status := b.do("POST", path, "key="+adminKey); status != 403 || b.session() != "" {
			t.Errorf("%s: %d", path, status)
		}
	}
	if status := b.do("GET", "/stats/assets/stats.css", ""); status != 403 {
		t.Errorf("the style sheet: %d", status)
	}
}

// Many at once sign in, look and sign out while the configuration is read anew.
func TestSessionsAtOnce(t *testing.T) {
	t.Parallel()
	i := guarded(t, protectedPages())
	done := make(chan int, 8)
	for n := range cap(done) {
		go func() {
			b := i.browser()
			b.from = fmt.Sprintf("192.0.2.%d:1", n)
			wrong := 0
			for range 5 {
				if b.signIn(adminKey) != 303 || b.do("GET", "/stats", "") != 200 || b.do("POST", "/admin/reset", "") != 200 || b.do("POST", web.SignOutPath, "") != 303 {
					wrong++
				}
			}
			done <- wrong
		}()
	}
	for range 3 {
		if _, err := i.Reload(); err != nil {
			t.Error(err)
		}
	}
	for range cap(done) {
		if wrong := <-done; wrong != 0 {
			t.Errorf("%d went wrong", wrong)
		}
	}
}
