package openairesponses

import (
	"strings"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// item holds the raw members of an item of the input or of an answer; which of them count is a matter of its type.
type item struct {
	at  string
	typ string
	raw []byte

	role, id, callID, name, namespace, phase, status []byte
	content, summary, encrypted                      []byte
	arguments, input, output                         []byte
	action, operation, tools, execution, environment []byte

	unknown []string
}

// maxUnknown bounds how many members that are not known are kept of an object, for their names.
const maxUnknown = 64

// scanItem sorts an item's members.
func scanItem(at string, raw []byte) (it item, err error) {
	it.at, it.raw = at, raw
	if raw[0] != '{' {
		return it, ir.Refuse(at, "must be an object")
	}
	var typ []byte
	err = rawjson.Walk(raw, func(key []byte, f rawjson.Field) error {
		v := f.Value(raw)
		if isNull(v) {
			return nil
		}
		if p := it.slot(key, &typ); p != nil {
			*p = v
		} else if len(it.unknown) < maxUnknown {
			it.unknown = append(it.unknown, string(key))
		}
		return nil
	})
	if err == nil {
		it.typ, err = textOf(at, ".type", typ)
	}
	return it, err
}

// slot returns where a member is kept, nil for one that is not known.
func (it *item) slot(key []byte, typ *[]byte) *[]byte {
	switch string(key) {
	case "type":
		return typ
	case "role":
		return &it.role
	case "id":
		return &it.id
	case "call_id":
		return &it.callID
	case "name":
		return &it.name
	case "namespace":
		return &it.namespace
	case "phase":
		return &it.phase
	case "status":
		return &it.status
	case "content":
		return &it.content
	case "summary":
		return &it.summary
	case "encrypted_content":
		return &it.encrypted
	case "arguments":
		return &it.arguments
	case "input":
		return &it.input
	case "output":
		return &it.output
	case "action":
		return &it.action
	case "operation":
		return &it.operation
	case "tools":
		return &it.tools
	case "execution":
		return &it.execution
	case "environment":
		return &it.environment
	}
	return nil
}

// input decodes the conversation.
func (d *reader) input(v []byte) error {
	d.r.Turns, d.r.System, d.more = nil, nil, nil // a repeated member replaces the one before
	d.run, d.begun, d.callState, d.callIDs = noRun, false, nil, map[string]string{}
	if v[0] == '"' {
		text, err := textOf("", "input", v)
		if err == nil && text != "" {
			d.r.Turns = []ir.Turn{{At: "input", Blocks: []ir.Block{{Kind: ir.Text, At: "input", Text: text}}}}
		}
		return err
	}
	err := listOf("", "input", v, func(i int, raw []byte) error {
		it, err := scanItem(ir.Element("input", i), raw)
		if err != nil {
			return err
		}
		return d.item(&it)
	})
	d.endRun()
	return err
}

// item decodes one item.
func (d *reader) item(it *item) error {
	err := d.known(it)
	if err != nil {
		return err
	}
	if !isHosted(it.typ) {
		for _, key := range it.unknown {
			d.lose(key)
		}
	}
	return nil
}

func (d *reader) known(it *item) error {
	switch it.typ {
	case "":
		if it.role == nil && it.id == nil {
			return ir.Refuse(it.at+".type", "must be a string")
		}
		if it.role == nil {
			return ir.Refuse(it.at, "a reference to a stored item cannot be converted")
		}
		return d.message(it)
	case "message":
		return d.message(it)
	case "reasoning":
		return d.thought(it)
	case "function_call", "custom_tool_call", "local_shell_call", "shell_call", "apply_patch_call", "tool_search_call":
		return d.call(it)
	case "function_call_output", "custom_tool_call_output", "local_shell_call_output", "shell_call_output",
		"apply_patch_call_output", "tool_search_output":
		return d.result(it)
	case "additional_tools":
		return d.itemTools(it)
	case "item_reference":
		return ir.Refuse(it.at, "a reference to a stored item cannot be converted")
	case "compaction", "compaction_trigger", "context_compaction":
		return ir.Refuse(it.at, "a compacted conversation can be read by its provider alone")
	case "configuration_update":
		d.lose("configuration_update")
		it.unknown = nil
		return nil
	}
	return d.foreign(it)
}

// message decodes a message. Instructions before all else are the request's own.
func (d *reader) message(it *item) error {
	role, err := textOf(it.at, ".role", it.role)
	if err != nil {
		return err
	}
	turn := ir.Turn{At: it.at}
	switch role {
	case "user":
	case "assistant":
		turn.Role = ir.Assistant
	case "system":
		turn.Role = ir.System
	case "developer":
		turn.Role = ir.Developer
	default:
		return ir.Refuse(it.at+".role", "must be user, assistant, system or developer")
	}
	if turn.Phase, err = textOf(it.at, ".phase", it.phase); err != nil {
		return err
	}
	if turn.Blocks, err = d.parts(it.at+".content", it.content); err != nil {
		return err
	}
	if len(turn.Blocks) == 0 {
		return nil
	}
	if turn.Role == ir.Assistant {
		t := d.assistant(it.at, turn.Phase)
		t.Blocks = append(t.Blocks, turn.Blocks...)
		return nil
	}
	if !d.begun && turn.Role != ir.User && allText(turn.Blocks) {
		d.r.System = append(d.r.System, turn.Blocks...)
		return nil
	}
	d.endRun()
	d.begun = true
	d.r.Turns = append(d.r.Turns, turn)
	return nil
}

func allText(blocks []ir.Block) bool {
	for i := range blocks {
		if blocks[i].Kind != ir.Text {
			return false
		}
	}
	return true
}

// endRun closes the turn that neighbouring items went into.
func (d *reader) endRun() {
	if d.callState != nil { // the call that it belongs to is gone
		d.r.Lose(ir.FieldThinking)
		d.callState = nil
	}
	d.run = noRun
}

// assistant returns the assistant's turn that goes on: what neighbouring items say is one turn, unless they are of
// different phases.
func (d *reader) assistant(at, phase string) *ir.Turn {
	d.begun = true
	turns := d.r.Turns
	if d.run == assistantRun {
		t := &turns[len(turns)-1]
		if phase == "" || t.Phase == phase {
			return t
		}
		if t.Phase == "" {
			t.Phase = phase
			return t
		}
	} else {
		d.endRun()
	}
	d.run = assistantRun
	d.r.Turns = append(turns, ir.Turn{At: at, Role: ir.Assistant, Phase: phase})
	return &d.r.Turns[len(turns)]
}

// results returns the turn of the results that stand side by side.
func (d *reader) results(at string) *ir.Turn {
	d.begun = true
	if d.run != resultRun {
		d.endRun()
		d.run = resultRun
		d.r.Turns = append(d.r.Turns, ir.Turn{At: at})
	}
	return &d.r.Turns[len(d.r.Turns)-1]
}

// thought decodes reasoning: the summary, or the reasoning's own text where there is no summary.
func (d *reader) thought(it *item) error {
	b := ir.Block{Kind: ir.Thinking, At: it.at}
	if err := thoughtText(&b, it.at, it.summary, it.content); err != nil {
		return err
	}
	opaque, err := textOf(it.at, ".encrypted_content", it.encrypted)
	if err != nil {
		return err
	}
	if opaque == "" {
		if b.Text == "" { // it stands for what its provider has stored
			d.r.Lose(ir.FieldThinking)
			return nil
		}
	} else if s := ir.Unseal(opaque); s.Attach == ir.AttachCall {
		d.assistant(it.at, "")
		if d.callState != nil {
			d.r.Lose(ir.FieldThinking)
		}
		d.callState = &s
		if b.Text == "" {
			return nil
		}
	} else {
		b.State = &s
	}
	t := d.assistant(it.at, "")
	t.Blocks = append(t.Blocks, b)
	return nil
}

// thoughtText gathers the parts of reasoning.
func thoughtText(b *ir.Block, at string, summary, content []byte) error {
	var text strings.Builder
	gather := func(field string, raw []byte) error {
		return listOf(at, field, raw, func(i int, part []byte) error {
			s, ok := rawjson.String(rawjson.Get(part, "text"))
			if !ok {
				return ir.Refuse(ir.Element(at+field, i)+".text", "must be a string")
			}
			if s != "" && text.Len() > 0 {
				b.Breaks = append(b.Breaks, text.Len())
			}
			text.WriteString(s)
			return nil
		})
	}
	err := gather(".summary", summary)
	if err == nil && text.Len() == 0 {
		err = gather(".content", content)
	}
	b.Text = text.String()
	return err
}
