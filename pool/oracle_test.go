package pool_test

import (
	"slices"
	"time"

	"coding-proxy/pool"
)

// oracle is design/routing.md, sections 1 to 5, done slowly and apart from the product: it keeps what happened and
// works out every gate from that history, each time anew. Of a cooldown it knows the shortest and the longest end that
// the jitter allows.
type oracle struct {
	options pool.Options
	start   time.Time
	before  spent // tokens counted before the start
	events  []event
	of      map[string][]event // the same, by key
}

func (o *oracle) add(e event) {
	o.events = append(o.events, e)
	o.of[e.key.ID] = append(o.of[e.key.ID], e)
}

// event is something that happened to a lease.
type event struct {
	kind eventKind
	at   time.Time
	*attempt
}

type eventKind uint8

const (
	leased eventKind = iota
	accepted
	closed
)

// request is one request of a caller; attempt is one lease of it.
type request struct {
	scope                      map[string]bool // nil: everything
	model, session, credential string
	tried                      []string
}

type attempt struct {
	request  *request
	tier     int
	key      pool.Key
	upstream string
	began    time.Time
	accepted bool
	closed   bool
	outcome  pool.Outcome
	tokens   float64
	alone    bool // at its end no other key could have served
	moves    bool // at its end the session's old key could not serve
}

// span is an instant known to lie between two others; the zero span is the past.
type span struct{ first, last time.Time }

func (s span) after(t time.Time) bool { return s.first.After(t) }

// unsure reports whether the jitter decides if t is before or after the span.
func (s span) unsure(t time.Time) bool { return !s.first.After(t) && s.last.After(t) }

func latest(a, b span) span {
	if b.first.After(a.first) {
		a.first = b.first
	}
	if b.last.After(a.last) {
		a.last = b.last
	}
	return a
}

// refusal says why a key may not be leased: one flag for each gate, and the latest of the reasons with a known end.
type refusal struct {
	disabled, cooling, day, month, busy bool
	until                               span
}

func (r refusal) open() bool { return !r.disabled && !r.cooling && !r.day && !r.month && !r.busy }

// unusable reports whether the key is cooling or over its limits.
func (r refusal) unusable() bool { return r.disabled || r.cooling || r.day || r.month }

func (o *oracle) gates(now time.Time, k pool.Key, credential, upstream string) refusal {
	var r refusal
	r.disabled = k.Disabled
	if end := o.cooldown(k, credential, upstream); end.after(now) {
		r.cooling, r.until = true, end
	}
	if k.DailyLimit > 0 && o.used(k.ID, now, daily) >= float64(k.DailyLimit) {
		r.day = true
		end := daily.end(now)
		r.until = latest(r.until, span{end, end})
	}
	if k.MonthlyLimit > 0 && o.used(k.ID, now, monthly) >= float64(k.MonthlyLimit) {
		r.month = true
		end := monthly.end(now)
		r.until = latest(r.until, span{end, end})
	}
	r.busy = k.MaxConcurrent > 0 && o.inFlight(k.ID) >= k.MaxConcurrent
	return r
}

// period is the local calendar's day or month.
type period struct{ month bool }

var daily, monthly = period{}, period{month: true}

func (p period) same(a, b time.Time) bool {
	ay, am, ad := a.Date()
	by, bm, bd := b.Date()
	return ay == by && am == bm && (p.month || ad == bd)
}

// end is when now's period is over: found by walking on and then closing in.
func (p period) end(now time.Time) time.Time {
	in, out := now, now
	for p.same(now, out) {
		in, out = out, out.Add(6*time.Hour)
	}
	for out.Sub(in) > 1 {
		if middle := in.Add(out.Sub(in) / 2); p.same(now, middle) {
			in = middle
		} else {
			out = middle
		}
	}
	return out
}

// used sums the key's tokens of now's day or month.
func (o *oracle) used(key string, now time.Time, p period) float64 {
	total := 0.0
	if p.same(o.start, now) {
		total = o.before[key][0]
		if p.month {
			total = max(total, o.before[key][1])
		}
	}
	for _, e := range o.of[key] {
		if e.kind == closed && p.same(e.at, now) {
			total += e.tokens
		}
	}
	return total
}

func (o *oracle) inFlight(key string) int {
	n := 0
	for _, e := range o.of[key] {
		switch e.kind {
		case leased:
			n++
		case closed:
			n--
		}
	}
	return n
}

// scope is what a cooldown is of.
type scope struct{ key, credential, model string }

// cools is the table of section 4: what the outcome cools, and whether anything.
func (a *attempt) cools(out pool.Outcome) (s scope, any bool) {
	s.key = a.key.ID
	credential := holder(a.key, a.request.credential)
	switch out.Class {
	case pool.RateLimit:
		if s.credential = credential; !out.KeyWide {
			s.model = a.upstream
		}
	case pool.Overload, pool.UnknownModel:
		s.model = a.upstream
	case pool.Fault:
	case pool.Credential, pool.Cap:
		s.credential = credential
	default:
		return s, false
	}
	return s, true
}

