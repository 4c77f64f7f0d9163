package ir

import (
	"fmt"
	"slices"
	"strconv"
)

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

// Bounds of what is named as lost: clients and upstreams may invent any number of words.
const (
	maxLost     = 64
	maxLostPath = 128 // bytes
)

// AppendLost names something as lost, once. What is no path of a dialect's words is somebody's text and is not repeated.
func AppendLost(lost []string, path string) []string {
	if path == "" || slices.Contains(lost, path) {
		return lost
	}
	if len(lost) >= maxLost || !isPath(path) {
		if path = "unknown_fields"; slices.Contains(lost, path) {
			return lost
		}
	}
	return append(lost, path)
}

func isPath(s string) bool {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case PlainLetter(c), c == '.', c == '[', c == ']', c == '$':
		default:
			return false
		}
	}
	return len(s) <= maxLostPath
}

// Element is the path of an array's element.
func Element(array string, i int) string { return array + "[" + strconv.Itoa(i) + "]" }

// RefusedError says that a request cannot be converted without changing what it means. It becomes a 400 in the client's
// dialect that names the field.
type RefusedError struct {
	Field   string // path in the client's body, e.g. "messages[2].content[0]"; "" = no single one
	Problem string // holds nothing of the request's text
}

func (e *RefusedError) Error() string {
	if e.Field == "" {
		return e.Problem
	}
	return e.Field + ": " + e.Problem
}

// Refuse makes a RefusedError.
func Refuse(field, format string, args ...any) error {
	return &RefusedError{field, fmt.Sprintf(format, args...)}
}
