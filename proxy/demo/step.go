package demo

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// Step says how one generate request is answered. The zero value is a short text.
//
// Where a number of events is asked for, they count as they are written:
// 1 message_start, 2 content_block_start, 3 ping, 4 the first delta.
type Step struct {
	Thinking   string // a thinking block, signed, before all else
	Text       string
	Tools      []Tool // several are parallel calls
	StopReason string // default: tool_use with Tools, else end_turn
	Usage      Usage

	Status  int         // from 400 on: an error envelope instead of an answer
	Type    string      // of the error, also of ErrorEvent; default: what belongs to Status, else overloaded_error
	Message string      // of the error
	Header  http.Header // more response headers, e.g. retry-after, anthropic-ratelimit-*; also on good answers

	Raw         string // the whole body instead of an answer, as it is, e.g. a page of HTML
	ContentType string // of any body; default: what belongs there

	Break Break // how the answer breaks off
	After int   // events before Break; 0 = before the first, for Cut before the head

	Hold       *Hold         // waits for a release
	Pings      int           // more pings, after the one that every stream has
	EventDelay time.Duration // pause before each event, for hand use only
}

// Tool is a call that the model makes.
type Tool struct {
	ID    string // default: a new one
	Name  string
	Input json.RawMessage // default {}
}

// Usage are token figures; 0 input or output means an estimate (a quarter of the bytes).
type Usage struct {
	Input, Output, CacheCreation, CacheRead int
}

// Break is a way in which an answer ends too early. A plain answer breaks in the middle of its body.
type Break int

const (
	Whole      Break = iota // it does not
	ErrorEvent              // the stream's last event is an error; a plain answer is that error
	Cut                     // the connection is closed
	End                     // the body ends cleanly, without the rest
)

// Hold stops an answer until it is released, so that tests need no sleeps.
type Hold struct {
	at              int
	reached, opened chan struct{}
	reach, open     sync.Once
}

// HoldAt returns a hold before event n of a stream, 0 being the head. A plain answer always waits before its head.
func HoldAt(n int) *Hold {
	return &Hold{at: n, reached: make(chan struct{}), opened: make(chan struct{})}
}

// Reached is closed when the first answer waits here.
func (h *Hold) Reached() <-chan struct{} { return h.reached }

// Release lets all answers go on.
func (h *Hold) Release() { h.open.Do(func() { close(h.opened) }) }

// wait blocks until the release, or until done; it reports whether the answer goes on.
func (h *Hold) wait(done <-chan struct{}) bool {
	h.reach.Do(func() { close(h.reached) })
	select {
	case <-h.opened:
		return true
	case <-done:
		return false
	}
}

// fault is the error that the step stands for.
func (s Step) fault() *refusal {
	f := &refusal{status: s.Status, kind: s.Type, message: s.Message}
	if f.status == 0 {
		f.status = statusOf(f.kind)
	}
	if f.kind == "" {
		f.kind = typeOf(f.status)
	}
	if f.message == "" {
		f.message = http.StatusText(f.status)
	}
	if f.message == "" { // 529 is Anthropic's own
		f.message = "Overloaded"
	}
	return f
}
