package pool

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	mostSeen        = 16 // limits that are kept of one key
	longestSeenName = 32
)

// Seen is a limit of a provider as one of its answers told it. What the answer did not tell is nil or zero.
type Seen struct {
	Name        string    `json:"name"` // what is limited or for how long: "requests", "input-tokens", "5h", "7d_oi"
	Limit       *float64  `json:"limit,omitempty"`
	Remaining   *float64  `json:"remaining,omitempty"`
	UsedPercent *float64  `json:"used_percent,omitempty"`
	Reset       time.Time `json:"reset,omitzero"`
	Status      string    `json:"status,omitempty"` // "allowed", "allowed_warning" or "rejected"
	At          time.Time `json:"seen"`             // when it was told
}

// IsSeenName reports whether a limit may be kept by the name: it is shown, and comes from a provider.
func IsSeenName(name string) bool {
	return name != "" && len(name) <= longestSeenName && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

// Saw keeps the limits that an answer to the lease told. Of a key that passes its callers' credentials on none are
// kept: they are of as many accounts as there are callers.
func (l *Lease) Saw(limits []Seen) {
	if len(limits) == 0 || l.Passthrough {
		return
	}
	p := l.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.began.Before(l.k.since) {
		return // of a credential that may be another one since
	}
	now := p.now()
	for _, s := range limits {
		s.At = now
		l.k.see(s)
	}
}

// see keeps one limit; the one that was told longest ago makes room.
func (k *key) see(s Seen) {
	if !IsSeenName(s.Name) {
		return
	}
	if k.seen == nil {
		k.seen = map[string]Seen{}
	}
	if _, ok := k.seen[s.Name]; !ok && len(k.seen) >= mostSeen {
		oldest := slices.MinFunc(k.limits(), func(a, b Seen) int { return a.At.Compare(b.At) })
		delete(k.seen, oldest.Name)
	}
	k.seen[s.Name] = s
}

// limits are the limits that were seen, by name.
func (k *key) limits() []Seen {
	return slices.SortedFunc(maps.Values(k.seen), func(a, b Seen) int { return cmp.Compare(a.Name, b.Name) })
}

// restoreSeen takes over what a file says of the limits of keys.
func (p *Pool) restoreSeen(now time.Time, limits map[string][]Seen) {
	for id, seen := range limits {
		k := p.findKey(id)
		if k == nil || k.Passthrough {
			continue
		}
		for _, s := range seen {
			if s.At.After(now) { // the clock has stepped back
				s.At = now
			}
			k.see(s)
		}
	}
}
