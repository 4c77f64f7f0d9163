package daemon

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"coding-proxy/proxy/demo"
)

// What goes upstream in the client's own dialect are the client's bytes, with the model replaced.
func TestRawRequests(t *testing.T) {
	t.Parallel()
	odd := `"z":{"model":"inner","b":[1.10,1e22,9007199254740993,-0.0]}, "a" : "\u00e9\ud83d\ude00 <a&b> \/", "metadata":{"model":"inner"}`
	for _, c := range []struct {
		name, dialect, path, body string
		models                    string // of the key
		uri                       string
		old, new                  string // in the body
		header                    []string
	}{
		{name: "chat", dialect: chat, path: "/v1/chat/completions", body: "\n{ " + odd + `, "model" :  "nice" ,"messages":[{"role":"user","content":"zebra"}]}` + "\n",
			models: `{"nice":"house/\"1\""}`, uri: "/v1/chat/completions", old: `"nice"`, new: `"house/\"1\""`},
		{name: "chat unchanged", dialect: chat, path: "/v1/chat/completions?api-version=2", body: `{"mod\u0065l":"nic\u0065",` + odd + `,"messages":[]}`,
			models: `{"*":"*"}`, uri: "/v1/chat/completions?api-version=2"},
		{name: "chat below openai", dialect: chat, path: "/openai/v1/chat/completions?key=" + requestKey + "&a=1", body: `{"model":"nice","messages":[]}`,
			models: `{"*":"*"}`, uri: "/v1/chat/completions?a=1"},
		{name: "responses", dialect: responses, path: "/v1/responses", body: `{` + odd + `,"model":"nice","input":[{"type":"item_of_tomorrow","model":"x"}],"include":["reasoning.encrypted_content"]}`,
			models: `{"nice":"other"}`, uri: "/v1/responses", old: `"nice"`, new: `"other"`, header: []string{"OpenAI-Beta: responses=v1", "Session_id: s1"}},
		{name: "gemini", dialect: gemini, path: "/v1beta/models/nice:generateContent", body: `{` + odd + `,"contents":[{"role":"user","parts":[{"inline_data":{"mime_type":"image/png","data":"aQ=="}}]}],"generation_config":{"max_output_tokens":9},"model":"models/x"}`,
			models: `{"*":"*"}`, uri: "/v1beta/models/nice:generateContent"},
		{name: "gemini mapped", dialect: gemini, path: "/v1beta/models/nice:generateContent?key=" + requestKey, body: `{"contents":[],` + odd + `}`,
			models: `{"nice":"模 1/x"}`, uri: "/v1beta/models/%E6%A8%A1%201%2Fx:generateContent"},
		{name: "gemini stream", dialect: gemini, path: "/v1beta/models/nice:streamGenerateContent?alt=sse&key=" + requestKey + "&$fields=a", body: `{"contents":[]}`,
			models: `{"nice":"other"}`, uri: "/v1beta/models/other:streamGenerateContent?alt=sse&$fields=a"},
		{name: "gemini array", dialect: gemini, path: "/v1beta/models/nice:streamGenerateContent?alt=json", body: `{"contents":[]}`,
			models: `{"nice":"other"}`, uri: "/v1beta/models/other:streamGenerateContent?alt=json"},
		{name: "gemini v1", dialect: gemini, path: "/gemini/v1/models/nice:generateContent", body: `{"contents":[]}`,
			models: `{"nice":"other"}`, uri: "/v1beta/models/other:generateContent"},
		{name: "gemini escaped", dialect: gemini, path: "/v1beta/models/%E6%A8%A1:generateContent", body: `{"contents":[]}`,
			models: `{"*":"*"}`, uri: "/v1beta/models/%E6%A8%A1:generateContent"},
		{name: "gemini with a colon", dialect: gemini, path: "/v1beta/models/llama:8b:generateContent", body: `{"contents":[]}`,
			models: `{"llama:8b":"other:9b"}`, uri: "/v1beta/models/other:9b:generateContent"},
		{name: "gemini tuned", dialect: gemini, path: "/v1beta/tunedModels/mine-1:generateContent", body: `{"contents":[]}`,
			models: `{"*":"*"}`, uri: "/v1beta/tunedModels/mine-1:generateContent"},
		{name: "gemini to a tuned one", dialect: gemini, path: "/v1beta/models/nice:generateContent", body: `{"contents":[]}`,
			models: `{"nice":"tunedModels/mine-1"}`, uri: "/v1beta/tunedModels/mine-1:generateContent"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			answer := says(200, plainAnswer(c.dialect))
			if strings.Contains(c.path, "alt=sse") {
				answer = pours(geminiAll)
			} else if strings.Contains(c.path, "stream") {
				answer = says(200, geminiArray)
			}
			b := newBackend(t, answer)
			i := start(t, oneCaller(), poolOf(protocolKey(k1, c.dialect, b.URL, `"models":`+c.models)))
			r := i.send(c.dialect, c.path, c.body, append(c.header, "x-proxy-key: "+requestKey)...)
			if r.status != 200 || r.err != nil {
				t.Fatalf("status %d, %v: %s", r.status, r.err, r.body)
			}
			got := b.only(t)
			want := c.body
			if c.old != "" {
				want = strings.Replace(c.body, c.old, c.new, 1)
			}
			if got.body != want || got.length != int64(len(want)) {
				t.Errorf("body of %d bytes: %s", got.length, differ(got.body, want))
			}
			if got.uri != c.uri {
				t.Errorf("path %s, want %s", got.uri, c.uri)
			}
			for _, line := range c.header {
				name, value, _ := strings.Cut(line, ": ")
				if got.header.Get(name) != value {
					t.Errorf("%s: %q", name, got.header.Get(name))
				}
			}
			name, credentialOf := "Authorization", "Bearer "+credential(k1)
			if c.dialect == gemini {
				name, credentialOf = "X-Goog-Api-Key", credential(k1)
			}
			if got.header.Get(name) != credentialOf || strings.Contains(got.text(), requestKey) {
				t.Errorf("credentials: %s", got.text())
			}
		})
	}
}

