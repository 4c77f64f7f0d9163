package daemon

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"coding-proxy/auth"
	"coding-proxy/proxy"
	"coding-proxy/proxy/demo"
)

// refusalCase is a case of a row of the error table in design/http.md.
type refusalCase struct {
	name   string
	make   func(t *testing.T) (*instance, *reply)
	status int
	kind   string
	says   string   // is in the message
	header []string // "name: value", or "name" for any value

	dialect string // of the envelope; "" = Anthropic's
}

func runRefusals(t *testing.T, cases []refusalCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			i, r := c.make(t)
			if c.dialect == "" {
				c.dialect = claude
			}
			i.refuses(c.dialect, r, c.status, c.kind)
			if !strings.Contains(r.body, c.says) {
				t.Errorf("%q is not in %s", c.says, r.body)
			}
			for _, line := range c.header {
				name, want, given := strings.Cut(line, ": ")
				if got := r.header.Get(name); got == "" || given && got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
		})
	}
}

// asking is a case's way to its answer: a daemon of these members and one message.
func asking(members []string, body string, header ...string) func(*testing.T) (*instance, *reply) {
	return func(t *testing.T) (*instance, *reply) {
		t.Helper()
		_, url := provider(t)
		i := start(t, append(members, poolOf(poolKey(k1, url)))...)
		return i, i.message(body, header...)
	}
}

// against asks an upstream that answers with one step, streamed or not.
func against(step demo.Step, members ...string) func(*testing.T) (*instance, *reply) {
	return func(t *testing.T) (*instance, *reply) {
		t.Helper()
		_, url := provider(t, step)
		i := start(t, append(members, poolOf(poolKey(k1, url)))...)
		return i, i.message(question(sonnet))
	}
}

func TestRefusesCallers(t *testing.T) {
	t.Parallel()
	// unread sends a head that promises a body and waits for the answer without sending it.
	unread := func(credential string, more ...string) func(*testing.T) (*instance, *reply) {
		return func(t *testing.T) (*instance, *reply) {
			t.Helper()
			_, url := provider(t)
			i := start(t, oneCaller(more...), poolOf(poolKey(k1, url)))
			_, in := i.raw("POST /v1/messages HTTP/1.1\r\nHost: localhost\r\n" + credential + "Content-Length: 1000000\r\n\r\n")
			return i, rawReply(t, in)
		}
	}
	expired := `"expires":"2020-01-01"`
	// without serves a caller whose group is not there: a configuration cannot say that.
	without := func(groups ...auth.Group) func(*testing.T) (*instance, *reply) {
		return func(t *testing.T) (*instance, *reply) {
			t.Helper()
			_, url := provider(t)
			i := prepare(t, filepath.Join(t.TempDir(), "data"), poolOf(poolKey(k1, url)))
			i.admit(func(s *liveState) {
				s.callers = auth.NewCallers(auth.Options{
					RequestKeys: []auth.RequestKey{{Code: "laptop", Key: auth.NewSecret(requestKey), Group: "team"}}, Groups: groups,
				})
			})
			i.serve()
			return i, i.message(question(sonnet), "x-api-key: "+requestKey)
		}
	}
	runRefusals(t, []refusalCase{
		{name: "401 no key", make: unread(""), status: 401, kind: "authentication_error"},
		{name: "401 wrong key", make: unread("X-Api-Key: request-key-of-nobody\r\n"), status: 401, kind: "authentication_error"},
		{name: "401 expired key", make: unread("X-Api-Key: "+requestKey+"\r\n", expired), status: 401, kind: "authentication_error"},
		{name: "403 group unknown", make: without(), status: 403, kind: "permission_error", says: "group"},
		{name: "403 group empty", make: without(auth.Group{Name: "team"}), status: 403, kind: "permission_error", says: "group"},
		{name: "403 model", make: asking([]string{oneCaller(`"models":["claude-haiku-*"]`)}, question(sonnet), "x-api-key: "+requestKey),
			status: 403, kind: "permission_error", says: sonnet},
		{name: "403 host", make: asking(nil, question(sonnet), "Host: rebound.test"), status: 403, kind: "permission_error", says: "host"},
		{name: "403 origin", make: asking(nil, question(sonnet), "Origin: http://evil.test"), status: 403, kind: "permission_error", says: "origin"},
		{name: "403 tunnel", make: asking(nil, question(sonnet), "X-Forwarded-For: 203.0.113.7"), status: 403, kind: "permission_error", says: "x-forwarded-for"},
	})
}

