package config

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"coding-proxy/auth"
	"coding-proxy/pool"
	"coding-proxy/proxy"
	"coding-proxy/proxy/upstream"
)

// secretMark is in every key of the tests; nothing that a person reads may contain it.
const secretMark = "S3CR3T"

// source makes a Source whose only file is config.json, with mode 0600.
func source(file string, environment map[string]string) Source {
	files := fstest.MapFS{"config.json": {Data: []byte(file), Mode: 0o600}}
	var environ []string
	for _, name := range slices.Sorted(maps.Keys(environment)) {
		environ = append(environ, name+"="+environment[name])
	}
	return Source{
		Getenv:   func(name string) (string, bool) { v, ok := environment[name]; return v, ok },
		Environ:  environ,
		ReadFile: files.ReadFile,
		Stat:     files.Stat,
	}
}

func mustLoad(t *testing.T, src Source) *Config {
	t.Helper()
	c, err := Load(src)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	return c
}

// problems loads src and returns the lines of its error.
func problems(t *testing.T, src Source) []string {
	t.Helper()
	c, err := Load(src)
	if err == nil {
		t.Fatalf("Load succeeded: %+v", c)
	}
	if c != nil {
		t.Errorf("Load returned a configuration beside its error")
	}
	if strings.Contains(fmt.Sprintf("%s %+v %#v", err, err, err), secretMark) {
		t.Errorf("the error shows a key: %+v", err)
	}
	var all *Problems
	if !errors.As(err, &all) {
		t.Fatalf("error is %T, want *Problems", err)
	}
	return strings.Split(err.Error(), "\n")
}

func equal[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s\n got %#v\nwant %#v", what, got, want)
	}
}

// waysOf writes a key's endpoints, one line each: protocol, address, header and prefix of the credential.
func waysOf(o upstream.Options) []string {
	var lines []string
	for _, e := range o.Endpoints {
		lines = append(lines, fmt.Sprintf("%s %s %s: %s", e.Protocol, e.BaseURL, e.HeaderName, e.HeaderPrefix))
	}
	return lines
}

