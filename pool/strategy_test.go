package pool_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"coding-proxy/pool"
)

// Session-sticky over 10,000 new sessions: each key's share is within 2 percentage points of its weight, which is the
// tighter of what is left of the day and of the month.
func TestSharesOfNewSessionsFollowWhatIsLeft(t *testing.T) {
	const sessions, tolerance = 10_000, 0.02
	day := func(id string, limit int64) pool.Key { return pool.Key{ID: id, DailyLimit: limit} }
	month := func(id string, limit int64) pool.Key { return pool.Key{ID: id, MonthlyLimit: limit} }
	both := func(id string, d, m int64) pool.Key { return pool.Key{ID: id, DailyLimit: d, MonthlyLimit: m} }
	for _, tc := range []struct {
		name string
		keys []pool.Key
		used spent
		left map[string]float64
	}{
		{"KEY-021, by day", []pool.Key{day("a", 100), day("b", 100), day("c", 100)}, spent{"a": {10}, "b": {50}, "c": {90}},
			map[string]float64{"a": 90, "b": 50, "c": 10}},
		{"the richest last", []pool.Key{day("a", 100), day("b", 100), day("c", 100)}, spent{"a": {90}, "b": {50}, "c": {10}},
			map[string]float64{"a": 10, "b": 50, "c": 90}},
		{"limits that differ", []pool.Key{day("a", 6_000_000), day("b", 3_000_000), day("c", 1_000_000)}, nil,
			map[string]float64{"a": 6, "b": 3, "c": 1}},
		{"by month", []pool.Key{month("a", 1000), month("b", 1000)}, spent{"a": {100, 250}, "b": {0, 750}},
			map[string]float64{"a": 750, "b": 250}},
		{"by both, the tighter counts", []pool.Key{both("a", 100, 1000), both("b", 1000, 1000), both("c", 100, 100)},
			spent{"a": {60, 100}, "b": {0, 980}, "c": {20, 20}}, map[string]float64{"a": 40, "b": 20, "c": 80}},
		{"one by day, one by month, one by both", []pool.Key{day("a", 300), month("b", 300), both("c", 300, 300)},
			spent{"a": {0, 900}, "b": {100, 100}, "c": {50, 200}}, map[string]float64{"a": 300, "b": 200, "c": 100}},
		{"alike", []pool.Key{day("a", 50), day("b", 50), day("c", 50), day("d", 50)}, nil,
			map[string]float64{"a": 1, "b": 1, "c": 1, "d": 1}},
		{"nearly all on one", []pool.Key{day("a", 1_000_000), day("b", 1000)}, nil, map[string]float64{"a": 1000, "b": 1}},
		{"a drained key gets none", []pool.Key{day("a", 100), day("b", 100)}, spent{"a": {100}}, map[string]float64{"a": 0, "b": 1}},
		{"a disabled key gets none", []pool.Key{{ID: "a", DailyLimit: 100, Disabled: true}, day("b", 100), day("c", 300)}, nil,
			map[string]float64{"a": 0, "b": 1, "c": 3}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for seed := range uint64(3) {
				r := seeded(t, options(pool.SessionSticky, tc.keys...), tc.used, seed)
				got := map[string]int{}
				for n := range sessions {
					got[r.serve(ask(fmt.Sprint("session ", n)))]++
				}
				total := 0.0
				for _, w := range tc.left {
					total += w
				}
				for id, w := range tc.left {
					if share := float64(got[id]) / sessions; math.Abs(share-w/total) > tolerance {
						t.Errorf("seed %d: key %s got %.3f of the sessions, its weight is %.3f", seed, id, share, w/total)
					}
					if w == 0 && got[id] > 0 {
						t.Errorf("seed %d: key %s has nothing left and got %d sessions", seed, id, got[id])
					}
				}
			}
		})
	}
}

