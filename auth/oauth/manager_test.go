package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"coding-proxy/auth"
)

func TestRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, v := &provider{refresh: "refresh-0"}, newMemory(map[string]Credential{work: signedIn()})
		m := process(v, p)
		s := m.Source(work, nil)
		if got := gives(t, s, "access-1"); !got.Expires.Equal(time.Now().Add(time.Hour)) {
			t.Errorf("ends at %v", got.Expires)
		}
		form := p.forms[0]
		for name, want := range map[string]string{"grant_type": "refresh_token", "refresh_token": "refresh-0", "client_id": "client-1", "client_secret": "client-secret-1"} {
			if form.Get(name) != want {
				t.Errorf("%s is %q", name, form.Get(name))
			}
		}
		c := v.get(work)
		if c.Refresh != "refresh-0" || c.Access != "access-1" || !c.Obtained.Equal(signedIn().Obtained) || c.Account == "" || c.Parked != "" {
			t.Errorf("kept: %#v", c)
		}
		if m.Source(work, nil) != s || m.Source(work, nil) != s {
			t.Error("another source of the same account")
		}
		m.Configure(map[string]Client{work: workClient, "play": workClient})
		if m.Source(work, nil) != s {
			t.Error("another source after a reload")
		}
		gives(t, s, "access-1")
		gives(t, process(v, p).Source(work, nil), "access-1") // the next process needs no exchange
		if n := p.exchanges(); n != 1 {
			t.Errorf("%d exchanges", n)
		}
		p.life = 120
		time.Sleep(2 * time.Hour)
		if got := gives(t, s, "access-2"); !got.Expires.Equal(time.Now().Add(2 * time.Minute)) {
			t.Errorf("ends at %v", got.Expires)
		}
	})
}

// KEY-009: a refresh token that is good for one exchange, and many requests at once, in two processes.
func TestKEY009RefreshStampede(t *testing.T) {
	for _, processes := range []int{1, 2, 5} {
		t.Run(fmt.Sprint(processes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &provider{refresh: "refresh-0", rotates: true, gate: make(chan struct{})}
				v := newMemory(map[string]Credential{work: signedIn()})
				var waits []func() (map[string]int, map[string]int)
				for range processes {
					waits = append(waits, askAtOnce(process(v, p).Source(work, nil), 500))
				}
				synctest.Wait()
				close(p.gate)
				for _, wait := range waits {
					if tokens, failures := wait(); tokens["access-1"] != 500 {
						t.Errorf("%v %v", tokens, failures)
					}
				}
				if n := p.exchanges(); n != 1 {
					t.Errorf("%d exchanges", n)
				}
			})
		})
	}
}

// KEY-009, second run: the provider says when to come back.
func TestKEY009RetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, v := &provider{refresh: "refresh-0"}, newMemory(map[string]Credential{work: signedIn()})
		p.answers(http.StatusTooManyRequests, `{"error":"rate_limited"}`, "Retry-After", "30")
		s := process(v, p).Source(work, nil)
		_, failures := askAtOnce(s, 20)()
		if len(failures) != 1 || p.exchanges() != 1 {
			t.Errorf("%v, %d exchanges", failures, p.exchanges())
		}
		time.Sleep(29 * time.Second)
		if e := fails(t, s, ReasonTemporary); e.Retry != time.Second || e.Final || p.exchanges() != 1 {
			t.Errorf("%+v, %d exchanges", e, p.exchanges())
		}
		p.serves("refresh-0")
		time.Sleep(time.Second)
		gives(t, s, "access-2")
	})
}

// KEY-012: a revoked refresh token is shown once. Nobody asks again, in no process, until the next login.
func TestKEY012InvalidGrant(t *testing.T) {
	for _, answer := range []struct {
		status int
		body   string
	}{
		{400, `{"error":"invalid_grant","error_description":"Token has been expired or revoked."}`},
		{401, `{"error":{"code":"refresh_token_reused","message":"Your refresh token has already been used."}}`},
		{200, `{"error":"bad_refresh_token","error_description":"The refresh token passed is incorrect or expired."}`},
	} {
		synctest.Test(t, func(t *testing.T) {
			p, v := &provider{}, newMemory(map[string]Credential{work: signedIn()})
			p.answers(answer.status, answer.body)
			m := process(v, p)
			s := m.Source(work, nil)
			if e := fails(t, s, ReasonGrant); !e.Final || e.Retry != 0 || !strings.Contains(e.Message, "coding-proxy login work") {
				t.Errorf("%+v", e)
			}
			other := process(v, p).Source(work, nil)
			for range 3 {
				time.Sleep(time.Hour)
				fails(t, s, ReasonGrant)
				if e := fails(t, other, ReasonGrant); !e.Final || !strings.Contains(e.Message, "coding-proxy login work") {
					t.Errorf("%+v", e)
				}
			}
			if n := p.exchanges(); n != 1 {
				t.Errorf("%d exchanges", n)
			}
			if c := v.get(work); c.Parked != ReasonGrant {
				t.Errorf("parked: %q", c.Parked)
			}
			p.serves("refresh-new")
			if err := m.Keep(t.Context(), work, Credential{Refresh: "refresh-new", Parked: "x"}); err != nil {
				t.Fatal(err)
			}
			gives(t, s, "access-2")
			time.Sleep(lookEvery)
			gives(t, other, "access-2")
			if c := v.get(work); c.Parked != "" || c.Kind != KindGoogle || c.Obtained.IsZero() {
				t.Errorf("%#v", c)
			}
		})
	}
}

