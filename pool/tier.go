package pool

import (
	"slices"
	"time"
)

// What a request and the tiers have to do with each other: who lets it in, and what they hear of it.

// refusal says why a tier lets no request in; until is zero when nobody knows when it will.
func (p *Pool) refusal(now time.Time, i int, w *Want) (Gate, time.Time) {
	t := p.tiers[i]
	g, until := gateOpen, time.Time{}
	if t.breaker != nil && !t.breaker.allows(now) && !w.holds(t) && p.another(i, w) {
		g, until = GateBreaker, t.breaker.until()
	}
	if t.guard != nil && !t.guard.allows(now) && !w.probes(t) {
		if g == gateOpen {
			g = GateGuard
		}
		until = later(until, t.guard.until(now))
	}
	if g == gateOpen && t.Return == ReturnIdle && p.stays(now, i, w) {
		g = GateReturn
	}
	return g, until
}

// holds reports whether the request has the tier's probe slot.
func (w *Want) holds(t *tier) bool {
	return w.failing == t && w.probe != 0 && t.breaker.probe == w.probe
}

// probes reports whether the request is a probe of the tier's guard, of the excess that there is.
func (w *Want) probes(t *tier) bool { return w.asking == t && w.asked > t.guard.before }

// another reports whether a tier behind the i-th has a key for the request, tried or not: the last one that has never
// refuses by its breaker.
func (p *Pool) another(i int, w *Want) bool {
	for _, t := range p.tiers[i+1:] {
		for _, k := range t.keys {
			if _, ok := w.serves(t, k); ok && !k.Disabled && w.Scope.Has(k.ID) {
				return true
			}
		}
	}
	return false
}

// stays reports whether the session was served by a tier behind the i-th so lately that its prompt cache is warm
// there, and can be served there again.
func (p *Pool) stays(now time.Time, i int, w *Want) bool {
	var here time.Time
	if b := p.sessions.get(now, w.Session, p.tiers[i].Name); b != nil {
		here = b.lastSeen
	}
	for j := i + 1; j < len(p.tiers); j++ {
		t := p.tiers[j]
		b := p.sessions.get(now, w.Session, t.Name)
		if t.Strategy != SessionSticky || b == nil || b.active == 0 && (!b.lastSeen.After(later(here, b.left)) || now.Sub(b.lastSeen) > coldAfter) {
			continue
		}
		k := t.find(b.key)
		if k == nil || slices.Contains(w.tried, k.ID) || !w.Scope.Has(k.ID) {
			continue
		}
		if p.usable(now, t, k, w) != gateOpen {
			continue
		}
		if g, _ := p.refusal(now, j, w); g == gateOpen {
			return true
		}
	}
	return false
}

// returned notes that the session is back: no tier behind keeps it for its cache any more.
func (p *Pool) returned(now time.Time, l *Lease) {
	i := slices.Index(p.tiers, l.t)
	if i < 0 { // gone with a reload
		return
	}
	for _, t := range p.tiers[i+1:] {
		if b := p.sessions.get(now, l.want.Session, t.Name); b != nil {
			b.left = now
			p.sessions.changed = true
		}
	}
}

// leave counts a failure for the breaker of the tier that the request leaves because its attempts there failed, once
// however often it comes back.
func (p *Pool) leave(now time.Time, w *Want, t *tier) {
	if t.breaker != nil {
		if !slices.Contains(w.counted, t) {
			w.counted = append(w.counted, t)
			t.breaker.failure(now, w.probe)
		}
		t.breaker.leave(w.probe)
	}
	w.failing, w.probe = nil, 0
}

// End ends the request's dealings with the pool, after its last lease was closed. failed says that no further attempt
// is made although the last one failed; otherwise nothing more is counted. A second call does nothing.
func (p *Pool) End(w *Want, failed bool) {
	if w.failing == nil { // nearly always, and nobody else changes it now
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch t := w.failing; {
	case failed:
		p.leave(p.now(), w, t)
	default:
		if t.breaker != nil {
			t.breaker.leave(w.probe)
		}
		w.failing, w.probe = nil, 0
	}
	p.wake()
}

// settle tells the tier's breaker and guard how the attempt ended. What concerns the provider is the breaker's: after
// a good head at once, else when the request leaves the tier.
func (p *Pool) settle(now time.Time, l *Lease, o Outcome) {
	failed := (o.Class == Fault || o.Class == Overload) && !l.began.Before(later(l.k.since, l.t.since))
	if b := l.t.breaker; b != nil {
		switch {
		case l.accepted && failed:
			b.failure(now, l.probe)
		case failed:
			l.want.failing, l.want.probe = l.t, l.probe
		case l.want.failing != l.t:
			b.leave(l.probe)
		case l.probe != 0:
			l.want.probe = l.probe // given back when the request leaves the tier
		}
	}
	if g := l.t.guard; g != nil && !l.accepted {
		if o.Class == Cancelled || o.Class == Stale {
			g.leave(now, l.asked)
		} else {
			g.refused(l.asked)
		}
	}
}
