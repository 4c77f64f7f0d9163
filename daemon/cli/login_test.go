package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"coding-proxy/auth/oauth"
	"coding-proxy/daemon"
	"coding-proxy/proxy/demo"
)

// provider is a simulated identity provider for the client "app", and a configuration that signs in there.
type provider struct {
	*demo.Identity
	url, dir string
}

// secretWords begin whatever nobody may be shown: tokens, codes and the client's secret.
var secretWords = []string{"demo-access-", "demo-refresh-", "demo-code-", "demo-device-", "ghu_demo", "S3CR3T"}

func newProvider(t *testing.T) *provider {
	t.Helper()
	var mu sync.Mutex
	now := time.Now()
	p := &provider{Identity: demo.NewIdentity(demo.IdentityOptions{ClientID: "app", ClientSecret: "S3CR3T-app", Offline: true, Interval: 1,
		Now: func() time.Time { // it lets pass what devices are told to wait
			mu.Lock()
			defer mu.Unlock()
			now = now.Add(10 * time.Second)
			return now
		}})}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		p.ServeHTTP(rec, r)
		for name, values := range rec.Header() {
			w.Header()[name] = values
		}
		w.Header().Del("Content-Length")
		w.WriteHeader(rec.Code)
		_, _ = io.WriteString(w, strings.Replace(rec.Body.String(), `"interval":1,`, `"interval":0.01,`, 1)) // a device asks at once
	}))
	t.Cleanup(server.Close)
	p.url = server.URL
	p.dir = writeConfig(t, fmt.Sprintf(`{"oauth": {
		"hub": {"kind": "copilot", "client_id": "app", "client_secret": "S3CR3T-app", "device_code_url": "%[1]s/login/device/code", "token_url": "%[1]s/login/oauth/access_token"},
		"work": {"kind": "google", "client_id": "app", "client_secret": "S3CR3T-app", "authorize_url": "%[1]s/auth", "token_url": "%[1]s/token"}},
		"pool": {"strategy": "fill-first", "keys": [{"id": "a", "provider": "gemini", "credential": "oauth:work"}]}}`, server.URL))
	return p
}

// told takes what a command prints, and calls back once when it matches.
type told struct {
	mu      sync.Mutex
	text    bytes.Buffer
	pattern *regexp.Regexp
	then    func(match string)
}

func (o *told) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(b)
	if o.then != nil {
		if m := o.pattern.FindStringSubmatch(o.text.String()); m != nil {
			go o.then(m[1])
			o.then = nil
		}
	}
	return len(b), nil
}

// run runs a command; then is what a person does with the address or the code that it prints.
func (p *provider) run(t *testing.T, pattern string, then func(match string), args ...string) (code int, stdout, stderr string) {
	t.Helper()
	out, errs := &told{pattern: regexp.MustCompile(pattern), then: then}, new(bytes.Buffer)
	code = Main(append(args, "--config", filepath.Join(p.dir, "config.json"), "--data-dir", filepath.Join(p.dir, "data")), Environment{
		Getenv:  func(string) (string, bool) { return "", false },
		HomeDir: func() (string, error) { return p.dir, nil },
		Stdout:  out, Stderr: errs,
	})
	for _, word := range secretWords {
		if strings.Contains(out.text.String()+errs.String(), word) {
			t.Errorf("%q prints %s", args, word)
		}
	}
	return code, out.text.String(), errs.String()
}

func (p *provider) file() string { return filepath.Join(p.dir, "data", "credentials.json") }

// kept returns the credential of a name, as it is stored for this user alone.
func (p *provider) kept(t *testing.T, name string) (oauth.Credential, bool) {
	t.Helper()
	data, err := os.ReadFile(p.file())
	if err != nil {
		return oauth.Credential{}, false
	}
	if info, err := os.Stat(p.file()); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	var f struct{ Credentials map[string]oauth.Credential }
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatal(err)
	}
	c, ok := f.Credentials[name]
	return c, ok
}

const (
	codePattern = `Enter  (\S+)`
	pagePattern = `  (http://\S+)`
)

