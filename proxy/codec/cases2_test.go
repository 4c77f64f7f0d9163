package codec_test

import (
	"strings"

	"coding-proxy/proxy/codec/codectest"
	"coding-proxy/proxy/ir"
)

func user(content string) string      { return `{"role":"user","content":` + content + `}` }
func assistant(content string) string { return `{"role":"assistant","content":` + content + `}` }

// anRequest is an Anthropic request with these messages; more is members before them.
func anRequest(more string, messages ...string) string {
	return `{"model":"m","max_tokens":5000,` + more + `"messages":[` + strings.Join(messages, ",") + `]}`
}

func chRequest(more string, messages ...string) string {
	return `{"model":"m",` + more + `"messages":[` + strings.Join(messages, ",") + `]}`
}

const readTool = `"tools":[{"name":"Read","input_schema":{"type":"object","properties":{"p":{"type":"string"}}}}],`

func historyCases() map[string]func(kit) {
	return map[string]func(kit){
		"25_foreign_signature": func(k kit) {
			sealed := ir.Seal(ir.State{Owner: "gemini/x", Data: "c2ln"})
			body := anRequest(readTool, user(`"go"`), assistant(`[{"type":"thinking","thinking":"secret thought","signature":"`+sealed+`"},{"type":"text","text":"A"}]`), user(`"on"`))
			out, err := k.tryRequest(an, an, opus, body, "anthropic/y")
			if err != nil {
				k.Fatal(err)
			}
			k.hasNot(string(out.Body), "secret thought", sealed)
			k.has(strings.Join(out.Lost, " "), "thinking")
			out, _ = k.tryRequest(ge, an, opus, `{"contents":[{"role":"user","parts":[{"text":"go"}]},{"role":"model","parts":[{"text":"secret thought","thought":true,"thoughtSignature":"`+sealed+`"},{"text":"A"}]},{"role":"user","parts":[{"text":"on"}]}]}`, "anthropic/y")
			k.hasNot(string(out.Body), "secret thought", sealed)
		},
		"26_no_placeholder_to_claude": func(k kit) {
			body := anRequest(readTool, user(`"go"`), assistant(`[{"type":"tool_use","id":"t1","name":"Read","input":{}}]`), user(`[{"type":"tool_result","tool_use_id":"t1","content":"x"}]`))
			out, _ := k.request(an, ge, "claude-opus-4-6-thinking", body)
			k.hasNot(string(out.Body), "skip_thought_signature_validator")
			out, _ = k.request(an, ge, "gemini-3.1-pro-preview", body)
			k.has(string(out.Body), "skip_thought_signature_validator")
		},
		"28_no_thinking_without_its_block": func(k kit) {
			out, n := k.request(ch, an, sonnet, chRequest(`"reasoning_effort":"high","max_tokens":30000,"tools":[{"type":"function","function":{"name":"Read","parameters":{"type":"object"}}}],`,
				user(`"go"`), `{"role":"assistant","content":null,"reasoning_content":"unsigned","tool_calls":[{"id":"c1","type":"function","function":{"name":"Read","arguments":"{}"}}]}`, `{"role":"tool","tool_call_id":"c1","content":"x"}`))
			k.hasNot(string(out.Body), "unsigned", `"budget_tokens"`)
			k.at(n, "thinking.type", `"disabled"`)
			k.has(strings.Join(out.Lost, " "), "reasoning_effort")
		},
		"29_signature_of_a_call": func(k kit) {
			wire := sse(`{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"f","args":{}},"thoughtSignature":"c2lnbmVk"}]},"finishReason":"STOP","index":0}],"responseId":"r"}`)
			c := codectest.NewConversion(dialect(k, ge), dialect(k, ch), codectest.Reply(), nil)
			frames, _ := codectest.Frames([]byte(wire))
			for _, f := range frames {
				c.Feed(f)
			}
			c.End()
			var call *ir.Block
			for _, e := range c.Told {
				if e.Start != nil && e.Start.Kind == ir.ToolCall {
					call = e.Start
				}
			}
			if call == nil || call.State == nil || call.State.Data != "c2lnbmVk" { // what the proxy remembers by the call's id
				k.Fatalf("%+v", call)
			}
			r, err := dialect(k, ch).DecodeRequest(ir.Incoming{Body: []byte(chRequest("", user(`"go"`), `{"role":"assistant","tool_calls":[{"id":"`+call.ID+`","type":"function","function":{"name":"f","arguments":"{}"}}]}`, `{"role":"tool","tool_call_id":"`+call.ID+`","content":"x"}`))})
			if err != nil {
				k.Fatal(err)
			}
			for i := range r.Turns {
				for j := range r.Turns[i].Blocks {
					if b := &r.Turns[i].Blocks[j]; b.Kind == ir.ToolCall && b.ID == call.ID {
						b.State = call.State
					}
				}
			}
			out, err := dialect(k, ge).EncodeRequest(r, target(flash))
			if err != nil {
				k.Fatal(err)
			}
			k.has(string(out.Body), `"thoughtSignature":"c2lnbmVk"`)
		},
		"31_empty_text": func(k kit) {
			_, n := k.request(ch, an, opus, chRequest(`"tools":[{"type":"function","function":{"name":"Read"}}],`, user(`"go"`),
				`{"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"Read","arguments":"{}"}}]}`, `{"role":"tool","tool_call_id":"c1","content":"x"}`, assistant(`""`), user(`"on"`)))
			k.at(n, "messages.1.content.0.type", `"tool_use"`)
			k.at(n, "messages.1.content.1", `null`)
			k.hasNot(n.String(), `"text":""`)
		},
		"32_system_message_within": func(k kit) {
			body := anRequest("", user(`"go"`), assistant(`"A"`), `{"role":"system","content":"be brief"}`, user(`"on"`))
			_, n := k.request(an, ch, gpt, body)
			k.at(n, "messages.2", `{"role":"developer","content":"be brief"}`)
			_, n = k.request(an, re, gpt, body)
			k.at(n, "input.2.role", `"developer"`)
			_, n = k.request(an, ge, flash, body)
			k.has(n.At("contents.2.parts.0.text").Str(), "be brief", "<system-reminder>")
			k.at(n, "systemInstruction", `null`)
		},
		"33_beta_fields_are_stripped": func(k kit) {
			body := anRequest(`"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral","scope":"global"}}],"context_management":{"edits":[]},"tools":[{"name":"Read","input_schema":{"type":"object"},"defer_loading":true,"input_examples":[{}]}],`, user(`"go"`))
			for to, model := range map[string]string{ch: "gpt-4.1", re: "gpt-4.1", ge: flash} {
				out, _ := k.request(an, to, model, body)
				k.hasNot(string(out.Body), "cache_control", "scope", "context_management", "defer_loading", "input_examples", "ephemeral")
				k.has(strings.Join(out.Lost, " "), "cache_control", "context_management", "defer_loading", "input_examples")
			}
		},
	}
}

