package stats

import (
	"fmt"
	"maps"
	"testing"
	"time"
)

// Each record is counted in each family that it belongs to, and in no other.
func TestMetricsCount(t *testing.T) {
	c := newCounters(time.Unix(1000, 0))
	for _, r := range []Record{
		{Outcome: OutcomeOK, Dialect: "anthropic", Tier: "a", Key: "k2", Stream: true, DurationMS: 1000, FirstByteMS: 100,
			InputTokens: 1, OutputTokens: 2, CacheCreationTokens: 3, CacheReadTokens: 4, ReasoningTokens: 1, CostUSD: 0.5,
			Attempts: []Attempt{{Tier: "a", Key: "k1", Outcome: "overload", Reason: "overloaded_error"}, {Tier: "a", Key: "k2", Outcome: "ok"}}},
		{Outcome: OutcomeError, Dialect: "anthropic", Tier: "a", Stream: true, DurationMS: 600_001,
			Attempts: []Attempt{{Tier: "a", Key: "k1", Outcome: "passthrough", Reason: "http_400"}}},
		{Outcome: OutcomeOK, Dialect: "mcp", DurationMS: 101, FirstByteMS: 101, Estimated: true},
		{Outcome: OutcomeLocal, Dialect: "anthropic", InputTokens: 50, DurationMS: 3},
		{Outcome: "odd", DurationMS: -5},
	} {
		c.add(&r)
	}
	same(t, "requests", c.m.Requests, map[RequestLabels]int64{{"ok", "anthropic", "a"}: 1, {"error", "anthropic", "a"}: 1,
		{"ok", "mcp", "(none)"}: 1, {"local", "anthropic", "(none)"}: 1, {"(other)", "(none)", "(none)"}: 1})
	same(t, "attempts", c.m.Attempts, map[AttemptLabels]int64{{"a", "overload", "overloaded_error"}: 1, {"a", "ok", "(none)"}: 1, {"a", "passthrough", "http_400"}: 1})
	same(t, "usage", c.m.Usage, map[string]Figures{
		"a": {Requests: 2, Errors: 1, Failovers: 1, InputTokens: 1, OutputTokens: 2, CacheCreationTokens: 3, CacheReadTokens: 4,
			ReasoningTokens: 1, CostUSD: 0.5, DurationMS: 601_001},
		"(none)": {Requests: 2, Errors: 1, Estimated: 1, DurationMS: 96}})
	same(t, "times", c.m.Times, map[TimeLabels]Times{
		{"anthropic", true}: {Histogram{[14]int64{3: 1, 13: 1}, 601_001}, Histogram{[14]int64{0: 1}, 100}},
		{"mcp", false}:      {Histogram{[14]int64{1: 1}, 101}, Histogram{[14]int64{1: 1}, 101}},
		{"(none)", false}:   {Histogram{[14]int64{0: 1}, 0}, Histogram{}}})
}

func same[K, V comparable](t *testing.T, what string, got, want map[K]V) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("%s: %+v, want %+v", what, got, want)
	}
}

