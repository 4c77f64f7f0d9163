package proxy

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// Why a head is no good, in closed words.
var (
	errNotDialect = errors.New("not_in_dialect")
	errEmpty      = errors.New("empty_answer")
	errBrokeOff   = errors.New("broken_head")
)

// heading is the head of a stream while it is held: one goroutine reads it until it proves good or bad, or until it
// is released because the hold has lasted long enough.
type heading struct {
	r    *relay        // what it is the head of, as far as that never changes
	tap  ir.Tap        // of its own: the relay looks at the head's events again
	done chan struct{} // closed when the goroutine has ended

	mu       sync.Mutex // guards everything below
	buf      []byte     // its memory is pooled
	seen     int        // of buf, how much has been looked at
	searched int        // behind that: how much of a long event has been looked through
	taken    int        // of buf, how much the relay has
	released bool
	started  bool
	whole    bool // it is a plain answer: the conversion does not mind
	usage    ir.Usage
	stop     string
	fault    *ir.Fault
	data     []byte // of an error event
	err      error
	readErr  error
}

// head holds the beginning of the answer back until it proves good: both results nil. A fault is an error that the
// provider said under a 2xx, an error one of the words above.
func (r *relay) head(hold time.Duration) (*ir.Fault, error) {
	if !r.events {
		return r.plainHead()
	}
	h := &heading{r: r, tap: r.d.Raw.NewTap(), done: make(chan struct{}), buf: r.c.p.heads.get()}
	go h.read(r.src)
	timer := time.NewTimer(hold)
	defer timer.Stop()
	select {
	case <-h.done:
	case <-timer.C:
		h.mu.Lock()
		h.released = h.err == nil && h.fault == nil && h.isEvents()
		released := h.released
		h.mu.Unlock()
		if released {
			r.pending = h
			return nil, nil
		}
		<-h.done
	}
	r.pending = h
	if h.fault != nil {
		r.errorBody = h.data
		return h.fault, nil
	}
	return nil, h.err
}

// read is the goroutine. It ends with the head.
func (h *heading) read(src io.Reader) {
	defer close(h.done)
	for {
		h.mu.Lock()
		if len(h.buf) == cap(h.buf) {
			h.buf = append(make([]byte, 0, 2*cap(h.buf)), h.buf...)
		}
		room := h.buf[len(h.buf):cap(h.buf)]
		h.mu.Unlock()
		n, err := src.Read(room) // behind what others may look at
		h.mu.Lock()
		h.buf = h.buf[:len(h.buf)+n]
		h.readErr = err
		decided := h.released || h.decide()
		if !decided && err != nil {
			h.cut()
			decided = true
		}
		h.mu.Unlock()
		if decided {
			return
		}
	}
}

// decide looks at the new events. It returns true when the head is judged, one way or the other.
func (h *heading) decide() bool {
	if h.seen == 0 && !h.isEvents() {
		if h.readErr == nil && len(h.buf) < maxHead {
			return false // a page or an error body: read it to its end
		}
		h.notEvents()
		return true
	}
	for {
		n := h.r.frame(h.buf[h.seen:], &h.searched)
		if n == 0 {
			break
		}
		name, data := h.r.parse(h.buf[h.seen : h.seen+n])
		m := h.tap.Mark(name, data)
		if m.Kind == ir.MarkError {
			h.fault, h.data = m.Fault, bytes.Clone(data)
			return true
		}
		if m.StopReason != "" {
			h.stop = m.StopReason
		}
		h.usage.Merge(m.Usage)
		switch {
		case h.r.c.Route.speaks != "": // what its events mean is not known here
			return true
		case m.Content || m.Kind == ir.MarkStop:
			// The relay goes on with this event: it is seen once more there.
			if !m.Content && !h.says() {
				h.err = errEmpty
			}
			return true
		case m.Kind == ir.MarkStart:
			h.started = true
		}
		h.seen += n
	}
	return len(h.buf) >= maxHead && h.r.d.Name == Anthropic || len(h.buf) >= maxLongHead
}

// says reports whether an answer without content is one all the same: it says what it cost, or an unusual end.
func (h *heading) says() bool {
	switch {
	case h.r.d.Raw.Opening != "" && !h.started:
		return false
	case h.usage.Known != 0:
		return true
	}
	switch h.stop {
	case "", "end_turn", "stop", "completed", "STOP":
		return false
	}
	return true
}

// notEvents judges an answer to a streaming request that is no stream.
func (h *heading) notEvents() {
	if f := bodyFault(h.r.d, bytes.TrimSpace(h.buf)); f != nil {
		h.fault, h.data = f, bytes.Clone(h.buf)
		return
	}
	if text := plainText(h.buf); h.r.conv != nil && len(text) > 0 && text[0] == '{' {
		h.whole = true
		return
	}
	h.err = errNotDialect
}

