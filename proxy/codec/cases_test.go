package codec_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"coding-proxy/proxy/codec/codectest"
	"coding-proxy/proxy/ir"
)

const (
	an, ch, re, ge = "anthropic", "openai-chat", "openai-responses", "gemini"
	opus, sonnet   = "claude-opus-5-5", "claude-sonnet-4-5"
	gpt, flash     = "gpt-5.6", "gemini-3.8-flash"
)

// TestCases are the cases of facts/protocols.md, section 6, that span two dialects, by number.
func TestCases(t *testing.T) {
	for name, run := range cases() {
		t.Run(name, func(t *testing.T) { run(kit{t}) })
	}
}

// elsewhere are the cases that live within one codec or the relay: the file and the name of the test there.
var elsewhere = map[int][2]string{
	27: {"gemini/encode_test.go", "case_27 own reasoning as it was"},
	30: {"openaichat/history_test.go", "case_30 foreign to DeepSeek"},
	57: {"../rawlane_test.go", "func TestRequestDiffersByTheModelAlone("}, // a backend that speaks the client's dialect gets the bytes as they came: the raw lane
}

func cases() map[string]func(kit) {
	all := map[string]func(kit){}
	for _, group := range []map[string]func(kit){streamCases(), usageCases(), historyCases(), resultCases(), toolCases(), endCases()} {
		for name, run := range group {
			all[name] = run
		}
	}
	return all
}

// All 60 cases are here or in the list.
func TestCasesAreComplete(t *testing.T) {
	have := map[int]bool{}
	for name := range cases() {
		n, err := strconv.Atoi(name[:2])
		if err != nil || !regexp.MustCompile(`^[0-9]{2}_[a-z_]+$`).MatchString(name) {
			t.Errorf("name %q", name)
		}
		have[n] = true
	}
	for n, where := range elsewhere {
		if b, err := os.ReadFile(filepath.FromSlash(where[0])); err != nil || !strings.Contains(string(b), where[1]) {
			t.Errorf("case %d is not in %s: %q, %v", n, where[0], where[1], err)
		}
		if have[n] {
			t.Errorf("case %d is here and there", n)
		}
		have[n] = true
	}
	for n := 1; n <= 60; n++ {
		if !have[n] {
			t.Errorf("case %d is nowhere", n)
		}
	}
}

