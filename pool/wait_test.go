package pool_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"coding-proxy/pool"
)

// inTime runs a test with fake time, which the pool's clock shows: 2000-01-01 at midnight UTC to begin with.
func inTime(t *testing.T, name string, o pool.Options, u pool.Usage, test func(t *testing.T, r *rig)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			now := func() time.Time { return time.Now().UTC() }
			test(t, &rig{Pool: pool.New(o, u, now, 1), t: t})
		})
	})
}

// waiting are options whose requests wait for up to 5 s.
func waiting(keys ...pool.Key) pool.Options {
	o := options(pool.FillFirst, keys...)
	o.MaxWait = 5 * time.Second
	return o
}

// timed leases and returns how long that took.
func (r *rig) timed(ctx context.Context, w *pool.Want) (*pool.Lease, time.Duration, error) {
	start := time.Now()
	l, err := r.Lease(ctx, w)
	return l, time.Since(start), err
}

// servedAfter wants a lease of the key after d, or up to a tenth more.
func (r *rig) servedAfter(d time.Duration, key string, w *pool.Want) *pool.Lease {
	r.t.Helper()
	l, took, err := r.timed(r.t.Context(), w)
	if err != nil {
		r.t.Fatalf("refused after %s: %v; want %s after %s", took, err, key, d)
	}
	if l.Key != key || !within(took, d) {
		r.t.Fatalf("%s after %s, want %s after %s", l.Key, took, key, d)
	}
	return l
}

// exhausted wants an *ExhaustedError after exactly d.
func (r *rig) exhausted(w *pool.Want, d time.Duration) *pool.ExhaustedError {
	r.t.Helper()
	l, took, err := r.timed(r.t.Context(), w)
	var ex *pool.ExhaustedError
	if !errors.As(err, &ex) {
		r.t.Fatalf("lease %v, %v", l, err)
	}
	equal(r.t, "refused after", took, d)
	return ex
}

func TestWaitsForAKeyThatWillSoonBeFree(t *testing.T) {
	lone := waiting(pool.Key{ID: "k"})
	inTime(t, "a stated reset", lone, nil, func(t *testing.T, r *rig) {
		r.failOn("k", reset(pool.RateLimit, 4*time.Second))
		r.servedAfter(4*time.Second, "k", ask(""))
	})
	inTime(t, "several, the first of them", waiting(plain("a", "b", "c")...), nil, func(t *testing.T, r *rig) {
		r.failOn("a", reset(pool.Fault, 4*time.Second))
		r.failOn("b", reset(pool.Fault, 2*time.Second))
		r.failOn("c", reset(pool.Fault, time.Hour))
		r.servedAfter(2*time.Second, "b", ask(""))
	})
	inTime(t, "midnight", waiting(pool.Key{ID: "k", DailyLimit: 10}), spent{"k": {10}}, func(t *testing.T, r *rig) {
		time.Sleep(24*time.Hour - 3*time.Second)
		r.servedAfter(3*time.Second, "k", ask(""))
	})
	inTime(t, "a lower tier's key", func() pool.Options {
		o := waiting(pool.Key{ID: "a"})
		o.Tiers = append(o.Tiers, pool.Tier{Name: "low", Strategy: pool.RoundRobin, Keys: plain("b")})
		return o
	}(), nil, func(t *testing.T, r *rig) {
		r.failOn("a", reset(pool.Fault, time.Hour))
		r.failOn("b", reset(pool.Fault, time.Second))
		r.servedAfter(time.Second, "b", ask(""))
	})
}

// One hiccup of a lone key costs the next request a wait, not an error: its cooldown is at most as long as the wait.
func TestHiccupOfALoneKeyIsWaitedFor(t *testing.T) {
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			r := &rig{Pool: pool.New(waiting(plain("k")...), nil, time.Now, seed), t: t}
			r.failOn("k", is(pool.Fault))
			time.Sleep(time.Millisecond) // the next request comes after the failure
			if _, took, err := r.timed(t.Context(), ask("")); err != nil || took > 5*time.Second {
				t.Errorf("seed %d: after %s: %v", seed, took, err)
			}
		})
	}
}

