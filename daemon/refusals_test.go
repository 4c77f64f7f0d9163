package daemon

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"coding-proxy/auth"
	"coding-proxy/proxy"
	"coding-proxy/proxy/demo"
)

// tableCase is a row of the error table in design/http.md, for a client of any dialect.
type tableCase struct {
	name   string
	make   func(t *testing.T, dialect string) (*instance, *reply)
	status int
	kind   string
	says   string   // is in the message
	param  string   // is named by the dialects that name it apart
	header []string // "name: value", or "name" for any value
	not    string   // a dialect that has no such case
}

// withKey is the configuration's way to a provider of the client's own dialect.
func withKey(t *testing.T, dialect string, steps ...demo.Step) string {
	t.Helper()
	p, url := strict(t, "own", dialect)
	p.Push(steps...)
	return poolOf(protocolKey(k1, dialect, url))
}

// TestErrorTable has each row of the error table in each dialect.
func TestErrorTable(t *testing.T) {
	t.Parallel()
	for _, c := range append(callerCases(), append(bodyCases(), ownCases()...)...) {
		for _, dialect := range allDialects() {
			if dialect == c.not {
				continue
			}
			t.Run(c.name+"/"+dialect, func(t *testing.T) {
				t.Parallel()
				i, r := c.make(t, dialect)
				f := i.in(t).refuses(dialect, r, c.status, c.kind)
				if !strings.Contains(f.message, c.says) {
					t.Errorf("%q is not in %s", c.says, f.message)
				}
				if (dialect == chat || dialect == responses) && f.param != c.param {
					t.Errorf("param %q, want %q", f.param, c.param)
				}
				for _, line := range c.header {
					name, want, given := strings.Cut(line, ": ")
					if got := r.header.Get(name); got == "" || given && got != want {
						t.Errorf("%s: %q, want %q", name, got, want)
					}
				}
			})
		}
	}
}

func callerCases() []tableCase {
	// shown asks with headers, of a daemon with a request key.
	shown := func(more []string, header ...string) func(*testing.T, string) (*instance, *reply) {
		return func(t *testing.T, d string) (*instance, *reply) {
			t.Helper()
			i := start(t, oneCaller(more...), withKey(t, d))
			return i, i.sayWith(d, header, modelOf(d), false)
		}
	}
	open := func(header ...string) func(*testing.T, string) (*instance, *reply) {
		return func(t *testing.T, d string) (*instance, *reply) {
			t.Helper()
			i := start(t, withKey(t, d))
			return i, i.sayWith(d, header, modelOf(d), false)
		}
	}
	without := func(groups ...auth.Group) func(*testing.T, string) (*instance, *reply) {
		return func(t *testing.T, d string) (*instance, *reply) {
			t.Helper()
			i := prepare(t, filepath.Join(t.TempDir(), "data"), withKey(t, d))
			i.admit(func(s *liveState) {
				s.callers = auth.NewCallers(auth.Options{
					RequestKeys: []auth.RequestKey{{Code: "laptop", Key: auth.NewSecret(requestKey), Group: "team"}}, Groups: groups,
				})
			})
			i.serve()
			return i, i.sayWith(d, []string{"x-api-key: " + requestKey}, modelOf(d), false)
		}
	}
	return []tableCase{
		{name: "401 no key", make: shown(nil), status: 401, kind: "authentication_error"},
		{name: "401 wrong key", make: shown(nil, "x-goog-api-key: request-key-of-nobody"), status: 401, kind: "authentication_error"},
		{name: "401 expired key", make: shown([]string{`"expires":"2020-01-01"`}, "x-proxy-key: "+requestKey), status: 401, kind: "authentication_error"},
		{name: "403 group unknown", make: without(), status: 403, kind: "permission_error", says: "group"},
		{name: "403 group empty", make: without(auth.Group{Name: "team"}), status: 403, kind: "permission_error", says: "group"},
		{name: "403 model", make: shown([]string{`"models":["other-*"]`}, "authorization: Bearer "+requestKey), status: 403, kind: "permission_error", says: "model"},
		{name: "403 host", make: open("Host: rebound.test"), status: 403, kind: "permission_error", says: "host"},
		{name: "403 origin", make: open("Origin: http://evil.test"), status: 403, kind: "permission_error", says: "origin"},
		{name: "403 tunnel", make: open("Via: 1.1 tunnel"), status: 403, kind: "permission_error", says: "via"},
	}
}

