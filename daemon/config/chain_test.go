package config

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"coding-proxy/pool"
)

// A file of reference 1 becomes tiers; the new form that the warning prints is a configuration and means the same.
func TestChainForm(t *testing.T) {
	environment := map[string]string{"ZHIPU_API_KEY": "S3CR3T-z"}
	for _, c := range []struct {
		name, file string
		check      func(*testing.T, *Config)
	}{
		{"all of it", `{
			"server": {"port": 8046},
			"primary": {"enabled": true, "base_url": "https://gateway.example", "timeout_ms": 300000},
			"copilot": {"enabled": false, "github_token": "", "account_type": "individual"},
			"antigravity": {"enabled": false},
			"fallback": {"api_key": "${ZHIPU_API_KEY}", "base_url": "https://glm.example/api/anthropic", "timeout_ms": 3000000},
			"circuit_breaker": {"failure_threshold": 5, "recovery_timeout_seconds": 60},
			"quota_guard": {"enabled": true, "token_budget": 45000000, "window_hours": 5.0, "threshold_percent": 95},
			"copilot_circuit_breaker": {}, "copilot_quota_guard": {"enabled": false},
			"failover": {"status_codes": [429, 403], "error_types": ["rate_limit_error"], "error_message_patterns": ["capacity"]},
			"model_mapping": [{"pattern": "claude-haiku-.*", "target": "glm-4.5-air", "is_regex": true},
				{"pattern": "claude-opus-*", "target": "opus-x", "vendors": ["copilot"]}, {"pattern": "claude-*", "target": "glm-5", "vendors": ["zhipu"]}],
			"database": {"path": "~/.coding-proxy/usage.db"},
			"logging": {"level": "WARNING", "file": null}
		}`, func(t *testing.T, c *Config) {
			primary, last := c.Pool.Tiers[0], c.Pool.Tiers[1]
			equal(t, "order", []string{primary.Name, last.Name}, []string{"anthropic", "zhipu"})
			equal(t, "breaker", *primary.Breaker, pool.BreakerOptions{FailureThreshold: 5, SuccessThreshold: 2, Recovery: time.Minute, MaxRecovery: time.Hour})
			equal(t, "budget", primary.Guard.Budget, 45_000_000)
			equal(t, "terminal", last.Breaker == nil && last.Guard == nil, true)
			equal(t, "passthrough", primary.Keys[0].Passthrough, true)
			equal(t, "address", c.Upstreams["anthropic"].Endpoints[0].BaseURL.String(), "https://gateway.example")
			equal(t, "key", c.Upstreams["zhipu"].APIKey.Reveal(), "S3CR3T-z")
			equal(t, "idle", c.Proxy.Timeouts.Idle, 50*time.Minute)
			for model, want := range map[string]string{"claude-haiku-4-5": "glm-4.5-air", "claude-opus-5": "glm-5", "gpt-x": "glm-5.1"} {
				got, _ := last.Mapping.Map(model)
				equal(t, model, got, want)
			}
		}},
		{"all four", `{"copilot": {"enabled": true, "github_token": "${ZHIPU_API_KEY}", "account_type": "business", "base_url": "", "timeout_ms": 1000, "models_cache_ttl_seconds": 5},
			"antigravity": {"enabled": true, "client_id": "C", "client_secret": "S3CR3T-s", "refresh_token": "S3CR3T-r", "base_url": "https://generativelanguage.googleapis.com/v1beta",
				"model_endpoint": "models/m", "project_id": "p"},
			"copilot_quota_guard": {"enabled": true, "token_budget": 7}, "antigravity_circuit_breaker": {"failure_threshold": 9},
			"fallback": {"api_key": "${ZHIPU_API_KEY}"}}`, func(t *testing.T, c *Config) {
			var order []string
			for _, tier := range c.Pool.Tiers {
				order = append(order, tier.Name)
			}
			equal(t, "order", order, []string{"anthropic", "copilot", "antigravity", "zhipu"})
			equal(t, "guard", c.Pool.Tiers[1].Guard.Budget, 7)
			equal(t, "breaker", c.Pool.Tiers[2].Breaker.FailureThreshold, 9)
			hub, google := c.Upstreams["copilot"], c.Upstreams["antigravity"]
			equal(t, "copilot", []any{hub.Provider, hub.APIKey.Reveal(), hub.Copilot.AccountType, hub.Copilot.BaseURL == nil}, []any{"copilot", "S3CR3T-z", "business", true})
			equal(t, "antigravity", []any{google.APIKey.Reveal(), google.Antigravity.Project, google.Antigravity.ModelEndpoint, google.Antigravity.BaseURL.Path}, []any{"S3CR3T-r", "p", "models/m", "/v1beta"})
		}},
		{"the least", `{"fallback": {"api_key": "${ZHIPU_API_KEY}"}}`, func(t *testing.T, c *Config) {
			equal(t, "breaker", *c.Pool.Tiers[0].Breaker, pool.DefaultBreaker())
			equal(t, "guard", c.Pool.Tiers[0].Guard, nil)
			for model, want := range map[string]string{"claude-haiku-4-5": "glm-4.5-air", "claude-sonnet-5": "glm-5.1", "other": "glm-5.1"} {
				got, _ := c.Pool.Tiers[1].Mapping.Map(model)
				equal(t, model, got, want)
			}
		}},
		{"secrets of sections that are ignored", `{"fallback": {"api_key": "${ZHIPU_API_KEY}"}, "copilot": {"enabled": false, "timeout_ms": 9000000}, "database": {"password": "S3CR3T-d"}, "auth": {"google_client_secret": "S3CR3T-g"}}`,
			func(t *testing.T, c *Config) {
				if text := string(c.Masked()); strings.Contains(text, "S3CR3T") {
					t.Errorf("masked: %s", text)
				}
			}},
		{"other names, no primary", `{"anthropic": {"enabled": false}, "zhipu": {"api_key": "${ZHIPU_API_KEY}"}, "auth": {"github_client_id": "x", "token_store_path": "y"}}`,
			func(t *testing.T, c *Config) { equal(t, "tiers", len(c.Pool.Tiers), 1) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := mustLoad(t, source(c.file, environment))
			c.check(t, got)
			var form string
			for _, w := range got.Warnings {
				if _, after, ok := strings.Cut(w, "older form, still read; write "); ok {
					form = after
				}
			}
			if form == "" || strings.Contains(form, "S3CR3T") {
				t.Fatalf("warnings %q", got.Warnings)
			}
			again := mustLoad(t, source(strings.Replace(form, `"***"`, `"${ZHIPU_API_KEY}"`, 1), environment))
			equal(t, "the new form's pool", again.Pool, got.Pool)
			equal(t, "the new form's proxy", again.Proxy, got.Proxy)
			equal(t, "the new form's warnings", again.Warnings, nil)
		})
	}
}