func TestEveryField(t *testing.T) {
	c := mustLoad(t, source(`{
		"server": {"host": "0.0.0.0", "port": 4000, "data_dir": "state/", "allowed_hosts": ["Proxy.Example", "10.0.0.7"], "shutdown_seconds": 1.5},
		"auth": {
			"request_keys": [
				{"code": "laptop", "api_key": "S3CR3T-a"},
				{"code": "ci", "api_key": "  ${CI}\n", "group": "cheap", "models": ["claude-*", "vendor/x"], "expires": "2027-01-31"},
				{"code": "guest", "api_key": "S3CR3T-c", "expires": "2027-01-31T18:00:00+01:00"}
			],
			"groups": [{"name": "cheap", "keys": ["b", "d"]}]
		},
		"pool": {
			"keys": [
				{"id": "a", "provider": "anthropic", "api_key": "S3CR3T-1$x$USER", "daily_limit_tokens": 5e6},
				{"id": "b", "provider": "vendor", "protocol": "anthropic", "base_url": "https://Api.Example:8443/anthropic/", "api_key": "${B}",
				 "key_header_name": "Authorization", "headers": {"X-Team": "blue ${TEAM}"}, "models": {"claude-haiku": "v/small", "*": "big"},
				 "monthly_limit_tokens": 100, "max_concurrent": 3, "drop_fields": ["thinking"], "drop_betas": ["beta-1"]},
				{"id": "c", "provider": "anthropic", "api_key": "S3CR3T-3", "enabled": false},
				{"id": "d", "provider": "anthropic", "credential": "passthrough", "base_url": "http://example.com", "allow_http": true, "daily_limit_tokens": 1},
				{"id": "e", "protocol": "anthropic", "base_url": "http://192.168.1.2:80", "credential": "api_key", "api_key": "S3CR3T-5",
				 "key_header_name": "x-token", "key_prefix": "key=", "daily_limit_tokens": 1},
				{"id": "f", "provider": "openai", "api_key": "S3CR3T-6", "daily_limit_tokens": 1},
				{"id": "g", "provider": "two", "endpoints": {"gemini": "https://two.example/v1beta/", "openai-chat": "${TWO}/v4", "anthropic": "http://127.0.0.1:1"},
				 "api_key": "S3CR3T-7", "daily_limit_tokens": 1},
				{"id": "h", "provider": "ollama", "daily_limit_tokens": 1}
			],
			"strategy": "session-sticky", "rebalance_threshold": 0.5, "rebalance_cooldown_seconds": 0, "session_idle_hours": 0.5, "max_wait_seconds": 0.25,
			"count": {"input": 2, "output": 3, "cache_creation": 0, "cache_read": 0.5}
		},
		"failover": {"status_codes": [418], "error_types": [], "error_message_patterns": ["busy"], "cap_patterns": ["cap"], "max_attempts": 2, "max_seconds": 3, "hold_first_event_seconds": 0},
		"timeouts": {"connect_seconds": 1, "first_byte_seconds": 2, "first_byte_nonstream_seconds": 3, "idle_seconds": 4},
		"limits": {"max_body_bytes": 1000, "max_header_bytes": 8192, "max_in_flight": 9},
		"answer_probes": false, "count_tokens": "local",
		"stats": {"journal_days": 1, "usage_days": 2},
		"log": {"level": "debug", "format": "json", "file": "proxy.log"}
	}`, map[string]string{"CI": "S3CR3T-b", "B": "S3CR3T-2${A}", "TEAM": "S3CR3T-t", "TWO": "https://two.example"}))

	equal(t, "warnings", c.Warnings, nil)
	equal(t, "path", c.Path, "config.json")
	hosts := []string{"proxy.example", "10.0.0.7"}
	equal(t, "server", c.Server, Server{Host: "0.0.0.0", Port: 4000, DataDir: "state", AllowedHosts: hosts, Shutdown: 1500 * time.Millisecond})
	equal(t, "web", c.Web.AllowedHosts, hosts)
	equal(t, "log", c.Log, Log{Level: slog.LevelDebug, Format: "json", File: "proxy.log"})
	equal(t, "auth", c.Auth, auth.Options{
		RequestKeys: []auth.RequestKey{
			{Code: "laptop", Key: auth.NewSecret("S3CR3T-a")},
			{Code: "ci", Key: auth.NewSecret("S3CR3T-b"), Group: "cheap", Models: []string{"claude-*", "vendor/x"},
				Expires: time.Date(2027, 2, 1, 0, 0, 0, 0, time.Local)},
			{Code: "guest", Key: auth.NewSecret("S3CR3T-c"), Expires: c.Auth.RequestKeys[2].Expires},
		},
		Groups: []auth.Group{{Name: "cheap", Keys: []string{"b", "d"}}},
	})
	if at := time.Date(2027, 1, 31, 17, 0, 0, 0, time.UTC); !c.Auth.RequestKeys[2].Expires.Equal(at) {
		t.Errorf("expires %v, want %v", c.Auth.RequestKeys[2].Expires, at)
	}

	claude := []string{"anthropic"}
	equal(t, "pool", c.Pool, pool.Options{
		Tiers: []pool.Tier{{Name: "default", Strategy: pool.SessionSticky, Keys: []pool.Key{
			{ID: "a", Provider: "anthropic", Protocols: claude, DailyLimit: 5_000_000},
			{ID: "b", Provider: "vendor", Protocols: claude, Models: map[string]string{"claude-haiku": "v/small", "*": "big"}, MonthlyLimit: 100, MaxConcurrent: 3},
			{ID: "c", Provider: "anthropic", Protocols: claude, Disabled: true, DisabledReason: "switched off in the configuration"},
			{ID: "d", Provider: "anthropic", Protocols: claude, DailyLimit: 1, Passthrough: true},
			{ID: "e", Protocols: claude, DailyLimit: 1},
			{ID: "f", Provider: "openai", Protocols: []string{"openai-responses", "openai-chat"}, DailyLimit: 1},
			{ID: "g", Provider: "two", Protocols: []string{"anthropic", "openai-chat", "gemini"}, DailyLimit: 1},
			{ID: "h", Provider: "ollama", Protocols: []string{"openai-chat"}, DailyLimit: 1},
		}}},
		RebalanceThreshold: 0.5,
		SessionIdle:        30 * time.Minute,
		MaxWait:            250 * time.Millisecond,
		Count:              pool.Weights{Input: 2, Output: 3, CacheRead: 0.5},
	})

	ways := make(map[string][]string)
	rest := maps.Clone(c.Upstreams)
	for id, way := range rest {
		ways[id] = waysOf(way)
		way.Endpoints = nil
		rest[id] = way
	}
	equal(t, "endpoints", ways, map[string][]string{
		"a": {"anthropic https://api.anthropic.com x-api-key: "},
		"b": {"anthropic https://Api.Example:8443/anthropic authorization: Bearer "},
		"c": {"anthropic https://api.anthropic.com x-api-key: "},
		"d": {"anthropic http://example.com : "},
		"e": {"anthropic http://192.168.1.2:80 x-token: key="},
		"f": {"openai-responses https://api.openai.com/v1 authorization: Bearer ", "openai-chat https://api.openai.com/v1 authorization: Bearer "},
		"g": {"anthropic http://127.0.0.1:1 x-api-key: ", "openai-chat https://two.example/v4 authorization: Bearer ", "gemini https://two.example/v1beta x-goog-api-key: "},
		"h": {"openai-chat http://127.0.0.1:11434/v1 : "},
	})
	equal(t, "upstreams", rest, map[string]upstream.Options{
		"a": {KeyID: "a", APIKey: auth.NewSecret("S3CR3T-1$x$USER")},
		"b": {KeyID: "b", APIKey: auth.NewSecret("S3CR3T-2${A}"), Headers: map[string]auth.Secret{"x-team": auth.NewSecret("blue S3CR3T-t")},
			DropFields: []string{"thinking"}, DropBetas: []string{"beta-1"}},
		"c": {KeyID: "c", APIKey: auth.NewSecret("S3CR3T-3")},
		"d": {KeyID: "d", Passthrough: true},
		"e": {KeyID: "e", APIKey: auth.NewSecret("S3CR3T-5")},
		"f": {KeyID: "f", APIKey: auth.NewSecret("S3CR3T-6")},
		"g": {KeyID: "g", APIKey: auth.NewSecret("S3CR3T-7")},
		"h": {KeyID: "h"},
	})
	equal(t, "proxy", c.Proxy, proxy.Options{
		Failover: proxy.Failover{StatusCodes: []int{418}, ErrorTypes: []string{}, MessagePatterns: []string{"busy"}, CapPatterns: []string{"cap"},
			MaxAttempts: 2, MaxTime: 3 * time.Second},
		Timeouts: proxy.Timeouts{Connect: time.Second, FirstByte: 2 * time.Second, FirstByteNonstream: 3 * time.Second, Idle: 4 * time.Second},
		Limits:   proxy.Limits{MaxBodyBytes: 1000, MaxHeaderBytes: 8192, MaxInFlight: 9},
	})
	equal(t, "stats", []any{c.Stats.Dir, c.Stats.UsageFile, c.Stats.JournalDays, c.Stats.UsageDays}, []any{"state", "", 1, 2})

	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if s := fmt.Sprintf(verb, c); strings.Contains(s, secretMark) {
			t.Errorf("%s shows a key: %s", verb, s)
		}
	}
}