// What the provider has rotated is written before anybody has the access token; while it cannot be written nobody has, and
// the used-up token is not shown again.
func TestRotatedBeforeUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, v := &provider{refresh: "refresh-0", rotates: true}, newMemory(map[string]Credential{work: signedIn()})
		s := process(v, p).Source(work, nil)
		answered := make(chan string)
		writing := make(chan struct{})
		v.write = func(kept map[string]Credential) {
			if kept[work].Refresh != "refresh-1" {
				t.Errorf("what is written holds %q", kept[work].Refresh)
			}
			writing <- struct{}{}
		}
		go func() {
			got, err := s.Token(context.Background())
			answered <- fmt.Sprint(got.Access.Reveal(), err)
		}()
		synctest.Wait()
		select {
		case got := <-answered:
			t.Fatalf("%s before the file was written", got)
		case <-writing:
		}
		if got := <-answered; got != "access-1<nil>" {
			t.Fatal(got)
		}

		v.write = nil
		v.failWith(errFull)
		time.Sleep(2 * time.Hour)
		e := fails(t, s, ReasonTemporary)
		if !strings.Contains(e.Message, "cannot be written") || !strings.Contains(e.Message, errFull.Error()) {
			t.Errorf("%v", e)
		}
		for range 5 {
			time.Sleep(2 * time.Minute)
			fails(t, s, ReasonTemporary)
		}
		v.failWith(nil)
		time.Sleep(2 * time.Minute)
		gives(t, s, "access-2")
		if n := p.exchanges(); n != 2 || v.get(work).Refresh != "refresh-2" {
			t.Errorf("%d exchanges, kept %q", n, v.get(work).Refresh)
		}
		gives(t, process(v, p).Source(work, nil), "access-2")
	})
}

// Where nothing was rotated a full disk stops nobody.
func TestNothingToWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, v := &provider{refresh: "refresh-0"}, newMemory(map[string]Credential{work: signedIn()})
		v.failWith(errFull)
		gives(t, process(v, p).Source(work, nil), "access-1")
	})
}

// A login in another process is noticed within seconds: by who has failed, by who has a good token, and by who has none.
func TestLoginElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, v := &provider{}, newMemory(nil)
		here, there := process(v, p), process(v, p)
		s := here.Source(work, nil)
		if e := fails(t, s, ReasonNotSignedIn); !e.Final || !strings.Contains(e.Message, "coding-proxy login work") {
			t.Errorf("%+v", e)
		}
		for i, c := range []Credential{
			{Refresh: "refresh-a"},
			{Refresh: "refresh-b", Access: "access-b", Expires: time.Now().Add(time.Hour)},
			{Kind: KindGoogle, Access: "gho-c"},
			{Kind: KindGoogle, Access: "gho-d"},
		} {
			p.serves(c.Refresh)
			if err := there.Keep(t.Context(), work, c); err != nil {
				t.Fatal(err)
			}
			want := c.Access
			if want == "" {
				want = "access-1"
			}
			reads := v.reads.Load()
			for range 10 {
				got, _ := s.Token(t.Context())
				if got.Access.Reveal() == want {
					t.Errorf("login %d is noticed at once: it reads the file for each request", i)
				}
			}
			if n := v.reads.Load() - reads; n != 0 {
				t.Errorf("%d looks at once", n)
			}
			time.Sleep(lookEvery)
			gives(t, s, want)
		}
		if err := there.Forget(t.Context(), work); err != nil {
			t.Fatal(err)
		}
		time.Sleep(lookEvery)
		fails(t, s, ReasonNotSignedIn)
		if e := new(Error); !errors.As(there.Forget(t.Context(), work), &e) || e.Reason != ReasonNotSignedIn {
			t.Errorf("%v", e)
		}
	})
}

