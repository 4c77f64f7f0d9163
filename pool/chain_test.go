package pool_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"coding-proxy/pool"
)

// chained are options with these tiers, in order, and nothing that waits or rebalances.
func chained(tiers ...pool.Tier) pool.Options {
	o := options(pool.FillFirst)
	o.Tiers = tiers
	return o
}

// tierOf is a tier of plain keys that are taken in their order.
func tierOf(name string, keys ...string) pool.Tier {
	return pool.Tier{Name: name, Strategy: pool.FillFirst, Keys: plain(keys...)}
}

// broken gives the tier a breaker that opens after so many failures for 100 s, up to 400, and closes after one success.
func broken(t pool.Tier, failures int) pool.Tier {
	t.Breaker = &pool.BreakerOptions{FailureThreshold: failures, SuccessThreshold: 1, Recovery: 100 * time.Second, MaxRecovery: 400 * time.Second}
	return t
}

// limited gives the tier a guard of a budget an hour, 0 for caps only, with a probe every 300 s.
func limited(t pool.Tier, budget int64) pool.Tier {
	t.Guard = &pool.GuardOptions{Budget: budget, Window: time.Hour, Threshold: 100, ProbeInterval: 300 * time.Second}
	return t
}

// tier returns the view of one tier.
func (r *rig) tier(name string) pool.TierView {
	r.t.Helper()
	for _, t := range r.View().Tiers {
		if t.Name == name {
			return t
		}
	}
	r.t.Fatalf("no tier %q", name)
	return pool.TierView{}
}

// breaker is the breaker's state in words: failures in a row while closed, successes while half-open, and for how long
// it stays open.
func (r *rig) breaker(name string) string {
	r.t.Helper()
	switch b := r.tier(name).Breaker; b.State {
	case "closed":
		return fmt.Sprint("closed ", b.Failures)
	case "open":
		return fmt.Sprint("open for ", -r.since(b.Until))
	default:
		return fmt.Sprint("half-open ", b.Successes)
	}
}

// since is the time from t to the pool's now; negative for what is to come.
func (r *rig) since(t time.Time) time.Duration { return r.View().Now.Sub(t) }

// guard is the guard's state in words, and after which time it lets the next request in.
func (r *rig) guard(name string) string {
	r.t.Helper()
	g := r.tier(name).Guard
	if g.State == "within" {
		return fmt.Sprint("within ", g.Used)
	}
	return fmt.Sprintf("by %s, next in %s", g.By, -r.since(g.Until))
}

// only is a request that may use these keys.
func only(keys ...string) *pool.Want { return &pool.Want{Scope: pool.Only(keys...), Model: "m"} }

// whole is a request from its first attempt to its end: each outcome is an attempt's, and the last one, unless it is
// OK, ends it failed or not. It returns the keys.
func (r *rig) whole(w *pool.Want, failed bool, outcomes ...pool.Outcome) (keys []string) {
	r.t.Helper()
	for _, o := range outcomes {
		l := r.lease(w)
		keys = append(keys, l.Key)
		if o.Class == pool.OK {
			l.Accept()
		}
		l.Close(o, pool.Tokens{})
	}
	r.End(w, failed)
	return keys
}

// trip lets a request that may use this key alone fail, so that its tier's breaker counts one failure. The key is free
// again after a second.
func (r *rig) trip(key string) {
	r.t.Helper()
	r.whole(only(key), true, reset(pool.Overload, time.Second))
}

// capped lets the tier's only key of the scope meet its cap.
func (r *rig) capped(key string, d time.Duration) {
	r.t.Helper()
	r.whole(only(key), true, reset(pool.Cap, d))
}

