package auth

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A session lasts twelve hours and not a moment longer, used or not.
func TestSessionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Sessions
		id := s.Begin(time.Now()).Reveal()
		for range 3 {
			time.Sleep(4*time.Hour - time.Millisecond)
			if !s.Has(id, time.Now()) {
				t.Fatal("it has ended early")
			}
		}
		time.Sleep(3 * time.Millisecond)
		if s.Has(id, time.Now()) {
			t.Error("it goes on")
		}
		s.Begin(time.Now())
		if len(s.ends) != 1 {
			t.Errorf("%d sessions are kept", len(s.ends))
		}
	})
}

// The wall clock counts: while a laptop sleeps the other one stands still.
func TestSessionsEndByTheWallClock(t *testing.T) {
	var s Sessions
	now := time.Now()
	id := s.Begin(now).Reveal()
	woken := now.Round(0).Add(SessionLife) // with no other reading
	if s.Has(id, woken) {
		t.Error("it goes on after the sleep")
	}
	for _, end := range s.ends {
		if strings.Contains(end.String(), "m=") {
			t.Error("its end is kept by the clock that stands still")
		}
	}
}

// There are at most so many; a further one takes the place of the oldest, never of a younger one.
func TestSessionsAreBounded(t *testing.T) {
	var s Sessions
	now := time.Now()
	var ids []string
	for n := range 3 * maxSessions {
		ids = append(ids, s.Begin(now.Add(time.Duration(n)*time.Second)).Reveal())
	}
	now = now.Add(time.Hour)
	if len(s.ends) != maxSessions {
		t.Errorf("%d sessions", len(s.ends))
	}
	for n, id := range ids {
		if want := n >= 2*maxSessions; s.Has(id, now) != want {
			t.Errorf("session %d goes on: %v, want %v", n, !want, want)
		}
	}
}

// Ids are long, all different, kept hashed alone, and do not print.
func TestSessionIDs(t *testing.T) {
	var s Sessions
	seen := map[string]bool{}
	for range maxSessions {
		id := s.Begin(time.Now())
		if text := id.Reveal(); len(text) != 43 || seen[text] { // 32 bytes in base64
			t.Errorf("id %q", text)
		}
		seen[id.Reveal()] = true
		if text := fmt.Sprintf("%v %+v %#v", id, id, id); strings.Contains(text, id.Reveal()) {
			t.Error("an id prints")
		}
	}
	inside := fmt.Sprintf("%#v %s", s.ends, fmt.Sprint(s.ends))
	for id := range seen {
		if strings.Contains(inside, id) {
			t.Error("an id is kept")
		}
		for _, near := range []string{id[1:], id + "=", id + " ", strings.ToUpper(id), ""} {
			if s.Has(near, time.Now()) {
				t.Errorf("%q opens", near)
			}
		}
		s.End(id)
		if s.Has(id, time.Now()) {
			t.Error("an ended one opens")
		}
	}
	if (&Sessions{}).Has("", time.Now()) {
		t.Error("nothing opens an empty store")
	}
	new(Sessions).End("nobody")
}

func TestSessionsAtOnce(t *testing.T) {
	var s Sessions
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 50 {
				id := s.Begin(time.Now()).Reveal()
				s.Has(id, time.Now())
				s.End(id)
			}
		})
	}
	all.Wait()
	if len(s.ends) != 0 {
		t.Errorf("%d sessions are left", len(s.ends))
	}
}

func TestSameAdmin(t *testing.T) {
	of := func(key string) *Callers { return NewCallers(Options{AdminKey: NewSecret(key)}) }
	for _, c := range []struct {
		a, b string
		want bool
	}{{"one", "one", true}, {"", "", true}, {"one", "two", false}, {"", "two", false}, {"one", "", false}} {
		if of(c.a).SameAdmin(of(c.b)) != c.want {
			t.Errorf("%q and %q: %v", c.a, c.b, !c.want)
		}
	}
}
