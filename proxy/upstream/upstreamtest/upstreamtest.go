// Package upstreamtest is one suite for all kinds of providers that need more than a key. It plays the provider on a
// loopback address, counts the exchanges of tokens, refuses tokens and lets them end, and sends requests as the proxy does.
// It knows no kind. It is imported from tests alone.
package upstreamtest

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"coding-proxy/proxy/ir"
)

// Kind is upstream.Kind. It is repeated here so that a kind's own tests can import this package.
type Kind interface {
	Choose(ctx context.Context, dialect, model string) (protocol, name string, f *ir.Fault)
	Sign(req *http.Request, try int) *ir.Fault
	Again(req *http.Request, try int, f *ir.Fault) bool
	Open(resp *http.Response)
}

// Env is what a kind is built upon.
type Env struct {
	URL  string // of the server: tokens, side calls and answers all come from there
	Now  func() time.Time
	HTTP func() http.RoundTripper
}

// Case says what the suite must know of a kind.
type Case struct {
	// New returns a kind whose every request goes to env.URL.
	New func(t *testing.T, env Env) Kind

	// IsExchange reports whether a request asks for a token.
	IsExchange func(r *http.Request) bool
	// Grant is the body of the answer to the nth exchange, from 1 on. The token must be a different text each time, of at
	// least 8 characters, and live no longer than Life.
	Grant func(n int) (token, body string)
	// Life is after which time a token is surely over.
	Life time.Duration
	// Refused is the answer to an exchange that says that the credential is of no use any more. Where %s stands in the body
	// the provider repeats the first of Secrets.
	Refused Refusal

	// Aside answers a side call (a catalogue, a project) and reports whether it was one. nil: there are none. They must
	// carry the token, too: the suite checks that.
	Aside func(w http.ResponseWriter, r *http.Request) bool

	// Secrets are what must go to nobody but the exchange: refresh token, client secret.
	Secrets []string
	// Requests are what the proxy hands in, at least one.
	Requests []Request
	// Sent checks the body that has arrived for a request; nil: it must be the request's own, byte for byte.
	Sent func(t *testing.T, asked Request, body []byte)
	// Answer is a good answer as it comes, Plain as Open leaves it; both "" = {"ok":true}.
	Answer, Plain string
	// Moves are statuses besides 401, 403 and 421 after which another host may be tried. After all others Again must not
	// ask for more.
	Moves []int
	// Diagnose returns what people are told of a kind, for the search for secrets; nil: nothing is.
	Diagnose func(k Kind) any
}

// Refusal is an answer that is none.
type Refusal struct {
	Status int
	Body   string
}

// Request is what the proxy hands in.
type Request struct {
	Name    string // of the subtest
	Dialect string // the client's
	Model   string // as the client calls it
	Method  string // "" = POST
	Path    string // of the dialect that Choose must name
	Query   string
	Body    string
	// Speaks is the dialect that Choose must name; "" = Dialect.
	Speaks string
}

// Run runs the suite.
func Run(t *testing.T, c Case) {
	t.Helper()
	if len(c.Requests) == 0 || len(c.Secrets) == 0 || c.New == nil || c.Grant == nil || c.IsExchange == nil || c.Life <= 0 {
		t.Fatal("upstreamtest: the case lacks something")
	}
	if c.Answer == "" {
		c.Answer, c.Plain = `{"ok":true}`, `{"ok":true}`
	}
	for _, test := range []struct {
		name string
		run  func(t *testing.T, c Case)
	}{
		{"what is sent", testSent},
		{"one token serves many requests", testReuse},
		{"a token that is over", testExpired},
		{"a token that is refused is exchanged once", testRefusedToken},
		{"a key that is refused for good", testRefusedKey},
		{"faults that another token does not heal", testVerdicts},
		{"an exchange that fails heals", testExchangeFails},
		{"a credential that is refused", testRefusedCredential},
		{"a request that is cancelled while tokens are exchanged", testCancel},
		{"500 requests at a token that is over", testCrowd},
		{"500 requests whose token is refused", testRefusedCrowd},
		{"the credential shows nowhere", testSecrets},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, c) })
	}
}

// clock is moved by hand.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}
