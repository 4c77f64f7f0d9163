package demo_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"coding-proxy/proxy/demo"
)

// granted is what a token endpoint answers.
type granted struct {
	status       int
	Access       string `json:"access_token"`
	Refresh      string `json:"refresh_token"`
	Expires      int    `json:"expires_in"`
	Scope, Error string
	Device       string `json:"device_code"`
	User         string `json:"user_code"`
	Where        string `json:"verification_uri"`
	Interval     int
	header       http.Header
	body         string
}

// askFor sends a form to an identity provider; members are pairs of name and value.
func askFor(t *testing.T, i http.Handler, path string, members ...string) granted {
	t.Helper()
	form := url.Values{}
	for n := 0; n+1 < len(members); n += 2 {
		form.Set(members[n], members[n+1])
	}
	r := httptest.NewRequest(http.MethodPost, "http://id.test"+path, strings.NewReader(form.Encode()))
	r.Header.Set("content-type", "application/x-www-form-urlencoded")
	r.Header.Set("accept", "application/json")
	w := httptest.NewRecorder()
	i.ServeHTTP(w, r)
	g := granted{status: w.Code, header: w.Header(), body: w.Body.String()}
	if strings.HasPrefix(w.Header().Get("content-type"), "application/json") {
		if err := json.Unmarshal(w.Body.Bytes(), &g); err != nil {
			t.Fatalf("%s: %v", w.Body, err)
		}
	}
	return g
}

func refreshWith(t *testing.T, i http.Handler, token string) granted {
	t.Helper()
	return askFor(t, i, "/token", "grant_type", "refresh_token", "refresh_token", token, "client_id", "c", "client_secret", "s")
}

func TestIdentityRefresh(t *testing.T) {
	now := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	i := demo.NewIdentity(demo.IdentityOptions{ClientID: "c", ClientSecret: "s", RefreshTokens: []string{"r1"}, Now: func() time.Time { return now }})
	g := refreshWith(t, i, "r1")
	if g.status != 200 || g.Access == "" || g.Expires != 3600 || g.Refresh != "" || !i.Valid(g.Access) {
		t.Fatalf("%+v", g)
	}
	if again := refreshWith(t, i, "r1"); again.Access == g.Access || again.Error != "" {
		t.Errorf("again: %+v", again)
	}
	if now = now.Add(time.Hour); i.Valid(g.Access) {
		t.Error("the token does not end")
	}
	for name, bad := range map[string]struct {
		members []string
		status  int
		word    string
	}{
		"unknown token": {[]string{"grant_type", "refresh_token", "refresh_token", "r2", "client_id", "c", "client_secret", "s"}, 400, "invalid_grant"},
		"no token":      {[]string{"grant_type", "refresh_token", "client_id", "c", "client_secret", "s"}, 400, "invalid_request"},
		"other client":  {[]string{"grant_type", "refresh_token", "refresh_token", "r1", "client_id", "d", "client_secret", "s"}, 401, "invalid_client"},
		"no client":     {[]string{"grant_type", "refresh_token", "refresh_token", "r1"}, 400, "invalid_request"},
		"wrong secret":  {[]string{"grant_type", "refresh_token", "refresh_token", "r1", "client_id", "c", "client_secret", "x"}, 401, "invalid_client"},
		"other grant":   {[]string{"grant_type", "password", "client_id", "c", "client_secret", "s"}, 400, "unsupported_grant_type"},
	} {
		if g := askFor(t, i, "/oauth/token", bad.members...); g.status != bad.status || g.Error != bad.word || g.Access != "" {
			t.Errorf("%s: %+v", name, g)
		}
	}
	if n := i.Counts(); n.Asked != 8 || n.Refresh != 2 || n.Refused != 6 {
		t.Errorf("%+v", n)
	}
	i.Revoke()
	if g := refreshWith(t, i, "r1"); g.Error != demo.InvalidGrant {
		t.Errorf("revoked: %+v", g)
	}
}

