package daemon

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"coding-proxy/pool"
	"coding-proxy/proxy/demo"
	"coding-proxy/stats"
	"coding-proxy/web"
)

// scrape reads /metrics as Prometheus does, and more strictly. It may be called by any goroutine.
func (i *instance) scrape() (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	resp, err := i.transport.RoundTrip(i.request(ctx, "GET", "/metrics", nil, []string{"Accept: text/plain;version=0.0.4"}))
	if err != nil {
		return nil, err
	}
	r := readReply(resp)
	if r.status != http.StatusOK || r.err != nil || r.header.Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8" {
		return nil, fmt.Errorf("status %d, %v, content-type %q", r.status, r.err, r.header.Get("Content-Type"))
	}
	for _, word := range append([]string{"credential-of-", requestKey, prompt, answerText, "claude", "gpt", "laptop", "127.0.0.1", madeUp}, i.upstreams...) {
		if strings.Contains(r.body, word) {
			return nil, fmt.Errorf("/metrics shows %q", word)
		}
	}
	families, err := parseExposition(r.body)
	if err != nil {
		return nil, err
	}
	if problems := lintExposition(families); len(problems) > 0 {
		return nil, fmt.Errorf("%q", problems)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, s := range f.samples {
			all[s.series()] = s.value
		}
	}
	return all, nil
}

// scraped is a scrape that must succeed.
func (i *instance) scraped() map[string]float64 {
	i.t.Helper()
	all, err := i.scrape()
	if err != nil {
		i.t.Fatal(err)
	}
	return all
}

// unruly are providers that in the course of a test begin to answer in all kinds of ways, and whose answers take some time
// of the test's clock.
type unruly struct {
	clock *clock
	wild  atomic.Bool
	mu    sync.Mutex
	rng   *rand.Rand
}

func (u *unruly) listen(t *testing.T, p *demo.Provider) string {
	p.Always(demo.Step{Text: answerText})
	return listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u.wild.Load() {
			p.Always(u.step())
		}
		p.ServeHTTP(w, r)
	}))
}

// step draws an answer, and lets time pass.
func (u *unruly) step() demo.Step {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.pass(time.Duration(u.rng.ExpFloat64() * float64(2*time.Second)))
	switch n := u.rng.IntN(20); {
	case n < len(errorSteps()):
		return errorSteps()[n]
	case n == 19:
		return demo.Step{Text: answerText, Break: demo.Cut, After: 4}
	}
	some := func() int { return 1 + u.rng.IntN(1000) }
	return demo.Step{Text: answerText, Usage: demo.Usage{Input: some(), Output: 1000 + some(), CacheCreation: some(), CacheRead: some(), Reasoning: some()}}
}

// pass lets time pass.
func (u *unruly) pass(d time.Duration) {
	u.clock.mu.Lock()
	defer u.clock.mu.Unlock()
	u.clock.time = u.clock.time.Add(d)
}

// madeUp is a type of error that no provider has: it may hold anything.
const madeUp = "sk_live_of_the_provider"

func errorSteps() []demo.Step {
	return []demo.Step{{Status: 529, Message: "Overloaded"}, {Status: 500, Message: "broken"}, {Status: 429, Message: "slow down"}, {Status: 401, Message: "who?"},
		{Status: 400, Message: "bad"}, {Status: 200, Raw: "<html>"}, {Break: demo.Cut}, {Status: 503, Type: madeUp, Message: "odd"}}
}

// metricsWorld is a proxy with three tiers.
func metricsWorld(t *testing.T) (i *instance, u *unruly, first, third *demo.Provider, members func(labels bool) []string) {
	clock := &clock{time: time.Now().Add(24 * time.Hour).Truncate(time.Second)}
	u = &unruly{clock: clock, rng: rand.New(rand.NewPCG(6, 4))}
	first, third = demo.New(demo.Options{}), demo.New(demo.Options{})
	one, other := u.listen(t, first), u.listen(t, demo.New(demo.Options{}))
	second, last := u.listen(t, demo.New(demo.Options{})), u.listen(t, third)
	models := fmt.Sprintf(`"models":{%q:%q,"gpt-5.5":"gpt-5.5"}`, sonnet, sonnet)
	members = func(labels bool) []string {
		return []string{
			`"tiers":[{"name":"first","circuit_breaker":{}},{"name":"se\"cond","quota_guard":{"token_budget":100000}},{"name":"third"}]`,
			poolOf(poolKey(k1, one, `"tier":"first"`, models, `"daily_limit_tokens":50000`), poolKey(k2, other, `"tier":"first"`, models),
				polyglotKey(k3, second, nil, `"tier":"se\"cond"`, models), polyglotKey(k4, last, nil, `"tier":"third"`, `"models":{"rare":"rare"}`)),
			oneCaller(),
			fmt.Sprintf(`"metrics":{"key_labels":%t}`, labels),
		}
	}
	return startAt(t, clock, nil, members(false)...), u, first, third, members
}

const asLaptop = "x-proxy-key: " + requestKey

