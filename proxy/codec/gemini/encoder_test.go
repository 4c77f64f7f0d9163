package gemini

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
	"coding-proxy/proxy/sse"
)

var reply = ir.Reply{Model: "shown", Seed: "5eed"}

// answers are canonical lists of events, as a Bridge gives them.
func answers() map[string][]ir.Event {
	start := ir.Event{Kind: ir.EventStart, ID: "up", Model: "m"}
	block := func(n int, b ir.Block) ir.Event { return ir.Event{Kind: ir.EventBlock, Block: n, Start: &b} }
	delta := func(n int, s string) ir.Event { return ir.Event{Kind: ir.EventDelta, Block: n, Text: s} }
	state := func(n int, owner, data string) ir.Event {
		return ir.Event{Kind: ir.EventState, Block: n, State: &ir.State{Owner: owner, Data: data}}
	}
	closed := func(n int) ir.Event { return ir.Event{Kind: ir.EventClose, Block: n} }
	usage := ir.Event{Kind: ir.EventUsage, Usage: ir.Usage{Input: 10, CacheRead: 90, CacheCreation: 5, Output: 20, Reasoning: 8, Known: 31}}
	end := func(reason ir.StopReason) []ir.Event {
		return []ir.Event{{Kind: ir.EventFinish, Stop: ir.Stop{Reason: reason}}, {Kind: ir.EventEnd}}
	}
	list := func(reason ir.StopReason, events ...ir.Event) []ir.Event {
		return append(append([]ir.Event{start}, events...), end(reason)...)
	}
	tc := func(id, name string) ir.Block {
		return ir.Block{Kind: ir.ToolCall, ID: id, ToolName: ir.ToolName{Name: name}}
	}
	signed := tc("c1", "f")
	signed.State = &ir.State{Owner: "up-2", Data: "sig"}
	custom := tc("c1", "apply_patch")
	custom.Form = ir.FormCustom
	return map[string][]ir.Event{
		"text":         list(ir.StopEnd, block(0, ir.Block{Kind: ir.Text}), delta(0, "Hel"), delta(0, "lo \"<é>\n"), closed(0), usage),
		"empty":        list(ir.StopEnd),
		"thinking":     list(ir.StopEnd, block(0, ir.Block{Kind: ir.Thinking}), delta(0, "hm"), ir.Event{Kind: ir.EventBreak, Block: 0}, delta(0, "so"), state(0, "up-2", "s"), closed(0), block(1, ir.Block{Kind: ir.Text}), delta(1, "a"), closed(1)),
		"unsigned":     list(ir.StopEnd, block(0, ir.Block{Kind: ir.Thinking}), delta(0, "hm"), state(0, "up-2", ""), closed(0)),
		"signed_only":  list(ir.StopTool, block(0, ir.Block{Kind: ir.Thinking}), state(0, "up-2", "s"), closed(0), block(1, tc("c1", "f")), delta(1, `{}`), closed(1)),
		"call":         list(ir.StopTool, block(0, signed), delta(0, `{"a":`), delta(0, `9007199254740993}`), closed(0), usage),
		"interleaved":  list(ir.StopTool, block(0, tc("c1", "f")), block(1, tc("c2", "g")), delta(0, `{"a"`), delta(1, `{"b":2}`), delta(0, `:1}`), closed(1), closed(0)),
		"no_args":      list(ir.StopTool, block(0, tc("", "f")), closed(0), block(1, tc("", "g")), closed(1)),
		"bad_args":     list(ir.StopTool, block(0, tc("c1", "f")), delta(0, `{"a`), closed(0), block(1, tc("c2", "g")), delta(1, `[1]`), closed(1)),
		"cut":          list(ir.StopLength, block(0, tc("c1", "f")), delta(0, `{}`), closed(0), block(1, tc("c2", "g")), delta(1, `{"a`), closed(1)),
		"cut_no_args":  list(ir.StopLength, block(0, tc("c1", "f")), closed(0)),
		"custom":       list(ir.StopTool, block(0, custom), delta(0, "*** x"), closed(0)),
		"text_state":   list(ir.StopEnd, block(0, ir.Block{Kind: ir.Text}), delta(0, "a"), state(0, "up-2", "s"), closed(0)),
		"refusal":      list(ir.StopRefusal, block(0, ir.Block{Kind: ir.Refusal}), delta(0, "no"), closed(0), usage),
		"length":       list(ir.StopLength, block(0, ir.Block{Kind: ir.Text}), delta(0, "a"), closed(0)),
		"stop_string":  list(ir.StopSequence, block(0, ir.Block{Kind: ir.Text}), delta(0, "a"), closed(0)),
		"image":        list(ir.StopEnd, block(0, ir.Block{Kind: ir.Image, Media: ir.Media{MIME: "image/png", Data: png}}), closed(0), block(1, ir.Block{Kind: ir.Image, Media: ir.Media{URL: "https://x"}}), closed(1)),
		"unsayable":    list(ir.StopEnd, block(0, ir.Block{Kind: ir.HostedCall, Type: "server_tool_use", Raw: []byte(`{}`)}), closed(0), block(1, ir.Block{Kind: ir.Text}), delta(1, "a"), ir.Event{Kind: ir.EventCite, Block: 1, Raw: []byte(`{}`)}, closed(1)),
		"fault":        {start, block(0, ir.Block{Kind: ir.Text}), delta(0, "a"), {Kind: ir.EventFault, Fault: &ir.Fault{Status: 529, Kind: ir.KindOverloaded}}},
		"alive":        list(ir.StopEnd, ir.Event{Kind: ir.EventAlive}, block(0, ir.Block{Kind: ir.Text}), delta(0, "a"), ir.Event{Kind: ir.EventAlive}, closed(0)),
		"two_thoughts": list(ir.StopEnd, block(0, ir.Block{Kind: ir.Thinking}), delta(0, "a"), state(0, "up-2", "1"), closed(0), block(1, ir.Block{Kind: ir.Thinking}), delta(1, "b"), state(1, "up-2", "2"), closed(1)),
	}
}

