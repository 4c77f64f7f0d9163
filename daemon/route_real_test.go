package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"coding-proxy/auth"
	"coding-proxy/proxy/demo"
)

const (
	routeSeed  = 7
	routeCases = 1000 // random configurations and states
	routeDraws = 100  // of those in which a draw decides, asked routePairs times
	routePairs = 40
)

// routeProvider is the provider of all keys of all daemons.
type routeProvider struct {
	*demo.Provider
	mu   sync.Mutex
	rng  *rand.Rand
	good int        // percent of good answers
	hold *demo.Hold // where the next request stops
}

func (p *routeProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.Always(p.step())
	p.mu.Unlock()
	p.Provider.ServeHTTP(w, r)
}

// step draws an answer.
func (p *routeProvider) step() demo.Step {
	good := demo.Step{Text: answerText, Usage: demo.Usage{Input: 1 + p.rng.IntN(1500), Output: 1 + p.rng.IntN(300), CacheRead: p.rng.IntN(2000)}}
	if p.hold != nil {
		good.Hold, p.hold = p.hold, nil
		return good
	}
	if p.rng.IntN(100) < p.good {
		return good
	}
	bad := []demo.Step{
		{Status: 429}, {Status: 429, Header: http.Header{"Retry-After": {strconv.Itoa(1 + p.rng.IntN(900))}}},
		{Status: 429, Message: "you have reached your usage cap"}, {Status: 402},
		{Status: 403, Message: "quota exceeded", Header: http.Header{"Retry-After": {"1200"}}},
		{Status: 503}, {Status: 503}, {Status: 529, Header: http.Header{"Retry-After": {"20"}}}, {Status: 500}, {Status: 500}, {Break: demo.Cut},
		{Status: 401}, {Status: 404, Message: "model: not here"}, {Status: 400}, {Raw: "<html>busy</html>"},
		{Status: 429, Header: http.Header{"Anthropic-Ratelimit-Unified-5h-Status": {"rejected"}}},
	}
	return bad[p.rng.IntN(len(bad))]
}

func (p *routeProvider) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// routeCase is one random configuration and what can be asked of it.
type routeCase struct {
	rng     *rand.Rand
	url     string
	keys    []string // texts
	ids     []string
	tiers   []string // names
	callers []string // codes; none: no request key is configured
	empty   string   // a tier without keys; "" = none
	last    routeAsk // of those that made the state
	members []string
}

func (c *routeCase) some(percent int) bool { return c.rng.IntN(100) < percent }

func (c *routeCase) of(list ...string) string { return list[c.rng.IntN(len(list))] }

// models are the names that clients use; the last one is a name that few configurations serve.
var routeModels = []string{"m-a", "m-b", "m-c", "alias", "alpine", "nobody"}

func newRouteCase(rng *rand.Rand, url string) *routeCase {
	c := &routeCase{rng: rng, url: url}
	strategies := []string{"session-sticky", "session-sticky", "session-sticky", "fill-first", "round-robin", "least-used", "least-recent"}
	general := c.of(strategies...)
	var tiers []string
	for n := range 1 + rng.IntN(4) {
		strategy := general
		name := fmt.Sprintf("tier-%d", n)
		members := []string{fmt.Sprintf(`"name":%q`, name)}
		if c.some(60) {
			strategy = c.of(strategies...)
			members = append(members, fmt.Sprintf(`"strategy":%q`, strategy))
		}
		members = append(members, c.rules()...)
		tiers = append(tiers, "{"+strings.Join(members, ",")+"}")
		c.tiers = append(c.tiers, name)
		count := 1 + rng.IntN(5)
		if n > 0 && c.some(4) {
			count, c.empty = 0, name
		}
		for k := range count {
			c.addKey(fmt.Sprintf("pool-key-%d%d", n, k), name, strategy == "session-sticky" && count > 1)
		}
	}
	pool := []string{`"max_wait_seconds":0`, fmt.Sprintf(`"strategy":%q`, general), `"keys":[` + strings.Join(c.keys, ",") + `]`}
	if c.some(40) {
		pool = append(pool, fmt.Sprintf(`"rebalance_threshold":%g,"rebalance_cooldown_seconds":%d`, 0.01+rng.Float64()/4, rng.IntN(300)))
	}
	if c.some(50) {
		pool = append(pool, `"tier_return":"idle"`)
	}
	if c.some(20) {
		pool = append(pool, `"session_idle_hours":0.1`)
	}
	c.members = []string{`"tiers":[` + strings.Join(tiers, ",") + `]`, `"pool":{` + strings.Join(pool, ",") + `}`}
	if c.some(40) {
		c.members = append(c.members, `"model_mapping":[`+c.mapping()+`]`)
	}
	if c.some(70) {
		c.members = append(c.members, c.auth())
	}
	return c
}

