package proxy

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// keeper is an Answers in memory. Its files take room bytes, and are counted when they are closed.
type keeper struct {
	mu     sync.Mutex
	files  []*keptFile
	room   int // of a file; 0: any
	refuse bool
	closed chan *keptFile
}

type keptFile struct {
	keeper  *keeper
	name    string
	buf     bytes.Buffer
	refused int
	closed  int
}

func newKeeper() *keeper { return &keeper{closed: make(chan *keptFile, 100)} }

func (k *keeper) Begin(trace string, attempt int) io.WriteCloser {
	if k.refuse {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	f := &keptFile{keeper: k, name: trace + "-" + strconv.Itoa(attempt)}
	k.files = append(k.files, f)
	return f
}

func (f *keptFile) Write(p []byte) (int, error) {
	f.keeper.mu.Lock()
	defer f.keeper.mu.Unlock()
	if f.refused > 0 || f.keeper.room > 0 && f.buf.Len()+len(p) > f.keeper.room {
		f.refused++
		return 0, errors.New("no room")
	}
	return f.buf.Write(p)
}

func (f *keptFile) Close() error {
	f.keeper.mu.Lock()
	f.closed++
	f.keeper.mu.Unlock()
	f.keeper.closed <- f
	return nil
}

// wait returns the next file that was closed.
func (k *keeper) wait(t *testing.T) *keptFile {
	t.Helper()
	select {
	case f := <-k.closed:
		return f
	case <-time.After(time.Minute):
		t.Fatal("no file was closed")
		return nil
	}
}

// all returns the files' names and texts, and wants each to have been closed once.
func (k *keeper) all(t *testing.T) (names, texts []string) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, f := range k.files {
		names, texts = append(names, f.name), append(texts, f.buf.String())
		if f.closed != 1 {
			t.Errorf("%s was closed %d times", f.name, f.closed)
		}
	}
	return names, texts
}

// bodyOf cuts the head off what was kept.
func bodyOf(text string) string {
	_, body, _ := strings.Cut(text, "\n\n")
	return body
}

const (
	keptPlain  = `{"id":"m1","type":"message","role":"assistant","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":2}}`
	asksPlain  = `{"model":"m","max_tokens":64,"messages":[{"role":"user","content":"the question"}]}`
	asksStream = `{"model":"m","max_tokens":64,"stream":true,"messages":[{"role":"user","content":"the question"}]}`
)

func keptEvents(text string) []string {
	event := func(kind, rest string) string {
		return "event: " + kind + "\ndata: {\"type\":\"" + kind + "\"" + rest + "}\n\n"
	}
	return []string{
		event("message_start", `,"message":{"id":"m1","type":"message","role":"assistant","content":[],"usage":{"input_tokens":3,"output_tokens":0}}`),
		event("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`),
		event("content_block_delta", `,"index":0,"delta":{"type":"text_delta","text":"`+text+`"}`),
		event("content_block_stop", `,"index":0`),
		event("message_delta", `,"delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}`),
		event("message_stop", ""),
	}
}

func TestKeptPlainAnswer(t *testing.T) {
	k := newKeeper()
	r := newRig(t, 1, nil, nil, func(w http.ResponseWriter, _ *http.Request) {
		for _, name := range []string{"Set-Cookie", "Cookie", "Authorization", "X-Api-Key", "X-Goog-Api-Key", "Proxy-Authorization", "Www-Authenticate",
			"Proxy-Authenticate", "X-Auth-Token", "Mcp-Session-Id", "X-Amz-Security-Token", "Location", "X-Client-Secret"} {
			w.Header().Set(name, "left-out")
		}
		w.Header().Add("Set-Cookie", "left-out")
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Ratelimit-Remaining-Tokens", "7")
		w.Header().Set("X-Echo", "your key is secret-of-k1")
		w.Header()["Date"] = nil
		_, _ = io.WriteString(w, keptPlain)
	})
	r.KeepAnswers(k)
	resp, got := r.post(t, []byte(asksPlain))
	if resp.StatusCode != http.StatusOK || string(got) != keptPlain {
		t.Fatalf("%d: %s", resp.StatusCode, got)
	}
	want := "HTTP/1.1 200 OK\nContent-Length: " + strconv.Itoa(len(keptPlain)) +
		"\nContent-Type: application/json\nX-Echo: your key is ***\nX-Ratelimit-Remaining-Tokens: 7\n\n" + keptPlain
	names, texts := k.all(t)
	if len(texts) != 1 || names[0] != "trace-1" || texts[0] != want {
		t.Errorf("%q: %q", names, texts)
	}
}

// A stream is kept as it came, also where an event that is none for the client is left out of what it gets.
func TestKeptStream(t *testing.T) {
	k := newKeeper()
	all := strings.Join(keptEvents("hello"), "")
	r := newRig(t, 1, nil, nil, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range append([]string{": a comment\n\n"}, keptEvents("hello")...) {
			_, _ = io.WriteString(w, e)
			w.(http.Flusher).Flush()
		}
	})
	r.KeepAnswers(k)
	if _, got := r.post(t, []byte(asksStream)); !strings.HasSuffix(string(got), all) {
		t.Fatalf("the client got %q", got)
	}
	_, texts := k.all(t)
	if len(texts) != 1 || bodyOf(texts[0]) != ": a comment\n\n"+all {
		t.Errorf("%q", texts)
	}
}

