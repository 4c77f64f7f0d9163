package pool

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// start is when the tests of the state machines begin; they speak of seconds after it.
var start = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

func second(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }

// rules are easy to reckon with: 3 failures open it, 2 successes close it, 100 s of recovery that double up to 350.
var rules = BreakerOptions{FailureThreshold: 3, SuccessThreshold: 2, Recovery: 100 * time.Second, MaxRecovery: 350 * time.Second}

// said is the breaker's state in words: failures in a row while closed, when it will be half-open while open, and
// successes in a row and the probe's slot while half-open.
func (b *breaker) said(now time.Time) string {
	b.sync(now)
	switch b.state {
	case open:
		return fmt.Sprintf("open until %d", int(b.until().Sub(start)/time.Second))
	case halfOpen:
		return fmt.Sprintf("half-open %d %s", b.successes, map[bool]string{true: "free", false: "taken"}[b.probe == 0])
	}
	return fmt.Sprintf("closed %d", b.failures)
}

// script runs words on a breaker, each "<second> <what> [<request>]", and wants what each line says behind "→".
// A request asks and gets in, or must not; what gets in says ok (a good head), fail or leave.
func script(t *testing.T, b *breaker, lines ...string) *breaker {
	t.Helper()
	probes := map[string]uint64{}
	for _, line := range lines {
		do, want, _ := strings.Cut(line, " → ")
		var at int
		var what, who string
		fmt.Sscan(do, &at, &what, &who)
		now := second(at)
		switch what {
		case "ask":
			if !b.allows(now) {
				t.Fatalf("%s: %s does not get in; %s", line, who, b.said(now))
			}
			probes[who] = b.enter()
		case "refused":
			if b.allows(now) {
				t.Fatalf("%s: it gets in; %s", line, b.said(now))
			}
		case "force": // the last tier's breaker refuses nobody
			b.allows(now)
			probes[who] = b.enter()
		case "ok":
			b.sync(now)
			b.success(probes[who])
		case "fail":
			b.failure(now, probes[who])
		case "leave":
			b.leave(probes[who])
		case "reset":
			b.reset()
		case "restart":
			again := newBreaker(b.opt)
			again.restore(b.snapshot())
			b = again
		case "look":
		default:
			t.Fatalf("%s: what is %q?", line, what)
		}
		if want == "" {
			continue // nobody looks: what time brings is noticed later
		}
		if got := b.said(now); got != want {
			t.Fatalf("%s: it is %s", line, got)
		}
	}
	return b
}

// opened are the lines that open a breaker at second 0.
var opened = []string{"0 fail a", "0 fail b", "0 fail c → open until 100"}

