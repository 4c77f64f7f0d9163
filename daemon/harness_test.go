package daemon

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"coding-proxy/daemon/config"
	"coding-proxy/proxy/demo"
	"coding-proxy/stats"
)

// patience bounds every wait: it ends only where something hangs.
const patience = time.Minute

const (
	sonnet  = "claude-sonnet-5-5"
	opus    = "claude-opus-5-5"
	version = "anthropic-version: 2023-06-01"

	// What must never show. Each test looks for them in the log and in the files of its daemon.
	requestKey = "request-key-of-laptop"
	prompt     = "zebra"
	answerText = "walrus"

	// The keys of the pool. Their ids must not show to clients either.
	k1, k2, k3, k4 = "pool-key-1", "pool-key-2", "pool-key-3", "pool-key-4"
)

// credential is what a key of the pool sends.
func credential(id string) string { return "credential-of-" + id }

// poolKey is an entry of pool.keys; more are further members.
func poolKey(id, url string, more ...string) string {
	return fmt.Sprintf(`{"id":%q,"protocol":"anthropic","base_url":%q,"api_key":%q%s}`, id, url, credential(id), rest(more))
}

// passthroughKey sends the client's own credential.
func passthroughKey(id, url string) string {
	return fmt.Sprintf(`{"id":%q,"protocol":"anthropic","base_url":%q,"credential":"passthrough"}`, id, url)
}

func rest(members []string) string {
	var b strings.Builder
	for _, m := range members {
		b.WriteString("," + m)
	}
	return b.String()
}

// poolOf is the pool member: the first free key in order, and no waiting.
func poolOf(keys ...string) string {
	return `"pool":{"strategy":"fill-first","max_wait_seconds":0,"keys":[` + strings.Join(keys, ",") + `]}`
}

// oneCaller is an auth member with requestKey; more are further members of its entry.
func oneCaller(more ...string) string {
	return fmt.Sprintf(`"auth":{"request_keys":[{"code":"laptop","api_key":%q%s}]}`, requestKey, rest(more))
}

// question is a body for /v1/messages; more are further members.
func question(model string, more ...string) string {
	return fmt.Sprintf(`{"model":%q,"max_tokens":64,"messages":[{"role":"user","content":%q}]%s}`, model, prompt, rest(more))
}

const streamed = `"stream":true`

// logBuffer is a log that may be read while it is written.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// instance is a proxy under test and a client of it.
type instance struct {
	*Daemon
	t         *testing.T
	url       string
	dir       string // data directory
	upstreams []string
	log       *logBuffer
	transport *http.Transport
	finish    context.CancelFunc // what the first signal does
	kill      context.CancelFunc // what the second one does
	served    chan error
}

// start runs a daemon with a configuration of these members until the test ends.
func start(t *testing.T, members ...string) *instance {
	t.Helper()
	return startIn(t, filepath.Join(t.TempDir(), "data"), members...)
}

func startIn(t *testing.T, dir string, members ...string) *instance {
	t.Helper()
	i := prepare(t, dir, members...)
	i.serve()
	return i
}

// load reads a configuration file of these members.
func load(t *testing.T, dir string, members ...string) (*config.Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.json")
	text := fmt.Sprintf(`{"server":{"port":0,"data_dir":%q}%s}`, dir, rest(members))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	environment := func(name string) (string, bool) {
		value, ok := map[string]string{"USER": "nobody"}[name]
		return value, ok
	}
	return config.Load(config.Source{Path: path, Getenv: environment, ReadFile: os.ReadFile, Stat: os.Stat})
}

// prepare makes a daemon that does not serve yet.
func prepare(t *testing.T, dir string, members ...string) *instance {
	t.Helper()
	cfg, err := load(t, dir, members...)
	if err != nil {
		t.Fatal(err)
	}
	i := newInstance(t, cfg)
	if i.Daemon, err = New(cfg, NewLogger(cfg, i.log)); err != nil {
		t.Fatal(err)
	}
	i.url = "http://" + i.Addr()
	return i
}

// in is the same instance for a subtest.
func (i *instance) in(t *testing.T) *instance {
	c := *i
	c.t = t
	return &c
}

func newInstance(t *testing.T, cfg *config.Config) *instance {
	cfg.Log.Level = slog.LevelDebug
	i := &instance{
		t: t, dir: cfg.Server.DataDir, log: new(logBuffer), served: make(chan error, 1),
		transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64},
	}
	for _, o := range cfg.Upstreams {
		for _, e := range o.Endpoints {
			if e.BaseURL != nil {
				i.upstreams = append(i.upstreams, e.BaseURL.Host)
			}
		}
	}
	return i
}

// admit changes whom the instance serves.
func (i *instance) admit(change func(*liveState)) {
	s := *i.server.live.Load()
	change(&s)
	i.server.live.Store(&s)
}