func TestIdentityRotates(t *testing.T) {
	i := demo.NewIdentity(demo.IdentityOptions{RefreshTokens: []string{"r1"}, Rotate: true})
	first := refreshWith(t, i, "r1")
	if first.Refresh == "" || first.Refresh == "r1" {
		t.Fatalf("%+v", first)
	}
	if g := refreshWith(t, i, "r1"); g.Error != demo.InvalidGrant {
		t.Errorf("the old one: %+v", g)
	}
	if g := refreshWith(t, i, first.Refresh); g.Error != "" || len(i.Refreshable()) != 1 || i.Refreshable()[0] != g.Refresh {
		t.Errorf("the new one: %+v, good are %v", g, i.Refreshable())
	}
	i.Expire()
	if i.Valid(first.Access) {
		t.Error("expired tokens are good")
	}
}

func TestIdentitySteps(t *testing.T) {
	i := demo.NewIdentity(demo.IdentityOptions{RefreshTokens: []string{"r1"}, Rotate: true})
	hold := demo.HoldAt(0)
	i.Push(demo.IdentityStep{Error: demo.InvalidGrant}, demo.IdentityStep{Status: 503, Raw: "<p>away", Header: http.Header{"retry-after": {"3"}}}, demo.IdentityStep{Hold: hold})
	if g := refreshWith(t, i, "r1"); g.status != 400 || g.Error != demo.InvalidGrant {
		t.Errorf("%+v", g)
	}
	if g := refreshWith(t, i, "r1"); g.status != 503 || g.body != "<p>away" || g.header.Get("Retry-After") != "3" {
		t.Errorf("%+v", g)
	}
	done := make(chan granted)
	go func() { done <- refreshWith(t, i, "r1") }()
	<-hold.Reached()
	if n := i.Counts(); n.Asked != 3 || n.Refresh != 0 {
		t.Errorf("while it waits: %+v", n)
	}
	hold.Release()
	g := <-done
	if g.Error != "" {
		t.Fatalf("%+v", g)
	}
	i.Push(demo.IdentityStep{Lost: true})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("an answer comes")
			}
		}()
		refreshWith(t, i, g.Refresh)
	}()
	if i.Counts().Refresh != 2 || len(i.Refreshable()) != 1 || i.Refreshable()[0] == g.Refresh {
		t.Error("what is lost was not done")
	}
}

