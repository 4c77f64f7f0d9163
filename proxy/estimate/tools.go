package estimate

import (
	"encoding/json"
	"strconv"
	"strings"
)

// The system prompt that Anthropic adds to a request with tools, by tool_choice: its tool use pages, Claude 4 models.
const (
	toolPromptAuto   = 346 // auto, none, and the default
	toolPromptForced = 313 // any, tool
)

// toolOverhead is the markup around one custom tool's definition; with it the example of Anthropic's token counting
// page (get_weather, 403 tokens) comes out within 7 %.
const toolOverhead = 8

// Definitions that Anthropic itself puts into the prompt.
const (
	bashTool       = 245  // bash tool page
	textEditorTool = 700  // text editor tool page
	computerTool   = 1234 // computer use page: 735 for the tool, 466 to 499 for its system prompt
	otherTool      = 700  // web_search, web_fetch, code_execution, memory ...: not documented, so as a large client tool
)

// tool is one entry of tools. Type is empty or "custom" for a client's own, else the dated name of one of Anthropic's.
type tool struct {
	Type          string          `json:"type"`
	Name          string          `json:"name"`
	Description   string          `json:"description"`
	InputSchema   json.RawMessage `json:"input_schema"`
	InputExamples json.RawMessage `json:"input_examples"`
	DeferLoading  bool            `json:"defer_loading"`
}

func (c *counter) tools(tools []json.RawMessage, choice string) error {
	switch {
	case len(tools) == 0:
		return nil
	case choice == "any" || choice == "tool":
		c.tokens += toolPromptForced
	default:
		c.tokens += toolPromptAuto
	}
	c.deferred = make(map[string]int)
	for i, raw := range tools {
		var t tool
		if err := decode(raw, &t, "tools."+strconv.Itoa(i), "an object"); err != nil {
			return err
		}
		if n := t.tokens(raw); t.DeferLoading {
			// A deferred tool is in the prompt by name only, until a tool search finds it.
			c.deferred[t.Name] = n
			c.tokens += Text(t.Name)
		} else {
			c.tokens += n
		}
	}
	return nil
}

func (t tool) tokens(raw json.RawMessage) int {
	switch {
	case t.Type == "" || t.Type == "custom":
		return toolOverhead + Text(t.Name) + Text(t.Description) + jsonTokens(t.InputSchema) + jsonTokens(t.InputExamples)
	case strings.HasPrefix(t.Type, "bash_"):
		return bashTool + jsonTokens(raw)
	case strings.HasPrefix(t.Type, "text_editor_"):
		return textEditorTool + jsonTokens(raw)
	case strings.HasPrefix(t.Type, "computer_"):
		return computerTool + jsonTokens(raw)
	default:
		return otherTool + jsonTokens(raw)
	}
}

// reference adds the definition of the deferred tool that a search has found. A tool that is not deferred is in the
// prompt already.
func (c *counter) reference(name string) {
	c.tokens += Text(name) + c.deferred[name]
}

func (c *counter) toolReference(raw json.RawMessage, at string) error {
	var b struct {
		ToolName string `json:"tool_name"`
	}
	if err := decode(raw, &b, at, "an object"); err != nil {
		return err
	}
	c.reference(b.ToolName)
	return nil
}

// toolSearchResult adds the answer of Anthropic's own tool search: references, or an error.
func (c *counter) toolSearchResult(raw json.RawMessage, at string) error {
	var b struct {
		Content struct {
			ToolReferences []struct {
				ToolName string `json:"tool_name"`
			} `json:"tool_references"`
		} `json:"content"`
	}
	if err := decode(raw, &b, at, "an object"); err != nil {
		return err
	}
	c.tokens += toolResultOverhead
	for _, r := range b.Content.ToolReferences {
		c.reference(r.ToolName)
	}
	return nil
}
