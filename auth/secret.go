// Package auth says who may ask: request keys and the groups that limit their holders.
package auth

import "log/slog"

// mask is what every secret prints as.
const mask = "***"

// Secret is key material that prints itself as ***, whatever verb, logger or encoder gets hold of it.
// Only Reveal gives the text.
type Secret struct{ text string }

// NewSecret wraps text.
func NewSecret(text string) Secret { return Secret{text} }

// Reveal returns the text. Call it where the secret is sent or compared, nowhere else.
func (s Secret) Reveal() string { return s.text }

// IsZero reports whether there is no text.
func (s Secret) IsZero() bool { return s.text == "" }

// String returns ***, or nothing for an empty secret.
func (s Secret) String() string {
	if s.text == "" {
		return ""
	}
	return mask
}

// GoString keeps %#v from showing the text.
func (s Secret) GoString() string { return "auth.Secret(" + s.String() + ")" }

// MarshalText keeps encoders from showing the text.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue keeps loggers from showing the text.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
