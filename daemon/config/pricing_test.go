package config

import (
	"strings"
	"testing"

	"coding-proxy/stats"
)

func TestPricing(t *testing.T) {
	c := mustLoad(t, source(`{"pricing": [
		{"pattern": "house-*", "input": 1, "output": 2},
		{"pattern": "${MODEL}", "input": 3, "output": 15, "cache_write": 3.75, "cache_read": 0.3},
		{"pattern": "free", "input": 0, "output": 0.0, "cache_read": 0},
		{"pattern": "Free", "input": 1e5, "output": 1e-7, "cache_write": 0}
	]}`, map[string]string{"MODEL": "claude-x"}))
	equal(t, "pricing", c.Stats.Pricing, []stats.PriceRule{
		{Pattern: "house-*", Price: stats.Price{Input: 1, Output: 2, CacheWrite: 1, CacheRead: 1}},
		{Pattern: "claude-x", Price: stats.Price{Input: 3, Output: 15, CacheWrite: 3.75, CacheRead: 0.3}},
		{Pattern: "free"},
		{Pattern: "Free", Price: stats.Price{Input: 1e5, Output: 1e-7, CacheRead: 1e5}},
	})
	equal(t, "none", len(mustLoad(t, source(`{"pricing": []}`, nil)).Stats.Pricing), 0)
}

func TestPricingFaults(t *testing.T) {
	const bounds = ": must be between 0 and 100000"
	for _, c := range []fault{
		{"not a list", `{"pricing": {"pattern": "a"}}`, []string{"1:13: pricing: must be a list, not an object"}},
		{"not an object", `{"pricing": ["a"]}`, []string{"1:14: pricing[0]: must be an object, not a string"}},
		{"nothing in it", `{"pricing": [{}]}`, []string{
			"1:14: pricing[0]: `pattern` is required", "1:14: pricing[0]: `input` is required", "1:14: pricing[0]: `output` is required"}},
		{"an empty pattern", `{"pricing": [{"pattern": "", "input": 1, "output": 1}]}`, []string{"1:26: pricing[0].pattern: must not be empty"}},
		{"no output", `{"pricing": [{"pattern": "a", "input": 1}]}`, []string{"1:14: pricing[0]: `output` is required"}},
		{"out of bounds", `{"pricing": [{"pattern": "a", "input": -0.01, "output": 1000000, "cache_write": 1e999, "cache_read": -1}]}`, []string{
			"1:40: pricing[0].input" + bounds, "1:57: pricing[0].output" + bounds, "1:81: pricing[0].cache_write" + bounds, "1:102: pricing[0].cache_read" + bounds}},
		{"no numbers", `{"pricing": [{"pattern": 1, "input": "1", "output": null}]}`, []string{
			"1:14: pricing[0]: `pattern` is required", "1:26: pricing[0].pattern: must be a string, not a number", "1:38: pricing[0].input: must be a number, not a string", "1:53: pricing[0].output: must be a number, not null"}},
		{"the same twice", "{\"pricing\": [{\"pattern\": \"a*\", \"input\": 1, \"output\": 1},\n{\"pattern\": \"b\", \"input\": 1, \"output\": 1},\n{\"pattern\": \"a*\", \"input\": 2, \"output\": 2}]}", []string{
			"3:13: pricing[2].pattern: duplicate pattern; first in line 1"}},
		{"another field", `{"pricing": [{"pattern": "a", "input": 1, "output": 1, "cache_reads": 1}]}`, []string{`1:56: pricing[0].cache_reads: unknown field; did you mean "cache_read"?`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := problems(t, source(c.file, nil))
			for i, line := range got {
				got[i] = strings.TrimPrefix(line, "config.json:")
			}
			equal(t, "problems", got, c.want)
		})
	}
}
