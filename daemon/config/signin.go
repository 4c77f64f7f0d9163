package config

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"coding-proxy/auth"
	"coding-proxy/auth/oauth"
	"coding-proxy/proxy/upstream"
)

// Kinds of logins, as `oauth` names them.
const (
	copilotLogin = "copilot"
	googleLogin  = "google"
)

// accountPrefix begins a credential that a login obtained.
const accountPrefix = "oauth:"

// signIn is what a key may have beside an address and a key.
type signIn struct {
	proxyURL, githubToken, tokenURL, accountType str
	clientID, clientSecret, refreshToken         str
	project, modelEndpoint                       str
}

func signInFields(s *signIn) []field {
	return []field{
		{"proxy_url", keep(&s.proxyURL)},
		{"github_token", keep(&s.githubToken)},
		{"token_url", keep(&s.tokenURL)},
		{"account_type", keep(&s.accountType)},
		{"client_id", keep(&s.clientID)},
		{"client_secret", keep(&s.clientSecret)},
		{"refresh_token", keep(&s.refreshToken)},
		{"project", keep(&s.project)},
		{"model_endpoint", keep(&s.modelEndpoint)},
	}
}

// used reports whether a key signs in by what it has itself.
func (s *signIn) used() bool {
	return slices.ContainsFunc([]str{s.githubToken, s.tokenURL, s.accountType, s.clientID, s.refreshToken}, func(f str) bool { return f.given() })
}

// loginDraft is an entry of `oauth`.
type loginDraft struct {
	at                                    value
	client                                oauth.Client
	id, secret, kind                      str
	deviceCodeURL, authorizeURL, tokenURL str
}

func loginFields(l *loginDraft) []field {
	return []field{
		{"kind", keep(&l.kind)},
		{"client_id", keep(&l.id)},
		{"client_secret", keep(&l.secret)},
		{"device_code_url", keep(&l.deviceCodeURL)},
		{"authorize_url", keep(&l.authorizeURL)},
		{"token_url", keep(&l.tokenURL)},
		{"scopes", texts(&l.client.Scopes, notEmpty)},
	}
}

// logins reads the section `oauth`.
func logins(c *Config) reader {
	return func(d *decoder, v value) {
		c.Logins = make(map[string]oauth.Client)
		d.members(v, func(name string, v value) {
			if wrong := keyID(name); wrong != "" {
				d.problem(v.nameAt, v.path, "name %s", wrong)
				return
			}
			l := &loginDraft{at: v}
			if !d.is(v, kindObject) {
				return
			}
			d.object(v, loginFields(l))
			c.Logins[name] = d.login(name, l)
		})
	}
}

func (d *decoder) login(name string, l *loginDraft) oauth.Client {
	c := &l.client
	c.Name = name
	if d.require(l.kind.value, l.at, "kind") && d.oneOf(l.kind, []string{copilotLogin, googleLogin}) {
		c.Kind = l.kind.text
	}
	if d.require(l.id.value, l.at, "client_id") {
		if c.ClientID = trimKey(l.id.text); c.ClientID == "" {
			d.fail(l.id.value, "must not be empty%s", d.unset(l.id.value))
		}
	}
	c.ClientSecret = auth.NewSecret(trimKey(l.secret.text))
	for _, u := range []struct {
		from str
		to   *string
	}{{l.deviceCodeURL, &c.DeviceCodeURL}, {l.authorizeURL, &c.AuthorizeURL}, {l.tokenURL, &c.TokenURL}} {
		if u.from.given() {
			if at := d.signInURL(u.from); at != nil {
				*u.to = at.String()
			}
		}
	}
	return *c
}

// signInURL takes the address of an identity provider: what is shown there is as secret as a key.
func (d *decoder) signInURL(s str) *url.URL {
	u, wrong := baseURL(s.text, false)
	if wrong != "" {
		wrong, _, _ = strings.Cut(wrong, "; set `allow_http`") // it is for base URLs
		d.fail(s.value, "%s%s", wrong, d.unset(s.value))
	}
	return u
}

// outbound settles the proxy that a key's provider is reached through.
func (d *decoder) outbound(k *keyDraft) {
	s := k.signIn.proxyURL
	if !s.given() {
		return
	}
	text := trimKey(s.text)
	if text != "direct" {
		u, err := url.Parse(text)
		switch {
		case err != nil || u.Host == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
			d.fail(s.value, `must be a URL like http://host:port, or "direct"%s`, d.unset(s.value))
			return
		case !slices.Contains([]string{"http", "https", "socks5", "socks5h"}, u.Scheme):
			d.fail(s.value, `must begin with http://, https:// or socks5://, or be "direct"`)
			return
		case hostName(u.Hostname()) != "" || u.Port() != "" && portNumber(u.Port()) != "":
			d.fail(s.value, "must have a valid host and port")
			return
		}
	}
	k.way.Proxy = auth.NewSecret(text)
}

