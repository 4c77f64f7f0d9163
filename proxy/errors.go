package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"coding-proxy/auth"
	"coding-proxy/pool"
	"coding-proxy/proxy/ir"
)

// Error is an answer that is an error from here. Message is for the client and holds no key, key id or address.
type Error struct {
	Status     int
	Type       string // Anthropic's word
	Message    string
	Param      string        // the field that is wrong, "" where it is none
	RetryAfter time.Duration // 0 = none
	Allow      string        // for 405
	exhausted  bool          // the pool had no key to lease

	code         string // machine-readable detail, "" = what belongs to Type
	unknownModel bool
}

func (e *Error) Error() string { return fmt.Sprintf("%d %s: %s", e.Status, e.Type, e.Message) }

func badRequest(format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Type: "invalid_request_error", Message: fmt.Sprintf(format, args...)}
}

// The errors that do not depend on a request.
func errTooLarge(limit int64) *Error {
	return &Error{Status: http.StatusRequestEntityTooLarge, Type: "request_too_large",
		Message: fmt.Sprintf("the request body is larger than limits.max_body_bytes (%d)", limit)}
}

// ErrStopping is the answer while the proxy drains.
func ErrStopping() *Error {
	return &Error{Status: http.StatusServiceUnavailable, Type: "overloaded_error", Message: "the proxy is stopping", RetryAfter: 5 * time.Second}
}

// ErrUpgrade is the answer to an Upgrade: the client goes on with plain HTTP.
func ErrUpgrade() *Error {
	return &Error{Status: http.StatusUpgradeRequired, Type: "invalid_request_error", Message: "upgrades are not served here; use plain HTTP"}
}

// ErrForbidden refuses an address, host or origin.
func ErrForbidden(why string) *Error {
	return &Error{Status: http.StatusForbidden, Type: "permission_error", Message: why}
}

// ErrInternal is our own fault.
func ErrInternal(trace string) *Error {
	return &Error{Status: http.StatusInternalServerError, Type: "api_error", Message: "internal error of the proxy; trace " + trace}
}

// asError turns what went wrong into the answer that says so.
func asError(err error, trace string) *Error {
	var e *Error
	var model *pool.ModelError
	var exhausted *pool.ExhaustedError
	var refused *ir.RefusedError
	var limit *auth.LimitError
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, auth.ErrNoKey):
		return &Error{Status: http.StatusUnauthorized, Type: "authentication_error", Message: "invalid or missing request key of the proxy"}
	case errors.Is(err, auth.ErrExpired):
		return &Error{Status: http.StatusUnauthorized, Type: "authentication_error", Message: "this request key of the proxy has expired"}
	case errors.Is(err, auth.ErrGroup):
		return ErrForbidden("the group of this request key has no keys")
	case errors.As(err, &limit):
		return &Error{Status: http.StatusTooManyRequests, Type: "rate_limit_error", Message: limit.Error(), RetryAfter: limit.RetryAfter}
	case errors.As(err, &model):
		return &Error{Status: http.StatusNotFound, Type: "not_found_error", Param: "model", Message: modelText(model), unknownModel: true}
	case errors.As(err, &refused):
		return &Error{Status: http.StatusBadRequest, Type: ir.KindInvalid, Param: refused.Field, Message: refused.Error()}
	case errors.As(err, &exhausted):
		return &Error{Status: http.StatusTooManyRequests, Type: "rate_limit_error", Message: exhausted.Error(),
			RetryAfter: exhausted.RetryAfter(), exhausted: true}
	case errors.Is(err, context.Canceled):
		return &Error{Status: 499, Type: "api_error", Message: "the client went away"}
	}
	return ErrInternal(trace)
}

func modelText(e *pool.ModelError) string {
	text := fmt.Sprintf("no key serves the model %q", e.Model)
	if len(e.Near) > 0 {
		text += "; near names: " + strings.Join(e.Near, ", ")
	}
	return text
}

// leaveBody bounds the time for which an error waits for a body that nobody will read: net/http reads on for a while
// before it answers, so that the connection can live on, and a client that stalls would wait for ever.
func leaveBody(w http.ResponseWriter, now time.Time) {
	_ = http.NewResponseController(w).SetReadDeadline(now.Add(unreadWait)) // a writer without deadlines has none to set
}

// unreadWait is how long the rest of a refused body may take to arrive.
const unreadWait = time.Second

// WriteError renders an error in the dialect that the request suggests.
func (p *Proxy) WriteError(w http.ResponseWriter, r *http.Request, trace string, err error) {
	writeError(w, p.dialects[DialectOf(r)], trace, err)
}

// fault is the error in no one's dialect.
func (e *Error) fault() *ir.Fault {
	f := &ir.Fault{Status: e.Status, Kind: e.Type, Code: e.code, Param: e.Param, Message: e.Message, Reset: e.RetryAfter}
	if e.unknownModel {
		f.Code = "model_not_found"
	}
	return f
}

// writeError renders an error in the client's dialect: the one place that does.
func writeError(w http.ResponseWriter, d *ir.Dialect, trace string, err error) {
	e := asError(err, trace)
	f := e.fault()
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set(traceHeader, trace)
	setRetryAfter(h, e.RetryAfter)
	if e.Allow != "" {
		h.Set("Allow", e.Allow)
	}
	if e.Status == http.StatusUpgradeRequired {
		h.Set("Upgrade", "HTTP/1.1")
		h.Set("Connection", "Upgrade")
	}
	body := d.AppendError(nil, f, trace)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(d.Status(f))
	_, _ = w.Write(body) // a client that is gone needs no error
}

// setRetryAfter says when to come again, in whole seconds rounded up.
func setRetryAfter(h http.Header, after time.Duration) {
	if after > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64((after+time.Second-1)/time.Second), 10))
	}
}
