package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"coding-proxy/daemon"
	"coding-proxy/daemon/config"
	"coding-proxy/proxy/demo"
	"coding-proxy/stats"
)

// The demo's keys: none of them opens anything.
const (
	demoRequestKey = "demo-request-key-laptop"
	demoModel      = "claude-sonnet-5-5"
	demoKeyHeader  = "X-Proxy-Key" // of every dialect
)

// runDemo starts simulated providers and the proxy on free ports, sends requests through them and says what
// happened and why.
func runDemo(args []string, env Environment) int {
	fs := newFlags("demo", "", "Starts simulated providers and a proxy before them, sends requests and says what happened. Needs no key and no network.", env)
	once := fs.Bool("once", false, "end after the requests, rather than stay up until Ctrl-C")
	if code, done := parse(fs, args, env); done {
		return code
	}
	first, second, stop := signals()
	defer stop()
	if err := demonstrate(first, second, *once, env); err != nil && first.Err() == nil { // Ctrl-C is an end like any other
		fmt.Fprintf(env.Stderr, "coding-proxy demo: %v\n", err)
		return exitFailed
	}
	return exitDone
}

// demoRequest is one request of the demo.
type demoRequest struct {
	title   string
	before  func()        // what happens at the providers first
	wait    time.Duration // and how long it takes
	path    string
	session string
	body    string
}

// demoRequests are the requests, and what happens at provider A between them.
func demoRequests(a *demo.Provider) []demoRequest {
	down := func() {
		a.Always(demo.Step{Status: 529, Message: "simulated overload", Header: http.Header{"Retry-After": {"1"}}})
	}
	up := func() {
		a.Always(demo.Step{Text: "Back at provider A."})
		a.Push(demo.Step{Text: "Back at provider A."}, demo.Step{Status: http.StatusBadRequest, Message: "prompt is too long: 2000000 tokens > 200000 maximum"})
	}
	message := func(text string, stream bool) string {
		return fmt.Sprintf(`{"model":%q,"max_tokens":256,"stream":%t,"messages":[{"role":"user","content":%q}]}`, demoModel, stream, text)
	}
	const ask = "/v1/messages"
	return []demoRequest{
		{title: "a first question; key-a is rate-limited", path: ask, session: "monday", body: message("What is a key pool?", false)},
		{title: "the same conversation goes on, as a stream", path: ask, session: "monday", body: message("And what is a session?", true)},
		{title: "provider A goes down: the next tier serves, in OpenAI's language and under its own model's name", before: down,
			path: ask, session: "monday", body: message("Name three strategies.", true)},
		{title: "its breaker is open: nobody waits for it any more", wait: demoCooldown,
			path: ask, session: "tuesday", body: message("What is a breaker?", false)},
		{title: "provider A is back: one request tries it, and it has its conversations again", before: up, wait: demoRecovery,
			path: ask, session: "monday", body: message("Where were we?", true)},
		{title: "a prompt that is too long: the client's own fault", path: ask, session: "wednesday", body: message("(imagine two million tokens)", false)},
		{title: "how many tokens would this be?", path: ask + "/count_tokens", body: `{"model":"` + demoModel + `","messages":[{"role":"user","content":"How long is this?"}]}`},
		{title: "is anybody there? (one token)", path: ask, body: `{"model":"` + demoModel + `","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}`},
		{title: "a client of OpenAI Chat Completions, before the same key", path: "/v1/chat/completions",
			body: `{"model":"` + demoModel + `","stream":true,"messages":[{"role":"user","content":"Do you speak Chat?"}]}`},
		{title: "one of OpenAI Responses, like Codex", path: "/v1/responses",
			body: `{"model":"` + demoModel + `","input":"Do you speak Responses?"}`},
		{title: "and one of Gemini, whose model is in the path", path: "/v1beta/models/" + demoModel + ":streamGenerateContent?alt=sse",
			body: `{"contents":[{"role":"user","parts":[{"text":"Do you speak Gemini?"}]}]}`},
	}
}

// The demo's breaker is open for a moment only, so that nobody has to wait for its end.
const (
	demoCooldown = 1200 * time.Millisecond // a cooldown of one second, and its jitter
	demoRecovery = 1500 * time.Millisecond // what then is left of the breaker's two seconds, and more
)

