//go:build linux

package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	"coding-proxy/proxy/demo"
)

// e2eSDK is what testdata/e2e/sdk.mjs prints.
type e2eSDK struct {
	Text       string
	StopReason string `json:"stop_reason"`
	RequestID  string `json:"request_id"`
	Seen       string
	IDs        []string
	Retrieved  string
	Tokens     int `json:"input_tokens"`
	Error      *struct {
		Class   string
		API     bool
		Status  int
		Type    string
		Message string
	}
}

// testSDK runs the cases with both majors: 1.x sends the key as Bearer and anthropic-version 2026-10-21, 0.x as x-api-key and 2023-06-01.
func (c *e2eClients) testSDK(t *testing.T) {
	for major, name := range map[string]string{"1": "@anthropic-ai/sdk", "0": "anthropic-sdk-0"} {
		t.Run(major, func(t *testing.T) {
			s := sdkUnderTest{c, name}
			t.Run("same as without the proxy", s.testTransparent)
			t.Run("plain answer in journal and stats", s.testRecorded)
			t.Run("survives a kill", s.testKilled)
			t.Run("failures that nobody sees", s.testFailover)
			t.Run("failures of every key", s.testExhausted)
			t.Run("broken streams", s.testBroken)
			t.Run("stream outlasts a stop", s.testDrained)
			t.Run("user stops", s.testAborted)
			t.Run("count_tokens", s.testCount)
			t.Run("models", s.testModels)
			t.Run("wrong key", s.testWrongKey)
		})
	}
}

// sdkUnderTest is one major of the SDK.
type sdkUnderTest struct {
	clients *e2eClients
	name    string
}

// raw runs one case of sdk.mjs and returns its line of JSON.
func (s sdkUnderTest) raw(t *testing.T, url, key, which string) string {
	t.Helper()
	env := []string{"HOME=" + t.TempDir(), "BASE_URL=" + url, "API_KEY=" + key}
	run := e2eExecute(t, s.clients.project, env, s.clients.node, "sdk.mjs", s.name, which)
	if run.exit != 0 {
		t.Fatalf("sdk.mjs %s: exit %d\n%s%s", which, run.exit, run.stdout, run.stderr)
	}
	return run.stdout
}

// do runs one case through the proxy.
func (s sdkUnderTest) do(t *testing.T, p *e2eProxy, which string) e2eSDK {
	t.Helper()
	line := s.raw(t, p.url, e2eCallerKey, which)
	var result e2eSDK
	if err := json.Unmarshal([]byte(line), &result); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	return result
}

// testTransparent: the client gets the same through the proxy as without it, and the provider gets the same bytes and headers.
func (s sdkUnderTest) testTransparent(t *testing.T) {
	weather := []demo.Step{
		{Thinking: "Two calls.", Text: "I look.", Tools: []demo.Tool{
			{Name: "weather", Input: json.RawMessage(`{"city":"Ulm"}`)},
			{Name: "weather", Input: json.RawMessage(`{"city":"Köln"}`)},
		}},
		{Text: "The walrus likes it. "},
	}
	everywhere := demo.Step{Text: e2eAnswer, Usage: demo.Usage{Input: 10, Output: 20, CacheCreation: 30, CacheRead: 40}, Pings: 3}
	for which, steps := range map[string][]demo.Step{
		"plain":       {everywhere},
		"stream":      {everywhere, everywhere},
		"tool":        weather,
		"accumulated": {{Status: 400, Message: "The walrus cannot: prompt is too long: 1000001 tokens > 1000000 maximum"}},
		"broken":      {{Text: e2eAnswer, Break: demo.ErrorEvent, After: 5, Type: "overloaded_error", Message: "Overloaded"}},
	} {
		t.Run(which, func(t *testing.T) {
			direct, behind := e2eServe(t, "k1"), e2eServe(t, "k1") // equal ones: they give out the same ids
			direct.Push(steps...)
			behind.Push(steps...)
			want := s.raw(t, direct.key.BaseURL, direct.key.APIKey, which)
			p := s.clients.start(t, "", behind)
			if got := s.raw(t, p.url, e2eCallerKey, which); got != want {
				t.Errorf("with the proxy %swithout %s", got, want)
			}
			sent, came := direct.Requests(), behind.Requests()
			if len(came) != len(sent) {
				t.Fatalf("%d requests came, %d were sent", len(came), len(sent))
			}
			for i := range sent {
				s.compare(t, came[i], sent[i])
			}
		})
	}
}

