package anthropic

import (
	"bytes"
	"slices"
	"strings"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// history is a request's messages while foreign state is taken out of it (routing.md, 10). What stays, stays byte for
// byte: messages and blocks are kept raw.
type history struct {
	messages []*past
	stripped bool // reasoning was taken out
	changed  bool // anything was
}

// past is a message.
type past struct {
	raw     []byte
	content rawjson.Field // where its content is in raw
	role    string
	blocks  []*pastBlock
	odd     bool // content of no form that we know: it stays as it is
	changed bool
	lost    bool // reasoning was taken out
}

// pastBlock is a block of a message.
type pastBlock struct {
	raw    []byte
	kind   string
	id     string // of a tool_use; of a tool_result the call's
	sealed bool   // by us
	blank  bool   // a text that says nothing
}

// repair implements ir.Raw.
func repair(body []byte, how ir.Repair) (out []byte, removed []string, err error) {
	var messages, thinking, management rawjson.Field
	err = rawjson.Walk(body, func(key []byte, f rawjson.Field) error {
		switch string(key) {
		case "messages":
			messages = f
		case "thinking":
			thinking = f
		case "context_management":
			management = f
		}
		return nil
	})
	if err != nil || messages.ValueEnd == 0 {
		return nil, nil, err
	}
	h := &history{}
	err = rawjson.Elements(messages.Value(body), func(_ int, v []byte) error {
		m, err := newPast(v)
		h.messages = append(h.messages, m)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	h.strip(how)
	h.mend()
	var edits []rawjson.Edit
	if off := h.off(how, thinking.Value(body)); off {
		h.changed = true
		edits = append(edits, rawjson.Edit{Start: thinking.ValueStart, End: thinking.ValueEnd, Text: []byte(`{"type":"disabled"}`)})
		edits = append(edits, withoutThinkingEdits(body, management)...)
	}
	if !h.changed {
		return nil, nil, nil
	}
	edits = append(edits, rawjson.Edit{Start: messages.ValueStart, End: messages.ValueEnd, Text: h.text()})
	if h.stripped {
		removed = []string{"thinking"}
	}
	return bytes.Join(rawjson.Splice(body, edits...), nil), removed, nil
}

// newPast reads a message.
func newPast(raw []byte) (*past, error) {
	m := &past{raw: raw, odd: true}
	err := rawjson.Walk(raw, func(key []byte, f rawjson.Field) error {
		switch string(key) {
		case "role":
			m.role, _ = rawjson.String(f.Value(raw))
		case "content":
			m.content = f
		}
		return nil
	})
	if err != nil || m.content.ValueEnd == 0 {
		return m, err
	}
	content := m.content.Value(raw)
	switch content[0] {
	case '"':
		m.odd = false
		text := append(append([]byte(`{"type":"text","text":`), content...), '}')
		m.blocks = []*pastBlock{{raw: text, kind: "text", blank: blankText(content)}}
	case '[':
		m.odd = false
		err = rawjson.Elements(content, func(_ int, v []byte) error {
			m.blocks = append(m.blocks, newPastBlock(v))
			return nil
		})
	}
	return m, err
}

func newPastBlock(raw []byte) *pastBlock {
	b := &pastBlock{raw: raw}
	_ = rawjson.Walk(raw, func(key []byte, f rawjson.Field) error { // what is no object is no block: it stays
		v := f.Value(raw)
		switch string(key) {
		case "type":
			b.kind, _ = rawjson.String(v)
		case "id", "tool_use_id":
			b.id, _ = rawjson.String(v)
		case "text":
			b.blank = blankText(v)
		case "signature", "data":
			if bytes.HasPrefix(v, []byte(`"`+ir.SealPrefix)) {
				s, _ := rawjson.String(v)
				b.sealed = ir.Sealed(s)
			}
		}
		return nil
	})
	b.blank = b.blank && b.kind == "text"
	return b
}

// blankText reports whether a raw string says nothing.
func blankText(raw []byte) bool {
	if len(raw) > 64 { // more is not worth a look: spaces alone come in small numbers
		return false
	}
	s, ok := rawjson.String(raw)
	return ok && blank(s)
}

func (b *pastBlock) thinking() bool { return b.kind == "thinking" || b.kind == "redacted_thinking" }

// strip takes reasoning out.
func (h *history) strip(how ir.Repair) {
	own := -1 // the last message that is the user's own: results go on with a loop, whatever reminders stand beside them
	for i, m := range h.messages {
		if m.role == "user" && !slices.ContainsFunc(m.blocks, func(b *pastBlock) bool { return b.kind == "tool_result" }) {
			own = i
		}
	}
	for i, m := range h.messages {
		if m.role != "assistant" {
			continue
		}
		kept := m.blocks[:0:0]
		for _, b := range m.blocks {
			if b.thinking() && (b.sealed || how == ir.RepairAll || how == ir.RepairClosed && i < own) {
				m.changed, m.lost, h.stripped, h.changed = true, true, true, true
			} else {
				kept = append(kept, b)
			}
		}
		m.blocks = kept
	}
}

// final is the index of the assistant's message whose calls the request's end answers, -1 where it ends otherwise.
func (h *history) final() int {
	n := len(h.messages) - 1
	for n >= 0 && h.messages[n].role == "system" {
		n--
	}
	if n < 0 || h.messages[n].role != "user" || !h.messages[n].has("tool_result") {
		return -1
	}
	for n--; n >= 0; n-- {
		if h.messages[n].role == "assistant" {
			return n
		}
	}
	return -1
}

func (m *past) has(kind string) bool {
	for i := range m.blocks {
		if m.blocks[i].kind == kind {
			return true
		}
	}
	return false
}

// off reports whether reasoning must be turned off for this request: the API wants the assistant's message of an open tool
// loop to begin with it. Models that reason as they like ("adaptive") may leave it out by themselves, so that there a
// message which has lost nothing is no reason.
func (h *history) off(how ir.Repair, thinking []byte) bool {
	kind, _ := rawjson.String(rawjson.Get(thinking, "type"))
	if kind == "" || kind == "disabled" {
		return false
	}
	n := h.final()
	if n < 0 {
		return false
	}
	lost := h.messages[n].lost
	for ; n > 0 && h.messages[n-1].role == "assistant"; n-- { // neighbours are one turn
		lost = lost || h.messages[n-1].lost
	}
	if len(h.messages[n].blocks) > 0 && h.messages[n].blocks[0].thinking() {
		return false
	}
	return lost || kind == "enabled" || how == ir.RepairAll
}

// withoutThinkingEdits takes the edits out of context_management that need reasoning.
func withoutThinkingEdits(body []byte, f rawjson.Field) []rawjson.Edit {
	if f.ValueEnd == 0 {
		return nil
	}
	value := f.Value(body)
	var list rawjson.Field
	others := 0
	_ = rawjson.Walk(value, func(key []byte, f rawjson.Field) error {
		if string(key) == "edits" {
			list = f
		} else {
			others++
		}
		return nil
	})
	if list.ValueEnd == 0 {
		return nil
	}
	var kept [][]byte
	all := 0
	_ = rawjson.Elements(list.Value(value), func(_ int, v []byte) error {
		all++
		if kind, _ := rawjson.String(rawjson.Get(v, "type")); !strings.HasPrefix(kind, "clear_thinking") {
			kept = append(kept, v)
		}
		return nil
	})
	switch {
	case len(kept) == all:
		return nil
	case len(kept) == 0 && others == 0:
		edits, err := rawjson.Remove(body, map[string]bool{"context_management": true})
		if err != nil {
			return nil
		}
		return edits
	}
	return []rawjson.Edit{{Start: f.ValueStart + list.ValueStart, End: f.ValueStart + list.ValueEnd, Text: rawArray(kept)}}
}

// rawArray writes an array of raw values.
func rawArray(values [][]byte) []byte {
	return append(append([]byte{'['}, bytes.Join(values, []byte{','})...), ']')
}

// text writes the messages.
func (h *history) text() []byte {
	list := make([][]byte, 0, len(h.messages))
	for _, m := range h.messages {
		list = append(list, m.text())
	}
	return rawArray(list)
}

func (m *past) text() []byte {
	if !m.changed {
		return m.raw
	}
	blocks := make([][]byte, 0, len(m.blocks))
	for i := range m.blocks {
		blocks = append(blocks, m.blocks[i].raw)
	}
	content := rawArray(blocks)
	if m.raw == nil {
		return append(append([]byte(`{"role":"`+m.role+`","content":`), content...), '}')
	}
	return bytes.Join(rawjson.Splice(m.raw, rawjson.Edit{Start: m.content.ValueStart, End: m.content.ValueEnd, Text: content}), nil)
}
