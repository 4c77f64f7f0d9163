package codectest

import "coding-proxy/proxy/ir"

// Models are the upstream models with which a dialect is tried: what a request may hold depends on them. One takes all
// that is new, the other all that is old.
func Models(d *ir.Dialect) []string {
	switch d.Name {
	case "anthropic":
		return []string{"claude-opus-5-5", "claude-sonnet-4-5"}
	case "openai-chat":
		return []string{"gpt-5.6", "gpt-4.1"}
	case "openai-responses":
		return []string{"gpt-5.6", "another-model"}
	case "gemini":
		return []string{"gemini-3.8-flash", "gemini-2.5-pro"}
	}
	return []string{"a-model", "a-model"}
}