// A GitHub token that is refused is not taken from the file again; another one is.
func TestStaticRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newMemory(map[string]Credential{work: {Kind: KindGoogle, Access: "gho-1"}})
		m := process(v, &provider{})
		s := m.Source(work, nil)
		token := gives(t, s, "gho-1")
		if !token.Expires.IsZero() {
			t.Errorf("ends at %v", token.Expires)
		}
		time.Sleep(1000 * time.Hour)
		gives(t, s, "gho-1")
		s.Drop(token)
		for range 3 {
			if e := fails(t, s, ReasonCredentials); !e.Final || !strings.Contains(e.Message, "coding-proxy login work") {
				t.Errorf("%+v", e)
			}
			time.Sleep(time.Minute)
		}
		if err := process(v, &provider{}).Keep(t.Context(), work, Credential{Access: "gho-2"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(lookEvery)
		gives(t, s, "gho-2")
	})
}

// An access token that was refused is exchanged, though the file says that it serves; another process's newer one is taken.
func TestDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, v := &provider{refresh: "refresh-0"}, newMemory(map[string]Credential{work: signedIn()})
		one, two := process(v, p).Source(work, nil), process(v, p).Source(work, nil)
		token := gives(t, one, "access-1")
		gives(t, two, "access-1")
		one.Drop(token)
		gives(t, one, "access-2")
		two.Drop(token)
		gives(t, two, "access-2")
		if n := p.exchanges(); n != 2 {
			t.Errorf("%d exchanges", n)
		}
	})
}

// The refresh token of a key: what it was rotated to counts as long as the configuration has the same one.
func TestSeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, v := &provider{refresh: "seed-1", rotates: true}, newMemory(nil)
		account := func(seed string) *Source {
			return process(v, p).Account("k1", workClient, auth.NewSecret(seed), nil)
		}
		gives(t, account("seed-1"), "access-1")
		gives(t, account("seed-1"), "access-1")
		time.Sleep(2 * time.Hour)
		gives(t, account("seed-1"), "access-2") // with refresh-1
		if c := v.get("key:k1"); c.Refresh != "refresh-2" || strings.Contains(c.Origin, "seed") {
			t.Errorf("%#v", c)
		}
		p.serves("seed-2")
		s := account("seed-2")
		gives(t, s, "access-3")
		if c := v.get("key:k1"); c.Refresh != "refresh-3" {
			t.Errorf("%#v", c)
		}
		p.answers(400, `{"error":"invalid_grant"}`)
		time.Sleep(2 * time.Hour)
		if e := fails(t, s, ReasonGrant); !e.Final || !strings.Contains(e.Message, "the key k1") || strings.Contains(e.Message, "login") {
			t.Errorf("%+v", e)
		}
		fails(t, account("seed-2"), ReasonGrant)
		p.serves("seed-3")
		gives(t, account("seed-3"), "access-5")
		gives(t, account("key:seed-3"[4:]), "access-5")
	})
}

// A seed that is not rotated stays in the configuration alone, and one that is refused is tried again when its entry is removed.
func TestSeedStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, v := &provider{refresh: "seed-1"}, newMemory(nil)
		m := process(v, p)
		s := m.Account("key:k1", workClient, auth.NewSecret("seed-1"), nil)
		gives(t, s, "access-1")
		if c := v.get("key:k1"); c.Refresh != "" || c.Access != "access-1" {
			t.Errorf("%#v", c)
		}
		p.answers(400, `{"error":"invalid_grant"}`)
		time.Sleep(2 * time.Hour)
		fails(t, s, ReasonGrant)
		p.serves("seed-1")
		if err := process(v, p).Forget(t.Context(), "key:k1"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(lookEvery)
		gives(t, s, "access-3")
		if m.Account("k1", workClient, auth.NewSecret("seed-1"), nil) != s {
			t.Error("another source of the same key")
		}
		p.serves("seed-2")
		m.Account("k1", workClient, auth.NewSecret("seed-2"), nil)
		gives(t, s, "access-4")
	})
}

