package anthropic

import (
	"strconv"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
	"coding-proxy/proxy/sse"
)

// encoder writes an answer as a stream. Blocks are strictly one after the other, because clients take the last one for
// the one that a stop ends (facts/protocols.md 1.7): what comes for a later block waits in memory.
type encoder struct {
	reply  ir.Reply
	blocks []outgoing // by ordinal
	active int        // the ordinal that may be written
	index  int        // of the next block on the wire
	kept   int        // bytes that wait

	data    []byte // of the event that is being written; its memory is used again
	usage   ir.Usage
	refused bool
	begun   bool // message_start is out
	ended   bool
	lost    []string
}

// outgoing is a block of the answer.
type outgoing struct {
	start  ir.Block
	text   []byte // that waits
	state  *ir.State
	known  bool // it has begun
	open   bool // its start is on the wire
	some   bool // text has come
	part   bool // a further part begins with the next text
	closed bool
}

func newEncoder(r ir.Reply) *encoder { return &encoder{reply: r} }

// Lost implements ir.Encoder.
func (e *encoder) Lost() []string { return e.lost }

// Append implements ir.Encoder.
func (e *encoder) Append(dst []byte, ev *ir.Event) []byte {
	if e.ended {
		return dst
	}
	switch ev.Kind {
	case ir.EventStart:
		return e.message(dst)
	case ir.EventFault:
		e.ended = true
		return appendErrorEvent(dst, kindOf(ev.Fault), messageOf(ev.Fault), "")
	case ir.EventAlive:
		if e.begun {
			return append(dst, ping(true)...)
		}
		return dst
	case ir.EventUsage:
		e.usage.Merge(ev.Usage)
		return dst
	case ir.EventFinish:
		return e.finish(dst, &ev.Stop)
	case ir.EventEnd:
		e.ended = true
		return sse.Append(dst, "message_stop", []byte(`{"type":"message_stop"}`))
	}
	return e.block(dst, ev)
}

// message writes message_start. The figures of the prompt are not known yet: message_delta will overwrite them.
func (e *encoder) message(dst []byte) []byte {
	e.begun = true
	w := e.event("message_start")
	w.Key("message")
	w.Open('{')
	head(&w, &e.reply)
	w.Key("content")
	w.Raw([]byte("[]"))
	w.Key("stop_reason")
	w.Null()
	w.Key("stop_sequence")
	w.Null()
	w.Key("usage")
	usageObject(&w, &e.usage)
	w.Close('}')
	return e.send(dst, "message_start", w)
}

// event begins the data of an event in the memory that is used again.
func (e *encoder) event(kind string) rawjson.Writer {
	w := rawjson.Writer{Buf: e.data[:0]}
	w.Open('{')
	w.Field("type", kind)
	return w
}

func (e *encoder) send(dst []byte, kind string, w rawjson.Writer) []byte {
	w.Close('}')
	e.data = w.Buf
	return sse.Append(dst, kind, w.Buf)
}

func head(w *rawjson.Writer, r *ir.Reply) {
	w.Field("id", "msg_"+r.Seed)
	w.Field("type", "message")
	w.Field("role", "assistant")
	w.Field("model", r.Model)
}

func usageObject(w *rawjson.Writer, u *ir.Usage) {
	w.Open('{')
	w.Number("input_tokens", u.Input)
	w.Number("cache_creation_input_tokens", u.CacheCreation)
	w.Number("cache_read_input_tokens", u.CacheRead)
	w.Number("output_tokens", u.Output)
	if u.Known&ir.UsageReasoning != 0 {
		w.Key("output_tokens_details")
		w.Open('{')
		w.Number("thinking_tokens", u.Reasoning)
		w.Close('}')
	}
	w.Close('}')
}

