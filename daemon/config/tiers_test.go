package config

import (
	"strings"
	"testing"
	"time"

	"coding-proxy/pool"
)

// chainOf is a file with two tiers and a key in each; more stands behind the tiers.
func chainOf(first, second string, more ...string) string {
	return `{"tiers": [{"name": "one"` + first + `},
{"name": "two"` + second + `}],
"pool": {"keys": [{"id": "a", "tier": "one", "provider": "anthropic", "api_key": "S3CR3T-a"},
{"id": "z", "tier": "two", "provider": "zhipu", "api_key": "S3CR3T-z"}]}` + strings.Join(more, "") + `}`
}

func TestTiers(t *testing.T) {
	c := mustLoad(t, source(chainOf(
		`, "strategy": "round-robin", "tier_return": "idle", "circuit_breaker": {}, "quota_guard": {"token_budget": 5e6, "threshold_percent": 95}`,
		`, "circuit_breaker": {"failure_threshold": 1, "recovery_timeout_seconds": 0.5, "success_threshold": 3, "max_recovery_seconds": 7},
		"model_mapping": [{"pattern": "claude-haiku-.*", "is_regex": true, "target": "small"}, {"pattern": "exact", "target": "e"}, {"pattern": "claude-*", "target": "big"}], "default_model": "rest"`,
		`, "model_mapping": [{"pattern": "best", "target": "claude-opus-5-5"}], "auth": {"groups": [{"name": "g", "keys": ["a"], "tiers": ["two"]}, {"name": "h", "tiers": ["one"]}]}`), nil))
	one, two := c.Pool.Tiers[0], c.Pool.Tiers[1]
	equal(t, "strategies", []pool.Strategy{one.Strategy, two.Strategy}, []pool.Strategy{pool.RoundRobin, pool.SessionSticky})
	equal(t, "returns", []pool.TierReturn{one.Return, two.Return}, []pool.TierReturn{pool.ReturnIdle, ""})
	equal(t, "a breaker of defaults", *one.Breaker, pool.DefaultBreaker())
	equal(t, "a breaker", *two.Breaker, pool.BreakerOptions{FailureThreshold: 1, SuccessThreshold: 3, Recovery: time.Second / 2, MaxRecovery: 7 * time.Second})
	want := pool.DefaultGuard()
	want.Budget, want.Threshold = 5_000_000, 95
	equal(t, "a guard", *one.Guard, want)
	equal(t, "no guard", two.Guard, nil)
	for model, want := range map[string]string{"claude-haiku-4-5": "small", "exact": "e", "claude-opus-5": "big", "gpt": "rest", "my-claude-haiku-4": "rest"} {
		got, ok := two.Mapping.Map(model)
		equal(t, model, []any{got, ok}, []any{want, true})
	}
	got, _ := c.Pool.Mapping.Map("best")
	equal(t, "the global mapping", got, "claude-opus-5-5")
	equal(t, "a group of both", c.Auth.Groups[0].Keys, []string{"a", "z"})
	equal(t, "a group of a tier", c.Auth.Groups[1].Keys, []string{"a"})
	equal(t, "a tier with a mapping needs no preset", two.Keys[0].Preset, nil)
}

// The provider of a key without models may bring a mapping.
func TestPresetMapping(t *testing.T) {
	preset := func(file string) *pool.Mapping { return mustLoad(t, source(file, nil)).Pool.Tiers[0].Keys[0].Preset }
	m := preset(keyOnly(`"id": "k", "provider": "zhipu", "api_key": "S3CR3T"`))
	for model, want := range map[string]string{"claude-haiku-4-5": "glm-4.5-air", "claude-sonnet-5": "glm-5.1", "glm-4.7": ""} {
		got, _ := m.Map(model)
		equal(t, model, got, want)
	}
	equal(t, "the key's models go before", preset(keyOnly(`"id": "k", "provider": "zhipu", "api_key": "S3CR3T", "models": {"m": "m"}`)), nil)
	equal(t, "another provider", preset(keyOnly(`"id": "k", "provider": "kimi", "api_key": "S3CR3T"`)), nil)
}

