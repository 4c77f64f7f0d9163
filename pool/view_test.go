package pool_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"coding-proxy/pool"
)

func TestViewOfEachState(t *testing.T) {
	o := options(pool.SessionSticky,
		pool.Key{ID: "ready", Provider: "p", Protocols: []string{"anthropic"}, DailyLimit: 100, MonthlyLimit: 1000},
		pool.Key{ID: "cooling", DailyLimit: 100},
		pool.Key{ID: "day", DailyLimit: 100},
		pool.Key{ID: "month", MonthlyLimit: 100},
		pool.Key{ID: "busy", DailyLimit: 100, MaxConcurrent: 1},
		pool.Key{ID: "disabled", DailyLimit: 100, Disabled: true, DisabledReason: "environment variable X is not set"},
		pool.Key{ID: "model", DailyLimit: 100})
	o.Tiers[0].Name = "first"
	r := newRig(t, o, spent{"ready": {30, 70}, "day": {100}, "month": {5, 200}})
	r.failOn("cooling", is(pool.Credential))
	r.lease(&pool.Want{Scope: pool.Only("busy"), Model: "m"})
	for range 2 {
		r.failOn("model", is(pool.RateLimit))
		r.add(2 * minute)
	}
	r.failOn("model", is(pool.RateLimit))
	r.serve(&pool.Want{Scope: pool.Only("ready"), Model: "m", Session: "s1"})
	r.serve(&pool.Want{Scope: pool.Only("ready"), Model: "m", Session: "s2"})

	v := r.View()
	equal(t, "now", v.Now, r.now())
	equal(t, "ready", v.Ready, true)
	equal(t, "next free", v.NextFree, time.Time{})
	equal(t, "tier", v.Tiers[0].Name, "first")
	for _, want := range []struct {
		id, state, reason string
		until             time.Duration // 0: none
	}{
		{"ready", "ready", "", 0},
		{"cooling", "cooling", "credential", time.Hour},
		{"day", "day_limit", "", 12 * time.Hour},
		{"month", "month_limit", "", 12*time.Hour + 21*day},
		{"busy", "busy", "", 0},
		{"disabled", "disabled", "environment variable X is not set", 0},
		{"model", "ready", "", 0},
	} {
		k := r.key(want.id)
		equal(t, want.id+" state", k.State, want.state)
		equal(t, want.id+" reason", k.Reason, want.reason)
		equal(t, want.id+" enabled", k.Enabled, want.id != "disabled")
		if d := k.Until.Sub(noon); k.Until.IsZero() != (want.until == 0) || want.until > 0 && !within(d, want.until) {
			t.Errorf("%s until %s", want.id, k.Until)
		}
	}
	k := r.key("ready")
	if k.Provider != "p" || !reflect.DeepEqual(k.Protocols, []string{"anthropic"}) || k.Sessions != 2 || !k.LastUsed.Equal(r.now()) {
		t.Errorf("ready: %+v", k)
	}
	equal(t, "today", k.Today, pool.Limit{Of: 100, Used: 30})
	equal(t, "this month", k.Month, pool.Limit{Of: 1000, Used: 70})
	equal(t, "in flight", r.key("busy").InFlight, 1)
	m := r.key("model")
	equal(t, "streak", m.Streak, 3)
	if len(m.Models) != 1 || m.Models[0].Model != "m" || m.Models[0].Reason != "rate_limit" || !within(m.Models[0].Until.Sub(r.now()), 2*minute) {
		t.Errorf("models %+v", m.Models)
	}
}

// Whether a key is free now, and if none is, when the first one will be.
func TestViewNextFree(t *testing.T) {
	fail := func(id string, d time.Duration) func(*rig) {
		return func(r *rig) { r.fail(&pool.Want{Scope: pool.Only(id), Model: "m"}, reset(pool.Cap, d)) }
	}
	for _, tc := range []struct {
		name   string
		keys   []pool.Key
		used   spent
		before []func(*rig)
		ready  bool
		free   time.Duration
	}{
		{"one is free", plain("a", "b"), nil, []func(*rig){fail("a", minute)}, true, 0},
		{"both cool", plain("a", "b"), nil, []func(*rig){fail("a", time.Hour), fail("b", minute)}, false, minute},
		{"one cools, one is over its limit", []pool.Key{{ID: "a"}, {ID: "b", DailyLimit: 5}}, spent{"b": {5}}, []func(*rig){fail("a", 2*day)}, false, 12 * time.Hour},
		{"disabled", []pool.Key{{ID: "a", Disabled: true}}, nil, nil, false, 0},
		{"a model's cooldown is not the key's", plain("a"), nil, []func(*rig){func(r *rig) { r.failOn("a", reset(pool.RateLimit, time.Hour)) }}, true, 0},
		{"busy: nobody knows", []pool.Key{{ID: "a", MaxConcurrent: 1}}, nil, []func(*rig){func(r *rig) { r.lease(ask("")) }}, false, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, options(pool.FillFirst, tc.keys...), tc.used)
			for _, b := range tc.before {
				b(r)
			}
			v := r.View()
			equal(t, "ready", v.Ready, tc.ready)
			if d := v.NextFree.Sub(r.now()); v.NextFree.IsZero() != (tc.free == 0) || tc.free > 0 && !within(d, tc.free) {
				t.Errorf("next free %s", v.NextFree)
			}
		})
	}
}

