package web

import (
	"bytes"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"coding-proxy/pool"
	"coding-proxy/stats"
)

func (f *fixture) Metrics() stats.Metrics { return f.metrics }

// scrape returns the lines of /metrics that are samples, and the rest of it.
func (f *fixture) scrape(t *testing.T) (samples, comments []string) {
	t.Helper()
	w := f.ask(t, "GET", "/metrics")
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8" {
		t.Fatalf("%d %q: %s", w.Code, w.Header().Get("Content-Type"), w.Body)
	}
	for _, line := range strings.Split(strings.TrimSuffix(w.Body.String(), "\n"), "\n") {
		if strings.HasPrefix(line, "#") {
			comments = append(comments, line)
		} else {
			samples = append(samples, line)
		}
	}
	return samples, comments
}

// counted is a fixture with something in every family.
func counted() *fixture {
	var waited stats.Histogram
	waited.Counts[0], waited.Counts[3], waited.Counts[13], waited.SumMS = 1, 2, 1, 700_250
	usage := stats.Figures{Requests: 3, Failovers: 1, InputTokens: 1 << 40, OutputTokens: 2, CacheCreationTokens: 3, CacheReadTokens: 4, ReasoningTokens: 1, Estimated: 1, Unpriced: 2, CostUSD: 0.125}
	return &fixture{
		metrics: stats.Metrics{
			Since:    time.Unix(1_700_000_000, 250_000_000),
			Requests: map[stats.RequestLabels]int64{{Outcome: "ok", Dialect: "anthropic", Tier: "a"}: 3},
			Attempts: map[stats.AttemptLabels]int64{{Tier: "a", Outcome: "ok", Reason: "(none)"}: 3, {Tier: "a", Outcome: "fault", Reason: "http_500"}: 1},
			Times:    map[stats.TimeLabels]stats.Times{{Dialect: "anthropic", Stream: true}: {Duration: waited}},
			Usage:    map[string]stats.Figures{"a": usage},
			Faults:   5, Lost: 6, Waiting: 7,
		},
		pool: pool.View{Ready: true, Tiers: []pool.TierView{
			{Name: "a", Refuses: true, Breaker: &pool.BreakerView{State: "half_open"}, Guard: &pool.GuardView{State: "exceeded", Used: 99.5, Budget: 100},
				Keys: []pool.KeyView{{ID: "k1", State: "cooling", InFlight: 2, Today: pool.Limit{Of: 10, Used: 2.5}}, {ID: "k2", State: "cooling", InFlight: 1}, {ID: "k3", State: "parked"}}},
			{Name: "b"},
		}},
	}
}

