package daemon

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"coding-proxy/proxy/demo"
)

// own is what a client shows to its provider.
const own = "sk-ant-own-of-the-client"

// post is a raw request with these header lines.
func post(body string, lines ...string) string {
	return "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\n" + strings.Join(append(lines, ""), "\r\n") +
		fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)
}

func TestHeadersToUpstream(t *testing.T) {
	t.Parallel()
	b := newBackend(t, says(200, whole))
	i := start(t, oneCaller(), poolOf(poolKey(k1, b.URL)))
	for _, c := range []struct {
		sent []string            // lines
		want map[string][]string // upstream's values, nil for none
	}{
		{[]string{"X-Custom: 1", "x-app: cli", "X-Stainless-Lang: js"}, map[string][]string{"X-Custom": {"1"}, "X-App": {"cli"}, "X-Stainless-Lang": {"js"}}},
		{[]string{"User-Agent: claude-cli/2.1.332 (external, cli)"}, map[string][]string{"User-Agent": {"claude-cli/2.1.332 (external, cli)"}}},
		{nil, map[string][]string{"User-Agent": nil, "Accept-Encoding": {"identity"}, "X-Forwarded-For": nil, "X-Forwarded-Host": nil, "X-Forwarded-Proto": nil}},
		{[]string{"Accept: application/json", "Content-Type: application/json; charset=utf-8"},
			map[string][]string{"Accept": {"application/json"}, "Content-Type": {"application/json; charset=utf-8"}}},
		{[]string{"anthropic-version: 2023-06-01", "anthropic-dangerous-direct-browser-access: true"},
			map[string][]string{"Anthropic-Version": {"2023-06-01"}, "Anthropic-Dangerous-Direct-Browser-Access": {"true"}}},
		{[]string{"anthropic-beta: b-2025-01-01,  a-2026-01-01", "anthropic-beta: unknown-9"},
			map[string][]string{"Anthropic-Beta": {"b-2025-01-01,  a-2026-01-01", "unknown-9"}}},
		{[]string{"X-Claude-Code-Session-Id: s", "X-Session-Id: s"}, map[string][]string{"X-Claude-Code-Session-Id": {"s"}, "X-Session-Id": {"s"}}},

		{[]string{"Accept-Encoding: gzip, deflate, br, zstd"}, map[string][]string{"Accept-Encoding": {"identity"}}},
		{[]string{"Cookie: a=b", "Origin: http://localhost", "Referer: http://localhost/", "Idempotency-Key: 1"},
			map[string][]string{"Cookie": nil, "Origin": nil, "Referer": nil, "Idempotency-Key": nil}},
		{[]string{"X-Forwarded-For: 10.0.0.9", "X-Forwarded-Host: h", "X-Forwarded-Proto: https", "X-Forwarded-Anything: x", "Forwarded: for=10.0.0.9", "Via: 1.1 x"},
			map[string][]string{"X-Forwarded-For": nil, "X-Forwarded-Host": nil, "X-Forwarded-Proto": nil, "X-Forwarded-Anything": nil, "Forwarded": nil, "Via": nil}},
		{[]string{"X-Real-Ip: 10.0.0.9", "Cf-Connecting-Ip: 10.0.0.9", "True-Client-Ip: 10.0.0.9"},
			map[string][]string{"X-Real-Ip": nil, "Cf-Connecting-Ip": nil, "True-Client-Ip": nil}},
		{[]string{"OpenAI-Organization: org", "OpenAI-Project: proj", "X-Goog-User-Project: mine", "ChatGPT-Account-Id: acct", "OpenAI-Beta: x=v1"},
			map[string][]string{"Openai-Organization": nil, "Openai-Project": nil, "X-Goog-User-Project": nil, "Chatgpt-Account-Id": nil, "Openai-Beta": {"x=v1"}}},
		{[]string{"X-Proxy-Trace: 1", "X-Proxy-Anything: 1"}, map[string][]string{"X-Proxy-Trace": nil, "X-Proxy-Anything": nil}},
		{[]string{"Te: trailers", "Proxy-Connection: close", "Proxy-Authorization: Basic eDp5", "Proxy-Authenticate: Basic"},
			map[string][]string{"Te": nil, "Proxy-Connection": nil, "Proxy-Authorization": nil, "Proxy-Authenticate": nil, "Connection": nil}},
		{[]string{"Connection: X-Tmp-1", "Connection: keep-alive, X-Tmp-2", "Keep-Alive: timeout=9", "X-Tmp-1: a", "X-Tmp-2: b", "X-Tmp-3: c"},
			map[string][]string{"X-Tmp-1": nil, "X-Tmp-2": nil, "X-Tmp-3": {"c"}, "Keep-Alive": nil, "Connection": nil}},
		// The connection's own headers may not name what the proxy puts in.
		{[]string{"Connection: x-api-key, accept-encoding"}, map[string][]string{"X-Api-Key": {credential(k1)}, "Accept-Encoding": {"identity"}}},
	} {
		_, in := i.raw(post(question(sonnet), append(c.sent, "X-Proxy-Key: "+requestKey)...))
		if r := rawReply(t, in); r.status != 200 {
			t.Errorf("%q: status %d: %s", c.sent, r.status, r.body)
			continue
		}
		got := b.requests()
		last := got[len(got)-1]
		for name, want := range c.want {
			if values := last.header[name]; !slices.Equal(values, want) {
				t.Errorf("%q: upstream has %s: %q, want %q", c.sent, name, values, want)
			}
		}
		if want := strings.TrimPrefix(b.URL, "http://"); last.host != want {
			t.Errorf("host %q, want %q", last.host, want)
		}
	}
}

