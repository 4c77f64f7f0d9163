package config

import (
	"strings"
	"testing"
)

// fault is a file and what is wrong with it, "config.json:" left out.
type fault struct {
	name string
	file string
	want []string
}

// inPool puts what follows into a valid pool of one key, on a line of its own.
func inPool(fields string) string {
	return "{\"pool\": {\"keys\": [{\"id\": \"a\", \"provider\": \"anthropic\", \"api_key\": \"S3CR3T\"\n" + fields + "\n}]}}"
}

// keyOnly makes a pool of the one key.
func keyOnly(fields string) string { return "{\"pool\": {\"keys\": [{\n" + fields + "\n}]}}" }

// inAuth puts request keys beside two pool keys.
func inAuth(fields string) string {
	return "{\"auth\": {\n" + fields + "\n}, \"pool\": {\"strategy\": \"fill-first\", \"keys\": [" +
		`{"id": "zhipu-1", "provider": "anthropic", "api_key": "S3CR3T"}, {"id": "b", "provider": "anthropic", "api_key": "S3CR3T"}]}}`
}

func faults() []fault {
	var all []fault
	for _, group := range [][]fault{syntaxFaults(), shapeFaults(), valueFaults(), keyFaults(), endpointFaults(), poolFaults(), authFaults(), originFaults(), signInFaults()} {
		all = append(all, group...)
	}
	return all
}

func TestFaults(t *testing.T) {
	for _, test := range faults() {
		t.Run(test.name, func(t *testing.T) {
			got := problems(t, source(test.file, map[string]string{"EMPTY": "", "KEY": "S3CR3T", "LINES": "S3CR3T\nb"}))
			for i, line := range got {
				got[i] = strings.TrimPrefix(line, "config.json:")
			}
			equal(t, "problems", got, test.want)
		})
	}
}

