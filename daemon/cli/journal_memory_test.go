//go:build linux

package cli_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"coding-proxy/stats"
)

const (
	journalDays  = 30
	journalFew   = 100_000 // lines that JOURNAL_LINES are compared with
	journalSmall = 10_000  // lines of the run that is always made
	journalMany  = "1000000"
	journalTries = 5
	journalRare  = "rare" // a caller of few requests all over the journal…
	journalTold  = 60     // …so many of them
	journalTime  = 15 * time.Minute
)

// TestJournalMemory asks the built binary, in a process of its own each, for what needs the whole journal: usage, the
// requests of one caller, one trace. What it finds must be right, and its peak memory must not grow with the journal: at a
// million lines (in CI; elsewhere at JOURNAL_LINES, if set) it is at most 1.2 times that at 100,000.
func TestJournalMemory(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), journalTime)
	defer cancel()
	binary := buildProxy(ctx, t)
	t.Run("10000 lines", func(t *testing.T) { measureJournal(ctx, t, binary, journalSmall) })
	t.Run("growth", func(t *testing.T) {
		text := os.Getenv("JOURNAL_LINES")
		switch {
		case text == "" && os.Getenv("CI") == "true":
			text = journalMany
		case text == "":
			t.Skip("compares the memory at 100,000 journal lines with that at more: set JOURNAL_LINES=" + journalMany)
		}
		lines, err := strconv.Atoi(text)
		if err != nil || lines <= journalFew {
			t.Fatalf("JOURNAL_LINES=%s must be a number above %d", text, journalFew)
		}
		few, many := map[string]int64{}, map[string]int64{}
		for range journalTries {
			least(few, measureJournal(ctx, t, binary, journalFew))
			least(many, measureJournal(ctx, t, binary, lines))
			if len(grown(few, many)) == 0 {
				break
			}
		}
		for name, peak := range many {
			t.Logf("%s: peak memory %d KiB at %d lines, %d KiB at %d: %.3f", name, few[name], journalFew, peak, lines, float64(peak)/float64(few[name]))
		}
		for _, name := range grown(few, many) {
			t.Errorf("%s: peak memory has grown by more than a fifth", name)
		}
	})
}

// least keeps the smallest peak of each question: what the system adds at random, some 16 MiB in one process of three, only adds.
func least(peaks, more map[string]int64) {
	for name, peak := range more {
		if now, ok := peaks[name]; !ok || peak < now {
			peaks[name] = peak
		}
	}
}

// grown returns the questions whose peak has grown by more than a fifth.
func grown(few, many map[string]int64) (names []string) {
	for name, peak := range many {
		if float64(peak) > 1.2*float64(few[name]) {
			names = append(names, name)
		}
	}
	return names
}

// measureJournal returns the peak memory in KiB of each question.
func measureJournal(ctx context.Context, t *testing.T, binary string, lines int) map[string]int64 {
	t.Helper()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	traces := writeJournal(t, filepath.Join(data, "journal"), lines)
	serve := []string{binary, "serve", "--config", killConfig(t, dir, "http://127.0.0.1:1"), "--data-dir", data, "--port", "0"}
	peaks := map[string]int64{}
	ask := func(name string, args ...string) (out []byte, took time.Duration) {
		out, took, peaks[name] = peakOf(ctx, t, append([]string{binary}, append(args, "--data-dir", data)...)...)
		return out, took
	}

	j := &journalFiles{t: t, dir: filepath.Join(data, "journal")}
	plain := j.read()
	out, took := ask("usage of plain files", "usage", "--days", fmt.Sprint(journalDays), "--json")
	j.told(lines, "usage --days 30, plain files", took, plain)
	sameUsage(t, out, lines)

	p := startProxy(ctx, t, serve...) // it counts what it finds, and compresses the days that are over
	j.awaitCompressed(ctx)
	t.Logf("%d lines: counted and compressed at start: %d KiB", lines, memoryStatus(t, p.command.Process.Pid, "VmHWM"))
	p.terminate(t)

	packed, inflated := j.read(), j.inflate()
	t.Logf("%d lines: %d MiB; reading the files once takes %v plain, %v compressed, %v to inflate them", lines, plain.bytes>>20, plain.took, packed.took, inflated.took)
	out, took = ask("usage", "usage", "--days", fmt.Sprint(journalDays), "--json")
	j.told(lines, "usage --days 30", took, plain, inflated)
	sameUsage(t, out, lines)
	for n, trace := range traces {
		out, took = ask("requests --trace", "requests", "--trace", trace, "--json")
		if n == 0 {
			j.told(lines, "requests --trace", took, plain, inflated)
		}
		sameTrace(t, out, trace)
	}

	p = startProxy(ctx, t, serve...)
	t.Logf("%d lines: after the next start: %d KiB", lines, memoryStatus(t, p.command.Process.Pid, "VmHWM"))
	began := time.Now()
	page := fetch(ctx, t, p.url+"/api/requests?limit=50&caller="+journalRare)
	j.told(lines, "/api/requests?caller=…&limit=50", time.Since(began), plain, inflated)
	samePage(t, page)
	for n, trace := range traces {
		began = time.Now()
		line := fetch(ctx, t, p.url+"/api/requests/"+trace)
		if n == 0 {
			j.told(lines, "/api/requests/{trace}", time.Since(began), plain, inflated)
		}
		sameTrace(t, line, trace)
	}
	peaks["the instance"] = memoryStatus(t, p.command.Process.Pid, "VmHWM")
	p.terminate(t)
	return peaks
}

