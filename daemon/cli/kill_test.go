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
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	killInside      = "CODING_PROXY_KILL_INSIDE" // set in the process that is the client
	killTimes       = 20
	killTimesShort  = 4
	killInFlight    = 300  // half of them streams
	killHalfway     = 150  // of them, that the provider keeps waiting in the middle of its answer
	killMostEnds    = 1500 // ends that the client sees between two kills, at most
	killTime        = 3 * time.Minute
	killRequestTime = time.Minute
)

// TestKill kills the proxy again and again under load. Every response that the client saw the end of must be in the
// journal once, and the figures after each restart must be exact.
func TestKill(t *testing.T) {
	if os.Getenv(killInside) != "" {
		killClientMain(t)
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), killTime)
	defer cancel()
	times := killTimes
	if testing.Short() {
		times = killTimesShort
	}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))

	provider := &killProvider{hold: killHalfway}
	server := httptest.NewServer(provider)
	t.Cleanup(server.Close)
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	port := reservePort(t)
	args := []string{buildProxy(ctx, t), "serve", "--config", killConfig(t, dir, server.URL), "--data-dir", data, "--port", port}
	books := newKillBooks(data)
	client := startKillClient(ctx, t, "http://127.0.0.1:"+port, filepath.Join(dir, "client.jsonl"))

	for life := 1; life <= times+1; life++ {
		p := startProxy(ctx, t, args...)
		books.read(t)
		books.compareAPI(ctx, t, p.url)
		if t.Failed() {
			t.Fatalf("the figures are wrong after %d kills (seed %d)", life-1, seed)
		}
		client.begin(t, life)
		client.wait(t, life, 1+random.IntN(killMostEnds))
		if life <= times {
			provider.release(killHalfway)
			client.wait(t, life, random.IntN(killHalfway/2))
			p.kill()
			client.gone(t, life)
			continue
		}
		p.signal(t)
		provider.release(0)
		p.wait(t)
	}
	client.end(t)

	books.read(t)
	books.compareUsageFile(t)
	ends := client.ends(t)
	killCompare(t, ends, books)
	killSummary(t, ends, books, times)
	p := startProxy(ctx, t, args...)
	books.compareAPI(ctx, t, p.url)
	p.terminate(t)
	books.compareUsageFile(t)
	if t.Failed() {
		t.Logf("seed %d", seed)
	}
}

// killCompare looks for what the client saw in what the journal says.
func killCompare(t *testing.T, ends []killEnd, books *killBooks) {
	t.Helper()
	for _, e := range ends {
		if !e.good() {
			continue
		}
		q := e.Question
		want := killLine{
			Trace: e.Trace, Caller: q.caller(), Model: q.model(), Stream: q.stream(), Status: http.StatusOK, Outcome: "ok",
			killJournalTokens: killJournalTokens(e.Tokens),
		}
		line, ok := books.lines[e.Trace]
		line.Key, line.Attempts, line.DurationMS = "", nil, 0 // the client does not know them
		switch {
		case e.Tokens != q.tokens():
			t.Errorf("question %d: the client read %+v, the provider said %+v", q, e.Tokens, q.tokens())
		case !ok:
			t.Errorf("question %d (stream %t, shape %d): the client saw the end of trace %s in life %d, the journal has no line of it",
				q, q.stream(), q.shape(), e.Trace, e.Life)
		case fmt.Sprint(line) != fmt.Sprint(want):
			t.Errorf("question %d: the journal has\n%+v, want\n%+v", q, line, want)
		}
	}
}

// killSummary checks that the test did what it says: each kill cut answers, each shape came to its end, and the graceful
// stop cut nothing.
func killSummary(t *testing.T, ends []killEnd, books *killBooks, times int) {
	t.Helper()
	whole, cut, refused := make([]int, 1+killShapes), make([]int, times+1), 0
	for _, e := range ends {
		switch {
		case e.good() && e.Question.stream():
			whole[1+e.Question.shape()]++
		case e.good():
			whole[0]++
		case e.Status == 0: // it came to nobody, or nothing of the answer came
		case e.Status == http.StatusOK:
			cut[e.Life-1]++
		case e.Status == http.StatusServiceUnavailable && e.Life > times: // it was stopping
			refused++
		default:
			t.Errorf("status %d: %+v", e.Status, e)
		}
	}
	if slices.Contains(whole, 0) || slices.Contains(cut[:times], 0) || cut[times] > 0 {
		t.Errorf("plain answers and streams by shape that came to their end: %v; answers that were cut, by life of the proxy: %v", whole, cut)
	}
	t.Logf("%d kills; ends seen: %d plain, streams by shape %v; refused while stopping: %d; journal lines: %d, torn: %d; answers that were cut, by life of the proxy: %v",
		times, whole[0], whole[1:], refused, len(books.lines), books.torn, cut)
}

