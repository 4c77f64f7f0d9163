package proxy

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"coding-proxy/auth"
	"coding-proxy/pool"
	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
	"coding-proxy/stats"
)

const (
	traceHeader    = "X-Proxy-Trace"
	tierHeader     = "X-Proxy-Tier"
	attemptsHeader = "X-Proxy-Attempts"

	droppedHeader = "X-Proxy-Dropped"

	maxClient = 64 // characters of the user agent's product kept in the journal
)

// Entry is what the server knows of a request when it hands it over.
type Entry struct {
	Trace   string
	Route   *Route
	ID      string // the id that the path names, for routes with one
	Path    string // without a dialect's prefix
	Caller  auth.Caller
	Started time.Time
	Leave   func() // the request is over for its caller's limits; nil where there is nothing to leave
}

// call is what the pipeline knows of one request. in is never edited.
type call struct {
	Entry
	p       *Proxy
	set     *settings // as they were when the request began: it finishes by them
	dialect *ir.Dialect
	in      *http.Request
	writer  *clientWriter
	body    *body

	model      string        // the client's name
	modelAt    rawjson.Field // where its value stands in the body; ValueEnd is 0 where the path names it
	plainAt    bool          // the value there is no JSON text but the bytes themselves (multipart)
	stream     bool
	array      bool  // a stream as one JSON array (Gemini without alt=sse)
	maxTokens  int64 // -1: not given
	session    string
	refers     []ir.Reference // what lives in one account
	unstored   bool           // the answer shall not be stored
	background bool           // the answer comes later, to another request
	stateful   string         // the field that only a provider of the client's dialect can serve
	want       pool.Want

	asked   *ir.Request // the request in canonical form, once a conversion has needed it
	refused error       // why it has none
	lost    []string    // what the conversion of the attempt under way could not say

	relay     *relay // the answer that goes to the client
	record    stats.Record
	finished  bool
	held      bool        // the body's reference is still ours
	aside     bool        // a question beside the request: what comes back says nothing of the key, nor of its token
	committed atomic.Bool // the client has its header: no further key is tried
}

// start begins the record of a request.
func (p *Proxy) start(r *http.Request, e Entry) *call {
	c := &call{Entry: e, p: p, set: p.settings(), in: r, maxTokens: -1}
	c.record = stats.Record{Trace: e.Trace, Caller: e.Caller.Code, Group: e.Caller.Group, Client: product(r.UserAgent())}
	name := DialectOf(r)
	if e.Route != nil {
		name = e.Route.dialectFor(r.Header)
		c.record.Dialect = name
	}
	c.dialect = p.dialects[name]
	return c
}

// Refuse answers a request that is not served, and records it where its caller is known.
func (p *Proxy) Refuse(w http.ResponseWriter, r *http.Request, e Entry, err error) {
	p.start(r, e).fail(w, err)
}

// newCall reads the body and scans its top level.
func (p *Proxy) newCall(w http.ResponseWriter, r *http.Request, e Entry) (*call, error) {
	c := p.start(r, e)
	b, err := p.read(w, r)
	if err != nil {
		return c, err
	}
	c.body, c.held = b, true
	c.record.RequestBytes = int64(len(b.bytes))
	if err := c.scan(); err != nil {
		c.record.Requested, c.record.Stream = printable(c.model), c.stream
		return c, err
	}
	return c, c.settle()
}

// settle says what is wanted of the pool.
func (c *call) settle() error {
	if err := c.admitted(); err != nil {
		return err
	}
	e := &c.Entry
	resolved := ""
	if c.model != "" { // a pattern may stand for any name, not for none
		resolved = c.p.pool.Resolve(c.model)
	}
	c.record.Requested, c.record.Resolved = c.model, resolved
	c.record.Stream = c.stream
	c.want = pool.Want{Scope: c.scope(), Model: resolved, Session: pool.SessionHash(e.Caller.Code, c.session)}
	c.record.Session = c.want.Session
	if e.Route.speaks != "" {
		c.want.Speaks = strings.Fields(e.Route.speaks)
	}
	if c.background && e.Caller.Counted() { // what is read later counts nothing: it may be read again and again, or never
		err := ErrForbidden("this request key has limits of tokens or cost, and what an answer in the background uses is not counted")
		err.Param = "background"
		return err
	}
	return c.allowed(resolved)
}

