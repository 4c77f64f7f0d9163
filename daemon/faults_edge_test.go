package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"coding-proxy/daemon/config"
	"coding-proxy/proxy"
	"coding-proxy/proxy/demo"
)

func TestHDR001ConnectionScoped(t *testing.T) {
	t.Parallel()
	lines := "Connection: keep-alive, X-Tmp-1\r\nConnection: x-tmp-2\r\nX-Tmp-1: a\r\nX-Tmp-2: b\r\nKeep-Alive: timeout=5\r\n"
	answer := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n%sSet-Cookie: sid=1\r\nRequest-Id: q9\r\nContent-Length: %d\r\n\r\n%s", lines, len(whole), whole)
	i := start(t, poolOf(poolKey(k1, answering(t, answer))))
	r := i.good(question(sonnet))
	b := newBackend(t, says(200, whole))
	other := start(t, poolOf(poolKey(k1, b.URL)))
	_, in := other.raw(post(question(sonnet), strings.Split(strings.TrimSuffix(lines, "\r\n"), "\r\n")...))
	rawReply(t, in)
	for _, name := range []string{"Connection", "X-Tmp-1", "X-Tmp-2", "Keep-Alive", "Set-Cookie"} {
		if v := r.header[name]; v != nil {
			t.Errorf("the client has %s: %q", name, v)
		}
		if v := b.only(t).header[name]; v != nil {
			t.Errorf("the upstream has %s: %q", name, v)
		}
	}
	if r.header.Get("Request-Id") != "q9" {
		t.Errorf("headers %v", r.header)
	}
}

func TestHDR002ProxyMetadataToProvider(t *testing.T) {
	t.Parallel()
	b := newBackend(t, says(200, whole))
	i := start(t, oneCaller(), poolOf(poolKey(k1, b.URL))) // without request keys such a request is refused
	i.good(question(sonnet), "x-api-key: "+requestKey, "X-Forwarded-For: 192.168.1.9", "X-Forwarded-Host: pc.home.test",
		"Forwarded: for=192.168.1.9", "Via: 1.1 pc.home.test", "X-Real-Ip: 192.168.1.9", "X-Custom: 1")
	got := b.only(t)
	if text := got.text(); strings.Contains(text, "192.168.1.9") || strings.Contains(text, "pc.home.test") || got.header.Get("X-Custom") != "1" {
		t.Errorf("the upstream has %s", text)
	}
}

func TestHDR004ModelsRouteByAuthStyle(t *testing.T) {
	t.Parallel()
	p, url := provider(t)
	i := start(t, poolOf(poolKey(k1, url, `"models":{"claude-sonnet-5-5":"glm-5.1","mine":"glm-5.1"}`), passthroughKey(k2, url)))
	for _, path := range []string{"/v1/models", "/v1/models/mine", "/anthropic/v1/models"} {
		for _, header := range []string{version, ""} {
			r := i.ask("GET", path, "", "authorization: Bearer sk-ant-test", header)
			if r.status != 200 || !strings.Contains(r.body, `"mine"`) || strings.Contains(r.body, "glm") {
				t.Errorf("%s: status %d: %s", path, r.status, r.body)
			}
		}
	}
	if n := len(p.Requests()); n != 0 {
		t.Errorf("%d requests went upstream", n)
	}
}

// A zstd body is refused with its name and the client's switch; the other codings are tested in TestRefusesSizes.
func TestHDR008ZstdRequestBody(t *testing.T) {
	t.Parallel()
	p, url := provider(t)
	i := start(t, poolOf(poolKey(k1, url)))
	r := i.message("\x28\xb5\x2f\xfd\x00\x00", "content-encoding: zstd")
	i.isRefusal(r, 415, "invalid_request_error")
	if !strings.Contains(r.body, "zstd") || !strings.Contains(r.body, "enable_request_compression") || len(p.Requests()) != 0 {
		t.Errorf("body %s, %d upstream calls", r.body, len(p.Requests()))
	}
}

