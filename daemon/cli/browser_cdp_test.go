//go:build unix

package cli_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A client for the DevTools protocol of Chromium, as small as the tests need it: messages over two pipes, each ended
// by a NUL byte (--remote-debugging-pipe: the browser reads from descriptor 3 and writes to 4).

const (
	browserPatience = 60 * time.Second // ends only where something hangs
	browserEnd      = 5 * time.Second
)

// findBrowser returns Chromium's program. Without it the test is skipped, except where CI=true: there nothing may be missing.
func findBrowser(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("the pages are not looked at in a browser with -short")
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	const missing = "no Chromium in PATH (chromium, chromium-browser or google-chrome): the pages are not looked at in a browser"
	if os.Getenv("CI") == "true" {
		t.Fatal(missing)
	}
	t.Skip(missing)
	return ""
}

// browser is one headless Chromium.
type browser struct {
	out io.WriteCloser

	mu      sync.Mutex
	last    int
	waiting map[int]chan cdpMessage
	tabs    map[string]*tab
	err     error // why nothing more will come
}

type cdpMessage struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// startBrowser starts Chromium with a profile of its own. It ends with the test.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	program := findBrowser(t)
	theirs, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	in, theirsToo, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--remote-debugging-pipe", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--user-data-dir="+t.TempDir(), "about:blank")
	cmd.ExtraFiles = []*os.File{theirs, theirsToo}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // its helpers are in its group
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	theirsToo.Close()
	b := &browser{out: out, waiting: map[int]chan cdpMessage{}, tabs: map[string]*tab{}}
	go b.read(in)
	exited := make(chan struct{})
	go func() { _ = cmd.Wait(); close(exited) }() // what it says at the end does not matter
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), browserEnd)
		defer cancel()
		_ = b.call(ctx, "", "Browser.close", nil, nil)
		select {
		case <-exited:
		case <-ctx.Done():
		}
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-exited
		out.Close()
		in.Close()
	})
	return b
}

// read hands out what the browser says.
func (b *browser) read(in io.Reader) {
	r := bufio.NewReaderSize(in, 1<<20)
	for {
		data, err := r.ReadBytes(0)
		if err != nil {
			b.fail(err)
			return
		}
		var m cdpMessage
		if err := json.Unmarshal(data[:len(data)-1], &m); err != nil {
			b.fail(err)
			return
		}
		b.mu.Lock()
		if c := b.waiting[m.ID]; m.ID != 0 && c != nil {
			delete(b.waiting, m.ID)
			c <- m
		} else if tab := b.tabs[m.Session]; tab != nil {
			tab.hear(m)
		}
		b.mu.Unlock()
	}
}

func (b *browser) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = fmt.Errorf("the browser is gone: %w", err)
	for id, c := range b.waiting {
		delete(b.waiting, id)
		close(c)
	}
}

// call sends a command and waits for what it returns.
func (b *browser) call(ctx context.Context, session, method string, params, result any) error {
	c := make(chan cdpMessage, 1)
	b.mu.Lock()
	b.last++
	id, err := b.last, b.err
	b.waiting[id] = c
	b.mu.Unlock()
	if err != nil {
		return err
	}
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	if params == nil {
		raw = nil
	}
	data, err := json.Marshal(cdpMessage{ID: id, Session: session, Method: method, Params: raw})
	if err != nil {
		return err
	}
	b.mu.Lock()
	_, err = b.out.Write(append(data, 0))
	b.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case m, ok := <-c:
		switch {
		case !ok:
			return b.err
		case m.Error != nil:
			return fmt.Errorf("%s: %s", method, m.Error.Message)
		case result != nil:
			return json.Unmarshal(m.Result, result)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, ctx.Err())
	}
}

// tab is one page of the browser, with cookies of its own.
type tab struct {
	browser *browser
	session string
	loaded  chan struct{} // the load event
	dialog  chan struct{} // a dialog opens

	// What was heard; the browser's lock guards it.
	requests []string // addresses that were asked for
	problems []string // exceptions, console errors, violations of the policy
	dialogs  []string
}

// open opens an empty tab.
func (b *browser) open(t *testing.T) *tab {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), browserPatience)
	defer cancel()
	var context struct{ BrowserContextID string }
	var target struct{ TargetID string }
	var session struct{ SessionID string }
	err := errors.Join(
		b.call(ctx, "", "Target.createBrowserContext", nil, &context),
		b.call(ctx, "", "Target.createTarget", struct {
			URL     string `json:"url"`
			Context string `json:"browserContextId"`
		}{"about:blank", context.BrowserContextID}, &target),
		b.call(ctx, "", "Target.attachToTarget", struct {
			Target  string `json:"targetId"`
			Flatten bool   `json:"flatten"`
		}{target.TargetID, true}, &session))
	if err != nil {
		t.Fatal(err)
	}
	p := &tab{browser: b, session: session.SessionID, loaded: make(chan struct{}, 100), dialog: make(chan struct{}, 100)}
	b.mu.Lock()
	b.tabs[p.session] = p
	b.mu.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Network", "Log"} {
		p.do(t, domain+".enable", nil, nil)
	}
	return p
}

