package anthropic

import (
	"bytes"
	"strings"
	"testing"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/sse"
)

// mark reads a whole event as the relay's tap does.
func mark(raw []byte) ir.Mark {
	name, data := sse.Parse(raw)
	return Dialect().Raw.NewTap().Mark(name, data)
}

// every has an event of every type of facts/protocols.md, 1.7, by its data, and what it means.
var every = []struct {
	name, data string
	want       ir.MarkKind
}{
	{"message_start", `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":1}}}`, ir.MarkStart},
	{"ping", `{"type":"ping"}`, ir.MarkOther},

	// Starts of blocks that are still empty.
	{"content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`, ir.MarkOther},
	{"content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`, ir.MarkOther},
	{"content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text"}}`, ir.MarkOther},
	{"content_block_start", `{"type":"content_block_start","index":0,"content_block":{}}`, ir.MarkOther},
	{"content_block_start", `{"type":"content_block_start","index":0}`, ir.MarkOther},
	// Blocks that are content when they start.
	{"content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Hi"}}`, ir.MarkDelta},
	{"content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"Hm","signature":""}}`, ir.MarkDelta},
	{"content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"redacted_thinking","data":"AAAA"}}`, ir.MarkDelta},
	{"content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"Read","input":{}}}`, ir.MarkDelta},
	{"content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}}`, ir.MarkDelta},
	{"content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[]}}`, ir.MarkDelta},
	{"content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"mcp_tool_use","id":"mcptoolu_1","name":"x","server_name":"y","input":{}}}`, ir.MarkDelta},
	{"content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"a_block_of_tomorrow"}}`, ir.MarkDelta},

	{"content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}`, ir.MarkDelta},
	{"content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}}`, ir.MarkDelta},
	{"content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm","estimated_tokens":3}}`, ir.MarkDelta},
	{"content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"AAAA"}}`, ir.MarkDelta},
	{"content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{}}}`, ir.MarkDelta},
	{"content_block_stop", `{"type":"content_block_stop","index":0}`, ir.MarkOther},

	{"message_delta", `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":7}}`, ir.MarkFinish},
	{"message_delta", `{"type":"message_delta","delta":{"stop_reason":null},"usage":{"output_tokens":7}}`, ir.MarkOther},
	{"message_delta", `{"type":"message_delta","delta":{},"usage":{"output_tokens":7}}`, ir.MarkOther},
	{"message_delta", `{"type":"message_delta","usage":{"output_tokens":7}}`, ir.MarkOther},
	{"message_stop", `{"type":"message_stop"}`, ir.MarkStop},
	{"error", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_1"}`, ir.MarkError},
	{"event_of_tomorrow", `{"type":"event_of_tomorrow","content_block":{"type":"text","text":"Hi"}}`, ir.MarkOther},
}

// An event means the same in every form in which a stream may write it. Frames without a name are read by their type:
// the official SDK passes over them, other clients do not.
func TestEveryEvent(t *testing.T) {
	for _, tc := range every {
		for form, text := range map[string]string{
			"as Anthropic writes it":   "event: " + tc.name + "\ndata: " + tc.data + "\n\n",
			"without blanks":           "event:" + tc.name + "\ndata:" + tc.data + "\n\n",
			"without an event line":    "data: " + tc.data + "\n\n",
			"with CRLF":                "event: " + tc.name + "\r\ndata: " + tc.data + "\r\n\r\n",
			"with CR":                  "event: " + tc.name + "\rdata: " + tc.data + "\r\r",
			"data before event":        "data: " + tc.data + "\nevent: " + tc.name + "\n\n",
			"with a comment and an id": ": x\nid: 7\nevent: " + tc.name + "\nretry: 5\ndata: " + tc.data + "\n\n",
			"in two data lines":        "event: " + tc.name + "\ndata: " + strings.Replace(tc.data, ",", ",\ndata: ", 1) + "\n\n",
			"without its end":          "event: " + tc.name + "\ndata: " + tc.data,
		} {
			if got := mark([]byte(text)); got.Kind != tc.want {
				t.Errorf("%s\n%s: kind %d, want %d", form, text, got.Kind, tc.want)
			}
		}
	}
}

func TestWhatIsNoEvent(t *testing.T) {
	for _, text := range []string{"", "\n", "\n\n", ": keep-alive\n\n", "data: [DONE]\n\n", "data\n\n", "data: {\n\n", "data: {\"type\":7}\n\n", "data: \"message_stop\"\n\n",
		"event: \n\n", "event: message_stops\n\n", "event: Message_Stop\ndata: {}\n\n", "{\"type\":\"message_stop\"}\n\n", "<html>\n\n"} {
		if got := mark([]byte(text)); got != (ir.Mark{}) {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func TestStopReason(t *testing.T) {
	for _, reason := range []string{"end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn", "refusal", "model_context_window_exceeded", "reason_of_tomorrow"} {
		got := mark([]byte("event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"" + reason + "\"}}\n\n"))
		if got.Kind != ir.MarkFinish || got.StopReason != reason {
			t.Errorf("%s: %+v", reason, got)
		}
	}
}

// An error event's status is the one that its type stands for.
func TestErrorEvent(t *testing.T) {
	for kind, status := range map[string]int{
		"invalid_request_error": 400, "authentication_error": 401, "billing_error": 402, "permission_error": 403, "not_found_error": 404,
		"conflict_error": 409, "request_too_large": 413, "rate_limit_error": 429, "api_error": 500, "timeout_error": 504, "overloaded_error": 529,
		"error_of_tomorrow": 500, "": 500,
	} {
		got := mark([]byte("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"" + kind + "\",\"message\":\"m\"}}\n\n"))
		word := kind
		if status == 500 {
			word = ir.KindAPI
		}
		if got.Kind != ir.MarkError || got.Fault == nil || *got.Fault != (ir.Fault{Status: status, Kind: word, Type: kind, Message: "m"}) {
			t.Errorf("%s: %+v %+v", kind, got, got.Fault)
		}
	}
	for _, data := range []string{"", "{", "[]", `{"type":"error"}`, `{"type":"error","error":null}`} {
		got := mark([]byte("event: error\ndata: " + data + "\n\n"))
		if got.Kind != ir.MarkError || got.Fault == nil || *got.Fault != (ir.Fault{Status: 500, Kind: ir.KindAPI}) {
			t.Errorf("%s: %+v %+v", data, got, got.Fault)
		}
	}
}

// usageOf by the names of Anthropic and of those who are like it. Absent and null are not known; null is not zero.
func TestUsage(t *testing.T) {
	const all = ir.UsageInput | ir.UsageOutput | ir.UsageCacheCreation | ir.UsageCacheRead
	for _, tc := range []struct {
		name, raw string
		want      ir.Usage
	}{
		{"Anthropic", `{"input_tokens":3,"cache_creation_input_tokens":60,"cache_read_input_tokens":900,"output_tokens":120}`,
			ir.Usage{Input: 3, CacheCreation: 60, CacheRead: 900, Output: 120, Known: all}},
		{"USE-004 thinking is a part of output", `{"input_tokens":4,"cache_creation_input_tokens":60,"cache_read_input_tokens":900,"output_tokens":120,"output_tokens_details":{"thinking_tokens":35}}`,
			ir.Usage{Input: 4, CacheCreation: 60, CacheRead: 900, Output: 120, Reasoning: 35, Known: all | ir.UsageReasoning}},
		{"zeros are known", `{"input_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0}`, ir.Usage{Known: all}},
		{"null is not known", `{"input_tokens":null,"cache_creation_input_tokens":null,"cache_read_input_tokens":null,"output_tokens":null,"output_tokens_details":null}`, ir.Usage{}},
		{"some null", `{"input_tokens":null,"output_tokens":5}`, ir.Usage{Output: 5, Known: ir.UsageOutput}},
		{"negative is not known", `{"input_tokens":-1,"output_tokens":5}`, ir.Usage{Output: 5, Known: ir.UsageOutput}},
		{"text is not known", `{"input_tokens":"7","output_tokens":5}`, ir.Usage{Output: 5, Known: ir.UsageOutput}},
		{"more than fits is not known", `{"input_tokens":99999999999999999999,"output_tokens":9223372036854775808}`, ir.Usage{}},
		{"the most that fits", `{"output_tokens":9223372036854775807}`, ir.Usage{Output: 9223372036854775807, Known: ir.UsageOutput}},
		{"cache creation by its times", `{"cache_creation":{"ephemeral_5m_input_tokens":40,"ephemeral_1h_input_tokens":20}}`, ir.Usage{CacheCreation: 60, Known: ir.UsageCacheCreation}},
		{"cache creation by one of its times", `{"cache_creation":{"ephemeral_1h_input_tokens":20,"ephemeral_5m_input_tokens":null}}`, ir.Usage{CacheCreation: 20, Known: ir.UsageCacheCreation}},
		{"both ways count once", `{"cache_creation_input_tokens":60,"cache_creation":{"ephemeral_5m_input_tokens":40,"ephemeral_1h_input_tokens":20}}`, ir.Usage{CacheCreation: 60, Known: ir.UsageCacheCreation}},
		{"the sum is null, its parts are not", `{"cache_creation":{"ephemeral_5m_input_tokens":40},"cache_creation_input_tokens":null}`, ir.Usage{CacheCreation: 40, Known: ir.UsageCacheCreation}},
		{"cache creation null", `{"cache_creation":null}`, ir.Usage{}},
		{"other names for the caches", `{"input_tokens":3,"cache_creation_tokens":60,"cache_read_tokens":900}`,
			ir.Usage{Input: 3, CacheCreation: 60, CacheRead: 900, Known: ir.UsageInput | ir.UsageCacheCreation | ir.UsageCacheRead}},
		{"DeepSeek: prompt_tokens includes the cached ones", `{"prompt_tokens":100,"completion_tokens":7,"prompt_cache_hit_tokens":90,"prompt_cache_miss_tokens":10}`,
			ir.Usage{Input: 10, CacheRead: 90, Output: 7, Known: ir.UsageInput | ir.UsageOutput | ir.UsageCacheRead}},
		{"DeepSeek, the hits first", `{"prompt_cache_hit_tokens":90,"prompt_tokens":100}`, ir.Usage{Input: 10, CacheRead: 90, Known: ir.UsageInput | ir.UsageCacheRead}},
		{"more hits than prompt", `{"prompt_tokens":10,"prompt_cache_hit_tokens":90}`, ir.Usage{Input: 0, CacheRead: 90, Known: ir.UsageInput | ir.UsageCacheRead}},
		{"both names for input", `{"prompt_tokens":100,"input_tokens":3,"prompt_cache_hit_tokens":97}`, ir.Usage{Input: 3, CacheRead: 97, Known: ir.UsageInput | ir.UsageCacheRead}},
		{"what is not counted", `{"server_tool_use":{"web_search_requests":3},"service_tier":"standard","total_tokens":99,"iterations":[{"input_tokens":5}]}`, ir.Usage{}},
		{"nothing", `{}`, ir.Usage{}},
		{"absent", ``, ir.Usage{}},
		{"null as a whole", `null`, ir.Usage{}},
		{"a list", `[1,2]`, ir.Usage{}},
	} {
		if got := usageOf([]byte(tc.raw)); got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
}

// Figures that are too large to add are no reason for a negative one, which would give tokens back.
func TestUsageDoesNotOverflow(t *testing.T) {
	const most = "9223372036854775807"
	for _, raw := range []string{
		`{"cache_creation":{"ephemeral_5m_input_tokens":` + most + `,"ephemeral_1h_input_tokens":` + most + `}}`,
		`{"prompt_tokens":1,"prompt_cache_hit_tokens":` + most + `}`,
		`{"input_tokens":` + most + `,"cache_read_input_tokens":` + most + `}`,
	} {
		if u := usageOf([]byte(raw)); u.Input < 0 || u.Output < 0 || u.CacheCreation < 0 || u.CacheRead < 0 {
			t.Errorf("%s: %+v", raw, u)
		}
	}
}

// merged reads the usage of a whole stream as the relay does.
func merged(datas ...string) ir.Usage {
	var u ir.Usage
	for _, d := range datas {
		u.Merge(mark([]byte("data: " + d + "\n\n")).Usage)
	}
	return u
}

// USE-001: each event's figures are cumulative: the last that is not null wins, nothing is added up.
func TestUSE001LastValueWins(t *testing.T) {
	for _, tc := range []struct {
		name   string
		events []string
		want   ir.Usage
	}{
		{"both carry everything", []string{
			`{"type":"message_start","message":{"usage":{"input_tokens":3,"cache_read_input_tokens":500,"output_tokens":1}}}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":3,"cache_read_input_tokens":500,"output_tokens":40}}`},
			ir.Usage{Input: 3, CacheRead: 500, Output: 40, Known: ir.UsageInput | ir.UsageCacheRead | ir.UsageOutput}},
		{"the end has output alone", []string{
			`{"type":"message_start","message":{"usage":{"input_tokens":3,"cache_read_input_tokens":500,"output_tokens":1}}}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":40}}`},
			ir.Usage{Input: 3, CacheRead: 500, Output: 40, Known: ir.UsageInput | ir.UsageCacheRead | ir.UsageOutput}},
		{"null in the end is ignored", []string{
			`{"type":"message_start","message":{"usage":{"input_tokens":3,"cache_read_input_tokens":500,"output_tokens":1}}}`,
			`{"type":"message_delta","delta":{},"usage":{"input_tokens":null,"cache_read_input_tokens":null,"output_tokens":40}}`},
			ir.Usage{Input: 3, CacheRead: 500, Output: 40, Known: ir.UsageInput | ir.UsageCacheRead | ir.UsageOutput}},
		{"zero in the end is zero", []string{
			`{"type":"message_start","message":{"usage":{"input_tokens":3,"output_tokens":1}}}`,
			`{"type":"message_delta","delta":{},"usage":{"input_tokens":0,"output_tokens":0}}`},
			ir.Usage{Known: ir.UsageInput | ir.UsageOutput}},
		{"several message_deltas", []string{
			`{"type":"message_start","message":{"usage":{"input_tokens":0,"output_tokens":0}}}`,
			`{"type":"message_delta","delta":{},"usage":{"output_tokens":10}}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":25,"output_tokens":30,"output_tokens_details":{"thinking_tokens":12}}}`},
			ir.Usage{Input: 25, Output: 30, Reasoning: 12, Known: ir.UsageInput | ir.UsageOutput | ir.UsageReasoning}},
		{"no usage at all", []string{`{"type":"message_start","message":{}}`, `{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`}, ir.Usage{}},
	} {
		if got := merged(tc.events...); got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
}

// FuzzEvent: whatever a stream holds, there is no panic, only an error has a fault, figures are never negative, and the
// quick way for deltas says what the slow way says.
func FuzzEvent(f *testing.F) {
	if len(every) == 0 {
		f.Fatal("no seeds")
	}
	for _, e := range every {
		f.Add([]byte("event: " + e.name + "\ndata: " + e.data + "\n\n"))
		f.Add([]byte("data: " + e.data + "\r\n\r\n"))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := bytes.Clone(raw)
		e := mark(raw)
		if !bytes.Equal(raw, before) {
			t.Fatal("the event was changed")
		}
		if (e.Kind == ir.MarkError) != (e.Fault != nil) || e.Fault != nil && e.Fault.Status < 400 {
			t.Fatalf("kind %d, fault %+v", e.Kind, e.Fault)
		}
		if isDelta(raw) && bytes.Count(raw, []byte("event")) == 1 && (e.Usage.Known != 0 || e.Kind != ir.MarkDelta && e.Kind != ir.MarkOther) {
			t.Fatalf("%q is bulk, but means %+v", raw, e)
		}
		if e.Content != (e.Kind == ir.MarkDelta) {
			t.Fatalf("kind %d, content %v", e.Kind, e.Content)
		}
		if (e.StopReason != "") && e.Kind != ir.MarkFinish {
			t.Fatalf("kind %d with the stop reason %q", e.Kind, e.StopReason)
		}
		u := e.Usage
		for _, n := range []int64{u.Input, u.Output, u.CacheCreation, u.CacheRead, u.Reasoning} {
			if n < 0 {
				t.Fatalf("usage %+v", u)
			}
		}
		if sse.Next(raw) != len(raw) || bytes.Count(raw, []byte("event")) > 1 {
			return // not what the relay would have cut out, or an event with two names
		}
		if slow := mark(append([]byte("id: 1\n"), raw...)); slow.Kind != e.Kind {
			t.Fatalf("kind %d, behind an id %d", e.Kind, slow.Kind)
		}
	})
}

// FuzzFault: any body under any status is a fault with that status, and rubbish has nothing else.
func FuzzFault(f *testing.F) {
	for _, s := range faults {
		f.Add(429, []byte(s.body))
	}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		got := fault(status, body)
		if status == 0 {
			status, _ = statusOf(got.Type)
		}
		if got.Status != status || got.Kind == "" || got.Reset != 0 || got.KeyWide {
			t.Fatalf("%+v", got)
		}
		if !bytes.Contains(body, []byte("{")) && got != (ir.Fault{Status: status, Kind: ir.KindOf(status)}) {
			t.Fatalf("%q: %+v", body, got)
		}
		if u := usageOf(body); u.Input < 0 || u.Output < 0 || u.CacheCreation < 0 || u.CacheRead < 0 {
			t.Fatalf("%q: %+v", body, u)
		}
	})
}

// What the relay is told beside the kinds: empty deltas are no content, and the tap costs no memory.
func TestTap(t *testing.T) {
	raw := Dialect().Raw
	for data, content := range map[string]bool{
		`{"type":"content_block_delta","delta":{"type":"text_delta","text":""}}`:                 false,
		`{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":""}}`:   false,
		`{"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":""}}`:         false,
		`{"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}`:                true,
		`{"type":"content_block_delta","delta":{"type":"signature_delta","signature":"A"}}`:      true,
		`{"type":"content_block_start","content_block":{"type":"tool_use","id":"a","name":"f"}}`: true,
		`{"type":"content_block_start","content_block":{"type":"text","text":""}}`:               false,
	} {
		m := raw.NewTap().Mark(nil, []byte(data))
		if m.Content != content || (m.Kind == ir.MarkDelta) != content {
			t.Errorf("%s: %+v", data, m)
		}
	}
	if !raw.IsBulk([]byte("event: content_block_delta\ndata: {}\n\n")) || raw.IsBulk([]byte("data: {\"type\":\"content_block_delta\"}\n\n")) || raw.IsBulk([]byte("event: message_delta\n\n")) {
		t.Error("bulk")
	}
	if n := testing.AllocsPerRun(100, func() { raw.NewTap() }); n != 0 {
		t.Errorf("a tap takes %v allocations", n)
	}
	u, stop := raw.Plain(func(name string) []byte {
		return map[string][]byte{"usage": []byte(`{"input_tokens":3,"output_tokens":2}`), "stop_reason": []byte(`"end_turn"`)}[name]
	})
	if u.Input != 3 || u.Output != 2 || stop != "end_turn" {
		t.Errorf("%+v %q", u, stop)
	}
	if u, stop := raw.Plain(func(string) []byte { return nil }); u != (ir.Usage{}) || stop != "" {
		t.Errorf("%+v %q", u, stop)
	}
	if out, reason := raw.NewTap().Finish([]byte("x")); out != nil || reason != "" {
		t.Error("an unannounced end is finished")
	}
	got := string(raw.NewTap().Break([]byte("x\n\n"), &ir.Fault{Status: 504, Kind: ir.KindTimeout, Message: "m"}, "t"))
	if got != "x\n\nevent: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"timeout_error\",\"message\":\"m\"},\"request_id\":\"t\"}\n\n" {
		t.Errorf("%q", got)
	}
}
