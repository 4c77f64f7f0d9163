package daemon

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/netip"
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
	strangers   strangers
	limiter     *auth.Limiter
	token       string // of this start, for admin calls; "" = none
	show        func(*config.Config) *web.Web
	log         *slog.Logger
	now         func() time.Time
	live        atomic.Pointer[liveState]
	draining    atomic.Bool
}

// liveState is what a reload changes. A request keeps what it began with.
type liveState struct {
	web      *web.Web
	callers  *auth.Callers
	sessions *auth.Sessions // of this admin key
	protect  bool           // the pages ask for the admin key on this machine, too
	hosts    []string       // server.allowed_hosts
	origins  []string       // server.cors_origins
	trusted  auth.Addresses // server.trusted_proxies
}

func (s *server) configure(cfg *config.Config, callers *auth.Callers) {
	sessions := new(auth.Sessions)
	if before := s.live.Load(); before != nil && before.callers.SameAdmin(callers) {
		sessions = before.sessions
	}
	s.live.Store(&liveState{
		web: s.show(cfg), callers: callers, sessions: sessions, protect: cfg.Auth.ProtectPages,
		hosts: cfg.Server.AllowedHosts, origins: cfg.Server.CORSOrigins, trusted: cfg.Server.TrustedProxies,
	})
}

// ServeHTTP is the order of things: trace id, recover, pages and admin calls, address, CORS, drain and Upgrade, route, host and
// origin, request key, its limits.
func (s *server) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	trace := newTrace()
	w := &tracked{ResponseWriter: rw}
	defer s.recovered(w, r, trace)
	boundBody(w, r)
	live := s.live.Load()
	if s.watcher(w, r, live) {
		return
	}
	e := proxy.Entry{Trace: trace, Started: s.now()}
	from := auth.ClientAddress(r, live.trusted)
	if !live.callers.MayCome(from) {
		s.tellOf(r, live, trace, strangeAddress)
		s.proxy.Refuse(w, r, e, proxy.ErrForbidden(strangeAddress))
		return
	}
	if s.cors(w, r, live) {
		return
	}
	leave, err := s.admit(r, live, from, &e)
	if err != nil {
		s.tellOfUnknown(r, live, &e, err)
		s.proxy.Refuse(w, r, e, err)
		return
	}
	defer leave()
	e.Leave = leave
	s.proxy.Serve(w, r, e)
}

// bodyPatience is how long the body of a request may take to arrive where nobody reads it: net/http reads on before it answers, and
// would wait for ever. Who reads one sets a deadline of its own; the next request of the connection begins without any.
const bodyPatience = 10 * time.Second

func boundBody(w http.ResponseWriter, r *http.Request) {
	if r.Body != http.NoBody {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyPatience)) // where it cannot be set the body has come
	}
}

// strangeAddress refuses by auth.allow_addresses and auth.deny_addresses.
const strangeAddress = "requests from this address are not served"

// watcher serves a page, its JSON or an admin call; it reports whether the request was one.
func (s *server) watcher(w http.ResponseWriter, r *http.Request, live *liveState) bool {
	call, id, allow := web.FindAdmin(s.adminRoutes, r.Method, r.URL.Path)
	route := web.Find(s.webRoutes, r.URL.Path)
	switch {
	case (call != nil || route != nil && !route.Public || signs(r.URL.Path)) && !s.mayLook(r, live):
		s.tellOf(r, live, "", strangeAddress)
		web.WriteError(w, &web.Error{Status: http.StatusForbidden, Type: "permission_error", Message: strangeAddress})
	case call != nil:
		if no := s.administer(r, live); no != nil {
			no.write(w)
			return true
		}
		s.admin.Serve(w, r, call, id)
	case signs(r.URL.Path):
		s.sign(w, r, live)
	case route != nil && route.Health && s.draining.Load():
		web.WriteError(w, &web.Error{Status: http.StatusServiceUnavailable, Type: "overloaded_error", Message: "stopping"})
	case route != nil:
		s.look(w, r, live, route)
	case allow != "":
		w.Header().Set("Allow", allow)
		web.WriteError(w, &web.Error{Status: http.StatusMethodNotAllowed, Type: "invalid_request_error", Message: "this path takes " + allow})
	default:
		return false
	}
	return true
}

// mayLook reports whether a watcher or an administrator may ask from the address; commands of this machine may from any.
func (s *server) mayLook(r *http.Request, live *liveState) bool {
	return live.callers.MayCome(auth.ClientAddress(r, live.trusted)) || s.hasToken(r) && sameMachine(r)
}

// look serves a page or its JSON.
func (s *server) look(w http.ResponseWriter, r *http.Request, live *liveState, route *web.Route) {
	if route.Public || route.Style && live.callers.HasAdmin() {
		live.web.Serve(w, r, route)
		return
	}
	r, no := s.watch(r, live)
	switch {
	case no == nil:
		live.web.Serve(w, r, route)
	case route.Page() && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		no.writeForm(w, r, live)
	default:
		no.write(w)
	}
}

// admit finds the route and the caller of a client's request, or says why it is not served. leave is to be called when it is
// over.
func (s *server) admit(r *http.Request, live *liveState, from netip.Addr, e *proxy.Entry) (leave func(), err error) {
	if s.draining.Load() {
		return nil, proxy.ErrStopping()
	}
	if r.Header.Get("Upgrade") != "" {
		return nil, proxy.ErrUpgrade()
	}
	e.Route, e.Path, e.ID, err = proxy.Match(s.proxyRoutes, r.Method, r.URL.EscapedPath())
	if err != nil {
		return nil, err
	}
	if e.Route.Guard == proxy.GuardNone {
		return func() {}, nil
	}
	if live.callers.Open() {
		refusal := notLocal(r, live)
		if origins := r.Header["Origin"]; refusal == foreignOrigin && len(origins) == 1 && live.mayRead(origins[0]) {
			refusal = ""
		}
		if refusal != "" {
			return nil, proxy.ErrForbidden("no request key is configured, so only this machine is served: " + refusal)
		}
	}
	if e.Caller, err = live.callers.Identify(r.Header, r.URL.RawQuery, e.Started); err != nil {
		return nil, err
	}
	if !e.Caller.MayAsk(from) {
		return nil, proxy.ErrForbidden("this request key may not be used from this address")
	}
	return s.limiter.Admit(&e.Caller, e.Route.Costs(), !e.Route.Listens(r.Method), e.Started)
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
