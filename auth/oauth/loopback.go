package oauth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	callbackPath     = "/oauth-callback"
	loopbackPatience = 10 * time.Minute // for a person to agree
	pagePatience     = 2 * time.Second  // for the browser to take the answer page
	secretBytes      = 32
)

// loopback is an authorization code flow under way: RFC 8252 with the PKCE of RFC 7636.
type loopback struct {
	Login
	redirect, state, verifier string
	port                      string
	taken                     atomic.Bool // the answer has come
	result                    chan outcome
}

type outcome struct {
	credential Credential
	err        error
}

// Loopback signs in at the provider's page in a browser, which sends the person back to a listener on this machine. open shows
// the page. Errors: *Error, and ctx's own.
func (l Login) Loopback(ctx context.Context, open func(page string)) (Credential, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, orDefault(l.patience, loopbackPatience), expired())
	defer cancel()
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(l.Port)))
	if err != nil {
		return Credential{}, &Error{Reason: ReasonTemporary, Message: fmt.Sprintf("the browser's answer cannot be received on port %d: %v", l.Port, err)}
	}
	defer listener.Close()
	f := l.begin(listener)
	page, e := f.page()
	if e != nil {
		return Credential{}, e
	}
	server := &http.Server{Handler: f.handler(ctx), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	go server.Serve(listener)
	if l.Port != 0 { // browsers may take localhost for ::1, where somebody else could listen
		other, err := net.Listen("tcp", net.JoinHostPort("::1", strconv.Itoa(l.Port)))
		if errors.Is(err, syscall.EADDRINUSE) {
			return Credential{}, &Error{Reason: ReasonTemporary, Message: fmt.Sprintf("the browser's answer cannot be received on port %d: %v", l.Port, err)}
		}
		if err == nil { // else there is no ::1
			defer other.Close()
			go server.Serve(other)
		}
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), pagePatience)
		defer cancel()
		_ = server.Shutdown(ctx) // the answer page may be on its way
		_ = server.Close()
	}()
	open(page)
	select {
	case out := <-f.result:
		return out.credential, out.err
	case <-ctx.Done():
	}
	select {
	case out := <-f.result: // it came at the same moment
		return out.credential, out.err
	default:
		return Credential{}, context.Cause(ctx)
	}
}

// Format keeps every verb of fmt from showing the tokens: it asks no unexported field.
func (o outcome) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, o.credential, " ", o.err) }

func (l Login) begin(listener net.Listener) *loopback {
	_, port, _ := net.SplitHostPort(listener.Addr().String()) // it is an address
	host := "127.0.0.1"                                       // RFC 8252: no resolver has a say in it
	if l.Port != 0 {
		host = "localhost" // as redirects with a fixed port are registered
	}
	return &loopback{Login: l, redirect: "http://" + net.JoinHostPort(host, port) + callbackPath, port: port,
		state: random(), verifier: random(), result: make(chan outcome, 1)}
}

