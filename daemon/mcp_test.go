package daemon

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// The MCP servers' credential, and a header that is secret, too.
var (
	toolsKey  = credential("mcp-tools")
	teamToken = credential("mcp-team")
)

// mcpOf is the mcp member: the server `tools` at url, and others.
func mcpOf(url string, more ...string) string {
	return fmt.Sprintf(`"mcp":{"tools":{"url":%q,"api_key":%q,"headers":{"X-Team":%q,"User-Agent":"house/1"}}%s}`, url+"/srv/mcp/", toolsKey, teamToken, rest(more))
}

const (
	rpcCall    = `{ "jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"zebra","n":1.10} }`
	rpcAnswer  = `{ "jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"walrus"}]} }`
	rpcNote    = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	acceptBoth = "Accept: application/json, text/event-stream"
	rpcVersion = "MCP-Protocol-Version: 2025-11-25"
	jsonType   = "Content-Type: application/json"
)

func rpcEvent(n int) string {
	return fmt.Sprintf("id: %d\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"text\":\"walrus %d\"}}\n\n", n, n)
}

// rpc posts a message to the server `tools`.
func (i *instance) rpc(body string, header ...string) *reply {
	i.t.Helper()
	return i.ask("POST", "/mcp/tools", body, append([]string{jsonType, acceptBoth, rpcVersion}, header...)...)
}

// opened is rpc, or a GET where there is no body, for an answer that is read while it comes.
func (i *instance) opened(body string, header ...string) *live {
	i.t.Helper()
	ctx, leave := context.WithTimeout(context.Background(), patience)
	i.t.Cleanup(leave)
	method, accept := "POST", acceptBoth
	if body == "" {
		method, accept = "GET", "Accept: text/event-stream"
	}
	resp, err := i.transport.RoundTrip(i.request(ctx, method, "/mcp/tools", strings.NewReader(body), append([]string{accept, rpcVersion}, header...)))
	if err != nil {
		i.t.Fatal(err)
	}
	i.t.Cleanup(func() { resp.Body.Close() })
	return &live{i.t, resp.StatusCode, resp.Header, bufio.NewReader(resp.Body), leave}
}

// refusesRPC checks an error from here: an HTTP status with an error object of JSON-RPC.
func (i *instance) refusesRPC(r *reply, status int, kind string) {
	i.t.Helper()
	e := parse(i.t, r.body)
	code := int64(-32000)
	if kind == "invalid_request_error" {
		code = -32600
	}
	if r.status != status || r.header.Get("Content-Type") != "application/json" || e.get("jsonrpc").str() != "2.0" || !e.has("id") || e.get("id").v != nil ||
		e.get("error", "code").int() != code || e.get("error", "message").str() == "" || e.get("error", "data", "type").str() != kind || e.get("error", "data", "trace").str() != r.trace() {
		i.t.Errorf("status %d, %v, want %d %s: %s", r.status, r.header, status, kind, r.body)
	}
	i.tellsNothing(r)
}