func streamCases() map[string]func(kit) {
	return map[string]func(kit){
		"01_reasoning_first": func(k kit) {
			out := k.stream(ch, an, sse(chunk(`{"role":"assistant","reasoning_content":"hm"}`, ""), chunk(`{"content":"yes"}`, ""), chunk(`{}`, "stop"), "[DONE]"))
			k.has(out, `"index":0,"content_block":{"type":"thinking"`, `"index":1,"content_block":{"type":"text"`)
		},
		"02_first_token_of_the_new_block": func(k kit) {
			k.says(k.answer(ch, an, sse(chunk(`{"reasoning_content":"hm"}`, ""), chunk(`{"content":"A"}`, ""), chunk(`{"content":"B"}`, ""), chunk(`{}`, "stop"), "[DONE]")), "thinking(hm) text(AB) end_turn")
		},
		"03_late_thinking_with_text": func(k kit) {
			k.says(k.answer(ch, an, sse(chunk(`{"reasoning_content":"h"}`, ""), chunk(`{"reasoning_content":"m","content":"A"}`, ""), chunk(`{}`, "stop"), "[DONE]")), "thinking(hm) text(A) end_turn")
		},
		"04_reasoning_again": func(k kit) {
			out := k.stream(re, an, responsesStream(reasoningItem(0, "one"), callItem(1, "f", `{}`), reasoningItem(2, "two"), callItem(3, "g", `{}`)))
			k.has(out, `"index":0,"content_block":{"type":"thinking"`, `"index":1,"content_block":{"type":"tool_use"`, `"index":2,"content_block":{"type":"thinking"`, `"index":3,"content_block":{"type":"tool_use"`)
		},
		"05_own_indices": func(k kit) {
			wire := strings.ReplaceAll(responsesStream(reasoningItem(0, "one"), callItem(1, "f", `{}`)), `"output_index":1`, `"output_index":7`)
			out := k.stream(re, an, wire)
			k.has(out, `"index":0,`, `"index":1,`)
			k.hasNot(out, `"index":7`)
		},
		"06_indices_contiguous": func(k kit) {
			k.says(k.answer(ch, an, sse(chunk(`{"reasoning_content":"hm"}`, ""), chunk(`{"content":"A"}`, ""), chunk(toolDelta(0, "c1", "f", "{}"), ""), chunk(`{}`, "tool_calls"), "[DONE]")), "thinking(hm) text(A) call(f {}) tool_use")
		},
		"07_interleaved_arguments": func(k kit) {
			wire := sse(chunk(toolDelta(0, "c1", "f", ""), ""), chunk(toolDelta(1, "c2", "g", ""), ""), chunk(toolDelta(0, "", "", `{"a"`), ""), chunk(toolDelta(1, "", "", `{"b"`), ""),
				chunk(toolDelta(0, "", "", `:1}`), ""), chunk(toolDelta(1, "", "", `:2}`), ""), chunk(`{}`, "tool_calls"), "[DONE]")
			for _, to := range []string{an, re, ge, ch} {
				k.says(k.answer(ch, to, wire), `call(f {"a":1}) call(g {"b":2}) tool_use`)
			}
		},
		"08_back_to_back": func(k kit) {
			k.says(k.answer(ch, an, sse(chunk(toolDelta(0, "c1", "f", `{"a":1}`), ""), chunk(toolDelta(1, "c2", "g", `{"b":2}`), ""), chunk(`{}`, "tool_calls"), "[DONE]")), `call(f {"a":1}) call(g {"b":2}) tool_use`)
		},
		"09_all_at_index_zero": func(k kit) {
			k.says(k.answer(ch, an, sse(chunk(toolDelta(0, "c1", "f", `{"a":1}`), ""), chunk(toolDelta(0, "c2", "f", `{"a":2}`), ""), chunk(`{}`, "tool_calls"), "[DONE]")), `call(f {"a":1}) call(f {"a":2}) tool_use`)
		},
		"10_newline_between_calls": func(k kit) {
			got := said(k.answer(ch, an, sse(chunk(toolDelta(0, "c1", "f", `{}`), ""), chunk(`{"content":"\n"}`, ""), chunk(toolDelta(1, "c2", "g", `{}`), ""), chunk(`{}`, "tool_calls"), "[DONE]")))
			if got != "call(f {}) text(\n) call(g {}) tool_use" && got != "call(f {}) call(g {}) tool_use" {
				k.Error(got)
			}
		},
		"11_two_hops": func(k kit) {
			first := k.stream(ge, ch, sse(`{"candidates":[{"content":{"role":"model","parts":[{"text":"A"},{"functionCall":{"name":"f","args":{"a":1}}}]},"finishReason":"STOP","index":0}],"responseId":"r"}`))
			k.says(k.answer(ch, an, first), `text(A) call(f {"a":1}) tool_use`)
		},
		"12_signature_alone_and_call": func(k kit) {
			reasoning := `{"type":"reasoning","id":"rs_0","summary":[],"encrypted_content":"gAAAA"}`
			out := k.stream(re, an, responsesStream(item{reasoning, reasoning, nil}, callItem(1, "f", `{}`)))
			k.has(out, `"content_block":{"type":"thinking"`, `signature_delta`, `"type":"tool_use"`, `"stop_reason":"tool_use"`)
		},
		"13_empty_name": func(k kit) {
			a := k.answer(ch, an, sse(chunk(`{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"","arguments":"{}"}}]}`, ""), chunk(`{}`, "tool_calls"), "[DONE]"))
			if len(a.Blocks) != 1 || a.Blocks[0].Kind != ir.ToolCall || a.Blocks[0].Name == "" || a.Stop.Reason != ir.StopTool {
				k.Errorf("%s", said(a))
			}
		},
		"14_tool_calls_then_stop": func(k kit) {
			wire := sse(chunk(toolDelta(0, "c1", "f", `{}`), ""), chunk(`{}`, "tool_calls"), chunk(`{}`, "stop"), "[DONE]")
			k.says(k.answer(ch, an, wire), `call(f {}) tool_use`)
			k.has(k.stream(ch, ch, wire), `"finish_reason":"tool_calls"`)
		},
		"15_gemini_stops_with_a_call": func(k kit) {
			wire := sse(`{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]},"finishReason":"STOP","index":0}],"responseId":"r"}`)
			k.has(k.stream(ge, an, wire), `"stop_reason":"tool_use"`)
			k.has(k.stream(ge, ch, wire), `"finish_reason":"tool_calls"`)
		},
		"16_malformed_call": func(k kit) {
			for _, to := range []string{an, ch, re} {
				out, _ := k.streamRaw(ge, to, sse(`{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL","index":0}],"responseId":"r"}`), nil)
				k.has(out, `error`)
				k.hasNot(out, `"stop_reason":"end_turn"`, `"finish_reason":"stop"`, `response.completed`)
			}
			k.says(k.answer(ge, an, sse(`{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]},"finishReason":"MALFORMED_FUNCTION_CALL","index":0}],"responseId":"r"}`)), "call(f {}) tool_use")
		},
	}
}

