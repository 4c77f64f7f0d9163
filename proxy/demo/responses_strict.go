package demo

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// responsesGrammar is what Responses take: facts/protocols.md 3.1 and 3.2, the types of openai 7.59.0, and what Codex
// sends besides: client_metadata, search_content_types, internal_chat_message_metadata_passthrough.
const responsesGrammar = `
request = {
	model! string, input string|[item], instructions string|null, tools [tool], tool_choice choice, parallel_tool_calls bool|null,
	max_output_tokens int|null, max_tool_calls int|null, reasoning reasoningConfig|null, text textConfig, include [included]|null,
	store bool|null, previous_response_id string|null, conversation string|{id! string}|null,
	prompt {id! string, version string|null, variables object|null}|null, truncation 'auto'|'disabled'|null,
	context_management [{type! 'compaction', compact_threshold int|null}]|null, metadata <string>|null,
	temperature number|null, top_p number|null, top_logprobs int|null, stream bool|null, stream_options {include_obfuscation bool}|null,
	background bool|null, background_options {completion_window 'soonest'|'2h'|'8h'},
	service_tier 'auto'|'default'|'flex'|'scale'|'priority'|'fast'|'ultrafast'|null, prompt_cache_key string|null,
	prompt_cache_options {mode 'implicit'|'explicit', ttl '30m'|'12h', prewarm bool, comparison_response_id string}, prompt_cache_retention 'in_memory'|'24h'|null,
	safety_identifier string|null, user string, moderation {model! string, policy object|null}|null, image object, access_programs object,
	client_metadata object
}
count = {
	model string|null, input string|[item]|null, instructions string|null, tools [tool]|null, tool_choice choice|null, parallel_tool_calls bool|null,
	reasoning reasoningConfig|null, text textConfig|null, previous_response_id string|null, conversation string|{id! string}|null,
	truncation 'auto'|'disabled', personality string
}
compact = {
	model! string|null, input string|[item]|null, instructions string|null, previous_response_id string|null, prompt_cache_key string|null,
	prompt_cache_options object, prompt_cache_retention 'in_memory'|'24h'|null, service_tier string|null, tools [tool], parallel_tool_calls bool,
	reasoning reasoningConfig|null, text textConfig
}
reasoningConfig = {effort 'none'|'minimal'|'low'|'medium'|'high'|'xhigh'|'max'|null, summary 'auto'|'concise'|'detailed'|null,
	context 'auto'|'current_turn'|'all_turns'|null, mode 'standard'|'pro'|null, generate_summary 'auto'|'concise'|'detailed'|null}
textConfig = {format formatText|formatObject|formatSchema, verbosity 'low'|'medium'|'high'|null}
formatText = {type! 'text'}
formatObject = {type! 'json_object'}
formatSchema = {type! 'json_schema', name! string, schema! object, strict bool|null, description string}
included = 'file_search_call.results'|'web_search_call.results'|'web_search_call.action.sources'|'message.input_image.image_url'
	|'computer_call_output.output.image_url'|'code_interpreter_call.outputs'|'reasoning.encrypted_content'|'message.output_text.logprobs'

choice = 'none'|'auto'|'required'|choiceFunction|choiceCustom|choiceMcp|choiceAllowed|choiceHosted
choiceFunction = {type! 'function', name! string}
choiceCustom = {type! 'custom', name! string}
choiceMcp = {type! 'mcp', server_label! string, name string|null}
choiceAllowed = {type! 'allowed_tools', mode! 'auto'|'required', tools! [object]}
choiceHosted = {type! 'file_search'|'web_search_preview'|'web_search_preview_2025_03_11'|'computer'|'computer_use_preview'|'computer_use'|'code_interpreter'|'image_generation'|'apply_patch'|'shell'|'programmatic_tool_calling'}

tool = function|custom|namespace|webSearch|toolSearch|hosted
function = {type! 'function', name! string, parameters object|null, strict bool|null, description string|null, defer_loading bool,
	output_schema object|null, async bool, allowed_callers ['direct'|'programmatic']|null}
custom = {type! 'custom', name! string, description string, format formatText|formatGrammar, defer_loading bool, async bool, allowed_callers ['direct'|'programmatic']|null}
formatGrammar = {type! 'grammar', syntax! 'lark'|'regex', definition! string}
namespace = {type! 'namespace', name! string, description! string, tools! [function|custom]}
webSearch = {type! 'web_search'|'web_search_2025_08_26', external_web_access bool, filters object|null, search_context_size 'low'|'medium'|'high',
	user_location object|null, search_content_types ['text'|'image']}
toolSearch = {type! 'tool_search', description string|null, execution 'server'|'client', parameters any}
hosted = {type! 'web_search_preview'|'web_search_preview_2025_03_11'|'local_shell'|'apply_patch'|'programmatic_tool_calling'|'computer'
	|'file_search'|'code_interpreter'|'image_generation'|'mcp'|'computer_use_preview'|'shell',
	vector_store_ids [string], max_num_results int, filters object|null, ranking_options object, container any, search_context_size string, user_location object|null,
	server_label string, server_url string, server_description string, headers object|null, allowed_tools any, require_approval any, authorization string,
	connector_id string, display_width int, display_height int, environment any, background string, input_fidelity any, input_image_mask object, model string,
	moderation string, output_compression int, output_format string, partial_images int, quality string, size string, action string, search_content_types [string],
	defer_loading bool, allowed_callers [string]|null}

item = input|output|functionCall|functionOutput|customCall|customOutput|reasoning|reference|additional|other
input = {type 'message', role! 'user'|'system'|'developer', content! string|[inputPart], id string|null, status status, phase phase, internal_chat_message_metadata_passthrough object}
output = {type 'message', role! 'assistant', content! string|[outputText|refusal], id string|null, status status, phase phase, internal_chat_message_metadata_passthrough object}
functionCall = {type! 'function_call', call_id! string, name! string, arguments! string, id string|null, status status, namespace string|null, async bool, caller object|null,
	internal_chat_message_metadata_passthrough object}
functionOutput = {type! 'function_call_output', call_id! string, output! string|[inputPart], id string|null, status status, name string|null, namespace string|null, caller object|null,
	internal_chat_message_metadata_passthrough object}
customCall = {type! 'custom_tool_call', call_id! string, name! string, input! string, id string|null, status status, namespace string|null, async bool, caller object|null,
	internal_chat_message_metadata_passthrough object}
customOutput = {type! 'custom_tool_call_output', call_id! string, output! string|[inputPart], id string|null, status status, caller object|null, name string|null,
	internal_chat_message_metadata_passthrough object}
reasoning = {type! 'reasoning', summary! [{type! 'summary_text', text! string}], id string|null, content [{type! 'reasoning_text'|'text', text! string}]|null,
	encrypted_content string|null, status status, internal_chat_message_metadata_passthrough object}
reference = {type 'item_reference'|null, id! string}
additional = {type! 'additional_tools', role! 'developer', tools! [tool], id string|null}
other = {type! 'file_search_call'|'computer_call'|'computer_call_output'|'web_search_call'|'tool_search_call'|'tool_search_output'|'configuration_update'
	|'compaction'|'compaction_trigger'|'image_generation_call'|'code_interpreter_call'|'local_shell_call'|'local_shell_call_output'|'shell_call'|'shell_call_output'
	|'apply_patch_call'|'apply_patch_call_output'|'mcp_list_tools'|'mcp_approval_request'|'mcp_approval_response'|'mcp_call'|'program'|'program_output',
	id string|null, status string|null, call_id string|null, action any, actions any, output any, queries any, results any, acknowledged_safety_checks any,
	pending_safety_checks any, arguments any, execution string|null, tools any, reasoning any, text any, encrypted_content string|null, result string|null,
	code string|null, container_id string, outputs any, environment any, max_output_length int|null, operation any, server_label string, error any, name string,
	approve bool, approval_request_id string|null, reason string|null, fingerprint string, caller object|null, namespace string|null, created_by string,
	internal_chat_message_metadata_passthrough object}
status = 'in_progress'|'completed'|'incomplete'|null
phase = 'commentary'|'final_answer'|null
inputPart = inputText|inputImage|inputFile
inputText = {type! 'input_text', text! string, prompt_cache_breakpoint breakpoint}
inputImage = {type! 'input_image', image_url string|null, file_id string|null, detail 'auto'|'low'|'high'|'original', prompt_cache_breakpoint breakpoint}
inputFile = {type! 'input_file', file_data string, file_url string, file_id string|null, filename string, detail 'auto'|'low'|'high', prompt_cache_breakpoint breakpoint}
outputText = {type! 'output_text', text! string, annotations [object], logprobs [object]}
refusal = {type! 'refusal', refusal! string}
breakpoint = {mode! 'explicit', ttl '30m'|'12h'}
`