func TestMetricsText(t *testing.T) {
	f := counted()
	samples, _ := f.scrape(t)
	want := `coding_proxy_requests_total{outcome="ok",dialect="anthropic",tier="a"} 3
coding_proxy_attempts_total{tier="a",outcome="fault",reason="http_500"} 1
coding_proxy_attempts_total{tier="a",outcome="ok",reason="(none)"} 3
coding_proxy_failovers_total{tier="a"} 1
coding_proxy_tokens_total{kind="cache_creation",tier="a"} 3
coding_proxy_tokens_total{kind="cache_read",tier="a"} 4
coding_proxy_tokens_total{kind="input",tier="a"} 1099511627776
coding_proxy_tokens_total{kind="output",tier="a"} 2
coding_proxy_reasoning_tokens_total{tier="a"} 1
coding_proxy_estimated_requests_total{tier="a"} 1
coding_proxy_cost_usd_total{tier="a"} 0.125
coding_proxy_unpriced_requests_total{tier="a"} 2
coding_proxy_request_duration_seconds_bucket{dialect="anthropic",stream="true",le="0.1"} 1
coding_proxy_request_duration_seconds_bucket{dialect="anthropic",stream="true",le="0.25"} 1
coding_proxy_request_duration_seconds_bucket{dialect="anthropic",stream="true",le="0.5"} 1
coding_proxy_request_duration_seconds_bucket{dialect="anthropic",stream="true",le="1"} 3
coding_proxy_request_duration_seconds_bucket{dialect="anthropic",stream="true",le="2.5"} 3
coding_proxy_request_duration_seconds_bucket{dialect="anthropic",stream="true",le="5"} 3
coding_proxy_request_duration_seconds_bucket{dialect="anthropic",stream="true",le="10"} 3
coding_proxy_request_duration_seconds_bucket{dialect="anthropic",stream="true",le="20"} 3
coding_proxy_request_duration_seconds_bucket{dialect="anthropic",stream="true",le="30"} 3
coding_proxy_request_duration_seconds_bucket{dialect="anthropic",stream="true",le="60"} 3
coding_proxy_request_duration_seconds_bucket{dialect="anthropic",stream="true",le="120"} 3
coding_proxy_request_duration_seconds_bucket{dialect="anthropic",stream="true",le="300"} 3
coding_proxy_request_duration_seconds_bucket{dialect="anthropic",stream="true",le="600"} 3
coding_proxy_request_duration_seconds_bucket{dialect="anthropic",stream="true",le="+Inf"} 4
coding_proxy_request_duration_seconds_sum{dialect="anthropic",stream="true"} 700.25
coding_proxy_request_duration_seconds_count{dialect="anthropic",stream="true"} 4`
	got := slices.Clone(samples)
	for len(got) > 0 && !strings.HasPrefix(got[len(got)-1], "coding_proxy_request_duration_seconds_count") {
		got = got[:len(got)-1]
	}
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("counts:\n%s\nwant\n%s", text, want)
	}
	for _, line := range strings.Split(`coding_proxy_ready 1
coding_proxy_tier_state{tier="a",state="open"} 0
coding_proxy_tier_state{tier="a",state="refusing"} 1
coding_proxy_tier_state{tier="b",state="open"} 1
coding_proxy_tier_state{tier="b",state="refusing"} 0
coding_proxy_breaker_state{tier="a",state="closed"} 0
coding_proxy_breaker_state{tier="a",state="half_open"} 1
coding_proxy_breaker_state{tier="a",state="open"} 0
coding_proxy_quota_guard_state{tier="a",state="exceeded"} 1
coding_proxy_quota_guard_state{tier="a",state="within"} 0
coding_proxy_quota_guard_used_tokens{tier="a"} 99.5
coding_proxy_quota_guard_budget_tokens{tier="a"} 100
coding_proxy_keys{tier="a",state="(other)"} 1
coding_proxy_keys{tier="a",state="cooling"} 2
coding_proxy_keys{tier="a",state="ready"} 0
coding_proxy_keys{tier="b",state="ready"} 0
coding_proxy_requests_in_flight{tier="a"} 3
coding_proxy_requests_in_flight{tier="b"} 0
coding_proxy_journal_errors_total 5
coding_proxy_journal_lost_lines_total 6
coding_proxy_journal_waiting_bytes 7
process_start_time_seconds 1.70000000025e+09`, "\n") {
		if !slices.Contains(samples, line) {
			t.Errorf("no line %s", line)
		}
	}
	for _, prefix := range []string{`coding_proxy_breaker_state{tier="b"`, `coding_proxy_quota_guard_state{tier="b"`} {
		if slices.ContainsFunc(samples, func(s string) bool { return strings.HasPrefix(s, prefix) }) {
			t.Errorf("a tier without a breaker and a guard has %s", prefix)
		}
	}
}

// The process's figures are there, and none of them is 0: the runtime knows their names.
func TestMetricsOfTheProcess(t *testing.T) {
	debug.FreeOSMemory() // collects, and gives back to the system
	samples, _ := small().scrape(t)
	for _, name := range []string{"go_goroutines", "go_memstats_heap_inuse_bytes", "go_memstats_heap_released_bytes", "go_memstats_sys_bytes",
		"go_gc_cycles_total", "go_gc_cpu_seconds_total", "coding_proxy_build_info"} {
		i := slices.IndexFunc(samples, func(s string) bool { return strings.HasPrefix(s, name+" ") || strings.HasPrefix(s, name+"{") })
		if i < 0 || strings.HasSuffix(samples[i], " 0") {
			t.Errorf("%s: %q", name, samples[max(i, 0)])
		}
	}
}

