package oauth

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"coding-proxy/auth"
)

const (
	// early is how long before its end a token is asked for anew, while the old one still serves.
	early = 2 * time.Minute
	// exchangePatience bounds one exchange. It is nobody's request that ends it: others wait for it, too.
	exchangePatience = 10 * time.Second
	firstBackoff     = time.Second
	longestBackoff   = time.Minute
	// finalBackoff is how long it is believed that only a person can help: plans are bought, and providers err.
	finalBackoff = 50 * time.Minute
	// freeRefusals is how many tokens in a row may be refused as soon as they are issued before exchanges are spaced out.
	freeRefusals = 2
	// lookEvery is how often it is looked whether another process has signed in anew.
	lookEvery = 3 * time.Second
)

// margin is how long before its end a token with this life counts as near it.
func margin(life time.Duration) time.Duration { return min(early, life/10) }

// Source hands out the token of one account. Its zero value is not ready: NewSource.
type Source struct {
	fetch   func(ctx context.Context) (Token, error)
	changed func() bool // whether somebody has signed in anew since; nil: it cannot be known
	now     func() time.Time

	mu       sync.Mutex
	token    Token
	flight   *flight // the exchange under way
	failures int     // in a row
	failed   *Error  // the last one's, while the next exchange is not due
	due      time.Time
	fetched  time.Time
	looked   time.Time
	refused  auth.Secret // the last token that the provider has refused
	refusals int         // in a row, of tokens that were new
	logins   int         // how often Reset was called
}

// flight is an exchange that several may wait for.
type flight struct {
	done  chan struct{}
	reset bool // it was given up; ask again
	token Token
	err   error
}

// NewSource returns the source of an account whose tokens fetch obtains. A token is fetched anew when less than the
// smaller of two minutes and a tenth of its life is left.
func NewSource(fetch func(ctx context.Context) (Token, error), now func() time.Time) *Source {
	return &Source{fetch: fetch, now: now}
}

// Follow makes s forget its token and failures when somebody signs in anew to base, the account whose token s exchanges.
// Call it before the first Token.
func (s *Source) Follow(base *Source) {
	var seen atomic.Int64
	seen.Store(int64(base.signedIn()))
	s.changed = func() bool {
		base.look()
		now := int64(base.signedIn())
		return seen.Swap(now) != now
	}
}

// Token returns a token that is good now. One exchange serves all who wait; who stops waiting ends it for nobody else. A
// token that is near its end is still given out while another is fetched. After a failure the next exchange waits: 1 s, then
// twice as long each time, up to a minute, after one that only a person can mend 50 minutes; until then every call fails at
// once. Errors: *Error, and ctx's own.
func (s *Source) Token(ctx context.Context) (Token, error) {
	s.look()
	for {
		t, f, err := s.get()
		if f == nil {
			return t, err
		}
		select {
		case <-f.done:
			if !f.reset {
				return f.token, f.err
			}
		case <-ctx.Done():
			return Token{}, context.Cause(ctx)
		}
	}
}

// get returns what can be said now, or the exchange to wait for.
func (s *Source) get() (Token, *flight, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	good := s.good(now)
	if good && !s.aging(now) {
		return s.token, nil, nil
	}
	if s.flight == nil {
		if s.failed != nil && now.Before(s.due) {
			if good {
				return s.token, nil, nil
			}
			return Token{}, nil, s.failure(now)
		}
		s.flight = &flight{done: make(chan struct{})}
		go s.exchange(s.flight)
	}
	if good {
		return s.token, nil, nil
	}
	return Token{}, s.flight, nil
}

// good reports whether the token that is held can be shown.
func (s *Source) good(now time.Time) bool { return s.token.good(now) }

func (t Token) good(now time.Time) bool {
	return !t.Access.IsZero() && (t.Expires.IsZero() || now.Before(t.Expires))
}

// aging reports whether its end is near.
func (s *Source) aging(now time.Time) bool {
	return !s.token.Expires.IsZero() && s.token.Expires.Sub(now) < margin(s.token.Expires.Sub(s.fetched))
}

// failure is the last failure, as it is now.
func (s *Source) failure(now time.Time) *Error {
	e := *s.failed
	if e.Retry = 0; !e.Final {
		e.Retry = max(s.due.Sub(now), time.Second)
	}
	return &e
}

