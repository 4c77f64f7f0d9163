package daemon

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"coding-proxy/auth"
	"coding-proxy/proxy"
	"coding-proxy/proxy/demo"
	"coding-proxy/stats"
)

// nextNoon is a local noon from which a clock can be moved forwards.
func nextNoon() *clock {
	y, m, d := time.Now().Date()
	return &clock{time: time.Date(y, m, d+1, 12, 0, 0, 0, time.Local)}
}

// refusedBy is the limit that the journal names for a request, "" for one that was served.
func (i *instance) refusedBy(r *reply) string {
	i.t.Helper()
	rec := i.record(r.trace())
	if r.status == http.StatusOK {
		return ""
	}
	if r.status != http.StatusTooManyRequests || rec.Caller != "laptop" || rec.Outcome != stats.OutcomeError || rec.ErrorType != "rate_limit_error" || len(rec.Skipped) != 1 {
		i.t.Fatalf("status %d: %s; the journal has %+v", r.status, r.body, rec)
	}
	return rec.Skipped[0].Gate
}

// retryAfter is the header in seconds; 0 without one.
func (r *reply) retryAfter() time.Duration {
	s, _ := strconv.Atoi(r.header.Get("Retry-After"))
	return time.Duration(s) * time.Second
}

// The rate of a caller: Retry-After is exact, lists count too, a restart and a reload give no new minute.
func TestCallerRate(t *testing.T) {
	t.Parallel()
	dir, clock := filepath.Join(t.TempDir(), "data"), nextNoon()
	_, url := provider(t)
	members := []string{poolOf(poolKey(k1, url)), oneCaller(`"requests_per_minute":3`)}
	key := "X-Api-Key: " + requestKey
	i := startInAt(t, dir, clock, nil, members...)
	i.good(question(sonnet), key)
	clock.set(clock.now().Add(5 * time.Second))
	if r := i.ask("GET", "/v1/models", "", key); r.status != 200 {
		t.Fatal(r.status, r.body)
	}
	i.good(question(sonnet), key)
	r := i.message(question(sonnet), key)
	if got := i.refusedBy(r); got != auth.LimitRate || r.retryAfter() != 15*time.Second || !strings.Contains(r.body, "3 requests per minute") {
		t.Errorf("%s, %v: %s", got, r.retryAfter(), r.body)
	}
	for range 2 { // the second one is a restart later
		clock.set(clock.now().Add(time.Second))
		if r = i.message(question(sonnet), key); i.refusedBy(r) != auth.LimitRate {
			t.Fatal(r.status)
		}
		i.stop()
		i = startInAt(t, dir, clock, nil, members...)
	}
	if want := 13 * time.Second; r.retryAfter() != want {
		t.Errorf("after a restart: %v, want %v", r.retryAfter(), want)
	}
	clock.set(clock.now().Add(r.retryAfter() - time.Millisecond))
	if r := i.message(question(sonnet), key); i.refusedBy(r) != auth.LimitRate || r.retryAfter() != time.Second {
		t.Errorf("a millisecond early: %d, %v", r.status, r.retryAfter())
	}
	clock.set(clock.now().Add(time.Millisecond))
	i.good(question(sonnet), key)
}

// After a restart the pace is that of the requests that came in: not of those refused before it counts.
func TestCallerRateForgetsTheRefused(t *testing.T) {
	t.Parallel()
	dir, clock := filepath.Join(t.TempDir(), "data"), nextNoon()
	_, url := provider(t)
	members := []string{poolOf(poolKey(k1, url)), oneCaller(`"requests_per_minute":2,"addresses":["127.0.0.1"],"models":["claude-sonnet-*"]`)}
	key := "X-Api-Key: " + requestKey
	i := startInAt(t, dir, clock, nil, members...)
	for range 3 {
		if w := i.come("192.0.2.1:1", "", requestKey); w.Code != 403 {
			t.Fatal(w.Code)
		}
	}
	if r := i.message(question(opus), key, "Content-Type: application/json"); r.status != 403 { // it was looked at, and counts
		t.Fatal(r.status, r.body)
	}
	i.stop()
	i = startInAt(t, dir, clock, nil, members...)
	if r := i.message(question(sonnet), key, "Content-Type: application/json"); r.status != 200 {
		t.Fatalf("%d, %v: %s", r.status, r.retryAfter(), r.body)
	}
	if r := i.message(question(sonnet), key, "Content-Type: application/json"); i.refusedBy(r) != auth.LimitRate {
		t.Errorf("a third one: %d", r.status)
	}
}

