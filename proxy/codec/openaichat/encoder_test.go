package openaichat

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

func reply(r *ir.Request) ir.Reply {
	return ir.Reply{Request: r, Model: "shown", Seed: "5eed", Created: 1700000000}
}

// streamed writes events as a client of the stream gets them.
func streamed(events []ir.Event, r ir.Reply, tools *ir.ToolBook) (string, []string) {
	e := newEncoder(r)
	var b []byte
	for _, ev := range bridged(events, tools) {
		b = e.Append(b, &ev)
	}
	return string(b), e.Lost()
}

// answers are canonical answers.
func answers() map[string]*ir.Answer {
	u := ir.Usage{Input: 10, Output: 40, CacheRead: 90, CacheCreation: 5, Reasoning: 12, Known: 31}
	custom := callOf("c3", "patch", "*** \"x\"")
	custom.Form = ir.FormCustom
	end := ir.Stop{Reason: ir.StopEnd}
	return map[string]*ir.Answer{
		"text":     {Blocks: []ir.Block{txt("a <b>&\u2028 é🙂")}, Usage: u, Stop: end},
		"empty":    {Stop: end},
		"thinking": {Blocks: []ir.Block{{Kind: ir.Thinking, Text: "onetwo", Breaks: []int{3}, State: &ir.State{Owner: "o", Data: "S"}}, thinking("three", nil), txt("x")}, Usage: u, Stop: end},
		"calls": {Blocks: []ir.Block{thinking("", &ir.State{Owner: "o", Data: "S"}), txt("Let me."), callOf("c1", "ls", ""), callOf("", "cat", `{"n":1.10}`), custom, txt("after")},
			Usage: u, Stop: ir.Stop{Reason: ir.StopTool}},
		"length":    {Blocks: []ir.Block{callOf("c1", "w", `{"a":`)}, Stop: ir.Stop{Reason: ir.StopLength}},
		"context":   {Blocks: []ir.Block{txt("x")}, Stop: ir.Stop{Reason: ir.StopContext}},
		"sequence":  {Blocks: []ir.Block{txt("x")}, Stop: ir.Stop{Reason: ir.StopSequence, Sequence: "END"}},
		"pause":     {Blocks: []ir.Block{txt("x")}, Stop: ir.Stop{Reason: ir.StopPause}},
		"blocked":   {Stop: ir.Stop{Reason: ir.StopRefusal}},
		"refused":   {Blocks: []ir.Block{{Kind: ir.Refusal, Text: "I won't"}}, Stop: ir.Stop{Reason: ir.StopRefusal}},
		"explained": {Blocks: []ir.Block{txt("par")}, Stop: ir.Stop{Reason: ir.StopRefusal, Text: "policy"}},
		"foreign": {Blocks: []ir.Block{{Kind: ir.Text, Text: "x", Citations: []byte(`[{"a":1}]`)}, {Kind: ir.HostedCall, Type: "web_search_call", Raw: []byte(`{}`)},
			{Kind: ir.Image, Media: ir.Media{Data: "AA"}}}, Usage: u, Stop: end},
	}
}

