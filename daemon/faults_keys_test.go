package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"coding-proxy/pool"
	"coding-proxy/proxy/demo"
	"coding-proxy/stats"
)

// sticky is a pool that keeps sessions on their keys.
func sticky(keys ...string) string {
	return `"pool":{"max_wait_seconds":0,"keys":[` + strings.Join(keys, ",") + `]}`
}

const unspent = `"daily_limit_tokens":1000000000`

func session(id string) string { return "x-claude-code-session-id: " + id }

func TestKEY001ModelWindowCoolsWholeKey(t *testing.T) {
	t.Parallel()
	now := frozen()
	week := now.now().Add(7 * 24 * time.Hour).UTC().Format(time.RFC3339)
	window := func(model string) []string {
		return []string{
			"Anthropic-Ratelimit-Unified-Status: rejected", "Anthropic-Ratelimit-Unified-5h-Status: allowed",
			"Anthropic-Ratelimit-Unified-7d-Status: allowed", "Anthropic-Ratelimit-Unified-7d_" + model + "-Status: rejected",
			"Anthropic-Ratelimit-Unified-7d_" + model + "-Reset: " + week, "Retry-After: 90",
		}
	}
	b := newBackend(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if n == 0 {
			say(w, 429, failure("rate_limit_error", "weekly limit"), window("opus")...)
			return
		}
		say(w, 200, whole)
	})
	i := startAt(t, now, nil, poolOf(poolKey(k1, b.URL)))
	for _, want := range []struct {
		model  string
		status int
	}{{opus, 429}, {sonnet, 200}, {opus, 429}, {sonnet, 200}} {
		if r := i.message(question(want.model)); r.status != want.status {
			t.Errorf("%s: status %d, want %d", want.model, r.status, want.status)
		}
	}
	k := i.keys()[k1]
	if d := i.coolsFor(now, k1); !about(d, 90*time.Second) || k.State != "ready" || len(k.Models) != 1 || k.Models[0].Model != opus {
		t.Errorf("out for %v: %+v", d, k)
	}
}

// An account's own window takes the whole key out: design/routing.md, section 4.
func TestAccountWindowCoolsKey(t *testing.T) {
	t.Parallel()
	now := frozen()
	reset := now.now().Add(3 * time.Hour)
	b := newBackend(t, says(429, failure("rate_limit_error", "five hours"), "Anthropic-Ratelimit-Unified-Status: rejected",
		"Anthropic-Ratelimit-Unified-5h-Status: rejected", fmt.Sprintf("Anthropic-Ratelimit-Unified-5h-Reset: %d", reset.Unix())))
	i := startAt(t, now, nil, poolOf(poolKey(k1, b.URL)))
	i.message(question(opus))
	if r := i.message(question(sonnet)); r.status != 429 {
		t.Errorf("status %d", r.status)
	}
	b.only(t)
	if k := i.keys()[k1]; k.State != "cooling" || !about(k.Until.Sub(now.now()), 3*time.Hour) {
		t.Errorf("%+v", k)
	}
}

func TestKEY006StickyIsNoHardPin(t *testing.T) {
	t.Parallel()
	one, oneURL := provider(t)
	two, twoURL := provider(t)
	i := start(t, sticky(poolKey(k1, oneURL, unspent), poolKey(k2, twoURL, unspent)))
	bound := i.servedBy(i.good(question(sonnet), session("s")))
	first, other := one, k2
	if bound == k2 {
		first, other = two, k1
	}
	for range 5 { // it stays
		if r := i.good(question(sonnet), session("s")); i.servedBy(r) != bound {
			t.Fatalf("the session has left %s", bound)
		}
	}
	first.Always(demo.Step{Status: 429, Header: http.Header{"Retry-After": {"3600"}}})
	for n := range 3 {
		r := i.good(question(sonnet), session("s"))
		if i.servedBy(r) != other {
			t.Errorf("request %d was served by %s", n, i.servedBy(r))
		}
		if want := []string{"2", "1", "1"}[n]; r.header.Get("X-Proxy-Attempts") != want {
			t.Errorf("request %d: %s attempts, want %s", n, r.header.Get("X-Proxy-Attempts"), want)
		}
	}
	if n := len(first.Requests()); n != 7 {
		t.Errorf("the limited key was asked %d times, want 6 and the one that it refused", n)
	}
}