// What is spent meanwhile changes the weights: a used 90 %, so 10 to 100.
func TestSharesFollowUseOfThisProcess(t *testing.T) {
	r := newRig(t, options(pool.SessionSticky, pool.Key{ID: "a", DailyLimit: 1000}, pool.Key{ID: "b", DailyLimit: 1000}), nil)
	r.spend("a", 900)
	got := map[string]int{}
	for n := range 10_000 {
		got[r.serve(ask(fmt.Sprint(n)))]++
	}
	if share := float64(got["a"]) / 10_000; math.Abs(share-1.0/11) > 0.02 {
		t.Errorf("a got %.3f", share)
	}
}

// KEY-019, seen from outside: keys without limits are drawn evenly, drained ones never, and all drained is no panic.
func TestKEY019NothingLeft(t *testing.T) {
	r := newRig(t, options(pool.SessionSticky, plain("a", "b", "c")...), nil)
	got := map[string]int{}
	for range 9000 {
		got[r.serve(ask(""))]++
	}
	for id, n := range got {
		if n < 2800 || n > 3200 {
			t.Errorf("%s was drawn %d times of 9000", id, n)
		}
	}

	r = newRig(t, options(pool.SessionSticky, pool.Key{ID: "a", DailyLimit: 5}, pool.Key{ID: "b", DailyLimit: 5}), spent{"a": {5}})
	for range 1000 {
		equal(t, "the only key with something left", r.serve(ask("")), "b")
	}
	r.spend("b", 5)
	ex := r.refused(ask("s"))
	equal(t, "over the day's limit", ex.DayLimit, 2)
}

// step is one request of a strategy's table: what happens before it, and which key it must get.
type step struct {
	before func(r *rig)
	key    string
}

func cool(id string, d time.Duration) func(*rig) {
	return func(r *rig) { r.failOn(id, reset(pool.Fault, d)) }
}

func later(d time.Duration) func(*rig) { return func(r *rig) { r.add(d) } }

func use(id string, tokens int64) func(*rig) { return func(r *rig) { r.spend(id, tokens) } }