func syntaxFaults() []fault {
	one := func(name, file, want string) fault { return fault{name, file, []string{want}} }
	return []fault{
		one("empty", "", "1:1: the file is empty; the least is {}"),
		one("blank", "\n \t\n", "3:1: the file is empty; the least is {}"),
		one("not an object", "\n[]", "2:1: the file must hold an object, not a list"),
		one("cut short", "{\"a\": [1,\n", "2:1: the file ends here, expected a value"),
		one("something behind", "{} \n {}", `2:2: expected the end of the file, found "{"`),
		one("line comment", "{\n  // a\n}", "2:3: expected a name in double quotes; JSON has no comments"),
		one("hash comment", "{\"a\": 1 # one\n}", "1:9: expected \",\" or \"}\"; JSON has no comments"),
		one("comma before the end", "{\"a\": [1,\n2,\n]}", `2:2: a comma before "]"`),
		one("comma before the end of an object", "{\"a\": 1 , }", `1:9: a comma before "}"`),
		one("no comma", "{\"a\": 1 \"b\": 2}", `1:9: expected "," or "}", found "\""`),
		one("no colon", "{\"a\" 1}", `1:6: expected ":"`),
		one("name without quotes", "{S3CR3T: 1}", "1:2: expected a name in double quotes"),
		one("single quotes", "{'S3CR3T': 1}", `1:2: expected a name in double quotes, found "'"`),
		one("text without quotes", `{"api_key": S3CR3T}`, "1:13: expected a value"),
		one("not closed", "{\"ä€😀\": \"S3CR3T\n}", "1:9: the string that begins here is not closed on its line"),
		one("not closed at the end", `{"a": "S3CR3T`, "1:7: the string that begins here is not closed on its line"),
		one("control character", "{\"a\": \"S3CR3T\tb\"}", `1:14: a control character in a string must be written as \t, \r or \u00XX`),
		one("unknown escape", `{"a": "C:\S3CR3T"}`, `1:10: unknown escape; a backslash itself is written \\`),
		one("escape at the end", `{"a": "\`, `1:8: unknown escape; a backslash itself is written \\`),
		one("short unicode escape", `{"a": "\u12G4"}`, `1:8: expected \u and four hexadecimal digits, both halves of a surrogate pair`),
		one("half a surrogate pair", `{"a": "\ud83dx"}`, `1:8: expected \u and four hexadecimal digits, both halves of a surrogate pair`),
		one("no second half", `{"a": "\ud83d\n"}`, `1:8: expected \u and four hexadecimal digits, both halves of a surrogate pair`),
		one("fault deep inside", `{"a": {"b": [{"c": tru}]}}`, "1:20: expected a value"),
		one("wrong half", `{"a": "\ud83d\u0041"}`, `1:8: expected \u and four hexadecimal digits, both halves of a surrogate pair`),
		one("not UTF-8", "{\"a\": \"\xff\"}", "1:8: the file is not UTF-8 here"),
		one("UTF-16", "\xff\xfe{\x00", "1:1: expected a value"),
		one("leading zero", `{"a": 01}`, `1:8: expected "," or "}"`),
		one("no digit after the point", `{"a": 1.}`, `1:9: expected a digit, found "}"`),
		one("no digit in the exponent", `{"a": 1e+}`, `1:10: expected a digit, found "}"`),
		one("lonely minus", `{"a": -}`, `1:8: expected a digit, found "}"`),
		one("plus", `{"a": +1}`, `1:7: expected a value, found "+"`),
		one("NaN", `{"a": NaN}`, "1:7: expected a value"),
		one("too deep", `{"a": `+strings.Repeat("[", 100), "1:70: nested more than 64 deep"),
	}
}

func shapeFaults() []fault {
	return []fault{
		{"five at once", `{
  "server": {"port": 70000},
  "pool": {
    "rebalance_treshold": 0.5,
    "keys": [
      {"id": "ä", "provider": "anthropic", "api_key": "S3CR3T-1", "daily_limit_tokens": 1},
      {"id": "b", "provider": "anthropic", "api_key": "S3CR3T-2", "daily_limit_tokens": "S3CR3T", "strateyg": ""}
    ]
  }
}`, []string{
			"2:22: server.port: must be a whole number between 0 and 65535",
			`4:5: pool.rebalance_treshold: unknown field; did you mean "rebalance_threshold"?`,
			"6:14: pool.keys[0].id: must be of letters, digits, dots, hyphens and underscores",
			"7:89: pool.keys[1].daily_limit_tokens: must be a number, not a string",
			"7:99: pool.keys[1].strateyg: unknown field",
		}},
		{"unknown, and nothing near", `{"S3CR3": 1, "colour of the sky": {"a": 1}}`, []string{
			"1:2: S3CR3: unknown field", `1:14: ["colour of the sky"]: unknown field`}},
		{"a key in the place of a name", `{"pool": {"sk-S3CR3T-0123456789012345678901234567890": 1}}`, []string{
			"1:10: pool: `keys` is required", "1:11: pool[…]: unknown field"}},
		{"twice", "{\"stats\": {},\n\"log\": {\"file\": \"a\", \"file\": \"b\"}, \"stats\": {}}", []string{
			"2:22: log.file: given twice; first in line 2", "2:36: stats: given twice; first in line 1"}},
		{"wrong types", `{"server": [], "auth": {"request_keys": {"a": 1}, "groups": [1]}, "answer_probes": 1, "log": {"file": null},
"limits": {"max_in_flight": "3"}, "failover": {"status_codes": 4, "error_types": [true]}, "pool": {"keys": [[]], "rebalance_threshold": {}}}`, []string{
			"1:12: server: must be an object, not a list",
			"1:41: auth.request_keys: must be a list, not an object",
			"1:62: auth.groups[0]: must be an object, not a number",
			"1:84: answer_probes: must be true or false, not a number",
			"1:103: log.file: must be a string, not null",
			"2:29: limits.max_in_flight: must be a number, not a string",
			"2:64: failover.status_codes: must be a list, not a number",
			"2:83: failover.error_types[0]: must be a string, not true or false",
			"2:109: pool.keys[0]: must be an object, not a list",
			"2:137: pool.rebalance_threshold: must be a number, not an object",
		}},
		{"escaped name", `{"\u0073tats": {"\n": 1}}`, []string{`1:17: stats["\n"]: unknown field`}},
	}
}

func valueFaults() []fault {
	return []fault{
		{"hosts", `{"server": {"host": "http://127.0.0.1", "allowed_hosts": ["a.b:80", "*.x", "", "ok", "::1", "[::1]", "10.0.0.256"]}}`, []string{
			"1:21: server.host: must be an address or a host name, without a port",
			"1:59: server.allowed_hosts[0]: must be an address or a host name, without a port",
			"1:69: server.allowed_hosts[1]: must be an address or a host name, without a port",
			"1:76: server.allowed_hosts[2]: must be an address or a host name, without a port",
			"1:93: server.allowed_hosts[5]: must be an address or a host name, without a port",
			"1:102: server.allowed_hosts[6]: must be an address or a host name, without a port",
		}},
		{"open to others", `{"server": {"host": "0.0.0.0"}}`, []string{
			"1:21: server.host: an address that is not loopback needs `auth.request_keys`: anyone could use the pool"}},
		{"open to the local network", `{"server": {"host": "192.168.1.5"}}`, []string{
			"1:21: server.host: an address that is not loopback needs `auth.request_keys`: anyone could use the pool"}},
		{"long host", `{"server": {"host": "` + strings.Repeat("a", 64) + `.example"}}`, []string{
			"1:21: server.host: must be an address or a host name, without a port"}},
		{"open to others by name", `{"server": {"host": "proxy.example"}, "auth": {"request_keys": []}}`, []string{
			"1:21: server.host: an address that is not loopback needs `auth.request_keys`: anyone could use the pool"}},
		{"port", `{"server": {"port": 3456.5}, "stats": {"journal_days": 0}}`, []string{
			"1:21: server.port: must be a whole number between 0 and 65535",
			"1:56: stats.journal_days: must be a whole number between 1 and 3660"}},
		{"data_dir", `{"server": {"data_dir": "~/data"}, "log": {"file": "a\u0000"}}`, []string{
			"1:25: server.data_dir: must not begin with ~, which only shells replace; write ${HOME}",
			"1:52: log.file: must not contain control characters"}},
		{"empty data_dir", `{"server": {"data_dir": ""}}`, []string{"1:25: server.data_dir: must not be empty"}},
		{"variable that is not set", `{"server": {"host": "${NO}"}, "log": {"format": "${NO}"}}`, []string{
			"1:21: server.host: must be an address or a host name, without a port (environment variable NO is not set)",
			`1:49: log.format: must be one of "text", "json" (environment variable NO is not set)`}},
		{"seconds", `{"server": {"shutdown_seconds": -0.001}, "failover": {"max_seconds": 1e999}, "timeouts": {"connect_seconds": 0, "idle_seconds": 604801},
"pool": {"keys": [{"id": "a", "provider": "anthropic", "api_key": "S3CR3T"}], "session_idle_hours": 8785, "max_wait_seconds": "5"}}`, []string{
			"1:33: server.shutdown_seconds: must be between 0 and 604800",
			"1:70: failover.max_seconds: must be between 0 and 604800",
			"1:110: timeouts.connect_seconds: must be between 0.001 and 604800",
			"1:129: timeouts.idle_seconds: must be between 0.001 and 604800",
			"2:101: pool.session_idle_hours: must be between 0 and 8784",
			"2:127: pool.max_wait_seconds: must be a number, not a string",
		}},
		{"failover", `{"failover": {"status_codes": [429, 200, 429.5], "error_message_patterns": ["", " "], "cap_patterns": ["a\nb"], "max_attempts": 0}}`, []string{
			"1:37: failover.status_codes[1]: must be a whole number between 400 and 599",
			"1:42: failover.status_codes[2]: must be a whole number between 400 and 599",
			"1:77: failover.error_message_patterns[0]: must not be empty",
			"1:81: failover.error_message_patterns[1]: must not be empty",
			"1:104: failover.cap_patterns[0]: must not contain control characters",
			"1:129: failover.max_attempts: must be a whole number between 1 and 100",
		}},
		{"choices", `{"log": {"level": "inof", "format": "JSON"}, "count_tokens": "locl"}`, []string{
			`1:19: log.level: must be one of "debug", "info", "warn", "error"; did you mean "info"?`,
			`1:37: log.format: must be one of "text", "json"`,
			`1:62: count_tokens: must be one of "local", "upstream"; did you mean "local"?`,
		}},
	}
}

// The providers that bring something, as messages list them: those that speak Anthropic, and all.
const (
	known    = `"anthropic", "deepseek", "doubao", "kimi", "minimax", "qwen", "xiaomi", "zhipu"`
	allKnown = `"anthropic", "deepseek", "doubao", "gemini", "kimi", "minimax", "ollama", "openai", "openrouter", "qwen", "xiaomi", "zhipu"`
)

func keyFaults() []fault {
	const only = "; the providers that bring it are " + known
	return []fault{
		{"nothing", keyOnly(``), []string{
			"1:20: pool.keys[0]: `id` is required",
			"1:20: pool.keys[0]: `base_url` is required" + only,
			"1:20: pool.keys[0]: `api_key` is required",
		}},
		{"id with a path", keyOnly(`"id": "../S3CR3T", "provider": "anthropic", "api_key": "S3CR3T"`), []string{
			"2:7: pool.keys[0].id: must be of letters, digits, dots, hyphens and underscores"}},
		{"id of dots", keyOnly(`"id": "..", "provider": "anthropic", "api_key": "S3CR3T"`), []string{
			"2:7: pool.keys[0].id: must have a letter or a digit"}},
		{"empty id", keyOnly(`"id": "", "provider": "anthropic", "api_key": "S3CR3T"`), []string{
			"2:7: pool.keys[0].id: must have a letter or a digit"}},
		{"long id", keyOnly(`"id": "` + strings.Repeat("x", 101) + `", "provider": "anthropic", "api_key": "S3CR3T"`), []string{
			"2:7: pool.keys[0].id: must not be longer than 100 characters"}},
		{"base_url", inPool(`, "base_url": "http://${KEY}@a.example/"}, {"id": "a", "provider": "", "protocol": "anthropic", "base_url": "https://${NO}", "api_key": "S3CR3T"`), []string{
			"2:15: pool.keys[0].base_url: must not contain a user or password",
			"2:51: pool.keys[1].id: duplicate id; first in line 1",
			"2:68: pool.keys[1].provider: must not be empty",
			"2:109: pool.keys[1].base_url: must be a URL (environment variable NO is not set)",
		}},
		{"provider", keyOnly(`"id": "a", "provider": "a\n", "protocol": "anthropic", "base_url": "https://a.example", "api_key": "S3CR3T"`), []string{
			"2:24: pool.keys[0].provider: must not contain control characters"}},
		{"no base_url", keyOnly(`"id": "a", "provider": "antropic", "protocol": "anthropic", "api_key": "S3CR3T"`), []string{
			"1:20: pool.keys[0]: `base_url` is required" + only}},
		{"protocol", keyOnly(`"id": "a", "protocol": "antropic", "base_url": "https://a.example", "api_key": "S3CR3T"`), []string{
			`2:24: pool.keys[0].protocol: must be one of "anthropic", "openai-responses", "openai-chat", "gemini"; did you mean "anthropic"?`}},
		{"protocol that a known provider cannot speak", inPool(`, "protocol": "opena-chat"`), []string{
			`2:15: pool.keys[0].protocol: must be one of "anthropic", "openai-responses", "openai-chat", "gemini"; did you mean "openai-chat"?`}},
		{"credential", inPool(`, "credential": "S3CR3T"`), []string{
			`2:17: pool.keys[0].credential: must be one of "api_key", "passthrough"`}},
		{"a login that is not there", inPool(`, "credential": "oauth:S3CR3T"`), []string{
			"1:68: pool.keys[0].api_key: must not be set: the key shows what the login obtained",
			"2:17: pool.keys[0].credential: `oauth` has no login of this name"}},
		{"github_token", inPool(`, "credential": "github_token", "github_token": "S3CR3T"`), []string{
			`2:17: pool.keys[0].credential: must be one of "api_key", "passthrough"`,
			"2:49: pool.keys[0].github_token: is for keys of provider copilot"}},
		{"passthrough with a key", inPool(`, "credential": "passthrough", "key_header_name": "x-api-key", "key_prefix": ""`), []string{
			"1:68: pool.keys[0].api_key: must not be set: a passthrough key sends the client's own credential",
			"2:51: pool.keys[0].key_header_name: must not be set: a passthrough key sends the client's own credential",
			"2:78: pool.keys[0].key_prefix: must not be set: a passthrough key sends the client's own credential",
		}},
		{"key with a line break", keyOnly(`"id": "a", "provider": "anthropic", "api_key": "${LINES}"`), []string{
			"2:48: pool.keys[0].api_key: must not contain control characters"}},
		{"key header", inPool(`, "key_header_name": "x key"`), []string{
			"2:22: pool.keys[0].key_header_name: must be a valid header name"}},
		{"key header of the connection", inPool(`, "key_header_name": "Host"`), []string{
			"2:22: pool.keys[0].key_header_name: must not be set: this header belongs to the connection"}},
		{"prefix without a space", inPool(`, "key_header_name": "Authorization", "key_prefix": "Bearer"`), []string{
			"2:53: pool.keys[0].key_prefix: must end with a space, which parts it from the key"}},
		{"prefix with a line break", inPool(`, "key_prefix": "S3CR3T\r\n"`), []string{
			"2:17: pool.keys[0].key_prefix: must not contain control characters"}},
		{"headers", inPool(`, "headers": {"Host": "a", "content-length": "1", "transfer-encoding": "", "Connection": "", "a b": "", "": "", "x": "S3CR3T\n", "X": "", "X-Api-Key": "S3CR3T"}`), []string{
			"2:15: pool.keys[0].headers.Host: must not be set: this header belongs to the connection",
			"2:28: pool.keys[0].headers.content-length: must not be set: this header belongs to the connection",
			"2:51: pool.keys[0].headers.transfer-encoding: must not be set: this header belongs to the connection",
			"2:76: pool.keys[0].headers.Connection: must not be set: this header belongs to the connection",
			`2:94: pool.keys[0].headers["a b"]: must be a valid header name`,
			`2:105: pool.keys[0].headers[""]: must be a valid header name`,
			"2:118: pool.keys[0].headers.x: must not contain control characters",
			"2:130: pool.keys[0].headers.X: given twice; case does not matter in header names",
			"2:139: pool.keys[0].headers.X-Api-Key: must not be set: this header carries the key",
		}},
		{"models", inPool(`, "models": {"claude-*": "a", "": "b", "c": "", "d": "*", "e": 1}`), []string{
			`2:14: pool.keys[0].models["claude-*"]: name must be exact; the only wildcard is the whole name "*"`,
			`2:31: pool.keys[0].models[""]: name must not be empty`,
			"2:45: pool.keys[0].models.c: must not be empty",
			"2:54: pool.keys[0].models.d: must name a model",
			"2:64: pool.keys[0].models.e: must be a string, not a number",
		}},
		{"no models", inPool(`, "models": {}`), []string{
			"2:13: pool.keys[0].models: must not be empty: the key would serve no model; leave it out to serve any"}},
		{"limits", inPool(`, "daily_limit_tokens": -1, "monthly_limit_tokens": 1.5, "max_concurrent": 2e6, "enabled": "no"`), []string{
			"2:25: pool.keys[0].daily_limit_tokens: must be a whole number between 0 and 1000000000000000",
			"2:53: pool.keys[0].monthly_limit_tokens: must be a whole number between 0 and 1000000000000000",
			"2:76: pool.keys[0].max_concurrent: must be a whole number between 0 and 1000000",
			"2:92: pool.keys[0].enabled: must be true or false, not a string",
		}},
	}
}

func endpointFaults() []fault {
	const sayIt = "must not be set beside `endpoints`, which says it"
	return []fault{
		{"a protocol for which the provider has no address", inPool(`, "protocol": "openai-chat"`), []string{
			`1:20: pool.keys[0]: ` + "`base_url`" + ` is required; the providers that bring it are "ollama", "openai", "openrouter"`}},
		{"nothing but a protocol", keyOnly(`"id": "a", "protocol": "openai-responses", "api_key": "S3CR3T"`), []string{
			`1:20: pool.keys[0]: ` + "`base_url`" + ` is required; the providers that bring it are "openai"`}},
		{"an address of a provider that speaks several", keyOnly(`"id": "a", "provider": "openai", "base_url": "https://a.example/v1", "api_key": "S3CR3T"`), []string{
			"2:46: pool.keys[0].base_url: needs `protocol` beside it: this provider speaks \"openai-responses\", \"openai-chat\"; `endpoints` can name several"}},
		{"endpoints and what they are in the place of", inPool(`, "protocol": "anthropic", "base_url": "S3CR3T", "endpoints": {"anthropic": "https://a.example"}`), []string{
			"2:15: pool.keys[0].protocol: " + sayIt, "2:40: pool.keys[0].base_url: " + sayIt}},
		{"no endpoints", inPool(`, "endpoints": {}`), []string{
			"2:16: pool.keys[0].endpoints: must not be empty: the key would have no upstream; leave it out where `provider`, or `protocol` and `base_url` say it"}},
		{"endpoints of a wrong type", inPool(`, "endpoints": ["S3CR3T"]`), []string{"2:16: pool.keys[0].endpoints: must be an object, not a list"}},
		{"endpoints", inPool(`, "endpoints": {"openai_chat": "https://a.example", "bedrock": "S3CR3T", "gemini": "http://a.example",
"anthropic": "https://${NO}", "openai-chat": 1, "gemini": "S3CR3T", "openai-responses": ""}`), []string{
			`2:17: pool.keys[0].endpoints.openai_chat: name must be one of "anthropic", "openai-responses", "openai-chat", "gemini"; did you mean "openai-chat"?`,
			`2:53: pool.keys[0].endpoints.bedrock: name must be one of "anthropic", "openai-responses", "openai-chat", "gemini"`,
			"2:84: pool.keys[0].endpoints.gemini: must be https: over http the key is readable on the way; set `allow_http` if you want that",
			"3:14: pool.keys[0].endpoints.anthropic: must be a URL (environment variable NO is not set)",
			"3:46: pool.keys[0].endpoints.openai-chat: must be a string, not a number",
			"3:49: pool.keys[0].endpoints.gemini: given twice; first in line 2",
			"3:89: pool.keys[0].endpoints.openai-responses: must begin with https://",
		}},
		{"a prefix at one of the endpoints", inPool(`, "key_prefix": "Token", "endpoints": {"anthropic": "https://a.example", "openai-chat": "https://a.example"}`), []string{
			"2:17: pool.keys[0].key_prefix: must end with a space, which parts it from the key"}},
		{"headers that carry the key", inPool(`, "headers": {"X-Api-Key": "S3CR3T", "Authorization": "S3CR3T", "x-goog-api-key": "b"}, "endpoints": {"anthropic": "https://a.example", "openai-chat": "https://a.example"}`), []string{
			"2:15: pool.keys[0].headers.X-Api-Key: must not be set: this header carries the key",
			"2:38: pool.keys[0].headers.Authorization: must not be set: this header carries the key"}},
		{"a header without a name where no key is sent", keyOnly(`"id": "a", "provider": "ollama", "headers": {"": "S3CR3T"}`), []string{
			`2:46: pool.keys[0].headers[""]: must be a valid header name`}},
		{"a key of a provider that asks for none", `{"pool": {"strategy": "fill-first", "keys": [
{"id": "a", "provider": "ollama", "key_prefix": "Bearer "}, {"id": "b", "provider": "ollama", "credential": "api_key"}]}}`, []string{
			"2:1: pool.keys[0]: `api_key` is required", "2:61: pool.keys[1]: `api_key` is required"}},
		{"no key", keyOnly(`"id": "a", "provider": "gemini"`), []string{"1:20: pool.keys[0]: `api_key` is required"}},
	}
}

func poolFaults() []fault {
	key := `{"id": "a", "provider": "anthropic", "api_key": "S3CR3T"}`
	return []fault{
		{"no keys", `{"pool": {"keys": []}}`, []string{"1:19: pool.keys: must not be empty: the pool would have no key"}},
		{"keys left out", `{"pool": {"max_wait_seconds": 1}}`, []string{"1:10: pool: `keys` is required"}},
		{"strategy", `{"pool": {"strategy": "session-stcky", "keys": [` + key + `, {"id": "b", "provider": "anthropic", "api_key": "S3CR3T"}]}}`, []string{
			`1:23: pool.strategy: must be one of "session-sticky", "fill-first", "round-robin", "least-used", "least-recent"; did you mean "session-sticky"?`}},
		{"session-sticky without limits", `{"pool": {"keys": [` + key + `,
{"id": "b", "provider": "anthropic", "api_key": "S3CR3T", "daily_limit_tokens": 1},
{"id": "c", "provider": "anthropic", "api_key": "S3CR3T", "monthly_limit_tokens": 1},
{"id": "d", "provider": "anthropic", "api_key": "S3CR3T", "enabled": false},
{"id": "e${EMPTY}", "provider": "anthropic", "api_key": "${NO}"}], "strategy": "session-sticky"}}`, []string{
			`5:80: pool.strategy: strategy session-sticky needs daily_limit_tokens or monthly_limit_tokens on every enabled key (or take another strategy); without: "a", pool.keys[4]`}},
		{"session-sticky by default", "{\"pool\": {\n\"keys\": [" + key + `, {"id": "b", "provider": "anthropic", "credential": "passthrough"}]}}`, []string{
			`2:9: pool.keys: strategy session-sticky needs daily_limit_tokens or monthly_limit_tokens on every enabled key (or take another strategy); without: "a", "b"`}},
		{"variables that collide", `{"pool": {"strategy": "fill-first", "keys": [{"id": "x-1", "provider": "anthropic", "api_key": "S3CR3T"},
{"id": "X.1", "provider": "anthropic", "api_key": "S3CR3T"}]}}`, []string{
			"2:8: pool.keys[1].id: its variable PROXY_API_KEY_X_1 is also that of the id in line 1"}},
		{"protocol of one key only", `{"pool": {"strategy": "fill-first", "keys": [` + key + `,
{"id": "b", "provider": "house", "base_url": "https://b.example", "api_key": "S3CR3T"}]}}`, []string{
			"2:1: pool.keys[1]: `protocol` is required; the providers that bring it are " + allKnown}},
		{"weights", "{\"pool\": {\"count\": {\"input\": -1, \"outptu\": 1},\n\"rebalance_threshold\": 1.01, \"keys\": [" + key + `]}}`, []string{
			"1:30: pool.count.input: must be between 0 and 1000",
			`1:34: pool.count.outptu: unknown field; did you mean "output"?`,
			"2:24: pool.rebalance_threshold: must be between 0 and 1",
		}},
		{"upstreams beside pool", "{\"pool\": {\"keys\": [" + key + "]},\n\"upstreams\": []}", []string{
			"2:14: upstreams: cannot stand beside `pool`: move these keys there"}},
		{"not an upstream", `{"upstreams": ["S3CR3T"]}`, []string{"1:16: upstreams[0]: must be an object, not a string"}},
		{"no upstreams", `{"upstreams": []}`, []string{"1:15: upstreams: must not be empty: the pool would have no key"}},
		{"upstreams", `{"upstreams": [
{"id": "a", "provider": "anthropic", "api_key": "S3CR3T", "model": "m", "models": {"m": "n"}},
{"id": "b", "provider": "anthropic", "api_key": "S3CR3T", "real_model": "m"},
{"id": "c", "provider": "anthropic", "api_key": "S3CR3T", "model": "m*", "real_model": "*"},
{"id": "d", "provider": "anthropic", "api_key": "S3CR3T", "daily_limit_tokens": 1},
{"id": "e", "api_key": "S3CR3T"}]}`, []string{
			"2:1: upstreams[0]: has `models` and also `model` or `real_model`",
			"3:73: upstreams[1].real_model: needs `model`, the name that clients use",
			`4:68: upstreams[2].model: must be exact; the only wildcard is the whole name "*"`,
			"4:88: upstreams[2].real_model: must name a model",
			"5:59: upstreams[3].daily_limit_tokens: unknown field",
			"6:1: upstreams[4]: `base_url` is required; the providers that bring it are " + known,
		}},
	}
}

func authFaults() []fault {
	return []fault{
		{"nothing", inAuth(`"request_keys": [{}], "groups": [{}]`), []string{
			"2:18: auth.request_keys[0]: `code` is required", "2:18: auth.request_keys[0]: `api_key` is required",
			"2:34: auth.groups[0]: `name` is required", "2:34: auth.groups[0]: a group needs `keys` or `tiers`: without any it lets nobody in"}},
		{"empty keys", inAuth(`"request_keys": [{"code": "a", "api_key": ""},
{"code": "b", "api_key": " \t"}, {"code": "c", "api_key": "${EMPTY}"},
{"code": "d", "api_key": "S3CR3T-${NO}"}], "local_api_key": ""`), []string{
			"2:43: auth.request_keys[0].api_key: must not be empty",
			"3:26: auth.request_keys[1].api_key: must not be empty",
			"3:59: auth.request_keys[2].api_key: must not be empty",
			"4:26: auth.request_keys[3].api_key: a request key must be complete (environment variable NO is not set)",
			"4:61: auth.local_api_key: must not be empty",
		}},
		{"the same twice", inAuth(`"request_keys": [{"code": "a", "api_key": "S3CR3T"},
{"code": "a", "api_key": "${KEY} "}], "local_api_key": "S3CR3T"`), []string{
			"3:10: auth.request_keys[1].code: duplicate code; first in line 2",
			"3:26: auth.request_keys[1].api_key: the same key as in line 2",
			"3:56: auth.local_api_key: the same key as in line 2",
		}},
		{"codes", inAuth(`"request_keys": [{"code": "(default)", "api_key": "S3CR3T"}, {"code": "", "api_key": "S3CR3T-2"}, {"code": "a\u0007", "api_key": "S3CR3T\u0007"}]`), []string{
			"2:27: auth.request_keys[0].code: must not begin with a parenthesis: such codes are reserved, (default) for `auth.local_api_key`",
			"2:71: auth.request_keys[1].code: must not be empty",
			"2:108: auth.request_keys[2].code: must not contain control characters",
			"2:130: auth.request_keys[2].api_key: must not contain control characters",
		}},
		{"groups", inAuth(`"groups": [{"name": "g", "keys": ["zhipu-2", "b"]}, {"name": "g", "keys": ["b"]},
{"name": "", "keys": ["b", ""]}, {"name": "h", "keys": []}, {"name": "i", "keys": ["b"], "tiers": ["x"]}]`), []string{
			`2:35: auth.groups[0].keys[0]: unknown key; did you mean "zhipu-1"?`,
			"2:62: auth.groups[1].name: duplicate group; first in line 2",
			"3:10: auth.groups[2].name: must not be empty",
			"3:28: auth.groups[2].keys[1]: unknown key",
			"3:34: auth.groups[3]: a group needs `keys` or `tiers`: without any it lets nobody in",
			"3:100: auth.groups[4].tiers[0]: unknown tier",
		}},
		{"a caller's group", inAuth(`"groups": [{"name": "cheap", "keys": ["b"]}], "request_keys": [{"code": "a", "api_key": "S3CR3T", "group": "cheep"},
{"code": "b", "api_key": "S3CR3T-b", "group": ""}, {"code": "c", "api_key": "S3CR3T-c", "group": null}, {"code": "d", "api_key": "S3CR3T-d", "group": "${NO}"}]`), []string{
			`2:108: auth.request_keys[0].group: unknown group; did you mean "cheap"?`,
			"3:47: auth.request_keys[1].group: unknown group",
			"3:98: auth.request_keys[2].group: must be a string, not null",
			"3:151: auth.request_keys[3].group: unknown group (environment variable NO is not set)",
		}},
		{"models", inAuth(`"request_keys": [{"code": "a", "api_key": "S3CR3T", "models": []}, {"code": "b", "api_key": "S3CR3T-b", "models": ["", "a\nb"]}]`), []string{
			"2:63: auth.request_keys[0].models: must not be empty: no model would be allowed; leave it out to allow all",
			"2:116: auth.request_keys[1].models[0]: must not be empty",
			"2:120: auth.request_keys[1].models[1]: must not contain control characters",
		}},
		{"expires", inAuth(`"request_keys": [{"code": "a", "api_key": "S3CR3T", "expires": "2027-02-30"}, {"code": "b", "api_key": "S3CR3T-b", "expires": "2027-01-31 18:00"}]`), []string{
			"2:64: auth.request_keys[0].expires: must be a day (2027-01-31) or a time (2027-01-31T18:00:00+01:00)",
			"2:127: auth.request_keys[1].expires: must be a day (2027-01-31) or a time (2027-01-31T18:00:00+01:00)",
		}},
		{"limits of callers", inAuth(`"request_keys": [{"code": "a", "api_key": "S3CR3T", "requests_per_minute": 0, "max_in_flight": 1.5, "daily_limit_tokens": -1,
"monthly_limit_tokens": "1", "daily_limit_usd": 0, "addresses": []}], "admin_key": "S3CR3T"`), []string{
			"2:76: auth.request_keys[0].requests_per_minute: must be a whole number between 1 and 1000000",
			"2:96: auth.request_keys[0].max_in_flight: must be a whole number between 1 and 1000000",
			"2:123: auth.request_keys[0].daily_limit_tokens: must be a whole number between 1 and 1000000000000000",
			"3:25: auth.request_keys[0].monthly_limit_tokens: must be a number, not a string",
			"3:49: auth.request_keys[0].daily_limit_usd: must be between 1e-06 and 1e+09",
			"3:65: auth.request_keys[0].addresses: must not be empty: the key could be used nowhere; leave it out to allow any address",
			"3:84: auth.admin_key: the same key as in line 2",
		}},
		{"addresses", inAuth(`"allow_addresses": ["192.0.2.0/24", "::1", "192.0.2.7/24"], "deny_addresses": ["everybody", "fe80::1%eth0", 7, "${NO}"],
