package anthropic

import (
	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// answer writes a plain answer: what a client would make of the stream.
type answer struct {
	w       rawjson.Writer
	seed    string
	index   int // of the next block
	refused bool
	lost    []string
}

// appendAnswer implements ir.Dialect.
func appendAnswer(dst []byte, a *ir.Answer, r ir.Reply) (body []byte, lost []string) {
	p := &answer{w: rawjson.Writer{Buf: dst}, seed: r.Seed}
	w := &p.w
	w.Open('{')
	head(w, &r)
	w.Key("content")
	w.Open('[')
	for i := range a.Blocks {
		p.block(&a.Blocks[i])
	}
	w.Close(']')
	stopMembers(w, &a.Stop, p.refused)
	w.Key("usage")
	usageObject(w, &a.Usage)
	w.Close('}')
	return w.Buf, p.lost
}

func (p *answer) block(b *ir.Block) {
	if len(b.Citations) > 0 {
		p.lost = ir.AppendLost(p.lost, "citations")
	}
	switch b.Kind {
	case ir.Text, ir.Refusal:
		p.refused = p.refused || b.Kind == ir.Refusal
		if b.Text != "" {
			p.open("text")
			p.w.Field("text", b.Text)
			p.close()
		}
	case ir.Thinking:
		p.thinking(b)
	case ir.ToolCall:
		if s := b.State; s != nil && s.Owner != "" {
			signed := *s
			signed.Attach = ir.AttachCall
			p.thought("", ir.Seal(signed))
		}
		p.open("tool_use")
		p.w.Field("id", callID(b, p.seed, p.index))
		p.w.Field("name", b.Name)
		p.w.Key("input")
		p.w.Raw(input(b))
		p.close()
	default:
		p.lost = ir.AppendLost(p.lost, b.AnswerName())
	}
}

func (p *answer) thinking(b *ir.Block) {
	sealed := seal(b.State)
	switch {
	case b.Text != "":
		p.thought(b.Paragraphs(), sealed)
	case sealed == "" || b.State.Data == "":
	case b.State.Redacted:
		p.open("redacted_thinking")
		p.w.Field("data", sealed)
		p.close()
	default:
		p.thought("", sealed)
	}
}

func (p *answer) thought(text, signature string) {
	p.open("thinking")
	p.w.Field("thinking", text)
	p.w.Field("signature", signature)
	p.close()
}

func (p *answer) open(kind string) {
	p.w.Open('{')
	p.w.Field("type", kind)
}

func (p *answer) close() {
	p.w.Close('}')
	p.index++
}