// RET-024: the one probe of a half-open breaker ends in every way there is, and each time its slot is free again: a
// healthy request passes at once, or where the probe was a failure, when the doubled recovery is over.
func TestRET024HalfOpenSlotComesBack(t *testing.T) {
	none := func(*rig, *pool.Want, *pool.Lease) {}
	again := func(r *rig, w *pool.Want, l *pool.Lease) { l.Again().Close(is(pool.Passthrough), pool.Tokens{}) }
	next := func(o pool.Outcome) func(*rig, *pool.Want, *pool.Lease) { // another attempt of the same request
		return func(r *rig, w *pool.Want, _ *pool.Lease) { r.fail(w, o) }
	}
	for _, tc := range []struct {
		name    string
		accept  bool
		outcome pool.Outcome
		more    func(*rig, *pool.Want, *pool.Lease)
		failed  bool // the request ended with an error of the last attempt
		after   string
	}{
		{"a good answer", true, is(pool.OK), none, false, "closed 0"},
		{"a good answer that was never accepted", false, is(pool.OK), none, false, "half-open 0"},
		{"the client goes before the head", false, is(pool.Cancelled), none, false, "half-open 0"},
		{"the client goes after the head", true, is(pool.Cancelled), none, false, "closed 0"},
		{"400", false, is(pool.Passthrough), none, false, "half-open 0"},
		{"an error of the client after the head", true, is(pool.Passthrough), none, false, "closed 0"},
		{"stale, then 400", false, is(pool.Stale), again, false, "half-open 0"},
		{"stale, and no more", false, is(pool.Stale), none, true, "half-open 0"},
		{"429", false, is(pool.RateLimit), none, true, "half-open 0"},
		{"429 with a stated reset", false, reset(pool.RateLimit, time.Minute), none, true, "half-open 0"},
		{"429 of the account", false, pool.Outcome{Class: pool.RateLimit, KeyWide: true}, none, true, "half-open 0"},
		{"401", false, is(pool.Credential), none, true, "half-open 0"},
		{"a cap", false, is(pool.Cap), none, true, "half-open 0"},
		{"an unknown model", false, is(pool.UnknownModel), none, true, "half-open 0"},
		{"503", false, is(pool.Overload), none, true, "open for 3m20s"},
		{"no connection", false, is(pool.Fault), none, true, "open for 3m20s"},
		{"a stream that breaks", true, is(pool.Fault), none, false, "closed 1"},
		{"503, then the client goes", false, is(pool.Overload), none, false, "half-open 0"},
		{"503, then 503", false, is(pool.Overload), next(is(pool.Overload)), true, "open for 3m20s"},
		{"503, then 400", false, is(pool.Overload), next(is(pool.Passthrough)), false, "half-open 0"},
		{"503, then 429 and no more", false, is(pool.Overload), next(is(pool.RateLimit)), true, "open for 3m20s"},
		{"503, then the client goes again", false, is(pool.Overload), next(is(pool.Cancelled)), false, "half-open 0"},
		{"429, then 401", false, is(pool.RateLimit), next(is(pool.Credential)), true, "half-open 0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, chained(broken(tierOf("a", "a1", "a2", "a3"), 3), tierOf("z", "z")), nil)
			for range 3 {
				r.add(2 * time.Second)
				r.trip("a1")
			}
			equal(t, "breaker", r.breaker("a"), "open for 1m40s")
			equal(t, "while it is open", r.serve(ask("")), "z")
			r.add(100 * time.Second)
			w := ask("")
			probe := r.lease(w)
			equal(t, "the probe", probe.Key, "a1")
			equal(t, "beside the probe", r.serve(ask("")), "z")
			if tc.accept {
				probe.Accept()
			}
			if tc.name != "stale, then 400" {
				probe.Close(tc.outcome, pool.Tokens{})
			}
			tc.more(r, w, probe)
			r.End(w, tc.failed)
			r.End(w, true) // does nothing
			equal(t, "breaker", r.breaker("a"), tc.after)
			if open := r.tier("a").Breaker.Until; !open.IsZero() {
				equal(t, "while it is open again", r.serve(ask("")), "z")
				r.set(open)
			}
			healthy := ask("")
			l := r.lease(healthy)
			equal(t, "tier of a healthy request", l.Tier, "a")
			if r.tier("a").Breaker.State == "half_open" {
				equal(t, "one at a time", r.serve(ask("")), "z")
			}
			l.Accept()
			equal(t, "breaker in the end", r.breaker("a"), "closed 0")
			l.Close(pool.Outcome{}, pool.Tokens{})
		})
	}
}