// Errors of limits are in the client's dialect.
func TestCallerLimitsInEachDialect(t *testing.T) {
	t.Parallel()
	_, url := strict(t, "all")
	i := start(t, poolOf(polyglotKey(k1, url, nil)), oneCaller(`"requests_per_minute":1`))
	key := "X-Proxy-Key: " + requestKey
	i.good(question(sonnet), key)
	for dialect, want := range map[string]string{
		claude: `{"type":"error","error":{"type":"rate_limit_error"`, chat: `"code":"rate_limit_exceeded"`, responses: `"code":"rate_limit_exceeded"`, gemini: `"status":"RESOURCE_EXHAUSTED"`,
	} {
		r := i.ask("POST", pathOf(dialect, "gemini-2.5-flash", false), bodyOf(dialect, "gemini-2.5-flash", false), key)
		if r.status != 429 || !strings.Contains(strings.ReplaceAll(r.body, ": ", ":"), want) || r.retryAfter() == 0 || r.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %v %s", dialect, r.status, r.header, r.body)
		}
	}
}

// The dry run says what a request would be answered now: that its caller is over a limit, and for how long.
func TestCallerLimitsInTheDryRun(t *testing.T) {
	t.Parallel()
	clock := nextNoon()
	_, url := provider(t)
	i := startAt(t, clock, nil, poolOf(poolKey(k1, url)), oneCaller(`"requests_per_minute":1`))
	ask := func() string {
		r := i.ask("GET", "/admin/route?caller=laptop&model="+sonnet, "", "Authorization: Bearer "+i.instance.Token)
		if r.status != 200 {
			t.Fatal(r.status, r.body)
		}
		return r.body
	}
	for range 2 { // it uses nothing up
		if body := ask(); !strings.Contains(body, `"answer":{"key":"`+k1) {
			t.Fatal(body)
		}
	}
	i.good(question(sonnet), "X-Api-Key: "+requestKey)
	clock.set(clock.now().Add(10*time.Second + time.Millisecond))
	if body := ask(); !strings.Contains(body, `"answer":{"error":"this request key is over its limit of 1 requests per minute","status":429,"retry_after":50}`) || !strings.Contains(body, `"id":"`+k1+`","upstream_model":"`+sonnet+`","gate":null`) {
		t.Error(body)
	}
}

