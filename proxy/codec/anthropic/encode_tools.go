package anthropic

import (
	"slices"

	"coding-proxy/proxy/ir"
)

// tools are those that go out: without what the API has not, what the client does not allow, and doubles.
func (e *encoding) tools() []ir.Tool {
	r := e.r
	names := map[string]bool{}
	for i := range r.Tools {
		if t := &r.Tools[i]; t.Kind != ir.ToolHosted {
			names[e.book.Wire(t.ToolName)] = false
		}
	}
	_, taken := names[ir.WebSearch]
	var out []ir.Tool
	for i := range r.Tools {
		t := r.Tools[i]
		name := e.book.Wire(t.ToolName)
		if t.Kind == ir.ToolHosted {
			if name = ir.WebSearch; t.Hosted.Type != ir.WebSearch || taken {
				r.Lose(ir.FieldTools)
				continue
			}
			t.Name = ir.WebSearch // the name that the API demands
		}
		switch {
		case names[name]:
			r.Lose(ir.FieldTools) // names must differ
		case e.allowed(&r.Tools[i]):
			names[name] = true
			out = append(out, t)
		}
	}
	return out
}

// allowed reports whether the client's choice leaves the tool open. The API cannot narrow a choice, so that the others
// are not sent.
func (e *encoding) allowed(t *ir.Tool) bool {
	c := &e.r.Choice
	if c.Mode != ir.ChoiceAuto && c.Mode != ir.ChoiceRequired || len(c.Names) == 0 {
		return true
	}
	return slices.ContainsFunc(c.Names, func(n ir.ToolName) bool { return called(t, n) })
}

// called reports whether a choice means the tool: hosted ones are known by their type, too.
func called(t *ir.Tool, n ir.ToolName) bool {
	return t.ToolName == n || t.Kind == ir.ToolHosted && n.Name == t.Hosted.Type
}

// checkChoice refuses a forced call of what is not sent.
func (e *encoding) checkChoice(tools []ir.Tool) error {
	c := &e.r.Choice
	switch c.Mode {
	case ir.ChoiceRequired:
		if len(tools) == 0 {
			return ir.Refuse(e.r.Name(ir.FieldToolChoice), "asks for a call, but the provider has none of the tools")
		}
	case ir.ChoiceOne:
		for i := range e.r.Tools {
			if t := &e.r.Tools[i]; len(c.Names) > 0 && called(t, c.Names[0]) {
				if t.Kind != ir.ToolHosted || slices.ContainsFunc(tools, func(s ir.Tool) bool { return s.Kind == ir.ToolHosted && s.Hosted.Type == t.Hosted.Type }) {
					return nil
				}
			}
		}
		return ir.Refuse(e.r.Name(ir.FieldToolChoice), "names a tool that the provider has not")
	}
	return nil
}

// writeTools writes the tools and the choice.
func (e *encoding) writeTools(tools []ir.Tool) error {
	if len(tools) == 0 {
		return nil
	}
	e.w.Key("tools")
	e.w.Open('[')
	for i := range tools {
		if tools[i].Kind == ir.ToolHosted {
			e.webSearch(&tools[i])
		} else {
			e.tool(&tools[i])
		}
	}
	e.w.Close(']')
	e.choice()
	return nil
}

func (e *encoding) tool(t *ir.Tool) {
	w := &e.w
	w.Open('{')
	w.Field("name", e.book.Wire(t.ToolName))
	schema := []byte(ir.CustomSchema)
	if t.Kind != ir.ToolCustom {
		var whole bool
		if schema, whole = toolSchema(t.Schema); !whole {
			e.r.Lose(ir.FieldSchema)
		}
	}
	strict := t.Strict != nil && *t.Strict && t.Kind == ir.ToolFunction
	if strict && !e.f.format() {
		strict = false
		e.r.Lose(ir.FieldStrict)
	}
	if strict && !e.own {
		schema = strictSchema(schema)
	}
	w.Optional("description", t.Described())
	w.Key("input_schema")
	w.Raw(schema)
	if strict {
		w.Key("strict")
		w.Bool(true)
	}
	e.cache(t.Cache)
	w.Close('}')
}

func (e *encoding) webSearch(t *ir.Tool) {
	w, h := &e.w, &t.Hosted
	w.Open('{')
	w.Field("type", "web_search_20250305")
	w.Field("name", ir.WebSearch)
	switch {
	case len(h.AllowedDomains) > 0:
		e.strings("allowed_domains", h.AllowedDomains)
		if len(h.BlockedDomains) > 0 {
			e.r.Lose(ir.FieldTools) // it takes one of the two
		}
	case len(h.BlockedDomains) > 0:
		e.strings("blocked_domains", h.BlockedDomains)
	}
	if h.MaxUses > 0 {
		w.Number("max_uses", h.MaxUses)
	}
	w.Member("user_location", h.Location)
	e.cache(t.Cache)
	w.Close('}')
}

func (e *encoding) choice() {
	c, w := &e.r.Choice, &e.w
	single := e.r.Parallel != nil && !*e.r.Parallel && c.Mode != ir.ChoiceNone
	kind := ""
	switch c.Mode {
	case ir.ChoiceAuto:
		kind = "auto"
	case ir.ChoiceNone:
		kind = "none"
	case ir.ChoiceRequired:
		kind = "any"
	case ir.ChoiceOne:
		kind = "tool"
	default:
		if !single {
			return
		}
		kind = "auto"
	}
	w.Key("tool_choice")
	w.Open('{')
	w.Field("type", kind)
	if c.Mode == ir.ChoiceOne {
		name := e.book.Wire(c.Names[0])
		for i := range e.r.Tools {
			if t := &e.r.Tools[i]; t.Kind == ir.ToolHosted && called(t, c.Names[0]) {
				name = ir.WebSearch
			}
		}
		w.Field("name", name)
	}
	if single {
		w.Key("disable_parallel_tool_use")
		w.Bool(true)
	}
	w.Close('}')
}
