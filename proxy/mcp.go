package proxy

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"time"

	"coding-proxy/pool"
	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
	"coding-proxy/proxy/upstream"
)

// mcp is the dialect of /mcp/{name} in routes and the journal. It is no model's: messages pass unread.
const mcp = "mcp"

const (
	// sessionHeader names a session of MCP's streamable HTTP (specification 2025-11-25, basic/transports).
	sessionHeader = "Mcp-Session-Id"
	// sessionOf begins the place in which the pool keeps whose session an id is. No key of the pool is called so: ids have no
	// colon.
	sessionOf = "mcp:"
)

// mcp passes one exchange of MCP's streamable HTTP on to a configured server. A caller in a group gets none: a group names
// keys, and no server is one of them (design/house.md, invariant 2). A list of models limits no tools.
func (p *Proxy) mcp(w http.ResponseWriter, r *http.Request, e Entry) {
	c := p.start(r, e)
	defer c.releaseBody()
	x := &exchange{c: c, name: e.ID}
	err := x.admit()
	if err == nil && r.Method == http.MethodPost {
		err = x.readBody(w)
	}
	if err != nil {
		c.fail(w, err)
		return
	}
	if r.Method == http.MethodGet {
		p.idle.Add(1)
		defer p.idle.Add(-1)
	}
	c.set.users.Add(1)
	defer c.set.leave()
	c.writer = newClientWriter(w, p)
	defer c.close()
	reverse := &httputil.ReverseProxy{
		Rewrite:       x.rewrite,
		Transport:     x,
		FlushInterval: -1,
		BufferPool:    p.reverse.BufferPool,
		ErrorLog:      p.reverse.ErrorLog,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, err error) { c.fail(w, err) },
	}
	in := r.WithContext(r.Context())
	in.Body, in.ContentLength = http.NoBody, 0 // it has been read
	reverse.ServeHTTP(c.writer, in)
}

// exchange is one request to an MCP server and its answer. It is the http.RoundTripper of its ReverseProxy. Nothing is sent
// twice: a tool may have run.
type exchange struct {
	c      *call
	name   string
	opt    upstream.Options
	server *upstream.Upstream
}

// admit finds the server, and refuses a session that is not the caller's. One that is not known is nobody's: its client has
// to begin a new one, as the specification asks of it.
func (x *exchange) admit() error {
	c := x.c
	if err := c.admitted(); err != nil {
		return err
	}
	if c.Caller.Limited {
		return ErrForbidden("a request key that belongs to a group may not use MCP servers")
	}
	opt, ok := c.set.opt.MCP[x.name]
	if !ok {
		return &Error{Status: http.StatusNotFound, Type: ir.KindNotFound, Message: "no MCP server is configured by the name " + strconv.Quote(printable(x.name))}
	}
	x.opt, x.server = opt, upstream.New(opt, upstream.Env{})
	c.record.Upstream, c.record.Provider = mcp, sessionOf+x.name
	switch ids := c.in.Header[sessionHeader]; {
	case len(ids) > 1:
		return badRequest("the header %s is there more than once", strings.ToLower(sessionHeader))
	case len(ids) == 1 && ids[0] != "":
		c.session, c.record.Session = ids[0], pool.SessionHash(c.Caller.Code, ids[0])
		place, at := c.p.pool.Owner(c.Caller.Code, x.sessionID(ids[0]), mcp, pool.Only())
		if at != pool.Gone || place != sessionOf+x.name { // it lives in no key's account
			return &Error{Status: http.StatusNotFound, Type: ir.KindNotFound, Message: "no such session; begin a new one"}
		}
	}
	return nil
}

// sessionID tells the sessions of several servers apart.
func (x *exchange) sessionID(id string) string { return sessionOf + x.name + "\x00" + id }

func (x *exchange) readBody(w http.ResponseWriter) error {
	c := x.c
	b, err := c.p.read(w, c.in)
	if err != nil {
		return err
	}
	c.body, c.held = b, true
	c.record.RequestBytes = int64(len(b.bytes))
	return nil
}

// rewrite makes the client's request the server's.
func (x *exchange) rewrite(r *httputil.ProxyRequest) {
	way := x.server.Endpoint(mcp)
	u := *way.BaseURL
	u.RawQuery = cleanQuery(r.In.URL.RawQuery)
	r.Out.URL, r.Out.Host = &u, ""
	cleanHeaders(r.Out.Header)
	x.server.SetHeaders(r.Out.Header, way)
}

