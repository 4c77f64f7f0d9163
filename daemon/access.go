package daemon

import (
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"coding-proxy/web"
)

// watch says why a request may not see the pages, nil when it may: it is this machine's own, or shows the admin key.
// Commands show the token, since a proxy that listens on no loopback address is not asked by one.
func (s *server) watch(r *http.Request, live *liveState) *web.Error {
	if r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Header.Get("Sec-Fetch-Mode") != "navigate" { // a picture in some page, say
		return &web.Error{Status: http.StatusForbidden, Type: "permission_error", Message: "the origin is a foreign one"}
	}
	refusal := notLocal(r, live.hosts)
	if refusal == "" || s.hasToken(r) && sameMachine(r) {
		return nil
	}
	if live.callers.HasAdmin() {
		return s.adminKey(r, live)
	}
	return &web.Error{Status: http.StatusForbidden, Type: "permission_error", Message: refusal}
}

// administer says why a request may not make an admin call, nil when it may: it shows the admin key, or the token of this
// start from this machine. Pages of other origins may not, whatever they show.
func (s *server) administer(r *http.Request, live *liveState) *web.Error {
	if err := s.crossOrigin.Check(r); err != nil {
		return &web.Error{Status: http.StatusForbidden, Type: "permission_error", Message: "the origin is a foreign one"}
	}
	if s.hasToken(r) {
		if refusal := notLocal(r, live.hosts); refusal != "" && !sameMachine(r) {
			return &web.Error{Status: http.StatusForbidden, Type: "permission_error", Message: refusal}
		}
		return nil
	}
	return s.adminKey(r, live)
}

// adminKey checks the admin key. Wrong ones are limited by address.
func (s *server) adminKey(r *http.Request, live *liveState) *web.Error {
	now, host := s.now(), remoteHost(r)
	if !s.attempts.Allowed(host, now) {
		return &web.Error{Status: http.StatusTooManyRequests, Type: "rate_limit_error", Message: "too many wrong admin keys; try again in a minute"}
	}
	token := bearer(r)
	if live.callers.IsAdmin(token) {
		return nil
	}
	if token != "" {
		s.attempts.Failed(host, now)
	}
	return &web.Error{Status: http.StatusUnauthorized, Type: "authentication_error",
		Message: "this needs the admin key (auth.admin_key), or from this machine the token in proxy.pid, as Authorization: Bearer"}
}

// hasToken reports whether a request shows the token of this start.
func (s *server) hasToken(r *http.Request) bool {
	return s.token != "" && subtle.ConstantTimeCompare([]byte(bearer(r)), []byte(s.token)) == 1
}

func bearer(r *http.Request) string {
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	return ""
}

func remoteHost(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// sameMachine reports whether a request came from the address that it went to, straight: a proxy that listens on no
// loopback address is asked by its own commands like that.
func sameMachine(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok || cameThrough(r.Header) != "" || r.Header.Get("Origin") != "" {
		return false
	}
	to, _, err := net.SplitHostPort(local.String())
	return err == nil && to == remoteHost(r)
}

// notLocal says why a request does not count as this machine's own, "" when it does: a rebound page or a tunnel must
// neither spend the keys nor read the figures.
func notLocal(r *http.Request, allowed []string) string {
	addr, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !addr.Addr().Unmap().IsLoopback() {
		return "the address is not a loopback one"
	}
	if !localHost(r.Host, allowed) {
		return "the host is neither a loopback one nor in server.allowed_hosts"
	}
	if name := cameThrough(r.Header); name != "" {
		return "the request came through something (header " + name + ")"
	}
	for _, origin := range r.Header["Origin"] {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || !localHost(u.Host, allowed) {
			return "the origin is a foreign one"
		}
	}
	return ""
}

// cameThrough names a header that says that a request did not come straight from its client, "" for none.
func cameThrough(h http.Header) string {
	for name := range h {
		switch name {
		case "Forwarded", "X-Real-Ip", "Cf-Connecting-Ip", "True-Client-Ip", "Via":
			return strings.ToLower(name)
		}
		if strings.HasPrefix(name, "X-Forwarded-") {
			return strings.ToLower(name)
		}
	}
	return ""
}

// localHost reports whether a Host value, with or without a port, is a loopback one or allowed.
func localHost(host string, allowed []string) bool {
	name := host
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		name = host[:i]
	}
	name = strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(name, "["), "]"))
	if name == "localhost" {
		return true
	}
	if a, err := netip.ParseAddr(name); err == nil {
		return a.Unmap().IsLoopback() || slices.Contains(allowed, name)
	}
	return name != "" && slices.ContainsFunc(allowed, func(h string) bool { return strings.EqualFold(h, name) })
}
