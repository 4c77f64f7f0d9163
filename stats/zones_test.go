package stats

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the zones of the tests, wherever they run
)

// zoneSpans are zones that differ in kind, and a time in each in which the clocks are changed, a leap day or a year's end
// lies. Dates are of UTC.
var zoneSpans = []struct{ zone, from, to string }{
	{"America/New_York", "2028-02-25", "2028-03-15"}, // Feb 29; 02:00 is 03:00 on Mar 12
	{"America/New_York", "2028-11-03", "2028-11-08"}, // 02:00 is 01:00 on Nov 5
	{"Europe/Berlin", "2028-03-24", "2028-04-03"},
	{"Europe/Berlin", "2028-10-26", "2028-11-03"},
	{"Australia/Lord_Howe", "2028-03-30", "2028-04-04"}, // half an hour
	{"Australia/Lord_Howe", "2028-09-29", "2028-10-03"},
	{"Asia/Kolkata", "2027-12-27", "2028-01-04"},
	{"Asia/Kolkata", "2028-02-27", "2028-03-02"},
	{"America/Havana", "2028-03-10", "2028-03-14"},    // 00:00 is 01:00: a day without midnight, west of Greenwich
	{"America/Havana", "2028-11-03", "2028-11-07"},    // 01:00 is 00:00: a midnight that comes twice
	{"Africa/Cairo", "2028-04-26", "2028-05-02"},      // the same two, east of Greenwich
	{"Africa/Cairo", "2028-10-24", "2028-10-29"},      // 24:00 is 23:00
	{"Asia/Amman", "2021-10-26", "2021-11-02"},        // 01:00 is 00:00
	{"America/Sao_Paulo", "2018-11-01", "2018-11-06"}, // 00:00 is 01:00
	{"Pacific/Apia", "2011-12-26", "2012-01-03"},      // December 30 is left out
}

// moment is an instant in a zone with its local date, which is Go's own reading of the clock: all that is tested here is what
// is made of it.
type moment struct {
	time.Time
	day   int // since 1970
	month int // since the year 0
	date  string
}

// daysOf counts days from 1970 (Howard Hinnant's days_from_civil), without any zone.
func daysOf(y, m, d int) int {
	if m <= 2 {
		y--
	}
	era := y / 400
	yoe := y - era*400
	doy := (153*((m+9)%12)+2)/5 + d - 1
	return era*146097 + yoe*365 + yoe/4 - yoe/100 + doy - 719468
}

func momentOf(t time.Time) moment {
	y, m, d := t.Date()
	return moment{t, daysOf(y, int(m), d), y*12 + int(m), fmt.Sprintf("%04d-%02d-%02d", y, int(m), d)}
}

// monday is the day number of the week's Monday: 1970-01-01 was a Thursday.
func (m moment) monday() int { return m.day - (m.day+3)%7 }

// minutes walks through a span.
func minutes(t *testing.T, zone, from, to string, step time.Duration, each func(moment)) {
	t.Helper()
	z, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	for now, end := at(from+"T00:00:00Z"), at(to+"T00:00:00Z"); now.Before(end); now = now.Add(step) {
		each(momentOf(now.In(z)))
	}
}

// Whatever the minute, each window has the days that the calendar says: of all days that there have been in three months, the
// same ones.
func TestWindowsInZones(t *testing.T) {
	for _, s := range zoneSpans {
		t.Run(s.zone+" "+s.from, func(t *testing.T) {
			var days []moment
			before := at(s.from + "T00:00:00Z").Add(-80 * 24 * time.Hour).Format(dateForm)
			minutes(t, s.zone, before, s.to, time.Hour, func(m moment) {
				if n := len(days); n == 0 || days[n-1].date != m.date {
					days = append(days, m)
				}
			})
			minutes(t, s.zone, s.from, s.to, time.Minute, func(now moment) {
				compareWindows(t, days, now)
				if last := momentOf(now.Add(time.Minute - time.Nanosecond)); now.Minute() == 59 {
					compareWindows(t, days, last)
				}
			})
		})
	}
}

