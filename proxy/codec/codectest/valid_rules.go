package codectest

import "slices"

// anthropicRules: message_start first and once; blocks with contiguous indices, strictly one after the other; deltas that
// fit their block; one message_delta behind all blocks; message_stop last; an error is terminal, too.
type anthropicRules struct {
	started, finished bool
	open              string // the type of the block that is open
	next              int64
	deltas            map[string]string
	signed            bool
	args              string
}

func newAnthropicRules() *anthropicRules {
	return &anthropicRules{deltas: map[string]string{"text_delta": "text", "input_json_delta": "tool_use", "thinking_delta": "thinking", "signature_delta": "thinking", "citations_delta": "text"}}
}

func (r *anthropicRules) frame(v *validator, f Frame) {
	n := JSON(f.Data)
	typ := n.At("type").Str()
	v.must(f.Name == typ && typ != "", "event %q has the type %q", f.Name, typ)
	v.must(r.started || typ == "message_start" || typ == "error", "%s before message_start", typ)
	switch typ {
	case "message_start":
		r.start(v, n.At("message"))
	case "content_block_start", "content_block_delta", "content_block_stop":
		v.must(!r.finished, "%s after message_delta", typ)
		r.block(v, typ, n)
	case "message_delta":
		v.must(r.open == "", "message_delta while a block is open")
		v.must(!r.finished, "a second message_delta")
		r.finished = true
		_, ok := n.At("usage.output_tokens").Int()
		v.must(ok, "message_delta without output_tokens")
		v.must(slices.Contains([]string{"end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn", "refusal", "model_context_window_exceeded"}, n.At("delta.stop_reason").Str()), "stop_reason %s", n.At("delta.stop_reason"))
		v.must(n.At("delta").Has("stop_sequence"), "no stop_sequence")
	case "message_stop":
		v.must(r.finished, "message_stop without message_delta")
		v.done = true
	case "error":
		v.must(n.At("error.type").Str() != "" && n.At("error.message").IsStr(), "error without type and message")
		v.must(v.x.Fault, "an error that none gave")
		v.done = true
	case "ping":
	default:
		v.bad("unknown event %q", typ)
	}
}

func (r *anthropicRules) start(v *validator, m Node) {
	v.must(!r.started, "a second message_start")
	r.started = true
	_, in := m.At("usage.input_tokens").Int()
	_, out := m.At("usage.output_tokens").Int()
	v.must(m.At("type").Str() == "message" && m.At("role").Str() == "assistant" && m.At("id").Str() != "" && m.At("model").Str() == Model, "message %s", m)
	v.must(m.At("content").IsList() && len(m.At("content").List()) == 0 && in && out && m.Has("stop_reason") && !m.At("stop_reason").Some() && m.Has("stop_sequence"), "message %s", m)
}

func (r *anthropicRules) block(v *validator, typ string, n Node) {
	index, ok := n.At("index").Int()
	v.must(ok && index == r.next, "%s with index %s, not %d", typ, n.At("index"), r.next)
	switch typ {
	case "content_block_start":
		v.must(r.open == "", "a block begins while one is open")
		b := n.At("content_block")
		r.open, r.signed, r.args = b.At("type").Str(), false, ""
		switch r.open {
		case "text":
			v.must(b.At("text").IsStr() && b.At("text").Str() == "", "text begins with %s", b)
		case "thinking":
			v.must(b.At("thinking").IsStr() && b.At("signature").IsStr(), "thinking begins with %s", b)
		case "tool_use":
			v.must(b.At("id").Str() != "" && b.At("name").Str() != "" && b.At("input").String() == "{}", "tool_use begins with %s", b)
			v.must(legalID(b.At("id").Str()), "id %s", b.At("id"))
		case "redacted_thinking":
			v.must(b.At("data").Str() != "", "redacted_thinking without data")
		default:
			v.bad("block of type %q", r.open)
		}
	case "content_block_delta":
		d := n.At("delta")
		kind := d.At("type").Str()
		v.must(r.open != "" && r.deltas[kind] == r.open, "%s in a block of type %q", kind, r.open)
		v.must(!r.signed, "a delta after the signature")
		r.signed = kind == "signature_delta"
		r.args += d.At("partial_json").Str()
	case "content_block_stop":
		v.must(r.open != "", "a stop without a block")
		v.must(r.open != "thinking" || r.signed, "thinking without a signature: it could not be sent back")
		r.open = ""
		r.next++
	}
}

