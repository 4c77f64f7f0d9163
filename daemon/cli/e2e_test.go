//go:build linux

package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"coding-proxy/proxy/demo"
)

// The end-to-end tests: real clients → the built binary → simulated providers. See testdata/e2e/README.md.

const (
	e2eInside     = "CODING_PROXY_E2E_INSIDE" // set in the test process that was moved into a network namespace
	e2eKeep       = "CODING_PROXY_E2E_KEEP"   // a folder for the bodies that the providers receive, for who looks for a fault
	e2eCallerKey  = "proxy-key-laptop-0001"
	e2eModel      = "claude-opus-5-5"
	e2ePrompt     = "Greet the zebra." // neither zebra nor walrus may be in a log or a file of the proxy
	e2eAnswer     = "The walrus says hi."
	e2eClientTime = 180 * time.Second
	e2eStopTime   = 40 * time.Second
)

// TestEndToEnd moves itself into a network namespace that has nothing but loopback: whatever a client tries to reach, it stays here.
func TestEndToEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end tests need real clients: not with -short")
	}
	clients := e2eNeed(t)
	if !e2eAlone(t) {
		e2eMove(t)
		return
	}
	clients.binary = filepath.Join(t.TempDir(), "coding-proxy")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", clients.binary, "coding-proxy")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, output)
	}
	slow := clients.beginSlow(t)
	defer slow()
	keepAlive := clients.beginKeepAlive(t)
	defer keepAlive()
	t.Run("clients", func(t *testing.T) { // two at a time: see e2eMove
		for name, test := range map[string]func(*testing.T){
			"sdk": clients.testSDK, "claude": clients.testClaude, "session": clients.testSession, "broken": clients.testBroken,
			"failover": clients.testFailover, "upgrade": clients.testUpgrade, "patch": clients.testPatch, "providers": clients.testProviders,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t)
			})
		}
	})
}

// e2eClients are the programs that the tests run.
type e2eClients struct {
	binary, node, claude, codex, gemini, opencode, project string
}

// e2eNeed finds the clients. Without them the test is skipped, except where CI=true: there nothing may be missing.
func e2eNeed(t *testing.T) *e2eClients {
	t.Helper()
	project, err := filepath.Abs("../../testdata/e2e")
	if err != nil {
		t.Fatal(err)
	}
	modules := filepath.Join(project, "node_modules")
	installed := func(path ...string) string { return filepath.Join(modules, filepath.Join(path...)) }
	platform, vendor := "linux-x64", "x86_64-unknown-linux-musl"
	if runtime.GOARCH == "arm64" {
		platform, vendor = "linux-arm64", "aarch64-unknown-linux-musl"
	}
	c := &e2eClients{
		project:  project,
		node:     installed("node-"+platform, "bin", "node"), // some of the clients need a newer one than a system has
		claude:   installed("@anthropic-ai", "claude-code-"+platform, "claude"),
		codex:    installed("@openai", "codex-"+platform, "vendor", vendor, "bin", "codex"),
		gemini:   installed("@google", "gemini-cli", "bundle", "gemini.js"),
		opencode: installed("opencode-"+platform, "bin", "opencode"),
	}
	var missing []string
	for _, path := range []string{
		c.node, c.claude, c.codex, c.gemini, c.opencode,
		installed("@anthropic-ai", "sdk"), installed("anthropic-sdk-0"), installed("openai"), installed("@google", "genai"),
	} {
		if _, err := os.Stat(path); err != nil {
			missing = append(missing, strings.TrimPrefix(path, modules+"/"))
		}
	}
	if err := e2eUnshare(t.Context(), "true").Run(); os.Getenv(e2eInside) == "" && err != nil {
		missing = append(missing, "network namespaces (unshare -n, ip)")
	}
	switch {
	case len(missing) == 0:
		return c
	case os.Getenv("CI") == "true":
		t.Fatalf("not installed: %s; run: npm ci --prefix testdata/e2e", strings.Join(missing, ", "))
	default:
		t.Skipf("not installed: %s; run: npm ci --prefix testdata/e2e", strings.Join(missing, ", "))
	}
	return nil
}

