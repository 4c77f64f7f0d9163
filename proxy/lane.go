package proxy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"

	"coding-proxy/pool"
	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
	"coding-proxy/proxy/upstream"
)

// lane is the way of one attempt: to whom, in which dialect, and what goes there. On the raw lane the client's own bytes
// go to a provider that speaks its dialect; on the other the request is encoded anew.
type lane struct {
	up      *upstream.Upstream
	way     *upstream.Endpoint
	dialect *ir.Dialect  // the provider's
	out     *ir.Outgoing // nil on the raw lane
	model   string       // the upstream's name
	owner   string       // whose opaque state may go there, and is in the answer

	path, query string
	parts       [][]byte // of the raw lane's body
}

// raw reports whether nothing is converted.
func (l *lane) raw() bool { return l.out == nil }

// lane finds the way of an attempt. forget takes out all opaque state, because the provider has refused some. Errors:
// *ir.RefusedError and *Error say that the request cannot go this way.
func (f *failover) lane(ctx context.Context, c *call, lease *pool.Lease, forget bool) (*lane, error) {
	l := &lane{up: f.p.upstream(c, lease.Key), model: lease.UpstreamModel}
	l.way = l.up.Endpoint(c.dialect.Name)
	for _, name := range c.want.Speaks {
		if l.up.Speaks(name) && !l.up.Speaks(c.dialect.Name) {
			l.way = l.up.Endpoint(name)
			break
		}
	}
	if kind := l.up.Kind(); kind != nil && c.Route.speaks == "" {
		protocol, name, fault := kind.Choose(ctx, c.dialect.Name, l.model)
		if fault != nil {
			return nil, &unsentError{fault}
		}
		l.way, l.model = l.up.Endpoint(protocol), name
	}
	l.dialect = f.p.dialects[l.way.Protocol]
	c.lost = nil
	if c.Route.speaks != "" || l.dialect == c.dialect {
		return l, f.rawLane(c, l, forget)
	}
	if l.up.Passthrough() {
		return nil, ir.Refuse("", "the key passes on the client's own credential, which is another provider's")
	}
	asked, err := c.canonical()
	if err != nil {
		return nil, err
	}
	if l.owner = ownerOf(l.dialect.Name, lease, l.model); forget {
		l.owner = ownerOf("nobody", lease, l.model)
	}
	lost := len(asked.Lost)
	l.out, err = l.dialect.EncodeRequest(asked, ir.Target{Model: l.model, Owner: l.owner})
	asked.Lost = asked.Lost[:lost:lost] // what one target cannot say another may
	if err != nil {
		return nil, err
	}
	if err := l.dropFields(); err != nil {
		return nil, err
	}
	l.owner = ownerOf(l.dialect.Name, lease, l.model)
	l.path, l.query, c.lost = l.out.Path, l.out.Query, l.out.Lost
	return l, nil
}

// dropFields takes out of a converted body what the upstream refuses.
func (l *lane) dropFields() error {
	drop := l.up.DropFields()
	if len(drop) == 0 {
		return nil
	}
	edits, err := rawjson.Remove(l.out.Body, drop)
	if err == nil && len(edits) > 0 {
		l.out.Body = bytes.Join(rawjson.Splice(l.out.Body, edits...), nil)
	}
	return err
}

// ownerOf names who made opaque state: it is bound to the provider and the model (facts/protocols.md, 4.3 and 5.4).
func ownerOf(dialect string, lease *pool.Lease, model string) string {
	sum := sha256.Sum256([]byte(dialect + "\x00" + lease.Provider + "\x00" + model))
	return hex.EncodeToString(sum[:6])
}

// rawLane prepares the client's own bytes: the model's value is replaced, and in a history that crossed providers the
// marks of the others are taken out (design/routing.md, section 10).
func (f *failover) rawLane(c *call, l *lane, forget bool) error {
	l.path, l.query = c.Path, cleanQuery(c.in.URL.RawQuery)
	if c.Route.action != "" && l.model != c.model {
		l.path = c.Route.withModel(l.model)
	}
	if c.body == nil {
		return nil
	}
	body := c.body.bytes
	mended, removed, err := c.mend(l.dialect, forget)
	if err != nil {
		return badRequest("the request body is not what this endpoint takes")
	}
	at := c.modelAt
	if mended != nil {
		body, c.lost = mended, removed
		at, err = modelField(mended)
	}
	if err == nil {
		l.parts, err = c.parts(body, at, l.model, l.up.DropFields())
	}
	if err != nil {
		return badRequest("the request body is not a JSON object")
	}
	return nil
}

