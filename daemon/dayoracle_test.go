package daemon

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// The oracle of TestScriptedDay: design/routing.md as data, and a slow reading of it that shares nothing with the product. It
// follows one request at a time, so nothing is ever in flight beside it.

// dayTier is a tier of the chain as the configuration has it.
type dayTier struct {
	name, strategy string
	returnsIdle    bool
	breaker        *dayBreaker
	guard          *dayGuard
	mapping        [][2]string // model name, or its beginning with a star → upstream's name; nil: as it is
	keys           []dayKey
}

type dayKey struct {
	id         string
	models     map[string]string // nil: any
	day, month int64             // limits in tokens; 0: none
}

type dayBreaker struct {
	failures, successes int
	recovery, most      time.Duration
}

type dayGuard struct {
	budget, percent int64 // budget 0: caps only
	window, probe   time.Duration
}

// Section 7 and 8: what `{}` stands for.
var (
	dayBreakerDefault = dayBreaker{failures: 3, successes: 2, recovery: 300 * time.Second, most: 3600 * time.Second}
	dayGuardDefault   = dayGuard{percent: 99, window: 5 * time.Hour, probe: 300 * time.Second}
)

// dayRow is a row of section 4: what came back, and what that is called. The first row that fits counts.
type dayRow struct {
	outcome  string
	status   []int
	says     []string // one of them is in the message; nil: any message
	not      string   // is not in it
	resetMin time.Duration
}

var dayRows = []dayRow{
	{outcome: "passthrough", status: []int{413}},
	{outcome: "passthrough", status: []int{400}, says: []string{"prompt is too long", "context window"}},
	{outcome: "cap", status: []int{402}},
	{outcome: "cap", status: []int{403, 429}, says: []string{"usage cap", "quota", "credit balance", "spending limit", "limit exceeded"},
		not: "rate limit", resetMin: 10 * time.Minute},
	{outcome: "cap", status: []int{400}, says: []string{"credit balance"}},
	{outcome: "credential", status: []int{401, 403}},
	{outcome: "rate_limit", status: []int{429}},
	{outcome: "overload", status: []int{503, 529}},
	{outcome: "fault", status: []int{0, 200, 500, 502, 504}}, // 0: no answer; 200: one that is none of the dialect
	{outcome: "unknown_model", status: []int{404}, says: []string{"model"}},
	{outcome: "passthrough", status: []int{400, 404, 422}},
}

// dayEffect is what an outcome does to the key and to the breaker.
type dayEffect struct {
	cools, most time.Duration // most: it doubles with the streak up to this
	ofModel     bool          // of the key for this upstream model, else of the key
	stated      bool          // a stated reset counts instead, without the streak
	passing     bool          // a lone key cools for dayLone at most
	breaker     bool          // a failure for the tier's breaker
}

var dayEffects = map[string]dayEffect{
	"cap":           {cools: time.Hour, stated: true},
	"credential":    {cools: time.Hour},
	"rate_limit":    {cools: 30 * time.Second, most: 30 * time.Minute, ofModel: true, stated: true, passing: true},
	"overload":      {cools: 30 * time.Second, most: 30 * time.Minute, ofModel: true, stated: true, passing: true, breaker: true},
	"fault":         {cools: 30 * time.Second, most: 30 * time.Minute, stated: true, passing: true, breaker: true},
	"unknown_model": {cools: 10 * time.Minute, ofModel: true},
	"passthrough":   {},
}

const (
	dayLoneLeast, dayLone = 4 * time.Second, 5 * time.Second // "at most 5 s", and not much less
	dayJitter             = 10                               // up to so many percent more
	dayCold               = 5 * time.Minute                  // tier_return idle
	dayGrain              = time.Minute                      // for so long a sliding window may keep what is too old
)

// dayAnswer is what a provider sends.
type dayAnswer struct {
	status    int    // 200: a good answer; 0: the connection is closed
	kind      string // error type; "" = what belongs to the status
	message   string
	retry     time.Duration // retry-after
	account   bool          // the account's five-hour window is exhausted
	page      bool          // a web page
	event     bool          // the error is the first event of a stream of status 200
	cut       bool          // the stream ends after some content
	input     int64
	output    int64
	cacheNew  int64
	cacheRead int64
}

