package pool_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"coding-proxy/pool"
)

// A half-open breaker's probe is not used up by a request that no key of the tier could serve: a key is looked for
// before the breaker is asked. Cooldown wins: the breaker waits for its keys.
func TestBreakerProbeIsForRequestsThatCanBeSent(t *testing.T) {
	type then func(r *rig) (after func())
	nothing := func(*rig) func() { return func() {} }
	for _, tc := range []struct {
		name   string
		key    pool.Key
		before then       // while the breaker is open
		want   *pool.Want // of the requests that cannot be sent; nil: everybody's
	}{
		{"cooling", pool.Key{ID: "a1"}, func(r *rig) func() {
			r.whole(only("a1"), true, reset(pool.RateLimit, 200*time.Second))
			return func() { r.add(200 * time.Second) }
		}, nil},
		{"busy", pool.Key{ID: "a1", MaxConcurrent: 1}, func(r *rig) func() {
			l := r.lease(only("a1")) // the last tier of its scope: the open breaker does not refuse it
			return func() { l.Close(is(pool.Cancelled), pool.Tokens{}) }
		}, nil},
		{"over its limit", pool.Key{ID: "a1", DailyLimit: 10}, func(r *rig) func() {
			r.spend("a1", 10)
			return func() { r.add(12 * time.Hour) }
		}, nil},
		{"disabled", pool.Key{ID: "a1"}, func(r *rig) func() {
			_ = r.Enable("a1", false)
			return func() { _ = r.Enable("a1", true) }
		}, nil},
		{"out of scope", pool.Key{ID: "a1"}, nothing, only("z")},
		{"of another model", pool.Key{ID: "a1", Models: map[string]string{"m": "m"}}, nothing, &pool.Want{Scope: pool.Everything(), Model: "other"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := pool.Tier{Name: "a", Strategy: pool.FillFirst, Keys: []pool.Key{tc.key}}
			r := newRig(t, chained(broken(a, 1), tierOf("z", "z")), nil)
			r.trip("a1")
			r.add(50 * time.Second)
			after := tc.before(r)
			r.add(50 * time.Second)
			for range 5 {
				w := ask("")
				if tc.want != nil {
					w = &pool.Want{Scope: tc.want.Scope, Model: tc.want.Model}
				}
				equal(t, "served by", r.serve(w), "z")
			}
			after()
			equal(t, "breaker", r.breaker("a"), "half-open 0")
			equal(t, "the probe", r.lease(ask("")).Key, "a1")
			equal(t, "beside it", r.lease(ask("")).Key, "z")
		})
	}
}

// The same for the guard's probe of the interval.
func TestGuardProbeIsForRequestsThatCanBeSent(t *testing.T) {
	for _, tc := range []struct {
		name   string
		key    pool.Key
		end    pool.Outcome // of a request that began before the excess
		tokens pool.Tokens
		after  func(r *rig)
		want   *pool.Want
	}{
		{"cooling", pool.Key{ID: "a1"}, reset(pool.Fault, 200*time.Second), pool.Tokens{}, func(r *rig) { r.add(220 * time.Second) }, nil},
		{"over its limit", pool.Key{ID: "a1", DailyLimit: 10}, pool.Outcome{}, pool.Tokens{Input: 10}, func(r *rig) { r.add(12 * time.Hour) }, nil},
		{"out of scope", pool.Key{ID: "a1"}, pool.Outcome{}, pool.Tokens{}, func(*rig) {}, only("z")},
		{"of another model", pool.Key{ID: "a1", Models: map[string]string{"m": "m"}}, pool.Outcome{}, pool.Tokens{}, func(*rig) {},
			&pool.Want{Scope: pool.Everything(), Model: "other"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := pool.Tier{Name: "a", Strategy: pool.FillFirst, Keys: []pool.Key{tc.key}}
			r := newRig(t, chained(limited(a, 0), tierOf("z", "z")), nil)
			slow := r.lease(only("a1"))
			r.capped("a1", 0)
			equal(t, "guard", r.guard("a"), "by cap, next in 5m0s")
			r.add(299 * time.Second)
			slow.Close(tc.end, tc.tokens)
			equal(t, "before the interval is over", r.serve(ask("")), "z")
			r.add(time.Second)
			for range 5 {
				w := ask("")
				if tc.want != nil {
					w = &pool.Want{Scope: tc.want.Scope, Model: tc.want.Model}
				}
				equal(t, "served by", r.serve(w), "z")
			}
			tc.after(r)
			equal(t, "the probe", r.lease(ask("")).Key, "a1")
			equal(t, "guard", r.guard("a"), "by cap, next in 5m0s")
			equal(t, "beside it", r.lease(ask("")).Key, "z")
		})
	}
}

