package copilot

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"coding-proxy/auth"
	"coding-proxy/auth/oauth"
	"coding-proxy/proxy/demo"
)

func TestEndpointsInAllDialects(t *testing.T) {
	for _, other := range []bool{false, true} {
		a := newAccount(t, demo.CopilotOptions{OtherShape: other, SKU: "seat_1"}, nil)
		a.wantGood("/v1/messages", askClaude)
		a.wantGood("/v1/responses", askCodex)
		a.wantGood("/v1/chat/completions", askChat)
		if n := a.demo.Exchanges(); n != 1 {
			t.Errorf("%d exchanges", n)
		}
		d := a.Diagnose()
		if d.SKU != "seat_1" || d.Mode != modeExchange || d.BaseURL != a.base.String() || !d.Token.Good || !d.Capabilities["chat_enabled"] {
			t.Errorf("diagnosis %+v", d)
		}
	}
}

// refresh_in is 25 minutes here: a minute before, the token is fetched anew while the old one serves.
func TestRefreshedEarly(t *testing.T) {
	a := newAccount(t, demo.CopilotOptions{}, nil)
	a.wantGood("/v1/messages", askClaude)
	a.advance(24*time.Minute - 2*time.Second)
	a.wantGood("/v1/messages", askClaude)
	if n := a.demo.Exchanges(); n != 1 {
		t.Errorf("%d exchanges before it was time", n)
	}
	a.advance(3 * time.Second)
	hold := demo.HoldAt(0)
	a.demo.HoldExchange(hold)
	a.wantGood("/v1/messages", askClaude)
	<-hold.Reached()
	hold.Release()
	if n := a.demo.Exchanges(); n != 2 {
		t.Errorf("%d exchanges when it was time", n)
	}
}

// While exchanges fail the old token serves to its end, which is after the time at which it should be renewed.
func TestOldTokenServesWhileRefreshFails(t *testing.T) {
	for _, failure := range []demo.CopilotFailure{{Status: 500}, {Status: 401, Body: `{"message":"Bad credentials"}`}} {
		a := newAccount(t, demo.CopilotOptions{}, nil)
		a.wantGood("/v1/messages", askClaude)
		a.demo.FailExchange(failure)
		a.advance(28 * time.Minute)
		a.wantGood("/v1/messages", askClaude)
		if d := a.Diagnose(); !d.Token.Good || d.Token.ErrorKind == "" || d.Token.ExpiresAt == nil || !d.Token.ExpiresAt.Equal(noon.Add(30*time.Minute)) {
			t.Errorf("%d: %+v", failure.Status, d.Token)
		}
		a.advance(2 * time.Minute)
		if r := a.ask("/v1/messages", askClaude); r.fault == nil {
			t.Errorf("%d: status %d with a token that is over", failure.Status, r.status)
		}
	}
}

// A token that was refused is not shown again, though the exchange for the next one fails.
func TestRefusedTokenIsGone(t *testing.T) {
	a := newAccount(t, demo.CopilotOptions{}, nil)
	a.wantGood("/v1/messages", askClaude)
	a.demo.FailExchange(demo.CopilotFailure{Status: 503})
	a.demo.Refuse(401)
	if r := a.ask("/v1/messages", askClaude); r.fault == nil || len(r.sends) != 1 {
		t.Errorf("status %d, sent to %v", r.status, r.sends)
	}
}

func TestDirect(t *testing.T) {
	a := newAccount(t, demo.CopilotOptions{NoEndpoint: true}, func(o *Options) { o.GitHubToken = auth.NewSecret(direct); o.BaseURL = o.TokenURL.JoinPath("../../..") })
	a.wantGood("/v1/messages", askClaude)
	if got := a.last().Header.Get("Authorization"); got != "Bearer "+direct {
		t.Error("the GitHub token is not shown")
	}
	if d := a.Diagnose(); d.Mode != modeDirect || !d.Token.Good {
		t.Errorf("diagnosis %+v", d)
	}
	a.wantGood("/v1/messages", askClaude)
	if n := a.demo.Exchanges(); n != 1 {
		t.Errorf("%d exchanges", n)
	}
	a.advance(31 * time.Minute)
	a.wantGood("/v1/messages", askClaude)
	if n := a.demo.Exchanges(); n != 2 {
		t.Errorf("%d exchanges after half an hour", n)
	}
	// Another kind of token at which GitHub finds nothing is a failure.
	a = newAccount(t, demo.CopilotOptions{}, nil)
	a.demo.FailExchange(demo.CopilotFailure{Status: 404, Body: `{"message":"Not Found"}`})
	if r := a.ask("/v1/messages", askClaude); r.fault == nil || r.fault.Type != oauth.ReasonTemporary || r.fault.Status != 502 {
		t.Errorf("fault %+v, status %d", r.fault, r.status)
	}
}

