package pool_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"coding-proxy/pool"
)

// A reload keeps what keys have: counts, cooldowns, sessions, leases; and what tiers have: breaker and guard, turn.
func TestReloadKeepsKeysAndTiers(t *testing.T) {
	build := func() pool.Options {
		a := limited(broken(sticky("a", "", "a1", "a2", "a3"), 3), 0)
		return chained(a, tierOf("z", "z"))
	}
	r := newRig(t, build(), spent{"a1": {7, 70}})
	r.spend("a1", 100)
	bound := r.serve(ask("S"))
	r.add(time.Second)
	flying := r.lease(only("a2"))
	r.trip("a3")
	r.add(2 * time.Second)
	r.trip("a3")
	r.add(2 * time.Second)
	r.whole(only("a3"), true, reset(pool.Fault, time.Hour))
	r.add(time.Second)
	before := r.View()
	for range 3 {
		r.Configure(build())
		if got, want := show(r.View()), show(before); got != want {
			t.Errorf("after a reload:\n%s\nbefore:\n%s", got, want)
		}
	}
	equal(t, "breaker", r.breaker("a"), "open for 1m39s")
	equal(t, "used", r.key("a1").Today.Used, 107)
	equal(t, "used in the month", r.key("a1").Month.Used, 170)
	equal(t, "in flight", r.key("a2").InFlight, 1)
	equal(t, "a3", r.key("a3").State, "cooling")
	flying.Accept()
	flying.Close(pool.Outcome{}, pool.Tokens{Output: 5})
	equal(t, "in flight in the end", r.key("a2").InFlight, 0)
	equal(t, "tokens of what was in flight", r.key("a2").Today.Used, 5)
	r.add(100 * time.Second)
	equal(t, "S", r.serve(ask("S")), bound)
}

// show is a view as text, without what a clock moves.
func show(v pool.View) string {
	var b strings.Builder
	for _, t := range v.Tiers {
		b.WriteString(t.Name)
		if t.Breaker != nil {
			b.WriteString(" " + t.Breaker.State + t.Breaker.Until.String())
		}
		if t.Guard != nil {
			b.WriteString(" " + t.Guard.State + t.Guard.By + t.Guard.Until.String())
		}
		b.WriteString("\n")
		for _, k := range t.Keys {
			b.WriteString("  " + strings.Join([]string{k.ID, k.State, k.Reason, k.Until.String(), k.LastUsed.String()}, " ") + "\n")
		}
	}
	return b.String()
}

// Breaker and guard in each state outlast a reload, also with new rules and a new order of tiers. A tier that got a new
// name, or lost its breaker meanwhile, begins anew.
func TestReloadKeepsTheStatesOfTiers(t *testing.T) {
	build := func() pool.Options {
		return chained(broken(tierOf("a", "a1"), 1), limited(tierOf("b", "b1"), 0), limited(tierOf("c", "c1"), 50), tierOf("z", "z"))
	}
	prepare := func(t *testing.T) *rig {
		r := newRig(t, build(), nil)
		r.trip("a1")
		r.capped("b1", 0)
		r.spend("c1", 50)
		r.add(10 * time.Second)
		return r
	}
	states := func(r *rig) string { return r.breaker("a") + "; " + r.guard("b") + "; " + r.guard("c") }
	const kept = "open for 1m30s; by cap, next in 4m50s; by budget, next in 4m50s"
	t.Run("the same", func(t *testing.T) {
		r := prepare(t)
		r.Configure(build())
		equal(t, "states", states(r), kept)
		equal(t, "served by", r.serve(ask("")), "z")
	})
	t.Run("another order", func(t *testing.T) {
		r := prepare(t)
		o := build()
		o.Tiers[0], o.Tiers[3] = o.Tiers[3], o.Tiers[0]
		r.Configure(o)
		equal(t, "states", states(r), kept)
		equal(t, "served by", r.serve(ask("")), "z")
	})
	t.Run("other rules", func(t *testing.T) {
		r := prepare(t)
		o := build()
		o.Tiers[0].Breaker.Recovery = 20 * time.Second
		o.Tiers[1].Guard.ProbeInterval = 60 * time.Second
		o.Tiers[2].Guard.Budget = 60
		r.Configure(o)
		equal(t, "states", states(r), "open for 10s; by cap, next in 1m0s; within 50")
	})
	t.Run("without and again with", func(t *testing.T) {
		r := prepare(t)
		o := build()
		for i := range o.Tiers {
			o.Tiers[i].Breaker, o.Tiers[i].Guard = nil, nil
		}
		r.Configure(o)
		if v := r.tier("a"); v.Breaker != nil || v.Refuses {
			t.Errorf("%+v", v)
		}
		equal(t, "served by", r.serve(ask("")), "a1")
		r.Configure(build())
		equal(t, "states", states(r), "closed 0; within 0; within 0")
	})
	t.Run("another name", func(t *testing.T) {
		r := prepare(t)
		o := build()
		o.Tiers[0].Name = "new"
		r.Configure(o)
		equal(t, "breaker", r.breaker("new"), "closed 0")
		equal(t, "served by", r.serve(ask("")), "a1")
	})
	t.Run("half-open, its probe under way", func(t *testing.T) {
		r := prepare(t)
		r.add(100 * time.Second)
		l := r.lease(only("a1", "z"))
		r.Configure(build())
		equal(t, "beside the probe", r.serve(ask("")), "z")
		l.Accept()
		equal(t, "breaker", r.breaker("a"), "closed 0")
	})
	t.Run("its breaker goes while the probe is under way", func(t *testing.T) {
		r := prepare(t)
		r.add(100 * time.Second)
		w := only("a1", "z")
		l := r.lease(w)
		o := build()
		o.Tiers[0].Breaker = nil
		r.Configure(o)
		l.Close(is(pool.Overload), pool.Tokens{})
		equal(t, "next", r.serve(w), "z")
		r.End(w, true)
		r.Configure(build())
		equal(t, "breaker", r.breaker("a"), "closed 0")
	})
}

