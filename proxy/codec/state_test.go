package codec_test

import (
	"fmt"
	"strings"
	"testing"

	"coding-proxy/proxy/codec"
	"coding-proxy/proxy/codec/codectest"
	"coding-proxy/proxy/ir"
)

// Opaque state of an upstream goes through every client that has a place for it and comes back to its owner as it was, and
// to nobody else (facts/protocols.md 5.4).
func TestStateReturnsToItsOwner(t *testing.T) {
	const given = "c2lnbmF0dXJlIG9mIHRoZSBtYWtlcg=="
	for _, b := range codec.All() {
		for _, a := range codec.All() {
			if a.Forgets || a.Name == "openai-chat" {
				continue // no slot: the proxy remembers by call id
			}
			for _, onCall := range []bool{false, true} {
				if onCall && (b.Name == "openai-chat" || b.Name != "gemini") {
					continue // Gemini alone signs calls
				}
				t.Run(fmt.Sprintf("%s through %s, of a call %t", b.Name, a.Name, onCall), func(t *testing.T) {
					events := stateAnswer(given, onCall)
					frames, _ := codectest.Frames(codectest.Stream(b, codectest.Bridged(events, nil), codectest.Reply()))
					c := codectest.NewConversion(b, a, codectest.Reply(), nil)
					for _, f := range frames {
						c.Feed(f)
					}
					c.End()
					kept, _ := codectest.Frames(c.Wire)
					answer, _, ok := codectest.FoldOf(codectest.Decode(a, kept, ir.Source{Owner: "the client", Seed: codectest.Seed}), nil)
					if !ok {
						t.Fatalf("%s", c.Wire)
					}
					sameState(t, a, b, answer, given)
				})
			}
		}
	}
}

func stateAnswer(given string, onCall bool) []ir.Event {
	call := &ir.Block{Kind: ir.ToolCall, ID: "call_1", ToolName: ir.ToolName{Name: "Read"}}
	state := &ir.State{Owner: "maker", Data: given}
	events := []ir.Event{{Kind: ir.EventStart}, {Kind: ir.EventBlock, Start: &ir.Block{Kind: ir.Thinking}}, {Kind: ir.EventDelta, Text: "hmm, let me see"}}
	if onCall {
		call.State = state
		state = &ir.State{Owner: "maker", Data: "b3RoZXI="}
	}
	events = append(events, ir.Event{Kind: ir.EventState, State: state}, ir.Event{Kind: ir.EventClose})
	events = append(events, ir.Event{Kind: ir.EventBlock, Block: 1, Start: call}, ir.Event{Kind: ir.EventDelta, Block: 1, Text: `{"a":1}`}, ir.Event{Kind: ir.EventClose, Block: 1})
	return append(events, ir.Event{Kind: ir.EventFinish, Stop: ir.Stop{Reason: ir.StopTool}}, ir.Event{Kind: ir.EventEnd})
}

