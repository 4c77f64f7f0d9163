package pool

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// ModelError says that no key of the caller's scope serves the model.
type ModelError struct {
	Model string
	Near  []string // up to five known names, the nearest first
}

func (e *ModelError) Error() string { return fmt.Sprintf("no key serves the model %q", e.Model) }

// ExhaustedError says that keys serve the model but none can be leased now. The counts are of keys.
type ExhaustedError struct {
	Cooling, DayLimit, MonthLimit, Busy, Disabled, Tried int
	Next                                                 time.Time // the earliest time at which a key will be free; zero: unknown

	now  time.Time
	soon time.Time // the same among keys that this request may still get
}

// worthWaiting reports whether a key may be free by then: a busy one may be at any moment.
func (e *ExhaustedError) worthWaiting(deadline time.Time) bool {
	return e.Busy > 0 || !e.soon.IsZero() && !e.soon.After(deadline)
}

func (e *ExhaustedError) Error() string {
	var parts []string
	for _, c := range []struct {
		n    int
		text string
	}{
		{e.Cooling, "cooling down"}, {e.DayLimit, "over the day's limit"}, {e.MonthLimit, "over the month's limit"},
		{e.Busy, "busy"}, {e.Disabled, "disabled"}, {e.Tried, "tried"},
	} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.text))
		}
	}
	return "key pool exhausted: " + strings.Join(parts, ", ")
}

// RetryAfter returns how long to wait for the earliest key, in whole seconds rounded up, at least one.
func (e *ExhaustedError) RetryAfter() time.Duration {
	switch {
	case e.Busy > 0: // free at any moment
		return time.Second
	case e.Next.IsZero():
		return time.Minute
	}
	d := e.Next.Sub(e.now)
	return max((d + time.Second - 1).Truncate(time.Second), time.Second)
}

func (e *ExhaustedError) count(g Gate, until time.Time) {
	switch g {
	case GateDisabled:
		e.Disabled++
		return
	case GateCooling:
		e.Cooling++
	case GateDayLimit:
		e.DayLimit++
	case GateMonthLimit:
		e.MonthLimit++
	case GateBusy:
		e.Busy++
		return
	}
	if e.Next.IsZero() || until.Before(e.Next) {
		e.Next = until
	}
	if e.soon.IsZero() || until.Before(e.soon) {
		e.soon = until
	}
}

// near returns up to five model names of the scope that look like the wanted one.
func (p *Pool) near(w *Want) []string {
	names := p.modelNames(w.Scope)
	want := strings.ToLower(w.Model)
	if len(want) > 256 {
		want = want[:256]
	}
	slices.SortStableFunc(names, func(a, b string) int { return distance(want, strings.ToLower(a)) - distance(want, strings.ToLower(b)) })
	return names[:min(len(names), 5)]
}

// modelNames returns the names that the scope's keys map, sorted.
func (p *Pool) modelNames(s Scope) []string {
	var names []string
	for _, t := range p.tiers {
		for _, k := range t.keys {
			if k.Disabled || !s.Has(k.ID) {
				continue
			}
			for name := range k.Models {
				if name != "*" {
					names = append(names, name)
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Models returns the names that the scope's keys map, sorted, and whether one of its keys also serves any name.
func (p *Pool) Models(s Scope) (names []string, any bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.tiers {
		for _, k := range t.keys {
			if _, star := k.Models["*"]; !k.Disabled && s.Has(k.ID) && (k.Models == nil || star) {
				any = true
			}
		}
	}
	return p.modelNames(s), any
}

// distance is the Levenshtein distance of two byte strings.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost = 1 + min(diagonal, row[j], row[j-1])
			}
			diagonal, row[j] = row[j], cost
		}
	}
	return row[len(b)]
}

// Serves returns a *ModelError when no key of the scope serves the model. It leases nothing.
func (p *Pool) Serves(w *Want) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.tiers {
		for _, k := range t.keys {
			if _, ok := k.serves(w.Model); ok && w.Scope.Has(k.ID) {
				return nil
			}
		}
	}
	return &ModelError{Model: w.Model, Near: p.near(w)}
}
