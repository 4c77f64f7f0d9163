package demo

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// chatGrammar is what Chat Completions take: facts/protocols.md 2.1 and the types of openai 7.59.0.
const chatGrammar = `
request = {
	model! string, messages! [message],
	audio {format! string, voice! string|object}|null, frequency_penalty number|null, presence_penalty number|null,
	function_call 'none'|'auto'|{name! string}, functions [{name! string, description string, parameters object}],
	logit_bias <number>|null, logprobs bool|null, top_logprobs int|null,
	max_completion_tokens int|null, max_tokens int|null, metadata <string>|null, modalities ['text'|'audio']|null,
	moderation {model! string, policy object|null}|null, n int|null, parallel_tool_calls bool,
	prediction {type! 'content', content! string|[textPart]}|null,
	prompt_cache_key string|null, prompt_cache_options {mode 'implicit'|'explicit', ttl '30m'|'12h'}, prompt_cache_retention 'in_memory'|'24h'|null,
	reasoning_effort 'none'|'minimal'|'low'|'medium'|'high'|'xhigh'|'max'|null,
	response_format formatText|formatObject|formatSchema,
	safety_identifier string|null, seed int|null, service_tier 'auto'|'default'|'flex'|'scale'|'priority'|'fast'|null,
	stop string|[string]|null, store bool|null, stream bool|null,
	stream_options {include_usage bool, include_obfuscation bool}|null,
	temperature number|null, top_p number|null,
	tool_choice 'none'|'auto'|'required'|choiceFunction|choiceCustom|choiceAllowed,
	thinking {type 'enabled'|'disabled', clear_thinking bool}, enable_thinking bool, thinking_budget int,
	tools [functionTool|customTool], user string, verbosity 'low'|'medium'|'high'|null,
	web_search_options {search_context_size 'low'|'medium'|'high', user_location {type! 'approximate', approximate! object}|null}
}
formatText = {type! 'text'}
formatObject = {type! 'json_object'}
formatSchema = {type! 'json_schema', json_schema! {name! string, description string, schema object, strict bool|null}}

choiceFunction = {type! 'function', function! {name! string}}
choiceCustom = {type! 'custom', custom! {name! string}}
choiceAllowed = {type! 'allowed_tools', allowed_tools! {mode! 'auto'|'required', tools! [object]}}
functionTool = {type! 'function', function! {name! string, description string, parameters object|null, strict bool|null}}
customTool = {type! 'custom', custom! {name! string, description string, format formatText|formatGrammar}}
formatGrammar = {type! 'grammar', grammar! {definition! string, syntax! 'lark'|'regex'}}

message = system | user | assistant | tool | function
system = {role! 'system'|'developer', content! string|[textPart], name string}
user = {role! 'user', content! string|[textPart|imagePart|audioPart|filePart], name string}
assistant = {role! 'assistant', content string|[textPart|refusalPart]|null, refusal string|null, name string, annotations [any]|null,
	audio {id! string}|null, tool_calls [call], function_call {name! string, arguments! string}|null, reasoning_content string|null}
tool = {role! 'tool', content! string|[textPart], tool_call_id! string}
function = {role! 'function', content! string|null, name! string}
call = functionCall | customCall
functionCall = {id! string, type! 'function', function! {name! string, arguments! string}}
customCall = {id! string, type! 'custom', custom! {name! string, input! string}}

textPart = {type! 'text', text! string, prompt_cache_breakpoint breakpoint}
imagePart = {type! 'image_url', image_url! {url! string, detail 'auto'|'low'|'high'|'original'}, prompt_cache_breakpoint breakpoint}
audioPart = {type! 'input_audio', input_audio! {data! base64, format! 'wav'|'mp3'}, prompt_cache_breakpoint breakpoint}
filePart = {type! 'file', file! {file_data string, file_id string, filename string}, prompt_cache_breakpoint breakpoint}
refusalPart = {type! 'refusal', refusal! string}
breakpoint = {mode! 'explicit', ttl '30m'|'12h'}
`

// openAIFlaw words a flaw as OpenAI does.
func openAIFlaw(f *flaw) *refusal {
	switch f.what {
	case unknownField:
		param := f.path.at(f.name).brackets()
		return badParam(param, "unknown_parameter", "Unknown parameter: '%s'.", param)
	case missingField:
		param := f.path.at(f.name).brackets()
		return badParam(param, "missing_required_parameter", "Missing required parameter: '%s'.", param)
	case wrongValue:
		return badParam(f.path.brackets(), "invalid_value", "Invalid value: '%s'. Supported values are: '%s'.", f.value, strings.Join(f.want, "', '"))
	}
	return badParam(f.path.brackets(), "invalid_type", "Invalid type for '%s': expected %s, but got %v instead.", f.path.brackets(), strings.Join(f.want, " or "), f.got)
}