// e2eUnshare runs a command in a network namespace of its own, with loopback up.
func e2eUnshare(ctx context.Context, command ...string) *exec.Cmd {
	args := []string{"-n"}
	if os.Getuid() != 0 {
		args = append(args, "-r") // who is not root needs a user namespace for it
	}
	args = append(args, "sh", "-c", `ip link set lo up && exec "$@"`, "sh")
	return exec.CommandContext(ctx, "unshare", append(args, command...)...)
}

// e2eAlone reports whether loopback is the only way out.
func e2eAlone(t *testing.T) bool {
	t.Helper()
	interfaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range interfaces {
		if i.Flags&net.FlagLoopback == 0 && i.Flags&net.FlagUp != 0 {
			return false
		}
	}
	return true
}

// e2eMove runs this test once more, inside.
func e2eMove(t *testing.T) {
	t.Helper()
	if os.Getenv(e2eInside) != "" {
		t.Fatal("the network namespace has more than loopback")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	pattern := "^TestEndToEnd$"
	if _, cases, given := strings.Cut(flag.Lookup("test.run").Value.String(), "/"); given {
		pattern += "/" + cases
	}
	args := []string{self, "-test.run=" + pattern, "-test.timeout=9m", "-test.parallel=2"}
	if testing.Verbose() {
		args = append(args, "-test.v")
	}
	inside := e2eUnshare(t.Context(), args...)
	inside.Env = append(os.Environ(), e2eInside+"=1")
	inside.Stdout, inside.Stderr = t.Output(), t.Output()
	inside.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := inside.Run(); err != nil {
		t.Errorf("inside the network namespace: %v", err)
	}
}

// e2eProvider is a simulated provider behind one key of the pool.
type e2eProvider struct {
	*demo.Provider
	key e2eKey
}

// e2eKey is a key in the configuration file.
type e2eKey struct {
	ID         string            `json:"id"`
	Provider   string            `json:"provider"`
	Protocol   string            `json:"protocol,omitempty"`
	Tier       string            `json:"tier,omitempty"`
	BaseURL    string            `json:"base_url,omitempty"`
	APIKey     string            `json:"api_key,omitempty"`
	DailyLimit int64             `json:"daily_limit_tokens"`
	Models     map[string]string `json:"models,omitempty"`

	GitHubToken  string `json:"github_token,omitempty"`
	TokenURL     string `json:"token_url,omitempty"`
	ClientID     string `json:"client_id,omitempty"`
	ClientSecret string `json:"client_secret,omitempty"`
	RefreshToken string `json:"refresh_token,omitempty"`
}

// e2eServe starts a provider of Anthropic's dialect that takes the credential of the key with this id alone.
func e2eServe(t *testing.T, id string) *e2eProvider {
	t.Helper()
	return e2eStart(t, id, demo.Options{Name: "sim", CheckSignatures: true}, "anthropic")
}

// e2eModels are what a provider of each dialect serves all names as: models that think, and insist on their thoughts.
var e2eModels = map[string]string{
	"anthropic": e2eModel, "openai-chat": "kimi-k2.6", "openai-responses": "gpt-5.5", "gemini": "gemini-3.1-pro-preview",
}

// e2eDialects are the upstream dialects, in the order of the matrix.
var e2eDialects = []string{"anthropic", "openai-chat", "openai-responses", "gemini"}

// e2eSpeak starts a provider that speaks one dialect and knows one model. Its signatures are nobody else's.
func e2eSpeak(t *testing.T, id, dialect string) *e2eProvider {
	t.Helper()
	p := e2eStart(t, id, demo.Options{
		Name: id, CheckSignatures: true, ReplayReasoning: true, Dialects: []string{dialect}, Models: []string{e2eModels[dialect]},
	}, dialect)
	p.key.Models = map[string]string{"*": e2eModels[dialect]}
	return p
}

func e2eStart(t *testing.T, id string, options demo.Options, dialect string) *e2eProvider {
	t.Helper()
	apiKey := "sk-sim-" + id
	options.Keys = []string{apiKey}
	p := demo.New(options)
	p.Always(demo.Step{Text: e2eAnswer})
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	t.Cleanup(func() { e2eKeepBodies(t, id, p) })
	return &e2eProvider{p, e2eKey{
		ID: id, Provider: "sim", Protocol: dialect, BaseURL: server.URL, APIKey: apiKey, DailyLimit: 1_000_000_000,
	}}
}

// e2eKeepBodies writes down what a provider received, if a folder was named for that.
func e2eKeepBodies(t *testing.T, id string, p *demo.Provider) {
	t.Helper()
	folder := os.Getenv(e2eKeep)
	if folder == "" {
		return
	}
	name := strings.NewReplacer("/", "_", " ", "_", ",", "").Replace(strings.TrimPrefix(t.Name(), "TestEndToEnd/clients/"))
	for i, r := range p.Requests() {
		file := filepath.Join(folder, fmt.Sprintf("%s-%s-%d.json", name, id, i))
		if err := os.WriteFile(file, r.Body, 0o600); err != nil {
			t.Error(err)
		}
	}
}

// generates reports whether a path is one that asks for an answer.
func generates(path string) bool {
	for _, end := range []string{"/messages", "/chat/completions", "/responses", ":generateContent", ":streamGenerateContent"} {
		if strings.HasSuffix(path, end) {
			return true
		}
	}
	return false
}

// asked are the generate requests that came, the oldest first.
func (p *e2eProvider) asked() []demo.Request {
	var list []demo.Request
	for _, r := range p.Requests() {
		if generates(r.Path) {
			list = append(list, r)
		}
	}
	return list
}

// generated counts the generate requests that came.
func (p *e2eProvider) generated() int { return len(p.asked()) }

// e2eProxy is a running coding-proxy.
type e2eProxy struct {
	url, config, data string
	binary            string
	command           *exec.Cmd
	exited            chan struct{}

	mu     sync.Mutex
	output bytes.Buffer
}

// start runs the proxy in front of the providers, and looks for secrets in all that it wrote when the test is over.
func (c *e2eClients) start(t *testing.T, strategy string, providers ...*e2eProvider) *e2eProxy {
	t.Helper()
	return c.startChain(t, strategy, "", providers...)
}

// startChain is start with tiers, a JSON list.
func (c *e2eClients) startChain(t *testing.T, strategy, tiers string, providers ...*e2eProvider) *e2eProxy {
	t.Helper()
	type requestKey struct {
		Code   string `json:"code"`
		APIKey string `json:"api_key"`
	}
	var file struct {
		Auth struct {
			RequestKeys []requestKey `json:"request_keys"`
		} `json:"auth"`
		Tiers json.RawMessage `json:"tiers,omitempty"`
		Pool  struct {
			Strategy string   `json:"strategy,omitempty"`
			Keys     []e2eKey `json:"keys"`
		} `json:"pool"`
	}
	file.Auth.RequestKeys = []requestKey{{"laptop", e2eCallerKey}}
	file.Pool.Strategy, file.Tiers = strategy, json.RawMessage(tiers)
	for _, p := range providers {
		file.Pool.Keys = append(file.Pool.Keys, p.key)
	}
	text, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	p := &e2eProxy{config: filepath.Join(dir, "config.json"), data: filepath.Join(dir, "data"), binary: c.binary}
	if err := os.WriteFile(p.config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	p.run(t)
	t.Cleanup(func() {
		p.stop(t)
		p.checkSecrets(t)
		if t.Failed() {
			t.Logf("the proxy's output:\n%s", p.said())
		}
	})
	return p
}

// run starts the process, also once more after stop, and waits until it listens.
func (p *e2eProxy) run(t *testing.T) {
	t.Helper()
	p.command = exec.Command(p.binary, "serve", "--config", p.config, "--data-dir", p.data, "--port", "0")
	p.command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(p.config)}
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.command.Stderr = p
	stdout, err := p.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	listening := make(chan string, 1)
	p.exited = make(chan struct{})
	go func() {
		defer close(p.exited)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			if url, ok := strings.CutPrefix(lines.Text(), "coding-proxy listening on "); ok {
				listening <- url
			}
			p.Write([]byte(lines.Text() + "\n"))
		}
		p.command.Wait()
	}()
	select {
	case p.url = <-listening:
	case <-p.exited:
		t.Fatalf("the proxy ended at start: %v\n%s", p.command.ProcessState, p.said())
	case <-time.After(e2eStopTime):
		p.command.Process.Kill()
		t.Fatalf("the proxy does not say where it listens:\n%s", p.said())
	}
}

