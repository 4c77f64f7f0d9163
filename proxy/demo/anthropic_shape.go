package demo

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// anthropicGrammar is what Messages take: facts/protocols.md 1.2 to 1.5 and the beta types of @anthropic-ai/sdk 1.14.0.
// Which top-level fields need a beta or a version is in checkField.
const anthropicGrammar = `
request = {
	model! string, messages! [message], max_tokens int, system string|[text]|null, stream bool|null, stop_sequences [string]|null,
	metadata {user_id string|null, * any}|null, tools [customTool|typedTool|mcpToolset]|null, tool_choice choiceAuto|choiceTool|choiceNone|null, thinking thinkingConfig|null,
	output_config {effort effort, format format|null, task_budget {type! 'tokens', total! int, remaining int|null}|null}|null,
	service_tier 'auto'|'standard_only', speed 'standard'|'fast'|null, inference_geo string|null, container string|object|null, cache_control cache,
	diagnostics object|null, temperature number|null, top_p number|null, top_k int|null, fallbacks 'default'|[object], fallback_credit_token string|object,
	thread object, mcp_servers [object], context_management {edits [object]}|null, compaction object, billing_policy any, output_format format|null
}
effort = 'low'|'medium'|'high'|'xhigh'|'max'|null
format = {type! 'json_schema', schema! object}
cache = {type! 'ephemeral', ttl '5m'|'1h', scope string}|null
thinkingConfig = {type! 'enabled'|'adaptive'|'disabled'|'between_tools', budget_tokens int, display 'summarized'|'omitted'|'updates'|null, block_binding object}
choiceAuto = {type! 'auto'|'any', disable_parallel_tool_use bool}
choiceTool = {type! 'tool', name! string, disable_parallel_tool_use bool}
choiceNone = {type! 'none'}
customTool = {type 'custom'|null, name! string, description string, input_schema! {type! 'object', * any}, strict bool, cache_control cache, defer_loading bool,
	allowed_callers [string], input_examples [object], eager_input_streaming bool|null}
typedTool = {type! 'bash_20241022'|'bash_20250124'|'text_editor_20241022'|'text_editor_20250124'|'text_editor_20250429'|'text_editor_20250728'|'memory_20250818'
	|'browser_toolset_20260801'|'computer_toolset_20260801'|'computer_20241022'|'computer_20250124'|'computer_20251124'
	|'web_search_20250305'|'web_search_20260209'|'web_search_20260318'|'web_fetch_20250910'|'web_fetch_20260209'|'web_fetch_20260309'|'web_fetch_20260318'
	|'code_execution_20250522'|'code_execution_20250825'|'code_execution_20260120'|'code_execution_20260521'
	|'tool_search_tool_bm25'|'tool_search_tool_bm25_20251119'|'tool_search_tool_regex'|'tool_search_tool_regex_20251119'|'advisor_20260301', name string, * any}
mcpToolset = {type! 'mcp_toolset', mcp_server_name! string, * any}

message = {role! 'user'|'assistant'|'system', content string|[block]|null, clear_at 'never'|'next_user_message'|null, output_config {effort effort}|null}
block = text|image|document|searchResult|thinking|redacted|toolUse|toolResult|serverToolUse|otherBlock
text = {type! 'text', text! string, cache_control cache, citations [object]|null}
image = {type! 'image', source! base64Source|urlSource|fileSource, cache_control cache, transformations object|null}
base64Source = {type! 'base64', media_type! string, data! base64}
urlSource = {type! 'url', url! string}
fileSource = {type! 'file', file_id! string}
textSource = {type! 'text', media_type! 'text/plain', data! string}
contentSource = {type! 'content', content! string|[text|image]}
document = {type! 'document', source! base64Source|urlSource|fileSource|textSource|contentSource, cache_control cache, citations {enabled bool}|null, context string|null, title string|null}
searchResult = {type! 'search_result', source! string, title! string, content! [text], cache_control cache, citations {enabled bool}|null}
thinking = {type! 'thinking', thinking! string, signature! string}
redacted = {type! 'redacted_thinking', data! string}
toolUse = {type! 'tool_use', id! string, name! string, input! any, cache_control cache, caller object, toolset_name string|null}
toolResult = {type! 'tool_result', tool_use_id! string, content string|[text|image|searchResult|document|toolReference|browserState]|null, is_error bool, cache_control cache, toolset_name string|null}
toolReference = {type! 'tool_reference', tool_name! string, cache_control cache}
browserState = {type! 'browser_state', * any}
serverToolUse = {type! 'server_tool_use', id! string, name! string, input! any, cache_control cache, caller object}
otherBlock = {type! 'web_search_tool_result'|'web_fetch_tool_result'|'advisor_tool_result'|'code_execution_tool_result'|'bash_code_execution_tool_result'
	|'text_editor_code_execution_tool_result'|'tool_search_tool_result'|'mcp_tool_use'|'mcp_tool_result'|'container_upload'|'compaction'|'tool_addition'|'tool_removal'
	|'mcp_tool_listing'|'fallback', * any}
`