// The account that a client picks is that of its own credential: it goes along where that does, and configured headers always.
func TestAccountGoesWithItsCredential(t *testing.T) {
	t.Parallel()
	mine, theirs := newBackend(t, says(200, whole)), newBackend(t, says(200, whole))
	header := []string{"X-Api-Key: " + own, "OpenAI-Organization: org-of-the-client"}
	i := start(t, poolOf(poolKey(k1, mine.URL, `"headers":{"OpenAI-Organization":"org-of-the-key"}`)))
	i.good(question(sonnet), header...)
	if got := mine.only(t).header["Openai-Organization"]; !slices.Equal(got, []string{"org-of-the-key"}) {
		t.Errorf("with a key of ours: %q", got)
	}
	i = start(t, poolOf(passthroughKey(k1, theirs.URL)))
	i.good(question(sonnet), header...)
	if got := theirs.only(t).header["Openai-Organization"]; !slices.Equal(got, []string{"org-of-the-client"}) {
		t.Errorf("with the client's own: %q", got)
	}
}

// Whatever a client shows, here or to its provider, stays here.
func TestCredentialsStayHere(t *testing.T) {
	t.Parallel()
	b := newBackend(t, says(200, whole))
	i := start(t, oneCaller(), poolOf(poolKey(k1, b.URL)))
	for _, c := range []struct {
		name, query string
		lines       []string
		want        string // the query upstream
	}{
		{name: "x-proxy-key", lines: []string{"X-Proxy-Key: " + requestKey}},
		{name: "x-api-key", lines: []string{"X-Api-Key: " + requestKey}},
		{name: "bearer", lines: []string{"Authorization: Bearer " + requestKey}},
		{name: "x-goog-api-key", lines: []string{"X-Goog-Api-Key: " + requestKey}},
		{name: "all at once", query: "?key=" + requestKey, lines: []string{
			"X-Proxy-Key: " + requestKey, "X-Api-Key: " + own, "Authorization: Bearer " + requestKey, "Authorization: Basic " + own,
			"X-Goog-Api-Key: " + own, "Proxy-Authorization: Bearer " + requestKey, "Cookie: key=" + requestKey}},
		{name: "query", query: "?key=" + requestKey},
		{name: "query with others", query: "?beta=true&key=" + requestKey + "&x=%20y", want: "?beta=true&x=%20y"},
		{name: "query twice", query: "?key=" + own + "&beta=true&key=" + requestKey, want: "?beta=true"},
		{name: "an access token in the query", query: "?access_token=" + own + "&beta=true", lines: []string{"X-Api-Key: " + requestKey}, want: "?beta=true"},
		{name: "query with an escaped name", query: "?monkey=1&k%65y=" + requestKey, want: "?monkey=1"},
		{name: "query with an escaped value", query: "?beta=true&key=request%2Dkey-of-laptop", want: "?beta=true"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.Replace(post(question(sonnet), c.lines...), "/v1/messages", "/v1/messages"+c.query, 1)
			_, in := i.in(t).raw(text)
			if r := rawReply(t, in); r.status != 200 {
				t.Fatalf("status %d: %s", r.status, r.body)
			}
			got := b.requests()
			last := got[len(got)-1]
			for _, secret := range []string{requestKey, own, "request%2Dkey"} {
				if strings.Contains(last.text(), secret) {
					t.Errorf("%q went upstream: %s", secret, last.text())
				}
			}
			if last.uri != "/v1/messages"+c.want {
				t.Errorf("upstream's address is %s", last.uri)
			}
			if keys := last.header["X-Api-Key"]; !slices.Equal(keys, []string{credential(k1)}) {
				t.Errorf("x-api-key: %q", keys)
			}
		})
	}
}

