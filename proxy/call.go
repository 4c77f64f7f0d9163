package proxy

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"coding-proxy/auth"
	"coding-proxy/pool"
	"coding-proxy/proxy/rawjson"
	"coding-proxy/stats"
)

const (
	traceHeader    = "X-Proxy-Trace"
	tierHeader     = "X-Proxy-Tier"
	attemptsHeader = "X-Proxy-Attempts"

	maxModelName = 256 // characters; longer names are refused
	maxSession   = 256 // characters; longer ids are ignored
	maxClient    = 64  // characters of the user agent's product kept in the journal
)

// Entry is what the server knows of a request when it hands it over.
type Entry struct {
	Trace   string
	Route   *Route
	ID      string // the id that the path names, for routes with one
	Path    string // without a dialect's prefix
	Caller  auth.Caller
	Started time.Time
}

// call is what the pipeline knows of one request. in is never edited.
type call struct {
	Entry
	p      *Proxy
	set    *settings // as they were when the request began: it finishes by them
	in     *http.Request
	writer *clientWriter
	body   *body

	model     string        // the client's name
	modelAt   rawjson.Field // where it stands in the body
	stream    bool
	maxTokens int64 // -1: not given
	session   string
	want      pool.Want

	record   stats.Record
	finished bool
	held     bool // the body's reference is still ours
}

// start begins the record of a request.
func (p *Proxy) start(r *http.Request, e Entry) *call {
	c := &call{Entry: e, p: p, set: p.settings(), in: r, maxTokens: -1}
	c.record = stats.Record{Trace: e.Trace, Caller: e.Caller.Code, Group: e.Caller.Group, Client: product(r.UserAgent())}
	if e.Route != nil {
		c.record.Dialect = e.Route.Dialect
	}
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
		return c, err
	}
	resolved := p.pool.Resolve(c.model)
	c.record.Requested, c.record.Resolved = c.model, resolved
	c.record.Stream = c.stream
	c.want = pool.Want{Scope: pool.Everything(), Model: resolved, Session: pool.SessionHash(e.Caller.Code, c.session)}
	if e.Caller.Limited {
		c.want.Scope = pool.Only(e.Caller.Keys...)
	}
	c.record.Session = c.want.Session
	if !e.Caller.MayUse(resolved) {
		return c, ErrForbidden("this request key may not use the model " + printable(c.model))
	}
	return c, nil
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

// scan looks at the top level of the body once.
func (c *call) scan() error {
	b := c.body.bytes
	var user, cacheKey string
	var seen [4]bool
	once := func(i int, name string) error {
		if seen[i] {
			return badRequest("%s: the field is there more than once", name)
		}
		seen[i] = true
		return nil
	}
	err := rawjson.Walk(b, func(key []byte, f rawjson.Field) error {
		v := f.Value(b)
		var ok bool
		switch string(key) {
		case "model":
			if c.model, ok = rawjson.String(v); !ok {
				return badRequest("model: must be a string")
			}
			c.modelAt = f
			return once(0, "model")
		case "stream":
			if c.stream = string(v) == "true"; !c.stream && string(v) != "false" && string(v) != "null" {
				return badRequest("stream: must be true or false")
			}
			return once(1, "stream")
		case "max_tokens":
			if c.maxTokens, ok = rawjson.Int(v); !ok {
				c.maxTokens = -1
			}
			return once(2, "max_tokens")
		case "metadata":
			user, _ = rawjson.String(rawjson.Get(v, "user_id"))
			return once(3, "metadata")
		case "prompt_cache_key":
			cacheKey, _ = rawjson.String(v)
		}
		return nil
	})
	switch {
	case errors.Is(err, rawjson.ErrSyntax):
		return badRequest("the request body is not a JSON object: %s", strings.TrimPrefix(err.Error(), "invalid JSON: "))
	case err != nil:
		return err
	case c.model == "":
		return badRequest("model: the field is missing or empty")
	case len(c.model) > maxModelName:
		return badRequest("model: the name is longer than %d characters", maxModelName)
	}
	c.session = sessionID(c.in.Header, user, cacheKey)
	return nil
}

// sessionID is the first id that a client gives its conversation (facts/clients.md, section 0).
func sessionID(h http.Header, user, cacheKey string) string {
	for _, name := range [...]string{"X-Claude-Code-Session-Id", "", "X-Session-Id", "X-Session-Affinity", "Session-Id", "Session_id", "Mcp-Session-Id"} {
		id := ""
		if name == "" {
			id = userSession(user)
		} else if v := h[name]; len(v) > 0 {
			id = v[0]
		}
		if validSession(id) {
			return id
		}
	}
	if validSession(cacheKey) {
		return cacheKey
	}
	return ""
}

// userSession takes the session out of metadata.user_id: newer Claude Code sends a JSON text with session_id, older
// ones user_…_session_UUID; any other value counts whole.
func userSession(user string) string {
	if strings.HasPrefix(user, "{") {
		if id, ok := rawjson.String(rawjson.Get([]byte(user), "session_id")); ok && id != "" {
			return id
		}
	}
	if i := strings.LastIndex(user, "_session_"); i >= 0 && i+len("_session_") < len(user) {
		return user[i+len("_session_"):]
	}
	return user
}

func validSession(id string) bool {
	if id == "" || utf8.RuneCountInString(id) > maxSession {
		return false
	}
	for i := 0; i < len(id); i++ {
		if id[i] < 0x20 || id[i] == 0x7f {
			return false
		}
	}
	return true
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

// parts returns the body as it goes to a key: the client's bytes with the model's value replaced, and without the
// fields that the upstream refuses.
func (c *call) parts(upstreamModel string, drop map[string]bool) ([][]byte, error) {
	b := c.body.bytes
	var edits []rawjson.Edit
	if upstreamModel != c.model {
		edits = append(edits, rawjson.Edit{Start: c.modelAt.ValueStart, End: c.modelAt.ValueEnd, Text: rawjson.AppendString(nil, upstreamModel)})
	}
	if len(drop) > 0 {
		removed, err := rawjson.Remove(b, drop)
		if err != nil {
			return nil, err
		}
		edits = append(edits, removed...)
	}
	if len(edits) == 0 {
		return [][]byte{b}, nil
	}
	return rawjson.Splice(b, edits...), nil
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
}

// fail records an error from here and renders it.
func (c *call) fail(w http.ResponseWriter, err error) {
	if unknown := new(pool.ModelError); errors.As(err, &unknown) && c.model != "" {
		err = &pool.ModelError{Model: c.model, Near: unknown.Near} // the client's name, not what it was resolved to
	}
	e := asError(err, c.Trace)
	outcome := stats.OutcomeError
	switch {
	case e.exhausted:
		outcome = stats.OutcomeExhausted
	case c.in.Context().Err() != nil:
		outcome = stats.OutcomeCancelled
	}
	c.record.ErrorType = e.Type
	c.finish(outcome, e.Status)
	if c.body == nil {
		leaveBody(w, c.p.now())
	}
	if n := len(c.record.Attempts); n > 0 {
		w.Header()[tierHeader] = []string{printable(c.record.Tier)}
		w.Header()[attemptsHeader] = []string{strconv.Itoa(n)}
	}
	WriteError(w, c.Trace, e)
}
