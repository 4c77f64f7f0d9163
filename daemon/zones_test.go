package daemon

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the zones of the tests, wherever they run
)

// zoneTimes are instants of UTC around what the calendar of a zone has in store. The days are far ahead: a clock that is
// behind the system's would end connections.
var zoneTimes = []struct{ zone, times string }{
	{"America/New_York", "2028-03-12T04:59:59.999Z 2028-03-12T05:00:00Z 2028-03-12T06:59:59.999Z 2028-03-12T07:00:00Z 2028-03-13T03:59:59.999Z 2028-03-13T04:00:00Z"},
	{"America/New_York", "2028-11-05T03:59:59.999Z 2028-11-05T04:00:00Z 2028-11-05T05:30:00Z 2028-11-05T06:30:00Z 2028-11-06T04:30:00Z 2028-11-06T05:00:00Z"},
	{"Europe/Berlin", "2028-02-28T22:59:59.999Z 2028-02-28T23:00:00Z 2028-02-29T22:59:59.999Z 2028-02-29T23:00:00Z"},
	{"Europe/Berlin", "2028-10-28T21:59:59.999Z 2028-10-28T22:00:00Z 2028-10-29T00:30:00Z 2028-10-29T01:30:00Z 2028-10-29T22:59:59Z 2028-10-29T23:00:00Z"},
	{"Australia/Lord_Howe", "2028-04-01T12:59:59.999Z 2028-04-01T13:00:00Z 2028-04-01T14:45:00Z 2028-04-01T15:15:00Z 2028-04-02T13:29:59.999Z 2028-04-02T13:30:00Z"},
	{"Asia/Kolkata", "2027-12-31T18:29:59.999Z 2027-12-31T18:30:00Z 2028-01-01T18:29:59.999Z 2028-01-01T18:30:00Z"},
	{"America/Havana", "2028-03-12T04:59:59.999Z 2028-03-12T05:00:00Z 2028-03-13T03:59:59.999Z 2028-03-13T04:00:00Z"}, // a day without midnight
	{"America/Havana", "2028-11-05T03:59:59.999Z 2028-11-05T04:00:00Z 2028-11-05T05:00:00Z 2028-11-06T04:59:59.999Z 2028-11-06T05:00:00Z"},
	{"Africa/Cairo", "2028-10-26T20:30:00Z 2028-10-26T21:30:00Z 2028-10-26T21:59:59.999Z 2028-10-26T22:00:00Z"}, // 24:00 is 23:00
}

// eachTime walks through the instants of zoneTimes.
func eachTime(t *testing.T, each func(t *testing.T, times []time.Time)) {
	for _, tc := range zoneTimes {
		var times []time.Time
		for rest := tc.times; rest != ""; {
			var text string
			n, _ := fmt.Sscan(rest, &text)
			at, err := time.Parse(time.RFC3339, text)
			zone, zoneErr := time.LoadLocation(tc.zone)
			if n != 1 || err != nil || zoneErr != nil {
				t.Fatal(text, err, zoneErr)
			}
			times, rest = append(times, at.In(zone)), rest[min(len(rest), len(text)+1):]
		}
		t.Run(tc.zone+" "+times[0].Format(time.DateOnly), func(t *testing.T) {
			t.Parallel()
			each(t, times)
		})
	}
}

// dateOf is what the clock shows, in figures that are comparable and without the help of what is tested.
func dateOf(t time.Time) string {
	y, m, d := t.Date()
	return fmt.Sprintf("%04d-%02d-%02d", y, int(m), d)
}