func TestRefusesPaths(t *testing.T) {
	t.Parallel()
	at := func(method, path string, header ...string) func(*testing.T) (*instance, *reply) {
		return func(t *testing.T) (*instance, *reply) {
			t.Helper()
			_, url := provider(t)
			i := start(t, oneCaller(), poolOf(poolKey(k1, url)))
			return i, i.ask(method, path, "", header...)
		}
	}
	near := func(t *testing.T) (*instance, *reply) {
		t.Helper()
		_, url := provider(t)
		i := start(t, poolOf(
			poolKey(k1, url, `"models":{"claude-sonnet-5-5":"s","claude-opus-5-5":"o"}`),
			poolKey(k2, url, `"models":{"claude-sonnet-4-5":"s"}`)))
		return i, i.message(question("claude-sonet-5-5"))
	}
	runRefusals(t, []refusalCase{
		{name: "404 path", make: at("POST", "/v2/messages"), status: 404, kind: "not_found_error", says: "/v2/messages"},
		{name: "404 path with a slash", make: at("POST", "/v1/messages/"), status: 404, kind: "not_found_error"},
		{name: "404 prefixed path", make: at("GET", "/anthropic/v3"), status: 404, kind: "not_found_error"},
		{name: "404 model", make: near, status: 404, kind: "not_found_error", says: "claude-sonnet-5-5, claude-sonnet-4-5, claude-opus-5-5"},
		{name: "405 messages", make: at("DELETE", "/v1/messages"), status: 405, kind: "invalid_request_error", header: []string{"Allow: POST"}},
		{name: "405 prefixed", make: at("GET", "/anthropic/v1/messages"), status: 405, kind: "invalid_request_error", header: []string{"Allow: POST"}},
		{name: "405 models", make: at("POST", "/v1/models"), status: 405, kind: "invalid_request_error", header: []string{"Allow: GET"}},
		{name: "405 root", make: at("POST", "/"), status: 405, kind: "invalid_request_error", header: []string{"Allow: GET, HEAD"}},
		{name: "426 messages", make: at("POST", "/v1/messages", "Connection: Upgrade", "Upgrade: websocket"),
			status: 426, kind: "invalid_request_error", header: []string{"Upgrade: HTTP/1.1"}},
		// Codex opens a socket there first.
		{name: "426 responses", make: at("GET", "/v1/responses", "Connection: Upgrade", "Upgrade: websocket"),
			status: 426, kind: "invalid_request_error", header: []string{"Upgrade: HTTP/1.1"}, dialect: responses},
	})
}

func TestRefusesBodies(t *testing.T) {
	t.Parallel()
	bad := func(name, body, says string) refusalCase {
		return refusalCase{name: "400 " + name, make: asking(nil, body), status: 400, kind: "invalid_request_error", says: says}
	}
	cases := []refusalCase{
		bad("empty", "", "JSON"),
		bad("text", "hello", "JSON"),
		bad("array", "[]", "JSON"),
		bad("cut", `{"model":"m"`, "JSON"),
		bad("trailing", question(sonnet)+"{}", "JSON"),
		bad("no model", `{"max_tokens":64,"messages":[]}`, "model"),
		bad("empty model", `{"model":"","max_tokens":64,"messages":[]}`, "model"),
		bad("model no string", `{"model":7,"max_tokens":64,"messages":[]}`, "model"),
		bad("stream no boolean", question(sonnet, `"stream":"yes"`), "stream"),
	}
	// A repeated field is read as the first here and as the last there: what was checked must be what is sent.
	for _, f := range []struct{ field, escaped, first, second string }{
		{"model", `mod\u0065l`, `"claude-sonnet-5-5"`, `"claude-opus-5-5"`},
		{"stream", `\u0073tream`, `false`, `true`},
		{"max_tokens", `max\u005ftokens`, `64`, `64`},
		{"metadata", `met\u0061data`, `{"user_id":"a"}`, `{"user_id":"b"}`},
	} {
		for how, names := range map[string][2]string{"": {f.field, f.field}, " escaped": {f.field, f.escaped}, " escaped first": {f.escaped, f.field}} {
			body := fmt.Sprintf(`{"messages":[{"role":"user","content":"zebra"}],"%s":%s,"%s":%s`, names[0], f.first, names[1], f.second)
			if f.field != "model" {
				body += `,"model":"claude-sonnet-5-5"`
			}
			if f.field != "max_tokens" {
				body += `,"max_tokens":64`
			}
			cases = append(cases, bad("repeated "+f.field+how, body+"}", f.field))
		}
	}
	runRefusals(t, cases)
}