func legalID(id string) bool {
	for _, c := range id {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return id != ""
}

// chatRules: the role in the first chunk; a call begins with id, type, name and empty arguments, calls are numbered without
// gaps; finish_reason once, behind all content; usage only where it was asked for; [DONE] last.
type chatRules struct {
	id       string
	chunks   int
	calls    []string // their types
	finished bool
	usage    bool
}

func (r *chatRules) frame(v *validator, f Frame) {
	v.must(f.Name == "", "an event with the name %q", f.Name)
	if string(f.Data) == "[DONE]" {
		v.must(r.finished, "[DONE] without a finish_reason")
		v.done = true
		return
	}
	n := JSON(f.Data)
	if n.Has("error") {
		v.must(n.At("error.message").IsStr() && n.At("error").Has("type") && n.At("error").Has("code") && n.At("error").Has("param"), "error %s", n)
		v.must(v.x.Fault, "an error that none gave")
		v.done = true
		return
	}
	v.must(n.At("object").Str() == "chat.completion.chunk" && n.At("id").Str() != "" && n.At("model").Str() == Model, "chunk %s", n)
	if r.chunks++; r.chunks == 1 {
		r.id = n.At("id").Str()
	}
	v.must(n.At("id").Str() == r.id, "the id changes")
	choices := n.At("choices").List()
	v.must(n.At("choices").IsList() && len(choices) <= 1, "choices %s", n.At("choices"))
	if len(choices) == 0 {
		v.must(v.x.Usage && n.At("usage").IsObject() && !r.usage && r.finished, "usage chunk %s", n)
		r.usage = true
		return
	}
	v.must(!v.x.Usage || n.Has("usage") && !n.At("usage").Some(), "a chunk without usage: null")
	v.must(v.x.Usage || !n.Has("usage"), "usage that none asked for")
	r.choice(v, choices[0])
}

func (r *chatRules) choice(v *validator, c Node) {
	d := c.At("delta")
	v.must(d.IsObject() && c.Has("finish_reason"), "choice %s", c)
	v.must(d.Has("role") == (r.chunks == 1), "role in chunk %d: %s", r.chunks, d)
	if c.At("finish_reason").Some() {
		v.must(!r.finished, "a second finish_reason")
		v.must(slices.Contains([]string{"stop", "length", "tool_calls", "content_filter"}, c.At("finish_reason").Str()), "finish_reason %s", c.At("finish_reason"))
		v.must(c.At("finish_reason").Str() != "tool_calls" || len(r.calls) > 0, "tool_calls without a call")
		r.finished = true
		return
	}
	v.must(!r.finished, "content after the finish_reason")
	for _, t := range d.At("tool_calls").List() {
		r.call(v, t)
	}
}

func (r *chatRules) call(v *validator, t Node) {
	i, ok := t.At("index").Int()
	if !ok || i < 0 || i > int64(len(r.calls)) {
		v.bad("call with the index %s after %d calls", t.At("index"), len(r.calls))
		return
	}
	member, input := "function", "arguments"
	if i == int64(len(r.calls)) {
		typ := t.At("type").Str()
		if r.calls = append(r.calls, typ); typ == "custom" {
			member, input = "custom", "input"
		}
		in := t.At(member + "." + input)
		v.must((typ == "function" || typ == "custom") && t.At("id").Str() != "" && t.At(member+".name").Str() != "", "a call begins with %s", t)
		v.must(in.IsStr() && in.Str() == "", "a call begins with arguments %s, not empty ones", in)
		return
	}
	if r.calls[i] == "custom" {
		member, input = "custom", "input"
	}
	v.must(!t.Has("id") && !t.Has("type") && !t.At(member).Has("name"), "a call is named again: %s", t)
	v.must(t.At(member+"."+input).IsStr(), "a piece without %s: %s", input, t)
}