// A message goes as it came but for credentials, and so comes the answer. The journal has bytes and no tokens.
func TestMCPPassesMessagesOn(t *testing.T) {
	t.Parallel()
	b := newBackend(t, says(200, rpcAnswer, "Mcp-Session-Id: session-1", "Mcp-Protocol-Version: 2025-11-25", "X-Custom: 2", "Set-Cookie: a=b", "Server: s", "X-Proxy-Tier: x",
		"Www-Authenticate: Bearer", "Connection: X-Hop", "X-Hop: 1"))
	i := start(t, oneCaller(), mcpOf(b.URL))
	i.upstreams = append(i.upstreams, strings.TrimPrefix(b.URL, "http://"))
	r := i.ask("POST", "/mcp/tools?a=%20b&key="+requestKey, rpcCall, jsonType, acceptBoth, rpcVersion, "Last-Event-Id: 9", "X-Custom: 1", "User-Agent: claude-code/2.1 (cli)",
		"X-Proxy-Key: "+requestKey, "X-Api-Key: "+requestKey, "Authorization: Bearer "+own, "X-Goog-Api-Key: "+own, "Cookie: a=b", "Referer: x", "X-Forwarded-For: 10.0.0.9",
		"Accept-Encoding: gzip", "Connection: X-Tmp", "X-Tmp: 1", "Te: trailers")
	if h := r.header; r.status != 200 || r.err != nil || r.body != rpcAnswer || h.Get("Content-Type") != "application/json" || h.Get("Mcp-Session-Id") != "session-1" ||
		h.Get("Mcp-Protocol-Version") != "2025-11-25" || h.Get("X-Custom") != "2" || h.Get("Set-Cookie")+h.Get("Server")+h.Get("X-Proxy-Tier")+h.Get("Www-Authenticate")+h.Get("X-Hop") != "" {
		t.Errorf("status %d, %v, %v: %s", r.status, r.err, h, differ(r.body, rpcAnswer))
	}
	i.tellsNothing(r)
	got := b.only(t)
	if got.method != "POST" || got.uri != "/srv/mcp/?a=%20b" || got.body != rpcCall || got.length != int64(len(rpcCall)) || got.host != strings.TrimPrefix(b.URL, "http://") {
		t.Errorf("upstream %s %s %s: %s", got.method, got.host, got.uri, differ(got.body, rpcCall))
	}
	want := map[string]string{"Authorization": "Bearer " + toolsKey, "X-Team": teamToken, "User-Agent": "house/1", "Accept": "application/json, text/event-stream",
		"Content-Type": "application/json", "Mcp-Protocol-Version": "2025-11-25", "Last-Event-Id": "9", "X-Custom": "1", "Accept-Encoding": "identity"}
	for name, values := range got.header {
		if name != "Content-Length" && (len(values) != 1 || values[0] != want[name]) {
			t.Errorf("upstream has %s: %q", name, values)
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("upstream lacks %v", want)
	}
	rec := i.record(r.trace())
	if rec.Outcome != "ok" || rec.Status != 200 || rec.Dialect != "mcp" || rec.Upstream != "mcp" || rec.Provider != "mcp:tools" || rec.Key+rec.Tier+rec.Requested != "" || rec.Stream ||
		costsOf(rec) != (costs{}) || rec.Estimated || rec.RequestBytes != int64(len(rpcCall)) || rec.ResponseBytes != int64(len(rpcAnswer)) || rec.Caller != "laptop" || rec.Client != "claude-code/2.1" || rec.Session == "" {
		t.Errorf("journal: %+v", rec)
	}
	if page := i.ask("GET", "/api/stats", ""); !strings.Contains(page.body, `"models":[]`) {
		t.Errorf("usage: %s", page.body)
	}
}

// Without a credential nothing can have to be masked: a promised length is kept. A notification has no answer but 202.
func TestMCPLengths(t *testing.T) {
	t.Parallel()
	b := newBackend(t, func(w http.ResponseWriter, _ *http.Request, n int) {
		switch n % 3 {
		case 0:
			w.WriteHeader(http.StatusAccepted)
		case 1:
			say(w, 200, rpcAnswer, fmt.Sprint("Content-Length: ", len(rpcAnswer)))
		case 2:
			w.WriteHeader(http.StatusNoContent)
		}
	})
	for members, length := range map[string]string{
		mcpOf(b.URL): "", fmt.Sprintf(`"mcp":{"tools":{"url":%q}}`, b.URL): fmt.Sprint(len(rpcAnswer)),
	} {
		i := start(t, members)
		for n, want := range []struct {
			status       int
			body, length string
		}{{202, "", "0"}, {200, rpcAnswer, length}, {204, "", ""}} {
			r := i.rpc(rpcNote)
			if r.status != want.status || r.err != nil || r.body != want.body || r.header.Get("Content-Length") != want.length {
				t.Errorf("%d: status %d, %v, %v: %s", n, r.status, r.err, r.header, r.body)
			}
			if rec := i.record(r.trace()); rec.Outcome != "ok" || rec.ResponseBytes != int64(len(want.body)) {
				t.Errorf("journal: %+v", rec)
			}
		}
	}
	if h := b.requests()[3].header; len(b.requests()) != 6 || b.requests()[0].header.Get("Authorization") == h.Get("Authorization") {
		t.Errorf("%d requests upstream", len(b.requests()))
	}
}

// Events reach the client as they come, in the answer of a message and in the stream that a client listens to, at once.
func TestMCPStreamsBothWays(t *testing.T) {
	t.Parallel()
	call, push, gone := make(chan string), make(chan string), make(chan string, 2)
	relay := func(w http.ResponseWriter, r *http.Request, from <-chan string, name string) {
		pour(w, ": hello\n\n")
		for {
			select {
			case e, more := <-from:
				if !more {
					return
				}
				pour(w, e)
			case <-r.Context().Done():
				gone <- name
				return
			}
		}
	}
	b := newBackend(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		switch {
		case r.Method == http.MethodGet:
			relay(w, r, push, "GET")
		case r.Header.Get("X-Stream") != "":
			relay(w, r, call, "POST")
		default: // a message of the client's goes into the stream that it listens to
			push <- rpcEvent(7)
			w.WriteHeader(http.StatusAccepted)
		}
	})
	i := start(t, oneCaller(), mcpOf(b.URL))
	key := "x-api-key: " + requestKey
	listening := i.opened("", key)
	listening.expect(": hello\n\n")
	calling := i.opened(rpcCall, key, "X-Stream: 1")
	calling.expect(": hello\n\n")
	if listening.status != 200 || listening.header.Get("Content-Type") != "text/event-stream; charset=utf-8" || calling.status != 200 {
		t.Fatalf("status %d, %v; %d", listening.status, listening.header, calling.status)
	}
	for n := range 3 {
		call <- rpcEvent(n)
		calling.expect(rpcEvent(n))
		push <- rpcEvent(10 + n)
		listening.expect(rpcEvent(10 + n))
	}
	if r := i.rpc(rpcNote, key); r.status != 202 {
		t.Errorf("status %d: %s", r.status, r.body)
	}
	listening.expect(rpcEvent(7))
	close(call)
	if rest, err := calling.all(); rest != "" || err != nil {
		t.Errorf("after the events: %q, %v", rest, err)
	}
	if rec := i.record(calling.header.Get("X-Proxy-Trace")); rec.Outcome != "ok" || !rec.Stream || rec.ResponseBytes == 0 {
		t.Errorf("journal: %+v", rec)
	}
	// The client goes away: so does the request upstream, though nothing comes.
	listening.leave()
	if name := <-gone; name != "GET" {
		t.Errorf("%s ended", name)
	}
	await(t, "the journal's line", func() bool { return len(i.records(listening.header.Get("X-Proxy-Trace"))) == 1 })
	if rec := i.record(listening.header.Get("X-Proxy-Trace")); rec.Outcome != "cancelled" || !rec.Stream {
		t.Errorf("journal: %+v", rec)
	}
}

