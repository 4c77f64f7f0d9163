package pool_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"coding-proxy/pool"
)

// two is a session-sticky pool of k1 and k2; nearly every new session is drawn to k1.
func two(t *testing.T) *rig {
	return newRig(t, options(pool.SessionSticky, pool.Key{ID: "k1", DailyLimit: 1e12}, pool.Key{ID: "k2", DailyLimit: 1e6}), nil)
}

// A binding is written when an attempt succeeded, and by nothing else.
func TestSessionIsBoundOnSuccessOnly(t *testing.T) {
	for _, tc := range []struct {
		name     string
		accepted bool
		class    pool.Class
		bound    string
	}{
		{"good", true, pool.OK, "k1"},
		{"good head, then it broke", true, pool.Fault, "k1"},
		{"good head, then the client went", true, pool.Cancelled, "k1"},
		{"cancelled", false, pool.Cancelled, ""},
		{"the client's fault", false, pool.Passthrough, ""},
		{"stale", false, pool.Stale, ""},
		{"rate limit", false, pool.RateLimit, ""},
		{"overload", false, pool.Overload, ""},
		{"fault", false, pool.Fault, ""},
		{"credential", false, pool.Credential, ""},
		{"cap", false, pool.Cap, ""},
		{"unknown model", false, pool.UnknownModel, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := two(t)
			l := r.lease(ask("s"))
			equal(t, "while it is under way", r.bound("s"), "")
			if tc.accepted {
				l.Accept()
			}
			l.Close(is(tc.class), pool.Tokens{})
			equal(t, "bound to", r.bound("s"), tc.bound)
		})
	}
}

// A request without a session, or under another strategy, binds nothing.
func TestNothingToBind(t *testing.T) {
	r := two(t)
	for range 100 {
		r.serve(ask(""))
	}
	r.KeepSessions()
	if s := r.SnapshotSessions(); len(s.Sessions)+len(s.Tiers) > 0 {
		t.Errorf("bound %v", s)
	}
	for _, strategy := range pool.Strategies()[1:] {
		r := newRig(t, options(strategy, plain("a", "b")...), nil)
		r.serve(ask("s"))
		if s := r.SnapshotSessions(); s != nil {
			t.Errorf("%s bound %v", strategy, s)
		}
		r.bind("s", "b")
		if strategy == pool.FillFirst {
			equal(t, "fill-first decides anew", r.serve(ask("s")), "a")
		}
	}
}

// While its key may serve, a session keeps it, whatever the weights say.
func TestSessionKeepsItsKey(t *testing.T) {
	r := two(t)
	r.bind("s", "k2")
	for range 200 {
		r.add(time.Minute)
		equal(t, "key", r.serve(ask("s")), "k2")
	}
}

// A passing fault that is over when the request ends moves nothing, neither the first nor the second in a row; a
// request that found no key at all moves nothing either.
func TestTwoPassingFaultsDoNotMoveASession(t *testing.T) {
	r := two(t)
	r.bind("s", "k1")
	for i, lasts := range []time.Duration{34 * time.Second, 67 * time.Second} { // over the cooldowns of 30 and 60 s
		w := ask("s")
		equal(t, "first attempt", r.fail(w, is(pool.Fault)), "k1")
		l := r.lease(w)
		equal(t, "second attempt", l.Key, "k2")
		l.Accept()
		equal(t, "while the answer streams", r.bound("s"), "k1")
		r.add(lasts)
		l.Close(is(pool.OK), pool.Tokens{Output: 10})
		if got := r.bound("s"); got != "k1" {
			t.Fatalf("fault %d moved the session to %s", i+1, got)
		}
	}
	w := ask("s")
	equal(t, "the next request", r.fail(w, is(pool.Overload)), "k1")
	equal(t, "and when k2 fails, too", r.fail(w, is(pool.Overload)), "k2")
	equal(t, "nothing served it", r.bound("s"), "k1")
}

