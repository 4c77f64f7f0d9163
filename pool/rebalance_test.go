package pool_test

import (
	"fmt"
	"testing"
	"time"

	"coding-proxy/pool"
)

// balanced are keys with a limit of 100 a day and 1000 a month, and the rebalancing of the defaults: a spread of more
// than 0.2, at most every 600 s.
func balanced(ids ...string) pool.Options {
	var keys []pool.Key
	for _, id := range ids {
		keys = append(keys, pool.Key{ID: id, DailyLimit: 100, MonthlyLimit: 1000})
	}
	o := options(pool.SessionSticky, keys...)
	o.RebalanceThreshold = pool.Defaults().RebalanceThreshold
	return o
}

func TestRebalanceThreshold(t *testing.T) {
	for _, tc := range []struct {
		name  string
		used  spent
		on    string
		moved string
	}{
		{"spread of 0.2 exactly", spent{"a": {25}, "b": {5}}, "a", "a"},
		{"a little more", spent{"a": {26}, "b": {5}}, "a", "b"},
		{"by the month", spent{"a": {0, 500}, "b": {10, 100}}, "a", "b"},
		{"the more used of day and month counts on both sides", spent{"a": {50}, "b": {0, 400}}, "a", "a"},
		{"on the least used key", spent{"a": {90}, "b": {5}}, "b", "b"},
		{"on a key in the middle", spent{"a": {90}, "c": {50}}, "c", "c"},
		{"to the least used of all", spent{"a": {90}, "b": {40}, "c": {30}}, "a", "c"},
		{"unused alike", nil, "a", "a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, balanced("a", "b", "c"), tc.used)
			if tc.used["c"] == [2]float64{} {
				r.failOn("c", is(pool.Credential)) // two candidates
			}
			r.bind("s", tc.on)
			equal(t, "the request goes to", r.serve(ask("s")), tc.moved)
			equal(t, "bound to", r.bound("s"), tc.moved)
		})
	}
}

// The spread is that of the candidates: keys that may not serve this request neither widen it nor get its session.
func TestRebalanceAmongCandidatesOnly(t *testing.T) {
	used := spent{"a": {50}, "b": {40}, "c": {0}, "d": {99}}
	for name, tc := range map[string]struct {
		before func(r *rig)
		scope  pool.Scope
		want   string
	}{
		"c is out of scope":        {nil, pool.Only("a", "b"), "a"},
		"c cools":                  {func(r *rig) { r.failOn("c", is(pool.Cap)) }, pool.Only("a", "b", "c"), "a"},
		"c is there":               {nil, pool.Only("a", "b", "c"), "c"},
		"d, the most used, is too": {nil, pool.Everything(), "a"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, balanced("a", "b", "c", "d"), used)
			if tc.before != nil {
				tc.before(r)
			}
			r.bind("s", "a")
			w := ask("s")
			w.Scope = tc.scope
			equal(t, "key", r.serve(w), tc.want)
		})
	}
}

// One move in 600 s, in the whole pool.
func TestRebalanceCooldownIsPoolWide(t *testing.T) {
	o := balanced("a", "b")
	low := balanced("x", "y").Tiers[0]
	low.Name = "low"
	for i := range low.Keys {
		low.Keys[i].Models = map[string]string{"n": "n"}
	}
	for i := range o.Tiers[0].Keys {
		o.Tiers[0].Keys[i].Models = map[string]string{"m": "m"}
	}
	o.Tiers = append(o.Tiers, low)
	r := newRig(t, o, spent{"a": {90}, "x": {90}})
	serve := func(session, model string) string {
		w := ask(session)
		w.Model = model
		return r.serve(w)
	}
	last := r.now().Format(time.RFC3339)
	if err := r.RestoreSessions([]byte(fmt.Sprintf(`{"version":1,"tiers":{
		"s1":{"t":{"key_id":"a","last_seen":%[1]q}},"s2":{"t":{"key_id":"a","last_seen":%[1]q}},"s3":{"low":{"key_id":"x","last_seen":%[1]q}}}}`, last))); err != nil {
		t.Fatal(err)
	}
	equal(t, "the first moves", serve("s1", "m"), "b")
	for range 4 {
		r.add(149 * time.Second)
		equal(t, "the second stays", serve("s2", "m"), "a")
		equal(t, "another tier's stays", serve("s3", "n"), "x")
	}
	r.add(4 * time.Second)
	equal(t, "after 600 s", serve("s3", "n"), "y")
	equal(t, "again only one", serve("s2", "m"), "a")
	for range 3 {
		r.add(200 * time.Second)
		serve("s1", "m")
	}
	equal(t, "after 1200 s", serve("s2", "m"), "b")
}

