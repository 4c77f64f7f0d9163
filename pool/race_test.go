package pool_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"coding-proxy/pool"
)

// 200 goroutines lease, accept and close, others look and take snapshots: no race, no key over its max_concurrent, no
// slot lost and no token. Time is fake, so that those who wait for a slot really wait.
func TestConcurrentUse(t *testing.T) {
	const workers, requests, seed = 200, 8, 11
	synctest.Test(t, func(t *testing.T) {
		o := options(pool.SessionSticky)
		o.MaxWait = 5 * time.Second
		o.RebalanceThreshold, o.RebalanceCooldown = 0.01, time.Second
		o.Tiers = []pool.Tier{
			{Name: "t", Strategy: pool.SessionSticky, Keys: []pool.Key{
				{ID: "a", DailyLimit: 1e9, MaxConcurrent: 3}, {ID: "b", DailyLimit: 2e9, MaxConcurrent: 20}, {ID: "c", MonthlyLimit: 1e9}}},
			{Name: "low", Strategy: pool.RoundRobin, Keys: []pool.Key{{ID: "d", MaxConcurrent: 7}, {ID: "e", Passthrough: true, MaxConcurrent: 50}}},
		}
		room := map[string]int32{"a": 3, "b": 20, "c": workers, "d": 7, "e": 50}
		flying, tokens := map[string]*atomic.Int32{}, map[string]*atomic.Int64{}
		for id := range room {
			flying[id], tokens[id] = new(atomic.Int32), new(atomic.Int64)
		}
		failures := []pool.Class{pool.Cancelled, pool.Passthrough, pool.Stale, pool.RateLimit, pool.Overload, pool.Fault, pool.Cap}
		p := pool.New(o, nil, func() time.Time { return time.Now().UTC() }, seed)
		var work, look sync.WaitGroup
		var leased, refused atomic.Int64
		for n := range workers {
			work.Go(func() {
				random := rand.New(rand.NewPCG(seed, uint64(n)))
				for range requests {
					w := &pool.Want{Scope: pool.Everything(), Model: fmt.Sprint("m", n%3), Session: fmt.Sprint("s", n%50), Credential: fmt.Sprint("c", n%5)}
					for range 3 {
						l, err := p.Lease(t.Context(), w)
						if err != nil {
							var ex *pool.ExhaustedError
							if !errors.As(err, &ex) {
								t.Errorf("seed %d: %v", seed, err)
							}
							refused.Add(1)
							break
						}
						leased.Add(1)
						if now := flying[l.Key].Add(1); now > room[l.Key] {
							t.Errorf("seed %d: %d requests in flight with %s, %d may be", seed, now, l.Key, room[l.Key])
						}
						time.Sleep(time.Duration(random.IntN(900)) * time.Millisecond)
						outcome := pool.Outcome{}
						if random.IntN(4) == 0 {
							outcome = reset(failures[random.IntN(len(failures))], time.Duration(1+random.IntN(2))*time.Second)
						}
						if outcome.Class == pool.OK || random.IntN(2) == 0 {
							l.Accept()
						}
						used := int64(random.IntN(100))
						tokens[l.Key].Add(used)
						flying[l.Key].Add(-1)
						l.Close(outcome, pool.Tokens{Output: used})
						if outcome.Class == pool.OK {
							break
						}
					}
				}
			})
		}
		done := make(chan struct{})
		for n := range 8 {
			look.Go(func() {
				for {
					select {
					case <-done:
						return
					case <-time.After(time.Duration(200+n) * time.Millisecond):
					}
					p.View()
					p.SnapshotState()
					if p.SnapshotSessions() != nil {
						p.KeepSessions()
					}
					p.Models(pool.Only("a", "d"), pool.Catalogue{})
					if err := p.RestoreSessions([]byte(`{"version":1,"sessions":{"other":{"key_id":"a","last_seen":"2000-01-01T00:00:00Z"}}}`)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		work.Wait()
		close(done)
		look.Wait()
		for _, tier := range p.View().Tiers {
			for _, k := range tier.Keys {
				equal(t, k.ID+" in flight", k.InFlight, 0)
				equal(t, k.ID+" tokens", k.Today.Used, float64(tokens[k.ID].Load()))
			}
		}
		if leased.Load() < workers*requests/2 || refused.Load() == 0 {
			t.Errorf("seed %d: %d leases and %d refusals are no test", seed, leased.Load(), refused.Load())
		}
	})
}

// A stale attempt is made again with the same key. Another request that waits for the slot must not come in between:
// max_concurrent holds.
func TestStaleRetryKeepsItsSlot(t *testing.T) {
	o := options(pool.FillFirst, pool.Key{ID: "k", MaxConcurrent: 1})
	o.MaxWait = 5 * time.Second
	inTime(t, "another request waits", o, nil, func(t *testing.T, r *rig) {
		stale := r.lease(ask(""))
		waiting := make(chan *pool.Lease)
		go func() { waiting <- r.lease(ask("")) }()
		synctest.Wait()
		again := stale.Again()
		synctest.Wait()
		equal(t, "same key", again.Key, "k")
		equal(t, "in flight", r.key("k").InFlight, 1)
		select {
		case <-waiting:
			t.Error("another request got the slot")
		default:
		}
		stale.Close(is(pool.OK), pool.Tokens{Output: 7}) // it has ended: nothing of it counts
		equal(t, "in flight", r.key("k").InFlight, 1)
		equal(t, "used", r.key("k").Today.Used, 0)
		again.Close(is(pool.Cancelled), pool.Tokens{})
		(<-waiting).Close(is(pool.Cancelled), pool.Tokens{})
		equal(t, "in flight in the end", r.key("k").InFlight, 0)
	})
}

// Again is one more attempt with a beginning of its own: what it earns is new, whatever cooled since the first began.
func TestAgain(t *testing.T) {
	r := pair(t)
	w := ask("s")
	first, other := r.lease(w), r.lease(ask(""))
	r.add(time.Second)
	other.Close(is(pool.Fault), pool.Tokens{})
	r.add(minute)
	l := first.Again()
	equal(t, "attempt", l.Tier+"/"+l.Key+" as "+l.UpstreamModel, "t/k as m")
	equal(t, "out", r.out("k", "m", ""), 0)
	r.add(time.Second)
	l.Accept()
	l.Close(is(pool.Fault), pool.Tokens{Output: 3})
	equal(t, "used", r.key("k").Today.Used, 3)
	if d := r.out("k", "m", ""); !within(d, 30*time.Second) { // the success has cleared the streak
		t.Errorf("out for %s", d)
	}
	equal(t, "the same request's next key", r.lease(w).Key, "spare")
}
