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
	Breaker, Guard                                       int       // keys that would be free but for their tier
	Next                                                 time.Time // the earliest time at which a key will be free; zero: unknown

	now     time.Time
	anytime bool // a key is free when a request ends: a busy one, or the probe of a breaker
}

// worthWaiting reports whether a key may be free by then.
func (e *ExhaustedError) worthWaiting(deadline time.Time) bool {
	return e.anytime || !e.Next.IsZero() && !e.Next.After(deadline)
}

func (e *ExhaustedError) Error() string {
	var parts []string
	for _, c := range []struct {
		n    int
		text string
	}{
		{e.Cooling, "cooling down"}, {e.DayLimit, "over the day's limit"}, {e.MonthLimit, "over the month's limit"},
		{e.Busy, "busy"}, {e.Breaker, "behind an open circuit breaker"}, {e.Guard, "behind a quota guard"},
		{e.Disabled, "disabled"}, {e.Tried, "tried"},
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
	case e.anytime:
		return time.Second
	case e.Next.IsZero():
		return time.Minute
	}
	d := e.Next.Sub(e.now)
	return max((d + time.Second - 1).Truncate(time.Second), time.Second)
}

// add counts what a tier had for the request. A key behind a tier that refuses is free when both are.
func (e *ExhaustedError) add(s *survey, tier Gate, until time.Time) {
	e.Tried += s.tried
	for _, b := range s.blocked {
		switch b.gate {
		case GateDisabled:
			e.Disabled++
			continue
		case GateCooling:
			e.Cooling++
		case GateDayLimit:
			e.DayLimit++
		case GateMonthLimit:
			e.MonthLimit++
		case GateBusy:
			e.Busy++
			e.anytime = e.anytime || until.IsZero() // also where the probe of a breaker is under way
		}
		e.free(later(b.until, until))
	}
	if len(s.open) == 0 {
		return
	}
	switch tier {
	case GateBreaker:
		e.Breaker += len(s.open)
	case GateGuard:
		e.Guard += len(s.open)
	}
	if until.IsZero() {
		e.anytime = true
		return
	}
	e.free(until)
}

// free notes when a key will be free.
func (e *ExhaustedError) free(at time.Time) {
	if !at.IsZero() && (e.Next.IsZero() || at.Before(e.Next)) {
		e.Next = at
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

// modelNames returns the names that the scope's keys and mappings know, as clients say them, sorted.
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
			if k.Models == nil && t.Mapping != nil {
				names = append(names, t.Mapping.names...)
			}
		}
	}
	if p.opt.Mapping != nil {
		names = append(names, p.opt.Mapping.names...)
	}
	return p.reached(names, s)
}

// reached keeps the names, as clients say them, that an enabled key of the scope serves, sorted.
func (p *Pool) reached(names []string, s Scope) []string {
	names = slices.DeleteFunc(names, func(name string) bool {
		name = p.resolve(name)
		for _, t := range p.tiers {
			for _, k := range t.keys {
				if _, ok := t.serves(k, name); ok && !k.Disabled && s.Has(k.ID) {
					return false
				}
			}
		}
		return true
	})
	slices.Sort(names)
	return slices.Compact(names)
}

// Catalogue has the names of models that are known: by provider, and by dialect those of the dialect's own vendor.
type Catalogue struct{ Providers, Dialects map[string][]string }

// Models returns the names that the scope's keys and mappings know, and of the catalogue those that it reaches, sorted.
func (p *Pool) Models(s Scope, c Catalogue) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	names := p.modelNames(s)
	for _, t := range p.tiers {
		for _, k := range t.keys {
			if k.Disabled || !s.Has(k.ID) {
				continue
			}
			own, known := c.Providers[k.Provider]
			for _, name := range own {
				if _, ok := t.serves(k, p.resolve(name)); ok {
					names = append(names, name)
				}
			}
			for dialect, list := range c.Dialects {
				mine := !known && slices.Contains(k.Protocols, dialect)
				for _, name := range list {
					if p.lists(t, k, mine, name) {
						names = append(names, name)
					}
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// lists reports whether a key lists a name of a dialect's vendor: one that it knows by another name, and any that it serves
// where the dialect is the key's and the catalogue does not know what its provider has.
func (p *Pool) lists(t *tier, k *key, mine bool, name string) bool {
	target := p.resolve(name)
	_, serves := t.serves(k, target)
	if !serves || mine {
		return serves
	}
	if k.Models != nil {
		upstream, named := k.Models[target]
		if !named {
			upstream = k.Models["*"]
		}
		return named || upstream != "" && upstream != "*"
	}
	_, preset := k.Preset.Map(target)
	return t.Mapping != nil || preset
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
			if _, ok := w.serves(t, k); ok && w.Scope.Has(k.ID) {
				return nil
			}
		}
	}
	return &ModelError{Model: w.Model, Near: p.near(w)}
}