func bodyCases() []tableCase {
	at := func(method, body string, members []string, header ...string) func(*testing.T, string) (*instance, *reply) {
		return func(t *testing.T, d string) (*instance, *reply) {
			t.Helper()
			i := start(t, append(members, withKey(t, d))...)
			return i, i.ask(method, pathOf(d, modelOf(d), false), body, header...)
		}
	}
	with := func(more string) func(*testing.T, string) (*instance, *reply) {
		return func(t *testing.T, d string) (*instance, *reply) {
			t.Helper()
			i := start(t, withKey(t, d))
			body := bodyOf(d, modelOf(d), false)
			return i, i.send(d, pathOf(d, modelOf(d), false), strings.TrimSuffix(body, "}")+more+"}")
		}
	}
	bad := func(name, body, says string) tableCase {
		return tableCase{name: "400 " + name, make: at("POST", body, nil), status: 400, kind: "invalid_request_error", says: says}
	}
	field := func(name, more, param string) tableCase {
		return tableCase{name: "400 " + name, make: with(more), status: 400, kind: "invalid_request_error", says: param, param: param, not: gemini}
	}
	model := bad("no model", `{"max_tokens":64}`, "model")
	model.param, model.not = "model", gemini
	unserved := func(t *testing.T, d string) (*instance, *reply) {
		t.Helper()
		_, url := strict(t, "own", d)
		i := start(t, poolOf(protocolKey(k1, d, url, `"models":{"house-model-1":"m"}`)))
		return i, i.say(d, "house-model-2", false)
	}
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, _ = w.Write(bytes.Repeat([]byte(" "), 1<<20))
	w.Close()
	limit := []string{`"limits":{"max_body_bytes":5000}`}
	return []tableCase{
		bad("empty", "", "JSON"), bad("text", "hello", "JSON"), bad("array", "[]", "JSON"), bad("cut", `{"a":`, "JSON"), model,
		field("repeated model", `,"mod\u0065l":"m"`, "model"),
		field("repeated stream", `,"stream":false,"stream":false`, "stream"),
		field("repeated max_tokens", `,"max_tokens":3,"max_tokens":3`, "max_tokens"),
		field("repeated metadata", `,"metadata":{},"metadata":{}`, "metadata"),
		field("stream no boolean", `,"stream":"yes"`, "stream"),
		{name: "404 model", make: unserved, status: 404, kind: "not_found_error", says: "near names: house-model-1", param: "model"},
		{name: "405", make: at("PATCH", "", nil), status: 405, kind: "invalid_request_error", header: []string{"Allow"}},
		{name: "413", make: at("POST", strings.Repeat(" ", 5001), limit), status: 413, kind: "request_too_large", says: "5000"},
		{name: "413 gzip", make: at("POST", zipped.String(), limit, "Content-Encoding: gzip"), status: 413, kind: "request_too_large"},
		{name: "415 zstd", make: at("POST", "\x28\xb5\x2f\xfd", nil, "Content-Encoding: zstd"), status: 415, kind: "invalid_request_error", says: "zstd"},
		{name: "426", make: at("POST", "", nil, "Connection: Upgrade", "Upgrade: websocket"), status: 426, kind: "invalid_request_error",
			header: []string{"Upgrade: HTTP/1.1"}},
	}
}

