package openairesponses

import (
	"bytes"
	"cmp"
	"strings"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// call decodes a call of a tool that the client runs.
func (d *reader) call(it *item) (err error) {
	b := ir.Block{Kind: ir.ToolCall, At: it.at}
	if b.ID, err = textOf(it.at, ".call_id", it.callID); err != nil {
		return err
	}
	if b.ItemID, err = textOf(it.at, ".id", it.id); err != nil {
		return err
	}
	if b.Namespace, err = textOf(it.at, ".namespace", it.namespace); err != nil {
		return err
	}
	if t := typedByCall(it.typ); t != nil {
		if !t.runsAtClient(it) {
			return d.foreign(it)
		}
		b.Name, b.Form = t.form, t.form
		args := *t.args(it)
		if isNull(args) || args[0] != '{' {
			return ir.Refuse(it.at+"."+t.member, "must be an object")
		}
		b.Args = string(args)
	} else {
		field, args := ".arguments", it.arguments
		if it.typ == "custom_tool_call" {
			field, args, b.Form = ".input", it.input, ir.FormCustom
		}
		if b.Name, err = textOf(it.at, ".name", it.name); err != nil {
			return err
		}
		if b.Args, err = textOf(it.at, field, args); err != nil {
			return err
		}
	}
	t := d.assistant(it.at, "")
	b.State, d.callState = d.callState, nil
	t.Blocks = append(t.Blocks, b)
	if b.ItemID != "" {
		d.callIDs[b.ItemID] = b.ID
	}
	return nil
}

// result decodes what a tool gave.
func (d *reader) result(it *item) (err error) {
	b := ir.Block{Kind: ir.ToolResult, At: it.at}
	if b.ID, err = textOf(it.at, ".call_id", it.callID); err != nil {
		return err
	}
	if b.Name, err = textOf(it.at, ".name", it.name); err != nil {
		return err
	}
	if b.Namespace, err = textOf(it.at, ".namespace", it.namespace); err != nil {
		return err
	}
	output := it.output
	switch t := typedByResult(it.typ); {
	case it.typ == "custom_tool_call_output":
		b.Form = ir.FormCustom
	case t != nil:
		b.Form, b.Name = t.form, t.form
		if it.typ == "tool_search_output" {
			if err := d.itemTools(it); err != nil || b.ID == "" || string(it.execution) == `"server"` {
				return err // the provider's own search: its tools are all there is of it
			}
			output = it.tools
		}
		if b.ID == "" { // local_shell_call_output names the call's item
			item, _ := rawjson.String(it.id)
			b.ID = cmp.Or(d.callIDs[item], item)
		}
		b.IsError = string(it.status) == `"failed"`
	}
	if len(output) > 0 && output[0] != '"' && b.Form != "" && b.Form != ir.FormCustom { // results of their own shape
		b.Content = []ir.Block{{Kind: ir.Text, At: it.at + ".output", Text: string(output)}}
	} else if b.Content, err = d.parts(it.at+".output", output); err != nil {
		return err
	}
	if len(b.Content) > 0 && b.Content[0].Kind == ir.Text {
		if text, ok := strings.CutPrefix(b.Content[0].Text, ir.ToolErrorMark); ok {
			b.IsError = true
			if b.Content[0].Text = text; text == "" {
				b.Content = b.Content[1:]
			}
		}
	}
	t := d.results(it.at)
	t.Blocks = append(t.Blocks, b)
	return nil
}

// itemTools takes the tools that an item of the input brings.
func (d *reader) itemTools(it *item) error {
	return listOf(it.at, ".tools", it.tools, func(i int, raw []byte) error {
		return d.tool(ir.Element(it.at+".tools", i), raw, "", &d.more)
	})
}

// foreign keeps an item of a tool that the provider ran, or one that is not known.
func (d *reader) foreign(it *item) error {
	b := ir.Block{Kind: ir.Opaque, At: it.at, Type: it.typ, Raw: bytes.Clone(it.raw)}
	b.ID, _ = rawjson.String(it.id)
	switch {
	case isHostedResult(it.typ):
		b.Kind = ir.HostedResult
		t := d.results(it.at)
		t.Blocks = append(t.Blocks, b)
		return nil
	case isHosted(it.typ):
		b.Kind, b.Name = ir.HostedCall, hostedName(it.typ)
	default:
		it.unknown = nil // it is kept whole
	}
	t := d.assistant(it.at, "")
	t.Blocks = append(t.Blocks, b)
	return nil
}

// hostedName is the tool of an item of a tool that the provider runs.
func hostedName(typ string) string { return strings.TrimSuffix(typ, "_call") }

// isHosted reports whether items of a type belong to tools that the provider runs.
func isHosted(typ string) bool {
	switch typ {
	case "web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "computer_call",
		"mcp_call", "mcp_list_tools", "mcp_approval_request", "shell_call", "tool_search_call":
		return true
	}
	return isHostedResult(typ)
}

func isHostedResult(typ string) bool {
	switch typ {
	case "computer_call_output", "mcp_approval_response", "program_output":
		return true
	}
	return false
}
