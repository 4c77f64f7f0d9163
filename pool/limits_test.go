package pool_test

import (
	"testing"
	"time"

	"coding-proxy/pool"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// at is a rig whose clock shows a local time, "2026-03-29 23:59:59".
func at(t testing.TB, o pool.Options, u pool.Usage, z *time.Location, local string) *rig {
	t.Helper()
	now, err := time.ParseInLocation(time.DateTime, local, z)
	if err != nil {
		t.Fatal(err)
	}
	c := &clock{t: now}
	return &rig{Pool: pool.New(o, u, c.now, 1), clock: c, t: t}
}

// KEY-023: the day's count ends at midnight, also when nothing happened in between.
func TestKEY023DayEndsAtMidnight(t *testing.T) {
	r := at(t, options(pool.FillFirst, pool.Key{ID: "k", DailyLimit: 100}), nil, time.UTC, "2026-03-10 21:30:00")
	r.spend("k", 99)
	equal(t, "one is left", r.serve(ask("")), "k")
	r.spend("k", 1)
	ex := r.refused(ask(""))
	equal(t, "over the day's limit", ex.DayLimit, 1)
	equal(t, "free in", ex.Next.Sub(r.now()), 150*time.Minute)
	r.add(150*time.Minute - time.Nanosecond)
	r.refused(ask(""))
	r.add(time.Nanosecond)
	equal(t, "first request of the new day", r.serve(ask("")), "k")
	equal(t, "used today", r.key("k").Today.Used, 0)
	equal(t, "used this month", r.key("k").Month.Used, 100)
}

// The month's count ends with the calendar month, however long it is (USE-018), and both may be set.
func TestMonthEndsWithTheCalendar(t *testing.T) {
	for _, tc := range []struct{ now, next string }{
		{"2026-01-31 12:00:00", "2026-02-01"}, {"2026-02-28 23:59:59", "2026-03-01"}, {"2028-02-28 12:00:00", "2028-03-01"},
		{"2028-02-29 00:00:00", "2028-03-01"}, {"2026-03-31 12:00:00", "2026-04-01"}, {"2026-12-31 23:59:59", "2027-01-01"},
		{"2026-12-01 00:00:00", "2027-01-01"}, {"2026-08-31 01:00:00", "2026-09-01"},
	} {
		r := at(t, options(pool.FillFirst, pool.Key{ID: "k", DailyLimit: 1000, MonthlyLimit: 100}), spent{"k": {0, 40}}, time.UTC, tc.now)
		r.spend("k", 60)
		ex := r.refused(ask(""))
		equal(t, tc.now+" counts", [2]int{ex.DayLimit, ex.MonthLimit}, [2]int{0, 1})
		equal(t, tc.now+" free at", ex.Next.Format(time.DateOnly+" 15:04:05"), tc.next+" 00:00:00")
		r.set(ex.Next.Add(-time.Second))
		r.refused(ask(""))
		r.set(ex.Next)
		equal(t, tc.now, r.serve(ask("")), "k")
		equal(t, tc.now+" used", r.key("k").Month.Used, 0)
	}
}

// A key that is over both limits counts once and is free when the later one ends; the next day it is over the month's.
func TestOverDayAndMonth(t *testing.T) {
	r := at(t, options(pool.FillFirst, pool.Key{ID: "k", DailyLimit: 50, MonthlyLimit: 100}), spent{"k": {0, 60}}, time.UTC, "2026-03-29 12:00:00")
	r.spend("k", 70)
	for _, want := range []pool.ExhaustedError{{DayLimit: 1}, {MonthLimit: 1}, {MonthLimit: 1}} {
		ex := r.refused(ask(""))
		equal(t, "counts", [2]int{ex.DayLimit, ex.MonthLimit}, [2]int{want.DayLimit, want.MonthLimit})
		equal(t, "free at", ex.Next.Format(time.DateTime), "2026-04-01 00:00:00")
		r.add(24 * time.Hour)
	}
	equal(t, "in April", r.serve(ask("")), "k")
}

// KEY-024: cache tokens count, by their weights, before and after a restart.
func TestKEY024CacheTokensCount(t *testing.T) {
	tokens := pool.Tokens{Input: 10, Output: 5, CacheCreation: 200, CacheRead: 1000}
	for _, tc := range []struct {
		weights pool.Weights
		want    float64
	}{
		{pool.DefaultWeights(), 315},
		{pool.Weights{Input: 1, Output: 1, CacheCreation: 1, CacheRead: 1}, 1215},
		{pool.Weights{Input: 1, Output: 5, CacheCreation: 1.25}, 285},
		{pool.Weights{}, 0},
	} {
		o := options(pool.FillFirst, pool.Key{ID: "k", DailyLimit: 2000, MonthlyLimit: 2000})
		o.Count = tc.weights
		r := newRig(t, o, nil)
		l := r.lease(ask(""))
		l.Accept()
		equal(t, "while the answer streams", r.key("k").Today.Used, 0)
		l.Close(is(pool.OK), tokens)
		k := r.key("k")
		equal(t, "today", k.Today.Used, tc.want)
		equal(t, "this month", k.Month.Used, tc.want)
		again := newRig(t, o, spent{"k": {k.Today.Used, k.Month.Used}})
		equal(t, "after a restart", again.key("k").Today, k.Today)
		equal(t, "after a restart", again.key("k").Month, k.Month)
	}
}

// Tokens count whatever the outcome: a stream that broke or whose client went has cost what it has cost.
func TestTokensCountWhateverTheOutcome(t *testing.T) {
	r := newRig(t, options(pool.FillFirst, pool.Key{ID: "k", DailyLimit: 1000}, pool.Key{ID: "spare"}), nil)
	for i, class := range []pool.Class{pool.OK, pool.Fault, pool.Cancelled, pool.Overload} {
		r.add(time.Hour)
		l := r.lease(&pool.Want{Scope: pool.Only("k"), Model: "m"})
		l.Accept()
		l.Close(is(class), pool.Tokens{Output: 10})
		l.Close(is(class), pool.Tokens{Output: 10}) // a second time counts nothing
		l.Accept()
		equal(t, class.String(), r.key("k").Today.Used, float64(10*(i+1)))
		equal(t, "in flight", r.key("k").InFlight, 0)
	}
}

// KEY-025, as routing.md decides it: limits are checked when leasing and counted when a response ends, so what is in
// flight may overshoot; nothing more is let in then.
func TestKEY025OvershootIsAccepted(t *testing.T) {
	r := newRig(t, options(pool.FillFirst, pool.Key{ID: "k", DailyLimit: 100}), nil)
	var leases []*pool.Lease
	for range 20 {
		leases = append(leases, r.lease(ask("")))
	}
	for _, l := range leases {
		l.Accept()
		l.Close(is(pool.OK), pool.Tokens{Output: 50})
	}
	equal(t, "used", r.key("k").Today.Used, 1000)
	equal(t, "over the day's limit", r.refused(ask("")).DayLimit, 1)
}

// A response counts on the day on which it ends.
func TestResponseCountsOnTheDayOfItsEnd(t *testing.T) {
	r := at(t, options(pool.FillFirst, pool.Key{ID: "k", DailyLimit: 100, MonthlyLimit: 100}), nil, time.UTC, "2026-03-31 23:59:00")
	l := r.lease(ask(""))
	l.Accept()
	r.add(2 * time.Minute)
	l.Close(is(pool.OK), pool.Tokens{Output: 100})
	ex := r.refused(ask(""))
	equal(t, "free at", ex.Next.Format(time.DateOnly), "2026-05-01")
	r.set(time.Date(2026, 4, 30, 0, 0, 0, 0, time.UTC))
	equal(t, "by the month alone", r.refused(ask("")).MonthLimit, 1)
}

// A clock that steps back, over midnight too, gives no tokens back.
func TestClockThatStepsBack(t *testing.T) {
	r := at(t, options(pool.FillFirst, pool.Key{ID: "k", DailyLimit: 100}), nil, time.UTC, "2026-03-11 00:00:05")
	r.spend("k", 100)
	r.add(-10 * time.Second)
	r.refused(ask(""))
	r.View()
	r.add(10 * time.Second)
	r.refused(ask(""))
	equal(t, "used", r.key("k").Today.Used, 100)
}

// Days and months are the local calendar's, daylight saving included: a limit ends at the first instant of the next
// day, also where that is not midnight, because the clocks go from 24:00 to 1:00 (Santiago, Havana, Cairo, Beirut).
func TestDaysWithDaylightSaving(t *testing.T) {
	for _, tc := range []struct {
		zone, now string
		left      time.Duration
	}{
		{"Europe/Berlin", "2026-03-29 00:00:00", 23 * time.Hour},
		{"Europe/Berlin", "2026-10-25 00:00:00", 25 * time.Hour},
		{"America/New_York", "2026-03-08 01:30:00", 21*time.Hour + 30*time.Minute},
		{"America/New_York", "2026-11-01 00:30:00", 24*time.Hour + 30*time.Minute},
		{"Australia/Lord_Howe", "2026-04-05 00:00:00", 24*time.Hour + 30*time.Minute},
		{"Asia/Kathmandu", "2026-06-01 23:59:59", time.Second},
		{"Africa/Cairo", "2026-04-23 23:00:00", time.Hour},   // 24:00 is 1:00
		{"Asia/Beirut", "2026-03-28 23:30:00", 30 * minute},  // 24:00 is 1:00
		{"Asia/Beirut", "2026-10-24 22:30:00", 150 * minute}, // 24:00 is 23:00
		{"America/Havana", "2026-10-31 23:30:00", 30 * minute},
		{"America/Havana", "2026-11-01 00:30:00", 24*time.Hour + 30*minute}, // 1:00 is 0:00
		{"America/Santiago", "2026-04-04 22:30:00", 150 * minute},           // 24:00 is 23:00
		{"America/Santiago", "2026-09-05 12:00:00", 12 * time.Hour},         // 24:00 is 1:00
		{"America/Santiago", "2026-09-05 23:30:00", 30 * minute},
		{"America/Havana", "2026-03-07 23:30:00", 30 * minute}, // 24:00 is 1:00
	} {
		t.Run(tc.zone+" "+tc.now, func(t *testing.T) {
			r := at(t, options(pool.FillFirst, pool.Key{ID: "k", DailyLimit: 100}), spent{"k": {100}}, zone(t, tc.zone), tc.now)
			ex := r.refused(ask(""))
			equal(t, "free in", ex.Next.Sub(r.now()), tc.left)
			equal(t, "retry after", ex.RetryAfter(), tc.left)
			r.add(tc.left - time.Nanosecond)
			r.refused(ask(""))
			r.add(time.Nanosecond)
			equal(t, "on the next day", r.serve(ask("")), "k")
		})
	}
}

// Months are as long as the local calendar makes them.
func TestMonthInAZoneWithDaylightSaving(t *testing.T) {
	r := at(t, options(pool.FillFirst, pool.Key{ID: "k", MonthlyLimit: 100}), spent{"k": {0, 100}}, zone(t, "Europe/Berlin"), "2026-10-01 00:00:00")
	ex := r.refused(ask(""))
	equal(t, "October is an hour longer", ex.Next.Sub(r.now()), 31*24*time.Hour+time.Hour)
	r.set(ex.Next.Add(-time.Nanosecond))
	r.refused(ask(""))
	r.set(ex.Next)
	equal(t, "in November", r.serve(ask("")), "k")
}
