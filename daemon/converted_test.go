package daemon

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"coding-proxy/proxy/demo"
)

// Each word of a stream goes on when it comes, converted or not; and when the client leaves, the upstream request ends and
// what came is counted (SSE-002, USE-012).
func TestStreamsFlowInEachDialect(t *testing.T) {
	t.Parallel()
	for _, from := range allDialects() {
		for _, to := range allDialects() {
			t.Run(from+" to "+to, func(t *testing.T) {
				t.Parallel()
				u := newSteps(t)
				i := start(t, poolOf(protocolKey(k1, from, u.url)))
				answer := make(chan *live)
				ctx, leave := i.leaving()
				go func() { answer <- i.speakIn(ctx, to, pathOf(to, "m", true), "m") }()
				u.say(t, beginning(from))
				s := &silent{name: t.Name(), to: to, l: <-answer}
				s.until(t, "walrus ")
				more := map[string]string{claude: strings.Replace(evDelta, "walrus ", "otter ", 1), chat: textChunk("otter "),
					responses: strings.NewReplacer("walrus ", "otter ", `_number":3`, `_number":4`).Replace(respDelta), gemini: geminiEvent(strings.Replace(geminiFirst, "walrus ", "otter ", 1))}
				u.say(t, more[from])
				s.until(t, "otter ")
				leave()
				<-u.gone
				eventually(t, "the journal's line", func() bool { return len(i.records("")) == 1 })
				if rec := i.records("")[0]; rec.Outcome != "cancelled" || rec.InputTokens < 1 || rec.OutputTokens < 1 || !rec.Estimated {
					t.Errorf("journal: %s, %v, estimated %t", rec.Outcome, costsOf(rec), rec.Estimated)
				}
				i.untouched(k1)
			})
		}
	}
}

// USE-012: who leaves before the figures come is charged an estimate all the same: the day's limit blocks.
func TestUSE012InEachDialect(t *testing.T) {
	t.Parallel()
	for _, from := range allDialects() {
		for _, to := range allDialects() {
			t.Run(from+" to "+to, func(t *testing.T) {
				t.Parallel()
				p, url := strict(t, "far", from)
				p.Always(demo.Step{Text: strings.Repeat("walrus ", 40), Hold: demo.HoldAt(firstDelta(from) + 8)})
				i := start(t, poolOf(protocolKey(k1, from, url, `"daily_limit_tokens":40`)))
				left := 0
				for left < 20 {
					ctx, leave := i.leaving()
					l := i.speakIn(ctx, to, pathOf(to, modelOf(from), true), modelOf(from))
					if l.status == 429 {
						leave()
						break
					}
					(&silent{name: t.Name(), l: l}).until(t, "walrus ")
					leave()
					left++
					await(t, "the end of the request", func() bool { return i.server.proxy.InFlight() == 0 })
				}
				if left > 6 {
					t.Errorf("%d requests were let in", left)
				}
			})
		}
	}
}

// RET-030: an answer that reached its length is a whole one, in each dialect's word, and no reason to try again.
func TestRET030LengthInEachDialect(t *testing.T) {
	t.Parallel()
	word := map[string]string{claude: "max_tokens", chat: "length", responses: "max_output_tokens", gemini: "MAX_TOKENS"}
	for _, from := range allDialects() {
		for _, to := range allDialects() {
			for _, stream := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s to %s/stream %t", from, to, stream), func(t *testing.T) {
					t.Parallel()
					p, url := strict(t, "far", from)
					p.Always(demo.Step{Text: answerText, StopReason: "max_tokens", Usage: demo.Usage{Input: 10, Output: 20}})
					i := start(t, poolOf(protocolKey(k1, from, url), protocolKey(k2, from, url)))
					r := i.say(to, modelOf(from), stream)
					if s := understand(t, to, r.body, stream); r.status != 200 || s.finish != word[to] || s.text != answerText || s.fault != "" {
						t.Errorf("status %d, %+v: %s", r.status, s, r.body)
					}
					if rec := i.record(r.trace()); rec.Outcome != "ok" || len(rec.Attempts) != 1 || rec.Key != k1 || rec.StopReason == "" || strings.Contains(rec.StopReason, "assumed") {
						t.Errorf("journal: %s, stop %q", rec.Outcome, rec.StopReason)
					}
					i.untouched(k1)
				})
			}
		}
	}
}

