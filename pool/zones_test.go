package pool_test

import (
	"testing"
	"time"

	"coding-proxy/pool"
)

// zoneSpans are zones that differ in kind, and a time in each in which the clocks are changed, or that has a leap day or a
// year's end.
var zoneSpans = []struct{ zone, from, to string }{
	{"America/New_York", "2028-02-26", "2028-03-14"}, // Feb 29; 02:00 is 03:00 on Mar 12
	{"America/New_York", "2028-10-30", "2028-11-07"}, // 02:00 is 01:00 on Nov 5
	{"Europe/Berlin", "2028-03-24", "2028-04-03"},
	{"Europe/Berlin", "2028-10-27", "2028-11-02"},
	{"Australia/Lord_Howe", "2028-03-30", "2028-04-04"}, // half an hour
	{"Australia/Lord_Howe", "2028-09-29", "2028-10-03"},
	{"Asia/Kolkata", "2027-12-29", "2028-01-03"},
	{"Asia/Kolkata", "2028-02-27", "2028-03-02"},
	{"America/Havana", "2028-03-10", "2028-03-14"},    // 00:00 is 01:00, west of Greenwich
	{"America/Havana", "2028-11-03", "2028-11-07"},    // 01:00 is 00:00
	{"Africa/Cairo", "2028-04-26", "2028-05-02"},      // 00:00 is 01:00, east of Greenwich
	{"Africa/Cairo", "2028-10-24", "2028-10-29"},      // 24:00 is 23:00
	{"Asia/Amman", "2021-10-26", "2021-11-02"},        // 01:00 is 00:00
	{"America/Sao_Paulo", "2018-11-01", "2018-11-06"}, // 00:00 is 01:00
	{"Pacific/Apia", "2011-12-26", "2012-01-03"},      // December 30 is left out
}

// calendar has each minute of a span, and for each the first minutes of the next date and month that the clock shows.
type calendar struct{ minute, day, month []time.Time }

// calendarOf walks through the span, and 40 days more for the end of its last month.
func calendarOf(t *testing.T, name, from, to string) calendar {
	t.Helper()
	z := zone(t, name)
	start, err := time.Parse(time.DateOnly, from)
	if err != nil {
		t.Fatal(err)
	}
	last, err := time.Parse(time.DateOnly, to)
	if err != nil {
		t.Fatal(err)
	}
	var c calendar
	for now := start; now.Before(last.Add(40 * 24 * time.Hour)); now = now.Add(time.Minute) {
		c.minute = append(c.minute, now.In(z))
	}
	c.day, c.month = make([]time.Time, len(c.minute)), make([]time.Time, len(c.minute))
	for i := len(c.minute) - 2; i >= 0; i-- {
		now, next := c.minute[i], c.minute[i+1]
		c.day[i], c.month[i] = c.day[i+1], c.month[i+1]
		if now.Day() != next.Day() {
			c.day[i] = next
		}
		if now.Month() != next.Month() {
			c.month[i] = next
		}
	}
	n := 0
	for c.minute[n].Before(last) {
		n++
	}
	c.minute, c.day, c.month = c.minute[:n], c.day[:n], c.month[:n]
	return c
}

func TestNextDayAndMonthInZones(t *testing.T) {
	for _, s := range zoneSpans {
		c := calendarOf(t, s.zone, s.from, s.to)
		for i, now := range c.minute {
			for _, now := range []time.Time{now, now.Add(time.Minute - time.Nanosecond)} {
				if got := pool.NextDay(now); !got.Equal(c.day[i]) || got.Location() != now.Location() {
					t.Fatalf("the day of %v is over at %v, want %v", now, got, c.day[i])
				}
				if got := pool.NextMonth(now); !got.Equal(c.month[i]) || got.Location() != now.Location() {
					t.Fatalf("the month of %v is over at %v, want %v", now, got, c.month[i])
				}
			}
		}
	}
}

