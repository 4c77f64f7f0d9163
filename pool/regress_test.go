package pool_test

import (
	"testing"
	"time"

	"coding-proxy/pool"
)

// A request that waits in its tier has not left it; and it counts once, however often it comes back.
func TestAWaitCountsNoFailure(t *testing.T) {
	a := broken(tierOf("a", "a1", "a2"), 3)
	a.Keys[1].MaxConcurrent = 1
	o := chained(a)
	o.MaxWait = 5 * time.Second
	inTime(t, "served in the tier after a wait: none", o, nil, func(t *testing.T, r *rig) {
		busy := r.lease(only("a2"))
		w := ask("")
		r.fail(w, is(pool.Overload))
		go func() { time.Sleep(time.Second); busy.Close(is(pool.Cancelled), pool.Tokens{}) }()
		l := r.servedAfter(time.Second, "a2", w)
		equal(t, "breaker while a2 tries", r.breaker("a"), "closed 0")
		l.Close(is(pool.Overload), pool.Tokens{})
		r.End(w, true)
		equal(t, "breaker: one per request and tier", r.breaker("a"), "closed 1")
	})
	a2 := a
	a2.Breaker = &pool.BreakerOptions{FailureThreshold: 1, SuccessThreshold: 1, Recovery: 100 * time.Second, MaxRecovery: 400 * time.Second}
	o2 := chained(a2, tierOf("z", "z"))
	o2.MaxWait = 5 * time.Second
	inTime(t, "threshold 1, next tier out", o2, nil, func(t *testing.T, r *rig) {
		r.whole(only("z"), true, reset(pool.Fault, time.Hour))
		busy := r.lease(only("a2"))
		w := ask("")
		r.fail(w, is(pool.Overload))
		go func() { time.Sleep(time.Second); busy.Close(is(pool.Cancelled), pool.Tokens{}) }()
		if _, _, err := r.timed(t.Context(), w); err != nil {
			t.Errorf("a2 came free in time, but the wait itself opened the breaker: %v", err)
		}
	})
	t.Run("back to the tier it left", func(t *testing.T) {
		r := newRig(t, chained(a, tierOf("z", "z1", "z2")), nil)
		busy := r.lease(only("a2"))
		w := ask("")
		r.fail(w, is(pool.Overload)) // a1
		equal(t, "2nd", r.fail(w, is(pool.Overload)), "z1")
		busy.Close(is(pool.Cancelled), pool.Tokens{})
		equal(t, "3rd", r.fail(w, is(pool.Overload)), "a2")
		r.End(w, true)
		equal(t, "breaker", r.breaker("a"), "closed 1")
	})
}

// A key that is busy with its breaker's probe may be free at any moment.
func TestWaitsForABusyKeyBehindAProbe(t *testing.T) {
	a := broken(tierOf("a", "a1"), 1)
	a.Keys[0].MaxConcurrent = 1
	o := chained(a, tierOf("z", "z"))
	o.MaxWait = 5 * time.Second
	inTime(t, "waits", o, nil, func(t *testing.T, r *rig) {
		r.whole(only("z"), true, reset(pool.Fault, time.Hour))
		r.trip("a1")
		time.Sleep(100 * time.Second)
		probe := r.lease(ask(""))
		go func() { time.Sleep(time.Second); probe.Accept(); probe.Close(pool.Outcome{}, pool.Tokens{}) }()
		if _, _, err := r.timed(t.Context(), ask("")); err != nil {
			t.Error(err)
			time.Sleep(2 * time.Second) // the other goroutine ends
		}
	})
}

// When breaker and guard both refuse, the later end counts.
func TestUntilBothLetIn(t *testing.T) {
	r := newRig(t, chained(limited(broken(tierOf("a", "a1"), 1), 0), tierOf("z", "z")), nil)
	r.whole(only("z"), true, reset(pool.Fault, time.Hour))
	r.trip("a1")
	r.add(2 * time.Second)
	r.capped("a1", 0)
	ex := r.refused(ask(""))
	equal(t, "next", ex.Next.Sub(r.now()), 300*time.Second)
	equal(t, "the page's", r.tier("a").Until.Sub(r.now()), 300*time.Second)
}