func tell(events []ir.Event, r ir.Reply) (string, []string) {
	e := newEncoder(r)
	var out []byte
	for i := range events {
		before := len(out)
		out = e.Append(out, &events[i])
		if piece := out[before:]; len(piece) > 0 && !r.Array && (!bytes.HasPrefix(piece, []byte("data: ")) || !bytes.HasSuffix(piece, []byte("\n\n"))) {
			panic("no whole event: " + string(piece))
		}
	}
	return string(out), e.Lost()
}

func TestEncoderGolden(t *testing.T) {
	file := filepath.Join("..", "..", "..", "testdata", "gemini", "encoder.golden")
	list := answers()
	var names []string
	for name := range list {
		names = append(names, name)
	}
	sortStrings(names)
	var b strings.Builder
	for _, name := range names {
		out, lost := tell(list[name], reply)
		fmt.Fprintf(&b, "== %s lost %v\n%s", name, lost, out)
	}
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || b.String() != string(want) {
		t.Errorf("%v\n%s", err, b.String())
	}
}

func sortStrings(s []string) {
	for i := range s {
		for j := i; j > 0 && s[j] < s[j-1]; j-- {
			s[j], s[j-1] = s[j-1], s[j]
		}
	}
}

// told is what a client makes of a stream: its parts, neighbouring pieces of text put together as the SDKs do it.
type told struct {
	Parts  []string
	Finish string
	Usage  string
	ID     string
	Model  string
}

// check holds what every stream of ours must keep to (facts 4.4, 4.5; clients.md 3).
func check(t *testing.T, chunks [][]byte) told {
	t.Helper()
	var r told
	for i, c := range chunks {
		if err := rawjson.Valid(c); err != nil {
			t.Fatalf("%v: %s", err, c)
		}
		id, m := rawText(rawjson.Get(c, "responseId")), rawText(rawjson.Get(c, "modelVersion"))
		if i > 0 && (id != r.ID || m != r.Model) || id == "" || m == "" {
			t.Errorf("chunk %d: %q %q", i, id, m)
		}
		r.ID, r.Model = id, m
		if member(t, c, "candidates", 0, "content", "role") != `"model"` || member(t, c, "candidates", 0, "index") != "0" {
			t.Errorf("chunk %d: %s", i, c)
		}
		reason := member(t, c, "candidates", 0, "finishReason")
		if (reason != "") != (i == len(chunks)-1) {
			t.Errorf("chunk %d of %d has the finishReason %q", i, len(chunks), reason)
		}
		if r.Finish = reason; reason != "" {
			r.Usage = member(t, c, "usageMetadata")
		}
		var parts []json.RawMessage
		if err := json.Unmarshal([]byte(member(t, c, "candidates", 0, "content", "parts")), &parts); err != nil {
			t.Fatal(err)
		}
		for _, p := range parts {
			r.add(p)
		}
	}
	return r
}

func (r *told) add(p []byte) {
	var q struct {
		Text             *string
		Thought          bool
		ThoughtSignature string
	}
	_ = json.Unmarshal(p, &q)
	if q.Text == nil {
		r.Parts = append(r.Parts, string(p))
		return
	}
	kind := fmt.Sprintf("%v|", q.Thought)
	if n := len(r.Parts); n > 0 && strings.HasPrefix(r.Parts[n-1], kind) && !strings.Contains(r.Parts[n-1], "\x00") {
		r.Parts[n-1] += *q.Text
	} else {
		r.Parts = append(r.Parts, kind+*q.Text)
	}
	if q.ThoughtSignature != "" {
		r.Parts[len(r.Parts)-1] += "\x00" + q.ThoughtSignature
	}
}