// A process of the proxy.

// proxyProcess is a running coding-proxy.
type proxyProcess struct {
	url     string
	command *exec.Cmd
	stderr  bytes.Buffer  // to be read after exited
	err     error         // how it ended, likewise
	exited  chan struct{} // closed
}

// buildProxy builds the binary.
func buildProxy(ctx context.Context, t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "coding-proxy")
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "coding-proxy")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, output)
	}
	return binary
}

// startProxy starts the command and waits until it listens. It is killed when ctx or the test ends.
func startProxy(ctx context.Context, t *testing.T, command ...string) *proxyProcess {
	t.Helper()
	p := &proxyProcess{command: exec.CommandContext(ctx, command[0], command[1:]...), exited: make(chan struct{})}
	p.command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.command.Stderr = &p.stderr
	stdout, err := p.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	listening := make(chan string, 1)
	go func() {
		defer close(p.exited)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			if url, ok := strings.CutPrefix(lines.Text(), "coding-proxy listening on "); ok {
				listening <- url
			}
		}
		p.err = p.command.Wait()
	}()
	t.Cleanup(p.kill)
	select {
	case p.url = <-listening:
	case <-p.exited:
		t.Fatalf("the proxy ended at start: %v\n%s", p.err, &p.stderr)
	}
	return p
}

// kill ends the process as a crash does.
func (p *proxyProcess) kill() {
	_ = p.command.Process.Kill() // it may have ended
	<-p.exited
}

// terminate ends the process as a service manager does.
func (p *proxyProcess) terminate(t *testing.T) {
	t.Helper()
	p.signal(t)
	p.wait(t)
}

// signal asks the process to end.
func (p *proxyProcess) signal(t *testing.T) {
	t.Helper()
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}

// wait returns when the process has ended. Only a good end will do.
func (p *proxyProcess) wait(t *testing.T) {
	t.Helper()
	<-p.exited
	if p.err != nil {
		t.Errorf("the proxy ended with %v\n%s", p.err, &p.stderr)
	}
}

// reservePort takes a free port for the time of the test. It is bound, not listened on: the proxy may bind it too, but
// while none runs the kernel gives it to no connection.
func reservePort(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	err = errors.Join(
		syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1),
		syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	if err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(name.(*syscall.SockaddrInet4).Port)
}

