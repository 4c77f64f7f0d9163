//go:build linux

package cli_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"coding-proxy/proxy/demo"
)

// The words of the second turn.
const e2eNext = "And once more, zebra."

// claudeAgent is Claude Code.
func claudeAgent() *e2eAgent {
	return &e2eAgent{
		name: "Claude Code", dialect: "anthropic", product: "claude-cli", modes: []e2eMode{streamMode}, names: true, carries: true,
		tools: func(dir string) []demo.Tool {
			return []demo.Tool{
				tool("Read", "file_path", filepath.Join(dir, "first.txt")),
				tool("Bash", "command", "cat second.txt", "description", "Shows a file"),
			}
		},
		look: func(dir string) []demo.Tool {
			return []demo.Tool{tool("Read", "file_path", filepath.Join(dir, "picture.png"))}
		},
		talk: func(t *testing.T, u *e2eUser, _ e2eMode, turn int) string {
			t.Helper()
			return u.claude(t, 0, nil, claudeTurn(turn)...).Result
		},
	}
}

func claudeTurn(turn int) []string {
	if turn == 0 {
		return []string{"-p", e2ePrompt}
	}
	return []string{"-c", "-p", e2eNext}
}

// claude runs Claude Code; it may do what it likes.
func (u *e2eUser) claude(t *testing.T, exit int, settings []string, args ...string) claudeResult {
	t.Helper()
	env := append([]string{
		"ANTHROPIC_API_KEY=" + e2eCallerKey, "ANTHROPIC_BASE_URL=" + u.proxy.url, "IS_SANDBOX=1", "DISABLE_TELEMETRY=1",
		"DISABLE_ERROR_REPORTING=1", "DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
	}, settings...)
	args = append(args, "--dangerously-skip-permissions", "--output-format", "json")
	result := claudeResult{e2eRun: u.run(t, exit, env, u.clients.claude, args...)}
	if err := json.Unmarshal([]byte(result.stdout), &result); err != nil {
		t.Errorf("%v\n%s\n%s", err, result.stdout, result.stderr)
	}
	return result
}

// codexAgent is Codex. It knows gpt-5.5: a model with a free-text tool and a search of tools.
func codexAgent() *e2eAgent {
	return &e2eAgent{
		name: "Codex", dialect: "openai-responses", product: "codex_exec", modes: []e2eMode{streamMode}, names: true, carries: true,
		tools: func(string) []demo.Tool {
			return []demo.Tool{tool("exec_command", "cmd", "cat first.txt"), tool("exec_command", "cmd", "cat second.txt")}
		},
		talk: func(t *testing.T, u *e2eUser, _ e2eMode, turn int) string {
			t.Helper()
			if turn == 0 {
				return u.codex(t, 0, nil, e2ePrompt).said
			}
			return u.codex(t, 0, nil, "resume", "--last", "-i", "picture.png", "--", e2eNext).said
		},
	}
}

// codexRun is how Codex ended: the last message, and the errors that it told.
type codexRun struct {
	e2eRun

	said   string
	errors []string
}

// codex runs codex exec with a provider of its configuration; settings are more lines of that provider.
func (u *e2eUser) codex(t *testing.T, exit int, settings []string, args ...string) codexRun {
	t.Helper()
	u.write(t, filepath.Join(u.home, ".codex", "config.toml"), fmt.Sprintf(`model = "gpt-5.5"
model_provider = "proxy"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.proxy]
name = "proxy"
base_url = "%s/v1"
env_key = "PROXY_KEY"
wire_api = "responses"
%s
`, u.proxy.url, strings.Join(settings, "\n")))
	return u.codexExec(t, exit, []string{"PROXY_KEY=" + e2eCallerKey}, args...)
}

