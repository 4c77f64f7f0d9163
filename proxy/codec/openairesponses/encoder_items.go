package openairesponses

import (
	"slices"
	"strconv"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// open tells the client that an item begins.
func (e *encoder) open(dst []byte, o *output) []byte {
	if o.index >= 0 {
		return dst
	}
	o.index = len(e.items)
	e.items = append(e.items, o)
	if e.quiet {
		return dst
	}
	w := e.event(dst, "response.output_item.added")
	w.Number("output_index", int64(o.index))
	w.Key("item")
	begun := *o
	begun.text, begun.cites, begun.state = nil, nil, ""
	if o.typed != nil || o.kind == ir.Image {
		begun.text = o.text // these come whole
	}
	begun.write(&w, "in_progress")
	dst = e.sent(&w)
	switch o.kind {
	case ir.Text, ir.Refusal:
		w := e.part(dst, "response.content_part.added", o, "content_index", 0)
		w.Key("part")
		begun.writePart(&w)
		dst = e.sent(&w)
	}
	return dst
}

// part begins an event about a part of an item.
func (e *encoder) part(dst []byte, typ string, o *output, index string, n int) rawjson.Writer {
	w := e.event(dst, typ)
	w.Field("item_id", o.id)
	w.Number("output_index", int64(o.index))
	if index != "" {
		w.Number(index, int64(n))
	}
	return w
}

// more passes on more of a block's text.
func (e *encoder) more(dst []byte, o *output, text string) []byte {
	if o.typed != nil {
		o.text = append(o.text, text...)
		e.size += len(text)
		return dst
	}
	dst = e.open(dst, o)
	if o.kind == ir.Thinking {
		dst = e.nextSummary(dst, o)
	}
	o.text = append(o.text, text...)
	e.size += len(text)
	if e.quiet {
		return dst
	}
	if o.delta == nil {
		o.delta = e.deltaHead(o)
	}
	dst = append(dst, o.delta...)
	dst = rawjson.AppendString(dst, text)
	if o.kind == ir.Text {
		dst = append(dst, `,"logprobs":[]`...)
	}
	dst = append(dst, `,"sequence_number":`...)
	dst = strconv.AppendInt(dst, e.sequence, 10)
	e.sequence++
	return append(dst, "}\n\n"...)
}

// deltaHead is what all deltas of an item, or of a part of a summary, begin with.
func (e *encoder) deltaHead(o *output) []byte {
	var w rawjson.Writer
	switch o.kind {
	case ir.Text:
		w = e.part(nil, "response.output_text.delta", o, "content_index", 0)
	case ir.Refusal:
		w = e.part(nil, "response.refusal.delta", o, "content_index", 0)
	case ir.Thinking:
		w = e.part(nil, "response.reasoning_summary_text.delta", o, "summary_index", len(o.breaks))
	default:
		typ := "response.function_call_arguments.delta"
		if o.typ == "custom_tool_call" {
			typ = "response.custom_tool_call_input.delta"
		}
		w = e.part(nil, typ, o, "", 0)
	}
	w.Key("delta")
	return w.Buf
}

// nextSummary begins a part of a summary where one begins. A part without text is none.
func (e *encoder) nextSummary(dst []byte, o *output) []byte {
	n := len(o.breaks)
	switch {
	case len(o.text) == 0:
	case o.broke:
		if n++; !e.quiet {
			dst = e.summaryDone(dst, o, n-1)
		}
		o.breaks = append(o.breaks, len(o.text))
	default:
		return dst
	}
	o.broke, o.delta = false, nil
	if e.quiet {
		return dst
	}
	w := e.part(dst, "response.reasoning_summary_part.added", o, "summary_index", n)
	w.Key("part")
	writeSummary(&w, "")
	return e.sent(&w)
}

func writeSummary[T string | []byte](w *rawjson.Writer, text T) {
	w.Open('{')
	w.Field("type", "summary_text")
	w.Field("text", string(text))
	w.Close('}')
}

// summary returns the text of a part of a summary.
func (o *output) summary(n int) []byte {
	from, to := 0, len(o.text)
	if n > 0 {
		from = o.breaks[n-1]
	}
	if n < len(o.breaks) {
		to = o.breaks[n]
	}
	return o.text[from:to]
}

// summaryDone ends a part of a summary.
func (e *encoder) summaryDone(dst []byte, o *output, n int) []byte {
	w := e.part(dst, "response.reasoning_summary_text.done", o, "summary_index", n)
	w.Field("text", string(o.summary(n)))
	dst = e.sent(&w)
	w = e.part(dst, "response.reasoning_summary_part.done", o, "summary_index", n)
	w.Key("part")
	writeSummary(&w, o.summary(n))
	return e.sent(&w)
}

// cite passes on an annotation: those of the OpenAI dialects, of which Chat nests what Responses has flat.
func (e *encoder) cite(dst []byte, o *output, raw []byte) []byte {
	flat := annotation(raw)
	if o.kind != ir.Text || flat == nil {
		e.lost = ir.AppendLost(e.lost, "citations")
		return dst
	}
	dst = e.open(dst, o)
	o.cites = append(o.cites, flat)
	e.size += len(flat)
	if e.quiet {
		return dst
	}
	w := e.part(dst, "response.output_text.annotation.added", o, "content_index", 0)
	w.Number("annotation_index", int64(len(o.cites)-1))
	w.Member("annotation", flat)
	return e.sent(&w)
}

func annotation(raw []byte) []byte {
	if rawjson.Valid(raw) != nil {
		return nil
	}
	switch typ := stringOf(raw, "type"); typ {
	case "url_citation", "file_citation", "container_file_citation", "file_path":
		nested := rawjson.Get(raw, typ)
		if !isObjectRaw(nested) {
			return slices.Clone(raw)
		}
		w := rawjson.Writer{}
		w.Open('{')
		w.Field("type", typ)
		_ = rawjson.Walk(nested, func(key []byte, f rawjson.Field) error {
			w.Key(string(key))
			w.Raw(f.Value(nested))
			return nil
		})
		w.Close('}')
		return w.Buf
	}
	return nil
}

// close ends a block. Of a call whose arguments are not whole JSON it may be said only at the end whether it was cut: a
// client runs what it is told as done.
func (e *encoder) close(dst []byte, o *output) []byte {
	if o.closed {
		return dst
	}
	o.closed = true
	switch o.kind {
	case ir.Text, ir.Refusal:
		if o.index < 0 {
			return dst // there was no text
		}
		e.refused = e.refused || o.kind == ir.Refusal
	case ir.Thinking:
		if o.index < 0 && o.state == "" {
			return dst
		}
	case ir.ToolCall:
		if !isObject(string(o.text)) {
			return dst
		}
	}
	return e.tell(e.open(dst, o), o)
}

// finish settles the calls that were not sure to be whole.
func (e *encoder) finish(dst []byte, s ir.Stop) []byte {
	e.stop = s
	for _, o := range e.blocks {
		if o == nil || o.kind != ir.ToolCall || o.done {
			continue
		}
		o.closed, o.cut = true, s.Reason == ir.StopLength
		if o.typed != nil && !isObject(string(o.text)) {
			half := string(o.text)
			o.typed, o.typ, o.text = nil, "function_call", nil // it cannot be said in its own form
			if half != "" {
				dst = e.more(dst, o, half)
			}
		}
		dst = e.tell(e.open(dst, o), o)
	}
	return dst
}

// tell tells the client that an item is whole.
func (e *encoder) tell(dst []byte, o *output) []byte {
	o.done, o.delta = true, nil
	if o.kind == ir.ToolCall && o.typ == "function_call" && len(o.text) == 0 {
		o.text = []byte("{}")
	}
	if e.quiet {
		return dst
	}
	switch o.kind {
	case ir.Text:
		w := e.part(dst, "response.output_text.done", o, "content_index", 0)
		w.Field("text", string(o.text))
		w.Key("logprobs")
		w.Raw([]byte("[]"))
		dst = e.sent(&w)
	case ir.Refusal:
		w := e.part(dst, "response.refusal.done", o, "content_index", 0)
		w.Field("refusal", string(o.text))
		dst = e.sent(&w)
	case ir.Thinking:
		if len(o.text) > 0 {
			dst = e.summaryDone(dst, o, len(o.breaks))
		}
	case ir.ToolCall:
		switch o.typ {
		case "function_call":
			w := e.part(dst, "response.function_call_arguments.done", o, "", 0)
			w.Field("name", o.name.Name)
			w.Field("arguments", string(o.text))
			dst = e.sent(&w)
		case "custom_tool_call":
			w := e.part(dst, "response.custom_tool_call_input.done", o, "", 0)
			w.Field("input", string(o.text))
			dst = e.sent(&w)
		}
	}
	if o.kind == ir.Text || o.kind == ir.Refusal {
		w := e.part(dst, "response.content_part.done", o, "content_index", 0)
		w.Key("part")
		o.writePart(&w)
		dst = e.sent(&w)
	}
	w := e.event(dst, "response.output_item.done")
	w.Number("output_index", int64(o.index))
	w.Key("item")
	o.write(&w, o.status())
	return e.sent(&w)
}

func (o *output) status() string {
	if o.cut {
		return "incomplete"
	}
	return "completed"
}
