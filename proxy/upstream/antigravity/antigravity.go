// Package antigravity asks Google's Code Assist service, as Antigravity does: requests of the Gemini dialect in an
// envelope, with the token of a Google account. It can also ask the Gemini API itself with such a token.
package antigravity

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"coding-proxy/auth"
	"coding-proxy/auth/oauth"
	"coding-proxy/proxy/ir"
)

const (
	dialect = "gemini"
	// agent is how we name ourselves, with the version behind it.
	agent = "coding-proxy"
)

// Options describe the account of one key, and where it is asked.
type Options struct {
	Token         *oauth.Source
	Project       string     // "" = asked for
	ModelEndpoint string     // the model where a request names none, with or without models/
	BaseURLs      []*url.URL // in the order of trial; none = KnownBases. A trailing /v1internal is cut
	// GenerativeLanguage: the one base is the Gemini API's and ends in /v1beta: no envelope, and no project need be known.
	GenerativeLanguage bool
	HTTP               func() http.RoundTripper // for the calls that look for the project
	Headers            map[string]auth.Secret   // further headers; they replace ours
	Now                func() time.Time         // nil = time.Now
	NewID              func() string            // of requests, in a UUID's form; nil = random
	Version            string                   // of this program, for the user agent; "" = not told
}

// KnownBases are the addresses of the service, in the order in which Antigravity tries them.
func KnownBases() []*url.URL {
	return []*url.URL{
		{Scheme: "https", Host: "daily-cloudcode-pa.googleapis.com"},
		{Scheme: "https", Host: "cloudcode-pa.googleapis.com"},
	}
}

// Provider serves all requests of a key.
type Provider struct {
	opt   Options
	bases bases
	home  home

	mu      sync.Mutex
	refused string // the reason why the service has shut the account out, until an answer is good
}

// New returns the provider of a key.
func New(o Options) *Provider {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = newID
	}
	if len(o.BaseURLs) == 0 {
		o.BaseURLs = KnownBases()
	}
	p := &Provider{opt: o}
	for _, u := range o.BaseURLs {
		base := *u
		base.Path = strings.TrimSuffix(strings.TrimSuffix(base.Path, "/"), "/v1internal")
		base.RawPath, base.RawQuery = "", ""
		p.bases.urls = append(p.bases.urls, &base)
	}
	p.bases.now = o.Now
	p.home.id = o.Project
	return p
}

// Format keeps every verb of fmt from showing what is inside, which changes meanwhile.
func (p *Provider) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, "antigravity") // fmt has no place for the error
}

func (p *Provider) agent() string {
	if p.opt.Version == "" {
		return agent
	}
	return agent + "/" + p.opt.Version
}

// Reset forgets what was found out of the account: somebody has signed in anew, or an operator wants another try.
func (p *Provider) Reset() {
	p.opt.Token.Reset()
	p.home.forget(p.opt.Project)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused = ""
}

// newID returns a random UUID (RFC 9562, version 4).
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// Choose implements upstream.Kind: there is one dialect for all models, those of other makers too.
func (p *Provider) Choose(_ context.Context, _, model string) (protocol, name string, f *ir.Fault) {
	if model == "" {
		model = p.opt.ModelEndpoint
	}
	if name = strings.TrimPrefix(model, "models/"); name == "" {
		return "", "", &ir.Fault{Status: http.StatusBadRequest, Kind: ir.KindInvalid, Type: ir.KindInvalid,
			Message: "the request names no model, and the key has no model_endpoint"}
	}
	return dialect, name, nil
}

// Sign implements upstream.Kind.
func (p *Provider) Sign(req *http.Request, try int) *ir.Fault {
	token, err := p.opt.Token.Token(req.Context())
	if err != nil {
		return tokenFault(err)
	}
	header := http.Header{"Content-Type": {"application/json"}, "User-Agent": {p.agent()}, "Accept-Encoding": {"identity"}}
	if accept := req.Header["Accept"]; len(accept) > 0 {
		header["Accept"] = accept
	}
	if p.opt.GenerativeLanguage {
		p.signPlain(req, header)
	} else if f := p.signEnvelope(req, token); f != nil {
		return f
	}
	for name, v := range p.opt.Headers {
		header.Set(name, v.Reveal())
	}
	header["Authorization"] = []string{"Bearer " + token.Access.Reveal()}
	req.Header = header // none of the client's goes there: neither API wants any
	return nil
}

