package openairesponses

import (
	"bytes"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// partDone reads a whole part of a message.
func (d *decoder) partDone(dst []ir.Event, w *wire) []ir.Event {
	e := d.about(w, "message")
	switch {
	case e == nil:
		return d.tooMuch(dst)
	case e.done || e.typ != "message":
		return dst
	}
	return d.part(dst, e, w.part, w.piece)
}

// part passes on what is missing of a part of a message.
func (d *decoder) part(dst []ir.Event, e *entry, index int, raw []byte) []ir.Event {
	kind := outputText
	text := stringOf(raw, "text")
	if stringOf(raw, "type") == "refusal" {
		kind, text = refusalText, stringOf(raw, "refusal")
	}
	if text == "" {
		return dst
	}
	if dst = d.rest(dst, e, kind, index, text); d.ended {
		return dst
	}
	cites := rawjson.Get(raw, "annotations")
	n := e.piece(kind, index)
	if len(cites) <= 2 || cites[0] != '[' || e.block < 0 || e.at != n {
		return dst
	}
	_ = rawjson.Elements(cites, func(i int, raw []byte) error {
		if p := &e.pieces[n]; i >= p.cites && isObjectRaw(raw) {
			p.cites++
			dst = append(dst, ir.Event{Kind: ir.EventCite, Block: e.block, Raw: bytes.Clone(raw)})
		}
		return nil
	})
	return dst
}

// cite reads an annotation of a text that is open.
func (d *decoder) cite(dst []ir.Event, w *wire) []ir.Event {
	e := d.about(w, "message")
	if e == nil {
		return d.tooMuch(dst)
	}
	n := e.piece(outputText, w.part)
	if n < 0 || e.block < 0 || e.at != n || !isObjectRaw(w.annotation) {
		return dst
	}
	e.pieces[n].cites++
	return append(dst, ir.Event{Kind: ir.EventCite, Block: e.block, Raw: bytes.Clone(w.annotation)})
}

// added reads the beginning of an item. Calls of functions and free-text tools begin with it; the others begin with
// their first text, or are read when they are whole.
func (d *decoder) added(dst []ir.Event, w *wire) []ir.Event {
	it, err := scanItem("", orObject(w.item))
	if err != nil {
		return dst
	}
	id, _ := rawjson.String(it.id)
	callID, _ := rawjson.String(it.callID)
	e := d.find(w.output, id, callID)
	if e != nil && e.anew(&it, id, callID) {
		dst, e = d.close(dst, e, nil), nil
	}
	if e == nil {
		e = d.add(w.output, id, callID, it.typ)
	}
	if e == nil {
		return d.tooMuch(dst)
	}
	if it.typ == "function_call" || it.typ == "custom_tool_call" {
		e.callID = callID
		return d.beginCall(dst, e, &it)
	}
	return dst
}

// anew reports whether an item is another one than the entry that was found for it: some gateways give all items one
// index.
func (e *entry) anew(it *item, id, callID string) bool {
	return e.typ != "" && e.typ != it.typ || callID != "" && e.callID != "" && e.callID != callID || e.done && e.id != id
}

// listed finds the entry of an item of the last event's list: by its ids, by its place if the type is the same, or by its
// place among those that never had an index.
func (d *decoder) listed(index int, it *item, id, callID string) *entry {
	for _, e := range d.items {
		if id != "" && e.id == id || callID != "" && e.callID == callID {
			return e
		}
	}
	for _, e := range d.items {
		if e.index == index && e.typ == it.typ {
			return e
		}
	}
	if index < len(d.items) && d.items[index].index < 0 && d.items[index].typ == it.typ {
		return d.items[index]
	}
	return nil
}

func orObject(raw []byte) []byte {
	if isObjectRaw(raw) {
		return raw
	}
	return []byte("{}")
}

// beginCall begins the block of a call whose name is known.
func (d *decoder) beginCall(dst []ir.Event, e *entry, it *item) []ir.Event {
	name, _ := rawjson.String(it.name)
	if name == "" || e.block >= 0 || e.done {
		return dst
	}
	b := &ir.Block{Kind: ir.ToolCall, ID: e.callID}
	if b.ID == "" {
		b.ID, _ = rawjson.String(it.callID)
	}
	b.ItemID, _ = rawjson.String(it.id)
	b.Name = name
	b.Namespace, _ = rawjson.String(it.namespace)
	args := it.arguments
	if it.typ == "custom_tool_call" {
		b.Form, args = ir.FormCustom, it.input
	}
	d.calls = true
	dst = d.open(dst, e, b)
	text, _ := rawjson.String(args)
	return d.rest(dst, e, arguments, 0, text)
}

// itemDone reads a whole item.
func (d *decoder) itemDone(dst []ir.Event, w *wire) []ir.Event {
	return d.finish(dst, w.output, w.item, false)
}

// finish passes on what is missing of an item that is whole; last: it is one of the last event's list, so that it may
// have been passed on already.
func (d *decoder) finish(dst []ir.Event, index int, raw []byte, last bool) []ir.Event {
	it, err := scanItem("", orObject(raw))
	if err != nil {
		return dst
	}
	id, _ := rawjson.String(it.id)
	callID, _ := rawjson.String(it.callID)
	var e *entry
	if last {
		e = d.listed(index, &it, id, callID)
	} else if e = d.find(index, id, callID); e != nil && e.done && e.anew(&it, id, callID) {
		e = nil
	}
	if e == nil {
		e = d.add(index, id, callID, it.typ)
	}
	if e == nil {
		return d.tooMuch(dst)
	}
	if e.done {
		return dst
	}
	if e.typ == "" || e.block < 0 {
		e.typ = it.typ
	}
	dst = d.complete(dst, e, &it)
	e.done, e.pieces, e.at = true, nil, -1
	return dst
}

// complete passes on an item.
func (d *decoder) complete(dst []ir.Event, e *entry, it *item) []ir.Event {
	switch it.typ {
	case "message":
		if len(it.content) > 0 && it.content[0] == '[' {
			_ = rawjson.Elements(it.content, func(i int, raw []byte) error {
				dst = d.part(dst, e, i, raw)
				return nil
			})
		}
		return d.close(dst, e, nil)
	case "reasoning":
		return d.reasoningDone(dst, e, it)
	case "function_call", "custom_tool_call":
		dst = d.beginCall(dst, e, it)
		if e.block < 0 {
			return dst // it never got a name
		}
		args := it.arguments
		if it.typ == "custom_tool_call" {
			args = it.input
		}
		text, _ := rawjson.String(args)
		return d.close(d.rest(dst, e, arguments, 0, text), e, nil)
	}
	dst = d.close(dst, e, nil) // what has begun was of another type
	if t := typedByCall(it.typ); t != nil && t.runsAtClient(it) {
		return d.typedCall(dst, e, t, it)
	}
	b := &ir.Block{Kind: ir.Opaque, Type: it.typ, Raw: bytes.Clone(it.raw)}
	b.ID, _ = rawjson.String(it.id)
	switch {
	case it.typ == "":
		return dst
	case isHostedResult(it.typ) || typedByResult(it.typ) != nil:
		b.Kind = ir.HostedResult
	case isHosted(it.typ):
		b.Kind, b.Name = ir.HostedCall, hostedName(it.typ)
	}
	return d.close(d.open(dst, e, b), e, nil)
}

// reasoningDone passes on what is missing of reasoning, and what its provider wants back of it.
func (d *decoder) reasoningDone(dst []ir.Event, e *entry, it *item) []ir.Event {
	for _, list := range [...]struct {
		kind pieceKind
		raw  []byte
	}{{summaryText, it.summary}, {reasoningText, it.content}} {
		if len(list.raw) == 0 || list.raw[0] != '[' {
			continue
		}
		_ = rawjson.Elements(list.raw, func(i int, raw []byte) error {
			dst = d.rest(dst, e, list.kind, i, stringOf(raw, "text"))
			return nil
		})
	}
	data, _ := rawjson.String(it.encrypted)
	if data == "" {
		return d.close(dst, e, nil)
	}
	if d.ended {
		return dst
	}
	if e.block < 0 { // no text: a signature alone
		dst = d.open(dst, e, &ir.Block{Kind: ir.Thinking})
	}
	return d.close(dst, e, &ir.State{Owner: d.src.Owner, Data: data})
}

// typedCall passes on a call that has an item of its own.
func (d *decoder) typedCall(dst []ir.Event, e *entry, t *typed, it *item) []ir.Event {
	b := &ir.Block{Kind: ir.ToolCall, Form: t.form}
	b.Name = t.form
	b.ID, _ = rawjson.String(it.callID)
	b.ItemID, _ = rawjson.String(it.id)
	if b.ID == "" {
		b.ID = b.ItemID
	}
	d.calls = true
	dst = d.open(dst, e, b)
	if args := *t.args(it); !isNull(args) {
		dst = append(dst, ir.Event{Kind: ir.EventDelta, Block: e.block, Text: string(args)})
	}
	return d.close(dst, e, nil)
}