// A binding moves when the request ends if its old key is cooling or over its limits then, and in no other case.
func TestSessionMovesOnlyFromAKeyThatCannotServe(t *testing.T) {
	spendOld := func(n int64) func(*testing.T, *rig) {
		return func(_ *testing.T, r *rig) { r.spend("k1", n) }
	}
	for _, tc := range []struct {
		name   string
		before func(*testing.T, *rig) // so that k2 serves
		during func(*testing.T, *rig)
		end    pool.Class
		want   string
	}{
		{"still cooling", cooling(time.Minute), nil, pool.OK, "k2"},
		{"cooling no more", cooling(time.Minute), wait(67 * time.Second), pool.OK, "k1"},
		{"cooling anew", cooling(time.Minute), func(t *testing.T, r *rig) {
			wait(67*time.Second)(t, r)
			r.failOn("k1", is(pool.Credential))
		}, pool.OK, "k2"},
		{"over the day's limit", spendOld(100), nil, pool.OK, "k2"},
		{"over the day's limit, but the day ends", spendOld(100), wait(13 * time.Hour), pool.OK, "k1"},
		{"over the month's limit", spendOld(1000), wait(13 * time.Hour), pool.OK, "k2"},
		{"over the month's limit, but the month ends", spendOld(1000), wait(22 * 24 * time.Hour), pool.OK, "k1"},
		{"still cooling, but the answer broke", cooling(time.Minute), nil, pool.Fault, "k1"},
		{"still cooling, but the client went", cooling(time.Minute), nil, pool.Cancelled, "k1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := options(pool.SessionSticky, pool.Key{ID: "k1", DailyLimit: 100, MonthlyLimit: 1000}, pool.Key{ID: "k2", MonthlyLimit: 1000})
			o.SessionIdle = 100 * 24 * time.Hour
			r := newRig(t, o, nil)
			r.bind("s", "k1")
			tc.before(t, r)
			l := r.lease(ask("s"))
			equal(t, "serves", l.Key, "k2")
			l.Accept()
			equal(t, "at the head", r.bound("s"), "k1")
			if tc.during != nil {
				tc.during(t, r)
			}
			l.Close(is(tc.end), pool.Tokens{})
			equal(t, "bound to", r.bound("s"), tc.want)
		})
	}
}

func cooling(d time.Duration) func(*testing.T, *rig) {
	return func(_ *testing.T, r *rig) { r.failOn("k1", reset(pool.Fault, d)) }
}

func wait(d time.Duration) func(*testing.T, *rig) { return func(_ *testing.T, r *rig) { r.add(d) } }

// A bound key that is busy lets another serve and keeps the session.
func TestBusyKeyKeepsItsSession(t *testing.T) {
	r := newRig(t, options(pool.SessionSticky, pool.Key{ID: "k1", DailyLimit: 100, MaxConcurrent: 1}, pool.Key{ID: "k2", DailyLimit: 100}), nil)
	r.bind("s", "k1")
	other := r.lease(ask("s"))
	equal(t, "first", other.Key, "k1")
	l := r.lease(ask("s"))
	equal(t, "beside it", l.Key, "k2")
	l.Accept()
	l.Close(is(pool.OK), pool.Tokens{})
	equal(t, "bound to", r.bound("s"), "k1")
	other.Close(is(pool.Cancelled), pool.Tokens{})
	equal(t, "when k1 is free", r.serve(ask("s")), "k1")
}

// A caller whose group no longer has the bound key moves to one that it has.
func TestSessionLeavesAKeyOutOfScope(t *testing.T) {
	r := two(t)
	r.bind("s", "k1")
	w := ask("s")
	w.Scope = pool.Only("k2")
	equal(t, "key", r.serve(w), "k2")
	equal(t, "bound to", r.bound("s"), "k2")
}