// SSE-031: a stream that never says why it ended ends well for clients of other dialects, and the journal says that the
// reason was assumed; half a call is incomplete.
func TestSSE031ReasonsAssumedOnConversion(t *testing.T) {
	t.Parallel()
	half := chunk(`{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"a\":1"}}]}`, "null")
	rest := chunk(`{"tool_calls":[{"index":0,"function":{"arguments":"}"}}]}`, "null")
	for _, c := range []struct {
		name, from, text string
		finish           map[string]string
		calls            int
	}{
		{"text", chat, chatBegin + chatDone, map[string]string{claude: "end_turn", responses: "completed", gemini: "STOP"}, 0},
		{"bulk alone", chat, chatText + chatText + chatDone, map[string]string{claude: "end_turn", responses: "completed", gemini: "STOP"}, 0},
		{"a whole call", chat, chatRole + half + rest + chatDone, map[string]string{claude: "tool_use", responses: "completed", gemini: "STOP"}, 1},
		{"half a call", chat, chatBegin + half + chatDone, map[string]string{claude: "max_tokens", responses: "max_output_tokens", gemini: "MAX_TOKENS"}, -1},
		{"text", gemini, geminiEvent(geminiFirst), map[string]string{claude: "end_turn", chat: "stop", responses: "completed"}, 0},
	} {
		for to, finish := range c.finish {
			t.Run(c.from+" "+c.name+" to "+to, func(t *testing.T) {
				t.Parallel()
				i := start(t, poolOf(protocolKey(k1, c.from, newBackend(t, pours(c.text)).URL)))
				r := i.say(to, "m", true, toolsOf(to))
				s := understand(t, to, r.body, true)
				if r.err != nil || s.fault != "" || s.ends != 1 || s.finish != finish || c.calls >= 0 && len(s.tools) != c.calls {
					t.Errorf("%v, %+v: %s", r.err, s, r.body)
				}
				if rec := i.record(r.trace()); rec.Outcome != "ok" || !strings.HasSuffix(rec.StopReason, " (assumed)") {
					t.Errorf("journal: %s, stop %q", rec.Outcome, rec.StopReason)
				}
				i.untouched(k1)
			})
		}
	}
}

// SSE-030, USE-010: usage behind the finish chunk is told at the one end.
func TestSSE030USE010LateUsage(t *testing.T) {
	t.Parallel()
	for _, to := range []string{claude, responses, gemini} {
		for name, text := range map[string]string{
			"behind":    chatAll,
			"twice":     chatBegin + chunk(`{}`, `"stop"`, `"usage":{"prompt_tokens":1,"completion_tokens":1}`) + chatLast + chatDone,
			"no [DONE]": chatBegin + chatStop + chatLast,
		} {
			t.Run(to+" "+name, func(t *testing.T) {
				t.Parallel()
				i := start(t, poolOf(protocolKey(k1, chat, newBackend(t, pours(text)).URL)))
				r := i.say(to, "m", true)
				if s := understand(t, to, r.body, true); s.ends != 1 || s.prompt != 100 || s.cached != 90 || s.output != 40 || s.thought != 30 && to != claude {
					t.Errorf("%+v: %s", s, r.body)
				}
				if n := strings.Count(r.body, "event: message_delta"); to == claude && n != 1 {
					t.Errorf("%d times message_delta", n)
				}
				if rec := i.record(r.trace()); costsOf(rec) != usual || rec.Estimated {
					t.Errorf("journal: %v", costsOf(rec))
				}
			})
		}
	}
}

