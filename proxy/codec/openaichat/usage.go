package openaichat

import (
	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// maxTokens bounds a figure that can be believed, so that sums cannot overflow.
const maxTokens = 1 << 50

// tally is a usage object as it came: -1 for what was not said.
type tally struct {
	prompt, input, completion, total, cached, written, reasoning int64
}

// usage reads a usage object. OpenAI's prompt_tokens include what was cached and written; vendors say the cached part in
// three places (facts/protocols.md, 2.5 and 5.6).
func usage(raw []byte) ir.Usage {
	if !isObject(raw) {
		return ir.Usage{}
	}
	t := tally{-1, -1, -1, -1, -1, -1, -1}
	_ = rawjson.Walk(raw, func(key []byte, f rawjson.Field) error {
		t.member(key, f.Value(raw))
		return nil
	})
	return t.usage()
}

func (t *tally) member(key, v []byte) {
	switch string(key) {
	case "prompt_tokens":
		figure(&t.prompt, v)
	case "input_tokens":
		figure(&t.input, v)
	case "completion_tokens", "output_tokens":
		figure(&t.completion, v)
	case "total_tokens":
		figure(&t.total, v)
	case "prompt_tokens_details", "input_tokens_details":
		figure(&t.cached, rawjson.Get(v, "cached_tokens"))
		figure(&t.written, rawjson.Get(v, "cache_write_tokens"))
	case "completion_tokens_details", "output_tokens_details":
		figure(&t.reasoning, rawjson.Get(v, "reasoning_tokens"))
	case "cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens": // Kimi, DeepSeek, gateways to Claude
		if t.cached < 0 {
			figure(&t.cached, v)
		}
	case "cache_creation_input_tokens":
		if t.written < 0 {
			figure(&t.written, v)
		}
	case "reasoning_tokens":
		if t.reasoning < 0 {
			figure(&t.reasoning, v)
		}
	}
}

// figure takes a count over where it is one.
func figure(to *int64, v []byte) {
	if n, ok := rawjson.Int(v); ok && n >= 0 && n < maxTokens {
		*to = n
	}
}

func (t *tally) usage() (u ir.Usage) {
	if t.prompt < 0 {
		t.prompt = t.input
	}
	if t.cached >= 0 {
		u.CacheRead = t.cached
		u.Known |= ir.UsageCacheRead
	}
	if t.written >= 0 {
		u.CacheCreation = t.written
		u.Known |= ir.UsageCacheCreation
	}
	if t.prompt >= 0 {
		u.Input = max(0, t.prompt-u.CacheRead-u.CacheCreation)
		u.Known |= ir.UsageInput
	}
	if t.reasoning >= 0 {
		u.Reasoning = t.reasoning
		u.Known |= ir.UsageReasoning
	}
	if t.completion >= 0 {
		u.Output = t.completion
		if sum := t.prompt + t.completion; t.prompt >= 0 && t.total > sum && t.total == sum+u.Reasoning {
			u.Output += u.Reasoning // xAI leaves reasoning out of completion_tokens
		}
		u.Known |= ir.UsageOutput
	}
	return u
}

// writeUsage writes a usage object.
func writeUsage(w *rawjson.Writer, u *ir.Usage) {
	prompt := u.Input + u.CacheRead + u.CacheCreation
	w.Open('{')
	w.Number("prompt_tokens", prompt)
	w.Number("completion_tokens", u.Output)
	w.Number("total_tokens", prompt+u.Output)
	w.Key("prompt_tokens_details")
	w.Open('{')
	w.Number("cached_tokens", u.CacheRead)
	if u.CacheCreation > 0 {
		w.Number("cache_write_tokens", u.CacheCreation)
	}
	w.Close('}')
	w.Key("completion_tokens_details")
	w.Open('{')
	w.Number("reasoning_tokens", u.Reasoning)
	w.Close('}')
	w.Close('}')
}
