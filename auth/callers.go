package auth

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// ErrNoKey says that no request key that is known was shown.
var ErrNoKey = errors.New("invalid or missing request key")

// ErrGroup says that the caller's group is unknown or empty. The caller gets nothing: doubt is refusal.
var ErrGroup = errors.New("the group of this request key has no keys")

// Anonymous is the caller where no request key is configured.
const Anonymous = "(anonymous)"

// Caller is who asks.
type Caller struct {
	Code    string
	Group   string
	Keys    []string // pool keys that the caller may use, when Limited
	Limited bool     // Keys limits the caller; false: the whole pool
	Models  []string // globs that the resolved model must match; empty: any
	Limits

	addresses Addresses
}

// MayAsk reports whether the caller's key may be used from the address. Doubt is refusal.
func (c *Caller) MayAsk(from netip.Addr) bool { return len(c.addresses) == 0 || c.addresses.Has(from) }

// Callers knows the request keys. It never changes: a reload makes a new one.
type Callers struct {
	open   bool
	allow  Addresses
	deny   Addresses
	admin  [sha256.Size]byte // of the admin key; zero = none
	keys   []callerKey
	groups map[string][]string
}

type callerKey struct {
	sum [sha256.Size]byte
	RequestKey
}

func (k *callerKey) expired(now time.Time) bool { return !k.Expires.IsZero() && !now.Before(k.Expires) }

// NewCallers returns the callers of the options. An empty key is never one that can be shown.
func NewCallers(o Options) *Callers {
	c := &Callers{open: len(o.RequestKeys) == 0, allow: o.AllowAddresses, deny: o.DenyAddresses, groups: map[string][]string{}}
	if !o.AdminKey.IsZero() {
		c.admin = sha256.Sum256([]byte(o.AdminKey.Reveal()))
	}
	for _, g := range o.Groups {
		c.groups[g.Name] = g.Keys
	}
	for _, k := range o.RequestKeys {
		if !k.Key.IsZero() {
			c.keys = append(c.keys, callerKey{sha256.Sum256([]byte(k.Key.Reveal())), k})
		}
	}
	return c
}

// MayCome reports whether anybody may ask from the address. One that cannot be told is neither allowed nor clear of the
// denied ones.
func (c *Callers) MayCome(from netip.Addr) bool {
	if len(c.allow)+len(c.deny) == 0 {
		return true
	}
	return from.IsValid() && !c.deny.Has(from) && (len(c.allow) == 0 || c.allow.Has(from))
}

// HasAdmin reports whether an admin key is configured.
func (c *Callers) HasAdmin() bool { return c.admin != [sha256.Size]byte{} }

// SameAdmin reports whether both know the same admin key, or none.
func (c *Callers) SameAdmin(as *Callers) bool { return c.admin == as.admin }

// IsAdmin reports whether the text is the admin key.
func (c *Callers) IsAdmin(text string) bool {
	sum := sha256.Sum256([]byte(text))
	return text != "" && c.HasAdmin() && subtle.ConstantTimeCompare(sum[:], c.admin[:]) == 1
}

// ErrExpired says that a request key is no longer valid.
var ErrExpired = errors.New("the request key has expired")

// ByCode returns the configured caller with the code, as Identify would. Errors: ErrNoKey when there is none, ErrExpired,
// ErrGroup.
func (c *Callers) ByCode(code string, now time.Time) (Caller, error) {
	if c.Open() && (code == "" || code == Anonymous) {
		return Caller{Code: Anonymous}, nil
	}
	for i := range c.keys {
		if k := &c.keys[i]; k.Code == code {
			return c.valid(k, now)
		}
	}
	return Caller{}, ErrNoKey
}

// Open reports whether no request key is configured: then only loopback may ask.
func (c *Callers) Open() bool { return c.open }

// Identify returns the caller of a request: the first of the shown keys that is known. Errors: ErrNoKey, ErrExpired,
// ErrGroup.
func (c *Callers) Identify(h http.Header, query string, now time.Time) (Caller, error) {
	if c.Open() {
		return Caller{Code: Anonymous}, nil
	}
	var found *callerKey
	Shown(h, query, func(text string) {
		if k := c.find(text); k != nil && found == nil {
			found = k
		}
	})
	if found == nil {
		return Caller{}, ErrNoKey
	}
	return c.valid(found, now)
}

// valid is caller of a key that has not expired. The error comes with whose key it is.
func (c *Callers) valid(k *callerKey, now time.Time) (Caller, error) {
	if k.expired(now) {
		return Caller{Code: k.Code, Group: k.Group}, ErrExpired
	}
	return c.caller(k)
}

// caller is who shows the key, with the scope of its group.
func (c *Callers) caller(k *callerKey) (Caller, error) {
	caller := Caller{Code: k.Code, Group: k.Group, Models: k.Models, Limits: k.Limits, addresses: k.Addresses}
	if k.Group == "" {
		return caller, nil
	}
	caller.Keys, caller.Limited = c.groups[k.Group], true
	if len(caller.Keys) == 0 {
		return caller, ErrGroup
	}
	return caller, nil
}

// find compares with every key in constant time: hashes first, so that lengths tell nothing.
func (c *Callers) find(text string) *callerKey {
	if text == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(text))
	var found *callerKey
	for i := range c.keys {
		if subtle.ConstantTimeCompare(sum[:], c.keys[i].sum[:]) == 1 {
			found = &c.keys[i]
		}
	}
	return found
}

// ProxyKeyHeader is the header that carries a request key where the others carry the client's own credential.
const ProxyKeyHeader = "X-Proxy-Key"

// Shown calls each for every credential that a request shows, in the order in which they count.
func Shown(h http.Header, query string, each func(string)) {
	for _, v := range h[ProxyKeyHeader] {
		each(v)
	}
	for _, v := range h["X-Api-Key"] {
		each(v)
	}
	for _, v := range h["Authorization"] {
		if scheme, token, ok := strings.Cut(v, " "); ok && strings.EqualFold(scheme, "Bearer") {
			each(strings.TrimSpace(token))
		}
	}
	for _, v := range h["X-Goog-Api-Key"] {
		each(v)
	}
	if strings.Contains(query, "key=") {
		if q, err := url.ParseQuery(query); err == nil {
			for _, v := range q["key"] {
				each(v)
			}
		}
	}
}

// MayUse reports whether the caller's list allows the model.
func (c Caller) MayUse(model string) bool {
	if len(c.Models) == 0 {
		return true
	}
	for _, p := range c.Models {
		if matchGlob(p, model) {
			return true
		}
	}
	return false
}

// matchGlob reports whether name is pattern, in which each * stands for any text.
func matchGlob(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == name
	}
	rest, ok := strings.CutPrefix(name, parts[0])
	if !ok {
		return false
	}
	for _, p := range parts[1 : len(parts)-1] {
		i := strings.Index(rest, p)
		if i < 0 {
			return false
		}
		rest = rest[i+len(p):]
	}
	return strings.HasSuffix(rest, parts[len(parts)-1])
}

// Known reports whether the text is a request key, whoever's, or the admin key.
func (c *Callers) Known(text string) bool { return c.find(text) != nil || c.IsAdmin(text) }
