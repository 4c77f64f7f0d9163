package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"coding-proxy/proxy/demo"
)

// The tests named after faults (RET, KEY, SSE, …) are for the entries of the fault list. Where the design says
// otherwise than the list, the test says so and follows the design.

// servedBy returns which key answered, from the journal.
func (i *instance) servedBy(r *reply) string {
	i.t.Helper()
	return i.record(r.trace()).Key
}

// frozen is a clock that stands, an hour ahead, so that the deadlines it gives real connections are not over.
func frozen() *clock { return &clock{time: time.Now().Add(time.Hour)} }

// coolsFor returns how long a key is out, for its model or as a whole. Jitter adds up to a tenth to what was stated.
func (i *instance) coolsFor(c *clock, id string) time.Duration {
	i.t.Helper()
	k := i.keys()[id]
	until := k.Until
	for _, m := range k.Models {
		if m.Until.After(until) {
			until = m.Until
		}
	}
	return until.Sub(c.now())
}

// about reports whether d is want, or up to a tenth more.
func about(d, want time.Duration) bool { return d >= want-time.Second && d <= want+want/10+time.Second }

func TestRET001BodyLostOnFailover(t *testing.T) {
	t.Parallel()
	body := question(sonnet, `"metadata":{"user_id":"`+strings.Repeat("x", 300<<10)+`"}`)
	limited := failure("rate_limit_error", "slow down")
	for _, c := range []struct {
		name  string
		first func(conn *net.TCPConn, in *bufio.Reader, n int)
	}{
		{"429", func(conn *net.TCPConn, in *bufio.Reader, _ int) {
			if r, err := http.ReadRequest(in); err == nil {
				_, _ = io.Copy(io.Discard, r.Body)
				fmt.Fprintf(conn, "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(limited), limited)
			}
		}},
		{"429 before the body was read", func(conn *net.TCPConn, in *bufio.Reader, _ int) {
			if _, err := http.ReadRequest(in); err == nil {
				fmt.Fprintf(conn, "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(limited), limited)
				_, _ = io.Copy(io.Discard, in)
			}
		}},
		{"reset after the headers", func(conn *net.TCPConn, in *bufio.Reader, _ int) {
			_, _ = http.ReadRequest(in)
			reset(conn)
		}},
		{"reset after half the body", func(conn *net.TCPConn, in *bufio.Reader, _ int) {
			if r, err := http.ReadRequest(in); err == nil {
				_, _ = io.CopyN(io.Discard, r.Body, 150<<10)
			}
			reset(conn)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBackend(t, says(200, whole))
			i := start(t, poolOf(poolKey(k1, rawUpstream(t, c.first)), poolKey(k2, b.URL)))
			i.good(body)
			if got := b.only(t); got.body != body || got.length != int64(len(body)) || got.bodyErr != nil {
				t.Errorf("the second key got %d bytes (length %d, %v), want %d", len(got.body), got.length, got.bodyErr, len(body))
			}
		})
	}
}

func TestRET004AttemptStateLeaks(t *testing.T) {
	t.Parallel()
	first := newBackend(t, pours(evStop)) // an end without anything before it
	_, second := provider(t, demo.Step{Text: answerText, Break: demo.Cut, After: 4})
	i := start(t, poolOf(poolKey(k1, first.URL), poolKey(k2, second)))
	r := i.message(question(sonnet, streamed))
	if !strings.Contains(r.body, "event: error") || strings.Contains(r.body, "message_stop") {
		t.Errorf("the cut stream ended as %q", r.body)
	}
	if rec := i.record(r.trace()); rec.Outcome != "broken" || rec.Key != k2 || len(rec.Attempts) != 2 {
		t.Errorf("journal: %+v", rec)
	}
}

func TestRET005RetryAfterDate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		value func(now time.Time) string
		want  time.Duration
	}{
		{func(now time.Time) string { return now.Add(90 * time.Second).UTC().Format(http.TimeFormat) }, 90 * time.Second},
		{func(time.Time) string { return "120" }, 2 * time.Minute},
		{func(time.Time) string { return `"120"` }, 2 * time.Minute},
		{func(time.Time) string { return "1.5" }, 2 * time.Second}, // rounded up
	} {
		now := frozen()
		value := c.value(now.now())
		limited, url := provider(t, demo.Step{Status: 429, Header: http.Header{"Retry-After": {value}}})
		_, other := provider(t)
		i := startAt(t, now, nil, poolOf(poolKey(k1, url), poolKey(k2, other)))
		for range 3 {
			if r := i.good(question(sonnet)); i.servedBy(r) != k2 {
				t.Errorf("%s: %s has answered", value, i.servedBy(r))
			}
		}
		if d := i.coolsFor(now, k1); !about(d, c.want) {
			t.Errorf("%s: the key is out for %v, want %v", value, d, c.want)
		}
		if n := len(limited.Requests()); n != 1 {
			t.Errorf("%s: the key was asked %d times", value, n)
		}
	}
}

