package proxy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"coding-proxy/pool"
	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
	"coding-proxy/stats"
)

const (
	// maxErrorBody bounds the error answers that are kept to be replayed; a longer one is replaced.
	maxErrorBody = 1 << 20
	maxHead      = 64 << 10
	// maxLongHead is the same for dialects whose first event repeats the request.
	maxLongHead = 4 << 20
)

type callKey struct{}

// failover is the http.RoundTripper of the ReverseProxy: lease, send, judge, next. Retries happen here alone, and
// only while nothing has been sent to the client.
type failover struct{ p *Proxy }

// answer is what an attempt came to.
type answer struct {
	resp    *http.Response // the head proved good: relay it
	outcome pool.Outcome
	fault   ir.Fault
	header  http.Header // of an error answer
	body    []byte      // of an error answer in the client's dialect, to be replayed; nil: render err
	barred  bool        // the request cannot go this way: err says why, the key has nothing to do with it
	renews  bool        // the key has another token or host to offer
	event   bool        // body was an event of a stream
	left    *relay      // the answer that was coming when the client went away
	err     *Error      // what the client is told where there is nothing to replay
}

// RoundTrip serves the call that the request's context carries.
func (f *failover) RoundTrip(out *http.Request) (*http.Response, error) {
	c, _ := out.Context().Value(callKey{}).(*call)
	header := out.Header
	cleanHeaders(header)
	own := http.Header(nil)
	if c.set.passthrough {
		own = ownCredential(c.in.Header, c.in.URL.RawQuery, c.set.callers)
		c.want.Credential = credentialHash(own)
	}
	if after := time.Duration(c.dialect.CommitAfter) * time.Second; after > 0 && c.stream && c.Route.speaks == "" {
		return f.patient(c, after-f.p.now().Sub(c.Started), header, own)
	}
	return f.serve(c, header, own)
}

// serve tries keys until one answers. The request's own context bounds it, not ReverseProxy's: that one carries a
// trace which would hand an attempt's 1xx to the client.
func (f *failover) serve(c *call, header, own http.Header) (*http.Response, error) {
	ctx := c.in.Context()
	var last, barred *answer // the last error of the first tier that was tried; the first way that the request could not go
	var tier string
	start := f.p.now()
	defer f.p.pool.End(&c.want, false)
	for n := 0; n < c.set.opt.Failover.MaxAttempts; {
		if n > 0 && f.p.now().Sub(start) >= c.set.opt.Failover.MaxTime {
			break
		}
		if c.committed.Load() && last != nil {
			break
		}
		lease, err := f.p.pool.Lease(ctx, &c.want)
		if err != nil {
			if (last != nil || barred != nil) && ctx.Err() == nil {
				break
			}
			return nil, f.unleased(c, err)
		}
		a, lease := f.attempt(ctx, c, lease, header, own)
		if a.resp != nil {
			return a.resp, nil // the relay closes the lease
		}
		if a.left != nil {
			a.left.finish(stats.OutcomeCancelled, a.outcome) // it has cost something
		}
		lease.Close(a.outcome, pool.Tokens{})
		if a.barred {
			c.record.Skipped = append(c.record.Skipped, stats.Skip{Tier: lease.Tier, Key: lease.Key, Gate: "conversion"})
			if barred == nil {
				barred = a
			}
			continue // nothing was sent
		}
		n++
		if a.outcome.Class == pool.Cancelled {
			if a.err != nil {
				return nil, a.err
			}
			return nil, context.Canceled
		}
		if tier == "" {
			tier = lease.Tier
		}
		if last == nil || lease.Tier == tier {
			last = a
		}
		if a.outcome.Class == pool.Passthrough {
			return f.replay(c, a)
		}
	}
	f.p.pool.End(&c.want, last != nil)
	if last == nil {
		last = barred
	}
	return f.replay(c, last)
}