func frames(stream string) (chunks [][]byte) {
	b := []byte(stream)
	for {
		n := sse.Next(b)
		if n == 0 {
			return chunks
		}
		if _, data := sse.Parse(b[:n]); len(data) > 0 {
			chunks = append(chunks, data)
		}
		b = b[n:]
	}
}

// The stream, the array form and the plain answer say the same.
func TestFormsSayTheSame(t *testing.T) {
	for name, events := range answers() {
		if name == "fault" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			stream, lost := tell(events, reply)
			asEvents := check(t, frames(stream))
			r := reply
			r.Array = true
			array, _ := tell(events, r)
			var chunks [][]byte
			rest := []byte(array)
			for len(rest) > 0 {
				n, element := rawjson.NextElement(rest)
				if n == 0 {
					t.Fatalf("%q", rest)
				}
				if rest = rest[n:]; element != nil {
					chunks = append(chunks, element)
				}
			}
			var whole []json.RawMessage
			if err := json.Unmarshal([]byte(array), &whole); err != nil || len(whole) != len(chunks) {
				t.Errorf("%v\n%s", err, array)
			}
			if got := check(t, chunks); fmt.Sprint(got) != fmt.Sprint(asEvents) {
				t.Errorf("\n%v\n%v", got, asEvents)
			}
			f := ir.Fold{Limit: 1 << 20}
			for i := range events {
				if err := f.Add(&events[i]); err != nil {
					t.Fatal(err)
				}
			}
			a, _, _ := f.Answer()
			body, plainLost := appendAnswer(nil, a, reply)
			if got := check(t, [][]byte{body}); fmt.Sprint(got) != fmt.Sprint(asEvents) || fmt.Sprint(plainLost) != fmt.Sprint(lost) {
				t.Errorf("\n%v %v\n%v %v\n%s", got, plainLost, asEvents, lost, body)
			}
		})
	}
}

// What we tell a client comes back to us as it was: states with their owners (facts/protocols.md 5.4).
func TestStatesComeBack(t *testing.T) {
	stream, _ := tell(answers()["call"], reply)
	part := member(t, frames(stream)[0], "candidates", 0, "content", "parts", 0)
	r := decode(t, `{"contents":[{"role":"model","parts":[`+part+`]}]}`)
	if s := r.Turns[0].Blocks[0].State; s == nil || *s != (ir.State{Owner: "up-2", Data: "sig"}) {
		t.Errorf("%+v", s)
	}
	stream, _ = tell(answers()["unsigned"], reply)
	part = member(t, frames(stream)[1], "candidates", 0, "content", "parts", 0)
	r = decode(t, `{"contents":[{"role":"model","parts":[`+part+`]}]}`)
	if b := r.Turns[0].Blocks[0]; b.Kind != ir.Thinking || b.State == nil || *b.State != (ir.State{Owner: "up-2"}) {
		t.Errorf("%+v", b)
	}
}

// CNV-036: a call that was cut is not made.
func TestCNV036CutCall(t *testing.T) {
	for _, name := range []string{"cut", "cut_no_args"} {
		stream, lost := tell(answers()[name], reply)
		if strings.Contains(stream, `"id":"c2"`) || name == "cut_no_args" && strings.Contains(stream, "functionCall") || !has(lost, "functionCall") {
			t.Errorf("%s: %s %v", name, stream, lost)
		}
	}
}

func TestUsageArithmetic(t *testing.T) {
	stream, _ := tell(answers()["text"], reply)
	chunks := frames(stream)
	want := `{"promptTokenCount":105,"cachedContentTokenCount":90,"candidatesTokenCount":12,"thoughtsTokenCount":8,"totalTokenCount":125}`
	if got := member(t, chunks[len(chunks)-1], "usageMetadata"); got != want {
		t.Error(got)
	}
	f := noFigures()
	f.read([]byte(want))
	if u := f.usage(); u.Input != 15 || u.CacheRead != 90 || u.Output != 20 || u.Reasoning != 8 { // what was written is no longer told apart
		t.Errorf("%+v", u)
	}
}

// The first text goes out at once.
func TestFirstDeltaAtOnce(t *testing.T) {
	e := newEncoder(reply)
	var out []byte
	for _, ev := range answers()["text"][:3] {
		out = e.Append(out, &ev)
	}
	if !strings.Contains(string(out), `"text":"Hel"`) {
		t.Errorf("%q", out)
	}
}

func TestDialect(t *testing.T) {
	d := Dialect()
	if d.Name != "gemini" || len(d.Endpoints) != 4 || d.Forgets || string(d.Raw.KeepAlive(true)) != "\n" || string(d.Raw.KeepAlive(false)) != "\n" {
		t.Errorf("%+v", d)
	}
	if e := d.NewEncoder(reply); e.Append(nil, &ir.Event{Kind: ir.EventFault, Fault: &ir.Fault{}}) != nil {
		t.Error("a fault is not said: the connection is aborted")
	}
}