// What is a regular expression inside of other parentheses only is none.
func TestPatternsStandAlone(t *testing.T) {
	m, err := pool.NewMapping([]pool.MappingRule{{Pattern: "a)|(b", Target: "x", IsRegex: true}}, "")
	if err == nil {
		_, ok := m.Map("axxx")
		t.Error("accepted; matches axxx:", ok)
	}
}

// A reset while the windows are being filled is not undone.
func TestResetDuringBackfill(t *testing.T) {
	r := newRig(t, chained(limited(tierOf("a", "a1"), 100)), nil)
	r.add(time.Minute)
	_ = r.Backfill(func(_ time.Time, each func(pool.Past)) error {
		each(pool.Past{At: noon.Add(-time.Minute), Tier: "a", Tokens: pool.Tokens{Output: 100}})
		return r.Reset("a")
	})
	equal(t, "guard", r.guard("a"), "within 0")
}

// The probe of an excess that a reset ended says nothing of the next one.
func TestOldProbeEndsNoNewExcess(t *testing.T) {
	r := newRig(t, chained(limited(tierOf("a", "a1"), 0), tierOf("z", "z")), nil)
	r.capped("a1", 0)
	r.add(300 * time.Second)
	old := r.lease(ask(""))
	_ = r.Reset("a")
	r.add(time.Hour)
	r.capped("a1", 0)
	equal(t, "guard", r.guard("a"), "by cap, next in 5m0s")
	old.Accept()
	equal(t, "guard", r.guard("a"), "by cap, next in 5m0s")
}

// An excess that slid away while nobody looked is over when the next one begins.
func TestExcessThatEndedUnseen(t *testing.T) {
	r := newRig(t, chained(limited(tierOf("a", "a1"), 100), tierOf("z", "z")), nil)
	slow := r.lease(ask(""))
	r.spend("a1", 100)
	r.add(2 * time.Hour)
	slow.Accept()
	slow.Close(pool.Outcome{}, pool.Tokens{Output: 100})
	equal(t, "guard", r.guard("a"), "by budget, next in 5m0s")
}

// A good probe ends the excess, also when the next one has gone already.
func TestSlowProbeCounts(t *testing.T) {
	r := newRig(t, chained(limited(tierOf("a", "a1"), 0), tierOf("z", "z")), nil)
	r.capped("a1", 0)
	r.add(300 * time.Second)
	first := r.lease(ask(""))
	r.add(300 * time.Second)
	second := r.lease(ask(""))
	r.add(time.Second)
	first.Accept()
	equal(t, "guard", r.guard("a"), "within 0")
	_ = second
}

// A session whose stream is running is not quiet, however long ago it began.
func TestActiveSessionIsNotQuiet(t *testing.T) {
	r := newRig(t, tierReturn(pool.ReturnIdle), nil)
	away(t, r, "S")
	long := r.lease(ask("S"))
	equal(t, "tier", long.Tier, "z")
	r.add(6 * time.Minute)
	equal(t, "beside a running stream", r.lease(ask("S")).Tier, "z")
}

// Parallel caps tell of one event: the stated end stays.
func TestParallelCapsAreOne(t *testing.T) {
	late := newRig(t, chained(limited(tierOf("a", "a1"), 0), tierOf("z", "z")), nil)
	l1, l2 := late.lease(ask("")), late.lease(ask(""))
	l1.Close(reset(pool.Cap, 200*time.Second), pool.Tokens{})
	late.add(time.Second)
	l2.Close(is(pool.Cap), pool.Tokens{})                                          // began before, states no reset
	if d := -late.since(late.tier("a").Guard.Until); !within(d, 200*time.Second) { // with its jitter
		t.Errorf("the guard's next request goes in %s", d)
	}
}