// A bomb of 1 MB is given up once the decoded limit has passed. Not parallel: it counts the memory of the process.
func TestHDR010DecompressionBomb(t *testing.T) {
	bomb := strings.Repeat(packed(t, "gzip", strings.Repeat(" ", 1<<20)), 1024) // 1 GiB
	i := start(t, `"limits":{"max_body_bytes":1000000}`, poolOf(poolKey(k1, nowhere(t))))
	for _, chunked := range []bool{false, true} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var body io.Reader = strings.NewReader(bomb)
		if chunked {
			body = io.MultiReader(body)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		resp, err := i.transport.RoundTrip(i.request(ctx, "POST", "/v1/messages", body, []string{version, "content-encoding: gzip"}))
		if err != nil {
			t.Fatal(err)
		}
		i.isRefusal(readReply(resp), 413, "request_too_large")
		runtime.ReadMemStats(&after)
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 20<<20 {
			t.Errorf("%d MiB were allocated for a limit of 1 MB", grown>>20)
		}
	}
}

func TestHDR011ExpectContinue(t *testing.T) {
	t.Parallel()
	b := newBackend(t, says(200, whole))
	i := start(t, oneCaller(), poolOf(poolKey(k1, b.URL)))
	body := question(sonnet, `"metadata":{"user_id":"`+strings.Repeat("x", 2<<20)+`"}`)
	head := func(key string) string {
		return fmt.Sprintf("POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: %s\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", key, len(body))
	}
	conn, in := i.raw(head(requestKey))
	line, err := in.ReadString('\n')
	if _, blank := in.ReadString('\n'); err != nil || blank != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") {
		t.Fatalf("%q, %v", line, err)
	}
	if _, err := io.WriteString(conn, body); err != nil {
		t.Fatal(err)
	}
	if r := rawReply(t, in); r.status != 200 {
		t.Errorf("status %d: %s", r.status, r.body)
	}
	if got := b.only(t); got.body != body || got.header.Get("Expect") != "" {
		t.Errorf("the upstream got %d bytes, expect %q", len(got.body), got.header.Get("Expect"))
	}
	_, in = i.raw(head("request-key-of-nobody"))
	i.isRefusal(rawReply(t, in), 401, "authentication_error")
}

// This slice's configuration has no tiers to name; the pool has.
func TestHDR012NonASCIIDiagnosticHeader(t *testing.T) {
	t.Parallel()
	_, url := provider(t)
	for _, name := range []string{"模型A🙂", "modèle\r\nx: y", strings.Repeat("t", 5000), ""} {
		i := startAt(t, frozen(), func(c *config.Config) { c.Pool.Tiers[0].Name = name }, poolOf(poolKey(k1, url)))
		r := i.good(question("modèle\r\nx: y"))
		tier := r.header.Get("X-Proxy-Tier")
		if r.header.Get("X") != "" || len(tier) > 1024 || strings.ContainsFunc(tier, func(c rune) bool { return c < ' ' || c > '~' }) {
			t.Errorf("tier %q, headers %v", tier, r.header)
		}
	}
}

// rawLane sends body and returns what the upstream got.
func rawLane(t *testing.T, body string, key ...string) string {
	t.Helper()
	b := newBackend(t, says(200, whole))
	i := start(t, poolOf(poolKey(k1, b.URL, key...)))
	i.good(body)
	i.good(body)
	got := b.requests()
	if len(got) != 2 || got[0].body != got[1].body {
		t.Fatal("the same body went upstream in two forms")
	}
	return got[0].body
}

const renamed = `"models":{"*":"glm-5.1"}`

