package openaichat

import (
	"strings"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// reasoningParts are the forms in which vendors send reasoning, in a message or a delta, in the order of preference. Each
// may be a string, an object or an array (facts/protocols.md, 2.5).
type reasoningParts struct {
	content, reasoning, copilot, details []byte
	opaque                               []byte // Copilot's reasoning_opaque
}

// take keeps a member that is one of them.
func (p *reasoningParts) take(key string, v []byte) bool {
	switch key {
	case "reasoning_content":
		p.content = v
	case "reasoning":
		p.reasoning = v
	case "reasoning_text":
		p.copilot = v
	case "reasoning_details":
		p.details = v
	case "reasoning_opaque":
		p.opaque = v
	default:
		return false
	}
	return true
}

// name is the member whose text counts.
func (p *reasoningParts) name() string {
	switch {
	case looseText(p.content) != "":
		return "reasoning_content"
	case looseText(p.reasoning) != "":
		return "reasoning"
	case looseText(p.copilot) != "":
		return "reasoning_text"
	}
	return "reasoning_details"
}

// text is the reasoning that can be read; opaque says that there is some that cannot.
func (p *reasoningParts) text() (s string, opaque bool) {
	opaque = p.opaque != nil || len(opaqueDetails(nil, p.details)) > 0
	for _, v := range [...][]byte{p.content, p.reasoning, p.copilot, p.details} {
		if s = looseText(v); s != "" {
			break
		}
	}
	return s, opaque
}

// looseText reads a text that may be a string, an object with one, or an array of either.
func looseText(v []byte) string { return loose(v, 0) }

func loose(v []byte, depth int) string {
	switch {
	case depth > 4:
	case isString(v):
		s, _ := rawjson.String(v)
		return s
	case isObject(v):
		for _, key := range [...]string{"text", "content", "summary", "thinking"} {
			if s := loose(rawjson.Get(v, key), depth+1); s != "" {
				return s
			}
		}
	case isArray(v):
		var b strings.Builder
		_ = rawjson.Elements(v, func(_ int, v []byte) error {
			b.WriteString(loose(v, depth+1))
			return nil
		})
		return b.String()
	}
	return ""
}

// opaqueDetails appends, with commas, the elements of reasoning_details that hold more than text: encrypted ones as they
// are, signed ones without their text, which the block has.
func opaqueDetails(dst, details []byte) []byte {
	if !isArray(details) {
		return dst
	}
	_ = rawjson.Elements(details, func(_ int, v []byte) error {
		if !isObject(v) || isNull(rawjson.Get(v, "data")) && isNull(rawjson.Get(v, "signature")) {
			return nil
		}
		if len(dst) > 0 {
			dst = append(dst, ',')
		}
		w := rawjson.Writer{Buf: dst}
		w.Open('{')
		_ = rawjson.Walk(v, func(key []byte, f rawjson.Field) error {
			if string(key) != "text" {
				w.Key(string(key))
				w.Raw(f.Value(v))
			}
			return nil
		})
		w.Close('}')
		dst = w.Buf
		return nil
	})
	return dst
}

// maxOpaque bounds the opaque state of one block of reasoning, in bytes.
const maxOpaque = 1 << 20

// opaqueKey marks the state that came as Copilot's reasoning_opaque; details stand in an array.
const opaqueKey = `{"reasoning_opaque":`

// writeReasoning writes reasoning that goes back to its owner, in the owner's own form. texts and states are those of the
// turn's blocks.
func writeReasoning(w *rawjson.Writer, text string, states []string) {
	var details []byte
	opaque := ""
	for _, s := range states {
		switch {
		case strings.HasPrefix(s, "[") && len(s) > 2:
			if len(details) > 0 {
				details = append(details, ',')
			}
			details = append(details, s[1:len(s)-1]...)
		case strings.HasPrefix(s, opaqueKey):
			opaque, _ = rawjson.String([]byte(strings.TrimSuffix(s[len(opaqueKey):], "}")))
		}
	}
	switch {
	case len(details) > 0:
		w.Optional("reasoning", text)
		w.Key("reasoning_details")
		w.Raw(withText(details, text))
	case opaque != "":
		w.Optional("reasoning_text", text)
		w.Field("reasoning_opaque", opaque)
	default:
		w.Optional("reasoning_content", text)
	}
}

// withText makes the array of details again: the text goes back into the first element that was signed for it.
func withText(details []byte, text string) []byte {
	array := append(append([]byte{'['}, details...), ']')
	if text == "" {
		return array
	}
	w := rawjson.Writer{}
	w.Open('[')
	placed := false
	err := rawjson.Elements(array, func(_ int, v []byte) error {
		kind, _ := rawjson.String(rawjson.Get(v, "type"))
		if placed || kind != "reasoning.text" {
			w.Raw(v)
			return nil
		}
		placed = true
		signed := rawjson.AppendString([]byte(`{"text":`), text)
		if len(v) > 2 {
			signed = append(signed, ',')
		}
		w.Raw(append(signed, v[1:]...))
		return nil
	})
	if err != nil {
		return array
	}
	w.Close(']')
	return w.Buf
}

// stateOf packs what came opaque with reasoning.
func stateOf(owner string, details []byte, opaque string) *ir.State {
	s := &ir.State{Owner: owner}
	switch {
	case len(details) > 0:
		s.Data = "[" + string(details) + "]"
	case opaque != "":
		s.Data = opaqueKey + string(rawjson.AppendString(nil, opaque)) + "}"
	}
	return s
}
