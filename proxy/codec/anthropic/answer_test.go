package anthropic

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/sse"
)

// update writes the golden files anew: go test -update.
var update = flag.Bool("update", false, "write golden files")

// golden compares a text with a file.
func golden(tb testing.TB, file, got string) {
	tb.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			tb.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	if got != string(want) {
		tb.Errorf("%s:\n got\n%s\nwant\n%s", file, got, want)
	}
}

func streams(tb testing.TB) map[string][]byte {
	tb.Helper()
	files, _ := filepath.Glob(corpus + "/streams/*.sse")
	if len(files) == 0 {
		tb.Fatal("no streams in the corpus")
	}
	out := map[string][]byte{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			tb.Fatal(err)
		}
		out[strings.TrimSuffix(filepath.Base(f), ".sse")] = b
	}
	return out
}

func theSource() ir.Source { return ir.Source{Owner: "anthropic/a", Seed: "5eed"} }

// read decodes a stream that arrives in pieces.
func read(pieces ...[]byte) []ir.Event {
	d := newDecoder(theSource())
	var events []ir.Event
	var buf []byte
	one := func(event []byte) {
		name, data := sse.Parse(event)
		data = bytes.Clone(data)
		events = d.Event(events, bytes.Clone(name), data)
		for i := range data { // neither is valid after the call
			data[i] = 'x'
		}
	}
	for _, p := range pieces {
		buf = append(buf, p...)
		for n := sse.Next(buf); n > 0; n = sse.Next(buf) {
			one(buf[:n])
			buf = buf[n:]
		}
	}
	if len(buf) > 0 {
		one(buf)
	}
	return d.End(events)
}