func TestPassthroughSendsTheClientsOwn(t *testing.T) {
	t.Parallel()
	b := newBackend(t, says(200, whole))
	closed := start(t, oneCaller(), poolOf(passthroughKey(k1, b.URL)))
	open := start(t, poolOf(passthroughKey(k1, b.URL)))
	for _, c := range []struct {
		name        string
		from        *instance
		sent        []string
		key, bearer []string // x-api-key and authorization upstream
	}{
		{"its key", open, []string{"x-api-key: " + own}, []string{own}, nil},
		{"its token", open, []string{"authorization: Bearer " + own}, nil, []string{"Bearer " + own}},
		{"both", open, []string{"x-api-key: " + own, "authorization: Bearer t"}, []string{own}, []string{"Bearer t"}},
		{"none", open, nil, nil, nil},
		{"beside x-proxy-key", closed, []string{"x-proxy-key: " + requestKey, "x-api-key: " + own}, []string{own}, nil},
		{"beside a request key as token", closed, []string{"x-api-key: " + own, "authorization: Bearer " + requestKey}, []string{own}, nil},
		{"beside a request key as key", closed, []string{"x-api-key: " + requestKey, "authorization: Bearer " + own}, nil, []string{"Bearer " + own}},
		{"beside a request key in the same header", closed, []string{"x-api-key: " + requestKey, "x-api-key: " + own}, []string{own}, nil},
		{"request key alone", closed, []string{"x-api-key: " + requestKey}, nil, nil},
		{"request key everywhere", closed, []string{"x-api-key: " + requestKey, "authorization: bearer  " + requestKey, "x-goog-api-key: " + requestKey, "x-proxy-key: " + requestKey}, nil, nil},
		{"request key with a prefix", closed, []string{"x-proxy-key: " + requestKey, "x-api-key: Bearer " + requestKey}, nil, nil},
		{"request key without a scheme", closed, []string{"x-proxy-key: " + requestKey, "authorization: " + requestKey}, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.from.in(t).good(question(sonnet), c.sent...)
			got := b.requests()
			last := got[len(got)-1]
			if k, a := last.header["X-Api-Key"], last.header["Authorization"]; !slices.Equal(k, c.key) || !slices.Equal(a, c.bearer) {
				t.Errorf("upstream has x-api-key %q and authorization %q, want %q and %q", k, a, c.key, c.bearer)
			}
			if strings.Contains(last.text(), requestKey) {
				t.Errorf("the request key went upstream: %s", last.text())
			}
		})
	}
}

