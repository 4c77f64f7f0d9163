package openaichat

import (
	"slices"
	"strings"
	"testing"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
	"coding-proxy/proxy/sse"
)

// tapped gives a stream to a tap and returns it, its marks and what they add up to.
func tapped(b []byte) (*tap, []ir.Mark, ir.Usage, string) {
	t := &tap{}
	var marks []ir.Mark
	var u ir.Usage
	stop := ""
	frames(b, func(name, data []byte) {
		m := t.Mark(name, data)
		u.Merge(m.Usage)
		if m.Kind == ir.MarkFinish {
			stop = m.StopReason
		}
		marks = append(marks, m)
	})
	return t, marks, u, stop
}

// TestTapAgrees: the raw lane counts what the decoder counts, and ends where it ends.
func TestTapAgrees(t *testing.T) {
	for name, b := range streams(t) {
		t.Run(name, func(t *testing.T) {
			events := eventsOf(b)
			_, marks, u, _ := tapped(b)
			var want ir.Usage
			end, fault, content := false, false, false
			for _, e := range events {
				want.Merge(e.Usage)
				end = end || e.Kind == ir.EventEnd
				fault = fault || e.Kind == ir.EventFault
				content = content || e.Kind == ir.EventDelta || e.Kind == ir.EventBlock
			}
			if u != want {
				t.Errorf("usage %+v, want %+v", u, want)
			}
			has := func(k ir.MarkKind) bool {
				return slices.ContainsFunc(marks, func(m ir.Mark) bool { return m.Kind == k })
			}
			if strings.Contains(string(b), done) && !has(ir.MarkStop) {
				t.Error("no stop")
			}
			if got := slices.ContainsFunc(marks, func(m ir.Mark) bool { return m.Content }); got != content {
				t.Errorf("content %v, want %v", got, content)
			}
			if has(ir.MarkError) != fault && !strings.Contains(name, "glm") && name != "error_openrouter" {
				t.Errorf("error %v, want %v", has(ir.MarkError), fault)
			}
		})
	}
}

func TestTapMarks(t *testing.T) {
	for _, c := range []struct {
		data    string
		kind    ir.MarkKind
		content bool
		stop    string
	}{
		{`{"id":"a","choices":[{"delta":{"role":"assistant","content":""}}]}`, ir.MarkStart, false, ""},
		{`{"id":"a","choices":[{"delta":{"content":"x"}}]}`, ir.MarkDelta, true, ""},
		{`{"id":"a","choices":[{"delta":{"content":null,"reasoning_content":""}}]}`, ir.MarkStart, false, ""},
		{`{"id":"a","choices":[{"delta":{"reasoning":"x"}}]}`, ir.MarkDelta, true, ""},
		{`{"id":"a","choices":[{"delta":{"tool_calls":[]}}]}`, ir.MarkStart, false, ""},
		{`{"id":"a","choices":[{"delta":{"tool_calls":[{"index":0,"id":"c"}]}}]}`, ir.MarkDelta, true, ""},
		{`{"id":"a","choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}`, ir.MarkFinish, true, "stop"},
		{`{"id":"a","choices":[{"delta":{},"finish_reason":"length"}]}`, ir.MarkFinish, false, "length"},
		{`{"choices":[],"usage":{"prompt_tokens":1}}`, ir.MarkOther, false, ""},
		{`{"choices":[],"prompt_filter_results":[]}`, ir.MarkOther, false, ""},
		{`[DONE]`, ir.MarkStop, false, ""},
		{`: keepalive`, ir.MarkNoise, false, ""}, // SSE-013, SSE-014: it kills JSON readers
		{``, ir.MarkNoise, false, ""},
		{`{"error":{"message":"m","code":"server_is_overloaded"}}`, ir.MarkError, false, ""},
		{`{"choices":[{`, ir.MarkOther, false, ""},
	} {
		m := (&tap{}).Mark(nil, []byte(c.data))
		if m.Kind != c.kind || m.Content != c.content || m.StopReason != c.stop {
			t.Errorf("%s: %+v", c.data, m)
		}
		if (m.Fault != nil) != (c.kind == ir.MarkError) || m.Fault != nil && m.Fault.Status != 503 {
			t.Errorf("%s: fault %+v", c.data, m.Fault)
		}
	}
	if m := (&tap{}).Mark([]byte("error"), []byte(`boom`)); m.Kind != ir.MarkError {
		t.Errorf("event: error gives %+v", m)
	}
}

