package oauth

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"time"

	"coding-proxy/auth"
)

// Credential is what a login obtained, one entry of credentials.json.
type Credential struct {
	Kind      string    `json:"kind"`               // of the client that logged in: "copilot" or "google"
	Refresh   string    `json:"refresh,omitempty"`  // refresh token
	Access    string    `json:"access,omitempty"`   // GitHub: the token itself, which does not end
	Expires   time.Time `json:"expires,omitzero"`   // of Access
	Refreshed time.Time `json:"refreshed,omitzero"` // when Access was obtained
	Scope     string    `json:"scope,omitempty"`    // granted
	Account   string    `json:"account,omitempty"`  // who it is, for people
	Obtained  time.Time `json:"obtained,omitzero"`  // when somebody signed in; refreshing leaves it
	Client    string    `json:"client,omitempty"`   // digest of the client that signed in: another one cannot use it
	Origin    string    `json:"origin,omitempty"`   // digest of the refresh token in a key's configuration that this one came from
	Parked    string    `json:"parked,omitempty"`   // why it is of no use until the next login, in a closed word
}

// Format keeps every verb of fmt from showing the tokens.
func (c Credential) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "credential of kind %q", c.Kind) // fmt has no place for the error
}

// LogValue keeps loggers from showing them.
func (c Credential) LogValue() slog.Value { return slog.StringValue(fmt.Sprint(c)) }

// Vault keeps credentials where several processes may find them. Its errors are for people and hold no secret.
type Vault interface {
	// Read returns what is kept, by name.
	Read() (map[string]Credential, error)
	// Update changes what is kept while no other process can. What change leaves is on disk when Update returns; if change
	// fails, nothing is written.
	Update(ctx context.Context, change func(kept map[string]Credential) error) error
	// Hold does the work while nobody else, also in other processes, does any of the same name. Others of other names go on:
	// a provider that hangs holds up its own account alone.
	Hold(ctx context.Context, name string, work func() error) error
}

// identity tells one login from another. Refreshing makes another one only where the refresh token is rotated.
func (c Credential) identity() [sha256.Size]byte {
	proof := c.Refresh
	if proof == "" {
		proof = c.Access
	}
	return sha256.Sum256(fmt.Appendf(nil, "%q %q %q %d", c.Kind, c.Origin, proof, c.Obtained.UnixNano()))
}

// token is the access token, if that serves a while yet.
func (c Credential) token(now time.Time) (t Token, ok bool) {
	if c.Access == "" {
		return Token{}, false
	}
	life := 10 * early // where it is not known when it began
	if !c.Refreshed.IsZero() {
		life = c.Expires.Sub(c.Refreshed)
	}
	t = Token{Access: auth.NewSecret(c.Access), Expires: c.Expires}
	return t, c.Expires.IsZero() || now.Before(c.Expires) && c.Expires.Sub(now) >= margin(life)
}
