package daemon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"coding-proxy/proxy/demo"
	"coding-proxy/stats"
)

const (
	daySeed     = 20270131
	dayRequests = 10_000
)

// The models of the day: three that every tier serves, and two that only some do.
const (
	dayOpus, daySonnet, dayHaiku = "claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5"
	dayHouse                     = "house-1"       // the second and the fourth tier
	dayRare                      = "claude-rare-1" // one key of the first tier, and the third
)

// dayChain is the configuration. The figures of limits and budgets are such that they are met in the course of the day.
func dayChain() []dayTier {
	own := map[string]string{dayOpus: dayOpus, daySonnet: daySonnet, dayHaiku: dayHaiku}
	rare := map[string]string{dayOpus: dayOpus, daySonnet: daySonnet, dayHaiku: dayHaiku, dayRare: dayRare}
	house := map[string]string{dayOpus: "second-large", daySonnet: "second-medium", dayHaiku: "second-small", dayHouse: dayHouse}
	last := map[string]string{dayOpus: "last", daySonnet: "last", dayHaiku: "last-small", dayHouse: "last-house"}
	budget := dayGuardDefault
	budget.budget, budget.percent = 3_000_000, 95
	caps := dayGuardDefault
	caps.probe = 600 * time.Second
	wary := dayBreaker{failures: 2, successes: 2, recovery: 200 * time.Second, most: 1000 * time.Second}
	quick := dayBreaker{failures: 2, successes: 1, recovery: 60 * time.Second, most: 240 * time.Second}
	return []dayTier{
		{name: "first", strategy: "round-robin", returnsIdle: true, breaker: &dayBreakerDefault, guard: &budget, keys: []dayKey{
			{id: "day-a1", models: own, day: 4_000_000}, {id: "day-a2", models: own, month: 3_500_000}, {id: "day-a3", models: rare}}},
		{name: "second", strategy: "session-sticky", breaker: &wary, guard: &caps, keys: []dayKey{
			{id: "day-b1", models: house, day: 2_000_000}, {id: "day-b2", models: house, day: 1_500_000, month: 1_200_000},
			{id: "day-b3", models: map[string]string{dayOpus: "b3-large", daySonnet: "b3-medium", dayHaiku: "b3-small"}, month: 6_000_000}}},
		{name: "third", strategy: "fill-first", breaker: &quick, mapping: [][2]string{{dayHaiku, "air"}, {"claude-*", "five"}}, keys: []dayKey{
			{id: "day-c1", day: 700_000}, {id: "day-c2"}, {id: "day-c3"}}},
		{name: "fourth", strategy: "least-used", keys: []dayKey{{id: "day-d1", models: last}, {id: "day-d2", models: last}, {id: "day-d3", models: last}}},
	}
}

// dayCaller is who asks, and which keys its group leaves it; nil: all.
type dayCaller struct {
	code     string
	share    int // of 100 requests
	sessions int
	tiers    []string // of its group
	keys     []string
}

var dayCallers = []dayCaller{
	{"alice", 45, 25, nil, nil},
	{"bob", 32, 20, nil, nil},
	{"ci", 18, 12, []string{"second", "fourth"}, nil},
	{"solo", 5, 3, nil, []string{"day-b1"}},
}

// dayAnswers are the ways in which the providers of the day answer when they do not serve.
var dayAnswers = map[string]dayAnswer{
	"slow down":     {status: 429, message: "rate limit exceeded for this minute"},
	"slow down 40":  {status: 429, message: "slow down", retry: 40 * time.Second},
	"account":       {status: 429, message: "five hours are used up", retry: 400 * time.Second, account: true},
	"overloaded":    {status: 529, message: "Overloaded"},
	"unavailable":   {status: 503, message: "unavailable"},
	"maintenance":   {status: 503, message: "back soon", retry: 45 * time.Second},
	"overload late": {status: 529, kind: "overloaded_error", message: "Overloaded", event: true},
	"internal":      {status: 500, message: "internal error"},
	"gateway":       {status: 502, message: "bad gateway"},
	"page":          {status: 200, page: true},
	"closed":        {},
	"cut":           {status: 200, cut: true},
	"rejected":      {status: 401, message: "invalid x-api-key"},
	"forbidden":     {status: 403, message: "not for you"},
	"unpaid":        {status: 402, message: "pay first"},
	"credit":        {status: 400, message: "your credit balance is too low"},
	"capped":        {status: 429, message: "you have reached your usage cap"},
	"capped 30m":    {status: 429, message: "quota exceeded", retry: 30 * time.Minute},
	"unknown model": {status: 404, message: "model: not here"},
	"invalid":       {status: 400, message: "messages.0: bad"},
	"long":          {status: 413, message: "Request exceeds the maximum size"},
}

