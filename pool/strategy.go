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
	if t.Strategy == SessionSticky {
		p.rebalance(now, t, open, w)
	}
	c := p.draw(t, open, p.bound(now, t, w))
	switch t.Strategy {
	case RoundRobin:
		t.turn = slices.Index(t.keys, c.key) + 1
	case SessionSticky:
		if b := p.sessions.get(now, w.Session, t.Name); b != nil {
			b.lastSeen = now
			p.sessions.changed = true
		}
	}
	return c
}

// bound returns the id of the key that the session has in the tier, "" for none.
func (p *Pool) bound(now time.Time, t *tier, w *Want) string {
	if t.Strategy == SessionSticky {
		if b := p.sessions.get(now, w.Session, t.Name); b != nil {
			return b.key
		}
	}
	return ""
}

// sure returns the key that the strategy picks for certain, -1 where it draws.
func (t *tier) sure(open []candidate, bound string) int {
	least := func(less func(a, b candidate) int) int {
		return slices.Index(open, slices.MinFunc(open, less))
	}
	switch t.Strategy {
	case RoundRobin:
		return t.next(open)
	case LeastUsed:
		return least(byUse)
	case LeastRecent:
		return least(func(a, b candidate) int {
			return cmp.Or(a.lastUsed.Compare(b.lastUsed), a.order-b.order, cmp.Compare(a.ID, b.ID))
		})
	case FillFirst:
		return 0
	}
	if len(open) == 1 {
		return 0
	}
	return slices.IndexFunc(open, func(c candidate) bool { return bound != "" && c.ID == bound })
}

// next returns the first open key at or after the turn, in configuration order.
func (t *tier) next(open []candidate) int {
	for i := range t.keys {
		at := (t.turn + i) % len(t.keys)
		if n := slices.IndexFunc(open, func(c candidate) bool { return c.key == t.keys[at] }); n >= 0 {
			return n
		}
	}
	return 0
}

// byUse orders keys by the used share of their limits; keys without limits count as unused ones, among equals by
// the tokens used today.
func byUse(a, b candidate) int {
	ra, _ := a.ratio()
	rb, _ := b.ratio()
	return cmp.Or(cmp.Compare(ra, rb), cmp.Compare(a.used.today, b.used.today), a.order-b.order)
}

// draw takes the key that is sure, else one at random, weighted by what is left. Only when nothing is left anywhere are
// all alike.
func (p *Pool) draw(t *tier, open []candidate, bound string) candidate {
	if i := t.sure(open, bound); i >= 0 {
		return open[i]
	}
	total := left(open)
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

// chance returns with which probability draw takes the i-th key.
func (t *tier) chance(i int, open []candidate, bound string) float64 {
	if sure := t.sure(open, bound); sure == i {
		return 1
	} else if sure >= 0 {
		return 0
	}
	if total := left(open); total > 0 {
		return open[i].weight() / total
	}
	return 1 / float64(len(open))
}

func left(open []candidate) (total float64) {
	for _, c := range open {
		total += c.weight()
	}
	return total
}

// rebalance moves one session from the most used key to the least used one when their use has drifted apart.
func (p *Pool) rebalance(now time.Time, t *tier, open []candidate, w *Want) {
	b, to := p.drift(now, t, open, w)
	if b == nil {
		return
	}
	b.key = to
	p.lastRebalance = now
	p.sessions.changed = true
}

// drift returns the session that rebalancing would move and the key it would move to: one with a cold cache where there
// is one, else the one that asks; nil for none.
func (p *Pool) drift(now time.Time, t *tier, open []candidate, w *Want) (b *binding, to string) {
	if len(open) < 2 || p.opt.RebalanceThreshold <= 0 || now.Sub(p.lastRebalance) < p.opt.RebalanceCooldown {
		return nil, ""
	}
	most, least := slices.MaxFunc(open, byUse), slices.MinFunc(open, byUse)
	high, _ := most.ratio()
	low, _ := least.ratio()
	if high-low <= p.opt.RebalanceThreshold {
		return nil, ""
	}
	own := p.sessions.get(now, w.Session, t.Name)
	if own != nil && own.key != most.ID {
		own = nil
	}
	if own == nil && now.Sub(p.lastColdScan) < time.Second {
		return nil, "" // looking through all sessions at every request would be dear
	}
	if own == nil || now.Sub(own.lastSeen) <= coldAfter {
		p.lastColdScan = now
		if cold := p.sessions.coldest(now, t.Name, most.ID); cold != nil {
			return cold, least.ID
		}
	}
	return own, least.ID
}
