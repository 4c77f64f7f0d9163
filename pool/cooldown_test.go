package pool_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"coding-proxy/pool"
)

const (
	minute = time.Minute
	day    = 24 * time.Hour
)

// pair is a pool of a key and a spare one, so that no failure of the first is a lone key's.
func pair(t testing.TB) *rig {
	return newRig(t, options(pool.FillFirst, plain("k", "spare")...), nil)
}

// Every row of the table that cools: for how long, and whether the key or only (key, upstream model).
func TestCooldownOfEveryClass(t *testing.T) {
	for _, tc := range []struct {
		name    string
		outcome pool.Outcome
		model   time.Duration // for the model that failed
		others  time.Duration // for another one
	}{
		{"ok", is(pool.OK), 0, 0},
		{"cancelled", is(pool.Cancelled), 0, 0},
		{"passthrough", is(pool.Passthrough), 0, 0},
		{"stale", is(pool.Stale), 0, 0},
		{"rate limit", is(pool.RateLimit), 30 * time.Second, 0},
		{"rate limit of the whole key", pool.Outcome{Class: pool.RateLimit, KeyWide: true}, 30 * time.Second, 30 * time.Second},
		{"rate limit, stated", reset(pool.RateLimit, 90*time.Second), 90 * time.Second, 0},
		{"rate limit of the whole key, stated", pool.Outcome{Class: pool.RateLimit, KeyWide: true, Reset: 5 * time.Hour}, 5 * time.Hour, 5 * time.Hour},
		{"overload", is(pool.Overload), 30 * time.Second, 0},
		{"overload, stated", reset(pool.Overload, 7*time.Second), 7 * time.Second, 0},
		{"fault", is(pool.Fault), 30 * time.Second, 30 * time.Second},
		{"fault, stated", reset(pool.Fault, 2*minute), 2 * minute, 2 * minute},
		{"credential", is(pool.Credential), time.Hour, time.Hour},
		{"cap", is(pool.Cap), time.Hour, time.Hour},
		{"cap, stated", reset(pool.Cap, 30*time.Hour), 30 * time.Hour, 30 * time.Hour},
		{"unknown model", is(pool.UnknownModel), 10 * minute, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := pair(t)
			r.failOn("k", tc.outcome)
			if d := r.out("k", "m", ""); !within(d, tc.model) {
				t.Errorf("out for %s, want %s and up to a tenth more", d, tc.model)
			}
			if d := r.out("k", "another", ""); !within(d, tc.others) {
				t.Errorf("another model is out for %s, want %s and up to a tenth more", d, tc.others)
			}
			equal(t, "the spare key is out for", r.out("spare", "m", ""), 0)
			r.add(tc.model + tc.model/10)
			equal(t, "out when it is over", r.out("k", "m", ""), 0)
		})
	}
}

// A cooldown of a model is the upstream's model's: names that the key maps to the same one share it.
func TestCooldownIsOfTheUpstreamModel(t *testing.T) {
	r := newRig(t, options(pool.FillFirst, pool.Key{ID: "k", Models: map[string]string{"m": "x", "alias": "x", "other": "y"}}, pool.Key{ID: "spare"}), nil)
	r.failOn("k", is(pool.RateLimit))
	if d := r.out("k", "alias", ""); !within(d, 30*time.Second) {
		t.Errorf("the alias is out for %s", d)
	}
	equal(t, "another upstream model is out for", r.out("k", "other", ""), 0)
}

// The backoff: 30 s × 2ⁿ up to 30 minutes, for each of the three streaks alone.
func TestBackoff(t *testing.T) {
	for _, class := range []pool.Class{pool.RateLimit, pool.Overload, pool.Fault} {
		r := pair(t)
		for n, want := range []time.Duration{30 * time.Second, minute, 2 * minute, 4 * minute, 8 * minute, 16 * minute, 30 * minute, 30 * minute, 30 * minute} {
			r.failOn("k", is(class))
			d := r.out("k", "m", "")
			if !within(d, want) {
				t.Errorf("%s %d: out for %s, want %s", class, n+1, d, want)
			}
			equal(t, "streak", r.key("k").Streak, n+1)
			r.add(d)
		}
		for range 2000 { // no number of failures is too many
			r.add(time.Hour)
			r.failOn("k", is(class))
		}
		if d := r.out("k", "m", ""); !within(d, 30*minute) {
			t.Errorf("%s: out for %s in the end", class, d)
		}
	}
}

