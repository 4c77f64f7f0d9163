package demo

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// copilotExchange is the path at which a GitHub token is exchanged.
const copilotExchange = "/copilot_internal/v2/token"

// CopilotModel is an entry of the account's list.
type CopilotModel struct {
	ID        string
	Endpoints []string // /chat/completions, /v1/messages, /responses; nil = the list does not say, and all three serve it
	Disabled  bool     // by the account's policy
}

// CopilotOptions describe the simulated GitHub. The zero value takes any ghu_ and gho_ token.
type CopilotOptions struct {
	Answers      Options        // of the provider behind it; its Models are the list's
	GitHubTokens []string       // that can be exchanged; empty = any ghu_…
	Models       []CopilotModel // nil = one for each endpoint
	Life         time.Duration  // of tokens; 0 = 30 minutes
	OtherShape   bool           // the exchange answers access_token and expires_in
	NoEndpoint   bool           // it does not name endpoints.api
	SKU          string
}

// Copilot simulates api.github.com's exchange and the Copilot API, which are one address here. It is strict about what the
// API demands of headers, and misbehaves on command. Answers are those of Provider.
type Copilot struct {
	*Provider // the answers: Push, Always. Its Requests are those that were served
	options   CopilotOptions
	log       recorder

	mu         sync.Mutex
	models     []CopilotModel
	tokens     map[string]time.Time // given out, with their ends
	exchanges  int
	serial     int
	failing    CopilotFailure
	flagsOnly  bool
	hold       *Hold
	refusals   []int           // statuses of the next requests to the API
	unknown    map[string]bool // models that are refused until the list is asked for
	complaints []string
}

// CopilotFailure is how exchanges fail.
type CopilotFailure struct {
	Status int // 0 = they do not
	Body   string
	Header http.Header
}

// NewCopilot returns a simulated Copilot.
func NewCopilot(o CopilotOptions) *Copilot {
	if o.Life <= 0 {
		o.Life = 30 * time.Minute
	}
	if o.SKU == "" {
		o.SKU = "simulated_seat"
	}
	if o.Models == nil {
		o.Models = []CopilotModel{
			{ID: "claude-sonnet-4.5", Endpoints: []string{"/chat/completions", "/v1/messages"}},
			{ID: "gpt-5.1-codex", Endpoints: []string{"/responses"}},
			{ID: "gpt-4.1", Endpoints: []string{"/chat/completions"}},
		}
	}
	return &Copilot{Provider: New(o.Answers), options: o, log: newRecorder(), models: o.Models, tokens: map[string]time.Time{}, unknown: map[string]bool{}}
}

// Expire ends all tokens that were given out.
func (c *Copilot) Expire() {
	c.change(func() { clear(c.tokens) })
}

// Refuse answers the next requests to the API with these statuses: 401, 403, 421 (as a host that is the wrong one), …
func (c *Copilot) Refuse(statuses ...int) {
	c.change(func() { c.refusals = append(c.refusals, statuses...) })
}

// Misdirect answers the next n requests to the API with 421.
func (c *Copilot) Misdirect(n int) {
	c.Refuse(slices.Repeat([]int{http.StatusMisdirectedRequest}, n)...)
}

// Unknown refuses a model until the list of models is asked for.
func (c *Copilot) Unknown(model string) { c.change(func() { c.unknown[model] = true }) }

// SetModels replaces the list of models.
func (c *Copilot) SetModels(models ...CopilotModel) { c.change(func() { c.models = models }) }

// FailExchange lets exchanges fail until it is called with the zero failure.
func (c *Copilot) FailExchange(f CopilotFailure) { c.change(func() { c.failing = f }) }

// FlagsOnly lets exchanges name the account's abilities and no token.
func (c *Copilot) FlagsOnly(on bool) { c.change(func() { c.flagsOnly = on }) }

// HoldExchange lets exchanges wait; nil: no longer.
func (c *Copilot) HoldExchange(h *Hold) { c.change(func() { c.hold = h }) }