// block takes what concerns a block.
func (e *encoder) block(dst []byte, ev *ir.Event) []byte {
	for len(e.blocks) <= ev.Block {
		e.blocks = append(e.blocks, outgoing{})
	}
	b := &e.blocks[ev.Block]
	if b.closed {
		return dst
	}
	now := ev.Block == e.active
	switch ev.Kind {
	case ir.EventBlock:
		b.start, b.known = *ev.Start, true
		if !sayable(b.start.Kind) {
			e.lost = ir.AppendLost(e.lost, b.start.AnswerName())
		}
		e.refused = e.refused || b.start.Kind == ir.Refusal
		if now && b.start.Kind == ir.ToolCall {
			return e.open(dst, b)
		}
	case ir.EventDelta:
		if !sayable(b.start.Kind) {
			return dst
		}
		if !now {
			return e.keep(dst, b, ev.Text)
		}
		dst = e.open(dst, b)
		if b.part {
			b.part = false
			return e.delta(dst, b, "\n\n"+ev.Text)
		}
		return e.delta(dst, b, ev.Text)
	case ir.EventBreak:
		b.part = b.some
	case ir.EventState:
		b.state = ev.State
	case ir.EventCite:
		e.lost = ir.AppendLost(e.lost, "citations")
	case ir.EventClose:
		b.closed = true
		if now {
			return e.advance(e.close(dst, b))
		}
	}
	return dst
}

// sayable are the kinds of blocks that there are here.
func sayable(k ir.BlockKind) bool {
	return k == ir.Text || k == ir.Refusal || k == ir.Thinking || k == ir.ToolCall
}

// keep holds text of a block back whose turn has not come.
func (e *encoder) keep(dst []byte, b *outgoing, text string) []byte {
	if b.part {
		b.text, b.part = append(b.text, "\n\n"...), false
	}
	b.text, b.some = append(b.text, text...), true
	if e.kept += len(text); e.kept > maxBuffered {
		e.ended = true
		return appendErrorEvent(dst, ir.KindAPI, "the upstream's answer holds parallel blocks that are too long", "")
	}
	return dst
}

// advance writes what has waited for its turn.
func (e *encoder) advance(dst []byte) []byte {
	for e.active++; e.active < len(e.blocks); e.active++ {
		b := &e.blocks[e.active]
		if !b.known {
			return dst
		}
		if b.start.Kind == ir.ToolCall || len(b.text) > 0 {
			dst = e.open(dst, b)
		}
		if len(b.text) > 0 {
			dst = e.delta(dst, b, string(b.text))
			e.kept -= len(b.text)
			b.text = nil
		}
		if !b.closed {
			return dst
		}
		dst = e.close(dst, b)
	}
	return dst
}

// open writes a block's start, once.
func (e *encoder) open(dst []byte, b *outgoing) []byte {
	if b.open {
		return dst
	}
	if b.start.Kind == ir.ToolCall {
		if s := b.start.State; s != nil { // the dialect has no slot for it in a call: a block of its own right before
			signed := *s
			signed.Attach = ir.AttachCall
			dst = e.signature(dst, &signed)
		}
	}
	b.open = true
	w := e.begin()
	switch b.start.Kind {
	case ir.ToolCall:
		w.Field("type", "tool_use")
		w.Field("id", callID(&b.start, e.reply.Seed, e.index))
		w.Field("name", b.start.Name)
		w.Key("input")
		w.Raw([]byte("{}"))
	case ir.Thinking:
		thinkingStart(&w)
	default:
		w.Field("type", "text")
		w.Field("text", "")
	}
	w.Close('}')
	return e.send(dst, "content_block_start", w)
}

func thinkingStart(w *rawjson.Writer) {
	w.Field("type", "thinking")
	w.Field("thinking", "")
	w.Field("signature", "")
}

// begin begins a content_block_start; the members of its block follow.
func (e *encoder) begin() rawjson.Writer {
	w := e.event("content_block_start")
	w.Number("index", int64(e.index))
	w.Key("content_block")
	w.Open('{')
	return w
}

