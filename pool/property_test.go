package pool_test

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"coding-proxy/pool"
)

var propertySeed = flag.Uint64("seed", 1, "first seed of the property tests; 0: another one each time")

// No lease ever breaks a gate, and none is refused for nothing: random pools, random histories, and for every lease
// what the oracle makes of that history. Each sequence has a seed of its own, which a failure names.
func TestNoLeaseBreaksAGate(t *testing.T) {
	sequences := 2000
	if testing.Short() {
		sequences = 200
	}
	first := *propertySeed
	if first == 0 {
		first = rand.Uint64()
	}
	total := map[string]int{}
	for n := range sequences {
		h := newHistory(t, first+uint64(n))
		for range 60 {
			h.step()
		}
		for what, n := range h.seen {
			total[what] += n
		}
		if t.Failed() {
			t.Fatalf("-seed=%d; the %d events before:\n%s", first+uint64(n), len(h.log), strings.Join(h.log, "\n"))
		}
	}
	// A generator that no longer reaches a gate would let any product pass.
	for _, what := range []string{"leased", "unknown model", "exhausted", "cooling", "day", "month", "busy", "disabled", "tried", "second tier", "bound", "moved"} {
		if total[what] < sequences/40 {
			t.Errorf("the histories met %q only %d times", what, total[what])
		}
	}
	t.Log(total)
}

// history drives a pool and an oracle side by side.
type history struct {
	t          *testing.T
	random     *rand.Rand
	pool       *rig
	oracle     *oracle
	rebalances bool
	requests   []*live
	flying     []*live
	log        []string
	seen       map[string]int
}

// live is a request with its counterpart in the product.
type live struct {
	want    *pool.Want
	request *request
	lease   *pool.Lease
	attempt *attempt
}

// zones with and without daylight saving; in Cairo and Santiago midnight itself is missing once a year.
var zones = []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo", "America/Santiago", "Asia/Kathmandu"}

// starts are evenings before something happens to the calendar.
var starts = []string{"2026-03-28 21:00:00", "2026-03-07 22:00:00", "2026-10-24 20:00:00", "2026-10-31 23:00:00", "2026-04-04 18:00:00",
	"2026-04-23 20:00:00", "2026-09-05 21:00:00", "2026-12-31 20:00:00", "2028-02-28 23:30:00", "2026-02-28 12:00:00", "2026-06-15 12:00:00"}

func newHistory(t *testing.T, seed uint64) *history {
	random := rand.New(rand.NewPCG(seed, 0))
	one := func(list []string) string { return list[random.IntN(len(list))] }
	o := pool.Defaults()
	o.MaxWait, o.RebalanceThreshold, o.SessionIdle = 0, 0, 100*365*24*time.Hour
	weights := []pool.Weights{{Input: 1, Output: 1, CacheCreation: 1, CacheRead: 0.125}, {Input: 1, Output: 5, CacheCreation: 1.25}, {Input: 0.5, Output: 1, CacheRead: 1}}
	o.Count = weights[random.IntN(len(weights))] // sums of these are exact, in any order
	h := &history{t: t, random: random, rebalances: random.IntN(4) == 0, seen: map[string]int{}}
	if h.rebalances {
		o.RebalanceThreshold, o.RebalanceCooldown = 0.05, time.Minute
	}
	used := spent{}
	for i := range 1 + random.IntN(3) {
		tier := pool.Tier{Name: fmt.Sprint("tier", i), Strategy: pool.Strategies()[max(0, random.IntN(8)-3)]}
		for j := range 1 + random.IntN(8) {
			k := pool.Key{
				ID: fmt.Sprintf("k%d%d", i, j), Models: randomModels(random),
				DailyLimit: int64(random.IntN(2) * (50 + random.IntN(2000))), MonthlyLimit: int64(random.IntN(2) * (50 + random.IntN(4000))),
				MaxConcurrent: random.IntN(2) * (1 + random.IntN(3)), Disabled: random.IntN(8) == 0, Passthrough: random.IntN(4) == 0,
			}
			if random.IntN(3) == 0 {
				used[k.ID] = [2]float64{float64(random.IntN(1000)), float64(random.IntN(3000))}
			}
			tier.Keys = append(tier.Keys, k)
		}
		o.Tiers = append(o.Tiers, tier)
	}
	z := zone(t, one(zones))
	h.pool = at(t, o, used, z, one(starts))
	h.pool.add(time.Duration(random.Int64N(int64(3 * time.Hour))))
	// The pool is opened at that moment, so that its usage is that day's.
	h.pool.Pool = pool.New(o, used, h.pool.now, seed)
	h.oracle = &oracle{options: o, start: h.pool.now(), before: used, of: map[string][]event{}}
	return h
}