// TestMetricsAreTheJournals drives every kind of request through the proxy and compares each counter with the journal, also
// while scrapes go on and over a reload.
func TestMetricsAreTheJournals(t *testing.T) {
	t.Parallel()
	i, u, first, third, members := metricsWorld(t)
	sent := i.eachKindOfRequest(first, third)
	i.countsAreTheJournals()
	i.coversAllKinds()

	u.wild.Store(true)
	over, scrapes := make(chan struct{}), make(chan error)
	go func() { scrapes <- i.keepScraping(over) }()
	sent += i.crowd(u, 1)
	i.rewrite(members(true)...)
	i.mustAdmin("/admin/reload")
	sent += i.crowd(u, 2)
	close(over)
	if err := <-scrapes; err != nil {
		t.Error(err)
	}
	await(t, "all journal lines", func() bool { return len(i.records("")) == sent })
	i.countsAreTheJournals()
	i.gaugesAreThePools(true)
	i.rewrite(members(false)...)
	i.mustAdmin("/admin/reload")
	i.countsAreTheJournals()
	i.gaugesAreThePools(false)
}

// eachKindOfRequest sends one of each, one after the other, and returns how many.
func (i *instance) eachKindOfRequest(first, third *demo.Provider) int {
	i.t.Helper()
	sent := 0
	ask := func(status int, dialect, model string, stream bool, more ...string) {
		i.t.Helper()
		sent++
		if r := i.sayWith(dialect, []string{asLaptop}, model, stream, more...); r.status != status {
			i.t.Errorf("%s, %s: status %d: %s", dialect, model, r.status, r.body)
		}
	}
	for _, d := range allDialects() {
		ask(200, d, sonnet, false)
		ask(200, d, sonnet, true)
	}
	sent++
	if r := i.send(claude, "/v1/messages/count_tokens", question(sonnet), asLaptop); r.status != 200 { // answered here
		i.t.Errorf("count_tokens: status %d: %s", r.status, r.body)
	}
	ask(404, claude, "nobody-has-it", false)
	first.Push(demo.Step{Status: 400, Message: "bad"})
	ask(400, claude, sonnet, false)
	first.Push(demo.Step{Text: answerText, Break: demo.Cut, After: 4})
	ask(200, claude, sonnet, true)
	i.mustAdmin("/admin/keys/" + k1 + "/reset") // it cools, and takes the next request again
	first.Push(demo.Step{Status: 529, Message: "Overloaded"})
	ask(200, claude, "gpt-5.5", true)
	third.Push(demo.Step{Status: 429, Message: "slow down", Header: http.Header{"Retry-After": {"3600"}}})
	ask(429, claude, "rare", false) // by its provider
	ask(429, claude, "rare", false) // by nobody

	hold := demo.HoldAt(5)
	third.Push(demo.Step{Text: answerText})
	i.mustAdmin("/admin/keys/" + k4 + "/reset")
	ask(200, claude, "rare", false)
	third.Push(demo.Step{Text: answerText, Hold: hold})
	l := i.open(question("rare", streamed), asLaptop)
	sent++
	<-hold.Reached()
	if n := i.scraped()[at("coding_proxy_requests_in_flight", "tier", "third")]; n != 1 {
		i.t.Errorf("%v requests are in flight", n)
	}
	l.leave()
	await(i.t, "all journal lines", func() bool { return len(i.records("")) == sent })
	hold.Release()
	return sent
}

// mustAdmin makes an admin call that must succeed.
func (i *instance) mustAdmin(path string) {
	i.t.Helper()
	if status, body := i.admin("POST", path); status != http.StatusOK {
		i.t.Fatal(path, status, body)
	}
}

// coversAllKinds makes sure that the test is about something.
func (i *instance) coversAllKinds() {
	i.t.Helper()
	outcomes, dialects, tiers := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, r := range i.records("") {
		outcomes[r.Outcome], dialects[r.Dialect], tiers[r.Tier] = true, true, true
	}
	if len(outcomes) != 6 || len(dialects) != 4 || len(tiers) < 3 {
		i.t.Errorf("outcomes %v, dialects %v, tiers %v", outcomes, dialects, tiers)
	}
	all := i.scraped()
	for _, series := range []string{
		at("coding_proxy_failovers_total", "tier", "first"), at("coding_proxy_estimated_requests_total", "tier", "first"),
		at("coding_proxy_attempts_total", "tier", "first", "outcome", "overload", "reason", "overloaded_error"),
		at("coding_proxy_tokens_total", "tier", "first", "kind", "output"),
	} {
		if all[series] < 1 {
			i.t.Errorf("%s is %v", series, all[series])
		}
	}
}

// crowd sends requests of all dialects from several clients, and returns how many. Time passes, so that cooldowns end.
func (i *instance) crowd(u *unruly, seed uint64) int {
	const clients, each = 6, 25
	var all sync.WaitGroup
	for c := range uint64(clients) {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(seed, c))
			for range each {
				dialect, stream := allDialects()[rng.IntN(4)], rng.IntN(2) == 0
				model := []string{sonnet, "gpt-5.5", "rare", "nobody-has-it"}[rng.IntN(4)]
				path := pathOf(dialect, model, stream)
				if dialect == claude && rng.IntN(4) == 0 {
					path += "/count_tokens"
				}
				u.pass(time.Minute)
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				r := i.request(ctx, "POST", path, strings.NewReader(bodyOf(dialect, model, stream)),
					[]string{version, "Content-Type: application/json", asLaptop})
				if resp, err := i.transport.RoundTrip(r); err == nil { // else it was broken off
					readReply(resp)
				}
				cancel()
			}
		})
	}
	all.Wait()
	return clients * each
}

