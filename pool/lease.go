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

	Speaks []string // only keys that speak one of these dialects; nil = any
	Key    string   // only this key, where what is asked for lives in its account; "" = any

	Skipped []Skip // keys that a gate refused, for the journal

	tried  []string
	waited bool
	// The tier in which attempts failed in a way that its breaker counts, until the request leaves it; and its probe.
	failing *tier
	probe   uint64
	counted []*tier // whose breakers have heard of this request's failure
	// The tier whose guard has let the request in as a probe, and the probe: it is for all its attempts there.
	asking *tier
	asked  uint64
}

// Skip is a key that was passed over, or a whole tier where Key is "".
type Skip struct {
	Tier, Key string
	Gate      Gate
}

func (w *Want) skip(tier, key string, g Gate) {
	for _, s := range w.Skipped {
		if s.Tier == tier && s.Key == key && s.Gate == g {
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
	probe    uint64   // of the tier's breaker
	asked    uint64   // the probe of the tier's guard
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
		if !ex.Next.IsZero() && ex.Next.Before(deadline) {
			until = ex.Next
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

// blocked is a key that a gate of its own refused.
type blocked struct {
	gate  Gate
	until time.Time
}

// survey is what a tier has for a request.
type survey struct {
	open    []candidate
	blocked []blocked
	tried   int
}

func (s *survey) serving() int { return len(s.open) + len(s.blocked) + s.tried }

// look asks the gates of a tier's keys.
func (p *Pool) look(now time.Time, t *tier, w *Want, s *survey) {
	s.open, s.blocked, s.tried = s.open[:0], s.blocked[:0], 0
	for _, k := range t.keys {
		upstream, ok := w.serves(t, k)
		if !ok || !w.Scope.Has(k.ID) {
			continue
		}
		if slices.Contains(w.tried, k.ID) {
			s.tried++
			continue
		}
		if g, until := p.gate(now, k, k.holder(w.Credential), upstream); g != gateOpen {
			s.blocked = append(s.blocked, blocked{g, until})
			w.skip(t.Name, k.ID, g)
			continue
		}
		s.open = append(s.open, candidate{k, upstream})
	}
}

// pick goes through the tiers in order; the caller holds the lock.
func (p *Pool) pick(now time.Time, w *Want) (*Lease, error) {
	ex := &ExhaustedError{now: now}
	serving := 0
	var open [16]candidate
	s := survey{open: open[:0]}
	for i, t := range p.tiers {
		p.look(now, t, w, &s)
		serving += s.serving()
		if s.serving() == 0 && len(t.keys) > 0 {
			w.skip(t.Name, "", t.absent(w))
			continue
		}
		g, until := gateOpen, time.Time{}
		if len(s.open)+len(s.blocked) > 0 {
			g, until = p.refusal(now, i, w)
		}
		if len(s.open) == 0 || g != gateOpen {
			if len(s.open) > 0 {
				w.skip(t.Name, "", g)
			}
			ex.add(&s, g, until)
			continue
		}
		return p.grant(now, t, p.choose(now, t, s.open, w), w), nil
	}
	if serving == 0 {
		return nil, &ModelError{Model: w.Model, Near: p.near(w)}
	}
	return nil, ex
}

func (p *Pool) grant(now time.Time, t *tier, c candidate, w *Want) *Lease {
	l := &Lease{
		Tier: t.Name, Key: c.ID, Provider: c.Provider, UpstreamModel: c.upstream, Passthrough: c.Passthrough,
		p: p, t: t, k: c.key, want: w, began: now,
	}
	if w.failing != nil && w.failing != t {
		p.leave(now, w, w.failing)
	}
	if t.breaker != nil {
		if l.probe = w.probe; !w.holds(t) {
			l.probe = t.breaker.enter()
		}
	}
	if t.guard != nil {
		if !w.probes(t) {
			w.asking, w.asked = t, t.guard.enter(now)
		}
		l.asked = w.asked
	}
	w.tried = append(w.tried, c.ID)
	c.inFlight++
	c.lastUsed = now
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
	now := p.now()
	p.cool.success(l.k.ID, l.k.holder(l.want.Credential), l.UpstreamModel)
	if l.want.failing == l.t {
		l.want.failing, l.want.probe = nil, 0
	}
	if l.t.breaker != nil {
		l.t.breaker.success(l.probe)
	}
	if l.t.guard != nil {
		l.t.guard.success(now, l.asked)
	}
	if l.t.Strategy == SessionSticky {
		l.hold(p.sessions.bind(now, l.want.Session, l.t.Name, l.k.ID))
	}
	if l.t.Return == ReturnIdle {
		p.returned(now, l)
	}
	if l.probe != 0 || l.asked != 0 {
		p.wake()
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
	n := p.opt.Count.of(tokens)
	l.k.used.add(dayOf(now), n)
	if o.Class != OK && !l.began.Before(l.k.since) {
		p.report(now, l, o)
	}
	p.settle(now, l, o)
	if l.t.guard != nil {
		l.t.guard.add(now, tokens)
	}
	if l.accepted && o.Class == OK && l.t.Strategy == SessionSticky {
		p.follow(now, l)
	}
	p.wake()
}

// report cools what failed.
func (p *Pool) report(now time.Time, l *Lease, o Outcome) {
	if l.UpstreamModel == "" && (o.Class == RateLimit && !o.KeyWide || o.Class == Overload) {
		return // a request without a model says nothing of those with one
	}
	lone := !p.anotherUsable(now, l)
	if l.Passthrough && lone {
		switch o.Class {
		case Credential, RateLimit, Cap:
			return // the caller's own credential and nothing else to use: the answer is the client's own
		}
	}
	if o.Class == Cap && !l.Passthrough && l.t.guard != nil && !p.anotherInTier(now, l) {
		l.t.guard.cap(now, l.began, p.cool.spread(o.Reset)) // the guard rules the tier's last key
		return
	}
	p.cool.fail(now, l.began, l.k.ID, l.k.holder(l.want.Credential), l.UpstreamModel, o, lone)
}

// anotherUsable reports whether a key of the caller's scope beside the lease's could serve the model right now.
func (p *Pool) anotherUsable(now time.Time, l *Lease) bool {
	for i, t := range p.tiers {
		for _, k := range t.keys {
			if k == l.k || !l.want.Scope.Has(k.ID) || p.usable(now, t, k, l.want) != gateOpen {
				continue
			}
			if g, _ := p.refusal(now, i, l.want); t == l.t || g == gateOpen || g == GateReturn {
				return true
			}
		}
	}
	return false
}

// anotherInTier reports whether a key of the lease's tier beside its own could serve the model, for whomever; a busy
// one soon.
func (p *Pool) anotherInTier(now time.Time, l *Lease) bool {
	return slices.ContainsFunc(l.t.keys, func(k *key) bool {
		if k == l.k {
			return false
		}
		g := p.usable(now, l.t, k, l.want)
		return g == gateOpen || g == GateBusy
	})
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
		upstream, ok := w.serves(l.t, old)
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