// A model in the path is one segment: nothing leads elsewhere upstream (SEC-017).
func TestSEC017GeminiPaths(t *testing.T) {
	t.Parallel()
	b := newBackend(t, says(200, geminiLast))
	i := start(t, poolOf(protocolKey(k1, gemini, b.URL)))
	for name, want := range map[string]string{
		"..": "400", "%2e%2e": "400", "..%2fx": "400", "a%2fb": "400", `a%5cb`: "400", "a%3fb": "400", "a%23b": "400", "a%25b": "400", "a%00b": "400", "a%0d%0ab": "400",
		"a/b": "404", "a": "200", "a%20b": "200",
	} {
		for _, base := range []string{"/v1beta/models/", "/v1/models/", "/gemini/v1beta/models/", "/v1beta/tunedModels/"} {
			_, in := i.raw("POST " + base + name + ":generateContent HTTP/1.1\r\nHost: localhost\r\nContent-Length: 15\r\n\r\n{\"contents\":[]}")
			line, err := in.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if status := strings.Fields(line)[1]; status != want {
				t.Errorf("%s%s: %s, want %s", base, name, status, want)
			}
		}
	}
	for _, got := range b.requests() {
		if path, _, _ := strings.Cut(got.uri, ":"); !strings.HasSuffix(path, "odels/a") && !strings.HasSuffix(path, "odels/a%20b") {
			t.Errorf("went upstream: %s", got.uri)
		}
	}
}

