package pool

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// chain drives a pool of several tiers and what routing.md makes of its history: which tier and key a request gets, or
// why none, with the models of breaker and guard for each tier.
type chain struct {
	t        *testing.T
	random   *rand.Rand
	log      *[]string
	met      map[string]int
	now      time.Time
	cleared  time.Time // the last reset
	p        *Pool
	o        Options
	breakers []*breakerPast // nil where the tier has none
	guards   []*guardPast
	cools    map[string]*cooled // by key, and by key and model
	flying   map[string]int
	requests []*chainRequest
	ids      int
}

type cooled struct{ until, set time.Time }

// chainRequest is a request; failing is the tier whose attempts failed until the request leaves it, -1 = none.
type chainRequest struct {
	want    *Want
	scope   map[string]bool
	tried   []string
	failing int
	who     int          // it, for that tier's breaker
	left    map[int]bool // tiers that counted it
	lease   *Lease
	tier    int
	breaker int            // the lease, for the tier's breaker
	guard   int            // and for its guard, -1 = no probe
	asked   map[int][2]int // by tier: the probe that the request is, and the excess of it
	good    bool
	began   time.Time
}

func newChain(t *testing.T, seed uint64, log *[]string, met map[string]int) *chain {
	r := rand.New(rand.NewPCG(seed, 9))
	c := &chain{t: t, random: r, log: log, met: met, now: start, cools: map[string]*cooled{}, flying: map[string]int{}}
	c.o = Defaults()
	c.o.MaxWait, c.o.RebalanceThreshold = 0, 0
	for i := range 1 + r.IntN(4) {
		tier := Tier{Name: fmt.Sprint("t", i), Strategy: FillFirst}
		for j := range 1 + r.IntN(3) {
			tier.Keys = append(tier.Keys, Key{ID: fmt.Sprintf("k%d%d", i, j), MaxConcurrent: r.IntN(2) * (1 + r.IntN(2))})
		}
		c.breakers, c.guards = append(c.breakers, nil), append(c.guards, nil)
		if r.IntN(4) > 0 {
			tier.Breaker = &BreakerOptions{FailureThreshold: 1 + r.IntN(2), SuccessThreshold: 1 + r.IntN(2), Recovery: 20 * time.Second, MaxRecovery: 60 * time.Second}
			c.breakers[i] = &breakerPast{opt: *tier.Breaker}
		}
		if r.IntN(2) == 0 {
			tier.Guard = &GuardOptions{Budget: int64(r.IntN(2) * 200), Window: 5 * time.Minute, Threshold: 100, ProbeInterval: 30 * time.Second}
			c.guards[i] = &guardPast{opt: *tier.Guard}
		}
		c.o.Tiers = append(c.o.Tiers, tier)
	}
	c.p = New(c.o, nil, func() time.Time { return c.now }, seed)
	c.look()
	return c
}

func (c *chain) note(format string, args ...any) {
	*c.log = append(*c.log, fmt.Sprintf("%.0f s ", c.now.Sub(start).Seconds())+fmt.Sprintf(format, args...))
}

func (c *chain) breakerSays(tier int, kind string, who int) {
	if b := c.breakers[tier]; b != nil {
		b.events = append(b.events, breakerEvent{c.now, kind, who})
	}
}

func (c *chain) guardSays(tier int, e guardEvent) {
	if g := c.guards[tier]; g != nil && e.who >= 0 { // who was no probe has nothing to say
		e.at = c.now
		g.events = append(g.events, e)
	}
}

// look brings guards up to the time, product's and models'.
func (c *chain) look() {
	c.p.View()
	for i := range c.guards {
		c.guardSays(i, guardEvent{kind: "look"})
	}
}

func (c *chain) cooling(key string) bool {
	for _, scope := range []string{key, key + "/m"} {
		if e := c.cools[scope]; e != nil && e.until.After(c.now) {
			return true
		}
	}
	return false
}

func (c *chain) busy(k Key) bool { return k.MaxConcurrent > 0 && c.flying[k.ID] >= k.MaxConcurrent }

