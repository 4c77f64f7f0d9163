package anthropic

import (
	"bytes"
	"strings"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// maxNesting bounds results in results.
const maxNesting = 8

// The members of content blocks.
const (
	mType = iota
	mText
	mCitations
	mCache
	mSource
	mTitle
	mContext
	mContent
	mThinking
	mSignature
	mData
	mID
	mName
	mInput
	mToolUseID
	mIsError
	mCaller
	mToolName
	members
)

// memberNames are their names. Nobody changes the table.
var memberNames = [members]string{
	"type", "text", "citations", "cache_control", "source", "title", "context", "content", "thinking", "signature", "data",
	"id", "name", "input", "tool_use_id", "is_error", "caller", "tool_name",
}

// block is a content block whose members are sorted, raw; nil = absent or null.
type block struct {
	at      string
	raw     []byte
	kind    string
	values  [members][]byte
	unknown [][]byte // names
}

// sort reads a block's members.
func (b *block) sort() error {
	err := object(b.raw, b.at, func(key, v []byte) error {
		for i := range memberNames {
			if memberNames[i] == string(key) {
				b.values[i] = v
				return nil
			}
		}
		b.unknown = append(b.unknown, bytes.Clone(key))
		return nil
	})
	if err != nil {
		return err
	}
	return b.text(mType, &b.kind)
}

// text decodes a member that must be a string where it is there.
func (b *block) text(member int, to *string) error {
	if b.values[member] == nil {
		return nil
	}
	return text(b.values[member], b.at+"."+memberNames[member], to)
}

// need is text for a member that must be there.
func (b *block) need(member int, to *string) error {
	if b.values[member] == nil {
		return ir.Refuse(b.at+"."+memberNames[member], "is required")
	}
	return b.text(member, to)
}

// left names the members that the decoding of the block has no use for.
func (rd *reader) left(b *block, used ...int) {
	known := uint32(1<<mType | 1<<mCache)
	for _, m := range used {
		known |= 1 << m
	}
	for i := range b.values {
		if b.values[i] != nil && known&(1<<i) == 0 {
			rd.lose([]byte(memberNames[i]))
		}
	}
	for _, name := range b.unknown {
		rd.lose(name)
	}
}

// content decodes a text or an array of blocks.
func (rd *reader) content(raw []byte, at string, depth int) ([]ir.Block, error) {
	if raw[0] == '"' {
		var s string
		err := text(raw, at, &s)
		return []ir.Block{{Kind: ir.Text, At: at, Text: s}}, err
	}
	if raw[0] != '[' {
		return nil, ir.Refuse(at, "must be a string or an array of blocks")
	}
	blocks := make([]ir.Block, 0, 1) // most have one or two
	err := array(raw, at, func(i int, v []byte) error {
		b := block{at: ir.Element(at, i), raw: v}
		if err := b.sort(); err != nil {
			return err
		}
		first := len(blocks)
		var err error
		if blocks, err = rd.block(blocks, &b, depth); err != nil {
			return err
		}
		if b.values[mCache] != nil && len(blocks) > first {
			blocks[len(blocks)-1].Cache, err = rd.mark(b.values[mCache], b.at+".cache_control")
		}
		return err
	})
	return blocks, err
}

// block appends what a content block becomes.
func (rd *reader) block(dst []ir.Block, b *block, depth int) ([]ir.Block, error) {
	switch b.kind {
	case "text":
		return rd.textBlock(dst, b)
	case "image":
		return rd.image(dst, b)
	case "document":
		return rd.document(dst, b, depth)
	case "search_result":
		return rd.searchResult(dst, b, depth)
	case "thinking":
		return rd.thought(dst, b)
	case "redacted_thinking":
		return rd.redacted(dst, b)
	case "tool_use":
		return rd.call(dst, b)
	case "tool_result":
		return rd.result(dst, b, depth)
	case "tool_reference":
		var name string
		err := b.need(mToolName, &name)
		rd.left(b, mToolName)
		return append(dst, ir.Block{Kind: ir.Text, At: b.at, Text: "Tool loaded: " + name}), err
	case "server_tool_use", "mcp_tool_use":
		h := ir.Block{Kind: ir.HostedCall, At: b.at, Type: b.kind, Raw: bytes.Clone(b.raw)}
		if err := b.text(mID, &h.ID); err != nil {
			return dst, err
		}
		err := b.text(mName, &h.Name)
		return append(dst, h), err
	case "":
		return dst, ir.Refuse(b.at+".type", "is required")
	}
	h := ir.Block{Kind: ir.Opaque, At: b.at, Type: b.kind, Raw: bytes.Clone(b.raw)}
	if strings.HasSuffix(b.kind, "_tool_result") {
		h.Kind = ir.HostedResult
		if err := b.text(mToolUseID, &h.ID); err != nil {
			return dst, err
		}
	}
	return append(dst, h), nil
}

func (rd *reader) textBlock(dst []ir.Block, b *block) ([]ir.Block, error) {
	out := ir.Block{Kind: ir.Text, At: b.at}
	if err := b.need(mText, &out.Text); err != nil {
		return dst, err
	}
	if c := b.values[mCitations]; c != nil && first(c) == '[' && string(c) != "[]" {
		out.Citations = bytes.Clone(c)
	}
	rd.left(b, mText, mCitations)
	return append(dst, out), nil
}

// source is where a block's bytes are.
type source struct {
	kind, mime, data, url string
	content               []byte
}

func (b *block) source() (s source, err error) {
	at := b.at + ".source"
	if b.values[mSource] == nil {
		return s, ir.Refuse(at, "is required")
	}
	err = object(b.values[mSource], at, func(key, v []byte) error {
		switch string(key) {
		case "type":
			return text(v, at+".type", &s.kind)
		case "media_type":
			return text(v, at+".media_type", &s.mime)
		case "data":
			return text(v, at+".data", &s.data)
		case "url":
			return text(v, at+".url", &s.url)
		case "content":
			s.content = v
		}
		return nil
	})
	if err == nil && s.kind == "file" {
		err = ir.Refuse(at, "a file id belongs to another provider")
	}
	return s, err
}

func (rd *reader) image(dst []ir.Block, b *block) ([]ir.Block, error) {
	s, err := b.source()
	if err != nil {
		return dst, err
	}
	out := ir.Block{Kind: ir.Image, At: b.at}
	switch {
	case s.kind == "base64" && s.data != "":
		out.Media = ir.Media{MIME: s.mime, Data: ir.StandardBase64(s.data)}
	case s.kind == "url" && s.url != "":
		out.Media = ir.Media{URL: s.url}
	default:
		return dst, ir.Refuse(b.at+".source", "must be base64 data or a URL")
	}
	rd.left(b, mSource)
	return append(dst, out), nil
}

// document decodes a document; one that is made of blocks becomes text, with its images behind it.
func (rd *reader) document(dst []ir.Block, b *block, depth int) ([]ir.Block, error) {
	s, err := b.source()
	if err != nil {
		return dst, err
	}
	out := ir.Block{Kind: ir.Document, At: b.at}
	if err := b.text(mTitle, &out.Title); err != nil {
		return dst, err
	}
	if err := b.text(mContext, &out.Context); err != nil {
		return dst, err
	}
	if string(rawjson.Get(b.values[mCitations], "enabled")) == "true" {
		rd.r.Lose(ir.FieldCitations)
	}
	rd.left(b, mSource, mTitle, mContext, mCitations)
	var images []ir.Block
	switch {
	case s.kind == "base64" && s.data != "":
		out.Media = ir.Media{MIME: s.mime, Data: ir.StandardBase64(s.data)}
	case s.kind == "url" && s.url != "":
		out.Media = ir.Media{MIME: "application/pdf", URL: s.url}
	case s.kind == "text":
		out.Media.MIME, out.Text = "text/plain", s.data
	case s.kind == "content" && s.content != nil:
		out.Media.MIME = "text/plain"
		if out.Text, images, err = rd.nested(s.content, b.at+".source.content", depth); err != nil {
			return dst, err
		}
	default:
		return dst, ir.Refuse(b.at+".source", "must be base64 data, a URL, text or content")
	}
	return append(append(dst, out), images...), nil
}

// nested decodes content that becomes one text; what is no text comes apart.
func (rd *reader) nested(raw []byte, at string, depth int) (joined string, rest []ir.Block, err error) {
	if depth == maxNesting {
		return "", nil, ir.Refuse(at, "is nested too deeply")
	}
	blocks, err := rd.content(raw, at, depth+1)
	var texts []string
	for i := range blocks {
		if blocks[i].Kind == ir.Text {
			texts = append(texts, blocks[i].Text)
		} else {
			rest = append(rest, blocks[i])
		}
	}
	return strings.Join(texts, "\n"), rest, err
}

// searchResult becomes a text with a header: no other dialect has such a block.
func (rd *reader) searchResult(dst []ir.Block, b *block, depth int) ([]ir.Block, error) {
	var title, source string
	if err := b.text(mTitle, &title); err != nil {
		return dst, err
	}
	if err := b.text(mSource, &source); err != nil {
		return dst, err
	}
	if b.values[mContent] == nil {
		return dst, ir.Refuse(b.at+".content", "is required")
	}
	body, rest, err := rd.nested(b.values[mContent], b.at+".content", depth)
	if err != nil {
		return dst, err
	}
	if string(rawjson.Get(b.values[mCitations], "enabled")) == "true" {
		rd.r.Lose(ir.FieldCitations)
	}
	rd.left(b, mTitle, mSource, mContent, mCitations)
	dst = append(dst, ir.Block{Kind: ir.Text, At: b.at, Text: "Search result: " + title + "\nSource: " + source + "\n\n" + body})
	return append(dst, rest...), nil
}

func (rd *reader) thought(dst []ir.Block, b *block) ([]ir.Block, error) {
	out := ir.Block{Kind: ir.Thinking, At: b.at}
	if err := b.text(mThinking, &out.Text); err != nil {
		return dst, err
	}
	var signature string
	if err := b.text(mSignature, &signature); err != nil {
		return dst, err
	}
	rd.left(b, mThinking, mSignature)
	if signature != "" {
		s := ir.Unseal(signature)
		if s.Attach == ir.AttachCall {
			if rd.signed = &s; out.Text == "" {
				return dst, nil
			}
		} else {
			out.State = &s
		}
	}
	return append(dst, out), nil
}

func (rd *reader) redacted(dst []ir.Block, b *block) ([]ir.Block, error) {
	var data string
	if err := b.need(mData, &data); err != nil {
		return dst, err
	}
	rd.left(b, mData)
	s := ir.Unseal(data)
	if s.Attach == ir.AttachCall {
		rd.signed = &s
		return dst, nil
	}
	s.Redacted = true
	return append(dst, ir.Block{Kind: ir.Thinking, At: b.at, State: &s}), nil
}

func (rd *reader) call(dst []ir.Block, b *block) ([]ir.Block, error) {
	out := ir.Block{Kind: ir.ToolCall, At: b.at, Args: string(b.values[mInput]), State: rd.signed}
	rd.signed = nil
	if err := b.text(mID, &out.ID); err != nil {
		return dst, err
	}
	if err := b.need(mName, &out.Name); err != nil {
		return dst, err
	}
	if b.values[mSignature] != nil && string(b.values[mSignature]) == `""` {
		b.values[mSignature] = nil // other proxies put it there (CNV-022); it says nothing
	}
	if caller := b.values[mCaller]; caller != nil && string(rawjson.Get(caller, "type")) == `"direct"` {
		b.values[mCaller] = nil // the default
	}
	rd.left(b, mID, mName, mInput)
	return append(dst, out), nil
}

func (rd *reader) result(dst []ir.Block, b *block, depth int) ([]ir.Block, error) {
	if depth == maxNesting {
		return dst, ir.Refuse(b.at, "is nested too deeply")
	}
	out := ir.Block{Kind: ir.ToolResult, At: b.at}
	if err := b.need(mToolUseID, &out.ID); err != nil {
		return dst, err
	}
	if v := b.values[mIsError]; v != nil {
		if err := boolean(v, b.at+".is_error", &out.IsError); err != nil {
			return dst, err
		}
	}
	rd.left(b, mToolUseID, mIsError, mContent)
	if b.values[mContent] == nil {
		return append(dst, out), nil
	}
	var err error
	out.Content, err = rd.content(b.values[mContent], b.at+".content", depth+1)
	return append(dst, out), err
}
