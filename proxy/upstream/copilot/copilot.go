// Package copilot speaks to GitHub Copilot: a GitHub token is exchanged for a short-lived one, each model is asked at one
// of three endpoints, and hosts may send their callers elsewhere.
package copilot

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"coding-proxy/auth"
	"coding-proxy/auth/oauth"
	"coding-proxy/proxy/ir"
)

// Options describe an account.
type Options struct {
	GitHub      func(ctx context.Context) (auth.Secret, error) // yields the GitHub token; nil: GitHubToken
	GitHubToken auth.Secret
	TokenURL    *url.URL // nil: github.com's
	BaseURL     *url.URL // nil: what the exchange says, else by TokenURL and AccountType
	AccountType string   // individual, business, enterprise; "" = individual
	Version     string   // of this program, for the headers
	// Headers replace ours on the exchange and on the list of models. On other requests the caller sets them, later.
	Headers map[string]auth.Secret
	// HTTP returns the Transport to use now. It must follow no redirects.
	HTTP func() http.RoundTripper
	Now  func() time.Time // nil: time.Now
}

// Provider is one account. It serves all its requests at once.
type Provider struct {
	opt     Options
	source  *oauth.Source
	hosts   *hosts
	catalog *catalog

	mu       sync.Mutex
	kept     oauth.Token // the last token with its true end, which is later than the source is told
	keptFrom auth.Secret // the GitHub token that it was exchanged for
	granted  grant       // what the last exchange said, without the token
	mode     string      // how the last token was had
	asked    resolution  // the last one
	resets   int
}

// How tokens are had.
const (
	modeExchange = "exchange"
	modeDirect   = "direct" // the GitHub token itself is shown to Copilot
)

// maxTries bounds what one attempt may send: a host twice, the other one, and once more for its token.
const maxTries = 4

// New returns the provider of an account. It asks for nothing yet.
func New(o Options) *Provider {
	if o.TokenURL == nil {
		o.TokenURL = &url.URL{Scheme: "https", Host: gitHubAPI, Path: "/copilot_internal/v2/token"}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.HTTP == nil {
		own := &http.Transport{ForceAttemptHTTP2: true, DisableCompression: true}
		o.HTTP = func() http.RoundTripper { return own }
	}
	if o.Version == "" {
		o.Version = "dev"
	}
	p := &Provider{opt: o, hosts: newHosts(&o)}
	p.source = oauth.NewSource(p.fetch, o.Now)
	p.catalog = &catalog{fetch: p.list, now: o.Now}
	return p
}

// Choose names the endpoint's dialect and the name under which the account has the model. The list of models decides; as
// long as there is none, the model's family does. There is always a way.
func (p *Provider) Choose(ctx context.Context, dialect, model string) (protocol, name string, _ *ir.Fault) {
	name, entry := resolve(p.catalog.get(ctx), model)
	protocol = endpointFor(entry, name, dialect)
	p.mu.Lock()
	p.asked = resolution{printable(model, maxName), printable(name, maxName), protocol}
	p.mu.Unlock()
	return protocol, name, nil
}

// Sign makes req Copilot's. Where it sets req.Close, the request must go over a connection of its own. The body stays as it
// is, but for the model of a second try: the list of models may have changed since.
func (p *Provider) Sign(req *http.Request, try int) *ir.Fault {
	token, err := p.token(req.Context())
	if err != nil {
		return faultOf(err)
	}
	body, err := bodyOf(req)
	if err != nil {
		return &ir.Fault{Status: http.StatusBadRequest, Kind: ir.KindInvalid, Type: ir.KindInvalid, Message: "the request body could not be read again"}
	}
	dialect := dialectOf(req.URL.Path)
	if try > 0 && body != nil {
		if renamed := p.rename(body, dialect); renamed != nil {
			setBody(req, renamed)
		}
	}
	base, fresh := p.hosts.pick()
	req.URL = below(base, req.URL)
	req.Host, req.Close = req.URL.Host, fresh
	dropForeign(req.Header, dialect)
	p.name(req.Header)
	req.Header.Set("Authorization", bearer(token))
	if body != nil && !strings.HasPrefix(req.Header.Get("Content-Type"), "multipart/") {
		req.Header.Set("Content-Type", "application/json")
	}
	intend(req.Header, dialect, body)
	return nil
}

// Again says whether the account is worth another try: once when the token was refused or the model is not known (any
// more), and as the hosts say.
func (p *Provider) Again(req *http.Request, try int, f *ir.Fault) bool {
	if f == nil || try+1 >= maxTries {
		return false
	}
	once := try == 0 || req.Close // before, only the host was wrong
	switch {
	case f.Status == http.StatusMisdirectedRequest:
		return p.hosts.misdirected(req, p.opt.Now())
	case f.Status == http.StatusUnauthorized, f.Status == http.StatusForbidden:
		p.drop(req.Header)
		return once
	case unknownModel(f):
		return once && p.catalog.refresh(req.Context()) == nil
	}
	return false
}

// Open notes which host has answered, and that the token has served: there is no envelope.
func (p *Provider) Open(resp *http.Response) {
	if resp.Request != nil && resp.StatusCode != http.StatusMisdirectedRequest {
		p.hosts.answered(resp.Request.URL)
	}
	if resp.Request != nil && resp.StatusCode < http.StatusBadRequest {
		p.source.Served(resp.Request.Header.Get("Authorization"))
	}
}

// Reset forgets token and failures: somebody has signed in anew, or an operator wants another try.
func (p *Provider) Reset() {
	p.mu.Lock()
	p.kept = oauth.Token{}
	p.resets++
	p.mu.Unlock()
	p.source.Reset()
	p.catalog.forget()
}

// Follow makes the account start anew when somebody signs in anew to base, which yields its GitHub token. Call it first.
func (p *Provider) Follow(base *oauth.Source) { p.source.Follow(base) }

// unknownModel reports whether Copilot says that the account does not have the model. Anthropic's error envelope has no
// place for a code.
func unknownModel(f *ir.Fault) bool {
	if f.Status != http.StatusBadRequest && f.Status != http.StatusNotFound {
		return false
	}
	const word = "model_not_supported"
	message := strings.ToLower(f.Message)
	return f.Code == word || f.Type == word || strings.Contains(message, word) || strings.Contains(message, "requested model is not supported")
}