// A key that does not serve this model keeps the session for the model that it does serve.
func TestSessionOfAnotherModelStays(t *testing.T) {
	r := newRig(t, options(pool.SessionSticky,
		pool.Key{ID: "k1", DailyLimit: 100, Models: map[string]string{"big": "b"}}, pool.Key{ID: "k2", DailyLimit: 100, Models: map[string]string{"small": "s"}}), nil)
	for range 5 {
		for model, key := range map[string]string{"big": "k1", "small": "k2"} {
			w := ask("s")
			w.Model = model
			equal(t, model, r.serve(w), key)
		}
		if got := r.bound("s"); got == "" {
			t.Error("not bound")
		}
	}
}

// KEY-004, within a tier: a key that comes back does not take running sessions, new ones are drawn to it again.
func TestKEY004RecoveredKeyTakesNewSessionsOnly(t *testing.T) {
	r := two(t)
	r.failOn("k1", reset(pool.RateLimit, time.Hour))
	equal(t, "while k1 is out", r.serve(ask("S")), "k2")
	r.add(2 * time.Hour)
	equal(t, "S, when k1 is back", r.serve(ask("S")), "k2")
	equal(t, "T, a new session", r.serve(ask("T")), "k1")
}

// Between tiers the chain's order outranks the binding (tier_return immediate): a higher tier that is open again gets
// the session back, on the key that it had there; the lower tier's binding stays for the next time.
func TestHigherTierGetsTheSessionBack(t *testing.T) {
	o := options(pool.SessionSticky)
	many := func(ids ...string) (keys []pool.Key) {
		for _, id := range ids {
			keys = append(keys, pool.Key{ID: id, DailyLimit: 1000})
		}
		return keys
	}
	o.Tiers = []pool.Tier{
		{Name: "t", Strategy: pool.SessionSticky, Keys: many("a", "b", "c")},
		{Name: "low", Strategy: pool.SessionSticky, Keys: many("x", "y", "z")},
	}
	r := newRig(t, o, nil)
	high := r.serve(ask("S"))
	low := ""
	for range 5 {
		for _, id := range []string{"a", "b", "c"} {
			r.failOn(id, reset(pool.RateLimit, time.Minute))
		}
		got := r.serve(ask("S"))
		if low == "" {
			low = got
		}
		if strings.Contains("abc", got) || got != low {
			t.Fatalf("while the first tier is out: %s, want %s", got, low)
		}
		r.add(70 * time.Second)
		equal(t, "when it is back", r.serve(ask("S")), high)
	}
}

// KEY-006: a limited key lets its session go within the same request, and does not call it back.
func TestKEY006StickyIsNoHardPin(t *testing.T) {
	r := two(t)
	r.bind("S", "k1")
	w := ask("S")
	equal(t, "first attempt", r.fail(w, reset(pool.RateLimit, time.Hour)), "k1")
	equal(t, "same request", r.serve(w), "k2")
	equal(t, "bound to", r.bound("S"), "k2")
	equal(t, "next turn", r.serve(ask("S")), "k2")
	r.add(2 * time.Hour)
	equal(t, "when k1 is back", r.serve(ask("S")), "k2")
}

// KEY-007, as routing.md has it: the request that saw the 502 goes on elsewhere. If k1 has recovered when it ends, the
// next turn is k1's; if k1 still cools then, the session moves.
func TestKEY007OneFault(t *testing.T) {
	for _, tc := range []struct {
		lasts time.Duration
		next  string
	}{{time.Minute, "k1"}, {29 * time.Second, "k2"}} {
		r := two(t)
		r.bind("S", "k1")
		w := ask("S")
		equal(t, "first attempt", r.fail(w, is(pool.Fault)), "k1")
		l := r.lease(w)
		l.Accept()
		r.add(tc.lasts)
		l.Close(is(pool.OK), pool.Tokens{})
		r.add(time.Minute)
		equal(t, fmt.Sprintf("next turn after %s", tc.lasts), r.serve(ask("S")), tc.next)
	}
}

