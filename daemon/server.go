package daemon

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"coding-proxy/auth"
	"coding-proxy/daemon/config"
	"coding-proxy/proxy"
	"coding-proxy/web"
)

// server routes requests to the client endpoints, to the watchers' ones and to the admin calls, through what they have
// in common.
type server struct {
	proxy       *proxy.Proxy
	proxyRoutes []proxy.Route
	webRoutes   []web.Route
	admin       *web.Admin
	adminRoutes []web.AdminRoute
	crossOrigin *http.CrossOriginProtection
	attempts    auth.Attempts
	token       string // of this start, for admin calls; "" = none
	show        func(*config.Config) *web.Web
	log         *slog.Logger
	now         func() time.Time
	live        atomic.Pointer[liveState]
	draining    atomic.Bool
}

// liveState is what a reload changes. A request keeps what it began with.
type liveState struct {
	web     *web.Web
	callers *auth.Callers
	hosts   []string // server.allowed_hosts
}

func (s *server) configure(cfg *config.Config, callers *auth.Callers) {
	s.live.Store(&liveState{s.show(cfg), callers, cfg.Server.AllowedHosts})
}

// ServeHTTP is the order of things: trace id, recover, routes, drain and Upgrade, host and origin, request key.
func (s *server) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	trace := newTrace()
	w := &tracked{ResponseWriter: rw}
	defer s.recovered(w, r, trace)
	live := s.live.Load()
	if s.watcher(w, r, live) {
		return
	}
	e := proxy.Entry{Trace: trace, Started: s.now()}
	if err := s.admit(r, live, &e); err != nil {
		s.proxy.Refuse(w, r, e, err)
		return
	}
	s.proxy.Serve(w, r, e)
}

// watcher serves a page, its JSON or an admin call; it reports whether the request was one.
func (s *server) watcher(w http.ResponseWriter, r *http.Request, live *liveState) bool {
	call, id, allow := web.FindAdmin(s.adminRoutes, r.Method, r.URL.Path)
	route := web.Find(s.webRoutes, r.URL.Path)
	switch {
	case call != nil:
		if refusal := s.administer(r, live); refusal != nil {
			web.WriteError(w, refusal)
			return true
		}
		s.admin.Serve(w, r, call, id)
	case route != nil && route.Health && s.draining.Load():
		web.WriteError(w, &web.Error{Status: http.StatusServiceUnavailable, Type: "overloaded_error", Message: "stopping"})
	case route != nil:
		if !route.Public {
			if refusal := s.watch(r, live); refusal != nil {
				web.WriteError(w, refusal)
				return true
			}
		}
		if bearer(r) != "" && s.administer(r, live) == nil {
			r = web.AsAdmin(r)
		}
		live.web.Serve(w, r, route)
	case allow != "":
		w.Header().Set("Allow", allow)
		web.WriteError(w, &web.Error{Status: http.StatusMethodNotAllowed, Type: "invalid_request_error", Message: "this path takes " + allow})
	default:
		return false
	}
	return true
}

// admit finds the route and the caller of a client's request, or says why it is not served.
func (s *server) admit(r *http.Request, live *liveState, e *proxy.Entry) (err error) {
	if s.draining.Load() {
		return proxy.ErrStopping()
	}
	if r.Header.Get("Upgrade") != "" {
		return proxy.ErrUpgrade()
	}
	e.Route, e.Path, e.ID, err = proxy.Match(s.proxyRoutes, r.Method, r.URL.EscapedPath())
	if err != nil || e.Route.Guard == proxy.GuardNone {
		return err
	}
	if live.callers.Open() {
		if refusal := notLocal(r, live.hosts); refusal != "" {
			return proxy.ErrForbidden("no request key is configured, so only this machine is served: " + refusal)
		}
	}
	e.Caller, err = live.callers.Identify(r.Header, r.URL.RawQuery, e.Started)
	return err
}

// newTrace returns an id for the journal, the log and the client: 16 hex digits.
func newTrace() string {
	const digits = "0123456789abcdef"
	n := rand.Uint64()
	var b [16]byte
	for i := range b {
		b[i] = digits[n&15]
		n >>= 4
	}
	return string(b[:])
}

// recovered answers for a handler that panicked. An abort goes on: swallowed, it would look like a clean end. After
// the header is written it aborts too.
func (s *server) recovered(w *tracked, r *http.Request, trace string) {
	p := recover()
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler {
		panic(p)
	}
	what := fmt.Sprintf("%T", p) // a value of another kind may hold anything
	if e, ok := p.(runtime.Error); ok {
		what = e.Error()
	}
	s.log.Error("panic", "trace", trace, "method", r.Method, "panic", what, "stack", string(debug.Stack()))
	if w.wrote {
		panic(http.ErrAbortHandler)
	}
	s.proxy.WriteError(w, r, trace, proxy.ErrInternal(trace))
}

// tracked knows whether the header is written.
type tracked struct {
	http.ResponseWriter
	wrote bool
}

func (t *tracked) WriteHeader(code int) {
	t.wrote = t.wrote || code >= 200
	t.ResponseWriter.WriteHeader(code)
}

func (t *tracked) Write(p []byte) (int, error) {
	t.wrote = true
	return t.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController find the server's own writer.
func (t *tracked) Unwrap() http.ResponseWriter { return t.ResponseWriter }
