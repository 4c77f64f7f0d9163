package daemon

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"coding-proxy/proxy/demo"
)

// behind is a simulated provider; what its paths that end in `end` answer is a test's own.
func behind(t *testing.T, h http.Handler, end string, answer http.HandlerFunc) string {
	t.Helper()
	return listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, end) {
			answer(w, r)
			return
		}
		h.ServeHTTP(w, r)
	}))
}

// What a provider says to a question for a count says nothing of the sign-in either: it is not renewed for it, and is there for
// the requests.
func TestCountingLeavesTheSignInAlone(t *testing.T) {
	t.Parallel()
	for _, status := range []int{400, 401, 403, 404, 421} {
		refuses := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
		for _, c := range []struct{ provider, dialect, path, model string }{
			{"copilot", claude, "/v1/messages/count_tokens", "claude-sonnet-4.5"},
			{"antigravity", gemini, "/v1beta/models/gemini-3-pro:countTokens", "gemini-3-pro"},
		} {
			t.Run(fmt.Sprintf("%s %d", c.provider, status), func(t *testing.T) {
				t.Parallel()
				p, _ := hub(t, demo.CopilotOptions{})
				g := startGoogle(t, demo.IdentityOptions{})
				g.url = behind(t, g.host, ":countTokens", refuses)
				url := behind(t, p, "/count_tokens", refuses)
				key := antigravityKey(k1, g)
				if c.provider == "copilot" {
					key = copilotKey(k1, url, fmt.Sprintf(`"base_url":%q`, url))
				}
				i := start(t, upstreamCounts, poolOf(key))
				if r := i.say(c.dialect, c.model, false); r.status != 200 {
					t.Fatalf("status %d: %s", r.status, r.body)
				}
				exchanges := p.Exchanges() + g.Counts().Refresh
				for range 4 {
					if r := i.send(c.dialect, c.path, bodyOf(c.dialect, c.model, false)); r.status != 200 {
						t.Errorf("status %d: %s", r.status, r.body)
					}
				}
				if n := p.Exchanges() + g.Counts().Refresh - exchanges; n != 0 {
					t.Errorf("%d exchanges", n)
				}
				if r := i.say(c.dialect, c.model, false); r.status != 200 {
					t.Errorf("afterwards: status %d: %s", r.status, r.body)
				}
				i.untouched(k1)
			})
		}
	}
}

// Code Assist has no call for vectors: another key is asked for them, and where there is none, the client is told.
func TestCodeAssistLacksCalls(t *testing.T) {
	t.Parallel()
	g := startGoogle(t, demo.IdentityOptions{})
	b := newBackend(t, says(200, `{"embedding":{"values":[0.1]}}`))
	const path, body = "/v1beta/models/e:embedContent", `{"content":{"parts":[{"text":"zebra"}]}}`
	i := start(t, poolOf(antigravityKey(k1, g), protocolKey(k2, gemini, b.URL)))
	if r := i.send(gemini, path, body); r.status != 200 || i.servedBy(r) != k2 {
		t.Errorf("status %d: %s", r.status, r.body)
	}
	b.only(t)
	i.untouched(k1, k2)
	i = start(t, poolOf(antigravityKey(k1, g)))
	if r := i.send(gemini, path, body); r.status != 404 || !strings.Contains(r.body, "no call for embedContent") {
		t.Errorf("alone: status %d: %s", r.status, r.body)
	}
	i.untouched(k1)
}

// A connection that died while it was idle says nothing of the address.
func TestDeadConnectionBlamesNoAddress(t *testing.T) {
	t.Parallel()
	g := startGoogle(t, demo.IdentityOptions{})
	var n atomic.Int64
	var i *instance
	g.url = behind(t, g.host, ":generateContent", func(w http.ResponseWriter, r *http.Request) {
		switch n.Add(1) {
		case 2:
			panic(http.ErrAbortHandler)
		case 3:
			if told := string(i.reauth.Diagnoses("")[k1]); !strings.Contains(told, `"base_urls"`) || strings.Contains(told, "passed_over_until") {
				t.Error(told)
			}
		}
		g.host.ServeHTTP(w, r)
	})
	i = start(t, poolOf(antigravityKey(k1, g)))
	for range 2 {
		if r := i.say(gemini, "gemini-3-pro", false); r.status != 200 {
			t.Errorf("status %d: %s", r.status, r.body)
		}
	}
	if got := n.Load(); got != 3 {
		t.Errorf("%d requests", got)
	}
}

// The streams on which MCP servers say what they like take no request's place.
func TestMCPStreamsTakeNoPlace(t *testing.T) {
	t.Parallel()
	b := newBackend(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		if r.Method == http.MethodGet {
			pour(w, rpcEvent(1))
			hang(r)
			return
		}
		say(w, 200, whole)
	})
	i := start(t, `"limits":{"max_in_flight":1}`, mcpOf(b.URL), poolOf(poolKey(k1, b.URL)))
	s := i.opened("")
	s.expect(rpcEvent(1))
	i.good(question(sonnet))
	s.leave()
}

// The limits that a provider tells with a count are those of counting.
func TestCountingTellsNoLimits(t *testing.T) {
	t.Parallel()
	b := newBackend(t, says(200, `{"input_tokens":3}`, "Anthropic-Ratelimit-Requests-Limit: 4000", "Anthropic-Ratelimit-Requests-Remaining: 3999"))
	i := start(t, upstreamCounts, poolOf(poolKey(k1, b.URL)))
	if r := i.send(claude, "/v1/messages/count_tokens", question(sonnet)); r.status != 200 || r.body != `{"input_tokens":3}` {
		t.Fatalf("status %d: %s", r.status, r.body)
	}
	if told := i.limitsOfKey(k1); strings.Contains(told, "requests") {
		t.Error(told)
	}
}

// An error in the head of a stream names the window that is used up as well as one with a status of its own does.
func TestFamilyWindowInAStream(t *testing.T) {
	t.Parallel()
	b := newBackend(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Anthropic-Ratelimit-Unified-Status", "rejected")
		w.Header().Set("Anthropic-Ratelimit-Unified-7d_opus-Status", "rejected")
		pour(w, "event: error\ndata: "+failure("rate_limit_error", "no")+"\n\n")
	})
	i := start(t, poolOf(poolKey(k1, b.URL)))
	for _, model := range []string{"claude-opus-4-8", "claude-opus-4-5"} {
		if r := i.message(question(model, streamed)); r.status != 429 {
			t.Errorf("%s: status %d", model, r.status)
		}
	}
	b.only(t)
}
