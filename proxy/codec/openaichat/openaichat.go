// Package openaichat speaks OpenAI Chat Completions, and what the many vendors of that shape made of it
// (facts/protocols.md, section 2). It is pure: bytes in, meaning out.
package openaichat

import "coding-proxy/proxy/ir"

// path is where an upstream is asked, below its base address.
const path = "/v1/chat/completions"

// toolNames is OpenAI's rule for names of functions.
func toolNames() ir.NameRule { return ir.PlainRule(64) }

// callIDs is what goes for an id of a call: Chat says nothing, so any word does (Kimi's are functions.name:0); 64 bytes are
// what the strictest known client takes.
func callIDs() ir.NameRule { return ir.VisibleRule(64) }

// fieldNames are the dialect's paths. Where it has two words for a thing, the decoder puts in the one that was used.
var fieldNames = ir.FieldNames{
	ir.FieldTemperature:      "temperature",
	ir.FieldTopP:             "top_p",
	ir.FieldTopK:             "top_k",
	ir.FieldFrequencyPenalty: "frequency_penalty",
	ir.FieldPresencePenalty:  "presence_penalty",
	ir.FieldSeed:             "seed",
	ir.FieldLogitBias:        "logit_bias",
	ir.FieldMaxTokens:        "max_completion_tokens",
	ir.FieldStop:             "stop",
	ir.FieldFormat:           "response_format",
	ir.FieldStrict:           "strict",
	ir.FieldReasoning:        "reasoning_effort",
	ir.FieldVerbosity:        "verbosity",
	ir.FieldCacheMark:        "prompt_cache_breakpoint",
	ir.FieldCacheKey:         "prompt_cache_key",
	ir.FieldUser:             "safety_identifier",
	ir.FieldMetadata:         "metadata",
	ir.FieldServiceTier:      "service_tier",
	ir.FieldParallel:         "parallel_tool_calls",
	ir.FieldToolChoice:       "tool_choice",
	ir.FieldTools:            "tools",
	ir.FieldSchema:           "parameters",
	ir.FieldThinking:         "reasoning_content",
	ir.FieldCitations:        "annotations",
	ir.FieldDetail:           "detail",
	ir.FieldDocument:         "file",
	ir.FieldName:             "name",
}

// Dialect describes the dialect.
func Dialect() *ir.Dialect {
	return &ir.Dialect{
		Name:          "openai-chat",
		Prefix:        "openai",
		Endpoints:     []ir.Endpoint{{Pattern: path}},
		DecodeRequest: decodeRequest,
		EncodeRequest: encodeRequest,
		NewDecoder:    func(s ir.Source) ir.Decoder { return newDecoder(s) },
		DecodeAnswer:  decodeAnswer,
		NewEncoder:    func(r ir.Reply) ir.Encoder { return newEncoder(r) },
		AppendAnswer:  appendAnswer,
		Fault:         fault,
		AppendError:   appendError,
		Status:        status,
		Forgets:       true,
		CallID:        func(id string) string { return callIDs().Fit(id) },
		Raw: ir.Raw{
			NewTap:    func() ir.Tap { return &tap{} },
			IsBulk:    isBulk,
			Members:   []string{"usage", "choices"},
			Plain:     plain,
			Refers:    refers,
			Says:      []string{"choices"},
			Last:      true,
			KeepAlive: keepAlive,
			Repair:    repair,
		},
	}
}
