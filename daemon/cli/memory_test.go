//go:build linux

package cli_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	memoryStreams = 100
	memoryShort   = 1 << 20   // bytes of a response…
	memoryRounds  = 10        // …of which each stream brings some, one after another
	memoryLong    = 100 << 20 // bytes of the other, of which each stream brings one
	memoryTime    = 8 * time.Minute
)

// TestMemory compares the peak memory of the proxy with short and with long responses, 100 in flight at any time: the
// long ones must not need 10 % more. Several short ones come first to every stream, so that both have come to use all
// the buffers that they ever need.
//
// The collector lets a heap double before it looks, which hides small leaks and shows as growth what is only garbage.
// So the comparison is made with a collector that looks at 10 % more, too; there the peak is what is held.
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("30 GB through the proxy: not with -short")
	}
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("30 GB through a client and a provider that are five times slower: not with -race, which the binary has not")
	}
	ctx, cancel := context.WithTimeout(t.Context(), memoryTime)
	defer cancel()
	binary := buildProxy(ctx, t)
	for _, c := range []struct {
		name    string
		stream  bool
		percent string // the collector's GOGC
	}{
		{"streams", true, "10"},
		{"plain", false, "10"},
		{"streams, collector as it is", true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := memoryRun{binary: binary, percent: c.percent, stream: c.stream}
			short := run.peak(ctx, t, memoryShort, memoryRounds)
			long := run.peak(ctx, t, memoryLong, 1)
			more := 100 * (float64(long)/float64(short) - 1)
			t.Logf("peak with responses of 1 MiB: %d KiB, of 100 MiB: %d KiB: %+.1f %%", short, long, more)
			if more >= 10 {
				t.Errorf("long responses need %.1f %% more memory", more)
			}
		})
	}
}

// memoryRun is how the proxy is run.
type memoryRun struct {
	binary, percent string
	stream          bool
}

// peak returns the peak memory in KiB of a fresh proxy that serves answers of that size to memoryStreams clients at
// once, some rounds of them.
func (run memoryRun) peak(ctx context.Context, t *testing.T, size, rounds int) int64 {
	t.Helper()
	var provider memoryProvider
	server := httptest.NewServer(&provider)
	defer server.Close()
	dir := t.TempDir()
	command := []string{run.binary, "serve", "--config", killConfig(t, dir, server.URL), "--data-dir", filepath.Join(dir, "data"), "--port", "0"}
	if run.percent != "" {
		command = append([]string{"env", "GOGC=" + run.percent}, command...)
	}
	p := startProxy(ctx, t, command...)
	transport := &http.Transport{ReadBufferSize: 64 << 10, MaxIdleConnsPerHost: memoryStreams}
	defer transport.CloseIdleConnections()
	running, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	start := time.Now()
	for round := range rounds {
		a := newMemoryAnswer(run.stream, size)
		provider.answer.Store(a)
		var clients sync.WaitGroup
		for range memoryStreams {
			clients.Go(func() {
				if err := a.take(running, &http.Client{Transport: transport}, p.url); err != nil {
					fail(err) // the others would wait for it
				}
			})
		}
		clients.Wait()
		if err := context.Cause(running); err != nil {
			t.Fatalf("round %d: %v", round+1, err)
		}
		if round == 0 || round == rounds-1 {
			t.Logf("%d times %d bytes, stream %t, GOGC %q, round %d ended after %.1f s: VmHWM %d KiB", memoryStreams, size, run.stream, run.percent,
				round+1, time.Since(start).Seconds(), memoryStatus(t, p.command.Process.Pid, "VmHWM"))
		}
	}
	peak := memoryStatus(t, p.command.Process.Pid, "VmHWM")
	p.terminate(t)
	return peak
}

// memoryStatus reads a field of /proc/PID/status in KiB.
func memoryStatus(t *testing.T, pid int, name string) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			n, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no %s in\n%s", name, text)
	return 0
}

// barrier holds all until the last one has come.
type barrier struct {
	missing atomic.Int64
	open    chan struct{}
}

func newBarrier(n int64) *barrier {
	b := &barrier{open: make(chan struct{})}
	b.missing.Store(n)
	return b
}

func (b *barrier) wait(ctx context.Context) error {
	if b.missing.Add(-1) == 0 {
		close(b.open)
	}
	select {
	case <-b.open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// memoryProvider gives the present answer to all.
type memoryProvider struct{ answer atomic.Pointer[memoryAnswer] }

func (p *memoryProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = p.answer.Load().give(w, r) // the client sees that it is not whole
}

// memoryAnswer is an answer to memoryStreams requests: a head, a body that repeats and an end. All go step by step, so
// that all are in flight from their heads to their ends, and none is ahead.
type memoryAnswer struct {
	stream          bool
	head, body, end string
	steps           []*barrier // after the head, and after each body
}

func newMemoryAnswer(stream bool, size int) *memoryAnswer {
	const step = 64 << 10 // of body
	const usage = `{"input_tokens":10,"output_tokens":20}`
	a := &memoryAnswer{stream: stream}
	if stream {
		delta := "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Four is a number.\"}}\n\n"
		a.head = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":" + usage + "}}\n\n" +
			"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n" + delta
		a.body = strings.Repeat(delta, step/len(delta))
		a.end = "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n" +
			"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":null},\"usage\":" + usage + "}\n\n" +
			"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	} else {
		a.head = `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"`
		a.body = strings.Repeat("Four is a number. ", step/18)
		a.end = `"}],"stop_reason":"end_turn","stop_sequence":null,"usage":` + usage + `}`
	}
	for n := 0; n < size+step; n += step {
		a.steps = append(a.steps, newBarrier(memoryStreams))
	}
	return a
}

func (a *memoryAnswer) size() int { return len(a.head) + (len(a.steps)-1)*len(a.body) + len(a.end) }

// give is the provider's part.
func (a *memoryAnswer) give(w http.ResponseWriter, r *http.Request) error {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	if a.stream {
		w.Header().Set("Content-Type", "text/event-stream")
	}
	flush := http.NewResponseController(w).Flush
	next, body := []byte(a.head), []byte(a.body)
	for _, step := range a.steps {
		_, err := w.Write(next)
		if err := errors.Join(err, flush(), step.wait(r.Context())); err != nil {
			return err
		}
		next = body
	}
	_, err := io.WriteString(w, a.end)
	return err
}

// take is the client's part.
func (a *memoryAnswer) take(ctx context.Context, client *http.Client, url string) error {
	body := fmt.Sprintf(`{"model":"m","max_tokens":1000,"stream":%t,"messages":[{"role":"user","content":"Go on."}]}`, a.stream)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/messages", strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("X-Api-Key", "request-key-caller-0")
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	n, last, buffer := 0, []byte(nil), make([]byte, 128<<10)
	for err == nil {
		var read int
		read, err = response.Body.Read(buffer)
		n += read
		last = append(last, buffer[:read]...)
		last = last[max(0, len(last)-len(a.end)):]
	}
	if err != io.EOF || n != a.size() || string(last) != a.end {
		return fmt.Errorf("%d bytes of %d, the last are %q: %w", n, a.size(), last, err)
	}
	return nil
}