// item is an output item of a Responses stream: as it is added and done, and its events between.
type item struct {
	added, done string
	events      []string
}

func reasoningItem(n int, text string) item {
	at := `"item_id":"rs_` + strconv.Itoa(n) + `","output_index":` + strconv.Itoa(n) + `,"summary_index":0`
	id := `"id":"rs_` + strconv.Itoa(n) + `"`
	return item{
		`{"type":"reasoning",` + id + `,"summary":[]}`,
		`{"type":"reasoning",` + id + `,"summary":[{"type":"summary_text","text":"` + text + `"}],"encrypted_content":"enc"}`,
		[]string{
			`{"type":"response.reasoning_summary_part.added",` + at + `,"part":{"type":"summary_text","text":""}}`,
			`{"type":"response.reasoning_summary_text.delta",` + at + `,"delta":"` + text + `"}`,
			`{"type":"response.reasoning_summary_text.done",` + at + `,"text":"` + text + `"}`,
			`{"type":"response.reasoning_summary_part.done",` + at + `,"part":{"type":"summary_text","text":"` + text + `"}}`,
		},
	}
}

func callItem(n int, name, args string) item {
	at := `"item_id":"fc_` + strconv.Itoa(n) + `","output_index":` + strconv.Itoa(n)
	head := `{"type":"function_call","id":"fc_` + strconv.Itoa(n) + `","call_id":"call_` + strconv.Itoa(n) + `","name":"` + name + `","arguments":`
	return item{head + `""}`, head + quote(args) + `}`, []string{
		`{"type":"response.function_call_arguments.delta",` + at + `,"delta":` + quote(args) + `}`,
		`{"type":"response.function_call_arguments.done",` + at + `,"arguments":` + quote(args) + `}`,
	}}
}

// responsesStream is a whole stream of these items.
func responsesStream(items ...item) string {
	events := []string{`{"type":"response.created","response":{"id":"resp_1","object":"response","status":"in_progress","model":"m","output":[]}}`}
	var done []string
	for n, it := range items {
		at := `"output_index":` + strconv.Itoa(n)
		events = append(events, `{"type":"response.output_item.added",`+at+`,"item":`+it.added+`}`)
		events = append(events, it.events...)
		events = append(events, `{"type":"response.output_item.done",`+at+`,"item":`+it.done+`}`)
		done = append(done, it.done)
	}
	events = append(events, `{"type":"response.completed","response":{"id":"resp_1","object":"response","status":"completed","model":"m","output":[`+strings.Join(done, ",")+`],"usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":0},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":15}}}`)
	return sse(events...)
}