// verdict is what Lease must do for a request: the tier and its key, or the counts; -1 and none where no key serves it.
func (c *chain) verdict(q *chainRequest) (tier int, key string, counts ExhaustedError, serving bool) {
	last := -1
	for i, t := range c.o.Tiers {
		if slices.ContainsFunc(t.Keys, func(k Key) bool { return q.scope[k.ID] }) {
			last = i
		}
	}
	for i, t := range c.o.Tiers {
		var open []string
		for _, k := range t.Keys {
			switch {
			case !q.scope[k.ID]:
			case slices.Contains(q.tried, k.ID):
				counts.Tried++
			case c.cooling(k.ID):
				counts.Cooling++
			case c.busy(k):
				counts.Busy++
			default:
				open = append(open, k.ID)
			}
		}
		if len(open) == 0 {
			continue
		}
		if b := c.breakers[i]; b != nil && i != last {
			m := b.at(c.now)
			if holds := q.failing == i && m.holder == q.who; !m.allows() && !holds {
				counts.Breaker += len(open)
				continue
			}
		}
		if g := c.guards[i]; g != nil {
			if m := g.within(0); m.by != "" && c.now.Before(m.probeAt) && !q.probes(i, m) {
				counts.Guard += len(open)
				continue
			}
		}
		return i, open[0], ExhaustedError{}, true
	}
	return -1, "", counts, last >= 0
}

// probes reports whether the request is a probe of the excess that there is.
func (q *chainRequest) probes(tier int, m guardModel) bool {
	asked, ok := q.asked[tier]
	return ok && asked[1] == m.begun
}

// leave counts the failure of the tier in which the request's attempts failed.
func (c *chain) leave(q *chainRequest) {
	if q.failing >= 0 {
		c.breakerSays(q.failing, "fail", q.who)
		c.breakerSays(q.failing, "leave", q.who)
		q.left[q.failing], q.failing = true, -1
	}
}

func (c *chain) ask(q *chainRequest) {
	tier, key, counts, serving := c.verdict(q)
	if tier >= 0 && q.left[tier] {
		c.end(q, false) // a tier that it has left: how often that counts is another test's
		return
	}
	l, err := c.p.Lease(context.Background(), q.want)
	c.note("lease of %v after %v: %+v, %v", q.want.Scope.keys, q.tried, got(l), err)
	var ex *ExhaustedError
	switch {
	case tier < 0 && !serving:
		if _, ok := err.(*ModelError); !ok {
			c.t.Errorf("%v, %v; the model: no key of the scope", got(l), err)
		}
	case tier < 0:
		if !errors.As(err, &ex) || ex.Tried != counts.Tried || ex.Cooling != counts.Cooling || ex.Busy != counts.Busy || ex.Breaker != counts.Breaker || ex.Guard != counts.Guard {
			c.t.Errorf("%v, %v; the model: %v", got(l), err, counts.Error())
			return
		}
		for what, n := range map[string]int{"cooling": ex.Cooling, "busy": ex.Busy, "tried": ex.Tried, "breaker": ex.Breaker, "guard": ex.Guard} {
			c.met[what] += min(n, 1)
		}
		c.leave(q)
		c.end(q, true)
	case err != nil || l.Tier != c.o.Tiers[tier].Name || l.Key != key:
		c.t.Errorf("%v, %v; the model: %s", got(l), err, key)
	default:
		c.granted(q, l, tier)
	}
}

func got(l *Lease) string {
	if l == nil {
		return "none"
	}
	return l.Tier + "/" + l.Key
}

