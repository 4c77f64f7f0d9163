package gemini

import (
	"bytes"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// repair implements ir.Raw. Signatures of calls give way to the placeholder, which Gemini passes; others are removed,
// and what was reasoning with them.
func repair(body []byte, how ir.Repair) (out []byte, removed []string, err error) {
	var at rawjson.Field
	err = rawjson.Walk(body, func(key []byte, f rawjson.Field) error {
		if string(key) == "contents" {
			at = f
		}
		return nil
	})
	contents := at.Value(body)
	if err != nil || !isArray(contents) {
		return nil, nil, err
	}
	m := mender{how: how, last: lastAsked(contents)}
	edits, err := m.contents(contents)
	if err != nil || len(edits) == 0 {
		return nil, nil, err
	}
	for i := range edits {
		edits[i].Start += at.ValueStart
		edits[i].End += at.ValueStart
	}
	for _, p := range rawjson.Splice(body, edits...) {
		out = append(out, p...)
	}
	return out, []string{"thoughtSignature"}, nil
}

// mender looks for signatures that must go.
type mender struct {
	how  ir.Repair
	last int // index of the last content that is the user's own
	// unsigned: the first call of this content needs a signature, which another provider may not have given.
	unsigned bool
}

// goes reports whether a signature of the content at an index must go.
func (m *mender) goes(signature []byte, index int) bool {
	s := rawText(signature)
	switch {
	case s == "" || s == placeholder:
		return false
	case m.how == ir.RepairAll || m.how == ir.RepairClosed && index < m.last:
		return true
	}
	return unseal(s).Owner != ""
}

// contents returns the edits of an array of contents.
func (m *mender) contents(list []byte) (edits []rawjson.Edit, err error) {
	kept := keeper{}
	err = elements(list, func(i int, from, to int) error {
		content := list[from:to]
		var at rawjson.Field
		if !isObject(content) {
			kept.keep(from, to)
			return nil
		}
		if err := rawjson.Walk(content, func(key []byte, f rawjson.Field) error {
			if string(key) == "parts" {
				at = f
			}
			return nil
		}); err != nil {
			return err
		}
		m.unsigned = i > m.last && isModel(content)
		own, left, err := m.parts(at.Value(content), i)
		switch {
		case err != nil:
			return err
		case left == 0 && len(own) > 0: // nothing is left of it
			kept.drop(from, to)
			return nil
		}
		for _, e := range own {
			kept.edits = append(kept.edits, rawjson.Edit{Start: e.Start + from + at.ValueStart, End: e.End + from + at.ValueStart, Text: e.Text})
		}
		kept.keep(from, to)
		return nil
	})
	return kept.finish(), err
}

// parts returns the edits of a content's parts, and how many stay.
func (m *mender) parts(list []byte, index int) (edits []rawjson.Edit, left int, err error) {
	if !isArray(list) {
		return nil, 1, nil
	}
	kept := keeper{}
	err = elements(list, func(_ int, from, to int) error {
		part := list[from:to]
		own, drop, err := m.part(part, index)
		if err != nil {
			return err
		}
		if drop {
			kept.drop(from, to)
			return nil
		}
		left++
		for _, e := range own {
			kept.edits = append(kept.edits, rawjson.Edit{Start: e.Start + from, End: e.End + from, Text: e.Text})
		}
		kept.keep(from, to)
		return nil
	})
	return kept.finish(), left, err
}

// part returns the edits of a part; drop says that it goes altogether.
func (m *mender) part(part []byte, index int) (edits []rawjson.Edit, drop bool, err error) {
	if !isObject(part) {
		return nil, false, nil
	}
	var signature rawjson.Field
	names := map[string]bool{}
	called, signed, thought, empty := false, false, false, true
	err = rawjson.Walk(part, func(key []byte, f rawjson.Field) error {
		switch v := f.Value(part); string(key) {
		case "thoughtSignature", "thought_signature":
			signed = signed || len(v) > len(`""`)
			if m.goes(v, index) {
				signature = f
				names[string(key)] = true
			}
		case "functionCall", "function_call":
			called, empty = called || isObject(v), false
		case "thought":
			thought = string(v) == "true"
		case "text":
			empty = empty && len(v) <= len(`""`)
		default:
			empty = false
		}
		return nil
	})
	first := called && m.unsigned
	m.unsigned = m.unsigned && !called
	switch {
	case err == nil && first && !signed:
		open := bytes.IndexByte(part, '{') + 1
		return []rawjson.Edit{{Start: open, End: open, Text: []byte(`"thoughtSignature":"` + placeholder + `",`)}}, false, nil
	case err != nil || len(names) == 0:
		return nil, false, err
	case called:
		return []rawjson.Edit{{Start: signature.ValueStart, End: signature.ValueEnd, Text: []byte(`"` + placeholder + `"`)}}, false, nil
	case thought || empty:
		return nil, true, nil
	}
	edits, err = rawjson.Remove(part, names)
	return edits, false, err
}

// isModel reports whether a content is the model's.
func isModel(content []byte) bool { return rawText(rawjson.Get(content, "role")) == "model" }

// lastAsked is the index of the last content that is the user's own: one with a text, not only results.
func lastAsked(contents []byte) (last int) {
	_ = rawjson.Elements(contents, func(i int, v []byte) error {
		if !isObject(v) || rawText(rawjson.Get(v, "role")) == "model" {
			return nil
		}
		parts := rawjson.Get(v, "parts")
		if !isArray(parts) {
			return nil
		}
		text, result := false, false
		_ = rawjson.Elements(parts, func(_ int, p []byte) error {
			text = text || len(rawjson.Get(p, "text")) > len(`""`)
			result = result || rawjson.Get(p, "functionResponse") != nil || rawjson.Get(p, "function_response") != nil
			return nil
		})
		if text && !result {
			last = i
		}
		return nil
	})
	return last
}

// elements calls visit with the offsets of each element of an array.
func elements(list []byte, visit func(i, from, to int) error) error {
	return rawjson.Elements(list, func(i int, v []byte) error {
		from := cap(list) - cap(v) // v is a part of list and ends, with its capacity, where list does
		return visit(i, from, from+len(v))
	})
}

// keeper gathers the edits that take elements out of an array, with one comma each.
type keeper struct {
	edits   []rawjson.Edit
	any     bool // an element stays
	end     int  // of the last element that stays
	dropped []span
}

type span struct{ from, to int }

func (k *keeper) drop(from, to int) {
	if k.any { // with the comma before it
		k.edits = append(k.edits, rawjson.Edit{Start: k.end, End: to})
		k.end = to
		return
	}
	k.dropped = append(k.dropped, span{from, to})
}

func (k *keeper) keep(from, to int) {
	if len(k.dropped) > 0 { // nothing stays before them: they take the comma behind
		k.edits = append(k.edits, rawjson.Edit{Start: k.dropped[0].from, End: from})
		k.dropped = nil
	}
	k.any, k.end = true, to
}

// finish returns the edits. Where every element goes the array is empty.
func (k *keeper) finish() []rawjson.Edit {
	if n := len(k.dropped); n > 0 {
		k.edits = append(k.edits, rawjson.Edit{Start: k.dropped[0].from, End: k.dropped[n-1].to})
	}
	return k.edits
}
