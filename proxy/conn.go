package proxy

import (
	"context"
	"io"
	"net"
)

// directConn is a connection to an upstream without TLS. A large body goes from the buffer that holds it to the
// kernel in one writev(2), where io.Copy would take it through a buffer of its own in pieces.
type directConn struct{ *net.TCPConn }

// ReadFrom is what the Transport sends a body with, its length as the limit.
func (c directConn) ReadFrom(r io.Reader) (int64, error) {
	if l, ok := r.(*io.LimitedReader); ok {
		if p, ok := l.R.(*pieces); ok {
			n, err := p.writeTo(c.TCPConn, l.N)
			l.N -= n
			return n, err
		}
	}
	return c.TCPConn.ReadFrom(r)
}

// writeTo sends what is left of the body, if that is limit bytes. The buffer is not given back before it has returned.
func (p *pieces) writeTo(w io.Writer, limit int64) (int64, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return 0, errClosedBody
	}
	var rest net.Buffers
	for i := p.part; i < len(p.parts); i++ {
		rest = append(rest, p.parts[i])
	}
	if len(rest) > 0 {
		rest[0] = rest[0][p.offset:]
	}
	if size(rest) != limit {
		p.mu.Unlock()
		return io.Copy(w, io.LimitReader(struct{ io.Reader }{p}, limit))
	}
	p.part, p.offset = len(p.parts), 0
	p.from.refs.Add(1)
	p.mu.Unlock()
	defer p.from.release()
	return rest.WriteTo(w)
}

// dialer returns a DialContext that dials so.
func dialer(d *net.Dialer) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := d.DialContext(ctx, network, address)
		if t, ok := c.(*net.TCPConn); ok && err == nil {
			return directConn{t}, nil
		}
		return c, err
	}
}