// TestEncoderGolden compares whole streams.
func TestEncoderGolden(t *testing.T) {
	for name, a := range answers() {
		t.Run(name, func(t *testing.T) {
			got, lost := streamed(ir.Unfold(nil, a), reply(&ir.Request{IncludeUsage: true}), nil)
			if len(lost) > 0 {
				got += ": lost " + strings.Join(lost, ", ") + "\n\n"
			}
			golden := corpus + "answers/" + name + ".sse"
			if *update {
				if err := os.MkdirAll(corpus+"answers", 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			valid(t, got)
		})
	}
}

// chunk is what an SDK reads.
type chunk struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
	Choices []struct {
		Index int `json:"index"`
		Delta struct {
			Role      *string           `json:"role"`
			Content   *string           `json:"content"`
			Refusal   *string           `json:"refusal"`
			Reasoning *string           `json:"reasoning_content"`
			ToolCalls []json.RawMessage `json:"tool_calls"`
		} `json:"delta"`
		FinishReason *string `json:"finish_reason"`
	} `json:"choices"`
	Usage json.RawMessage `json:"usage"`
	Error json.RawMessage `json:"error"`
}

// valid holds a stream against facts 2.3: what official SDKs insist on.
func valid(t *testing.T, stream string) {
	t.Helper()
	n, finished, over, usages := 0, false, false, 0
	names := map[string]string{}
	rest := frames([]byte(stream), func(name, data []byte) {
		if name != nil {
			t.Errorf("an event name: %s", name)
		}
		if over {
			t.Error("a frame after [DONE]")
		}
		if string(data) == done {
			over = true
			return
		}
		if err := rawjson.Valid(data); err != nil {
			t.Fatalf("%v: %s", err, data)
		}
		var c chunk
		if err := json.Unmarshal(data, &c); err != nil {
			t.Fatal(err)
		}
		if c.ID != "chatcmpl-5eed" || c.Object != "chat.completion.chunk" || c.Created != 1700000000 || c.Model != "shown" {
			t.Errorf("head of %s", data)
		}
		if n++; n == 1 && (len(c.Choices) != 1 || c.Choices[0].Delta.Role == nil) {
			t.Errorf("the first chunk has no role: %s", data)
		}
		if len(c.Choices) == 0 {
			if usages++; !finished || !isObject(c.Usage) {
				t.Errorf("a chunk without choice: %s", data)
			}
			return
		}
		k := c.Choices[0]
		if k.Index != 0 || finished {
			t.Errorf("index, or a delta behind the reason: %s", data)
		}
		finished = k.FinishReason != nil
		for _, call := range k.Delta.ToolCalls {
			index := string(rawjson.Get(call, "index"))
			if _, known := names[index]; known {
				continue
			}
			kind, _ := rawjson.String(rawjson.Get(call, "type"))
			inner := rawjson.Get(call, kind)
			first := string(rawjson.Get(inner, "arguments")) + string(rawjson.Get(inner, "input"))
			if first != `""` || string(rawjson.Get(inner, "name")) == "" || isNull(rawjson.Get(call, "id")) || index != string('0'+byte(len(names))) {
				t.Errorf("the first piece of a call: %s", call)
			}
			names[index] = kind
		}
	})
	if len(rest) > 0 || !over || !finished || usages > 1 {
		t.Errorf("over %v, finished %v, %d usages, rest %q", over, finished, usages, rest)
	}
}

// TestPlainAnswer: a plain answer says what a client makes of the stream.
func TestPlainAnswer(t *testing.T) {
	for name, a := range answers() {
		t.Run(name, func(t *testing.T) {
			r := reply(&ir.Request{IncludeUsage: true})
			body, lost := appendAnswer(nil, a, r)
			if err := rawjson.Valid(body); err != nil {
				t.Fatalf("%v\n%s", err, body)
			}
			stream, lostToo := streamed(ir.Unfold(nil, a), r, nil)
			same(t, "lost", lost, lostToo)
			var want chunkFold
			frames([]byte(stream), func(_, data []byte) { want.add(t, data) })
			expect(t, body, map[string]string{
				"id": `"chatcmpl-5eed"`, "object": `"chat.completion"`, "created": "1700000000", "model": `"shown"`,
				"choices.0.finish_reason": `"` + want.reason + `"`, "usage": want.usage,
			})
			got := func(path string) string {
				s, _ := rawjson.String([]byte(member(body, "choices.0.message."+path)))
				return s
			}
			if got("content") != want.content || got("refusal") != want.refusal || got("reasoning_content") != want.reasoning {
				t.Errorf("%s\nwant %+v", body, want)
			}
			if calls := member(body, "choices.0.message.tool_calls"); calls != want.toolCalls() {
				t.Errorf("calls %s\nwant %s", calls, want.toolCalls())
			}
		})
	}
}

// chunkFold is what an SDK gathers.
type chunkFold struct {
	content, refusal, reasoning, reason, usage string
	calls                                      []foldedCall
}

type foldedCall struct{ id, kind, name, args string }

func (f *chunkFold) add(t *testing.T, data []byte) {
	if string(data) == done {
		return
	}
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		t.Fatal(err)
	}
	if isObject(c.Usage) {
		f.usage = string(c.Usage)
	}
	for _, k := range c.Choices {
		for to, s := range map[*string]*string{&f.content: k.Delta.Content, &f.refusal: k.Delta.Refusal, &f.reasoning: k.Delta.Reasoning, &f.reason: k.FinishReason} {
			if s != nil {
				*to += *s
			}
		}
		for _, call := range k.Delta.ToolCalls {
			n, _ := rawjson.Int(rawjson.Get(call, "index"))
			if int(n) == len(f.calls) {
				f.calls = append(f.calls, foldedCall{})
			}
			to := &f.calls[n]
			if s, ok := rawjson.String(rawjson.Get(call, "type")); ok {
				to.kind = s
				to.id, _ = rawjson.String(rawjson.Get(call, "id"))
			}
			inner := rawjson.Get(call, to.kind)
			name, _ := rawjson.String(rawjson.Get(inner, "name"))
			args, _ := rawjson.String(rawjson.Get(inner, "arguments"))
			input, _ := rawjson.String(rawjson.Get(inner, "input"))
			to.name += name
			to.args += args + input
		}
	}
}

func (f *chunkFold) toolCalls() string {
	if len(f.calls) == 0 {
		return ""
	}
	w := rawjson.Writer{}
	w.Open('[')
	for _, c := range f.calls {
		b := callOf(c.id, c.name, c.args)
		if c.kind == "custom" {
			b.Form = ir.FormCustom
		}
		writeCall(&w, &b, c.id)
	}
	w.Close(']')
	return string(w.Buf)
}

