package codectest

import (
	"fmt"
	"slices"
	"strings"

	"coding-proxy/proxy/ir"
)

// AnswerLoss is something of an answer that a client's dialect cannot say.
type AnswerLoss struct {
	To    string // the client's dialect
	What  string
	Why   string
	Name  string // as which the encoder names it; "" = an equivalence
	Apply func(a *ir.Answer) bool
}

// AnswerLosses is the table. The order is that in which the rows apply.
func AnswerLosses() []AnswerLoss {
	reason := func(from, to ir.StopReason) func(a *ir.Answer) bool {
		return func(a *ir.Answer) bool { return a.Stop.Reason == from && set(&a.Stop.Reason, to) }
	}
	var rows []AnswerLoss
	all := func(what, why, name string, apply func(a *ir.Answer) bool, to ...string) {
		for _, d := range to {
			rows = append(rows, AnswerLoss{d, what, why, name, apply})
		}
	}
	all("citations", "5.3 citations", "citations", noCitations, anthropic, chat, responses, gemini)
	all("calls of hosted tools", "5.2 server tools", "opaque.server_tool_use", noHosted, anthropic, chat, responses, gemini)
	all("refusals in words are text", "5.3 safety/refusal", "", refusalText, anthropic, gemini)
	all("signatures", "5.4: Chat has no slot, the proxy remembers by call id", "", noStates, chat)
	all("the state of a call in reasoning of its own right before it", "5.4 carrier rules", "", stateBefore, anthropic, responses)
	all("parts of reasoning are joined by a blank line", "5.4 reasoning text placement", "", joinParts, anthropic, chat, gemini)
	all("reasoning, text, calls: in this order", "5.9 text after tool call", "", reorder, chat)
	all("neighbours that are text", "4.5: text chunks concatenate", "", joinTexts, gemini, chat)
	all("a call that was cut must not be made", "5.3: truncated inside a call; CNV-036", "functionCall", cutCall, gemini)
	all("which stop sequence it was", "5.3 stop string", "", func(a *ir.Answer) bool {
		return a.Stop.Reason == ir.StopSequence && set(&a.Stop.Sequence, "") && set(&a.Stop.Reason, ir.StopEnd)
	}, chat, responses, gemini)
	all("a full context is the limit of output", "5.3 context full", "", reason(ir.StopContext, ir.StopLength), chat, responses, gemini)
	all("a pause is an end", "5.3 paused server loop", "", reason(ir.StopPause, ir.StopEnd), chat, responses, gemini)
	all("what was written to the cache is input", "5.6: cache-write does not survive G", "", func(a *ir.Answer) bool {
		a.Usage.Input += a.Usage.CacheCreation
		return set(&a.Usage.CacheCreation, 0)
	}, gemini)
	return rows
}

// LoseAnswer applies the table to a copy of the answer. It returns the names of what is lost.
func LoseAnswer(a *ir.Answer, to string) (*ir.Answer, []string) {
	c := *a
	c.Blocks = slices.Clone(a.Blocks)
	for i := range c.Blocks { // every dialect mints ids that the upstream left out
		if b := &c.Blocks[i]; b.Kind == ir.ToolCall && b.ID == "" {
			b.ID = fmt.Sprint("minted ", i)
		}
	}
	var names []string
	for _, l := range AnswerLosses() {
		if l.To == to && l.Apply(&c) && l.Name != "" {
			names = append(names, l.Name)
		}
	}
	return &c, names
}

// AnswerLossTable is the table as text.
func AnswerLossTable() string {
	var b strings.Builder
	b.WriteString("\nWhat a client's dialect cannot say of an answer (proxy/codec/codectest/answerlosses.go):\n\n")
	for _, l := range AnswerLosses() {
		how := "silent"
		if l.Name != "" {
			how = "named"
		}
		fmt.Fprintf(&b, "%-16s    %-16s  %-6s  %s (%s)\n", "any ->", l.To, how, l.What, l.Why)
	}
	return b.String()
}

func noCitations(a *ir.Answer) (changed bool) {
	for i := range a.Blocks {
		changed = changed || len(a.Blocks[i].Citations) > 0
		a.Blocks[i].Citations = nil
	}
	return changed
}

