package pool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// budget is easy to reckon with: 1000 tokens an hour, used up from 990 on, a probe every 300 s.
var budget = GuardOptions{Budget: 1000, Window: time.Hour, Threshold: 99, ProbeInterval: 300 * time.Second}

// said is the guard's state in words: what the window holds while within; by what it is exceeded, and when it lets the
// next request in.
func (g *guard) said(now time.Time) string {
	until := g.until(now)
	if g.state == within {
		return fmt.Sprintf("within %g", g.window.sum)
	}
	return fmt.Sprintf("over by %s, next %d", g.state.by(), int(until.Sub(start)/time.Second))
}

// guardScript runs words on a guard, each "<second> <what> [<request or number>]", and wants what each line says behind
// "→". A request asks and gets in, or must not; what gets in says ok (a good head), leave (nothing of the quota) or
// refused (it was limited).
func guardScript(t *testing.T, g *guard, lines ...string) *guard {
	t.Helper()
	probes := map[string]uint64{}
	for _, line := range lines {
		do, want, _ := strings.Cut(line, " → ")
		var at, n int
		var what, who string
		fmt.Sscan(do, &at, &what, &who)
		fmt.Sscan(who, &n)
		now := second(at)
		switch what {
		case "ask":
			if !g.allows(now) {
				t.Fatalf("%s: %s does not get in; %s", line, who, g.said(now))
			}
			probes[who] = g.enter(now)
		case "shut":
			if g.allows(now) {
				t.Fatalf("%s: it gets in; %s", line, g.said(now))
			}
		case "ok":
			g.success(now, probes[who])
		case "leave":
			g.leave(now, probes[who])
		case "refused":
			g.refused(probes[who])
		case "add":
			g.add(now, Tokens{Input: int64(n)})
		case "cap":
			g.cap(now, now, time.Duration(n)*time.Second)
		case "reset":
			g.reset(now)
		case "restart": // and the journal fills the windows
			past := slices.Clone(g.history)
			again := newGuard(g.opt, DefaultWeights(), now)
			again.restore(now, g.snapshot())
			again.fill(now, past)
			g = again
		case "look":
		default:
			t.Fatalf("%s: what is %q?", line, what)
		}
		if want == "" {
			continue // nobody looks: what time brings is noticed later
		}
		if got := g.said(now); got != want {
			t.Fatalf("%s: it is %s", line, got)
		}
	}
	return g
}