// badParam is OpenAI's 400 for a parameter.
func badParam(param, code, format string, args ...any) *refusal {
	f := bad(format, args...)
	f.param, f.code = param, code
	return f
}

// readOpenAI parses a body and compares it with a definition.
func readOpenAI(g *grammar, definition string, body []byte) (*node, *refusal) {
	request, err := parseTree(body)
	if err != nil {
		return nil, bad("We could not parse the JSON body of your request. (HINT: This likely means you aren't using your HTTP library correctly. The OpenAI API expects a JSON payload, but what was sent was not valid JSON.)")
	}
	if request.kind != object {
		return nil, badParam("", "invalid_type", "Invalid type for the request: expected an object, but got %v instead.", request.kind)
	}
	if f := g.check(definition, request); f != nil {
		return nil, openAIFlaw(f)
	}
	return request, nil
}

// checkChat reads a request and refuses what the API refuses.
func (p *Provider) checkChat(body []byte) (*node, *refusal) {
	request, refusal := readOpenAI(p.grammar.chat(), "request", body)
	if refusal != nil {
		return nil, refusal
	}
	model := request.str("model")
	if model == "" {
		return nil, badParam("model", "missing_required_parameter", "you must provide a model parameter")
	}
	if !p.serves(model) {
		return nil, unknownModel(openAIChat, model)
	}
	return request, firstOf(
		p.checkVendorFields(request), checkChatNumbers(request), checkFamily(request, "max_completion_tokens"), checkChatStop(request),
		checkMetadata(request), checkChatTools(request), checkChatFormat(request), p.checkChatMessages(request.items("messages")))
}

// checkVendorFields refuses what vendors alone know where the provider is OpenAI's own.
func (p *Provider) checkVendorFields(request *node) *refusal {
	if p.options.ReasoningContent || p.options.ReplayReasoning {
		return nil
	}
	for _, name := range []string{"thinking", "enable_thinking", "thinking_budget"} {
		if request.get(name) != nil {
			return badParam(name, "unknown_parameter", "Unknown parameter: '%s'.", name)
		}
	}
	return nil
}

func unknownModel(dialect, model string) *refusal {
	switch dialect {
	case anthropic:
		return refuse(http.StatusNotFound, "model: "+model)
	case gemini:
		return refuse(http.StatusNotFound, "models/"+model+" is not found for API version v1beta, or is not supported for generateContent. Call ListModels to see the list of available models and their supported methods.")
	}
	f := refuse(http.StatusNotFound, "The model `"+model+"` does not exist or you do not have access to it.")
	f.code = "model_not_found"
	return f
}

// limits are what a number may be.
type limits struct {
	name      string
	low, high float64
}

func checkRanges(request *node, ranges []limits) *refusal {
	for _, r := range ranges {
		n := request.get(r.name)
		if !n.given() {
			continue
		}
		switch value := n.number(); {
		case value < r.low:
			return badParam(r.name, "integer_below_min_value", "Invalid '%s': expected a value >= %v, but got %s instead.", r.name, r.low, n.text)
		case value > r.high:
			return badParam(r.name, "integer_above_max_value", "Invalid '%s': expected a value <= %v, but got %s instead.", r.name, r.high, n.text)
		}
	}
	return nil
}

// number is a number's value, else 0.
func (n *node) number() float64 {
	if n == nil {
		return 0
	}
	value, _ := strconv.ParseFloat(n.text, 64) // text that is no number is none
	return value
}

const most = float64(1 << 53)

func checkChatNumbers(request *node) *refusal {
	if refusal := checkRanges(request, []limits{
		{"temperature", 0, 2}, {"top_p", 0, 1}, {"frequency_penalty", -2, 2}, {"presence_penalty", -2, 2},
		{"top_logprobs", 0, 20}, {"n", 1, 128}, {"max_tokens", 1, most}, {"max_completion_tokens", 1, most},
	}); refusal != nil {
		return refusal
	}
	switch {
	case request.has("max_tokens") && request.has("max_completion_tokens"):
		return badParam("max_tokens", "invalid_parameter_combination", "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.")
	case request.has("top_logprobs") && !request.yes("logprobs"):
		return badParam("top_logprobs", noCode, "The 'top_logprobs' parameter is only allowed when 'logprobs' is enabled.")
	case request.has("stream_options") && !request.yes("stream"):
		return badParam("stream_options", noCode, "The 'stream_options' parameter is only allowed when 'stream' is enabled.")
	case len(request.str("safety_identifier")) > 128:
		return badParam("safety_identifier", "string_above_max_length", "Invalid 'safety_identifier': string too long. Expected a string with maximum length 128.")
	}
	return nil
}