// The device flow: a code is printed, and what comes of it is kept or said.
func TestLoginDevice(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(p *provider)
		decide  func(p *provider, userCode string)
		says    string // "" = signed in
	}{
		{name: "allowed", decide: func(p *provider, code string) { p.Decide(code, true) }},
		{name: "declined", decide: func(p *provider, code string) { p.Decide(code, false) }, says: "declined on the provider's page; nothing was stored"},
		{name: "pending", prepare: func(p *provider) { p.DeviceScript(demo.Pending, demo.Pending) }},
		{name: "slow down", prepare: func(p *provider) { p.DeviceScript(demo.SlowDown) }},
		{name: "expired", prepare: func(p *provider) { p.DeviceScript(demo.Pending, demo.Expired) }, says: "nobody agreed on the provider's page in time"},
		{name: "hiccup", prepare: func(p *provider) {
			p.DeviceScript(demo.Pending)
			p.Push(demo.IdentityStep{Status: 503, Raw: "<html>"})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // slow_down is to wait 5 s
			p := newProvider(t)
			if c.prepare != nil {
				c.prepare(p)
			}
			code, out, errs := p.run(t, codePattern, func(userCode string) {
				if c.decide != nil {
					c.decide(p, userCode)
				}
			}, "login", "copilot")
			if !strings.Contains(out, riskText(oauth.KindCopilot)) || !strings.Contains(out, p.url+"/login/device\n") {
				t.Errorf("printed: %s", out)
			}
			kept, ok := p.kept(t, "hub")
			if c.says == "" {
				if code != exitDone || !ok || !p.Valid(kept.Access) || kept.Kind != oauth.KindCopilot || !strings.Contains(out, `Signed in to "hub"`) || !strings.Contains(out, `"oauth:hub"`) {
					t.Errorf("exit %d, kept %t: %s%s", code, ok, out, errs)
				}
			} else if code != exitFailed || ok || !strings.Contains(errs, c.says) {
				t.Errorf("exit %d, kept %t: %s", code, ok, errs)
			}
		})
	}
}

// browse does what a browser does: it goes to the page, presses a button unless it is sent on, and returns the last page.
func browse(t *testing.T, page, button string) string {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	resp, err := client.PostForm(page, url.Values{"decision": {button}})
	if err != nil {
		t.Error(err)
		return ""
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	for _, word := range secretWords {
		if bytes.Contains(body, []byte(word)) {
			t.Errorf("the page shows %s", word)
		}
	}
	return fmt.Sprint(resp.StatusCode, " ", string(body))
}

// The loopback flow: the browser comes back, and page and command say the same.
func TestLoginLoopback(t *testing.T) {
	for _, c := range []struct {
		name, button string
		prepare      func(p *provider)
		page, says   string // says "" = signed in
	}{
		{name: "allowed", button: "allow", page: "200 ", says: ""},
		{name: "declined", button: "deny", page: "Not signed in: the request was declined", says: "the request was declined on the provider's page; nothing was stored"},
		{name: "another state", button: "allow", prepare: func(p *provider) { p.SetConsent(demo.MixesState) }, page: "the answer of another sign-in", says: "its state is not ours"},
		{name: "the code is refused", button: "allow", prepare: func(p *provider) { p.Push(demo.IdentityStep{Error: demo.InvalidGrant}) }, page: "400 ", says: "sign in once more"},
		{name: "the client is refused", button: "allow", prepare: func(p *provider) { p.Push(demo.IdentityStep{Error: demo.InvalidClient, Status: 401}) },
			page: "400 ", says: "check client_id and client_secret of \"work\" in `oauth`"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProvider(t)
			if c.prepare != nil {
				c.prepare(p)
			}
			shown := make(chan string, 1)
			code, out, errs := p.run(t, pagePattern, func(page string) { shown <- browse(t, page, c.button) }, "login", "google")
			if page := <-shown; !strings.Contains(page, c.page) {
				t.Errorf("the browser shows %s", page)
			}
			kept, ok := p.kept(t, "work")
			if c.says == "" {
				if code != exitDone || !ok || !p.Valid(kept.Access) || kept.Refresh != p.Refreshable()[0] || strings.Contains(out, "No key uses it") {
					t.Errorf("exit %d, kept %t: %s%s", code, ok, out, errs)
				}
			} else if code != exitFailed || ok || !strings.Contains(errs, c.says) {
				t.Errorf("exit %d, kept %t: %s", code, ok, errs)
			}
		})
	}
}

