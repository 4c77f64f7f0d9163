package pool

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// guardPast is all that ever happened to a guard, with a look each time the clock had moved.
type guardPast struct {
	opt    GuardOptions
	events []guardEvent
}

type guardEvent struct {
	at     time.Time
	kind   string // look, add, cap, ask, ok, leave, refused, reset
	who    int
	tokens float64
	reset  time.Duration // of a cap
}

// guardModel is what section 8 makes of the past: the present excess.
type guardModel struct {
	by      string    // budget, cap; "" = within
	probeAt time.Time // when the next probe may go
	end     time.Time // stated
	last    int       // the request that was the excess's last probe, -1 = none
	flying  bool      // and says nothing yet
	begun   int       // the event with which the excess began
}

// use is what a window of a length holds after the i-th event: every minute that is not older as a whole.
func (p *guardPast) use(i int, length time.Duration) float64 {
	sum := 0.0
	for _, e := range p.events[:i+1] {
		switch {
		case e.kind == "reset":
			sum = 0
		case e.kind == "add" && e.at.Truncate(time.Minute).Add(time.Minute+length).After(p.events[i].at):
			sum += e.tokens
		}
	}
	return sum
}

// full reports whether a budget is used up after the i-th event.
func (p *guardPast) full(i int) bool {
	over := func(budget int64, length time.Duration) bool {
		return budget > 0 && 100*p.use(i, length) >= float64(budget)*p.opt.Threshold
	}
	return over(p.opt.Budget, p.opt.Window) || over(p.opt.WeeklyBudget, 7*24*time.Hour)
}

// within: the phase begins with what the i-th event left.
func (p *guardPast) within(i int) guardModel {
	for j := i; j < len(p.events); j++ {
		switch {
		case j > i && p.events[j].kind == "cap":
			return p.over(j, "cap")
		case p.full(j):
			return p.over(j, "budget")
		}
	}
	return guardModel{last: -1}
}

// over: the excess begins with the i-th event.
func (p *guardPast) over(i int, by string) guardModel {
	e := p.events[i]
	m := guardModel{by: by, probeAt: e.at.Add(p.opt.ProbeInterval), last: -1, begun: i}
	if by == "cap" && e.reset > 0 {
		m.end = e.at.Add(e.reset)
	}
	for j := i + 1; j < len(p.events); j++ {
		e := p.events[j]
		switch e.kind {
		case "reset":
			return p.within(j)
		case "cap":
			if m.by != "cap" {
				return p.over(j, "cap")
			}
			if e.reset > 0 { // the same excess goes on, with another end
				m.end = e.at.Add(e.reset)
			}
		case "ask":
			m.probeAt, m.last, m.flying = e.at.Add(p.opt.ProbeInterval), e.who, true
		case "ok":
			if e.who == m.last {
				return p.within(j)
			}
		case "leave":
			if e.who == m.last && m.flying {
				m.probeAt, m.flying = e.at, false
			}
		case "refused":
			m.flying = m.flying && e.who != m.last
		}
		if by == "budget" && !p.full(j) || !m.end.IsZero() && !e.at.Before(m.end) {
			return p.within(j)
		}
	}
	return m
}

