package daemon

import (
	"cmp"
	"crypto/subtle"
	"math"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"coding-proxy/auth"
	"coding-proxy/web"
)

// denial says why a request gets no page and makes no admin call.
type denial struct {
	*web.Error
	wait time.Duration // until wrong keys are forgotten
	form web.Problem   // what the form of the admin key says
}

func forbidden(message string) *denial {
	return &denial{Error: &web.Error{Status: http.StatusForbidden, Type: "permission_error", Message: message}}
}

func (d *denial) write(w http.ResponseWriter) {
	d.retryAfter(w)
	web.WriteError(w, d.Error)
}

func (d *denial) retryAfter(w http.ResponseWriter) {
	if d.wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(d.wait.Seconds()))))
	}
}

// writeForm is write for people: they get the form where the admin key is the way in.
func (d *denial) writeForm(w http.ResponseWriter, r *http.Request, live *liveState) {
	if d.Status == http.StatusForbidden {
		d.write(w)
		return
	}
	d.retryAfter(w)
	live.web.SignIn(w, r, d.Status, d.form)
}

// watch says why a request may not see the pages, nil when it may: it is this machine's own, or an administrator's. Those come
// back marked as such.
func (s *server) watch(r *http.Request, live *liveState) (*http.Request, *denial) {
	if fetchedElsewhere(r) { // a picture in some page, say
		return r, forbidden(foreignOrigin)
	}
	refusal := notLocal(r, live)
	open := refusal == "" && !live.protect
	switch {
	case s.hasToken(r) && (refusal == "" || sameMachine(r)):
		return web.AsAdmin(r), nil
	case s.hasSession(r, live) && ownOrigin(r, live, true):
		return web.SignedIn(r), nil
	case live.callers.HasAdmin():
		no := s.adminKey(r, live)
		if no == nil {
			return web.AsAdmin(r), nil
		}
		if !open {
			return r, no
		}
	case !open:
		return r, forbidden(cmp.Or(refusal, "the pages are protected (auth.protect_pages), and no admin key is configured"))
	}
	return r, nil
}

// administer says why a request may not make an admin call, nil when it may: it shows the admin key, or the token of this
// start from this machine, or comes from our own pages in a browser that has signed in. Pages of other origins may not,
// whatever they show.
func (s *server) administer(r *http.Request, live *liveState) *denial {
	if s.crossOrigin.Check(r) != nil || fetchedElsewhere(r) {
		return forbidden(foreignOrigin)
	}
	if s.hasToken(r) {
		if refusal := notLocal(r, live); refusal != "" && !sameMachine(r) {
			return forbidden(refusal)
		}
		return nil
	}
	switch session := s.hasSession(r, live); {
	case session && ownOrigin(r, live, false):
		return nil
	case session && bearer(r) == "":
		return forbidden("a browser that has signed in makes admin calls from the proxy's own pages alone: its origin must match the host")
	}
	return s.adminKey(r, live)
}

// adminKey checks the admin key that a request shows.
func (s *server) adminKey(r *http.Request, live *liveState) *denial {
	token := bearer(r)
	if token == "" {
		return noAdminKey("")
	}
	return s.tryAdminKey(r, live, token)
}

// tryAdminKey checks an admin key, wherever it was shown. Wrong ones are limited by address.
func (s *server) tryAdminKey(r *http.Request, live *liveState, key string) *denial {
	right := live.callers.IsAdmin(key)
	wait := s.attempts.Try(guesser(r, live.trusted), right, s.now())
	if !right {
		s.tellOf(r, live, "", "a wrong admin key")
	}
	if wait > 0 {
		return &denial{wait: wait, form: web.TooMany, Error: &web.Error{
			Status: http.StatusTooManyRequests, Type: "rate_limit_error", Message: "too many wrong admin keys; try again in a minute",
		}}
	}
	if right {
		return nil
	}
	return noAdminKey(web.WrongKey)
}

func noAdminKey(problem web.Problem) *denial {
	return &denial{form: problem, Error: &web.Error{Status: http.StatusUnauthorized, Type: "authentication_error",
		Message: "this needs the admin key (auth.admin_key), or from this machine the token in proxy.pid, as Authorization: Bearer"}}
}

// subscriberBits are those of an IPv6 address that an access network's customer has no choice of (RFC 6177 speaks of /56 and /48, too).
const subscriberBits = 64

// guesser is whom a wrong admin key is counted for: the client's address; of IPv6 the network that one subscriber has.
func guesser(r *http.Request, trusted auth.Addresses) string {
	from := auth.ClientAddress(r, trusted)
	if !from.IsValid() {
		return remoteHost(r)
	}
	if from.Is6() {
		network, _ := from.WithZone("").Prefix(subscriberBits) // an address of IPv6 has more
		return network.String()
	}
	return from.String()
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

const foreignOrigin = "the origin is a foreign one"

// fetchedElsewhere reports whether a page of another site asks for something that it embeds or fetches.
func fetchedElsewhere(r *http.Request) bool {
	return r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Header.Get("Sec-Fetch-Mode") != "navigate"
}

// notLocal says why a request does not count as this machine's own, "" when it does: a rebound page or a tunnel must
// neither spend the keys nor read the figures. What a trusted proxy passes on is somebody else's, whatever it looks like. The
// origin comes last: foreignOrigin says that nothing else stands against the request (server.cors_origins).
func notLocal(r *http.Request, live *liveState) string {
	from := auth.RemoteAddress(r)
	if live.trusted.Has(from) {
		return "the request came through a trusted proxy"
	}
	if !from.IsLoopback() {
		return "the address is not a loopback one"
	}
	if !localHost(r.Host, live.hosts) {
		return "the host is neither a loopback one nor in server.allowed_hosts"
	}
	if name := cameThrough(r.Header); name != "" {
		return "the request came through something (header " + name + ")"
	}
	for _, origin := range r.Header["Origin"] {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || !localHost(u.Host, live.hosts) {
			return foreignOrigin
		}
	}
	if fetchedElsewhere(r) && r.Header.Get("Sec-Fetch-Mode") == "no-cors" { // without an origin
		return foreignOrigin
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