// anthropicFlaw words a flaw as Anthropic does.
func anthropicFlaw(f *flaw) *refusal {
	switch f.what {
	case unknownField:
		return bad("%s: Extra inputs are not permitted", f.path.at(f.name).dots())
	case missingField:
		return bad("%s: Field required", f.path.at(f.name).dots())
	case wrongValue:
		return bad("%s: Input should be '%s'", f.path.dots(), strings.Join(f.want, "' or '"))
	}
	return bad("%s: Input should be %s", f.path.dots(), strings.Join(f.want, " or "))
}

// checkShape holds for what the grammar knows, and for rules that need the whole tree.
func (p *Provider) checkShape(body []byte, header http.Header) *refusal {
	request, err := parseTree(body)
	if err != nil {
		return bad("The request body is not valid JSON: %v", err)
	}
	if f := p.grammar.anthropic().check("request", request); f != nil {
		return anthropicFlaw(f)
	}
	return firstOf(checkSampling(request), checkChoice(request), checkSources(request), checkRoots(request), checkThinkingFirst(request),
		checkVersionBlocks(request, header))
}

// newer holds for Claude models after Opus 4.6: claude-opus-4-7, claude-sonnet-5-5.
func newer(model string) bool {
	found := regexp.MustCompile(`claude-[a-z]+-([0-9]+)(?:-([0-9]{1,2}))?(?:-|$)`).FindStringSubmatch(model)
	if found == nil {
		return false
	}
	major, _ := strconv.Atoi(found[1])
	minor, _ := strconv.Atoi(found[2])
	return major < 1000 && (major > 4 || major == 4 && minor > 6)
}

func checkSampling(request *node) *refusal {
	temperature, topP, model := request.get("temperature"), request.get("top_p"), request.str("model")
	thinks := request.get("thinking").str("type") == "enabled" || request.get("thinking").str("type") == "adaptive"
	switch {
	case temperature.given() && (temperature.number() < 0 || temperature.number() > 1):
		return bad("temperature: Input should be between 0 and 1")
	case topP.given() && (topP.number() < 0 || topP.number() > 1):
		return bad("top_p: Input should be between 0 and 1")
	case newer(model) && temperature.given() && temperature.number() != 1:
		return bad("`temperature` is deprecated for this model.")
	case newer(model) && topP.given() && topP.number() < 0.99:
		return bad("`top_p` is deprecated for this model.")
	case newer(model) && request.has("top_k"):
		return bad("`top_k` is deprecated for this model.")
	case thinks && temperature.given() && temperature.number() != 1:
		return bad("`temperature` may only be set to 1 when thinking is enabled.")
	}
	for i, stop := range request.items("stop_sequences") {
		if strings.TrimSpace(stop.text) == "" {
			return bad("stop_sequences.%d: each stop sequence must contain non-whitespace", i)
		}
	}
	return nil
}