// What is repeated below the top level is the client's own.
func TestTakesRepeatedInnerFields(t *testing.T) {
	t.Parallel()
	_, url := provider(t)
	i := start(t, poolOf(poolKey(k1, url)))
	i.good(question(sonnet, `"metadata":{"model":"a","model":"b"}`))
}

func TestRefusesSizes(t *testing.T) {
	t.Parallel()
	limit := `"limits":{"max_body_bytes":5000}`
	large := question(sonnet, `"x":"`+strings.Repeat("a", 5000)+`"`)
	packed := func(encode func(io.Writer) io.WriteCloser) string {
		var b bytes.Buffer
		w := encode(&b)
		_, _ = w.Write(bytes.Repeat([]byte(" "), 1<<20))
		w.Close()
		return b.String()
	}
	zipped := packed(func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })
	deflated := packed(func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) })
	chunked := func(t *testing.T) (*instance, *reply) {
		t.Helper()
		_, url := provider(t)
		i := start(t, limit, poolOf(poolKey(k1, url)))
		body := io.MultiReader(strings.NewReader(large)) // of no length that a client would know
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		resp, err := i.transport.RoundTrip(i.request(ctx, "POST", "/v1/messages", body, nil))
		if err != nil {
			t.Fatal(err)
		}
		return i, readReply(resp)
	}
	runRefusals(t, []refusalCase{
		{name: "413 content-length", make: asking([]string{limit}, large), status: 413, kind: "request_too_large", says: "5000"},
		{name: "413 chunked", make: chunked, status: 413, kind: "request_too_large"},
		{name: "413 gzip", make: asking([]string{limit}, zipped, "Content-Encoding: gzip"), status: 413, kind: "request_too_large"},
		{name: "413 deflate", make: asking([]string{limit}, deflated, "Content-Encoding: deflate"), status: 413, kind: "request_too_large"},
		{name: "415 zstd", make: asking(nil, "\x28\xb5\x2f\xfd", "Content-Encoding: zstd"), status: 415, kind: "invalid_request_error", says: "zstd"},
		{name: "415 br", make: asking(nil, "x", "Content-Encoding: br"), status: 415, kind: "invalid_request_error", says: "br"},
		{name: "415 two", make: asking(nil, zipped, "Content-Encoding: gzip, gzip"), status: 415, kind: "invalid_request_error"},
		{name: "400 no gzip", make: asking(nil, question(sonnet), "Content-Encoding: gzip"), status: 400, kind: "invalid_request_error", says: "content-encoding"},
		{name: "400 half gzip", make: asking(nil, zipped[:len(zipped)/2], "Content-Encoding: gzip"), status: 400, kind: "invalid_request_error"},
	})
}

func TestRefusesWhenExhausted(t *testing.T) {
	t.Parallel()
	limited, limitedURL := provider(t, demo.Step{Status: 429, Header: http.Header{"Retry-After": {"90"}}})
	_, spentURL := provider(t, demo.Step{Usage: demo.Usage{Input: 100, Output: 100}})
	hold := demo.HoldAt(5)
	_, busyURL := provider(t, demo.Step{Hold: hold})
	i := start(t, poolOf(
		poolKey(k1, limitedURL), poolKey(k2, spentURL, `"daily_limit_tokens":50`), poolKey(k3, busyURL, `"max_concurrent":1`)))

	i.good(question(sonnet)) // k1 refuses, k2 answers and has used its day up
	held := i.open(question(sonnet, streamed))
	<-hold.Reached() // k3 is busy

	r := i.message(question(sonnet))
	i.isRefusal(r, 429, "rate_limit_error")
	for _, text := range []string{"key pool exhausted", "1 cooling down", "1 over the day's limit", "1 busy"} {
		if !strings.Contains(r.body, text) {
			t.Errorf("%q is not in %s", text, r.body)
		}
	}
	if s, err := strconv.Atoi(r.header.Get("Retry-After")); err != nil || s < 1 || s > 100 { // 90 s and a tenth of jitter
		t.Errorf("retry-after %q", r.header.Get("Retry-After"))
	}
	if rec := i.record(r.trace()); rec.Outcome != "exhausted" || rec.Status != 429 || len(rec.Skipped) != 3 {
		t.Errorf("journal: %+v", rec)
	}
	hold.Release()
	if text, err := held.all(); err != nil || !strings.HasSuffix(text, evStop) {
		t.Errorf("the held stream ended with %q, %v", text, err)
	}
	if n := len(limited.Requests()); n != 1 {
		t.Errorf("the cooling key was asked %d times", n)
	}
}

