package upstream

import (
	"bytes"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
)

// minSecret is the shortest credential that Mask looks for: shorter ones would hit ordinary text.
const minSecret = 8

// Upstream builds requests to one provider with one credential. It never changes.
type Upstream struct {
	opt        Options
	dropFields map[string]bool
	dropBetas  map[string]bool
	secrets    [][]byte
}

// New returns the upstream of a key.
func New(o Options) *Upstream {
	o.HeaderName = textproto.CanonicalMIMEHeaderKey(o.HeaderName)
	u := &Upstream{opt: o, dropFields: set(o.DropFields), dropBetas: set(o.DropBetas)}
	if s := o.APIKey.Reveal(); len(s) >= minSecret {
		u.secrets = append(u.secrets, []byte(s))
	}
	for name, v := range o.Headers {
		if s := v.Reveal(); len(s) >= minSecret && holdsSecret(name) {
			u.secrets = append(u.secrets, []byte(s))
		}
	}
	// One secret may hold another: the longer one goes first.
	slices.SortFunc(u.secrets, func(a, b []byte) int { return len(b) - len(a) })
	return u
}

// holdsSecret reports whether a configured header may hold key material: all but those whose values are public.
func holdsSecret(name string) bool {
	switch strings.ToLower(name) {
	case "accept", "accept-language", "anthropic-beta", "anthropic-version", "content-type", "user-agent", "x-app":
		return false
	}
	return true
}

func set(names []string) map[string]bool {
	if len(names) == 0 {
		return nil
	}
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}

// Passthrough reports whether the client's own credential goes on.
func (u *Upstream) Passthrough() bool { return u.opt.Passthrough }

// DropFields are the top-level body fields to leave out, nil for none.
func (u *Upstream) DropFields() map[string]bool { return u.dropFields }

// URL joins the base URL with a request's escaped path and its query. A version segment that both have is not doubled.
func (u *Upstream) URL(path, query string) *url.URL {
	out := *u.opt.BaseURL
	base := strings.TrimSuffix(out.EscapedPath(), "/")
	if i := strings.LastIndexByte(base, '/'); i >= 0 && isVersion(base[i+1:]) && strings.HasPrefix(path, base[i:]+"/") {
		base = base[:i]
	}
	out.Path, out.RawPath = base+path, ""
	if plain, err := url.PathUnescape(out.Path); err == nil && plain != out.Path {
		out.Path, out.RawPath = plain, out.Path
	}
	out.RawQuery = query
	return &out
}

func isVersion(segment string) bool {
	return len(segment) >= 2 && segment[0] == 'v' && segment[1] >= '0' && segment[1] <= '9'
}

// SetHeaders puts the key's credential and configured headers into h, which must hold no credential but the
// client's own for a passthrough key.
func (u *Upstream) SetHeaders(h http.Header) {
	h["Accept-Encoding"] = []string{"identity"}
	if len(u.dropBetas) > 0 {
		u.keepBetas(h)
	}
	for name, v := range u.opt.Headers {
		if strings.EqualFold(name, "anthropic-beta") {
			mergeBetas(h, v.Reveal())
			continue
		}
		h.Set(name, v.Reveal())
	}
	if !u.opt.Passthrough {
		h[u.opt.HeaderName] = []string{u.opt.HeaderPrefix + u.opt.APIKey.Reveal()}
	}
}

const betaHeader = "Anthropic-Beta"

func (u *Upstream) keepBetas(h http.Header) {
	var kept []string
	for _, b := range betas(h) {
		if !u.dropBetas[b] {
			kept = append(kept, b)
		}
	}
	if len(kept) == 0 {
		delete(h, betaHeader)
		return
	}
	h[betaHeader] = []string{strings.Join(kept, ",")}
}

// mergeBetas adds the values that the client did not send.
func mergeBetas(h http.Header, more string) {
	have := betas(h)
	for b := range strings.SplitSeq(more, ",") {
		if b = strings.TrimSpace(b); b != "" && !slices.Contains(have, b) {
			have = append(have, b)
		}
	}
	if len(have) > 0 {
		h[betaHeader] = []string{strings.Join(have, ",")}
	}
}

func betas(h http.Header) []string {
	var out []string
	for _, line := range h[betaHeader] {
		for b := range strings.SplitSeq(line, ",") {
			if b = strings.TrimSpace(b); b != "" {
				out = append(out, b)
			}
		}
	}
	return out
}

// Mask replaces the key's secrets in text of the upstream by ***. What has none comes back as it is.
func (u *Upstream) Mask(b []byte) []byte {
	for _, s := range u.secrets {
		if bytes.Contains(b, s) {
			b = bytes.ReplaceAll(b, s, []byte("***"))
		}
	}
	return b
}

// MaskHeader does the same to header values in place.
func (u *Upstream) MaskHeader(h http.Header) {
	for _, s := range u.secrets {
		text := string(s)
		for name, values := range h {
			for i, v := range values {
				if strings.Contains(v, text) {
					h[name][i] = strings.ReplaceAll(v, text, "***")
				}
			}
		}
	}
}