// TestTapFinish: case_54, SSE-031. What ended without a reason gets one, if it was whole.
func TestTapFinish(t *testing.T) {
	all := streams(t)
	for name, want := range map[string]string{
		"done_without_reason":      "stop",
		"done_without_reason_call": "tool_calls",
		"done_without_reason_cut":  "length",
		"no_terminal":              "",
		"text":                     "",
		"no_done":                  "",
	} {
		tp, _, _, _ := tapped(all[name])
		out, reason := tp.Finish([]byte("before\n\n"))
		if reason != want || (out != nil) != (want != "") {
			t.Errorf("%s: %q, %q", name, reason, out)
			continue
		}
		if out == nil {
			continue
		}
		if again, _ := tp.Finish(nil); again != nil {
			t.Errorf("%s: twice", name)
		}
		event := out[len("before\n\n"):]
		_, data := sse.Parse(event)
		expect(t, data, map[string]string{"id": `"chatcmpl-up"`, "model": `"up-model"`, "created": "1700000000", "choices.0.finish_reason": `"` + want + `"`})
		if sse.Next(event) != len(event) {
			t.Errorf("%s: %q", name, event)
		}
	}
	// Whole calls whose stream ends without [DONE] are whole; text may not be.
	tp, _, _, _ := tapped([]byte("data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]}}]}\n\n"))
	if out, reason := tp.Finish(nil); reason != "tool_calls" || !strings.HasSuffix(string(out), "data: [DONE]\n\n") {
		t.Errorf("%q %q", out, reason)
	}
	if out, _ := tappedDone().Finish(nil); out != nil {
		t.Errorf("nothing but [DONE] gives %q", out)
	}
}

func tappedDone() *tap {
	t := &tap{}
	t.Mark(nil, []byte(done))
	return t
}

func TestTapBreak(t *testing.T) {
	out := (&tap{}).Break(nil, &ir.Fault{Status: 500, Kind: ir.KindAPI, Message: "gone"}, "t1")
	if string(out) != `data: {"error":{"message":"gone","type":"server_error","param":null,"code":null},"request_id":"t1"}`+"\n\n" {
		t.Errorf("%s", out)
	}
}

func TestIsBulk(t *testing.T) {
	head := `data: {"id":"a","choices":[{"index":0,"delta":{"content":"x\"usage\":{"},"finish_reason":null}]`
	for event, want := range map[string]bool{
		head + "}\n\n":                                  true,
		head + `,"usage":null}` + "\n\n":                true,
		head + `,"usage":{"prompt_tokens":1}}` + "\n\n": false,
		`data: {"choices":[{"delta":{"content":""},"finish_reason":null}]}` + "\n\n":                     false,
		`data: {"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}` + "\n\n":                  false,
		`data: {"choices":[{"delta":{"role":"assistant","content":"x"},"finish_reason":null}]}` + "\n\n": false,
		"data: [DONE]\n\n": false,
		`data: {"error":{"message":"\"delta\":{\"content\":\"x"}}` + "\n\n": false,
	} {
		if got := isBulk([]byte(event)); got != want {
			t.Errorf("%s: %v", event, got)
		}
	}
	for name, b := range streams(t) { // never anything that the tap must know
		for rest := b; ; {
			n := sse.Next(rest)
			if n == 0 {
				break
			}
			event := rest[:n]
			rest = rest[n:]
			if !isBulk(event) {
				continue
			}
			m := (&tap{}).Mark(sse.Parse(event))
			if m.Kind != ir.MarkDelta || m.Usage.Known != 0 || !m.Content {
				t.Errorf("%s: %s is %+v", name, event, m)
			}
		}
	}
}

func TestPlainUsage(t *testing.T) {
	body := []byte(`{"choices":[{"finish_reason":"length","usage":{"prompt_tokens":9}}],"usage":{"prompt_tokens":100,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":90}}}`)
	u, stop := plain(func(name string) []byte { return rawjson.Get(body, name) })
	if u.Input != 10 || u.CacheRead != 90 || u.Output != 5 || stop != "length" {
		t.Errorf("%+v %s", u, stop)
	}
	if u, stop := plain(func(string) []byte { return nil }); u.Known != 0 || stop != "" {
		t.Errorf("of nothing: %+v %s", u, stop)
	}
}

