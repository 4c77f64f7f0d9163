package stats

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// crashes are statistics that are killed again and again: nothing is saved but what they save themselves.
type crashes struct {
	t     *testing.T
	dir   string
	now   time.Time
	files disk
}

// start opens them; want are the requests that there were.
func (c *crashes) start(want int64) *Stats {
	c.t.Helper()
	s, err := Open(Options{Dir: c.dir, JournalDays: 1, UsageDays: 400}, &c.files, func() time.Time { return c.now }, quiet)
	if err != nil {
		c.t.Fatal(err)
	}
	if got := s.Totals(Range{"", "9"}).Total.Requests; got != want {
		c.t.Fatalf("%s: %d requests, want %d", c.now.Format(dateForm), got, want)
	}
	return s
}

func (c *crashes) days(s *Stats) int {
	days, err := journalDays(s.journal.dir)
	if err != nil {
		c.t.Fatal(err)
	}
	return len(days)
}

// A journal day that has become too old is kept until usage.json has what is in it.
func TestOldDaysAreKeptUntilTheyAreSaved(t *testing.T) {
	c := &crashes{t: t, dir: t.TempDir(), now: at("2026-03-01T12:00:00Z")}
	c.start(0).Add(record(c.now, "1"))
	for range 3 {
		c.now = c.now.AddDate(0, 0, 1)
		c.start(1) // and is killed right after
	}
	s := c.start(1)
	if n := c.days(s); n != 1 {
		t.Errorf("%d days are there after saving", n)
	}
	c.files.fail = errors.New("no space left")
	s.Add(record(c.now, "2"))
	c.now = c.now.AddDate(0, 0, 1)
	s.Add(record(c.now, "3"))
	s.prune()
	s.save()
	s.prune()
	s = c.start(3)
	c.files.fail = nil
	s.save()
	s.prune()
	if n := c.days(s); n != 1 {
		t.Errorf("%d days are there after saving", n)
	}
	c.start(3)
}

// Where the journal ends before the place that usage.json has read through, because a file was taken away or a power cut
// took its end, what is written there is not taken for counted.
func TestJournalEndsBeforeThrough(t *testing.T) {
	for what, cut := range map[string]func(path string) error{
		"gone":  os.Remove,
		"cut":   func(path string) error { return os.Truncate(path, 700) },
		"whole": func(path string) error { return nil },
	} {
		c := &crashes{t: t, dir: t.TempDir(), now: at("2026-03-01T12:00:00Z")}
		s := c.start(0)
		for range 9 {
			s.Add(record(c.now, "1"))
		}
		s.save()
		if err := cut(filepath.Join(s.journal.dir, "2026-03-01.jsonl")); err != nil {
			t.Fatal(what, err)
		}
		s = c.start(9)
		for range 5 {
			s.Add(record(c.now, "2"))
		}
		c.start(14)
	}
}

// Lines of a day whose file cannot be made wait for it: in the file of an earlier day nobody looks for them.
func TestNewDayCannotBegin(t *testing.T) {
	dir, now := t.TempDir(), at("2026-03-01T12:00:00Z")
	s := open(t, dir, now)
	s.Add(record(now, "first"))
	later := now.AddDate(0, 0, 6)
	inTheWay := filepath.Join(s.journal.dir, later.Format(dateForm)+journalSuffix)
	if err := os.Mkdir(inTheWay, 0o700); err != nil {
		t.Fatal(err)
	}
	s.Add(record(later, "second"))
	s.save()
	if m := s.Metrics(); m.Faults != 2 || m.Waiting == 0 {
		t.Errorf("%d faults, %d bytes wait", m.Faults, m.Waiting)
	}
	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	s.save()
	s.Add(record(later, "third"))
	for range 2 {
		var got []string
		if err := s.Reader().Each(t.Context(), Filter{From: later}, func(date string, r *Record) error {
			got = append(got, date+" "+r.Trace)
			return nil
		}); err != nil || !slices.Equal(got, []string{"2026-03-07 second", "2026-03-07 third"}) {
			t.Errorf("%q, %v", got, err)
		}
		if n := s.Totals(Range{"2026-03-07", "2026-03-07"}).Total.Requests; n != 2 {
			t.Errorf("%d requests", n)
		}
		s = open(t, dir, later) // killed
	}
}

