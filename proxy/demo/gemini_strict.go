package demo

import (
	"fmt"
	"slices"
	"strings"
)

// geminiGrammar is what generateContent takes: facts/protocols.md 4.2 and the types of @google/genai 3.3.0.
const geminiGrammar = `
request = {
	model string, contents! [content], systemInstruction content, tools [tool], toolConfig toolConfig, safetySettings [safetySetting],
	generationConfig generationConfig, cachedContent string, serviceTier string, store bool, labels <string>
}
count = {contents [content], generateContentRequest request}
embedContent = {model string, content! content, taskType string, title string, outputDimensionality int64, embedContentConfig object}
batchEmbedContents = {requests! [{model! string, content! content, taskType string, title string, outputDimensionality int64}]}

content = {role string, parts [part]}
part = {
	text string, inlineData blob, fileData {fileUri! string, mimeType string, displayName string}, functionCall {id string, name! string, args object},
	functionResponse {id string, name string, response! object, parts [{inlineData blob, fileData object}], scheduling string, willContinue bool},
	executableCode {language! string, code! string, id string}, codeExecutionResult {outcome! string, output string, id string},
	toolCall {id string, toolType string, args object}, toolResponse {id string, toolType string, response object},
	thought bool, thoughtSignature base64, videoMetadata {startOffset string, endOffset string, fps number}, mediaResolution object|string,
	partMetadata object, speechMetadata object, audioTranscription object, mediaProcessing object
}
blob = {mimeType! string, data! base64, displayName string}

tool = {functionDeclarations [declaration], googleSearch object, googleSearchRetrieval object, urlContext object, codeExecution object, computerUse object,
	fileSearch object, googleMaps object, mcpServers [object]}
declaration = {name! string, description string, parameters schema, parametersJsonSchema any, response schema, responseJsonSchema any,
	behavior 'UNSPECIFIED'|'BLOCKING'|'NON_BLOCKING'}
toolConfig = {functionCallingConfig {mode 'MODE_UNSPECIFIED'|'AUTO'|'ANY'|'NONE'|'VALIDATED', allowedFunctionNames [string]},
	retrievalConfig object, includeServerSideToolInvocations bool}
safetySetting = {category! string, threshold! 'HARM_BLOCK_THRESHOLD_UNSPECIFIED'|'BLOCK_LOW_AND_ABOVE'|'BLOCK_MEDIUM_AND_ABOVE'|'BLOCK_ONLY_HIGH'|'BLOCK_NONE'|'OFF'}
generationConfig = {
	temperature number, topP number, topK number, candidateCount int64, maxOutputTokens int64, stopSequences [string], seed int64, presencePenalty number,
	frequencyPenalty number, responseLogprobs bool, logprobs int64, responseMimeType string, responseSchema schema, responseJsonSchema any,
	responseModalities ['MODALITY_UNSPECIFIED'|'TEXT'|'IMAGE'|'AUDIO'|'VIDEO'], mediaResolution string, speechConfig object, imageConfig object, responseFormat any,
	thinkingConfig {includeThoughts bool, thinkingBudget int64, thinkingLevel 'THINKING_LEVEL_UNSPECIFIED'|'MINIMAL'|'LOW'|'MEDIUM'|'HIGH'|'XHIGH'},
	enableEnhancedCivicAnswers bool, continuationToken string
}
schema = {
	type 'TYPE_UNSPECIFIED'|'STRING'|'NUMBER'|'INTEGER'|'BOOLEAN'|'ARRAY'|'OBJECT'|'NULL',
	format string, title string, description string, nullable bool, default any, example any, enum [string], items schema, minItems int64, maxItems int64,
	properties <schema>, propertyOrdering [string], required [string], minProperties int64, maxProperties int64, minLength int64, maxLength int64, pattern string,
	minimum number, maximum number, anyOf [schema]
}
jsonSchema = bool | {
	$id string, $defs <jsonSchema>, $ref string, $anchor string, $schema string, type string|[string], format string, title string, description string,
	enum [string|number|bool|null], items jsonSchema, prefixItems [jsonSchema], minItems int, maxItems int, minimum number, maximum number, anyOf [jsonSchema],
	oneOf [jsonSchema], properties <jsonSchema>, additionalProperties jsonSchema, required [string], propertyOrdering [string]
}
`