func TestRET006RetryAfterUselessValue(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		value string
		want  time.Duration // of the last key; the others' backoff is 30 s
	}{
		{"0", time.Second},
		{"-5", 5 * time.Second}, // no other key is usable: a passing fault
		{"Wed, 21 Oct 2015 07:28:00 GMT", 5 * time.Second},
		{"abc", 5 * time.Second},
		{"99999999999", 5 * time.Second},
	} {
		now := frozen()
		b := newBackend(t, says(429, failure("rate_limit_error", "slow down"), "Retry-After: "+c.value))
		i := startAt(t, now, nil, poolOf(poolKey(k1, b.URL), poolKey(k2, b.URL), poolKey(k3, b.URL)))
		for range 5 {
			if r := i.message(question(sonnet)); r.status != 429 {
				t.Errorf("%s: status %d", c.value, r.status)
			}
		}
		if n := len(b.requests()); n != 3 {
			t.Errorf("%s: %d upstream calls, want one a key", c.value, n)
		}
		if d := i.coolsFor(now, k3); !about(d, c.want) {
			t.Errorf("%s: the last key is out for %v, want %v", c.value, d, c.want)
		}
	}
}

// Resets that stand in the body or in other headers: seconds, milliseconds and dates are told apart by their size.
func TestRET008RET009RET010StatedResets(t *testing.T) {
	t.Parallel()
	now := frozen()
	in := func(d time.Duration) int64 { return now.now().Add(d).Unix() }
	body := func(members string) string {
		return `{"type":"error","error":{"type":"rate_limit_error","message":"m",` + members + `}}`
	}
	for _, c := range []struct {
		name, body, header string
		want               time.Duration
	}{
		{"RET-008 fraction", body(`"details":[{"@type":"x","retryDelay":"0.734120045s"}]`), "", time.Second},
		{"RET-008 long", body(`"details":[{"retryDelay":"1h16m0.667s"}]`), "", time.Hour + 16*time.Minute + time.Second},
		{"RET-009 resets_at", body(fmt.Sprintf(`"resets_at":%d,"resets_in_seconds":1`, in(300*time.Second))), "", 300 * time.Second},
		{"RET-009 in the past", body(fmt.Sprintf(`"resets_at":%d,"resets_in_seconds":45`, in(-300*time.Second))), "", 45 * time.Second},
		{"RET-010 seconds", body(fmt.Sprintf(`"resets_at":%d`, in(time.Hour))), "", time.Hour},
		{"RET-010 milliseconds", body(fmt.Sprintf(`"resets_at":%d000`, in(time.Hour))), "", time.Hour},
		{"RET-010 date", body(`"resets_at":"` + now.now().Add(time.Hour).UTC().Format(time.RFC3339) + `"`), "", time.Hour},
		{"RET-010 nothing", body(`"resets_at":0`), "", 30 * time.Second},
		{"RET-010 year 3000", body(`"resets_at":32503680000`), "", 30 * time.Second},
		{"retry-after-ms", body(`"x":1`), "Retry-After-Ms: 90000", 90 * time.Second},
		{"requests used up", body(`"x":1`), "Anthropic-Ratelimit-Requests-Remaining: 0\nAnthropic-Ratelimit-Requests-Reset: " +
			now.now().Add(2*time.Minute).UTC().Format(time.RFC3339), 2 * time.Minute},
		{"x-ratelimit-reset", body(`"x":1`), "X-Ratelimit-Reset-Requests: 6m0s", 6 * time.Minute},
		{"longer than a week", body(`"x":1`), "Retry-After: 2592000", 7 * 24 * time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var header []string
			if c.header != "" {
				header = strings.Split(c.header, "\n")
			}
			_, other := provider(t)
			i := startAt(t, now, nil, poolOf(poolKey(k1, newBackend(t, says(429, c.body, header...)).URL), poolKey(k2, other)))
			i.good(question(sonnet))
			if d := i.coolsFor(now, k1); !about(d, c.want) {
				t.Errorf("out for %v, want %v", d, c.want)
			}
		})
	}
}