func compareWindows(t *testing.T, days []moment, now moment) {
	w := WindowsAt(now.Time)
	for _, tc := range []struct {
		name string
		r    Range
		has  func(day moment) bool
	}{
		{"today", w.Today, func(m moment) bool { return m.day == now.day }},
		{"week", w.Week, func(m moment) bool { return m.monday() == now.monday() && m.day <= now.day }},
		{"month", w.Month, func(m moment) bool { return m.month == now.month && m.day <= now.day }},
		{"last week", w.LastWeek, func(m moment) bool { return m.monday() == now.monday()-7 }},
		{"last month", w.LastMonth, func(m moment) bool { return m.month == now.month-1 }},
		{"days:1", LastDays(now.Time, 1), func(m moment) bool { return m.day == now.day }},
		{"days:2", LastDays(now.Time, 2), func(m moment) bool { return m.day == now.day || m.day == now.day-1 }},
		{"days:30", LastDays(now.Time, 30), func(m moment) bool { return m.day > now.day-30 && m.day <= now.day }},
	} {
		for _, day := range days {
			if got, want := tc.r.Has(day.date), tc.has(day); got != want {
				t.Fatalf("at %v %s is %v: %s is in it: %v, want %v", now, tc.name, tc.r, day.date, got, want)
			}
		}
	}
}

// Each response is in the journal file of its local day, and in the windows of that day alone, also after restarts in between:
// with usage.json as it was left, with an older one, and without one.
func TestJournalInZones(t *testing.T) {
	for _, s := range zoneSpans {
		t.Run(s.zone+" "+s.from, func(t *testing.T) {
			dir := t.TempDir()
			usage := filepath.Join(dir, "usage.json")
			var clock time.Time
			start := func() *Stats {
				st, err := Open(Options{Dir: dir, JournalDays: 400, UsageDays: 400}, &disk{}, func() time.Time { return clock }, quiet)
				if err != nil {
					t.Fatal(err)
				}
				return st
			}
			stop := func(st *Stats) {
				done, cancel := context.WithCancel(t.Context())
				cancel()
				st.Run(done)
			}
			want, n := map[string]int64{}, 0
			var st *Stats
			var last moment
			var older []byte
			minutes(t, s.zone, s.from, s.to, 10*time.Minute, func(now moment) {
				clock, last = now.Time, now
				if st == nil {
					st = start()
				}
				want[now.date]++
				st.Add(record(now.Time, fmt.Sprint(n)))
				if n++; n%37 != 0 {
					return
				}
				stop(st)
				switch n / 37 % 3 {
				case 0:
					_ = os.Remove(usage)
				case 1:
					if older != nil {
						if err := os.WriteFile(usage, older, 0o600); err != nil {
							t.Fatal(err)
						}
					}
				default:
					older, _ = os.ReadFile(usage)
				}
				st = start()
				compareToday(t, st, now, want)
			})
			compareToday(t, st, last, want)
			stop(st)
			compareFiles(t, dir, want)
		})
	}
}

// compareToday wants what the last day has, and all days together.
func compareToday(t *testing.T, s *Stats, now moment, want map[string]int64) {
	t.Helper()
	one := s.Totals(LastDays(now.Time, 1))
	if len(one.Days) != 1 || one.Days[0].Date != now.date || one.Total.Requests != want[now.date] {
		t.Errorf("at %v days:1 is %d requests of %v, want %d", now, one.Total.Requests, one.Days, want[now.date])
	}
	var all int64
	for _, n := range want {
		all += n
	}
	if got := s.Totals(LastDays(now.Time, 60)).Total.Requests; got != all {
		t.Errorf("at %v days:60 are %d requests, want %d", now, got, all)
	}
	key, caller := s.KeyWindows(now.Time)["k1"], s.CallerWindows(now.Time)["laptop"]
	if key.Today.Requests != want[now.date] || caller.Today.Requests != want[now.date] {
		t.Errorf("at %v today is %d of the key and %d of the caller, want %d", now, key.Today.Requests, caller.Today.Requests, want[now.date])
	}
}

