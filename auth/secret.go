// Package auth says who may ask: request keys and the groups that limit their holders.
package auth

import (
	"fmt"
	"log/slog"
)

// mask is what every secret prints as.
const mask = "***"

// Secret is key material that prints itself as ***, whatever verb, logger or encoder gets hold of it.
// Only Reveal gives the text.
//
// It holds a pointer: of a struct's unexported fields fmt prints the inside without asking, and finds an address.
type Secret struct{ text *string }

// NewSecret wraps text.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{&text}
}

// Reveal returns the text. Call it where the secret is sent or compared, nowhere else.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// IsZero reports whether there is no text.
func (s Secret) IsZero() bool { return s.text == nil }

// String returns ***, or nothing for an empty secret.
func (s Secret) String() string {
	if s.text == nil {
		return ""
	}
	return mask
}

// Format keeps every verb of fmt from showing the text.
func (s Secret) Format(f fmt.State, _ rune) {
	_, _ = f.Write([]byte(s.String())) // fmt has no place for the error
}

// MarshalText keeps encoders from showing the text.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue keeps loggers from showing the text.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
