package oauth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// github is an identity provider with the device flow, as a transport. It answers polls by the list, then for ever by its last.
type github struct {
	code   string // the answer to the first call
	polls  []string
	status int // of polls
	at     []time.Duration
	began  time.Time
	forms  []url.Values
	before func(n int) error // of each poll
}

const deviceCode = `{"device_code":"device-secret-1","user_code":"ABCD-1234","verification_uri":"https://github.example/login/device","expires_in":900,"interval":5}`

func (g *github) RoundTrip(r *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(r.Body)
	form, _ := url.ParseQuery(string(body))
	g.forms = append(g.forms, form)
	if r.Header.Get("Accept") != "application/json" {
		return respond(http.StatusNotAcceptable, nil, "device_code=x"), nil
	}
	if r.URL.Path == "/code" {
		g.began = time.Now()
		status := http.StatusOK
		return respond(status, nil, g.code), nil
	}
	g.at = append(g.at, time.Since(g.began))
	if g.before != nil {
		if err := g.before(len(g.at)); err != nil {
			return nil, err
		}
	}
	answer := g.polls[min(len(g.at), len(g.polls))-1]
	status := g.status
	if status == 0 || strings.Contains(answer, "access_token") {
		status = http.StatusOK
	}
	return respond(status, nil, answer), nil
}

func problemBody(code string) string {
	return fmt.Sprintf(`{"error":%q,"error_description":"words"}`, code)
}

// device signs in; shown is what the person was told.
func (g *github) device(ctx context.Context) (c Credential, shown string, err error) {
	if g.code == "" {
		g.code = deviceCode
	}
	l := Login{Client: Client{Name: "copilot", Kind: KindCopilot, ClientID: "client-1", DeviceCodeURL: "https://github.example/code", TokenURL: "https://github.example/token",
		Scopes: []string{"read:user", "x"}}, Transport: g, Now: time.Now}
	c, err = l.Device(ctx, func(code, page string, expires time.Time) {
		shown = fmt.Sprintf("%s %s %v", code, page, time.Until(expires))
	})
	return c, shown, err
}

func TestDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pending, slow, token := problemBody("authorization_pending"), problemBody("slow_down"), `{"access_token":"ghu-secret","token_type":"bearer","scope":"read:user"}`
		for _, status := range []int{200, 400} { // GitHub's way, the RFC's
			g := &github{polls: []string{pending, pending, slow, pending, slow, `{"error":"slow_down","interval":40}`, token}, status: status}
			c, shown, err := g.device(t.Context())
			if err != nil || c.Access != "ghu-secret" || c.Kind != KindCopilot || c.Scope != "read:user" || !c.Expires.IsZero() || !c.Obtained.Equal(time.Now()) || c.Refresh != "" {
				t.Errorf("%#v %v", c, err)
			}
			if shown != "ABCD-1234 https://github.example/login/device 15m0s" {
				t.Errorf("shown: %s", shown)
			}
			if got := fmt.Sprint(g.at); got != "[5s 10s 15s 25s 35s 50s 1m30s]" {
				t.Errorf("polls at %s", got)
			}
			first, poll := g.forms[0], g.forms[1]
			if first.Get("client_id") != "client-1" || first.Get("scope") != "read:user x" || first.Has("client_secret") {
				t.Errorf("%v", first)
			}
			if poll.Get("client_id") != "client-1" || poll.Get("device_code") != "device-secret-1" || poll.Get("grant_type") != "urn:ietf:params:oauth:grant-type:device_code" {
				t.Errorf("%v", poll)
			}
		}
	})
}

// The ends of a device flow, in words for the person.
func TestDeviceEnds(t *testing.T) {
	for _, tc := range []struct {
		name   string
		g      github
		reason string
		words  string
		after  time.Duration
	}{
		{"denied", github{polls: []string{problemBody("authorization_pending"), problemBody("access_denied")}}, ReasonDenied, "declined", 10 * time.Second},
		{"expired, says the provider", github{polls: []string{problemBody("expired_token")}}, ReasonExpired, "in time", 5 * time.Second},
		{"expired", github{polls: []string{problemBody("authorization_pending")}}, ReasonExpired, "in time", 15 * time.Minute},
		{"expired soon", github{code: strings.Replace(deviceCode, "900", "7", 1), polls: []string{problemBody("authorization_pending")}}, ReasonExpired, "in time", 8 * time.Second},
		{"nothing said", github{code: `{"device_code":"d","user_code":"u","verification_uri":"https://x/"}`, polls: []string{problemBody("authorization_pending")}}, ReasonExpired, "", 15 * time.Minute},
		{"unknown client", github{code: problemBody("invalid_client")}, ReasonCredentials, "check client_id", 0},
		{"device flow disabled", github{code: problemBody("device_flow_disabled")}, ReasonTemporary, "where the client was registered", 0},
		{"not found", github{code: `{"error":"Not Found"}`}, ReasonTemporary, "Not Found", 0},
		{"no code", github{code: `{}`}, ReasonTemporary, "no", 0},
		{"no web page", github{code: strings.Replace(deviceCode, "https://github.example", "javascript://x", 1)}, ReasonTemporary, "no", 0},
		{"wrong code", github{polls: []string{problemBody("incorrect_device_code")}}, ReasonTemporary, "incorrect_device_code", 5 * time.Second},
		{"an echo", github{polls: []string{`{"error":"x","error_description":"device-secret-1"}`}}, ReasonTemporary, "x: ***", 5 * time.Second},
		{"a token that cannot be used", github{polls: []string{`{"access_token":"a b"}`}}, ReasonTemporary, "no usable token", 5 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				_, _, err := tc.g.device(t.Context())
				e := new(Error)
				if !errors.As(err, &e) || e.Reason != tc.reason || !strings.Contains(e.Message, tc.words) {
					t.Errorf("%v", err)
				}
				if d := time.Since(began); d != tc.after {
					t.Errorf("after %v", d)
				}
				noSecrets(t, []string{err.Error()}, "device-secret-1")
			})
		})
	}
}

// A network that fails meanwhile ends nothing; the caller's end does.
func TestDeviceInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &github{polls: []string{`{"access_token":"ghu-secret"}`}, before: func(n int) error {
			if n < 3 {
				return errors.New("unreachable")
			}
			return nil
		}}
		if c, _, err := g.device(t.Context()); err != nil || c.Access != "ghu-secret" {
			t.Errorf("%v", err)
		}
		if got := fmt.Sprint(g.at); got != "[5s 15s 35s]" {
			t.Errorf("polls at %s", got)
		}
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		g = &github{polls: []string{problemBody("authorization_pending")}}
		time.AfterFunc(12*time.Second, func() { cancel(gone) })
		began := time.Now()
		if _, _, err := g.device(ctx); !errors.Is(err, gone) || time.Since(began) != 12*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if _, _, err := g.device(ctx); !errors.Is(err, gone) {
			t.Errorf("%v", err)
		}
	})
}

func TestDeviceNotConfigured(t *testing.T) {
	l := Login{Client: workClient, Now: time.Now}
	if _, err := l.Device(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "device_code_url") {
		t.Errorf("%v", err)
	}
}