func compareFiles(t *testing.T, dir string, want map[string]int64) {
	t.Helper()
	files, err := os.ReadDir(filepath.Join(dir, "journal"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, f := range files {
		date, kind, _ := strings.Cut(f.Name(), ".")
		if kind != "jsonl" && kind != "jsonl.gz" {
			continue
		}
		for line := range strings.Lines(textOf(t, filepath.Join(dir, "journal", f.Name()))) {
			got[date]++
			if !strings.Contains(line, `"ts":"`+date+"T") {
				t.Errorf("%s has %s", f.Name(), line)
			}
		}
	}
	for date, n := range want {
		if got[date] != n {
			t.Errorf("the file of %s has %d lines, want %d", date, got[date], n)
		}
	}
	if len(got) != len(want) {
		t.Errorf("files %v, want %v", got, want)
	}
}

// textOf reads a file, packed or not.
func textOf(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in := io.Reader(f)
	if strings.HasSuffix(path, ".gz") {
		if in, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	data, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Journal files are kept by the calendar: a day with 23 or 25 hours is one day.
func TestJournalIsKeptByLocalDays(t *testing.T) {
	for _, s := range zoneSpans {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "journal"), 0o700); err != nil {
			t.Fatal(err)
		}
		var days []moment
		minutes(t, s.zone, s.from, s.to, time.Hour, func(now moment) {
			if n := len(days); n > 0 && days[n-1].date == now.date {
				return
			}
			days = append(days, now)
			path := filepath.Join(dir, "journal", now.date+".jsonl")
			if err := os.WriteFile(path, []byte("{}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			st, err := Open(Options{Dir: dir, JournalDays: 3, UsageDays: 3}, &disk{}, func() time.Time { return now.Time }, quiet)
			if err != nil {
				t.Fatal(err)
			}
			done, cancel := context.WithCancel(t.Context())
			cancel()
			st.Run(done)
			var want, got []string
			for _, d := range days {
				if d.day > now.day-3 {
					want = append(want, d.date)
				}
			}
			files, err := os.ReadDir(filepath.Join(dir, "journal"))
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				if day, _, _ := strings.Cut(f.Name(), "."); !slices.Contains(got, day) {
					got = append(got, day)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s at %v: kept %v, want %v", s.zone, now, got, want)
			}
		})
	}
}

// What is read again since an instant begins there, on whichever side of a change of the clocks it is.
func TestReplayInZones(t *testing.T) {
	for _, s := range zoneSpans {
		dir := t.TempDir()
		var all []moment
		minutes(t, s.zone, s.from, s.to, 30*time.Minute, func(now moment) { all = append(all, now) })
		st, err := Open(Options{Dir: dir, JournalDays: 400, UsageDays: 400}, &disk{}, func() time.Time { return all[0].Time }, quiet)
		if err != nil {
			t.Fatal(err)
		}
		for i, now := range all {
			st.Add(record(now.Time, fmt.Sprint(i)))
		}
		for i := 0; i < len(all); i += 5 {
			n := 0
			if err := st.Replay(all[i].Time, func(*Record) { n++ }); err != nil || n != len(all)-i {
				t.Errorf("%s since %v: %d records, want %d (%v)", s.zone, all[i], n, len(all)-i, err)
			}
		}
		done, cancel := context.WithCancel(t.Context())
		cancel()
		st.Run(done)
	}
}

// A day begins with the first minute at which the clock shows its date.
func TestStartOfDayInZones(t *testing.T) {
	for _, s := range zoneSpans {
		var last moment
		minutes(t, s.zone, s.from, s.to, time.Minute, func(now moment) {
			if last.date != "" && last.date != now.date {
				for day := last.day + 1; day <= now.day; day++ { // one that was left out ends as it begins
					at := time.Unix(int64(day)*86400, 0).UTC()
					if got := StartOfDay(at.Year(), at.Month(), at.Day(), now.Location()); !got.Equal(now.Time) {
						t.Errorf("%s: %s begins at %v, want %v", s.zone, at.Format(dateForm), got, now)
					}
				}
			}
			last = now
		})
	}
}
