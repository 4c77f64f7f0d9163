package config

import (
	"strings"
	"testing"

	"coding-proxy/pool"
	"coding-proxy/proxy/upstream"
)

// Keys of providers that need more than a key, and where their tokens come from.
func TestSignInKeys(t *testing.T) {
	const logins = `"oauth": {"work": {"kind": "google", "client_id": "C", "client_secret": "S3CR3T-c", "token_url": "https://id.example/token", "scopes": ["a"]},
		"hub": {"kind": "copilot", "client_id": "H", "device_code_url": "http://127.0.0.1:1/device"}},`
	load := func(fields string) (pool.Key, upstream.Options) {
		t.Helper()
		c := mustLoad(t, source(`{`+logins+`"pool": {"keys": [{"id": "k", `+fields+`}]}}`, map[string]string{"GITHUB": "S3CR3T-g"}))
		return c.Pool.Tiers[0].Keys[0], c.Upstreams["k"]
	}
	k, o := load(`"provider": "copilot", "github_token": "${GITHUB}", "account_type": "business", "token_url": "https://api.ghe.example/token", "proxy_url": "socks5://u:S3CR3T-p@127.0.0.1:1080"`)
	equal(t, "dialects", k.Protocols, []string{"anthropic", "openai-responses", "openai-chat"})
	equal(t, "copilot", []any{o.Provider, o.APIKey.Reveal(), o.Copilot.AccountType, o.TokenURL.String(), o.Copilot.BaseURL == nil, o.Proxy.Reveal(), o.Account, k.Disabled},
		[]any{"copilot", "S3CR3T-g", "business", "https://api.ghe.example/token", true, "socks5://u:S3CR3T-p@127.0.0.1:1080", "", false})

	k, o = load(`"provider": "copilot", "credential": "oauth:hub", "base_url": "https://copilot-api.ghe.example/"`)
	equal(t, "copilot with a login", []any{o.Account, o.APIKey.IsZero(), o.Copilot.BaseURL.String(), k.Disabled}, []any{"hub", true, "https://copilot-api.ghe.example", false})

	k, o = load(`"provider": "antigravity", "client_id": "C", "client_secret": "S3CR3T-s", "refresh_token": "S3CR3T-r", "project": "p", "model_endpoint": "models/m", "base_url": "https://g.example/v1beta", "proxy_url": "direct"`)
	equal(t, "dialects", k.Protocols, []string{"gemini"})
	equal(t, "antigravity", []any{o.Provider, o.APIKey.Reveal(), o.Antigravity.ClientID, o.Antigravity.ClientSecret.Reveal(), o.Antigravity.Project, o.Antigravity.ModelEndpoint, o.Antigravity.BaseURL.String(), o.Proxy.Reveal()},
		[]any{"antigravity", "S3CR3T-r", "C", "S3CR3T-s", "p", "models/m", "https://g.example/v1beta", "direct"})

	_, o = load(`"provider": "antigravity", "credential": "oauth:work"`)
	equal(t, "antigravity with a login", []any{o.Account, o.Antigravity.ClientID}, []any{"work", ""})

	k, o = load(`"provider": "gemini", "credential": "oauth:work"`)
	equal(t, "any provider with a login", []any{o.Account, o.Provider, waysOf(o), k.Disabled}, []any{"work", "", []string{"gemini https://generativelanguage.googleapis.com/v1beta : "}, false})

	c := mustLoad(t, source(`{`+logins+`"pool": {"keys": [{"id": "k", "provider": "copilot", "github_token": "S3CR3T-g"}]}}`, nil))
	equal(t, "logins", []any{c.Logins["work"].Kind, c.Logins["work"].ClientID, c.Logins["work"].ClientSecret.Reveal(), c.Logins["work"].TokenURL, c.Logins["hub"].DeviceCodeURL, c.Logins["work"].Name},
		[]any{"google", "C", "S3CR3T-c", "https://id.example/token", "http://127.0.0.1:1/device", "work"})
	if text := string(c.Masked()); strings.Contains(text, "S3CR3T") {
		t.Errorf("masked: %s", text)
	}

	c = mustLoad(t, source(keyOnly(`"id": "k", "provider": "copilot", "github_token": "${NO}"`), nil))
	equal(t, "a token that is not set", []any{c.Pool.Tiers[0].Keys[0].Disabled, c.Pool.Tiers[0].Keys[0].DisabledReason}, []any{true, "environment variable NO is not set"})
	c = mustLoad(t, source(keyOnly(`"id": "k", "provider": "copilot"`), map[string]string{"PROXY_API_KEY_K": "S3CR3T-e"}))
	equal(t, "a token from the environment", c.Upstreams["k"].APIKey.Reveal(), "S3CR3T-e")
}