// Rate limits, overloads and other faults have streaks of their own, and so has every model and key.
func TestStreaksAreSeparate(t *testing.T) {
	r := pair(t)
	fail := func(what string, key, model string, o pool.Outcome, want time.Duration) {
		t.Helper()
		r.add(time.Hour) // whatever cooled is over
		r.leaseOf(key, &pool.Want{Scope: pool.Everything(), Model: model}).Close(o, pool.Tokens{})
		if d := r.out(key, model, ""); !within(d, want) {
			t.Errorf("%s: out for %s, want %s", what, d, want)
		}
	}
	fail("first rate limit", "k", "m", is(pool.RateLimit), 30*time.Second)
	fail("second rate limit", "k", "m", is(pool.RateLimit), minute)
	fail("first overload", "k", "m", is(pool.Overload), 30*time.Second)
	fail("first fault", "k", "m", is(pool.Fault), 30*time.Second)
	fail("second overload", "k", "m", is(pool.Overload), minute)
	fail("second fault", "k", "m", is(pool.Fault), minute)
	fail("third rate limit", "k", "m", is(pool.RateLimit), 2*minute)
	fail("first rate limit of another model", "k", "n", is(pool.RateLimit), 30*time.Second)
	fail("third fault, by another model", "k", "n", is(pool.Fault), 2*minute)
	fail("first rate limit of the account", "k", "m", pool.Outcome{Class: pool.RateLimit, KeyWide: true}, 30*time.Second)
	fail("first rate limit of another key", "spare", "m", is(pool.RateLimit), 30*time.Second)
	fail("what has no backoff does not count", "k", "m", is(pool.UnknownModel), 10*minute)
	fail("nor does that", "k", "m", is(pool.Credential), time.Hour)
	r.add(2 * time.Hour)
	fail("fourth rate limit", "k", "m", is(pool.RateLimit), 4*minute)
}

// A stated reset counts as it is said and does not raise the streak.
func TestStatedResetsDoNotRaiseTheStreak(t *testing.T) {
	for _, class := range []pool.Class{pool.RateLimit, pool.Overload, pool.Fault} {
		r := pair(t)
		for range 5 {
			r.failOn("k", reset(class, 20*time.Second))
			if d := r.out("k", "m", ""); !within(d, 20*time.Second) {
				t.Errorf("%s: out for %s, 20 s were stated", class, d)
			}
			r.add(minute)
		}
		equal(t, "streak", r.key("k").Streak, 0)
		r.failOn("k", is(class))
		if d := r.out("k", "m", ""); !within(d, 30*time.Second) {
			t.Errorf("%s: the first without a reset is out for %s", class, d)
		}
		r.add(minute)
		r.failOn("k", reset(class, 20*time.Second))
		r.add(minute)
		r.failOn("k", is(class))
		if d := r.out("k", "m", ""); !within(d, minute) {
			t.Errorf("%s: the second without a reset is out for %s", class, d)
		}
	}
}

// Bounds: 1 s to 7 days, the jitter before them. The jitter uses its whole room, and no more.
func TestBoundsAndJitter(t *testing.T) {
	for _, tc := range []struct{ stated, least, most time.Duration }{
		{time.Nanosecond, time.Second, time.Second},
		{900 * time.Millisecond, time.Second, time.Second},
		{950 * time.Millisecond, time.Second, 1045 * time.Millisecond},
		{time.Second, time.Second, 1100 * time.Millisecond},
		{10 * minute, 10 * minute, 11 * minute},
		{6*day + 20*time.Hour, 6*day + 20*time.Hour, 7 * day},
		{7 * day, 7 * day, 7 * day},
		{40 * day, 7 * day, 7 * day},
		{math.MaxInt64 / 2, 7 * day, 7 * day},
	} {
		least, most := time.Duration(math.MaxInt64), time.Duration(0)
		for seed := range uint64(300) {
			r := seeded(t, options(pool.FillFirst, plain("k", "spare")...), nil, seed)
			r.failOn("k", reset(pool.Cap, tc.stated))
			d := r.out("k", "m", "")
			least, most = min(least, d), max(most, d)
		}
		if least < tc.least || most > tc.most {
			t.Errorf("stated %s: out for %s to %s, want %s to %s", tc.stated, least, most, tc.least, tc.most)
		}
		if room := tc.most - tc.least; room > 0 && (least-tc.least > room/10 || tc.most-most > room/10) {
			t.Errorf("stated %s: only %s to %s of the jitter's room %s to %s is used", tc.stated, least, most, tc.least, tc.most)
		}
	}
}