// dayPhase is a row of the script: from hour to hour after the start, the share of a key's answers that are of this kind.
type dayPhase struct {
	from, to   float64
	tier, key  string // "": any
	model      string // the client's name; "": any
	share      float64
	kind       string
	onlyStream bool
	whole      bool // a request meets it with all keys or with none: breakers see it
}

// dayScript is what the providers do. The first row that fits counts; what no row takes is served.
var dayScript = []dayPhase{
	// An hour's outage of the first tier, ten minutes of it without any answer.
	{from: 2.4, to: 2.4 + 1.0/6, tier: "first", share: 1, kind: "closed"},
	{from: 2, to: 3, tier: "first", share: 1, kind: "unavailable"},
	// Requests that no provider takes, while sessions wait in the second tier for their caches to be cold: they come back to it.
	{from: 3.02, to: 4.4, share: 0.07, kind: "overloaded", whole: true},
	// While the second tier carries the load: limits, a credential, caps up to the last key.
	{from: 2.2, to: 2.3, key: "day-b1", share: 1, kind: "slow down"},
	{from: 2.5, to: 2.6, tier: "second", share: 0.4, kind: "overloaded"},
	{from: 2.7, to: 2.75, tier: "second", share: 1, kind: "page"},
	{from: 2.7, to: 2.75, tier: "third", share: 0.6, kind: "internal"},
	// Limits, overloads and a credential of the first tier.
	{from: 0.6, to: 0.8, key: "day-a1", share: 1, kind: "slow down"},
	{from: 0.9, to: 1.0, tier: "first", share: 0.7, kind: "overloaded"},
	{from: 1.1, to: 1.2, key: "day-a3", share: 1, kind: "account"},
	{from: 1.3, to: 1.35, tier: "first", share: 1, kind: "maintenance"},
	{from: 3.6, to: 4.2, key: "day-a2", share: 1, kind: "rejected"},
	{from: 4.2, to: 4.3, key: "day-a3", share: 1, kind: "slow down 40"}, // which raises no streak
	{from: 4.3, to: 4.4, key: "day-a3", share: 1, kind: "slow down"},
	{from: 4.4, to: 4.5, tier: "first", model: dayOpus, share: 1, kind: "slow down"},
	{from: 4.6, to: 4.7, tier: "first", share: 0.5, kind: "overload late"},
	// Providers that come and go: breakers between half-open and closed.
	{from: 4.8, to: 5.6, tier: "first", share: 0.5, kind: "unavailable", whole: true},
	{from: 5, to: 5.8, tier: "second", share: 0.45, kind: "internal", whole: true},
	{from: 5.1, to: 5.8, tier: "third", share: 0.4, kind: "overloaded", whole: true},
	// The second tier loses key after key.
	{from: 6.5, to: 6.6, key: "day-b3", share: 1, kind: "capped 30m"},
	{from: 7.0, to: 7.1, key: "day-b1", share: 1, kind: "unpaid"},
	{from: 7.1, to: 7.6, tier: "second", share: 1, kind: "capped"},
	{from: 7.7, to: 7.8, tier: "third", share: 0.7, kind: "gateway"},
	{from: 7.8, to: 7.9, tier: "third", model: dayRare, share: 1, kind: "closed"},
	// Everything at once: now nobody can serve.
	{from: 9, to: 9.15, tier: "fourth", share: 1, kind: "slow down 40"},
	{from: 9, to: 9.15, tier: "third", share: 1, kind: "internal"},
	{from: 9, to: 9.15, share: 1, kind: "unavailable"},
	// The first tier's budget is used up, and its guard's probes fail.
	{from: 7.2, to: 7.7, tier: "first", share: 0.4, kind: "internal", whole: true},
	{from: 10.05, to: 10.25, tier: "first", share: 0.7, kind: "slow down", whole: true},
	{from: 10.25, to: 10.7, tier: "first", share: 0.5, kind: "internal", whole: true},
	// The small ones: a key's credit, a model that one provider drops, a gateway's page.
	{from: 17, to: 17.3, key: "day-a1", share: 1, kind: "credit"},
	{from: 10.2, to: 12.8, key: "day-a3", model: daySonnet, share: 1, kind: "slow down"}, // up to the longest backoff
	{from: 11, to: 11.4, tier: "first", model: dayHaiku, share: 1, kind: "unknown model"},
	{from: 12, to: 12.1, tier: "fourth", share: 0.5, kind: "internal"},
	{from: 12.5, to: 12.9, tier: "second", share: 0.6, kind: "unavailable"},
	{from: 13, to: 13.05, key: "day-b2", share: 1, kind: "forbidden"},
	{from: 14, to: 14.3, tier: "first", share: 1, kind: "gateway"},
	{from: 14, to: 14.2, tier: "second", share: 0.9, kind: "closed"},
	{from: 15, to: 15.2, tier: "third", share: 1, kind: "overloaded"},
	{from: 15, to: 15.1, tier: "first", share: 1, kind: "capped"},
	// All day long.
	{to: 25, share: 0.006, kind: "slow down"},
	{to: 25, share: 0.003, kind: "slow down 40"},
	{to: 25, share: 0.006, kind: "overloaded"},
	{to: 25, share: 0.003, kind: "overload late"},
	{to: 25, share: 0.004, kind: "internal"},
	{to: 25, share: 0.002, kind: "page"},
	{to: 25, share: 0.002, kind: "closed"},
	{to: 25, share: 0.012, kind: "cut", onlyStream: true},
}

