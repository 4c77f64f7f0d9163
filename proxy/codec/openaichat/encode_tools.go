package openaichat

import (
	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// findFree notes which tools go as free text: the model must know the kind.
func (e *writer) findFree() {
	if !e.family.custom() {
		return
	}
	for i := range e.r.Tools {
		if t := &e.r.Tools[i]; t.Kind == ir.ToolCustom {
			if e.free == nil {
				e.free = map[ir.ToolName]bool{}
			}
			e.free[t.ToolName] = true
		}
	}
}

// tools writes the tools and the rules for calling them.
func (e *writer) tools() error {
	r := e.r
	only := e.allowedOnly()
	var search *ir.Tool
	named := 0 // functions and custom tools that were written
	for i := range r.Tools {
		t := &r.Tools[i]
		if t.Kind == ir.ToolHosted {
			if t.Hosted.Type == ir.WebSearch && e.searches() {
				search = t
			} else if err := e.noHosted(t); err != nil {
				return err
			}
			continue
		}
		if only != nil && !only[t.ToolName] {
			continue
		}
		if named++; named == 1 {
			e.w.Key("tools")
			e.w.Open('[')
		}
		e.tool(t)
	}
	if named > 0 {
		e.w.Close(']')
		e.choice(only != nil)
		if r.Parallel != nil && !*r.Parallel {
			e.w.Key("parallel_tool_calls")
			e.w.Bool(false)
		}
	} else if err := e.noTools(search != nil); err != nil {
		return err
	}
	if search != nil {
		e.webSearch(search)
	}
	return nil
}

// searches reports whether web_search_options may go to the model: OpenAI's own take it only where they search anyway.
func (e *writer) searches() bool { return e.family.search || e.family.vendor == unknown }

// allowedOnly is the set of tools that may be called, where the list itself must say it: vendors know no allowed_tools.
func (e *writer) allowedOnly() map[ir.ToolName]bool {
	c := &e.r.Choice
	if e.family.from(5, 0) || len(c.Names) == 0 || c.Mode == ir.ChoiceOne || c.Mode == ir.ChoiceNone {
		return nil
	}
	only := make(map[ir.ToolName]bool, len(c.Names))
	for _, n := range c.Names {
		only[n] = true
	}
	return only
}

// noHosted drops a tool that only a provider's server runs; it is refused where the model must call it.
func (e *writer) noHosted(t *ir.Tool) error {
	c := &e.r.Choice
	forced := c.Mode == ir.ChoiceOne && len(c.Names) > 0 && (c.Names[0] == t.ToolName || c.Names[0].Name == t.Hosted.Type)
	if forced || c.Mode == ir.ChoiceRequired && len(e.r.Tools) == 1 {
		return ir.Refuse(e.r.Name(ir.FieldToolChoice), "the model has no such tool")
	}
	e.r.Lose(ir.FieldTools)
	return nil
}

// noTools checks the rules of a request in which no tool is left.
func (e *writer) noTools(searches bool) error {
	switch m := e.r.Choice.Mode; {
	case m != ir.ChoiceOne && m != ir.ChoiceRequired:
	case searches:
		e.r.Lose(ir.FieldToolChoice) // the model searches by itself
	default:
		return ir.Refuse(e.r.Name(ir.FieldToolChoice), "the model has no such tool")
	}
	return nil
}

func (e *writer) tool(t *ir.Tool) {
	if t.Cache != nil {
		e.r.Lose(ir.FieldCacheMark)
	}
	free := e.free[t.ToolName]
	kind := "function"
	if free {
		kind = "custom"
	}
	e.w.Open('{')
	e.w.Field("type", kind)
	e.w.Key(kind)
	e.w.Open('{')
	e.w.Field("name", e.book.Wire(t.ToolName))
	switch {
	case free:
		e.w.Optional("description", t.Description)
		if len(t.Grammar) > 0 {
			e.grammar(t.Grammar)
		}
	case t.Kind == ir.ToolCustom:
		e.w.Optional("description", t.Described())
		e.w.Key("parameters")
		e.w.Raw([]byte(ir.CustomSchema))
	default:
		e.w.Optional("description", t.Description)
		e.w.Key("parameters")
		if len(t.Schema) > 0 {
			e.w.Raw(t.Schema)
		} else {
			e.w.Raw([]byte(ir.EmptySchema))
		}
		if t.Strict != nil {
			e.w.Key("strict")
			e.w.Bool(*t.Strict)
		}
	}
	e.w.Close('}')
	e.w.Close('}')
}

// grammar writes a flat format object the way Chat nests it.
func (e *writer) grammar(flat []byte) {
	kind, _ := rawjson.String(rawjson.Get(flat, "type"))
	e.w.Key("format")
	if kind != "grammar" {
		e.w.Raw(flat)
		return
	}
	e.w.Open('{')
	e.w.Field("type", "grammar")
	e.w.Key("grammar")
	e.w.Open('{')
	e.w.Member("syntax", rawjson.Get(flat, "syntax"))
	e.w.Member("definition", rawjson.Get(flat, "definition"))
	e.w.Close('}')
	e.w.Close('}')
}

// choice writes tool_choice.
func (e *writer) choice(filtered bool) {
	c := &e.r.Choice
	mode := c.Mode
	if (mode == ir.ChoiceOne || mode == ir.ChoiceRequired) && e.family.vendor == deepSeek && e.r.Reasoning.Mode != ir.ReasoningOff {
		// Thinking, which is on by default, refuses it: "Thinking mode does not support this tool_choice".
		e.r.Lose(ir.FieldToolChoice)
		mode = ir.ChoiceAuto
	}
	switch {
	case mode == ir.ChoiceUnset:
	case mode == ir.ChoiceNone:
		e.w.Field("tool_choice", "none")
	case mode == ir.ChoiceOne && len(c.Names) > 0:
		e.w.Key("tool_choice")
		e.chosen(c.Names[0])
	case len(c.Names) > 0 && !filtered && mode != ir.ChoiceOne && c.Mode != ir.ChoiceOne:
		e.w.Key("tool_choice")
		e.allowed(mode, c.Names)
	default:
		e.w.Field("tool_choice", choiceWord(mode))
	}
}

func choiceWord(m ir.ChoiceMode) string {
	if m == ir.ChoiceAuto {
		return "auto"
	}
	return "required"
}

// chosen writes {"type":"function","function":{"name":…}}.
func (e *writer) chosen(n ir.ToolName) {
	kind := "function"
	if e.free[n] {
		kind = "custom"
	}
	e.w.Open('{')
	e.w.Field("type", kind)
	e.w.Key(kind)
	e.w.Open('{')
	e.w.Field("name", e.book.Wire(n))
	e.w.Close('}')
	e.w.Close('}')
}

func (e *writer) allowed(mode ir.ChoiceMode, names []ir.ToolName) {
	e.w.Open('{')
	e.w.Field("type", "allowed_tools")
	e.w.Key("allowed_tools")
	e.w.Open('{')
	e.w.Field("mode", choiceWord(mode))
	e.w.Key("tools")
	e.w.Open('[')
	for _, n := range names {
		if !e.hosted(n) {
			e.chosen(n)
		}
	}
	e.w.Close(']')
	e.w.Close('}')
	e.w.Close('}')
}

// hosted reports whether a name is that of a tool which the provider would run.
func (e *writer) hosted(n ir.ToolName) bool {
	for i := range e.r.Tools {
		if t := &e.r.Tools[i]; t.Kind == ir.ToolHosted && (t.ToolName == n || t.Hosted.Type == n.Name) {
			return true
		}
	}
	return false
}

// webSearch writes web_search_options.
func (e *writer) webSearch(t *ir.Tool) {
	h := &t.Hosted
	if len(h.AllowedDomains)+len(h.BlockedDomains) > 0 || h.MaxUses > 0 {
		e.r.Lose(ir.FieldTools)
	}
	e.w.Key("web_search_options")
	e.w.Open('{')
	if len(h.Location) > 0 {
		e.w.Key("user_location")
		e.w.Open('{')
		e.w.Field("type", "approximate")
		e.w.Key("approximate")
		e.w.Open('{')
		for _, key := range locationFields {
			if v := rawjson.Get(h.Location, key); !isNull(v) {
				e.w.Member(key, v)
			}
		}
		e.w.Close('}')
		e.w.Close('}')
	}
	e.w.Close('}')
}
