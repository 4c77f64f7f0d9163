package upstream

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"coding-proxy/auth/oauth"
	"coding-proxy/proxy/ir"
)

// Kind is what a provider needs beyond an address and a key: tokens that are exchanged, hosts that move, envelopes. One
// serves all requests of a key.
type Kind interface {
	// Choose says in which dialect a model is asked for a client's one, and under which name. A fault says that there is no
	// way.
	Choose(ctx context.Context, dialect, model string) (protocol, name string, f *ir.Fault)
	// Sign makes req the provider's: address, credential, headers, envelope. It comes with the dialect's own path and query,
	// e.g. /v1/messages, without a host; its body can be had again (GetBody). try counts from 0 how often Again has asked for more.
	// A fault says why nothing can be sent.
	Sign(req *http.Request, try int) *ir.Fault
	// Again says whether a refused request is worth another try with the same key: its token was dropped, or another host is
	// left. f is what Fault of the dialect made of the answer.
	Again(req *http.Request, try int, f *ir.Fault) bool
	// Open takes the provider's envelope off an answer, also off an error.
	Open(resp *http.Response)
}

// Env is what kinds need of the house.
type Env struct {
	Transport func(outbound string) http.RoundTripper // for calls beside the requests
	Accounts  *oauth.Manager
	Now       func() time.Time
	Version   string // of this program
}

// Kind is what the provider needs beyond an address and a key; nil: nothing.
func (u *Upstream) Kind() Kind { return u.kind }

// Reset forgets what the key's sign-in has found out and failed at.
func (u *Upstream) Reset() {
	if k, ok := u.kind.(interface{ Reset() }); ok {
		k.Reset()
	}
}

// Renews is Again of the key's Kind, for who knows no more of an answer than its status.
func (u *Upstream) Renews(req *http.Request, try, status int) bool {
	return u.kind != nil && u.kind.Again(req, try, &ir.Fault{Status: status})
}

// Proxy is the outbound proxy, as Options has it.
func (u *Upstream) Proxy() string { return u.opt.Proxy.Reveal() }

// Sign makes a request the provider's, where there is a Kind. What is configured for the key is in it already and stays.
func (u *Upstream) Sign(req *http.Request, try int) *ir.Fault {
	if u.kind == nil {
		return nil
	}
	f := u.kind.Sign(req, try)
	if _, token, ok := strings.Cut(req.Header.Get("Authorization"), " "); f == nil && ok {
		u.shown.add(token)
	}
	for name, v := range u.opt.Headers {
		if !strings.EqualFold(name, betaHeader) {
			req.Header.Set(name, v.Reveal())
		}
	}
	return f
}

// recent are the newest credentials that were shown, so that answers that repeat one can be masked.
type recent struct{ list atomic.Pointer[[][]byte] }

// mostShown is how many of them are remembered: those of requests that are still in flight.
const mostShown = 4

func (r *recent) add(token string) {
	for {
		old := r.list.Load()
		var list [][]byte
		if old != nil {
			list = *old
		}
		if len(token) < minSecret || slices.ContainsFunc(list, func(b []byte) bool { return string(b) == token }) {
			return
		}
		next := append([][]byte{[]byte(token)}, list[:min(len(list), mostShown-1)]...)
		if r.list.CompareAndSwap(old, &next) {
			return
		}
	}
}

// hidden are all secrets that an answer may not repeat.
func (u *Upstream) hidden() [][]byte {
	if shown := u.shown.list.Load(); shown != nil {
		return append(slices.Clip(u.secrets), *shown...)
	}
	return u.secrets
}