// geminiFlaw words a flaw as Google does.
func geminiFlaw(f *flaw) *refusal {
	param := f.path.brackets()
	var refusal *refusal
	switch f.what {
	case unknownField:
		where := ""
		if param != "" {
			where = " at '" + param + "'"
		}
		refusal = bad("Invalid JSON payload received. Unknown name \"%s\"%s: Cannot find field.", f.name, where)
	case missingField:
		param = f.path.at(f.name).brackets()
		refusal = bad("* GenerateContentRequest.%s: %s is not specified\n", param, f.name)
	case wrongValue:
		refusal = bad("Invalid value at '%s' (TYPE_ENUM), \"%s\"", param, f.value)
	default:
		refusal = bad("Invalid value at '%s' (wants %s), %v \"%s\"", param, strings.Join(f.want, " or "), f.got, f.value)
		if f.got == array {
			refusal = bad("Invalid JSON payload received. Unknown name \"%s\" at '%s': Proto field is not repeating, cannot start list.", last(f.path), f.path[:max(0, len(f.path)-1)].brackets())
		}
	}
	if refusal.param = param; param == "" {
		refusal.param = "request"
	}
	return refusal
}

func last(p place) string {
	if len(p) == 0 {
		return ""
	}
	return p[len(p)-1]
}

// badField is Google's 400 for a field.
func badField(param, format string, args ...any) *refusal {
	f := bad(format, args...)
	f.param = param
	return f
}

// readGemini parses a body and compares it with a definition.
func (p *Provider) readGemini(definition string, body []byte) (*node, *refusal) {
	request, err := parseTree(body)
	if err != nil || request.kind != object {
		return nil, bad("Invalid JSON payload received. Unexpected token.")
	}
	if f := p.grammar.gemini().check(definition, request); f != nil {
		return nil, geminiFlaw(f)
	}
	return request, nil
}

// checkGemini reads a request and refuses what the API refuses.
func (p *Provider) checkGemini(definition, model string, body []byte) (*node, *refusal) {
	whole, refusal := p.readGemini(definition, body)
	if refusal != nil {
		return nil, refusal
	}
	request := whole
	if inner := whole.get("generateContentRequest"); inner != nil {
		if whole.has("contents") {
			return nil, bad("Both `contents` and `generate_content_request` are set. Only one of them may be.")
		}
		request = inner
	}
	return whole, firstOf(
		checkGeneration(model, request.get("generationConfig")), p.checkJSONSchemas(request), checkDeclarations(model, request), checkCallingConfig(request),
		checkInstruction(request), p.checkContents(model, request))
}

func checkInstruction(request *node) *refusal {
	for i, part := range request.get("systemInstruction").items("parts") {
		if !part.has("text") {
			return badField("system_instruction", "* GenerateContentRequest.system_instruction.parts[%d]: only text is supported\n", i)
		}
	}
	return nil
}