// A client that leaves before there is an answer ends the request upstream.
func TestMCPCancellation(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	b := newBackend(t, func(_ http.ResponseWriter, r *http.Request, _ int) {
		hang(r)
		close(gone)
	})
	i := start(t, mcpOf(b.URL))
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, err := i.transport.RoundTrip(i.request(ctx, "POST", "/mcp/tools", strings.NewReader(rpcCall), []string{jsonType}))
		left <- err
	}()
	await(t, "the request upstream", func() bool { return len(b.requests()) == 1 })
	leave()
	<-gone
	if err := <-left; err == nil {
		t.Error("the client that left has an answer")
	}
	await(t, "the journal's line", func() bool { return len(i.records("")) == 1 })
	if rec := i.records("")[0]; rec.Outcome != "cancelled" || rec.Status != 499 {
		t.Errorf("journal: %+v", rec)
	}
}

// A session is its opener's alone, at its server alone, also after a restart.
func TestMCPSessions(t *testing.T) {
	t.Parallel()
	b := newBackend(t, func(w http.ResponseWriter, r *http.Request, n int) {
		switch {
		case r.Header.Get("Mcp-Session-Id") == "" && r.Header.Get("X-Fails") != "":
			say(w, 500, "{}", "Mcp-Session-Id: failed")
		case r.Header.Get("Mcp-Session-Id") == "" && r.Header.Get("X-Same") != "":
			say(w, 200, rpcAnswer, "Mcp-Session-Id: same")
		case r.Header.Get("Mcp-Session-Id") == "":
			say(w, 200, rpcAnswer, "Mcp-Session-Id: "+strings.Repeat("eyJ.", 200)+fmt.Sprint(n)) // as long as a JWT
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusNoContent)
		default:
			say(w, 200, rpcAnswer)
		}
	})
	members := []string{twoCallers(), mcpOf(b.URL, fmt.Sprintf(`"other":{"url":%q}`, b.URL))}
	dir := filepath.Join(t.TempDir(), "data")
	i := startIn(t, dir, members...)
	mine := i.rpc(rpcCall, shows(1)).header.Get("Mcp-Session-Id")
	theirs := i.rpc(rpcCall, shows(2)).header.Get("Mcp-Session-Id")
	i.rpc(rpcCall, shows(1), "X-Fails: 1")
	if len(mine) < 500 || len(theirs) < 500 || mine == theirs {
		t.Fatalf("sessions %q and %q", mine, theirs)
	}
	check := func() {
		t.Helper()
		before := len(b.requests())
		for _, id := range []string{theirs, "guessed", "failed", strings.ToUpper(mine), mine + "x"} {
			for _, method := range []string{"POST", "GET", "DELETE"} {
				i.refusesRPC(i.ask(method, "/mcp/tools", "", shows(1), "Mcp-Session-Id: "+id), 404, "not_found_error")
			}
		}
		i.refusesRPC(i.ask("POST", "/mcp/other", rpcCall, shows(1), "Mcp-Session-Id: "+mine), 404, "not_found_error")
		i.refusesRPC(i.rpc(rpcCall, shows(1), "Mcp-Session-Id: "+mine, "Mcp-Session-Id: "+theirs), 400, "invalid_request_error")
		if n := len(b.requests()) - before; n != 0 {
			t.Errorf("%d requests went upstream", n)
		}
		r := i.rpc(rpcCall, shows(1), "Mcp-Session-Id: "+mine)
		got := b.requests()
		if last := got[len(got)-1]; r.status != 200 || r.body != rpcAnswer || last.header.Get("Mcp-Session-Id") != mine {
			t.Errorf("status %d: %s; upstream has %v", r.status, r.body, last.header)
		}
		if rec := i.record(r.trace()); rec.Session == "" || strings.Contains(rec.Session, "eyJ") {
			t.Errorf("journal: %+v", rec)
		}
	}
	check()
	for _, id := range []string{"", "Mcp-Session-Id: same"} { // both servers happen to take this id
		for _, name := range []string{"tools", "other"} {
			if r := i.ask("POST", "/mcp/"+name, rpcCall, shows(1), "X-Same: 1", id); r.status != 200 {
				t.Errorf("%s, %q: status %d: %s", name, id, r.status, r.body)
			}
		}
	}
	i.stop()
	i = startIn(t, dir, members...)
	check()
	if r := i.ask("DELETE", "/mcp/tools", "", shows(1), "Mcp-Session-Id: "+mine); r.status != 204 || r.body != "" {
		t.Errorf("DELETE: status %d: %s", r.status, r.body)
	}
	if got := b.requests(); got[len(got)-1].method != "DELETE" || got[len(got)-1].uri != "/srv/mcp/" {
		t.Errorf("upstream %+v", got[len(got)-1])
	}
}

