package auth

import (
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// books are what callers have spent.
type books map[string]Spent

func (b books) Spent(code string, _ time.Time) Spent { return b[code] }

func limited(l Limits) *Caller { return &Caller{Code: "ci", Limits: l} }

// refusal is the limit that refuses a request, and for how long; "" is none.
func refusal(t *testing.T, l *Limiter, c *Caller, at time.Time) (limit string, wait time.Duration) {
	t.Helper()
	_, err := l.Admit(c, true, true, at)
	if e := new(LimitError); errors.As(err, &e) {
		return e.Limit, e.RetryAfter
	} else if err != nil {
		t.Fatal(err)
	}
	return "", 0
}

// A bucket gives as many at once as a minute has, then one in its time; what Retry-After says is exact to the nanosecond.
func TestRequestsPerMinute(t *testing.T) {
	for _, rate := range []int{1, 2, 7, 60, 1000} {
		l, c, at := NewLimiter(books{}), limited(Limits{RequestsPerMinute: rate}), now
		for i := range rate {
			if limit, _ := refusal(t, l, c, at); limit != "" {
				t.Fatalf("rate %d: request %d is refused", rate, i)
			}
		}
		for range 5 {
			limit, wait := refusal(t, l, c, at)
			if limit != LimitRate || wait <= 0 || wait > time.Minute {
				t.Fatalf("rate %d: %q, %v", rate, limit, wait)
			}
			if limit, again := refusal(t, l, c, at.Add(wait-1)); limit != LimitRate || again != 1 {
				t.Fatalf("rate %d: a nanosecond early: %q, %v", rate, limit, again)
			}
			at = at.Add(wait)
			if limit, _ := refusal(t, l, c, at); limit != "" {
				t.Fatalf("rate %d: refused after the time that was told", rate)
			}
		}
	}
}

// In any minute no more than twice the rate pass, and over a long time no more than the rate; refused ones take nothing away.
func TestRateNeverPasses(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 6))
		rate := 1 + random.IntN(90)
		l, c, at := NewLimiter(books{}), limited(Limits{RequestsPerMinute: rate}), now
		var passed []time.Time
		for range 3000 {
			at = at.Add(time.Duration(random.ExpFloat64() * float64(time.Minute) / float64(rate) / 2))
			if limit, _ := refusal(t, l, c, at); limit == "" {
				passed = append(passed, at)
			}
		}
		for i := range passed {
			if j := i + 2*rate; j < len(passed) && passed[j].Sub(passed[i]) < time.Minute {
				t.Fatalf("seed %d: %d requests in %v", seed, 2*rate+1, passed[j].Sub(passed[i]))
			}
		}
		minutes := passed[len(passed)-1].Sub(now).Minutes()
		if most := float64(rate) * (minutes + 1); float64(len(passed)) > most+1 || float64(len(passed)) < 0.9*float64(rate)*minutes {
			t.Fatalf("seed %d: %d requests in %.1f minutes at %d a minute", seed, len(passed), minutes, rate)
		}
	}
}

func TestClockStepsBack(t *testing.T) {
	l, c := NewLimiter(books{}), limited(Limits{RequestsPerMinute: 1})
	refusal(t, l, c, now)
	if limit, wait := refusal(t, l, c, now.Add(-time.Hour)); limit != LimitRate || wait > time.Minute {
		t.Errorf("%q, %v", limit, wait)
	}
}

func TestMaxInFlight(t *testing.T) {
	l, c := NewLimiter(books{}), limited(Limits{MaxInFlight: 2})
	var leave []func()
	for range 2 {
		f, err := l.Admit(c, true, true, now)
		if err != nil {
			t.Fatal(err)
		}
		leave = append(leave, f)
	}
	if limit, wait := refusal(t, l, c, now); limit != LimitInFlight || wait != busyRetry {
		t.Errorf("%q, %v", limit, wait)
	}
	if _, err := l.Admit(c, true, false, now); err != nil {
		t.Errorf("a request that only listens: %v", err)
	}
	if _, err := l.Admit(&Caller{Code: "other", Limits: c.Limits}, true, true, now); err != nil {
		t.Errorf("another caller: %v", err)
	}
	leave[0]()
	leave[0]() // once is enough, and twice is no harm
	if limit, _ := refusal(t, l, c, now); limit != "" {
		t.Errorf("one has gone, and yet: %q", limit)
	}
	if got := l.Standing("ci", c.Limits, now).InFlight; got != 2 {
		t.Errorf("%d in flight", got)
	}
}