// outcome reads the table.
func (a *dayAnswer) outcome() string {
	if a.status == 200 && !a.page && !a.cut {
		return "ok"
	}
	for _, row := range dayRows {
		if !slices.Contains(row.status, a.status) || row.not != "" && strings.Contains(a.message, row.not) ||
			row.resetMin > 0 && a.retry > 0 && a.retry < row.resetMin {
			continue
		}
		if row.says == nil || slices.ContainsFunc(row.says, func(w string) bool { return strings.Contains(a.message, w) }) {
			return row.outcome
		}
	}
	return "passthrough"
}

// replayed is the status that a client gets when this answer is the one that is handed on.
func (a *dayAnswer) replayed() int {
	switch a.status {
	case 0, 200:
		return 502
	case 401, 403:
		return 503
	}
	return a.status
}

// dayRequest is one request of the day.
type dayRequest struct {
	number  int
	at      time.Time
	caller  string
	scope   map[string]bool // key ids; nil: all
	model   string
	session string
	stream  bool
	wrong   string // the client's own fault: "invalid" or "long"

	tried   []string
	failing int          // the tier in which its attempts failed; -1: none
	counted []int        // the tiers whose breakers have counted it: once each, however often it comes back
	probes  map[int]bool // the tiers whose guards have let it in as a probe
}

// daySeen is an attempt as the journal has it.
type daySeen struct {
	tier, key, outcome string
	status             int
}

// dayVerdict is what must have come of a request.
type dayVerdict struct {
	tier     int // that served it; -1: none
	status   int
	upstream string // model
	attempts int
	broken   bool
}

type daySpan struct{ first, last time.Time }

// dayScope is what cools: a key, or a key for one upstream model.
type dayScope struct{ key, model string }

type dayCooling struct {
	until  daySpan
	streak map[string]int // by outcome
}

// dayUse is what one key used on the day and in the month of its last answer, in quarters of a token.
type dayUse struct {
	day, month string
	today, sum int64
}

type dayBinding struct {
	key  string
	seen time.Time
	left time.Time // when a higher tier whose tier_return is idle last served the session
}

type dayState struct {
	// breaker
	state               string // "", "open", "half"
	failures, successes int
	recovery            time.Duration
	opened              time.Time
	// guard
	exceeded string // "", "budget", "cap"
	end      daySpan
	probeAt  time.Time
	spent    []daySpent // of the window
	sum      [2]int64   // what it holds at least and at most
	gone     [2]int     // how many of spent have left it for each

	turn int // round-robin: index of the next key
}

type daySpent struct {
	at     time.Time
	tokens int64
}

// dayOracle follows the day.
type dayOracle struct {
	tiers    []dayTier
	state    []dayState
	cooling  map[dayScope]*dayCooling
	used     map[string]*dayUse
	bound    map[string]map[int]*dayBinding // session → tier
	happened map[string]int                 // what the day has seen, to show that it was worth it
}

func newDayOracle(tiers []dayTier) *dayOracle {
	o := &dayOracle{tiers: tiers, state: make([]dayState, len(tiers)), cooling: map[dayScope]*dayCooling{}, used: map[string]*dayUse{},
		bound: map[string]map[int]*dayBinding{}, happened: map[string]int{}}
	for i, t := range tiers {
		if t.breaker != nil {
			o.state[i].recovery = t.breaker.recovery
		}
	}
	return o
}

// settled moves t on until neither a cooldown's jitter nor a window's grain decides anything, for a request that will use so
// many quarters of a token, at least and at most.
func (o *dayOracle) settled(t time.Time, least, most int64) time.Time {
	for again := true; again; {
		again = false
		wait := func(s daySpan) {
			if !t.Before(s.first) && t.Before(s.last) {
				t, again = s.last, true
			}
		}
		for _, c := range o.cooling {
			wait(c.until)
		}
		for i := range o.tiers {
			wait(o.state[i].end)
			if o.hovers(i, t, least, most) {
				t, again = t.Add(time.Second), true
			}
		}
	}
	return t
}

