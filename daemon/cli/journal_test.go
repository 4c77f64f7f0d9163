package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"coding-proxy/daemon/store"
	"coding-proxy/stats"
)

// hostileModel would clear the screen, and be a formula.
const hostileModel = "=cmd|'/c calc'!A1\x1b[2J\u202e"

func localTime(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at.Local()
}

// keptJournal writes a data directory as an instance does that began at a time.
func keptJournal(t *testing.T, began time.Time, records ...*stats.Record) (dir string) {
	t.Helper()
	dir = t.TempDir()
	now := func() time.Time { return began }
	s, err := stats.Open(stats.Options{Dir: dir, JournalDays: 62, UsageDays: 400}, store.Store{Now: now}, now, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		s.Add(r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Run(ctx) // writes what is left
	return dir
}

// dayOfChange are requests on both sides of the night of 2026-03-29, in which Berlin's clocks go forward.
func dayOfChange(t *testing.T) []*stats.Record {
	return []*stats.Record{
		{TS: localTime(t, "2026-03-28T23:59:59+01:00"), Trace: "00000000000000a1", Caller: "laptop", Group: "team", Session: "5e55", Client: "claude-cli", Dialect: "anthropic",
			Upstream: "openai-chat", Requested: "claude-sonnet-5-5", Resolved: "claude-sonnet-5-5", UpstreamModel: "glm-5.1", Tier: "second", Key: "key-c", Provider: "zhipu", Stream: true,
			Status: 200, Outcome: "ok", StopReason: "end_turn", InputTokens: 1200, OutputTokens: 345, CacheReadTokens: 100000, CacheCreationTokens: 20, ReasoningTokens: 5, CostUSD: 1.25,
			FirstByteMS: 800, DurationMS: 61500, RequestBytes: 20480, ResponseBytes: 4096, Dropped: []string{"top_k", "thinking\x1b[31m"},
			Skipped:  []stats.Skip{{Tier: "zero", Gate: "breaker"}, {Tier: "first", Key: "key-b", Gate: "cooling"}},
			Attempts: []stats.Attempt{{Tier: "first", Key: "key-a", Status: 429, Outcome: "retryable", Reason: "rate_limit_error", MS: 210}, {Tier: "first", Key: "key-d", Outcome: "retryable", Reason: "connect", MS: 5}, {Tier: "second", Key: "key-c", Status: 200, Outcome: "ok", MS: 61000}}},
		{TS: localTime(t, "2026-03-29T00:00:00+01:00"), Trace: "00000000000000a2", Caller: "笔记本", Requested: "通义千问", Resolved: "通义千问", Status: 429, Outcome: "exhausted", ErrorType: "rate_limit_error", DurationMS: 3},
		{TS: localTime(t, "2026-03-29T03:00:00+02:00"), Trace: "00000000000000a3", Caller: "laptop", Requested: hostileModel, Resolved: "m", UpstreamModel: "m", Tier: "first", Key: "key-a",
			Status: 200, Outcome: "ok", InputTokens: 7, OutputTokens: 3, Estimated: true, Unpriced: true, DurationMS: 1500, Attempts: []stats.Attempt{{Tier: "first", Key: "key-a", Status: 200, Outcome: "ok", MS: 1500}}},
		{TS: localTime(t, "2026-03-29T23:59:59+02:00"), Trace: "00000000000000a4", Caller: "laptop", Requested: "claude-sonnet-5-5", Resolved: "claude-sonnet-5-5", UpstreamModel: "claude-sonnet-5-5", Tier: "first", Key: "key-a",
			Status: 200, Outcome: "cancelled", InputTokens: 1234567, OutputTokens: 10, CostUSD: 0.0421, DurationMS: 999, Attempts: []stats.Attempt{{Tier: "first", Key: "key-a", Status: 200, Outcome: "ok", MS: 999}}},
		{TS: localTime(t, "2026-03-30T00:00:00+02:00"), Trace: "00000000000000a5", Caller: "laptop", Requested: "claude-sonnet-5-5", Status: 200, Outcome: "local"},
	}
}

func ran(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	env, out, errs := testEnvironment()
	code = Main(args, env)
	return out.String(), errs.String(), code
}

// golden compares what is printed, without the folder's name.
func golden(t *testing.T, what, got, want string) {
	t.Helper()
	if got != strings.TrimPrefix(want, "\n") {
		t.Errorf("%s:\n%s\nwant\n%s", what, got, want)
	}
}

func TestRequestsTable(t *testing.T) {
	if !inZone(t, "Europe/Berlin") {
		return
	}
	dir := keptJournal(t, localTime(t, "2026-03-28T20:00:00+01:00"), dayOfChange(t)...)
	for _, c := range []struct{ args, want string }{
		{"--limit 4 --to 2026-03-29", `
time                 trace             caller  model                          tier/key      outcome                         tries         in  out  cost USD       took
2026-03-28 23:59:59  00000000000000a1  laptop  claude-sonnet-5-5 → glm-5.1    second/key-c  200 ok                              3    101,220  345      1.25  1 min 1 s
2026-03-29 00:00:00  00000000000000a2  笔记本  通义千问                       –             429 exhausted rate_limit_error      0          0    0         –       3 ms
2026-03-29 03:00:00  00000000000000a3  laptop  =cmd|'/c calc'!A1\x1b[2J… → m  first/key-a   200 ok                              1         ~7   ~3         ?      1.5 s
2026-03-29 23:59:59  00000000000000a4  laptop  claude-sonnet-5-5              first/key-a   200 cancelled                       1  1,234,567   10    0.0421     999 ms
`},
		{"--limit 1 --failed", `
time                 trace             caller  model     tier/key  outcome                         tries  in  out  cost USD  took
2026-03-29 00:00:00  00000000000000a2  笔记本  通义千问  –         429 exhausted rate_limit_error      0   0    0         –  3 ms
`},
		{"00000000000000a1", `
trace      00000000000000a1
ended      2026-03-28 23:59:59, after 1 min 1 s, first byte after 800 ms
caller     laptop, group team, client claude-cli, session 5e55
asked      claude-sonnet-5-5, in anthropic, streamed, 20,480 bytes
sent       as glm-5.1
the way
  passed over  tier zero: breaker
  passed over  key-b of tier first: cooling
  attempt 1    key-a of tier first: 429, retryable: rate_limit_error, 210 ms
  attempt 2    key-d of tier first: no answer, retryable: connect, 5 ms
  attempt 3    key-c of tier second: 200, ok, 1 min 1 s
dropped    top_k, thinking\x1b[31m
answer     200 ok, stop reason end_turn, 4,096 bytes
served by  key-c, of tier second, provider zhipu, in openai-chat
tokens     1,200 in, 345 out, 20 written to the cache, 100,000 read from it, 5 of the output for reasoning
cost       1.25 USD
`},
		{"--trace 00000000000000a3", `
trace      00000000000000a3
ended      2026-03-29 03:00:00, after 1.5 s
caller     laptop
asked      =cmd|'/c calc'!A1\x1b[2J\u202e, plain, 0 bytes
resolved   to m
the way
  attempt 1    key-a of tier first: 200, ok, 1.5 s
answer     200 ok, 0 bytes
served by  key-a, of tier first
tokens     7 in, 3 out, estimated: the provider told none
cost       unknown: no price is known for this model (pricing in the configuration sets one)
`},
		{"00000000000000a5", `
trace      00000000000000a5
ended      2026-03-30 00:00:00, after 0 ms
caller     laptop
asked      claude-sonnet-5-5, plain, 0 bytes
the way    answered by the proxy itself, no provider asked
answer     200 local, 0 bytes
`},
	} {
		out, errs, code := ran(t, append([]string{"requests", "--data-dir", dir}, strings.Fields(c.args)...)...)
		if code != exitDone || errs != "" {
			t.Errorf("%s: exit %d: %s", c.args, code, errs)
		}
		golden(t, c.args, out, c.want)
	}
	if out, errs, code := ran(t, "requests", "--data-dir", dir, "--from", "2026-03-30", "--tier", "first"); out != "" || code != exitDone || !strings.Contains(errs, "no requests like that") {
		t.Errorf("none: exit %d: %s%s", code, out, errs)
	}
}

// A request that a limit of its caller has refused was not looked for a key for.
func TestRequestRefusedByALimit(t *testing.T) {
	at := localTime(t, "2026-03-28T20:00:00Z")
	dir := keptJournal(t, at, &stats.Record{TS: at, Trace: "00000000000000b1", Caller: "ci", Dialect: "anthropic", Status: 429, Outcome: "error", ErrorType: "rate_limit_error",
		Skipped: []stats.Skip{{Gate: "caller_rate"}}})
	if out, errs, code := ran(t, "requests", "00000000000000b1", "--data-dir", dir); !strings.Contains(out, "\nthe way\n  refused      caller_rate\nanswer     429 error, rate_limit_error") || code != exitDone {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}

// What --json prints are the journal's own lines.
func TestRequestsJSON(t *testing.T) {
	dir := keptJournal(t, localTime(t, "2026-03-28T20:00:00Z"), dayOfChange(t)...)
	files, err := filepath.Glob(filepath.Join(dir, "journal", "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data...)
	}
	if out, errs, code := ran(t, "requests", "--json", "--data-dir", dir); out != string(all) || len(all) == 0 || code != exitDone || errs != "" {
		t.Errorf("exit %d: %s%s\nwant %s", code, errs, out, all)
	}
	line := strings.SplitAfter(string(all), "\n")[2]
	if out, errs, code := ran(t, "requests", "00000000000000a3", "--json", "--data-dir", dir); out != line || code != exitDone || errs != "" {
		t.Errorf("exit %d: %s%s\nwant %s", code, errs, out, line)
	}
}

func TestUsageTable(t *testing.T) {
	if !inZone(t, "Europe/Berlin") {
		return
	}
	dir := keptJournal(t, localTime(t, "2026-03-28T20:00:00+01:00"), dayOfChange(t)...)
	for _, c := range []struct {
		by   string
		days int
		form string
		want string
	}{
		{"day,tier,key,model", 2, "", `
day         tier/key      requested model                 upstream model     requests  errors      input  output   cached  failovers    average  cost USD
2026-03-28  second/key-c  claude-sonnet-5-5               glm-5.1                   1       0      1,200     345  100,020          1  1 min 1 s     1.25
2026-03-29  (none)        通义千问                        –                         1       1          0       0        0          0       3 ms     0.00
2026-03-29  first/key-a   =cmd|'/c calc'!A1\x1b[2J\u202e  m                         1       0          7       3        0          0      1.5 s         ?
2026-03-29  first/key-a   claude-sonnet-5-5               claude-sonnet-5-5         1       0  1,234,567      10        0          0     999 ms   0.0421
total                                                                               4       1  1,235,774     358  100,020          1     16.0 s     1.29?

? No price is known for 1 of 4 requests, to m. They are not in the cost; pricing in the configuration sets one.
Estimated are the tokens of 1 of 4 requests, whose providers told none.
`},
		{"caller", 2, "", `
caller  requests  errors      input  output   cached  failovers  average  cost USD
laptop         3       0  1,235,774     358  100,020          1   21.3 s     1.29?
笔记本         1       1          0       0        0          0     3 ms     0.00
total          4       1  1,235,774     358  100,020          1   16.0 s     1.29?

? No price is known for 1 of 4 requests, to m. They are not in the cost; pricing in the configuration sets one.
Estimated are the tokens of 1 of 4 requests, whose providers told none.
`},
		{"key,day", 1, "", `
key     day         requests  errors      input  output  cached  failovers  average  cost USD
(none)  2026-03-29         1       1          0       0       0          0     3 ms     0.00
key-a   2026-03-29         2       0  1,234,574      13       0          0    1.2 s   0.0421?
total                      3       1  1,234,574      13       0          0   834 ms   0.0421?

? No price is known for 1 of 3 requests, to m. They are not in the cost; pricing in the configuration sets one.
Estimated are the tokens of 1 of 3 requests, whose providers told none.
`},
		{"day,model", 2, "csv", `
day,requested_model,upstream_model,requests,errors,failovers,input_tokens,output_tokens,cache_creation_tokens,cache_read_tokens,reasoning_tokens,estimated,unpriced,average_ms,cost_usd
2026-03-28,claude-sonnet-5-5,glm-5.1,1,0,1,1200,345,20,100000,5,0,0,61500,1.25
2026-03-29,'=cmd|'/c calc'!A1\x1b[2J\u202e,m,1,0,0,7,3,0,0,0,1,1,1500,0
2026-03-29,claude-sonnet-5-5,claude-sonnet-5-5,1,0,0,1234567,10,0,0,0,0,0,999,0.0421
2026-03-29,通义千问,,1,1,0,0,0,0,0,0,0,0,3,0
`},
		{"tier", 1, "json", `
{
  "from": "2026-03-29",
  "to": "2026-03-29",
  "by": [
    "tier"
  ],
  "rows": [
    {
      "tier": "first",
      "requests": 2,
      "input_tokens": 1234574,
      "output_tokens": 13,
      "estimated": 1,
      "unpriced": 1,
      "cost_usd": 0.0421,
      "duration_ms": 2499
    },
    {
      "requests": 1,
      "errors": 1,
      "input_tokens": 0,
      "output_tokens": 0,
      "duration_ms": 3
    }
  ],
  "total": {
    "requests": 3,
    "errors": 1,
    "input_tokens": 1234574,
    "output_tokens": 13,
    "estimated": 1,
    "unpriced": 1,
    "cost_usd": 0.0421,
    "duration_ms": 2502
  },
  "models_without_price": [
    "m"
  ],
  "from_usage_file": false
}
`},
	} {
		env, out, errs := testEnvironment()
		a := usageAsk{days: c.days, by: strings.Split(c.by, ","), csv: c.form == "csv", asJSON: c.form == "json", dir: dir}
		if err := a.run(t.Context(), localTime(t, "2026-03-29T23:59:59+02:00"), env); err != nil || errs.Len() > 0 {
			t.Errorf("by %s: %v: %s", c.by, err, errs)
		}
		golden(t, "by "+c.by, out.String(), c.want)
	}
}

// A request that ended earlier by a clock that was put back, by minutes or by days, counts for the day that had begun, as on
// the pages.
func TestUsageWhenClocksStepBack(t *testing.T) {
	if !inZone(t, "Europe/Berlin") {
		return
	}
	for _, day := range []string{"2026-03-29", "2026-04-07"} {
		began := localTime(t, day+"T00:05:00+01:00")
		dir := keptJournal(t, began, dayOfChange(t)[0])
		env, out, _ := testEnvironment()
		a := usageAsk{days: 1, by: []string{"day"}, csv: true, dir: dir}
		if err := a.run(t.Context(), began.Add(12*time.Hour), env); err != nil || !strings.Contains(out.String(), "\n"+began.Format(time.DateOnly)+",1,") {
			t.Errorf("%s: %v: %s", day, err, out)
		}
	}
}

// Days without requests, and days that the journal has no more.
func TestUsageOfOldDays(t *testing.T) {
	if !inZone(t, "Asia/Shanghai") {
		return
	}
	dir := keptJournal(t, localTime(t, "2026-03-27T20:00:00Z"), dayOfChange(t)...)
	for _, name := range []string{"2026-03-28.jsonl", "2026-03-29.jsonl"} {
		if err := os.Remove(filepath.Join(dir, "journal", name)); err != nil {
			t.Fatal(err)
		}
	}
	env, out, errs := testEnvironment()
	a := usageAsk{days: 3, by: []string{"day", "tier", "key", "model"}, dir: dir}
	now := localTime(t, "2026-03-30T12:00:00+08:00")
	if err := a.run(t.Context(), now, env); err != nil || errs.Len() > 0 {
		t.Errorf("%v: %s", err, errs)
	}
	golden(t, "usage", out.String(), `
day         tier/key          requested model    upstream model     requests  errors      input  output   cached  failovers    average  cost USD
2026-03-29  (unknown)/(none)  通义千问           (unknown)                 1       1          0       0        0          0       3 ms     0.00
2026-03-29  (unknown)/key-a   m                  (unknown)                 1       0          7       3        0          0      1.5 s         ?
2026-03-29  (unknown)/key-c   claude-sonnet-5-5  (unknown)                 1       0      1,200     345  100,020          1  1 min 1 s     1.25
2026-03-30  first/key-a       claude-sonnet-5-5  claude-sonnet-5-5         1       0  1,234,567      10        0          0     999 ms   0.0421
total                                                                      4       1  1,235,774     358  100,020          1     16.0 s     1.29?

? No price is known for 1 of 4 requests. They are not in the cost; pricing in the configuration sets one.
Estimated are the tokens of 1 of 4 requests, whose providers told none.
Days that the journal has no more are from usage.json: their models are the resolved ones, and tiers are not known.
`)
	out.Reset()
	a.days = 1
	if err := a.run(t.Context(), now.AddDate(0, 0, 1), env); err != nil || out.String() != "No requests from 2026-03-31 to 2026-03-31.\n" {
		t.Errorf("%v: %s", err, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "usage.json"), []byte(`{"version": 3}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := a.run(t.Context(), now, env); err != nil || !strings.HasPrefix(errs.String(), "warning: days that the journal has no more are missing: usage file: version 3") {
		t.Errorf("%v: %s", err, errs)
	}
}

// What cannot be read is told, also where the rest is shown.
func TestJournalDamage(t *testing.T) {
	if !inZone(t, "UTC") {
		return
	}
	records := dayOfChange(t)
	dir := keptJournal(t, records[0].TS, records[:1]...)
	for name, text := range map[string]string{
		"2026-03-26.jsonl":    `{"ts":"2026-03-26T10:00:00Z","trace":"00000000000000b1","caller":"laptop","resolved_model":"m","outcome":"ok"}` + "\nno line\n{}\n",
		"2026-03-27.jsonl.gz": "nothing that is compressed",
	} {
		if err := os.WriteFile(filepath.Join(dir, "journal", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const lines, parts = "warning: of the journal of 2026-03-26 cannot be read, and is missing here: 2 lines\n",
		"warning: of the journal of 2026-03-27 cannot be read, and is missing here: 1 compressed part\n"
	if out, errs, code := ran(t, "requests", "--data-dir", dir); code != exitDone || errs != lines+parts || !strings.Contains(out, "00000000000000b1") {
		t.Errorf("requests: exit %d: %s%s", code, errs, out)
	}
	env, out, errs := testEnvironment()
	a := usageAsk{days: 4, by: []string{"day"}, csv: true, dir: dir}
	if err := a.run(t.Context(), records[0].TS, env); err != nil || errs.String() != lines+parts || !strings.Contains(out.String(), "\n2026-03-26,1,") {
		t.Errorf("usage: %v: %s%s", err, errs, out)
	}
}

// Wrong use says what is wrong and what is right.
func TestJournalFlags(t *testing.T) {
	dir := keptJournal(t, localTime(t, "2026-03-28T20:00:00Z"), dayOfChange(t)...)
	none := t.TempDir()
	file := filepath.Join(t.TempDir(), "journal")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"requests --outcome cancelld", exitUsage, `did you mean "cancelled"?`},
		{"requests --outcome zzzzzzzzzzzz", exitUsage, "there are ok, error, cancelled, broken, exhausted, local"},
		{"requests --limit 0", exitUsage, "from 1 to 10,000"},
		{"requests --limit 10001", exitUsage, "from 1 to 10,000"},
		{"requests --from yesterday", exitUsage, "--from must be a day"},
		{"requests --from 2026-03-04 --to 2026-03-03", exitUsage, "--from is not before to"},
		{"requests --trace ../../x", exitUsage, `"../../x" is no trace`},
		{"requests 00000000000000a1 --trace 00000000000000a2", exitUsage, "one trace"},
		{"requests 00000000000000a1 00000000000000a2", exitUsage, "unexpected argument"},
		{"requests 00000000000000a1 --follow", exitUsage, "nothing to follow"},
		{"requests 00000000000000a1 --caller laptop", exitUsage, "cannot be asked for with --caller"},
		{"requests --trace 00000000000000a1 --limit 5", exitUsage, "cannot be asked for with --limit"},
		{"requests --caller=", exitUsage, "--caller is empty; leave it out"},
		{"requests --trace=", exitUsage, "--trace is empty; leave it out"},
		{"requests --from= --to=", exitUsage, "is empty; leave it out"},
		{"requests 00000000000000ff --data-dir " + dir, exitFailed, "no request with the trace 00000000000000ff"},
		{"requests --data-dir " + none, exitFailed, "no journal in " + none},
		{"requests --data-dir " + filepath.Dir(file), exitFailed, file + " is no folder"},
		{"usage --by day,modl", exitUsage, `did you mean "model"?`},
		{"usage --by day,day", exitUsage, "day is there twice"},
		{"usage --by=", exitUsage, "there are day, model, key, tier, caller"},
		{"usage --days 0", exitUsage, "from 1 to 400"},
		{"usage --days 401", exitUsage, "from 1 to 400"},
		{"usage --days x", exitUsage, "invalid value"},
		{"usage --csv --json", exitUsage, "not both"},
		{"usage day", exitUsage, "unexpected argument"},
		{"usage --data-dir " + none, exitFailed, "no journal in " + none},
	} {
		out, errs, code := ran(t, append(strings.Fields(c.args), "--port", "1")...)
		if code != c.code || out != "" || !strings.Contains(errs, c.says) {
			t.Errorf("%s: exit %d: %s%s", c.args, code, out, errs)
		}
	}
}

// following runs requests --follow. Its output waits until it is read.
func following(t *testing.T, dir string, a requestsAsk) (lines *bufio.Scanner, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	env, _, _ := testEnvironment()
	in, out := io.Pipe()
	env.Stdout = out
	ended := make(chan error, 1)
	a.follow = true
	go func() {
		err := a.show(ctx, stats.NewReader(dir), env)
		out.Close()
		ended <- err
	}()
	return bufio.NewScanner(in), func() {
		t.Helper()
		cancel()
		in.Close()
		if err := <-ended; !errors.Is(err, context.Canceled) && !errors.Is(err, io.ErrClosedPipe) {
			t.Error(err)
		}
	}
}

// numbered is request n of an hour each.
func numbered(t *testing.T, n int) *stats.Record {
	return &stats.Record{TS: localTime(t, "2026-03-28T20:00:00Z").Add(time.Duration(n) * time.Hour), Trace: fmt.Sprintf("%016x", n), Caller: "laptop", Outcome: "ok", Status: 200}
}

// writtenJournal is one that is being written.
func writtenJournal(t *testing.T) (dir string, s *stats.Stats) {
	t.Helper()
	began := func() time.Time { return numbered(t, 0).TS }
	dir = t.TempDir()
	s, err := stats.Open(stats.Options{Dir: dir, JournalDays: 62, UsageDays: 400}, store.Store{Now: began}, began, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s.Run(ctx) // closes its files
	})
	return dir, s
}

// More lines than memory is given for are an error, not a shorter list.
func TestRequestsAreBounded(t *testing.T) {
	dir, s := writtenJournal(t)
	for n := range 500 {
		s.Add(&stats.Record{TS: numbered(t, 0).TS, Trace: fmt.Sprintf("%016x", n), Caller: "laptop", Outcome: "ok"})
	}
	env, out, _ := testEnvironment()
	for _, c := range []struct {
		bytes int
		says  string
	}{{mostLineBytes, ""}, {1000, "the newest 200 lines are longer than 1,000 bytes: set --limit to less"}} {
		out.Reset()
		err := (&requestsAsk{limit: 450, bytes: c.bytes, asJSON: true}).show(t.Context(), stats.NewReader(dir), env)
		if lines := strings.Count(out.String(), "\n"); c.says == "" && (err != nil || lines != 450) || c.says != "" && (err == nil || err.Error() != c.says || lines > 0) {
			t.Errorf("%d bytes: %v, %d lines", c.bytes, err, lines)
		}
	}
}

// A line that is written while the list is printed, or later, follows, also on the next days.
func TestRequestsFollow(t *testing.T) {
	dir, s := writtenJournal(t)
	s.Add(numbered(t, 0))
	lines, end := following(t, dir, requestsAsk{limit: 20, bytes: mostLineBytes, filter: stats.Filter{Caller: "laptop"}})
	defer end()
	read := func(want string) {
		t.Helper()
		if !lines.Scan() || !strings.Contains(lines.Text(), want) {
			t.Fatalf("%q, want %s", lines.Text(), want)
		}
	}
	read("trace")
	for n := range 40 {
		s.Add(numbered(t, n+1)) // the first one before the list is out: nobody has read it yet
		s.Add(&stats.Record{TS: numbered(t, n+1).TS, Trace: "ffffffffffffffff", Caller: "another", Outcome: "ok"})
		if n == 0 || n > 30 {
			read(numbered(t, n).Trace)
		}
		if n == 30 {
			for m := 1; m <= n; m++ {
				read(numbered(t, m).Trace)
			}
		}
	}
	read(numbered(t, 40).Trace)
}

// What follows an empty list stands below its heads.
func TestRequestsFollowInColumns(t *testing.T) {
	dir, s := writtenJournal(t)
	lines, end := following(t, dir, requestsAsk{limit: 20, bytes: mostLineBytes})
	defer end()
	if !lines.Scan() {
		t.Fatal("no heads")
	}
	head := lines.Text()
	r := dayOfChange(t)[3]
	r.TS = numbered(t, 0).TS
	s.Add(r)
	if !lines.Scan() {
		t.Fatal("no line")
	}
	for name, text := range map[string]string{"trace": r.Trace, "caller": r.Caller, "model": r.Requested, "tier/key": r.Tier, "outcome": "200"} {
		if a, b := strings.Index(head, name), strings.Index(lines.Text(), text); a != b || a < 0 {
			t.Errorf("%s is at %d, %s at %d:\n%s\n%s", name, a, text, b, head, lines.Text())
		}
	}
}

// What follows begins where the list ends: no line is lost and none is there twice, whenever it is written.
func TestRequestsFollowWhileWritten(t *testing.T) {
	dir, s := writtenJournal(t)
	ts := numbered(t, 0).TS
	var written atomic.Uint64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for n := uint64(1); ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			s.Add(&stats.Record{TS: ts, Trace: fmt.Sprintf("%016x", n), Caller: "laptop", Outcome: "ok"})
			written.Store(n)
		}
	}()
	defer func() {
		close(stop)
		<-stopped
	}()
	for written.Load() < 1000 {
		runtime.Gosched()
	}
	lines, end := following(t, dir, requestsAsk{limit: mostRequests, bytes: mostLineBytes, asJSON: true})
	defer end()
	var last, enough uint64
	for last == 0 || last < enough {
		var r struct{ Trace string }
		if !lines.Scan() || json.Unmarshal(lines.Bytes(), &r) != nil {
			t.Fatalf("after %d: %q", last, lines.Text())
		}
		n, err := strconv.ParseUint(r.Trace, 16, 64)
		if err != nil || last > 0 && n != last+1 {
			t.Fatalf("%d follows %d (%v)", n, last, err)
		}
		if last == 0 { // the list is made
			enough = written.Load() + 100
		}
		last = n
	}
}