func ownCases() []tableCase {
	against := func(steps ...demo.Step) func(*testing.T, string) (*instance, *reply) {
		return func(t *testing.T, d string) (*instance, *reply) {
			t.Helper()
			i := start(t, withKey(t, d, steps...))
			for range len(steps) - 1 {
				i.say(d, modelOf(d), false)
			}
			return i, i.say(d, modelOf(d), false)
		}
	}
	exhausted := func(t *testing.T, d string) (*instance, *reply) {
		t.Helper()
		i := start(t, withKey(t, d, demo.Step{Status: 429, Header: http.Header{"Retry-After": {"90"}}}))
		i.say(d, modelOf(d), false)
		r := i.say(d, modelOf(d), false)
		if s, err := strconv.Atoi(r.header.Get("Retry-After")); err != nil || s < 60 || s > 100 {
			t.Errorf("retry-after %q", r.header.Get("Retry-After"))
		}
		return i, r
	}
	panics := func(t *testing.T, d string) (*instance, *reply) {
		t.Helper()
		i := prepare(t, filepath.Join(t.TempDir(), "data"), withKey(t, d))
		// Routes without a handler: calling one panics.
		i.server.proxyRoutes = nil
		for _, pattern := range []string{"/anthropic/panic", "/openai/panic", "/v1/responses/panic/panic", "/gemini/panic"} {
			_, path, _, _ := proxy.Match(nil, "GET", pattern)
			i.server.proxyRoutes = append(i.server.proxyRoutes, proxy.Route{Methods: []string{"GET"}, Pattern: path, Dialect: d, Guard: proxy.GuardNone})
		}
		i.serve()
		return i, i.ask("GET", map[string]string{claude: "/anthropic", chat: "/openai", responses: "/v1/responses/panic", gemini: "/gemini"}[d]+"/panic", "")
	}
	busy := func(members string, after func(*instance)) func(*testing.T, string) (*instance, *reply) {
		return func(t *testing.T, d string) (*instance, *reply) {
			t.Helper()
			hold := demo.HoldAt(1)
			i := start(t, members, withKey(t, d, demo.Step{Hold: hold}))
			answer := make(chan *reply, 1)
			go func() { answer <- i.say(d, modelOf(d), false) }()
			<-hold.Reached()
			if after != nil {
				after(i)
				await(t, "the drain", i.server.draining.Load)
			}
			r := i.say(d, modelOf(d), false)
			hold.Release()
			if first := <-answer; first.status != 200 {
				t.Errorf("what was in flight: %d", first.status)
			}
			return i, r
		}
	}
	unreachable := func(t *testing.T, d string) (*instance, *reply) {
		t.Helper()
		i := start(t, poolOf(protocolKey(k1, d, nowhere(t)), protocolKey(k2, d, nowhere(t))))
		return i, i.say(d, modelOf(d), false)
	}
	silent := func(stream bool) func(*testing.T, string) (*instance, *reply) {
		return func(t *testing.T, d string) (*instance, *reply) {
			t.Helper()
			i := start(t, `"timeouts":{"first_byte_seconds":0.05,"first_byte_nonstream_seconds":0.05}`, withKey(t, d, demo.Step{Hold: demo.HoldAt(0)}))
			return i, i.say(d, modelOf(d), stream)
		}
	}
	return []tableCase{
		{name: "429 exhausted", make: exhausted, status: 429, kind: "rate_limit_error", says: "key pool exhausted"},
		{name: "500 panic", make: panics, status: 500, kind: "api_error", says: "trace "},
		{name: "502 no connection", make: unreachable, status: 502, kind: "api_error"},
		{name: "502 a page under 200", make: against(demo.Step{Raw: "<html>login</html>"}), status: 502, kind: "api_error"},
		{name: "RET-020 502 a page under 403", make: against(demo.Step{Status: 403, Raw: "<html>Just a moment...</html>"}), status: 502, kind: "api_error"},
		{name: "502 redirect", make: against(demo.Step{Raw: "x", Status: 302}), status: 502, kind: "api_error"},
		{name: "503 stopping", make: busy(`"log":{}`, func(i *instance) { i.finish() }), status: 503, kind: "overloaded_error", header: []string{"Retry-After"}},
		{name: "503 in flight", make: busy(`"limits":{"max_in_flight":1}`, nil), status: 503, kind: "overloaded_error", header: []string{"Retry-After"}},
		{name: "503 credential 401", make: against(demo.Step{Status: 401}), status: 503, kind: "api_error", says: "upstream credential rejected", header: []string{"Retry-After"}},
		{name: "503 credential 403", make: against(demo.Step{Status: 403}), status: 503, kind: "api_error", says: "upstream credential rejected", header: []string{"Retry-After"}},
		{name: "504 plain", make: silent(false), status: 504, kind: "timeout_error"},
		{name: "504 stream", make: silent(true), status: 504, kind: "timeout_error"},
	}
}

// An unknown path is refused in the dialect that it or the headers suggest.
func TestUnknownPaths(t *testing.T) {
	t.Parallel()
	i := start(t, withKey(t, claude))
	for _, c := range []struct{ path, header, dialect string }{
		{"/v3", "", claude},
		{"/v2/messages", "", claude},
		{"/anthropic/v9", "", claude},
		{"/v9", version, claude},
		{"/openai/v9", "", chat},
		{"/v9/chat/completions", "", chat},
		{"/v9", "User-Agent: OpenAI/Python 2.1.0", chat},
		{"/v9", "User-Agent: AsyncOpenAI/Python 2.1.0", chat},
		{"/v1/files", "User-Agent: OpenAI/JS 6.1.0", chat},
		{"/v1/responses/a/input_items", "", responses},
		{"/v2/responses", "", responses},
		{"/gemini/v9", "", gemini},
		{"/v1beta/files", "", gemini},
		{"/v9", "X-Goog-Api-Key: x", gemini},
		{"/v9", "X-Goog-Api-Client: google-genai-sdk/1.0", gemini},
		{"/v1beta/models/m:predict", "", gemini},
		{"/v1/models/m:predict", "X-Goog-Api-Key: x", gemini},
	} {
		t.Run(c.path+" "+c.header, func(t *testing.T) {
			r := i.in(t).ask("POST", c.path, "{}", c.header)
			i.in(t).refuses(c.dialect, r, 404, "not_found_error")
		})
	}
}

