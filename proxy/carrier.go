package proxy

import "coding-proxy/proxy/ir"

// carrier gives the first call of an answer the reasoning before it to carry, for clients that keep what belongs to a call
// and drop reasoning from their history.
type carrier struct {
	block    int // of the reasoning that is under way
	thinking *heard
	whole    *ir.Block // the last reasoning that has ended
}

// hear looks at the next event; it changes the start of a call.
func (k *carrier) hear(e *ir.Event) {
	switch {
	case e.Kind == ir.EventBlock && e.Start.Kind == ir.Thinking:
		k.block, k.thinking = e.Block, &heard{Block: *e.Start}
	case e.Kind == ir.EventBlock && e.Start.Kind == ir.ToolCall:
		if k.whole != nil && e.Start.State == nil {
			call := *e.Start
			call.State = ir.Before(k.whole)
			e.Start = &call
		}
		k.whole = nil
	case k.thinking == nil || e.Block != k.block:
	case e.Kind == ir.EventDelta && len(k.thinking.text) < maxRecalledBytes/8:
		k.thinking.text = append(k.thinking.text, e.Text...)
	case e.Kind == ir.EventState:
		k.thinking.State = e.State
	case e.Kind == ir.EventClose:
		if b := k.thinking; b.State != nil && len(b.text) < maxRecalledBytes/8 {
			b.Text = string(b.text)
			k.whole = &b.Block
		}
		k.thinking = nil
	}
}

// uncarry puts the reasoning that calls carry back before them, where the turn has lost it.
func uncarry(r *ir.Request) {
	for i := range r.Turns {
		t := &r.Turns[i]
		for j := 0; j < len(t.Blocks); j++ {
			thinking, ok := t.Blocks[j].State.Thinking()
			if !ok {
				continue
			}
			t.Blocks[j].State = nil
			if !holdsState(t.Blocks, thinking.State) {
				before := withoutCopy(t.Blocks[:j], thinking.Text)
				t.Blocks = append(append(before, thinking), t.Blocks[j:]...)
				j = len(before) + 1
			}
		}
	}
}

// withoutCopy returns the blocks without a copy of the reasoning whose signature the client has dropped.
func withoutCopy(blocks []ir.Block, text string) (kept []ir.Block) {
	for _, b := range blocks {
		if b.Kind != ir.Thinking || b.Text != text || b.State != nil && b.State.Owner != "" {
			kept = append(kept, b)
		}
	}
	return kept
}

// holdsState reports whether reasoning with that very state is among the blocks.
func holdsState(blocks []ir.Block, s *ir.State) bool {
	for _, b := range blocks {
		if b.Kind == ir.Thinking && b.State != nil && b.State.Owner == s.Owner && b.State.Data == s.Data {
			return true
		}
	}
	return false
}
