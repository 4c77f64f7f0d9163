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

// window is a sliding sum of weighted tokens, kept by minute: a minute counts until all of it is older than the span.
type window struct {
	span    time.Duration
	minutes []minute // oldest first
	sum     float64
}

type minute struct {
	at     int64 // Unix minutes
	tokens float64
}

func minuteOf(t time.Time) int64 { return t.Unix() / 60 }

// end is when a minute stops to count.
func (w *window) end(m minute) time.Time { return time.Unix((m.at+1)*60, 0).Add(w.span) }

// add counts tokens. A clock that steps back counts them into the newest minute.
func (w *window) add(now time.Time, tokens float64) {
	if tokens <= 0 || w.span <= 0 {
		return
	}
	w.sum += tokens
	at := minuteOf(now)
	if n := len(w.minutes); n > 0 && w.minutes[n-1].at >= at {
		w.minutes[n-1].tokens += tokens
		return
	}
	w.minutes = append(w.minutes, minute{at, tokens})
}

// slide drops what is too old.
func (w *window) slide(now time.Time) {
	n := 0
	for n < len(w.minutes) && !w.end(w.minutes[n]).After(now) {
		w.sum -= w.minutes[n].tokens
		n++
	}
	if n == len(w.minutes) {
		w.minutes, w.sum = w.minutes[:0], 0 // exactly, whatever the rounding was
		return
	}
	w.minutes = w.minutes[n:]
}

// under returns when the sum will have slid under the limit, if nothing is added.
func (w *window) under(limit float64) time.Time {
	sum, at := w.sum, time.Time{}
	for _, m := range w.minutes {
		if sum < limit {
			break
		}
		sum -= m.tokens
		at = w.end(m)
	}
	return at
}

// guard is a quota guard as a state machine: whoever calls it says what time it is. While exceeded it lets one probe
// an interval through, whose number says later that it was the one; 0 is no probe.
type guard struct {
	opt          GuardOptions
	window, week window
	complete     time.Time // what was used after this is in the windows
	from         time.Time // what was used before does not count: the last reset

	state   guardState
	end     time.Time // of exceeded by cap: the stated end; zero = none stated
	probeAt time.Time // while exceeded: when the next probe may go
	probe   uint64    // number of the last probe
	asked   bool      // it is under way
}

type guardState uint8

const (
	within guardState = iota
	overBudget
	overCap
)

func newGuard(o GuardOptions, now time.Time) *guard {
	g := &guard{opt: o, complete: now}
	g.spans()
	return g
}

// spans gives the windows their lengths; a window that grew lacks its oldest part.
func (g *guard) spans() {
	g.window.span, g.week.span = 0, 0
	if g.opt.Budget > 0 {
		g.window.span = g.opt.Window
	}
	if g.opt.WeeklyBudget > 0 {
		g.week.span = week
	}
}

func (g *guard) limit(budget int64) float64 { return float64(budget) * g.opt.Threshold / 100 }

// over reports whether a budget is used up.
func (g *guard) over(now time.Time) bool {
	g.window.slide(now)
	g.week.slide(now)
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
	g.state, g.end, g.asked, g.probeAt = s, time.Time{}, false, now.Add(g.opt.ProbeInterval)
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

// leave gives a probe back that said nothing of the quota: the next request may be one at once.
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

// success ends the excess if it was a probe's. One by budget begins anew at once while the window is still full.
func (g *guard) success(now time.Time, probe uint64) {
	if probe != 0 && probe == g.probe && g.state != within {
		g.state, g.asked = within, false
		g.sync(now)
	}
}

// cap says that the provider has closed the account; it ends after the stated time, 0 = not stated.
func (g *guard) cap(now time.Time, reset time.Duration) {
	g.exceed(now, overCap)
	if reset > 0 {
		g.end = now.Add(reset)
	}
}

func (g *guard) add(now time.Time, tokens float64) {
	g.window.add(now, tokens)
	g.week.add(now, tokens)
	g.sync(now)
}

// reset forgets the excess and what was used.
func (g *guard) reset(now time.Time) {
	g.state, g.asked, g.from = within, false, now
	g.clear()
}

func (g *guard) clear() {
	g.window.minutes, g.window.sum, g.week.minutes, g.week.sum = nil, 0, nil, 0
}

// configure changes the rules and keeps the state and what was counted.
func (g *guard) configure(now time.Time, o GuardOptions) {
	grown := o.Budget > 0 && (g.opt.Budget <= 0 || o.Window > g.opt.Window) || o.WeeklyBudget > 0 && g.opt.WeeklyBudget <= 0
	g.opt = o
	g.spans()
	if grown { // begin anew, to be filled
		g.clear()
		g.complete = now
	}
}

// missing returns since when what was used is missing in the windows; the zero time when nothing is.
func (g *guard) missing(now time.Time) time.Time {
	since := later(now.Add(-max(g.window.span, g.week.span)-time.Minute), g.from)
	if !since.Before(g.complete) {
		return time.Time{}
	}
	return since
}

// fill puts what was used before the windows began in front of them.
func (g *guard) fill(now time.Time, past []minute) {
	for _, w := range []*window{&g.window, &g.week} {
		if w.span <= 0 {
			continue
		}
		w.minutes = slices.Concat(past, w.minutes)
		for _, m := range past {
			w.sum += m.tokens
		}
	}
	g.complete = time.Time{}
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
		var free time.Time
		if g.opt.Budget > 0 {
			free = g.window.under(g.limit(g.opt.Budget))
		}
		if g.opt.WeeklyBudget > 0 {
			free = later(free, g.week.under(g.limit(g.opt.WeeklyBudget)))
		}
		if free.Before(until) {
			until = free
		}
	}
	return until
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
