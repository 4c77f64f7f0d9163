package stats

import (
	"bytes"
	"encoding/json"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// usage is a record of what a model used.
func usage(model string, in, out, write, read int64) *Record {
	return &Record{TS: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), Outcome: OutcomeOK, Resolved: model,
		InputTokens: in, OutputTokens: out, CacheCreationTokens: write, CacheReadTokens: read}
}

// The table: whole, dated, with a source for each row, and no row that another hides.
func TestPriceTable(t *testing.T) {
	var f priceFile
	d := json.NewDecoder(bytes.NewReader(priceTable))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		t.Fatal(err)
	}
	var rows struct{ Models []map[string]json.RawMessage }
	if err := json.Unmarshal(priceTable, &rows); err != nil {
		t.Fatal(err)
	}
	sources := map[string]bool{}
	for _, s := range f.Sources {
		if u, err := url.Parse(s.URL); err != nil || u.Scheme != "https" || sources[s.ID] || !isDate(s.Seen) || s.Seen > f.Date {
			t.Errorf("source %+v", s)
		}
		sources[s.ID] = true
	}
	if !isDate(f.Date) || f.About == "" || len(f.Models) < 100 {
		t.Errorf("date %q, %d models", f.Date, len(f.Models))
	}
	used, names := map[string]bool{}, map[string]string{}
	for i, m := range f.Models {
		for _, field := range []string{"model", "provider", "input", "output", "cache_write", "cache_read", "source"} {
			if rows.Models[i][field] == nil {
				t.Errorf("%s: no %s", m.Model, field)
			}
		}
		if used[m.Source] = true; !sources[m.Source] || m.Provider == "" || strings.Contains(m.Model, "*") {
			t.Errorf("%s: source %q, provider %q", m.Model, m.Source, m.Provider)
		}
		for j, name := range append([]string{m.Model}, m.Also...) {
			form := nameForms(name)[2]
			if j > 0 && form != name || strings.HasPrefix(name, "*") {
				t.Errorf("%s: %q is not in its last form, or is too broad", m.Model, name)
			}
			if names[form] != "" {
				t.Errorf("%s: %q is %s already", m.Model, name, names[form])
			}
			names[form] = m.Model
		}
		prices, before := []Price{m.Price}, band{}
		for _, b := range m.Bands {
			if b.Above <= before.Above && b.From <= before.From && b.Hours == nil || b.From != "" && !isDate(b.From) || b.Input <= m.Input {
				t.Errorf("%s: band %+v after %+v", m.Model, b, before)
			}
			before = b
			prices = append(prices, b.Price)
		}
		for _, p := range prices {
			// At most 4 digits after the point: roundUSD is exact for them.
			for _, v := range []float64{p.Input, p.Output, p.CacheWrite, p.CacheRead} {
				if v < 0 || v > 1000 || math.Abs(v*1e4-math.Round(v*1e4)) > 1e-6 {
					t.Errorf("%s: %v", m.Model, p)
				}
			}
			if p.Input == 0 || p.Output < p.Input || p.CacheRead > p.Input || p.CacheWrite > 2*p.Input {
				t.Errorf("%s: %+v", m.Model, p)
			}
		}
	}
	if len(used) != len(sources) {
		t.Errorf("%d sources, %d used", len(sources), len(used))
	}
	// Every row is found by its own name, in whatever form, and a glob takes no other row's.
	prices := NewPrices(nil)
	for _, m := range f.Models {
		for _, name := range []string{m.Model, strings.ToUpper(m.Model), "models/" + m.Model, "a/b/" + m.Model + "@20250101"} {
			if got := prices.find(name); got == nil || got.Price != m.Price || len(got.bands) != len(m.Bands) {
				t.Errorf("%s: found %+v", name, got)
			}
		}
		for _, glob := range prices.table.globs {
			if form := nameForms(m.Model)[2]; matchGlob(glob.parts, form) {
				t.Errorf("%q takes %s", strings.Join(glob.parts, "*"), form)
			}
		}
	}
}