func TestRefusesForItself(t *testing.T) {
	t.Parallel()
	panics := func(t *testing.T) (*instance, *reply) {
		t.Helper()
		_, url := provider(t)
		i := prepare(t, filepath.Join(t.TempDir(), "data"), poolOf(poolKey(k1, url)))
		// A route without a handler: calling it panics.
		i.server.proxyRoutes = append(i.server.proxyRoutes, proxy.Route{Methods: []string{"GET"}, Pattern: "/panic", Dialect: proxy.Anthropic})
		i.serve()
		r := i.ask("GET", "/panic", "")
		if !strings.Contains(r.body, "trace "+r.trace()) {
			t.Errorf("the message does not name the trace: %s", r.body)
		}
		if log := i.log.String(); !strings.Contains(log, "panic") || !strings.Contains(log, r.trace()) {
			t.Errorf("the panic is not in the log: %s", log)
		}
		return i, r
	}
	stopping := func(t *testing.T) (*instance, *reply) {
		t.Helper()
		hold := demo.HoldAt(5)
		_, url := provider(t, demo.Step{Hold: hold})
		i := start(t, poolOf(poolKey(k1, url)))
		held := i.open(question(sonnet, streamed))
		<-hold.Reached()
		i.finish()
		await(t, "the drain", i.server.draining.Load)
		r := i.message(question(sonnet))
		hold.Release()
		if text, err := held.all(); err != nil || !strings.HasSuffix(text, evStop) {
			t.Errorf("the stream in flight ended with %q, %v", text, err)
		}
		i.wait()
		return i, r
	}
	full := func(t *testing.T) (*instance, *reply) {
		t.Helper()
		hold := demo.HoldAt(5)
		_, url := provider(t, demo.Step{Hold: hold})
		i := start(t, `"limits":{"max_in_flight":1}`, poolOf(poolKey(k1, url)))
		held := i.open(question(sonnet, streamed))
		<-hold.Reached()
		r := i.message(question(sonnet))
		hold.Release()
		_, _ = held.all()
		return i, r
	}
	unreachable := func(t *testing.T) (*instance, *reply) {
		t.Helper()
		i := start(t, poolOf(poolKey(k1, nowhere(t)), poolKey(k2, nowhere(t))))
		return i, i.message(question(sonnet))
	}
	silent := func(body string) func(*testing.T) (*instance, *reply) {
		return func(t *testing.T) (*instance, *reply) {
			t.Helper()
			_, url := provider(t, demo.Step{Hold: demo.HoldAt(0)})
			i := start(t, `"timeouts":{"first_byte_seconds":0.05,"first_byte_nonstream_seconds":0.05}`, poolOf(poolKey(k1, url)))
			return i, i.message(body)
		}
	}
	garbage := func(t *testing.T) (*instance, *reply) {
		t.Helper()
		_, url := provider(t, demo.Step{Raw: "<html>login</html>"})
		i := start(t, poolOf(poolKey(k1, url)))
		return i, i.message(question(sonnet))
	}
	runRefusals(t, []refusalCase{
		{name: "500 panic", make: panics, status: 500, kind: "api_error"},
		{name: "502 no connection", make: unreachable, status: 502, kind: "api_error"},
		{name: "502 a page under 200", make: garbage, status: 502, kind: "api_error"},
		{name: "503 stopping", make: stopping, status: 503, kind: "overloaded_error", header: []string{"Retry-After"}},
		{name: "503 in flight", make: full, status: 503, kind: "overloaded_error", header: []string{"Retry-After"}},
		{name: "503 credential 401", make: against(demo.Step{Status: 401, Message: "invalid x-api-key"}),
			status: 503, kind: "api_error", says: "upstream credential rejected", header: []string{"Retry-After"}},
		{name: "503 credential 403", make: against(demo.Step{Status: 403, Message: "OAuth token revoked"}),
			status: 503, kind: "api_error", says: "upstream credential rejected", header: []string{"Retry-After"}},
		// A cap of one of our keys is no less ours: a client that gets 403 signs its user out (routing.md, section 4).
		{name: "503 credential 403 cap", make: against(demo.Step{Status: 403, Message: "Your account has reached its usage cap"}),
			status: 503, kind: "api_error", says: "upstream credential rejected", header: []string{"Retry-After"}},
		{name: "504 plain", make: silent(question(sonnet)), status: 504, kind: "timeout_error"},
		{name: "504 stream", make: silent(question(sonnet, streamed)), status: 504, kind: "timeout_error"},
	})
}