// signsIn settles a key of a provider that needs more than an address and a key.
func (d *decoder) signsIn(k *keyDraft) {
	for _, s := range []str{k.protocol, k.headerName, k.prefix, k.apiKey} {
		if s.given() {
			d.fail(s.value, "must not be set: provider %s settles it", k.provider.text)
		}
	}
	if k.endpointsAt.given() {
		d.fail(k.endpointsAt, "must not be set: provider %s settles it", k.provider.text)
	}
	k.way.Provider, k.sends = k.provider.text, true
	if k.signIn.tokenURL.given() {
		k.way.TokenURL = d.signInURL(k.signIn.tokenURL)
	}
	var base *url.URL
	if k.baseURL.given() {
		base = d.baseURL(k, k.baseURL)
	}
	var protocols []string
	if k.provider.text == upstream.Copilot {
		protocols = []string{upstream.Anthropic, upstream.OpenAIResponses, upstream.OpenAIChat}
		if k.way.DropFields == nil {
			k.way.DropFields = []string{"service_tier"} // it refuses that
		}
		if k.signIn.accountType.given() { // it is part of a host's name
			d.oneOf(k.signIn.accountType, []string{"individual", "business", "enterprise"})
		}
		k.way.Copilot = upstream.CopilotWay{BaseURL: base, AccountType: k.signIn.accountType.text}
		d.shown(k, "github_token", k.signIn.githubToken, copilotLogin)
	} else {
		protocols = []string{upstream.Gemini}
		k.way.Antigravity = upstream.AntigravityWay{BaseURL: base, ClientID: trimKey(k.signIn.clientID.text), ClientSecret: auth.NewSecret(trimKey(k.signIn.clientSecret.text)),
			Project: k.signIn.project.text, ModelEndpoint: k.signIn.modelEndpoint.text}
		d.shown(k, "refresh_token", k.signIn.refreshToken, googleLogin)
		if k.way.Account == "" && k.way.Antigravity.ClientID == "" {
			d.fail(k.at, "`client_id` is required beside `refresh_token`: none is built in")
		}
	}
	for _, p := range protocols {
		k.way.Endpoints = append(k.way.Endpoints, upstream.Endpoint{Protocol: p})
		k.rules.Protocols = append(k.rules.Protocols, p)
	}
	d.foreignFields(k)
}

// foreignFields refuses what other providers' keys have.
func (d *decoder) foreignFields(k *keyDraft) {
	copilot, antigravity := k.way.Provider == upstream.Copilot, k.way.Provider == upstream.Antigravity
	s := &k.signIn
	for _, f := range []struct {
		s   str
		own bool
		of  string
	}{
		{s.githubToken, copilot, upstream.Copilot}, {s.accountType, copilot, upstream.Copilot},
		{s.tokenURL, copilot || antigravity, "copilot or antigravity"},
		{s.clientID, antigravity, upstream.Antigravity}, {s.clientSecret, antigravity, upstream.Antigravity},
		{s.refreshToken, antigravity, upstream.Antigravity}, {s.project, antigravity, upstream.Antigravity},
		{s.modelEndpoint, antigravity, upstream.Antigravity},
	} {
		if f.s.given() && !f.own {
			d.fail(f.s.value, "is for keys of provider %s", f.of)
		}
	}
}

// shown settles what a key signs in with: its own token, or what a login obtained.
func (d *decoder) shown(k *keyDraft, name string, token str, kind string) {
	if account, ok := strings.CutPrefix(k.credential.text, accountPrefix); ok {
		d.account(k, account, kind)
		if token.given() {
			d.fail(token.value, "must not be set beside `credential`, which says it")
		}
		return
	}
	if k.credential.given() && k.credential.text != name {
		d.fail(k.credential.value, "must be %q, or %q and the name of a login", name, accountPrefix)
		return
	}
	secret, override := trimKey(token.text), trimKey(d.variable(keyVariable(k.id.text)))
	switch {
	case override != "":
		secret = override
		for _, m := range k.missing {
			m.moot = m.moot || token.given() && m.at.node == token.node
		}
	case !token.given():
		d.fail(k.at, "`%s` is required, or `credential`: %q and the name of a login", name, accountPrefix)
		return
	}
	if wrong := anyText(secret); wrong != "" {
		d.fail(token.value, "%s", wrong)
	}
	k.way.APIKey = auth.NewSecret(secret)
}

// account takes a credential that a login obtained.
func (d *decoder) account(k *keyDraft, name, kind string) {
	client, ok := d.logins[name]
	switch {
	case !ok:
		d.fail(k.credential.value, "`oauth` has no login of this name%s", didYouMean(name, slices.Sorted(maps.Keys(d.logins))))
	case client.Kind != "" && client.Kind != kind:
		d.fail(k.credential.value, "the login %q is of kind %s; this key needs %s", name, client.Kind, kind)
	}
	k.way.Account, k.sends = name, false
}