// The list wants the session back on its key after one fault. The design's rule moves it, as the key still cools when
// the request ends (routing.md, section 2); what the design wants with it, that a session does not wander, holds after.
func TestKEY007TransientErrorDropsBinding(t *testing.T) {
	t.Parallel()
	one, oneURL := provider(t)
	two, twoURL := provider(t)
	now := frozen()
	i := startAt(t, now, nil, sticky(poolKey(k1, oneURL, unspent), poolKey(k2, twoURL, unspent)))
	first, other := one, k2
	if i.servedBy(i.good(question(sonnet), session("s"))) == k2 {
		first, other = two, k1
	}
	first.Push(demo.Step{Status: 502})
	for range 5 {
		if r := i.good(question(sonnet), session("s")); i.servedBy(r) != other {
			t.Errorf("the session is on %s, not on %s", i.servedBy(r), other)
		}
		now.set(now.now().Add(time.Minute))
	}
}

func TestKEY008StickyLostAtRestart(t *testing.T) {
	t.Parallel()
	_, url := provider(t)
	pool := sticky(poolKey(k1, url, unspent), poolKey(k2, url, unspent), poolKey(k3, url, unspent))
	dir := filepath.Join(t.TempDir(), "data")
	before := map[string]string{}
	i := startIn(t, dir, pool)
	for n := range 8 { // by chance all stay with a probability of 1 in 6561
		id := fmt.Sprint("session-", n)
		before[id] = i.servedBy(i.good(question(sonnet), session(id)))
	}
	i.stop()
	i = startIn(t, dir, pool)
	for id, key := range before {
		if got := i.servedBy(i.good(question(sonnet), session(id))); got != key {
			t.Errorf("%s was on %s and is on %s", id, key, got)
		}
	}
}

// Where a conversation's id is found: design/routing.md, section 2, in its order.
func TestSessionIDs(t *testing.T) {
	t.Parallel()
	_, url := provider(t)
	i := start(t, poolOf(poolKey(k1, url)))
	user := func(id string) string {
		quoted, _ := json.Marshal(id) // a string cannot fail
		return `"metadata":{"user_id":` + string(quoted) + `}`
	}
	for _, c := range []struct {
		name   string
		header []string
		more   []string // members of the body
		want   string
	}{
		{"none", nil, nil, ""},
		{"header of Claude Code", []string{session("a"), "x-session-id: b"}, []string{user("c")}, "a"},
		{"newer Claude Code", []string{"x-session-id: b"}, []string{user(`{"device_id":"d","account_uuid":"","session_id":"c"}`)}, "c"},
		{"older Claude Code", nil, []string{user("user_0123_account__session_c-d")}, "c-d"},
		{"user_id whole", nil, []string{user("somebody")}, "somebody"},
		{"user_id with other JSON", nil, []string{user(`{"x":1}`)}, `{"x":1}`},
		{"x-session-id", []string{"x-session-affinity: d", "x-session-id: b", "session-id: e"}, nil, "b"},
		{"x-session-affinity", []string{"x-session-affinity: d", "session-id: e"}, nil, "d"},
		{"session-id", []string{"session-id: e", "mcp-session-id: f"}, nil, "e"},
		{"session_id", []string{"session_id: e", "mcp-session-id: f"}, nil, "e"},
		{"mcp-session-id", []string{"mcp-session-id: f"}, []string{`"prompt_cache_key":"g"`}, "f"},
		{"prompt_cache_key", nil, []string{`"prompt_cache_key":"g"`}, "g"},
		{"too long: the next counts", []string{session(strings.Repeat("x", 257)), "x-session-id: b"}, nil, "b"},
		{"longest", []string{session(strings.Repeat("x", 256)), "x-session-id: b"}, nil, strings.Repeat("x", 256)},
		{"longest of more than one byte", nil, []string{user(strings.Repeat("é", 256))}, strings.Repeat("é", 256)},
		{"control characters", nil, []string{user("a\nb"), `"prompt_cache_key":"g"`}, "g"},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := i.in(t)
			// prompt_cache_key is no field of this dialect; the simulated provider would refuse it.
			if r := i.message(question(sonnet, c.more...), c.header...); i.record(r.trace()).Session != pool.SessionHash("(anonymous)", c.want) {
				t.Errorf("the session is %q, want the hash of %q", i.record(r.trace()).Session, c.want)
			}
		})
	}
}

