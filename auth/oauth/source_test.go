package oauth

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"coding-proxy/auth"
)

// numbered is a provider whose n-th token is "token-n".
type numbered struct {
	life  time.Duration // of the tokens; 0: they do not end
	count atomic.Int32
	gate  chan struct{} // each exchange takes one; nil: they wait for nothing
	err   atomic.Pointer[Error]
}

func (n *numbered) fetch(context.Context) (Token, error) {
	i := n.count.Add(1)
	if n.gate != nil {
		<-n.gate
	}
	if e := n.err.Load(); e != nil {
		return Token{}, e
	}
	t := Token{Access: auth.NewSecret(fmt.Sprintf("token-%d", i))}
	if n.life != 0 {
		t.Expires = time.Now().Add(n.life)
	}
	return t, nil
}

// gives fails the test unless the source gives this token.
func gives(t *testing.T, s *Source, want string) Token {
	t.Helper()
	got, err := s.Token(t.Context())
	if err != nil || got.Access.Reveal() != want {
		t.Fatalf("token %q, %v; want %q", got.Access.Reveal(), err, want)
	}
	return got
}

// fails fails the test unless the source fails for the reason.
func fails(t *testing.T, s *Source, reason string) *Error {
	t.Helper()
	got, err := s.Token(t.Context())
	e := new(Error)
	if !errors.As(err, &e) || e.Reason != reason {
		t.Fatalf("token %q, %v; want %s", got.Access.Reveal(), err, reason)
	}
	return e
}

// askAtOnce lets n callers ask at once and returns their answers when all have one.
func askAtOnce(s *Source, n int) (wait func() (tokens map[string]int, failures map[string]int)) {
	var mu sync.Mutex
	var all sync.WaitGroup
	tokens, failures := map[string]int{}, map[string]int{}
	for range n {
		all.Go(func() {
			t, err := s.Token(context.Background())
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failures[err.Error()]++
			} else {
				tokens[t.Access.Reveal()]++
			}
		})
	}
	return func() (map[string]int, map[string]int) {
		all.Wait()
		return tokens, failures
	}
}

func TestOneExchangeForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &numbered{life: time.Hour, gate: make(chan struct{}, 1)}
		s := NewSource(p.fetch, time.Now)
		p.gate <- struct{}{}
		gives(t, s, "token-1")
		time.Sleep(2 * time.Hour) // it ends
		wait := askAtOnce(s, 500)
		synctest.Wait()
		if n := p.count.Load(); n != 2 {
			t.Errorf("%d exchanges have begun, want one more than before", n-1)
		}
		p.gate <- struct{}{}
		if tokens, failures := wait(); tokens["token-2"] != 500 {
			t.Errorf("%v %v", tokens, failures)
		}
		if n := p.count.Load(); n != 2 {
			t.Errorf("%d exchanges", n)
		}
	})
}

// A failing exchange fails all who wait; the next one comes later each time, and the account comes back.
func TestExchangeFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &numbered{life: time.Hour}
		p.err.Store(&Error{Reason: ReasonTemporary, Message: "down"})
		s := NewSource(p.fetch, time.Now)
		pause, before := time.Second, int32(0)
		for range 9 {
			_, failures := askAtOnce(s, 500)()
			if n := p.count.Load() - before; n != 1 || failures["token_exchange_failed: down"] != 500 {
				t.Fatalf("%d exchanges, %v", n, failures)
			}
			before++
			time.Sleep(pause - time.Millisecond)
			if e := fails(t, s, ReasonTemporary); e.Retry <= 0 || p.count.Load() != before {
				t.Fatalf("asked again before %v: %d exchanges, retry %v", pause, p.count.Load(), e.Retry)
			}
			time.Sleep(pause/10 + 2*time.Millisecond) // some chance is added
			pause = min(2*pause, time.Minute)
		}
		p.err.Store(nil)
		gives(t, s, "token-10")
		p.err.Store(&Error{Reason: ReasonTemporary, Retry: time.Hour})
		time.Sleep(2 * time.Hour)
		fails(t, s, ReasonTemporary)
		time.Sleep(59 * time.Minute)
		if e := fails(t, s, ReasonTemporary); e.Retry != time.Minute || p.count.Load() != 11 {
			t.Errorf("asked before the time that the provider named: %v, %d exchanges", e.Retry, p.count.Load())
		}
		time.Sleep(time.Minute)
		p.err.Store(nil)
		gives(t, s, "token-12")
		if st := s.State(); !st.Good || st.Err != nil || !st.Expires.Equal(time.Now().Add(time.Hour)) {
			t.Errorf("%+v", st)
		}
	})
}