// A key that moves to another tier takes what is its own along: counts, cooldowns, leases. Its sessions stay behind.
func TestReloadMovesAKey(t *testing.T) {
	before := chained(broken(sticky("a", "", "k", "a2"), 1), sticky("z", "", "z"))
	after := chained(broken(sticky("a", "", "a2"), 1), broken(sticky("z", "", "z", "k"), 1))
	r := newRig(t, before, nil)
	r.whole(only("a2"), true, reset(pool.RateLimit, time.Second))
	equal(t, "bound to", r.serve(ask("S")), "k")
	r.spend("k", 30)
	w := only("k")
	flying := r.lease(w)
	r.whole(only("k"), true, reset(pool.RateLimit, time.Minute))
	r.add(2 * time.Second)
	r.Configure(after)
	k := r.key("k")
	equal(t, "used", k.Today.Used, 30)
	equal(t, "in flight", k.InFlight, 1)
	equal(t, "streak", len(k.Models), 1)
	equal(t, "sessions", k.Sessions, 0)
	equal(t, "S", r.serve(ask("S")), "a2")
	flying.Close(is(pool.Fault), pool.Tokens{Output: 3})
	r.End(w, true)
	equal(t, "used", r.key("k").Today.Used, 33)
	equal(t, "in flight in the end", r.key("k").InFlight, 0)
	equal(t, "reason", r.key("k").Reason, "fault")
	equal(t, "the breaker of the tier that it was leased from", r.tier("a").Breaker.State, "open")
	equal(t, "the breaker of its new tier", r.breaker("z"), "closed 0")
}

// A key or a tier that goes while it is leased: the lease ends as it began, and nothing of it is left.
func TestReloadWhileLeased(t *testing.T) {
	full := chained(limited(broken(sticky("a", "", "k", "a2"), 1), 100), sticky("z", "", "z"))
	withoutKey := chained(limited(broken(sticky("a", "", "a2"), 1), 100), sticky("z", "", "z"))
	withoutTier := chained(sticky("z", "", "z"))
	for _, tc := range []struct {
		name    string
		reduced pool.Options
		accept  bool
		outcome pool.Outcome
		breaker string // of tier a, where it stays
	}{
		{"key, served", withoutKey, true, pool.Outcome{}, "closed 0"},
		{"key, cancelled", withoutKey, false, is(pool.Cancelled), "closed 0"},
		{"key, 503", withoutKey, false, is(pool.Overload), "open for 1m40s"},
		{"key, capped", withoutKey, false, is(pool.Cap), "closed 0"},
		{"tier, served", withoutTier, true, pool.Outcome{}, ""},
		{"tier, cancelled", withoutTier, false, is(pool.Cancelled), ""},
		{"tier, 503", withoutTier, false, is(pool.Overload), ""},
		{"tier, capped", withoutTier, false, is(pool.Cap), ""},
		{"tier, broken", withoutTier, true, is(pool.Fault), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, full, nil)
			w := ask("S")
			w.Scope = pool.Only("k", "z")
			l := r.lease(w)
			equal(t, "the key", l.Key, "k")
			r.Configure(tc.reduced)
			if tc.accept {
				l.Accept()
			}
			l.Close(tc.outcome, pool.Tokens{Output: 5})
			l.Close(tc.outcome, pool.Tokens{Output: 5})
			if !tc.accept && tc.outcome.Class != pool.Cancelled {
				equal(t, "the same request", r.serve(w), "z")
			}
			r.End(w, false)
			if tc.breaker != "" {
				equal(t, "breaker", r.breaker("a"), tc.breaker)
			}
			again := ask("S")
			again.Scope = pool.Only("z")
			equal(t, "S", r.serve(again), "z")
			// Back again, it knows what was used meanwhile.
			r.Configure(full)
			k := r.key("k")
			equal(t, "used", k.Today.Used, 5)
			equal(t, "in flight", k.InFlight, 0)
		})
	}
}