// design/routing.md, section 8, sequence by sequence.
func TestGuardSequences(t *testing.T) {
	capsOnly := GuardOptions{Window: time.Hour, Threshold: 99, ProbeInterval: 300 * time.Second}
	for _, tc := range []struct {
		name  string
		opt   GuardOptions
		lines []string
	}{
		{"within up to the threshold", budget, []string{"0 add 989 → within 989", "0 ask a", "1 add 1 → over by budget, next 301", "1 shut"}},
		{"a minute counts until all of it is older than the window", budget, []string{"10 add 100", "50 add 100 → within 200", "60 add 7 → within 207",
			"3659 look → within 207", "3660 look → within 7", "3719 look → within 7", "3720 look → within 0"}},
		{"the first probe goes one interval after exceeding", budget, []string{"100 add 1000 → over by budget, next 400", "399 shut", "400 ask a → over by budget, next 700"}},
		{"one probe an interval, whatever becomes of it", budget, []string{"0 add 1000", "300 ask a", "300 shut", "599 shut", "600 ask b", "601 shut"}},
		{"an interval begins when the probe goes", budget, []string{"0 add 1000", "1000 ask a → over by budget, next 1300"}},
		{"a limited probe keeps its interval", budget, []string{"0 add 1000", "300 ask a", "310 refused a → over by budget, next 600", "599 shut", "600 ask b"}},
		{"one that says nothing of the quota gives it back", budget, []string{"0 add 1000", "300 ask a", "310 leave a → over by budget, next 310", "310 ask b → over by budget, next 610"}},
		{"only the last probe can", budget, []string{"0 add 1000", "300 ask a", "600 ask b", "610 leave a → over by budget, next 900", "620 leave b → over by budget, next 620"}},
		{"and only once", budget, []string{"0 add 1000", "300 ask a", "310 leave a", "310 ask b", "320 leave a → over by budget, next 610"}},
		{"not when it was limited", budget, []string{"0 add 1000", "300 ask a", "310 refused a", "320 leave a → over by budget, next 600"}},
		{"requests from before have nothing to give back", budget, []string{"0 ask a", "0 add 1000", "10 leave a → over by budget, next 300", "10 refused a → over by budget, next 300",
			"10 ok a → over by budget, next 300", "300 ask b", "310 ok a → over by budget, next 600"}},
		{"by budget it is exceeded again at once after a good probe", budget, []string{"0 add 1000", "300 ask a", "310 ok a → over by budget, next 610", "310 shut"}},
		{"whether anybody looks or not", budget, []string{"0 add 1000", "300 ask a", "310 ok a", "400 look → over by budget, next 610"}},
		{"by budget it ends by itself", budget, []string{"0 add 500", "600 add 600 → over by budget, next 900", "900 ask a", "3599 ask b → over by budget, next 3660",
			"3659 shut", "3660 ask b → within 600", "3660 ask c"}},
		{"the end of the excess comes before the next probe", budget, []string{"0 add 1000", "3500 ask a → over by budget, next 3660", "3660 ask b → within 0"}},
		{"a new excess begins a new interval", budget, []string{"0 add 1000", "3660 look → within 0", "3700 add 1000 → over by budget, next 4000"}},
		{"tokens of an excess count", budget, []string{"0 add 1000", "300 ask a", "310 add 500", "3660 look → within 500"}},
		{"caps only: no use is too much", capsOnly, []string{"0 add 1000000000", "0 ask a", "0 ask b", "1 look → within 0"}},
		{"by cap the first probe goes one interval after", capsOnly, []string{"100 cap → over by cap, next 400", "399 shut", "400 ask a → over by cap, next 700"}},
		{"by cap it does not end by itself", capsOnly, []string{"0 cap", "1000000 look → over by cap, next 300", "1000000 ask a → over by cap, next 1000300", "1000001 shut"}},
		{"by cap a good probe ends it", capsOnly, []string{"0 cap", "300 ask a", "310 ok a → within 0", "310 ask b", "310 ask c"}},
		{"by cap the stated end ends it", capsOnly, []string{"0 cap 1000 → over by cap, next 300", "300 ask a", "310 refused a", "600 ask b", "900 ask c → over by cap, next 1000",
			"999 shut", "1000 ask d → within 0", "1000 ask e"}},
		{"a stated end before the first probe", capsOnly, []string{"0 cap 100 → over by cap, next 100", "99 shut", "100 ask a → within 0", "100 ask b"}},
		{"a cap within an excess by budget outlasts it", budget, []string{"0 add 1000", "300 ask a", "310 cap → over by cap, next 610", "3660 look → over by cap, next 610", "3700 ask b", "3701 ok b → within 0"}},
		{"a cap that ends while the window is full", budget, []string{"0 cap 1000", "10 add 1000 → over by cap, next 300", "1000 look → over by budget, next 1300"}},
		{"a good probe of a cap while the window is full", budget, []string{"0 cap", "10 add 1000", "300 ask a", "301 ok a → over by budget, next 601"}},
		{"reset forgets the excess and what was used", budget, []string{"0 add 1000", "100 reset → within 0", "100 ask a", "100 ask b", "101 add 989 → within 989"}},
		{"reset ends a cap", capsOnly, []string{"0 cap 100000", "100 reset → within 0", "100 ask a"}},
		{"reset while a probe is under way", capsOnly, []string{"0 cap", "300 ask a", "301 reset", "302 leave a → within 0", "303 cap → over by cap, next 603", "304 leave a → over by cap, next 603", "304 refused a"}},
		{"a clock that steps back", budget, []string{"1000 add 1000 → over by budget, next 1300", "0 shut → over by budget, next 300", "299 shut", "300 ask a"}},
		{"tokens from before the newest minute count with it", budget, []string{"600 add 5", "0 add 6 → within 11", "4259 look → within 11", "4260 look → within 0"}},
		{"a restart keeps excess and probe time", budget, []string{"0 add 1000", "300 ask a", "310 restart → over by budget, next 600", "599 shut", "600 ask b"}},
		{"a restart when the window has slid meanwhile", budget, []string{"0 add 1000 → over by budget, next 300", "4000 restart → within 0"}},
		{"a restart keeps a cap and its end", capsOnly, []string{"0 cap 1000", "300 ask a", "310 restart → over by cap, next 600", "600 ask b", "900 ask c", "999 shut", "1000 ask d → within 0", "1000 ask e"}},
		{"a restart after a cap's end", capsOnly, []string{"0 cap 1000", "2000 restart → within 0"}},
		{"a restart ends no probe of before: the next waits", capsOnly, []string{"0 cap", "300 ask a", "301 restart", "302 shut → over by cap, next 600"}},
	} {
		t.Run(tc.name, func(t *testing.T) { guardScript(t, newGuard(tc.opt, DefaultWeights(), start), tc.lines...) })
	}
}

