package web

import (
	"errors"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// form asks for the form in place of what is at the address; more are header lines.
func form(t *testing.T, method, address string, problem Problem, more ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, "http://localhost/", nil)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	r.URL = u
	for _, line := range more {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	(&Web{pages: newPages()}).SignIn(w, r, http.StatusUnauthorized, problem)
	return w
}

// action is where the form goes.
func action(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	m := regexp.MustCompile(`<form class="signin" method="post" action="([^"]*)">`).FindStringSubmatch(w.Body.String())
	if m == nil {
		t.Fatalf("no form: %s", w.Body)
	}
	return html.UnescapeString(m[1])
}

// The form in both languages: whole, without a script, usable by keyboard and screen reader, kept by nobody.
func TestSignInForm(t *testing.T) {
	for _, l := range langs() {
		for _, problem := range []Problem{NoProblem, WrongKey, TooMany} {
			w := form(t, "GET", "/stats/pool?lang="+string(l), problem)
			body := w.Body.String()
			for _, want := range []string{
				`<html lang="` + l.tag() + `">`, `<label for="key">`, `<input id="key" name="key" type="password" autocomplete="current-password"`, " required autofocus",
				`<button>` + phrases()["signin.go"].in(l) + `</button>`, `<link rel="stylesheet" href="` + cssPath + `">`,
			} {
				if !strings.Contains(body, want) {
					t.Errorf("%s: no %s in %s", l, want, body)
				}
			}
			for _, bad := range []string{"<script", "<style", " style=", " on", "http://", "https://", "refresh", "ZgotmplZ", "%!", "value="} {
				if strings.Contains(strings.ReplaceAll(body, phrases()["signin.hint"].en, ""), bad) {
					t.Errorf("%s: has %q", l, bad)
				}
			}
			for _, p := range []Problem{WrongKey, TooMany} {
				text := phrases()["signin."+string(p)].in(l)
				if strings.Contains(body, text) != (p == problem) {
					t.Errorf("%s, %q: what it says of the last attempt: %s", l, problem, body)
				}
			}
			if told := strings.Contains(body, `role="alert"`) && strings.Contains(body, ` aria-invalid="true" aria-describedby="problem"`); told != (problem != NoProblem) {
				t.Errorf("%s, %q: the problem is told to a screen reader: %v", l, problem, told)
			}
			if l == chinese {
				for _, word := range regexp.MustCompile(`[A-Za-z_]{2,}`).FindAllString(visible(body), -1) {
					if word != "auth" && word != "admin_key" {
						t.Errorf("%q is not translated", word)
					}
				}
			}
		}
	}
}

func TestSignInFormHeaders(t *testing.T) {
	w := form(t, "GET", "/stats?lang=zh", NoProblem)
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
		"Referrer-Policy":         "same-origin", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Vary": "Accept-Language, Cookie",
		"Content-Type": "text/html; charset=utf-8", "Content-Language": "zh-CN", "Set-Cookie": "lang=zh; Path=/stats; Max-Age=31536000; HttpOnly; SameSite=Strict",
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if w.Code != http.StatusUnauthorized {
		t.Errorf("status %d", w.Code)
	}
}

// Where the form goes: it takes the page that was asked for along, and the language.
func TestSignInFormLeadsOn(t *testing.T) {
	for address, want := range map[string]string{
		"/stats":                             "/stats/sign-in?next=%2Fstats",
		"/stats/pool":                        "/stats/sign-in?next=%2Fstats%2Fpool",
		"/stats?window=week":                 "/stats/sign-in?next=%2Fstats%3Fwindow%3Dweek",
		"/stats?window=week&lang=zh":         "/stats/sign-in?lang=zh&next=%2Fstats%3Fwindow%3Dweek",
		"/stats?lang=fr":                     "/stats/sign-in?next=%2Fstats",
		"/stats?x=%22%3E%3Cscript%3E":        "/stats/sign-in?next=%2Fstats%3Fx%3D%2522%253E%253Cscript%253E",
		"/stats/sign-in":                     "/stats/sign-in",
		"/stats/sign-in?lang=en":             "/stats/sign-in?lang=en",
		"/stats/sign-in?next=/stats/pool":    "/stats/sign-in?next=%2Fstats%2Fpool",
		"/stats/sign-in?next=//evil.test":    "/stats/sign-in",
		"/stats/sign-in?next=/stats/sign-in": "/stats/sign-in",
	} {
		w := form(t, "GET", address, NoProblem)
		if got := action(t, w); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
		if strings.Contains(w.Body.String(), "<script") {
			t.Errorf("%s: %s", address, w.Body)
		}
	}
	for header, want := range map[string]string{"Accept-Language: zh-CN": "zh-CN", "Cookie: lang=zh": "zh-CN", "Accept-Language: fr": "en"} {
		if body := form(t, "GET", "/stats", NoProblem, header).Body.String(); !strings.Contains(body, `<html lang="`+want+`">`) {
			t.Errorf("%s: %.60s", header, body)
		}
	}
	if body := form(t, "POST", "/stats/sign-in?next=/stats/pool", WrongKey).Body.String(); !strings.Contains(body, `href="/stats/sign-in?lang=zh&amp;next=%2Fstats%2Fpool"`) {
		t.Errorf("the switch of languages forgets the page: %s", body)
	}
}

// Whatever the form's address says, a browser stays here (an open redirect would lend our name to others).
func TestNextStaysHere(t *testing.T) {
	for next, want := range map[string]string{
		"/stats/pool": "/stats/pool", "/stats?window=days:7": "/stats?window=days%3A7", "/stats/pool?lang=zh": "/stats/pool", "/stats#x": "/stats",
		"": "/stats", "//evil.test": "/stats", "//evil.test/stats": "/stats", `/\evil.test`: "/stats", `\\evil.test`: "/stats", "///evil.test/stats": "/stats",
		"http://evil.test/stats": "/stats", "https:evil.test": "/stats", "https:/stats": "/stats", "http:///stats": "/stats", "javascript:alert(1)": "/stats", "data:text/html,x": "/stats",
		"//evil.test/stats/pool": "/stats", "///evil.test/stats/pool": "/stats", "http://evil.test/stats/pool": "/stats", "http:/stats/pool": "/stats", "javascript:/stats/pool": "/stats",
		"/stats@evil.test": "/stats", "//user@evil.test/stats/pool": "/stats", "evil.test": "/stats", "stats": "/stats", "/stats/../admin/config": "/stats", "/stats/%2e%2e//evil.test": "/stats",
		"/stats/pool\r\nLocation: http://evil.test": "/stats", "/stats?x=a\r\nSet-Cookie: a=b": "/stats", "/stats?x=%0d%0aSet-Cookie:%20a=b": "/stats?x=%0D%0ASet-Cookie%3A+a%3Db",
		"/\t/evil.test": "/stats", " //evil.test": "/stats", "/%2Fevil.test": "/stats", "%2F%2Fevil.test": "/stats", "/admin/shutdown": "/stats", "/api/stats": "/stats",
		"/stats/sign-out": "/stats", "/stats/sign-in?next=/stats": "/stats", "/healthz": "/stats", cssPath: "/stats", "/stats/": "/stats", "/stats?%zz": "/stats", "\x00/stats": "/stats",
	} {
		r := httptest.NewRequest("POST", SignInPath+"?"+url.Values{"next": {next}}.Encode(), nil)
		if got := Next(r); got != want {
			t.Errorf("%q: %q, want %q", next, got, want)
		}
	}
	if got := Next(httptest.NewRequest("POST", SignOutPath, nil)); got != "/stats" {
		t.Errorf("after signing out: %s", got)
	}
}

// One field of a form that browsers send, and not more than a key.
func TestReadSignIn(t *testing.T) {
	const urlencoded = "application/x-www-form-urlencoded"
	for _, c := range []struct {
		kind, body string
		status     int
		key        string
	}{
		{urlencoded, "key=abc", 0, "abc"},
		{urlencoded + "; charset=UTF-8", "key=+abc%0D%0A", 0, "abc"},
		{urlencoded, "key=a%2Bb%26c%3D%E5%AF%86", 0, "a+b&c=密"},
		{urlencoded, "key=", 0, ""},
		{urlencoded, "key=" + strings.Repeat("a", maxForm-4), 0, strings.Repeat("a", maxForm-4)},
		{urlencoded, "key=" + strings.Repeat("a", maxForm-3), 413, ""},
		{urlencoded, "key=" + strings.Repeat("a", 10<<20), 413, ""},
		{urlencoded, "", 400, ""},
		{urlencoded, "key=a&key=b", 400, ""},
		{urlencoded, "key=a&x=b", 400, ""},
		{urlencoded, "x=a", 400, ""},
		{urlencoded, "key=%zz", 400, ""},
		{urlencoded, "key=a;x=b", 400, ""},
		{"", "key=abc", 415, ""},
		{"text/plain", "key=abc", 415, ""},
		{"application/json", `{"key":"abc"}`, 415, ""},
		{"multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\nabc\r\n--x--\r\n", 415, ""},
		{"x; y=\x00", "key=abc", 415, ""},
	} {
		r := httptest.NewRequest("POST", SignInPath+"?key=of-the-query", strings.NewReader(c.body))
		r.Header.Set("Content-Type", c.kind)
		key, err := ReadSignIn(httptest.NewRecorder(), r)
		status := 0
		if e := (*Error)(nil); errors.As(err, &e) {
			status = e.Status
		}
		if status != c.status || key.Reveal() != c.key {
			t.Errorf("%s, %.40q: status %d, key %.40q", c.kind, c.body, status, key.Reveal())
		}
		if err != nil && strings.Contains(err.Error(), "abc") {
			t.Errorf("the error shows the key: %v", err)
		}
	}
	r := httptest.NewRequest("POST", SignInPath+"?key=secret-of-the-query", nil)
	if err := CheckSignIn(r); err == nil || strings.Contains(err.Error(), "secret-of") {
		t.Errorf("a key in the address: %v", err)
	}
}

// A browser that has signed in can sign out on every page; nobody else is offered it, and no form works there.
func TestPagesOfferToSignOut(t *testing.T) {
	for _, path := range pagePaths() {
		for name, as := range map[string]func(*http.Request) *http.Request{
			"nobody": func(r *http.Request) *http.Request { return r }, "an administrator": AsAdmin, "a session": SignedIn,
		} {
			f := one()
			w := httptest.NewRecorder()
			f.web().Serve(w, as(httptest.NewRequest("GET", path, nil)), Find(Routes(), path))
			in := name == "a session"
			if strings.Contains(w.Body.String(), `<form method="post" action="/stats/sign-out"><button>Sign out</button></form>`) != in || strings.Contains(w.Body.String(), "<form") != in {
				t.Errorf("%s as %s: %.600s", path, name, w.Body)
			}
			if policy := w.Header().Get("Content-Security-Policy"); strings.Contains(policy, "form-action 'self'") != in || strings.Contains(policy, "form-action 'none'") == in {
				t.Errorf("%s as %s: %s", path, name, policy)
			}
		}
	}
}
