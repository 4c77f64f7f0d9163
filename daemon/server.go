package daemon

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"net/url"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"coding-proxy/auth"
	"coding-proxy/proxy"
	"coding-proxy/web"
)

// server routes requests to the client endpoints and to the watchers' ones, through what both have in common.
type server struct {
	proxy        *proxy.Proxy
	proxyRoutes  []proxy.Route
	web          *web.Web
	webRoutes    []web.Route
	callers      *auth.Callers
	allowedHosts []string
	log          *slog.Logger
	now          func() time.Time
	draining     atomic.Bool
}

// ServeHTTP is the order of things: trace id, recover, routes, drain and Upgrade, host and origin, request key.
func (s *server) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	trace := newTrace()
	w := &tracked{ResponseWriter: rw}
	defer s.recovered(w, r, trace)
	if route := web.Find(s.webRoutes, r.URL.Path); route != nil {
		if refusal := s.notLocal(r); refusal != "" && !route.Public {
			web.WriteError(w, &web.Error{Status: http.StatusForbidden, Type: "permission_error", Message: refusal})
			return
		}
		s.web.Serve(w, r, route)
		return
	}
	e := proxy.Entry{Trace: trace, Started: s.now()}
	if err := s.admit(r, &e); err != nil {
		s.proxy.Refuse(w, r, e, err)
		return
	}
	s.proxy.Serve(w, r, e)
}

// admit finds the route and the caller of a client's request, or says why it is not served.
func (s *server) admit(r *http.Request, e *proxy.Entry) (err error) {
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
	if s.callers.Open() {
		if refusal := s.notLocal(r); refusal != "" {
			return proxy.ErrForbidden("no request key is configured, so only this machine is served: " + refusal)
		}
	}
	e.Caller, err = s.callers.Identify(r.Header, r.URL.RawQuery, e.Started)
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
	proxy.WriteError(w, trace, proxy.ErrInternal(trace))
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

// notLocal says why a request does not count as this machine's own, "" when it does: a rebound page or a tunnel must
// neither spend the keys nor read the figures.
func (s *server) notLocal(r *http.Request) string {
	addr, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !addr.Addr().Unmap().IsLoopback() {
		return "the address is not a loopback one"
	}
	if !s.localHost(r.Host) {
		return "the host is neither a loopback one nor in server.allowed_hosts"
	}
	for name := range r.Header {
		switch name {
		case "Forwarded", "X-Real-Ip", "Cf-Connecting-Ip", "True-Client-Ip", "Via":
			return "the request came through something (header " + strings.ToLower(name) + ")"
		}
		if strings.HasPrefix(name, "X-Forwarded-") {
			return "the request came through something (header " + strings.ToLower(name) + ")"
		}
	}
	for _, origin := range r.Header["Origin"] {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || !s.localHost(u.Host) {
			return "the origin is a foreign one"
		}
	}
	return ""
}

// localHost reports whether a Host value, with or without a port, is a loopback one or allowed.
func (s *server) localHost(host string) bool {
	name := host
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		name = host[:i]
	}
	name = strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(name, "["), "]"))
	if name == "localhost" {
		return true
	}
	if a, err := netip.ParseAddr(name); err == nil {
		return a.Unmap().IsLoopback() || slices.Contains(s.allowedHosts, name)
	}
	return name != "" && slices.ContainsFunc(s.allowedHosts, func(h string) bool { return strings.EqualFold(h, name) })
}
