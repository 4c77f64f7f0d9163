package gemini

import "coding-proxy/proxy/ir"

// outPart is a block of a content, with the call that it belongs to.
type outPart struct {
	*ir.Block
	call *ir.Pair // of calls and results
	data string   // the signature that goes with it
	text string   // of a Text: instead of the block's own
}

// outContent becomes one content on the wire.
type outContent struct {
	role    ir.Role // User or Assistant
	results bool    // holds functionResponses, and then nothing else (case 40)
	parts   []outPart
}

// arrangement makes contents of the client's turns as the API wants them: user and model in turn, the user first, the
// results of a model's calls in one content right behind them, in their number and order.
type arrangement struct {
	e       *encoding
	pairs   *ir.Pairing
	waiting []*ir.Pair // calls of the last content
	out     []outContent
}

func (e *encoding) arrange() []outContent {
	a := &arrangement{e: e, pairs: ir.NewPairing(e.r.Turns, callIDs()), out: make([]outContent, 0, 2*len(e.r.Turns))}
	for i := range e.r.Turns {
		t := &e.r.Turns[i]
		if t.Phase != "" {
			e.r.Lose(ir.FieldPhase)
		}
		if t.Role == ir.Assistant {
			a.assistant(t)
		} else {
			a.settle()
			a.user(t)
		}
	}
	return a.finish()
}

// add appends a part to the last content if that has the role, else to a new one.
func (a *arrangement) add(role ir.Role, p outPart) {
	if role == ir.User {
		a.settle()
	}
	if n := len(a.out); n == 0 || a.out[n-1].role != role || a.out[n-1].results {
		a.out = append(a.out, outContent{role: role})
	}
	last := &a.out[len(a.out)-1]
	last.parts = append(last.parts, p)
}

// assistant adds what the model said. A result that stands in its turn is found by its call all the same.
func (a *arrangement) assistant(t *ir.Turn) {
	for j := range t.Blocks {
		switch b := &t.Blocks[j]; b.Kind {
		case ir.ToolCall:
			c := a.pairs.Of(b)
			data, ok := b.State.For(a.e.t.Owner)
			if !ok && b.State != nil {
				a.e.r.Lose(ir.FieldThinking)
			}
			a.add(ir.Assistant, outPart{Block: b, call: c, data: data})
			a.waiting = append(a.waiting, c)
		case ir.ToolResult:
			a.orphan(b)
		case ir.Thinking:
			if data, ok := b.State.For(a.e.t.Owner); ok && !b.State.Redacted && (data != "" || b.Text != "") {
				a.add(ir.Assistant, outPart{Block: b, data: data})
			} else {
				a.e.r.Lose(ir.FieldThinking)
			}
		default:
			a.plain(ir.Assistant, b)
		}
	}
}

// user adds what the user, or an instruction in the middle, says. The latter has no role here: it is marked as a
// reminder at its place, never hoisted.
func (a *arrangement) user(t *ir.Turn) {
	for j := range t.Blocks {
		switch b := &t.Blocks[j]; {
		case b.Kind == ir.ToolResult:
			a.orphan(b)
		case b.Kind == ir.Thinking:
			a.e.r.Lose(ir.FieldThinking)
		case b.Kind == ir.ToolCall: // no dialect has calls of the user's; the model's turn is where they can stand
			a.assistant(&ir.Turn{At: t.At, Blocks: t.Blocks[j : j+1]})
		case b.Kind == ir.Text && b.Text != "" && t.Role != ir.User:
			a.cache(b)
			a.add(ir.User, outPart{Block: b, text: "<system-reminder>\n" + b.Text + "\n</system-reminder>"})
		default:
			a.plain(ir.User, b)
		}
	}
}

func (a *arrangement) cache(b *ir.Block) {
	if b.Cache != nil {
		a.e.r.Lose(ir.FieldCacheMark)
	}
}

// plain adds what is neither call nor result nor reasoning, unless it is empty.
func (a *arrangement) plain(role ir.Role, b *ir.Block) {
	a.cache(b)
	p := outPart{Block: b}
	switch b.Kind {
	case ir.Text, ir.Refusal:
		data, ok := b.State.For(a.e.t.Owner)
		if !ok && b.State != nil {
			a.e.r.Lose(ir.FieldThinking)
		}
		if p.data = data; b.Text == "" && data == "" {
			return
		}
		if len(b.Citations) > 0 {
			a.e.r.Lose(ir.FieldCitations)
		}
	case ir.HostedCall, ir.HostedResult, ir.Opaque:
		if !a.e.own || len(b.Raw) == 0 {
			a.e.r.LosePath(b.LostName())
			return
		}
	case ir.Image, ir.Document, ir.Audio, ir.Video:
		if b.Media == (ir.Media{}) && b.Text == "" {
			return
		}
	}
	a.add(role, p)
}

