package openairesponses

import (
	"bytes"
	"strings"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// part holds the raw members of a part of a content.
type part struct {
	typ, text, refusal, annotations, logprobs, breakpoint []byte
	imageURL, detail                                      []byte
	fileID, fileData, fileURL, filename                   []byte
	audio                                                 []byte
}

// slot returns where a member is kept, nil for one that is not known.
func (p *part) slot(key []byte) *[]byte {
	switch string(key) {
	case "type":
		return &p.typ
	case "text":
		return &p.text
	case "refusal":
		return &p.refusal
	case "annotations":
		return &p.annotations
	case "logprobs":
		return &p.logprobs
	case "prompt_cache_breakpoint":
		return &p.breakpoint
	case "image_url":
		return &p.imageURL
	case "detail":
		return &p.detail
	case "file_id":
		return &p.fileID
	case "file_data":
		return &p.fileData
	case "file_url":
		return &p.fileURL
	case "filename":
		return &p.filename
	case "input_audio":
		return &p.audio
	}
	return nil
}

// parts decodes a content: a text or parts. Empty texts say nothing and are left out.
func (d *reader) parts(at string, raw []byte) (blocks []ir.Block, err error) {
	if isNull(raw) {
		return nil, nil
	}
	if raw[0] == '"' {
		text, err := textOf(at, "", raw)
		if text != "" {
			blocks = []ir.Block{{Kind: ir.Text, At: at, Text: text}}
		}
		return blocks, err
	}
	if raw[0] != '[' {
		return nil, ir.Refuse(at, "must be a string or an array")
	}
	err = rawjson.Elements(raw, func(i int, raw []byte) error {
		b, err := d.part(ir.Element(at, i), raw)
		if err == nil && b.Kind != 0 {
			blocks = append(blocks, b)
		}
		return err
	})
	return blocks, err
}

// part decodes one part; one without text has no kind.
func (d *reader) part(at string, raw []byte) (b ir.Block, err error) {
	if raw[0] != '{' {
		return b, ir.Refuse(at, "must be an object")
	}
	var p part
	err = rawjson.Walk(raw, func(key []byte, f rawjson.Field) error {
		v := f.Value(raw)
		if isNull(v) {
			return nil
		}
		if s := p.slot(key); s != nil {
			*s = v
		} else {
			d.lose(string(key))
		}
		return nil
	})
	if err != nil {
		return b, err
	}
	typ, err := textOf(at, ".type", p.typ)
	if err != nil {
		return b, err
	}
	b.At = at
	switch typ {
	case "input_text", "output_text", "text":
		err = d.textPart(&b, &p)
	case "refusal":
		if b.Text, err = textOf(at, ".refusal", p.refusal); b.Text != "" {
			b.Kind = ir.Refusal
		}
	case "input_image":
		err = d.imagePart(&b, &p)
	case "input_file":
		err = d.filePart(&b, &p)
	case "input_audio":
		err = audioPart(&b, &p)
	default:
		err = ir.Refuse(at+".type", "is a kind of content that cannot be converted")
	}
	if err == nil && p.breakpoint != nil && b.Kind != 0 {
		b.Cache = &ir.CacheMark{}
		b.Cache.TTL, _ = rawjson.String(rawjson.Get(p.breakpoint, "ttl"))
	}
	return b, err
}

func (d *reader) textPart(b *ir.Block, p *part) (err error) {
	if b.Text, err = textOf(b.At, ".text", p.text); err != nil || b.Text == "" {
		return err
	}
	b.Kind = ir.Text
	if len(p.annotations) > 2 && p.annotations[0] == '[' {
		b.Citations = bytes.Clone(p.annotations)
	}
	if len(p.logprobs) > 2 {
		d.lose("logprobs")
	}
	return nil
}

// imagePart decodes an image. The detail auto is the same as none.
func (d *reader) imagePart(b *ir.Block, p *part) (err error) {
	b.Kind = ir.Image
	if b.Detail, err = textOf(b.At, ".detail", p.detail); err != nil {
		return err
	}
	if b.Detail == "auto" {
		b.Detail = ""
	}
	if b.Media.FileID, err = textOf(b.At, ".file_id", p.fileID); err != nil {
		return err
	}
	url, err := textOf(b.At, ".image_url", p.imageURL)
	switch {
	case err != nil:
		return err
	case url == "" && b.Media.FileID == "":
		return ir.Refuse(b.At+".image_url", "must be a URL")
	case url != "":
		return putURL(&b.Media, b.At+".image_url", url)
	}
	return nil
}

// filePart decodes a file: its bytes with or without the head of a data URL, an address or an id.
func (d *reader) filePart(b *ir.Block, p *part) (err error) {
	b.Kind = ir.Document
	m := &b.Media
	if m.Name, err = textOf(b.At, ".filename", p.filename); err != nil {
		return err
	}
	if detail, _ := rawjson.String(p.detail); detail != "" && detail != "auto" {
		d.r.Lose(ir.FieldDetail)
	}
	data, err := textOf(b.At, ".file_data", p.fileData)
	if err != nil {
		return err
	}
	url, err := textOf(b.At, ".file_url", p.fileURL)
	if err != nil {
		return err
	}
	id, err := textOf(b.At, ".file_id", p.fileID)
	switch {
	case err != nil:
		return err
	case strings.HasPrefix(data, "data:"):
		return putURL(m, b.At+".file_data", data)
	case data != "":
		if m.Data = ir.StandardBase64(data); strings.HasSuffix(strings.ToLower(m.Name), ".pdf") {
			m.MIME = "application/pdf"
		}
	case url != "":
		return putURL(m, b.At+".file_url", url)
	case id != "":
		m.FileID = id
	default:
		return ir.Refuse(b.At, "must have file_data, file_url or file_id")
	}
	return nil
}

func audioPart(b *ir.Block, p *part) error {
	b.Kind = ir.Audio
	data, ok := rawjson.String(rawjson.Get(p.audio, "data"))
	if !ok || data == "" {
		return ir.Refuse(b.At+".input_audio.data", "must be a string")
	}
	b.Media.Data = ir.StandardBase64(data)
	switch format, _ := rawjson.String(rawjson.Get(p.audio, "format")); format {
	case "wav":
		b.Media.MIME = "audio/wav"
	case "mp3":
		b.Media.MIME = "audio/mpeg"
	default:
		return ir.Refuse(b.At+".input_audio.format", "must be wav or mp3")
	}
	return nil
}

// putURL takes an address, or what a data URL holds.
func putURL(m *ir.Media, at, url string) error {
	found, ok := ir.MediaAt(url)
	if !ok {
		return ir.Refuse(at, "must hold data where it is a data URL")
	}
	found.Name = m.Name
	*m = found
	return nil
}