// Bodies arrive whole, packed ones unpacked, up to the limit.
func TestMCPBodies(t *testing.T) {
	t.Parallel()
	answer := `{"result":"` + strings.Repeat("walrus\\n", 300_000) + `"}`
	b := newBackend(t, says(200, answer))
	i := start(t, `"limits":{"max_body_bytes":2000000}`, mcpOf(b.URL))
	body := `{"params":"` + strings.Repeat("zebra ", 300_000) + `"}`
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write([]byte(body))
	w.Close()
	for _, sent := range []struct{ body, header string }{{body, jsonType}, {packed.String(), "Content-Encoding: gzip"}} {
		r := i.rpc(sent.body, sent.header)
		got := b.requests()
		last := got[len(got)-1]
		if r.status != 200 || r.body != answer {
			t.Errorf("status %d, %v: %s", r.status, r.err, differ(r.body, answer))
		}
		if last.body != body || last.length != int64(len(body)) || last.header.Get("Content-Encoding") != "" {
			t.Errorf("upstream, %v: %s", last.bodyErr, differ(last.body, body))
		}
		if rec := i.record(r.trace()); rec.RequestBytes != int64(len(body)) || rec.ResponseBytes != int64(len(answer)) {
			t.Errorf("journal: %+v", rec)
		}
	}
	i.refusesRPC(i.rpc(strings.Repeat(" ", 2_000_001)), 413, "request_too_large")
	i.refusesRPC(i.rpc(body, "Content-Encoding: br"), 415, "invalid_request_error")
	i.refusesRPC(i.rpc(body, "Content-Encoding: gzip"), 400, "invalid_request_error")
	if n := len(b.requests()); n != 2 {
		t.Errorf("%d requests went upstream", n)
	}
}

