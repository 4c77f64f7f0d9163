package openairesponses

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
	"coding-proxy/proxy/sse"
)

var update = flag.Bool("update", false, "write golden files")

const root = "../../../testdata/openai-responses"

// frame is an event of a stream, copied.
type frame struct{ name, data string }

// framesOf cuts a stream that arrives in pieces.
func framesOf(pieces ...[]byte) []frame {
	var list []frame
	var buf []byte
	for _, p := range pieces {
		buf = append(buf, p...)
		for n := sse.Next(buf); n > 0; n = sse.Next(buf) {
			if name, data := sse.Parse(buf[:n]); len(data) > 0 {
				list = append(list, frame{string(name), string(data)})
			}
			buf = buf[n:]
		}
	}
	return list
}

// decodeFrames gives the events of a stream. The bytes are overwritten after each call: nothing may keep them.
func decodeFrames(frames []frame, owner string) []ir.Event {
	d := newDecoder(ir.Source{Owner: owner, Seed: "abc"})
	var events []ir.Event
	for _, f := range frames {
		name, data := []byte(f.name), []byte(f.data)
		events = d.Event(events, name, data)
		clear(name)
		clear(data)
	}
	if n := len(events); n == 0 || events[n-1].Kind != ir.EventEnd && events[n-1].Kind != ir.EventFault {
		events = d.End(events)
	}
	return events
}

var kinds = map[ir.EventKind]string{
	ir.EventStart: "start", ir.EventBlock: "block", ir.EventDelta: "delta", ir.EventBreak: "break", ir.EventState: "state",
	ir.EventCite: "cite", ir.EventClose: "close", ir.EventUsage: "usage", ir.EventFinish: "finish", ir.EventFault: "fault",
	ir.EventEnd: "end", ir.EventAlive: "alive",
}

var blockKinds = map[ir.BlockKind]string{
	ir.Text: "text", ir.Thinking: "thinking", ir.ToolCall: "call", ir.Refusal: "refusal", ir.HostedCall: "hosted",
	ir.HostedResult: "hosted_result", ir.Opaque: "opaque", ir.Image: "image",
}

// show writes events one a line.
func show(events []ir.Event) string {
	var b strings.Builder
	for i := range events {
		e := &events[i]
		fmt.Fprint(&b, kinds[e.Kind])
		switch e.Kind {
		case ir.EventStart:
			fmt.Fprintf(&b, " %q %q", e.ID, e.Model)
		case ir.EventBlock:
			s := e.Start
			fmt.Fprintf(&b, " %d %s", e.Block, blockKinds[s.Kind])
			for _, f := range [...][2]string{
				{"id", s.ID}, {"item", s.ItemID}, {"namespace", s.Namespace}, {"name", s.Name}, {"form", s.Form},
				{"type", s.Type}, {"raw", string(s.Raw)},
			} {
				if f[1] != "" {
					fmt.Fprintf(&b, " %s=%q", f[0], f[1])
				}
			}
		case ir.EventDelta:
			fmt.Fprintf(&b, " %d %q", e.Block, e.Text)
		case ir.EventState:
			fmt.Fprintf(&b, " %d %+v", e.Block, *e.State)
		case ir.EventCite:
			fmt.Fprintf(&b, " %d %s", e.Block, e.Raw)
		case ir.EventBreak, ir.EventClose:
			fmt.Fprintf(&b, " %d", e.Block)
		case ir.EventUsage:
			fmt.Fprintf(&b, " %+v", e.Usage)
		case ir.EventFinish:
			fmt.Fprintf(&b, " %+v", e.Stop)
		case ir.EventFault:
			fmt.Fprintf(&b, " %+v", *e.Fault)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// golden compares with a file, or writes it.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s:\n got:\n%s\nwant:\n%s", filepath.Base(path), got, want)
	}
}

// fold makes a whole answer of events.
func fold(t *testing.T, events []ir.Event) *ir.Answer {
	t.Helper()
	f := ir.Fold{Limit: 1 << 30}
	for i := range events {
		if err := f.Add(&events[i]); err != nil {
			t.Fatal(err)
		}
	}
	a, fault, ok := f.Answer()
	if fault != nil || !ok {
		t.Fatalf("no end, or a fault: %+v", fault)
	}
	return a
}

// bridged passes events through the Bridge.
func bridged(events []ir.Event, book *ir.ToolBook) []ir.Event {
	b := ir.Bridge{Tools: book}
	var out []ir.Event
	for _, e := range events {
		out = b.Next(out, e)
	}
	return out
}

func reply() ir.Reply {
	return ir.Reply{Request: &ir.Request{}, Model: "shown-model", Seed: "5eed", Created: 1700000000}
}

// encoded is the stream that a client gets of events.
func encoded(t *testing.T, events []ir.Event) (string, []string) {
	t.Helper()
	e := newEncoder(reply())
	var out []byte
	for i := range events {
		out = e.Append(out, &events[i])
	}
	return string(out), e.Lost()
}

func decode(t *testing.T, body string) *ir.Request {
	t.Helper()
	if err := rawjson.Valid([]byte(body)); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	r, err := decodeRequest(ir.Incoming{Body: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func encode(t *testing.T, r *ir.Request, target ir.Target) *ir.Outgoing {
	t.Helper()
	out, err := encodeRequest(r, target)
	if err != nil {
		t.Fatal(err)
	}
	if err := rawjson.Valid(out.Body); err != nil {
		t.Fatalf("%v in %s", err, out.Body)
	}
	return out
}

// input is the input of an encoded request, one item a line.
func input(t *testing.T, out *ir.Outgoing) string {
	t.Helper()
	var lines []string
	err := rawjson.Elements(rawjson.Get(out.Body, "input"), func(_ int, v []byte) error {
		lines = append(lines, string(v))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// wants fails unless got is want, both trimmed.
func wants(t *testing.T, got, want string) {
	t.Helper()
	if strings.TrimSpace(got) != strings.TrimSpace(want) {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// user, said, called and gave are turns of tests.
func user(text string) ir.Turn {
	return ir.Turn{Blocks: []ir.Block{{Kind: ir.Text, Text: text}}}
}

func said(blocks ...ir.Block) ir.Turn { return ir.Turn{Role: ir.Assistant, Blocks: blocks} }

func text(s string) ir.Block { return ir.Block{Kind: ir.Text, Text: s} }

func called(id, name, args string) ir.Block {
	return ir.Block{Kind: ir.ToolCall, ID: id, ToolName: ir.ToolName{Name: name}, Args: args}
}

func gave(id string, content ...ir.Block) ir.Block {
	return ir.Block{Kind: ir.ToolResult, ID: id, Content: content}
}

func results(blocks ...ir.Block) ir.Turn { return ir.Turn{Blocks: blocks} }

// files lists a folder and fails when it is empty.
func files(t testing.TB, pattern string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil || len(list) == 0 {
		t.Fatalf("no %s below %s", pattern, root)
	}
	return list
}

func compact(t *testing.T, raw []byte) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return b.String()
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