func checkGeneration(model string, config *node) *refusal {
	thinking := config.get("thinkingConfig")
	for _, r := range []limits{{"temperature", 0, 2}, {"topP", 0, 1}, {"candidateCount", 1, 8}, {"maxOutputTokens", 1, most}, {"topK", 1, most}} {
		if n := config.get(r.name); n.given() && (n.number() < r.low || n.number() > r.high) {
			return badField("generation_config."+r.name, "* GenerateContentRequest.generation_config.%s: %s must be in the range [%v, %v].\n", r.name, r.name, r.low, r.high)
		}
	}
	budget := thinking.get("thinkingBudget").number()
	isJSON := config.str("responseMimeType") == "application/json" || config.str("responseMimeType") == "text/x.enum"
	switch {
	case len(config.items("stopSequences")) > 5:
		return badField("generation_config.stop_sequences", "* GenerateContentRequest.generation_config.stop_sequences: the number of stop sequences must be in the range [0, 5].\n")
	case config.has("responseSchema") && config.has("responseJsonSchema"):
		return badField("generation_config.response_schema", "Only one of response_schema and response_json_schema may be set.")
	case (config.has("responseSchema") || config.has("responseJsonSchema")) && !isJSON:
		return badField("generation_config.response_mime_type", "* GenerateContentRequest.generation_config.response_mime_type: response_schema is only allowed with the mime type application/json or text/x.enum\n")
	case config.has("responseMimeType") && !isJSON && config.str("responseMimeType") != "text/plain":
		return badField("generation_config.response_mime_type", "* GenerateContentRequest.generation_config.response_mime_type: allowed mimetypes are `text/plain`, `application/json` and `text/x.enum`.\n")
	case config.has("logprobs") && !config.yes("responseLogprobs"):
		return badField("generation_config.logprobs", "logprobs is only allowed when response_logprobs is true.")
	case thinking.has("thinkingBudget") && thinking.has("thinkingLevel"):
		return badField("generation_config.thinking_config", "You can only set only one of thinking budget and thinking level.")
	case thinking.has("thinkingLevel") && (strings.HasPrefix(model, "gemini-2") || strings.HasPrefix(model, "gemini-1")):
		return badField("generation_config.thinking_config.thinking_level", "Thinking level is not supported for this model.")
	case budget < -1:
		return badField("generation_config.thinking_config.thinking_budget", "The thinking budget %v is invalid. Please choose a value between 0 and 32768, or -1.", budget)
	case thinking.has("thinkingBudget") && budget == 0 && strings.Contains(model, "-pro"):
		return badField("generation_config.thinking_config.thinking_budget", "Budget 0 is invalid. This model only works in thinking mode.")
	}
	return checkSchema("generation_config.response_schema", config.get("responseSchema"))
}

// checkSchema holds for a Schema beyond its keys.
func checkSchema(param string, s *node) *refusal {
	if s == nil {
		return nil
	}
	kind := strings.ToUpper(s.str("type"))
	switch {
	case kind == "ARRAY" && !s.has("items"):
		return badField(param+".items", "* GenerateContentRequest.%s.items: missing field.\n", param)
	case len(s.items("enum")) > 0 && kind != "STRING" && kind != "":
		return badField(param+".enum", "* GenerateContentRequest.%s.enum: only allowed for STRING type\n", param)
	case kind == "" && !s.has("anyOf"):
		return badField(param+".type", "* GenerateContentRequest.%s.type: must be specified\n", param)
	}
	properties := s.get("properties")
	for i, name := range s.items("required") {
		if properties == nil || !slices.Contains(properties.names, name.text) {
			return badField(param+".required", "* GenerateContentRequest.%s.required[%d]: property is not defined\n", param, i)
		}
	}
	if properties != nil {
		for i, name := range properties.names {
			if refusal := checkSchema(param+".properties["+name+"]", properties.list[i]); refusal != nil {
				return refusal
			}
		}
	}
	for i, option := range s.items("anyOf") {
		if refusal := checkSchema(fmt.Sprintf("%s.any_of[%d]", param, i), option); refusal != nil {
			return refusal
		}
	}
	return checkSchema(param+".items", s.get("items"))
}

// checkJSONSchemas compares the JSON schemas with the keys that Google honours. Their own names are never camelCase.
func (p *Provider) checkJSONSchemas(request *node) *refusal {
	refusal := p.checkJSONSchema("generation_config.response_json_schema", request.path("generationConfig", "responseJsonSchema"))
	for i, tool := range request.items("tools") {
		for j, d := range tool.items("functionDeclarations") {
			param := fmt.Sprintf("tools[%d].function_declarations[%d]", i, j)
			refusal = firstOf(refusal, p.checkJSONSchema(param+".parameters_json_schema", d.get("parametersJsonSchema")),
				p.checkJSONSchema(param+".response_json_schema", d.get("responseJsonSchema")))
		}
	}
	return refusal
}

