package daemon

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"coding-proxy/auth"
	"coding-proxy/pool"
	"coding-proxy/stats"
)

// spending tells the limiter what callers have used: tokens weigh as those of the pool's keys do.
type spending struct{ d *Daemon }

func (s spending) Spent(code string, now time.Time) auth.Spent {
	weights := s.d.config().Pool.Count
	today, month, at := s.d.stats.CallerFigures(code, now)
	return auth.Spent{Today: weigh(today, weights), Month: weigh(month, weights), TodayUSD: today.CostUSD,
		DayEnds: pool.NextDay(at), MonthEnds: pool.NextMonth(at)}
}

// recallPace takes over how fast callers went before this start from the journal: a restart gives nobody a new minute.
func (d *Daemon) recallPace() {
	now := d.now()
	rates := map[string]int{}
	for _, k := range d.config().Auth.RequestKeys {
		if k.RequestsPerMinute > 0 {
			rates[k.Code] = k.RequestsPerMinute
		}
	}
	if len(rates) == 0 {
		return
	}
	type request struct {
		code  string
		began time.Time
	}
	var before []request
	err := d.stats.Replay(now.Add(-time.Minute), func(r *stats.Record) {
		if began := r.TS.Add(-time.Duration(r.DurationMS) * time.Millisecond); rates[r.Caller] > 0 && cameIn(r) && now.Sub(began) < time.Minute {
			before = append(before, request{r.Caller, began})
		}
	})
	if err != nil {
		d.log.Error("the pace of callers cannot be read from the journal; they begin anew", "error", err)
	}
	slices.SortFunc(before, func(a, b request) int { return cmp.Compare(a.began.UnixNano(), b.began.UnixNano()) })
	for _, r := range before {
		d.server.limiter.Note(r.code, rates[r.code], r.began)
	}
}

// cameIn reports whether a request has got past the limits of its caller: who is refused by them, or before them (an address, a
// key that has expired, a group without keys), has used up nothing.
func cameIn(r *stats.Record) bool {
	if r.Outcome != stats.OutcomeError || len(r.Attempts) > 0 {
		return true
	}
	switch r.Status {
	case http.StatusTooManyRequests, http.StatusUnauthorized:
		return false
	case http.StatusForbidden:
		return r.RequestBytes > 0 // read, and then refused for what it asks for
	}
	return true
}