func (s *Source) exchange(f *flight) {
	ctx, cancel := context.WithTimeout(context.Background(), exchangePatience)
	defer cancel()
	token, err := s.fetch(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flight != f {
		return // given up, and said so
	}
	now := s.now()
	s.flight = nil
	if err == nil && !token.good(now) {
		err = &Error{Reason: ReasonTemporary, Message: "the provider's token had ended before it came"}
	}
	token.Expires = token.Expires.Round(0) // the wall's time: monotonic clocks stand still while a laptop sleeps
	if err == nil {
		s.token, s.fetched = token, now
		s.failures, s.failed = 0, nil
		f.token = token
	} else {
		e := new(Error)
		if !errors.As(err, &e) {
			e = &Error{Reason: ReasonTemporary, Message: "the provider could not be asked for a token"}
		}
		s.fail(e, s.failures, now)
		s.failures++
		f.err = s.failure(now)
	}
	close(f.done)
}

// fail notes a failure after so many others.
func (s *Source) fail(e *Error, before int, now time.Time) {
	wait := min(firstBackoff<<min(before, 10), longestBackoff)
	if e.Final {
		wait = finalBackoff
	}
	wait += time.Duration(rand.Float64() * 0.1 * float64(wait))
	s.failed, s.due = e, now.Add(max(wait, e.Retry))
}

// Drop forgets a token that the provider has refused, unless another one has come since. Providers that refuse one new token
// after the other are asked for more as after failures.
func (s *Source) Drop(t Token) { s.Refuse(t, nil) }

// Refused is Drop by the Authorization header that showed the token. It reports whether another one may do: this was not one
// of several in a row that were new.
func (s *Source) Refused(authorization string) bool {
	_, access, ok := strings.Cut(authorization, " ")
	return ok && s.Refuse(Token{Access: auth.NewSecret(access)}, nil)
}

// Refuse is Drop, where the provider has also said why no other token would do, e.g. that too little was granted; nil: it has not.
func (s *Source) Refuse(t Token, why *Error) (mayDo bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.Access.IsZero() || s.token.Access.Reveal() != t.Access.Reveal() {
		return true // another one has come, or is on its way
	}
	now := s.now()
	s.token, s.refused = Token{}, t.Access
	if s.refusals++; now.Sub(s.fetched) > longestBackoff {
		s.refusals = 1
	}
	switch {
	case why != nil:
		e := *why
		s.fail(&e, s.failures, now)
		s.failures++
	case s.refusals > freeRefusals:
		s.fail(&Error{Reason: ReasonCredentials, Message: "the provider refuses each token that it issues"}, s.refusals-freeRefusals-1, now)
	}
	return why == nil && s.refusals == 1
}

// Served notes that the provider has taken the token that the Authorization header showed: it was issued in earnest.
func (s *Source) Served(authorization string) {
	_, access, _ := strings.Cut(authorization, " ")
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusals > 0 && s.token.Access.Reveal() == access {
		s.refusals = 0
	}
}

// refuses reports whether the provider has refused the token.
func (s *Source) refuses(access string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused.Reveal() == access
}

// Reset forgets the token and all failures: somebody has signed in anew. An exchange under way counts no more.
func (s *Source) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token, s.failures, s.failed, s.due = Token{}, 0, nil, time.Time{}
	s.refused, s.refusals = auth.Secret{}, 0
	s.logins++
	if s.flight != nil {
		s.flight.reset = true
		close(s.flight.done)
		s.flight = nil
	}
}

func (s *Source) signedIn() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logins
}

// look resets the source if somebody has signed in anew elsewhere. One caller looks, now and then; the others go on.
func (s *Source) look() {
	if s.changed == nil {
		return
	}
	s.mu.Lock()
	now := s.now()
	due := s.flight == nil && (now.Sub(s.looked) >= lookEvery || now.Before(s.looked)) // clocks step back
	if due {
		s.looked = now
	}
	s.mu.Unlock()
	if due && s.changed() {
		s.Reset()
	}
}

// State is what a person is told of an account.
type State struct {
	Good    bool
	Expires time.Time // of the token; zero: none, or never
	Err     *Error    // why there is none; nil: none was asked for yet, or there is one
}

// State returns what is known now, and asks for nothing.
func (s *Source) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	st := State{Good: s.good(now)}
	if st.Good {
		st.Expires = s.token.Expires
	}
	if s.failed != nil {
		st.Err = s.failure(now)
	}
	return st
}
