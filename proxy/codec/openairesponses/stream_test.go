package openairesponses

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// TestStreams decodes every stream of the corpus, however its bytes arrive, and encodes it for a client.
func TestStreams(t *testing.T) {
	for _, path := range files(t, "streams/*.sse") {
		name := strings.TrimSuffix(path, ".sse")
		t.Run(filepath.Base(name), func(t *testing.T) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			frames := framesOf(data)
			events := decodeFrames(frames, "up")
			golden(t, name+".events", show(events))
			sound(t, events)
			for cut := range data {
				if got := framesOf(data[:cut], data[cut:]); !reflect.DeepEqual(got, frames) {
					t.Fatalf("cut at %d: other frames", cut)
				}
			}
			crlf := framesOf([]byte(strings.ReplaceAll(string(data), "\n", "\r\n")))
			if got := show(decodeFrames(crlf, "up")); got != show(events) {
				t.Errorf("with CRLF:\n%s", got)
			}
			if strings.Contains(filepath.Base(name), "no_terminal") {
				return // the relay breaks it
			}
			checkPlain(t, frames, events)
			checkEncoded(t, name, events)
		})
	}
}

// sound checks what every decoder promises of its events.
func sound(t *testing.T, events []ir.Event) {
	t.Helper()
	open, next, over := map[int]bool{}, 0, false
	for i, e := range events {
		if over {
			t.Fatalf("event %d after the end", i)
		}
		switch e.Kind {
		case ir.EventBlock:
			if e.Block != next || e.Start.Text != "" || e.Start.Args != "" {
				t.Fatalf("event %d: block %d, want %d, empty", i, e.Block, next)
			}
			open[e.Block] = true
			next++
		case ir.EventDelta, ir.EventBreak, ir.EventState, ir.EventCite, ir.EventClose:
			if !open[e.Block] || e.Kind == ir.EventDelta && e.Text == "" {
				t.Fatalf("event %d: %s for a closed block, or empty", i, kinds[e.Kind])
			}
			if e.Kind == ir.EventClose {
				open[e.Block] = false
			}
		case ir.EventEnd:
			over = true
			for n, is := range open {
				if is {
					t.Fatalf("block %d is open at the end", n)
				}
			}
		case ir.EventFault:
			over = true
		}
	}
}

// checkPlain decodes the answer of the last event as a plain one: it says the same.
func checkPlain(t *testing.T, frames []frame, events []ir.Event) {
	t.Helper()
	for _, f := range frames {
		response := rawjson.Get([]byte(f.data), "response")
		output := rawjson.Get(response, "output")
		typ := stringOf([]byte(f.data), "type")
		if typ != "response.completed" && typ != "response.incomplete" || !hasElements(output) {
			continue
		}
		plain, err := decodeAnswer(response, ir.Source{Owner: "up", Seed: "abc"})
		if err != nil {
			t.Fatal(err)
		}
		sound(t, plain)
		got, want := fold(t, bridged(plain, nil)), fold(t, bridged(events, nil))
		got.ID, want.ID, got.Model, want.Model = "", "", "", ""
		for i := range want.Blocks { // gateways that change ids
			want.Blocks[i].ItemID = ""
		}
		for i := range got.Blocks {
			got.Blocks[i].ItemID = ""
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("plain:\n%+v\nstream:\n%+v", got, want)
		}
	}
}

// checkEncoded encodes events for a client, checks the stream, and decodes it again.
func checkEncoded(t *testing.T, name string, events []ir.Event) {
	t.Helper()
	events = bridged(events, nil)
	out, lost := encoded(t, events)
	golden(t, name+".out", out+"# lost: "+strings.Join(lost, ", ")+"\n")
	last := validate(t, out)
	if events[len(events)-1].Kind == ir.EventFault {
		return
	}
	want := fold(t, events)
	body, plainLost := appendAnswer(nil, want, reply())
	if string(body) != string(last) {
		t.Errorf("plain answer:\n%s\nof the stream:\n%s", body, last)
	}
	if !reflect.DeepEqual(plainLost, lost) {
		t.Errorf("plain lost %v, stream lost %v", plainLost, lost)
	}
	got := fold(t, bridged(decodeFrames(framesOf([]byte(out)), "us"), nil))
	sameAnswer(t, got, want)
}

// sameAnswer compares what came back through our own stream with what went in.
func sameAnswer(t *testing.T, got, want *ir.Answer) {
	t.Helper()
	var kept []ir.Block
	for _, b := range want.Blocks {
		switch b.Kind {
		case ir.HostedCall, ir.HostedResult, ir.Opaque:
			continue
		case ir.ToolCall:
			if b.Args == "" && b.Form == "" {
				b.Args = "{}"
			}
		}
		kept = append(kept, b)
	}
	if len(got.Blocks) != len(kept) {
		t.Fatalf("%d blocks came back of %d", len(got.Blocks), len(kept))
	}
	for i := range kept {
		g, w := got.Blocks[i], kept[i]
		if g.State != nil {
			s := ir.Unseal(g.State.Data)
			g.State = &s
		}
		g.ItemID, w.ItemID = "", ""
		if !reflect.DeepEqual(g, w) {
			t.Errorf("block %d: got %+v, want %+v", i, g, w)
		}
	}
	g, w := got.Usage, want.Usage
	g.Known, w.Known = 0, 0
	if g != w {
		t.Errorf("usage %+v, want %+v", g, w)
	}
	if got.Stop.Reason != want.Stop.Reason {
		t.Errorf("stop %q, want %q", got.Stop.Reason, want.Stop.Reason)
	}
}