// Tokens and cost of the day and the month: what refuses, until when, and what goes on: lists and counts cost nothing. What was
// used is known after a restart, and a kill.
func TestCallerSpending(t *testing.T) {
	t.Parallel()
	usage := demo.Step{Text: answerText, Usage: demo.Usage{Input: 100, Output: 50, CacheCreation: 20, CacheRead: 300}} // 200 weighted
	for name, c := range map[string]struct {
		limit, gate string
		requests    int // that pass
		monthly     bool
	}{
		"day":   {`"daily_limit_tokens":400`, auth.LimitDay, 2, false},
		"month": {`"monthly_limit_tokens":601`, auth.LimitMonth, 4, true},
		"cost":  {`"daily_limit_usd":0.01`, auth.LimitCost, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, clock := filepath.Join(t.TempDir(), "data"), nextNoon()
			p, url := provider(t)
			p.Always(usage)
			members := []string{poolOf(poolKey(k1, url)), oneCaller(c.limit),
				`"pricing":[{"pattern":"claude-*","input":10,"output":100,"cache_write":10,"cache_read":1}]`} // 0.0065 USD a request
			key := "X-Api-Key: " + requestKey
			i := startInAt(t, dir, clock, nil, members...)
			for range c.requests {
				i.good(question(sonnet), key)
			}
			now := clock.now()
			y, m, d := now.Date()
			end := time.Date(y, m, d+1, 0, 0, 0, 0, time.Local)
			if c.monthly {
				end = time.Date(y, m+1, 1, 0, 0, 0, 0, time.Local)
			}
			for restart := range 2 {
				r := i.message(question(sonnet), key)
				if got := i.refusedBy(r); got != c.gate || r.retryAfter() != end.Sub(now) {
					t.Errorf("restart %d: %q, %v, want %v: %s", restart, got, r.retryAfter(), end.Sub(now), r.body)
				}
				if r := i.ask("POST", "/v1/messages/count_tokens", question(sonnet), key); r.status != 200 {
					t.Errorf("a count: %d %s", r.status, r.body)
				}
				if r := i.ask("GET", "/v1/models", "", key); r.status != 200 {
					t.Errorf("a list: %d %s", r.status, r.body)
				}
				if body := i.ask("GET", "/api/request-keys/usage", "").body; !strings.Contains(body, `"reason":"`+c.gate+`","until":"`+end.Format(time.RFC3339)) {
					t.Errorf("the pages don't say so: %s", body)
				}
				i.stop()
				i = startInAt(t, dir, clock, nil, members...)
			}
			clock.set(end.Add(-time.Second))
			if got := i.refusedBy(i.message(question(sonnet), key)); got != c.gate {
				t.Errorf("a second early: %q", got)
			}
			clock.set(end)
			i.good(question(sonnet), key)
		})
	}
}

// Where the clock steps back what was used counts for the day that had begun, and Retry-After says when that one ends.
func TestCallerSpendingWhenTheClockStepsBack(t *testing.T) {
	t.Parallel()
	clock := nextNoon()
	p, url := provider(t)
	p.Always(demo.Step{Text: answerText, Usage: demo.Usage{Input: 100, Output: 50}})
	i := startAt(t, clock, nil, poolOf(poolKey(k1, url)), oneCaller(`"daily_limit_tokens":100`))
	key := "X-Api-Key: " + requestKey
	i.good(question(sonnet), key)
	noon := clock.now()
	y, m, d := noon.Date()
	clock.set(time.Date(y, m, d-1, 12, 0, 0, 0, time.Local))
	r := i.message(question(sonnet), key)
	end := time.Date(y, m, d+1, 0, 0, 0, 0, time.Local)
	if got := i.refusedBy(r); got != auth.LimitDay || r.retryAfter() != end.Sub(clock.now()) {
		t.Fatalf("%q, %v, want %v", got, r.retryAfter(), end.Sub(clock.now()))
	}
	clock.set(clock.now().Add(r.retryAfter()))
	i.good(question(sonnet), key)
}