// Negative and no tokens are nothing.
func TestGuardCountsTokensAlone(t *testing.T) {
	g := guardScript(t, newGuard(budget, DefaultWeights(), start), "0 add 100", "60 add 0", "120 add -50 → within 100")
	if n := len(g.history); n != 1 {
		t.Errorf("%d minutes are kept for one that used anything", n)
	}
}

// The window forgets what is too old: it never keeps more than one entry for each minute of its span.
func TestGuardWindowIsBounded(t *testing.T) {
	o := budget
	o.Budget = 1 << 60
	g := newGuard(o, DefaultWeights(), start)
	for s := range 4 * 3600 {
		g.add(second(s), Tokens{Input: 1})
	}
	if n := len(g.history); n > 61 {
		t.Errorf("%d minutes are kept of an hour", n)
	}
	if sum := g.window.sum; sum != 61*60 { // the last minute, and the sixty of which some is not an hour old yet
		t.Errorf("%g tokens in the window, want 3660", sum)
	}
}

// The week is a second budget beside the window's; either ends what it began.
func TestGuardWeek(t *testing.T) {
	o := budget
	o.WeeklyBudget, o.Threshold = 2000, 50
	const days = 24 * 3600
	g := guardScript(t, newGuard(o, DefaultWeights(), start), "0 add 499 → within 499", "7200 add 499 → within 499", "14400 add 1 → within 1", "14460 add 1 → over by budget, next 14760")
	v := g.view(second(14460))
	if v.State != "exceeded" || v.By != "budget" || v.Used != 2 || v.Budget != 1000 || v.WeekUsed != 1000 || v.WeekBudget != 2000 {
		t.Errorf("view %+v", v)
	}
	// The hour is over long since; the week's use slides under its half after seven days.
	guardScript(t, g, fmt.Sprintf("%d ask a", 7*days-100), fmt.Sprintf("%d shut → over by budget, next %d", 7*days+59, 7*days+60),
		fmt.Sprintf("%d ask b → within 0", 7*days+60), fmt.Sprintf("%d ask c", 7*days+60))
	// A week's budget alone.
	o.Budget, o.Threshold = 0, 100
	g = guardScript(t, newGuard(o, DefaultWeights(), start), "0 add 1999 → within 0", "20000 ask a", "20000 add 1 → over by budget, next 20300")
	if v := g.view(second(20000)); v.Used != 0 || v.WeekUsed != 2000 || v.Budget != 0 {
		t.Errorf("view %+v", v)
	}
	// Where both are used up, the later end counts.
	o.Budget, o.Threshold = 100, 100
	o.ProbeInterval = 30 * days * time.Second
	guardScript(t, newGuard(o, DefaultWeights(), start), fmt.Sprintf("0 add 2000 → over by budget, next %d", 7*days+60))
	guardScript(t, newGuard(o, DefaultWeights(), start), "0 add 100 → over by budget, next 3660")
}

