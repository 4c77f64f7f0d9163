package pool

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

var modelSeed = flag.Uint64("model-seed", 1, "first seed of the models of breaker and guard; 0: another one each time")

// seeds calls test with a seed for each sequence, and stops at the first that fails, which it names. It returns how
// many there were.
func seeds(t *testing.T, sequences int, test func(t *testing.T, seed uint64, log *[]string)) int {
	if testing.Short() {
		sequences /= 10
	}
	first := *modelSeed
	if first == 0 {
		first = rand.Uint64()
	}
	t.Logf("seeds %d to %d", first, first+uint64(sequences)-1)
	for n := range uint64(sequences) {
		var log []string
		test(t, first+n, &log)
		if t.Failed() {
			t.Fatalf("-model-seed=%d:\n%s", first+n, strings.Join(log, "\n"))
		}
	}
	return sequences
}

// breakerPast is all that ever happened to a breaker.
type breakerPast struct {
	opt    BreakerOptions
	events []breakerEvent
}

type breakerEvent struct {
	at   time.Time
	kind string // enter, ok, fail, leave, reset
	who  int    // the request
}

// breakerModel is what section 7 makes of the past. It reads it phase by phase: each phase ends with an event or a
// time, and says what the next one is.
type breakerModel struct {
	word      string
	failures  int
	successes int
	until     time.Time
	holder    int // the request that has the probe's slot, -1 = none
}

// at derives the state at a time from the whole past.
func (p *breakerPast) at(now time.Time) breakerModel { return p.closed(0, now) }

// closed: the phase begins with the i-th event. It ends with the failure that is the last of a full row, or is begun
// anew by a reset.
func (p *breakerPast) closed(i int, now time.Time) breakerModel {
	row := 0
	for j := i; j < len(p.events); j++ {
		switch e := p.events[j]; e.kind {
		case "reset", "ok":
			row = 0
		case "fail":
			if row++; row == p.opt.FailureThreshold {
				return p.open(j, 0, now)
			}
		}
	}
	return breakerModel{word: "closed", failures: row, holder: -1}
}

// open: the phase begins with the i-th event, a failure, after as many doublings. It ends with its recovery time, or by
// a reset; all else that happens does nothing.
func (p *breakerPast) open(i, doublings int, now time.Time) breakerModel {
	recovery := p.opt.Recovery
	for range doublings {
		recovery = min(2*recovery, p.opt.MaxRecovery)
	}
	until := p.events[i].at.Add(recovery)
	j := i + 1
	for ; j < len(p.events) && p.events[j].at.Before(until); j++ {
		if p.events[j].kind == "reset" {
			return p.closed(j+1, now)
		}
	}
	if now.Before(until) {
		return breakerModel{word: "open", until: until, holder: -1}
	}
	return p.halfOpen(j, doublings, now)
}

// halfOpen: a request that asks while nobody has the slot gets it, and has it until it says anything. Successes of
// those who had it count once; a failure of one who ever had it in this phase ends it.
func (p *breakerPast) halfOpen(i, doublings int, now time.Time) breakerModel {
	holder, successes := -1, 0
	had := map[int]bool{}
	for j := i; j < len(p.events); j++ {
		e := p.events[j]
		switch e.kind {
		case "reset":
			return p.closed(j+1, now)
		case "enter":
			if holder < 0 {
				holder, had[e.who] = e.who, true
			}
		case "leave":
			if holder == e.who {
				holder = -1
			}
		case "ok":
			if holder == e.who {
				holder = -1
				if successes++; successes == p.opt.SuccessThreshold {
					return p.closed(j+1, now)
				}
			}
		case "fail":
			if had[e.who] {
				return p.open(j, doublings+1, now)
			}
		}
	}
	return breakerModel{word: "half-open", successes: successes, holder: holder}
}

// allows: closed all, open none, half-open one at a time.
func (m breakerModel) allows() bool {
	return m.word == "closed" || m.word == "half-open" && m.holder < 0
}