func TestDefaults(t *testing.T) {
	none := source("", nil)
	none.ReadFile = fstest.MapFS{}.ReadFile
	for name, src := range map[string]Source{"no file": none, "empty object": source("{}", nil), "BOM": source("\uFEFF{}", nil)} {
		c := mustLoad(t, src)
		equal(t, name+": server", c.Server, Server{Host: "127.0.0.1", Port: 3456, DataDir: "data", Shutdown: 30 * time.Second})
		equal(t, name+": log", c.Log, Log{Level: slog.LevelInfo, Format: "text"})
		equal(t, name+": auth", c.Auth, auth.Options{})
		equal(t, name+": proxy", c.Proxy, proxy.Defaults())
		equal(t, name+": warnings", c.Warnings, nil)
		want := pool.Defaults()
		want.Tiers = []pool.Tier{{Name: "default", Strategy: pool.FillFirst, Keys: []pool.Key{
			{ID: "anthropic", Provider: "anthropic", Protocols: []string{"anthropic"}, Passthrough: true},
		}}}
		equal(t, name+": pool", c.Pool, want)
		equal(t, name+": upstreams", len(c.Upstreams), 1)
		equal(t, name+": address", c.Upstreams["anthropic"].Endpoints[0].BaseURL.String(), "https://api.anthropic.com")
	}
	equal(t, "no path", mustLoad(t, none).Path, "")
	one := mustLoad(t, source(`{"pool": {"keys": [{"id": "a", "provider": "anthropic", "api_key": "S3CR3T"}]}}`, nil))
	equal(t, "strategy of a pool", one.Pool.Tiers[0].Strategy, pool.SessionSticky)
}