// rules are the random members of a tier beside its name and strategy.
func (c *routeCase) rules() (members []string) {
	add := func(format string, args ...any) { members = append(members, fmt.Sprintf(format, args...)) }
	switch {
	case c.some(15):
		add(`"circuit_breaker":{}`)
	case c.some(50):
		recovery := 1 + c.rng.IntN(200)
		add(`"circuit_breaker":{"failure_threshold":%d,"recovery_timeout_seconds":%d,"success_threshold":%d,"max_recovery_seconds":%d}`,
			1+c.rng.IntN(2), recovery, 1+c.rng.IntN(2), recovery*(1+c.rng.IntN(4)))
	}
	switch {
	case c.some(15):
		add(`"quota_guard":{}`)
	case c.some(35):
		add(`"quota_guard":{"token_budget":%d,"window_hours":%g,"weekly_token_budget":%d,"threshold_percent":%d,"probe_interval_seconds":%d}`,
			500+c.rng.IntN(20000), 0.05+c.rng.Float64()*3, c.rng.IntN(3)*20000, 50+c.rng.IntN(51), 1+c.rng.IntN(400))
	}
	if c.some(40) {
		add(`"tier_return":%q`, c.of("idle", "idle", "idle", "immediate"))
	}
	if c.some(40) {
		add(`"model_mapping":[%s]`, c.mapping())
		if c.some(40) {
			add(`"default_model":"the-rest"`)
		}
	}
	return members
}

// mapping is a list of one to three rules.
func (c *routeCase) mapping() string {
	rules := []string{
		`{"pattern":"m-a","target":"m-b"}`, `{"pattern":"m-*","target":"up-m"}`, `{"pattern":"m-[ab]","is_regex":true,"target":"up-ab"}`,
		`{"pattern":"alias","target":"m-a"}`, `{"pattern":"al*","target":"m-c"}`, `{"pattern":"*e","target":"up-e"}`,
	}
	c.rng.Shuffle(len(rules), func(i, j int) { rules[i], rules[j] = rules[j], rules[i] })
	return strings.Join(rules[:1+c.rng.IntN(3)], ",")
}

func (c *routeCase) addKey(id, tier string, limited bool) {
	more := []string{fmt.Sprintf(`"tier":%q`, tier)}
	if c.some(30) {
		models := []string{}
		for _, name := range routeModels[:5] {
			if c.some(60) {
				models = append(models, fmt.Sprintf(`%q:%q`, name, c.of(name, "up-"+name)))
			}
		}
		if c.some(20) || len(models) == 0 {
			models = append(models, fmt.Sprintf(`"*":%q`, c.of("*", "up-any")))
		}
		more = append(more, `"models":{`+strings.Join(models, ",")+`}`)
	}
	if daily := c.some(50); daily || limited {
		more = append(more, fmt.Sprintf(`"daily_limit_tokens":%d`, 1000+c.rng.IntN(30000)))
	}
	if c.some(30) {
		more = append(more, fmt.Sprintf(`"monthly_limit_tokens":%d`, 1000+c.rng.IntN(60000)))
	}
	if c.some(20) {
		more = append(more, fmt.Sprintf(`"max_concurrent":%d`, 1+c.rng.IntN(2)))
	}
	if len(c.keys) > 0 && c.some(12) {
		more = append(more, `"enabled":false`)
	}
	c.keys = append(c.keys, poolKey(id, c.url, more...))
	c.ids = append(c.ids, id)
}

