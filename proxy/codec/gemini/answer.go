package gemini

import (
	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// appendAnswer implements ir.Dialect: what a client would make of the stream.
func appendAnswer(dst []byte, a *ir.Answer, r ir.Reply) (body []byte, lost []string) {
	dst = append(dst, `{"candidates":[{"content":{"parts":[`...)
	from, calls := len(dst), 0
	next := func() {
		if len(dst) > from {
			dst = append(dst, ',')
		}
	}
	for i := range a.Blocks {
		b := &a.Blocks[i]
		if len(b.Citations) > 0 {
			lost = ir.AppendLost(lost, "citations")
		}
		switch b.Kind {
		case ir.Text, ir.Refusal:
			if b.Text != "" || b.State != nil && b.State.Owner != "" {
				next()
				dst = appendText(dst, ir.Text, b.Text, b.State)
			}
		case ir.Thinking:
			if b.Text != "" || b.State != nil && b.State.Owner != "" {
				next()
				dst = appendText(dst, ir.Thinking, b.Paragraphs(), b.State)
			}
		case ir.ToolCall:
			if a.Stop.Reason == ir.StopLength && i == len(a.Blocks)-1 && !isWhole([]byte(b.Args)) {
				lost = ir.AppendLost(lost, "functionCall") // it was cut and must not be made
				continue
			}
			next()
			dst = appendCall(dst, b, r.Seed, calls)
			calls++
		default:
			var part []byte
			if isMedia(b) {
				part = appendMedia(nil, &b.Media)
			}
			if part == nil {
				lost = ir.AppendLost(lost, b.AnswerName())
				continue
			}
			next()
			dst = append(dst, part...)
		}
	}
	var w rawjson.Writer
	w.Buf = append(dst, `],"role":"model"},"finishReason":"`...)
	w.Buf = append(append(w.Buf, finishReason(&a.Stop)...), '"')
	w.Buf = append(appendFinishMessage(w.Buf, &a.Stop), `,"index":0}]`...)
	if a.Usage.Known != 0 {
		w.Buf = append(w.Buf, ',')
		writeUsage(&w, &a.Usage)
	}
	w.Buf = rawjson.AppendString(append(w.Buf, `,"modelVersion":`...), r.Model)
	w.Buf = rawjson.AppendString(append(w.Buf, `,"responseId":`...), r.Seed)
	return append(w.Buf, '}'), lost
}