// A success clears the streak of the key and of the model that it was for; the backoff restarts.
func TestSuccessClearsTheStreak(t *testing.T) {
	for _, class := range []pool.Class{pool.RateLimit, pool.Overload, pool.Fault} {
		r := pair(t)
		for range 3 {
			r.failOn("k", is(class))
			r.add(time.Hour)
		}
		equal(t, "streak", r.key("k").Streak, 3)
		equal(t, "serves", r.serve(ask("")), "k")
		equal(t, "streak after a success", r.key("k").Streak, 0)
		r.failOn("k", is(class))
		if d := r.out("k", "m", ""); !within(d, 30*time.Second) {
			t.Errorf("%s: after a success out for %s", class, d)
		}
	}

	r := pair(t)
	for range 2 {
		r.failOn("k", is(pool.RateLimit))
		r.failOn("spare", is(pool.Fault))
		r.add(time.Hour)
	}
	other := ask("")
	other.Model = "another"
	equal(t, "another model", r.serve(other), "k")
	r.failOn("k", is(pool.RateLimit))
	if d := r.out("k", "m", ""); !within(d, 2*minute) {
		t.Errorf("another model's success made it %s, want 2m", d)
	}
	equal(t, "another key's streak", r.key("spare").Streak, 2)
}

// A success of a request that was under way does not end a cooldown that another one earned meanwhile.
func TestLateSuccessEndsNoCooldown(t *testing.T) {
	r := pair(t)
	slow := r.lease(ask(""))
	r.add(time.Second)
	r.failOn("k", reset(pool.RateLimit, minute))
	slow.Accept()
	slow.Close(is(pool.OK), pool.Tokens{})
	if d := r.out("k", "m", ""); !within(d, minute) {
		t.Errorf("out for %s", d)
	}
}

// RET-026: twelve parallel requests that fail by one event cool once and raise the level once, whichever way they end.
func TestRET026ParallelFailuresCountOnce(t *testing.T) {
	for _, class := range []pool.Class{pool.RateLimit, pool.Overload, pool.Fault} {
		r := pair(t)
		for round, want := range []time.Duration{30 * time.Second, minute, 2 * minute} {
			var leases []*pool.Lease
			for range 12 {
				leases = append(leases, r.lease(ask("")))
			}
			r.add(100 * time.Millisecond)
			leases[0].Close(is(class), pool.Tokens{})
			until := r.now().Add(r.out("k", "m", ""))
			for _, l := range leases[1:] {
				equal(t, "key", l.Key, "k")
				r.add(50 * time.Millisecond)
				l.Close(is(class), pool.Tokens{})
			}
			if got := r.now().Add(r.out("k", "m", "")); !got.Equal(until) {
				t.Errorf("%s: the others lengthened the cooldown from %s to %s", class, until, got)
			}
			if d := until.Sub(r.now().Add(-550 * time.Millisecond)); !within(d, want) {
				t.Errorf("%s: round %d is out for %s, want %s", class, round+1, d, want)
			}
			equal(t, "streak", r.key("k").Streak, round+1)
			r.add(time.Hour)
		}
	}
}