// keepScraping scrapes until over: each text is right, and no counter ever falls.
func (i *instance) keepScraping(over <-chan struct{}) error {
	before, err := i.scrape()
	for err == nil {
		select {
		case <-over:
			return nil
		default:
		}
		now, wrong := i.scrape()
		for series, v := range before {
			if isCount(series) && now[series] < v && wrong == nil {
				wrong = fmt.Errorf("%s fell from %v to %v", series, v, now[series])
			}
		}
		before, err = now, wrong
	}
	return err
}

// Prometheus on another machine shows the admin key.
func TestMetricsAskForTheAdminKey(t *testing.T) {
	t.Parallel()
	_, url := provider(t)
	i := prepare(t, filepath.Join(t.TempDir(), "data"), poolOf(poolKey(k1, url)), `"auth":{"admin_key":"request-key-of-admin-0123456789"}`)
	t.Cleanup(i.Close)
	for _, c := range []struct {
		visit, status int
		header        string
	}{
		{fromLoopback, 200, ""}, {fromLAN, 401, ""}, {fromLAN, 401, "Bearer request-key-of-nobody"}, {fromLAN, 200, "Bearer request-key-of-admin-0123456789"},
		{throughTunnel, 401, ""}, {withForeignHost, 401, ""},
	} {
		r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		come(r, c.visit)
		if c.header != "" {
			r.Header.Set("Authorization", c.header)
		}
		w := httptest.NewRecorder()
		i.server.ServeHTTP(w, r)
		if w.Code != c.status || (w.Code == 200) != strings.Contains(w.Body.String(), "coding_proxy_ready 1\n") {
			t.Errorf("%s, %q: %d %.80s", visitNames[c.visit], c.header, w.Code, w.Body)
		}
	}
}

// labelled is a pool and statistics all of whose words are the same.
type labelled struct{ text string }

func (l labelled) View() pool.View {
	return pool.View{Tiers: []pool.TierView{{Name: l.text, Breaker: &pool.BreakerView{State: l.text}, Guard: &pool.GuardView{State: l.text},
		Keys: []pool.KeyView{{ID: l.text, State: l.text, Provider: l.text}}}}}
}

func (l labelled) Totals(stats.Range) stats.Totals { return stats.Totals{} }

func (l labelled) KeyWindows(time.Time) map[string]*stats.Windows[stats.Figures] { return nil }

func (l labelled) CallerWindows(time.Time) map[string]*stats.Windows[stats.Figures] { return nil }

func (l labelled) Metrics() stats.Metrics {
	return stats.Metrics{
		Requests: map[stats.RequestLabels]int64{{Outcome: l.text, Dialect: l.text, Tier: l.text}: 1},
		Attempts: map[stats.AttemptLabels]int64{{Tier: l.text, Outcome: l.text, Reason: l.text}: 1},
		Times:    map[stats.TimeLabels]stats.Times{{Dialect: l.text}: {}},
		Usage:    map[string]stats.Figures{l.text: {}},
	}
}

// FuzzMetricsLabels: whatever a label is, it is read back as what it was, and the text stays right.
func FuzzMetricsLabels(f *testing.F) {
	for _, text := range []string{"", "first", `\`, `"`, "\n", `\n`, `\\"`, "a\nb{c=\"d\"} 1\n# TYPE x gauge\n", "\xff", "é\x00\r\u2028", `"} 1`, "(other)"} {
		f.Add(text)
	}
	route, words := web.Find(web.Routes(), "/metrics"), &labelled{}
	x := web.New(web.Sources{Pool: words, Stats: words}, nil, web.Options{KeyLabels: true}, time.Now)
	f.Fuzz(func(t *testing.T, text string) {
		words.text = text
		w := httptest.NewRecorder()
		x.Serve(w, httptest.NewRequest(http.MethodGet, "/metrics", nil), route)
		families, err := parseExposition(w.Body.String())
		if err != nil {
			t.Fatal(err)
		}
		if problems := lintExposition(families); len(problems) > 0 {
			t.Fatalf("%q", problems)
		}
		want, found := strings.ToValidUTF8(text, "\uFFFD"), 0
		for _, f := range families {
			for _, s := range f.samples {
				for _, name := range []string{"tier", "key", "reason", "dialect", "outcome"} {
					if !slices.ContainsFunc(s.labels, func(l [2]string) bool { return l[0] == name }) {
						continue
					}
					if found++; s.label(name) != want {
						t.Errorf("%s: %s is %q, want %q", f.name, name, s.label(name), want)
					}
				}
			}
		}
		if found < 50 {
			t.Errorf("only %d labels", found)
		}
	})
}