// A login or logout during an exchange wins over what the exchange comes to.
func TestOvertaken(t *testing.T) {
	for name, elsewhere := range map[string]func(*Manager) error{
		"login": func(m *Manager) error {
			return m.Keep(context.Background(), work, Credential{Refresh: "refresh-new", Access: "access-new", Expires: time.Now().Add(time.Hour)})
		},
		"logout": func(m *Manager) error { return m.Forget(context.Background(), work) },
	} {
		for _, body := range []string{"", `{"error":"invalid_grant"}`} {
			t.Run(name+body, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := &provider{refresh: "refresh-0", rotates: true, gate: make(chan struct{})}
					if body != "" {
						p.answers(400, body)
					}
					v := newMemory(map[string]Credential{work: signedIn()})
					s := process(v, p).Source(work, nil)
					wait := askAtOnce(s, 3)
					synctest.Wait()
					if err := elsewhere(process(v, p)); err != nil {
						t.Fatal(err)
					}
					close(p.gate)
					tokens, failures := wait()
					if name == "login" && body == "" && tokens["access-new"] != 3 || tokens["access-1"] != 0 {
						t.Errorf("%v %v", tokens, failures)
					}
					c := v.get(work)
					if name == "logout" && c.Kind != "" || name == "login" && c.Refresh != "refresh-new" {
						t.Errorf("kept: %#v", c)
					}
					time.Sleep(lookEvery)
					if name == "login" {
						gives(t, s, "access-new")
					} else {
						fails(t, s, ReasonNotSignedIn)
					}
				})
			})
		}
	}
}

// A reload: another client is another sign-in; the transport is the last configuration's, and never none for a moment.
func TestConfigure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		direct, proxied := &provider{refresh: "refresh-0", life: 60}, &provider{refresh: "refresh-0", life: 60}
		v := newMemory(map[string]Credential{work: signedIn()})
		m := process(v, direct)
		used := func(want *provider) {
			t.Helper()
			before := want.exchanges()
			time.Sleep(time.Hour)
			if _, err := m.Source(work, nil).Token(t.Context()); err != nil || want.exchanges() != before+1 {
				t.Errorf("the other transport was used, %v", err)
			}
		}
		used(direct)
		m.Source(work, proxied)
		used(proxied)
		m.Configure(map[string]Client{work: workClient})
		time.Sleep(time.Hour)
		before := proxied.exchanges()
		if _, err := m.accounts[work].source.Token(t.Context()); err != nil || proxied.exchanges() != before+1 {
			t.Errorf("between a reload and its keys: another transport, %v", err)
		}
		m.Source(work, nil)
		used(direct)

		s := m.Source(work, nil)
		other := workClient
		other.ClientID = "client-2"
		m.Configure(map[string]Client{work: other})
		if st := s.State(); st.Good {
			t.Error("another client's token is given out")
		}
		m.Configure(nil)
		time.Sleep(time.Hour)
		if e := fails(t, s, ReasonNotSignedIn); !strings.Contains(e.Message, "`oauth`") {
			t.Errorf("%+v", e)
		}
	})
}

// States tell all that is known and no secret; Look tells who has signed in or out since.
func TestStatesAndLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, v := &provider{refresh: "refresh-0"}, newMemory(map[string]Credential{work: signedIn(), "gone": {Kind: KindCopilot, Access: "gho-secret"}})
		m, other := process(v, p), process(v, p)
		m.Configure(map[string]Client{work: workClient, "play": {Kind: KindCopilot, ClientID: "c"}})
		if n := m.Look(); len(n) != 0 {
			t.Errorf("first look: %v", n)
		}
		key := m.Account("k1", workClient, auth.NewSecret("refresh-0"), nil)
		gives(t, key, "access-1")
		gives(t, m.Source(work, nil), "access-2")
		fails(t, m.Source("play", nil), ReasonNotSignedIn)
		if n := m.Look(); len(n) != 0 {
			t.Errorf("refreshes are no logins: %v", n)
		}
		states, err := m.States()
		if err != nil {
			t.Fatal(err)
		}
		var texts []string
		for _, s := range states {
			texts = append(texts, fmt.Sprintf("%s %s configured=%v in=%v renews=%v", s.Name, s.Kind, s.Configured, s.SignedIn, s.Renews))
		}
		want := []string{
			"gone copilot configured=false in=true renews=false",
			"key:k1 google configured=true in=true renews=true",
			"play copilot configured=true in=false renews=false",
			"work google configured=true in=true renews=true",
		}
		if !slices.Equal(texts, want) {
			t.Errorf("%s", strings.Join(texts, "\n"))
		}
		noSecrets(t, []string{fmt.Sprintf("%+v", states), fmt.Sprintf("%v", m), fmt.Sprintf("%+v", v.get("gone"))}, "gho-secret", "refresh-0", "access-1", "access-2", "client-secret-1")
		if s := states[2]; s.Err == nil || s.Err.Reason != ReasonNotSignedIn {
			t.Errorf("%+v", s)
		}

		if err := other.Keep(t.Context(), "play", Credential{Access: "gho-2"}); err != nil {
			t.Fatal(err)
		}
		if err := other.Forget(t.Context(), work); err != nil {
			t.Fatal(err)
		}
		if n := m.Look(); !slices.Equal(n, []string{"play", work}) {
			t.Errorf("%v", n)
		}
		gives(t, m.Source("play", nil), "gho-2") // at once
		fails(t, m.Source(work, nil), ReasonNotSignedIn)
		if n := m.Look(); len(n) != 0 {
			t.Errorf("%v", n)
		}
		p.answers(400, `{"error":"invalid_grant"}`)
		time.Sleep(2 * time.Hour)
		fails(t, key, ReasonGrant)
		if n := m.Look(); len(n) != 0 {
			t.Errorf("parking is no login: %v", n)
		}
		if err := other.Forget(t.Context(), "key:k1"); err != nil {
			t.Fatal(err)
		}
		p.serves("refresh-0")
		if n := m.Look(); !slices.Equal(n, []string{"key:k1"}) {
			t.Errorf("%v", n)
		}
		gives(t, key, "access-4")
	})
}

