package pool_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"coding-proxy/pool"
)

// world is a random configuration in a random state, and a request. The same number makes the same one, whatever the
// seed of the pool's own draws is: nothing on the way to the state is drawn.
func world(t testing.TB, number, seed uint64) (*rig, *pool.Want) {
	random := rand.New(rand.NewPCG(number, 21))
	o, used := randomChain(t, random)
	r := seeded(t, o, used, seed)
	var ids []string
	for _, tier := range o.Tiers {
		for _, k := range tier.Keys {
			ids = append(ids, k.ID)
		}
	}
	for range random.IntN(6) { // requests that have ended, or are in flight
		w := only(ids[random.IntN(len(ids))])
		w.Model, w.Credential = "m1", "c1"
		tokens, ends := pool.Tokens{Input: random.Int64N(400)}, random.IntN(2) == 0
		if l, err := r.Lease(t.Context(), w); err == nil {
			l.Accept()
			if ends {
				l.Close(pool.Outcome{}, tokens)
			}
		}
		r.add(time.Duration(random.IntN(3)) * time.Second)
	}
	randomState(t, random, r, o)
	r.add(time.Duration(random.IntN(3)) * time.Second)
	for i, tier := range o.Tiers[:len(o.Tiers)-1] { // a probe is under way
		if random.IntN(4) == 0 {
			behind := o.Tiers[i+1].Keys
			w := only(tier.Keys[random.IntN(len(tier.Keys))].ID, behind[random.IntN(len(behind))].ID)
			w.Model = "m1"
			_, _ = r.Lease(t.Context(), w)
		}
	}
	w := &pool.Want{
		Model: []string{"m1", "m1", "m2", "m3"}[random.IntN(4)], Session: []string{"", "s1", "s2", "s3"}[random.IntN(4)],
		Credential: []string{"", "c1", "c2"}[random.IntN(3)],
	}
	for range random.IntN(6) - 3 { // keys that it had, each alone in its scope
		w.Scope = pool.Only(ids[random.IntN(len(ids))])
		class := []pool.Class{pool.Overload, pool.RateLimit, pool.Credential, pool.Fault}[random.IntN(4)]
		if l, err := r.Lease(t.Context(), w); err == nil {
			l.Close(reset(class, time.Hour), pool.Tokens{})
		}
	}
	w.Scope, w.Skipped = pool.Everything(), nil
	if random.IntN(3) == 0 {
		var some []string
		for _, id := range ids {
			if random.IntN(3) > 0 {
				some = append(some, id)
			}
		}
		w.Scope = pool.Only(some...)
	}
	return r, w
}

func randomChain(t testing.TB, random *rand.Rand) (pool.Options, spent) {
	o := chained()
	if random.IntN(2) == 0 {
		o.RebalanceThreshold, o.RebalanceCooldown = 0.05+random.Float64()/4, time.Minute
	}
	used := spent{}
	for i := range 1 + random.IntN(4) {
		tier := pool.Tier{Name: fmt.Sprint("tier", i), Strategy: pool.Strategies()[max(0, random.IntN(9)-4)],
			Return: pool.TierReturns()[random.IntN(2)]}
		if random.IntN(4) == 0 {
			tier.Mapping = mapping(t, []string{"", "rest"}[random.IntN(2)], "m1 → x", "m* → y")
		}
		for j := range 1 + random.IntN(5) {
			k := pool.Key{
				ID: fmt.Sprintf("k%d%d", i, j), DailyLimit: int64(random.IntN(3) * (100 + random.IntN(1000))), MonthlyLimit: int64(random.IntN(2) * (300 + random.IntN(3000))),
				Disabled: random.IntN(10) == 0, Passthrough: random.IntN(8) == 0, MaxConcurrent: random.IntN(2) * (1 + random.IntN(2)),
			}
			if random.IntN(4) == 0 {
				k.Models = randomModels(random)
			}
			if random.IntN(2) == 0 {
				used[k.ID] = [2]float64{float64(random.IntN(900)), float64(random.IntN(2500))}
			}
			tier.Keys = append(tier.Keys, k)
		}
		if random.IntN(2) == 0 {
			tier = broken(tier, 1+random.IntN(3))
		}
		if random.IntN(2) == 0 {
			tier = limited(tier, int64(random.IntN(2)*500))
		}
		o.Tiers = append(o.Tiers, tier)
	}
	return o, used
}