// KEY-008: bindings survive a restart as JSON.
func TestKEY008SessionsSurviveARestart(t *testing.T) {
	var keys []pool.Key
	for _, id := range []string{"k1", "k2", "k3"} {
		keys = append(keys, pool.Key{ID: id, DailyLimit: 1000})
	}
	r := newRig(t, options(pool.SessionSticky, keys...), nil)
	had := map[string]string{}
	for n := range 300 {
		s := pool.SessionHash("caller", fmt.Sprint(n))
		had[s] = r.serve(ask(s))
	}
	snapshot := r.SnapshotSessions()
	data, err := json.Marshal(snapshot)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "version", snapshot.Version, 1)
	onlySessions, err := json.Marshal(struct {
		Version  int                     `json:"version"`
		Sessions map[string]pool.Binding `json:"sessions"`
	}{1, snapshot.Sessions})
	if err != nil {
		t.Fatal(err)
	}
	for form, data := range map[string][]byte{"whole": data, "the form of reference 2": onlySessions} {
		again := seeded(t, options(pool.SessionSticky, keys...), nil, 99)
		if err := again.RestoreSessions(data); err != nil {
			t.Fatal(err)
		}
		for s, key := range had {
			if got := again.serve(ask(s)); got != key {
				t.Fatalf("%s: a session of %s got %s", form, key, got)
			}
		}
		if s := again.SnapshotSessions(); len(s.Tiers) != len(had) {
			t.Errorf("%s: %d sessions are left of %d", form, len(s.Tiers), len(had))
		}
	}
}

