package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"coding-proxy/pool"
	"coding-proxy/proxy/codec/anthropic"
	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/upstream"
	"coding-proxy/stats"
)

const (
	// maxErrorBody bounds the error answers that are kept to be replayed; a longer one is replaced.
	maxErrorBody = 1 << 20
	maxHead      = 64 << 10
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
	event   bool        // body was an event of a stream
	err     *Error      // what the client is told where there is nothing to replay
}

// RoundTrip serves the call that the request's context carries.
func (f *failover) RoundTrip(out *http.Request) (*http.Response, error) {
	c, _ := out.Context().Value(callKey{}).(*call)
	header := out.Header
	cleanHeaders(header)
	own := http.Header(nil)
	if c.set.passthrough {
		own = ownCredential(c.in.Header, c.set.callers)
		c.want.Credential = credentialHash(own)
	}
	return f.serve(c, header, own)
}

// serve tries keys until one answers. The request's own context bounds it, not ReverseProxy's: that one carries a
// trace which would hand an attempt's 1xx to the client.
func (f *failover) serve(c *call, header, own http.Header) (*http.Response, error) {
	ctx := c.in.Context()
	var last *answer // the last error of the first tier that was tried
	var tier string
	start := f.p.now()
	defer f.p.pool.End(&c.want, false)
	for n := 0; n < c.set.opt.Failover.MaxAttempts; n++ {
		if n > 0 && f.p.now().Sub(start) >= c.set.opt.Failover.MaxTime {
			break
		}
		lease, err := f.p.pool.Lease(ctx, &c.want)
		if err != nil {
			if last != nil && ctx.Err() == nil {
				break
			}
			return nil, err
		}
		a, lease := f.attempt(ctx, c, lease, header, own)
		if a.resp != nil {
			return a.resp, nil // the relay closes the lease
		}
		lease.Close(a.outcome, pool.Tokens{})
		if a.outcome.Class == pool.Cancelled {
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
	f.p.pool.End(&c.want, true)
	return f.replay(c, last)
}

// attempt sends the request with one lease, and once more on a fresh connection when a reused one had died. It
// returns the lease that is still open.
func (f *failover) attempt(ctx context.Context, c *call, lease *pool.Lease, header, own http.Header) (_ *answer, open *pool.Lease) {
	defer func() {
		if open == nil { // a panic: a lease that nobody closes would take its slot for good
			lease.Close(pool.Outcome{Class: pool.Cancelled}, pool.Tokens{})
		}
	}()
	r := &c.record
	r.Tier, r.Key, r.Provider, r.UpstreamModel, r.Upstream = lease.Tier, lease.Key, lease.Provider, lease.UpstreamModel, Anthropic
	for fresh := false; ; fresh = true {
		began := f.p.now()
		a := f.send(ctx, c, lease, header, own, fresh)
		if a.outcome.Class == pool.Stale && fresh {
			a.outcome.Class = pool.Fault
		}
		f.note(c, lease, a, began)
		if a.outcome.Class != pool.Stale {
			return a, lease
		}
		lease = lease.Again()
	}
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

// send makes one attempt.
func (f *failover) send(ctx context.Context, c *call, lease *pool.Lease, header, own http.Header, fresh bool) *answer {
	up := f.p.upstream(c, lease.Key)
	ctx, cancel := context.WithCancelCause(ctx)
	first := c.set.opt.Timeouts.FirstByteNonstream
	if c.stream {
		first = c.set.opt.Timeouts.FirstByte
	}
	dog := newWatchdog(cancel, first, f.p.now)
	var reused, answered atomic.Bool // the Transport's goroutines may call after RoundTrip has returned
	req, err := f.request(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:              func(i httptrace.GotConnInfo) { reused.Store(i.Reused) },
		GotFirstResponseByte: func() { answered.Store(true) },
	}), c, lease, up, header, own)
	if err != nil {
		dog.stop()
		return &answer{outcome: pool.Outcome{Class: pool.Passthrough}, err: badRequest("the request body is not a JSON object")}
	}
	transport := c.set.warm
	if fresh {
		transport = c.set.fresh
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		dog.stop()
		a := f.unanswered(ctx, c)
		if a.outcome.Class == pool.Fault && reused.Load() && !answered.Load() && !dog.fired() {
			a.outcome.Class = pool.Stale
		}
		return a
	}
	a := f.judge(ctx, c, lease, up, resp, dog)
	if a.resp == nil {
		dog.stop()
		resp.Body.Close()
	}
	return a
}

// request builds an attempt's request. Its body can be had again (GetBody), so that the Transport may replay what
// was never processed.
func (f *failover) request(ctx context.Context, c *call, lease *pool.Lease, up *upstream.Upstream, header, own http.Header) (*http.Request, error) {
	parts, err := c.parts(lease.UpstreamModel, up.DropFields())
	if err != nil {
		return nil, err
	}
	h := maps.Clone(header)
	if up.Passthrough() {
		maps.Copy(h, own)
	}
	up.SetHeaders(h)
	u := up.URL(c.Path, cleanQuery(c.in.URL.RawQuery))
	req := f.p.blank.WithContext(ctx)
	req.Method, req.URL, req.Host, req.Header = c.in.Method, u, u.Host, h
	req.Proto, req.ProtoMajor, req.ProtoMinor = "HTTP/1.1", 1, 1
	if req.ContentLength = size(parts); req.ContentLength <= smallBody {
		// The Transport sends a reader that it knows together with the header, in one write. This copy is nobody
		// else's, so no one needs to know when it was read.
		small := bytes.Join(parts, nil)
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(small)), nil }
	} else {
		req.GetBody = func() (io.ReadCloser, error) { return c.body.reader(parts), nil }
	}
	req.Body, _ = req.GetBody() // neither can fail
	return req, nil
}