// pin keeps a request that names what lives in an account with the key of that account.
func (c *call) pin() error {
	first := ""
	for _, ref := range c.refers {
		key, at := c.p.pool.Owner(c.Caller.Code, ref.ID, c.dialect.Name, c.want.Scope)
		field := cmp.Or(ref.At, "the id in the path")
		if c.stateful = cmp.Or(c.stateful, ref.At); at == pool.Nowhere && c.stateful != "" {
			continue // the lease says so
		}
		e := &Error{Status: http.StatusBadRequest, Type: ir.KindInvalid, Param: ref.At}
		switch {
		case at != pool.Here && at != pool.Gone || c.Caller.Limited && !slices.Contains(c.Caller.Keys, key):
			e.Status, e.Type, e.Message = http.StatusNotFound, ir.KindNotFound, field+": nothing with this id is known as yours"
			if e.code = "not_found"; ref.At == "previous_response_id" {
				e.code = "previous_response_not_found"
			}
			return e
		case at == pool.Gone:
			e.Message = field + ": the key of its account is gone; send the whole conversation"
			return e
		case c.want.Key != "" && c.want.Key != key:
			e.Message = field + ": it lives in another account than " + first + "; send the whole conversation"
			return e
		}
		c.want.Key, first = key, cmp.Or(first, field)
	}
	if c.stateful != "" && c.Route.speaks == "" {
		c.want.Speaks = []string{c.dialect.Name}
	}
	return nil
}

// read reads the body with a deadline that each read renews: a body that stops arriving is given up.
func (p *Proxy) read(w http.ResponseWriter, r *http.Request) (*body, error) {
	ctl, opt := http.NewResponseController(w), &p.settings().opt
	_ = ctl.SetReadDeadline(p.now().Add(opt.Timeouts.Idle)) // a writer without deadlines has none to set
	var b *body
	var err error
	if r.ContentLength >= 0 && r.ContentLength <= firstRead {
		b, err = readBody(w, r, opt.Limits.MaxBodyBytes, &p.bodies)
	} else {
		slow := *r
		slow.Body = &renewing{r.Body, ctl, p}
		b, err = readBody(w, &slow, opt.Limits.MaxBodyBytes, &p.bodies)
	}
	_ = ctl.SetReadDeadline(time.Time{})
	return b, err
}

// product is the first part of a user agent, "claude-cli/2.1.332".
func product(agent string) string {
	agent, _, _ = strings.Cut(agent, " ")
	return printable(agent[:min(len(agent), maxClient)])
}

// printable keeps printable ASCII of s, at most 256 characters, so that it may stand in a header or message.
func printable(s string) string {
	clean := true
	for i := 0; i < len(s); i++ {
		clean = clean && s[i] >= 0x20 && s[i] < 0x7f
	}
	if clean && len(s) <= 256 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if b.Len() >= 256 {
			break
		}
		if r < 0x20 || r >= 0x7f {
			r = '?'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// releaseBody gives the body up: no further attempt will be made.
func (c *call) releaseBody() {
	if c.held {
		c.held = false
		c.body.release()
	}
}

// finish writes the record, once, before the client sees the end.
func (c *call) finish(outcome string, status int) {
	if c.finished {
		return
	}
	c.finished = true
	if c.record.Caller == "" {
		return
	}
	r := &c.record
	now := c.p.now()
	r.TS, r.Outcome, r.Status = now, outcome, status
	r.DurationMS = now.Sub(c.Started).Milliseconds()
	for _, s := range c.want.Skipped {
		r.Skipped = append(r.Skipped, stats.Skip{Tier: s.Tier, Key: s.Key, Gate: s.Gate.String()})
	}
	c.p.stats.Add(r)
	if c.Leave != nil { // before the client sees the end: what it asks next is not one too many
		c.Leave()
	}
}

// fail records an error from here and renders it.
func (c *call) fail(w http.ResponseWriter, err error) {
	e := c.failed(err)
	if c.body == nil {
		leaveBody(w, c.p.now())
	}
	if n := len(c.record.Attempts); n > 0 {
		w.Header()[tierHeader] = []string{printable(c.record.Attempts[n-1].Tier)}
		w.Header()[attemptsHeader] = []string{strconv.Itoa(n)}
	}
	writeError(w, c.dialect, c.Trace, e)
}

// failed records an error from here.
func (c *call) failed(err error) *Error {
	if unknown := new(pool.ModelError); errors.As(err, &unknown) && c.model != "" {
		err = &pool.ModelError{Model: c.model, Near: c.nearAllowed(unknown.Near)} // the client's name, not what it was resolved to
	}
	e := asError(err, c.Trace)
	if e.Status == http.StatusInternalServerError {
		c.p.log.Error("internal error", "trace", c.Trace, "kind", fmt.Sprintf("%T", err)) // its text may be the request's
	}
	if limit := new(auth.LimitError); errors.As(err, &limit) {
		c.record.Skipped = append(c.record.Skipped, stats.Skip{Gate: limit.Limit})
	}
	outcome := stats.OutcomeError
	switch {
	case e.exhausted:
		outcome = stats.OutcomeExhausted
	case c.in.Context().Err() != nil:
		outcome = stats.OutcomeCancelled
	}
	c.record.ErrorType = e.Type
	c.finish(outcome, c.dialect.Status(e.fault()))
	return e
}
