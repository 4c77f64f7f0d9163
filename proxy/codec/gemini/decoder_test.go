package gemini

import (
	"bytes"
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

var update = flag.Bool("update", false, "write the golden files anew")

// said is an event in the golden files' form.
func said(e *ir.Event) string {
	state := func(s *ir.State) string {
		if s == nil {
			return ""
		}
		return fmt.Sprintf(" state(%s %q)", s.Owner, s.Data)
	}
	switch e.Kind {
	case ir.EventStart:
		return fmt.Sprintf("start %q %q", e.ID, e.Model)
	case ir.EventBlock:
		b := e.Start
		kinds := map[ir.BlockKind]string{ir.Text: "text", ir.Thinking: "thinking", ir.ToolCall: "call", ir.Image: "image", ir.Opaque: "opaque", ir.Audio: "audio", ir.Document: "document"}
		s := fmt.Sprintf("block %d %s", e.Block, kinds[b.Kind])
		if b.Kind == ir.ToolCall {
			s += fmt.Sprintf(" %q %q", b.ID, b.Name)
		}
		if b.Media.Data != "" {
			s += " " + b.Media.MIME + " " + b.Media.Data
		}
		if b.Type != "" {
			s += " " + b.Type + " " + string(b.Raw)
		}
		return s + state(b.State)
	case ir.EventDelta:
		return fmt.Sprintf("delta %d %q", e.Block, e.Text)
	case ir.EventState:
		return fmt.Sprintf("state %d%s", e.Block, state(e.State))
	case ir.EventCite:
		return fmt.Sprintf("cite %d %s", e.Block, e.Raw)
	case ir.EventClose:
		return fmt.Sprintf("close %d", e.Block)
	case ir.EventUsage:
		u := e.Usage
		return fmt.Sprintf("usage in %d out %d created %d read %d reasoning %d known %b", u.Input, u.Output, u.CacheCreation, u.CacheRead, u.Reasoning, u.Known)
	case ir.EventFinish:
		return fmt.Sprintf("finish %s %q %q assumed %v", e.Stop.Reason, e.Stop.Native, e.Stop.Text, e.Stop.Assumed)
	case ir.EventFault:
		return fmt.Sprintf("fault %d %s %q %q %q", e.Fault.Status, e.Fault.Kind, e.Fault.Type, e.Fault.Code, e.Fault.Message)
	case ir.EventEnd:
		return "end"
	case ir.EventAlive:
		return "alive"
	}
	return "?"
}

func all(events []ir.Event) string {
	var b strings.Builder
	for i := range events {
		b.WriteString(said(&events[i]))
		b.WriteByte('\n')
	}
	return b.String()
}

// listen decodes a stream that comes in two pieces, cut at a place.
func listen(stream []byte, cut int) []ir.Event {
	d := newDecoder(ir.Source{Owner: owner, Seed: "5eed"})
	var events []ir.Event
	var buf []byte
	for _, piece := range [][]byte{stream[:cut], stream[cut:]} {
		buf = append(buf, piece...)
		for {
			n := sse.Next(buf)
			if n == 0 {
				break
			}
			name, data := sse.Parse(buf[:n])
			if data != nil {
				data = bytes.Clone(data)
				events = d.Event(events, name, data)
				for i := range data { // it is not valid after the call
					data[i] = 'X'
				}
			}
			buf = append([]byte(nil), buf[n:]...)
		}
	}
	return d.End(events)
}

func TestStreams(t *testing.T) {
	for name, stream := range corpus(t, "streams", ".sse", true) {
		t.Run(name, func(t *testing.T) {
			got := all(listen(stream, 0))
			file := filepath.Join("..", "..", "..", "testdata", "gemini", "streams", name+".events")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil || got != string(want) {
				t.Errorf("%v\n%s\nwant\n%s", err, got, want)
			}
			if err := checkEvents(listen(stream, 0)); err != nil {
				t.Error(err)
			}
			crlf := bytes.ReplaceAll(stream, []byte("\n"), []byte("\r\n"))
			for cut := range len(stream) {
				if other := all(listen(stream, cut)); other != got {
					t.Fatalf("cut at %d:\n%s", cut, other)
				}
			}
			if other := all(listen(crlf, len(crlf)/2)); other != got {
				t.Errorf("with CRLF:\n%s", other)
			}
		})
	}
}

// checkEvents holds what a decoder promises: ordinals without gaps, nothing for a block that is closed, nothing after the
// end.
func checkEvents(events []ir.Event) error {
	var open []bool
	ended := false
	for i := range events {
		e := &events[i]
		if ended {
			return fmt.Errorf("%s after the end", said(e))
		}
		switch e.Kind {
		case ir.EventBlock:
			if e.Block != len(open) || e.Start == nil || e.Start.Text != "" || e.Start.Args != "" {
				return fmt.Errorf("%s as block %d", said(e), len(open))
			}
			open = append(open, true)
		case ir.EventDelta, ir.EventState, ir.EventCite, ir.EventClose:
			if e.Block < 0 || e.Block >= len(open) || !open[e.Block] || e.Kind == ir.EventDelta && e.Text == "" {
				return fmt.Errorf("%s of no open block", said(e))
			}
			open[e.Block] = e.Kind != ir.EventClose
		case ir.EventFault, ir.EventEnd:
			ended = true
		}
	}
	return nil
}

func fold(t testing.TB, events []ir.Event) *ir.Answer {
	t.Helper()
	bridge, f := ir.Bridge{}, ir.Fold{Limit: 8 << 20}
	var told []ir.Event
	for _, e := range events {
		told = bridge.Next(told, e)
	}
	for i := range told {
		if err := f.Add(&told[i]); err != nil {
			t.Fatal(err)
		}
	}
	a, _, _ := f.Answer()
	return a
}

// A plain answer, and the array form, mean what the stream means.
func TestPlainIsStream(t *testing.T) {
	for name, stream := range corpus(t, "streams", ".sse", true) {
		var chunks [][]byte
		for at := 0; ; {
			n := sse.Next(stream[at:])
			if n == 0 {
				break
			}
			if _, data := sse.Parse(stream[at : at+n]); len(data) > 0 && data[0] == '{' {
				chunks = append(chunks, data)
			}
			at += n
		}
		if len(chunks) != 1 {
			continue
		}
		events, err := decodeAnswer(chunks[0], ir.Source{Owner: owner, Seed: "5eed"})
		if name == "nothing" {
			if err == nil {
				t.Error("an answer without candidates is none")
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if a, b := fold(t, events), fold(t, listen(stream, 0)); fmt.Sprintf("%+v", a) != fmt.Sprintf("%+v", b) && all(events) != all(listen(stream, 0)) {
			t.Errorf("%s:\n%+v\n%+v", name, a, b)
		}
		array := append(append([]byte("["), chunks[0]...), ']')
		events, err = decodeAnswer(array, ir.Source{Owner: owner, Seed: "5eed"})
		if err != nil || all(events) != all(listen(stream, 0)) {
			t.Errorf("%s as an array: %v\n%s", name, err, all(events))
		}
	}
}

func TestDecodeAnswerRefuses(t *testing.T) {
	for _, body := range []string{``, `{}`, `[]`, `"x"`, `{"choices":[]}`, `{"candidates":`, `{"type":"message"}`} {
		if events, err := decodeAnswer([]byte(body), ir.Source{}); err == nil {
			t.Errorf("%s: %s", body, all(events))
		}
	}
	events, err := decodeAnswer([]byte(`{"candidates":[],"usageMetadata":{"promptTokenCount":3}}`), ir.Source{})
	if err != nil || events[len(events)-1].Kind != ir.EventEnd {
		t.Errorf("%v %s", err, all(events))
	}
}

// Streams as bad servers write them.
func TestFraming(t *testing.T) {
	chunk := func(text string) string { return `{"candidates":[{"content":{"parts":[{"text":"` + text + `"}]}}]}` }
	long := strings.Repeat("x", 4<<20)
	for _, c := range []struct{ id, stream, want string }{
		{"SSE-005", "data: " + chunk("né漢🙂") + "\n\n", "né漢🙂"},
		{"SSE-007", "data: " + chunk("a") + "\r\n\r\ndata: " + chunk("b") + "\r\n\r\n", "ab"},
		{"SSE-008", "data: " + chunk("a") + "\r\rdata: " + chunk("b") + "\r\r", "ab"},
		{"SSE-009", "data: " + chunk("a\u2028b\u0085") + "\n\n", "a\u2028b\u0085"},
		{"SSE-010", "data:" + chunk("a") + "\n\n", "a"},
		{"SSE-012", ": PROCESSING\n\n: PROCESSING\n\ndata: " + chunk("a") + "\n\n", "a"},
		{"SSE-013", "data: : keepalive\n\ndata: " + chunk("a") + "\n\n", "a"},
		{"SSE-014", "data: " + chunk("a") + "\n\ndata: \n\ndata: " + chunk("b") + "\n\n", "ab"},
		{"SSE-019", "data: " + chunk(long) + "\n\n", long},
		{"SSE-028", "data: " + chunk("a") + "\n\ndata: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"b\n\n", "a"},
		{"SSE-029", "data: " + chunk("a") + "\n\ndata: [DONE]\n\ndata: {\"choices\":[]}\n\n", "a"},
	} {
		t.Run(c.id, func(t *testing.T) {
			a := fold(t, listen([]byte(c.stream), len(c.stream)/2))
			if len(a.Blocks) != 1 || a.Blocks[0].Text != c.want {
				t.Errorf("%d blocks", len(a.Blocks))
			}
		})
	}
}

// The cases of facts/protocols.md 6 that a decoder of Gemini decides, by what the Bridge makes of it.
func TestDecoderCases(t *testing.T) {
	streams := corpus(t, "streams", ".sse", true)
	stop := func(name string) ir.Stop { return fold(t, listen(streams[name], 0)).Stop }
	t.Run("case_15", func(t *testing.T) {
		if s := stop("thinking_tool"); s.Reason != ir.StopTool {
			t.Error(s)
		}
	})
	t.Run("case_16", func(t *testing.T) {
		if events := listen(streams["malformed"], 0); events[len(events)-1].Kind != ir.EventFault {
			t.Error(all(events))
		}
		if s := stop("malformed_beside"); s.Reason != ir.StopTool {
			t.Error(s)
		}
	})
	t.Run("case_22", func(t *testing.T) {
		u := figures{prompt: 20, candidates: 198, thoughts: 405, cached: -1, tools: -1, total: 623}
		if v := u.usage(); v.Output != 603 || v.Reasoning != 405 || v.Input != 20 {
			t.Errorf("%+v", v)
		}
	})
	t.Run("USE-005", func(t *testing.T) {
		if u := fold(t, listen(streams["usage_late"], 0)).Usage; u.Input != 30 || u.CacheRead != 20 || u.Output != 207 || u.Reasoning != 200 {
			t.Errorf("%+v", u)
		}
	})
	t.Run("USE-006", func(t *testing.T) {
		if u := fold(t, listen(streams["usage_each"], 0)).Usage; u.Input != 5 || u.Output != 25 {
			t.Errorf("%+v", u)
		}
	})
	t.Run("CNV-036", func(t *testing.T) {
		for name, want := range map[string]ir.StopReason{"partial_cut": ir.StopLength, "partial_eof": ir.StopLength} {
			a := fold(t, listen(streams[name], 0))
			if a.Stop.Reason != want || rawjson.Valid([]byte(a.Blocks[0].Args)) == nil {
				t.Errorf("%s: %+v", name, a)
			}
		}
	})
	t.Run("CNV-037", func(t *testing.T) {
		a := fold(t, listen(streams["parallel"], 0))
		seen := map[string]bool{}
		for _, b := range a.Blocks {
			if b.ID == "" || seen[b.ID] {
				t.Errorf("id %q", b.ID)
			}
			seen[b.ID] = true
		}
	})
	t.Run("CNV-041", func(t *testing.T) {
		if args := fold(t, listen(streams["numbers"], 0)).Blocks[0].Args; args != `{"id":9007199254740993, "n":1.10,"big":1e22,"k":"\u003c"}` {
			t.Error(args)
		}
	})
}