func TestDoesNotWait(t *testing.T) {
	lone := waiting(pool.Key{ID: "k"})
	inTime(t, "for what is too far off", lone, nil, func(t *testing.T, r *rig) {
		r.failOn("k", reset(pool.RateLimit, 6*time.Second))
		r.exhausted(ask(""), 0)
	})
	never := options(pool.FillFirst, pool.Key{ID: "k", MaxConcurrent: 1})
	inTime(t, "at all with 0", never, nil, func(t *testing.T, r *rig) {
		l := r.lease(ask(""))
		r.exhausted(ask(""), 0)
		l.Close(reset(pool.RateLimit, time.Second), pool.Tokens{})
		r.exhausted(ask(""), 0)
	})
	inTime(t, "for keys that it has tried", waiting(plain("a", "b")...), nil, func(t *testing.T, r *rig) {
		w := ask("")
		r.fail(w, reset(pool.RateLimit, time.Second))
		r.fail(w, reset(pool.RateLimit, time.Hour))
		equal(t, "tried", r.exhausted(w, 0).Tried, 2)
	})
	inTime(t, "for a tried key that is busy", waiting(pool.Key{ID: "a", MaxConcurrent: 1}), nil, func(t *testing.T, r *rig) {
		w := ask("")
		r.fail(w, is(pool.Passthrough))
		r.lease(ask(""))
		r.exhausted(w, 0)
	})
	inTime(t, "for keys out of scope, disabled or of another model", waiting(plain("in", "out")...), nil, func(t *testing.T, r *rig) {
		r.failOn("in", reset(pool.Fault, time.Hour))
		r.failOn("out", reset(pool.Fault, time.Second))
		r.exhausted(&pool.Want{Scope: pool.Only("in"), Model: "m"}, 0)
	})
	inTime(t, "where no key serves the model", waiting(pool.Key{ID: "k", Models: map[string]string{"x": "x"}}), nil, func(t *testing.T, r *rig) {
		_, took, err := r.timed(t.Context(), ask(""))
		var unknown *pool.ModelError
		if !errors.As(err, &unknown) || took != 0 {
			t.Errorf("%v after %s", err, took)
		}
	})
}

func TestWaitsForABusySlot(t *testing.T) {
	single := waiting(pool.Key{ID: "k", MaxConcurrent: 1})
	inTime(t, "freed by Close", single, nil, func(t *testing.T, r *rig) {
		l := r.lease(ask(""))
		go func() {
			time.Sleep(3 * time.Second)
			l.Close(is(pool.OK), pool.Tokens{})
		}()
		r.servedAfter(3*time.Second, "k", ask(""))
	})
	inTime(t, "freed by a request that failed: then the key cools", single, nil, func(t *testing.T, r *rig) {
		l := r.lease(ask(""))
		go func() {
			time.Sleep(time.Second)
			l.Close(reset(pool.RateLimit, time.Minute), pool.Tokens{})
		}()
		equal(t, "cooling", r.exhausted(ask(""), time.Second).Cooling, 1)
	})
	inTime(t, "never freed", single, nil, func(t *testing.T, r *rig) {
		r.lease(ask(""))
		ex := r.exhausted(ask(""), 5*time.Second)
		equal(t, "busy", ex.Busy, 1)
		equal(t, "retry after", ex.RetryAfter(), time.Second)
	})
	inTime(t, "one slot, many who wait, each gets it once", single, nil, func(t *testing.T, r *rig) {
		served := make(chan time.Duration, 10)
		start := time.Now()
		for range 10 {
			go func() {
				l := r.lease(ask(""))
				served <- time.Since(start)
				time.Sleep(400 * time.Millisecond)
				l.Accept()
				l.Close(is(pool.OK), pool.Tokens{})
			}()
		}
		for n := range 10 {
			equal(t, fmt.Sprint("turn ", n), <-served, time.Duration(n)*400*time.Millisecond)
		}
		time.Sleep(time.Second) // for the last to close
	})
}

