package daemon

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"coding-proxy/auth/oauth"
	"coding-proxy/daemon/config"
	"coding-proxy/proxy/demo"
)

// signInHouse is an instance with logins and keys that use them.
type signInHouse struct {
	*instance
	identity *demo.Identity
	provider *demo.Provider
	copilot  *demo.Copilot
}

// The keys of the house.
const (
	workKey = "google-key"
	hubKey  = "copilot-key"
)

func newSignInHouse(t *testing.T) *signInHouse {
	t.Helper()
	h := prepareSignInHouse(t)
	h.serve()
	return h
}

func prepareSignInHouse(t *testing.T) *signInHouse {
	t.Helper()
	h := &signInHouse{
		identity: demo.NewIdentity(demo.IdentityOptions{ClientID: "app", ClientSecret: credential("app"), Offline: true, Interval: 1}),
		provider: demo.New(demo.Options{Name: "provider"}), copilot: demo.NewCopilot(demo.CopilotOptions{}),
	}
	serve := func(h http.Handler) string {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		return s.URL
	}
	identity, provider, copilot := serve(h.identity), serve(h.provider), serve(h.copilot)
	client := fmt.Sprintf(`"client_id":"app","client_secret":%q`, credential("app"))
	cfg, err := load(t, filepath.Join(t.TempDir(), "data"), fmt.Sprintf(`"oauth":{
		"work":{"kind":"google",%[1]s,"authorize_url":"%[2]s/auth","token_url":"%[2]s/token"},
		"hub":{"kind":"copilot",%[1]s,"device_code_url":"%[2]s/login/device/code","token_url":"%[2]s/login/oauth/access_token"}}`, client, identity),
		`"tiers":[{"name":"google","circuit_breaker":{"failure_threshold":1}},{"name":"copilot"}]`,
		`"auth":{"request_keys":[{"code":"google","api_key":"request-key-of-google","group":"google"},{"code":"copilot","api_key":"request-key-of-copilot","group":"copilot"}],
			"groups":[{"name":"google","tiers":["google"]},{"name":"copilot","tiers":["copilot"]}]}`,
		poolOf(fmt.Sprintf(`{"id":%q,"tier":"google","protocol":"anthropic","base_url":%q,"credential":"oauth:work"}`, workKey, provider),
			fmt.Sprintf(`{"id":%q,"tier":"copilot","provider":"copilot","base_url":%q,"token_url":"%[2]s/copilot_internal/v2/token","credential":"oauth:hub"}`, hubKey, copilot)))
	if err != nil {
		t.Fatal(err)
	}
	h.instance = newInstanceOf(t, cfg)
	return h
}

// newInstanceOf is an instance of keys without addresses, too.
func newInstanceOf(t *testing.T, cfg *config.Config) *instance {
	t.Helper()
	i := &instance{t: t, dir: cfg.Server.DataDir, log: new(logBuffer), served: make(chan error, 1), transport: &http.Transport{DisableCompression: true}}
	var err error
	if i.Daemon, err = New(cfg, NewLogger(cfg, i.log)); err != nil {
		t.Fatal(err)
	}
	i.url, i.look = "http://"+i.Addr(), time.Millisecond
	return i
}

// reauthState is what /api/reauth/status says of one.
type reauthState struct {
	State, Error    string
	CompletedAgo    *float64 `json:"completed_ago_seconds"`
	UserCode        string   `json:"user_code"`
	VerificationURI string   `json:"verification_uri"`
	AuthorizeURL    string   `json:"authorize_url"`
}

func (h *signInHouse) status(name string) reauthState {
	h.t.Helper()
	var v struct{ Providers map[string]reauthState }
	h.api("/api/reauth/status", http.StatusOK, &v)
	for name, s := range v.Providers {
		if s.UserCode+s.VerificationURI+s.AuthorizeURL != "" {
			h.t.Errorf("anybody here is told where to sign in to %s", name)
		}
	}
	h.api("/api/reauth/status", http.StatusOK, &v, "Authorization: Bearer "+h.Daemon.instance.Token)
	if len(v.Providers) != 2 {
		h.t.Errorf("providers: %v", v.Providers)
	}
	return v.Providers[name]
}