// hovers reports whether nobody can tell on which side of its budget a tier's window is, now or with the tokens.
func (o *dayOracle) hovers(i int, t time.Time, least, most int64) bool {
	g, s := o.tiers[i].guard, &o.state[i]
	if g == nil || g.budget == 0 {
		return false
	}
	o.slide(i, t)
	limit := g.budget * 4 * g.percent / 100
	// Some n from least to most takes what the window holds at most to the limit, and what it holds at least not.
	between := func(least, most int64) bool { return max(least, limit-s.sum[1]) <= min(most, limit-s.sum[0]-1) }
	return s.exceeded != "" && between(0, 0) || between(least, most)
}

// slide drops what has left a tier's window.
func (o *dayOracle) slide(i int, now time.Time) {
	s := &o.state[i]
	for n, grain := range []time.Duration{0, dayGrain} {
		for s.gone[n] < len(s.spent) && !s.spent[s.gone[n]].at.Add(o.tiers[i].guard.window+grain).After(now) {
			s.sum[n] -= s.spent[s.gone[n]].tokens
			s.gone[n]++
		}
	}
}

// sync brings breakers and guards up to the time.
func (o *dayOracle) sync(now time.Time) {
	for i := range o.tiers {
		s := &o.state[i]
		if s.state == "open" && now.Sub(s.opened) >= s.recovery {
			s.state, s.successes = "half", 0
			o.happened["half-open "+o.tiers[i].name]++
		}
		if g := o.tiers[i].guard; g != nil {
			o.slide(i, now)
			over := g.budget > 0 && s.sum[0] >= g.budget*4*g.percent/100
			if s.exceeded == "budget" && !over {
				s.exceeded = ""
				o.happened["budget slid "+o.tiers[i].name]++
			}
			if s.exceeded == "cap" && !s.end.last.IsZero() && !now.Before(s.end.last) {
				s.exceeded = ""
			}
			if s.exceeded == "" && over {
				o.exceed(i, now, "budget", 0)
			}
		}
	}
}

func (o *dayOracle) exceed(i int, now time.Time, by string, reset time.Duration) {
	s := &o.state[i]
	if by != "cap" || s.exceeded != by { // told of the same cap again, it goes on as it is
		s.exceeded, s.end, s.probeAt = by, daySpan{}, now.Add(o.tiers[i].guard.probe)
	}
	if reset > 0 {
		s.end = daySpan{now.Add(reset), now.Add(reset + reset*dayJitter/100)}
	}
	o.happened["exceeded by "+by+" "+o.tiers[i].name]++
}

// serves is section 5.
func (o *dayOracle) serves(i int, k *dayKey, model string) (string, bool) {
	if k.models != nil {
		name, ok := k.models[model]
		return name, ok
	}
	if o.tiers[i].mapping == nil {
		return model, true
	}
	for _, rule := range o.tiers[i].mapping {
		if begin, star := strings.CutSuffix(rule[0], "*"); rule[0] == model || star && strings.HasPrefix(model, begin) {
			return rule[1], true
		}
	}
	return "", false
}

// use is the key's tokens of the day and the month of now.
func (o *dayOracle) use(key string, now time.Time) *dayUse {
	u := o.used[key]
	if u == nil {
		u = &dayUse{}
		o.used[key] = u
	}
	if d := now.Format("2006-01-02"); u.day != d {
		u.day, u.today = d, 0
	}
	if m := now.Format("2006-01"); u.month != m {
		u.month, u.sum = m, 0
	}
	return u
}

// gate names the gate of a key's own that refuses it, "" for none.
func (o *dayOracle) gate(k *dayKey, upstream string, now time.Time) string {
	for _, s := range []dayScope{{k.id, ""}, {k.id, upstream}} {
		if c := o.cooling[s]; c != nil && now.Before(c.until.first) {
			return "cooling"
		}
	}
	switch u := o.use(k.id, now); {
	case k.day > 0 && u.today >= k.day*4:
		return "day_limit"
	case k.month > 0 && u.sum >= k.month*4:
		return "month_limit"
	}
	return ""
}

// open lists the tier's keys that pass their own gates and were not tried, any counts those that serve the model.
func (o *dayOracle) open(r *dayRequest, i int) (open []*dayKey, any int) {
	for n := range o.tiers[i].keys {
		k := &o.tiers[i].keys[n]
		upstream, ok := o.serves(i, k, r.model)
		if !ok || r.scope != nil && !r.scope[k.id] {
			continue
		}
		any++
		if slices.Contains(r.tried, k.id) {
			continue
		}
		if g := o.gate(k, upstream, r.at); g != "" {
			o.happened["gate "+g]++
			continue
		}
		open = append(open, k)
	}
	return open, any
}

