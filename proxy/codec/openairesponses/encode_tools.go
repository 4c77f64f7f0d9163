package openairesponses

import (
	"slices"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// tools writes the tools and which of them may be called.
func (w *writer) tools() error {
	r := w.r
	n := 0
	for i := range r.Tools {
		t := &r.Tools[i]
		if t.Kind == ir.ToolHosted && t.Hosted.Type != ir.WebSearch {
			if r.Choice.Mode == ir.ChoiceOne && r.Choice.Names[0] == t.ToolName {
				return ir.Refuse(r.Name(ir.FieldToolChoice), "asks for a tool that this provider does not have")
			}
			w.lost.Lose(ir.FieldTools)
			continue
		}
		if n++; n == 1 {
			w.Key("tools")
			w.Open('[')
		}
		if t.Cache != nil {
			w.lost.Lose(ir.FieldCacheMark)
		}
		w.tool(t)
	}
	if n == 0 {
		if m := r.Choice.Mode; m == ir.ChoiceRequired || m == ir.ChoiceOne {
			if len(r.Tools) > 0 {
				return ir.Refuse(r.Name(ir.FieldToolChoice), "asks for a call, but this provider has none of the tools")
			}
			w.lost.Lose(ir.FieldToolChoice)
		}
		return nil // without tools there is nothing to choose
	}
	w.Close(']')
	w.choice()
	if r.Parallel != nil {
		w.Key("parallel_tool_calls")
		w.Bool(*r.Parallel)
	}
	return nil
}

func (w *writer) tool(t *ir.Tool) {
	w.Open('{')
	defer w.Close('}')
	k := typedByForm(t.Form)
	switch {
	case t.Kind == ir.ToolHosted:
		w.webSearch(&t.Hosted)
	case t.Kind == ir.ToolCustom:
		w.Field("type", "custom")
		w.Field("name", w.book.Wire(t.ToolName))
		w.Optional("description", t.Description)
		w.Member("format", t.Grammar)
	case k != nil && k.form == "tool_search":
		w.Field("type", k.form)
		w.Field("execution", "client")
		w.Optional("description", t.Description)
		w.Member("parameters", t.Schema)
	case k != nil:
		w.Field("type", k.form)
	default:
		w.Field("type", "function")
		w.Field("name", w.book.Wire(t.ToolName))
		w.Optional("description", t.Description)
		schema, changed := rootSchema(t.Schema)
		if changed {
			w.lost.Lose(ir.FieldSchema)
		}
		w.Member("parameters", schema)
		w.Key("strict") // left out, the API tries strict and refuses schemas that are not made for it
		w.Bool(t.Strict != nil && *t.Strict)
	}
}

func (w *writer) webSearch(h *ir.Hosted) {
	w.Field("type", "web_search")
	if len(h.BlockedDomains) > 0 {
		w.lost.LosePath("blocked_domains")
	}
	if h.MaxUses > 0 {
		w.lost.LosePath("max_uses")
	}
	if len(h.AllowedDomains) > 0 {
		w.Key("filters")
		w.Open('{')
		w.Key("allowed_domains")
		w.Open('[')
		for _, d := range h.AllowedDomains {
			w.String(d)
		}
		w.Close(']')
		w.Close('}')
	}
	w.Member("user_location", h.Location)
}

// choice writes which tools may or must be called.
func (w *writer) choice() {
	c := &w.r.Choice
	word := ""
	switch c.Mode {
	case ir.ChoiceUnset:
		return
	case ir.ChoiceOne:
		w.Key("tool_choice")
		w.chosen(c.Names[0])
		return
	case ir.ChoiceNone:
		word = "none"
	case ir.ChoiceRequired:
		word = "required"
	default:
		word = "auto"
	}
	w.Key("tool_choice")
	names := slices.DeleteFunc(slices.Clone(c.Names), w.isAbsent)
	if len(names) == 0 || c.Mode == ir.ChoiceNone {
		w.String(word)
		return
	}
	w.Open('{')
	w.Field("type", "allowed_tools")
	w.Field("mode", word)
	w.Key("tools")
	w.Open('[')
	for _, n := range names {
		w.chosen(n)
	}
	w.Close(']')
	w.Close('}')
}

// isAbsent reports whether a tool is one that the target does not have.
func (w *writer) isAbsent(n ir.ToolName) bool {
	return slices.ContainsFunc(w.r.Tools, func(t ir.Tool) bool {
		return t.ToolName == n && t.Kind == ir.ToolHosted && t.Hosted.Type != ir.WebSearch
	})
}

// chosen names one tool as the API does.
func (w *writer) chosen(n ir.ToolName) {
	typ := "function"
	for i := range w.r.Tools {
		if t := &w.r.Tools[i]; t.ToolName == n {
			switch {
			case t.Kind == ir.ToolHosted:
				typ = t.Hosted.Type
			case t.Kind == ir.ToolCustom:
				typ = "custom"
			case typedByForm(t.Form) != nil:
				typ = t.Form
			}
		}
	}
	w.Open('{')
	w.Field("type", typ)
	if typ == "function" || typ == "custom" {
		w.Field("name", w.book.Wire(n))
	}
	w.Close('}')
}

// rootSchema makes the root of a tool's schema what the API takes: an object with properties, and no union. The branches
// of a union give their properties, so that the model may use them all. changed: the meaning is not quite the same.
func rootSchema(schema []byte) (out []byte, changed bool) {
	if len(schema) == 0 {
		return []byte(ir.EmptySchema), false
	}
	hasType, hasProperties, properties := false, false, []byte(nil)
	var branches [][]byte
	err := rawjson.Walk(schema, func(key []byte, f rawjson.Field) error {
		v := f.Value(schema)
		switch string(key) {
		case "type":
			hasType = string(v) == `"object"`
		case "properties":
			hasProperties, properties = len(v) > 0 && v[0] == '{', v
		case "anyOf", "oneOf", "allOf":
			if len(v) > 0 && v[0] == '[' {
				_ = rawjson.Elements(v, func(_ int, b []byte) error {
					branches = append(branches, b)
					return nil
				})
			}
			changed = true
		case "enum", "not", "const":
			changed = true
		}
		return nil
	})
	if err != nil || hasType && hasProperties && !changed {
		return schema, false
	}
	w := rawjson.Writer{Buf: make([]byte, 0, len(schema)+64)}
	w.Open('{')
	w.Field("type", "object")
	w.Key("properties")
	writeProperties(&w, properties, branches)
	_ = rawjson.Walk(schema, func(key []byte, f rawjson.Field) error {
		switch string(key) {
		case "type", "properties", "anyOf", "oneOf", "allOf", "enum", "not", "const":
		default:
			w.Key(string(key))
			w.Raw(f.Value(schema))
		}
		return nil
	})
	w.Close('}')
	return w.Buf, changed
}

// writeProperties writes the properties of a schema and of its branches, each name once.
func writeProperties(w *rawjson.Writer, own []byte, branches [][]byte) {
	seen := map[string]bool{}
	w.Open('{')
	add := func(properties []byte) {
		if len(properties) == 0 || properties[0] != '{' {
			return
		}
		_ = rawjson.Walk(properties, func(key []byte, f rawjson.Field) error {
			if !seen[string(key)] {
				seen[string(key)] = true
				w.Key(string(key))
				w.Raw(f.Value(properties))
			}
			return nil
		})
	}
	add(own)
	for _, b := range branches {
		add(rawjson.Get(b, "properties"))
	}
	w.Close('}')
}

// isArray reports whether a text is a JSON array.
func isArray(text string) bool {
	return len(text) > 0 && text[0] == '[' && rawjson.Valid([]byte(text)) == nil
}

// shellOutput puts a text into the shape of a shell's output.
func shellOutput(text string, failed bool) []byte {
	var w rawjson.Writer
	w.Open('[')
	w.Open('{')
	w.Field("stdout", text)
	w.Field("stderr", "")
	w.Key("outcome")
	w.Open('{')
	w.Field("type", "exit")
	code := int64(0)
	if failed {
		code = 1
	}
	w.Number("exit_code", code)
	w.Close('}')
	w.Close('}')
	w.Close(']')
	return w.Buf
}