// After the header is written a fault of ours must not look like the end of the answer.
func TestPanicAfterHeaderAborts(t *testing.T) {
	t.Parallel()
	i := prepare(t, filepath.Join(t.TempDir(), "data"), poolOf(poolKey(k1, nowhere(t))))
	written := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tracked := &tracked{ResponseWriter: w}
		defer i.server.recovered(tracked, r, "trace")
		_, _ = io.WriteString(tracked, evBegin)
		panic("after the header")
	})
	i.serve()
	url := listen(t, written)
	resp, err := i.transport.RoundTrip(mustRequest(t, url))
	if err != nil {
		return // aborted before the first bytes went out: no clean end either
	}
	if r := readReply(resp); r.err == nil {
		t.Errorf("a clean end after %q", r.body)
	}
}

func mustRequest(t *testing.T, url string) *http.Request {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Refused requests of a known caller are in the journal too (design/data.md).
func TestJournalOfRefusals(t *testing.T) {
	t.Parallel()
	hold := demo.HoldAt(5)
	_, url := provider(t, demo.Step{Hold: hold})
	defer hold.Release()
	for _, c := range []struct {
		name    string
		members []string
		body    string
		status  int
		full    bool // a stream is in flight
	}{
		{name: "not JSON", body: "hello", status: 400},
		{name: "too large", members: []string{`"limits":{"max_body_bytes":1000}`}, body: strings.Repeat(" ", 1001), status: 413},
		{name: "over max_in_flight", members: []string{`"limits":{"max_in_flight":1}`}, body: question(sonnet), status: 503, full: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := start(t, append(c.members, poolOf(poolKey(k1, url)), oneCaller())...)
			if c.full {
				i.open(question(sonnet, streamed), "x-api-key: "+requestKey)
				<-hold.Reached()
			}
			r := i.message(c.body, "x-api-key: "+requestKey)
			if r.status != c.status {
				t.Fatalf("status %d: %s", r.status, r.body)
			}
			if rec := i.record(r.trace()); rec.Status != c.status || rec.Caller != "laptop" || rec.Outcome != "error" {
				t.Errorf("journal: %+v", rec)
			}
		})
	}
	t.Run("group", func(t *testing.T) {
		i := prepare(t, filepath.Join(t.TempDir(), "data"), poolOf(poolKey(k1, url)))
		i.admit(func(s *liveState) {
			s.callers = auth.NewCallers(auth.Options{RequestKeys: []auth.RequestKey{{Code: "laptop", Key: auth.NewSecret(requestKey), Group: "gone"}}})
		})
		i.serve()
		r := i.message(question(sonnet), "x-api-key: "+requestKey)
		if rec := i.record(r.trace()); rec.Status != 403 || rec.Caller != "laptop" {
			t.Errorf("journal: %+v", rec)
		}
	})
}

// A key that is shown beside others is found wherever it stands.
func TestFindsRequestKey(t *testing.T) {
	t.Parallel()
	_, url := provider(t)
	i := start(t, oneCaller(), poolOf(poolKey(k1, url)))
	for _, c := range []struct {
		name, path string
		header     []string
		status     int
	}{
		{"x-proxy-key", "/v1/messages", []string{"x-proxy-key: " + requestKey}, 200},
		{"x-api-key", "/v1/messages", []string{"x-api-key: " + requestKey}, 200},
		{"bearer", "/v1/messages", []string{"authorization: Bearer " + requestKey}, 200},
		{"bearer in lower case", "/v1/messages", []string{"authorization: bearer " + requestKey}, 200},
		{"x-goog-api-key", "/v1/messages", []string{"x-goog-api-key: " + requestKey}, 200},
		{"query", "/v1/messages?beta=true&key=" + requestKey, nil, 200},
		{"second of two", "/v1/messages", []string{"x-api-key: sk-ant-other", "authorization: Bearer " + requestKey}, 200},
		{"same header twice", "/v1/messages", []string{"x-api-key: sk-ant-other", "x-api-key: " + requestKey}, 200},
		{"prefixed path", "/anthropic/v1/messages", []string{"x-api-key: " + requestKey}, 200},
		{"basic", "/v1/messages", []string{"authorization: Basic " + requestKey}, 401},
		{"no scheme", "/v1/messages", []string{"authorization: " + requestKey}, 401},
		{"cookie", "/v1/messages", []string{"cookie: x-api-key=" + requestKey}, 401},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := i.in(t).ask("POST", c.path, question(sonnet), append(c.header, version)...)
			if r.status != c.status {
				t.Errorf("status %d, want %d: %s", r.status, c.status, r.body)
			}
		})
	}
}