// refusal names what keeps the request out of a tier, "" for nothing.
func (o *dayOracle) refusal(r *dayRequest, i int) string {
	s := &o.state[i]
	if s.state == "open" {
		for j := i + 1; j < len(o.tiers); j++ {
			if _, any := o.open(r, j); any > 0 {
				return "breaker"
			}
		}
		o.happened["last tier's breaker let in"]++
	}
	if s.exceeded != "" && r.at.Before(s.probeAt) && !r.probes[i] {
		return "guard"
	}
	if o.tiers[i].returnsIdle && o.stays(r, i) {
		return "return"
	}
	return ""
}

// stays reports whether the session was in a lower tier within dayCold and has not come back since, and can be served by the
// same key there.
func (o *dayOracle) stays(r *dayRequest, i int) bool {
	for j := i + 1; j < len(o.tiers); j++ {
		b := o.bound[r.session][j]
		if b == nil || !b.seen.After(b.left) || r.at.Sub(b.seen) > dayCold || o.refusal(r, j) != "" {
			continue
		}
		if open, _ := o.open(r, j); slices.ContainsFunc(open, func(k *dayKey) bool { return k.id == b.key }) {
			return true
		}
	}
	return false
}

// next is section 1: the tier that serves next and the keys that its strategy may take; -1 for none.
func (o *dayOracle) next(r *dayRequest) (tier int, keys []string) {
	for i := range o.tiers {
		open, _ := o.open(r, i)
		if len(open) == 0 {
			continue
		}
		if why := o.refusal(r, i); why != "" {
			o.happened["refused by "+why+" "+o.tiers[i].name]++
			continue
		}
		return i, o.pick(r, i, open)
	}
	return -1, nil
}

// pick is section 3: which keys the strategy may take.
func (o *dayOracle) pick(r *dayRequest, i int, open []*dayKey) (ids []string) {
	switch o.tiers[i].strategy {
	case "fill-first":
		return []string{open[0].id}
	case "round-robin":
		for n := range o.tiers[i].keys {
			k := &o.tiers[i].keys[(o.state[i].turn+n)%len(o.tiers[i].keys)]
			if slices.Contains(open, k) {
				return []string{k.id}
			}
		}
	case "least-used": // of keys without limits
		least := slices.MinFunc(open, func(a, b *dayKey) int { return int(o.use(a.id, r.at).today - o.use(b.id, r.at).today) })
		for _, k := range open {
			if o.use(k.id, r.at).today == o.use(least.id, r.at).today {
				ids = append(ids, k.id)
			}
		}
		return ids
	}
	if b := o.bound[r.session][i]; b != nil && slices.ContainsFunc(open, func(k *dayKey) bool { return k.id == b.key }) {
		return []string{b.key}
	}
	for _, k := range open {
		ids = append(ids, k.id)
	}
	return ids
}

// judge follows one request. seen are the attempts that were made: they say which key was drawn where the rules leave a
// choice. answer is what the provider of a key said, tokens what the answer was counted as.
func (o *dayOracle) judge(r *dayRequest, seen []daySeen, answer func(key string) dayAnswer, tokens int64) (v dayVerdict, problem error) {
	o.sync(r.at)
	r.failing, r.probes = -1, map[int]bool{}
	v.tier, v.status = -1, 429
	first := -1 // tier
	for n := 0; ; n++ {
		tier, keys := o.next(r)
		switch {
		case tier < 0 && n < len(seen):
			return v, fmt.Errorf("attempt %d is at %s with %s: nothing can be leased", n, seen[n].tier, seen[n].key)
		case tier < 0:
			o.leave(r, -1)
			return o.refused(r, v, first), nil
		case n == len(seen):
			return v, fmt.Errorf("no attempt %d: %s could serve with %q", n, o.tiers[tier].name, keys)
		case seen[n].tier != o.tiers[tier].name || !slices.Contains(keys, seen[n].key):
			return v, fmt.Errorf("attempt %d is at %s with %s, not at %s with one of %q", n, seen[n].tier, seen[n].key, o.tiers[tier].name, keys)
		}
		k := o.key(tier, seen[n].key)
		a := answer(k.id)
		outcome := a.outcome()
		if word := outcome; !a.cut && word != seen[n].outcome || !a.cut && a.status != seen[n].status && !a.page {
			return v, fmt.Errorf("attempt %d with %s is %s (%d), not %s (%d)", n, k.id, seen[n].outcome, seen[n].status, word, a.status)
		}
		if first < 0 {
			first = tier
		}
		if tier == first {
			v.status = a.replayed()
		}
		v.attempts, v.upstream = n+1, o.attempt(r, tier, k, &a, tokens)
		if outcome == "ok" || a.cut {
			v.tier, v.status, v.broken = tier, 200, a.cut
		}
		if outcome == "passthrough" {
			v.status = a.status
		}
		if outcome == "ok" || a.cut || outcome == "passthrough" {
			if len(seen) > n+1 {
				return v, fmt.Errorf("%d attempts: attempt %d ended the request", len(seen), n)
			}
			return v, nil
		}
	}
}