// USE-013, USE-014: a request is in the journal, the pages and the limits of its local day, with a restart between any two.
func TestDaysOfRequestsInZones(t *testing.T) {
	t.Parallel()
	eachTime(t, func(t *testing.T, times []time.Time) {
		url := rawProvider(t, "")
		dir := filepath.Join(t.TempDir(), "data")
		at, want := &clock{time: times[0]}, map[string]int64{}
		for n, now := range times {
			at.set(now)
			i := startInAt(t, dir, at, nil, poolOf(poolKey(k1, url, `"daily_limit_tokens":1000000`)), oneCaller())
			for range n + 1 {
				trace := i.good(question(sonnet), "x-api-key: "+requestKey).trace()
				if ts := i.record(trace).TS; !ts.Equal(now) || dateOf(ts) != dateOf(now) {
					t.Errorf("at %v: the record says %v", now, ts)
				}
				want[dateOf(now)]++
			}
			var stats struct {
				From, To string
				Total    struct{ Requests int64 }
				Days     []struct{ Date string }
			}
			r := i.ask("GET", "/api/stats?window=days:1", "", "x-api-key: "+requestKey)
			if err := json.Unmarshal([]byte(r.body), &stats); err != nil {
				t.Fatalf("%v: %s", err, r.body)
			}
			if stats.From != dateOf(now) || stats.To != dateOf(now) || stats.Total.Requests != want[dateOf(now)] || len(stats.Days) != 1 || stats.Days[0].Date != dateOf(now) {
				t.Errorf("at %v: %s, want %d requests of the day", now, r.body, want[dateOf(now)])
			}
			if used := i.keys()[k1].Today.Used; used != 7*want[dateOf(now)] {
				t.Errorf("at %v: %d tokens of today, want %d", now, used, 7*want[dateOf(now)])
			}
			i.stop()
			if files := journalDays(t, dir); fmt.Sprint(files) != fmt.Sprint(slices.Sorted(maps.Keys(want))) {
				t.Errorf("at %v: journal of %v, want %v", now, files, want)
			}
		}
	})
}

// journalDays are the days that have a journal file, packed or not.
func journalDays(t *testing.T, dir string) []string {
	t.Helper()
	files, err := os.ReadDir(filepath.Join(dir, "journal"))
	if err != nil {
		t.Fatal(err)
	}
	days := map[string]bool{}
	for _, f := range files {
		day, _, _ := strings.Cut(f.Name(), ".")
		days[day] = true
	}
	return slices.Sorted(maps.Keys(days))
}

// A key or a caller that has used up its day is told the seconds to the next local day, and served from then on.
func TestLimitsOfDaysInZones(t *testing.T) {
	t.Parallel()
	const limit = `"daily_limit_tokens":7` // one answer
	for _, who := range []string{"key", "caller"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			eachTime(t, func(t *testing.T, times []time.Time) {
				url := rawProvider(t, "")
				members := []string{poolOf(poolKey(k1, url, limit)), oneCaller()}
				if who == "caller" {
					members = []string{poolOf(poolKey(k1, url)), oneCaller(limit)}
				}
				for _, now := range times {
					dir, at := filepath.Join(t.TempDir(), "data"), &clock{time: now}
					i := startInAt(t, dir, at, nil, members...)
					i.good(question(sonnet), "x-api-key: "+requestKey)
					next := now
					for next = now.Truncate(time.Minute); dateOf(next) == dateOf(now); {
						next = next.Add(time.Minute)
					}
					left := next.Sub(now)
					for range 2 { // and after a restart
						r := i.message(question(sonnet), "x-api-key: "+requestKey)
						told, err := strconv.Atoi(r.header.Get("Retry-After"))
						if said := time.Duration(told) * time.Second; r.status != http.StatusTooManyRequests || err != nil || said < left || said > left+time.Second {
							t.Errorf("at %v: %d, retry after %q, want %v", now, r.status, r.header.Get("Retry-After"), left)
						}
						i.stop()
						i = startInAt(t, dir, at, nil, members...)
					}
					at.set(next.Add(-time.Nanosecond))
					if r := i.message(question(sonnet), "x-api-key: "+requestKey); r.status != http.StatusTooManyRequests {
						t.Errorf("at %v: %d", at.now(), r.status)
					}
					at.set(next)
					i.good(question(sonnet), "x-api-key: "+requestKey)
					i.stop()
				}
			})
		})
	}
}
