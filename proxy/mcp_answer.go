package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/upstream"
	"coding-proxy/stats"
)

// messages are the body of an MCP server's answer on its way to the client: a JSON message or a stream of events, as they
// come. A secret of ours is masked wherever it stands; what could be the beginning of one waits for what follows, but never
// behind the end of a line, so that events do not wait.
type messages struct {
	x      *exchange
	ctx    context.Context // the exchange's
	status int
	src    io.ReadCloser
	dog    *watchdog
	length int64  // that was promised, -1 if none was
	hold   int    // how much of an unfinished line waits
	base   []byte // the memory of buf
	buf    []byte // read and not yet delivered
	ready  int    // how much of it may go
	err    error  // what follows buf
}

func newMessages(ctx context.Context, x *exchange, resp *http.Response, dog *watchdog) *messages {
	m := &messages{x: x, ctx: ctx, status: resp.StatusCode, src: resp.Body, dog: dog, length: resp.ContentLength, hold: longestSecret(x.opt) - 1}
	x.c.record.Stream = strings.HasPrefix(strings.ToLower(resp.Header.Get("Content-Type")), "text/event-stream")
	switch {
	case m.length == 0:
		m.end(io.EOF) // the client sees the end with the header
	case m.hold > 0: // masked, it is shorter
		resp.Header.Del("Content-Length")
		resp.ContentLength = -1
	}
	return m
}

// longestSecret is the length of the longest value that may have to be masked.
func longestSecret(o upstream.Options) int {
	n := len(o.APIKey.Reveal())
	for _, v := range o.Headers {
		n = max(n, len(v.Reveal()))
	}
	return n
}

// Read gives the next bytes. The last ones leave only when the journal has its line: where no length was promised the end
// itself is what the client waits for.
func (m *messages) Read(p []byte) (int, error) {
	for m.ready == 0 {
		if m.err != nil {
			return 0, m.err
		}
		m.fetch(p)
	}
	n := copy(p, m.buf[:m.ready])
	m.buf, m.ready = m.buf[n:], m.ready-n
	return n, nil
}

// fetch reads through the caller's buffer.
func (m *messages) fetch(scratch []byte) {
	m.dog.waiting()
	n, err := m.src.Read(scratch)
	m.dog.alive()
	total := &m.x.c.record.ResponseBytes
	*total += int64(n)
	m.base = append(append(m.base[:0], m.buf...), scratch[:n]...)
	m.buf = m.x.server.Mask(m.base)
	if err == nil && *total == m.length {
		err = io.EOF
	}
	if err != nil {
		m.end(err)
		m.ready = len(m.buf)
		return
	}
	line := m.buf[bytes.LastIndexAny(m.buf, "\r\n")+1:]
	m.ready = len(m.buf) - min(len(line), max(m.hold, 0))
}

// end closes the books.
func (m *messages) end(err error) {
	c := m.x.c
	switch m.err = err; {
	case errors.Is(err, io.EOF) && m.status < 400:
		c.finish(stats.OutcomeOK, m.status)
	case errors.Is(err, io.EOF):
		c.record.ErrorType = "http_" + strconv.Itoa(m.status)
		c.finish(stats.OutcomeError, m.status)
	case c.in.Context().Err() != nil:
		c.finish(stats.OutcomeCancelled, m.status)
	default:
		if c.record.ErrorType = ir.KindAPI; errors.Is(context.Cause(m.ctx), errTimeout) {
			c.record.ErrorType = ir.KindTimeout
		}
		c.finish(stats.OutcomeBroken, m.status)
	}
}

// Close ends the exchange. ReverseProxy calls it when it has read to the end, or when the client is gone.
func (m *messages) Close() error {
	m.x.c.finish(stats.OutcomeCancelled, m.status) // only if nothing has been said: the copy ended before the body did
	m.dog.stop()
	return m.src.Close()
}
