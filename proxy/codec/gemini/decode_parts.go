package gemini

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// openCall is a call of the history that waits for its result.
type openCall struct {
	id, name string
	own      bool // the client gave the id
}

// contents decodes the conversation.
func (rd *reader) contents(v []byte) error {
	defer rd.settle()
	if isObject(v) { // one content alone
		return rd.content(v, 0)
	}
	return array(v, "contents", func(i int, v []byte) error { return rd.content(v, i) })
}

// content decodes one content. Calls are the model's and results the user's, whatever role the client gives them, so that
// one content may become several turns.
func (rd *reader) content(v []byte, i int) error {
	at := ir.Element("contents", i)
	role := ir.User
	var all []byte
	err := object(v, at, func(key, v []byte) error {
		switch string(key) {
		case "role":
			return roleOf(v, at+".role", &role)
		case "parts":
			all = v
		default:
			rd.lose("contents.", key)
		}
		return nil
	})
	if err != nil || all == nil {
		return err
	}
	c := content{rd: rd, at: at, index: i, role: role, first: len(rd.r.Turns)}
	return parts(all, at, func(i int, v []byte) error { return c.part(v, ir.Element(at+".parts", i)) })
}

func roleOf(v []byte, at string, to *ir.Role) error {
	switch rawText(v) {
	case "user", "function", "tool", "":
		*to = ir.User
	case "model":
		*to = ir.Assistant
	default:
		return ir.Refuse(at, "must be user or model")
	}
	return nil
}

// content is one that is being decoded.
type content struct {
	rd    *reader
	at    string
	index int
	role  ir.Role
	first int // turns of the request before it

	calls, results int
}

// add appends a block to the content's last turn, or to a new one of the role. Reasoning goes on in the next part until a
// signature closes it: clients keep the pieces of a stream as they came.
func (c *content) add(role ir.Role, b ir.Block) {
	turns := c.rd.r.Turns
	if last := c.rd.last(); last != nil && (b.Kind == ir.Thinking || b.Kind == ir.Text) && role == ir.Assistant && turns[len(turns)-1].Role == role {
		if last.Kind == b.Kind && last.State == nil {
			if c.rd.more == nil {
				c.rd.more = []byte(last.Text)
			}
			c.rd.more = append(c.rd.more, b.Text...)
			last.State = b.State
			return
		}
	}
	c.rd.settle()
	if n := len(turns); n == c.first || turns[n-1].Role != role {
		turns = append(turns, ir.Turn{At: c.at, Role: role})
		c.rd.r.Turns = turns
	}
	last := &turns[len(turns)-1]
	last.Blocks = append(last.Blocks, b)
	if b.Kind != ir.ToolCall && role == ir.User {
		c.rd.closed = true
	}
}

// last is the last block of all, nil where there is none.
func (rd *reader) last() *ir.Block {
	if len(rd.r.Turns) == 0 {
		return nil
	}
	blocks := rd.r.Turns[len(rd.r.Turns)-1].Blocks
	return &blocks[len(blocks)-1]
}

// settle gives the last block the text that was gathered for it.
func (rd *reader) settle() {
	if rd.more != nil {
		rd.last().Text, rd.more = string(rd.more), nil
	}
}

// part is one whose members are sorted, raw; nil = absent.
type part struct {
	text, inline, file, call, result []byte
	other                            []byte // executableCode, …
	kind                             string // of other
	thought                          bool
	signature                        string
}

// read sorts a part's members.
func (p *part) read(rd *reader, v []byte, at string) error {
	return object(v, at, func(key, v []byte) error {
		switch string(key) {
		case "text":
			p.text = v
		case "inlineData":
			p.inline = v
		case "fileData":
			p.file = v
		case "functionCall":
			p.call = v
		case "functionResponse":
			p.result = v
		case "executableCode", "codeExecutionResult", "toolCall", "toolResponse":
			p.other, p.kind = v, string(key)
		case "thought":
			return boolean(v, at+".thought", &p.thought)
		case "thoughtSignature":
			return text(v, at+".thoughtSignature", &p.signature)
		default: // videoMetadata, mediaResolution, partMetadata, speechMetadata, …
			rd.lose("parts.", key)
		}
		return nil
	})
}

