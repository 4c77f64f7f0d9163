package openaichat

import (
	"strconv"
	"strings"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// message is a message as it came: raw values, nil where absent or null.
type message struct {
	at                                  string
	role                                string
	content, refusal, calls, call, name []byte
	callID, audio                       []byte
	reasoning                           reasoningParts
	cache                               *ir.CacheMark
}

// message reads one message and appends what it says to the conversation.
func (d *reader) message(i int, raw []byte) error {
	m := message{at: ir.Element("messages", i)}
	err := object(m.at, "", raw, func(key string, v []byte) (err error) {
		switch key {
		case "role":
			m.role, err = text(m.at, ".role", v)
		case "content":
			m.content = v
		case "refusal":
			m.refusal = v
		case "tool_calls":
			m.calls = v
		case "function_call":
			m.call = v
		case "name":
			m.name = v
		case "tool_call_id":
			m.callID = v
		case "audio":
			m.audio = v
		case "cache_control", "prompt_cache_breakpoint":
			m.cache, err = d.cacheMark(m.at, key, v)
		default:
			if !m.reasoning.take(key, v) {
				d.lose(key)
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	return d.turn(&m)
}

func (d *reader) turn(m *message) error {
	var role ir.Role
	var err error
	var blocks []ir.Block
	switch m.role {
	case "user":
		role = ir.User
	case "assistant":
		role = ir.Assistant
	case "system":
		role = ir.System
	case "developer":
		role = ir.Developer
	case "tool", "function":
		return d.result(m)
	case "":
		return ir.Refuse(m.at+".role", "is missing")
	default:
		return ir.Refuse(m.at+".role", "is not a known value")
	}
	d.results = false
	if m.name != nil {
		d.lose("name")
	}
	if role == ir.Assistant {
		blocks, err = d.assistant(m)
	} else {
		blocks, err = d.content(nil, m.at, m.content)
	}
	if err != nil {
		return err
	}
	markLast(blocks, m.cache)
	switch {
	case len(blocks) == 0: // says nothing
	case role >= ir.System && len(d.r.Turns) == 0:
		return d.system(blocks)
	default:
		d.r.Turns = append(d.r.Turns, ir.Turn{At: m.at, Role: role, Blocks: blocks})
	}
	return nil
}

// system takes instructions before the conversation.
func (d *reader) system(blocks []ir.Block) error {
	for i := range blocks {
		if blocks[i].Kind != ir.Text {
			return ir.Refuse(blocks[i].At, "must be text")
		}
	}
	d.r.System = append(d.r.System, blocks...)
	return nil
}

// markLast puts a message's mark on its last block.
func markLast(blocks []ir.Block, mark *ir.CacheMark) {
	if n := len(blocks); n > 0 && mark != nil {
		blocks[n-1].Cache = mark
	}
}

// assistant reads what the model has said: reasoning first, then text, then calls.
func (d *reader) assistant(m *message) (blocks []ir.Block, err error) {
	if m.audio != nil {
		return nil, ir.Refuse(m.at+".audio", "belongs to the provider that made it")
	}
	thought, opaque := m.reasoning.text()
	if opaque {
		d.lose("reasoning_details")
	}
	if thought != "" {
		d.names[ir.FieldThinking] = m.reasoning.name()
		blocks = append(blocks, ir.Block{Kind: ir.Thinking, At: m.at, Text: thought})
	}
	if blocks, err = d.content(blocks, m.at, m.content); err != nil {
		return nil, err
	}
	if m.refusal != nil {
		s, err := text(m.at, ".refusal", m.refusal)
		if err != nil {
			return nil, err
		}
		if s != "" {
			blocks = append(blocks, ir.Block{Kind: ir.Refusal, At: m.at + ".refusal", Text: s})
		}
	}
	if m.call != nil {
		b := ir.Block{Kind: ir.ToolCall, At: m.at + ".function_call"}
		if err := d.callOf(&b, m.call, "arguments"); err != nil {
			return nil, err
		}
		b.ID = "call_function_" + strconv.Itoa(d.legacy)
		d.legacy++
		d.pending = append(d.pending, b.ID)
		blocks = append(blocks, b)
	}
	if m.calls == nil {
		return blocks, nil
	}
	err = array(m.at, ".tool_calls", m.calls, func(i int, v []byte) error {
		b := ir.Block{Kind: ir.ToolCall, At: ir.Element(m.at+".tool_calls", i)}
		if err := d.toolCall(&b, v); err != nil {
			return err
		}
		blocks = append(blocks, b)
		return nil
	})
	return blocks, err
}

// toolCall reads one call of the history.
func (d *reader) toolCall(b *ir.Block, raw []byte) error {
	err := object(b.At, "", raw, func(key string, v []byte) (err error) {
		switch key {
		case "id":
			b.ID, err = text(b.At, ".id", v)
		case "type", "index":
		case "function":
			at := b.At
			b.At += ".function"
			err = d.callOf(b, v, "arguments")
			b.At = at
		case "custom":
			b.Form = ir.FormCustom
			at := b.At
			b.At += ".custom"
			err = d.callOf(b, v, "input")
			b.At = at
		case "extra_content":
			if s, ok := rawjson.String(rawjson.Get(rawjson.Get(v, "google"), "thought_signature")); ok && s != "" {
				state := ir.Unseal(s)
				state.Attach = ir.AttachSelf
				b.State = &state
			} else {
				d.lose("extra_content")
			}
		case "cache_control":
			b.Cache, err = d.cacheMark(b.At, key, v)
		default:
			d.lose("tool_calls." + key)
		}
		return err
	})
	if b.Form == ir.FormCustom && b.ID != "" {
		if d.custom == nil {
			d.custom = map[string]bool{}
		}
		d.custom[b.ID] = true
	}
	return err
}

// callOf reads {name, arguments} or {name, input}. Arguments that are no string are taken as they are written.
func (d *reader) callOf(b *ir.Block, raw []byte, args string) error {
	return object(b.At, "", raw, func(key string, v []byte) (err error) {
		switch {
		case key == "name":
			b.Name, err = text(b.At, ".name", v)
		case key != args:
			d.lose("tool_calls." + key)
		case isString(v):
			b.Args, _ = rawjson.String(v)
		case isObject(v):
			b.Args = string(v)
		default:
			return ir.Refuse(b.At+"."+args, "must be a string")
		}
		return err
	})
}

// result reads a `tool` or `function` message; those that stand together are one turn.
func (d *reader) result(m *message) (err error) {
	b := ir.Block{Kind: ir.ToolResult, At: m.at, Cache: m.cache}
	if m.name != nil {
		if b.Name, err = text(m.at, ".name", m.name); err != nil {
			return err
		}
	}
	if m.callID != nil {
		if b.ID, err = text(m.at, ".tool_call_id", m.callID); err != nil {
			return err
		}
	} else if m.role == "function" && len(d.pending) > 0 {
		b.ID, d.pending = d.pending[0], d.pending[1:]
	}
	if d.custom[b.ID] {
		b.Form = ir.FormCustom
	}
	if b.Content, err = d.content(nil, m.at, m.content); err != nil {
		return err
	}
	if len(b.Content) > 0 && b.Content[0].Kind == ir.Text && strings.HasPrefix(b.Content[0].Text, ir.ToolErrorMark) {
		b.IsError = true
		if b.Content[0].Text = b.Content[0].Text[len(ir.ToolErrorMark):]; b.Content[0].Text == "" {
			b.Content = b.Content[1:]
		}
	}
	if d.results {
		t := &d.r.Turns[len(d.r.Turns)-1]
		t.Blocks = append(t.Blocks, b)
		return nil
	}
	d.results = true
	d.r.Turns = append(d.r.Turns, ir.Turn{At: m.at, Role: ir.User, Blocks: []ir.Block{b}})
	return nil
}
