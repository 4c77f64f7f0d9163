package daemon

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"coding-proxy/proxy/demo"
)

// toolsOf declares the tool f in a dialect.
func toolsOf(dialect string) string {
	const schema = `{"type":"object","properties":{"a":{"type":"integer"}}}`
	switch dialect {
	case claude:
		return `"tools":[{"name":"f","input_schema":` + schema + `}]`
	case chat:
		return `"tools":[{"type":"function","function":{"name":"f","parameters":` + schema + `}}]`
	case responses:
		return `"tools":[{"type":"function","name":"f","parameters":` + schema + `}]`
	}
	return `"tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":"OBJECT","properties":{"a":{"type":"INTEGER"}}}}]}]`
}

// eachPair runs a test for each client of one dialect at a provider of another.
func eachPair(t *testing.T, run func(t *testing.T, to, from string, stream bool)) {
	t.Helper()
	for _, to := range allDialects() {
		for _, from := range allDialects() {
			for _, stream := range []bool{false, true} {
				if to != from {
					t.Run(fmt.Sprintf("%s at %s/stream %t", to, from, stream), func(t *testing.T) {
						t.Parallel()
						run(t, to, from, stream)
					})
				}
			}
		}
	}
}

// toolFinish is the word with which a dialect ends an answer that calls tools.
func toolFinish(dialect string) string {
	return map[string]string{claude: "tool_use", chat: "tool_calls", responses: "completed", gemini: "STOP"}[dialect]
}

// A client of each dialect is served by a provider of each other: text, calls and figures are the same in the answer and
// in the journal (USE-002, USE-005, USE-008, USE-011).
func TestConverts(t *testing.T) {
	t.Parallel()
	eachPair(t, func(t *testing.T, to, from string, stream bool) {
		p, url := strict(t, "far", from)
		p.Always(demo.Step{Text: "walrus speaks", Tools: []demo.Tool{{Name: "f", Input: []byte(`{"a":9007199254740993}`)}, {Name: "f", Input: []byte(`{"a":2}`)}},
			Usage: demo.Usage{Input: 100, Output: 40, CacheRead: 60, Reasoning: 15}})
		i := start(t, poolOf(protocolKey(k1, from, url)))
		more := []string{toolsOf(to)}
		if to == chat && stream {
			more = append(more, `"stream_options":{"include_usage":true}`)
		}
		r := i.say(to, modelOf(from), stream, more...)
		if r.status != 200 || r.err != nil {
			t.Fatalf("status %d, %v: %s", r.status, r.err, r.body)
		}
		want := "application/json"
		if stream {
			want = "text/event-stream; charset=utf-8"
		}
		if got := r.header.Get("Content-Type"); got != want || r.header.Get("X-Proxy-Tier") == "" || r.header.Get("X-Proxy-Attempts") != "1" || r.header.Get("X-Proxy-Dropped") != "" {
			t.Errorf("headers %v", r.header)
		}
		s := understand(t, to, r.body, stream)
		if s.text != "walrus speaks" || len(s.tools) != 2 || s.finish != toolFinish(to) || s.ends != 1 || s.fault != "" || s.id == "" || len(s.unknown) > 0 {
			t.Errorf("heard %+v in %s", s, r.body)
		}
		for n, input := range []string{`{"a":9007199254740993}`, `{"a":2}`} {
			if n < len(s.tools) && (s.tools[n].name != "f" || s.tools[n].input != input || s.tools[n].id == "") {
				t.Errorf("call %d: %+v", n, s.tools[n])
			}
		}
		if s.prompt != 160 || s.cached != 60 || s.output != 40 || s.thought != 15 {
			t.Errorf("figures of the answer: %+v", s)
		}
		if most := map[string]int{claude: 2, chat: 1, responses: 1, gemini: 9}[to]; s.usages > most {
			t.Errorf("usage comes %d times", s.usages)
		}
		rec := i.record(r.trace())
		if costsOf(rec) != (costs{100, 40, 0, 60, 15}) || rec.Estimated || rec.Outcome != "ok" || rec.Dialect != to || rec.Upstream != from || rec.Stream != stream || len(rec.Dropped) > 0 {
			t.Errorf("journal: %+v", rec)
		}
		inSequence(t, to, map[bool]string{true: r.body}[stream])
		i.untouched(k1)
	})
}