// The raw lane changes the model's value and nothing else, byte for byte. The conversions' cases of the list come
// with the other dialects.
func TestCNV021CNV024CNV041CNV042RawLane(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"CNV-021 own signature": `{"model":"MODEL","max_tokens":9,"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"REAL=="},{"type":"text","text":"a"}]},{"role":"user","content":"b"}]}`,
		"CNV-021 no signature":  `{"model":"MODEL","max_tokens":9,"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"t"}]},{"role":"user","content":"b"}]}`,
		"CNV-024 system string": `{"model":"MODEL","system":"abc","max_tokens":9,"messages":[{"role":"user","content":"b"}]}`,
		"CNV-024 system blocks": `{"model":"MODEL","system":[{"type":"text","text":"abc","cache_control":{"type":"ephemeral"}}],"max_tokens":9,"messages":[]}`,
		"CNV-041 numbers":       `{"top_p":0.95,"model":"MODEL","max_tokens":9,"x":[9007199254740993,1.10,1e22,-0,1E+2,0.30000000000000004],"messages":[]}`,
		"CNV-042 key order":     `{"tools":[{"name":"z","input_schema":{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"string"}},"$schema":"x"}}],"system":"<a&b> \u003c \u2028 é","model":"MODEL","max_tokens":9,"messages":[]}`,
		"white space":           "\n{ \"max_tokens\" : 9 ,\r\n\t\"model\"\n:\n\"MODEL\" , \"messages\":[ ] }\n",
		"escaped name":          `{"m\u006fdel":"MODEL","max_tokens":9,"messages":[]}`,
		"inner models":          `{"metadata":{"model":"inner"},"model":"MODEL","max_tokens":9,"messages":[{"role":"user","content":"{\"model\":\"quoted\"}"}],"model2":"x"}`,
		"unknown fields":        `{"future":{"a":[null,true]},"model":"MODEL","max_tokens":9,"messages":[],"\u00e9":1}`,
		"odd text":              "{\"model\":\"MODEL\",\"max_tokens\":9,\"messages\":[],\"x\":\"\\ud83d\xff\"}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sent := strings.Replace(body, "MODEL", sonnet, 1)
			if got := rawLane(t, sent); got != sent {
				t.Errorf("upstream got %q\nwant         %q", got, sent)
			}
			want := strings.Replace(body, "MODEL", "glm-5.1", 1)
			if got := rawLane(t, sent, renamed); got != want {
				t.Errorf("with another model upstream got %q\nwant                            %q", got, want)
			}
		})
	}
}

// A plain answer comes back byte for byte, however it is framed, and its usage is found wherever it stands.
func TestPlainAnswersUnchanged(t *testing.T) {
	t.Parallel()
	head := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
	long := strings.Replace(whole, "walrus", strings.Repeat("walrus\\n\\\"{}[] ", 500_000), 1)
	usageFirst := `{"usage":{"input_tokens":10,"output_tokens":7},"id":"msg_1","type":"message","role":"assistant","content":[{"usage":{"input_tokens":1,"output_tokens":1}}],"stop_reason":"end_turn"}`
	for name, body := range map[string]string{
		"small": whole, "long": long, "usage first": usageFirst, "white space": " \n\t" + whole + "\r\n\n ", "byte order mark": "\ufeff" + whole,
	} {
		var chunks strings.Builder
		for rest := body; rest != ""; {
			n := min(len(rest), 1000)
			fmt.Fprintf(&chunks, "%x\r\n%s\r\n", n, rest[:n])
			rest = rest[n:]
		}
		for framing, text := range map[string]string{
			"length":   head + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body),
			"chunked":  head + "Transfer-Encoding: chunked\r\n\r\n" + chunks.String() + "0\r\n\r\n",
			"close":    head + "Connection: close\r\n\r\n" + body,
			"HTTP/1.0": strings.Replace(head, "HTTP/1.1", "HTTP/1.0", 1) + "\r\n" + body,
		} {
			t.Run(name+", "+framing, func(t *testing.T) {
				t.Parallel()
				i := start(t, poolOf(poolKey(k1, answering(t, text))))
				r := i.good(question(sonnet))
				if r.body != body {
					t.Errorf("%d bytes, want %d: %.100q", len(r.body), len(body), r.body)
				}
				if rec := i.record(r.trace()); rec.Outcome != "ok" || rec.InputTokens != 10 || rec.OutputTokens != 7 || rec.Estimated {
					t.Errorf("journal: %+v", rec)
				}
			})
		}
	}
}