// reasons holds for models that think: o1, o3-mini, gpt-5, gpt-6.2-sol.
func reasons(model string) bool {
	_, model, _ = cutLast("/"+model, "/")
	return regexp.MustCompile(`^(o[0-9]|gpt-([5-9]|[1-9][0-9]))`).MatchString(model)
}

// samples holds for models that think and yet take a temperature: from gpt-5.1 on, with the effort none.
func samples(model string) bool {
	_, model, _ = cutLast("/"+model, "/")
	return !regexp.MustCompile(`^(o[0-9]|gpt-5($|-))`).MatchString(model)
}

// checkFamily refuses what models that think do not take; better names the field for max_tokens.
func checkFamily(request *node, better string) *refusal {
	model := request.str("model")
	if reasons(model) && request.has("max_tokens") {
		return badParam("max_tokens", "unsupported_parameter", "Unsupported parameter: 'max_tokens' is not supported with this model. Use '%s' instead.", better)
	}
	if samples(model) {
		return nil
	}
	for _, name := range []string{"temperature", "top_p"} {
		if n := request.get(name); n.given() && n.number() != 1 {
			return badParam(name, "unsupported_value", "Unsupported value: '%s' does not support %s with this model. Only the default (1) value is supported.", name, n.text)
		}
	}
	for _, name := range []string{"frequency_penalty", "presence_penalty", "logit_bias", "logprobs", "top_logprobs"} {
		if request.has(name) {
			return badParam(name, "unsupported_parameter", "Unsupported parameter: '%s' is not supported with this model.", name)
		}
	}
	return nil
}

func checkChatStop(request *node) *refusal {
	stop := request.get("stop")
	if len(stop.elements()) > 4 {
		return badParam("stop", "array_above_max_length", "Invalid 'stop': array too long. Expected an array with maximum length 4, but got an array with length %d instead.", len(stop.elements()))
	}
	if model := request.str("model"); stop.given() && (strings.HasPrefix(model, "o3") || strings.HasPrefix(model, "o4-mini")) {
		return badParam("stop", "unsupported_parameter", "Unsupported parameter: 'stop' is not supported with this model.")
	}
	return nil
}

// checkMetadata holds for both OpenAI dialects: 16 pairs, keys up to 64 and values up to 512 characters.
func checkMetadata(request *node) *refusal {
	m := request.get("metadata")
	if m == nil {
		return nil
	}
	if len(m.names) > 16 {
		return badParam("metadata", "object_above_max_properties", "Invalid 'metadata': too many properties. Expected an object with at most 16 properties, but got an object with %d properties instead.", len(m.names))
	}
	for i, name := range m.names {
		if len([]rune(name)) > 64 || len([]rune(m.list[i].text)) > 512 {
			return badParam("metadata."+name, "string_above_max_length", "Invalid 'metadata.%s': string too long.", name)
		}
	}
	return nil
}

// checkName holds for the names of tools: ^[a-zA-Z0-9_-]{1,64}$.
func checkName(param, name string) *refusal {
	switch {
	case name == "":
		return badParam(param, "empty_string", "Invalid '%s': empty string. Expected a string with minimum length 1, but got an empty string instead.", param)
	case len(name) > 64:
		return badParam(param, "string_above_max_length", "Invalid '%s': string too long. Expected a string with maximum length 64, but got a string with length %d instead.", param, len(name))
	case !isID(name):
		return badParam(param, "invalid_value", "Invalid '%s': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.", param)
	}
	return nil
}

// checkCallID holds for the ids of calls: up to 64 characters.
func checkCallID(param, id string) *refusal {
	switch {
	case id == "":
		return badParam(param, "empty_string", "Invalid '%s': empty string. Expected a string with minimum length 1, but got an empty string instead.", param)
	case len(id) > 64:
		return badParam(param, "string_above_max_length", "Invalid '%s': string too long. Expected a string with maximum length 64, but got a string with length %d instead.", param, len(id))
	}
	return nil
}

// own is a tool or call's own object: its function or its custom member.
func (n *node) own() *node {
	if n.str("type") == "custom" {
		return n.get("custom")
	}
	return n.get("function")
}

