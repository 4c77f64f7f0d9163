package antigravity

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"coding-proxy/auth/oauth"
	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

const (
	callPatience   = 10 * time.Second // for one call
	searchPatience = time.Minute      // for all of them
	onboardTries   = 5
	onboardPause   = 2 * time.Second
	firstRetry     = 5 * time.Second // after a search that failed; twice as long each time
	longestRetry   = 5 * time.Minute
	maxAnswer      = 1 << 20
)

// home is the account's project, once it is known.
type home struct {
	mu       sync.Mutex
	id       string
	search   *search // the one under way
	problem  *ir.Fault
	failures int // in a row
	due      time.Time
}

// search is a look for the project that several may wait for.
type search struct {
	done chan struct{}
	id   string
	f    *ir.Fault
}

// forget begins anew with the configured project, "" = none. A search under way finds another account's.
func (h *home) forget(configured string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.id, h.search, h.problem, h.failures, h.due = configured, nil, nil, 0, time.Time{}
}

// state is what a person is told.
func (h *home) state() (id, problem string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.problem != nil {
		problem = h.problem.Message
	}
	return h.id, problem
}

// project returns the account's project. One search serves all who wait; after one that failed the next has to wait.
func (p *Provider) project(ctx context.Context, token oauth.Token) (string, *ir.Fault) {
	h := &p.home
	h.mu.Lock()
	switch now := p.opt.Now(); {
	case h.id != "":
		defer h.mu.Unlock()
		return h.id, nil
	case h.search != nil:
	case h.problem != nil && now.Before(h.due):
		defer h.mu.Unlock()
		f := *h.problem
		f.Reset = max(h.due.Sub(now), time.Second)
		return "", &f
	default:
		h.search = &search{done: make(chan struct{})}
		go p.find(h.search, token)
	}
	s := h.search
	h.mu.Unlock()
	select {
	case <-s.done:
		if s.f != nil {
			f := *s.f // it becomes its request's
			return "", &f
		}
		return s.id, nil
	case <-ctx.Done():
		return "", &ir.Fault{Status: http.StatusGatewayTimeout, Kind: ir.KindTimeout, Type: ir.KindTimeout, Message: "the account's project was not told in time"}
	}
}

// find is the goroutine of a search. No request ends it: others wait for it, too.
func (p *Provider) find(s *search, token oauth.Token) {
	ctx, cancel := context.WithTimeout(context.Background(), searchPatience)
	defer cancel()
	id, f := p.lookUp(ctx, token)
	if f != nil && f.Status == http.StatusUnauthorized { // it may have ended early
		p.opt.Token.Drop(token)
		if fresh, err := p.opt.Token.Token(ctx); err != nil {
			f = tokenFault(err)
		} else {
			token = fresh
			id, f = p.lookUp(ctx, token)
		}
	}
	if f != nil && f.Status == http.StatusForbidden {
		p.shutOut(f, "Bearer "+token.Access.Reveal())
	}
	p.home.found(s, id, f, p.opt.Now())
	s.id, s.f = id, f
	close(s.done)
}

// found ends the search under way. One that was forgotten has looked for another account.
func (h *home) found(s *search, id string, f *ir.Fault, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.search != s {
		return
	}
	h.search = nil
	if h.problem = f; f == nil {
		h.id, h.failures = id, 0
		return
	}
	f.Reset = min(firstRetry<<min(h.failures, 10), longestRetry)
	h.due = now.Add(f.Reset)
	h.failures++
}

// account is what loadCodeAssist tells, as far as it matters here.
type account struct {
	Project json.RawMessage `json:"cloudaicompanionProject"`
	Current tier            `json:"currentTier"`
	Allowed []tier          `json:"allowedTiers"`
	Not     []tier          `json:"ineligibleTiers"`
}

type tier struct {
	ID      string `json:"id"`
	Default bool   `json:"isDefault"`
	Reason  string `json:"reasonCode"`
}

// lookUp asks the service for the account's project, and has one made where there is none.
func (p *Provider) lookUp(ctx context.Context, token oauth.Token) (string, *ir.Fault) {
	body, f := p.call(ctx, token, "loadCodeAssist", []byte(`{"metadata":{"ideType":"ANTIGRAVITY"}}`))
	if f != nil {
		return "", f
	}
	var a account
	if json.Unmarshal(body, &a) != nil {
		return "", searchFault("the provider's answer about the account's project could not be read")
	}
	if id := projectID(a.Project); id != "" {
		return id, nil
	}
	into := a.Current.ID
	for _, t := range a.Allowed {
		if into == "" && t.Default {
			into = t.ID
		}
	}
	switch {
	case into != "":
		return p.onboard(ctx, token, into)
	case len(a.Not) > 0:
		return "", &ir.Fault{Status: http.StatusForbidden, Kind: ir.KindPermission, Type: oauth.ReasonPermission,
			Message: "the provider does not offer this account the service" + inBrackets(a.Not[0].Reason)}
	}
	return "", searchFault("the provider tells no project for this account: set the key's project")
}

