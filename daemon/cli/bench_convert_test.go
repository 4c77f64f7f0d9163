//go:build linux

package cli_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The benchmarks of conversion compare an Anthropic client before an OpenAI Chat provider with the same client before an
// Anthropic one, in the same process and slice by slice in turn: "of-raw" is the ratio of the throughputs, "cpu-of-raw" the
// ratio of the CPU that the process took for a request (its events are the same number), "first-of-raw" that of the times
// to the first text.

var (
	chatAnswer = []byte(`{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"` +
		strings.Repeat("word ", 260) + `"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":300,"total_tokens":310}}`)
	chatHead  = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":`
	chatStart = []byte(chatHead + `{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n")
	chatDelta = []byte(chatHead + `{"content":" a few words of text"},"finish_reason":null}]}` + "\n\n")
	chatEnd   = []byte(chatHead + `{},"finish_reason":"stop"}]}` + "\n\n" +
		`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":300,"total_tokens":310}}` +
		"\n\ndata: [DONE]\n\n")
)

// dialectUpstream answers in the dialect of the path.
func dialectUpstream(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	answer, start, delta, end := benchAnswer, benchStart, benchDelta, benchEnd
	if strings.HasSuffix(r.URL.Path, "/chat/completions") {
		answer, start, delta, end = chatAnswer, chatStart, chatDelta, chatEnd
	}
	if !bytes.Contains(body, []byte(`"stream":true`)) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
		return
	}
	ctl := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(p []byte) {
		_, _ = w.Write(p)
		_ = ctl.Flush()
	}
	send(start)
	for range benchEvents {
		send(delta)
	}
	send(end)
}

// convertRig is one proxy with a key of each dialect; the model says which serves.
func convertRig(b *testing.B) benchTarget {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(dialectUpstream)}
	go server.Serve(l)
	b.Cleanup(func() { server.Close() })
	dir := b.TempDir()
	binary := filepath.Join(dir, "coding-proxy")
	if out, err := exec.Command("go", "build", "-o", binary, "coding-proxy").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	key := func(id, protocol string) string {
		return fmt.Sprintf(`{"id":%q,"provider":"sim","protocol":%q,"base_url":"http://%s","api_key":"sk-upstream-of-%s","models":{%q:"gpt-4.1"}}`, id, protocol, l.Addr(), id, id)
	}
	text := fmt.Sprintf(`{"auth":{"request_keys":[{"code":"bench","api_key":%q}]},"pool":{"strategy":"fill-first","keys":[%s,%s]}}`,
		benchKey, key("raw", "anthropic"), key("chat", "openai-chat"))
	config := filepath.Join(dir, "config.json")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	return startTarget(b, nil, binary, "serve", "--config", config, "--port", "0", "--data-dir", filepath.Join(dir, "data"))
}

// spent is the CPU that a process has taken, in ticks.
func (t benchTarget) spent(b *testing.B) float64 {
	b.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", t.pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+2:]))
	var user, system float64
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		b.Fatal(err)
	}
	return user + system
}

// forModel is the request for one of the keys.
func forModel(size int, stream bool, model string) []byte {
	const name = `"claude-sonnet-5-5"`
	request := benchRequest(size, stream)
	named := bytes.Replace(request, []byte(name), fmt.Appendf(nil, "%*q", len(name), model), 1)
	return named // as long as before: the content-length stays
}

func compareConverted(b *testing.B, size int, stream bool) {
	t := convertRig(b)
	raw, chat := forModel(size, stream, "raw"), forModel(size, stream, "chat")
	measure := func(request []byte) (rate, cpu float64) {
		before, start := t.spent(b), time.Now()
		rate = t.slice(b, request)
		return rate, (t.spent(b) - before) / (rate * time.Since(start).Seconds())
	}
	measure(raw) // warm-up
	measure(chat)
	var rates, rateRatios, cpuRatios, firsts []float64
	b.ResetTimer()
	for b.Loop() {
		rawRate, rawCPU := measure(raw)
		rate, cpu := measure(chat)
		rates, rateRatios, cpuRatios = append(rates, rate), append(rateRatios, rate/rawRate), append(cpuRatios, cpu/rawCPU)
		if stream {
			firsts = append(firsts, float64(t.first(b, chat))/float64(t.first(b, raw)))
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(rates), "req/s")
	b.ReportMetric(median(rateRatios), "of-raw")
	b.ReportMetric(median(cpuRatios), "cpu-of-raw")
	if stream {
		b.ReportMetric(median(firsts), "first-of-raw")
	}
}

// first is the median time to the first text, one request after the other.
func (t benchTarget) first(b *testing.B, request []byte) time.Duration {
	b.Helper()
	c, err := net.Dial("tcp", t.addr)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	r := bufio.NewReaderSize(c, 64<<10)
	var times []time.Duration
	for range 100 {
		start := time.Now()
		if _, err := c.Write(request); err != nil {
			b.Fatal(err)
		}
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			b.Fatal(err)
		}
		lines := bufio.NewScanner(resp.Body)
		for seen := false; lines.Scan(); {
			if !seen && strings.Contains(lines.Text(), "text_delta") {
				seen = true
				times = append(times, time.Since(start))
			}
		}
	}
	return median(times)
}

func BenchmarkConvertedPlain2kB(b *testing.B)   { compareConverted(b, 2_000, false) }
func BenchmarkConvertedPlain400kB(b *testing.B) { compareConverted(b, 400_000, false) }
func BenchmarkConvertedStream200(b *testing.B)  { compareConverted(b, 2_000, true) }