// hear notes what an event says.
func (p *tab) hear(m cdpMessage) {
	switch m.Method {
	case "Page.loadEventFired":
		signal(p.loaded)
	case "Network.requestWillBeSent":
		var v struct{ Request struct{ URL string } }
		_ = json.Unmarshal(m.Params, &v) // an address that cannot be read is a foreign one
		p.requests = append(p.requests, v.Request.URL)
	case "Page.javascriptDialogOpening":
		p.dialogs = append(p.dialogs, string(m.Params))
		signal(p.dialog)
	case "Runtime.exceptionThrown":
		p.problems = append(p.problems, string(m.Params))
	case "Runtime.consoleAPICalled":
		var v struct{ Type string }
		if json.Unmarshal(m.Params, &v) != nil || v.Type == "error" || v.Type == "warning" || v.Type == "assert" {
			p.problems = append(p.problems, string(m.Params))
		}
	case "Log.entryAdded":
		var v struct {
			Entry struct{ Level, Source string }
		}
		if json.Unmarshal(m.Params, &v) != nil || v.Entry.Level == "error" || v.Entry.Level == "warning" || v.Entry.Source == "security" {
			p.problems = append(p.problems, string(m.Params))
		}
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// await waits for an event.
func (p *tab) await(t *testing.T, event chan struct{}, what string) {
	t.Helper()
	select {
	case <-event:
	case <-time.After(browserPatience):
		t.Fatalf("does not happen: %s", what)
	}
}

// heard returns what was heard so far.
func (p *tab) heard() (requests, problems, dialogs []string) {
	p.browser.mu.Lock()
	defer p.browser.mu.Unlock()
	return slices.Clone(p.requests), slices.Clone(p.problems), slices.Clone(p.dialogs)
}

// do sends a command to the tab.
func (p *tab) do(t *testing.T, method string, params, result any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), browserPatience)
	defer cancel()
	if err := p.browser.call(ctx, p.session, method, params, result); err != nil {
		t.Fatal(err)
	}
}

// visit loads an address and waits until everything of it is there.
func (p *tab) visit(t *testing.T, url string) {
	t.Helper()
	for len(p.loaded) > 0 {
		<-p.loaded
	}
	var v struct{ ErrorText string }
	p.do(t, "Page.navigate", struct {
		URL string `json:"url"`
	}{url}, &v)
	if v.ErrorText != "" {
		t.Fatalf("%s: %s", url, v.ErrorText)
	}
	p.await(t, p.loaded, url+" is loaded")
}

// run evaluates an expression, awaits it when it is a promise, and decodes its value.
func (p *tab) run(t *testing.T, expression string, into any) {
	t.Helper()
	var v struct {
		Result    struct{ Value json.RawMessage }
		Exception *struct {
			Text      string
			Exception struct{ Description string }
		} `json:"exceptionDetails"`
	}
	p.do(t, "Runtime.evaluate", struct {
		Expression string `json:"expression"`
		Value      bool   `json:"returnByValue"`
		Await      bool   `json:"awaitPromise"`
	}{expression, true, true}, &v)
	if v.Exception != nil {
		t.Fatalf("%s %s in: %s", v.Exception.Text, v.Exception.Exception.Description, expression)
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal(v.Result.Value, into); err != nil {
		t.Fatalf("%v in the value of: %s", err, expression)
	}
}

// resize makes the window that wide, without a scroll bar that takes of it.
func (p *tab) resize(t *testing.T, width int) {
	t.Helper()
	p.do(t, "Emulation.setDeviceMetricsOverride", struct {
		Width  int  `json:"width"`
		Height int  `json:"height"`
		Scale  int  `json:"deviceScaleFactor"`
		Mobile bool `json:"mobile"`
	}{width, 800, 1, false}, nil)
	p.do(t, "Emulation.setScrollbarsHidden", struct {
		Hidden bool `json:"hidden"`
	}{true}, nil)
}

type mediaFeature struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// scheme makes the system light or dark.
func (p *tab) scheme(t *testing.T, name string) {
	t.Helper()
	p.do(t, "Emulation.setEmulatedMedia", struct {
		Features []mediaFeature `json:"features"`
	}{[]mediaFeature{{"prefers-color-scheme", name}}}, nil)
}

// screenshot returns a PNG of the whole page.
func (p *tab) screenshot(t *testing.T) []byte {
	t.Helper()
	var v struct{ Data string }
	p.do(t, "Page.captureScreenshot", struct {
		Beyond bool `json:"captureBeyondViewport"`
	}{true}, &v)
	png, err := base64.StdEncoding.DecodeString(v.Data)
	if err != nil {
		t.Fatal(err)
	}
	return png
}

// close closes the tab.
func (p *tab) close(t *testing.T) {
	t.Helper()
	p.do(t, "Page.close", nil, nil)
}