// smallBody is up to which size copying a body costs less than sending it apart from its header.
const smallBody = 32 << 10

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
func (f *failover) judge(ctx context.Context, c *call, lease *pool.Lease, up *upstream.Upstream, resp *http.Response, dog *watchdog) *answer {
	up.MaskHeader(resp.Header)
	if err := undoEncoding(resp); err != nil {
		return f.unreadable("encoding")
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return f.errorAnswer(ctx, c, up, resp)
	}
	r := newRelay(ctx, c, lease, up, resp, dog)
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
		return &answer{outcome: c.set.opt.Failover.judge(*fault), fault: *fault, header: resp.Header, body: up.Mask(r.errorBody), event: r.stream}
	}
	dog.idle(c.set.opt.Timeouts.Idle)
	lease.Accept()
	c.releaseBody()
	c.record.FirstByteMS = f.p.now().Sub(c.Started).Milliseconds()
	f.dress(c, resp.Header, len(c.record.Attempts)+1)
	resp.Body = r
	if r.stream { // keep-alives and an error event may make it longer than was promised
		resp.Header.Del("Content-Length")
		resp.ContentLength = -1
		c.writer.stream()
	}
	return &answer{resp: resp}
}

// unreadable judges a 2xx that is no answer in the dialect. reason is a closed word.
func (f *failover) unreadable(reason string) *answer {
	return &answer{outcome: pool.Outcome{Class: pool.Fault}, fault: ir.Fault{Status: http.StatusBadGateway, Type: reason},
		err: &Error{Status: http.StatusBadGateway, Type: "api_error", Message: "the upstream's answer could not be read"}}
}

// errorAnswer reads and judges an answer that is no 2xx.
func (f *failover) errorAnswer(ctx context.Context, c *call, up *upstream.Upstream, resp *http.Response) *answer {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody+1))
	if err != nil && (c.in.Context().Err() != nil || errors.Is(context.Cause(ctx), errTimeout)) {
		return f.unanswered(ctx, c)
	}
	a := &answer{fault: faultOf(resp, body, f.p.now()), header: resp.Header}
	a.outcome = c.set.opt.Failover.judge(a.fault)
	status := resp.StatusCode
	switch {
	case isPage(body) || len(body) > maxErrorBody || err != nil:
		a.err = &Error{Status: a.fault.Status, Type: "api_error", Message: "the upstream answered with an error that is not one of its API"}
	case (status == http.StatusUnauthorized || status == http.StatusForbidden) && !up.Passthrough() && a.outcome.Class != pool.Passthrough:
		// a client that gets 401 or 403 signs its user out
		a.err = &Error{Status: http.StatusServiceUnavailable, Type: "api_error", Message: "upstream credential rejected", RetryAfter: time.Minute}
	case status < 400:
		a.err = &Error{Status: http.StatusBadGateway, Type: "api_error", Message: "the upstream redirected the request"}
	default:
		if status == http.StatusUnauthorized && !up.Passthrough() {
			a.fault.Status = http.StatusBadRequest // a request's fault under a status that would sign the user out
		}
		a.body = up.Mask(body)
	}
	return a
}

// replay gives the client the error that is left when no key could answer.
func (f *failover) replay(c *call, a *answer) (*http.Response, error) {
	c.releaseBody()
	if a == nil {
		return nil, &Error{Status: http.StatusBadGateway, Type: "api_error", Message: "no upstream could be tried"}
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
	f.dress(c, header, len(c.record.Attempts))
	c.record.ErrorType = closedWord(a.fault)
	c.record.ResponseBytes = int64(len(a.body))
	c.finish(stats.OutcomeError, a.fault.Status)
	return &http.Response{
		StatusCode: a.fault.Status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header,
		Body: io.NopCloser(bytes.NewReader(a.body)), ContentLength: int64(len(a.body)), Request: c.in,
	}, nil
}

// dress makes an upstream's headers the client's.
func (f *failover) dress(c *call, h http.Header, attempts int) {
	cleanAnswer(h)
	h[traceHeader] = []string{c.Trace}
	h[tierHeader] = []string{printable(c.record.Tier)}
	h[attemptsHeader] = []string{strconv.Itoa(attempts)}
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

// anthropicError reports the fault that a body of a 2xx holds, nil when it is no error envelope.
func anthropicError(body []byte) *ir.Fault {
	f := anthropic.Fault(0, body)
	if f.Type == "" {
		return nil
	}
	f.Status = anthropic.StatusOf(f.Type)
	return &f
}
