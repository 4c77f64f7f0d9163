package config

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"coding-proxy/pool"
)

// designTables are the tables of design/config.md: section, its fields.
func designTables() map[string]string {
	return map[string]string{
		"server":                  "host port data_dir allowed_hosts cors_origins trusted_proxies shutdown_seconds",
		"auth":                    "request_keys groups admin_key protect_pages allow_addresses deny_addresses local_api_key",
		"auth.request_keys[]":     "code api_key group models requests_per_minute max_in_flight daily_limit_tokens monthly_limit_tokens daily_limit_usd addresses expires",
		"auth.groups[]":           "name keys tiers",
		"tiers[]":                 "name strategy tier_return circuit_breaker quota_guard model_mapping default_model",
		"tiers[].circuit_breaker": "failure_threshold recovery_timeout_seconds success_threshold max_recovery_seconds",
		"tiers[].quota_guard":     "token_budget window_hours weekly_token_budget threshold_percent probe_interval_seconds",
		"pool":                    "keys strategy tier_return rebalance_threshold rebalance_cooldown_seconds session_idle_hours max_wait_seconds count",
		"pool.count":              "input output cache_creation cache_read",
		"model_mapping[]":         "pattern target is_regex",
		"failover":                "status_codes error_types error_message_patterns cap_patterns max_attempts max_seconds hold_first_event_seconds",
		"timeouts":                "connect_seconds first_byte_seconds first_byte_nonstream_seconds idle_seconds",
		"limits":                  "max_body_bytes max_header_bytes max_in_flight",
		"":                        "count_tokens answer_probes model_mapping server auth tiers pool failover timeouts limits mcp oauth pricing stats metrics log upstreams",
		"mcp.any":                 "url api_key headers",
		"oauth":                   "kind client_id client_secret device_code_url authorize_url token_url scopes",
		"pricing[]":               "pattern input output cache_write cache_read",
		"stats":                   "journal_days usage_days",
		"metrics":                 "key_labels",
		"log":                     "level format file",
		"pool.keys[]": "id tier provider protocol base_url allow_http endpoints credential api_key key_header_name key_prefix headers models " +
			"daily_limit_tokens monthly_limit_tokens max_concurrent enabled proxy_url drop_fields drop_betas " +
			"github_token token_url account_type client_id client_secret refresh_token project model_endpoint",
		"upstreams[]": "id provider base_url api_key model real_model models",
	}
}

func decodeTables() map[string][]field {
	c, f, k := defaults(), &file{}, &keyDraft{}
	return map[string][]field{
		"":                        rootFields(c, f),
		"server":                  serverFields(&c.Server),
		"auth":                    authFields(&c.Auth, f),
		"auth.request_keys[]":     callerFields(&callerDraft{}),
		"auth.groups[]":           groupFields(&groupDraft{}),
		"tiers[]":                 tierFields(&tierDraft{}),
		"tiers[].circuit_breaker": breakerFields(&pool.BreakerOptions{}),
		"tiers[].quota_guard":     guardFields(&pool.GuardOptions{}),
		"model_mapping[]":         ruleFields(&ruleDraft{}),
		"pool":                    poolFields(&c.Pool, f),
		"pool.count":              countFields(&c.Pool.Count),
		"pool.keys[]":             keyFields(k),
		"upstreams[]":             upstreamFields(k),
		"mcp.any":                 mcpFields(&mcpDraft{}),
		"oauth":                   loginFields(&loginDraft{}),
		"failover":                failoverFields(&c.Proxy.Failover),
		"timeouts":                timeoutFields(&c.Proxy.Timeouts),
		"limits":                  limitFields(&c.Proxy.Limits),
		"stats":                   statsFields(&c.Stats),
		"pricing[]":               priceFields(&priceDraft{}),
		"metrics":                 metricsFields(&c.Web),
		"log":                     logFields(&c.Log),
	}
}

func TestFieldsAreThoseOfTheDesign(t *testing.T) {
	tables := decodeTables()
	equal(t, "sections", slices.Sorted(maps.Keys(tables)), slices.Sorted(maps.Keys(designTables())))
	for section, fields := range tables {
		var all []string
		for _, f := range fields {
			all = append(all, f.name)
		}
		slices.Sort(all)
		equal(t, "fields of "+section, all, slices.Sorted(strings.FieldsSeq(designTables()[section])))
	}
}

// TestFieldsAreReachable puts a value of a wrong type at each place, so that a table that no section uses is found.
func TestFieldsAreReachable(t *testing.T) {
	for section, fields := range designTables() {
		for field := range strings.FieldsSeq(fields) {
			path := strings.TrimPrefix(strings.ReplaceAll(section, "[]", "[0]")+"."+field, ".")
			if lines := problems(t, source(nested(section, field), nil)); !strings.Contains(strings.Join(lines, "\n"), ": "+path+": must be ") {
				t.Errorf("%s: null gives %q", path, lines)
			}
		}
	}
}

// nested writes a file with null as the field of the section.
func nested(section, field string) string {
	file := `{"` + field + `": null}`
	parts := strings.Split(section, ".")
	slices.Reverse(parts)
	for _, part := range parts {
		if part == "" {
			continue
		}
		name, isList := strings.CutSuffix(part, "[]")
		if isList {
			file = "[" + file + "]"
		}
		file = `{"` + name + `": ` + file + `}`
	}
	return file
}
