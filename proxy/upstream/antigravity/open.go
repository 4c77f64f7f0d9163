package antigravity

import (
	"io"
	"net/http"
	"strings"
)

// Open implements upstream.Kind. Where the service answers in an envelope, the answer is taken out of it while it
// arrives; what has none stays byte for byte. The body must have no content encoding any more.
func (p *Provider) Open(resp *http.Response) {
	a := askedOf(resp.Request)
	good := resp.StatusCode >= 200 && resp.StatusCode < 300
	if good && resp.Request != nil {
		p.opt.Token.Served(resp.Request.Header.Get("Authorization"))
	}
	if good {
		p.welcome(resp.Request, a.model)
	}
	if p.opt.GenerativeLanguage || resp.Body == nil || !plain(resp.Header) {
		return
	}
	events := strings.HasPrefix(strings.ToLower(resp.Header.Get("Content-Type")), "text/event-stream")
	o := &opener{src: resp.Body, un: unwrapper{lines: events}}
	o.un.flat = !good && !a.array // an error's array is the stream's form, which was not asked for
	resp.Body = o
	resp.ContentLength = -1
	resp.Header.Del("Content-Length")
}

// plain reports whether a body has no content encoding.
func plain(h http.Header) bool {
	encoding := strings.TrimSpace(h.Get("Content-Encoding"))
	return encoding == "" || strings.EqualFold(encoding, "identity")
}

// welcome takes note of a good answer: the address works, and the account is let in.
func (p *Provider) welcome(req *http.Request, model string) {
	if req != nil {
		p.bases.served(req.URL, model)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused = ""
}

// opener is a body that is taken out of its envelope.
type opener struct {
	src io.ReadCloser
	un  unwrapper

	out  []byte // ready to be read
	base []byte // its memory, from the start
	err  error  // after out
}

// Read implements io.Reader.
func (o *opener) Read(p []byte) (int, error) {
	for len(o.out) == 0 {
		if o.err != nil {
			return 0, o.err
		}
		if len(p) == 0 {
			return 0, nil
		}
		n, err := o.src.Read(p)
		o.base = o.un.write(o.base[:0], p[:n])
		if o.err = err; err != nil {
			o.base = o.un.end(o.base)
		}
		o.out = o.base
	}
	n := copy(p, o.out)
	o.out = o.out[n:]
	return n, nil
}

// Close implements io.Closer.
func (o *opener) Close() error { return o.src.Close() }
