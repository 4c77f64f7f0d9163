// Package demo is a simulated provider of four dialects: an http.Handler that is as strict about requests as the real
// APIs and answers what it was told to, faults included. The `demo` command, tests and benchmarks use it. It shares
// no code with the product's codecs, because it checks them.
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
	CheckSignatures bool             // refuse reasoning that a provider of another name has signed, or that was changed or moved
	Now             func() time.Time // nil = time.Now

	Dialects         []string // anthropic, openai-chat, openai-responses, gemini; empty = all four
	ReasoningContent bool     // chat takes reasoning_content in assistant messages, as vendors do; OpenAI refuses it
	ReplayReasoning  bool     // chat refuses tool calls without their reasoning_content, as DeepSeek does; implies ReasoningContent
}

// Provider answers requests below any path prefix.
type Provider struct {
	options Options
	log     recorder
	grammar grammars

	mu     sync.Mutex
	steps  []Step
	always Step
	serial int // last number given out in an id
	stored []storedResponse
}

// New returns a provider that answers every request with a short text.
func New(options Options) *Provider {
	if options.Name == "" {
		options.Name = "demo"
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	return &Provider{options: options, log: newRecorder(), grammar: newGrammars()}
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

	a := &answer{w: w, r: r, dialect: p.guess(r), requestID: p.id("req"), end: &end}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	p.log.setBody(entry, body)
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		a.refuse(refuse(http.StatusRequestEntityTooLarge, "Request exceeds the maximum size"))
		return
	}
	if err != nil {
		return // the client went away while it was sending
	}
	p.route(a, body)
}

// tokens estimates how many tokens so many bytes of text are.
func tokens(bytes int) int { return max(1, bytes/4) }