// A port that the provider or a tunnel wants is waited on, and one that is taken is told.
func TestLoginCallbackPort(t *testing.T) {
	p := newProvider(t)
	taken := httptest.NewServer(nil)
	defer taken.Close()
	at, err := url.Parse(taken.URL)
	if err != nil {
		t.Fatal(err)
	}
	if code, _, errs := p.run(t, pagePattern, nil, "login", "work", "--callback-port", at.Port()); code != exitFailed || !strings.Contains(errs, "port "+at.Port()) {
		t.Errorf("exit %d: %s", code, errs)
	}
	taken.Close()
	code, _, errs := p.run(t, pagePattern, func(page string) {
		u, _ := url.Parse(page)
		if back := u.Query().Get("redirect_uri"); !strings.HasPrefix(back, "http://localhost:"+at.Port()+"/") {
			t.Errorf("sent back to %s", back)
		}
		browse(t, page, "allow")
	}, "login", "work", "--callback-port", at.Port())
	if code != exitDone {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// A login that is stopped keeps nothing, and says so.
func TestLoginStopped(t *testing.T) {
	p := newProvider(t)
	env, _, _ := testEnvironment()
	src := sourceFlags(newFlags("x", "", "", env), env)
	src.Path, src.DataDir = filepath.Join(p.dir, "config.json"), filepath.Join(p.dir, "data")
	cfg, _ := loadLogins(src, env)
	accounts, closeAccounts := daemon.OpenAccounts(cfg, func(string) {})
	defer closeAccounts()
	for _, name := range []string{"hub", "work"} {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := accounts.SignIn(ctx, name, 0, func(daemon.Prompt) { cancel() })
		if err == nil || loginProblem(ctx, err) != "stopped; nothing was stored" {
			t.Errorf("%s: %v", name, err)
		}
		if _, ok := p.kept(t, name); ok {
			t.Errorf("%s is kept", name)
		}
	}
}

func TestLoginUse(t *testing.T) {
	p := newProvider(t)
	pool := `"pool": {"strategy": "fill-first", "keys": [{"id": "a", "provider": "anthropic", "api_key": "S3CR3T"}]}`
	for _, c := range []struct {
		name, config string
		args         []string
		code         int
		says         string
	}{
		{"near name", "", []string{"login", "wrok"}, exitUsage, "`oauth` has no login \"wrok\"; did you mean \"work\"?"},
		{"far name", "", []string{"login", "something"}, exitUsage, `it has "hub", "work"`},
		{"no name, two logins", "", []string{"login"}, exitUsage, "name one of hub, work"},
		{"two words", "", []string{"login", "hub", "work"}, exitUsage, "unexpected argument"},
		{"no port", "", []string{"login", "hub", "--callback-port", "0"}, exitUsage, "a port is a number"},
		{"none configured", `{` + pool + `}`, []string{"login", "copilot"}, exitUsage, `"hub":  {"kind": "copilot", "client_id"`},
		{"wrong configuration", `{"oauth": 1, ` + pool + `}`, []string{"login", "copilot"}, exitFailed, "the configuration is wrong:\n"},
		{"two of a kind", `{"oauth": {"a": {"kind": "copilot", "client_id": "x"}, "b": {"kind": "copilot", "client_id": "x"}}, ` + pool + `}`,
			[]string{"login", "github"}, exitUsage, "several logins of kind copilot, name one of \"a\", \"b\""},
		{"unreachable", `{"oauth": {"a": {"kind": "copilot", "client_id": "x", "device_code_url": "http://127.0.0.1:1/", "token_url": "http://127.0.0.1:1/"}}, ` + pool + `}`,
			[]string{"login"}, exitFailed, "127.0.0.1"},
		{"logout of nobody", "", []string{"logout", "hub"}, exitFailed, "nobody is signed in to hub"},
		{"logout, near name", "", []string{"logout", "hubb"}, exitUsage, `did you mean "hub"?`},
		{"logout of nothing", "", []string{"logout"}, exitUsage, "a name is missing"},
		{"logout, none configured", `{` + pool + `}`, []string{"logout", "hub"}, exitFailed, "nobody is signed in"},
	} {
		if p := p; c.config != "" {
			p = &provider{Identity: p.Identity, dir: writeConfig(t, c.config)}
			code, _, errs := p.run(t, pagePattern, nil, c.args...)
			if code != c.code || !strings.Contains(errs, c.says) {
				t.Errorf("%s: exit %d: %s", c.name, code, errs)
			}
		} else if code, _, errs := p.run(t, pagePattern, nil, c.args...); code != c.code || !strings.Contains(errs, c.says) {
			t.Errorf("%s: exit %d: %s", c.name, code, errs)
		}
	}
}

// credentials tells of each login, and shows no token; logout takes one away.
func TestCredentials(t *testing.T) {
	p := newProvider(t)
	for range 2 { // nothing is stored yet
		code, out, _ := p.run(t, pagePattern, nil, "credentials")
		if code != exitDone || !strings.Contains(out, "hub   copilot  -        -          none: coding-proxy login hub") {
			t.Errorf("exit %d:\n%s", code, out)
		}
	}
	at := time.Date(2026, 11, 30, 10, 0, 0, 0, time.Local)
	err := daemon.OpenVault(filepath.Join(p.dir, "data"), time.Now).Update(t.Context(), func(kept map[string]oauth.Credential) error {
		kept["hub"] = oauth.Credential{Kind: "copilot", Access: "ghu_demo1", Obtained: at}
		kept["work"] = oauth.Credential{Kind: "google", Access: "demo-access-1", Refresh: "demo-refresh-1", Obtained: at, Expires: at.Add(time.Hour), Account: "a@b.test", Scope: "s"}
		kept["gone"] = oauth.Credential{Kind: "google", Refresh: "demo-refresh-2", Obtained: at, Parked: oauth.ReasonGrant}
		kept["key:a"] = oauth.Credential{Kind: "google", Refresh: "demo-refresh-3", Origin: "x", Parked: oauth.ReasonGrant}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	code, out, _ := p.run(t, pagePattern, nil, "credentials")
	const want = `NAME   KIND     ACCOUNT   SIGNED IN            TOKEN                                                                             KEYS
gone   google   -         2026-11-30 10:00:00  parked (invalid_grant): coding-proxy login gone; not in the configuration         -
hub    copilot  -         2026-11-30 10:00:00  does not end                                                                      -
key:a  google   -         by the key           parked (invalid_grant): the key needs another refresh_token                       a
work   google   a@b.test  2026-11-30 10:00:00  until 2026-11-30 11:00:00, renews itself                                          a
`
	if words(out) != words(want) || code != exitDone {
		t.Errorf("exit %d:\n%s", code, out)
	}
	code, out, _ = p.run(t, pagePattern, nil, "credentials", "--json")
	var v struct{ Credentials []account }
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != exitDone || len(v.Credentials) != 4 {
		t.Fatalf("exit %d: %v %s", code, err, out)
	}
	work := v.Credentials[3]
	if work.Name != "work" || !work.SignedIn || !work.Renews || !work.Configured || !work.Since.Equal(at) || !work.Until.Equal(at.Add(time.Hour)) || work.Keys[0] != "a" ||
		v.Credentials[0].SignedIn || v.Credentials[0].Parked != oauth.ReasonGrant || v.Credentials[1].Until != nil {
		t.Errorf("%s", out)
	}
	for _, name := range []string{"gone", "work", "github"} { // what the configuration has no more, too
		if code, out, errs := p.run(t, pagePattern, nil, "logout", name); code != exitDone || !strings.Contains(out, "Signed out") {
			t.Errorf("logout %s: exit %d: %s", name, code, errs)
		}
	}
	for name, want := range map[string]bool{"gone": false, "hub": false, "work": false, "key:a": true} {
		if _, ok := p.kept(t, name); ok != want {
			t.Errorf("%s is kept: %t", name, ok)
		}
	}
}

// Who has nothing to sign in to learns how that is configured; a file that others may read is told.
func TestCredentialsWarn(t *testing.T) {
	p := &provider{dir: writeConfig(t, `{"pool": {"strategy": "fill-first", "keys": [{"id": "a", "provider": "anthropic", "api_key": "S3CR3T"}]}}`)}
	if code, out, _ := p.run(t, pagePattern, nil, "credentials"); code != exitDone || !strings.Contains(out, "Nobody is signed in, and the configuration has no `oauth` section") {
		t.Errorf("exit %d: %s", code, out)
	}
	if runtime.GOOS == "windows" {
		return
	}
	if err := os.Mkdir(filepath.Join(p.dir, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.file(), []byte(`{"version": 1, "credentials": {"x": {"kind": "google", "refresh": "demo-refresh-1"}}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := p.run(t, pagePattern, nil, "credentials"); code != exitDone || !strings.Contains(errs, "warning: ") || !strings.Contains(errs, "chmod 600") || !strings.Contains(out, "not in the configuration") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}

// words leaves the width of columns out.
func words(text string) string { return regexp.MustCompile(` +`).ReplaceAllString(text, " ") }
