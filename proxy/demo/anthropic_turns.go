package demo

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// turn is one message of a conversation.
type turn struct {
	Role    string  `json:"role"`
	Content content `json:"content"`
}

// content is a string or an array of blocks; a string becomes one text block.
type content struct {
	blocks []part
}

// part is what the checks need of any block.
type part struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	ToolUseID string          `json:"tool_use_id"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"`
	Cache     json.RawMessage `json:"cache_control"`
}

// UnmarshalJSON takes both forms.
func (c *content) UnmarshalJSON(data []byte) error {
	if isNull(data) {
		return nil
	}
	if data[0] == '[' {
		return json.Unmarshal(data, &c.blocks)
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("content is neither a string nor an array of blocks: %w", err)
	}
	c.blocks = []part{{Type: "text", Text: text}}
	return nil
}

// checkMessages holds for the conversation. Its first message may be of any role.
func (p *Provider) checkMessages(messages []turn) *refusal {
	if len(messages) == 0 {
		return bad("messages: at least one message is required")
	}
	for i, m := range messages {
		if refusal := p.checkTurn(i, m, i == len(messages)-1); refusal != nil {
			return refusal
		}
	}
	return checkTools(merge(messages))
}

// checkTurn holds for one message, whatever stands beside it.
func (p *Provider) checkTurn(i int, m turn, last bool) *refusal {
	if !slices.Contains([]string{"user", "assistant", "system"}, m.Role) {
		return bad("messages.%d.role: Input should be 'user', 'assistant' or 'system'", i)
	}
	prefill := last && m.Role == "assistant"
	if len(m.Content.blocks) == 0 && !prefill {
		return bad("messages.%d: %s messages must have non-empty content", i, m.Role)
	}
	for j, b := range m.Content.blocks {
		if refusal := p.checkPart(fmt.Sprintf("messages.%d.content.%d", i, j), b); refusal != nil {
			return refusal
		}
	}
	if n := len(m.Content.blocks); prefill && n > 0 {
		if text := m.Content.blocks[n-1].Text; text != strings.TrimRight(text, " \t\r\n") {
			return bad("messages: final assistant content cannot end with trailing whitespace")
		}
	}
	return nil
}

func (p *Provider) checkPart(path string, b part) *refusal {
	switch b.Type {
	case "":
		return bad("%s.type: Field required", path)
	case "text":
		if b.Text == "" {
			return bad("%s.text: text content blocks must be non-empty", path)
		}
		if strings.TrimSpace(b.Text) == "" {
			return bad("%s.text: text content blocks must contain non-whitespace text", path)
		}
	case "tool_use":
		if !isID(b.ID) {
			return bad("%s.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'", path)
		}
	case "thinking", "redacted_thinking":
		if !isNull(b.Cache) {
			return bad("%s.%s.cache_control: Extra inputs are not permitted", path, b.Type)
		}
		if b.Type == "thinking" && p.options.CheckSignatures && !p.sealed(b.Signature, sealThinking, b.Thinking) {
			return bad("%s: Invalid `signature` in `thinking` block", path)
		}
		if b.Type == "redacted_thinking" && p.options.CheckSignatures && !p.sealed(b.Data, sealRedacted, "") {
			return bad("%s: Invalid `data` in `redacted_thinking` block", path)
		}
	}
	return nil
}

// merged is what neighbours of one role are to the API: one turn.
type merged struct {
	at    int // index of its first message
	role  string
	parts []part
}

// merge leaves system messages out: they may stand anywhere.
func merge(messages []turn) []merged {
	var turns []merged
	for i, m := range messages {
		if m.Role == "system" {
			continue
		}
		if n := len(turns); n > 0 && turns[n-1].role == m.Role {
			turns[n-1].parts = append(slices.Clip(turns[n-1].parts), m.Content.blocks...)
			continue
		}
		turns = append(turns, merged{i, m.Role, m.Content.blocks})
	}
	return turns
}

// checkTools holds for calls and results: each call is answered in the next turn, each result has its call in the one before.
func checkTools(turns []merged) *refusal {
	for i, t := range turns {
		var before, after []part
		if i > 0 {
			before = turns[i-1].parts
		}
		if i+1 < len(turns) {
			after = turns[i+1].parts
		}
		if refusal := firstOf(t.checkResults(before), t.checkCalls(after)); refusal != nil {
			return refusal
		}
	}
	return nil
}

func (t merged) checkResults(before []part) *refusal {
	for j, b := range t.parts {
		if b.Type != "tool_result" {
			continue
		}
		called := func(call part) bool { return call.Type == "tool_use" && call.ID == b.ToolUseID }
		again := func(other part) bool { return other.Type == "tool_result" && other.ToolUseID == b.ToolUseID }
		if !slices.ContainsFunc(before, called) {
			return bad("messages.%d.content.%d: unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.", t.at, j, b.ToolUseID)
		}
		if slices.ContainsFunc(t.parts[:j], again) {
			return bad("messages.%d.content.%d: each tool_use must have a single result. Found multiple `tool_result` blocks with id: %s", t.at, j, b.ToolUseID)
		}
		if j > 0 && t.parts[j-1].Type != "tool_result" {
			return bad("messages.%d.content.%d: `tool_result` blocks must come first in a message", t.at, j)
		}
	}
	return nil
}

func (t merged) checkCalls(after []part) *refusal {
	var missing []string
	for j, call := range t.parts {
		again := func(other part) bool { return other.Type == "tool_use" && other.ID == call.ID }
		if call.Type == "tool_use" && slices.ContainsFunc(t.parts[:j], again) {
			return bad("messages.%d.content.%d: `tool_use` ids must be unique", t.at, j)
		}
		answers := func(b part) bool { return b.Type == "tool_result" && b.ToolUseID == call.ID }
		if call.Type == "tool_use" && !slices.ContainsFunc(after, answers) {
			missing = append(missing, call.ID)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return bad("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s. Each `tool_use` block must have a corresponding `tool_result` block in the next message.", t.at, strings.Join(missing, ", "))
}