// design/routing.md, section 7, sequence by sequence.
func TestBreakerSequences(t *testing.T) {
	for _, tc := range []struct {
		name  string
		lines []string
	}{
		{"three failures in a row open it", []string{"0 look → closed 0", "0 fail a → closed 1", "5 fail b → closed 2", "9 fail c → open until 109", "9 refused"}},
		{"a success between begins the count anew", []string{"0 fail a", "1 fail b → closed 2", "2 ask c", "3 ok c → closed 0", "4 fail d", "5 fail e → closed 2", "6 fail f → open until 106"}},
		{"an attempt that says nothing does not", []string{"0 fail a", "1 fail b → closed 2", "2 ask c", "3 leave c → closed 2", "4 fail d → open until 104"}},
		{"open until the recovery time is over, to the second", append(opened, "99 refused → open until 100", "100 ask a → half-open 0 taken")},
		{"half-open lazily, however late", append(opened, "100000 ask a → half-open 0 taken")},
		{"one request at a time", append(opened, "100 ask a", "100 refused", "150 refused", "160 ok a → half-open 1 free", "161 ask b → half-open 1 taken", "161 refused")},
		{"two successes in a row close it", append(opened, "100 ask a", "101 ok a → half-open 1 free", "102 ask b", "103 ok b → closed 0", "103 ask c", "103 ask d")},
		{"a failure opens it again, for twice as long, up to the most", append(opened,
			"100 ask a", "110 fail a → open until 310", "309 refused", "310 ask b", "310 fail b → open until 660",
			"660 ask c", "661 fail c → open until 1011", "1011 ask d", "1011 fail d → open until 1361")},
		{"a failure after a success, too", append(opened, "100 ask a", "101 ok a → half-open 1 free", "102 ask b", "103 fail b → open until 303", "303 look → half-open 0 free")},
		{"closing makes the recovery time what it was", append(opened,
			"100 ask a", "100 fail a → open until 300", "300 ask b", "300 ok b", "300 ask c", "300 ok c → closed 0",
			"400 fail d", "400 fail e", "400 fail f → open until 500")},
		{"failures that come in late do not restart the clock", append(opened, "50 fail d → open until 100", "99 fail e → open until 100", "100 ask f")},
		{"nor does one that comes in when it is half-open", []string{"0 ask late", "0 fail a", "0 fail b", "0 fail c",
			"100 look → half-open 0 free", "101 fail late → half-open 0 free", "102 ask a", "103 fail late → half-open 0 taken"}},
		{"nor does one that comes in first of all after the recovery", []string{"0 ask late", "0 fail a", "0 fail b", "0 fail c", "500 fail late → half-open 0 free"}},
		{"a late success neither closes nor counts", []string{"0 ask late", "0 ask late2", "0 fail a", "0 fail b", "0 fail c", "50 ok late → open until 100",
			"100 ask a", "101 ok late2 → half-open 0 taken", "102 ok a → half-open 1 free"}},
		{"a probe that says nothing gives its slot back", append(opened, "100 ask a", "101 leave a → half-open 0 free", "101 ask b", "102 ok b → half-open 1 free",
			"103 ask c", "104 leave c → half-open 1 free", "104 ask d", "105 ok d → closed 0")},
		{"a slot is given back once", append(opened, "100 ask a", "101 leave a", "101 ask b", "102 leave a → half-open 0 taken", "102 refused")},
		{"a probe counts once", append(opened, "100 ask a", "101 ok a → half-open 1 free", "102 ok a → half-open 1 free", "103 leave a → half-open 1 free")},
		{"a probe that breaks after its good head opens it again", append(opened, "100 ask a", "101 ok a → half-open 1 free", "105 fail a → open until 305")},
		{"also when the next probe is under way, whose slot is gone then", append(opened, "100 ask a", "101 ok a", "102 ask b → half-open 1 taken",
			"105 fail a → open until 305", "106 ok b → open until 305", "305 ask c", "306 ok b → half-open 0 taken", "307 fail b → half-open 0 taken", "308 leave b → half-open 0 taken", "309 ok c → half-open 1 free")},
		{"one that breaks when it has closed is one failure", append(opened, "100 ask a", "101 ok a", "102 ask b", "103 ok b → closed 0", "105 fail a → closed 1")},
		{"where none may be refused, others pass beside the probe and say nothing", append(opened, "50 force x → open until 100", "60 fail x → open until 100",
			"70 force y", "71 ok y → open until 100", "100 force a → half-open 0 taken", "100 force z → half-open 0 taken", "101 ok z → half-open 0 taken",
			"102 fail z → half-open 0 taken", "103 leave z → half-open 0 taken", "104 ok a → half-open 1 free")},
		{"one that passed while open says nothing when half-open", append(opened, "99 force x", "100 ask a", "101 ok x → half-open 0 taken", "101 fail x → half-open 0 taken")},
		{"reset closes an open one", append(opened, "50 reset → closed 0", "50 ask a", "51 fail a → closed 1", "52 fail b", "53 fail c → open until 153")},
		{"reset forgets failures", []string{"0 fail a", "0 fail b → closed 2", "1 reset → closed 0"}},
		{"reset forgets a doubled recovery", append(opened, "100 ask a", "100 fail a → open until 300", "150 reset", "150 fail a", "150 fail b", "150 fail c → open until 250")},
		{"reset while a probe is under way", append(opened, "100 ask a → half-open 0 taken", "110 reset → closed 0", "111 ask b", "111 ask c", "112 ok a → closed 0", "113 leave a → closed 0")},
		{"that probe is none of the next half-open", append(opened, "100 ask a", "110 reset → closed 0", "110 fail b", "110 fail c", "110 fail d → open until 210",
			"210 ask e", "211 ok a → half-open 0 taken", "211 fail a → half-open 0 taken", "211 leave a → half-open 0 taken", "212 ok e → half-open 1 free")},
		{"that probe's failure counts as any other", append(opened, "100 ask a", "110 reset → closed 0", "111 fail a → closed 1")},
		{"a clock that steps back while it is open costs one recovery time at most", []string{"1000 fail a", "1000 fail b", "1000 fail c → open until 1100",
			"200 refused → open until 300", "299 refused", "300 ask d → half-open 0 taken"}},
		{"a clock that steps back while it is half-open changes nothing", []string{"1000 fail a", "1000 fail b", "1000 fail c", "1100 ask d",
			"5 look → half-open 0 taken", "6 ok d → half-open 1 free", "6 ask e", "7 fail e → open until 207"}},
		{"a clock that steps back while it is closed, too", []string{"1000 fail a", "1000 fail b", "5 fail c → open until 105"}},
		{"a restart keeps failures", []string{"0 fail a", "0 fail b", "5 restart → closed 2", "6 fail c → open until 106"}},
		{"a restart keeps it open, until the same time", append(opened, "50 restart → open until 100", "99 refused", "100 ask a")},
		{"a restart after the recovery finds it half-open", append(opened, "150 restart → half-open 0 free")},
		{"a restart keeps successes, and the probe is none any more", append(opened, "100 ask a", "101 ok a", "102 ask b → half-open 1 taken",
			"103 restart → half-open 1 free", "104 ask c", "105 ok c → closed 0")},
		{"a restart keeps a doubled recovery", append(opened, "100 ask a", "100 fail a → open until 300", "150 restart → open until 300",
			"300 ask b", "300 fail b → open until 650", "650 look → half-open 0 free", "651 restart → half-open 0 free", "651 ask c", "651 fail c → open until 1001")},
	} {
		t.Run(tc.name, func(t *testing.T) { script(t, newBreaker(rules), tc.lines...) })
	}
}