// What a passthrough key earns by one client's credential, or by the lack of one, is not the key's (routing.md, 4).
func TestPassthroughCoolsPerCredential(t *testing.T) {
	t.Parallel()
	for _, first := range []struct{ name, header string }{
		{"bad credential", "x-api-key: sk-ant-revoked"},
		{"no credential", ""},
	} {
		t.Run(first.name, func(t *testing.T) {
			t.Parallel()
			b := newBackend(t, func(w http.ResponseWriter, r *http.Request, _ int) {
				if r.Header.Get("X-Api-Key") != own {
					say(w, 401, failure("authentication_error", "invalid x-api-key"))
					return
				}
				say(w, 200, whole)
			})
			_, url := provider(t)
			i := start(t, oneCaller(), poolOf(passthroughKey(k1, b.URL), poolKey(k2, url)))
			i.good(question(sonnet), "x-proxy-key: "+requestKey, first.header)
			r := i.good(question(sonnet), "x-proxy-key: "+requestKey, "x-api-key: "+own)
			if rec := i.record(r.trace()); rec.Key != k1 {
				t.Errorf("a client with a good credential is kept off the passthrough key: it got %s, skipped %+v", rec.Key, rec.Skipped)
			}
		})
	}
}

func TestConfiguredHeaders(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		key  []string // further members of the pool key
		sent []string
		want map[string][]string
	}{
		{"bearer", []string{`"key_header_name":"Authorization"`}, []string{"x-api-key: " + own},
			map[string][]string{"Authorization": {"Bearer " + credential(k1)}, "X-Api-Key": nil}},
		{"prefix", []string{`"key_header_name":"X-Token"`, `"key_prefix":"Key "`}, nil,
			map[string][]string{"X-Token": {"Key " + credential(k1)}, "X-Api-Key": nil, "Authorization": nil}},
		{"replaced", []string{`"headers":{"User-Agent":"mine/1","X-Custom":"config"}`}, []string{"user-agent: theirs/2", "x-custom: a", "x-custom: b"},
			map[string][]string{"User-Agent": {"mine/1"}, "X-Custom": {"config"}}},
		{"beta added", []string{`"headers":{"anthropic-beta":"oauth-1"}`}, nil, map[string][]string{"Anthropic-Beta": {"oauth-1"}}},
		{"beta merged", []string{`"headers":{"anthropic-beta":"oauth-1, b-2"}`}, []string{"anthropic-beta: a-1,b-2", "anthropic-beta: c-3"},
			map[string][]string{"Anthropic-Beta": {"a-1,b-2,c-3,oauth-1"}}},
		{"beta dropped", []string{`"drop_betas":["b-2"]`}, []string{"anthropic-beta: a-1, b-2", "anthropic-beta: c-3"},
			map[string][]string{"Anthropic-Beta": {"a-1,c-3"}}},
		{"all betas dropped", []string{`"drop_betas":["a-1"]`}, []string{"anthropic-beta: a-1"}, map[string][]string{"Anthropic-Beta": nil}},
		{"beta dropped from the client's, not from ours", []string{`"drop_betas":["a-1"]`, `"headers":{"anthropic-beta":"oauth-1"}`}, []string{"anthropic-beta: a-1"},
			map[string][]string{"Anthropic-Beta": {"oauth-1"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBackend(t, says(200, whole))
			i := start(t, poolOf(poolKey(k1, b.URL, c.key...)))
			i.good(question(sonnet), c.sent...)
			for name, want := range c.want {
				if got := b.only(t).header[name]; !slices.Equal(got, want) {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
		})
	}
}

func TestDropsFields(t *testing.T) {
	t.Parallel()
	b := newBackend(t, says(200, whole))
	i := start(t, poolOf(poolKey(k1, b.URL, `"drop_fields":["context_management","speed"]`, `"models":{"*":"glm"}`)))
	i.good(`{ "speed":"fast", "model" : "m", "max_tokens":9,` + "\n" + ` "context_management":{"edits":["}"]}, "messages":[{"role":"user","content":"speed"}] , "metadata":{"speed":1}}`)
	want := `{ "model" : "glm", "max_tokens":9, "messages":[{"role":"user","content":"speed"}] , "metadata":{"speed":1}}`
	if r := b.only(t); r.body != want || r.length != int64(len(want)) {
		t.Errorf("upstream got %s (length %d), want %s", r.body, r.length, want)
	}
}

func TestJoinsBaseURL(t *testing.T) {
	t.Parallel()
	b := newBackend(t, says(200, whole))
	for _, c := range []struct{ base, want string }{
		{"", "/v1/messages?beta=true"},
		{"/", "/v1/messages?beta=true"},
		{"/v1", "/v1/messages?beta=true"},
		{"/v1/", "/v1/messages?beta=true"},
		{"/api/anthropic", "/api/anthropic/v1/messages?beta=true"},
		{"/api/anthropic/v1", "/api/anthropic/v1/messages?beta=true"},
		{"/v1/api", "/v1/api/v1/messages?beta=true"},
		{"/v2", "/v2/messages?beta=true"},
		{"/a%2Fb", "/a%2Fb/v1/messages?beta=true"},
		{"/a%20b", "/a%20b/v1/messages?beta=true"},
	} {
		t.Run(c.base, func(t *testing.T) {
			i := start(t, poolOf(poolKey(k1, b.URL+c.base)))
			for _, path := range []string{"/v1/messages?beta=true", "/anthropic/v1/messages?beta=true"} {
				if r := i.ask("POST", path, question(sonnet), version); r.status != 200 {
					t.Fatalf("status %d", r.status)
				}
				got := b.requests()
				if uri := got[len(got)-1].uri; uri != c.want {
					t.Errorf("%s: upstream got %s, want %s", path, uri, c.want)
				}
			}
		})
	}
}

// answering is a raw upstream that reads one request a connection and writes text.
func answering(t *testing.T, text string) string {
	t.Helper()
	return rawUpstream(t, func(conn *net.TCPConn, in *bufio.Reader, _ int) {
		if r, err := http.ReadRequest(in); err == nil {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(conn, text)
		}
	})
}

func TestHeadersToClient(t *testing.T) {
	t.Parallel()
	lines := strings.Join([]string{
		"Connection: X-Tmp-1", "Connection: keep-alive, X-Tmp-2", "X-Tmp-1: a", "X-Tmp-2: b", "Keep-Alive: timeout=5",
		"Proxy-Authenticate: Basic", "Set-Cookie: sid=1", "Set-Cookie: b=2", "Server: nginx", "X-Proxy-Trace: theirs", "X-Proxy-Key-Id: theirs",
		"Request-Id: req_9", "Retry-After: 7", "Anthropic-Ratelimit-Requests-Remaining: 3", "X-Ratelimit-Reset: 1s", "Openai-Processing-Ms: 5", "X-Other: kept",
	}, "\r\n") + "\r\n"
	kept := map[string]string{
		"Request-Id": "req_9", "Retry-After": "7", "Anthropic-Ratelimit-Requests-Remaining": "3", "X-Ratelimit-Reset": "1s",
		"Openai-Processing-Ms": "5", "X-Other": "kept", "X-Proxy-Tier": "default", "X-Proxy-Attempts": "1",
	}
	head := func(status, contentType, body string) string {
		return fmt.Sprintf("HTTP/1.1 %s\r\nContent-Type: %s\r\n%sContent-Length: %d\r\n\r\n%s", status, contentType, lines, len(body), body)
	}
	refused := failure("invalid_request_error", "messages: at least one message is required")
	for _, c := range []struct {
		name, answer, ask string
		status            int
		body              string
	}{
		{"plain", head("200 OK", "application/json", whole), question(sonnet), 200, whole},
		{"stream", head("200 OK", "text/event-stream", evAll), question(sonnet, streamed), 200, evAll},
		{"error", head("400 Bad Request", "application/json", refused), question(sonnet), 400, refused},
		{"error of a stream", head("400 Bad Request", "application/json", refused), question(sonnet, streamed), 400, refused},
		{"retryable error of all keys", head("529 Overloaded", "application/json", failure("overloaded_error", "Overloaded")), question(sonnet), 529, failure("overloaded_error", "Overloaded")},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			i := start(t, poolOf(poolKey(k1, answering(t, c.answer))))
			r := i.message(c.ask)
			if r.status != c.status || r.body != c.body {
				t.Errorf("status %d, body %q", r.status, r.body)
			}
			for name, want := range kept {
				if got := r.header[name]; len(got) != 1 || got[0] != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
			for _, name := range []string{"X-Tmp-1", "X-Tmp-2", "Keep-Alive", "Proxy-Authenticate", "Set-Cookie", "Server", "X-Proxy-Key-Id"} {
				if got := r.header[name]; got != nil {
					t.Errorf("%s: %q has come through", name, got)
				}
			}
			if len(r.trace()) != 16 || len(r.header["X-Proxy-Trace"]) != 1 {
				t.Errorf("trace %q", r.header["X-Proxy-Trace"])
			}
		})
	}
}

// An upstream cannot take away what the proxy adds by naming it in Connection.
func TestAddedHeadersSurviveConnection(t *testing.T) {
	t.Parallel()
	text := fmt.Sprintf("HTTP/1.1 200 OK\r\nConnection: x-proxy-trace, x-proxy-tier\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(whole), whole)
	i := start(t, poolOf(poolKey(k1, answering(t, text))))
	if r := i.good(question(sonnet)); r.trace() == "" || r.header.Get("X-Proxy-Tier") == "" {
		t.Errorf("headers %v", r.header)
	}
}

// 1xx answers of an upstream are dropped, those of an attempt that failed too.
func TestDropsInformational(t *testing.T) {
	t.Parallel()
	early := "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\nSet-Cookie: a=b\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n"
	bad := answering(t, early+"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n")
	good := answering(t, early+fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(whole), whole))
	i := start(t, poolOf(poolKey(k1, bad), poolKey(k2, good)))
	_, in := i.raw(post(question(sonnet)))
	if r := rawReply(t, in); r.status != 200 || r.header.Get("Link") != "" || r.body != whole {
		t.Errorf("the client's first answer is %d %v", r.status, r.header)
	}
}

func TestTrailers(t *testing.T) {
	t.Parallel()
	b := newBackend(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		w.Header().Set("Trailer", "X-Checksum, X-Echo")
		pour(w, evAll)
		w.Header().Set("X-Checksum", "abc")
		w.Header().Set("X-Echo", r.Header.Get("X-Api-Key"))
	})
	i := start(t, poolOf(poolKey(k1, b.URL)))
	r := i.good(question(sonnet, streamed))
	if r.trailer.Get("X-Checksum") != "abc" {
		t.Errorf("trailers %v", r.trailer)
	}
	if strings.Contains(fmt.Sprint(r.trailer), credential(k1)) {
		t.Errorf("our key is in a trailer: %v", r.trailer)
	}
}

