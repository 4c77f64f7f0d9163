package pool_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"coding-proxy/pool"
)

// Counts are of keys, each by one reason; the key's time is the latest of its own reasons, the pool's is the earliest
// key's.
func TestExhaustedCountsAndTimes(t *testing.T) {
	hold := func(id string) func(*rig) {
		return func(r *rig) { r.lease(&pool.Want{Scope: pool.Only(id), Model: "m"}) }
	}
	fail := func(id string, d time.Duration) func(*rig) {
		return func(r *rig) {
			r.fail(&pool.Want{Scope: pool.Only(id), Model: "m"}, reset(pool.Cap, d))
		}
	}
	const toMidnight, toApril = 12 * time.Hour, 12*time.Hour + 21*day
	for _, tc := range []struct {
		name   string
		keys   []pool.Key
		used   spent
		before []func(*rig)
		want   pool.ExhaustedError // its counts
		next   time.Duration       // at least; up to a tenth more where a key cools
	}{
		{"cooling", plain("a", "b", "c"), nil, []func(*rig){fail("a", minute), fail("b", 20*time.Second), fail("c", time.Hour)},
			pool.ExhaustedError{Cooling: 3}, 20 * time.Second},
		{"over the day's limit", []pool.Key{{ID: "a", DailyLimit: 5}, {ID: "b", DailyLimit: 5}}, spent{"a": {5}, "b": {6}}, nil,
			pool.ExhaustedError{DayLimit: 2}, toMidnight},
		{"over the month's limit", []pool.Key{{ID: "a", MonthlyLimit: 5}}, spent{"a": {5}}, nil, pool.ExhaustedError{MonthLimit: 1}, toApril},
		{"over both", []pool.Key{{ID: "a", DailyLimit: 5, MonthlyLimit: 5}}, spent{"a": {5}}, nil, pool.ExhaustedError{DayLimit: 1}, toApril},
		{"one by day, one by month", []pool.Key{{ID: "a", MonthlyLimit: 5}, {ID: "b", DailyLimit: 5}}, spent{"a": {5}, "b": {5}}, nil,
			pool.ExhaustedError{DayLimit: 1, MonthLimit: 1}, toMidnight},
		{"cooling longer than the day", []pool.Key{{ID: "a", DailyLimit: 5}}, spent{"a": {4}},
			[]func(*rig){func(r *rig) {
				slow := r.lease(ask(""))
				r.spend("a", 1)
				slow.Close(reset(pool.Cap, 2*day), pool.Tokens{})
			}},
			pool.ExhaustedError{Cooling: 1}, 2 * day},
		{"busy", []pool.Key{{ID: "a", MaxConcurrent: 1}, {ID: "b", MaxConcurrent: 2}}, nil, []func(*rig){hold("a"), hold("b"), hold("b")},
			pool.ExhaustedError{Busy: 2}, 0},
		{"disabled", []pool.Key{{ID: "a", Disabled: true}, {ID: "b"}}, nil, []func(*rig){fail("b", minute)},
			pool.ExhaustedError{Cooling: 1, Disabled: 1}, minute},
		{"all disabled", []pool.Key{{ID: "a", Disabled: true}}, nil, nil, pool.ExhaustedError{Disabled: 1}, 0},
		{"one of each", []pool.Key{{ID: "a"}, {ID: "b", DailyLimit: 5}, {ID: "c", MonthlyLimit: 5}, {ID: "d", MaxConcurrent: 1}, {ID: "e", Disabled: true}},
			spent{"b": {5}, "c": {5}}, []func(*rig){fail("a", 3*day), hold("d")},
			pool.ExhaustedError{Cooling: 1, DayLimit: 1, MonthLimit: 1, Busy: 1, Disabled: 1}, toMidnight},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, options(pool.FillFirst, tc.keys...), tc.used)
			for _, b := range tc.before {
				b(r)
			}
			ex := r.refused(ask(""))
			got := pool.ExhaustedError{Cooling: ex.Cooling, DayLimit: ex.DayLimit, MonthLimit: ex.MonthLimit, Busy: ex.Busy, Disabled: ex.Disabled, Tried: ex.Tried}
			equal(t, "counts", got, tc.want)
			if tc.next == 0 {
				equal(t, "next", ex.Next, time.Time{})
			} else if d := ex.Next.Sub(r.now()); !within(d, tc.next) {
				t.Errorf("free in %s, want %s", d, tc.next)
			}
		})
	}
}

