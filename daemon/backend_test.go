package daemon

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// received is a request as an upstream saw it.
type received struct {
	method, uri, host string
	header            http.Header
	length            int64
	body              string
	bodyErr           error
	trailer           http.Header
}

// text is all of it, for looking for what must not be there.
func (r received) text() string { return fmt.Sprint(r.uri, r.host, r.header, r.trailer) }

// backend is an upstream that a test writes by hand.
type backend struct {
	*httptest.Server
	mu  sync.Mutex
	got []received
}

// requests returns what has come.
func (b *backend) requests() []received {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]received(nil), b.got...)
}

// only returns the one request that has come.
func (b *backend) only(t *testing.T) received {
	t.Helper()
	got := b.requests()
	if len(got) != 1 {
		t.Fatalf("%d requests have reached the upstream, want 1", len(got))
	}
	return got[0]
}

// newBackend answers request n, from 0, with answer after its body was read.
func newBackend(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, n int)) *backend {
	t.Helper()
	b := &backend{}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		b.mu.Lock()
		n := len(b.got)
		b.got = append(b.got, received{r.Method, r.RequestURI, r.Host, r.Header.Clone(), r.ContentLength, string(body), err, r.Trailer.Clone()})
		b.mu.Unlock()
		answer(w, r, n)
	}))
	t.Cleanup(b.Close)
	return b
}

// says answers every request with status and body; header lines are "name: value".
func says(status int, body string, header ...string) func(http.ResponseWriter, *http.Request, int) {
	return func(w http.ResponseWriter, _ *http.Request, _ int) { say(w, status, body, header...) }
}

func say(w http.ResponseWriter, status int, body string, header ...string) {
	w.Header().Set("Content-Type", "application/json")
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		if name == "Content-Type" {
			w.Header().Del(name)
		}
		w.Header().Add(name, value)
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// pour starts an event stream and writes pieces, each flushed on its own.
func pour(w http.ResponseWriter, pieces ...string) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	for _, p := range pieces {
		_, _ = io.WriteString(w, p)
		_ = http.NewResponseController(w).Flush()
	}
}

// pours answers every request with these pieces.
func pours(pieces ...string) func(http.ResponseWriter, *http.Request, int) {
	return func(w http.ResponseWriter, _ *http.Request, _ int) { pour(w, pieces...) }
}

// hang stays silent until the other side is gone.
func hang(r *http.Request) { <-r.Context().Done() }

// failure is an error body as Anthropic writes it.
func failure(kind, message string) string {
	return fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%q},"request_id":"req_upstream"}`, kind, message)
}

// The events of a small answer.
const (
	evStart  = `event: message_start` + "\n" + `data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"output_tokens":1}}}` + "\n\n"
	evBlock  = `event: content_block_start` + "\n" + `data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\n"
	evDelta  = `event: content_block_delta` + "\n" + `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"walrus "}}` + "\n\n"
	evEnd    = `event: content_block_stop` + "\n" + `data: {"type":"content_block_stop","index":0}` + "\n\n"
	evFinish = `event: message_delta` + "\n" + `data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":7}}` + "\n\n"
	evStop   = `event: message_stop` + "\n" + `data: {"type":"message_stop"}` + "\n\n"
	evPing   = `event: ping` + "\n" + `data: {"type":"ping"}` + "\n\n"

	evBegin = evStart + evBlock + evDelta // good head
	evRest  = evEnd + evFinish + evStop
	evAll   = evBegin + evRest
)

// whole is a small plain answer.
const whole = `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"walrus"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":10,"output_tokens":7}}`

// rawUpstream runs serve for each connection, in the order in which they come; serve's end closes it.
func rawUpstream(t *testing.T, serve func(conn *net.TCPConn, in *bufio.Reader, n int)) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var open sync.WaitGroup
	var mu sync.Mutex
	conns := map[net.Conn]bool{}
	open.Go(func() {
		for n := 0; ; n++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns[conn] = true
			mu.Unlock()
			open.Go(func() {
				defer conn.Close()
				serve(conn.(*net.TCPConn), bufio.NewReader(conn), n)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for c := range conns {
			c.Close()
		}
		mu.Unlock()
		open.Wait()
	})
	return "http://" + l.Addr().String()
}

// reset closes a connection so that the other side sees an error at once.
func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	conn.Close()
}

// nowhere is an address that refuses connections.
func nowhere(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}
