package gemini

import (
	"encoding/base64"
	"strings"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// content writes one content.
func (e *encoding) content(c *outContent) error {
	w := &e.w
	w.Open('{')
	if c.role == ir.Assistant {
		w.Field("role", "model")
	} else {
		w.Field("role", "user")
	}
	w.Key("parts")
	w.Open('[')
	for i := range c.parts {
		if err := e.part(&c.parts[i]); err != nil {
			return err
		}
	}
	w.Close(']')
	w.Close('}')
	return nil
}

// part writes one part.
func (e *encoding) part(p *outPart) error {
	w := &e.w
	switch p.Kind {
	case ir.HostedCall, ir.HostedResult, ir.Opaque: // this dialect's own
		w.Raw(p.Raw)
		return nil
	case ir.Document:
		if p.Text != "" {
			w.Open('{')
			w.Field("text", e.document(p.Block))
			w.Close('}')
			return nil
		}
	case ir.Text, ir.Refusal, ir.Thinking, ir.ToolCall, ir.ToolResult, ir.Image, ir.Audio, ir.Video:
	default:
		return ir.Refuse(at(p.Block), "cannot be sent to this provider")
	}
	w.Open('{')
	var err error
	switch p.Kind {
	case ir.Text, ir.Refusal:
		if p.text == "" {
			p.text = p.Text
		}
		w.Field("text", p.text)
	case ir.Thinking:
		w.Field("text", p.Text)
		w.Key("thought")
		w.Bool(true)
	case ir.ToolCall:
		e.call(p)
	case ir.ToolResult:
		err = e.result(p)
	default:
		err = e.inline(p.Block)
	}
	w.Optional("thoughtSignature", p.data)
	w.Close('}')
	return err
}

// at is where a block stands in the client's request.
func at(b *ir.Block) string {
	if b.At == "" {
		return "request"
	}
	return b.At
}

// call writes a functionCall. Its arguments are an object, in the client's very text.
func (e *encoding) call(p *outPart) {
	w := &e.w
	w.Key("functionCall")
	w.Open('{')
	w.Field("id", p.call.ID)
	w.Field("name", e.book.Wire(p.ToolName))
	w.Key("args")
	if p.Form == ir.FormCustom {
		w.Raw([]byte(ir.WrapCustom(p.Args)))
	} else {
		w.Buf = rawjson.AppendObject(w.Buf, p.Args)
	}
	w.Close('}')
}

// oneLine puts a JSON text on one line, as the data of an event must be: in strings no line end stands for itself.
func oneLine(text string) string {
	if strings.ContainsAny(text, "\r\n") && rawjson.Valid([]byte(text)) == nil {
		return strings.NewReplacer("\r", " ", "\n", " ").Replace(text)
	}
	return text
}

// result writes a functionResponse. Its name is the call's.
func (e *encoding) result(p *outPart) error {
	w := &e.w
	w.Key("functionResponse")
	w.Open('{')
	w.Field("id", p.call.ID)
	w.Field("name", e.book.Wire(p.call.Call.ToolName))
	w.Key("response")
	said := e.said(p.Block)
	key := "output"
	if p.IsError {
		key = "error"
	}
	if !p.IsError && isOutcome(said) {
		w.Raw([]byte(strings.TrimSpace(said)))
	} else {
		w.Open('{')
		w.Field(key, said)
		w.Close('}')
	}
	if e.f.resultMedia() {
		if err := e.resultMedia(p.Block); err != nil {
			return err
		}
	}
	w.Close('}')
	return nil
}

// isOutcome reports whether a result's text is an object that can stand as it is: one that would not be read as a
// wrapped text or an error.
func isOutcome(said string) bool {
	text := strings.TrimSpace(said)
	if text == "" || text[0] != '{' {
		return false
	}
	raw := []byte(text)
	if rawjson.Valid(raw) != nil {
		return false
	}
	output, failure := soleMember(raw)
	return output == nil && failure == nil
}

// said is a result's text.
func (e *encoding) said(r *ir.Block) string {
	var parts []string
	for i := range r.Content {
		b := &r.Content[i]
		if b.Cache != nil {
			e.r.Lose(ir.FieldCacheMark)
		}
		switch b.Kind {
		case ir.Text, ir.Refusal:
			if len(b.Citations) > 0 {
				e.r.Lose(ir.FieldCitations)
			}
			parts = append(parts, b.Text)
		case ir.Document:
			if b.Text != "" {
				parts = append(parts, e.document(b))
			}
		case ir.HostedCall, ir.HostedResult, ir.Opaque: // case 37: still a result
			parts = append(parts, string(b.Raw))
		}
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return strings.Join(parts, "\n")
}

// resultMedia writes the parts of a result.
func (e *encoding) resultMedia(r *ir.Block) error {
	open := false
	for i := range r.Content {
		b := &r.Content[i]
		if !isMedia(b) {
			continue
		}
		if !open {
			open = true
			e.w.Key("parts")
			e.w.Open('[')
		}
		e.w.Open('{')
		if err := e.inline(b); err != nil {
			return err
		}
		e.w.Close('}')
	}
	if open {
		e.w.Close(']')
	}
	return nil
}

// document is the text of a document, with its title before it.
func (e *encoding) document(b *ir.Block) string {
	head := ""
	if b.Title != "" {
		head = "Document: " + b.Title + "\n"
	}
	if b.Context != "" {
		head += "Context: " + b.Context + "\n"
	}
	if head != "" {
		head += "\n"
	}
	return head + b.Text
}

// inline writes the inlineData of a part. What lies elsewhere cannot be had: the API fetches its own files alone.
func (e *encoding) inline(b *ir.Block) error {
	m := &b.Media
	switch {
	case m.FileID != "":
		return ir.Refuse(at(b), "a file id belongs to another provider")
	case m.URL != "":
		return ir.Refuse(at(b), "this provider fetches no addresses: the data itself must be sent")
	}
	if b.Detail != "" && b.Detail != "auto" {
		e.r.Lose(ir.FieldDetail)
	}
	if b.Title != "" || b.Context != "" || m.Name != "" {
		e.r.Lose(ir.FieldDocument)
	}
	data := ir.StandardBase64(m.Data)
	if len(data) == 0 || !isBase64(data) {
		return ir.Refuse(at(b), "must be base64 data")
	}
	e.w.Key("inlineData")
	e.w.Open('{')
	e.w.Field("mimeType", mimeOf(&ir.Media{MIME: m.MIME, Data: data}))
	e.w.Key("data")
	e.w.String(data)
	e.w.Close('}')
	return nil
}

// isBase64 looks at the end of data alone: images are long, and their provider checks them.
func isBase64(data string) bool {
	if len(data)%4 != 0 {
		return false
	}
	_, err := base64.StdEncoding.DecodeString(data[max(0, len(data)-64):])
	return err == nil
}
