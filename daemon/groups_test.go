package daemon

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"coding-proxy/proxy"
)

var (
	groupsSeed   = flag.Uint64("groups-seed", 1, "first seed of the worlds of groups; 0: another one each time")
	groupsWorlds = flag.Int("groups-worlds", 18, "how many worlds of groups there are")
)

// grpWorld is a proxy with its providers and the configurations that it has had.
type grpWorld struct {
	*instance
	t        *testing.T
	rand     *rand.Rand
	accounts []*grpAccount
	log      *grpLog
	tools    string
	makers   map[string]func(*grpWorld, *grpAsk)
	routes   []string
	names    []string
	serial   int
	ids      []grpStored
	seen     *grpSeen

	mu     sync.Mutex
	past   []*grpConfig // the last ones may not be in use yet
	in     int          // index of the last one that surely is
	served []grpServed
}

// grpStored is an answer that a caller can refer to.
type grpStored struct{ id, caller string }

// grpServed is a request that is over, and between which configurations it was.
type grpServed struct {
	ask      *grpAsk
	lo, hi   int
	status   int
	tier     string
	attempts string
	body     string
}

// grpSeen counts what the test has met.
type grpSeen struct {
	mu sync.Mutex
	n  map[string]int
}

func (s *grpSeen) add(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n[what]++
}

// grpKeyed are the routes that ask for a request key.
func grpKeyed() (routes []string) {
	for _, r := range proxy.Routes() {
		for _, m := range r.Methods {
			if r.Guard == proxy.GuardKey {
				routes = append(routes, m+" "+r.Path())
			}
		}
	}
	return routes
}

// Whatever the pool, the mappings, the failures and the reloads: no request of a caller in a group reaches a provider outside
// it, and none of a caller with a list of models is answered by another model. The providers' own logs tell.
func TestNoRequestLeavesItsGroup(t *testing.T) {
	t.Parallel()
	first, worlds := *groupsSeed, *groupsWorlds
	if first == 0 {
		first = rand.Uint64()
	}
	if testing.Short() {
		worlds /= 4
	}
	seen := &grpSeen{n: map[string]int{}}
	t.Run("worlds", func(t *testing.T) {
		for n := range uint64(worlds) {
			t.Run(fmt.Sprint(first+n), func(t *testing.T) {
				t.Parallel()
				newGrpWorld(t, first+n, seen).live(40)
			})
		}
	})
	// A test in which nothing happens would pass, too.
	for what, least := range map[string]int{
		"served in a group": 10, "another key of the group": 1, "refused for the model": 5, "refused for a nested model": 2, "refused MCP": 1, "MCP": 1,
		"exhausted": 2, "no key of the group serves the model": 2, "counted upstream in a group": 1, "passed through in a group": 3, "a form in a group": 1,
		"another caller's answer": 1, "one's own answer": 1, "over a reload": 5, "another key after the reload": 1, "refused reload": 1, "listed": 3, "a list": 3, "status 200": 50,
	} {
		if got := seen.n[what]; got < least*worlds/6 {
			t.Errorf("%s: %d times in %d worlds", what, got, worlds)
		}
	}
	t.Logf("met %v", seen.n)
}

func newGrpWorld(t *testing.T, seed uint64, seen *grpSeen) *grpWorld {
	t.Helper()
	w := &grpWorld{t: t, rand: rand.New(rand.NewPCG(seed, 7)), log: &grpLog{fault: map[int][]int{}, hold: map[string]*grpHold{}}, makers: grpMakers(), names: grpNames(), seen: seen}
	w.routes = grpRoutes(t, w.makers)
	w.accounts = newAccounts(t, w.log, 7)
	w.tools = listen(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.log.note(grpHit{marker: r.UserAgent(), account: -1, path: r.URL.Path, credential: toolsKey})
		if r.Method != http.MethodPost {
			rw.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		rw.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(rw, rpcAnswer)
	}))
	c := grpDraw(w.rand, w)
	w.past = []*grpConfig{c}
	w.instance = start(t, c.members(w)...)
	return w
}

// live lets callers ask, providers fail and the configuration change.
func (w *grpWorld) live(steps int) {
	callers := []string{"free", "listed", "one", "two", "both"}
	for range steps {
		switch w.rand.IntN(13) {
		case 0:
			w.reload(0, 1, 2, 3, 4, 5, 6, 7)
		case 12:
			w.followed(callers)
		case 1:
			w.reloadBetween(callers)
		case 2:
			w.emptied()
		case 3, 4:
			w.log.heal()
			_ = w.pool.Reset("") // it is about all
		case 5, 6:
			for range 6 {
				faults := []int{429, 503, 529, 500, 401, 403, 404, grpTooLong, http.StatusOK}
				w.log.fail(w.rand.IntN(len(w.accounts)), faults[w.rand.IntN(len(faults))])
			}
		default:
			w.several(callers)
		}
	}
	w.judge()
}