// A key that is busy for long does not hide one that will be free in a second.
func TestWaitsForTheCoolingKeyBesideABusyOne(t *testing.T) {
	inTime(t, "cooling for a second", waiting(pool.Key{ID: "busy", MaxConcurrent: 1}, pool.Key{ID: "cooling"}), nil, func(t *testing.T, r *rig) {
		r.failOn("cooling", reset(pool.RateLimit, time.Second))
		equal(t, "takes the slot", r.lease(ask("")).Key, "busy")
		r.servedAfter(time.Second, "cooling", ask(""))
	})
}

// A request waits once, not before every attempt.
func TestWaitsOnce(t *testing.T) {
	inTime(t, "a wait that ended with a key", waiting(plain("a", "b")...), nil, func(t *testing.T, r *rig) {
		r.failOn("a", reset(pool.RateLimit, 2*time.Second))
		r.failOn("b", reset(pool.RateLimit, 6*time.Second))
		w := ask("")
		l := r.servedAfter(2*time.Second, "a", w)
		l.Close(is(pool.Fault), pool.Tokens{})
		if l, took, err := r.timed(t.Context(), w); err == nil {
			t.Errorf("waited a second time, for %s: %s", took, l.Key)
		}
	})
	inTime(t, "a wait in vain", waiting(pool.Key{ID: "k", MaxConcurrent: 1}), nil, func(t *testing.T, r *rig) {
		r.lease(ask(""))
		w := ask("")
		r.exhausted(w, 5*time.Second)
		r.exhausted(w, 0)
		r.exhausted(ask(""), 5*time.Second) // another request has its own
	})
}

func TestWaitGivesUpWhenTheClientGoes(t *testing.T) {
	single := waiting(pool.Key{ID: "k", MaxConcurrent: 1})
	inTime(t, "cancelled", single, nil, func(t *testing.T, r *rig) {
		held := r.lease(ask(""))
		ctx, cancel := context.WithCancel(t.Context())
		go func() { time.Sleep(1500 * time.Millisecond); cancel() }()
		w := ask("")
		l, took, err := r.timed(ctx, w)
		if l != nil || took != 1500*time.Millisecond || !errors.Is(err, context.Canceled) {
			t.Errorf("after %s: %v", took, err)
		}
		held.Close(is(pool.OK), pool.Tokens{})
		equal(t, "nobody took the slot that was freed", r.key("k").InFlight, 0)
		equal(t, "the next one gets it", r.serve(ask("")), "k")
	})
	inTime(t, "its deadline", single, nil, func(t *testing.T, r *rig) {
		r.lease(ask(""))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, took, err := r.timed(ctx, ask("")); took != time.Second || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after %s: %v", took, err)
		}
	})
	inTime(t, "gone before", single, nil, func(t *testing.T, r *rig) {
		r.lease(ask(""))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, took, err := r.timed(ctx, ask("")); took > time.Second || !errors.Is(err, context.Canceled) {
			t.Errorf("after %s: %v", took, err)
		}
	})
}

// A request that waits holds nothing up: others lease, close and look meanwhile.
func TestWaitingHoldsNobodyUp(t *testing.T) {
	inTime(t, "one waits, ten are served", waiting(pool.Key{ID: "k", MaxConcurrent: 1}, pool.Key{ID: "other"}), nil, func(t *testing.T, r *rig) {
		r.lease(&pool.Want{Scope: pool.Only("k"), Model: "m"})
		go func() { _, _ = r.Lease(t.Context(), &pool.Want{Scope: pool.Only("k"), Model: "m"}) }()
		synctest.Wait()
		for range 10 {
			equal(t, "served at once", r.serve(ask("")), "other")
			r.View()
		}
		time.Sleep(6 * time.Second)
	})
}
