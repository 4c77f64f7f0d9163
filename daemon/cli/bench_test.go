//go:build linux

package cli_test

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The benchmarks compare the built binary, everything on, with a bare httputil.ReverseProxy that reads the body whole,
// before the same upstream and under the same load, slice by slice in turn. The figure that counts is "of-bare": the
// median ratio of the throughputs.
//
//	go test -run '^$' -bench . -benchtime 5x ./daemon/cli

const (
	benchConns  = 16
	benchSlice  = 400 * time.Millisecond
	benchKey    = "bench-request-key-0001"
	bareRole    = "CODING_PROXY_BENCH_BARE" // upstream URL: this process is the bare proxy
	benchEvents = 200
)

// TestBareProxyRole is the bare proxy's process, when the benchmark starts it as one.
func TestBareProxyRole(t *testing.T) {
	to := os.Getenv(bareRole)
	if to == "" {
		return
	}
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("coding-proxy listening on http://%s\n", l.Addr())
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(u); r.Out.Header.Set("X-Api-Key", "sk-upstream") },
		Transport:     &http.Transport{MaxIdleConnsPerHost: 4096, DisableCompression: true, ReadBufferSize: 32 << 10},
		FlushInterval: -1,
		BufferPool:    &barePool{},
	}
	var bodies sync.Pool
	t.Fatal(http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		buf, _ := bodies.Get().(*bytes.Buffer)
		if buf == nil {
			buf = new(bytes.Buffer)
		}
		buf.Reset()
		buf.Grow(int(r.ContentLength) + bytes.MinRead)
		if _, err := buf.ReadFrom(r.Body); err != nil {
			return
		}
		body := &bareBody{r: bytes.NewReader(buf.Bytes()), done: func() { bodies.Put(buf) }}
		r.Body = body
		defer body.Close()
		proxy.ServeHTTP(w, r)
	})))
}

// bareBody gives its buffer back when it is closed; ReverseProxy lets no read through after that.
type bareBody struct {
	mu   sync.Mutex
	r    io.Reader
	done func()
}

func (b *bareBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done == nil {
		return 0, io.ErrClosedPipe
	}
	return b.r.Read(p)
}

func (b *bareBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done != nil {
		b.done()
		b.done = nil
	}
	return nil
}

type barePool struct{ pool sync.Pool }

func (p *barePool) Get() []byte {
	if b, _ := p.pool.Get().(*[]byte); b != nil {
		return *b
	}
	return make([]byte, 32<<10)
}

func (p *barePool) Put(b []byte) { p.pool.Put(&b) }

// benchTarget is a proxy in a process of its own.
type benchTarget struct {
	addr string
	pid  int
}

func startTarget(b *testing.B, env []string, name string, args ...string) benchTarget {
	b.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = io.Discard
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if addr, ok := strings.CutPrefix(lines.Text(), "coding-proxy listening on http://"); ok {
			go io.Copy(io.Discard, out)
			return benchTarget{addr, cmd.Process.Pid}
		}
	}
	b.Fatal("the target does not listen")
	return benchTarget{}
}

// benchUpstream answers at once, or streams events, with a pause between them for slow streams.
type benchUpstream struct {
	pause time.Duration
	open  atomic.Int64
}

var (
	benchAnswer = []byte(`{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"` +
		strings.Repeat("word ", 260) + `"}],"stop_reason":"end_turn","usage":{"input_tokens":10,"output_tokens":300}}`)
	benchStart = []byte("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"usage\":{\"input_tokens\":10,\"output_tokens\":1}}}\n\n" +
		"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n")
	benchDelta = []byte("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\" a few words of text\"}}\n\n")
	benchEnd   = []byte("event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n" +
		"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":300}}\n\n" +
		"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")
)

func (u *benchUpstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if !bytes.HasSuffix(body, []byte(`"stream":true}`)) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(benchAnswer)))
		_, _ = w.Write(benchAnswer)
		return
	}
	u.open.Add(1)
	defer u.open.Add(-1)
	ctl := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(p []byte) {
		_, _ = w.Write(p)
		_ = ctl.Flush()
	}
	send(benchStart)
	for range benchEvents {
		send(benchDelta)
		if u.pause > 0 {
			select {
			case <-time.After(u.pause):
			case <-r.Context().Done():
				return
			}
		}
	}
	send(benchEnd)
}

// benchRequest is a request of about size bytes: text with escapes and quotes, as code has them.
func benchRequest(size int, stream bool) []byte {
	text := strings.Repeat(`if err != nil {\n\treturn fmt.Errorf(\"wrap: %w\", err) // note\n}\n`, size/68)
	body := fmt.Sprintf(`{"model":"claude-sonnet-5-5","max_tokens":1000,"messages":[{"role":"user","content":"%s"}],"metadata":{"user_id":"u_session_1"},"stream":%t}`, text, stream)
	return fmt.Appendf(nil, "POST /v1/messages?beta=true HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nUser-Agent: claude-cli/2.1.332 (external, cli)\r\n"+
		"Anthropic-Version: 2023-06-01\r\nX-Api-Key: %s\r\nContent-Length: %d\r\n\r\n%s", benchKey, len(body), body)
}

