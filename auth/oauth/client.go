package oauth

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"

	"coding-proxy/auth"
)

// Kinds of clients.
const (
	KindCopilot = "copilot" // GitHub, by the device flow
	KindGoogle  = "google"  // by the loopback flow
)

// Client is as what we sign in to a provider: an entry of the configuration's oauth section. Ids and secrets are the
// user's own, none are built in.
type Client struct {
	Name          string // by which keys refer to it
	Kind          string
	ClientID      string
	ClientSecret  auth.Secret // GitHub's device flow needs none
	DeviceCodeURL string
	AuthorizeURL  string
	TokenURL      string
	Scopes        []string
}

// googleScope is what Google's scopes begin with.
const googleScope = "https://www.googleapis.com/auth/"

// WithDefaults fills in the kind's public addresses and scopes where the configuration names none.
func (c Client) WithDefaults() Client {
	var d Client
	switch c.Kind {
	case KindCopilot:
		d.DeviceCodeURL, d.TokenURL = "https://github.com/login/device/code", "https://github.com/login/oauth/access_token"
		d.Scopes = []string{"read:user"}
	case KindGoogle:
		d.AuthorizeURL, d.TokenURL = "https://accounts.google.com/o/oauth2/v2/auth", "https://oauth2.googleapis.com/token"
		for _, s := range []string{"cloud-platform", "userinfo.email", "userinfo.profile", "cclog", "experimentsandconfigs"} {
			d.Scopes = append(d.Scopes, googleScope+s)
		}
	}
	c.DeviceCodeURL = cmp.Or(c.DeviceCodeURL, d.DeviceCodeURL)
	c.AuthorizeURL = cmp.Or(c.AuthorizeURL, d.AuthorizeURL)
	c.TokenURL = cmp.Or(c.TokenURL, d.TokenURL)
	if len(c.Scopes) == 0 {
		c.Scopes = d.Scopes
	}
	c.Scopes = slices.Clone(c.Scopes)
	return c
}

// way is how a refresh token is exchanged: by which client, and for a key from which token on.
type way struct {
	client    Client
	seed      auth.Secret // the refresh token of a key's configuration
	transport http.RoundTripper
}

// digest tells one way from another.
func (w way) digest() [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %q", w.client.Kind, w.client.TokenURL, w.client.ClientID,
		w.client.ClientSecret.Reveal(), w.seed.Reveal()))
}

// clientDigest names a client in credentials.json without telling it.
func (w way) clientDigest() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", w.client.Kind, w.client.TokenURL, w.client.ClientID))
	return hex.EncodeToString(sum[:16])
}

// origin names the seed and its client in credentials.json without telling them; "" where there is no seed.
func (w way) origin() string {
	if w.seed.IsZero() {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", w.client.TokenURL, w.client.ClientID, w.seed.Reveal()))
	return hex.EncodeToString(sum[:16])
}
