package web

import (
	"maps"
	"net/http"
	"runtime/debug"
	runtime "runtime/metrics"
	"slices"
	"strconv"
	"time"

	"coding-proxy/pool"
	"coding-proxy/stats"
)

// Bounds of what the pool's state can add to a scrape: tiers and keys behind them are summed.
const (
	maxMetricTiers = 100
	maxMetricKeys  = 1000
	others         = "(other)"
)

// metrics answers a scrape: what was counted since the process started, and the state of this moment.
func (x *Web) metrics(w http.ResponseWriter, _ *http.Request) error {
	m := x.stats.Metrics()
	b := appendCounts(nil, m)
	b = appendTimes(b, m.Times)
	b = appendPool(b, x.pool.View(), x.opt.KeyLabels)
	b = appendProcess(b, m)
	h := w.Header()
	h.Set("Content-Type", expositionType)
	h.Set("Content-Length", strconv.Itoa(len(b)))
	_, _ = w.Write(b) // a client that is gone needs no error
	return nil
}

// appendCounts appends what was counted. Each request is in the journal, too.
func appendCounts(b []byte, m stats.Metrics) []byte {
	requests := newFamily("coding_proxy_requests_total", counter,
		"Requests of known callers that ended, since the process started. The tier is the last one that was tried.", "outcome", "dialect", "tier")
	for k, n := range m.Requests {
		requests.add(float64(n), k.Outcome, k.Dialect, k.Tier)
	}
	attempts := newFamily("coding_proxy_attempts_total", counter,
		"Tries with one key, since the process started. A request has several where keys fail.", "tier", "outcome", "reason")
	for k, n := range m.Attempts {
		attempts.add(float64(n), k.Tier, k.Outcome, k.Reason)
	}
	b = attempts.append(requests.append(b))

	byTier := func(name, help string, of func(stats.Figures) float64) {
		f := newFamily(name, counter, help+", since the process started.", "tier")
		for tier, sum := range m.Usage {
			f.add(of(sum), tier)
		}
		b = f.append(b)
	}
	byTier("coding_proxy_failovers_total", "Requests that more than one key was tried for, by the last tier", func(f stats.Figures) float64 { return float64(f.Failovers) })
	tokens := newFamily("coding_proxy_tokens_total", counter,
		"Tokens, since the process started. Input is without what was cached, output is with reasoning.", "kind", "tier")
	for tier, f := range m.Usage {
		tokens.add(float64(f.InputTokens), "input", tier)
		tokens.add(float64(f.OutputTokens), "output", tier)
		tokens.add(float64(f.CacheCreationTokens), "cache_creation", tier)
		tokens.add(float64(f.CacheReadTokens), "cache_read", tier)
	}
	b = tokens.append(b)
	byTier("coding_proxy_reasoning_tokens_total", "Tokens of reasoning, which are output tokens, too", func(f stats.Figures) float64 { return float64(f.ReasoningTokens) })
	byTier("coding_proxy_estimated_requests_total", "Requests whose tokens are estimates, because the provider told none", func(f stats.Figures) float64 { return float64(f.Estimated) })
	byTier("coding_proxy_cost_usd_total", "Cost in USD, without models whose price is not known", func(f stats.Figures) float64 { return f.CostUSD })
	byTier("coding_proxy_unpriced_requests_total", "Requests of models whose price is not known", func(f stats.Figures) float64 { return float64(f.Unpriced) })
	return b
}

