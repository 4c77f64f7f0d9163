package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html/template"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"coding-proxy/auth"
)

const (
	// SignInPath is where the form of the admin key is and where it goes to, SignOutPath ends a browser's session. Who may is the
	// server's to say.
	SignInPath  = "/stats/sign-in"
	SignOutPath = "/stats/sign-out"

	maxForm = 8 << 10 // bytes of the form's body
)

// A Problem is what the form says of the last attempt.
type Problem string

const (
	NoProblem Problem = ""
	WrongKey  Problem = "wrong"
	TooMany   Problem = "toomany"
)

// signInView is what signin.html draws.
type signInView struct {
	Lang, Action string
	Problem      Problem
	Langs        []link
}

func newSignIn(tr *translator) *template.Template {
	return template.Must(template.New("signin.html").Funcs(functions(tr)).ParseFS(templates, "signin.html"))
}

// SignIn answers with the form of the admin key, which leads on to the page that was asked for.
func (x *Web) SignIn(w http.ResponseWriter, r *http.Request, status int, problem Problem) {
	l, chosen, err := language(r)
	if err != nil {
		l, chosen = langs()[0], false
	}
	q := url.Values{}
	if next := askedFor(r); next != "" {
		q.Set("next", next)
	}
	v := signInView{Lang: l.tag(), Problem: problem, Langs: langLinks(SignInPath, q, l)}
	if chosen {
		q.Set("lang", string(l))
		remember(w, l)
	}
	v.Action = href(SignInPath, q)
	var buf bytes.Buffer
	if err := x.pages.signIn[l].Execute(&buf, v); err != nil {
		WriteError(w, fmt.Errorf("sign-in form: %w", err))
		return
	}
	pageHeaders(w, l, true)
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(buf.Bytes()) // a browser that is gone needs no error
}

// askedFor is the page that a request is about: itself, or what the form carries along.
func askedFor(r *http.Request) string {
	if r.URL.Path == SignInPath {
		return ownPage(r.URL.Query().Get("next"))
	}
	return ownPage(r.URL.RequestURI())
}

// Next is where a browser goes that has signed in: the page that was asked for, never another place.
func Next(r *http.Request) string {
	if next := askedFor(r); next != "" {
		return next
	}
	page, _ := pagePath(pageStats)
	return page
}

// ownPage returns the text as the address of one of the pages, written anew, "" where it is none.
func ownPage(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "" || u.Host != "" {
		return ""
	}
	route := Find(Routes(), u.Path)
	if route == nil || !route.Page() {
		return ""
	}
	q := u.Query()
	q.Del("lang") // a choice stays, and may be made anew in the form
	return href(route.Path, q)
}

// CheckSignIn refuses parameters that the form's address does not have: a key in one would be kept by histories and logs.
func CheckSignIn(r *http.Request) error { return checkQuery(r, []string{"lang", "next"}) }

// ReadSignIn reads the key out of the form. The error is for WriteError.
func ReadSignIn(w http.ResponseWriter, r *http.Request) (auth.Secret, error) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/x-www-form-urlencoded" {
		return auth.Secret{}, &Error{http.StatusUnsupportedMediaType, "invalid_request_error", "the form must be sent as application/x-www-form-urlencoded"}
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			return auth.Secret{}, &Error{http.StatusRequestEntityTooLarge, "request_too_large", "the form is too large"}
		}
		return auth.Secret{}, &Error{http.StatusBadRequest, "invalid_request_error", "the form cannot be read"}
	}
	if len(r.PostForm) != 1 || len(r.PostForm["key"]) != 1 {
		return auth.Secret{}, &Error{http.StatusBadRequest, "invalid_request_error", "the form has one field, key"}
	}
	return auth.NewSecret(strings.TrimSpace(r.PostForm.Get("key"))), nil
}

// adminKey and signedInKey are the context's keys for what AsAdmin and SignedIn say.
type (
	adminKey    struct{}
	signedInKey struct{}
)

// AsAdmin returns r as the request of somebody who has shown that he is an administrator.
func AsAdmin(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), adminKey{}, true))
}

// SignedIn returns r as the request of an administrator's browser that has signed in: pages offer it to sign out.
func SignedIn(r *http.Request) *http.Request {
	return AsAdmin(r.WithContext(context.WithValue(r.Context(), signedInKey{}, true)))
}

func isAdmin(r *http.Request) bool { return r.Context().Value(adminKey{}) != nil }

func isSignedIn(r *http.Request) bool { return r.Context().Value(signedInKey{}) != nil }
