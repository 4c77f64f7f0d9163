package estimate

import (
	"encoding/json"
	"strconv"
)

// maxDepth is how deep blocks may lie in blocks and be looked into: a tool_result holds a document that holds an image.
// What lies deeper is counted by its JSON text, which keeps the work linear in the body's size.
const maxDepth = 6

// The wrapping of a tool call and of its result in the prompt: invocation markup and the ids. Not documented; judged
// by the markup that Anthropic showed while tool use was in beta.
const (
	toolUseOverhead    = 16
	toolResultOverhead = 12
)

// content adds a string or an array of blocks, the value of the field at.
func (c *counter) content(raw json.RawMessage, at string, depth int) error {
	switch {
	case absent(raw):
		return &FieldError{at, "is required"}
	case raw[0] == '"':
		var text string
		if err := decode(raw, &text, at, "a string"); err != nil {
			return err
		}
		c.tokens += Text(text)
		return nil
	case raw[0] != '[':
		return &FieldError{at, "must be a string or an array of blocks"}
	}
	var blocks []json.RawMessage
	if err := decode(raw, &blocks, at, "an array"); err != nil {
		return err
	}
	for i, b := range blocks {
		if err := c.block(b, at+"."+strconv.Itoa(i), depth); err != nil {
			return err
		}
	}
	return nil
}

// block adds one content block. Fields that the model does not read are left out: ids, cache_control, citations (whose
// cited_text Anthropic does not count).
func (c *counter) block(raw json.RawMessage, at string, depth int) error {
	if depth > maxDepth {
		c.tokens += opaqueJSON(raw)
		return nil
	}
	var b struct {
		Type string `json:"type"`
	}
	if err := decode(raw, &b, at, "an object"); err != nil {
		return err
	}
	switch b.Type {
	case "text":
		return c.text(raw, at)
	case "image":
		return c.image(raw, at)
	case "document":
		return c.document(raw, at, depth)
	case "thinking", "redacted_thinking":
		return c.thinking(raw, at)
	case "tool_use", "server_tool_use", "mcp_tool_use":
		return c.toolUse(raw, at)
	case "tool_result", "mcp_tool_result":
		return c.toolResult(raw, at, depth)
	case "search_result":
		return c.searchResult(raw, at, depth)
	case "web_fetch_tool_result":
		return c.webFetchResult(raw, at, depth)
	case "tool_reference":
		return c.toolReference(raw, at)
	case "tool_search_tool_result":
		return c.toolSearchResult(raw, at)
	default:
		c.tokens += opaqueJSON(raw)
		return nil
	}
}

func (c *counter) text(raw json.RawMessage, at string) error {
	var b struct {
		Text string `json:"text"`
	}
	if err := decode(raw, &b, at, "an object"); err != nil {
		return err
	}
	c.tokens += Text(b.Text)
	return nil
}

// thinking adds a thinking block. Where the text was left out (display "omitted", redacted_thinking), the encrypted
// copy tells its length.
func (c *counter) thinking(raw json.RawMessage, at string) error {
	var b struct {
		Thinking  string `json:"thinking"`
		Signature string `json:"signature"`
		Data      string `json:"data"`
	}
	if err := decode(raw, &b, at, "an object"); err != nil {
		return err
	}
	if b.Thinking != "" {
		c.tokens += Text(b.Thinking)
	} else {
		c.tokens += opaque(len(b.Signature) + len(b.Data))
	}
	return nil
}

func (c *counter) toolUse(raw json.RawMessage, at string) error {
	var b struct {
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
	}
	if err := decode(raw, &b, at, "an object"); err != nil {
		return err
	}
	c.tokens += toolUseOverhead + Text(b.Name) + jsonTokens(b.Input)
	return nil
}

func (c *counter) toolResult(raw json.RawMessage, at string, depth int) error {
	var b struct {
		Content json.RawMessage `json:"content"`
	}
	if err := decode(raw, &b, at, "an object"); err != nil {
		return err
	}
	c.tokens += toolResultOverhead
	if absent(b.Content) {
		return nil
	}
	return c.content(b.Content, at+".content", depth+1)
}

func (c *counter) searchResult(raw json.RawMessage, at string, depth int) error {
	var b struct {
		Source  string          `json:"source"`
		Title   string          `json:"title"`
		Content json.RawMessage `json:"content"`
	}
	if err := decode(raw, &b, at, "an object"); err != nil {
		return err
	}
	c.tokens += Text(b.Source) + Text(b.Title)
	return c.content(b.Content, at+".content", depth+1)
}

// webFetchResult adds a fetched page: a document block in an envelope, or an error.
func (c *counter) webFetchResult(raw json.RawMessage, at string, depth int) error {
	var b struct {
		Content struct {
			URL     string          `json:"url"`
			Content json.RawMessage `json:"content"`
		} `json:"content"`
	}
	if err := decode(raw, &b, at, "an object"); err != nil {
		return err
	}
	c.tokens += toolResultOverhead + Text(b.Content.URL)
	if absent(b.Content.Content) {
		return nil
	}
	return c.block(b.Content.Content, at+".content.content", depth+1)
}
