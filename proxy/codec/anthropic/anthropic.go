package anthropic

import "coding-proxy/proxy/ir"

// Dialect describes the dialect.
func Dialect() *ir.Dialect {
	return &ir.Dialect{
		Name: "anthropic", Prefix: "anthropic",
		Endpoints: []ir.Endpoint{{Pattern: "/v1/messages"}},

		DecodeRequest: decodeRequest,
		EncodeRequest: encodeRequest,
		NewDecoder:    func(s ir.Source) ir.Decoder { return newDecoder(s) },
		DecodeAnswer:  decodeAnswer,
		NewEncoder:    func(r ir.Reply) ir.Encoder { return newEncoder(r) },
		AppendAnswer:  appendAnswer,

		Fault:       fault,
		AppendError: appendFault,
		Status:      status,

		Raw: ir.Raw{
			NewTap:    func() ir.Tap { return tap{} },
			IsBulk:    isDelta,
			Members:   []string{"usage", "stop_reason"},
			Plain:     plain,
			Refers:    refers,
			Says:      []string{"content", "usage"},
			KeepAlive: ping,
			Opening:   "message_start",
			Repair:    repair,
		},
	}
}

// names are the client's paths. Fields that this dialect cannot say have none. Nobody changes the table; a request that
// points at it came in this dialect.
var names = ir.FieldNames{
	ir.FieldTemperature: "temperature",
	ir.FieldTopP:        "top_p",
	ir.FieldTopK:        "top_k",
	ir.FieldMaxTokens:   "max_tokens",
	ir.FieldStop:        "stop_sequences",
	ir.FieldFormat:      "output_config.format",
	ir.FieldStrict:      "tools.strict",
	ir.FieldReasoning:   "thinking",
	ir.FieldCacheMark:   "cache_control",
	ir.FieldUser:        "metadata.user_id",
	ir.FieldMetadata:    "metadata",
	ir.FieldServiceTier: "service_tier",
	ir.FieldParallel:    "tool_choice.disable_parallel_tool_use",
	ir.FieldToolChoice:  "tool_choice",
	ir.FieldTools:       "tools",
	ir.FieldSchema:      "tools.input_schema",
	ir.FieldThinking:    "thinking",
	ir.FieldCitations:   "citations",
	ir.FieldDocument:    "document",
}

// toolRule says which tool names the API takes: 64 bytes by its error texts, though newer types allow 128.
func toolRule() ir.NameRule { return ir.PlainRule(64) }

// idRule says which ids of calls the API takes. It states no length.
func idRule() ir.NameRule { return ir.PlainRule(256) }
