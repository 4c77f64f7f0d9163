// Package estimate says about how many input tokens an Anthropic Messages request has, for the upstreams that cannot
// be asked. Nothing public counts exactly, so every number is an estimate, on the dear side where sources differ: an
// agent that is told too little overflows the context, one that is told too much compacts a little early.
package estimate

import (
	"encoding/json"
	"strconv"
)

// Framing, by the counts that Anthropic's API gives for one-word requests: 7 tokens around the text of a single message.
const (
	requestOverhead = 3
	messageOverhead = 4 // the turn's marker and its role
)

// request holds what of a messages or count_tokens body the model gets to read.
type request struct {
	System     json.RawMessage   `json:"system"`
	Messages   []json.RawMessage `json:"messages"`
	Tools      []json.RawMessage `json:"tools"`
	ToolChoice struct {
		Type string `json:"type"`
	} `json:"tool_choice"`
	OutputConfig struct {
		Format format `json:"format"`
	} `json:"output_config"`
	OutputFormat format `json:"output_format"` // the older name of output_config.format
}

type format struct {
	Schema json.RawMessage `json:"schema"`
}

type message struct {
	Role    string          `json:"role"` // every role costs the same; read so that a wrong type is told
	Content json.RawMessage `json:"content"`
}

// Anthropic estimates the input tokens of a Messages request body; the body of count_tokens is the same without the
// fields of the answer. The estimate is over 0, and a further message always raises it.
// An error is a *FieldError. Unknown fields and unknown block types are no error: what the model would read of them is
// counted by its JSON text.
func Anthropic(body []byte) (int, error) {
	var r request
	if err := decode(body, &r, "body", "a JSON object"); err != nil {
		return 0, err
	}
	if r.Messages == nil {
		return 0, &FieldError{"messages", "is required"}
	}
	c := counter{tokens: requestOverhead}
	if err := c.request(r); err != nil {
		return 0, err
	}
	return c.tokens, nil
}

// counter adds up a request.
type counter struct {
	tokens   int
	deferred map[string]int // tokens of the tools that stay out of the prompt until a tool_reference names them
}

func (c *counter) request(r request) error {
	if err := c.tools(r.Tools, r.ToolChoice.Type); err != nil {
		return err
	}
	c.tokens += jsonTokens(r.OutputConfig.Format.Schema) + jsonTokens(r.OutputFormat.Schema)
	if !absent(r.System) {
		if err := c.content(r.System, "system", 0); err != nil {
			return err
		}
	}
	for i, raw := range r.Messages {
		if err := c.message(raw, "messages."+strconv.Itoa(i)); err != nil {
			return err
		}
	}
	return nil
}

func (c *counter) message(raw json.RawMessage, at string) error {
	var m message
	if err := decode(raw, &m, at, "an object"); err != nil {
		return err
	}
	c.tokens += messageOverhead
	return c.content(m.Content, at+".content", 0)
}