func TestRET011HintlessThrottleBansLong(t *testing.T) {
	t.Parallel()
	now := frozen()
	var keys []string
	for _, id := range []string{k1, k2, k3, k4} {
		_, url := provider(t, demo.Step{Status: 429})
		keys = append(keys, poolKey(id, url))
	}
	i := startAt(t, now, nil, poolOf(keys...))
	if r := i.message(question(sonnet)); r.status != 429 || r.header.Get("X-Proxy-Attempts") != "4" {
		t.Errorf("status %d after %s attempts", r.status, r.header.Get("X-Proxy-Attempts"))
	}
	for id, want := range map[string]time.Duration{k1: 30 * time.Second, k2: 30 * time.Second, k3: 30 * time.Second, k4: 5 * time.Second} {
		if d := i.coolsFor(now, id); !about(d, want) {
			t.Errorf("%s is out for %v, want %v", id, d, want)
		}
	}
	now.set(now.now().Add(6 * time.Second))
	i.good(question(sonnet))
}

func TestRET015ThrottleOpensNow(t *testing.T) {
	t.Parallel()
	b := newBackend(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if n == 0 {
			say(w, 429, failure("rate_limit_error", "slow down"), "Retry-After: 60")
			return
		}
		say(w, 200, whole)
	})
	now := frozen()
	i := startAt(t, now, nil, poolOf(poolKey(k1, b.URL)))
	for _, want := range []struct {
		model  string
		status int
	}{{opus, 429}, {sonnet, 200}, {opus, 429}, {sonnet, 200}, {opus, 429}} {
		if r := i.message(question(want.model)); r.status != want.status {
			t.Errorf("%s: status %d, want %d", want.model, r.status, want.status)
		}
	}
	if n := len(b.requests()); n != 3 {
		t.Errorf("%d upstream calls, want the first of the limited model and two of the other", n)
	}
	if d := i.coolsFor(now, k1); !about(d, time.Minute) {
		t.Errorf("out for %v", d)
	}
}

// The list wants a 400 in each case; the design passes the upstream's own status and body on (routing.md, 4).
func TestRET016ContextLengthTripsNothing(t *testing.T) {
	t.Parallel()
	long := failure("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum")
	coded := `{"error":{"code":"context_length_exceeded","message":"no"}}`
	event := func(data string) func(http.ResponseWriter, *http.Request, int) {
		return pours(evStart, "event: error\ndata: "+data+"\n\n")
	}
	hidden := failure("api_error", "This model's maximum context length is 200000 tokens")
	for _, c := range []struct {
		name, ask string
		answer    func(http.ResponseWriter, *http.Request, int)
		status    int
		body      string
	}{
		{"400", question(sonnet), says(400, long), 400, long},
		{"400 of a stream", question(sonnet, streamed), says(400, long), 400, long},
		{"502 with a code", question(sonnet), says(502, coded), 502, coded},
		{"500 with a text", question(sonnet), says(500, hidden), 500, hidden},
		{"event under 200", question(sonnet, streamed), event(long), 400, long},
		{"event under 200 of another type", question(sonnet, streamed), event(hidden), 500, hidden},
		{"body under 200", question(sonnet), says(200, long), 400, long},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBackend(t, c.answer)
			i := start(t, poolOf(poolKey(k1, b.URL), poolKey(k2, b.URL), poolKey(k3, b.URL)))
			r := i.message(c.ask)
			if r.status != c.status || r.body != c.body {
				t.Errorf("status %d, body %s", r.status, r.body)
			}
			if n := len(b.requests()); n != 1 {
				t.Errorf("%d upstream calls", n)
			}
			i.untouched(k1, k2, k3)
		})
	}
}

