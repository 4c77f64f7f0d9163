package pool

import "time"

// Gate is why a key may not be leased.
type Gate uint8

// The gates, each named by what it says of a key.
const (
	gateOpen Gate = iota
	GateDisabled
	GateCooling
	GateDayLimit
	GateMonthLimit
	GateBusy
	// of tiers
	GateBreaker
	GateGuard
	GateReturn // the session stays in a lower tier while its cache is warm
	// of dry runs, and of tiers that have no key for a request
	GateScope
	GateModel
	GateDialect // no key speaks a dialect that the request can be served in
	GatePinned  // what is asked for lives in an account elsewhere
)

// gate asks the key's own gates, in the order of design/routing.md; until is the latest of its reasons, zero when
// nobody knows.
func (p *Pool) gate(now time.Time, k *key, holder, upstream string) (Gate, time.Time) {
	k.used.roll(dayOf(now))
	if k.Disabled {
		return GateDisabled, time.Time{}
	}
	g := gateOpen
	if k.MaxConcurrent > 0 && k.inFlight >= k.MaxConcurrent {
		g = GateBusy
	}
	var until time.Time
	if k.MonthlyLimit > 0 && k.used.months >= float64(k.MonthlyLimit) {
		g, until = GateMonthLimit, NextMonth(now)
	}
	if k.DailyLimit > 0 && k.used.today >= float64(k.DailyLimit) {
		g = GateDayLimit
		until = later(until, NextDay(now))
	}
	if t, _ := p.cool.until(now, k.ID, holder, upstream); !t.IsZero() {
		g = GateCooling
		until = later(until, t)
	}
	return g, until
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// usable asks the key's own gates about the request's model.
func (p *Pool) usable(now time.Time, t *tier, k *key, w *Want) Gate {
	upstream, ok := w.serves(t, k)
	if !ok {
		return GateModel
	}
	g, _ := p.gate(now, k, k.holder(w.Credential), upstream)
	return g
}

// Open reports whether the gate lets through.
func (g Gate) Open() bool { return g == gateOpen }

// String returns the word that the API uses for a gate.
func (g Gate) String() string {
	switch g {
	case GateDisabled:
		return "disabled"
	case GateCooling:
		return "cooling"
	case GateDayLimit:
		return "day_limit"
	case GateMonthLimit:
		return "month_limit"
	case GateBusy:
		return "busy"
	case GateBreaker:
		return "breaker_open"
	case GateGuard:
		return "quota_guard"
	case GateReturn:
		return "tier_return"
	case GateScope:
		return "scope"
	case GateModel:
		return "model"
	case GateDialect:
		return "dialect"
	case GatePinned:
		return "pinned"
	}
	return "ready"
}

// holder is whose credential goes with the key: "" for the key's own. A caller who sent none is a holder too, whose
// refusals are nobody else's.
func (k *key) holder(credential string) string {
	switch {
	case !k.Passthrough:
		return ""
	case credential == "":
		return "none"
	}
	return credential
}
