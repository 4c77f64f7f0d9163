package openairesponses

import (
	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// readUsage reads a usage object (facts/protocols.md, 5.6), also with the names of Chat that gateways use. Input is told
// without cached and written tokens. Null, absent and negative figures are not known.
func readUsage(raw []byte) ir.Usage {
	var input, output, total, cached, written, reasoning int64 = -1, -1, -1, -1, -1, -1
	set := func(to *int64, v []byte) {
		if n, ok := rawjson.Int(v); ok && n >= 0 {
			*to = n
		}
	}
	if len(raw) == 0 || raw[0] != '{' {
		return ir.Usage{}
	}
	_ = rawjson.Walk(raw, func(key []byte, f rawjson.Field) error {
		v := f.Value(raw)
		switch string(key) {
		case "input_tokens", "prompt_tokens":
			set(&input, v)
		case "output_tokens", "completion_tokens":
			set(&output, v)
		case "total_tokens":
			set(&total, v)
		case "input_tokens_details", "prompt_tokens_details":
			set(&cached, rawjson.Get(v, "cached_tokens"))
			set(&written, rawjson.Get(v, "cache_write_tokens"))
		case "output_tokens_details", "completion_tokens_details":
			set(&reasoning, rawjson.Get(v, "reasoning_tokens"))
		}
		return nil
	})
	var u ir.Usage
	if input >= 0 {
		u.Input, u.Known = max(0, input-max(0, cached)-max(0, written)), ir.UsageInput
	}
	if output >= 0 {
		if u.Output = output; reasoning > 0 && input >= 0 && total == input+output+reasoning { // it was left out
			u.Output += reasoning
		}
		u.Known |= ir.UsageOutput
	}
	if cached >= 0 {
		u.CacheRead = cached
		u.Known |= ir.UsageCacheRead
	}
	if written >= 0 {
		u.CacheCreation = written
		u.Known |= ir.UsageCacheCreation
	}
	if reasoning >= 0 {
		u.Reasoning = reasoning
		u.Known |= ir.UsageReasoning
	}
	return u
}

// writeUsage writes a usage object. Both details are always there: SDKs and Codex read them unasked.
func writeUsage(w *rawjson.Writer, u *ir.Usage) {
	input := u.Input + u.CacheRead + u.CacheCreation
	w.Open('{')
	w.Number("input_tokens", input)
	w.Key("input_tokens_details")
	w.Open('{')
	w.Number("cached_tokens", u.CacheRead)
	w.Number("cache_write_tokens", u.CacheCreation)
	w.Close('}')
	w.Number("output_tokens", u.Output)
	w.Key("output_tokens_details")
	w.Open('{')
	w.Number("reasoning_tokens", u.Reasoning)
	w.Close('}')
	w.Number("total_tokens", input+u.Output)
	w.Close('}')
}
