package openaichat

import (
	"strings"

	"coding-proxy/proxy/ir"
)

// maxResultDepth bounds results of tools in results of tools.
const maxResultDepth = 8

// messages writes the conversation.
func (e *writer) messages() error {
	e.w.Key("messages")
	e.w.Open('[')
	if err := e.instruct(e.r.System); err != nil {
		return err
	}
	for i := range e.r.Turns {
		if err := e.turn(i); err != nil {
			return err
		}
	}
	e.w.Close(']')
	return nil
}

// instruct writes instructions where they stand: OpenAI's reasoning models call their author developer, everyone else
// system.
func (e *writer) instruct(blocks []ir.Block) error {
	role := "system"
	if e.family.reasons() {
		role = "developer"
	}
	return e.plainMessage(role, blocks)
}

// plainMessage writes a message that is content alone, unless it says nothing.
func (e *writer) plainMessage(role string, blocks []ir.Block) error {
	e.parts = e.parts[:0]
	for i := range blocks {
		if err := e.part(&blocks[i]); err != nil {
			return err
		}
	}
	e.flush(role)
	return nil
}

// flush writes the gathered parts as a message, unless there are none.
func (e *writer) flush(role string) {
	if len(e.parts) > 0 {
		e.w.Open('{')
		e.w.Field("role", role)
		e.w.Key("content")
		e.content(true)
		e.w.Close('}')
	}
}

func (e *writer) turn(i int) error {
	t := &e.r.Turns[i]
	switch t.Role {
	case ir.System, ir.Developer:
		return e.instruct(t.Blocks)
	case ir.Assistant:
		return e.assistant(i)
	}
	if t.Phase != "" {
		e.r.Lose(ir.FieldPhase)
	}
	return e.plainMessage("user", t.Blocks)
}

// said is what an assistant turn consists of.
type said struct {
	calls   []*ir.Block
	orphans []*ir.Block
	media   []*ir.Block // what the model drew: an assistant message holds text alone
	thought []string
	states  []string // of this owner
	foreign bool     // there is reasoning that goes nowhere else
	unsaid  []string // the text of it
}

// assistant writes a turn of the model, the results of its calls, and what of them no `tool` message can hold.
func (e *writer) assistant(i int) error {
	t := &e.r.Turns[i]
	if t.Phase != "" {
		e.r.Lose(ir.FieldPhase)
	}
	var s said
	e.parts = e.parts[:0]
	for b := range t.Blocks {
		c := &t.Blocks[b]
		var err error
		switch c.Kind {
		case ir.ToolCall:
			s.calls = append(s.calls, c)
		case ir.ToolResult: // some providers put it here; it is written behind the call
			if e.pairs.Orphan(c) {
				s.orphans = append(s.orphans, c)
			}
		case ir.Thinking:
			e.thought(&s, c)
		case ir.Image, ir.Audio, ir.Video:
			s.media = append(s.media, c)
		case ir.Document:
			if text, ok := documentText(c); ok {
				e.text(ir.Text, text, c.Cache)
			} else {
				s.media = append(s.media, c)
			}
		default:
			if c.State != nil {
				e.r.Lose(ir.FieldThinking) // Gemini signs text: no message has a place for it
			}
			err = e.part(c)
		}
		if err != nil {
			return err
		}
	}
	if len(e.parts)+len(s.calls) > 0 {
		e.spoken(&s)
	} else if len(s.thought)+len(s.unsaid) > 0 {
		e.r.Lose(ir.FieldThinking)
	}
	if err := e.results(s.calls, i < len(e.r.Turns)-1); err != nil {
		return err
	}
	return e.besides(&s)
}

// besides writes what belongs to a turn of the model and has no place in its message as what a user says.
func (e *writer) besides(s *said) error {
	for _, o := range s.orphans {
		e.parts = e.parts[:0]
		if err := e.orphan(o); err != nil {
			return err
		}
		e.flush("user")
	}
	if len(s.media) == 0 {
		return nil
	}
	e.parts = e.parts[:0]
	e.text(ir.Text, "[from the assistant's answer]", nil)
	for _, m := range s.media {
		if err := e.part(m); err != nil {
			return err
		}
	}
	e.flush("user")
	return nil
}

// thought sorts a block of reasoning by who may see it again.
func (e *writer) thought(s *said, b *ir.Block) {
	if b.Cache != nil {
		e.r.Lose(ir.FieldCacheMark)
	}
	data, own := b.State.For(e.target.Owner)
	if own && (data != "" || e.family.vendor != openAI) {
		s.states = append(s.states, data)
		if b.Text != "" {
			s.thought = append(s.thought, b.Text)
		}
		return
	}
	s.foreign = true
	if b.Text != "" {
		s.unsaid = append(s.unsaid, b.Text)
	}
	if b.State != nil && b.State.Data != "" {
		e.r.Lose(ir.FieldThinking)
	}
}