// Costs by hand.
func TestCost(t *testing.T) {
	p := NewPrices(nil)
	soon := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		name string
		r    *Record
		want float64
	}{
		// 10 × 3 + 5 × 15 + 200 × 3.75 + 1000 × 0.30 = 1155 millionths
		{"mostly cache", usage("claude-sonnet-4-5", 10, 5, 200, 1000), 0.001155},
		// 10 × 4 + 5 × 20 + 200 × 5 + 1000 × 0.20 = 1340
		{"mostly cache, reads at a twentieth", usage("claude-opus-5-5", 10, 5, 200, 1000), 0.00134},
		{"input", usage("claude-sonnet-4-5", 1_000_000, 0, 0, 0), 3},
		{"output", usage("claude-sonnet-4-5", 0, 1_000_000, 0, 0), 15},
		{"writes", usage("claude-sonnet-4-5", 0, 0, 1_000_000, 0), 3.75},
		{"reads", usage("claude-sonnet-4-5", 0, 0, 0, 1_000_000), 0.3},
		{"one token of the cheapest", usage("mimo-v2.6-flash", 0, 0, 0, 1), 2.8e-9},
		{"a prompt of just 100,000", usage("claude-haiku-5-5", 50_000, 100, 20_000, 30_000), 0.00785},
		// 50,001 × 0.5 + 100 × 2.5 + 20,000 × 0.625 + 30,000 × 0.05 = 39250.5
		{"a prompt of one more", usage("claude-haiku-5-5", 50_001, 100, 20_000, 30_000), 0.0392505},
		{"the second of three bands", usage("qwen3-coder-plus", 100_000, 0, 0, 0), 0.18},
		{"the last of three bands", usage("qwen3-coder-plus", 300_000, 0, 0, 0), 1.8},
		{"before a price is raised", usage("gemini-3.8-flash", 1000, 1000, 0, 0), 0.0045},
		{"the last day before", usage("gemini-4-argon", 1000, 1000, 0, 1000), 0.0121},
		// 10 × 8 + 5 × 40 + 200 × 10 + 1000 × 0.20 = 2480
		{"reads at a fortieth", usage("claude-fable-5-2", 10, 5, 200, 1000), 0.00248},
		{"no tokens", usage("claude-sonnet-4-5", 0, 0, 0, 0), 0},
		{"nonsense", usage("claude-sonnet-4-5", -5, -5, -5, -5), 0},
		{"negative beside others", usage("claude-sonnet-4-5", -1_000_000, 1_000_000, 0, 0), 15},
	} {
		if p.charge(tc.r); tc.r.CostUSD != tc.want || tc.r.Unpriced {
			t.Errorf("%s: %v, unpriced %v, want %v", tc.name, tc.r.CostUSD, tc.r.Unpriced, tc.want)
		}
	}
	late := usage("gemini-3.8-flash", 1000, 1000, 0, 0)
	late.TS = soon.In(time.FixedZone("", -5*3600))
	if p.charge(late); late.CostUSD != 0.009 {
		t.Errorf("after a price is raised: %v", late.CostUSD)
	}
	late = usage("gemini-3.8-flash", 0, 1000, 0, 0)
	late.TS = soon
	if p.charge(late); late.CostUSD != 0.0075 {
		t.Errorf("without a prompt: %v", late.CostUSD)
	}
	// Reasoning is part of the output.
	r := usage("claude-sonnet-4-5", 0, 100, 0, 0)
	r.ReasoningTokens = 90
	if p.charge(r); r.CostUSD != 0.0015 {
		t.Errorf("reasoning: %v", r.CostUSD)
	}
	// What the provider bills, not what was asked for; and no other price where that is not known.
	r = usage("claude-opus-5-5", 1000, 0, 0, 0)
	r.UpstreamModel = "glm-5.1"
	if p.charge(r); r.CostUSD != 0.0014 {
		t.Errorf("mapped: %v", r.CostUSD)
	}
	r = usage("claude-opus-5-5", 1000, 0, 0, 0)
	r.UpstreamModel = "house-opus"
	if p.charge(r); r.CostUSD != 0 || !r.Unpriced {
		t.Errorf("mapped to an unknown: %v %v", r.CostUSD, r.Unpriced)
	}
	// Local answers cost nothing, and what has a cost keeps it.
	r = usage("claude-opus-5-5", 1000, 0, 0, 0)
	r.Outcome = OutcomeLocal
	if p.charge(r); r.CostUSD != 0 || r.Unpriced {
		t.Errorf("local: %v %v", r.CostUSD, r.Unpriced)
	}
	r = usage("unheard-of", 1000, 0, 0, 0)
	r.CostUSD = 0.5
	if p.charge(r); r.CostUSD != 0.5 || r.Unpriced {
		t.Errorf("its own: %v %v", r.CostUSD, r.Unpriced)
	}
	// Unknown is marked only where there were tokens.
	r = usage("unheard-of", 0, 0, 0, 0)
	if p.charge(r); r.Unpriced {
		t.Error("unpriced without tokens")
	}
	r = usage("", 0, 0, 0, 1)
	if p.charge(r); !r.Unpriced {
		t.Error("no model: not unpriced")
	}
}

