package proxy

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"coding-proxy/proxy/upstream"
)

// Answers keeps upstreams' answers as they came, for people who look for a fault in what is counted.
type Answers interface {
	// Begin begins the answer to an attempt, numbered from 1; nil where it cannot be kept. Who writes gives up after an error.
	Begin(trace string, attempt int) io.WriteCloser
}

// KeepAnswers keeps the answers to all requests that begin from now on. It comes before the first request.
func (p *Proxy) KeepAnswers(a Answers) { p.answers = a }

// open undoes an answer's content-encoding and, where answers are kept, begins to keep this one: as it comes from the
// provider, before any envelope is taken off.
func (f *failover) open(c *call, l *lane, resp *http.Response) error {
	encoding := resp.Header.Get("Content-Encoding")
	err := undoEncoding(resp)
	if f.p.answers == nil {
		return err
	}
	file := f.p.answers.Begin(c.Trace, len(c.record.Attempts)+1)
	if file == nil {
		return err
	}
	sent := http.Header(nil)
	if resp.Request != nil {
		sent = resp.Request.Header
	}
	kept := &keptAnswer{ReadCloser: resp.Body, file: file, mask: l.up.Masker(sent)}
	kept.keep(answerHead(resp, encoding))
	resp.Body = kept
	return err
}

// answerHead is the status line and the headers, but those that are credentials or may hold one.
func answerHead(resp *http.Response, encoding string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s\n", resp.Proto, resp.Status)
	for _, name := range slices.Sorted(maps.Keys(resp.Header)) {
		if holdsCredential(name) {
			continue
		}
		for _, v := range resp.Header[name] {
			fmt.Fprintf(&b, "%s: %s\n", name, v)
		}
	}
	if encoding != "" && resp.Header.Get("Content-Encoding") == "" {
		fmt.Fprintf(&b, "Content-Encoding: %s (undone below)\n", encoding)
	}
	b.WriteByte('\n')
	return b.Bytes()
}

// holdsCredential reports whether a header of an answer may hold a cookie or another credential. "Tokens" in a header's name
// are counted ones.
func holdsCredential(name string) bool {
	name = strings.ToLower(name)
	for _, part := range [...]string{"cookie", "auth", "api-key", "apikey", "secret", "credential", "session"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return strings.HasSuffix(name, "token") || name == "location" // whose query may be one
}

// keptAnswer is a body that is written to a file as it is read. A head that is held may be read while it is closed.
type keptAnswer struct {
	io.ReadCloser

	mu   sync.Mutex // guards what follows
	file io.WriteCloser
	mask *upstream.Masker
}

func (k *keptAnswer) Read(p []byte) (int, error) {
	n, err := k.ReadCloser.Read(p)
	k.keep(p[:n])
	return n, err
}

func (k *keptAnswer) Close() error {
	err := k.ReadCloser.Close()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.file != nil {
		_ = k.mask.End(k.write)
		k.end()
	}
	return err
}

func (k *keptAnswer) keep(data []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.file != nil && k.mask.Mask(data, k.write) != nil {
		k.end()
	}
}

func (k *keptAnswer) write(data []byte) error {
	_, err := k.file.Write(data)
	return err
}

// end closes the file. What goes wrong with it is told by whose it is.
func (k *keptAnswer) end() {
	_ = k.file.Close()
	k.file, k.mask = nil, nil
}
