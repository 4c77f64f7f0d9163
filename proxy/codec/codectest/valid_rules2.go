package codectest

import (
	"slices"
	"strings"
)

// responsesRules: sequence numbers without gaps from 0; created, in_progress, items, one terminal event; each item and part
// added once and done once, with the same identity; the texts of done events are the sum of the deltas; the terminal event
// repeats all items and has both details of the usage.
type responsesRules struct {
	sequence int64
	id       string
	begun    int
	items    []*item
}

// item is an output item.
type item struct {
	id, typ, call string
	done          bool
	full          string // as it was when it was done
	text          map[string]string
	open          map[string]bool // parts
	told          map[string]bool // texts that are done
}

func newResponsesRules() *responsesRules { return &responsesRules{} }

func (r *responsesRules) frame(v *validator, f Frame) {
	n := JSON(f.Data)
	typ := n.At("type").Str()
	v.must(f.Name == typ && typ != "", "event %q has the type %q", f.Name, typ)
	if typ == "keepalive" {
		return
	}
	seq, ok := n.At("sequence_number").Int()
	v.must(ok && seq == r.sequence, "%s has the sequence number %s, not %d", typ, n.At("sequence_number"), r.sequence)
	r.sequence++
	switch typ {
	case "response.created", "response.in_progress":
		v.must(r.begun == map[string]int{"response.created": 0, "response.in_progress": 1}[typ], "%s out of order", typ)
		if r.begun++; r.begun == 1 {
			r.id = n.At("response.id").Str()
		}
		r.response(v, n.At("response"), "in_progress")
	case "response.completed", "response.incomplete", "response.failed":
		r.terminal(v, strings.TrimPrefix(typ, "response."), n.At("response"))
		v.done = true
	case "response.output_item.added":
		r.added(v, n)
	default:
		r.ofItem(v, typ, n)
	}
	v.must(r.begun == 2 || r.begun == 1 && typ == "response.created", "%s before response.in_progress", typ)
}

func (r *responsesRules) response(v *validator, n Node, status string) {
	v.must(n.At("id").Str() == r.id && r.id != "" && n.At("object").Str() == "response", "response %s", n.At("id"))
	v.must(n.At("status").Str() == status, "status %s, not %s", n.At("status"), status)
	v.must(n.At("model").Str() == Model && n.At("output").IsList() && n.Has("usage") && n.Has("error") && n.Has("incomplete_details"), "response lacks members: %.300s", n)
}

func (r *responsesRules) added(v *validator, n Node) {
	i, ok := n.At("output_index").Int()
	v.must(ok && i == int64(len(r.items)), "item added at %s, not %d", n.At("output_index"), len(r.items))
	it := n.At("item")
	v.must(it.At("id").Str() != "" && it.At("type").Str() != "", "item %s", it)
	for _, o := range r.items {
		v.must(o.id != it.At("id").Str(), "two items have the id %s", o.id)
	}
	r.items = append(r.items, &item{
		id: it.At("id").Str(), typ: it.At("type").Str(), call: it.At("call_id").Str(),
		text: map[string]string{}, open: map[string]bool{}, told: map[string]bool{},
	})
}

func (r *responsesRules) ofItem(v *validator, typ string, n Node) {
	i, ok := n.At("output_index").Int()
	if !ok || i < 0 || i >= int64(len(r.items)) {
		v.bad("%s for an item that was never added: %s", typ, n.At("output_index"))
		return
	}
	it := r.items[i]
	v.must(!it.done, "%s for an item that is done", typ)
	if typ == "response.output_item.done" {
		r.itemDone(v, it, n.At("item"))
		return
	}
	v.must(n.At("item_id").Str() == it.id, "%s has the id %s, not %s", typ, n.At("item_id"), it.id)
	name := strings.TrimPrefix(typ, "response.")
	part := n.At("content_index").String() + "/" + n.At("summary_index").String()
	switch {
	case name == "content_part.added" || name == "reasoning_summary_part.added":
		v.must(!it.open[part], "a part is added twice")
		it.open[part] = true
	case name == "content_part.done" || name == "reasoning_summary_part.done":
		v.must(it.open[part] && it.told[part], "a part is done that was not: %s", part)
		text := n.At("part.text").Str() + n.At("part.refusal").Str()
		v.must(text == it.text[part], "a part's text differs from its deltas: %q, %q", text, it.text[part])
	case strings.HasSuffix(name, ".delta"):
		v.must(n.At("delta").IsStr() && n.At("delta").Str() != "", "%s without a piece", typ)
		v.must(isArguments(name) || it.open[part], "%s for no part", typ)
		it.text[part] += n.At("delta").Str()
	case strings.HasSuffix(name, ".done"):
		v.must(!it.told[part], "%s twice", typ)
		it.told[part] = true
		text := n.At("text").Str() + n.At("refusal").Str() + n.At("arguments").Str() + n.At("input").Str()
		v.must(text == it.text[part] || it.text[part] == "" && text == "{}", "%s has %q, its deltas %q", typ, text, it.text[part])
	case name == "output_text.annotation.added":
		v.must(it.open[part] && n.At("annotation").IsObject(), "annotation %s", n)
	default:
		v.bad("unknown event %q", typ)
	}
}

