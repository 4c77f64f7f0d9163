package openairesponses

import (
	"slices"

	"coding-proxy/proxy/ir"
)

// turns writes the conversation. The results of an assistant's calls stand right behind its turn, in the order of the
// calls; a call without one gets one if the conversation went on.
func (w *writer) turns() error {
	for i := range w.r.Turns {
		t := &w.r.Turns[i]
		w.phase = t.Phase
		role := "user"
		switch t.Role {
		case ir.Assistant:
			role = "assistant"
		case ir.System, ir.Developer:
			role = "developer" // what was called system once; providers that sign users in refuse the older word
		}
		if role != "assistant" {
			w.results(true)
		}
		for j := range t.Blocks {
			if err := w.block(i, j, role); err != nil {
				return err
			}
		}
		w.closeMessage()
	}
	w.results(false)
	return nil
}

// block writes what a block of a turn says.
func (w *writer) block(i, j int, role string) error {
	b := &w.r.Turns[i].Blocks[j]
	if b.Cache != nil && !(w.model.takesBreakpoints() && role != "assistant" && (b.Kind == ir.Text || b.Kind == ir.Image || b.Kind == ir.Document)) {
		w.lost.Lose(ir.FieldCacheMark)
	}
	switch b.Kind {
	case ir.Thinking:
		w.thinking(b, w.followed(i, j))
		return nil
	case ir.ToolCall:
		w.closeMessage()
		w.toolCall(b)
		return nil
	case ir.ToolResult:
		if !w.pairs.Orphan(b) {
			return nil // it stands behind its call
		}
		if role == "assistant" {
			w.closeMessage()
			role = "user"
		}
		return w.orphan(b, role)
	case ir.HostedCall, ir.HostedResult, ir.Opaque:
		if !w.own {
			w.lost.LosePath(b.LostName())
			return nil
		}
		w.closeMessage()
		w.Raw(b.Raw)
		return nil
	}
	if b.State != nil {
		w.lost.Lose(ir.FieldThinking) // a text's: the dialect has no place for it
	}
	if role == "assistant" {
		return w.said(b)
	}
	if b.Kind == ir.Text && b.Text == "" || b.Kind == ir.Refusal && b.Text == "" {
		return nil
	}
	w.openMessage(role)
	return w.part(b)
}

// said writes what an assistant said. Its messages hold text alone: other media go to a user's message.
func (w *writer) said(b *ir.Block) error {
	switch b.Kind {
	case ir.Text:
		if b.Text == "" {
			return nil
		}
		w.openMessage("assistant")
		w.textPart("output_text", b.Text, b)
	case ir.Refusal:
		if b.Text == "" {
			return nil
		}
		w.openMessage("assistant")
		w.Open('{')
		w.Field("type", "refusal")
		w.Field("refusal", b.Text)
		w.Close('}')
	default:
		w.closeMessage()
		w.openMessage("user")
		err := w.part(b)
		w.closeMessage()
		return err
	}
	return nil
}

// openMessage begins a message of a role, unless one is open.
func (w *writer) openMessage(role string) {
	if w.message == role {
		return
	}
	w.closeMessage()
	w.message = role
	w.Open('{')
	w.Field("type", "message")
	w.Field("role", role)
	if role == "assistant" {
		w.Optional("phase", w.phase)
	}
	w.Key("content")
	w.Open('[')
}

func (w *writer) closeMessage() {
	if w.message != "" {
		w.message = ""
		w.Close(']')
		w.Close('}')
	}
}

// thinking gives reasoning back to whom it came from. The API refuses reasoning that nothing follows.
func (w *writer) thinking(b *ir.Block, followed bool) {
	data, ok := b.State.For(w.t.Owner)
	if !ok || !followed || data == "" && b.Text == "" {
		w.lost.Lose(ir.FieldThinking)
		return
	}
	w.closeMessage()
	w.Open('{')
	w.Field("type", "reasoning")
	w.Key("summary")
	w.Open('[')
	if data != "" {
		w.thoughts("summary_text", b)
	}
	w.Close(']')
	if data != "" {
		w.Field("encrypted_content", data)
	} else { // unsigned reasoning comes from open models, as text of its own
		w.Key("content")
		w.Open('[')
		w.thoughts("reasoning_text", b)
		w.Close(']')
	}
	w.Close('}')
}

// thoughts writes the parts of reasoning.
func (w *writer) thoughts(typ string, b *ir.Block) {
	at := 0
	for _, n := range append(slices.Clip(b.Breaks), len(b.Text)) {
		if n <= at || n > len(b.Text) {
			continue
		}
		w.Open('{')
		w.Field("type", typ)
		w.Field("text", b.Text[at:n])
		w.Close('}')
		at = n
	}
}

// followed reports whether the assistant says or calls anything after a block, before another speaks.
func (w *writer) followed(i, j int) bool {
	for ; i < len(w.r.Turns) && w.r.Turns[i].Role == ir.Assistant; i++ {
		for _, b := range w.r.Turns[i].Blocks[j+1:] {
			if b.Kind == ir.ToolCall || (b.Kind == ir.Text || b.Kind == ir.Refusal) && b.Text != "" || w.own && b.Kind == ir.HostedCall {
				return true
			}
		}
		j = -1
	}
	return false
}