// signPlain addresses the Gemini API: the client's body goes as it is.
func (p *Provider) signPlain(req *http.Request, header http.Header) {
	path := req.URL.EscapedPath()
	if _, rest, ok := strings.Cut(strings.TrimPrefix(path, "/"), "/"); ok { // the base has the version
		path = "/" + rest
	}
	p.address(req, p.bases.urls[0], path)
	if p.opt.Project != "" { // whose quota an account's token uses
		header["X-Goog-User-Project"] = []string{p.opt.Project}
	}
}

// signEnvelope addresses the Code Assist service.
func (p *Provider) signEnvelope(req *http.Request, token oauth.Token) *ir.Fault {
	model, action, f := target(req)
	if f != nil {
		return f
	}
	project := ""
	if action != countTokens {
		if project, f = p.project(req.Context(), token); f != nil {
			return f
		}
	}
	if f := p.wrap(req, envelope{project: project, model: model, action: action, id: p.opt.NewID()}); f != nil {
		return f
	}
	p.address(req, p.bases.pick(model), "/v1internal:"+action)
	return nil
}

// address sets where a request goes; its query stays.
func (p *Provider) address(req *http.Request, base *url.URL, path string) {
	u := *base
	u.RawPath = base.EscapedPath() + path
	u.Path = u.RawPath
	if plain, err := url.PathUnescape(u.RawPath); err == nil {
		u.Path = plain
	}
	u.RawQuery = "" // whose project or quota it is, is not the client's to say
	if alt := req.URL.Query().Get("alt"); alt != "" {
		u.RawQuery = url.Values{"alt": {alt}}.Encode()
	}
	req.URL, req.Host = &u, u.Host
}

// Again implements upstream.Kind. It also words a fault that shuts the account out.
func (p *Provider) Again(req *http.Request, try int, f *ir.Fault) bool {
	switch {
	case f.Status == http.StatusUnauthorized:
		return p.opt.Token.Refused(req.Header.Get("Authorization")) || try == 0 // later, only the address was wrong before
	case f.Status == http.StatusForbidden:
		p.shutOut(f, req.Header.Get("Authorization"))
		return false
	case p.opt.GenerativeLanguage, !elsewhere(f):
		return false
	}
	model := ""
	if f.Code == capacityExhausted || f.Status == http.StatusNotFound && f.Type != "" {
		model = askedOf(req).model // the host is well, and lacks this model
	}
	works := p.bases.fail(req.URL, model)
	return works && try < len(p.bases.urls) && f.Type != "timeout" // the client has waited for long enough
}

// The reasons in a fault's ErrorInfo that tell something apart.
const (
	capacityExhausted  = "MODEL_CAPACITY_EXHAUSTED"
	tosViolation       = "TOS_VIOLATION"
	validationRequired = "VALIDATION_REQUIRED"
	scopeInsufficient  = "ACCESS_TOKEN_SCOPE_INSUFFICIENT"
)

// elsewhere reports whether another address of the service may answer what this one did not. An exhausted quota or rate
// (QUOTA_EXHAUSTED, RATE_LIMIT_EXCEEDED) is the account's, wherever it asks.
func elsewhere(f *ir.Fault) bool {
	return f.Status == 0 || f.Status == http.StatusNotFound || f.Status >= 500 || f.Code == capacityExhausted
}

// shutOut says in a fault, and remembers, what a person must do. authorization is the header that was refused.
func (p *Provider) shutOut(f *ir.Fault, authorization string) {
	reason := ""
	switch {
	case f.Code == tosViolation:
		reason, f.Message = "tos_violation", "the provider has disabled this account for a breach of its terms of service"
	case f.Code == validationRequired:
		reason, f.Message = "validation_required", "the provider wants this account verified: sign in to its own product and follow what it says"
	case strings.Contains(strings.ToUpper(f.Code+f.Message), scopeInsufficient):
		reason, f.Message = oauth.ReasonScope, "the login was granted too little: sign in again and agree to all that is asked for"
		p.opt.Token.Refuse(oauth.Token{Access: auth.NewSecret(strings.TrimPrefix(authorization, "Bearer "))},
			&oauth.Error{Reason: reason, Final: true, Message: f.Message})
	default:
		return
	}
	f.Type, f.Reset = reason, 0
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused = reason
}

// tokenFault says why there is no token.
func tokenFault(err error) *ir.Fault {
	e := new(oauth.Error)
	if !errors.As(err, &e) { // the request is over
		return &ir.Fault{Status: http.StatusGatewayTimeout, Kind: ir.KindTimeout, Type: ir.KindTimeout, Message: "the token did not come in time"}
	}
	return ir.NoToken(e.Reason, e.Message, e.Final, e.Retry)
}