func TestFind(t *testing.T) {
	home := filepath.Join("home", ".coding-proxy", "config.json")
	files := func(paths ...string) Source {
		src := source("", nil)
		src.Home = "home"
		tree := fstest.MapFS{}
		for _, p := range paths {
			tree[filepath.ToSlash(p)] = &fstest.MapFile{Data: []byte("{}"), Mode: 0o600}
		}
		src.ReadFile, src.Stat = tree.ReadFile, tree.Stat
		return src
	}
	here := files("config.json", home, "other.json")
	equal(t, "working directory first", mustLoad(t, here).Path, "config.json")
	equal(t, "then home", mustLoad(t, files(home)).Path, home)
	here.Path = "other.json"
	equal(t, "as named", mustLoad(t, here).Path, "other.json")

	missing := files(home)
	missing.Path = "nope.json"
	_, err := Load(missing)
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "nope.json") {
		t.Errorf("a named file that is missing: %v", err)
	}
	unreadable := files(home)
	unreadable.ReadFile = func(string) ([]byte, error) { return nil, fs.ErrPermission }
	if _, err := Load(unreadable); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a file that cannot be read must not be passed over: %v", err)
	}
}

func TestPrecedence(t *testing.T) {
	port := func(n int) *int { return &n }
	file := `{"server": {"host": "127.0.0.2", "port": 4000, "data_dir": "d"}, "log": {"level": "error"}}`
	tests := []struct {
		name        string
		file        string
		flags       Source
		environment map[string]string
		host        string
		port        int
		dir         string
	}{
		{"file", file, Source{}, nil, "127.0.0.2", 4000, "d"},
		{"environment", file, Source{}, map[string]string{"PROXY_HOST": "127.0.0.3", "PROXY_PORT": "5000"}, "127.0.0.3", 5000, "d-5000"},
		{"flags", file, Source{Host: "127.0.0.4", Port: port(6000)}, map[string]string{"PROXY_HOST": "127.0.0.3", "PROXY_PORT": "bad"}, "127.0.0.4", 6000, "d-6000"},
		{"same port", file, Source{Port: port(4000)}, nil, "127.0.0.2", 4000, "d"},
		{"default port", "{}", Source{Port: port(3456)}, nil, "127.0.0.1", 3456, "data"},
		{"another than the default", "{}", Source{}, map[string]string{"PROXY_PORT": "3457"}, "127.0.0.1", 3457, "data-3457"},
		{"any port", file, Source{Port: port(0)}, nil, "127.0.0.2", 0, "d-0"},
		{"directory by variable", file, Source{Port: port(5000)}, map[string]string{"PROXY_DATA_DIR": "e/"}, "127.0.0.2", 5000, "e"},
		{"directory by flag", file, Source{Port: port(5000), DataDir: "f"}, map[string]string{"PROXY_DATA_DIR": "e"}, "127.0.0.2", 5000, "f"},
		{"empty variables", file, Source{}, map[string]string{"PROXY_HOST": "", "PROXY_PORT": "", "PROXY_DATA_DIR": ""}, "127.0.0.2", 4000, "d"},
		{"working directory", `{"server": {"data_dir": "."}}`, Source{Port: port(1)}, nil, "127.0.0.1", 1, "data-1"},
		{"parent", `{"server": {"data_dir": "../"}}`, Source{Port: port(1)}, nil, "127.0.0.1", 1, filepath.Join("..", "data-1")},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			src := source(test.file, test.environment)
			src.Host, src.Port, src.DataDir = test.flags.Host, test.flags.Port, test.flags.DataDir
			c := mustLoad(t, src)
			equal(t, "server", []any{c.Server.Host, c.Server.Port, c.Server.DataDir, c.Stats.Dir}, []any{test.host, test.port, test.dir, test.dir})
		})
	}

	c := mustLoad(t, source(file, map[string]string{"PROXY_LOG_LEVEL": "WARN", "PROXY_USAGE_FILE": "/tmp/usage.json"}))
	equal(t, "level", c.Log.Level, slog.LevelWarn)
	equal(t, "usage file", c.Stats.UsageFile, "/tmp/usage.json")
}