// demoProviders are the two keys of provider A and the one of provider B.
func demoProviders() (a1, a2, b *demo.Provider) {
	anthropic := []string{"anthropic"}
	a1 = demo.New(demo.Options{Name: "provider A, first key", Keys: []string{"sim-credential-a"}, Dialects: anthropic})
	a2 = demo.New(demo.Options{Name: "provider A, second key", Keys: []string{"sim-credential-b"}, Dialects: anthropic})
	b = demo.New(demo.Options{Name: "provider B", Keys: []string{"sim-credential-c"}, Dialects: []string{"openai-chat"}})
	a1.Always(demo.Step{Status: http.StatusTooManyRequests, Message: "simulated rate limit", Header: http.Header{"Retry-After": {"120"}}})
	a2.Push(
		demo.Step{Text: "A pool of keys that answers as one."},
		demo.Step{Text: "One conversation, kept on one key so that the prompt cache stays warm."},
	)
	b.Push(
		demo.Step{Text: "session-sticky, fill-first, round-robin."},
		demo.Step{Text: "What keeps a broken provider from being asked."},
	)
	return a1, a2, b
}

func demonstrate(ctx, force context.Context, once bool, env Environment) error {
	dir, err := os.MkdirTemp("", "coding-proxy-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	a1, a2, b := demoProviders()
	var urls []string
	for _, p := range []*demo.Provider{a1, a2, b} {
		url, stop, err := listen(p)
		if err != nil {
			return err
		}
		defer stop()
		urls = append(urls, url)
	}
	cfg, err := demoConfig(dir, urls)
	if err != nil {
		return err
	}
	d, err := daemon.New(cfg, daemon.NewLogger(cfg, io.Discard))
	if err != nil {
		return err
	}
	serving, end := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() {
		served <- d.Serve(serving, force)
		close(served)
	}()
	defer func() { // before its folder goes
		end()
		<-served
	}()
	proxyURL := "http://" + d.Addr()
	out := env.Stdout
	fmt.Fprintf(out, "Simulated providers: A speaks Anthropic Messages and has two keys, of which key-a answers 429 to everything;\n"+
		"B speaks OpenAI Chat Completions and has one.\n"+
		"coding-proxy stands before them at %s, a chain of two tiers: first, then second.\n\n", proxyURL)
	if err := ask(ctx, out, proxyURL, filepath.Join(dir, "data", "journal"), demoRequests(a2)); err != nil {
		return err
	}
	fmt.Fprintf(out, "What arrived: provider A %d requests, provider B %d.\n", len(a1.Requests())+len(a2.Requests()), len(b.Requests()))
	if err := tellUsage(ctx, out, proxyURL); err != nil {
		return err
	}
	if !once {
		fmt.Fprintf(out, "\nLook at %s/stats/pool (Ctrl-C ends the demo).\n", proxyURL)
		select {
		case <-ctx.Done():
		case err := <-served:
			return err
		}
	} else {
		fmt.Fprintf(out, "\nThe pages were at %s/stats; without --once the demo stays up.\n", proxyURL)
	}
	end()
	return <-served
}

// listen serves a handler on a free port.
func listen(h http.Handler) (url string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	s := &http.Server{Handler: h}
	go func() { _ = s.Serve(l) }() // ends with Close
	return "http://" + l.Addr().String(), func() { _ = s.Close() }, nil
}

// demoConfig writes a configuration file and reads it, as a user's would be.
func demoConfig(dir string, urls []string) (*config.Config, error) {
	path := filepath.Join(dir, "config.json")
	key := func(id, tier, protocol, url, secret string) string {
		return fmt.Sprintf(`{"id": %q, "tier": %q, "provider": "simulated", "protocol": %q, "base_url": %q, "api_key": %q, "daily_limit_tokens": 1000000}`,
			id, tier, protocol, url, secret)
	}
	text := fmt.Sprintf(`{
  "server": {"port": 0, "data_dir": %q},
  "auth": {"request_keys": [{"code": "laptop", "api_key": %q}]},
  "tiers": [
    {"name": "first", "circuit_breaker": {"failure_threshold": 1, "recovery_timeout_seconds": 2, "success_threshold": 1}},
    {"name": "second", "model_mapping": [{"pattern": "claude-*", "target": "glm-5.1"}]}
  ],
  "pool": {"strategy": "fill-first", "keys": [%s, %s, %s]}
}`, filepath.Join(dir, "data"), demoRequestKey, key("key-a", "first", "anthropic", urls[0], "sim-credential-a"),
		key("key-b", "first", "anthropic", urls[1], "sim-credential-b"), key("key-c", "second", "openai-chat", urls[2], "sim-credential-c"))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return config.Load(config.Source{Path: path, Getenv: func(string) (string, bool) { return "", false }, ReadFile: os.ReadFile, Stat: os.Stat})
}

// ask sends the demo's requests and tells of each what the client saw and, from the journal, the way it took.
func ask(ctx context.Context, out io.Writer, proxyURL, journal string, requests []demoRequest) error {
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for i, q := range requests {
		if q.before != nil {
			q.before()
		}
		if err := pause(ctx, q.wait); err != nil {
			return err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, proxyURL+q.path, strings.NewReader(q.body))
		if err != nil {
			return err
		}
		req.Header.Set(demoKeyHeader, demoRequestKey)
		if strings.HasPrefix(q.path, "/v1/messages") {
			req.Header.Set("Anthropic-Version", "2023-06-01")
		}
		req.Header.Set("X-Session-Id", q.session)
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			return err
		}
		line, err := lastRecord(journal)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%d. %s\n   the client got  %d %s\n   the way         %s\n", i+1, q.title, resp.StatusCode, gist(body), path(line))
		if line.InputTokens > 0 {
			fmt.Fprintf(out, "   counted         %d tokens in, %d out, for caller %q and key %q", line.InputTokens, line.OutputTokens, line.Caller, line.Key)
			if line.UpstreamModel != line.Requested {
				fmt.Fprintf(out, ", as %s", line.UpstreamModel)
			}
			fmt.Fprintln(out)
		}
	}
	fmt.Fprintln(out)
	return nil
}

