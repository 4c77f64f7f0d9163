package ir

import "fmt"

// Field is something a request can say that a target may be unable to. Losses are named by the client's own paths:
// each decoder fills FieldNames once.
type Field uint8

// The fields.
const (
	FieldTemperature Field = iota
	FieldTopP
	FieldTopK
	FieldFrequencyPenalty
	FieldPresencePenalty
	FieldSeed
	FieldLogitBias
	FieldMaxTokens
	FieldStop
	FieldFormat
	FieldStrict // of tools
	FieldReasoning
	FieldVerbosity
	FieldCacheMark
	FieldCacheKey
	FieldUser
	FieldMetadata
	FieldServiceTier
	FieldParallel
	FieldToolChoice
	FieldTools    // a tool that the target has not
	FieldSchema   // a part of a tool's schema that the target does not take
	FieldThinking // reasoning of earlier turns, or its signature
	FieldCitations
	FieldDetail   // of images
	FieldDocument // title, context and such of documents
	FieldPhase
	FieldName // of participants
	fields
)

// FieldNames are a dialect's paths, e.g. "generationConfig.topK"; "" where a dialect cannot say the field anyway.
type FieldNames [fields]string

// RefusedError says that a request cannot be converted without changing what it means. It becomes a 400 in the client's
// dialect that names the field.
type RefusedError struct {
	Field   string // path in the client's body, e.g. "messages[2].content[0]"
	Problem string // holds nothing of the request's text
}

func (e *RefusedError) Error() string { return e.Field + ": " + e.Problem }

// Refuse makes a RefusedError.
func Refuse(field, format string, args ...any) error {
	return &RefusedError{field, fmt.Sprintf(format, args...)}
}