// RET-018: OpenAI's own 401 is a credential's fault though its type says invalid_request_error; a 401 that names no
// credential is the request's.
func TestRET018CredentialsOfOpenAI(t *testing.T) {
	t.Parallel()
	for _, dialect := range []string{chat, responses} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/stream %t", dialect, stream), func(t *testing.T) {
				t.Parallel()
				_, two := strict(t, "two", dialect)
				wrong := newBackend(t, says(401, `{"error":{"message":"Incorrect API key provided: sk-a***b.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`))
				i := start(t, poolOf(protocolKey(k1, dialect, wrong.URL), protocolKey(k2, dialect, two)))
				for range 2 {
					if r := i.say(dialect, "m", stream); r.status != 200 || i.servedBy(r) != k2 {
						t.Errorf("status %d by %s: %s", r.status, i.servedBy(r), r.body)
					}
				}
				if k := i.keys()[k1]; k.State != "cooling" || k.Reason != "credential" || len(wrong.requests()) != 1 {
					t.Errorf("%+v", k)
				}
				fault := newBackend(t, says(401, `{"error":{"message":"Invalid request parameter","type":"invalid_request_error"}}`))
				i = start(t, poolOf(protocolKey(k1, dialect, fault.URL), protocolKey(k2, dialect, two)))
				if r := i.say(dialect, "m", stream); r.status == 200 || r.status == http.StatusUnauthorized {
					t.Errorf("status %d: %s", r.status, r.body)
				}
				i.untouched(k1, k2)
			})
		}
	}
}

// SSE-019: long lines arrive whole in each dialect, and the figures behind them are read.
func TestSSE019LongEventsInEachDialect(t *testing.T) {
	t.Parallel()
	for _, size := range []int{70 << 10, 1200 << 10} {
		long := strings.Repeat("w", size)
		for _, from := range allDialects() {
			for _, to := range allDialects() {
				t.Run(fmt.Sprintf("%s to %s %d", from, to, size), func(t *testing.T) {
					t.Parallel()
					text := strings.ReplaceAll(wholeStream(from), "walrus ", long)
					i := start(t, poolOf(protocolKey(k1, from, newBackend(t, pours(text)).URL)))
					r := i.say(to, "m", true)
					if s := understand(t, to, r.body, true); r.err != nil || s.fault != "" || s.ends != 1 || !strings.HasPrefix(s.text, long) {
						t.Errorf("%v, %d bytes of text, fault %q", r.err, len(s.text), s.fault)
					}
					if from == to && r.body != text {
						t.Errorf("raw: %s", differ(r.body, text))
					}
					want := usual
					if from == claude {
						want = costs{10, 7, 0, 0, 0}
					}
					if rec := i.record(r.trace()); rec.Outcome != "ok" || costsOf(rec) != want || rec.Estimated {
						t.Errorf("journal: %s, %v", rec.Outcome, costsOf(rec))
					}
				})
			}
		}
	}
	t.Run("Gemini array", func(t *testing.T) {
		t.Parallel()
		text := strings.ReplaceAll(geminiArray, "walrus ", strings.Repeat("w", 300<<10))
		i := start(t, poolOf(protocolKey(k1, gemini, newBackend(t, pours(text)).URL)))
		r := i.send(gemini, "/v1beta/models/m:streamGenerateContent", bodyOf(gemini, "m", true))
		if rec := i.record(r.trace()); r.body != text || rec.Outcome != "ok" || costsOf(rec) != usual {
			t.Errorf("%s, %v: %s", rec.Outcome, costsOf(rec), differ(r.body, text))
		}
	})
}

// An error body under 200 is that error: the next key is asked, and the client hears it where none is left.
func TestErrorUnderPlain200InEachDialect(t *testing.T) {
	t.Parallel()
	bodies := map[string]string{
		claude: failure("overloaded_error", "told so"), chat: `{"error":{"message":"told so","type":"server_error","param":null,"code":"server_is_overloaded"}}`,
		responses: `{"error":{"message":"told so","type":"server_error","param":null,"code":"server_is_overloaded"}}`, gemini: `{"error":{"code":503,"message":"told so","status":"UNAVAILABLE"}}`,
	}
	for _, from := range allDialects() {
		for _, to := range allDialects() {
			for _, stream := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s to %s/stream %t", from, to, stream), func(t *testing.T) {
					t.Parallel()
					b := newBackend(t, says(200, bodies[from]))
					_, two := strict(t, "two", from)
					i := start(t, poolOf(protocolKey(k1, from, b.URL), protocolKey(k2, from, two)))
					if r := i.say(to, modelOf(from), stream); r.status != 200 || i.servedBy(r) != k2 || understand(t, to, r.body, stream).text != answerText {
						t.Errorf("status %d by %s: %s", r.status, i.servedBy(r), r.body)
					}
					i = start(t, poolOf(protocolKey(k1, from, b.URL)))
					r := i.say(to, modelOf(from), stream)
					status := 503
					if from == claude {
						status = statusIn(to, 529)
					}
					if f := i.refusalIn(to, r); r.status != status || f.message != "told so" {
						t.Errorf("alone: status %d: %s", r.status, r.body)
					}
				})
			}
		}
	}
}

