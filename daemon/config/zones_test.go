package config

import (
	"fmt"
	"testing"
	"time"
	_ "time/tzdata" // the zones of the tests, wherever they run

	"coding-proxy/auth"
)

// A request key is good to the end of its day by the local calendar: to the last nanosecond that the clock shows that date,
// and not on the next one, whatever the clocks do at midnight.
func TestExpiryInZones(t *testing.T) {
	local := time.Local
	t.Cleanup(func() { time.Local = local })
	for _, tc := range []struct{ zone, day string }{
		{"America/New_York", "2028-03-12"}, {"America/New_York", "2028-11-05"}, {"America/New_York", "2028-02-29"},
		{"Europe/Berlin", "2028-03-26"}, {"Europe/Berlin", "2028-10-29"}, {"Europe/Berlin", "2028-01-31"}, {"Europe/Berlin", "2028-02-28"},
		{"Australia/Lord_Howe", "2028-04-02"}, {"Australia/Lord_Howe", "2028-09-30"}, {"Asia/Kolkata", "2027-12-31"},
		{"America/Havana", "2028-03-11"}, // the next day begins at 01:00
		{"America/Havana", "2028-03-12"}, {"America/Havana", "2028-11-04"}, {"America/Havana", "2028-11-05"},
		{"Africa/Cairo", "2028-04-27"}, {"Africa/Cairo", "2028-04-28"}, {"Africa/Cairo", "2028-10-26"}, // 24:00 is 23:00
		{"Asia/Amman", "2021-10-28"}, {"America/Sao_Paulo", "2018-11-03"}, {"Pacific/Apia", "2011-12-29"}, {"Pacific/Apia", "2011-12-31"},
	} {
		t.Run(tc.zone+" "+tc.day, func(t *testing.T) {
			zone, err := time.LoadLocation(tc.zone)
			if err != nil {
				t.Fatal(err)
			}
			time.Local = zone
			c := mustLoad(t, source(fmt.Sprintf(`{"auth":{"request_keys":[{"code":"laptop","api_key":"a-key-of-laptop","expires":%q}]}}`, tc.day), nil))
			expires := c.Auth.RequestKeys[0].Expires
			end := endOfDay(t, zone, tc.day)
			if !expires.Equal(end) {
				t.Errorf("expires %v, want %v", expires, end)
			}
			callers := auth.NewCallers(c.Auth)
			_, before := callers.ByCode("laptop", end.Add(-time.Nanosecond))
			_, after := callers.ByCode("laptop", end)
			if before != nil || after == nil {
				t.Errorf("before the end: %v, after it: %v", before, after)
			}
		})
	}
}

// endOfDay walks minute by minute to the first one of a later date.
func endOfDay(t *testing.T, zone *time.Location, day string) time.Time {
	t.Helper()
	now, err := time.Parse(time.DateOnly, day)
	if err != nil {
		t.Fatal(err)
	}
	now, seen := now.Add(-36*time.Hour).In(zone), false
	for range 4 * 24 * 60 {
		date := fmt.Sprintf("%04d-%02d-%02d", now.Year(), int(now.Month()), now.Day())
		if seen = seen || date == day; seen && date > day {
			return now
		}
		now = now.Add(time.Minute)
	}
	t.Fatalf("%s has no %s", zone, day)
	return now
}
