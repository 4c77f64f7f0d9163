package pool

import "time"

// Route is what Lease would do with a request, without doing anything.
type Route struct {
	Tiers []RouteTier
	Err   error // why nothing could be leased: *ModelError or *ExhaustedError; nil when something can
}

// RouteTier is one tier of a Route. Only the first tier whose Gate is open and that has an open key is drawn from.
type RouteTier struct {
	Name  string
	Gate  Gate
	Until time.Time // of Gate; zero: nobody knows
	Drawn bool
	Keys  []RouteKey
}

// RouteKey is one key of a RouteTier.
type RouteKey struct {
	ID, UpstreamModel string
	Protocols         []string // the dialects it is asked in
	Gate              Gate
	Until             time.Time // of Gate; zero: nobody knows
	Chance            float64   // with which the request would go to it, 0…1
}

// Route says what Lease would do now. It changes nothing.
func (p *Pool) Route(w *Want) Route {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	out := Route{}
	ex, serving, drawn := &ExhaustedError{now: now}, 0, false
	var s survey
	for i, t := range p.tiers {
		p.look(now, t, w, &s)
		serving += s.serving()
		rt := RouteTier{Name: t.Name}
		if len(s.open)+len(s.blocked) > 0 {
			rt.Gate, rt.Until = p.refusal(now, i, w)
		}
		rt.Drawn = !drawn && len(s.open) > 0 && rt.Gate == gateOpen
		drawn = drawn || rt.Drawn
		if !drawn {
			ex.add(&s, rt.Gate, rt.Until)
		}
		rt.Keys = p.routeKeys(now, t, w, &s, rt.Drawn)
		out.Tiers = append(out.Tiers, rt)
	}
	switch {
	case serving == 0:
		out.Err = &ModelError{Model: w.Model, Near: p.near(w)}
	case !drawn:
		out.Err = ex
	}
	return out
}

func (p *Pool) routeKeys(now time.Time, t *tier, w *Want, s *survey, drawn bool) []RouteKey {
	bound := p.bound(now, t, w)
	if t.Strategy == SessionSticky && drawn {
		scanned := p.lastColdScan
		if b, to := p.drift(now, t, s.open, w); b != nil && b == p.sessions.get(now, w.Session, t.Name) {
			bound = to
		}
		p.lastColdScan = scanned
	}
	var keys []RouteKey
	for _, k := range t.keys {
		rk := RouteKey{ID: k.ID, Protocols: k.Protocols}
		upstream, ok := w.serves(t, k)
		switch {
		case !w.Scope.Has(k.ID):
			rk.Gate = GateScope
		case !ok:
			rk.Gate = GateModel
		default:
			rk.UpstreamModel = upstream
			rk.Gate, rk.Until = p.gate(now, k, k.holder(w.Credential), upstream)
		}
		for i, c := range s.open {
			if c.key == k && drawn {
				rk.Chance = t.chance(i, s.open, bound)
			}
		}
		keys = append(keys, rk)
	}
	return keys
}