// Exchanges is how many exchanges came.
func (c *Copilot) Exchanges() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.exchanges
}

// Complaints are what was wrong with headers of requests, the oldest first.
func (c *Copilot) Complaints() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.complaints)
}

// Arrived returns all that came, exchanges and refused requests too.
func (c *Copilot) Arrived() []Request { return c.log.list() }

// WaitArrived blocks until n requests of all kinds have ended, or ctx is done.
func (c *Copilot) WaitArrived(ctx context.Context, n int) error { return c.log.wait(ctx, n) }

func (c *Copilot) change(what func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	what()
}

// ServeHTTP answers one request and remembers it.
func (c *Copilot) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	entry := c.log.begin(r, c.Provider.options.Now())
	end := CutByClient
	defer func() { c.log.finish(entry, end) }()

	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	c.log.setBody(entry, body)
	a := &answer{w: w, r: r, dialect: copilotDialect(r.URL.Path), requestID: c.id("req"), end: &end}
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		a.refuse(refuse(http.StatusRequestEntityTooLarge, "failed to parse request"))
		return
	}
	if err != nil {
		return // the client went away
	}
	if strings.HasSuffix(r.URL.Path, copilotExchange) {
		c.exchange(a)
		return
	}
	c.api(a, body)
}

// copilotDialect is the dialect of the API's endpoints; errors of the others are OpenAI's.
func copilotDialect(path string) string {
	switch {
	case strings.HasSuffix(path, "/v1/messages"):
		return anthropic
	case strings.HasSuffix(path, "/responses"):
		return openAIResponses
	}
	return openAIChat
}

// api answers a request to the API.
func (c *Copilot) api(a *answer, body []byte) {
	if status := c.nextRefusal(); status != 0 {
		a.plainly(status, strings.ToLower(http.StatusText(status)))
		return
	}
	if !c.admits(a) {
		return
	}
	endpoint := copilotEndpoint(a.r.URL.Path)
	var refusal *refusal
	switch {
	case a.r.Method == http.MethodGet && endpoint == "/models":
		c.list(a)
		return
	case a.r.Method != http.MethodPost || endpoint == "":
		a.plainly(http.StatusNotFound, "404 page not found")
		return
	case endpoint != "/embeddings":
		if refusal = c.checkTurn(a.r.Header, a.dialect, body); refusal == nil {
			refusal = c.checkModel(endpoint, body)
		}
	}
	if refusal != nil {
		a.refuse(refusal)
		return
	}
	a.r.Body = io.NopCloser(bytes.NewReader(body))
	*a.end = CutByStep
	c.Provider.ServeHTTP(a.w, a.r)
	*a.end = Completed
}

// copilotEndpoint is the path below the API's base: no version stands before it, but for Anthropic's.
func copilotEndpoint(path string) string {
	for _, e := range []string{"/chat/completions", "/v1/messages", "/responses", "/models", "/embeddings"} {
		if before, found := strings.CutSuffix(path, e); found && !strings.HasSuffix(before, "/v1") {
			return e
		}
	}
	return ""
}

func (c *Copilot) nextRefusal() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.refusals) == 0 {
		return 0
	}
	status := c.refusals[0]
	c.refusals = c.refusals[1:]
	return status
}

// admits checks the token and what every request must say of its sender.
func (c *Copilot) admits(a *answer) bool {
	values := a.r.Header.Values("Authorization")
	token := ""
	if len(values) == 1 {
		token, _ = strings.CutPrefix(values[0], "Bearer ")
	}
	if token == "" {
		c.complain(a.r, "no bearer token")
		a.plainly(http.StatusBadRequest, "bad request: Authorization header is badly formatted")
		return false
	}
	if !c.knows(token) {
		a.plainly(http.StatusUnauthorized, "unauthorized: token expired")
		return false
	}
	if flaw := copilotHeaderFlaw(a.r); flaw != "" {
		c.complain(a.r, flaw)
		a.plainly(http.StatusBadRequest, "bad request: "+flaw)
		return false
	}
	return true
}

