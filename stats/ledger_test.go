package stats

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// entry is what the oracle knows of a line.
type entry struct {
	date string
	line string
	Record
}

// ledger writes a journal and remembers it.
type ledger struct {
	t       *testing.T
	rnd     *rand.Rand
	data    string // data directory
	dir     string
	day     time.Time
	entries []entry
}

func newLedger(t *testing.T, seed uint64) *ledger {
	l := &ledger{t: t, rnd: rand.New(rand.NewPCG(seed, 7)), data: t.TempDir(), day: at("2026-03-01T00:00:00Z")}
	l.dir = filepath.Join(l.data, journalsName)
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	l.append(3)
	return l
}

func (l *ledger) date() string { return l.day.Format(dateForm) }

// append writes n random lines to the newest day. Some are long, so that there are many blocks; some times are of
// earlier days.
func (l *ledger) append(n int) {
	l.t.Helper()
	f, err := os.OpenFile(filepath.Join(l.dir, l.date()+journalSuffix), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		l.t.Fatal(err)
	}
	defer f.Close()
	for range n {
		r := randomRecord(l.rnd, l.day.Add(time.Duration(l.rnd.Int64N(int64(24*time.Hour)))))
		if l.rnd.IntN(20) == 0 {
			r.TS = r.TS.AddDate(0, 0, -l.rnd.IntN(4)) // the clock had stepped back
		}
		r.Dropped = append(r.Dropped, strings.Repeat("x", 1<<l.rnd.IntN(15)))
		line := r.appendLine(nil)
		if _, err := f.Write(line); err != nil {
			l.t.Fatal(err)
		}
		l.entries = append(l.entries, entry{l.date(), string(line[:len(line)-1]), *r})
		switch l.rnd.IntN(200) { // what is no record
		case 0:
			fmt.Fprintln(f, `{"ts":"2026-03-0`)
		case 1:
			fmt.Fprintln(f)
		case 2:
			fmt.Fprintln(f, strings.Repeat("y", maxLine+l.rnd.IntN(maxLine)))
		}
	}
}

// age compresses days, and damages or leaves what a crash, a person or a disk can.
func (l *ledger) age() {
	l.t.Helper()
	days, err := journalDays(l.dir)
	if err != nil {
		l.t.Fatal(err)
	}
	date := days[l.rnd.IntN(len(days))]
	path := func(suffix string) string { return filepath.Join(l.dir, date+suffix) }
	if date == l.date() {
		return
	}
	switch l.rnd.IntN(6) {
	case 0:
		os.Remove(path(indexSuffix))
	case 1:
		if b, err := os.ReadFile(path(indexSuffix)); err == nil {
			b[l.rnd.IntN(len(b))] ^= 1 << l.rnd.IntN(8)
			os.WriteFile(path(indexSuffix), b, 0o600)
		}
	case 2:
		if err := unpack(l.dir, date); err != nil {
			l.t.Fatal(err)
		}
	default:
		plain, err := os.ReadFile(path(journalSuffix))
		if err != nil {
			return
		}
		if err := (&packer{ctx: l.t.Context(), dir: l.dir, date: date}).pack(); err != nil {
			l.t.Fatal(err)
		}
		if l.rnd.IntN(4) == 0 { // a crash before the end
			os.WriteFile(path(journalSuffix), plain, 0o600)
		}
	}
}

func (l *ledger) filter() (f Filter) {
	e := l.entries[l.rnd.IntN(len(l.entries))]
	for range l.rnd.IntN(3) {
		switch l.rnd.IntN(9) {
		case 0:
			f.Trace = e.Trace
		case 1:
			f.Caller = e.Caller
		case 2:
			f.Model = [...]string{e.Requested, e.Resolved, e.UpstreamModel, "no such"}[l.rnd.IntN(4)]
		case 3:
			f.Key = e.Key
			if n := len(e.Attempts); n > 0 {
				f.Key = e.Attempts[n-1].Key
			}
		case 4:
			f.Tier = e.Tier
		case 5:
			f.Outcome = e.Outcome
		case 6:
			f.Failed = true
		case 7:
			f.From = e.TS
		case 8:
			f.To = e.TS
		}
	}
	return f
}

// wanted is the naive oracle.
func (f Filter) wanted(r *Record) bool {
	attempt := func(is func(Attempt) bool) bool { return slices.ContainsFunc(r.Attempts, is) }
	for _, ok := range []bool{
		f.Trace == "" || r.Trace == f.Trace,
		f.Caller == "" || r.Caller == f.Caller,
		f.Model == "" || slices.Contains([]string{r.Requested, r.Resolved, r.UpstreamModel}, f.Model),
		f.Key == "" || r.Key == f.Key || attempt(func(a Attempt) bool { return a.Key == f.Key }),
		f.Tier == "" || r.Tier == f.Tier || attempt(func(a Attempt) bool { return a.Tier == f.Tier }),
		f.Outcome == "" || r.Outcome == f.Outcome,
		!f.Failed || r.Outcome == "error" || r.Outcome == "broken" || r.Outcome == "exhausted",
		f.From.IsZero() || r.TS.Compare(f.From) >= 0,
		f.To.IsZero() || r.TS.Compare(f.To) < 0,
	} {
		if !ok {
			return false
		}
	}
	return true
}

func (l *ledger) want(f Filter) (lines []string) {
	for i := range l.entries {
		if e := &l.entries[i]; f.wanted(&e.Record) {
			lines = append(lines, e.line)
		}
	}
	return lines
}

func sameLines(t *testing.T, what string, got, want []string) {
	t.Helper()
	if slices.Equal(got, want) {
		return
	}
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	t.Fatalf("%s: %d lines, want %d; the first %d are equal", what, len(got), len(want), i)
}
