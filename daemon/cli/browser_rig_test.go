//go:build unix

package cli_test

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
	"time"

	"coding-proxy/daemon"
	"coding-proxy/daemon/config"
	"coding-proxy/proxy/demo"
)

const browserModel = "claude-sonnet-5-5"

// shown is a running proxy whose pages are looked at.
type shown struct {
	url       string
	providers map[string]*demo.Provider // by key id
	client    *http.Client
}

// shownKey is one key of the pool and the caller that can use only it, "only-" and its id.
type shownKey struct {
	id, tier string
	more     string // further members
}

// simulated serves a provider of its own for each key, below the key's id.
func simulated(t *testing.T, keys []shownKey) (url string, providers map[string]*demo.Provider) {
	t.Helper()
	providers = map[string]*demo.Provider{}
	for _, k := range keys {
		providers[k.id] = demo.New(demo.Options{Name: k.id})
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if p := providers[id]; p != nil {
			p.ServeHTTP(w, r)
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, providers
}

// shownConfig writes a configuration file.
func shownConfig(dir, providerURL, tiers string, keys []shownKey, callers ...string) []byte {
	var list, groups []string
	for _, k := range keys {
		tier := ""
		if k.tier != "" {
			tier = fmt.Sprintf(`"tier": %q, `, k.tier)
		}
		list = append(list, fmt.Sprintf(`{"id": %q, %s"provider": "simulated", "protocol": "anthropic", "base_url": "%s/%s", "api_key": "credential-of-%s"%s}`,
			k.id, tier, providerURL, k.id, k.id, k.more))
		groups = append(groups, fmt.Sprintf(`{"name": "group-%s", "keys": [%q]}`, k.id, k.id))
		callers = append(callers, fmt.Sprintf(`{"code": "only-%s", "api_key": "request-key-of-only-%s", "group": "group-%s"}`, k.id, k.id, k.id))
	}
	callers = append(callers, `{"code": "limited", "api_key": "request-key-of-limited", "models": ["claude-*", "glm-*"], "requests_per_minute": 60, "max_in_flight": 4,
"daily_limit_tokens": 1000000, "monthly_limit_tokens": 20000000, "daily_limit_usd": 5.5, "expires": "2099-12-31", "addresses": ["127.0.0.0/8", "::1"]}`)
	if tiers != "" {
		tiers = `"tiers": ` + tiers + ","
	}
	return fmt.Appendf(nil, `{"server": {"port": 0, "data_dir": %q, "shutdown_seconds": 1}, %s "auth": {"request_keys": [%s], "groups": [%s]},
"pool": {"strategy": "fill-first", "max_wait_seconds": 0, "keys": [%s]}}`,
		filepath.Join(dir, "data"), tiers, strings.Join(callers, ",\n"), strings.Join(groups, ",\n"), strings.Join(list, ",\n"))
}

// serveShown starts the proxy; stop ends it.
func serveShown(t *testing.T, dir string, configuration []byte) (url string, stop func()) {
	t.Helper()
	path := filepath.Join(dir, "config.json")
	if err := os.WriteFile(path, configuration, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.Source{Path: path, Getenv: func(string) (string, bool) { return "", false }, ReadFile: os.ReadFile, Stat: os.Stat})
	if err != nil {
		t.Fatal(err)
	}
	d, err := daemon.New(cfg, daemon.NewLogger(cfg, io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- d.Serve(ctx, ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		end()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return "http://" + d.Addr(), stop
}

func startShown(t *testing.T, tiers string, keys []shownKey, callers ...string) *shown {
	t.Helper()
	dir := t.TempDir()
	providerURL, providers := simulated(t, keys)
	url, _ := serveShown(t, dir, shownConfig(dir, providerURL, tiers, keys, callers...))
	return newShown(t, url, providers)
}

func newShown(t *testing.T, url string, providers map[string]*demo.Provider) *shown {
	client := &http.Client{Transport: &http.Transport{}, Timeout: browserPatience}
	t.Cleanup(client.CloseIdleConnections)
	return &shown{url, providers, client}
}

// ask sends a question of the caller and returns the status of the answer.
func (s *shown) ask(t *testing.T, code, model string) int {
	t.Helper()
	status, err := s.question(t.Context(), code, model)
	if err != nil {
		t.Fatal(err)
	}
	return status
}

func (s *shown) question(ctx context.Context, code, model string) (status int, err error) {
	body, err := json.Marshal(map[string]any{
		"model": model, "max_tokens": 100, "messages": []any{map[string]string{"role": "user", "content": "How much is left?"}},
	})
	if err != nil {
		return 0, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/messages", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("X-Api-Key", "request-key-of-"+code)
	r.Header.Set("Anthropic-Version", "2023-06-01")
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Session-Id", "session-of-"+code)
	resp, err := s.client.Do(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// only asks through the one key, which answers as the step says.
func (s *shown) only(t *testing.T, key string, step demo.Step, want int) {
	t.Helper()
	s.providers[key].Push(step)
	if got := s.ask(t, "only-"+key, browserModel); got != want {
		t.Errorf("key %s: status %d, want %d", key, got, want)
	}
}

// document asks the API.
func (s *shown) document(t *testing.T, path string) (doc any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	d := json.NewDecoder(resp.Body)
	d.UseNumber()
	if err := d.Decode(&doc); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: status %d, %v", path, resp.StatusCode, err)
	}
	return doc
}

func usage(input, output, written, read int) demo.Step {
	return demo.Step{Text: "Enough.", Usage: demo.Usage{Input: input, Output: output, CacheCreation: written, CacheRead: read}}
}

// refusal is an error that says for how long.
func refusal(status int) demo.Step {
	return demo.Step{Status: status, Header: http.Header{"Retry-After": {"3600"}}}
}

// oneKey is a pool of one key that was used a little.
func oneKey(t *testing.T) *shown {
	t.Helper()
	s := startShown(t, "", []shownKey{{id: "work", more: `, "daily_limit_tokens": 5000000, "monthly_limit_tokens": 40000000`}})
	s.only(t, "work", usage(1234567, 8910, 45000, 678900), 200)
	s.only(t, "work", usage(2345, 678, 0, 91000), 200)
	s.only(t, "work", demo.Step{Status: 400, Message: "prompt is too long: 2000000 tokens > 200000 maximum"}, 400)
	return s
}

const fortyTiers = `[
  {"name": "anthropic", "circuit_breaker": {"failure_threshold": 1, "recovery_timeout_seconds": 3000}},
  {"name": "copilot", "quota_guard": {"token_budget": 5000, "weekly_token_budget": 9000000, "probe_interval_seconds": 3000}},
  {"name": "zhipu", "circuit_breaker": {"failure_threshold": 1, "recovery_timeout_seconds": 0.05}, "quota_guard": {"token_budget": 7500000}},
  {"name": "the-last-resort-with-a-rather-long-name"}
]`

func keyID(tier, n int) string { return fmt.Sprintf("t%d-key-%02d", tier, n) }

// fortyKeys is a pool of four tiers with ten keys each, in all states that there are. A key and a caller are gone.
func fortyKeys(t *testing.T) *shown {
	t.Helper()
	names := []string{"anthropic", "copilot", "zhipu", "the-last-resort-with-a-rather-long-name"}
	var keys []shownKey
	for i, tier := range names {
		for n, more := range []string{
			`, "daily_limit_tokens": 1000000, "monthly_limit_tokens": 20000000`, `, "daily_limit_tokens": 1000`, `, "daily_limit_tokens": 1000`, `, "monthly_limit_tokens": 1000`,
			`, "daily_limit_tokens": 1000000`, `, "daily_limit_tokens": 1000000`, `, "enabled": false`, `, "max_concurrent": 1`, `, "daily_limit_tokens": 1000000`, ``,
		} {
			keys = append(keys, shownKey{keyID(i+1, n+1), tier, more})
		}
	}
	dir := t.TempDir()
	providerURL, providers := simulated(t, append(keys, shownKey{id: "gone-key"}))
	before, stop := serveShown(t, dir, shownConfig(dir, providerURL, "", []shownKey{{id: "gone-key"}}))
	newShown(t, before, providers).only(t, "gone-key", usage(4000, 300, 20, 1), 200)
	stop()
	url, _ := serveShown(t, dir, shownConfig(dir, providerURL, fortyTiers, keys, `{"code": "laptop", "api_key": "request-key-of-laptop"}`))
	s := newShown(t, url, providers)
	for tier := range names {
		s.useTier(t, tier+1)
	}
	s.only(t, keyID(1, 10), refusal(503), 503) // its breaker opens
	s.only(t, keyID(3, 10), refusal(503), 503) // its breaker opens, and is half-open soon
	s.until(t, "the breaker of zhipu is half-open", func() bool {
		return lookup(s.document(t, "/api/pool/stats"), "tiers.2.breaker.state") == "half_open"
	})
	return s
}

// useTier brings the keys of a tier into their states.
func (s *shown) useTier(t *testing.T, tier int) {
	t.Helper()
	s.only(t, keyID(tier, 5), refusal(429), 429)
	s.only(t, keyID(tier, 6), refusal(401), 503)
	hold := demo.HoldAt(0)
	s.providers[keyID(tier, 8)].Push(demo.Step{Hold: hold})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = s.question(ctx, "only-"+keyID(tier, 8), browserModel) // is cut off at the end
	}()
	t.Cleanup(func() { cancel(); hold.Release(); <-ended })
	<-hold.Reached()
	if tier == 1 || tier == 4 { // a cap would trip a guard
		s.only(t, keyID(tier, 9), refusal(402), 402)
	}
	s.only(t, keyID(tier, 1), usage(250, 50, 10, 40), 200)
	s.only(t, keyID(tier, 2), usage(850, 50, 0, 0), 200)
	s.only(t, keyID(tier, 3), usage(1900, 100, 0, 20), 200)
	s.only(t, keyID(tier, 4), usage(2000, 10, 0, 0), 200)
}

// until waits for a condition that the proxy reaches by itself.
func (s *shown) until(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for end := time.Now().Add(browserPatience); !reached(); {
		if time.Now().After(end) {
			t.Fatalf("not reached: %s", what)
		}
	}
}