// New rules keep state and counts, unless the windows lack what the new ones count: those begin anew, to be filled.
func TestGuardReconfigured(t *testing.T) {
	with := func(change func(*GuardOptions)) GuardOptions {
		o := budget
		change(&o)
		return o
	}
	for _, tc := range []struct {
		name    string
		before  []string
		opt     GuardOptions
		missing bool
		after   []string
	}{
		{"a greater budget", []string{"0 add 1000"}, with(func(o *GuardOptions) { o.Budget = 2000 }), false, []string{"10 look → within 1000"}},
		{"a smaller budget", []string{"0 add 600"}, with(func(o *GuardOptions) { o.Budget = 500 }), false, []string{"10 look → over by budget, next 310"}},
		{"another threshold", []string{"0 add 600"}, with(func(o *GuardOptions) { o.Threshold = 60 }), false, []string{"10 look → over by budget, next 310"}},
		{"a shorter window", []string{"0 add 600", "1200 add 7"}, with(func(o *GuardOptions) { o.Window = 10 * time.Minute }), false, []string{"1201 look → within 7"}},
		{"a longer window", []string{"0 add 600"}, with(func(o *GuardOptions) { o.Window = 2 * time.Hour }), true, []string{"60 look → within 600"}},
		{"a week beside it", []string{"0 add 600"}, with(func(o *GuardOptions) { o.WeeklyBudget = 1000 }), true, []string{"60 look → within 600"}},
		{"no budget", []string{"0 add 1000"}, with(func(o *GuardOptions) { o.Budget = 0 }), false, []string{"10 ask a", "10 ask b", "60 look → within 0"}},
		{"the same", []string{"0 add 1000", "300 ask a"}, budget, false, []string{"301 look → over by budget, next 600"}},
		{"while capped", []string{"0 cap 1000", "300 ask a"}, with(func(o *GuardOptions) { o.Budget = 2000 }), false, []string{"301 look → over by cap, next 600", "1000 look → within 0"}},
		{"while capped, a longer window", []string{"0 cap"}, with(func(o *GuardOptions) { o.Window = 2 * time.Hour }), true, []string{"60 look → over by cap, next 300"}},
		{"a shorter interval", []string{"0 cap"}, with(func(o *GuardOptions) { o.ProbeInterval = 60 * time.Second }), false, []string{"10 look → over by cap, next 70", "70 ask a → over by cap, next 130"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newGuard(budget, DefaultWeights(), start.Add(-30*24*time.Hour)) // complete since long
			guardScript(t, g, tc.before...)
			g.configure(second(10), tc.opt, DefaultWeights())
			if got := !g.missing(second(10)).IsZero(); got != tc.missing {
				t.Errorf("something is missing: %v, want %v", got, tc.missing)
			}
			guardScript(t, g, tc.after...)
		})
	}
}

// --- Backfill: the windows are filled from the journal.

// guarded is a pool of tiers with these guards, nil for none, by name; each has a key of the tier's name.
func guarded(now *time.Time, guards map[string]*GuardOptions) *Pool {
	o := Defaults()
	o.MaxWait = 0
	for _, name := range []string{"a", "b", "c"} {
		if g, ok := guards[name]; ok {
			o.Tiers = append(o.Tiers, Tier{Name: name, Strategy: FillFirst, Guard: g, Keys: []Key{{ID: name}}})
		}
	}
	return New(o, nil, func() time.Time { return *now }, 1)
}

// journal is what a store would read: all records, oldest first.
type journal []Past

func (j journal) read(asked *time.Time) func(time.Time, func(Past)) error {
	return func(since time.Time, each func(Past)) error {
		if asked != nil {
			*asked = since
		}
		for _, e := range j {
			if !e.At.Before(since) {
				each(e)
			}
		}
		return nil
	}
}

func guardOf(p *Pool, tier string) *GuardView {
	for _, t := range p.View().Tiers {
		if t.Name == tier {
			return t.Guard
		}
	}
	return nil
}

