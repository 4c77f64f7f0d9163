package upstream

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"coding-proxy/auth"
	"coding-proxy/auth/oauth"
	"coding-proxy/proxy/ir"
)

// vault keeps credentials in memory.
type vault struct {
	mu   sync.Mutex
	kept map[string]oauth.Credential
}

func (v *vault) Read() (map[string]oauth.Credential, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return maps.Clone(v.kept), nil
}

func (v *vault) Update(_ context.Context, change func(map[string]oauth.Credential) error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return change(v.kept)
}

func (v *vault) Hold(_ context.Context, _ string, work func() error) error { return work() }

// A key with a login's credential shows the login's token at its own addresses, gets another one when that is refused, and
// says why where there is none.
func TestAccount(t *testing.T) {
	exchanges, answer := 0, ""
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		exchanges++
		if answer != "" {
			http.Error(w, answer, http.StatusBadRequest)
			return
		}
		fmt.Fprintf(w, `{"access_token":"access-token-%d","expires_in":3600}`, exchanges)
	}))
	defer issuer.Close()
	kept := &vault{kept: map[string]oauth.Credential{"work": {Kind: oauth.KindGoogle, Refresh: "refresh-token-1", Obtained: time.Now()}}}
	accounts := oauth.NewManager(kept, time.Now, func() http.RoundTripper { return http.DefaultTransport })
	accounts.Configure(map[string]oauth.Client{"work": {Kind: oauth.KindGoogle, ClientID: "c", ClientSecret: auth.NewSecret("client-secret"), TokenURL: issuer.URL}})
	u := New(Options{KeyID: "k", Account: "work", Headers: map[string]auth.Secret{"X-Team": auth.NewSecret("team-secret")},
		Endpoints: []Endpoint{{Protocol: OpenAIChat, BaseURL: parse(t, "https://a.example/v1")}, {Protocol: Gemini, BaseURL: parse(t, "https://a.example/v1beta")}}},
		Env{Transport: func(string) http.RoundTripper { return http.DefaultTransport }, Accounts: accounts, Now: time.Now})

	for dialect, want := range map[string]string{Gemini: Gemini, OpenAIChat: OpenAIChat, Anthropic: OpenAIChat} {
		if protocol, name, f := u.Kind().Choose(t.Context(), dialect, "m"); protocol != want || name != "m" || f != nil {
			t.Errorf("%s: %s %s %v", dialect, protocol, name, f)
		}
	}
	request := func() *http.Request {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://a.example/v1/chat/completions", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		u.SetHeaders(req.Header, u.Endpoint(OpenAIChat))
		return req
	}
	sign := func(want string) *http.Request {
		t.Helper()
		req := request()
		if f := u.Sign(req, 0); f != nil {
			t.Fatalf("%+v", f)
		}
		if got := req.Header.Get("Authorization"); got != "Bearer "+want || req.Header.Get("X-Team") != "team-secret" || req.URL.Host != "a.example" {
			t.Errorf("authorization %q, want %q", got, want)
		}
		return req
	}
	sign("access-token-1")
	req := sign("access-token-1")
	refused := &ir.Fault{Status: http.StatusUnauthorized}
	for try, want := range []bool{true, false} {
		if got := u.Kind().Again(req, try, refused); got != want {
			t.Errorf("try %d: %v", try, got)
		}
	}
	for _, status := range []int{400, 403, 404, 429, 500, 503} {
		if u.Kind().Again(req, 0, &ir.Fault{Status: status}) {
			t.Errorf("once more after %d", status)
		}
	}
	sign("access-token-2")
	if got := string(u.Mask([]byte("you sent access-token-1 and access-token-2 of team-secret"))); got != "you sent *** and *** of ***" {
		t.Errorf("masked: %s", got)
	}
	u.Kind().Again(sign("access-token-2"), 0, refused)
	answer = `{"error":"invalid_grant","error_description":"refresh-token-1 was revoked"}`
	f := u.Sign(request(), 0)
	if f == nil || f.Status != http.StatusUnauthorized || f.Type != oauth.ReasonGrant || strings.Contains(fmt.Sprintf("%+v", *f), "refresh-token-1") {
		t.Errorf("%+v", f)
	}
}