func resultCases() map[string]func(kit) {
	const image = `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}`
	called := func(results string) string {
		return anRequest(readTool, user(`"go"`), assistant(`[{"type":"tool_use","id":"t1","name":"Read","input":{}},{"type":"tool_use","id":"t2","name":"Read","input":{}}]`), user(`[`+results+`]`))
	}
	two := `{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"one"},` + image + `]},{"type":"tool_result","tool_use_id":"t2","content":"two"}`
	return map[string]func(kit){
		"36_image_in_a_result": func(k kit) {
			_, n := k.request(an, re, gpt, called(two))
			k.at(n, "input.3.output.0.type", `"input_text"`)
			k.at(n, "input.3.output.1.type", `"input_image"`)
			_, n = k.request(an, ch, gpt, called(two))
			k.at(n, "messages.2.role", `"tool"`)
			k.at(n, "messages.3.role", `"tool"`)
			k.at(n, "messages.4.role", `"user"`)
			k.has(n.At("messages.4").String(), "image_url")
			k.hasNot(n.At("messages.2").String(), "iVBOR")
		},
		"37_result_of_unknown_blocks": func(k kit) {
			body := called(`{"type":"tool_result","tool_use_id":"t1","content":[{"type":"tool_reference","tool_name":"mcp__x"}]},{"type":"tool_result","tool_use_id":"t2","content":"two"}`)
			_, n := k.request(an, ch, gpt, body)
			k.at(n, "messages.2.tool_call_id", `"t1"`)
			k.at(n, "messages.3.tool_call_id", `"t2"`)
			_, n = k.request(an, ge, flash, body)
			if got := len(n.At("contents.2.parts").List()); got != 2 {
				k.Errorf("%d parts: %s", got, n.At("contents.2"))
			}
		},
		"38_three_results_in_one_content": func(k kit) {
			call := func(id string) string {
				return `{"id":"` + id + `","type":"function","function":{"name":"Read","arguments":"{}"}}`
			}
			result := func(id string) string { return `{"role":"tool","tool_call_id":"` + id + `","content":"x"}` }
			_, n := k.request(ch, ge, flash, chRequest("", user(`"go"`), `{"role":"assistant","tool_calls":[`+call("a")+`,`+call("b")+`,`+call("c")+`]}`, result("a"), result("b"), result("c")))
			parts := n.At("contents.2.parts").List()
			if len(parts) != 3 || len(n.At("contents").List()) != 3 {
				k.Fatalf("%s", n)
			}
			for _, p := range parts {
				k.at(p, "functionResponse.name", `"Read"`)
			}
		},
		"39_name_of_a_response": func(k kit) {
			_, n := k.request(an, ge, flash, called(two))
			k.at(n, "contents.2.parts.0.functionResponse.name", `"Read"`)
			_, n = k.request(re, ge, flash, `{"model":"m","input":[{"role":"user","content":"go"},{"type":"function_call","call_id":"c","name":"Read","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"x"}]}`)
			k.at(n, "contents.2.parts.0.functionResponse.name", `"Read"`)
		},
		"40_image_beside_responses": func(k kit) {
			_, n := k.request(an, ge, "gemini-2.5-pro", called(two))
			for _, p := range n.At("contents.2.parts").List() {
				if !p.Has("functionResponse") {
					k.Errorf("%s", p)
				}
			}
			k.has(n.At("contents.3").String(), "inlineData")
		},
		"41_orphans": func(k kit) {
			body := `{"model":"m","input":[{"role":"user","content":"go"},{"type":"function_call_output","call_id":"gone","output":"orphan text"},{"type":"function_call","call_id":"c","name":"Read","arguments":"{}"},{"role":"user","content":"on"}]}`
			_, n := k.request(re, an, opus, body)
			k.hasNot(n.String(), `"gone"`)
			k.has(n.String(), "orphan text", "[no result recorded]")
			_, n = k.request(re, ch, gpt, body)
			k.has(n.String(), "orphan text", "[no result recorded]")
			_, n = k.request(re, ge, flash, body)
			k.has(n.String(), "orphan text", "[no result recorded]")
		},
		"42_ids_on_both_sides": func(k kit) {
			body := chRequest("", user(`"go"`), `{"role":"assistant","tool_calls":[{"id":"exec_command:0","type":"function","function":{"name":"Read","arguments":"{}"}}]}`, `{"role":"tool","tool_call_id":"exec_command:0","content":"x"}`)
			_, n := k.request(ch, an, opus, body)
			if id := n.At("messages.1.content.0.id"); id.String() != n.At("messages.2.content.0.tool_use_id").String() || strings.Contains(id.Str(), ":") || id.Str() == "" {
				k.Errorf("%s", n)
			}
			_, n = k.request(ch, re, gpt, body)
			if id := n.At("input.1.call_id"); id.String() != n.At("input.2.call_id").String() || strings.Contains(id.Str(), ":") || id.Str() == "" {
				k.Errorf("%s", n)
			}
		},
		"43_item_reference": func(k kit) {
			for to, model := range map[string]string{an: opus, ch: gpt, ge: flash} {
				out, err := k.tryRequest(re, to, model, `{"model":"m","input":[{"type":"item_reference","id":"rs_1"},{"role":"user","content":"go"}]}`, "")
				if err == nil {
					k.hasNot(string(out.Body), "rs_1")
				}
				k.refused(re, to, model, `{"model":"m","previous_response_id":"resp_1","input":"go"}`, "previous_response_id")
			}
		},
		"44_input_is_a_string": func(k kit) {
			_, n := k.request(re, an, opus, `{"model":"m","input":"hello"}`)
			k.at(n, "messages", `[{"role":"user","content":"hello"}]`)
			_, n = k.request(re, ch, gpt, `{"model":"m","input":"hello"}`)
			k.at(n, "messages", `[{"role":"user","content":"hello"}]`)
		},
		"45_additional_tools": func(k kit) {
			_, n := k.request(re, an, opus, `{"model":"m","input":[{"type":"additional_tools","role":"developer","tools":[{"type":"function","name":"extra","parameters":{"type":"object","properties":{}}}]},{"role":"user","content":"go"}]}`)
			k.at(n, "tools.0.name", `"extra"`)
			k.at(n, "messages.0.role", `"user"`)
			k.at(n, "messages.1", `null`)
		},
		"60_results_first": func(k kit) {
			body := called(`{"type":"text","text":"reminder"},{"type":"tool_result","tool_use_id":"t1","content":"one"},{"type":"tool_result","tool_use_id":"t2","content":"two"}`)
			_, n := k.request(an, an, opus, body)
			k.at(n, "messages.2.content.0.type", `"tool_result"`)
			k.at(n, "messages.2.content.2.type", `"text"`)
			_, n = k.request(an, ch, gpt, body)
			k.at(n, "messages.2.role", `"tool"`)
			k.at(n, "messages.4.role", `"user"`)
			_, n = k.request(an, ge, flash, body)
			k.has(n.At("contents.2.parts.0").String(), "functionResponse")
			k.hasNot(n.At("contents.2").String(), "reminder")
		},
	}
}
