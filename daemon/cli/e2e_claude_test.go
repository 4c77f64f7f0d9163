//go:build linux

package cli_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coding-proxy/proxy/demo"
)

// Settings of Claude Code.
const (
	claudeNoFallback = "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK=1"
	claudeNoRetries  = "CLAUDE_CODE_MAX_RETRIES=0"
)

func (c *e2eClients) testClaude(t *testing.T) {
	t.Run("plain answer", c.testClaudePlain)
	t.Run("bearer token", c.testClaudeBearer)
	t.Run("tools", c.testClaudeTools)
	t.Run("live stream", c.testClaudeStream)
	t.Run("session stays on its key", c.testClaudeSession)
	t.Run("429 that nobody sees", c.testClaudeRateLimit)
	t.Run("a tier that goes down and comes back", c.testClaudeTierDown)
	t.Run("broken streams", c.testClaudeBroken)
	t.Run("its own fallback", c.testClaudeFallback)
	t.Run("count_tokens", c.testClaudeCount)
	t.Run("model discovery", c.testClaudeModels)
	t.Run("wrong key", c.testClaudeWrongKey)
}

// claudeUser is one user: a home, a folder to work in, and the proxy.
type claudeUser struct {
	clients *e2eClients
	proxy   *e2eProxy
	home    string
	dir     string
	key     string // KEY=VALUE
}

func (c *e2eClients) user(t *testing.T, p *e2eProxy) *claudeUser {
	return &claudeUser{clients: c, proxy: p, home: t.TempDir(), dir: t.TempDir(), key: "ANTHROPIC_API_KEY=" + e2eCallerKey}
}

// claudeResult is what --output-format json prints.
type claudeResult struct {
	e2eRun

	Result     string
	Session    string `json:"session_id"`
	IsError    bool   `json:"is_error"`
	ErrorState int    `json:"api_error_status"`
	Turns      int    `json:"num_turns"`
	Usage      struct {
		Input  int64 `json:"input_tokens"`
		Output int64 `json:"output_tokens"`
	}
}

func (u *claudeUser) environment(settings ...string) []string {
	return append([]string{
		"HOME=" + u.home, u.key, "ANTHROPIC_BASE_URL=" + u.proxy.url, "IS_SANDBOX=1",
		"DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1", "DISABLE_AUTOUPDATER=1",
	}, settings...)
}

