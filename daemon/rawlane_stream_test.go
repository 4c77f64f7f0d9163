package daemon

import (
	"strings"
	"testing"
)

// A client hears a provider of its own dialect byte for byte, and the journal what it cost.
func TestRawStreams(t *testing.T) {
	t.Parallel()
	call := chunk(`{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"a\":1"}}]}`, "null")
	callEnd := chunk(`{"tool_calls":[{"index":0,"function":{"arguments":"}"}}]}`, "null")
	rawStreams(t, []rawCase{
		{name: "plain", dialect: chat, text: chatAll, stop: "stop", costs: usual},
		{name: "CRLF", dialect: chat, text: strings.ReplaceAll(chatAll, "\n", "\r\n"), stop: "stop", costs: usual},
		{name: "SSE-010 no space after the colon", dialect: chat, text: strings.ReplaceAll(chatAll, "data: ", "data:"), stop: "stop", costs: usual},
		{name: "SSE-009 separators", dialect: chat, text: strings.Replace(chatAll, "walrus ", "a\u2028b\u0085漢🙂", 1), stop: "stop", costs: usual},
		{name: "SSE-012 comments", dialect: chat, text: strings.Repeat(": PROCESSING\n\n", 3) + chatBegin + ": x\n\n" + chatRest, stop: "stop", costs: usual},
		{name: "SSE-013 keep-alives as data", dialect: chat, text: "data: : keepalive\n\n" + chatBegin + "data: : keepalive\n\n" + chatRest, want: chatAll, stop: "stop", costs: usual},
		{name: "SSE-014 empty data", dialect: chat, text: "data: \n\n" + chatBegin + "data: \n\ndata:\n\n" + chatRest, want: chatAll, stop: "stop", costs: usual},
		{name: "SSE-029 more after the end", dialect: chat, text: chatAll + "data: {\"choices\":[],\"price\":\"n/a\"}\n\n", want: chatAll, stop: "stop", costs: usual},
		{name: "SSE-029 a second end", dialect: chat, text: chatAll + chatDone, want: chatAll, stop: "stop", costs: usual},
		{name: "no end marker", dialect: chat, text: chatBegin + chatStop + chatLast, stop: "stop", costs: usual},
		{name: "USE-010 usage after the finish", dialect: chat, text: chatBegin + chatStop + chatLast + chatDone, stop: "stop", costs: usual},
		{name: "usage with the finish", dialect: chat, text: chatBegin + chunk(`{}`, `"stop"`, chatUsage) + chatDone, stop: "stop", costs: usual},
		{name: "USE-011 usage in each chunk", dialect: chat, text: strings.ReplaceAll(chatRole+chatText+chatStop, `"finish_reason":null}]`, `"finish_reason":null}],"usage":{"prompt_tokens":5,"completion_tokens":1}`) + chatLast + chatDone,
			stop: "stop", costs: usual},
		{name: "SSE-031 no finish reason", dialect: chat, text: chatBegin + chatDone, want: chatBegin + finishOf("stop") + chatDone, stop: "stop (assumed)", estimated: true},
		{name: "SSE-031 no finish reason, but usage", dialect: chat, text: chatBegin + chatLast + chatDone, want: chatBegin + chatLast + finishOf("stop") + chatDone, stop: "stop (assumed)", costs: usual},
		{name: "SSE-031 two deltas and no role", dialect: chat, text: chatText + chatText + chatDone, want: chatText + chatText + finishOf("stop") + chatDone, stop: "stop (assumed)", estimated: true},
		{name: "SSE-031 a whole call", dialect: chat, text: chatRole + call + callEnd + chatDone, want: chatRole + call + callEnd + finishOf("tool_calls") + chatDone, stop: "tool_calls (assumed)", estimated: true},
		{name: "SSE-031 half a call", dialect: chat, text: chatRole + call + chatDone, want: chatRole + call + finishOf("length") + chatDone, stop: "length (assumed)", estimated: true},
		{name: "USE-008 no usage asked", dialect: chat, text: chatBegin + chatStop + chatDone, stop: "stop", estimated: true},

		{name: "plain", dialect: responses, text: respAll, stop: "completed", costs: usual},
		{name: "CRLF", dialect: responses, text: strings.ReplaceAll(respAll, "\n", "\r\n"), stop: "completed", costs: usual},
		{name: "SSE-009 separators", dialect: responses, text: strings.ReplaceAll(respAll, "walrus ", "a\u2028b"), stop: "completed", costs: usual},
		{name: "SSE-012 comments", dialect: responses, text: ": PROCESSING\n\n" + respBegin + ": x\n\n" + respRest, stop: "completed", costs: usual},
		{name: "keepalive events", dialect: responses, text: respBegin + "event: keepalive\ndata: {\"type\":\"keepalive\"}\n\n" + respRest, stop: "completed", costs: usual},
		{name: "RET-030 incomplete", dialect: responses, stop: "max_output_tokens", costs: usual,
			text: respBegin + responseEvent("response.incomplete", 4, `"response":`+strings.Replace(responseOf("incomplete", responsesItem, responsesUsage), `"incomplete_details":null`, `"incomplete_details":{"reason":"max_output_tokens"}`, 1))},
		{name: "no usage", dialect: responses, text: respBegin + respEnd + responseEvent("response.completed", 5, `"response":`+responseOf("completed", responsesItem, `"usage":null`)), stop: "completed", estimated: true},

		{name: "USE-005 USE-006 plain", dialect: gemini, text: geminiAll, stop: "STOP", costs: usual},
		{name: "LF", dialect: gemini, text: strings.ReplaceAll(geminiAll, "\r\n", "\n"), stop: "STOP", costs: usual},
		{name: "MAX_TOKENS", dialect: gemini, text: strings.Replace(geminiAll, "STOP", "MAX_TOKENS", 1), stop: "MAX_TOKENS", costs: usual},
		{name: "blocked prompt", dialect: gemini, stop: "SAFETY", costs: costs{5, 0, 0, 0, 0},
			text: geminiEvent(`{"promptFeedback": {"blockReason": "SAFETY"},"usageMetadata": {"promptTokenCount": 5,"totalTokenCount": 5}}`)},
		{name: "no finish reason", dialect: gemini, text: geminiEvent(geminiFirst),
			want: geminiEvent(geminiFirst) + "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[]},\"finishReason\":\"STOP\",\"index\":0}]}\n\n",
			stop: "STOP (assumed)", costs: costs{100, 1, 0, 0, 0}},
		{name: "no usage", dialect: gemini, stop: "STOP", estimated: true,
			text: geminiEvent(strings.Replace(geminiLast, `"usageMetadata": {`+geminiFigures+`},`, "", 1))},
	}, false)
}