// api asks as a page does; answers hold no token.
func (h *signInHouse) api(path string, status int, into any, header ...string) {
	h.t.Helper()
	r := h.ask("GET", path, "", header...)
	h.tellsNoToken(r.body)
	if err := json.Unmarshal([]byte(r.body), into); err != nil || r.status != status {
		h.t.Fatalf("%s: %d, want %d: %s", path, r.status, status, r.body)
	}
}

func (h *signInHouse) tellsNoToken(text string) {
	h.t.Helper()
	for _, word := range []string{"demo-access-", "demo-refresh-", "demo-device-", "demo-code-", "ghu_demo", "credential-of-"} {
		if strings.Contains(text, word) {
			h.t.Errorf("%s is shown", word)
		}
	}
}

// begin asks for a login and waits until a person is needed.
func (h *signInHouse) begin(word, name string) reauthState {
	h.t.Helper()
	if status, body := h.admin("POST", "/api/reauth/"+word); status != 202 || fmt.Sprint(body) != "map[status:reauth requested]" {
		h.t.Fatalf("%d %v", status, body)
	}
	var s reauthState
	eventually(h.t, "a prompt of "+name, func() bool { s = h.status(name); return s.UserCode+s.AuthorizeURL != "" })
	if s.State != "pending" || s.Error != "" || s.CompletedAgo != nil {
		h.t.Errorf("%+v", s)
	}
	return s
}

func (h *signInHouse) ended(name, state string) reauthState {
	h.t.Helper()
	var s reauthState
	eventually(h.t, name+" is "+state, func() bool { s = h.status(name); return s.State == state })
	if s.UserCode+s.AuthorizeURL+s.VerificationURI != "" || (s.CompletedAgo != nil) != (state == "completed") {
		h.t.Errorf("%+v", s)
	}
	return s
}

func (h *signInHouse) askAs(caller string) *reply {
	h.t.Helper()
	return h.ask("POST", "/v1/messages", question("claude-sonnet-4.5"), version, "x-api-key: request-key-of-"+caller)
}

// A login by the admin call: the device flow, and the loopback flow, which says where the browser has to go. Its keys serve at
// once, though they were put out of use before.
func TestReauth(t *testing.T) {
	h := prepareSignInHouse(t)
	h.look = time.Hour // it needs no other process to notice
	h.serve()
	for _, caller := range []string{"google", "copilot"} {
		if r := h.askAs(caller); r.status == 200 {
			t.Fatalf("%s answers without a login", caller)
		}
	}
	if s := h.status("work"); s.State != "idle" || s.Error != oauth.ReasonNotSignedIn {
		t.Errorf("%+v", s)
	}
	s := h.begin("google", "work")
	if again := h.begin("work", "work"); again != s {
		t.Errorf("a second login has begun: %+v, %+v", s, again)
	}
	if page := visitPage(t, s.AuthorizeURL, "allow"); !strings.Contains(page, "The provider has agreed") {
		t.Errorf("the browser shows %s", page)
	}
	h.ended("work", "completed")
	if r := h.askAs("google"); r.status != 200 {
		t.Errorf("status %d: %s", r.status, r.body)
	}

	s = h.begin("hub", "hub")
	if !strings.HasSuffix(s.VerificationURI, "/login/device") {
		t.Errorf("%+v", s)
	}
	h.identity.Decide(s.UserCode, true)
	h.ended("hub", "completed")
	if r := h.askAs("copilot"); r.status != 200 {
		t.Errorf("status %d: %s", r.status, r.body)
	}
	h.tellsNoToken(h.log.String())
}