func TestFaultsOfTheExchange(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(a *account)
		status  int
		reason  string
		reset   time.Duration // at least
		reauth  bool
	}{
		"refused":        {func(a *account) { a.demo.FailExchange(demo.CopilotFailure{Status: 401, Body: `{}`}) }, 401, oauth.ReasonCredentials, 0, true},
		"abilities only": {func(a *account) { a.demo.FlagsOnly(true) }, 401, oauth.ReasonPermission, 0, true},
		"away":           {func(a *account) { a.demo.FailExchange(demo.CopilotFailure{Status: 500}) }, 502, oauth.ReasonTemporary, time.Second, false},
		"limited": {func(a *account) {
			a.demo.FailExchange(demo.CopilotFailure{Status: 429, Header: http.Header{"Retry-After": {"90"}}})
		}, 502, oauth.ReasonTemporary, 90 * time.Second, false},
		"limited for ever": {func(a *account) {
			a.demo.FailExchange(demo.CopilotFailure{Status: 429, Header: http.Header{"Retry-After": {"99999999"}}})
		}, 502, oauth.ReasonTemporary, time.Hour, false},
		"until a date": {func(a *account) {
			a.demo.FailExchange(demo.CopilotFailure{Status: 503, Header: http.Header{"Retry-After": {noon.Add(2 * time.Minute).Format(http.TimeFormat)}}})
		}, 502, oauth.ReasonTemporary, 2 * time.Minute, false},
		"not signed in": {func(a *account) { a.opt.GitHubToken = auth.Secret{} }, 401, oauth.ReasonNotSignedIn, 0, true},
		"the login says": {func(a *account) {
			a.opt.GitHub = func(context.Context) (auth.Secret, error) {
				return auth.Secret{}, &oauth.Error{Reason: oauth.ReasonGrant, Final: true, Message: "x"}
			}
		}, 401, oauth.ReasonGrant, 0, true},
		"the login fails": {func(a *account) {
			a.opt.GitHub = func(context.Context) (auth.Secret, error) { return auth.Secret{}, errors.New("disk " + exchanged) }
		}, 502, oauth.ReasonTemporary, time.Second, false},
		"no connection": {func(a *account) { a.opt.TokenURL = parse(t, "http://127.0.0.1:1/token") }, 502, oauth.ReasonTemporary, time.Second, false},
	} {
		a := newAccount(t, demo.CopilotOptions{}, nil)
		test.prepare(a)
		f := a.ask("/v1/messages", askClaude).fault
		if f == nil || f.Status != test.status || f.Type != test.reason || f.Message == "" || f.Reset < test.reset || f.Reset > test.reset+test.reset/10+2*time.Second {
			t.Errorf("%s: %+v", name, f)
			continue
		}
		d := a.Diagnose()
		text, err := json.Marshal(d)
		if err != nil || strings.Contains(string(text)+f.Message, exchanged) {
			t.Errorf("%s: %s %v", name, text, err)
		}
		if d.Token.Good || d.Token.ErrorKind != test.reason || d.Token.NeedsReauth != test.reauth || d.Token.LastError == "" {
			t.Errorf("%s: diagnosis %+v", name, d.Token)
		}
		if test.reason == oauth.ReasonPermission && len(d.Capabilities) != 2 {
			t.Errorf("%s: abilities %v", name, d.Capabilities)
		}
	}
}

// Whoever has signed in anew is not held up by what failed before.
func TestReset(t *testing.T) {
	a := newAccount(t, demo.CopilotOptions{}, nil)
	a.demo.FlagsOnly(true)
	if r := a.ask("/v1/messages", askClaude); r.fault == nil {
		t.Fatal("no fault")
	}
	a.demo.FlagsOnly(false)
	a.advance(10 * time.Minute)
	if r := a.ask("/v1/messages", askClaude); r.fault == nil {
		t.Error("a person need not act")
	}
	a.Choose(t.Context(), anthropic, "x")
	a.Reset()
	a.wantGood("/v1/messages", askClaude)
	if a.Choose(t.Context(), anthropic, "x"); len(a.Diagnose().Models) == 0 {
		t.Error("the list of models still waits")
	}
}