// Breaker and guard must both allow, and what the one lets in is not used up when the other refuses.
func TestBreakerAndGuardMustBothAllow(t *testing.T) {
	t.Run("the breaker refuses", func(t *testing.T) {
		a := limited(broken(tierOf("a", "a1"), 1), 0)
		a.Breaker.Recovery, a.Breaker.MaxRecovery = 1000*time.Second, 1000*time.Second
		r := newRig(t, chained(a, tierOf("z", "z")), nil)
		r.trip("a1")
		r.add(2 * time.Second)
		r.capped("a1", 0) // a1 is the last of its scope: the breaker lets it in
		r.add(500 * time.Second)
		for range 3 {
			equal(t, "while the breaker is open", r.serve(ask("")), "z")
			equal(t, "the guard's probe is due", r.guard("a"), "by cap, next in -3m20s")
		}
		r.add(498 * time.Second)
		l := r.lease(ask(""))
		equal(t, "the probe of both", l.Key, "a1")
		equal(t, "guard", r.guard("a"), "by cap, next in 5m0s")
		equal(t, "beside it", r.lease(ask("")).Key, "z")
		l.Accept()
		equal(t, "breaker", r.breaker("a"), "closed 0")
		equal(t, "guard", r.guard("a"), "within 0")
	})
	t.Run("the guard refuses", func(t *testing.T) {
		r := newRig(t, chained(limited(broken(tierOf("a", "a1"), 1), 0), tierOf("z", "z")), nil)
		r.trip("a1")
		r.add(2 * time.Second)
		r.capped("a1", 0)
		r.add(200 * time.Second)
		for range 3 {
			equal(t, "before the guard's interval is over", r.serve(ask("")), "z")
			equal(t, "breaker", r.breaker("a"), "half-open 0")
		}
		r.add(100 * time.Second)
		l := r.lease(ask(""))
		equal(t, "the probe of both", l.Key, "a1")
		// A client that goes away gives both back.
		l.Close(is(pool.Cancelled), pool.Tokens{})
		equal(t, "the next probe", r.serve(ask("")), "a1")
		equal(t, "breaker", r.breaker("a"), "closed 0")
		equal(t, "guard", r.guard("a"), "within 0")
	})
}

