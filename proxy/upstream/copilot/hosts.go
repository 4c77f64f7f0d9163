package copilot

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

const (
	gitHubAPI   = "api.github.com"
	defaultHost = "api.githubcopilot.com"
	// enterpriseHost stands before a GitHub Enterprise domain whose exchange is at api.DOMAIN.
	enterpriseHost = "copilot-api."
)

// hosts knows at which address the account is served. A host that answers 421 (Misdirected Request) is tried once more on
// a fresh connection: a connection may have been opened for another name. Then the other one is tried, where there is one.
type hosts struct {
	explicit bool       // the configuration names the address
	defaults []*url.URL // where neither the configuration nor the exchange names one

	mu          sync.Mutex
	candidates  []*url.URL
	at          int          // the one in use
	fresh       bool         // it has answered 421
	refused     map[int]bool // candidates that did so on a fresh connection, too
	misdirectAt time.Time    // when the last 421 came
}

func newHosts(o *Options) *hosts {
	h := &hosts{explicit: o.BaseURL != nil, defaults: defaultHosts(o)}
	if h.explicit {
		h.defaults = []*url.URL{o.BaseURL}
	}
	h.candidates = h.defaults
	return h
}

// defaultHosts are the addresses of an account's kind.
func defaultHosts(o *Options) []*url.URL {
	https := func(host string) *url.URL { return &url.URL{Scheme: "https", Host: host} }
	if host := o.TokenURL.Host; host != gitHubAPI {
		if domain, ok := strings.CutPrefix(host, "api."); ok {
			return []*url.URL{https(enterpriseHost + domain)}
		}
	}
	kind := strings.ToLower(strings.TrimSpace(o.AccountType))
	if kind == "" || kind == "individual" {
		return []*url.URL{https(defaultHost), https("api.individual.githubcopilot.com")}
	}
	return []*url.URL{https("api." + kind + ".githubcopilot.com"), https(defaultHost)}
}

// use takes over the address that an exchange names (nil: none) and returns it, "" where it does not count.
func (h *hosts) use(given *url.URL) string {
	if h.explicit {
		return ""
	}
	next, text := h.defaults, ""
	if given != nil {
		next, text = []*url.URL{given}, given.String()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(next) != len(h.candidates) || *next[0] != *h.candidates[0] {
		h.candidates = next
		h.reset()
	}
	return text
}

// reset goes back to the first candidate. The lock is held.
func (h *hosts) reset() { h.at, h.fresh, h.refused = 0, false, nil }

// pick returns the address for a request, and whether the connection must be a fresh one.
func (h *hosts) pick() (base *url.URL, fresh bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.candidates[h.at], h.fresh
}

func (h *hosts) isFresh() bool {
	_, fresh := h.pick()
	return fresh
}

// answered says that a host took a request: it is the one from now on.
func (h *hosts) answered(u *url.URL) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, c := range h.candidates {
		if c.Host == u.Host {
			h.at, h.fresh, h.refused = i, false, nil
			return
		}
	}
}

// misdirected says that a request was answered 421, and returns whether there is another way. Many may say so at once.
func (h *hosts) misdirected(req *http.Request, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.misdirectAt = now
	switch {
	case h.candidates[h.at].Host != req.URL.Host: // another request has moved on
		return true
	case !req.Close:
		h.fresh = true
		return true
	}
	if h.refused == nil {
		h.refused = map[int]bool{}
	}
	h.refused[h.at] = true
	for i := range h.candidates {
		if !h.refused[i] {
			h.at, h.fresh = i, true
			return true
		}
	}
	h.reset()
	return false
}

// below puts a dialect's path below the API's base: Copilot has no version before its paths, but for Anthropic's.
func below(base, u *url.URL) *url.URL {
	path := u.EscapedPath()
	if path != "/v1/messages" && !strings.HasPrefix(path, "/v1/messages/") {
		if rest, ok := strings.CutPrefix(path, "/v1/"); ok {
			path = "/" + rest
		}
	}
	out := *base
	out.RawPath = strings.TrimSuffix(out.EscapedPath(), "/") + path // keeps the escapes as they came
	out.Path = out.RawPath
	if plain, err := url.PathUnescape(out.RawPath); err == nil {
		out.Path = plain
	}
	out.RawQuery = u.RawQuery
	return &out
}
