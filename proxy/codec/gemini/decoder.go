package gemini

import (
	"bytes"
	"errors"
	"strconv"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// decoder reads an upstream's answer, a chunk at a time. A plain answer is one chunk.
type decoder struct {
	source ir.Source
	start  bool // EventStart is out
	ended  bool
	said   bool // the reason of the end
	any    bool // a block at all
	useful bool // one that is not reasoning
	id     string
	usage  figures

	next   int          // ordinal of the next block
	kind   ir.BlockKind // of the open block; 0: none is open
	signed bool         // its state is out
	pieces rawjson.Pieces
	calls  int
	ids    map[string]bool
	half   *partialCall
}

func newDecoder(s ir.Source) *decoder { return &decoder{source: s, usage: noFigures()} }

// chunk is what a GenerateContentResponse says, raw; nil = absent.
type chunk struct {
	candidates, feedback, usage, fault, id, model []byte
}

func readChunk(data []byte) (c chunk, ok bool) {
	err := rawjson.Walk(data, func(key []byte, f rawjson.Field) error {
		v := f.Value(data)
		if isNull(v) {
			return nil
		}
		switch string(camel(key)) {
		case "candidates":
			c.candidates = v
		case "promptFeedback":
			c.feedback = v
		case "usageMetadata":
			c.usage = v
		case "error":
			c.fault = v
		case "responseId":
			c.id = v
		case "modelVersion":
			c.model = v
		}
		return nil
	})
	return c, err == nil
}

// Event implements ir.Decoder.
func (d *decoder) Event(dst []ir.Event, _, data []byte) []ir.Event {
	if d.ended {
		return dst
	}
	if len(data) > 0 && data[0] == '[' { // an array of chunks, as errors of the array form come
		_ = rawjson.Elements(data, func(_ int, v []byte) error {
			if isObject(v) {
				dst = d.Event(dst, nil, v)
			}
			return nil
		})
		return dst
	}
	c, ok := readChunk(data)
	if !ok {
		return dst
	}
	if c.fault != nil {
		f := fault(0, data)
		return d.fail(dst, &f)
	}
	return d.chunk(dst, &c)
}

func (d *decoder) fail(dst []ir.Event, f *ir.Fault) []ir.Event {
	d.ended = true
	return append(dst, ir.Event{Kind: ir.EventFault, Fault: f})
}

func (d *decoder) chunk(dst []ir.Event, c *chunk) []ir.Event {
	if c.candidates == nil && c.feedback == nil && c.usage == nil && c.id == nil {
		return append(dst, ir.Event{Kind: ir.EventAlive})
	}
	if !d.start {
		d.start = true
		d.id = rawText(c.id)
		dst = append(dst, ir.Event{Kind: ir.EventStart, ID: d.id, Model: rawText(c.model)})
	}
	if c.usage != nil && d.usage.read(c.usage) {
		dst = append(dst, ir.Event{Kind: ir.EventUsage, Usage: d.usage.usage()})
	}
	if reason := blocked(c.feedback); reason != "" {
		stop := ir.Stop{Reason: ir.StopRefusal, Native: reason, Text: rawText(rawjson.Get(c.feedback, "blockReasonMessage"))}
		dst = d.finish(dst, stop)
	}
	if !isArray(c.candidates) {
		return dst
	}
	_ = rawjson.Elements(c.candidates, func(i int, v []byte) error {
		if n, ok := rawjson.Int(rawjson.Get(v, "index")); (ok && n == 0 || !ok && i == 0) && !d.ended {
			dst = d.candidate(dst, v)
		}
		return nil
	})
	return dst
}

// candidate reads what is new of the answer.
func (d *decoder) candidate(dst []ir.Event, raw []byte) []ir.Event {
	var content, reason, message, grounding, citations []byte
	_ = rawjson.Walk(raw, func(key []byte, f rawjson.Field) error {
		switch v := f.Value(raw); string(camel(key)) {
		case "content":
			content = v
		case "finishReason":
			reason = v
		case "finishMessage":
			message = v
		case "groundingMetadata":
			grounding = v
		case "citationMetadata":
			citations = v
		}
		return nil
	})
	if parts := rawjson.Get(content, "parts"); isArray(parts) {
		_ = rawjson.Elements(parts, func(_ int, v []byte) error {
			dst = d.part(dst, v)
			return nil
		})
	}
	dst = d.cite(dst, rawjson.Get(grounding, "groundingChunks"))
	dst = d.cite(dst, rawjson.Get(citations, "citationSources"))
	dst = d.cite(dst, rawjson.Get(citations, "citations"))
	native := rawText(reason)
	if native == "" || native == "FINISH_REASON_UNSPECIFIED" {
		return dst
	}
	stop := ir.Stop{Reason: stopOf(native), Native: native}
	switch {
	case stop.Reason == ir.StopRefusal:
		stop.Text = rawText(message)
	case isMalformed(native) && !d.useful && d.half == nil:
		text := rawText(message)
		if text == "" {
			text = "the model made a malformed answer"
		}
		return d.fail(dst, &ir.Fault{Status: 502, Kind: ir.KindAPI, Type: native, Message: text})
	}
	return d.finish(dst, stop)
}

// finish says why the answer ends. Usage, at times more text, may follow.
func (d *decoder) finish(dst []ir.Event, stop ir.Stop) []ir.Event {
	d.said = true
	dst = d.close(dst)
	if stop.Reason == ir.StopLength {
		dst = d.cutHalf(dst)
	}
	dst = d.endHalf(dst)
	return append(dst, ir.Event{Kind: ir.EventFinish, Stop: stop})
}

// stopOf is the canonical word for a finishReason. A stop sequence is not told from a natural end.
func stopOf(native string) ir.StopReason {
	switch native {
	case "MAX_TOKENS":
		return ir.StopLength
	case "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR", "JAILBREAK",
		"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "IMAGE_OTHER":
		return ir.StopRefusal
	case "TOO_MANY_TOOL_CALLS", "CONTINUATION":
		return ir.StopPause
	}
	return ir.StopEnd
}

// isMalformed reports whether a finishReason says that the model failed at a call.
func isMalformed(native string) bool {
	switch native {
	case "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MISSING_THOUGHT_SIGNATURE", "MALFORMED_RESPONSE":
		return true
	}
	return false
}

// part reads one part.
func (d *decoder) part(dst []ir.Event, raw []byte) []ir.Event {
	var said, call, inline, other, signature []byte
	var kind string
	thought := false
	_ = rawjson.Walk(raw, func(key []byte, f rawjson.Field) error {
		v := f.Value(raw)
		if isNull(v) {
			return nil
		}
		switch string(camel(key)) {
		case "text":
			said = v
		case "functionCall":
			call = v
		case "inlineData":
			inline = v
		case "executableCode", "codeExecutionResult", "toolCall", "toolResponse", "fileData", "functionResponse":
			other, kind = v, string(camel(key))
		case "thought":
			thought = string(v) == "true"
		case "thoughtSignature":
			signature = v
		}
		return nil
	})
	state := d.state(signature)
	switch {
	case call != nil:
		return d.call(dst, call, state)
	case inline != nil:
		return d.media(dst, inline)
	case other != nil:
		return d.whole(dst, &ir.Block{Kind: ir.Opaque, Type: kind, Raw: bytes.Clone(raw)})
	case thought:
		return d.text(dst, ir.Thinking, said, state)
	}
	return d.text(dst, ir.Text, said, state)
}

// state is what a signature becomes.
func (d *decoder) state(signature []byte) *ir.State {
	if s := rawText(signature); s != "" {
		return &ir.State{Owner: d.source.Owner, Data: s}
	}
	return nil
}

// text takes a piece of text or reasoning. A signature closes its block; one that comes alone belongs to the block that
// is open, or is reasoning of its own; with nothing before it, it says nothing of a text.
func (d *decoder) text(dst []ir.Event, kind ir.BlockKind, raw []byte, state *ir.State) []ir.Event {
	empty := len(raw) <= len(`""`)
	if empty && state == nil || empty && kind == ir.Text && d.kind != ir.Text {
		return dst
	}
	if d.kind != kind {
		dst = d.open(d.close(dst), &ir.Block{Kind: kind})
		d.kind = kind
	}
	if s, ok := d.pieces.Next(raw); ok && s != "" {
		dst = append(dst, ir.Event{Kind: ir.EventDelta, Block: d.next - 1, Text: s})
	}
	if state == nil {
		return dst
	}
	dst = d.flush(dst)
	dst = append(dst, ir.Event{Kind: ir.EventState, Block: d.next - 1, State: state})
	d.signed = true
	return d.close(dst)
}

// open begins a block.
func (d *decoder) open(dst []ir.Event, b *ir.Block) []ir.Event {
	d.any = true
	d.useful = d.useful || b.Kind != ir.Thinking
	dst = append(dst, ir.Event{Kind: ir.EventBlock, Block: d.next, Start: b})
	d.next++
	return dst
}

// flush lets go of half a character that no other half followed.
func (d *decoder) flush(dst []ir.Event) []ir.Event {
	if s := d.pieces.End(); s != "" {
		dst = append(dst, ir.Event{Kind: ir.EventDelta, Block: d.next - 1, Text: s})
	}
	return dst
}

// close ends the open block. Unsigned reasoning gets a state that says whose it is.
func (d *decoder) close(dst []ir.Event) []ir.Event {
	if d.kind == 0 {
		return dst
	}
	dst = d.flush(dst)
	if d.kind == ir.Thinking && !d.signed {
		dst = append(dst, ir.Event{Kind: ir.EventState, Block: d.next - 1, State: &ir.State{Owner: d.source.Owner}})
	}
	d.kind, d.signed = 0, false
	return append(dst, ir.Event{Kind: ir.EventClose, Block: d.next - 1})
}

// whole passes on a block that has no pieces.
func (d *decoder) whole(dst []ir.Event, b *ir.Block) []ir.Event {
	dst = d.open(d.close(dst), b)
	return append(dst, ir.Event{Kind: ir.EventClose, Block: d.next - 1})
}

func (d *decoder) media(dst []ir.Event, raw []byte) []ir.Event {
	b := &ir.Block{}
	_ = rawjson.Walk(raw, func(key []byte, f rawjson.Field) error {
		switch v := f.Value(raw); string(camel(key)) {
		case "mimeType":
			b.Media.MIME = rawText(v)
		case "data":
			b.Media.Data = ir.StandardBase64(rawText(v))
		case "displayName":
			b.Media.Name = rawText(v)
		}
		return nil
	})
	if b.Media.Data == "" {
		return dst
	}
	b.Media.MIME = mimeOf(&b.Media)
	b.Kind = mediaKind(b.Media.MIME)
	return d.whole(dst, b)
}

// cite passes on sources of the text that is open, each an object.
func (d *decoder) cite(dst []ir.Event, list []byte) []ir.Event {
	if d.kind != ir.Text || !isArray(list) {
		return dst
	}
	_ = rawjson.Elements(list, func(_ int, v []byte) error {
		if isObject(v) {
			dst = append(dst, ir.Event{Kind: ir.EventCite, Block: d.next - 1, Raw: bytes.Clone(v)})
		}
		return nil
	})
	return dst
}

// call takes a functionCall, which comes whole but for Vertex's partialArgs.
func (d *decoder) call(dst []ir.Event, raw []byte, state *ir.State) []ir.Event {
	b := &ir.Block{Kind: ir.ToolCall, State: state}
	var args, partial []byte
	more := false
	_ = rawjson.Walk(raw, func(key []byte, f rawjson.Field) error {
		switch v := f.Value(raw); string(camel(key)) {
		case "id":
			b.ID = rawText(v)
		case "name":
			b.Name = rawText(v)
		case "args":
			if !isNull(v) {
				args = v
			}
		case "partialArgs":
			partial = v
		case "willContinue":
			more = string(v) == "true"
		}
		return nil
	})
	switch {
	case partial != nil || more || d.half != nil && b.Name == "" && args == nil:
		return d.piece(dst, b, partial, more)
	case b.Name == "" && b.ID == "" && args == nil:
		return dst
	}
	return d.emit(d.endHalf(dst), b, string(args), true)
}

// emit passes on a call; whole is false where its arguments were cut.
func (d *decoder) emit(dst []ir.Event, b *ir.Block, args string, whole bool) []ir.Event {
	d.name(b)
	dst = d.open(d.close(dst), b)
	if args != "" {
		dst = append(dst, ir.Event{Kind: ir.EventDelta, Block: d.next - 1, Text: args})
	}
	if whole {
		dst = append(dst, ir.Event{Kind: ir.EventClose, Block: d.next - 1})
	}
	return dst
}

// name gives a call an id of its own where it has none, or that of another one.
func (d *decoder) name(b *ir.Block) {
	if d.ids == nil {
		d.ids = map[string]bool{}
	}
	if b.ID == "" {
		from := d.id
		if from == "" {
			from = d.source.Seed
		}
		b.ID = "fc_" + from + "_" + strconv.Itoa(d.calls)
	}
	d.calls++
	for n, id := 2, b.ID; d.ids[b.ID]; n++ {
		b.ID = id + "_" + strconv.Itoa(n)
	}
	d.ids[b.ID] = true
}

// End implements ir.Decoder: these streams end with their body. One that never said why is taken for whole if anything
// came; a call that was cut stays open.
func (d *decoder) End(dst []ir.Event) []ir.Event {
	if d.ended || !d.said && !d.any && d.half == nil {
		return dst
	}
	d.ended = true
	dst = d.cutHalf(d.close(dst))
	if !d.said {
		dst = append(dst, ir.Event{Kind: ir.EventFinish, Stop: ir.Stop{Reason: ir.StopEnd, Assumed: true}})
	}
	return append(dst, ir.Event{Kind: ir.EventEnd})
}

var errNotGemini = errors.New("the answer is not one of generateContent")

// decodeAnswer implements ir.Dialect.
func decodeAnswer(body []byte, s ir.Source) ([]ir.Event, error) {
	d := newDecoder(s)
	body = bytes.TrimSpace(body)
	if isObject(body) {
		if c, ok := readChunk(body); !ok || c.candidates == nil && c.feedback == nil && c.fault == nil {
			return nil, errNotGemini
		}
	}
	events := d.Event(nil, nil, body)
	events = d.End(events)
	if d.ended {
		return events, nil
	}
	if !d.start {
		return nil, errNotGemini
	}
	return append(events, // it says that nothing was made
		ir.Event{Kind: ir.EventFinish, Stop: ir.Stop{Reason: ir.StopEnd, Assumed: true}}, ir.Event{Kind: ir.EventEnd}), nil
}
