package anthropic

import (
	"bytes"
	"strings"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// clientTools are the typed tools that the client runs itself: their schemas are with the model, so that others need
// them said. The first row whose prefix fits.
var clientTools = [...]struct{ prefix, name, description, schema string }{
	{"bash_", "bash", "Runs a command in a persistent bash session and returns its output. With restart the session begins anew.",
		`{"type":"object","properties":{"command":{"type":"string","description":"The command to run; required unless restart is true"},"restart":{"type":"boolean"}}}`},
	{"text_editor_", "str_replace_based_edit_tool", "Views, creates and edits files. view shows a file or lists a directory, create writes a file, str_replace replaces a text that stands once in it, insert puts text behind a line.",
		`{"type":"object","properties":{"command":{"type":"string","enum":["view","create","str_replace","insert","undo_edit"]},"path":{"type":"string"},` +
			`"file_text":{"type":"string","description":"of create"},"old_str":{"type":"string","description":"of str_replace"},"new_str":{"type":"string","description":"of str_replace and insert"},` +
			`"insert_line":{"type":"integer","description":"of insert: the line behind which"},"insert_text":{"type":"string","description":"of insert"},` +
			`"view_range":{"type":"array","items":{"type":"integer"},"description":"of view: first and last line"}},"required":["command","path"]}`},
	{"memory_", "memory", "Keeps notes in files below /memories. view shows a file or directory, create, str_replace, insert, delete and rename change them.",
		`{"type":"object","properties":{"command":{"type":"string","enum":["view","create","str_replace","insert","delete","rename"]},"path":{"type":"string"},` +
			`"view_range":{"type":"array","items":{"type":"integer"}},"file_text":{"type":"string"},"old_str":{"type":"string"},"new_str":{"type":"string"},` +
			`"insert_line":{"type":"integer"},"insert_text":{"type":"string"},"old_path":{"type":"string"},"new_path":{"type":"string"}},"required":["command"]}`},
	{"computer_", "computer", "Works a computer's screen, mouse and keyboard. screenshot shows the screen.",
		`{"type":"object","properties":{"action":{"type":"string","enum":["key","type","mouse_move","left_click","left_click_drag","right_click","middle_click","double_click","triple_click",` +
			`"left_mouse_down","left_mouse_up","screenshot","cursor_position","scroll","hold_key","wait","zoom"]},"coordinate":{"type":"array","items":{"type":"integer"},"description":"x, y"},` +
			`"start_coordinate":{"type":"array","items":{"type":"integer"}},"text":{"type":"string"},"scroll_direction":{"type":"string","enum":["up","down","left","right"]},` +
			`"scroll_amount":{"type":"integer"},"duration":{"type":"number"},"region":{"type":"array","items":{"type":"integer"}}},"required":["action"]}`},
	{"browser_", "browser", "Works a web browser.",
		`{"type":"object","properties":{"action":{"type":"string"}},"required":["action"]}`},
}

// toolset decodes tools and tool_choice.
func (rd *reader) toolset(t *top) error {
	if t.tools != nil {
		err := array(t.tools, "tools", func(i int, v []byte) error { return rd.tool(v, ir.Element("tools", i)) })
		if err != nil {
			return err
		}
	}
	if t.choice == nil {
		return nil
	}
	return rd.choice(t.choice)
}

// declared are the members of a tool, raw.
type declared struct {
	kind, name, description string
	schema, cache, strict   []byte
	others                  []member
}

type member struct {
	key string
	v   []byte
}

func (d *declared) read(raw []byte, at string) error {
	return object(raw, at, func(key, v []byte) error {
		switch string(key) {
		case "type":
			return text(v, at+".type", &d.kind)
		case "name":
			return text(v, at+".name", &d.name)
		case "description":
			return text(v, at+".description", &d.description)
		case "input_schema":
			d.schema = v
		case "cache_control":
			d.cache = v
		case "strict":
			d.strict = v
		default:
			d.others = append(d.others, member{string(key), v})
		}
		return nil
	})
}

func (rd *reader) tool(raw []byte, at string) error {
	var d declared
	if err := d.read(raw, at); err != nil {
		return err
	}
	t := ir.Tool{At: at, ToolName: ir.ToolName{Name: d.name}, Description: d.description}
	var err error
	switch {
	case d.kind == "" || d.kind == "custom":
		err = rd.function(&t, &d)
	case rd.typed(&t, &d):
	default:
		err = rd.hosted(&t, &d)
	}
	if err != nil {
		return err
	}
	if d.cache != nil {
		if t.Cache, err = rd.mark(d.cache, at+".cache_control"); err != nil {
			return err
		}
	}
	rd.r.Tools = append(rd.r.Tools, t)
	return nil
}

func (rd *reader) function(t *ir.Tool, d *declared) error {
	if d.name == "" {
		return ir.Refuse(t.At+".name", "is required")
	}
	if d.schema != nil {
		if c := d.schema[0]; c != '{' && c != 't' && c != 'f' {
			return ir.Refuse(t.At+".input_schema", "must be an object")
		}
		t.Schema = bytes.Clone(d.schema)
	}
	if d.strict != nil {
		var strict bool
		if err := boolean(d.strict, t.At+".strict", &strict); err != nil {
			return err
		}
		t.Strict = &strict
	}
	for _, m := range d.others {
		if string(m.v) != "false" { // defer_loading: false and such say nothing
			rd.lose([]byte(m.key))
		}
	}
	return nil
}

// typed makes a typed client tool a function with the schema that it is known to have. Its settings become part of the
// description.
func (rd *reader) typed(t *ir.Tool, d *declared) bool {
	for i := range clientTools {
		known := &clientTools[i]
		if !strings.HasPrefix(d.kind, known.prefix) {
			continue
		}
		if t.Name == "" {
			t.Name = known.name
		}
		t.Description, t.Schema = known.description, []byte(known.schema)
		for _, m := range d.others {
			switch m.key {
			case "display_width_px", "display_height_px", "display_number", "max_characters":
				t.Description += " " + m.key + ": " + string(m.v) + "."
			default:
				if string(m.v) != "false" {
					rd.lose([]byte(m.key))
				}
			}
		}
		return true
	}
	return false
}

// hosted decodes a tool that the provider runs.
func (rd *reader) hosted(t *ir.Tool, d *declared) error {
	t.Kind, t.Hosted.Type = ir.ToolHosted, d.kind
	if !strings.HasPrefix(d.kind, "web_search_") {
		return nil // no other dialect has it: it is lost as a whole
	}
	h := &t.Hosted
	h.Type = ir.WebSearch
	for _, m := range d.others {
		at := t.At + "." + m.key
		switch m.key {
		case "allowed_domains":
			if err := domains(m.v, at, &h.AllowedDomains); err != nil {
				return err
			}
		case "blocked_domains":
			if err := domains(m.v, at, &h.BlockedDomains); err != nil {
				return err
			}
		case "max_uses":
			n, ok := rawjson.Int(m.v)
			if !ok || n < 0 {
				return ir.Refuse(at, "must be a whole number, 0 or more")
			}
			h.MaxUses = n
		case "user_location":
			if m.v[0] != '{' {
				return ir.Refuse(at, "must be an object")
			}
			h.Location = bytes.Clone(m.v)
		default:
			rd.lose([]byte(m.key))
		}
	}
	return nil
}

func domains(v []byte, at string, to *[]string) error {
	return array(v, at, func(i int, v []byte) error {
		var s string
		err := text(v, ir.Element(at, i), &s)
		*to = append(*to, s)
		return err
	})
}

func (rd *reader) choice(raw []byte) error {
	var kind, name string
	err := object(raw, "tool_choice", func(key, v []byte) error {
		switch string(key) {
		case "type":
			return text(v, "tool_choice.type", &kind)
		case "name":
			return text(v, "tool_choice.name", &name)
		case "disable_parallel_tool_use":
			var off bool
			if err := boolean(v, "tool_choice.disable_parallel_tool_use", &off); err != nil {
				return err
			}
			on := !off
			rd.r.Parallel = &on
		default:
			rd.lose([]byte("tool_choice." + string(key)))
		}
		return nil
	})
	if err != nil {
		return err
	}
	c := &rd.r.Choice
	switch kind {
	case "auto":
		c.Mode = ir.ChoiceAuto
	case "any":
		c.Mode = ir.ChoiceRequired
	case "none":
		c.Mode = ir.ChoiceNone
	case "tool":
		if name == "" {
			return ir.Refuse("tool_choice.name", "is required")
		}
		c.Mode, c.Names = ir.ChoiceOne, []ir.ToolName{{Name: name}}
	default:
		return ir.Refuse("tool_choice.type", "must be auto, any, tool or none")
	}
	return nil
}
