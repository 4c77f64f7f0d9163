package anthropic

import (
	"encoding/json"
	"strings"
	"testing"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/sse"
)

// faults are error bodies as the API and those who are like it write them, and as gateways do.
var faults = []struct {
	name, body string
	want       ir.Fault
}{
	{"the API's", `{"type":"error","error":{"type":"rate_limit_error","message":"Slow down"},"request_id":"req_1"}`, ir.Fault{Type: "rate_limit_error", Message: "Slow down"}},
	{"with a machine's code", `{"type":"error","error":{"type":"invalid_request_error","message":"m","details":{"error_code":"enforced_spend_limit_reached"}}}`,
		ir.Fault{Type: "invalid_request_error", Message: "m", Code: "enforced_spend_limit_reached"}},
	{"with a code", `{"error":{"type":"t","code":"context_length_exceeded","message":"m"}}`, ir.Fault{Type: "t", Code: "context_length_exceeded", Message: "m"}},
	{"details before code", `{"error":{"code":"a","details":{"error_code":"b"}}}`, ir.Fault{Code: "b"}},
	{"details of another kind", `{"error":{"code":"a","details":[{"retryDelay":"5s"}]}}`, ir.Fault{Code: "a"}},
	{"a number as code", `{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED"}}`, ir.Fault{Message: "m"}},
	{"escapes", `{"error":{"type":"t","message":"a \"b\" \u4f60\n"}}`, ir.Fault{Type: "t", Message: "a \"b\" 你\n"}},
	{"blanks", " {\r\n\t\"error\" : { \"type\" : \"t\" } } \n", ir.Fault{Type: "t"}},
	{"error as text", `{"error":"no more"}`, ir.Fault{Message: "no more"}},
	{"message alone", `{"message":"no Route matched","request_id":"x"}`, ir.Fault{Message: "no Route matched"}},
	{"message beside an empty error", `{"error":{},"message":"m"}`, ir.Fault{Message: "m"}},
	{"error is null", `{"error":null}`, ir.Fault{}},
	{"wrong types", `{"error":{"type":7,"message":["m"],"code":{}}}`, ir.Fault{}},
	{"empty", ``, ir.Fault{}},
	{"no object", `[{"error":{"type":"t"}}]`, ir.Fault{}},
	{"text", `upstream connect error`, ir.Fault{}},
	{"a page", `<html><body>{"error":{"type":"t"}}</body></html>`, ir.Fault{}},
	{"cut off", `{"error":{"type":"t"`, ir.Fault{}},
}

func TestFault(t *testing.T) {
	for _, tc := range faults {
		for _, status := range []int{400, 429, 529} {
			want := tc.want
			want.Status = status
			if got := Fault(status, []byte(tc.body)); got != want {
				t.Errorf("%s: %+v, want %+v", tc.name, got, want)
			}
		}
	}
}

// What we append reads back as what was meant, whatever the texts hold.
func TestAppendedErrorsReadBack(t *testing.T) {
	for _, message := range []string{"", "plain", `a "quoted" \ one`, "two\nlines\r\n\r\ndata: x", "你好 🎉 \u2028", "<script>&amp;", "\x00\x1f\x7f", "broken \xff utf-8"} {
		body := AppendError([]byte("before"), "api_error", message, "trace-1")
		if !strings.HasPrefix(string(body), "before{") {
			t.Fatalf("%q", body)
		}
		body = body[len("before"):]
		var e struct {
			Type      string
			RequestID string `json:"request_id"`
			Error     struct{ Type, Message string }
		}
		if err := json.Unmarshal(body, &e); err != nil || e.Type != "error" || e.RequestID != "trace-1" || e.Error.Type != "api_error" {
			t.Errorf("%s: %v", body, err)
		}
		want := strings.ToValidUTF8(message, "\ufffd")
		if e.Error.Message != want {
			t.Errorf("message %q, want %q", e.Error.Message, want)
		}
		frame := AppendErrorEvent(nil, "overloaded_error", message, "trace-1")
		if sse.Next(frame) != len(frame) {
			t.Errorf("%q is not one event", frame)
		}
		if got := Event(frame); got.Kind != ir.EventError || *got.Fault != (ir.Fault{Status: 529, Type: "overloaded_error", Message: want}) {
			t.Errorf("%q: %+v", frame, got.Fault)
		}
	}
}

// A keep-alive is one event that means nothing; before message_start it is a comment, because clients throw at an event
// that comes first.
func TestPing(t *testing.T) {
	for _, started := range []bool{false, true} {
		p := Ping(started)
		if sse.Next(p) != len(p) || Event(p) != (ir.Event{}) || strings.HasPrefix(string(p), ":") == started {
			t.Errorf("started %v: %q", started, p)
		}
	}
}

// The answer that is made here: as a whole body and as a stream, with the same figures.
func TestAppendMessage(t *testing.T) {
	const text = "OK \"you\"\n你"
	body := AppendMessage(nil, "msg_1", "claude-x", text, 12, 1, false)
	var m struct {
		ID, Type, Role, Model string
		Content               []struct{ Type, Text string }
		StopReason            string `json:"stop_reason"`
		Usage                 json.RawMessage
	}
	if err := json.Unmarshal(body, &m); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	if m.ID != "msg_1" || m.Type != "message" || m.Role != "assistant" || m.Model != "claude-x" || len(m.Content) != 1 || m.Content[0].Type != "text" ||
		m.Content[0].Text != text || m.StopReason != "max_tokens" {
		t.Errorf("%+v", m)
	}
	want := ir.Usage{Input: 12, Output: 1, Known: ir.Input | ir.Output | ir.CacheCreation | ir.CacheRead}
	if got := Usage(m.Usage); got != want {
		t.Errorf("usage %+v", got)
	}

	stream := AppendMessage(nil, "msg_1", "claude-x", text, 12, 1, true)
	var kinds []ir.EventKind
	var usage ir.Usage
	for len(stream) > 0 {
		n := sse.Next(stream)
		if n == 0 {
			t.Fatalf("rest %q", stream)
		}
		_, data := sse.Parse(stream[:n])
		if !json.Valid(data) {
			t.Errorf("%s", data)
		}
		e := Event(stream[:n])
		kinds = append(kinds, e.Kind)
		usage.Merge(e.Usage)
		stream = stream[n:]
	}
	if usage != want || len(kinds) != 6 || kinds[0] != ir.EventStart || kinds[2] != ir.EventDelta || kinds[4] != ir.EventFinish || kinds[5] != ir.EventStop {
		t.Errorf("kinds %v, usage %+v", kinds, usage)
	}
}
