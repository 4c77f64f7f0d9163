package gemini

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
	"coding-proxy/proxy/sse"
)

func TestTap(t *testing.T) {
	for _, c := range []struct {
		data    string
		kind    ir.MarkKind
		content bool
		stop    string
	}{
		{`{"candidates":[{"content":{"parts":[{"text":"a"}]}}]}`, ir.MarkDelta, true, ""},
		{`{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}]}`, ir.MarkFinish, true, "STOP"},
		{`{"candidates":[{"content":{"parts":[{"text":""}]},"finishReason":"MAX_TOKENS"}]}`, ir.MarkFinish, false, "MAX_TOKENS"},
		{`{"candidates":[{"content":{"parts":[{"text":"","thought":true,"thoughtSignature":"x"}]}}]}`, ir.MarkOther, false, ""},
		{`{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f"}}]}}]}`, ir.MarkDelta, true, ""},
		{`{"candidates":[{"content":{"parts":[{"function_call":{"name":"f"}}]},"finish_reason":"STOP"}]}`, ir.MarkFinish, true, "STOP"},
		{`{"candidates":[{"finishReason":"FINISH_REASON_UNSPECIFIED"}]}`, ir.MarkOther, false, ""},
		{`{"promptFeedback":{"blockReason":"SAFETY"}}`, ir.MarkFinish, false, "SAFETY"},
		{`{"candidates":[]}`, ir.MarkOther, false, ""},
		{`{}`, ir.MarkOther, false, ""},
		{`: keepalive`, ir.MarkOther, false, ""},
		{``, ir.MarkOther, false, ""},
		{`{"error":{"code":503,"status":"UNAVAILABLE","message":"m"}}`, ir.MarkError, false, ""},
		{`[{"error":{"code":503,"status":"UNAVAILABLE","message":"m"}}]`, ir.MarkError, false, ""},
	} {
		m := (&tap{}).Mark(nil, []byte(c.data))
		if m.Kind != c.kind || m.Content != c.content || m.StopReason != c.stop || (m.Fault != nil) != (c.kind == ir.MarkError) {
			t.Errorf("%s: %+v", c.data, m)
		}
	}
}

// The tap sees the usage and the end that the decoder sees.
func TestTapIsDecoder(t *testing.T) {
	for name, stream := range corpus(t, "streams", ".sse", true) {
		tp := &tap{}
		var usage ir.Usage
		stop, fault := "", false
		for b := stream; !fault; {
			n := sse.Next(b)
			if n == 0 {
				break
			}
			_, data := sse.Parse(b[:n])
			b = b[n:]
			m := tp.Mark(nil, data)
			usage.Merge(m.Usage)
			if m.StopReason != "" {
				stop = m.StopReason
			}
			fault = m.Kind == ir.MarkError
		}
		var want ir.Usage
		native, failed := "", false
		for _, e := range listen(stream, 0) {
			switch e.Kind {
			case ir.EventUsage:
				want.Merge(e.Usage)
			case ir.EventFinish:
				native = e.Stop.Native
			case ir.EventFault:
				failed = e.Fault.Type != "MALFORMED_FUNCTION_CALL"
			}
		}
		if usage != want || fault != failed || name != "malformed" && stop != native {
			t.Errorf("%s: %+v %q %v, want %+v %q %v", name, usage, stop, fault, want, native, failed)
		}
		out, reason := tp.Finish([]byte("x"))
		if whole := tp.said; whole != (out != nil) || whole && (reason != "STOP" || !strings.HasPrefix(string(out), "xdata: {") || !strings.HasSuffix(string(out), "}\n\n")) {
			t.Errorf("%s: %q %q", name, out, reason)
		}
		if tp.Break([]byte("x"), &ir.Fault{}, "t") != nil {
			t.Error("a break cannot be said")
		}
	}
	if tp := (&tap{}); tp.Mark(nil, []byte(strings.TrimSpace(strings.TrimPrefix(finishChunk, "data: ")))).StopReason != "STOP" {
		t.Error(finishChunk)
	}
}

