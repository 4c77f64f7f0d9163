package pool_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"coding-proxy/pool"
)

// mapping compiles rules "pattern → target"; a pattern between slashes is a regular expression.
func mapping(t testing.TB, rest string, rules ...string) *pool.Mapping {
	t.Helper()
	var list []pool.MappingRule
	for _, r := range rules {
		pattern, target, _ := strings.Cut(r, " → ")
		inner, regex := strings.CutPrefix(pattern, "/")
		list = append(list, pool.MappingRule{Pattern: strings.TrimSuffix(inner, "/"), Target: target, IsRegex: regex})
	}
	m, err := pool.NewMapping(list, rest)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Exact names first, then expressions and globs in the order written, then the default.
func TestMapping(t *testing.T) {
	for _, tc := range []struct {
		name  string
		rest  string
		rules []string
		want  map[string]string // "" = the mapping says nothing
	}{
		{"no rules", "", nil, map[string]string{"m": "", "": ""}},
		{"a default alone", "d", nil, map[string]string{"m": "d", "d": "d"}},
		{"exact", "", []string{"m → x"}, map[string]string{"m": "x", "M": "", "mm": "", "m ": "", "x": ""}},
		{"the first of two alike", "", []string{"m → x", "m → y"}, map[string]string{"m": "x"}},
		{"exact before patterns", "d", []string{"* → any", "/m.*/ → regex", "m1 → exact"}, map[string]string{"m1": "exact", "m2": "any", "x": "any"}},
		{"patterns in their order", "d", []string{"/m.*/ → regex", "m* → glob", "x* → glob", "/x.*/ → regex"}, map[string]string{"m1": "regex", "x1": "glob", "y": "d"}},
		{"an expression takes the whole name", "", []string{"/claude-haiku/ → h"}, map[string]string{"claude-haiku": "h", "claude-haiku-4": "", "a-claude-haiku": ""}},
		{"alternatives, too", "", []string{"/a|bc/ → x"}, map[string]string{"a": "x", "bc": "x", "abc": "", "ac": "", "ab": ""}},
		{"the longer alternative", "", []string{"/a|ab/ → x"}, map[string]string{"a": "x", "ab": "x"}},
		{"an expression's own anchors", "", []string{"/^m$/ → x"}, map[string]string{"m": "x", "m\n": ""}},
		{"no line ends a name", "", []string{"/m/ → x", "/(?m)n/ → y"}, map[string]string{"m\nz": "", "z\nm": "", "n\nz": "", "z\nn": ""}},
		{"case does not matter where it says so", "", []string{"/(?i)m/ → x"}, map[string]string{"M": "x"}},
		{"a glob's signs are no expression's", "", []string{"m.1* → x", "m(*) → y", "[a]* → z"}, map[string]string{"m.1": "x", "mx1": "", "m(high)": "y", "m": "", "[a]b": "z", "a": ""}},
		{"an exact rule's, too", "", []string{"m.1 → x", "a|b → y"}, map[string]string{"mx1": "", "m.1": "x", "a": "", "a|b": "y"}},
		{"globs", "", []string{"a*b → 1", "*c → 2", "d* → 3", "x*y*z → 4"}, map[string]string{
			"ab": "1", "aXb": "1", "abXb": "1", "a": "", "b": "", "c": "2", "cc": "2", "cd": "", "d": "3", "xyz": "4", "x12y3z": "4", "xzy": "", "xz": "", "xyzz": "4"}},
		{"no character counts twice", "", []string{"aa*aa → 1", "b*b*b → 2"}, map[string]string{"aa": "", "aaa": "", "aaaa": "1", "bb": "", "bbb": "2"}},
		{"two stars in a row", "", []string{"a**b → 1"}, map[string]string{"ab": "1", "axb": "1", "a": ""}},
		{"a star takes nothing, too", "", []string{"* → 1"}, map[string]string{"": "1", "m": "1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := mapping(t, tc.rest, tc.rules...)
			for name, want := range tc.want {
				got, ok := m.Map(name)
				if got != want || ok != (want != "") {
					t.Errorf("%q: %q, %v; want %q", name, got, ok, want)
				}
			}
		})
	}
	if got, ok := (*pool.Mapping)(nil).Map("m"); got != "" || ok {
		t.Errorf("no mapping: %q, %v", got, ok)
	}
}

// A pattern that cannot be compiled is an error that names its rule.
func TestBadPattern(t *testing.T) {
	for _, pattern := range []string{"(", "a{2,1}", "[", "*", `\`} {
		_, err := pool.NewMapping([]pool.MappingRule{{Pattern: "fine*", Target: "x"}, {Pattern: pattern, Target: "x", IsRegex: true}}, "")
		if err == nil || !strings.Contains(err.Error(), "1") {
			t.Errorf("%q: %v", pattern, err)
		}
	}
}

// The key's models, else its tier's mapping, else what its provider brings, else unchanged.
func TestUpstreamModel(t *testing.T) {
	tier := mapping(t, "", "m → tier", "t* → tiers")
	all := mapping(t, "rest", "m → tier")
	preset := mapping(t, "", "m → preset", "p* → presets")
	models := func(pairs ...string) map[string]string {
		m := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return m
	}
	for _, tc := range []struct {
		name   string
		models map[string]string
		tier   *pool.Mapping
		preset *pool.Mapping
		want   map[string]string // model → upstream's, "" = not served
	}{
		{"nothing", nil, nil, nil, map[string]string{"m": "m", "x": "x"}},
		{"models", models("m", "key"), nil, nil, map[string]string{"m": "key", "x": ""}},
		{"models before all else", models("m", "key"), tier, preset, map[string]string{"m": "key", "t1": "", "p1": "", "x": ""}},
		{"no models at all", models(), tier, preset, map[string]string{"m": "", "x": ""}},
		{"models of any name", models("m", "key", "*", "*"), tier, preset, map[string]string{"m": "key", "t1": "t1", "p1": "p1"}},
		{"any name to one", models("m", "key", "*", "one"), tier, preset, map[string]string{"m": "key", "t1": "one"}},
		{"tier", nil, tier, nil, map[string]string{"m": "tier", "t1": "tiers", "x": ""}},
		{"tier before preset", nil, tier, preset, map[string]string{"m": "tier", "t1": "tiers", "p1": "", "x": ""}},
		{"tier with a default", nil, all, preset, map[string]string{"m": "tier", "p1": "rest", "x": "rest"}},
		{"preset", nil, nil, preset, map[string]string{"m": "preset", "p1": "presets", "x": "x"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := chained(pool.Tier{Name: "a", Strategy: pool.FillFirst, Mapping: tc.tier,
				Keys: []pool.Key{{ID: "a1", Models: tc.models, Preset: tc.preset}}})
			for model, want := range tc.want {
				r := newRig(t, o, nil)
				w := ask("")
				w.Model = model
				l, err := r.Lease(t.Context(), w)
				var unknown *pool.ModelError
				switch {
				case want == "":
					if !errors.As(err, &unknown) || unknown.Model != model {
						t.Errorf("%q: %v, %v; want *ModelError", model, l, err)
					}
					if r.Serves(w) == nil {
						t.Errorf("%q is served, it says", model)
					}
				case err != nil:
					t.Errorf("%q: %v", model, err)
				case l.UpstreamModel != want || r.Serves(w) != nil:
					t.Errorf("%q: %q, want %q; %v", model, l.UpstreamModel, want, r.Serves(w))
				}
			}
		})
	}
}

// Resolve is the global mapping, once: what it gives is not mapped again, and names it does not know stay.
func TestResolve(t *testing.T) {
	o := chained(tierOf("a", "a1"))
	r := newRig(t, o, nil)
	equal(t, "without a mapping", r.Resolve("m"), "m")
	o.Mapping = mapping(t, "", "m → n", "n → o", "g* → *")
	r.Configure(o)
	equal(t, "exact", r.Resolve("m"), "n")
	equal(t, "by glob", r.Resolve("gpt"), "*")
	equal(t, "unknown", r.Resolve("x"), "x")
	o.Mapping = mapping(t, "d", "m → n")
	r.Configure(o)
	equal(t, "by default", r.Resolve("x"), "d")
	equal(t, "the default itself", r.Resolve(""), "d")
}

// KEY-002: names that a mapping makes one model share its cooldown, the tier's guard and the session's key, whether
// the global mapping does or the tier's.
func TestKEY002AliasesShareTheModelsState(t *testing.T) {
	aliases := []string{"m", "m(high)", "m(low)", "m-thinking"}
	rules := []string{"m-thinking → m", "m(*) → m", "m → m", "other → other"}
	for _, where := range []string{"global", "tier"} {
		t.Run(where, func(t *testing.T) {
			a := limited(sticky("a", "", "a1", "a2"), 0)
			o := chained(a, tierOf("z", "z"))
			if where == "global" {
				o.Mapping = mapping(t, "", rules...)
			} else {
				o.Tiers[0].Mapping = mapping(t, "", rules...)
			}
			want := func(r *rig, model string) *pool.Want {
				w := ask("S")
				w.Model = r.Resolve(model)
				return w
			}
			for _, first := range aliases {
				r := newRig(t, o, nil)
				bound := r.serve(want(r, first))
				for _, alias := range aliases {
					w := want(r, alias)
					l := r.lease(w)
					equal(t, "session's key for "+alias, l.Key, bound)
					equal(t, "upstream's name of "+alias, l.UpstreamModel, "m")
					l.Close(is(pool.Cancelled), pool.Tokens{})
				}
				w := want(r, first)
				w.Scope = pool.Only(bound)
				r.whole(w, true, reset(pool.RateLimit, time.Minute))
				for _, alias := range aliases {
					w := want(r, alias)
					w.Scope = pool.Only(bound)
					equal(t, "cooling for "+alias, r.refused(w).Cooling, 1)
				}
				w = want(r, "other")
				w.Scope = pool.Only(bound)
				equal(t, "another model", r.serve(w), bound)
				r.add(2 * time.Minute)
				w = want(r, first)
				r.whole(w, false, is(pool.Cap), is(pool.Cap))
				for _, alias := range aliases {
					equal(t, "guard for "+alias, r.serve(want(r, alias)), "z")
				}
			}
		})
	}
}

// KEY-003: the most exact rule wins, wherever it is written, and each model's cooldown stands alone.
func TestKEY003MostExactRuleWins(t *testing.T) {
	o := chained(tierOf("a", "a1", "a2"), tierOf("z", "z"))
	o.Tiers[0].Mapping = mapping(t, "", "x-pro* → text", "x-pro → text", "x-pro-image → image", "x-pro-preview → preview", "/x-.*/ → rest")
	upstream := map[string]string{"x-pro": "text", "x-pro-image": "image", "x-pro-preview": "preview", "x-pro-2": "text", "x-mini": "rest"}
	for model, want := range upstream {
		r := newRig(t, o, nil)
		w := only("a1")
		w.Model = model
		l := r.lease(w)
		equal(t, "upstream's name of "+model, l.UpstreamModel, want)
		l.Close(reset(pool.RateLimit, time.Minute), pool.Tokens{})
		for other, same := range upstream {
			if out := r.out("a1", other, "") > 0; out != (same == want) {
				t.Errorf("after a 429 for %s, %s is out: %v", model, other, out)
			}
		}
	}
}

// Names of tiers with mappings, in near names and lists: as clients say them, only what the scope reaches.
func TestNamesOfMappings(t *testing.T) {
	o := chained(
		pool.Tier{Name: "a", Strategy: pool.FillFirst, Mapping: mapping(t, "", "claude-haiku → glm-air", "claude-sonnet → glm", "/claude-.*/ → glm"), Keys: []pool.Key{
			{ID: "a1"}, {ID: "a2", Models: map[string]string{"own": "x"}}, {ID: "off", Models: map[string]string{"hidden": "x"}, Disabled: true}}},
		pool.Tier{Name: "b", Strategy: pool.FillFirst, Keys: []pool.Key{{ID: "b1", Models: map[string]string{"gpt": "gpt-5", "fast": "gpt-5-mini"}}}},
	)
	o.Mapping = mapping(t, "", "haiku → claude-haiku", "quick → fast", "own → nowhere", "dangling → gone")
	r := newRig(t, o, nil)
	catalogue := []string{"claude-opus", "gpt", "gemini", "haiku"}
	for _, tc := range []struct {
		name  string
		scope pool.Scope
		want  string
	}{
		// "own" is what a2 has, but clients' own is mapped to what nobody has; a1 serves whatever /claude-.*/ takes.
		{"everything", pool.Everything(), "claude-haiku claude-opus claude-sonnet fast gpt haiku quick"},
		{"the mapped key", pool.Only("a1"), "claude-haiku claude-opus claude-sonnet haiku"},
		{"the key with its own list", pool.Only("a2"), ""},
		{"the second tier", pool.Only("b1"), "fast gpt quick"},
		{"a disabled key", pool.Only("off"), ""},
		{"nothing", pool.Only(), ""},
		{"the zero scope", pool.Scope{}, ""},
		{"a key that is not there", pool.Only("gone"), ""},
	} {
		if got := strings.Join(r.Models(tc.scope, pool.Catalogue{Dialects: map[string][]string{"anthropic": catalogue}}), " "); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
		// Near names fail closed alike, and know no catalogue.
		_, err := r.Lease(t.Context(), &pool.Want{Scope: tc.scope, Model: "unheard-of"})
		var unknown *pool.ModelError
		if !errors.As(err, &unknown) {
			t.Fatalf("%s: %v", tc.name, err)
		}
		for _, name := range unknown.Near {
			if name == "claude-opus" || !slices.Contains(strings.Fields(tc.want), name) {
				t.Errorf("%s: near name %q is not of %q", tc.name, name, tc.want)
			}
		}
		if tc.want != "" && len(unknown.Near) == 0 {
			t.Errorf("%s: no near names", tc.name)
		}
	}
	// The nearest comes first.
	_, err := r.Lease(t.Context(), &pool.Want{Scope: pool.Everything(), Model: "claud-haiku-x"})
	var unknown *pool.ModelError
	if !errors.As(err, &unknown) || len(unknown.Near) != 5 || unknown.Near[0] != "claude-haiku" {
		t.Errorf("near names: %v", err)
	}
}
