package pool_test

import (
	"encoding/json"
	"testing"
	"time"

	"coding-proxy/pool"
)

// sticky is a session-sticky tier of keys with limits.
func sticky(name string, back pool.TierReturn, keys ...string) pool.Tier {
	t := pool.Tier{Name: name, Strategy: pool.SessionSticky, Return: back}
	for _, id := range keys {
		t.Keys = append(t.Keys, pool.Key{ID: id, DailyLimit: 1e9})
	}
	return t
}

// away lets the session be served by tier z while a's keys are out for a minute, and has them free again afterwards.
func away(t *testing.T, r *rig, session string) {
	t.Helper()
	r.add(time.Second)
	for _, key := range []string{"a1", "a2"} {
		r.whole(only(key), true, reset(pool.RateLimit, time.Minute))
	}
	equal(t, "while a is out", r.serve(ask(session))[:1], "z")
	r.add(67 * time.Second)
}

// tierReturn are two tiers of two keys each.
func tierReturn(back pool.TierReturn) pool.Options {
	return chained(sticky("a", back, "a1", "a2"), sticky("z", pool.ReturnImmediate, "z1", "z2"))
}

// KEY-004 across tiers, tier_return idle: a session that the lower tier served stays there while its cache is warm, on
// its key; a new session goes up at once. After five quiet minutes the session returns.
func TestKEY004SessionStaysInTheLowerTier(t *testing.T) {
	r := newRig(t, tierReturn(pool.ReturnIdle), nil)
	high := r.serve(ask("S"))
	away(t, r, "S")
	low := r.serve(ask("S"))
	equal(t, "its tier", low[:1], "z")
	for range 10 {
		equal(t, "S", r.serve(ask("S")), low)
		equal(t, "T, a new session", r.serve(ask("T"))[:1], "a")
		equal(t, "no session", r.serve(ask(""))[:1], "a")
		r.add(5 * time.Minute) // still warm
	}
	equal(t, "S, to the second", r.serve(ask("S")), low)
	r.add(5*time.Minute + time.Second)
	equal(t, "S, when it was quiet", r.serve(ask("S")), high)
	// Back again it stays: the lower binding is the older one now.
	r.add(time.Second)
	equal(t, "S, from then on", r.serve(ask("S")), high)
	// The gate is named.
	away(t, r, "S")
	w := ask("S")
	r.serve(w)
	if len(w.Skipped) != 1 || w.Skipped[0] != (pool.Skip{Tier: "a", Gate: pool.GateReturn}) {
		t.Errorf("skipped %v", w.Skipped)
	}
}

// tier_return immediate, and the default: with its next request.
func TestSessionReturnsImmediately(t *testing.T) {
	for _, back := range []pool.TierReturn{pool.ReturnImmediate, ""} {
		r := newRig(t, tierReturn(back), nil)
		high := r.serve(ask("S"))
		away(t, r, "S")
		equal(t, "S", r.serve(ask("S")), high)
		equal(t, "T", r.serve(ask("T"))[:1], "a")
	}
}

// A session stays below only where it can be served there.
func TestSessionStaysOnlyWhereItCanBeServed(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(o *pool.Options)
		before func(t *testing.T, r *rig, key string)
		want   string
	}{
		{"its key there serves", nil, func(*testing.T, *rig, string) {}, "z"},
		{"its key there cools", nil, func(_ *testing.T, r *rig, key string) { r.whole(only(key), true, reset(pool.RateLimit, time.Hour)) }, "a"},
		{"its key there is disabled", nil, func(_ *testing.T, r *rig, key string) { _ = r.Enable(key, false) }, "a"},
		{"its key there is full", nil, func(_ *testing.T, r *rig, key string) { r.spend(key, 1e9) }, "a"},
		{"the session was unbound", nil, func(_ *testing.T, r *rig, _ string) { r.Unbind("S") }, "a"},
		{"the guard there refuses", func(o *pool.Options) { o.Tiers[1] = limited(o.Tiers[1], 100) },
			func(_ *testing.T, r *rig, key string) { r.spend(key, 100) }, "a"},
		{"the breaker there is open: it is the last", func(o *pool.Options) { o.Tiers[1] = broken(o.Tiers[1], 1) },
			func(_ *testing.T, r *rig, key string) { r.trip(key); r.add(2 * time.Second) }, "z"},
		{"the breaker there is open", func(o *pool.Options) {
			o.Tiers = append(o.Tiers, tierOf("last", "last"))
			o.Tiers[1] = broken(o.Tiers[1], 1)
		}, func(_ *testing.T, r *rig, key string) { r.trip(key); r.add(2 * time.Second) }, "a"},
		{"the lower tier binds nobody any more", func(o *pool.Options) {}, func(_ *testing.T, r *rig, _ string) {
			o := tierReturn(pool.ReturnIdle)
			o.Tiers[1].Strategy = pool.FillFirst
			r.Configure(o)
		}, "a"},
		{"its tier has gone", nil, func(_ *testing.T, r *rig, _ string) {
			o := tierReturn(pool.ReturnIdle)
			o.Tiers = o.Tiers[:1]
			r.Configure(o)
		}, "a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := tierReturn(pool.ReturnIdle)
			if tc.change != nil {
				tc.change(&o)
			}
			r := newRig(t, o, nil)
			r.serve(ask("S"))
			away(t, r, "S")
			low := r.serve(ask("S"))
			equal(t, "S stays", low[:1], "z")
			tc.before(t, r, low)
			equal(t, "S then", r.serve(ask("S"))[:1], tc.want)
		})
	}
	t.Run("its key there cooled, and it went up", func(t *testing.T) {
		r := newRig(t, tierReturn(pool.ReturnIdle), nil)
		away(t, r, "S")
		low := r.serve(ask("S"))
		r.add(time.Second)
		r.whole(only(low), true, reset(pool.RateLimit, time.Second))
		equal(t, "S goes up", r.serve(ask("S"))[:1], "a")
		r.add(2 * time.Second)
		// Both caches are warm, the upper one is the newer: it does not go down again.
		equal(t, "S stays up", r.serve(ask("S"))[:1], "a")
	})
	t.Run("its attempt there failed", func(t *testing.T) {
		r := newRig(t, tierReturn(pool.ReturnIdle), nil)
		away(t, r, "S")
		w := ask("S")
		equal(t, "first", r.fail(w, is(pool.Passthrough))[:1], "z")
		equal(t, "then", r.serve(w)[:1], "a")
	})
	t.Run("it is out of scope", func(t *testing.T) {
		r := newRig(t, tierReturn(pool.ReturnIdle), nil)
		away(t, r, "S")
		w := only("a1", "a2")
		w.Session = "S"
		equal(t, "then", r.serve(w)[:1], "a")
	})
	t.Run("it does not serve the model", func(t *testing.T) {
		o := tierReturn(pool.ReturnIdle)
		for i := range o.Tiers[1].Keys {
			o.Tiers[1].Keys[i].Models = map[string]string{"m": "m"}
		}
		r := newRig(t, o, nil)
		away(t, r, "S")
		w := ask("S")
		w.Model = "other"
		equal(t, "then", r.serve(w)[:1], "a")
	})
}

