package oauth

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// browser is a person at the provider's page: back is what the provider sends the browser back with, of what it was asked.
type browser struct {
	t     *testing.T
	asked url.Values
	page  atomic.Pointer[string] // what the person sees at last
}

func (b *browser) get(address string, change ...func(*http.Request)) (int, string, http.Header) {
	req, err := http.NewRequest(http.MethodGet, address, nil)
	if err != nil {
		b.t.Error(err)
		return 0, "", nil
	}
	for _, c := range change {
		c(req)
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		b.t.Error(err)
		return 0, "", nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Error(err)
	}
	return resp.StatusCode, string(body), resp.Header
}

// loops signs in; at is what the browser does with the page that is opened.
func loops(t *testing.T, idp http.HandlerFunc, kind string, at func(b *browser, redirect string)) (Credential, *browser, error) {
	t.Helper()
	server := httptest.NewServer(idp)
	defer server.Close()
	client := workClient
	client.Name, client.Kind = work, kind
	client.AuthorizeURL, client.TokenURL = server.URL+"/auth?tenant=1", server.URL+"/token"
	client.Scopes = []string{"a", "b"}
	l := Login{Client: client, Transport: &http.Transport{DisableKeepAlives: true}, Now: time.Now}
	b := &browser{t: t}
	done := make(chan struct{})
	c, err := l.Loopback(t.Context(), func(page string) {
		u, err := url.Parse(page)
		if err != nil || u.Path != "/auth" || u.Query().Get("tenant") != "1" {
			t.Errorf("page %q", page)
		}
		b.asked = u.Query()
		go func() {
			defer close(done)
			at(b, b.asked.Get("redirect_uri"))
		}()
	})
	<-done
	if redirect, parseErr := url.Parse(b.asked.Get("redirect_uri")); parseErr != nil {
		t.Error(parseErr)
	} else if conn, dialErr := net.Dial("tcp", redirect.Host); dialErr == nil {
		conn.Close()
		t.Error("the listener is still there")
	}
	return c, b, err
}

// back sends the browser back with these, state and all.
func (b *browser) back(redirect string, pairs ...string) (int, string, http.Header) {
	q := url.Values{"state": {b.asked.Get("state")}}
	for i := 0; i < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	status, body, h := b.get(redirect + "?" + q.Encode())
	b.page.Store(&body)
	return status, body, h
}

func TestLoopback(t *testing.T) {
	var form url.Values
	idp := func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		form = r.PostForm
		fmt.Fprint(w, `{"access_token":"access-1","refresh_token":"refresh-1","expires_in":3600,"scope":"a b","id_token":"a.eyJlbWFpbCI6ImFkYUBleGFtcGxlLmNvbSJ9.c"}`)
	}
	c, b, err := loops(t, idp, KindGoogle, func(b *browser, redirect string) {
		origin := strings.TrimSuffix(redirect, callbackPath)
		for path, want := range map[string]int{"/": 404, "/favicon.ico": 404, callbackPath: 400, callbackPath + "/x?code=c&state=s": 404} {
			if status, _, _ := b.get(origin + path); status != want {
				t.Errorf("%s: status %d", path, status)
			}
		}
		if status, _, _ := b.get(redirect+"?code=c&state=s", func(r *http.Request) { r.Host = "evil.example" }); status != 403 {
			t.Errorf("another host: status %d", status)
		}
		if status, _, _ := b.get(redirect+"?code=c&state=s", func(r *http.Request) { r.Method = http.MethodPost }); status != 405 {
			t.Errorf("POST: status %d", status)
		}
		status, body, h := b.back(redirect, "code", "code-1")
		if status != 200 || !strings.Contains(body, "The provider has agreed") || strings.Contains(body, "code-1") {
			t.Errorf("%d %s", status, body)
		}
		if csp := h.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") || h.Get("Referrer-Policy") != "no-referrer" || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%v", h)
		}
		if strings.Contains(body, "<script") || strings.Contains(body, "src=") || strings.Contains(body, "style") {
			t.Errorf("the page loads something: %s", body)
		}
	})
	if err != nil || c.Access != "access-1" || c.Refresh != "refresh-1" || c.Account != "ada@example.com" || c.Scope != "a b" || c.Kind != KindGoogle || time.Until(c.Expires) > time.Hour {
		t.Errorf("%#v %v", c, err)
	}
	asked := b.asked
	for name, want := range map[string]string{"response_type": "code", "client_id": "client-1", "scope": "a b", "access_type": "offline", "prompt": "consent", "code_challenge_method": "S256"} {
		if asked.Get(name) != want {
			t.Errorf("%s is %q", name, asked.Get(name))
		}
	}
	if asked.Has("client_secret") || len(asked.Get("state")) < 43 || !strings.HasPrefix(asked.Get("redirect_uri"), "http://127.0.0.1:") {
		t.Errorf("%v", asked)
	}
	sum := sha256.Sum256([]byte(form.Get("code_verifier")))
	if base64.RawURLEncoding.EncodeToString(sum[:]) != asked.Get("code_challenge") || len(form.Get("code_verifier")) < 43 {
		t.Error("the verifier is not the challenge's")
	}
	for name, want := range map[string]string{"grant_type": "authorization_code", "code": "code-1", "client_id": "client-1", "client_secret": "client-secret-1", "redirect_uri": asked.Get("redirect_uri")} {
		if form.Get(name) != want {
			t.Errorf("%s is %q", name, form.Get(name))
		}
	}
}

