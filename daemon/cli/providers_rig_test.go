//go:build linux

package cli_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"coding-proxy/proxy/demo"
)

// What nobody may be shown, of every kind. Tokens that are made while a test runs begin with words of their own.
const (
	rigAPIKey        = "upstream-key-of-the-tests"
	rigOtherKey      = "other-key-of-the-tests"
	rigCallerKey     = "request-key-of-the-tests"
	rigAdminKey      = "admin-key-of-the-tests"
	rigClientSecret  = "client-secret-of-the-tests"
	rigRefreshToken  = "refresh-token-of-the-tests"
	rigGitHubToken   = "ghu_of_the_tests_0123456789"
	rigDirectToken   = "gho_of_the_tests_0123456789"
	rigProxyPassword = "proxy-password-of-the-tests"
)

// rigSecrets are all of them, and the beginnings of those that simulated providers give out.
func rigSecrets() []string {
	return []string{
		rigAPIKey, rigOtherKey, rigCallerKey, rigAdminKey, rigClientSecret, rigRefreshToken, rigGitHubToken, rigDirectToken, rigProxyPassword,
		base64.StdEncoding.EncodeToString([]byte("me:" + rigProxyPassword)),
		"tid=", "demo-access-", "demo-refresh-", "demo-code-", "demo-device-", "ghu_demo",
	}
}

// providerRig is the built binary with a home and a data folder of its own, and all that it has told anybody.
type providerRig struct {
	*e2eProxy

	t      *testing.T
	client *http.Client

	mu      sync.Mutex
	told    []toldText
	secrets []string // beside rigSecrets
}

type toldText struct {
	where, text string
	kept        bool // written somewhere, or shown to others than who asked
}

// newProviderRig writes the configuration, with this section oauth or without one. Secrets are looked for when the
// test is over.
func newProviderRig(t *testing.T, binary, oauth string, keys ...string) *providerRig {
	t.Helper()
	dir := t.TempDir()
	r := &providerRig{t: t, client: &http.Client{Transport: &http.Transport{}, Timeout: e2eClientTime},
		e2eProxy: &e2eProxy{config: filepath.Join(dir, "config.json"), data: filepath.Join(dir, "data"), binary: binary}}
	if oauth != "" {
		oauth = `"oauth":` + oauth + ","
	}
	text := fmt.Sprintf(`{"auth":{"request_keys":[{"code":"laptop","api_key":%q}],"admin_key":%q},"log":{"level":"debug"},%s
		"pool":{"strategy":"fill-first","max_wait_seconds":0,"keys":[%s]}}`, rigCallerKey, rigAdminKey, oauth, strings.Join(keys, ",\n"))
	if err := os.WriteFile(r.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return r
}

// begin starts the proxy.
func (r *providerRig) begin() {
	r.t.Helper()
	r.run(r.t)
	r.t.Cleanup(func() {
		if r.t.Failed() {
			r.t.Logf("the proxy's output:\n%s", r.said())
		}
	})
	r.t.Cleanup(r.end)
}

// end reads what the proxy shows, stops it, and looks for secrets in all of it.
func (r *providerRig) end() {
	for _, path := range []string{
		"/stats", "/stats/pool", "/stats/pool/usage", "/stats/request-keys", "/api/stats", "/api/pool/stats", "/api/pool/usage", "/api/request-keys/usage",
		"/api/status", "/api/copilot/diagnostics", "/api/copilot/models", "/api/reauth/status", "/admin/config", "/admin/route?model=gemini-3-pro", "/metrics", "/health",
	} {
		if a := r.ask("GET", path, "", "Authorization: Bearer "+rigAdminKey); a.status >= 500 && !strings.HasPrefix(path, "/api/copilot/") {
			r.t.Errorf("GET %s: status %d: %s", path, a.status, a.body)
		}
	}
	for _, header := range []string{"X-Api-Key: " + rigCallerKey, "X-Api-Key: " + rigCallerKey + "x", "Authorization: Bearer " + rigAdminKey} { // refused here
		for _, path := range []string{"/v1/messages", "/v1/chat/completions", "/v1/responses", "/v1beta/models/x:generateContent", "/v1/" + rigCallerKey[:3]} {
			r.ask("POST", path, `{"messages": 1}`, header)
		}
	}
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", r.command.Process.Pid))
	if err != nil || !bytes.Contains(line, []byte("serve")) {
		r.t.Errorf("the command line: %q, %v", line, err)
	}
	r.tell("the command line", string(line))
	r.client.CloseIdleConnections()
	r.stop(r.t)
	r.checkTold()
}

// checkTold looks for secrets. Neither a prompt nor an answer may be in what is written.
func (r *providerRig) checkTold() {
	r.note(toldText{"the log", r.said(), true})
	read := 0
	err := filepath.WalkDir(filepath.Dir(r.config), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || path == r.config || entry.Name() == "credentials.json" {
			return err
		}
		data, err := os.ReadFile(path)
		r.note(toldText{path, string(data), true})
		read++
		return err
	})
	if err != nil || read < 2 {
		r.t.Errorf("%d files were read, %v", read, err)
	}
	for _, told := range r.told {
		for _, secret := range slices.Concat(rigSecrets(), r.secrets) {
			if at := strings.Index(told.text, secret); at >= 0 {
				r.t.Errorf("%s has %s in it: …%s", told.where, secret, told.text[max(0, at-200):at])
			}
		}
		for _, word := range []string{"zebra", "walrus"} {
			if told.kept && strings.Contains(told.text, word) {
				r.t.Errorf("%s has %q in it", told.where, word)
			}
		}
	}
}