func checkChatTools(request *node) *refusal {
	tools := request.items("tools")
	if request.has("tools") && len(tools) == 0 {
		return badParam("tools", "empty_array", "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead.")
	}
	if len(tools) > 128 {
		return badParam("tools", "array_above_max_length", "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length %d instead.", len(tools))
	}
	var names []string
	for i, tool := range tools {
		param := fmt.Sprintf("tools[%d].%s", i, tool.str("type"))
		if refusal := checkName(param+".name", tool.own().str("name")); refusal != nil {
			return refusal
		}
		if refusal := checkParameters(param+".parameters", tool.own(), tool.own().get("parameters")); refusal != nil {
			return refusal
		}
		names = append(names, tool.own().str("name"))
	}
	choice := request.get("tool_choice")
	switch {
	case choice == nil:
		if request.has("parallel_tool_calls") && len(tools) == 0 {
			return badParam("parallel_tool_calls", noCode, "Invalid value for 'parallel_tool_calls': 'parallel_tool_calls' is only allowed when 'tools' are specified.")
		}
	case len(tools) == 0 && choice.string() != "none":
		return badParam("tool_choice", noCode, "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.")
	case choice.own().has("name") && !slices.Contains(names, choice.own().str("name")):
		return badParam("tool_choice", noCode, "Invalid value for 'tool_choice': tool '%s' is not among the 'tools'.", choice.own().str("name"))
	}
	return nil
}

// checkParameters refuses a schema whose root is no object, and a strict one that is not closed.
func checkParameters(param string, owner, schema *node) *refusal {
	if !schema.given() || len(schema.names) == 0 {
		return nil
	}
	if kind := schema.str("type"); kind != "object" {
		return badParam(param, "invalid_function_parameters", "Invalid schema for function '%s': schema must be a JSON Schema of 'type: \"object\"', got 'type: \"%s\"'.", owner.str("name"), kind)
	}
	if owner.yes("strict") && !(schema.get("additionalProperties").is(boolean) && !schema.yes("additionalProperties")) {
		return badParam(param, "invalid_function_parameters", "Invalid schema for function '%s': In context=(), 'additionalProperties' is required to be supplied and to be false.", owner.str("name"))
	}
	return nil
}

func checkChatFormat(request *node) *refusal {
	schema := request.path("response_format", "json_schema")
	if schema == nil {
		return nil
	}
	return checkName("response_format.json_schema.name", schema.str("name"))
}

// checkChatMessages holds for the conversation.
func (p *Provider) checkChatMessages(messages []*node) *refusal {
	if len(messages) == 0 {
		return badParam("messages", "empty_array", "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.")
	}
	for i, m := range messages {
		param := fmt.Sprintf("messages[%d]", i)
		if refusal := firstOf(checkChatContent(param, m), p.checkAssistant(param, m), checkCalls(param, m, messages[i+1:]), checkAnswer(param, i, messages)); refusal != nil {
			return refusal
		}
	}
	return nil
}

func checkChatContent(param string, m *node) *refusal {
	if content := m.get("content"); content.is(array) && len(content.list) == 0 {
		return badParam(param+".content", "empty_array", "Invalid '%s.content': empty array. Expected an array with minimum length 1, but got an empty array instead.", param)
	}
	for j, part := range m.items("content") {
		at := fmt.Sprintf("%s.content[%d]", param, j)
		switch part.str("type") {
		case "image_url":
			if refusal := checkImageURL(at+".image_url.url", part.get("image_url").str("url")); refusal != nil {
				return refusal
			}
		case "file":
			file := part.get("file")
			if file.has("file_data") == file.has("file_id") {
				return badParam(at+".file", "invalid_value", "Invalid '%s.file': exactly one of 'file_id' and 'file_data' must be given.", at)
			}
			if data := file.str("file_data"); file.has("file_data") && !isDataURL(data, "") {
				return badParam(at+".file.file_data", "invalid_value", "Invalid '%s.file.file_data': expected a base64-encoded data URL.", at)
			}
		}
	}
	return nil
}

