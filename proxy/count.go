package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"coding-proxy/pool"
	"coding-proxy/proxy/estimate"
	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
	"coding-proxy/stats"
)

const (
	// countWait is how long a provider may take to count; the estimate is there at once.
	countWait = 10 * time.Second
	// maxCount bounds the answer, which is one number and little else.
	maxCount = 64 << 10
)

// countTokens says what a request would cost: the provider's own count where that is asked for and can be had, else the
// estimate.
func (p *Proxy) countTokens(w http.ResponseWriter, r *http.Request, e Entry) {
	c, err := p.newCall(w, r, e)
	defer c.releaseBody()
	if err != nil {
		c.fail(w, err)
		return
	}
	if c.set.opt.CountUpstream && c.countUpstream(w) {
		return
	}
	if err := r.Context().Err(); err != nil {
		c.fail(w, err)
		return
	}
	n, err := c.estimate()
	if err != nil {
		c.fail(w, err)
		return
	}
	c.answer(w, []byte(`{"`+c.countName()+`":`+strconv.Itoa(n)+`}`), contentType(false))
}

// countName is the member that holds the count.
func (c *call) countName() string {
	if c.dialect.Name == gemini {
		return "totalTokens"
	}
	return "input_tokens"
}

// countUpstream asks the key that the request itself would be given, if it speaks the client's dialect, and reports whether
// its count was sent. It is asked once: whatever else comes back, the estimate is as good as another key's refusal. A
// failure says nothing of the key, since providers limit counting apart, and many do not offer it at all.
func (c *call) countUpstream(w http.ResponseWriter) bool {
	q, err := c.question(w)
	if err != nil {
		return false
	}
	defer q.close()
	c.set.users.Add(1)
	defer c.set.leave()

	header, own := q.header()
	q.want.Credential = credentialHash(own)
	lease := c.leaseAtOnce(&q.want)
	defer c.p.pool.End(&q.want, false)
	c.want.Skipped = q.want.Skipped
	if lease == nil {
		return false
	}
	if lease.UpstreamModel != q.model {
		q.body = nestedModel(q.body, lease.UpstreamModel)
	}
	if up := c.p.upstream(q, lease.Key); up.Copilot() != nil { // there is no such call
		c.passedOver(lease, pool.GateDialect.String())
		lease.Close(pool.Outcome{Class: pool.Cancelled}, pool.Tokens{})
		return false
	}
	a, lease := (&failover{c.p}).attempt(c.in.Context(), q, lease, header, own)
	c.record.Attempts = q.record.Attempts
	if a.resp == nil {
		if a.barred {
			c.passedOver(lease, "conversion")
		}
		lease.Close(pool.Outcome{Class: pool.Cancelled}, pool.Tokens{})
		return false
	}
	lease.Close(pool.Outcome{}, pool.Tokens{}) // whatever becomes of the body
	body, err := io.ReadAll(io.LimitReader(a.resp.Body, maxCount+1))
	_ = a.resp.Body.Close()
	if err != nil || len(body) > maxCount || !c.isCount(body) {
		return false
	}
	c.relayCount(w, q, a.resp, body)
	return true
}

// passedOver keeps for the journal that a key was not asked.
func (c *call) passedOver(lease *pool.Lease, gate string) {
	c.record.Skipped = append(c.record.Skipped, stats.Skip{Tier: lease.Tier, Key: lease.Key, Gate: gate})
}

// leaseAtOnce leases a key, nil where none is free: nobody waits for one to count.
func (c *call) leaseAtOnce(w *pool.Want) *pool.Lease {
	ctx, cancel := context.WithCancel(c.in.Context())
	cancel()
	lease, err := c.p.pool.Lease(ctx, w)
	if err != nil {
		return nil
	}
	return lease
}

// question is a call of its own for the provider: what it keeps in its record becomes the client's only if the answer does.
func (c *call) question(w http.ResponseWriter) (*call, error) {
	set := *c.set
	wait := &set.opt.Timeouts
	wait.FirstByteNonstream, wait.Idle = min(wait.FirstByteNonstream, countWait), min(wait.Idle, countWait)
	q := &call{Entry: c.Entry, p: c.p, set: &set, dialect: c.dialect, in: c.in, body: c.body, model: c.model, modelAt: c.modelAt,
		maxTokens: -1, session: c.session, refers: c.refers, want: c.want, aside: true}
	q.writer = newClientWriter(w, c.p)
	return q, q.pin()
}