// The last tier, in the configuration's order, that has a key in scope for the model never refuses by its breaker.
func TestLastTierNeverRefusesByItsBreaker(t *testing.T) {
	with := func(change func(a, z *pool.Tier)) pool.Options {
		a, z := broken(tierOf("a", "a1", "a2"), 1), broken(tierOf("z", "z1", "z2"), 1)
		change(&a, &z)
		return chained(a, z)
	}
	plainly := with(func(*pool.Tier, *pool.Tier) {})
	other := map[string]string{"other": "other"}
	for _, tc := range []struct {
		name   string
		o      pool.Options
		before func(*testing.T, *rig)
		want   *pool.Want
		served string // "" = refused
		counts pool.ExhaustedError
	}{
		{"both are open", plainly, nil, ask(""), "z1", pool.ExhaustedError{}},
		{"the scope cuts the last one off", plainly, nil, only("a1", "a2"), "a1", pool.ExhaustedError{}},
		{"the scope has one key of it", plainly, nil, only("a1", "z2"), "z2", pool.ExhaustedError{}},
		{"the model cuts it off", with(func(_, z *pool.Tier) { z.Keys[0].Models, z.Keys[1].Models = other, other }), nil, ask(""), "a1", pool.ExhaustedError{}},
		{"scope and model cut it off", with(func(_, z *pool.Tier) { z.Keys[0].Models = other }), nil, only("a1", "z1"), "a1", pool.ExhaustedError{}},
		{"a tier's mapping cuts it off", with(func(_, z *pool.Tier) {
			z.Mapping, _ = pool.NewMapping([]pool.MappingRule{{Pattern: "other", Target: "other"}}, "")
		}), nil, ask(""), "a1", pool.ExhaustedError{}},
		{"its keys are disabled", with(func(_, z *pool.Tier) { z.Keys[0].Disabled, z.Keys[1].Disabled = true, true }), nil, ask(""), "a1", pool.ExhaustedError{}},
		{"its keys cool down: it is the last one all the same", plainly, func(_ *testing.T, r *rig) {
			r.whole(only("z1"), true, reset(pool.RateLimit, time.Hour))
			r.whole(only("z2"), true, reset(pool.RateLimit, time.Hour))
		}, ask(""), "", pool.ExhaustedError{Cooling: 2, Breaker: 2}},
		{"its guard refuses", with(func(_, z *pool.Tier) { *z = limited(*z, 100) }), func(_ *testing.T, r *rig) { r.spend("z1", 100) }, ask(""), "",
			pool.ExhaustedError{Guard: 2, Breaker: 2}},
		{"the only tier's guard refuses", chained(limited(broken(tierOf("a", "a1"), 1), 100)), func(_ *testing.T, r *rig) { r.spend("a1", 100) }, ask(""), "",
			pool.ExhaustedError{Guard: 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, tc.o, nil)
			for _, tier := range tc.o.Tiers {
				k := tier.Keys[0]
				if k.Disabled {
					continue
				}
				w := only(k.ID)
				if k.Models != nil {
					w.Model = "other"
				} else if tier.Mapping != nil {
					w.Model = "other"
				}
				r.whole(w, true, reset(pool.Overload, time.Second))
				equal(t, "breaker of "+tier.Name, r.breaker(tier.Name), "open for 1m40s")
			}
			r.add(2 * time.Second)
			if tc.before != nil {
				tc.before(t, r)
			}
			if tc.served != "" {
				equal(t, "served by", r.serve(tc.want), tc.served)
				return
			}
			equal(t, "counts", counts(r.refused(tc.want)), tc.counts)
		})
	}
	t.Run("its keys were tried", func(t *testing.T) {
		r := newRig(t, plainly, nil)
		r.trip("a1")
		r.trip("z1")
		r.add(2 * time.Second)
		w := ask("")
		equal(t, "first", r.fail(w, is(pool.Overload)), "z1")
		equal(t, "second", r.fail(w, is(pool.Overload)), "z2")
		// z is the last tier though nothing is left of it: a still refuses.
		equal(t, "counts", counts(r.refused(w)), pool.ExhaustedError{Tried: 2, Breaker: 2})
	})
	t.Run("half-open, beside the probe", func(t *testing.T) {
		r := newRig(t, plainly, nil)
		r.trip("z1")
		r.add(100 * time.Second)
		first := r.lease(only("z1", "z2"))
		for range 3 {
			r.whole(only("z1"), true, is(pool.Cancelled))
		}
		equal(t, "breaker", r.breaker("z"), "half-open 0")
		first.Accept()
		equal(t, "breaker", r.breaker("z"), "closed 0")
	})
}

