package demo

import (
	"encoding/json"
	"net/http"
)

// The JSON shapes of the Messages API, as far as a provider writes them.

type message struct {
	ID           string  `json:"id"`
	Type         string  `json:"type"`
	Role         string  `json:"role"`
	Model        string  `json:"model"`
	Content      []block `json:"content"`
	StopReason   *string `json:"stop_reason"`
	StopSequence *string `json:"stop_sequence"`
	Usage        usage   `json:"usage"`
}

// block is a text, thinking or tool_use block. Pointers are fields that are sent even when empty.
type block struct {
	Type      string          `json:"type"`
	Text      *string         `json:"text,omitempty"`
	Thinking  *string         `json:"thinking,omitempty"`
	Signature *string         `json:"signature,omitempty"`
	Data      string          `json:"data,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
}

type usage struct {
	Input         int            `json:"input_tokens"`
	CacheCreation int            `json:"cache_creation_input_tokens"`
	CacheRead     int            `json:"cache_read_input_tokens"`
	CacheByTTL    *cacheCreation `json:"cache_creation,omitempty"`
	Output        int            `json:"output_tokens"`
	OutputDetails *outputDetails `json:"output_tokens_details,omitempty"`
	ServiceTier   string         `json:"service_tier,omitempty"`
}

type outputDetails struct {
	Thinking int `json:"thinking_tokens"`
}

type cacheCreation struct {
	FiveMinutes int `json:"ephemeral_5m_input_tokens"`
	OneHour     int `json:"ephemeral_1h_input_tokens"`
}

// event is any event of a stream; what an event does not have is left out.
type event struct {
	Type      string     `json:"type"`
	Message   *message   `json:"message,omitempty"`
	Index     *int       `json:"index,omitempty"`
	Block     *block     `json:"content_block,omitempty"`
	Delta     *delta     `json:"delta,omitempty"`
	Usage     *usage     `json:"usage,omitempty"`
	Error     *errorBody `json:"error,omitempty"`
	RequestID string     `json:"request_id,omitempty"`
}

type delta struct {
	Type         string          `json:"type,omitempty"`
	Text         string          `json:"text,omitempty"`
	Thinking     string          `json:"thinking,omitempty"`
	Signature    string          `json:"signature,omitempty"`
	PartialJSON  *string         `json:"partial_json,omitempty"`
	StopReason   string          `json:"stop_reason,omitempty"`
	StopSequence json.RawMessage `json:"stop_sequence,omitempty"` // null in every message_delta
}

type errorBody struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

// typeOf gives the error type that belongs to a status.
func typeOf(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusPaymentRequired:
		return "billing_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusConflict:
		return "conflict_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case http.StatusGatewayTimeout:
		return "timeout_error"
	case http.StatusServiceUnavailable, statusOverloaded:
		return "overloaded_error"
	}
	if status >= 500 {
		return "api_error"
	}
	return "invalid_request_error"
}

// statusOf gives the status that belongs to an error type, 529 for none.
func statusOf(kind string) int {
	for _, status := range []int{400, 401, 402, 403, 404, 409, 413, 429, 500, 504} {
		if typeOf(status) == kind {
			return status
		}
	}
	return statusOverloaded
}