func TestKEY023DailyCounterResets(t *testing.T) {
	t.Parallel()
	y, m, d := time.Now().Date()
	noon := time.Date(y, m, d+1, 12, 0, 0, 0, time.Local)
	now := &clock{time: noon}
	_, url := provider(t, demo.Step{Usage: demo.Usage{Input: 60, Output: 40}})
	i := startAt(t, now, nil, poolOf(poolKey(k1, url, `"daily_limit_tokens":100`)))
	i.good(question(sonnet))
	r := i.message(question(sonnet))
	midnight := time.Date(y, m, d+2, 0, 0, 0, 0, time.Local)
	if want := fmt.Sprint(int(midnight.Sub(noon).Seconds())); r.status != 429 || r.header.Get("Retry-After") != want {
		t.Errorf("status %d, retry-after %s, want %s", r.status, r.header.Get("Retry-After"), want)
	}
	now.set(midnight)
	i.good(question(sonnet))
}

// The list wants 1215; the design counts a read from the cache as a tenth: 10 + 5 + 200 + 1000/10.
func TestKEY024GuardIgnoresCacheTokens(t *testing.T) {
	t.Parallel()
	_, url := provider(t, demo.Step{Usage: demo.Usage{Input: 10, Output: 5, CacheCreation: 200, CacheRead: 1000}})
	dir := filepath.Join(t.TempDir(), "data")
	pool := poolOf(poolKey(k1, url, `"daily_limit_tokens":315`))
	i := startIn(t, dir, pool)
	i.good(question(sonnet))
	for range 2 {
		if used := i.keys()[k1].Today.Used; used != 315 {
			t.Errorf("used %d, want 315", used)
		}
		if r := i.message(question(sonnet)); r.status != 429 {
			t.Errorf("over the limit: status %d", r.status)
		}
		i.stop()
		i = startIn(t, dir, pool)
	}
}

// However a request ends, the slot of its key is free again.
func TestSlotsAreGivenBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, ask string
		step      demo.Step
	}{
		{"good", question(sonnet), demo.Step{}},
		{"good stream", question(sonnet, streamed), demo.Step{}},
		{"refused", question(sonnet), demo.Step{Status: 400}},
		{"limited", question(sonnet), demo.Step{Status: 429}},
		{"failed", question(sonnet, streamed), demo.Step{Status: 500}},
		{"cut before the head", question(sonnet), demo.Step{Break: demo.Cut}},
		{"cut in a plain answer", question(sonnet), demo.Step{Break: demo.Cut, After: 1}},
		{"cut in the head", question(sonnet, streamed), demo.Step{Break: demo.Cut, After: 2}},
		{"cut in the stream", question(sonnet, streamed), demo.Step{Break: demo.Cut, After: 4}},
		{"error in the stream", question(sonnet, streamed), demo.Step{Break: demo.ErrorEvent, After: 4}},
		{"client left before the head", question(sonnet), demo.Step{Hold: demo.HoldAt(0)}},
		{"client left in the head", question(sonnet, streamed), demo.Step{Hold: demo.HoldAt(3)}},
		{"client left in the stream", question(sonnet, streamed), demo.Step{Hold: demo.HoldAt(5)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			now := frozen()
			_, url := provider(t, c.step)
			i := startAt(t, now, nil, poolOf(poolKey(k1, url, `"max_concurrent":1`)))
			ctx, leave := context.WithTimeout(t.Context(), patience)
			defer leave()
			answer := i.background(ctx, c.ask)
			if c.step.Hold != nil {
				<-c.step.Hold.Reached()
				leave()
			}
			<-answer
			await(t, "the slot", func() bool { return i.keys()[k1].InFlight == 0 })
			now.set(now.now().Add(time.Minute))
			i.good(question(sonnet))
		})
	}
}