// refused is the verdict on a request that nobody could serve.
func (o *dayOracle) refused(r *dayRequest, v dayVerdict, first int) dayVerdict {
	if first >= 0 {
		return v
	}
	v.status = 404
	for i := range o.tiers {
		if _, any := o.open(r, i); any > 0 {
			v.status = 429
		}
	}
	return v
}

func (o *dayOracle) key(tier int, id string) *dayKey {
	keys := o.tiers[tier].keys
	return &keys[slices.IndexFunc(keys, func(k dayKey) bool { return k.id == id })]
}

// leave counts a failure for the breaker of the tier that the request leaves for another one, or for good.
func (o *dayOracle) leave(r *dayRequest, to int) {
	i := r.failing
	if i < 0 || i == to {
		return
	}
	if r.failing = -1; slices.Contains(r.counted, i) {
		o.happened["left a second time"]++
		return
	}
	r.counted = append(r.counted, i)
	o.failure(i, r.at)
}

func (o *dayOracle) failure(i int, now time.Time) {
	s, b := &o.state[i], o.tiers[i].breaker
	if b == nil {
		return
	}
	switch s.state {
	case "":
		if s.failures++; s.failures < b.failures {
			return
		}
	case "half":
		s.recovery = min(2*s.recovery, b.most)
	default: // late: the clock goes on
		return
	}
	s.state, s.opened = "open", now
	o.happened["open "+o.tiers[i].name]++
}

func (o *dayOracle) success(i int) {
	s, b := &o.state[i], o.tiers[i].breaker
	if b == nil {
		return
	}
	switch s.state {
	case "":
		s.failures = 0
	case "half":
		if s.successes++; s.successes >= b.successes {
			s.state, s.failures, s.recovery = "", 0, b.recovery
			o.happened["closed "+o.tiers[i].name]++
		}
	}
}

// attempt is sections 1, 2, 4, 7 and 8: what one attempt leaves behind. It returns the upstream's name of the model.
func (o *dayOracle) attempt(r *dayRequest, i int, k *dayKey, a *dayAnswer, tokens int64) string {
	o.leave(r, i)
	s, t := &o.state[i], &o.tiers[i]
	upstream, _ := o.serves(i, k, r.model)
	outcome := a.outcome()
	o.happened[outcome]++
	r.tried = append(r.tried, k.id)
	s.turn = slices.IndexFunc(t.keys, func(c dayKey) bool { return c.id == k.id }) + 1
	b := o.bound[r.session][i]
	if b != nil {
		b.seen = r.at
	}
	probe := t.guard != nil && s.exceeded != ""
	if probe && !r.probes[i] { // the request is one probe, with whichever keys
		s.probeAt = r.at.Add(t.guard.probe)
		r.probes[i] = true
		o.happened["guard probe "+t.name]++
	}
	if good := outcome == "ok" || a.cut; good {
		o.accept(r, i, k, upstream, probe)
	}
	if a.cut {
		o.happened["broken"]++
		o.cool(r, i, k, upstream, outcome, a)
		o.failure(i, r.at)
	}
	if outcome == "ok" || a.cut {
		u := o.use(k.id, r.at)
		u.today, u.sum = u.today+tokens, u.sum+tokens
		if t.guard != nil && t.guard.budget > 0 {
			s.spent = append(s.spent, daySpent{r.at, tokens})
			s.sum[0], s.sum[1] = s.sum[0]+tokens, s.sum[1]+tokens
		}
		o.sync(r.at)
		if b != nil && b.key != k.id && outcome == "ok" {
			o.move(r, i, b, k)
		}
		return upstream
	}
	o.cool(r, i, k, upstream, outcome, a)
	if dayEffects[outcome].breaker {
		r.failing = i
	}
	if probe { // used up, whatever came back
		o.happened["guard probe failed"]++
	}
	return upstream
}