func (i *instance) serve() {
	first, finish := context.WithCancel(context.Background())
	second, kill := context.WithCancel(context.Background())
	i.finish, i.kill = finish, kill
	go func() { i.served <- i.Serve(first, second) }()
	i.t.Cleanup(func() {
		kill()
		finish()
		i.transport.CloseIdleConnections()
		i.wait()
		i.checkSilence()
	})
}

// stop ends the daemon as one signal does and waits for it.
func (i *instance) stop() {
	i.t.Helper()
	i.transport.CloseIdleConnections()
	i.finish()
	i.wait()
}

func (i *instance) wait() {
	i.t.Helper()
	select {
	case err := <-i.served:
		if err != nil {
			i.t.Errorf("Serve: %v", err)
		}
		i.served <- nil
	case <-time.After(patience):
		i.t.Error("Serve does not end")
	}
}

// checkSilence looks for key material and conversations where neither may be.
func (i *instance) checkSilence() {
	i.t.Helper()
	look := func(where, text string) {
		for _, word := range []string{"credential-of-", "request-key-of-", prompt, answerText} {
			if strings.Contains(text, word) {
				i.t.Errorf("%s shows %q", where, word)
			}
		}
	}
	look("the log", i.log.String())
	err := filepath.WalkDir(i.dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		look(filepath.Base(path), string(data))
		return err
	})
	if err != nil {
		i.t.Error(err)
	}
}

// clock is one that a test moves, forwards only: deadlines of real connections are set by it.
type clock struct {
	mu   sync.Mutex
	time time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.time
}

func (c *clock) set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.time = t
}

// startAt is start with another clock. change may edit the configuration.
func startAt(t *testing.T, c *clock, change func(*config.Config), members ...string) *instance {
	t.Helper()
	return startInAt(t, filepath.Join(t.TempDir(), "data"), c, change, members...)
}

// startInAt is startAt in a data directory.
func startInAt(t *testing.T, dir string, c *clock, change func(*config.Config), members ...string) *instance {
	t.Helper()
	cfg, err := load(t, dir, members...)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(cfg)
	}
	i := newInstance(t, cfg)
	if i.Daemon, err = newDaemon(cfg, NewLogger(cfg, i.log), c.now); err != nil {
		t.Fatal(err)
	}
	i.url = "http://" + i.Addr()
	i.serve()
	return i
}

// reply is a whole answer.
type reply struct {
	status  int
	header  http.Header
	body    string
	trailer http.Header
	err     error // why the body is not whole
}

func (r *reply) trace() string { return r.header.Get("X-Proxy-Trace") }

// request makes a request with headers written as "name: value". An instance adds nothing to them.
func (i *instance) request(ctx context.Context, method, path string, body io.Reader, header []string) *http.Request {
	i.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, i.url+path, body)
	if err != nil {
		i.t.Fatal(err)
	}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		switch name {
		case "":
		case "Host":
			r.Host = value
		default:
			r.Header.Add(name, value)
		}
	}
	return r
}

// ask sends a request and reads the whole answer.
func (i *instance) ask(method, path, body string, header ...string) *reply {
	i.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	resp, err := i.transport.RoundTrip(i.request(ctx, method, path, in, header))
	if err != nil {
		i.t.Fatalf("%s %s: %v", method, path, err)
	}
	return readReply(resp)
}

func readReply(resp *http.Response) *reply {
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return &reply{resp.StatusCode, resp.Header, string(body), resp.Trailer, err}
}

// message sends body to /v1/messages.
func (i *instance) message(body string, header ...string) *reply {
	i.t.Helper()
	return i.ask("POST", "/v1/messages", body, append([]string{version}, header...)...)
}

// good sends a message that must succeed.
func (i *instance) good(body string, header ...string) *reply {
	i.t.Helper()
	r := i.message(body, header...)
	if r.status != http.StatusOK || r.err != nil {
		i.t.Fatalf("status %d, error %v: %s", r.status, r.err, r.body)
	}
	return r
}

// live is an answer that is being read.
type live struct {
	t      *testing.T
	status int
	header http.Header
	in     *bufio.Reader
	leave  context.CancelFunc // the client goes away
}

// open sends a message and returns when the head of the answer has come.
func (i *instance) open(body string, header ...string) *live {
	i.t.Helper()
	ctx, leave := context.WithTimeout(context.Background(), patience)
	i.t.Cleanup(leave)
	resp, err := i.transport.RoundTrip(i.request(ctx, "POST", "/v1/messages", strings.NewReader(body), append([]string{version}, header...)))
	if err != nil {
		i.t.Fatal(err)
	}
	i.t.Cleanup(func() { resp.Body.Close() })
	return &live{i.t, resp.StatusCode, resp.Header, bufio.NewReader(resp.Body), leave}
}