// chance is the same number from 0 to 1 for the same parts, whoever asks.
func chance(parts ...uint64) float64 {
	h := uint64(daySeed)
	for _, p := range parts {
		h = (h ^ p) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	return float64(h>>11) / (1 << 53)
}

// dayWorld is the providers, and who asks them.
type dayWorld struct {
	start   time.Time
	tierOf  map[string]string
	current atomic.Pointer[dayRequest]
	tokens  float64 // by how much the figures of use are larger, so that a shorter day meets the same limits
}

// answer is what a key's provider says to a request: the script, read by the servers and by the oracle.
func (w *dayWorld) answer(r *dayRequest, key string) dayAnswer {
	hour := r.at.Sub(w.start).Hours()
	for n, p := range dayScript {
		if hour < p.from || hour >= p.to || p.tier != "" && p.tier != w.tierOf[key] || p.key != "" && p.key != key ||
			p.model != "" && p.model != r.model || p.onlyStream && !r.stream {
			continue
		}
		which := uint64(0)
		if !p.whole {
			which = uint64(key[4])<<8 + uint64(key[5])
		}
		if p.share == 1 || chance(uint64(r.number), uint64(n), which) < p.share {
			return dayAnswers[p.kind]
		}
	}
	if r.wrong != "" {
		return dayAnswers[r.wrong]
	}
	some := func(part uint64, most float64) int64 { return 1 + int64(w.tokens*most*chance(uint64(r.number), part)) }
	return dayAnswer{status: 200, input: some(1001, 2500), output: some(1002, 800), cacheNew: some(1003, 500), cacheRead: some(1004, 5000)}
}

// step is the answer in the simulated provider's terms.
func (a *dayAnswer) step() demo.Step {
	s := demo.Step{Text: answerText, Status: a.status, Type: a.kind, Message: a.message, Header: http.Header{},
		Usage: demo.Usage{Input: int(a.input), Output: int(a.output), CacheCreation: int(a.cacheNew), CacheRead: int(a.cacheRead)}}
	if a.retry > 0 {
		s.Header.Set("Retry-After", strconv.Itoa(int(a.retry.Seconds())))
	}
	if a.account {
		s.Header.Set("Anthropic-Ratelimit-Unified-5h-Status", "rejected")
	}
	switch {
	case a.status == 0:
		s.Break = demo.Cut
	case a.page:
		s.Raw = "<html>try later</html>"
	case a.event:
		s.Status, s.Break, s.After = 0, demo.ErrorEvent, 1
	case a.cut:
		s.Break, s.After = demo.Cut, 4 // behind the first delta
	}
	return s
}

// provider runs the simulated provider of a tier.
func (w *dayWorld) provider(t *testing.T, tier string) string {
	p := demo.New(demo.Options{Name: tier})
	return listen(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		key := strings.TrimPrefix(r.Header.Get("X-Api-Key"), credential(""))
		if w.tierOf[key] != tier {
			t.Errorf("the provider of %s gets a request with %q", tier, key)
		}
		a := w.answer(w.current.Load(), key)
		p.Always(a.step())
		p.ServeHTTP(rw, r)
	}))
}