// checkResponses reads a body of one of the endpoints and refuses what the API refuses.
func (p *Provider) checkResponses(definition string, body []byte) (*node, *refusal) {
	request, refusal := readOpenAI(p.grammar.responses(), definition, body)
	if refusal != nil {
		return nil, refusal
	}
	model := request.str("model")
	switch {
	case definition == "request" && model == "":
		return nil, badParam("model", "missing_required_parameter", "Missing required parameter: 'model'.")
	case model != "" && !p.serves(model):
		return nil, unknownModel(openAIResponses, model)
	case definition == "request" && !request.has("input") && !request.has("prompt") && !request.has("previous_response_id") && !request.has("conversation"):
		return nil, badParam("", "missing_required_parameter", "One of \"input\" or \"previous_response_id\" or 'prompt' or 'conversation_id' must be provided.")
	}
	return request, firstOf(
		checkRanges(request, []limits{{"temperature", 0, 2}, {"top_p", 0, 1}, {"top_logprobs", 0, 20}, {"max_output_tokens", 16, most}, {"max_tool_calls", 1, most}}),
		checkFamily(request, "max_output_tokens"), checkMetadata(request), checkResponseTools(request), checkResponseFormat(request),
		p.checkState(request), p.checkItems(request))
}

func checkResponseFormat(request *node) *refusal {
	format := request.path("text", "format")
	if format.str("type") != "json_schema" {
		return nil
	}
	return checkName("text.format.name", format.str("name"))
}

