package gemini

import (
	"bytes"
	"strconv"
	"strings"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// Vertex can send a call's arguments in pieces: each names a path ($.edits[0].text) and a value, a string's with
// willContinue while more of it follows. They are gathered until the call is whole.

const (
	maxPath     = 64       // steps of a path
	maxIndex    = 1 << 12  // of an element
	maxValues   = 1 << 14  // in one call
	maxGathered = 32 << 20 // bytes of one call
)

// partialCall is one that is being gathered.
type partialCall struct {
	ir.Block
	root   value
	values int
	size   int
	over   bool // it is larger than can be: what is gathered is not all of it
}

// value is a JSON value that grows.
type value struct {
	names []string // of an object's members
	kids  []*value // of an object or array
	array bool
	text  []byte // of a string
	str   bool
	raw   []byte // of anything else
}

// piece takes a piece of a call.
func (d *decoder) piece(dst []ir.Event, b *ir.Block, partial []byte, more bool) []ir.Event {
	if d.half != nil && (b.Name != "" && b.Name != d.half.Name || b.ID != "" && b.ID != d.half.ID) {
		dst = d.endHalf(dst) // another one begins
	}
	if d.half == nil {
		d.half = &partialCall{Block: *b}
	}
	if d.half.State == nil {
		d.half.State = b.State
	}
	if isArray(partial) {
		_ = rawjson.Elements(partial, func(_ int, v []byte) error {
			d.half.set(v)
			return nil
		})
	}
	if d.half.over {
		return d.fail(dst, &ir.Fault{Status: 502, Kind: ir.KindAPI, Type: ir.KindAPI, Message: "the upstream's answer holds a call that is too long"})
	}
	if more {
		return dst
	}
	return d.endHalf(dst)
}

// endHalf passes on the call that was gathered.
func (d *decoder) endHalf(dst []ir.Event) []ir.Event {
	if d.half == nil {
		return dst
	}
	h := d.half
	d.half = nil
	return d.emit(dst, &h.Block, h.args(), true)
}

// cutHalf passes on one that was cut: its last brace is missing, so that nobody takes it for whole.
func (d *decoder) cutHalf(dst []ir.Event) []ir.Event {
	if d.half == nil {
		return dst
	}
	h := d.half
	d.half = nil
	return d.emit(dst, &h.Block, strings.TrimSuffix(h.args(), "}"), false)
}

func (h *partialCall) args() string {
	if len(h.root.names) == 0 {
		return "{}"
	}
	return string(h.root.append(nil))
}

// set takes one partialArg.
func (h *partialCall) set(raw []byte) {
	var path string
	var v, str []byte
	_ = rawjson.Walk(raw, func(key []byte, f rawjson.Field) error {
		switch value := f.Value(raw); string(camel(key)) {
		case "jsonPath":
			path = rawText(value)
		case "stringValue":
			str = value
		case "numberValue", "boolValue":
			v = bytes.Clone(value)
		case "nullValue":
			v = []byte("null")
		}
		return nil
	})
	if h.size += len(path) + len(v) + len(str); h.size > maxGathered {
		h.over = true
		return
	}
	at := h.at(path)
	switch {
	case at == nil:
	case str != nil:
		at.str = true
		at.text = append(at.text, rawText(str)...)
	case v != nil:
		at.raw = v
	}
}

// at finds or makes the value at a path: $.a.b[0], $['a']; nil = there can be none.
func (h *partialCall) at(path string) *value {
	v := &h.root
	path = strings.TrimPrefix(path, "$")
	for steps := 0; path != "" && v != nil; steps++ {
		if steps == maxPath {
			return nil
		}
		switch path[0] {
		case '.':
			n := strings.IndexAny(path[1:], ".[")
			if n < 0 {
				n = len(path) - 1
			}
			v, path = h.member(v, path[1:1+n]), path[1+n:]
		case '[':
			n := strings.IndexByte(path, ']')
			if n < 0 {
				return nil
			}
			name := path[1:n]
			path = path[n+1:]
			if i, err := strconv.Atoi(name); err == nil {
				v = h.index(v, i)
			} else {
				v = h.member(v, strings.Trim(name, `'"`))
			}
		default:
			return nil
		}
	}
	return v
}

// more counts a further value, and reports whether there may be one.
func (h *partialCall) more() bool {
	h.values++
	h.over = h.over || h.values > maxValues
	return !h.over
}

func (h *partialCall) member(v *value, name string) *value {
	for i, n := range v.names {
		if n == name {
			return v.kids[i]
		}
	}
	if v.array || !h.more() {
		return nil
	}
	kid := &value{}
	v.names, v.kids = append(v.names, name), append(v.kids, kid)
	return kid
}

func (h *partialCall) index(v *value, i int) *value {
	if i < 0 || i > maxIndex || len(v.names) > 0 {
		return nil
	}
	v.array = true
	for len(v.kids) <= i {
		if !h.more() {
			return nil
		}
		v.kids = append(v.kids, &value{})
	}
	return v.kids[i]
}

func (v *value) append(dst []byte) []byte {
	switch {
	case len(v.names) > 0:
		dst = append(dst, '{')
		for i, name := range v.names {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(rawjson.AppendString(dst, name), ':')
			dst = v.kids[i].append(dst)
		}
		return append(dst, '}')
	case v.array:
		dst = append(dst, '[')
		for i, kid := range v.kids {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = kid.append(dst)
		}
		return append(dst, ']')
	case v.str:
		return rawjson.AppendString(dst, v.text)
	case v.raw != nil:
		return append(dst, v.raw...)
	}
	return append(dst, "null"...)
}
