package pool

import (
	"context"
	"slices"
	"time"
)

// Scope is the set of key ids that a caller may use. The zero Scope has none: a caller without limits gets Everything.
type Scope struct {
	all  bool
	keys map[string]bool
}

// Everything is the scope of a caller that no group limits.
func Everything() Scope { return Scope{all: true} }

// Only is the scope of the given key ids, possibly none.
func Only(ids ...string) Scope {
	s := Scope{keys: make(map[string]bool, len(ids))}
	for _, id := range ids {
		s.keys[id] = true
	}
	return s
}

// Has reports whether the key is in the scope.
func (s Scope) Has(key string) bool { return s.all || s.keys[key] }

// Want is what one request asks of the pool. It lives for the whole request: Lease keeps in it what it tried.
type Want struct {
	Scope      Scope
	Model      string // resolved model
	Session    string // the client's session id; "" binds nothing
	Credential string // hash of the caller's own credential, for passthrough keys; "" = none

	Skipped []Skip // keys that a gate refused, for the journal

	tried  []string
	waited bool
}

// Skip is a key that was passed over.
type Skip struct {
	Tier, Key string
	Gate      Gate
}

func (w *Want) skip(tier, key string, g Gate) {
	for _, s := range w.Skipped {
		if s.Key == key && s.Gate == g {
			return
		}
	}
	w.Skipped = append(w.Skipped, Skip{tier, key, g})
}

// Lease is the permission to send one attempt with one key. Close it exactly once.
type Lease struct {
	Tier          string
	Key           string
	Provider      string
	UpstreamModel string
	Passthrough   bool

	p        *Pool
	t        *tier
	k        *key
	want     *Want
	session  *binding // the session's, nil while it has none
	began    time.Time
	accepted bool
	closed   bool
}

// Lease picks a key for the request, or waits up to Options.MaxWait for one that will soon be free. A key that the
// request already had is not given again. Errors: *ModelError, *ExhaustedError, or ctx's.
func (p *Pool) Lease(ctx context.Context, w *Want) (*Lease, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	deadline := now.Add(p.opt.MaxWait)
	for waited := w.waited; ; {
		l, err := p.pick(now, w)
		if err == nil {
			return l, nil
		}
		ex, ok := err.(*ExhaustedError)
		if !ok || waited || !now.Before(deadline) || !ex.worthWaiting(deadline) {
			return nil, err
		}
		w.waited = true
		until := deadline
		if !ex.soon.IsZero() && ex.soon.Before(deadline) {
			until = ex.soon
		}
		if err := p.wait(ctx, until.Sub(now)); err != nil {
			return nil, err
		}
		now = p.now()
	}
}