// Providers that tell no usage (OpenAI's streams do only for who asks for it) are no way around the limits, and nobody pays for
// the frames of a stream: a thousand words count about a thousand tokens, in every form.
func TestCallerSpendingWithoutUsage(t *testing.T) {
	t.Parallel()
	const words = 1000
	chunk := func(choice string) func(http.ResponseWriter, *http.Request, int) {
		return func(w http.ResponseWriter, _ *http.Request, _ int) {
			w.Header().Set("Content-Type", "text/event-stream")
			for range words {
				fmt.Fprintf(w, "data: {\"id\":\"c\",\"object\":\"chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,%s,\"finish_reason\":null}]}\n\n", choice)
			}
			fmt.Fprint(w, "data: {\"id\":\"c\",\"object\":\"chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
		}
	}
	plain := func(choice string) func(http.ResponseWriter, *http.Request, int) {
		return says(200, `{"id":"c","object":"o","created":1,"model":"m","choices":[{"index":0,`+fmt.Sprintf(choice, strings.Repeat("word", words))+`,"finish_reason":"stop"}]}`)
	}
	for _, c := range []struct {
		name, path, body string
		says             func(http.ResponseWriter, *http.Request, int)
	}{
		{"chat, stream", "/v1/chat/completions", bodyOf(chat, "m", true), chunk(`"delta":{"content":"word"}`)},
		{"chat, plain", "/v1/chat/completions", bodyOf(chat, "m", false), plain(`"message":{"role":"assistant","content":%q}`)},
		{"completions, stream", "/v1/completions", `{"model":"m","prompt":"zebra","stream":true}`, chunk(`"text":"word"`)},
		{"completions, plain", "/v1/completions", `{"model":"m","prompt":"zebra"}`, plain(`"text":%q`)},
	} {
		b := newBackend(t, c.says)
		i := start(t, poolOf(fmt.Sprintf(`{"id":%q,"protocol":"openai-chat","base_url":%q,"api_key":%q}`, k1, b.URL, credential(k1))), oneCaller(`"daily_limit_tokens":900`))
		r := i.ask("POST", c.path, c.body, "Authorization: Bearer "+requestKey)
		if rec := i.record(r.trace()); r.status != 200 || rec.OutputTokens < words*9/10 || rec.OutputTokens > words*11/10 || !rec.Estimated {
			t.Errorf("%s: %d, %d tokens: %+v", c.name, r.status, rec.OutputTokens, rec)
		}
		if r := i.ask("POST", c.path, c.body, "Authorization: Bearer "+requestKey); i.refusedBy(r) != auth.LimitDay {
			t.Errorf("%s: once more: %d", c.name, r.status)
		}
	}
}

// Text that is spoken counts by its length: the sound says nothing of what it has cost. A recording that is sent counts nothing.
func TestCallerSpendingOnSpeech(t *testing.T) {
	t.Parallel()
	b := newBackend(t, says(200, "sound", "Content-Type: audio/mpeg"))
	i := start(t, poolOf(fmt.Sprintf(`{"id":%q,"protocol":"openai-chat","base_url":%q,"api_key":%q}`, k1, b.URL, credential(k1))), oneCaller(`"daily_limit_tokens":200`))
	key := "Authorization: Bearer " + requestKey
	form := "--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n" + strings.Repeat("zebra", 400) + "\r\n--x--\r\n"
	if r := i.ask("POST", "/v1/audio/transcriptions", form, key, "Content-Type: multipart/form-data; boundary=x"); r.status != 200 {
		t.Fatal(r.status, r.body)
	}
	text := fmt.Sprintf(`{"model":"m","voice":"v","input":%q}`, strings.Repeat("zebra", 100)) // 500 characters and a little
	for _, want := range []int{200, 200, 429} {
		r := i.ask("POST", "/v1/audio/speech", text, key, "Content-Type: application/json")
		if r.status != want {
			t.Fatalf("%d, want %d: %s", r.status, want, r.body)
		}
		if rec := i.record(r.trace()); want == 200 && (rec.InputTokens != int64(len(text)/4) || rec.OutputTokens != 0 || !rec.Estimated) {
			t.Errorf("the journal has %+v", rec)
		}
	}
}

// USE-012: who goes away right before the usage comes is counted all the same, and the limit blocks.
func TestUSE012CallerWhoLeavesIsCounted(t *testing.T) {
	t.Parallel()
	b := newBackend(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		w.Header().Set("Content-Type", "text/event-stream")
		for n := range 100 {
			fmt.Fprintf(w, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"word%d \"},\"finish_reason\":null}]}\n\n", n)
		}
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done() // the usage would come now
	})
	i := start(t, poolOf(fmt.Sprintf(`{"id":%q,"protocol":"openai-chat","base_url":%q,"api_key":%q}`, k1, b.URL, credential(k1))), oneCaller(`"daily_limit_tokens":600`))
	key := "Authorization: Bearer " + requestKey
	served := 0
	for range 10 {
		ctx, leave := i.leaving()
		resp, err := i.transport.RoundTrip(i.request(ctx, "POST", "/v1/chat/completions", strings.NewReader(bodyOf(chat, "gpt-5", true)), []string{key}))
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode == http.StatusTooManyRequests {
			resp.Body.Close()
			leave()
			break
		}
		served++
		for in := bufio.NewScanner(resp.Body); in.Scan() && !strings.Contains(in.Text(), "word99"); {
		}
		leave()
		resp.Body.Close()
		await(t, "the journal line", func() bool { return len(i.records(resp.Header.Get("X-Proxy-Trace"))) == 1 })
	}
	if served < 2 || served > 5 {
		t.Errorf("%d requests were served", served)
	}
}