// The ends of a loopback flow: the page and the error say the same, in words for the person, and nothing secret.
func TestLoopbackEnds(t *testing.T) {
	wrong := func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		w.WriteHeader(400)
		fmt.Fprintf(w, `{"error":"invalid_grant","error_description":"Malformed auth code %s %s %s"}`, r.PostForm.Get("code"), r.PostForm.Get("code_verifier"), r.PostForm.Get("client_secret"))
	}
	once := func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"access_token":"access-1","expires_in":3600}`)
	}
	never := func(w http.ResponseWriter, r *http.Request) { t.Error("the code was exchanged") }
	for _, tc := range []struct {
		name   string
		idp    http.HandlerFunc
		back   []string
		reason string
		words  string
	}{
		{"mismatch", never, []string{"code", "code-1", "state", "another"}, ReasonState, "another sign-in"},
		{"no state", never, []string{"code", "code-1", "state", ""}, ReasonState, "another sign-in"},
		{"mismatch of a refusal", never, []string{"error", "access_denied", "state", "another"}, ReasonState, "another sign-in"},
		{"denied", never, []string{"error", "access_denied"}, ReasonDenied, "declined"},
		{"provider's fault", never, []string{"error", "server_error", "error_description", "<b>try later</b>"}, ReasonTemporary, "server_error: <b>try later</b>"},
		{"no code", never, []string{}, ReasonTemporary, "no code"},
		{"wrong code", wrong, []string{"code", "code-1"}, ReasonGrant, "Malformed auth code *** *** ***"},
		{"no refresh token", once, []string{"code", "code-1"}, ReasonTemporary, "no refresh token"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, b, err := loops(t, tc.idp, KindGoogle, func(b *browser, redirect string) {
				if status, _, _ := b.back(redirect, tc.back...); status != 400 {
					t.Errorf("status %d", status)
				}
			})
			e := new(Error)
			if !errors.As(err, &e) || e.Reason != tc.reason || !strings.Contains(e.Message, tc.words) {
				t.Errorf("%v", err)
			}
			page := *b.page.Load()
			if !strings.Contains(page, "Not signed in: ") || strings.Contains(page, "<b>") {
				t.Errorf("%s", page)
			}
			noSecrets(t, []string{fmt.Sprint(err), page}, "code-1", "client-secret-1", b.asked.Get("state"), "access-1")
		})
	}
}

// What a page has its pictures ask for is no answer: whoever has the port could end the sign-in else.
func TestLoopbackIsNoPicture(t *testing.T) {
	_, _, err := loops(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"access_token":"access-1","refresh_token":"refresh-1","expires_in":3600}`)
	}, KindGoogle, func(b *browser, redirect string) {
		req, _ := http.NewRequest(http.MethodGet, redirect+"?state=guess&code=x", nil)
		req.Header.Set("Sec-Fetch-Dest", "image")
		resp, err := http.DefaultClient.Do(req)
		if err != nil || resp.StatusCode != http.StatusForbidden {
			t.Errorf("%v, %v", resp, err)
		}
		b.back(redirect, "code", "code-1")
	})
	if err != nil {
		t.Error(err)
	}
}