// several asks a few times, one after the other, then some at once.
func (w *grpWorld) several(callers []string) {
	for range 4 {
		w.send(w.ask(callers[w.rand.IntN(len(callers))], w.routes))
	}
	var asked []*grpAsk // all are drawn before the first is sent: what comes of one changes what is drawn
	for range 3 {
		asked = append(asked, w.ask(callers[w.rand.IntN(len(callers))], w.routes))
	}
	var group sync.WaitGroup
	for _, a := range asked {
		group.Go(func() { w.send(a) })
	}
	group.Wait()
}

// followed reloads in the middle of a conversation, which may be bound to a key that is the group's no more.
func (w *grpWorld) followed(callers []string) {
	_ = w.pool.Reset("")
	w.log.heal()
	caller, session := callers[w.rand.IntN(len(callers))], fmt.Sprint("X-Session-Id: conversation-", w.serial)
	routes := [][]string{{"POST /v1/messages", "POST /v1/chat/completions"}, {"POST /v1/responses", "GET /v1/responses/{id}"}}[w.rand.IntN(2)]
	for range 3 {
		for range 2 {
			a := w.ask(caller, routes)
			a.header = append(slices.DeleteFunc(a.header, func(line string) bool { return strings.HasPrefix(line, "X-Session-Id") }), session)
			w.send(a)
		}
		w.reload(0, 2, 5, 6, 7)
	}
}

// send asks, and keeps what came of it.
func (w *grpWorld) send(a *grpAsk) {
	w.mu.Lock()
	s := grpServed{ask: a, lo: w.in}
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var body io.Reader
	if a.body != "" {
		body = strings.NewReader(a.body)
	}
	resp, err := w.transport.RoundTrip(w.request(ctx, a.method, a.path, body, a.header))
	if err != nil {
		w.t.Errorf("%v: %v", a, err)
		return
	}
	r := readReply(resp)
	s.status, s.body, s.tier, s.attempts = r.status, r.body, r.header.Get("X-Proxy-Tier"), r.header.Get("X-Proxy-Attempts")
	w.mu.Lock()
	defer w.mu.Unlock()
	s.hi = len(w.past) - 1
	w.served = append(w.served, s)
	if id := grpAnswerID(r.body); id != "" && strings.HasPrefix(a.route, "POST /v1/responses") && r.status == http.StatusOK {
		w.ids = append(w.ids, grpStored{id, a.caller})
	}
}

// grpAnswerID is the id of an answer that a body holds and a provider has stored. Converted ones have ids of ours.
func grpAnswerID(body string) string {
	_, rest, ok := strings.Cut(body, `"id":"resp_account`)
	if !ok {
		return ""
	}
	id, _, _ := strings.Cut(rest, `"`)
	return "resp_account" + id
}

// reload takes another configuration into use.
func (w *grpWorld) reload(kinds ...int) {
	w.mu.Lock()
	next := w.past[len(w.past)-1].change(w.rand, w, kinds...)
	w.past = append(w.past, next)
	w.mu.Unlock()
	w.rewrite(next.members(w)...)
	if _, err := w.Reload(); err != nil {
		w.t.Fatalf("reload: %v", err)
	}
	w.mu.Lock()
	w.in = len(w.past) - 1
	w.mu.Unlock()
}

// reloadBetween reloads while requests are at their first provider, which then fails, and while others begin.
func (w *grpWorld) reloadBetween(callers []string) {
	_ = w.pool.Reset("")
	w.log.heal()
	var group sync.WaitGroup
	var holds []*grpHold
	for range 4 {
		a := w.ask(callers[w.rand.IntN(len(callers))], [][]string{w.routes, {"POST /v1/messages", "POST /v1/chat/completions", "POST /v1/embeddings"}}[w.rand.IntN(2)])
		hold, done := newGrpHold(), make(chan struct{})
		w.log.mu.Lock()
		w.log.hold[a.marker] = hold
		w.log.mu.Unlock()
		holds = append(holds, hold)
		group.Go(func() {
			defer close(done)
			w.send(a)
		})
		select {
		case <-hold.reached:
			a.held = true
		case <-done:
		}
	}
	var racing []*grpAsk
	for range 4 {
		racing = append(racing, w.ask(callers[w.rand.IntN(len(callers))], w.routes))
	}
	var begun atomic.Bool
	group.Go(func() {
		for _, a := range racing {
			begun.Store(true)
			w.send(a)
		}
	})
	w.reload(0, 1, 2, 3, 5, 6, 6, 7)
	for _, h := range holds {
		close(h.opened)
	}
	group.Wait()
}