// SEC-016: a name cannot break out of the error that repeats it.
func TestSEC016ErrorJSONInjectionInEachDialect(t *testing.T) {
	t.Parallel()
	for _, dialect := range []string{chat, responses} {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			_, url := strict(t, "own", dialect)
			i := start(t, poolOf(protocolKey(k1, dialect, url, `"models":{"m":"m"}`)))
			for _, name := range []string{`m","code":"rate_limit_exceeded","z":"`, `a"b`, `a\b`, "a\nb", "a\u2028b", "a\x00b", `</script>`, "\u202e", "模型"} {
				quoted, err := json.Marshal(name)
				if err != nil {
					t.Fatal(err)
				}
				r := i.send(dialect, pathOf(dialect, "", false), strings.Replace(bodyOf(dialect, "MODEL", false), `"MODEL"`, string(quoted), 1))
				if f := i.refuses(dialect, r, 404, "not_found_error"); f.code != "model_not_found" || f.param != "model" {
					t.Errorf("%q: %s", name, r.body)
				}
			}
		})
	}
	t.Run(gemini, func(t *testing.T) {
		t.Parallel()
		_, url := strict(t, "own", gemini)
		i := start(t, poolOf(protocolKey(k1, gemini, url, `"models":{"m":"m"}`)))
		for _, name := range []string{`m%22,%22status%22:%22UNAVAILABLE`, `a%22b`, `%3C%2Fscript%3E`, "%E2%80%AE", "a%E2%80%A8b"} {
			r := i.send(gemini, "/v1beta/models/"+name+":generateContent", bodyOf(gemini, "", false))
			status, kind := 404, "not_found_error"
			if strings.Contains(name, "%2F") {
				status, kind = 400, "invalid_request_error"
			}
			i.refuses(gemini, r, status, kind)
		}
	})
}

// What an upstream of another dialect refuses reaches the client in its own: status, type, code, and when to come again.
func TestUpstreamErrorsConverted(t *testing.T) {
	t.Parallel()
	for _, from := range allDialects() {
		for _, to := range allDialects() {
			if from == to {
				continue
			}
			for _, c := range []struct {
				step   demo.Step
				status int
				kind   string
			}{
				{demo.Step{Status: 400, Message: "no such thing"}, 400, "invalid_request_error"},
				{demo.Step{Status: 404, Message: "no such thing"}, 404, "not_found_error"},
				{demo.Step{Status: 429, Header: http.Header{"Retry-After": {"70"}}}, 429, "rate_limit_error"},
				{demo.Step{Status: 500, Message: "no such thing"}, 500, "api_error"},
				{demo.Step{Status: 503, Type: "overloaded_error"}, 503, "overloaded_error"},
				{demo.Step{Status: 529, Type: "overloaded_error"}, 529, "overloaded_error"},
				{demo.Step{Status: 401}, 503, "api_error"},
			} {
				for _, stream := range []bool{false, true} {
					t.Run(fmt.Sprintf("%d/%s to %s/stream %t", c.step.Status, from, to, stream), func(t *testing.T) {
						t.Parallel()
						p, url := strict(t, "far", from)
						p.Push(c.step)
						i := start(t, poolOf(protocolKey(k1, from, url)))
						r := i.say(to, modelOf(from), stream)
						f := i.refuses(to, r, c.status, c.kind)
						if c.step.Message != "" && f.message != c.step.Message {
							t.Errorf("message %q", f.message)
						}
						after, err := strconv.Atoi(r.header.Get("Retry-After"))
						if c.status == 429 && (err != nil || after != 70 || to == gemini && f.retry != "70s") {
							t.Errorf("retry-after %q, RetryInfo %q", r.header.Get("Retry-After"), f.retry)
						}
						if rec := i.record(r.trace()); rec.Outcome != "error" || rec.Status != r.status || rec.Dialect != to {
							t.Errorf("journal: %+v", rec)
						}
					})
				}
			}
		}
	}
}