// pause waits, or returns why it ends early.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// lastRecord reads the journal's newest line.
func lastRecord(dir string) (r stats.Record, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil || len(files) == 0 {
		return r, fmt.Errorf("no journal in %s", dir)
	}
	data, err := os.ReadFile(files[len(files)-1])
	if err != nil {
		return r, err
	}
	data = bytes.TrimSpace(data)
	return r, json.Unmarshal(data[bytes.LastIndexByte(data, '\n')+1:], &r)
}

// path tells the attempts and skips of a request.
func path(r stats.Record) string {
	if r.Outcome == stats.OutcomeLocal {
		return "answered by the proxy itself, no provider asked"
	}
	var parts []string
	for _, s := range r.Skipped {
		what := s.Key
		if what == "" {
			what = "tier " + s.Tier
		}
		parts = append(parts, fmt.Sprintf("%s passed over (%s)", what, s.Gate))
	}
	for _, a := range r.Attempts {
		text := fmt.Sprintf("%s answered %d", a.Key, a.Status)
		if a.Outcome != "ok" {
			text += " (" + a.Outcome + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", then ")
}

// said is where the four dialects have the text of an answer, plain or in an event.
type said struct {
	Content []struct{ Text string } // Anthropic
	Delta   json.RawMessage         // a piece: Anthropic's object, Responses' string
	Choices []struct {              // Chat
		Message, Delta struct{ Content string }
	}
	Output []struct { // Responses
		Content []struct{ Text string }
	}
	Candidates []struct { // Gemini
		Content struct {
			Parts []struct{ Text string }
		}
	}
	Error  struct{ Type, Message string }
	Tokens int `json:"input_tokens"`
}

// text is what is said.
func (s *said) text() string {
	var all strings.Builder
	for _, c := range s.Content {
		all.WriteString(c.Text)
	}
	for _, c := range s.Choices {
		all.WriteString(c.Message.Content + c.Delta.Content)
	}
	for _, o := range s.Output {
		for _, c := range o.Content {
			all.WriteString(c.Text)
		}
	}
	for _, c := range s.Candidates {
		for _, p := range c.Content.Parts {
			all.WriteString(p.Text)
		}
	}
	var piece struct{ Text string }
	var plain string
	if json.Unmarshal(s.Delta, &piece) == nil {
		all.WriteString(piece.Text)
	} else if json.Unmarshal(s.Delta, &plain) == nil {
		all.WriteString(plain)
	}
	return all.String()
}

// gist shortens an answer to what it says.
func gist(body []byte) string {
	var v said
	if json.Unmarshal(body, &v) == nil {
		switch text := v.text(); {
		case text != "":
			return fmt.Sprintf("%q", text)
		case v.Error.Type != "":
			return v.Error.Type + ": " + v.Error.Message
		}
		return fmt.Sprintf("%d input tokens", v.Tokens)
	}
	events, text := 0, ""
	for lines := bufio.NewScanner(bytes.NewReader(body)); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		events++
		var e said
		if json.Unmarshal([]byte(data), &e) == nil {
			text += e.text()
		}
	}
	return fmt.Sprintf("%q in %d events", text, events)
}

// tellUsage prints the day's figures, as the API has them.
func tellUsage(ctx context.Context, out io.Writer, proxyURL string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, proxyURL+"/api/stats", nil)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var s struct {
		Models []stats.ModelFigures `json:"models"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
		return fmt.Errorf("/api/stats: %w", err)
	}
	for _, m := range s.Models {
		fmt.Fprintf(out, "Counted today: %s, %d requests, %d failed over, %d errors, %d tokens in, %d out.\n",
			m.Model, m.Requests, m.Failovers, m.Errors, m.InputTokens, m.OutputTokens)
	}
	return nil
}