func checkResponseTools(request *node) *refusal {
	tools := request.items("tools")
	for _, item := range request.items("input") { // Codex brings its tools as an item
		if item.str("type") == "additional_tools" {
			tools = append(slices.Clip(tools), item.items("tools")...)
		}
	}
	var names []string
	for i, tool := range tools {
		members := []*node{tool}
		if tool.str("type") == "namespace" {
			members = append(members, tool.items("tools")...)
		}
		for _, member := range members {
			if !member.has("name") {
				continue
			}
			param := fmt.Sprintf("tools[%d]", i)
			if refusal := firstOf(checkName(param+".name", member.str("name")), checkParameters(param+".parameters", member, member.get("parameters"))); refusal != nil {
				return refusal
			}
			names = append(names, member.str("name"))
		}
	}
	choice := request.get("tool_choice")
	switch name := choice.str("name"); {
	case choice.string() == "required" && len(tools) == 0:
		return badParam("tool_choice", noCode, "Tool choice 'required' must be specified with 'tools' parameter.")
	case name != "" && choice.str("type") != "mcp" && !slices.Contains(names, name):
		return badParam("tool_choice", noCode, "Tool choice '%s' not found in 'tools' parameter.", choice.str("type"))
	}
	return nil
}

// checkState refuses references to what is not stored.
func (p *Provider) checkState(request *node) *refusal {
	previous := request.str("previous_response_id")
	if previous == "" {
		return nil
	}
	if request.has("conversation") {
		return badParam("", "mutually_exclusive_parameters", "Mutually exclusive parameters: 'previous_response_id' and 'conversation'. Ensure you are only providing one of these.")
	}
	if _, found := p.recollect(previous); !found {
		f := badParam("previous_response_id", "previous_response_not_found", "Previous response with id '%s' not found.", previous)
		f.status = http.StatusNotFound
		return f
	}
	return nil
}

// answers tells what answers a call.
func answers(kind string) string {
	switch kind {
	case "function_call", "custom_tool_call", "local_shell_call", "shell_call", "apply_patch_call", "computer_call":
		return kind + "_output"
	}
	return ""
}

// checkItems holds for the input's items.
func (p *Provider) checkItems(request *node) *refusal {
	items := request.items("input")
	if input := request.get("input"); input.is(array) && len(items) == 0 && !request.has("previous_response_id") && !request.has("prompt") && !request.has("conversation") {
		return badParam("input", "empty_array", "Invalid 'input': empty array. Expected an array with minimum length 1, but got an empty array instead.")
	}
	calls := p.earlierCalls(request)
	for i, item := range items {
		param := fmt.Sprintf("input[%d]", i)
		if refusal := firstOf(p.checkItem(param, item, request), checkParts(param, item)); refusal != nil {
			return refusal
		}
		kind, id := item.str("type"), item.str("call_id")
		switch {
		case answers(kind) != "":
			if slices.ContainsFunc(items[:i], func(other *node) bool { return other.str("type") == kind && other.str("call_id") == id }) {
				return badParam(param, noCode, "Duplicate call_id '%s' found in input.", id)
			}
			if !slices.ContainsFunc(items[i+1:], func(other *node) bool { return other.str("type") == answers(kind) && other.str("call_id") == id }) {
				return badParam("input", noCode, "No tool output found for %s %s.", callName(kind), id)
			}
			calls = append(calls, answers(kind)+" "+id)
		case strings.HasSuffix(kind, "_call_output"):
			at := slices.Index(calls, kind+" "+id)
			if at < 0 {
				return badParam("input", noCode, "No tool call found for %s output with call_id %s.", callName(strings.TrimSuffix(kind, "_output")), id)
			}
			calls = slices.Delete(calls, at, at+1) // each is answered once
		}
	}
	return nil
}

