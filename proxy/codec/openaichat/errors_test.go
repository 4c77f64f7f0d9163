package openaichat

import (
	"testing"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// TestFault reads the envelopes of OpenAI and of vendors.
func TestFault(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		want   ir.Fault
	}{
		{400, `{"error":{"message":"m","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`,
			ir.Fault{Status: 400, Kind: ir.KindInvalid, Type: "invalid_request_error", Param: "messages", Code: ir.CodeTooLong, Message: "m"}},
		{400, `{"error":{"message":"m","code":"model_max_prompt_tokens_exceeded"}}`, ir.Fault{Status: 400, Kind: ir.KindInvalid, Code: ir.CodeTooLong, Message: "m"}},
		{429, `{"error":{"message":"m","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`,
			ir.Fault{Status: 429, Kind: ir.KindBilling, Type: "insufficient_quota", Code: "insufficient_quota", Message: "m"}},
		{429, `{"error":{"message":"m","type":"requests","code":"rate_limit_exceeded"}}`, ir.Fault{Status: 429, Kind: ir.KindRate, Type: "requests", Code: "rate_limit_exceeded", Message: "m"}},
		{429, `{"error":{"message":"m","type":"engine_overloaded_error"}}`, ir.Fault{Status: 429, Kind: ir.KindOverloaded, Type: "engine_overloaded_error", Message: "m"}},
		{401, `{"error":{"message":"m","type":"invalid_request_error","code":"invalid_api_key"}}`, ir.Fault{Status: 401, Kind: ir.KindAuth, Type: "invalid_request_error", Code: "invalid_api_key", Message: "m"}},
		{0, `{"error":{"message":"m","type":"server_error"}}`, ir.Fault{Status: 500, Kind: ir.KindAPI, Type: "server_error", Message: "m"}},
		{0, `{"error":{"message":"m","code":429}}`, ir.Fault{Status: 429, Kind: ir.KindRate, Message: "m"}},
		{0, `{"error":{"message":"m","code":"server_is_overloaded"}}`, ir.Fault{Status: 503, Kind: ir.KindOverloaded, Code: "server_is_overloaded", Message: "m"}},
		{0, `{"error":{"message":"m","code":"server_overloaded"}}`, ir.Fault{Status: 503, Kind: ir.KindOverloaded, Code: "server_overloaded", Message: "m"}},
		{0, `{"error":{"message":"m","type":"overloaded_error"}}`, ir.Fault{Status: 503, Kind: ir.KindOverloaded, Type: "overloaded_error", Message: "m"}},
		{0, `{"error":{"message":"m","type":"server_error","code":"503"}}`, ir.Fault{Status: 503, Kind: ir.KindOverloaded, Type: "server_error", Message: "m"}},
		{0, `{"error":{"message":"m","code":529}}`, ir.Fault{Status: 529, Kind: ir.KindOverloaded, Message: "m"}},
		{0, `{"error":{"message":"m","type":"invalid_request_error"}}`, ir.Fault{Status: 400, Kind: ir.KindInvalid, Type: "invalid_request_error", Message: "m"}},
		{500, `{"error":"boom"}`, ir.Fault{Status: 500, Kind: ir.KindAPI, Message: "boom"}},
		{404, `[{"error":{"code":404,"message":"m","status":"NOT_FOUND"}}]`, ir.Fault{Status: 404, Kind: ir.KindNotFound, Type: "NOT_FOUND", Message: "m"}},
		{422, `{"detail":"m"}`, ir.Fault{Status: 422, Kind: ir.KindInvalid, Message: "m"}},
		{400, `{"object":"error","message":"m","type":"BadRequestError","param":null,"code":400}`, ir.Fault{Status: 400, Kind: ir.KindInvalid, Type: "BadRequestError", Message: "m"}},
		{529, `<html>`, ir.Fault{Status: 529, Kind: ir.KindOverloaded}},
		{502, ``, ir.Fault{Status: 502, Kind: ir.KindAPI}},
		{413, `{"error":null}`, ir.Fault{Status: 413, Kind: ir.KindTooLarge}},
	} {
		if got := fault(c.status, []byte(c.body)); got != c.want {
			t.Errorf("%d %s:\ngot  %+v\nwant %+v", c.status, c.body, got, c.want)
		}
	}
}

// TestAppendError: facts 5.7 and conversion.md 1, by kind.
func TestAppendError(t *testing.T) {
	for _, c := range []struct {
		f          ir.Fault
		status     int
		kind, code string
	}{
		{ir.Fault{Status: 400, Kind: ir.KindInvalid}, 400, "invalid_request_error", "null"},
		{ir.Fault{Status: 400, Kind: ir.KindInvalid, Code: ir.CodeTooLong}, 400, "invalid_request_error", `"context_length_exceeded"`},
		{ir.Fault{Status: 401, Kind: ir.KindAuth}, 401, "invalid_request_error", `"invalid_api_key"`},
		{ir.Fault{Status: 402, Kind: ir.KindBilling}, 402, "insufficient_quota", `"insufficient_quota"`},
		{ir.Fault{Status: 403, Kind: ir.KindPermission}, 403, "invalid_request_error", `"permission_denied"`},
		{ir.Fault{Status: 404, Kind: ir.KindNotFound}, 404, "invalid_request_error", `"model_not_found"`},
		{ir.Fault{Status: 413, Kind: ir.KindTooLarge}, 413, "invalid_request_error", `"request_too_large"`},
		{ir.Fault{Status: 429, Kind: ir.KindRate}, 429, "rate_limit_error", `"rate_limit_exceeded"`},
		{ir.Fault{Status: 500, Kind: ir.KindAPI}, 500, "server_error", "null"},
		{ir.Fault{Status: 529, Kind: ir.KindOverloaded}, 503, "server_error", `"server_is_overloaded"`},
		{ir.Fault{Status: 504, Kind: ir.KindTimeout}, 504, "server_error", `"timeout"`},
		{ir.Fault{Kind: ir.KindConflict}, 409, "invalid_request_error", "null"},
		{ir.Fault{Kind: ir.KindTooLarge}, 413, "invalid_request_error", `"request_too_large"`},
		{ir.Fault{}, 500, "server_error", "null"},
		{ir.Fault{Status: 200, Kind: ir.KindOverloaded}, 503, "server_error", `"server_is_overloaded"`},
	} {
		c.f.Message, c.f.Param = "a <b>", "p"
		if got := status(&c.f); got != c.status {
			t.Errorf("%+v: status %d", c.f, got)
		}
		body := appendError(nil, &c.f, "")
		if rawjson.Valid(body) != nil {
			t.Fatalf("%s", body)
		}
		expect(t, body, map[string]string{"error.type": `"` + c.kind + `"`, "error.code": c.code, "error.message": `"a <b>"`, "error.param": `"p"`, "request_id": ""})
		if got := fault(0, body); c.f.Kind == ir.KindOverloaded && got.Kind != ir.KindOverloaded {
			t.Errorf("in a stream %s is read as %s", body, got.Kind)
		}
		if got := fault(c.status, body); got.Kind != ir.KindOf(c.status) && c.f.Kind != ir.KindBilling {
			t.Errorf("%s is read as %s", body, got.Kind)
		}
	}
}
