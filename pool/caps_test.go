package pool_test

import (
	"testing"
	"time"

	"coding-proxy/pool"
)

// A cap cools its key while another usable key is in the tier, or where the tier has no guard. The last usable key is
// not cooled: the guard is exceeded by cap and rules it.
func TestCapOfATiersKeys(t *testing.T) {
	const rules = "by cap, next in 5m0s"
	guarded := func(keys ...pool.Key) pool.Options {
		return chained(limited(pool.Tier{Name: "a", Strategy: pool.FillFirst, Keys: keys}, 0), tierOf("z", "z"))
	}
	cools := func(r *rig, key string, d time.Duration) {
		r.whole(only(key), true, reset(pool.Credential, d))
	}
	for _, tc := range []struct {
		name   string
		o      pool.Options
		before func(r *rig)
		want   *pool.Want
		cools  bool // the key k; else the guard is exceeded
	}{
		{"the only key", guarded(pool.Key{ID: "k"}), nil, ask(""), false},
		{"another key", guarded(plain("k", "k2")...), nil, ask(""), true},
		{"another key that cools", guarded(plain("k", "k2")...), func(r *rig) { cools(r, "k2", time.Hour) }, ask(""), false},
		{"another key that is disabled", guarded(pool.Key{ID: "k"}, pool.Key{ID: "k2", Disabled: true}), nil, ask(""), false},
		{"another key for another model", guarded(pool.Key{ID: "k"}, pool.Key{ID: "k2", Models: map[string]string{"other": "other"}}), nil, ask(""), false},
		{"another key over its limit", guarded(pool.Key{ID: "k"}, pool.Key{ID: "k2", DailyLimit: 1}), func(r *rig) { r.spend("k2", 1) }, ask(""), false},
		{"another key that is busy", guarded(pool.Key{ID: "k"}, pool.Key{ID: "k2", MaxConcurrent: 1}), func(r *rig) { r.lease(only("k2")) }, ask(""), true},
		{"another key, of another caller", guarded(plain("k", "k2")...), nil, only("k"), true},
		{"no guard", chained(tierOf("a", "k"), limited(tierOf("z", "z"), 0)), nil, ask(""), true},
		{"another key in another tier", guarded(pool.Key{ID: "k"}), nil, only("k", "z"), false},
	} {
		for _, stated := range []time.Duration{0, 100 * time.Second, 2 * time.Hour} {
			t.Run(tc.name+", "+stated.String(), func(t *testing.T) {
				r := newRig(t, tc.o, nil)
				if tc.before != nil {
					tc.before(r)
				}
				w := &pool.Want{Scope: tc.want.Scope, Model: "m"}
				equal(t, "the key", r.fail(w, reset(pool.Cap, stated)), "k")
				r.End(w, false)
				if tc.cools {
					k := r.key("k")
					equal(t, "state", k.State, "cooling")
					equal(t, "reason", k.Reason, "cap")
					long := stated
					if long == 0 {
						long = time.Hour
					}
					if d := -r.since(k.Until); !within(d, long) {
						t.Errorf("cools for %s, want %s", d, long)
					}
					if r.tier("a").Guard != nil {
						equal(t, "guard", r.guard("a"), "within 0")
					}
					return
				}
				equal(t, "state", r.key("k").State, "ready")
				if stated == 100*time.Second { // and up to a tenth more
					g := r.tier("a").Guard
					equal(t, "by", g.By, "cap")
					if d := -r.since(g.Until); !within(d, stated) {
						t.Errorf("the guard's next request goes in %s", d)
					}
				} else {
					equal(t, "guard", r.guard("a"), rules)
				}
				equal(t, "next request", r.serve(only("k", "z")), "z")
			})
		}
	}
}

// From the first cap to the last and back: keys cool, then the guard rules; one probe an interval, until one is good.
func TestCapsThroughATier(t *testing.T) {
	r := newRig(t, chained(limited(broken(tierOf("a", "a1", "a2"), 1), 0), tierOf("z", "z")), nil)
	w := ask("s")
	equal(t, "first", r.fail(w, is(pool.Cap)), "a1")
	equal(t, "guard", r.guard("a"), "within 0")
	equal(t, "second", r.fail(w, is(pool.Cap)), "a2")
	equal(t, "guard", r.guard("a"), "by cap, next in 5m0s")
	equal(t, "third", r.serve(w), "z")
	r.End(w, false)
	equal(t, "breaker", r.breaker("a"), "closed 0")
	for range 3 {
		r.add(299 * time.Second)
		equal(t, "before the interval is over", r.serve(ask("")), "z")
		r.add(time.Second)
		probe := ask("")
		l := r.lease(probe)
		equal(t, "the probe", l.Key, "a2")
		equal(t, "beside it", r.serve(ask("")), "z")
		l.Close(is(pool.Cap), pool.Tokens{})
		equal(t, "a2", r.key("a2").State, "ready")
		equal(t, "the probe's request goes on", r.serve(probe), "z")
		equal(t, "guard", r.guard("a"), "by cap, next in 5m0s")
	}
	r.add(300 * time.Second)
	l := r.lease(ask(""))
	r.add(10 * time.Second)
	l.Accept()
	equal(t, "guard", r.guard("a"), "within 0")
	equal(t, "next", r.serve(ask("")), "a2")
	l.Close(pool.Outcome{}, pool.Tokens{})
	r.add(50 * time.Minute)
	equal(t, "when a1 has cooled down", r.serve(ask("")), "a1")
}