// mend takes foreign opaque state out of the body where there may be some; nil where the body stays as it is.
func (c *call) mend(d *ir.Dialect, all bool) (body []byte, removed []string, err error) {
	if d.Raw.Repair == nil || c.Route.speaks != "" {
		return nil, nil, nil
	}
	how, mixed := ir.RepairSealed, c.p.pool.Mixed(c.want.Session)
	switch {
	case all:
		how = ir.RepairAll
	case mixed == pool.MixedRefused:
		how = ir.RepairClosed
	case mixed == pool.MixedNever && !bytes.Contains(c.body.bytes, []byte(ir.SealPrefix)):
		return nil, nil, nil
	}
	return d.Raw.Repair(c.body.bytes, how)
}

// modelField finds the model in a body that has been changed.
func modelField(body []byte) (at rawjson.Field, err error) {
	err = rawjson.Walk(body, func(key []byte, f rawjson.Field) error {
		if string(key) == "model" {
			at = f
		}
		return nil
	})
	return at, err
}

// canonical decodes the request, once.
func (c *call) canonical() (*ir.Request, error) {
	if c.asked == nil && c.refused == nil {
		c.asked, c.refused = c.decode(bytes.Clone(c.body.bytes)) // it outlives the body's buffer
	}
	return c.asked, c.refused
}

func (c *call) decode(body []byte) (*ir.Request, error) {
	if err := rawjson.Valid(body); err != nil {
		return nil, badRequest("the request body is not JSON: %s", strings.TrimPrefix(err.Error(), "invalid JSON: "))
	}
	in := ir.Incoming{Body: body, Stream: c.stream}
	if c.Route.action != "" {
		in.Model = c.model
	}
	asked, err := c.dialect.DecodeRequest(in)
	if err != nil {
		return nil, err
	}
	asked.Stream = c.stream
	if c.dialect.Forgets {
		c.p.recall.restore(c.Caller.Code, asked)
	}
	if c.dialect.CallsCarry {
		uncarry(asked)
	}
	return asked, nil
}

// request builds an attempt's request. Its body can be had again (GetBody), so that the Transport may replay what
// was never processed.
func (f *failover) request(ctx context.Context, c *call, l *lane, header, own http.Header) *http.Request {
	h := f.header(c, l, header)
	if l.up.Passthrough() {
		maps.Copy(h, own)
	} else {
		dropAccount(h)
	}
	l.up.SetHeaders(h, l.way)
	u := l.up.URL(l.way, l.path, l.query)
	req := f.p.blank.WithContext(ctx)
	req.Method, req.URL, req.Host, req.Header = c.in.Method, u, u.Host, h
	req.Proto, req.ProtoMajor, req.ProtoMinor = "HTTP/1.1", 1, 1
	switch length := size(l.parts); {
	case !l.raw():
		req.ContentLength = int64(len(l.out.Body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(l.out.Body)), nil }
	case length == 0:
		return req
	case length <= smallBody:
		// The Transport sends a reader that it knows together with the header, in one write. This copy is nobody
		// else's, so no one needs to know when it was read.
		small := bytes.Join(l.parts, nil)
		req.ContentLength = length
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(small)), nil }
	default:
		req.ContentLength = length
		req.GetBody = func() (io.ReadCloser, error) { return c.body.reader(l.parts), nil }
	}
	req.Body, _ = req.GetBody() // neither can fail
	return req
}

// smallBody is up to which size copying a body costs less than sending it apart from its header.
const smallBody = 32 << 10

// header returns the header of an attempt: the client's where its dialect is spoken, else the little that means the
// same to everybody.
func (f *failover) header(c *call, l *lane, header http.Header) http.Header {
	if l.raw() {
		return maps.Clone(header)
	}
	h := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}}
	if c.stream {
		h["Accept"] = []string{"text/event-stream"}
	}
	for _, name := range [...]string{"User-Agent", "Accept-Language"} {
		if v := header[name]; len(v) > 0 {
			h[name] = v
		}
	}
	for _, v := range l.out.Headers {
		h.Set(v[0], v[1])
	}
	return h
}

// cannotGo reports whether an error says that the request cannot go one way, while it may go another.
func cannotGo(err error) bool {
	var refused *ir.RefusedError
	return errors.As(err, &refused)
}
