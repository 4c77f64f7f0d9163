package upstream

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Masker does what Mask does to a text that comes in pieces. What may be the beginning of a secret waits for the next piece.
type Masker struct {
	secrets [][]byte
	hold    int // how many bytes wait: one less than the longest secret has
	buf     []byte
}

// Masker masks the key's secrets, and the credentials that the request has shown: a passthrough key's are the client's own.
func (u *Upstream) Masker(shown http.Header) *Masker {
	m := &Masker{secrets: slices.Clone(u.hidden())}
	for _, name := range [...]string{"Authorization", "X-Api-Key", "X-Goog-Api-Key"} {
		for _, v := range shown[name] {
			if _, token, ok := strings.Cut(v, " "); ok {
				v = token
			}
			if len(v) >= minSecret {
				m.secrets = append(m.secrets, forms(v)...)
			}
		}
	}
	for _, s := range m.secrets {
		m.hold = max(m.hold, len(s)-1)
	}
	return m
}

// forms are how an answer may write a secret: as it is, as JSON escapes it with and without its slashes, and in an address.
func forms(secret string) (all [][]byte) {
	quoted, _ := json.Marshal(secret) // a string cannot fail
	inJSON := string(quoted[1 : len(quoted)-1])
	for _, s := range [...]string{secret, inJSON, strings.ReplaceAll(secret, "/", `\/`), strings.ReplaceAll(inJSON, "/", `\/`), url.QueryEscape(secret)} {
		if !slices.ContainsFunc(all, func(b []byte) bool { return string(b) == s }) {
			all = append(all, []byte(s))
		}
	}
	return all
}

// Mask takes the next piece and gives out what may go, which is valid until the next call.
func (m *Masker) Mask(piece []byte, write func([]byte) error) error {
	m.buf = append(m.buf, piece...)
	return m.pass(len(m.buf)-m.hold, write)
}

// End gives out what has waited.
func (m *Masker) End(write func([]byte) error) error { return m.pass(len(m.buf), write) }

// pass gives out the first n bytes, and as much more as belongs to a secret that begins in them.
func (m *Masker) pass(n int, write func([]byte) error) (err error) {
	at := 0
	for err == nil && at < n {
		i, length := m.find(m.buf[at:])
		if length == 0 || at+i >= n {
			err = write(m.buf[at:n])
			at = n
			break
		}
		if i > 0 {
			err = write(m.buf[at : at+i])
		}
		if err == nil {
			err = write([]byte("***"))
		}
		at += i + length
	}
	m.buf = m.buf[:copy(m.buf, m.buf[at:])]
	return err
}

// find returns where the first secret of b is and how long it is, of several there the longest; a length of 0 is none.
func (m *Masker) find(b []byte) (first, length int) {
	for _, s := range m.secrets {
		in := b
		if length > 0 { // one that begins later does not count
			in = b[:min(len(b), first+len(s))]
		}
		i := bytes.Index(in, s)
		if i >= 0 && (length == 0 || i < first || i == first && len(s) > length) {
			first, length = i, len(s)
		}
	}
	return first, length
}
