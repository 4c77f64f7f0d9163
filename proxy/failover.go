package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"coding-proxy/pool"
	"coding-proxy/proxy/ir"
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
			if !a.barred {
				f.note(c, lease, a, began)
			}
			return a, lease
		}
		if err != nil {
			return &answer{outcome: pool.Outcome{Class: pool.Cancelled}, err: asError(err, c.Trace), barred: cannotGo(err)}, lease
		}
		r.Tier, r.Key, r.Provider, r.UpstreamModel, r.Upstream = lease.Tier, lease.Key, lease.Provider, l.model, l.dialect.Name
		a := f.send(ctx, c, lease, l, header, own, sending{renewed, fresh})
		switch {
		case a.outcome.Class == pool.Passthrough && !forget && refusesState(a.fault, c.want.Session != "") && f.canForget(c, l):
			a.outcome.Class = pool.Repair
		case a.renews && renewed+1 < maxTries:
			a.outcome.Class = pool.Renew
		}
		if a.barred {
			return a, lease
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