// wait gives the lock up until d has passed or something became free.
func (p *Pool) wait(ctx context.Context, d time.Duration) error {
	p.waiters++
	freed := p.freed
	p.mu.Unlock()
	timer := time.NewTimer(max(d, time.Millisecond))
	defer timer.Stop()
	var err error
	select {
	case <-timer.C:
	case <-freed:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	p.mu.Lock()
	p.waiters--
	return err
}

// wake tells those who wait to look again.
func (p *Pool) wake() {
	if p.waiters > 0 {
		close(p.freed)
		p.freed = make(chan struct{})
	}
}

// candidate is a key that may serve, with the upstream's model name.
type candidate struct {
	*key
	upstream string
}

// pick goes through the tiers in order; the caller holds the lock.
func (p *Pool) pick(now time.Time, w *Want) (*Lease, error) {
	ex := &ExhaustedError{now: now}
	serving := 0
	var buf [16]candidate
	for _, t := range p.tiers {
		open := buf[:0]
		for _, k := range t.keys {
			upstream, ok := k.serves(w.Model)
			if !ok || !w.Scope.Has(k.ID) {
				continue
			}
			serving++
			if slices.Contains(w.tried, k.ID) {
				ex.Tried++
				continue
			}
			if g, until := p.gate(now, k, k.holder(w.Credential), upstream); g != gateOpen {
				ex.count(g, until)
				w.skip(t.Name, k.ID, g)
				continue
			}
			open = append(open, candidate{k, upstream})
		}
		if len(open) == 0 {
			continue
		}
		c := p.choose(now, t, open, w)
		return p.grant(now, t, c, w), nil
	}
	if serving == 0 {
		return nil, &ModelError{Model: w.Model, Near: p.near(w)}
	}
	return nil, ex
}

func (p *Pool) grant(now time.Time, t *tier, c candidate, w *Want) *Lease {
	w.tried = append(w.tried, c.ID)
	c.inFlight++
	c.lastUsed = now
	l := &Lease{
		Tier: t.Name, Key: c.ID, Provider: c.Provider, UpstreamModel: c.upstream, Passthrough: c.Passthrough,
		p: p, t: t, k: c.key, want: w, began: now,
	}
	if t.Strategy == SessionSticky {
		l.hold(p.sessions.get(now, w.Session, t.Name))
	}
	return l
}

// hold keeps the session from counting as an idle one while the lease is open.
func (l *Lease) hold(b *binding) {
	if b != nil && l.session == nil {
		l.session = b
		b.active++
	}
}

// Gate is why a key may not be leased.
type Gate uint8

// The gates, each named by what it says of a key.
const (
	gateOpen Gate = iota
	GateDisabled
	GateCooling
	GateDayLimit
	GateMonthLimit
	GateBusy
)

// gate asks the key's own gates, in the order of design/routing.md; until is the latest of its reasons, zero when
// nobody knows.
func (p *Pool) gate(now time.Time, k *key, holder, upstream string) (Gate, time.Time) {
	k.used.roll(dayOf(now))
	if k.Disabled {
		return GateDisabled, time.Time{}
	}
	g := gateOpen
	if k.MaxConcurrent > 0 && k.inFlight >= k.MaxConcurrent {
		g = GateBusy
	}
	var until time.Time
	if k.MonthlyLimit > 0 && k.used.months >= float64(k.MonthlyLimit) {
		g, until = GateMonthLimit, nextMonth(now)
	}
	if k.DailyLimit > 0 && k.used.today >= float64(k.DailyLimit) {
		g = GateDayLimit
		until = later(until, nextDay(now))
	}
	if t, _ := p.cool.until(now, k.ID, holder, upstream); !t.IsZero() {
		g = GateCooling
		until = later(until, t)
	}
	return g, until
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Again ends the lease and returns one of the same key, and of its slot, for one more attempt of the same request,
// after an outcome that says nothing of the key.
func (l *Lease) Again() *Lease {
	p := l.p
	p.mu.Lock()
	defer p.mu.Unlock()
	n := *l
	l.closed = true
	n.began = p.now()
	return &n
}

// Accept says that the head of the answer proved good: the session is bound if it was not, the streak is cleared.
func (l *Lease) Accept() {
	p := l.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.accepted || l.closed {
		return
	}
	l.accepted = true
	p.cool.success(l.k.ID, l.k.holder(l.want.Credential), l.UpstreamModel)
	if l.t.Strategy == SessionSticky {
		l.hold(p.sessions.bind(p.now(), l.want.Session, l.t.Name, l.k.ID))
	}
}

// Close ends the lease: frees its slot, counts tokens and reports a failure. An accepted lease that ends well moves
// the session here if its old key cannot serve it any more.
func (l *Lease) Close(o Outcome, tokens Tokens) {
	p := l.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.closed {
		return
	}
	l.closed = true
	now := p.now()
	if l.session != nil {
		l.session.active--
		l.session.lastSeen = now
	}
	l.k.inFlight--
	l.k.used.add(dayOf(now), p.opt.Count.of(tokens))
	if o.Class != OK {
		p.report(now, l, o)
	}
	if l.accepted && o.Class == OK && l.t.Strategy == SessionSticky {
		p.follow(now, l)
	}
	p.wake()
}

// report cools what failed.
func (p *Pool) report(now time.Time, l *Lease, o Outcome) {
	lone := !p.anotherUsable(now, l)
	if l.Passthrough && lone {
		switch o.Class {
		case Credential, RateLimit, Cap:
			return // the caller's own credential and nothing else to use: the answer is the client's own
		}
	}
	p.cool.fail(now, l.began, l.k.ID, l.k.holder(l.want.Credential), l.UpstreamModel, o, lone)
}

// anotherUsable reports whether a key of the caller's scope beside the lease's could serve the model right now.
func (p *Pool) anotherUsable(now time.Time, l *Lease) bool {
	for _, t := range p.tiers {
		for _, k := range t.keys {
			upstream, ok := k.serves(l.want.Model)
			if !ok || k == l.k || !l.want.Scope.Has(k.ID) {
				continue
			}
			if g, _ := p.gate(now, k, k.holder(l.want.Credential), upstream); g == gateOpen {
				return true
			}
		}
	}
	return false
}

// follow moves the session's binding to the lease's key if the key that it is bound to is cooling, over its limits
// or gone. One passing fault does not send a session wandering.
func (p *Pool) follow(now time.Time, l *Lease) {
	w := l.want
	b := p.sessions.get(now, w.Session, l.t.Name)
	if b == nil || b.key == l.k.ID {
		return
	}
	old := l.t.find(b.key)
	usable := old != nil && w.Scope.Has(old.ID)
	if usable {
		upstream, ok := old.serves(w.Model)
		if !ok {
			return // another model's key: the binding still fits its own model
		}
		g, _ := p.gate(now, old, old.holder(w.Credential), upstream)
		usable = g == gateOpen || g == GateBusy
	}
	if !usable {
		b.key, b.lastSeen = l.k.ID, now
		p.sessions.changed = true
	}
}

// holder is whose credential goes with the key: "" for the key's own. A caller who sent none is a holder too, whose
// refusals are nobody else's.
func (k *key) holder(credential string) string {
	switch {
	case !k.Passthrough:
		return ""
	case credential == "":
		return "none"
	}
	return credential
}