// Thresholds of one: the first failure opens, the first success closes.
func TestBreakerThresholdsOfOne(t *testing.T) {
	o := rules
	o.FailureThreshold, o.SuccessThreshold = 1, 1
	script(t, newBreaker(o), "0 fail a → open until 100", "100 ask b", "101 ok b → closed 0", "102 fail c → open until 202")
	// A greatest recovery below the first one shortens nothing.
	o.MaxRecovery = time.Second
	script(t, newBreaker(o), "0 fail a → open until 100", "100 ask b", "100 fail b → open until 200")
}

// The documented defaults: 3 failures, 2 successes, 300 s, at most an hour.
func TestBreakerDefaults(t *testing.T) {
	b := script(t, newBreaker(DefaultBreaker()), "0 fail a", "0 fail b → closed 2", "0 fail c → open until 300")
	at, want := 300, 300
	for _, double := range []int{600, 1200, 2400, 3600, 3600} {
		want = at + double
		script(t, b, fmt.Sprintf("%d ask a", at), fmt.Sprintf("%d fail a → open until %d", at, want))
		at = want
	}
	script(t, b, fmt.Sprintf("%d ask a", at), fmt.Sprintf("%d ok a → half-open 1 free", at), fmt.Sprintf("%d ask b", at), fmt.Sprintf("%d ok b → closed 0", at))
}

