package antigravity

import (
	"maps"
	"net/url"
	"strings"
	"sync"
	"time"
)

const (
	// passOver is how long an address that has failed is not tried while another one works.
	passOver = time.Minute
	// maxFailures bounds what is remembered of single models.
	maxFailures = 256
)

// bases are the addresses of the service. Which one fails is remembered for a while, so that not every request finds out
// anew.
type bases struct {
	urls []*url.URL
	now  func() time.Time

	mu     sync.Mutex
	failed map[failure]time.Time // until when it is passed over
}

// failure is an address that does not work: for one model, or with "" for any.
type failure struct {
	base  int
	model string
}

// until is when an address is tried again for a model.
func (b *bases) until(base int, model string) time.Time {
	whole, one := b.failed[failure{base, ""}], b.failed[failure{base, model}]
	if one.After(whole) {
		return one
	}
	return whole
}

// pick returns the first address that works; where none does, the one whose failure is the oldest.
func (b *bases) pick(model string) *url.URL {
	b.mu.Lock()
	defer b.mu.Unlock()
	best := 0
	for i := range b.urls {
		if b.works(i, model) {
			return b.urls[i]
		}
		if b.until(i, model).Before(b.until(best, model)) {
			best = i
		}
	}
	return b.urls[best]
}

func (b *bases) works(base int, model string) bool { return !b.now().Before(b.until(base, model)) }

// fail takes note that the address of u has failed, and reports whether another one works.
func (b *bases) fail(u *url.URL, model string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if len(b.failed) >= maxFailures {
		maps.DeleteFunc(b.failed, func(_ failure, until time.Time) bool { return !now.Before(until) })
	}
	if b.failed == nil || len(b.failed) >= maxFailures {
		b.failed = map[failure]time.Time{}
	}
	if at := b.find(u); at >= 0 {
		b.failed[failure{at, model}] = now.Add(passOver)
	}
	for i := range b.urls {
		if b.works(i, model) {
			return true
		}
	}
	return false
}

// served takes note that the address of u has answered.
func (b *bases) served(u *url.URL, model string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if at := b.find(u); at >= 0 {
		delete(b.failed, failure{at, ""})
		delete(b.failed, failure{at, model})
	}
}

// find is the index of the address that a request went to, -1 for none.
func (b *bases) find(u *url.URL) int {
	for i, base := range b.urls {
		if base.Host == u.Host && base.Scheme == u.Scheme && strings.HasPrefix(u.Path, base.Path+"/v1internal:") {
			return i
		}
	}
	return -1
}

// list tells of each address whether it is passed over.
func (b *bases) list() []Base {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]Base, len(b.urls))
	for i, u := range b.urls {
		out[i].URL = u.Redacted()
		if until := b.until(i, ""); b.now().Before(until) {
			out[i].Until = &until
		}
	}
	return out
}