// TestUSE002Usage: facts 5.6, case_19, case_20, case_22, case_23, USE-004.
func TestUSE002Usage(t *testing.T) {
	const in, out, write, read, think = ir.UsageInput, ir.UsageOutput, ir.UsageCacheCreation, ir.UsageCacheRead, ir.UsageReasoning
	for raw, want := range map[string]ir.Usage{
		`{"prompt_tokens":100,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":90}}`:                             {Input: 10, CacheRead: 90, Output: 5, Known: in | out | read},
		`{"prompt_tokens":1000,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":900,"cache_write_tokens":50}}`:   {Input: 50, CacheRead: 900, CacheCreation: 50, Output: 1, Known: in | out | read | write},
		`{"prompt_tokens":20,"completion_tokens":198,"total_tokens":623,"completion_tokens_details":{"reasoning_tokens":405}}`: {Input: 20, Output: 603, Reasoning: 405, Known: in | out | think},
		`{"prompt_tokens":20,"completion_tokens":603,"total_tokens":623,"completion_tokens_details":{"reasoning_tokens":405}}`: {Input: 20, Output: 603, Reasoning: 405, Known: in | out | think},
		`{"prompt_tokens":10,"completion_tokens":2,"cached_tokens":30}`:                                                        {Input: 0, CacheRead: 30, Output: 2, Known: in | out | read},
		`{"input_tokens":3,"output_tokens":4}`:                             {Input: 3, Output: 4, Known: in | out},
		`{"prompt_tokens":null,"completion_tokens":-1,"total_tokens":1.5}`: {},
		`{"prompt_tokens":9223372036854775807}`:                            {},
		`{}`:                                                               {}, `null`: {}, `[]`: {}, ``: {},
	} {
		if got := usage([]byte(raw)); got != want {
			t.Errorf("%s: %+v, want %+v", raw, got, want)
		}
	}
	u := ir.Usage{Input: 4, Output: 120, CacheCreation: 60, CacheRead: 900, Reasoning: 35, Known: 31}
	w := rawjson.Writer{}
	writeUsage(&w, &u)
	if again := usage(w.Buf); again != u {
		t.Errorf("%s gives %+v", w.Buf, again)
	}
	expect(t, w.Buf, map[string]string{"total_tokens": "1084", "prompt_tokens": "964"})
}

// TestRepair: opaque state is taken out, and nothing else changes.
func TestRepair(t *testing.T) {
	sealed := ir.Seal(ir.State{Owner: "o", Data: "S"})
	body := `{"a":1, "messages":[{"role":"user","content":"1"},{"role":"assistant","reasoning":"r","reasoning_details":[{"data":"D"}],"content":"x",
		"tool_calls":[{"id":"c","extra_content":{"google":{"thought_signature":"REAL"}},"type":"function"}]},{"role":"tool","content":"t"},{"role":"user","content":"2"},
		{"reasoning_opaque":"O","role":"assistant","tool_calls":[{"extra_content":{"google":{"thought_signature":"` + sealed + `"}}}]}],"z":2}`
	without := func(parts ...string) string {
		out := body
		for _, p := range parts {
			if !strings.Contains(out, p) {
				t.Fatalf("the test's own part %s", p)
			}
			out = strings.Replace(out, p, "", 1)
		}
		return out
	}
	first := []string{`,"reasoning_details":[{"data":"D"}]`, `,"extra_content":{"google":{"thought_signature":"REAL"}}`}
	last := `"extra_content":{"google":{"thought_signature":"` + sealed + `"}}`
	for how, want := range map[ir.Repair]string{
		ir.RepairSealed: without(last),
		ir.RepairClosed: without(first[0], first[1], last),
		ir.RepairAll:    without(first[0], first[1], `"reasoning_opaque":"O",`, last),
	} {
		out, removed, err := repair([]byte(body), how)
		if err != nil || string(out) != want || len(removed) == 0 {
			t.Errorf("%d: %v %q\ngot  %s\nwant %s", how, err, removed, out, want)
		}
		if again, _, _ := repair(out, how); again != nil {
			t.Errorf("%d: repaired twice", how)
		}
	}
	for _, body := range []string{`{}`, `{"messages":[]}`, `{"messages":5}`, `{"messages":[5,{"tool_calls":[5]}]}`, `{"messages":[{"role":"assistant","reasoning_content":"x"}]}`} {
		if out, _, err := repair([]byte(body), ir.RepairAll); out != nil || err != nil {
			t.Errorf("%s: %s %v", body, out, err)
		}
	}
}
