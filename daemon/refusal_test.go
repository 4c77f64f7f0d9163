package daemon

import (
	"encoding/json"
	"slices"
	"strings"
)

// refusal is an error as a client of one of the dialects reads it.
type refusal struct {
	kind    string // type, or Gemini's status
	code    string // OpenAI's; "" = null
	param   string
	message string
	trace   string // "" where the dialect's envelope has no place for it
	retry   string // Gemini's RetryInfo
	number  int    // Gemini's code
}

// refusalIn reads an error envelope of a dialect and takes no field that the dialect has not.
func (i *instance) refusalIn(dialect string, r *reply) (f refusal) {
	i.t.Helper()
	var e struct {
		Type  string
		Error struct {
			Type, Message string
			Param         *string
			Code          json.RawMessage
			Status        string
			Details       []struct {
				Type       string `json:"@type"`
				RetryDelay string
				RequestID  string `json:"requestId"`
			}
		}
		RequestID string `json:"request_id"`
	}
	in := json.NewDecoder(strings.NewReader(r.body))
	in.DisallowUnknownFields()
	if err := in.Decode(&e); err != nil {
		i.t.Errorf("no error envelope: %v: %s", err, r.body)
	}
	f = refusal{kind: e.Error.Type, message: e.Error.Message, trace: e.RequestID}
	members := parse(i.t, r.body).get("error")
	want := []string{"message", "type"}
	switch dialect {
	case claude:
		if e.Type != "error" || f.trace == "" {
			i.t.Errorf("no envelope of Anthropic's: %s", r.body)
		}
	case gemini:
		want = []string{"code", "message", "status"}
		f.kind = e.Error.Status
		_ = json.Unmarshal(e.Error.Code, &f.number)
		for _, d := range e.Error.Details {
			f.retry += d.RetryDelay
			f.trace += d.RequestID
		}
		if f.number != r.status {
			i.t.Errorf("code %d under status %d", f.number, r.status)
		}
	default:
		want = append(want, "param", "code") // SDKs read all four
		if e.Type != "" {
			i.t.Errorf("a type beside the error: %s", r.body)
		}
		_ = json.Unmarshal(e.Error.Code, &f.code)
		if e.Error.Param != nil {
			f.param = *e.Error.Param
		}
	}
	for _, name := range want {
		if !members.has(name) {
			i.t.Errorf("no %q in the error: %s", name, r.body)
		}
	}
	return f
}

// words are a kind's in a dialect (facts/protocols.md, 5.7); of codes that steer no client any may stand.
func words(dialect, kind string, status int) (word string, codes []string) {
	switch dialect {
	case claude:
		return kind, []string{""}
	case gemini:
		switch status {
		case 401:
			return "UNAUTHENTICATED", []string{""}
		case 403:
			return "PERMISSION_DENIED", []string{""}
		case 404:
			return "NOT_FOUND", []string{""}
		case 429:
			return "RESOURCE_EXHAUSTED", []string{""}
		case 500:
			return "INTERNAL", []string{""}
		case 502, 503:
			return "UNAVAILABLE", []string{""}
		case 504:
			return "DEADLINE_EXCEEDED", []string{""}
		}
		return "INVALID_ARGUMENT", []string{""}
	}
	switch kind {
	case "authentication_error":
		return "invalid_request_error", []string{"invalid_api_key"}
	case "rate_limit_error":
		return "rate_limit_error", []string{"rate_limit_exceeded"}
	case "not_found_error":
		return "invalid_request_error", []string{"model_not_found", "", "not_found", "previous_response_not_found", "unknown_url"}
	case "permission_error":
		return "invalid_request_error", []string{"", "permission_denied"}
	case "request_too_large":
		return "invalid_request_error", []string{"", "request_too_large"}
	case "invalid_request_error":
		return "invalid_request_error", []string{""}
	}
	return "server_error", []string{"", "timeout", "server_is_overloaded", "server_error"}
}

// statusIn is a status as a dialect has it.
func statusIn(dialect string, status int) int {
	switch {
	case status == 529 && dialect != claude:
		return 503
	case status == 413 && dialect == gemini:
		return 400
	}
	return status
}

// refuses checks an error that the proxy made for a client of a dialect: its form, and that it tells nothing it must
// not. kind is Anthropic's word.
func (i *instance) refuses(dialect string, r *reply, status int, kind string) refusal {
	i.t.Helper()
	status = statusIn(dialect, status)
	if r.status != status {
		i.t.Errorf("status %d, want %d: %s", r.status, status, r.body)
	}
	if got := r.header.Get("Content-Type"); got != "application/json" {
		i.t.Errorf("content-type %q", got)
	}
	f := i.refusalIn(dialect, r)
	word, codes := words(dialect, kind, status)
	if f.kind != word || !slices.Contains(codes, f.code) || f.message == "" {
		i.t.Errorf("%s: want %s with a code of %q: %s", dialect, word, codes, r.body)
	}
	if trace := r.trace(); len(trace) != 16 || f.trace != "" && f.trace != trace {
		i.t.Errorf("trace %q, in the body %q", trace, f.trace)
	}
	after := r.header.Get("Retry-After")
	if dialect == gemini && after != "" && f.retry != after+"s" {
		i.t.Errorf("retry-after %q, RetryInfo %q", after, f.retry)
	}
	i.tellsNothing(r)
	return f
}