// The text says the counts and names no key.
func TestExhaustedText(t *testing.T) {
	r := newRig(t, options(pool.FillFirst, pool.Key{ID: "key-one", Provider: "provider-one"}, pool.Key{ID: "key-two", Provider: "provider-two", DailyLimit: 5}), spent{"key-two": {5}})
	w := ask("")
	r.fail(w, is(pool.Passthrough))
	r.fail(&pool.Want{Scope: pool.Only("key-one"), Model: "m"}, is(pool.Cap))
	equal(t, "another request", r.refused(ask("")).Error(), "key pool exhausted: 1 cooling down, 1 over the day's limit")
	text := r.refused(w).Error()
	equal(t, "the same request", text, "key pool exhausted: 1 over the day's limit, 1 tried")
	if strings.Contains(text, "-one") || strings.Contains(text, "-two") {
		t.Error("it names a key")
	}
}

// RetryAfter is in whole seconds, rounded up, at least one.
func TestRetryAfterIsRoundedUp(t *testing.T) {
	limited := func() *rig {
		return at(t, options(pool.FillFirst, pool.Key{ID: "k", DailyLimit: 5}), spent{"k": {5}}, time.UTC, "2026-03-10 23:59:00")
	}
	for before, want := range map[time.Duration]time.Duration{
		time.Nanosecond: time.Second, time.Millisecond: time.Second, time.Second: time.Second,
		time.Second + time.Nanosecond: 2 * time.Second, 1500 * time.Millisecond: 2 * time.Second, 30 * time.Second: 30 * time.Second,
		59*time.Second + 999*time.Millisecond: minute,
	} {
		r := limited()
		r.add(minute - before)
		equal(t, before.String(), r.refused(ask("")).RetryAfter(), want)
	}
	r := newRig(t, options(pool.FillFirst, pool.Key{ID: "k", Disabled: true}), nil)
	if d := r.refused(ask("")).RetryAfter(); d < time.Second || d%time.Second != 0 {
		t.Errorf("nobody knows when: %s", d)
	}
}

// A busy key may be free at any moment, so it is the earliest of the pool, whatever else cools for an hour. Claude
// Code gives up at once on a retry-after over a minute (facts/clients.md).
func TestRetryAfterOfABusyKeyBesideACoolingOne(t *testing.T) {
	r := newRig(t, options(pool.FillFirst, pool.Key{ID: "capped"}, pool.Key{ID: "busy", MaxConcurrent: 1}), nil)
	r.failOn("capped", is(pool.Cap))
	r.lease(ask(""))
	ex := r.refused(ask(""))
	equal(t, "counts", [2]int{ex.Cooling, ex.Busy}, [2]int{1, 1})
	equal(t, "retry after", ex.RetryAfter(), time.Second)
}

// What a gate refused is kept for the journal, once per key and gate, also over several attempts.
func TestSkippedNamesKeysAndGates(t *testing.T) {
	r := newRig(t, options(pool.FillFirst, pool.Key{ID: "a"}, pool.Key{ID: "b", DailyLimit: 5}, pool.Key{ID: "c", MonthlyLimit: 5},
		pool.Key{ID: "d", MaxConcurrent: 1}, pool.Key{ID: "e", Disabled: true}, pool.Key{ID: "f"}, pool.Key{ID: "g"}), spent{"b": {5}, "c": {5}})
	r.failOn("a", is(pool.Cap))
	r.lease(&pool.Want{Scope: pool.Only("d"), Model: "m"})
	w := ask("")
	equal(t, "first", r.fail(w, is(pool.Fault)), "f")
	equal(t, "second", r.serve(w), "g")
	want := []pool.Skip{{Tier: "t", Key: "a", Gate: pool.GateCooling}, {Tier: "t", Key: "b", Gate: pool.GateDayLimit}, {Tier: "t", Key: "c", Gate: pool.GateMonthLimit},
		{Tier: "t", Key: "d", Gate: pool.GateBusy}, {Tier: "t", Key: "e", Gate: pool.GateDisabled}}
	if !slices.Equal(w.Skipped, want) {
		t.Errorf("skipped %v, want %v", w.Skipped, want)
	}
	var words []string
	for _, s := range w.Skipped {
		words = append(words, s.Gate.String())
	}
	equal(t, "words", strings.Join(words, " "), "cooling day_limit month_limit busy disabled")
}

