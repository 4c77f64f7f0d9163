package openaichat

import (
	"strings"
	"testing"

	"coding-proxy/proxy/ir"
)

// TestCases: what an upstream's stream becomes for a client, by the numbers of facts/protocols.md, section 6, and the ids
// of shared/faults. want is the blocks of the answer in short, then the reason.
func TestCases(t *testing.T) {
	all := streams(t)
	for _, c := range []struct{ name, stream, want string }{
		{"case_1_case_3_reasoning_first", "thinking_text", "thinking(let me see) text(Yes.) end_turn"},
		{"case_7_interleaved", "interleaved", `call(c1,a,{"x":1}) call(c2,b,{"y":2}) tool_use`},
		{"case_8_back_to_back", "parallel", `text(Both.) call(c1,ls,{}) call(c2,cat,{"f":"x"}) tool_use`},
		{"case_9_index_0", "index0_for_all", `call(a1,ls,{"p":1}) call(a2,ls,{"p":2}) call(a3,cat,{"p":3}) tool_use`},
		{"case_9_without_ids", "index0_without_ids", `call(call_5eed_0,ls,{"p":1}) call(call_5eed_1,ls,{"p":2}) call(call_5eed_2,cat,{"q":3}) tool_use`},
		{"case_10_newline_between", "newline_between_calls", "call(c1,a,{}) call(c2,b,{}) tool_use"},
		{"case_13_no_name", "no_name", `call(c1,unknown_tool,{"a":1}) tool_use`},
		{"case_14_stop_after_calls", "tool_then_stop", "call(c1,a,{}) tool_use"},
		{"case_15_stop_with_calls", "gemini_signature", "call(f1,ls,{}) tool_use"},
		{"case_24_stop_string", "vllm_stop", "text(a) stop_sequence:END"},
		{"case_24_stop_integer", "vllm_stop_integer", "text(a) end_turn"},
		{"case_53_copilot", "copilot_two_choices", `text(I look.) call(c1,read,{"p":"/a"}) tool_use`},
		{"case_54_no_reason", "done_without_reason_call", `call(c1,ls,{"a":1}) tool_use`},
		{"CNV034_phantom", "phantom_calls", "text(only text) end_turn"},
		{"CNV036_cut", "length_in_call", `call(c1,write,{"path":"/a) max_tokens`},
		{"CNV037_no_id", "no_ids", `call(call_5eed_0,ls,{}) call(call_5eed_1,cat,{"a":1}) tool_use`},
		{"CNV041_numbers", "shards", `call(c1,w,{"t":"a\"}b","n":[1,{"z":9007199254740993}]}) tool_use`},
		{"SSE005_halves", "surrogates", `text(ok 😀!) call(c1,f,{"a":"😀"}) tool_use`},
		{"SSE013_SSE012_keepalive", "keepalives", "text(x) end_turn"},
		{"SSE029_after_done", "after_done", "text(x) end_turn"},
		{"SSE031_no_reason", "done_without_reason", "text(ab) end_turn"},
		{"SSE031_half_call", "done_without_reason_cut", `call(c1,ls,{"a":) max_tokens`},
		{"resent", "resent", `call(c1,ls,{"a":1}) tool_use`},
		{"resent_suffix", "resent_suffix", `call(c1,ls,{"a":1}) tool_use`},
		{"refusal", "refusal", "refusal(I cannot.) refusal"},
		{"text_inside_call", "text_inside_call", `call(c1,a,{"x":1}) text(aside) tool_use`},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, fault := folded(t, eventsOf(all[c.stream]), nil)
			if fault != nil {
				t.Fatal(fault)
			}
			var b strings.Builder
			for _, k := range a.Blocks {
				b.WriteString(kindNames[k.Kind] + "(")
				if k.Kind == ir.ToolCall {
					b.WriteString(k.ID + "," + k.Name + ",")
				}
				b.WriteString(k.Text + k.Args + ") ")
			}
			b.WriteString(string(a.Stop.Reason))
			if a.Stop.Sequence != "" {
				b.WriteString(":" + a.Stop.Sequence)
			}
			if got := b.String(); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestCase17LateUsage: USE-010, SSE-030. Usage behind the reason is still there, and only one end comes of it.
func TestCase17LateUsage(t *testing.T) {
	all := streams(t)
	for name, want := range map[string]ir.Usage{
		"text":            {Input: 80, Output: 40, CacheCreation: 20, CacheRead: 900, Reasoning: 12, Known: 31},
		"usage_in_choice": {Input: 6, Output: 2, CacheRead: 4, Known: ir.UsageInput | ir.UsageOutput | ir.UsageCacheRead},
		"usage_deepseek":  {Input: 36, Output: 9, CacheRead: 64, Known: ir.UsageInput | ir.UsageOutput | ir.UsageCacheRead},
		"usage_groq":      {Input: 7, Output: 1, Known: ir.UsageInput | ir.UsageOutput},
		"role_only":       {},
	} {
		a, _ := folded(t, eventsOf(all[name]), nil)
		if a.Usage != want {
			t.Errorf("%s: %+v, want %+v", name, a.Usage, want)
		}
		ends := 0
		for _, e := range eventsOf(all[name]) {
			if e.Kind == ir.EventEnd {
				ends++
			}
		}
		if ends != 1 {
			t.Errorf("%s: %d ends", name, ends)
		}
	}
	a, _ := folded(t, eventsOf(all["usage_every_chunk"]), nil)
	if a.Usage.Output != 3 || a.Usage.Input != 5 {
		t.Errorf("usage on every chunk was added up: %+v", a.Usage)
	}
}

// TestCase46Custom: a free-text call to a model without such tools comes back as one.
func TestCase46Custom(t *testing.T) {
	r := hello()
	r.Tools = []ir.Tool{{Kind: ir.ToolCustom, Form: ir.FormCustom, ToolName: ir.ToolName{Name: "apply_patch"}}}
	out := encoded(t, r, "llama-4")
	stream := []byte(`data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"apply_patch","arguments":"{\"input\":\"*** Begin\\n\"}"}}]},"finish_reason":"tool_calls"}]}` + "\n\n")
	a, _ := folded(t, eventsOf(stream), out.Tools)
	if b := a.Blocks[0]; b.Form != ir.FormCustom || b.Args != "*** Begin\n" {
		t.Errorf("%+v", b)
	}
	got, _ := streamed(eventsOf(stream), reply(r), out.Tools)
	if !strings.Contains(got, `"custom":{"input":"*** Begin\n"}`) {
		t.Errorf("%s", got)
	}
	valid(t, got)
}

// TestCase49Errors: an error in a stream, however it is said, is a fault and no end.
func TestCase49Errors(t *testing.T) {
	all := streams(t)
	for name, status := range map[string]int{"error_mid": 503, "error_openrouter": 429, "glm_network_error": 500, "vllm_error": 400} {
		_, fault := folded(t, eventsOf(all[name]), nil)
		if fault == nil || fault.Status != status {
			t.Errorf("%s: %+v", name, fault)
		}
	}
}

// TestDialect walks one request and answer through the table that the house uses.
func TestDialect(t *testing.T) {
	d := Dialect()
	if d.Name != "openai-chat" || d.Prefix != "openai" || len(d.Endpoints) != 1 || d.Endpoints[0].Pattern != "/v1/chat/completions" {
		t.Errorf("%+v", d)
	}
	r, err := d.DecodeRequest(ir.Incoming{Body: []byte(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`)})
	if err != nil {
		t.Fatal(err)
	}
	out, err := d.EncodeRequest(r, ir.Target{Model: "up"})
	if err != nil || string(out.Body) != `{"model":"up","messages":[{"role":"user","content":"hi"}]}` {
		t.Fatalf("%v %s", err, out.Body)
	}
	dec, enc := d.NewDecoder(ir.Source{Seed: "5eed"}), d.NewEncoder(reply(r))
	var b []byte
	bridge := ir.Bridge{Tools: out.Tools}
	frames(streams(t)["text"], func(name, data []byte) {
		for _, e := range dec.Event(nil, name, data) {
			for _, e := range bridge.Next(nil, e) {
				b = enc.Append(b, &e)
			}
		}
	})
	valid(t, string(b))
	if string(d.Raw.KeepAlive(true)) != ": keep-alive\n" || d.Raw.NewTap() == nil {
		t.Error("the raw lane")
	}
}

// TestFunctionCallForms: the deprecated rule for calls.
func TestFunctionCallForms(t *testing.T) {
	for raw, want := range map[string]ir.ChoiceMode{`"none"`: ir.ChoiceNone, `"auto"`: ir.ChoiceAuto, `{"name":"f"}`: ir.ChoiceOne} {
		r := decoded(t, `{"functions":[{"name":"f"}],"function_call":`+raw+`,"messages":[]}`)
		if r.Choice.Mode != want || r.Name(ir.FieldToolChoice) != "function_call" || r.Name(ir.FieldTools) != "functions" {
			t.Errorf("%s: %+v", raw, r.Choice)
		}
	}
	for _, raw := range []string{`"some"`, `5`, `{}`} {
		if _, err := decodeRequest(ir.Incoming{Body: []byte(`{"function_call":` + raw + `,"messages":[]}`)}); err == nil {
			t.Errorf("%s is taken", raw)
		}
	}
}