func (p *Provider) checkJSONSchema(param string, s *node) *refusal {
	if !s.given() {
		return nil
	}
	if f := p.grammar.jsonSchema().check("jsonSchema", s); f != nil {
		f.path = append(place{param}, f.path...)
		return geminiFlaw(f)
	}
	return checkReferences(param, s)
}

// checkReferences refuses keys beside a $ref that do not begin with $.
func checkReferences(param string, s *node) *refusal {
	if s == nil {
		return nil
	}
	if s.kind == object && s.get("$ref").is(text) {
		for _, name := range s.names {
			if !strings.HasPrefix(name, "$") {
				return badField(param, "Invalid value at '%s': `%s` is not allowed beside `$ref`.", param, name)
			}
		}
	}
	for _, child := range s.list {
		if refusal := checkReferences(param, child); refusal != nil {
			return refusal
		}
	}
	return nil
}

// functionName holds for names: facts/protocols.md 4.2.
func functionName(model, name string) bool {
	limit := 128
	if strings.HasPrefix(model, "gemini-2") || strings.HasPrefix(model, "gemini-1") {
		limit = 64
	}
	if name == "" || len(name) > limit || name[0] >= '0' && name[0] <= '9' || strings.IndexByte(".:-", name[0]) >= 0 {
		return false
	}
	return strings.IndexFunc(name, func(r rune) bool { return !isIDRune(r) && r != '.' && r != ':' }) < 0
}

func checkDeclarations(model string, request *node) *refusal {
	var names []string
	for i, tool := range request.items("tools") {
		if len(tool.names) == 0 {
			return badField(fmt.Sprintf("tools[%d]", i), "* GenerateContentRequest.tools[%d]: tool must have one initialized field\n", i)
		}
		for j, d := range tool.items("functionDeclarations") {
			param := fmt.Sprintf("tools[%d].function_declarations[%d]", i, j)
			name := d.str("name")
			switch {
			case !functionName(model, name):
				return badField(param+".name", "* GenerateContentRequest.%s.name: Invalid function name. Must start with a letter or an underscore. Must be alphanumeric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64.\n", param)
			case slices.Contains(names, name):
				return badField(param+".name", "Duplicate function declaration found: %s", name)
			case d.has("parameters") && d.has("parametersJsonSchema"):
				return badField(param, "parameters_json_schema must not be set when parameters is set: %s", param)
			case d.has("response") && d.has("responseJsonSchema"):
				return badField(param, "response_json_schema must not be set when response is set: %s", param)
			case d.has("parameters") && !strings.EqualFold(d.get("parameters").str("type"), "object"):
				return badField(param+".parameters", "* GenerateContentRequest.%s.parameters: schema must be of type OBJECT\n", param)
			}
			if refusal := checkSchema(param+".parameters", d.get("parameters")); refusal != nil {
				return refusal
			}
			names = append(names, name)
		}
	}
	if len(names) > 512 {
		return badField("tools", "The number of function declarations must be at most 512.")
	}
	return nil
}

func checkCallingConfig(request *node) *refusal {
	config := request.path("toolConfig", "functionCallingConfig")
	var declared []string
	for _, tool := range request.items("tools") {
		for _, d := range tool.items("functionDeclarations") {
			declared = append(declared, d.str("name"))
		}
	}
	mode := config.str("mode")
	if mode == "ANY" && len(declared) == 0 {
		return badField("tool_config", "Function calling config is set without function_declarations.")
	}
	for _, name := range config.items("allowedFunctionNames") {
		switch {
		case mode != "ANY" && mode != "VALIDATED":
			return badField("tool_config.function_calling_config.allowed_function_names", "* GenerateContentRequest.tool_config.function_calling_config.allowed_function_names: should only be set when the mode is ANY or VALIDATED\n")
		case !slices.Contains(declared, name.text):
			return badField("tool_config.function_calling_config.allowed_function_names", "* GenerateContentRequest.tool_config.function_calling_config.allowed_function_names: %s is not a declared function\n", name.text)
		}
	}
	return nil
}