// compare allows only what design/http.md names: another credential, and identity as encoding.
func (s sdkUnderTest) compare(t *testing.T, came, sent demo.Request) {
	t.Helper()
	if came.Method != sent.Method || came.Path != sent.Path || came.Query != sent.Query {
		t.Errorf("%s %s?%s, sent %s %s?%s", came.Method, came.Path, came.Query, sent.Method, sent.Path, sent.Query)
	}
	if string(came.Body) != string(sent.Body) {
		t.Errorf("body %s\n sent %s", came.Body, sent.Body)
	}
	if got := came.Header.Get("accept-encoding"); got != "identity" {
		t.Errorf("accept-encoding %q", got)
	}
	for _, h := range []http.Header{came.Header, sent.Header} {
		for _, name := range []string{"accept-encoding", "authorization", "x-api-key", "connection"} {
			h.Del(name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sent.Header)) {
		if got, want := came.Header.Values(name), sent.Header.Values(name); !slices.Equal(got, want) {
			t.Errorf("%s: %q, sent %q", name, got, want)
		}
		came.Header.Del(name)
	}
	if len(came.Header) > 0 {
		t.Errorf("headers that the client did not send: %v", came.Header)
	}
}

func (s sdkUnderTest) testRecorded(t *testing.T) {
	provider := e2eServe(t, "k1")
	provider.Push(demo.Step{Text: e2eAnswer, Usage: demo.Usage{Input: 10, Output: 20, CacheCreation: 30, CacheRead: 40}})
	p := s.clients.start(t, "", provider)
	if got := s.do(t, p, "plain"); got.Text != e2eAnswer || got.RequestID == "" {
		t.Fatalf("%+v", got)
	}
	line := p.last(t, 1)
	if line.Caller != "laptop" || line.Dialect != "anthropic" || line.Key != "k1" || line.Outcome != "ok" || line.Model != e2eModel ||
		line.Stream || line.Status != 200 || line.StopReason != "end_turn" || len(line.Attempts) != 1 {
		t.Errorf("journal: %+v", line)
	}
	if line.Input != 10 || line.Output != 20 || line.CacheCreation != 30 || line.CacheRead != 40 || line.Estimated {
		t.Errorf("tokens: %+v", line)
	}
	var stats struct {
		Total struct {
			Requests, Errors int64
			Input            int64 `json:"input_tokens"`
			CacheRead        int64 `json:"cache_read_tokens"`
		}
	}
	if p.get(t, "/api/stats?window=today", &stats); stats.Total.Requests != 1 || stats.Total.Errors != 0 || stats.Total.Input != 10 || stats.Total.CacheRead != 40 {
		t.Errorf("stats: %+v", stats)
	}
	if key := p.poolKeys(t)["k1"]; key.State != "ready" || key.InFlight != 0 || key.Today.Used != 10+20+30+4 {
		t.Errorf("pool: %+v", key)
	}
}

// e2ePoolKey is a key in /api/pool/stats.
type e2ePoolKey struct {
	ID, State string
	InFlight  int `json:"in_flight"`
	Sessions  int
	Today     struct{ Used int64 }
	Models    []struct{ Model, State string }
}

func (p *e2eProxy) poolKeys(t *testing.T) map[string]e2ePoolKey {
	t.Helper()
	var pool struct{ Tiers []struct{ Keys []e2ePoolKey } }
	p.get(t, "/api/pool/stats", &pool)
	keys := map[string]e2ePoolKey{}
	for _, tier := range pool.Tiers {
		for _, key := range tier.Keys {
			keys[key.ID] = key
		}
	}
	return keys
}

// testKilled: what a client has seen the end of is in the journal, even if the process is killed right after.
func (s sdkUnderTest) testKilled(t *testing.T) {
	p := s.clients.start(t, "", e2eServe(t, "k1"))
	if got := s.do(t, p, "stream"); got.Text != e2eAnswer {
		t.Fatalf("%+v", got)
	}
	p.kill()
	p.last(t, 2)
	p.run(t)
	var stats struct{ Total struct{ Requests int64 } }
	if p.get(t, "/api/stats?window=today", &stats); stats.Total.Requests != 2 {
		t.Errorf("stats after the restart: %+v", stats)
	}
}

// testFailover: whatever the first key does before the first word, the answer comes from the second.
func (s sdkUnderTest) testFailover(t *testing.T) {
	for name, step := range map[string]demo.Step{
		"429 with retry-after":     {Status: 429, Header: http.Header{"Retry-After": {"30"}}},
		"529":                      {Status: 529},
		"500":                      {Status: 500},
		"401":                      {Status: 401},
		"credit used up":           {Status: 400, Message: "Your credit balance is too low to access the Anthropic API."},
		"page of HTML":             {Raw: "<html>502 Bad Gateway</html>"},
		"error as first event":     {Break: demo.ErrorEvent},
		"error before content":     {Break: demo.ErrorEvent, After: 3},
		"cut before the head":      {Break: demo.Cut},
		"cut before content":       {Break: demo.Cut, After: 3},
		"clean end before content": {Break: demo.End, After: 3},
	} {
		t.Run(name, func(t *testing.T) {
			first, second := e2eServe(t, "k1"), e2eServe(t, "k2")
			first.Always(step)
			p := s.clients.start(t, "fill-first", first, second)
			if got := s.do(t, p, "accumulated"); got.Text != e2eAnswer {
				t.Fatalf("%+v, %+v", got, got.Error)
			}
			line := p.last(t, 1)
			if line.Outcome != "ok" || line.Key != "k2" || len(line.Attempts) != 2 || line.Attempts[0].Key != "k1" || line.Attempts[1].Key != "k2" {
				t.Errorf("journal: %+v", line)
			}
			if first.generated() < 1 || second.generated() != 1 {
				t.Errorf("requests: %d and %d", first.generated(), second.generated())
			}
		})
	}
}

// testExhausted: when every key has failed, the client gets the provider's own words, at once; but never learns that a key of ours is bad.
func (s sdkUnderTest) testExhausted(t *testing.T) {
	for name, test := range map[string]struct {
		step   demo.Step
		status int
		kind   string
	}{
		"429": {demo.Step{Status: 429}, 429, "rate_limit_error"},
		"529": {demo.Step{Status: 529}, 529, "overloaded_error"},
		"401": {demo.Step{Status: 401}, 503, "api_error"},
	} {
		t.Run(name, func(t *testing.T) {
			first, second := e2eServe(t, "k1"), e2eServe(t, "k2")
			first.Always(test.step)
			second.Always(test.step)
			p := s.clients.start(t, "fill-first", first, second)
			if got := s.do(t, p, "plain"); got.Error == nil || got.Error.Status != test.status || got.Error.Type != test.kind {
				t.Errorf("%+v, %+v", got, got.Error)
			}
			line := p.last(t, 1)
			if line.Outcome != "error" || line.Status != test.status || len(line.Attempts) != 2 {
				t.Errorf("journal: %+v", line)
			}
			if line.Milliseconds > 3000 { // pool.max_wait_seconds is 5: there was nothing to wait for
				t.Errorf("the client had to wait %d ms for the error", line.Milliseconds)
			}
		})
	}
}

// testBroken: after the first word an error is the client's, and never looks like an end.
func (s sdkUnderTest) testBroken(t *testing.T) {
	for name, step := range map[string]demo.Step{
		"error event":   {Break: demo.ErrorEvent, Type: "overloaded_error"},
		"cut":           {Break: demo.Cut},
		"clean end":     {Break: demo.End},
		"half an event": {Raw: halfAnEvent, ContentType: "text/event-stream"}, // comes with a content-length, which must not bind the relay
	} {
		t.Run(name, func(t *testing.T) {
			first, second := e2eServe(t, "k1"), e2eServe(t, "k2")
			step.Text, step.After = e2eAnswer, 5
			first.Always(step)
			p := s.clients.start(t, "fill-first", first, second)
			got := s.do(t, p, "broken")
			if got.Seen != "The walrus " || got.Error == nil || !got.Error.API {
				t.Errorf("%+v, %+v", got, got.Error)
			}
			if first.generated() != 1 || second.generated() != 0 {
				t.Errorf("requests: %d and %d", first.generated(), second.generated())
			}
			p.stop(t) // a broken response may be written down a little later than its end is seen
			if line := p.last(t, 1); line.Outcome != "broken" || line.Key != "k1" || len(line.Attempts) != 1 || line.Input == 0 || line.Output == 0 || !line.Estimated {
				t.Errorf("journal: %+v", line)
			}
		})
	}
}

// halfAnEvent is a stream that ends within a line.
const halfAnEvent = `event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-opus-5-5","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":7,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"The walrus "}}

event: content_block_delta
data: {"type":"content_block_delta","ind`

// testDrained: SIGTERM while a stream is under way; new requests are refused, the stream comes to its end.
func (s sdkUnderTest) testDrained(t *testing.T) {
	provider := e2eServe(t, "k1")
	hold := demo.HoldAt(5)
	provider.Push(demo.Step{Text: e2eAnswer, Hold: hold})
	p := s.clients.start(t, "", provider)
	refused := make(chan error, 1)
	go func() {
		defer hold.Release()
		<-hold.Reached()
		p.command.Process.Signal(syscall.SIGTERM)
		refused <- p.untilRefused(t.Context())
	}()
	if got := s.do(t, p, "accumulated"); got.Text != e2eAnswer {
		t.Errorf("%+v, %+v", got, got.Error)
	}
	if err := <-refused; err != nil {
		t.Error(err)
	}
	<-p.exited
	if line := p.last(t, 1); line.Outcome != "ok" || line.Estimated {
		t.Errorf("journal: %+v", line)
	}
}

// untilRefused asks until the answer is 503.
func (p *e2eProxy) untilRefused(ctx context.Context) error {
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/v1/models", nil)
		if err != nil {
			return err
		}
		response, err := new(http.Client).Do(request)
		if err != nil {
			return fmt.Errorf("a request while stopping got no answer: %w", err)
		}
		response.Body.Close()
		if response.StatusCode == http.StatusServiceUnavailable {
			return nil
		}
	}
}

