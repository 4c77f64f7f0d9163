package daemon

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// A key that passes on the client's own credential is asked by clients of its own dialect alone: what the others hold is
// another provider's.
func TestPassthroughIsOfOneDialect(t *testing.T) {
	t.Parallel()
	b := newBackend(t, says(200, whole))
	i := start(t, poolOf(passthroughKey(k1, b.URL)))
	for dialect, header := range map[string]string{gemini: "x-goog-api-key: AIza-of-the-client", chat: "authorization: Bearer sk-of-the-client", responses: "authorization: Bearer sk-of-the-client"} {
		f := i.refuses(dialect, i.sayWith(dialect, []string{header}, sonnet, false), 400, "invalid_request_error")
		if !strings.Contains(f.message, "credential") || strings.Contains(f.message, "of-the-client") {
			t.Errorf("%s: %s", dialect, f.message)
		}
	}
	if n := len(b.requests()); n != 0 {
		t.Errorf("%d requests went upstream", n)
	}
	p, url := strict(t, "own", chat)
	i = start(t, poolOf(passthroughKey(k1, b.URL), protocolKey(k2, chat, url)))
	if r := i.sayWith(chat, []string{"authorization: Bearer sk-of-the-client"}, sonnet, false); r.status != 200 || i.servedBy(r) != k2 || strings.Contains(p.Requests()[0].Header.Get("Authorization"), "of-the-client") {
		t.Errorf("status %d: %s", r.status, r.body)
	}
}

// That a provider refuses our key is nothing that the client could mend, also where it says so inside a 200: one that gets
// 401 or 403 signs its user out.
func TestRefusedKeyInsideAnAnswer(t *testing.T) {
	t.Parallel()
	for dialect, body := range map[string]string{
		claude:    `{"type":"error","error":{"type":"authentication_error","message":"invalid key"}}`,
		chat:      `{"error":{"message":"bad key","type":"invalid_request_error","code":"invalid_api_key"}}`,
		responses: `{"error":{"message":"bad key","type":"invalid_request_error","code":"invalid_api_key"}}`,
		gemini:    `{"error":{"code":403,"message":"denied","status":"PERMISSION_DENIED"}}`,
	} {
		for _, stream := range []bool{false, true} {
			for _, client := range []string{dialect, chat, claude} {
				t.Run(fmt.Sprintf("%s to %s, stream %v", client, dialect, stream), func(t *testing.T) {
					t.Parallel()
					answer := says(200, body)
					if stream {
						answer = pours("event: error\ndata: " + body + "\n\n")
					}
					i := start(t, poolOf(protocolKey(k1, dialect, newBackend(t, answer).URL)))
					if r := i.say(client, modelOf(dialect), stream); r.status != 503 || !strings.Contains(r.body, "upstream credential rejected") {
						t.Errorf("status %d: %s", r.status, r.body)
					}
				})
			}
		}
	}
}

