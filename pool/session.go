package pool

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// maxBindings bounds the memory that made-up session ids can take.
const maxBindings = 100_000

// bindingKey is one conversation of one caller in one tier. Session ids are kept hashed.
type bindingKey struct {
	session string
	tier    string
}

type binding struct {
	key      string
	lastSeen time.Time
	left     time.Time // when a tier before served the session again
	active   int       // leases that are open
	mixture  Mixture   // of entries of sessions.mixed
}

// sessions has the bindings of a pool; the pool's lock guards it.
type sessions struct {
	m       map[bindingKey]*binding
	owned   map[string]*binding // ids that live in the account of a key, hashed with their caller
	mixed   map[string]*binding // sessions whose history holds marks of several providers; without a key
	idle    time.Duration
	changed bool // since the last snapshot
}

// SessionHash is how a session of a caller is stored and shown: 32 hex digits, or "" for no session.
func SessionHash(caller, session string) string {
	if session == "" {
		return ""
	}
	h := sha256.New()
	h.Write([]byte(caller))
	h.Write([]byte{0})
	h.Write([]byte(session))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// get returns the live binding, or nil.
func (s *sessions) get(now time.Time, session, tier string) *binding {
	if session == "" {
		return nil
	}
	k := bindingKey{session, tier}
	b := s.m[k]
	if b != nil && now.Sub(b.lastSeen) > s.idle {
		delete(s.m, k)
		s.changed = true
		return nil
	}
	return b
}

// bind writes a binding where there is none, and returns the one that there is then; nil without a session.
func (s *sessions) bind(now time.Time, session, tier, key string) *binding {
	if b := s.get(now, session, tier); b != nil || session == "" {
		return b
	}
	if len(s.m) >= maxBindings {
		s.prune(now)
	}
	b := &binding{key: key, lastSeen: now}
	s.m[bindingKey{session, tier}] = b
	s.changed = true
	return b
}

// coldest returns the binding of the key whose cache has gone cold most recently: it is the likeliest to come back.
func (s *sessions) coldest(now time.Time, tier, key string) *binding {
	var found *binding
	var id string
	for k, b := range s.m {
		if k.tier != tier || b.key != key || b.active > 0 || now.Sub(b.lastSeen) <= coldAfter || now.Sub(b.lastSeen) > s.idle {
			continue
		}
		if found == nil || b.lastSeen.After(found.lastSeen) || b.lastSeen.Equal(found.lastSeen) && k.session < id {
			found, id = b, k.session
		}
	}
	return found
}

// prune drops idle bindings, and the older half of all when that is not enough.
func (s *sessions) prune(now time.Time) {
	s.forget(s.owned, now)
	s.forget(s.mixed, now)
	var sum time.Duration
	for k, b := range s.m {
		if now.Sub(b.lastSeen) > s.idle {
			delete(s.m, k)
			s.changed = true
			continue
		}
		sum += now.Sub(b.lastSeen) / maxBindings
	}
	if len(s.m) < maxBindings {
		return
	}
	mean := sum
	for k, b := range s.m {
		if now.Sub(b.lastSeen) >= mean {
			delete(s.m, k)
		}
	}
	s.changed = true
}

// count returns how many live sessions are bound to each key.
func (s *sessions) count(now time.Time) map[string]int {
	n := map[string]int{}
	for _, b := range s.m {
		if now.Sub(b.lastSeen) <= s.idle {
			n[b.key]++
		}
	}
	return n
}
