// Package upstream says to whom a request goes: address, credential, headers, quirks.
package upstream

import (
	"net/url"

	"coding-proxy/auth"
)

// Dialects, as configurations name them, whose providers want something of their own.
const (
	Anthropic       = "anthropic"
	OpenAIResponses = "openai-responses"
	OpenAIChat      = "openai-chat"
	Gemini          = "gemini"
)

// Endpoint is an address at which a provider speaks one dialect.
type Endpoint struct {
	Protocol     string   // dialect, e.g. "openai-chat"
	BaseURL      *url.URL // path prefix included
	HeaderName   string   // header that carries the key here, e.g. "authorization"; "" = none is sent
	HeaderPrefix string   // put before the key, e.g. "Bearer "
}

// Options describe one key's way to its provider.
type Options struct {
	KeyID       string
	Endpoints   []Endpoint // at least one, at most one a dialect; the first is taken for clients of others
	Passthrough bool       // send the client's own credential on; APIKey is empty
	APIKey      auth.Secret
	Headers     map[string]auth.Secret // further headers; they replace the client's, anthropic-beta is merged
	DropFields  []string               // top-level body fields that the provider refuses
	DropBetas   []string               // anthropic-beta values that the provider refuses
}