// What comes compressed is kept as it reads, which is said.
func TestKeptCompressedAnswer(t *testing.T) {
	k := newKeeper()
	r := newRig(t, 1, nil, nil, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, keptPlain)
		_ = z.Close()
	})
	r.KeepAnswers(k)
	r.post(t, []byte(asksPlain))
	if _, texts := k.all(t); len(texts) != 1 || !strings.Contains(texts[0], "\nContent-Encoding: gzip (undone below)\n") || bodyOf(texts[0]) != keptPlain {
		t.Errorf("%q", texts)
	}
}

// Each attempt has its file, also one that failed.
func TestKeptAttempts(t *testing.T) {
	const fault = `{"type":"error","error":{"type":"overloaded_error","message":"secret-of-k1 is busy"}}`
	k := newKeeper()
	r := newRig(t, 2, nil, nil, func(w http.ResponseWriter, in *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if in.Header.Get("X-Api-Key") == "secret-of-k1" {
			w.WriteHeader(529)
			_, _ = io.WriteString(w, fault)
			return
		}
		_, _ = io.WriteString(w, keptPlain)
	})
	r.KeepAnswers(k)
	if resp, got := r.post(t, []byte(asksPlain)); resp.StatusCode != http.StatusOK {
		t.Fatalf("%d: %s", resp.StatusCode, got)
	}
	names, texts := k.all(t)
	if len(texts) != 2 || names[0] != "trace-1" || names[1] != "trace-2" {
		t.Fatalf("%q", names)
	}
	if !strings.HasPrefix(texts[0], "HTTP/1.1 529 ") || bodyOf(texts[0]) != strings.Replace(fault, "secret-of-k1", "***", 1) || bodyOf(texts[1]) != keptPlain {
		t.Errorf("%q", texts)
	}
}