// knows reports whether a token is good now: it was given out, or it is one that is shown itself.
func (c *Copilot) knows(token string) bool {
	if strings.HasPrefix(token, "gho_") {
		return c.takes(token)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	end, ok := c.tokens[token]
	return ok && c.Provider.options.Now().Before(end)
}

// takes reports whether a GitHub token is of an account that is known.
func (c *Copilot) takes(token string) bool {
	if len(c.options.GitHubTokens) > 0 {
		return slices.Contains(c.options.GitHubTokens, token)
	}
	return strings.HasPrefix(token, "ghu_") || strings.HasPrefix(token, "gho_")
}

func (c *Copilot) complain(r *http.Request, what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.complaints) < keptRequests {
		c.complaints = append(c.complaints, r.Method+" "+r.URL.Path+": "+what)
	}
}

// exchange answers with a token.
func (c *Copilot) exchange(a *answer) {
	c.mu.Lock()
	c.exchanges++
	hold, failing, flagsOnly := c.hold, c.failing, c.flagsOnly
	c.mu.Unlock()
	if hold != nil && !hold.wait(a.r.Context().Done()) {
		return
	}
	gitHub, ok := strings.CutPrefix(a.r.Header.Get("Authorization"), "token ")
	flaw := copilotSenderFlaw(a.r)
	switch {
	case failing.Status != 0:
		for name, values := range failing.Header {
			a.w.Header()[http.CanonicalHeaderKey(name)] = values
		}
		a.body(failing.Status, "application/json", []byte(failing.Body))
	case a.r.Method != http.MethodGet || flaw != "":
		c.complain(a.r, flaw)
		a.json(http.StatusBadRequest, map[string]string{"message": "Bad request: " + flaw})
	case !ok || !c.takes(gitHub):
		a.json(http.StatusUnauthorized, map[string]string{"message": "Bad credentials", "status": "401"})
	case strings.HasPrefix(gitHub, "gho_"):
		a.json(http.StatusNotFound, map[string]string{"message": "Not Found", "status": "404"})
	case flagsOnly:
		a.json(http.StatusForbidden, map[string]bool{"chat_enabled": false, "code_quote_enabled": true})
	default:
		a.json(http.StatusOK, c.grant(a.r.Host))
	}
}

type copilotGrant struct {
	Token       string `json:"token,omitempty"`
	ExpiresAt   int64  `json:"expires_at,omitempty"`
	RefreshIn   int    `json:"refresh_in,omitempty"`
	AccessToken string `json:"access_token,omitempty"`
	ExpiresIn   int    `json:"expires_in,omitempty"`
	SKU         string `json:"sku"`
	Chat        bool   `json:"chat_enabled"`
	Endpoints   any    `json:"endpoints,omitempty"`
}

// grant makes a token.
func (c *Copilot) grant(host string) copilotGrant {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serial++
	end := c.Provider.options.Now().Add(c.options.Life)
	token := "tid=" + c.Provider.options.Name + strconv.Itoa(c.serial) + ";exp=" + strconv.FormatInt(end.Unix(), 10) + ";sku=" + c.options.SKU
	c.tokens[token] = end
	g := copilotGrant{SKU: c.options.SKU, Chat: true}
	if !c.options.NoEndpoint {
		g.Endpoints = map[string]string{"api": "http://" + host}
	}
	if life := int(c.options.Life.Seconds()); c.options.OtherShape {
		g.AccessToken, g.ExpiresIn = token, life
	} else {
		g.Token, g.ExpiresAt, g.RefreshIn = token, end.Unix(), max(life-300, life/2)
	}
	return g
}

// plainly answers with text, as the API's gateway does.
func (a *answer) plainly(status int, message string) {
	a.body(status, "text/plain; charset=utf-8", []byte(message+"\n"))
}