// RET-024: the probe of a request whose first attempt failed when the breaker was closed yet.
func TestRET024ProbeOfAnOlderRequest(t *testing.T) {
	for _, tc := range []struct {
		outcome pool.Outcome
		failed  bool
		after   string
	}{
		{is(pool.Passthrough), false, "half-open 0"}, {is(pool.Cancelled), false, "half-open 0"}, {is(pool.RateLimit), false, "half-open 0"},
		{is(pool.RateLimit), true, "open for 3m20s"}, {is(pool.Fault), true, "open for 3m20s"},
	} {
		t.Run(tc.outcome.Class.String(), func(t *testing.T) {
			r := newRig(t, chained(broken(tierOf("a", "a1", "a2", "a3"), 1), tierOf("z", "z")), nil)
			w := ask("")
			slow := r.lease(w)
			r.trip("a2")
			r.add(100 * time.Second)
			slow.Close(is(pool.Fault), pool.Tokens{})
			probe := r.lease(w)
			equal(t, "the probe", probe.Key, "a2")
			equal(t, "beside it", r.serve(ask("")), "z")
			probe.Close(tc.outcome, pool.Tokens{})
			r.End(w, tc.failed)
			equal(t, "breaker", r.breaker("a"), tc.after)
			if open := r.tier("a").Breaker.Until; !open.IsZero() {
				r.set(open)
			}
			equal(t, "a healthy request", r.serve(ask(""))[:1], "a")
			equal(t, "breaker in the end", r.breaker("a"), "closed 0")
		})
	}
}