// failsOver checks that the first key's answer moves the request on, and returns how long it is out.
func failsOver(t *testing.T, answer func(http.ResponseWriter, *http.Request, int), ask string) (out time.Duration, state keyState) {
	t.Helper()
	b := newBackend(t, answer)
	_, other := provider(t)
	now := frozen()
	i := startAt(t, now, nil, poolOf(poolKey(k1, b.URL), poolKey(k2, other)))
	for range 2 {
		if r := i.good(ask); i.servedBy(r) != k2 {
			t.Errorf("%s has answered", i.servedBy(r))
		}
	}
	if n := len(b.requests()); n != 1 {
		t.Errorf("the first key was asked %d times", n)
	}
	return i.coolsFor(now, k1), i.keys()[k1]
}

func TestRET017ThrottleWithRequestErrorCode(t *testing.T) {
	t.Parallel()
	body := `{"error":{"message":"Rate Limit Reached","type":"unknown_error","code":"invalid_request_error"}}`
	if out, _ := failsOver(t, says(429, body), question(sonnet)); !about(out, 30*time.Second) {
		t.Errorf("429: out for %v", out)
	}
	if out, _ := failsOver(t, says(402, body), question(sonnet)); !about(out, time.Hour) {
		t.Errorf("402: out for %v", out)
	}
}

func TestRET018UnauthorizedThatIsARequestFault(t *testing.T) {
	t.Parallel()
	b := newBackend(t, says(401, failure("invalid_request_error", "Invalid request parameter")))
	i := start(t, poolOf(poolKey(k1, b.URL), poolKey(k2, b.URL)))
	i.message(question(sonnet))
	b.only(t)
	i.untouched(k1, k2)

	out, _ := failsOver(t, says(401, `{"error":{"type":"authentication_error","code":"invalid_request_error","message":"no"}}`), question(sonnet))
	if !about(out, time.Hour) {
		t.Errorf("out for %v", out)
	}
}

func TestRET019BudgetExhausted(t *testing.T) {
	t.Parallel()
	const twoDays = 48 * time.Hour
	day := frozen().now().Add(twoDays).UTC().Truncate(24 * time.Hour)
	text := "You have reached your specified API usage limits. You will regain access on " + day.Format("2006-01-02 at 15:04") + " UTC."
	out, k := failsOver(t, says(400, failure("invalid_request_error", text)), question(sonnet))
	left := time.Until(day.Add(-time.Hour)) // by the frozen clock
	if out < left-time.Minute || out > left+left/10+time.Minute || k.State != "cooling" || k.Reason != "cap" {
		t.Errorf("out for %v, want %v: %+v", out, left, k)
	}
	out, k = failsOver(t, says(402, failure("billing_error", "Insufficient credits")), question(sonnet))
	if !about(out, time.Hour) || k.Reason != "cap" {
		t.Errorf("402: out for %v: %+v", out, k)
	}
	if out, k = failsOver(t, says(400, failure("invalid_request_error", "Your credit balance is too low to access the API")), question(sonnet)); !about(out, time.Hour) || k.Reason != "cap" {
		t.Errorf("credit balance: out for %v: %+v", out, k)
	}
}