func packed(t *testing.T, encoding, text string) string {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch encoding {
	case "gzip", "GZIP":
		w = gzip.NewWriter(&b)
	case "deflate":
		w = zlib.NewWriter(&b)
	default:
		w, _ = flate.NewWriter(&b, flate.BestSpeed)
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	w.Close()
	return b.String()
}

// HDR-007: an answer that is compressed all the same is undone; what cannot be undone is a failed attempt.
func TestHDR007ContentEncodingAfterDecode(t *testing.T) {
	t.Parallel()
	refused := failure("invalid_request_error", "no")
	for _, c := range []struct {
		name, encoding, ask string
		status              int
		body, contentType   string
		fails               bool
	}{
		{"gzip", "gzip", question(sonnet), 200, whole, "application/json", false},
		{"gzip in capitals", "GZIP", question(sonnet), 200, whole, "application/json", false},
		{"deflate", "deflate", question(sonnet), 200, whole, "application/json", false},
		{"deflate without zlib's head", "raw", question(sonnet), 200, whole, "application/json", false},
		{"gzip stream", "gzip", question(sonnet, streamed), 200, evAll, "text/event-stream", false},
		{"gzip error", "gzip", question(sonnet), 400, refused, "application/json", false},
		{"br", "br", question(sonnet), 200, whole, "application/json", true},
		{"zstd", "zstd", question(sonnet), 200, whole, "application/json", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			body := packed(t, c.encoding, c.body)
			named := c.encoding
			if named == "raw" {
				named = "deflate"
			}
			b := newBackend(t, says(c.status, body, "Content-Type: "+c.contentType, "Content-Encoding: "+named))
			_, url := provider(t)
			i := start(t, poolOf(poolKey(k1, b.URL), poolKey(k2, url)))
			r := i.message(c.ask)
			if c.fails {
				if rec := i.record(r.trace()); r.status != 200 || rec.Key != k2 {
					t.Errorf("status %d by %s, want 200 by the next key", r.status, rec.Key)
				}
				return
			}
			if r.status != c.status || r.body != c.body || r.err != nil {
				t.Errorf("status %d, error %v, body %q", r.status, r.err, r.body)
			}
			if r.header.Get("Content-Encoding") != "" {
				t.Errorf("content-encoding %q is left", r.header.Get("Content-Encoding"))
			}
			if n := r.header.Get("Content-Length"); n != "" && n != fmt.Sprint(len(c.body)) {
				t.Errorf("content-length %s of %d bytes", n, len(c.body))
			}
		})
	}
}

