package codec_test

import (
	"strings"

	"coding-proxy/proxy/codec/codectest"
	"coding-proxy/proxy/ir"
)

func toolCases() map[string]func(kit) {
	long := strings.Repeat("a_long_name_", 7)
	return map[string]func(kit){
		"34_schema_to_gemini": func(k kit) {
			_, n := k.request(an, ge, flash, anRequest(`"tools":[{"name":"Read","input_schema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","additionalProperties":false,"propertyNames":{"pattern":"x"},"properties":{"a":{"type":["string","null"]},"b":{"const":"x"},"c":{"type":"number","exclusiveMinimum":0}}}}],`, user(`"go"`)))
			f := n.At("tools.0.functionDeclarations.0")
			if !f.Has("parametersJsonSchema") && f.Has("parameters") {
				k.hasNot(f.String(), "additionalProperties")
			}
			k.hasNot(f.String(), `"$schema"`, `"propertyNames"`, `"exclusiveMinimum"`, `"const"`)
		},
		"35_title_is_data": func(k kit) {
			_, n := k.request(an, ge, flash, anRequest(`"tools":[{"name":"Read","input_schema":{"type":"object","properties":{"title":{"type":"string"},"format":{"type":"string"}},"required":["title"]}}],`,
				user(`"go"`), assistant(`[{"type":"tool_use","id":"t1","name":"Read","input":{"title":"x","format":"y","$schema":"z"}}]`), user(`[{"type":"tool_result","tool_use_id":"t1","content":"r"}]`)))
			k.has(n.At("tools").String(), `"title":{"type":"string"}`, `"format":{"type":"string"}`)
			k.at(n, "contents.1.parts.0.functionCall.args", `{"title":"x","format":"y","$schema":"z"}`)
		},
		"46_custom_tool": func(k kit) {
			body := `{"model":"m","tools":[{"type":"custom","name":"apply_patch","description":"d"}],"input":[{"role":"user","content":"go"},{"type":"custom_tool_call","call_id":"c","name":"apply_patch","input":"*** Begin"},{"type":"custom_tool_call_output","call_id":"c","output":"ok"}]}`
			out, n := k.request(re, an, opus, body)
			k.at(n, "tools.0.input_schema.required", `["input"]`)
			k.at(n, "messages.1.content.0.input", `{"input":"*** Begin"}`)
			wire := codectest.Stream(dialect(k, an), codectest.Bridged([]ir.Event{
				{Kind: ir.EventStart}, {Kind: ir.EventBlock, Start: &ir.Block{Kind: ir.ToolCall, ID: "t1", ToolName: ir.ToolName{Name: "apply_patch"}}},
				{Kind: ir.EventDelta, Text: `{"input":"*** Begin`}, {Kind: ir.EventDelta, Text: `\nx"}`}, {Kind: ir.EventClose},
				{Kind: ir.EventFinish, Stop: ir.Stop{Reason: ir.StopTool}}, {Kind: ir.EventEnd}}, nil), codectest.Reply())
			client, _ := k.streamRaw(an, re, string(wire), out.Tools)
			k.has(client, `"type":"custom_tool_call"`, `"input":"*** Begin\nx"`)
			k.hasNot(client, `function_call_arguments`)
		},
		"50_forced_call_and_thinking": func(k kit) {
			body := chRequest(`"reasoning_effort":"high","max_tokens":30000,"tool_choice":"required","tools":[{"type":"function","function":{"name":"Read"}}],`, user(`"go"`))
			out, n := k.request(ch, an, sonnet, body)
			if n.At("thinking.type").Str() == "enabled" && n.At("tool_choice.type").Str() == "any" {
				k.Errorf("%s", n)
			}
			k.has(strings.Join(out.Lost, " "), "reasoning_effort")
			schema := chRequest(`"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"object","properties":{}}}},`, user(`"go"`))
			_, n = k.request(ch, an, opus, schema)
			k.at(n, "output_config.format.type", `"json_schema"`)
			k.at(n, "tool_choice", `null`)
		},
		"51_sampling_is_omitted": func(k kit) {
			out, n := k.request(ch, an, "claude-opus-4-7", chRequest(`"temperature":0.7,"top_p":0.9,`, user(`"go"`)))
			for _, name := range []string{"temperature", "top_p", "top_k"} {
				k.at(n, name, `null`)
			}
			k.has(strings.Join(out.Lost, " "), "temperature", "top_p")
		},
		"52_long_tool_names": func(k kit) {
			body := anRequest(`"tools":[{"name":"`+long+`","input_schema":{"type":"object"}}],"tool_choice":{"type":"tool","name":"`+long+`"},`,
				user(`"go"`), assistant(`[{"type":"tool_use","id":"t1","name":"`+long+`","input":{}}]`), user(`[{"type":"tool_result","tool_use_id":"t1","content":"r"}]`))
			out, n := k.request(an, ch, gpt, body)
			short := n.At("tools.0.function.name").Str()
			if len(short) > 64 || short == "" || short != n.At("messages.1.tool_calls.0.function.name").Str() || short != n.At("tool_choice.function.name").Str() {
				k.Fatalf("%s", n)
			}
			again, _ := k.request(an, ch, gpt, body)
			if string(again.Body) != string(out.Body) {
				k.Error("another alias in the same request")
			}
			client, _ := k.streamRaw(ch, an, sse(chunk(toolDelta(0, "c1", short, "{}"), ""), chunk(`{}`, "tool_calls"), "[DONE]"), out.Tools)
			k.has(client, `"name":"`+long+`"`)
			_, g := k.request(an, ge, flash, body)
			if name := g.At("tools.0.functionDeclarations.0.name").Str(); len(name) > 64 || name != g.At("contents.2.parts.0.functionResponse.name").Str() {
				k.Errorf("%s", g)
			}
		},
		"56_image_urls": func(k kit) {
			_, n := k.request(ch, an, opus, chRequest("", user(`[{"type":"image_url","image_url":{"url":"data:image/jpg;name=x.jpg;base64,/9j/4AA="}}]`)))
			k.at(n, "messages.0.content.0.source", `{"type":"base64","media_type":"image/jpeg","data":"/9j/4AA="}`)
			_, n = k.request(ch, an, opus, chRequest("", user(`[{"type":"image_url","image_url":{"url":"https://example.com/x.png"}}]`)))
			k.at(n, "messages.0.content.0.source", `{"type":"url","url":"https://example.com/x.png"}`)
			k.refused(ch, ge, flash, chRequest("", user(`[{"type":"image_url","image_url":{"url":"https://example.com/x.png"}}]`)), "messages[0].content")
		},
		"58_trailing_blank": func(k kit) {
			_, n := k.request(ch, an, sonnet, chRequest("", user(`"go"`), assistant(`"The answer is \n"`)))
			k.at(n, "messages.1.content", `"The answer is"`)
		},
		"59_tools_without_type_or_parameters": func(k kit) {
			_, n := k.request(re, an, opus, `{"model":"m","input":"go","tools":[{"name":"a"},{"type":"function","name":"b","parameters":null},{"type":"image_generation"}]}`)
			for i, name := range []string{"a", "b"} {
				tool := n.At("tools").List()
				if i >= len(tool) {
					k.Fatalf("%s", n)
				}
				k.at(tool[i], "name", `"`+name+`"`)
				k.at(tool[i], "input_schema", `{"type":"object","properties":{}}`)
			}
			k.at(n, "tools.2", `null`)
		},
	}
}

