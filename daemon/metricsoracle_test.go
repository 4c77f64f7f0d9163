package daemon

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"coding-proxy/stats"
)

// tally is what counters must be, by series.
type tally map[string]float64

// at names a series; labels are names and values in turn.
func at(name string, labels ...string) string {
	s := expoSample{name: name}
	for pair := range slices.Chunk(labels, 2) {
		s.labels = append(s.labels, [2]string{pair[0], pair[1]})
	}
	slices.SortFunc(s.labels, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	return s.series()
}

// observe counts a duration, or with some false makes the series alone.
func (y tally) observe(name, dialect string, stream, some bool, ms int64) {
	n := 0.0
	if some {
		n = 1
	}
	labels := []string{"dialect", dialect, "stream", strconv.FormatBool(stream)}
	for _, le := range []string{"0.1", "0.25", "0.5", "1", "2.5", "5", "10", "20", "30", "60", "120", "300", "600", "+Inf"} {
		bound, _ := strconv.ParseFloat(le, 64)
		below := 0.0
		if float64(ms)/1000 <= bound {
			below = n
		}
		y[at(name+"_bucket", append(labels, "le", le)...)] += below
	}
	y[at(name+"_count", labels...)] += n
	y[at(name+"_sum", labels...)] += n * float64(ms) // whole milliseconds, which add up exactly; made seconds at the end
}

// tallyOf counts journal lines: the rules of the documentation, without the program's code.
func tallyOf(records []stats.Record) tally {
	y := tally{}
	named := func(s string) string {
		if s == "" {
			return "(none)"
		}
		return s
	}
	for _, r := range records {
		tier := named(r.Tier)
		y[at("coding_proxy_requests_total", "outcome", r.Outcome, "dialect", named(r.Dialect), "tier", tier)]++
		for _, a := range r.Attempts {
			reason := named(a.Reason)
			if reason == madeUp {
				reason = "(other)"
			}
			y[at("coding_proxy_attempts_total", "tier", a.Tier, "outcome", a.Outcome, "reason", reason)]++
		}
		if r.Outcome == "local" {
			continue
		}
		failover, estimated, unpriced, n := 0.0, 0.0, 0.0, len(r.Attempts)
		if n > 0 && r.Attempts[0].Key != r.Attempts[n-1].Key {
			failover = 1
		}
		if r.Estimated {
			estimated = 1
		}
		if r.Unpriced {
			unpriced = 1
		}
		y[at("coding_proxy_failovers_total", "tier", tier)] += failover
		y[at("coding_proxy_estimated_requests_total", "tier", tier)] += estimated
		y[at("coding_proxy_unpriced_requests_total", "tier", tier)] += unpriced
		y[at("coding_proxy_cost_usd_total", "tier", tier)] += math.Round(r.CostUSD * 1e10) // whole units of 1e-10 USD, which add up exactly; made USD at the end
		y[at("coding_proxy_reasoning_tokens_total", "tier", tier)] += float64(r.ReasoningTokens)
		for kind, tokens := range map[string]int64{"input": r.InputTokens, "output": r.OutputTokens, "cache_creation": r.CacheCreationTokens, "cache_read": r.CacheReadTokens} {
			y[at("coding_proxy_tokens_total", "tier", tier, "kind", kind)] += float64(tokens)
		}
		y.observe("coding_proxy_request_duration_seconds", named(r.Dialect), r.Stream, true, r.DurationMS)
		y.observe("coding_proxy_time_to_first_byte_seconds", named(r.Dialect), r.Stream, r.FirstByteMS > 0 || n > 0 && r.Attempts[n-1].Outcome == "ok", r.FirstByteMS)
	}
	for series := range y {
		switch {
		case strings.Contains(series, "_seconds_sum["):
			y[series] /= 1000
		case strings.Contains(series, "_cost_usd_total["):
			y[series] /= 1e10
		}
	}
	return y
}

// isCount reports whether a series counts what the journal holds.
func isCount(series string) bool {
	name, _, _ := strings.Cut(series, "[")
	return strings.HasPrefix(name, "coding_proxy_") && !strings.HasPrefix(name, "coding_proxy_journal_") &&
		(strings.HasSuffix(name, "_total") || strings.Contains(name, "_seconds_"))
}

// countsAreTheJournals compares a scrape with all journal lines, series by series, for equality.
func (i *instance) countsAreTheJournals() {
	i.t.Helper()
	got, want := i.scraped(), tallyOf(i.records(""))
	for series, n := range want {
		if v, ok := got[series]; !ok || v != n {
			i.t.Errorf("%s is %v (there: %t), by the journal %v", series, v, ok, n)
		}
	}
	for series, v := range got {
		if _, ok := want[series]; !ok && isCount(series) {
			i.t.Errorf("%s is %v, and nothing in the journal says so", series, v)
		}
	}
}

// gaugesAreThePools compares the state in a scrape with what /api/pool/stats says. Nothing goes on meanwhile.
func (i *instance) gaugesAreThePools(labels bool) {
	i.t.Helper()
	type limit struct{ Limit, Used *float64 }
	var page struct {
		State string
		Tiers []struct {
			Name, State string
			Breaker     *struct{ State string }
			Guard       *struct {
				State        string
				Used, Budget float64
			} `json:"quota_guard"`
			Keys []struct {
				ID, State    string
				InFlight     float64 `json:"in_flight"`
				Today, Month limit
			}
		}
	}
	if err := json.Unmarshal([]byte(i.ask("GET", "/api/pool/stats", "").body), &page); err != nil {
		i.t.Fatal(err)
	}
	want := tally{at("coding_proxy_ready"): 1}
	if page.State == "exhausted" {
		want[at("coding_proxy_ready")] = 0
	}
	states := func(name, is string, all string, labels ...string) {
		for s := range strings.FieldsSeq(all) {
			want[at(name, append(labels, "state", s)...)] += 0
		}
		want[at(name, append(labels, "state", is)...)]++
	}
	const keyStates = "ready cooling day_limit month_limit busy disabled"
	for _, t := range page.Tiers {
		states("coding_proxy_tier_state", t.State, "open refusing", "tier", t.Name)
		if t.Breaker != nil {
			states("coding_proxy_breaker_state", t.Breaker.State, "open half_open closed", "tier", t.Name)
		}
		if t.Guard != nil {
			states("coding_proxy_quota_guard_state", t.Guard.State, "within exceeded", "tier", t.Name)
			want[at("coding_proxy_quota_guard_used_tokens", "tier", t.Name)] = t.Guard.Used
			want[at("coding_proxy_quota_guard_budget_tokens", "tier", t.Name)] = t.Guard.Budget
		}
		want[at("coding_proxy_requests_in_flight", "tier", t.Name)] = 0
		for _, k := range t.Keys {
			states("coding_proxy_keys", k.State, keyStates, "tier", t.Name)
			want[at("coding_proxy_requests_in_flight", "tier", t.Name)] += k.InFlight
			if !labels {
				continue
			}
			key := []string{"tier", t.Name, "key", k.ID}
			states("coding_proxy_key_state", k.State, keyStates, key...)
			want[at("coding_proxy_key_requests_in_flight", key...)] = k.InFlight
			for window, l := range map[string]limit{"day": k.Today, "month": k.Month} {
				want[at("coding_proxy_key_used_tokens", append(key, "window", window)...)] = *l.Used
				if l.Limit != nil {
					want[at("coding_proxy_key_limit_tokens", append(key, "window", window)...)] = *l.Limit
				}
			}
		}
	}
	i.gaugesAre(want)
}

func (i *instance) gaugesAre(want tally) {
	i.t.Helper()
	got := i.scraped()
	for series, n := range want {
		if v, ok := got[series]; !ok || math.Round(v) != n { // the page has whole tokens
			i.t.Errorf("%s is %v (there: %t), by the pool %v", series, v, ok, n)
		}
	}
	for series := range got {
		_, ok := want[series]
		aside := isCount(series) || strings.HasPrefix(series, "coding_proxy_journal_") || strings.HasPrefix(series, "coding_proxy_build_info")
		if !ok && !aside && strings.HasPrefix(series, "coding_proxy_") {
			i.t.Errorf("%s is nothing that the pool says", series)
		}
		if !ok && strings.Contains(series, `"pool-key-`) {
			i.t.Errorf("%s names a key", series)
		}
	}
}