// A gzip stream is passed on event by event.
func TestGzipStreamFlows(t *testing.T) {
	t.Parallel()
	next := make(chan struct{})
	b := newBackend(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Type", "text/event-stream")
		z := gzip.NewWriter(w)
		for _, piece := range []string{evBegin, evDelta, evRest} {
			_, _ = io.WriteString(z, piece)
			z.Flush()
			_ = http.NewResponseController(w).Flush()
			select {
			case <-next:
			case <-r.Context().Done():
				return
			}
		}
		z.Close()
	})
	i := start(t, poolOf(poolKey(k1, b.URL)))
	l := i.open(question(sonnet, streamed))
	for _, piece := range []string{evBegin, evDelta, evRest} {
		l.expect(piece)
		next <- struct{}{}
	}
	if text, err := l.all(); text != "" || err != nil {
		t.Errorf("after the end: %q, %v", text, err)
	}
}

// A compressed request goes upstream decoded.
func TestDecodesRequests(t *testing.T) {
	t.Parallel()
	b := newBackend(t, says(200, whole))
	i := start(t, poolOf(poolKey(k1, b.URL)))
	body := question(sonnet, `"metadata":{"user_id":"`+strings.Repeat("u", 100_000)+`"}`)
	for _, encoding := range []string{"gzip", "deflate", "raw"} {
		named := strings.Replace(encoding, "raw", "deflate", 1)
		i.good(packed(t, encoding, body), "content-encoding: "+named)
		got := b.requests()
		last := got[len(got)-1]
		if last.body != body || last.length != int64(len(body)) || last.header.Get("Content-Encoding") != "" {
			t.Errorf("%s: %d bytes, length %d, content-encoding %q", encoding, len(last.body), last.length, last.header.Get("Content-Encoding"))
		}
	}
}