// USE-002: what was put into a cache is told where the client's dialect has a word for it, and never twice.
func TestUSE002CacheWritten(t *testing.T) {
	t.Parallel()
	eachPair(t, func(t *testing.T, to, from string, stream bool) {
		if from == gemini {
			return // its providers don't say
		}
		p, url := strict(t, "far", from)
		p.Always(demo.Step{Text: answerText, Usage: demo.Usage{Input: 3, Output: 40, CacheRead: 500, CacheCreation: 60}})
		i := start(t, poolOf(protocolKey(k1, from, url)))
		var more []string
		if to == chat && stream {
			more = append(more, `"stream_options":{"include_usage":true}`)
		}
		r := i.say(to, modelOf(from), stream, more...)
		if s := understand(t, to, r.body, stream); s.prompt != 563 || s.cached != 500 || s.output != 40 {
			t.Errorf("figures of the answer: %+v", s)
		}
		if rec := i.record(r.trace()); costsOf(rec) != (costs{3, 40, 60, 500, 0}) {
			t.Errorf("journal: %v", costsOf(rec))
		}
	})
}

// USE-008: usage is counted always; a client of chat hears of it only if it asked.
func TestUSE008UsageOnlyIfAsked(t *testing.T) {
	t.Parallel()
	for _, from := range []string{claude, responses, gemini} {
		for option, want := range map[string]int{`"user":"a"`: 0, `"stream_options":{"include_usage":false}`: 0, `"stream_options":{"include_usage":true}`: 1} {
			t.Run(from+" "+option, func(t *testing.T) {
				t.Parallel()
				p, url := strict(t, "far", from)
				p.Always(demo.Step{Text: answerText, Usage: demo.Usage{Input: 100, Output: 40}})
				i := start(t, poolOf(protocolKey(k1, from, url)))
				r := i.say(chat, modelOf(from), true, option)
				if s := understand(t, chat, r.body, true); s.usages != want {
					t.Errorf("%d usages: %s", s.usages, r.body)
				}
				if strings.Contains(r.body, `"choices":[]`) != (want == 1) {
					t.Errorf("the usage chunk: %s", r.body)
				}
				if rec := i.record(r.trace()); costsOf(rec) != (costs{100, 40, 0, 0, 0}) || rec.Estimated {
					t.Errorf("journal: %v", costsOf(rec))
				}
			})
		}
	}
}

// A provider may answer a plain request with a stream, and a streaming one with a whole answer.
func TestConvertsTheOtherForm(t *testing.T) {
	t.Parallel()
	eachPair(t, func(t *testing.T, to, from string, stream bool) {
		answer := pours(wholeStream(from))
		if stream {
			answer = says(200, plainAnswer(from))
		}
		i := start(t, poolOf(protocolKey(k1, from, newBackend(t, answer).URL)))
		r := i.say(to, modelOf(from), stream)
		if r.status != 200 || r.err != nil {
			t.Fatalf("status %d, %v: %s", r.status, r.err, r.body)
		}
		if got := r.header.Get("Content-Type"); strings.HasPrefix(got, "text/event-stream") != stream {
			t.Errorf("content-type %s", got)
		}
		s := understand(t, to, r.body, stream)
		if !strings.HasPrefix(s.text, "walrus") && !strings.HasPrefix(s.text, "again") || s.ends != 1 || s.fault != "" || s.finish == "" {
			t.Errorf("heard %+v in %s", s, r.body)
		}
		if rec := i.record(r.trace()); rec.Outcome != "ok" || rec.Estimated || rec.OutputTokens == 0 {
			t.Errorf("journal: %+v", rec)
		}
	})
}

// A whole answer that a provider streams and breaks off reaches nobody: the next key is asked.
func TestPlainConvertedAnswerIsWhole(t *testing.T) {
	t.Parallel()
	eachPair(t, func(t *testing.T, to, from string, stream bool) {
		if stream {
			return
		}
		for _, how := range []demo.Break{demo.Cut, demo.End} {
			first, one := strict(t, "one", from)
			first.Push(demo.Step{Text: "walrus walrus", Break: how, After: 1})
			_, two := strict(t, "two", from)
			i := start(t, poolOf(protocolKey(k1, from, one), protocolKey(k2, from, two)))
			r := i.say(to, modelOf(from), false)
			if s := understand(t, to, r.body, false); r.status != 200 || s.text != answerText || i.servedBy(r) != k2 {
				t.Errorf("status %d by %s: %s", r.status, i.servedBy(r), r.body)
			}
		}
		i := start(t, poolOf(protocolKey(k1, from, newBackend(t, pours(beginning(from)[:len(beginning(from))-10])).URL)))
		i.refuses(to, i.say(to, modelOf(from), false), 502, "api_error")
	})
}