func TestRET020ChallengePage(t *testing.T) {
	t.Parallel()
	page := "<!DOCTYPE html><html><head><title>Just a moment...</title></head></html>"
	for _, status := range []int{403, 502, 524, 200} {
		for _, ask := range []string{question(sonnet), question(sonnet, streamed)} {
			answer := says(status, page, "Content-Type: text/html; charset=UTF-8")
			if out, k := failsOver(t, answer, ask); !about(out, 30*time.Second) || k.Reason != "fault" {
				t.Errorf("%d: out for %v: %+v", status, out, k)
			}
			// The only key: the client gets JSON.
			i := start(t, poolOf(poolKey(k1, newBackend(t, answer).URL)))
			r := i.message(ask)
			if want := max(status, 502); status < 500 && r.status != 502 || status >= 500 && r.status != want {
				t.Errorf("%d: the client gets %d", status, r.status)
			}
			i.isRefusal(r, r.status, "api_error")
		}
	}
}

// What a gateway says in plain text is passed on, but not under the name of JSON.
func TestTextErrorIsNotLabelledJSON(t *testing.T) {
	t.Parallel()
	for _, ask := range []string{question(sonnet), question(sonnet, streamed)} {
		i := start(t, poolOf(poolKey(k1, newBackend(t, says(503, "no healthy upstream", "Content-Type: text/plain")).URL)))
		r := i.message(ask)
		if strings.Contains(r.header.Get("Content-Type"), "json") && !strings.HasPrefix(r.body, "{") {
			t.Errorf("status %d, content-type %s, body %q", r.status, r.header.Get("Content-Type"), r.body)
		}
	}
}

func TestRET021TooLargeRotatesNothing(t *testing.T) {
	t.Parallel()
	large := failure("request_too_large", "Request exceeds the maximum size")
	b := newBackend(t, says(413, large))
	i := start(t, poolOf(poolKey(k1, b.URL), poolKey(k2, b.URL), poolKey(k3, b.URL)))
	if r := i.message(question(sonnet)); r.status != 413 || r.body != large {
		t.Errorf("status %d, body %s", r.status, r.body)
	}
	b.only(t)
	i.untouched(k1, k2, k3)
}

func TestRET026ConcurrentThrottlesCountOnce(t *testing.T) {
	t.Parallel()
	const parallel = 50
	arrived, answer := make(chan struct{}, parallel), make(chan struct{})
	b := newBackend(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if n < parallel {
			arrived <- struct{}{}
			<-answer
			say(w, 429, failure("rate_limit_error", "slow down"))
			return
		}
		say(w, 200, whole)
	})
	i := start(t, poolOf(poolKey(k1, b.URL)))
	var replies []<-chan *reply
	for range parallel {
		replies = append(replies, i.background(t.Context(), question(sonnet)))
	}
	for range parallel {
		<-arrived
	}
	close(answer)
	for _, r := range replies {
		if r := <-r; r.status != 429 {
			t.Errorf("status %d, %v", r.status, r.err)
		}
	}
	if k := i.keys()[k1]; k.Streak != 1 {
		t.Errorf("%d failures of one event have raised the streak to %d", parallel, k.Streak)
	}
	if n := len(b.requests()); n != parallel {
		t.Errorf("%d upstream calls", n)
	}
}

// The proxy does not sleep before a retry; what waits is a request for a key that will soon be free.
func TestRET029WaitEndsWithTheClient(t *testing.T) {
	t.Parallel()
	b := newBackend(t, says(429, failure("rate_limit_error", "slow down"), "Retry-After: 4"))
	i := start(t, `"pool":{"strategy":"fill-first","max_wait_seconds":60,"keys":[`+poolKey(k1, b.URL)+`]}`)
	if r := i.message(question(sonnet)); r.status != 429 {
		t.Fatalf("status %d", r.status)
	}
	await(t, "the first request's end", func() bool { return i.server.proxy.InFlight() == 0 })
	await(t, "its end", func() bool { return i.server.proxy.InFlight() == 0 })
	ctx, leave := context.WithCancel(t.Context())
	waiting := i.background(ctx, question(sonnet))
	await(t, "the request to wait", func() bool { return i.server.proxy.InFlight() == 1 })
	leave()
	<-waiting
	await(t, "its end", func() bool { return i.server.proxy.InFlight() == 0 })
	b.only(t)
	recs := i.records("")
	if last := recs[len(recs)-1]; last.Outcome != "cancelled" || len(last.Attempts) != 0 {
		t.Errorf("journal: %+v", last)
	}
}