// What the disk refuses while days are compressed and deleted is counted, too.
func TestFaultsOfOldDaysAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t, 1)
		blocked := func(date string) { // no file can be put or taken away there
			if err := os.MkdirAll(filepath.Join(l.path(date, packedSuffix), "x"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		s, err := Open(Options{Dir: l.data, JournalDays: 62, UsageDays: 400}, &disk{}, func() time.Time { return l.day.AddDate(0, 0, 9) }, quiet)
		if err != nil {
			t.Fatal(err)
		}
		blocked("2026-03-01")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { s.archive(ctx); close(done) }()
		synctest.Wait()
		cancel()
		<-done
		if n := s.Metrics().Faults; n != 1 {
			t.Errorf("%d faults after compressing", n)
		}
		s.Keep(1, 400)
		s.prune()
		if n := s.Metrics().Faults; n != 2 {
			t.Errorf("%d faults after deleting", n)
		}
	})
}

// A request that passed over thousands of keys has a line that is read again.
func TestLongListsAreCut(t *testing.T) {
	dir, now := t.TempDir(), at("2026-03-01T12:00:00Z")
	s := open(t, dir, now)
	r := record(now, "0123456789abcdef")
	for i := range 6000 {
		r.Skipped = append(r.Skipped, Skip{"first", fmt.Sprintf("key-%04d", i), "cooling"})
		r.Attempts = append(r.Attempts, Attempt{"first", fmt.Sprintf("key-%04d", i), 429, "retryable", "rate_limit_error", 5})
		r.Dropped = append(r.Dropped, strings.Repeat("x", 50))
	}
	s.Add(r)
	want := s.Totals(Range{"", "9"})
	s = open(t, dir, now)
	if got := s.Totals(Range{"", "9"}); !reflect.DeepEqual(got, want) || got.Total.Requests != 1 || got.Total.Failovers != 1 {
		t.Errorf("after a restart %+v, want %+v", got.Total, want.Total)
	}
	if err := s.Reader().Each(t.Context(), Filter{Trace: r.Trace}, func(_ string, got *Record) error {
		if last := got.Skipped[len(got.Skipped)-1]; !slices.Equal(got.Skipped[:9], r.Skipped[:9]) || last.Gate != other {
			t.Errorf("%+v … %+v", got.Skipped[:9], last)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// Lines that wait over midnight, because no file takes any, are written to the file of the day that they were counted for:
// the statistics and the journal agree on each day.
func TestWaitingOverMidnight(t *testing.T) {
	dir, now := t.TempDir(), at("2026-03-01T23:00:00Z")
	s := open(t, dir, now)
	s.Add(record(now, "1"))
	bad, err := os.Open(s.journal.file.Name()) // read-only: writes fail
	if err != nil {
		t.Fatal(err)
	}
	good := s.journal.file
	s.journal.file = bad
	var inTheWay []string
	for d := range 2 {
		inTheWay = append(inTheWay, filepath.Join(s.journal.dir, now.AddDate(0, 0, 1+d).Format(dateForm)+journalSuffix))
		if err := os.Mkdir(inTheWay[d], 0o700); err != nil {
			t.Fatal(err)
		}
	}
	local := record(now.AddDate(0, 0, 2), "5")
	local.Outcome = OutcomeLocal
	for _, r := range []*Record{record(now, "2"), record(now.AddDate(0, 0, 1), "3"), record(now.AddDate(0, 0, 1), "4"), local, record(now, "6")} {
		s.Add(r)
	}
	want := s.Totals(Range{"", "9"})
	s.save()
	if n := bytes.Count(s.journal.backlog, []byte{'\n'}); n != 5 {
		t.Errorf("%d lines wait", n)
	}
	bad.Close()
	s.journal.file = good
	for _, path := range inTheWay {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	s.save()
	if m := s.Metrics(); m.Waiting != 0 || m.Lost != 0 {
		t.Errorf("%d bytes wait, %d lines are lost", m.Waiting, m.Lost)
	}
	var got []string
	if err := s.Reader().Each(t.Context(), Filter{}, func(date string, r *Record) error { got = append(got, date+" "+r.Trace); return nil }); err != nil {
		t.Error(err)
	}
	if want := []string{"2026-03-01 1", "2026-03-01 2", "2026-03-02 3", "2026-03-02 4", "2026-03-03 5", "2026-03-03 6"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for range 2 {
		s = open(t, dir, now)
		if got := s.Totals(Range{"", "9"}); !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
		os.Remove(filepath.Join(dir, "usage.json"))
	}
}