// benchRig starts the upstream and both targets.
func benchRig(b *testing.B, u *benchUpstream) (ours, bare benchTarget) {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: u}
	go server.Serve(l)
	b.Cleanup(func() { server.Close() })
	dir := b.TempDir()
	binary := filepath.Join(dir, "coding-proxy")
	if out, err := exec.Command("go", "build", "-o", binary, "coding-proxy").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	config := filepath.Join(dir, "config.json")
	key := func(n int) string {
		return fmt.Sprintf(`{"id":"k%d","provider":"sim","protocol":"anthropic","base_url":"http://%s","api_key":"sk-upstream-%d","daily_limit_tokens":1000000000000}`, n, l.Addr(), n)
	}
	text := fmt.Sprintf(`{"auth":{"request_keys":[{"code":"bench","api_key":%q}]},"pool":{"keys":[%s,%s]}}`, benchKey, key(1), key(2))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	ours = startTarget(b, nil, binary, "serve", "--config", config, "--port", "0", "--data-dir", filepath.Join(dir, "data"))
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	bare = startTarget(b, []string{bareRole + "=http://" + l.Addr().String()}, self, "-test.run", "^TestBareProxyRole$", "-test.timeout", "10m")
	return ours, bare
}

// slice sends requests over benchConns connections for a while, and returns how many were answered a second.
func (t benchTarget) slice(b *testing.B, request []byte) float64 {
	var done, failed atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for range benchConns {
		wg.Go(func() {
			c, err := net.Dial("tcp", t.addr)
			if err != nil {
				failed.Add(1)
				return
			}
			defer c.Close()
			r := bufio.NewReaderSize(c, 16<<10)
			for time.Since(start) < benchSlice {
				if _, err := c.Write(request); err != nil {
					failed.Add(1)
					return
				}
				resp, err := http.ReadResponse(r, nil)
				if err != nil || resp.StatusCode != http.StatusOK {
					failed.Add(1)
					return
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil {
					failed.Add(1)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	if failed.Load() > 0 {
		b.Errorf("%d connections failed", failed.Load())
	}
	return float64(done.Load()) / time.Since(start).Seconds()
}

func compare(b *testing.B, size int, stream bool) {
	ours, bare := benchRig(b, &benchUpstream{})
	request := benchRequest(size, stream)
	ours.slice(b, request) // warm-up
	bare.slice(b, request)
	var rates, ratios []float64
	b.ResetTimer()
	for b.Loop() {
		base := bare.slice(b, request)
		rate := ours.slice(b, request)
		rates, ratios = append(rates, rate), append(ratios, rate/base)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(rates), "req/s")
	b.ReportMetric(median(ratios), "of-bare")
}

func median[T cmp.Ordered](v []T) T {
	slices.Sort(v)
	return v[len(v)/2]
}

func BenchmarkPlain2kB(b *testing.B)   { compare(b, 2_000, false) }
func BenchmarkPlain400kB(b *testing.B) { compare(b, 400_000, false) }
func BenchmarkStream200(b *testing.B)  { compare(b, 2_000, true) }

// BenchmarkSlowStreams500 holds 500 streams open that carried a 400 kB request each, and reports what memory a stream
// takes of each process.
func BenchmarkSlowStreams500(b *testing.B) {
	const streams = 500
	for b.Loop() {
		u := &benchUpstream{pause: 50 * time.Millisecond}
		ours, bare := benchRig(b, u)
		request := benchRequest(400_000, true)
		for _, t := range []struct {
			name string
			benchTarget
		}{{"bare", bare}, {"ours", ours}} {
			warm := benchRequest(2_000, false)
			t.slice(b, warm)
			before := resident(b, t.pid)
			var peak atomic.Int64
			var wg sync.WaitGroup
			ramp := time.NewTicker(time.Second / streams)
			for range streams {
				<-ramp.C
				wg.Go(func() {
					c, err := net.Dial("tcp", t.addr)
					if err != nil {
						b.Error(err)
						return
					}
					defer c.Close()
					if _, err := c.Write(request); err != nil {
						b.Error(err)
						return
					}
					resp, err := http.ReadResponse(bufio.NewReader(c), nil)
					if err != nil {
						b.Error(err)
						return
					}
					n := 0
					lines := bufio.NewScanner(resp.Body)
					for lines.Scan() {
						if n++; n == 3*benchEvents/2 && u.open.Load() == streams {
							peak.Store(max(peak.Load(), resident(b, t.pid)))
						}
					}
				})
			}
			ramp.Stop()
			wg.Wait()
			b.ReportMetric(float64(peak.Load()-before)/streams, t.name+"-KiB/stream")
		}
	}
	b.ReportMetric(0, "ns/op")
}

// resident is a process's memory now, in KiB.
func resident(b *testing.B, pid int) int64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Error(err)
		return 0
	}
	_, rest, _ := strings.Cut(string(data), "VmRSS:")
	fields := strings.Fields(rest)
	n, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		b.Error(err)
	}
	return n
}