// Failover from a provider of the client's dialect to one of another is invisible: a whole answer, once.
func TestFailoverAcrossDialects(t *testing.T) {
	t.Parallel()
	eachPair(t, func(t *testing.T, to, from string, stream bool) {
		near, one := strict(t, "near", to)
		near.Always(demo.Step{Status: 529, Type: "overloaded_error"})
		_, two := strict(t, "far", from)
		i := start(t, `"tiers":[{"name":"near"},{"name":"far","default_model":"`+modelOf(from)+`"}]`,
			poolOf(protocolKey(k1, to, one, `"tier":"near"`), protocolKey(k2, from, two, `"tier":"far"`)))
		r := i.say(to, modelOf(to), stream)
		if r.status != 200 || r.err != nil {
			t.Fatalf("status %d, %v: %s", r.status, r.err, r.body)
		}
		if s := understand(t, to, r.body, stream); s.text != answerText || s.ends != 1 || s.fault != "" {
			t.Errorf("heard %+v in %s", s, r.body)
		}
		rec := i.record(r.trace())
		if rec.Key != k2 || rec.Upstream != from || rec.UpstreamModel != modelOf(from) || rec.Requested != modelOf(to) || len(rec.Attempts) != 2 ||
			r.header.Get("X-Proxy-Tier") != "far" || r.header.Get("X-Proxy-Attempts") != "2" {
			t.Errorf("journal: %+v", rec)
		}
		if !strings.Contains(r.body, modelOf(to)) && to != gemini {
			t.Errorf("the client's name of the model is not in %s", r.body)
		}
	})
}

// What the target cannot say is dropped and named, in a header and in the journal; at a provider of the client's own
// dialect nothing is.
func TestNamesWhatIsDropped(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		to, from string
		more     []string
		names    []string
	}{
		{claude, chat, []string{`"top_k":5`}, []string{"top_k"}},
		{claude, responses, []string{`"top_k":5`, `"context_management":{"edits":[]}`}, []string{"top_k", "context_management"}},
		{claude, gemini, []string{`"context_management":{"edits":[]}`}, []string{"context_management"}},
		{chat, claude, []string{`"seed":7`, `"logit_bias":{"1":2}`}, []string{"seed", "logit_bias"}},
		{chat, responses, []string{`"seed":7`, `"frequency_penalty":0.5`}, []string{"seed", "frequency_penalty"}},
		{chat, gemini, []string{`"logit_bias":{"1":2}`}, []string{"logit_bias"}},
		{responses, claude, []string{`"metadata":{"a":"b"}`, `"truncation":"auto"`}, []string{"metadata", "truncation"}},
		{responses, gemini, []string{`"metadata":{"a":"b"}`}, []string{"metadata"}},
		{gemini, claude, []string{`"generationConfig":{"seed":3}`, `"safetySettings":[]`}, []string{"generationConfig.seed"}},
		{gemini, chat, []string{`"generationConfig":{"topK":3}`}, []string{"generationConfig.topK"}},
		{gemini, responses, []string{`"generationConfig":{"topK":3,"seed":1}`}, []string{"generationConfig.topK", "generationConfig.seed"}},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s at %s/stream %t", c.to, c.from, stream), func(t *testing.T) {
				t.Parallel()
				_, url := strict(t, "far", c.from)
				i := start(t, poolOf(protocolKey(k1, c.from, url)))
				r := i.say(c.to, modelOf(c.from), stream, c.more...)
				if r.status != 200 {
					t.Fatalf("status %d: %s", r.status, r.body)
				}
				dropped, rec := strings.Split(r.header.Get("X-Proxy-Dropped"), ","), i.record(r.trace())
				for _, name := range c.names {
					if !slices.Contains(dropped, name) || !slices.Contains(rec.Dropped, name) {
						t.Errorf("%s is not named: header %q, journal %q", name, dropped, rec.Dropped)
					}
				}
				own := newBackend(t, pours(wholeStream(c.to)))
				i = start(t, poolOf(protocolKey(k1, c.to, own.URL)))
				r = i.say(c.to, modelOf(c.to), true, c.more...)
				if r.status != 200 || r.header.Get("X-Proxy-Dropped") != "" || len(i.record(r.trace()).Dropped) > 0 || own.only(t).body != bodyOf(c.to, modelOf(c.to), true, c.more...) {
					t.Errorf("at its own: status %d, dropped %q, body %s", r.status, r.header.Get("X-Proxy-Dropped"), own.only(t).body)
				}
			})
		}
	}
}

