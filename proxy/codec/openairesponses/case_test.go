package openairesponses

import (
	"strings"
	"testing"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// TestCases are the edge cases of facts/protocols.md, section 6, by their numbers.
func TestCases(t *testing.T) {
	target := ir.Target{Model: "gpt-5.5", Owner: "up"}
	t.Run("case_04_case_12", func(t *testing.T) { // reasoning again after a call; a signature alone and then a call
		for _, name := range []string{"thinking_tool_thinking_tool", "signature_only_then_call"} {
			golden(t, root+"/streams/"+name+".events", show(decodeFrames(framesOf(read(t, "streams/"+name+".sse")), "up")))
		}
	})
	t.Run("case_19_case_20_USE002", func(t *testing.T) {
		u := readUsage([]byte(`{"input_tokens":100,"input_tokens_details":{"cached_tokens":90,"cache_write_tokens":4},"output_tokens":5}`))
		if u.Input != 6 || u.CacheRead != 90 || u.CacheCreation != 4 || u.Output != 5 {
			t.Errorf("%+v", u)
		}
		w := rawjson.Writer{}
		writeUsage(&w, &u)
		wants(t, string(w.Buf), `{"input_tokens":100,"input_tokens_details":{"cached_tokens":90,"cache_write_tokens":4},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":105}`)
	})
	t.Run("case_25", func(t *testing.T) { // reasoning of another provider is not sent
		r := decode(t, `{"model":"m","input":[{"role":"user","content":"x"},{"type":"reasoning","summary":[],"encrypted_content":"gAAAAx"},{"role":"assistant","content":"y"}]}`)
		wants(t, input(t, encode(t, r, target)), `
{"type":"message","role":"user","content":[{"type":"input_text","text":"x"}]}
{"type":"message","role":"assistant","content":[{"type":"output_text","text":"y"}]}`)
	})
	t.Run("case_31_CNV018", func(t *testing.T) { // empty texts go, and messages with them
		r := &ir.Request{Turns: []ir.Turn{{Blocks: []ir.Block{text(""), text("hi")}}, said(text(""), called("c1", "f", "")), results(gave("c1")), user("")}}
		wants(t, input(t, encode(t, r, target)), `
{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}
{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"}
{"type":"function_call_output","call_id":"c1","output":""}`)
	})
	t.Run("case_32_CNV025", func(t *testing.T) { // instructions in the middle stay there
		r := decode(t, `{"model":"m","input":[{"role":"developer","content":"first"},{"role":"user","content":"a"},{"role":"system","content":"note"},{"role":"user","content":"b"}]}`)
		if len(r.System) != 1 || len(r.Turns) != 3 || r.Turns[1].Role != ir.System {
			t.Fatalf("%+v", r)
		}
		out := encode(t, r, target)
		if got := stringOf(out.Body, "instructions"); got != "first" {
			t.Errorf("instructions %q", got)
		}
		wants(t, input(t, out), `
{"type":"message","role":"user","content":[{"type":"input_text","text":"a"}]}
{"type":"message","role":"developer","content":[{"type":"input_text","text":"note"}]}
{"type":"message","role":"user","content":[{"type":"input_text","text":"b"}]}`)
	})
	t.Run("case_36_case_37", func(t *testing.T) { // an image in a result is a part; what no one knows is a text
		r := &ir.Request{Turns: []ir.Turn{
			said(called("c1", "f", "{}"), called("c2", "g", "{}")),
			results(gave("c1", text("see"), ir.Block{Kind: ir.Image, Media: ir.Media{MIME: "image/png", Data: "aGk="}}),
				gave("c2", ir.Block{Kind: ir.Opaque, Type: "tool_reference", Raw: []byte(`{"type":"tool_reference","tool_name":"x"}`)})),
		}}
		wants(t, input(t, encode(t, r, target)), `
{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"}
{"type":"function_call","call_id":"c2","name":"g","arguments":"{}"}
{"type":"function_call_output","call_id":"c1","output":[{"type":"input_text","text":"see"},{"type":"input_image","image_url":"data:image/png;base64,aGk=","detail":"auto"}]}
{"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"{\"type\":\"tool_reference\",\"tool_name\":\"x\"}"}]}`)
	})
	t.Run("case_41_CNV015", func(t *testing.T) { // results without calls, calls without results
		r := &ir.Request{Turns: []ir.Turn{said(called("t1", "f", "{}")), {Blocks: []ir.Block{gave("gone", text("old")), text("go on")}}, said(called("t2", "f", "{}"))}}
		wants(t, input(t, encode(t, r, target)), `
{"type":"function_call","call_id":"t1","name":"f","arguments":"{}"}
{"type":"function_call_output","call_id":"t1","output":"[tool error] [no result recorded]"}
{"type":"message","role":"user","content":[{"type":"input_text","text":"[result of a tool call that is not recorded]"},{"type":"input_text","text":"old"},{"type":"input_text","text":"go on"}]}
{"type":"function_call","call_id":"t2","name":"f","arguments":"{}"}`)
	})
	t.Run("case_42_CNV008", func(t *testing.T) { // one map of ids for both sides; ids that are missing
		long := strings.Repeat("x", 70)
		r := &ir.Request{Turns: []ir.Turn{
			said(called("functions.read:0", "f", "{}"), called("", "g", "{}"), called(long, "h", "{}")),
			results(gave("", text("G")), gave("functions.read:0", text("F")), gave(long, text("H"))),
		}}
		got := input(t, encode(t, r, target))
		a, b := nameRule().Fit("functions.read:0"), nameRule().Fit(long)
		if len(a) > 64 || len(b) != 64 {
			t.Fatalf("%q %q", a, b)
		}
		wants(t, got, strings.NewReplacer("AAA", a, "BBB", b).Replace(`
{"type":"function_call","call_id":"AAA","name":"f","arguments":"{}"}
{"type":"function_call","call_id":"call_0_1","name":"g","arguments":"{}"}
{"type":"function_call","call_id":"BBB","name":"h","arguments":"{}"}
{"type":"function_call_output","call_id":"AAA","output":"F"}
{"type":"function_call_output","call_id":"call_0_1","output":"G"}
{"type":"function_call_output","call_id":"BBB","output":"H"}`))
		if again := input(t, encode(t, r, target)); again != got {
			t.Error("other ids the second time")
		}
	})
	t.Run("case_43", func(t *testing.T) {
		if _, err := decodeRequest(ir.Incoming{Body: []byte(`{"input":[{"type":"item_reference","id":"rs_1"}]}`)}); err == nil {
			t.Error("not refused")
		}
		r := decode(t, `{"input":[{"type":"reasoning","id":"rs_1","summary":[]},{"type":"message","id":"msg_1","role":"assistant","content":"x"}]}`)
		if got := input(t, encode(t, r, target)); strings.Contains(got, "_1") {
			t.Errorf("ids of stored items are sent: %s", got)
		}
	})
	t.Run("case_44", func(t *testing.T) {
		r := decode(t, `{"model":"m","input":"hi"}`)
		wants(t, input(t, encode(t, r, target)), `{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}`)
	})
	t.Run("case_45", func(t *testing.T) {
		r := decode(t, string(read(t, "requests/additional_tools.json")))
		if len(r.Tools) != 2 || r.Tools[0].ToolName != (ir.ToolName{Namespace: "functions", Name: "exec"}) || len(r.System) != 1 || len(r.Turns) != 3 {
			t.Errorf("%+v", r)
		}
	})
	t.Run("case_46", func(t *testing.T) { // a free-text tool over an upstream that has functions alone
		r := decode(t, `{"model":"m","input":"x","tools":[{"type":"custom","name":"apply_patch"}]}`)
		book := ir.NewToolBook(r, nameRule())
		out, _ := encoded(t, bridged([]ir.Event{
			{Kind: ir.EventStart},
			{Kind: ir.EventBlock, Start: &ir.Block{Kind: ir.ToolCall, ID: "c1", ToolName: ir.ToolName{Name: "apply_patch"}}},
			{Kind: ir.EventDelta, Text: `{"inp`}, {Kind: ir.EventDelta, Text: `ut":"*** \"Begin\"\n"}`}, {Kind: ir.EventClose},
			{Kind: ir.EventFinish, Stop: ir.Stop{Reason: ir.StopEnd}}, {Kind: ir.EventEnd},
		}, book))
		last := validate(t, out)
		wants(t, string(rawjson.Get(last, "output")), `[{"id":"ctc_5eed_0","type":"custom_tool_call","call_id":"c1","name":"apply_patch","input":"*** \"Begin\"\n","status":"completed"}]`)
	})
	t.Run("case_47_case_48_case_49", func(t *testing.T) { // an upstream that dies after content
		out, _ := encoded(t, bridged([]ir.Event{
			{Kind: ir.EventStart}, {Kind: ir.EventBlock, Start: &ir.Block{Kind: ir.Text}}, {Kind: ir.EventDelta, Text: "par"},
			{Kind: ir.EventFault, Fault: &ir.Fault{Kind: ir.KindAPI, Message: "gone"}}, {Kind: ir.EventEnd},
		}, nil))
		last := validate(t, out)
		if got := string(rawjson.Get(last, "error")); got != `{"code":"server_error","message":"gone"}` {
			t.Error(got)
		}
	})
	t.Run("case_52", func(t *testing.T) { // a name that is too long
		long := strings.Repeat("n", 70)
		r := &ir.Request{
			Turns: []ir.Turn{user("x"), said(called("c1", long, "{}")), results(gave("c1", text("y")))},
			Tools: []ir.Tool{{ToolName: ir.ToolName{Name: long}}}, Choice: ir.Choice{Mode: ir.ChoiceOne, Names: []ir.ToolName{{Name: long}}},
		}
		out := encode(t, r, target)
		short := out.Tools.Wire(ir.ToolName{Name: long})
		if len(short) != 64 || strings.Count(string(out.Body), `"name":"`+short+`"`) != 3 {
			t.Errorf("%s", out.Body)
		}
		b := called("c", short, "")
		if out.Tools.Restore(&b); b.Name != long {
			t.Errorf("restored %q", b.Name)
		}
	})
	t.Run("case_56", func(t *testing.T) {
		r := decode(t, `{"input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/jpg;name=a;base64,aGk="},{"type":"input_image","image_url":"https://x.test/a"}]}]}`)
		if m := r.Turns[0].Blocks[0].Media; m.MIME != "image/jpeg" || m.Data != "aGk=" {
			t.Errorf("%+v", m)
		}
		if m := r.Turns[0].Blocks[1].Media; m.URL != "https://x.test/a" {
			t.Errorf("%+v", m)
		}
	})
	t.Run("case_59", func(t *testing.T) { // tools without type or parameters
		r := decode(t, `{"input":"x","tools":[{"name":"f","parameters":null},{"type":"image_generation"}]}`)
		if r.Tools[0].Kind != ir.ToolFunction || r.Tools[0].Schema != nil || r.Tools[1].Kind != ir.ToolHosted {
			t.Errorf("%+v", r.Tools)
		}
	})
	t.Run("case_60_CNV013_CNV011", func(t *testing.T) { // a text before the results of its message
		r := &ir.Request{Turns: []ir.Turn{said(called("c1", "f", "{}"), called("c2", "f", "{}")), {Blocks: []ir.Block{text("note"), gave("c2", text("2"))}}, results(gave("c1", text("1")))}}
		wants(t, input(t, encode(t, r, target)), `
{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"}
{"type":"function_call","call_id":"c2","name":"f","arguments":"{}"}
{"type":"function_call_output","call_id":"c1","output":"1"}
{"type":"function_call_output","call_id":"c2","output":"2"}
{"type":"message","role":"user","content":[{"type":"input_text","text":"note"}]}`)
	})
}

// TestCNV010SameNameResultsMixed: without ids, results go by name and order, and the ids are the same each time.
func TestCNV010SameNameResultsMixed(t *testing.T) {
	named := func(name, s string) ir.Block {
		b := gave("", text(s))
		b.Name = name
		return b
	}
	r := &ir.Request{Turns: []ir.Turn{
		said(called("", "f", "1"), called("", "g", "1"), called("", "f", "2")),
		results(named("f", "A"), named("f", "B"), named("g", "C")),
	}}
	want := `
{"type":"function_call","call_id":"call_0_0","name":"f","arguments":"1"}
{"type":"function_call","call_id":"call_0_1","name":"g","arguments":"1"}
{"type":"function_call","call_id":"call_0_2","name":"f","arguments":"2"}
{"type":"function_call_output","call_id":"call_0_0","output":"A"}
{"type":"function_call_output","call_id":"call_0_1","output":"C"}
{"type":"function_call_output","call_id":"call_0_2","output":"B"}`
	for range 2 {
		wants(t, input(t, encode(t, r, ir.Target{Model: "m"})), want)
	}
}

// TestRepeatedIDs: an id that is used again is another call; of several results the last counts.
func TestRepeatedIDs(t *testing.T) {
	r := &ir.Request{Turns: []ir.Turn{
		said(called("c", "f", "{}")), results(gave("c", text("old")), gave("c", text("1"))),
		said(called("c", "f", "{}")), results(gave("c", text("2"))),
	}}
	wants(t, input(t, encode(t, r, ir.Target{Model: "m"})), `
{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}
{"type":"function_call_output","call_id":"c","output":"1"}
{"type":"function_call","call_id":"c_2","name":"f","arguments":"{}"}
{"type":"function_call_output","call_id":"c_2","output":"2"}`)
}

func TestCNV014ResultInAssistant(t *testing.T) {
	r := &ir.Request{Turns: []ir.Turn{said(called("t1", "f", "{}"), gave("t1", text("r"))), user("next")}}
	wants(t, input(t, encode(t, r, ir.Target{Model: "m"})), `
{"type":"function_call","call_id":"t1","name":"f","arguments":"{}"}
{"type":"function_call_output","call_id":"t1","output":"r"}
{"type":"message","role":"user","content":[{"type":"input_text","text":"next"}]}`)
}

func TestCNV017EmptyAssistantBeforeCall(t *testing.T) {
	r := &ir.Request{Turns: []ir.Turn{user("x"), said(text(""), called("t1", "f", "{}")), results(gave("t1", text("r")))}}
	if got := input(t, encode(t, r, ir.Target{Model: "m"})); strings.Contains(got, `"assistant"`) {
		t.Error(got)
	}
}

func TestCNV027RoleAlternation(t *testing.T) {
	r := decode(t, `{"input":[{"type":"reasoning","summary":[{"type":"summary_text","text":"t"}],"encrypted_content":"`+ir.Seal(ir.State{Owner: "up", Data: "d"})+`"},
		{"role":"assistant","content":"a"},{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},{"type":"function_call","call_id":"c2","name":"f","arguments":"{}"},
		{"type":"function_call_output","call_id":"c1","output":"1"},{"type":"function_call_output","call_id":"c2","output":"2"},
		{"role":"user","content":"a"},{"role":"user","content":"b"},{"role":"assistant","content":"x"},{"role":"assistant","content":"y"}]}`)
	shape := ""
	for _, turn := range r.Turns {
		shape += map[ir.Role]string{ir.User: "u", ir.Assistant: "a"}[turn.Role]
		for range turn.Blocks {
			shape += "."
		}
	}
	if shape != "a....u..u.u.a.." {
		t.Error(shape)
	}
}

func TestCNV024SystemShapes(t *testing.T) {
	for body, want := range map[string]string{
		`{"input":"x","instructions":"abc"}`: "abc",
		`{"instructions":"a","input":[{"role":"system","content":[{"type":"input_text","text":"b"}]},{"role":"user","content":"x"}]}`: "a\n\nb",
	} {
		if got := stringOf(encode(t, decode(t, body), ir.Target{Model: "m"}).Body, "instructions"); got != want {
			t.Errorf("%s: %q", body, got)
		}
	}
	only := decode(t, `{"instructions":"a","input":[]}`)
	wants(t, input(t, encode(t, only, ir.Target{Model: "m"})), `{"type":"message","role":"developer","content":[{"type":"input_text","text":"a"}]}`)
}

func TestCNV029ResultWithoutContent(t *testing.T) {
	for _, output := range []string{`"call_id":"c"`, `"call_id":"c","output":null`, `"call_id":"c","output":[]`, `"call_id":"c","output":""`} {
		r := decode(t, `{"input":[{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output",`+output+`}]}`)
		if got := input(t, encode(t, r, ir.Target{Model: "m"})); !strings.HasSuffix(got, `{"type":"function_call_output","call_id":"c","output":""}`) {
			t.Errorf("%s: %s", output, got)
		}
	}
}

func TestCNV034PhantomToolStop(t *testing.T) {
	out, _ := encoded(t, bridged([]ir.Event{
		{Kind: ir.EventStart}, {Kind: ir.EventBlock, Start: &ir.Block{Kind: ir.Text}}, {Kind: ir.EventDelta, Text: "x"}, {Kind: ir.EventClose},
		{Kind: ir.EventFinish, Stop: ir.Stop{Reason: ir.StopTool}}, {Kind: ir.EventEnd},
	}, nil))
	if status := stringOf(validate(t, out), "status"); status != "completed" {
		t.Error(status)
	}
}

// TestCNV036HalfCall: what was cut is not told as done before it is known to be cut.
func TestCNV036HalfCall(t *testing.T) {
	for _, form := range []string{"", ir.FormCustom, "local_shell"} {
		out, _ := encoded(t, []ir.Event{
			{Kind: ir.EventStart}, {Kind: ir.EventBlock, Start: &ir.Block{Kind: ir.ToolCall, ID: "c", ToolName: ir.ToolName{Name: "f"}, Form: form}},
			{Kind: ir.EventDelta, Text: `{"path":"/a`}, {Kind: ir.EventClose},
			{Kind: ir.EventFinish, Stop: ir.Stop{Reason: ir.StopLength}}, {Kind: ir.EventEnd},
		})
		last := validate(t, out)
		if !strings.Contains(string(rawjson.Get(last, "output")), `"status":"incomplete"`) || stringOf(last, "status") != "incomplete" || strings.Contains(out, `"status":"completed"`) {
			t.Errorf("%q: %s", form, out)
		}
	}
}

func TestCNV037CallWithoutID(t *testing.T) {
	out, _ := encoded(t, bridged([]ir.Event{
		{Kind: ir.EventStart}, {Kind: ir.EventBlock, Start: &ir.Block{Kind: ir.ToolCall, ToolName: ir.ToolName{Name: "ls"}}},
		{Kind: ir.EventDelta, Text: "{}"}, {Kind: ir.EventClose}, {Kind: ir.EventEnd},
	}, nil))
	if last := validate(t, out); !strings.Contains(string(last), `"call_id":"call_5eed_0"`) {
		t.Errorf("%s", last)
	}
}

// TestCNV041NumbersChange and the order of keys (CNV042): the text of schemas, arguments and figures is as it was.
func TestCNV041NumbersChange(t *testing.T) {
	r := decode(t, `{"model":"m","top_p":0.95,"temperature":1.10,"instructions":"<a&b>","input":[{"type":"function_call","call_id":"c","name":"f","arguments":"{\"id\":9007199254740993,\"n\":1.10,\"big\":1e22}"}],
		"tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{"z":{"maximum":1e22},"a":{"default":1.10}}}}]}`)
	a, b := encode(t, r, ir.Target{Model: "m"}), encode(t, r, ir.Target{Model: "m"})
	for _, want := range []string{`"top_p":0.95`, `"temperature":1.10`, `<a&b>`, `{\"id\":9007199254740993,\"n\":1.10,\"big\":1e22}`, `{"z":{"maximum":1e22},"a":{"default":1.10}}`} {
		if !strings.Contains(string(a.Body), want) {
			t.Errorf("no %s in %s", want, a.Body)
		}
	}
	if string(a.Body) != string(b.Body) {
		t.Error("not the same twice")
	}
}

// TestUSE005GeminiThoughts: the usage that a Gemini upstream gives, for a client of this dialect.
func TestUSE005GeminiThoughts(t *testing.T) {
	w := rawjson.Writer{}
	writeUsage(&w, &ir.Usage{Input: 30, CacheRead: 20, Output: 207, Reasoning: 200, Known: 31})
	wants(t, string(w.Buf), `{"input_tokens":50,"input_tokens_details":{"cached_tokens":20,"cache_write_tokens":0},"output_tokens":207,"output_tokens_details":{"reasoning_tokens":200},"total_tokens":257}`)
}

// TestUSE010LateUsage and SSE030, SSE031: usage behind the finish is in the last event; a finish that never came is none.
func TestUSE010LateUsage(t *testing.T) {
	usage := ir.Event{Kind: ir.EventUsage, Usage: ir.Usage{Input: 3, Output: 2, Known: ir.UsageInput | ir.UsageOutput}}
	head := []ir.Event{{Kind: ir.EventStart}, {Kind: ir.EventBlock, Start: &ir.Block{Kind: ir.Text}}, {Kind: ir.EventDelta, Text: "x"}}
	out, _ := encoded(t, bridged(append(head, ir.Event{Kind: ir.EventFinish, Stop: ir.Stop{Reason: ir.StopEnd}}, usage, ir.Event{Kind: ir.EventEnd}), nil))
	if last := validate(t, out); !strings.Contains(string(last), `"total_tokens":5`) {
		t.Errorf("%s", last)
	}
	out, _ = encoded(t, bridged(append(head[:3:3], ir.Event{Kind: ir.EventEnd}), nil))
	if stringOf(validate(t, out), "status") != "completed" {
		t.Error(out)
	}
}

// TestSSE009LineSeparator: U+2028 is a letter like others.
func TestSSE009LineSeparator(t *testing.T) {
	frames := framesOf([]byte("data: {\"type\":\"response.completed\",\"response\":{\"id\":\"r1\",\"note\":\"a\u2028b\",\"usage\":{\"input_tokens\":3,\"output_tokens\":2}}}\n\n"))
	if len(frames) != 1 || !strings.Contains(show(decodeFrames(frames, "up")), "Input:3 Output:2") {
		t.Errorf("%q", frames)
	}
}
