package openairesponses

// typed is a kind of tool that the client runs and that has items of its own. To other dialects it is a function of the
// same name.
type typed struct {
	form         string // the tool's type and the function's name
	call, result string // types of the items
	member       string // of the call's item, that holds the arguments
	description  string
	schema       string // of the arguments
}

// typedTools describe what the API documents of the tools; the words are ours.
var typedTools = [...]typed{
	{
		form: "local_shell", call: "local_shell_call", result: "local_shell_call_output", member: "action",
		description: "Runs a program on the user's machine and returns its output.",
		schema: `{"type":"object","properties":{"type":{"type":"string","enum":["exec"]},` +
			`"command":{"type":"array","items":{"type":"string"},"description":"The program and its arguments"},` +
			`"env":{"type":"object","additionalProperties":{"type":"string"},"description":"Environment variables"},` +
			`"timeout_ms":{"type":"integer","description":"Milliseconds after which the program is stopped"},` +
			`"user":{"type":"string"},"working_directory":{"type":"string"}},"required":["command"]}`,
	},
	{
		form: "shell", call: "shell_call", result: "shell_call_output", member: "action",
		description: "Runs shell commands on the user's machine and returns their output.",
		schema: `{"type":"object","properties":{` +
			`"commands":{"type":"array","items":{"type":"string"},"description":"The command lines to run"},` +
			`"timeout_ms":{"type":"integer","description":"Milliseconds after which the commands are stopped"},` +
			`"max_output_length":{"type":"integer","description":"Characters of output that are returned"}},"required":["commands"]}`,
	},
	{
		form: "apply_patch", call: "apply_patch_call", result: "apply_patch_call_output", member: "operation",
		description: "Creates, updates or deletes one file of the user. The diff of a new file is all its lines, each behind a plus sign. " +
			"The diff of an update is hunks that begin with @@; of their lines those behind a blank stay, those behind a minus sign go, those behind a plus sign come.",
		schema: `{"type":"object","properties":{"type":{"type":"string","enum":["create_file","update_file","delete_file"]},` +
			`"path":{"type":"string"},"diff":{"type":"string","description":"Not for delete_file"}},"required":["type","path"]}`,
	},
	{
		form: "tool_search", call: "tool_search_call", result: "tool_search_output", member: "arguments",
		description: "Finds tools that are not loaded yet and loads them.",
		schema:      `{"type":"object","properties":{"query":{"type":"string"},"limit":{"type":"integer"}},"required":["query"]}`,
	},
}

func typedByForm(form string) *typed {
	return findTyped(func(t *typed) bool { return t.form == form })
}

func typedByCall(item string) *typed {
	return findTyped(func(t *typed) bool { return t.call == item })
}

func typedByResult(item string) *typed {
	return findTyped(func(t *typed) bool { return t.result == item })
}

func findTyped(is func(t *typed) bool) *typed {
	for i := range typedTools {
		if is(&typedTools[i]) {
			return &typedTools[i]
		}
	}
	return nil
}

// args is the member of a call's item that holds the arguments.
func (t *typed) args(it *item) *[]byte {
	switch t.member {
	case "operation":
		return &it.operation
	case "arguments":
		return &it.arguments
	}
	return &it.action
}

// runsAtClient tells the calls that the client runs from those that the provider ran: in a container, or over its own
// index of tools.
func (t *typed) runsAtClient(it *item) bool {
	switch t.form {
	case "shell":
		return !inContainer(it.environment)
	case "tool_search":
		return !isNull(it.callID) && string(it.execution) != `"server"`
	}
	return true
}