// event is any event of a stream, as a client sees it.
type event struct {
	Type     string
	Sequence *int64 `json:"sequence_number"`
	Output   *int   `json:"output_index"`
	Content  int    `json:"content_index"`
	Summary  int    `json:"summary_index"`
	ItemID   string `json:"item_id"`
	Delta    string
	Text     *string
	Args     *string `json:"arguments"`
	Input    *string
	Refusal  *string
	Item     *struct {
		ID, Type, Status string
		CallID           string `json:"call_id"`
	}
	Part     json.RawMessage
	Response *struct {
		ID     string
		Status string
		Output []json.RawMessage
		Usage  *struct {
			Total         *int64                  `json:"total_tokens"`
			InputDetails  struct{ Cached *int64 } `json:"-"`
			OutputDetails json.RawMessage         `json:"output_tokens_details"`
		}
	}
	Logprobs json.RawMessage
}

// validate checks a stream of ours as strictly as the SDKs do (facts/protocols.md, 3.4) and returns the last response.
func validate(t *testing.T, out string) []byte {
	t.Helper()
	type state struct {
		id, typ, call string
		text          string // of the part that is open
		part, done    bool
	}
	var items []*state
	var done []string
	id, over := "", false
	var last []byte
	n := -1
	for _, f := range framesOf([]byte(out)) {
		if f.name == "keepalive" {
			continue
		}
		n++
		var e event
		if err := json.Unmarshal([]byte(f.data), &e); err != nil {
			t.Fatalf("event %d: %v in %s", n, err, f.data)
		}
		fail := func(format string, args ...any) {
			t.Helper()
			t.Fatalf("event %d %s: %s", n, f.data, fmt.Sprintf(format, args...))
		}
		if over || e.Type != f.name || e.Sequence == nil || *e.Sequence != int64(n) {
			fail("after the end, other name than type, or sequence is not %d", n)
		}
		if want := [...]string{"response.created", "response.in_progress"}; n < 2 && e.Type != want[n] {
			fail("want %s", want[n])
		}
		var s *state
		if e.Output != nil && e.Type != "response.output_item.added" {
			if *e.Output >= len(items) {
				fail("output_index was never added")
			}
			if s = items[*e.Output]; s.done {
				fail("the item is done")
			}
			if e.Item == nil && e.ItemID != s.id {
				fail("other item")
			}
		}
		switch typ := strings.TrimPrefix(e.Type, "response."); typ {
		case "created":
			id = e.Response.ID
		case "output_item.added":
			if *e.Output != len(items) {
				fail("output_index is not %d", len(items))
			}
			items = append(items, &state{id: e.Item.ID, typ: e.Item.Type, call: e.Item.CallID})
		case "content_part.added", "reasoning_summary_part.added":
			if s.part {
				fail("a part is open")
			}
			s.part, s.text = true, ""
		case "output_text.delta", "refusal.delta", "reasoning_summary_text.delta":
			if !s.part {
				fail("no part is open")
			}
			s.text += e.Delta
			if typ == "output_text.delta" && e.Logprobs == nil {
				fail("no logprobs")
			}
		case "function_call_arguments.delta", "custom_tool_call_input.delta":
			s.text += e.Delta
		case "output_text.done", "reasoning_summary_text.done", "refusal.done", "function_call_arguments.done", "custom_tool_call_input.done":
			for _, whole := range [...]*string{e.Text, e.Args, e.Input, e.Refusal} {
				if whole != nil && *whole != s.text && !(s.text == "" && *whole == "{}") {
					fail("deltas said %q", s.text)
				}
			}
		case "content_part.done", "reasoning_summary_part.done":
			if !s.part {
				fail("no part is open")
			}
			s.part = false
		case "output_item.done":
			if s.part || e.Item.ID != s.id || e.Item.Type != s.typ || e.Item.CallID != s.call || e.Item.Status == "in_progress" {
				fail("a part is open, or other identity")
			}
			s.done = true
			for len(done) <= *e.Output {
				done = append(done, "")
			}
			done[*e.Output] = compact(t, rawjson.Get([]byte(f.data), "item"))
		case "completed", "incomplete", "failed":
			over = true
			last = rawjson.Get([]byte(f.data), "response")
			if e.Response.ID != id || e.Response.Status != typ {
				fail("other id or status")
			}
			if typ == "failed" {
				continue
			}
			if len(e.Response.Output) != len(items) {
				fail("%d items in the output of %d", len(e.Response.Output), len(items))
			}
			for i, raw := range e.Response.Output {
				if !items[i].done || compact(t, raw) != done[i] {
					fail("item %d is not done or other than it was", i)
				}
			}
			if u := e.Response.Usage; u == nil || u.Total == nil || u.OutputDetails == nil {
				fail("no whole usage")
			}
		}
	}
	if !over {
		t.Fatal("no last event")
	}
	return last
}
