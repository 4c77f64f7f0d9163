package config

import "coding-proxy/pool"

const (
	anthropic   = "anthropic"
	passthrough = "passthrough"
)

// preset is what a known provider brings; every part can be overridden.
type preset struct {
	protocol string
	baseURL  string
	mapping  []pool.MappingRule // for keys without models in tiers without a mapping
}

// presets are the providers that speak Anthropic Messages (facts/reference-chain.md 2.3 and 3.7; DeepSeek:
// api-docs.deepseek.com/guides/anthropic_api). All take the key as x-api-key.
func presets() map[string]preset {
	return map[string]preset{
		anthropic: {anthropic, "https://api.anthropic.com", nil},
		"zhipu": {anthropic, "https://open.bigmodel.cn/api/anthropic", []pool.MappingRule{
			{Pattern: "claude-haiku-*", Target: "glm-4.5-air"}, {Pattern: "claude-*", Target: "glm-5.1"},
		}},
		"kimi":     {anthropic, "https://api.kimi.com/coding", nil},
		"minimax":  {anthropic, "https://api.minimaxi.com/anthropic", nil},
		"deepseek": {anthropic, "https://api.deepseek.com/anthropic", nil},
		"qwen":     {anthropic, "https://coding-intl.dashscope.aliyuncs.com/apps/anthropic", nil},
		"xiaomi":   {anthropic, "https://token-plan-cn.xiaomimimo.com/anthropic", nil},
		"doubao":   {anthropic, "https://ark.cn-beijing.volces.com/api/coding", nil},
	}
}
