package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"coding-proxy/proxy"
)

// FuzzLoad: whatever the file, Load does not panic, its error is *Problems with places in the file, and no key shows.
func FuzzLoad(f *testing.F) {
	example, err := os.ReadFile(filepath.Join("..", "..", "config.json.example"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(example))
	f.Add(strings.ReplaceAll(string(example), "${", "S3CR3T-${"))
	f.Add(chainOf(`, "circuit_breaker": {}, "quota_guard": {"token_budget": 5}, "tier_return": "idle"`,
		`, "model_mapping": [{"pattern": "a.*", "is_regex": true, "target": "b"}, {"pattern": "c*", "target": "d"}], "default_model": "e"`, `, "auth": {"admin_key": "S3CR3T"}`))
	f.Add(`{"server": {"port": 8046}, "primary": {"timeout_ms": 1000}, "copilot": {"enabled": false}, "fallback": {"api_key": "S3CR3T"}, "circuit_breaker": {},
		"quota_guard": {"enabled": true}, "model_mapping": [{"pattern": "a", "target": "b", "vendors": ["zhipu"]}], "database": {}, "logging": {"file": null}, "auth": {"token_store_path": "x"}}`)
	f.Add(keyOnly(`"id": "a", "endpoints": {"anthropic": "https://a.example", "openai-chat": "https://a.example/v1", "gemini": "${KEY}"}, "api_key": "S3CR3T"`))
	f.Add(keyOnly(`"id": "a", "provider": "ollama", "headers": {"authorization": "S3CR3T"}`))
	f.Add(keyOnly(`"id": "a", "provider": "openai", "protocol": "openai-chat", "base_url": "http://10.0.0.1/v1", "key_prefix": "Token ", "api_key": "S3CR3T"`))
	f.Add(`{"upstreams": [{"id": "a", "provider": "openai", "base_url": "https://a.example", "api_key": "S3CR3T", "model": "m"}]}`)
	seeds := 0
	for _, fault := range faults() {
		f.Add(fault.file)
		seeds++
	}
	if seeds == 0 {
		f.Fatal("no seeds")
	}

	// The variable's text is in nothing but what the file sends somewhere, so it may show nowhere in an error.
	const fromEnvironment = "S3CR3T-OF-THE-ENVIRONMENT"
	f.Fuzz(func(t *testing.T, text string) {
		src := source(text, map[string]string{"KEY": fromEnvironment, "ANTHROPIC_API_KEY_1": fromEnvironment, "EMPTY": ""})
		c, err := Load(src)
		if err == nil {
			checkLoaded(t, text, c)
			return
		}
		var all *Problems
		if !errors.As(err, &all) || len(all.List) == 0 {
			t.Fatalf("error is %T %v", err, err)
		}
		lines := strings.Split(text, "\n")
		for _, p := range all.List {
			if p.Line < 1 || p.Line > len(lines) || p.Column < 1 || p.Column > len([]rune(lines[p.Line-1]))+1 || p.Text == "" {
				t.Errorf("place outside of the file: %+v", p)
			}
			if strings.ContainsAny(p.Path+p.Text, "\n\r\x00") {
				t.Errorf("a problem is more than one line: %q", p)
			}
		}
		shown := fmt.Sprintf("%s %+v", err, err)
		if strings.Contains(shown, fromEnvironment) {
			t.Errorf("the error shows a variable's text: %s", shown)
		}
		if strings.Contains(shown, secretMark) && !marksElsewhere(bytes.TrimPrefix([]byte(text), []byte("\uFEFF"))) {
			t.Errorf("the error shows a key: %s", shown)
		}
	})
}

func checkLoaded(t *testing.T, text string, c *Config) {
	data := bytes.TrimPrefix([]byte(text), []byte("\uFEFF"))
	if !json.Valid(data) || !utf8.Valid(data) {
		t.Errorf("accepted what is not JSON: %q", text)
	}
	for _, k := range c.Auth.RequestKeys {
		if k.Key.IsZero() || k.Code == "" {
			t.Errorf("a request key is empty")
		}
	}
	ids := 0
	for _, tier := range c.Pool.Tiers {
		for _, k := range tier.Keys {
			ids++
			way, ok := c.Upstreams[k.ID]
			if !ok || len(way.Endpoints) == 0 || len(way.Endpoints) != len(k.Protocols) {
				t.Errorf("key %q has no complete way: %+v", k.ID, way)
			}
			keyless := k.Provider == "ollama" && way.APIKey.IsZero()
			if way.Passthrough == !way.APIKey.IsZero() && !k.Disabled && !keyless {
				t.Errorf("key %q has no credential: %+v", k.ID, way)
			}
			for i, e := range way.Endpoints {
				if e.BaseURL == nil || e.Protocol != k.Protocols[i] || slices.Contains(k.Protocols[:i], e.Protocol) || !slices.Contains(proxy.Dialects(), e.Protocol) {
					t.Errorf("key %q has a wrong endpoint: %+v", k.ID, e)
				}
				if sends := e.HeaderName != ""; !k.Disabled && sends != !way.APIKey.IsZero() {
					t.Errorf("key %q: the header of the credential is %q", k.ID, e.HeaderName)
				}
			}
		}
	}
	if ids == 0 || ids != len(c.Upstreams) {
		t.Errorf("%d keys, %d upstreams", ids, len(c.Upstreams))
	}
	if marksElsewhere(data) {
		return
	}
	for _, shown := range []string{strings.Join(c.Warnings, "\n"), string(c.Masked())} {
		if strings.Contains(shown, secretMark) {
			t.Errorf("a warning or the masked file shows a key: %s", shown)
		}
	}
	if !json.Valid(c.Masked()) {
		t.Errorf("masked, it is no JSON: %s", c.Masked())
	}
}

// marksElsewhere reports whether the mark is also where no key belongs: there it may be shown.
func marksElsewhere(data []byte) bool {
	if !json.Valid(data) {
		return false
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	elsewhere := false
	var walk func(secret bool)
	walk = func(secret bool) {
		token, err := dec.Token()
		if err != nil {
			return
		}
		switch v := token.(type) {
		case string:
			elsewhere = elsewhere || !secret && strings.Contains(v, secretMark)
		case json.Delim:
			for dec.More() {
				inside := secret
				if v == '{' {
					name, _ := dec.Token()
					elsewhere = elsewhere || strings.Contains(fmt.Sprint(name), secretMark)
					inside = inside || isSecret(fmt.Sprint(name)) || name == "headers"
				}
				walk(inside)
			}
			dec.Token()
		}
	}
	walk(false)
	return elsewhere
}