func TestIdentityStrict(t *testing.T) {
	i := demo.NewIdentity(demo.IdentityOptions{RefreshTokens: []string{"r1"}})
	for name, r := range map[string]*http.Request{
		"secret in the query": httptest.NewRequest(http.MethodPost, "/token?client_secret=s&client_id=c", nil),
		"no form":             httptest.NewRequest(http.MethodPost, "/token", strings.NewReader("grant_type=refresh_token&refresh_token=r1&client_id=c")),
	} {
		w := httptest.NewRecorder()
		if i.ServeHTTP(w, r); w.Code != 400 || !strings.Contains(w.Body.String(), "invalid_request") {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	r := httptest.NewRequest(http.MethodPost, "/token", strings.NewReader(`{"grant_type":"refresh_token","refresh_token":"r1","client_id":"c"}`))
	r.Header.Set("content-type", "application/json")
	w := httptest.NewRecorder()
	if i.ServeHTTP(w, r); w.Code != 200 {
		t.Errorf("JSON: %d %s", w.Code, w.Body)
	}
	w = httptest.NewRecorder()
	if i.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/token", nil)); w.Code != 404 {
		t.Errorf("GET: %d", w.Code)
	}
}

const verifier = "0123456789012345678901234567890123456789abc"

// authorizeQuery is a good request for a code; members replace.
func authorizeQuery(members ...string) url.Values {
	sum := sha256.Sum256([]byte(verifier))
	q := url.Values{"client_id": {"c"}, "redirect_uri": {"http://127.0.0.1:9/cb?x=1"}, "response_type": {"code"}, "state": {"st"}, "scope": {"a b"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"}}
	for n := 0; n+1 < len(members); n += 2 {
		q.Set(members[n], members[n+1])
	}
	return q
}

// browse opens the page, or presses one of its buttons, and returns where the browser is sent.
func browse(i http.Handler, q url.Values, decision string) (status int, page string, to *url.URL) {
	r := httptest.NewRequest(http.MethodGet, "http://id.test/o/oauth2/v2/auth?"+q.Encode(), nil)
	if decision != "" {
		r = httptest.NewRequest(http.MethodPost, r.URL.String(), strings.NewReader("decision="+decision))
		r.Header.Set("content-type", "application/x-www-form-urlencoded")
	}
	w := httptest.NewRecorder()
	i.ServeHTTP(w, r)
	to, _ = url.Parse(w.Header().Get("location"))
	return w.Code, w.Body.String(), to
}

func redeem(t *testing.T, i http.Handler, code string, members ...string) granted {
	t.Helper()
	return askFor(t, i, "/token", append([]string{"grant_type", "authorization_code", "code", code, "client_id", "c", "redirect_uri", "http://127.0.0.1:9/cb?x=1", "code_verifier", verifier}, members...)...)
}

func TestIdentityCode(t *testing.T) {
	i := demo.NewIdentity(demo.IdentityOptions{ClientID: "c", Offline: true})
	if status, page, _ := browse(i, authorizeQuery(), ""); status != 200 || !strings.Contains(page, `id="allow"`) || !strings.Contains(page, `id="deny"`) {
		t.Fatalf("%d %s", status, page)
	}
	code := func(members ...string) string {
		status, _, to := browse(i, authorizeQuery(members...), "allow")
		if q := to.Query(); status != 302 || q.Get("state") != "st" || q.Get("code") == "" || to.Host != "127.0.0.1:9" {
			t.Fatalf("%d %s", status, to)
		}
		return to.Query().Get("code")
	}
	if g := redeem(t, i, code("access_type", "offline")); g.Access == "" || g.Refresh == "" || g.Scope != "a b" {
		t.Errorf("%+v", g)
	}
	used := code()
	if g := redeem(t, i, used); g.Access == "" || g.Refresh != "" {
		t.Errorf("without access_type=offline: %+v", g)
	}
	for name, g := range map[string]granted{
		"again":          redeem(t, i, used),
		"another code":   redeem(t, i, "x"),
		"wrong verifier": redeem(t, i, code(), "code_verifier", strings.Repeat("x", 43)),
		"no verifier":    redeem(t, i, code(), "code_verifier", ""),
		"other redirect": redeem(t, i, code(), "redirect_uri", "http://127.0.0.1:8/cb"),
	} {
		if g.status != 400 || g.Error == "" || g.Access != "" {
			t.Errorf("%s: %+v", name, g)
		}
	}
	if n := i.Counts(); n.Code != 2 || n.Refused != 5 {
		t.Errorf("%+v", n)
	}
}

func TestIdentityAuthorizeChecks(t *testing.T) {
	i := demo.NewIdentity(demo.IdentityOptions{ClientID: "c"})
	for _, bad := range [][2]string{{"client_id", "d"}, {"redirect_uri", "https://evil.test/cb"}, {"redirect_uri", "http://10.0.0.1/cb"}, {"response_type", "token"},
		{"state", ""}, {"code_challenge", ""}, {"code_challenge_method", "plain"}, {"client_secret", "s"}} {
		if status, page, to := browse(i, authorizeQuery(bad[0], bad[1]), "allow"); status != 400 || to.Host != "" || !strings.Contains(page, `id="error"`) {
			t.Errorf("%v: %d %s", bad, status, page)
		}
	}
}

func TestIdentityConsents(t *testing.T) {
	i := demo.NewIdentity(demo.IdentityOptions{})
	for name, tc := range map[string]struct {
		consent         demo.Consent
		decision, error string
		state           string
	}{
		"denied on the page": {demo.Asks, "deny", "access_denied", "st"},
		"denied":             {demo.Denies, "", "access_denied", "st"},
		"allowed":            {demo.Allows, "", "", "st"},
		"mixed":              {demo.MixesState, "allow", "", "another-st"},
	} {
		i.SetConsent(tc.consent)
		status, _, to := browse(i, authorizeQuery(), tc.decision)
		if q := to.Query(); status != 302 || q.Get("error") != tc.error || q.Get("state") != tc.state || (q.Get("code") == "") != (tc.error != "") {
			t.Errorf("%s: %d %s", name, status, to)
		}
	}
}

func TestIdentityDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := demo.NewIdentity(demo.IdentityOptions{ClientID: "c", ClientSecret: "s"})
		begin := func() granted {
			g := askFor(t, i, "/login/device/code", "client_id", "c", "scope", "read:user")
			if g.status != 200 || g.Device == "" || g.User == "" || g.Interval != 5 || g.Where != "http://id.test/login/device" {
				t.Fatalf("%+v", g)
			}
			return g
		}
		poll := func(device string, wait time.Duration) granted {
			time.Sleep(wait)
			return askFor(t, i, "/login/oauth/access_token", "client_id", "c", "device_code", device, "grant_type", "urn:ietf:params:oauth:grant-type:device_code")
		}
		i.DeviceScript(demo.Pending, demo.SlowDown)
		d := begin()
		for n, want := range []string{demo.Pending, demo.SlowDown} {
			if g := poll(d.Device, 5*time.Second); g.status != 200 || g.Error != want {
				t.Errorf("poll %d: %+v", n, g)
			}
		}
		if g := poll(d.Device, 5*time.Second); g.Error != demo.SlowDown {
			t.Errorf("faster than was asked for: %+v", g)
		}
		if g := poll(d.Device, 15*time.Second); !strings.HasPrefix(g.Access, "ghu_") || g.Expires != 0 || g.Refresh != "" || g.Scope != "read:user" || !i.Valid(g.Access) {
			t.Errorf("in the end: %+v", g)
		}
		if g := poll(d.Device, 15*time.Second); g.Error == "" {
			t.Errorf("twice: %+v", g)
		}
		for _, word := range []string{demo.Denied, demo.Expired} {
			i.DeviceScript(word)
			d := begin()
			if g := poll(d.Device, 5*time.Second); g.Error != word {
				t.Errorf("%s: %+v", word, g)
			}
		}
		i.DeviceScript()
		d = begin()
		if g := poll(d.Device, 5*time.Second); g.Error != demo.Pending {
			t.Errorf("nobody has decided: %+v", g)
		}
		if i.Decide("nothing", true) || !i.Decide(" "+strings.ToLower(d.User), false) {
			t.Error("the code is not found")
		}
		if g := poll(d.Device, 5*time.Second); g.Error != demo.Denied {
			t.Errorf("denied: %+v", g)
		}
		d = begin()
		if g := poll(d.Device, 16*time.Minute); g.Error != demo.Expired {
			t.Errorf("too late: %+v", g)
		}
		i.SetConsent(demo.Allows)
		d = begin()
		if g := askFor(t, i, "/token", "client_id", "c", "device_code", d.Device, "grant_type", "urn:ietf:params:oauth:grant-type:device_code"); g.status != 403 || g.Error != demo.SlowDown {
			t.Errorf("at once: %+v", g)
		}
		if g := poll(d.Device, time.Minute); g.Access == "" {
			t.Errorf("allowed: %+v", g)
		}
		if n := i.Counts(); n.Device != 2 || n.Requests != 6 || n.Pending != 5 {
			t.Errorf("%+v", n)
		}
	})
}