// usageOf sends one request to an upstream that says these usages and returns the journal's line.
func usageOf(t *testing.T, start, end string, stream bool) stats.Record {
	t.Helper()
	message := `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":` + start + `}`
	b := newBackend(t, pours(
		"event: message_start\ndata: {\"type\":\"message_start\",\"message\":"+message+"}\n\n", evBlock, evDelta, evEnd,
		"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":"+end+"}\n\n", evStop))
	ask := question(sonnet, streamed)
	if !stream {
		b = newBackend(t, says(200, strings.Replace(whole, `{"input_tokens":10,"output_tokens":7}`, end, 1)))
		ask = question(sonnet)
	}
	i := startAt(t, frozen(), nil, poolOf(poolKey(k1, b.URL)))
	return i.record(i.good(ask).trace())
}

func TestUSE001CacheCountedTwice(t *testing.T) {
	t.Parallel()
	r := usageOf(t, `{"input_tokens":3,"cache_read_input_tokens":500,"output_tokens":1}`, `{"input_tokens":3,"cache_read_input_tokens":500,"output_tokens":40}`, true)
	if r.InputTokens != 3 || r.CacheReadTokens != 500 || r.OutputTokens != 40 || r.Estimated {
		t.Errorf("%+v", r)
	}
	// null and absent are the same: the last figure that was given stands.
	r = usageOf(t, `{"input_tokens":3,"cache_creation_input_tokens":8,"cache_read_input_tokens":500,"output_tokens":1}`, `{"input_tokens":null,"cache_read_input_tokens":null,"output_tokens":40}`, true)
	if r.InputTokens != 3 || r.CacheCreationTokens != 8 || r.CacheReadTokens != 500 || r.OutputTokens != 40 {
		t.Errorf("%+v", r)
	}
}

func TestUSE004ThinkingIsASubset(t *testing.T) {
	t.Parallel()
	const u = `{"input_tokens":4,"cache_creation_input_tokens":60,"cache_read_input_tokens":900,"output_tokens":120,"output_tokens_details":{"thinking_tokens":35}}`
	for _, stream := range []bool{true, false} {
		r := usageOf(t, `{"input_tokens":4,"output_tokens":1}`, u, stream)
		if r.OutputTokens != 120 || r.ReasoningTokens != 35 || r.InputTokens+r.CacheCreationTokens+r.CacheReadTokens+r.OutputTokens != 1084 {
			t.Errorf("stream %t: %+v", stream, r)
		}
	}
}

// An answer that says nothing of its usage is estimated: a limit counts it all the same.
func TestEstimatesWithoutUsage(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("walrus ", 600) // 4200 bytes, some 1000 tokens
	plain := strings.Replace(strings.Replace(whole, "walrus", text, 1), `,"usage":{"input_tokens":10,"output_tokens":7}`, "", 1)
	stream := strings.NewReplacer(`,"usage":{"input_tokens":10,"output_tokens":1}`, "", `,"usage":{"output_tokens":7}`, "").Replace(evAll)
	stream = strings.Replace(stream, "walrus ", text, 1)
	ask := `"metadata":{"user_id":"` + strings.Repeat("u", 4000) + `"}`
	for _, c := range []struct{ name, ask, body, contentType string }{
		{"plain", question(sonnet, ask), plain, "application/json"},
		{"stream", question(sonnet, ask, streamed), stream, "text/event-stream"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			i := start(t, poolOf(poolKey(k1, newBackend(t, says(200, c.body, "Content-Type: "+c.contentType)).URL)))
			rec := i.record(i.good(c.ask).trace())
			if !rec.Estimated || rec.InputTokens < 500 || rec.InputTokens > 2000 || rec.OutputTokens < 500 || rec.OutputTokens > 2000 {
				t.Errorf("estimated %t: %d in, %d out", rec.Estimated, rec.InputTokens, rec.OutputTokens)
			}
			if used := i.keys()[k1].Today.Used; used != rec.InputTokens+rec.OutputTokens {
				t.Errorf("the key's use is %d", used)
			}
		})
	}
}

// The list's case is OpenAI's; Anthropic's is the same: who leaves early is charged what was seen.
func TestUSE012NoUsageOnDisconnect(t *testing.T) {
	t.Parallel()
	hold := demo.HoldAt(12)
	p, url := provider(t)
	p.Always(demo.Step{Text: strings.Repeat("walrus ", 40), Usage: demo.Usage{Input: 100, Output: 80}, Hold: hold})
	const each = 100
	i := start(t, poolOf(poolKey(k1, url, fmt.Sprintf(`"daily_limit_tokens":%d`, 3*each))))
	left := 0
	for left < 10 {
		l := i.open(question(sonnet, streamed))
		if l.status == 429 {
			break
		}
		for {
			line, err := l.in.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(line, "content_block_delta") {
				break
			}
		}
		l.leave()
		left++
		await(t, "the end of the request", func() bool { return i.server.proxy.InFlight() == 0 })
	}
	if left > 3 {
		t.Errorf("%d requests of at least %d tokens were let in under a limit of %d", left, each, 3*each)
	}
	for _, r := range i.records("") {
		if r.Status == 429 {
			continue
		}
		if r.Outcome != "cancelled" || r.InputTokens != 100 || r.OutputTokens < 1 || !r.Estimated {
			t.Errorf("journal: %+v", r)
		}
	}
}

