package daemon

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// upstreamCounts makes providers count tokens.
const upstreamCounts = `"count_tokens":"upstream"`

// countCase is a way in which clients ask for a count.
type countCase struct {
	name, dialect, path, body, answer string
	uri, sent                         string // upstream
}

func countCases() []countCase {
	return []countCase{
		{"anthropic", claude, "/v1/messages/count_tokens?beta=true&key=" + requestKey, ` { "model" : "nice", "messages":[{"role":"user","content":"zebra"}], "x":1.10 }`,
			`{ "input_tokens" : 2095, "context_management":{"original_input_tokens":3000} }`,
			"/v1/messages/count_tokens?beta=true", ` { "model" : "house/1", "messages":[{"role":"user","content":"zebra"}], "x":1.10 }`},
		{"anthropic below its prefix", claude, "/anthropic/v1/messages/count_tokens", `{"model":"nice","messages":[{"role":"user","content":"zebra"}]}`, `{"input_tokens":0}`,
			"/v1/messages/count_tokens", `{"model":"house/1","messages":[{"role":"user","content":"zebra"}]}`},
		// What the provider refuses is not ours to take out.
		{"a field of messages", claude, "/v1/messages/count_tokens", `{"model":"nice","max_tokens":1,"metadata":{"user_id":"u"},"messages":[{"role":"user","content":"zebra"}]}`, `{"input_tokens":7}`,
			"/v1/messages/count_tokens", `{"model":"house/1","max_tokens":1,"metadata":{"user_id":"u"},"messages":[{"role":"user","content":"zebra"}]}`},
		{"gemini", gemini, "/v1beta/models/nice:countTokens", `{"contents":[{"parts":[{"text":"zebra"}]}]}`, `{"totalTokens": 31,"promptTokensDetails":[]}`,
			"/v1beta/models/house%2F1:countTokens", `{"contents":[{"parts":[{"text":"zebra"}]}]}`},
		{"gemini's other form", gemini, "/v1/models/nice:countTokens", `{"generateContentRequest": {"x":{"model":"models/nice"},"model" : "models/nice","contents":[{"parts":[{"text":"models/nice"}]}]}}`, `{"totalTokens":31}`,
			"/v1beta/models/house%2F1:countTokens", `{"generateContentRequest": {"x":{"model":"models/nice"},"model" : "models/house/1","contents":[{"parts":[{"text":"models/nice"}]}]}}`},
	}
}

// The provider's own count comes back as it came, for the client's own bytes with the model replaced. It costs nothing.
func TestCountsUpstream(t *testing.T) {
	t.Parallel()
	for _, c := range countCases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBackend(t, says(200, c.answer, "Request-Id: up-1", "Connection: X-Hop", "X-Hop: 1", "Keep-Alive: timeout=5"))
			wrong := newBackend(t, says(500, ""))
			i := start(t, oneCaller(), upstreamCounts, poolOf(protocolKey(k1, chat, wrong.URL), protocolKey(k2, c.dialect, b.URL, `"models":{"nice":"house/1"}`)))
			r := i.send(c.dialect, c.path, c.body, "x-proxy-key: "+requestKey, "anthropic-beta: b-1", "X-Custom: 1", "Connection: X-Tmp", "X-Tmp: 1", "Cookie: a=b")
			if r.status != 200 || r.body != c.answer || r.header.Get("Request-Id") != "up-1" || r.header.Get("X-Proxy-Attempts") != "1" ||
				r.header.Get("X-Proxy-Tier") == "" || r.header.Get("X-Hop")+r.header.Get("Keep-Alive") != "" {
				t.Fatalf("status %d, %v: %s", r.status, r.header, r.body)
			}
			i.tellsNothing(r)
			got := b.only(t)
			if got.uri != c.uri || got.body != c.sent || got.length != int64(len(c.sent)) {
				t.Errorf("upstream %s: %s", got.uri, differ(got.body, c.sent))
			}
			if h := got.header; h.Get("X-Custom") != "1" || h.Get("Anthropic-Beta") != "b-1" || h.Get("X-Tmp")+h.Get("Cookie") != "" ||
				!strings.Contains(got.text(), credential(k2)) || strings.Contains(got.text(), requestKey) {
				t.Errorf("upstream's header %v", h)
			}
			rec := i.record(r.trace())
			if rec.Outcome != "ok" || rec.Key != k2 || rec.Requested != "nice" || rec.UpstreamModel != "house/1" || rec.Upstream != c.dialect || len(rec.Attempts) != 1 ||
				costsOf(rec) != (costs{}) || rec.Estimated || rec.RequestBytes != int64(len(c.body)) || rec.ResponseBytes != int64(len(c.answer)) || rec.Caller != "laptop" {
				t.Errorf("journal: %+v", rec)
			}
			if n := len(wrong.requests()); n != 0 {
				t.Errorf("%d requests went to a provider of another dialect", n)
			}
			if used := i.keys()[k2].Today.Used; used != 0 {
				t.Errorf("%d tokens were counted as used", used)
			}
		})
	}
}