// counts has the numbers of an error alone.
func counts(ex *pool.ExhaustedError) pool.ExhaustedError {
	return pool.ExhaustedError{Cooling: ex.Cooling, DayLimit: ex.DayLimit, MonthLimit: ex.MonthLimit, Busy: ex.Busy,
		Disabled: ex.Disabled, Tried: ex.Tried, Breaker: ex.Breaker, Guard: ex.Guard}
}

// A failure counts once per request and tier: when the request has to leave the tier because its attempts there failed.
func TestBreakerCountsRequests(t *testing.T) {
	ok, overload, fault, rate, cap, key, unknown, gone, mine := is(pool.OK), is(pool.Overload), is(pool.Fault), is(pool.RateLimit),
		is(pool.Cap), is(pool.Credential), is(pool.UnknownModel), is(pool.Cancelled), is(pool.Passthrough)
	const open = "open for 1m40s" // the threshold is one
	for _, tc := range []struct {
		name     string
		outcomes []pool.Outcome // tiers a: two keys, b: two, z: one
		failed   bool
		a, b, z  string
	}{
		{"503, then ok", []pool.Outcome{overload, ok}, false, "closed 0", "closed 0", "closed 0"},
		{"twice 503, then ok in the next tier", []pool.Outcome{overload, overload, ok}, false, open, "closed 0", "closed 0"},
		{"no connection, twice", []pool.Outcome{fault, fault, ok}, false, open, "closed 0", "closed 0"},
		{"two tiers", []pool.Outcome{overload, fault, fault, overload, ok}, false, open, open, "closed 0"},
		{"all tiers", []pool.Outcome{overload, fault, fault, overload, overload}, true, open, open, open},
		{"503, then the client goes", []pool.Outcome{overload, gone}, false, "closed 0", "closed 0", "closed 0"},
		{"503, then 400", []pool.Outcome{overload, mine}, false, "closed 0", "closed 0", "closed 0"},
		{"503 twice, then 400 of the next tier", []pool.Outcome{overload, overload, mine}, false, open, "closed 0", "closed 0"},
		{"503, and the client goes before the next attempt", []pool.Outcome{overload}, false, "closed 0", "closed 0", "closed 0"},
		{"503, and no attempt is left", []pool.Outcome{overload}, true, open, "closed 0", "closed 0"},
		{"503 twice and once, and no attempt is left", []pool.Outcome{overload, overload, overload}, true, open, open, "closed 0"},
		{"429 never", []pool.Outcome{rate, rate, rate, rate, rate}, true, "closed 0", "closed 0", "closed 0"},
		{"caps never", []pool.Outcome{cap, cap, cap, cap, cap}, true, "closed 0", "closed 0", "closed 0"},
		{"401 never", []pool.Outcome{key, key, key, key, key}, true, "closed 0", "closed 0", "closed 0"},
		{"unknown models never", []pool.Outcome{unknown, unknown, unknown, unknown, unknown}, true, "closed 0", "closed 0", "closed 0"},
		{"503, then 429: it leaves, and one attempt failed", []pool.Outcome{overload, rate, ok}, false, open, "closed 0", "closed 0"},
		{"429, then 503", []pool.Outcome{rate, overload, ok}, false, open, "closed 0", "closed 0"},
		{"503, 401 and no attempt is left", []pool.Outcome{overload, key}, true, open, "closed 0", "closed 0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, chained(broken(tierOf("a", "a1", "a2"), 1), broken(tierOf("b", "b1", "b2"), 1), broken(tierOf("z", "z"), 1)), nil)
			r.whole(ask("s"), tc.failed, tc.outcomes...)
			equal(t, "breaker of a", r.breaker("a"), tc.a)
			equal(t, "breaker of b", r.breaker("b"), tc.b)
			equal(t, "breaker of z", r.breaker("z"), tc.z)
		})
	}
	t.Run("back to a tier before it", func(t *testing.T) {
		a := tierOf("a", "a1", "a2")
		a.Keys[1].MaxConcurrent = 1
		r := newRig(t, chained(a, broken(tierOf("z", "z1", "z2"), 3)), nil)
		busy := r.lease(only("a2"))
		w := ask("")
		equal(t, "first", r.fail(w, overload), "a1")
		equal(t, "second", r.fail(w, overload), "z1")
		busy.Close(gone, pool.Tokens{})
		equal(t, "third", r.serve(w), "a2")
		r.End(w, false)
		equal(t, "breaker of z", r.breaker("z"), "closed 1")
	})
	t.Run("how many", func(t *testing.T) {
		r := newRig(t, chained(broken(tierOf("a", "a1", "a2", "a3"), 100), tierOf("z", "z")), nil)
		for n := range 5 {
			r.whole(ask(""), false, reset(pool.Overload, time.Second), reset(pool.Fault, time.Second), reset(pool.Overload, time.Second), ok)
			equal(t, "breaker", r.breaker("a"), fmt.Sprint("closed ", n+1))
			r.add(2 * time.Second)
		}
		equal(t, "success", r.serve(ask("")), "a1")
		equal(t, "breaker", r.breaker("a"), "closed 0")
	})
}