// finishOf is the chunk that a stream is given which has no reason of its end.
func finishOf(reason string) string {
	return "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1767225600,\"model\":\"m\"," +
		"\"choices\":[{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"" + reason + "\"}]}\n\n"
}

// The other form of a Gemini stream is one JSON array, whose elements come as they are made.
func TestRawGeminiArrays(t *testing.T) {
	t.Parallel()
	rawStreams(t, []rawCase{
		{name: "array", dialect: gemini, text: geminiArray, stop: "STOP", costs: usual},
		{name: "array in one line", dialect: gemini, text: "[" + geminiFirst + "," + geminiLast + "]", stop: "STOP", costs: usual},
		{name: "array of one", dialect: gemini, text: "[" + geminiLast + "]", stop: "STOP", costs: usual},
		{name: "array with blanks", dialect: gemini, text: " \n[\n " + strings.ReplaceAll(geminiFirst, ",", ",\n  ") + " ,\n" + geminiLast + "\n]\r\n\n", stop: "STOP", costs: usual},
		{name: "brackets in words", dialect: gemini, text: "[" + candidate(`]},{"[\`, `"promptTokenCount": 1`) + "," + geminiLast + "]", stop: "STOP", costs: usual},
	}, true)
}

// A Gemini array that never says why it ends stays one JSON array.
func TestRawGeminiArrayWithoutReason(t *testing.T) {
	t.Parallel()
	i := start(t, poolOf(protocolKey(k1, gemini, newBackend(t, pours("["+geminiFirst+"\n,\r\n"+candidate("more", geminiFigures)+"\n]\n")).URL)))
	r := i.send(gemini, "/v1beta/models/m:streamGenerateContent", bodyOf(gemini, "m", true))
	if r.err != nil {
		t.Fatalf("broken: %v: %q", r.err, r.body)
	}
	list := parse(t, r.body).list()
	if len(list) < 2 || list[len(list)-1].get("candidates").list()[0].get("finishReason").str() != "STOP" {
		t.Errorf("no array with a reason at its end: %q", r.body)
	}
	if in := strings.TrimSpace(r.body); !strings.HasPrefix(in, "[") || !strings.HasSuffix(in, "]") {
		t.Errorf("more than an array: %q", r.body)
	}
	if rec := i.record(r.trace()); rec.Outcome != "ok" || rec.StopReason != "STOP (assumed)" {
		t.Errorf("journal: %+v", rec)
	}
}

// Noise that breaks the clients of the other dialects, too, is not passed on (SSE-013, SSE-014).
func TestSSE013SSE014NoiseInOtherDialects(t *testing.T) {
	t.Parallel()
	rawStreams(t, []rawCase{
		{name: "keep-alives as data", dialect: responses, text: "data: : keepalive\n\n" + respBegin + "data: : keepalive\n\n" + respRest, want: respAll, stop: "completed", costs: usual},
		{name: "empty data", dialect: responses, text: respBegin + "data: \n\n" + respRest, want: respAll, stop: "completed", costs: usual},
		{name: "keep-alives as data", dialect: gemini, text: "data: : keepalive\n\n" + geminiAll, want: geminiAll, stop: "STOP", costs: usual},
		{name: "empty data", dialect: gemini, text: geminiEvent(geminiFirst) + "data: \n\n" + geminiEvent(geminiLast), want: geminiAll, stop: "STOP", costs: usual},
		{name: "DONE", dialect: gemini, text: geminiAll + chatDone, want: geminiAll, stop: "STOP", costs: usual},
		{name: "DONE", dialect: responses, text: respAll + chatDone, want: respAll, stop: "completed", costs: usual},
	}, false)
}

// Plain answers come byte for byte, too, and the journal knows what they cost.
func TestRawPlainAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []rawCase{
		{name: "plain", dialect: chat, text: chatPlain, stop: "stop", costs: usual},
		{name: "blanks before", dialect: chat, text: "\n \n" + chatPlain, stop: "stop", costs: usual},
		{name: "USE-002 cache written", dialect: chat, text: strings.Replace(chatPlain, `"cached_tokens":90`, `"cached_tokens":60,"cache_write_tokens":30`, 1), stop: "stop", costs: costs{10, 40, 30, 60, 30}},
		{name: "no usage", dialect: chat, text: strings.Replace(chatPlain, chatUsage, `"usage":null`, 1), stop: "stop", estimated: true},
		{name: "plain", dialect: responses, text: respPlain, stop: "completed", costs: usual},
		{name: "RET-030 incomplete", dialect: responses, text: strings.Replace(strings.Replace(respPlain, `"completed"`, `"incomplete"`, 1), `"incomplete_details":null`, `"incomplete_details":{"reason":"max_output_tokens"}`, 1),
			stop: "max_output_tokens", costs: usual},
		{name: "USE-005 plain", dialect: gemini, text: geminiLast, stop: "STOP", costs: usual},
		{name: "USE-005 thoughts", dialect: gemini, text: strings.Replace(geminiLast, geminiFigures, `"promptTokenCount": 50,"candidatesTokenCount": 7,"thoughtsTokenCount": 200,"cachedContentTokenCount": 20,"totalTokenCount": 257`, 1),
			stop: "STOP", costs: costs{30, 207, 0, 20, 200}},
	} {
		t.Run(c.dialect+" "+c.name, func(t *testing.T) {
			t.Parallel()
			i := start(t, poolOf(protocolKey(k1, c.dialect, newBackend(t, says(200, c.text, "X-Request-Id: up-1")).URL)))
			r := i.say(c.dialect, "m", false)
			if r.status != 200 || r.err != nil || r.body != c.text || r.header.Get("X-Request-Id") != "up-1" {
				t.Errorf("status %d, %v: %q", r.status, r.err, r.body)
			}
			rec := i.record(r.trace())
			if rec.Outcome != "ok" || rec.StopReason != c.stop || rec.Estimated != c.estimated || costsOf(rec) != c.costs && !c.estimated || rec.Stream || rec.Upstream != c.dialect {
				t.Errorf("journal: outcome %s, stop %q, estimated %t, costs %v", rec.Outcome, rec.StopReason, rec.Estimated, costsOf(rec))
			}
			i.untouched(k1)
		})
	}
}