// Whatever else comes back, the client gets the estimate, and the key has earned nothing by it: providers limit counting
// apart from answers, and many have no such endpoint.
func TestCountsLocallyWhereTheProviderDoesNot(t *testing.T) {
	t.Parallel()
	const body = `{"model":"nice","messages":[{"role":"user","content":"zebra"}]}`
	estimated := start(t, poolOf(poolKey(k1, nowhere(t)))).ask("POST", "/v1/messages/count_tokens", body, version).body
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request, int){
		"no such endpoint":  says(404, failure("not_found_error", "model: nice")),
		"a page":            says(404, "<html>no", "Content-Type: text/html"),
		"refused":           says(400, failure("invalid_request_error", "max_tokens: Extra inputs are not permitted")),
		"key refused":       says(401, failure("authentication_error", "invalid x-api-key")),
		"forbidden":         says(403, failure("permission_error", "no")),
		"too many":          says(429, failure("rate_limit_error", "counting is limited"), "Retry-After: 3600"),
		"over its cap":      says(402, failure("billing_error", "credit balance")),
		"overloaded":        says(529, failure("overloaded_error", "busy")),
		"broken":            says(500, failure("api_error", "internal")),
		"redirected":        says(307, "", "Location: /elsewhere"),
		"a page under 200":  says(200, "<html>yes", "Content-Type: text/html"),
		"no JSON":           says(200, `{"input_tokens":`),
		"a list":            says(200, `[1]`),
		"no count":          says(200, `{"tokens":3}`),
		"a count of text":   says(200, `{"input_tokens":"3"}`),
		"an error in 200":   says(200, failure("api_error", "internal")),
		"nothing":           says(200, ``),
		"an unknown coding": says(200, `{"input_tokens":3}`, "Content-Encoding: br"),
		"too long":          says(200, `{"input_tokens":3}`+strings.Repeat(" ", 1<<20)),
		"silent":            func(_ http.ResponseWriter, r *http.Request, _ int) { hang(r) },
		"silent in its body": func(w http.ResponseWriter, r *http.Request, _ int) {
			pour(w, `{"input_tokens":3,`)
			hang(r)
		},
		"cut off": func(w http.ResponseWriter, _ *http.Request, _ int) {
			pour(w, `{"input_tokens":3,`)
			panic(http.ErrAbortHandler)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBackend(t, func(w http.ResponseWriter, r *http.Request, n int) {
				if strings.HasSuffix(r.URL.Path, "/messages") {
					say(w, 200, whole)
					return
				}
				answer(w, r, n)
			})
			i := start(t, upstreamCounts, impatient(name), poolOf(poolKey(k1, b.URL), poolKey(k2, nowhere(t))))
			r := i.ask("POST", "/v1/messages/count_tokens", body, version)
			if r.status != 200 || r.body != estimated || r.header.Get("Content-Type") != "application/json" || r.header.Get("Retry-After") != "" {
				t.Fatalf("status %d, %v: %s, want %s", r.status, r.header, r.body, estimated)
			}
			rec := i.record(r.trace())
			if rec.Outcome != "local" || rec.Status != 200 || rec.Key != "" || len(rec.Attempts) != 1 || rec.Attempts[0].Key != k1 || costsOf(rec) != (costs{}) {
				t.Errorf("journal: %+v", rec)
			}
			i.untouched(k1, k2)
			if n := i.keys()[k1].InFlight; n != 0 {
				t.Errorf("%d leases are open", n)
			}
			b.only(t)
		})
	}
}

