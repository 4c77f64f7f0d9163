// Package codectest is one suite for all dialects: it knows the canonical request, events and answers, and what the
// dialects' clients demand of a stream; it knows no codec. The table of dialects is handed in, so that a further dialect is
// tested without a further line. It is imported from tests alone.
package codectest

import (
	"bytes"
	"strings"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
	"coding-proxy/proxy/sse"
)

// What is the same in all runs.
const (
	Owner   = "owner-of-the-upstream"
	Model   = "the-model-shown"
	Seed    = "5eed0123456789ab"
	Created = 1_700_000_000
)

// Source is what decoders of answers are told.
func Source() ir.Source { return ir.Source{Owner: Owner, Seed: Seed} }

// Reply is what encoders of answers are told.
func Reply() ir.Reply {
	return ir.Reply{Request: &ir.Request{Stream: true, IncludeUsage: true}, Model: Model, Seed: Seed, Created: Created}
}

// Frame is an event of the wire: its bytes, and what the standard says that they mean.
type Frame struct {
	Raw  []byte
	Name string
	Data []byte
}

// Frames cuts a stream into events; rest is what no blank line ends.
func Frames(wire []byte) (frames []Frame, rest []byte) {
	for {
		n := sse.Next(wire)
		if n == 0 {
			return frames, wire
		}
		name, data := sse.Parse(wire[:n])
		frames = append(frames, Frame{Raw: wire[:n], Name: string(name), Data: data})
		wire = wire[n:]
	}
}

// Elements cuts the JSON-array form of a Gemini stream into its elements, as the relay does.
func Elements(wire []byte) (frames []Frame, rest []byte) {
	for {
		n, element := rawjson.NextElement(wire)
		if n == 0 {
			return frames, wire
		}
		if element != nil {
			frames = append(frames, Frame{Raw: wire[:n], Data: element})
		}
		wire = wire[n:]
	}
}

// Stream is what a client of the dialect gets of the events.
func Stream(d *ir.Dialect, events []ir.Event, reply ir.Reply) []byte {
	wire, _ := StreamLost(d, events, reply)
	return wire
}

// StreamLost is Stream, and what the encoder names as lost.
func StreamLost(d *ir.Dialect, events []ir.Event, reply ir.Reply) (wire []byte, lost []string) {
	enc := d.NewEncoder(reply)
	for i := range events {
		wire = enc.Append(wire, &events[i])
	}
	return wire, enc.Lost()
}

// Bridged is what the bridge makes of a decoder's events.
func Bridged(events []ir.Event, tools *ir.ToolBook) []ir.Event {
	b := ir.Bridge{Tools: tools}
	var out []ir.Event
	for _, e := range events {
		out = b.Next(out, copyEvent(e))
	}
	return out
}

// copyEvent detaches the block that the bridge renames.
func copyEvent(e ir.Event) ir.Event {
	if e.Start != nil {
		start := *e.Start
		e.Start = &start
	}
	return e
}

// reader feeds frames to a decoder from memory that is overwritten after each call: what a decoder keeps of it shows.
type reader struct {
	dec   ir.Decoder
	spoil []byte
}

func (r *reader) event(dst []ir.Event, f Frame) []ir.Event {
	r.spoil = append(append(r.spoil[:0], f.Name...), f.Data...)
	dst = r.dec.Event(dst, r.spoil[:len(f.Name):len(f.Name)], r.spoil[len(f.Name):])
	for i := range r.spoil {
		r.spoil[i] = '#'
	}
	return dst
}

// Decode reads a stream of the dialect to its end.
func Decode(d *ir.Dialect, frames []Frame, source ir.Source) []ir.Event {
	r := reader{dec: d.NewDecoder(source)}
	var events []ir.Event
	for _, f := range frames {
		events = r.event(events, f)
	}
	return events2(events, r.dec)
}

// events2 ends a stream that did not end itself.
func events2(events []ir.Event, dec ir.Decoder) []ir.Event {
	if n := len(events); n > 0 && (events[n-1].Kind == ir.EventEnd || events[n-1].Kind == ir.EventFault) {
		return events
	}
	return dec.End(events)
}

// FoldOf is the whole answer of what a decoder said.
func FoldOf(events []ir.Event, tools *ir.ToolBook) (a *ir.Answer, fault *ir.Fault, ok bool) {
	f := ir.Fold{Limit: 64 << 20}
	for _, e := range Bridged(events, tools) {
		if err := f.Add(&e); err != nil {
			return nil, nil, false
		}
	}
	return f.Answer()
}

