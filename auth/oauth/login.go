package oauth

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Login is one sign-in to a provider by a person. What its flows return is for Manager.Keep.
type Login struct {
	Client    Client // with its defaults
	Transport http.RoundTripper
	Now       func() time.Time
	Port      int // that the loopback flow listens on, for providers that want a fixed one; 0: any

	patience time.Duration // with a person in a browser; 0: loopbackPatience
}

// ask posts a form of the client's.
func (l Login) ask(ctx context.Context, address string, form url.Values) (*reply, *Error) {
	ctx, cancel := context.WithTimeout(ctx, exchangePatience)
	defer cancel()
	form.Set("client_id", l.Client.ClientID)
	if !l.Client.ClientSecret.IsZero() {
		form.Set("client_secret", l.Client.ClientSecret.Reveal())
	}
	return ask(ctx, l.Transport, address, form, l.Now())
}

// credential is what a provider has granted.
func (l Login) credential(r *reply) Credential {
	now := l.Now()
	c := Credential{Kind: l.Client.Kind, Refresh: r.Refresh, Access: r.Access, Scope: printable(r.Scope), Account: accountOf(r.IDToken), Obtained: now, Refreshed: now}
	if r.ExpiresIn > 0 || r.Refresh != "" { // GitHub's tokens without an end say none
		c.Expires = now.Add(r.life())
	}
	return c
}

// refused is why a provider grants nothing, in words for the person who is signing in.
func (l Login) refused(r *reply) *Error {
	e := r.refusal()
	switch {
	case e == nil:
		return nil
	case r.Problem.code == "access_denied":
		return denied()
	case r.Problem.code == "expired_token":
		return expired()
	case e.Reason == ReasonCredentials:
		e.Message += ": check client_id and client_secret of \"" + l.Client.Name + "\" in `oauth`"
	case r.Problem.code == "device_flow_disabled":
		e.Message += ": switch the device flow on where the client was registered"
	case e.Reason == ReasonGrant:
		e.Message += ": sign in once more"
	}
	return e
}

func denied() *Error {
	return &Error{Reason: ReasonDenied, Final: true, Message: "the request was declined on the provider's page; nothing was stored"}
}

func expired() *Error {
	return &Error{Reason: ReasonExpired, Final: true, Message: "nobody agreed on the provider's page in time; nothing was stored, sign in once more"}
}

// accountOf is who an id token names, "" if nobody. It came from the provider itself, so its signature tells nothing more.
func accountOf(idToken string) string {
	parts := strings.Split(idToken, ".")
	if len(parts) != 3 {
		return ""
	}
	data, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil {
		return ""
	}
	var claims struct{ Email, Sub string }
	if json.Unmarshal(data, &claims) != nil {
		return ""
	}
	return printable(cmp.Or(claims.Email, claims.Sub))
}
