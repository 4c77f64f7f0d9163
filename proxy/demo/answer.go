package demo

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"coding-proxy/proxy/sse"
)

// answer writes the response to one request.
type answer struct {
	w         http.ResponseWriter
	r         *http.Request
	dialect   string
	requestID string
	step      Step
	array     bool     // errors come in an array, as Gemini's stream without SSE has them
	end       *Outcome // stays CutByClient until all is written
}

// reply is what a step becomes in a dialect: the same answer as a stream and as a plain body.
type reply struct {
	stream      bool
	events      [][]byte                             // as they are written
	failure     func(f *refusal, written int) []byte // the last event of a stream that breaks, after so many
	tail        func(written int) []byte             // what ends the body; nil = nothing
	plain       any
	contentType string // of the stream; empty = SSE
}

// sign names the request in the dialect's header.
func (a *answer) sign() {
	switch a.dialect {
	case anthropic:
		a.w.Header().Set("request-id", a.requestID)
	case gemini: // has none
	default:
		a.w.Header().Set("x-request-id", a.requestID)
	}
}

// give answers with the reply, or with what the step wants instead.
func (a *answer) give(step Step, whole *reply) {
	a.step = step
	for name, values := range step.Header {
		a.w.Header()[http.CanonicalHeaderKey(name)] = values
	}
	switch {
	case !a.ready(0):
	case step.Break == Cut && step.After == 0:
		a.abort()
	case step.Raw != "":
		a.body(max(step.Status, http.StatusOK), "text/html; charset=utf-8", []byte(step.Raw))
	case step.Status >= http.StatusBadRequest:
		a.refuse(step.fault(a.dialect))
	case whole.stream:
		a.stream(whole)
	default:
		a.plain(whole)
	}
}

// ready waits for the step's hold and delay before event n and reports whether the client is still there.
func (a *answer) ready(n int) bool {
	done := a.r.Context().Done()
	if h := a.step.Hold; h != nil && h.at == n && !h.wait(done) {
		return false
	}
	return n == 0 || pause(a.r.Context(), a.step.EventDelay)
}

func (a *answer) stream(whole *reply) {
	a.w.Header().Set("cache-control", "no-cache")
	contentType := whole.contentType
	if contentType == "" {
		contentType = "text/event-stream; charset=utf-8"
	}
	a.head(http.StatusOK, contentType)
	if a.flush() != nil {
		return
	}
	events := whole.events
	if a.step.breaks() {
		events = events[:min(a.step.After, len(events))]
	}
	for i, e := range events {
		if !a.ready(i+1) || a.write(e) != nil {
			return
		}
	}
	switch a.step.Break {
	case ErrorEvent:
		if a.write(whole.failure(a.step.fault(a.dialect), len(events))) != nil {
			return
		}
	case Cut:
		a.abort()
	}
	if whole.tail != nil && a.step.Break != End && a.write(whole.tail(len(events))) != nil {
		return
	}
	*a.end = Completed
}

// write writes an event and flushes it on its own.
func (a *answer) write(event []byte) error {
	if _, err := a.w.Write(event); err != nil {
		return err
	}
	return a.flush()
}

func (a *answer) plain(whole *reply) {
	if h := a.step.Hold; h != nil && h.at > 0 && !h.wait(a.r.Context().Done()) {
		return
	}
	if !pause(a.r.Context(), a.step.EventDelay*time.Duration(len(whole.events))) {
		return
	}
	if a.step.Break == ErrorEvent {
		a.refuse(a.step.fault(a.dialect))
		return
	}
	data, err := json.Marshal(whole.plain)
	if err != nil {
		a.refuse(refuse(http.StatusInternalServerError, "the step cannot be written: "+err.Error()))
		return
	}
	if !a.step.breaks() {
		a.body(http.StatusOK, "application/json", data)
		return
	}
	if a.step.Break == Cut { // the length promises more than comes
		a.w.Header().Set("content-length", strconv.Itoa(len(data)))
	}
	a.head(http.StatusOK, "application/json")
	if _, err := a.w.Write(data[:len(data)/2]); err != nil || a.flush() != nil {
		return
	}
	if a.step.Break == Cut {
		a.abort()
	}
	*a.end = Completed
}

func (a *answer) refuse(f *refusal) {
	a.sign()
	if body := f.body(a.dialect, a.requestID); a.array {
		a.json(f.status, []any{body})
	} else {
		a.json(f.status, body)
	}
}

func (a *answer) json(status int, value any) {
	a.body(status, "application/json", encode(value))
}

func (a *answer) body(status int, contentType string, data []byte) {
	a.w.Header().Set("content-length", strconv.Itoa(len(data)))
	a.head(status, contentType)
	if _, err := a.w.Write(data); err == nil {
		*a.end = Completed
	}
}

func (a *answer) head(status int, contentType string) {
	if a.step.ContentType != "" {
		contentType = a.step.ContentType
	}
	a.w.Header().Set("content-type", contentType)
	a.w.WriteHeader(status)
}

func (a *answer) flush() error { return http.NewResponseController(a.w).Flush() }

// abort closes the connection, so that the client sees that the answer is not whole.
func (a *answer) abort() {
	*a.end = CutByStep
	panic(http.ErrAbortHandler)
}

// named writes an SSE event with a name.
func named(name string, data []byte) []byte {
	return sse.Append(make([]byte, 0, len(name)+len(data)+16), name, data)
}

// unnamed writes an SSE event that has data alone.
func unnamed(data []byte) []byte {
	return append(append(append(make([]byte, 0, len(data)+8), "data: "...), data...), "\n\n"...)
}

// encode writes one of our own shapes, all of which encode.
func encode(value any) []byte {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return data
}

// pause waits and reports whether the client is still there.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
