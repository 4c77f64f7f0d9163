package daemon

import (
	"net/url"
	"testing"

	"coding-proxy/auth"
	"coding-proxy/proxy/upstream"
)

// A digest is another one when anything of the way is; that of a key with one Anthropic address is the one that files
// of the first version hold, so that what keys have earned outlives the upgrade.
func TestWayDigest(t *testing.T) {
	at := func(protocol, base, name, prefix string) upstream.Endpoint {
		u, err := url.Parse(base)
		if err != nil {
			t.Fatal(err)
		}
		return upstream.Endpoint{Protocol: protocol, BaseURL: u, HeaderName: name, HeaderPrefix: prefix}
	}
	way := func(secret string, endpoints ...upstream.Endpoint) upstream.Options {
		return upstream.Options{KeyID: "k", APIKey: auth.NewSecret(secret), Endpoints: endpoints}
	}
	claude := at("anthropic", "https://a.example", "x-api-key", "")
	salt := []byte("0123456789abcdef")
	if got, want := wayDigest(salt, way("secret-1", claude)), "c85faa689a1dde68"; got != want {
		t.Errorf("the digest of the first version was %s, now it is %s", want, got)
	}
	seen := map[string]int{}
	for i, o := range []upstream.Options{
		way("secret-1", claude),
		way("secret-2", claude),
		way("secret-1", at("anthropic", "https://b.example", "x-api-key", "")),
		way("secret-1", at("anthropic", "https://a.example", "x-api", "")),
		way("secret-1", at("anthropic", "https://a.example", "x-api-key", "k")),
		way("secret-1", at("openai-chat", "https://a.example", "x-api-key", "")),
		way("secret-1", at("openai-responses", "https://a.example", "x-api-key", "")),
		way("secret-1", claude, at("openai-chat", "https://a.example/v1", "authorization", "Bearer ")),
		way("secret-1", claude, at("openai-chat", "https://a.example/v1", "x-api-key", "")),
	} {
		d := wayDigest(salt, o)
		if before, twice := seen[d]; twice {
			t.Errorf("%d and %d have one digest", before, i)
		}
		seen[d] = i
	}
}
