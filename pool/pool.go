package pool

import (
	"math/rand/v2"
	"sync"
	"time"
)

// Usage tells what a key's tokens were before this process, to start the counts from.
type Usage interface {
	// Today returns the weighted tokens of the key on now's local day, Month of its local month.
	Today(key string, now time.Time, w Weights) float64
	Month(key string, now time.Time, w Weights) float64
}

// Pool is all tiers. It is safe for concurrent use.
type Pool struct {
	opt  Options
	now  func() time.Time
	rand *rand.Rand

	mu            sync.Mutex // guards everything below
	tiers         []*tier
	cool          cooldowns
	sessions      sessions
	lastRebalance time.Time
	lastColdScan  time.Time
	waiters       int
	freed         chan struct{} // closed and renewed when something became free while somebody waits
}

type tier struct {
	Tier
	keys []*key
	turn int // round-robin: index of the key after the one last picked
}

type key struct {
	Key
	order    int // in the configuration
	used     used
	inFlight int
	lastUsed time.Time
}

// New builds a pool. now gives the time with the zone in which days are counted; seed makes its draws repeatable
// in tests.
func New(opt Options, usage Usage, now func() time.Time, seed uint64) *Pool {
	r := rand.New(rand.NewPCG(seed, seed^0x9e3779b97f4a7c15))
	p := &Pool{
		opt:      opt,
		now:      now,
		rand:     r,
		cool:     cooldowns{m: map[coolKey]*cooldown{}, rand: r},
		sessions: sessions{m: map[bindingKey]*binding{}, idle: opt.SessionIdle},
		freed:    make(chan struct{}),
	}
	t := now()
	n := 0
	for _, ot := range opt.Tiers {
		tr := &tier{Tier: ot}
		for _, ok := range ot.Keys {
			k := &key{Key: ok, order: n}
			n++
			day := dayOf(t)
			k.used = used{day: day, month: monthOf(day)}
			if usage != nil {
				k.used.today = usage.Today(ok.ID, t, opt.Count)
				k.used.months = usage.Month(ok.ID, t, opt.Count)
			}
			tr.keys = append(tr.keys, k)
		}
		p.tiers = append(p.tiers, tr)
	}
	return p
}

// serves returns the upstream's name for the client's model name.
func (k *key) serves(model string) (upstream string, ok bool) {
	if k.Models == nil {
		return model, true
	}
	if m, ok := k.Models[model]; ok {
		return m, true
	}
	if m, ok := k.Models["*"]; ok {
		if m == "" || m == "*" {
			return model, true
		}
		return m, true
	}
	return "", false
}

// findTier returns the tier with that name, or nil.
func (p *Pool) findTier(name string) *tier {
	for _, t := range p.tiers {
		if t.Name == name {
			return t
		}
	}
	return nil
}

func (t *tier) find(id string) *key {
	for _, k := range t.keys {
		if k.ID == id {
			return k
		}
	}
	return nil
}