// emptied tries to reload a configuration in which a group has lost all: it is refused, and the old one goes on.
func (w *grpWorld) emptied() {
	w.mu.Lock()
	next := w.past[len(w.past)-1].clone()
	w.mu.Unlock()
	g := next.groups[w.rand.IntN(len(next.groups))]
	g.keys, g.tiers = nil, nil
	w.rewrite(next.members(w)...)
	if _, err := w.Reload(); err == nil {
		w.t.Fatal("a group that has lost its keys was taken into use")
	}
	w.seen.add("refused reload")
	w.rewrite(w.past[len(w.past)-1].members(w)...)
}

// judge compares the providers' logs with what each caller was allowed.
func (w *grpWorld) judge() {
	for _, s := range w.served {
		hits := w.log.of(s.ask.marker)
		w.count(s, hits)
		last := s.hi
		if s.ask.held { // it finishes as it began
			last = s.lo
		}
		if !slices.ContainsFunc(w.past[s.lo:last+1], func(c *grpConfig) bool { return w.inScope(c, s, hits) }) {
			w.t.Errorf("%v\nreached %+v\nof %s", s.ask, hits, w.scopes(s))
		}
		for _, h := range hits {
			w.judgeModel(s, h)
			if h.account >= 0 && h.credential != credential(fmt.Sprint("account-", h.account)) {
				w.t.Errorf("%v: account %d was shown another's credential", s.ask, h.account)
			}
		}
		w.judgeWords(s)
		w.tellsNothing(&reply{body: s.body})
	}
	for _, h := range w.log.hits {
		if !slices.ContainsFunc(w.served, func(s grpServed) bool { return s.ask.marker == h.marker }) {
			w.t.Errorf("a provider was asked by %q, which nobody is", h.marker)
		}
	}
}

// inScope reports whether one configuration allows all that a request has reached.
func (w *grpWorld) inScope(c *grpConfig, s grpServed, hits []grpHit) bool {
	caller := c.caller(s.ask.caller)
	scope := c.scope(caller)
	for _, h := range hits {
		if h.account < 0 && caller.group != "" || h.account >= 0 && !slices.ContainsFunc(scope, func(k *grpKey) bool { return k.account == h.account }) {
			return false
		}
	}
	return s.tier == "" || slices.ContainsFunc(scope, func(k *grpKey) bool { return k.tier == s.tier }) || s.lo < s.hi
}

func (w *grpWorld) scopes(s grpServed) string {
	var b strings.Builder
	for n, c := range w.past[s.lo : s.hi+1] {
		fmt.Fprintf(&b, "configuration %d:", s.lo+n)
		for _, k := range c.scope(c.caller(s.ask.caller)) {
			fmt.Fprintf(&b, " %s (account %d, %s)", k.id, k.account, k.tier)
		}
	}
	return b.String()
}

// judgeModel checks the model that a provider was asked for: it comes from the requested one by way of a resolved one that is on
// the caller's list, and no other is named.
func (w *grpWorld) judgeModel(s grpServed, h grpHit) {
	if s.ask.model == "" || h.account < 0 {
		return
	}
	for _, a := range w.past[s.lo : s.hi+1] { // by which it was resolved
		resolved := a.resolve(s.ask.model)
		for _, b := range w.past[s.lo : s.hi+1] { // by which it was leased
			caller := b.caller(s.ask.caller)
			if !a.caller(s.ask.caller).lists(resolved) && !caller.lists(resolved) {
				continue
			}
			for _, k := range append(b.keys, a.keys...) {
				up, ok := b.upstream(k, resolved)
				if !ok || up != h.model {
					continue
				}
				if len(caller.models) == 0 || !slices.ContainsFunc(h.named, func(n string) bool { return n != up && !caller.lists(n) && !a.caller(s.ask.caller).lists(n) }) {
					return
				}
			}
		}
	}
	w.t.Errorf("%v\nwas asked of account %d as %q, naming %q; the list is %q", s.ask, h.account, h.model, h.named, w.past[s.hi].caller(s.ask.caller).models)
}

