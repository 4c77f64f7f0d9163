package stats

import (
	"testing"
	"time"
)

// However few days are kept: limits of the month need all of this one.
func TestTheMonthIsKept(t *testing.T) {
	dir, at := t.TempDir(), time.Date(2026, 3, 1, 12, 0, 0, 0, time.Local)
	s := open(t, dir, at.AddDate(0, 0, -1))
	s.Keep(62, 1)
	for _, day := range []time.Time{at.AddDate(0, 0, -1), at, at.AddDate(0, 0, 29)} {
		s.Add(&Record{TS: day, Trace: "t", Caller: "ci", Key: "k", Resolved: "m", Status: 200, Outcome: OutcomeOK, InputTokens: 100})
	}
	last := at.AddDate(0, 0, 29)
	s.now = func() time.Time { return last }
	s.prune()
	if _, month, _ := s.CallerFigures("ci", last); month.InputTokens != 200 {
		t.Errorf("a caller's month has %d tokens", month.InputTokens)
	}
	if f := s.KeyFigures("k", WindowsAt(last).Month); f.InputTokens != 200 {
		t.Errorf("a key's month has %d tokens", f.InputTokens)
	}
	if len(s.agg.days) != 2 {
		t.Errorf("%d days are kept", len(s.agg.days))
	}
}
