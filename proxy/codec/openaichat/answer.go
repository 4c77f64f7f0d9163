package openaichat

import (
	"strings"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// gathered is what a plain answer says: what a client would make of the stream.
type gathered struct {
	text, thought, refusal strings.Builder
	spoken, refused        bool
	calls                  []*ir.Block
	lost                   []string
}

// appendAnswer appends a whole answer as one body.
func appendAnswer(dst []byte, a *ir.Answer, r ir.Reply) (body []byte, lost []string) {
	legacy, hide := false, false
	if r.Request != nil {
		legacy, hide = saysFunctions(r.Request), hides(r.Request)
	}
	g := gather(a, hide)
	w := rawjson.Writer{Buf: appendHead(append(dst, '{'), "chat.completion", r)}
	w.Buf = append(w.Buf, `,"choices":[{"index":0,"message":`...)
	w.Open('{')
	w.Field("role", "assistant")
	w.Key("content")
	if !g.spoken && (len(g.calls) > 0 || g.refused || a.Stop.Reason == ir.StopRefusal) {
		w.Null()
	} else {
		w.String(g.text.String())
	}
	w.Key("refusal")
	if g.refusal.Len() > 0 {
		w.String(g.refusal.String())
	} else {
		w.Null()
	}
	w.Optional("reasoning_content", g.thought.String())
	switch {
	case len(g.calls) == 0:
	case legacy:
		w.Key("function_call")
		w.Open('{')
		w.Field("name", g.calls[0].Name)
		w.Field("arguments", arguments(g.calls[0]))
		w.Close('}')
		if len(g.calls) > 1 {
			g.lost = ir.AppendLost(g.lost, "function_call")
		}
	default:
		w.Key("tool_calls")
		w.Open('[')
		for n, c := range g.calls {
			writeCall(&w, c, callID(c.ID, r.Seed, n))
		}
		w.Close(']')
	}
	w.Close('}')
	w.Buf = append(w.Buf, `,"logprobs":null,"finish_reason":"`...)
	w.Buf = append(w.Buf, finishReason(&a.Stop, g.refused, legacy)...)
	w.Buf = append(w.Buf, `"}]`...)
	if a.Usage.Known != 0 {
		w.Key("usage")
		writeUsage(&w, &a.Usage)
	}
	w.Close('}')
	return w.Buf, g.lost
}

// gather sorts the blocks of an answer into the places that a message has.
func gather(a *ir.Answer, hide bool) *gathered {
	g := &gathered{}
	for i := range a.Blocks {
		b := &a.Blocks[i]
		switch b.Kind {
		case ir.Text:
			g.spoken = g.spoken || b.Text != ""
			g.text.WriteString(b.Text)
			if len(b.Citations) > 0 {
				g.lost = ir.AppendLost(g.lost, "citations")
			}
		case ir.Refusal:
			g.refused = true
			g.refusal.WriteString(b.Text)
		case ir.Thinking:
			if !hide {
				if g.thought.Len() > 0 && b.Text != "" {
					g.thought.WriteString("\n\n")
				}
				g.thought.WriteString(b.Paragraphs())
			}
		case ir.ToolCall:
			g.calls = append(g.calls, b)
		default:
			g.lost = ir.AppendLost(g.lost, b.AnswerName())
		}
	}
	if a.Stop.Reason == ir.StopRefusal && !g.refused {
		g.refusal.WriteString(a.Stop.Text)
	}
	if a.Stop.Sequence != "" {
		g.lost = ir.AppendLost(g.lost, "stop_sequence")
	}
	return g
}

// arguments of a function are JSON: of nothing, an empty object.
func arguments(c *ir.Block) string {
	if c.Args == "" && c.Form == "" {
		return "{}"
	}
	return c.Args
}

func writeCall(w *rawjson.Writer, c *ir.Block, id string) {
	kind, args := "function", "arguments"
	if c.Form == ir.FormCustom {
		kind, args = "custom", "input"
	}
	w.Open('{')
	w.Field("id", id)
	w.Field("type", kind)
	w.Key(kind)
	w.Open('{')
	w.Field("name", c.Name)
	w.Field(args, arguments(c))
	w.Close('}')
	w.Close('}')
}
