package demo

import (
	"fmt"
	"net/http"
	"strconv"
)

// refusal is an error answer, before it has a dialect's form.
type refusal struct {
	status  int
	kind    string // a dialect's type or status word; empty = what belongs to the status
	message string
	code    string // OpenAI's; empty = what belongs to the status, noCode = null
	param   string // OpenAI's, and the field of Gemini's fieldViolations
	reason  string // Gemini's, in an ErrorInfo
	retry   int    // seconds that Gemini writes into a RetryInfo
}

// noCode is null where a status would bring a code.
const noCode = "null"

// statusOverloaded is Anthropic's own status for overload.
const statusOverloaded = 529

func refuse(status int, message string) *refusal { return &refusal{status: status, message: message} }

// bad is a 400.
func bad(format string, args ...any) *refusal {
	return refuse(http.StatusBadRequest, fmt.Sprintf(format, args...))
}

// firstOf is the first refusal that is one.
func firstOf(refusals ...*refusal) *refusal {
	for _, r := range refusals {
		if r != nil {
			return r
		}
	}
	return nil
}

// body is the error answer in a dialect's envelope.
func (f *refusal) body(dialect, requestID string) any {
	switch dialect {
	case anthropic:
		return f.envelope(requestID)
	case gemini:
		return geminiFailure{f.google()}
	}
	return openAIFailure{f.openAI()}
}

// envelope is the body of Anthropic's error answer, and the data of its error event.
func (f *refusal) envelope(requestID string) event {
	return event{Type: "error", Error: &errorBody{f.word(anthropic), f.message}, RequestID: requestID}
}

// word is the error's type or status word in a dialect. A step may name it in Anthropic's words for any dialect.
func (f *refusal) word(dialect string) string {
	status := f.status
	if f.kind != "" {
		if dialect == anthropic || statusOf(f.kind) == statusOverloaded && f.kind != "overloaded_error" {
			return f.kind
		}
		if status == 0 {
			status = statusOf(f.kind)
		}
	}
	switch dialect {
	case anthropic:
		return typeOf(status)
	case gemini:
		return googleStatus(status)
	}
	return openAIType(status)
}

type openAIFailure struct {
	Error openAIError `json:"error"`
}

type openAIError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

func (f *refusal) openAI() openAIError {
	e := openAIError{Message: f.message, Type: f.word(openAIChat), Param: optional(f.param), Code: optional(f.code)}
	if f.code == "" {
		e.Code = optional(openAICode(f.status))
	}
	return e
}

// optional is null for "" and for noCode.
func optional(s string) *string {
	if s == "" || s == noCode {
		return nil
	}
	return &s
}

func openAIType(status int) string {
	switch {
	case status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case status >= 500:
		return "server_error"
	}
	return "invalid_request_error"
}

func openAICode(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "invalid_api_key"
	case http.StatusPaymentRequired:
		return "insufficient_quota"
	case http.StatusTooManyRequests:
		return "rate_limit_exceeded"
	case http.StatusServiceUnavailable, statusOverloaded:
		return "server_is_overloaded"
	}
	return noCode
}

type geminiFailure struct {
	Error googleError `json:"error"`
}

type googleError struct {
	Code    int            `json:"code"`
	Message string         `json:"message"`
	Status  string         `json:"status"`
	Details []googleDetail `json:"details,omitempty"`
}

// googleDetail is a BadRequest, an ErrorInfo or a RetryInfo.
type googleDetail struct {
	Type       string            `json:"@type"`
	Violations []googleViolation `json:"fieldViolations,omitempty"`
	Reason     string            `json:"reason,omitempty"`
	Domain     string            `json:"domain,omitempty"`
	RetryDelay string            `json:"retryDelay,omitempty"`
}

type googleViolation struct {
	Field       string `json:"field,omitempty"`
	Description string `json:"description"`
}

func (f *refusal) google() googleError {
	e := googleError{Code: f.status, Message: f.message, Status: f.word(gemini)}
	const rpc = "type.googleapis.com/google.rpc."
	if f.param != "" {
		e.Details = append(e.Details, googleDetail{Type: rpc + "BadRequest", Violations: []googleViolation{{f.param, f.message}}})
	}
	if f.reason != "" {
		e.Details = append(e.Details, googleDetail{Type: rpc + "ErrorInfo", Reason: f.reason, Domain: "googleapis.com"})
	}
	if f.retry > 0 {
		e.Details = append(e.Details, googleDetail{Type: rpc + "RetryInfo", RetryDelay: strconv.Itoa(f.retry) + "s"})
	}
	return e
}

func googleStatus(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "UNAUTHENTICATED"
	case http.StatusForbidden:
		return "PERMISSION_DENIED"
	case http.StatusNotFound:
		return "NOT_FOUND"
	case http.StatusConflict:
		return "ABORTED"
	case http.StatusPaymentRequired, http.StatusTooManyRequests:
		return "RESOURCE_EXHAUSTED"
	case 499:
		return "CANCELLED"
	case http.StatusNotImplemented:
		return "UNIMPLEMENTED"
	case http.StatusBadGateway, http.StatusServiceUnavailable, statusOverloaded:
		return "UNAVAILABLE"
	case http.StatusGatewayTimeout:
		return "DEADLINE_EXCEEDED"
	}
	if status >= 500 {
		return "INTERNAL"
	}
	return "INVALID_ARGUMENT"
}