// header is what the client sent, as far as it is for a provider, and its own credential there.
func (c *call) header() (header, own http.Header) {
	header = c.in.Header.Clone()
	removeHopByHop(header)
	cleanHeaders(header)
	if c.set.passthrough {
		own = ownCredential(c.in.Header, c.in.URL.RawQuery, c.set.callers)
	}
	return header, own
}

// isCount reports whether a body says how many tokens there are.
func (c *call) isCount(body []byte) bool {
	if rawjson.Valid(body) != nil {
		return false
	}
	_, ok := rawjson.Int(rawjson.Get(body, c.countName()))
	return ok
}

// relayCount gives the client the provider's answer as it came.
func (c *call) relayCount(w http.ResponseWriter, q *call, resp *http.Response, body []byte) {
	from := &q.record
	r := &c.record
	r.Tier, r.Key, r.Provider, r.UpstreamModel, r.Upstream = from.Tier, from.Key, from.Provider, from.UpstreamModel, from.Upstream
	r.FirstByteMS, r.ResponseBytes = from.FirstByteMS, int64(len(body))
	c.finish(stats.OutcomeOK, resp.StatusCode)
	removeHopByHop(resp.Header)
	h := w.Header()
	for name, values := range resp.Header {
		h[name] = append(h[name], values...) // Vary is ours, too
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(resp.StatusCode)
	_, _ = w.Write(body) // a client that is gone needs no error
}

// removeHopByHop takes out what concerns one connection alone (RFC 9110, section 7.6.1).
func removeHopByHop(h http.Header) {
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range [...]string{"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer",
		"Transfer-Encoding", "Upgrade"} {
		delete(h, name)
	}
}

// nestedModel replaces the model that the second form of Gemini's countTokens repeats inside.
func nestedModel(b *body, model string) *body {
	const member = "generateContentRequest"
	if !strings.HasPrefix(model, tuned) {
		model = "models/" + model
	}
	var edits []rawjson.Edit
	_ = rawjson.Walk(b.bytes, func(key []byte, outer rawjson.Field) error { // that it is an object has been seen
		if string(key) != member {
			return nil
		}
		return rawjson.Walk(outer.Value(b.bytes), func(key []byte, f rawjson.Field) error {
			if string(key) == "model" {
				at := outer.ValueStart
				edits = append(edits, rawjson.Edit{Start: at + f.ValueStart, End: at + f.ValueEnd, Text: rawjson.AppendString(nil, model)})
			}
			return nil
		})
	})
	if len(edits) == 0 {
		return b
	}
	out := &body{bytes: bytes.Join(rawjson.Splice(b.bytes, edits...), nil)}
	out.refs.Store(1)
	return out
}

// estimate counts the tokens of the request. What is not Anthropic's is counted in its form: the estimate knows that one.
func (c *call) estimate() (int, error) {
	body := c.body.bytes
	if c.dialect.Name != Anthropic {
		plain := body
		if inner := rawjson.Get(plain, "generateContentRequest"); inner != nil { // Gemini's countTokens has two forms
			plain = inner
		}
		asked, err := c.decode(bytes.Clone(plain))
		if err != nil {
			return 0, err
		}
		out, err := c.p.dialects[Anthropic].EncodeRequest(asked, ir.Target{Model: c.model})
		if cannotGo(err) { // audio and such have no form there
			return len(body) / bytesPerToken, nil
		}
		if err != nil {
			return 0, err
		}
		body = out.Body
	}
	n, err := estimate.Anthropic(body)
	if err != nil {
		return 0, estimateError(err)
	}
	return n, nil
}

func estimateError(err error) error {
	var f *estimate.FieldError
	if errors.As(err, &f) {
		return badRequest("%s", f.Error())
	}
	return badRequest("the request body is not what this endpoint takes")
}