// sameState sends the client's next request to the upstream.
func sameState(t *testing.T, a, b *ir.Dialect, answer *ir.Answer, given string) {
	t.Helper()
	aModel, bModel := codectest.Models(a)[0], codectest.Models(b)[0]
	text, want := "hmm, let me see", ir.Seal(ir.State{Owner: "maker", Data: given})
	if b.Name == "openai-chat" {
		bModel, want = "deepseek-chat", text // it signs nothing, but wants the text back
	}
	next := &ir.Request{MaxTokens: 1000, Tools: []ir.Tool{{ToolName: ir.ToolName{Name: "Read"}}}, Turns: []ir.Turn{
		{Blocks: []ir.Block{{Kind: ir.Text, Text: "go"}}},
		{Role: ir.Assistant, Blocks: answer.Blocks},
		{Blocks: []ir.Block{{Kind: ir.ToolResult, ID: answer.Blocks[len(answer.Blocks)-1].ID, ToolName: ir.ToolName{Name: "Read"}, Content: []ir.Block{{Kind: ir.Text, Text: "done"}}}}},
	}}
	sent, err := a.EncodeRequest(next, ir.Target{Model: aModel, Owner: "the client"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := a.DecodeRequest(incoming(sent, aModel))
	if err != nil {
		t.Fatal(err)
	}
	for owner, back := range map[string]bool{codectest.Owner: true, "another": false, "": false} {
		out, err := b.EncodeRequest(r, ir.Target{Model: bModel, Owner: owner})
		if err != nil {
			t.Fatal(err)
		}
		has := strings.Contains(string(out.Body), want)
		if b.Name == "openai-chat" && !back {
			continue // its text may go to anybody who takes text
		}
		if has != back {
			t.Errorf("to %q: state is there: %t\nclient: %s\nupstream: %s", owner, has, sent.Body, out.Body)
		}
		if named := strings.Contains(strings.Join(out.Lost, " "), r.Name(ir.FieldThinking)); named == back && b.Name != "openai-chat" {
			t.Errorf("to %q: named as lost: %t, %q", owner, named, out.Lost)
		}
	}
}

// The levels of reasoning (facts/protocols.md 5.5): what a client says and what an upstream is told.
func TestReasoningLevels(t *testing.T) {
	bodies := map[string]func(effort string, budget int) string{
		"anthropic": func(effort string, budget int) string {
			if effort != "" {
				return `{"model":"m","max_tokens":64000,"messages":[{"role":"user","content":"x"}],"thinking":{"type":"adaptive"},"output_config":{"effort":"` + effort + `"}}`
			}
			return fmt.Sprintf(`{"model":"m","max_tokens":64000,"messages":[{"role":"user","content":"x"}],"thinking":{"type":"enabled","budget_tokens":%d}}`, budget)
		},
		"openai-chat": func(effort string, _ int) string {
			return `{"model":"m","messages":[{"role":"user","content":"x"}],"reasoning_effort":"` + effort + `"}`
		},
		"openai-responses": func(effort string, _ int) string {
			return `{"model":"m","input":"x","reasoning":{"effort":"` + effort + `"}}`
		},
		"gemini": func(_ string, budget int) string {
			return fmt.Sprintf(`{"contents":[{"parts":[{"text":"x"}]}],"generationConfig":{"thinkingConfig":{"thinkingBudget":%d}}}`, budget)
		},
	}
	for _, c := range []struct {
		from, effort string
		budget       int
		to, model    string
		want         string
	}{
		{"openai-chat", "none", 0, "anthropic", "claude-sonnet-4-5", `"thinking":{"type":"disabled"}`},
		{"openai-chat", "minimal", 0, "anthropic", "claude-opus-5-5", `"effort":"low"`},
		{"openai-chat", "high", 0, "anthropic", "claude-opus-5-5", `"effort":"high"`},
		{"openai-chat", "high", 0, "anthropic", "claude-sonnet-4-5", `"budget_tokens":24576`},
		{"openai-chat", "medium", 0, "anthropic", "claude-sonnet-4-5", `"budget_tokens":8192`},
		{"openai-chat", "low", 0, "anthropic", "claude-sonnet-4-5", `"budget_tokens":1024`},
		{"openai-chat", "high", 0, "gemini", "gemini-3.8-flash", `"thinkingLevel":"HIGH"`},
		{"openai-chat", "minimal", 0, "gemini", "gemini-3.8-flash", `"thinkingLevel":"MINIMAL"`},
		{"openai-chat", "none", 0, "gemini", "gemini-2.5-flash", `"thinkingBudget":0`},
		{"openai-chat", "medium", 0, "gemini", "gemini-2.5-flash", `"thinkingBudget":8192`},
		{"openai-chat", "xhigh", 0, "openai-responses", "gpt-5.6", `"effort":"xhigh"`},
		{"openai-responses", "low", 0, "openai-chat", "gpt-5.6", `"reasoning_effort":"low"`},
		{"openai-responses", "high", 0, "anthropic", "claude-opus-5-5", `"effort":"high"`},
		{"anthropic", "", 1024, "openai-chat", "gpt-5.6", `"reasoning_effort":"low"`},
		{"anthropic", "", 8192, "openai-chat", "gpt-5.6", `"reasoning_effort":"medium"`},
		{"anthropic", "", 24576, "openai-responses", "gpt-5.6", `"effort":"high"`},
		{"anthropic", "", 30000, "openai-responses", "gpt-5.6", `"effort":"xhigh"`},
		{"anthropic", "", 4000, "gemini", "gemini-2.5-pro", `"thinkingBudget":4000`},
		{"anthropic", "max", 0, "openai-chat", "gpt-5.6", `"reasoning_effort":"xhigh"`},
		{"anthropic", "max", 0, "gemini", "gemini-3.8-flash", `"thinkingLevel":"HIGH"`},
		{"gemini", "", 0, "anthropic", "claude-sonnet-4-5", `"thinking":{"type":"disabled"}`},
		{"gemini", "", 8192, "openai-chat", "gpt-5.6", `"reasoning_effort":"medium"`},
		{"gemini", "", 2048, "anthropic", "claude-sonnet-4-5", `"budget_tokens":2048`},
	} {
		r, err := dialect(t, c.from).DecodeRequest(ir.Incoming{Body: []byte(bodies[c.from](c.effort, c.budget)), Model: "m"})
		if err != nil {
			t.Fatal(err)
		}
		out, err := dialect(t, c.to).EncodeRequest(r, target(c.model))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(out.Body), c.want) {
			t.Errorf("%s %s %d to %s: %s lacks %s", c.from, c.effort, c.budget, c.model, out.Body, c.want)
		}
	}
}

// dialect finds one by its name.
func dialect(t testing.TB, name string) *ir.Dialect {
	t.Helper()
	for _, d := range codec.All() {
		if d.Name == name {
			return d
		}
	}
	t.Fatalf("no dialect %q", name)
	return nil
}