// writeJournal writes the files of the last days, today's too, and returns a trace of each, the oldest first.
func writeJournal(t *testing.T, dir string, lines int) (traces []string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	today := time.Now()
	perDay := lines / journalDays
	n := 0
	for d := range journalDays {
		day := time.Date(today.Year(), today.Month(), today.Day()-journalDays+1+d, 0, 0, 0, 0, time.Local)
		if d == journalDays-1 {
			perDay = lines - n
		}
		f, err := os.Create(filepath.Join(dir, day.Format("2006-01-02")+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		w := bufio.NewWriterSize(f, 1<<20)
		for i := range perDay {
			r := journalRecord(n, lines, day.Add(time.Duration(i)*20*time.Hour/time.Duration(perDay)))
			if i == perDay/2 {
				traces = append(traces, r.Trace)
			}
			line, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = w.Write(append(line, '\n')) // its error stays
			n++
		}
		if err := errors.Join(w.Flush(), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return traces
}

// journalRecord is request n of so many.
func journalRecord(n, of int, ts time.Time) *stats.Record {
	h := uint64(n+1) * 0x9e3779b97f4a7c15
	r := &stats.Record{
		TS: ts, Trace: fmt.Sprintf("%016x", h), Caller: fmt.Sprintf("caller-%d", h>>8%40), Session: fmt.Sprintf("%032x", h>>16%977), Client: "claude-cli/2.1", Dialect: "anthropic",
		Upstream: "anthropic", Requested: fmt.Sprintf("claude-model-%d", h>>24%6), Resolved: fmt.Sprintf("claude-model-%d", h>>24%6), UpstreamModel: fmt.Sprintf("claude-model-%d-20260101", h>>24%6),
		Tier: fmt.Sprintf("tier-%d", h>>32%3), Key: fmt.Sprintf("key-%d", h>>32%9), Provider: "anthropic", Stream: true, Status: 200, Outcome: "ok", StopReason: "end_turn",
		InputTokens: int64(h >> 40 % 5000), OutputTokens: 100, CacheReadTokens: int64(h >> 48 % 9000), CostUSD: 0.0625, FirstByteMS: 700, DurationMS: 4000, RequestBytes: 50_000, ResponseBytes: 9000,
	}
	if n%(of/journalTold) == 0 {
		r.Caller = journalRare
	}
	if n%11 == 0 {
		r.Attempts = append(r.Attempts, stats.Attempt{Tier: r.Tier, Key: "key-first", Status: 429, Outcome: "rate_limit", Reason: "rate_limit_error", MS: 90})
		r.Skipped = append(r.Skipped, stats.Skip{Tier: r.Tier, Key: "key-zero", Gate: "cooling"})
	}
	r.Attempts = append(r.Attempts, stats.Attempt{Tier: r.Tier, Key: r.Key, Status: 200, Outcome: "ok", MS: 3900})
	return r
}

// sameUsage checks what usage has counted.
func sameUsage(t *testing.T, out []byte, lines int) {
	t.Helper()
	var u struct {
		Rows  []struct{ Requests, Failovers int64 }
		Total struct{ Requests, Failovers int64 }
	}
	if err := json.Unmarshal(out, &u); err != nil {
		t.Fatal(err)
	}
	sum, failovers := int64(0), int64((lines+10)/11)
	for _, r := range u.Rows {
		sum += r.Requests
	}
	if u.Total.Requests != int64(lines) || sum != int64(lines) || u.Total.Failovers != failovers || len(u.Rows) > journalDays*6*9 {
		t.Errorf("usage counts %d requests, %d in %d rows, %d failovers, want %d and %d", u.Total.Requests, sum, len(u.Rows), u.Total.Failovers, lines, failovers)
	}
}

func sameTrace(t *testing.T, line []byte, trace string) {
	t.Helper()
	var r stats.Record
	if err := json.Unmarshal(line, &r); err != nil || r.Trace != trace {
		t.Errorf("trace %s: %v: %s", trace, err, line)
	}
}

// samePage checks that the newest requests of the caller have come, in order.
func samePage(t *testing.T, body []byte) {
	t.Helper()
	var page struct {
		Requests []stats.Record
		Next     *string
	}
	if err := json.Unmarshal(body, &page); err != nil || len(page.Requests) != 50 || page.Next == nil {
		t.Fatalf("%v: %d requests, next %v", err, len(page.Requests), page.Next)
	}
	for i, r := range page.Requests {
		if r.Caller != journalRare || i > 0 && !r.TS.Before(page.Requests[i-1].TS) {
			t.Errorf("request %d: %+v", i, r)
		}
	}
}

// fetch gets an answer of the instance.
func fetch(ctx context.Context, t *testing.T, url string) []byte {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d, %v: %s", url, resp.StatusCode, err, body)
	}
	return body
}

// journalFiles are a journal's files.
type journalFiles struct {
	t   *testing.T
	dir string
}

// pass is what it takes to read them once.
type pass struct {
	took  time.Duration
	bytes int64
}

func (j *journalFiles) names(pattern string) []string {
	j.t.Helper()
	names, err := filepath.Glob(filepath.Join(j.dir, pattern))
	if err != nil {
		j.t.Fatal(err)
	}
	return names
}

// read reads all files as they are.
func (j *journalFiles) read() pass {
	return j.once(func(_ string, r io.Reader) (io.Reader, error) { return r, nil })
}

// inflate reads the text of all files.
func (j *journalFiles) inflate() pass {
	return j.once(func(name string, r io.Reader) (io.Reader, error) {
		if strings.HasSuffix(name, ".gz") {
			return gzip.NewReader(bufio.NewReader(r))
		}
		return r, nil
	})
}

func (j *journalFiles) once(open func(name string, r io.Reader) (io.Reader, error)) (p pass) {
	j.t.Helper()
	began := time.Now()
	for _, pattern := range []string{"*.jsonl", "*.jsonl.gz"} {
		for _, name := range j.names(pattern) {
			f, err := os.Open(name)
			if err != nil {
				j.t.Fatal(err)
			}
			r, err := open(name, f)
			if err == nil {
				var n int64
				n, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{r}, make([]byte, 256<<10))
				p.bytes += n
			}
			if err := errors.Join(err, f.Close()); err != nil {
				j.t.Fatal(err)
			}
		}
	}
	p.took = time.Since(began)
	return p
}

// told logs how long an answer took, as ratio to reading the files once: plain, and compressed.
func (j *journalFiles) told(lines int, what string, took time.Duration, once ...pass) {
	text := fmt.Sprintf("%d lines: %s: %v", lines, what, took)
	for i, p := range once {
		text += fmt.Sprintf(", %.2f times %s", took.Seconds()/p.took.Seconds(), []string{"reading the plain files", "inflating them"}[i])
	}
	j.t.Log(text)
}

// awaitCompressed waits until the days before yesterday are compressed.
func (j *journalFiles) awaitCompressed(ctx context.Context) {
	j.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for len(j.names("*.jsonl")) > 2 || len(j.names("*.tmp")) > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			j.t.Fatalf("waited for the compression: %v", j.names("*"))
		}
	}
}