// appendTimes appends the histograms. What was answered without a provider is not in them.
func appendTimes(b []byte, times map[stats.TimeLabels]stats.Times) []byte {
	if len(times) == 0 {
		return b
	}
	byLabels := map[string]stats.Times{}
	for k, t := range times {
		byLabels[labelText([]string{"dialect", "stream"}, []string{k.Dialect, strconv.FormatBool(k.Stream)})] = t
	}
	labels := slices.Sorted(maps.Keys(byLabels))
	for _, f := range []struct {
		name, help string
		of         func(stats.Times) stats.Histogram
	}{
		{"coding_proxy_request_duration_seconds", "How long requests took, local answers aside, since the process started.",
			func(t stats.Times) stats.Histogram { return t.Duration }},
		{"coding_proxy_time_to_first_byte_seconds", "How long good answers of providers took to begin, failed attempts included, since the process started.",
			func(t stats.Times) stats.Histogram { return t.FirstByte }},
	} {
		b = appendHead(b, f.name, histogram, f.help)
		for _, l := range labels {
			b = appendHistogram(b, f.name, l, f.of(byLabels[l]))
		}
	}
	return b
}

// appendPool appends the state of the pool, of each key only with keyLabels.
func appendPool(b []byte, v pool.View, keyLabels bool) []byte {
	ready := newFamily("coding_proxy_ready", gauge, "1 while some key can take a request.")
	ready.add(flag(v.Ready))
	state := newFamily("coding_proxy_tier_state", gauge, "1 for the state that the tier is in.", "tier", "state")
	breaker := newFamily("coding_proxy_breaker_state", gauge, "1 for the state that the tier's circuit breaker is in.", "tier", "state")
	guard := newFamily("coding_proxy_quota_guard_state", gauge, "1 for the state that the tier's quota guard is in.", "tier", "state")
	used := newFamily("coding_proxy_quota_guard_used_tokens", gauge, "Weighted tokens in the window of the tier's quota guard.", "tier")
	budget := newFamily("coding_proxy_quota_guard_budget_tokens", gauge, "Weighted tokens that the window may hold.", "tier")
	keys := newFamily("coding_proxy_keys", gauge, "Keys of the tier that are in the state.", "tier", "state")
	inFlight := newFamily("coding_proxy_requests_in_flight", gauge, "Requests that hold a key of the tier now.", "tier")
	for i, t := range v.Tiers {
		tier := bounded(t.Name, i, maxMetricTiers)
		now := "open"
		if t.Refuses {
			now = "refusing"
		}
		state.addState(now, []string{"open", "refusing"}, tier)
		if t.Breaker != nil {
			breaker.addState(t.Breaker.State, []string{"closed", "open", "half_open"}, tier)
		}
		if g := t.Guard; g != nil {
			guard.addState(g.State, []string{"within", "exceeded"}, tier)
			used.add(g.Used, tier)
			if g.Budget > 0 {
				budget.add(g.Budget, tier)
			}
		}
		keys.addStates(keyStates(), tier)
		inFlight.add(0, tier)
		for _, k := range t.Keys {
			keys.add(1, tier, stateLabel(k.State, keyStates()))
			inFlight.add(float64(k.InFlight), tier)
		}
	}
	for _, f := range []*family{ready, state, breaker, guard, used, budget, keys, inFlight} {
		b = f.append(b)
	}
	if keyLabels {
		b = appendKeys(b, v.Tiers)
	}
	return b
}

// appendKeys appends the state of each key by its id.
func appendKeys(b []byte, tiers []pool.TierView) []byte {
	state := newFamily("coding_proxy_key_state", gauge, "1 for the state that the key is in.", "tier", "key", "state")
	inFlight := newFamily("coding_proxy_key_requests_in_flight", gauge, "Requests that hold the key now.", "tier", "key")
	used := newFamily("coding_proxy_key_used_tokens", gauge, "Weighted tokens that the key has used of the local calendar day or month.", "tier", "key", "window")
	limit := newFamily("coding_proxy_key_limit_tokens", gauge, "Weighted tokens that the key may use in the window.", "tier", "key", "window")
	n := 0
	for i, t := range tiers {
		tier := bounded(t.Name, i, maxMetricTiers)
		for _, k := range t.Keys {
			id := bounded(k.ID, n, maxMetricKeys)
			n++
			state.addState(k.State, keyStates(), tier, id)
			inFlight.add(float64(k.InFlight), tier, id)
			for _, l := range []struct {
				window string
				pool.Limit
			}{{"day", k.Today}, {"month", k.Month}} {
				used.add(l.Used, tier, id, l.window)
				if l.Of > 0 {
					limit.add(l.Of, tier, id, l.window)
				}
			}
		}
	}
	for _, f := range []*family{state, inFlight, used, limit} {
		b = f.append(b)
	}
	return b
}