func TestOverridesAreChecked(t *testing.T) {
	src := source(`{"server": {"port": 99999}}`, map[string]string{"PROXY_PORT": "0x10", "PROXY_LOG_LEVEL": "inf", "PROXY_USAGE_FILE": "~/u", "PROXY_DATA_DIR": "a\x00b"})
	src.Host = "10.0.0.1:80"
	equal(t, "problems", problems(t, src), []string{
		"--host: must be an address or a host name, without a port",
		"PROXY_USAGE_FILE: must not begin with ~, which only shells replace; write ${HOME}",
		`PROXY_LOG_LEVEL: must be one of "debug", "info", "warn", "error"; did you mean "info"?`,
		"PROXY_DATA_DIR: must not contain control characters",
		"PROXY_PORT: must be a port, 0 to 65535",
		"config.json:1:21: server.port: must be a whole number between 0 and 65535",
	})
	bad := -1
	src = source("{}", nil)
	src.Port = &bad
	equal(t, "problems", problems(t, src), []string{"--port: must be a port, 0 to 65535"})
}

func TestKeyVariables(t *testing.T) {
	file := `{"pool": {"strategy": "round-robin", "keys": [
		{"id": "main.one-a", "provider": "anthropic", "api_key": "${NOT_SET}"},
		{"id": "b", "provider": "anthropic"},
		{"id": "p", "provider": "anthropic", "credential": "passthrough"}
	]}, "log": {"file": "${PROXY_API_KEY_USED}"}}`
	c := mustLoad(t, source(file, map[string]string{
		"PROXY_API_KEY_MAIN_ONE_A": " S3CR3T-1\n", "PROXY_API_KEY_B": "S3CR3T-${NOT_SET}", "PROXY_API_KEY_P": "S3CR3T",
		"PROXY_API_KEY_BB": "S3CR3T", "PROXY_API_KEY_USED": "log", "PROXY_API_KEY_": "S3CR3T",
	}))
	equal(t, "trimmed", c.Upstreams["main.one-a"].APIKey.Reveal(), "S3CR3T-1")
	equal(t, "taken as it is", c.Upstreams["b"].APIKey.Reveal(), "S3CR3T-${NOT_SET}")
	for _, k := range c.Pool.Tiers[0].Keys {
		equal(t, k.ID, k.Disabled, false)
	}
	equal(t, "warnings", c.Warnings, []string{
		"PROXY_API_KEY_P: is not used: this key passes the client's own credential on",
		`PROXY_API_KEY_BB: no key has this id; did you mean "PROXY_API_KEY_B"?`,
	})
}

