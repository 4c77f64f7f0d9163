package pool

import (
	"slices"
	"time"
)

// maxOwned bounds each map. An owned id takes two entries, and where a map is full its older half goes: the 10,000 newest
// ids always stay.
const maxOwned = 40_000

// serves reports whether the key may serve the request, its scope and gates aside, and the upstream's model name. What
// lives in one account needs no model.
func (w *Want) serves(t *tier, k *key) (upstream string, ok bool) {
	switch {
	case !w.takes(k):
		return "", false
	case w.Key != "" && w.Model == "":
		return "", true
	}
	return t.serves(k, w.Model)
}

func (w *Want) takes(k *key) bool {
	if w.Key != "" && k.ID != w.Key {
		return false
	}
	return len(w.Speaks) == 0 || slices.ContainsFunc(k.Protocols, func(p string) bool { return slices.Contains(w.Speaks, p) })
}

// absent says why a tier has no key for the request: what bars the key that comes the furthest.
func (t *tier) absent(w *Want) Gate {
	why := GateDialect
	if w.Key != "" {
		why = GatePinned
	}
	for _, k := range t.keys {
		if _, ok := w.serves(t, k); ok {
			return GateScope
		}
		if w.takes(k) {
			why = GateModel
		}
	}
	return why
}

// Own remembers that an id of a caller, of a stored response for instance, lives in the account of a key.
func (p *Pool) Own(caller, id, key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sessions.note(p.sessions.owned, SessionHash(caller, id), binding{key: key, lastSeen: p.now()})
	p.sessions.note(p.sessions.owned, SessionHash(anybody, id), binding{key: key, lastSeen: p.now()})
}

// anybody stands for the caller in the entry that says that an id is known at all. No caller has such a code.
const anybody = "\x00"

// Whereabouts says what is known of an id that lives in one account.
type Whereabouts uint8

// The whereabouts.
const (
	Elsewhere Whereabouts = iota // with another caller, or in one of several accounts
	Nowhere                      // no key of the scope speaks the dialect
	Gone                         // in an account whose key is not there any more
	Here                         // in the account of a key
)

// Owner returns the key in whose account an id of the caller lives. One that was never seen lives with the only key of
// the scope that speaks the dialect, where there is just one.
func (p *Pool) Owner(caller, id, dialect string, s Scope) (key string, at Whereabouts) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, mine := p.sessions.owned[SessionHash(caller, id)]
	known := p.sessions.owned[SessionHash(anybody, id)]
	switch {
	case mine:
		b.lastSeen = p.now()
		if known != nil {
			known.lastSeen = b.lastSeen
		}
		p.sessions.changed = true
		if p.findKey(b.key) == nil {
			return b.key, Gone
		}
		return b.key, Here
	case known != nil:
		return "", Elsewhere
	}
	return p.only(dialect, s)
}

// only returns the one key of the scope that speaks the dialect.
func (p *Pool) only(dialect string, s Scope) (key string, at Whereabouts) {
	at = Nowhere
	for _, t := range p.tiers {
		for _, k := range t.keys {
			switch {
			case !s.Has(k.ID) || !slices.Contains(k.Protocols, dialect):
			case at == Here:
				return "", Elsewhere
			default:
				key, at = k.ID, Here
			}
		}
	}
	return key, at
}

// Mixture says what a session's history holds of several providers.
type Mixture uint8

// The mixtures.
const (
	MixedNever   Mixture = iota
	MixedCrossed         // answers that were converted
	MixedRefused         // opaque state that a provider refused
)

// Mix remembers what a session's history holds; it never becomes less.
func (p *Pool) Mix(session string, m Mixture) {
	if session == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if b := p.sessions.mixed[session]; b != nil {
		m = max(m, b.mixture)
		if m == b.mixture {
			b.lastSeen, p.sessions.changed = p.now(), true
			return
		}
	}
	p.sessions.note(p.sessions.mixed, session, binding{mixture: m, lastSeen: p.now()})
}

// Mixed returns what Mix was told of the session.
func (p *Pool) Mixed(session string) Mixture {
	if session == "" {
		return MixedNever
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.sessions.mixed[session]
	if b == nil {
		return MixedNever
	}
	b.lastSeen, p.sessions.changed = p.now(), true
	return b.mixture
}

// note keeps an entry of a map that is bounded by age: where it is full, the older half goes.
func (s *sessions) note(m map[string]*binding, id string, b binding) {
	if len(m) >= maxOwned {
		seen := make([]time.Time, 0, len(m))
		for _, e := range m {
			seen = append(seen, e.lastSeen)
		}
		slices.SortFunc(seen, time.Time.Compare)
		for k, e := range m {
			if !e.lastSeen.After(seen[len(seen)/2]) {
				delete(m, k)
			}
		}
	}
	m[id] = &b
	s.changed = true
}

// forget drops what was not used for as long as sessions are kept.
func (s *sessions) forget(m map[string]*binding, now time.Time) {
	for k, b := range m {
		if now.Sub(b.lastSeen) > s.idle {
			delete(m, k)
			s.changed = true
		}
	}
}