// New rules keep the state.
func TestBreakerReconfigured(t *testing.T) {
	with := func(change func(*BreakerOptions)) BreakerOptions {
		o := rules
		change(&o)
		return o
	}
	longer := with(func(o *BreakerOptions) { o.Recovery, o.MaxRecovery = 200*time.Second, 1000*time.Second })
	shorter := with(func(o *BreakerOptions) { o.Recovery, o.MaxRecovery = 10*time.Second, 30*time.Second })
	for _, tc := range []struct {
		name   string
		before []string
		opt    BreakerOptions
		after  []string
	}{
		{"closed", []string{"0 fail a", "0 fail b"}, longer, []string{"1 look → closed 2", "2 fail c → open until 202"}},
		{"closed, with a threshold that it has reached", []string{"0 fail a", "0 fail b"}, with(func(o *BreakerOptions) { o.FailureThreshold = 1 }),
			[]string{"1 look → closed 2", "1 ask c", "1 ok c → closed 0", "2 fail d → open until 102"}},
		{"open, longer", opened, longer, []string{"50 look → open until 200", "200 ask a", "200 fail a → open until 600"}},
		{"open, shorter", opened, shorter, []string{"5 look → open until 10", "10 ask a", "10 fail a → open until 30", "30 ask a", "30 fail a → open until 60"}},
		{"open and doubled, up to the new most", append(opened, "100 ask a", "100 fail a → open until 300"), shorter, []string{"101 look → open until 130"}},
		{"half-open with a probe under way", append(opened, "100 ask a"), longer, []string{"101 look → half-open 0 taken", "101 refused"}},
		{"half-open, one success is enough now", append(opened, "100 ask a", "101 ok a → half-open 1 free"), with(func(o *BreakerOptions) { o.SuccessThreshold = 1 }),
			[]string{"102 ask b", "103 ok b → closed 0"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := script(t, newBreaker(rules), tc.before...)
			b.configure(tc.opt)
			script(t, b, tc.after...)
		})
	}
}

// A file that says what cannot be true does no harm.
func TestBreakerRestoresWhatCanBeTrue(t *testing.T) {
	at := second(50)
	for _, tc := range []struct {
		name string
		s    BreakerState
		want string
		then []string
	}{
		{"nothing", BreakerState{}, "closed 0", nil},
		{"a word that it does not know", BreakerState{State: "ajar", Failures: 1}, "closed 1", nil},
		{"more failures than it bears", BreakerState{State: "closed", Failures: 99}, "closed 2", []string{"50 fail a → open until 150"}},
		{"fewer than none", BreakerState{State: "closed", Failures: -9}, "closed 0", nil},
		{"more successes than it needs", BreakerState{State: "half_open", Successes: 99}, "half-open 1 free", []string{"50 ask a", "50 ok a → closed 0"}},
		{"opened never", BreakerState{State: "open", RecoverySeconds: 100}, "half-open 0 free", nil},
		{"opened in times to come", BreakerState{State: "open", RecoverySeconds: 100, Opened: second(5000)}, "open until 150", nil},
		{"a recovery shorter than the first", BreakerState{State: "open", RecoverySeconds: 1, Opened: second(40)}, "open until 140", nil},
		{"a recovery above the most", BreakerState{State: "open", RecoverySeconds: 100000, Opened: second(40)}, "open until 390", nil},
		{"a negative recovery", BreakerState{State: "open", RecoverySeconds: -100, Opened: second(40)}, "open until 140", nil},
		{"an endless recovery", BreakerState{State: "open", RecoverySeconds: 1e300, Opened: second(40)}, "open until 140", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBreaker(rules)
			b.restore(tc.s)
			if got := b.said(at); got != tc.want {
				t.Errorf("it is %s, want %s", got, tc.want)
			}
			script(t, b, tc.then...)
		})
	}
}

// What a page reads is what the machine does, and looking opens nothing.
func TestBreakerView(t *testing.T) {
	b := script(t, newBreaker(rules), slices.Concat(opened, []string{"99 look"})...)
	if v := *b.view(second(99)); v != (BreakerView{State: "open", Failures: 3, Recovery: 100 * time.Second, Until: second(100)}) {
		t.Errorf("open: %+v", v)
	}
	if v := *b.view(second(100)); v != (BreakerView{State: "half_open", Failures: 3, Recovery: 100 * time.Second}) {
		t.Errorf("half-open: %+v", v)
	}
	script(t, b, "100 ask a → half-open 0 taken", "100 ok a", "100 ask b", "100 ok b → closed 0")
	if v := *b.view(second(101)); v != (BreakerView{State: "closed", Recovery: 100 * time.Second}) {
		t.Errorf("closed: %+v", v)
	}
}