func killConfig(t *testing.T, dir, providerURL string) string {
	t.Helper()
	text := fmt.Sprintf(`{
  "auth": {"request_keys": [
    {"code": "caller-0", "api_key": "request-key-caller-0"},
    {"code": "caller-1", "api_key": "request-key-caller-1"}
  ]},
  "pool": {
    "strategy": "round-robin",
    "keys": [
      {"id": "key-0", "provider": "sim", "protocol": "anthropic", "base_url": %[1]q, "api_key": "upstream-key-0"},
      {"id": "key-1", "provider": "sim", "protocol": "anthropic", "base_url": %[1]q, "api_key": "upstream-key-1"}
    ]
  }
}`, providerURL)
	path := filepath.Join(dir, "config.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The questions and the provider that answers them.

// killQuestion is the number of a request. All else follows from it, so that client, provider and test agree. Worker w
// of the client asks w, w+killInFlight, w+2*killInFlight…
type killQuestion int

// killTokens are a response's figures as Anthropic writes them.
type killTokens struct {
	Input         int64 `json:"input_tokens"`
	Output        int64 `json:"output_tokens"`
	CacheCreation int64 `json:"cache_creation_input_tokens"`
	CacheRead     int64 `json:"cache_read_input_tokens"`
}

func (q killQuestion) worker() int    { return int(q) % killInFlight }
func (q killQuestion) round() int     { return int(q) / killInFlight }
func (q killQuestion) stream() bool   { return q.worker()%2 == 1 }
func (q killQuestion) shape() int     { return q.worker() / 2 % killShapes } // of a stream
func (q killQuestion) model() string  { return "kill-model-" + strconv.Itoa(int(q)%3) }
func (q killQuestion) caller() string { return "caller-" + strconv.Itoa(q.round()%2) }

func (q killQuestion) tokens() killTokens {
	n := int64(q)
	return killTokens{Input: n + 1, Output: n%997 + 2, CacheCreation: n % 7, CacheRead: n % 1009}
}

// The shapes of streams.
const (
	shapeEvents   = iota // each event in a write of its own
	shapeTogether        // all events in one write, lines ended by CRLF
	shapeCut             // events cut at odd bytes, lines ended by LF or CRLF
	shapeLong            // comments and pings in between, and an event that is too long to hold
	killShapes
)

const killLong = 100 << 10 // bytes of the text of a long event; the proxy holds 64 KiB

// killProvider answers. It holds each answer, in its middle or before its last piece, until some more have come there:
// at any moment many are half sent, and when they are released many end at once.
type killProvider struct {
	mu      sync.Mutex
	hold    int             // how many wait
	waiting []chan struct{} // the oldest first; of some the request is over
}

func (p *killProvider) wait(ctx context.Context) {
	turn := make(chan struct{})
	p.mu.Lock()
	p.waiting = append(p.waiting, turn)
	if len(p.waiting) > p.hold {
		close(p.waiting[0])
		p.waiting = p.waiting[1:]
	}
	p.mu.Unlock()
	select {
	case <-turn:
	case <-ctx.Done():
	}
}

// release lets all that wait go on, and says how many of the next ones wait.
func (p *killProvider) release(hold int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, turn := range p.waiting {
		close(turn)
	}
	p.hold, p.waiting = hold, nil
}

func (p *killProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Model    string
		Stream   bool
		Messages []struct{ Content string }
	}
	err := json.NewDecoder(r.Body).Decode(&body)
	if err != nil || len(body.Messages) != 1 {
		http.Error(w, "no question", http.StatusBadRequest)
		return
	}
	n, err := strconv.Atoi(body.Messages[0].Content)
	q := killQuestion(n)
	if err != nil || body.Stream != q.stream() || body.Model != q.model() {
		http.Error(w, "another question", http.StatusBadRequest)
		return
	}
	var writes [][]byte
	if q.stream() {
		w.Header().Set("Content-Type", "text/event-stream")
		writes = q.writes()
	} else {
		w.Header().Set("Content-Type", "application/json")
		body := q.plain()
		if q.round()%2 == 0 {
			w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		}
		writes = slices.Collect(slices.Chunk(body, len(body)/2+1))
	}
	stop := len(writes) / 2
	if q.round()%2 == 1 {
		stop = len(writes) - 1
	}
	flush := http.NewResponseController(w).Flush
	for i, b := range writes {
		if i == stop {
			p.wait(r.Context())
		}
		if _, err := w.Write(b); err != nil || flush() != nil {
			return // the proxy was killed
		}
	}
}

// plain is a whole answer, of a few hundred bytes or several reads.
func (q killQuestion) plain() []byte {
	usage, _ := json.Marshal(q.tokens())
	return fmt.Appendf(nil, `{"id":"msg_%d","type":"message","role":"assistant","model":%q,"content":[{"type":"text","text":%q}],"stop_reason":"end_turn","stop_sequence":null,"usage":%s}`,
		q, q.model(), strings.Repeat("Four is a number. ", 1+q.round()%4*500), usage)
}

// writes are the answer as a stream, cut as it is written.
func (q killQuestion) writes() [][]byte {
	newline := "\n"
	if q.shape() == shapeTogether || q.shape() == shapeCut && q.round()%2 == 1 {
		newline = "\r\n"
	}
	var events [][]byte
	add := func(format string, args ...any) {
		events = append(events, []byte(strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", newline)))
		if q.shape() == shapeLong {
			events = append(events, []byte(": a comment\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\n"))
		}
	}
	usage, _ := json.Marshal(q.tokens())
	first := q.tokens()
	first.Output = 1
	firstUsage, _ := json.Marshal(first)
	add("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_%d\",\"type\":\"message\",\"role\":\"assistant\",\"model\":%q,\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":%s}}\n\n", q, q.model(), firstUsage)
	add("event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n")
	for i := range 1 + q.round()%8 {
		text := "Four is a number. "
		if q.shape() == shapeLong && i == 0 {
			text = strings.Repeat("x", killLong)
		}
		add("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":%q}}\n\n", text)
	}
	add("event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n")
	if q.round()%3 == 0 { // the API repeats the input, others do not
		usage = fmt.Appendf(nil, `{"output_tokens":%d}`, q.tokens().Output)
	}
	add("event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":null},\"usage\":%s}\n\n", usage)
	add("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")
	switch all := slices.Concat(events...); q.shape() {
	case shapeTogether:
		return [][]byte{all}
	case shapeCut:
		return slices.Collect(slices.Chunk(all, 7+2*(q.round()%20)))
	}
	return events
}

