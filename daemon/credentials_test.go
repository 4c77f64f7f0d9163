package daemon

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"coding-proxy/auth/oauth"
)

const account = "work" // that the tests sign in to

// rotating is a token endpoint whose refresh tokens are good for one exchange each: refresh-0, refresh-1, ….
type rotating struct {
	*httptest.Server
	mu        sync.Mutex
	exchanges int
	shown     []string
	asked     chan struct{} // an exchange has come
	gate      chan struct{} // each answer takes one, nil: none waits
	answered  chan struct{} // an answer has been sent
}

func newRotating(t *testing.T, gate chan struct{}) *rotating {
	p := &rotating{asked: make(chan struct{}, 100), gate: gate, answered: make(chan struct{}, 100)}
	p.Server = httptest.NewServer(http.HandlerFunc(p.answer))
	t.Cleanup(p.Close)
	return p
}

func (p *rotating) answer(w http.ResponseWriter, r *http.Request) {
	p.asked <- struct{}{}
	if p.gate != nil {
		<-p.gate
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shown = append(p.shown, r.FormValue("refresh_token"))
	if r.FormValue("refresh_token") != fmt.Sprintf("refresh-%d", p.exchanges) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error":"invalid_grant"}`)
		return
	}
	p.exchanges++
	fmt.Fprintf(w, `{"access_token":"access-%d","refresh_token":"refresh-%d","expires_in":3600}`, p.exchanges, p.exchanges)
	_ = http.NewResponseController(w).Flush()
	p.answered <- struct{}{}
}

func (p *rotating) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exchanges
}

// sourceOn is the account of a process that has its credentials in dir.
func sourceOn(v oauth.Vault, tokenURL string, now func() time.Time) *oauth.Source {
	m := oauth.NewManager(v, now, func() http.RoundTripper { return &http.Transport{DisableKeepAlives: true} })
	m.Configure(map[string]oauth.Client{account: {Kind: oauth.KindGoogle, ClientID: "client", TokenURL: tokenURL}})
	return m.Source(account, nil)
}