// TestIdentityDevicePage types the code on the page.
func TestIdentityDevicePage(t *testing.T) {
	i := demo.NewIdentity(demo.IdentityOptions{Interval: 1})
	d := askFor(t, i, "/device/code", "client_id", "c")
	for code, want := range map[string]string{"x": `id="error"`, d.User: `id="done"`} {
		if g := askFor(t, i, "/device", "user_code", code, "decision", "allow"); !strings.Contains(g.body, want) {
			t.Errorf("%s: %s", code, g.body)
		}
	}
	if d.Where != "http://id.test/device" || d.Interval != 1 {
		t.Errorf("%+v", d)
	}
}

// TestGitHubForms: without asking for JSON a client gets forms.
func TestGitHubForms(t *testing.T) {
	i := demo.NewIdentity(demo.IdentityOptions{})
	r := httptest.NewRequest(http.MethodPost, "/login/device/code", strings.NewReader("client_id=c"))
	r.Header.Set("content-type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	i.ServeHTTP(w, r)
	if form, err := url.ParseQuery(w.Body.String()); err != nil || form.Get("device_code") == "" {
		t.Errorf("%s", w.Body)
	}
}

func TestIdentityUser(t *testing.T) {
	i := demo.NewIdentity(demo.IdentityOptions{RefreshTokens: []string{"r1"}, Account: "ada@example.com"})
	user := func(token string) (int, string) {
		r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/oauth2/v2/userinfo?alt=json", nil)
		r.Header.Set("authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		i.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	if status, body := user(refreshWith(t, i, "r1").Access); status != 200 || body != `{"email":"ada@example.com","login":"ada","name":"ada"}` {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := user("x"); status != 401 {
		t.Errorf("%d", status)
	}
}
