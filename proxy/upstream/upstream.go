package upstream

import (
	"bytes"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"coding-proxy/auth"
)

// minSecret is the shortest credential that Mask looks for: shorter ones would hit ordinary text.
const minSecret = 8

// Upstream builds requests to one provider with one credential. Only what a Kind keeps of its own changes.
type Upstream struct {
	opt        Options
	kind       Kind       // nil: an address and a key are enough
	shown      recent     // credentials that the kind has shown
	endpoints  []Endpoint // in the order of Protocols, header names canonical
	dropFields map[string]bool
	dropBetas  map[string]bool
	secrets    [][]byte
}

// New returns the upstream of a key.
func New(o Options, e Env) *Upstream {
	u := &Upstream{kind: newKind(o, e), opt: o, endpoints: canonical(o.Endpoints), dropFields: set(o.DropFields), dropBetas: set(o.DropBetas)}
	for _, s := range []auth.Secret{o.APIKey, o.Antigravity.ClientSecret} {
		if s := s.Reveal(); len(s) >= minSecret {
			u.secrets = append(u.secrets, forms(s)...)
		}
	}
	for name, v := range o.Headers {
		if s := v.Reveal(); len(s) >= minSecret && holdsSecret(name) {
			u.secrets = append(u.secrets, forms(s)...)
		}
	}
	// One secret may hold another: the longer one goes first.
	slices.SortFunc(u.secrets, func(a, b []byte) int { return len(b) - len(a) })
	return u
}

func canonical(endpoints []Endpoint) []Endpoint {
	out := slices.Clone(endpoints)
	for i := range out {
		out[i].HeaderName = textproto.CanonicalMIMEHeaderKey(out[i].HeaderName)
	}
	return out
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

// Speaks reports whether the provider speaks a dialect itself, so that nothing need be converted.
func (u *Upstream) Speaks(dialect string) bool {
	return slices.ContainsFunc(u.endpoints, func(e Endpoint) bool { return e.Protocol == dialect })
}

// Endpoint is where a client of a dialect is served: where that is spoken, else at the first one.
// It is never nil, and not to be changed.
func (u *Upstream) Endpoint(dialect string) *Endpoint {
	return endpointFor(u.endpoints, dialect)
}

func endpointFor(endpoints []Endpoint, dialect string) *Endpoint {
	for i := range endpoints {
		if endpoints[i].Protocol == dialect {
			return &endpoints[i]
		}
	}
	return &endpoints[0]
}

// URL joins an endpoint's base URL with a request's escaped path and its query. A base that ends in a version, as those
// of OpenAI's kind do, stands for the path's own, whichever that is.
func (u *Upstream) URL(e *Endpoint, path, query string) *url.URL {
	out := url.URL{} // the kind knows the host
	if e.BaseURL != nil {
		out = *e.BaseURL
	}
	base := strings.TrimSuffix(out.EscapedPath(), "/")
	if holdsVersion(base, e.Protocol == OpenAIChat || e.Protocol == OpenAIResponses) {
		path = withoutVersion(path)
	}
	out.Path, out.RawPath = base+path, base+path // RawPath keeps the escapes as they came
	if plain, err := url.PathUnescape(out.RawPath); err == nil {
		out.Path = plain
	}
	out.RawQuery = query
	return &out
}

// holdsVersion reports whether a base path ends in a version, or has one anywhere: bases for OpenAI's clients are complete,
// like https://generativelanguage.googleapis.com/v1beta/openai.
func holdsVersion(base string, anywhere bool) bool {
	segments := strings.Split(base, "/")
	if !anywhere {
		segments = segments[len(segments)-1:]
	}
	return slices.ContainsFunc(segments, isVersion)
}

// withoutVersion leaves a path's first segment out if it is a version and not the whole path.
func withoutVersion(path string) string {
	first, rest, more := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if !more || !isVersion(first) {
		return path
	}
	return "/" + rest
}

// isVersion takes v1, v4, v1beta, v1.1; a colon, as in v1internal:generateContent, makes it a call.
func isVersion(segment string) bool {
	if len(segment) < 2 || segment[0] != 'v' || segment[1] < '0' || segment[1] > '9' {
		return false
	}
	return strings.Trim(segment, "abcdefghijklmnopqrstuvwxyz0123456789.") == ""
}

// SetHeaders puts the key's credential for an endpoint and its configured headers into h, which must hold no credential
// but the client's own for a passthrough key.
func (u *Upstream) SetHeaders(h http.Header, e *Endpoint) {
	h["Accept-Encoding"] = []string{"identity"}
	merges := e.Protocol == Anthropic // elsewhere anthropic-beta is a header like any other
	if merges && len(u.dropBetas) > 0 {
		u.keepBetas(h)
	}
	for name, v := range u.opt.Headers {
		if merges && strings.EqualFold(name, betaHeader) {
			mergeBetas(h, v.Reveal())
			continue
		}
		h.Set(name, v.Reveal())
	}
	if !u.opt.Passthrough && e.HeaderName != "" && u.kind == nil {
		h[e.HeaderName] = []string{e.HeaderPrefix + u.opt.APIKey.Reveal()}
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
	for _, s := range u.hidden() {
		if bytes.Contains(b, s) {
			b = bytes.ReplaceAll(b, s, []byte("***"))
		}
	}
	return b
}

// MaskHeader does the same to header values in place.
func (u *Upstream) MaskHeader(h http.Header) {
	for _, s := range u.hidden() {
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