// members is the configuration's text.
func (w *dayWorld) members(t *testing.T, tiers []dayTier) []string {
	var chain, keys, callers, groups []string
	for _, tier := range tiers {
		chain = append(chain, tier.text())
		url := w.provider(t, tier.name)
		for _, k := range tier.keys {
			w.tierOf[k.id] = tier.name
			more := []string{fmt.Sprintf(`"tier":%q`, tier.name)}
			if k.models != nil {
				models, _ := json.Marshal(k.models) // of strings
				more = append(more, `"models":`+string(models))
			}
			if k.day > 0 {
				more = append(more, fmt.Sprintf(`"daily_limit_tokens":%d`, k.day))
			}
			if k.month > 0 {
				more = append(more, fmt.Sprintf(`"monthly_limit_tokens":%d`, k.month))
			}
			keys = append(keys, poolKey(k.id, url, more...))
		}
	}
	for _, c := range dayCallers {
		group := ""
		if c.limited() {
			list := func(names []string) string { return strings.ReplaceAll(fmt.Sprintf("%q", names), " ", ",") }
			groups = append(groups, fmt.Sprintf(`{"name":"of-%s","tiers":%s,"keys":%s}`, c.code, list(c.tiers), list(c.keys)))
			group = fmt.Sprintf(`,"group":"of-%s"`, c.code)
		}
		callers = append(callers, fmt.Sprintf(`{"code":%q,"api_key":"request-key-of-%s"%s}`, c.code, c.code, group))
	}
	return []string{
		`"tiers":[` + strings.Join(chain, ",") + `]`,
		// The attempts suffice for every key. Sessions stay where they are: which one rebalancing moves is not the rules' to say.
		`"failover":{"max_attempts":12}`,
		// A quarter of a token is exact in binary, so that no rounding decides whether a limit is met.
		`"pool":{"max_wait_seconds":0,"rebalance_threshold":1,"count":{"cache_read":0.25},"keys":[` + strings.Join(keys, ",") + `]}`,
		`"auth":{"request_keys":[` + strings.Join(callers, ",") + `],"groups":[` + strings.Join(groups, ",") + `]}`,
	}
}

func (c *dayCaller) limited() bool { return c.tiers != nil || c.keys != nil }

func (t *dayTier) text() string {
	out := map[string]any{"name": t.name, "strategy": t.strategy}
	if t.returnsIdle {
		out["tier_return"] = "idle"
	}
	if b := t.breaker; b != nil {
		out["circuit_breaker"] = map[string]any{}
		if *b != dayBreakerDefault {
			out["circuit_breaker"] = map[string]any{"failure_threshold": b.failures, "success_threshold": b.successes,
				"recovery_timeout_seconds": b.recovery.Seconds(), "max_recovery_seconds": b.most.Seconds()}
		}
	}
	if g := t.guard; g != nil {
		out["quota_guard"] = map[string]any{"token_budget": g.budget, "threshold_percent": g.percent,
			"window_hours": g.window.Hours(), "probe_interval_seconds": g.probe.Seconds()}
	}
	var rules []map[string]string
	for _, rule := range t.mapping {
		rules = append(rules, map[string]string{"pattern": rule[0], "target": rule[1]})
	}
	if rules != nil {
		out["model_mapping"] = rules
	}
	text, _ := json.Marshal(out) // of plain values
	return string(text)
}