// The parallel failure may state a longer reset, or come when the cooldown is over: it began before, so it says
// nothing new. One that began after says something new.
func TestFailureThatBeganBefore(t *testing.T) {
	r := pair(t)
	var leases []*pool.Lease
	for range 3 {
		leases = append(leases, r.lease(ask("")))
	}
	r.add(time.Second)
	leases[0].Close(is(pool.RateLimit), pool.Tokens{})
	leases[1].Close(reset(pool.RateLimit, time.Hour), pool.Tokens{})
	if d := r.out("k", "m", ""); !within(d, 30*time.Second) {
		t.Errorf("a parallel failure made it %s", d)
	}
	r.add(minute)
	fresh := r.lease(ask(""))
	leases[2].Close(is(pool.RateLimit), pool.Tokens{})
	equal(t, "out by a failure of before", r.out("k", "m", ""), 0)
	r.add(time.Second)
	fresh.Close(is(pool.RateLimit), pool.Tokens{})
	if d := r.out("k", "m", ""); !within(d, minute) {
		t.Errorf("out for %s after a new failure, want 1m", d)
	}
}

// The same when the key has served well in between: what began before the last cooldown cools nothing anew.
func TestFailureThatBeganBeforeASuccess(t *testing.T) {
	r := pair(t)
	slow, quick := r.lease(ask("")), r.lease(ask(""))
	r.add(time.Second)
	quick.Close(is(pool.Fault), pool.Tokens{})
	r.add(minute)
	equal(t, "recovered", r.serve(ask("")), "k")
	slow.Close(is(pool.Fault), pool.Tokens{})
	equal(t, "out by a failure that began before the last cooldown", r.out("k", "m", ""), 0)
}

// A key beside which no other is usable cools for at most 5 s by a passing fault without a stated reset, however long
// the streak. Other outcomes, and stated resets, cool it as they do any key.
func TestLoneKey(t *testing.T) {
	alone := func(seed uint64) *rig { return seeded(t, options(pool.FillFirst, plain("k")...), nil, seed) }
	for _, class := range []pool.Class{pool.RateLimit, pool.Overload, pool.Fault} {
		for seed := range uint64(20) {
			r := alone(seed)
			for n := range 8 {
				r.failOn("k", is(class))
				if d := r.out("k", "m", ""); d < 4*time.Second || d > 5*time.Second {
					t.Fatalf("seed %d, %s %d: a lone key is out for %s, want at most 5s", seed, class, n+1, d)
				}
				r.add(10 * time.Second)
			}
		}
	}
	for _, tc := range []struct {
		outcome pool.Outcome
		want    time.Duration
	}{
		{reset(pool.RateLimit, 90*time.Second), 90 * time.Second}, {reset(pool.Overload, minute), minute}, {reset(pool.Fault, minute), minute},
		{is(pool.Credential), time.Hour}, {is(pool.Cap), time.Hour}, {is(pool.UnknownModel), 10 * minute},
	} {
		r := alone(1)
		r.failOn("k", tc.outcome)
		if d := r.out("k", "m", ""); !within(d, tc.want) {
			t.Errorf("%v: a lone key is out for %s, want %s", tc.outcome, d, tc.want)
		}
	}
}

// Which keys count as others: those of the caller's scope that could serve the model right now.
func TestLoneKeyCountsUsableKeysOfTheScopeAlone(t *testing.T) {
	everything := pool.Everything()
	for _, tc := range []struct {
		name   string
		spare  pool.Key
		used   float64
		scope  pool.Scope
		before func(r *rig)
		lone   bool
	}{
		{"usable", pool.Key{}, 0, everything, nil, false},
		{"disabled", pool.Key{Disabled: true}, 0, everything, nil, true},
		{"out of scope", pool.Key{}, 0, pool.Only("k"), nil, true},
		{"another model's", pool.Key{Models: map[string]string{"x": "x"}}, 0, everything, nil, true},
		{"over its limit", pool.Key{DailyLimit: 10}, 10, everything, nil, true},
		{"busy", pool.Key{MaxConcurrent: 1}, 0, everything, func(r *rig) { r.lease(&pool.Want{Scope: pool.Only("spare"), Model: "m"}) }, true},
		{"cooling", pool.Key{}, 0, everything, func(r *rig) { r.failOn("spare", reset(pool.Fault, minute)) }, true},
		{"cooling no more", pool.Key{}, 0, everything, func(r *rig) { r.failOn("spare", reset(pool.Fault, minute)); r.add(2 * minute) }, false},
		{"cooling for another model", pool.Key{Models: map[string]string{"m": "a", "x": "b"}}, 0, everything, func(r *rig) {
			w := &pool.Want{Scope: pool.Only("spare"), Model: "x"}
			r.fail(w, reset(pool.RateLimit, minute))
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := options(pool.FillFirst, pool.Key{ID: "k"})
			tc.spare.ID = "spare"
			o.Tiers = append(o.Tiers, pool.Tier{Name: "low", Strategy: pool.FillFirst, Keys: []pool.Key{tc.spare}})
			r := newRig(t, o, spent{"spare": {tc.used}})
			if tc.before != nil {
				tc.before(r)
			}
			r.fail(&pool.Want{Scope: tc.scope, Model: "m"}, is(pool.Fault))
			if d := r.out("k", "m", ""); (d < 10*time.Second) != tc.lone {
				t.Errorf("out for %s, lone %v", d, tc.lone)
			}
		})
	}
}