// A connection that died while it was idle says nothing of the key: the same key is asked again on a new one.
func TestStaleConnection(t *testing.T) {
	t.Parallel()
	url := rawUpstream(t, func(conn *net.TCPConn, in *bufio.Reader, n int) {
		for asked := 0; ; asked++ {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			if n == 0 && asked == 1 { // the second request on the first connection
				reset(conn)
				return
			}
			fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(whole), whole)
		}
	})
	i := start(t, poolOf(poolKey(k1, url), poolKey(k2, nowhere(t))))
	for range 3 {
		if r := i.good(question(sonnet)); i.servedBy(r) != k1 {
			t.Errorf("%s has answered", i.servedBy(r))
		}
	}
	i.untouched(k1)
}

// An error under a plain 200 is found however its bytes arrive: the rest comes when the client has the head of the
// answer, or where that is held back, after a while.
func TestErrorUnderPlain200(t *testing.T) {
	t.Parallel()
	text := failure("overloaded_error", "Overloaded")
	long := failure("overloaded_error", strings.Repeat("Overloaded ", 10_000))
	for _, c := range []struct{ name, first, rest string }{
		{"at once", text, ""},
		{"first byte", text[:1], text[1:]},
		{"first field", text[:17], text[17:]},
		{"half the message", text[:60], text[60:]},
		{"long", long[:1000], long[1000:]},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			seen := make(chan struct{})
			b := newBackend(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
				w.Header().Set("Content-Type", "application/json")
				for _, piece := range []string{c.first, c.rest} {
					_, _ = io.WriteString(w, piece)
					_ = http.NewResponseController(w).Flush()
					select {
					case <-seen:
					case <-time.After(300 * time.Millisecond):
					}
				}
			})
			_, other := provider(t)
			i := start(t, poolOf(poolKey(k1, b.URL), poolKey(k2, other)))
			l := i.open(question(sonnet))
			close(seen)
			if body, err := l.all(); l.status != 200 || err != nil || i.record(l.header.Get("X-Proxy-Trace")).Key != k2 {
				t.Errorf("the error was passed on as a good answer: status %d, %.100s", l.status, body)
			}
		})
	}
}

// A hiccup of the only key does not black its callers out: design/routing.md, section 4.
func TestLoneKeyComesBack(t *testing.T) {
	t.Parallel()
	now := frozen()
	_, url := provider(t, demo.Step{Status: 500}, demo.Step{Status: 500}, demo.Step{Status: 500}, demo.Step{Status: 529})
	i := startAt(t, now, nil, poolOf(poolKey(k1, url)))
	for range 4 {
		if r := i.message(question(sonnet)); r.status < 500 {
			t.Errorf("status %d", r.status)
		}
		if d := i.coolsFor(now, k1); !about(d, 5*time.Second) {
			t.Errorf("out for %v", d)
		}
		now.set(now.now().Add(6 * time.Second))
	}
	i.good(question(sonnet))
}