// Calls without tokens cost none, pictures and vectors are not text, and what is read again was counted when it was made.
func TestWhatPassedThroughCosts(t *testing.T) {
	t.Parallel()
	words := strings.Repeat("zebra ", 1000)
	for _, c := range []struct {
		name, protocol, path, body, answer string
		input                              bool // is estimated
	}{
		{"a picture", chat, "/v1/images/generations", `{"model":"m","prompt":"` + words + `"}`, `{"created":1,"data":[{"b64_json":"` + strings.Repeat("A", 1<<20) + `"}]}`, true},
		{"a vector", gemini, "/v1beta/models/e:embedContent", `{"content":{"parts":[{"text":"` + words + `"}]}}`, `{"embedding":{"values":[` + strings.Repeat("0.0123456,", 3071) + `0.1]}}`, true},
		{"a count", responses, "/v1/responses/input_tokens", `{"model":"m","input":"` + words + `"}`, `{"object":"response.input_tokens","input_tokens":11}`, false},
		{"a moderation", chat, "/v1/moderations", `{"model":"m","input":"` + words + `"}`, `{"id":"modr-1","model":"m","results":[{"flagged":false}]}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			i := start(t, poolOf(protocolKey(k1, c.protocol, newBackend(t, says(200, c.answer)).URL)))
			r := i.ask("POST", c.path, c.body, "Content-Type: application/json")
			rec := i.record(r.trace())
			if r.status != 200 || rec.OutputTokens != 0 || rec.InputTokens > 0 != c.input || rec.Estimated != c.input {
				t.Errorf("status %d, journal %+v", r.status, rec)
			}
			if today := i.keys()[k1].Today.Used; today != rec.InputTokens {
				t.Errorf("counted %d of %d", today, rec.InputTokens)
			}
		})
	}
	t.Run("a stored answer", func(t *testing.T) {
		t.Parallel()
		_, url := strict(t, "one", responses)
		i := start(t, twoCallers(), turns(protocolKey(k1, responses, url)))
		id, _ := i.answerID(1, false)
		before := i.keys()[k1].Today.Used
		for range 3 {
			if r := i.ask("GET", "/v1/responses/"+id, "", shows(1)); r.status != 200 {
				t.Fatalf("status %d", r.status)
			}
		}
		if after := i.keys()[k1].Today.Used; before == 0 || after != before {
			t.Errorf("%d tokens, then %d", before, after)
		}
	})
}

// endless writes head and then text for as long as somebody takes it, at most 100 MiB; it tells how much went.
func endless(head string, sent chan<- int) func(http.ResponseWriter, *http.Request, int) {
	return func(w http.ResponseWriter, _ *http.Request, _ int) {
		if !strings.HasPrefix(head, "{") {
			w.Header().Set("Content-Type", "text/event-stream")
		} else {
			w.Header().Set("Content-Type", "application/json")
		}
		_, _ = io.WriteString(w, head)
		chunk, total := strings.Repeat("a", 1<<20), 0
		for range 100 {
			n, err := io.WriteString(w, chunk)
			total += n
			if err != nil {
				break
			}
		}
		sent <- total
	}
}

// No answer is held beyond its bounds, and what is cut off is no clean end.
func TestAnswersWithoutEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("moves 200 MiB")
	}
	t.Parallel()
	const most = 64 << 20 // what is held, and what is on its way
	t.Run("plain and converted", func(t *testing.T) {
		t.Parallel()
		sent := make(chan int, 1)
		b := newBackend(t, endless(`{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"`, sent))
		i := start(t, poolOf(poolKey(k1, b.URL)))
		if r := i.say(chat, sonnet, false); r.status != 502 {
			t.Errorf("status %d", r.status)
		}
		if n := <-sent; n > most {
			t.Errorf("%d bytes were taken", n)
		}
	})
	for _, dialect := range []string{chat, responses} {
		t.Run("an event of "+dialect, func(t *testing.T) {
			t.Parallel()
			sent := make(chan int, 1)
			first := map[string]string{
				chat: `data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":"walrus"}}]}` + "\n\n" +
					`data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"`,
				responses: respBegin + `event: response.output_text.delta` + "\n" + `data: {"type":"response.output_text.delta","delta":"`,
			}[dialect]
			i := start(t, poolOf(protocolKey(k1, dialect, newBackend(t, endless(first, sent)).URL)))
			r := i.say(dialect, modelOf(dialect), true)
			if n := <-sent; n > most {
				t.Errorf("%d bytes were taken", n)
			}
			if end := r.body[max(0, len(r.body)-2000):]; r.err == nil && !strings.Contains(end, "too long") {
				t.Errorf("a clean end: %s", end)
			}
			if rec := i.record(r.trace()); rec.Outcome != "broken" {
				t.Errorf("journal: %s", rec.Outcome)
			}
		})
	}
}

// Keys that a request cannot go to are no attempts.
func TestBarredKeysAreNoAttempts(t *testing.T) {
	t.Parallel()
	far, farURL := strict(t, "far", claude)
	_, nearURL := strict(t, "near", chat)
	var keys []string
	for n := range 8 {
		keys = append(keys, protocolKey(fmt.Sprintf("far-%d", n), claude, farURL))
	}
	i := start(t, `"failover":{"max_attempts":2}`, poolOf(append(keys, protocolKey(k2, chat, nearURL))...))
	r := i.say(chat, "gpt-5.5", false, `"n":2`)
	if r.status != 200 || i.servedBy(r) != k2 || len(far.Requests()) != 0 {
		t.Errorf("status %d: %s", r.status, r.body)
	}
	if rec := i.record(r.trace()); len(rec.Attempts) != 1 || len(rec.Skipped) != 8 || rec.Skipped[0].Gate != "conversion" {
		t.Errorf("journal: %+v", rec)
	}
}

// A mapping that takes any name takes none where the request has none.
func TestStoredAnswerAndCatchAll(t *testing.T) {
	t.Parallel()
	_, url := strict(t, "one", responses)
	i := start(t, twoCallers(), `"model_mapping":[{"pattern":"gpt-5.5","target":"gpt-5.5"},{"pattern":"*","target":"other"}]`,
		turns(protocolKey(k1, responses, url, `"models":{"gpt-5.5":"gpt-5.5"}`)))
	id, _ := i.answerID(1, false)
	r := i.ask("GET", "/v1/responses/"+id, "", shows(1))
	if rec := i.record(r.trace()); r.status != 200 || rec.Resolved != "" {
		t.Errorf("status %d, resolved %q: %s", r.status, rec.Resolved, r.body)
	}
}

// What was asked of whom stands in the journal, also where the client did not wait for the end, or was refused.
func TestJournalOfWhatDidNotEnd(t *testing.T) {
	t.Parallel()
	t.Run("a whole answer that is not waited for", func(t *testing.T) {
		t.Parallel()
		begun := make(chan struct{})
		b := newBackend(t, func(w http.ResponseWriter, r *http.Request, _ int) {
			w.Header().Set("Content-Type", "application/json")
			pour(w, whole[:len(whole)/2])
			close(begun)
			hang(r)
		})
		i := start(t, poolOf(poolKey(k1, b.URL)))
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-begun; cancel() }()
		req := i.request(ctx, "POST", "/v1/chat/completions", strings.NewReader(bodyOf(chat, sonnet, false)), nil)
		if resp, err := i.transport.RoundTrip(req); err == nil {
			t.Fatalf("status %d", resp.StatusCode)
		}
		eventually(t, "the journal's line", func() bool { return len(i.records("")) > 0 })
		if rec := i.records("")[0]; rec.Outcome != "cancelled" || len(rec.Attempts) != 1 || rec.Attempts[0].Key != k1 {
			t.Errorf("%+v", rec)
		}
		if n := i.keys()[k1].InFlight; n != 0 {
			t.Errorf("%d in flight", n)
		}
	})
	t.Run("what a refused request lost", func(t *testing.T) {
		t.Parallel()
		b := newBackend(t, says(400, `{"type":"error","error":{"type":"invalid_request_error","message":"no"}}`))
		i := start(t, poolOf(poolKey(k1, b.URL)))
		r := i.say(chat, sonnet, false, `"logit_bias":{"1":2},"seed":7`)
		dropped := strings.Split(r.header.Get("X-Proxy-Dropped"), ",")
		if rec := i.record(r.trace()); r.status != 400 || len(dropped) != 2 || !slices.Equal(rec.Dropped, dropped) {
			t.Errorf("status %d, told %q, journal %q", r.status, dropped, rec.Dropped)
		}
	})
}

