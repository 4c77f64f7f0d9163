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
	Proxy       auth.Secret            // outbound proxy: a URL, which may hold a password, or "direct"; empty: the environment's

	Provider    string         // Copilot or Antigravity; "" = an address and a key are enough
	Account     string         // name of the login whose credential is shown; "" = APIKey is
	TokenURL    *url.URL       // where a token is had for the credential; nil: the provider's own
	Copilot     CopilotWay     // of that provider alone
	Antigravity AntigravityWay // of that provider alone
}

// Providers that need more than an address and a key.
const (
	Copilot     = "copilot"
	Antigravity = "antigravity"
)

// CopilotWay is what a key of GitHub Copilot has beside the others. APIKey is the GitHub token.
type CopilotWay struct {
	BaseURL     *url.URL // nil: the one that comes with the token
	AccountType string   // e.g. "individual", "business"
}

// AntigravityWay is what a key of Google's Code Assist has beside the others. APIKey is the refresh token.
type AntigravityWay struct {
	BaseURL       *url.URL // nil: the known ones in turn; one that ends in /v1beta speaks plain Gemini
	ClientID      string
	ClientSecret  auth.Secret
	Project       string // "" = it is asked for
	ModelEndpoint string // the model where none is mapped, "" = the client's
}
