package openaichat

import (
	"bytes"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// fault reads an error body or the data of an error event: {"error":{…}} as OpenAI has it, and the shapes of vendors:
// {"error":"text"}, [{"error":…}] (Google), {"object":"error","message":…} (vLLM), {"code":…,"message":…} (Alibaba).
func fault(code int, body []byte) ir.Fault {
	f := ir.Fault{Status: code}
	body = bytes.TrimSpace(body)
	if isArray(body) {
		_ = rawjson.Elements(body, func(i int, v []byte) error {
			if i == 0 {
				body = v
			}
			return nil
		})
	}
	if isObject(body) {
		readError(&f, body)
	}
	if f.Status == 0 {
		f.Status = statusOf(&f)
	}
	f.Kind = kindOf(&f)
	if f.Code == "" && f.Type == ir.CodeTooLong || f.Code == "model_max_prompt_tokens_exceeded" { // Copilot's word
		f.Code = ir.CodeTooLong
	}
	return f
}

// readError takes the fields out of the envelope.
func readError(f *ir.Fault, body []byte) {
	e := rawjson.Get(body, "error")
	if isString(e) {
		f.Message, _ = rawjson.String(e)
		e = body
	} else if !isObject(e) {
		e = body
	}
	_ = rawjson.Walk(e, func(key []byte, field rawjson.Field) error {
		v := field.Value(e)
		switch string(key) {
		case "message", "detail", "msg":
			if s, ok := rawjson.String(v); ok && f.Message == "" {
				f.Message = s
			}
		case "type":
			f.Type, _ = rawjson.String(v)
		case "status": // Google's word
			if s, ok := rawjson.String(v); ok && f.Type == "" {
				f.Type = s
			}
		case "param":
			f.Param, _ = rawjson.String(v)
		case "code":
			if n, ok := rawjson.Int(bytes.Trim(v, `"`)); !ok {
				f.Code, _ = rawjson.String(v)
			} else if f.Status == 0 && n >= 400 && n < 600 { // OpenRouter and Google repeat the status here
				f.Status = int(n)
			}
		}
		return nil
	})
}

// overloaded is OpenAI's code where a server has too much to do: no type says it.
const overloaded = "server_is_overloaded"

// known are the words of error types and codes, the statuses that they stand for, and their kinds. The first word that a
// fault bears decides.
var known = [...]struct {
	word   string
	status int
	kind   string
}{
	{"insufficient_quota", 429, ir.KindBilling},
	{"billing_hard_limit_reached", 429, ir.KindBilling},
	{"exceeded_current_quota_error", 429, ir.KindBilling}, // Kimi
	{"insufficient_balance", 402, ir.KindBilling},
	{"invalid_api_key", 401, ir.KindAuth},
	{"invalid_authentication_error", 401, ir.KindAuth},
	{"authentication_error", 401, ir.KindAuth},
	{"permission_error", 403, ir.KindPermission},
	{"model_not_found", 404, ir.KindNotFound},
	{"not_found_error", 404, ir.KindNotFound},
	{ir.CodeTooLong, 400, ir.KindInvalid},
	{overloaded, 503, ir.KindOverloaded},
	{"server_overloaded", 503, ir.KindOverloaded},
	{"service_unavailable_error", 503, ir.KindOverloaded},
	{"slow_down", 503, ir.KindOverloaded},
	{"engine_overloaded_error", 503, ir.KindOverloaded},
	{"overloaded_error", 503, ir.KindOverloaded},
	{"insufficient_system_resource", 503, ir.KindOverloaded},
	{"UNAVAILABLE", 503, ir.KindOverloaded},
	{"rate_limit_exceeded", 429, ir.KindRate},
	{"rate_limit_reached_error", 429, ir.KindRate},
	{"rate_limit_error", 429, ir.KindRate},
	{"RESOURCE_EXHAUSTED", 429, ir.KindRate},
	{"invalid_request_error", 400, ir.KindInvalid},
	{"BadRequestError", 400, ir.KindInvalid},
	{"INVALID_ARGUMENT", 400, ir.KindInvalid},
	{"timeout", 504, ir.KindTimeout},
	{"timeout_error", 504, ir.KindTimeout},
}

// statusOf is the status that an event's error stands for.
func statusOf(f *ir.Fault) int {
	for _, k := range known {
		if f.Code == k.word || f.Type == k.word {
			return k.status
		}
	}
	return 500
}

// kindOf is the canonical word: the status tells it, but for what one status may mean in two ways.
func kindOf(f *ir.Fault) string {
	kind := ir.KindOf(f.Status)
	if f.Status != 429 && f.Status < 500 {
		return kind
	}
	for _, k := range known {
		if f.Code == k.word || f.Type == k.word {
			if k.kind == ir.KindBilling || k.kind == ir.KindOverloaded || k.kind == ir.KindTimeout {
				return k.kind
			}
			break
		}
	}
	return kind
}

// appendError appends an error body.
func appendError(dst []byte, f *ir.Fault, trace string) []byte {
	kind, code := words(f)
	w := rawjson.Writer{Buf: dst}
	w.Open('{')
	w.Key("error")
	w.Open('{')
	w.Field("message", f.Message)
	w.Field("type", kind)
	nullable(&w, "param", f.Param)
	nullable(&w, "code", code)
	w.Close('}')
	w.Optional("request_id", trace)
	w.Close('}')
	return w.Buf
}

func nullable(w *rawjson.Writer, name, value string) {
	w.Key(name)
	if value == "" {
		w.Null()
	} else {
		w.String(value)
	}
}

// words are the dialect's type and code of a fault: clients steer by them whether they try again.
func words(f *ir.Fault) (kind, code string) {
	or := func(code string) string {
		if f.Code != "" {
			return f.Code
		}
		return code
	}
	switch f.Kind {
	case ir.KindAuth:
		return "invalid_request_error", "invalid_api_key"
	case ir.KindBilling:
		return "insufficient_quota", "insufficient_quota"
	case ir.KindPermission:
		return "invalid_request_error", or("permission_denied")
	case ir.KindNotFound:
		return "invalid_request_error", or("model_not_found")
	case ir.KindTooLarge:
		return "invalid_request_error", or("request_too_large")
	case ir.KindConflict, ir.KindInvalid:
		return "invalid_request_error", f.Code
	case ir.KindRate:
		return "rate_limit_error", "rate_limit_exceeded"
	case ir.KindTimeout:
		return "server_error", or("timeout")
	case ir.KindOverloaded:
		return "server_error", overloaded
	}
	if f.Code == ir.CodeTooLong {
		return "invalid_request_error", f.Code
	}
	return "server_error", f.Code
}

// status is the HTTP status of a fault. 529 is Anthropic's own.
func status(f *ir.Fault) int {
	switch {
	case f.Status == 529:
		return 503
	case f.Status >= 400 && f.Status < 600:
		return f.Status
	}
	for _, k := range kinds {
		if f.Kind == k.kind {
			return k.status
		}
	}
	return 500
}

// kinds are the statuses of faults that have none of their own.
var kinds = [...]struct {
	kind   string
	status int
}{
	{ir.KindInvalid, 400}, {ir.KindAuth, 401}, {ir.KindBilling, 402}, {ir.KindPermission, 403}, {ir.KindNotFound, 404},
	{ir.KindConflict, 409}, {ir.KindTooLarge, 413}, {ir.KindRate, 429}, {ir.KindOverloaded, 503}, {ir.KindTimeout, 504},
}