// checkImageURL holds for the images of both OpenAI dialects.
func checkImageURL(param, url string) *refusal {
	switch {
	case strings.HasPrefix(url, "https://"), strings.HasPrefix(url, "http://"):
		return nil
	case !strings.HasPrefix(url, "data:"):
		return badParam(param, "invalid_value", "Invalid '%s'. Expected a valid URL, but got a value with an invalid format.", param)
	case isDataURL(url, "image/jpeg"), isDataURL(url, "image/png"), isDataURL(url, "image/gif"), isDataURL(url, "image/webp"):
		return nil
	case isDataURL(url, ""):
		return badParam(param, "invalid_image_format", "You uploaded an unsupported image. Please make sure your image has of one the following formats: ['png', 'jpeg', 'gif', 'webp'].")
	}
	return badParam(param, "invalid_base64", "Invalid '%s'. Expected a base64-encoded data URL with an image MIME type (e.g. 'data:image/png;base64,aW1nIGJ5dGVzIGhlcmU='), but got an invalid base64-encoded value.", param)
}

// isDataURL holds for data:MEDIA;base64,…; an empty media type is any.
func isDataURL(url, media string) bool {
	head, data, found := strings.Cut(url, ",")
	kind, isBase := strings.CutSuffix(strings.TrimPrefix(head, "data:"), ";base64")
	return found && isBase && strings.HasPrefix(url, "data:") && kind != "" && data != "" && (media == "" || kind == media) && isBase64(data)
}

// checkAssistant holds for an assistant's message on its own.
func (p *Provider) checkAssistant(param string, m *node) *refusal {
	if m.str("role") != "assistant" {
		return nil
	}
	calls := m.items("tool_calls")
	takes := p.options.ReasoningContent || p.options.ReplayReasoning
	switch {
	case m.get("reasoning_content") != nil && !takes:
		return badParam(param+".reasoning_content", "unknown_parameter", "Unknown parameter: '%s.reasoning_content'.", param)
	case p.options.ReplayReasoning && len(calls) > 0 && m.str("reasoning_content") == "":
		return badParam("", "invalid_request_error", "The `reasoning_content` in the thinking mode must be passed back to the API.")
	case m.has("tool_calls") && len(calls) == 0:
		return badParam(param+".tool_calls", "empty_array", "Invalid '%s.tool_calls': empty array. Expected an array with minimum length 1, but got an empty array instead.", param)
	case !m.has("content") && !m.has("refusal") && !m.has("audio") && !m.has("function_call") && len(calls) == 0:
		return badParam(param+".content", "invalid_type", "Invalid value for 'content': expected a string, got null.")
	}
	return nil
}

// checkCalls holds for calls: each is answered by one message directly after.
func checkCalls(param string, m *node, after []*node) *refusal {
	var ids []string
	for i, call := range m.items("tool_calls") {
		at := fmt.Sprintf("%s.tool_calls[%d]", param, i)
		id := call.str("id")
		if refusal := firstOf(checkCallID(at+".id", id), checkName(at+"."+call.str("type")+".name", call.own().str("name"))); refusal != nil {
			return refusal
		}
		if slices.Contains(ids, id) {
			return badParam(at+".id", "invalid_value", "Duplicate value for 'tool_call_id' of '%s'.", id)
		}
		ids = append(ids, id)
	}
	var missing []string
	for _, id := range ids {
		if !slices.ContainsFunc(leading(after), func(t *node) bool { return t.str("tool_call_id") == id }) {
			missing = append(missing, id)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return badParam(param, noCode, "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: %s", strings.Join(missing, ", "))
}

// leading are the tool messages that messages begin with.
func leading(messages []*node) []*node {
	n := slices.IndexFunc(messages, func(m *node) bool { return m.str("role") != "tool" })
	if n < 0 {
		return messages
	}
	return messages[:n]
}

// checkAnswer holds for a tool message: it answers one call of the assistant before, and no other does.
func checkAnswer(param string, i int, messages []*node) *refusal {
	id := messages[i].str("tool_call_id")
	if messages[i].str("role") != "tool" {
		return nil
	}
	first := i
	for first > 0 && messages[first-1].str("role") == "tool" {
		first--
	}
	if first == 0 || len(messages[first-1].items("tool_calls")) == 0 {
		return badParam(param+".role", noCode, "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.")
	}
	called := func(call *node) bool { return call.str("id") == id }
	if !slices.ContainsFunc(messages[first-1].items("tool_calls"), called) {
		return badParam(param+".tool_call_id", noCode, "Invalid parameter: 'tool_call_id' of '%s' not found in 'tool_calls' of previous message.", id)
	}
	again := func(other *node) bool { return other.str("tool_call_id") == id }
	if slices.ContainsFunc(messages[first:i], again) {
		return badParam(param+".tool_call_id", noCode, "Duplicate value for 'tool_call_id' of '%s' in message with role 'tool'.", id)
	}
	return nil
}
