package upstreamtest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// arrival is a request for an answer that has come in.
type arrival struct {
	method, path, query, host string
	header                    http.Header
	body                      []byte
}

// rig is a kind and the server that plays its provider.
type rig struct {
	t      *testing.T
	c      Case
	clock  *clock
	kind   Kind
	server *httptest.Server
	client *http.Transport

	mu        sync.Mutex
	grants    int             // exchanges that were granted
	exchanges int             // exchanges that came
	revoked   map[string]bool // tokens that are refused
	refuse    bool            // every token is
	failing   *Refusal        // of exchanges
	answers   []Refusal       // of the next requests, instead of good ones
	hold      chan struct{}   // exchanges wait until it is closed
	holding   chan struct{}   // closed when the first one waits
	seen      []arrival       // requests for an answer
	problems  []string        // what must not have come
}

func newRig(t *testing.T, c Case) *rig {
	t.Helper()
	g := &rig{t: t, c: c, clock: newClock(), revoked: map[string]bool{}}
	g.server = httptest.NewServer(g)
	g.client = &http.Transport{MaxIdleConnsPerHost: 600, DisableCompression: true}
	t.Cleanup(func() {
		g.release()
		g.client.CloseIdleConnections()
		g.server.Close()
		g.mu.Lock()
		defer g.mu.Unlock()
		for _, p := range g.problems {
			t.Error(p)
		}
	})
	g.kind = c.New(t, Env{URL: g.server.URL, Now: g.clock.Now, HTTP: func() http.RoundTripper { return g.client }})
	return g
}

// ServeHTTP plays the provider.
func (g *rig) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client went away
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	if g.c.IsExchange(r) {
		g.exchange(w, r)
		return
	}
	g.checkSecrets(r, body)
	token, known := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch good, n := g.isGood(token); {
	case !known || len(r.Header.Values("Authorization")) != 1 || n == 0:
		g.problem("%s %s came without a token", r.Method, r.URL.Path)
		w.WriteHeader(http.StatusUnauthorized)
	case !good:
		g.note(r, body)
		answer(w, http.StatusUnauthorized, `{"error":{"code":401,"type":"authentication_error","message":"token expired"}}`)
	case g.c.Aside != nil && g.c.Aside(w, r):
	default:
		g.note(r, body)
		next := Refusal{http.StatusOK, g.c.Answer}
		g.mu.Lock()
		if len(g.answers) > 0 {
			next, g.answers = g.answers[0], g.answers[1:]
		}
		g.mu.Unlock()
		answer(w, next.Status, next.Body)
	}
}

func answer(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) // the client may have gone
}

func (g *rig) exchange(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	g.exchanges++
	hold, failing := g.hold, g.failing
	if hold != nil && g.holding != nil {
		close(g.holding)
		g.holding = nil
	}
	g.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-r.Context().Done():
			return
		}
	}
	if failing != nil {
		body := failing.Body
		if strings.Contains(body, "%s") {
			body = fmt.Sprintf(body, g.c.Secrets[0])
		}
		answer(w, failing.Status, body)
		return
	}
	g.mu.Lock()
	g.grants++
	_, body := g.c.Grant(g.grants)
	g.mu.Unlock()
	answer(w, http.StatusOK, body)
}

// isGood reports whether a token is good, and which grant it came from (0: none).
func (g *rig) isGood(token string) (good bool, n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for n := g.grants; n > 0; n-- {
		if t, _ := g.c.Grant(n); t == token {
			return !g.refuse && !g.revoked[token], n
		}
	}
	return false, 0
}

// checkSecrets finds what only the exchange may see, and what the client has sent for others.
func (g *rig) checkSecrets(r *http.Request, body []byte) {
	text := r.URL.String() + "\n" + string(body)
	for name, values := range r.Header {
		text += "\n" + name + ": " + strings.Join(values, ", ")
	}
	for _, s := range append(slices.Clone(g.c.Secrets), clientSecrets...) {
		if strings.Contains(text, s) {
			g.problem("%s %s holds %s, which only another may see", r.Method, r.URL.Path, s)
		}
	}
	for _, name := range []string{"Cookie", "X-Api-Key", "X-Goog-Api-Key", "Api-Key"} {
		if len(r.Header.Values(name)) > 0 {
			g.problem("%s %s holds the client's %s", r.Method, r.URL.Path, name)
		}
	}
}

func (g *rig) note(r *http.Request, body []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen = append(g.seen, arrival{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, r.Host, r.Header.Clone(), body})
}

// problem is kept until the end: handlers may run when the test has ended.
func (g *rig) problem(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.problems) < 20 {
		g.problems = append(g.problems, fmt.Sprintf(format, args...))
	}
}

// set changes how the server behaves.
func (g *rig) set(change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change()
}

// counts returns how many exchanges and requests for an answer have come.
func (g *rig) counts() (exchanges, requests int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.exchanges, len(g.seen)
}

func (g *rig) arrivals() []arrival {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.seen)
}

// holdExchanges lets exchanges wait; the channel is closed when the first one does.
func (g *rig) holdExchanges() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hold, g.holding = make(chan struct{}), make(chan struct{})
	return g.holding
}

// release lets them go on.
func (g *rig) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.hold != nil {
		close(g.hold)
		g.hold = nil
	}
}