func endCases() map[string]func(kit) {
	start := `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":1}}}`
	open := `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
	text := `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"part"}}`
	return map[string]func(kit){
		"47_upstream_dies": func(k kit) {
			for from, wire := range map[string]string{an: sse(start, open, text), ch: sse(chunk(`{"content":"part"}`, ""))} {
				c := codectest.NewConversion(dialect(k, from), dialect(k, re), codectest.Reply(), nil)
				frames, _ := codectest.Frames([]byte(wire))
				for _, f := range frames {
					c.Feed(f)
				}
				if c.End() {
					k.Errorf("%s: a break is taken for an end: %s", from, c.Wire)
					continue
				}
				c.Break(&ir.Fault{Status: 502, Kind: ir.KindAPI, Message: "the upstream's stream broke"})
				if problems, done, _ := codectest.Validate(re, c.Wire, codectest.Expect{Fault: true}); len(problems) > 0 || !done {
					k.Errorf("%s\n%s", problems, c.Wire)
				}
				k.has(string(c.Wire), "event: response.failed", `"status":"failed"`)
			}
		},
		"48_failed_is_an_error": func(k kit) {
			wire := sse(`{"type":"response.created","response":{"id":"resp_1","status":"in_progress","output":[]}}`, `{"type":"response.failed","response":{"id":"resp_1","status":"failed","error":{"code":"server_error","message":"boom"},"output":[]}}`)
			out := k.stream(re, an, wire)
			k.has(out, "event: error")
			k.hasNot(out, "end_turn", "message_stop")
			k.hasNot(k.stream(re, ch, wire), "[DONE]", `"finish_reason":"stop"`)
		},
		"49_error_within_a_stream": func(k kit) {
			wire := sse(start, open, text, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`)
			out := k.stream(an, ch, wire)
			k.has(out, `data: {"error":`, "part")
			k.hasNot(out, "[DONE]")
			k.has(k.stream(an, re, wire), "response.failed")
			k.has(k.stream(an, an, wire), "event: error", "overloaded_error")
			k.hasNot(k.stream(an, an, wire), "message_stop")
			k.hasNot(k.stream(an, ge, wire), "finishReason")
		},
		"53_two_choices": func(k kit) {
			second := strings.Replace(chunk(toolDelta(0, "c1", "f", `{"a":1}`), ""), `"index":0,"delta"`, `"index":1,"delta"`, 1)
			end := strings.Replace(chunk(`{}`, "tool_calls"), `"index":0,"delta"`, `"index":1,"delta"`, 1)
			k.says(k.answer(ch, an, sse(chunk(`{"content":"A"}`, ""), second, end, "[DONE]")), `text(A) call(f {"a":1}) tool_use`)
		},
		"54_no_finish_reason": func(k kit) {
			wire := sse(chunk(toolDelta(0, "c1", "f", `{"a":1}`), ""), "[DONE]")
			k.has(k.stream(ch, ch, wire), `"finish_reason":"tool_calls"`)
			k.says(k.answer(ch, an, wire), `call(f {"a":1}) tool_use`)
		},
		"55_json_cut_by_reads": func(k kit) {
			wire := []byte(sse(start, open, text, `{"type":"content_block_stop","index":0}`, `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":4}}`, `{"type":"message_stop"}`))
			c := codectest.NewConversion(dialect(k, an), dialect(k, re), codectest.Reply(), nil)
			var rest []byte
			for i := range wire { // a read for each byte
				rest = append(rest, wire[i])
				frames, left := codectest.Frames(rest)
				for _, f := range frames {
					c.Feed(f)
				}
				rest = append([]byte(nil), left...)
			}
			if want := k.stream(an, re, string(wire)); string(c.Wire) != want {
				k.Errorf("%s\nwant %s", c.Wire, want)
			}
		},
	}
}
