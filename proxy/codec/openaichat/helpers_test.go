package openaichat

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
	"coding-proxy/proxy/sse"
)

var update = flag.Bool("update", false, "write the golden files")

const corpus = "../../../testdata/openai-chat/"

// bodies are the requests of the corpora: ours, the captured ones, and what lies beside the repository.
func bodies(t testing.TB) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for _, pattern := range []string{corpus + "requests/*.json", corpus + "bodies/*.json", "../../../../shared/captures/*.json"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(pattern, "captures") {
				if string(rawjson.Get(b, "path")) != `"/v1/chat/completions"` {
					continue
				}
				b = rawjson.Get(b, "body")
			}
			all[filepath.Base(filepath.Dir(name))+"/"+filepath.Base(name)] = b
		}
	}
	if len(all) == 0 {
		t.Fatal("the corpus of requests is empty")
	}
	return all
}

// decoded reads a request that must be good.
func decoded(t testing.TB, body string) *ir.Request {
	t.Helper()
	if err := rawjson.Valid([]byte(body)); err != nil {
		t.Fatalf("the test's own request: %v", err)
	}
	r, err := decodeRequest(ir.Incoming{Body: []byte(body)})
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	return r
}

// encoded writes a request that must be possible.
func encoded(t testing.TB, r *ir.Request, model string) *ir.Outgoing {
	t.Helper()
	out, err := encodeRequest(r, ir.Target{Model: model, Owner: "us"})
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	if err := rawjson.Valid(out.Body); err != nil {
		t.Fatalf("encoded body: %v\n%s", err, out.Body)
	}
	return out
}

// bare is a request without what a trip changes: paths, names, losses.
func bare(r *ir.Request) *ir.Request {
	c := *r
	c.Names, c.Lost = nil, nil
	c.Turns = append([]ir.Turn(nil), r.Turns...)
	c.System = bareBlocks(r.System)
	for i := range c.Turns {
		c.Turns[i].At, c.Turns[i].Blocks = "", bareBlocks(r.Turns[i].Blocks)
	}
	c.Tools = append([]ir.Tool(nil), r.Tools...)
	for i := range c.Tools {
		c.Tools[i].At = ""
	}
	return &c
}

func bareBlocks(blocks []ir.Block) []ir.Block {
	out := append([]ir.Block(nil), blocks...)
	for i := range out {
		out[i].At, out[i].Content = "", bareBlocks(out[i].Content)
		if out[i].Kind == ir.ToolResult {
			out[i].Name = "" // it comes from the deprecated form alone
		}
	}
	return out
}

// same compares values by what they print.
func same(t testing.TB, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		g, _ := json.MarshalIndent(got, "", " ")
		w, _ := json.MarshalIndent(want, "", " ")
		if bytes.Equal(g, w) {
			g, w = []byte(fmt.Sprintf("%#v", got)), []byte(fmt.Sprintf("%#v", want))
		} else if len(g) > 400 {
			gl, wl := bytes.Split(g, []byte("\n")), bytes.Split(w, []byte("\n"))
			for i := range min(len(gl), len(wl)) {
				if !bytes.Equal(gl[i], wl[i]) {
					from := max(0, i-25)
					g, w = bytes.Join(gl[from:min(len(gl), i+3)], []byte("\n")), bytes.Join(wl[from:min(len(wl), i+3)], []byte("\n"))
					break
				}
			}
		}
		t.Errorf("%s:\ngot  %s\nwant %s", what, g, w)
	}
}

// member is a value inside JSON by its path: "messages.1.content".
func member(b []byte, path string) string {
	for _, name := range strings.Split(path, ".") {
		if len(b) > 0 && b[0] == '[' {
			var found []byte
			_ = rawjson.Elements(b, func(i int, v []byte) error {
				if fmt.Sprint(i) == name {
					found = v
				}
				return nil
			})
			b = found
			continue
		}
		b = rawjson.Get(b, name)
	}
	return string(b)
}

