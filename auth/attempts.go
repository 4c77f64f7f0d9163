package auth

import (
	"sync"
	"time"
)

const (
	maxWrong   = 5           // wrong keys of an address…
	wrongSpan  = time.Minute // …in this time
	maxWatched = 4096        // addresses; more are one
)

// Attempts limits guessing: five wrong keys a minute and address. The zero value is ready.
type Attempts struct {
	mu    sync.Mutex
	wrong map[string][]time.Time // the last ones of each address
}

// Try is an attempt of the address with a key that is right or wrong. A wait that is not zero says that it does not count, right
// or wrong, since there were too many wrong ones, and for how long that is so. To ask and to note is one step: of many attempts
// at once no more are let through.
func (a *Attempts) Try(address string, right bool, now time.Time) (wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.wrong == nil {
		a.wrong = map[string][]time.Time{}
	}
	name := a.name(address)
	times := a.recent(name, now)
	if len(times) >= maxWrong {
		return times[0].Add(wrongSpan).Sub(now)
	}
	if right {
		return 0
	}
	if len(a.wrong) >= maxWatched {
		for name := range a.wrong {
			a.recent(name, now)
		}
		name = a.name(address)
	}
	a.wrong[name] = append(a.recent(name, now), now)
	return 0
}

// name is the address, or one for all while there are too many.
func (a *Attempts) name(address string) string {
	if _, known := a.wrong[address]; !known && len(a.wrong) >= maxWatched {
		return ""
	}
	return address
}

// recent drops what is over and returns the rest.
func (a *Attempts) recent(name string, now time.Time) []time.Time {
	times := a.wrong[name]
	for len(times) > 0 && now.Sub(times[0]) >= wrongSpan {
		times = times[1:]
	}
	if len(times) == 0 {
		delete(a.wrong, name)
		return nil
	}
	a.wrong[name] = times
	return times
}