// cut judges a stream that ended in its head. Dialects whose streams end with the body may have said all by then.
func (h *heading) cut() {
	h.err = errBrokeOff
	switch {
	case len(bytes.TrimSpace(h.buf)) == 0:
		h.err = errEmpty
	case h.stop != "" && h.readErr == io.EOF && h.says():
		h.err = nil
	}
}

// isEvents reports whether what has come begins like an event stream, as far as it has come.
func (h *heading) isEvents() bool {
	b := bytes.TrimLeft(bytes.TrimPrefix(h.buf, []byte("\ufeff")), "\r\n")
	if h.r.array {
		b = bytes.TrimLeft(b, " \t\r\n")
		return len(b) == 0 || b[0] == '['
	}
	for _, field := range [...]string{":", "event", "data", "id", "retry"} {
		n := min(len(b), len(field))
		if string(b[:n]) == field[:n] {
			return true
		}
	}
	return false
}

// bodyFault reports the fault that a body of a 2xx holds, nil when it is no error envelope.
func bodyFault(d *ir.Dialect, body []byte) *ir.Fault {
	f := d.Fault(0, body)
	if f.Type == "" && f.Code == "" {
		return nil
	}
	return &f
}

// take goes on where the head ended. Of a head that was released, what has come goes first; what comes next the
// goroutine is still reading.
func (r *relay) take(h *heading) {
	h.mu.Lock()
	fresh := h.buf[h.taken:]
	if h.whole {
		r.events = false
	}
	h.taken = len(h.buf)
	if h.released && len(fresh) > 0 {
		fresh = bytes.Clone(fresh) // the goroutine's memory may grow away
		h.mu.Unlock()
		r.total += int64(len(fresh))
		r.hold(fresh, nil)
		return
	}
	h.mu.Unlock()
	r.dog.waiting()
	<-h.done
	r.dog.alive()
	r.pending = nil
	fresh = h.buf[h.taken-len(fresh):]
	r.total += int64(len(fresh))
	if len(r.buf) == 0 && r.base == nil {
		r.buf, r.base = fresh, h.buf[:0]
		var n int
		n, r.buf = r.look(fresh, fresh)
		r.release(n, h.readErr)
		return
	}
	r.hold(fresh, h.readErr)
	r.c.p.heads.put(h.buf)
}

// plainHead reads the beginning of a whole answer: a JSON object, or it is none. It reads until the first member tells
// whether this is an error under a 2xx; such a one it reads whole.
func (r *relay) plainHead() (*ir.Fault, error) {
	if r.opaque {
		return nil, nil
	}
	h := &heading{r: r, done: r.c.p.closed, buf: r.c.p.heads.get()}
	r.pending = h
	more := true
	for more && h.readErr == nil && len(h.buf) < maxHead {
		if len(h.buf) == cap(h.buf) {
			h.buf = append(make([]byte, 0, 2*cap(h.buf)), h.buf...)
		}
		n, err := r.src.Read(h.buf[len(h.buf):cap(h.buf)])
		h.buf, h.readErr = h.buf[:len(h.buf)+n], err
		text := plainText(h.buf)
		switch {
		case len(text) == 0: // blanks, as some providers send to keep the connection alive
			more = n == 0
		case text[0] != '{':
			return nil, errNotDialect
		default:
			more = undecided(text)
		}
	}
	text := plainText(h.buf)
	if len(text) == 0 && h.readErr != nil {
		return nil, errEmpty
	}
	return r.judgePlain(text)
}

func plainText(b []byte) []byte { return bytes.TrimLeft(b, " \t\r\n\ufeff") }

// undecided reports whether more of a plain answer must be read: its first member has not come, or it says that the
// answer is an error.
func undecided(text []byte) bool {
	more := true
	err := rawjson.Walk(text, func(key []byte, f rawjson.Field) error {
		isError := string(key) == "error" || string(key) == "type" && string(f.Value(text)) == `"error"`
		if !isError {
			more = false
		}
		return errDecided
	})
	return more && err != nil
}

var errDecided = errors.New("decided")

// judgePlain looks at a whole answer as far as it has come. One that is whole and says nothing is none.
func (r *relay) judgePlain(text []byte) (*ir.Fault, error) {
	var kind, status []byte
	failed, said := false, r.c.Route.speaks != ""
	err := rawjson.Walk(text, func(key []byte, f rawjson.Field) error {
		switch v := f.Value(text); string(key) {
		case "type":
			kind = v
		case "status":
			status = v
		case "error":
			failed = string(v) != "null"
		default:
			said = said || slices.Contains(r.d.Raw.Says, string(key))
		}
		return nil
	})
	switch {
	case string(kind) == `"error"` || err == nil && failed && (!said || string(status) == `"failed"`):
		if f := bodyFault(r.d, text); f != nil {
			r.errorBody = bytes.Clone(text)
			return f, nil
		}
		return nil, errNotDialect
	case err == nil && !said && !failed:
		return nil, errEmpty
	}
	return nil, nil
}