func checkChoice(request *node) *refusal {
	choice, thinking := request.get("tool_choice"), request.get("thinking").str("type")
	if !choice.given() {
		return nil
	}
	forced := choice.str("type") == "any" || choice.str("type") == "tool"
	named := func(tool *node) bool { return tool.str("name") == choice.str("name") }
	switch {
	case len(request.items("tools")) == 0:
		return bad("tool_choice: may only be specified while providing tools.")
	case forced && (thinking == "enabled" || thinking == "adaptive"):
		return bad("Thinking may not be enabled when tool_choice forces tool use.")
	case choice.str("type") == "tool" && !slices.ContainsFunc(request.items("tools"), named):
		return bad("Tool '%s' not found in provided tools", choice.str("name"))
	}
	return nil
}

// checkSources holds for images and documents, also those within tool results.
func checkSources(request *node) *refusal {
	for i, m := range request.items("messages") {
		if refusal := checkBlockSources(fmt.Sprintf("messages.%d.content", i), m.items("content")); refusal != nil {
			return refusal
		}
	}
	return nil
}

func checkBlockSources(at string, blocks []*node) *refusal {
	for j, b := range blocks {
		path := fmt.Sprintf("%s.%d.%s", at, j, b.str("type"))
		source := b.get("source")
		media := source.str("media_type")
		isBase := source.str("type") == "base64"
		switch {
		case b.str("type") == "image" && isBase && !slices.Contains([]string{"image/jpeg", "image/png", "image/gif", "image/webp"}, media):
			return bad("%s.source.base64.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'", path)
		case b.str("type") == "document" && isBase && media != "application/pdf":
			return bad("%s.source.base64.media_type: Input should be 'application/pdf'", path)
		case isBase && source.str("data") == "":
			return bad("%s.source.base64.data: %s cannot be empty", path, b.str("type"))
		case source.str("type") == "url" && !strings.HasPrefix(source.str("url"), "http"):
			return bad("%s.source.url: Only HTTP(S) URLs are supported", path)
		}
		if refusal := checkBlockSources(path+".content", b.items("content")); refusal != nil {
			return refusal
		}
	}
	return nil
}

// checkRoots refuses schemas that are a union at their root.
func checkRoots(request *node) *refusal {
	for i, tool := range request.items("tools") {
		for _, union := range []string{"anyOf", "oneOf", "allOf"} {
			if tool.get("input_schema").has(union) {
				return bad("tools.%d.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level", i)
			}
		}
	}
	return nil
}

// checkThinkingFirst holds while a tool loop goes on: with a thinking budget, the assistant's last turn begins with
// its thinking. Adaptive thinking may not have thought.
func checkThinkingFirst(request *node) *refusal {
	messages := request.items("messages")
	if request.get("thinking").str("type") != "enabled" || !endsInResult(messages) {
		return nil
	}
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].str("role") != "assistant" {
			continue
		}
		if i > 0 && messages[i-1].str("role") == "assistant" { // one turn
			continue
		}
		first := "text"
		if blocks := messages[i].items("content"); len(blocks) > 0 {
			first = blocks[0].str("type")
		}
		if first == "thinking" || first == "redacted_thinking" {
			return nil
		}
		return bad("messages.%d.content.0.type: Expected `thinking` or `redacted_thinking`, but found `%s`. When `thinking` is enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks). To avoid this requirement, disable `thinking`.", i, first)
	}
	return nil
}

// endsInResult holds for a conversation whose last turn answers a call.
func endsInResult(messages []*node) bool {
	for i := len(messages) - 1; i >= 0; i-- {
		switch messages[i].str("role") {
		case "assistant":
			return false
		case "user":
			if slices.ContainsFunc(messages[i].items("content"), func(b *node) bool { return b.str("type") == "tool_result" }) {
				return true
			}
		}
	}
	return false
}

// checkVersionBlocks refuses what version 2026-10-21 no longer takes.
func checkVersionBlocks(request *node, header http.Header) *refusal {
	if header.Get("anthropic-version") != version2026 {
		return nil
	}
	for i, m := range request.items("messages") {
		for j, b := range m.items("content") {
			switch {
			case m.str("role") == "assistant" && b.str("type") == "document":
				return bad("messages.%d.content.%d: `document` blocks are not permitted in assistant messages", i, j)
			case m.str("role") == "user" && b.str("type") == "text" && len(b.items("citations")) > 0:
				return bad("messages.%d.content.%d.text.citations: not permitted in user messages", i, j)
			}
		}
	}
	return nil
}