func (s sdkUnderTest) testAborted(t *testing.T) {
	provider := e2eServe(t, "k1")
	hold := demo.HoldAt(5)
	provider.Push(demo.Step{Text: e2eAnswer, Hold: hold})
	p := s.clients.start(t, "", provider)
	if got := s.do(t, p, "abort"); got.Error == nil || got.Error.Class != "APIUserAbortError" {
		t.Fatalf("%+v, %+v", got, got.Error)
	}
	if err := provider.Wait(t.Context(), 1); err != nil { // never released: it ends only if the proxy hangs up
		t.Fatal(err)
	}
	if got := provider.Requests()[0].Outcome; got != demo.CutByClient {
		t.Errorf("outcome at the provider: %q", got)
	}
	p.stop(t)
	if line := p.last(t, 1); line.Outcome != "cancelled" {
		t.Errorf("journal: %+v", line)
	}
}

func (s sdkUnderTest) testCount(t *testing.T) {
	provider := e2eServe(t, "k1")
	p := s.clients.start(t, "", provider)
	// the one tool alone brings some 350 tokens of instructions
	if got := s.do(t, p, "count"); got.Tokens < 50 || got.Tokens > 1000 {
		t.Errorf("%+v, %+v", got, got.Error)
	}
	if n := len(provider.Requests()); n != 0 {
		t.Errorf("%d requests at the provider; tokens are counted here by default", n)
	}
}