// Peak hours are some of each weekday, in UTC, whatever the zone.
func TestPeakHours(t *testing.T) {
	p := NewPrices(nil)
	for when, want := range map[string]float64{
		"2026-11-30T00:59:59Z": 0.66, "2026-11-30T01:00:00Z": 1.32, "2026-11-30T03:59:59Z": 1.32, "2026-11-30T04:00:00Z": 0.66, "2026-11-30T05:59:59Z": 0.66,
		"2026-11-30T17:59:59+08:00": 1.32, "2026-11-30T10:00:00Z": 0.66, "2026-12-05T08:00:00Z": 0.66, "2026-12-06T08:00:00Z": 0.66, "2026-12-04T09:00:00Z": 1.32,
		"2026-12-06T23:30:00-03:00": 1.32, // Monday in UTC
	} {
		r := usage("deepseek-v4-pro", 1_000_000, 0, 0, 0)
		r.TS = at(when)
		if p.charge(r); r.CostUSD != want {
			t.Errorf("at %s: %v, want %v", when, r.CostUSD, want)
		}
	}
}

// Which row a name finds. None finds one by a part of its name.
func TestPriceNames(t *testing.T) {
	p := NewPrices(nil)
	for name, want := range map[string]string{
		"gpt-5": "gpt-5", "gpt-5-2025-08-07": "gpt-5", "openai/gpt-5": "gpt-5", "GPT-5": "gpt-5",
		"gpt-5-mini": "gpt-5-mini", "gpt-5-mini-2025-08-07": "gpt-5-mini", "gpt-5.4": "gpt-5.4", "gpt-5-4": "gpt-5.4", "openai/gpt-5.4-2026-03-05": "gpt-5.4",
		"gpt-5.2-codex": "gpt-5.2-codex", "gpt-5.6": "gpt-5.6-sol", "anthropic/claude-sonnet-4.5": "claude-sonnet-4-5",
		"claude-sonnet-4-5-20250929": "claude-sonnet-4-5", "claude-sonnet-4-5@20250929": "claude-sonnet-4-5", "claude-opus-4-20250514": "claude-opus-4-0",
		"claude-3-5-haiku-latest": "claude-3-5-haiku", "models/gemini-2.5-flash-lite": "gemini-2.5-flash-lite", "minimax-m3": "MiniMax-M3", "MiniMax/MiniMax-M3": "MiniMax-M3",
		"deepseek-v4-flash": "deepseek-flash",

		"": "", "gpt": "", "gpt-5.9": "", "gpt-5-nova": "", "gpt-5.4-micro": "", "gpt-50": "", "gpt-5-20": "", "my-gpt-5": "", "gpt-5:free": "",
		"claude-sonnet": "", "claude-opus-4-9": "", "claude-sonnet-4-5-fast": "", "claude-haiku-5-5-lite": "", "claude-": "", "claude-opus-5-5-mini": "",
		"us.anthropic.claude-sonnet-4-5-20250929-v1:0": "", "gemini-2.5-flash-image": "", "gemini-3.8-flash-image": "", "glm-4.5-air-x": "", "/": "", "@": "", "gpt-5/": "",
	} {
		got := p.find(name)
		var row *pricedModel
		for _, m := range readPrices().Models {
			if m.Model == want {
				row = &m
			}
		}
		switch {
		case want == "" && got != nil:
			t.Errorf("%q has a price: %+v", name, got.Price)
		case want != "" && (row == nil || got == nil || got.Price != row.Price || len(got.bands) != len(row.Bands)):
			t.Errorf("%q: %+v, want %s", name, got, want)
		}
	}
}

// The configuration goes before the table; the most exact pattern wins, the name as it is before its other forms.
func TestPriceRules(t *testing.T) {
	rule := func(pattern string, input float64) PriceRule { return PriceRule{pattern, Price{Input: input}} }
	p := NewPrices([]PriceRule{
		rule("*", 1), rule("claude-*", 2), rule("claude-*-5-5", 3), rule("claude-opus-5-5", 4), rule("gpt-5.*", 5), rule("Qwen/*", 6),
		rule("qwen3-max", 7), rule("a*a", 8), rule("a*b*", 9), rule("GPT-6.2-Sol", 10), rule("vendor/model", 11), rule("claude-*", 12),
	})
	for name, want := range map[string]float64{
		"unheard-of": 1, "": 1, "claude-x": 2, "claude-opus-4-5": 2, "claude-haiku-5-5": 3, "claude-opus-5-5": 4, "anthropic/claude-opus-5.5": 1, // as it is, by *
		"gpt-5.4": 5, "gpt-5-mini": 1, "Qwen/qwen3-max": 6, "qwen3-max": 7, "aa": 8, "a": 1, "ab": 9, "axba": 8, "axbc": 9, "axa": 8, "gpt-6-2-sol": 10, "vendor/model": 11, "model": 1,
	} {
		if got := p.find(name); got == nil || got.Input != want {
			t.Errorf("%q: %+v, want %v", name, got, want)
		}
	}
	// Without a rule that takes everything, names are found in their other forms, by rules before the table.
	p = NewPrices([]PriceRule{rule("claude-opus-5.5", 4), rule("gpt-5.4", 0), rule("vendor/model", 11), rule("glm-*", 9)})
	for name, want := range map[string]float64{"anthropic/claude-opus-5.5": 4, "claude-opus-5-5@20260101": 4, "openai/GPT-5.4": 0, "zai/GLM-5.1": 9, "claude-haiku-4-5": 1} {
		if got := p.find(name); got == nil || got.Input != want {
			t.Errorf("%q: %+v, want %v", name, got, want)
		}
	}
	if got := p.find("model"); got != nil {
		t.Errorf("a rule for one vendor's takes another's: %+v", got)
	}
	// No bands of the table come to a price of the configuration, and free is not unknown.
	r := usage("gpt-5.4", 1_000_000, 5, 0, 0)
	if p.charge(r); r.CostUSD != 0 || r.Unpriced {
		t.Errorf("free: %v %v", r.CostUSD, r.Unpriced)
	}
}

