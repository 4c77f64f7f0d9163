package openairesponses

import (
	"cmp"
	"strings"

	"coding-proxy/proxy/ir"
)

// textPart writes a part of text; b, where it is not nil, knows its citations and its mark.
func (w *writer) textPart(typ, text string, b *ir.Block) {
	w.Open('{')
	w.Field("type", typ)
	w.Field("text", text)
	if b != nil && len(b.Citations) > 0 {
		if w.own {
			w.Member("annotations", b.Citations)
		} else {
			w.lost.Lose(ir.FieldCitations)
		}
	}
	if b != nil && typ == "input_text" {
		w.mark(b)
	}
	w.Close('}')
}

// mark writes where a prefix ends that shall be cached.
func (w *writer) mark(b *ir.Block) {
	if b.Cache == nil || !w.model.takesBreakpoints() {
		return
	}
	w.Key("prompt_cache_breakpoint")
	w.Open('{')
	w.Field("mode", "explicit")
	switch b.Cache.TTL { // what the API knows, and is not shorter
	case "5m", "30m":
		w.Field("ttl", "30m")
	case "1h", "12h":
		w.Field("ttl", "12h")
	}
	w.Close('}')
}

// part writes a part of a user's message or of a result.
func (w *writer) part(b *ir.Block) error {
	switch b.Kind {
	case ir.Text, ir.Refusal:
		w.textPart("input_text", b.Text, b)
		return nil
	case ir.Image:
		return w.image(b)
	case ir.Document:
		return w.document(b)
	case ir.Audio:
		return ir.Refuse(b.At, "audio cannot be sent to this provider")
	case ir.Video:
		return ir.Refuse(b.At, "video cannot be sent to this provider")
	}
	w.textPart("input_text", string(b.Raw), nil) // in results: what no one knows, e.g. tool_reference
	return nil
}

func (w *writer) image(b *ir.Block) error {
	if b.Media.FileID != "" && !w.own {
		return ir.Refuse(b.At, "a file id belongs to its provider")
	}
	w.Open('{')
	w.Field("type", "input_image")
	if b.Media.FileID != "" {
		w.Field("file_id", b.Media.FileID)
	} else {
		w.Field("image_url", urlOf(&b.Media))
	}
	detail := b.Detail
	if detail == "" {
		detail = "auto" // the API's types ask for it
	}
	w.Field("detail", detail)
	w.mark(b)
	w.Close('}')
	return nil
}

// urlOf is the address of a medium, or a data URL that holds it.
func urlOf(m *ir.Media) string {
	if m.Data == "" {
		return m.URL
	}
	return "data:" + cmp.Or(m.Type(), "application/octet-stream") + ";base64," + m.Data
}

func (w *writer) document(b *ir.Block) error {
	if b.Context != "" || b.Title != "" && b.Media.Name != "" && b.Title != b.Media.Name {
		w.lost.Lose(ir.FieldDocument)
	}
	m := &b.Media
	switch {
	case m.Data == "" && m.URL == "" && m.FileID == "": // a plain text
		text := b.Text
		if b.Title != "" {
			text = b.Title + "\n\n" + text
		}
		w.textPart("input_text", text, b)
		return nil
	case m.FileID != "" && !w.own:
		return ir.Refuse(b.At, "a file id belongs to its provider")
	}
	w.Open('{')
	w.Field("type", "input_file")
	switch {
	case m.FileID != "":
		w.Field("file_id", m.FileID)
	case m.Data != "":
		w.Field("filename", fileName(b))
		w.Field("file_data", urlOf(m))
	default:
		w.Optional("filename", cmp.Or(m.Name, b.Title))
		w.Field("file_url", m.URL)
	}
	w.mark(b)
	w.Close('}')
	return nil
}

// fileName is a document's name; the API asks for one beside bytes.
func fileName(b *ir.Block) string {
	switch {
	case b.Media.Name != "":
		return b.Media.Name
	case b.Media.Type() != "application/pdf":
		if b.Title != "" {
			return b.Title
		}
		return "document"
	case b.Title == "":
		return "document.pdf"
	case strings.HasSuffix(strings.ToLower(b.Title), ".pdf"):
		return b.Title
	}
	return b.Title + ".pdf"
}