// Near its end a token still serves while the next is fetched, also when that fails.
func TestEarlyRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &numbered{life: time.Hour, gate: make(chan struct{}, 1)}
		s := NewSource(p.fetch, time.Now)
		p.gate <- struct{}{}
		gives(t, s, "token-1")
		time.Sleep(58 * time.Minute)
		gives(t, s, "token-1")
		if p.count.Load() != 1 {
			t.Error("it is fetched anew with two minutes left")
		}
		time.Sleep(time.Second)
		for range 3 {
			gives(t, s, "token-1") // nobody waits
		}
		synctest.Wait()
		if p.count.Load() != 2 {
			t.Errorf("%d exchanges", p.count.Load())
		}
		p.gate <- struct{}{}
		synctest.Wait()
		gives(t, s, "token-2")

		p.err.Store(&Error{Reason: ReasonGrant, Final: true})
		close(p.gate)
		time.Sleep(59 * time.Minute)
		gives(t, s, "token-2")
		synctest.Wait()
		gives(t, s, "token-2")
		if st := s.State(); !st.Good || st.Err == nil || p.count.Load() != 3 {
			t.Errorf("%+v after %d exchanges", st, p.count.Load())
		}
		time.Sleep(time.Minute)
		if e := fails(t, s, ReasonGrant); !e.Final || p.count.Load() != 3 {
			t.Errorf("%v after %d exchanges", e, p.count.Load())
		}
	})
}

// Tokens of a short life are renewed in its last tenth, and one that had ended before it came is a failure.
func TestShortLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &numbered{life: 10 * time.Second}
		s := NewSource(p.fetch, time.Now)
		gives(t, s, "token-1")
		time.Sleep(9 * time.Second)
		gives(t, s, "token-1")
		synctest.Wait()
		gives(t, s, "token-1")
		time.Sleep(time.Millisecond)
		gives(t, s, "token-1")
		synctest.Wait()
		gives(t, s, "token-2")
		p.life = -time.Second
		time.Sleep(time.Minute)
		fails(t, s, ReasonTemporary)
		fails(t, s, ReasonTemporary)
		if n := p.count.Load(); n != 3 {
			t.Errorf("%d exchanges", n)
		}
	})
}

// Who stops waiting ends the exchange for nobody else.
func TestCallerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &numbered{gate: make(chan struct{})}
		s := NewSource(p.fetch, time.Now)
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		first := make(chan error, 1)
		go func() {
			_, err := s.Token(ctx)
			first <- err
		}()
		synctest.Wait()
		wait := askAtOnce(s, 3)
		synctest.Wait()
		cancel(gone)
		if err := <-first; !errors.Is(err, gone) {
			t.Errorf("who left got %v", err)
		}
		p.gate <- struct{}{}
		if tokens, failures := wait(); tokens["token-1"] != 3 || p.count.Load() != 1 {
			t.Errorf("%v %v after %d exchanges", tokens, failures, p.count.Load())
		}
	})
}

// However many drop the tokens that they were refused with, each token costs one exchange.
func TestDropRaces(t *testing.T) {
	p := &numbered{life: time.Hour}
	var at atomic.Int64 // minutes
	s := NewSource(p.fetch, func() time.Time { return time.Now().Add(time.Duration(at.Load()) * time.Minute) })
	p.life = 1000 * time.Hour
	for round := range int32(50) {
		var all sync.WaitGroup
		want := fmt.Sprintf("token-%d", round+1)
		for range 20 {
			all.Go(func() {
				got, err := s.Token(context.Background())
				if err != nil || got.Access.Reveal() != want && got.Access.Reveal() != fmt.Sprintf("token-%d", round+2) {
					t.Errorf("round %d: %q %v", round, got.Access.Reveal(), err)
				}
				s.Drop(Token{Access: auth.NewSecret(want)})
				s.Refused("Bearer " + want)
				s.Refused(want)
				s.Drop(Token{})
			})
		}
		all.Wait()
		at.Add(2)
		gives(t, s, fmt.Sprintf("token-%d", round+2))
		if n := p.count.Load(); n != round+2 {
			t.Fatalf("round %d: %d exchanges", round, n)
		}
	}
}