// Write takes the process's output.
func (p *e2eProxy) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.Write(data)
}

func (p *e2eProxy) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.String()
}

// stop ends the process as a service manager does. It may have ended before.
func (p *e2eProxy) stop(t *testing.T) {
	t.Helper()
	p.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(e2eStopTime):
		p.command.Process.Kill()
		t.Errorf("the proxy did not stop on SIGTERM")
		<-p.exited
	}
	if state := p.command.ProcessState; !state.Success() && state.String() != "signal: killed" {
		t.Errorf("the proxy ended with %v", state)
	}
}

// kill ends the process as a crash does.
func (p *e2eProxy) kill() {
	p.command.Process.Kill()
	<-p.exited
}

// checkSecrets looks for credentials and conversation in the output and in every file.
func (p *e2eProxy) checkSecrets(t *testing.T) {
	t.Helper()
	check := func(where string, text []byte) {
		for _, secret := range []string{e2eCallerKey, "sk-sim-", "tid=", "demo-access-", "zebra", "walrus"} {
			if bytes.Contains(bytes.ToLower(text), []byte(secret)) {
				t.Errorf("%s has %q in it", where, secret)
			}
		}
	}
	check("the output", []byte(p.said()))
	err := filepath.WalkDir(p.data, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == "credentials.json" { // which is for tokens
			return err
		}
		text, err := os.ReadFile(path)
		check(path, text)
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// e2eLine is a line of the journal.
type e2eLine struct {
	Caller, Session, Client, Dialect, Key, Outcome string

	Upstream      string `json:"upstream_dialect"`
	Model         string `json:"upstream_model"`
	Stream        bool
	Status        int
	StopReason    string `json:"stop_reason"`
	Attempts      []e2eAttempt
	Input         int64 `json:"input_tokens"`
	Output        int64 `json:"output_tokens"`
	CacheCreation int64 `json:"cache_creation_tokens"`
	CacheRead     int64 `json:"cache_read_tokens"`
	Reasoning     int64 `json:"reasoning_tokens"`
	Estimated     bool
	Dropped       []string
	Milliseconds  int64 `json:"duration_ms"`
}

type e2eAttempt struct {
	Key     string
	Status  int
	Outcome string
	Reason  string
}

// journal reads all lines, the oldest first.
func (p *e2eProxy) journal(t *testing.T) []e2eLine {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(p.data, "journal", "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var lines []e2eLine
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for text := range bytes.Lines(data) {
			var line e2eLine
			if err := json.Unmarshal(text, &line); err != nil {
				t.Fatalf("%s: %v: %s", name, err, text)
			}
			lines = append(lines, line)
		}
	}
	return lines
}

// last is the newest of exactly n journal lines.
func (p *e2eProxy) last(t *testing.T, n int) e2eLine {
	t.Helper()
	lines := p.journal(t)
	if len(lines) != n || n == 0 {
		t.Fatalf("%d journal lines, want %d: %+v", len(lines), n, lines)
	}
	return lines[n-1]
}

// get reads what a watcher's endpoint answers.
func (p *e2eProxy) get(t *testing.T, path string, into any) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := new(http.Client).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s", path, response.Status)
	}
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		t.Fatalf("GET %s: %v", path, err)
	}
}

// e2eRun is how a client ended.
type e2eRun struct {
	exit           int
	stdout, stderr string
}

// e2eExecute runs a client to its end, with nothing in its environment but what is given.
func e2eExecute(t *testing.T, dir string, env []string, name string, args ...string) e2eRun {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), e2eClientTime)
	defer cancel()
	command := e2eCommand(ctx, dir, env, name, args...)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("%s: %v, %v\n%s%s", filepath.Base(name), err, ctx.Err(), &stdout, &stderr)
	}
	return e2eRun{command.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

func e2eCommand(ctx context.Context, dir string, env []string, name string, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, name, args...)
	command.Dir = dir
	command.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	command.WaitDelay = time.Second
	return command
}