func (c *content) part(v []byte, at string) error {
	var p part
	if err := p.read(c.rd, v, at); err != nil {
		return err
	}
	switch {
	case p.call != nil:
		return c.call(&p, at)
	case p.result != nil:
		return c.result(p.result, at)
	case p.inline != nil:
		b, err := c.rd.media(p.inline, at+".inlineData")
		b.At = at
		c.add(c.role, b)
		return err
	case p.file != nil:
		return ir.Refuse(at+".fileData", "a file of another provider cannot be used here")
	case p.other != nil:
		c.add(c.role, ir.Block{Kind: ir.Opaque, At: at, Type: p.kind, Raw: bytes.Clone(v)})
		return nil
	case p.text == nil && p.signature == "":
		return nil // says nothing
	}
	b := ir.Block{Kind: ir.Text, At: at}
	if p.text != nil {
		if err := text(p.text, at+".text", &b.Text); err != nil {
			return err
		}
	}
	if p.thought {
		b.Kind = ir.Thinking
	}
	if p.signature != "" {
		s := unseal(p.signature)
		if s.Attach == ir.AttachCall {
			if c.rd.signed = &s; b.Text == "" {
				return nil
			}
		} else {
			b.State = &s
		}
	}
	c.add(c.role, b)
	return nil
}

