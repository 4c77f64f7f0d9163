package demo

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Step says how one generate request is answered, in whichever dialect it comes. The zero value is a short text.
//
// Where a number of events is asked for, they count as they are written. Anthropic: 1 message_start,
// 2 content_block_start, 3 ping, 4 the first delta. Chat: 1 the role, 2 the first delta; the [DONE] counts too.
// Responses: 1 response.created, 2 response.in_progress, 3 response.output_item.added. Gemini: each chunk.
type Step struct {
	Thinking   string // reasoning, signed where the dialect signs, before all else
	Redacted   bool   // Anthropic: the reasoning comes as redacted_thinking
	Text       string
	Tools      []Tool // several are parallel calls
	Interleave bool   // chat: the pieces of parallel calls alternate
	StopReason string // in Anthropic's words; default: tool_use with Tools, else end_turn
	Usage      Usage

	Status  int         // from 400 on: an error envelope instead of an answer
	Type    string      // of the error, also of ErrorEvent; default: what belongs to Status, else overload. Anthropic's words are translated
	Code    string      // of the error, OpenAI's; default: what belongs to Status
	Message string      // of the error
	Header  http.Header // more response headers, e.g. retry-after, anthropic-ratelimit-*; also on good answers

	Raw         string // the whole body instead of an answer, as it is, e.g. a page of HTML
	ContentType string // of any body; default: what belongs there

	Break Break // how the answer breaks off
	After int   // events before Break; 0 = before the first, for Cut before the head

	Hold       *Hold         // waits for a release
	Pings      int           // more pings, after the one that Anthropic's streams have; OpenAI: comments, which do not count as events; Gemini: none
	EventDelay time.Duration // pause before each event, for hand use only
}

// Tool is a call that the model makes.
type Tool struct {
	ID        string // default: a new one
	Name      string
	Namespace string          // of the Responses dialect
	Input     json.RawMessage // default {}
	Custom    string          // raw input of a custom tool of the OpenAI dialects, instead of Input; elsewhere {"input": it}
}

// Usage are token figures as Anthropic counts: Input without what was cached, Output with Reasoning.
// 0 input or output means an estimate (a quarter of the bytes).
type Usage struct {
	Input, Output, CacheCreation, CacheRead, Reasoning int
}

// Break is a way in which an answer ends too early. A plain answer breaks in the middle of its body.
type Break int

const (
	Whole      Break = iota // it does not
	ErrorEvent              // the stream's last event is an error; a plain answer is that error
	Cut                     // the connection is closed
	End                     // the body ends cleanly, without the rest
	NoFinish                // all comes but the reason of the end: no stop_reason, finish_reason, response.completed, finishReason
)

// breaks reports whether the answer stops before its end.
func (s Step) breaks() bool { return s.Break == ErrorEvent || s.Break == Cut || s.Break == End }

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

// fault is the error that the step stands for, in a dialect.
func (s Step) fault(dialect string) *refusal {
	f := &refusal{status: s.Status, kind: s.Type, message: s.Message, code: s.Code, retry: s.retryAfter()}
	if f.status == 0 {
		f.status = statusOf(f.kind)
	}
	if s.Status == 0 && f.status == statusOverloaded && dialect != anthropic {
		f.status = http.StatusServiceUnavailable
	}
	if f.message == "" {
		f.message = http.StatusText(f.status)
	}
	if f.message == "" { // 529 is Anthropic's own
		f.message = "Overloaded"
	}
	return f
}

// retryAfter is what the step's header says, for Gemini, which says it in the body.
func (s Step) retryAfter() int {
	for name, values := range s.Header {
		if strings.EqualFold(name, "retry-after") && len(values) > 0 {
			seconds, _ := strconv.Atoi(values[0]) // a date is no RetryInfo
			return seconds
		}
	}
	return 0
}