// RoundTrip sends the request. The client's own context bounds it: ReverseProxy's would hand 1xx answers on. A tool may take
// its time, so a stream's head gets as much as a whole answer.
func (x *exchange) RoundTrip(out *http.Request) (*http.Response, error) {
	c := x.c
	ctx, cancel := context.WithCancelCause(c.in.Context())
	dog := newWatchdog(cancel, c.set.opt.Timeouts.FirstByteNonstream, c.p.now)
	req := out.WithContext(ctx)
	if c.body != nil && len(c.body.bytes) > 0 {
		whole := [][]byte{c.body.bytes}
		req.ContentLength = size(whole)
		req.GetBody = func() (io.ReadCloser, error) { return c.body.reader(whole), nil } // the Transport may replay what was never processed
		req.Body, _ = req.GetBody()                                                      // it cannot fail
	}
	resp, err := c.set.Via(x.server.Proxy()).RoundTrip(req)
	if err != nil {
		dog.stop()
		return nil, x.failed(ctx)
	}
	dog.idle(c.set.opt.Timeouts.Idle)
	c.releaseBody()
	c.record.FirstByteMS = c.p.now().Sub(c.Started).Milliseconds()
	if err := x.head(resp); err != nil {
		dog.stop()
		resp.Body.Close()
		return nil, err
	}
	resp.Body = newMessages(ctx, x, resp, dog)
	return resp, nil
}

// failed says why there is no answer.
func (x *exchange) failed(ctx context.Context) error {
	c := x.c
	if c.in.Context().Err() != nil {
		return context.Canceled
	}
	e := &Error{Status: http.StatusBadGateway, Type: ir.KindAPI, Message: "the MCP server could not be reached"}
	if errors.Is(context.Cause(ctx), errTimeout) {
		e = &Error{Status: http.StatusGatewayTimeout, Type: ir.KindTimeout, Message: "the MCP server gave no answer in time"}
	}
	c.p.log.LogAttrs(context.Background(), slog.LevelInfo, "MCP server failed", slog.String("trace", c.Trace), slog.String("server", x.name), slog.String("reason", e.Type))
	return e
}

// head makes an answer's header the client's. A client that hears of a refused credential would sign in anew, where what was
// refused is ours.
func (x *exchange) head(resp *http.Response) error {
	h := resp.Header
	x.server.MaskHeader(h)
	cleanAnswer(h)
	h.Del("Www-Authenticate")
	h[traceHeader] = []string{x.c.Trace}
	resp.Trailer = nil
	switch s := resp.StatusCode; {
	case s == http.StatusUnauthorized, s == http.StatusForbidden:
		return &Error{Status: http.StatusServiceUnavailable, Type: ir.KindAPI, Message: "the MCP server refuses the credential that is configured for it", RetryAfter: time.Minute}
	case s < 200, s >= 300 && s < 400:
		return &Error{Status: http.StatusBadGateway, Type: ir.KindAPI, Message: "the MCP server redirected the request"}
	}
	if undoEncoding(resp) != nil {
		return &Error{Status: http.StatusBadGateway, Type: ir.KindAPI, Message: "the MCP server's answer could not be read"}
	}
	if id := h.Get(sessionHeader); id != "" && resp.StatusCode < 300 {
		x.c.p.pool.Own(x.c.Caller.Code, x.sessionID(id), sessionOf+x.name)
		x.c.record.Session = pool.SessionHash(x.c.Caller.Code, id)
	}
	return nil
}

// rpcErrors is a dialect as far as errors from here need one: an HTTP status, and an error object of JSON-RPC as body.
func rpcErrors() *ir.Dialect {
	return &ir.Dialect{Name: mcp, AppendError: appendRPCError, Status: func(f *ir.Fault) int { return f.Status }}
}

// Codes of JSON-RPC 2.0, section 5.1.
const (
	rpcInvalid = -32600
	rpcServer  = -32000 // the first of those that are left to servers
)

func appendRPCError(dst []byte, f *ir.Fault, trace string) []byte {
	code := rpcServer
	if f.Kind == ir.KindInvalid {
		code = rpcInvalid
	}
	dst = append(dst, `{"jsonrpc":"2.0","id":null,"error":{"code":`...)
	dst = strconv.AppendInt(dst, int64(code), 10)
	dst = rawjson.AppendString(append(dst, `,"message":`...), f.Message)
	dst = rawjson.AppendString(append(dst, `,"data":{"type":`...), f.Kind)
	dst = rawjson.AppendString(append(dst, `,"trace":`...), trace)
	return append(dst, `}}}`...)
}