// A cooldown is never shortened by a milder failure that comes later.
func TestShorterCooldownDoesNotShorten(t *testing.T) {
	r := pair(t)
	first := r.lease(ask(""))
	r.add(time.Second)
	second := r.lease(ask(""))
	first.Close(is(pool.Credential), pool.Tokens{})
	r.add(time.Second)
	second.Close(is(pool.Fault), pool.Tokens{})
	if d := r.out("k", "m", ""); d < time.Hour-time.Second {
		t.Errorf("out for %s", d)
	}
	equal(t, "reason", r.key("k").Reason, "credential")
}

// What a passthrough key earns by its caller's credential is that credential's; faults of the provider are the key's.
func TestPassthroughCooldownsAreTheCredentials(t *testing.T) {
	for _, tc := range []struct {
		outcome pool.Outcome
		own     time.Duration // for the same credential
		others  time.Duration // for another one, or none
	}{
		{is(pool.Credential), time.Hour, 0},
		{is(pool.Cap), time.Hour, 0},
		{reset(pool.Cap, 3*time.Hour), 3 * time.Hour, 0},
		{is(pool.RateLimit), 30 * time.Second, 0},
		{pool.Outcome{Class: pool.RateLimit, KeyWide: true, Reset: minute}, minute, 0},
		{is(pool.Overload), 30 * time.Second, 30 * time.Second},
		{is(pool.Fault), 30 * time.Second, 30 * time.Second},
		{is(pool.UnknownModel), 10 * minute, 10 * minute},
	} {
		t.Run(fmt.Sprint(tc.outcome), func(t *testing.T) {
			r := newRig(t, options(pool.FillFirst, pool.Key{ID: "k", Passthrough: true}, pool.Key{ID: "spare"}), nil)
			w := ask("")
			w.Credential = "mine"
			equal(t, "key", r.fail(w, tc.outcome), "k")
			if d := r.out("k", "m", "mine"); !within(d, tc.own) {
				t.Errorf("my credential is out for %s, want %s", d, tc.own)
			}
			for _, credential := range []string{"another", ""} {
				if d := r.out("k", "m", credential); !within(d, tc.others) {
					t.Errorf("credential %q is out for %s, want %s", credential, d, tc.others)
				}
			}
		})
	}
}

// A caller who sends no credential of its own earns a refusal for itself, not for those who do send one.
func TestPassthroughWithoutCredentialHurtsNobodyElse(t *testing.T) {
	for _, outcome := range []pool.Outcome{is(pool.Credential), is(pool.Cap), is(pool.RateLimit), {Class: pool.RateLimit, KeyWide: true}} {
		r := newRig(t, options(pool.FillFirst, pool.Key{ID: "k", Passthrough: true}, pool.Key{ID: "spare"}), nil)
		equal(t, "key", r.fail(ask(""), outcome), "k")
		if d := r.out("k", "m", "somebody's"); d != 0 {
			t.Errorf("%v of a request without a credential: the key is out for %s for everybody", outcome, d)
		}
	}
}

