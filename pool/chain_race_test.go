package pool_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"coding-proxy/pool"
)

// Many requests at once through tiers with breakers and guards, with resets, reloads, routes and snapshots beside them:
// no race, no key over its max_concurrent, and in the end no slot is missing: every tier serves again.
func TestConcurrentUseOfTiers(t *testing.T) {
	const workers, requests, seed = 60, 12, 31
	build := func() pool.Options {
		o := chained(limited(broken(sticky("a", pool.ReturnIdle, "a1", "a2"), 2), 2000), limited(broken(tierOf("b", "b1", "b2"), 2), 0), broken(tierOf("z", "z1"), 2))
		o.MaxWait, o.RebalanceThreshold, o.RebalanceCooldown = 5*time.Second, 0.0001, time.Second
		for i := range o.Tiers {
			if b := o.Tiers[i].Breaker; b != nil {
				b.Recovery, b.MaxRecovery = 2*time.Second, 4*time.Second
			}
			if g := o.Tiers[i].Guard; g != nil {
				g.Window, g.ProbeInterval = 2*time.Minute, 3*time.Second
			}
		}
		o.Tiers[1].Keys[0].MaxConcurrent = 3
		return o
	}
	synctest.Test(t, func(t *testing.T) {
		p := pool.New(build(), nil, func() time.Time { return time.Now().UTC() }, seed)
		var mu sync.Mutex
		flying, seen := 0, map[string]int{}
		request := func(random *rand.Rand, n int) {
			w := &pool.Want{Scope: pool.Everything(), Model: "m", Session: fmt.Sprint("s", n%7)}
			failed := false
			for range 4 {
				failed = false
				l, err := p.Lease(t.Context(), w)
				if err != nil {
					var ex *pool.ExhaustedError
					if !errors.As(err, &ex) {
						t.Errorf("seed %d: %v", seed, err)
					}
					mu.Lock()
					seen["refused"]++
					mu.Unlock()
					break
				}
				mu.Lock()
				seen[l.Tier]++
				if l.Key == "b1" {
					if flying++; flying > 3 {
						t.Errorf("seed %d: %d requests in flight with b1", seed, flying)
					}
				}
				mu.Unlock()
				time.Sleep(time.Duration(random.IntN(600)) * time.Millisecond)
				o := pool.Outcome{}
				if random.IntN(2) == 0 {
					o = reset(pool.Class(random.IntN(int(pool.UnknownModel)+1)), time.Duration(1+random.IntN(2))*time.Second)
				}
				if o.Class == pool.Stale {
					l = l.Again()
				}
				if o.Class == pool.OK || random.IntN(5) == 0 {
					l.Accept()
					o.Class = []pool.Class{pool.OK, pool.OK, pool.Fault}[random.IntN(3)]
				}
				mu.Lock()
				if l.Key == "b1" {
					flying--
				}
				mu.Unlock()
				l.Close(o, pool.Tokens{Output: random.Int64N(60)})
				if failed = o.Class != pool.OK; !failed || o.Class == pool.Cancelled || o.Class == pool.Passthrough {
					failed = false
					break
				}
			}
			p.End(w, failed)
		}
		var work, look sync.WaitGroup
		done := make(chan struct{})
		for n := range workers {
			work.Go(func() {
				random := rand.New(rand.NewPCG(seed, uint64(n)))
				for range requests {
					request(random, n)
					time.Sleep(time.Duration(random.IntN(900)) * time.Millisecond)
				}
			})
		}
		look.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				case <-time.After(70 * time.Millisecond):
				}
				p.View()
				p.Route(ask("s1"))
				p.SnapshotState()
				p.SnapshotSessions()
				switch n % 20 {
				case 5:
					p.Configure(build())
				case 10:
					_ = p.Reset([]string{"a", "b1", ""}[n%3])
				case 15:
					p.Unbind("s2")
					_ = p.Backfill(func(_ time.Time, each func(pool.Past)) error { return nil })
				}
			}
		})
		work.Wait()
		close(done)
		look.Wait()
		time.Sleep(10 * time.Minute)
		for _, tier := range p.View().Tiers {
			for _, k := range tier.Keys {
				equal(t, k.ID+" in flight", k.InFlight, 0)
			}
		}
		for _, scope := range [][]string{{"a1", "a2", "z1"}, {"b1", "b2", "z1"}, {"z1"}} {
			for range 3 { // as many successes as any of them needs
				w := only(scope...)
				l, err := p.Lease(t.Context(), w)
				if err != nil || l.Key[0] != scope[0][0] {
					t.Fatalf("seed %d, in the end: %v, %v; want a key of %v", seed, l, err, scope)
				}
				l.Accept()
				l.Close(pool.Outcome{}, pool.Tokens{})
			}
		}
		for _, tier := range p.View().Tiers {
			if b := tier.Breaker; b.State != "closed" || b.Failures != 0 {
				t.Errorf("seed %d, breaker of %s in the end: %+v", seed, tier.Name, b)
			}
		}
		for _, what := range []string{"a", "b", "z"} {
			if seen[what] < workers/2 {
				t.Errorf("seed %d: only %d leases in %s", seed, seen[what], what)
			}
		}
		t.Log(seen)
	})
}