func TestUnsetVariables(t *testing.T) {
	c := mustLoad(t, source(`{"log": {"file": "${LOG}"}, "pool": {"strategy": "fill-first", "keys": [
		{"id": "a", "provider": "anthropic", "api_key": "x-${NO_A}${SET}"},
		{"id": "b", "provider": "anthropic", "api_key": "${EMPTY}"},
		{"id": "c", "provider": "anthropic", "api_key": ""},
		{"id": "d", "provider": "anthropic", "api_key": "ok", "headers": {"x-b": "${NO_D}"}},
		{"id": "e", "provider": "anthropic", "api_key": "${NO_E}", "enabled": false},
		{"id": "f", "provider": "anthropic", "api_key": "$NO ${} ${1A} ${a-b} $${SET} ${ SET} ${SET"}
	]}}`, map[string]string{"SET": "S3CR3T", "EMPTY": ""}))
	equal(t, "warnings", c.Warnings, []string{
		"config.json:1:18: log.file: environment variable LOG is not set",
		`config.json:2:51: pool.keys[0].api_key: environment variable NO_A is not set: key "a" is disabled`,
		`config.json:3:51: pool.keys[1].api_key: environment variable EMPTY is empty: key "b" is disabled`,
		`config.json:4:51: pool.keys[2].api_key: api_key is empty: key "c" is disabled`,
		`config.json:5:76: pool.keys[3].headers.x-b: environment variable NO_D is not set: key "d" is disabled`,
	})
	var reasons []string
	for _, k := range c.Pool.Tiers[0].Keys {
		equal(t, k.ID, k.Disabled, k.DisabledReason != "")
		reasons = append(reasons, k.DisabledReason)
	}
	equal(t, "reasons", reasons, []string{"environment variable NO_A is not set", "environment variable EMPTY is empty", "api_key is empty",
		"environment variable NO_D is not set", "switched off in the configuration", ""})
	equal(t, "left as it stands", c.Log.File, "${LOG}")
	equal(t, "other dollars", c.Upstreams["f"].APIKey.Reveal(), "$NO ${} ${1A} ${a-b} $S3CR3T ${ SET} ${SET")
}

func TestFileMode(t *testing.T) {
	for mode, warned := range map[fs.FileMode]bool{0o600: false, 0o400: false, 0o640: true, 0o604: true, 0o644: true} {
		src := source("{}", nil)
		src.Stat = fstest.MapFS{"config.json": {Mode: mode}}.Stat
		c := mustLoad(t, src)
		if got := len(c.Warnings) == 1 && strings.Contains(c.Warnings[0], fmt.Sprintf("mode %04o", mode)); got != warned {
			t.Errorf("mode %o: warnings %q", mode, c.Warnings)
		}
	}
}

