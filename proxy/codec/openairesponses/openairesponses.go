// Package openairesponses speaks OpenAI Responses (facts/protocols.md, section 3). It is pure: bytes in, meaning out.
package openairesponses

import "coding-proxy/proxy/ir"

// endpoint is the path of clients and upstreams alike.
const endpoint = "/v1/responses"

// Dialect describes the dialect.
func Dialect() *ir.Dialect {
	return &ir.Dialect{
		Name:          "openai-responses",
		Prefix:        "openai",
		Endpoints:     []ir.Endpoint{{Pattern: endpoint}},
		DecodeRequest: decodeRequest,
		EncodeRequest: encodeRequest,
		NewDecoder:    newDecoder,
		DecodeAnswer:  decodeAnswer,
		NewEncoder:    newEncoder,
		AppendAnswer:  appendAnswer,
		Fault:         readFault,
		AppendError:   appendError,
		Status:        statusFor,
		Raw: ir.Raw{
			NewTap:    func() ir.Tap { return &tap{sequence: -1} },
			Members:   []string{"usage", "status", "incomplete_details", "id"},
			Plain:     plain,
			Items:     "output",
			Refers:    refers,
			Says:      []string{"object", "output"},
			KeepAlive: alive,
			Opening:   "response.created",
			Last:      true,
			Repair:    repair,
		},
	}
}

// keepAlive is an event, as comments do not reset Codex's clock. It takes no sequence number.
const keepAlive = "event: keepalive\ndata: {\"type\":\"keepalive\"}\n\n"

// alive is a comment while the answer has not begun: the helper of OpenAI's SDK takes no other event before its first.
func alive(started bool) []byte {
	if started {
		return []byte(keepAlive)
	}
	return []byte(": keepalive\n\n")
}

// fieldNames are the paths of what the dialect can say.
var fieldNames = ir.FieldNames{
	ir.FieldTemperature: "temperature",
	ir.FieldTopP:        "top_p",
	ir.FieldMaxTokens:   "max_output_tokens",
	ir.FieldFormat:      "text.format",
	ir.FieldStrict:      "tools.strict",
	ir.FieldReasoning:   "reasoning",
	ir.FieldVerbosity:   "text.verbosity",
	ir.FieldCacheMark:   "prompt_cache_breakpoint",
	ir.FieldCacheKey:    "prompt_cache_key",
	ir.FieldUser:        "safety_identifier",
	ir.FieldMetadata:    "metadata",
	ir.FieldServiceTier: "service_tier",
	ir.FieldParallel:    "parallel_tool_calls",
	ir.FieldToolChoice:  "tool_choice",
	ir.FieldTools:       "tools",
	ir.FieldSchema:      "tools.parameters",
	ir.FieldThinking:    "reasoning.encrypted_content",
	ir.FieldCitations:   "annotations",
	ir.FieldDetail:      "detail",
	ir.FieldDocument:    "filename",
	ir.FieldPhase:       "phase",
}

// nameRule is what the API takes as names of tools and, by the same letters and length, as call ids.
func nameRule() ir.NameRule { return ir.PlainRule(64) }
