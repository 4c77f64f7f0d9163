package demo

import (
	"net/http"
	"strings"
)

// endpoint is one that takes a conversation.
type endpoint int

const (
	messagesEndpoint endpoint = iota
	countEndpoint
)

// takes reports whether the endpoint knows a top-level field.
func (e endpoint) takes(field string) bool {
	switch field {
	case "model", "messages", "system", "tools", "tool_choice", "thinking", "output_config", "cache_control", "speed":
		return true
	case "max_tokens", "stream", "stop_sequences", "metadata", "service_tier", "inference_geo", "container", "diagnostics",
		"temperature", "top_p", "top_k", "fallbacks", "fallback_credit_token", "thread":
		return e == messagesEndpoint
	}
	return len(betas(field)) > 0
}

// betas lists the beginnings of the anthropic-beta values that a field needs; none for a stable one.
func betas(field string) []string {
	switch field {
	case "mcp_servers":
		return []string{"mcp-client-"}
	case "context_management":
		return []string{"context-management-", "compact-"}
	case "compaction":
		return []string{"compact-"}
	case "thread":
		return []string{"message-threads-"}
	case "fallbacks":
		return []string{"server-side-fallback-"}
	case "fallback_credit_token":
		return []string{"fallback-credit-"}
	case "billing_policy":
		return []string{"user-profiles-"}
	case "output_format":
		return []string{"structured-outputs-"}
	}
	return nil
}

// checkField refuses a field that is unknown, whose beta was not asked for, or that the version does not have.
func (e endpoint) checkField(name string, header http.Header) *refusal {
	needed := betas(name)
	if !e.takes(name) || len(needed) > 0 && !hasBeta(header, needed) {
		return bad("%s: Extra inputs are not permitted", name)
	}
	switch name {
	case "temperature", "top_p", "top_k":
		if header.Get("anthropic-version") == version2026 {
			return bad("%s: not supported in anthropic-version %s", name, version2026)
		}
	}
	return nil
}

func hasBeta(header http.Header, beginnings []string) bool {
	for _, line := range header.Values("anthropic-beta") {
		for value := range strings.SplitSeq(line, ",") {
			for _, beginning := range beginnings {
				if strings.HasPrefix(strings.TrimSpace(value), beginning) {
					return true
				}
			}
		}
	}
	return false
}