// What cannot be converted is refused with the field's name, unless a provider of the client's own dialect takes it.
func TestRefusesWhatCannotBeConverted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ to, from, more, param string }{
		{chat, claude, `"n":2`, "n"},
		{chat, responses, `"n":2`, "n"},
		{chat, claude, `"logprobs":true`, "logprobs"},
		{chat, claude, `"modalities":["text","audio"],"audio":{"format":"wav","voice":"v"}`, "modalities"},
		{responses, claude, `"conversation":"conv_1"`, "conversation"},
		{responses, chat, `"background":true`, "background"},
		{responses, gemini, `"prompt":{"id":"pmpt_1"}`, "prompt"},
		{claude, chat, `"container":"c_1"`, "container"},
		{claude, responses, `"mcp_servers":[{"type":"url","url":"https://a.test","name":"m"}]`, "mcp_servers"},
		{gemini, claude, `"generationConfig":{"candidateCount":2}`, "generationConfig.candidateCount"},
		{gemini, chat, `"cachedContent":"cachedContents/1"`, "cachedContent"},
	} {
		t.Run(c.to+" at "+c.from+" "+c.param, func(t *testing.T) {
			t.Parallel()
			p, url := strict(t, "far", c.from)
			i := start(t, poolOf(protocolKey(k1, c.from, url)))
			r := i.say(c.to, modelOf(c.from), false, c.more)
			f := i.refusalIn(c.to, r)
			if r.status != 400 || !strings.Contains(f.message, c.param) || (c.to == chat || c.to == responses) && f.param != c.param {
				t.Errorf("status %d: %s", r.status, r.body)
			}
			if n := len(p.Requests()); n != 0 {
				t.Errorf("%d requests went upstream", n)
			}
			i.untouched(k1)
			own := newBackend(t, says(200, plainAnswer(c.to)))
			i = start(t, `"tiers":[{"name":"far","circuit_breaker":{"failure_threshold":1}},{"name":"near"}]`,
				poolOf(protocolKey(k1, c.from, url, `"tier":"far"`), protocolKey(k2, c.to, own.URL, `"tier":"near"`)))
			r = i.say(c.to, modelOf(c.from), false, c.more)
			if r.status != 200 || r.body != plainAnswer(c.to) || i.servedBy(r) != k2 || own.only(t).body != bodyOf(c.to, modelOf(c.from), false, c.more) {
				t.Errorf("status %d by %s: %s", r.status, i.servedBy(r), r.body)
			}
			i.untouched(k1, k2)
		})
	}
}