func TestSEC001DNSRebinding(t *testing.T) {
	t.Parallel()
	i := start(t, poolOf(poolKey(k1, nowhere(t))))
	_, port, _ := net.SplitHostPort(i.Addr())
	for _, c := range []struct {
		lines string
		ok    bool
	}{
		{"HTTP/1.1\r\nHost: r.attacker.test:" + port + "\r\nOrigin: http://r.attacker.test:" + port, false},
		{"HTTP/1.0", false}, // no host
		{"HTTP/1.1\r\nHost:", false},
		{"HTTP/1.1\r\nHost: 127.0.0.1.evil.test", false},
		{"HTTP/1.1\r\nHost: localhost.evil.test:" + port, false},
		{"HTTP/1.1\r\nHost: 192.168.1.9", false}, // the list lets any address in; the design only loopback and configured ones
		{"HTTP/1.1\r\nHost: [::1]:" + port, true},
		{"HTTP/1.1\r\nHost: 127.0.0.1:" + port, true},
		{"HTTP/1.1\r\nHost: localhost", true},
	} {
		for _, path := range []string{"/stats", "/api/pool/stats", "/v1/models"} {
			_, in := i.raw("GET " + path + " " + c.lines + "\r\n\r\n")
			r := rawReply(t, in)
			if want := map[bool]int{true: 200, false: 403}[c.ok]; r.status != want {
				t.Errorf("%s %q: %d, want %d", path, c.lines, r.status, want)
			}
			if !c.ok && strings.Contains(r.body, "pool-key") {
				t.Errorf("%s %q tells: %s", path, c.lines, r.body)
			}
		}
	}
}

// There is no admin call in this slice; the pages and the clients' endpoints are what a page could reach.
func TestSEC002OriginPrefixMatch(t *testing.T) {
	t.Parallel()
	p, url := provider(t)
	i := start(t, poolOf(poolKey(k1, url)))
	for _, origin := range []string{"http://localhost.attacker.test:8080", "http://127.0.0.1.attacker.test", "null", "http://[::1].evil.test", "chrome-extension://localhost"} {
		if r := i.message(question(sonnet), "origin: "+origin); r.status != 403 {
			t.Errorf("%s: status %d", origin, r.status)
		}
		if r := i.ask("GET", "/api/pool/stats", "", "origin: "+origin); r.status != 403 {
			t.Errorf("%s: the page answers %d", origin, r.status)
		}
	}
	if n := len(p.Requests()); n != 0 {
		t.Errorf("%d requests went upstream", n)
	}
}

func TestSEC006NoKeysMeansOpen(t *testing.T) {
	t.Parallel()
	_, url := provider(t)
	for _, members := range []string{
		`"auth":{"request_keys":[{"code":"a","api_key":""}]}`, `"auth":{"request_keys":[{"code":"a","api_key":" "}]}`,
		`"auth":{"request_keys":[{"code":"a","api_key":"${UNSET}"}]}`, `"auth":{"request_keys":[{"code":"a"}]}`, `"auth":{"local_api_key":""}`,
	} {
		if _, err := load(t, t.TempDir(), members, poolOf(poolKey(k1, url))); err == nil {
			t.Errorf("%s is taken", members)
		}
	}
	i := start(t, oneCaller(), poolOf(poolKey(k1, url)))
	for _, header := range []string{"", "authorization: Bearer ", "authorization: Bearer", "x-api-key: ", "x-goog-api-key: ", "x-proxy-key: "} {
		i.isRefusal(i.message(question(sonnet), header), 401, "authentication_error")
	}
	if r := i.ask("POST", "/v1/messages?key=", question(sonnet), version); r.status != 401 {
		t.Errorf("an empty key in the query: %d", r.status)
	}
	// No keys at all: this machine alone, and that is stated (http.md).
	open := start(t, `"auth":{"request_keys":[]}`, poolOf(poolKey(k1, url)))
	open.good(question(sonnet))
	if _, err := load(t, t.TempDir(), `"auth":{"request_keys":[]}`, poolOf(poolKey(k1, url))); err != nil {
		t.Error(err)
	}
}

func TestSEC007TimingCompare(t *testing.T) {
	t.Parallel()
	_, url := provider(t)
	i := start(t, oneCaller(), poolOf(poolKey(k1, url)))
	for _, near := range []string{
		requestKey[:len(requestKey)-1], requestKey + "x", requestKey[1:], strings.ToUpper(requestKey), requestKey[:len(requestKey)-1] + "q",
		"é" + requestKey[1:], strings.Repeat(requestKey, 100), "\xff\xfe", requestKey + "," + requestKey,
	} {
		if r := i.message(question(sonnet), "x-api-key: "+near); r.status != 401 {
			t.Errorf("%q: status %d", near, r.status)
		}
	}
}

