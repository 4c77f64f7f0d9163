package gemini

import (
	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// tap reads a stream on the side.
type tap struct {
	usage figures
	begun bool // the figures are ready
	said  bool // content has come
}

// Mark implements ir.Tap. There is no terminal event: the end of the body is the end.
func (t *tap) Mark(_, data []byte) ir.Mark {
	if !t.begun {
		t.usage, t.begun = noFigures(), true
	}
	c, ok := readChunk(data)
	if !ok {
		if isArray(data) && rawjson.Valid(data) == nil {
			if f := fault(0, data); f.Type != "" || f.Message != "" {
				return ir.Mark{Kind: ir.MarkError, Fault: &f}
			}
		}
		return ir.Mark{}
	}
	if c.fault != nil {
		f := fault(0, data)
		return ir.Mark{Kind: ir.MarkError, Fault: &f}
	}
	var m ir.Mark
	if c.usage != nil && t.usage.read(c.usage) {
		m.Usage = t.usage.usage()
	}
	m.Content, m.StopReason = candidates(c.candidates)
	if reason := blocked(c.feedback); reason != "" && m.StopReason == "" {
		m.StopReason = reason
	}
	t.said = t.said || m.Content
	switch {
	case m.StopReason != "":
		m.Kind = ir.MarkFinish
	case m.Content:
		m.Kind = ir.MarkDelta
	}
	return m
}

// blocked is why a prompt was refused, "" where it was not.
func blocked(feedback []byte) string {
	if reason := rawText(rawjson.Get(feedback, "blockReason")); reason != "BLOCKED_REASON_UNSPECIFIED" {
		return reason
	}
	return ""
}

// candidates tells whether the candidates say anything, and why the first one that tells it ended.
func candidates(list []byte) (content bool, reason string) {
	if !isArray(list) {
		return false, ""
	}
	_ = rawjson.Elements(list, func(_ int, v []byte) error {
		return rawjson.Walk(v, func(key []byte, f rawjson.Field) error {
			switch value := f.Value(v); string(camel(key)) {
			case "content":
				content = content || says(rawjson.Get(value, "parts"))
			case "finishReason":
				if s := rawText(value); reason == "" && s != "FINISH_REASON_UNSPECIFIED" {
					reason = s
				}
			}
			return nil
		})
	})
	return content, reason
}

// says reports whether one of the parts is content that is not empty.
func says(parts []byte) (content bool) {
	if !isArray(parts) {
		return false
	}
	_ = rawjson.Elements(parts, func(_ int, v []byte) error {
		return rawjson.Walk(v, func(key []byte, f rawjson.Field) error {
			switch value := f.Value(v); string(camel(key)) {
			case "text":
				content = content || len(value) > len(`""`) && value[0] == '"'
			case "functionCall", "inlineData", "fileData", "executableCode", "codeExecutionResult", "toolCall", "toolResponse", "functionResponse":
				content = content || isObject(value)
			}
			return nil
		})
	})
	return content
}

// Break implements ir.Tap: a broken stream cannot be told, the connection is aborted.
func (t *tap) Break([]byte, *ir.Fault, string) []byte { return nil }

// finishChunk is what a stream lacks that ended without saying why.
const finishChunk = `data: {"candidates":[{"content":{"role":"model","parts":[]},"finishReason":"STOP","index":0}]}` + "\n\n"

// Finish implements ir.Tap: without a reason gemini-cli asks again and opencode does so for ever.
func (t *tap) Finish(dst []byte) ([]byte, string) {
	if !t.said {
		return nil, ""
	}
	return append(dst, finishChunk...), "STOP"
}

// plain reads a plain answer's usage and the reason of its end.
func plain(value func(name string) []byte) (ir.Usage, string) {
	u := noFigures()
	u.read(value("usageMetadata"))
	_, reason := candidates(value("candidates"))
	if reason == "" {
		reason = blocked(value("promptFeedback"))
	}
	return u.usage(), reason
}