// What becomes of a guard's probe: only one that has not reached the provider is given back. Else a tier that answers 400
// to everything would be probed by everybody.
func TestOutcomesOfAGuardsProbe(t *testing.T) {
	for _, tc := range []struct {
		outcome pool.Outcome
		want    string // 10 s after the probe went
	}{
		{is(pool.RateLimit), "by cap, next in 4m50s"}, {reset(pool.RateLimit, time.Second), "by cap, next in 4m50s"},
		{is(pool.Cancelled), "by cap, next in 0s"}, {is(pool.Stale), "by cap, next in 0s"}, {is(pool.Passthrough), "by cap, next in 4m50s"},
		{is(pool.Fault), "by cap, next in 4m50s"}, {is(pool.Overload), "by cap, next in 4m50s"}, {is(pool.UnknownModel), "by cap, next in 4m50s"},
	} {
		t.Run(tc.outcome.Class.String(), func(t *testing.T) {
			r := newRig(t, chained(limited(tierOf("a", "a1"), 0), tierOf("z", "z")), nil)
			r.capped("a1", 0)
			r.add(400 * time.Second)
			w := ask("")
			l := r.lease(w)
			equal(t, "the probe", l.Key, "a1")
			r.add(10 * time.Second)
			l.Close(tc.outcome, pool.Tokens{})
			r.End(w, true)
			equal(t, "guard", r.guard("a"), tc.want)
		})
	}
}

// Again keeps the guard's probe, as it keeps the breaker's: it is one request.
func TestStaleAttemptKeepsItsProbes(t *testing.T) {
	r := newRig(t, chained(limited(broken(tierOf("a", "a1"), 1), 0), tierOf("z", "z")), nil)
	r.trip("a1")
	r.add(2 * time.Second)
	r.capped("a1", 0)
	r.add(400 * time.Second)
	again := r.lease(ask("")).Again()
	equal(t, "beside it", r.serve(ask("")), "z")
	equal(t, "breaker", r.breaker("a"), "half-open 0")
	again.Accept()
	equal(t, "breaker", r.breaker("a"), "closed 0")
	equal(t, "guard", r.guard("a"), "within 0")
	equal(t, "next", r.serve(ask("")), "a1")
}

// A passthrough key's caps are its caller's: the guard hears nothing of them. Its tokens are the tier's all the same.
func TestPassthroughCapsAreTheCallers(t *testing.T) {
	a := limited(pool.Tier{Name: "a", Strategy: pool.FillFirst, Keys: []pool.Key{{ID: "p", Passthrough: true}}}, 100)
	r := newRig(t, chained(a, tierOf("z", "z")), nil)
	of := func(credential string) *pool.Want {
		w := ask("")
		w.Credential = credential
		return w
	}
	for _, class := range []pool.Class{pool.Cap, pool.Credential, pool.RateLimit} {
		who := "c-" + class.String()
		w := of(who)
		equal(t, "first", r.fail(w, is(class)), "p")
		equal(t, "the same request", r.serve(w), "z")
		equal(t, "guard", r.guard("a"), "within 0")
		equal(t, "the same caller", r.serve(of(who)), "z")
		equal(t, "another caller", r.serve(of("c2")), "p")
		equal(t, "without a credential", r.serve(of("")), "p")
	}
	// Two tiers share a credential, not what it earned with one of them.
	l := r.lease(of("c2"))
	l.Accept()
	l.Close(pool.Outcome{}, pool.Tokens{Output: 100})
	equal(t, "guard", r.guard("a"), "by budget, next in 5m0s")
	equal(t, "exceeded for every caller", r.serve(of("c2")), "z")
}

// Budgets: what answers use fills the window, whoever they were for and whatever became of them, and slides out again.
func TestBudgetOfATier(t *testing.T) {
	r := newRig(t, chained(limited(tierOf("a", "a1", "a2"), 1000), tierOf("z", "z")), nil)
	for n, o := range []pool.Outcome{{}, is(pool.Cancelled), is(pool.Passthrough)} {
		l := r.lease(only([]string{"a1", "a2", "a1"}[n]))
		if o.Class == pool.OK {
			l.Accept()
		}
		l.Close(o, pool.Tokens{Input: 100, Output: 100, CacheCreation: 99, CacheRead: 10})
		r.add(10 * time.Minute)
	}
	equal(t, "guard", r.guard("a"), "within 900")
	overshoot := []*pool.Lease{r.lease(ask("")), r.lease(ask("")), r.lease(ask(""))} // accepted, and documented
	for _, l := range overshoot {
		l.Accept()
		l.Close(pool.Outcome{}, pool.Tokens{Output: 200})
	}
	equal(t, "guard", r.guard("a"), "by budget, next in 5m0s")
	equal(t, "tier's use", r.tier("a").Guard.Used, 1500)
	equal(t, "next", r.serve(ask("")), "z")
	// A good probe ends it, but the window is still full: it begins anew at once.
	r.add(5 * time.Minute)
	equal(t, "the probe", r.serve(ask("")), "a1")
	equal(t, "guard", r.guard("a"), "by budget, next in 5m0s")
	equal(t, "next", r.serve(ask("")), "z")
	// 35 minutes after the first: two more slide out and 900 are left.
	r.add(36 * time.Minute)
	equal(t, "guard", r.guard("a"), "within 900")
	equal(t, "when it has slid", r.serve(ask("")), "a1")
}