// unleased says why no key could be had. What only a provider of the client's own dialect can serve is the request's
// fault where others would serve the model.
func (f *failover) unleased(c *call, err error) error {
	if unknown := new(pool.ModelError); c.want.Key != "" && c.stateful != "" && errors.As(err, &unknown) {
		return badField(c.stateful, "the key of its account does not serve the model; send the whole conversation")
	}
	if unknown := new(pool.ModelError); c.stateful == "" || c.want.Key != "" || !errors.As(err, &unknown) {
		return err
	}
	if any := (pool.Want{Scope: c.want.Scope, Model: c.want.Model}); f.p.pool.Serves(&any) != nil {
		return err
	}
	return badField(c.stateful, "no key that serves this model speaks "+c.dialect.Name+", and it cannot be converted")
}

// maxTries bounds how often one attempt is sent where its key has another token or host to offer.
const maxTries = 5

// attempt sends the request with one lease, and once more where the way to the key was at fault: a reused connection that
// had died, opaque state of another provider, a token that has ended. It returns the lease that is still open.
func (f *failover) attempt(ctx context.Context, c *call, lease *pool.Lease, header, own http.Header) (_ *answer, open *pool.Lease) {
	defer func() {
		if open == nil { // a panic: a lease that nobody closes would take its slot for good
			lease.Close(pool.Outcome{Class: pool.Cancelled}, pool.Tokens{})
		}
	}()
	r := &c.record
	fresh, forget, renewed := false, false, 0
	for {
		began := f.p.now()
		l, err := f.lane(ctx, c, lease, forget)
		if unsent := new(unsentError); errors.As(err, &unsent) {
			a := f.unsent(ctx, c, unsent.fault)
			f.note(c, lease, a, began)
			return a, lease
		}
		if err != nil {
			return &answer{outcome: pool.Outcome{Class: pool.Cancelled}, err: asError(err, c.Trace), barred: cannotGo(err)}, lease
		}
		r.Tier, r.Key, r.Provider, r.UpstreamModel, r.Upstream = lease.Tier, lease.Key, lease.Provider, l.model, l.dialect.Name
		a := f.send(ctx, c, lease, l, header, own, sending{renewed, fresh})
		switch {
		case a.outcome.Class == pool.Stale && fresh:
			a.outcome.Class = pool.Fault
		case a.outcome.Class == pool.Passthrough && !forget && refusesState(a.fault, c.want.Session != "") && f.canForget(c, l):
			a.outcome.Class = pool.Repair
		case a.renews && a.outcome.Class != pool.Stale && renewed+1 < maxTries:
			a.outcome.Class = pool.Renew
		}
		f.note(c, lease, a, began)
		switch a.outcome.Class {
		case pool.Stale:
			fresh = true
		case pool.Renew:
			renewed++
			fresh = a.fault.Status == http.StatusMisdirectedRequest
		case pool.Repair:
			forget = true
		default:
			switch {
			case a.resp == nil:
			case forget:
				f.p.pool.Mix(c.want.Session, pool.MixedRefused)
			case !l.raw():
				f.p.pool.Mix(c.want.Session, pool.MixedCrossed)
			}
			return a, lease
		}
		lease = lease.Again()
	}
}

// canForget reports whether opaque state could be taken out of the request.
func (f *failover) canForget(c *call, l *lane) bool {
	return c.Route.speaks == "" && (!l.raw() || l.dialect.Raw.Repair != nil)
}

// note keeps the attempt for the journal, and tells the log of a failed one in closed words.
func (f *failover) note(c *call, lease *pool.Lease, a *answer, began time.Time) {
	at := stats.Attempt{Tier: lease.Tier, Key: lease.Key, Status: a.fault.Status, Outcome: a.outcome.Class.String(), MS: f.p.now().Sub(began).Milliseconds()}
	if a.resp != nil {
		at.Status = a.resp.StatusCode
	} else {
		at.Reason = closedWord(a.fault)
		f.p.log.LogAttrs(context.Background(), slog.LevelInfo, "attempt failed", slog.String("trace", c.Trace), slog.String("tier", lease.Tier),
			slog.String("key", lease.Key), slog.Int("status", at.Status), slog.String("outcome", at.Outcome), slog.String("reason", at.Reason))
	}
	c.record.Attempts = append(c.record.Attempts, at)
}