func TestSEC011NoBodyLimit(t *testing.T) {
	t.Parallel()
	i := start(t, `"limits":{"max_body_bytes":1000000}`, oneCaller(), poolOf(poolKey(k1, nowhere(t))))
	for _, c := range []struct {
		key    string
		status int
		kind   string
	}{{"request-key-of-nobody", 401, "authentication_error"}, {requestKey, 413, "request_too_large"}} {
		conn, in := i.raw("POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: " + c.key + "\r\nTransfer-Encoding: chunked\r\n\r\n")
		sent := make(chan int)
		go func() { // until the proxy closes
			chunk := fmt.Sprintf("8000\r\n%s\r\n", strings.Repeat(" ", 0x8000))
			for n := 0; ; n += 0x8000 {
				if _, err := io.WriteString(conn, chunk); err != nil {
					sent <- n
					return
				}
			}
		}()
		r := rawReply(t, in)
		i.isRefusal(r, c.status, c.kind)
		if n := <-sent; n > 64<<20 { // buffers of the sockets
			t.Errorf("%d: %d bytes were taken", c.status, n)
		}
	}
}

func TestSEC012BodyLimitTooSmall(t *testing.T) {
	t.Parallel()
	limit := proxy.Defaults().Limits.MaxBodyBytes
	if limit < 32<<20 { // what Anthropic takes
		t.Errorf("the limit is %d by default", limit)
	}
	var got atomic.Int64
	url := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		got.Store(n)
		say(w, 200, whole)
	}))
	i := start(t, poolOf(poolKey(k1, url)))
	frame := len(question(sonnet, `"x":""`))
	i.good(question(sonnet, `"x":"`+strings.Repeat("a", int(limit)-frame)+`"`))
	if got.Load() != limit {
		t.Errorf("the upstream got %d bytes", got.Load())
	}
	r := i.message(question(sonnet, `"x":"`+strings.Repeat("a", int(limit)-frame+1)+`"`))
	i.isRefusal(r, 413, "request_too_large")
	if rec := i.record(r.trace()); rec.Status != 413 {
		t.Errorf("journal: %+v", rec)
	}
	i.in(t).good(question(sonnet, `"x":"`+strings.Repeat("a", 100)+`"`))
}

func TestSEC013SlowClientBlocksAccept(t *testing.T) {
	t.Parallel()
	_, url := provider(t)
	i := prepare(t, t.TempDir()+"/data", poolOf(poolKey(k1, url)))
	i.http.ReadHeaderTimeout = 500 * time.Millisecond
	i.serve()
	var idle []net.Conn
	for n := range 200 {
		conn, _ := i.raw([]string{"", "P"}[n%2])
		idle = append(idle, conn)
	}
	i.good(question(sonnet))
	for n, conn := range idle {
		if _, err := io.Copy(io.Discard, conn); err != nil && strings.Contains(err.Error(), "timeout") {
			t.Fatalf("connection %d stays open: %v", n, err)
		}
	}
}

func TestSEC014StatsXSS(t *testing.T) {
	t.Parallel()
	_, url := provider(t)
	i := start(t, poolOf(poolKey(k1, url)))
	const image = "<img src=x onerror=alert(1)>"
	i.good(question(image), "user-agent: </script><script>alert(2)</script>", session(`"'><b>`))
	i.good(question(`"}};alert(3)//`))
	r := i.ask("GET", "/stats", "")
	if r.status != 200 || strings.Contains(r.body, "<img") || strings.Contains(r.body, "<script>") || !strings.Contains(r.body, "&lt;img src=x onerror=alert(1)&gt;") {
		t.Errorf("status %d: %s", r.status, r.body)
	}
	policy := r.header.Get("Content-Security-Policy")
	if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe-inline") || r.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("policy %q", policy)
	}
	for _, path := range []string{"/api/stats", "/api/pool/usage"} {
		if r := i.ask("GET", path, ""); !json.Valid([]byte(r.body)) || r.header.Get("Content-Type") != "application/json" || strings.Contains(r.body, "<img") {
			t.Errorf("%s: %s", path, r.body)
		}
	}
}

