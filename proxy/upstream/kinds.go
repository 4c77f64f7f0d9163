package upstream

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"coding-proxy/auth"
	"coding-proxy/auth/oauth"
	"coding-proxy/proxy/upstream/antigravity"
	"coding-proxy/proxy/upstream/copilot"
)

// newKind returns what a key's provider needs beyond an address and a key; nil: nothing.
func newKind(o Options, e Env) Kind {
	switch {
	case o.Provider == Copilot:
		return newCopilot(o, e)
	case o.Provider == Antigravity:
		return newAntigravity(o, e)
	case o.Account != "":
		return &account{tokens: e.Accounts.Source(o.Account, outboundOf(o, e)), endpoints: o.Endpoints}
	}
	return nil
}

func newCopilot(o Options, e Env) Kind {
	c := copilot.Options{
		GitHubToken: o.APIKey, TokenURL: o.TokenURL, BaseURL: o.Copilot.BaseURL, AccountType: o.Copilot.AccountType,
		Version: e.Version, Headers: o.Headers, HTTP: func() http.RoundTripper { return e.Transport(o.Proxy.Reveal()) }, Now: e.Now,
	}
	if o.Account == "" {
		return copilot.New(c)
	}
	login := e.Accounts.Source(o.Account, outboundOf(o, e))
	c.GitHub = func(ctx context.Context) (auth.Secret, error) {
		t, err := login.Token(ctx)
		return t.Access, err
	}
	p := copilot.New(c)
	p.Follow(login)
	return p
}

func newAntigravity(o Options, e Env) Kind {
	way := o.Antigravity
	a := antigravity.Options{
		Project: way.Project, ModelEndpoint: way.ModelEndpoint, Headers: o.Headers, Version: e.Version,
		HTTP: func() http.RoundTripper { return e.Transport(o.Proxy.Reveal()) }, Now: e.Now,
	}
	if way.BaseURL != nil {
		a.BaseURLs = []*url.URL{way.BaseURL}
		a.GenerativeLanguage = strings.HasSuffix(way.BaseURL.Path, "/v1beta")
	}
	if o.Account != "" {
		a.Token = e.Accounts.Source(o.Account, outboundOf(o, e))
	} else {
		client := oauth.Client{Kind: oauth.KindGoogle, ClientID: way.ClientID, ClientSecret: way.ClientSecret}
		if o.TokenURL != nil {
			client.TokenURL = o.TokenURL.String()
		}
		a.Token = e.Accounts.Account(o.KeyID, client, o.APIKey, outboundOf(o, e))
	}
	return antigravity.New(a)
}

// outbound is a key's way to its provider, looked up when it is used: a reload may change it.
type outbound struct {
	transport func(string) http.RoundTripper
	proxy     string
}

func (x outbound) RoundTrip(req *http.Request) (*http.Response, error) {
	return x.transport(x.proxy).RoundTrip(req)
}

// outboundOf is nil where the key has no way of its own.
func outboundOf(o Options, e Env) http.RoundTripper {
	if o.Proxy.IsZero() {
		return nil
	}
	return outbound{e.Transport, o.Proxy.Reveal()}
}