// callID is the upstream's id, made legal; a call without one is numbered by its place in the answer.
func callID(b *ir.Block, seed string, index int) string {
	if b.ID == "" {
		return "call_" + seed + "_" + strconv.Itoa(index)
	}
	return idRule().Fit(b.ID)
}

// piece writes a delta.
func (e *encoder) piece(dst []byte, kind, member, text string) []byte {
	w := e.event("content_block_delta")
	w.Number("index", int64(e.index))
	w.Key("delta")
	w.Open('{')
	w.Field("type", kind)
	w.Field(member, text)
	w.Close('}')
	return e.send(dst, "content_block_delta", w)
}

func (e *encoder) delta(dst []byte, b *outgoing, text string) []byte {
	b.some = true
	switch b.start.Kind {
	case ir.ToolCall:
		return e.piece(dst, "input_json_delta", "partial_json", text)
	case ir.Thinking:
		return e.piece(dst, "thinking_delta", "thinking", text)
	}
	return e.piece(dst, "text_delta", "text", text)
}

func (e *encoder) stop(dst []byte) []byte {
	w := e.event("content_block_stop")
	w.Number("index", int64(e.index))
	e.index++
	return e.send(dst, "content_block_stop", w)
}

// close ends a block. One of reasoning ends with its seal; one without text is nothing but the seal.
func (e *encoder) close(dst []byte, b *outgoing) []byte {
	if b.start.Kind == ir.Thinking {
		state := b.state
		if state == nil {
			state = b.start.State
		}
		switch sealed := seal(state); {
		case !b.open && state != nil && state.Redacted && state.Data != "":
			return e.redacted(dst, sealed)
		case !b.open && state != nil && state.Data != "":
			return e.signature(dst, state)
		case b.open && sealed != "":
			dst = e.piece(dst, "signature_delta", "signature", sealed)
		}
	}
	if !b.open {
		return dst
	}
	return e.stop(dst)
}

// seal is what goes into the slot for opaque state.
func seal(s *ir.State) string {
	if s == nil || s.Owner == "" {
		return ""
	}
	return ir.Seal(*s)
}

func (e *encoder) redacted(dst []byte, sealed string) []byte {
	w := e.begin()
	w.Field("type", "redacted_thinking")
	w.Field("data", sealed)
	w.Close('}')
	return e.stop(e.send(dst, "content_block_start", w))
}

// signature writes a block of reasoning that is nothing but a state.
func (e *encoder) signature(dst []byte, s *ir.State) []byte {
	sealed := seal(s)
	if sealed == "" {
		return dst
	}
	w := e.begin()
	thinkingStart(&w)
	w.Close('}')
	dst = e.send(dst, "content_block_start", w)
	return e.stop(e.piece(dst, "signature_delta", "signature", sealed))
}

// finish writes message_delta. The Bridge has closed all blocks, so that none waits any more.
func (e *encoder) finish(dst []byte, s *ir.Stop) []byte {
	w := e.event("message_delta")
	w.Key("delta")
	w.Open('{')
	stopMembers(&w, s, e.refused)
	w.Close('}')
	w.Key("usage")
	usageObject(&w, &e.usage)
	return e.send(dst, "message_delta", w)
}

// stopMembers writes why the answer ended.
func stopMembers(w *rawjson.Writer, s *ir.Stop, refused bool) {
	reason := s.Reason
	if refused && (reason == ir.StopEnd || reason == "") {
		reason = ir.StopRefusal
	}
	if reason == "" {
		reason = ir.StopEnd
	}
	w.Field("stop_reason", string(reason))
	w.Key("stop_sequence")
	if reason == ir.StopSequence && s.Sequence != "" {
		w.String(s.Sequence)
	} else {
		w.Null()
	}
	if reason == ir.StopRefusal && s.Text != "" {
		w.Key("stop_details")
		w.Open('{')
		w.Field("type", "refusal")
		w.Key("category")
		w.Null()
		w.Field("explanation", s.Text)
		w.Close('}')
	}
}
