package stats

import (
	"context"
	"time"
)

// Tail is the end of the journal as it was at some moment.
type Tail struct {
	r  *Reader
	at place // where the next line begins
}

// Tail returns the journal's end.
func (r *Reader) Tail(ctx context.Context) (*Tail, error) {
	t := &Tail{r: r}
	days, err := journalDays(r.dir)
	if err != nil || len(days) == 0 {
		return t, err
	}
	t.at.date = days[len(days)-1]
	t.at.offset, err = r.end(newPass(ctx, newQuery(Filter{})), t.at.date)
	return t, err
}

// Cursor stands for the lines before the end, "" when there were none.
func (t *Tail) Cursor() string {
	if t.at.date == "" {
		return ""
	}
	return t.at.String()
}

// Follow calls each for the records that pass and come after the end, until ctx ends or each returns an error, which it
// returns.
func (t *Tail) Follow(ctx context.Context, f Filter, each func(*Record) error) error {
	p := newPass(ctx, newQuery(f))
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		days, err := journalDays(t.r.dir)
		if err != nil {
			return err
		}
		for _, date := range days { // once a later day has begun, nothing is appended to an earlier one
			if date < t.at.date {
				continue
			}
			if date > t.at.date {
				t.at = place{date, 0}
			}
			if t.at.offset, err = t.r.after(p, t.at, each); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