// Who may not, and what is not there.
func TestMCPRefusals(t *testing.T) {
	t.Parallel()
	b := newBackend(t, says(200, rpcAnswer))
	i := start(t, fmt.Sprintf(`"auth":{"request_keys":[{"code":"one","api_key":%q},{"code":"grouped","api_key":%q,"group":"g"},{"code":"few","api_key":%q,"models":["m"]}],"groups":[{"name":"g","keys":[%q]}]}`,
		requestKey+"-1", requestKey+"-2", requestKey+"-3", k1), mcpOf(b.URL), poolOf(poolKey(k1, b.URL)))
	i.refusesRPC(i.rpc(rpcCall), 401, "authentication_error")
	i.refusesRPC(i.rpc(rpcCall, "authorization: Bearer request-key-of-nobody"), 401, "authentication_error")
	i.refusesRPC(i.rpc(rpcCall, shows(2)), 403, "permission_error")
	i.refusesRPC(i.ask("GET", "/mcp/nothing", "", shows(2)), 403, "permission_error") // it learns no names
	for _, path := range []string{"/mcp/nothing", "/mcp/Tools", "/mcp/tools/", "/mcp/tools/x", "/mcp/", "/mcp/to\u00e4ls"} {
		i.refusesRPC(i.ask("POST", path, rpcCall, shows(1)), 404, "not_found_error")
	}
	for _, path := range []string{"/mcp/..%2ftools", "/mcp/%2e%2e", "/mcp/tools%3fx", "/mcp/tools%00"} {
		i.refusesRPC(i.ask("POST", path, rpcCall, shows(1)), 400, "invalid_request_error")
	}
	r := i.ask("PUT", "/mcp/tools", rpcCall, shows(1))
	i.refusesRPC(r, 405, "invalid_request_error")
	if allow := r.header.Get("Allow"); allow != "POST, GET, DELETE" {
		t.Errorf("allow %q", allow)
	}
	i.refusesRPC(i.ask("GET", "/mcp/tools", "", shows(1), "Upgrade: websocket", "Connection: Upgrade"), 426, "invalid_request_error")
	if n := len(b.requests()); n != 0 {
		t.Errorf("%d requests went upstream", n)
	}
	if r := i.rpc(rpcCall, shows(3)); r.status != 200 { // a list of models says nothing of tools
		t.Errorf("status %d: %s", r.status, r.body)
	}
	// Where no request key is configured, nobody but this machine is served.
	open := start(t, mcpOf(b.URL))
	open.refusesRPC(open.rpc(rpcCall, "Host: rebound.test"), 403, "permission_error")
	open.refusesRPC(open.rpc(rpcCall, "Origin: https://evil.test"), 403, "permission_error")
	if r := open.rpc(rpcCall, "Origin: http://localhost:1"); r.status != 200 {
		t.Errorf("status %d: %s", r.status, r.body)
	}
}

