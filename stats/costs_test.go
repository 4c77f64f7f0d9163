package stats

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A record's cost is in its line, in the figures, in usage.json and after a restart; what has no price is marked in each.
func TestCostsAreKept(t *testing.T) {
	dir, now := t.TempDir(), at("2026-11-29T12:00:00Z")
	s := open(t, dir, now)
	for i, model := range []string{"claude-sonnet-4-5", "house", "claude-sonnet-4-5", "house", "glm-5.1"} {
		r := usage(model, 10, 5, 200, 1000)
		r.TS, r.Trace, r.Key, r.Caller = now, strings.Repeat("t", i+1), "k", "laptop"
		s.Add(r)
	}
	// 2 × 1155 of Sonnet; 10 × 1.4 + 5 × 4.4 + 200 × 1.4 + 1000 × 0.26 = 576 of GLM
	const sonnet, glm = 0.00231, 0.000576
	check := func(when string, s *Stats) {
		t.Helper()
		totals := s.Totals(LastDays(now, 1))
		if f := totals.Total; f.CostUSD != sonnet+glm || f.Unpriced != 2 || f.Requests != 5 {
			t.Errorf("%s: total %+v", when, f)
		}
		for _, m := range totals.Models {
			want := map[string]Figures{"claude-sonnet-4-5": {CostUSD: sonnet}, "glm-5.1": {CostUSD: glm}, "house": {Unpriced: 2}}[m.Model]
			if m.CostUSD != want.CostUSD || m.Unpriced != want.Unpriced {
				t.Errorf("%s: %+v", when, m)
			}
		}
		if f := s.CallerWindows(now)["laptop"].Month; f.CostUSD != sonnet+glm || f.Unpriced != 2 {
			t.Errorf("%s: caller %+v", when, f)
		}
		if f := s.KeyFigures("k", LastDays(now, 1)); f.CostUSD != sonnet+glm || f.Unpriced != 2 {
			t.Errorf("%s: key %+v", when, f)
		}
	}
	check("at once", s)
	check("from the journal", open(t, dir, now))
	s.save()
	data, err := os.ReadFile(filepath.Join(dir, "usage.json"))
	if err != nil || !bytes.Contains(data, []byte(`"unpriced":2`)) || !bytes.Contains(data, []byte(`"cost_usd":0.00231`)) {
		t.Errorf("usage.json: %v %s", err, data)
	}
	var lines []Record
	if err := s.Replay(now.Add(-time.Hour), func(r *Record) { lines = append(lines, *r) }); err != nil || len(lines) != 5 {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	for _, r := range lines {
		if r.Unpriced != (r.Resolved == "house") || (r.CostUSD == 0) != r.Unpriced {
			t.Errorf("line %+v", r)
		}
	}
	if err := os.RemoveAll(filepath.Join(dir, journalsName)); err != nil {
		t.Fatal(err)
	}
	check("from usage.json", open(t, dir, now))
}

// A new price is for the records to come. Those that are written keep theirs.
func TestPriceChanges(t *testing.T) {
	dir, now := t.TempDir(), at("2026-11-29T12:00:00Z")
	s := open(t, dir, now)
	for _, step := range []struct {
		rules    []PriceRule
		cost     float64
		unpriced int64
	}{
		{nil, 0, 1},
		{[]PriceRule{{"house", Price{Input: 2}}}, 2, 1},
		{[]PriceRule{{"house", Price{Input: 5}}, {"*", Price{Input: 100}}}, 7, 1},
		{[]PriceRule{{"house", Price{}}}, 7, 1},
		{nil, 7, 2},
	} {
		s.Price(step.rules)
		r := usage("house", 1_000_000, 0, 0, 0)
		r.TS = now
		s.Add(r)
		if f := s.Totals(LastDays(now, 1)).Total; f.CostUSD != step.cost || f.Unpriced != step.unpriced {
			t.Errorf("%v: %+v", step.rules, f)
		}
	}
}

// Very small costs are written as encoding/json writes them.
func TestSmallCosts(t *testing.T) {
	for _, usd := range []float64{2.8e-9, 1e-10, 9.99e-7, 1e-6, 0.0001155, 1e20, 1e21, 12345.6789} {
		r := Record{CostUSD: usd}
		want, err := json.Marshal(r)
		if got := r.appendLine(nil); err != nil || string(got) != string(want)+"\n" {
			t.Errorf("%v: %s, want %s", usd, got, want)
		}
	}
}