func signInFaults() []fault {
	inLogins := func(fields string) string {
		return "{\"oauth\": {\n" + fields + "\n}, " + keyOnly(`"id": "a", "provider": "anthropic", "api_key": "S3CR3T"`)[1:]
	}
	return []fault{
		{"logins", inLogins(`"a b": {}, "x": {"kind": "copilt", "client_id": ""}, "y": {"client_secret": "S3CR3T"}, "z": {"kind": "google", "client_id": "c", "token_url": "http://a.example/S3CR3T"}`), []string{
			`2:1: oauth["a b"]: name must be of letters, digits, dots, hyphens and underscores`,
			`2:26: oauth.x.kind: must be one of "copilot", "google"; did you mean "copilot"?`,
			"2:49: oauth.x.client_id: must not be empty",
			"2:59: oauth.y: `kind` is required", "2:59: oauth.y: `client_id` is required",
			"2:143: oauth.z.token_url: must be https: over http the key is readable on the way"}},
		{"what a provider settles", keyOnly(`"id": "a", "provider": "copilot", "github_token": "S3CR3T", "protocol": "gemini", "api_key": "S3CR3T", "project": "p"`), []string{
			"2:73: pool.keys[0].protocol: must not be set: provider copilot settles it",
			"2:94: pool.keys[0].api_key: must not be set: provider copilot settles it",
			"2:115: pool.keys[0].project: is for keys of provider antigravity"}},
		{"no token", keyOnly("\"id\": \"a\", \"provider\": \"copilot\"},\n{\"id\": \"b\", \"provider\": \"antigravity\", \"refresh_token\": \"S3CR3T\""), []string{
			"1:19: pool.keys: strategy session-sticky needs daily_limit_tokens or monthly_limit_tokens on every enabled key (or take another strategy); without: \"a\", \"b\"",
			"1:20: pool.keys[0]: `github_token` is required, or `credential`: \"oauth:\" and the name of a login",
			"3:1: pool.keys[1]: `client_id` is required beside `refresh_token`: none is built in"}},
		{"a login that is not there", keyOnly(`"id": "a", "provider": "copilot", "credential": "oauth:hub"`), []string{
			"2:49: pool.keys[0].credential: `oauth` has no login of this name"}},
		{"fields of others", keyOnly(`"id": "a", "provider": "anthropic", "api_key": "S3CR3T", "github_token": "S3CR3T", "token_url": "https://a.example"`), []string{
			"2:74: pool.keys[0].github_token: is for keys of provider copilot",
			"2:97: pool.keys[0].token_url: is for keys of provider copilot or antigravity"}},
		{"outbound proxies", keyOnly(`"id": "a", "provider": "anthropic", "api_key": "S3CR3T", "proxy_url": "ftp://S3CR3T@a.example"},
{"id": "b", "provider": "anthropic", "api_key": "S3CR3T", "proxy_url": "directly"}, {"id": "c", "provider": "anthropic", "api_key": "S3CR3T", "proxy_url": "http://a.example:0/S3CR3T"`), []string{
			`2:71: pool.keys[0].proxy_url: must begin with http://, https:// or socks5://, or be "direct"`,
			`3:72: pool.keys[1].proxy_url: must be a URL like http://host:port, or "direct"`,
			`3:156: pool.keys[2].proxy_url: must be a URL like http://host:port, or "direct"`}},
	}
}