// tell notes what somebody was told.
func (r *providerRig) tell(where, text string) { r.note(toldText{where, text, false}) }

func (r *providerRig) note(what toldText) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = append(r.told, what)
}

// runCommand runs another command of the binary with the same configuration. before is called with what it has printed so far
// until it returns true; nil: nothing is waited for.
func (r *providerRig) runCommand(before func(printed string) bool, args ...string) (exit int, printed string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), e2eClientTime)
	defer cancel()
	command := exec.CommandContext(ctx, r.binary, append(args, "--config", r.config, "--data-dir", r.data)...)
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(r.config)}
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out := &watchedOutput{before: before}
	command.Stdout, command.Stderr = out, out
	if err := command.Start(); err != nil {
		r.t.Fatal(err)
	}
	out.mu.Lock()
	out.pid = command.Process.Pid
	out.mu.Unlock()
	err := command.Wait()
	name := strings.Join(args, " ")
	if command.ProcessState.ExitCode() < 0 {
		r.t.Errorf("%s: %v", name, err)
	}
	r.tell("the output of "+name, out.text.String())
	r.tell("the command line of "+name, out.line)
	return command.ProcessState.ExitCode(), out.text.String()
}

// watchedOutput is what a command prints.
type watchedOutput struct {
	before func(string) bool

	mu   sync.Mutex
	pid  int
	line string // its command line, while it waited
	text bytes.Buffer
}

func (o *watchedOutput) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(b)
	if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", o.pid)); err == nil && o.pid > 0 {
		o.line += string(line) + "\n"
	}
	if o.before != nil && o.before(o.text.String()) {
		o.before = nil
	}
	return len(b), nil
}

var rigLoginPage = regexp.MustCompile(`  (http://\S+/auth\?\S+)`)

// login signs in by the binary's command, with a person who agrees: by a browser that comes back, or where a device's code is
// typed. What only the command and the identity provider know is a secret from then on.
func (r *providerRig) login(name string, at *demo.Identity) {
	r.t.Helper()
	var browsing sync.WaitGroup
	exit, printed := r.runCommand(func(printed string) bool {
		page := rigLoginPage.FindStringSubmatch(printed)
		if page != nil {
			browsing.Go(func() { r.tell("the page of the login", r.browse(page[1])) })
		}
		return page != nil
	}, "login", name)
	browsing.Wait()
	if exit != 0 {
		r.t.Fatalf("login: exit %d: %s", exit, printed)
	}
	for _, request := range at.Requests() {
		form, err := url.ParseQuery(string(request.Body))
		for _, member := range []string{"code", "code_verifier", "device_code"} {
			if secret := form.Get(member); err == nil && secret != "" {
				r.secrets = append(r.secrets, secret)
			}
		}
	}
	if len(r.secrets) == 0 {
		r.t.Error("no secret of the login was found")
	}
}

