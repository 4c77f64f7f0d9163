package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coding-proxy/daemon"
	"coding-proxy/daemon/config"
	"coding-proxy/proxy/demo"
)

// command runs one in a folder of its own, as a shell would.
func runIn(t *testing.T, dir string, environment map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Main(append(args, "--config", filepath.Join(dir, "config.json"), "--data-dir", filepath.Join(dir, "data")), Environment{
		Getenv:  func(name string) (string, bool) { v, ok := environment[name]; return v, ok },
		HomeDir: func() (string, error) { return dir, nil },
		Stdout:  &out, Stderr: &errs,
	})
	return code, out.String(), errs.String()
}

func writeConfig(t *testing.T, text string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestCheck(t *testing.T) {
	const key = `{"id":"a","provider":"anthropic","api_key":"${KEY}"}`
	for _, c := range []struct {
		name, file  string
		environment map[string]string
		code        int
		says        []string
	}{
		{"good", `{"pool":{"keys":[` + key + `]}}`, map[string]string{"KEY": "S3CR3T-key"}, 0, []string{"is good: 1 tier, 1 key\n"}},
		{"unset variable", `{"pool":{"keys":[` + key + `]}}`, nil, 1, []string{"warning: ", "variable KEY is not set", `wrong:   key "a" is disabled`, "1 wrong"}},
		{"wrong in two places", "{\"pool\":{\"keys\":[" + key + "],\"strategi\":1},\n\"servr\":{}}", nil, 1, []string{
			`:1:72: pool.strategi: unknown field; did you mean "strategy"?`, `:2:1: servr: unknown field; did you mean "server"?`, "2 wrong"}},
		{"no JSON", `{`, nil, 1, []string{"1 wrong"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := writeConfig(t, c.file)
			code, out, _ := runIn(t, dir, c.environment, "check")
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			for _, text := range c.says {
				if !strings.Contains(out, text) {
					t.Errorf("no %q in\n%s", text, out)
				}
			}
			code, out, _ = runIn(t, dir, c.environment, "check", "--json")
			var v checked
			if err := json.Unmarshal([]byte(out), &v); err != nil || code != c.code || v.OK != (c.code == 0) || v.OK != (len(v.Problems) == 0) {
				t.Errorf("--json: exit code %d, %v: %s", code, err, out)
			}
			if strings.Contains(out, "S3CR3T") {
				t.Errorf("shows a key: %s", out)
			}
		})
	}
}

// --live tries each key with one tiny request, and shows what came of it without any key.
func TestCheckLive(t *testing.T) {
	good := demo.New(demo.Options{Name: "good", Keys: []string{"S3CR3T-good"}})
	good.Always(demo.Step{Header: http.Header{"Anthropic-Ratelimit-Requests-Remaining": {"49"}}})
	g := httptest.NewServer(good)
	defer g.Close()
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key %s\u001b[2J"}}`, r.Header.Get("x-api-key"))
	}))
	defer echo.Close()
	open := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"data":[]}`) }))
	defer open.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	key := func(id, url, more string) string {
		return fmt.Sprintf(`{"id":%q,"tier":"one","protocol":"anthropic","base_url":%q%s}`, id, url, more)
	}
	dir := writeConfig(t, `{"tiers":[{"name":"one","strategy":"fill-first","model_mapping":[{"pattern":"claude-*","target":"house-model"}]}],"pool":{"keys":[`+strings.Join([]string{
		key("works", g.URL, `,"api_key":"S3CR3T-good"`), key("refused", echo.URL, `,"api_key":"S3CR3T-bad"`), key("gone", gone.URL, `,"api_key":"S3CR3T-gone"`),
		key("off", g.URL, `,"api_key":"S3CR3T-off","enabled":false`), key("own", g.URL, `,"credential":"passthrough"`),
		fmt.Sprintf(`{"id":"chat","tier":"one","protocol":"openai-chat","base_url":"%s/v1","api_key":"S3CR3T-chat"}`, open.URL),
	}, ",")+`]}}`)
	code, out, _ := runIn(t, dir, nil, "check", "--live")
	if code != exitFailed || strings.Contains(out, "S3CR3T") || strings.Contains(out, "\x1b") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	for _, text := range []string{"works                200 in ", ", house-model\n", "anthropic-ratelimit-requests-remaining: 49", "refused              401 in ", "invalid x-api-key ***",
		"gone                 failed: no connection", "off                  skipped: switched off", "own                  skipped: passes each",
		"chat                 200 in ", ", GET /v1/models: its list of models is open to anyone"} {
		if !strings.Contains(out, text) {
			t.Errorf("no %q in\n%s", text, out)
		}
	}
	if n := len(good.Requests()); n != 1 {
		t.Errorf("%d requests have come", n)
	}
	code, out, _ = runIn(t, dir, nil, "check", "--live", "--json")
	var v checked
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != exitFailed || v.OK || len(v.Live) != 6 {
		t.Errorf("--json: %v %s", err, out)
	}
}

// route asks the running instance; without one there is nothing to say.
func TestRoute(t *testing.T) {
	p := httptest.NewServer(demo.New(demo.Options{Name: "p", Keys: []string{"S3CR3T-1", "S3CR3T-2"}}))
	defer p.Close()
	dir := writeConfig(t, fmt.Sprintf(`{"server":{"port":0},"auth":{"request_keys":[{"code":"ci","api_key":"S3CR3T-ci","group":"g"},{"code":"old","api_key":"S3CR3T-old","expires":"2020-01-01"}],"groups":[{"name":"g","keys":["b"]}]},
		"model_mapping":[{"pattern":"best","target":"claude-opus-5-5"}],
		"pool":{"keys":[{"id":"a","protocol":"anthropic","base_url":%q,"api_key":"S3CR3T-1","daily_limit_tokens":1000},
			{"id":"b","protocol":"anthropic","base_url":%[1]q,"api_key":"S3CR3T-2","daily_limit_tokens":3000,"models":{"claude-opus-5-5":"house-opus"}}]}}`, p.URL))
	if code, _, errs := runIn(t, dir, nil, "route", "--model", "best"); code != exitAbsent || !strings.Contains(errs, "nothing runs") {
		t.Errorf("not running: %d %s", code, errs)
	}
	cfg, err := config.Load(config.Source{Path: filepath.Join(dir, "config.json"), DataDir: filepath.Join(dir, "data"),
		Getenv: func(string) (string, bool) { return "", false }, ReadFile: os.ReadFile, Stat: os.Stat})
	if err != nil {
		t.Fatal(err)
	}
	d, err := daemon.New(cfg, daemon.NewLogger(cfg, io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- d.Serve(ctx, ctx) }()
	defer func() {
		end()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	for _, c := range []struct {
		args []string
		code int
		says []string
	}{
		{[]string{"--model", "best"}, 0, []string{"model  best, resolved to claude-opus-5-5", "a                    25.0 %", "b                    75.0 %, as house-opus", "likeliest: b in default"}},
		{[]string{"--model", "best", "--caller", "ci"}, 0, []string{"(group g)", "a                    scope", "b                    100.0 %"}},
		{[]string{"--model", "claude-haiku-4-5"}, 0, []string{"a                    100.0 %", "b                    model"}},
		{[]string{"--model", "claude-haiku-4-5", "--caller", "ci"}, 1, []string{"answer: 404 no key serves the model"}},
		{[]string{"--model", "best", "--caller", "old"}, 1, []string{"answer: 401 the request key has expired", "a                    scope", "b                    scope"}},
		{[]string{"--model", "best", "--caller", "nobody"}, 1, nil},
		{nil, 2, nil},
	} {
		code, out, errs := runIn(t, dir, nil, append([]string{"route"}, c.args...)...)
		if code != c.code {
			t.Errorf("%v: exit code %d, want %d: %s", c.args, code, c.code, errs)
		}
		for _, text := range c.says {
			if !strings.Contains(out, text) {
				t.Errorf("%v: no %q in\n%s", c.args, text, out)
			}
		}
	}
	code, out, _ := runIn(t, dir, nil, "route", "--model", "best", "--json")
	var v map[string]any
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != 0 || v["resolved_model"] != "claude-opus-5-5" {
		t.Errorf("--json: %d %v %s", code, err, out)
	}
}
