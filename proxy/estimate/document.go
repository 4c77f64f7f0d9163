package estimate

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
)

// Anthropic shows the model each page of a PDF as an image beside its text, 1,500 to 3,000 tokens of text by its PDF
// support page; dense pages measured with count_tokens came to about 3,000 in all.
const (
	pageTokens   = 3000
	bytesPerPage = 50_000 // where compression hides the page objects: about a page of text with its share of fonts
	unknownPages = 5      // a document behind a URL or a file id: not looked at, so a short one
)

// source is where an image or a document comes from: base64, text, content, url or file by Type.
type source struct {
	Type    string          `json:"type"`
	Data    string          `json:"data"`
	Content json.RawMessage `json:"content"`
}

func (c *counter) document(raw json.RawMessage, at string, depth int) error {
	var b struct {
		Source  source `json:"source"`
		Title   string `json:"title"`
		Context string `json:"context"`
	}
	if err := decode(raw, &b, at, "an object"); err != nil {
		return err
	}
	c.tokens += Text(b.Title) + Text(b.Context)
	switch b.Source.Type {
	case "text":
		c.tokens += Text(b.Source.Data)
	case "content":
		return c.content(b.Source.Content, at+".source.content", depth+1)
	case "base64":
		c.tokens += pages(b.Source.Data) * pageTokens
	default:
		c.tokens += unknownPages * pageTokens
	}
	return nil
}

// pages counts the page objects of a base64 PDF, or guesses from its size if it shows none.
func pages(data string) int {
	pdf, _ := base64.StdEncoding.DecodeString(data) // up to a fault in it, as good as anything for an estimate
	n := 0
	for _, key := range []string{"/Type/Page", "/Type /Page"} {
		// /Pages is a node of the tree above the pages.
		n += bytes.Count(pdf, []byte(key)) - bytes.Count(pdf, []byte(key+"s"))
	}
	if n > 0 {
		return n
	}
	return 1 + len(pdf)/bytesPerPage
}