func TestStrategies(t *testing.T) {
	limits := func(day, month int64, ids ...string) []pool.Key {
		var keys []pool.Key
		for _, id := range ids {
			keys = append(keys, pool.Key{ID: id, DailyLimit: day, MonthlyLimit: month})
		}
		return keys
	}
	for _, tc := range []struct {
		name     string
		strategy pool.Strategy
		keys     []pool.Key
		used     spent
		steps    []step
	}{
		{"fill-first takes the first that is open", pool.FillFirst, limits(100, 0, "c", "b", "a"), nil, []step{
			{nil, "c"}, {nil, "c"},
			{cool("c", time.Minute), "b"}, {nil, "b"},
			{use("b", 100), "a"},
			{later(2 * time.Minute), "c"},
			{later(24 * time.Hour), "c"},
		}},
		{"least-used takes the smallest share of its limit", pool.LeastUsed,
			[]pool.Key{{ID: "a", DailyLimit: 100}, {ID: "b", DailyLimit: 1000}, {ID: "c", DailyLimit: 10}}, spent{"a": {50}, "b": {100}, "c": {2}}, []step{
				{nil, "b"}, {nil, "b"},
				{use("b", 110), "c"}, // 0.21 and 0.20
				{use("c", 4), "b"},   // 0.21 and 0.60
				{use("b", 300), "a"}, // 0.50 and 0.51
				{use("a", 40), "b"},
				{later(24 * time.Hour), "a"}, // all are unused: the first in the configuration
			}},
		{"least-used looks at the more used of day and month", pool.LeastUsed,
			[]pool.Key{{ID: "a", DailyLimit: 100, MonthlyLimit: 1000}, {ID: "b", DailyLimit: 100, MonthlyLimit: 1000}}, spent{"a": {10, 900}, "b": {60, 60}}, []step{
				{nil, "b"}, {use("b", 31), "a"},
				{later(24 * time.Hour), "b"}, // the month's 900 stay, b has 91 of the month
			}},
		{"least-used without limits counts today's tokens", pool.LeastUsed, plain("a", "b", "c"), spent{"a": {30}, "b": {20}, "c": {10, 5000}}, []step{
			{nil, "c"}, {use("c", 11), "b"}, {use("b", 5), "c"}, {use("c", 100), "b"}, {use("b", 6), "a"},
			{later(24 * time.Hour), "a"},
		}},
		{"least-used leaves cooling keys out", pool.LeastUsed, limits(100, 0, "a", "b"), spent{"b": {50}}, []step{
			{nil, "a"}, {cool("a", time.Minute), "b"}, {later(2 * time.Minute), "a"},
		}},
		{"round-robin takes the next in turn", pool.RoundRobin, plain("a", "b", "c"), nil, []step{
			{nil, "a"}, {nil, "b"}, {nil, "c"}, {nil, "a"}, {nil, "b"},
		}},
		{"round-robin passes over keys that drop out and takes them in again", pool.RoundRobin, limits(100, 0, "a", "b", "c"), nil, []step{
			{nil, "a"}, {nil, "b"}, {nil, "c"},
			{use("b", 100), "c"}, // b's own request was the one after a's
			{nil, "a"}, {nil, "c"}, {nil, "a"},
			{later(24 * time.Hour), "b"}, {nil, "c"}, {nil, "a"},
		}},
		{"least-recent begins with the configuration's order", pool.LeastRecent, plain("c", "a", "b"), nil, []step{
			{nil, "c"}, {later(time.Second), "a"}, {later(time.Second), "b"}, {later(time.Second), "c"}, {later(time.Second), "a"},
		}},
		{"least-recent takes what was used longest ago", pool.LeastRecent, plain("a", "b", "c"), nil, []step{
			{use("c", 1), "a"}, {later(time.Second), "b"},
			{later(time.Second), "a"}, // c was used at the same instant
			{later(time.Second), "c"}, {later(time.Second), "b"}, {later(time.Second), "a"},
			{cool("c", 10*time.Second), "b"},
			{later(time.Second), "a"}, {later(time.Second), "b"}, {later(time.Minute), "c"},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, options(tc.strategy, tc.keys...), tc.used)
			for i, s := range tc.steps {
				if s.before != nil {
					s.before(r)
				}
				if got := r.serve(ask("the same session")); got != s.key {
					t.Fatalf("step %d: %s, want %s", i, got, s.key)
				}
			}
		})
	}
}

// Round-robin: every key gets the same number of requests, whatever sessions they belong to.
func TestRoundRobinIsEven(t *testing.T) {
	r := newRig(t, options(pool.RoundRobin, plain("a", "b", "c", "d")...), nil)
	got := map[string]int{}
	for n := range 4000 {
		got[r.serve(ask(fmt.Sprint(n%3)))]++
	}
	for _, id := range []string{"a", "b", "c", "d"} {
		equal(t, id, got[id], 1000)
	}
}

// All strategies but session-sticky's draw depend on nothing but what happened: the pool's seed changes no pick, and
// the same history gives the same picks.
func TestPicksAreDeterministic(t *testing.T) {
	const seed = 7
	for _, strategy := range []pool.Strategy{pool.FillFirst, pool.RoundRobin, pool.LeastUsed, pool.LeastRecent} {
		play := func(poolSeed uint64) string {
			random := rand.New(rand.NewPCG(seed, 0))
			r := seeded(t, options(strategy, plain("d", "b", "a", "c")...), nil, poolSeed)
			var picks []string
			for range 300 {
				w := ask(fmt.Sprint(random.IntN(5)))
				w.Scope = pool.Only([]string{"a", "b", "c", "d"}[random.IntN(3):]...)
				l := r.lease(w)
				picks = append(picks, l.Key)
				l.Accept()
				l.Close(is(pool.OK), pool.Tokens{Output: int64(random.IntN(1000))})
				r.add(time.Duration(random.IntN(3)) * time.Second) // also none: ties
			}
			return strings.Join(picks, "")
		}
		first := play(1)
		for poolSeed := range uint64(10) {
			if got := play(poolSeed); got != first {
				t.Fatalf("%s, seed %d: the pool's seed %d gives\n%s, want\n%s", strategy, seed, poolSeed, got, first)
			}
		}
	}
}

