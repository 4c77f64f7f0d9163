package openairesponses

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// TestTap follows every stream of the corpus: where content begins, what is said last, and what it cost.
func TestTap(t *testing.T) {
	want := map[string]string{
		"text.sse":                 "start content stop completed in 6 out 20",
		"codex_like.sse":           "content stop in 3 out 2",
		"only_terminal.sse":        "content stop completed in 6 out 20",
		"length_in_call.sse":       "start content stop max_output_tokens in 6 out 20",
		"failed.sse":               "start content error rate_limit_exceeded",
		"error_flat.sse":           "start content error server_error",
		"overloaded_first.sse":     "start error server_is_overloaded",
		"empty_completed.sse":      "start stop completed",
		"no_terminal.sse":          "start content",
		"hosted_and_citations.sse": "start content stop completed in 6 out 20",
	}
	for name, want := range want {
		tap := Dialect().Raw.NewTap()
		var words []string
		content := false
		for _, f := range framesOf(read(t, "streams/"+name)) {
			m := tap.Mark([]byte(f.name), []byte(f.data))
			if m.Content && m.Kind != ir.MarkDelta && m.Kind != ir.MarkStop {
				t.Errorf("%s: content of kind %d", name, m.Kind)
			}
			if m.Kind == ir.MarkStart {
				words = append(words, "start")
			}
			if m.Content && !content {
				content, words = true, append(words, "content")
			}
			if m.Kind == ir.MarkStop {
				words = append(words, "stop")
				if m.StopReason != "" {
					words = append(words, m.StopReason)
				}
				if m.Usage.Known != 0 {
					words = append(words, "in", itoa(m.Usage.Input), "out", itoa(m.Usage.Output))
				}
			}
			if m.Kind == ir.MarkError {
				words = append(words, "error", m.Fault.Code)
			}
		}
		if got := strings.Join(words, " "); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// TestBreak: the end of a broken stream has the id of the response and the next number; without either, those of the
// trace and the first.
func TestBreak(t *testing.T) {
	tap := Dialect().Raw.NewTap()
	for _, f := range framesOf(read(t, "streams/no_terminal.sse")) {
		tap.Mark([]byte(f.name), []byte(f.data))
	}
	got := string(tap.Break([]byte("before"), &ir.Fault{Kind: ir.KindRate, Message: "slow", Reset: 90 * time.Second}, "7ace"))
	wants(t, got, `beforeevent: response.failed
data: {"type":"response.failed","sequence_number":5,"response":{"id":"resp_1","object":"response","created_at":1,"status":"failed","error":{"code":"rate_limit_exceeded","message":"slow Please try again in 90.0s."},"incomplete_details":null,"model":"gpt-5.5","output":[],"usage":null}}`)
	got = string(Dialect().Raw.NewTap().Break(nil, &ir.Fault{Kind: ir.KindTimeout, Message: "m"}, "7ace"))
	if !strings.Contains(got, `"sequence_number":0,"response":{"id":"resp_7ace"`) || !strings.Contains(got, `"code":"server_error"`) {
		t.Error(got)
	}
	if out, _ := tap.Finish(nil); out != nil {
		t.Error("a stream without an end was finished")
	}
}

func TestPlain(t *testing.T) {
	for body, want := range map[string]string{
		`{"status":"completed","usage":{"input_tokens":5,"output_tokens":2}}`:                      "completed",
		`{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"usage":null}`: "max_output_tokens",
		`{"status":"completed","incomplete_details":null}`:                                         "completed",
	} {
		usage, reason := Dialect().Raw.Plain(func(name string) []byte { return rawjson.Get([]byte(body), name) })
		if reason != want || (usage.Known != 0) != strings.Contains(body, "input_tokens") {
			t.Errorf("%s: %s %+v", body, reason, usage)
		}
	}
}

func TestRepair(t *testing.T) {
	sealed := ir.Seal(ir.State{Owner: "a", Data: "d"})
	item := func(opaque string) string {
		return `{"type":"reasoning","summary":[],"encrypted_content":"` + opaque + `"}`
	}
	const user = `{"role": "user", "content": "x"}`
	const call = `{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}`
	for _, c := range []struct {
		input string
		how   ir.Repair
		want  string // "" unchanged
	}{
		{`[` + user + `,` + item(sealed) + `,` + call + `, ` + item("gAAAA") + `]`, ir.RepairSealed, `[` + user + `,` + call + `,` + item("gAAAA") + `]`},
		{`[` + user + `,` + item("gAAAA") + `]`, ir.RepairSealed, ``},
		{`[` + item("gAAAA") + `,` + call + ` ,` + user + `,` + item("gBBBB") + `,` + call + `]`, ir.RepairClosed, `[` + call + `,` + user + `,` + item("gBBBB") + `,` + call + `]`},
		{`[` + user + `,` + item("gAAAA") + `,` + call + `,` + item(sealed) + `]`, ir.RepairClosed, `[` + user + `,` + item("gAAAA") + `,` + call + `]`},
		{`[` + item("gAAAA") + `,` + user + `,` + item("gBBBB") + `,{"type":"reasoning","summary":[]}]`, ir.RepairAll, `[` + user + `,{"type":"reasoning","summary":[]}]`},
		{`[{"type":"reasoning","id":"rs","summary":[]},` + user + `,{"type":"reasoning","id":"rt","summary":[]}]`, ir.RepairClosed, `[` + user + `,{"type":"reasoning","id":"rt","summary":[]}]`},
		{`[{"type":"reasoning","id":"rs","summary":[]},` + user + `]`, ir.RepairSealed, ``},
		{`[` + item("gAAAA") + `]`, ir.RepairAll, ``},
		{`"text"`, ir.RepairAll, ``},
		{`[5, null]`, ir.RepairAll, ``},
	} {
		head, tail := `{ "model" : "m", "input": `, ` , "n":1e2}`
		out, removed, err := repair([]byte(head+c.input+tail), c.how)
		if err != nil {
			t.Fatal(err)
		}
		if c.want == "" {
			if out != nil || removed != nil {
				t.Errorf("%s: changed to %s", c.input, out)
			}
			continue
		}
		if string(out) != head+c.want+tail || len(removed) != 1 || removed[0] != "reasoning" {
			t.Errorf("%s:\n%s\nwant\n%s, removed %v", c.input, out, head+c.want+tail, removed)
		}
	}
}

func TestFaults(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		want   ir.Fault
	}{
		{429, `{"error":{"message":"m","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`, ir.Fault{Status: 429, Kind: ir.KindRate, Type: "tokens", Code: "rate_limit_exceeded", Message: "m"}},
		{429, `{"error":{"message":"m","type":"insufficient_quota","code":"insufficient_quota"}}`, ir.Fault{Status: 429, Kind: ir.KindBilling, Type: "insufficient_quota", Code: "insufficient_quota", Message: "m"}},
		{400, `{"error":{"message":"m","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}`, ir.Fault{Status: 400, Kind: ir.KindInvalid, Type: "invalid_request_error", Param: "input", Code: ir.CodeTooLong, Message: "m"}},
		{503, `{"error":"busy"}`, ir.Fault{Status: 503, Kind: ir.KindOverloaded, Message: "busy"}},
		{400, `{"detail":"Unsupported parameter"}`, ir.Fault{Status: 400, Kind: ir.KindInvalid, Message: "Unsupported parameter"}},
		{401, `<html>`, ir.Fault{Status: 401, Kind: ir.KindAuth}},
		{500, ``, ir.Fault{Status: 500, Kind: ir.KindAPI}},
		{0, `{"type":"error","code":"server_is_overloaded","message":"m","param":null,"sequence_number":3}`, ir.Fault{Status: 503, Kind: ir.KindOverloaded, Code: "server_is_overloaded", Message: "m"}},
		{0, `{"type":"error","status":429,"error":{"type":"usage_limit_reached","message":"m"}}`, ir.Fault{Status: 429, Kind: ir.KindRate, Type: "usage_limit_reached", Message: "m"}},
		{0, `{"id":"resp_1","status":"failed","error":{"code":"context_length_exceeded","message":"m"}}`, ir.Fault{Status: 400, Kind: ir.KindInvalid, Code: ir.CodeTooLong, Message: "m"}},
		{0, `{"type":"error","code":"who_knows"}`, ir.Fault{Status: 500, Kind: ir.KindAPI, Code: "who_knows"}},
	} {
		if got := readFault(c.status, []byte(c.body)); got != c.want {
			t.Errorf("%s:\n got %+v\nwant %+v", c.body, got, c.want)
		}
	}
}

func TestErrorsForClients(t *testing.T) {
	for _, c := range []struct {
		f      ir.Fault
		status int
		body   string
	}{
		{ir.Fault{Status: 401, Kind: ir.KindAuth, Message: "m"}, 401, `{"error":{"message":"m","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`},
		{ir.Fault{Status: 429, Kind: ir.KindRate, Message: "m"}, 429, `{"error":{"message":"m","type":"rate_limit_error","param":null,"code":"rate_limit_exceeded"}}`},
		{ir.Fault{Status: 529, Kind: ir.KindOverloaded, Message: "m"}, 503, `{"error":{"message":"m","type":"server_error","param":null,"code":null}}`},
		{ir.Fault{Status: 400, Kind: ir.KindInvalid, Param: "input[0]", Message: "m"}, 400, `{"error":{"message":"m","type":"invalid_request_error","param":"input[0]","code":null}}`},
		{ir.Fault{Status: 413, Kind: ir.KindTooLarge, Code: ir.CodeTooLong, Message: "m"}, 400, `{"error":{"message":"m","type":"invalid_request_error","param":null,"code":"context_length_exceeded"}}`},
		{ir.Fault{Kind: ir.KindNotFound, Message: "m"}, 404, `{"error":{"message":"m","type":"invalid_request_error","param":null,"code":"model_not_found"}}`},
		{ir.Fault{Status: 402, Kind: ir.KindBilling, Message: "m"}, 402, `{"error":{"message":"m","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`},
		{ir.Fault{Kind: ir.KindTimeout, Message: "m"}, 504, `{"error":{"message":"m","type":"server_error","param":null,"code":null}}`},
		{ir.Fault{Message: "m"}, 500, `{"error":{"message":"m","type":"server_error","param":null,"code":null}}`},
	} {
		d := Dialect()
		if got := string(d.AppendError(nil, &c.f, "7ace")); got != c.body {
			t.Errorf("%+v: %s", c.f, got)
		}
		if got := d.Status(&c.f); got != c.status {
			t.Errorf("%+v: %d", c.f, got)
		}
	}
	for kind, code := range map[string]string{
		ir.KindRate: "rate_limit_exceeded", ir.KindOverloaded: "server_is_overloaded", ir.KindAPI: "server_error", ir.KindTimeout: "server_error", ir.KindBilling: "insufficient_quota", ir.KindInvalid: "invalid_prompt",
	} {
		if got := failedCode(&ir.Fault{Kind: kind}); got != code {
			t.Errorf("%s: %s", kind, got)
		}
	}
}