// expect compares members of JSON; "" says that there must be none.
func expect(t testing.TB, body []byte, want map[string]string) {
	t.Helper()
	for path, value := range want {
		if got := member(body, path); got != value {
			t.Errorf("%s: got %s, want %s\nin %s", path, got, value, body)
		}
	}
}

// frames cuts bytes into events and gives them to see. What is no whole event is left.
func frames(b []byte, see func(name, data []byte)) []byte {
	for {
		n := sse.Next(b)
		if n == 0 {
			return b
		}
		if name, data := sse.Parse(b[:n]); name != nil || data != nil {
			see(name, data)
		}
		b = b[n:]
	}
}

// eventsOf decodes a stream that arrives in the pieces given.
func eventsOf(pieces ...[]byte) []ir.Event {
	d := newDecoder(ir.Source{Owner: "up", Seed: "5eed"})
	var events []ir.Event
	var held []byte
	for _, p := range pieces {
		held = append(held, p...)
		held = append([]byte(nil), frames(held, func(name, data []byte) { events = d.Event(events, name, data) })...)
	}
	return d.End(events)
}

// print writes events as text, one a line.
func printed(events []ir.Event) string {
	var b strings.Builder
	for _, e := range events {
		switch e.Kind {
		case ir.EventStart:
			fmt.Fprintf(&b, "start %q %q\n", e.ID, e.Model)
		case ir.EventBlock:
			s := e.Start
			fmt.Fprintf(&b, "block %d %s", e.Block, kindNames[s.Kind])
			if s.Kind == ir.ToolCall {
				fmt.Fprintf(&b, " %q %q form=%q", s.ID, s.Name, s.Form)
			}
			if s.State != nil {
				fmt.Fprintf(&b, " state=%q", s.State.Owner+"/"+s.State.Data)
			}
			if s.Media != (ir.Media{}) {
				fmt.Fprintf(&b, " media=%+v", s.Media)
			}
			if s.Raw != nil {
				fmt.Fprintf(&b, " %s %s", s.Type, s.Raw)
			}
			b.WriteByte('\n')
		case ir.EventDelta:
			fmt.Fprintf(&b, "delta %d %q\n", e.Block, e.Text)
		case ir.EventBreak:
			fmt.Fprintf(&b, "break %d\n", e.Block)
		case ir.EventState:
			fmt.Fprintf(&b, "state %d %q\n", e.Block, e.State.Owner+"/"+e.State.Data)
		case ir.EventCite:
			fmt.Fprintf(&b, "cite %d %s\n", e.Block, e.Raw)
		case ir.EventClose:
			fmt.Fprintf(&b, "close %d\n", e.Block)
		case ir.EventUsage:
			fmt.Fprintf(&b, "usage %+v\n", e.Usage)
		case ir.EventFinish:
			fmt.Fprintf(&b, "finish %+v\n", e.Stop)
		case ir.EventFault:
			fmt.Fprintf(&b, "fault %+v\n", *e.Fault)
		case ir.EventEnd:
			b.WriteString("end\n")
		case ir.EventAlive:
			b.WriteString("alive\n")
		}
	}
	return b.String()
}

var kindNames = map[ir.BlockKind]string{
	ir.Text: "text", ir.Thinking: "thinking", ir.ToolCall: "call", ir.Refusal: "refusal", ir.Image: "image", ir.Opaque: "opaque",
}

// folded passes events through the bridge and folds them.
func folded(t testing.TB, events []ir.Event, tools *ir.ToolBook) (*ir.Answer, *ir.Fault) {
	t.Helper()
	f := ir.Fold{Limit: 1 << 24}
	for _, e := range bridged(events, tools) {
		if err := f.Add(&e); err != nil {
			t.Fatal(err)
		}
	}
	a, fault, ok := f.Answer()
	if !ok {
		t.Fatalf("the answer has not ended:\n%s", printed(events))
	}
	return a, fault
}

func bridged(events []ir.Event, tools *ir.ToolBook) []ir.Event {
	b := ir.Bridge{Tools: tools}
	var out []ir.Event
	for _, e := range events {
		out = b.Next(out, e)
	}
	return out
}
