package proxy

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"coding-proxy/pool"
	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// sending is how one try of an attempt is sent.
type sending struct {
	try   int // from 0: how often the key had another token or host to offer
	fresh bool
}

// send makes one try of an attempt.
func (f *failover) send(ctx context.Context, c *call, lease *pool.Lease, l *lane, header, own http.Header, how sending) *answer {
	ctx, cancel := context.WithCancelCause(ctx)
	first := c.set.opt.Timeouts.FirstByteNonstream
	if c.stream {
		first = c.set.opt.Timeouts.FirstByte
	}
	dog := newWatchdog(cancel, first, f.p.now)
	var reused, answered atomic.Bool // the Transport's goroutines may call after RoundTrip has returned
	req := f.request(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:              func(i httptrace.GotConnInfo) { reused.Store(i.Reused) },
		GotFirstResponseByte: func() { answered.Store(true) },
	}), c, l, header, own)
	if fault := l.up.Sign(req, how.try); fault != nil {
		defer dog.stop()
		if req.Body != nil {
			req.Body.Close()
		}
		return f.unsent(ctx, c, fault)
	}
	way := c.set.via(l.up.Proxy())
	transport := way.warm
	if how.fresh || req.Close {
		transport = way.fresh
	}
	resp, err := transport.RoundTrip(req)
	kind := l.up.Kind()
	if err != nil {
		defer dog.stop()
		a := f.unanswered(ctx, c)
		if a.outcome.Class == pool.Fault && !how.fresh && reused.Load() && !answered.Load() && !dog.fired() {
			a.outcome.Class = pool.Stale
		}
		a.renews = a.outcome.Class == pool.Fault && kind != nil && !c.aside && kind.Again(req, how.try, &a.fault)
		return a
	}
	a := f.judge(ctx, c, lease, l, resp, dog)
	if a.resp == nil {
		resp.Body.Close()
		a.renews = kind != nil && !c.aside && a.outcome.Class != pool.Cancelled && kind.Again(req, how.try, &a.fault)
		dog.stop()
	}
	return a
}

// unsentError says that a key's provider could not be asked for what a request needs.
type unsentError struct{ fault *ir.Fault }

func (e *unsentError) Error() string { return e.fault.Message }

// unsent judges an attempt for which the key had no token, or no way for the model.
func (f *failover) unsent(ctx context.Context, c *call, fault *ir.Fault) *answer {
	if c.in.Context().Err() != nil {
		return &answer{outcome: pool.Outcome{Class: pool.Cancelled}, fault: ir.Fault{Type: "cancelled"}}
	}
	if errors.Is(context.Cause(ctx), errTimeout) {
		return f.unanswered(ctx, c)
	}
	a := &answer{outcome: c.set.opt.Failover.judge(*fault), fault: *fault,
		err: &Error{Status: http.StatusServiceUnavailable, Type: ir.KindAPI, Message: "upstream credential: " + fault.Message, RetryAfter: fault.Reset}}
	if a.outcome.Class == pool.Credential {
		a.err.RetryAfter = max(fault.Reset, time.Minute)
	}
	if a.outcome.Class == pool.Passthrough { // nothing was sent, and another key may have what this one lacks
		a.outcome, a.barred = pool.Outcome{Class: pool.Cancelled}, true
		a.err = &Error{Status: fault.Status, Type: fault.Kind, Message: fault.Message}
	}
	return a
}

// unanswered judges an attempt without an answer. The cause of its context tells who ended it.
func (f *failover) unanswered(ctx context.Context, c *call) *answer {
	if c.in.Context().Err() != nil {
		return &answer{outcome: pool.Outcome{Class: pool.Cancelled}, fault: ir.Fault{Type: "cancelled"}}
	}
	a := &answer{outcome: pool.Outcome{Class: pool.Fault}, fault: ir.Fault{Type: "no_connection"},
		err: &Error{Status: http.StatusBadGateway, Type: "api_error", Message: "the upstream could not be reached"}}
	if errors.Is(context.Cause(ctx), errTimeout) {
		a.fault.Type = "timeout"
		a.err = &Error{Status: http.StatusGatewayTimeout, Type: "timeout_error", Message: "the upstream gave no answer in time"}
	}
	return a
}

// judge looks at an answer until it is clear whether it is good.
func (f *failover) judge(ctx context.Context, c *call, lease *pool.Lease, l *lane, resp *http.Response, dog *watchdog) *answer {
	l.up.MaskHeader(resp.Header)
	if err := f.open(c, l, resp); err != nil {
		return f.unreadable("encoding")
	}
	if kind := l.up.Kind(); kind != nil {
		kind.Open(resp)
	}
	if !c.aside { // counting has limits of its own
		sawLimits(lease, resp, f.p.now())
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return f.errorAnswer(ctx, c, l, resp)
	}
	r := newRelay(ctx, c, lease, l, resp, dog)
	fault, err := r.head(c.set.opt.Failover.HoldFirstEvent)
	switch {
	case c.in.Context().Err() != nil:
		return &answer{outcome: pool.Outcome{Class: pool.Cancelled}, fault: ir.Fault{Type: "cancelled"}}
	case err != nil && errors.Is(context.Cause(ctx), errTimeout):
		return f.unanswered(ctx, c)
	case err != nil:
		return f.unreadable(err.Error())
	case fault != nil:
		fault.Reset, fault.KeyWide = stated(resp.Header, r.errorBody, f.p.now())
		fault.FamilyWide = rejected(resp.Header, f.p.now()).family
		a := &answer{outcome: c.set.opt.Failover.judge(*fault), fault: *fault, header: resp.Header, event: r.events}
		f.tell(c, l, a, r.errorBody)
		return a
	}
	dog.idle(c.set.opt.Timeouts.Idle)
	if r.conv != nil && !c.stream {
		if a := f.whole(ctx, c, l, r); a != nil {
			return a
		}
	}
	lease.Accept()
	c.releaseBody()
	c.record.FirstByteMS = f.p.now().Sub(c.Started).Milliseconds()
	f.dress(c, l, resp.Header, len(c.record.Attempts)+1)
	resp.Body, c.relay = r, r
	if r.stream { // keep-alives and an error event may make it longer than was promised
		resp.Header.Del("Content-Length")
		resp.ContentLength = -1
		c.writer.stream(c.dialect, c.array)
	}
	if !l.raw() {
		resp.Trailer = nil
		resp.Header.Set("Content-Type", contentType(r.stream && !c.array))
		resp.Header.Del("Content-Length")
		resp.ContentLength = -1
	}
	return &answer{resp: resp}
}

