package config

import (
	"strings"
	"testing"

	"coding-proxy/auth"
	"coding-proxy/proxy/upstream"
)

func TestCountTokens(t *testing.T) {
	for file, want := range map[string]bool{`{}`: false, `{"count_tokens": "local"}`: false, `{"count_tokens": "${KIND}"}`: true} {
		equal(t, file, mustLoad(t, source(file, map[string]string{"KIND": "upstream"})).Proxy.CountUpstream, want)
	}
}

func TestMCPServers(t *testing.T) {
	c := mustLoad(t, source(`{"mcp": {
		"hub.1": {"url": "https://Api.Example:8443/mcp/", "api_key": " ${HUB}\n", "headers": {"X-Team": "blue ${TEAM}", "user-agent": "house/1"}},
		"local": {"url": "http://127.0.0.1:9/%7Ea"},
		"home": {"url": "http://192.168.1.2", "headers": {"authorization": "Basic S3CR3T"}}
	}}`, map[string]string{"HUB": "S3CR3T-1", "TEAM": "S3CR3T-2"}))
	equal(t, "warnings", c.Warnings, nil)
	ways := map[string][]string{}
	rest := map[string]upstream.Options{}
	for name, o := range c.Proxy.MCP {
		ways[name] = waysOf(o)
		o.Endpoints = nil
		rest[name] = o
	}
	equal(t, "addresses", ways, map[string][]string{
		"hub.1": {"mcp https://Api.Example:8443/mcp/ authorization: Bearer "},
		"local": {"mcp http://127.0.0.1:9/%7Ea : "},
		"home":  {"mcp http://192.168.1.2 : "},
	})
	equal(t, "the rest", rest, map[string]upstream.Options{
		"hub.1": {KeyID: "hub.1", APIKey: auth.NewSecret("S3CR3T-1"), Headers: map[string]auth.Secret{"x-team": auth.NewSecret("blue S3CR3T-2"), "user-agent": auth.NewSecret("house/1")}},
		"local": {KeyID: "local"},
		"home":  {KeyID: "home", Headers: map[string]auth.Secret{"authorization": auth.NewSecret("Basic S3CR3T")}},
	})
	if shown := string(c.Masked()); strings.Contains(shown, secretMark) || !strings.Contains(shown, "127.0.0.1") {
		t.Errorf("masked: %s", shown)
	}
}

// A server that lacks what it would be sent is left out: "${NAME}" must never go there.
func TestMCPServersWithoutTheirKey(t *testing.T) {
	c := mustLoad(t, source(`{"mcp": {
"a": {"url": "https://a.example", "api_key": "${NO}"},
"b": {"url": "https://a.example", "headers": {"x": "${NO}"}},
"c": {"url": "https://a.example", "api_key": "${EMPTY}"},
"d": {"url": "https://a.example"}}}`, map[string]string{"EMPTY": " "}))
	equal(t, "servers", len(c.Proxy.MCP), 1)
	equal(t, "d", waysOf(c.Proxy.MCP["d"]), []string{"mcp https://a.example : "})
	equal(t, "warnings", c.Warnings, []string{
		"config.json:2:46: mcp.a.api_key: environment variable NO is not set: the MCP server is left out",
		"config.json:3:52: mcp.b.headers.x: environment variable NO is not set: the MCP server is left out",
		"config.json:4:46: mcp.c.api_key: api_key is empty: the MCP server is left out",
	})
}

func TestMCPFaults(t *testing.T) {
	for _, test := range []fault{
		{"names", `{"mcp": {"a b": {}, "": {}, "..": {}, "a/b": {"url": 1}, "x": []}}`, []string{
			`1:10: mcp["a b"]: name must be of letters, digits, dots, hyphens and underscores`,
			`1:21: mcp[""]: name must have a letter or a digit`,
			`1:29: mcp[".."]: name must have a letter or a digit`,
			`1:39: mcp["a/b"]: name must be of letters, digits, dots, hyphens and underscores`,
			`1:63: mcp.x: must be an object, not a list`}},
		{"twice", `{"mcp": {"a": {"url": "https://a.example"}, "a": {}}}`, []string{`1:45: mcp.a: given twice; first in line 1`}},
		{"urls", `{"mcp": {"a": {}, "b": {"url": "${NO}"}, "c": {"url": "http://a.example/S3CR3T"}, "d": {"url": "https://a.example/?key=S3CR3T"}, "e": {"url": "https://u:S3CR3T@a.example"}}}`, []string{
			"1:15: mcp.a: `url` is required",
			`1:32: mcp.b.url: must begin with https:// (environment variable NO is not set)`,
			`1:55: mcp.c.url: must be https: over http the key is readable on the way`,
			`1:96: mcp.d.url: must not have a query or fragment`,
			`1:143: mcp.e.url: must not contain a user or password`}},
		{"headers", `{"mcp": {"a": {"url": "https://a.example", "api_key": "S3CR3T\u0007", "headers": {"Authorization": "x", "host": "x", "x": "S3CR3T\n"}}}}`, []string{
			`1:55: mcp.a.api_key: must not contain control characters`,
			`1:83: mcp.a.headers.Authorization: must not be set: this header carries the key`,
			`1:105: mcp.a.headers.host: must not be set: this header belongs to the connection`,
			`1:123: mcp.a.headers.x: must not contain control characters`}},
		{"fields", `{"mcp": {"a": {"url": "https://a.example", "header": {}, "allow_http": true}}}`, []string{
			`1:44: mcp.a.header: unknown field; did you mean "headers"?`,
			`1:58: mcp.a.allow_http: unknown field`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := problems(t, source(test.file, nil))
			for i, line := range got {
				got[i] = strings.TrimPrefix(line, "config.json:")
			}
			equal(t, "problems", got, test.want)
		})
	}
}