// impatient is the timeouts member: short ones for the case of an upstream that falls silent, so that no other meets them.
func impatient(name string) string {
	if strings.Contains(name, "silent") {
		return `"timeouts":{"first_byte_nonstream_seconds":0.5,"idle_seconds":0.5}`
	}
	return `"timeouts":{}`
}

// A key that cannot be reached, is busy or speaks another dialect is not waited for.
func TestCountsLocallyWithoutAKey(t *testing.T) {
	t.Parallel()
	const wait = `"max_wait_seconds":100000`
	body := `{"model":"nice","messages":[{"role":"user","content":"zebra"}]}`
	p, url := strict(t, "far")
	for name, pool := range map[string]string{
		"unreachable":     poolOf(poolKey(k1, nowhere(t))),
		"another dialect": poolOf(protocolKey(k1, chat, url)),
		"another model":   poolOf(poolKey(k1, url, `"models":{"other":"other"}`)),
		"switched off":    strings.Replace(poolOf(poolKey(k1, url, `"enabled":false`)), `"max_wait_seconds":0`, wait, 1),
	} {
		t.Run(name, func(t *testing.T) {
			i := start(t, upstreamCounts, pool)
			r := i.ask("POST", "/v1/messages/count_tokens", body, version)
			if rec := i.record(r.trace()); r.status != 200 || !strings.HasPrefix(r.body, `{"input_tokens":`) || rec.Outcome != "local" {
				t.Errorf("status %d: %s; journal %+v", r.status, r.body, rec)
			}
		})
	}
	t.Run("busy", func(t *testing.T) {
		b := newBackend(t, func(w http.ResponseWriter, r *http.Request, _ int) {
			pour(w, evBegin)
			hang(r)
		})
		i := start(t, upstreamCounts, strings.Replace(poolOf(poolKey(k1, b.URL, `"max_concurrent":1`)), `"max_wait_seconds":0`, wait, 1))
		l := i.open(question(sonnet, streamed))
		r := i.ask("POST", "/v1/messages/count_tokens", body, version)
		if rec := i.record(r.trace()); r.status != 200 || rec.Outcome != "local" || len(rec.Skipped) != 1 || rec.Skipped[0].Gate != "busy" {
			t.Errorf("status %d: %s; journal %+v", r.status, r.body, rec)
		}
		l.leave()
		b.only(t)
	})
	if n := len(p.Requests()); n != 0 {
		t.Errorf("%d requests went upstream", n)
	}
}