// What breaks after a good head counts as its kind says, once, although the head was a success.
func TestBrokenStreamsCount(t *testing.T) {
	for _, tc := range []struct {
		name    string
		outcome pool.Outcome
		want    string
	}{
		{"ends well", is(pool.OK), "closed 0"}, {"no finish", is(pool.Fault), "closed 1"}, {"an overload event", is(pool.Overload), "closed 1"},
		{"a rate limit event", is(pool.RateLimit), "closed 0"}, {"a cap event", is(pool.Cap), "closed 0"}, {"the client goes", is(pool.Cancelled), "closed 0"},
		{"its own fault", is(pool.Passthrough), "closed 0"}, {"401", is(pool.Credential), "closed 0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, first := range []bool{false, true} { // after a 503 of another key: still one
				r := newRig(t, chained(broken(tierOf("a", "a1", "a2"), 3), tierOf("z", "z")), nil)
				w := ask("")
				if first {
					r.fail(w, is(pool.Overload))
				}
				l := r.lease(w)
				l.Accept()
				l.Close(tc.outcome, pool.Tokens{})
				r.End(w, false)
				equal(t, "breaker", r.breaker("a"), tc.want)
			}
		})
	}
	r := newRig(t, chained(broken(tierOf("a", "a1"), 3), tierOf("z", "z")), nil)
	for range 3 { // three broken streams in a row: each head was a success
		l := r.lease(ask(""))
		l.Accept()
		l.Close(reset(pool.Fault, time.Second), pool.Tokens{})
		r.add(2 * time.Second)
	}
	equal(t, "breaker", r.breaker("a"), "closed 1")
}

// The 429 storm: fifty requests on one key fail together. For the key it is one step, whatever failed; a breaker never
// hears of limits, and of fifty 503 it opens once.
func TestParallelFailuresOfOneEvent(t *testing.T) {
	for _, tc := range []struct {
		name    string
		outcome pool.Outcome
		apart   time.Duration // between two ends
		breaker string
	}{
		{"fifty 429", is(pool.RateLimit), 0, "closed 0"},
		{"fifty 503", is(pool.Overload), 0, "open for 1m40s"},
		{"fifty without connection", is(pool.Fault), 0, "open for 1m40s"},
		{"fifty 429, one after the other", is(pool.RateLimit), 100 * time.Millisecond, "closed 0"},
		{"fifty 503, one after the other", is(pool.Overload), 100 * time.Millisecond, "open for 1m35.3s"}, // since the third
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, chained(limited(broken(tierOf("a", "a1"), 3), 1000), tierOf("z", "z")), nil)
			var wants []*pool.Want
			var leases []*pool.Lease
			for range 50 {
				wants = append(wants, ask(""))
				leases = append(leases, r.lease(wants[len(wants)-1]))
			}
			r.add(time.Second)
			ended := r.now()
			for i, l := range leases {
				if i > 0 {
					r.add(tc.apart)
				}
				l.Close(tc.outcome, pool.Tokens{})
				equal(t, "next", r.serve(wants[i]), "z")
				r.End(wants[i], false)
			}
			equal(t, "breaker", r.breaker("a"), tc.breaker)
			equal(t, "streak", r.key("a1").Streak, 1)
			equal(t, "guard", r.guard("a"), "within 0")
			if d := r.out("a1", "m", "") + r.since(ended); !within(d, 30*time.Second) {
				t.Errorf("cools for %s", d)
			}
			r.add(40 * time.Second)
			if strings.HasPrefix(tc.breaker, "closed") {
				equal(t, "when it has cooled down", r.serve(ask("")), "a1")
				return
			}
			equal(t, "while the breaker is open", r.serve(ask("")), "z")
			r.add(60 * time.Second)
			equal(t, "the probe", r.lease(ask("")).Key, "a1")
			equal(t, "beside it", r.lease(ask("")).Key, "z")
		})
	}
}

