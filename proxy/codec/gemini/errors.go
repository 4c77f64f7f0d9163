package gemini

import (
	"bytes"
	"strconv"
	"strings"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// words are the API's for a status, with the kind that they stand for. The first of a status or kind is used for it.
var words = [...]struct {
	status int
	word   string
	kind   string
}{
	{400, "INVALID_ARGUMENT", ir.KindInvalid}, {400, "FAILED_PRECONDITION", ir.KindInvalid}, {400, "OUT_OF_RANGE", ir.KindInvalid},
	{401, "UNAUTHENTICATED", ir.KindAuth}, {403, "PERMISSION_DENIED", ir.KindPermission}, {404, "NOT_FOUND", ir.KindNotFound},
	{409, "ABORTED", ir.KindConflict}, {409, "ALREADY_EXISTS", ir.KindConflict}, {429, "RESOURCE_EXHAUSTED", ir.KindRate},
	{499, "CANCELLED", ir.KindAPI}, {500, "INTERNAL", ir.KindAPI}, {500, "UNKNOWN", ir.KindAPI}, {500, "DATA_LOSS", ir.KindAPI},
	{501, "UNIMPLEMENTED", ir.KindAPI}, {503, "UNAVAILABLE", ir.KindOverloaded}, {504, "DEADLINE_EXCEEDED", ir.KindTimeout},
}

const (
	invalidKey = "API_KEY_INVALID"
	second     = 1e9 // of a time.Duration
	rpc        = "type.googleapis.com/google.rpc."
)

// fault implements ir.Dialect. The body is {"error": {…}}, in the array form [{"error": {…}}].
func fault(status int, body []byte) ir.Fault {
	f := ir.Fault{Status: status}
	if body = bytes.TrimSpace(body); isArray(body) {
		var first []byte
		_ = rawjson.Elements(body, func(i int, v []byte) error {
			if i == 0 {
				first = v
			}
			return nil
		})
		body = first
	}
	e := rawjson.Get(body, "error")
	f.Type = rawText(rawjson.Get(e, "status"))
	if f.Message = rawText(rawjson.Get(e, "message")); f.Message == "" {
		f.Message = rawText(e)
	}
	details(&f, rawjson.Get(e, "details"))
	if f.Status == 0 {
		f.Status = statusOf(f.Type)
		if code, ok := rawjson.Int(rawjson.Get(e, "code")); ok && code >= 400 && code <= 599 {
			f.Status = int(code)
		}
	}
	f.Kind = kindOf(&f)
	return f
}

// statusOf is the status that a word stands for, 500 for an unknown one.
func statusOf(word string) int {
	for _, w := range words {
		if w.word == word {
			return w.status
		}
	}
	return 500
}

// kindOf is the kind of a fault that was read: an invalid key comes as a bad request.
func kindOf(f *ir.Fault) string {
	if f.Code == invalidKey {
		return ir.KindAuth
	}
	for _, w := range words {
		if w.word == f.Type {
			return w.kind
		}
	}
	return ir.KindOf(f.Status)
}

// details reads what google.rpc adds: the reason, which quota, which field.
func details(f *ir.Fault, list []byte) {
	if !isArray(list) {
		return
	}
	_ = rawjson.Elements(list, func(_ int, v []byte) error {
		if !isObject(v) {
			return nil
		}
		switch strings.TrimPrefix(rawText(rawjson.Get(v, "@type")), rpc) {
		case "ErrorInfo":
			if reason := rawText(rawjson.Get(v, "reason")); reason != "" {
				f.Code = reason
			}
		case "QuotaFailure":
			if f.Code == "" {
				f.Code = dailyQuota(rawjson.Get(v, "violations"))
			}
		case "BadRequest":
			f.Param = firstOf(rawjson.Get(v, "fieldViolations"), "field")
		}
		return nil
	})
}

// dailyQuota is the id of a quota per day among those that were exceeded: waiting a minute does not help.
func dailyQuota(violations []byte) (id string) {
	if isArray(violations) {
		_ = rawjson.Elements(violations, func(_ int, v []byte) error {
			if q := rawText(rawjson.Get(v, "quotaId")); strings.Contains(q, "PerDay") && id == "" {
				id = q
			}
			return nil
		})
	}
	return id
}

// firstOf is a member of an array's first element.
func firstOf(list []byte, name string) (s string) {
	if isArray(list) {
		_ = rawjson.Elements(list, func(i int, v []byte) error {
			if i == 0 {
				s = rawText(rawjson.Get(v, name))
			}
			return nil
		})
	}
	return s
}

// status implements ir.Dialect: these clients know neither 413 nor 529.
func status(f *ir.Fault) int {
	switch {
	case f.Status == 413:
		return 400
	case f.Status == 529:
		return 503
	case f.Status >= 400 && f.Status <= 599:
		return f.Status
	}
	switch f.Kind {
	case ir.KindBilling:
		return 429
	case ir.KindTooLarge:
		return 400
	}
	for _, w := range words {
		if w.kind == f.Kind && w.status != 499 {
			return w.status
		}
	}
	return 500
}

// wordOf is the API's word for a fault.
func wordOf(f *ir.Fault) string {
	if f.Code == ir.CodeTooLong || f.Kind == ir.KindTooLarge {
		return "INVALID_ARGUMENT"
	}
	code := status(f)
	for _, w := range words {
		if w.status == code {
			return w.word
		}
	}
	switch {
	case f.Kind == ir.KindBilling || code == 402:
		return "RESOURCE_EXHAUSTED"
	case code < 500:
		return "INVALID_ARGUMENT"
	case code == 502:
		return "UNAVAILABLE"
	}
	return "INTERNAL"
}

// appendError implements ir.Dialect. gemini-cli reads when to come again from RetryInfo alone.
func appendError(dst []byte, f *ir.Fault, trace string) []byte {
	w := rawjson.Writer{Buf: dst}
	w.Open('{')
	w.Key("error")
	w.Open('{')
	w.Number("code", int64(status(f)))
	w.Field("message", f.Message)
	w.Field("status", wordOf(f))
	if f.Reset > 0 || trace != "" {
		w.Key("details")
		w.Open('[')
		if f.Reset > 0 {
			w.Open('{')
			w.Field("@type", rpc+"RetryInfo")
			w.Field("retryDelay", strconv.FormatInt(int64((f.Reset+second-1)/second), 10)+"s")
			w.Close('}')
		}
		if trace != "" {
			w.Open('{')
			w.Field("@type", rpc+"RequestInfo")
			w.Field("requestId", trace)
			w.Close('}')
		}
		w.Close(']')
	}
	w.Close('}')
	w.Close('}')
	return w.Buf
}
