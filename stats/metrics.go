package stats

import (
	"maps"
	"strings"
	"time"
)

// Bounds of what a scrape can hold: every new combination of labels is another series for whoever keeps them.
const (
	maxTiers    = 100  // of a configuration, and of those before it
	maxDialects = 16   // there are six
	maxOutcomes = 16   // of attempts: pool's classes
	maxSeries   = 1000 // of one family
)

// Metrics are the counts since the process began. No label is a client's choice; empty ones are "(none)", and those
// beyond a bound are "(other)".
type Metrics struct {
	Since    time.Time
	Requests map[RequestLabels]int64
	Attempts map[AttemptLabels]int64
	Times    map[TimeLabels]Times
	Usage    map[string]Figures // by tier; without local answers

	Faults  int64 // how often the disk refused
	Lost    int64 // journal lines that there was no room for
	Waiting int64 // bytes of journal lines that wait in memory
}

// RequestLabels tell requests apart.
type RequestLabels struct{ Outcome, Dialect, Tier string }

// AttemptLabels tell attempts apart.
type AttemptLabels struct{ Tier, Outcome, Reason string }

// TimeLabels tell apart what requests were to take.
type TimeLabels struct {
	Dialect string
	Stream  bool
}

// Times are how long requests took, and how long until the first byte of those that a provider answered.
type Times struct{ Duration, FirstByte Histogram }

const buckets = 13

// Bounds are the upper bounds of a histogram's buckets, in milliseconds: from a cached word to the longest answers.
func Bounds() [buckets]int64 {
	return [buckets]int64{100, 250, 500, 1000, 2500, 5000, 10_000, 20_000, 30_000, 60_000, 120_000, 300_000, 600_000}
}

// Histogram counts durations by bucket; the last one is for those above all bounds.
type Histogram struct {
	Counts [buckets + 1]int64
	SumMS  int64
}

func (h *Histogram) observe(ms int64) {
	ms = max(0, ms) // clocks step back
	i := 0
	for bounds := Bounds(); i < len(bounds) && ms > bounds[i]; i++ {
	}
	h.Counts[i]++
	h.SumMS += ms
}

// counters count records. The lock of Stats guards them.
type counters struct {
	m                        Metrics
	tiers, dialects, classes labels
}

func newCounters(now time.Time) counters {
	return counters{
		m: Metrics{Since: now, Requests: map[RequestLabels]int64{}, Attempts: map[AttemptLabels]int64{},
			Times: map[TimeLabels]Times{}, Usage: map[string]Figures{}},
		tiers:    labels{map[string]bool{}, maxTiers},
		dialects: labels{map[string]bool{}, maxDialects},
		classes:  labels{map[string]bool{}, maxOutcomes},
	}
}

// add counts a record. It allocates nothing where its series are known.
func (c *counters) add(r *Record) {
	tier, dialect := c.tiers.of(r.Tier), c.dialects.of(r.Dialect)
	count(c.m.Requests, RequestLabels{outcomeLabel(r.Outcome), dialect, tier}, RequestLabels{other, other, other})
	for i := range r.Attempts {
		a := &r.Attempts[i]
		count(c.m.Attempts, AttemptLabels{c.tiers.of(a.Tier), c.classes.of(a.Outcome), reasonLabel(a.Reason)}, AttemptLabels{other, other, other})
	}
	if r.Outcome == OutcomeLocal {
		return
	}
	sum := c.m.Usage[tier]
	sum.Add(r.figures())
	c.m.Usage[tier] = sum
	at := TimeLabels{dialect, r.Stream}
	times := c.m.Times[at]
	times.Duration.observe(r.DurationMS)
	if r.answered() {
		times.FirstByte.observe(r.FirstByteMS)
	}
	c.m.Times[at] = times
}

// answered reports whether a provider's answer went to the client. The side paths note no attempts.
func (r *Record) answered() bool {
	n := len(r.Attempts)
	return r.FirstByteMS > 0 || n > 0 && r.Attempts[n-1].Outcome == "ok"
}

func count[K comparable](m map[K]int64, k, rest K) {
	if _, known := m[k]; !known && len(m) >= maxSeries {
		k = rest
	}
	m[k]++
}

// labels are the values of one label: the first that come, up to a number.
type labels struct {
	known map[string]bool
	most  int
}

func (l *labels) of(value string) string {
	switch {
	case value == "":
		return noKey
	case l.known[value]:
		return value
	case len(l.known) >= l.most:
		return other
	}
	value = strings.Clone(value) // it may be a piece of something large
	l.known[value] = true
	return value
}

func outcomeLabel(outcome string) string {
	switch outcome {
	case OutcomeOK, OutcomeError, OutcomeCancelled, OutcomeBroken, OutcomeExhausted, OutcomeLocal:
		return outcome
	}
	return other
}

// reasonLabel lets the words through that this program and the known providers use: another one is the choice of who
// runs the upstream. The journal has them all.
func reasonLabel(reason string) string {
	switch reason {
	case "":
		return noKey
	case "cancelled", "no_connection", "timeout", "page", "encoding", "not_in_dialect", "empty_answer", "broken_head",
		"models_unavailable", "project_unknown", // our own
		"invalid_request_error", "authentication_error", "billing_error", "permission_error", "not_found_error", "conflict_error",
		"request_too_large", "rate_limit_error", "api_error", "timeout_error", "overloaded_error", // Anthropic's
		"tokens", "requests", "insufficient_quota", "quota_exceeded", "usage_limit_reached", "rate_limit_exceeded", "too_many_requests",
		"server_error", "internal_server_error", "server_is_overloaded", "service_unavailable_error", "slow_down", // OpenAI's
		"network_error", "insufficient_system_resource", "error": // of those who speak its dialect
		return reason
	}
	if status, ok := strings.CutPrefix(reason, "http_"); ok && (status == "0" || len(status) == 3 && isDigits(status)) {
		return reason
	}
	return other
}

func isDigits(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// Metrics returns the counts since the process began.
func (s *Stats) Metrics() Metrics {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.counters.m
	m.Requests, m.Attempts = maps.Clone(m.Requests), maps.Clone(m.Attempts)
	m.Times, m.Usage = maps.Clone(m.Times), maps.Clone(m.Usage)
	m.Faults, m.Lost, m.Waiting = s.faults, s.journal.lost, int64(len(s.journal.backlog))
	return m
}