// A tier's own setting: the session goes up to the tier that takes it back at once, past the one that waits.
func TestTierReturnIsATiersOwn(t *testing.T) {
	o := chained(sticky("a", pool.ReturnIdle, "a1"), sticky("b", pool.ReturnImmediate, "b1"), sticky("c", pool.ReturnIdle, "c1"))
	r := newRig(t, o, nil)
	r.whole(only("a1"), true, reset(pool.RateLimit, time.Minute))
	r.whole(only("b1"), true, reset(pool.RateLimit, time.Minute))
	equal(t, "while both are out", r.serve(ask("S")), "c1")
	r.add(67 * time.Second)
	equal(t, "b takes it back", r.serve(ask("S")), "b1")
	equal(t, "a waits", r.serve(ask("S")), "b1")
	r.add(5*time.Minute + time.Second)
	equal(t, "a, when it was quiet", r.serve(ask("S")), "a1")
	r.add(time.Second)
	equal(t, "and stays", r.serve(ask("S")), "a1")
}

// A session has a key in each tier; each tier keeps its own.
func TestSessionIsBoundPerTier(t *testing.T) {
	r := newRig(t, tierReturn(pool.ReturnImmediate), nil)
	high := r.serve(ask("S"))
	away(t, r, "S")
	bindings := func() map[string]pool.Binding {
		r.KeepSessions()
		return r.SnapshotSessions().Tiers["S"]
	}
	low := bindings()["z"].KeyID
	for range 4 {
		equal(t, "high", r.serve(ask("S")), high)
		equal(t, "binding in a", bindings()["a"].KeyID, high)
		equal(t, "binding in z", bindings()["z"].KeyID, low)
		away(t, r, "S")
	}
	// A request that failed above and was served below binds nothing above.
	w := ask("T")
	r.whole(w, false, is(pool.Fault), is(pool.Fault), pool.Outcome{})
	r.KeepSessions()
	if b := r.SnapshotSessions().Tiers["T"]; len(b) != 1 || b["z"].KeyID == "" {
		t.Errorf("bound %v", b)
	}
	equal(t, "unbound", r.Unbind("S"), true)
	equal(t, "unbound again", r.Unbind("S"), false)
	if b := bindings(); b != nil {
		t.Errorf("still bound %v", b)
	}
}

// A session that stays below stays there after a restart, too.
func TestStayingSurvivesARestart(t *testing.T) {
	o := tierReturn(pool.ReturnIdle)
	r := newRig(t, o, nil)
	r.serve(ask("S"))
	away(t, r, "S")
	low := r.serve(ask("S"))
	data, err := json.Marshal(r.SnapshotSessions())
	if err != nil {
		t.Fatal(err)
	}
	r = r.reopened(o)
	if err := r.RestoreSessions(data); err != nil {
		t.Fatal(err)
	}
	equal(t, "S", r.serve(ask("S")), low)
	r.add(5*time.Minute + time.Second)
	equal(t, "S, when it was quiet", r.serve(ask("S"))[:1], "a")
}

// Nobody waits for a tier that holds back for a warm cache: the session's own tier serves it, or the upper one does.
func TestTierReturnNeverExhausts(t *testing.T) {
	o := tierReturn(pool.ReturnIdle)
	for i := range o.Tiers[1].Keys {
		o.Tiers[1].Keys[i].MaxConcurrent = 1
	}
	r := newRig(t, o, nil)
	away(t, r, "S")
	first := r.lease(ask("S"))
	equal(t, "S", first.Tier, "z")
	equal(t, "S beside it, while its key is busy", r.lease(ask("S")).Tier, "a")
}