func signIn(t *testing.T, dir string) *Credentials {
	t.Helper()
	v := OpenVault(dir, time.Now)
	if err := v.Update(t.Context(), func(kept map[string]oauth.Credential) error {
		kept[account] = oauth.Credential{Kind: oauth.KindGoogle, Refresh: "refresh-0", Obtained: time.Now()}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return v
}

func keptIn(t *testing.T, v *Credentials) oauth.Credential {
	t.Helper()
	kept, err := v.Read()
	if err != nil {
		t.Fatal(err)
	}
	return kept[account]
}

const (
	childDir = "CODING_PROXY_TEST_CREDENTIALS" // of a child
	childURL = "CODING_PROXY_TEST_TOKEN_URL"
	childEnd = "CODING_PROXY_TEST_STOPS" // before a change is written
)

// TestCredentialsChild is another process: it asks for a token, says what it has, and stays.
func TestCredentialsChild(t *testing.T) {
	dir := os.Getenv(childDir)
	if dir == "" {
		t.Skip("for the tests that start it")
	}
	v := OpenVault(dir, time.Now)
	if os.Getenv(childEnd) != "" {
		v.changed = func() {
			fmt.Println("said: writing")
			_, _ = io.Copy(io.Discard, os.Stdin)
		}
	}
	s := sourceOn(v, os.Getenv(childURL), time.Now)
	fmt.Println("said: asking")
	token, err := s.Token(context.Background())
	fmt.Println("said:", token.Access.Reveal(), err)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// child is a running TestCredentialsChild.
type child struct {
	*exec.Cmd
	out  *bufio.Scanner
	said []string
}

func startChild(t *testing.T, dir, tokenURL string, more ...string) *child {
	t.Helper()
	c := &child{Cmd: exec.Command(os.Args[0], "-test.run=^TestCredentialsChild$", "-test.count=1")}
	c.Env = append(append(os.Environ(), childDir+"="+dir, childURL+"="+tokenURL), more...)
	stdin, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewScanner(stdout)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	return c
}

// next is what the child says next, "" when it says no more.
func (c *child) next() string {
	for c.out.Scan() {
		if word, ok := strings.CutPrefix(c.out.Text(), "said: "); ok {
			c.said = append(c.said, word)
			return word
		}
	}
	return ""
}

// kill is kill -9; what the child has said before is in said.
func (c *child) kill(t *testing.T) {
	t.Helper()
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for c.next() != "" {
	}
	_ = c.Wait()
}

// A rotated refresh token is in the file before anybody has the access token, so a process that is killed as it uses that
// loses nothing.
func TestRotatedTokenOutlivesKill(t *testing.T) {
	t.Parallel()
	dir, p := t.TempDir(), newRotating(t, nil)
	v := signIn(t, dir)
	c := startChild(t, dir, p.URL)
	if c.next(); c.next() != "access-1 <nil>" {
		t.Fatalf("%q", c.said)
	}
	c.kill(t)
	if kept := keptIn(t, v); kept.Refresh != "refresh-1" || kept.Access != "access-1" {
		t.Fatalf("kept: %q", kept.Refresh)
	}
	later := func() time.Time { return time.Now().Add(2 * time.Hour) }
	for _, now := range []func() time.Time{time.Now, later} {
		if _, err := sourceOn(v, p.URL, now).Token(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if n := p.count(); n != 2 {
		t.Errorf("%d exchanges", n)
	}
}

// Killed between the provider's answer and the file, a process has used nothing; the file is whole, nobody is locked out, and
// what the provider then says is told and kept.
func TestKilledBeforeWrite(t *testing.T) {
	t.Parallel()
	dir, p := t.TempDir(), newRotating(t, nil)
	v := signIn(t, dir)
	c := startChild(t, dir, p.URL, childEnd+"=1")
	if c.next(); c.next() != "writing" {
		t.Fatalf("%q", c.said)
	}
	if err := os.WriteFile(filepath.Join(dir, ".credentials.json.123.tmp"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.kill(t)
	if len(c.said) != 2 || keptIn(t, v).Refresh != "refresh-0" {
		t.Fatalf("%q, kept %q", c.said, keptIn(t, v).Refresh)
	}
	e := new(oauth.Error)
	if _, err := sourceOn(v, p.URL, time.Now).Token(t.Context()); !errors.As(err, &e) || e.Reason != oauth.ReasonGrant || !e.Final {
		t.Errorf("%v", err)
	}
	if kept := keptIn(t, v); kept.Parked != oauth.ReasonGrant {
		t.Errorf("parked: %q", kept.Parked)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*.tmp")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Killed at any moment after the provider's answer, a process leaves a whole file; if anybody has the access token, the
// rotated refresh token is there.
func TestKilledAnywhere(t *testing.T) {
	t.Parallel()
	rounds := 25
	if testing.Short() {
		rounds = 5
	}
	written := 0
	for i := range rounds {
		dir, p := t.TempDir(), newRotating(t, nil)
		v := signIn(t, dir)
		c := startChild(t, dir, p.URL)
		<-p.answered
		for range i * 2000 { // a little later each time
			runtime.Gosched()
		}
		c.kill(t)
		kept := keptIn(t, v)
		used := slices.Contains(c.said, "access-1 <nil>")
		switch {
		case kept.Refresh == "refresh-1":
			written++
		case kept.Refresh != "refresh-0" || used:
			t.Errorf("round %d: used %v, kept %q", i, used, kept.Refresh)
		}
	}
	t.Logf("written in %d of %d", written, rounds)
}

// Three processes on one file, each with an ended token: one exchange, and all have its token.
func TestProcessesOneExchange(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{}, 10)
	dir, p := t.TempDir(), newRotating(t, gate)
	v := signIn(t, dir)
	children := []*child{startChild(t, dir, p.URL), startChild(t, dir, p.URL), startChild(t, dir, p.URL)}
	for _, c := range children {
		if c.next() != "asking" {
			t.Fatalf("%q", c.said)
		}
	}
	<-p.asked
	for range cap(gate) {
		gate <- struct{}{}
	}
	for i, c := range children {
		if got := c.next(); got != "access-1 <nil>" {
			t.Errorf("process %d: %s", i, got)
		}
	}
	if p.count() != 1 || len(p.shown) != 1 || keptIn(t, v).Refresh != "refresh-1" {
		t.Errorf("%d exchanges, shown %v, kept %q", p.count(), p.shown, keptIn(t, v).Refresh)
	}
}

func TestCredentialsFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "data")
	v := OpenVault(dir, time.Now)
	if kept, err := v.Read(); err != nil || len(kept) != 0 {
		t.Errorf("%v %v", kept, err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("reading makes a directory")
	}
	signIn(t, dir)
	path := filepath.Join(dir, "credentials.json")
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	before, err := os.ReadFile(path)
	if err != nil || !bytes.HasPrefix(before, []byte("{\n  \"version\": 1,\n  \"credentials\": {\n    \"work\": {")) {
		t.Errorf("%s %v", before, err)
	}
	broken := errors.New("broken")
	if err := v.Update(t.Context(), func(kept map[string]oauth.Credential) error {
		clear(kept)
		return broken
	}); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
		t.Errorf("a failed change is written: %s", after)
	}
}

// A file of a newer version is neither read nor touched; one that is damaged is set aside, and said.
func TestCredentialsNotOurs(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		newer      bool
	}{
		{"newer", `{"version":2,"credentials":[{"secret-1":1}]}`, true},
		{"cut", `{"version":1,"credentials":{"work":{"refresh":"secret-1`, false},
		{"empty", ``, false},
		{"no version", `{"credentials":{"work":{"refresh":"secret-1"}}}`, false},
		{"another shape", `{"version":1,"credentials":{"work":["secret-1"]}}`, false},
		{"more after it", `{"version":1,"credentials":{}}{}`, false},
		{"too long", `{"version":1,"credentials":{}}` + strings.Repeat(" ", mostCredentials), false},
	} {
		for _, update := range []bool{false, true} {
			t.Run(fmt.Sprint(tc.name, update), func(t *testing.T) {
				dir := t.TempDir()
				path := filepath.Join(dir, "credentials.json")
				if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
					t.Fatal(err)
				}
				v := OpenVault(dir, time.Now)
				var warned []string
				v.Warn = func(s string) { warned = append(warned, s) }
				_, err := v.Read()
				if update {
					err = v.Update(t.Context(), func(map[string]oauth.Credential) error { return nil })
				}
				aside, _ := filepath.Glob(path + ".bad-*")
				text, _ := os.ReadFile(path)
				if tc.newer {
					if err == nil || !strings.Contains(err.Error(), "newer coding-proxy") || strings.Contains(err.Error(), "secret") || string(text) != tc.text || len(aside) != 0 {
						t.Errorf("%v; %s; %v", err, text, aside)
					}
					return
				}
				if err != nil || len(aside) != 1 || len(warned) != 1 || !strings.Contains(warned[0], filepath.Base(aside[0])) || strings.Contains(warned[0], "secret") {
					t.Fatalf("%v; %v; %v", err, aside, warned)
				}
				if was, _ := os.ReadFile(aside[0]); string(was) != tc.text {
					t.Errorf("aside is %q", was)
				}
				if kept, err := v.Read(); err != nil || len(kept) != 0 {
					t.Errorf("%v %v", kept, err)
				}
			})
		}
	}
}

// What others can read is said, once; the next change is for the owner alone.
func TestCredentialsReadableByOthers(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes tell nothing there")
	}
	for mode, warns := range map[os.FileMode]bool{0o600: false, 0o400: false, 0o640: true, 0o604: true, 0o620: true} {
		dir := t.TempDir()
		v := signIn(t, dir)
		if err := os.Chmod(v.path(), mode); err != nil {
			t.Fatal(err)
		}
		var warned []string
		v.Warn = func(s string) { warned = append(warned, s) }
		for range 2 {
			if keptIn(t, v).Refresh != "refresh-0" {
				t.Error("it is not read")
			}
		}
		if len(warned) > 1 || (len(warned) == 1) != warns || warns && (!strings.Contains(warned[0], "chmod 600") || !strings.Contains(warned[0], fmt.Sprintf("%04o", mode))) {
			t.Errorf("%o: %q", mode, warned)
		}
		signIn(t, dir)
		if info, err := os.Stat(v.path()); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v %v", info.Mode(), err)
		}
	}
}

// Changes of many at once are all there, and who reads meanwhile always finds a whole file.
func TestCredentialsManyAtOnce(t *testing.T) {
	dir := t.TempDir()
	signIn(t, dir)
	var all, readers sync.WaitGroup
	var ended atomic.Bool
	readers.Go(func() {
		for v := OpenVault(dir, time.Now); !ended.Load(); {
			if kept, err := v.Read(); err != nil || kept[account].Refresh != "refresh-0" {
				t.Errorf("%v %v", slices.Collect(maps.Keys(kept)), err)
				return
			}
		}
	})
	for i := range 10 {
		all.Go(func() {
			v := OpenVault(dir, time.Now)
			for j := range 5 {
				if err := v.Update(t.Context(), func(kept map[string]oauth.Credential) error {
					kept[fmt.Sprintf("a-%d-%d", i, j)] = oauth.Credential{Kind: oauth.KindCopilot}
					return nil
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	ended.Store(true)
	readers.Wait()
	if kept, err := OpenVault(dir, time.Now).Read(); err != nil || len(kept) != 51 {
		t.Errorf("%d %v", len(kept), err)
	}
}

// Who holds an account keeps nobody from another one, nor from the file; who waits for it waits as long as its context.
func TestCredentialsHold(t *testing.T) {
	dir := t.TempDir()
	v, other := signIn(t, dir), OpenVault(dir, time.Now)
	holding, release, held := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		held <- v.Hold(context.Background(), account, func() error {
			close(holding)
			<-release
			return errDamaged
		})
	}()
	<-holding
	for _, name := range []string{"play", "key:k1", "../evil", "NUL", strings.Repeat("x", 500)} {
		if err := other.Hold(t.Context(), name, func() error { return nil }); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := other.Update(t.Context(), func(map[string]oauth.Credential) error { return nil }); err != nil {
		t.Error(err)
	}
	ended, cancel := context.WithTimeout(t.Context(), 3*lockPause)
	defer cancel()
	if err := other.Hold(ended, account, func() error { t.Error("two hold it"); return nil }); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("%v", err)
	}
	waited := make(chan error, 1)
	go func() { waited <- other.Hold(context.Background(), account, func() error { return nil }) }()
	close(release)
	if err := <-held; !errors.Is(err, errDamaged) {
		t.Errorf("%v", err)
	}
	if err := <-waited; err != nil {
		t.Error(err)
	}
	if names, _ := filepath.Glob(filepath.Join(dir, "*")); slices.ContainsFunc(names, func(n string) bool { return !strings.HasPrefix(filepath.Base(n), "credentials") }) {
		t.Errorf("%v", names)
	}
}

// No fmt verb shows what is kept.
func TestCredentialsPrintNothing(t *testing.T) {
	v := signIn(t, t.TempDir())
	kept, err := v.Read()
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		if text := fmt.Sprintf(verb, kept); strings.Contains(text, "refresh-0") || strings.Contains(text, fmt.Sprintf("%x", "refresh-0")) {
			t.Errorf("%s: %s", verb, text)
		}
	}
}

// FuzzCredentials: whatever stands in the file, it is kept as it was read, or refused without telling what is in it.
func FuzzCredentials(f *testing.F) {
	for _, s := range []string{"", "{}", `{"version":1}`, `{"version":1,"credentials":null}`, `{"version":1,"credentials":{"a":null,"b":{}}}`, `{"version":2}`, `{"version":-1}`,
		`{"version":1,"credentials":{"work":{"kind":"google","refresh":"r","access":"a","expires":"2026-11-30T12:00:00.123456789+09:00","obtained":"0001-01-01T00:00:00Z","parked":"invalid_grant"}}}`,
		`{"version":1e0,"credentials":{}}`, `{"Version":1,"CREDENTIALS":{"ſ":{"Kind":"\ud800"}}}`, `{"version":1,"credentials":{"a":{"expires":"9999-12-31T23:59:59-23:59"}}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		kept, err := decodeCredentials(data)
		if err != nil {
			if kept != nil || len(err.Error()) > 200 {
				t.Fatalf("%v %v", kept, err)
			}
			return
		}
		once, err := encodeCredentials(kept)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeCredentials(once)
		if err != nil || len(again) != len(kept) {
			t.Fatalf("%s: %v", once, err)
		}
		if twice, err := encodeCredentials(again); err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%s\n%s\n%v", once, twice, err)
		}
	})
}
