package openaichat

import (
	"strings"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// piece takes the next piece of a text as it is on the wire: half a surrogate pair waits for the other.
func (d *decoder) piece(kind ir.BlockKind, raw []byte) {
	if len(raw) == 2 {
		return
	}
	var fresh rawjson.Pieces
	pieces := &fresh
	if d.open.kind == kind {
		pieces = &d.open.pieces
	}
	s, ok := pieces.Next(raw)
	if !ok {
		return
	}
	d.text(kind, s)
	switch {
	case pieces != &fresh || fresh == (rawjson.Pieces{}):
	case d.open.kind == kind:
		d.open.pieces = fresh
	case !d.busy(): // the block begins with half a character
		d.closeText()
		d.closeCalls()
		d.begin(&ir.Block{Kind: kind})
		d.open.pieces = fresh
		if kind == ir.Text && d.blank != "" {
			d.emit(ir.Event{Kind: ir.EventDelta, Block: d.open.n, Text: d.blank})
			d.blank = ""
		}
	}
}

// busy reports whether a call is half said: no other block may begin.
func (d *decoder) busy() bool {
	for _, c := range d.calls {
		if c.open && !c.args.whole() {
			return true
		}
	}
	return false
}

// text takes more of a text. A block begins with it where another kind was open. White space alone begins none.
func (d *decoder) text(kind ir.BlockKind, s string) {
	if s == "" {
		return
	}
	if d.open.kind != kind {
		if d.busy() {
			d.wait(kind, s)
			return
		}
		if kind == ir.Text {
			if s = d.blank + s; strings.TrimLeft(s, " \t\r\n") == "" && len(s) < maxWaiting {
				d.blank = s
				return
			}
			d.blank = ""
		}
		d.closeText()
		d.closeCalls()
		d.release()
		if d.open.kind != kind {
			d.closeText()
			d.begin(&ir.Block{Kind: kind})
		}
	}
	d.emit(ir.Event{Kind: ir.EventDelta, Block: d.open.n, Text: s})
}

// wait holds text back until the call is whole that it would cut in two.
func (d *decoder) wait(kind ir.BlockKind, s string) {
	if d.waitingSize += len(s); d.waitingSize > maxWaiting {
		for _, c := range d.calls {
			d.closeCall(c)
		}
		d.release()
		d.text(kind, s)
		return
	}
	if n := len(d.waiting); n > 0 && d.waiting[n-1].kind == kind {
		d.waiting[n-1].text += s
		return
	}
	d.waiting = append(d.waiting, waiting{kind, s})
}

// release lets go what waited. White space between two calls is dropped.
func (d *decoder) release() {
	held := d.waiting
	d.waiting, d.waitingSize = nil, 0
	for _, w := range held {
		if strings.TrimLeft(w.text, " \t\r\n") != "" {
			d.text(w.kind, w.text)
		}
	}
}

// begin opens a block of text and gives it the next ordinal.
func (d *decoder) begin(b *ir.Block) {
	d.open = openBlock{kind: b.Kind, n: d.blocks}
	d.blocks++
	d.spoken = d.spoken || b.Kind != ir.Thinking
	d.refused = d.refused || b.Kind == ir.Refusal
	d.emit(ir.Event{Kind: ir.EventBlock, Block: d.open.n, Start: b})
}

// closeText closes the block of text that is open. Reasoning says whose it is, also where it came unsigned: the client
// carries that.
func (d *decoder) closeText() {
	o := &d.open
	if o.kind == 0 {
		return
	}
	if s := o.pieces.End(); s != "" {
		d.emit(ir.Event{Kind: ir.EventDelta, Block: o.n, Text: s})
	}
	if o.kind == ir.Thinking {
		d.emit(ir.Event{Kind: ir.EventState, Block: o.n, State: stateOf(d.src.Owner, o.details, o.opaque)})
	}
	d.emit(ir.Event{Kind: ir.EventClose, Block: o.n})
	d.open = openBlock{}
}

// whole emits a block that has no pieces.
func (d *decoder) whole(b *ir.Block) {
	d.closeText()
	d.spoken = true
	d.emit(ir.Event{Kind: ir.EventBlock, Block: d.blocks, Start: b})
	d.emit(ir.Event{Kind: ir.EventClose, Block: d.blocks})
	d.blocks++
}