// visitPage presses a button of an authorize page and returns the page to which that leads.
func visitPage(t *testing.T, page, button string) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	resp, err := client.PostForm(page, url.Values{"decision": {button}})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// What comes to nothing says why, and can be asked for again; a login that is over is told.
func TestReauthFails(t *testing.T) {
	h := newSignInHouse(t)
	h.identity.Decide(h.begin("hub", "hub").UserCode, false)
	if s := h.ended("hub", "failed"); !strings.Contains(s.Error, "access_denied: the request was declined") {
		t.Errorf("%+v", s)
	}
	visitPage(t, h.begin("work", "work").AuthorizeURL, "deny")
	if s := h.ended("work", "failed"); !strings.Contains(s.Error, "access_denied") {
		t.Errorf("%+v", s)
	}
	visitPage(t, h.begin("work", "work").AuthorizeURL, "allow")
	h.ended("work", "completed")
	h.identity.Revoke()
	h.identity.Expire()
	err := OpenVault(h.dir, time.Now).Update(t.Context(), func(kept map[string]oauth.Credential) error {
		c := kept["work"]
		c.Access, c.Parked = "", oauth.ReasonGrant
		kept["work"] = c
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if s := h.ended("work", "idle"); s.Error != oauth.ReasonGrant {
		t.Errorf("%+v", s)
	}
	for path, words := range map[string]string{"/api/reauth/wrok": `did you mean "work"`, "/api/reauth/nobody": `it has "hub", "work"`} {
		if status, body := h.admin("POST", path); status != 404 || !strings.Contains(fmt.Sprint(body), words) {
			t.Errorf("%s: %d %v", path, status, body)
		}
	}
}

// Stopping the instance ends a login that waits for a person.
func TestReauthStops(t *testing.T) {
	h := newSignInHouse(t)
	h.begin("work", "work")
	h.begin("hub", "hub")
	h.stop()
	for name, s := range h.reauth.SignIns() {
		if s.State != loginFailed {
			t.Errorf("%s is %s", name, s.State)
		}
	}
	if err := h.reauth.SignIn("work"); err != nil || h.reauth.SignIns()["work"].State != loginFailed {
		t.Error("a login begins after the end")
	}
}

// signInElsewhere is what `login` does in another process.
func (h *signInHouse) signInElsewhere(name string) {
	h.t.Helper()
	accounts, done := OpenAccounts(h.config(), func(string) {})
	defer done()
	h.identity.SetConsent(demo.Allows)
	_, err := accounts.SignIn(h.t.Context(), name, 0, func(p Prompt) {
		if p.UserCode == "" {
			go visitPage(h.t, p.Page, "")
		}
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// A login in another process is noticed: keys and tiers that were put out of use for want of it serve again.
func TestLoginIsNoticed(t *testing.T) {
	h := newSignInHouse(t)
	if r := h.askAs("google"); r.status == 200 {
		t.Fatal("it answers without a login")
	}
	h.signInElsewhere("work")
	eventually(t, "the key serves", func() bool { return h.askAs("google").status == 200 })
	if !strings.Contains(h.log.String(), "somebody has signed in or out") {
		t.Error("the log does not tell")
	}
}

// So is one while no instance ran.
func TestLoginMeanwhileIsNoticed(t *testing.T) {
	h := newSignInHouse(t)
	if r := h.askAs("google"); r.status == 200 {
		t.Fatal("it answers without a login")
	}
	h.stop()
	h.signInElsewhere("work")
	again := &signInHouse{instance: newInstanceOf(t, h.config()), identity: h.identity}
	again.look = time.Hour
	again.serve()
	eventually(t, "the key serves", func() bool { return again.askAs("google").status == 200 })
}

// What is known of a Copilot account, and its models.
func TestCopilotAccount(t *testing.T) {
	h := newSignInHouse(t)
	var models struct {
		Keys map[string]struct {
			Status int
			Error  string
			Models []struct{ ID string }
		}
	}
	h.api("/api/copilot/models", http.StatusServiceUnavailable, &models)
	if m := models.Keys[hubKey]; m.Status != 503 || m.Error == "" {
		t.Errorf("%+v", models)
	}
	h.signInElsewhere("hub")
	eventually(t, "the login is noticed", func() bool { return strings.Contains(h.log.String(), "somebody has signed in") })
	h.api("/api/copilot/models", http.StatusOK, &models)
	if m := models.Keys[hubKey]; len(m.Models) == 0 {
		t.Errorf("%+v", models)
	}
	var diagnoses struct {
		Keys map[string]struct {
			Models []string `json:"available_models_cache"`
			Token  struct{ Good bool }
		}
	}
	h.api("/api/copilot/diagnostics", http.StatusOK, &diagnoses)
	if d := diagnoses.Keys[hubKey]; len(diagnoses.Keys) != 1 || !d.Token.Good || len(d.Models) == 0 {
		t.Errorf("%+v", diagnoses)
	}
	var status struct {
		Tiers []struct {
			Name        string
			Diagnostics map[string]struct{ Token struct{ Good bool } }
		}
	}
	h.api("/api/status", http.StatusOK, &status)
	for _, tier := range status.Tiers {
		if got := tier.Diagnostics[hubKey].Token.Good; got != (tier.Name == "copilot") {
			t.Errorf("%+v", status)
		}
	}
	h.copilot.Refuse(500)
	h.api("/api/copilot/models", http.StatusOK, &models) // the list is new
	h.admin("POST", "/admin/reset")
	h.api("/api/copilot/models", http.StatusBadGateway, &models)
	if r := h.askAs("copilot"); r.status != 200 {
		t.Errorf("status %d: %s", r.status, r.body)
	}
	if s := h.status("hub"); s.State != "idle" || s.Error != "" {
		t.Errorf("%+v", s)
	}
	h.copilot.Expire()
	h.copilot.FailExchange(demo.CopilotFailure{Status: 401, Body: `{"message":"Bad credentials"}`})
	if r := h.askAs("copilot"); r.status == 200 {
		t.Error("an answer without a token")
	}
	if s := h.status("hub"); s.State != "idle" || s.Error != oauth.ReasonCredentials {
		t.Errorf("%+v", s)
	}
}

// An entry that is gone signs nobody in.
func TestSignInOfNobody(t *testing.T) {
	h := prepareSignInHouse(t)
	t.Cleanup(h.Close)
	accounts, done := OpenAccounts(h.config(), func(string) {})
	defer done()
	if _, err := accounts.SignIn(t.Context(), "nobody", 0, func(Prompt) { t.Error("a prompt") }); err == nil {
		t.Error("nobody is signed in")
	}
}

// A login takes the outbound proxy of the keys that use it.
func TestSignInByProxy(t *testing.T) {
	identity := demo.NewIdentity(demo.IdentityOptions{Interval: 1})
	identity.SetConsent(demo.Allows)
	outbound := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Host != "id.invalid" {
			t.Errorf("asked for %s", r.URL.Host)
		}
		identity.ServeHTTP(w, r)
	}))
	defer outbound.Close()
	cfg, err := load(t, filepath.Join(t.TempDir(), "data"),
		`"oauth":{"hub":{"kind":"copilot","client_id":"app","device_code_url":"https://id.invalid/device/code","token_url":"https://id.invalid/token"}}`,
		poolOf(fmt.Sprintf(`{"id":"a","provider":"copilot","credential":"oauth:hub"},{"id":"b","provider":"copilot","credential":"oauth:hub","proxy_url":%q}`, outbound.URL)))
	if err != nil {
		t.Fatal(err)
	}
	c := cfg.Logins["hub"] // over TLS the simulated proxy would see nothing
	c.DeviceCodeURL, c.TokenURL = "http://id.invalid/device/code", "http://id.invalid/token"
	cfg.Logins["hub"] = c
	accounts, done := OpenAccounts(cfg, func(string) {})
	defer done()
	if _, err := accounts.SignIn(t.Context(), "hub", 0, func(Prompt) {}); err != nil {
		t.Error(err)
	}
}
