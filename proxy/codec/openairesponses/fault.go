package openairesponses

import (
	"cmp"
	"fmt"
	"strings"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// codes are the words by which the API and its gateways name errors, as code or as type, and what they stand for.
var codes = [...]struct {
	word   string
	status int
	kind   string
}{
	{ir.CodeTooLong, 400, ir.KindInvalid},
	{"rate_limit_exceeded", 429, ir.KindRate},
	{"rate_limit_error", 429, ir.KindRate},
	{"too_many_requests", 429, ir.KindRate},
	{"usage_limit_reached", 429, ir.KindRate},
	{"usage_not_included", 429, ir.KindBilling},
	{"insufficient_quota", 429, ir.KindBilling},
	{"billing_hard_limit_reached", 429, ir.KindBilling},
	{"billing_error", 402, ir.KindBilling},
	{"server_is_overloaded", 503, ir.KindOverloaded},
	{"slow_down", 503, ir.KindOverloaded},
	{"overloaded_error", 503, ir.KindOverloaded},
	{"service_unavailable_error", 503, ir.KindOverloaded},
	{"server_error", 500, ir.KindAPI},
	{"api_error", 500, ir.KindAPI},
	{"internal_server_error", 500, ir.KindAPI},
	{"vector_store_timeout", 504, ir.KindTimeout},
	{"timeout_error", 504, ir.KindTimeout},
	{"model_not_found", 404, ir.KindNotFound},
	{"not_found_error", 404, ir.KindNotFound},
	{"invalid_api_key", 401, ir.KindAuth},
	{"authentication_error", 401, ir.KindAuth},
	{"permission_error", 403, ir.KindPermission},
	{"request_too_large", 413, ir.KindTooLarge},
	{"invalid_prompt", 400, ir.KindInvalid},
	{"data_residency_mismatch", 400, ir.KindInvalid},
	{"bio_policy", 400, ir.KindInvalid},
	{"misalignment_policy_violation", 400, ir.KindInvalid},
	{"failed_to_download_image", 400, ir.KindInvalid},
	{"unsupported_image_media_type", 400, ir.KindInvalid},
	{"empty_image_file", 400, ir.KindInvalid},
	{"image_file_not_found", 400, ir.KindInvalid},
	{"invalid_base64_image", 400, ir.KindInvalid},
	{"invalid_request_error", 400, ir.KindInvalid},
}

// meaning finds what a word stands for.
func meaning(word string) (status int, kind string, ok bool) {
	for _, c := range codes {
		if c.word == word {
			return c.status, c.kind, true
		}
	}
	if strings.HasPrefix(word, "invalid_image") || strings.HasPrefix(word, "image_") {
		return 400, ir.KindInvalid, true
	}
	return 0, "", false
}

// readFault reads an error answer, or with status 0 the data of an error event or the response of response.failed.
func readFault(status int, body []byte) ir.Fault {
	f := ir.Fault{Status: status}
	e := body
	switch {
	case isObjectRaw(rawjson.Get(body, "error")):
		e = rawjson.Get(body, "error")
	case isObjectRaw(rawjson.Get(body, "detail")): // the backend of ChatGPT
		e = rawjson.Get(body, "detail")
	}
	f.Type = stringOf(e, "type")
	f.Code = stringOf(e, "code")
	f.Param = stringOf(e, "param")
	f.Message = stringOf(e, "message")
	if f.Message == "" {
		for _, name := range [...]string{"error", "detail", "message"} { // {"error": "text"}, as gateways say it
			if f.Message = stringOf(body, name); f.Message != "" {
				break
			}
		}
	}
	if f.Type == "error" { // of a flat event that is the event's own type
		f.Type = ""
	}
	if f.Status == 0 {
		for _, raw := range [...][]byte{rawjson.Get(e, "status"), rawjson.Get(body, "status"), rawjson.Get(body, "status_code")} {
			if n, ok := rawjson.Int(raw); ok && n >= 400 && n < 600 {
				f.Status = int(n)
				break
			}
		}
	}
	settle(&f)
	return f
}

// settle fills in the kind, and the status where none was given, by the code, else by the type.
func settle(f *ir.Fault) {
	wordStatus, kind, ok := meaning(f.Code)
	if !ok {
		wordStatus, kind, ok = meaning(f.Type)
	}
	stated := f.Status != 0
	if !stated {
		if f.Status = wordStatus; !ok {
			f.Status = 500
		}
	}
	f.Kind = ir.KindOf(f.Status)
	switch {
	case f.Status == 408:
		f.Kind = ir.KindTimeout
	case ok && (!stated || kind == ir.KindBilling || kind == ir.KindRate || kind == ir.KindOverloaded):
		f.Kind = kind // 429 alone does not tell a limit from an empty account
	}
}

func isObjectRaw(raw []byte) bool { return len(raw) > 0 && raw[0] == '{' }

// stringOf returns a member that is a string, "" where there is none. A number stands for itself: gateways give codes
// so.
func stringOf(object []byte, name string) string {
	raw := rawjson.Get(object, name)
	if s, ok := rawjson.String(raw); ok {
		return s
	}
	if _, ok := rawjson.Int(raw); ok && name == "code" {
		return string(raw)
	}
	return ""
}

// appendError appends an error body: the types and codes are those that clients act on (facts/clients.md, 0.5 and 2).
func appendError(dst []byte, f *ir.Fault, _ string) []byte {
	typ, code := wordsOf(f)
	w := rawjson.Writer{Buf: dst}
	w.Open('{')
	w.Key("error")
	w.Open('{')
	w.Field("message", f.Message)
	w.Field("type", typ)
	w.Key("param")
	orNull(&w, f.Param)
	w.Key("code")
	orNull(&w, code)
	w.Close('}')
	w.Close('}')
	return w.Buf
}

func orNull(w *rawjson.Writer, s string) {
	if s == "" {
		w.Null()
	} else {
		w.String(s)
	}
}

// wordsOf returns the type and the code of a fault for a client. Codes that steer clients are the API's own; what a code
// says of a request's fault stays.
func wordsOf(f *ir.Fault) (typ, code string) {
	if f.Code == ir.CodeTooLong {
		return "invalid_request_error", ir.CodeTooLong
	}
	kind := f.Kind
	if kind == "" {
		kind = ir.KindOf(f.Status)
	}
	switch kind {
	case ir.KindRate:
		if f.Code == "usage_limit_reached" || f.Type == "usage_limit_reached" { // Codex stops on it
			return "usage_limit_reached", "usage_limit_reached"
		}
		return "rate_limit_error", "rate_limit_exceeded"
	case ir.KindBilling:
		return "insufficient_quota", "insufficient_quota"
	case ir.KindAuth:
		return "invalid_request_error", "invalid_api_key"
	case ir.KindNotFound:
		return "invalid_request_error", cmp.Or(f.Code, "model_not_found")
	case ir.KindAPI, ir.KindTimeout, ir.KindOverloaded:
		return "server_error", ""
	}
	return "invalid_request_error", f.Code
}

// statusFor is the status of a fault for a client. 529 is Anthropic's alone.
func statusFor(f *ir.Fault) int {
	switch {
	case f.Code == ir.CodeTooLong:
		return 400
	case f.Status == 529:
		return 503
	case f.Status >= 400 && f.Status < 600:
		return f.Status
	}
	for _, s := range [...]int{400, 401, 402, 403, 404, 409, 413, 429, 503, 504} {
		if ir.KindOf(s) == f.Kind {
			return s
		}
	}
	return 500
}

// failedCode is the code in response.failed: Codex repeats the request on server_error, waits on rate_limit_exceeded, and
// gives up on the others (facts/clients.md, 2).
func failedCode(f *ir.Fault) string {
	if f.Code == ir.CodeTooLong {
		return ir.CodeTooLong
	}
	switch f.Kind {
	case ir.KindRate:
		return "rate_limit_exceeded"
	case ir.KindBilling:
		return "insufficient_quota"
	case ir.KindOverloaded:
		return "server_is_overloaded"
	case ir.KindInvalid, ir.KindTooLarge:
		return "invalid_prompt"
	}
	return "server_error"
}

// failedMessage is the message in response.failed. Codex reads from it how long to wait.
func failedMessage(f *ir.Fault) string {
	if s := f.Reset.Seconds(); f.Kind == ir.KindRate && s > 0 && !strings.Contains(f.Message, "try again in") {
		return fmt.Sprintf("%s Please try again in %.1fs.", f.Message, s)
	}
	return f.Message
}