// Who waits learns of a reload.
func TestReloadWakesWhoWaits(t *testing.T) {
	o := chained(tierOf("a", "a1"))
	o.Tiers[0].Keys[0].MaxConcurrent = 1
	o.MaxWait = 5 * time.Second
	more := o
	more.Tiers = []pool.Tier{o.Tiers[0], tierOf("z", "z")}
	inTime(t, "another tier", o, nil, func(t *testing.T, r *rig) {
		r.lease(ask(""))
		go func() {
			time.Sleep(time.Second)
			r.Configure(more)
		}()
		r.servedAfter(time.Second, "z", ask(""))
	})
	none := o
	none.Tiers = nil
	inTime(t, "nothing any more", o, nil, func(t *testing.T, r *rig) {
		r.lease(ask(""))
		done := make(chan error)
		go func() {
			_, err := r.Lease(t.Context(), ask(""))
			done <- err
		}()
		synctest.Wait()
		r.Configure(none)
		var unknown *pool.ModelError
		if err := <-done; !errors.As(err, &unknown) {
			t.Error(err)
		}
	})
}

// enable and disable hold until the next reload; a key without its credential stays off.
func TestEnable(t *testing.T) {
	o := chained(tierOf("a", "a1", "a2"), tierOf("z", "z"))
	o.Tiers[0].Keys[1] = pool.Key{ID: "a2", Disabled: true, DisabledReason: "environment variable A2 is not set", Incomplete: true}
	o.Tiers[1].Keys[0].Disabled, o.Tiers[1].Keys[0].DisabledReason = true, "enabled is false"
	r := newRig(t, o, nil)
	if err := r.Enable("a1", false); err != nil {
		t.Fatal(err)
	}
	equal(t, "reason", r.key("a1").Reason, "switched off by the operator")
	equal(t, "counts", counts(r.refused(ask(""))), pool.ExhaustedError{Disabled: 3})
	if err := r.Enable("z", true); err != nil {
		t.Fatal(err)
	}
	equal(t, "reason", r.key("z").Reason, "")
	equal(t, "served by", r.serve(ask("")), "z")
	if err := r.Enable("a2", true); err == nil || !strings.Contains(err.Error(), "A2 is not set") {
		t.Errorf("without its credential: %v", err)
	}
	equal(t, "a2", r.key("a2").Enabled, false)
	for _, name := range []string{"", "a", "gone"} {
		if err := r.Enable(name, true); err == nil {
			t.Errorf("%q is enabled", name)
		}
	}
	r.Configure(o)
	equal(t, "served by, after a reload", r.serve(ask("")), "a1")
	equal(t, "z, after a reload", r.key("z").Reason, "enabled is false")
}

// Reset clears a key's cooldowns, or a tier's breaker, guard and cooldowns, or all; a name that is not there is an
// error and clears nothing.
func TestReset(t *testing.T) {
	prepare := func(t *testing.T) *rig {
		r := newRig(t, chained(limited(broken(tierOf("a", "a1", "a2"), 1), 100), limited(broken(tierOf("b", "b1"), 1), 0), tierOf("z", "z")), nil)
		r.spend("a1", 100)
		r.add(time.Hour + time.Minute)
		r.spend("a1", 60)
		for _, key := range []string{"a1", "a2", "b1"} {
			r.whole(only(key), true, reset(pool.Fault, time.Hour))
		}
		r.spend("z", 1)
		return r
	}
	states := func(r *rig) (s string) {
		for _, k := range []string{"a1", "a2", "b1"} {
			s += r.key(k).State + " "
		}
		return s + r.breaker("a") + ", " + r.guard("a") + ", " + r.breaker("b")
	}
	const before = "cooling cooling cooling open for 1m40s, within 60, open for 1m40s"
	for name, want := range map[string]string{
		"":   "ready ready ready closed 0, within 0, closed 0",
		"a":  "ready ready cooling closed 0, within 0, open for 1m40s",
		"b":  "cooling cooling ready open for 1m40s, within 60, closed 0",
		"a1": "ready cooling cooling open for 1m40s, within 60, open for 1m40s",
		"z":  before,
	} {
		r := prepare(t)
		equal(t, "before", states(r), before)
		if err := r.Reset(name); err != nil {
			t.Error(err)
		}
		equal(t, "after "+name, states(r), want)
		equal(t, "used today", r.key("a1").Today.Used, 160) // limits are no reset's
	}
	r := prepare(t)
	for _, name := range []string{"gone", "A1", " a"} {
		if r.Reset(name) == nil {
			t.Errorf("%q is reset", name)
		}
	}
	equal(t, "after nothing", states(r), before)
}

