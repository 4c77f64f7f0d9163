package proxy

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"coding-proxy/proxy/ir"
	"coding-proxy/stats"
)

// replay gives the client the error that is left when no key could answer.
func (f *failover) replay(c *call, a *answer) (*http.Response, error) {
	c.releaseBody()
	if a == nil {
		return nil, &Error{Status: http.StatusBadGateway, Type: ir.KindAPI, Message: "no upstream could be tried"}
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
	f.dress(c, nil, header, len(c.record.Attempts))
	c.record.ErrorType = closedWord(a.fault)
	c.record.ResponseBytes = int64(len(a.body))
	c.record.Dropped = c.lost
	c.finish(stats.OutcomeError, a.fault.Status)
	return &http.Response{
		StatusCode: a.fault.Status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header,
		Body: io.NopCloser(bytes.NewReader(a.body)), ContentLength: int64(len(a.body)), Request: c.in,
	}, nil
}

// dress makes an upstream's headers the client's. l is nil for an answer that is not relayed.
func (f *failover) dress(c *call, l *lane, h http.Header, attempts int) {
	cleanAnswer(h)
	if l != nil && !l.raw() {
		f.foreign(h)
	}
	h[traceHeader] = []string{c.Trace}
	h[tierHeader] = []string{printable(c.record.Tier)}
	h[attemptsHeader] = []string{strconv.Itoa(attempts)}
	if len(c.lost) > 0 {
		h[droppedHeader] = []string{droppedText(c.lost)}
	}
}

// droppedText names what a conversion lost, in printable ASCII of at most 1 KiB.
func droppedText(lost []string) string {
	var b strings.Builder
	for _, name := range lost {
		name = strings.ReplaceAll(printable(name), ",", "?")
		if b.Len()+1+len(name) > 1<<10 {
			break
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(name)
	}
	return b.String()
}

// foreign keeps of the header of an answer that is converted what means the same in every dialect.
func (f *failover) foreign(h http.Header) {
	for name := range h {
		switch {
		case name == "Request-Id", name == "X-Request-Id", name == "Retry-After", name == "Date",
			strings.HasPrefix(name, "Anthropic-Ratelimit-"), strings.HasPrefix(name, "X-Ratelimit-"), strings.HasPrefix(name, "Openai-"):
		default:
			delete(h, name)
		}
	}
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