func noHosted(a *ir.Answer) bool {
	n := len(a.Blocks)
	a.Blocks = slices.DeleteFunc(a.Blocks, func(b ir.Block) bool {
		return b.Kind == ir.HostedCall || b.Kind == ir.HostedResult || b.Kind == ir.Opaque
	})
	return len(a.Blocks) < n
}

func cutCall(a *ir.Answer) bool {
	n := len(a.Blocks)
	if n == 0 || a.Stop.Reason != ir.StopLength || a.Blocks[n-1].Kind != ir.ToolCall || JSON([]byte(Args(&a.Blocks[n-1]))).IsObject() {
		return false
	}
	a.Blocks = a.Blocks[:n-1]
	return true
}

func refusalText(a *ir.Answer) (changed bool) {
	for i := range a.Blocks {
		if a.Blocks[i].Kind == ir.Refusal {
			a.Blocks[i].Kind, changed = ir.Text, true
		}
	}
	return changed
}

func noStates(a *ir.Answer) (changed bool) {
	for i := range a.Blocks {
		b := &a.Blocks[i]
		changed = changed || b.State != nil
		if b.State = nil; b.Kind == ir.Thinking {
			b.State = &ir.State{Owner: Owner} // that it came unsigned
		}
	}
	a.Blocks = slices.DeleteFunc(a.Blocks, func(b ir.Block) bool { return b.Kind == ir.Thinking && b.Text == "" })
	return changed
}

func stateBefore(a *ir.Answer) bool {
	n := len(a.Blocks)
	for i := 0; i < len(a.Blocks); i++ {
		if b := &a.Blocks[i]; b.Kind == ir.ToolCall && b.State != nil {
			state := b.State
			b.State = nil
			a.Blocks = slices.Insert(a.Blocks, i, ir.Block{Kind: ir.Thinking, State: state})
			i++
		}
	}
	return len(a.Blocks) > n
}

func joinParts(a *ir.Answer) (changed bool) {
	for i := range a.Blocks {
		b := &a.Blocks[i]
		for j := len(b.Breaks) - 1; j >= 0; j-- {
			b.Text = b.Text[:b.Breaks[j]] + "\n\n" + b.Text[b.Breaks[j]:]
		}
		changed = changed || len(b.Breaks) > 0
		b.Breaks = nil
	}
	return changed
}

// ClientFold is what a client of the dialect makes of a stream: a Chat client has one text, one reasoning and calls, in
// whatever order the pieces came.
func ClientFold(a *ir.Answer, dialect string) *ir.Answer {
	if dialect != chat {
		return a
	}
	c := *a
	c.Blocks = slices.Clone(a.Blocks)
	for i := range c.Blocks {
		if b := &c.Blocks[i]; b.Kind == ir.Thinking && i > 0 {
			b.Text = strings.TrimPrefix(b.Text, "\n\n") // which reorder puts in
		}
	}
	reorder(&c)
	joinTexts(&c)
	return &c
}

// reorder puts reasoning into one block at the beginning and calls at the end.
func reorder(a *ir.Answer) bool {
	before := slices.Clone(a.Blocks)
	rank := func(b ir.Block) int {
		switch b.Kind {
		case ir.Thinking:
			return 0
		case ir.ToolCall:
			return 2
		}
		return 1
	}
	slices.SortStableFunc(a.Blocks, func(x, y ir.Block) int { return rank(x) - rank(y) })
	for i := 1; i < len(a.Blocks); i++ {
		if a.Blocks[i].Kind == ir.Thinking {
			a.Blocks[0].Text += "\n\n" + a.Blocks[i].Text
			a.Blocks = slices.Delete(a.Blocks, i, i+1)
			i--
		}
	}
	return len(before) != len(a.Blocks)
}

func joinTexts(a *ir.Answer) (changed bool) {
	for i := 1; i < len(a.Blocks); i++ {
		if x, y := &a.Blocks[i-1], a.Blocks[i]; x.Kind == ir.Text && y.Kind == ir.Text && x.State == nil {
			x.Text += y.Text
			x.State = y.State
			a.Blocks = slices.Delete(a.Blocks, i, i+1)
			i--
			changed = true
		}
	}
	return changed
}
