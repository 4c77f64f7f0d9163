// Package anthropic speaks Anthropic Messages (facts/protocols.md, section 1). It is pure: bytes in, meaning out.
package anthropic

import (
	"bytes"
	"math"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
	"coding-proxy/proxy/sse"
)

// deltaLine is how the bulk of every stream begins. Such an event holds no usage, so nothing of it is decoded.
var deltaLine = []byte("event: content_block_delta\n")

// IsDelta reports whether an event is plainly content that holds no usage: Event need not be asked.
func IsDelta(raw []byte) bool { return bytes.HasPrefix(raw, deltaLine) }

// Event tells what a whole event of a stream means.
func Event(raw []byte) ir.Event {
	if IsDelta(raw) {
		return ir.Event{Kind: ir.EventDelta}
	}
	name, data := sse.Parse(raw)
	if len(name) == 0 { // the official SDK passes over frames without a name; others read the type
		s, _ := rawjson.String(rawjson.Get(data, "type"))
		name = []byte(s)
	}
	switch string(name) {
	case "content_block_delta":
		return ir.Event{Kind: ir.EventDelta}
	case "content_block_start":
		return ir.Event{Kind: blockKind(rawjson.Get(data, "content_block"))}
	case "message_start":
		return ir.Event{Kind: ir.EventStart, Usage: Usage(rawjson.Get(rawjson.Get(data, "message"), "usage"))}
	case "message_delta":
		e := ir.Event{Usage: Usage(rawjson.Get(data, "usage"))}
		if s, ok := rawjson.String(rawjson.Get(rawjson.Get(data, "delta"), "stop_reason")); ok {
			e.Kind, e.StopReason = ir.EventFinish, s
		}
		return e
	case "message_stop":
		return ir.Event{Kind: ir.EventStop}
	case "error":
		f := Fault(0, data)
		f.Status = StatusOf(f.Type)
		return ir.Event{Kind: ir.EventError, Fault: &f}
	}
	return ir.Event{}
}

// CarriesContent reports whether an event that Event took for content has any: providers begin streams with empty
// deltas.
func CarriesContent(event []byte) bool {
	_, data := sse.Parse(event)
	delta := rawjson.Get(data, "delta")
	if delta == nil {
		return true // the start of a block that is content
	}
	for _, field := range [...]string{"text", "thinking", "partial_json"} {
		if string(rawjson.Get(delta, field)) == `""` {
			return false
		}
	}
	return true
}

// blockKind tells whether the start of a block is content already: empty text and thinking blocks are not, a tool's
// name and results that arrive whole are.
func blockKind(block []byte) ir.EventKind {
	switch t, _ := rawjson.String(rawjson.Get(block, "type")); t {
	case "text", "thinking":
		if s, _ := rawjson.String(rawjson.Get(block, t)); s == "" {
			return ir.EventOther
		}
	case "":
		return ir.EventOther
	}
	return ir.EventDelta
}

// Usage reads a usage object, also with the names that compatible providers use. Null, absent and negative figures
// are not known.
func Usage(raw []byte) ir.Usage {
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
			set(ir.Input, &u.Input, v)
		case "prompt_tokens": // includes the cached ones
			set(0, &prompt, v)
		case "output_tokens", "completion_tokens":
			set(ir.Output, &u.Output, v)
		case "cache_creation_input_tokens", "cache_creation_tokens":
			set(ir.CacheCreation, &u.CacheCreation, v)
		case "cache_read_input_tokens", "cache_read_tokens", "prompt_cache_hit_tokens":
			set(ir.CacheRead, &u.CacheRead, v)
		case "cache_creation":
			set(0, &cache5m, rawjson.Get(v, "ephemeral_5m_input_tokens"))
			set(0, &cache1h, rawjson.Get(v, "ephemeral_1h_input_tokens"))
		case "output_tokens_details":
			set(ir.Reasoning, &u.Reasoning, rawjson.Get(v, "thinking_tokens"))
		}
		return nil
	})
	if u.Known&ir.Input == 0 && prompt >= 0 {
		u.Input = max(0, prompt-u.CacheRead)
		u.Known |= ir.Input
	}
	if u.Known&ir.CacheCreation == 0 && (cache5m >= 0 || cache1h >= 0) {
		if u.CacheCreation = max(cache5m, 0) + max(cache1h, 0); u.CacheCreation < 0 {
			u.CacheCreation = math.MaxInt64
		}
		u.Known |= ir.CacheCreation
	}
	return u
}