// Of many requests at once as many come in as there is room for, and none is inside when all have left.
func TestInFlightConcurrent(t *testing.T) {
	const room, many = 10, 50
	l, c := NewLimiter(books{}), limited(Limits{MaxInFlight: room})
	for range 200 {
		var tried, all sync.WaitGroup
		var inside atomic.Int32
		tried.Add(many)
		for range many {
			all.Go(func() {
				leave, err := l.Admit(c, true, true, now)
				tried.Done()
				tried.Wait() // nobody leaves before all have tried
				if err == nil {
					inside.Add(1)
					leave()
				}
			})
		}
		all.Wait()
		if got := inside.Load(); got != room {
			t.Fatalf("%d came in", got)
		}
	}
	if got := l.Standing("ci", c.Limits, now).InFlight; got != 0 {
		t.Errorf("%d in flight at the end", got)
	}
}

// What began without a limit counts when a reload has set one.
func TestLimitsComeWhileRequestsAreServed(t *testing.T) {
	l := NewLimiter(books{})
	leave, err := l.Admit(limited(Limits{}), true, true, now)
	if err != nil {
		t.Fatal(err)
	}
	c := limited(Limits{MaxInFlight: 1})
	if limit, _ := refusal(t, l, c, now); limit != LimitInFlight {
		t.Errorf("a second one: %q", limit)
	}
	leave()
	if limit, _ := refusal(t, l, c, now); limit != "" {
		t.Errorf("the first has gone, and yet: %q", limit)
	}
}

// People read amounts of money without exponents.
func TestCostLimitText(t *testing.T) {
	for usd, want := range map[float64]string{1234567.5: "its 1234567.5 USD", 0.000001: "its 0.000001 USD", 2: "its 2 USD"} {
		_, err := NewLimiter(books{"ci": {TodayUSD: usd}}).Admit(limited(Limits{DailyUSD: usd}), true, true, now)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// Which limit refuses, for how long, and what a request that costs nothing may.
func TestSpentLimits(t *testing.T) {
	day, month := 5*time.Hour, 53*time.Hour
	for _, tc := range []struct {
		name  string
		l     Limits
		spent Spent
		want  string
		wait  time.Duration
	}{
		{"none is set", Limits{MaxInFlight: 1}, Spent{Today: 1e9, Month: 1e9, TodayUSD: 1e9}, "", 0},
		{"under all", Limits{DailyTokens: 100, MonthlyTokens: 1000, DailyUSD: 1}, Spent{Today: 99.9, Month: 999.9, TodayUSD: 0.99}, "", 0},
		{"the day's", Limits{DailyTokens: 100, MonthlyTokens: 1000}, Spent{Today: 100, Month: 100}, LimitDay, day},
		{"the month's", Limits{DailyTokens: 100, MonthlyTokens: 1000}, Spent{Today: 10, Month: 1000}, LimitMonth, month},
		{"both: the one that lasts longer", Limits{DailyTokens: 100, MonthlyTokens: 1000}, Spent{Today: 500, Month: 5000}, LimitMonth, month},
		{"the cost", Limits{DailyUSD: 0.5}, Spent{TodayUSD: 0.5}, LimitCost, day},
	} {
		tc.spent.DayEnds, tc.spent.MonthEnds = now.Add(day), now.Add(month)
		l, c := NewLimiter(books{"ci": tc.spent}), limited(tc.l)
		if limit, wait := refusal(t, l, c, now); limit != tc.want || wait != tc.wait {
			t.Errorf("%s: %q, %v, want %q, %v", tc.name, limit, wait, tc.want, tc.wait)
		}
		if _, err := l.Admit(c, false, false, now); err != nil {
			t.Errorf("%s: a request that costs nothing: %v", tc.name, err)
		}
	}
}

// What a caller did before a restart is noted, and a reload that changes the rate goes on from where the caller stands.
func TestPaceGoesOn(t *testing.T) {
	l, c := NewLimiter(books{}), limited(Limits{RequestsPerMinute: 4})
	for i := range 4 {
		l.Note("ci", 4, now.Add(time.Duration(i-4)*time.Second))
	}
	if limit, wait := refusal(t, l, c, now); limit != LimitRate || wait != 11*time.Second {
		t.Errorf("after a restart: %q, %v", limit, wait) // four of 15 s each from 4 s ago on: there is room for a fifth 15 s after the first
	}
	if got := l.Standing("ci", c.Limits, now).RequestsLeft; got != 0 {
		t.Errorf("%d left", got)
	}
	slower := limited(Limits{RequestsPerMinute: 1})
	if limit, wait := refusal(t, l, slower, now); limit != LimitRate || wait != 56*time.Second {
		t.Errorf("slower: %q, %v", limit, wait)
	}
	if limit, _ := refusal(t, l, limited(Limits{RequestsPerMinute: 60}), now.Add(time.Second)); limit != "" {
		t.Errorf("faster: %q", limit)
	}
}
