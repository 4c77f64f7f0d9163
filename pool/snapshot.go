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
	Tiers    map[string]map[string]Binding `json:"tiers"`           // session → tier → binding
	IDs      map[string]Binding            `json:"ids,omitempty"`   // hashed id → the key in whose account it lives
	Mixed    map[string]Mixed              `json:"mixed,omitempty"` // sessions with a mixed history
}

// Mixed is a session whose history holds marks of several providers; Refused: one of them has refused some.
type Mixed struct {
	LastSeen time.Time `json:"last_seen"`
	Refused  bool      `json:"refused,omitempty"`
}

// Binding is one session's key.
type Binding struct {
	KeyID    string    `json:"key_id"`
	LastSeen time.Time `json:"last_seen"`
	Left     time.Time `json:"left,omitzero"` // when a tier before served the session again
}

// State is state.json: what cools, the streaks, the states of the tiers by name, and the limits that providers told, by
// key. Cooldowns of a caller's own credential are left out.
type State struct {
	Version   int                     `json:"version"`
	Cooldowns []CooldownState         `json:"cooldowns"`
	Breakers  map[string]BreakerState `json:"breakers"`
	Guards    map[string]GuardState   `json:"quota_guards"`
	Limits    map[string][]Seen       `json:"upstream_limits,omitempty"`
}

// BreakerState is the breaker of a tier, unless it is closed and without failures.
type BreakerState struct {
	State           string    `json:"state"`
	Failures        int       `json:"failures,omitempty"`
	Successes       int       `json:"successes,omitempty"`
	RecoverySeconds float64   `json:"recovery_seconds"`
	Opened          time.Time `json:"opened,omitzero"`
}

// GuardState is the quota guard of a tier. What its windows hold is in the journal.
type GuardState struct {
	State   string    `json:"state"`
	By      string    `json:"by,omitempty"`
	End     time.Time `json:"end,omitzero"`
	ProbeAt time.Time `json:"probe_at,omitzero"`
	From    time.Time `json:"counts_from,omitzero"` // the last reset
}

// CooldownState is one cooldown.
type CooldownState struct {
	Key      string    `json:"key"`
	Model    string    `json:"model,omitempty"`
	Family   string    `json:"family,omitempty"`
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
	out := &Bindings{Version: 1, Sessions: map[string]Binding{}, Tiers: map[string]map[string]Binding{},
		IDs: map[string]Binding{}, Mixed: map[string]Mixed{}}
	for id, b := range p.sessions.owned {
		out.IDs[id] = Binding{KeyID: b.key, LastSeen: b.lastSeen}
	}
	for session, b := range p.sessions.mixed {
		out.Mixed[session] = Mixed{b.lastSeen, b.mixture == MixedRefused}
	}
	for k, b := range p.sessions.m {
		v := Binding{b.key, b.lastSeen, b.left}
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
				p.sessions.m[bindingKey{session, name}] = &binding{key: b.KeyID, lastSeen: b.LastSeen, left: b.Left}
			}
		}
	}
	for id, b := range in.IDs {
		p.sessions.note(p.sessions.owned, id, binding{key: b.KeyID, lastSeen: b.LastSeen})
	}
	for session, m := range in.Mixed {
		b := binding{lastSeen: m.LastSeen, mixture: MixedCrossed}
		if m.Refused {
			b.mixture = MixedRefused
		}
		p.sessions.note(p.sessions.mixed, session, b)
	}
	p.sessions.prune(p.now())
	return nil
}

// SnapshotState returns state.json.
func (p *Pool) SnapshotState() *State {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := &State{Version: 1, Cooldowns: []CooldownState{}, Breakers: map[string]BreakerState{}, Guards: map[string]GuardState{}}
	now := p.now()
	for k, e := range p.cool.m {
		if k.credential == "" && (e.until.After(now) || e.streak() > 0) {
			model := k.model
			if k.family != "" {
				model = e.model
			}
			out.Cooldowns = append(out.Cooldowns, CooldownState{k.key, model, k.family, e.until, e.reason.String(), e.set, e.rate, e.overload, e.fault})
		}
	}
	slices.SortFunc(out.Cooldowns, func(a, b CooldownState) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Family, b.Family))
	})
	for _, t := range p.tiers {
		for _, k := range t.keys {
			if len(k.seen) > 0 {
				if out.Limits == nil {
					out.Limits = map[string][]Seen{}
				}
				out.Limits[k.ID] = k.limits()
			}
		}
		if b := t.breaker; b != nil && (b.state != closed || b.failures > 0) {
			out.Breakers[t.Name] = b.snapshot()
		}
		if g := t.guard; g != nil && (g.state != within || !g.from.IsZero()) {
			out.Guards[t.Name] = g.snapshot()
		}
	}
	return out
}

// RestoreState reads state.json.
func (p *Pool) RestoreState(data []byte) error {
	var in State
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
		of := coolKey{key: s.Key, model: s.Model}
		if s.Family != "" {
			of = coolKey{key: s.Key, family: s.Family}
		}
		p.cool.m[of] = &cooldown{
			until: s.Until, reason: classOf(s.Reason), set: s.Set, model: s.Model,
			rate: max(s.Rate, 0), overload: max(s.Overload, 0), fault: max(s.Fault, 0),
		}
	}
	p.restoreSeen(now, in.Limits)
	for _, t := range p.tiers {
		if s, ok := in.Breakers[t.Name]; ok && t.breaker != nil {
			t.breaker.restore(s)
		}
		if s, ok := in.Guards[t.Name]; ok && t.guard != nil {
			t.guard.restore(now, s)
		}
	}
	return nil
}

func (b *breaker) snapshot() BreakerState {
	s := BreakerState{State: b.state.String(), Failures: b.failures, Successes: b.successes, RecoverySeconds: b.recovery.Seconds()}
	if b.state == open {
		s.Opened = b.opened
	}
	return s
}

// restore takes over what a file says, as far as it can be true. A probe that was under way is none any more.
func (b *breaker) restore(s BreakerState) {
	b.reset()
	b.failures = min(max(s.Failures, 0), b.opt.FailureThreshold)
	switch s.State {
	case open.String():
		b.state, b.opened = open, s.Opened
	case halfOpen.String():
		b.state, b.successes, b.before = halfOpen, min(max(s.Successes, 0), b.opt.SuccessThreshold-1), b.probes
	default:
		b.failures = min(b.failures, b.opt.FailureThreshold-1)
		return
	}
	if r := s.RecoverySeconds; r > b.recovery.Seconds() && r < longestReset.Seconds() {
		b.recovery = min(time.Duration(r*float64(time.Second)), max(b.opt.MaxRecovery, b.opt.Recovery))
	}
}

func (g *guard) snapshot() GuardState {
	s := GuardState{State: "within", From: g.from}
	if g.state != within {
		s = GuardState{"exceeded", g.state.by(), g.end, g.probeAt, g.from}
	}
	return s
}

// restore takes over what a file says. It comes before the windows are filled.
func (g *guard) restore(now time.Time, s GuardState) {
	if s.From.Before(now) {
		g.from = s.From
	}
	switch s.By {
	case overBudget.by():
		g.state = overBudget
	case overCap.by():
		g.state = overCap
	default:
		return
	}
	g.end, g.probeAt = s.End, s.ProbeAt
}

func classOf(word string) Class {
	for c := OK; c <= UnknownModel; c++ {
		if c.String() == word {
			return c
		}
	}
	return Fault
}