// Random sequences: after each event guard and model are in the same state, hold as much, and let the same requests in.
func TestGuardAgainstAModel(t *testing.T) {
	met := map[string]int{}
	sequences := seeds(t, 5000, func(t *testing.T, seed uint64, log *[]string) {
		r := rand.New(rand.NewPCG(seed, 8))
		o := GuardOptions{Window: time.Duration(1+r.IntN(30)) * time.Minute, Threshold: float64(50 + r.IntN(51)), ProbeInterval: time.Duration(1+r.IntN(300)) * time.Second}
		if r.IntN(4) > 0 {
			o.Budget = int64(50 + r.IntN(100))
		}
		if r.IntN(4) == 0 {
			o.WeeklyBudget = int64(50 + r.IntN(300))
		}
		now := start.Add(time.Duration(r.IntN(60)) * time.Second)
		g, past := newGuard(o, DefaultWeights(), now), &guardPast{opt: o}
		type request struct {
			who   int
			probe uint64
		}
		var flying []request
		asked := 0
		note := func(e guardEvent) {
			e.at = now
			past.events = append(past.events, e)
			*log = append(*log, fmt.Sprintf("%.0f s %s %d, %g tokens, reset %s", now.Sub(start).Seconds(), e.kind, e.who, e.tokens, e.reset))
		}
		note(guardEvent{kind: "look"})
		for range 60 {
			before := past.within(0)
			n := r.IntN(20)
			switch {
			case n < 6:
				allowed := g.allows(now)
				if want := before.by == "" || !now.Before(before.probeAt); allowed != want {
					t.Errorf("allows: %v; the model: %+v", allowed, before)
				}
				if !allowed {
					break
				}
				note(guardEvent{kind: "ask", who: asked})
				f := request{asked, g.enter(now)}
				asked++
				if f.probe != 0 != (before.by != "") {
					t.Errorf("probe %d; the model: %+v", f.probe, before)
				}
				flying = append(flying, f)
			case n < 12 && len(flying) > 0:
				i := r.IntN(len(flying))
				f := flying[i]
				flying = append(flying[:i], flying[i+1:]...)
				switch kind := r.IntN(3); {
				case kind == 0 && (f.probe == 0 || f.who == before.last): // of older probes section 8 says nothing
					note(guardEvent{kind: "ok", who: f.who})
					g.success(now, f.probe)
				case kind == 1:
					note(guardEvent{kind: "leave", who: f.who})
					g.leave(now, f.probe)
				default:
					note(guardEvent{kind: "refused", who: f.who})
					g.refused(f.probe)
				}
			case n < 15:
				tokens := float64(r.IntN(40))
				note(guardEvent{kind: "add", tokens: tokens})
				g.add(now, Tokens{Output: int64(tokens)})
			case n == 15 && r.IntN(2) == 0:
				d := time.Duration(r.IntN(2)*r.IntN(1000)) * time.Second
				note(guardEvent{kind: "cap", reset: d})
				g.cap(now, now, d)
			case n == 16 && r.IntN(8) == 0:
				note(guardEvent{kind: "reset"})
				g.reset(now)
			default:
				switch r.IntN(4) {
				case 0: // to what comes next, or just before
					if to := g.until(now).Add(-time.Duration(r.IntN(2)) * time.Second); to.After(now) {
						now = to
					}
				case 1:
					now = now.Add(time.Duration(r.IntN(600)) * time.Second)
				case 2:
					now = now.Add(time.Duration(r.IntN(20)) * time.Second)
				case 3:
					if r.IntN(10) == 0 {
						now = now.Add(time.Duration(r.IntN(8*24*60)) * time.Minute)
					}
				}
				g.allows(now)
				note(guardEvent{kind: "look"})
			}
			m := past.within(0)
			v := g.view(now)
			if v.By != m.by {
				t.Errorf("at %s it is %s by %q; the model: %+v", now.Sub(start), v.State, v.By, m)
			}
			last := len(past.events) - 1
			if want := past.use(last, o.Window); o.Budget > 0 && v.Used != want {
				t.Errorf("the window holds %g; the model's %g", v.Used, want)
			}
			if want := past.use(last, 7*24*time.Hour); o.WeeklyBudget > 0 && v.WeekUsed != want {
				t.Errorf("the week holds %g; the model's %g", v.WeekUsed, want)
			}
			if m.by != "" && !g.probeAt.Equal(m.probeAt) {
				t.Errorf("the next probe at %s; the model's at %s", g.probeAt.Sub(start), m.probeAt.Sub(start))
			}
			if t.Failed() {
				return
			}
			met["by "+m.by]++
			if m.flying {
				met["probe under way"]++
			}
			if before.by == "cap" && m.by == "" {
				met["end of a cap"]++
			}
			if before.by == "budget" && m.by == "" {
				met["end of an excess by budget"]++
			}
		}
	})
	for _, what := range []string{"by ", "by budget", "by cap", "probe under way", "end of a cap", "end of an excess by budget"} {
		if met[what] < sequences/8 {
			t.Errorf("the sequences met %q only %d times", what, met[what])
		}
	}
	t.Log(met)
}