// What the client did wrong it is told, as where counts are estimates.
func TestCountRefusals(t *testing.T) {
	t.Parallel()
	b := newBackend(t, says(200, `{"input_tokens":3}`))
	i := start(t, fmt.Sprintf(`"auth":{"request_keys":[{"code":"one","api_key":%q,"group":"g"},{"code":"few","api_key":%q,"models":["allowed-*"]}],"groups":[{"name":"g","keys":[%q]}]}`,
		requestKey+"-1", requestKey+"-2", k1), upstreamCounts, poolOf(poolKey(k1, b.URL, `"models":{"m1":"m1"}`), poolKey(k2, b.URL)))
	const path = "/v1/messages/count_tokens"
	i.refuses(claude, i.ask("POST", path, `{"model":"m1","messages":[]}`, version), 401, "authentication_error")
	i.refuses(claude, i.ask("POST", path, `{"model":"m1","messages":[]}`, version, shows(2)), 403, "permission_error")
	i.refuses(claude, i.ask("POST", path, `{"messages":[]}`, version, shows(1)), 400, "invalid_request_error")
	i.refuses(claude, i.ask("POST", path, `[]`, version, shows(1)), 400, "invalid_request_error")
	// Outside of the caller's group nobody is asked.
	r := i.ask("POST", path, `{"model":"m2","messages":[{"role":"user","content":"zebra"}]}`, version, shows(1))
	if rec := i.record(r.trace()); r.status != 200 || rec.Outcome != "local" {
		t.Errorf("status %d: %s; journal %+v", r.status, r.body, rec)
	}
	if n := len(b.requests()); n != 0 {
		t.Errorf("%d requests went upstream", n)
	}
	r = i.ask("POST", path, `{"model":"m1","messages":[{"role":"user","content":"zebra"}]}`, version, shows(1))
	if r.status != 200 || r.body != `{"input_tokens":3}` || i.servedBy(r) != k1 {
		t.Errorf("status %d by %s: %s", r.status, i.servedBy(r), r.body)
	}
}

// A count asks the key that the session is bound to, and a passthrough key with the client's own credential.
func TestCountKeepsToTheSession(t *testing.T) {
	t.Parallel()
	b := newBackend(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		if strings.HasSuffix(r.URL.Path, "/messages") {
			say(w, 200, whole)
			return
		}
		say(w, 200, `{"input_tokens":3}`)
	})
	const ask = `{"model":"nice","messages":[{"role":"user","content":"zebra"}]}`
	i := start(t, upstreamCounts, sticky(poolKey(k1, b.URL, unspent), poolKey(k2, b.URL, unspent), poolKey(k3, b.URL, unspent)))
	for n := range 12 {
		id := session(fmt.Sprint("s", n))
		if bound, asked := i.servedBy(i.good(question(sonnet), id)), i.servedBy(i.ask("POST", "/v1/messages/count_tokens", ask, version, id)); asked != bound {
			t.Errorf("session %d is bound to %s, %s was asked", n, bound, asked)
		}
	}
	i = start(t, upstreamCounts, poolOf(passthroughKey(k1, b.URL)))
	r := i.ask("POST", "/v1/messages/count_tokens", ask, version, "x-api-key: "+own)
	got := b.requests()
	if last := got[len(got)-1]; r.body != `{"input_tokens":3}` || last.header.Get("X-Api-Key") != own {
		t.Errorf("status %d: %s; upstream has %v", r.status, r.body, last.header)
	}
}

// Claude Code asks for some 28 counts at once; one whose client leaves ends upstream, too.
func TestCountsAtOnce(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	b := newBackend(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		if r.Header.Get("X-Hang") != "" {
			hang(r)
			close(gone)
			return
		}
		say(w, 200, `{"input_tokens":3}`)
	})
	i := start(t, upstreamCounts, poolOf(poolKey(k1, b.URL)))
	const ask = `{"model":"nice","messages":[{"role":"user","content":"foo"}]}`
	bodies := make(chan string)
	for range 28 {
		go func() { bodies <- i.ask("POST", "/v1/messages/count_tokens", ask, version).body }()
	}
	for range 28 {
		if body := <-bodies; body != `{"input_tokens":3}` {
			t.Error(body)
		}
	}
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, err := i.transport.RoundTrip(i.request(ctx, "POST", "/v1/messages/count_tokens", strings.NewReader(ask), []string{version, "X-Hang: 1"}))
		left <- err
	}()
	await(t, "the request upstream", func() bool { return len(b.requests()) == 29 })
	leave()
	<-gone
	if err := <-left; err == nil {
		t.Error("the client that left has an answer")
	}
	await(t, "the journal's last line", func() bool { return len(i.records("")) == 29 })
	cancelled := 0
	for _, rec := range i.records("") {
		if rec.Outcome == "cancelled" {
			cancelled++
		}
	}
	if cancelled != 1 {
		t.Errorf("%d of the journal's lines are cancelled", cancelled)
	}
	i.untouched(k1)
}
