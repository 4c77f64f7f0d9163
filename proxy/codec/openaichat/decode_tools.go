package openaichat

import (
	"strings"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// tools reads the list of tools.
func (d *reader) tools(v []byte) error {
	return array("", "tools", v, func(i int, v []byte) error {
		t := ir.Tool{At: ir.Element("tools", i)}
		if err := d.tool(&t, v); err != nil {
			return err
		}
		d.r.Tools = append(d.r.Tools, t)
		return nil
	})
}

func (d *reader) tool(t *ir.Tool, raw []byte) error {
	var kind string
	var inner []byte
	err := object(t.At, "", raw, func(key string, v []byte) (err error) {
		switch key {
		case "type":
			kind, err = text(t.At, ".type", v)
		case "function", "custom":
			inner = v
		case "cache_control", "prompt_cache_breakpoint":
			t.Cache, err = d.cacheMark(t.At, key, v)
		}
		return err
	})
	if err != nil {
		return err
	}
	at := t.At + "." + kind + "."
	switch {
	case kind == "custom" && inner != nil:
		t.Kind, t.Form = ir.ToolCustom, ir.FormCustom
		err = object(t.At, ".custom", inner, func(key string, v []byte) error { return d.customTool(t, at, key, v) })
	case inner != nil && (kind == "function" || kind == ""):
		at = t.At + ".function."
		err = object(t.At, ".function", inner, func(key string, v []byte) error { return d.function(t, at, key, v) })
	case kind == "function": // flat, as Responses has it: some clients send it here
		at = t.At + "."
		err = object(t.At, "", raw, func(key string, v []byte) error {
			if key == "type" || key == "cache_control" || key == "prompt_cache_breakpoint" {
				return nil
			}
			return d.function(t, at, key, v)
		})
	case kind == "":
		return ir.Refuse(t.At+".type", "is missing")
	default:
		return d.hosted(t, kind, raw)
	}
	if err == nil && t.Name == "" {
		err = ir.Refuse(at+"name", "is missing")
	}
	return err
}

// function reads a member of a function's definition.
func (d *reader) function(t *ir.Tool, at, key string, v []byte) (err error) {
	switch key {
	case "name":
		t.Name, err = text(at, key, v)
	case "description":
		t.Description, err = text(at, key, v)
	case "parameters":
		t.Schema, err = rawObject(at, key, v)
	case "strict":
		var on bool
		on, err = boolean(at, key, v)
		t.Strict = &on
	case "cache_control":
		t.Cache, err = d.cacheMark(at, key, v)
	default:
		d.lose("tools." + key)
	}
	return err
}

// customTool reads a member of a free-text tool's definition. Its grammar is kept flat, as Responses has it.
func (d *reader) customTool(t *ir.Tool, at, key string, v []byte) (err error) {
	switch key {
	case "name":
		t.Name, err = text(at, key, v)
	case "description":
		t.Description, err = text(at, key, v)
	case "format":
		var kind string
		var grammar []byte
		err = object(at, key, v, func(k string, v []byte) (err error) {
			switch k {
			case "type":
				kind, err = text(at, "format.type", v)
			case "grammar":
				grammar = v
			default:
				d.lose("tools.format." + k)
			}
			return err
		})
		if err != nil || kind != "grammar" {
			return err
		}
		if !isObject(grammar) {
			return ir.Refuse(at+"format.grammar", "must be an object")
		}
		t.Grammar = flatGrammar(grammar)
	default:
		d.lose("tools." + key)
	}
	return err
}

// flatGrammar makes {"type":"grammar","syntax":…,"definition":…} of the inner object.
func flatGrammar(inner []byte) []byte {
	w := rawjson.Writer{}
	w.Open('{')
	w.Field("type", "grammar")
	w.Member("syntax", rawjson.Get(inner, "syntax"))
	w.Member("definition", rawjson.Get(inner, "definition"))
	w.Close('}')
	return w.Buf
}

// hosted reads a tool of a vendor's own kind; web search is the one that others know, too.
func (d *reader) hosted(t *ir.Tool, kind string, raw []byte) error {
	t.Kind = ir.ToolHosted
	t.Hosted.Type, t.Name = kind, kind
	if s, ok := rawjson.String(rawjson.Get(raw, "name")); ok {
		t.Name = s
	}
	if kind == ir.WebSearch || strings.HasPrefix(kind, ir.WebSearch+"_") {
		t.Hosted.Type = ir.WebSearch
	}
	return object(t.At, "", raw, func(key string, _ []byte) error {
		switch key {
		case "type", "name", "cache_control", "prompt_cache_breakpoint":
		default:
			d.lose("tools." + key)
		}
		return nil
	})
}

// webSearch reads web_search_options: a hosted tool by another name.
func (d *reader) webSearch(v []byte) error {
	const name = "web_search_options"
	t := ir.Tool{At: name, Kind: ir.ToolHosted, ToolName: ir.ToolName{Name: ir.WebSearch}, Hosted: ir.Hosted{Type: ir.WebSearch}}
	err := object("", name, v, func(key string, v []byte) (err error) {
		if key != "user_location" {
			d.lose(name + "." + key)
			return nil
		}
		if !isObject(v) {
			return ir.Refuse(name+".user_location", "must be an object")
		}
		place := rawjson.Get(v, "approximate")
		if !isObject(place) {
			return nil
		}
		w := rawjson.Writer{}
		w.Open('{')
		w.Field("type", "approximate")
		for _, key := range locationFields {
			w.Member(key, rawjson.Get(place, key))
		}
		w.Close('}')
		t.Hosted.Location = w.Buf
		return nil
	})
	d.r.Tools = append(d.r.Tools, t)
	return err
}

var locationFields = [...]string{"city", "region", "country", "timezone"}

// functions reads the deprecated list of functions.
func (d *reader) functions(v []byte) error {
	d.names[ir.FieldTools] = "functions"
	return array("", "functions", v, func(i int, v []byte) error {
		t := ir.Tool{At: ir.Element("functions", i)}
		err := object(t.At, "", v, func(key string, v []byte) error { return d.function(&t, t.At+".", key, v) })
		if err == nil && t.Name == "" {
			err = ir.Refuse(t.At+".name", "is missing")
		}
		d.r.Tools = append(d.r.Tools, t)
		return err
	})
}

// toolChoice reads tool_choice.
func (d *reader) toolChoice(v []byte) error {
	const name = "tool_choice"
	c := &d.r.Choice
	if isString(v) {
		word, err := oneOf(name, v, "none", "auto", "required", "any")
		c.Mode = choiceOf(word)
		return err
	}
	if !isObject(v) {
		return ir.Refuse(name, "must be a string or an object")
	}
	kind, err := text(name, ".type", rawjson.Get(v, "type"))
	if err != nil {
		return err
	}
	switch kind {
	case "none", "auto", "required", "any":
		c.Mode = choiceOf(kind)
	case "function", "custom":
		named, err := choiceName(name, kind, v)
		c.Mode, c.Names = ir.ChoiceOne, []ir.ToolName{named}
		return err
	case "allowed_tools":
		return d.allowed(rawjson.Get(v, "allowed_tools"))
	default:
		return ir.Refuse(name+".type", "is not a known value")
	}
	return nil
}

func choiceOf(word string) ir.ChoiceMode {
	switch word {
	case "none":
		return ir.ChoiceNone
	case "auto":
		return ir.ChoiceAuto
	}
	return ir.ChoiceRequired
}

// choiceName reads the name in {type:function,function:{name}}, also where it stands flat.
func choiceName(at, kind string, v []byte) (ir.ToolName, error) {
	inner := rawjson.Get(v, kind)
	if isNull(inner) {
		inner = v
	}
	name, ok := rawjson.String(rawjson.Get(inner, "name"))
	if !ok || name == "" {
		return ir.ToolName{}, ir.Refuse(at+"."+kind+".name", "must be a string")
	}
	return ir.ToolName{Name: name}, nil
}

// allowed reads allowed_tools{mode,tools[]}.
func (d *reader) allowed(v []byte) error {
	const name = "tool_choice.allowed_tools"
	c := &d.r.Choice
	if !isObject(v) {
		return ir.Refuse(name, "must be an object")
	}
	mode, err := oneOf(name+".mode", rawjson.Get(v, "mode"), "auto", "required")
	if err != nil {
		return err
	}
	c.Mode = choiceOf(mode)
	return array(name, ".tools", rawjson.Get(v, "tools"), func(i int, v []byte) error {
		at := ir.Element(name+".tools", i)
		kind, err := text(at, ".type", rawjson.Get(v, "type"))
		if err != nil {
			return err
		}
		if kind != "function" && kind != "custom" { // a hosted one goes by its type
			c.Names = append(c.Names, ir.ToolName{Name: kind})
			return nil
		}
		named, err := choiceName(at, kind, v)
		c.Names = append(c.Names, named)
		return err
	})
}

// functionCall reads the deprecated function_call: "none", "auto" or {name}.
func (d *reader) functionCall(v []byte) error {
	const name = "function_call"
	c := &d.r.Choice
	if isString(v) {
		word, err := oneOf(name, v, "none", "auto")
		c.Mode = choiceOf(word)
		return err
	}
	if !isObject(v) {
		return ir.Refuse(name, "must be a string or an object")
	}
	named, err := text(name, ".name", rawjson.Get(v, "name"))
	c.Mode, c.Names = ir.ChoiceOne, []ir.ToolName{{Name: named}}
	return err
}

// cacheMark reads cache_control{type,ttl} (a vendors' extension) or prompt_cache_breakpoint{mode,ttl}.
func (d *reader) cacheMark(at, key string, v []byte) (*ir.CacheMark, error) {
	d.names[ir.FieldCacheMark] = key
	var mark ir.CacheMark
	err := object(at, "."+key, v, func(k string, v []byte) (err error) {
		switch k {
		case "ttl":
			mark.TTL, err = text(at, "."+key+".ttl", v)
		case "type", "mode":
		default:
			d.lose(key + "." + k)
		}
		return err
	})
	return &mark, err
}