func randomModels(random *rand.Rand) map[string]string {
	switch random.IntN(5) {
	case 0:
		return map[string]string{"m1": "x", "m2": "x"}
	case 1:
		return map[string]string{"m1": "y", "*": "z"}
	case 2:
		return map[string]string{"m2": "m2", "m3": "z"}
	case 3:
		return map[string]string{"*": "*"}
	}
	return nil
}

func (h *history) note(format string, args ...any) {
	h.log = append(h.log, h.pool.now().Format("01-02 15:04:05.000 ")+fmt.Sprintf(format, args...))
}

func (h *history) step() {
	if h.t.Failed() {
		return
	}
	switch n := h.random.IntN(100); {
	case n < 35:
		h.lease(h.newRequest())
	case n < 50 && len(h.requests) > 0:
		if r := h.requests[h.random.IntN(len(h.requests))]; r.attempt == nil || r.attempt.closed {
			h.lease(r)
		}
	case n < 68 && len(h.flying) > 0:
		h.accept(h.flying[h.random.IntN(len(h.flying))])
	case n < 90 && len(h.flying) > 0:
		h.close(h.random.IntN(len(h.flying)))
	default:
		h.pass()
	}
	if h.random.IntN(8) == 0 {
		h.look()
	}
}

func (h *history) newRequest() *live {
	r := &request{
		model: []string{"m1", "m2", "m3", "m4"}[h.random.IntN(4)], session: []string{"", "s1", "s1", "s2"}[h.random.IntN(4)],
		credential: []string{"c1", "c2", ""}[h.random.IntN(3)],
	}
	w := &pool.Want{Scope: pool.Everything(), Model: r.model, Session: r.session, Credential: r.credential}
	if h.random.IntN(3) == 0 { // a group
		r.scope = map[string]bool{}
		var ids []string
		for _, t := range h.oracle.options.Tiers {
			for _, k := range t.Keys {
				if h.random.IntN(2) == 0 {
					r.scope[k.ID] = true
					ids = append(ids, k.ID)
				}
			}
		}
		w.Scope = pool.Only(ids...)
	}
	l := &live{want: w, request: r}
	h.requests = append(h.requests, l)
	return l
}

// lease asks both and compares.
func (h *history) lease(l *live) {
	now := h.pool.now()
	want := h.oracle.judge(now, l.request, h.rebalances)
	lease, err := h.pool.Lease(h.t.Context(), l.want)
	h.note("lease of %+v: %s", *l.request, got(lease, err))
	var exhausted *pool.ExhaustedError
	var unknown *pool.ModelError
	switch {
	case err == nil:
		h.granted(now, l, lease, want)
	case errors.As(err, &unknown):
		h.seen["unknown model"]++
		if !want.unknown {
			h.t.Errorf("no key serves %q, says the pool; the oracle: %+v", l.request.model, want)
		}
	case errors.As(err, &exhausted):
		h.refused(exhausted, want)
	default:
		h.t.Errorf("lease: %v", err)
	}
}

func got(l *pool.Lease, err error) string {
	if err != nil {
		return err.Error()
	}
	return l.Tier + "/" + l.Key + " as " + l.UpstreamModel
}

func (h *history) granted(now time.Time, l *live, lease *pool.Lease, want verdict) {
	h.seen["leased"]++
	if want.tier < 0 {
		h.t.Errorf("leased %s; the oracle: none, %+v", lease.Key, want.counts)
		return
	}
	tier := h.oracle.options.Tiers[want.tier]
	if lease.Tier != tier.Name || !slices.Contains(want.allowed, lease.Key) {
		h.t.Errorf("leased %s/%s; the oracle: %s, %s of %v", lease.Tier, lease.Key, tier.Name, tier.Strategy, want.allowed)
		return
	}
	k := h.oracle.find(want.tier, lease.Key)
	upstream, _ := serves(k, l.request.model)
	if lease.UpstreamModel != upstream || lease.Passthrough != k.Passthrough {
		h.t.Errorf("lease %+v of key %+v", lease, k)
	}
	if want.tier > 0 {
		h.seen["second tier"]++
	}
	if tier.Strategy == pool.SessionSticky && h.oracle.bound(want.tier, l.request.session) == k.ID {
		h.seen["bound"]++
	}
	l.request.tried = append(l.request.tried, k.ID)
	l.lease, l.attempt = lease, &attempt{request: l.request, tier: want.tier, key: k, upstream: upstream, began: now}
	h.oracle.add(event{leased, now, l.attempt})
	h.flying = append(h.flying, l)
}