// dayPlan makes the requests: busy and quiet hours, half of them in bursts, conversations that come and go.
func dayPlan(n int, start time.Time, tiers []dayTier) []*dayRequest {
	rng := rand.New(rand.NewPCG(daySeed, uint64(n)))
	busy := [24]int{2, 5, 8, 8, 8, 8, 7, 8, 8, 9, 7, 5, 4, 4, 5, 3, 2, 1, 1, 1, 1, 1, 1, 2} // from the start on
	var hours []int
	for h, weight := range busy {
		hours = append(hours, slices.Repeat([]int{h}, weight)...)
	}
	var at []time.Duration
	for range n {
		h := time.Duration(hours[rng.IntN(len(hours))]) * time.Hour
		if rng.IntN(2) == 0 {
			at = append(at, h+time.Duration(rng.Int64N(int64(time.Hour))))
			continue
		}
		burst := time.Duration(6*60*math.Floor(rng.Float64()*10)) * time.Second
		at = append(at, h+burst+min(time.Duration(rng.ExpFloat64()*float64(20*time.Second)), 5*time.Minute))
	}
	slices.Sort(at)
	scopes := map[string]map[string]bool{}
	for _, c := range dayCallers {
		scopes[c.code] = c.scope(tiers)
	}
	models := []string{dayOpus, daySonnet, daySonnet, daySonnet, dayHaiku, dayHaiku, dayHouse, dayRare}
	active := map[string][]int{}
	var plan []*dayRequest
	for i, offset := range at {
		c := pickCaller(rng)
		r := &dayRequest{number: i, at: start.Add(offset), caller: c.code, scope: scopes[c.code], stream: rng.IntN(3) == 0, failing: -1}
		now := active[c.code]
		if len(now) == 0 || rng.IntN(25) == 0 { // another conversation takes the place of one
			now = append(now[max(0, len(now)-2):len(now):len(now)], rng.IntN(c.sessions))
			active[c.code] = now
		}
		s := now[rng.IntN(len(now))]
		r.model = models[(s*5+len(c.code))%len(models)] // a conversation has its model
		if rng.IntN(6) == 0 {
			r.model = models[rng.IntN(len(models))]
		}
		if rng.IntN(12) > 0 {
			r.session = fmt.Sprintf("%s-%d", c.code, s)
		}
		switch rng.IntN(100) {
		case 0:
			r.wrong = "invalid"
		case 1:
			r.wrong = "long"
		}
		plan = append(plan, r)
	}
	return plan
}

func pickCaller(rng *rand.Rand) *dayCaller {
	n := rng.IntN(100)
	for i := range dayCallers {
		if n -= dayCallers[i].share; n < 0 {
			return &dayCallers[i]
		}
	}
	return &dayCallers[0]
}

func (c *dayCaller) scope(tiers []dayTier) map[string]bool {
	if !c.limited() {
		return nil
	}
	scope := map[string]bool{}
	for _, id := range c.keys {
		scope[id] = true
	}
	for _, t := range tiers {
		for _, k := range t.keys {
			if slices.Contains(c.tiers, t.name) {
				scope[k.id] = true
			}
		}
	}
	return scope
}

// tail reads a journal as it grows: reading all of it after each of 10,000 requests would take too long.
type tail struct {
	dir, name string
	offset    int64
}

// next returns the one line that has come since, into the file of this day.
func (j *tail) next(now time.Time) (r stats.Record, err error) {
	if name := now.Format(time.DateOnly) + ".jsonl"; name != j.name {
		j.name, j.offset = name, 0
	}
	f, err := os.Open(filepath.Join(j.dir, "journal", j.name))
	if err != nil {
		return r, err
	}
	defer f.Close()
	line := make([]byte, 64<<10)
	n, _ := f.ReadAt(line, j.offset) // io.EOF at the end of the file
	line = line[:n]
	if bytes.Count(line, []byte("\n")) != 1 || line[n-1] != '\n' {
		return r, fmt.Errorf("not one new line in the journal: %q", line)
	}
	j.offset += int64(n)
	return r, json.Unmarshal(line, &r)
}

// dayHour is a line of the table.
type dayHour struct {
	requests, failovers int
	served              [4]int // by tier
	broken              int    // of the served ones
	exhausted           int    // no key could be leased: 429
	unknown             int    // no key of the scope has the model: 404
	failed              int    // every key that could be leased failed
	own                 int    // the client's own fault
}

