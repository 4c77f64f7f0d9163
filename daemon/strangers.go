package daemon

import (
	"errors"
	"net/http"
	"sync"
	"time"

	"coding-proxy/auth"
	"coding-proxy/proxy"
)

// tellEvery is how often the log hears of strangers at most: they must not fill it.
const tellEvery = time.Second

// strangers are requests of nobody who is known. The zero value is ready.
type strangers struct {
	mu     sync.Mutex
	next   time.Time
	untold int
}

// tell reports whether the log shall hear of another one, and of how many before it has not.
func (s *strangers) tell(now time.Time) (untold int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Before(s.next) && s.next.Sub(now) <= tellEvery { // else the clock has stepped back
		s.untold++
		return 0, false
	}
	untold, s.untold, s.next = s.untold, 0, now.Add(tellEvery)
	return untold, true
}

// tellOf tells the log of a stranger: the journal has lines of known callers alone.
func (s *server) tellOf(r *http.Request, live *liveState, trace, reason string) {
	if untold, ok := s.strangers.tell(s.now()); ok {
		s.log.Warn("refused", "reason", reason, "address", auth.ClientAddress(r, live.trusted).String(), "connection", remoteHost(r), "trace", trace, "untold_before", untold)
	}
}

// tellOfUnknown is tellOf for a client's request that was refused before its caller was known.
func (s *server) tellOfUnknown(r *http.Request, live *liveState, e *proxy.Entry, err error) {
	forbidden := new(proxy.Error)
	if e.Caller.Code != "" {
		return
	}
	if errors.As(err, &forbidden) && forbidden.Status == http.StatusForbidden || errors.Is(err, auth.ErrNoKey) {
		s.tellOf(r, live, e.Trace, err.Error())
	}
}