// The names for lists: those of each provider, current ones only, and those that were listed before there was a table.
func TestModelNames(t *testing.T) {
	names := ModelNames()
	for provider, want := range map[string][]string{
		"anthropic": {"claude-fable-5-2", "claude-haiku-4-5", "claude-haiku-5-5", "claude-opus-4-5", "claude-opus-5-5", "claude-sonnet-4-5", "claude-sonnet-5-5"},
		"openai":    {"gpt-5", "gpt-5-mini", "gpt-5.4", "gpt-5.4-nano", "gpt-5.5", "gpt-6.2-sol"},
		"gemini":    {"gemini-2.5-flash", "gemini-2.5-pro", "gemini-3-flash-preview", "gemini-3.1-pro-preview", "gemini-3.5-flash-lite", "gemini-3.8-flash", "gemini-4-argon"},
		"zhipu":     {"glm-4.5-air", "glm-5.1"}, "kimi": {"kimi-k3"}, "minimax": {"MiniMax-M3"}, "deepseek": {"deepseek-flash"}, "qwen": {"qwen3-coder-plus"}, "xiaomi": {"mimo-v2.6-pro"},
	} {
		for _, name := range want {
			if !slices.Contains(names[provider], name) {
				t.Errorf("%s: %s is not in %v", provider, name, names[provider])
			}
		}
	}
	if slices.Contains(names["anthropic"], "claude-3-opus") || names["doubao"] != nil || names["ollama"] != nil {
		t.Errorf("retired, or of a provider without prices: %v", names)
	}
}

// Nothing accumulates: a million small costs are exactly a million times one.
func TestCostsAddUp(t *testing.T) {
	r := usage("claude-sonnet-4-5", 1, 1, 1, 1) // 22.05 millionths
	NewPrices(nil).charge(r)
	var f Figures
	for range 1_000_000 {
		f.Add(r.figures())
	}
	if f.CostUSD != 22.05 {
		t.Errorf("%v", f.CostUSD)
	}
	for _, tc := range []struct{ usd, want float64 }{{math.MaxFloat64, math.MaxFloat64}, {1e9 + 1e-10, 1e9}, {0, 0}, {4e-11, 0}, {6e-11, 1e-10}} {
		if got := roundUSD(tc.usd); got != tc.want {
			t.Errorf("%v: %v", tc.usd, got)
		}
	}
}

// FuzzMatchGlob compares the matcher with a regular expression.
func FuzzMatchGlob(f *testing.F) {
	for _, m := range readPrices().Models {
		for _, p := range append(m.Also, m.Model) {
			f.Add(p, m.Model)
		}
	}
	f.Add("a*a", "a")
	f.Add("*", "")
	f.Add("a**b*", "axb")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		parts := strings.Split(pattern, "*")
		if len(parts) == 1 || len(parts) > 50 {
			return
		}
		quoted := make([]string, len(parts))
		for i, p := range parts {
			quoted[i] = regexp.QuoteMeta(p)
		}
		re, err := regexp.Compile(`(?s)\A` + strings.Join(quoted, `.*`) + `\z`)
		if err != nil { // a pattern that is no UTF-8
			return
		}
		if strings.ToValidUTF8(name, "") != name {
			return
		}
		if got, want := matchGlob(parts, name), re.MatchString(name); got != want {
			t.Errorf("%q, %q: %v, want %v", pattern, name, got, want)
		}
		NewPrices([]PriceRule{{pattern, Price{Input: 1}}}).find(name)
	})
}

func BenchmarkCharge(b *testing.B) {
	p, r := NewPrices(nil), usage("anthropic/claude-sonnet-4.5", 10, 5, 200, 1000)
	unknown := usage("unheard-of-model-20250101", 10, 5, 200, 1000)
	b.ReportAllocs()
	for b.Loop() {
		r.CostUSD = 0
		p.charge(r)
		p.charge(unknown)
	}
}