// dataFields are the fields of a part of which exactly one is given.
func dataFields() []string {
	return []string{"text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode", "codeExecutionResult", "toolCall", "toolResponse"}
}

// checkContents holds for the conversation.
func (p *Provider) checkContents(model string, request *node) *refusal {
	contents := request.items("contents")
	if request.get("contents") == nil {
		return nil // of a count
	}
	if len(contents) == 0 {
		return badField("contents", "* GenerateContentRequest.contents: contents is not specified\n")
	}
	for i, c := range contents {
		param := fmt.Sprintf("contents[%d]", i)
		if role := c.str("role"); role != "" && role != "user" && role != "model" {
			return badField(param+".role", "Please use a valid role: user, model.")
		}
		if len(c.items("parts")) == 0 {
			return badField(param+".parts", "* GenerateContentRequest.%s.parts: contents.parts must not be empty.\n", param)
		}
		for j, part := range c.items("parts") {
			if refusal := checkData(fmt.Sprintf("%s.parts[%d]", param, j), model, part); refusal != nil {
				return refusal
			}
		}
	}
	return firstOf(checkTurns(model, contents), p.checkThoughts(model, contents))
}

// checkData holds for one part: it has one data field, and a valid one.
func checkData(param, model string, part *node) *refusal {
	var given []string
	for _, name := range dataFields() {
		if part.has(name) {
			given = append(given, name)
		}
	}
	if len(given) == 0 {
		return badField(param+".data", "* GenerateContentRequest.%s.data: required oneof field 'data' must have one initialized field\n", param)
	}
	if len(given) > 1 {
		return badField(param, "Invalid value at '%s' (oneof), oneof field 'data' is already set. Cannot set '%s'", param, given[1])
	}
	switch given[0] {
	case "inlineData":
		return checkMedia(param, part.get("inlineData"))
	case "fileData":
		if !strings.Contains(part.get("fileData").str("fileUri"), "://") {
			return badField(param+".file_data.file_uri", "Invalid or unsupported file uri: %s", part.get("fileData").str("fileUri"))
		}
	case "functionCall":
		if !functionName(model, part.get("functionCall").str("name")) {
			return badField(param+".function_call.name", "* GenerateContentRequest.%s.function_call.name: Name cannot be empty or invalid.\n", param)
		}
	case "functionResponse":
		if !functionName(model, part.get("functionResponse").str("name")) {
			return badField(param+".function_response.name", "* GenerateContentRequest.%s.function_response.name: Name cannot be empty.\n", param)
		}
		for _, inner := range part.get("functionResponse").items("parts") {
			if refusal := checkMedia(param, inner.get("inlineData")); inner.has("inlineData") && refusal != nil {
				return refusal
			}
		}
	}
	return nil
}

func checkMedia(param string, blob *node) *refusal {
	if blob.str("data") == "" {
		return badField(param+".inline_data.data", "* GenerateContentRequest.%s.inline_data.data: must not be empty.\n", param)
	}
	media, _, _ := strings.Cut(blob.str("mimeType"), ";")
	group, name, _ := strings.Cut(media, "/")
	switch {
	case group == "image" && slices.Contains([]string{"png", "jpeg", "gif", "webp", "heic", "heif"}, name):
	case name != "" && slices.Contains([]string{"audio", "video", "text"}, group):
	case media == "application/pdf", media == "application/json":
	default:
		return badField(param+".inline_data.mime_type", "Unsupported MIME type: %s", blob.str("mimeType"))
	}
	return nil
}

