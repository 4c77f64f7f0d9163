package stats

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// The pages of a walk are the full list, newest first, whatever is appended, compressed or damaged between two of them;
// filters are the oracle's.
func TestWalkEqualsTheList(t *testing.T) {
	for seed := range uint64(3) {
		l := newLedger(t, seed)
		r := NewReader(l.data)
		for range 3 {
			for range 3 {
				l.append(l.rnd.IntN(60))
				l.day = l.day.AddDate(0, 0, 1+l.rnd.IntN(2))
				l.append(1 + l.rnd.IntN(20))
				l.age()
			}
			for range 4 {
				f, limit := l.filter(), 1+l.rnd.IntN(30)
				want, got, cursor := l.want(f), []string(nil), ""
				slices.Reverse(want)
				for page := 0; page == 0 || cursor != ""; page++ {
					lines, next, err := r.Requests(t.Context(), f, limit, cursor)
					if err != nil || len(lines) > limit || next != "" && len(lines) < limit {
						t.Fatalf("seed %d: %d lines, next %q, %v", seed, len(lines), next, err)
					}
					for _, line := range lines {
						got = append(got, string(line))
					}
					cursor = next
					l.append(l.rnd.IntN(3))
					l.age()
				}
				sameLines(t, fmt.Sprintf("seed %d: %+v limit %d", seed, f, limit), got, want)
				var each []string
				if err := r.Each(t.Context(), f, func(date string, rec *Record) error {
					each = append(each, date+string(bytes.TrimSpace(rec.appendLine(nil))))
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				var all []string
				for i := range l.entries {
					if e := &l.entries[i]; f.wanted(&e.Record) {
						all = append(all, e.date+e.line)
					}
				}
				sameLines(t, fmt.Sprintf("seed %d: each %+v", seed, f), each, all)
			}
		}
	}
}

func TestRequest(t *testing.T) {
	l := newLedger(t, 1)
	l.append(50)
	l.day = l.day.AddDate(0, 0, 1)
	l.append(1)
	r := NewReader(l.data)
	for range 2 {
		for _, e := range l.entries {
			if line, err := r.Request(t.Context(), e.Trace); err != nil || string(line) != e.line {
				t.Fatalf("%s: %s, %v", e.Trace, line, err)
			}
		}
		for _, trace := range []string{"", "0123", "x"} {
			if _, err := r.Request(t.Context(), trace); !errors.Is(err, ErrNoRequest) {
				t.Errorf("%q: %v", trace, err)
			}
		}
		if err := (&packer{ctx: t.Context(), dir: l.dir, date: "2026-03-01"}).pack(); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

func TestOddCursors(t *testing.T) {
	l := newLedger(t, 1)
	r := NewReader(l.data)
	for _, c := range []string{"x", "2026-03-01", "2026-03-01:", "2026-03-01:-1", "2026-03-01:01", "2026-03-01:+1", "2026-13-01:1", "2026-03-01:1:2", "../../x:1", "2026-03-01:99999999999999999999"} {
		if _, _, err := r.Requests(t.Context(), Filter{}, 5, c); !errors.Is(err, ErrCursor) {
			t.Errorf("%q: %v", c, err)
		}
	}
	for _, c := range []string{"2026-02-01:5", "2026-03-01:0"} { // what it stood for has become too old
		if lines, next, err := r.Requests(t.Context(), Filter{}, 5, c); len(lines) != 0 || next != "" || err != nil {
			t.Errorf("%q: %d lines, %q, %v", c, len(lines), next, err)
		}
	}
	if lines, next, err := NewReader(t.TempDir()).Requests(t.Context(), Filter{}, 5, ""); len(lines) != 0 || next != "" || err != nil {
		t.Errorf("no journal: %d lines, %q, %v", len(lines), next, err)
	}
}

// A value that needs escapes is found, however it is escaped.
func TestFilterOfEscapedValues(t *testing.T) {
	l := newLedger(t, 1)
	path := filepath.Join(l.dir, l.date()+journalSuffix)
	for _, line := range []string{`"<b>&\\"`, `"\u003cb\u003e\u0026\u005c"`, `"\u003Cb\u003e&\\"`, `"a<b"`, `"a\u003cb"`, `"plain"`, `"pl\u0061in"`} {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(f, `{"caller":%s,"outcome":"ok"}`+"\n", line)
		f.Close()
	}
	for caller, want := range map[string]int{`<b>&\`: 3, "a<b": 2, "plain": 2, "none": 0} {
		lines, _, err := NewReader(l.data).Requests(t.Context(), Filter{Caller: caller, Outcome: "ok"}, 9, "")
		if len(lines) != want || err != nil {
			t.Errorf("%q: %d lines, want %d, %v", caller, len(lines), want, err)
		}
	}
}

// A line that is being written is not there yet.
func TestUnfinishedLine(t *testing.T) {
	l := newLedger(t, 1)
	path := filepath.Join(l.dir, l.date()+journalSuffix)
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.WriteString(`{"outcome":"ok"}`)
	r := NewReader(l.data)
	count := func() (n int) {
		lines, _, err := r.Requests(t.Context(), Filter{}, 99, "")
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Each(t.Context(), Filter{}, func(string, *Record) error { n++; return nil }); err != nil || n != len(lines) {
			t.Fatalf("each %d, list %d, %v", n, len(lines), err)
		}
		return n
	}
	if n := count(); n != 3 {
		t.Errorf("%d lines, want 3", n)
	}
	f.WriteString("\n")
	if n := count(); n != 4 {
		t.Errorf("%d lines, want 4", n)
	}
}

func TestReadingEndsWithItsContext(t *testing.T) {
	l := newLedger(t, 1)
	l.append(500)
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	err := NewReader(l.data).Each(ctx, Filter{}, func(string, *Record) error { n++; cancel(); return nil })
	if !errors.Is(err, context.Canceled) || n > 64 {
		t.Errorf("%v after %d", err, n)
	}
	stop := errors.New("stop")
	if err := NewReader(l.data).Each(t.Context(), Filter{}, func(string, *Record) error { return stop }); !errors.Is(err, stop) {
		t.Error(err)
	}
}

// Readers, the writer, compressing and pruning at once: what was there before is always read, once.
func TestReadWhileItIsWritten(t *testing.T) {
	l := newLedger(t, 5)
	for range 6 {
		l.append(40)
		l.day = l.day.AddDate(0, 0, 1)
	}
	now := l.day.AddDate(0, 0, 2).Add(time.Hour)
	s := open(t, l.data, now)
	want := l.want(Filter{})
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				s.Add(record(now, fmt.Sprint(i)))
			}
		}
	})
	for n := range 4 {
		wg.Go(func() {
			r := s.Reader()
			for range 4 {
				var got []string
				if n%2 == 0 {
					for cursor, first := "", true; first || cursor != ""; first = false {
						lines, next, err := r.Requests(t.Context(), Filter{To: l.day}, 50, cursor)
						if err != nil {
							t.Error(err)
							return
						}
						for _, line := range lines {
							got = append(got, string(line))
						}
						cursor = next
					}
					slices.Reverse(got)
				} else if err := r.Each(t.Context(), Filter{To: l.day}, func(_ string, rec *Record) error {
					got = append(got, string(bytes.TrimSpace(rec.appendLine(nil))))
					return nil
				}); err != nil {
					t.Error(err)
				}
				if !slices.Equal(got, want) {
					t.Errorf("reader %d: %d lines, want %d", n, len(got), len(want))
				}
			}
		})
	}
	for range 3 {
		if err := s.pack(t.Context()); err != nil {
			t.Error(err)
		}
		for i := range 6 {
			if err := unpack(l.dir, l.day.AddDate(0, 0, -1-i).Format(dateForm)); err != nil {
				t.Error(err)
			}
		}
	}
	close(stop)
	wg.Wait()
}

// A day is always there while it is compressed and made plain again.
func TestDayIsAlwaysThere(t *testing.T) {
	l := newLedger(t, 6)
	stop, r := make(chan struct{}), NewReader(l.data)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for rounds := 0; ; rounds++ {
				select {
				case <-stop:
					return
				default:
				}
				n := 0
				if err := r.Each(t.Context(), Filter{}, func(string, *Record) error { n++; return nil }); err != nil || n != 3 {
					t.Errorf("round %d: %d lines, want 3, %v", rounds, n, err)
					return
				}
			}
		})
	}
	for range 30 {
		l.pack("2026-03-01")
		if err := unpack(l.dir, "2026-03-01"); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	wg.Wait()
}

// A day that a change of the clocks makes longer or shorter has its lines, and a time range those within it.
func TestRangesOverClockChanges(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err) // the zones are in the test's own program
	}
	for _, day := range []time.Time{time.Date(2026, 3, 29, 0, 0, 0, 0, berlin), time.Date(2026, 10, 25, 0, 0, 0, 0, berlin)} {
		dir := t.TempDir()
		s := open(t, dir, day.AddDate(0, 0, 5))
		s.journal.close()
		s.journal.name = ""
		perDay := map[string]int{}
		for ts := day.AddDate(0, 0, -2); ts.Before(day.AddDate(0, 0, 3)); ts = ts.Add(10 * time.Minute) {
			perDay[ts.Format(dateForm)]++
			s.Add(record(ts, ts.UTC().Format(time.RFC3339)))
		}
		for packed := range 2 {
			for n := range 5 {
				from := day.AddDate(0, 0, n-2)
				got := 0
				err := s.Reader().Each(t.Context(), Filter{From: from, To: from.AddDate(0, 0, 1)}, func(date string, r *Record) error {
					if got++; date != from.Format(dateForm) {
						t.Errorf("%s is in the file of %s", r.TS, date)
					}
					return nil
				})
				if want := perDay[from.Format(dateForm)]; err != nil || got != want {
					t.Errorf("%s packed %d: %d, want %d, %v", from, packed, got, want, err)
				}
			}
			if err := s.pack(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The records that Replay gives are those from the time on.
func TestReplay(t *testing.T) {
	l := newLedger(t, 9)
	for range 5 {
		l.append(60)
		l.day = l.day.AddDate(0, 0, 1)
	}
	s := open(t, l.data, l.day.AddDate(0, 0, 1))
	for range 2 {
		for n := range 7 {
			since := at("2026-02-28T17:00:00Z").AddDate(0, 0, n)
			var got []string
			if err := s.Replay(since, func(r *Record) { got = append(got, r.Trace) }); err != nil {
				t.Fatal(err)
			}
			var want []string
			for _, e := range l.entries {
				if !e.TS.Before(since) {
					want = append(want, e.Trace)
				}
			}
			sameLines(t, since.String(), got, want)
		}
		if err := s.pack(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// What Requests returns is JSON, whatever else is in the files.
func TestLinesAreJSON(t *testing.T) {
	l := newLedger(t, 4)
	l.append(100)
	lines, _, err := NewReader(l.data).Requests(t.Context(), Filter{}, 1000, "")
	if err != nil || len(lines) != 103 {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	for _, line := range lines {
		if !json.Valid(line) {
			t.Errorf("%.100s", line)
		}
	}
}

// What a page cannot show because the disk refuses is in the log, what nobody waits for is not.
func TestReadingErrorsAreLogged(t *testing.T) {
	l := newLedger(t, 1)
	var log bytes.Buffer
	r := &Reader{dir: l.dir, log: slog.New(slog.NewTextHandler(&log, nil))}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := r.Requests(ctx, Filter{}, 5, ""); !errors.Is(err, context.Canceled) || log.Len() > 0 {
		t.Errorf("%v, %s", err, &log)
	}
	if err := os.Mkdir(l.path("2026-03-02", journalSuffix), 0o700); err != nil { // no file to read
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(l.path("2026-03-02", journalSuffix), "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Requests(t.Context(), Filter{}, 5, ""); err == nil || !strings.Contains(log.String(), "2026-03-02") {
		t.Errorf("%v, %s", err, &log)
	}
}
