package copilot

import (
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"coding-proxy/auth"
	"coding-proxy/auth/oauth"
	"coding-proxy/proxy/rawjson"
)

const (
	// assumedLife is how long a token lives whose exchange does not say it.
	assumedLife = 30 * time.Minute
	// maxLife bounds what an exchange says: no token is held longer without asking again.
	maxLife = 24 * time.Hour
	// renewEarly is how long before refresh_in a token is fetched anew.
	renewEarly = time.Minute
	// sourceEarly and a tenth of the life, the smaller one, are how early oauth.Source fetches anew.
	sourceEarly = 2 * time.Minute
)

// capabilities are members that tell what an account may do. An answer with them and without a token is of an account that
// is known and must not use this.
var capabilities = [...]string{"chat_enabled", "agent_mode_auto_approval", "chat_jetbrains_enabled", "annotations_enabled", "code_quote_enabled"}

// grant is what an exchange says.
type grant struct {
	token auth.Secret
	life  time.Duration // until its end
	renew time.Duration // after which it should be fetched anew; 0: not said
	base  *url.URL      // endpoints.api; nil: none that could be used
	sku   string
	flags map[string]bool // nil: none were named
}

// shown is the life that oauth.Source is told, so that it fetches anew after renew.
func (g *grant) shown() time.Duration {
	if g.renew <= 0 {
		return g.life
	}
	early := min(sourceEarly, g.renew/9) // a tenth of the whole
	return min(g.life, g.renew+early)
}

// readGrant reads an exchange's answer of either shape: token with refresh_in and expires_at, or access_token with
// expires_in. Of an answer without a token the grant holds what was said besides.
func readGrant(status int, body []byte, now time.Time) (grant, *oauth.Error) {
	var g grant
	var token, access string
	var refreshIn, expiresIn, expiresAt []byte
	err := rawjson.Walk(body, func(key []byte, f rawjson.Field) error {
		v := f.Value(body)
		switch k := string(key); {
		case k == "token":
			token, _ = rawjson.String(v)
		case k == "access_token":
			access, _ = rawjson.String(v)
		case k == "refresh_in":
			refreshIn = v
		case k == "expires_in":
			expiresIn = v
		case k == "expires_at":
			expiresAt = v
		case k == "endpoints":
			api, _ := rawjson.String(rawjson.Get(v, "api"))
			g.base = usableBase(api)
		case k == "sku":
			sku, _ := rawjson.String(v)
			g.sku = printable(sku, maxName)
		case slices.Contains(capabilities[:], k):
			if on, ok := rawjson.Bool(v); ok {
				if g.flags == nil {
					g.flags = map[string]bool{}
				}
				g.flags[k] = on
			}
		}
		return nil
	})
	if token == "" {
		token = access
	}
	if err != nil { // what is no object has no token, nor has half of one
		token = ""
	}
	if status < 200 || status > 299 || !sendable(token) {
		return g, refusedGrant(status, body, g.flags != nil && token == "")
	}
	g.token = auth.NewSecret(token)
	if !g.lives(refreshIn, expiresIn, expiresAt, now) {
		return g, &oauth.Error{Reason: oauth.ReasonTemporary, Message: "the token exchange brought a token that is over already: is this computer's clock right?"}
	}
	return g, nil
}

// sendable reports whether a token can stand in a header.
func sendable(token string) bool {
	return token != "" && strings.IndexFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) < 0
}

// lives works out how long the token lives. false: what the exchange says is over already.
func (g *grant) lives(refreshIn, expiresIn, expiresAt []byte, now time.Time) bool {
	refresh, hasRefresh := seconds(refreshIn)
	in, hasIn := seconds(expiresIn)
	var until time.Duration
	at, hasAt := number(expiresAt)
	if hasAt { // in seconds first: a date far away does not fit into a Duration
		until = duration(at - float64(now.Unix()))
	}
	switch {
	case in > 0:
		g.life = in
	case until > 0:
		g.life = until
	case refresh > 0: // it says the least, but it needs no clock
		g.life = refresh
	case hasRefresh, hasIn, hasAt:
		return false
	default:
		g.life = assumedLife
	}
	g.life = min(g.life, maxLife)
	if refresh > 0 {
		g.renew = max(refresh-renewEarly, refresh/2)
		if g.renew >= g.life {
			g.renew = 0
		}
	}
	return true
}

// number reads a JSON number, also one in a string.
func number(raw []byte) (float64, bool) {
	text := string(raw)
	if s, ok := rawjson.String(raw); ok {
		text = s
	}
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil && !math.IsNaN(n) && !math.IsInf(n, 0)
}

func seconds(raw []byte) (time.Duration, bool) {
	n, ok := number(raw)
	if !ok {
		return 0, false
	}
	return duration(n), true
}

// duration is a number of seconds, bounded to a year either way.
func duration(seconds float64) time.Duration {
	const year = 365 * 24 * 3600
	return time.Duration(min(max(seconds, -year), year) * float64(time.Second))
}

// usableBase is an address of the API: https, or plain http on this computer. nil: it is none.
func usableBase(text string) *url.URL {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())) {
		return nil
	}
	return u
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// bearer is the value of an Authorization header.
func bearer(t oauth.Token) string { return "Bearer " + t.Access.Reveal() }

// isRefusal reports whether a status says that a token is not taken.
func isRefusal(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden
}
