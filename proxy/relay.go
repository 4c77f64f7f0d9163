package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"coding-proxy/pool"
	"coding-proxy/proxy/codec/anthropic"
	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
	"coding-proxy/proxy/sse"
	"coding-proxy/proxy/upstream"
	"coding-proxy/stats"
)

const (
	// maxHeld is the most of an unfinished event that is held back; a longer event flows.
	maxHeld = 64 << 10
	// afterEnd is how long an upstream may keep its connection after the terminal event.
	afterEnd = 5 * time.Second
	// deltaFrame is about what a content_block_delta event weighs without its text, and bytesPerToken what a token of
	// text does: for the estimate of an answer that broke.
	deltaFrame    = 140
	bytesPerToken = 4
)

// relay is the body of a good answer on its way to the client: byte for byte, whole events only, with usage read on
// the side. The bytes that end the answer leave it only when the journal has its line.
type relay struct {
	ctx    context.Context // the attempt's
	c      *call
	lease  *pool.Lease
	up     *upstream.Upstream
	resp   *http.Response
	src    io.ReadCloser
	dog    *watchdog
	stream bool

	buf     []byte   // read and not yet delivered
	base    []byte   // the memory of buf, from its start
	ready   int      // how much of buf may go
	err     error    // after buf: how the body ended
	pending *heading // the head, not yet taken over
	total   int64    // bytes that the source gave

	// of a stream
	known   int  // how much of buf the head has looked at already
	flowing bool // in the middle of an event that is too long to hold
	failed  bool // an error event has ended it
	ended   bool // the terminal event has been seen, or the end was judged
	deltas  int64
	usage   ir.Usage
	stop    string
	// of a plain body
	members   rawjson.Members
	errorBody []byte // what an error in the head of a 2xx said
}

func newRelay(ctx context.Context, c *call, lease *pool.Lease, up *upstream.Upstream, resp *http.Response, dog *watchdog) *relay {
	r := &relay{ctx: ctx, c: c, lease: lease, up: up, resp: resp, src: resp.Body, dog: dog, stream: c.stream}
	if !r.stream {
		r.members = rawjson.Members{Want: []string{"usage", "stop_reason"}, Limit: maxHeld}
	}
	return r
}

// Read gives the next bytes that may go to the client.
func (r *relay) Read(p []byte) (int, error) {
	for {
		switch {
		case r.ready > 0:
			n := copy(p, r.buf[:r.ready])
			if r.buf, r.ready = r.buf[n:], r.ready-n; r.ready == 0 && r.err == io.EOF {
				r.c.writer.end()
			}
			return n, nil
		case r.err != nil:
			return 0, r.err
		case r.pending != nil:
			r.take(r.pending)
		case !r.ended && len(r.buf) < len(p)/2:
			if n := r.direct(p); n > 0 {
				return n, nil
			}
		default:
			r.hold(r.fetch(p))
		}
	}
}

// fetch reads from the source into p. What came is looked at with what is held before it.
func (r *relay) fetch(p []byte) (data []byte, err error) {
	r.dog.waiting()
	n, err := r.src.Read(p)
	r.dog.alive()
	r.total += int64(n)
	return p[:n], err
}

// direct reads into the caller's buffer, behind the little that is held, and releases from there what is whole: the
// way of nearly all bytes.
func (r *relay) direct(p []byte) int {
	held := copy(p, r.buf)
	r.forget()
	fresh, err := r.fetch(p[held:])
	data := p[:held+len(fresh)]
	n := r.look(data, fresh)
	if err != nil || r.ended {
		r.keep(data)
		r.release(n, err)
		return 0
	}
	r.keep(data[n:])
	return n
}

// hold appends what came to what is held, and releases what is whole.
func (r *relay) hold(fresh []byte, err error) {
	r.keep(fresh)
	r.release(r.look(r.buf, fresh), err)
}