// An upstream that repeats our key must not hand it to the client.
func TestMasksOurKeys(t *testing.T) {
	t.Parallel()
	const configured = "configured-header-secret"
	innocent := strings.Repeat("i", len(credential(k1)))
	key := func(url string) string { return poolKey(k1, url, `"headers":{"X-Org":"`+configured+`"}`) }
	echo := "invalid key " + credential(k1) + " of " + configured + ", not " + innocent
	masked := "invalid key *** of ***, not " + innocent
	for _, c := range []struct {
		name, ask string
		answer    func(http.ResponseWriter, *http.Request, int)
		status    int
		body      string
	}{
		{"error", question(sonnet), says(400, failure("invalid_request_error", echo)), 400, failure("invalid_request_error", masked)},
		{"error that all keys had", question(sonnet), says(500, failure("api_error", echo)), 500, failure("api_error", masked)},
		{"error under 200", question(sonnet), says(200, failure("invalid_request_error", echo)), 400, failure("invalid_request_error", masked)},
		{"error in the head of a stream", question(sonnet, streamed),
			pours(evStart, "event: error\ndata: "+failure("invalid_request_error", echo)+"\n\n"), 400, failure("invalid_request_error", masked)},
		{"error in a stream", question(sonnet, streamed), pours(evBegin, "event: error\ndata: "+failure("api_error", echo)+"\n\n"),
			200, evBegin + "event: error\ndata: " + failure("api_error", masked) + "\n\n"},
		{"header", question(sonnet), says(200, whole, "X-Debug: key="+credential(k1), "X-Debug: "+innocent), 200, whole},
		{"header of an error", question(sonnet), says(400, failure("invalid_request_error", "no"), "X-Debug: "+echo), 400, failure("invalid_request_error", "no")},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBackend(t, c.answer)
			i := start(t, poolOf(key(b.URL)))
			r := i.message(c.ask)
			if r.status != c.status || r.body != c.body || r.err != nil {
				t.Errorf("status %d, error %v, body %s, want %d and %s", r.status, r.err, r.body, c.status, c.body)
			}
			i.tellsNothing(r)
			if strings.Contains(fmt.Sprint(r.header), configured) {
				t.Errorf("headers %v", r.header)
			}
			if n := r.header.Get("Content-Length"); n != "" && n != fmt.Sprint(len(c.body)) {
				t.Errorf("content-length %s of %d bytes", n, len(c.body))
			}
			if v := r.header["X-Debug"]; len(v) == 2 && (v[0] != "key=***" || v[1] != innocent) {
				t.Errorf("x-debug: %q", v)
			}
		})
	}
}