// auth has callers of whom some are in groups and some may not use every model.
func (c *routeCase) auth() string {
	var callers, groups []string
	for n := range 1 + c.rng.IntN(3) {
		code, more := fmt.Sprintf("caller-%d", n), ""
		if c.some(50) {
			group := fmt.Sprintf("group-%d", n)
			keys, tiers := "", ""
			if c.some(60) {
				keys = fmt.Sprintf("%q", c.of(c.ids...))
			}
			if keys == "" || c.some(40) {
				tiers = fmt.Sprintf("%q", c.of(c.tiers...))
			}
			if c.empty != "" && c.some(60) { // a group that has none: 403
				keys, tiers = "", fmt.Sprintf("%q", c.empty)
			}
			groups = append(groups, fmt.Sprintf(`{"name":%q,"keys":[%s],"tiers":[%s]}`, group, keys, tiers))
			more = fmt.Sprintf(`,"group":%q`, group)
		}
		if c.some(15) {
			more += `,"models":["m-*"]`
		}
		callers = append(callers, fmt.Sprintf(`{"code":%q,"api_key":"request-key-of-%s"%s}`, code, code, more))
		c.callers = append(c.callers, code)
	}
	return `"auth":{"request_keys":[` + strings.Join(callers, ",") + `],"groups":[` + strings.Join(groups, ",") + `]}`
}

// routeAsk is one request, real or dry.
type routeAsk struct{ caller, model, session string }

func (c *routeCase) ask() routeAsk {
	a := routeAsk{model: c.of(routeModels[:5+c.rng.IntN(2)]...)}
	if a.caller = auth.Anonymous; len(c.callers) > 0 {
		a.caller = c.of(c.callers...)
	}
	if c.some(70) {
		a.session = fmt.Sprint("session-", c.rng.IntN(6))
	}
	return a
}

func (a routeAsk) header() (lines []string) {
	if a.caller != auth.Anonymous {
		lines = append(lines, "x-api-key: request-key-of-"+a.caller)
	}
	if a.session != "" {
		lines = append(lines, "x-session-id: "+a.session)
	}
	return lines
}

func (a routeAsk) query() string {
	q := url.Values{"model": {a.model}}
	if a.caller != "" {
		q.Set("caller", a.caller)
	}
	if a.session != "" {
		q.Set("session", a.session)
	}
	return q.Encode()
}

// dryRun is what GET /admin/route says, as far as it is compared.
type dryRun struct {
	Resolved string  `json:"resolved_model"`
	Group    *string `json:"group"`
	Tiers    []dryTier
	Answer   struct {
		Key, Tier, Error string
		UpstreamModel    string `json:"upstream_model"`
		Status           int
		RetryAfter       int `json:"retry_after"`
	}
}

type dryTier struct {
	Name string
	Gate *string
	Keys []dryKey
}

type dryKey struct {
	ID            string
	UpstreamModel *string `json:"upstream_model"`
	Gate          *string
	WouldBeUsed   bool `json:"would_be_used"`
	Probability   float64
}

