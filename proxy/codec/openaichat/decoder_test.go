package openaichat

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coding-proxy/proxy/ir"
)

// streams are the upstream streams of the corpus.
func streams(t testing.TB) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob(corpus + "streams/*.sse")
	if err != nil || len(names) == 0 {
		t.Fatal("the corpus of streams is empty", err)
	}
	all := map[string][]byte{}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(filepath.Base(name), ".sse")] = b
	}
	return all
}

// TestDecoderStreams compares the events of each stream with the golden ones, wherever its bytes are cut (SSE-005,
// SSE-007) and with each kind of line end.
func TestDecoderStreams(t *testing.T) {
	for name, b := range streams(t) {
		t.Run(name, func(t *testing.T) {
			got := printed(eventsOf(b))
			golden := corpus + "streams/" + name + ".events"
			if *update {
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
			for i := range b {
				if cut := printed(eventsOf(b[:i], b[i:])); cut != got {
					t.Fatalf("cut at %d:\n%s\nwant\n%s", i, cut, got)
				}
			}
			crlf := bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n"))
			if other := printed(eventsOf(crlf)); other != got {
				t.Errorf("with CRLF:\n%s\nwant\n%s", other, got)
			}
			checkEvents(t, eventsOf(b))
		})
	}
}

// checkEvents holds events against what ir.Decoder promises.
func checkEvents(t testing.TB, events []ir.Event) {
	t.Helper()
	next, open, over := 0, map[int]ir.BlockKind{}, false
	for _, e := range events {
		if over {
			t.Fatalf("an event after the end:\n%s", printed(events))
		}
		switch e.Kind {
		case ir.EventBlock:
			if e.Block != next {
				t.Fatalf("block %d begins, %d was next:\n%s", e.Block, next, printed(events))
			}
			if e.Start.Text != "" || e.Start.Args != "" {
				t.Fatal("a block begins with text")
			}
			open[e.Block] = e.Start.Kind
			next++
		case ir.EventDelta, ir.EventBreak, ir.EventState, ir.EventCite, ir.EventClose:
			if _, ok := open[e.Block]; !ok {
				t.Fatalf("block %d is not open:\n%s", e.Block, printed(events))
			}
			if e.Kind == ir.EventDelta && e.Text == "" {
				t.Fatal("an empty delta")
			}
			if e.Kind == ir.EventClose {
				delete(open, e.Block)
			}
		case ir.EventEnd:
			if len(open) > 0 {
				t.Fatalf("blocks are open at the end:\n%s", printed(events))
			}
			over = true
		case ir.EventFault:
			over = true
		}
	}
}

// plainOf makes the plain answer that a server would give instead of the stream of one text, reasoning and calls.
func plainOf(t *testing.T, stream []byte) []byte {
	t.Helper()
	type function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	type toolCall struct {
		ID       string   `json:"id"`
		Type     string   `json:"type"`
		Function function `json:"function"`
	}
	var message struct {
		Role      string     `json:"role"`
		Content   string     `json:"content"`
		Reasoning string     `json:"reasoning_content,omitempty"`
		ToolCalls []toolCall `json:"tool_calls,omitempty"`
	}
	message.Role = "assistant"
	reason, spent := "", json.RawMessage("null")
	frames(stream, func(_, data []byte) {
		var c struct {
			Choices []struct {
				Delta struct {
					Content   string `json:"content"`
					Reasoning string `json:"reasoning_content"`
					ToolCalls []struct {
						toolCall
						Index int `json:"index"`
					} `json:"tool_calls"`
				} `json:"delta"`
				FinishReason string `json:"finish_reason"`
			} `json:"choices"`
			Usage json.RawMessage `json:"usage"`
		}
		if string(data) == done {
			return
		}
		if err := json.Unmarshal(data, &c); err != nil {
			t.Fatal(err)
		}
		if len(c.Usage) > 0 {
			spent = c.Usage
		}
		for _, k := range c.Choices {
			message.Content += k.Delta.Content
			message.Reasoning += k.Delta.Reasoning
			if k.FinishReason != "" {
				reason = k.FinishReason
			}
			for _, call := range k.Delta.ToolCalls {
				for len(message.ToolCalls) <= call.Index {
					message.ToolCalls = append(message.ToolCalls, toolCall{Type: "function"})
				}
				to := &message.ToolCalls[call.Index]
				to.ID += call.ID
				to.Function.Name += call.Function.Name
				to.Function.Arguments += call.Function.Arguments
			}
		}
	})
	m, err := json.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	return []byte(`{"id":"chatcmpl-up","object":"chat.completion","created":1,"model":"up-model","choices":[{"index":0,"message":` +
		string(m) + `,"finish_reason":"` + reason + `"}],"usage":` + string(spent) + `}`)
}

// TestPlainEqualsStream: a plain answer is the fold of its events.
func TestPlainEqualsStream(t *testing.T) {
	all := streams(t)
	for _, name := range []string{"text", "thinking_text", "parallel", "interleaved", "empty_args", "shards", "length_in_call", "role_only", "content_filter"} {
		t.Run(name, func(t *testing.T) {
			events, err := decodeAnswer(plainOf(t, all[name]), ir.Source{Owner: "up", Seed: "5eed"})
			if err != nil {
				t.Fatal(err)
			}
			checkEvents(t, events)
			got, _ := folded(t, events, nil)
			want, _ := folded(t, eventsOf(all[name]), nil)
			same(t, "answer", got, want)
		})
	}
}

func TestDecodeAnswerRefuses(t *testing.T) {
	for _, body := range []string{``, `null`, `[]`, `{}`, `{"choices":[]}`, `{"choices":{}}`, `<html>`, `{"choices":[{}`, `{"type":"message","content":[]}`} {
		if events, err := decodeAnswer([]byte(body), ir.Source{}); err == nil {
			t.Errorf("%s: no error, events\n%s", body, printed(events))
		}
	}
	events, err := decodeAnswer([]byte(`{"error":{"message":"no","type":"server_error"}}`), ir.Source{})
	if err != nil || len(events) != 1 || events[0].Kind != ir.EventFault {
		t.Errorf("an error body: %v, %v", events, err)
	}
}

// TestDecoderBounded: what is held back while a call is half said has a limit, and the call is not lost.
func TestDecoderBounded(t *testing.T) {
	d := newDecoder(ir.Source{Owner: "up", Seed: "5eed"})
	events := d.Event(nil, nil, []byte(`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{"}}]}}]}`))
	piece := []byte(`{"choices":[{"delta":{"content":"` + strings.Repeat("x", 1000) + `"}}]}`)
	for range 100 {
		events = d.Event(events, nil, piece)
	}
	if d.waitingSize > maxWaiting {
		t.Errorf("%d bytes are held", d.waitingSize)
	}
	events = d.Event(events, nil, []byte(done))
	checkEvents(t, events)
	a, _ := folded(t, events, nil)
	if len(a.Blocks) != 2 || a.Blocks[0].Args != "{" || len(a.Blocks[1].Text) != 100_000 {
		t.Errorf("got %d blocks", len(a.Blocks))
	}
}

// TestEndIsNoEnd: a body that ends before a reason was said is broken.
func TestEndIsNoEnd(t *testing.T) {
	for name, want := range map[string]bool{"no_terminal": false, "no_done": true, "text": true} {
		events := eventsOf(streams(t)[name])
		if got := events[len(events)-1].Kind == ir.EventEnd; got != want {
			t.Errorf("%s: ended %v, want %v", name, got, want)
		}
	}
}
