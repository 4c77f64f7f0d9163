package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"coding-proxy/daemon"
	"coding-proxy/daemon/config"
	"coding-proxy/proxy/demo"
	"coding-proxy/stats"
)

// The demo's keys: none of them opens anything.
const (
	demoRequestKey = "demo-request-key-laptop"
	demoModel      = "claude-sonnet-5-5"
)

// runDemo starts simulated providers and the proxy on free ports, sends requests through them and says what
// happened and why.
func runDemo(args []string, env Environment) int {
	fs := flag.NewFlagSet("demo", flag.ContinueOnError)
	once := fs.Bool("once", false, "end after the requests, rather than stay up until Ctrl-C")
	if code, done := parse(fs, args, env); done {
		return code
	}
	first, second, stop := signals()
	defer stop()
	if err := demonstrate(first, second, *once, env); err != nil {
		fmt.Fprintf(env.Stderr, "coding-proxy demo: %v\n", err)
		return exitFailed
	}
	return exitDone
}

// demoRequest is one request of the demo.
type demoRequest struct {
	title   string
	path    string
	session string
	body    string
}

func demoRequests() []demoRequest {
	message := func(text string, stream bool) string {
		return fmt.Sprintf(`{"model":%q,"max_tokens":256,"stream":%t,"messages":[{"role":"user","content":%q}]}`, demoModel, stream, text)
	}
	const ask = "/v1/messages"
	return []demoRequest{
		{"a first question; key-a is rate-limited", ask, "monday", message("What is a key pool?", false)},
		{"the same conversation goes on, as a stream", ask, "monday", message("And what is a session?", true)},
		{"another conversation", ask, "tuesday", message("Name three strategies.", true)},
		{"a prompt that is too long: the client's own fault", ask, "wednesday", message("(imagine two million tokens)", false)},
		{"how many tokens would this be?", ask + "/count_tokens", "", `{"model":"` + demoModel + `","messages":[{"role":"user","content":"How long is this?"}]}`},
		{"is anybody there? (one token)", ask, "", `{"model":"` + demoModel + `","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}`},
	}
}

func demonstrate(ctx, force context.Context, once bool, env Environment) error {
	dir, err := os.MkdirTemp("", "coding-proxy-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	a, b := demo.New(demo.Options{Name: "provider A", Keys: []string{"sim-credential-a"}}), demo.New(demo.Options{Name: "provider B", Keys: []string{"sim-credential-b"}})
	a.Always(demo.Step{Status: http.StatusTooManyRequests, Message: "simulated rate limit", Header: http.Header{"Retry-After": {"120"}}})
	b.Push(
		demo.Step{Text: "A pool of keys that answers as one."},
		demo.Step{Text: "One conversation, kept on one key so that the prompt cache stays warm."},
		demo.Step{Text: "session-sticky, fill-first, round-robin."},
		demo.Step{Status: http.StatusBadRequest, Message: "prompt is too long: 2000000 tokens > 200000 maximum"},
	)
	urlA, stopA, err := listen(a)
	if err != nil {
		return err
	}
	defer stopA()
	urlB, stopB, err := listen(b)
	if err != nil {
		return err
	}
	defer stopB()
	cfg, err := demoConfig(dir, urlA, urlB)
	if err != nil {
		return err
	}
	d, err := daemon.New(cfg, daemon.NewLogger(cfg, io.Discard))
	if err != nil {
		return err
	}
	serving, end := context.WithCancel(ctx)
	defer end()
	served := make(chan error, 1)
	go func() { served <- d.Serve(serving, force) }()
	proxyURL := "http://" + d.Addr()
	out := env.Stdout
	fmt.Fprintf(out, "Two simulated providers, each with one key: key-a answers 429 to everything, key-b works.\ncoding-proxy stands before them at %s, first key first.\n\n", proxyURL)
	if err := ask(ctx, out, proxyURL, filepath.Join(dir, "data", "journal")); err != nil {
		return err
	}
	fmt.Fprintf(out, "What arrived: provider A %d requests, provider B %d.\n", len(a.Requests()), len(b.Requests()))
	if err := tellUsage(ctx, out, proxyURL); err != nil {
		return err
	}
	if !once {
		fmt.Fprintf(out, "\nLook at %s/stats (Ctrl-C ends the demo).\n", proxyURL)
		select {
		case <-ctx.Done():
		case err := <-served:
			return err
		}
	} else {
		fmt.Fprintf(out, "\nThe statistics page was at %s/stats; without --once the demo stays up.\n", proxyURL)
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
func demoConfig(dir, urlA, urlB string) (*config.Config, error) {
	path := filepath.Join(dir, "config.json")
	text := fmt.Sprintf(`{
  "server": {"port": 0, "data_dir": %q},
  "auth": {"request_keys": [{"code": "laptop", "api_key": %q}]},
  "pool": {
    "strategy": "fill-first",
    "keys": [
      {"id": "key-a", "provider": "simulated", "protocol": "anthropic", "base_url": %q, "api_key": "sim-credential-a", "daily_limit_tokens": 1000000},
      {"id": "key-b", "provider": "simulated", "protocol": "anthropic", "base_url": %q, "api_key": "sim-credential-b", "daily_limit_tokens": 1000000}
    ]
  }
}`, filepath.Join(dir, "data"), demoRequestKey, urlA, urlB)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return config.Load(config.Source{Path: path, Getenv: func(string) (string, bool) { return "", false }, ReadFile: os.ReadFile, Stat: os.Stat})
}

// ask sends the demo's requests and tells of each what the client saw and, from the journal, the way it took.
func ask(ctx context.Context, out io.Writer, proxyURL, journal string) error {
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for i, q := range demoRequests() {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, proxyURL+q.path, strings.NewReader(q.body))
		if err != nil {
			return err
		}
		req.Header.Set("X-Api-Key", demoRequestKey)
		req.Header.Set("Anthropic-Version", "2023-06-01")
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
			fmt.Fprintf(out, "   counted         %d tokens in, %d out, for caller %q and key %q\n", line.InputTokens, line.OutputTokens, line.Caller, line.Key)
		}
	}
	fmt.Fprintln(out)
	return nil
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
		parts = append(parts, fmt.Sprintf("%s passed over (%s)", s.Key, s.Gate))
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

// gist shortens an answer to what it says.
func gist(body []byte) string {
	var v struct {
		Content []struct{ Text string }
		Error   struct{ Type, Message string }
		Tokens  int `json:"input_tokens"`
	}
	if json.Unmarshal(body, &v) == nil {
		switch {
		case len(v.Content) > 0:
			return fmt.Sprintf("%q", v.Content[0].Text)
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
		var e struct{ Delta struct{ Text string } }
		if json.Unmarshal([]byte(data), &e) == nil {
			text += e.Delta.Text
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