// browse opens an address as a browser does, to where it is sent on.
func (r *providerRig) browse(page string) string {
	response, err := r.client.Get(page)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return string(body)
}

// rigAnswer is what a client got.
type rigAnswer struct {
	status int
	header http.Header
	body   string
}

// ask sends one request. Whatever comes back is looked through for secrets.
func (r *providerRig) ask(method, path, body string, header ...string) rigAnswer {
	r.t.Helper()
	request, err := http.NewRequestWithContext(context.WithoutCancel(r.t.Context()), method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		request.Header.Set(name, value)
	}
	response, err := r.client.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Errorf("%s %s: %v", method, path, err)
	}
	a := rigAnswer{response.StatusCode, response.Header, string(data)}
	r.note(toldText{method + " " + path, fmt.Sprint(a.status, a.header, a.body), method == http.MethodGet})
	return a
}

// admin makes an admin call.
func (r *providerRig) admin(path string) {
	r.t.Helper()
	if a := r.ask("POST", path, "", "Authorization: Bearer "+rigAdminKey); a.status != http.StatusOK {
		r.t.Errorf("POST %s: status %d: %s", path, a.status, a.body)
	}
}

// rigLine is a line of the journal with what its client does not tell.
type rigLine struct {
	e2eLine

	Trace string
}

// lineOf is what the journal says of an answer.
func (r *providerRig) lineOf(a rigAnswer) rigLine {
	r.t.Helper()
	trace := a.header.Get("X-Proxy-Trace")
	files, _ := filepath.Glob(filepath.Join(r.data, "journal", "*.jsonl"))
	for _, name := range slices.Backward(files) {
		data, err := os.ReadFile(name)
		if err != nil {
			r.t.Fatal(err)
		}
		for _, text := range slices.Backward(slices.Collect(bytes.Lines(data))) {
			var line rigLine
			if bytes.Contains(text, []byte(trace)) && json.Unmarshal(text, &line) == nil && line.Trace == trace {
				return line
			}
		}
	}
	r.t.Fatalf("the journal has no line of trace %q; headers %v", trace, slices.Sorted(maps.Keys(a.header)))
	return rigLine{}
}

// rigKey is how a key stands.
type rigKey struct {
	ID, State string
	Reason    *string
	Until     *time.Time
	Models    []struct {
		Model, State, Reason string
		Until                *time.Time
	}
}

// cooling is what of the key cools and for how long; what is "" if nothing does, "key" or "model".
func (k *rigKey) cooling() (what, reason string, left time.Duration) {
	if k.State == "cooling" && k.Until != nil {
		return "key", *k.Reason, time.Until(*k.Until)
	}
	for _, m := range k.Models {
		return "model", m.Reason, time.Until(*m.Until)
	}
	return "", "", 0
}

// keyState reads how a key stands.
func (r *providerRig) keyState(id string) rigKey {
	r.t.Helper()
	var v struct{ Tiers []struct{ Keys []rigKey } }
	a := r.ask("GET", "/api/pool/stats", "", "Authorization: Bearer "+rigAdminKey)
	if err := json.Unmarshal([]byte(a.body), &v); err != nil {
		r.t.Fatalf("%v: %s", err, a.body)
	}
	for _, tier := range v.Tiers {
		for _, k := range tier.Keys {
			if k.ID == id {
				return k
			}
		}
	}
	r.t.Fatalf("there is no key %s: %s", id, a.body)
	return rigKey{}
}
