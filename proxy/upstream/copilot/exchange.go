package copilot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"coding-proxy/auth"
	"coding-proxy/auth/oauth"
	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

const (
	maxGrant = 1 << 20 // bytes of an exchange's answer
	// directLife is after which time a GitHub token that is shown itself is tried at the exchange again: the account may
	// have changed.
	directLife = 30 * time.Minute
	// maxRetry bounds how long an exchange's Retry-After is believed.
	maxRetry = time.Hour
)

// token returns a token that is good now. While exchanges fail the old token serves to its true end, and nobody waits for
// the next exchange.
func (p *Provider) token(ctx context.Context) (oauth.Token, error) {
	if p.source.State().Err != nil {
		if old, ok := p.old(ctx); ok {
			over, cancel := context.WithCancel(ctx)
			cancel() // an exchange that is due begins all the same
			if t, err := p.source.Token(over); err == nil {
				return t, nil
			}
			return old, nil
		}
	}
	t, err := p.source.Token(ctx)
	if failed := new(oauth.Error); errors.As(err, &failed) {
		if old, ok := p.old(ctx); ok {
			return old, nil
		}
	}
	return t, err
}

// old returns the last token if it has not come to its end, nor its account signed out or changed.
func (p *Provider) old(ctx context.Context) (oauth.Token, bool) {
	p.mu.Lock()
	t, from := p.kept, p.keptFrom
	p.mu.Unlock()
	if t.Access.IsZero() || !p.opt.Now().Before(t.Expires) {
		return t, false
	}
	gitHub, err := p.gitHub(ctx)
	return t, err == nil && gitHub.Reveal() == from.Reveal()
}

// drop forgets the token that a request has shown.
func (p *Provider) drop(h http.Header) {
	shown, ok := strings.CutPrefix(h.Get("Authorization"), "Bearer ")
	if !ok {
		return
	}
	p.mu.Lock()
	if p.kept.Access.Reveal() == shown {
		p.kept = oauth.Token{}
	}
	p.mu.Unlock()
	p.source.Drop(oauth.Token{Access: auth.NewSecret(shown)})
}

// fetch exchanges the GitHub token. Its errors are *oauth.Error.
func (p *Provider) fetch(ctx context.Context) (oauth.Token, error) {
	p.mu.Lock()
	resets := p.resets
	p.mu.Unlock()
	gitHub, err := p.gitHub(ctx)
	if err != nil {
		return oauth.Token{}, err
	}
	status, header, body, err := p.get(ctx, p.opt.TokenURL, "token "+gitHub.Reveal(), "", maxGrant)
	if err != nil {
		return oauth.Token{}, &oauth.Error{Reason: oauth.ReasonTemporary, Message: "the token exchange at " + p.opt.TokenURL.Host + " " + unreached(ctx)}
	}
	now := p.opt.Now()
	if status == http.StatusNotFound && strings.HasPrefix(gitHub.Reveal(), "gho_") {
		t := oauth.Token{Access: gitHub, Expires: now.Add(directLife)}
		p.keep(t, gitHub, grant{}, modeDirect, resets)
		return t, nil
	}
	g, problem := readGrant(status, body, now)
	if problem != nil {
		if g.flags != nil {
			p.keepFlags(g)
		}
		problem.Message = scrub(problem.Message, gitHub)
		problem.Retry = retryAfter(header, now)
		return oauth.Token{}, problem
	}
	base := p.hosts.use(g.base)
	p.keep(oauth.Token{Access: g.token, Expires: now.Add(g.life), BaseURL: base}, gitHub, g, modeExchange, resets)
	return oauth.Token{Access: g.token, Expires: now.Add(g.shown()), BaseURL: base}, nil
}

func (p *Provider) gitHub(ctx context.Context) (auth.Secret, error) {
	token := p.opt.GitHubToken
	if p.opt.GitHub != nil {
		var err error
		if token, err = p.opt.GitHub(ctx); err != nil {
			if known := new(oauth.Error); errors.As(err, &known) {
				return token, known
			}
			return token, &oauth.Error{Reason: oauth.ReasonTemporary, Message: "the GitHub token could not be read"}
		}
	}
	if token.IsZero() {
		return token, &oauth.Error{Reason: oauth.ReasonNotSignedIn, Final: true, Message: "no GitHub token: run `coding-proxy login copilot`, or set github_token"}
	}
	return token, nil
}

// keep remembers a token until its true end, and what was said with it. An exchange that began before a reset, counted by
// resets, says nothing of the account as it is now.
func (p *Provider) keep(t oauth.Token, from auth.Secret, g grant, mode string, resets int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.resets != resets {
		return
	}
	g.token = auth.Secret{}
	p.kept, p.keptFrom, p.granted, p.mode = t, from, g, mode
}

// keepFlags remembers what the account may do, of an answer without a token.
func (p *Provider) keepFlags(g grant) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.granted.flags, p.granted.sku = g.flags, g.sku
}