// Names that clients invent are not repeated in the journal, however many there are.
func TestInventedNames(t *testing.T) {
	t.Parallel()
	var more []string
	for n := range 3000 {
		more = append(more, fmt.Sprintf(`"what I told my doctor %d":1`, n))
	}
	for _, dialect := range allDialects() {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			to := claude
			if dialect == claude {
				to = chat
			}
			_, url := strict(t, "far", to)
			i := start(t, poolOf(protocolKey(k1, to, url)))
			r := i.say(dialect, modelOf(dialect), false, more...)
			rec := i.record(r.trace())
			if r.status != 200 || len(rec.Dropped) == 0 || len(rec.Dropped) > 100 || strings.Contains(strings.Join(rec.Dropped, ""), "doctor") || strings.Contains(r.header.Get("X-Proxy-Dropped"), "doctor") {
				t.Errorf("status %d: %d names, %q", r.status, len(rec.Dropped), rec.Dropped[:min(3, len(rec.Dropped))])
			}
		})
	}
}

// The dry run knows the dialects, and says where an answer would be converted.
func TestRouteOfADialect(t *testing.T) {
	t.Parallel()
	_, url := strict(t, "one", chat)
	i := start(t, poolOf(protocolKey(k1, chat, url)))
	for dialect, want := range map[string]bool{"": true, claude: true, chat: false, gemini: true} {
		_, body := i.admin("GET", "/admin/route?model=gpt-5.5&dialect="+dialect)
		if answer, _ := body["answer"].(map[string]any); answer["converted"] != want {
			t.Errorf("%q: %v", dialect, body)
		}
	}
	if status, body := i.admin("GET", "/admin/route?model=gpt-5.5&dialect=fifth"); status != 400 {
		t.Errorf("status %d: %v", status, body)
	}
}