func (c *chain) granted(q *chainRequest, l *Lease, tier int) {
	c.met["granted"]++
	if tier > 0 {
		c.met["a lower tier"]++
	}
	if q.failing != tier {
		c.leave(q)
	}
	c.ids++
	q.lease, q.tier, q.breaker, q.guard, q.good, q.began = l, tier, c.ids, -1, false, c.now
	if b := c.breakers[tier]; b != nil {
		if m := b.at(c.now); q.failing == tier && m.holder == q.who && m.holder >= 0 {
			q.breaker = q.who // it has the slot yet
			c.met["a probe's second key"]++
		} else {
			c.breakerSays(tier, "enter", q.breaker)
		}
	}
	if g := c.guards[tier]; g != nil && g.within(0).by != "" {
		if m := g.within(0); q.probes(tier, m) {
			q.guard = q.asked[tier][0]
			c.met["a guard probe's second key"]++
		} else {
			q.guard = c.ids
			c.guardSays(tier, guardEvent{kind: "ask", who: q.guard})
			if q.asked == nil {
				q.asked = map[int][2]int{}
			}
			q.asked[tier] = [2]int{q.guard, m.begun}
		}
	}
	q.tried = append(q.tried, l.Key)
	c.flying[l.Key]++
}

// accept says that the head was good, unless it was a probe of an excess that is over while another one has begun.
func (c *chain) accept(q *chainRequest) {
	if g := c.guards[q.tier]; q.good || g != nil && q.guard >= 0 && g.within(0).last != q.guard {
		return
	}
	c.note("accept %s", q.lease.Key)
	q.good = true
	q.lease.Accept()
	if q.failing == q.tier {
		q.failing = -1
	}
	c.breakerSays(q.tier, "ok", q.breaker)
	c.guardSays(q.tier, guardEvent{kind: "ok", who: q.guard})
}

// Resets whose cooldowns are exact, whatever the jitter is: the bounds cut it off.
const shortly, forLong = time.Millisecond, 8 * 24 * time.Hour

func (c *chain) close(q *chainRequest) {
	classes := []Class{OK, Cancelled, Passthrough, RateLimit, RateLimit, Overload, Overload, Overload, Fault, Fault, Cap}
	o := Outcome{Class: classes[c.random.IntN(len(classes))], Reset: shortly}
	if o.Class == Cap {
		o.Reset = forLong
	}
	tokens := c.random.Int64N(60)
	c.note("close %s: %s, %d tokens", q.lease.Key, o.Class, tokens)
	q.lease.Close(o, Tokens{Output: tokens})
	c.flying[q.lease.Key]--
	stale := q.began.Before(c.cleared) // what it met was forgiven meanwhile
	if !stale {
		c.cool(q, o)
	}
	failed := (o.Class == Overload || o.Class == Fault) && !stale
	switch {
	case q.good && failed:
		c.breakerSays(q.tier, "fail", q.breaker)
	case failed:
		q.failing, q.who = q.tier, q.breaker
	case q.failing != q.tier:
		c.breakerSays(q.tier, "leave", q.breaker)
	default:
		q.who = q.breaker
	}
	if !q.good {
		kind := "refused"
		if o.Class == Cancelled || o.Class == Stale {
			kind = "leave"
		}
		c.guardSays(q.tier, guardEvent{kind: kind, who: q.guard})
	}
	c.guardSays(q.tier, guardEvent{kind: "add", tokens: float64(tokens)})
	q.lease = nil
	switch {
	case q.good || o.Class == OK || o.Class == Cancelled || o.Class == Passthrough:
		c.end(q, false)
	case c.random.IntN(6) == 0: // no attempt is left
		c.end(q, true)
	case c.random.IntN(8) == 0: // the client goes
		c.end(q, false)
	}
}

// cool is section 4's columns of the key: who cools, and whether the guard rules instead.
func (c *chain) cool(q *chainRequest, o Outcome) {
	t := c.o.Tiers[q.tier]
	scope, d := q.lease.Key, time.Second
	switch o.Class {
	case RateLimit, Overload:
		scope += "/m"
	case Fault:
	case Cap:
		d = 7 * 24 * time.Hour
		another := slices.ContainsFunc(t.Keys, func(k Key) bool { return k.ID != q.lease.Key && !c.cooling(k.ID) })
		if t.Guard != nil && !another {
			c.guardSays(q.tier, guardEvent{kind: "cap", reset: forLong})
			return
		}
	default:
		return
	}
	e := c.cools[scope]
	if e == nil {
		e = &cooled{}
		c.cools[scope] = e
	}
	if q.began.Before(e.set) {
		return
	}
	if until := c.now.Add(d); until.After(e.until) {
		e.until = until
	}
	e.set = c.now
}

