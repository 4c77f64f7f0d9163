package oauth

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// What each answer of a token endpoint means.
func TestAnswers(t *testing.T) {
	long := strings.Repeat("é", 300)
	for _, tc := range []struct {
		name   string
		status int
		body   string
		reason string // "" = a token
		words  string // in the message
	}{
		{"token", 200, `{"access_token":"a","expires_in":3599}`, "", ""},
		{"life as text", 200, `{"access_token":"a","expires_in":"1800"}`, "", ""},
		{"life of another type", 200, `{"access_token":"a","expires_in":{}}`, "", ""},
		{"scope of another type", 200, `{"access_token":"a","scope":["x"]}`, "", ""},
		{"created", 201, `{"access_token":"a"}`, "", ""},
		{"revoked", 400, `{"error":"invalid_grant","error_description":"Token has been expired or revoked."}`, ReasonGrant, "invalid_grant: Token has been expired or revoked."},
		{"reused", 401, `{"error":{"code":"refresh_token_reused"}}`, ReasonGrant, "refresh_token_reused"},
		{"GitHub", 200, `{"error":"bad_refresh_token"}`, ReasonGrant, "bad_refresh_token"},
		{"an error beside a token", 200, `{"error":"invalid_grant","access_token":"a"}`, ReasonGrant, ""},
		{"client", 401, `{"error":"invalid_client","error_description":"The OAuth client was not found."}`, ReasonCredentials, "check client_id and client_secret"},
		{"client of another", 400, `{"error":"unauthorized_client"}`, ReasonCredentials, "check client_id"},
		{"scope", 400, `{"error":"invalid_scope"}`, ReasonScope, "coding-proxy login work"},
		{"scope, Google", 403, `{"error":{"code":403,"status":"PERMISSION_DENIED","message":"m","details":[{"reason":"ACCESS_TOKEN_SCOPE_INSUFFICIENT"}]}}`, ReasonScope, "PERMISSION_DENIED: m"},
		{"scope, lower case", 403, `{"error":{"message":"access_token_scope_insufficient"}}`, ReasonScope, ""},
		{"unknown", 400, `{"error":"slow"}`, ReasonTemporary, "slow"},
		{"a page", 403, `<html>sign in to the guest network</html>`, ReasonTemporary, "status 403"},
		{"a page as success", 200, `<html>welcome</html>`, ReasonTemporary, "not JSON"},
		{"moved", 302, ``, ReasonTemporary, "status 302"},
		{"down", 503, `{"error":"invalid_grant"}`, ReasonTemporary, "invalid_grant"},
		{"busy", 429, `{"error":"invalid_grant"}`, ReasonTemporary, ""},
		{"nothing", 200, ``, ReasonTemporary, "not JSON"},
		{"a list", 200, `[]`, ReasonTemporary, "not JSON"},
		{"null", 200, `null`, ReasonTemporary, "no usable token"},
		{"empty token", 200, `{"access_token":""}`, ReasonTemporary, "no usable token"},
		{"a token that fits no header", 200, `{"access_token":"a\nx-evil: 1"}`, ReasonTemporary, "no usable token"},
		{"terminal", 400, `{"error":"x","error_description":"a\u001b[2J\u202eb\u009b"}`, ReasonTemporary, "x: a [2J b"},
		{"long", 400, `{"error":"` + long + `"}`, ReasonTemporary, "says: " + strings.Repeat("é", 200) + "…"},
		{"echo", 400, `{"error":"invalid_request","error_description":"token refresh-0+/ (refresh-0%2B%2F) of client-secret-1"}`, ReasonTemporary, "token *** (***) of ***"},
		{"echo at the cut", 400, `{"error":"x","error_description":"` + strings.Repeat("y", 190) + `refresh-0+/"}`, ReasonTemporary, "y***"},
		{"echo as code", 400, `{"error":"refresh-0+/"}`, ReasonTemporary, "***"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(tc.status)
				fmt.Fprint(w, tc.body)
			}))
			defer server.Close()
			client := workClient
			client.TokenURL = server.URL + "/token"
			c := signedIn()
			c.Refresh = "refresh-0+/"
			m := NewManager(newMemory(map[string]Credential{work: c}), time.Now, func() http.RoundTripper { return &http.Transport{DisableKeepAlives: true} })
			m.Configure(map[string]Client{work: client})
			token, err := m.Source(work, nil).Token(t.Context())
			if tc.reason == "" {
				if err != nil || token.Access.Reveal() != "a" || strings.Contains(tc.body, "1800") != (time.Until(token.Expires) < 59*time.Minute) || time.Until(token.Expires) > time.Hour {
					t.Errorf("%v %v", token, err)
				}
				return
			}
			e := new(Error)
			if !errors.As(err, &e) || e.Reason != tc.reason || e.Final != (tc.reason != ReasonTemporary) || !strings.Contains(e.Message, tc.words) {
				t.Errorf("%v", err)
			}
			noSecrets(t, []string{fmt.Sprint(err), fmt.Sprintf("%+v %#v", e, *e)}, "refresh-0", "client-secret-1", "\x1b", "\u202e")
		})
	}
}

