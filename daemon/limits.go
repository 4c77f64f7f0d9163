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
	today, month := s.d.stats.CallerFigures(code, now)
	return auth.Spent{Today: weigh(today, weights), Month: weigh(month, weights), TodayUSD: today.CostUSD,
		DayEnds: pool.NextDay(now), MonthEnds: pool.NextMonth(now)}
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
		refused := r.Status == http.StatusTooManyRequests && r.Outcome == stats.OutcomeError && len(r.Attempts) == 0
		if began := r.TS.Add(-time.Duration(r.DurationMS) * time.Millisecond); rates[r.Caller] > 0 && !refused && now.Sub(began) < time.Minute {
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
