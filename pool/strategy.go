package pool

import (
	"cmp"
	"slices"
	"time"
)

// coldAfter is when a provider's prompt cache is cold and moving a session costs nothing.
const coldAfter = 5 * time.Minute

// choose picks among keys of one tier that all passed their gates, by the tier's strategy.
func (p *Pool) choose(now time.Time, t *tier, open []candidate, w *Want) candidate {
	switch t.Strategy {
	case RoundRobin:
		return t.next(open)
	case LeastUsed:
		return slices.MinFunc(open, byUse)
	case LeastRecent:
		return slices.MinFunc(open, func(a, b candidate) int {
			return cmp.Or(a.lastUsed.Compare(b.lastUsed), a.order-b.order, cmp.Compare(a.ID, b.ID))
		})
	case FillFirst:
		return open[0]
	default:
		return p.sticky(now, t, open, w)
	}
}

// next returns the first open key at or after the turn, in configuration order.
func (t *tier) next(open []candidate) candidate {
	for i := range t.keys {
		at := (t.turn + i) % len(t.keys)
		for _, c := range open {
			if c.key == t.keys[at] {
				t.turn = at + 1
				return c
			}
		}
	}
	return open[0]
}

// byUse orders keys by the used share of their limits; keys without limits count as unused ones, among equals by
// the tokens used today.
func byUse(a, b candidate) int {
	ra, _ := a.ratio()
	rb, _ := b.ratio()
	return cmp.Or(cmp.Compare(ra, rb), cmp.Compare(a.used.today, b.used.today), a.order-b.order)
}

// sticky returns the key that the session is bound to, or draws one for a new session.
func (p *Pool) sticky(now time.Time, t *tier, open []candidate, w *Want) candidate {
	p.rebalance(now, t, open, w)
	if b := p.sessions.get(now, w.Session, t.Name); b != nil {
		b.lastSeen = now
		p.sessions.changed = true
		for _, c := range open {
			if c.ID == b.key {
				return c
			}
		}
	}
	return p.draw(open)
}

// draw picks at random, weighted by what is left. Only when nothing is left anywhere are all alike.
func (p *Pool) draw(open []candidate) candidate {
	if len(open) == 1 {
		return open[0]
	}
	total := 0.0
	for _, c := range open {
		total += c.weight()
	}
	if total <= 0 {
		return open[p.rand.IntN(len(open))]
	}
	at := p.rand.Float64() * total
	picked := open[0]
	for _, c := range open {
		if w := c.weight(); w > 0 {
			if picked = c; at < w {
				break
			}
			at -= w
		}
	}
	return picked
}

// rebalance moves one session from the most used key to the least used one when their use has drifted apart: one
// with a cold cache where there is one, else the one that asks.
func (p *Pool) rebalance(now time.Time, t *tier, open []candidate, w *Want) {
	if len(open) < 2 || p.opt.RebalanceThreshold <= 0 || now.Sub(p.lastRebalance) < p.opt.RebalanceCooldown {
		return
	}
	most, least := slices.MaxFunc(open, byUse), slices.MinFunc(open, byUse)
	high, _ := most.ratio()
	low, _ := least.ratio()
	if high-low <= p.opt.RebalanceThreshold {
		return
	}
	own := p.sessions.get(now, w.Session, t.Name)
	if own != nil && own.key != most.ID {
		own = nil
	}
	b := own
	if own == nil && now.Sub(p.lastColdScan) < time.Second {
		return // looking through all sessions at every request would be dear
	}
	if own == nil || now.Sub(own.lastSeen) <= coldAfter {
		p.lastColdScan = now
		if cold := p.sessions.coldest(now, t.Name, most.ID); cold != nil {
			b = cold
		}
	}
	if b == nil {
		return
	}
	b.key = least.ID
	p.lastRebalance = now
	p.sessions.changed = true
}
