package openaichat

import (
	"fmt"
	"strings"
	"testing"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// outline is the messages of a body in short: "user:text", "assistant:text+call(id,name,args)", "tool(id):text".
func outline(t testing.TB, body []byte) string {
	t.Helper()
	var lines []string
	err := rawjson.Elements(rawjson.Get(body, "messages"), func(_ int, m []byte) error {
		role, _ := rawjson.String(rawjson.Get(m, "role"))
		line := role
		if id, ok := rawjson.String(rawjson.Get(m, "tool_call_id")); ok {
			line += "(" + id + ")"
		}
		line += ":"
		content := rawjson.Get(m, "content")
		switch {
		case isString(content):
			s, _ := rawjson.String(content)
			line += s
		case isArray(content):
			_ = rawjson.Elements(content, func(i int, p []byte) error {
				if i > 0 {
					line += "|"
				}
				if s, ok := rawjson.String(rawjson.Get(p, "text")); ok {
					line += s
				} else {
					s, _ := rawjson.String(rawjson.Get(p, "type"))
					line += "<" + s + ">"
				}
				return nil
			})
		}
		if s, ok := rawjson.String(rawjson.Get(m, "reasoning_content")); ok {
			line += fmt.Sprintf("+reasoning(%s)", s)
		}
		if calls := rawjson.Get(m, "tool_calls"); calls != nil {
			_ = rawjson.Elements(calls, func(_ int, c []byte) error {
				id, _ := rawjson.String(rawjson.Get(c, "id"))
				f := rawjson.Get(c, "function")
				name, _ := rawjson.String(rawjson.Get(f, "name"))
				args, _ := rawjson.String(rawjson.Get(f, "arguments"))
				line += "+call(" + id + "," + name + "," + args + ")"
				return nil
			})
		}
		lines = append(lines, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

func thinking(text string, s *ir.State) ir.Block {
	return ir.Block{Kind: ir.Thinking, Text: text, State: s}
}

var png = ir.Block{Kind: ir.Image, Media: ir.Media{MIME: "image/png", Data: "iVBORw=="}}

// TestHistory: what is repaired and moved on the way to an upstream. The names are those of facts/protocols.md, section 6,
// and of shared/faults.
func TestHistory(t *testing.T) {
	failed := resultOf("c", txt("boom"))
	failed.IsError = true
	failedImage := resultOf("c", png)
	failedImage.IsError = true
	reference := ir.Block{Kind: ir.Opaque, Type: "tool_reference", Raw: []byte(`{"type":"tool_reference","tool_name":"Read"}`)}
	custom := callOf("c", "patch", "*** Begin")
	custom.Form = ir.FormCustom
	for _, c := range []struct {
		name  string
		turns []ir.Turn
		want  string
	}{
		{"case_31_CNV018_empty_text", []ir.Turn{said1(ir.User, txt(""), txt("hi")), said1(ir.Assistant, txt("")), said1(ir.Assistant, txt(""), callOf("c", "f", "{}")), said1(ir.User, resultOf("c", txt("")))},
			"user:hi\nassistant:+call(c,f,{})\ntool(c):"},
		{"case_32_CNV025_system_in_place", []ir.Turn{said1(ir.User, txt("a")), said1(ir.System, txt("note")), said1(ir.Developer, txt("dev")), said1(ir.User, txt("b"))},
			"user:a\nsystem:note\nsystem:dev\nuser:b"},
		{"case_36_image_in_result", []ir.Turn{said1(ir.Assistant, callOf("c", "f", "{}"), callOf("d", "g", "")), said1(ir.User, resultOf("c", txt("see"), png), resultOf("d", txt("ok")), txt("next"))},
			"assistant:+call(c,f,{})+call(d,g,{})\ntool(c):see\ntool(d):ok\nuser:[from the result of tool call c]|<image_url>\nuser:next"},
		{"case_37_unknown_in_result", []ir.Turn{said1(ir.Assistant, callOf("c", "f", "{}")), said1(ir.User, resultOf("c", reference))},
			"assistant:+call(c,f,{})\ntool(c):" + `{"type":"tool_reference","tool_name":"Read"}`},
		{"case_38_CNV011_parallel_results", []ir.Turn{said1(ir.Assistant, callOf("a", "f", "{}"), callOf("b", "f", "{}")), said1(ir.User, resultOf("b", txt("2"))), said1(ir.User, resultOf("a", txt("1")))},
			"assistant:+call(a,f,{})+call(b,f,{})\ntool(a):1\ntool(b):2"},
		{"case_41_orphans", []ir.Turn{said1(ir.User, resultOf("gone", txt("r"), png), txt("u")), said1(ir.Assistant, callOf("c", "f", "{}")), said1(ir.User, txt("go on"))},
			"user:[result of tool call gone]|r|<image_url>|u\nassistant:+call(c,f,{})\ntool(c):[tool error] [no result recorded]\nuser:go on"},
		{"CNV015_last_turn_waits", []ir.Turn{said1(ir.User, txt("x")), said1(ir.Assistant, callOf("c", "f", "{}"))}, "user:x\nassistant:+call(c,f,{})"},
		{"duplicate_results", []ir.Turn{said1(ir.Assistant, callOf("c", "f", "{}")), said1(ir.User, resultOf("c", txt("old")), resultOf("c", txt("new")))},
			"assistant:+call(c,f,{})\ntool(c):new"},
		{"same_id_in_two_turns", []ir.Turn{said1(ir.Assistant, callOf("c", "f", "1")), said1(ir.User, resultOf("c", txt("one"))), said1(ir.Assistant, callOf("c", "f", "2")), said1(ir.User, resultOf("c", txt("two")))},
			"assistant:+call(c,f,1)\ntool(c):one\nassistant:+call(c_2,f,2)\ntool(c_2):two"},
		{"same_id_in_one_turn", []ir.Turn{said1(ir.Assistant, callOf("c", "f", "1"), callOf("c", "f", "2")), said1(ir.User, resultOf("c", txt("one")), resultOf("c", txt("two")))},
			"assistant:+call(c,f,1)+call(c_2,f,2)\ntool(c):one\ntool(c_2):two"},
		{"case_42_CNV008_empty_ids", []ir.Turn{said1(ir.Assistant, callOf("", "f", "{}"), callOf("functions.read:0", "g", "{}")), said1(ir.User, resultOf("functions.read:0", txt("g")), resultOf("", txt("f")))},
			"assistant:+call(call_0_0,f,{})+call(functions.read:0,g,{})\ntool(call_0_0):f\ntool(functions.read:0):g"},
		{"CNV014_result_in_assistant", []ir.Turn{said1(ir.Assistant, callOf("c", "f", "{}"), resultOf("c", txt("r")), resultOf("z", txt("lost"))), said1(ir.User, txt("u"))},
			"assistant:+call(c,f,{})\ntool(c):r\nuser:[result of tool call z]|lost\nuser:u"},
		{"CNV012_text_after_call", []ir.Turn{said1(ir.Assistant, txt("a"), callOf("c", "f", "{}"), txt("b")), said1(ir.User, resultOf("c", txt("r")))},
			"assistant:a|b+call(c,f,{})\ntool(c):r"},
		{"case_60_reminder_before_result", []ir.Turn{said1(ir.Assistant, callOf("c", "f", "{}")), said1(ir.User, txt("note"), resultOf("c", txt("r")))},
			"assistant:+call(c,f,{})\ntool(c):r\nuser:note"},
		{"CNV013_system_between", []ir.Turn{said1(ir.Assistant, callOf("c", "f", "{}")), said1(ir.System, txt("s")), said1(ir.User, resultOf("c", txt("r")))},
			"assistant:+call(c,f,{})\ntool(c):r\nsystem:s"},
		{"CNV017_empty_before_call", []ir.Turn{said1(ir.Assistant, txt(""), callOf("c", "f", "{}")), said1(ir.User, resultOf("c", txt("r")))}, "assistant:+call(c,f,{})\ntool(c):r"},
		{"CNV029_no_content", []ir.Turn{said1(ir.Assistant, callOf("c", "f", "{}")), said1(ir.User, resultOf("c"))}, "assistant:+call(c,f,{})\ntool(c):"},
		{"CNV041_numbers", []ir.Turn{said1(ir.Assistant, callOf("c", "f", `{"id": 9007199254740993,"n":1.10,"big":1e22}`)), said1(ir.User, resultOf("c", txt("r")))},
			`assistant:+call(c,f,{"id": 9007199254740993,"n":1.10,"big":1e22})` + "\ntool(c):r"},
		{"is_error", []ir.Turn{said1(ir.Assistant, callOf("c", "f", "{}")), said1(ir.User, failed)}, "assistant:+call(c,f,{})\ntool(c):[tool error] boom"},
		{"is_error_image", []ir.Turn{said1(ir.Assistant, callOf("c", "f", "{}")), said1(ir.User, failedImage)},
			"assistant:+call(c,f,{})\ntool(c):[tool error] \nuser:[from the result of tool call c]|<image_url>"},
		{"case_46_custom_wrapped", []ir.Turn{said1(ir.Assistant, custom), said1(ir.User, resultOf("c", txt("ok")))}, `assistant:+call(c,patch,{"input":"*** Begin"})` + "\ntool(c):ok"},
		{"call_of_a_user", []ir.Turn{said1(ir.User, callOf("c", "f", "{}")), said1(ir.User, resultOf("c", txt("r")))}, "user:[tool call f] {}|[result of tool call c]|r"},
		{"image_of_the_model", []ir.Turn{said1(ir.Assistant, txt("see"), png), said1(ir.User, txt("u"))}, "assistant:see\nuser:[from the assistant's answer]|<image_url>\nuser:u"},
		{"thinking_only", []ir.Turn{said1(ir.User, txt("x")), said1(ir.Assistant, thinking("hm", nil)), said1(ir.User, txt("y"))}, "user:x\nuser:y"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := encoded(t, ask(c.turns...), "llama-4")
			if got := outline(t, out.Body); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			if again := outline(t, encoded(t, decoded(t, string(out.Body)), "llama-4").Body); again != c.want && c.name != "is_error_image" {
				t.Errorf("the second trip gives\n%s\nwant\n%s", again, c.want)
			}
		})
	}
}

// TestHistoryReasoning: to whom the reasoning of earlier turns goes.
func TestHistoryReasoning(t *testing.T) {
	own, foreign := &ir.State{Owner: "us", Data: ""}, &ir.State{Owner: "them", Data: "SIG"}
	unsigned := &ir.State{Owner: "them"}
	result := said1(ir.User, resultOf("c", txt("r")))
	call := callOf("c", "f", "{}")
	const tail = "+call(c,f,{})\ntool(c):r"
	for _, c := range []struct {
		name, model string
		first       ir.Turn
		want        string
		lost        []string
	}{
		{"own", "some", said1(ir.Assistant, thinking("hm", own), call), "assistant:+reasoning(hm)" + tail, nil},
		{"own without call", "some", said1(ir.Assistant, thinking("hm", own), txt("a")), "assistant:a+reasoning(hm)", nil},
		{"case_25 foreign", "some", said1(ir.Assistant, thinking("hm", foreign), call), "assistant:" + tail, []string{"messages.thinking"}},
		{"no state", "some", said1(ir.Assistant, thinking("hm", nil), call), "assistant:" + tail, []string{"messages.thinking"}},
		{"case_30 foreign to DeepSeek", "deepseek-chat", said1(ir.Assistant, thinking("hm", foreign), call), "assistant:+reasoning(hm)" + tail, []string{"messages.thinking"}},
		{"unsigned to Kimi", "kimi-k2", said1(ir.Assistant, thinking("hm", unsigned), thinking("mm", nil), call), "assistant:+reasoning(hm\n\nmm)" + tail, nil},
		{"case_30 none to DeepSeek", "deepseek-chat", said1(ir.Assistant, call), "assistant:+reasoning( )" + tail, nil},
		{"none to GLM", "glm-4.6", said1(ir.Assistant, call), "assistant:" + tail, nil},
		{"without call to DeepSeek", "deepseek-chat", said1(ir.Assistant, thinking("hm", nil), txt("a")), "assistant:a", []string{"messages.thinking"}},
		{"own at OpenAI", "gpt-5", said1(ir.Assistant, thinking("hm", own), call), "assistant:" + tail, []string{"messages.thinking"}},
		{"case_28 redacted", "deepseek-chat", said1(ir.Assistant, thinking("", &ir.State{Owner: "them", Data: "R", Redacted: true}), call), "assistant:+reasoning( )" + tail, []string{"messages.thinking"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			turns := []ir.Turn{c.first}
			if strings.Contains(c.want, "call(") {
				turns = append(turns, result)
			}
			out := encoded(t, ask(turns...), c.model)
			if got := outline(t, out.Body); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			lostIs(t, out, c.lost...)
		})
	}
}

// TestStatesComeBack: case_29 and 2.5, what a Chat upstream gave opaque goes back to it, and to it alone, in its own form.
func TestStatesComeBack(t *testing.T) {
	all := streams(t)
	for _, c := range []struct {
		stream string
		want   map[string]string
	}{
		{"gemini_signature", map[string]string{"tool_calls.0.extra_content": `{"google":{"thought_signature":"GSIG"}}`}},
		{"copilot_reasoning", map[string]string{"reasoning_text": `"think"`, "reasoning_opaque": `"OPAQUE=="`, "reasoning_content": ""}},
		{"reasoning_details", map[string]string{"reasoning": `"step"`, "reasoning_details": `[{"text":"step","type":"reasoning.text","signature":"SIG","format":"anthropic-claude-v1","index":0}]`}},
		{"reasoning_encrypted", map[string]string{"reasoning_details": `[{"type":"reasoning.encrypted","data":"ENC","id":"c1","format":"google-gemini-v1","index":0}]`}},
		{"thinking_tool", map[string]string{"reasoning_content": `"hm"`}},
	} {
		a, _ := folded(t, eventsOf(all[c.stream]), nil)
		r := ask(ir.Turn{Role: ir.Assistant, Blocks: a.Blocks})
		for owner, mine := range map[string]bool{"up": true, "other": false} {
			out, err := encodeRequest(r, ir.Target{Model: "some-model", Owner: owner})
			if err != nil {
				t.Fatal(err)
			}
			message := []byte(member(out.Body, "messages.0"))
			for path, want := range c.want {
				if !mine {
					want = ""
				}
				if got := member(message, path); got != want {
					t.Errorf("%s for %s: %s is %s, want %s", c.stream, owner, path, got, want)
				}
			}
			if lost := len(out.Lost) > 0; lost == mine {
				t.Errorf("%s for %s: lost %q", c.stream, owner, out.Lost)
			}
		}
	}
}

// TestCase50: DeepSeek refuses a forced call while it thinks.
func TestCase50(t *testing.T) {
	r := hello()
	r.Tools = []ir.Tool{fn("f")}
	for _, choice := range []ir.Choice{{Mode: ir.ChoiceRequired}, {Mode: ir.ChoiceOne, Names: []ir.ToolName{{Name: "f"}}}} {
		r.Choice = choice
		r.Reasoning.Mode = ir.ReasoningUnset
		out := encoded(t, r, "deepseek-chat")
		expect(t, out.Body, map[string]string{"tool_choice": `"auto"`})
		lostIs(t, out, "tool_choice")
		r.Reasoning.Mode = ir.ReasoningOff
		out = encoded(t, r, "deepseek-chat")
		lostIs(t, out)
		if got := member(out.Body, "tool_choice"); got == `"auto"` {
			t.Error("downgraded without need")
		}
	}
}

// TestCase52: a long tool name has a short form in definitions, history and choice, which answers restore.
func TestCase52(t *testing.T) {
	long := strings.Repeat("n", 70)
	r := ask(said1(ir.Assistant, callOf("c", long, "{}")), said1(ir.User, resultOf("c", txt("r"))))
	r.Tools = []ir.Tool{fn(long), {ToolName: ir.ToolName{Namespace: "ns", Name: "a.b"}}}
	r.Choice = ir.Choice{Mode: ir.ChoiceOne, Names: []ir.ToolName{{Name: long}}}
	out := encoded(t, r, "gpt-4.1")
	short := member(out.Body, "tools.0.function.name")
	if len(short) > 66 || short != member(out.Body, "messages.0.tool_calls.0.function.name") || short != member(out.Body, "tool_choice.function.name") {
		t.Errorf("%s", out.Body)
	}
	b := ir.Block{Kind: ir.ToolCall, ToolName: ir.ToolName{Name: strings.Trim(short, `"`)}}
	if out.Tools.Restore(&b); b.Name != long {
		t.Errorf("restored to %q", b.Name)
	}
}

// TestErrorMark: the mark comes off again, and only where it was put.
func TestErrorMark(t *testing.T) {
	for content, want := range map[string]ir.Block{
		`"[tool error] boom"`: {IsError: true, Content: []ir.Block{{Kind: ir.Text, Text: "boom"}}},
		`"[tool error] "`:     {IsError: true},
		`"tool error"`:        {Content: []ir.Block{{Kind: ir.Text, Text: "tool error"}}},
	} {
		r := decoded(t, `{"messages":[{"role":"tool","tool_call_id":"c","content":`+content+`}]}`)
		b := bareBlocks(r.Turns[0].Blocks)[0]
		if b.IsError != want.IsError || len(b.Content) != len(want.Content) || len(b.Content) > 0 && b.Content[0].Text != want.Content[0].Text {
			t.Errorf("%s: %+v", content, b)
		}
	}
}
