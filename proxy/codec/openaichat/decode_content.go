package openaichat

import (
	"encoding/base64"
	"strings"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// content appends the blocks of a message's content: a string or parts. Empty text says nothing and is left out.
func (d *reader) content(blocks []ir.Block, at string, v []byte) ([]ir.Block, error) {
	switch {
	case v == nil:
		return blocks, nil
	case isString(v):
		if s, _ := rawjson.String(v); s != "" {
			blocks = append(blocks, ir.Block{Kind: ir.Text, At: at + ".content", Text: s})
		}
		return blocks, nil
	case !isArray(v):
		return nil, ir.Refuse(at+".content", "must be a string or an array")
	}
	err := rawjson.Elements(v, func(i int, v []byte) error {
		b := ir.Block{At: ir.Element(at+".content", i)}
		if err := d.part(&b, v); err != nil {
			return err
		}
		if b.Text != "" || b.Kind != ir.Text && b.Kind != ir.Thinking && b.Kind != ir.Refusal {
			blocks = append(blocks, b)
		} else if n := len(blocks); b.Cache != nil && n > 0 {
			blocks[n-1].Cache = b.Cache
		}
		return nil
	})
	return blocks, err
}

// part reads one part of a content.
func (d *reader) part(b *ir.Block, raw []byte) error {
	var kind string
	var value []byte
	err := object(b.At, "", raw, func(key string, v []byte) (err error) {
		switch key {
		case "type":
			kind, err = text(b.At, ".type", v)
		case "text", "image_url", "input_audio", "file", "refusal", "video_url", "thinking":
			value = v
		case "cache_control", "prompt_cache_breakpoint":
			b.Cache, err = d.cacheMark(b.At, key, v)
		default:
			d.lose(key)
		}
		return err
	})
	if err != nil {
		return err
	}
	if value == nil {
		value = rawjson.Get(raw, kind)
	}
	switch kind {
	case "text":
		b.Kind = ir.Text
		b.Text, err = text(b.At, ".text", value)
	case "refusal":
		b.Kind = ir.Refusal
		b.Text, err = text(b.At, ".refusal", value)
	case "thinking": // Mistral's
		b.Kind = ir.Thinking
		b.Text = looseText(value)
	case "image_url":
		b.Kind = ir.Image
		err = d.image(b, value)
	case "video_url":
		b.Kind = ir.Video
		err = d.media(b, ".video_url", value)
	case "input_audio":
		b.Kind = ir.Audio
		err = d.audio(b, value)
	case "file":
		b.Kind = ir.Document
		err = d.file(b, value)
	case "":
		err = ir.Refuse(b.At+".type", "is missing")
	default:
		err = ir.Refuse(b.At+".type", "is not a known value")
	}
	return err
}

// image reads image_url{url,detail}, and a bare address as some clients send it.
func (d *reader) image(b *ir.Block, v []byte) (err error) {
	if isObject(v) {
		if detail := rawjson.Get(v, "detail"); !isNull(detail) {
			if b.Detail, err = text(b.At, ".image_url.detail", detail); err != nil {
				return err
			}
		}
	}
	return d.media(b, ".image_url", v)
}

// media reads {url} or a bare address.
func (d *reader) media(b *ir.Block, name string, v []byte) error {
	if isObject(v) {
		v = rawjson.Get(v, "url")
		name += ".url"
	}
	address, err := text(b.At, name, v)
	if err != nil {
		return err
	}
	var ok bool
	switch b.Media, ok = ir.MediaAt(address); {
	case !ok:
		return ir.Refuse(b.At+name, "must hold base64 data")
	case b.Media.Data == "" && !strings.Contains(address, "://"):
		return ir.Refuse(b.At+name, "must be a data URL or an address")
	}
	return nil
}

// audio reads input_audio{data,format}.
func (d *reader) audio(b *ir.Block, v []byte) error {
	if !isObject(v) {
		return ir.Refuse(b.At+".input_audio", "must be an object")
	}
	data, err := text(b.At, ".input_audio.data", rawjson.Get(v, "data"))
	if err != nil {
		return err
	}
	format, err := text(b.At, ".input_audio.format", rawjson.Get(v, "format"))
	if err != nil {
		return err
	}
	b.Media = ir.Media{MIME: "audio/" + format, Data: ir.StandardBase64(data)}
	return nil
}

// file reads file{file_id} or file{file_data,filename}. What is an image or plain text becomes that.
func (d *reader) file(b *ir.Block, v []byte) error {
	var data string
	err := object(b.At, ".file", v, func(key string, v []byte) (err error) {
		switch key {
		case "file_id":
			b.Media.FileID, err = text(b.At, ".file.file_id", v)
		case "filename":
			b.Media.Name, err = text(b.At, ".file.filename", v)
		case "file_data":
			data, err = text(b.At, ".file.file_data", v)
		default:
			d.lose("file." + key)
		}
		return err
	})
	if err != nil || b.Media.FileID != "" {
		return err
	}
	name := b.Media.Name
	if data == "" {
		return ir.Refuse(b.At+".file.file_data", "is missing")
	}
	m, ok := ir.MediaAt(data)
	switch {
	case !ok:
		return ir.Refuse(b.At+".file.file_data", "must hold base64 data")
	case m.URL != "": // no data URL, but the data itself
		m = ir.Media{MIME: "application/pdf", Data: ir.StandardBase64(data)}
	}
	b.Media = m
	b.Media.Name = name
	switch mime := b.Media.MIME; {
	case strings.HasPrefix(mime, "image/"):
		b.Kind = ir.Image
	case strings.HasPrefix(mime, "text/"):
		plain, err := base64.StdEncoding.DecodeString(b.Media.Data)
		if err != nil {
			return ir.Refuse(b.At+".file.file_data", "must hold base64 data")
		}
		b.Text, b.Title, b.Media = strings.ToValidUTF8(string(plain), "\ufffd"), name, ir.Media{}
	}
	return nil
}
