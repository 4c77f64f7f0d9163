package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"testing"
)

// accounts always say the same.
type accounts struct {
	signIns   map[string]SignIn
	diagnoses map[string]json.RawMessage
	models    map[string]AccountModels
	begun     *[]string // of SignIn
}

func (a accounts) SignIns() map[string]SignIn {
	if a.signIns == nil {
		return map[string]SignIn{}
	}
	return a.signIns
}

func (a accounts) SignIn(name string) error {
	if _, ok := a.signIns[name]; !ok {
		return errors.New("there is no " + name)
	}
	*a.begun = append(*a.begun, name)
	return nil
}

func (a accounts) Diagnoses(string) map[string]json.RawMessage { return a.diagnoses }

func (a accounts) Models(context.Context) map[string]AccountModels { return a.models }

// What is said of accounts, in the older systems' shapes.
func TestOlderAccounts(t *testing.T) {
	f := small()
	ago := 1.5
	f.accounts = accounts{
		signIns: map[string]SignIn{"hub": {State: "pending", UserCode: "AB-12", VerificationURI: "https://a.test/device"},
			"work": {State: "completed", CompletedAgo: &ago}, "old": {State: "failed", Error: "expired_token"}},
		diagnoses: map[string]json.RawMessage{"k2": json.RawMessage(`{"token":{"good":true}}`), "gone": json.RawMessage(`{}`)},
	}
	for url, want := range map[string]string{
		"/api/reauth/status": `{"providers":{"hub":{"state":"pending"},` +
			`"old":{"state":"failed","error":"expired_token"},"work":{"state":"completed","completed_ago_seconds":1.5}}}`,
		"/api/copilot/diagnostics": `{"keys":{"gone":{},"k2":{"token":{"good":true}}}}`,
		"/api/status":              `{"tiers":[{"name":"default","rate_limit":{"is_rate_limited":false,"remaining_seconds":0},"diagnostics":{"k2":{"token":{"good":true}}}}]}`,
	} {
		if w := f.ask(t, "GET", url); w.Code != 200 || w.Body.String() != want {
			t.Errorf("%s: %d\ngot  %s\nwant %s", url, w.Code, w.Body, want)
		}
	}
}

// Where a person goes to sign in is told to administrators alone.
func TestReauthStatusOfAnAdmin(t *testing.T) {
	f := small()
	f.accounts = accounts{signIns: map[string]SignIn{"hub": {State: "pending", UserCode: "AB-12", VerificationURI: "https://a.test/device"}}}
	r := AsAdmin(httptest.NewRequest("GET", "/api/reauth/status", nil))
	w := httptest.NewRecorder()
	New(Sources{f, f, f.accounts, f, f.journal}, f.callers, f.opt, noon).Serve(w, r, Find(Routes(), r.URL.Path))
	if want := `{"providers":{"hub":{"state":"pending","user_code":"AB-12","verification_uri":"https://a.test/device"}}}`; w.Body.String() != want {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// One account that can list its models is enough.
func TestOlderModels(t *testing.T) {
	good := AccountModels{Status: 200, Models: json.RawMessage(`[{"id":"m"}]`)}
	unreached, noToken := AccountModels{Status: 502, Error: "no"}, AccountModels{Status: 503, Error: "sign in"}
	for _, c := range []struct {
		of   map[string]AccountModels
		want int
		body string
	}{
		{map[string]AccountModels{"a": noToken, "b": good}, 200, `{"keys":{"a":{"status":503,"error":"sign in"},"b":{"status":200,"models":[{"id":"m"}]}}}`},
		{map[string]AccountModels{"a": noToken, "b": unreached}, 502, `{"keys":{"a":{"status":503,"error":"sign in"},"b":{"status":502,"error":"no"}}}`},
		{map[string]AccountModels{"a": noToken}, 503, `{"keys":{"a":{"status":503,"error":"sign in"}}}`},
		{nil, 404, `{"error":{"type":"not_found","message":"no copilot key is configured"}}`},
	} {
		f := small()
		f.accounts.models = c.of
		if w := f.ask(t, "GET", "/api/copilot/models"); w.Code != c.want || w.Body.String() != c.body {
			t.Errorf("%v: %d %s", c.of, w.Code, w.Body)
		}
	}
}

func TestOlderReauth(t *testing.T) {
	var begun []string
	a := NewAdmin(nil, nil, nil, accounts{signIns: map[string]SignIn{"hub": {}}, begun: &begun}, nil)
	for path, want := range map[string]struct {
		status int
		body   string
	}{
		"/api/reauth/hub": {202, `{"status":"reauth requested"}`},
		"/api/reauth/hbu": {404, `{"error":{"type":"not_found_error","message":"reauth not available: there is no hbu"}}`},
	} {
		route, id, _ := FindAdmin(AdminRoutes(), "POST", path)
		w := httptest.NewRecorder()
		a.Serve(w, httptest.NewRequest("POST", path, nil), route, id)
		if w.Code != want.status || w.Body.String() != want.body {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if len(begun) != 1 || begun[0] != "hub" {
		t.Errorf("begun: %q", begun)
	}
}