// whole reads an answer to its end that is converted and wanted as a whole. It returns nil where that went well.
func (f *failover) whole(ctx context.Context, c *call, l *lane, r *relay) *answer {
	fault, err := r.drain()
	switch {
	case c.in.Context().Err() != nil:
		return &answer{outcome: pool.Outcome{Class: pool.Cancelled}, fault: ir.Fault{Type: "cancelled"}, left: r}
	case err != nil && errors.Is(context.Cause(ctx), errTimeout):
		return f.unanswered(ctx, c)
	case err != nil:
		return f.unreadable(err.Error())
	case fault != nil:
		a := &answer{outcome: c.set.opt.Failover.judge(*fault), fault: *fault, header: r.resp.Header}
		f.tell(c, l, a, nil)
		return a
	}
	return nil
}

// contentType is that of an answer from here.
func contentType(events bool) string {
	if events {
		return "text/event-stream; charset=utf-8"
	}
	return "application/json"
}

// unreadable judges a 2xx that is no answer in the dialect. reason is a closed word.
func (f *failover) unreadable(reason string) *answer {
	return &answer{outcome: pool.Outcome{Class: pool.Fault}, fault: ir.Fault{Status: http.StatusBadGateway, Type: reason},
		err: &Error{Status: http.StatusBadGateway, Type: ir.KindAPI, Message: "the upstream's answer could not be read"}}
}

// errorAnswer reads and judges an answer that is no 2xx.
func (f *failover) errorAnswer(ctx context.Context, c *call, l *lane, resp *http.Response) *answer {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody+1))
	if err != nil && (c.in.Context().Err() != nil || errors.Is(context.Cause(ctx), errTimeout)) {
		return f.unanswered(ctx, c)
	}
	a := &answer{fault: faultOf(l.dialect, resp, body, f.p.now()), header: resp.Header}
	a.outcome = c.set.opt.Failover.judge(a.fault)
	switch {
	case isPage(body) || len(body) > maxErrorBody || err != nil:
		a.err = &Error{Status: a.fault.Status, Type: ir.KindAPI, Message: "the upstream answered with an error that is not one of its API"}
	case resp.StatusCode == http.StatusMisdirectedRequest: // the host is ours to choose
		a.err = &Error{Status: http.StatusBadGateway, Type: ir.KindAPI, Message: "the upstream's host is the wrong one for this account"}
	case resp.StatusCode < 400:
		a.err = &Error{Status: http.StatusBadGateway, Type: ir.KindAPI, Message: "the upstream redirected the request"}
	default:
		f.tell(c, l, a, body)
	}
	return a
}

// tell keeps an upstream's error for the client: its own bytes on the raw lane, else the same in the client's dialect. A
// client that gets 401 or 403 signs its user out, who has nothing to do with a key of ours.
func (f *failover) tell(c *call, l *lane, a *answer, body []byte) {
	if !l.up.Passthrough() {
		switch status := a.fault.Status; {
		case a.outcome.Class == pool.Passthrough && status == http.StatusUnauthorized:
			a.fault.Status = http.StatusBadRequest // a request's fault
		case a.outcome.Class == pool.Passthrough:
		case status == http.StatusUnauthorized, status == http.StatusForbidden, a.outcome.Class == pool.Credential:
			a.err = &Error{Status: http.StatusServiceUnavailable, Type: ir.KindAPI, Message: "upstream credential rejected", RetryAfter: time.Minute}
			return
		}
	}
	if l.raw() && (!a.event || len(rawjson.Get(rawjson.Get(body, "error"), "message")) > 0) { // an event may be no error body
		a.body = l.up.Mask(body)
		return
	}
	fault := a.fault
	fault.Message = cmp.Or(string(l.up.Mask([]byte(fault.Message))), "the upstream answered with status "+strconv.Itoa(a.fault.Status))
	if isTooLong(fault, strings.ToLower(fault.Message)) {
		fault.Kind, fault.Code = ir.KindInvalid, ir.CodeTooLong
		if fault.Status != http.StatusRequestEntityTooLarge {
			fault.Status = http.StatusBadRequest
		}
	}
	a.fault.Status = c.dialect.Status(&fault)
	a.body, a.event = c.dialect.AppendError(nil, &fault, c.Trace), true
	setRetryAfter(a.header, fault.Reset)
	f.foreign(a.header)
}
