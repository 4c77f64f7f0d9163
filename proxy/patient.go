package proxy

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// errAborted ends an answer that has begun and cannot go on: the connection is closed.
var errAborted = errors.New("the answer cannot go on")

// served is what serve came to, on a goroutine of its own.
type served struct {
	resp  *http.Response
	err   error
	panic any
}

// patient serves a stream to clients that give up soon when no header comes: where the head is not there in time they
// get one, the body waits for the attempt that is under way, and no further key is tried.
func (f *failover) patient(c *call, within time.Duration, header, own http.Header) (*http.Response, error) {
	done := make(chan served, 1)
	go func() {
		var s served
		defer func() {
			s.panic = recover()
			done <- s
		}()
		s.resp, s.err = f.serve(c, header, own)
	}()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case s := <-done:
		if s.panic != nil {
			panic(s.panic)
		}
		return s.resp, s.err
	case <-timer.C:
	}
	c.committed.Store(true)
	c.writer.stream(c.dialect, c.array)
	h := http.Header{"Content-Type": {contentType(!c.array)}, traceHeader: {c.Trace}}
	return &http.Response{StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h,
		Body: &waiting{c: c, done: done}, ContentLength: -1, Request: c.in}, nil
}

// waiting is the body of an answer whose header the client has already.
type waiting struct {
	c    *call
	done chan served
	got  *served
}

func (w *waiting) wait() *served {
	if w.got == nil {
		s := <-w.done
		w.got = &s
	}
	return w.got
}

// Read waits for the attempt. One that failed aborts the connection: it is too late for an error.
func (w *waiting) Read(p []byte) (int, error) {
	s := w.wait()
	switch {
	case s.panic != nil:
		panic(s.panic)
	case s.err != nil:
		w.c.failed(s.err)
		return 0, errAborted
	case s.resp.StatusCode != http.StatusOK:
		return 0, errAborted
	}
	return s.resp.Body.Read(p)
}

// Close waits, too: the attempt ends with the request.
func (w *waiting) Close() error {
	s := w.wait()
	if s.resp == nil {
		return nil
	}
	return s.resp.Body.Close()
}

var _ io.ReadCloser = (*waiting)(nil)