// TestScriptedDay runs a day of a chain of four tiers whose providers misbehave by a script, and compares what became of
// each of 10,000 requests with an oracle that reads design/routing.md as data.
func TestScriptedDay(t *testing.T) {
	t.Parallel()
	n := dayRequests
	if testing.Short() {
		n /= 10
	}
	// The last day of a month, so that both kinds of limits end in it; in the future, for deadlines of real connections are set
	// by this clock.
	start := time.Date(time.Now().Year()+1, time.January, 31, 6, 0, 0, 0, time.UTC)
	tiers := dayChain()
	world := &dayWorld{start: start, tierOf: map[string]string{}, tokens: float64(dayRequests) / float64(n)}
	clock := &clock{time: start}
	i := startAt(t, clock, nil, world.members(t, tiers)...)
	oracle, journal := newDayOracle(tiers), &tail{dir: i.dir}
	hours := make([]dayHour, 25)
	moved := 0
	for _, r := range dayPlan(n, start, tiers) {
		least, most := int64(0), int64(0)
		if a := world.plain(r); r.wrong == "" {
			least, most = a.tokens(), a.tokens()
		}
		if r.stream { // one that breaks has used less
			least = 0
		}
		planned := r.at
		if now := clock.now(); !r.at.After(now) {
			r.at = now.Add(time.Millisecond)
		}
		if r.at = oracle.settled(r.at, least, most); !r.at.Equal(planned) {
			moved++
		}
		clock.set(r.at)
		world.current.Store(r)
		hour := &hours[min(int(r.at.Sub(start).Hours()), len(hours)-1)]
		if problem := i.followDay(r, oracle, world, journal, hour); problem != nil {
			t.Fatalf("request %d at %s of %s for %s (session %q, stream %t): %v", r.number, r.at.Format(time.TimeOnly), r.caller, r.model, r.session, r.stream, problem)
		}
	}
	t.Logf("%d requests, %d of them later than planned, until %s", n, moved, clock.now().Format(time.DateTime))
	logDay(t, hours, oracle, n)
}

// plain is the answer when nothing goes wrong: its figures depend on the request alone.
func (w *dayWorld) plain(r *dayRequest) dayAnswer {
	undisturbed := *r
	undisturbed.at = w.start.Add(-time.Hour)
	return w.answer(&undisturbed, "day-a1")
}

func (a *dayAnswer) tokens() int64 { return 4*(a.input+a.output+a.cacheNew) + a.cacheRead }

// followDay sends one request of the day and says where the proxy and the oracle differ.
func (i *instance) followDay(r *dayRequest, oracle *dayOracle, world *dayWorld, journal *tail, hour *dayHour) error {
	var more, header []string
	if r.stream {
		more = append(more, streamed)
	}
	header = append(header, "x-api-key: request-key-of-"+r.caller)
	if r.session != "" {
		header = append(header, "x-session-id: "+r.session)
	}
	reply := i.message(question(r.model, more...), header...)
	rec, err := journal.next(r.at)
	if err != nil {
		return err
	}
	if rec.Trace != reply.trace() || rec.Status != reply.status || rec.Caller != r.caller || rec.Requested != r.model {
		return fmt.Errorf("status %d and the journal line %+v", reply.status, rec)
	}
	var seen []daySeen
	for n, a := range rec.Attempts {
		if a.Outcome == "stale" { // the connection's fault: the same attempt again
			if n+1 == len(rec.Attempts) || rec.Attempts[n+1].Key != a.Key {
				return fmt.Errorf("not again with the same key: %+v", rec.Attempts)
			}
			continue
		}
		seen = append(seen, daySeen{a.Tier, a.Key, a.Outcome, a.Status})
	}
	tokens := 4*(rec.InputTokens+rec.OutputTokens+rec.CacheCreationTokens) + rec.CacheReadTokens
	v, err := oracle.judge(r, seen, func(key string) dayAnswer { return world.answer(r, key) }, tokens)
	if err != nil {
		return fmt.Errorf("%w; attempts %+v, skipped %+v", err, rec.Attempts, rec.Skipped)
	}
	hour.requests++
	if v.attempts > 1 {
		hour.failovers++
	}
	if reply.status != v.status || v.attempts != len(seen) || v.attempts > 0 && rec.UpstreamModel != v.upstream {
		return fmt.Errorf("status %d for %s with %+v, want %+v", reply.status, rec.UpstreamModel, rec.Attempts, v)
	}
	switch {
	case v.tier >= 0:
		hour.served[v.tier]++
		if v.broken {
			hour.broken++
		}
		if want := world.plain(r); rec.Tier != oracle.tiers[v.tier].name || v.broken != (rec.Outcome == stats.OutcomeBroken) || !v.broken && tokens != want.tokens() {
			return fmt.Errorf("the journal has %+v, want %+v with %d quarters of tokens", rec, v, want.tokens())
		}
	case v.status == http.StatusNotFound && v.attempts == 0:
		hour.unknown++
	case v.attempts == 0:
		hour.exhausted++
	case r.wrong != "" && seen[len(seen)-1].outcome == "passthrough":
		hour.own++
	default:
		hour.failed++
	}
	return nil
}

