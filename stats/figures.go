package stats

import "time"

// Figures are what is counted for a key and model, a caller, or a window.
type Figures struct {
	Requests            int64   `json:"requests"`
	Errors              int64   `json:"errors,omitempty"`
	Failovers           int64   `json:"failovers,omitempty"` // requests that more than one key was tried for
	InputTokens         int64   `json:"input_tokens"`
	OutputTokens        int64   `json:"output_tokens"`
	CacheCreationTokens int64   `json:"cache_creation_tokens,omitempty"`
	CacheReadTokens     int64   `json:"cache_read_tokens,omitempty"`
	ReasoningTokens     int64   `json:"reasoning_tokens,omitempty"`
	Estimated           int64   `json:"estimated,omitempty"` // requests whose tokens are estimates
	Unpriced            int64   `json:"unpriced,omitempty"`  // requests of models without a known price: CostUSD lacks them
	CostUSD             float64 `json:"cost_usd,omitempty"`
	DurationMS          int64   `json:"duration_ms,omitempty"` // sum
}

// Add adds g to f.
func (f *Figures) Add(g Figures) {
	f.Requests += g.Requests
	f.Errors += g.Errors
	f.Failovers += g.Failovers
	f.InputTokens += g.InputTokens
	f.OutputTokens += g.OutputTokens
	f.CacheCreationTokens += g.CacheCreationTokens
	f.CacheReadTokens += g.CacheReadTokens
	f.ReasoningTokens += g.ReasoningTokens
	f.Estimated += g.Estimated
	f.Unpriced += g.Unpriced
	f.CostUSD = roundUSD(f.CostUSD + g.CostUSD)
	f.DurationMS += g.DurationMS
}

// figures is what one request adds.
func (r *Record) figures() Figures {
	f := Figures{
		Requests:            1,
		InputTokens:         r.InputTokens,
		OutputTokens:        r.OutputTokens,
		CacheCreationTokens: r.CacheCreationTokens,
		CacheReadTokens:     r.CacheReadTokens,
		ReasoningTokens:     r.ReasoningTokens,
		CostUSD:             r.CostUSD,
		DurationMS:          r.DurationMS,
	}
	if r.Outcome != OutcomeOK && r.Outcome != OutcomeCancelled {
		f.Errors = 1
	}
	if len(r.Attempts) > 1 && r.Attempts[0].Key != r.Attempts[len(r.Attempts)-1].Key {
		f.Failovers = 1
	}
	if r.Estimated {
		f.Estimated = 1
	}
	if r.Unpriced {
		f.Unpriced = 1
	}
	return f
}

const dateForm = "2006-01-02"

// Range is a span of local calendar days, both ends included. Dates compare as text.
type Range struct{ From, To string }

// Has reports whether the date is in the range.
func (r Range) Has(date string) bool { return r.From <= date && date <= r.To }

// Windows are the spans that the pages show.
type Windows[T any] struct {
	Today     T `json:"today"`
	Week      T `json:"week"` // ISO: from Monday
	Month     T `json:"month"`
	LastWeek  T `json:"last_week"`
	LastMonth T `json:"last_month"`
}

// WindowsAt returns the spans around now, in now's zone.
func WindowsAt(now time.Time) Windows[Range] {
	y, m, d := now.Date()
	date := func(y int, m time.Month, d int) string {
		// noon: a day whose midnight daylight saving skips is still that day
		return time.Date(y, m, d, 12, 0, 0, 0, now.Location()).Format(dateForm)
	}
	today := date(y, m, d)
	monday := d - (int(now.Weekday())+6)%7
	return Windows[Range]{
		Today:     Range{today, today},
		Week:      Range{date(y, m, monday), today},
		Month:     Range{date(y, m, 1), today},
		LastWeek:  Range{date(y, m, monday-7), date(y, m, monday-1)},
		LastMonth: Range{date(y, m-1, 1), date(y, m, 0)},
	}
}

// LastDays returns the span of the n days that end with now's.
func LastDays(now time.Time, n int) Range {
	y, m, d := now.Date()
	from := time.Date(y, m, d-n+1, 12, 0, 0, 0, now.Location())
	return Range{from.Format(dateForm), now.Format(dateForm)}
}