func TestPlainTap(t *testing.T) {
	body := []byte(`{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"MAX_TOKENS"}],"usageMetadata":{"promptTokenCount":50,"candidatesTokenCount":7,"thoughtsTokenCount":200,"cachedContentTokenCount":20,"totalTokenCount":257}}`)
	u, stop := plain(func(name string) []byte { return rawjson.Get(body, name) })
	if u.Input != 30 || u.Output != 207 || stop != "MAX_TOKENS" {
		t.Errorf("%+v %s", u, stop)
	}
	if u, stop := plain(func(string) []byte { return nil }); u.Known != 0 || stop != "" {
		t.Errorf("%+v %s", u, stop)
	}
}

func TestFault(t *testing.T) {
	const rpcType = `"@type":"type.googleapis.com/google.rpc.`
	for _, c := range []struct {
		status int
		body   string
		want   ir.Fault
	}{
		{400, `{"error":{"code":400,"message":"m","status":"INVALID_ARGUMENT","details":[{` + rpcType + `BadRequest","fieldViolations":[{"field":"contents[0]"}]}]}}`, ir.Fault{Status: 400, Kind: ir.KindInvalid, Type: "INVALID_ARGUMENT", Param: "contents[0]", Message: "m"}},
		{400, `{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[{` + rpcType + `ErrorInfo","reason":"API_KEY_INVALID"}]}}`, ir.Fault{Status: 400, Kind: ir.KindAuth, Type: "INVALID_ARGUMENT", Code: "API_KEY_INVALID", Message: "API key not valid."}},
		{429, `[{"error":{"code":429,"message":"q","status":"RESOURCE_EXHAUSTED","details":[{` + rpcType + `QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerMinute"},{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}]}}]`, ir.Fault{Status: 429, Kind: ir.KindRate, Type: "RESOURCE_EXHAUSTED", Code: "GenerateRequestsPerDayPerProjectPerModel-FreeTier", Message: "q"}},
		{429, `{"error":{"status":"RESOURCE_EXHAUSTED","details":[{` + rpcType + `ErrorInfo","reason":"QUOTA_EXHAUSTED"},{` + rpcType + `QuotaFailure","violations":[{"quotaId":"xPerDay"}]}]}}`, ir.Fault{Status: 429, Kind: ir.KindRate, Type: "RESOURCE_EXHAUSTED", Code: "QUOTA_EXHAUSTED"}},
		{0, `{"error":{"code":503,"status":"UNAVAILABLE","message":"m"}}`, ir.Fault{Status: 503, Kind: ir.KindOverloaded, Type: "UNAVAILABLE", Message: "m"}},
		{0, `{"error":{"status":"DEADLINE_EXCEEDED"}}`, ir.Fault{Status: 504, Kind: ir.KindTimeout, Type: "DEADLINE_EXCEEDED"}},
		{403, `{"error":"text"}`, ir.Fault{Status: 403, Kind: ir.KindPermission, Message: "text"}},
		{502, `<html>`, ir.Fault{Status: 502, Kind: ir.KindAPI}},
		{404, ``, ir.Fault{Status: 404, Kind: ir.KindNotFound}},
		{429, "\n[{\n\"error\": {\"status\": \"RESOURCE_EXHAUSTED\"}}]\n", ir.Fault{Status: 429, Kind: ir.KindRate, Type: "RESOURCE_EXHAUSTED"}},
		{500, `[5]`, ir.Fault{Status: 500, Kind: ir.KindAPI}},
	} {
		if got := fault(c.status, []byte(c.body)); got != c.want {
			t.Errorf("%s:\n%+v\n%+v", c.body, got, c.want)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		f      ir.Fault
		status int
		word   string
	}{
		{ir.Fault{Status: 400, Kind: ir.KindInvalid}, 400, "INVALID_ARGUMENT"},
		{ir.Fault{Status: 401, Kind: ir.KindAuth}, 401, "UNAUTHENTICATED"},
		{ir.Fault{Status: 402, Kind: ir.KindBilling}, 402, "RESOURCE_EXHAUSTED"},
		{ir.Fault{Status: 403, Kind: ir.KindPermission}, 403, "PERMISSION_DENIED"},
		{ir.Fault{Status: 404, Kind: ir.KindNotFound}, 404, "NOT_FOUND"},
		{ir.Fault{Status: 409, Kind: ir.KindConflict}, 409, "ABORTED"},
		{ir.Fault{Status: 413, Kind: ir.KindTooLarge}, 400, "INVALID_ARGUMENT"},
		{ir.Fault{Status: 422, Kind: ir.KindInvalid}, 422, "INVALID_ARGUMENT"},
		{ir.Fault{Status: 429, Kind: ir.KindRate}, 429, "RESOURCE_EXHAUSTED"},
		{ir.Fault{Status: 500, Kind: ir.KindAPI}, 500, "INTERNAL"},
		{ir.Fault{Status: 502, Kind: ir.KindAPI}, 502, "UNAVAILABLE"},
		{ir.Fault{Status: 503, Kind: ir.KindOverloaded}, 503, "UNAVAILABLE"},
		{ir.Fault{Status: 529, Kind: ir.KindOverloaded}, 503, "UNAVAILABLE"},
		{ir.Fault{Status: 504, Kind: ir.KindTimeout}, 504, "DEADLINE_EXCEEDED"},
		{ir.Fault{Kind: ir.KindRate}, 429, "RESOURCE_EXHAUSTED"},
		{ir.Fault{Kind: ir.KindBilling}, 429, "RESOURCE_EXHAUSTED"},
		{ir.Fault{}, 500, "INTERNAL"},
		{ir.Fault{Status: 500, Kind: ir.KindInvalid, Code: ir.CodeTooLong}, 500, "INVALID_ARGUMENT"},
	} {
		if got := status(&c.f); got != c.status {
			t.Errorf("%+v: %d", c.f, got)
		}
		body := appendError(nil, &c.f, "")
		if got := member(t, body, "error", "status"); got != `"`+c.word+`"` || member(t, body, "error", "code") != fmt.Sprint(c.status) {
			t.Errorf("%+v: %s", c.f, body)
		}
	}
}

// gemini-cli reads when to come again in the body; never 0, rounded up.
func TestRetryInfo(t *testing.T) {
	for reset, want := range map[time.Duration]string{time.Millisecond: "1s", time.Second: "1s", 34*time.Second + 1: "35s"} {
		f := ir.Fault{Status: 429, Kind: ir.KindRate, Message: "slow \"down\"", Reset: reset}
		body := appendError([]byte("x"), &f, "trace-1")
		if body[0] != 'x' {
			t.Fatal(string(body))
		}
		var e struct {
			Error struct {
				Message string
				Details []map[string]string
			}
		}
		if err := json.Unmarshal(body[1:], &e); err != nil || e.Error.Message != f.Message {
			t.Fatalf("%v %s", err, body)
		}
		if d := e.Error.Details; len(d) != 2 || d[0]["@type"] != "type.googleapis.com/google.rpc.RetryInfo" || d[0]["retryDelay"] != want || d[1]["requestId"] != "trace-1" {
			t.Errorf("%v", d)
		}
	}
	if body := appendError(nil, &ir.Fault{Status: 400}, ""); strings.Contains(string(body), "details") {
		t.Error(string(body))
	}
}

func TestRepair(t *testing.T) {
	seal := ir.Seal(ir.State{Owner: "other", Data: "x?>"})
	url := strings.NewReplacer("+", "-", "/", "_").Replace(seal)
	call := func(sig string) string {
		return `{"functionCall":{"name":"f","args":{"thoughtSignature":"` + seal + `"}},"thoughtSignature":"` + sig + `"}`
	}
	conversation := func(parts ...string) string {
		return `{"model":"m", "contents":[{"role":"user","parts":[{"text":"a"}]}, {"role":"model","parts":[` + strings.Join(parts, " , ") + `]}, {"role":"user","parts":[{"text":"b"}]}],"x":1}`
	}
	for _, c := range []struct {
		name     string
		how      ir.Repair
		in, want string
	}{
		{"native stays", ir.RepairSealed, conversation(call("bmF0aXZl"), `{"text":"t","thought":true,"thoughtSignature":"bmF0aXZl"}`), ""},
		{"placeholder stays", ir.RepairAll, conversation(call(placeholder)), ""},
		{"none", ir.RepairAll, conversation(`{"text":"x"}`), ""},
		{"sealed call", ir.RepairSealed, conversation(call(seal), call("bmF0aXZl")), conversation(call(placeholder), call("bmF0aXZl"))},
		{"sealed call, as Python writes it", ir.RepairSealed, conversation(call(url)), conversation(call(placeholder))},
		{"sealed text", ir.RepairSealed, conversation(`{"text":"t","thoughtSignature":"` + seal + `"}`), conversation(`{"text":"t"}`)},
		{"sealed text, first member, snake case", ir.RepairSealed, conversation(`{"thought_signature":"` + seal + `", "text":"t"}`), conversation(`{"text":"t"}`)},
		{"sealed thought", ir.RepairSealed, conversation(`{"text":"hm","thought":true,"thoughtSignature":"`+seal+`"}`, `{"text":"t"}`), conversation(`{"text":"t"}`)},
		{"sealed thought behind", ir.RepairSealed, conversation(`{"text":"t"}`, `{"text":"","thought":true,"thoughtSignature":"`+seal+`"}`), conversation(`{"text":"t"}`)},
		{"an empty part with nothing but it", ir.RepairSealed, conversation(`{"text":"t"}`, `{"text":"","thoughtSignature":"`+seal+`"}`, call(seal)), conversation(`{"text":"t"}`, call(placeholder))},
		{"nothing is left", ir.RepairSealed, conversation(`{"text":"hm","thought":true,"thoughtSignature":"` + seal + `"}`),
			`{"model":"m", "contents":[{"role":"user","parts":[{"text":"a"}]}, {"role":"user","parts":[{"text":"b"}]}],"x":1}`},
		{"closed", ir.RepairClosed, conversation(call("bmF0aXZl"), `{"text":"t","thoughtSignature":"bmF0aXZl"}`), conversation(call(placeholder), `{"text":"t"}`)},
		{"open loop stays", ir.RepairClosed, `{"contents":[{"parts":[{"text":"a"}]},{"role":"model","parts":[` + call("bmF0aXZl") + `]},{"parts":[{"functionResponse":{"name":"f","response":{}}}]}]}`, ""},
		{"all", ir.RepairAll, `{"contents":[{"parts":[{"text":"a"}]},{"role":"model","parts":[` + call("bmF0aXZl") + `]},{"parts":[{"functionResponse":{"name":"f","response":{}}}]}]}`,
			`{"contents":[{"parts":[{"text":"a"}]},{"role":"model","parts":[` + call(placeholder) + `]},{"parts":[{"functionResponse":{"name":"f","response":{}}}]}]}`},
		{"no contents", ir.RepairAll, `{"a":1}`, ""},
		{"odd shapes", ir.RepairAll, `{"contents":[5,{"parts":5},{"parts":[5,{"thoughtSignature":5}]},{}]}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, removed, err := repair([]byte(c.in), c.how)
			if err != nil || string(out) != c.want || (out != nil) != (len(removed) == 1 && removed[0] == "thoughtSignature") {
				t.Errorf("%v %v\n%s\nwant\n%s", err, removed, out, c.want)
			}
			if out != nil {
				if again, _, err := repair(out, c.how); again != nil || err != nil {
					t.Errorf("once more: %s %v", again, err)
				}
			}
		})
	}
	if _, _, err := repair([]byte(`{"contents":[{"parts":[`), ir.RepairAll); err == nil {
		t.Error("a body that is no JSON is an error")
	}
}
