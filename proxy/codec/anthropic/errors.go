package anthropic

import (
	"net/http"
	"strconv"

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

// StatusOf returns the status that an error type stands for, 500 for an unknown one.
func StatusOf(errorType string) int {
	for _, t := range types {
		if t.name == errorType {
			return t.status
		}
	}
	return http.StatusInternalServerError
}

// Fault reads an error body or the data of an error event. What is no error envelope gives a fault with nothing but
// the status.
func Fault(status int, body []byte) ir.Fault {
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
	return f
}

// AppendError appends an error body.
func AppendError(dst []byte, errorType, message, requestID string) []byte {
	dst = append(dst, `{"type":"error","error":{"type":`...)
	dst = rawjson.AppendString(dst, errorType)
	dst = append(dst, `,"message":`...)
	dst = rawjson.AppendString(dst, message)
	dst = append(dst, `},"request_id":`...)
	dst = rawjson.AppendString(dst, requestID)
	return append(dst, '}')
}

// AppendErrorEvent appends the event that ends a broken stream.
func AppendErrorEvent(dst []byte, errorType, message, requestID string) []byte {
	return sse.Append(dst, "error", AppendError(nil, errorType, message, requestID))
}

// Ping is a keep-alive between two events of a message; before message_start it is a comment.
func Ping(started bool) []byte {
	if started {
		return []byte("event: ping\ndata: {\"type\":\"ping\"}\n\n")
	}
	return []byte(": keep-alive\n\n")
}

// AppendMessage appends a whole answer with one text, as one body or as a stream of events.
func AppendMessage(dst []byte, id, model, text string, input, output int64, stream bool) []byte {
	usage := func(b []byte) []byte {
		b = append(b, `"usage":{"input_tokens":`...)
		b = strconv.AppendInt(b, input, 10)
		b = append(b, `,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":`...)
		b = strconv.AppendInt(b, output, 10)
		return append(b, '}')
	}
	head := func(b []byte, content, stop string) []byte {
		b = append(b, `{"id":`...)
		b = rawjson.AppendString(b, id)
		b = append(b, `,"type":"message","role":"assistant","model":`...)
		b = rawjson.AppendString(b, model)
		b = append(b, `,"content":`...)
		b = append(b, content...)
		b = append(b, `,"stop_reason":`...)
		b = append(b, stop...)
		b = append(b, `,"stop_sequence":null,`...)
		return append(usage(b), '}')
	}
	quoted := string(rawjson.AppendString(nil, text))
	if !stream {
		return head(dst, `[{"type":"text","text":`+quoted+`}]`, `"max_tokens"`)
	}
	start := append(head([]byte(`{"type":"message_start","message":`), `[]`, `null`), '}')
	dst = sse.Append(dst, "message_start", start)
	dst = sse.Append(dst, "content_block_start", []byte(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`))
	dst = sse.Append(dst, "content_block_delta", []byte(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":`+quoted+`}}`))
	dst = sse.Append(dst, "content_block_stop", []byte(`{"type":"content_block_stop","index":0}`))
	end := append(usage([]byte(`{"type":"message_delta","delta":{"stop_reason":"max_tokens","stop_sequence":null},`)), '}')
	dst = sse.Append(dst, "message_delta", end)
	return sse.Append(dst, "message_stop", []byte(`{"type":"message_stop"}`))
}
