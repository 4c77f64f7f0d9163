package openairesponses

import (
	"errors"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

var errNoAnswer = errors.New("the body is no answer of OpenAI Responses")

// decodeAnswer reads a plain answer by the same steps as the last event of a stream.
func decodeAnswer(body []byte, s ir.Source) ([]ir.Event, error) {
	if rawjson.Valid(body) != nil || !isObjectRaw(body[skipBlank(body):]) {
		return nil, errNoAnswer
	}
	d := &decoder{src: s}
	output := rawjson.Get(body, "output")
	hasOutput := len(output) > 0 && output[0] == '['
	switch status := stringOf(body, "status"); {
	case isObjectRaw(rawjson.Get(body, "error")) || status == "failed" || status == "cancelled":
		if !hasOutput {
			return d.fault(nil, body), nil
		}
		return d.fault(d.start(nil, body), body), nil
	case !hasOutput, status != "" && status != "completed" && status != "incomplete":
		return nil, errNoAnswer
	}
	return d.terminal(nil, body, false), nil
}

// skipBlank returns the offset of the first byte that is no white space.
func skipBlank(b []byte) int {
	for i, c := range b {
		if c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return i
		}
	}
	return len(b)
}