// drawn returns the tier and the keys that may be drawn, and what is wrong with their probabilities.
func (d *dryRun) drawn() (tier string, keys []dryKey, problem error) {
	sum, likeliest := 0.0, 0.0
	for _, t := range d.Tiers {
		for _, k := range t.Keys {
			if k.WouldBeUsed != (k.Probability > 0) {
				return tier, keys, fmt.Errorf("%s would be used: %t, with a probability of %g", k.ID, k.WouldBeUsed, k.Probability)
			}
			if !k.WouldBeUsed {
				continue
			}
			if tier != "" && tier != t.Name || t.Gate != nil || k.Gate != nil || k.UpstreamModel == nil {
				return tier, keys, fmt.Errorf("%s of %s would be used", k.ID, t.Name)
			}
			tier, keys = t.Name, append(keys, k)
			sum, likeliest = sum+k.Probability, max(likeliest, k.Probability)
		}
	}
	refused := d.Answer.Status != 0
	if refused { // also where keys could be leased, but the caller may not have the model
		keys, sum = nil, 1
	}
	switch i := slices.IndexFunc(keys, func(k dryKey) bool { return k.ID == d.Answer.Key }); {
	case math.Abs(sum-1) > 1e-9:
		problem = fmt.Errorf("the probabilities add up to %g", sum)
	case refused == (d.Answer.Key != ""):
		problem = errors.New("the answer is neither a key nor a refusal")
	case !refused && (i < 0 || keys[i].Probability < likeliest || d.Answer.Tier != tier || d.Answer.UpstreamModel != *keys[i].UpstreamModel):
		problem = fmt.Errorf("the answer is not one of the likeliest of %+v", keys)
	}
	return tier, keys, problem
}

// dryRun asks what would become of a request.
func (i *instance) dryRun(a routeAsk) (*dryRun, string) {
	i.t.Helper()
	r := i.ask("GET", "/admin/route?"+a.query(), "", "authorization: Bearer "+i.instance.Token)
	d := new(dryRun)
	if err := json.Unmarshal([]byte(r.body), d); err != nil || r.status != 200 {
		i.t.Fatalf("route of %+v: %d %s", a, r.status, r.body)
	}
	return d, r.body
}

// real sends the request that the dry run was about and returns the key that it went to, "" where it was refused, or how
// that differs from what was said.
func (i *instance) real(a routeAsk, d *dryRun) (key string, keys []dryKey, problem error) {
	i.t.Helper()
	tier, keys, problem := d.drawn()
	if problem != nil {
		return "", keys, problem
	}
	r := i.message(question(a.model), a.header()...)
	rec := i.record(r.trace())
	if rec.Resolved != d.Resolved && rec.Resolved != "" || d.Group != nil && rec.Group != *d.Group {
		return "", keys, fmt.Errorf("resolved %q for the group %q", rec.Resolved, rec.Group)
	}
	if d.Answer.Status != 0 {
		retry := 0
		if text := r.header.Get("Retry-After"); text != "" {
			retry, _ = strconv.Atoi(text) // 0 fails below
		}
		if r.status != d.Answer.Status || len(rec.Attempts) > 0 || retry != d.Answer.RetryAfter {
			problem = fmt.Errorf("status %d, retry-after %d, attempts %+v: %s", r.status, retry, rec.Attempts, r.body)
		}
		return "", keys, problem
	}
	if r.status != 200 || len(rec.Attempts) == 0 {
		return "", keys, fmt.Errorf("status %d: %s", r.status, r.body)
	}
	first := rec.Attempts[0]
	n := slices.IndexFunc(keys, func(k dryKey) bool { return k.ID == first.Key })
	if n < 0 || first.Tier != tier || rec.UpstreamModel != *keys[n].UpstreamModel {
		return first.Key, keys, fmt.Errorf("it went to %s of %s as %s", first.Key, first.Tier, rec.UpstreamModel)
	}
	return first.Key, keys, nil
}

// routeTally counts predicted and observed draws.
type routeTally struct{ observed, expected, variance float64 }

func (s *routeTally) add(p float64, hit bool) {
	if s.expected, s.variance = s.expected+p, s.variance+p*(1-p); hit {
		s.observed++
	}
}

func (s *routeTally) z() float64 { return (s.observed - s.expected) / math.Sqrt(s.variance) }

