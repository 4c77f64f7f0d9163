package openairesponses

import (
	"slices"
	"strings"

	"coding-proxy/proxy/ir"
)

// toolCall writes a call.
func (w *writer) toolCall(b *ir.Block) {
	c := w.pairs.Of(b)
	w.open = append(w.open, c)
	if data, ok := b.State.For(w.t.Owner); ok && data != "" {
		w.Open('{')
		w.Field("type", "reasoning")
		w.Key("summary")
		w.Raw([]byte("[]"))
		w.Field("encrypted_content", data)
		w.Close('}')
	} else if b.State != nil {
		w.lost.Lose(ir.FieldThinking)
	}
	w.Open('{')
	switch t := typedByForm(b.Form); {
	case t != nil && isObject(b.Args):
		w.Field("type", t.call)
		w.Field("call_id", c.ID)
		if t.form == "tool_search" {
			w.Field("execution", "client")
		}
		w.Member(t.member, []byte(b.Args))
		w.Field("status", "completed")
	case b.Form == ir.FormCustom:
		w.Field("type", "custom_tool_call")
		w.Field("call_id", c.ID)
		w.Field("name", w.book.Wire(b.ToolName))
		w.Field("input", b.Args)
	default:
		w.Field("type", "function_call")
		w.Field("call_id", c.ID)
		w.Field("name", w.book.Wire(b.ToolName))
		args := b.Args
		if args == "" {
			args = "{}"
		}
		w.Field("arguments", args)
	}
	w.Close('}')
}

// results writes the results of the calls that have none yet; more: the conversation goes on.
func (w *writer) results(more bool) {
	for _, c := range w.open {
		switch {
		case c.Result != nil:
			w.result(c, c.Result)
		case more:
			w.result(c, &ir.Block{IsError: true, Content: []ir.Block{{Kind: ir.Text, Text: ir.NoResult}}})
		}
	}
	w.open = w.open[:0]
}

// result writes a result in the item that belongs to its call.
func (w *writer) result(c *ir.Pair, b *ir.Block) {
	w.Open('{')
	t := typedByForm(c.Call.Form)
	switch {
	case t != nil && isObject(c.Call.Args):
		w.typedResult(t, c.ID, b)
		w.Close('}')
		return
	case c.Call.Form == ir.FormCustom:
		w.Field("type", "custom_tool_call_output")
	default:
		w.Field("type", "function_call_output")
	}
	w.Field("call_id", c.ID)
	w.Key("output")
	w.output(b)
	w.Close('}')
}

// output writes what a tool gave: a string where it is one text, else parts.
func (w *writer) output(b *ir.Block) {
	content := slices.DeleteFunc(slices.Clone(b.Content), func(c ir.Block) bool { return c.Kind == ir.Text && c.Text == "" })
	prefix := ""
	if b.IsError {
		prefix = ir.ToolErrorMark
	}
	switch {
	case len(content) == 0:
		w.String(prefix)
		return
	case len(content) == 1 && content[0].Kind == ir.Text:
		w.String(prefix + content[0].Text)
		return
	}
	w.Open('[')
	if prefix != "" {
		if content[0].Kind == ir.Text {
			content[0].Text = prefix + content[0].Text
		} else {
			w.textPart("input_text", prefix, nil)
		}
	}
	for i := range content {
		w.piece(&content[i])
	}
	w.Close(']')
}

// piece writes a part of a result. What cannot be sent at all is named in its place, so that the call keeps its result.
func (w *writer) piece(b *ir.Block) {
	if b.Cache != nil && !w.model.takesBreakpoints() {
		w.lost.Lose(ir.FieldCacheMark)
	}
	switch b.Kind {
	case ir.Audio, ir.Video:
		w.lost.LosePath("tool_result.media")
		w.textPart("input_text", "[a recording that cannot be shown]", nil)
	case ir.ToolResult:
		for i := range b.Content {
			w.piece(&b.Content[i])
		}
	default:
		if b.Media.FileID != "" && !w.own {
			w.lost.LosePath("tool_result.file_id")
			w.textPart("input_text", "[a file that cannot be shown]", nil)
			return
		}
		_ = w.part(b) // refuses nothing else
	}
}

// typedResult writes the members of a result that has an item of its own.
func (w *writer) typedResult(t *typed, id string, b *ir.Block) {
	w.Field("type", t.result)
	w.Field("call_id", id)
	text := plainText(b)
	switch t.form {
	case "tool_search":
		w.Field("execution", "client")
		w.Field("status", "completed")
		if !strings.HasPrefix(text, "[") || !isArray(text) {
			text = "[]"
		}
		w.Member("tools", []byte(text))
	case "shell":
		if !isArray(text) {
			text = string(shellOutput(text, b.IsError))
		}
		w.Member("output", []byte(text))
	case "apply_patch":
		status := "completed"
		if b.IsError {
			status = "failed"
		}
		w.Field("status", status)
		w.Optional("output", text)
	default:
		if b.IsError {
			text = ir.ToolErrorMark + text
		}
		w.Field("output", text)
	}
}

// orphan writes a result that no call has as text of the user.
func (w *writer) orphan(b *ir.Block, role string) error {
	w.openMessage(role)
	head := "[result of a tool call that is not recorded]"
	if b.IsError {
		head = ir.ToolErrorMark + head
	}
	w.textPart("input_text", head, nil)
	for i := range b.Content {
		if c := &b.Content[i]; c.Kind != ir.Text || c.Text != "" {
			w.piece(c)
		}
	}
	return nil
}

// plainText joins the texts of a result.
func plainText(b *ir.Block) string {
	text := ""
	for i := range b.Content {
		if c := &b.Content[i]; c.Kind == ir.Text {
			text += c.Text
		}
	}
	return text
}