func (s sdkUnderTest) testModels(t *testing.T) {
	provider := e2eServe(t, "k1")
	provider.key.Models = map[string]string{e2eModel: e2eModel, "claude-haiku-5-5": "claude-haiku-5-5", "claude-sonnet-5-5": "claude-sonnet-5-5"}
	p := s.clients.start(t, "", provider)
	got := s.do(t, p, "models")
	slices.Sort(got.IDs)
	if strings.Join(got.IDs, " ") != "claude-haiku-5-5 claude-opus-5-5 claude-sonnet-5-5" || got.Retrieved != e2eModel {
		t.Errorf("%+v, %+v", got, got.Error)
	}
}

func (s sdkUnderTest) testWrongKey(t *testing.T) {
	provider := e2eServe(t, "k1")
	p := s.clients.start(t, "", provider)
	var got e2eSDK
	if err := json.Unmarshal([]byte(s.raw(t, p.url, "wrong", "plain")), &got); err != nil {
		t.Fatal(err)
	}
	if got.Error == nil || got.Error.Status != http.StatusUnauthorized || got.Error.Type != "authentication_error" {
		t.Errorf("%+v, %+v", got, got.Error)
	}
	if n := len(provider.Requests()); n != 0 {
		t.Errorf("%d requests at the provider", n)
	}
}
