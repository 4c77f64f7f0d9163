package copilot

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"coding-proxy/auth"
	"coding-proxy/proxy/demo"
	"coding-proxy/proxy/ir"
)

const (
	exchanged = "ghu_0123456789abcdef"
	direct    = "gho_0123456789abcdef"
)

// Requests that the demo takes.
const (
	askClaude = `{"model":"claude-sonnet-4.5","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`
	askCodex  = `{"model":"gpt-5.1-codex","input":"hi"}`
	askChat   = `{"model":"gpt-4.1","messages":[{"role":"user","content":"hi"}]}`
)

// account is a provider before a simulated Copilot.
type account struct {
	*Provider
	t    *testing.T
	demo *demo.Copilot
	base *url.URL
	http http.RoundTripper

	mu  sync.Mutex
	now time.Time
}

func (a *account) Now() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.now
}

func (a *account) advance(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now = a.now.Add(d)
}

// newAccount starts both. change may alter the options.
func newAccount(t *testing.T, simulated demo.CopilotOptions, change func(o *Options)) *account {
	t.Helper()
	a := &account{t: t, now: noon}
	simulated.Answers.Now = a.Now
	a.demo = demo.NewCopilot(simulated)
	server := httptest.NewServer(a.demo)
	transport := &http.Transport{DisableCompression: true}
	a.http = transport
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.Close()
		for _, c := range a.demo.Complaints() {
			t.Error("the API complains: " + c)
		}
	})
	a.base = parse(t, server.URL)
	o := Options{GitHubToken: auth.NewSecret(exchanged), TokenURL: a.base.JoinPath("copilot_internal/v2/token"), Version: "1.2",
		HTTP: func() http.RoundTripper { return a.http }, Now: a.Now}
	if change != nil {
		change(&o)
	}
	a.Provider = New(o)
	return a
}

func parse(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// result is what a request came to.
type result struct {
	status int
	body   string
	sends  []string // hosts, with ! where the connection had to be a fresh one
	fault  *ir.Fault
}

// ask sends a request as the proxy does.
func (a *account) ask(path, body string, header ...string) result {
	a.t.Helper()
	var r result
	for try := 0; ; try++ {
		req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, path, strings.NewReader(body))
		if err != nil {
			a.t.Fatal(err)
		}
		req.Header = http.Header{"Content-Type": {"application/json"}, "Anthropic-Version": {"2023-06-01"}}
		for _, line := range header {
			name, value, _ := strings.Cut(line, ": ")
			req.Header.Add(name, value)
		}
		if r.fault = a.Sign(req, try); r.fault != nil {
			return r
		}
		host := req.URL.Host
		if req.Close {
			host += "!"
		}
		r.sends = append(r.sends, host)
		resp, err := a.http.RoundTrip(req)
		if err != nil {
			a.t.Fatal(err)
		}
		a.Open(resp)
		text, err := io.ReadAll(resp.Body)
		if resp.Body.Close(); err != nil {
			a.t.Fatal(err)
		}
		r.status, r.body = resp.StatusCode, string(text)
		if r.status < 400 || !a.Again(req, try, &ir.Fault{Status: r.status, Message: r.body}) {
			return r
		}
		if try > 8 {
			a.t.Fatal("no end of tries")
		}
	}
}

// wantGood asks and must be answered.
func (a *account) wantGood(path, body string, header ...string) result {
	a.t.Helper()
	r := a.ask(path, body, header...)
	if r.status != http.StatusOK {
		a.t.Errorf("%s: status %d %s, fault %+v, sent to %v", path, r.status, r.body, r.fault, r.sends)
	}
	return r
}

// last is the last request that came to the API.
func (a *account) last() demo.Request {
	a.t.Helper()
	arrived := a.demo.Arrived()
	if len(arrived) == 0 {
		a.t.Fatal("nothing has come")
	}
	return arrived[len(arrived)-1]
}
