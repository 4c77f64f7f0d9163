package config

import (
	"maps"
	"slices"

	"coding-proxy/pool"
	"coding-proxy/proxy/upstream"
)

const passthrough = "passthrough"

// preset is what a known provider brings; every part can be overridden.
type preset struct {
	endpoints []address
	mapping   []pool.MappingRule // for keys without models in tiers without a mapping
	keyless   bool               // asks for no credential: api_key may be left out
}

// address is where a provider speaks a dialect.
type address struct{ protocol, baseURL string }

// at is the preset's address for a protocol, as a list of one, or of none.
func (p preset) at(protocol string) []address {
	i := slices.IndexFunc(p.endpoints, func(a address) bool { return a.protocol == protocol })
	if i < 0 {
		return nil
	}
	return p.endpoints[i : i+1]
}

// presets are the providers whose addresses are known (facts/reference-chain.md 2.3 and 3.7; DeepSeek:
// api-docs.deepseek.com/guides/anthropic_api; Gemini: facts/providers-and-peers.md 3.3; the others' base URLs are those of
// their own documentation). Base URLs of OpenAI's kind contain the version.
func presets() map[string]preset {
	at := func(protocol, baseURL string) []address { return []address{{protocol, baseURL}} }
	return map[string]preset{
		"anthropic": {endpoints: at(upstream.Anthropic, "https://api.anthropic.com")},
		"zhipu": {endpoints: at(upstream.Anthropic, "https://open.bigmodel.cn/api/anthropic"), mapping: []pool.MappingRule{
			{Pattern: "claude-haiku-*", Target: "glm-4.5-air"}, {Pattern: "claude-*", Target: "glm-5.1"},
		}},
		"kimi":     {endpoints: at(upstream.Anthropic, "https://api.kimi.com/coding")},
		"minimax":  {endpoints: at(upstream.Anthropic, "https://api.minimaxi.com/anthropic")},
		"deepseek": {endpoints: at(upstream.Anthropic, "https://api.deepseek.com/anthropic")},
		"qwen":     {endpoints: at(upstream.Anthropic, "https://coding-intl.dashscope.aliyuncs.com/apps/anthropic")},
		"xiaomi":   {endpoints: at(upstream.Anthropic, "https://token-plan-cn.xiaomimimo.com/anthropic")},
		"doubao":   {endpoints: at(upstream.Anthropic, "https://ark.cn-beijing.volces.com/api/coding")},
		"openai": {endpoints: []address{
			{upstream.OpenAIResponses, "https://api.openai.com/v1"}, {upstream.OpenAIChat, "https://api.openai.com/v1"},
		}},
		"openrouter": {endpoints: at(upstream.OpenAIChat, "https://openrouter.ai/api/v1")},
		"gemini":     {endpoints: at(upstream.Gemini, "https://generativelanguage.googleapis.com/v1beta")},
		"ollama":     {endpoints: at(upstream.OpenAIChat, "http://127.0.0.1:11434/v1"), keyless: true},
	}
}

// signingIn are the providers that need more than an address and a key.
func signingIn() []string { return []string{upstream.Copilot, upstream.Antigravity} }

// bringing names the providers that bring an address for a protocol, "" is any, as the end of a message.
func bringing(protocol string) string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(presets())) {
		if protocol == "" || len(presets()[name].at(protocol)) > 0 {
			names = append(names, name)
		}
	}
	return "; the providers that bring it are " + quoteAll(names)
}

// carrier names the header in which a key is shown where a protocol is spoken.
func carrier(protocol string) string {
	switch protocol {
	case upstream.Anthropic:
		return "x-api-key"
	case upstream.Gemini:
		return "x-goog-api-key"
	}
	return authorization
}

// authorization is the header that wants a scheme before the key.
const authorization = "authorization"
