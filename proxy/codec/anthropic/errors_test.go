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
			want.Status, want.Kind = status, ir.KindOf(status)
			if want.Type == ir.KindRate || want.Type == ir.KindInvalid {
				want.Kind = want.Type
			}
			if got := fault(status, []byte(tc.body)); got != want {
				t.Errorf("%s: %+v, want %+v", tc.name, got, want)
			}
		}
	}
}

// What we append reads back as what was meant, whatever the texts hold.
func TestAppendedErrorsReadBack(t *testing.T) {
	for _, message := range []string{"", "plain", `a "quoted" \ one`, "two\nlines\r\n\r\ndata: x", "你好 🎉 \u2028", "<script>&amp;", "\x00\x1f\x7f", "broken \xff utf-8"} {
		body := appendError([]byte("before"), "api_error", message, "trace-1")
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
		frame := appendErrorEvent(nil, "overloaded_error", message, "trace-1")
		if sse.Next(frame) != len(frame) {
			t.Errorf("%q is not one event", frame)
		}
		if got := mark(frame); got.Kind != ir.MarkError || *got.Fault != (ir.Fault{Status: 529, Kind: ir.KindOverloaded, Type: "overloaded_error", Message: want}) {
			t.Errorf("%q: %+v", frame, got.Fault)
		}
	}
}

// A keep-alive is one event that means nothing; before message_start it is a comment, because clients throw at an event
// that comes first.
func TestPing(t *testing.T) {
	for _, started := range []bool{false, true} {
		p := ping(started)
		if sse.Next(p) != len(p) || mark(p) != (ir.Mark{}) || strings.HasPrefix(string(p), ":") == started {
			t.Errorf("started %v: %q", started, p)
		}
	}
}

// Faults of other dialects as our clients hear them.
func TestFaultsForClients(t *testing.T) {
	for _, tc := range []struct {
		f      ir.Fault
		status int
		body   string
	}{
		{ir.Fault{Status: 429, Kind: ir.KindBilling, Type: "insufficient_quota", Message: "m"}, 429, `{"type":"error","error":{"type":"billing_error","message":"m"},"request_id":"t"}`},
		{ir.Fault{Status: 503, Kind: ir.KindOverloaded}, 503, `{"type":"error","error":{"type":"overloaded_error","message":""},"request_id":"t"}`},
		{ir.Fault{Status: 529}, 529, `{"type":"error","error":{"type":"overloaded_error","message":""},"request_id":"t"}`},
		{ir.Fault{Kind: ir.KindTimeout}, 504, `{"type":"error","error":{"type":"timeout_error","message":""},"request_id":"t"}`},
		{ir.Fault{Status: 200}, 500, `{"type":"error","error":{"type":"api_error","message":""},"request_id":"t"}`},
		{ir.Fault{Status: 400, Code: ir.CodeTooLong, Message: "128k is the limit"}, 400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 128k is the limit"},"request_id":"t"}`},
		{ir.Fault{Status: 400, Code: ir.CodeTooLong, Message: "Prompt is too long: 5 > 4"}, 400, `{"type":"error","error":{"type":"invalid_request_error","message":"Prompt is too long: 5 > 4"},"request_id":"t"}`},
		{ir.Fault{Status: 400, Code: ir.CodeTooLong}, 400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long"},"request_id":"t"}`},
	} {
		d := Dialect()
		if got := d.Status(&tc.f); got != tc.status {
			t.Errorf("%+v: status %d", tc.f, got)
		}
		if got := string(d.AppendError(nil, &tc.f, "t")); got != tc.body {
			t.Errorf("%s, want %s", got, tc.body)
		}
	}
}
