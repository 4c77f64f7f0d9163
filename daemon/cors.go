package daemon

import (
	"net/http"
	"slices"
	"strings"

	"coding-proxy/proxy"
)

// preflightAge is how long a browser may remember an answer to its preflight, in seconds.
const preflightAge = "600"

// cors lets pages of the configured origins ask client endpoints, and reports whether it has answered the request: a
// preflight. Callers show a key in a header of their own, so browsers are never told to send cookies along
// (Access-Control-Allow-Credentials). Pages, their JSON and admin calls never get here.
func (s *server) cors(w http.ResponseWriter, r *http.Request, live *liveState) bool {
	if len(live.origins) == 0 {
		return false
	}
	method, preflight := r.Method, false
	if asked := r.Header.Get("Access-Control-Request-Method"); r.Method == http.MethodOptions && asked != "" {
		method, preflight = asked, true
	}
	route, _, _, err := proxy.Match(s.proxyRoutes, method, r.URL.EscapedPath())
	if err != nil || route.Guard != proxy.GuardKey {
		return false
	}
	h := w.Header()
	h.Add("Vary", "Origin") // whoever asks: what a cache keeps for one must not go to another
	origin := r.Header.Get("Origin")
	if origin == "" || !live.mayRead(origin) {
		return false
	}
	h.Set("Access-Control-Allow-Origin", origin)
	if !preflight {
		h.Set("Access-Control-Expose-Headers", "*, Retry-After")
		return false
	}
	h.Set("Access-Control-Allow-Methods", strings.Join(route.Methods, ", "))
	if names := r.Header.Get("Access-Control-Request-Headers"); names != "" {
		h.Set("Access-Control-Allow-Headers", names)
		h.Add("Vary", "Access-Control-Request-Headers")
	}
	h.Set("Access-Control-Max-Age", preflightAge)
	w.WriteHeader(http.StatusNoContent)
	return true
}

// mayRead reports whether pages of the origin may read what client endpoints answer.
func (l *liveState) mayRead(origin string) bool {
	return slices.Contains(l.origins, origin) || slices.Contains(l.origins, "*") && !l.callers.Open()
}
