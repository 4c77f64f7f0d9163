package antigravity

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"coding-proxy/auth/oauth"
)

const (
	chunk  = `{"candidates":[{"content":{"parts":[{"text":"a \"}\\ {[ ü"}],"role":"model"}}],"usageMetadata":{"promptTokenCount":3}}`
	chunk2 = `{"candidates":[{"finishReason":"STOP"}]}`
)

func wrapped(text string) string {
	return `{"response": ` + text + `,"traceId": "a1","metadata": {"x":["}"]}}`
}

// unwraps are texts and what must become of them.
var unwraps = []struct {
	name, in, want string
	lines, flat    bool
}{
	{name: "plain", in: wrapped(chunk), want: chunk},
	{name: "plain, blanks around", in: " \n{ \"response\" :\n " + chunk + "\n, \"traceId\":\"x\" }\n", want: " \n" + chunk + "\n"},
	{name: "trace first", in: `{"traceId":"{\"response\":","deep":{"response":{"a":1}},"response":{"b":[1,{"c":2}]}}`, want: `{"b":[1,{"c":2}]}`},
	{name: "others before it", in: `{"deep":{"x":1,"response":{"a":1}},"list":[1,"response"],"response":{"b":2}}`, want: `{"b":2}`},
	{name: "none", in: chunk + "\n", want: chunk + "\n"},
	{name: "none, an error", in: `{"error":{"code":429,"details":[{"response":{"a":1}}]}}`, want: `{"error":{"code":429,"details":[{"response":{"a":1}}]}}`},
	{name: "an error inside", in: `{"response":{"error":{"code":500}}}`, want: `{"error":{"code":500}}`},
	{name: "empty", in: `{}`, want: `{}`},
	{name: "response is text", in: `{"response":"x","candidates":[]}`, want: `{"response":"x","candidates":[]}`},
	{name: "response is an array", in: `{"response":[{}],"a":{"response":{"b":1}}} {"response":{"c":1}}`, want: `{"response":[{}],"a":{"response":{"b":1}}} {"c":1}`},
	{name: "response is null", in: `{"response":null,"a":1}`, want: `{"response":null,"a":1}`},
	{name: "other members", in: `{"totalTokens":7}`, want: `{"totalTokens":7}`},
	{name: "a page", in: `<html>{"response":{"a":1}}</html>`, want: `<html>{"response":{"a":1}}</html>`},
	{name: "nothing", in: "", want: ""},
	{name: "broken in front", in: `{"traceId":"x","respon`, want: `{"traceId":"x","respon`},
	{name: "broken inside", in: `{"response":{"a":[1,2`, want: `{"a":[1,2`},
	{name: "array", in: "[" + wrapped(chunk) + "\n,\r\n" + wrapped(chunk2) + "\n]\n", want: "[" + chunk + "\n,\r\n" + chunk2 + "\n]\n"},
	{name: "array without", in: "[" + chunk + "\n,\r\n" + chunk2 + "\n]\n", want: "[" + chunk + "\n,\r\n" + chunk2 + "\n]\n"},
	{name: "array, mixed", in: `[{"response":{"a":1}},{"error":{}},{"x":1},{}]`, want: `[{"a":1},{"error":{}},{"x":1},{}]`},
	{name: "flat", in: " [{\"error\":{\"code\":1}}\n]\n", want: ` {"error":{"code":1}}`, flat: true},
	{name: "flat, enveloped", in: `[{"response":{"error":{"code":1}}},{"error":{"code":2}}]`, want: `{"error":{"code":1}}`, flat: true},
	{name: "flat, no array", in: "{\"error\":{\"code\":1}}\n", want: "{\"error\":{\"code\":1}}\n", flat: true},
	{name: "events", in: "data: " + wrapped(chunk) + "\r\n\r\ndata: " + wrapped(chunk2) + "\r\n\r\n", want: "data: " + chunk + "\r\n\r\ndata: " + chunk2 + "\r\n\r\n", lines: true},
	{name: "events, LF and CR", in: "data:" + wrapped(chunk) + "\n\ndata: " + wrapped(chunk2) + "\r\r", want: "data:" + chunk + "\n\ndata: " + chunk2 + "\r\r", lines: true},
	{name: "events without", in: ": hi {\n\nevent: x{\nid: {\"response\":{}}\ndata: " + chunk + "\n\ndata: [DONE]\n\n", want: ": hi {\n\nevent: x{\nid: {\"response\":{}}\ndata: " + chunk + "\n\ndata: [DONE]\n\n", lines: true},
	{name: "events, several lines", in: "data: {\ndata:  \"response\": {\ndata:  \"a\": 1\ndata:  }, \"traceId\":\ndata: \"x\"}\n\n", want: "data: {\ndata:  \"a\": 1\ndata:  }\ndata:\n\n", lines: true},
	{name: "events, several lines, CRLF", in: "data: {\"response\":\r\ndata: {\"a\":\r\ndata: 1}\r\ndata: }\r\n\r\n", want: "data: {\"a\":\r\ndata: 1}\r\ndata:\r\n\r\n", lines: true},
	{name: "events, several lines without", in: "data: {\ndata: \"x\":1}\n\ndata: {\"response\":{}}\n\n", want: "data: {\ndata: \"x\":1}\n\ndata: {}\n\n", lines: true},
	{name: "events, one broken", in: "data: {\"resp\n\ndata: {\"response\":{\"a\":\n\ndata: {\"response\":{\"a\":1},\"t\n\ndata: {\"response\":{}}\n\n", want: "data: {\"resp\n\ndata: {\"a\":\n\ndata: {\"a\":1}\n\ndata: {}\n\n", lines: true},
	{name: "events, cut", in: "data: {\"response\":{\"a\":1}", want: "data: {\"a\":1}", lines: true},
}

