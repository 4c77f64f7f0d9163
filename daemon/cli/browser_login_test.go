//go:build linux

package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"coding-proxy/proxy/demo"
)

// A person signs in with a real browser at a simulated identity provider, and the running proxy uses what was granted.

// loginHouse is a folder in which the proxy runs and people sign in.
type loginHouse struct {
	identity *demo.Identity
	provider *demo.Provider // which takes what the identity provider has granted
	binary   string
	home     string
}

func newLoginHouse(t *testing.T) *loginHouse {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), browserPatience)
	defer cancel()
	h := &loginHouse{
		identity: demo.NewIdentity(demo.IdentityOptions{ClientID: "app", ClientSecret: "secret-of-app", Offline: true, Interval: 1}),
		provider: demo.New(demo.Options{Name: "provider"}),
		binary:   buildProxy(ctx, t), home: t.TempDir(),
	}
	identity, provider := httptest.NewServer(h.identity), httptest.NewServer(h.provider)
	t.Cleanup(identity.Close)
	t.Cleanup(provider.Close)
	configuration := fmt.Sprintf(`{"server": {"port": 0, "data_dir": %q},
"oauth": {
  "work": {"kind": "google", "client_id": "app", "client_secret": "secret-of-app", "authorize_url": "%[2]s/auth", "token_url": "%[2]s/token"},
  "hub": {"kind": "copilot", "client_id": "app", "client_secret": "secret-of-app", "device_code_url": "%[2]s/login/device/code", "token_url": "%[2]s/login/oauth/access_token"}},
"pool": {"strategy": "fill-first", "max_wait_seconds": 0,
  "keys": [{"id": "key", "protocol": "anthropic", "base_url": %[3]q, "credential": "oauth:work"}]}}`,
		filepath.Join(h.home, "data"), identity.URL, provider.URL)
	if err := os.WriteFile(filepath.Join(h.home, "config.json"), []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	return h
}

// loginCommand is a login under way.
type loginCommand struct {
	page   string // that it has printed
	cmd    *exec.Cmd
	stdout *bufio.Reader
	stderr bytes.Buffer
}

// login starts the command and waits for the line that begins with the words; what follows them is where a person goes.
func (h *loginHouse) login(t *testing.T, words string, args ...string) *loginCommand {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), browserPatience)
	t.Cleanup(cancel)
	l := &loginCommand{cmd: exec.CommandContext(ctx, h.binary, append([]string{"login", "--config", filepath.Join(h.home, "config.json")}, args...)...)}
	l.cmd.Env = []string{"PATH=" + h.home + ":" + os.Getenv("PATH"), "HOME=" + h.home}
	l.cmd.Stderr = &l.stderr
	out, err := l.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	l.stdout = bufio.NewReader(out)
	for {
		line, err := l.stdout.ReadString('\n')
		if err != nil {
			t.Fatalf("it prints no address: %v, %s", l.cmd.Wait(), &l.stderr)
		}
		if page, ok := strings.CutPrefix(line, words); ok {
			l.page = strings.TrimSpace(page)
			return l
		}
	}
}

// end returns the exit code and what was printed since.
func (l *loginCommand) end(t *testing.T) (code int, text string) {
	t.Helper()
	rest, err := io.ReadAll(l.stdout)
	if err != nil {
		t.Error(err)
	}
	_ = l.cmd.Wait() // the code tells
	return l.cmd.ProcessState.ExitCode(), string(rest) + l.stderr.String()
}

// press presses a button and returns the text of the page to which it leads.
func (p *tab) press(t *testing.T, button string) (text string) {
	t.Helper()
	p.run(t, fmt.Sprintf("document.getElementById(%q).click()", button), nil)
	p.await(t, p.loaded, button+" leads to a page")
	p.run(t, "document.body.innerText", &text)
	return text
}

func (h *loginHouse) stored(t *testing.T) (access string) {
	t.Helper()
	path := filepath.Join(h.home, "data", "credentials.json")
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	var f struct {
		Credentials map[string]struct{ Access, Refresh string }
	}
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatal(err)
	}
	if c := f.Credentials["work"]; c.Refresh == "" || !h.identity.Valid(c.Access) {
		t.Error("what is stored is no good")
	}
	return f.Credentials["work"].Access
}