// No answer at all is told in words that hold neither addresses of proxies nor secrets.
func TestUnreached(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := closed.Addr().String()
	closed.Close()
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100")
		fmt.Fprint(w, `{"access_token":"access-1"`)
	}))
	defer broken.Close()
	tls := httptest.NewTLSServer(nil)
	defer tls.Close()
	tls.Config.ErrorLog = nil
	plain := &http.Transport{DisableKeepAlives: true}
	for _, tc := range []struct {
		name, address, words string
		transport            http.RoundTripper
	}{
		{"closed", "http://" + address, "no connection to " + address, plain},
		{"broken", broken.URL, "broke off", plain},
		{"certificate", tls.URL, "no TLS connection", plain},
		{"proxy", "http://idp.example", "no connection to idp.example", failing{errors.New("proxyconnect tcp: http://user:hunter2@proxy: refused")}},
		{"name", "http://idp.example", "name of the host idp.example is not known", failing{&net.DNSError{Err: "no such host", Name: "idp.example"}}},
		{"late", "http://idp.example", "in time", failing{context.DeadlineExceeded}},
		{"no address", "idp.example", "not valid", plain},
		{"a wrong address", "http://[", "not valid", plain},
	} {
		t.Run(tc.name, func(t *testing.T) {
			client := workClient
			client.TokenURL = tc.address
			m := NewManager(newMemory(map[string]Credential{work: signedIn()}), time.Now, func() http.RoundTripper { return tc.transport })
			m.Configure(map[string]Client{work: client})
			e := fails(t, m.Source(work, nil), ReasonTemporary)
			if e.Final || !strings.Contains(e.Message, tc.words) {
				t.Errorf("%v", e)
			}
			noSecrets(t, []string{e.Error()}, "hunter2", "refresh-0", "client-secret-1")
		})
	}
}

type failing struct{ err error }

func (f failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "-5": 0, "30": 30 * time.Second, "1.5": 1500 * time.Millisecond, "1e300": time.Hour, "NaN": 0, "soon": 0, "+Inf": time.Hour,
		now.Add(time.Minute).Format(http.TimeFormat): time.Minute, now.Add(-time.Minute).Format(http.TimeFormat): 0, now.AddDate(1, 0, 0).Format(http.TimeFormat): time.Hour,
	} {
		if got := retryAfter(text, now); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestDefaults(t *testing.T) {
	c := Client{Kind: KindGoogle, TokenURL: "https://idp.example/t"}.WithDefaults()
	if c.TokenURL != "https://idp.example/t" || c.AuthorizeURL != "https://accounts.google.com/o/oauth2/v2/auth" || len(c.Scopes) != 5 || c.DeviceCodeURL != "" {
		t.Errorf("%+v", c)
	}
	c = Client{Kind: KindCopilot, Scopes: []string{"s"}}.WithDefaults()
	if c.DeviceCodeURL != "https://github.com/login/device/code" || c.TokenURL != "https://github.com/login/oauth/access_token" || len(c.Scopes) != 1 {
		t.Errorf("%+v", c)
	}
	if c.ClientID != "" || !c.ClientSecret.IsZero() {
		t.Error("a client is built in")
	}
}

// FuzzAnswer: whatever a provider answers, there is a token or an error, the token fits a header, and no message repeats a secret.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{"", "{}", "null", `{"access_token":"a","expires_in":3600,"refresh_token":"r"}`, `{"expires_in":"1e999","access_token":"a"}`,
		`{"error":"invalid_grant","error_description":"refresh-0 \u001b"}`, `{"error":{"code":403,"status":"S","message":"client-secret-1"}}`,
		`{"error":[]}`, `{"access_token":1}`, `{"expires_in":-1,"access_token":"a"}`, "ACCESS_TOKEN_SCOPE_INSUFFICIENT", `{"device_code":"d","user_code":"u","verification_uri":"http://x/"}`} {
		for _, status := range []int{200, 400, 429, 503} {
			f.Add(status, []byte(s))
		}
	}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		r := readReply(status, body)
		r.secrets = append(r.secrets, "refresh-0", "client-secret-1")
		e := r.refusal()
		if (e == nil) != (status >= 200 && status < 300 && r.Problem.code == "" && usable(r.Access)) {
			t.Fatalf("%d %q: %v", status, body, e)
		}
		if e == nil {
			if d := r.life(); d == 0 || d > longestLife || strings.ContainsAny(r.Access, "\r\n \x00") {
				t.Fatalf("%q: lives %v", body, d)
			}
			return
		}
		if e.Reason == "" || e.Message == "" || len([]rune(e.Message)) > mostWords+100 || e.Final == (e.Reason == ReasonTemporary) {
			t.Fatalf("%d %q: %+v", status, body, e)
		}
		noSecrets(t, []string{e.Error()}, "refresh-0", "client-secret-1")
		if strings.ContainsAny(e.Error(), "\x1b\n\r\x00") {
			t.Fatalf("%q", e.Error())
		}
		r.verification()
		accountOf(r.IDToken)
	})
}

// FuzzAccountOf: no id token brings it down.
func FuzzAccountOf(f *testing.F) {
	for _, s := range []string{"", "a.b.c", "a.eyJlbWFpbCI6ImFkYUBleGFtcGxlLmNvbSJ9.c", "a.bnVsbA.c", "a.eyJlbWFpbCI6MX0.c", "...."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, token string) {
		if s := accountOf(token); s != printable(s) {
			t.Fatalf("%q", s)
		}
	})
}

func TestAccountOf(t *testing.T) {
	for token, want := range map[string]string{
		"": "", "a.eyJlbWFpbCI6ImFkYUBleGFtcGxlLmNvbSJ9.c": "ada@example.com", "a.eyJzdWIiOiIxMjMifQ==.c": "123", "a.b.c": "", "a.bnVsbA.c": "",
	} {
		if got := accountOf(token); got != want {
			t.Errorf("%q: %q", token, got)
		}
	}
}