func TestSEC016ErrorJSONInjection(t *testing.T) {
	t.Parallel()
	_, url := provider(t)
	i := start(t, poolOf(poolKey(k1, url, `"models":{"m":"m"}`)))
	narrow := start(t, oneCaller(`"models":["m"]`), poolOf(poolKey(k1, url)))
	for _, name := range []string{`m","code":"rate_limit_exceeded","z":"`, `a"b`, `a\b`, "a\nb", "a\u2028b", "a\x00b", `</script>`, "\u202e", strings.Repeat("m", 256)} {
		quoted, err := json.Marshal(name)
		if err != nil {
			t.Fatal(err)
		}
		body := `{"model":` + string(quoted) + `,"max_tokens":9,"messages":[{"role":"user","content":"zebra"}]}`
		r := i.message(body)
		i.isRefusal(r, 404, "not_found_error")
		narrow.isRefusal(narrow.message(body, "x-api-key: "+requestKey), 403, "permission_error")
		if rec := i.record(r.trace()); rec.Requested != name {
			t.Errorf("the journal has %q, want %q", rec.Requested, name)
		}
	}
	i.isRefusal(i.message(question(strings.Repeat("m", 257))), 400, "invalid_request_error")
}

func TestSEC017PathTraversalName(t *testing.T) {
	t.Parallel()
	p, url := provider(t)
	i := start(t, poolOf(poolKey(k1, url)))
	for id, want := range map[string]int{
		"../x": 404, "..%2fx": 400, "..%2Fx": 400, `..\x`: 400, "..%5cx": 400, "%2e%2e%2fx": 400, "%2e%2e": 400, "..": 400, ".": 400, "%2e": 400,
		"a%00b": 400, "a%0ab": 400, "a%7fb": 400, "a%3fb": 400, "a%23b": 400, "a%25b": 400, "%252e%252e": 400, "a%2": 400, "a/b": 404, "": 404,
		"C:x": 404, "none": 404, sonnet: 200, "claude%2Dsonnet-5-5": 200,
	} {
		for _, path := range []string{"/v1/models/", "/anthropic/v1/models/"} {
			_, in := i.raw("GET " + path + id + " HTTP/1.1\r\nHost: localhost\r\n\r\n")
			line, err := in.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			// What net/http itself refuses is a 400 too.
			if status := strings.Fields(line)[1]; status != fmt.Sprint(want) {
				t.Errorf("%s%s: %s, want %d", path, id, status, want)
			}
		}
	}
	if n := len(p.Requests()); n != 0 {
		t.Errorf("%d requests went upstream", n)
	}
}

// A caller of a group never leaves it: not by failover, not in a list, not in a hint (house.md, invariant 2).
func TestSEC019FallbackBypassesGroup(t *testing.T) {
	t.Parallel()
	for _, answer := range []demo.Step{
		{Status: 503}, {Status: 429}, {Status: 401}, {Status: 402}, {Break: demo.Cut}, {Status: 400, Message: "prompt is too long"},
	} {
		_, own := provider(t, answer)
		foreign, foreignURL := provider(t)
		i := start(t, fmt.Sprintf(`"auth":{"request_keys":[{"code":"laptop","api_key":%q,"group":"g"}],"groups":[{"name":"g","keys":[%q]}]}`, requestKey, k1),
			poolOf(poolKey(k1, own, `"models":{"m1":"m1"}`), poolKey(k2, foreignURL, `"models":{"m1":"m1","m2":"m2"}`), poolKey(k3, foreignURL)))
		key := "x-api-key: " + requestKey
		if r := i.message(question("m1"), key); r.status < 400 {
			t.Errorf("%+v: status %d", answer, r.status)
		}
		if r := i.message(question("m2"), key); r.status != 404 || strings.Contains(r.body, "near names: m2") {
			t.Errorf("m2: status %d: %s", r.status, r.body)
		}
		if r := i.ask("GET", "/v1/models", "", key); r.status != 200 || strings.Contains(r.body, "m2") || strings.Contains(r.body, "claude") {
			t.Errorf("list: %s", r.body)
		}
		if n := len(foreign.Requests()); n != 0 {
			t.Errorf("%+v: %d requests left the group", answer, n)
		}
	}
}