// expect reads exactly this text next.
func (l *live) expect(text string) {
	l.t.Helper()
	got := make([]byte, len(text))
	n, err := io.ReadFull(l.in, got)
	if err != nil || string(got) != text {
		l.t.Fatalf("read %q (%v), want %q", got[:n], err, text)
	}
}

// all reads to the end.
func (l *live) all() (string, error) {
	b, err := io.ReadAll(l.in)
	return string(b), err
}

// background sends a message and hands over its answer later.
func (i *instance) background(ctx context.Context, body string, header ...string) <-chan *reply {
	i.t.Helper()
	r := i.request(ctx, "POST", "/v1/messages", strings.NewReader(body), append([]string{version}, header...))
	out := make(chan *reply, 1)
	go func() {
		resp, err := i.transport.RoundTrip(r)
		if err != nil {
			out <- &reply{err: err}
			return
		}
		out <- readReply(resp)
	}()
	return out
}

// raw opens a connection and writes text, line ends as they are.
func (i *instance) raw(text string) (net.Conn, *bufio.Reader) {
	i.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(i.url, "http://"))
	if err != nil {
		i.t.Fatal(err)
	}
	i.t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(conn, text); err != nil {
		i.t.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

// rawReply reads an answer from a connection.
func rawReply(t *testing.T, in *bufio.Reader) *reply {
	t.Helper()
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	return readReply(resp)
}

// isRefusal checks an error that the proxy made for a client of Anthropic's dialect.
func (i *instance) isRefusal(r *reply, status int, kind string) {
	i.t.Helper()
	i.refuses(claude, r, status, kind)
}

// tellsNothing checks that an answer names no key, key id or upstream.
func (i *instance) tellsNothing(r *reply) {
	i.t.Helper()
	text := fmt.Sprint(r.header, r.body)
	for _, word := range append([]string{"credential-of-", "request-key-of-", "pool-key-"}, i.upstreams...) {
		if strings.Contains(text, word) {
			i.t.Errorf("the answer shows %q: %s", word, text)
		}
	}
}

// records returns the journal's lines of a request.
func (i *instance) records(trace string) []stats.Record {
	i.t.Helper()
	files, err := filepath.Glob(filepath.Join(i.dir, "journal", "*.jsonl"))
	if err != nil {
		i.t.Fatal(err)
	}
	var found []stats.Record
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			i.t.Fatal(err)
		}
		for line := range bytes.Lines(data) {
			if !bytes.HasSuffix(line, []byte("\n")) {
				break // it is being written
			}
			var r stats.Record
			if err := json.Unmarshal(line, &r); err != nil {
				i.t.Fatalf("journal: %v: %s", err, line)
			}
			if r.Trace == trace || trace == "" {
				found = append(found, r)
			}
		}
	}
	return found
}

// record returns the journal's one line of a request.
func (i *instance) record(trace string) stats.Record {
	i.t.Helper()
	found := i.records(trace)
	if trace == "" || len(found) != 1 {
		i.t.Fatalf("%d journal lines of %q", len(found), trace)
	}
	return found[0]
}

// keyState is what /api/pool/stats says of a key.
type keyState struct {
	ID       string
	State    string
	Reason   string
	Until    time.Time
	Streak   int
	InFlight int `json:"in_flight"`
	Sessions int
	Today    struct{ Used int64 }
	Models   []struct {
		Model, Reason string
		Until         time.Time
	}
}

// keys returns what the pool's page has, by key id.
func (i *instance) keys() map[string]keyState {
	i.t.Helper()
	r := i.ask("GET", "/api/pool/stats", "")
	var page struct {
		Tiers []struct{ Keys []keyState }
	}
	if err := json.Unmarshal([]byte(r.body), &page); err != nil || r.status != http.StatusOK {
		i.t.Fatalf("/api/pool/stats: %d, %v", r.status, err)
	}
	states := make(map[string]keyState)
	for _, t := range page.Tiers {
		for _, k := range t.Keys {
			states[k.ID] = k
		}
	}
	return states
}

// untouched checks that keys are ready, without cooldowns and streaks.
func (i *instance) untouched(ids ...string) {
	i.t.Helper()
	states := i.keys()
	for _, id := range ids {
		if k := states[id]; k.State != "ready" || k.Streak != 0 || len(k.Models) != 0 {
			i.t.Errorf("key %s has been touched: %+v", id, k)
		}
	}
}

// await waits until done is true. It is for what no channel tells.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(patience); !done(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("waited for %s", what)
		}
	}
}

// provider runs a simulated provider that takes only the credentials of the keys, if any are named.
func provider(t *testing.T, steps ...demo.Step) (*demo.Provider, string) {
	t.Helper()
	p := demo.New(demo.Options{})
	p.Always(demo.Step{Text: answerText})
	p.Push(steps...)
	return p, listen(t, p)
}

func listen(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}
