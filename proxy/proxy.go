package proxy

import (
	"context"
	"io"
	"log"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httputil"
	"sync"
	"sync/atomic"
	"time"

	"coding-proxy/auth"
	"coding-proxy/pool"
	"coding-proxy/proxy/codec"
	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/upstream"
	"coding-proxy/stats"
)

// Recorder keeps what happened (stats.Stats).
type Recorder interface {
	Add(*stats.Record)
}

// Proxy serves the client endpoints.
type Proxy struct {
	live      atomic.Pointer[settings]
	dialects  map[string]*ir.Dialect
	known     pool.Catalogue // names of models, for lists
	recall    recall
	pool      *pool.Pool
	stats     Recorder
	log       *slog.Logger
	now       func() time.Time
	keepAlive time.Duration
	answers   Answers // nil: they are not kept

	reverse  *httputil.ReverseProxy
	bodies   sync.Pool // of *[]byte: request bodies
	heads    headBuffers
	closed   chan struct{} // a closed one
	blank    *http.Request // empty, never changed: what attempts' requests are copied from
	inFlight atomic.Int64
	idle     atomic.Int64 // of them, streams that nobody waits for
}

// settings are what a reload changes. They never change themselves: a request keeps those that it began with.
type settings struct {
	opt         Options
	callers     *auth.Callers
	configured  map[string]*upstream.Upstream // by key id
	upstreams   map[string]*upstream.Upstream // the same, and those of the keys that the last reload took away
	passthrough bool                          // some key sends the client's own credential on
	*transports
}

// New builds the request path over a pool; upstreams has one entry a key of the pool.
func New(opt Options, p *pool.Pool, callers *auth.Callers, upstreams map[string]*upstream.Upstream, rec Recorder, log *slog.Logger, now func() time.Time) *Proxy {
	x := &Proxy{pool: p, stats: rec, log: log, now: now, keepAlive: keepAliveEvery, closed: make(chan struct{}), blank: &http.Request{},
		dialects: map[string]*ir.Dialect{}, known: catalogue()}
	for _, d := range codec.All() {
		x.dialects[d.Name] = d
	}
	x.dialects[mcp] = rpcErrors()
	close(x.closed)
	x.Configure(opt, callers, upstreams)
	x.reverse = &httputil.ReverseProxy{
		Rewrite:       func(*httputil.ProxyRequest) {}, // each attempt has an address of its own: failover.go
		Transport:     &failover{x},
		FlushInterval: -1,
		BufferPool:    &copyBuffers{},
		ErrorLog:      errorLog(log),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			c, _ := r.Context().Value(callKey{}).(*call)
			c.fail(w, err)
		},
	}
	return x
}

func (p *Proxy) settings() *settings { return p.live.Load() }

// Configure changes the settings for the requests that begin from now on. It comes before the pool's own Configure: the
// keys that are gone stay known until the next one, for requests that the pool has leased them to.
func (p *Proxy) Configure(opt Options, callers *auth.Callers, upstreams map[string]*upstream.Upstream) {
	s := &settings{opt: opt, callers: callers, configured: upstreams, upstreams: map[string]*upstream.Upstream{}}
	before := p.settings()
	if before != nil {
		maps.Copy(s.upstreams, before.configured)
	}
	maps.Copy(s.upstreams, upstreams)
	for _, u := range s.upstreams {
		s.passthrough = s.passthrough || u.Passthrough()
	}
	if before != nil && before.opt.Timeouts.Connect == opt.Timeouts.Connect {
		s.transports = before.transports
	} else {
		s.transports = newTransports(opt.Timeouts)
	}
	p.live.Store(s)
	if before != nil && before.transports != s.transports {
		before.retire()
	}
}

// upstream returns where a lease's key leads. A key that came with a reload after the request had begun is the new
// settings' one.
func (p *Proxy) upstream(c *call, key string) *upstream.Upstream {
	if u := c.set.upstreams[key]; u != nil {
		return u
	}
	return p.settings().upstreams[key]
}

// InFlight returns how many requests are being served.
func (p *Proxy) InFlight() int64 { return p.inFlight.Load() }

// Pending returns how many of them somebody waits for: all but the streams on which MCP servers say what they like.
func (p *Proxy) Pending() int64 { return p.inFlight.Load() - p.idle.Load() }

