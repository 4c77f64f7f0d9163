package daemon

import (
	"net/http"
	"strings"
	"time"

	"coding-proxy/auth"
	"coding-proxy/web"
)

// sessionCookie has no __Host- before its name: such cookies need TLS.
const sessionCookie = "coding-proxy-session"

// signRoute is one of signing in and out.
type signRoute struct {
	method, path string
	serve        func(*server, http.ResponseWriter, *http.Request, *liveState)
}

func signRoutes() []signRoute {
	return []signRoute{
		{http.MethodGet, web.SignInPath, (*server).signInForm},
		{http.MethodPost, web.SignInPath, (*server).signIn},
		{http.MethodPost, web.SignOutPath, (*server).signOut},
	}
}

// sign serves signing in and out. There is neither without an admin key.
func (s *server) sign(w http.ResponseWriter, r *http.Request, live *liveState) {
	method, allow := r.Method, ""
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for _, route := range signRoutes() {
		if route.path != r.URL.Path {
			continue
		}
		if allow = strings.TrimPrefix(allow+", "+route.method, ", "); route.method != method {
			continue
		}
		switch {
		case !live.callers.HasAdmin():
			web.WriteError(w, &web.Error{Status: http.StatusNotFound, Type: "not_found_error", Message: "there is no signing in: no admin key is configured (auth.admin_key)"})
		case s.crossOrigin.Check(r) != nil || fetchedElsewhere(r):
			forbidden(foreignOrigin).write(w)
		default:
			route.serve(s, w, r, live)
		}
		return
	}
	w.Header().Set("Allow", allow)
	web.WriteError(w, &web.Error{Status: http.StatusMethodNotAllowed, Type: "invalid_request_error", Message: "this path takes " + allow})
}

// signs reports whether a path is one of signing in and out.
func signs(path string) bool { return path == web.SignInPath || path == web.SignOutPath }

func (s *server) signInForm(w http.ResponseWriter, r *http.Request, live *liveState) {
	if err := web.CheckSignIn(r); err != nil {
		web.WriteError(w, err)
		return
	}
	live.web.SignIn(w, r, http.StatusOK, web.NoProblem)
}

// signIn opens a session for a browser that shows the admin key.
func (s *server) signIn(w http.ResponseWriter, r *http.Request, live *liveState) {
	err := web.CheckSignIn(r)
	var key auth.Secret
	if err == nil {
		key, err = web.ReadSignIn(w, r)
	}
	if err != nil {
		web.WriteError(w, err)
		return
	}
	if no := s.tryAdminKey(r, live, key.Reveal()); no != nil {
		no.writeForm(w, r, live)
		return
	}
	s.endSessions(r, live)
	id := live.sessions.Begin(s.now())
	setSession(w, r, live, id, auth.SessionLife)
	seeOther(w, web.Next(r))
}

// signOut ends the session of a browser.
func (s *server) signOut(w http.ResponseWriter, r *http.Request, live *liveState) {
	s.endSessions(r, live)
	setSession(w, r, live, auth.Secret{}, 0)
	seeOther(w, web.Next(r))
}

func seeOther(w http.ResponseWriter, path string) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Location", path)
	w.WriteHeader(http.StatusSeeOther)
}

// setSession gives a browser its session id; life 0 takes it away.
func setSession(w http.ResponseWriter, r *http.Request, live *liveState, id auth.Secret, life time.Duration) {
	age := int(life.Seconds())
	if age == 0 {
		age = -1 // Max-Age=0
	}
	http.SetCookie(w, &http.Cookie{
		Name: sessionCookie, Value: id.Reveal(), Path: "/", MaxAge: age,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: cameByTLS(r, live.trusted),
	})
}

// hasSession reports whether a request comes from a browser that has signed in. All cookies of the name count: others on this
// host may set one, too, since cookies know no ports.
func (s *server) hasSession(r *http.Request, live *liveState) bool {
	for _, c := range r.CookiesNamed(sessionCookie) {
		if live.callers.HasAdmin() && live.sessions.Has(c.Value, s.now()) {
			return true
		}
	}
	return false
}

func (s *server) endSessions(r *http.Request, live *liveState) {
	for _, c := range r.CookiesNamed(sessionCookie) {
		live.sessions.End(c.Value)
	}
}

// ownOrigin reports whether a request comes from our own pages, by its Origin header: a session's cookie goes along from other
// ports of the host, too. Looking needs none, as browsers send none then.
func ownOrigin(r *http.Request, live *liveState, looking bool) bool {
	origins := r.Header["Origin"]
	if len(origins) == 0 {
		site := r.Header.Get("Sec-Fetch-Site")
		return looking && (site == "" || site == "same-origin" || site == "none" || r.Header.Get("Sec-Fetch-Mode") == "navigate")
	}
	own := origins[0] == "https://"+r.Host || origins[0] == "http://"+r.Host && !cameByTLS(r, live.trusted)
	return len(origins) == 1 && own
}

// cameByTLS reports whether a browser's request was encrypted on its way, as far as that can be told.
func cameByTLS(r *http.Request, trusted auth.Addresses) bool {
	if r.TLS != nil {
		return true
	}
	scheme, _, _ := strings.Cut(r.Header.Get("X-Forwarded-Proto"), ",") // the first is what the browser used
	return trusted.Has(auth.RemoteAddress(r)) && strings.EqualFold(strings.TrimSpace(scheme), "https")
}
