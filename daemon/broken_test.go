package daemon

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"coding-proxy/proxy/demo"
)

// firstDelta is the event of a simulated stream that has the first content.
func firstDelta(protocol string) int {
	return map[string]int{claude: 4, chat: 2, responses: 5, gemini: 1}[protocol]
}

// brokenEnd checks that a stream ended as its dialect says that it broke, and returns what came before.
func brokenEnd(t *testing.T, dialect string, r *reply) *spoken {
	t.Helper()
	if dialect == gemini {
		if r.err == nil {
			t.Errorf("a clean end: %q", r.body)
		}
		s := understand(t, dialect, r.body, true)
		if s.finish != "" {
			t.Errorf("the end has a reason: %q", r.body)
		}
		return s
	}
	if r.err != nil {
		t.Errorf("%v after %q", r.err, r.body)
	}
	s := understand(t, dialect, r.body, true)
	if s.fault == "" || s.ends != 1 {
		t.Errorf("not one error at the end: %q", r.body)
	}
	for _, end := range []string{"message_stop", "[DONE]", "response.completed", "response.incomplete"} {
		if strings.Contains(r.body, end) {
			t.Errorf("%s in a stream that broke: %q", end, r.body)
		}
	}
	inSequence(t, dialect, r.body)
	return s
}

// inSequence checks that the sequence numbers of a Responses stream have no gap.
func inSequence(t *testing.T, dialect, body string) {
	t.Helper()
	if dialect != responses {
		return
	}
	names, data := events(t, body)
	next := int64(0)
	for n := range data {
		if names[n] == "keepalive" {
			continue
		}
		if got := parse(t, data[n]).get("sequence_number").int(); got != next {
			t.Errorf("event %d (%s) has the number %d, want %d", n, names[n], got, next)
		}
		next++
	}
}

// TestBrokenEnds breaks the streams of each protocol for each client: before content the next key takes over and nothing
// is seen of it, after it the client never sees a clean end (SSE-022, SSE-027).
func TestBrokenEnds(t *testing.T) {
	t.Parallel()
	for how, name := range map[demo.Break]string{demo.ErrorEvent: "error event", demo.Cut: "cut", demo.End: "end"} {
		for _, from := range allDialects() {
			for _, to := range allDialects() {
				for _, content := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/%s to %s/content %t", name, from, to, content), func(t *testing.T) {
						t.Parallel()
						breaks(t, how, from, to, content)
					})
				}
			}
		}
	}
}

func breaks(t *testing.T, how demo.Break, from, to string, content bool) {
	t.Helper()
	first, one := strict(t, "one", from)
	_, two := strict(t, "two", from)
	after := firstDelta(from) - 1
	if content {
		after += 2
	}
	first.Push(demo.Step{Text: "walrus walrus walrus walrus", Break: how, After: after})
	i := start(t, poolOf(protocolKey(k1, from, one), protocolKey(k2, from, two)))
	r := i.say(to, modelOf(from), true)
	rec := i.record(r.trace())
	if r.status != 200 {
		t.Fatalf("status %d: %s", r.status, r.body)
	}
	i.tellsNothing(r)
	if !content {
		s := understand(t, to, r.body, true)
		if r.err != nil || s.text != answerText || s.ends != 1 || s.fault != "" || rec.Key != k2 || rec.Outcome != "ok" || len(rec.Attempts) != 2 {
			t.Errorf("%v, %s by %s: %q", r.err, rec.Outcome, rec.Key, r.body)
		}
		inSequence(t, to, r.body)
		return
	}
	if from == gemini && how == demo.End { // its whole parts are taken for an answer
		s := understand(t, to, r.body, true)
		if r.err != nil || s.text != "walrus walrus " || s.ends != 1 || rec.Outcome != "ok" || !strings.HasSuffix(rec.StopReason, " (assumed)") {
			t.Errorf("%v, %s, stop %q: %q", r.err, rec.Outcome, rec.StopReason, r.body)
		}
		return
	}
	s := brokenEnd(t, to, r)
	if s.text != "walrus walrus " {
		t.Errorf("before the break came %q", s.text)
	}
	if rec.Outcome != "broken" || rec.Key != k1 || rec.OutputTokens < 1 || !rec.Estimated || len(rec.Attempts) != 1 {
		t.Errorf("journal: %s by %s, %v, estimated %t", rec.Outcome, rec.Key, costsOf(rec), rec.Estimated)
	}
	if k := i.keys()[k1]; k.State != "cooling" && len(k.Models) == 0 {
		t.Errorf("the key is %s", k.State)
	}
}