// TestStopReasons: facts 5.3, both ways.
func TestStopReasons(t *testing.T) {
	for reason, want := range map[ir.StopReason]string{
		ir.StopEnd: "stop", ir.StopTool: "tool_calls", ir.StopLength: "length", ir.StopContext: "length", ir.StopSequence: "stop",
		ir.StopRefusal: "content_filter", ir.StopPause: "stop", "": "stop",
	} {
		if got := finishReason(&ir.Stop{Reason: reason}, false, false); got != want {
			t.Errorf("%s: %s", reason, got)
		}
	}
	for word, want := range map[string]ir.StopReason{
		"stop": ir.StopEnd, "length": ir.StopLength, "tool_calls": ir.StopTool, "function_call": ir.StopTool, "content_filter": ir.StopRefusal,
		"sensitive": ir.StopRefusal, "never seen": ir.StopEnd, "end_turn": ir.StopEnd, "tool_use": ir.StopTool, "max_tokens": ir.StopLength,
	} {
		if got := reasonOf(word); got != want {
			t.Errorf("%s: %s", word, got)
		}
	}
}

// TestUSE008IncludeUsage: the usage chunk comes only where it was asked for, once, and no other chunk has figures
// (USE-011).
func TestUSE008IncludeUsage(t *testing.T) {
	for _, c := range []struct {
		request *ir.Request
		want    bool
	}{{nil, false}, {&ir.Request{}, false}, {&ir.Request{IncludeUsage: true}, true}} {
		stream, _ := streamed(ir.Unfold(nil, answers()["text"]), reply(c.request), nil)
		if got := strings.Count(stream, `"choices":[],"usage":{"prompt_tokens":105,"completion_tokens":40,"total_tokens":145`); got != 0 != c.want || got > 1 {
			t.Errorf("%+v: %d usage chunks", c.request, got)
		}
		if nulls := strings.Contains(stream, `"usage":null`); nulls != c.want {
			t.Errorf("usage null: %v", nulls)
		}
		valid(t, stream)
	}
}

// TestEncoderAtOnce: nothing waits that can be said.
func TestEncoderAtOnce(t *testing.T) {
	e := newEncoder(reply(nil))
	for i, ev := range []ir.Event{
		{Kind: ir.EventStart}, {Kind: ir.EventBlock, Start: &ir.Block{Kind: ir.Text}}, {Kind: ir.EventDelta, Text: "x"}, {Kind: ir.EventClose},
		{Kind: ir.EventBlock, Block: 1, Start: &ir.Block{Kind: ir.ToolCall, ID: "c"}}, {Kind: ir.EventDelta, Block: 1, Text: "{"},
	} {
		got := e.Append(nil, &ev)
		if said := len(got) > 0; said != (i != 1 && i != 3) {
			t.Errorf("event %d says %q", i, got)
		}
	}
}

// TestEncoderFault: a broken stream ends with its error and no [DONE] (case_49).
func TestEncoderFault(t *testing.T) {
	events := eventsOf(streams(t)["error_mid"])
	stream, _ := streamed(events, reply(nil), nil)
	if !strings.HasSuffix(stream, `data: {"error":{"message":"busy","type":"server_error","param":null,"code":"server_is_overloaded"}}`+"\n\n") || strings.Contains(stream, done) {
		t.Errorf("%s", stream)
	}
}

// TestEncoderLegacy: a client that speaks of functions reads function_call alone.
func TestEncoderLegacy(t *testing.T) {
	r := decoded(t, `{"functions":[{"name":"ls"}],"messages":[{"role":"user","content":"x"}]}`)
	a := &ir.Answer{Blocks: []ir.Block{callOf("c", "ls", `{"a":1}`), callOf("d", "ls", "{}")}, Stop: ir.Stop{Reason: ir.StopTool}}
	stream, lost := streamed(ir.Unfold(nil, a), reply(r), nil)
	for _, want := range []string{`"delta":{"function_call":{"name":"ls","arguments":""}}`, `"delta":{"function_call":{"arguments":"{\"a\":1}"}}`, `"finish_reason":"function_call"`} {
		if strings.Count(stream, want) != 1 {
			t.Errorf("no %s in\n%s", want, stream)
		}
	}
	same(t, "lost", lost, []string{"function_call"})
	body, lost := appendAnswer(nil, a, reply(r))
	expect(t, body, map[string]string{"choices.0.message.function_call": `{"name":"ls","arguments":"{\"a\":1}"}`, "choices.0.message.tool_calls": "", "choices.0.finish_reason": `"function_call"`})
	same(t, "lost", lost, []string{"function_call"})
}

// TestEncoderHides: OpenRouter's reasoning.exclude.
func TestEncoderHides(t *testing.T) {
	r := decoded(t, `{"reasoning":{"exclude":true},"messages":[]}`)
	stream, _ := streamed(ir.Unfold(nil, answers()["thinking"]), reply(r), nil)
	body, _ := appendAnswer(nil, answers()["thinking"], reply(r))
	if strings.Contains(stream, "reasoning") || strings.Contains(string(body), `reasoning_content`) {
		t.Errorf("%s\n%s", stream, body)
	}
}
