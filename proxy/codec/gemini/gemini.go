// Package gemini speaks Gemini's generateContent (facts/protocols.md, section 4). It is pure: bytes in, meaning out.
package gemini

import "coding-proxy/proxy/ir"

const (
	// placeholder stands for a signature that a call of another provider cannot have: Gemini passes such a call. Models of
	// others behind Google's address do not (facts/protocols.md 4.3, case 26).
	placeholder = "skip_thought_signature_validator"
	// blank is the neutral text of a turn that must be there: the first one must be the user's.
	blank = " "
	// maxStops is how many stop sequences the API takes.
	maxStops = 5
)

// toolNames is the rule for names of functions. Newer types allow 128 bytes, older ones 64.
func toolNames() ir.NameRule {
	return ir.NameRule{Max: 64, Legal: func(c byte, first bool) bool {
		if first && (c >= '0' && c <= '9' || c == '-') {
			return false
		}
		return ir.PlainLetter(c) || !first && (c == '.' || c == ':')
	}}
}

// callIDs is what goes for the id of a call: Gemini says nothing of its form, so any word does.
func callIDs() ir.NameRule { return ir.VisibleRule(128) }

// fieldNames are the dialect's paths. Nobody changes the table.
var fieldNames = ir.FieldNames{
	ir.FieldTemperature:      "generationConfig.temperature",
	ir.FieldTopP:             "generationConfig.topP",
	ir.FieldTopK:             "generationConfig.topK",
	ir.FieldFrequencyPenalty: "generationConfig.frequencyPenalty",
	ir.FieldPresencePenalty:  "generationConfig.presencePenalty",
	ir.FieldSeed:             "generationConfig.seed",
	ir.FieldMaxTokens:        "generationConfig.maxOutputTokens",
	ir.FieldStop:             "generationConfig.stopSequences",
	ir.FieldFormat:           "generationConfig.responseMimeType",
	ir.FieldReasoning:        "generationConfig.thinkingConfig",
	ir.FieldServiceTier:      "serviceTier",
	ir.FieldToolChoice:       "toolConfig.functionCallingConfig",
	ir.FieldTools:            "tools",
	ir.FieldSchema:           "functionDeclarations.parameters",
	ir.FieldThinking:         "thoughtSignature",
	ir.FieldDocument:         "inlineData.displayName",
}

// Dialect describes the dialect.
func Dialect() *ir.Dialect {
	return &ir.Dialect{
		Name:   "gemini",
		Prefix: "gemini",
		Endpoints: []ir.Endpoint{
			{Pattern: "/v1beta/models/{id}", Action: "generateContent"},
			{Pattern: "/v1beta/models/{id}", Action: "streamGenerateContent", Stream: true},
			{Pattern: "/v1/models/{id}", Action: "generateContent"},
			{Pattern: "/v1/models/{id}", Action: "streamGenerateContent", Stream: true},
		},
		DecodeRequest: decodeRequest,
		EncodeRequest: encodeRequest,
		NewDecoder:    func(s ir.Source) ir.Decoder { return newDecoder(s) },
		DecodeAnswer:  decodeAnswer,
		NewEncoder:    func(r ir.Reply) ir.Encoder { return newEncoder(r) },
		AppendAnswer:  appendAnswer,
		Fault:         fault,
		AppendError:   appendError,
		Status:        status,
		CallsCarry:    true, // gemini-cli drops thoughts from its history, @ai-sdk/google their signatures
		CommitAfter:   50,   // seconds: gemini-cli gives up after 60 without headers
		Raw: ir.Raw{
			NewTap:  func() ir.Tap { return &tap{} },
			Members: []string{"usageMetadata", "candidates", "promptFeedback"},
			Plain:   plain,
			Refers:  refers,
			Says:    []string{"candidates", "promptFeedback"},
			// A blank line: comments break gemini-cli.
			KeepAlive: func(bool) []byte { return []byte("\n") },
			Repair:    repair,
		},
	}
}