// Scope fails closed: the zero scope and an empty group get nothing, not even the names of models.
func TestScopeFailsClosed(t *testing.T) {
	r := newRig(t, options(pool.FillFirst, pool.Key{ID: "a", Models: map[string]string{"m": "m", "secret-model": "m"}}, pool.Key{ID: "b"}), nil)
	for name, scope := range map[string]pool.Scope{"zero": {}, "empty": pool.Only(), "unknown": pool.Only("z"), "of the empty id": pool.Only("")} {
		w := ask("")
		w.Scope = scope
		_, err := r.Lease(t.Context(), w)
		var unknown *pool.ModelError
		if !errors.As(err, &unknown) || len(unknown.Near) > 0 {
			t.Errorf("%s: %v", name, err)
		}
		if names := r.Models(scope, pool.Catalogue{Dialects: map[string][]string{"": {"x"}}}); len(names) > 0 {
			t.Errorf("%s: models %v", name, names)
		}
		if r.Serves(w) == nil {
			t.Errorf("%s: serves", name)
		}
	}
	for range 3 {
		w := &pool.Want{Scope: pool.Only("b"), Model: "m"}
		equal(t, "a group of one", r.fail(w, is(pool.Overload)), "b")
		equal(t, "never leaves it", r.refused(w).Tried, 1)
		r.add(time.Hour)
	}
}

// An unknown model's error has up to five names that the scope knows, the nearest first, none of disabled keys.
func TestNearNames(t *testing.T) {
	names := func(list ...string) map[string]string {
		m := map[string]string{}
		for _, n := range list {
			m[n] = n
		}
		return m
	}
	r := newRig(t, options(pool.FillFirst,
		pool.Key{ID: "a", Models: names("claude-opus-4-8", "claude-sonnet-5", "claude-haiku-4-5", "glm-5.1", "qwen", "kimi-k2")},
		pool.Key{ID: "b", Models: names("claude-sonnet-4-5")}, pool.Key{ID: "off", Models: names("claude-sonet-5"), Disabled: true}), nil)
	for _, tc := range []struct {
		scope pool.Scope
		model string
		near  []string
	}{
		{pool.Everything(), "Claude-sonet-6", []string{"claude-sonnet-5", "claude-sonnet-4-5"}},
		{pool.Everything(), "qwen3", []string{"qwen"}},
		{pool.Only("b", "off"), strings.Repeat("x", 100_000), []string{"claude-sonnet-4-5"}},
		{pool.Only("off"), "x", nil},
	} {
		_, err := r.Lease(t.Context(), &pool.Want{Scope: tc.scope, Model: tc.model})
		var unknown *pool.ModelError
		if !errors.As(err, &unknown) {
			t.Errorf("%.20s: %v", tc.model, err)
			continue
		}
		equal(t, "model", unknown.Model, tc.model)
		if near := unknown.Near; len(near) > 5 || !slices.Equal(near[:min(len(near), len(tc.near))], tc.near) {
			t.Errorf("%.20s: near %v, want %v", tc.model, near, tc.near)
		}
	}
	got := r.Models(pool.Only("a", "off"), pool.Catalogue{Dialects: map[string][]string{"anthropic": {"claude-sonnet-4-5", "qwen"}, "gemini": {"other"}}})
	if want := []string{"claude-haiku-4-5", "claude-opus-4-8", "claude-sonnet-5", "glm-5.1", "kimi-k2", "qwen"}; !slices.Equal(got, want) {
		t.Errorf("models %v", got)
	}
}