func TestTierFaults(t *testing.T) {
	for _, c := range []struct {
		name, file string
		want       []string
	}{
		{"names", `{"tiers": [{}, {"name": "a"}, {"name": "a"}, {"name": ""}], "pool": {"keys": [
{"id": "k", "provider": "anthropic", "api_key": "S3CR3T", "tier": "b"},
{"id": "l", "provider": "anthropic", "api_key": "S3CR3T"}]}}`, []string{
			"1:12: tiers[0]: `name` is required",
			"1:40: tiers[2].name: duplicate tier; first in line 1",
			"1:55: tiers[3].name: must not be empty",
			`2:67: pool.keys[0].tier: unknown tier`,
			"3:1: pool.keys[1]: `tier` is required",
		}},
		{"none", `{"tiers": [], "pool": {"keys": [{"id": "k", "provider": "anthropic", "api_key": "S3CR3T"}]}}`, []string{
			"1:11: tiers: must not be empty: leave it out to have one tier",
			"1:33: pool.keys[0]: `tier` is required",
		}},
		{"a tier without tiers", keyOnly(`"id": "k", "provider": "anthropic", "api_key": "S3CR3T", "tier": "a"`), []string{
			"2:66: pool.keys[0].tier: there is no tier of this name: the file has no `tiers`"}},
		{"no pool", `{"tiers": [{"name": "a"}]}`, []string{"1:11: tiers: needs `pool.keys`: tiers hold keys"}},
		{"values", chainOf(`, "strategy": "sticky", "tier_return": "never", "circuit_breaker": {"failure_threshold": 0, "recovery_timeout_seconds": 100, "max_recovery_seconds": 99}`,
			`, "quota_guard": {"threshold_percent": 101, "window_hours": 0, "probe_interval_seconds": 0, "buget": 1}, "circuit_breaker": null`), []string{
			`1:40: tiers[0].strategy: must be one of "session-sticky", "fill-first", "round-robin", "least-used", "least-recent"`,
			`1:65: tiers[0].tier_return: must be one of "immediate", "idle"`,
			"1:115: tiers[0].circuit_breaker.failure_threshold: must be a whole number between 1 and 1000000",
			"1:175: tiers[0].circuit_breaker.max_recovery_seconds: must not be less than recovery_timeout_seconds (100)",
			"2:54: tiers[1].quota_guard.threshold_percent: must be between 1 and 100",
			"2:75: tiers[1].quota_guard.window_hours: must be between 0.016666666666666666 and 744",
			"2:104: tiers[1].quota_guard.probe_interval_seconds: must be between 0.001 and 604800",
			"2:107: tiers[1].quota_guard.buget: unknown field",
			"2:139: tiers[1].circuit_breaker: must be an object, not null",
		}},
		{"mappings", chainOf(`, "model_mapping": [{"pattern": "(S3CR3T", "is_regex": true, "target": "x"}, {"pattern": "", "target": ""}, {}], "default_model": "a*"`, ``), []string{
			"1:58: tiers[0].model_mapping[0].pattern: is no regular expression: missing closing )",
			"1:115: tiers[0].model_mapping[1].pattern: must not be empty",
			"1:129: tiers[0].model_mapping[1].target: must not be empty",
			"1:134: tiers[0].model_mapping[2]: `pattern` is required",
			"1:134: tiers[0].model_mapping[2]: `target` is required",
			`1:156: tiers[0].default_model: must be exact; the only wildcard is the whole name "*"`,
		}},
		{"limits of a tier of its own", `{"tiers": [{"name": "a", "strategy": "session-sticky"}, {"name": "b"}], "pool": {"strategy": "fill-first", "keys": [
{"id": "k", "tier": "a", "provider": "anthropic", "api_key": "S3CR3T"}, {"id": "l", "tier": "a", "provider": "anthropic", "api_key": "S3CR3T"},
{"id": "m", "tier": "b", "provider": "anthropic", "api_key": "S3CR3T"}, {"id": "n", "tier": "b", "provider": "anthropic", "api_key": "S3CR3T"}]}}`, []string{
			`1:38: tiers[0].strategy: strategy session-sticky needs daily_limit_tokens or monthly_limit_tokens on every enabled key (or take another strategy); without: "k", "l"`,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, line := range problems(t, source(c.file, nil)) {
				got = append(got, strings.TrimPrefix(line, "config.json:"))
			}
			equal(t, "problems", got, c.want)
		})
	}
}

// The file comes back as it is, but for its secrets.
func TestMasked(t *testing.T) {
	c := mustLoad(t, source(`{"auth": {"admin_key": "S3CR3T-admin", "request_keys": [{"code": "a", "api_key": "S3CR3T-1"}]},
		"pool": {"keys": [{"id": "k", "provider": "anthropic", "api_key": "S3CR3T-2", "headers": {"x-extra": "S3CR3T-3", "x-none": ""}, "daily_limit_tokens": 5e6, "enabled": true}]}}`, nil))
	want := `{
  "auth": {
    "admin_key": "***",
    "request_keys": [
      {
        "code": "a",
        "api_key": "***"
      }
    ]
  },
  "pool": {
    "keys": [
      {
        "id": "k",
        "provider": "anthropic",
        "api_key": "***",
        "headers": {
          "x-extra": "***",
          "x-none": ""
        },
        "daily_limit_tokens": 5e6,
        "enabled": true
      }
    ]
  }
}
`
	equal(t, "masked", string(c.Masked()), want)
	src := source(`{}`, nil)
	src.ReadFile = func(string) ([]byte, error) { return []byte("{}"), nil }
	equal(t, "empty", string(mustLoad(t, src).Masked()), "{}\n")
}
