package pool_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
	_ "time/tzdata" // the zones of the tests, wherever they run

	"coding-proxy/pool"
)

// noon is when the tests begin unless they say otherwise: far from midnight and from a month's end.
var noon = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

// clock stands still until a test moves it.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) add(d time.Duration) { c.set(c.now().Add(d)) }

func (c *clock) set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = t
}

// spent is a pool.Usage: key → tokens today, and this month where that is more.
type spent map[string][2]float64

func (s spent) Today(key string, _ time.Time, _ pool.Weights) float64 { return s[key][0] }

func (s spent) Month(key string, _ time.Time, _ pool.Weights) float64 {
	return max(s[key][0], s[key][1])
}

// rig is a pool with its clock.
type rig struct {
	*pool.Pool
	*clock
	t testing.TB
}

// options are the defaults with one tier called "t", and nothing that waits or rebalances.
func options(s pool.Strategy, keys ...pool.Key) pool.Options {
	o := pool.Defaults()
	o.MaxWait, o.RebalanceThreshold = 0, 0
	o.Tiers = []pool.Tier{{Name: "t", Strategy: s, Keys: keys}}
	return o
}

// plain are keys without any limit.
func plain(ids ...string) []pool.Key {
	var keys []pool.Key
	for _, id := range ids {
		keys = append(keys, pool.Key{ID: id})
	}
	return keys
}

func newRig(t testing.TB, o pool.Options, u pool.Usage) *rig { return seeded(t, o, u, 1) }

func seeded(t testing.TB, o pool.Options, u pool.Usage, seed uint64) *rig {
	c := &clock{t: noon}
	return &rig{Pool: pool.New(o, u, c.now, seed), clock: c, t: t}
}

// ask is a request of a caller who may use every key.
func ask(session string) *pool.Want {
	return &pool.Want{Scope: pool.Everything(), Model: "m", Session: session}
}

// lease leases, or fails the test.
func (r *rig) lease(w *pool.Want) *pool.Lease {
	r.t.Helper()
	l, err := r.Lease(r.t.Context(), w)
	if err != nil {
		r.t.Fatalf("lease: %v", err)
	}
	return l
}

// serve serves a whole request at one instant and returns the key that did.
func (r *rig) serve(w *pool.Want) string {
	r.t.Helper()
	l := r.lease(w)
	l.Accept()
	l.Close(pool.Outcome{}, pool.Tokens{})
	return l.Key
}

// fail leases for w and lets the attempt fail. It returns the key.
func (r *rig) fail(w *pool.Want, o pool.Outcome) string {
	r.t.Helper()
	l := r.lease(w)
	l.Close(o, pool.Tokens{})
	return l.Key
}

// failOn lets a request of its own fail with the key. The request may use every key: this one is not alone by its scope.
func (r *rig) failOn(key string, o pool.Outcome) {
	r.t.Helper()
	r.leaseOf(key, ask("")).Close(o, pool.Tokens{})
}

// leaseOf leases for w until it gets the key: a request gets none twice.
func (r *rig) leaseOf(key string, w *pool.Want) *pool.Lease {
	r.t.Helper()
	for range 100 {
		l := r.lease(w)
		if l.Key == key {
			return l
		}
		l.Close(pool.Outcome{Class: pool.Cancelled}, pool.Tokens{})
	}
	r.t.Fatalf("no lease of %s in a hundred", key)
	return nil
}

// spend lets the key count tokens.
func (r *rig) spend(key string, tokens int64) {
	r.t.Helper()
	l := r.lease(&pool.Want{Scope: pool.Only(key), Model: "m"})
	l.Accept()
	l.Close(pool.Outcome{}, pool.Tokens{Input: tokens})
}

// refused wants the pool to be exhausted for w.
func (r *rig) refused(w *pool.Want) *pool.ExhaustedError {
	r.t.Helper()
	l, err := r.Lease(r.t.Context(), w)
	var ex *pool.ExhaustedError
	if !errors.As(err, &ex) {
		r.t.Fatalf("lease: %+v, %v; want *ExhaustedError", l, err)
	}
	return ex
}

// out returns for how long the key will not serve the model; 0: it serves it now.
func (r *rig) out(key, model, credential string) time.Duration {
	r.t.Helper()
	w := &pool.Want{Scope: pool.Only(key), Model: model, Credential: credential}
	l, err := r.Lease(r.t.Context(), w)
	var ex *pool.ExhaustedError
	switch {
	case err == nil:
		l.Close(pool.Outcome{Class: pool.Cancelled}, pool.Tokens{})
		return 0
	case !errors.As(err, &ex) || ex.Next.IsZero():
		r.t.Fatalf("lease of %s: %v", key, err)
	}
	return ex.Next.Sub(r.now())
}

// bind binds a session in tier "t", as if it had been used now.
func (r *rig) bind(session, key string) { r.bindAt(session, key, r.now()) }

func (r *rig) bindAt(session, key string, seen time.Time) {
	r.t.Helper()
	text := fmt.Sprintf(`{"version":1,"tiers":{%q:{"t":{"key_id":%q,"last_seen":%q}}}}`, session, key, seen.Format(time.RFC3339Nano))
	if err := r.RestoreSessions([]byte(text)); err != nil {
		r.t.Fatal(err)
	}
}

// bound returns the key to which the session is bound in tier "t", "" for none.
func (r *rig) bound(session string) string { return r.binding(session).KeyID }

func (r *rig) binding(session string) pool.Binding {
	r.KeepSessions()
	return r.SnapshotSessions().Tiers[session]["t"]
}

// key returns the view of one key.
func (r *rig) key(id string) pool.KeyView {
	r.t.Helper()
	for _, t := range r.View().Tiers {
		for _, k := range t.Keys {
			if k.ID == id {
				return k
			}
		}
	}
	r.t.Fatalf("no key %q", id)
	return pool.KeyView{}
}

// within reports whether d is base, or up to a tenth longer: the jitter of design/routing.md, section 4.
func within(d, base time.Duration) bool { return d >= base && d <= base+base/10 }

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// reset is an outcome with a stated reset.
func reset(c pool.Class, d time.Duration) pool.Outcome { return pool.Outcome{Class: c, Reset: d} }

func is(c pool.Class) pool.Outcome { return pool.Outcome{Class: c} }
