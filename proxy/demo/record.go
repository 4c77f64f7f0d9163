package demo

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// What the memory of requests is bounded to.
const (
	keptRequests = 1000
	keptBytes    = 64 << 20 // of bodies
)

// Outcome says how a request ended.
type Outcome string

const (
	Open        Outcome = "" // not yet
	Completed   Outcome = "completed"
	CutByClient Outcome = "cut by the client"
	CutByStep   Outcome = "cut by the step"
)

// Request is one that arrived. Header holds credentials: it is for comparing, not for printing.
type Request struct {
	At      time.Time
	Method  string
	Path    string
	Query   string
	Header  http.Header
	Body    []byte
	Outcome Outcome
}

// Requests returns what arrived, the oldest first: at most the newest 1000, or 64 MiB of bodies.
func (p *Provider) Requests() []Request { return p.log.list() }

// Wait blocks until n requests have ended since New, or ctx is done.
func (p *Provider) Wait(ctx context.Context, n int) error { return p.log.wait(ctx, n) }

type recorder struct {
	mu       sync.Mutex
	entries  []*Request
	bytes    int
	finished int
	changed  chan struct{} // closed, and replaced, when a request ends
}

func newRecorder() recorder { return recorder{changed: make(chan struct{})} }

func (l *recorder) begin(r *http.Request, now time.Time) *Request {
	entry := &Request{At: now, Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Header: r.Header.Clone()}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, entry)
	l.trim()
	return entry
}

func (l *recorder) setBody(entry *Request, body []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.Contains(l.entries, entry) { // it may have been dropped
		entry.Body = body
		l.bytes += len(body)
		l.trim()
	}
}

func (l *recorder) finish(entry *Request, how Outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	entry.Outcome = how
	l.finished++
	close(l.changed)
	l.changed = make(chan struct{})
}

// trim drops the oldest entries, never the newest one.
func (l *recorder) trim() {
	for len(l.entries) > 1 && (len(l.entries) > keptRequests || l.bytes > keptBytes) {
		l.bytes -= len(l.entries[0].Body)
		l.entries[0] = nil
		l.entries = l.entries[1:]
	}
}

func (l *recorder) list() []Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]Request, len(l.entries))
	for i, entry := range l.entries {
		list[i] = *entry
	}
	return list
}

func (l *recorder) wait(ctx context.Context, n int) error {
	for {
		l.mu.Lock()
		finished, changed := l.finished, l.changed
		l.mu.Unlock()
		if finished >= n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d requests have ended: %w", finished, n, ctx.Err())
		}
	}
}