// unwrap takes the text in pieces of n bytes; 0: at once.
func unwrap(u unwrapper, text string, n int) string {
	var out []byte
	for p := []byte(text); len(p) > 0; {
		size := min(n, len(p))
		if n == 0 {
			size = len(p)
		}
		out = u.write(out, p[:size])
		p = p[size:]
	}
	return string(u.end(out))
}

func TestUnwrap(t *testing.T) {
	for _, tc := range unwraps {
		for n := range 8 {
			if got := unwrap(unwrapper{lines: tc.lines, flat: tc.flat}, tc.in, n); got != tc.want {
				t.Errorf("%s, in pieces of %d:\n%q, want\n%q", tc.name, n, got, tc.want)
			}
		}
	}
}

// TestUnwrapHoldsLittle shows that nothing of an answer waits for what comes behind it.
func TestUnwrapHoldsLittle(t *testing.T) {
	u := unwrapper{lines: true}
	got := string(u.write(nil, []byte("data: {\"response\": {\"candidates\": [{\"te")))
	if want := "data: {\"candidates\": [{\"te"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got = string(u.write(nil, []byte("xt\":1}]}"))); got != `xt":1}]}` {
		t.Errorf("then %q", got)
	}
	u = unwrapper{}
	if got = string(u.write(nil, []byte(`{"candidates"`))); got != `{"candidates"` {
		t.Errorf("without an envelope: %q", got)
	}
	long := `{"a":"` + strings.Repeat("x", 2*maxFront) + `","response":{}}`
	u = unwrapper{}
	if got = string(u.write(nil, []byte(long[:maxFront+10]))); got != long[:maxFront+10] {
		t.Errorf("%d bytes of a long front come, want %d", len(got), maxFront+10)
	}
	if got = unwrap(unwrapper{}, long, 1000); got != long {
		t.Error("a long front is not left as it is")
	}
	if cap(u.held) > 3*maxFront {
		t.Errorf("%d bytes are held", cap(u.held))
	}
}

// answers are the answers of the corpus, which must look the same in an envelope and without one.
func answers(tb testing.TB) []string {
	tb.Helper()
	files, err := filepath.Glob("../../../testdata/*/*/*")
	if err != nil {
		tb.Fatal(err)
	}
	var all []string
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err == nil && len(b) < 64<<10 && bytes.Contains(b, []byte(`"candidates"`)) {
			all = append(all, string(b))
		}
	}
	if len(all) == 0 {
		tb.Fatal("the corpus has no answer of the Gemini dialect")
	}
	return all
}

// TestCorpusIsLeftAlone: what has no envelope stays byte for byte.
func TestCorpusIsLeftAlone(t *testing.T) {
	for i, text := range answers(t) {
		lines := strings.HasPrefix(text, "data:")
		if got := unwrap(unwrapper{lines: lines}, text, 0); got != text {
			t.Errorf("answer %d: %q, want %q", i, got, text)
		}
	}
}

