package openairesponses

import (
	"errors"
	"unicode/utf8"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// decoder reads an upstream's stream (facts/protocols.md, 3.4 and 5.9). What an item says may come in deltas, in the
// events that end its parts, with the whole item or in the last event alone: each later place gives what is missing.
type decoder struct {
	src            ir.Source
	started, ended bool
	next           int // ordinal of the next block
	items          []*entry
	speaking       *entry // the message or the reasoning whose block is open
	refused, calls bool
}

// entry is an item of the answer.
type entry struct {
	index      int // output_index, -1 where it was never said
	id, callID string
	typ        string
	done       bool
	block      int // ordinal of the block that is open, -1 none
	at         int // which of pieces that block is about
	pieces     []piece
}

// pieceKind tells the texts of an item apart.
type pieceKind uint8

const (
	outputText pieceKind = iota
	refusalText
	summaryText
	reasoningText
	arguments
)

// piece is one text of an item.
type piece struct {
	kind   pieceKind
	index  int
	sent   int // bytes that have been passed on
	cites  int
	halves rawjson.Pieces
}

// Bounds of what an answer may make us keep; none comes near.
const (
	maxItems  = 1 << 14
	maxPieces = 1 << 12
)

func newDecoder(s ir.Source) ir.Decoder { return &decoder{src: s} }

// Event reads an event.
func (d *decoder) Event(dst []ir.Event, name, data []byte) []ir.Event {
	if d.ended {
		return dst
	}
	w, ok := scanEvent(name, data)
	if !ok {
		return dst
	}
	switch string(w.typ) {
	case "response.output_text.delta":
		return d.delta(dst, &w, outputText, w.delta)
	case "response.reasoning_summary_text.delta":
		return d.delta(dst, &w, summaryText, w.delta)
	case "response.reasoning_text.delta":
		return d.delta(dst, &w, reasoningText, w.delta)
	case "response.refusal.delta":
		return d.delta(dst, &w, refusalText, w.delta)
	case "response.function_call_arguments.delta", "response.custom_tool_call_input.delta":
		return d.delta(dst, &w, arguments, w.delta)
	case "response.output_text.done":
		return d.whole(dst, &w, outputText, w.text)
	case "response.reasoning_summary_text.done":
		return d.whole(dst, &w, summaryText, w.text)
	case "response.reasoning_text.done":
		return d.whole(dst, &w, reasoningText, w.text)
	case "response.refusal.done":
		return d.whole(dst, &w, refusalText, w.refusal)
	case "response.function_call_arguments.done":
		return d.whole(dst, &w, arguments, w.args)
	case "response.custom_tool_call_input.done":
		return d.whole(dst, &w, arguments, w.input)
	case "response.content_part.done":
		return d.partDone(dst, &w)
	case "response.output_text.annotation.added":
		return d.cite(dst, &w)
	case "response.output_item.added":
		return d.added(dst, &w)
	case "response.output_item.done":
		return d.itemDone(dst, &w)
	case "keepalive", "ping":
		return append(dst, ir.Event{Kind: ir.EventAlive})
	}
	return d.lifecycle(dst, &w, data)
}

// End is no natural end of the dialect: its streams have a last event.
func (d *decoder) End(dst []ir.Event) []ir.Event { return dst }

// lifecycle reads the events of the answer as a whole.
func (d *decoder) lifecycle(dst []ir.Event, w *wire, data []byte) []ir.Event {
	switch string(w.typ) {
	case "response.created", "response.in_progress", "response.queued":
		dst = d.start(dst, w.response)
		return usageOf(dst, w.response)
	case "response.completed", "response.incomplete":
		return d.terminal(dst, w.response, string(w.typ) == "response.incomplete")
	case "response.failed", "response.cancelled":
		return d.fault(dst, w.response)
	case "error":
		return d.fault(dst, data)
	}
	return dst
}

func (d *decoder) fault(dst []ir.Event, body []byte) []ir.Event {
	d.ended = true
	f := readFault(0, body)
	return append(dst, ir.Event{Kind: ir.EventFault, Fault: &f})
}

// start begins the answer, once.
func (d *decoder) start(dst []ir.Event, response []byte) []ir.Event {
	if d.started {
		return dst
	}
	d.started = true
	return append(dst, ir.Event{Kind: ir.EventStart, ID: stringOf(response, "id"), Model: stringOf(response, "model")})
}

func usageOf(dst []ir.Event, response []byte) []ir.Event {
	if u := readUsage(rawjson.Get(response, "usage")); u.Known != 0 {
		dst = append(dst, ir.Event{Kind: ir.EventUsage, Usage: u})
	}
	return dst
}

// terminal reads the last event: what the items lack, the usage, and why the answer ends.
func (d *decoder) terminal(dst []ir.Event, response []byte, incomplete bool) []ir.Event {
	dst = d.start(dst, response)
	if output := rawjson.Get(response, "output"); len(output) > 0 && output[0] == '[' {
		_ = rawjson.Elements(output, func(i int, raw []byte) error {
			if dst = d.finish(dst, i, raw, true); d.ended {
				return errEnded
			}
			return nil
		})
		if d.ended {
			return dst
		}
	}
	for _, e := range d.items {
		dst = d.close(dst, e, nil)
	}
	d.ended = true
	dst = usageOf(dst, response)
	status := stringOf(response, "status")
	s := ir.Stop{Reason: ir.StopEnd, Native: status}
	switch {
	case incomplete || status == "incomplete":
		s.Native = stringOf(rawjson.Get(response, "incomplete_details"), "reason")
		switch s.Native {
		case "max_output_tokens", "max_tokens":
			s.Reason = ir.StopLength
		case "content_filter":
			s.Reason = ir.StopRefusal
		}
	case d.refused && !d.calls:
		s.Reason = ir.StopRefusal
	}
	return append(dst, ir.Event{Kind: ir.EventFinish, Stop: s}, ir.Event{Kind: ir.EventEnd})
}

var errEnded = errors.New("ended")

// find returns the entry that an event is about, nil where none is known. Gateways change the ids of items from event to
// event (Copilot does), so that the index counts first.
func (d *decoder) find(index int, id, callID string) *entry {
	if index >= 0 {
		for i := len(d.items) - 1; i >= 0; i-- {
			if d.items[i].index == index {
				return d.items[i]
			}
		}
	}
	for i := len(d.items) - 1; i >= 0; i-- {
		e := d.items[i]
		if index >= 0 && e.index >= 0 {
			continue
		}
		if id != "" && e.id == id || callID != "" && e.callID == callID {
			return e
		}
	}
	return nil
}

// about returns the entry of an event about a part of an item, a new one of the type if none is known; nil if there are
// too many.
func (d *decoder) about(w *wire, typ string) *entry {
	if w.output >= 0 { // the usual way, without decoding the id
		if e := d.find(w.output, "", ""); e != nil {
			return e
		}
	}
	id, _ := rawjson.String(w.itemID)
	if e := d.find(w.output, id, ""); e != nil {
		return e
	}
	if n := len(d.items); n > 0 && w.output < 0 && id == "" && !d.items[n-1].done {
		return d.items[n-1]
	}
	return d.add(w.output, id, "", typ)
}

func (d *decoder) add(index int, id, callID, typ string) *entry {
	if len(d.items) == maxItems {
		return nil
	}
	e := &entry{index: index, id: id, callID: callID, typ: typ, block: -1, at: -1}
	d.items = append(d.items, e)
	return e
}

// tooMuch ends an answer that nobody could mean.
func (d *decoder) tooMuch(dst []ir.Event) []ir.Event {
	d.ended = true
	return append(dst, ir.Event{Kind: ir.EventFault, Fault: &ir.Fault{
		Status: 502, Kind: ir.KindAPI, Message: "the provider's answer has too many parts",
	}})
}

// piece returns the position of a text of an entry, -1 if there are too many.
func (e *entry) piece(kind pieceKind, index int) int {
	for i := len(e.pieces) - 1; i >= 0; i-- {
		if p := &e.pieces[i]; p.kind == kind && p.index == index {
			return i
		}
	}
	if len(e.pieces) == maxPieces {
		return -1
	}
	e.pieces = append(e.pieces, piece{kind: kind, index: index})
	return len(e.pieces) - 1
}

// itemType is the type of the items that a kind of text is in.
func (k pieceKind) itemType() string {
	switch k {
	case outputText, refusalText:
		return "message"
	case arguments:
		return "function_call"
	}
	return "reasoning"
}

// delta passes on more of a text.
func (d *decoder) delta(dst []ir.Event, w *wire, kind pieceKind, raw []byte) []ir.Event {
	e := d.about(w, kind.itemType())
	if e == nil {
		return d.tooMuch(dst)
	}
	if kind == arguments && e.block < 0 || e.done {
		return dst // a call without a name yet: the whole item will bring both
	}
	part := w.part
	if kind == arguments {
		part = 0
	}
	n := e.piece(kind, part)
	if n < 0 {
		return d.tooMuch(dst)
	}
	text, ok := e.pieces[n].halves.Next(raw)
	if !ok {
		return dst
	}
	return d.say(dst, e, n, text)
}

// whole passes on what is missing of a text that is said as a whole.
func (d *decoder) whole(dst []ir.Event, w *wire, kind pieceKind, raw []byte) []ir.Event {
	text, ok := rawjson.String(raw)
	if !ok {
		return dst
	}
	e := d.about(w, kind.itemType())
	if e == nil {
		return d.tooMuch(dst)
	}
	if kind == arguments && e.block < 0 || e.done {
		return dst
	}
	part := w.part
	if kind == arguments {
		part = 0
	}
	return d.rest(dst, e, kind, part, text)
}

// rest passes on the end of a text behind what has been passed on of it.
func (d *decoder) rest(dst []ir.Event, e *entry, kind pieceKind, index int, text string) []ir.Event {
	if d.ended {
		return dst
	}
	n := e.piece(kind, index)
	if n < 0 {
		return d.tooMuch(dst)
	}
	p := &e.pieces[n]
	p.halves = rawjson.Pieces{} // the whole text has the half that waits
	if len(text) <= p.sent || p.sent > 0 && !utf8.RuneStart(text[p.sent]) {
		return dst
	}
	return d.say(dst, e, n, text[p.sent:])
}

// say passes on a text of an entry. A block begins with the first text there is for it.
func (d *decoder) say(dst []ir.Event, e *entry, n int, text string) []ir.Event {
	if text == "" {
		return dst
	}
	p := &e.pieces[n]
	thinking := p.kind == summaryText || p.kind == reasoningText
	if thinking && e.at >= 0 && e.pieces[e.at].kind != p.kind {
		return dst // the same reasoning twice, as a summary and in full: what came first is kept
	}
	switch {
	case p.kind == arguments:
	case thinking && e.block >= 0:
		if e.at != n {
			dst = append(dst, ir.Event{Kind: ir.EventBreak, Block: e.block})
		}
	case e.block < 0 || e.at != n:
		dst = d.close(dst, e, nil)
		kind := ir.Text
		if thinking {
			kind = ir.Thinking
		} else if p.kind == refusalText {
			kind, d.refused = ir.Refusal, true
		}
		dst = d.open(dst, e, &ir.Block{Kind: kind})
		d.speaking = e
	}
	e.at = n
	p.sent += len(text)
	return append(dst, ir.Event{Kind: ir.EventDelta, Block: e.block, Text: text})
}

// open begins a block. Whoever was speaking has ended; calls may go on beside each other.
func (d *decoder) open(dst []ir.Event, e *entry, b *ir.Block) []ir.Event {
	if !d.started { // Codex's backend may leave response.created out
		d.started = true
		dst = append(dst, ir.Event{Kind: ir.EventStart})
	}
	if d.speaking != nil {
		dst = d.close(dst, d.speaking, nil)
	}
	e.block = d.next
	d.next++
	return append(dst, ir.Event{Kind: ir.EventBlock, Block: e.block, Start: b})
}

// close ends the block of an entry that is open. Reasoning has a state in any case, so that its client brings back our
// seal.
func (d *decoder) close(dst []ir.Event, e *entry, state *ir.State) []ir.Event {
	if e.block < 0 || d.ended {
		return dst
	}
	n := e.block
	if e.at >= 0 {
		if half := e.pieces[e.at].halves.End(); half != "" {
			dst = append(dst, ir.Event{Kind: ir.EventDelta, Block: n, Text: half})
		}
	}
	e.block = -1
	if d.speaking == e {
		d.speaking = nil
	}
	if e.typ == "reasoning" {
		if state == nil {
			state = &ir.State{Owner: d.src.Owner}
		}
		dst = append(dst, ir.Event{Kind: ir.EventState, Block: n, State: state})
	}
	return append(dst, ir.Event{Kind: ir.EventClose, Block: n})
}
