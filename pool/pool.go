package pool

import (
	"fmt"
	"maps"
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
	usage Usage
	now   func() time.Time
	rand  *rand.Rand

	mu            sync.Mutex // guards everything below
	opt           Options
	tiers         []*tier
	goneKeys      map[string]*key  // that were taken away while leases were open: they may come back
	goneTiers     map[string]*tier // likewise
	cool          cooldowns
	sessions      sessions
	lastRebalance time.Time
	lastColdScan  time.Time
	waiters       int
	freed         chan struct{} // closed and renewed when something became free while somebody waits
}

type tier struct {
	Tier
	keys    []*key
	turn    int       // round-robin: index of the key after the one last picked
	breaker *breaker  // nil = none
	guard   *guard    // nil = none
	since   time.Time // as of a key
}

type key struct {
	Key
	order    int // in the configuration
	used     used
	inFlight int
	lastUsed time.Time
	since    time.Time // what attempts from before meet says nothing any more: the last reset
	seen     map[string]Seen
}

// New builds a pool. now gives the time with the zone in which days are counted; seed makes its draws repeatable
// in tests.
func New(opt Options, usage Usage, now func() time.Time, seed uint64) *Pool {
	r := rand.New(rand.NewPCG(seed, seed^0x9e3779b97f4a7c15))
	p := &Pool{
		usage:    usage,
		now:      now,
		rand:     r,
		cool:     cooldowns{m: map[coolKey]*cooldown{}, rand: r},
		sessions: sessions{m: map[bindingKey]*binding{}, owned: map[string]*binding{}, mixed: map[string]*binding{}},
		freed:    make(chan struct{}),
	}
	p.Configure(opt)
	return p
}

// Configure changes the pool's options. Keys keep their counts, cooldowns and sessions by their ids, tiers their
// breakers and guards by their names; leases that are open end as they began. What an operator switched on or off is
// as the options say again.
func (p *Pool) Configure(opt Options) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	keys, tiers := maps.Clone(p.goneKeys), maps.Clone(p.goneTiers)
	if keys == nil {
		keys, tiers = map[string]*key{}, map[string]*tier{}
	}
	for _, t := range p.tiers {
		tiers[t.Name] = t
		for _, k := range t.keys {
			keys[k.ID] = k
		}
	}
	reweigh := opt.Count != p.opt.Count
	p.opt, p.tiers, p.sessions.idle = opt, nil, opt.SessionIdle
	n := 0
	for _, ot := range opt.Tiers {
		t := tiers[ot.Name]
		delete(tiers, ot.Name)
		if t == nil {
			t = &tier{}
		}
		t.configure(now, ot, opt.Count)
		for _, ok := range ot.Keys {
			k := keys[ok.ID]
			delete(keys, ok.ID)
			if k == nil {
				k = &key{}
			}
			if k.ID == "" || reweigh {
				p.count(now, k, ok.ID)
			}
			k.Key, k.order = ok, n
			n++
			t.keys = append(t.keys, k)
		}
		p.tiers = append(p.tiers, t)
	}
	maps.DeleteFunc(keys, func(_ string, k *key) bool { return k.inFlight == 0 })
	if len(keys) == 0 {
		clear(tiers)
	}
	p.goneKeys, p.goneTiers = keys, tiers
	p.forget()
	p.wake()
}

// count takes over what the key has used so far.
func (p *Pool) count(now time.Time, k *key, id string) {
	day := dayOf(now)
	k.used = used{day: day, month: monthOf(day)}
	if p.usage != nil {
		k.used.today = p.usage.Today(id, now, p.opt.Count)
		k.used.months = p.usage.Month(id, now, p.opt.Count)
	}
}

func (t *tier) configure(now time.Time, ot Tier, count Weights) {
	t.Tier, t.keys = ot, nil
	switch {
	case ot.Breaker == nil:
		t.breaker = nil
	case t.breaker == nil:
		t.breaker = newBreaker(*ot.Breaker)
	default:
		t.breaker.configure(*ot.Breaker)
	}
	switch {
	case ot.Guard == nil:
		t.guard = nil
	case t.guard == nil:
		t.guard = newGuard(*ot.Guard, count, now)
	default:
		t.guard.configure(now, *ot.Guard, count)
	}
}

// forget drops what belongs to keys that are gone.
func (p *Pool) forget() {
	ids := map[string]bool{}
	for _, t := range p.tiers {
		for _, k := range t.keys {
			ids[k.ID] = true
		}
	}
	for k := range p.cool.m {
		if !ids[k.key] {
			delete(p.cool.m, k)
		}
	}
	for k, b := range p.sessions.m {
		if t := p.findTier(k.tier); t == nil || t.find(b.key) == nil {
			delete(p.sessions.m, k)
			p.sessions.changed = true
		}
	}
}