func (m breakerModel) String() string {
	switch m.word {
	case "closed":
		return fmt.Sprintf("closed %d", m.failures)
	case "open":
		return fmt.Sprintf("open until %d", int(m.until.Sub(start)/time.Second))
	}
	return fmt.Sprintf("half-open %d %s", m.successes, map[bool]string{true: "free", false: "taken"}[m.holder < 0])
}

// Random sequences: after each event breaker and model are in the same state, and let the same requests in.
func TestBreakerAgainstAModel(t *testing.T) {
	met := map[string]int{}
	sequences := seeds(t, 5000, func(t *testing.T, seed uint64, log *[]string) {
		r := rand.New(rand.NewPCG(seed, 7))
		o := BreakerOptions{FailureThreshold: 1 + r.IntN(4), SuccessThreshold: 1 + r.IntN(3), Recovery: time.Duration(1+r.IntN(20)) * time.Second}
		o.MaxRecovery = o.Recovery * time.Duration(1+r.IntN(6))
		b, past := newBreaker(o), &breakerPast{opt: o}
		type request struct {
			who   int
			probe uint64
			good  bool // its head was
		}
		var flying []*request
		now, asked, doublings := start, 0, 0
		note := func(kind string, who int) {
			past.events = append(past.events, breakerEvent{now, kind, who})
			*log = append(*log, fmt.Sprintf("%ds %s %d", now.Sub(start)/time.Second, kind, who))
		}
		// end takes a request out of flight.
		end := func(n int) *request {
			f := flying[n]
			flying = append(flying[:n], flying[n+1:]...)
			return f
		}
		for range 50 {
			switch n := r.IntN(20); {
			case n < 6:
				want := past.at(now)
				allowed := b.allows(now)
				if allowed != want.allows() {
					t.Errorf("allows: %v; the model: %s", allowed, want)
				}
				if !allowed && r.IntN(4) > 0 { // else the last tier's
					break
				}
				f := &request{who: asked, probe: b.enter()}
				asked++
				note("enter", f.who)
				flying = append(flying, f)
				if model := past.at(now); f.probe != 0 != (model.holder == f.who) {
					t.Errorf("request %d is probe %d; the model's is %d", f.who, f.probe, model.holder)
				}
			case n < 9 && len(flying) > 0: // a good head; the request goes on
				if f := flying[r.IntN(len(flying))]; !f.good {
					f.good = true
					note("ok", f.who)
					b.sync(now)
					b.success(f.probe)
				}
			case n < 13 && len(flying) > 0:
				f := end(r.IntN(len(flying)))
				note("fail", f.who)
				b.failure(now, f.probe)
				b.leave(f.probe)
			case n < 14 && len(flying) > 0:
				f := end(r.IntN(len(flying)))
				note("leave", f.who)
				b.leave(f.probe)
			case n == 14 && r.IntN(4) == 0:
				note("reset", -1)
				b.reset()
			case n == 15: // just before, or just at its time
				if m := past.at(now); m.word == "open" {
					now = m.until.Add(time.Duration(r.IntN(2)-1) * time.Second)
				}
			default:
				now = now.Add(time.Duration(r.IntN(8)) * time.Second)
			}
			if got, want := b.said(now), past.at(now); got != want.String() {
				t.Errorf("at %d s it is %s; the model: %s", now.Sub(start)/time.Second, got, want)
			}
			if t.Failed() {
				return
			}
			m := past.at(now)
			met[m.word]++
			if m.holder >= 0 {
				met["taken"]++
			}
			if doublings = int(b.recovery / o.Recovery); doublings > 1 {
				met["doubled"]++
			}
		}
	})
	for _, what := range []string{"closed", "open", "half-open", "taken", "doubled"} {
		if met[what] < sequences {
			t.Errorf("the sequences met %q only %d times", what, met[what])
		}
	}
	t.Log(met)
}