// An exchange that was under way at a reset is of the account before: its token is not kept.
func TestResetDuringAnExchange(t *testing.T) {
	a := newAccount(t, demo.CopilotOptions{}, nil)
	hold := demo.HoldAt(0)
	a.demo.HoldExchange(hold)
	done := make(chan error, 1)
	go func() {
		_, err := a.fetch(context.Background())
		done <- err
	}()
	<-hold.Reached()
	a.Reset()
	hold.Release()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, ok := a.old(t.Context()); ok {
		t.Error("its token is kept")
	}
	a.wantGood("/v1/messages", askClaude)
	if _, ok := a.old(t.Context()); !ok {
		t.Error("the next one's is not")
	}
}

// In the last minutes of a token nobody waits for exchanges that hang, once one has failed.
func TestOldTokenServesWhileRefreshHangs(t *testing.T) {
	a := newAccount(t, demo.CopilotOptions{}, nil)
	a.wantGood("/v1/messages", askClaude)
	a.demo.FailExchange(demo.CopilotFailure{Status: 500})
	a.advance(27 * time.Minute)
	a.wantGood("/v1/messages", askClaude)
	hold := demo.HoldAt(0)
	a.demo.HoldExchange(hold)
	a.demo.FailExchange(demo.CopilotFailure{})
	a.advance(5 * time.Second)
	a.wantGood("/v1/messages", askClaude)
	<-hold.Reached() // it was asked for all the same
	hold.Release()
	a.advance(5 * time.Minute)
	a.wantGood("/v1/messages", askClaude)
	if n := a.demo.Exchanges(); n != 3 {
		t.Errorf("%d exchanges", n)
	}
}

// Who has signed out, or in as somebody else, is not served with the old token.
func TestOldTokenOfAnotherAccount(t *testing.T) {
	for name, now := range map[string]func() (auth.Secret, error){
		"somebody else": func() (auth.Secret, error) { return auth.NewSecret("ghu_another"), nil },
		"signed out":    func() (auth.Secret, error) { return auth.Secret{}, nil },
	} {
		gitHub := func() (auth.Secret, error) { return auth.NewSecret(exchanged), nil }
		a := newAccount(t, demo.CopilotOptions{}, func(o *Options) {
			o.GitHub = func(context.Context) (auth.Secret, error) { return gitHub() }
		})
		a.wantGood("/v1/messages", askClaude)
		a.demo.FailExchange(demo.CopilotFailure{Status: 500})
		a.advance(28 * time.Minute)
		a.wantGood("/v1/messages", askClaude)
		gitHub = now
		a.advance(10 * time.Second)
		if r := a.ask("/v1/messages", askClaude); r.fault == nil {
			t.Errorf("%s: status %d", name, r.status)
		}
	}
}

// The exchange and the list of models carry what a key's configuration says of headers, but not its credential.
func TestConfiguredHeaders(t *testing.T) {
	a := newAccount(t, demo.CopilotOptions{}, func(o *Options) {
		o.Headers = map[string]auth.Secret{"editor-version": auth.NewSecret("my-editor/1"), "x-own": auth.NewSecret("1"), "authorization": auth.NewSecret("Bearer other")}
	})
	if _, f := a.Models(t.Context()); f != nil {
		t.Fatalf("%+v", f)
	}
	arrived := a.demo.Arrived()
	if len(arrived) != 2 {
		t.Fatalf("%d requests", len(arrived))
	}
	for _, r := range arrived {
		if r.Header.Get("Editor-Version") != "my-editor/1" || r.Header.Get("X-Own") != "1" || len(r.Header.Values("Authorization")) != 1 {
			t.Errorf("%s: %v", r.Path, r.Header["Editor-Version"])
		}
	}
	if got := arrived[1].Header; got.Get("Openai-Intent") != "model-access" || !strings.HasPrefix(got.Get("Authorization"), "Bearer tid=") {
		t.Errorf("the list of models was asked for with the intent %q", got.Get("Openai-Intent"))
	}
}