// What is no answer in the dialect is a fault, whatever its status says.
func TestNotInDialect(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, ask, contentType, body string }{
		{"JSON for a stream", question(sonnet, streamed), "application/json", whole},
		{"page for a stream", question(sonnet, streamed), "text/event-stream", "<html>"},
		{"text for a stream", question(sonnet, streamed), "text/event-stream", "identity check failed"},
		{"error for a stream", question(sonnet, streamed), "application/json", failure("api_error", "no")},
		{"events for a plain answer", question(sonnet), "text/event-stream", evAll},
		{"page for a plain answer", question(sonnet), "application/json", "<html>"},
		{"text for a plain answer", question(sonnet), "application/json", "null"},
		{"nothing for a plain answer", question(sonnet), "application/json", ""},
		{"empty object", question(sonnet), "application/json", "{}"},
		{"array", question(sonnet), "application/json", "[" + whole + "]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBackend(t, says(200, c.body, "Content-Type: "+c.contentType))
			_, other := provider(t)
			i := start(t, poolOf(poolKey(k1, b.URL), poolKey(k2, other)))
			if r := i.good(c.ask); i.servedBy(r) != k2 {
				t.Errorf("it was passed on: %q", r.body)
			}
			if k := i.keys()[k1]; k.State != "cooling" || k.Reason != "fault" {
				t.Errorf("%+v", k)
			}
		})
	}
}

func TestAttemptsAreBounded(t *testing.T) {
	t.Parallel()
	t.Run("number", func(t *testing.T) {
		t.Parallel()
		b := newBackend(t, says(500, failure("api_error", "no")))
		i := start(t, `"failover":{"max_attempts":2}`, poolOf(poolKey(k1, b.URL), poolKey(k2, b.URL), poolKey(k3, b.URL)))
		if r := i.message(question(sonnet)); r.status != 500 || len(b.requests()) != 2 {
			t.Errorf("status %d after %d calls", r.status, len(b.requests()))
		}
	})
	t.Run("time", func(t *testing.T) {
		t.Parallel()
		now := frozen()
		b := newBackend(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
			now.set(now.now().Add(50 * time.Second))
			say(w, 500, failure("api_error", "no"))
		})
		i := startAt(t, now, nil, poolOf(poolKey(k1, b.URL), poolKey(k2, b.URL), poolKey(k3, b.URL)))
		if r := i.message(question(sonnet)); r.status != 500 || len(b.requests()) != 2 { // none begins after 90 s
			t.Errorf("status %d after %d calls", r.status, len(b.requests()))
		}
	})
}

// The one request that tries an open tier again goes away: the next one is let through.
func TestRET024ClientCancelsTheProbe(t *testing.T) {
	t.Parallel()
	hold := demo.HoldAt(0)
	one, oneURL := provider(t, demo.Step{Status: 529, Header: http.Header{"Retry-After": {"1"}}}, demo.Step{Hold: hold})
	_, twoURL := provider(t)
	clock := &clock{time: time.Now()}
	i := startAt(t, clock, nil, `"tiers":[{"name":"one","circuit_breaker":{"failure_threshold":1,"success_threshold":1,"recovery_timeout_seconds":60}},{"name":"two"}]`,
		`"pool":{"max_wait_seconds":0,"keys":[`+poolKey(k1, oneURL, `"tier":"one"`)+`,`+poolKey(k2, twoURL, `"tier":"two"`)+`]}`)
	breaker := func() string {
		var v struct {
			Tiers []struct{ Breaker *struct{ State string } }
		}
		if err := json.Unmarshal([]byte(i.ask("GET", "/api/pool/stats", "").body), &v); err != nil {
			t.Fatal(err)
		}
		return v.Tiers[0].Breaker.State
	}
	served := func(tier, state string) {
		t.Helper()
		if rec := i.record(i.good(question(sonnet)).trace()); rec.Tier != tier || breaker() != state {
			t.Errorf("served by %s, want %s; the breaker is %s, want %s", rec.Tier, tier, breaker(), state)
		}
	}
	served("two", "open")
	clock.set(clock.now().Add(59 * time.Second))
	served("two", "open")
	clock.set(clock.now().Add(2 * time.Second))
	ctx, leave := context.WithCancel(t.Context())
	probe := i.background(ctx, question(sonnet))
	<-hold.Reached()
	served("two", "half_open") // beside the probe
	leave()
	<-probe
	eventually(t, "the end of the probe", func() bool { return i.keys()[k1].InFlight == 0 })
	served("one", "closed")
	if n := len(one.Requests()); n != 3 {
		t.Errorf("%d requests have reached the first tier", n)
	}
}
