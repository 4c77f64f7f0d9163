package demo

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// inputPiece is how many bytes of a tool's input one delta carries.
const inputPiece = 24

// events turns a step into the events of a whole stream. A plain answer is their fold.
func (p *Provider) events(step Step, q *query) []event {
	if step.Text == "" && step.Thinking == "" && len(step.Tools) == 0 {
		step.Text = "Hello from " + p.options.Name + "."
	}
	s := script{pings: step.Pings + 1}
	if step.Thinking != "" {
		s.thinking(step.Thinking, p.sign(), q.omitsThinking())
	}
	if step.Text != "" {
		s.text(step.Text)
	}
	for _, tool := range step.Tools {
		if tool.ID == "" {
			tool.ID = p.id("toolu")
		}
		s.tool(tool)
	}
	start, end := figures(step.Usage, q.size, s.size)
	events := make([]event, 0, len(s.events)+3)
	events = append(events, event{Type: "message_start", Message: &message{
		ID: p.id("msg"), Type: "message", Role: "assistant", Model: q.Model, Content: []block{}, Usage: start,
	}})
	events = append(events, s.events...)
	return append(events,
		event{Type: "message_delta", Delta: &delta{StopReason: stopReason(step), StopSequence: json.RawMessage("null")}, Usage: &end},
		event{Type: "message_stop"})
}

func stopReason(step Step) string {
	switch {
	case step.StopReason != "":
		return step.StopReason
	case len(step.Tools) > 0:
		return "tool_use"
	default:
		return "end_turn"
	}
}

// figures are the usage of message_start and of message_delta.
func figures(u Usage, in, out int) (start, end usage) {
	if u.Input == 0 {
		u.Input = tokens(in)
	}
	if u.Output == 0 {
		u.Output = tokens(out)
	}
	end = usage{Input: u.Input, CacheCreation: u.CacheCreation, CacheRead: u.CacheRead, Output: u.Output}
	start = end
	start.Output = 1 // the API counts the first token here
	start.CacheByTTL = &cacheCreation{FiveMinutes: u.CacheCreation}
	start.ServiceTier = "standard"
	return start, end
}

// script gathers the events of the content blocks.
type script struct {
	events []event
	index  int // of the next block
	pings  int // still to be written, after the first block's start
	size   int // bytes of output so far
}

func (s *script) text(text string) {
	var deltas []delta
	for _, word := range strings.SplitAfter(text, " ") {
		if word != "" {
			deltas = append(deltas, delta{Type: "text_delta", Text: word})
		}
	}
	s.size += len(text)
	s.block(block{Type: "text", Text: new(string)}, deltas)
}

// thinking leaves the text out if the client asked for that; it is paid for all the same.
func (s *script) thinking(text, signature string, omit bool) {
	s.size += len(text)
	var deltas []delta
	if !omit {
		deltas = append(deltas, delta{Type: "thinking_delta", Thinking: text})
	}
	deltas = append(deltas, delta{Type: "signature_delta", Signature: signature})
	s.block(block{Type: "thinking", Thinking: new(string), Signature: new(string)}, deltas)
}

func (s *script) tool(tool Tool) {
	deltas := []delta{{Type: "input_json_delta", PartialJSON: new(string)}} // the API begins with an empty piece
	for rest := string(tool.Input); rest != ""; {
		var piece string
		piece, rest = cutRunes(rest, inputPiece)
		deltas = append(deltas, delta{Type: "input_json_delta", PartialJSON: &piece})
	}
	s.size += len(tool.Input)
	s.block(block{Type: "tool_use", ID: tool.ID, Name: tool.Name, Input: json.RawMessage("{}")}, deltas)
}

// block writes one block from start to stop.
func (s *script) block(start block, deltas []delta) {
	index := s.index
	s.index++
	s.events = append(s.events, event{Type: "content_block_start", Index: &index, Block: &start})
	for ; s.pings > 0; s.pings-- {
		s.events = append(s.events, event{Type: "ping"})
	}
	for _, d := range deltas {
		s.events = append(s.events, event{Type: "content_block_delta", Index: &index, Delta: &d})
	}
	s.events = append(s.events, event{Type: "content_block_stop", Index: &index})
}

// cutRunes cuts s after at most n bytes, but within no rune.
func cutRunes(s string, n int) (piece, rest string) {
	if len(s) <= n {
		return s, ""
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n], s[n:]
}

// fold makes the plain message of a stream, as a client would.
func fold(events []event) message {
	var m message
	var written strings.Builder
	for _, e := range events {
		switch e.Type {
		case "message_start":
			m = *e.Message
		case "content_block_start":
			m.Content = append(m.Content, *e.Block)
			written.Reset()
		case "content_block_delta":
			d := e.Delta
			written.WriteString(d.Text + d.Thinking)
			if d.PartialJSON != nil {
				written.WriteString(*d.PartialJSON)
			}
			if d.Signature != "" {
				m.Content[len(m.Content)-1].Signature = &d.Signature
			}
		case "content_block_stop":
			m.Content[len(m.Content)-1].seal(written.String())
		case "message_delta":
			m.StopReason = &e.Delta.StopReason
			m.Usage.update(*e.Usage)
		}
	}
	return m
}

// seal puts what the deltas said into a finished block.
func (b *block) seal(written string) {
	switch {
	case b.Text != nil:
		b.Text = &written
	case b.Thinking != nil:
		b.Thinking = &written
	case written != "":
		b.Input = json.RawMessage(written)
	}
}

// update takes over the figures of a message_delta, which replace and never add.
func (u *usage) update(end usage) {
	u.Input, u.Output = end.Input, end.Output
	u.CacheCreation, u.CacheRead = end.CacheCreation, end.CacheRead
}

// sign makes a signature that shows whose it is.
func (p *Provider) sign() string {
	return base64.StdEncoding.EncodeToString([]byte("demo:" + p.options.Name + ":" + p.id("sig")))
}

// signed reports whether a signature is this provider's own.
func (p *Provider) signed(signature string) bool {
	text, err := base64.StdEncoding.DecodeString(signature)
	return err == nil && strings.HasPrefix(string(text), "demo:"+p.options.Name+":")
}