// Counting asks a provider, too.
func TestKeptCount(t *testing.T) {
	k := newKeeper()
	r := newRig(t, 1, nil, func(o *Options) { o.CountUpstream = true }, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"input_tokens":42}`)
	})
	r.KeepAnswers(k)
	resp, err := http.Post(r.url+"/v1/messages/count_tokens", "application/json", strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if _, texts := k.all(t); len(texts) != 1 || bodyOf(texts[0]) != `{"input_tokens":42}` {
		t.Errorf("%q", texts)
	}
}

// A secret that comes in two reads does not get into the file, and no part of a request does.
func TestKeptAnswerHoldsNoSecret(t *testing.T) {
	k := newKeeper()
	more := make(chan bool)
	echo := strings.Join(append(keptEvents("one")[:3], keptEvents("you sent secret-of-k1 here")[2:]...), "")
	r := newRig(t, 1, nil, nil, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		before, after, _ := strings.Cut(echo, "t-of-k1")
		for _, part := range []string{before, "t-of-k1" + after} {
			_, _ = io.WriteString(w, part)
			w.(http.Flusher).Flush()
			if part == before {
				<-more
			}
		}
	})
	r.KeepAnswers(k)
	resp, err := http.Post(r.url+"/v1/messages", "application/json", strings.NewReader(asksStream))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	buf := make([]byte, 1)
	if _, err := resp.Body.Read(buf); err != nil { // the first part has been read by the proxy in a read of its own
		t.Fatal(err)
	}
	more <- true
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	text := k.wait(t).buf.String()
	if want := strings.Replace(echo, "secret-of-k1", "***", 1); bodyOf(text) != want {
		t.Errorf("%q", text)
	}
	if strings.Contains(text, "the question") {
		t.Errorf("the request is in the file: %q", text)
	}
}

// The file ends with the answer, whoever breaks it off.
func TestKeptAnswerThatBreaks(t *testing.T) {
	for name, goes := range map[string]bool{"upstream": false, "client": true} {
		t.Run(name, func(t *testing.T) {
			k := newKeeper()
			first := strings.Join(keptEvents("hello")[:3], "")
			r := newRig(t, 1, nil, nil, func(w http.ResponseWriter, in *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, first)
				w.(http.Flusher).Flush()
				if goes {
					<-in.Context().Done()
				}
				panic(http.ErrAbortHandler)
			})
			r.KeepAnswers(k)
			resp, err := http.Post(r.url+"/v1/messages", "application/json", strings.NewReader(asksStream))
			if err != nil {
				t.Fatal(err)
			}
			if !goes {
				_, _ = io.ReadAll(resp.Body)
			} else if _, err := io.ReadFull(resp.Body, make([]byte, len(first))); err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if f := k.wait(t); bodyOf(f.buf.String()) != first {
				t.Errorf("%q", f.buf.String())
			}
		})
	}
}

// A file that takes no more, and one that cannot be made, change nothing for the client.
func TestKeptAnswerThatCannotBeWritten(t *testing.T) {
	for _, k := range []*keeper{{room: 200, closed: make(chan *keptFile, 1)}, {refuse: true}} {
		r := newRig(t, 1, nil, nil, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for _, e := range keptEvents("hello") {
				_, _ = io.WriteString(w, e)
				w.(http.Flusher).Flush()
			}
		})
		r.KeepAnswers(k)
		if _, got := r.post(t, []byte(asksStream)); string(got) != strings.Join(keptEvents("hello"), "") {
			t.Errorf("the client got %q", got)
		}
		if k.refuse {
			continue
		}
		if f := k.wait(t); f.refused != 1 || f.closed != 1 {
			t.Errorf("refused %d times, closed %d times", f.refused, f.closed)
		}
	}
}

// What is kept of a long answer takes no memory.
func TestKeptAnswerIsBounded(t *testing.T) {
	file := &sink{}
	r := newRig(t, 1, nil, nil, func(http.ResponseWriter, *http.Request) {})
	k := &keptAnswer{ReadCloser: io.NopCloser(endless{}), file: file, mask: r.settings().upstreams["k1"].Masker(nil)}
	buf := make([]byte, 32<<10)
	read := func() {
		if _, err := k.Read(buf); err != nil {
			t.Fatal(err)
		}
	}
	read()
	if n := testing.AllocsPerRun(1000, read); n > 1 {
		t.Errorf("%v allocations a read", n)
	}
	if err := k.Close(); err != nil || file.n%len(buf) != 0 {
		t.Errorf("%v, %d bytes", err, file.n)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	return copy(p, bytes.Repeat([]byte("secret-o"), 4096)), nil
}

type sink struct{ n int }

func (s *sink) Write(p []byte) (int, error) { s.n += len(p); return len(p), nil }
func (s *sink) Close() error                { return nil }