// Failed responses in a plain body are failures, too (Responses: status failed).
func TestFailedPlainResponse(t *testing.T) {
	t.Parallel()
	failed := strings.Replace(responseOf("failed", ""), `"error":null`, `"error":{"code":"server_is_overloaded","message":"told so"}`, 1)
	for _, to := range allDialects() {
		t.Run(to, func(t *testing.T) {
			t.Parallel()
			b := newBackend(t, says(200, failed))
			_, two := strict(t, "two", responses)
			i := start(t, poolOf(protocolKey(k1, responses, b.URL), protocolKey(k2, responses, two)))
			if r := i.say(to, "gpt-5.5", false); r.status != 200 || i.servedBy(r) != k2 || understand(t, to, r.body, false).text != answerText {
				t.Errorf("status %d by %s: %s", r.status, i.servedBy(r), r.body)
			}
		})
	}
}

// SSE-019: OpenAI repeats instructions, tools and the whole output in the first and the last event of a response, and a
// chunk of Gemini's may hold an image: however long, they are understood.
func TestSSE019LongTerminalEvents(t *testing.T) {
	t.Parallel()
	echo := `,"instructions":"` + strings.Repeat("i", 200<<10) + `"`
	longer := strings.NewReplacer(`"object":"response"`, `"object":"response"`+echo)
	image := fmt.Sprintf(`{"candidates": [{"content": {"parts": [{"inlineData": {"mimeType": "image/png","data": %q}}],"role": "model"},"finishReason": "STOP"}],"usageMetadata": {%s}}`,
		strings.Repeat("QUJD", 60<<10), geminiFigures)
	rawStreams(t, []rawCase{
		{name: "completed", dialect: responses, text: respBegin + respEnd + longer.Replace(respDone), stop: "completed", costs: usual},
		{name: "created and completed", dialect: responses, text: longer.Replace(respAll), stop: "completed", costs: usual},
		{name: "an image", dialect: gemini, text: geminiEvent(geminiFirst) + geminiEvent(image), stop: "STOP", costs: usual},
		{name: "an image alone", dialect: gemini, text: geminiEvent(image), stop: "STOP", costs: usual},
	}, false)
	t.Run("failed behind a long created", func(t *testing.T) {
		t.Parallel()
		failed := responseEvent("response.failed", 1, `"response":`+strings.Replace(responseOf("failed", ""), `"error":null`, `"error":{"code":"server_is_overloaded","message":"told so"}`, 1))
		_, two := strict(t, "two", responses)
		i := start(t, poolOf(protocolKey(k1, responses, newBackend(t, pours(longer.Replace(respCreated), longer.Replace(failed))).URL), protocolKey(k2, responses, two)))
		if r := i.say(responses, "m", true); i.servedBy(r) != k2 {
			t.Errorf("served by %s: %.200q", i.servedBy(r), r.body)
		}
	})
	t.Run("broken behind a long created", func(t *testing.T) {
		t.Parallel()
		i := start(t, poolOf(protocolKey(k1, responses, newBackend(t, pours(longer.Replace(respBegin))).URL)))
		brokenEnd(t, responses, i.say(responses, "m", true))
	})
	t.Run("KEY-022 the id is known", func(t *testing.T) {
		t.Parallel()
		b := newBackend(t, func(w http.ResponseWriter, r *http.Request, _ int) {
			if r.Method == http.MethodGet {
				say(w, 200, respPlain)
				return
			}
			pour(w, longer.Replace(respAll))
		})
		i := start(t, turns(protocolKey(k1, responses, b.URL), protocolKey(k2, responses, b.URL)))
		i.say(responses, "m", true)
		if r := i.ask("GET", "/v1/responses/resp_1", ""); r.status != 200 || r.body != respPlain {
			t.Errorf("status %d: %s", r.status, r.body)
		}
	})
}