// onboard has a project made, and asks until there is one.
func (p *Provider) onboard(ctx context.Context, token oauth.Token, into string) (string, *ir.Fault) {
	w := rawjson.Writer{}
	w.Open('{')
	w.Field("tier_id", into)
	w.Key("metadata")
	w.Raw([]byte(`{"ide_type":"ANTIGRAVITY","ide_name":"` + agent + `","ide_version":"1.0.0"}`))
	w.Close('}')
	for try := range onboardTries {
		if try > 0 && !pause(ctx, onboardPause) {
			break
		}
		body, f := p.call(ctx, token, "onboardUser", w.Buf)
		if f != nil {
			return "", f
		}
		if done, _ := rawjson.Bool(rawjson.Get(body, "done")); !done {
			continue
		}
		if id := projectID(rawjson.Get(rawjson.Get(body, "response"), "cloudaicompanionProject")); id != "" {
			return id, nil
		}
		return "", searchFault("the provider has set the account up without a project: set the key's project")
	}
	return "", searchFault("the provider is still setting this account up")
}

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// projectID reads a project: a string, or an object with its id.
func projectID(raw []byte) string {
	if id, ok := rawjson.String(raw); ok {
		return id
	}
	id, _ := rawjson.String(rawjson.Get(raw, "id"))
	return id
}

// call asks one address after the other, until one has an answer.
func (p *Provider) call(ctx context.Context, token oauth.Token, action string, body []byte) ([]byte, *ir.Fault) {
	f := searchFault("")
	for range p.bases.urls {
		base := p.bases.pick("")
		var answer []byte
		var status int
		answer, status = p.post(ctx, base, token, action, body)
		switch {
		case status >= 200 && status < 300 && json.Valid(answer):
			return answer, nil
		case ctx.Err() != nil:
			return nil, searchFault("the provider did not tell the account's project in time")
		}
		if f = callFault(status, answer); status >= 400 && status < 500 && status != http.StatusNotFound {
			return nil, f // any address would say so
		}
		u := *base
		u.Path += "/v1internal:" + action
		if !p.bases.fail(&u, "") {
			break
		}
	}
	return nil, f
}

// post makes one call. The status is 0 where there is no answer.
func (p *Provider) post(ctx context.Context, base *url.URL, token oauth.Token, action string, body []byte) (answer []byte, status int) {
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base.String()+"/v1internal:"+action, bytes.NewReader(body))
	if err != nil {
		return nil, 0
	}
	req.Header["Content-Type"] = []string{"application/json"}
	req.Header["User-Agent"] = []string{p.agent()}
	for name, v := range p.opt.Headers {
		req.Header.Set(name, v.Reveal())
	}
	req.Header["Authorization"] = []string{"Bearer " + token.Access.Reveal()}
	resp, err := p.opt.HTTP().RoundTrip(req)
	if err != nil {
		return nil, 0
	}
	defer resp.Body.Close()
	if answer, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer)); err != nil {
		return nil, 0
	}
	return answer, resp.StatusCode
}

// callFault says what an answer that is no good means for the key.
func callFault(status int, answer []byte) *ir.Fault {
	reason := reasonOf(answer)
	switch {
	case status == http.StatusUnauthorized:
		return &ir.Fault{Status: status, Kind: ir.KindAuth, Type: oauth.ReasonCredentials, Message: "the provider refuses the account's token"}
	case status == http.StatusForbidden:
		return &ir.Fault{Status: status, Kind: ir.KindPermission, Type: oauth.ReasonPermission, Code: reason,
			Message: "the provider refuses to tell the account's project" + inBrackets(reason)}
	case status == http.StatusTooManyRequests:
		return &ir.Fault{Status: status, Kind: ir.KindRate, Type: ir.KindRate, Code: reason, Message: "the provider limits how often it tells the account's project"}
	case status == http.StatusNotFound, status < 400, status >= 500: // or no answer of the API
		return searchFault("")
	}
	return searchFault("the provider refuses to tell the account's project" + inBrackets(reason))
}

// searchFault is a fault that may pass.
func searchFault(message string) *ir.Fault {
	if message == "" {
		message = "the provider could not be asked for the account's project"
	}
	return &ir.Fault{Status: http.StatusServiceUnavailable, Kind: ir.KindOverloaded, Type: "project_unknown", Message: message}
}

// reasonOf is the reason in an error's ErrorInfo.
func reasonOf(answer []byte) (reason string) {
	_ = rawjson.Elements(rawjson.Get(rawjson.Get(answer, "error"), "details"), func(_ int, detail []byte) error {
		if word, ok := rawjson.String(rawjson.Get(detail, "reason")); ok && reason == "" {
			reason = word
		}
		return nil
	})
	return reason
}

// inBrackets shows a reason if it is a plain word.
func inBrackets(reason string) string {
	if reason == "" || len(reason) > 64 || strings.Trim(reason, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") != "" {
		return ""
	}
	return " (" + reason + ")"
}
