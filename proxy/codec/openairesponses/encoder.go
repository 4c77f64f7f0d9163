package openairesponses

import (
	"bytes"
	"strconv"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// maxAnswer bounds what is kept of an answer, in bytes: the last events of the dialect repeat all of it.
const maxAnswer = 16 << 20

// encoder writes a client's stream (facts/protocols.md, 3.4).
type encoder struct {
	reply          ir.Reply
	quiet          bool // nothing is written, the answer is gathered alone
	limit          int
	started, ended bool
	sequence       int64
	from           int       // where the data of the event begins that is being written
	blocks         []*output // by ordinal; nil: nothing that the client hears of
	items          []*output // by output_index
	size           int
	usage          ir.Usage
	stop           ir.Stop
	refused        bool
	lost           []string
	n              int // for ids
}

// output is an item of the answer.
type output struct {
	kind   ir.BlockKind
	typ    string // of the item
	id     string
	index  int  // output_index; -1: the client has not heard of it
	closed bool // its block is
	done   bool // the client knows it whole
	cut    bool

	callID string
	name   ir.ToolName
	typed  *typed
	text   []byte
	breaks []int // of text: where the second and later parts of a summary begin
	broke  bool  // the next text is another part
	cites  [][]byte
	state  string // sealed
	delta  []byte // how the deltas begin
}

func newEncoder(r ir.Reply) ir.Encoder { return &encoder{reply: r, limit: maxAnswer} }

// Lost names what could not be said.
func (e *encoder) Lost() []string { return e.lost }

// Append appends an event.
func (e *encoder) Append(dst []byte, ev *ir.Event) []byte {
	if e.ended {
		return dst
	}
	switch ev.Kind {
	case ir.EventStart:
		return e.start(dst)
	case ir.EventAlive:
		if e.started && !e.quiet {
			dst = append(dst, keepAlive...)
		}
		return dst
	case ir.EventUsage:
		e.usage.Merge(ev.Usage)
		return dst
	case ir.EventFinish:
		return e.finish(e.start(dst), ev.Stop)
	case ir.EventEnd:
		return e.end(e.start(dst))
	case ir.EventFault:
		return e.fail(e.start(dst), ev.Fault)
	case ir.EventBlock:
		return e.block(e.start(dst), ev)
	}
	if ev.Block >= len(e.blocks) || e.blocks[ev.Block] == nil {
		return dst
	}
	o := e.blocks[ev.Block]
	switch ev.Kind {
	case ir.EventDelta:
		dst = e.more(dst, o, ev.Text)
	case ir.EventBreak:
		o.broke = true
	case ir.EventState:
		if o.kind == ir.Thinking { // a text has no place for it, and its client never knew of it
			o.state = ir.Seal(*ev.State)
			e.size += len(o.state)
		}
	case ir.EventCite:
		dst = e.cite(dst, o, ev.Raw)
	case ir.EventClose:
		dst = e.close(dst, o)
	}
	if e.size > e.limit {
		return e.fail(dst, &ir.Fault{Kind: ir.KindAPI, Message: "the answer is too long"})
	}
	return dst
}

// start says that the answer begins.
func (e *encoder) start(dst []byte) []byte {
	if e.started {
		return dst
	}
	e.started = true
	if e.quiet {
		return dst
	}
	for _, typ := range [...]string{"response.created", "response.in_progress"} {
		w := e.event(dst, typ)
		w.Key("response")
		e.response(&w, "in_progress", nil)
		dst = e.sent(&w)
	}
	return dst
}

// event begins an event; sent ends it.
func (e *encoder) event(dst []byte, typ string) rawjson.Writer {
	dst = append(dst, "event: "...)
	dst = append(dst, typ...)
	dst = append(dst, "\ndata: "...)
	e.from = len(dst)
	w := rawjson.Writer{Buf: dst}
	w.Open('{')
	w.Field("type", typ)
	return w
}

func (e *encoder) sent(w *rawjson.Writer) []byte {
	w.Number("sequence_number", e.sequence)
	e.sequence++
	w.Close('}')
	data := w.Buf[e.from:]
	for at := bytes.IndexAny(data, "\n\r"); at >= 0; at = bytes.IndexAny(data, "\n\r") {
		data[at] = ' ' // white space in JSON that others wrote; in texts it is escaped
		data = data[at+1:]
	}
	return append(w.Buf, "\n\n"...)
}

// mint makes an id for an item.
func (e *encoder) mint(prefix string) string {
	e.n++
	return prefix + e.reply.Seed + "_" + strconv.Itoa(e.n-1)
}

// block takes up a block. Texts and reasoning are not told before there is some.
func (e *encoder) block(dst []byte, ev *ir.Event) []byte {
	for len(e.blocks) <= ev.Block {
		e.blocks = append(e.blocks, nil)
	}
	b := ev.Start
	o := &output{kind: b.Kind, index: -1}
	switch b.Kind {
	case ir.Text, ir.Refusal:
		o.typ, o.id = "message", e.mint("msg_")
	case ir.Thinking:
		o.typ, o.id = "reasoning", e.mint("rs_")
	case ir.ToolCall:
		dst = e.callState(dst, b.State)
		e.call(o, b)
	case ir.Image:
		if b.Media.Data == "" {
			e.lost = ir.AppendLost(e.lost, b.AnswerName())
			return dst
		}
		o.typ, o.id, o.text = "image_generation_call", e.mint("ig_"), []byte(b.Media.Data)
		e.size += len(o.text)
	default:
		e.lost = ir.AppendLost(e.lost, b.AnswerName())
		return dst
	}
	e.blocks[ev.Block] = o
	if o.kind == ir.ToolCall && o.typed == nil {
		dst = e.open(dst, o)
	}
	return dst
}

// call fills in what is known of a call at its beginning.
func (e *encoder) call(o *output, b *ir.Block) {
	o.typ, o.name = "function_call", b.ToolName
	prefix := "fc_"
	if b.Form == ir.FormCustom {
		o.typ, prefix = "custom_tool_call", "ctc_"
	} else if o.typed = typedByForm(b.Form); o.typed != nil {
		o.typ, prefix = o.typed.call, "tc_"
	}
	o.id = e.mint(prefix)
	if b.ID == "" {
		o.callID = "call_" + e.reply.Seed + "_" + strconv.Itoa(e.n-1)
	} else {
		o.callID = nameRule().Fit(b.ID)
	}
}

// callState gives the client a call's state in reasoning of its own, right before the call.
func (e *encoder) callState(dst []byte, s *ir.State) []byte {
	if s == nil {
		return dst
	}
	sealed := *s
	sealed.Attach = ir.AttachCall
	o := &output{kind: ir.Thinking, typ: "reasoning", id: e.mint("rs_"), index: -1, state: ir.Seal(sealed)}
	e.size += len(o.state)
	return e.tell(e.open(dst, o), o)
}

// end writes the last event.
func (e *encoder) end(dst []byte) []byte {
	e.ended = true
	typ, status := "response.completed", "completed"
	if e.incomplete() != "" {
		typ, status = "response.incomplete", "incomplete"
	}
	if e.quiet {
		return dst
	}
	w := e.event(dst, typ)
	w.Key("response")
	e.response(&w, status, nil)
	return e.sent(&w)
}

// incomplete is the reason for which the answer is not whole, "" where it is. A refusal that the model put into words is.
func (e *encoder) incomplete() string {
	switch e.stop.Reason {
	case ir.StopLength, ir.StopContext:
		return "max_output_tokens"
	case ir.StopRefusal:
		if !e.refused {
			return "content_filter"
		}
	}
	return ""
}

// fail ends a broken stream.
func (e *encoder) fail(dst []byte, f *ir.Fault) []byte {
	e.ended = true
	if e.quiet {
		return dst
	}
	w := e.event(dst, "response.failed")
	w.Key("response")
	e.response(&w, "failed", f)
	return e.sent(&w)
}