// orphan says a result without a call as the user's text.
func (a *arrangement) orphan(b *ir.Block) {
	if !a.pairs.Orphan(b) {
		return
	}
	a.cache(b)
	head := "[result of an earlier tool call]"
	if b.Name != "" {
		head = "[result of an earlier call of " + b.Name + "]"
	}
	a.settle()
	a.add(ir.User, outPart{Block: &ir.Block{Kind: ir.Text, Text: head}})
	for i := range b.Content {
		if c := &b.Content[i]; c.Kind == ir.Opaque {
			a.add(ir.User, outPart{Block: &ir.Block{Kind: ir.Text, Text: string(c.Raw)}})
		} else {
			a.plain(ir.User, c)
		}
	}
}

// settle adds the results of the calls that wait, behind them. It is called where the conversation goes on. Calls come
// last in their content, so that the results follow straight (CNV-012).
func (a *arrangement) settle() {
	if len(a.waiting) == 0 {
		return
	}
	callsLast(a.out[len(a.out)-1].parts)
	results := outContent{role: ir.User, results: true}
	var media []outPart
	for _, c := range a.waiting {
		r := c.Result
		if r == nil {
			r = &ir.Block{Kind: ir.ToolResult, IsError: true, Content: []ir.Block{{Kind: ir.Text, Text: ir.NoResult}}}
		}
		a.cache(r)
		results.parts = append(results.parts, outPart{Block: r, call: c})
		if !a.e.f.resultMedia() {
			media = a.media(media, c, r)
		}
	}
	a.waiting = a.waiting[:0]
	a.out = append(a.out, results)
	for _, p := range media {
		a.add(ir.User, p)
	}
}

// media appends the images of a result that cannot hold them itself: they follow in a content of their own (case 40).
func (a *arrangement) media(dst []outPart, c *ir.Pair, r *ir.Block) []outPart {
	labelled := false
	for i := range r.Content {
		b := &r.Content[i]
		if !isMedia(b) {
			continue
		}
		if !labelled {
			labelled = true
			label := "[attached to the result of " + a.e.book.Wire(c.Call.ToolName) + " (" + c.ID + ")]"
			dst = append(dst, outPart{Block: &ir.Block{Kind: ir.Text, Text: label}})
		}
		dst = append(dst, outPart{Block: b})
	}
	return dst
}

// isMedia reports whether a block goes as inlineData.
func isMedia(b *ir.Block) bool {
	switch b.Kind {
	case ir.Image, ir.Audio, ir.Video:
		return true
	case ir.Document:
		return b.Text == ""
	}
	return false
}

// callsLast moves the calls behind everything else, in their order.
func callsLast(parts []outPart) {
	mixed, called := false, false
	for i := range parts {
		if parts[i].Kind == ir.ToolCall {
			called = true
		} else if called && parts[i].Kind != ir.Thinking {
			mixed = true
		}
	}
	if !mixed {
		return
	}
	sorted := make([]outPart, 0, len(parts))
	for _, calls := range [...]bool{false, true} {
		for i := range parts {
			if parts[i].Kind == ir.ToolCall == calls {
				sorted = append(sorted, parts[i])
			}
		}
	}
	copy(parts, sorted)
}

// finish puts a user's turn before a conversation that begins with the model's, and behind one whose last turn was the
// user's but had nothing to say.
func (a *arrangement) finish() []outContent {
	filler := outContent{role: ir.User, parts: []outPart{{Block: &ir.Block{Kind: ir.Text, Text: blank}}}}
	if len(a.waiting) > 0 {
		callsLast(a.out[len(a.out)-1].parts)
	}
	if len(a.out) == 0 || a.out[0].role == ir.Assistant {
		a.out = append([]outContent{filler}, a.out...)
	}
	if n := len(a.e.r.Turns); n > 0 && a.e.r.Turns[n-1].Role != ir.Assistant && a.out[len(a.out)-1].role == ir.Assistant {
		a.out = append(a.out, filler)
	}
	if a.e.f.signs() {
		sign(a.out)
	}
	return a.out
}

// sign gives the placeholder to the calls of a content whose first call has no signature: those of another provider. Of
// calls made at once the first alone is signed.
func sign(contents []outContent) {
	for i := range contents {
		first := true
		for j := range contents[i].parts {
			p := &contents[i].parts[j]
			if p.Kind != ir.ToolCall {
				continue
			}
			if first && p.data != "" {
				break
			}
			if first = false; p.data == "" {
				p.data = placeholder
			}
		}
	}
}