func usageCases() map[string]func(kit) {
	return map[string]func(kit){
		"17_usage_after_finish": func(k kit) {
			out := k.stream(ch, an, sse(chunk(`{"content":"A"}`, ""), chunk(`{}`, "stop"), `{"id":"c1","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18}}`, "[DONE]"))
			k.has(out, `"input_tokens":11`, `"output_tokens":7`)
			if strings.Count(out, "event: message_delta") != 1 {
				k.Error(out)
			}
		},
		"18_second_message_delta": func(k kit) {
			wire := sse(`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":1}}}`,
				`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"A"}}`, `{"type":"content_block_stop","index":0}`,
				`{"type":"message_delta","delta":{"stop_reason":"max_tokens","stop_sequence":null},"usage":{"output_tokens":4}}`, `{"type":"message_delta","delta":{"stop_reason":null,"stop_sequence":null},"usage":{"output_tokens":9}}`, `{"type":"message_stop"}`)
			for _, to := range []string{ch, re, ge} {
				a := k.answer(an, to, wire)
				if a.Stop.Reason != ir.StopLength || a.Usage.Output != 9 || a.Usage.Input != 3 {
					k.Errorf("%s: %+v %+v", to, a.Stop, a.Usage)
				}
			}
		},
		"19_cached_tokens": func(k kit) {
			k.usage(ch, an, `{"prompt_tokens":1000,"prompt_tokens_details":{"cached_tokens":900},"completion_tokens":1,"total_tokens":1001}`, `"input_tokens":100`, `"cache_read_input_tokens":900`)
		},
		"20_cache_writes": func(k kit) {
			k.usage(ch, an, `{"prompt_tokens":1000,"prompt_tokens_details":{"cached_tokens":900,"cache_write_tokens":40},"completion_tokens":1,"total_tokens":1001}`, `"input_tokens":60`, `"cache_read_input_tokens":900`, `"cache_creation_input_tokens":40`)
		},
		"21_cache_counts_in_streams": func(k kit) {
			out := k.stream(re, an, strings.ReplaceAll(responsesStream(callItem(0, "f", "{}")), `"cached_tokens":0`, `"cached_tokens":4`))
			k.has(out, `"input_tokens":6`, `"cache_read_input_tokens":4`)
		},
		"22_thoughts_are_output": func(k kit) {
			wire := sse(`{"candidates":[{"content":{"role":"model","parts":[{"text":"A"}]},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":20,"candidatesTokenCount":198,"thoughtsTokenCount":405,"totalTokenCount":623},"responseId":"r"}`)
			k.has(k.stream(ge, ch, wire), `"completion_tokens":603`, `"reasoning_tokens":405`)
			k.has(k.stream(ge, re, wire), `"output_tokens":603`, `"reasoning_tokens":405`)
		},
		"23_reasoning_tokens": func(k kit) {
			k.usage(ch, an, `{"prompt_tokens":10,"completion_tokens":50,"completion_tokens_details":{"reasoning_tokens":30},"total_tokens":60}`, `"output_tokens":50`, `"thinking_tokens":30`)
		},
		"24_stop_string": func(k kit) {
			wire := func(stop string) string {
				return sse(chunk(`{"content":"A"}`, ""), `{"id":"c1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop","stop_reason":`+stop+`}]}`, "[DONE]")
			}
			k.has(k.stream(ch, an, wire(`"END"`)), `"stop_reason":"stop_sequence"`, `"stop_sequence":"END"`)
			for _, stop := range []string{"151645", "null"} {
				k.has(k.stream(ch, an, wire(stop)), `"stop_reason":"end_turn"`)
			}
		},
	}
}

// usage takes a Chat usage object to a client, streamed and plain.
func (k kit) usage(from, to, usage string, want ...string) {
	k.Helper()
	k.has(k.stream(from, to, sse(chunk(`{"content":"A"}`, ""), chunk(`{}`, "stop"), `{"id":"c1","object":"chat.completion.chunk","choices":[],"usage":`+usage+`}`, "[DONE]")), want...)
	events, err := dialect(k, from).DecodeAnswer([]byte(`{"id":"c1","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"A"},"finish_reason":"stop"}],"usage":`+usage+`}`), codectest.Source())
	if err != nil {
		k.Fatal(err)
	}
	a, _, _ := codectest.FoldOf(events, nil)
	body, _ := dialect(k, to).AppendAnswer(nil, a, codectest.Reply())
	k.has(string(body), want...)
}