// call decodes a functionCall. One without an id gets one by its place, the same in every request of the conversation.
func (c *content) call(p *part, at string) error {
	rd := c.rd
	at += ".functionCall"
	b := ir.Block{Kind: ir.ToolCall, At: at, State: rd.signed}
	rd.signed = nil
	err := object(p.call, at, func(key, v []byte) error {
		switch string(key) {
		case "id":
			return text(v, at+".id", &b.ID)
		case "name":
			return text(v, at+".name", &b.Name)
		case "args":
			if !isObject(v) {
				return ir.Refuse(at+".args", "must be an object")
			}
			b.Args = string(v)
		default:
			rd.lose("functionCall.", key)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if b.Name == "" {
		return ir.Refuse(at+".name", "is required")
	}
	if p.signature != "" && p.signature != placeholder {
		s := unseal(p.signature)
		if s.Attach != ir.AttachBefore {
			s.Attach = ir.AttachSelf // it stands on the call itself
		}
		b.State = &s
	}
	own := b.ID != ""
	if !own {
		b.ID = "fc_" + strconv.Itoa(c.index) + "_" + strconv.Itoa(c.calls)
	}
	c.calls++
	if rd.closed {
		rd.open, rd.closed = rd.open[:0], false
	}
	rd.open = append(rd.open, openCall{b.ID, b.Name, own})
	c.add(ir.Assistant, b)
	return nil
}

// result decodes a functionResponse and finds its call: by id, else by name and order.
func (c *content) result(v []byte, at string) error {
	rd := c.rd
	at += ".functionResponse"
	b := ir.Block{Kind: ir.ToolResult, At: at}
	var response, media []byte
	err := object(v, at, func(key, v []byte) error {
		switch string(key) {
		case "id":
			return text(v, at+".id", &b.ID)
		case "name":
			return text(v, at+".name", &b.Name)
		case "response":
			response = v
		case "parts":
			media = v
		default: // scheduling, willContinue
			rd.lose("functionResponse.", key)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if response != nil {
		if err := outcome(&b, response, at+".response"); err != nil {
			return err
		}
	}
	if media != nil {
		if err := rd.resultMedia(&b, media, at); err != nil {
			return err
		}
	}
	b.ID = rd.pair(b.ID, b.Name)
	if b.ID == "" {
		b.ID = "fr_" + strconv.Itoa(c.index) + "_" + strconv.Itoa(c.results)
	}
	c.results++
	c.add(ir.User, b)
	return nil
}

// pair takes the call that a result answers off the open ones and returns its id; "" = there is none.
func (rd *reader) pair(id, name string) string {
	take := func(fits func(openCall) bool) string {
		for i, o := range rd.open {
			if fits(o) {
				if i == 0 { // in order, as results usually come
					rd.open = rd.open[1:]
				} else {
					rd.open = slices.Delete(rd.open, i, i+1)
				}
				return o.id
			}
		}
		return ""
	}
	if id != "" {
		if found := take(func(o openCall) bool { return o.own && o.id == id }); found != "" {
			return found
		}
		// The client may number its results alone.
		if found := take(func(o openCall) bool { return !o.own && o.name == name }); found != "" {
			return found
		}
		return id
	}
	return take(func(o openCall) bool { return name == "" || o.name == name })
}

// outcome reads what a result says. {"output": text} is that text and {"error": …} an error; any other object is said as
// it is written.
func outcome(b *ir.Block, v []byte, at string) error {
	if !isObject(v) {
		return ir.Refuse(at, "must be an object")
	}
	said := string(v)
	if output, failure := soleMember(v); output != nil {
		said, _ = rawjson.String(output)
	} else if failure != nil {
		b.IsError = true
		var ok bool
		if said, ok = rawjson.String(failure); !ok {
			said = string(failure)
		}
	}
	if said != "" {
		b.Content = append(b.Content, ir.Block{Kind: ir.Text, At: at, Text: said})
	}
	return nil
}

// soleMember returns the text of an object that has nothing but "output", and the value of one that has nothing but
// "error".
func soleMember(v []byte) (output, failure []byte) {
	members := 0
	_ = rawjson.Walk(v, func(key []byte, f rawjson.Field) error {
		members++
		value := f.Value(v)
		switch string(key) {
		case "output":
			if value[0] == '"' {
				output = value
			}
		case "error":
			failure = value
		}
		return nil
	})
	if members != 1 {
		return nil, nil
	}
	return output, failure
}

// resultMedia decodes the parts of a result.
func (rd *reader) resultMedia(b *ir.Block, v []byte, at string) error {
	return parts(v, at, func(i int, v []byte) error {
		at := ir.Element(at+".parts", i)
		return object(v, at, func(key, v []byte) error {
			switch string(key) {
			case "inlineData":
				m, err := rd.media(v, at+".inlineData")
				m.At = at
				b.Content = append(b.Content, m)
				return err
			case "fileData":
				return ir.Refuse(at+".fileData", "a file of another provider cannot be used here")
			}
			rd.lose("functionResponse.parts.", key)
			return nil
		})
	})
}

// media decodes inlineData.
func (rd *reader) media(v []byte, at string) (b ir.Block, err error) {
	err = object(v, at, func(key, v []byte) error {
		switch string(key) {
		case "mimeType":
			return text(v, at+".mimeType", &b.Media.MIME)
		case "data":
			return text(v, at+".data", &b.Media.Data)
		case "displayName":
			return text(v, at+".displayName", &b.Media.Name)
		}
		rd.lose("inlineData.", key)
		return nil
	})
	if err != nil {
		return b, err
	}
	m := &b.Media
	if m.Data == "" {
		return b, ir.Refuse(at+".data", "is required")
	}
	m.Data = ir.StandardBase64(m.Data)
	m.MIME = mimeOf(m)
	b.Kind = mediaKind(m.MIME)
	if b.Kind == ir.Document && isText(m.MIME) {
		plain, err := base64.StdEncoding.DecodeString(m.Data)
		if err != nil {
			return b, ir.Refuse(at+".data", "must be base64")
		}
		b.Text, m.Data, b.Title, m.Name = string(plain), "", m.Name, ""
	}
	return b, nil
}

// mediaKind is the kind of block that a media type makes.
func mediaKind(mime string) ir.BlockKind {
	switch kind, _, _ := strings.Cut(mime, "/"); kind {
	case "image":
		return ir.Image
	case "audio":
		return ir.Audio
	case "video":
		return ir.Video
	}
	return ir.Document
}

// isText reports whether a document is text that any model can read.
func isText(mime string) bool {
	return strings.HasPrefix(mime, "text/") || mime == "application/json" || mime == "application/xml"
}

// mimeOf is a media type; the API wants one.
func mimeOf(m *ir.Media) string { return cmp.Or(m.Type(), "application/octet-stream") }
