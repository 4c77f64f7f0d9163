package anthropic

import (
	"strings"

	"coding-proxy/proxy/ir"
)

// filler stands where the API wants a text and the client has none.
const filler = "(no content)"

// part is a block of a message, with the id under which a call or result goes out.
type part struct {
	*ir.Block
	id string
}

// message is what becomes one message on the wire.
type message struct {
	role  ir.Role // User, Assistant or System
	at    string
	parts []part
}

// arrangement turns the client's turns into messages as the API wants them: results right behind their calls and first
// in their message, roles in turn, no empty texts.
type arrangement struct {
	e     *encoding
	pairs *ir.Pairing
	out   []message
	open  []*ir.Pair // of the last message, an assistant's: waiting for their results
}

// arrange makes the messages.
func (e *encoding) arrange() []message {
	a := &arrangement{e: e, pairs: ir.NewPairing(e.r.Turns, idRule())}
	turns := e.r.Turns
	for i := range turns {
		switch t := &turns[i]; t.Role {
		case ir.Assistant:
			a.assistant(t)
		case ir.System, ir.Developer:
			a.settle()
			a.system(t)
		default:
			a.settle()
			a.user(t)
		}
		if turns[i].Phase != "" {
			e.r.Lose(ir.FieldPhase)
		}
	}
	if n := len(turns); n > 0 && len(a.out) > 0 && turns[n-1].Role != ir.Assistant && a.last().role == ir.Assistant {
		a.add(ir.User, turns[n-1].At, part{Block: &ir.Block{Kind: ir.Text, Text: filler}}) // its last turn was empty
	}
	a.trim()
	return a.out
}

func (a *arrangement) last() *message { return &a.out[len(a.out)-1] }

// add appends a part to the last message if that has the role, else to a new one.
func (a *arrangement) add(role ir.Role, at string, p part) {
	if len(a.out) == 0 || a.last().role != role {
		a.out = append(a.out, message{role: role, at: at})
	}
	m := a.last()
	m.parts = append(m.parts, p)
}

// settle puts the results of the calls that wait into the user's message behind them. It is called where the conversation
// goes on.
func (a *arrangement) settle() {
	for _, c := range a.open {
		r := c.Result
		if r == nil {
			r = &ir.Block{Kind: ir.ToolResult, IsError: true, Content: []ir.Block{{Kind: ir.Text, Text: ir.NoResult}}}
		}
		a.add(ir.User, c.Call.At, part{r, c.ID})
	}
	a.open = a.open[:0]
}

func (a *arrangement) assistant(t *ir.Turn) {
	for j := range t.Blocks {
		switch b := &t.Blocks[j]; b.Kind {
		case ir.ToolCall:
			c := a.pairs.Of(b)
			if b.State != nil {
				a.e.r.Lose(ir.FieldThinking) // nobody signs calls in this dialect
			}
			a.add(ir.Assistant, t.At, part{b, c.ID})
			a.open = append(a.open, c)
		case ir.ToolResult:
			if a.pairs.Orphan(b) {
				a.orphan(ir.Assistant, t.At, b)
			}
		case ir.Thinking:
			if data, ok := b.State.For(a.e.t.Owner); ok && data != "" {
				a.add(ir.Assistant, t.At, part{Block: b})
			} else {
				a.e.r.Lose(ir.FieldThinking)
			}
		default:
			a.content(ir.Assistant, t.At, b)
		}
	}
}

func (a *arrangement) user(t *ir.Turn) {
	for j := range t.Blocks {
		switch b := &t.Blocks[j]; b.Kind {
		case ir.ToolResult:
			if a.pairs.Orphan(b) {
				a.orphan(ir.User, t.At, b)
			}
		case ir.Thinking:
			a.e.r.Lose(ir.FieldThinking)
		default:
			a.content(ir.User, t.At, b)
		}
	}
}

// orphan says a result without a call as text.
func (a *arrangement) orphan(role ir.Role, at string, b *ir.Block) {
	a.content(role, at, &ir.Block{Kind: ir.Text, Text: "[result of an earlier tool call]"})
	for i := range b.Content {
		a.content(role, at, &b.Content[i])
	}
}

// content adds what is neither call nor result nor reasoning, unless it is empty.
func (a *arrangement) content(role ir.Role, at string, b *ir.Block) {
	if b.Kind == ir.Text || b.Kind == ir.Refusal {
		if blank(b.Text) {
			if b.Cache != nil {
				a.e.r.Lose(ir.FieldCacheMark)
			}
			return
		}
	} else if !a.e.can(b) {
		return
	}
	a.add(role, at, part{Block: b})
}

// system keeps an instruction at its place: as a message of its own where the model takes it, else as the user's
// reminder. It is never hoisted, which would break the cached prefix.
func (a *arrangement) system(t *ir.Turn) {
	for j := range t.Blocks {
		b := &t.Blocks[j]
		switch {
		case b.Kind != ir.Text:
			a.e.can(b)
		case blank(b.Text):
		case a.e.f.system():
			a.add(ir.System, t.At, part{Block: b})
		default:
			a.add(ir.User, t.At, part{Block: &ir.Block{Kind: ir.Text, Text: "<system-reminder>\n" + b.Text + "\n</system-reminder>", Cache: b.Cache}})
		}
	}
}

// trim takes the blanks off the end of the final assistant text, which the API refuses.
func (a *arrangement) trim() {
	if len(a.out) == 0 || a.last().role != ir.Assistant {
		return
	}
	m := a.last()
	if p := &m.parts[len(m.parts)-1]; p.Kind == ir.Text {
		cut := strings.TrimRight(p.Text, " \t\r\n")
		if cut != p.Text {
			b := *p.Block
			b.Text = cut
			p.Block = &b
		}
	}
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }

// toolLoop reports whether the conversation ends with results of tools, and whether the assistant's message with their
// calls begins with reasoning.
func toolLoop(out []message) (loop, reasoned bool) {
	n := len(out)
	for n > 0 && out[n-1].role == ir.System {
		n--
	}
	if n == 0 || out[n-1].role != ir.User || out[n-1].parts[0].Kind != ir.ToolResult {
		return false, false
	}
	for n--; n > 0; n-- {
		if m := &out[n-1]; m.role == ir.Assistant {
			return true, m.parts[0].Kind == ir.Thinking
		}
	}
	return true, false
}