"request_keys": [{"code": "a", "api_key": "S3CR3T", "addresses": ["10.0.0.0/8", ""]}]`), []string{
			"2:44: auth.allow_addresses[2]: " + anAddress + "it has bits behind the range's end",
			"2:80: auth.deny_addresses[0]: " + anAddress + noAddress, "2:93: auth.deny_addresses[1]: " + anAddress + noAddress,
			"2:109: auth.deny_addresses[2]: must be a string, not a number",
			"2:112: auth.deny_addresses[3]: " + anAddress + noAddress + " (environment variable NO is not set)",
			"3:81: auth.request_keys[0].addresses[1]: " + anAddress + noAddress,
		}},
		{"a protected page without a key", inAuth(`"protect_pages": true`), []string{"2:18: auth.protect_pages: needs `auth.admin_key`: nobody could see the pages"}},
	}
}

const (
	anAddress = "must be an address (192.0.2.7, 2001:db8::7) or a range (192.0.2.0/24, 2001:db8::/32): "
	noAddress = "it is neither"
)

// Origins whose pages may ask, and proxies that are trusted.
func originFaults() []fault {
	const origin = "must be an origin as browsers send it, https://app.example or http://localhost:8080, in lower case, without a path or the usual port; or \"*\""
	return []fault{
		{"origins", `{"server": {"cors_origins": ["https://a.example", "http://localhost:8080", "app://obsidian.md", "http://[::1]:5173", "*",
"https://a.example/", "https://A.example", "a.example", "https://*.a.example", "https://a.example:443", "null", "", "https://u@a.example", "https://a.example/?x"]}}`, []string{
			"1:29: server.cors_origins: \"*\" needs `auth.request_keys`: any page could use the pool",
			"2:1: server.cors_origins[5]: " + origin, "2:23: server.cors_origins[6]: " + origin, "2:44: server.cors_origins[7]: " + origin,
			"2:57: server.cors_origins[8]: " + origin, "2:80: server.cors_origins[9]: " + origin, "2:105: server.cors_origins[10]: " + origin,
			"2:113: server.cors_origins[11]: " + origin, "2:117: server.cors_origins[12]: " + origin, "2:140: server.cors_origins[13]: " + origin,
		}},
		{"everybody a trusted proxy", `{"server": {"trusted_proxies": ["10.0.0.1", "0.0.0.0/0"]}}`, []string{
			"1:32: server.trusted_proxies: must be the addresses of proxies, not all there are: whoever connects could say where he comes from",
		}},
		{"everybody of IPv6 a trusted proxy", `{"server": {"trusted_proxies": ["::/0"]}}`, []string{
			"1:32: server.trusted_proxies: must be the addresses of proxies, not all there are: whoever connects could say where he comes from",
		}},
		{"trusted proxies", `{"server": {"trusted_proxies": ["10.0.0.1", "10.0.0.1/8", "nginx"]}}`, []string{
			"1:45: server.trusted_proxies[1]: " + anAddress + "it has bits behind the range's end", "1:59: server.trusted_proxies[2]: " + anAddress + noAddress,
		}},
	}
}

func TestBaseURL(t *testing.T) {
	const public = "http to a public address"
	tests := []struct{ url, want, wrong string }{
		{"https://a.example", "https://a.example", ""},
		{"HTTPS://a.example/v1//", "https://a.example/v1", ""},
		{"https://a.example/x%2Fy/", "https://a.example/x%2Fy", ""},
		{"http://localhost:8080/", "http://localhost:8080", ""},
		{"http://LOCALHOST", "http://LOCALHOST", ""},
		{"http://127.0.0.2", "http://127.0.0.2", ""},
		{"http://[::1]:1/a", "http://[::1]:1/a", ""},
		{"http://[::ffff:127.0.0.1]", "http://[::ffff:127.0.0.1]", ""},
		{"http://[::ffff:10.1.2.3]", "http://[::ffff:10.1.2.3]", ""},
		{"http://10.1.2.3", "http://10.1.2.3", ""},
		{"http://172.31.0.1", "http://172.31.0.1", ""},
		{"http://[fd00::1]", "http://[fd00::1]", ""},
		{"http://169.254.1.1", "http://169.254.1.1", ""},
		{"http://172.32.0.1", "", public},
		{"http://a.example", "", public},
		{"http://localhost.evil.test", "", public},
		{"http://127.0.0.1.evil.test", "", public},
		{"http://0x7f.1", "", "host"},
		{"https://user:S3CR3T@a.example", "", "user"},
		{"https://S3CR3T@a.example", "", "user"},
		{"https://a.example/?key=S3CR3T", "", "query"},
		{"https://a.example?", "", "query"},
		{"https://a.example/#", "", "query"},
		{"https://", "", "host"},
		{"https://a b", "", "URL"},
		{"https://:443", "", "host"},
		{"https://a.example:", "", "host"},
		{"https://a.example:0", "", "port"},
		{"https://a.example:65536", "", "port"},
		{"https://a.example:S3CR3T", "", "URL"},
		{"ftp://a.example", "", "https://"},
		{"a.example", "", "https://"},
		{"//a.example", "", "https://"},
		{"", "", "https://"},
		{"https://${NO}.example", "", "URL"},
	}
	for _, test := range tests {
		u, wrong := baseURL(test.url, false)
		switch {
		case test.want != "" && (wrong != "" || u.String() != test.want):
			t.Errorf("%q = %v %q, want %s", test.url, u, wrong, test.want)
		case test.wrong == public && !strings.Contains(wrong, "allow_http"):
			t.Errorf("%q: %q, want the hint at allow_http", test.url, wrong)
		case test.wrong != "" && test.wrong != public && !strings.Contains(wrong, test.wrong):
			t.Errorf("%q: %q, want it to name %q", test.url, wrong, test.wrong)
		case strings.Contains(wrong, secretMark):
			t.Errorf("%q: the text shows a key: %s", test.url, wrong)
		}
		if test.wrong == public {
			if u, wrong := baseURL(test.url, true); wrong != "" || u.String() != test.url {
				t.Errorf("%q with allow_http: %v %q", test.url, u, wrong)
			}
		}
	}
}

func TestDidYouMean(t *testing.T) {
	for name, want := range map[string]string{
		"strateyg": "strategy", "stratgy": "strategy", "keys": "keys", "key": "keys", "Count": "count", "max_wait": "", "zzzzzzzz": "",
		strings.Repeat("k", 1000): "",
	} {
		got := didYouMean(name, []string{"keys", "strategy", "count", "max_wait_seconds"})
		if want == "" && got != "" || want != "" && got != `; did you mean "`+want+`"?` {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}
