package pool

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Bindings is sessions.json. Sessions has the newest binding of each session, the form that reference 2 reads;
// Tiers has them all.
type Bindings struct {
	Version  int                           `json:"version"`
	Sessions map[string]Binding            `json:"sessions"`
	Tiers    map[string]map[string]Binding `json:"tiers"` // session → tier → binding
}

// Binding is one session's key.
type Binding struct {
	KeyID    string    `json:"key_id"`
	LastSeen time.Time `json:"last_seen"`
}

// Cooldowns is state.json: what cools, and the streaks. States of a caller's own credential are left out.
type Cooldowns struct {
	Version   int             `json:"version"`
	Cooldowns []CooldownState `json:"cooldowns"`
}

// CooldownState is one cooldown.
type CooldownState struct {
	Key      string    `json:"key"`
	Model    string    `json:"model,omitempty"`
	Until    time.Time `json:"until"`
	Reason   string    `json:"reason"`
	Set      time.Time `json:"set"`
	Rate     int       `json:"rate,omitempty"`
	Overload int       `json:"overload,omitempty"`
	Fault    int       `json:"fault,omitempty"`
}

// SnapshotSessions returns sessions.json if a binding has changed since the last call, else nil.
func (p *Pool) SnapshotSessions() *Bindings {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sessions.prune(p.now())
	if !p.sessions.changed {
		return nil
	}
	p.sessions.changed = false
	out := &Bindings{Version: 1, Sessions: map[string]Binding{}, Tiers: map[string]map[string]Binding{}}
	for k, b := range p.sessions.m {
		v := Binding{b.key, b.lastSeen}
		if out.Tiers[k.session] == nil {
			out.Tiers[k.session] = map[string]Binding{}
		}
		out.Tiers[k.session][k.tier] = v
		if v.LastSeen.After(out.Sessions[k.session].LastSeen) {
			out.Sessions[k.session] = v
		}
	}
	return out
}

// KeepSessions makes the next SnapshotSessions return the bindings again, after a write that failed.
func (p *Pool) KeepSessions() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sessions.changed = true
}

// RestoreSessions reads sessions.json. Bindings to keys that are gone are dropped.
func (p *Pool) RestoreSessions(data []byte) error {
	var in Bindings
	if err := json.Unmarshal(data, &in); err != nil {
		return fmt.Errorf("sessions: %w", err)
	}
	if in.Version > 1 {
		return fmt.Errorf("sessions: version %d is newer than this program", in.Version)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for session, b := range in.Sessions {
		for _, t := range p.tiers {
			if t.find(b.KeyID) != nil && session != "" {
				p.sessions.m[bindingKey{session, t.Name}] = &binding{key: b.KeyID, lastSeen: b.LastSeen}
			}
		}
	}
	for session, tiers := range in.Tiers {
		for name, b := range tiers {
			if t := p.findTier(name); t != nil && t.find(b.KeyID) != nil && session != "" {
				p.sessions.m[bindingKey{session, name}] = &binding{key: b.KeyID, lastSeen: b.LastSeen}
			}
		}
	}
	p.sessions.prune(p.now())
	return nil
}

// SnapshotCooldowns returns state.json.
func (p *Pool) SnapshotCooldowns() *Cooldowns {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := &Cooldowns{Version: 1, Cooldowns: []CooldownState{}}
	now := p.now()
	for k, e := range p.cool.m {
		if k.credential == "" && (e.until.After(now) || e.streak() > 0) {
			out.Cooldowns = append(out.Cooldowns, CooldownState{k.key, k.model, e.until, e.reason.String(), e.set, e.rate, e.overload, e.fault})
		}
	}
	slices.SortFunc(out.Cooldowns, func(a, b CooldownState) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Model, b.Model))
	})
	return out
}

// RestoreCooldowns reads state.json.
func (p *Pool) RestoreCooldowns(data []byte) error {
	var in Cooldowns
	if err := json.Unmarshal(data, &in); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	if in.Version > 1 {
		return fmt.Errorf("state: version %d is newer than this program", in.Version)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	latest := now.Add(longestReset)
	for _, s := range in.Cooldowns {
		if len(p.cool.m) >= maxCooldowns || s.Until.After(latest) {
			continue
		}
		if s.Set.After(now) { // the clock has stepped back
			s.Set = now
		}
		p.cool.m[coolKey{key: s.Key, model: s.Model}] = &cooldown{
			until: s.Until, reason: classOf(s.Reason), set: s.Set,
			rate: max(s.Rate, 0), overload: max(s.Overload, 0), fault: max(s.Fault, 0),
		}
	}
	return nil
}

func classOf(word string) Class {
	for c := OK; c <= UnknownModel; c++ {
		if c.String() == word {
			return c
		}
	}
	return Fault
}