// holder is whose credential goes with the key: "" is the key's own, and who sends none through a passthrough key is
// somebody, too.
func holder(k pool.Key, credential string) string {
	if !k.Passthrough {
		return ""
	}
	return "of " + credential
}

func (o *oracle) cooldown(k pool.Key, credential, upstream string) span {
	end := latest(o.fold(scope{k.ID, "", ""}).end, o.fold(scope{k.ID, "", upstream}).end)
	if who := holder(k, credential); who != "" {
		end = latest(end, latest(o.fold(scope{k.ID, who, ""}).end, o.fold(scope{k.ID, who, upstream}).end))
	}
	return end
}

// state is what the history makes of a scope.
type state struct {
	end    span
	set    time.Time // of the last cooldown
	streak map[pool.Class]int
}

func (o *oracle) fold(s scope) state {
	st := state{streak: map[pool.Class]int{}}
	for _, e := range o.of[s.key] {
		switch e.kind {
		case accepted:
			own := s.credential == "" || s.credential == holder(e.key, e.request.credential)
			if own && (s.model == "" || s.model == e.upstream) {
				clear(st.streak)
			}
		case closed:
			of, any := e.cools(e.outcome)
			if !any || of != s || e.began.Before(st.set) || e.keepsNothing() {
				continue
			}
			first, last := e.length(st.streak)
			st.end = latest(st.end, span{e.at.Add(first), e.at.Add(last)})
			st.set = e.at
		}
	}
	return st
}

// keepsNothing: a caller's own credential, and no other key that could have served.
func (a *attempt) keepsNothing() bool {
	c := a.outcome.Class
	return a.key.Passthrough && a.alone && (c == pool.Credential || c == pool.RateLimit || c == pool.Cap)
}

// loneLeast and loneMost bound the cooldown of a lone key's passing fault: at most 5 s, not much less.
const loneLeast, loneMost = 4 * time.Second, 5 * time.Second

// length is how long the outcome cools, at least and at most; it counts the streak.
func (a *attempt) length(streak map[pool.Class]int) (least, most time.Duration) {
	d := a.outcome.Reset
	if d == 0 {
		switch c := a.outcome.Class; c {
		case pool.Credential, pool.Cap:
			d = time.Hour
		case pool.UnknownModel:
			d = 10 * time.Minute
		default:
			d = 30 * time.Second
			for range streak[c] {
				d = min(2*d, 30*time.Minute)
			}
			streak[c]++
			if a.alone {
				return loneLeast, loneMost
			}
		}
	}
	bound := func(d time.Duration) time.Duration { return min(max(d, time.Second), 7*24*time.Hour) }
	return bound(d), bound(d + d/10 + 1)
}

// serves is section 5 for a key's own map.
func serves(k pool.Key, model string) (upstream string, ok bool) {
	if k.Models == nil {
		return model, true
	}
	if upstream, ok = k.Models[model]; ok {
		return upstream, true
	}
	if upstream, ok = k.Models["*"]; ok && (upstream == "*" || upstream == "") {
		upstream = model
	}
	return upstream, ok
}

func (r *request) has(key string) bool { return r.scope == nil || r.scope[key] }

// verdict is what Lease must do for a request.
type verdict struct {
	tier    int      // the first with an open key; -1: none
	allowed []string // keys that its strategy may pick
	unknown bool     // no key of the scope serves the model
	counts  pool.ExhaustedError
	next    span // the earliest key's end; zero: nobody knows
}

func (o *oracle) judge(now time.Time, r *request, rebalances bool) verdict {
	v := verdict{tier: -1, unknown: true}
	for i, t := range o.options.Tiers {
		var open []pool.Key
		for _, k := range t.Keys {
			upstream, ok := serves(k, r.model)
			if !ok || !r.has(k.ID) {
				continue
			}
			v.unknown = false
			if slices.Contains(r.tried, k.ID) {
				v.counts.Tried++
				continue
			}
			g := o.gates(now, k, r.credential, upstream)
			if g.open() {
				open = append(open, k)
				continue
			}
			v.count(g)
		}
		if len(open) > 0 {
			v.tier, v.allowed = i, o.pick(now, i, open, r, rebalances)
			return v
		}
	}
	return v
}

func (v *verdict) count(g refusal) {
	switch {
	case g.disabled:
		v.counts.Disabled++
		return
	case g.cooling:
		v.counts.Cooling++
	case g.day:
		v.counts.DayLimit++
	case g.month:
		v.counts.MonthLimit++
	default:
		v.counts.Busy++
		return
	}
	if v.next.first.IsZero() || g.until.first.Before(v.next.first) {
		v.next.first = g.until.first
	}
	if v.next.last.IsZero() || g.until.last.Before(v.next.last) {
		v.next.last = g.until.last
	}
}