// tell writes events as text.
func tell(events []ir.Event) string {
	kinds := [...]string{ir.Text: "text", ir.Image: "image", ir.Thinking: "thinking", ir.ToolCall: "call", ir.Refusal: "refusal", ir.HostedCall: "hosted-call", ir.HostedResult: "hosted-result", ir.Opaque: "opaque"}
	var b strings.Builder
	for _, e := range events {
		switch e.Kind {
		case ir.EventStart:
			fmt.Fprintf(&b, "start %q %q\n", e.ID, e.Model)
		case ir.EventBlock:
			fmt.Fprintf(&b, "block %d %s", e.Block, kinds[e.Start.Kind])
			if e.Start.ID != "" || e.Start.Name != "" {
				fmt.Fprintf(&b, " id=%q name=%q", e.Start.ID, e.Start.Name)
			}
			if e.Start.Raw != nil {
				fmt.Fprintf(&b, " type=%q raw=%s", e.Start.Type, e.Start.Raw)
			}
			b.WriteString("\n")
		case ir.EventDelta:
			fmt.Fprintf(&b, "delta %d %q\n", e.Block, e.Text)
		case ir.EventBreak:
			fmt.Fprintf(&b, "break %d\n", e.Block)
		case ir.EventState:
			fmt.Fprintf(&b, "state %d %+v\n", e.Block, *e.State)
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

// orderly checks what is promised of a decoder's events.
func orderly(events []ir.Event) string {
	open := map[int]bool{}
	next, ended := 0, false
	for i, e := range events {
		if ended {
			return "an event after the end"
		}
		switch e.Kind {
		case ir.EventBlock:
			if e.Block != next || e.Start == nil || e.Start.Kind == 0 || e.Start.Text != "" || e.Start.Args != "" {
				return fmt.Sprintf("event %d: a bad block %d", i, e.Block)
			}
			open[next] = true
			next++
		case ir.EventDelta, ir.EventBreak, ir.EventState, ir.EventCite, ir.EventClose:
			if !open[e.Block] || e.Kind == ir.EventDelta && e.Text == "" {
				return fmt.Sprintf("event %d: block %d is not open", i, e.Block)
			}
			if e.Kind == ir.EventClose {
				delete(open, e.Block)
			}
		case ir.EventFault:
			ended = true
		case ir.EventEnd:
			if ended = true; len(open) > 0 {
				return "an end with open blocks"
			}
		}
	}
	return ""
}

// Each stream of the corpus means what stands beside it: with any line ends, and however it is cut.
func TestStreams(t *testing.T) {
	for name, stream := range streams(t) {
		t.Run(name, func(t *testing.T) {
			want := tell(read(stream))
			golden(t, corpus+"/streams/"+name+".events", want)
			if problem := orderly(read(stream)); problem != "" {
				t.Error(problem)
			}
			if got := tell(read(bytes.ReplaceAll(bytes.ReplaceAll(stream, []byte("\r\n"), []byte("\n")), []byte("\n"), []byte("\r\n")))); got != want {
				t.Errorf("with CRLF:\n%s", got)
			}
			for cut := 0; cut <= len(stream); cut++ {
				if got := tell(read(stream[:cut], stream[cut:])); got != want {
					t.Fatalf("cut at %d:\n%s", cut, got)
				}
			}
		})
	}
}

// fold makes an answer of events through the Bridge.
func fold(tb testing.TB, events []ir.Event) (*ir.Answer, *ir.Fault) {
	tb.Helper()
	var bridge ir.Bridge
	f := ir.Fold{Limit: 1 << 20}
	for _, e := range events {
		for _, g := range bridge.Next(nil, e) {
			if err := f.Add(&g); err != nil {
				tb.Fatal(err)
			}
		}
	}
	a, fault, ok := f.Answer()
	if !ok {
		tb.Fatalf("not ended:\n%s", tell(events))
	}
	return a, fault
}

// A plain answer says what its stream says.
func TestPlainAnswers(t *testing.T) {
	for name, stream := range streams(t) {
		m, failed, err := strictClient(stream)
		if err != nil || failed {
			continue // not a stream that every client understands
		}
		switch name {
		case "args_in_shards", "surrogate_halves", "length", "CNV-040_input_at_start": // the test's client gives them another form
			continue
		}
		t.Run(name, func(t *testing.T) {
			plain := []byte(jsonText(m))
			events, err := decodeAnswer(plain, theSource())
			if err != nil || orderly(events) != "" {
				t.Fatalf("%v %s", err, orderly(events))
			}
			want, _ := fold(t, read(stream))
			got, _ := fold(t, events)
			for i := range want.Blocks {
				if want.Blocks[i].Args == "{}" {
					want.Blocks[i].Args = "" // a plain answer cannot tell the two apart
				}
			}
			if jsonText(got) != jsonText(want) {
				t.Errorf("\n got %s\nwant %s", jsonText(got), jsonText(want))
			}
		})
	}
	for _, body := range []string{``, `[]`, `{}`, `{"type":"list","data":[]}`, `{"choices":[]}`, `null`, `{"content":"x"}`} {
		if events, err := decodeAnswer([]byte(body), theSource()); err == nil {
			t.Errorf("%s: %s", body, tell(events))
		}
	}
	if got := tell(must(decodeAnswer([]byte(`{"type":"error","error":{"type":"overloaded_error","message":"m"}}`), theSource()))); !strings.HasPrefix(got, "fault {Status:529") {
		t.Error(got)
	}
}

func must(events []ir.Event, _ error) []ir.Event { return events }

// A block that is too long to hold back ends the answer.
func TestHostedCallsAreBounded(t *testing.T) {
	d := newDecoder(theSource())
	events := d.Event(nil, []byte("content_block_start"), []byte(`{"index":0,"content_block":{"type":"server_tool_use","id":"s","name":"x","input":{}}}`))
	piece := []byte(`{"index":0,"delta":{"type":"input_json_delta","partial_json":"` + strings.Repeat("x", 1<<20) + `"}}`)
	for range 20 {
		events = d.Event(events, []byte("content_block_delta"), piece)
	}
	if len(events) != 1 || events[0].Kind != ir.EventFault {
		t.Errorf("%s", tell(events))
	}
}

// FuzzDecoder: whatever comes, events are in order and memory stays bounded by what came.
func FuzzDecoder(f *testing.F) {
	for _, s := range streams(f) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		events := read(stream)
		if problem := orderly(events); problem != "" {
			t.Fatalf("%s\n%s", problem, tell(events))
		}
		if len(events) > 2*len(stream)+4 {
			t.Fatalf("%d events of %d bytes", len(events), len(stream))
		}
		out := encodeAll(events)
		if len(events) > 0 && (events[len(events)-1].Kind == ir.EventEnd || events[len(events)-1].Kind == ir.EventFault) {
			if m, _, err := strictClient(out); err != nil && !(m == nil && events[len(events)-1].Kind == ir.EventFault) {
				t.Fatalf("%v\n%s\n%s", err, tell(events), out)
			}
		}
		_, _ = decodeAnswer(stream, theSource())
	})
}

// theReply is what the encoders of the tests know.
func theReply() ir.Reply {
	return ir.Reply{Request: &ir.Request{Names: &names}, Model: "claude-shown", Seed: "abc123"}
}

// encodeAll writes events as a stream, through the Bridge.
func encodeAll(events []ir.Event) []byte {
	e := newEncoder(theReply())
	var bridge ir.Bridge
	var out []byte
	for _, ev := range events {
		for _, g := range bridge.Next(nil, ev) {
			out = e.Append(out, &g)
		}
	}
	return out
}

func begin(n int, b ir.Block) ir.Event { return ir.Event{Kind: ir.EventBlock, Block: n, Start: &b} }
func more(n int, s string) ir.Event    { return ir.Event{Kind: ir.EventDelta, Block: n, Text: s} }
func done(n int) ir.Event              { return ir.Event{Kind: ir.EventClose, Block: n} }
func state(n int, s ir.State) ir.Event { return ir.Event{Kind: ir.EventState, Block: n, State: &s} }
func finish(r ir.StopReason) ir.Event {
	return ir.Event{Kind: ir.EventFinish, Stop: ir.Stop{Reason: r}}
}

// answers are canonical events of answers.
func answers() map[string][]ir.Event {
	start := ir.Event{Kind: ir.EventStart, ID: "chatcmpl-1", Model: "gpt"}
	end := ir.Event{Kind: ir.EventEnd}
	use := ir.Event{Kind: ir.EventUsage, Usage: ir.Usage{Input: 100, CacheRead: 900, Output: 7, Reasoning: 3, Known: ir.UsageInput | ir.UsageCacheRead | ir.UsageOutput | ir.UsageReasoning}}
	text, thinking := ir.Block{Kind: ir.Text}, ir.Block{Kind: ir.Thinking}
	f, g := callOf("call_1", "f", ""), callOf("call_2", "g", "")
	signed := f
	signed.State = &ir.State{Owner: "gemini/x", Data: "SIG"}
	return map[string][]ir.Event{
		"text":                         {start, begin(0, text), more(0, "Hel"), more(0, "lo\n<&>"), done(0), use, finish(ir.StopEnd), end},
		"case_01_thinking_first":       {start, begin(0, thinking), more(0, "Hm"), state(0, ir.State{Owner: "chat/x"}), done(0), begin(1, text), more(1, "Hi"), done(1), finish(ir.StopEnd), end},
		"case_04_thinking_again":       {start, begin(0, thinking), more(0, "A"), state(0, ir.State{Owner: "r/x", Data: "E1"}), done(0), begin(1, f), more(1, "{}"), done(1), begin(2, thinking), more(2, "B"), state(2, ir.State{Owner: "r/x", Data: "E2"}), done(2), finish(ir.StopTool), end},
		"case_07_interleaved_calls":    {start, begin(0, f), begin(1, g), more(1, `{"b"`), more(0, `{"a":`), more(1, `:2}`), done(1), more(0, `1}`), done(0), begin(2, text), more(2, "x"), done(2), finish(ir.StopTool), end},
		"case_08_open_to_the_end":      {start, begin(0, f), more(0, `{"a"`), begin(1, g), more(1, `{}`), more(0, `:1}`), finish(ir.StopTool), end},
		"case_10_text_between_calls":   {start, begin(0, f), more(0, "{}"), done(0), begin(1, text), more(1, "\n"), done(1), begin(2, g), done(2), finish(ir.StopTool), end},
		"case_12_signature_only":       {start, begin(0, thinking), state(0, ir.State{Owner: "r/x", Data: "gAAAA"}), done(0), begin(1, f), more(1, "{}"), done(1), finish(ir.StopEnd), end},
		"case_13_call_without_a_name":  {start, begin(0, callOf("", "", "")), done(0), finish(ir.StopTool), end},
		"CNV-034_phantom_call":         {start, begin(0, text), more(0, "x"), done(0), finish(ir.StopTool), end},
		"CNV-036_cut_call":             {start, begin(0, f), more(0, `{"path":"/a`), finish(ir.StopLength), end},
		"CNV-008_ids":                  {start, begin(0, callOf("functions.read:0", "f", "")), done(0), begin(1, callOf("", "g", "")), done(1), finish(ir.StopTool), end},
		"case_19_20_21_23_usage":       {start, begin(0, text), more(0, "x"), done(0), {Kind: ir.EventUsage, Usage: ir.Usage{Input: 100, CacheRead: 900, CacheCreation: 50, Output: 5, Reasoning: 2, Known: 31}}, finish(ir.StopEnd), end},
		"case_24_stop_sequence":        {start, begin(0, text), more(0, "x"), done(0), {Kind: ir.EventFinish, Stop: ir.Stop{Reason: ir.StopSequence, Sequence: "END"}}, end},
		"case_48_fault":                {start, {Kind: ir.EventFault, Fault: &ir.Fault{Status: 500, Kind: ir.KindAPI, Type: "server_error", Message: "m"}}, end},
		"case_49_fault_after_text":     {start, begin(0, text), more(0, "x"), {Kind: ir.EventFault, Fault: &ir.Fault{Status: 503, Kind: ir.KindOverloaded, Message: "m"}}, more(0, "y"), end},
		"too_long":                     {start, {Kind: ir.EventFault, Fault: &ir.Fault{Status: 400, Kind: ir.KindInvalid, Code: ir.CodeTooLong, Message: "context window"}}},
		"SSE-030_usage_after_finish":   {start, begin(0, text), more(0, "x"), done(0), finish(ir.StopEnd), use, end},
		"SSE-031_no_reason":            {start, begin(0, text), more(0, "x"), end},
		"SSE-017_pings":                {start, {Kind: ir.EventAlive}, begin(0, text), more(0, "x"), {Kind: ir.EventAlive}, done(0), finish(ir.StopEnd), end},
		"nothing":                      {start, finish(ir.StopEnd), end},
		"redacted":                     {start, begin(0, thinking), state(0, ir.State{Owner: "anthropic/b", Data: "D", Redacted: true}), done(0), begin(1, text), more(1, "x"), done(1), finish(ir.StopEnd), end},
		"signed_call":                  {start, begin(0, signed), more(0, "{}"), done(0), begin(1, g), done(1), finish(ir.StopTool), end},
		"summary_parts":                {start, begin(0, thinking), more(0, "A"), {Kind: ir.EventBreak, Block: 0}, more(0, "B"), {Kind: ir.EventBreak, Block: 0}, done(0), finish(ir.StopEnd), end},
		"refusal":                      {start, begin(0, ir.Block{Kind: ir.Refusal}), more(0, "No."), done(0), finish(ir.StopEnd), end},
		"refused_prompt":               {start, {Kind: ir.EventFinish, Stop: ir.Stop{Reason: ir.StopRefusal, Native: "SAFETY", Text: "because"}}, end},
		"context":                      {start, begin(0, text), more(0, "x"), done(0), finish(ir.StopContext), end},
		"unsayable":                    {start, begin(0, ir.Block{Kind: ir.Opaque, Type: "odd", Raw: []byte("{}")}), done(0), begin(1, ir.Block{Kind: ir.Image, Media: ir.Media{Data: "A"}}), done(1), begin(2, text), more(2, "x"), {Kind: ir.EventCite, Block: 2, Raw: []byte("{}")}, done(2), begin(3, ir.Block{Kind: ir.HostedCall, Type: "web_search_call"}), done(3), finish(ir.StopEnd), end},
		"unsayable_while_a_call_waits": {start, begin(0, f), begin(1, ir.Block{Kind: ir.Opaque, Type: "odd"}), done(1), begin(2, thinking), more(2, "T"), state(2, ir.State{Owner: "r/x", Data: "E"}), done(2), more(0, "{}"), done(0), finish(ir.StopEnd), end},
	}
}

// Canonical answers are streams as they stand in the corpus, which a strict client understands, and the plain answer is
// what that client makes of the stream.
func TestAnswers(t *testing.T) {
	for name, events := range answers() {
		t.Run(name, func(t *testing.T) {
			stream := encodeAll(events)
			golden(t, corpus+"/answers/"+name+".sse", string(stream))
			m, failed, err := strictClient(stream)
			if err != nil {
				t.Fatalf("%v\n%s", err, stream)
			}
			a, fault := fold(t, events)
			if (fault != nil) != failed {
				t.Fatalf("fault %v", fault)
			}
			if failed {
				return
			}
			body, _ := appendAnswer([]byte("before"), a, theReply())
			var plain folded
			decodeJSON(t, body[len("before"):], &plain)
			if jsonText(normal(t, m)) != jsonText(normal(t, &plain)) {
				t.Errorf("\n plain %s\nstream %s", jsonText(plain), jsonText(m))
			}
		})
	}
}

func TestLossesOfAnswers(t *testing.T) {
	e := newEncoder(theReply())
	events := answers()["unsayable"]
	for i := range events {
		e.Append(nil, &events[i])
	}
	a, _ := fold(t, events)
	_, plain := appendAnswer(nil, a, theReply())
	if want := []string{"opaque.odd", "image", "citations", "opaque.web_search_call"}; !reflect.DeepEqual(e.Lost(), want) || !reflect.DeepEqual(plain, want) {
		t.Errorf("%q %q", e.Lost(), plain)
	}
}

// What we seal comes back to its owner, and to nobody else.
func TestSealsComeBack(t *testing.T) {
	for _, name := range []string{"case_04_thinking_again", "case_12_signature_only", "signed_call", "redacted", "case_01_thinking_first"} {
		a, _ := fold(t, answers()[name])
		body, _ := appendAnswer(nil, a, theReply())
		var m folded
		decodeJSON(t, body, &m)
		r := decode(t, `{"messages":[{"role":"assistant","content":`+jsonText(m.Content)+`}]}`)
		blocks := r.Turns[0].Blocks
		if len(blocks) != len(a.Blocks) {
			t.Fatalf("%s: %d blocks, want %d: %s", name, len(blocks), len(a.Blocks), body)
		}
		for i := range blocks {
			got, want := blocks[i].State, a.Blocks[i].State
			if (got == nil) != (want == nil) || got != nil && (got.Owner != want.Owner || got.Data != want.Data || got.Redacted != want.Redacted) || blocks[i].Kind != a.Blocks[i].Kind {
				t.Errorf("%s: %+v, want %+v", name, got, want)
			}
		}
	}
}

// The first piece of text goes out at once, a call's pieces too.
func TestNothingWaits(t *testing.T) {
	e := newEncoder(theReply())
	events := answers()["text"]
	for i, want := range []int{1, 0, 2, 1, 1, 0, 1, 1} {
		if got := bytes.Count(e.Append(nil, &events[i]), []byte("event: ")); got != want {
			t.Errorf("event %d: %d wire events, want %d", i, got, want)
		}
	}
}

// Waiting blocks are bounded: what is too much ends the answer.
func TestWaitingBlocksAreBounded(t *testing.T) {
	e := newEncoder(theReply())
	var out []byte
	for _, ev := range []ir.Event{{Kind: ir.EventStart}, begin(0, callOf("a", "f", "")), begin(1, callOf("b", "g", ""))} {
		out = e.Append(out, &ev)
	}
	piece := more(1, strings.Repeat("x", 1<<20))
	for range 20 {
		out = e.Append(out, &piece)
	}
	if !strings.Contains(string(out), "event: error\n") || e.kept > maxBuffered+1<<20 {
		t.Errorf("%d bytes wait", e.kept)
	}
	if got := e.Append(nil, &ir.Event{Kind: ir.EventEnd}); len(got) > 0 {
		t.Errorf("%s", got)
	}
}

// normal is a message with its members in one order.
func normal(tb testing.TB, m *folded) (v any) {
	tb.Helper()
	decodeJSON(tb, []byte(jsonText(m)), &v)
	return v
}
