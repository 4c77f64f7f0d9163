package proxy

import (
	"bytes"
	"net/http"
	"sync"
	"time"

	"coding-proxy/proxy/ir"
)

// keepAliveEvery is the longest silence that a client of a stream hears.
const keepAliveEvery = 15 * time.Second

// clientWriter is the one wrapper around the client's ResponseWriter. In a stream that is silent it sends
// keep-alives, only between two events; before a write it renews the deadline for a client that stops reading.
type clientWriter struct {
	http.ResponseWriter
	ctl   *http.ResponseController
	every time.Duration // of keep-alives
	idle  time.Duration // for a client that stops reading
	now   func() time.Time

	mu       sync.Mutex // guards everything below, and all writes
	deadline time.Time  // the one that is set
	last     time.Time  // of the last write
	timer    *time.Timer
	streams  bool // the answer is an event stream that has begun and not ended
	dialect  *ir.Dialect
	anywhere bool // every write ends an event
	started  bool // the message has begun
	between  bool // the last byte ended an event
	ending   bool // nothing comes after the next write
	code     int  // status, 0 before the header is written
	written  int64
}

func newClientWriter(w http.ResponseWriter, p *Proxy) *clientWriter {
	return &clientWriter{ResponseWriter: w, ctl: http.NewResponseController(w), every: p.keepAlive, idle: p.settings().opt.Timeouts.Idle, now: p.now}
}

// Unwrap lets http.ResponseController find the server's own writer.
func (w *clientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *clientWriter) WriteHeader(code int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.renew()
	if code >= 200 {
		w.code = code
	}
	w.ResponseWriter.WriteHeader(code)
}

// stream says that the answer will be an event stream of the dialect, or one JSON array.
func (w *clientWriter) stream(d *ir.Dialect, array bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.streams {
		return // begun before its head was good
	}
	w.dialect, w.anywhere = d, array
	w.streams, w.between, w.last = true, true, w.now()
	w.timer = time.AfterFunc(w.every, w.tick)
}

// end says that the next bytes are the last ones and the handler returns right after them: they are flushed together
// with the end of the body, not once more before it.
func (w *clientWriter) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ending = true
}

// stop ends the keep-alives; after it has returned the writer touches the ResponseWriter no more by itself.
func (w *clientWriter) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.streams = false
	if w.timer != nil {
		w.timer.Stop()
	}
}

func (w *clientWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.renew()
	if w.streams {
		if !w.started {
			w.started = bytes.Contains(p, []byte(w.dialect.Raw.Opening))
		}
		w.between = w.anywhere || endsEvent(p)
	}
	n, err := w.ResponseWriter.Write(p)
	w.written += int64(n)
	return n, err
}

// FlushError is what http.ResponseController calls.
func (w *clientWriter) FlushError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ending {
		return nil
	}
	return w.ctl.Flush()
}

// endsEvent reports whether p ends with the blank line that ends an event. Inside an event there is none: JSON
// has no line ends of its own.
func endsEvent(p []byte) bool {
	return bytes.HasSuffix(p, []byte("\n\n")) || bytes.HasSuffix(p, []byte("\n\r\n")) || bytes.HasSuffix(p, []byte("\r\r"))
}

// renew moves the write deadline, but not at every event: the call costs more than the write of a small one.
func (w *clientWriter) renew() {
	now := w.now()
	w.last = now
	if w.deadline.Sub(now) < w.idle {
		w.deadline = now.Add(w.idle + w.idle/8)
		_ = w.ctl.SetWriteDeadline(w.deadline) // a writer without deadlines has none to set
	}
}

// tick sends a keep-alive if the stream was silent, and comes again.
func (w *clientWriter) tick() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.streams {
		return
	}
	next := w.every - w.now().Sub(w.last)
	if next <= 0 {
		next = w.every
		if w.between && w.code != 0 {
			w.renew()
			if _, err := w.ResponseWriter.Write(w.dialect.Raw.KeepAlive(w.started)); err != nil {
				return // the client is gone; the copy will see it
			}
			_ = w.ctl.Flush()
		}
	}
	w.timer.Reset(next)
}
