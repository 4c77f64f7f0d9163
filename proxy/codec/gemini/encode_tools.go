package gemini

import (
	"slices"

	"coding-proxy/proxy/ir"
)

// tools writes tools and toolConfig. A choice of some tools (allowed ones) among which the model is free is said by
// leaving the others out: AUTO takes no names, and VALIDATED does not exist for all models.
func (e *encoding) tools() error {
	if err := e.checkChoice(); err != nil {
		return err
	}
	w, c := &e.w, &e.r.Choice
	functions := e.functions()
	hosted := e.hosted(len(functions) > 0)
	if len(functions)+len(hosted) == 0 {
		if c.Mode > ir.ChoiceNone {
			if len(e.r.Tools) > 0 {
				return ir.Refuse(e.r.Name(ir.FieldToolChoice), "asks for a call, but this provider has none of the tools")
			}
			e.r.Lose(ir.FieldToolChoice)
		}
		return nil
	}
	w.Key("tools")
	w.Open('[')
	if len(functions) > 0 {
		w.Open('{')
		w.Key("functionDeclarations")
		w.Open('[')
		for _, t := range functions {
			e.function(t)
		}
		w.Close(']')
		w.Close('}')
	}
	for _, name := range hosted {
		w.Open('{')
		w.Key(name)
		w.Open('{')
		w.Close('}')
		w.Close('}')
	}
	w.Close(']')
	if len(functions) == 0 {
		if c.Mode > ir.ChoiceNone && c.Mode != ir.ChoiceAuto {
			e.r.Lose(ir.FieldToolChoice) // the provider's tools are called as the model likes
		}
		return nil
	}
	e.choice()
	return nil
}

// checkChoice refuses a forced call of a tool that cannot be had here.
func (e *encoding) checkChoice() error {
	c := &e.r.Choice
	if c.Mode != ir.ChoiceOne || len(c.Names) == 0 {
		return nil
	}
	alone := true
	known := false
	for i := range e.r.Tools {
		t := &e.r.Tools[i]
		if t.Kind != ir.ToolHosted {
			alone = false
			known = known || t.ToolName == c.Names[0]
		}
	}
	if known {
		return nil
	}
	for i := range e.r.Tools {
		t := &e.r.Tools[i]
		if t.Kind == ir.ToolHosted && (t.Name == c.Names[0].Name || t.Hosted.Type == c.Names[0].Name) && alone && e.has(t) {
			return nil
		}
	}
	return ir.Refuse(e.r.Name(ir.FieldToolChoice), "names a tool that this provider cannot be made to call")
}

// functions are the tools that the client runs, each name once, without those that the choice leaves out.
func (e *encoding) functions() []*ir.Tool {
	c := &e.r.Choice
	filter := c.Mode == ir.ChoiceAuto && len(c.Names) > 0
	seen := map[string]bool{}
	var list []*ir.Tool
	for i := range e.r.Tools {
		t := &e.r.Tools[i]
		if t.Kind == ir.ToolHosted || filter && !slices.Contains(c.Names, t.ToolName) {
			continue
		}
		if name := e.book.Wire(t.ToolName); seen[name] {
			e.r.Lose(ir.FieldTools) // a second one is refused
		} else {
			seen[name] = true
			list = append(list, t)
		}
	}
	return list
}

// has reports whether a tool that the provider runs exists here.
func (e *encoding) has(t *ir.Tool) bool { return t.Hosted.Type == ir.WebSearch || e.own }

// hosted are the provider's tools that go with the request. They are refused beside functions.
func (e *encoding) hosted(beside bool) []string {
	var list []string
	for i := range e.r.Tools {
		t := &e.r.Tools[i]
		if t.Kind != ir.ToolHosted {
			continue
		}
		if t.Cache != nil {
			e.r.Lose(ir.FieldCacheMark)
		}
		h := &t.Hosted
		if beside || !e.has(t) {
			e.r.Lose(ir.FieldTools)
			continue
		}
		if len(h.AllowedDomains)+len(h.BlockedDomains) > 0 || len(h.Location) > 0 || h.MaxUses != 0 {
			e.r.Lose(ir.FieldTools)
		}
		if h.Type == ir.WebSearch {
			list = append(list, "googleSearch")
		} else {
			list = append(list, h.Type)
		}
	}
	return list
}

// function writes a functionDeclaration.
func (e *encoding) function(t *ir.Tool) {
	w := &e.w
	if t.Cache != nil {
		e.r.Lose(ir.FieldCacheMark)
	}
	if t.Strict != nil && *t.Strict {
		e.r.Lose(ir.FieldStrict)
	}
	w.Open('{')
	w.Field("name", e.book.Wire(t.ToolName))
	w.Optional("description", t.Described())
	schema := t.Schema
	if t.Kind == ir.ToolCustom {
		schema = []byte(ir.CustomSchema)
	}
	clean, lost := cleanParameters(schema)
	if lost {
		e.r.Lose(ir.FieldSchema)
	}
	w.Member("parametersJsonSchema", clean)
	w.Close('}')
}

// choice writes toolConfig.
func (e *encoding) choice() {
	c := &e.r.Choice
	mode := ""
	var allowed []ir.ToolName
	switch c.Mode {
	case ir.ChoiceAuto:
		mode = "AUTO"
	case ir.ChoiceNone:
		mode = "NONE"
	case ir.ChoiceRequired, ir.ChoiceOne:
		mode, allowed = "ANY", c.Names
	default:
		return
	}
	w := &e.w
	w.Key("toolConfig")
	w.Open('{')
	w.Key("functionCallingConfig")
	w.Open('{')
	w.Field("mode", mode)
	if len(allowed) > 0 {
		w.Key("allowedFunctionNames")
		w.Open('[')
		for _, n := range allowed {
			w.String(e.book.Wire(n))
		}
		w.Close(']')
	}
	w.Close('}')
	w.Close('}')
}