// What the pages show of tiers: whether they refuse, why and until when.
func TestViewOfTiers(t *testing.T) {
	r := newRig(t, chained(limited(broken(tierOf("a", "a1"), 1), 0), limited(broken(tierOf("b", "b1"), 1), 80), broken(tierOf("z", "z"), 1)), nil)
	shows := func(name, reason string, until time.Duration) {
		t.Helper()
		v := r.tier(name)
		equal(t, name+" refuses", v.Refuses, reason != "")
		equal(t, "why", v.Reason, reason)
		if until == 0 {
			equal(t, "until", v.Until, time.Time{})
		} else {
			equal(t, "until", -r.since(v.Until), until)
		}
	}
	shows("a", "", 0)
	equal(t, "ready", r.View().Ready, true)
	r.trip("a1")
	shows("a", "breaker_open", 100*time.Second)
	r.spend("b1", 80)
	shows("b", "quota_guard", 300*time.Second)
	g := r.tier("b").Guard
	equal(t, "guard", *g, pool.GuardView{State: "exceeded", By: "budget", Used: 80, Budget: 80, Until: r.now().Add(300 * time.Second)})
	r.trip("z")
	shows("z", "", 0) // the last one never refuses
	equal(t, "z's breaker", r.breaker("z"), "open for 1m40s")
	r.add(2 * time.Second)
	equal(t, "ready", r.View().Ready, true)
	equal(t, "next free", r.View().NextFree, time.Time{})
	// Nothing but tiers that refuse: free when the first of them is.
	r.whole(only("z"), true, reset(pool.Fault, time.Hour))
	v := r.View()
	equal(t, "ready", v.Ready, false)
	equal(t, "next free", v.NextFree.Sub(v.Now), 98*time.Second)
	r.add(98 * time.Second)
	shows("a", "", 0)
	equal(t, "a's breaker", r.breaker("a"), "half-open 0")
	equal(t, "ready", r.View().Ready, true)
	l := r.lease(only("a1", "z"))
	shows("a", "breaker_half_open", 0)
	l.Accept()
	shows("a", "", 0)
	l.Close(pool.Outcome{}, pool.Tokens{})
	r.capped("a1", 0)
	shows("a", "quota_guard", 300*time.Second)
	// A breaker alone at the end of the enabled tiers is the last one.
	_ = r.Enable("z", false)
	r.add(time.Hour)
	r.trip("b1")
	shows("b", "", 0)
	equal(t, "b's breaker", r.tier("b").Breaker.State, "open")
}

// All states of tiers survive a restart, by the tier's name.
func TestStatesOfTiersSurviveARestart(t *testing.T) {
	o := chained(broken(tierOf("a", "a1"), 1), broken(tierOf("b", "b1"), 1), broken(tierOf("c", "c1"), 3), limited(tierOf("d", "d1"), 0), tierOf("z", "z"))
	o.Tiers[1].Breaker.SuccessThreshold = 2
	r := newRig(t, o, nil)
	r.trip("b1")
	r.add(100 * time.Second)
	equal(t, "first probe", r.serve(only("b1", "z")), "b1")
	l := r.lease(only("b1", "z")) // the second one is under way
	equal(t, "second probe", l.Key, "b1")
	r.trip("a1")
	r.trip("c1")
	r.capped("d1", 0)
	r.add(10 * time.Second)
	states := func(r *rig) string {
		return strings.Join([]string{r.breaker("a"), r.breaker("b"), r.breaker("c"), r.guard("d")}, "; ")
	}
	const want = "open for 1m30s; half-open 1; closed 1; by cap, next in 4m50s"
	equal(t, "before", states(r), want)
	again := r.reopened(o)
	equal(t, "after a restart", states(again), want)
	equal(t, "after two", states(again.reopened(o)), want)
	equal(t, "beside the probe before", r.serve(only("b1", "z")), "z")
	equal(t, "nobody has the slot", again.lease(only("b1", "z")).Key, "b1")
	// A tier that has none any more, or another name, takes nothing over.
	o2 := chained(tierOf("a", "a1"), broken(tierOf("new", "b1"), 1), tierOf("z", "z"))
	other := r.reopened(o2)
	equal(t, "served by", other.serve(ask("")), "a1")
	equal(t, "breaker", other.breaker("new"), "closed 0")
}