// More at once than allowed: refused at once, and let in when one has ended.
func TestCallerInFlight(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	b := newBackend(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if n == 0 {
			<-hold
		}
		say(w, 200, whole)
	})
	i := start(t, poolOf(poolKey(k1, b.URL)), oneCaller(`"max_in_flight":1`))
	key := "X-Api-Key: " + requestKey
	first := i.background(t.Context(), question(sonnet), key)
	await(t, "the first request", func() bool { return len(b.requests()) == 1 })
	r := i.message(question(sonnet), key)
	if got := i.refusedBy(r); got != auth.LimitInFlight || r.retryAfter() != time.Second {
		t.Errorf("%q, %v: %s", got, r.retryAfter(), r.body)
	}
	close(hold)
	if r := <-first; r.status != 200 {
		t.Fatal(r.status, r.body)
	}
	eventually(t, "the place is free", func() bool { return i.message(question(sonnet), key).status == 200 })
}

// endWatcher asks how many requests are in flight whenever the client gets something.
type endWatcher struct {
	*httptest.ResponseRecorder
	inFlight func() int
	last     int
}

func (w *endWatcher) Write(p []byte) (int, error) {
	w.last = w.inFlight()
	return w.ResponseRecorder.Write(p)
}

// Who has seen the end of an answer may ask again: the place is free before the last bytes. Gemini's streams end with the connection.
func TestCallerInFlightEndsWithTheAnswer(t *testing.T) {
	t.Parallel()
	_, url := strict(t, "all")
	i := prepare(t, filepath.Join(t.TempDir(), "data"), poolOf(polyglotKey(k1, url, nil)), oneCaller(`"max_in_flight":1`))
	t.Cleanup(i.Close)
	inFlight := func() int {
		return i.server.limiter.Standing("laptop", auth.Limits{MaxInFlight: 1}, i.server.now()).InFlight
	}
	for _, dialect := range []string{claude, chat, responses, gemini} {
		for _, stream := range []bool{false, true} {
			if stream && dialect == gemini {
				continue
			}
			r := httptest.NewRequest("POST", pathOf(dialect, "gemini-2.5-flash", stream), strings.NewReader(bodyOf(dialect, "gemini-2.5-flash", stream)))
			r.Header.Set("X-Proxy-Key", requestKey)
			r.Header.Set("Anthropic-Version", "2023-06-01")
			w := &endWatcher{httptest.NewRecorder(), inFlight, -1}
			i.server.ServeHTTP(w, r)
			if w.Code != 200 || w.last != 0 || inFlight() != 0 {
				t.Errorf("%s, stream %v: status %d, %d in flight with the last bytes, %d after them", dialect, stream, w.Code, w.last, inFlight())
			}
		}
	}
}

// A fault of ours takes no place away for good.
func TestCallerInFlightAfterAPanic(t *testing.T) {
	t.Parallel()
	_, url := provider(t)
	i := start(t, poolOf(poolKey(k1, url)), oneCaller(`"max_in_flight":1`))
	i.server.proxyRoutes = append(i.server.proxyRoutes, proxy.Route{Methods: []string{"GET"}, Pattern: "/panic", Dialect: proxy.Anthropic}) // it has no handler
	for range 2 {
		if r := i.ask("GET", "/panic", "", "X-Api-Key: "+requestKey); r.status != 500 {
			t.Fatal(r.status, r.body)
		}
	}
	i.good(question(sonnet), "X-Api-Key: "+requestKey)
}