// A session that came back to the first tier, because the lower one failed, does not leave it again when the lower one
// recovers: the chain's order outranks the binding (routing.md, section 2), whatever the first tier's strategy is.
func TestIdleReturnIsKept(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{"session-sticky", "round-robin"} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			upper, upperURL := provider(t)
			lower, lowerURL := provider(t)
			clock := &clock{time: time.Now()}
			limit := `"daily_limit_tokens":1000000`
			i := startAt(t, clock, nil, fmt.Sprintf(`"tiers":[{"name":"upper","strategy":%q,"tier_return":"idle"},{"name":"lower"}]`, strategy),
				`"pool":{"max_wait_seconds":0,"keys":[`+poolKey(k1, upperURL, `"tier":"upper"`, limit)+`,`+poolKey(k2, lowerURL, `"tier":"lower"`, limit)+`]}`)
			for n, step := range []struct {
				after time.Duration
				fails *demo.Provider
				want  string
			}{
				{0, upper, "lower"},               // the session goes down
				{40 * time.Second, nil, "lower"},  // and stays while its cache is warm there
				{time.Second, lower, "upper"},     // the lower tier fails: up again
				{40 * time.Second, nil, "upper"},  // the lower tier is well again
				{301 * time.Second, nil, "upper"}, // its cache is cold
			} {
				clock.set(clock.now().Add(step.after))
				if step.fails != nil {
					step.fails.Push(demo.Step{Status: 429, Header: http.Header{"Retry-After": {"30"}}})
				}
				if rec := i.record(i.good(question(sonnet), "x-session-id: s").trace()); rec.Tier != step.want {
					t.Errorf("request %d is served by %s, not by %s; skipped %+v", n, rec.Tier, step.want, rec.Skipped)
				}
			}
		})
	}
}

// logDay prints the table and checks that the day was worth it.
func logDay(t *testing.T, hours []dayHour, oracle *dayOracle, n int) {
	t.Helper()
	var b strings.Builder
	row := func(name string, h dayHour) {
		fmt.Fprintf(&b, "%5s", name)
		for _, n := range h.figures() {
			fmt.Fprintf(&b, "%10d", *n)
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "%5s", "hour")
	for _, name := range []string{"requests", "first", "second", "third", "fourth", "failovers", "broken", "exhausted", "unknown", "failed", "own"} {
		fmt.Fprintf(&b, "%10s", name)
	}
	b.WriteString("\n")
	var sum dayHour
	for i, h := range hours {
		if h.requests == 0 {
			continue
		}
		row(fmt.Sprintf("%02d", (6+i)%24), h)
		of := h.figures()
		for k, total := range sum.figures() {
			*total += *of[k]
		}
	}
	row("all", sum)
	var names []string
	for name := range oracle.happened {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&b, "  %s: %d\n", name, oracle.happened[name])
	}
	t.Logf("what became of the requests of each hour:\n%s", b.String())
	served := sum.served[0] + sum.served[1] + sum.served[2] + sum.served[3]
	if sum.requests != n || served+sum.exhausted+sum.unknown+sum.failed+sum.own != n {
		t.Errorf("%d of %d requests are in the table: %+v", sum.requests, n, sum)
	}
	if n < dayRequests {
		return // a shorter day meets less
	}
	for _, name := range dayMust {
		if oracle.happened[name] == 0 {
			t.Errorf("the day was not worth it: %q did not happen", name)
		}
	}
	for k, n := range sum.figures() {
		if *n == 0 {
			t.Errorf("column %d of the table is empty", k+1)
		}
	}
}

// dayMust is what has to happen in a day that is worth the name, in the oracle's words.
var dayMust = []string{
	"ok", "broken", "passthrough", "rate_limit", "overload", "fault", "credential", "cap", "unknown_model",
	"gate cooling", "gate day_limit", "gate month_limit", "lone key", "session moved",
	"open first", "half-open first", "closed first", "open second", "half-open second", "closed second",
	"open third", "half-open third", "closed third", "last tier's breaker let in",
	"exceeded by budget first", "budget slid first", "guard probe good first", "guard probe failed",
	"exceeded by cap second", "guard probe second", "guard probe good second",
	"refused by breaker first", "refused by breaker second", "refused by breaker third",
	"refused by guard first", "refused by guard second", "refused by return first",
}

func (h *dayHour) figures() []*int {
	return []*int{&h.requests, &h.served[0], &h.served[1], &h.served[2], &h.served[3], &h.failovers, &h.broken, &h.exhausted, &h.unknown, &h.failed, &h.own}
}