// Serve serves a request whose route and caller are known.
func (p *Proxy) Serve(w http.ResponseWriter, r *http.Request, e Entry) {
	n := p.inFlight.Add(1)
	defer p.inFlight.Add(-1)
	if limit := p.settings().opt.Limits.MaxInFlight; limit > 0 && n-p.idle.Load() > int64(limit) && e.Route.Guard == GuardKey {
		p.Refuse(w, r, e, &Error{Status: http.StatusServiceUnavailable, Type: "overloaded_error",
			Message: "too many requests in flight", RetryAfter: time.Second})
		return
	}
	e.Route.handle(p, w, r, e)
}

// generate serves the endpoints at which clients ask for an answer.
func (p *Proxy) generate(w http.ResponseWriter, r *http.Request, e Entry) {
	c, err := p.newCall(w, r, e)
	defer c.releaseBody()
	if err != nil {
		c.fail(w, err)
		return
	}
	if c.isProbe() {
		c.probe(w)
		return
	}
	p.forward(w, r, c)
}

// pass serves what is passed through unchanged.
func (p *Proxy) pass(w http.ResponseWriter, r *http.Request, e Entry) {
	if r.Method != http.MethodGet {
		p.passBody(w, r, e)
		return
	}
	c := p.start(r, e)
	c.refers = []ir.Reference{{ID: e.ID}}
	if err := c.settle(); err != nil {
		c.fail(w, err)
		return
	}
	c.stream = r.URL.Query().Get("stream") == "true"
	p.forward(w, r, c)
}

func (p *Proxy) passBody(w http.ResponseWriter, r *http.Request, e Entry) {
	c, err := p.newCall(w, r, e)
	defer c.releaseBody()
	if err != nil {
		c.fail(w, err)
		return
	}
	p.forward(w, r, c)
}

// forward sends a request to upstreams until one answers.
func (p *Proxy) forward(w http.ResponseWriter, r *http.Request, c *call) {
	if err := c.pin(); err != nil {
		c.fail(w, err)
		return
	}
	c.set.users.Add(1)
	defer c.set.leave()
	c.writer = newClientWriter(w, p)
	defer c.close()
	in := r.WithContext(context.WithValue(r.Context(), callKey{}, c))
	in.Body, in.ContentLength = http.NoBody, 0 // it has been read; each attempt gets a reader of its own
	p.reverse.ServeHTTP(c.writer, in)
}

// close ends what a request may have left open, also when its handler panics.
func (c *call) close() {
	c.writer.stop()
	if r := c.relay; r != nil { // a panic on the way leaves it open
		if c.in.Context().Err() == nil {
			r.finish(stats.OutcomeError, pool.Outcome{Class: pool.Cancelled})
		}
		_ = r.Close()
	}
	if c.in.Context().Err() != nil {
		c.finish(stats.OutcomeCancelled, 499)
	} else {
		c.finish(stats.OutcomeError, http.StatusInternalServerError) // only if nothing else has been said
	}
}

// copyBuffers pools the buffers that ReverseProxy copies answers with. A stream holds one for as long as it lasts.
type copyBuffers struct{ pool sync.Pool }

const copyBuffer = readBuffer

func (b *copyBuffers) Get() []byte {
	if p, _ := b.pool.Get().(*[copyBuffer]byte); p != nil {
		return p[:]
	}
	return make([]byte, copyBuffer)
}

func (b *copyBuffers) Put(buf []byte) { b.pool.Put((*[copyBuffer]byte)(buf)) }

// headBuffers pools the memory that heads of answers are held in.
type headBuffers struct{ pool sync.Pool }

const headBuffer = readBuffer

// get returns an empty buffer.
func (b *headBuffers) get() []byte {
	if p, _ := b.pool.Get().(*[headBuffer]byte); p != nil {
		return p[:0]
	}
	return make([]byte, 0, headBuffer)
}

// put takes a buffer back; one that has grown is left to the garbage collector.
func (b *headBuffers) put(buf []byte) {
	if cap(buf) == headBuffer {
		b.pool.Put((*[headBuffer]byte)(buf[:headBuffer]))
	}
}

// errorLog gives ReverseProxy's own messages to the log, at debug level: they are about clients that went away.
func errorLog(l *slog.Logger) *log.Logger {
	if l == nil {
		return log.New(io.Discard, "", 0)
	}
	return slog.NewLogLogger(l.Handler(), slog.LevelDebug)
}