// get asks one of the provider's addresses beside the requests. credential is the whole value of Authorization.
func (p *Provider) get(ctx context.Context, u *url.URL, credential, intent string, limit int64) (int, http.Header, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return 0, nil, nil, err
	}
	p.name(req.Header)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Accept-Encoding", "identity")
	if intent != "" {
		req.Header.Set("Openai-Intent", intent)
	}
	for name, v := range p.opt.Headers {
		req.Header.Set(name, v.Reveal())
	}
	req.Header.Set("Authorization", credential)
	req.Close = intent != "" && p.hosts.isFresh()
	resp, err := p.opt.HTTP().RoundTrip(req)
	if err != nil {
		return 0, nil, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err == nil && int64(len(body)) > limit {
		err = errors.New("the answer is too long")
	}
	return resp.StatusCode, resp.Header, body, err
}

// unreached says how an address was not reached. The Transport's own words hold addresses and are for nobody.
func unreached(ctx context.Context) string {
	if ctx.Err() != nil {
		return "gave no answer in time"
	}
	return "could not be reached"
}

// refusedGrant says why an exchange brought no token.
func refusedGrant(status int, body []byte, flags bool) *oauth.Error {
	said := excerpt(body)
	lower := strings.ToLower(said)
	refused := func(reason, message string) *oauth.Error {
		if said != "" {
			message += fmt.Sprintf(" (%d: %s)", status, said)
		} else {
			message += fmt.Sprintf(" (%d)", status)
		}
		return &oauth.Error{Reason: reason, Final: reason != oauth.ReasonTemporary, Message: message}
	}
	switch {
	case status == http.StatusUnauthorized:
		return refused(oauth.ReasonCredentials, "GitHub refuses the token: sign in again")
	case flags:
		return &oauth.Error{Reason: oauth.ReasonPermission, Final: true,
			Message: "GitHub names the account's Copilot features but gives no token: the account needs a plan with this access, or a new sign-in"}
	case strings.Contains(lower, "bad credentials"), strings.Contains(lower, "invalid token"), strings.Contains(lower, "unauthorized"):
		return refused(oauth.ReasonCredentials, "GitHub refuses the token: sign in again")
	case status >= 300:
		return refused(oauth.ReasonTemporary, "the token exchange failed")
	case bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")):
		return refused(oauth.ReasonTemporary, "the token exchange brought no token")
	}
	return &oauth.Error{Reason: oauth.ReasonTemporary, Message: "the answer of the token exchange could not be read"}
}

// excerpt is what an error answer says, at most 200 characters of it.
func excerpt(body []byte) string {
	text := strings.TrimSpace(string(body))
	if strings.HasPrefix(text, "<") {
		return "a page"
	}
	for _, name := range []string{"error_description", "error", "message"} {
		raw := rawjson.Get(body, name)
		if inner := rawjson.Get(raw, "message"); inner != nil {
			raw = inner
		}
		if s, ok := rawjson.String(raw); ok && s != "" {
			text = s
			break
		}
	}
	return printable(text, 200)
}

// printable cuts a text to n characters, and control characters to blanks.
func printable(s string, n int) string {
	var b strings.Builder
	for _, r := range s {
		if n--; n < 0 {
			break
		}
		if r < 0x20 || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 {
			r = ' '
		}
		b.WriteRune(r)
	}
	return b.String()
}

// scrub takes the GitHub token, and all that looks like one, out of a text of GitHub's.
func scrub(text string, gitHub auth.Secret) string {
	if s := gitHub.Reveal(); s != "" {
		text = strings.ReplaceAll(text, s, "***")
	}
	words := strings.FieldsFunc(text, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
	for _, w := range words {
		if len(w) > 8 && (strings.HasPrefix(w, "gh") && w[3] == '_' || strings.HasPrefix(w, "github_pat_")) {
			text = strings.ReplaceAll(text, w, "***")
		}
	}
	return text
}

// retryAfter is what an answer's Retry-After says; 0: nothing that could be meant.
func retryAfter(h http.Header, now time.Time) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	d, ok := seconds([]byte(v))
	if !ok {
		at, err := http.ParseTime(v)
		if err != nil {
			return 0
		}
		d = at.Sub(now)
	}
	return min(max(d, 0), maxRetry)
}

// faultOf says in the proxy's terms why there is no token: 401 where a person must act, else a fault of the key that passes.
func faultOf(err error) *ir.Fault {
	e := new(oauth.Error)
	switch {
	case errors.As(err, &e):
		return ir.NoToken(e.Reason, e.Message, e.Final, e.Retry)
	case errors.Is(err, context.Canceled):
		return &ir.Fault{Status: 499, Kind: ir.KindAPI, Type: "cancelled", Message: "the request was cancelled while a token was asked for"}
	}
	return &ir.Fault{Status: http.StatusGatewayTimeout, Kind: ir.KindTimeout, Type: "timeout", Message: "no token came in time"}
}