func (u *e2eUser) codexExec(t *testing.T, exit int, env []string, args ...string) codexRun {
	t.Helper()
	result := codexRun{e2eRun: u.run(t, exit, env, u.clients.codex, append([]string{"exec", "--skip-git-repo-check", "--json"}, args...)...)}
	for line := range strings.Lines(result.stdout) {
		var event struct {
			Type, Message string
			Item          struct{ Type, Text, Message string }
		}
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Errorf("%v: %s", err, line)
		}
		switch {
		case event.Item.Type == "agent_message":
			result.said = event.Item.Text
		case event.Type == "error":
			result.errors = append(result.errors, event.Message)
		}
	}
	return result
}

// geminiAgent is the Gemini CLI. It names no session.
func geminiAgent() *e2eAgent {
	return &e2eAgent{
		name: "Gemini CLI", dialect: "gemini", product: "GeminiCLI", modes: []e2eMode{streamMode}, carries: true,
		late: true,
		tools: func(dir string) []demo.Tool {
			return []demo.Tool{
				tool("read_file", "file_path", filepath.Join(dir, "first.txt")),
				tool("read_file", "file_path", filepath.Join(dir, "second.txt")),
			}
		},
		talk: func(t *testing.T, u *e2eUser, _ e2eMode, turn int) string {
			t.Helper()
			if turn == 0 {
				return u.gemini(t, 0, "-p", e2ePrompt).response(t)
			}
			return u.gemini(t, 0, "--resume", "latest", "-p", "And once more, zebra: @picture.png").response(t)
		},
		aside: geminiRouter,
	}
}

// geminiRouter: without a model's name the Gemini CLI first asks, in JSON of a schema and not as a stream, which one to take.
func geminiRouter(t *testing.T, u *e2eUser, p *e2eProvider) {
	t.Helper()
	p.Push(
		demo.Step{Text: `{"complexity_reasoning": "The walrus is simple.", "complexity_score": 10}`, Usage: sessionUsage},
		demo.Step{Text: e2eAnswer, Usage: sessionUsage},
	)
	before := p.generated()
	if said := u.gemini(t, 0, "-m", "auto", "-p", e2ePrompt).response(t); said != e2eAnswer {
		t.Errorf("the user was told %q", said)
	}
	if came := p.generated() - before; came != 2 {
		t.Errorf("%d requests at the provider, want the router's and the turn's", came)
	}
	lines := u.proxy.generating(t)
	if router := lines[len(lines)-2]; router.Stream {
		t.Errorf("the router's request is a stream: %+v", router)
	}
}

// gemini runs the Gemini CLI with one model: without -m it asks for one first.
func (u *e2eUser) gemini(t *testing.T, exit int, args ...string) e2eRun {
	t.Helper()
	u.write(t, filepath.Join(u.home, ".gemini", "settings.json"), `{
		"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": false}, "telemetry": {"enabled": false},
		"general": {"enableAutoUpdate": false, "disableAutoUpdate": true, "disableUpdateNag": true}
	}`)
	env := []string{"TMPDIR=" + u.home, "GEMINI_API_KEY=" + e2eCallerKey, "GOOGLE_GEMINI_BASE_URL=" + u.proxy.url, "GEMINI_CLI_TRUST_WORKSPACE=true"}
	args = append([]string{u.clients.gemini, "-m", "gemini-3.1-pro-preview", "--output-format", "json"}, args...)
	return u.run(t, exit, env, u.clients.node, args...)
}

// response is the text in what --output-format json prints.
func (r e2eRun) response(t *testing.T) string {
	t.Helper()
	var result struct{ Response string }
	if err := json.Unmarshal([]byte(r.stdout), &result); err != nil {
		t.Errorf("%v\n%s\n%s", err, r.stdout, r.stderr)
	}
	return result.Response
}

// opencodePackages are the dialects of opencode: what speaks them, and where.
var opencodePackages = []struct{ name, dialect, npm, base string }{
	{"opencode, chat", "openai-chat", "@ai-sdk/openai-compatible", "/v1"},
	{"opencode, anthropic", "anthropic", "@ai-sdk/anthropic", "/v1"},
	{"opencode, openai", "openai-responses", "@ai-sdk/openai", "/v1"},
	{"opencode, google", "gemini", "@ai-sdk/google", "/v1beta"},
}