// The form of reference 2 knows no tiers: each key's tier gets the binding.
func TestSessionsOfTheOlderFormFindTheirTier(t *testing.T) {
	o := options(pool.SessionSticky, pool.Key{ID: "a", DailyLimit: 1000}, pool.Key{ID: "b", DailyLimit: 1000})
	o.Tiers = append(o.Tiers, pool.Tier{Name: "low", Strategy: pool.SessionSticky, Keys: []pool.Key{{ID: "c", DailyLimit: 10}, {ID: "d", DailyLimit: 1e9}}})
	r := newRig(t, o, nil)
	err := r.RestoreSessions([]byte(`{"version":1,"sessions":{
		"s":{"key_id":"b","last_seen":"2026-03-10T11:00:00Z"},"x":{"key_id":"c","last_seen":"2026-03-10T11:00:00+00:00"},
		"gone":{"key_id":"removed","last_seen":"2026-03-10T11:00:00Z"},"old":{"key_id":"a","last_seen":"2026-03-09T11:59:59Z"},"":{"key_id":"a","last_seen":"2026-03-10T11:00:00Z"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	r.KeepSessions()
	got, err := json.Marshal(r.SnapshotSessions())
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"version":1,"sessions":{"s":{"key_id":"b","last_seen":"2026-03-10T11:00:00Z"},"x":{"key_id":"c","last_seen":"2026-03-10T11:00:00Z"}},` +
		`"tiers":{"s":{"t":{"key_id":"b","last_seen":"2026-03-10T11:00:00Z"}},"x":{"low":{"key_id":"c","last_seen":"2026-03-10T11:00:00Z"}}}}`
	equal(t, "restored", string(got), want)
}

// An idle binding is dropped, and every use renews it.
func TestIdleSessionsAreDropped(t *testing.T) {
	day := 24 * time.Hour
	r := two(t)
	r.bind("s", "k2")
	for range 3 {
		r.add(day)
		equal(t, "at the last moment", r.serve(ask("s")), "k2")
	}
	equal(t, "sessions", r.key("k2").Sessions, 1)
	r.add(day + time.Nanosecond)
	equal(t, "sessions, a moment too late", r.key("k2").Sessions, 0)
	equal(t, "bound to", r.bound("s"), "")
	equal(t, "drawn anew", r.serve(ask("s")), "k1")
	equal(t, "and bound", r.bound("s"), "k1")
}

// A session in use is not idle, though its key cannot serve for a while: the binding that moves is as fresh as the
// request that moved it. Else the next turn, seconds later, finds it expired and leaves the warm cache.
func TestMovedSessionIsFresh(t *testing.T) {
	r := two(t)
	r.bindAt("s", "k1", r.now().Add(-24*time.Hour+time.Minute))
	r.failOn("k1", reset(pool.RateLimit, time.Hour))
	l := r.lease(ask("s"))
	l.Accept()
	r.add(10 * time.Minute)
	l.Close(is(pool.OK), pool.Tokens{})
	equal(t, "moved to", r.bound("s"), "k2")
	if seen := r.binding("s").LastSeen; !seen.Equal(r.now()) {
		t.Errorf("last seen %s, it was used until %s", seen, r.now())
	}
	r.add(2 * time.Hour)
	equal(t, "the next turn", r.serve(ask("s")), "k2")
}

// Sessions of two callers are two, ids are hashed, and what is hashed does not run together.
func TestSessionHash(t *testing.T) {
	h := pool.SessionHash
	equal(t, "no session", h("caller", ""), "")
	if a := h("caller", "session"); len(a) != 32 || strings.Contains(a, "session") || a != h("caller", "session") {
		t.Errorf("hash %q", a)
	}
	if h("a", "s") == h("b", "s") || h("ab", "c") == h("a", "bc") {
		t.Error("two callers share a session")
	}
}

// SnapshotSessions has something to write only when a binding changed, and after a write that failed.
func TestSnapshotSessionsOnlyWhenChanged(t *testing.T) {
	r := two(t)
	if r.SnapshotSessions() != nil {
		t.Error("nothing has happened, yet there is something to write")
	}
	for i, use := range []func(){
		func() { r.serve(ask("s")) },
		func() { r.add(time.Second); r.serve(ask("s")) }, // last_seen
		func() { r.failOn("k1", reset(pool.Cap, time.Hour)); r.serve(ask("s")) },
		func() { r.KeepSessions() },
		func() { r.add(25 * time.Hour) },
	} {
		use()
		if r.SnapshotSessions() == nil {
			t.Errorf("change %d is not written", i)
		}
		if s := r.SnapshotSessions(); s != nil {
			t.Errorf("change %d is written twice: %v", i, s)
		}
	}
}

// Made-up session ids do not grow the memory without end.
func TestBindingsAreBounded(t *testing.T) {
	r := two(t)
	for n := range 120_000 {
		if n%1000 == 0 {
			r.add(time.Second)
		}
		r.serve(ask(fmt.Sprint(n)))
	}
	if n := len(r.SnapshotSessions().Tiers); n > 100_000 || n < 10_000 {
		t.Errorf("%d bindings", n)
	}
	equal(t, "the newest is kept", r.bound("119999"), "k1")
}

func TestRubbishSessionsChangeNothing(t *testing.T) {
	for _, text := range []string{"", "{", "[]", `"x"`, `{"version":2}`, `{"version":"1"}`, `{"sessions":[]}`, `{"sessions":{"s":{"key_id":7}}}`,
		`{"version":1,"tiers":{"s":{"t":{"key_id":"k1","last_seen":"yesterday"}}}}`,
		`{"version":1,"sessions":{"n":{"key_id":"k2","last_seen":"2026-03-10T12:00:00Z"}},"tiers":7}`} {
		r := two(t)
		r.bind("s", "k2")
		if err := r.RestoreSessions([]byte(text)); err == nil {
			t.Errorf("%s: no error", text)
		}
		equal(t, text, r.bound("s")+r.bound("n"), "k2")
	}
	r := two(t)
	for _, text := range []string{`{}`, `{"version":1,"tiers":{"s":{"another":{"key_id":"k1","last_seen":"2026-03-10T12:00:00Z"}}}}`} {
		if err := r.RestoreSessions([]byte(text)); err != nil || r.bound("s") != "" {
			t.Errorf("%s: %v, %s", text, err, r.bound("s"))
		}
	}
}