// closedWord names a fault for logs and the journal: its type if it is a plain word, never the message.
func closedWord(f ir.Fault) string {
	if f.Type == "" || len(f.Type) > 64 {
		return "http_" + strconv.Itoa(f.Status)
	}
	for i := 0; i < len(f.Type); i++ {
		if c := f.Type[i]; c != '_' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return "http_" + strconv.Itoa(f.Status)
		}
	}
	return f.Type
}

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
		a.renews = a.outcome.Class == pool.Fault && kind != nil && kind.Again(req, how.try, &a.fault)
		if a.outcome.Class == pool.Fault && reused.Load() && !answered.Load() && !dog.fired() {
			a.outcome.Class = pool.Stale
		}
		return a
	}
	a := f.judge(ctx, c, lease, l, resp, dog)
	if a.resp == nil {
		resp.Body.Close()
		a.renews = kind != nil && a.outcome.Class != pool.Cancelled && kind.Again(req, how.try, &a.fault)
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
		err: &Error{Status: http.StatusServiceUnavailable, Type: ir.KindAPI, Message: "upstream credential: " + fault.Message, RetryAfter: max(fault.Reset, time.Minute)}}
	if a.outcome.Class == pool.Passthrough {
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
	if err := undoEncoding(resp); err != nil {
		return f.unreadable("encoding")
	}
	if kind := l.up.Kind(); kind != nil {
		kind.Open(resp)
	}
	sawLimits(lease, resp, f.p.now())
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

// replay gives the client the error that is left when no key could answer.
func (f *failover) replay(c *call, a *answer) (*http.Response, error) {
	c.releaseBody()
	if a == nil {
		return nil, &Error{Status: http.StatusBadGateway, Type: ir.KindAPI, Message: "no upstream could be tried"}
	}
	if a.err != nil {
		return nil, a.err
	}
	header := a.header
	header.Del("Content-Encoding")
	header.Set("Content-Length", strconv.Itoa(len(a.body)))
	if a.event {
		header.Set("Content-Type", "application/json")
	}
	f.dress(c, nil, header, len(c.record.Attempts))
	c.record.ErrorType = closedWord(a.fault)
	c.record.ResponseBytes = int64(len(a.body))
	c.record.Dropped = c.lost
	c.finish(stats.OutcomeError, a.fault.Status)
	return &http.Response{
		StatusCode: a.fault.Status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header,
		Body: io.NopCloser(bytes.NewReader(a.body)), ContentLength: int64(len(a.body)), Request: c.in,
	}, nil
}

// dress makes an upstream's headers the client's. l is nil for an answer that is not relayed.
func (f *failover) dress(c *call, l *lane, h http.Header, attempts int) {
	cleanAnswer(h)
	if l != nil && !l.raw() {
		f.foreign(h)
	}
	h[traceHeader] = []string{c.Trace}
	h[tierHeader] = []string{printable(c.record.Tier)}
	h[attemptsHeader] = []string{strconv.Itoa(attempts)}
	if len(c.lost) > 0 {
		h[droppedHeader] = []string{droppedText(c.lost)}
	}
}

// droppedText names what a conversion lost, in printable ASCII of at most 1 KiB.
func droppedText(lost []string) string {
	var b strings.Builder
	for _, name := range lost {
		name = strings.ReplaceAll(printable(name), ",", "?")
		if b.Len()+1+len(name) > 1<<10 {
			break
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(name)
	}
	return b.String()
}

// foreign keeps of the header of an answer that is converted what means the same in every dialect.
func (f *failover) foreign(h http.Header) {
	for name := range h {
		switch {
		case name == "Request-Id", name == "X-Request-Id", name == "Retry-After", name == "Date",
			strings.HasPrefix(name, "Anthropic-Ratelimit-"), strings.HasPrefix(name, "X-Ratelimit-"), strings.HasPrefix(name, "Openai-"):
		default:
			delete(h, name)
		}
	}
}

// undoEncoding undoes a gzip or deflate answer that came all the same.
func undoEncoding(resp *http.Response) error {
	switch e := strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Encoding"))); e {
	case "", "identity":
		return nil
	case "gzip", "x-gzip", "deflate":
		r, err := decoder(e, resp.Body)
		if err != nil {
			return err
		}
		resp.Body = struct {
			io.Reader
			io.Closer
		}{r, resp.Body}
		resp.Header.Del("Content-Encoding")
		resp.Header.Del("Content-Length")
		resp.ContentLength = -1
		return nil
	default:
		return errors.New("unknown content-encoding")
	}
}