// ask runs claude -p with nothing but the conversation on the wire.
func (u *claudeUser) ask(t *testing.T, settings []string, args ...string) claudeResult {
	t.Helper()
	return u.run(t, append(settings, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1"), append([]string{e2ePrompt}, args...)...)
}

func (u *claudeUser) run(t *testing.T, settings []string, args ...string) claudeResult {
	t.Helper()
	args = append([]string{"--output-format", "json", "-p"}, args...)
	result := claudeResult{e2eRun: e2eExecute(t, u.dir, u.environment(settings...), u.clients.claude, args...)}
	if err := json.Unmarshal([]byte(result.stdout), &result); err != nil {
		t.Fatalf("exit %d, %v\n%s%s", result.exit, err, result.stdout, result.stderr)
	}
	return result
}

// wantAnswer fails unless the user was told the answer.
func (r claudeResult) wantAnswer(t *testing.T) {
	t.Helper()
	if r.exit != 0 || r.IsError || r.Result != e2eAnswer {
		t.Fatalf("exit %d, error %t (%d), %q\n%s", r.exit, r.IsError, r.ErrorState, r.Result, r.stderr)
	}
}

// wantError fails unless the user was told of an error.
func (r claudeResult) wantError(t *testing.T) {
	t.Helper()
	if r.exit == 0 || !r.IsError || r.Result == "" {
		t.Fatalf("exit %d, error %t (%d), %q\n%s", r.exit, r.IsError, r.ErrorState, r.Result, r.stderr)
	}
}

func (c *e2eClients) testClaudePlain(t *testing.T) {
	provider := e2eServe(t, "k1")
	p := c.start(t, "", provider)
	result := c.user(t, p).ask(t, nil)
	result.wantAnswer(t)
	line := p.last(t, 1)
	if line.Caller != "laptop" || line.Key != "k1" || line.Outcome != "ok" || !line.Stream || line.Status != 200 || line.StopReason != "end_turn" ||
		line.Session == "" || line.Session == result.Session || !strings.HasPrefix(line.Client, "claude-cli") || line.Model != e2eModel {
		t.Errorf("journal: %+v", line)
	}
	if line.Input != result.Usage.Input || line.Output != result.Usage.Output || line.Estimated {
		t.Errorf("tokens %+v, the client shows %+v", line, result.Usage)
	}
	header := provider.Requests()[0].Header
	if header.Get("x-api-key") != "sk-sim-k1" || header.Get("authorization") != "" || !strings.Contains(header.Get("anthropic-beta"), "claude-code-") ||
		!strings.HasPrefix(header.Get("user-agent"), "claude-cli/") || header.Get("x-claude-code-session-id") != result.Session {
		t.Error("credential, betas, user agent or session did not arrive at the provider as they should")
	}
}

// testClaudeBearer: both credentials at once, one of them meant for someone else.
func (c *e2eClients) testClaudeBearer(t *testing.T) {
	provider := e2eServe(t, "k1")
	u := c.user(t, c.start(t, "", provider))
	u.key = "ANTHROPIC_AUTH_TOKEN=" + e2eCallerKey
	u.ask(t, nil).wantAnswer(t)
	u.ask(t, []string{"ANTHROPIC_API_KEY=sk-of-someone-else"}).wantAnswer(t)
}

func (c *e2eClients) testClaudeTools(t *testing.T) {
	provider := e2eServe(t, "k1")
	provider.Push(
		demo.Step{Thinking: "Two commands.", Text: "I try.", Tools: []demo.Tool{
			{Name: "Bash", Input: json.RawMessage(`{"command":"echo stripes-$((40+2)) | tee out.txt","description":"Writes a file"}`)},
			{Name: "Bash", Input: json.RawMessage(`{"command":"exit 3","description":"Fails"}`)},
		}},
		demo.Step{Thinking: "Fine.", Text: e2eAnswer},
	)
	p := c.start(t, "", provider)
	u := c.user(t, p)
	result := u.ask(t, nil, "--dangerously-skip-permissions")
	result.wantAnswer(t)
	if written, err := os.ReadFile(filepath.Join(u.dir, "out.txt")); err != nil || string(written) != "stripes-42\n" {
		t.Errorf("the command wrote %q, %v", written, err)
	}
	requests := provider.Requests()
	if len(requests) != 2 || !strings.Contains(string(requests[1].Body), "stripes-42") || !strings.Contains(string(requests[1].Body), `"signature":`) {
		t.Fatalf("%d requests; the second has no result or no signature", len(requests))
	}
	lines := p.journal(t)
	if len(lines) != 2 || lines[0].StopReason != "tool_use" || lines[1].StopReason != "end_turn" || lines[0].Session != lines[1].Session {
		t.Errorf("journal: %+v", lines)
	}
}

// testClaudeStream: the user sees the first words while the provider still holds the rest back.
func (c *e2eClients) testClaudeStream(t *testing.T) {
	provider := e2eServe(t, "k1")
	hold := demo.HoldAt(5)
	defer hold.Release()
	provider.Push(demo.Step{Text: e2eAnswer, Hold: hold})
	u := c.user(t, c.start(t, "", provider))
	ctx, cancel := context.WithTimeout(t.Context(), e2eClientTime/4)
	defer cancel()
	command := e2eCommand(ctx, u.dir, u.environment("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1"), c.claude,
		"-p", e2ePrompt, "--output-format", "stream-json", "--verbose", "--include-partial-messages")
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	var pieces []string
	var result claudeResult
	lines := bufio.NewScanner(stdout)
	for lines.Buffer(nil, 1<<20); lines.Scan(); {
		var line struct {
			Type  string
			Event struct{ Delta struct{ Text string } }
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Errorf("%v: %s", err, lines.Text())
		}
		if line.Type == "result" {
			err = json.Unmarshal(lines.Bytes(), &result)
		}
		if text := line.Event.Delta.Text; text != "" {
			pieces = append(pieces, text)
			hold.Release()
		}
	}
	if err := command.Wait(); err != nil {
		t.Fatalf("%v after %q", err, pieces)
	}
	if strings.Join(pieces, "|") != "The |walrus |says |hi." || result.Result != e2eAnswer {
		t.Errorf("pieces %q, result %q, %v", pieces, result.Result, err)
	}
}

// testClaudeTierDown: the first tier is overloaded; the second serves under its own model's name, at once from the next
// turn on, until the first is back.
func (c *e2eClients) testClaudeTierDown(t *testing.T) {
	first, second := e2eServe(t, "k1"), e2eServe(t, "k2")
	first.key.Tier, second.key.Tier = "first", "second"
	first.Always(demo.Step{Status: 529})
	p := c.startChain(t, "session-sticky", `[{"name":"first","circuit_breaker":{"failure_threshold":1}},
		{"name":"second","model_mapping":[{"pattern":"claude-*","target":"glm-5.1"}]}]`, first, second)
	u := c.user(t, p)
	answer := u.ask(t, nil)
	answer.wantAnswer(t)
	line := p.last(t, 1)
	if line.Key != "k2" || line.Model != "glm-5.1" || len(line.Attempts) != 2 || line.Attempts[0].Key != "k1" || line.Attempts[0].Status != 529 {
		t.Fatalf("journal: %+v", line)
	}
	next := func(n int, key, model string) {
		t.Helper()
		u.ask(t, nil, "--resume", answer.Session).wantAnswer(t)
		if line := p.last(t, n); line.Key != key || line.Model != model || len(line.Attempts) != 1 {
			t.Errorf("journal: %+v, want %s", line, key)
		}
	}
	next(2, "k2", "glm-5.1")
	first.Always(demo.Step{Text: e2eAnswer})
	run := e2eExecute(t, u.dir, []string{"HOME=" + u.home}, p.binary, "reset", "--config", p.config, "--data-dir", p.data)
	if run.exit != 0 || !strings.Contains(run.stdout, "reset") {
		t.Fatalf("reset: exit %d %s%s", run.exit, run.stdout, run.stderr)
	}
	next(3, "k1", e2eModel)
}

func (c *e2eClients) testClaudeSession(t *testing.T) {
	providers := []*e2eProvider{e2eServe(t, "k1"), e2eServe(t, "k2"), e2eServe(t, "k3")}
	p := c.start(t, "session-sticky", providers...)
	u := c.user(t, p)
	first := u.ask(t, nil)
	first.wantAnswer(t)
	for range 3 {
		u.ask(t, nil, "--resume", first.Session).wantAnswer(t)
	}
	lines := p.journal(t)
	if len(lines) != 4 {
		t.Fatalf("%d journal lines", len(lines))
	}
	for _, line := range lines {
		if line.Key != lines[0].Key || line.Session != lines[0].Session || len(line.Attempts) != 1 {
			t.Errorf("journal: %+v, first %+v", line, lines[0])
		}
	}
	for _, provider := range providers {
		sessions, requests := 0, 0
		if provider.key.ID == lines[0].Key {
			sessions, requests = 1, 4
		}
		if got := p.poolKeys(t)[provider.key.ID]; got.Sessions != sessions || provider.generated() != requests {
			t.Errorf("%s: %d requests, pool says %+v", provider.key.ID, provider.generated(), got)
		}
	}
}

// testClaudeRateLimit: the first key is over its rate; the session moves to the second and stays there, over restarts too.
func (c *e2eClients) testClaudeRateLimit(t *testing.T) {
	first, second := e2eServe(t, "k1"), e2eServe(t, "k2")
	first.key.DailyLimit, second.key.DailyLimit = 1_000_000_000_000_000, 1_000_000 // what is left is the weight: all begin with the first
	first.Push(demo.Step{Status: 429, Header: http.Header{"Retry-After": {"600"}}})
	p := c.start(t, "session-sticky", first, second)
	u := c.user(t, p)
	answer := u.ask(t, nil)
	answer.wantAnswer(t)
	line := p.last(t, 1)
	if line.Key != "k2" || len(line.Attempts) != 2 || line.Attempts[0].Key != "k1" || line.Attempts[0].Status != 429 || line.Attempts[1].Key != "k2" {
		t.Fatalf("journal: %+v", line)
	}
	if key := p.poolKeys(t)["k1"]; len(key.Models) != 1 || key.Models[0].Model != e2eModel || key.Models[0].State != "cooling" {
		t.Errorf("pool: %+v", key)
	}
	next := func(n int, key string, args ...string) {
		t.Helper()
		u.ask(t, nil, args...).wantAnswer(t)
		if line := p.last(t, n); line.Key != key || len(line.Attempts) != 1 {
			t.Errorf("journal: %+v, want %s", line, key)
		}
	}
	next(2, "k2", "--resume", answer.Session)
	p.stop(t)
	p.run(t)
	u.proxy = p
	next(3, "k2", "--resume", answer.Session)
	next(4, "k2") // a new session: the first key still cools down
	p.stop(t)
	if err := os.Remove(filepath.Join(p.data, "state.json")); err != nil { // forgets the cooldown, keeps the bindings
		t.Fatal(err)
	}
	p.run(t)
	next(5, "k2", "--resume", answer.Session)
	next(6, "k1")
}

func (c *e2eClients) testClaudeBroken(t *testing.T) {
	for name, step := range map[string]demo.Step{
		"error event": {Break: demo.ErrorEvent, Type: "overloaded_error"},
		"cut":         {Break: demo.Cut},
		"clean end":   {Break: demo.End},
	} {
		t.Run(name, func(t *testing.T) {
			first, second := e2eServe(t, "k1"), e2eServe(t, "k2")
			step.Text, step.After = e2eAnswer, 5
			first.Always(step)
			p := c.start(t, "fill-first", first, second)
			c.user(t, p).ask(t, []string{claudeNoFallback, claudeNoRetries}).wantError(t)
			if first.generated() != 1 || second.generated() != 0 {
				t.Errorf("requests: %d and %d", first.generated(), second.generated())
			}
			p.stop(t)
			if line := p.last(t, 1); line.Outcome != "broken" || len(line.Attempts) != 1 || line.Input == 0 {
				t.Errorf("journal: %+v", line)
			}
		})
	}
}

// testClaudeFallback: after a broken stream the client asks again, without streaming, and the second key answers.
func (c *e2eClients) testClaudeFallback(t *testing.T) {
	first, second := e2eServe(t, "k1"), e2eServe(t, "k2")
	first.Always(demo.Step{Text: e2eAnswer, Break: demo.Cut, After: 5})
	p := c.start(t, "fill-first", first, second)
	c.user(t, p).ask(t, nil).wantAnswer(t)
	lines := p.journal(t)
	if len(lines) != 2 || lines[0].Outcome != "broken" || lines[1].Outcome != "ok" || lines[1].Stream || lines[1].Key != "k2" || len(lines[1].Attempts) != 1 {
		t.Errorf("journal: %+v", lines)
	}
}

// testClaudeCount: /context asks for about 27 counts at once.
func (c *e2eClients) testClaudeCount(t *testing.T) {
	provider := e2eServe(t, "k1")
	p := c.start(t, "", provider)
	u := c.user(t, p)
	run := e2eExecute(t, u.dir, u.environment("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1"), c.claude, "-p", "/context")
	if run.exit != 0 || !strings.Contains(run.stdout, "System tools") {
		t.Errorf("exit %d\n%s%s", run.exit, run.stdout, run.stderr)
	}
	lines := p.journal(t)
	if len(lines) < 20 || len(provider.Requests()) != 0 {
		t.Fatalf("%d journal lines, %d requests at the provider", len(lines), len(provider.Requests()))
	}
	for _, line := range lines {
		if line.Outcome != "local" || line.Status != 200 {
			t.Errorf("journal: %+v", line)
		}
	}
}

// testClaudeModels: with other traffic allowed it asks for the models, and whether the server is there.
func (c *e2eClients) testClaudeModels(t *testing.T) {
	provider := e2eServe(t, "k1")
	provider.key.Models = map[string]string{e2eModel: e2eModel, "claude-walking-stick-1": e2eModel}
	u := c.user(t, c.start(t, "", provider))
	u.run(t, []string{"CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY=1"}, e2ePrompt).wantAnswer(t)
	found, err := os.ReadFile(filepath.Join(u.home, ".claude", "cache", "gateway-models.json"))
	if err != nil || !strings.Contains(string(found), `"claude-walking-stick-1"`) {
		t.Errorf("%v: %s", err, found)
	}
}

func (c *e2eClients) testClaudeWrongKey(t *testing.T) {
	provider := e2eServe(t, "k1")
	p := c.start(t, "", provider)
	u := c.user(t, p)
	u.key = "ANTHROPIC_API_KEY=wrong"
	result := u.ask(t, []string{claudeNoRetries})
	if result.wantError(t); result.ErrorState != http.StatusUnauthorized {
		t.Errorf("%d, %q", result.ErrorState, result.Result)
	}
	if n := len(provider.Requests()); n != 0 || len(p.journal(t)) != 0 {
		t.Errorf("%d requests at the provider, %d journal lines", n, len(p.journal(t)))
	}
}
