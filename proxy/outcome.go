package proxy

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"time"

	"coding-proxy/pool"
	"coding-proxy/proxy/ir"
)

// tooLong are the words in which providers say that a prompt is longer than the model takes.
var tooLong = []string{
	"prompt is too long", "maximum context length", "context_length_exceeded", "context window",
	"exceed the maximum number of tokens", "exceeds the maximum number of tokens", "request_too_large",
}

// capTypes are error types that mean used up or unpaid.
var capTypes = []string{"insufficient_quota", "quota_exceeded", "usage_limit_reached", "billing_error"}

// shortReset is the stated reset under which a limit is a rate limit, whatever its message says.
const shortReset = 10 * time.Minute

// judge says what an error of an upstream means: the rows of design/routing.md, section 4, in their order. It is
// the only place that knows status codes and error texts.
func (o *Failover) judge(f ir.Fault) pool.Outcome {
	out := func(c pool.Class) pool.Outcome {
		return pool.Outcome{Class: c, Reset: f.Reset, KeyWide: f.KeyWide, FamilyWide: f.FamilyWide}
	}
	message := strings.ToLower(f.Message)
	switch s := f.Status; {
	case isTooLong(f, message):
		return out(pool.Passthrough)
	case o.isCap(f, message):
		return out(pool.Cap)
	case s == http.StatusUnauthorized && f.Type == ir.KindInvalid && f.Code == "":
		return out(pool.Passthrough) // a parameter's fault under the wrong status (RET-018); OpenAI gives its own a code
	case s == http.StatusUnauthorized, s == http.StatusForbidden, f.Code == "API_KEY_INVALID": // Gemini's is a 400
		return pool.Outcome{Class: pool.Credential}
	case s == http.StatusTooManyRequests:
		return out(pool.RateLimit)
	case s == http.StatusServiceUnavailable, s == 529: // Anthropic sends 529 for overload
		return out(pool.Overload)
	case s >= 500, s >= 300 && s < 400, s == http.StatusMisdirectedRequest:
		return out(pool.Fault)
	case s == http.StatusNotFound && f.Type == "not_found_error" && strings.Contains(message, "model"),
		s == http.StatusNotFound && f.Code == "model_not_found",
		s == http.StatusBadRequest && (f.Code == "model_not_supported" || strings.Contains(message, "requested model is not supported")): // Copilot's
		return pool.Outcome{Class: pool.UnknownModel}
	case slices.Contains(o.StatusCodes, s), slices.Contains(o.ErrorTypes, f.Type), containsAny(message, o.MessagePatterns):
		return out(pool.RateLimit)
	}
	return out(pool.Passthrough)
}

func isTooLong(f ir.Fault, message string) bool {
	if f.Status == http.StatusRequestEntityTooLarge {
		return true
	}
	if f.Status != http.StatusBadRequest && f.Status < 500 {
		return false
	}
	return containsAny(message, tooLong) || slices.Contains(tooLong, f.Type) || slices.Contains(tooLong, f.Code)
}

func (o *Failover) isCap(f ir.Fault, message string) bool {
	if f.Code == quotaExhausted { // of one model
		return false
	}
	if slices.Contains(capTypes, f.Type) || slices.Contains(capTypes, f.Code) {
		return true
	}
	switch f.Status {
	case http.StatusPaymentRequired:
		return true
	case http.StatusForbidden, http.StatusTooManyRequests:
		return containsAny(message, o.CapPatterns) && !strings.Contains(message, "rate limit") && (f.Reset == 0 || f.Reset >= shortReset) &&
			!f.FamilyWide // whatever it says, other families of the account go on
	case http.StatusBadRequest:
		// A spend limit is a 400 with the day on which it ends (RET-019).
		return strings.Contains(message, "credit balance") || strings.Contains(message, "api usage limits")
	}
	return false
}

// containsAny reports whether the lower-case text holds one of the patterns, case aside.
func containsAny(text string, patterns []string) bool {
	for _, p := range patterns {
		if p != "" && strings.Contains(text, strings.ToLower(p)) {
			return true
		}
	}
	return false
}

// refusedHistory are the words in which Anthropic refuses what a history holds that other providers have answered: blank
// texts, empty answers, calls of an open tool loop without reasoning.
var refusedHistory = []string{
	"text content blocks must", "must have non-empty content", "expected `thinking` or `redacted_thinking`",
	"`tool_use` ids were found without", "unexpected `tool_use_id`",
}

// refusesState reports whether a provider refuses opaque state that another one made: a signature of reasoning
// (Anthropic), encrypted reasoning (OpenAI), the signature of a call (Gemini). Of a conversation that is not remembered,
// having no id, the other marks of a foreign history count, too.
func refusesState(f ir.Fault, remembered bool) bool {
	message := strings.ToLower(f.Message)
	if f.Status == http.StatusNotFound && strings.HasPrefix(message, "item with id 'rs_") {
		return true // reasoning by its id alone: another account has it
	}
	if f.Status != http.StatusBadRequest {
		return false
	}
	if !remembered && containsAny(message, refusedHistory) {
		return true
	}
	switch {
	case f.Code == "invalid_encrypted_content", strings.Contains(message, "encrypted content") && strings.Contains(message, "could not be"):
		return true
	case strings.Contains(message, "thought_signature"), strings.Contains(message, "thought signature"):
		return true
	}
	return strings.Contains(message, "signature") && strings.Contains(message, "thinking")
}

// faultOf reads an error answer of an upstream. A page in place of an API answer is a
// gateway's, not the provider's: it says nothing of the credential (RET-020). A 413 means the same from either.
func faultOf(d *ir.Dialect, resp *http.Response, body []byte, now time.Time) ir.Fault {
	f := d.Fault(resp.StatusCode, body)
	if isPage(body) && f.Status < 500 && f.Status != http.StatusRequestEntityTooLarge {
		f = ir.Fault{Status: http.StatusBadGateway, Kind: ir.KindAPI, Type: "page"}
	}
	f.Reset, f.KeyWide = stated(resp.Header, body, now)
	f.FamilyWide = rejected(resp.Header, now).family
	return f
}

func isPage(body []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n\ufeff"), []byte("<"))
}
