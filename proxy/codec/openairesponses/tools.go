package openairesponses

import (
	"bytes"
	"strings"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// toolMembers hold the raw members of a tool; rest are those that only its type knows.
type toolMembers struct {
	typ, name, description, parameters, strict, format, tools []byte
	execution, environment, filters, location                 []byte
	rest                                                      []string
}

func (t *toolMembers) slot(key []byte) *[]byte {
	switch string(key) {
	case "type":
		return &t.typ
	case "name":
		return &t.name
	case "description":
		return &t.description
	case "parameters":
		return &t.parameters
	case "strict":
		return &t.strict
	case "format":
		return &t.format
	case "tools":
		return &t.tools
	case "execution":
		return &t.execution
	case "environment":
		return &t.environment
	case "filters":
		return &t.filters
	case "user_location":
		return &t.location
	}
	return nil
}

func scanTool(at string, raw []byte) (t toolMembers, err error) {
	if raw[0] != '{' {
		return t, ir.Refuse(at, "must be an object")
	}
	err = rawjson.Walk(raw, func(key []byte, f rawjson.Field) error {
		v := f.Value(raw)
		if isNull(v) {
			return nil
		}
		if p := t.slot(key); p != nil {
			*p = v
		} else if string(v) != "false" && !isDefault(key, v) && len(t.rest) < maxUnknown {
			t.rest = append(t.rest, string(key))
		}
		return nil
	})
	return t, err
}

// isDefault reports whether a member says what would hold without it.
func isDefault(key, value []byte) bool {
	switch string(key) {
	case "external_web_access":
		return string(value) == "true"
	case "search_context_size":
		return string(value) == `"medium"`
	case "allowed_callers":
		return string(value) == `["direct"]`
	}
	return false
}

// tool decodes a tool, or the tools of a namespace, and appends them to list.
func (d *reader) tool(at string, raw []byte, namespace string, list *[]ir.Tool) error {
	m, err := scanTool(at, raw)
	if err != nil {
		return err
	}
	typ, err := textOf(at, ".type", m.typ)
	if err != nil {
		return err
	}
	t := ir.Tool{At: at}
	t.Namespace = namespace
	if t.Name, err = textOf(at, ".name", m.name); err != nil {
		return err
	}
	if t.Description, err = textOf(at, ".description", m.description); err != nil {
		return err
	}
	if typ == "" && t.Name != "" { // clients leave it out for functions
		typ = "function"
	}
	switch typ {
	case "function":
		err = d.function(&t, &m)
	case "custom":
		t.Kind, t.Form = ir.ToolCustom, ir.FormCustom
		if kind, _ := rawjson.String(rawjson.Get(m.format, "type")); kind != "" && kind != "text" {
			t.Grammar = bytes.Clone(m.format)
		}
	case "namespace":
		return d.namespace(at, &t, &m, list)
	case "":
		return ir.Refuse(at+".type", "must be a string")
	default:
		err = d.typedOrHosted(&t, typ, &m)
	}
	if err != nil {
		return err
	}
	if t.Name == "" {
		return ir.Refuse(at+".name", "must be a string")
	}
	for _, key := range m.rest {
		d.lose("tools." + key)
	}
	*list = append(*list, t)
	return nil
}

func (d *reader) function(t *ir.Tool, m *toolMembers) (err error) {
	if m.parameters != nil {
		if m.parameters[0] != '{' {
			return ir.Refuse(t.At+".parameters", "must be an object")
		}
		t.Schema = bytes.Clone(m.parameters)
	}
	t.Strict, err = boolOf(t.At, ".strict", m.strict)
	return err
}

// namespace takes the tools of a namespace; one within another is not in the API.
func (d *reader) namespace(at string, t *ir.Tool, m *toolMembers, list *[]ir.Tool) error {
	if t.Namespace != "" {
		return ir.Refuse(at+".type", "must not be a namespace within a namespace")
	}
	if t.Name == "" {
		return ir.Refuse(at+".name", "must be a string")
	}
	if t.Description != "" {
		d.lose("tools.namespace.description")
	}
	for _, key := range m.rest {
		d.lose("tools.namespace." + key)
	}
	return listOf(at, ".tools", m.tools, func(i int, raw []byte) error {
		return d.tool(ir.Element(at+".tools", i), raw, t.Name, list)
	})
}

// typedOrHosted decodes a tool that has a type of its own: one that the client runs, or one that the provider runs.
func (d *reader) typedOrHosted(t *ir.Tool, typ string, m *toolMembers) error {
	if k := typedByForm(typ); k != nil && string(m.execution) != `"server"` && !inContainer(m.environment) &&
		(typ != "tool_search" || m.execution != nil) {
		t.Name, t.Form, t.Schema = typ, typ, []byte(k.schema)
		if t.Description == "" {
			t.Description = k.description
		}
		if m.environment != nil {
			d.lose("tools.environment")
		}
		if m.parameters != nil {
			return d.function(t, m)
		}
		return nil
	}
	t.Kind = ir.ToolHosted
	t.Hosted.Type = typ
	if strings.HasPrefix(typ, "web_search") { // with the dates of its versions, or as a preview
		t.Hosted.Type = ir.WebSearch
	}
	t.Name = t.Hosted.Type
	t.Hosted.Location = bytes.Clone(m.location)
	if m.filters == nil {
		return nil
	}
	if t.Hosted.Type != ir.WebSearch {
		d.lose("tools.filters")
		return nil
	}
	return objectOf(t.At, ".filters", m.filters, func(key string, v []byte) (err error) {
		switch {
		case isNull(v):
		case key == "allowed_domains":
			t.Hosted.AllowedDomains, err = textsOf(t.At, ".filters.allowed_domains", v)
		case key == "blocked_domains":
			t.Hosted.BlockedDomains, err = textsOf(t.At, ".filters.blocked_domains", v)
		default:
			d.lose("tools.filters." + key)
		}
		return err
	})
}

// inContainer reports whether an environment is one that the provider runs.
func inContainer(environment []byte) bool {
	typ, _ := rawjson.String(rawjson.Get(environment, "type"))
	return strings.HasPrefix(typ, "container")
}

// addTools puts the tools that items brought behind the others; one of the same name is replaced.
func (d *reader) addTools() {
	if len(d.more) == 0 {
		return
	}
	at := make(map[ir.ToolName]int, len(d.r.Tools)+len(d.more))
	for i := len(d.r.Tools) - 1; i >= 0; i-- { // of one name the first
		at[d.r.Tools[i].ToolName] = i
	}
	for _, t := range d.more {
		if i, ok := at[t.ToolName]; ok {
			d.r.Tools[i] = t
			continue
		}
		at[t.ToolName] = len(d.r.Tools)
		d.r.Tools = append(d.r.Tools, t)
	}
}

// choice decodes which tools may or must be called.
func (d *reader) choice(v []byte) error {
	c := &d.r.Choice
	*c = ir.Choice{}
	if v[0] == '"' {
		word, err := textOf("", "tool_choice", v)
		if err != nil {
			return err
		}
		switch word {
		case "auto":
			c.Mode = ir.ChoiceAuto
		case "none":
			c.Mode = ir.ChoiceNone
		case "required":
			c.Mode = ir.ChoiceRequired
		default:
			return ir.Refuse("tool_choice", "must be auto, none, required or an object")
		}
		return nil
	}
	if v[0] != '{' {
		return ir.Refuse("tool_choice", "must be a string or an object")
	}
	name, typ, err := chosen("tool_choice", v)
	if err != nil {
		return err
	}
	if typ != "allowed_tools" {
		c.Mode, c.Names = ir.ChoiceOne, []ir.ToolName{name}
		return nil
	}
	switch mode, _ := rawjson.String(rawjson.Get(v, "mode")); mode {
	case "auto":
		c.Mode = ir.ChoiceAuto
	case "required":
		c.Mode = ir.ChoiceRequired
	default:
		return ir.Refuse("tool_choice.mode", "must be auto or required")
	}
	return listOf("tool_choice", ".tools", rawjson.Get(v, "tools"), func(i int, v []byte) error {
		at := ir.Element("tool_choice.tools", i)
		if v[0] != '{' {
			return ir.Refuse(at, "must be an object")
		}
		name, _, err := chosen(at, v)
		if err == nil {
			c.Names = append(c.Names, name)
		}
		return err
	})
}

// chosen decodes the object that names a tool. Tools without a name go by their type.
func chosen(at string, v []byte) (n ir.ToolName, typ string, err error) {
	if typ, err = textOf(at, ".type", rawjson.Get(v, "type")); err != nil {
		return n, typ, err
	}
	if n.Name, err = textOf(at, ".name", rawjson.Get(v, "name")); err != nil {
		return n, typ, err
	}
	if n.Namespace, err = textOf(at, ".namespace", rawjson.Get(v, "namespace")); err != nil {
		return n, typ, err
	}
	switch typ {
	case "function", "custom":
		if n.Name == "" {
			return n, typ, ir.Refuse(at+".name", "must be a string")
		}
	case "":
		return n, typ, ir.Refuse(at+".type", "must be a string")
	case "allowed_tools":
	default:
		if n = (ir.ToolName{Name: typ}); strings.HasPrefix(typ, "web_search") {
			n.Name = ir.WebSearch
		}
	}
	return n, typ, nil
}
