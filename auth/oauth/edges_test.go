package oauth

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A credential is the client's that signed in: another one, of another provider even, neither shows it nor spoils it.
func TestCredentialOfAnotherClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newMemory(map[string]Credential{work: {Kind: KindCopilot, Access: "ghu_secret", Obtained: time.Now()}})
		fails(t, process(v, &provider{}).Source(work, nil), ReasonNotSignedIn)

		v = newMemory(nil)
		p := &provider{refresh: "refresh-0", life: 3600}
		m := process(v, p)
		if err := m.Keep(t.Context(), work, signedIn()); err != nil {
			t.Fatal(err)
		}
		gives(t, m.Source(work, nil), "access-1")
		other := workClient
		other.ClientID = "typo"
		m.Configure(map[string]Client{work: other})
		time.Sleep(2 * time.Hour)
		fails(t, m.Source(work, nil), ReasonNotSignedIn)
		m.Configure(map[string]Client{work: workClient})
		gives(t, m.Source(work, nil), "access-2")
	})
}

// What could not be written gets a last chance at the end.
func TestUnsavedAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newMemory(map[string]Credential{work: signedIn()})
		p := &provider{refresh: "refresh-0", life: 3600, rotates: true}
		m := process(v, p)
		v.failWith(errFull)
		fails(t, m.Source(work, nil), ReasonTemporary)
		v.failWith(nil)
		m.Close(t.Context())
		if got := v.get(work).Refresh; got != p.refresh || got == "refresh-0" {
			t.Errorf("kept %q, the provider wants %q", got, p.refresh)
		}
	})
}

// A laptop sleeps: the end of a token is the wall's time.
func TestEndsByTheWall(t *testing.T) {
	v := newMemory(map[string]Credential{work: signedIn()})
	token, err := process(v, &provider{refresh: "refresh-0", life: 3600}).Source(work, nil).Token(context.Background())
	if err != nil || strings.Contains(token.Expires.String(), "m=") {
		t.Errorf("%v, %v", token.Expires, err)
	}
}

const aDevice = `{"device_code":"ddddd","user_code":"U-1","verification_uri":"https://x.example/d","expires_in":900,"interval":5}`

// hubFlow runs the device flow before a provider whose polls are answered so.
func hubFlow(ctx context.Context, poll roundTrip) (Credential, error) {
	begun := false
	c := Client{Name: "hub", Kind: KindCopilot, ClientID: "c"}.WithDefaults()
	return Login{Client: c, Now: time.Now, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		if begun {
			return poll(r)
		}
		begun = true
		return respond(200, nil, aDevice), nil
	})}.Device(ctx, func(string, string, time.Time) {})
}

// A provider that hangs, or that wants to be asked later than the code lives, holds nobody up beyond that; what was granted is
// taken, also at the moment in which nobody waits any more.
func TestDeviceAtItsEnd(t *testing.T) {
	for _, c := range []struct {
		name string
		poll roundTrip
	}{
		{"it hangs", func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}},
		{"later", func(*http.Request) (*http.Response, error) {
			return respond(429, http.Header{"Retry-After": {"3600"}}, `{}`), nil
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				if _, err := hubFlow(t.Context(), c.poll); err == nil || !strings.Contains(err.Error(), "in time") {
					t.Errorf("%v", err)
				}
				if d := time.Since(began); d > 16*time.Minute {
					t.Errorf("after %v", d)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		got, err := hubFlow(ctx, func(*http.Request) (*http.Response, error) {
			cancel()
			return respond(200, nil, `{"access_token":"ghu_abcdef"}`), nil
		})
		if err != nil || got.Access != "ghu_abcdef" {
			t.Errorf("%v", err)
		}
	})
}

// Waiting for another process leaves the exchange its time: a rotated token whose answer is not waited for is lost.
func TestLockTakesNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newMemory(map[string]Credential{work: signedIn()})
		p := &provider{refresh: "refresh-0", life: 3600, rotates: true}
		m := process(v, roundTrip(func(r *http.Request) (*http.Response, error) { // it rotates at once and answers late
			resp, err := p.RoundTrip(r)
			select {
			case <-time.After(exchangePatience / 2):
				return resp, err
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		}))
		held := make(chan struct{})
		go v.Hold(t.Context(), work, func() error {
			close(held)
			time.Sleep(exchangePatience * 9 / 10)
			return nil
		})
		<-held
		gives(t, m.Source(work, nil), "access-1")
		if got := v.get(work).Refresh; got != p.refresh {
			t.Errorf("kept %q, the provider wants %q", got, p.refresh)
		}
	})
}

// A token that has served was issued in earnest: that it ends soon is no reason to ask more rarely.
func TestServedTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSource((&numbered{}).fetch, time.Now)
		for i := range 10 {
			token := gives(t, s, "token-"+strconv.Itoa(i+1))
			s.Served("Bearer " + token.Access.Reveal())
			s.Drop(token)
		}
	})
}

// A refresh by one process is no login to the others, rotated or not: what they know stays.
func TestRotationIsNoLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newMemory(map[string]Credential{work: signedIn()})
		p := &provider{refresh: "refresh-0", life: 3600, rotates: true}
		here, there := process(v, p).Source(work, nil), process(v, p).Source(work, nil)
		gives(t, here, "access-1")
		there.Drop(gives(t, there, "access-1"))
		gives(t, there, "access-2")
		logins := here.signedIn()
		time.Sleep(2 * lookEvery)
		gives(t, here, "access-1")
		if n := here.signedIn(); n != logins {
			t.Errorf("%d resets", n-logins)
		}
	})
}

// A fixed port is ours on both addresses that localhost may be.
func TestLocalhostIsOurs(t *testing.T) {
	other, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("no IPv6 here: ", err)
	}
	defer other.Close()
	_, port, _ := net.SplitHostPort(other.Addr().String())
	n, _ := strconv.Atoi(port)
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }))
	defer issuer.Close()
	client := workClient
	client.AuthorizeURL, client.TokenURL = issuer.URL+"/auth", issuer.URL+"/token"
	_, err = Login{Client: client, Transport: http.DefaultTransport, Now: time.Now, Port: n}.Loopback(t.Context(), func(string) {
		t.Error("a person was sent to the provider")
	})
	if err == nil || !strings.Contains(err.Error(), "port "+port) {
		t.Errorf("%v", err)
	}
}