// Sessions with a cold cache move first; an active one only when there is no cold one. Idle for 5 minutes is not yet
// more than 5 minutes.
func TestRebalanceMovesColdSessionsFirst(t *testing.T) {
	for _, tc := range []struct {
		name   string
		idle   time.Duration // of the other session on the used key
		other  string        // where that is
		active string        // where the session that asks is
	}{
		{"a cold one", 6 * time.Minute, "b", "a"},
		{"just cold", 5*time.Minute + time.Nanosecond, "b", "a"},
		{"not yet cold", 5 * time.Minute, "a", "b"},
		{"none but active ones", time.Minute, "a", "b"},
		{"expired ones are none", 25 * time.Hour, "", "b"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, balanced("a", "b"), spent{"a": {90}})
			r.bindAt("other", "a", r.now().Add(-tc.idle))
			r.bindAt("active", "a", r.now().Add(-time.Second))
			equal(t, "served by", r.serve(ask("active")), tc.active)
			equal(t, "the active one is on", r.bound("active"), tc.active)
			equal(t, "the other one is on", r.bound("other"), tc.other)
		})
	}

	r := newRig(t, balanced("a", "b"), spent{"a": {90}})
	r.bindAt("cold", "a", r.now().Add(-time.Hour))
	r.bind("asks", "b")
	equal(t, "one that sits well", r.serve(ask("asks")), "b")
	equal(t, "lets the cold one move", r.bound("cold"), "b")

	r = newRig(t, balanced("a", "b"), spent{"a": {90}})
	r.bindAt("s", "a", r.now().Add(-time.Hour))
	equal(t, "the cold one itself asks", r.serve(ask("s")), "b")

	r = newRig(t, balanced("a", "b"), spent{"a": {90}})
	r.bind("active", "a")
	for range 20 {
		r.serve(ask("")) // requests without a session move nobody who is active
	}
	equal(t, "the active one is on", r.bound("active"), "a")
}

// A session whose answer has been streaming for long is not idle, and neither is one whose answer has just ended: its
// cache is warm, so it does not count as a cold one that moves first.
func TestRebalanceTakesNoBusySessionForACold(t *testing.T) {
	for _, ended := range []bool{true, false} {
		r := newRig(t, balanced("a", "b"), nil)
		r.bind("streams", "a")
		l := r.lease(ask("streams"))
		l.Accept()
		r.spend("a", 90)
		r.add(6 * time.Minute)
		if ended {
			l.Close(is(pool.OK), pool.Tokens{})
		}
		r.bind("asks", "b")
		equal(t, "the one that asks", r.serve(ask("asks")), "b")
		equal(t, fmt.Sprintf("the one that streamed, ended %v", ended), r.bound("streams"), "a")
	}
}

// Only session-sticky has sessions to move, and a tier with one key has nowhere to move them.
func TestRebalanceElsewhereDoesNothing(t *testing.T) {
	for _, s := range pool.Strategies()[1:] {
		o := balanced("a", "b")
		o.Tiers[0].Strategy = s
		r := newRig(t, o, spent{"a": {90}})
		r.bind("s", "a")
		r.serve(ask("s"))
		equal(t, string(s), r.bound("s"), "a")
	}
	r := newRig(t, balanced("a"), spent{"a": {90}})
	r.bind("s", "a")
	equal(t, "alone", r.serve(ask("s")), "a")
}
