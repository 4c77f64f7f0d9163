package anthropic

import (
	"encoding/base64"
	"strings"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// writeSystem writes the system prompt: as one string where that says it all.
func (e *encoding) writeSystem() {
	var blocks []*ir.Block
	for i := range e.r.System {
		if b := &e.r.System[i]; !blank(b.Text) {
			blocks = append(blocks, b)
		}
	}
	if s := e.formatText(); s != "" {
		blocks = append(blocks, &ir.Block{Kind: ir.Text, Text: s})
	}
	switch {
	case len(blocks) == 0:
	case len(blocks) == 1 && blocks[0].Cache == nil:
		e.w.Field("system", blocks[0].Text)
	default:
		e.w.Key("system")
		e.w.Open('[')
		for _, b := range blocks {
			e.text(b)
		}
		e.w.Close(']')
	}
}

func (e *encoding) message(m *message) error {
	w := &e.w
	w.Open('{')
	switch m.role {
	case ir.Assistant:
		w.Field("role", "assistant")
	case ir.System:
		w.Field("role", "system")
	default:
		w.Field("role", "user")
	}
	w.Key("content")
	if p := m.parts[0]; len(m.parts) == 1 && p.Kind == ir.Text && p.Cache == nil && len(p.Citations) == 0 {
		w.String(p.Text)
	} else {
		w.Open('[')
		for _, p := range m.parts {
			if err := e.part(p); err != nil {
				return err
			}
		}
		w.Close(']')
	}
	w.Close('}')
	return nil
}

// part writes one block.
func (e *encoding) part(p part) error {
	w := &e.w
	switch p.Kind {
	case ir.Thinking:
		e.thought(p.Block)
	case ir.ToolCall:
		w.Open('{')
		w.Field("type", "tool_use")
		w.Field("id", p.id)
		w.Field("name", e.book.Wire(p.ToolName))
		w.Key("input")
		w.Raw(input(p.Block))
		e.cache(p.Cache)
		w.Close('}')
	case ir.ToolResult:
		return e.result(p)
	default:
		return e.block(p.Block)
	}
	return nil
}

// input is a call's arguments as the object that the API wants.
func input(b *ir.Block) []byte {
	args := b.Args
	if b.Form == ir.FormCustom {
		args = ir.WrapCustom(args)
	}
	return rawjson.AppendObject(nil, args)
}

// thought writes reasoning that goes back to who signed it, unchanged. It bears no cache mark.
func (e *encoding) thought(b *ir.Block) {
	w := &e.w
	w.Open('{')
	if b.State.Redacted {
		w.Field("type", "redacted_thinking")
		w.Field("data", b.State.Data)
	} else {
		w.Field("type", "thinking")
		w.Field("thinking", b.Text)
		w.Field("signature", b.State.Data)
	}
	w.Close('}')
	if b.Cache != nil {
		e.r.Lose(ir.FieldCacheMark)
	}
}

func (e *encoding) text(b *ir.Block) {
	e.w.Open('{')
	e.w.Field("type", "text")
	e.w.Field("text", b.Text)
	if len(b.Citations) > 0 {
		if e.own {
			e.w.Member("citations", b.Citations)
		} else {
			e.r.Lose(ir.FieldCitations)
		}
	}
	e.cache(b.Cache)
	e.w.Close('}')
}

// can reports whether a block can be said here at all, and names it as lost where it cannot. What must not be dropped is
// refused when it is written.
func (e *encoding) can(b *ir.Block) bool {
	switch b.Kind {
	case ir.HostedCall, ir.HostedResult, ir.Opaque:
		if e.own && len(b.Raw) > 0 {
			return true
		}
		e.r.LosePath(b.LostName())
		return false
	case ir.Document:
		return b.Media.Data != "" || b.Media.URL != "" || b.Media.FileID != "" || !blank(b.Text)
	case ir.Image:
		return b.Media != ir.Media{}
	}
	return true
}

// block writes what is neither reasoning nor a call nor a result.
func (e *encoding) block(b *ir.Block) error {
	switch b.Kind {
	case ir.Text, ir.Refusal:
		e.text(b)
	case ir.Image:
		return e.image(b)
	case ir.Document:
		return e.document(b)
	case ir.HostedCall, ir.HostedResult, ir.Opaque:
		e.w.Raw(b.Raw)
	case ir.Audio:
		return ir.Refuse(e.at(b), "audio cannot be sent to this provider")
	case ir.Video:
		return ir.Refuse(e.at(b), "video cannot be sent to this provider")
	default:
		return ir.Refuse(e.at(b), "cannot be sent to this provider")
	}
	return nil
}

// at is where a block stands in the client's request.
func (e *encoding) at(b *ir.Block) string {
	if b.At == "" {
		return "request"
	}
	return b.At
}

func (e *encoding) image(b *ir.Block) error {
	m := &b.Media
	w := &e.w
	w.Open('{')
	w.Field("type", "image")
	w.Key("source")
	w.Open('{')
	switch {
	case m.Data != "":
		mime := m.Type()
		switch mime {
		case "image/jpeg", "image/png", "image/gif", "image/webp":
		default:
			return ir.Refuse(e.at(b), "only JPEG, PNG, GIF and WebP images can be sent to this provider")
		}
		w.Field("type", "base64")
		w.Field("media_type", mime)
		w.Field("data", m.Data)
	case m.URL != "":
		w.Field("type", "url")
		w.Field("url", m.URL)
	default:
		return ir.Refuse(e.at(b), "a file id belongs to another provider")
	}
	w.Close('}')
	e.cache(b.Cache)
	w.Close('}')
	if b.Detail != "" && b.Detail != "auto" {
		e.r.Lose(ir.FieldDetail)
	}
	return nil
}

func (e *encoding) document(b *ir.Block) error {
	m := &b.Media
	w := &e.w
	mime := m.Type()
	w.Open('{')
	w.Field("type", "document")
	w.Key("source")
	w.Open('{')
	switch {
	case m.Data == "" && m.URL == "" && m.FileID == "":
		e.plainText(b.Text)
	case m.Data != "" && mime == "application/pdf":
		w.Field("type", "base64")
		w.Field("media_type", "application/pdf")
		w.Field("data", m.Data)
	case m.Data != "" && (strings.HasPrefix(mime, "text/") || mime == "application/json"):
		data, err := base64.StdEncoding.DecodeString(m.Data)
		if err != nil {
			return ir.Refuse(e.at(b), "must be base64 data")
		}
		e.plainText(string(data))
	case m.URL != "":
		w.Field("type", "url")
		w.Field("url", m.URL)
	case m.FileID != "":
		return ir.Refuse(e.at(b), "a file id belongs to another provider")
	default:
		return ir.Refuse(e.at(b), "only PDF and text documents can be sent to this provider")
	}
	w.Close('}')
	if b.Title != "" {
		w.Field("title", b.Title)
	} else {
		w.Optional("title", m.Name)
	}
	w.Optional("context", b.Context)
	e.cache(b.Cache)
	w.Close('}')
	return nil
}

func (e *encoding) plainText(text string) {
	e.w.Field("type", "text")
	e.w.Field("media_type", "text/plain")
	e.w.Field("data", text)
}

// result writes a tool's result. Empty content is left out, but not that of an error: the API wants to know what failed.
func (e *encoding) result(p part) error {
	w := &e.w
	w.Open('{')
	w.Field("type", "tool_result")
	w.Field("tool_use_id", p.id)
	if err := e.resultContent(p.Block); err != nil {
		return err
	}
	if p.IsError {
		w.Key("is_error")
		w.Bool(true)
	}
	e.cache(p.Cache)
	w.Close('}')
	return nil
}

func (e *encoding) resultContent(b *ir.Block) error {
	content := e.flat(nil, b.Content)
	w := &e.w
	switch {
	case len(content) == 0 && (b.IsError || len(b.Content) > 0 && b.Content[0].Kind != ir.Text):
		w.Field("content", filler)
	case len(content) == 0:
	case len(content) == 1 && content[0].Kind == ir.Text && content[0].Cache == nil && len(content[0].Citations) == 0:
		w.Field("content", content[0].Text)
	default:
		w.Key("content")
		w.Open('[')
		for _, c := range content {
			if err := e.block(c); err != nil {
				return err
			}
		}
		w.Close(']')
	}
	return nil
}

// flat lists what of a result's content can be said. Results in results are laid flat.
func (e *encoding) flat(dst []*ir.Block, content []ir.Block) []*ir.Block {
	for i := range content {
		b := &content[i]
		switch b.Kind {
		case ir.Text, ir.Refusal:
			if blank(b.Text) {
				if b.Cache != nil {
					e.r.Lose(ir.FieldCacheMark)
				}
				continue
			}
		case ir.ToolResult:
			dst = e.flat(dst, b.Content)
			continue
		default:
			if !e.can(b) {
				continue
			}
		}
		dst = append(dst, b)
	}
	return dst
}
