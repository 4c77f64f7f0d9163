package pool

import "time"

// BreakerOptions are the rules of a tier's circuit breaker (design/routing.md, section 7).
type BreakerOptions struct {
	FailureThreshold int           // consecutive failures that open it
	SuccessThreshold int           // consecutive successes that close a half-open one
	Recovery         time.Duration // from open to half-open, at first
	MaxRecovery      time.Duration // what the doubling ends at
}

// DefaultBreaker returns the rules of design/config.md.
func DefaultBreaker() BreakerOptions {
	return BreakerOptions{FailureThreshold: 3, SuccessThreshold: 2, Recovery: 5 * time.Minute, MaxRecovery: time.Hour}
}

type breakerState uint8

const (
	closed breakerState = iota
	open
	halfOpen
)

// String returns the word that the API and state.json use.
func (s breakerState) String() string {
	switch s {
	case open:
		return "open"
	case halfOpen:
		return "half_open"
	}
	return "closed"
}

// breaker is a circuit breaker as a state machine: whoever calls it says what time it is. Half-open it lets one
// request at a time through, whose probe number says later that it was the one; 0 is no probe.
type breaker struct {
	opt       BreakerOptions
	state     breakerState
	failures  int // consecutive, while closed
	successes int // consecutive, while half-open
	recovery  time.Duration
	opened    time.Time
	probe     uint64 // that is under way; 0 = none
	probes    uint64 // ever given
	before    uint64 // probes that were given before it became half-open
}

func newBreaker(o BreakerOptions) *breaker { return &breaker{opt: o, recovery: o.Recovery} }

// sync makes an open breaker half-open when its recovery time is over.
func (b *breaker) sync(now time.Time) {
	if now.Before(b.opened) { // the clock has stepped back
		b.opened = now
	}
	if b.state == open && now.Sub(b.opened) >= b.recovery {
		b.state, b.successes, b.probe, b.before = halfOpen, 0, 0, b.probes
	}
}

// allows reports whether a request would be let in now, and changes nothing that anybody could tell.
func (b *breaker) allows(now time.Time) bool {
	b.sync(now)
	return b.state == closed || b.state == halfOpen && b.probe == 0
}

// enter lets a request in that allows has admitted, and returns its probe.
func (b *breaker) enter() (probe uint64) {
	if b.state != halfOpen || b.probe != 0 {
		return 0
	}
	b.probes++
	b.probe = b.probes
	return b.probe
}

// leave gives the slot of a probe back that said nothing of the provider.
func (b *breaker) leave(probe uint64) {
	if probe != 0 && b.probe == probe {
		b.probe = 0
	}
}

// success counts an answer that proved good. Half-open only the probe's own counts: others began before.
func (b *breaker) success(probe uint64) {
	switch {
	case b.state == closed:
		b.failures = 0
	case b.state == halfOpen && probe != 0 && probe == b.probe:
		b.probe = 0
		if b.successes++; b.successes >= b.opt.SuccessThreshold {
			b.reset()
		}
	}
}

// failure counts a request that had to leave the tier, or broke in it. One that comes in late, while open, does not
// restart the clock; half-open only a probe's counts, also after its head was good.
func (b *breaker) failure(now time.Time, probe uint64) {
	b.sync(now)
	switch {
	case b.state == closed:
		if b.failures++; b.failures >= b.opt.FailureThreshold {
			b.state, b.opened = open, now
		}
	case b.state == halfOpen && probe > b.before:
		b.state, b.opened, b.probe = open, now, 0
		b.recovery = min(2*b.recovery, max(b.opt.MaxRecovery, b.opt.Recovery))
	}
}

// reset closes it as if nothing had happened.
func (b *breaker) reset() {
	b.state, b.failures, b.successes, b.probe, b.recovery = closed, 0, 0, 0, b.opt.Recovery
}

// until returns when an open breaker will be half-open; zero when it is not open.
func (b *breaker) until() time.Time {
	if b.state != open {
		return time.Time{}
	}
	return b.opened.Add(b.recovery)
}

// configure changes the rules and keeps the state.
func (b *breaker) configure(o BreakerOptions) {
	if b.state == closed || b.recovery == b.opt.Recovery {
		b.recovery = o.Recovery
	}
	b.opt = o
	b.recovery = min(b.recovery, max(o.MaxRecovery, o.Recovery))
}

func (b *breaker) view(now time.Time) *BreakerView {
	b.sync(now)
	return &BreakerView{State: b.state.String(), Failures: b.failures, Successes: b.successes, Recovery: b.recovery, Until: b.until()}
}
