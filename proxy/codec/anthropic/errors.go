package anthropic

import (
	"net/http"
	"strings"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
	"coding-proxy/proxy/sse"
)

// types are the error types of the API and the statuses that they stand for.
var types = [...]struct {
	status int
	name   string
}{
	{400, "invalid_request_error"}, {401, "authentication_error"}, {402, "billing_error"}, {403, "permission_error"},
	{404, "not_found_error"}, {409, "conflict_error"}, {413, "request_too_large"}, {429, "rate_limit_error"},
	{500, "api_error"}, {504, "timeout_error"}, {529, "overloaded_error"},
}

// statusOf returns the status that an error type stands for, 500 for one that is not known.
func statusOf(errorType string) (status int, known bool) {
	for _, t := range types {
		if t.name == errorType {
			return t.status, true
		}
	}
	return http.StatusInternalServerError, false
}

// fault reads an error body or the data of an error event (status 0: the one that its type stands for). What is no error
// envelope gives a fault with nothing but the status and its kind.
func fault(status int, body []byte) ir.Fault {
	f := ir.Fault{Status: status}
	e := rawjson.Get(body, "error")
	f.Type, _ = rawjson.String(rawjson.Get(e, "type"))
	f.Message, _ = rawjson.String(rawjson.Get(e, "message"))
	f.Code, _ = rawjson.String(rawjson.Get(e, "code"))
	if c, ok := rawjson.String(rawjson.Get(rawjson.Get(e, "details"), "error_code")); ok {
		f.Code = c
	}
	if f.Message == "" {
		f.Message, _ = rawjson.String(e) // {"error": "text"}, as gateways say it
	}
	if f.Message == "" {
		f.Message, _ = rawjson.String(rawjson.Get(body, "message"))
	}
	meant, known := statusOf(f.Type)
	if f.Status == 0 {
		f.Status = meant
	}
	if f.Kind = f.Type; !known {
		f.Kind = ir.KindOf(f.Status)
	}
	return f
}

// kindOf is the type under which a fault is told: our types are the canonical kinds.
func kindOf(f *ir.Fault) string {
	if f.Kind != "" {
		return f.Kind
	}
	return ir.KindOf(f.Status)
}

// status is a fault's status for our clients: 503 stays what it is, they know both it and 529.
func status(f *ir.Fault) int {
	if f.Status >= 400 && f.Status <= 599 {
		return f.Status
	}
	meant, _ := statusOf(kindOf(f))
	return meant
}

// tooLong are the words by which Claude Code knows that it must compact: it tries nothing else then.
const tooLong = "prompt is too long"

// appendFault appends the body that tells a fault.
func appendFault(dst []byte, f *ir.Fault, trace string) []byte {
	return appendError(dst, kindOf(f), messageOf(f), trace)
}

func messageOf(f *ir.Fault) string {
	switch {
	case f.Code != ir.CodeTooLong || strings.Contains(strings.ToLower(f.Message), tooLong):
		return f.Message
	case f.Message == "":
		return tooLong
	}
	return tooLong + ": " + f.Message
}

// appendError appends an error body.
func appendError(dst []byte, errorType, message, requestID string) []byte {
	dst = append(dst, `{"type":"error","error":{"type":`...)
	dst = rawjson.AppendString(dst, errorType)
	dst = append(dst, `,"message":`...)
	dst = rawjson.AppendString(dst, message)
	dst = append(dst, '}')
	if requestID != "" {
		dst = append(dst, `,"request_id":`...)
		dst = rawjson.AppendString(dst, requestID)
	}
	return append(dst, '}')
}

// appendErrorEvent appends the event that ends a broken stream.
func appendErrorEvent(dst []byte, errorType, message, requestID string) []byte {
	return sse.Append(dst, "error", appendError(nil, errorType, message, requestID))
}

// ping is a keep-alive between two events of a message; before message_start it is a comment.
func ping(started bool) []byte {
	if started {
		return []byte("event: ping\ndata: {\"type\":\"ping\"}\n\n")
	}
	return []byte(": keep-alive\n\n")
}