// What is wrong in an older file is told at its place in it.
func TestChainFormFaults(t *testing.T) {
	for _, c := range []struct {
		name, file string
		want       []string
	}{
		{"copilot", "{\"copilot\": {\"enabled\": true},\n\"fallback\": {\"api_key\": \"S3CR3T\"}}", []string{"1:13: pool.keys[1]: `github_token` is required, or `credential`: \"oauth:\" and the name of a login"}},
		{"mixed", "{\"pool\": {\"keys\": [{\"id\": \"a\", \"provider\": \"anthropic\", \"api_key\": \"S3CR3T\"}]},\n\"fallback\": {}}", []string{
			"2:1: fallback: older form, cannot stand beside `pool`: write a tier and a key there"}},
		{"two names", `{"fallback": {"api_key": "S3CR3T"}, "zhipu": {"api_key": "S3CR3T"}}`, []string{"1:46: zhipu: is another name of `fallback`, which is there too"}},
		{"logging", `{"logging": {"level": "info"}, "pool": {"keys": [{"id": "a", "provider": "anthropic", "api_key": "S3CR3T"}]}}`, []string{
			"1:2: logging: older form, cannot stand beside `pool`: write `log`"}},
		{"fields", "{\"fallback\": {\"api_kye\": \"S3CR3T\"},\n\"circuit_breaker\": {\"failure_threshold\": 0},\n\"primary\": {\"enabled\": 1}}", []string{
			`1:15: fallback.api_kye: unknown field; did you mean "api_key"?`,
			"1:14: pool.keys[1]: `api_key` is required",
			"2:42: tiers[0].circuit_breaker.failure_threshold: must be a whole number between 1 and 1000000",
			"3:24: primary.enabled: must be true or false, not a number",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := problems(t, source(c.file, nil))
			for _, want := range c.want {
				found := false
				for _, line := range got {
					found = found || strings.HasSuffix(line, want)
				}
				if !found {
					t.Errorf("no %q in %q", want, got)
				}
			}
		})
	}
}

// The names of Python's levels, timeouts of what is switched off, a mapping without its tier.
func TestChainFormDetails(t *testing.T) {
	c := mustLoad(t, source(`{"primary": {"timeout_ms": 60000}, "fallback": {"enabled": false, "timeout_ms": 3000000}, "logging": {"level": "CRITICAL"}}`, nil))
	equal(t, "idle", c.Proxy.Timeouts.Idle, time.Minute)
	equal(t, "level", c.Log.Level, slog.LevelError)
	c = mustLoad(t, source(`{"logging": {"level": "INFO"}, "model_mapping": [{"pattern": "claude-*", "target": "x"}]}`, nil))
	if text := strings.Join(c.Warnings, "\n"); !strings.Contains(text, "model_mapping: is ignored") {
		t.Errorf("warnings %q", text)
	}
}