// routeFigures are those of all cases.
type routeFigures struct {
	said               map[string]int // dry runs by what they said
	pairs, draws, held int
	byChance           [10]routeTally // by predicted probability
	byOrder            [5]routeTally  // by the place among those that may be drawn
	spread, spreadOf   float64        // sum of z² of each draw case's first key, and how many
}

func (f *routeFigures) merge(g *routeFigures) {
	for what, n := range g.said {
		f.said[what] += n
	}
	f.pairs, f.draws, f.held = f.pairs+g.pairs, f.draws+g.draws, f.held+g.held
	f.spread, f.spreadOf = f.spread+g.spread, f.spreadOf+g.spreadOf
	for n := range f.byChance {
		f.byChance[n].merge(&g.byChance[n])
	}
	for n := range f.byOrder {
		f.byOrder[n].merge(&g.byOrder[n])
	}
}

func (s *routeTally) merge(o *routeTally) {
	s.observed, s.expected, s.variance = s.observed+o.observed, s.expected+o.expected, s.variance+o.variance
}

// routeGroups run at the same time, each with a provider of its own: most of a case's time is waiting for the disk.
const routeGroups = 8

// TestRouteIsReal asks the dry run and then the proxy itself, for many random configurations in random states.
func TestRouteIsReal(t *testing.T) {
	t.Parallel()
	cases, draws := routeCases, routeDraws
	if testing.Short() {
		cases, draws = cases/10, draws/10
	}
	var groups [routeGroups]routeFigures
	t.Run("cases", func(t *testing.T) { // ends when its groups have
		for g := range groups {
			t.Run(fmt.Sprint("group ", g), func(t *testing.T) {
				t.Parallel()
				p := &routeProvider{Provider: demo.New(demo.Options{}), rng: rand.New(rand.NewPCG(routeSeed, uint64(g)))}
				url := listen(t, p)
				groups[g].said = map[string]int{}
				for n := g; n < cases && !t.Failed(); n += routeGroups {
					t.Run(strconv.Itoa(n), func(t *testing.T) { routeOnce(t, n, p, url, &groups[g], draws/routeGroups+1) })
				}
			})
		}
	})
	all := &routeFigures{said: map[string]int{}}
	for g := range groups {
		all.merge(&groups[g])
	}
	all.check(t, cases)
}

// routeOnce is one case: a configuration, a state, and what is asked in it.
func routeOnce(t *testing.T, n int, p *routeProvider, url string, figures *routeFigures, draws int) {
	rng := rand.New(rand.NewPCG(routeSeed, 1000+uint64(n)))
	c := newRouteCase(rng, url)
	clock := &clock{time: time.Date(time.Now().Year()+1, time.Month(1+rng.IntN(12)), 28, rng.IntN(24), 0, 0, 0, time.UTC)}
	i := startAt(t, clock, nil, c.members...)
	finish := i.bring(c, p, clock, figures)
	defer finish()
	i.compare(c, clock, figures, figures.draws < draws)
}

// bring takes a daemon into a random state: requests that end well and badly, time, requests that are still in flight, keys
// that were switched off. finish lets go of what it holds.
func (i *instance) bring(c *routeCase, p *routeProvider, clock *clock, figures *routeFigures) (finish func()) {
	i.t.Helper()
	p.set(func() { p.good, p.hold = c.rng.IntN(101), nil })
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	var held []<-chan *reply
	var holds []*demo.Hold
	for range c.rng.IntN(26) {
		switch {
		case c.some(60):
			clock.set(clock.now().Add(time.Duration(c.rng.Int64N(int64(20 * time.Second)))))
		case c.some(75):
			clock.set(clock.now().Add(time.Duration(c.rng.Int64N(int64(5 * time.Minute)))))
		default:
			clock.set(clock.now().Add(time.Duration(c.rng.Int64N(int64(6 * time.Hour)))))
		}
		a := c.ask()
		c.last = a
		if c.some(4) {
			hold := demo.HoldAt(0)
			p.set(func() { p.hold = hold })
			done := i.background(ctx, question(a.model), a.header()...)
			select {
			case <-hold.Reached():
				held, holds = append(held, done), append(holds, hold)
			case <-done: // no key could be leased
			}
			p.set(func() { p.hold = nil })
			continue
		}
		if c.some(3) {
			if status, body := i.admin("POST", "/admin/keys/"+c.of(c.ids...)+"/disable"); status != 200 {
				i.t.Fatalf("disable: %v", body)
			}
		}
		i.message(question(a.model), a.header()...)
	}
	p.set(func() { p.good = 100 })
	if len(held) > 0 {
		figures.held++
	}
	return func() {
		for _, h := range holds {
			h.Release()
		}
		for _, done := range held {
			if r := <-done; r.err != nil {
				i.t.Errorf("a request that was held: %v", r.err)
			}
		}
		cancel()
	}
}

