package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"sync"
	"time"
)

const (
	// SessionLife is how long a session lasts, used or not.
	SessionLife = 12 * time.Hour

	maxSessions  = 64 // the one that would end first goes for a further one
	sessionBytes = 32 // of an id
)

// Sessions are those of browsers that have shown the admin key. They are in memory alone, and their ids only hashed. The zero
// value is ready.
type Sessions struct {
	mu   sync.Mutex
	ends map[[sha256.Size]byte]time.Time
}

// Begin returns the id of a new session.
func (s *Sessions) Begin(now time.Time) Secret {
	random := make([]byte, sessionBytes)
	_, _ = rand.Read(random) // it never fails
	id := base64.RawURLEncoding.EncodeToString(random)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ends == nil {
		s.ends = map[[sha256.Size]byte]time.Time{}
	}
	s.makeRoom(now)
	s.ends[sha256.Sum256([]byte(id))] = now.Round(0).Add(SessionLife) // by the wall clock: the other one stands still while a laptop sleeps
	return NewSecret(id)
}

// makeRoom drops what has ended, and the oldest session where there are too many.
func (s *Sessions) makeRoom(now time.Time) {
	var oldest [sha256.Size]byte
	for id, end := range s.ends {
		if !now.Before(end) {
			delete(s.ends, id)
		} else if first, ok := s.ends[oldest]; !ok || end.Before(first) {
			oldest = id
		}
	}
	if len(s.ends) >= maxSessions {
		delete(s.ends, oldest)
	}
}

// Has reports whether the text is the id of a session that goes on.
func (s *Sessions) Has(text string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	end, ok := s.ends[sha256.Sum256([]byte(text))] // hashed: how long it takes tells nothing of an id
	return ok && now.Before(end)
}

// End ends the session with the id, if there is one.
func (s *Sessions) End(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ends, sha256.Sum256([]byte(text)))
}