// Whatever comes, the number of series has a bound, and nothing is left uncounted.
func TestMetricsAreBounded(t *testing.T) {
	c := newCounters(time.Unix(1000, 0))
	c.add(&Record{Outcome: OutcomeOK, Dialect: "gemini", Tier: "first"})
	flood := func(from, to int) {
		for i := from; i < to; i++ {
			odd := fmt.Sprintf("odd-%d", i)
			c.add(&Record{Outcome: odd, Dialect: odd, Tier: odd, Key: odd, Requested: odd, Resolved: odd, UpstreamModel: odd, Caller: odd, Client: odd, ErrorType: odd,
				Stream: i%2 == 0, InputTokens: 1, Attempts: []Attempt{{Tier: odd, Outcome: odd, Reason: fmt.Sprintf("http_%03d", i%1000)}, {Tier: odd, Outcome: odd, Reason: odd}}})
		}
	}
	series := func() int { return len(c.m.Requests) + len(c.m.Attempts) + len(c.m.Times) + len(c.m.Usage) }
	flood(0, 10_000)
	if len(c.m.Requests) > maxSeries+1 || len(c.m.Attempts) > maxSeries+1 || len(c.m.Usage) > maxTiers+2 || len(c.m.Times) > 2*(maxDialects+2) {
		t.Errorf("%d, %d, %d and %d series", len(c.m.Requests), len(c.m.Attempts), len(c.m.Usage), len(c.m.Times))
	}
	before := series()
	flood(10_000, 20_000)
	if n := series(); n != before {
		t.Errorf("another 10,000 odd records make %d series of %d", n, before)
	}
	c.add(&Record{Outcome: OutcomeOK, Dialect: "gemini", Tier: "first"})
	if n := c.m.Requests[RequestLabels{"ok", "gemini", "first"}]; n != 2 {
		t.Errorf("a series that was there has %d of 2", n)
	}
	var requests, attempts, input int64
	for _, n := range c.m.Requests {
		requests += n
	}
	for _, n := range c.m.Attempts {
		attempts += n
	}
	for _, f := range c.m.Usage {
		input += f.InputTokens
	}
	if requests != 20_002 || attempts != 40_000 || input != 20_000 {
		t.Errorf("%d requests, %d attempts and %d tokens are counted", requests, attempts, input)
	}
}

// Reasons are closed words: what a provider made up is not shown.
func TestMetricsReasons(t *testing.T) {
	for reason, want := range map[string]string{
		"": "(none)", "overloaded_error": "overloaded_error", "http_503": "http_503", "http_0": "http_0",
		"sk_live_4f9a": "(other)", "http_": "(other)", "http_5x3": "(other)", "http_5031": "(other)", "HTTP_503": "(other)",
	} {
		if got := reasonLabel(reason); got != want {
			t.Errorf("%q becomes %q, want %q", reason, got, want)
		}
	}
}

func TestMetricsOfKnownSeriesAllocateNothing(t *testing.T) {
	c := newCounters(time.Unix(1000, 0))
	r := &Record{Outcome: OutcomeOK, Dialect: "anthropic", Tier: "a", DurationMS: 1000, FirstByteMS: 100,
		Attempts: []Attempt{{Tier: "a", Outcome: "fault", Reason: "http_500"}, {Tier: "a", Outcome: "ok"}}}
	c.add(r)
	if n := testing.AllocsPerRun(100, func() { c.add(r) }); n != 0 {
		t.Errorf("%v allocations a record", n)
	}
}

// A snapshot is the reader's own, and has the disk's faults.
func TestMetricsSnapshot(t *testing.T) {
	now := at("2026-03-04T12:00:00Z")
	s := open(t, t.TempDir(), now)
	s.Add(&Record{TS: now, Outcome: OutcomeOK, Dialect: "anthropic", Tier: "a"})
	m := s.Metrics()
	s.Add(&Record{TS: now, Outcome: OutcomeOK, Dialect: "anthropic", Tier: "a"})
	if n := m.Requests[RequestLabels{"ok", "anthropic", "a"}]; n != 1 || !m.Since.Equal(now) {
		t.Errorf("%d requests since %s", n, m.Since)
	}
	if m.Faults != 0 || m.Lost != 0 || m.Waiting != 0 {
		t.Errorf("a good disk: %+v", m)
	}
	_ = s.journal.file.Close() // from here on the disk refuses
	s.Add(&Record{TS: now, Outcome: OutcomeOK})
	m = s.Metrics()
	if m.Faults != 1 || m.Lost != 0 || m.Waiting == 0 || m.Waiting != int64(len(s.journal.backlog)) {
		t.Errorf("a bad disk: %d faults, %d lines lost, %d bytes wait", m.Faults, m.Lost, m.Waiting)
	}
	s.journal.backlog = make([]byte, maxBacklog)
	s.Add(&Record{TS: now, Outcome: OutcomeOK})
	if m := s.Metrics(); m.Faults != 2 || m.Lost != 1 || m.Waiting != maxBacklog {
		t.Errorf("a full backlog: %d faults, %d lines lost, %d bytes wait", m.Faults, m.Lost, m.Waiting)
	}
}
