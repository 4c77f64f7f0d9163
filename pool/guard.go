package pool

import (
	"slices"
	"time"
)

// GuardOptions are the rules of a tier's quota guard (design/routing.md, section 8). Budgets are in weighted tokens.
type GuardOptions struct {
	Budget        int64         // per Window; 0 = only caps count
	Window        time.Duration // sliding
	WeeklyBudget  int64         // per sliding week; 0 = none
	Threshold     float64       // percent of a budget at which it counts as used up
	ProbeInterval time.Duration // between two probes while exceeded
}

// DefaultGuard returns the rules of design/config.md.
func DefaultGuard() GuardOptions {
	return GuardOptions{Window: 5 * time.Hour, Threshold: 99, ProbeInterval: 5 * time.Minute}
}

const week = 7 * 24 * time.Hour

// minute is what a tier used in one minute. Tokens are kept as they came, so that other weights can be applied.
type minute struct {
	at     int64 // Unix minutes
	tokens Tokens
}

func minuteOf(t time.Time) int64 { return t.Unix() / 60 }

// window is a sliding sum of weighted tokens over a history of minutes: a minute counts until all of it is older than the
// span.
type window struct {
	span  time.Duration // 0 = off
	first int           // index of the oldest minute that counts
	sum   float64
}

// end is when a minute stops to count.
func (w *window) end(m minute) time.Time { return time.Unix((m.at+1)*60, 0).Add(w.span) }

// guard is a quota guard as a state machine: whoever calls it says what time it is. While exceeded it lets one probe
// an interval through, whose number says later that it was one; 0 is no probe.
type guard struct {
	opt          GuardOptions
	count        Weights
	history      []minute // oldest first
	window, week window
	complete     time.Time // what was used after this is in the history
	from         time.Time // what was used before does not count: the last reset

	state   guardState
	since   time.Time // of exceeded by cap
	end     time.Time // of exceeded by cap: the stated end; zero = none stated
	probeAt time.Time // while exceeded: when the next probe may go
	probe   uint64    // number of the last probe
	before  uint64    // number of the last one before this excess
	asked   bool      // the last probe may be given back
}

type guardState uint8

const (
	within guardState = iota
	overBudget
	overCap
)

func newGuard(o GuardOptions, count Weights, now time.Time) *guard {
	g := &guard{complete: now}
	g.configure(now, o, count)
	return g
}

// configure changes the rules and keeps the state and what was counted. Windows that grow lack their oldest part.
func (g *guard) configure(now time.Time, o GuardOptions, count Weights) {
	before := g.span()
	g.opt, g.count = o, count
	g.window.span, g.week.span = 0, 0
	if o.Budget > 0 {
		g.window.span = o.Window
	}
	if o.WeeklyBudget > 0 {
		g.week.span = week
	}
	if g.span() > before {
		g.complete = later(g.complete, now.Add(-before))
	}
	g.sums(now)
}

// span is how far back the history is needed.
func (g *guard) span() time.Duration { return max(g.window.span, g.week.span) }

func (g *guard) windows() [2]*window { return [2]*window{&g.window, &g.week} }

// sums works the windows out anew.
func (g *guard) sums(now time.Time) {
	for _, w := range g.windows() {
		w.first, w.sum = 0, 0
		if w.span > 0 {
			for _, m := range g.history {
				w.sum += g.count.of(m.tokens)
			}
		}
	}
	g.slide(now)
}

// slide moves the windows to the time.
func (g *guard) slide(now time.Time) {
	oldest := len(g.history)
	for _, w := range g.windows() {
		if w.span <= 0 {
			continue
		}
		for w.first < len(g.history) && !w.end(g.history[w.first]).After(now) {
			w.sum -= g.count.of(g.history[w.first].tokens)
			w.first++
		}
		if w.first == len(g.history) {
			w.sum = 0 // exactly, whatever the rounding was
		}
		oldest = min(oldest, w.first)
	}
	g.history = g.history[oldest:]
	g.window.first, g.week.first = max(0, g.window.first-oldest), max(0, g.week.first-oldest)
}

// add counts what an answer used. A clock that steps back counts it into the newest minute.
func (g *guard) add(now time.Time, t Tokens) {
	g.sync(now)
	n := g.count.of(t)
	if n <= 0 || g.span() <= 0 {
		return
	}
	at := minuteOf(now)
	if last := len(g.history) - 1; last >= 0 && g.history[last].at >= at {
		g.history[last].tokens.add(t)
	} else {
		g.history = append(g.history, minute{at, t})
	}
	for _, w := range g.windows() {
		if w.span > 0 {
			w.sum += n
		}
	}
	g.sync(now)
}

func (g *guard) limit(budget int64) float64 { return float64(budget) * g.opt.Threshold / 100 }

