package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"coding-proxy/pool"
	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
	"coding-proxy/proxy/sse"
	"coding-proxy/stats"
)

const (
	// maxHeld is the most of an unfinished event of Anthropic's that is held back; a longer one flows. Other dialects' last
	// events repeat what came before them and must be read: maxConverted bounds those.
	maxHeld = 64 << 10
	// afterEnd is how long an upstream may keep its connection after the terminal event.
	afterEnd = 5 * time.Second
	// deltaFrame is about what a content_block_delta event weighs without its text, and bytesPerToken what a token of
	// text does: for the estimate of an answer that broke.
	deltaFrame    = 140
	bytesPerToken = 4
)

// relay is the body of a good answer on its way to the client. On the raw lane it goes byte for byte, whole events only,
// with usage read on the side; else a conversion makes the client's bytes of it. The bytes that end the answer leave it
// only when the journal has its line.
type relay struct {
	ctx    context.Context // the attempt's
	c      *call
	lease  *pool.Lease
	l      *lane
	d      *ir.Dialect // the upstream's
	resp   *http.Response
	src    io.ReadCloser
	dog    *watchdog
	stream bool // the client hears a stream
	events bool // the upstream's answer is one
	array  bool // as one JSON array
	opaque bool // no JSON: audio and such, passed through

	buf     []byte   // read and not yet delivered
	base    []byte   // the memory of buf, from its start
	ready   int      // how much of buf may go
	err     error    // after buf: how the body ended
	pending *heading // the head, not yet taken over
	total   int64    // bytes that the source gave

	// of a stream
	flowing   bool   // in the middle of an event that is too long to hold (Anthropic's: none that matters is)
	searched  int    // how much of an unfinished long event has been looked through
	failed    bool   // an error event has ended it
	oversized bool   // what is held is too long to go on with
	ended     bool   // the terminal event has been seen, or the end was judged
	tail      []byte // what goes after the ready bytes in place of what is held
	tap       ir.Tap
	asked     bool // the tap, about an event
	deltas    int64
	usage     ir.Usage
	stop      string
	// of a plain body
	members   rawjson.Members
	errorBody []byte // what an error in the head of a 2xx said

	conv *conversion // nil on the raw lane
}

func newRelay(ctx context.Context, c *call, lease *pool.Lease, l *lane, resp *http.Response, dog *watchdog) *relay {
	r := &relay{ctx: ctx, c: c, lease: lease, l: l, d: l.dialect, resp: resp, src: resp.Body, dog: dog, stream: c.stream, events: c.stream}
	if l.raw() {
		r.array = c.array
	} else {
		r.conv = newConversion(c, l)
		r.events = c.stream || strings.HasPrefix(strings.ToLower(resp.Header.Get("Content-Type")), "text/event-stream")
	}
	if kind := resp.Header.Get("Content-Type"); c.Route.speaks != "" {
		r.events = c.stream && strings.HasPrefix(strings.ToLower(kind), "text/event-stream")
		r.stream, r.opaque = r.events, !r.events && !strings.Contains(kind, "json")
	}
	r.tap = r.d.Raw.NewTap()
	r.members = rawjson.Members{Want: r.d.Raw.Members, List: r.d.Raw.Items, Limit: maxHeld}
	return r
}

