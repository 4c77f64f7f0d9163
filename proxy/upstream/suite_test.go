package upstream

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"coding-proxy/auth"
	"coding-proxy/auth/oauth"
	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/upstream/upstreamtest"
)

// sent makes a request of an Upstream as the proxy does: a clean header, the key's address, and then Sign.
type sent struct{ u *Upstream }

func (s sent) Choose(ctx context.Context, dialect, model string) (protocol, name string, f *ir.Fault) {
	return s.u.Kind().Choose(ctx, dialect, model)
}

func (s sent) Sign(req *http.Request, try int) *ir.Fault {
	protocol := OpenAIChat
	if strings.Contains(req.URL.Path, "/models/") {
		protocol = Gemini
	}
	way := s.u.Endpoint(protocol)
	req.Header = http.Header{"Content-Type": req.Header["Content-Type"], "User-Agent": {"the client's, which has passed"}}
	s.u.SetHeaders(req.Header, way)
	req.URL = s.u.URL(way, req.URL.EscapedPath(), req.URL.RawQuery)
	req.Host = req.URL.Host
	return s.u.Sign(req, try)
}

func (s sent) Again(req *http.Request, try int, f *ir.Fault) bool {
	return s.u.Kind().Again(req, try, f)
}

func (s sent) Open(resp *http.Response) { s.u.Kind().Open(resp) }

// Keys of any provider that show a login's token pass the suite of those that need more than a key.
func TestSuiteOfLogins(t *testing.T) {
	const refresh, secret = "refresh-token-of-the-suite", "client-secret-of-the-suite"
	upstreamtest.Run(t, upstreamtest.Case{
		New: func(t *testing.T, env upstreamtest.Env) upstreamtest.Kind {
			kept := &vault{kept: map[string]oauth.Credential{"work": {Kind: oauth.KindGoogle, Refresh: refresh, Obtained: env.Now()}}}
			accounts := oauth.NewManager(kept, env.Now, env.HTTP)
			accounts.Configure(map[string]oauth.Client{"work": {Kind: oauth.KindGoogle, ClientID: "suite", ClientSecret: auth.NewSecret(secret), TokenURL: env.URL + "/token"}})
			return sent{New(Options{KeyID: "k", Account: "work", Endpoints: []Endpoint{{Protocol: Gemini, BaseURL: parse(t, env.URL+"/v1beta")}, {Protocol: OpenAIChat, BaseURL: parse(t, env.URL+"/v1")}}},
				Env{Transport: func(string) http.RoundTripper { return env.HTTP() }, Accounts: accounts, Now: env.Now})}
		},
		IsExchange: func(r *http.Request) bool { return r.URL.Path == "/token" },
		Grant: func(n int) (token, body string) {
			token = fmt.Sprintf("access-token-%08d", n)
			return token, fmt.Sprintf(`{"access_token":%q,"expires_in":3600}`, token)
		},
		Life:    time.Hour,
		Refused: upstreamtest.Refusal{Status: 400, Body: `{"error":"invalid_grant","error_description":"%s was revoked"}`},
		Secrets: []string{refresh, secret},
		Requests: []upstreamtest.Request{
			{Name: "gemini", Dialect: Gemini, Model: "m", Path: "/v1beta/models/m:generateContent", Query: "alt=sse", Body: `{"contents":[]}`},
			{Name: "chat", Dialect: OpenAIChat, Model: "m", Path: "/v1/chat/completions", Body: `{"model":"m"}`},
			{Name: "converted", Dialect: Anthropic, Model: "m", Speaks: Gemini, Path: "/v1beta/models/m:generateContent", Body: `{"contents": []}`},
		},
	})
}