// over reports whether a budget is used up.
func (g *guard) over(now time.Time) bool {
	g.slide(now)
	return g.opt.Budget > 0 && g.window.sum >= g.limit(g.opt.Budget) ||
		g.opt.WeeklyBudget > 0 && g.week.sum >= g.limit(g.opt.WeeklyBudget)
}

// sync brings the state up to the time.
func (g *guard) sync(now time.Time) {
	if latest := now.Add(g.opt.ProbeInterval); g.probeAt.After(latest) { // the clock has stepped back
		g.probeAt = latest
	}
	over := g.over(now)
	if g.state == overBudget && !over || g.state == overCap && !g.end.IsZero() && !now.Before(g.end) {
		g.state = within
	}
	if g.state == within && over {
		g.exceed(now, overBudget)
	}
}

func (g *guard) exceed(now time.Time, s guardState) {
	g.state, g.since, g.end, g.asked, g.before, g.probeAt = s, now, time.Time{}, false, g.probe, now.Add(g.opt.ProbeInterval)
}

// allows reports whether a request would be let in now, and changes nothing that anybody could tell.
func (g *guard) allows(now time.Time) bool {
	g.sync(now)
	return g.state == within || !now.Before(g.probeAt)
}

// enter lets a request in that allows has admitted, and returns its probe.
func (g *guard) enter(now time.Time) (probe uint64) {
	if g.state == within {
		return 0
	}
	g.probe++
	g.asked, g.probeAt = true, now.Add(g.opt.ProbeInterval)
	return g.probe
}

// leave gives a probe back that has not reached the provider: the next request may be one at once.
func (g *guard) leave(now time.Time, probe uint64) {
	if g.asked && probe != 0 && probe == g.probe {
		g.asked, g.probeAt = false, now
	}
}

// refused notes that a probe has failed; the next one goes an interval after it went.
func (g *guard) refused(probe uint64) {
	if probe == g.probe {
		g.asked = false
	}
}

// success ends the excess if it was one of its probes'. One by budget begins anew at once while the window is full.
func (g *guard) success(now time.Time, probe uint64) {
	if probe > g.before && g.state != within {
		g.state, g.asked = within, false
		g.sync(now)
	}
}

// cap says that the provider has closed the account; it ends after the stated time, 0 = not stated. began is when the
// attempt began that was told so: parallel ones tell of the same event.
func (g *guard) cap(now, began time.Time, reset time.Duration) {
	if g.state == overCap && began.Before(g.since) {
		return
	}
	if g.state != overCap {
		g.exceed(now, overCap)
	}
	if reset > 0 {
		g.end = now.Add(reset)
	}
}

// reset forgets the excess and what was used.
func (g *guard) reset(now time.Time) {
	g.state, g.asked, g.before, g.from, g.history = within, false, g.probe, now, nil
	g.sums(now)
}

// missing returns since when what was used is missing in the history; the zero time when nothing is.
func (g *guard) missing(now time.Time) time.Time {
	since := later(now.Add(-g.span()-time.Minute), g.from)
	if g.span() <= 0 || !since.Before(g.complete) {
		return time.Time{}
	}
	return since
}

// fill puts what was used before the history began in front of it.
func (g *guard) fill(now time.Time, past []minute) {
	past = slices.DeleteFunc(past, func(m minute) bool { return time.Unix((m.at+1)*60, 0).Before(g.from) }) // reset meanwhile
	g.history, g.complete = slices.Concat(past, g.history), time.Time{}
	g.sums(now)
	g.sync(now)
}

// until returns when an exceeded guard lets the next request in; zero when it is not exceeded.
func (g *guard) until(now time.Time) time.Time {
	g.sync(now)
	if g.state == within {
		return time.Time{}
	}
	until := g.probeAt
	if g.state == overCap && !g.end.IsZero() && g.end.Before(until) {
		until = g.end
	}
	if g.state == overBudget {
		free := g.under(&g.window, g.opt.Budget)
		free = later(free, g.under(&g.week, g.opt.WeeklyBudget))
		if free.Before(until) {
			until = free
		}
	}
	return until
}

// under returns when the window will have slid under its budget, if nothing is added; zero when it is.
func (g *guard) under(w *window, budget int64) time.Time {
	if budget <= 0 {
		return time.Time{}
	}
	sum, at := w.sum, time.Time{}
	for _, m := range g.history[w.first:] {
		if sum < g.limit(budget) {
			break
		}
		sum -= g.count.of(m.tokens)
		at = w.end(m)
	}
	return at
}

func (g *guard) view(now time.Time) *GuardView {
	v := &GuardView{State: "within", Until: g.until(now), Used: g.window.sum, Budget: float64(g.opt.Budget),
		WeekUsed: g.week.sum, WeekBudget: float64(g.opt.WeeklyBudget)}
	if g.state != within {
		v.State, v.By = "exceeded", g.state.by()
	}
	return v
}

func (s guardState) by() string {
	switch s {
	case overBudget:
		return "budget"
	case overCap:
		return "cap"
	}
	return ""
}
