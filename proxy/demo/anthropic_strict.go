package demo

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

// What the API refuses is refused here, in its words: facts/protocols.md, sections 1.1 to 1.4.

// Values of the anthropic-version header.
const (
	version2023 = "2023-06-01"
	version2026 = "2026-10-21"
)

// maxCacheControls is how many cache breakpoints a request may have.
const maxCacheControls = 4

// query is what the provider reads of a request body.
type query struct {
	Model     string          `json:"model"`
	Messages  []turn          `json:"messages"`
	MaxTokens *int            `json:"max_tokens"`
	System    content         `json:"system"`
	Stream    bool            `json:"stream"`
	Tools     []toolSpec      `json:"tools"`
	Thinking  thinkingConfig  `json:"thinking"`
	Cache     json.RawMessage `json:"cache_control"`

	size int // bytes of the body
}

type thinkingConfig struct {
	Type    string `json:"type"`
	Budget  int    `json:"budget_tokens"`
	Display string `json:"display"`
}

type toolSpec struct {
	Type        string `json:"type"`
	Name        string `json:"name"`
	InputSchema struct {
		Type string `json:"type"`
	} `json:"input_schema"`
	Cache json.RawMessage `json:"cache_control"`
}

func (q *query) omitsThinking() bool { return q.Thinking.Display == "omitted" }

// checkVersion refuses versions that do not exist.
func checkVersion(header http.Header) *refusal {
	switch version := header.Get("anthropic-version"); version {
	case version2023, version2026:
		return nil
	case "":
		return bad("anthropic-version: header is required")
	default:
		return bad("anthropic-version: %q is not a valid version", version)
	}
}

// parse reads a body and refuses what the API refuses.
func (p *Provider) parse(body []byte, header http.Header, to endpoint) (*query, *refusal) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, bad("The request body is not valid JSON: %v", err)
	}
	for _, name := range []string{"model", "messages", "max_tokens"} {
		if _, given := fields[name]; !given && to.takes(name) {
			return nil, bad("%s: Field required", name)
		}
	}
	for name := range fields {
		if refusal := to.checkField(name, header); refusal != nil {
			return nil, refusal
		}
	}
	q := &query{size: len(body)}
	if err := json.Unmarshal(body, q); err != nil {
		return nil, bad("%v", err)
	}
	if !p.serves(q.Model) {
		return nil, unknownModel(anthropic, q.Model)
	}
	if refusal := firstOf(q.check(), p.checkMessages(q.Messages)); refusal != nil {
		return nil, refusal
	}
	return q, p.checkShape(body, header)
}

// check holds for the fields beside the messages.
func (q *query) check() *refusal {
	if q.Model == "" {
		return bad("model: String should have at least 1 character")
	}
	if q.MaxTokens != nil && *q.MaxTokens < 0 {
		return bad("max_tokens: Input should be greater than or equal to 0")
	}
	if q.Thinking.Type == "enabled" {
		if q.Thinking.Budget < 1024 {
			return bad("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
		}
		if q.MaxTokens != nil && q.Thinking.Budget >= *q.MaxTokens {
			return bad("`max_tokens` must be greater than `thinking.budget_tokens`")
		}
	}
	for i, b := range q.System.blocks {
		if b.Type == "text" && strings.TrimSpace(b.Text) == "" {
			return bad("system.%d: text content blocks must be non-empty", i)
		}
	}
	return firstOf(q.checkTools(), q.checkCacheControls())
}

func (q *query) checkTools() *refusal {
	seen := map[string]bool{}
	for i, tool := range q.Tools {
		switch {
		case tool.Type != "" && tool.Type != "custom": // typed tools bring name and schema
		case !isID(tool.Name):
			return bad("tools.%d.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'", i)
		case seen[tool.Name]:
			return bad("tools: Tool names must be unique.")
		case tool.InputSchema.Type != "object":
			return bad("tools.%d.custom.input_schema.type: Input should be 'object'", i)
		}
		seen[tool.Name] = true
	}
	return nil
}

func (q *query) checkCacheControls() *refusal {
	marks := []json.RawMessage{q.Cache}
	for _, tool := range q.Tools {
		marks = append(marks, tool.Cache)
	}
	for _, b := range q.System.blocks {
		marks = append(marks, b.Cache)
	}
	for _, m := range q.Messages {
		for _, b := range m.Content.blocks {
			marks = append(marks, b.Cache)
		}
	}
	marks = slices.DeleteFunc(marks, isNull)
	if len(marks) > maxCacheControls {
		return bad("A maximum of %d blocks with cache_control may be provided. Found %d.", maxCacheControls, len(marks))
	}
	return nil
}

func isNull(raw json.RawMessage) bool {
	return len(raw) == 0 || bytes.Equal(raw, []byte("null"))
}

// isID holds for `^[a-zA-Z0-9_-]+$`, at most 128 long.
func isID(s string) bool {
	return s != "" && len(s) <= 128 && strings.IndexFunc(s, func(r rune) bool { return !isIDRune(r) }) < 0
}

func isIDRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
}