// look says how much of data may go; fresh are the last of its bytes, which have not been looked at.
func (r *relay) look(data, fresh []byte) int {
	switch {
	case r.ended:
		return 0
	case r.stream:
		return r.scan(data)
	}
	_, _ = r.members.Write(fresh) // never fails
	return max(len(data)-1, 0)    // the last byte waits for the journal
}

// keep appends to what is held, in pooled memory while that is enough.
func (r *relay) keep(data []byte) {
	if len(data) == 0 {
		return
	}
	if r.base == nil {
		r.base = r.c.p.heads.get()
		r.buf = r.base
	}
	switch need := len(r.buf) + len(data); {
	case cap(r.buf) >= need:
	case cap(r.base) >= need:
		r.buf = r.base[:copy(r.base[:cap(r.base)], r.buf)]
	default:
		grown := append(make([]byte, 0, 2*need), r.buf...)
		r.c.p.heads.put(r.base)
		r.base, r.buf = grown[:0], grown
	}
	r.buf = append(r.buf, data...)
}

// forget gives back the memory that held something.
func (r *relay) forget() {
	if r.base != nil {
		r.c.p.heads.put(r.base)
	}
	r.buf, r.base = nil, nil
}

// release lets the first n held bytes go. An error of the source is judged behind them.
func (r *relay) release(n int, err error) {
	if r.failed { // the provider's own words end the answer; they may repeat the key
		r.buf = r.up.Mask(r.buf[:n])
	}
	if r.ready = n; r.ended { // what follows the terminal event breaks nothing
		r.ready = len(r.buf)
	}
	if err != nil && r.err == nil {
		r.end(err)
	}
}

// scan looks at the whole events of b and returns how much of b may go.
func (r *relay) scan(b []byte) int {
	at := r.known
	r.known = 0
	if r.flowing {
		at = r.flow(b)
		if r.flowing {
			return at
		}
	}
	for !r.ended {
		n := sse.Next(b[at:])
		if n == 0 {
			break
		}
		r.see(b[at : at+n])
		at += n
	}
	if r.ended {
		return at
	}
	if len(b)-at > maxHeld {
		r.flowing = true
		return max(at, len(b)-3) // in the last bytes the end of the event may have begun
	}
	return at
}

// flow goes on with an event that is too long to hold: b begins inside it.
func (r *relay) flow(b []byte) int {
	from := 0
	if len(b) > 0 && (b[0] == '\n' || b[0] == '\r') {
		from = 1 // the end of a line, not an empty one: an empty one would have been found before
	}
	if n := sse.Next(b[from:]); n > 0 {
		r.flowing = false
		return from + n
	}
	return max(0, len(b)-3)
}

// count estimates the tokens of a delta, for an answer that breaks.
func (r *relay) count(event []byte) {
	r.deltas += max(1, (int64(len(event))-deltaFrame)/bytesPerToken)
}

// see takes note of one event.
func (r *relay) see(event []byte) {
	if anthropic.IsDelta(event) {
		r.count(event)
		return
	}
	e := anthropic.Event(event)
	r.usage.Merge(e.Usage)
	switch e.Kind {
	case ir.EventDelta:
		r.count(event)
	case ir.EventFinish:
		r.stop = e.StopReason
	case ir.EventStop:
		r.finish(stats.OutcomeOK, pool.Outcome{})
	case ir.EventError:
		e.Fault.Reset = 0
		r.c.record.ErrorType = closedWord(*e.Fault)
		r.finish(stats.OutcomeBroken, r.c.set.opt.Failover.judge(*e.Fault))
		r.failed, r.err = true, io.EOF
	}
}

