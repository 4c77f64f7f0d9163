// Package upstream says to whom a request goes: address, credential, headers, quirks.
package upstream

import (
	"net/url"

	"coding-proxy/auth"
)

// Options describe one key's way to its provider.
type Options struct {
	KeyID        string
	Protocol     string   // dialect that the provider speaks, e.g. "anthropic"
	BaseURL      *url.URL // path prefix included
	Passthrough  bool     // send the client's own credential on; APIKey is empty
	APIKey       auth.Secret
	HeaderName   string                 // header that carries APIKey, e.g. "x-api-key"
	HeaderPrefix string                 // put before APIKey, e.g. "Bearer "
	Headers      map[string]auth.Secret // further headers; they replace the client's, anthropic-beta is merged
	DropFields   []string               // top-level body fields that the provider refuses
	DropBetas    []string               // anthropic-beta values that the provider refuses
}