// RET-024: who waits for the probe's slot and goes away takes nothing along.
func TestRET024ClientGoesWhileItWaits(t *testing.T) {
	o := chained(broken(tierOf("a", "a1", "a2"), 1), tierOf("z", "z"))
	o.MaxWait = 5 * time.Second
	inTime(t, "waiting for the probe", o, nil, func(t *testing.T, r *rig) {
		r.whole(only("z"), true, reset(pool.Fault, time.Hour))
		r.trip("a1")
		time.Sleep(100 * time.Second)
		probe := r.lease(ask(""))
		equal(t, "the probe", probe.Key, "a1")
		ctx, cancel := context.WithCancel(t.Context())
		w, done := ask(""), make(chan error)
		go func() {
			_, err := r.Lease(ctx, w)
			r.End(w, false)
			done <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-done; err != context.Canceled {
			t.Errorf("who went away got %v", err)
		}
		equal(t, "breaker", r.breaker("a"), "half-open 0")
		probe.Close(is(pool.Cancelled), pool.Tokens{})
		l := r.servedAfter(0, "a1", ask(""))
		l.Accept()
		l.Close(pool.Outcome{}, pool.Tokens{})
		equal(t, "breaker in the end", r.breaker("a"), "closed 0")
	})
	inTime(t, "waiting after a 503 of its own probe", o, nil, func(t *testing.T, r *rig) {
		r.whole(only("z"), true, reset(pool.Fault, time.Hour))
		r.trip("a1")
		time.Sleep(100 * time.Second)
		r.whole(only("a2"), true, reset(pool.RateLimit, 4*time.Second))
		ctx, cancel := context.WithCancel(t.Context())
		w, done := ask(""), make(chan error)
		r.fail(w, is(pool.Overload))
		go func() {
			_, err := r.Lease(ctx, w)
			r.End(w, false)
			done <- err
		}()
		synctest.Wait()
		cancel()
		<-done
		// Whether that was a failure or not: a healthy request passes when the recovery time is over at the latest.
		time.Sleep(200 * time.Second)
		equal(t, "a healthy request", r.lease(ask("")).Tier, "a")
	})
}

// RET-025: fifty requests wait for a breaker's recovery. One at a time reaches the provider until it has closed.
func TestRET025HalfOpenLetsOneThrough(t *testing.T) {
	const waiting = 50
	for _, tc := range []struct {
		name     string
		outcome  pool.Outcome
		reached  int // leases of the tier, when all have ended
		together int // at most at one time while not closed
	}{
		{"the probes are good", is(pool.OK), waiting, 1},
		{"the first fails", is(pool.Overload), 1, 1},
	} {
		tier := broken(tierOf("a", "a1"), 1)
		tier.Breaker.SuccessThreshold = 2
		o := chained(tier, tierOf("z", "z"))
		o.MaxWait = 5 * time.Second
		inTime(t, tc.name, o, nil, func(t *testing.T, r *rig) {
			r.whole(only("z"), true, reset(pool.Fault, time.Hour))
			r.trip("a1")
			time.Sleep(97 * time.Second) // three more to wait
			reached, flying, most := 0, 0, 0
			done, turn := make(chan error), make(chan struct{}, 1)
			turn <- struct{}{} // guards the counts
			for range waiting {
				go func() {
					w := ask("")
					l, err := r.Lease(t.Context(), w)
					if err == nil {
						<-turn
						reached++
						flying++
						if r.tier("a").Breaker.State != "closed" {
							most = max(most, flying)
						}
						turn <- struct{}{}
						time.Sleep(100 * time.Millisecond)
						<-turn
						if flying--; tc.outcome.Class == pool.OK {
							l.Accept()
						}
						l.Close(tc.outcome, pool.Tokens{})
						r.End(w, tc.outcome.Class != pool.OK)
						turn <- struct{}{}
					}
					done <- err
				}()
			}
			time.Sleep(2999 * time.Millisecond)
			<-turn
			equal(t, "before the recovery", reached, 0)
			turn <- struct{}{}
			for range waiting {
				<-done
			}
			equal(t, "reached the provider", reached, tc.reached)
			equal(t, "at one time", most, tc.together)
		})
	}
}

// A request waits for the probe of another to end, and for a breaker's recovery.
func TestWaitsForAHalfOpenBreaker(t *testing.T) {
	o := chained(broken(tierOf("a", "a1", "a2"), 1), tierOf("z", "z"))
	o.MaxWait = 5 * time.Second
	prepare := func(t *testing.T, r *rig, sleep time.Duration) {
		r.whole(only("z"), true, reset(pool.Fault, time.Hour))
		r.trip("a1")
		time.Sleep(sleep)
	}
	inTime(t, "the recovery", o, nil, func(t *testing.T, r *rig) {
		prepare(t, r, 96*time.Second)
		r.servedAfter(4*time.Second, "a1", ask(""))
	})
	inTime(t, "a recovery that is too far", o, nil, func(t *testing.T, r *rig) {
		prepare(t, r, 94*time.Second)
		ex := r.exhausted(ask(""), 0)
		equal(t, "breaker", ex.Breaker, 2)
		equal(t, "cooling", ex.Cooling, 1)
		equal(t, "retry after", ex.RetryAfter(), 6*time.Second)
	})
	for name, end := range map[string]func(*rig, *pool.Lease){
		"the probe's head":         func(_ *rig, l *pool.Lease) { l.Accept() },
		"the probe that is broken": func(_ *rig, l *pool.Lease) { l.Close(is(pool.Cancelled), pool.Tokens{}) },
		"a reset":                  func(r *rig, _ *pool.Lease) { _ = r.Reset("a") },
	} {
		inTime(t, name, o, nil, func(t *testing.T, r *rig) {
			prepare(t, r, 100*time.Second)
			probe := r.lease(ask(""))
			go func() {
				time.Sleep(3 * time.Second)
				end(r, probe)
			}()
			r.servedAfter(3*time.Second, "a1", ask(""))
		})
	}
	inTime(t, "a probe that lasts", o, nil, func(t *testing.T, r *rig) {
		prepare(t, r, 100*time.Second)
		r.lease(ask(""))
		ex := r.exhausted(ask(""), 5*time.Second)
		equal(t, "breaker", ex.Breaker, 2)
		equal(t, "retry after", ex.RetryAfter(), time.Second)
	})
	inTime(t, "a 503 and its End", o, nil, func(t *testing.T, r *rig) {
		prepare(t, r, 100*time.Second)
		w := ask("")
		probe := r.lease(w)
		go func() {
			time.Sleep(time.Second)
			probe.Close(is(pool.Overload), pool.Tokens{})
			time.Sleep(time.Second)
			r.End(w, false)
		}()
		r.servedAfter(2*time.Second, "a2", ask(""))
	})
}
