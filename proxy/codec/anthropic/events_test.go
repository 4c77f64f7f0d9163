package anthropic

import (
	"bytes"
	"strings"
	"testing"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/sse"
)

// every has an event of every type of facts/protocols.md, 1.7, by its data, and what it means.
var every = []struct {
	name, data string
	want       ir.EventKind
}{
	{"message_start", `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":1}}}`, ir.EventStart},
	{"ping", `{"type":"ping"}`, ir.EventOther},

	// Starts of blocks that are still empty.
	{"content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`, ir.EventOther},
	{"content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`, ir.EventOther},
	{"content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text"}}`, ir.EventOther},
	{"content_block_start", `{"type":"content_block_start","index":0,"content_block":{}}`, ir.EventOther},
	{"content_block_start", `{"type":"content_block_start","index":0}`, ir.EventOther},
	// Blocks that are content when they start.
	{"content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Hi"}}`, ir.EventDelta},
	{"content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"Hm","signature":""}}`, ir.EventDelta},
	{"content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"redacted_thinking","data":"AAAA"}}`, ir.EventDelta},
	{"content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"Read","input":{}}}`, ir.EventDelta},
	{"content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}}`, ir.EventDelta},
	{"content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[]}}`, ir.EventDelta},
	{"content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"mcp_tool_use","id":"mcptoolu_1","name":"x","server_name":"y","input":{}}}`, ir.EventDelta},
	{"content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"a_block_of_tomorrow"}}`, ir.EventDelta},

	{"content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}`, ir.EventDelta},
	{"content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}}`, ir.EventDelta},
	{"content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm","estimated_tokens":3}}`, ir.EventDelta},
	{"content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"AAAA"}}`, ir.EventDelta},
	{"content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{}}}`, ir.EventDelta},
	{"content_block_stop", `{"type":"content_block_stop","index":0}`, ir.EventOther},

	{"message_delta", `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":7}}`, ir.EventFinish},
	{"message_delta", `{"type":"message_delta","delta":{"stop_reason":null},"usage":{"output_tokens":7}}`, ir.EventOther},
	{"message_delta", `{"type":"message_delta","delta":{},"usage":{"output_tokens":7}}`, ir.EventOther},
	{"message_delta", `{"type":"message_delta","usage":{"output_tokens":7}}`, ir.EventOther},
	{"message_stop", `{"type":"message_stop"}`, ir.EventStop},
	{"error", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_1"}`, ir.EventError},
	{"event_of_tomorrow", `{"type":"event_of_tomorrow","content_block":{"type":"text","text":"Hi"}}`, ir.EventOther},
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
			if got := Event([]byte(text)); got.Kind != tc.want {
				t.Errorf("%s\n%s: kind %d, want %d", form, text, got.Kind, tc.want)
			}
		}
	}
}

func TestWhatIsNoEvent(t *testing.T) {
	for _, text := range []string{"", "\n", "\n\n", ": keep-alive\n\n", "data: [DONE]\n\n", "data\n\n", "data: {\n\n", "data: {\"type\":7}\n\n", "data: \"message_stop\"\n\n",
		"event: \n\n", "event: message_stops\n\n", "event: Message_Stop\ndata: {}\n\n", "{\"type\":\"message_stop\"}\n\n", "<html>\n\n"} {
		if got := Event([]byte(text)); got != (ir.Event{}) {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func TestStopReason(t *testing.T) {
	for _, reason := range []string{"end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn", "refusal", "model_context_window_exceeded", "reason_of_tomorrow"} {
		got := Event([]byte("event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"" + reason + "\"}}\n\n"))
		if got.Kind != ir.EventFinish || got.StopReason != reason {
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
		got := Event([]byte("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"" + kind + "\",\"message\":\"m\"}}\n\n"))
		if got.Kind != ir.EventError || got.Fault == nil || *got.Fault != (ir.Fault{Status: status, Type: kind, Message: "m"}) {
			t.Errorf("%s: %+v %+v", kind, got, got.Fault)
		}
	}
	for _, data := range []string{"", "{", "[]", `{"type":"error"}`, `{"type":"error","error":null}`} {
		got := Event([]byte("event: error\ndata: " + data + "\n\n"))
		if got.Kind != ir.EventError || got.Fault == nil || *got.Fault != (ir.Fault{Status: 500}) {
			t.Errorf("%s: %+v %+v", data, got, got.Fault)
		}
	}
}

// Usage by the names of Anthropic and of those who are like it. Absent and null are not known; null is not zero.
func TestUsage(t *testing.T) {
	const all = ir.Input | ir.Output | ir.CacheCreation | ir.CacheRead
	for _, tc := range []struct {
		name, raw string
		want      ir.Usage
	}{
		{"Anthropic", `{"input_tokens":3,"cache_creation_input_tokens":60,"cache_read_input_tokens":900,"output_tokens":120}`,
			ir.Usage{Input: 3, CacheCreation: 60, CacheRead: 900, Output: 120, Known: all}},
		{"USE-004 thinking is a part of output", `{"input_tokens":4,"cache_creation_input_tokens":60,"cache_read_input_tokens":900,"output_tokens":120,"output_tokens_details":{"thinking_tokens":35}}`,
			ir.Usage{Input: 4, CacheCreation: 60, CacheRead: 900, Output: 120, Reasoning: 35, Known: all | ir.Reasoning}},
		{"zeros are known", `{"input_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0}`, ir.Usage{Known: all}},
		{"null is not known", `{"input_tokens":null,"cache_creation_input_tokens":null,"cache_read_input_tokens":null,"output_tokens":null,"output_tokens_details":null}`, ir.Usage{}},
		{"some null", `{"input_tokens":null,"output_tokens":5}`, ir.Usage{Output: 5, Known: ir.Output}},
		{"negative is not known", `{"input_tokens":-1,"output_tokens":5}`, ir.Usage{Output: 5, Known: ir.Output}},
		{"text is not known", `{"input_tokens":"7","output_tokens":5}`, ir.Usage{Output: 5, Known: ir.Output}},
		{"more than fits is not known", `{"input_tokens":99999999999999999999,"output_tokens":9223372036854775808}`, ir.Usage{}},
		{"the most that fits", `{"output_tokens":9223372036854775807}`, ir.Usage{Output: 9223372036854775807, Known: ir.Output}},
		{"cache creation by its times", `{"cache_creation":{"ephemeral_5m_input_tokens":40,"ephemeral_1h_input_tokens":20}}`, ir.Usage{CacheCreation: 60, Known: ir.CacheCreation}},
		{"cache creation by one of its times", `{"cache_creation":{"ephemeral_1h_input_tokens":20,"ephemeral_5m_input_tokens":null}}`, ir.Usage{CacheCreation: 20, Known: ir.CacheCreation}},
		{"both ways count once", `{"cache_creation_input_tokens":60,"cache_creation":{"ephemeral_5m_input_tokens":40,"ephemeral_1h_input_tokens":20}}`, ir.Usage{CacheCreation: 60, Known: ir.CacheCreation}},
		{"the sum is null, its parts are not", `{"cache_creation":{"ephemeral_5m_input_tokens":40},"cache_creation_input_tokens":null}`, ir.Usage{CacheCreation: 40, Known: ir.CacheCreation}},
		{"cache creation null", `{"cache_creation":null}`, ir.Usage{}},
		{"other names for the caches", `{"input_tokens":3,"cache_creation_tokens":60,"cache_read_tokens":900}`,
			ir.Usage{Input: 3, CacheCreation: 60, CacheRead: 900, Known: ir.Input | ir.CacheCreation | ir.CacheRead}},
		{"DeepSeek: prompt_tokens includes the cached ones", `{"prompt_tokens":100,"completion_tokens":7,"prompt_cache_hit_tokens":90,"prompt_cache_miss_tokens":10}`,
			ir.Usage{Input: 10, CacheRead: 90, Output: 7, Known: ir.Input | ir.Output | ir.CacheRead}},
		{"DeepSeek, the hits first", `{"prompt_cache_hit_tokens":90,"prompt_tokens":100}`, ir.Usage{Input: 10, CacheRead: 90, Known: ir.Input | ir.CacheRead}},
		{"more hits than prompt", `{"prompt_tokens":10,"prompt_cache_hit_tokens":90}`, ir.Usage{Input: 0, CacheRead: 90, Known: ir.Input | ir.CacheRead}},
		{"both names for input", `{"prompt_tokens":100,"input_tokens":3,"prompt_cache_hit_tokens":97}`, ir.Usage{Input: 3, CacheRead: 97, Known: ir.Input | ir.CacheRead}},
		{"what is not counted", `{"server_tool_use":{"web_search_requests":3},"service_tier":"standard","total_tokens":99,"iterations":[{"input_tokens":5}]}`, ir.Usage{}},
		{"nothing", `{}`, ir.Usage{}},
		{"absent", ``, ir.Usage{}},
		{"null as a whole", `null`, ir.Usage{}},
		{"a list", `[1,2]`, ir.Usage{}},
	} {
		if got := Usage([]byte(tc.raw)); got != tc.want {
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
		if u := Usage([]byte(raw)); u.Input < 0 || u.Output < 0 || u.CacheCreation < 0 || u.CacheRead < 0 {
			t.Errorf("%s: %+v", raw, u)
		}
	}
}

// merged reads the usage of a whole stream as the relay does.
func merged(datas ...string) ir.Usage {
	var u ir.Usage
	for _, d := range datas {
		u.Merge(Event([]byte("data: " + d + "\n\n")).Usage)
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
			ir.Usage{Input: 3, CacheRead: 500, Output: 40, Known: ir.Input | ir.CacheRead | ir.Output}},
		{"the end has output alone", []string{
			`{"type":"message_start","message":{"usage":{"input_tokens":3,"cache_read_input_tokens":500,"output_tokens":1}}}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":40}}`},
			ir.Usage{Input: 3, CacheRead: 500, Output: 40, Known: ir.Input | ir.CacheRead | ir.Output}},
		{"null in the end is ignored", []string{
			`{"type":"message_start","message":{"usage":{"input_tokens":3,"cache_read_input_tokens":500,"output_tokens":1}}}`,
			`{"type":"message_delta","delta":{},"usage":{"input_tokens":null,"cache_read_input_tokens":null,"output_tokens":40}}`},
			ir.Usage{Input: 3, CacheRead: 500, Output: 40, Known: ir.Input | ir.CacheRead | ir.Output}},
		{"zero in the end is zero", []string{
			`{"type":"message_start","message":{"usage":{"input_tokens":3,"output_tokens":1}}}`,
			`{"type":"message_delta","delta":{},"usage":{"input_tokens":0,"output_tokens":0}}`},
			ir.Usage{Known: ir.Input | ir.Output}},
		{"several message_deltas", []string{
			`{"type":"message_start","message":{"usage":{"input_tokens":0,"output_tokens":0}}}`,
			`{"type":"message_delta","delta":{},"usage":{"output_tokens":10}}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":25,"output_tokens":30,"output_tokens_details":{"thinking_tokens":12}}}`},
			ir.Usage{Input: 25, Output: 30, Reasoning: 12, Known: ir.Input | ir.Output | ir.Reasoning}},
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
		e := Event(raw)
		if !bytes.Equal(raw, before) {
			t.Fatal("the event was changed")
		}
		if (e.Kind == ir.EventError) != (e.Fault != nil) || e.Fault != nil && e.Fault.Status < 400 {
			t.Fatalf("kind %d, fault %+v", e.Kind, e.Fault)
		}
		if (e.StopReason != "") && e.Kind != ir.EventFinish {
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
		if slow := Event(append([]byte("id: 1\n"), raw...)); slow.Kind != e.Kind {
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
		got := Fault(status, body)
		if got.Status != status || got.Reset != 0 || got.KeyWide {
			t.Fatalf("%+v", got)
		}
		if !bytes.Contains(body, []byte("{")) && got != (ir.Fault{Status: status}) {
			t.Fatalf("%q: %+v", body, got)
		}
		if u := Usage(body); u.Input < 0 || u.Output < 0 || u.CacheCreation < 0 || u.CacheRead < 0 {
			t.Fatalf("%q: %+v", body, u)
		}
	})
}