// Not parallel: it counts the goroutines of the whole process.
func TestPRF001GoroutineLeakOnAbort(t *testing.T) {
	const streams, together = 500, 50
	p, url := provider(t)
	p.Always(demo.Step{Text: strings.Repeat("walrus ", 20), Hold: demo.HoldAt(10)})
	i := start(t, poolOf(poolKey(k1, url)))
	i.transport.DisableKeepAlives = true
	settle := func() int {
		await(t, "the requests to end", func() bool { return i.server.proxy.InFlight() == 0 })
		i.server.proxy.CloseIdle()
		return runtime.NumGoroutine()
	}
	i.good(`{"model":"claude-sonnet-5-5","max_tokens":1,"messages":[{"role":"user","content":"zebra"}]}`)
	before := settle()
	for range streams / together {
		var group sync.WaitGroup
		for range together {
			group.Go(func() {
				ctx, leave := context.WithTimeout(context.Background(), patience)
				defer leave()
				resp, err := i.transport.RoundTrip(i.request(ctx, "POST", "/v1/messages", strings.NewReader(question(sonnet, streamed)), []string{version}))
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.ReadFull(resp.Body, make([]byte, 600)) // two events
				leave()
				resp.Body.Close()
			})
		}
		group.Wait()
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := p.Wait(ctx, streams); err != nil {
		t.Fatal(err)
	}
	await(t, fmt.Sprintf("the goroutines to be about %d again", before), func() bool { return settle() <= before+20 })
	if k := i.keys()[k1]; k.InFlight != 0 || k.State != "ready" {
		t.Errorf("%+v", k)
	}
}

func TestPRF002TransportPerRequest(t *testing.T) {
	t.Parallel()
	var opened atomic.Int64
	s := httptest.NewUnstartedServer(demo.New(demo.Options{}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	i := start(t, poolOf(poolKey(k1, s.URL)))
	for n := range 2000 {
		i.good(question(sonnet, []string{streamed, `"stream":false`}[n%2]))
	}
	if n := opened.Load(); n > 5 {
		t.Errorf("%d connections for 2000 requests, one after the other", n)
	}
}

// What the list calls reload and quota polling is not in this slice: requests of all kinds and all pages at once.
func TestPRF008ConcurrentMapWrite(t *testing.T) {
	t.Parallel()
	var keys []string
	for _, id := range []string{k1, k2, k3} {
		p, url := provider(t)
		for range 20 {
			p.Push(demo.Step{Text: answerText}, demo.Step{Status: 429, Header: http.Header{"Retry-After": {"1"}}}, demo.Step{Break: demo.Cut, After: 5})
		}
		keys = append(keys, poolKey(id, url, unspent))
	}
	i := start(t, sticky(keys...))
	var group sync.WaitGroup
	for n := range 200 {
		group.Go(func() {
			body := question([]string{sonnet, opus}[n%2], []string{streamed, `"stream":false`}[n/2%2])
			r := <-i.background(t.Context(), body, session(fmt.Sprint(n%17)))
			if r.status != 200 && r.status != 429 {
				t.Errorf("status %d: %v", r.status, r.err)
			}
		})
		if n%5 == 0 {
			group.Go(func() {
				for _, path := range []string{"/stats", "/api/stats?window=week", "/api/pool/stats", "/api/pool/usage", "/api/request-keys/usage", "/readyz", "/v1/models"} {
					if r := i.ask("GET", path, ""); r.status != 200 && path != "/readyz" {
						t.Errorf("%s: status %d", path, r.status)
					}
				}
			})
		}
	}
	group.Wait()
	if n := len(i.records("")); n != 200+40 { // the model lists are client requests too
		t.Errorf("%d journal lines, want 240", n)
	}
}
