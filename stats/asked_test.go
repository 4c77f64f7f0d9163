package stats

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata"
)

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// A day of a range is the zone's, whatever its clocks do on it.
func TestBetween(t *testing.T) {
	for _, c := range []struct {
		zone, from, to string
		start, end     string // UTC
	}{
		{"UTC", "2026-03-04", "2026-03-04", "2026-03-04T00:00:00Z", "2026-03-05T00:00:00Z"},
		{"UTC", "2024-02-29", "", "2024-02-29T00:00:00Z", ""},
		{"UTC", "", "2026-12-31", "", "2027-01-01T00:00:00Z"},
		{"UTC", "2026-03-04T10:00:00+02:00", "2026-03-04T09:00:00.5Z", "2026-03-04T08:00:00Z", "2026-03-04T09:00:00.5Z"},
		{"Europe/Berlin", "2026-03-29", "2026-03-29", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"}, // 23 hours
		{"Europe/Berlin", "2026-10-25", "2026-10-25", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"}, // 25 hours
		{"Asia/Shanghai", "2026-03-04", "2026-03-05", "2026-03-03T16:00:00Z", "2026-03-05T16:00:00Z"},
		{"America/Sao_Paulo", "2018-11-03", "2018-11-03", "2018-11-03T03:00:00Z", "2018-11-04T03:00:00Z"}, // the next day begins at 1:00
		{"America/Sao_Paulo", "2018-11-04", "2018-11-04", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"},
		{"America/Havana", "2026-11-01", "2026-11-01", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"}, // midnight is there twice
		{"Asia/Amman", "2021-10-29", "2021-10-29", "2021-10-28T21:00:00Z", "2021-10-29T22:00:00Z"},
		{"Pacific/Apia", "2011-12-29", "2011-12-30", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z"},       // the 30th is none
		{"Antarctica/Casey", "2010-03-05", "2010-03-05", "2010-03-04T13:00:00Z", "2010-03-05T16:00:00Z"},   // at 2:00 back to 23:00
		{"Pacific/Kiritimati", "1979-10-01", "1979-10-01", "1979-10-01T10:40:00Z", "1979-10-02T10:00:00Z"}, // the clocks skip 40 minutes
		{"Africa/Monrovia", "1972-01-07", "1972-01-07", "1972-01-07T00:44:30Z", "1972-01-08T00:00:00Z"},
		{"UTC", "9999-12-31", "9999-12-31", "9999-12-31T00:00:00Z", "10000-01-01T00:00:00Z"},
	} {
		start, end, err := Between(c.from, c.to, zone(t, c.zone))
		utc := func(at time.Time) string {
			if at.IsZero() {
				return ""
			}
			return at.UTC().Format(time.RFC3339Nano)
		}
		if err != nil || utc(start) != c.start || utc(end) != c.end {
			t.Errorf("%s, %s to %s: %s to %s, want %s to %s (%v)", c.zone, c.from, c.to, utc(start), utc(end), c.start, c.end, err)
		}
	}
	for _, c := range []struct{ from, to, names string }{
		{"yesterday", "", "from"}, {"", "2026-13-01", "to"}, {"2026-02-29", "", "from"}, {"2026-3-4", "", "from"}, {"", "2026-03-04 10:00", "to"},
		{"2026-03-05", "2026-03-04", "before"}, {"2026-03-04T10:00:00Z", "2026-03-04T10:00:00Z", "before"},
	} {
		if _, _, err := Between(c.from, c.to, time.UTC); err == nil || !strings.Contains(err.Error(), c.names) {
			t.Errorf("%q to %q: %v", c.from, c.to, err)
		}
	}
}

func TestIsTrace(t *testing.T) {
	for text, want := range map[string]bool{
		"0123456789abcdef": true, "0123456789abcde": false, "0123456789abcdef0": false, "0123456789ABCDEF": false, "0123456789abcdeg": false, "": false,
		"../../etc/passwd": false,
	} {
		if IsTrace(text) != want {
			t.Errorf("%q", text)
		}
	}
}