// randomState gives the tiers breakers and guards in any state, and the keys cooldowns and sessions.
func randomState(t testing.TB, random *rand.Rand, r *rig, o pool.Options) {
	now := r.now()
	around := func(d time.Duration) time.Time { // up to d before or after now, in whole seconds
		return now.Add(time.Duration(random.IntN(int(2*d/time.Second)))*time.Second - d)
	}
	s := pool.State{Version: 1, Breakers: map[string]pool.BreakerState{}, Guards: map[string]pool.GuardState{}}
	b := pool.Bindings{Version: 1, Tiers: map[string]map[string]pool.Binding{"s1": {}, "s2": {}, "s4": {}, "s5": {}}}
	for _, tier := range o.Tiers {
		s.Breakers[tier.Name] = pool.BreakerState{State: []string{"closed", "open", "half_open"}[random.IntN(3)], Failures: random.IntN(3),
			Successes: random.IntN(2), RecoverySeconds: 100, Opened: now.Add(-time.Duration(random.IntN(120)) * time.Second)}
		if random.IntN(2) == 0 {
			s.Guards[tier.Name] = pool.GuardState{State: "exceeded", By: "cap", ProbeAt: around(2 * time.Minute)}
		}
		for _, k := range tier.Keys {
			if random.IntN(4) == 0 {
				s.Cooldowns = append(s.Cooldowns, pool.CooldownState{Key: k.ID, Model: []string{"", "x", "m1", "m2"}[random.IntN(4)],
					Until: around(time.Minute), Reason: "fault", Set: now.Add(-time.Hour)})
			}
		}
		for _, session := range []string{"s1", "s2", "s4", "s5"} {
			if random.IntN(2) == 0 {
				b.Tiers[session][tier.Name] = pool.Binding{KeyID: tier.Keys[random.IntN(len(tier.Keys))].ID,
					LastSeen: now.Add(-time.Duration(random.IntN(600)) * time.Second)}
			}
		}
	}
	for data, restore := range map[any]func([]byte) error{&s: r.RestoreState, &b: r.RestoreSessions} {
		text, err := json.Marshal(data)
		if err != nil {
			t.Fatal(err)
		}
		if err := restore(text); err != nil {
			t.Fatal(err)
		}
	}
}

// Route says what Lease does: its key is one with a chance, of the tier that is drawn from, under the same name; where
// Lease refuses, it is with the same error. And asking changes nothing: it says the same again.
func TestRouteSaysWhatLeaseDoes(t *testing.T) {
	worlds := uint64(5000)
	if testing.Short() {
		worlds = 1000
	}
	met := map[string]int{}
	for n := range worlds {
		r, w := world(t, n, n)
		first, second := *w, *w
		route := r.Route(&first)
		if again := r.Route(&second); !reflect.DeepEqual(again, route) {
			t.Errorf("the second time: %+v, first %+v", again, route)
		}
		l, err := r.Lease(t.Context(), w)
		if err != nil || route.Err != nil {
			met[fmt.Sprintf("%T", err)]++
			if !reflect.DeepEqual(err, route.Err) {
				t.Errorf("lease: %v, %v; route: %v", l, err, route.Err)
			}
		} else {
			drawn(t, l, route, met)
		}
		sensible(t, route, met)
		if t.Failed() {
			t.Fatalf("world %d: %+v\nroute %+v", n, *w, route)
		}
	}
	t.Log(met)
	for _, what := range []string{"*pool.ExhaustedError", "*pool.ModelError", "drawn", "sure", "second tier", "tier breaker_open", "tier quota_guard",
		"tier tier_return", "key cooling", "key day_limit", "key month_limit", "key busy", "key disabled", "key scope", "key model"} {
		if met[what] < int(worlds)/100 {
			t.Errorf("%q was met only %d times", what, met[what])
		}
	}
}

// drawn compares a lease with its route.
func drawn(t *testing.T, l *pool.Lease, route pool.Route, met map[string]int) {
	t.Helper()
	for i, tier := range route.Tiers {
		if !tier.Drawn {
			continue
		}
		if tier.Name != l.Tier {
			t.Errorf("leased in %s, route: %s", l.Tier, tier.Name)
		}
		if i > 0 {
			met["second tier"]++
		}
		for _, k := range tier.Keys {
			if k.ID != l.Key {
				continue
			}
			if k.Chance <= 0 || k.UpstreamModel != l.UpstreamModel {
				t.Errorf("leased %s as %s, route: %+v", l.Key, l.UpstreamModel, k)
			}
			if k.Chance == 1 {
				met["sure"]++
			} else {
				met["drawn"]++
			}
			return
		}
	}
	t.Errorf("leased %s/%s, which the route has not", l.Tier, l.Key)
}