// An error body of an upstream that speaks the client's dialect is passed on byte for byte, with its status and headers.
func TestUpstreamErrorsUnchangedInEachDialect(t *testing.T) {
	t.Parallel()
	for dialect, bodies := range map[string]map[int]string{
		chat: {
			400: `{ "error": {"message":"Unsupported parameter: 'max_tokens'","type":"invalid_request_error","param":"max_tokens","code":"unsupported_parameter"}, "x":1.10 }`,
			404: `{"error":"page not found"}`,
			429: `{"error":{"message":"Rate limit reached. Please try again in 1.5s.","type":"requests","param":null,"code":"rate_limit_exceeded"}}`,
			500: `{"object":"error","message":"boom","code":50001}`,
		},
		responses: {
			400: `{"error":{"message":"Item 'rs_1' not found","type":"invalid_request_error","param":"input","code":null}}`,
			429: `{"error":{"type":"usage_limit_reached","message":"limit","resets_in_seconds":90}}`,
			503: `{"error":{"code":"server_is_overloaded","message":"slow down"}}`,
		},
		gemini: {
			400: `{"error":{"code":400,"message":"Invalid value","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{"field":"contents"}]}]}}`,
			429: `{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.07s"}]}}`,
			503: `[{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}]`,
		},
	} {
		for status, body := range bodies {
			for _, stream := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %d stream %t", dialect, status, stream), func(t *testing.T) {
					t.Parallel()
					b := newBackend(t, says(status, body, "X-Request-Id: up-1", "X-Ratelimit-Limit-Requests: 5", "Retry-After: 33", "Set-Cookie: a=b"))
					i := start(t, poolOf(protocolKey(k1, dialect, b.URL)))
					r := i.say(dialect, "m", stream)
					if r.status != status || r.body != body || r.header.Get("X-Request-Id") != "up-1" || r.header.Get("X-Ratelimit-Limit-Requests") != "5" ||
						r.header.Get("Retry-After") != "33" || r.header.Get("Set-Cookie") != "" {
						t.Errorf("status %d, headers %v: %s", r.status, r.header, r.body)
					}
					if rec := i.record(r.trace()); rec.Outcome != "error" || rec.Status != status {
						t.Errorf("journal: outcome %s, status %d", rec.Outcome, rec.Status)
					}
				})
			}
		}
	}
}

// A key of ours that an upstream repeats in an error is masked in every dialect, on the raw lane and converted.
func TestMasksOurKeysInEachDialect(t *testing.T) {
	t.Parallel()
	for _, from := range allDialects() {
		for _, to := range allDialects() {
			t.Run(from+" to "+to, func(t *testing.T) {
				t.Parallel()
				p := demo.New(demo.Options{Dialects: []string{from}})
				p.Always(demo.Step{Status: 400, Message: "bad request with " + credential(k1)})
				url := listen(t, p)
				i := start(t, poolOf(protocolKey(k1, from, url)))
				r := i.say(to, modelOf(from), false)
				if r.status != 400 || strings.Contains(r.body, "credential-of-") || !strings.Contains(r.body, "bad request with ***") {
					t.Errorf("status %d: %s", r.status, r.body)
				}
			})
		}
	}
}

// Trailers pass on the raw lane of each dialect, and on no other.
func TestTrailersInEachDialect(t *testing.T) {
	t.Parallel()
	for _, dialect := range []string{chat, responses, gemini} {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			b := newBackend(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
				w.Header().Set("Trailer", "X-Checksum")
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, wholeStream(dialect))
				w.Header().Set("X-Checksum", "abc")
			})
			i := start(t, poolOf(protocolKey(k1, dialect, b.URL)))
			if r := i.say(dialect, "m", true); r.body != wholeStream(dialect) || r.trailer.Get("X-Checksum") != "abc" {
				t.Errorf("trailers %v: %s", r.trailer, differ(r.body, wholeStream(dialect)))
			}
			if r := i.say(claude, "m", true); r.status != 200 || r.trailer.Get("X-Checksum") != "" {
				t.Errorf("converted: status %d, trailers %v", r.status, r.trailer)
			}
		})
	}
}