// random returns what nobody can guess.
func random() string {
	b := make([]byte, secretBytes)
	_, _ = rand.Read(b) // it never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// page is the provider's, on which the person agrees.
func (f *loopback) page() (string, *Error) {
	u, err := url.Parse(f.Client.AuthorizeURL)
	if err != nil || u.Host == "" || f.Client.TokenURL == "" {
		return "", &Error{Reason: ReasonTemporary, Final: true, Message: "the client has no valid authorize_url and token_url in the configuration"}
	}
	challenge := sha256.Sum256([]byte(f.verifier))
	q := u.Query()
	q.Set("response_type", "code")
	q.Set("client_id", f.Client.ClientID)
	q.Set("redirect_uri", f.redirect)
	q.Set("state", f.state)
	q.Set("code_challenge", base64.RawURLEncoding.EncodeToString(challenge[:]))
	q.Set("code_challenge_method", "S256")
	if len(f.Client.Scopes) > 0 {
		q.Set("scope", strings.Join(f.Client.Scopes, " "))
	}
	if f.Client.Kind == KindGoogle { // it gives a refresh token only so
		q.Set("access_type", "offline")
		q.Set("prompt", "consent")
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// handler receives the browser's answer. ctx is the flow's: who closes the page does not break the exchange off.
func (f *loopback) handler(ctx context.Context) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		switch {
		case r.Host != "127.0.0.1:"+f.port && r.Host != "localhost:"+f.port && r.Host != "[::1]:"+f.port: // a page that had its own name resolve to here
			answerPage(w, http.StatusForbidden, "This address is not for you.")
		case r.Header.Get("Sec-Fetch-Dest") != "" && r.Header.Get("Sec-Fetch-Dest") != "document": // a picture in some page, say
			answerPage(w, http.StatusForbidden, "Only a browser that comes from the provider is expected here.")
		case r.URL.Path != callbackPath:
			answerPage(w, http.StatusNotFound, "There is nothing here.")
		case r.Method != http.MethodGet:
			answerPage(w, http.StatusMethodNotAllowed, "Only a browser that comes from the provider is expected here.")
		case !q.Has("state") && !q.Has("code") && !q.Has("error"):
			answerPage(w, http.StatusBadRequest, "The provider's answer is missing. Sign in on the provider's page.")
		case !f.taken.CompareAndSwap(false, true):
			answerPage(w, http.StatusConflict, "This sign-in has been answered already. You may close this page.")
		default:
			c, err := f.receive(ctx, q)
			if err != nil {
				answerPage(w, http.StatusBadRequest, "Not signed in: "+personal(err)+".")
			} else {
				answerPage(w, http.StatusOK, "The provider has agreed. You may close this page; the terminal says the rest.")
			}
			f.result <- outcome{c, err}
		}
	})
}

// personal is an error without its closed word.
func personal(err error) string {
	if e, ok := err.(*Error); ok {
		return e.Message
	}
	return "it was interrupted"
}

// receive makes a credential of what the browser brought along.
func (f *loopback) receive(ctx context.Context, q url.Values) (Credential, error) {
	if subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(f.state)) != 1 {
		return Credential{}, &Error{Reason: ReasonState, Final: true,
			Message: "the browser brought the answer of another sign-in (its state is not ours), so it was not used; sign in once more, in one window"}
	}
	if code := q.Get("error"); code != "" || q.Get("code") == "" {
		if code == "access_denied" {
			return Credential{}, denied()
		}
		r := &reply{answer: answer{Problem: problem{code: code}, Description: q.Get("error_description")}}
		return Credential{}, &Error{Reason: ReasonTemporary, Final: true, Message: "the provider's page says: " + orWords(r.words(), "nothing, and brought no code")}
	}
	r, e := f.ask(ctx, f.Client.TokenURL, url.Values{"grant_type": {"authorization_code"}, "code": {q.Get("code")},
		"redirect_uri": {f.redirect}, "code_verifier": {f.verifier}})
	if e != nil && ctx.Err() != nil {
		return Credential{}, context.Cause(ctx)
	}
	if e == nil {
		e = f.refused(r)
	}
	if e != nil {
		return Credential{}, e
	}
	if r.Refresh == "" && f.Client.Kind == KindGoogle {
		return Credential{}, &Error{Reason: ReasonTemporary, Final: true,
			Message: "the provider gave no refresh token, so this sign-in would end within the hour; remove this program's access in the account's settings, then sign in once more"}
	}
	return f.credential(r), nil
}

func orWords(words, otherwise string) string {
	if words == "" {
		return otherwise
	}
	return words
}

// answerPage is all that the browser sees: one page, no script, nothing that is loaded.
func answerPage(w http.ResponseWriter, status int, words string) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer") // the address holds a code
	h.Set("Cache-Control", "no-store")
	h.Set("Connection", "close")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">"+
		"<title>coding-proxy</title><h1>coding-proxy</h1><p>%s</p></html>\n", html.EscapeString(words)) // a browser that is gone needs no page
}