// compare asks and sends. Where a draw decides, and draws are wanted, it does so many times over, without a session or with
// new ones.
func (i *instance) compare(c *routeCase, clock *clock, figures *routeFigures, draws bool) {
	i.t.Helper()
	page := func() string { return i.ask("GET", "/api/pool/stats", "").body }
	a := c.ask()
	if c.last.model != "" && c.some(60) { // a conversation goes on
		a = c.last
	}
	before := page()
	d, text := i.dryRun(a)
	if _, again := i.dryRun(a); again != text || page() != before {
		i.t.Errorf("the dry run of %+v has changed something:\n%s\n%s\n%s\n%s", a, text, again, before, page())
	}
	figures.note(d)
	if _, _, problem := i.real(a, d); problem != nil {
		i.t.Fatalf("%+v: %v\nsaid: %s\nconfiguration: %s", a, problem, text, strings.Join(c.members, ",\n"))
	}
	figures.pairs++
	a.session = ""
	d, _ = i.dryRun(a)
	if _, keys, _ := d.drawn(); !draws || len(keys) < 2 {
		return
	}
	figures.draws++
	var first routeTally
	for n := range routePairs {
		clock.set(clock.now().Add(time.Duration(c.rng.Int64N(int64(3 * time.Second)))))
		if a.session = ""; c.some(50) {
			a.session = fmt.Sprint("fresh-", n)
		}
		d, text := i.dryRun(a)
		key, keys, problem := i.real(a, d)
		if problem != nil {
			i.t.Fatalf("%+v, pair %d: %v\nsaid: %s\nconfiguration: %s", a, n, problem, text, strings.Join(c.members, ",\n"))
		}
		figures.pairs++
		if len(keys) < 2 {
			continue
		}
		for at, k := range keys {
			figures.byChance[min(int(k.Probability*10), 9)].add(k.Probability, k.ID == key)
			figures.byOrder[at].add(k.Probability, k.ID == key)
		}
		first.add(keys[0].Probability, keys[0].ID == key)
	}
	i.keeps(c, clock, a)
	if first.variance >= 2 {
		figures.spread, figures.spreadOf = figures.spread+first.z()*first.z(), figures.spreadOf+1
	}
}

// keeps asks twice with one new session: whoever served it first, served it for certain the second time if a draw had decided,
// for draws are of session-sticky alone.
func (i *instance) keeps(c *routeCase, clock *clock, a routeAsk) {
	i.t.Helper()
	a.session = "kept"
	d, _ := i.dryRun(a)
	key, keys, problem := i.real(a, d)
	clock.set(clock.now().Add(time.Second))
	again, text := i.dryRun(a)
	tier, now, wrong := again.drawn()
	if problem != nil || wrong != nil {
		i.t.Fatalf("%+v: %v, %v", a, problem, wrong)
	}
	open := slices.ContainsFunc(again.Tiers, func(t dryTier) bool {
		return t.Name == tier && slices.ContainsFunc(t.Keys, func(k dryKey) bool { return k.ID == key && k.Gate == nil })
	})
	if len(keys) > 1 && open && len(now) != 1 {
		i.t.Errorf("the session was served by %s: %s\nconfiguration: %s", key, text, strings.Join(c.members, ",\n"))
	}
}