// TestBrowserLogin signs in, is refused, and sees what page and command say.
func TestBrowserLogin(t *testing.T) {
	b := startBrowser(t)
	h := newLoginHouse(t)
	proxy := startProxy(t.Context(), t, h.binary, "serve", "--config", filepath.Join(h.home, "config.json"))
	s := newShown(t, proxy.url, nil)
	if status := s.ask(t, "nobody", browserModel); status == 200 {
		t.Fatal("an answer without a login")
	}
	for _, c := range []struct {
		name, button string
		consent      demo.Consent
		page, says   string
	}{
		{"declined", "deny", demo.Asks, "Not signed in: the request was declined on the provider's page", "the request was declined on the provider's page; nothing was stored"},
		{"another state", "allow", demo.MixesState, "Not signed in: the browser brought the answer of another sign-in", "sign in once more, in one window"},
	} {
		h.identity.SetConsent(c.consent)
		l := h.login(t, "  http", "google")
		p := b.open(t)
		p.visit(t, "http"+l.page)
		if text := p.press(t, c.button); !strings.Contains(text, c.page) {
			t.Errorf("%s: the page says %q", c.name, text)
		}
		p.close(t)
		if code, text := l.end(t); code != 1 || !strings.Contains(text, c.says) || h.stored(t) != "" {
			t.Errorf("%s: exit %d: %s", c.name, code, text)
		}
	}
	h.identity.SetConsent(demo.Asks)
	h.signIn(t, b)
	access := h.stored(t)
	s.until(t, "the running proxy uses the login", func() bool { return s.ask(t, "nobody", browserModel) == 200 })
	requests := h.provider.Requests()
	if got := requests[len(requests)-1].Header.Get("Authorization"); access == "" || got != "Bearer "+access {
		t.Error("the provider was shown something else than the access token")
	}
	proxy.terminate(t)
	if strings.Contains(proxy.stderr.String(), access) {
		t.Error("the log shows the token")
	}
}

// signIn signs in as a person does whose browser opens by itself.
func (h *loginHouse) signIn(t *testing.T, b *browser) {
	t.Helper()
	opened := filepath.Join(h.home, "opened") // a pipe
	if err := syscall.Mkfifo(opened, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.home, "xdg-open"), []byte("#!/bin/sh\nprintf %s \"$1\" > "+opened+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	l := h.login(t, "  http", "google", "--open")
	page, err := os.ReadFile(opened)
	if err != nil || string(page) != "http"+l.page {
		t.Fatalf("opened: %q, %v", page, err)
	}
	commandLine, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", l.cmd.Process.Pid))
	if err != nil || bytes.Contains(commandLine, []byte("secret")) {
		t.Errorf("/proc shows %q, %v", commandLine, err)
	}
	p := b.open(t)
	defer p.close(t)
	p.visit(t, string(page))
	text := p.press(t, "allow")
	if !strings.Contains(text, "The provider has agreed.") {
		t.Errorf("the page says %q", text)
	}
	p.resize(t, 360)
	p.picture(t, "login")
	if _, problems, _ := p.heard(); len(problems) > 0 {
		t.Errorf("problems in the browser: %q", problems)
	}
	var address string
	p.run(t, "location.href", &address)
	code, printed := l.end(t)
	if code != 0 || !strings.Contains(printed, `Signed in to "work"`) {
		t.Errorf("exit %d: %s", code, printed)
	}
	for _, secret := range []string{"demo-access-", "demo-refresh-", "secret-of-app"} {
		if strings.Contains(text+address+printed, secret) {
			t.Errorf("somebody is shown %s", secret)
		}
	}
}

// TestLoginInterrupted: Ctrl-C ends both flows, with words.
func TestLoginInterrupted(t *testing.T) {
	h := newLoginHouse(t)
	for name, words := range map[string]string{"google": "  http", "copilot": "Enter"} {
		l := h.login(t, words, name)
		if err := l.cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if code, text := l.end(t); code != 1 || !strings.Contains(text, "stopped; nothing was stored") || h.stored(t) != "" {
			t.Errorf("%s: exit %d: %s", name, code, text)
		}
	}
}
