package demo

import (
	"encoding/json"
	"net/http"
	"strings"
)

// generate answers a Messages request.
func (p *Provider) generate(a *answer, body []byte) {
	query, refused := p.parse(body, a.r.Header, messagesEndpoint)
	if refused != nil {
		a.refuse(refused)
		return
	}
	step := p.next()
	events := p.events(step, query)
	whole := &reply{stream: query.Stream, plain: fold(events)}
	for _, e := range events {
		whole.events = append(whole.events, named(e.Type, encode(e)))
	}
	whole.failure = func(f *refusal, _ int) []byte { return named("error", encode(f.envelope(a.requestID))) }
	a.give(step, whole)
}

func (p *Provider) countTokens(a *answer, body []byte) {
	if _, refusal := p.parse(body, a.r.Header, countEndpoint); refusal != nil {
		a.refuse(refusal)
		return
	}
	a.json(http.StatusOK, struct {
		InputTokens int `json:"input_tokens"`
	}{tokens(len(body))})
}

// events turns a step into the events of a whole stream. A plain answer is their fold.
func (p *Provider) events(step Step, q *query) []event {
	o := p.outline(step, q.size, "toolu")
	s := script{pings: step.Pings + 1}
	switch {
	case step.Thinking == "":
	case step.Redacted:
		s.block(block{Type: "redacted_thinking", Data: p.seal(sealRedacted, "")}, nil)
	default:
		s.thinking(step.Thinking, p.seal(sealThinking, step.Thinking), q.omitsThinking())
	}
	if o.text != "" {
		s.text(o.text)
	}
	for _, tool := range o.tools {
		s.tool(tool)
	}
	start, end := figures(o.usage)
	events := make([]event, 0, len(s.events)+3)
	events = append(events, event{Type: "message_start", Message: &message{
		ID: p.id("msg"), Type: "message", Role: "assistant", Model: q.Model, Content: []block{}, Usage: start,
	}})
	events = append(events, s.events...)
	if step.Break != NoFinish {
		events = append(events, event{Type: "message_delta", Delta: &delta{StopReason: o.stop, StopSequence: json.RawMessage("null")}, Usage: &end})
	}
	return append(events, event{Type: "message_stop"})
}

// figures are the usage of message_start and of message_delta.
func figures(u Usage) (start, end usage) {
	end = usage{Input: u.Input, CacheCreation: u.CacheCreation, CacheRead: u.CacheRead, Output: u.Output}
	start = end
	start.Output = 1 // the API counts the first token here
	start.CacheByTTL = &cacheCreation{FiveMinutes: u.CacheCreation}
	start.ServiceTier = "standard"
	if u.Reasoning > 0 {
		end.OutputDetails = &outputDetails{u.Reasoning}
	}
	return start, end
}

// script gathers the events of the content blocks.
type script struct {
	events []event
	index  int // of the next block
	pings  int // still to be written, after the first block's start
}

func (s *script) text(text string) {
	var deltas []delta
	for _, word := range words(text) {
		deltas = append(deltas, delta{Type: "text_delta", Text: word})
	}
	s.block(block{Type: "text", Text: new(string)}, deltas)
}

// thinking leaves the text out if the client asked for that; it is paid for all the same.
func (s *script) thinking(text, signature string, omit bool) {
	var deltas []delta
	if !omit {
		deltas = append(deltas, delta{Type: "thinking_delta", Thinking: text})
	}
	deltas = append(deltas, delta{Type: "signature_delta", Signature: signature})
	s.block(block{Type: "thinking", Thinking: new(string), Signature: new(string)}, deltas)
}

func (s *script) tool(tool Tool) {
	deltas := []delta{{Type: "input_json_delta", PartialJSON: new(string)}} // the API begins with an empty piece
	for _, piece := range pieces(tool.input()) {
		deltas = append(deltas, delta{Type: "input_json_delta", PartialJSON: &piece})
	}
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
	u.OutputDetails = end.OutputDetails
}
