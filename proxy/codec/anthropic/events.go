// Package anthropic speaks Anthropic Messages (facts/protocols.md, section 1). It is pure: bytes in, meaning out.
package anthropic

import (
	"bytes"
	"math"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// deltaLine is how the bulk of every stream begins. Such an event holds no usage, so nothing of it is decoded.
var deltaLine = []byte("event: content_block_delta\n")

// isDelta reports whether an event is plainly content that holds no usage: the tap need not be asked.
func isDelta(raw []byte) bool { return bytes.HasPrefix(raw, deltaLine) }

// eventName is the event's name. The official SDK passes over frames without one; others read the type.
func eventName(name, data []byte) []byte {
	if len(name) == 0 {
		s, _ := rawjson.String(rawjson.Get(data, "type"))
		name = []byte(s)
	}
	return name
}

// tap reads a stream on the side. It need remember nothing.
type tap struct{}

// Mark implements ir.Tap. Deltas count as content unless they are plainly empty: providers begin streams with such.
func (tap) Mark(name, data []byte) ir.Mark {
	switch string(eventName(name, data)) {
	case "content_block_delta":
		if carries(data) {
			return ir.Mark{Kind: ir.MarkDelta, Content: true}
		}
	case "content_block_start":
		if kind := blockKind(rawjson.Get(data, "content_block")); kind == ir.MarkDelta {
			return ir.Mark{Kind: kind, Content: true}
		}
	case "message_start":
		return ir.Mark{Kind: ir.MarkStart, Usage: usageOf(rawjson.Get(rawjson.Get(data, "message"), "usage"))}
	case "message_delta":
		e := ir.Mark{Usage: usageOf(rawjson.Get(data, "usage"))}
		if s, ok := rawjson.String(rawjson.Get(rawjson.Get(data, "delta"), "stop_reason")); ok {
			e.Kind, e.StopReason = ir.MarkFinish, s
		}
		return e
	case "message_stop":
		return ir.Mark{Kind: ir.MarkStop}
	case "error":
		f := fault(0, data)
		return ir.Mark{Kind: ir.MarkError, Fault: &f}
	}
	return ir.Mark{}
}

// Break implements ir.Tap.
func (tap) Break(dst []byte, f *ir.Fault, trace string) []byte {
	return appendErrorEvent(dst, kindOf(f), messageOf(f), trace)
}

// Finish implements ir.Tap: an end that nobody has announced is a break.
func (tap) Finish([]byte) ([]byte, string) { return nil, "" }

// plain reads usage and stop reason of a plain answer.
func plain(value func(name string) []byte) (ir.Usage, string) {
	stop, _ := rawjson.String(value("stop_reason"))
	return usageOf(value("usage")), stop
}

// carries reports whether the data of a delta hold anything: providers begin streams with empty ones.
func carries(data []byte) bool {
	delta := rawjson.Get(data, "delta")
	for _, field := range [...]string{"text", "thinking", "partial_json"} {
		if string(rawjson.Get(delta, field)) == `""` {
			return false
		}
	}
	return true
}

// blockKind tells whether the start of a block is content already: empty text and thinking blocks are not, a tool's
// name and results that arrive whole are.
func blockKind(block []byte) ir.MarkKind {
	switch t, _ := rawjson.String(rawjson.Get(block, "type")); t {
	case "text", "thinking":
		if s, _ := rawjson.String(rawjson.Get(block, t)); s == "" {
			return ir.MarkOther
		}
	case "":
		return ir.MarkOther
	}
	return ir.MarkDelta
}

// usageOf reads a usage object, also with the names that compatible providers use. Null, absent and negative figures
// are not known.
func usageOf(raw []byte) ir.Usage {
	var u ir.Usage
	var prompt, cache5m, cache1h int64 = -1, -1, -1
	set := func(field ir.UsageFields, to *int64, value []byte) {
		if n, ok := rawjson.Int(value); ok && n >= 0 {
			*to = n
			u.Known |= field
		}
	}
	_ = rawjson.Walk(raw, func(key []byte, f rawjson.Field) error {
		v := f.Value(raw)
		switch string(key) {
		case "input_tokens":
			set(ir.UsageInput, &u.Input, v)
		case "prompt_tokens": // includes the cached ones
			set(0, &prompt, v)
		case "output_tokens", "completion_tokens":
			set(ir.UsageOutput, &u.Output, v)
		case "cache_creation_input_tokens", "cache_creation_tokens":
			set(ir.UsageCacheCreation, &u.CacheCreation, v)
		case "cache_read_input_tokens", "cache_read_tokens", "prompt_cache_hit_tokens":
			set(ir.UsageCacheRead, &u.CacheRead, v)
		case "cache_creation":
			set(0, &cache5m, rawjson.Get(v, "ephemeral_5m_input_tokens"))
			set(0, &cache1h, rawjson.Get(v, "ephemeral_1h_input_tokens"))
		case "output_tokens_details":
			set(ir.UsageReasoning, &u.Reasoning, rawjson.Get(v, "thinking_tokens"))
		}
		return nil
	})
	if u.Known&ir.UsageInput == 0 && prompt >= 0 {
		u.Input = max(0, prompt-u.CacheRead)
		u.Known |= ir.UsageInput
	}
	if u.Known&ir.UsageCacheCreation == 0 && (cache5m >= 0 || cache1h >= 0) {
		if u.CacheCreation = max(cache5m, 0) + max(cache1h, 0); u.CacheCreation < 0 {
			u.CacheCreation = math.MaxInt64
		}
		u.Known |= ir.UsageCacheCreation
	}
	return u
}