// The pool's limits are the sums of its keys'; where a key has none, the pool has none; disabled ones do not count.
func TestViewSums(t *testing.T) {
	limited := []pool.Key{{ID: "a", DailyLimit: 100, MonthlyLimit: 1000}, {ID: "b", DailyLimit: 50, MonthlyLimit: 500}, {ID: "off", DailyLimit: 7, Disabled: true}}
	used := spent{"a": {10, 20}, "b": {1, 2}, "off": {5, 5}}
	v := newRig(t, options(pool.FillFirst, limited...), used).View()
	equal(t, "today", v.Today, pool.Limit{Of: 150, Used: 11})
	equal(t, "month", v.Month, pool.Limit{Of: 1500, Used: 22})
	v = newRig(t, options(pool.FillFirst, append(limited, pool.Key{ID: "c", DailyLimit: 1})...), used).View()
	equal(t, "today", v.Today, pool.Limit{Of: 151, Used: 11})
	equal(t, "month", v.Month, pool.Limit{Of: 0, Used: 22})
}

func TestLimitState(t *testing.T) {
	for _, tc := range []struct {
		limit pool.Limit
		want  string
	}{
		{pool.Limit{Of: 0, Used: 1e9}, "healthy"}, {pool.Limit{Of: 100, Used: 0}, "healthy"}, {pool.Limit{Of: 100, Used: 79.9}, "healthy"},
		{pool.Limit{Of: 100, Used: 80}, "tight"}, {pool.Limit{Of: 100, Used: 99.9}, "tight"}, {pool.Limit{Of: 100, Used: 100}, "exhausted"}, {pool.Limit{Of: 100, Used: 200}, "exhausted"},
	} {
		equal(t, fmt.Sprint(tc.limit), tc.limit.State(), tc.want)
	}
}

// When the day's limit will be reached at today's pace, if that is today.
func TestViewRunsOut(t *testing.T) {
	for _, tc := range []struct {
		zone  string
		now   string
		limit int64
		used  float64
		want  string // "": it holds out, or has run out already
	}{
		{"Europe/Berlin", "2026-03-10 06:00:00", 100, 50, "2026-03-10 12:00:00"},
		{"Europe/Berlin", "2026-03-10 12:00:00", 100, 75, "2026-03-10 16:00:00"},
		{"Europe/Berlin", "2026-03-10 12:00:00", 100, 50, ""}, // at midnight, when the day ends
		{"Europe/Berlin", "2026-03-10 12:00:00", 100, 51, "2026-03-10 23:31:45"},
		{"Europe/Berlin", "2026-03-10 12:00:00", 100, 20, ""},
		{"Europe/Berlin", "2026-03-10 12:00:00", 100, 0, ""},
		{"Europe/Berlin", "2026-03-10 12:00:00", 100, 100, ""},
		{"Europe/Berlin", "2026-03-10 12:00:00", 0, 50, ""},
		{"Europe/Berlin", "2026-03-29 05:00:00", 100, 50, "2026-03-29 09:00:00"},    // four hours have passed, not five
		{"America/Santiago", "2026-09-06 05:00:00", 100, 50, "2026-09-06 09:00:00"}, // the day began at 1:00
	} {
		r := at(t, options(pool.FillFirst, pool.Key{ID: "k", DailyLimit: tc.limit}), spent{"k": {tc.used}}, zone(t, tc.zone), tc.now)
		got := ""
		if out := r.key("k").RunsOut; !out.IsZero() {
			got = out.Format(time.DateTime)
		}
		equal(t, fmt.Sprint(tc.now, " ", tc.used, " of ", tc.limit), got, tc.want)
	}
}

// What callers' credentials earned through a passthrough key is theirs: the key itself stays ready, also when a caller
// sent none.
func TestViewOfAPassthroughKey(t *testing.T) {
	for _, credential := range []string{"mine", ""} {
		r := newRig(t, options(pool.FillFirst, pool.Key{ID: "k", Passthrough: true}, pool.Key{ID: "spare"}), nil)
		w := ask("")
		w.Credential = credential
		equal(t, "key", r.fail(w, is(pool.Credential)), "k")
		equal(t, fmt.Sprintf("state after a refusal of %q", credential), r.key("k").State, "ready")
		equal(t, "out for that caller", r.out("k", "m", credential) > 0, true)
		other := ask("")
		other.Credential = "another's"
		equal(t, "key", r.fail(other, is(pool.Fault)), "k")
		equal(t, "state after a fault", r.key("k").State, "cooling")
		equal(t, "reason", r.key("k").Reason, "fault")
	}
}

// A key that is switched off has days, too: what it used yesterday is not today's.
func TestViewOfADisabledKeysDay(t *testing.T) {
	r := newRig(t, options(pool.FillFirst, pool.Key{ID: "off", DailyLimit: 100, MonthlyLimit: 1000, Disabled: true}), spent{"off": {30, 70}})
	equal(t, "today", r.key("off").Today.Used, 30)
	r.add(day)
	equal(t, "the next day", r.key("off").Today.Used, 0)
	equal(t, "and in its month", r.key("off").Month.Used, 70)
	r.add(31 * day)
	equal(t, "the next month", r.key("off").Month.Used, 0)
}

// Looking changes nothing: a session is not renewed, a turn not taken.
func TestViewChangesNothing(t *testing.T) {
	look := func(r *rig) {
		r.View()
		r.Models(pool.Everything(), pool.Catalogue{Dialects: map[string][]string{"anthropic": {"m"}}})
		r.Route(ask("s"))
		_ = r.Serves(ask("s"))
		r.SnapshotState()
	}
	r := newRig(t, options(pool.RoundRobin, plain("a", "b")...), nil)
	for _, want := range []string{"a", "b", "a"} {
		look(r)
		equal(t, "turn", r.serve(ask("")), want)
	}
	r = two(t)
	r.bind("s", "k2")
	seen := r.binding("s")
	r.add(time.Hour)
	look(r)
	equal(t, "binding", r.binding("s"), seen)
	if r.SnapshotSessions() != nil {
		t.Error("looking made something to write")
	}
}
