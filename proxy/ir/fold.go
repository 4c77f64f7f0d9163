package ir

import "errors"

// ErrTooLong says that an answer is longer than is kept.
var ErrTooLong = errors.New("the answer is too long")

// Fold makes a whole answer of its events. The zero Fold with a Limit is ready.
type Fold struct {
	Limit int // bytes that are kept

	answer Answer
	text   []textOf // beside answer.Blocks: what has come of each
	size   int
	fault  *Fault
	ended  bool
}

// textOf gathers a block's text.
type textOf struct{ text, cites []byte }

// Add takes the next event. Errors: ErrTooLong.
func (f *Fold) Add(e *Event) error {
	a := &f.answer
	switch e.Kind {
	case EventStart:
		a.ID, a.Model = e.ID, e.Model
	case EventBlock:
		for len(a.Blocks) <= e.Block {
			a.Blocks, f.text = append(a.Blocks, Block{}), append(f.text, textOf{})
		}
		a.Blocks[e.Block] = *e.Start
		f.size += len(e.Start.Raw) + len(e.Start.Media.Data)
	case EventDelta:
		t := &f.text[e.Block]
		t.text = append(t.text, e.Text...)
		f.size += len(e.Text)
	case EventBreak:
		b := &a.Blocks[e.Block]
		b.Breaks = append(b.Breaks, len(f.text[e.Block].text))
		f.size += 8
	case EventState:
		a.Blocks[e.Block].State = e.State
		f.size += len(e.State.Data)
	case EventCite:
		t := &f.text[e.Block]
		t.cites = append(append(t.cites, ','), e.Raw...)
		f.size += len(e.Raw)
	case EventClose:
		f.close(e.Block)
	case EventUsage:
		a.Usage.Merge(e.Usage)
	case EventFinish:
		a.Stop = e.Stop
	case EventFault:
		f.fault = e.Fault
	case EventEnd:
		f.ended = true
	}
	if f.size > f.Limit {
		return ErrTooLong
	}
	return nil
}

func (f *Fold) close(n int) {
	b, t := &f.answer.Blocks[n], &f.text[n]
	if b.Kind == ToolCall {
		b.Args = string(t.text)
	} else {
		b.Text = string(t.text)
	}
	if len(t.cites) > 0 {
		t.cites[0] = '['
		b.Citations = append(t.cites, ']')
	}
	*t = textOf{}
}

// Answer returns what the events made: the answer, or the fault with which it ended. ok is false while it has not ended.
func (f *Fold) Answer() (a *Answer, fault *Fault, ok bool) {
	return &f.answer, f.fault, f.ended || f.fault != nil
}

// Unfold appends the events that make the answer, one delta a block: what a client that asked for a stream gets where
// the upstream answered at once.
func Unfold(dst []Event, a *Answer) []Event {
	dst = append(dst, Event{Kind: EventStart, ID: a.ID, Model: a.Model})
	for i := range a.Blocks {
		b := a.Blocks[i]
		text := b.Text
		if b.Kind == ToolCall {
			text = b.Args
		}
		breaks, cites, state := b.Breaks, b.Citations, b.State
		b.Text, b.Args, b.Breaks, b.Citations = "", "", nil, nil
		if b.Kind != ToolCall {
			b.State = nil // of a call it is known at its beginning
		}
		dst = append(dst, Event{Kind: EventBlock, Block: i, Start: &b})
		at := 0
		for _, n := range breaks {
			dst = delta(dst, i, text[at:n])
			dst = append(dst, Event{Kind: EventBreak, Block: i})
			at = n
		}
		dst = delta(dst, i, text[at:])
		dst = unfoldCites(dst, i, cites)
		if state != nil && b.Kind != ToolCall {
			dst = append(dst, Event{Kind: EventState, Block: i, State: state})
		}
		dst = append(dst, Event{Kind: EventClose, Block: i})
	}
	dst = append(dst, Event{Kind: EventUsage, Usage: a.Usage})
	return append(dst, Event{Kind: EventFinish, Stop: a.Stop}, Event{Kind: EventEnd})
}

func delta(dst []Event, n int, text string) []Event {
	if text == "" {
		return dst
	}
	return append(dst, Event{Kind: EventDelta, Block: n, Text: text})
}

// unfoldCites cuts an array of citations into its elements.
func unfoldCites(dst []Event, n int, cites []byte) []Event {
	depth, from, inString, escaped := 0, 0, false, false
	for i, c := range cites {
		switch {
		case escaped:
			escaped = false
		case inString:
			escaped = c == '\\'
			inString = c != '"'
		case c == '"':
			inString = true
		case c == '{' || c == '[':
			if depth++; depth == 2 {
				from = i
			}
		case c == '}' || c == ']':
			if depth--; depth == 1 {
				dst = append(dst, Event{Kind: EventCite, Block: n, Raw: cites[from : i+1]})
			}
		}
	}
	return dst
}
