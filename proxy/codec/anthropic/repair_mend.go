package anthropic

import (
	"slices"
	"strings"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// wanted is a call that has been made, and its last result once that has come.
type wanted struct {
	id     string
	result *pastBlock
}

// pairing says what belongs together.
type pairing struct {
	calls map[*past][]*wanted    // by the message that makes them
	of    map[*pastBlock]*wanted // by result: the call that it answers
}

// mend brings the messages into the order that the API wants: results right behind their calls and first in their
// message, none missing, none without a call; no message without content; roles in turn.
func (h *history) mend() {
	p := h.pair()
	var out []*past
	var open []*wanted // calls whose results must come next
	behind := 0        // where in out the message after them belongs
	for _, m := range h.messages {
		if m.role == "assistant" && len(open) > 0 && behind < len(out) { // something stands between, and no answer
			out = slices.Insert(out, behind, results(open))
			open, h.changed = nil, true
		}
		if m.role == "user" && !m.odd {
			h.set(m, p.lead(m, open))
			open = nil
		}
		out = append(out, m)
		if m.role == "assistant" && !m.odd {
			h.set(m, p.rest(m, nil))
			open = append(open, p.calls[m]...)
			behind = len(out)
		}
	}
	if slices.ContainsFunc(open, func(c *wanted) bool { return c.result != nil }) || len(open) > 0 && behind < len(out) {
		out = slices.Insert(out, behind, results(open))
		h.changed = true
	}
	h.messages = out
	h.clean()
}

// results makes the message that a conversation lacks.
func results(open []*wanted) *past {
	m := &past{role: "user", changed: true}
	for _, c := range open {
		m.blocks = append(m.blocks, c.answer())
	}
	return m
}

// answer is the call's result, made where there is none.
func (c *wanted) answer() *pastBlock {
	if c.result == nil {
		raw := rawjson.AppendString([]byte(`{"type":"tool_result","tool_use_id":`), c.id)
		c.result = &pastBlock{kind: "tool_result", id: c.id, raw: append(raw, `,"content":"`+ir.NoResult+`","is_error":true}`...)}
	}
	return c.result
}

// set gives a message the blocks that it shall have, if they are others.
func (h *history) set(m *past, blocks []*pastBlock) {
	if !slices.Equal(blocks, m.blocks) {
		m.blocks, m.changed, h.changed = blocks, true, true
	}
}

// pair finds the last result of each call. A later call with the same id begins anew.
func (h *history) pair() *pairing {
	p := &pairing{map[*past][]*wanted{}, map[*pastBlock]*wanted{}}
	latest := map[string]*wanted{}
	for _, m := range h.messages {
		for _, b := range m.blocks {
			switch b.kind {
			case "tool_use":
				if m.role == "assistant" {
					c := &wanted{id: b.id}
					latest[b.id], p.calls[m] = c, append(p.calls[m], c)
				}
			case "tool_result":
				if c := latest[b.id]; c != nil && (m.role == "user" || m.role == "assistant") {
					c.result, p.of[b] = b, c
				}
			}
		}
	}
	return p
}

// lead is what a user's message must hold that answers the open calls: their results in the order in which they stand
// there, those that stand elsewhere or nowhere, then the rest.
func (p *pairing) lead(m *past, open []*wanted) []*pastBlock {
	blocks := make([]*pastBlock, 0, len(m.blocks)+len(open))
	waits := make(map[*wanted]bool, len(open))
	for _, c := range open {
		waits[c] = true
	}
	for _, b := range m.blocks {
		if c := p.of[b]; waits[c] && c.result == b {
			blocks = append(blocks, b)
			waits[c] = false
		}
	}
	for _, c := range open {
		if waits[c] {
			blocks = append(blocks, c.answer())
		}
	}
	return p.rest(m, blocks)
}

// rest appends the message's blocks that are no results; a result without a call becomes text.
func (p *pairing) rest(m *past, blocks []*pastBlock) []*pastBlock {
	for _, b := range m.blocks {
		switch {
		case b.kind != "tool_result":
			blocks = append(blocks, b)
		case p.of[b] == nil:
			blocks = append(blocks, b.asText())
		}
	}
	return blocks
}

// asText makes a text of a result.
func (b *pastBlock) asText() *pastBlock {
	said := []string{"[result of an earlier tool call]"}
	content := rawjson.Get(b.raw, "content")
	if s, ok := rawjson.String(content); ok {
		said = append(said, s)
	}
	_ = rawjson.Elements(content, func(_ int, v []byte) error { // a string has no elements
		if s, ok := rawjson.String(rawjson.Get(v, "text")); ok {
			said = append(said, s)
		}
		return nil
	})
	raw := rawjson.AppendString([]byte(`{"type":"text","text":`), strings.Join(said, "\n"))
	return &pastBlock{kind: "text", raw: append(raw, '}')}
}

// clean drops what is empty, which the API refuses: blank texts, and messages without anything else. Where a message is
// gone its neighbours of the same role become one. The final assistant's message may be empty.
func (h *history) clean() {
	var out []*past
	gap := false
	for i, m := range h.messages {
		empty := !m.odd && !slices.ContainsFunc(m.blocks, func(b *pastBlock) bool { return !b.blank })
		switch {
		case empty && (m.changed || i < len(h.messages)-1 || m.role != "assistant"):
			h.changed, gap = true, true
			continue
		case !empty:
			h.set(m, slices.DeleteFunc(slices.Clone(m.blocks), func(b *pastBlock) bool { return b.blank }))
		}
		if last := len(out) - 1; gap && last >= 0 && out[last].role == m.role && !m.odd && !out[last].odd && !m.has("tool_result") {
			out[last].join(m)
		} else {
			out = append(out, m)
		}
		gap = false
	}
	if len(out) == 0 && len(h.messages) > 0 {
		b := &pastBlock{kind: "text", raw: []byte(`{"type":"text","text":"` + filler + `"}`)}
		out = []*past{{role: "user", changed: true, blocks: []*pastBlock{b}}}
	}
	h.messages = out
}

// join appends the next message.
func (m *past) join(next *past) {
	m.blocks = append(slices.Clone(m.blocks), next.blocks...)
	m.changed, m.lost = true, m.lost || next.lost
}