// Read gives the next bytes that may go to the client.
func (r *relay) Read(p []byte) (int, error) {
	for {
		switch {
		case r.conv != nil && r.conv.waits():
			if r.conv.fold != nil {
				r.finish(stats.OutcomeOK, pool.Outcome{}) // the attempt is in the books by now
			}
			n := r.conv.take(p)
			if r.err == io.EOF && !r.conv.waits() {
				r.c.writer.end()
			}
			return n, nil
		case r.ready > 0:
			n := copy(p, r.buf[:r.ready])
			if r.buf, r.ready = r.buf[n:], r.ready-n; r.ready == 0 && r.err == io.EOF {
				r.c.writer.end()
			}
			return n, nil
		case r.tail != nil:
			r.buf, r.ready, r.tail = r.tail, len(r.tail), nil
		case r.err != nil:
			return 0, r.err
		case r.pending != nil:
			r.take(r.pending)
		case r.conv == nil && !r.ended && len(r.buf) < len(p)/2:
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
	if !r.ended {
		r.dog.waiting()
	}
	n, err := r.src.Read(p)
	if !r.ended {
		r.dog.alive()
	}
	r.total += int64(n)
	return p[:n], err
}

// direct reads into the caller's buffer, behind the little that is held, and releases from there what is whole: the
// way of nearly all bytes.
func (r *relay) direct(p []byte) int {
	held := copy(p, r.buf)
	r.forget()
	fresh, err := r.fetch(p[held:])
	n, data := r.look(p[:held+len(fresh)], fresh)
	if err != nil || r.ended || r.oversized {
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
	var n int
	n, r.buf = r.look(r.buf, fresh)
	r.release(n, err)
}

// look says how much of data may go, and returns data without what never goes; fresh are the last of its bytes, which have
// not been looked at.
func (r *relay) look(data, fresh []byte) (int, []byte) {
	switch {
	case r.ended:
		return 0, data
	case r.events:
		return r.scan(data)
	case r.conv != nil: // it is converted as a whole
		r.oversized = len(data) > maxConverted
		return 0, data
	}
	if !r.opaque {
		_, _ = r.members.Write(fresh) // never fails
	}
	return max(len(data)-1, 0), data // the last byte waits for the journal
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

// release lets the first n held bytes go: to the client, or on a conversion into it. An error of the source is judged
// behind them.
func (r *relay) release(n int, err error) {
	switch {
	case r.conv != nil:
		r.buf = r.buf[n:]
		n = 0
	case r.failed: // the provider's own words end the answer; they may repeat the key
		r.buf = r.l.up.Mask(r.buf[:n])
		n = len(r.buf)
	}
	if r.ready = n; r.ended && r.tail == nil && r.conv == nil { // what follows the terminal event breaks nothing, or does not go
		r.ready = len(r.buf)
		if r.d.Raw.Last {
			r.ready = n + len(r.buf[n:]) - len(bytes.TrimLeft(r.buf[n:], "\r\n"))
			r.buf = r.buf[:r.ready]
		}
	}
	switch {
	case r.oversized && !r.ended:
		r.broken("the upstream's answer is too long")
	case err != nil && r.err == nil:
		r.end(err)
	}
}

// scan looks at the whole events of b and returns how much of b may go, and b without noise.
func (r *relay) scan(b []byte) (int, []byte) {
	at := 0
	if r.flowing {
		at = r.flow(b)
		if r.flowing {
			return at, b
		}
	}
	for !r.ended {
		n := r.frame(b[at:], &r.searched)
		if n == 0 {
			break
		}
		if !r.see(b[at : at+n]) {
			b = append(b[:at], b[at+n:]...)
			continue
		}
		at += n
	}
	if r.ended {
		return at, b
	}
	if rest := len(b) - at; r.conv == nil && r.d.Name == Anthropic && rest > maxHeld {
		r.flowing = true
		return max(at, len(b)-3), b // in the last bytes the end of the event may have begun
	} else if rest > maxConverted {
		r.oversized = true
	}
	return at, b
}

// frame returns the length of the first whole event of b, 0 while it is not whole. searched is how much of a long one has
// been looked through already, so that what arrives in many pieces is not looked through for each.
func (r *relay) frame(b []byte, searched *int) int {
	if r.array {
		n, _ := rawjson.NextElement(b)
		return n
	}
	if len(b) > maxHeld && !sse.HasBlank(b[max(0, *searched-3):]) {
		*searched = len(b)
		return 0
	}
	*searched = 0
	return sse.Next(b)
}

// parse returns an event's name and data.
func (r *relay) parse(event []byte) (name, data []byte) {
	if r.array {
		_, data = rawjson.NextElement(event)
		return nil, data
	}
	return sse.Parse(event)
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

// see takes note of one event; it reports whether the event goes to the client as it is.
func (r *relay) see(event []byte) bool {
	if r.conv != nil {
		r.conv.event(event)
		r.converted()
		return true
	}
	if r.asked && r.d.Raw.IsBulk != nil && r.d.Raw.IsBulk(event) {
		r.count(event)
		return true
	}
	name, data := r.parse(event)
	switch {
	case r.noise(data):
		return false
	case r.array && data == nil:
		return r.closing(event)
	}
	r.asked = true // the tap has seen the first event, which names the answer
	m := r.tap.Mark(name, data)
	r.usage.Merge(m.Usage)
	if m.StopReason != "" {
		r.stop = m.StopReason
	}
	if m.ID != "" {
		r.own(m.ID)
	}
	if m.Content {
		r.count(event)
	}
	switch m.Kind {
	case ir.MarkNoise:
		return false
	case ir.MarkStop:
		return r.terminal(event)
	case ir.MarkError:
		m.Fault.Reset = 0
		r.c.record.ErrorType = closedWord(*m.Fault)
		r.finish(stats.OutcomeBroken, r.c.set.opt.Failover.judge(*m.Fault))
		r.failed, r.err = true, io.EOF
		if r.tap.Break(nil, m.Fault, r.c.Trace) == nil { // told as it is, and then aborted
			r.err = errAborted
		}
	}
	return true
}

// closing looks at the closing bracket of an array; one that never said why it ends is given that before it.
func (r *relay) closing(bracket []byte) bool {
	if r.stop != "" {
		return true
	}
	out, reason := r.tap.Finish(nil)
	if out == nil {
		return true
	}
	_, data := sse.Parse(out)
	r.tail, r.stop = append(append([]byte(",\n"), data...), bracket...), reason+assumed
	r.finish(stats.OutcomeOK, pool.Outcome{})
	r.err = io.EOF
	return false
}

// noise reports whether an event says nothing in a form that breaks clients: gateways send "data: : keepalive", empty data
// and a [DONE] in dialects that have none. Anthropic's clients pass over events without a name.
func (r *relay) noise(data []byte) bool {
	if r.d.Name == Anthropic || data == nil {
		return false
	}
	data = bytes.TrimSpace(data)
	return len(data) == 0 || data[0] == ':' || r.d.Name == gemini && string(data) == "[DONE]"
}

// terminal ends the stream; one that never said why it ends is given what it lacks before the event.
func (r *relay) terminal(event []byte) bool {
	if r.stop == "" && r.c.Route.speaks == "" {
		if out, reason := r.tap.Finish(nil); out != nil {
			r.tail, r.stop = append(out, event...), reason+assumed
		}
	}
	r.finish(stats.OutcomeOK, pool.Outcome{})
	if r.tail != nil {
		r.err = io.EOF
		return false
	}
	return true
}

// assumed marks in the journal a stop reason that the upstream never said.
const assumed = " (assumed)"

// own remembers in whose account an answer, or an item of it, lives that can be referred to later.
func (r *relay) own(id string) {
	if r.l.raw() && !r.c.unstored && len(id) <= maxID && r.c.in.Method == http.MethodPost { // who asks for one has not made it
		r.c.p.pool.Own(r.c.Caller.Code, id, r.lease.Key)
	}
}

// converted closes the books when the conversion has ended.
func (r *relay) converted() {
	v := r.conv
	if !v.ended || r.err != nil {
		return
	}
	r.err = io.EOF
	if v.stop != nil {
		if r.stop = string(v.stop.Reason); v.stop.Assumed {
			r.stop += assumed
		}
	}
	switch {
	case v.fold != nil: // nothing has been sent: drain says what is to be done
		return
	case v.fault == nil:
		r.finish(stats.OutcomeOK, pool.Outcome{})
		return
	}
	v.fault.Reset = 0
	r.c.record.ErrorType = closedWord(*v.fault)
	r.finish(stats.OutcomeBroken, r.c.set.opt.Failover.judge(*v.fault))
	if r.c.dialect.Raw.NewTap().Break(nil, v.fault, r.c.Trace) == nil {
		r.err = errAborted
	}
}

// end judges how the body ended when no terminal event had come.
func (r *relay) end(err error) {
	clean := errors.Is(err, io.EOF)
	switch {
	case r.ended:
		if r.err == nil {
			r.err = io.EOF
		}
		return
	case r.c.in.Context().Err() != nil:
		if r.err = err; r.conv == nil || r.conv.fold == nil { // else the attempt is not in the books yet
			r.finish(stats.OutcomeCancelled, pool.Outcome{Class: pool.Cancelled})
		}
		return
	case r.conv != nil:
		r.endConverted(clean)
		return
	case !r.events:
		r.endPlain(err)
		return
	}
	if tail := r.buf[r.ready:]; clean && len(bytes.TrimSpace(tail)) > 0 && !r.flowing {
		r.endInside(tail)
		if r.err != nil {
			return
		}
	}
	if clean && r.c.Route.speaks != "" {
		r.stop = max(r.stop, "stop") // what its end would be is not ours to know
	}
	if clean && r.stop == "" {
		if out, reason := r.tap.Finish(nil); out != nil && !r.array {
			r.stop = reason + assumed
			r.buf = append(r.buf[:r.ready:r.ready], out...)
			r.ready = len(r.buf)
		}
	}
	if clean && r.stop != "" {
		if len(bytes.TrimSpace(r.buf[r.ready:])) == 0 { // blanks behind the last event
			r.ready = len(r.buf)
		}
		r.finish(stats.OutcomeOK, pool.Outcome{})
		r.err = io.EOF
		return
	}
	r.broken("")
}

// endInside judges an event that lacks nothing but the blank line behind it.
func (r *relay) endInside(tail []byte) {
	name, data := r.parse(tail)
	if !r.array && rawjson.Valid(data) != nil && string(data) != "[DONE]" {
		return
	}
	m := r.d.Raw.NewTap().Mark(name, data) // a tap that is asked about an event which does not go has miscounted
	if m.Kind == ir.MarkError || m.Kind == ir.MarkNoise || r.noise(data) {
		return
	}
	if m.Kind != ir.MarkStop && m.StopReason == "" && r.stop == "" {
		return
	}
	r.usage.Merge(m.Usage)
	r.stop = max(r.stop, m.StopReason)
	if m.Kind == ir.MarkStop && r.stop == "" {
		r.stop = "end_turn"
	}
	r.ready = len(r.buf)
}

// endConverted does the same for an answer that is converted.
func (r *relay) endConverted(clean bool) {
	v := r.conv
	switch {
	case !clean:
		r.broken("")
		return
	case !r.events:
		if err := v.plain(r.buf); err != nil || !v.ended {
			r.broken("the upstream's answer could not be read")
			return
		}
		r.converted()
		return
	}
	if tail := bytes.TrimSpace(r.buf); len(tail) > 0 {
		if _, data := sse.Parse(tail); rawjson.Valid(data) == nil || string(data) == "[DONE]" {
			v.event(tail)
		}
	}
	if v.ended || v.end() {
		r.converted()
		return
	}
	r.broken("")
}

// broken ends a stream that has begun the way its dialect says it: never a clean end, never half an event.
func (r *relay) broken(message string) {
	f := ir.Fault{Status: http.StatusBadGateway, Kind: ir.KindAPI, Type: ir.KindAPI, Message: message}
	switch {
	case errors.Is(context.Cause(r.ctx), errTimeout):
		f = ir.Fault{Status: http.StatusGatewayTimeout, Kind: ir.KindTimeout, Type: ir.KindTimeout, Message: "the upstream fell silent"}
	case message == "":
		f.Message = "the upstream broke off the answer"
	}
	if r.conv != nil {
		r.conv.broken(&f)
		r.converted()
		return
	}
	r.c.record.ErrorType = f.Type
	r.finish(stats.OutcomeBroken, pool.Outcome{Class: pool.Fault})
	if r.flowing {
		r.err = io.ErrUnexpectedEOF // half an event has gone: abort
		return
	}
	out := r.tap.Break(r.buf[:r.ready:r.ready], &f, r.c.Trace)
	if out == nil {
		r.err = errAborted // the dialect cannot say it
		return
	}
	r.buf = out
	r.ready = len(r.buf)
	r.err = io.EOF
}

func (r *relay) endPlain(err error) {
	if errors.Is(err, io.EOF) && r.members.Complete() {
		r.usage, r.stop = r.d.Raw.Plain(r.members.Value)
		if id, ok := rawjson.String(r.members.Value("id")); ok {
			r.own(id)
		}
		for _, id := range r.members.IDs() {
			r.own(id)
		}
		r.finish(stats.OutcomeOK, pool.Outcome{})
		r.ready, r.err = len(r.buf), io.EOF
		return
	}
	if errors.Is(err, io.EOF) && r.opaque {
		r.finish(stats.OutcomeOK, pool.Outcome{})
		r.ready, r.err = len(r.buf), io.EOF
		return
	}
	r.c.record.ErrorType = ir.KindAPI
	r.finish(stats.OutcomeBroken, pool.Outcome{Class: pool.Fault})
	r.err = io.ErrUnexpectedEOF
}

// drain reads an answer to its end that the client wants as a whole and that is converted. Nothing has been sent yet: a
// fault, or an error in one of the head's words, fails the attempt alone.
func (r *relay) drain() (*ir.Fault, error) {
	scratch := r.c.p.heads.get()
	defer r.c.p.heads.put(scratch)
	for r.err == nil {
		if r.pending != nil {
			r.take(r.pending)
			continue
		}
		r.hold(r.fetch(scratch[:cap(scratch)]))
	}
	switch v := r.conv; {
	case v.fault != nil:
		return v.fault, nil
	case !v.ended:
		return nil, errBrokeOff
	}
	return nil, nil
}

// finish closes the books: the journal's line, then the lease.
func (r *relay) finish(outcome string, o pool.Outcome) {
	if r.ended {
		return
	}
	r.ended = true
	r.c.writer.stop()
	r.dog.idle(afterEnd)
	r.dog.waiting() // whatever comes
	rec := &r.c.record
	if v := r.conv; v != nil {
		r.usage, r.deltas = v.usage, v.deltas/bytesPerToken
	}
	u := r.usage
	if outcome != stats.OutcomeOK && r.events {
		u.Output = max(u.Output, r.deltas)
		if u.Known&ir.UsageInput == 0 { // told at the end, which has not come
			u.Input = rec.RequestBytes / bytesPerToken
		}
		rec.Estimated = true
	} else if u.Known&(ir.UsageInput|ir.UsageOutput) == 0 {
		rec.Estimated = true
		u.Input, u.Output = rec.RequestBytes/bytesPerToken, r.deltas
		if !r.events || r.deltas == 0 { // of a stream most bytes are frames
			u.Output = max(r.deltas, r.total/bytesPerToken)
		}
		switch {
		case r.opaque && r.c.plainAt: // nor do those of a recording that was sent in a form
			u.Input, u.Output = 0, 0
		case r.c.Route.speaks != "" && !r.c.Route.text:
			u.Output = 0 // pictures and vectors: their bytes say nothing
		}
	}
	if r.c.Route.free || r.c.in.Method == http.MethodGet { // what is read again was counted when it was made
		u, rec.Estimated = ir.Usage{}, false
	}
	rec.ResponseBytes = r.total
	rec.InputTokens, rec.OutputTokens = u.Input, u.Output
	rec.CacheCreationTokens, rec.CacheReadTokens, rec.ReasoningTokens = u.CacheCreation, u.CacheRead, u.Reasoning
	rec.StopReason = printable(r.stop)
	rec.Dropped = r.c.lost
	if r.conv != nil {
		rec.Dropped = append(slices.Clip(rec.Dropped), r.conv.dropped()...)
	}
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
	r.l.up.MaskHeader(r.resp.Trailer) // it is there now
	if r.pending == nil {
		r.ready = 0
		r.forget()
	}
	return err
}