// note counts what a dry run said, to show that the states were worth it.
func (f *routeFigures) note(d *dryRun) {
	said := "one key"
	if _, keys, _ := d.drawn(); len(keys) > 1 {
		said = "a draw"
	}
	if d.Answer.Status != 0 {
		said = fmt.Sprint("status ", d.Answer.Status)
	}
	f.said[said]++
	seen := map[string]bool{}
	for _, t := range d.Tiers {
		if t.Gate != nil {
			seen["tier: "+*t.Gate] = true
		}
		for _, k := range t.Keys {
			if k.Gate != nil {
				seen["key: "+*k.Gate] = true
			}
		}
	}
	for gate := range seen {
		f.said[gate]++
	}
}

// Where no request key is configured, a dry run that names a session is about the session that a client has there.
func TestRouteKnowsSessionsWithoutCallers(t *testing.T) {
	t.Parallel()
	_, url := provider(t)
	limit := `"daily_limit_tokens":1000000`
	i := start(t, `"pool":{"max_wait_seconds":0,"keys":[`+poolKey(k1, url, limit)+`,`+poolKey(k2, url, limit)+`]}`)
	a := routeAsk{model: sonnet, session: "s"}
	rec := i.record(i.good(question(sonnet), "x-session-id: s").trace())
	for _, a.caller = range []string{auth.Anonymous, ""} {
		d, text := i.dryRun(a)
		if _, keys, _ := d.drawn(); len(keys) != 1 || keys[0].ID != rec.Key {
			t.Errorf("caller %q: the session is bound to %s, the dry run says %s", a.caller, rec.Key, text)
		}
	}
}

// routeMust is what the states have to contain.
var routeMust = []string{
	"one key", "a draw", "status 404", "status 429", "status 403", "tier: breaker_open", "tier: quota_guard", "tier: tier_return",
	"key: cooling", "key: day_limit", "key: month_limit", "key: busy", "key: disabled", "key: scope", "key: model",
}

// sigmas is how far an aggregate of draws may be from what was said: a pool's own seed is random, so a bound that one run in
// two million misses.
const sigmas = 5

func (f *routeFigures) check(t *testing.T, cases int) {
	t.Helper()
	var b strings.Builder
	tallies := func(what string, list []routeTally) {
		for n := range list {
			s := &list[n]
			if s.variance == 0 {
				continue
			}
			fmt.Fprintf(&b, "%s %d: expected %7.1f, observed %5.0f, z %+.2f\n", what, n, s.expected, s.observed, s.z())
			if math.Abs(s.z()) > sigmas && math.Abs(s.observed-s.expected) > sigmas { // the latter where few are expected
				t.Errorf("%s %d: expected %.1f, observed %.0f", what, n, s.expected, s.observed)
			}
		}
	}
	tallies("probability in tenth", f.byChance[:])
	tallies("place", f.byOrder[:])
	// z² has the mean 1 and about the variance 2: more says that some cases draw one key too often and others too rarely.
	limit := f.spreadOf + sigmas*math.Sqrt(2.5*f.spreadOf)
	fmt.Fprintf(&b, "sum of z² of %.0f cases' first keys: %.1f, at most %.1f\n", f.spreadOf, f.spread, limit)
	if f.spread > limit {
		t.Errorf("the sum of z² is %.1f for %.0f cases", f.spread, f.spreadOf)
	}
	var names []string
	for name := range f.said {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&b, "%s: %d\n", name, f.said[name])
	}
	t.Logf("%d cases, %d pairs of a dry run and a request, %d cases of draws, %d with requests in flight:\n%s", cases, f.pairs, f.draws, f.held, b.String())
	for _, name := range routeMust {
		if cases == routeCases && f.said[name] < 4 {
			t.Errorf("%q was said %d times", name, f.said[name])
		}
	}
}