// spendIn lets the tier's key answer a request that used tokens.
func spendIn(t *testing.T, p *Pool, key string, tokens Tokens) {
	t.Helper()
	l, err := p.Lease(context.Background(), &Want{Scope: Only(key), Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	l.Accept()
	l.Close(Outcome{}, tokens)
}

func TestBackfill(t *testing.T) {
	now := second(100000)
	hour, weekly := budget, budget
	weekly.Budget, weekly.WeeklyBudget = 0, 1000000
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	used := func(tier string, d time.Duration, n int64) Past { return Past{ago(d), tier, Tokens{Output: n}} }
	records := journal{
		used("b", 8*24*time.Hour, 1), used("a", 6*24*time.Hour, 2), used("b", 6*24*time.Hour, 4), used("none", time.Hour, 8),
		used("a", 62*time.Minute, 16), used("a", 59*time.Minute, 32), used("c", 30*time.Minute, 64), used("b", 30*time.Minute, 128),
		used("a", 30*time.Minute, 256), used("a", time.Second, 512), {now, "a", Tokens{Output: 1024}}, {now.Add(time.Second), "a", Tokens{Output: 2048}},
	}
	p := guarded(&now, map[string]*GuardOptions{"a": &hour, "b": &weekly, "c": nil})
	now = now.Add(time.Second)
	spendIn(t, p, "a", Tokens{Output: 5}) // counted by the window itself, as what the journal has of that time
	var since time.Time
	if err := p.Backfill(records.read(&since)); err != nil {
		t.Fatal(err)
	}
	if want := now.Add(-week - time.Minute); !since.Equal(want) {
		t.Errorf("read since %s, want %s", since, want)
	}
	if got := guardOf(p, "a").Used; got != 32+256+512+5 {
		t.Errorf("the hour holds %g, want %d", got, 32+256+512+5)
	}
	if got := guardOf(p, "b").WeekUsed; got != 4+128 {
		t.Errorf("the week holds %g, want %d", got, 4+128)
	}
	// What is filled slides out as what was counted.
	now = start.Add(100000*time.Second + 31*time.Minute)
	if got := guardOf(p, "a").Used; got != 512+5 {
		t.Errorf("after half an hour the hour holds %g, want %d", got, 512+5)
	}
	// Nothing is filled twice, and without a guard nothing is.
	if err := p.Backfill(func(time.Time, func(Past)) error { t.Error("read again"); return nil }); err != nil {
		t.Error(err)
	}
	none := guarded(&now, map[string]*GuardOptions{"a": nil})
	if err := none.Backfill(func(time.Time, func(Past)) error { t.Error("read for nothing"); return nil }); err != nil {
		t.Error(err)
	}
}

// Filled windows may be full at once: exceeded by budget, the first probe one interval later.
func TestBackfillExceeds(t *testing.T) {
	now := start
	o := budget
	p := guarded(&now, map[string]*GuardOptions{"a": &o})
	past := journal{{start.Add(-30 * time.Minute), "a", Tokens{Output: 989}}, {start.Add(-time.Minute), "a", Tokens{Output: 1}}}
	if err := p.Backfill(past.read(nil)); err != nil {
		t.Fatal(err)
	}
	v := guardOf(p, "a")
	if v.State != "exceeded" || v.By != "budget" || !v.Until.Equal(second(300)) {
		t.Errorf("%+v", v)
	}
	if _, err := p.Lease(context.Background(), &Want{Scope: Everything(), Model: "m"}); err == nil {
		t.Error("leased")
	}
}

// A journal that cannot be read to its end fills what it gave, and says so.
func TestBackfillError(t *testing.T) {
	now := start
	o := budget
	p := guarded(&now, map[string]*GuardOptions{"a": &o})
	broken := errors.New("disk")
	err := p.Backfill(func(_ time.Time, each func(Past)) error {
		each(Past{start.Add(-time.Minute), "a", Tokens{Output: 7}})
		return broken
	})
	if !errors.Is(err, broken) || guardOf(p, "a").Used != 7 {
		t.Errorf("%v, used %g", err, guardOf(p, "a").Used)
	}
}

// A tier that is gone or has other rules when the journal has been read is not filled with the old ones' past.
func TestBackfillDuringReload(t *testing.T) {
	now := start
	o := budget
	p := guarded(&now, map[string]*GuardOptions{"a": &o})
	err := p.Backfill(func(_ time.Time, each func(Past)) error {
		each(Past{start.Add(-time.Minute), "a", Tokens{Output: 7}})
		opt := Defaults()
		p.Configure(opt)
		now = now.Add(time.Second)
		opt.Tiers = []Tier{{Name: "a", Strategy: FillFirst, Guard: &o, Keys: []Key{{ID: "a"}}}}
		p.Configure(opt)
		return nil
	})
	if err != nil || guardOf(p, "a").Used != 0 {
		t.Errorf("%v, used %g", err, guardOf(p, "a").Used)
	}
	past := journal{{start.Add(-time.Minute), "a", Tokens{Output: 7}}}
	if err := p.Backfill(past.read(nil)); err != nil || guardOf(p, "a").Used != 7 {
		t.Errorf("%v, used %g", err, guardOf(p, "a").Used)
	}
}

// restarted is a pool with the state that the other one wrote, filled from the journal.
func restarted(t *testing.T, p *Pool, now *time.Time, guards map[string]*GuardOptions, j journal) *Pool {
	t.Helper()
	data, err := json.Marshal(p.SnapshotState())
	if err != nil {
		t.Fatal(err)
	}
	again := guarded(now, guards)
	if err := again.RestoreState(data); err != nil {
		t.Fatal(err)
	}
	if err := again.Backfill(j.read(nil)); err != nil {
		t.Fatal(err)
	}
	return again
}

// A reset forgets what was used before it: also after restarts.
func TestResetOfAGuardSurvivesARestart(t *testing.T) {
	now := start
	o := budget
	guards := map[string]*GuardOptions{"a": &o}
	p := guarded(&now, guards)
	j := journal{{now, "a", Tokens{Output: 990}}}
	spendIn(t, p, "a", Tokens{Output: 990})
	now = second(90)
	if guardOf(p, "a").State != "exceeded" {
		t.Fatal("not exceeded")
	}
	if err := p.Reset("a"); err != nil {
		t.Fatal(err)
	}
	now = second(100)
	spendIn(t, p, "a", Tokens{Output: 5})
	j = append(j, Past{now, "a", Tokens{Output: 5}})
	for n := range 3 {
		now = now.Add(time.Minute)
		p = restarted(t, p, &now, guards, j)
		if v := guardOf(p, "a"); v.State != "within" || v.Used != 5 {
			t.Errorf("after %d restarts: %+v", n+1, v)
		}
	}
}

// KEY-024: cache tokens count, before and after a restart. With the default weights (cache reads at a tenth)
// {10, 5, 200, 1000} is 10 + 5 + 200 + 100 = 315.
func TestKEY024GuardCountsCacheTokens(t *testing.T) {
	now := start
	o := budget
	o.WeeklyBudget = 10000
	guards := map[string]*GuardOptions{"a": &o}
	p := guarded(&now, guards)
	usage := Tokens{Input: 10, Output: 5, CacheCreation: 200, CacheRead: 1000}
	spendIn(t, p, "a", usage)
	j := journal{{now, "a", usage}}
	for _, when := range []string{"before a restart", "after one", "after two"} {
		if v := guardOf(p, "a"); v.Used != 315 || v.WeekUsed != 315 {
			t.Errorf("%s: the window holds %g and the week %g, want 315", when, v.Used, v.WeekUsed)
		}
		now = now.Add(time.Minute)
		p = restarted(t, p, &now, guards, j)
	}
	// Three more such answers are 1260 and exceed the budget of 1000.
	for range 3 {
		spendIn(t, p, "a", usage)
	}
	if v := guardOf(p, "a"); v.State != "exceeded" || v.Used != 1260 {
		t.Errorf("%+v", v)
	}
	// Other weights, as configured.
	opt := Defaults()
	opt.Count = Weights{1, 1, 1, 1}
	opt.Tiers = []Tier{{Name: "a", Strategy: FillFirst, Guard: &o, Keys: []Key{{ID: "a"}}}}
	all := New(opt, nil, func() time.Time { return now }, 1)
	if err := all.Backfill(j.read(nil)); err != nil || guardOf(all, "a").Used != 1215 {
		t.Errorf("%v: %+v, want 1215", err, guardOf(all, "a"))
	}
}

// A file that says what cannot be true does no harm.
func TestGuardRestoresWhatCanBeTrue(t *testing.T) {
	for _, tc := range []struct {
		name string
		s    GuardState
		want string // at second 50
		then []string
	}{
		{"nothing", GuardState{}, "within 0", nil},
		{"a reason that it does not know", GuardState{State: "exceeded", By: "whim", ProbeAt: second(100)}, "within 0", nil},
		{"by budget while the window is empty", GuardState{State: "exceeded", By: "budget", ProbeAt: second(100)}, "within 0", nil},
		{"no probe time", GuardState{State: "exceeded", By: "cap"}, fmt.Sprintf("over by cap, next %d", int(time.Time{}.Sub(start)/time.Second)), []string{"50 ask a → over by cap, next 350"}},
		{"a probe in times to come", GuardState{State: "exceeded", By: "cap", ProbeAt: second(1000000)}, "over by cap, next 350", []string{"349 shut", "350 ask a"}},
		{"an end that is over", GuardState{State: "exceeded", By: "cap", ProbeAt: second(100), End: second(49)}, "within 0", nil},
		{"a reset in times to come", GuardState{State: "within", From: second(1000)}, "within 0", []string{"60 add 990 → over by budget, next 360"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newGuard(budget, DefaultWeights(), second(50))
			g.restore(second(50), tc.s)
			if got := g.said(second(50)); got != tc.want {
				t.Errorf("it is %s, want %s", got, tc.want)
			}
			guardScript(t, g, tc.then...)
			if !g.from.IsZero() {
				t.Errorf("it counts from %s", g.from)
			}
		})
	}
}

// The states of tiers survive a restart of the pool as JSON: exceeded by budget and by cap, with probe time and end.
func TestGuardsSurviveARestart(t *testing.T) {
	now := start
	o, capsOnly := budget, budget
	capsOnly.Budget = 0
	guards := map[string]*GuardOptions{"a": &o, "b": &capsOnly, "c": &capsOnly}
	p := guarded(&now, guards)
	spendIn(t, p, "a", Tokens{Output: 2000})
	for key, end := range map[string]time.Duration{"b": 0, "c": 1000 * time.Second} {
		l, err := p.Lease(context.Background(), &Want{Scope: Only(key), Model: "m"})
		if err != nil {
			t.Fatal(err)
		}
		l.Close(Outcome{Class: Cap, Reset: end}, Tokens{})
	}
	now = second(350)
	for _, key := range []string{"a", "b", "c"} { // a probe each, under way when the pool ends
		if _, err := p.Lease(context.Background(), &Want{Scope: Only(key), Model: "m"}); err != nil {
			t.Fatal(err)
		}
	}
	now = second(400)
	again := restarted(t, p, &now, guards, journal{{start, "a", Tokens{Output: 2000}}})
	for _, at := range []int{400, 649, 650, 999, 1000, 3659, 3660, 100000} {
		now = second(at)
		for _, tier := range []string{"a", "b", "c"} {
			if got, want := *guardOf(again, tier), *guardOf(p, tier); got.State != want.State || got.By != want.By || !got.Until.Equal(want.Until) || got.Used != want.Used {
				t.Errorf("at %d s, %s: %+v, without the restart %+v", at, tier, got, want)
			}
		}
	}
	if v := guardOf(again, "b"); v.By != "cap" {
		t.Errorf("a cap without an end: %+v", v)
	}
}
