package anthropic

import (
	"slices"
	"strings"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// maxSchemaDepth bounds how deep schemas are rewritten; what lies deeper stays as it is.
const maxSchemaDepth = 32

// property is a member of an object, in the order in which it stands.
type property struct {
	name string
	raw  []byte
}

func propertiesOf(raw []byte) []property {
	var list []property
	_ = rawjson.Walk(raw, func(key []byte, f rawjson.Field) error { // what is no object has none
		list = append(list, property{string(key), f.Value(raw)})
		return nil
	})
	return list
}

// toolSchema makes a schema the API's: its root must be an object without anyOf, oneOf and allOf. Everything below the
// root stays as it is, byte for byte. whole is false where something could not be said.
func toolSchema(raw []byte) (schema []byte, whole bool) {
	if len(raw) == 0 || raw[0] != '{' {
		return []byte(ir.EmptySchema), len(raw) == 0 || string(raw) == "true" || string(raw) == "null"
	}
	var kind []byte
	union := false
	for _, p := range propertiesOf(raw) {
		switch p.name {
		case "type":
			kind = p.raw
		case "anyOf", "oneOf", "allOf", "$ref":
			union = true
		}
	}
	switch {
	case union:
		return flatSchema(raw)
	case string(kind) == `"object"`:
		return raw, true
	}
	whole = kind == nil || strings.Contains(string(kind), `"object"`) || string(kind) == "null"
	if !whole {
		return []byte(ir.EmptySchema), false
	}
	var w rawjson.Writer
	w.Open('{')
	w.Field("type", "object")
	for _, p := range propertiesOf(raw) {
		if p.name != "type" {
			w.Key(p.name)
			w.Raw(p.raw)
		}
	}
	w.Close('}')
	return w.Buf, true
}

// maxSchemaWork bounds the bytes that are read while references are followed (those that contain themselves multiply), and the properties
// that are compared.
const maxSchemaWork = 16 << 20

// flatten is a root that is being made of its branches.
type flatten struct {
	root       []byte
	work       *int // that may still be done
	properties []property
	required   []string
	whole      bool
}

// flatSchema lays the branches of a root's union into one object. A property that branches disagree about becomes a
// choice; required is what all alternatives require.
func flatSchema(raw []byte) ([]byte, bool) {
	work := maxSchemaWork + 8*len(raw)
	f := flatten{root: raw, work: &work, whole: true}
	f.add(raw, 0)
	var w rawjson.Writer
	w.Open('{')
	w.Field("type", "object")
	for _, p := range propertiesOf(raw) {
		switch p.name {
		case "type", "properties", "required", "anyOf", "oneOf", "allOf", "$ref":
		default:
			w.Key(p.name)
			w.Raw(p.raw)
		}
	}
	w.Key("properties")
	w.Open('{')
	for _, p := range f.properties {
		w.Key(p.name)
		w.Raw(p.raw)
	}
	w.Close('}')
	if len(f.required) > 0 {
		w.Key("required")
		w.Open('[')
		for _, s := range f.required {
			w.String(s)
		}
		w.Close(']')
	}
	w.Close('}')
	return w.Buf, f.whole
}

// add takes over what a schema says at its root.
func (f *flatten) add(raw []byte, depth int) {
	if *f.work -= len(raw); len(raw) == 0 || raw[0] != '{' || depth == 8 || *f.work < 0 {
		f.whole = f.whole && string(raw) == "true"
		return
	}
	for _, p := range propertiesOf(raw) {
		switch p.name {
		case "type":
			f.whole = f.whole && strings.Contains(string(p.raw), `"object"`)
		case "properties":
			for _, q := range propertiesOf(p.raw) {
				f.property(q)
			}
		case "required":
			for _, s := range texts(p.raw) {
				if !slices.Contains(f.required, s) {
					f.required = append(f.required, s)
				}
			}
		case "allOf":
			_ = rawjson.Elements(p.raw, func(_ int, v []byte) error { f.add(v, depth+1); return nil })
		case "anyOf", "oneOf":
			f.whole = false // that only one of them holds is lost
			f.alternatives(p.raw, depth)
		case "$ref":
			f.add(f.local(p.raw), depth+1)
		}
	}
}

// alternatives takes over the properties of all branches, and what they require in common.
func (f *flatten) alternatives(raw []byte, depth int) {
	var common []string
	first := true
	_ = rawjson.Elements(raw, func(_ int, v []byte) error {
		b := flatten{root: f.root, work: f.work, properties: f.properties, whole: true}
		b.add(v, depth+1)
		if f.properties = b.properties; first {
			common = b.required
		} else {
			common = slices.DeleteFunc(common, func(s string) bool { return !slices.Contains(b.required, s) })
		}
		first = false
		return nil
	})
	for _, s := range common {
		if !slices.Contains(f.required, s) {
			f.required = append(f.required, s)
		}
	}
}

// property adds a property, as an alternative where it is there already.
func (f *flatten) property(p property) {
	if *f.work -= len(f.properties); *f.work < 0 {
		f.whole = false
		return
	}
	for i := range f.properties {
		q := &f.properties[i]
		if q.name != p.name {
			continue
		}
		if string(q.raw) == string(p.raw) {
			return
		}
		f.properties = slices.Clone(f.properties)
		var w rawjson.Writer
		w.Open('{')
		w.Key("anyOf")
		w.Open('[')
		w.Raw(q.raw)
		w.Raw(p.raw)
		w.Close(']')
		w.Close('}')
		f.properties[i].raw = w.Buf
		return
	}
	f.properties = append(f.properties, p)
}

// local finds what a reference into the same schema means, nil where it leads elsewhere.
func (f *flatten) local(ref []byte) []byte {
	s, _ := rawjson.String(ref)
	path, ok := strings.CutPrefix(s, "#/")
	if !ok {
		return nil
	}
	*f.work -= len(f.root)
	at := f.root
	for _, step := range strings.Split(path, "/") {
		at = rawjson.Get(at, strings.NewReplacer("~1", "/", "~0", "~").Replace(step))
	}
	return at
}

// texts are the strings of an array.
func texts(raw []byte) []string {
	var list []string
	_ = rawjson.Elements(raw, func(_ int, v []byte) error {
		if s, ok := rawjson.String(v); ok {
			list = append(list, s)
		}
		return nil
	})
	return list
}

// formatSchema is the schema of the answer in the API's dialect, which our own clients speak already.
func (e *encoding) formatSchema() []byte {
	if e.own {
		return e.r.Format.Schema
	}
	return strictSchema(e.r.Format.Schema)
}

// strictSchema brings a schema into the dialect that structured output and strict tools know (facts/protocols.md 1.5):
// objects are closed, oneOf becomes anyOf, and what it lacks is told in the description.
func strictSchema(raw []byte) []byte {
	var w rawjson.Writer
	strictNode(&w, raw, 0)
	return w.Buf
}

func strictNode(w *rawjson.Writer, raw []byte, depth int) {
	if len(raw) == 0 || raw[0] != '{' {
		w.Raw([]byte("{}")) // true, or a schema that nothing fits
		return
	}
	if depth == maxSchemaDepth {
		w.Raw(raw)
		return
	}
	list := propertiesOf(raw)
	description, closed := "", false
	var notes []byte
	w.Open('{')
	for _, p := range list {
		if p.name == "description" {
			description, _ = rawjson.String(p.raw)
			continue
		}
		closed = closed || p.name == "properties" || p.name == "type" && strings.Contains(string(p.raw), `"object"`)
		if !strictKeyword(w, p, depth) {
			notes = append(append(append(append(notes, ", "...), p.name...), ": "...), p.raw...)
		}
	}
	if closed {
		w.Key("additionalProperties")
		w.Bool(false)
	}
	if len(notes) > 0 {
		if description != "" {
			description += "\n\n"
		}
		description += "{" + string(notes[2:]) + "}"
	}
	w.Optional("description", description)
	w.Close('}')
}

// strictKeyword writes a keyword that the dialect knows, and reports false for one that must be told in words.
func strictKeyword(w *rawjson.Writer, p property, depth int) bool {
	switch p.name {
	case "type", "$ref", "enum", "const", "required", "title":
		w.Key(p.name)
		w.Raw(p.raw)
	case "anyOf", "oneOf", "allOf":
		name := p.name
		if name == "oneOf" {
			name = "anyOf"
		}
		w.Key(name)
		w.Open('[')
		_ = rawjson.Elements(p.raw, func(_ int, v []byte) error { strictNode(w, v, depth+1); return nil })
		w.Close(']')
	case "properties", "$defs", "definitions":
		w.Key(p.name)
		w.Open('{')
		for _, q := range propertiesOf(p.raw) {
			w.Key(q.name)
			strictNode(w, q.raw, depth+1)
		}
		w.Close('}')
	case "items":
		w.Key(p.name)
		strictNode(w, p.raw, depth+1)
	case "additionalProperties": // always false; schemas there are told
		return string(p.raw) == "true" || string(p.raw) == "false"
	case "$schema":
	case "format":
		switch string(p.raw) {
		case `"date-time"`, `"time"`, `"date"`, `"duration"`, `"email"`, `"hostname"`, `"uri"`, `"ipv4"`, `"ipv6"`, `"uuid"`:
			w.Key(p.name)
			w.Raw(p.raw)
		default:
			return false
		}
	case "minItems":
		if s := string(p.raw); s != "0" && s != "1" {
			return false
		}
		w.Key(p.name)
		w.Raw(p.raw)
	default:
		return false
	}
	return true
}