// keyStates are the states that pool.KeyView has.
func keyStates() []string {
	return []string{"ready", "cooling", "day_limit", "month_limit", "busy", "disabled"}
}

// addState adds 1 to the series of the state that is, and 0 to the others; the state is the last label.
func (f *family) addState(is string, all []string, labels ...string) {
	f.addStates(all, labels...)
	f.add(1, append(slices.Clip(labels), stateLabel(is, all))...)
}

// addStates makes a series of each state.
func (f *family) addStates(all []string, labels ...string) {
	for _, s := range all {
		f.add(0, append(slices.Clip(labels), s)...)
	}
}

// stateLabel is the value, or "(other)" where it is none of all.
func stateLabel(value string, all []string) string {
	if slices.Contains(all, value) {
		return value
	}
	return others
}

// bounded is the name, or "(other)" from the n-th one on.
func bounded(name string, i, n int) string {
	if i < n {
		return name
	}
	return others
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// appendProcess appends what is known of the process and its disk, under the names that Go programs use.
func appendProcess(b []byte, m stats.Metrics) []byte {
	one := func(name, kind, help string, v float64) {
		f := newFamily(name, kind, help)
		f.add(v)
		b = f.append(b)
	}
	one("coding_proxy_journal_errors_total", counter, "How often the disk refused the journal or the usage file, since the process started.", float64(m.Faults))
	one("coding_proxy_journal_lost_lines_total", counter, "Journal lines that there was no room for while the disk refused, since the process started.", float64(m.Lost))
	one("coding_proxy_journal_waiting_bytes", gauge, "Journal lines that wait in memory for the disk.", float64(m.Waiting))
	one("process_start_time_seconds", gauge, "When the process started, in seconds since 1970.", inSeconds(m.Since.UnixNano()/int64(time.Millisecond)))

	info := newFamily("coding_proxy_build_info", gauge, "1, with what the program was built from.", "version", "revision", "goversion")
	info.add(1, buildInfo()...)
	b = info.append(b)
	one("go_goroutines", gauge, "Goroutines that exist.", sampled("/sched/goroutines:goroutines"))
	one("go_memstats_heap_inuse_bytes", gauge, "Heap in use: objects, and what is free between them.",
		sampled("/memory/classes/heap/objects:bytes")+sampled("/memory/classes/heap/unused:bytes"))
	one("go_memstats_heap_released_bytes", gauge, "Heap that was given back to the system.", sampled("/memory/classes/heap/released:bytes"))
	one("go_memstats_sys_bytes", gauge, "All memory that was had from the system, also what was given back.", sampled("/memory/classes/total:bytes"))
	one("go_gc_cycles_total", counter, "Garbage collections, since the process started.", sampled("/gc/cycles/total:gc-cycles"))
	one("go_gc_cpu_seconds_total", counter, "Processor time of garbage collections, since the process started.", sampled("/cpu/classes/gc/total:cpu-seconds"))
	return b
}

// sampled is a figure of the runtime, 0 where it does not know the name.
func sampled(name string) float64 {
	s := []runtime.Sample{{Name: name}}
	runtime.Read(s)
	switch s[0].Value.Kind() {
	case runtime.KindUint64:
		return float64(s[0].Value.Uint64())
	case runtime.KindFloat64:
		return s[0].Value.Float64()
	}
	return 0
}

// buildInfo is version, revision and the Go version; "" where the build does not tell.
func buildInfo() []string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return []string{"", "", ""}
	}
	revision := ""
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			revision = s.Value
		}
	}
	return []string{info.Main.Version, revision, info.GoVersion}
}
