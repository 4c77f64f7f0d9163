package ir

import "encoding/json"

// EmptySchema is that of a function without arguments.
const EmptySchema = `{"type":"object","properties":{}}`

// What stands in a history for what a dialect cannot say, or what the history has lost.
const (
	// ToolErrorMark begins the text of a result that is an error, where a dialect has no field for it (conversion.md, 7).
	ToolErrorMark = "[tool error] "
	// NoResult stands for the result of a call that has none, though the conversation went on.
	NoResult = "[no result recorded]"
)

// FormCustom is the Form of free-text calls.
const FormCustom = "custom"

// WrapCustom is how a free-text input goes to a dialect that has functions alone: {"input": text}.
func WrapCustom(text string) string {
	b, _ := json.Marshal(struct { // a string cannot fail
		Input string `json:"input"`
	}{text})
	return string(b)
}

// CustomSchema is the schema of a function that stands for a free-text tool.
const CustomSchema = `{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}`

// Described is the description of a tool that stands for a function: of a free-text tool with its grammar, which nothing
// holds the model to.
func (t *Tool) Described() string {
	var g struct{ Syntax, Definition string }
	if t.Kind != ToolCustom || json.Unmarshal(t.Grammar, &g) != nil || g.Definition == "" {
		return t.Description
	}
	if g.Syntax != "" {
		g.Syntax = " (" + g.Syntax + ")"
	}
	return t.Description + "\n\nThe input must follow this grammar" + g.Syntax + ":\n" + g.Definition
}

// unwrap takes the text out of what WrapCustom made; a model that does not keep to the schema gives its text as it is.
func unwrap(args []byte) string {
	var w struct {
		Input *string `json:"input"`
	}
	if json.Unmarshal(args, &w) == nil && w.Input != nil {
		return *w.Input
	}
	return string(args)
}