// pick is section 3: the keys that the tier's strategy may choose.
func (o *oracle) pick(now time.Time, tier int, open []pool.Key, r *request, rebalances bool) []string {
	switch o.options.Tiers[tier].Strategy {
	case pool.FillFirst:
		return []string{open[0].ID}
	case pool.RoundRobin:
		return []string{o.nextInTurn(tier, open)}
	case pool.LeastUsed:
		return []string{smallest(open, func(k pool.Key) [2]float64 {
			return [2]float64{o.ratio(now, k), o.used(k.ID, now, daily)}
		})}
	case pool.LeastRecent:
		return []string{smallest(open, func(k pool.Key) [2]float64 {
			return [2]float64{float64(o.lastUsed(k.ID).Sub(o.start)), 0}
		})}
	}
	bound := o.bound(tier, r.session)
	var all []string
	for _, k := range open {
		if k.ID == bound && !rebalances {
			return []string{bound}
		}
		all = append(all, k.ID)
	}
	return all
}

// smallest is the first of the keys with the smallest value.
func smallest(keys []pool.Key, value func(pool.Key) [2]float64) string {
	best := keys[0]
	for _, k := range keys[1:] {
		if a, b := value(k), value(best); a[0] < b[0] || a[0] == b[0] && a[1] < b[1] {
			best = k
		}
	}
	return best.ID
}

func (o *oracle) ratio(now time.Time, k pool.Key) float64 {
	r := 0.0
	if k.DailyLimit > 0 {
		r = o.used(k.ID, now, daily) / float64(k.DailyLimit)
	}
	if k.MonthlyLimit > 0 {
		r = max(r, o.used(k.ID, now, monthly)/float64(k.MonthlyLimit))
	}
	return r
}

// lastUsed is when the key was leased last; a key that never was comes before all others.
func (o *oracle) lastUsed(key string) time.Time {
	last := o.start.Add(-time.Hour)
	for _, e := range o.of[key] {
		if e.kind == leased {
			last = e.at
		}
	}
	return last
}

// nextInTurn is the first open key behind the one that the tier leased last.
func (o *oracle) nextInTurn(tier int, open []pool.Key) string {
	keys := o.options.Tiers[tier].Keys
	last := len(keys) - 1
	for _, e := range o.events {
		if e.kind == leased && e.tier == tier {
			last = slices.IndexFunc(keys, func(k pool.Key) bool { return k.ID == e.key.ID })
		}
	}
	for i := 1; ; i++ {
		k := keys[(last+i)%len(keys)]
		if slices.ContainsFunc(open, func(c pool.Key) bool { return c.ID == k.ID }) {
			return k.ID
		}
	}
}

// bound is section 2, without idle expiry and rebalancing: written by the first success, moved only by the end of a
// request whose old key could not serve.
func (o *oracle) bound(tier int, session string) string {
	key := ""
	for _, e := range o.events {
		if session == "" || e.tier != tier || e.request.session != session {
			continue
		}
		if e.kind == accepted && key == "" || e.kind == closed && e.moves {
			key = e.key.ID
		}
	}
	return key
}

func (o *oracle) find(tier int, id string) pool.Key {
	keys := o.options.Tiers[tier].Keys
	return keys[slices.IndexFunc(keys, func(k pool.Key) bool { return k.ID == id })]
}

// close ends an attempt.
func (o *oracle) close(now time.Time, a *attempt, out pool.Outcome, tokens float64) {
	a.outcome, a.tokens, a.alone = out, tokens, true
	r := a.request
	for _, t := range o.options.Tiers {
		for _, k := range t.Keys {
			if upstream, ok := serves(k, r.model); ok && k.ID != a.key.ID && r.has(k.ID) && o.gates(now, k, r.credential, upstream).open() {
				a.alone = false
			}
		}
	}
	a.closed = true
	o.add(event{closed, now, a})
	if old := o.bound(a.tier, r.session); a.accepted && out.Class == pool.OK && old != "" && old != a.key.ID {
		k := o.find(a.tier, old)
		upstream, ok := serves(k, r.model)
		a.moves = !r.has(old) || ok && o.gates(now, k, r.credential, upstream).unusable()
	}
}

// settled moves t on until no cooldown's jitter decides anything.
func (o *oracle) settled(t time.Time) time.Time {
	seen := map[scope]bool{}
	for _, e := range o.events {
		if s, any := e.cools(e.outcome); e.kind == closed && any {
			seen[s] = true
		}
	}
	for again := true; again; {
		again = false
		for s := range seen {
			if end := o.fold(s).end; end.unsure(t) {
				t, again = end.last, true
			}
		}
	}
	return t
}
