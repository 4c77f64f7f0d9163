package auth

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Five wrong keys a minute and address; then not even a right one counts, for as long as is said.
func TestAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a Attempts
		for n := range maxWrong {
			if wait := a.Try("here", false, time.Now()); wait != 0 {
				t.Errorf("attempt %d waits %s", n, wait)
			}
			if wait := a.Try("here", true, time.Now()); n < maxWrong-1 && wait != 0 {
				t.Errorf("a right one after %d waits %s", n, wait)
			}
			time.Sleep(time.Second)
		}
		wait := a.Try("here", true, time.Now())
		if want := wrongSpan - maxWrong*time.Second; wait != want || a.Try("here", false, time.Now()) != want {
			t.Errorf("a right one waits %s, want %s", wait, want)
		}
		if a.Try("there", true, time.Now()) != 0 {
			t.Error("another address waits")
		}
		time.Sleep(wait - 1)
		if got := a.Try("here", true, time.Now()); got != 1 {
			t.Errorf("a moment before the end: %s", got)
		}
		time.Sleep(1)
		if a.Try("here", true, time.Now()) != 0 {
			t.Error("it waits after the end")
		}
		// The first is forgotten, the others are not: there is room for one.
		if a.Try("here", false, time.Now()) != 0 || a.Try("here", false, time.Now()) == 0 {
			t.Error("not one place is free")
		}
	})
}

// Of many at once no more than five are looked at.
func TestAttemptsAtOnce(t *testing.T) {
	var a Attempts
	var all sync.WaitGroup
	var looked atomic.Int32
	now := time.Now()
	for range 64 {
		all.Go(func() {
			if a.Try("here", false, now) == 0 {
				looked.Add(1)
			}
		})
	}
	all.Wait()
	if looked.Load() != maxWrong {
		t.Errorf("%d were looked at", looked.Load())
	}
}

// However many addresses guess, no more are kept: further ones count as one.
func TestAttemptsAreBounded(t *testing.T) {
	var a Attempts
	now := time.Now()
	for n := range maxWatched {
		a.Try(fmt.Sprint(n), false, now)
	}
	for n := range maxWrong {
		if a.Try(fmt.Sprint("new", n), false, now) != 0 {
			t.Errorf("new address %d waits", n)
		}
	}
	if a.Try("another", false, now) == 0 || len(a.wrong) != maxWatched+1 {
		t.Errorf("no end: %d addresses", len(a.wrong))
	}
	if a.Try("0", false, now) != 0 {
		t.Error("a known one is no longer itself")
	}
	if a.Try("another", false, now.Add(wrongSpan)) != 0 || len(a.wrong) != 1 {
		t.Errorf("%d addresses after the minute", len(a.wrong))
	}
}