func TestUSE014DayCountAndGrouping(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("UTC+8", 8*3600)
	y, m, d := time.Now().In(zone).Date()
	at := func(day, hour, minute int) time.Time { return time.Date(y, m, d+2+day, hour, minute, 0, 0, zone) }
	now := &clock{time: at(-1, 23, 50)}
	_, url := provider(t)
	i := startAt(t, now, nil, poolOf(poolKey(k1, url)))
	i.good(question(sonnet))
	now.set(at(0, 0, 10)) // yesterday, by UTC
	i.good(question(sonnet))
	now.set(at(0, 23, 50))
	i.good(question(sonnet))

	for query, want := range map[string]int64{"days:1": 2, "today": 2, "days:2": 3} {
		var page struct {
			From, To string
			Total    stats.Figures
			Days     []stats.DayFigures
		}
		r := i.ask("GET", "/api/stats?window="+query, "")
		if err := json.Unmarshal([]byte(r.body), &page); err != nil {
			t.Fatal(err)
		}
		today := at(0, 12, 0).Format(time.DateOnly)
		if page.Total.Requests != want || page.To != today || query != "days:2" && (page.From != today || len(page.Days) != 1) {
			t.Errorf("%s: %s", query, r.body)
		}
	}
}

func TestUSE020FakeZeroCountTokens(t *testing.T) {
	t.Parallel()
	p, url := provider(t)
	i := start(t, poolOf(poolKey(k1, url)))
	count := func(body string) int {
		t.Helper()
		r := i.ask("POST", "/v1/messages/count_tokens?beta=true", body, version)
		var n struct {
			Tokens int `json:"input_tokens"`
		}
		if err := json.Unmarshal([]byte(r.body), &n); err != nil || r.status != 200 {
			t.Fatalf("status %d, %v: %s", r.status, err, r.body)
		}
		return n.Tokens
	}
	small := count(`{"model":"claude-sonnet-5-5","messages":[{"role":"user","content":"hi"}]}`)
	system := count(`{"model":"claude-sonnet-5-5","system":"` + strings.Repeat("many words ", 100) + `","messages":[{"role":"user","content":"hi"}]}`)
	tools := count(`{"model":"claude-sonnet-5-5","tools":[{"name":"f","description":"` + strings.Repeat("many words ", 100) +
		`","input_schema":{"type":"object"}}],"messages":[{"role":"user","content":"hi"}]}`)
	if small < 1 || system < small+100 || tools < small+100 {
		t.Errorf("counts %d, with a system text %d, with a tool %d", small, system, tools)
	}
	if n := len(p.Requests()); n != 0 {
		t.Errorf("%d requests went upstream", n)
	}
	r := i.ask("GET", "/api/stats", "")
	if !strings.Contains(r.body, `"models":[]`) {
		t.Errorf("an estimate was booked as usage: %s", r.body)
	}
}

// Damaged state is set aside, said, and nothing else is lost for it.
func TestCFG007TornState(t *testing.T) {
	t.Parallel()
	_, url := provider(t)
	pool := sticky(poolKey(k1, url, unspent), poolKey(k2, url, unspent))
	seed := filepath.Join(t.TempDir(), "data")
	i := startIn(t, seed, pool)
	i.good(question(sonnet), session("s"))
	i.stop()
	for _, name := range []string{"sessions.json", "state.json", "usage.json"} {
		whole, err := os.ReadFile(filepath.Join(seed, name))
		if err != nil {
			t.Fatal(err)
		}
		for n := range 21 {
			t.Run(fmt.Sprintf("%s cut %d", name, n), func(t *testing.T) {
				t.Parallel()
				dir := filepath.Join(t.TempDir(), "data")
				if err := os.CopyFS(dir, os.DirFS(seed)); err != nil {
					t.Fatal(err)
				}
				torn := whole[:n*(len(whole)-1)/20]
				if err := os.WriteFile(filepath.Join(dir, name), torn, 0o600); err != nil {
					t.Fatal(err)
				}
				i := startIn(t, dir, pool)
				i.good(question(sonnet), session("s"))
				if r := i.ask("GET", "/api/stats", ""); !strings.Contains(r.body, `"total":{"requests":2`) {
					t.Errorf("figures are lost: %s", r.body)
				}
				i.stop()
				aside, err := filepath.Glob(filepath.Join(dir, name+".bad-*"))
				if err != nil || len(aside) != 1 {
					t.Fatalf("set aside: %v, %v", aside, err)
				}
				if kept, err := os.ReadFile(aside[0]); err != nil || string(kept) != string(torn) {
					t.Errorf("what was set aside is %q, %v", kept, err)
				}
				if !strings.Contains(i.log.String(), "level=ERROR") {
					t.Errorf("the log says nothing: %s", i.log)
				}
				if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !json.Valid(data) {
					t.Errorf("the new file: %q, %v", data, err)
				}
			})
		}
	}
}

