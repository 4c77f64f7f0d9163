package openaichat

import (
	"bytes"
	"errors"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// maxWaiting bounds what is held back of text that comes while a call is half said, in bytes.
const maxWaiting = 64 << 10

// decoder reads an upstream's chunks. Choices 0 and 1 are one answer: Copilot splits it.
type decoder struct {
	src ir.Source
	dst []ir.Event

	started, ended bool
	blocks         int // ordinals given
	open           openBlock
	calls          []*call
	spoken         bool // a Text, Refusal or whole block has begun
	refused        bool
	blank          string    // white space that is no block of its own unless text follows
	waiting        []waiting // text that came while a call is half said
	waitingSize    int
	stop           *ir.Stop
}

// openBlock is the block of text that takes pieces; kind 0: none.
type openBlock struct {
	kind    ir.BlockKind
	n       int
	pieces  rawjson.Pieces
	details []byte // opaque reasoning_details, with commas
	opaque  string
}

type waiting struct {
	kind ir.BlockKind
	text string
}

func newDecoder(s ir.Source) *decoder { return &decoder{src: s} }

// done is the data of the event that ends a stream.
const done = "[DONE]"

// Event reads one event.
func (d *decoder) Event(dst []ir.Event, name, data []byte) []ir.Event {
	d.dst = dst
	data = bytes.TrimSpace(data)
	switch {
	case d.ended:
	case string(data) == done:
		d.finishAll()
	case !isObject(data) && string(name) == "error":
		d.fail(fault(0, data))
	case !isObject(data): // empty data, or ": keepalive" put into data
		d.emit(ir.Event{Kind: ir.EventAlive})
	default:
		d.chunk(data, string(name) == "error")
	}
	dst, d.dst = d.dst, nil
	return dst
}

// End closes an answer whose stream ended without [DONE]: that is natural once the reason was said.
func (d *decoder) End(dst []ir.Event) []ir.Event {
	if d.ended || d.stop == nil {
		return dst
	}
	d.dst = dst
	d.finishAll()
	dst, d.dst = d.dst, nil
	return dst
}

func (d *decoder) emit(e ir.Event) { d.dst = append(d.dst, e) }

// fail ends the answer.
func (d *decoder) fail(f ir.Fault) {
	d.ended = true
	d.emit(ir.Event{Kind: ir.EventFault, Fault: &f})
}

// errEnded stops a walk: the answer has ended.
var errEnded = errors.New("ended")

// chunk reads one chunk, or a plain answer, which has the same shape.
func (d *decoder) chunk(data []byte, failed bool) {
	var id, model, choices, usage, problem, vendor, kind, message []byte
	err := rawjson.Walk(data, func(key []byte, f rawjson.Field) error {
		v := f.Value(data)
		switch string(key) {
		case "id":
			id = v
		case "model":
			model = v
		case "choices":
			choices = v
		case "usage":
			usage = v
		case "error":
			problem = v
		case "x_groq":
			vendor = v
		case "object":
			kind = v
		case "message":
			message = v
		}
		return nil
	})
	if err != nil {
		return // half a frame says nothing
	}
	if failed || !isNull(problem) || string(kind) == `"error"` || choices == nil && isString(message) {
		d.fail(fault(0, data))
		return
	}
	if isArray(choices) {
		_ = rawjson.Elements(choices, func(i int, v []byte) error {
			if !isObject(v) {
				return nil
			}
			d.start(id, model)
			d.choice(i, v)
			if d.ended {
				return errEnded
			}
			return nil
		})
	}
	d.usage(usage)
	if vendor != nil {
		d.usage(rawjson.Get(vendor, "usage"))
	}
}

func (d *decoder) start(id, model []byte) {
	if d.started {
		return
	}
	d.started = true
	e := ir.Event{Kind: ir.EventStart}
	e.ID, _ = rawjson.String(id)
	e.Model, _ = rawjson.String(model)
	d.emit(e)
}

func (d *decoder) usage(raw []byte) {
	if d.ended || !isObject(raw) {
		return
	}
	if u := usage(raw); u.Known != 0 {
		d.emit(ir.Event{Kind: ir.EventUsage, Usage: u})
	}
}

// choice reads one choice: what it adds, then why it ended.
func (d *decoder) choice(position int, raw []byte) {
	var delta, reason, stop, spent, problem []byte
	_ = rawjson.Walk(raw, func(key []byte, f rawjson.Field) error {
		v := f.Value(raw)
		switch string(key) {
		case "index":
			if n, ok := rawjson.Int(v); ok && n >= 0 && n < 1<<20 {
				position = int(n)
			}
		case "delta", "message":
			if isObject(v) {
				delta = v
			}
		case "finish_reason":
			reason = v
		case "stop_reason", "matched_stop": // vLLM, SGLang: the stop string that was met
			if isString(v) {
				stop = v
			}
		case "usage":
			spent = v
		case "error": // OpenRouter
			problem = v
		}
		return nil
	})
	if delta != nil {
		d.delta(position, delta)
	}
	d.usage(spent)
	if isObject(problem) {
		d.fail(fault(0, raw))
		return
	}
	if word, _ := rawjson.String(reason); word != "" {
		d.reason(position, word, stop)
	}
}

// delta reads what a chunk adds: reasoning, then text, then calls.
func (d *decoder) delta(choice int, raw []byte) {
	var content, refusal, calls, call, cites, images, extra []byte
	var thought reasoningParts
	_ = rawjson.Walk(raw, func(key []byte, f rawjson.Field) error {
		v := f.Value(raw)
		if isNull(v) {
			return nil
		}
		switch string(key) {
		case "role":
		case "content":
			content = v
		case "refusal":
			refusal = v
		case "tool_calls":
			calls = v
		case "function_call":
			call = v
		case "annotations":
			cites = v
		case "images":
			images = v
		case "extra_content":
			extra = v
		default:
			thought.take(string(key), v)
		}
		return nil
	})
	d.thought(&thought)
	d.content(content)
	if isString(refusal) {
		d.piece(ir.Refusal, refusal)
	}
	d.cite(cites)
	d.sign(extra)
	d.images(images)
	if isArray(calls) {
		_ = rawjson.Elements(calls, func(i int, v []byte) error {
			if isObject(v) {
				d.toolCall(choice, i, v)
			}
			return nil
		})
	}
	if isObject(call) {
		d.functionCall(choice, call)
	}
}

// thought reads the reasoning of a delta.
func (d *decoder) thought(p *reasoningParts) {
	for _, v := range [...][]byte{p.content, p.reasoning, p.copilot, p.details} {
		if isString(v) && len(v) > 2 {
			d.piece(ir.Thinking, v)
			break
		}
		if s := looseText(v); s != "" {
			d.text(ir.Thinking, s)
			break
		}
	}
	opaque, _ := rawjson.String(p.opaque)
	if opaque == "" && p.details == nil {
		return
	}
	details := opaqueDetails(nil, p.details)
	if opaque == "" && len(details) == 0 {
		return
	}
	if d.open.kind != ir.Thinking { // a signature without text is a block, too
		d.closeText()
		d.closeCalls()
		d.begin(&ir.Block{Kind: ir.Thinking})
		if d.busy() {
			defer d.closeText() // a call goes on beside it: nothing may be added
		}
	}
	o := &d.open
	if len(o.details)+len(details) < maxOpaque {
		if len(o.details) > 0 && len(details) > 0 {
			o.details = append(o.details, ',')
		}
		o.details = append(o.details, details...)
	}
	if opaque != "" {
		o.opaque = opaque
	}
}

// content reads text, or an array of parts as Mistral sends it.
func (d *decoder) content(v []byte) {
	switch {
	case isString(v):
		d.piece(ir.Text, v)
	case isArray(v):
		_ = rawjson.Elements(v, func(_ int, part []byte) error {
			switch kind, _ := rawjson.String(rawjson.Get(part, "type")); kind {
			case "text":
				d.text(ir.Text, looseText(rawjson.Get(part, "text")))
			case "thinking":
				d.text(ir.Thinking, looseText(rawjson.Get(part, "thinking")))
			case "refusal":
				d.text(ir.Refusal, looseText(rawjson.Get(part, "refusal")))
			default:
				if isObject(part) {
					d.whole(&ir.Block{Kind: ir.Opaque, Type: kind, Raw: bytes.Clone(part)})
				}
			}
			return nil
		})
	}
}

// cite reads annotations: citations of the text that is open.
func (d *decoder) cite(v []byte) {
	if !isArray(v) || d.open.kind != ir.Text {
		return
	}
	_ = rawjson.Elements(v, func(_ int, c []byte) error {
		if isObject(c) {
			d.emit(ir.Event{Kind: ir.EventCite, Block: d.open.n, Raw: bytes.Clone(c)})
		}
		return nil
	})
}

// sign reads the signature of a text (Gemini's OpenAI face).
func (d *decoder) sign(extra []byte) {
	if s := signature(extra); s != "" && d.open.kind == ir.Text {
		d.emit(ir.Event{Kind: ir.EventState, Block: d.open.n, State: &ir.State{Owner: d.src.Owner, Data: s}})
	}
}

// signature is extra_content.google.thought_signature.
func signature(extra []byte) string {
	if !isObject(extra) {
		return ""
	}
	google := rawjson.Get(extra, "google")
	if !isObject(google) {
		return ""
	}
	s, _ := rawjson.String(rawjson.Get(google, "thought_signature"))
	return s
}

// images reads pictures that the model made (OpenRouter).
func (d *decoder) images(v []byte) {
	if !isArray(v) {
		return
	}
	_ = rawjson.Elements(v, func(_ int, v []byte) error {
		address, _ := rawjson.String(rawjson.Get(rawjson.Get(v, "image_url"), "url"))
		b := &ir.Block{Kind: ir.Image}
		var ok bool
		if b.Media, ok = ir.MediaAt(address); ok && address != "" {
			d.whole(b)
		}
		return nil
	})
}

// decodeAnswer reads a plain answer.
func decodeAnswer(body []byte, s ir.Source) ([]ir.Event, error) {
	body = bytes.TrimSpace(body)
	if !isObject(body) || rawjson.Valid(body) != nil {
		return nil, errors.New("the answer is no JSON object")
	}
	d := newDecoder(s)
	d.chunk(body, false)
	switch {
	case d.ended:
	case !d.started:
		return nil, errors.New("the answer has no choices")
	default:
		d.finishAll()
	}
	return d.dst, nil
}
