package demo

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// answer writes the response to one request.
type answer struct {
	w         http.ResponseWriter
	r         *http.Request
	requestID string
	step      Step
	query     *query
	end       *Outcome // stays CutByClient until all is written
}

// give answers with the events, or with what the step wants instead.
func (a *answer) give(events []event) {
	for name, values := range a.step.Header {
		a.w.Header()[http.CanonicalHeaderKey(name)] = values
	}
	switch {
	case !a.ready(0):
	case a.step.Break == Cut && a.step.After == 0:
		a.abort()
	case a.step.Raw != "":
		a.body(max(a.step.Status, http.StatusOK), "text/html; charset=utf-8", []byte(a.step.Raw))
	case a.step.Status >= http.StatusBadRequest:
		a.refuse(a.step.fault())
	case a.query.Stream:
		a.stream(events)
	default:
		a.plain(events)
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

func (a *answer) stream(events []event) {
	a.w.Header().Set("cache-control", "no-cache")
	a.head(http.StatusOK, "text/event-stream; charset=utf-8")
	if a.flush() != nil {
		return
	}
	if a.step.Break != Whole {
		events = events[:min(a.step.After, len(events))]
	}
	for i, e := range events {
		if !a.ready(i+1) || a.event(e) != nil {
			return
		}
	}
	switch a.step.Break {
	case ErrorEvent:
		if a.event(a.step.fault().envelope(a.requestID)) != nil {
			return
		}
	case Cut:
		a.abort()
	}
	*a.end = Completed
}

// event writes one event and flushes it on its own.
func (a *answer) event(e event) error {
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	frame := make([]byte, 0, len(data)+64)
	frame = append(append(frame, "event: "...), e.Type...)
	frame = append(append(frame, "\ndata: "...), data...)
	if _, err := a.w.Write(append(frame, "\n\n"...)); err != nil {
		return err
	}
	return a.flush()
}

func (a *answer) plain(events []event) {
	if h := a.step.Hold; h != nil && h.at > 0 && !h.wait(a.r.Context().Done()) {
		return
	}
	if !pause(a.r.Context(), a.step.EventDelay*time.Duration(len(events))) {
		return
	}
	if a.step.Break == ErrorEvent {
		a.refuse(a.step.fault())
		return
	}
	data, err := json.Marshal(fold(events))
	if err != nil {
		a.refuse(refuse(http.StatusInternalServerError, "the step cannot be written: "+err.Error()))
		return
	}
	if a.step.Break == Whole {
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
	a.json(f.status, f.envelope(a.requestID))
}

func (a *answer) json(status int, value any) {
	data, err := json.Marshal(value)
	if err != nil { // our own shapes always encode
		panic(err)
	}
	a.body(status, "application/json", data)
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