// A reload with a longer window leaves the excess as it is.
func TestReloadKeepsAnExcess(t *testing.T) {
	o := chained(limited(tierOf("a", "a1"), 100), tierOf("z", "z"))
	r := newRig(t, o, nil)
	r.spend("a1", 100)
	used := []pool.Past{{At: r.now(), Tier: "a", Tokens: pool.Tokens{Input: 100}}}
	r.add(10 * time.Second)
	o2 := chained(limited(tierOf("a", "a1"), 100), tierOf("z", "z"))
	o2.Tiers[0].Guard.Window = 2 * time.Hour
	r.Configure(o2)
	equal(t, "between reload and Backfill", r.serve(ask("")), "z")
	_ = r.Backfill(func(_ time.Time, each func(pool.Past)) error { each(used[0]); return nil })
	equal(t, "guard", r.guard("a"), "by budget, next in 4m50s")
}

// Other weights apply to what was used before, too.
func TestReloadWithOtherWeights(t *testing.T) {
	o := chained(limited(tierOf("a", "a1"), 1000), tierOf("z", "z"))
	r := newRig(t, o, nil)
	l := r.lease(ask(""))
	l.Accept()
	l.Close(pool.Outcome{}, pool.Tokens{CacheRead: 5000}) // 500
	o.Count.CacheRead = 1
	r.Configure(o)
	equal(t, "used", r.tier("a").Guard.Used, 5000)
}

// A probe that is capped keeps the interval that began when it went.
func TestCapOfAProbeKeepsTheInterval(t *testing.T) {
	r := newRig(t, chained(limited(tierOf("a", "a1"), 0), tierOf("z", "z")), nil)
	r.capped("a1", 0)
	r.add(300 * time.Second)
	l := r.lease(ask(""))
	r.add(60 * time.Second)
	l.Close(is(pool.Cap), pool.Tokens{})
	equal(t, "guard", r.guard("a"), "by cap, next in 4m0s")
}

// Stated ends are bounded for guards as for keys.
func TestStatedEndsAreBounded(t *testing.T) {
	r := newRig(t, chained(limited(tierOf("a", "a1"), 0), tierOf("z", "z")), nil)
	r.capped("a1", time.Millisecond)
	if d := -r.since(r.tier("a").Guard.Until); d < time.Second || d > 2*time.Second {
		t.Errorf("the guard's next request goes in %s", d)
	}
}

// A key and a tier of one name are two: what is done to the one leaves the other alone.
func TestResetOfOneName(t *testing.T) {
	for _, tc := range []struct {
		name  string
		reset func(*rig) error
		guard string
		key   string
	}{
		{"key", func(r *rig) error { return r.ResetKey("b") }, "by budget, next in 5m0s", "ready"},
		{"tier", func(r *rig) error { return r.ResetTier("b") }, "within 0", "cooling"},
		{"both", func(r *rig) error { return r.Reset("b") }, "within 0", "ready"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, chained(tierOf("a", "a1", "b"), limited(tierOf("b", "x"), 100), tierOf("z", "z")), nil)
			r.spend("x", 100)
			r.whole(only("b"), true, reset(pool.Fault, time.Hour))
			if err := tc.reset(r); err != nil {
				t.Fatal(err)
			}
			equal(t, "guard", r.guard("b"), tc.guard)
			equal(t, "key", r.key("b").State, tc.key)
		})
	}
	r := newRig(t, chained(tierOf("a", "a1")), nil)
	for what, err := range map[string]error{"a tier as a key": r.ResetKey("a"), "a key as a tier": r.ResetTier("a1"), "nothing": r.Reset("x")} {
		if err == nil {
			t.Error(what)
		}
	}
}

// What is in flight when a key is taken away counts when it comes back meanwhile.
func TestKeyThatIsAwayForAMoment(t *testing.T) {
	o := chained(tierOf("a", "a1", "a2"))
	o.Tiers[0].Keys[0].MaxConcurrent = 1
	without := chained(tierOf("a", "a2"))
	r := newRig(t, o, nil)
	l := r.lease(only("a1"))
	r.Configure(without)
	r.Configure(o)
	equal(t, "in flight", r.key("a1").InFlight, 1)
	equal(t, "state", r.key("a1").State, "busy")
	l.Accept()
	l.Close(pool.Outcome{}, pool.Tokens{Output: 150})
	equal(t, "used", r.key("a1").Today.Used, 150)
	equal(t, "state", r.key("a1").State, "ready")
}