// A guard lets a request wait for its probe's time when that is near.
func TestWaitsForAGuard(t *testing.T) {
	o := chained(limited(tierOf("a", "a1"), 0))
	o.MaxWait = 5 * time.Second
	inTime(t, "its next probe", o, nil, func(t *testing.T, r *rig) {
		r.capped("a1", 0)
		time.Sleep(294 * time.Second)
		ex := r.exhausted(ask(""), 0)
		equal(t, "counts", counts(ex), pool.ExhaustedError{Guard: 1})
		equal(t, "retry after", ex.RetryAfter(), 6*time.Second)
		time.Sleep(2 * time.Second)
		errs := make(chan error)
		for range 2 {
			go func() {
				_, took, err := r.timed(t.Context(), ask(""))
				equal(t, "waited", took, 4*time.Second)
				errs <- err
			}()
		}
		// One of the two gets the probe, the other one sees that it has gone.
		first, second := <-errs, <-errs
		if first == nil {
			first, second = second, first
		}
		if !errors.As(first, &ex) || second != nil {
			t.Fatalf("%v and %v", first, second)
		}
		equal(t, "retry after", ex.RetryAfter(), 300*time.Second)
	})
	inTime(t, "its stated end", o, nil, func(t *testing.T, r *rig) {
		r.capped("a1", 200*time.Second)
		time.Sleep(time.Until(r.tier("a").Guard.Until) - 3*time.Second)
		r.servedAfter(3*time.Second, "a1", ask(""))
		r.servedAfter(0, "a1", ask(""))
	})
	o = chained(limited(tierOf("a", "a1"), 10))
	o.MaxWait = 5 * time.Second
	inTime(t, "the window that slides", o, nil, func(t *testing.T, r *rig) { // from a full minute on
		r.spend("a1", 10)
		time.Sleep(3657 * time.Second)
		r.lease(ask("")).Close(is(pool.RateLimit), pool.Tokens{}) // a probe
		r.servedAfter(3*time.Second, "a1", &pool.Want{Scope: pool.Everything(), Model: "another"})
	})
}

