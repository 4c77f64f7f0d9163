package config

import (
	"testing"

	"coding-proxy/pool"
)

// Each known provider brings its addresses and dialects, and every part can be overridden.
func TestPresets(t *testing.T) {
	elsewhere := func(protocol string) string { return protocol + " https://gateway.example/x authorization: Bearer " }
	claude := func(base string) []string { return []string{"anthropic " + base + " x-api-key: "} }
	for provider, want := range map[string][]string{
		"anthropic": claude("https://api.anthropic.com"), "zhipu": claude("https://open.bigmodel.cn/api/anthropic"),
		"kimi": claude("https://api.kimi.com/coding"), "minimax": claude("https://api.minimaxi.com/anthropic"),
		"deepseek": claude("https://api.deepseek.com/anthropic"), "qwen": claude("https://coding-intl.dashscope.aliyuncs.com/apps/anthropic"),
		"xiaomi": claude("https://token-plan-cn.xiaomimimo.com/anthropic"), "doubao": claude("https://ark.cn-beijing.volces.com/api/coding"),
		"openai":     {"openai-responses https://api.openai.com/v1 authorization: Bearer ", "openai-chat https://api.openai.com/v1 authorization: Bearer "},
		"openrouter": {"openai-chat https://openrouter.ai/api/v1 authorization: Bearer "},
		"gemini":     {"gemini https://generativelanguage.googleapis.com/v1beta x-goog-api-key: "},
		"ollama":     {"openai-chat http://127.0.0.1:11434/v1 authorization: Bearer "},
	} {
		t.Run(provider, func(t *testing.T) {
			key := `"id": "k", "provider": "` + provider + `", "api_key": "S3CR3T"`
			c := mustLoad(t, source(keyOnly(key), nil))
			equal(t, "endpoints", waysOf(c.Upstreams["k"]), want)
			equal(t, "warnings", c.Warnings, nil)

			protocol := c.Pool.Tiers[0].Keys[0].Protocols[0]
			there := key + `, "base_url": "https://gateway.example/x", "key_header_name": "authorization"`
			if len(want) > 1 {
				there += `, "protocol": "` + protocol + `"`
			}
			c = mustLoad(t, source(keyOnly(there), nil))
			equal(t, "elsewhere", waysOf(c.Upstreams["k"]), []string{elsewhere(protocol)})
			equal(t, "protocols elsewhere", c.Pool.Tiers[0].Keys[0].Protocols, []string{protocol})
		})
	}
	equal(t, "how many", len(presets()), 12)
}

// What a key says of itself goes before what its provider brings.
func TestAddresses(t *testing.T) {
	for _, test := range []struct {
		name, key string
		want      []string
	}{
		{"one of the provider's protocols", `"provider": "openai", "protocol": "openai-chat"`,
			[]string{"openai-chat https://api.openai.com/v1 authorization: Bearer "}},
		{"that protocol elsewhere", `"provider": "openai", "protocol": "openai-chat", "base_url": "https://a.example/v1"`,
			[]string{"openai-chat https://a.example/v1 authorization: Bearer "}},
		{"a protocol that the provider is not known to speak", `"provider": "deepseek", "protocol": "openai-chat", "base_url": "https://a.example"`,
			[]string{"openai-chat https://a.example authorization: Bearer "}},
		{"a provider of the user's own", `"protocol": "gemini", "base_url": "https://a.example/v1beta"`,
			[]string{"gemini https://a.example/v1beta x-goog-api-key: "}},
		{"responses", `"protocol": "openai-responses", "base_url": "https://a.example/v1"`,
			[]string{"openai-responses https://a.example/v1 authorization: Bearer "}},
		{"endpoints of a known provider replace its own", `"provider": "openai", "endpoints": {"gemini": "https://a.example"}`,
			[]string{"gemini https://a.example x-goog-api-key: "}},
		{"http is allowed at each endpoint", `"allow_http": true, "endpoints": {"openai-chat": "http://a.example", "anthropic": "http://b.example"}`,
			[]string{"anthropic http://b.example x-api-key: ", "openai-chat http://a.example authorization: Bearer "}},
		{"one header for all endpoints", `"key_header_name": "X-Token", "endpoints": {"openai-chat": "https://a.example", "anthropic": "https://b.example"}`,
			[]string{"anthropic https://b.example x-token: ", "openai-chat https://a.example x-token: "}},
		{"one prefix for all endpoints", `"key_prefix": "Key ", "endpoints": {"openai-chat": "https://a.example", "gemini": "https://b.example"}`,
			[]string{"openai-chat https://a.example authorization: Key ", "gemini https://b.example x-goog-api-key: Key "}},
		{"no prefix", `"key_prefix": "", "provider": "openrouter"`, []string{"openai-chat https://openrouter.ai/api/v1 authorization: "}},
		{"a bearer for gemini", `"key_header_name": "authorization", "provider": "gemini"`,
			[]string{"gemini https://generativelanguage.googleapis.com/v1beta authorization: Bearer "}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := mustLoad(t, source(keyOnly(`"id": "k", "api_key": "S3CR3T", `+test.key), nil))
			equal(t, "endpoints", waysOf(c.Upstreams["k"]), test.want)
			equal(t, "warnings", c.Warnings, nil)
		})
	}
}