// FuzzUnwrap: cut anywhere the text gives the same, and an object in an envelope comes out as it was.
func FuzzUnwrap(f *testing.F) {
	for _, tc := range unwraps {
		f.Add(tc.in, tc.lines, tc.flat, uint16(len(tc.in)/2))
	}
	for _, text := range answers(f) {
		f.Add(text, strings.HasPrefix(text, "data:"), false, uint16(7))
	}
	f.Fuzz(func(t *testing.T, text string, lines, flat bool, cut uint16) {
		u := unwrapper{lines: lines, flat: flat}
		whole := unwrap(u, text, 0)
		if got := unwrap(u, text, 1); got != whole {
			t.Fatalf("byte by byte %q, at once %q", got, whole)
		}
		at := min(int(cut), len(text))
		out := u.write(nil, []byte(text[:at]))
		out = u.write(out, []byte(text[at:]))
		if got := string(u.end(out)); got != whole {
			t.Fatalf("cut at %d %q, at once %q", at, got, whole)
		}
		if len(whole) > len(text) {
			t.Fatal("it grows")
		}
		if trimmed := strings.TrimSpace(text); json.Valid([]byte(text)) && strings.HasPrefix(trimmed, "{") {
			if got := unwrap(unwrapper{}, `{"traceId":"x","response":`+text+`,"more":[{}]}`, 0); got != trimmed && got != strings.TrimLeft(text, " \t\r\n") {
				t.Fatalf("%q comes out as %q", text, got)
			}
		}
	})
}

// TestOpen reads answers through the body that Open leaves, in small pieces.
func TestOpen(t *testing.T) {
	p := New(Options{Token: oauth.NewSource(nil, nil)})
	for _, tc := range []struct {
		name, kind, in, want string
		status               int
		array                bool
	}{
		{"plain", "application/json", wrapped(chunk), chunk, 200, false},
		{"events", "text/event-stream; charset=utf-8", "data: " + wrapped(chunk) + "\r\n\r\n", "data: " + chunk + "\r\n\r\n", 200, false},
		{"array", "application/json", "[" + wrapped(chunk) + "]", "[" + chunk + "]", 200, true},
		{"error", "application/json", `{"error":{"message":"no"}}` + "\n", `{"error":{"message":"no"}}` + "\n", 429, false},
		{"error in an array", "application/json", `[{"error":{"code":1}}]`, `{"error":{"code":1}}`, 429, false},
		{"error of an array", "application/json", `[{"response":{"error":{"code":1}}}]`, `[{"error":{"code":1}}]`, 429, true},
		{"a page", "text/html", "<p>{}</p>", "<p>{}</p>", 502, false},
		{"no body", "", "", "", 401, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			closed := false
			req := signedAs(asked{"m", tc.array})
			resp := &http.Response{StatusCode: tc.status, Request: req, ContentLength: int64(len(tc.in)),
				Header: http.Header{"Content-Type": {tc.kind}, "Content-Length": {fmt.Sprint(len(tc.in))}},
				Body:   closer{iotest.OneByteReader(strings.NewReader(tc.in)), &closed}}
			p.Open(resp)
			got, err := io.ReadAll(resp.Body)
			if string(got) != tc.want || err != nil {
				t.Errorf("%q, %v, want %q", got, err, tc.want)
			}
			if resp.ContentLength != -1 || resp.Header.Get("Content-Length") != "" {
				t.Error("a length is promised that is the envelope's")
			}
			if resp.Body.Close(); !closed {
				t.Error("the connection is not given back")
			}
		})
	}
}

// TestOpenTellsErrors: how the connection ends is what the reader hears.
func TestOpenTellsErrors(t *testing.T) {
	resp := &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(io.MultiReader(
		strings.NewReader(`{"response": {"a`), iotest.ErrReader(io.ErrUnexpectedEOF)))}
	New(Options{Token: oauth.NewSource(nil, nil)}).Open(resp)
	got, err := io.ReadAll(resp.Body)
	if string(got) != `{"a` || err != io.ErrUnexpectedEOF {
		t.Errorf("%q, %v", got, err)
	}
}

// TestOpenLeavesEncodings: bytes that are compressed are nobody's to look into.
func TestOpenLeavesEncodings(t *testing.T) {
	body := io.NopCloser(strings.NewReader("x"))
	resp := &http.Response{StatusCode: 200, Header: http.Header{"Content-Encoding": {"gzip"}}, Body: body}
	if New(Options{Token: oauth.NewSource(nil, nil)}).Open(resp); resp.Body != body {
		t.Error("a compressed body is looked into")
	}
}

type closer struct {
	io.Reader
	closed *bool
}

func (c closer) Close() error {
	*c.closed = true
	return nil
}

func BenchmarkUnwrap(b *testing.B) {
	event := []byte("data: " + wrapped(strings.Replace(chunk, "a ", strings.Repeat("words of an answer ", 20), 1)) + "\r\n\r\n")
	u, out := unwrapper{lines: true}, []byte(nil)
	b.SetBytes(int64(len(event)))
	b.ReportAllocs()
	for b.Loop() {
		out = u.write(out[:0], event)
	}
}