// accept is what a good head does.
func (o *dayOracle) accept(r *dayRequest, i int, k *dayKey, upstream string, probe bool) {
	for _, s := range []dayScope{{k.id, ""}, {k.id, upstream}} {
		if c := o.cooling[s]; c != nil {
			c.streak = map[string]int{}
		}
	}
	if r.failing == i {
		r.failing = -1
	}
	o.success(i)
	if probe {
		o.state[i].exceeded = ""
		o.happened["guard probe good "+o.tiers[i].name]++
		o.sync(r.at)
	}
	for j, b := range o.bound[r.session] {
		if o.tiers[i].returnsIdle && j > i {
			b.left = r.at
		}
	}
	if r.session == "" || o.tiers[i].strategy != "session-sticky" || o.bound[r.session][i] != nil {
		return
	}
	if o.bound[r.session] == nil {
		o.bound[r.session] = map[int]*dayBinding{}
	}
	o.bound[r.session][i] = &dayBinding{key: k.id, seen: r.at}
}

// move takes the session along if its old key is cooling or over its limits.
func (o *dayOracle) move(r *dayRequest, i int, b *dayBinding, to *dayKey) {
	old := o.key(i, b.key)
	upstream, ok := o.serves(i, old, r.model)
	if ok && (r.scope != nil && !r.scope[old.id] || o.gate(old, upstream, r.at) != "") {
		b.key = to.id
		o.happened["session moved"]++
	}
}

// cool is the column "the key" of section 4.
func (o *dayOracle) cool(r *dayRequest, i int, k *dayKey, upstream, outcome string, a *dayAnswer) {
	e := dayEffects[outcome]
	if e.cools == 0 {
		return
	}
	if outcome == "cap" && o.tiers[i].guard != nil && !o.anotherInTier(r, i, k) {
		o.exceed(i, r.at, "cap", a.retry)
		return
	}
	s := dayScope{key: k.id}
	if e.ofModel && !(outcome == "rate_limit" && a.account) {
		s.model = upstream
	}
	c := o.cooling[s]
	if c == nil {
		c = &dayCooling{streak: map[string]int{}}
		o.cooling[s] = c
	}
	d := e.cools
	switch {
	case e.stated && a.retry > 0:
		d = a.retry
	case e.most > 0:
		d = min(d<<min(c.streak[outcome], 10), e.most)
		c.streak[outcome]++
	}
	until := daySpan{r.at.Add(d), r.at.Add(d + d*dayJitter/100)}
	if e.passing && a.retry == 0 && o.alone(r, i, k) {
		until = daySpan{r.at.Add(dayLoneLeast), r.at.Add(dayLone)}
		o.happened["lone key"]++
	}
	if until.last.After(c.until.last) {
		c.until = until
	}
}

// alone reports whether no other key of the scope can serve the model right now.
func (o *dayOracle) alone(r *dayRequest, tier int, k *dayKey) bool {
	return !o.other(r, k, func(i int) bool {
		why := ""
		if i != tier {
			why = o.refusal(r, i)
		}
		return why == "" || why == "return"
	})
}

func (o *dayOracle) anotherInTier(r *dayRequest, tier int, k *dayKey) bool {
	whoever := *r
	whoever.scope = nil
	return o.other(&whoever, k, func(i int) bool { return i == tier })
}

// other reports whether a key beside k passes its own gates, in one of the tiers.
func (o *dayOracle) other(r *dayRequest, k *dayKey, in func(int) bool) bool {
	untried := *r
	untried.tried = []string{k.id}
	for i := range o.tiers {
		if open, _ := o.open(&untried, i); len(open) > 0 && in(i) {
			return true
		}
	}
	return false
}