// The client, in a process of its own.

// killEnd is a line of the client's log: how a response ended.
type killEnd struct {
	Question killQuestion
	Life     int // of the proxy, when the request was sent
	Trace    string
	Status   int    // 0: no answer came
	Fault    string // why the client did not see the end
	Tokens   killTokens
}

// good reports whether the client saw the end of an answer.
func (e *killEnd) good() bool { return e.Status == http.StatusOK && e.Fault == "" }

// killClientMain is the client's process: killInFlight requests at any time to the address that is its first
// argument. It learns from its standard input that the proxy was started, a line each time, and ends with it.
func killClientMain(t *testing.T) {
	log, err := os.OpenFile(flag.Arg(1), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	c := &killWorkers{
		url: flag.Arg(0), log: log, progress: os.NewFile(3, "progress"),
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: killInFlight}},
		gate: killGate{changed: make(chan struct{})},
	}
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			c.gate.change(false)
		}
		c.gate.change(true)
	}()
	var workers sync.WaitGroup
	for w := range killInFlight {
		workers.Go(func() { c.work(t, killQuestion(w)) })
	}
	workers.Wait()
}

// killGate keeps the workers waiting while the proxy is dead.
type killGate struct {
	mu      sync.Mutex
	life    int // of the proxy, from 1
	over    bool
	changed chan struct{} // closed, and replaced
}

func (g *killGate) change(over bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over = over; !over {
		g.life++
	}
	close(g.changed)
	g.changed = make(chan struct{})
}

// after returns the proxy's life when it is a later one than dead; not ok means that all is over.
func (g *killGate) after(dead int) (life int, ok bool) {
	for {
		g.mu.Lock()
		life, over, changed := g.life, g.over, g.changed
		g.mu.Unlock()
		if over || life > dead {
			return life, !over
		}
		<-changed
	}
}

// killWorkers ask.
type killWorkers struct {
	url           string
	http          *http.Client
	log, progress *os.File
	gate          killGate
}

func (c *killWorkers) work(t *testing.T, q killQuestion) {
	dead := 0
	in := bufio.NewReaderSize(nil, 2*killLong)
	for ; ; q += killInFlight {
		life, ok := c.gate.after(dead)
		if !ok {
			return
		}
		e := killEnd{Question: q, Life: life}
		if err := c.ask(t.Context(), &e, in); err != nil {
			t.Error(err)
			return
		}
		if !e.good() {
			dead = life
		}
	}
}

// ask sends one request and writes down how it ended, as soon as it has.
func (c *killWorkers) ask(ctx context.Context, e *killEnd, in *bufio.Reader) error {
	ctx, cancel := context.WithTimeout(ctx, killRequestTime)
	defer cancel()
	body := fmt.Sprintf(`{"model":%q,"max_tokens":1000,"stream":%t,"messages":[{"role":"user","content":"%d"}]}`, e.Question.model(), e.Question.stream(), e.Question)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/v1/messages", strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("X-Api-Key", "request-key-"+e.Question.caller())
	request.Header.Set("Anthropic-Version", "2023-06-01")
	response, err := c.http.Do(request)
	if err != nil {
		e.Fault = err.Error()
		return c.write(e)
	}
	defer response.Body.Close()
	e.Trace, e.Status = response.Header.Get("X-Proxy-Trace"), response.StatusCode
	in.Reset(response.Body)
	if e.Status == http.StatusOK && e.Question.stream() {
		err = e.Tokens.readStream(in)
	} else {
		err = e.Tokens.readPlain(in)
	}
	if err != nil {
		e.Fault = err.Error()
	}
	if err := c.write(e); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, in) // what comes behind the last event, so that the connection can be used again
	return nil
}

