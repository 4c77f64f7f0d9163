// Package oauth signs in to providers and keeps their tokens: it refreshes them before they end, once for all who wait.
package oauth

import (
	"time"

	"coding-proxy/auth"
)

// Token is what requests show to a provider for a while.
type Token struct {
	Access  auth.Secret
	Expires time.Time // zero: never
	BaseURL string    // where the token is good for, "" = the issuer did not say
}

// Reasons of an Error, in closed words.
const (
	ReasonNotSignedIn = "not_signed_in"               // nobody has logged in yet
	ReasonGrant       = "invalid_grant"               // the refresh token is revoked or used up
	ReasonCredentials = "invalid_credentials"         // the provider refuses the credential
	ReasonPermission  = "permission_upgrade_required" // the account has no such service
	ReasonScope       = "insufficient_scope"          // the login was granted too little
	ReasonTemporary   = "token_exchange_failed"       // the provider could not be asked, or had no answer
	ReasonDenied      = "access_denied"               // the person declined, in a login
	ReasonExpired     = "expired_token"               // nobody agreed in time, in a login
	ReasonState       = "state_mismatch"              // what came back belongs to another login
)

// Error says why there is no token.
type Error struct {
	Reason  string
	Final   bool          // a person must act: sign in again
	Message string        // for a person; the provider's own words are cut to 200 characters and hold no secret
	Retry   time.Duration // when it is worth asking again; 0 = not known
}

func (e *Error) Error() string {
	if e.Message == "" {
		return e.Reason
	}
	return e.Reason + ": " + e.Message
}