// A client that stops sending must not hold a connection for ever: neither where its body is read nor where the
// answer does not need it. net/http reads up to 256 KiB of a body that a handler left before it sends the answer.
func TestAnswersStalledBodies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, line, header string
		status             int
		kind               string
	}{
		{"400 declared", "POST /v1/messages", "Content-Length: 100", 400, "invalid_request_error"},
		{"400 declared long", "POST /v1/messages", "Content-Length: 4000000", 400, "invalid_request_error"},
		{"400 chunked", "POST /v1/messages", "Transfer-Encoding: chunked", 400, "invalid_request_error"},
		{"400 gzip", "POST /v1/messages", "Content-Length: 100\r\nContent-Encoding: gzip", 400, "invalid_request_error"},
		{"401", "POST /v1/messages", "Content-Length: 100\r\nX-Api-Key: request-key-of-nobody", 401, "authentication_error"},
		{"404", "POST /v3", "Content-Length: 100", 404, "not_found_error"},
		{"405", "PUT /v1/messages", "Content-Length: 100", 405, "invalid_request_error"},
		{"413", "POST /v1/messages", "Content-Length: 5000001", 413, "request_too_large"},
		{"415", "POST /v1/messages", "Content-Length: 100\r\nContent-Encoding: br", 415, "invalid_request_error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			i := start(t, `"timeouts":{"idle_seconds":0.05},"limits":{"max_body_bytes":5000000}`, oneCaller(), poolOf(poolKey(k1, nowhere(t))))
			if c.status != 401 {
				c.header += "\r\nX-Api-Key: " + requestKey
			}
			_, in := i.raw(c.line + " HTTP/1.1\r\nHost: localhost\r\n" + c.header + "\r\n\r\n")
			i.isRefusal(rawReply(t, in), c.status, c.kind)
		})
	}
}

// A stop waits for what is in flight only so long.
func TestStopCutsOffInTheEnd(t *testing.T) {
	t.Parallel()
	hold := demo.HoldAt(5)
	_, url := provider(t, demo.Step{Hold: hold})
	i := start(t, poolOf(poolKey(k1, url)))
	i.config().Server.Shutdown = 50 * time.Millisecond
	held := i.open(question(sonnet, streamed))
	<-hold.Reached()
	i.stop()
	if text, err := held.all(); err == nil && !strings.Contains(text, "event: error") {
		t.Errorf("the stream that was cut off ended clean: %q", text)
	}
	if recs := i.records(""); len(recs) != 1 || recs[0].Outcome == "ok" {
		t.Errorf("journal: %+v", recs)
	}
}

// A request for one token only asks whether anybody is there: it is answered here and costs nothing.
func TestProbe(t *testing.T) {
	t.Parallel()
	p, url := provider(t)
	pool := poolOf(poolKey(k1, url, `"models":{"claude-sonnet-5-5":"s"}`))
	i := start(t, pool)
	probe := func(model, more string) string {
		return fmt.Sprintf(`{"model":%q,"max_tokens":1,"messages":[{"role":"user","content":"zebra"}]%s}`, model, more)
	}
	if r := i.good(probe(sonnet, "")); !strings.Contains(r.body, `"type":"message"`) || !strings.Contains(r.body, sonnet) {
		t.Errorf("body %s", r.body)
	} else if rec := i.record(r.trace()); rec.Outcome != "local" {
		t.Errorf("journal: %+v", rec)
	}
	if r := i.good(probe(sonnet, ","+streamed)); !strings.HasSuffix(r.body, evStop) || !strings.HasPrefix(r.header.Get("Content-Type"), "text/event-stream") {
		t.Errorf("stream %s", r.body)
	}
	i.isRefusal(i.message(probe("none", "")), 404, "not_found_error")
	if n := len(p.Requests()); n != 0 {
		t.Errorf("%d requests went upstream", n)
	}
	if r := i.ask("GET", "/api/stats", ""); strings.Contains(r.body, sonnet) {
		t.Errorf("a probe was counted: %s", r.body)
	}
	i = start(t, `"answer_probes":false`, pool)
	i.good(probe(sonnet, ""))
	if n := len(p.Requests()); n != 1 {
		t.Errorf("switched off, %d requests went upstream", n)
	}
}