// What the server refuses the client is told; what concerns our way there, or our credential, it is told as ours.
func TestMCPServerFails(t *testing.T) {
	t.Parallel()
	said := `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found for ` + toolsKey + `"}}`
	masked := strings.ReplaceAll(said, toolsKey, "***")
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request, int)
		status int
		kind   string // of an error from here; "" = the server's own words
		reason string // in the journal
	}{
		"no such session":   {says(404, said), 404, "", "http_404"},
		"does not listen":   {says(405, said, "Allow: POST"), 405, "", "http_405"},
		"bad message":       {says(400, said), 400, "", "http_400"},
		"too many":          {says(429, said, "Retry-After: 3"), 429, "", "http_429"},
		"broken":            {says(500, said), 500, "", "http_500"},
		"credential":        {says(401, said, `Www-Authenticate: Bearer resource_metadata="x"`), 503, "api_error", "api_error"},
		"scope":             {says(403, said), 503, "api_error", "api_error"},
		"redirected":        {says(307, said, "Location: /elsewhere"), 502, "api_error", "api_error"},
		"an unknown coding": {says(200, said, "Content-Encoding: br"), 502, "api_error", "api_error"},
		"silent":            {func(_ http.ResponseWriter, r *http.Request, _ int) { hang(r) }, 504, "timeout_error", "timeout_error"},
		"hangs up":          {func(http.ResponseWriter, *http.Request, int) { panic(http.ErrAbortHandler) }, 502, "api_error", "api_error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBackend(t, c.answer)
			i := start(t, mcpOf(b.URL), impatient(name))
			r := i.rpc(rpcCall)
			if c.kind != "" {
				i.refusesRPC(r, c.status, c.kind)
			} else if r.status != c.status || r.body != masked || r.header.Get("Allow") == "" && c.status == 405 || r.header.Get("Retry-After") == "" && c.status == 429 {
				t.Errorf("status %d, %v: %s", r.status, r.header, r.body)
			}
			if r.header.Get("Www-Authenticate")+r.header.Get("Location") != "" {
				t.Errorf("header %v", r.header)
			}
			if rec := i.record(r.trace()); rec.Outcome != "error" || rec.Status != c.status || rec.ErrorType != c.reason {
				t.Errorf("journal: %+v", rec)
			}
			b.only(t) // a tool may have run: nothing is sent twice
		})
	}
	t.Run("unreachable", func(t *testing.T) {
		i := start(t, mcpOf(nowhere(t)))
		i.refusesRPC(i.rpc(rpcCall), 502, "api_error")
		i.refusesRPC(i.ask("GET", "/mcp/tools", ""), 502, "api_error")
	})
}

// An answer that breaks off has no clean end, whatever it is.
func TestMCPBreaks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason string
		serve  func(conn *net.TCPConn, in *bufio.Reader)
	}{
		"a stream": {"api_error", func(conn *net.TCPConn, _ *bufio.Reader) {
			fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(rpcEvent(1)), rpcEvent(1))
		}},
		"a message": {"api_error", func(conn *net.TCPConn, _ *bufio.Reader) {
			fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n%s", rpcAnswer)
		}},
		"a silent stream": {"timeout_error", func(conn *net.TCPConn, in *bufio.Reader) {
			fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(rpcEvent(1)), rpcEvent(1))
			_, _ = in.ReadByte() // until the other side is gone
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := rawUpstream(t, func(conn *net.TCPConn, in *bufio.Reader, _ int) {
				if r, err := http.ReadRequest(in); err == nil {
					_, _ = io.Copy(io.Discard, r.Body)
					c.serve(conn, in)
				}
			})
			i := start(t, mcpOf(url), impatient(name))
			r := i.rpc(rpcCall)
			if r.status != 200 || r.err == nil {
				t.Errorf("status %d, %v: %s", r.status, r.err, r.body)
			}
			if rec := i.record(r.trace()); rec.Outcome != "broken" || rec.ErrorType != c.reason {
				t.Errorf("journal: %+v", rec)
			}
		})
	}
}