// What asking for a stored answer too often says is nothing of the models.
func TestStoredAnswerAskedTooOften(t *testing.T) {
	t.Parallel()
	b := newBackend(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		if r.Method == http.MethodGet {
			say(w, 429, `{"error":{"message":"slow down","type":"rate_limit_error","code":"rate_limit_exceeded"}}`)
			return
		}
		say(w, 200, respPlain)
	})
	i := start(t, poolOf(protocolKey(k1, responses, b.URL)))
	for range 2 {
		if r := i.say(responses, "gpt-5.5", false); r.status != 200 {
			t.Fatalf("status %d: %s", r.status, r.body)
		}
		if r := i.ask("GET", "/v1/responses/resp_1", ""); r.status != 429 {
			t.Errorf("GET: status %d: %s", r.status, r.body)
		}
	}
	if state := i.keys()[k1].State; state != "ready" {
		t.Errorf("the key is %s", state)
	}
}

// No credential of the client's goes to a provider but the one that a passthrough key passes on, and never one of ours.
func TestForeignCredentials(t *testing.T) {
	t.Parallel()
	const admin, azure = "admin-key-of-mine-1234", "azure-key-of-the-client"
	b := newBackend(t, says(200, chatPlain))
	i := start(t, poolOf(protocolKey(k1, chat, b.URL)))
	if r := i.sayWith(chat, []string{"api-key: " + azure}, "gpt-5.5", false); r.status != 200 || strings.Contains(b.only(t).text(), azure) {
		t.Errorf("status %d", r.status)
	}
	b = newBackend(t, says(200, whole))
	i = start(t, fmt.Sprintf(`"auth":{"admin_key":%q,"request_keys":[{"code":"a","api_key":%q}]}`, admin, requestKey), poolOf(passthroughKey(k1, b.URL)))
	for _, header := range []string{"authorization: Bearer " + admin, "x-api-key: " + admin} {
		if r := i.message(question(sonnet), version, "x-proxy-key: "+requestKey, header); r.status != 200 {
			t.Errorf("status %d: %s", r.status, r.body)
		}
	}
	for _, q := range b.requests() {
		if strings.Contains(q.text(), admin) {
			t.Error("the admin key went upstream")
		}
	}
}

// What other origins' pages ask for as pictures and the like is not answered: each look may cost a request upstream.
func TestPicturesOfOtherOrigins(t *testing.T) {
	t.Parallel()
	_, url := strict(t, "one", chat)
	i := start(t, poolOf(protocolKey(k1, chat, url)))
	for header, want := range map[string]int{"cross-site no-cors": 403, "cross-site navigate": 200, "same-origin cors": 200, "none navigate": 200, "": 200} {
		var headers []string
		if site, mode, ok := strings.Cut(header, " "); ok {
			headers = []string{"Sec-Fetch-Site: " + site, "Sec-Fetch-Mode: " + mode}
		}
		for _, path := range []string{"/stats", "/api/pool/stats"} {
			if r := i.ask("GET", path, "", headers...); r.status != want {
				t.Errorf("%s %q: status %d, want %d", path, header, r.status, want)
			}
		}
	}
}