// A key that serves any name has the catalogue's names of its own dialects; a mapping takes what it maps.
func TestModelsOfTheCatalogue(t *testing.T) {
	o := options(pool.FillFirst,
		pool.Key{ID: "a", Protocols: []string{"anthropic"}}, pool.Key{ID: "g", Protocols: []string{"gemini"}},
		pool.Key{ID: "m", Protocols: []string{"anthropic"}, Preset: mapping(t, "", "claude-* → glm")})
	r := newRig(t, o, nil)
	catalogue := pool.Catalogue{Dialects: map[string][]string{"anthropic": {"claude-x"}, "gemini": {"gemini-x"}, "openai-chat": {"gpt-x"}}}
	for key, want := range map[string]string{"a": "claude-x", "g": "gemini-x", "m": "claude-x"} {
		if got := strings.Join(r.Models(pool.Only(key), catalogue), " "); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
}

// Where the catalogue knows a key's provider, it lists the names of that provider and none of its dialect's vendor, but for
// those that it has other names for; where it does not, as before, those of its dialects.
func TestModelsOfProviders(t *testing.T) {
	star := func(target string) map[string]string { return map[string]string{"*": target, "alias": "glm-1"} }
	o := options(pool.FillFirst,
		pool.Key{ID: "claude", Provider: "anthropic", Protocols: []string{"anthropic"}},
		pool.Key{ID: "kimi", Provider: "kimi", Protocols: []string{"anthropic"}},
		pool.Key{ID: "glm", Provider: "zhipu", Protocols: []string{"anthropic"}, Preset: mapping(t, "", "claude-* → glm-2")},
		pool.Key{ID: "local", Provider: "ollama", Protocols: []string{"openai-chat"}},
		pool.Key{ID: "mine", Provider: "my gateway", Protocols: []string{"anthropic"}},
		pool.Key{ID: "none", Protocols: []string{"anthropic", "openai-chat"}},
		pool.Key{ID: "few", Provider: "zhipu", Protocols: []string{"anthropic"}, Models: map[string]string{"claude-x": "glm-1", "own": "own"}},
		pool.Key{ID: "any", Provider: "zhipu", Protocols: []string{"anthropic"}, Models: star("*")},
		pool.Key{ID: "same", Provider: "zhipu", Protocols: []string{"anthropic"}, Models: star("")},
		pool.Key{ID: "all", Provider: "zhipu", Protocols: []string{"anthropic"}, Models: star("glm-1")},
		pool.Key{ID: "off", Provider: "kimi", Protocols: []string{"anthropic"}, Disabled: true})
	r := newRig(t, o, nil)
	c := pool.Catalogue{
		Providers: map[string][]string{"anthropic": {"claude-x", "claude-y"}, "kimi": {"kimi-1"}, "zhipu": {"glm-1", "glm-2"}, "ollama": nil},
		Dialects:  map[string][]string{"anthropic": {"claude-x", "claude-y"}, "openai-chat": {"gpt-x"}},
	}
	for key, want := range map[string]string{
		"claude": "claude-x claude-y", "kimi": "kimi-1", "glm": "claude-x claude-y glm-1 glm-2", "local": "", "mine": "claude-x claude-y",
		"none": "claude-x claude-y gpt-x", "few": "claude-x own", "any": "alias glm-1 glm-2", "same": "alias glm-1 glm-2",
		"all": "alias claude-x claude-y glm-1 glm-2 gpt-x", "off": "",
	} {
		if got := strings.Join(r.Models(pool.Only(key), c), " "); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
	if got := strings.Join(r.Models(pool.Only("kimi", "claude"), c), " "); got != "claude-x claude-y kimi-1" {
		t.Errorf("two: %q", got)
	}
}