// end judges how the body ended when no terminal event had come.
func (r *relay) end(err error) {
	switch {
	case r.ended:
		r.err = io.EOF
		return
	case r.c.in.Context().Err() != nil:
		r.finish(stats.OutcomeCancelled, pool.Outcome{Class: pool.Cancelled})
		r.err = err
		return
	case !r.stream:
		r.endPlain(err)
		return
	}
	clean := errors.Is(err, io.EOF)
	if tail := r.buf[r.ready:]; clean && len(tail) > 0 && !r.flowing {
		if e := anthropic.Event(tail); completeButForItsEnd(tail) && (e.Kind == ir.EventStop || r.stop != "" && e.Kind != ir.EventError) {
			r.usage.Merge(e.Usage)
			r.ready = len(r.buf)
			r.stop = max(r.stop, "end_turn")
		}
	}
	if clean && r.stop != "" {
		r.finish(stats.OutcomeOK, pool.Outcome{})
		r.err = io.EOF
		return
	}
	r.broken(clean)
}

// completeButForItsEnd reports whether an event lacks nothing but the blank line.
func completeButForItsEnd(event []byte) bool {
	_, data := sse.Parse(event)
	return rawjson.Walk(data, func([]byte, rawjson.Field) error { return nil }) == nil
}

// broken ends a stream that has begun the way its dialect says it: never a clean end, never half an event.
func (r *relay) broken(clean bool) {
	kind, message := "api_error", "the upstream broke off the answer"
	if errors.Is(context.Cause(r.ctx), errTimeout) {
		kind, message = "timeout_error", "the upstream fell silent"
	}
	r.c.record.ErrorType = kind
	r.finish(stats.OutcomeBroken, pool.Outcome{Class: pool.Fault})
	if r.flowing {
		r.err = io.ErrUnexpectedEOF // half an event has gone: abort
		return
	}
	r.buf = anthropic.AppendErrorEvent(r.buf[:r.ready], kind, message, r.c.Trace)
	r.ready = len(r.buf)
	r.err = io.EOF
}

func (r *relay) endPlain(err error) {
	if errors.Is(err, io.EOF) && r.members.Complete() {
		r.usage = anthropic.Usage(r.members.Value("usage"))
		r.stop, _ = rawjson.String(r.members.Value("stop_reason"))
		r.finish(stats.OutcomeOK, pool.Outcome{})
		r.ready, r.err = len(r.buf), io.EOF
		return
	}
	r.c.record.ErrorType = "api_error"
	r.finish(stats.OutcomeBroken, pool.Outcome{Class: pool.Fault})
	r.err = io.ErrUnexpectedEOF
}

// finish closes the books: the journal's line, then the lease.
func (r *relay) finish(outcome string, o pool.Outcome) {
	if r.ended {
		return
	}
	r.ended = true
	r.c.writer.stop()
	r.dog.idle(afterEnd)
	rec := &r.c.record
	u := r.usage
	if outcome != stats.OutcomeOK && r.stream {
		u.Output = max(u.Output, r.deltas)
		rec.Estimated = true
	} else if u.Known&(ir.Input|ir.Output) == 0 {
		rec.Estimated = true
		u.Input, u.Output = rec.RequestBytes/bytesPerToken, max(r.deltas, r.total/bytesPerToken)
	}
	rec.ResponseBytes = r.total
	rec.InputTokens, rec.OutputTokens = u.Input, u.Output
	rec.CacheCreationTokens, rec.CacheReadTokens, rec.ReasoningTokens = u.CacheCreation, u.CacheRead, u.Reasoning
	rec.StopReason = printable(r.stop)
	r.c.finish(outcome, r.resp.StatusCode)
	r.lease.Close(o, pool.Tokens{Input: u.Input, Output: u.Output, CacheCreation: u.CacheCreation, CacheRead: u.CacheRead})
}

// Close ends the attempt. ReverseProxy calls it when it has read to the end, or when the client is gone.
func (r *relay) Close() error {
	if !r.ended { // the copy ended before the body did: the client is gone
		r.finish(stats.OutcomeCancelled, pool.Outcome{Class: pool.Cancelled})
	}
	r.dog.stop()
	err := r.src.Close()
	r.up.MaskHeader(r.resp.Trailer) // it is there now
	if r.pending == nil {
		r.ready = 0
		r.forget()
	}
	return err
}