// A provider that asks for no key gets none; one that is given is sent, and one that is lacking disables the key as ever.
func TestKeyless(t *testing.T) {
	const bare, keyed = "openai-chat http://127.0.0.1:11434/v1 : ", "openai-chat http://127.0.0.1:11434/v1 authorization: Bearer "
	for _, test := range []struct {
		name, key   string
		environment map[string]string
		way, secret string
		reason      string
		incomplete  bool
	}{
		{"none", ``, nil, bare, "", "", false},
		{"its own header", `, "headers": {"Authorization": "S3CR3T"}`, nil, bare, "", "", false},
		{"given", `, "api_key": "S3CR3T"`, nil, keyed, "S3CR3T", "", false},
		{"by its variable", ``, map[string]string{"PROXY_API_KEY_K": "S3CR3T"}, keyed, "S3CR3T", "", false},
		{"empty", `, "api_key": "${EMPTY}"`, map[string]string{"EMPTY": ""}, keyed, "", "environment variable EMPTY is empty", true},
		{"not set", `, "api_key": "${NO}"`, nil, keyed, "${NO}", "environment variable NO is not set", true},
		{"a header that is not set", `, "headers": {"x-a": "${NO}"}`, nil, bare, "", "environment variable NO is not set", true},
		{"switched off", `, "enabled": false`, nil, bare, "", "switched off in the configuration", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := mustLoad(t, source(keyOnly(`"id": "k", "provider": "ollama"`+test.key), test.environment))
			k, way := c.Pool.Tiers[0].Keys[0], c.Upstreams["k"]
			equal(t, "way", waysOf(way), []string{test.way})
			equal(t, "secret", way.APIKey.Reveal(), test.secret)
			equal(t, "disabled", []any{k.Disabled, k.DisabledReason, k.Incomplete}, []any{test.reason != "", test.reason, test.incomplete})
		})
	}
	c := mustLoad(t, source(keyOnly(`"id": "k", "provider": "ollama", "credential": "passthrough"`), nil))
	equal(t, "passthrough", []any{c.Pool.Tiers[0].Keys[0].Passthrough, waysOf(c.Upstreams["k"])}, []any{true, []string{bare}})
	c = mustLoad(t, source(keyOnly(`"id": "k", "provider": "ollama", "base_url": "http://10.0.0.2:11434/v1"`), nil))
	equal(t, "on another machine", waysOf(c.Upstreams["k"]), []string{"openai-chat http://10.0.0.2:11434/v1 : "})
	c = mustLoad(t, source(keyOnly(`"id": "k", "provider": "ollama", "endpoints": {"anthropic": "http://127.0.0.1:11434"}`), nil))
	equal(t, "in another dialect", waysOf(c.Upstreams["k"]), []string{"anthropic http://127.0.0.1:11434 : "})
}

// In the older forms Anthropic is the only protocol, so names of providers that do not speak it are labels.
func TestProvidersInOlderForms(t *testing.T) {
	for _, provider := range []string{"openai", "gemini", "ollama", "openrouter", "copilot", "antigravity"} {
		c := mustLoad(t, source(`{"upstreams": [{"id": "k", "provider": "`+provider+`", "base_url": "https://a.example", "api_key": "S3CR3T"}]}`, nil))
		equal(t, provider, waysOf(c.Upstreams["k"]), []string{"anthropic https://a.example x-api-key: "})
		equal(t, provider+" without an address and a key", problems(t, source(`{"upstreams": [{"id": "k", "provider": "openai"}]}`, nil)), []string{
			"config.json:1:16: upstreams[0]: `base_url` is required; the providers that bring it are " + known,
			"config.json:1:16: upstreams[0]: `api_key` is required"})
	}
	c := mustLoad(t, source(`{"upstreams": [{"id": "k", "provider": "kimi", "api_key": "S3CR3T"}]}`, nil))
	equal(t, "kimi", waysOf(c.Upstreams["k"]), []string{"anthropic https://api.kimi.com/coding x-api-key: "})

	// A file of reference 2 has no protocols; one key that says more makes it a file of today.
	old := `{"id": "a", "provider": "house", "base_url": "https://a.example", "api_key": "S3CR3T"}`
	c = mustLoad(t, source(`{"pool": {"keys": [`+old+`, {"id": "b", "provider": "copilot", "base_url": "https://b.example", "api_key": "S3CR3T"}], "strategy": "fill-first"}}`, nil))
	equal(t, "labels", []pool.Key{{ID: "a", Provider: "house", Protocols: []string{"anthropic"}}, {ID: "b", Provider: "copilot", Protocols: []string{"anthropic"}}}, c.Pool.Tiers[0].Keys)
	for _, more := range []string{`"provider": "ollama"`, `"endpoints": {"gemini": "https://b.example"}, "api_key": "S3CR3T"`} {
		lines := problems(t, source(`{"pool": {"keys": [`+old+`, {"id": "b", `+more+`}], "strategy": "fill-first"}}`, nil))
		equal(t, more, lines, []string{"config.json:1:20: pool.keys[0]: `protocol` is required; the providers that bring it are " + allKnown})
	}
}

// The masked file shows addresses and no keys.
func TestMaskedEndpoints(t *testing.T) {
	c := mustLoad(t, source(`{"pool": {"keys": [{"id": "k", "endpoints": {"gemini": "https://a.example/v1beta"}, "api_key": "S3CR3T"}]}}`, nil))
	equal(t, "masked", string(c.Masked()), `{
  "pool": {
    "keys": [
      {
        "id": "k",
        "endpoints": {
          "gemini": "https://a.example/v1beta"
        },
        "api_key": "***"
      }
    ]
  }
}
`)
}