// end ends the request.
func (c *chain) end(q *chainRequest, failed bool) {
	c.note("end, failed %v", failed)
	c.p.End(q.want, failed)
	if failed {
		c.leave(q)
	} else if q.failing >= 0 {
		c.breakerSays(q.failing, "leave", q.who)
	}
	q.failing = -1
	c.requests = slices.DeleteFunc(c.requests, func(r *chainRequest) bool { return r == q })
}

func (c *chain) step() {
	var idle, flying []*chainRequest
	for _, q := range c.requests {
		if q.lease == nil {
			idle = append(idle, q)
		} else {
			flying = append(flying, q)
		}
	}
	switch n := c.random.IntN(20); {
	case n < 4:
		q := &chainRequest{scope: map[string]bool{}, failing: -1, left: map[int]bool{}}
		var ids []string
		all := c.random.IntN(2) == 0
		for _, t := range c.o.Tiers {
			for _, k := range t.Keys {
				if all || c.random.IntN(3) > 0 {
					q.scope[k.ID] = true
					ids = append(ids, k.ID)
				}
			}
		}
		q.want = &Want{Scope: Only(ids...), Model: "m"}
		if c.requests = append(c.requests, q); len(ids) > 0 {
			c.ask(q)
		}
	case n < 8 && len(idle) > 0:
		c.ask(idle[c.random.IntN(len(idle))])
	case n < 11 && len(flying) > 0:
		c.accept(flying[c.random.IntN(len(flying))])
	case n < 17 && len(flying) > 0:
		c.close(flying[c.random.IntN(len(flying))])
	case n == 17 && c.random.IntN(6) == 0:
		c.note("reset")
		_ = c.p.Reset("")
		c.cleared = c.now
		clear(c.cools)
		for i := range c.o.Tiers {
			c.breakerSays(i, "reset", -1)
			c.guardSays(i, guardEvent{kind: "reset"})
		}
	default:
		c.now = c.now.Add(time.Duration([]int{0, 1, 1, 2, 5, 10, 20, 30, 100}[c.random.IntN(9)]) * time.Second)
		c.look()
	}
	c.compare()
}

// compare wants the same states of pool and models.
func (c *chain) compare() {
	for i, t := range c.p.tiers {
		if b := c.breakers[i]; b != nil {
			m := b.at(c.now)
			c.met["breaker "+m.word]++
			if got := t.breaker.said(c.now); got != m.String() {
				c.t.Errorf("breaker of %s: %s; the model: %s", t.Name, got, m)
			}
		}
		if g := c.guards[i]; g != nil {
			m := g.within(0)
			c.met["guard "+m.by]++
			if v := t.guard.view(c.now); v.By != m.by || m.by != "" && !t.guard.probeAt.Equal(m.probeAt) {
				c.t.Errorf("guard of %s: %+v, probe at %s; the model: %+v", t.Name, *v, t.guard.probeAt, m)
			}
		}
	}
}

// Random chains, random histories: for every lease the tier and the key, or the counts, that the models say.
func TestChainAgainstModels(t *testing.T) {
	met := map[string]int{}
	sequences := seeds(t, 2000, func(t *testing.T, seed uint64, log *[]string) {
		c := newChain(t, seed, log, met)
		for range 60 {
			if c.step(); t.Failed() {
				return
			}
		}
	})
	t.Log(met)
	for _, what := range []string{"granted", "a lower tier", "a probe's second key", "cooling", "busy", "tried", "breaker", "guard", "breaker closed",
		"breaker open", "breaker half-open", "guard ", "guard budget", "guard cap"} {
		if met[what] < sequences/50 {
			t.Errorf("the sequences met %q only %d times", what, met[what])
		}
	}
	if what := "a guard probe's second key"; sequences >= 2000 && met[what] == 0 { // rare
		t.Errorf("the sequences never met %q", what)
	}
}
