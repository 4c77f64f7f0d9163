package openaichat

import (
	"cmp"
	"encoding/base64"
	"strings"

	"coding-proxy/proxy/ir"
)

// part is a piece of a message's content on its way out.
type part struct {
	kind  ir.BlockKind
	text  string
	block *ir.Block
	cache *ir.CacheMark
}

// part appends what a block says to the parts of the message. Results of tools that have a call are not here.
func (e *writer) part(b *ir.Block) error {
	switch b.Kind {
	case ir.Text:
		if len(b.Citations) > 0 {
			e.r.Lose(ir.FieldCitations)
		}
		e.text(ir.Text, b.Text, b.Cache)
	case ir.Refusal:
		e.text(ir.Refusal, b.Text, b.Cache)
	case ir.Document:
		return e.document(b)
	case ir.Image, ir.Audio, ir.Video:
		return e.mediaPart(b)
	case ir.ToolResult:
		if e.pairs.Orphan(b) {
			return e.orphan(b)
		}
	case ir.ToolCall: // none belongs here
		e.text(ir.Text, "[tool call "+b.Name+"] "+b.Args, b.Cache)
		if p := e.pairs.Of(b); p != nil && p.Result != nil {
			return e.orphan(p.Result)
		}
	case ir.Thinking:
		e.r.Lose(ir.FieldThinking)
	default:
		e.r.LosePath(b.LostName())
	}
	return nil
}

func (e *writer) text(kind ir.BlockKind, text string, cache *ir.CacheMark) {
	n := len(e.parts)
	switch {
	case text != "":
		e.parts = append(e.parts, part{kind: kind, text: text, cache: cache})
	case cache != nil && n > 0 && e.parts[n-1].cache == nil:
		e.parts[n-1].cache = cache
	}
}

// orphan writes a result whose call is not in the conversation as what a user says.
func (e *writer) orphan(b *ir.Block) error {
	e.text(ir.Text, "[result of tool call "+b.ID+"]", nil)
	media := e.media
	e.media = nil
	err := e.resultParts(b, 0)
	if n := len(e.parts); b.Cache != nil && n > 0 {
		e.parts[n-1].cache = b.Cache
	}
	for _, m := range e.media {
		if err == nil {
			err = e.part(m)
		}
	}
	e.media = media
	return err
}

// resultParts gathers the text of a result, and apart from it the media that a `tool` message cannot hold.
func (e *writer) resultParts(b *ir.Block, depth int) error {
	if depth > maxResultDepth {
		return ir.Refuse(b.At, "is nested too deeply")
	}
	for i := range b.Content {
		c := &b.Content[i]
		switch c.Kind {
		case ir.Text, ir.Refusal:
			e.text(ir.Text, c.Text, c.Cache)
		case ir.Document:
			if text, ok := documentText(c); ok {
				e.text(ir.Text, text, c.Cache)
			} else {
				e.media = append(e.media, c)
			}
		case ir.Image, ir.Audio, ir.Video:
			e.media = append(e.media, c)
		case ir.ToolResult:
			if err := e.resultParts(c, depth+1); err != nil {
				return err
			}
		case ir.Thinking:
			e.r.Lose(ir.FieldThinking)
		default: // a reference to a tool, a search result …: the model reads what it was
			e.text(ir.Text, string(c.Raw), c.Cache)
		}
	}
	return nil
}

// documentText is a document that can be said as text: a header with its title, then the text.
func documentText(b *ir.Block) (string, bool) {
	body := b.Text
	switch m := &b.Media; {
	case m.Data == "" && m.URL == "" && m.FileID == "":
	case m.Data != "" && strings.HasPrefix(m.MIME, "text/"):
		plain, err := base64.StdEncoding.DecodeString(m.Data)
		if err != nil {
			return "", false
		}
		body = strings.ToValidUTF8(string(plain), "\ufffd")
	default:
		return "", false
	}
	head := "[document]\n"
	if title := cmp.Or(b.Title, b.Media.Name); title != "" {
		head = "[document: " + title + "]\n"
	}
	if b.Context != "" {
		head += "[context: " + b.Context + "]\n"
	}
	return head + body, true
}

func (e *writer) document(b *ir.Block) error {
	if len(b.Citations) > 0 {
		e.r.Lose(ir.FieldCitations)
	}
	if text, ok := documentText(b); ok {
		e.text(ir.Text, text, b.Cache)
		return nil
	}
	switch {
	case b.Media.FileID != "":
		return ir.Refuse(b.At, "the file belongs to another provider")
	case b.Media.Data == "":
		return ir.Refuse(b.At, "a document must be sent inline to this model")
	}
	if b.Context != "" || b.Title != "" && b.Media.Name != "" && b.Title != b.Media.Name { // one name is all it has
		e.r.Lose(ir.FieldDocument)
	}
	e.parts = append(e.parts, part{kind: ir.Document, block: b, cache: b.Cache})
	return nil
}

