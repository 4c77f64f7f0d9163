package proxy

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
)

const (
	firstRead  = 1 << 20 // a declared length is believed up to this before bytes have come
	keepBuffer = 4 << 20 // larger buffers are left to the garbage collector
)

// body is a request body, read whole. Its buffer is counted: the request holds one reference, each attempt's reader
// one more until its Transport has closed it. A Transport may go on reading after RoundTrip returned.
type body struct {
	bytes []byte
	refs  atomic.Int32
	pool  *sync.Pool
}

func (b *body) release() {
	if b.refs.Add(-1) == 0 && b.pool != nil && cap(b.bytes) <= keepBuffer {
		buf := b.bytes[:0]
		b.bytes = nil
		b.pool.Put(&buf)
	}
}

// readBody reads and undoes the encoding of a request body of at most limit bytes.
func readBody(w http.ResponseWriter, r *http.Request, limit int64, buffers *sync.Pool) (*body, error) {
	encoding := strings.ToLower(strings.TrimSpace(r.Header.Get("Content-Encoding")))
	var buf []byte
	if p, _ := buffers.Get().(*[]byte); p != nil {
		buf = *p
	}
	var err error
	switch encoding {
	case "", "identity":
		if r.ContentLength > limit {
			err = errTooLarge(limit)
			break
		}
		buf, err = readAll(buf, http.MaxBytesReader(w, r.Body, limit), r.ContentLength)
	case "gzip", "x-gzip", "deflate":
		buf, err = readEncoded(buf, http.MaxBytesReader(w, r.Body, limit), encoding, limit)
	default:
		err = &Error{Status: http.StatusUnsupportedMediaType, Type: "invalid_request_error",
			Message: "content-encoding " + printable(encoding) + " is not read here; send the body plain, or with gzip or deflate (Codex: features.enable_request_compression = false)"}
	}
	b := &body{bytes: buf, pool: buffers}
	b.refs.Store(1)
	if err == nil {
		return b, nil
	}
	b.release()
	var tooLarge *http.MaxBytesError
	var e *Error
	switch {
	case errors.As(err, &tooLarge):
		return nil, errTooLarge(limit)
	case errors.As(err, &e):
		return nil, e
	}
	return nil, badRequest("the request body could not be read: %s", readProblem(err))
}

// readProblem names why a body could not be read, in words that hold nothing of it.
func readProblem(err error) string {
	switch {
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.Is(err, zlib.ErrHeader), errors.Is(err, zlib.ErrChecksum):
		return "it is not what its content-encoding says"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return "it ended early"
	}
	return "it did not arrive"
}

// readAll reads r into buf. length is what the client declared, -1 when it did not.
func readAll(buf []byte, r io.Reader, length int64) ([]byte, error) {
	if want := min(length, firstRead); int64(cap(buf)) < want {
		buf = make([]byte, 0, want)
	}
	for {
		if int64(len(buf)) == length {
			return buf, nil
		}
		if len(buf) == cap(buf) {
			grown := make([]byte, len(buf), max(2*cap(buf), 4<<10))
			copy(grown, buf)
			buf = grown
		}
		room := cap(buf)
		if length >= 0 {
			room = int(min(int64(room), length))
		}
		n, err := r.Read(buf[len(buf):room])
		buf = buf[:len(buf)+n]
		if err == io.EOF {
			if length >= 0 && int64(len(buf)) < length {
				return buf, io.ErrUnexpectedEOF
			}
			return buf, nil
		}
		if err != nil {
			return buf, err
		}
	}
}

func readEncoded(buf []byte, r io.Reader, encoding string, limit int64) ([]byte, error) {
	d, err := decoder(encoding, r)
	if err != nil {
		return buf, err
	}
	buf, err = readAll(buf, io.LimitReader(d, limit+1), -1)
	if err == nil && int64(len(buf)) > limit {
		err = errTooLarge(limit)
	}
	if err == nil { // net/http notices that a client leaves only once its body was read to the end
		_, err = io.Copy(io.Discard, r)
	}
	return buf, err
}

// decoder undoes gzip or deflate. What HTTP calls deflate is zlib, but some send the bare stream.
func decoder(encoding string, r io.Reader) (io.Reader, error) {
	if encoding != "deflate" {
		return gzip.NewReader(r)
	}
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	whole := io.MultiReader(bytes.NewReader(head[:]), r)
	if head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
		return zlib.NewReader(whole)
	}
	return flate.NewReader(whole), nil
}

// pieces reads a body's parts, in which the model was spliced, without copying them together. It is one attempt's
// http.Request.Body; the lock keeps a late Read of the Transport off a buffer that was given back.
type pieces struct {
	mu     sync.Mutex
	from   *body
	parts  [][]byte
	part   int
	offset int
	closed bool
}

// reader returns a reader over parts of the body, counted until it is closed.
func (b *body) reader(parts [][]byte) *pieces {
	b.refs.Add(1)
	return &pieces{from: b, parts: parts}
}

var errClosedBody = errors.New("read of a closed request body")

func (p *pieces) Read(out []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return 0, errClosedBody
	}
	n := 0
	for n < len(out) && p.part < len(p.parts) {
		m := copy(out[n:], p.parts[p.part][p.offset:])
		n += m
		if p.offset += m; p.offset == len(p.parts[p.part]) {
			p.part, p.offset = p.part+1, 0
		}
	}
	if n == 0 && p.part == len(p.parts) {
		return 0, io.EOF
	}
	return n, nil
}

func (p *pieces) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.closed = true
		p.parts = nil
		p.from.release()
	}
	return nil
}

func size(parts [][]byte) int64 {
	var n int64
	for _, p := range parts {
		n += int64(len(p))
	}
	return n
}

// renewing moves the read deadline before each read: a body may be long, but it must keep arriving.
type renewing struct {
	io.ReadCloser
	ctl *http.ResponseController
	p   *Proxy
}

func (r *renewing) Read(b []byte) (int, error) {
	_ = r.ctl.SetReadDeadline(r.p.now().Add(r.p.settings().opt.Timeouts.Idle))
	return r.ReadCloser.Read(b)
}
