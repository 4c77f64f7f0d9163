package auth

import (
	"fmt"
	"strconv"
	"sync"
	"time"
)

// Spent is what a caller has used.
type Spent struct {
	Today, Month float64 // weighted tokens of the local day and month
	TodayUSD     float64
	DayEnds      time.Time // when the local day is over
	MonthEnds    time.Time
}

// Usage knows what callers have used (stats).
type Usage interface {
	Spent(code string, now time.Time) Spent
}

// The limits of a caller, as errors, the journal and the pages name them.
const (
	LimitRate     = "caller_rate"
	LimitInFlight = "caller_in_flight"
	LimitDay      = "caller_day_limit"
	LimitMonth    = "caller_month_limit"
	LimitCost     = "caller_cost_limit"
)

// LimitError says that a caller is over one of its limits, and when to come again.
type LimitError struct {
	Limit      string // one of the constants
	RetryAfter time.Duration
	text       string
}

func (e *LimitError) Error() string { return e.text }

// busyRetry is how soon a caller whose requests are all being served may try again: one of them may end at any time.
const busyRetry = time.Second

// Limiter counts what callers are doing. It outlives reloads: a caller is its code. Tokens and costs are not its own to count:
// what is being served is not in them yet, so requests in flight may overshoot.
type Limiter struct {
	usage Usage

	mu      sync.Mutex
	callers map[string]*pace // of those without limits, too: a reload may set some while they are being served
}

// pace is how fast a caller goes: a token bucket, kept as the time at which it will be full again (the generic cell rate
// algorithm of ITU-T I.371).
type pace struct {
	full     time.Time
	inFlight int
}

// NewLimiter returns a limiter of callers that are not doing anything.
func NewLimiter(usage Usage) *Limiter {
	return &Limiter{usage: usage, callers: map[string]*pace{}}
}

// Admit lets a request of the caller in, or returns a *LimitError. costs says whether it may use tokens, held whether it is
// to be counted as in flight. The caller of Admit must call leave when the request is over; it may do so more than once.
func (l *Limiter) Admit(c *Caller, costs, held bool, now time.Time) (leave func(), err error) {
	if costs {
		if err := l.spent(c, now); err != nil {
			return nil, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p, of := l.pace(c.Code), c.Limits
	if !held {
		of.MaxInFlight = 0
	}
	if err := p.over(of, now); err != nil {
		return nil, err
	}
	p.take(of.RequestsPerMinute, now)
	if !held {
		return func() {}, nil
	}
	p.inFlight++
	left := false
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !left {
			left = true
			p.inFlight--
		}
	}, nil
}

// spent refuses a caller that has used up its day or month.
func (l *Limiter) spent(c *Caller, now time.Time) error {
	if !c.Counted() {
		return nil
	}
	if e := c.Limits.spent(l.usage.Spent(c.Code, now), now); e != nil {
		return e
	}
	return nil
}

// spent returns the limit of day and month that is used up, the one that lasts longest first; nil where there is none.
func (l Limits) spent(s Spent, now time.Time) *LimitError {
	switch day, month := s.DayEnds.Sub(now), s.MonthEnds.Sub(now); {
	case l.MonthlyTokens > 0 && s.Month >= float64(l.MonthlyTokens):
		return &LimitError{LimitMonth, month, fmt.Sprintf("this request key has used its %d tokens of the month", l.MonthlyTokens)}
	case l.DailyTokens > 0 && s.Today >= float64(l.DailyTokens):
		return &LimitError{LimitDay, day, fmt.Sprintf("this request key has used its %d tokens of the day", l.DailyTokens)}
	case l.DailyUSD > 0 && s.TodayUSD >= l.DailyUSD:
		return &LimitError{LimitCost, day, fmt.Sprintf("this request key has used its %s USD of the day", strconv.FormatFloat(l.DailyUSD, 'f', -1, 64))}
	}
	return nil
}

// pace returns the caller's. The lock is held.
func (l *Limiter) pace(code string) *pace {
	p := l.callers[code]
	if p == nil {
		p = &pace{}
		l.callers[code] = p
	}
	return p
}

// over returns the limit of the moment that another request would break, nil where there is none.
func (p *pace) over(l Limits, now time.Time) *LimitError {
	if l.MaxInFlight > 0 && p.inFlight >= l.MaxInFlight {
		return &LimitError{LimitInFlight, busyRetry, fmt.Sprintf("%d requests of this request key are being served, as many as it may have at once", p.inFlight)}
	}
	if l.RequestsPerMinute <= 0 {
		return nil
	}
	one := time.Minute / time.Duration(l.RequestsPerMinute)
	if wait := p.fullAt(now).Add(one).Sub(now.Add(time.Minute)); wait > 0 {
		return &LimitError{LimitRate, wait, fmt.Sprintf("this request key is over its limit of %d requests per minute", l.RequestsPerMinute)}
	}
	return nil
}

// take takes a token out of a bucket that holds perMinute of them and is full again a minute after it was empty; 0 is no limit.
func (p *pace) take(perMinute int, now time.Time) {
	if perMinute > 0 {
		p.full = p.fullAt(now).Add(time.Minute / time.Duration(perMinute))
	}
}

// fullAt is when the bucket will be full: within a minute, even if the clock has stepped back.
func (p *pace) fullAt(now time.Time) time.Time {
	switch latest := now.Add(time.Minute); {
	case p.full.Before(now):
		return now
	case p.full.After(latest):
		return latest
	}
	return p.full
}

// Note takes over a request that the caller made before a restart, in the order of their beginnings.
func (l *Limiter) Note(code string, perMinute int, began time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pace(code).take(perMinute, began)
}

// May says what Admit would answer to a request that costs tokens. It changes nothing.
func (l *Limiter) May(c *Caller, now time.Time) error {
	if err := l.spent(c, now); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.callers[c.Code]; p != nil {
		if e := p.over(c.Limits, now); e != nil {
			return e
		}
	}
	return nil
}

// Standing is how a caller stands towards its limits.
type Standing struct {
	InFlight     int
	RequestsLeft int // of RequestsPerMinute, at once
	Spent
	Refused string    // the limit that refuses it now, "" = none
	Until   time.Time // zero: any time
}

// Standing says how the caller with the code and the limits stands. It changes nothing.
func (l *Limiter) Standing(code string, of Limits, now time.Time) Standing {
	s := Standing{Spent: l.usage.Spent(code, now), RequestsLeft: of.RequestsPerMinute}
	if e := of.spent(s.Spent, now); e != nil {
		s.Refused, s.Until = e.Limit, now.Add(e.RetryAfter)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.callers[code]
	if p == nil {
		return s
	}
	s.InFlight = p.inFlight
	if of.RequestsPerMinute > 0 {
		free := now.Add(time.Minute).Sub(p.fullAt(now))
		s.RequestsLeft = int(free / (time.Minute / time.Duration(of.RequestsPerMinute)))
	}
	if s.Refused == "" {
		if e := p.over(of, now); e != nil {
			s.Refused, s.Until = e.Limit, now.Add(e.RetryAfter)
		}
	}
	return s
}