// The first answer counts; who comes later, also while it is being exchanged, is told so. Who closes the page breaks nothing off.
func TestLoopbackOnce(t *testing.T) {
	asked, release := make(chan struct{}), make(chan struct{})
	idp := func(w http.ResponseWriter, r *http.Request) {
		close(asked) // twice would panic
		<-release
		fmt.Fprint(w, `{"access_token":"access-1","refresh_token":"r"}`)
	}
	c, _, err := loops(t, idp, KindGoogle, func(b *browser, redirect string) {
		u, _ := url.Parse(redirect)
		conn, err := net.Dial("tcp", u.Host)
		if err != nil {
			t.Error(err)
			return
		}
		fmt.Fprintf(conn, "GET %s?code=c&state=%s HTTP/1.1\r\nHost: %s\r\n\r\n", u.Path, b.asked.Get("state"), u.Host)
		<-asked
		conn.Close()
		for _, pairs := range [][]string{{"code", "other"}, {"error", "access_denied", "state", "x"}} {
			if status, body, _ := b.back(redirect, pairs...); status != http.StatusConflict || !strings.Contains(body, "answered already") {
				t.Errorf("%d %s", status, body)
			}
		}
		close(release)
	})
	if err != nil || c.Access != "access-1" {
		t.Errorf("%v", err)
	}
}

// The caller's end closes the listener; a port that is taken is said.
func TestLoopbackInterrupted(t *testing.T) {
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	client := workClient.WithDefaults()
	l := Login{Client: client, Transport: http.NewFileTransport(nil), Now: time.Now}
	var redirect string
	_, err := l.Loopback(ctx, func(page string) {
		u, _ := url.Parse(page)
		redirect = u.Query().Get("redirect_uri")
		cancel(gone)
	})
	if !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
	u, err := url.Parse(redirect)
	if err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", u.Host) // it is free again
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	l.Port = taken.Addr().(*net.TCPAddr).Port
	if _, err := l.Loopback(t.Context(), nil); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("port %d", l.Port)) {
		t.Errorf("%v", err)
	}
	taken.Close()
	ctx, stop := context.WithCancel(t.Context())
	_, _ = l.Loopback(ctx, func(page string) {
		u, _ := url.Parse(page)
		if want := fmt.Sprintf("http://localhost:%d%s", l.Port, callbackPath); u.Query().Get("redirect_uri") != want {
			t.Errorf("%s, want %s", u.Query().Get("redirect_uri"), want)
		}
		stop()
	})
	for _, broken := range []Client{{}, {AuthorizeURL: "https://x"}, {AuthorizeURL: "http://[", TokenURL: "https://x"}} {
		l := Login{Client: broken, Now: time.Now}
		if _, err := l.Loopback(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "authorize_url") {
			t.Errorf("%v", err)
		}
	}
}

// Nobody who comes back is waited for no longer than a person may need.
func TestLoopbackExpires(t *testing.T) {
	l := Login{Client: workClient.WithDefaults(), Now: time.Now, patience: time.Nanosecond}
	e := new(Error)
	if _, err := l.Loopback(t.Context(), func(string) {}); !errors.As(err, &e) || e.Reason != ReasonExpired || !strings.Contains(e.Message, "in time") {
		t.Errorf("%v", err)
	}
}