func isArguments(name string) bool {
	return strings.HasPrefix(name, "function_call_arguments.") || strings.HasPrefix(name, "custom_tool_call_input.")
}

func (r *responsesRules) itemDone(v *validator, it *item, n Node) {
	it.done, it.full = true, n.String()
	v.must(n.At("id").Str() == it.id && n.At("type").Str() == it.typ && n.At("call_id").Str() == it.call, "an item changed its identity: %s", n)
	switch it.typ {
	case "function_call":
		v.must(n.At("call_id").Str() != "" && n.At("name").Str() != "" && n.At("arguments").IsStr() && it.told["null/null"], "function_call %s", n)
	case "custom_tool_call":
		v.must(n.At("call_id").Str() != "" && n.At("name").Str() != "" && n.At("input").IsStr() && it.told["null/null"], "custom_tool_call %s", n)
	case "message":
		v.must(n.At("role").Str() == "assistant" && len(n.At("content").List()) == len(it.open), "message %s", n)
	case "reasoning":
		v.must(n.At("summary").IsList() && len(n.At("summary").List()) == len(it.open), "reasoning %s", n)
	}
}

func (r *responsesRules) terminal(v *validator, status string, n Node) {
	r.response(v, n, status)
	if status == "failed" {
		v.must(v.x.Fault, "response.failed that none gave")
		v.must(n.At("error.code").Str() != "" && n.At("error.message").IsStr(), "error %s", n.At("error"))
		return
	}
	output := n.At("output").List()
	v.must(len(output) == len(r.items), "the terminal event has %d items of %d", len(output), len(r.items))
	for i, it := range r.items {
		v.must(it.done, "item %d is not done at the end", i)
		v.must(i < len(output) && output[i].String() == it.full, "item %d differs in the terminal event", i)
	}
	u := n.At("usage")
	_, cached := u.At("input_tokens_details.cached_tokens").Int()
	_, reasoning := u.At("output_tokens_details.reasoning_tokens").Int()
	in, _ := u.At("input_tokens").Int()
	out, _ := u.At("output_tokens").Int()
	total, ok := u.At("total_tokens").Int()
	v.must(cached && reasoning && ok && in+out == total, "usage %s", u)
	v.must((status == "incomplete") == n.At("incomplete_details.reason").Some(), "incomplete_details %s", n.At("incomplete_details"))
}

// geminiRules: one candidate in each chunk, parts with one data field each; finishReason in the last chunk that has content;
// the same responseId and the model in all. A stream ends with its body.
type geminiRules struct {
	id     string
	chunks int
}

func (r *geminiRules) frame(v *validator, f Frame) {
	v.must(f.Name == "", "an event with the name %q", f.Name)
	n := JSON(f.Data)
	v.must(!n.Has("error"), "an error chunk: the client would print the text again")
	if r.chunks++; r.chunks == 1 {
		r.id = n.At("responseId").Str()
	}
	v.must(n.At("responseId").Str() == r.id && r.id != "" && n.At("modelVersion").Str() == Model, "chunk %.300s", n)
	c := n.At("candidates").List()
	v.must(len(c) == 1, "candidates %s", n.At("candidates"))
	if len(c) != 1 {
		return
	}
	v.must(c[0].At("content.role").Str() == "model" && c[0].At("content.parts").IsList(), "content %s", c[0].At("content"))
	for _, p := range c[0].At("content.parts").List() {
		fields := 0
		for _, name := range []string{"text", "inlineData", "functionCall"} {
			if p.Has(name) {
				fields++
			}
		}
		v.must(fields == 1, "a part with %d data fields: %s", fields, p)
		if p.Has("functionCall") {
			v.must(p.At("functionCall.name").Str() != "" && p.At("functionCall.args").IsObject(), "functionCall %s", p)
		}
	}
	if c[0].At("finishReason").Some() {
		v.must(slices.Contains([]string{"STOP", "MAX_TOKENS", "SAFETY"}, c[0].At("finishReason").Str()), "finishReason %s", c[0].At("finishReason"))
		u := n.At("usageMetadata")
		total, _ := u.At("totalTokenCount").Int()
		sum := int64(0)
		for _, name := range []string{"promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "toolUsePromptTokenCount"} {
			x, _ := u.At(name).Int()
			sum += x
		}
		v.must(!u.Some() || sum == total, "usageMetadata %s", u)
		if !v.array {
			v.done = true
		}
	}
}
