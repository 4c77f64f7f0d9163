package anthropic

import (
	"bytes"
	"errors"
	"strconv"
	"strings"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// maxBuffered bounds what is kept of a stream because it cannot be passed on yet: 16 MiB.
const maxBuffered = 16 << 20

// errNoMessage says that a body is no answer of this dialect.
var errNoMessage = errors.New("not an Anthropic message")

// decoder reads an upstream's answer.
type decoder struct {
	source  ir.Source
	open    []*incoming // blocks that have begun on the wire, by their index
	next    int         // ordinal of the next block
	calls   int
	kept    int // bytes
	started bool
	stopped bool // a stop reason has been said
	ended   bool
}

// incoming is a block on its way.
type incoming struct {
	index   int64
	kind    ir.BlockKind
	typ     string
	ordinal int // once begun
	begun   bool
	pieces  rawjson.Pieces
	state   *ir.State
	raw     []byte // of what has no pieces: the block as it began
	input   []byte // arguments that came with the start
	args    []byte // of a hosted call: gathered
	pieced  bool   // arguments came in pieces
}

func newDecoder(s ir.Source) *decoder { return &decoder{source: s} }

// Event implements ir.Decoder.
func (d *decoder) Event(dst []ir.Event, name, data []byte) []ir.Event {
	if d.ended {
		return dst
	}
	var e wire
	e.read(data)
	kind := string(name)
	if kind == "" {
		if kind = e.typ; kind == "" && e.err != nil {
			kind = "error"
		}
	}
	switch kind {
	case "content_block_delta":
		return d.delta(dst, &e)
	case "content_block_start":
		return d.start(dst, e.index, e.block)
	case "content_block_stop":
		if b := d.find(e.index); b != nil {
			return d.stop(dst, b)
		}
	case "message_start":
		return d.message(dst, e.message)
	case "message_delta":
		dst = d.usage(dst, e.usage)
		return d.finish(dst, e.delta)
	case "message_stop":
		return d.end(dst)
	case "ping":
		return append(dst, ir.Event{Kind: ir.EventAlive})
	case "error":
		f := fault(0, data)
		return d.fail(dst, &f)
	}
	return dst
}

// End implements ir.Decoder: the terminal event alone may lack.
func (d *decoder) End(dst []ir.Event) []ir.Event {
	if d.ended || !d.stopped {
		return dst
	}
	return d.end(dst)
}

// wire are the members of an event, raw but for the first two.
type wire struct {
	typ                               string
	index                             int64
	delta, block, message, usage, err []byte
}

func (e *wire) read(data []byte) {
	_ = rawjson.Walk(data, func(key []byte, f rawjson.Field) error { // what is no object holds nothing
		v := f.Value(data)
		switch string(key) {
		case "type":
			e.typ, _ = rawjson.String(v)
		case "index":
			e.index, _ = rawjson.Int(v)
		case "delta":
			e.delta = v
		case "content_block":
			e.block = v
		case "message":
			e.message = v
		case "usage":
			e.usage = v
		case "error":
			e.err = v
		}
		return nil
	})
}

func (d *decoder) fail(dst []ir.Event, f *ir.Fault) []ir.Event {
	d.ended = true
	return append(dst, ir.Event{Kind: ir.EventFault, Fault: f})
}

// end closes what is open and ends the answer.
func (d *decoder) end(dst []ir.Event) []ir.Event {
	for len(d.open) > 0 {
		dst = d.stop(dst, d.open[0])
	}
	d.ended = true
	return append(dst, ir.Event{Kind: ir.EventEnd})
}

// message begins the answer, once.
func (d *decoder) message(dst []ir.Event, raw []byte) []ir.Event {
	if !d.started {
		d.started = true
		e := ir.Event{Kind: ir.EventStart}
		e.ID, _ = rawjson.String(rawjson.Get(raw, "id"))
		e.Model, _ = rawjson.String(rawjson.Get(raw, "model"))
		dst = append(dst, e)
	}
	return d.usage(dst, rawjson.Get(raw, "usage"))
}

func (d *decoder) usage(dst []ir.Event, raw []byte) []ir.Event {
	if u := usageOf(raw); u.Known != 0 {
		return append(dst, ir.Event{Kind: ir.EventUsage, Usage: u})
	}
	return dst
}

// finish reads why the answer ended. A null says nothing: it does not take back what was said before.
func (d *decoder) finish(dst []ir.Event, raw []byte) []ir.Event {
	native, ok := rawjson.String(rawjson.Get(raw, "stop_reason"))
	if !ok {
		return dst
	}
	s := ir.Stop{Reason: ir.StopReason(native), Native: native}
	switch s.Reason {
	case ir.StopEnd, ir.StopTool, ir.StopLength, ir.StopSequence, ir.StopRefusal, ir.StopPause, ir.StopContext:
	default:
		s.Reason = ir.StopEnd
	}
	s.Sequence, _ = rawjson.String(rawjson.Get(raw, "stop_sequence"))
	s.Text, _ = rawjson.String(rawjson.Get(rawjson.Get(raw, "stop_details"), "explanation"))
	d.stopped = true
	return append(dst, ir.Event{Kind: ir.EventFinish, Stop: s})
}

func (d *decoder) find(index int64) *incoming {
	for _, b := range d.open {
		if b.index == index {
			return b
		}
	}
	return nil
}

// start begins a block. What is still open ends, as blocks follow one another; calls alone may be sent side by side.
func (d *decoder) start(dst []ir.Event, index int64, raw []byte) []ir.Event {
	b := &incoming{index: index}
	b.typ, _ = rawjson.String(rawjson.Get(raw, "type"))
	for i := 0; i < len(d.open); {
		if old := d.open[i]; old.index != index && old.kind == ir.ToolCall && b.typ == "tool_use" {
			i++
		} else {
			dst = d.stop(dst, old)
		}
	}
	d.open = append(d.open, b)
	switch b.typ {
	case "text":
		b.kind = ir.Text
		dst = d.more(dst, b, rawjson.Get(raw, "text"))
		if c := rawjson.Get(raw, "citations"); len(c) > 0 && c[0] == '[' {
			_ = rawjson.Elements(c, func(_ int, v []byte) error { dst = d.cite(dst, b, v); return nil })
		}
	case "thinking":
		b.kind = ir.Thinking
		dst = d.more(dst, b, rawjson.Get(raw, "thinking"))
		d.sign(b, rawjson.Get(raw, "signature"))
	case "redacted_thinking":
		b.kind = ir.Thinking
		data, _ := rawjson.String(rawjson.Get(raw, "data"))
		b.state = &ir.State{Owner: d.source.Owner, Data: data, Redacted: true}
	case "tool_use":
		b.kind = ir.ToolCall
		dst = d.call(dst, b, raw)
	case "":
		d.drop(b)
	default:
		return d.whole(dst, b, raw)
	}
	return dst
}

// whole begins a block that other dialects do not know. The arguments of a hosted call come in pieces: it is passed on
// when it ends, everything else at once.
func (d *decoder) whole(dst []ir.Event, b *incoming, raw []byte) []ir.Event {
	b.raw = bytes.Clone(raw)
	switch {
	case b.typ == "server_tool_use" || b.typ == "mcp_tool_use":
		b.kind = ir.HostedCall
		return d.keep(dst, len(raw))
	case strings.HasSuffix(b.typ, "_tool_result"):
		b.kind = ir.HostedResult
	default:
		b.kind = ir.Opaque
	}
	return d.begin(dst, b)
}

// keep counts what is held back.
func (d *decoder) keep(dst []ir.Event, n int) []ir.Event {
	if d.kept += n; d.kept > maxBuffered {
		return d.fail(dst, &ir.Fault{Status: 502, Kind: ir.KindAPI, Type: ir.KindAPI, Message: "the upstream's answer holds a block that is too long"})
	}
	return dst
}

// begin appends the event that a block begins.
func (d *decoder) begin(dst []ir.Event, b *incoming) []ir.Event {
	if b.begun {
		return dst
	}
	b.begun, b.ordinal = true, d.next
	d.next++
	s := &ir.Block{Kind: b.kind}
	if b.raw != nil {
		s.Type, s.Raw = b.typ, b.raw
		s.Name, _ = rawjson.String(rawjson.Get(b.raw, "name"))
		if s.ID, _ = rawjson.String(rawjson.Get(b.raw, "id")); b.kind == ir.HostedResult {
			s.ID, _ = rawjson.String(rawjson.Get(b.raw, "tool_use_id"))
		}
	}
	return append(dst, ir.Event{Kind: ir.EventBlock, Block: b.ordinal, Start: s})
}

// call begins a call. Some providers give its arguments here and send no pieces (CNV-040): they wait for the end.
func (d *decoder) call(dst []ir.Event, b *incoming, raw []byte) []ir.Event {
	dst = d.begin(dst, b)
	s := dst[len(dst)-1].Start
	s.Name, _ = rawjson.String(rawjson.Get(raw, "name"))
	if s.ID, _ = rawjson.String(rawjson.Get(raw, "id")); s.ID == "" {
		s.ID = "toolu_" + d.source.Seed + "_" + strconv.Itoa(d.calls)
	}
	d.calls++
	if in := rawjson.Get(raw, "input"); len(in) > 0 && in[0] == '{' && !emptyObject(in) {
		b.input = bytes.Clone(in)
		return d.keep(dst, len(in))
	}
	return dst
}

func emptyObject(raw []byte) bool { return len(bytes.TrimSpace(raw[1:len(raw)-1])) == 0 }

// more appends a piece of a block's text.
func (d *decoder) more(dst []ir.Event, b *incoming, raw []byte) []ir.Event {
	s, ok := b.pieces.Next(raw)
	if !ok || s == "" {
		return dst
	}
	dst = d.begin(dst, b)
	return append(dst, ir.Event{Kind: ir.EventDelta, Block: b.ordinal, Text: s})
}

func (d *decoder) cite(dst []ir.Event, b *incoming, raw []byte) []ir.Event {
	if len(raw) == 0 || raw[0] != '{' {
		return dst
	}
	dst = d.begin(dst, b)
	return append(dst, ir.Event{Kind: ir.EventCite, Block: b.ordinal, Raw: bytes.Clone(raw)})
}

// sign keeps a signature until the block ends; the last one counts.
func (d *decoder) sign(b *incoming, raw []byte) {
	if s, ok := rawjson.String(raw); ok && s != "" {
		b.state = &ir.State{Owner: d.source.Owner, Data: s}
	}
}

// delta reads a piece of a block.
func (d *decoder) delta(dst []ir.Event, e *wire) []ir.Event {
	var kind, value []byte
	_ = rawjson.Walk(e.delta, func(key []byte, f rawjson.Field) error {
		switch string(key) {
		case "type":
			kind = f.Value(e.delta)
		case "text", "thinking", "partial_json", "signature", "citation":
			value = f.Value(e.delta)
		}
		return nil
	})
	switch string(kind) {
	case `"text_delta"`:
		dst, b := d.of(dst, e.index, ir.Text)
		return d.more(dst, b, value)
	case `"thinking_delta"`:
		dst, b := d.of(dst, e.index, ir.Thinking)
		return d.more(dst, b, value)
	case `"signature_delta"`:
		dst, b := d.of(dst, e.index, ir.Thinking)
		d.sign(b, value)
		return dst
	case `"citations_delta"`:
		dst, b := d.of(dst, e.index, ir.Text)
		return d.cite(dst, b, value)
	case `"input_json_delta"`:
		return d.arguments(dst, d.find(e.index), value)
	}
	return dst
}

// of finds the block that a piece belongs to. A piece of another kind, or one whose block never began, begins a block of
// its own.
func (d *decoder) of(dst []ir.Event, index int64, kind ir.BlockKind) ([]ir.Event, *incoming) {
	b := d.find(index)
	if b != nil && b.kind == kind {
		return dst, b
	}
	if b != nil {
		dst = d.stop(dst, b)
	}
	b = &incoming{index: index, kind: kind}
	d.open = append(d.open, b)
	return dst, b
}

func (d *decoder) arguments(dst []ir.Event, b *incoming, raw []byte) []ir.Event {
	if b == nil || b.kind != ir.ToolCall && b.kind != ir.HostedCall {
		return dst
	}
	s, ok := b.pieces.Next(raw)
	if !ok || s == "" {
		return dst
	}
	b.pieced = true
	if b.kind == ir.HostedCall {
		b.args = append(b.args, s...)
		return d.keep(dst, len(s))
	}
	return append(dst, ir.Event{Kind: ir.EventDelta, Block: b.ordinal, Text: s})
}

func (d *decoder) drop(b *incoming) {
	for i := range d.open {
		if d.open[i] == b {
			d.open = append(d.open[:i], d.open[i+1:]...)
			return
		}
	}
}

// stop ends a block: what is still held back of it goes first.
func (d *decoder) stop(dst []ir.Event, b *incoming) []ir.Event {
	d.drop(b)
	if rest := b.pieces.End(); rest != "" && b.kind != ir.HostedCall {
		dst = d.begin(dst, b)
		dst = append(dst, ir.Event{Kind: ir.EventDelta, Block: b.ordinal, Text: rest})
	}
	switch b.kind {
	case ir.ToolCall:
		if b.input != nil && !b.pieced {
			dst = append(dst, ir.Event{Kind: ir.EventDelta, Block: b.ordinal, Text: string(b.input)})
		}
	case ir.HostedCall:
		if b.pieced {
			b.raw = withInput(b.raw, b.args)
		}
		dst = d.begin(dst, b)
	case ir.Thinking:
		if b.state == nil && b.begun {
			b.state = &ir.State{Owner: d.source.Owner} // unsigned: the client carries whose it is
		}
		if b.state != nil {
			dst = d.begin(dst, b)
			dst = append(dst, ir.Event{Kind: ir.EventState, Block: b.ordinal, State: b.state})
		}
	}
	if !b.begun {
		return dst
	}
	return append(dst, ir.Event{Kind: ir.EventClose, Block: b.ordinal})
}

// withInput puts the arguments that were gathered into a block.
func withInput(raw, args []byte) []byte {
	if rawjson.Valid(args) != nil {
		return raw
	}
	var edits []rawjson.Edit
	_ = rawjson.Walk(raw, func(key []byte, f rawjson.Field) error {
		if string(key) == "input" {
			edits = []rawjson.Edit{{Start: f.ValueStart, End: f.ValueEnd, Text: args}}
		}
		return nil
	})
	return bytes.Join(rawjson.Splice(raw, edits...), nil)
}

// decodeAnswer implements ir.Dialect: a plain answer says what its stream would.
func decodeAnswer(body []byte, s ir.Source) ([]ir.Event, error) {
	var kind, content []byte
	err := rawjson.Walk(body, func(key []byte, f rawjson.Field) error {
		switch string(key) {
		case "type":
			kind = f.Value(body)
		case "content":
			content = f.Value(body)
		}
		return nil
	})
	d := newDecoder(s)
	switch {
	case err != nil:
		return nil, err
	case string(kind) == `"error"`:
		f := fault(0, body)
		return d.fail(nil, &f), nil
	case string(kind) != `"message"` && (len(content) == 0 || content[0] != '['):
		return nil, errNoMessage
	}
	dst := d.message(nil, body)
	if len(content) > 0 && content[0] == '[' {
		err = rawjson.Elements(content, func(i int, v []byte) error {
			dst = d.start(dst, int64(i), v)
			if b := d.find(int64(i)); b != nil && !d.ended {
				dst = d.stop(dst, b)
			}
			return nil
		})
	}
	if err != nil || d.ended {
		return dst, err
	}
	dst = d.finish(dst, body)
	return d.end(dst), nil
}