func callName(kind string) string { return strings.ReplaceAll(kind, "_", " ") }

// earlierCalls are the calls of the response that the request goes on from.
func (p *Provider) earlierCalls(request *node) []string {
	var calls []string
	kept, _ := p.recollect(request.str("previous_response_id"))
	for _, item := range kept.items {
		if answers(item.Type) != "" {
			calls = append(calls, answers(item.Type)+" "+item.CallID)
		}
	}
	return calls
}

// checkItem holds for one item, whatever stands beside it.
func (p *Provider) checkItem(param string, item, request *node) *refusal {
	kind, id := item.str("type"), item.str("id")
	stores := !request.get("store").is(boolean) || request.yes("store")
	if answers(kind) != "" || strings.HasSuffix(kind, "_call_output") {
		if refusal := checkCallID(param+".call_id", item.str("call_id")); refusal != nil {
			return refusal
		}
	}
	switch kind {
	case "function_call", "custom_tool_call":
		return checkName(param+".name", item.str("name"))
	case "item_reference":
		return p.checkStored(param, id, stores)
	case "reasoning":
		if !item.has("encrypted_content") {
			if id == "" {
				return badParam(param+".id", "missing_required_parameter", "Missing required parameter: '%s.id'.", param)
			}
			return p.checkStored(param, id, stores)
		}
		return p.checkEncrypted(item, id)
	case "compaction":
		return p.checkEncrypted(item, id)
	case "":
		if !item.has("role") { // an item_reference without its type
			return p.checkStored(param, id, stores)
		}
	}
	return nil
}

// checkStored refuses an id that stands for an item that is not kept.
func (p *Provider) checkStored(param, id string, stores bool) *refusal {
	if stores && p.remembers(id) {
		return nil
	}
	message := "Item with id '%s' not found."
	if !stores {
		message += " Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item from your input."
	}
	f := badParam("input", noCode, message, id)
	f.status = http.StatusNotFound
	return f
}

func (p *Provider) checkEncrypted(item *node, id string) *refusal {
	if !p.options.CheckSignatures {
		return nil
	}
	encrypted, isOpenAI := strings.CutPrefix(item.str("encrypted_content"), encryptedPrefix)
	if isOpenAI && p.sealed(encrypted, sealReasoning, id) {
		return nil
	}
	shown := item.str("encrypted_content")
	return badParam("", "invalid_encrypted_content", "The encrypted content %s... could not be verified. Reason: Encrypted content could not be decrypted or parsed.", shown[:min(4, len(shown))])
}

// checkParts holds for the parts of a message or of a tool's output.
func checkParts(param string, item *node) *refusal {
	name := "content"
	if item.has("output") {
		name = "output"
	}
	for j, part := range item.items(name) {
		at := fmt.Sprintf("%s.%s[%d]", param, name, j)
		switch part.str("type") {
		case "input_image":
			if part.has("image_url") == part.has("file_id") {
				return badParam(at, "invalid_value", "Invalid '%s': exactly one of 'image_url' and 'file_id' must be given.", at)
			}
			if part.has("image_url") {
				if refusal := checkImageURL(at+".image_url", part.str("image_url")); refusal != nil {
					return refusal
				}
			}
		case "input_file":
			given := 0
			for _, source := range []string{"file_data", "file_url", "file_id"} {
				if part.has(source) {
					given++
				}
			}
			if given != 1 {
				return badParam(at, "invalid_value", "Invalid '%s': exactly one of 'file_data', 'file_url' and 'file_id' must be given.", at)
			}
			if data := part.str("file_data"); part.has("file_data") && !isDataURL(data, "") {
				return badParam(at+".file_data", "invalid_value", "Invalid '%s.file_data': expected a base64-encoded data URL.", at)
			}
		}
	}
	return nil
}
