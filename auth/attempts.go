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

// Allowed reports whether the address may try.
func (a *Attempts) Allowed(address string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.recent(a.name(address), now)) < maxWrong
}

// Failed notes a wrong key.
func (a *Attempts) Failed(address string, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.wrong == nil {
		a.wrong = map[string][]time.Time{}
	}
	if len(a.wrong) >= maxWatched {
		for name := range a.wrong {
			a.recent(name, now)
		}
	}
	name := a.name(address)
	a.wrong[name] = append(a.recent(name, now), now)
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