// HDR-006: flags and fields of one provider do not go on to a tier of another; the first tier gets them unchanged.
func TestHDR006BetasStayWithTheirProvider(t *testing.T) {
	t.Parallel()
	header := []string{"anthropic-beta: context-management-2025-06-27,interleaved-thinking-2025-05-14", "x-stainless-lang: js", "user-agent: claude-cli/2.1 (external)",
		"x-api-key: own-key-of-the-client", "x-app: cli", "openai-organization: org", "accept-language: en"}
	for _, from := range []string{chat, responses, gemini} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/stream %t", from, stream), func(t *testing.T) {
				t.Parallel()
				near := newBackend(t, says(529, failure("overloaded_error", "Overloaded")))
				p, url := strict(t, "far", from)
				i := start(t, `"tiers":[{"name":"near"},{"name":"far","default_model":"`+modelOf(from)+`"}]`,
					poolOf(protocolKey(k1, claude, near.URL, `"tier":"near"`), protocolKey(k2, from, url, `"tier":"far"`)))
				const more = `"context_management":{"edits":[{"type":"clear_tool_uses_20250919"}]}`
				r := i.sayWith(claude, header, sonnet, stream, more)
				if r.status != 200 || i.servedBy(r) != k2 || !strings.Contains(r.header.Get("X-Proxy-Dropped"), "context_management") {
					t.Errorf("status %d by %s, dropped %q: %s", r.status, i.servedBy(r), r.header.Get("X-Proxy-Dropped"), r.body)
				}
				first := near.only(t)
				if first.header.Get("Anthropic-Beta") != "context-management-2025-06-27,interleaved-thinking-2025-05-14" || !strings.Contains(first.body, more) {
					t.Errorf("the first tier got %v, %s", first.header, first.body)
				}
				got := p.Requests()[0]
				for name := range got.Header {
					switch name {
					case "Content-Type", "Content-Length", "Accept", "Accept-Encoding", "User-Agent", "Accept-Language", "Authorization", "X-Goog-Api-Key":
					default:
						t.Errorf("the second tier got the header %s", name)
					}
				}
				if strings.Contains(fmt.Sprint(got.Header)+string(got.Body), "own-key") || strings.Contains(string(got.Body), "context_management") {
					t.Errorf("the second tier got %s", got.Body)
				}
			})
		}
	}
}

// A passthrough key sends what a Gemini client has for its provider, from the header or the path, and no request key.
func TestPassthroughOfGeminiClients(t *testing.T) {
	t.Parallel()
	b := newBackend(t, says(200, geminiLast))
	key := fmt.Sprintf(`{"id":%q,"protocol":"gemini","base_url":%q,"credential":"passthrough"}`, k1, b.URL+"/v1beta")
	open, closed := start(t, poolOf(key)), start(t, oneCaller(), poolOf(key))
	for _, c := range []struct {
		name   string
		from   *instance
		query  string
		header []string
		want   []string
	}{
		{"header", open, "", []string{"x-goog-api-key: AIza-own"}, []string{"AIza-own"}},
		{"path", open, "?key=AIza-own", nil, []string{"AIza-own"}},
		{"path beside a request key", closed, "?key=AIza-own&alt=json", []string{"x-proxy-key: " + requestKey}, []string{"AIza-own"}},
		{"header beside a request key in the path", closed, "?key=" + requestKey, []string{"x-goog-api-key: AIza-own"}, []string{"AIza-own"}},
		{"request key in the path alone", closed, "?key=" + requestKey, nil, nil},
		{"request key in the header alone", closed, "", []string{"x-goog-api-key: " + requestKey}, nil},
		{"both", open, "?key=AIza-two", []string{"x-goog-api-key: AIza-own"}, []string{"AIza-own"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := c.from.in(t).send(gemini, "/v1beta/models/m:generateContent"+c.query, bodyOf(gemini, "", false), c.header...)
			got := b.requests()
			last := got[len(got)-1]
			if r.status != 200 || !slices.Equal(last.header["X-Goog-Api-Key"], c.want) || strings.Contains(last.text(), requestKey) || strings.Contains(last.uri, "key=") {
				t.Errorf("status %d, upstream %s %v", r.status, last.uri, last.header)
			}
		})
	}
}

// Upstream's own headers that mean the same to everybody pass on a converted answer, no others.
func TestHeadersOfConvertedAnswers(t *testing.T) {
	t.Parallel()
	b := newBackend(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		say(w, 200, chatPlain, "X-Request-Id: up-1", "X-Ratelimit-Remaining-Tokens: 5", "Openai-Processing-Ms: 7", "Set-Cookie: a=b", "Server: x", "Etag: y", "Content-Language: en",
			"X-Proxy-Tier: forged", "Content-Type: application/json; charset=latin1")
	})
	i := start(t, poolOf(protocolKey(k1, chat, b.URL)))
	r := i.say(claude, "m", false)
	for name, want := range map[string]string{"X-Request-Id": "up-1", "X-Ratelimit-Remaining-Tokens": "5", "Openai-Processing-Ms": "7", "Set-Cookie": "", "Server": "", "Etag": "",
		"Content-Language": "", "X-Proxy-Tier": "default", "Content-Type": "application/json"} {
		if got := r.header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
