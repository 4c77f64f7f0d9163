package openaichat

import (
	"bytes"
	"slices"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// The pieces of a chunk by which plain content is known. A quote inside a string stands behind a backslash, so none of
// them can be the model's words.
var (
	bulkDelta   = []byte(`"delta":{"content":"`)
	bulkOpen    = []byte(`"finish_reason":null`)
	bulkUsage   = []byte(`"usage":`)
	bulkNoUsage = []byte(`null`)
	bulkError   = []byte(`"error":`)
)

// isBulk reports whether an event is a chunk of text and nothing else, as OpenAI's servers and most others write them.
func isBulk(event []byte) bool {
	i := bytes.Index(event, bulkDelta)
	if i < 0 {
		return false
	}
	rest := event[i+len(bulkDelta):]
	if len(rest) == 0 || rest[0] == '"' || !bytes.Contains(rest, bulkOpen) || bytes.Contains(event, bulkError) {
		return false
	}
	u := bytes.Index(event, bulkUsage)
	return u < 0 || bytes.HasPrefix(event[u+len(bulkUsage):], bulkNoUsage)
}

// keepAlive is a comment line without a blank one: that would make an event of nothing for some readers.
func keepAlive(bool) []byte { return []byte(": keep-alive\n") }

// plain reads a plain answer's usage and reason.
func plain(value func(name string) []byte) (u ir.Usage, reason string) {
	choices := value("choices")
	if isArray(choices) {
		_ = rawjson.Elements(choices, func(_ int, v []byte) error {
			u.Merge(usage(rawjson.Get(v, "usage")))
			if s, ok := rawjson.String(rawjson.Get(v, "finish_reason")); ok && reason == "" {
				reason = s
			}
			return nil
		})
	}
	u.Merge(usage(value("usage")))
	return u, reason
}

// maxKept bounds what a tap keeps of the first chunk's members, in bytes each.
const maxKept = 512

// tap follows a stream of chunks.
type tap struct {
	id, model, created []byte // of the first chunk, as they are written
	begun              bool
	finished           bool // a reason has been said
	done               bool // [DONE] has come
	function           bool // the deprecated function_call was used
	calls              []tapCall
}

// tapCall is how far a call's arguments have come.
type tapCall struct {
	choice, index int
	args          progress
}

// Mark tells what an event means.
func (t *tap) Mark(name, data []byte) ir.Mark {
	framed := data != nil
	data = bytes.TrimSpace(data)
	failed := string(name) == "error"
	switch {
	case framed && (len(data) == 0 || data[0] == ':'): // "data: : keepalive", as some gateways send
		return ir.Mark{Kind: ir.MarkNoise}
	case string(data) == done:
		t.done = true
		return ir.Mark{Kind: ir.MarkStop}
	case isObject(data):
		return t.chunk(data, failed)
	case failed:
		return broken(data)
	}
	return ir.Mark{}
}

func broken(data []byte) ir.Mark {
	f := fault(0, data)
	return ir.Mark{Kind: ir.MarkError, Fault: &f}
}

func (t *tap) chunk(data []byte, failed bool) (m ir.Mark) {
	var choices, message []byte
	err := rawjson.Walk(data, func(key []byte, f rawjson.Field) error {
		v := f.Value(data)
		switch string(key) {
		case "id":
			t.keep(&t.id, v)
		case "model":
			t.keep(&t.model, v)
		case "created":
			t.keep(&t.created, v)
		case "choices":
			choices = v
		case "usage":
			m.Usage.Merge(usage(v))
		case "x_groq":
			m.Usage.Merge(usage(rawjson.Get(v, "usage")))
		case "error":
			failed = failed || !isNull(v)
		case "object":
			failed = failed || string(v) == `"error"`
		case "message":
			message = v
		}
		return nil
	})
	if err != nil {
		return m
	}
	if failed || choices == nil && isString(message) {
		return broken(data)
	}
	if isArray(choices) {
		_ = rawjson.Elements(choices, func(i int, v []byte) error {
			if isObject(v) {
				t.choice(&m, i, v)
			}
			return nil
		})
	}
	return m
}

// keep copies a member of the first chunk, where it can stand in one of ours.
func (t *tap) keep(to *[]byte, v []byte) {
	if !t.begun && len(v) <= maxKept && (isString(v) || len(v) > 0 && v[0] >= '0' && v[0] <= '9') {
		*to = append((*to)[:0], v...)
	}
}

// choice reads what one choice adds to the mark.
func (t *tap) choice(m *ir.Mark, position int, raw []byte) {
	if !t.begun {
		t.begun = true
		m.Kind = ir.MarkStart
	}
	var delta, reason []byte
	_ = rawjson.Walk(raw, func(key []byte, f rawjson.Field) error {
		switch v := f.Value(raw); string(key) {
		case "index":
			if n, ok := rawjson.Int(v); ok {
				position = int(n)
			}
		case "delta", "message":
			delta = v
		case "finish_reason":
			reason = v
		case "text": // of /v1/completions, which has no deltas
			m.Content = m.Content || says(v)
		case "usage":
			m.Usage.Merge(usage(v))
		}
		return nil
	})
	if isObject(delta) {
		_ = rawjson.Walk(delta, func(key []byte, f rawjson.Field) error {
			t.member(m, position, key, f.Value(delta))
			return nil
		})
	}
	if m.Content && m.Kind != ir.MarkFinish {
		m.Kind = ir.MarkDelta
	}
	if s, ok := rawjson.String(reason); ok && s != "" {
		t.finished = true
		m.Kind, m.StopReason = ir.MarkFinish, s
	}
}

// member looks at a member of a delta: is it content?
func (t *tap) member(m *ir.Mark, choice int, key, v []byte) {
	switch string(key) {
	case "role":
	case "tool_calls":
		if isArray(v) {
			_ = rawjson.Elements(v, func(i int, v []byte) error {
				m.Content = true
				t.call(choice, i, v)
				return nil
			})
		}
	case "function_call":
		if isObject(v) {
			m.Content, t.function = true, true
			t.follow(choice, functionIndex, rawjson.Get(v, "arguments"))
		}
	default:
		m.Content = m.Content || says(v)
	}
}

// says reports whether a value holds anything: text that is not empty, an array or object with something in it.
func says(v []byte) bool {
	if len(v) == 0 {
		return false
	}
	switch v[0] {
	case '"', '[', '{':
		return len(bytes.TrimSpace(v[1:len(v)-1])) > 0 || v[0] == '"' && len(v) > 2
	}
	return false
}

// call follows a call's arguments.
func (t *tap) call(choice, position int, raw []byte) {
	if !isObject(raw) {
		return
	}
	index := position
	if n, ok := rawjson.Int(rawjson.Get(raw, "index")); ok && n >= 0 && n < 1<<20 {
		index = int(n)
	}
	t.follow(choice, index, rawjson.Get(rawjson.Get(raw, "function"), "arguments"))
}

func (t *tap) follow(choice, index int, args []byte) {
	i := slices.IndexFunc(t.calls, func(c tapCall) bool { return c.choice == choice && c.index == index })
	if i < 0 {
		if len(t.calls) == maxCalls {
			return
		}
		i = len(t.calls)
		t.calls = append(t.calls, tapCall{choice: choice, index: index})
	}
	if s, ok := rawjson.String(args); ok {
		t.calls[i].args.add(s)
	}
}

// Break appends the chunk that ends a broken stream.
func (t *tap) Break(dst []byte, f *ir.Fault, trace string) []byte { return appendFault(dst, f, trace) }

// Finish appends the reason that the provider left out: some end with [DONE] alone, and SDKs refuse an answer without a
// reason. Without [DONE] an answer is whole only if it is calls whose arguments are.
func (t *tap) Finish(dst []byte) (out []byte, reason string) {
	if !t.begun || t.finished {
		return nil, ""
	}
	reason = "stop"
	if len(t.calls) > 0 {
		reason = "tool_calls"
		if t.function {
			reason = "function_call"
		}
	}
	for i := range t.calls {
		if t.calls[i].args.cut() {
			reason = "length"
		}
	}
	if !t.done && (reason == "stop" || reason == "length") {
		return nil, ""
	}
	t.finished = true
	w := rawjson.Writer{Buf: append(dst, "data: "...)}
	w.Open('{')
	w.Member("id", t.id)
	w.Field("object", "chat.completion.chunk")
	w.Member("created", t.created)
	w.Member("model", t.model)
	w.Key("choices")
	w.Raw([]byte(`[{"index":0,"delta":{},"logprobs":null,"finish_reason":"` + reason + `"}]`))
	w.Close('}')
	out = append(w.Buf, "\n\n"...)
	if !t.done {
		out = append(out, "data: [DONE]\n\n"...)
	}
	return out, reason
}