func TestOlderForms(t *testing.T) {
	environment := map[string]string{"KEY": "S3CR3T-1"}
	t.Run("upstreams", func(t *testing.T) {
		c := mustLoad(t, source(`{"upstreams": [
			{"id": "a", "provider": "anthropic", "api_key": "${KEY}", "model": "claude-x"},
			{"id": "b", "provider": "v", "base_url": "https://v.example/api", "api_key": "S3CR3T-2", "model": "claude-y", "real_model": "v-<${KEY}>"},
			{"id": "c", "base_url": "https://w.example", "api_key": "S3CR3T-3", "models": {"claude-z": "w"}}
		]}`, environment))
		tier := c.Pool.Tiers[0]
		equal(t, "strategy", tier.Strategy, pool.FillFirst)
		var got []any
		for _, k := range tier.Keys {
			way := c.Upstreams[k.ID]
			got = append(got, k.ID, k.Protocols[0], way.Endpoints[0].BaseURL.String(), way.APIKey.Reveal(), k.Models)
		}
		equal(t, "keys", got, []any{
			"a", "anthropic", "https://api.anthropic.com", "S3CR3T-1", map[string]string{"claude-x": "claude-x"},
			"b", "anthropic", "https://v.example/api", "S3CR3T-2", map[string]string{"claude-y": "v-<S3CR3T-1>"},
			"c", "anthropic", "https://w.example", "S3CR3T-3", map[string]string{"claude-z": "w"},
		})
		equal(t, "warnings", c.Warnings, []string{`config.json:1:15: upstreams: older form, still read; write {"pool":{"strategy":"fill-first","keys":[` +
			`{"id":"a","provider":"anthropic","protocol":"anthropic","api_key":"***","models":{"claude-x":"claude-x"}},` +
			`{"id":"b","provider":"v","protocol":"anthropic","base_url":"https://v.example/api","api_key":"***","models":{"claude-y":"v-<${KEY}>"}},` +
			`{"id":"c","protocol":"anthropic","base_url":"https://w.example","api_key":"***","models":{"claude-z":"w"}}]}}`})

		// The form that the warning prints is a configuration, and means the same.
		_, form, _ := strings.Cut(c.Warnings[0], "write ")
		again := mustLoad(t, source(form, environment))
		equal(t, "the new form's pool", again.Pool, c.Pool)
		equal(t, "the new form's warnings", again.Warnings, nil)
	})
	t.Run("local_api_key", func(t *testing.T) {
		c := mustLoad(t, source(`{"server": {"host": "::"}, "auth": {"local_api_key": "${KEY}"}}`, environment))
		equal(t, "keys", c.Auth.RequestKeys, []auth.RequestKey{{Code: "(default)", Key: auth.NewSecret("S3CR3T-1")}})
		equal(t, "warnings", c.Warnings, []string{`config.json:1:54: auth.local_api_key: older form, still read, its caller is "(default)"; ` +
			`write "request_keys": [{"code": "default", "api_key": "***"}]`})
	})
	t.Run("reference 2", func(t *testing.T) {
		c := mustLoad(t, source(`{"pool": {"keys": [{"id": "a", "provider": "house", "base_url": "https://v.example", "api_key": "S3CR3T"}]}}`, nil))
		equal(t, "protocol", c.Upstreams["a"].Endpoints[0].Protocol, "anthropic")
		equal(t, "warnings", c.Warnings, []string{`config.json:1:19: pool.keys: older form, still read: keys without protocol are taken as Anthropic; ` +
			`write "protocol": "anthropic" in each`})
	})
}

func TestExample(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "config.json.example"))
	if err != nil {
		t.Fatal(err)
	}
	environment := make(map[string]string)
	_, names, _ := expand(string(data), func(string) (string, bool) { return "", false })
	for i, name := range names {
		environment[name] = fmt.Sprintf("S3CR3T-%d", i)
	}
	c := mustLoad(t, source(string(data), environment))
	equal(t, "warnings", c.Warnings, nil)
	equal(t, "callers, tiers and keys", []int{len(c.Auth.RequestKeys), len(c.Pool.Tiers), len(c.Upstreams)}, []int{2, 5, 7})

	for _, line := range problems(t, source(string(data), nil)) {
		if !strings.Contains(line, "is not set") || !strings.Contains(line, "auth.request_keys[") {
			t.Errorf("without its variables the example has another problem: %s", line)
		}
	}
	maps.DeleteFunc(environment, func(name, _ string) bool { return !strings.HasPrefix(name, "PROXY_KEY_") })
	c = mustLoad(t, source(string(data), environment))
	equal(t, "warnings without the pool's variables", len(c.Warnings), 8)
	for _, w := range c.Warnings {
		if !strings.Contains(w, "is not set: key ") && !strings.Contains(w, " oauth.google.") {
			t.Errorf("unexpected warning: %s", w)
		}
	}
	for _, k := range c.Pool.Tiers[0].Keys {
		equal(t, k.ID+" is disabled", k.Disabled, true)
	}
}
