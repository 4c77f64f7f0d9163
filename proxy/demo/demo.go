// Package demo is a simulated Anthropic provider: an http.Handler that is as strict about requests as the real API
// and answers what it was told to, faults included. The `demo` command, tests and benchmarks use it.
package demo

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// maxBody is the API's limit for a request body in bytes.
const maxBody = 32 << 20

// Options describe a provider. The zero value takes any credential and any model.
type Options struct {
	Name            string           // shows in ids, signatures and the default text; empty = "demo"
	Keys            []string         // credentials that are accepted; empty = any, but one must be sent
	Models          []string         // models that exist; empty = any
	CheckSignatures bool             // refuse thinking blocks that a provider of another name has signed
	Now             func() time.Time // nil = time.Now
}

// Provider answers requests in the Anthropic dialect, below any path prefix.
type Provider struct {
	options Options
	log     recorder

	mu     sync.Mutex
	steps  []Step
	always Step
	serial int // last number given out in an id
}

// New returns a provider that answers every request with a short text.
func New(options Options) *Provider {
	if options.Name == "" {
		options.Name = "demo"
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	return &Provider{options: options, log: newRecorder()}
}

// Push queues answers: each valid generate request takes the next one. A refused request takes none.
func (p *Provider) Push(steps ...Step) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.steps = append(p.steps, steps...)
}

// Always sets the answer that requests get when no step is queued.
func (p *Provider) Always(step Step) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.always = step
}

func (p *Provider) next() Step {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.steps) == 0 {
		return p.always
	}
	step := p.steps[0]
	p.steps = p.steps[1:]
	return step
}

// id makes an id in the API's form, e.g. msg_demo00000001. It is unique among providers of different names.
func (p *Provider) id(kind string) string {
	p.mu.Lock()
	p.serial++
	serial := p.serial
	p.mu.Unlock()
	name := strings.Map(func(r rune) rune {
		if isIDRune(r) {
			return r
		}
		return -1
	}, p.options.Name)
	return fmt.Sprintf("%s_%s%08d", kind, name, serial)
}

// ServeHTTP answers one request and remembers it.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	entry := p.log.begin(r, p.options.Now())
	end := CutByClient
	defer func() { p.log.finish(entry, end) }() // also when a step aborts the connection

	a := &answer{w: w, r: r, requestID: p.id("req"), end: &end}
	w.Header().Set("request-id", a.requestID)
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	p.log.setBody(entry, body)
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		a.refuse(refuse(http.StatusRequestEntityTooLarge, "Request exceeds the maximum size"))
		return
	}
	if err != nil {
		return // the client went away while it was sending
	}
	if refusal := p.checkHead(r.Header); refusal != nil {
		a.refuse(refusal)
		return
	}
	p.route(a, body)
}

func (p *Provider) route(a *answer, body []byte) {
	path, method := a.r.URL.Path, a.r.Method
	_, model, isModel := cutLast(path, "/v1/models/")
	switch {
	case method == http.MethodPost && strings.HasSuffix(path, "/v1/messages"):
		p.generate(a, body)
	case method == http.MethodPost && strings.HasSuffix(path, "/v1/messages/count_tokens"):
		p.countTokens(a, body)
	case method == http.MethodGet && strings.HasSuffix(path, "/v1/models"):
		p.listModels(a)
	case method == http.MethodGet && isModel:
		p.showModel(a, model)
	default:
		a.refuse(refuse(http.StatusNotFound, "Not found"))
	}
}

func (p *Provider) generate(a *answer, body []byte) {
	query, refusal := p.parse(body, a.r.Header, messagesEndpoint)
	if refusal != nil {
		a.refuse(refusal)
		return
	}
	a.step, a.query = p.next(), query
	a.give(p.events(a.step, query))
}

func (p *Provider) countTokens(a *answer, body []byte) {
	if _, refusal := p.parse(body, a.r.Header, countEndpoint); refusal != nil {
		a.refuse(refusal)
		return
	}
	a.json(http.StatusOK, struct {
		InputTokens int `json:"input_tokens"`
	}{tokens(len(body))})
}

// tokens estimates how many tokens so many bytes of text are.
func tokens(bytes int) int { return max(1, bytes/4) }

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