// Conversion takes a stream of one dialect to a client of another, event by event, as the relay does.
type Conversion struct {
	From, To *ir.Dialect
	Heard    []ir.Event // of the upstream
	Told     []ir.Event // to the client
	Wire     []byte     // what the client has got

	read   reader
	bridge ir.Bridge
	enc    ir.Encoder
	passed int // of Heard
}

// NewConversion begins one. The book is the one of the request to From; it may be nil.
func NewConversion(from, to *ir.Dialect, reply ir.Reply, book *ir.ToolBook) *Conversion {
	return &Conversion{
		From: from, To: to, read: reader{dec: from.NewDecoder(Source())},
		bridge: ir.Bridge{Tools: book}, enc: to.NewEncoder(reply),
	}
}

// Feed takes the next event of the wire.
func (c *Conversion) Feed(f Frame) {
	c.Heard = c.read.event(c.Heard, f)
	c.pass()
}

// End is told that the upstream's stream has ended, and reports whether the answer is whole, or ended with a fault.
func (c *Conversion) End() bool {
	if !c.bridge.Ended() {
		c.Heard = c.read.dec.End(c.Heard)
		c.pass()
	}
	return c.bridge.Ended()
}

// Break ends the answer with a fault that comes from here.
func (c *Conversion) Break(f *ir.Fault) {
	c.Heard = append(c.Heard, ir.Event{Kind: ir.EventFault, Fault: f})
	c.pass()
}

// Lost names what the client could not be told.
func (c *Conversion) Lost() []string { return c.enc.Lost() }

func (c *Conversion) pass() {
	for ; c.passed < len(c.Heard); c.passed++ {
		from := len(c.Told)
		c.Told = c.bridge.Next(c.Told, copyEvent(c.Heard[c.passed]))
		for i := from; i < len(c.Told); i++ {
			c.Wire = c.enc.Append(c.Wire, &c.Told[i])
		}
	}
}

// Form is another way to write the same stream.
type Form struct {
	Name string
	Of   func(frames []Frame) []byte
}

// Forms are the ways that the standard allows, beside the cuts.
func Forms() []Form {
	ends := func(end string) func([]Frame) []byte {
		return func(frames []Frame) []byte {
			return bytes.ReplaceAll(joined(frames), []byte("\n"), []byte(end))
		}
	}
	each := func(of func(dst []byte, line string) []byte) func([]Frame) []byte {
		return func(frames []Frame) (out []byte) {
			for _, line := range strings.SplitAfter(string(joined(frames)), "\n") {
				out = of(out, line)
			}
			return out
		}
	}
	return []Form{
		{"CRLF", ends("\r\n")},
		{"CR", ends("\r")},
		{"comments", func(frames []Frame) (out []byte) {
			out = append(out, ": ready\n\n"...)
			for _, f := range frames {
				out = append(append(out, ": keepalive\n\n:\n"...), f.Raw...)
			}
			return out
		}},
		{"no space", each(func(dst []byte, line string) []byte {
			for _, field := range []string{"data: ", "event: "} {
				if rest, ok := strings.CutPrefix(line, field); ok {
					line = strings.TrimSuffix(field, " ") + rest
				}
			}
			return append(dst, line...)
		})},
		{"ids and retry times", each(func(dst []byte, line string) []byte {
			if strings.HasPrefix(line, "data:") {
				dst = append(dst, "id: 7\nretry: 3000\nunknown\n"...)
			}
			return append(dst, line...)
		})},
		{"data in several lines", each(func(dst []byte, line string) []byte {
			if data, ok := strings.CutPrefix(line, "data: "); ok && strings.HasPrefix(data, "{") {
				return appendLines(dst, data)
			}
			return append(dst, line...)
		})},
	}
}

func joined(frames []Frame) (out []byte) {
	for _, f := range frames {
		out = append(out, f.Raw...)
	}
	return out
}

// appendLines breaks JSON between its tokens, each line a data field of its own.
func appendLines(dst []byte, data string) []byte {
	dst = append(dst, "data: "...)
	inString, escaped := false, false
	for i := 0; i < len(data); i++ {
		c := data[i]
		dst = append(dst, c)
		switch {
		case escaped:
			escaped = false
		case inString:
			escaped = c == '\\'
			inString = c != '"'
		case c == '"':
			inString = true
		case c == ',' || c == '{' || c == '[':
			dst = append(dst, "\ndata: "...)
		}
	}
	return dst
}