// sensible wants of a route what holds for every one: the first tier that can is drawn from, its chances are a whole,
// and no other key has any; where nothing can be leased, nothing is drawn from.
func sensible(t *testing.T, route pool.Route, met map[string]int) {
	t.Helper()
	some := false
	for _, tier := range route.Tiers {
		met["tier "+tier.Gate.String()]++
		sum := 0.0
		for _, k := range tier.Keys {
			met["key "+k.Gate.String()]++
			if sum += k.Chance; k.Chance > 0 && !k.Gate.Open() || k.Chance < 0 {
				t.Errorf("%s: chance %g, gate %s", k.ID, k.Chance, k.Gate)
			}
		}
		if tier.Drawn {
			if some || !tier.Gate.Open() || math.Abs(sum-1) > 1e-9 {
				t.Errorf("%s: drawn from, gate %s, chances %g, one before: %v", tier.Name, tier.Gate, sum, some)
			}
			some = true
		} else if sum != 0 {
			t.Errorf("%s: chances %g, not drawn from", tier.Name, sum)
		}
	}
	if some != (route.Err == nil) {
		t.Errorf("drawn from a tier: %v, error %v", some, route.Err)
	}
}

// Two pools of one seed lease the same, though one of them is asked for its route before each request: routes draw
// nothing and move no turn, no session and no probe.
func TestRouteChangesNothing(t *testing.T) {
	for n := range uint64(500) {
		asked, _ := world(t, n, 5)
		quiet, _ := world(t, n, 5)
		random := rand.New(rand.NewPCG(n, 22))
		for i := range 20 {
			model, session := []string{"m1", "m2"}[random.IntN(2)], []string{"", "s1", "s2", "s4", fmt.Sprint("new", i)}[random.IntN(5)]
			wants := [2]*pool.Want{}
			for j := range wants {
				wants[j] = &pool.Want{Scope: pool.Everything(), Model: model, Session: session}
			}
			for _, other := range []string{"", "s1", "s5"} {
				asked.Route(&pool.Want{Scope: pool.Everything(), Model: model, Session: other})
			}
			asked.Route(wants[0])
			outcome := pool.Outcome{}
			if random.IntN(2) == 0 {
				outcome = reset(pool.Class(random.IntN(int(pool.UnknownModel)+1)), time.Duration(random.IntN(20))*time.Second)
			}
			accept, tokens := outcome.Class == pool.OK || random.IntN(3) == 0, pool.Tokens{Input: random.Int64N(300)}
			var got [2]string
			for j, r := range []*rig{asked, quiet} {
				l, err := r.Lease(t.Context(), wants[j])
				if err != nil {
					got[j] = err.Error()
					continue
				}
				got[j] = l.Tier + "/" + l.Key
				if accept {
					l.Accept()
				}
				l.Close(outcome, tokens)
				r.End(wants[j], true)
			}
			if got[0] != got[1] {
				t.Fatalf("world %d, request %d: %s, without routes %s", n, i, got[0], got[1])
			}
			d := time.Duration(random.IntN(90)) * time.Second
			asked.add(d)
			quiet.add(d)
		}
	}
}