// Past is what one answer of a tier used.
type Past struct {
	At     time.Time
	Tier   string
	Tokens Tokens
}

// Backfill gives guards whose windows are not complete what was used before they began. read calls each for what was
// used from since on, oldest first; what came after the windows began is left out, they have counted it themselves.
func (p *Pool) Backfill(read func(since time.Time, each func(Past)) error) error {
	p.mu.Lock()
	now := p.now()
	from, before := map[string]time.Time{}, map[string]time.Time{}
	var since time.Time
	for _, t := range p.tiers {
		if t.guard == nil {
			continue
		}
		if at := t.guard.missing(now); !at.IsZero() {
			from[t.Name], before[t.Name] = at, t.guard.complete
			if since.IsZero() || at.Before(since) {
				since = at
			}
		}
	}
	p.mu.Unlock()
	if len(from) == 0 {
		return nil
	}
	past := map[string][]minute{}
	err := read(since, func(e Past) {
		if at, ok := from[e.Tier]; !ok || e.At.Before(at) || !e.At.Before(before[e.Tier]) {
			return
		}
		minutes, at := past[e.Tier], minuteOf(e.At)
		if n := len(minutes); n > 0 && minutes[n-1].at >= at {
			minutes[n-1].tokens.add(e.Tokens)
		} else {
			past[e.Tier] = append(minutes, minute{at, e.Tokens})
		}
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	for name := range from {
		t := p.findTier(name)
		if t == nil || t.guard == nil || !t.guard.complete.Equal(before[name]) {
			continue // reconfigured meanwhile
		}
		t.guard.fill(p.now(), past[name])
	}
	return err
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

func (p *Pool) findKey(id string) *key {
	for _, t := range p.tiers {
		if k := t.find(id); k != nil {
			return k
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

// Reset clears the cooldowns, seen limits, breakers and guards of the tier and of the key with the name, of all where it
// is "". It returns a *NameError when there is neither.
func (p *Pool) Reset(name string) error {
	return p.clear("key and no tier", name, func(id string) bool { return name == "" || id == name }, func(tier string) bool { return name == "" || tier == name })
}

// ResetKey clears the cooldowns and the seen limits of a key. It returns a *NameError when there is no such key.
func (p *Pool) ResetKey(id string) error {
	return p.clear("key", id, func(key string) bool { return key == id }, func(string) bool { return false })
}

// ResetTier clears breaker and guard of a tier and what its keys have earned. It returns a *NameError when there is no
// such tier.
func (p *Pool) ResetTier(name string) error {
	return p.clear("tier", name, func(string) bool { return false }, func(tier string) bool { return tier == name })
}

// clear resets the keys and tiers that are meant.
func (p *Pool) clear(what, name string, isKey, isTier func(string) bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := name == ""
	now := p.now()
	for _, t := range p.tiers {
		whole := isTier(t.Name)
		if whole {
			found = true
			t.since = now
			if t.breaker != nil {
				t.breaker.reset()
			}
			if t.guard != nil {
				t.guard.reset(now)
			}
		}
		for _, k := range t.keys {
			if whole || isKey(k.ID) {
				found = true
				k.since, k.seen = now, nil
				p.cool.clear(k.ID)
			}
		}
	}
	if !found {
		return &NameError{what, name}
	}
	p.wake()
	return nil
}

// NameError says that nothing has the name.
type NameError struct{ what, name string }

func (e *NameError) Error() string { return fmt.Sprintf("no %s is named %q", e.what, e.name) }

// Enable switches a key on or off until the next Configure. A key that lacks its credential cannot be switched on. It
// returns a *NameError when there is no such key.
func (p *Pool) Enable(id string, on bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.findKey(id)
	switch {
	case k == nil:
		return &NameError{"key", id}
	case on && k.Incomplete:
		return fmt.Errorf("the key %q cannot be enabled: %s", id, k.DisabledReason)
	}
	k.Disabled = !on
	if k.DisabledReason = ""; !on {
		k.DisabledReason = "switched off by the operator"
	}
	p.wake()
	return nil
}

// Unbind forgets the keys of a session, by its hash; it reports whether there were any.
func (p *Pool) Unbind(session string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := false
	for k := range p.sessions.m {
		if k.session == session {
			delete(p.sessions.m, k)
			p.sessions.changed, found = true, true
		}
	}
	return found
}