// Counts and times of an exhausted pool with breakers and guards: a key behind a tier that refuses is free when both
// are, the pool when the first of them is.
func TestExhaustedBehindBreakersAndGuards(t *testing.T) {
	o := chained(broken(tierOf("a", "a1", "a2", "a3"), 1), limited(tierOf("b", "b1", "b2"), 100), tierOf("z", "z"))
	r := newRig(t, o, nil)
	w := only("a1", "a2", "a3")
	r.whole(w, true, reset(pool.Overload, time.Second), reset(pool.RateLimit, 500*time.Second), reset(pool.RateLimit, time.Second))
	r.spend("b1", 100)
	r.whole(only("z"), true, reset(pool.Cap, time.Hour))
	r.add(10 * time.Second)
	ex := r.refused(ask(""))
	equal(t, "counts", counts(ex), pool.ExhaustedError{Breaker: 2, Guard: 2, Cooling: 2})
	equal(t, "next", ex.Next, r.now().Add(90*time.Second)) // the breaker's
	equal(t, "retry after", ex.RetryAfter(), 90*time.Second)
	for _, part := range []string{"2 cooling down", "2 behind an open circuit breaker", "2 behind a quota guard"} {
		if !strings.Contains(ex.Error(), part) {
			t.Errorf("%q does not say %q", ex, part)
		}
	}
	// Only the cooling key of tier a is in scope, and z: a2 is free when it has cooled down, long after the breaker.
	ex = r.refused(only("a2", "z"))
	equal(t, "counts", counts(ex), pool.ExhaustedError{Cooling: 2})
	if d := ex.Next.Sub(r.now()); d < 490*time.Second || d > 540*time.Second {
		t.Errorf("free in %s", d)
	}
	// A short cooldown behind the open breaker: free when that is half-open.
	r.whole(only("a3"), true, reset(pool.RateLimit, 20*time.Second))
	ex = r.refused(only("a3", "z"))
	equal(t, "counts", counts(ex), pool.ExhaustedError{Cooling: 2})
	equal(t, "next", ex.Next, r.now().Add(90*time.Second))
	// Behind the guard.
	ex = r.refused(only("b2", "z"))
	equal(t, "counts", counts(ex), pool.ExhaustedError{Guard: 1, Cooling: 1})
	equal(t, "next", ex.Next, r.now().Add(290*time.Second))
	// Half-open with its probe under way: free at any time.
	r.add(100 * time.Second)
	r.lease(only("a1", "z"))
	ex = r.refused(only("a1", "a3", "z"))
	equal(t, "counts", counts(ex), pool.ExhaustedError{Breaker: 2, Cooling: 1})
	equal(t, "retry after", ex.RetryAfter(), time.Second)
}

// A busy key behind a tier that refuses is not free when its request ends: nobody waits for that.
func TestBusyKeyBehindARefusingTier(t *testing.T) {
	a, b := broken(tierOf("a", "a1"), 1), limited(tierOf("b", "b1"), 0)
	a.Keys[0].MaxConcurrent, b.Keys[0].MaxConcurrent = 1, 1
	o := chained(a, b, tierOf("z", "z"))
	o.MaxWait = 5 * time.Second
	inTime(t, "both", o, nil, func(t *testing.T, r *rig) {
		r.whole(only("z"), true, reset(pool.Fault, time.Hour))
		r.trip("a1")
		time.Sleep(2 * time.Second)
		r.lease(only("a1"))
		ex := r.exhausted(only("a1", "z"), 0)
		equal(t, "counts", counts(ex), pool.ExhaustedError{Busy: 1, Cooling: 1})
		equal(t, "retry after", ex.RetryAfter(), 98*time.Second)
		r.capped("b1", 0)
		time.Sleep(300 * time.Second)
		r.lease(only("b1")) // the probe of this interval
		ex = r.exhausted(only("b1", "z"), 0)
		equal(t, "counts", counts(ex), pool.ExhaustedError{Busy: 1, Cooling: 1})
		equal(t, "retry after", ex.RetryAfter(), 300*time.Second)
	})
}

// The journal learns which tiers were passed over, and why.
func TestSkippedNamesTiers(t *testing.T) {
	r := newRig(t, chained(broken(tierOf("a", "a1"), 1), limited(tierOf("b", "b1"), 1), tierOf("z", "z")), nil)
	r.trip("a1")
	r.spend("b1", 1)
	r.add(2 * time.Second)
	w := ask("")
	equal(t, "served by", r.serve(w), "z")
	want := []pool.Skip{{Tier: "a", Gate: pool.GateBreaker}, {Tier: "b", Gate: pool.GateGuard}}
	if fmt.Sprint(w.Skipped) != fmt.Sprint(want) {
		t.Errorf("skipped %v, want %v", w.Skipped, want)
	}
}
