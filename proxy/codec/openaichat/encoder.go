package openaichat

import (
	"slices"
	"strconv"
	"strings"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// encoder writes an answer as chunks for a client. There is one choice; its calls are numbered in their own order.
type encoder struct {
	seed   string
	head   []byte // what every chunk begins with, up to its delta
	mid    string // between the delta and the reason
	tail   string // behind the reason
	usages bool   // the client asked for the chunk with the usage
	legacy bool   // the client speaks of functions, not of tools
	hide   bool   // the client wants no reasoning

	blocks  []shown
	calls   int
	thought bool // reasoning has been sent
	refused bool
	usage   ir.Usage
	lost    []string
}

// shown is what the encoder knows of a block.
type shown struct {
	kind ir.BlockKind
	call int
	form string
	some bool // a piece of it has come
	mute bool // it cannot be said
}

func newEncoder(r ir.Reply) *encoder {
	e := &encoder{seed: r.Seed, mid: `,"logprobs":null,"finish_reason":`, tail: "}]}\n\n"}
	if q := r.Request; q != nil {
		e.legacy, e.hide, e.usages = saysFunctions(q), hides(q), q.IncludeUsage
	}
	if e.usages {
		e.tail = "}],\"usage\":null}\n\n"
	}
	e.head = appendHead([]byte("data: {"), "chat.completion.chunk", r)
	return e
}

// appendHead appends the members with which chunks and plain answers begin.
func appendHead(dst []byte, object string, r ir.Reply) []byte {
	dst = append(dst, `"id":`...)
	dst = rawjson.AppendString(dst, "chatcmpl-"+r.Seed)
	dst = append(dst, `,"object":"`+object+`","created":`...)
	dst = strconv.AppendInt(dst, r.Created, 10)
	dst = append(dst, `,"model":`...)
	return rawjson.AppendString(dst, r.Model)
}

// saysFunctions reports whether the client uses the deprecated functions and so reads function_call alone.
func saysFunctions(q *ir.Request) bool {
	return len(q.Tools) > 0 && !slices.ContainsFunc(q.Tools, func(t ir.Tool) bool { return !strings.HasPrefix(t.At, "functions[") })
}

// hides reports whether the client asked for an answer without the text of the reasoning.
func hides(q *ir.Request) bool { return q.Reasoning.Show != nil && !*q.Reasoning.Show }

// Lost names what could not be said.
func (e *encoder) Lost() []string { return e.lost }

// Append appends the chunks that say the event.
func (e *encoder) Append(dst []byte, ev *ir.Event) []byte {
	switch ev.Kind {
	case ir.EventStart:
		return e.chunk(dst, `{"role":"assistant","content":"","refusal":null}`, "null")
	case ir.EventBlock:
		return e.block(dst, ev)
	case ir.EventDelta:
		return e.delta(dst, ev.Block, ev.Text)
	case ir.EventBreak:
		return e.delta(dst, ev.Block, "\n\n")
	case ir.EventCite:
		e.lost = ir.AppendLost(e.lost, "citations")
	case ir.EventClose:
		if b := e.at(ev.Block); b != nil && b.kind == ir.ToolCall && !b.some && b.form == "" {
			return e.delta(dst, ev.Block, "{}") // arguments are JSON: of nothing, an empty object
		}
	case ir.EventUsage:
		e.usage.Merge(ev.Usage)
	case ir.EventFinish:
		return e.finish(dst, &ev.Stop)
	case ir.EventEnd:
		return e.end(dst)
	case ir.EventFault:
		return appendFault(dst, ev.Fault, "")
	}
	return dst
}

// chunk appends one chunk. delta and reason are JSON.
func (e *encoder) chunk(dst []byte, delta, reason string) []byte {
	dst = e.open(dst)
	dst = append(dst, delta...)
	return e.shut(dst, reason)
}

func (e *encoder) open(dst []byte) []byte {
	dst = append(dst, e.head...)
	return append(dst, `,"choices":[{"index":0,"delta":`...)
}

func (e *encoder) shut(dst []byte, reason string) []byte {
	dst = append(dst, e.mid...)
	dst = append(dst, reason...)
	return append(dst, e.tail...)
}

func (e *encoder) at(n int) *shown {
	if n < 0 || n >= len(e.blocks) {
		return nil
	}
	return &e.blocks[n]
}

// block takes note of a block. A call is said at once, the others with their first piece.
func (e *encoder) block(dst []byte, ev *ir.Event) []byte {
	for len(e.blocks) <= ev.Block {
		e.blocks = append(e.blocks, shown{})
	}
	s := ev.Start
	b := &e.blocks[ev.Block]
	*b = shown{kind: s.Kind, form: s.Form}
	switch s.Kind {
	case ir.Text:
	case ir.Refusal:
		e.refused = true
	case ir.Thinking:
		b.mute = e.hide
	case ir.ToolCall:
		b.call = e.calls
		e.calls++
		if e.legacy && b.call > 0 { // function_call holds one
			b.mute = true
			e.lost = ir.AppendLost(e.lost, "function_call")
			return dst
		}
		return e.call(dst, b, s)
	default:
		b.mute = true
		e.lost = ir.AppendLost(e.lost, s.AnswerName())
	}
	return dst
}

// call says that a call begins: id, kind, name and empty arguments, as SDKs want them in the first piece.
func (e *encoder) call(dst []byte, b *shown, s *ir.Block) []byte {
	dst = e.open(dst)
	switch {
	case e.legacy:
		dst = append(dst, `{"function_call":{"name":`...)
		dst = rawjson.AppendString(dst, s.Name)
		dst = append(dst, `,"arguments":""}}`...)
	default:
		dst = append(dst, `{"tool_calls":[{"index":`...)
		dst = strconv.AppendInt(dst, int64(b.call), 10)
		dst = append(dst, `,"id":`...)
		dst = rawjson.AppendString(dst, callID(s.ID, e.seed, b.call))
		if s.Form == ir.FormCustom {
			dst = append(dst, `,"type":"custom","custom":{"name":`...)
			dst = rawjson.AppendString(dst, s.Name)
			dst = append(dst, `,"input":""}}]}`...)
			break
		}
		dst = append(dst, `,"type":"function","function":{"name":`...)
		dst = rawjson.AppendString(dst, s.Name)
		dst = append(dst, `,"arguments":""}}]}`...)
	}
	return e.shut(dst, "null")
}

// callID is the id that a client sees.
func callID(id, seed string, n int) string {
	if id == "" {
		return "call_" + seed + "_" + strconv.Itoa(n)
	}
	return callIDs().Fit(id)
}

// delta says a piece of a block.
func (e *encoder) delta(dst []byte, n int, text string) []byte {
	b := e.at(n)
	if b == nil || b.mute || text == "" {
		return dst
	}
	if b.kind == ir.Thinking && !b.some && e.thought {
		text = "\n\n" + text // as between the parts of one
	}
	b.some = true
	dst = e.open(dst)
	closing := "}"
	switch b.kind {
	case ir.Thinking:
		e.thought = true
		dst = append(dst, `{"reasoning_content":`...)
	case ir.Refusal:
		dst = append(dst, `{"refusal":`...)
	case ir.ToolCall:
		switch {
		case e.legacy:
			dst = append(dst, `{"function_call":{"arguments":`...)
			closing = "}}"
		case b.form == ir.FormCustom:
			dst = append(dst, `{"tool_calls":[{"index":`...)
			dst = strconv.AppendInt(dst, int64(b.call), 10)
			dst = append(dst, `,"custom":{"input":`...)
			closing = "}}]}"
		default:
			dst = append(dst, `{"tool_calls":[{"index":`...)
			dst = strconv.AppendInt(dst, int64(b.call), 10)
			dst = append(dst, `,"function":{"arguments":`...)
			closing = "}}]}"
		}
	default:
		dst = append(dst, `{"content":`...)
	}
	dst = rawjson.AppendString(dst, text)
	dst = append(dst, closing...)
	return e.shut(dst, "null")
}

// finish says why the answer ended. What a provider says about its refusal stands before it.
func (e *encoder) finish(dst []byte, s *ir.Stop) []byte {
	if s.Reason == ir.StopRefusal && !e.refused && s.Text != "" {
		dst = e.open(dst)
		dst = append(dst, `{"refusal":`...)
		dst = rawjson.AppendString(dst, s.Text)
		dst = append(dst, '}')
		dst = e.shut(dst, "null")
	}
	if s.Sequence != "" {
		e.lost = ir.AppendLost(e.lost, "stop_sequence") // which one it was
	}
	return e.chunk(dst, "{}", `"`+finishReason(s, e.refused, e.legacy)+`"`)
}

// finishReason is the dialect's word for why an answer ended. A refusal that was said in words ends as any text does.
func finishReason(s *ir.Stop, refused, legacy bool) string {
	switch s.Reason {
	case ir.StopTool:
		if legacy {
			return "function_call"
		}
		return "tool_calls"
	case ir.StopLength, ir.StopContext:
		return "length"
	case ir.StopRefusal:
		if !refused {
			return "content_filter"
		}
	}
	return "stop"
}

// end says the usage where the client asked for it and there is any, and ends the stream.
func (e *encoder) end(dst []byte) []byte {
	if e.usages && e.usage.Known != 0 {
		dst = append(dst, e.head...)
		w := rawjson.Writer{Buf: append(dst, `,"choices":[],"usage":`...)}
		writeUsage(&w, &e.usage)
		dst = append(w.Buf, "}\n\n"...)
	}
	return append(dst, "data: [DONE]\n\n"...)
}

// appendFault appends the chunk that ends a broken stream; no [DONE] follows.
func appendFault(dst []byte, f *ir.Fault, trace string) []byte {
	dst = append(dst, "data: "...)
	dst = appendError(dst, f, trace)
	return append(dst, "\n\n"...)
}