// Chances are how often Lease takes each key: the same state, drawn from with many seeds. The seeds are fixed, so it is
// the same test each time; the bounds are far beyond what chance would do.
func TestRouteChancesAreLeaseFrequencies(t *testing.T) {
	const seeds = 400
	enough := 200
	if testing.Short() {
		enough = 40
	}
	worlds, freedom, sum := 0, 0.0, 0.0
	for n := uint64(0); worlds < enough && n < 20000; n++ {
		r, w := world(t, n, 0)
		route := r.Route(w)
		chances := map[string]float64{}
		for _, tier := range route.Tiers {
			for _, k := range tier.Keys {
				if k.Chance > 0 {
					chances[k.ID] = k.Chance
				}
			}
		}
		if len(chances) < 2 {
			continue
		}
		worlds++
		times := map[string]int{}
		for seed := range uint64(seeds) {
			r, w := world(t, n, n*seeds+seed+1)
			l, err := r.Lease(t.Context(), w)
			if err != nil {
				t.Fatalf("world %d: %v", n, err)
			}
			if chances[l.Key] == 0 {
				t.Fatalf("world %d, seed %d: leased %s, chances %v", n, seed, l.Key, chances)
			}
			times[l.Key]++
		}
		// The statistic of a chi-square test; keys that are expected less than five times count together.
		rest, restTimes, cells, x := 0.0, 0.0, -1.0, 0.0
		cell := func(expected, got float64) {
			x += (got - expected) * (got - expected) / expected
			cells++
		}
		for id, chance := range chances {
			if expected := chance * seeds; expected < 5 {
				rest, restTimes = rest+expected, restTimes+float64(times[id])
			} else {
				cell(expected, float64(times[id]))
			}
		}
		if rest > 1 {
			cell(rest, restTimes)
		}
		if x > 37+4*cells {
			t.Errorf("world %d: %v of %d, chances %v", n, times, seeds, chances)
		}
		freedom, sum = freedom+max(cells, 0), sum+x
	}
	t.Logf("%d worlds, chi-square %.0f of %.0f degrees of freedom", worlds, sum, freedom)
	if worlds < enough {
		t.Errorf("only %d worlds draw", worlds)
	}
	// All together: a small error everywhere would show here.
	if deviation := (sum - freedom) / math.Sqrt(2*freedom); math.Abs(deviation) > 7 {
		t.Errorf("chi-square %.0f of %.0f degrees of freedom", sum, freedom)
	}
}

// The route in words, of each gate, for one who looks for the reason.
func TestRouteNamesGates(t *testing.T) {
	o := chained(broken(tierOf("a", "a1"), 1), limited(tierOf("b", "b1"), 1), pool.Tier{Name: "c", Strategy: pool.LeastUsed, Keys: []pool.Key{
		{ID: "cools"}, {ID: "day", DailyLimit: 5}, {ID: "month", MonthlyLimit: 5}, {ID: "busy", MaxConcurrent: 1}, {ID: "off", Disabled: true},
		{ID: "other", Models: map[string]string{"other": "other"}}, {ID: "scope"}, {ID: "free"}, {ID: "free2", Models: map[string]string{"m": "x"}, Protocols: []string{"openai"}}}},
		tierOf("z", "z"))
	r := newRig(t, o, spent{"day": {5}, "month": {5}})
	r.trip("a1")
	r.spend("b1", 1)
	r.add(2 * time.Second)
	r.whole(only("cools"), true, reset(pool.Credential, time.Hour))
	r.lease(only("busy"))
	r.spend("free", 1)
	w := only("a1", "b1", "cools", "day", "month", "busy", "off", "other", "free", "free2", "z")
	route := r.Route(w)
	text := ""
	for _, tier := range route.Tiers {
		text += fmt.Sprintf("%s %s %v:", tier.Name, tier.Gate, tier.Drawn)
		for _, k := range tier.Keys {
			text += fmt.Sprintf(" %s %s %s %g,", k.ID, k.UpstreamModel, k.Gate, k.Chance)
		}
		text += "\n"
	}
	const want = `a breaker_open false: a1 m ready 0,
b quota_guard false: b1 m ready 0,
c ready true: cools m cooling 0, day m day_limit 0, month m month_limit 0, busy m busy 0, off m disabled 0, other  model 0, scope  scope 0, free m ready 0, free2 x ready 1,
z ready false: z m ready 0,
`
	if text != want || route.Err != nil {
		t.Errorf("%v\n%s\nwant\n%s", route.Err, text, want)
	}
	equal(t, "until of a", route.Tiers[0].Until, r.now().Add(98*time.Second))
	equal(t, "until of b", route.Tiers[1].Until, r.now().Add(298*time.Second))
	equal(t, "until of the day", route.Tiers[2].Keys[1].Until, time.Date(2026, 3, 11, 0, 0, 0, 0, time.UTC))
	route = r.Route(&pool.Want{Scope: pool.Everything(), Model: "m"})
	equal(t, "the key that was out of scope", route.Tiers[2].Keys[6].Chance, 1) // unused, as free2, and before it in order
	// Nobody serves it, and nobody can.
	var unknown *pool.ModelError
	if err := r.Route(&pool.Want{Scope: pool.Only("other"), Model: "m"}).Err; !errors.As(err, &unknown) {
		t.Errorf("unknown model: %v", err)
	}
	var ex *pool.ExhaustedError
	if err := r.Route(only("a1", "b1", "day")).Err; !errors.As(err, &ex) || counts(ex) != (pool.ExhaustedError{Breaker: 1, Guard: 1, DayLimit: 1}) {
		t.Errorf("exhausted: %v", err)
	}
}
