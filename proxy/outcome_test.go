package proxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"coding-proxy/pool"
	"coding-proxy/proxy/codec/anthropic"
	"coding-proxy/proxy/ir"
)

// apiError is an error of the API, with the fields that are not empty.
func apiError(errorType, code, message string) []byte {
	fields := map[string]string{"message": message}
	if errorType != "" {
		fields["type"] = errorType
	}
	if code != "" {
		fields["code"] = code
	}
	body, _ := json.Marshal(map[string]any{"type": "error", "error": fields})
	return body
}

// judged judges an answer as failover.go does.
func judged(o Failover, status int, h http.Header, body []byte) pool.Outcome {
	return o.judge(faultOf(anthropic.Dialect(), &http.Response{StatusCode: status, Header: h}, body, resetNow))
}

// judgedEvent judges an error event in the head of a 200 stream as failover.go does.
func judgedEvent(o Failover, body []byte) pool.Outcome {
	f := *anthropic.Dialect().Raw.NewTap().Mark([]byte("error"), body).Fault
	f.Reset, f.KeyWide = stated(nil, body, resetNow)
	return o.judge(f)
}

// headerOf makes headers of name, value, name, value, ….
func headerOf(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

const inHead = 0 // in place of a status: an error event in the head of a 200 stream

const (
	challenge     = "<!DOCTYPE html><html><head><title>Just a moment...</title>"
	promptTooLong = "prompt is too long: 215000 tokens > 200000 maximum"
)

// outcomeTable is the table of design/routing.md, section 4, row by row. The kind "page" stands for a page in the place of
// an answer of the API.
var outcomeTable = []struct {
	row                 string
	status              int
	kind, code, message string
	header              http.Header
	want                pool.Class
}{
	{"too long: 413", 413, "", "", "", nil, pool.Passthrough},
	{"too long: 413", 413, "request_too_large", "", "Request exceeds the maximum size", nil, pool.Passthrough},
	{"too long: 413", 413, "rate_limit_error", "", "overloaded, quota", nil, pool.Passthrough},
	{"too long: 400", 400, "invalid_request_error", "", promptTooLong, nil, pool.Passthrough},
	{"too long: 400", 400, "", "", "This model's maximum context length is 128000 tokens.", nil, pool.Passthrough},
	{"too long: 400", 400, "", "context_length_exceeded", "", nil, pool.Passthrough},
	{"too long: 400", 400, "context_length_exceeded", "", "", nil, pool.Passthrough},
	{"too long: 400", 400, "", "", "Your input exceeds the context window of this model.", nil, pool.Passthrough},
	{"too long: 400", 400, "", "", "messages exceed the maximum number of tokens", nil, pool.Passthrough},
	{"too long: 400", 400, "", "", "input exceeds the maximum number of tokens allowed", nil, pool.Passthrough},
	{"too long: 400", 400, "", "", "PROMPT IS TOO LONG", nil, pool.Passthrough},
	{"too long: 500", 500, "api_error", "", promptTooLong, nil, pool.Passthrough},
	{"too long: 502", 502, "", "context_length_exceeded", "", nil, pool.Passthrough},
	{"too long: 503", 503, "", "", promptTooLong, nil, pool.Passthrough},
	{"too long: 529", 529, "overloaded_error", "", promptTooLong, nil, pool.Passthrough},
	{"too long: 502", 502, "request_too_large", "", "", nil, pool.Passthrough},
	{"too long: event", inHead, "invalid_request_error", "", promptTooLong, nil, pool.Passthrough},
	{"too long: event", inHead, "api_error", "context_length_exceeded", "", nil, pool.Passthrough},
	{"too long: event", inHead, "something_new", "context_length_exceeded", "", nil, pool.Passthrough},
	{"too long: event", inHead, "request_too_large", "", "", nil, pool.Passthrough},
	{"too long says nothing under 429", 429, "rate_limit_error", "", promptTooLong, nil, pool.RateLimit},
	{"too long says nothing under 403", 403, "permission_error", "", promptTooLong, nil, pool.Credential},

	{"the host was the wrong one", 421, "", "", "", nil, pool.Fault},
	{"a model's quota", 429, "RESOURCE_EXHAUSTED", quotaExhausted, "Your quota will reset after 2h24m7s.", headerOf("Retry-After", "8647"), pool.RateLimit},
	{"cap: 402", 402, "", "", "", nil, pool.Cap},
	{"cap: 402", 402, "invalid_request_error", "", "insufficient credits", nil, pool.Cap},
	{"cap: 402", 402, "", "", "rate limit", headerOf("Retry-After", "5"), pool.Cap},
	{"cap: type", 429, "insufficient_quota", "", "", nil, pool.Cap},
	{"cap: type", 429, "quota_exceeded", "", "", nil, pool.Cap},
	{"cap: type", 429, "usage_limit_reached", "", "The usage limit has been reached", nil, pool.Cap},
	{"cap: type", 429, "billing_error", "", "", nil, pool.Cap},
	{"cap: type, whatever the message", 429, "insufficient_quota", "", "rate limit", headerOf("Retry-After", "5"), pool.Cap},
	{"cap: type", 403, "insufficient_quota", "", "", nil, pool.Cap},
	{"cap: type", 401, "billing_error", "", "", nil, pool.Cap},
	{"cap: type", 400, "insufficient_quota", "", "You exceeded your current balance", nil, pool.Cap},
	{"cap: type", 400, "billing_error", "", "", nil, pool.Cap},
	{"cap: type", 500, "quota_exceeded", "", "", nil, pool.Cap},
	{"cap: type", 503, "usage_limit_reached", "", "", nil, pool.Cap},
	{"cap: type of an event", inHead, "insufficient_quota", "", "", nil, pool.Cap},
	{"cap: type of an event", inHead, "billing_error", "", "", nil, pool.Cap},
	{"cap: pattern", 429, "rate_limit_error", "", "Usage cap reached for this month", nil, pool.Cap},
	{"cap: pattern", 429, "", "", "You exceeded your current QUOTA", nil, pool.Cap},
	{"cap: pattern", 429, "", "", "credit balance too low", nil, pool.Cap},
	{"cap: pattern", 429, "", "", "monthly spending limit", nil, pool.Cap},
	{"cap: pattern", 429, "", "", "limit exceeded", nil, pool.Cap},
	{"cap: pattern", 403, "", "", "quota used up", nil, pool.Cap},
	{"cap: pattern, reset far off", 429, "", "", "quota", headerOf("Retry-After", "600"), pool.Cap},
	{"cap: pattern, but a reset under ten minutes", 429, "", "", "quota", headerOf("Retry-After", "599"), pool.RateLimit},
	{"cap: pattern, but a reset under ten minutes", 403, "", "", "quota", headerOf("Retry-After", "60"), pool.Credential},
	{"cap: pattern, but it says rate limit", 429, "rate_limit_error", "", "Rate limit exceeded: 40000 tokens per minute quota", nil, pool.RateLimit},
	{"cap: pattern, but it says rate limit", 429, "rate_limit_error", "", "RATE LIMIT: limit exceeded", nil, pool.RateLimit},
	{"cap: pattern of an event", inHead, "rate_limit_error", "", "quota", nil, pool.Cap},
	{"cap: pattern says nothing under 400", 400, "invalid_request_error", "", "quota must be a number", nil, pool.Passthrough},
	{"cap: pattern says nothing under 401", 401, "authentication_error", "", "quota", nil, pool.Credential},
	{"cap: pattern says nothing under 500", 500, "api_error", "", "quota service down", nil, pool.Fault},
	{"cap: 400 with credit balance", 400, "invalid_request_error", "", "Your credit balance is too low to access the API", nil, pool.Cap},
	{"cap: event with credit balance", inHead, "invalid_request_error", "", "Your credit balance is too low", nil, pool.Cap},

	{"credential", 401, "authentication_error", "", "invalid x-api-key", nil, pool.Credential},
	{"credential", 401, "", "", "", nil, pool.Credential},
	{"credential", 403, "permission_error", "", "not allowed", nil, pool.Credential},
	{"credential", 403, "rate_limit_error", "", "overloaded", nil, pool.Credential},
	{"credential of an event", inHead, "authentication_error", "", "", nil, pool.Credential},
	{"credential of an event", inHead, "permission_error", "", "", nil, pool.Credential},

	{"rate limit", 429, "rate_limit_error", "", "Too many requests", nil, pool.RateLimit},
	{"rate limit", 429, "", "", "", nil, pool.RateLimit},
	{"rate limit", 429, "overloaded_error", "", "overloaded", nil, pool.RateLimit},
	{"rate limit of an event", inHead, "rate_limit_error", "", "", nil, pool.RateLimit},

	{"overload", 503, "", "", "", nil, pool.Overload},
	{"overload", 503, "rate_limit_error", "", "", nil, pool.Overload},
	{"overload", 529, "overloaded_error", "", "Overloaded", nil, pool.Overload},
	{"overload of an event", inHead, "overloaded_error", "", "Overloaded", nil, pool.Overload},

	{"fault", 500, "api_error", "", "Internal server error", nil, pool.Fault},
	{"fault", 501, "", "", "", nil, pool.Fault},
	{"fault", 502, "", "", "", nil, pool.Fault},
	{"fault", 504, "timeout_error", "", "", nil, pool.Fault},
	{"fault", 520, "", "", "", nil, pool.Fault},
	{"fault", 524, "", "", "", nil, pool.Fault},
	{"fault", 599, "rate_limit_error", "", "overloaded capacity", nil, pool.Fault},
	{"fault: redirect", 301, "", "", "", nil, pool.Fault},
	{"fault: redirect", 302, "", "", "", nil, pool.Fault},
	{"fault: redirect", 307, "", "", "", nil, pool.Fault},
	{"fault: redirect", 308, "", "", "", nil, pool.Fault},
	{"fault of an event", inHead, "api_error", "", "", nil, pool.Fault},
	{"fault of an event", inHead, "timeout_error", "", "", nil, pool.Fault},
	{"fault of an event", inHead, "something_new", "", "", nil, pool.Fault},
	{"fault of an event", inHead, "", "", "", nil, pool.Fault},

	{"unknown model", 404, "not_found_error", "", "model: claude-nope", nil, pool.UnknownModel},
	{"unknown model", 404, "not_found_error", "", "The Model does not exist", nil, pool.UnknownModel},
	{"unknown model", 404, "invalid_request_error", "model_not_found", "The model `x` does not exist", nil, pool.UnknownModel},
	{"unknown model", 404, "not_found_error", "", "model overloaded", nil, pool.UnknownModel},
	{"unknown model of Copilot", 400, "invalid_request_error", "model_not_supported", "", nil, pool.UnknownModel},
	{"unknown model of Copilot, told as Anthropic does", 400, "invalid_request_error", "", "The requested model is not supported.", nil, pool.UnknownModel},
	{"unknown model of an event", inHead, "not_found_error", "", "model: claude-nope", nil, pool.UnknownModel},

	{"a listed type", 400, "rate_limit_error", "", "", nil, pool.RateLimit},
	{"a listed type", 400, "overloaded_error", "", "", nil, pool.RateLimit},
	{"a listed type", 409, "api_error", "", "", nil, pool.RateLimit},
	{"a listed message", 400, "", "", "we are at Capacity", nil, pool.RateLimit},
	{"a listed message", 422, "", "", "Internal network failure, try again", nil, pool.RateLimit},
	{"a listed message", 404, "", "", "overloaded", nil, pool.RateLimit},

	{"the client's", 400, "invalid_request_error", "", "messages: must not be empty", nil, pool.Passthrough},
	{"the client's", 400, "", "", "", nil, pool.Passthrough},
	{"the client's", 404, "not_found_error", "", "no such page", nil, pool.Passthrough},
	{"the client's", 404, "", "", "", nil, pool.Passthrough},
	{"the client's", 405, "", "", "", nil, pool.Passthrough},
	{"the client's", 408, "", "", "", nil, pool.Passthrough},
	{"the client's", 409, "conflict_error", "", "", nil, pool.Passthrough},
	{"the client's", 422, "", "", "", nil, pool.Passthrough},
	{"the client's", 431, "", "", "", nil, pool.Passthrough},
	{"the client's", 451, "", "", "", nil, pool.Passthrough},
	{"the client's, in an event", inHead, "invalid_request_error", "", "tools.0: bad", nil, pool.Passthrough},
	{"the client's, in an event", inHead, "not_found_error", "", "no such file", nil, pool.Passthrough},

	{"precedence: too long before cap", 400, "", "", "prompt is too long for your credit balance", nil, pool.Passthrough},
	{"precedence: too long before cap", 500, "insufficient_quota", "", promptTooLong, nil, pool.Passthrough},
	{"precedence: 413 before the type", 413, "billing_error", "", "", nil, pool.Passthrough},
	{"precedence: 402 before too long", 402, "", "context_length_exceeded", "", nil, pool.Cap},
	{"precedence: cap before credential", 403, "permission_error", "", "spending limit", nil, pool.Cap},
	{"precedence: unknown model before the lists", 404, "overloaded_error", "model_not_found", "overloaded", nil, pool.UnknownModel},

	{"RET-017: the status wins", 429, "unknown_error", "invalid_request_error", "Rate Limit Reached", nil, pool.RateLimit},
	{"RET-017: the status wins", 402, "unknown_error", "invalid_request_error", "Rate Limit Reached", nil, pool.Cap},
	{"RET-018: a parameter under 401", 401, "invalid_request_error", "", "Invalid request parameter", nil, pool.Passthrough},
	{"RET-018: a key under 401", 401, "authentication_error", "invalid_request_error", "", nil, pool.Credential},
	{"RET-019: a spend limit under 400", 400, "invalid_request_error", "",
		"You have reached your specified API usage limits. You will regain access on 2026-08-01 at 00:00 UTC.", nil, pool.Cap},
	{"RET-019: credits", 402, "billing_error", "", "insufficient credits", nil, pool.Cap},
	{"RET-020: a challenge page", 403, "page", "", challenge, nil, pool.Fault},
	{"RET-020: a challenge page", 502, "page", "", challenge, nil, pool.Fault},
	{"RET-020: a challenge page", 524, "page", "", "\ufeff \r\n" + challenge, nil, pool.Fault},
	{"RET-020: a challenge page", 401, "page", "", challenge, nil, pool.Fault},
	{"RET-020: a page in the place of a busy API", 503, "page", "", challenge, nil, pool.Overload},
	{"RET-021: 413 of the API", 413, "request_too_large", "", "", nil, pool.Passthrough},
	{"RET-021: 413 of a web server before it", 413, "page", "", "<html>\r\n<head><title>413 Request Entity Too Large</title></head>", nil, pool.Passthrough},
}

func TestOutcomeTable(t *testing.T) {
	for _, tc := range outcomeTable {
		t.Run(fmt.Sprintf("%s/%d %s %s", tc.row, tc.status, tc.kind, tc.code), func(t *testing.T) {
			body := apiError(tc.kind, tc.code, tc.message)
			if tc.kind == "page" {
				body = []byte(tc.message)
			}
			got := pool.Outcome{}
			if tc.status == inHead {
				got = judgedEvent(Defaults().Failover, body)
			} else {
				got = judged(Defaults().Failover, tc.status, tc.header, body)
			}
			if got.Class != tc.want {
				t.Errorf("%s is judged %s, want %s", body, got.Class, tc.want)
			}
		})
	}
}

// Bodies that are no error envelope are judged by their status.
func TestOutcomeOfOtherBodies(t *testing.T) {
	for body, classes := range map[string]map[int]pool.Class{
		"":                                  {400: pool.Passthrough, 401: pool.Credential, 404: pool.Passthrough, 429: pool.RateLimit, 500: pool.Fault, 529: pool.Overload},
		"upstream connect error":            {400: pool.Passthrough, 429: pool.RateLimit, 503: pool.Overload, 504: pool.Fault},
		`{"error":"overloaded"}`:            {400: pool.RateLimit, 429: pool.RateLimit, 500: pool.Fault},
		`{"error":"prompt is too long"}`:    {400: pool.Passthrough, 500: pool.Passthrough},
		`{"message":"quota exceeded"}`:      {429: pool.Cap, 403: pool.Cap, 400: pool.Passthrough},
		`{"error":{"message":7,"type":[]}}`: {400: pool.Passthrough, 500: pool.Fault},
		`[{"error":{"type":"api_error"}}]`:  {400: pool.Passthrough, 500: pool.Fault},
		`{"error":{"type":"api_error"`:      {400: pool.Passthrough, 500: pool.Fault},
		`{"error":{"details":{"error_code":"context_length_exceeded"}}}`: {400: pool.Passthrough, 500: pool.Passthrough},
	} {
		for status, want := range classes {
			if got := judged(Defaults().Failover, status, nil, []byte(body)).Class; got != want {
				t.Errorf("%d %s is judged %s, want %s", status, body, got, want)
			}
		}
	}
}

// The lists feed the rows that name them, and no other: what they add cannot outrank a row, what they leave out does
// not take one away.
func TestOutcomeLists(t *testing.T) {
	empty := Failover{}
	listed := func(change func(o *Failover)) Failover {
		o := Defaults().Failover
		change(&o)
		return o
	}
	codes := func(codes ...int) Failover { return listed(func(o *Failover) { o.StatusCodes = codes }) }
	caps := func(patterns ...string) Failover { return listed(func(o *Failover) { o.CapPatterns = patterns }) }
	messages := func(patterns ...string) Failover {
		return listed(func(o *Failover) { o.MessagePatterns = patterns })
	}
	for _, tc := range []struct {
		name          string
		lists         Failover
		status        int
		kind, message string
		want          pool.Class
	}{
		{"empty: 401", empty, 401, "", "", pool.Credential},
		{"empty: 402", empty, 402, "", "", pool.Cap},
		{"empty: 403", empty, 403, "", "quota", pool.Credential},
		{"empty: 413", empty, 413, "", "", pool.Passthrough},
		{"empty: 429", empty, 429, "", "quota", pool.RateLimit},
		{"empty: 429 by type", empty, 429, "insufficient_quota", "", pool.Cap},
		{"empty: 500", empty, 500, "", "", pool.Fault},
		{"empty: 529", empty, 529, "", "", pool.Overload},
		{"empty: 400 credit balance", empty, 400, "", "credit balance", pool.Cap},
		{"empty: too long", empty, 400, "", "prompt is too long", pool.Passthrough},
		{"empty: type", empty, 400, "rate_limit_error", "", pool.Passthrough},
		{"empty: message", empty, 400, "", "overloaded", pool.Passthrough},
		{"a status", codes(418), 418, "", "", pool.RateLimit},
		{"a status does not outrank too long", codes(400, 413), 400, "", "prompt is too long", pool.Passthrough},
		{"a status does not outrank 413", codes(400, 413), 413, "", "", pool.Passthrough},
		{"a status does not outrank a cap", codes(400, 402), 400, "", "credit balance", pool.Cap},
		{"a status does not outrank credentials", codes(401), 401, "", "", pool.Credential},
		{"a status does not outrank a fault", codes(500), 500, "", "", pool.Fault},
		{"a status takes what would be the client's", codes(400), 400, "", "bad", pool.RateLimit},
		{"cap pattern", caps("Used Up"), 429, "", "all USED UP now", pool.Cap},
		{"cap pattern replaced", caps("used up"), 429, "", "quota", pool.RateLimit},
		{"an empty cap pattern matches nothing", caps(""), 429, "", "anything", pool.RateLimit},
		{"message pattern", messages("Try Later"), 400, "", "please try later", pool.RateLimit},
		{"message pattern replaced", messages("try later"), 400, "", "overloaded", pool.Passthrough},
		{"an empty message pattern matches nothing", messages(""), 400, "", "anything", pool.Passthrough},
		{"an empty type matches no absent one", listed(func(o *Failover) { o.ErrorTypes = []string{"x"} }), 400, "", "", pool.Passthrough},
	} {
		if got := judged(tc.lists, tc.status, nil, apiError(tc.kind, "", tc.message)).Class; got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}

// A stated reset goes on with limits, overloads, faults and caps; a refused credential and an unknown model have times
// of their own.
func TestOutcomeCarriesTheReset(t *testing.T) {
	for _, tc := range []struct {
		status  int
		message string
		want    pool.Outcome
	}{
		{429, "", pool.Outcome{Class: pool.RateLimit, Reset: 700 * time.Second}},
		{503, "", pool.Outcome{Class: pool.Overload, Reset: 700 * time.Second}},
		{529, "", pool.Outcome{Class: pool.Overload, Reset: 700 * time.Second}},
		{500, "", pool.Outcome{Class: pool.Fault, Reset: 700 * time.Second}},
		{402, "", pool.Outcome{Class: pool.Cap, Reset: 700 * time.Second}},
		{429, "quota", pool.Outcome{Class: pool.Cap, Reset: 700 * time.Second}},
		{401, "", pool.Outcome{Class: pool.Credential}},
		{403, "", pool.Outcome{Class: pool.Credential}},
	} {
		if got := judged(Defaults().Failover, tc.status, headerOf("Retry-After", "700"), apiError("", "", tc.message)); got != tc.want {
			t.Errorf("%d %s: %+v, want %+v", tc.status, tc.message, got, tc.want)
		}
	}
	got := judged(Defaults().Failover, 404, headerOf("Retry-After", "700"), apiError("not_found_error", "", "model: x"))
	if want := (pool.Outcome{Class: pool.UnknownModel}); got != want {
		t.Errorf("404: %+v, want %+v", got, want)
	}
}

// KEY-001: a model family's window is the family's alone, and retry-after says for how long; the account's window is
// the key's.
func TestKEY001Headers(t *testing.T) {
	const unified = "anthropic-ratelimit-unified-"
	family := headerOf("Retry-After", "90", unified+"status", "rejected", unified+"5h-status", "allowed", unified+"7d-status", "allowed",
		unified+"7d_opus-status", "rejected", unified+"7d_opus-reset", fmt.Sprint(resetNow.Add(7*24*time.Hour).Unix()),
		unified+"representative-claim", "seven_day_opus")
	body := apiError("rate_limit_error", "", "This request would exceed your account's rate limit. Please try again later.")
	if got, want := judged(Defaults().Failover, 429, family, body), (pool.Outcome{Class: pool.RateLimit, Reset: 90 * time.Second, FamilyWide: true}); got != want {
		t.Errorf("family's window: %+v, want %+v", got, want)
	}
	for _, window := range []string{"5h", "7d"} {
		h := family.Clone()
		h.Set(unified+window+"-status", "rejected")
		if got, want := judged(Defaults().Failover, 429, h, body), (pool.Outcome{Class: pool.RateLimit, Reset: 90 * time.Second, KeyWide: true}); got != want {
			t.Errorf("account's %s window: %+v, want %+v", window, got, want)
		}
	}
}

// What judges never keeps or shows the message: a fault's text may echo a prompt.
func TestClosedWords(t *testing.T) {
	for _, tc := range []struct {
		fault ir.Fault
		want  string
	}{
		{ir.Fault{Status: 429, Type: "rate_limit_error", Message: "secret prompt"}, "rate_limit_error"},
		{ir.Fault{Status: 500, Message: "secret prompt"}, "http_500"},
		{ir.Fault{Status: 400, Type: "secret prompt"}, "http_400"},
		{ir.Fault{Status: 400, Type: "Secret"}, "http_400"},
		{ir.Fault{Status: 400, Type: "a\nb"}, "http_400"},
		{ir.Fault{Status: 400, Type: "sixty_five_characters_are_one_too_many_for_a_word_that_is_closed__"}, "http_400"},
	} {
		if got := closedWord(tc.fault); got != tc.want {
			t.Errorf("%+v: %q, want %q", tc.fault, got, tc.want)
		}
	}
}
