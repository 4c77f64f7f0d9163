package gemini

import (
	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// figures are those of usageMetadata, -1 = not said yet. They are cumulative, and later ones may leave some out.
type figures struct {
	prompt, cached, candidates, thoughts, tools, total int64
}

func noFigures() figures { return figures{-1, -1, -1, -1, -1, -1} }

// read takes over what a usageMetadata says; it reports whether that was anything.
func (u *figures) read(raw []byte) (said bool) {
	_ = rawjson.Walk(raw, func(key []byte, f rawjson.Field) error {
		var to *int64
		switch string(camel(key)) {
		case "promptTokenCount":
			to = &u.prompt
		case "cachedContentTokenCount":
			to = &u.cached
		case "candidatesTokenCount", "responseTokenCount": // the latter of Vertex's live form
			to = &u.candidates
		case "thoughtsTokenCount":
			to = &u.thoughts
		case "toolUsePromptTokenCount":
			to = &u.tools
		case "totalTokenCount":
			to = &u.total
		default:
			return nil
		}
		v := f.Value(raw)
		if len(v) > 2 && v[0] == '"' { // proto3 JSON takes whole numbers in quotes, too
			v = v[1 : len(v)-1]
		}
		if n, ok := rawjson.Int(v); ok && n >= 0 && n < 1<<53 {
			*to, said = n, true
		}
		return nil
	})
	return said
}

// usage is what the figures come to (facts/protocols.md 5.6): the prompt includes what was cached, the candidates leave
// the thoughts out, unless the total says that they do not.
func (u *figures) usage() (v ir.Usage) {
	tools, thoughts := max(u.tools, 0), max(u.thoughts, 0)
	if u.prompt >= 0 {
		v.Input = max(0, u.prompt-max(u.cached, 0)) + tools
		v.Known |= ir.UsageInput
	}
	if u.cached >= 0 {
		v.CacheRead = u.cached
		v.Known |= ir.UsageCacheRead
	}
	if u.candidates >= 0 || u.thoughts >= 0 {
		v.Output = max(u.candidates, 0) + thoughts
		if sum := u.prompt + u.candidates; thoughts > 0 && u.candidates >= thoughts && u.prompt >= 0 && (u.total == sum || u.total == sum+tools) {
			v.Output = u.candidates
		}
		v.Known |= ir.UsageOutput
	}
	if u.thoughts >= 0 {
		v.Reasoning = u.thoughts
		v.Known |= ir.UsageReasoning
	}
	return v
}

// writeUsage writes usageMetadata, unless nothing is known.
func writeUsage(w *rawjson.Writer, u *ir.Usage) {
	if u.Known == 0 {
		return
	}
	prompt := u.Input + u.CacheRead + u.CacheCreation
	thoughts := min(u.Reasoning, u.Output)
	w.Key("usageMetadata")
	w.Open('{')
	w.Number("promptTokenCount", prompt)
	if u.Known&ir.UsageCacheRead != 0 && u.CacheRead > 0 {
		w.Number("cachedContentTokenCount", u.CacheRead)
	}
	w.Number("candidatesTokenCount", u.Output-thoughts)
	if thoughts > 0 {
		w.Number("thoughtsTokenCount", thoughts)
	}
	w.Number("totalTokenCount", prompt+u.Output)
	w.Close('}')
}
