package antigravity_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"coding-proxy/auth"
	"coding-proxy/auth/oauth"
	"coding-proxy/proxy/upstream/antigravity"
	"coding-proxy/proxy/upstream/upstreamtest"
)

var _ upstreamtest.Kind = (*antigravity.Provider)(nil)

const refreshToken = "refresh-token-of-the-suite"

// refresher exchanges the refresh token at base, as auth/oauth does.
func refresher(base string, now func() time.Time, client func() http.RoundTripper) func(context.Context) (oauth.Token, error) {
	return func(ctx context.Context) (oauth.Token, error) {
		form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refreshToken}, "client_id": {"c"}}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/token", strings.NewReader(form.Encode()))
		if err != nil {
			return oauth.Token{}, err
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		resp, err := client().RoundTrip(req)
		if err != nil {
			return oauth.Token{}, err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		var granted struct {
			Token string `json:"access_token"`
			Life  int    `json:"expires_in"`
			Error string `json:"error"`
		}
		if err != nil || json.Unmarshal(body, &granted) != nil || granted.Token == "" {
			return oauth.Token{}, &oauth.Error{Reason: map[bool]string{true: oauth.ReasonGrant, false: oauth.ReasonTemporary}[granted.Error == "invalid_grant"],
				Final: granted.Error == "invalid_grant", Message: "no token"}
		}
		return oauth.Token{Access: auth.NewSecret(granted.Token), Expires: now().Add(time.Duration(granted.Life) * time.Second)}, nil
	}
}

func suiteCase(options antigravity.Options) upstreamtest.Case {
	return upstreamtest.Case{
		New: func(t *testing.T, env upstreamtest.Env) upstreamtest.Kind {
			o := options
			base, err := url.Parse(env.URL + strings.TrimPrefix(o.BaseURLs[0].Path, "/nowhere"))
			if err != nil {
				t.Fatal(err)
			}
			o.BaseURLs = []*url.URL{base}
			o.Token = oauth.NewSource(refresher(env.URL, env.Now, env.HTTP), env.Now)
			o.Now, o.HTTP = env.Now, env.HTTP
			return antigravity.New(o)
		},
		IsExchange: func(r *http.Request) bool { return r.URL.Path == "/token" },
		Grant: func(n int) (token, body string) {
			token = fmt.Sprintf("access-token-%d", n)
			return token, fmt.Sprintf(`{"access_token":%q,"expires_in":3600}`, token)
		},
		Life:    time.Hour,
		Refused: upstreamtest.Refusal{Status: 400, Body: `{"error":"invalid_grant","error_description":"%s was revoked"}`},
		Aside: func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "/v1internal:loadCodeAssist") {
				return false
			}
			fmt.Fprint(w, `{"cloudaicompanionProject":"proj-1"}`)
			return true
		},
		Secrets: []string{refreshToken},
		Requests: []upstreamtest.Request{
			{Name: "plain", Dialect: "gemini", Model: "gemini-3.1-pro", Path: "/v1beta/models/gemini-3.1-pro:generateContent", Body: body, Speaks: "gemini"},
			{Name: "stream", Dialect: "anthropic", Model: "models/claude-sonnet-5-5", Path: "/v1beta/models/claude-sonnet-5-5:streamGenerateContent", Query: "alt=sse", Body: body, Speaks: "gemini"},
		},
		Diagnose: func(k upstreamtest.Kind) any { return k.(*antigravity.Provider).Diagnose() },
	}
}

const body = `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`

func TestSuite(t *testing.T) {
	c := suiteCase(antigravity.Options{BaseURLs: []*url.URL{{Path: "/v1internal"}}})
	c.Answer, c.Plain = `{"response": {"candidates":[]}, "traceId": "x"}`, `{"candidates":[]}`
	c.Sent = func(t *testing.T, asked upstreamtest.Request, sent []byte) {
		var e struct {
			Project, Model, RequestID string
			Request                   struct {
				Contents  json.RawMessage
				SessionID string
			}
		}
		if err := json.Unmarshal(sent, &e); err != nil || e.Project != "proj-1" || e.Model != strings.TrimPrefix(asked.Model, "models/") ||
			!strings.HasPrefix(e.RequestID, "agent-") || len(e.RequestID) != 42 || !strings.Contains(body, string(e.Request.Contents)) || e.Request.SessionID == "" {
			t.Errorf("%s (%v)", sent, err)
		}
	}
	upstreamtest.Run(t, c)
}

func TestSuiteGenerativeLanguage(t *testing.T) {
	c := suiteCase(antigravity.Options{BaseURLs: []*url.URL{{Path: "/v1beta"}}, GenerativeLanguage: true})
	c.Aside = nil
	upstreamtest.Run(t, c)
}