// Where no other key could have served, nothing is kept of it: the answer is the client's own.
func TestPassthroughAloneKeepsNothing(t *testing.T) {
	for _, credential := range []string{"mine", ""} {
		for class, want := range map[pool.Class]bool{
			pool.Credential: false, pool.Cap: false, pool.RateLimit: false, pool.Overload: true, pool.Fault: true, pool.UnknownModel: true,
		} {
			r := newRig(t, options(pool.FillFirst, pool.Key{ID: "k", Passthrough: true}, pool.Key{ID: "spare", Disabled: true}), nil)
			w := ask("")
			w.Credential = credential
			r.fail(w, is(class))
			if kept := r.out("k", "m", credential) > 0; kept != want {
				t.Errorf("%s: kept %v, want %v", class, kept, want)
			}
		}
	}
}

// A key of our own carries no caller's credential: what it earns is the key's, whoever asked.
func TestOwnKeyCoolsForEveryCredential(t *testing.T) {
	r := pair(t)
	w := ask("")
	w.Credential = "mine"
	r.fail(w, is(pool.Credential))
	for _, credential := range []string{"mine", "another", ""} {
		if d := r.out("k", "m", credential); !within(d, time.Hour) {
			t.Errorf("credential %q: out for %s", credential, d)
		}
	}
}

// KEY-001: a model family's weekly window takes that model out, for as long as retry-after says; the account's window
// takes the key out.
func TestKEY001ModelWindow(t *testing.T) {
	r := pair(t)
	r.failOn("k", reset(pool.RateLimit, 90*time.Second))
	if d := r.out("k", "m", ""); !within(d, 90*time.Second) {
		t.Errorf("out for %s", d)
	}
	for range 10 {
		w := ask("")
		w.Model = "another"
		equal(t, "another model", r.serve(w), "k")
	}
	r.add(100 * time.Second)
	r.failOn("k", pool.Outcome{Class: pool.RateLimit, KeyWide: true, Reset: 90 * time.Second})
	if d := r.out("k", "another", ""); !within(d, 90*time.Second) {
		t.Errorf("the account is out for %s", d)
	}
}

// RET-011: one 429 without a hint on each of four keys leaves the pool usable again in half a minute.
func TestRET011HintlessRateLimits(t *testing.T) {
	for seed := range uint64(20) {
		r := seeded(t, options(pool.FillFirst, plain("a", "b", "c", "d")...), nil, seed)
		w := ask("")
		for range 4 {
			r.fail(w, is(pool.RateLimit))
		}
		next := r.refused(ask("")).RetryAfter()
		if next > 6*time.Second { // the last one was alone
			t.Errorf("seed %d: usable again in %s", seed, next)
		}
		r.add(33 * time.Second)
		for range 4 {
			equal(t, "key", r.serve(ask("")), "a")
		}
		for _, id := range []string{"a", "b", "c", "d"} {
			equal(t, id+" is out for", r.out(id, "m", ""), 0)
		}
	}
}

// RET-015: the first 429 takes the model out on its key, and successes of another model change nothing about that.
func TestRET015FirstRateLimitOpens(t *testing.T) {
	r := pair(t)
	other := func() *pool.Want { return &pool.Want{Scope: pool.Everything(), Model: "B"} }
	for range 5 {
		r.failOn("k", reset(pool.RateLimit, minute))
		for range 3 {
			equal(t, "model B", r.serve(other()), "k")
			equal(t, "model A", r.serve(ask("")), "spare")
			r.add(19 * time.Second)
		}
		r.add(10 * time.Second) // 67 s
		equal(t, "model A, when its minute is over", r.serve(ask("")), "k")
	}
}

// Model names are the client's to choose: cooldowns of made-up ones are bounded, those of whole keys stay.
func TestCooldownsAreBounded(t *testing.T) {
	r := pair(t)
	r.failOn("spare", is(pool.Cap))
	r.add(time.Second)
	for n := range 6000 {
		w := ask("")
		w.Model = fmt.Sprint("made-up-", n)
		r.fail(w, is(pool.UnknownModel))
	}
	if n := len(r.SnapshotState().Cooldowns); n > 4096 {
		t.Errorf("%d cooldowns", n)
	}
	if d := r.out("spare", "m", ""); d < time.Hour-time.Second {
		t.Errorf("the spare key is out for %s", d)
	}
	w := ask("")
	w.Model = "made-up-5999"
	r.refused(w)
}