// SEC-010: a redirect is an upstream error; the key goes nowhere else.
func TestSEC010RedirectCarriesKey(t *testing.T) {
	t.Parallel()
	for _, status := range []int{301, 302, 303, 307, 308} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			other, otherURL := provider(t)
			b := newBackend(t, says(status, "", "Location: "+otherURL+"/v1/messages"))
			i := start(t, poolOf(poolKey(k1, b.URL)))
			r := i.message(question(sonnet))
			i.isRefusal(r, 502, "api_error")
			if r.header.Get("Location") != "" {
				t.Errorf("location %q", r.header.Get("Location"))
			}
			if n := len(other.Requests()); n != 0 {
				t.Errorf("%d requests were redirected", n)
			}
			if k := i.keys()[k1]; k.State != "cooling" {
				t.Errorf("the key is %s", k.State)
			}
		})
	}
}

// Errors of an upstream come back byte for byte: clients read type, code and wording.
func TestUpstreamErrorsUnchanged(t *testing.T) {
	t.Parallel()
	odd := `{ "type":"error","error" : {"type":"invalid_request_error","message":"é \u003cx\u003e","extra":1e400},"z":[ ]}` + "\n"
	for _, body := range []string{question(sonnet), question(sonnet, streamed)} {
		b := newBackend(t, says(422, odd, "Content-Type: application/json"))
		i := start(t, poolOf(poolKey(k1, b.URL)))
		if r := i.message(body); r.status != 422 || r.body != odd {
			t.Errorf("status %d, body %q", r.status, r.body)
		}
		i.untouched(k1)
	}
	// Of several keys' errors the first tier's last one is told.
	_, one := provider(t, demo.Step{Status: 529, Message: "first"})
	_, two := provider(t, demo.Step{Status: 500, Message: "second"})
	i := start(t, poolOf(poolKey(k1, one), poolKey(k2, two)))
	r := i.message(question(sonnet))
	if r.status != 500 || !strings.Contains(r.body, "second") || r.header.Get("X-Proxy-Attempts") != "2" {
		t.Errorf("status %d after %s attempts: %s", r.status, r.header.Get("X-Proxy-Attempts"), r.body)
	}
}
