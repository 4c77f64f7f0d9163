package ir

import "time"

// Fault is an error of an upstream: what its answer, or an event of a stream, says; or an error from here.
type Fault struct {
	Status  int           // HTTP status; of an event, the one that its type stands for
	Kind    string        // the canonical word: one of the Kind constants
	Type    string        // the dialect's own word, e.g. "overloaded_error", "insufficient_quota", "RESOURCE_EXHAUSTED"
	Code    string        // machine-readable detail, "" where there is none
	Param   string        // path of the field that is wrong, "" where it is not said
	Message string        // it may echo prompts and never reaches a log
	Reset   time.Duration // 0 = not stated
	// KeyWide says that the provider names the exhausted window as the whole account's.
	KeyWide bool
	// FamilyWide says that it names the exhausted window as that of the model's family.
	FamilyWide bool
}

// The kinds of faults (facts/protocols.md, 5.7): Anthropic's words for them.
const (
	KindInvalid    = "invalid_request_error"
	KindAuth       = "authentication_error"
	KindBilling    = "billing_error"
	KindPermission = "permission_error"
	KindNotFound   = "not_found_error"
	KindConflict   = "conflict_error"
	KindTooLarge   = "request_too_large"
	KindRate       = "rate_limit_error"
	KindAPI        = "api_error"
	KindTimeout    = "timeout_error"
	KindOverloaded = "overloaded_error"
)

// CodeTooLong is the Code of a fault that says that the prompt is longer than the model takes, in every dialect.
const CodeTooLong = "context_length_exceeded"

// KindOf returns the kind that a status stands for.
func KindOf(status int) string {
	switch status {
	case 401:
		return KindAuth
	case 402:
		return KindBilling
	case 403:
		return KindPermission
	case 404:
		return KindNotFound
	case 409:
		return KindConflict
	case 413:
		return KindTooLarge
	case 429:
		return KindRate
	case 503, 529: // Anthropic sends 529 for overload, the others 503
		return KindOverloaded
	case 504:
		return KindTimeout
	}
	if status >= 500 || status < 400 {
		return KindAPI
	}
	return KindInvalid
}

// NoToken is the fault of a key that has no token to show: a credential's where only a person can help, else one that
// passes after retry. It is no overload: that would be the model's, while no model can be asked without a token.
func NoToken(reason, message string, final bool, retry time.Duration) *Fault {
	if final {
		return &Fault{Status: 401, Kind: KindAuth, Type: reason, Message: message, Reset: retry}
	}
	return &Fault{Status: 502, Kind: KindAPI, Type: reason, Message: message, Reset: max(retry, time.Second)}
}