func (h *history) refused(ex *pool.ExhaustedError, want verdict) {
	h.seen["exhausted"]++
	got := pool.ExhaustedError{Cooling: ex.Cooling, DayLimit: ex.DayLimit, MonthLimit: ex.MonthLimit, Busy: ex.Busy, Disabled: ex.Disabled, Tried: ex.Tried}
	if want.tier >= 0 || want.unknown || got != want.counts {
		h.t.Errorf("%v; the oracle: tier %d, any of %v, counts %+v, unknown model %v", ex, want.tier, want.allowed, want.counts, want.unknown)
		return
	}
	for what, n := range map[string]int{"cooling": got.Cooling, "day": got.DayLimit, "month": got.MonthLimit, "busy": got.Busy, "disabled": got.Disabled, "tried": got.Tried} {
		h.seen[what] += n
	}
	if ex.Next.Before(want.next.first) || ex.Next.After(want.next.last) {
		h.t.Errorf("next at %s; the oracle: %s to %s", ex.Next, want.next.first, want.next.last)
	}
}

func (h *history) accept(l *live) {
	if l.attempt.accepted {
		return
	}
	h.note("accept %s", l.attempt.key.ID)
	l.lease.Accept()
	l.attempt.accepted = true
	h.oracle.add(event{accepted, h.pool.now(), l.attempt})
}

// close ends a lease by any class, mostly well when it was accepted.
func (h *history) close(n int) {
	l := h.flying[n]
	h.flying = slices.Delete(h.flying, n, n+1)
	var out pool.Outcome
	tokens := pool.Tokens{Input: h.random.Int64N(200), Output: h.random.Int64N(100), CacheCreation: h.random.Int64N(50), CacheRead: h.random.Int64N(1000)}
	if !l.attempt.accepted || h.random.IntN(3) == 0 {
		out.Class = pool.Class(h.random.IntN(int(pool.UnknownModel) + 1))
		switch out.Class {
		case pool.RateLimit, pool.Overload, pool.Fault, pool.Cap: // the others state none
			if h.random.IntN(2) == 0 {
				out.Reset = []time.Duration{time.Millisecond, 3 * time.Second, 90 * time.Second, 5 * time.Hour, 8 * 24 * time.Hour}[h.random.IntN(5)]
			}
		}
		out.KeyWide = out.Class == pool.RateLimit && h.random.IntN(4) == 0
	}
	w := h.oracle.options.Count
	h.oracle.close(h.pool.now(), l.attempt, out, w.Input*float64(tokens.Input)+w.Output*float64(tokens.Output)+
		w.CacheCreation*float64(tokens.CacheCreation)+w.CacheRead*float64(tokens.CacheRead))
	if l.attempt.moves && h.oracle.options.Tiers[l.attempt.tier].Strategy == pool.SessionSticky {
		h.seen["moved"]++
	}
	h.note("close %s: %s, reset %s, key-wide %v, alone %v, tokens %v", l.attempt.key.ID, out.Class, out.Reset, out.KeyWide, l.attempt.alone, l.attempt.tokens)
	l.lease.Close(out, tokens)
}

// pass lets time pass: a little, to an end of a day or month, or long.
func (h *history) pass() {
	now := h.pool.now()
	to := now
	switch h.random.IntN(8) {
	case 0:
		to = now.Add(time.Duration(h.random.IntN(1000)) * time.Millisecond)
	case 1, 2:
		to = now.Add(time.Duration(h.random.IntN(60)) * time.Second)
	case 3, 4:
		to = now.Add(time.Duration(h.random.IntN(90)) * time.Minute)
	case 5:
		to = daily.end(now).Add(time.Duration(h.random.IntN(3)-1) * time.Second)
	case 6:
		to = monthly.end(now).Add(time.Duration(h.random.IntN(3)-1) * time.Second)
	case 7:
		to = now.Add(time.Duration(h.random.IntN(72)) * time.Hour)
	}
	if to.Before(now) {
		to = now
	}
	h.pool.set(h.oracle.settled(to))
	h.note("now it is %s", h.pool.now().Format(time.RFC3339))
}

// look compares what the pages show with the history.
func (h *history) look() {
	now := h.pool.now()
	for i, t := range h.pool.View().Tiers {
		for j, v := range t.Keys {
			k := h.oracle.options.Tiers[i].Keys[j]
			if n := h.oracle.inFlight(k.ID); v.InFlight != n {
				h.t.Errorf("%s: %d in flight; the oracle: %d", k.ID, v.InFlight, n)
			}
			for _, used := range []struct{ got, want float64 }{
				{v.Today.Used, h.oracle.used(k.ID, now, daily)}, {v.Month.Used, h.oracle.used(k.ID, now, monthly)},
			} {
				if math.Abs(used.got-used.want) > 1e-6 {
					h.t.Errorf("%s: used %v; the oracle: %v", k.ID, used.got, used.want)
				}
			}
			k.Passthrough = false // what callers' credentials earned is not the key's
			g := h.oracle.gates(now, k, "", "")
			if (v.State == "ready") != g.open() {
				h.t.Errorf("%s: state %s; the oracle: %+v", k.ID, v.State, g)
			}
		}
	}
}