// A key that comes from another address than it may.
func TestCallerAddresses(t *testing.T) {
	t.Parallel()
	_, url := provider(t)
	i := prepare(t, filepath.Join(t.TempDir(), "data"), poolOf(poolKey(k1, url)), oneCaller(`"addresses":["192.0.2.0/24","2001:db8::/32"]`))
	i.admit(func(s *liveState) { s.trusted = auth.Addresses{netip.MustParsePrefix("10.0.0.1/32")} })
	t.Cleanup(i.Close)
	for _, c := range []struct {
		remote, header string
		status         int
	}{
		{"192.0.2.7:1", "", 200}, {"[::ffff:192.0.2.7]:1", "", 200}, {"[2001:db8::1]:1", "", 200}, {"127.0.0.1:1", "", 403}, {"192.0.3.7:1", "", 403}, {"@", "", 403},
		{"192.0.3.7:1", "X-Forwarded-For: 192.0.2.7", 403}, {"10.0.0.1:1", "X-Forwarded-For: 192.0.2.7", 200}, {"10.0.0.1:1", "X-Forwarded-For: 192.0.2.7, 192.0.3.7", 403},
		{"10.0.0.1:1", "X-Forwarded-For: what", 403}, {"10.0.0.1:1", "", 403},
	} {
		w := i.come(c.remote, c.header, requestKey)
		if w.Code != c.status {
			t.Errorf("%s, %s: %d %s", c.remote, c.header, w.Code, w.Body)
		}
		if rec := i.record(w.Header().Get("X-Proxy-Trace")); c.status == 403 && (rec.Caller != "laptop" || rec.ErrorType != "permission_error") {
			t.Errorf("the journal has %+v", rec)
		}
	}
	if w := i.come("127.0.0.1:1", "", "request-key-of-nobody"); w.Code != 401 { // nobody learns whose key may come from where
		t.Errorf("a wrong key: %d", w.Code)
	}
}

// come sends a message as from the address.
func (i *instance) come(remote, header, key string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "/v1/messages", strings.NewReader(question(sonnet)))
	r.RemoteAddr = remote
	r.Header.Set("X-Api-Key", key)
	r.Header.Set("Anthropic-Version", "2023-06-01")
	if name, value, ok := strings.Cut(header, ": "); ok {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	i.server.ServeHTTP(w, r)
	return w
}

// Addresses that may ask at all: clients, pages and admin calls alike, /healthz apart; commands of this machine always.
func TestAddressLists(t *testing.T) {
	t.Parallel()
	_, url := provider(t)
	i := prepare(t, filepath.Join(t.TempDir(), "data"), poolOf(poolKey(k1, url)),
		fmt.Sprintf(`"auth":{"admin_key":"admin-secret","allow_addresses":["192.0.2.0/24"],"deny_addresses":["192.0.2.66"],"request_keys":[{"code":"laptop","api_key":%q}]}`, requestKey))
	t.Cleanup(i.Close)
	for remote, want := range map[string]bool{"192.0.2.7:1": true, "192.0.2.66:1": false, "[::ffff:192.0.2.66]:1": false, "127.0.0.1:1": false, "@": false} {
		if w := i.come(remote, "", requestKey); (w.Code == 200) != want || !want && w.Code != 403 {
			t.Errorf("a client at %s: %d", remote, w.Code)
		}
		if w := i.come(remote, "", "request-key-of-nobody"); !want && w.Code != 403 || want && w.Code != 401 {
			t.Errorf("somebody at %s: %d", remote, w.Code)
		}
		for path, status := range map[string]int{"/stats": 200, "/api/stats": 200, "/admin/config": 200, "/healthz": 200} {
			r := httptest.NewRequest("GET", path, nil)
			r.RemoteAddr = remote
			r.Header.Set("Authorization", "Bearer admin-secret")
			w := httptest.NewRecorder()
			i.server.ServeHTTP(w, r)
			if path != "/healthz" && !want {
				status = 403
			}
			if w.Code != status {
				t.Errorf("%s from %s: %d, want %d", path, remote, w.Code, status)
			}
		}
	}
	i.serve() // and a command asks from where it is not allowed
	if status, body := i.admin("GET", "/admin/config"); status != 200 {
		t.Errorf("a command of this machine: %d %s", status, body)
	}
}