// A start that fails says why and leaves nothing behind: the next one on the same directory works.
func TestCFG005PortTaken(t *testing.T) {
	t.Parallel()
	pool := poolOf(poolKey(k1, "http://127.0.0.1:1"))
	running := start(t, pool)
	dir := filepath.Join(t.TempDir(), "data")
	cfg, err := load(t, dir, pool)
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(running.Addr())
	cfg.Server.Port, _ = strconv.Atoi(port)
	if d, err := New(cfg, NewLogger(cfg, io.Discard)); err == nil || !strings.Contains(err.Error(), port) {
		d.Close()
		t.Errorf("a taken port: %v", err)
	}
	// The other way round: the directory of a running instance.
	cfg.Server.Port, cfg.Server.DataDir = 0, running.dir
	if d, err := New(cfg, NewLogger(cfg, io.Discard)); err == nil || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		d.Close()
		t.Errorf("a directory in use: %v", err)
	}
	startIn(t, dir, pool)
}

// A full disk fails no request. The journal's file of one day refuses every write; the next day's takes what waited.
func TestCFG008DiskFull(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here")
	}
	now := frozen()
	_, url := provider(t)
	i := startAt(t, now, nil, poolOf(poolKey(k1, url)))
	journal := func() string {
		return filepath.Join(i.dir, "journal", now.now().Format(time.DateOnly)+".jsonl")
	}
	now.set(now.now().Add(24 * time.Hour))
	if err := os.Symlink("/dev/full", journal()); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		i.good(question(sonnet))
	}
	if n := strings.Count(i.log.String(), "level=ERROR"); n != 1 {
		t.Errorf("%d complaints in one minute: %s", n, i.log)
	}
	now.set(now.now().Add(time.Minute))
	i.good(question(sonnet))
	if n := strings.Count(i.log.String(), "level=ERROR"); n != 2 {
		t.Errorf("%d complaints after a minute", n)
	}
	if r := i.ask("GET", "/api/stats", ""); !strings.Contains(r.body, `"total":{"requests":21`) {
		t.Errorf("figures: %s", r.body)
	}
	now.set(now.now().Add(24 * time.Hour))
	last := i.good(question(sonnet))
	data, err := os.ReadFile(journal())
	if n := strings.Count(string(data), "\n"); err != nil || n != 22 || !strings.Contains(string(data), last.trace()) {
		t.Errorf("%d lines were caught up, want 22: %v", n, err)
	}
}

func TestCFG012DollarInSecret(t *testing.T) {
	t.Parallel()
	b := newBackend(t, says(200, whole))
	for _, secret := range []string{"k$USER-x-credential", // USER is set
		"$", "p$9x$Ab${", "${}", "a$$b", "${not a name}"} {
		i := start(t, poolOf(fmt.Sprintf(`{"id":%q,"protocol":"anthropic","base_url":%q,"api_key":%q}`, k1, b.URL, secret)))
		i.good(question(sonnet))
		got := b.requests()
		if v := got[len(got)-1].header["X-Api-Key"]; !slices.Equal(v, []string{secret}) {
			t.Errorf("upstream got %q, want %q", v, secret)
		}
	}
}

func TestCFG013UnsetVariable(t *testing.T) {
	t.Parallel()
	b := newBackend(t, says(200, whole))
	for _, secret := range []string{"${NOT_SET_X}", "sk-${NOT_SET_X}-y"} {
		unset := fmt.Sprintf(`{"id":%q,"protocol":"anthropic","base_url":%q,"api_key":%q}`, k1, b.URL, secret)
		i := start(t, poolOf(unset))
		r := i.message(question(sonnet))
		i.isRefusal(r, 429, "rate_limit_error")
		if !strings.Contains(r.body, "1 disabled") {
			t.Errorf("body %s", r.body)
		}
		if k := i.keys()[k1]; k.State != "disabled" || !strings.Contains(k.Reason, "NOT_SET_X") {
			t.Errorf("%+v", k)
		}
		if all := strings.Join(i.config().Warnings, "\n"); !strings.Contains(all, "NOT_SET_X") {
			t.Errorf("warnings %q", all)
		}
	}
	if n := len(b.requests()); n != 0 {
		t.Errorf("%d requests went upstream", n)
	}
}