func (c *killWorkers) write(e *killEnd) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if _, err := c.log.Write(append(line, '\n')); err != nil {
		return err
	}
	mark := byte(e.Life)
	if !e.good() {
		mark |= killBad
	}
	_, err = c.progress.Write([]byte{mark})
	return err
}

// readPlain reads to the end of the body.
func (k *killTokens) readPlain(in io.Reader) error {
	body, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, &struct{ Usage *killTokens }{k})
}

// readStream reads up to message_stop: its data line is enough, as it is for an impatient client.
func (k *killTokens) readStream(in *bufio.Reader) error {
	for {
		line, err := in.ReadSlice('\n')
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		if !ok || bytes.HasPrefix(data, []byte(`{"type":"content_block_delta"`)) {
			continue
		}
		var event struct {
			Type    string
			Message struct{ Usage *killTokens }
			Usage   *killTokens
		}
		event.Message.Usage, event.Usage = k, k // what a later event does not say stays
		if err := json.Unmarshal(data, &event); err != nil {
			return err
		}
		switch event.Type {
		case "message_stop":
			return nil
		case "error":
			return errors.New("an error event")
		}
	}
}

// killClient is the client's process as the test sees it.
type killClient struct {
	command  *exec.Cmd
	log      string
	gate     io.WriteCloser
	progress *bufio.Reader // a byte for each line of the log: the proxy's life, marked if the answer is not a good one
	output   bytes.Buffer
}

func startKillClient(ctx context.Context, t *testing.T, url, log string) *killClient {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { read.Close() })
	c := &killClient{log: log, progress: bufio.NewReader(read)}
	c.command = exec.CommandContext(ctx, self, "-test.run=^TestKill$", "-test.timeout="+killTime.String(), url, log)
	c.command.Env = append(os.Environ(), killInside+"=1")
	c.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c.command.ExtraFiles = []*os.File{write}
	c.command.Stdout, c.command.Stderr = &c.output, &c.output
	if c.gate, err = c.command.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := c.command.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	return c
}

// begin tells the client that the proxy is there.
func (c *killClient) begin(t *testing.T, life int) {
	t.Helper()
	if _, err := fmt.Fprintln(c.gate, life); err != nil {
		t.Fatal(err)
	}
}

// killBad marks the life in the progress for an answer that is not a good one.
const killBad = 0x80

// wait returns when the client has seen n more ends of requests that it sent to this life of the proxy. None of them
// may fail before the kill.
func (c *killClient) wait(t *testing.T, life, n int) {
	t.Helper()
	for n > 0 {
		switch c.next(t) {
		case life:
			n--
		case life | killBad:
			ends := c.ends(t)
			i := slices.IndexFunc(ends, func(e killEnd) bool { return e.Life == life && !e.good() })
			t.Fatalf("a request failed while the proxy was alive: %+v", ends[i])
		}
	}
}

// gone returns when every worker has seen a request fail and asks no more: whatever the next life has in its figures
// before begin is the journal's.
func (c *killClient) gone(t *testing.T, life int) {
	t.Helper()
	for n := killInFlight; n > 0; {
		if c.next(t) == life|killBad {
			n--
		}
	}
}

// next is the next byte of the progress.
func (c *killClient) next(t *testing.T) int {
	t.Helper()
	b, err := c.progress.ReadByte()
	if err != nil {
		t.Fatalf("the client ended (%v): %v\n%s", err, c.command.Wait(), &c.output)
	}
	return int(b)
}

// end lets the client come to its end.
func (c *killClient) end(t *testing.T) {
	t.Helper()
	c.gate.Close()
	_, _ = io.Copy(io.Discard, c.progress) // up to its end
	if err := c.command.Wait(); err != nil {
		t.Errorf("the client: %v\n%s", err, &c.output)
	}
}

func (c *killClient) ends(t *testing.T) []killEnd {
	t.Helper()
	text, err := os.ReadFile(c.log)
	if err != nil {
		t.Fatal(err)
	}
	var ends []killEnd
	for line := range bytes.Lines(text) {
		var e killEnd
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("the client's log: %v: %s", err, line)
		}
		ends = append(ends, e)
	}
	return ends
}