// KEY-023, USE-018: what is used up is refused to the last nanosecond of the local day or month and free from the first one
// of the next, in a pool that has run all the time without any traffic, and after a restart on the way.
func TestLimitsEndInZones(t *testing.T) {
	day, month := pool.Key{ID: "k", DailyLimit: 100}, pool.Key{ID: "k", MonthlyLimit: 100}
	for _, s := range zoneSpans {
		c := calendarOf(t, s.zone, s.from, s.to)
		for i := 0; i < len(c.minute); i += 47 {
			for _, tc := range []struct {
				key pool.Key
				end time.Time
			}{{day, c.day[i]}, {month, c.month[i]}} {
				o := options(pool.FillFirst, tc.key)
				clock := &clock{t: c.minute[i]}
				r := &rig{Pool: pool.New(o, nil, clock.now, 1), clock: clock, t: t}
				r.spend("k", 100)
				ex := r.refused(ask(""))
				if !ex.Next.Equal(tc.end) || ex.RetryAfter() < tc.end.Sub(c.minute[i]) || ex.RetryAfter() >= tc.end.Sub(c.minute[i])+time.Second {
					t.Fatalf("at %v: free at %v, in %v; want %v", c.minute[i], ex.Next, ex.RetryAfter(), tc.end)
				}
				r.set(tc.end.Add(-time.Nanosecond))
				again := &rig{Pool: pool.New(o, spent{"k": {100}}, clock.now, 1), clock: clock, t: t}
				r.refused(ask(""))
				if ex := again.refused(ask("")); !ex.Next.Equal(tc.end) {
					t.Fatalf("at %v after a restart: free at %v, want %v", r.now(), ex.Next, tc.end)
				}
				r.set(tc.end)
				for _, r := range []*rig{r, again} {
					equal(t, s.zone+", free again", r.serve(ask("")), "k")
				}
				if used := r.key("k"); used.Today.Used != 0 || tc.key.MonthlyLimit > 0 && used.Month.Used != 0 {
					t.Fatalf("at %v: %+v", r.now(), used)
				}
			}
		}
	}
}

// When a limit runs out is told from the pace since the day began, which is not always midnight, and never for a time on
// another day.
func TestRunsOutInZones(t *testing.T) {
	for _, s := range zoneSpans {
		c := calendarOf(t, s.zone, s.from, s.to)
		began := time.Time{}
		for i, now := range c.minute {
			if i > 0 && !c.day[i].Equal(c.day[i-1]) {
				began = now
			}
			if began.IsZero() || i%31 != 0 || now.Equal(began) {
				continue
			}
			o := options(pool.FillFirst, pool.Key{ID: "k", DailyLimit: 100})
			r := &rig{Pool: pool.New(o, spent{"k": {50}}, (&clock{t: now}).now, 1), clock: &clock{t: now}, t: t}
			want := now.Add(now.Sub(began))
			if !want.Before(c.day[i]) {
				want = time.Time{}
			}
			if got := r.key("k").RunsOut; !got.Equal(want) {
				t.Fatalf("at %v: runs out at %v, want %v", now, got, want)
			}
		}
	}
}

// A guard's window is so and so many hours, not so and so many by the clock.
func TestGuardWindowInZones(t *testing.T) {
	for _, s := range zoneSpans {
		c := calendarOf(t, s.zone, s.from, s.to)
		for i := 0; i < len(c.minute); i += 17 {
			clock := &clock{t: c.minute[i]}
			o := options(pool.FillFirst, pool.Key{ID: "k"})
			guard := pool.DefaultGuard()
			guard.Budget, guard.ProbeInterval = 100, 24*time.Hour
			o.Tiers[0].Guard = &guard
			r := &rig{Pool: pool.New(o, nil, clock.now, 1), clock: clock, t: t}
			r.spend("k", 100)
			end := c.minute[i].Add(5*time.Hour + time.Minute) // the window, behind the minute
			if ex := r.refused(ask("")); !ex.Next.Equal(end) {
				t.Fatalf("at %v: free at %v, want %v", c.minute[i], ex.Next, end)
			}
			r.set(end)
			equal(t, "free again", r.serve(ask("")), "k")
		}
	}
}