// A key's id is a label only where that is wanted.
func TestMetricsKeyLabels(t *testing.T) {
	f := counted()
	samples, _ := f.scrape(t)
	if text := strings.Join(samples, "\n"); strings.Contains(text, "k1") || strings.Contains(text, "key=") {
		t.Errorf("a key shows: %s", text)
	}
	f.opt.KeyLabels = true
	samples, _ = f.scrape(t)
	var got []string
	for _, s := range samples {
		if strings.Contains(s, `key="k1"`) || strings.Contains(s, `key="k3",state="(other)"`) {
			got = append(got, s)
		}
	}
	want := `coding_proxy_key_state{tier="a",key="k1",state="busy"} 0
coding_proxy_key_state{tier="a",key="k1",state="cooling"} 1
coding_proxy_key_state{tier="a",key="k1",state="day_limit"} 0
coding_proxy_key_state{tier="a",key="k1",state="disabled"} 0
coding_proxy_key_state{tier="a",key="k1",state="month_limit"} 0
coding_proxy_key_state{tier="a",key="k1",state="ready"} 0
coding_proxy_key_state{tier="a",key="k3",state="(other)"} 1
coding_proxy_key_requests_in_flight{tier="a",key="k1"} 2
coding_proxy_key_used_tokens{tier="a",key="k1",window="day"} 2.5
coding_proxy_key_used_tokens{tier="a",key="k1",window="month"} 0
coding_proxy_key_limit_tokens{tier="a",key="k1",window="day"} 10`
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("%s\nwant\n%s", text, want)
	}
}

// A large pool does not make a large scrape: what is beyond the bounds is summed.
func TestMetricsOfManyTiersAndKeys(t *testing.T) {
	pooled := func(tiers int) *fixture {
		f := &fixture{opt: Options{KeyLabels: true}}
		for i := range tiers {
			tier := pool.TierView{Name: fmt.Sprint("tier-", i), Breaker: &pool.BreakerView{State: fmt.Sprint("odd-", i)}}
			for j := range 20 {
				tier.Keys = append(tier.Keys, pool.KeyView{ID: fmt.Sprintf("key-%d-%d", i, j), State: fmt.Sprint("odd-", j), InFlight: 1})
			}
			f.pool.Tiers = append(f.pool.Tiers, tier)
		}
		return f
	}
	some, _ := pooled(200).scrape(t)
	many, _ := pooled(400).scrape(t)
	if len(some) != len(many) {
		t.Errorf("%d series of 200 tiers, %d of 400", len(some), len(many))
	}
	for _, want := range []string{`coding_proxy_keys{tier="(other)",state="(other)"} 6000`, `coding_proxy_requests_in_flight{tier="(other)"} 6000`,
		`coding_proxy_key_requests_in_flight{tier="(other)",key="(other)"} 6000`, `coding_proxy_breaker_state{tier="(other)",state="(other)"} 300`} {
		if !slices.Contains(many, want) {
			t.Errorf("no line %s", want)
		}
	}
}

func TestMetricsTakeNoParameters(t *testing.T) {
	if w := small().ask(t, "GET", "/metrics?key=1"); w.Code != http.StatusBadRequest {
		t.Errorf("status %d", w.Code)
	}
}

// A scrape of a thousand keys is made every few seconds: a series costs few allocations, whatever its labels.
func TestMetricsOfManyKeysAreCheap(t *testing.T) {
	v := pool.View{Tiers: []pool.TierView{{Name: "first"}}}
	for i := range maxMetricKeys {
		v.Tiers[0].Keys = append(v.Tiers[0].Keys, pool.KeyView{ID: fmt.Sprint("key-", i), State: "ready"})
	}
	series := 0.0
	for line := range bytes.Lines(appendPool(nil, v, true)) {
		if line[0] != '#' {
			series++
		}
	}
	if n := testing.AllocsPerRun(3, func() { appendPool(nil, v, true) }); n > 12*series {
		t.Errorf("%.0f allocations for %.0f series", n, series)
	}
}

func BenchmarkMetricsOfManyKeys(b *testing.B) {
	v := pool.View{Tiers: []pool.TierView{{Name: "first"}}}
	for i := range maxMetricKeys {
		v.Tiers[0].Keys = append(v.Tiers[0].Keys, pool.KeyView{ID: fmt.Sprint("key-", i), State: "ready"})
	}
	b.ReportAllocs()
	for b.Loop() {
		appendPool(nil, v, true)
	}
}
