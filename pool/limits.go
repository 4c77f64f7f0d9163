package pool

import "time"

// dayOf returns the local calendar day of t as a number, and monthOf of a day its month.
func dayOf(t time.Time) int {
	y, m, d := t.Date()
	return y*10000 + int(m)*100 + d
}

func monthOf(day int) int { return day / 100 }

// NextDay returns the instant at which the local day of t is over.
func NextDay(t time.Time) time.Time {
	y, m, d := t.Date()
	return midnight(y, m, d+1, t.Location())
}

// NextMonth returns the instant at which the local month of t is over.
func NextMonth(t time.Time) time.Time {
	y, m, _ := t.Date()
	return midnight(y, m+1, 1, t.Location())
}

// midnight returns the first instant of a day, whatever the clocks do there: they may skip midnight or the whole day, for
// which time.Date gives an instant of the day before, and they may show midnight twice.
func midnight(y int, m time.Month, d int, zone *time.Location) time.Time {
	t, want := time.Date(y, m, d, 0, 0, 0, 0, zone), dayOf(time.Date(y, m, d, 0, 0, 0, 0, time.UTC))
	start, end := t.ZoneBounds()
	if dayOf(t) < want {
		return end
	}
	if last := start.Add(-1); !start.IsZero() && dayOf(last) >= want {
		_, before := last.Zone()
		_, after := t.Zone()
		return t.Add(time.Duration(after-before) * time.Second)
	}
	return t
}

// used counts weighted tokens of the running day and month.
type used struct {
	day, month    int
	today, months float64
}

// roll starts new counts when the calendar has moved on. A clock that steps back changes nothing.
func (u *used) roll(day int) {
	if day <= u.day {
		return
	}
	if m := monthOf(day); m != u.month {
		u.month, u.months = m, 0
	}
	u.day, u.today = day, 0
}

func (u *used) add(day int, tokens float64) {
	u.roll(day)
	u.today += tokens
	u.months += tokens
}

// ratio returns the more used of day and month as a share of its limit; ok is false for a key without limits.
func (k *key) ratio() (r float64, ok bool) {
	if k.DailyLimit > 0 {
		r, ok = k.used.today/float64(k.DailyLimit), true
	}
	if k.MonthlyLimit > 0 {
		r, ok = max(r, k.used.months/float64(k.MonthlyLimit)), true
	}
	return r, ok
}

// weight is what is left as a weight for drawing: never negative, never NaN.
func (k *key) weight() float64 {
	if l := k.left(); l > 0 {
		return l
	}
	return 0
}

// left returns the remaining weighted tokens, the tighter of day and month; never negative. Keys without limits
// have none to compare, so they count as one token each.
func (k *key) left() float64 {
	if k.DailyLimit <= 0 && k.MonthlyLimit <= 0 {
		return 1
	}
	l := -1.0
	if k.DailyLimit > 0 {
		l = max(0, float64(k.DailyLimit)-k.used.today)
	}
	if k.MonthlyLimit > 0 {
		m := max(0, float64(k.MonthlyLimit)-k.used.months)
		if l < 0 || m < l {
			l = m
		}
	}
	return l
}