// opencodeAgents are opencode with each of its packages.
func opencodeAgents() []*e2eAgent {
	var agents []*e2eAgent
	for _, p := range opencodePackages {
		agents = append(agents, &e2eAgent{
			name: p.name, dialect: p.dialect, product: "opencode", modes: []e2eMode{streamMode}, names: true,
			carries: p.dialect == "anthropic" || p.dialect == "gemini",
			tools: func(dir string) []demo.Tool {
				return []demo.Tool{
					tool("read", "filePath", filepath.Join(dir, "first.txt")),
					tool("bash", "command", "cat second.txt", "description", "Shows a file"),
				}
			},
			talk: func(t *testing.T, u *e2eUser, _ e2eMode, turn int) string {
				t.Helper()
				if turn == 0 {
					return u.opencode(t, p.npm, p.base, 0, "--title", "stripes", e2ePrompt).said(t)
				}
				return u.opencode(t, p.npm, p.base, 0, "-c", e2eNext, "-f", "picture.png").said(t)
			},
		})
	}
	return agents
}

// opencode runs opencode with one of its packages. With a title it asks for none.
func (u *e2eUser) opencode(t *testing.T, npm, base string, exit int, args ...string) e2eRun {
	t.Helper()
	u.write(t, filepath.Join(u.home, ".config", "opencode", "opencode.json"), fmt.Sprintf(`{
		"model": "proxy/fake-model", "autoupdate": false, "share": "disabled", "permission": {"*": "allow"},
		"provider": {"proxy": {"npm": %q, "options": {"baseURL": %q, "apiKey": %q}, "models": {"fake-model": {
			"name": "F", "attachment": true, "reasoning": true, "tool_call": true, "modalities": {"input": ["text", "image"], "output": ["text"]}
		}}}}
	}`, npm, u.proxy.url+base, e2eCallerKey))
	env := []string{"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1", "OPENCODE_DISABLE_SHARE=1"}
	return u.run(t, exit, env, u.clients.opencode, append([]string{"run", "--format", "json"}, args...)...)
}

// said is the last text in what --format json prints.
func (r e2eRun) said(t *testing.T) string {
	t.Helper()
	text := ""
	for line := range strings.Lines(r.stdout) {
		var event struct {
			Type string
			Part struct{ Text string }
		}
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Errorf("%v: %s", err, line)
		}
		if event.Type == "text" {
			text = event.Part.Text
		}
	}
	return text
}

// sdkAgents are the SDKs: see session.mjs.
func sdkAgents() []*e2eAgent {
	both := []e2eMode{plainMode, streamMode}
	agents := []*e2eAgent{
		{name: "Anthropic SDK 1.14", dialect: "anthropic", product: "Anthropic", carries: true},
		{name: "Anthropic SDK 0.137", dialect: "anthropic", product: "Anthropic", carries: true},
		{name: "OpenAI SDK, chat", dialect: "openai-chat", product: "OpenAI"},
		{name: "OpenAI SDK, responses", dialect: "openai-responses", product: "OpenAI", carries: true},
		{name: "Google Gen AI SDK", dialect: "gemini", product: "google-genai-sdk", carries: true},
	}
	for i, which := range []string{"anthropic-1", "anthropic-0", "chat", "responses", "genai"} {
		a := agents[i]
		a.modes = both
		a.tools = func(string) []demo.Tool {
			return []demo.Tool{tool("read", "path", "first.txt"), tool("read", "path", "second.txt")}
		}
		a.talk = func(t *testing.T, u *e2eUser, mode e2eMode, turn int) string {
			t.Helper()
			env := []string{"BASE_URL=" + u.proxy.url, "API_KEY=" + e2eCallerKey, "STATE=" + filepath.Join(u.home, "state.json"), "FILES=" + u.dir}
			args := []string{filepath.Join(u.clients.project, "session.mjs"), which, string(mode), e2ePrompt}
			if turn > 0 {
				args = append(args[:3], e2eNext, "picture.png")
			}
			return strings.TrimSuffix(u.run(t, 0, env, u.clients.node, args...).stdout, "\n")
		}
	}
	return agents
}