// judgeWords checks that no model is named to a caller that it cannot reach or may not use.
func (w *grpWorld) judgeWords(s grpServed) {
	var names []string
	if _, near, ok := strings.Cut(s.body, "near names: "); ok && s.status == http.StatusNotFound {
		near, _, _ = strings.Cut(near, `"`)
		names = strings.Split(near, ", ")
	}
	if strings.HasSuffix(s.ask.route, "/models") && s.status == http.StatusOK {
		var list struct {
			Data   []struct{ ID string }
			Models []struct{ Name string }
		}
		if err := json.Unmarshal([]byte(s.body), &list); err != nil {
			w.t.Errorf("%v: %s", s.ask, s.body)
		}
		for _, m := range list.Data {
			names = append(names, m.ID)
		}
		for _, m := range list.Models {
			names = append(names, strings.TrimPrefix(m.Name, "models/"))
		}
		w.seen.add("a list")
	}
	for _, name := range names {
		if !slices.ContainsFunc(w.past[s.lo:s.hi+1], func(c *grpConfig) bool { return c.reaches(s.ask.caller, name) }) && s.lo == s.hi {
			w.t.Errorf("%v\nis told of the model %q, which is none of its own: %s", s.ask, name, s.body)
		}
	}
}

// reaches reports whether a caller can ask for a model.
func (c *grpConfig) reaches(code, name string) bool {
	caller, resolved := c.caller(code), c.resolve(name)
	return caller.lists(resolved) && slices.ContainsFunc(c.scope(caller), func(k *grpKey) bool {
		_, ok := c.upstream(k, resolved)
		return ok && !k.disabled
	})
}

// count notes what a request has met.
func (w *grpWorld) count(s grpServed, hits []grpHit) {
	caller := w.past[s.lo].caller(s.ask.caller)
	grouped, listed := caller.group != "", len(caller.models) > 0
	accounts := map[int]bool{}
	for _, h := range hits {
		accounts[h.account] = true
	}
	yes := func(what string, is bool) {
		if is {
			w.seen.add(what)
		}
	}
	yes(fmt.Sprint("status ", s.status), true)
	mcp := strings.HasSuffix(s.ask.route, "/mcp/{id}")
	yes("served in a group", grouped && s.status == 200 && len(hits) > 0)
	yes("another key of the group", grouped && len(accounts) > 1)
	yes("refused for the model", s.status == 403 && listed && strings.Contains(s.body, "may not use the model"))
	yes("refused for a nested model", s.status == 403 && listed && s.ask.nested != "" && strings.Contains(s.body, "may not use the model"))
	yes("refused MCP", mcp && s.status == 403 && grouped)
	yes("MCP", mcp && s.status == 200 && len(hits) == 1)
	yes("exhausted", grouped && s.status == 429 && strings.Contains(s.body, "key pool exhausted"))
	yes("no key of the group serves the model", grouped && s.status == 404 && strings.Contains(s.body, "no key serves"))
	yes("counted upstream in a group", grouped && s.status == 200 && strings.Contains(strings.ToLower(s.ask.route), "count") && len(hits) > 0)
	passed := strings.Contains(s.ask.route, "mbed") || strings.HasPrefix(s.ask.route, "POST /v1/images") || strings.HasSuffix(s.ask.route, "/completions")
	yes("passed through in a group", grouped && s.status == 200 && passed && len(hits) > 0)
	yes("a form in a group", grouped && s.status == 200 && strings.HasPrefix(s.ask.route, "POST /v1/audio") && len(hits) > 0)
	yes("listed", listed && s.status == 200 && len(hits) > 0)
	yes("over a reload", s.lo < s.hi)
	yes("another key after the reload", s.lo < s.hi && grouped && len(accounts) > 1)
	if i := slices.IndexFunc(w.ids, func(id grpStored) bool { return id.id == s.ask.id }); i >= 0 && strings.Contains(s.ask.route, "/v1/responses") && s.ask.id != "" {
		own := w.ids[i].caller == s.ask.caller
		yes("one's own answer", own && s.status == 200 && len(hits) > 0)
		if !own && len(hits) > 0 && strings.Contains(s.ask.path+s.ask.body, s.ask.id) {
			w.t.Errorf("%v\nwas asked of a provider, but %s is %s's", s.ask, s.ask.id, w.ids[i].caller)
		}
		yes("another caller's answer", !own && s.status == 404)
	}
}
