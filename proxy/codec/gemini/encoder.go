package gemini

import (
	"bytes"
	"strconv"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// encoder writes an answer as a stream of GenerateContentResponses: each holds the parts that are new.
type encoder struct {
	reply  ir.Reply
	tail   []byte // of every chunk: modelVersion and responseId
	chunks int
	blocks []outBlock
	usage  ir.Usage
	first  int // the first block that may be a call that waits
	held   int // calls that have ended and wait
	made   int // calls that are out
	lost   []string
}

// outBlock is what the encoder knows of a block.
type outBlock struct {
	ir.Block
	args   []byte
	closed bool
	sure   bool // something came behind its end: it was not cut
	out    bool
}

func newEncoder(r ir.Reply) *encoder {
	tail := append([]byte(`,"modelVersion":`), rawjson.AppendString(nil, r.Model)...)
	tail = rawjson.AppendString(append(tail, `,"responseId":`...), r.Seed)
	return &encoder{reply: r, tail: append(tail, '}')}
}

// Lost implements ir.Encoder.
func (e *encoder) Lost() []string { return e.lost }

// Append implements ir.Encoder. A fault is not said: gemini-cli takes an error chunk for a broken stream that it asks for
// again, so that the connection is aborted instead (http.md, Errors).
func (e *encoder) Append(dst []byte, ev *ir.Event) []byte {
	switch ev.Kind {
	case ir.EventBlock:
		return e.begin(dst, ev)
	case ir.EventDelta:
		return e.delta(dst, ev)
	case ir.EventBreak:
		return e.text(dst, ir.Thinking, "\n\n")
	case ir.EventState:
		if b := e.at(ev.Block); b != nil {
			b.State = ev.State
		}
	case ir.EventCite:
		e.lost = ir.AppendLost(e.lost, "citations")
	case ir.EventClose:
		return e.close(dst, ev.Block)
	case ir.EventUsage:
		e.usage.Merge(ev.Usage)
	case ir.EventFinish:
		return e.finish(dst, &ev.Stop)
	case ir.EventEnd:
		if e.reply.Array {
			return append(dst, ']')
		}
	}
	return dst
}

func (e *encoder) at(n int) *outBlock {
	if n < 0 || n >= len(e.blocks) {
		return nil
	}
	return &e.blocks[n]
}

// head begins a chunk up to its parts.
func (e *encoder) head(dst []byte) []byte {
	switch {
	case !e.reply.Array:
		dst = append(dst, "data: "...)
	case e.chunks == 0:
		dst = append(dst, '[')
	default:
		dst = append(dst, ",\n"...)
	}
	e.chunks++
	return append(dst, `{"candidates":[{"content":{"role":"model","parts":[`...)
}

// foot ends a chunk that says no more than parts.
func (e *encoder) foot(dst []byte) []byte {
	return e.end(append(dst, `]},"index":0}]`...))
}

func (e *encoder) end(dst []byte) []byte {
	dst = append(dst, e.tail...)
	if !e.reply.Array {
		dst = append(dst, "\n\n"...)
	}
	return dst
}

func (e *encoder) begin(dst []byte, ev *ir.Event) []byte {
	dst = e.release(dst)
	for len(e.blocks) <= ev.Block {
		e.blocks = append(e.blocks, outBlock{})
	}
	b := &e.blocks[ev.Block]
	*b = outBlock{Block: *ev.Start}
	if !isMedia(&b.Block) {
		if !sayable(b.Kind) {
			e.lost = ir.AppendLost(e.lost, b.AnswerName())
		}
		return dst
	}
	part := appendMedia(nil, &b.Media)
	if part == nil {
		e.lost = ir.AppendLost(e.lost, b.AnswerName())
		return dst
	}
	return e.foot(append(e.head(dst), part...))
}

// sayable reports whether the dialect has blocks of a kind, beside media.
func sayable(k ir.BlockKind) bool {
	return k == ir.Text || k == ir.Refusal || k == ir.Thinking || k == ir.ToolCall
}

// appendMedia appends an inlineData part, nil where the data lies elsewhere.
func appendMedia(dst []byte, m *ir.Media) []byte {
	data := ir.StandardBase64(m.Data)
	if data == "" || !isBase64(data) {
		return nil
	}
	dst = rawjson.AppendString(append(dst, `{"inlineData":{"mimeType":`...), mimeOf(&ir.Media{MIME: m.MIME, Data: data}))
	dst = rawjson.AppendString(append(dst, `,"data":`...), data)
	return append(dst, "}}"...)
}

func (e *encoder) delta(dst []byte, ev *ir.Event) []byte {
	b := e.at(ev.Block)
	if b == nil {
		return dst
	}
	switch b.Kind {
	case ir.Text, ir.Refusal:
		return e.text(e.release(dst), ir.Text, ev.Text)
	case ir.Thinking:
		return e.text(e.release(dst), ir.Thinking, ev.Text)
	case ir.ToolCall:
		dst = e.release(dst)
		b.args = append(b.args, ev.Text...)
	}
	return dst
}

// text writes a chunk with one piece.
func (e *encoder) text(dst []byte, kind ir.BlockKind, s string) []byte {
	return e.foot(appendText(e.head(dst), kind, s, nil))
}

// appendText appends a part of text or reasoning, with its sealed state.
func appendText(dst []byte, kind ir.BlockKind, s string, state *ir.State) []byte {
	dst = rawjson.AppendString(append(dst, `{"text":`...), s)
	if kind == ir.Thinking {
		dst = append(dst, `,"thought":true`...)
	}
	dst = appendSeal(dst, state)
	return append(dst, '}')
}

func appendSeal(dst []byte, s *ir.State) []byte {
	if s == nil || s.Owner == "" {
		return dst
	}
	dst = append(dst, `,"thoughtSignature":"`...)
	dst = append(dst, ir.Seal(*s)...) // base64: no escapes
	return append(dst, '"')
}

// close ends a block: the state of text and reasoning follows in an empty part, a call goes out whole, after those that
// began before it. One whose arguments are no object, or none, waits: if the answer ends for its length it was cut
// (CNV-036).
func (e *encoder) close(dst []byte, n int) []byte {
	b := e.at(n)
	if b == nil || b.closed {
		return dst
	}
	b.closed = true
	switch b.Kind {
	case ir.Text, ir.Thinking:
		if b.State != nil && b.State.Owner != "" {
			dst = e.foot(appendText(e.head(dst), b.Kind, "", b.State))
		}
	case ir.ToolCall:
		e.held++
		return e.flush(dst)
	}
	return dst
}

// isWhole reports whether arguments are an object.
func isWhole(args []byte) bool {
	args = bytes.TrimSpace(args)
	return len(args) > 0 && args[0] == '{' && rawjson.Valid(args) == nil
}

// release is told that something comes behind the calls that wait: they were not cut.
func (e *encoder) release(dst []byte) []byte {
	if e.held == 0 {
		return dst
	}
	for n := e.first; n < len(e.blocks); n++ {
		e.blocks[n].sure = e.blocks[n].closed
	}
	return e.flush(dst)
}

// flush writes the calls that need wait no longer, in their order.
func (e *encoder) flush(dst []byte) []byte {
	for ; e.first < len(e.blocks); e.first++ {
		b := &e.blocks[e.first]
		if b.Kind != ir.ToolCall || b.out {
			continue
		}
		if !b.closed || !b.sure && !isWhole(b.args) {
			break
		}
		b.Args = string(b.args)
		dst = e.foot(appendCall(e.head(dst), &b.Block, e.reply.Seed, e.made))
		e.made++
		e.held--
		*b = outBlock{Block: ir.Block{Kind: ir.ToolCall}, closed: true, out: true}
	}
	return dst
}

// cut takes back the calls that an end for its length has cut: they must not be made.
func (e *encoder) cut() {
	for n := e.first; n < len(e.blocks); n++ {
		b := &e.blocks[n]
		if b.Kind == ir.ToolCall && !b.out && !b.sure && (n == len(e.blocks)-1 && !isWhole(b.args) || len(b.args) > 0 && rawjson.Valid(b.args) != nil) {
			b.out = true
			e.held--
			e.lost = ir.AppendLost(e.lost, "functionCall")
		}
	}
}

// appendCall appends a functionCall part; n numbers the calls of the answer.
func appendCall(dst []byte, b *ir.Block, seed string, n int) []byte {
	id := b.ID
	if id == "" {
		id = "call_" + seed + "_" + strconv.Itoa(n)
	}
	name := b.Name
	if b.Namespace != "" {
		name = b.Namespace + "__" + b.Name
	}
	dst = rawjson.AppendString(append(dst, `{"functionCall":{"id":`...), callIDs().Fit(id))
	dst = rawjson.AppendString(append(dst, `,"name":`...), name)
	dst = append(dst, `,"args":`...)
	if b.Form == ir.FormCustom {
		dst = append(dst, ir.WrapCustom(b.Args)...)
	} else {
		dst = rawjson.AppendObject(dst, oneLine(b.Args))
	}
	return append(appendSeal(append(dst, '}'), b.State), '}')
}

// finish writes the last chunk. The CLI wants a finishReason in it.
func (e *encoder) finish(dst []byte, s *ir.Stop) []byte {
	if s.Reason == ir.StopLength {
		e.cut()
	}
	dst = e.release(dst)
	var w rawjson.Writer
	w.Buf = append(e.head(dst), `]},"finishReason":"`...)
	w.Buf = append(append(w.Buf, finishReason(s)...), '"')
	w.Buf = appendFinishMessage(w.Buf, s)
	w.Buf = append(w.Buf, `,"index":0}]`...)
	if e.usage.Known != 0 {
		w.Buf = append(w.Buf, ',')
		writeUsage(&w, &e.usage)
	}
	return e.end(w.Buf)
}

// finishReason is Gemini's word. Calls end with STOP, and so does an answer that a stop sequence ended.
func finishReason(s *ir.Stop) string {
	switch s.Reason {
	case ir.StopLength, ir.StopContext:
		return "MAX_TOKENS"
	case ir.StopRefusal:
		return "SAFETY"
	}
	return "STOP"
}

func appendFinishMessage(dst []byte, s *ir.Stop) []byte {
	if s.Reason != ir.StopRefusal || s.Text == "" {
		return dst
	}
	return rawjson.AppendString(append(dst, `,"finishMessage":`...), s.Text)
}