// At the end no exchange begins, and one under way is waited for.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{refresh: "refresh-0", rotates: true, gate: make(chan struct{})}
		v := newMemory(map[string]Credential{work: signedIn()})
		m := process(v, p)
		wait := askAtOnce(m.Source(work, nil), 1)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		m.Close(ctx)
		if ctx.Err() == nil {
			t.Error("it did not wait")
		}
		fails(t, m.Account("k1", workClient, auth.NewSecret("seed"), nil), ReasonTemporary)
		close(p.gate)
		m.Close(context.Background())
		if v.get(work).Refresh != "refresh-1" {
			t.Error("the rotated token is not written")
		}
		wait()
	})
}

// One account's provider that hangs holds up no other account, in no process.
func TestHangingProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs, p := &provider{gate: make(chan struct{})}, &provider{refresh: "refresh-0", rotates: true}
		v := newMemory(map[string]Credential{work: signedIn(), "play": signedIn()})
		m := process(v, p)
		m.Configure(map[string]Client{work: workClient, "play": workClient})
		wait := askAtOnce(m.Source(work, hangs), 5)
		synctest.Wait()
		began := time.Now()
		gives(t, m.Source("play", nil), "access-1")
		if time.Since(began) != 0 {
			t.Errorf("waited %v", time.Since(began))
		}
		if _, failures := wait(); failures["token_exchange_failed: no answer from idp.example in time"] != 5 {
			t.Errorf("%v", failures)
		}
		if d := time.Since(began); d != exchangePatience {
			t.Errorf("after %v", d)
		}
	})
}

// What the provider has answered is written, also when the patience with the exchange ends meanwhile.
func TestLateWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{refresh: "refresh-0", rotates: true, gate: make(chan struct{})}
		v := newMemory(map[string]Credential{work: signedIn()})
		wait := askAtOnce(process(v, p).Source(work, nil), 3)
		time.Sleep(exchangePatience - time.Second)
		<-v.lock // another process writes
		close(p.gate)
		time.Sleep(3 * time.Second)
		v.lock <- struct{}{}
		if tokens, failures := wait(); tokens["access-1"] != 3 || v.get(work).Refresh != "refresh-1" {
			t.Errorf("%v %v, kept %q", tokens, failures, v.get(work).Refresh)
		}
	})
}

// Another process's token is taken while it serves, not in its last tenth: the next exchange would be due at once.
func TestNearlyEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, v := &provider{refresh: "refresh-0", life: 60}, newMemory(map[string]Credential{work: signedIn()})
		gives(t, process(v, p).Source(work, nil), "access-1")
		time.Sleep(30 * time.Second)
		gives(t, process(v, p).Source(work, nil), "access-1")
		time.Sleep(25 * time.Second)
		gives(t, process(v, p).Source(work, nil), "access-2")
	})
}

// Who exchanges a GitHub token notices a login elsewhere while its own token still serves.
func TestFollowStatic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newMemory(map[string]Credential{work: {Kind: KindGoogle, Access: "gho-1"}})
		base := process(v, &provider{}).Source(work, nil)
		s := NewSource(func(ctx context.Context) (Token, error) {
			t, err := base.Token(ctx)
			return Token{Access: auth.NewSecret("of " + t.Access.Reveal()), Expires: time.Now().Add(time.Hour)}, err
		}, time.Now)
		s.Follow(base)
		gives(t, s, "of gho-1")
		v.mu.Lock()
		v.kept[work] = Credential{Kind: KindGoogle, Access: "gho-2"} // by hand
		v.mu.Unlock()
		time.Sleep(lookEvery)
		gives(t, s, "of gho-2")
	})
}