// Half an event is never passed on (SSE-028).
func TestSSE028HalfFramesInEachDialect(t *testing.T) {
	t.Parallel()
	next := map[string]string{claude: evDelta, chat: chatText, responses: strings.Replace(respDelta, `"sequence_number":3`, `"sequence_number":4`, 1), gemini: geminiEvent(geminiFirst)}
	for _, from := range allDialects() {
		for _, to := range allDialects() {
			for cut, half := range map[string]string{
				"in the data": next[from][:len(next[from])-20], "in the name": next[from][:3], "before the blank line": strings.TrimRight(next[from], "\r\n"),
			} {
				t.Run(from+" to "+to+" "+cut, func(t *testing.T) {
					t.Parallel()
					i := start(t, poolOf(protocolKey(k1, from, newBackend(t, pours(beginning(from)+half)).URL)))
					r := i.say(to, modelOf(from), true)
					rec := i.record(r.trace())
					if from == gemini && (to == gemini || !strings.HasPrefix(cut, "in the")) {
						// What has come whole is an answer. A half event may be dropped or break it, but it is not heard.
						if s := understand(t, to, r.body, true); !strings.HasPrefix(s.text, "walrus ") || len(s.text) > 14 {
							t.Errorf("heard %q", s.text)
						}
						return
					}
					if from == gemini {
						if s := understand(t, to, r.body, true); s.text != "walrus " {
							t.Errorf("heard %q", s.text)
						}
						return
					}
					s := brokenEnd(t, to, r)
					if s.text != "walrus " && !(cut == "before the blank line" && s.text == "walrus walrus ") || rec.Outcome != "broken" {
						t.Errorf("%s: %q", rec.Outcome, r.body)
					}
					if from == to && to != gemini && !strings.HasPrefix(r.body, beginning(from)) {
						t.Errorf("raw: %s", differ(r.body, beginning(from)))
					}
				})
			}
		}
	}
}

// A stream without output and without usage is a refusal (SSE-024): the next key is asked, and where none is left the
// client gets an explicit error.
func TestSSE024EmptyCompletedInEachDialect(t *testing.T) {
	t.Parallel()
	for from, texts := range map[string][]string{
		chat:      {"", chatDone, chatRole + chatDone, chatRole + chatStop + chatDone, ": x\n\n", "data: : keepalive\n\n"},
		responses: {"", respCreated, respCreated + responseEvent("response.completed", 1, `"response":`+responseOf("completed", "", `"usage":null`))},
		gemini:    {"", geminiEvent(`{"candidates":[{"content":{"parts":[],"role":"model"},"finishReason":"STOP"}]}`), geminiEvent(`{"responseId":"r"}`)},
	} {
		for n, text := range texts {
			for _, to := range allDialects() {
				t.Run(fmt.Sprintf("%s %d to %s", from, n, to), func(t *testing.T) {
					t.Parallel()
					p, two := strict(t, "two", from)
					i := start(t, poolOf(protocolKey(k1, from, newBackend(t, pours(text)).URL), protocolKey(k2, from, two)))
					r := i.say(to, modelOf(from), true)
					if s := understand(t, to, r.body, true); r.status != 200 || i.servedBy(r) != k2 || s.text != answerText || s.ends != 1 {
						t.Errorf("status %d by %s: %q", r.status, i.servedBy(r), r.body)
					}
					p.Always(demo.Step{Status: 500})
					i = start(t, poolOf(protocolKey(k1, from, newBackend(t, pours(text)).URL)))
					i.refuses(to, i.say(to, modelOf(from), true), 502, "api_error")
				})
			}
		}
	}
}

// SSE-022: an error event under 200 is an error of its own status where no key is left, in the client's envelope.
func TestSSE022ErrorEventsBecomeErrors(t *testing.T) {
	t.Parallel()
	failed := func(code string) string {
		return respCreated + respProgress + responseEvent("response.failed", 2, `"response":`+strings.Replace(responseOf("failed", ""), `"error":null`, fmt.Sprintf(`"error":{"code":%q,"message":"told so"}`, code), 1))
	}
	for _, c := range []struct {
		name, from, text string
		status           int
		kind, reason     string
	}{
		{"overloaded", responses, failed("server_is_overloaded"), 503, "overloaded_error", "overload"},
		{"rate limit", responses, failed("rate_limit_exceeded"), 429, "rate_limit_error", "rate_limit"},
		{"server error", responses, failed("server_error"), 500, "api_error", "fault"},
		{"flat event", responses, respCreated + "event: error\ndata: {\"type\":\"error\",\"code\":\"server_is_overloaded\",\"message\":\"told so\",\"param\":null,\"sequence_number\":1}\n\n", 503, "overloaded_error", "overload"},
		{"chunk", chat, chatRole + "data: {\"error\":{\"message\":\"told so\",\"type\":\"server_error\",\"param\":null,\"code\":\"server_is_overloaded\"}}\n\n", 503, "overloaded_error", "overload"},
		{"chunk", gemini, geminiEvent(`{"error":{"code":503,"message":"told so","status":"UNAVAILABLE"}}`), 503, "overloaded_error", "overload"},
		{"event", claude, evStart + "event: error\ndata: " + failure("overloaded_error", "told so") + "\n\n", 529, "overloaded_error", "overload"},
	} {
		for _, to := range allDialects() {
			t.Run(c.from+" "+c.name+" to "+to, func(t *testing.T) {
				t.Parallel()
				b := newBackend(t, pours(c.text))
				_, two := strict(t, "two", c.from)
				i := start(t, poolOf(protocolKey(k1, c.from, b.URL), protocolKey(k2, c.from, two)))
				if r := i.say(to, modelOf(c.from), true); r.status != 200 || i.servedBy(r) != k2 || strings.Contains(r.body, "told so") {
					t.Errorf("status %d by %s: %q", r.status, i.servedBy(r), r.body)
				}
				k := i.keys()[k1]
				if len(k.Models) == 1 {
					k.State, k.Reason = "cooling", k.Models[0].Reason
				}
				if k.State != "cooling" || k.Reason != c.reason {
					t.Errorf("%+v", k)
				}
				i = start(t, poolOf(protocolKey(k1, c.from, b.URL)))
				r := i.say(to, modelOf(c.from), true)
				if c.from != to {
					i.refuses(to, r, c.status, c.kind)
					return
				}
				if f := i.refusalIn(to, r); r.status != statusIn(to, c.status) || f.message != "told so" {
					t.Errorf("status %d: %s", r.status, r.body)
				}
			})
		}
	}
}