// A tie of least-recent, keys used at the same instant, goes to the configuration's order, not to the id's.
func TestLeastRecentTies(t *testing.T) {
	r := newRig(t, options(pool.LeastRecent, plain("z", "m", "a")...), nil)
	for _, id := range []string{"a", "m", "z"} {
		r.spend(id, 1)
	}
	var got []string
	for range 3 {
		r.add(time.Second)
		got = append(got, r.serve(ask("")))
	}
	if want := []string{"z", "m", "a"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// The tiers are asked in the order of the configuration, each by its own strategy; the next one only when no key of
// this one may serve.
func TestTiersInOrder(t *testing.T) {
	o := options(pool.FillFirst)
	o.Tiers = []pool.Tier{
		{Name: "first", Strategy: pool.RoundRobin, Keys: []pool.Key{{ID: "a", DailyLimit: 10}, {ID: "b", DailyLimit: 10}}},
		{Name: "second", Strategy: pool.FillFirst, Keys: []pool.Key{{ID: "off", Disabled: true}, {ID: "c", Models: map[string]string{"m": "upstream-m"}}}},
		{Name: "third", Strategy: pool.FillFirst, Keys: plain("d")},
	}
	r := newRig(t, o, nil)
	for _, want := range []string{"a", "b", "a"} {
		equal(t, "key", r.serve(ask("")), want)
	}
	w := ask("")
	for i, want := range []struct{ tier, key, model string }{
		{"first", "b", "m"}, {"first", "a", "m"}, {"second", "c", "upstream-m"}, {"third", "d", "m"},
	} {
		l := r.lease(w)
		if l.Tier != want.tier || l.Key != want.key || l.UpstreamModel != want.model {
			t.Errorf("attempt %d: %s/%s as %s, want %v", i, l.Tier, l.Key, l.UpstreamModel, want)
		}
		l.Close(is(pool.Passthrough), pool.Tokens{})
	}
	equal(t, "tried", r.refused(w).Tried, 4)
	if want := []pool.Skip{{Tier: "second", Key: "off", Gate: pool.GateDisabled}}; !slices.Equal(w.Skipped, want) {
		t.Errorf("skipped %v, want %v", w.Skipped, want)
	}

	r.spend("a", 10)
	r.spend("b", 10)
	equal(t, "the first tier is used up", r.serve(ask("")), "c")
	other := ask("")
	other.Model = "another"
	equal(t, "and the second does not serve the model", r.serve(other), "d")
	r.add(12 * time.Hour)
	equal(t, "a new day opens the first tier", r.lease(ask("")).Tier, "first")
}

func TestModelsOfAKey(t *testing.T) {
	for _, tc := range []struct {
		models map[string]string
		ask    string
		want   string // "" is not served
	}{
		{nil, "m", "m"},
		{map[string]string{"m": "x"}, "m", "x"},
		{map[string]string{"m": "x"}, "M", ""},
		{map[string]string{"m": "x"}, "other", ""},
		{map[string]string{}, "m", ""},
		{map[string]string{"*": "x"}, "m", "x"},
		{map[string]string{"*": "*"}, "m", "m"},
		{map[string]string{"*": ""}, "m", "m"},
		{map[string]string{"m": "x", "*": "y"}, "m", "x"},
		{map[string]string{"m": "x", "*": "y"}, "other", "y"},
	} {
		r := newRig(t, options(pool.FillFirst, pool.Key{ID: "a", Models: tc.models}), nil)
		w := ask("")
		w.Model = tc.ask
		l, err := r.Lease(t.Context(), w)
		if served := r.Serves(w) == nil; (err == nil) != (tc.want != "") || served != (tc.want != "") {
			t.Errorf("%v, %s: lease %v, serves %v", tc.models, tc.ask, err, served)
			continue
		}
		if err == nil && l.UpstreamModel != tc.want {
			t.Errorf("%v, %s: goes upstream as %q, want %q", tc.models, tc.ask, l.UpstreamModel, tc.want)
		}
	}
}
