package stats

import (
	"errors"
	"fmt"
	"time"
)

// What is asked of the journal, as people and programs write it.

// Outcomes are what can become of a request.
func Outcomes() []string {
	return []string{OutcomeOK, OutcomeError, OutcomeCancelled, OutcomeBroken, OutcomeExhausted, OutcomeLocal}
}

// traceDigits is the length of a trace id.
const traceDigits = 16

// IsTrace reports whether the text has the form of a trace id.
func IsTrace(s string) bool {
	if len(s) != traceDigits {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// Between reads a time range: each end is a time of RFC 3339 or a day of the zone. The end of a range that is a day
// includes it. "" is open.
func Between(from, to string, zone *time.Location) (start, end time.Time, err error) {
	if start, err = readTime("from", from, 0, zone); err != nil {
		return start, end, err
	}
	if end, err = readTime("to", to, 1, zone); err != nil {
		return start, end, err
	}
	if !start.IsZero() && !end.IsZero() && !start.Before(end) {
		return start, end, errors.New("from is not before to")
	}
	return start, end, nil
}

func readTime(name, text string, daysOn int, zone *time.Location) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if day, err := time.Parse(dateForm, text); err == nil {
		y, m, d := day.Date()
		return StartOfDay(y, m, d+daysOn, zone), nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return t, fmt.Errorf("%s must be a day (2026-03-04) or a time of RFC 3339 (2026-03-04T15:04:05Z)", name)
	}
	return t, nil
}

// StartOfDay is the first moment of a calendar day, which is not midnight where a change of the clocks skips it; where the
// clocks show midnight twice it is the first of them. A day that a zone has skipped is an empty one.
func StartOfDay(y int, m time.Month, d int, zone *time.Location) time.Time {
	day := time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	before := func(t time.Time) bool {
		y, m, d := t.Date()
		return time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Before(day)
	}
	t := time.Date(y, m, d, 0, 0, 0, 0, zone)
	start, end := t.ZoneBounds()
	if before(t) {
		return end
	}
	if last := start.Add(-1); !start.IsZero() && !before(last) {
		_, was := last.Zone()
		_, is := t.Zone()
		return t.Add(time.Duration(is-was) * time.Second)
	}
	return t
}