// spoken writes the assistant message itself. Text stands before the calls: Chat knows no other order.
func (e *writer) spoken(s *said) {
	e.w.Open('{')
	e.w.Field("role", "assistant")
	e.w.Key("content")
	switch {
	case len(e.parts) > 0:
		e.content(false)
	case e.family.vendor == openAI:
		e.w.Null()
	default:
		e.w.String("")
	}
	e.reasoned(s)
	if len(s.calls) > 0 {
		e.w.Key("tool_calls")
		e.w.Open('[')
		for _, c := range s.calls {
			e.call(c, e.pairs.Of(c).ID)
		}
		e.w.Close(']')
	}
	e.w.Close('}')
}

// reasoned writes the reasoning of a turn: to its owner, and as text to those who take it back from anyone.
func (e *writer) reasoned(s *said) {
	texts := s.thought
	if len(s.calls) > 0 && e.family.replays() {
		texts = append(texts, s.unsaid...)
		if len(texts) == 0 && len(s.states) == 0 && e.family.insists() {
			texts = []string{" "}
		}
	} else if s.foreign {
		e.r.Lose(ir.FieldThinking)
	}
	writeReasoning(&e.w, strings.Join(texts, "\n\n"), s.states)
}

// call writes one call. Free text goes as such where the tool does.
func (e *writer) call(c *ir.Block, id string) {
	if c.Cache != nil {
		e.r.Lose(ir.FieldCacheMark)
	}
	e.w.Open('{')
	e.w.Field("id", id)
	switch {
	case c.Form == ir.FormCustom && e.family.custom():
		e.w.Field("type", "custom")
		e.w.Key("custom")
		e.w.Open('{')
		e.w.Field("name", e.book.Wire(c.ToolName))
		e.w.Field("input", c.Args)
	default:
		e.w.Field("type", "function")
		e.w.Key("function")
		e.w.Open('{')
		e.w.Field("name", e.book.Wire(c.ToolName))
		args := c.Args
		switch {
		case c.Form == ir.FormCustom:
			args = ir.WrapCustom(args)
		case strings.TrimSpace(args) == "":
			args = "{}"
		}
		e.w.Field("arguments", args)
	}
	e.w.Close('}')
	if data, ok := c.State.For(e.target.Owner); ok && data != "" {
		e.w.Key("extra_content")
		e.w.Open('{')
		e.w.Key("google")
		e.w.Open('{')
		e.w.Field("thought_signature", data)
		e.w.Close('}')
		e.w.Close('}')
	} else if c.State != nil {
		e.r.Lose(ir.FieldThinking)
	}
	e.w.Close('}')
}

// results writes the results of calls, one message each, then what those cannot hold as a user's message.
func (e *writer) results(calls []*ir.Block, later bool) error {
	var labels []string
	var media []*ir.Block
	for _, c := range calls {
		p := e.pairs.Of(c)
		if p.Result == nil {
			if later {
				e.toolMessage(p.ID, ir.ToolErrorMark+ir.NoResult)
			}
			continue
		}
		e.parts, e.media = e.parts[:0], e.media[:0]
		if err := e.resultParts(p.Result, 0); err != nil {
			return err
		}
		e.toolResult(p)
		for _, m := range e.media {
			media, labels = append(media, m), append(labels, p.ID)
		}
	}
	if len(media) == 0 {
		return nil
	}
	e.parts = e.parts[:0]
	for i, m := range media {
		e.parts = append(e.parts, part{kind: ir.Text, text: "[from the result of tool call " + labels[i] + "]"})
		if err := e.part(m); err != nil {
			return err
		}
	}
	e.flush("user")
	return nil
}

func (e *writer) toolMessage(id, text string) {
	e.w.Open('{')
	e.w.Field("role", "tool")
	e.w.Field("tool_call_id", id)
	e.w.Field("content", text)
	e.w.Close('}')
}

// toolResult writes the gathered text of a result. One string is what every server reads; OpenAI's own keep the parts.
func (e *writer) toolResult(p *ir.Pair) {
	if p.Result.IsError {
		if len(e.parts) == 0 {
			e.parts = append(e.parts, part{kind: ir.Text})
		}
		e.parts[0].text = ir.ToolErrorMark + e.parts[0].text
	}
	if c := p.Result.Cache; c != nil {
		if n := len(e.parts); n > 0 {
			e.parts[n-1].cache = c
		} else {
			e.r.Lose(ir.FieldCacheMark)
		}
	}
	if e.family.vendor != openAI {
		e.toolMessage(p.ID, e.joined("\n"))
		return
	}
	e.w.Open('{')
	e.w.Field("role", "tool")
	e.w.Field("tool_call_id", p.ID)
	e.w.Key("content")
	if len(e.parts) == 0 {
		e.w.String("")
	} else {
		e.content(true)
	}
	e.w.Close('}')
}