// What the server repeats of our secrets is masked, wherever it is cut.
func TestMCPMasks(t *testing.T) {
	t.Parallel()
	text := "data: {\"text\":\"walrus " + toolsKey + " " + teamToken + "\"}\n\n"
	want := "data: {\"text\":\"walrus *** ***\"}\n\n"
	for cut := 1; cut < len(text); cut += 7 {
		t.Run(fmt.Sprint(cut), func(t *testing.T) {
			t.Parallel()
			next := make(chan struct{})
			b := newBackend(t, func(w http.ResponseWriter, r *http.Request, _ int) {
				w.Header().Set("X-Echo", "Bearer "+toolsKey)
				pour(w, rpcEvent(1)+text[:cut])
				<-next
				pour(w, text[cut:], "data: "+toolsKey[:9])
			})
			i := start(t, mcpOf(b.URL))
			l := i.opened(rpcCall)
			l.expect(rpcEvent(1)) // it does not wait for what follows
			close(next)
			l.expect(want)
			if rest, err := l.all(); rest != "data: "+toolsKey[:9] || err != nil || l.header.Get("X-Echo") != "Bearer ***" {
				t.Errorf("%v, %v: %q", err, l.header, rest)
			}
		})
	}
	b := newBackend(t, says(200, `{"text":"`+toolsKey+`"}`))
	i := start(t, mcpOf(b.URL))
	if r := i.rpc(rpcCall); r.err != nil || r.body != `{"text":"***"}` {
		t.Errorf("%v: %s", r.err, r.body)
	}
	if shown := string(i.Config()); strings.Contains(shown, "credential-of-") || !strings.Contains(shown, b.URL) {
		t.Errorf("the masked configuration: %s", shown)
	}
}

// A reload takes a server away: a stream that is open goes on, nothing new begins. Another credential holds from then on.
func TestMCPReload(t *testing.T) {
	t.Parallel()
	push := make(chan string)
	b := newBackend(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		if r.Method != http.MethodGet {
			say(w, 200, rpcAnswer)
			return
		}
		for e := range push {
			pour(w, e)
		}
	})
	i := start(t, mcpOf(b.URL))
	listen := make(chan *live)
	go func() { listen <- i.opened("") }()
	push <- rpcEvent(1)
	l := <-listen
	l.expect(rpcEvent(1))
	i.rewrite(fmt.Sprintf(`"mcp":{"others":{"url":%q,"api_key":%q}}`, b.URL, credential("new")))
	if _, err := i.Reload(); err != nil {
		t.Fatal(err)
	}
	i.refusesRPC(i.rpc(rpcCall), 404, "not_found_error")
	if r := i.ask("POST", "/mcp/others", rpcCall); r.status != 200 || b.requests()[1].header.Get("Authorization") != "Bearer "+credential("new") {
		t.Errorf("status %d: %s", r.status, r.body)
	}
	push <- rpcEvent(2)
	l.expect(rpcEvent(2))
	close(push)
	if rest, err := l.all(); rest != "" || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
	if rec := i.record(l.header.Get("X-Proxy-Trace")); rec.Outcome != "ok" {
		t.Errorf("journal: %+v", rec)
	}
}

// Many at once do not mix.
func TestMCPAtOnce(t *testing.T) {
	t.Parallel()
	b := newBackend(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		for n := range 5 {
			pour(w, rpcEvent(n)+"data: "+r.Header.Get("X-Number")+"\n\n")
		}
	})
	i := start(t, oneCaller(), mcpOf(b.URL))
	wrong := make(chan string)
	for n := range 40 {
		go func() {
			var want strings.Builder
			for k := range 5 {
				fmt.Fprintf(&want, "%sdata: %d\n\n", rpcEvent(k), n)
			}
			r := i.rpc(rpcCall, "x-api-key: "+requestKey, fmt.Sprint("X-Number: ", n))
			if r.body == want.String() {
				r.body = ""
			}
			wrong <- r.body
		}()
	}
	for range 40 {
		if body := <-wrong; body != "" {
			t.Error(body)
		}
	}
}

// A stream on which a server says what it likes is cut at the end: nobody waits for it, and the journal has it.
func TestMCPStreamAtTheEnd(t *testing.T) {
	t.Parallel()
	b := newBackend(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		w.Header().Set("Content-Type", "text/event-stream")
		pour(w, rpcEvent(1))
		hang(r)
	})
	i := start(t, mcpOf(b.URL), poolOf(poolKey(k1, b.URL)))
	stream := i.opened("")
	if stream.status != 200 {
		t.Fatalf("status %d", stream.status)
	}
	i.finish()
	i.wait()
	if list := i.records(""); len(list) != 1 || list[0].Dialect != "mcp" {
		t.Errorf("journal: %+v", list)
	}
}