// mediaPart checks that the dialect can say a picture or sound.
func (e *writer) mediaPart(b *ir.Block) error {
	m := &b.Media
	switch {
	case m.FileID != "":
		return ir.Refuse(b.At, "the file belongs to another provider")
	case m.Data == "" && m.URL == "":
		return ir.Refuse(b.At, "has no data")
	case b.Kind == ir.Audio && audioFormat(m) == "":
		return ir.Refuse(b.At, "audio must be inline wav or mp3 for this model")
	case b.Kind == ir.Video && !e.family.replays():
		return ir.Refuse(b.At, "the model takes no video")
	}
	e.parts = append(e.parts, part{kind: b.Kind, block: b, cache: b.Cache})
	return nil
}

// audioFormat is the dialect's word for inline sound, "" where it has none.
func audioFormat(m *ir.Media) string {
	if m.Data == "" {
		return ""
	}
	switch strings.ToLower(m.MIME) {
	case "audio/wav", "audio/x-wav", "audio/wave", "audio/vnd.wave":
		return "wav"
	case "audio/mp3", "audio/mpeg":
		return "mp3"
	}
	return ""
}

// content writes the gathered parts: one text as a string, more as an array. marks says that the message may carry marks
// for the cache.
func (e *writer) content(marks bool) {
	texts, marked := true, false
	for i := range e.parts {
		p := &e.parts[i]
		if p.cache != nil && !(marks && e.family.breakpoints()) {
			e.r.Lose(ir.FieldCacheMark)
			p.cache = nil
		}
		texts = texts && (p.kind == ir.Text || p.kind == ir.Refusal && e.family.vendor != openAI)
		marked = marked || p.cache != nil
	}
	if texts && !marked && (len(e.parts) == 1 || e.family.flat()) {
		e.w.String(e.joined("\n\n"))
		return
	}
	e.w.Open('[')
	for i := range e.parts {
		e.writePart(&e.parts[i])
	}
	e.w.Close(']')
}

// joined is the text of all parts.
func (e *writer) joined(between string) string {
	if len(e.parts) == 1 {
		return e.parts[0].text
	}
	var b strings.Builder
	for i := range e.parts {
		if i > 0 {
			b.WriteString(between)
		}
		b.WriteString(e.parts[i].text)
	}
	return b.String()
}

func (e *writer) writePart(p *part) {
	w := &e.w
	w.Open('{')
	switch p.kind {
	case ir.Refusal:
		if e.family.vendor == openAI {
			w.Field("type", "refusal")
			w.Field("refusal", p.text)
			break
		}
		fallthrough
	case ir.Text:
		w.Field("type", "text")
		w.Field("text", p.text)
	case ir.Image:
		w.Field("type", "image_url")
		w.Key("image_url")
		w.Open('{')
		e.address(&p.block.Media, cmp.Or(p.block.Media.Type(), "image/png"))
		w.Optional("detail", p.block.Detail)
		w.Close('}')
	case ir.Video:
		w.Field("type", "video_url")
		w.Key("video_url")
		w.Open('{')
		e.address(&p.block.Media, p.block.Media.MIME)
		w.Close('}')
	case ir.Audio:
		w.Field("type", "input_audio")
		w.Key("input_audio")
		w.Open('{')
		w.Field("data", p.block.Media.Data)
		w.Field("format", audioFormat(&p.block.Media))
		w.Close('}')
	case ir.Document:
		e.filePart(p.block)
	}
	if p.cache != nil {
		w.Key("prompt_cache_breakpoint")
		w.Open('{')
		w.Field("mode", "explicit")
		w.Optional("ttl", ttl(p.cache.TTL))
		w.Close('}')
	}
	w.Close('}')
}

// address writes {url}: an address, or the data itself.
func (e *writer) address(m *ir.Media, mime string) {
	e.w.Key("url")
	if m.Data == "" {
		e.w.String(m.URL)
		return
	}
	e.w.String("data:" + mime + ";base64," + m.Data)
}

// filePart writes file{filename,file_data}; OpenAI asks for a name.
func (e *writer) filePart(b *ir.Block) {
	m := &b.Media
	e.w.Field("type", "file")
	e.w.Key("file")
	e.w.Open('{')
	e.w.Field("filename", cmp.Or(m.Name, b.Title, "document.pdf"))
	e.w.Field("file_data", "data:"+cmp.Or(m.Type(), "application/pdf")+";base64,"+m.Data)
	e.w.Close('}')
}