// RET-004: what one attempt has seen does not count for the next.
func TestRET004AttemptStateInEachDialect(t *testing.T) {
	t.Parallel()
	ends := map[string]string{chat: chatDone, responses: responseEvent("response.completed", 0, `"response":`+responseOf("completed", "", `"usage":null`)), gemini: geminiEvent(`{"candidates":[{"finishReason":"STOP"}]}`)}
	for from, end := range ends {
		for _, to := range []string{from, claude} {
			t.Run(from+" to "+to, func(t *testing.T) {
				t.Parallel()
				p, two := strict(t, "two", from)
				p.Push(demo.Step{Text: "walrus walrus walrus", Break: demo.Cut, After: firstDelta(from) + 1})
				i := start(t, poolOf(protocolKey(k1, from, newBackend(t, pours(end)).URL), protocolKey(k2, from, two)))
				r := i.say(to, modelOf(from), true)
				brokenEnd(t, to, r)
				if rec := i.record(r.trace()); rec.Outcome != "broken" || rec.Key != k2 || len(rec.Attempts) != 2 || rec.StopReason != "" {
					t.Errorf("journal: %s by %s, stop %q", rec.Outcome, rec.Key, rec.StopReason)
				}
			})
		}
	}
}

// RET-016: a prompt that is too long costs one upstream call, and each client hears it in the words that it knows.
func TestRET016ContextLengthInEachDialect(t *testing.T) {
	t.Parallel()
	const text = "This model's maximum context length is 1000 tokens"
	body := map[string]string{
		claude:    failure("invalid_request_error", "prompt is too long: 2 tokens > 1 maximum"),
		chat:      `{"error":{"message":"` + text + `","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`,
		responses: `{"error":{"message":"` + text + `","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}`,
		gemini:    `{"error":{"code":400,"message":"The input token count (2) exceeds the maximum number of tokens allowed (1).","status":"INVALID_ARGUMENT"}}`,
	}
	event := map[string]string{
		claude:    evStart + "event: error\ndata: " + body[claude] + "\n\n",
		chat:      chatRole + "data: " + body[chat] + "\n\n",
		responses: respCreated + "event: error\ndata: {\"type\":\"error\",\"sequence_number\":1,\"code\":\"context_length_exceeded\",\"message\":\"" + text + "\",\"param\":null}\n\n",
		gemini:    geminiEvent(body[gemini]),
	}
	for _, from := range allDialects() {
		for _, to := range allDialects() {
			for how, answer := range map[string]func(http.ResponseWriter, *http.Request, int){
				"400": says(400, body[from]), "502": says(502, body[from]), "event under 200": pours(event[from]),
			} {
				t.Run(from+" to "+to+" "+how, func(t *testing.T) {
					t.Parallel()
					b := newBackend(t, answer)
					key := func(id, tier string) string { return protocolKey(id, from, b.URL, fmt.Sprintf(`"tier":%q`, tier)) }
					i := start(t, `"tiers":[{"name":"one","circuit_breaker":{"failure_threshold":1}},{"name":"two"}]`, poolOf(key(k1, "one"), key(k2, "one"), key(k3, "two")))
					r := i.say(to, modelOf(from), true)
					if n := len(b.requests()); n != 1 {
						t.Errorf("%d upstream calls", n)
					}
					i.untouched(k1, k2, k3)
					if from == to {
						if how != "502" && r.status != 400 || how == "502" && r.status != 502 {
							t.Errorf("status %d: %s", r.status, r.body)
						}
						if r.body != body[from] {
							i.refusalIn(to, r)
						}
						return
					}
					f := i.refusalIn(to, r)
					switch to {
					case claude:
						if !strings.Contains(f.message, "prompt is too long") || f.kind != "invalid_request_error" {
							t.Errorf("%s", r.body)
						}
					case gemini:
						if f.kind != "INVALID_ARGUMENT" {
							t.Errorf("%s", r.body)
						}
					default:
						if f.code != "context_length_exceeded" || f.kind != "invalid_request_error" {
							t.Errorf("%s", r.body)
						}
					}
					if r.status != 400 {
						t.Errorf("status %d", r.status)
					}
				})
			}
		}
	}
}