// count counts the parts that have a field.
func having(content *node, field string) []*node {
	var list []*node
	for _, part := range content.items("parts") {
		if part.has(field) {
			list = append(list, part.get(field))
		}
	}
	return list
}

// checkTurns holds for the order of turns, and for calls and their responses.
func checkTurns(model string, contents []*node) *refusal {
	const responseOrder = "Please ensure that function response turn comes immediately after a function call turn."
	if contents[0].str("role") == "model" {
		return badField("contents[0]", "Please ensure that multiturn requests begin with a user turn.")
	}
	for i, c := range contents {
		param := fmt.Sprintf("contents[%d]", i)
		calls, responses := having(c, "functionCall"), having(c, "functionResponse")
		isModel := c.str("role") == "model"
		switch {
		case len(calls) > 0 && (!isModel || i == 0 || contents[i-1].str("role") == "model"):
			return badField(param, "Please ensure that function call turn comes immediately after a user turn or after a function response turn.")
		case len(responses) > 0 && (isModel || i == 0 || len(having(contents[i-1], "functionCall")) == 0):
			return badField(param, responseOrder)
		case len(calls) > 0 && (i == len(contents)-1 || len(having(contents[i+1], "functionResponse")) == 0):
			return badField(param, "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.")
		}
		if len(responses) > 0 {
			if refusal := checkPairs(param, model, having(contents[i-1], "functionCall"), c); refusal != nil {
				return refusal
			}
		}
	}
	return nil
}

// checkPairs holds for the responses to a turn of calls: as many, in their order.
func checkPairs(param, model string, calls []*node, content *node) *refusal {
	responses := having(content, "functionResponse")
	media := len(having(content, "inlineData")) + len(having(content, "fileData"))
	if len(responses) != len(calls) || media > 0 && len(calls) > 1 && strings.HasPrefix(model, "gemini-2") {
		return badField(param, "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.")
	}
	for j, r := range responses {
		if r.str("name") != calls[j].str("name") {
			return badField(param, "Function response %q does not belong to function call %q: the order of function response parts must be that of the function call turn.", r.str("name"), calls[j].str("name"))
		}
		if id := r.str("id"); id != calls[j].str("id") && id != "" {
			return badField(param, "Function response id %q does not match function call id %q.", id, calls[j].str("id"))
		}
	}
	return nil
}

// skipSignature is the literal that lets calls without a signature of Google's pass.
const skipSignature = "skip_thought_signature_validator"

// checkThoughts holds for signatures: those that are there are this provider's and on their part; with Gemini 3,
// the first call of each step of the current turn has one.
func (p *Provider) checkThoughts(model string, contents []*node) *refusal {
	if !p.options.CheckSignatures {
		return nil
	}
	current := 0 // where the current turn begins: at the last user content that is no response
	for i, c := range contents {
		if c.str("role") != "model" && len(having(c, "functionResponse")) == 0 {
			current = i
		}
	}
	for i, c := range contents {
		called := false
		for j, part := range c.items("parts") {
			param := fmt.Sprintf("contents[%d].parts[%d]", i, j)
			isCall, signature := part.has("functionCall"), part.str("thoughtSignature")
			switch {
			case signature == "" && isCall && !called && i > current && strings.HasPrefix(model, "gemini-3"):
				return badField(param, "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing thought_signature may lead to degraded model performance. Additional data, function call `default_api:%s`, position %d.", part.get("functionCall").str("name"), i+1)
			case signature != "" && signature != skipSignature && !p.owns(part, signature):
				return badField(param, "Invalid thought signature.")
			}
			called = called || isCall
		}
	}
	return nil
}

func (p *Provider) owns(part *node, signature string) bool {
	if call := part.get("functionCall"); call.given() {
		args := "{}"
		if call.has("args") {
			args = call.get("args").canonical()
		}
		return p.sealed(signature, sealCall, call.str("name")+args)
	}
	return part.has("text") && p.sealed(signature, sealText, "")
}