// A provider that refuses each token as soon as it issues it is asked ever more rarely.
func TestEachTokenRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &numbered{life: time.Hour}
		s := NewSource(p.fetch, time.Now)
		s.Drop(gives(t, s, "token-1"))
		s.Drop(gives(t, s, "token-2"))
		s.Drop(gives(t, s, "token-3"))
		if e := fails(t, s, ReasonCredentials); e.Final || e.Retry < time.Second || e.Retry > 1100*time.Millisecond {
			t.Errorf("%+v", e)
		}
		time.Sleep(1200 * time.Millisecond)
		s.Drop(gives(t, s, "token-4"))
		time.Sleep(1900 * time.Millisecond)
		fails(t, s, ReasonCredentials)
		time.Sleep(400 * time.Millisecond)
		token := gives(t, s, "token-5")
		time.Sleep(2 * time.Minute)
		s.Drop(token) // it has served
		s.Drop(gives(t, s, "token-6"))
		gives(t, s, "token-7")
	})
}

// Refuse tells why no other token would do; late word of an older token changes nothing.
func TestRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &numbered{}
		s := NewSource(p.fetch, time.Now)
		old := gives(t, s, "token-1")
		s.Drop(old)
		token := gives(t, s, "token-2")
		why := &Error{Reason: ReasonScope, Final: true, Message: "too little"}
		s.Refuse(old, why)
		gives(t, s, "token-2")
		s.Refuse(token, why)
		time.Sleep(finalBackoff / 2)
		if e := fails(t, s, ReasonScope); !e.Final || p.count.Load() != 2 {
			t.Errorf("%+v, %d exchanges", e, p.count.Load())
		}
		s.Reset()
		gives(t, s, "token-3")
		s.Refuse(Token{Access: auth.NewSecret("token-3")}, why)
		time.Sleep(2 * finalBackoff) // nobody did anything, but the provider may have changed its mind
		gives(t, s, "token-4")
	})
}

// A login during an exchange counts; what the exchange comes to does not, and who waited gets the new one's token.
func TestResetDuringExchange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &numbered{gate: make(chan struct{})}
		s := NewSource(p.fetch, time.Now)
		wait := askAtOnce(s, 10)
		synctest.Wait()
		s.Reset()
		synctest.Wait()
		if n := p.count.Load(); n != 2 {
			t.Fatalf("%d exchanges", n)
		}
		p.err.Store(&Error{Reason: ReasonGrant, Final: true})
		p.gate <- struct{}{} // the first that waits for it is the first exchange
		synctest.Wait()
		p.err.Store(nil)
		p.gate <- struct{}{}
		tokens, failures := wait()
		if tokens["token-2"] != 10 {
			t.Errorf("%v %v", tokens, failures)
		}
		gives(t, s, "token-2")
		if st := s.State(); !st.Good || st.Err != nil {
			t.Errorf("%+v", st)
		}
	})
}

// Who exchanges another account's token forgets its own when somebody signs in anew there.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base, p := &numbered{}, &numbered{}
		b := NewSource(base.fetch, time.Now)
		s := NewSource(func(ctx context.Context) (Token, error) {
			if _, err := b.Token(ctx); err != nil {
				return Token{}, err
			}
			return p.fetch(ctx)
		}, time.Now)
		s.Follow(b)
		gives(t, s, "token-1")
		time.Sleep(lookEvery)
		gives(t, s, "token-1")
		b.Reset()
		gives(t, s, "token-1") // it was just looked
		time.Sleep(lookEvery)
		gives(t, s, "token-2")
		base.err.Store(&Error{Reason: ReasonNotSignedIn, Final: true})
		b.Reset()
		time.Sleep(lookEvery)
		fails(t, s, ReasonNotSignedIn)
		time.Sleep(time.Hour)
		fails(t, s, ReasonNotSignedIn)
		base.err.Store(nil)
		b.Reset()
		time.Sleep(lookEvery)
		gives(t, s, "token-3")
	})
}

// What fetch returns that is no Error is told in our words.
func TestForeignError(t *testing.T) {
	s := NewSource(func(context.Context) (Token, error) { return Token{}, errors.New("socks5://user:hunter2@proxy") }, time.Now)
	if e := fails(t, s, ReasonTemporary); strings.Contains(e.Error(), "hunter2") || e.Message == "" {
		t.Errorf("%v", e)
	}
}
