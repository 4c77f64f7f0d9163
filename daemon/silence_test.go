package daemon

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"coding-proxy/proxy/demo"
)

// speak opens a stream of a dialect and returns when the head of the answer has come.
func (i *instance) speak(dialect, path, model string) *live {
	i.t.Helper()
	return i.speakIn(i.t.Context(), dialect, path, model)
}

// leaving is a client's life, and its end.
func (i *instance) leaving() (context.Context, context.CancelFunc) {
	return context.WithTimeout(i.t.Context(), patience)
}

// speakIn is speak of a client that may leave.
func (i *instance) speakIn(ctx context.Context, dialect, path, model string) *live {
	i.t.Helper()
	r := i.request(ctx, "POST", path, strings.NewReader(bodyOf(dialect, model, true)), []string{version, "Content-Type: application/json"})
	resp, err := i.transport.RoundTrip(r)
	if err != nil {
		i.t.Fatal(err)
	}
	i.t.Cleanup(func() { resp.Body.Close() })
	return &live{i.t, resp.StatusCode, resp.Header, bufio.NewReader(resp.Body), nil}
}

// silent is a stream that has begun and been silent since.
type silent struct {
	name, from, to string
	u              *steps
	i              *instance
	l              *live
	heard          *strings.Builder
}

// begin opens a stream whose upstream says text and no more.
func begin(t *testing.T, from, to, path, text string, members ...string) *silent {
	t.Helper()
	s := &silent{from + " to " + to, from, to, newSteps(t), nil, nil, new(strings.Builder)}
	s.i = start(t, append(members, poolOf(protocolKey(k1, from, s.u.url)))...)
	answer := make(chan *live)
	go func() { answer <- s.i.speak(to, path, "m") }()
	if text != "" {
		s.u.say(t, text)
	}
	s.l = <-answer
	s.l.in = bufio.NewReader(io.TeeReader(s.l.in, s.heard))
	return s
}

// until reads until what was heard ends with one of these.
func (s *silent) until(t *testing.T, ends ...string) {
	t.Helper()
	for got := ""; ; {
		b, err := s.l.in.ReadByte()
		if err != nil {
			t.Fatalf("%s: %v after %q", s.name, err, got)
		}
		got += string(b)
		for _, end := range ends {
			if strings.HasSuffix(got, end) {
				return
			}
		}
	}
}

// SSE-017: while the upstream is silent each client hears something after 15 s, in a form that it bears: on the raw lane
// and on conversion, between two events. The interval is a constant that no test can set from here: this one waits, once
// for all.
func TestSSE017KeepAlivesInEachDialect(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for keep-alives")
	}
	t.Parallel()
	const comment = ": keep-alive\n"
	alive := map[string][]string{claude: {"\n\n" + evPing}, chat: {"\n\n" + comment}, responses: {"\n\nevent: keepalive\ndata: {\"type\":\"keepalive\"}\n\n"},
		gemini: {"\n\n\n", "\r\n\r\n\n"}}
	var all []*silent
	for _, from := range allDialects() {
		for _, to := range allDialects() {
			all = append(all, begin(t, from, to, pathOf(to, "m", true), beginning(from)))
		}
	}
	// Before the answer has begun a client hears what is no event of it. The hold of the head has timed out.
	first := map[string]string{claude: ": keep-alive\n\n", chat: comment, responses: ": keepalive\n\n", gemini: "\n"}
	var early []*silent
	for _, to := range allDialects() {
		for _, from := range []string{to, map[bool]string{true: chat, false: claude}[to == claude]} {
			early = append(early, begin(t, from, to, pathOf(to, "m", true), "", `"failover":{"hold_first_event_seconds":0.01}`))
		}
	}
	array := begin(t, gemini, gemini, "/v1beta/models/m:streamGenerateContent", "["+geminiFirst)
	array.until(t, geminiFirst+"\n")
	for _, s := range all {
		s.until(t, alive[s.to]...)
		s.u.say(t, strings.TrimPrefix(wholeStream(s.from), beginning(s.from)))
		close(s.u.next)
		if _, err := s.l.all(); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
		text := strings.Replace(s.heard.String(), "\n"+comment, "\n", 1)
		if s.to == gemini {
			text = strings.Replace(strings.ReplaceAll(text, "\r\n", "\n"), "\n\n\n", "\n\n", 1)
		}
		if heard := understand(t, s.to, text, true); !strings.HasPrefix(heard.text, "walrus ") || heard.ends != 1 || heard.fault != "" || heard.finish == "" {
			t.Errorf("%s: %q", s.name, text)
		}
		inSequence(t, s.to, text)
		if rec := s.i.records(""); len(rec) != 1 || rec[0].Outcome != "ok" {
			t.Errorf("%s: journal: %+v", s.name, rec)
		}
	}
	for _, s := range early {
		s.l.t = t
		s.l.expect(first[s.to])
		s.u.say(t, wholeStream(s.from))
		close(s.u.next)
		text, err := s.l.all()
		if heard := understand(t, s.to, text, true); err != nil || !strings.HasPrefix(heard.text, "walrus ") || heard.ends != 1 || heard.fault != "" {
			t.Errorf("%s, early: %v: %q", s.name, err, text)
		}
		inSequence(t, s.to, text)
	}
	array.u.say(t, ","+geminiLast+"]")
	close(array.u.next)
	if text, err := array.l.all(); text != ","+geminiLast+"]" || err != nil {
		t.Errorf("array, after the blank line: %q, %v", text, err)
	}
}

// A dead upstream is not hidden behind keep-alives: its own idle limit ends the stream as the dialect says it (SSE-018).
func TestSSE018DeadUpstreamInEachDialect(t *testing.T) {
	t.Parallel()
	for _, from := range allDialects() {
		for _, to := range allDialects() {
			t.Run(from+" to "+to, func(t *testing.T) {
				t.Parallel()
				b := newBackend(t, func(w http.ResponseWriter, r *http.Request, _ int) { pour(w, beginning(from)); hang(r) })
				i := start(t, `"timeouts":{"idle_seconds":0.1}`, poolOf(protocolKey(k1, from, b.URL)))
				r := i.say(to, "m", true)
				if s := brokenEnd(t, to, r); s.text != "walrus " {
					t.Errorf("heard %q", r.body)
				}
				if rec := i.record(r.trace()); rec.Outcome != "broken" || rec.ErrorType != "timeout_error" {
					t.Errorf("journal: %s, %s", rec.Outcome, rec.ErrorType)
				}
			})
		}
	}
}

// late is a daemon and a Gemini client that has waited nearly 50 s for its head: the clock is moved while the body has
// not come, so that nobody waits.
func late(t *testing.T, query string, members ...string) (*instance, *bufio.Reader) {
	t.Helper()
	c := frozen()
	cfg, err := load(t, filepath.Join(t.TempDir(), "data"), members...)
	if err != nil {
		t.Fatal(err)
	}
	i := newInstance(t, cfg)
	if i.Daemon, err = newDaemon(cfg, NewLogger(cfg, i.log), c.now); err != nil {
		t.Fatal(err)
	}
	i.url = "http://" + i.Addr()
	i.serve()
	body := bodyOf(gemini, "m", true)
	conn, in := i.raw(fmt.Sprintf("POST /v1beta/models/m:streamGenerateContent%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", query, len(body)))
	await(t, "the request", func() bool { return i.server.proxy.InFlight() == 1 })
	c.set(c.now().Add(50*time.Second - 5*time.Millisecond))
	if _, err := io.WriteString(conn, body); err != nil {
		t.Fatal(err)
	}
	return i, in
}

// A Gemini client gives up after 60 s without a header: after 50 s it gets one, and the body waits for the attempt.
func TestGeminiIsCommittedEarly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, protocol, query, contentType string }{
		{"raw", gemini, "?alt=sse", "text/event-stream"},
		{"raw array", gemini, "", "application/json"},
		{"converted", chat, "?alt=sse", "text/event-stream"},
		{"converted array", claude, "", "application/json"},
	} {
		open := func(t *testing.T, step demo.Step) (*demo.Provider, *instance, *http.Response) {
			t.Helper()
			p, url := strict(t, "one", c.protocol)
			p.Push(step)
			other, otherURL := strict(t, "two", c.protocol)
			i, in := late(t, c.query, poolOf(protocolKey(k1, c.protocol, url), protocolKey(k2, c.protocol, otherURL)))
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { resp.Body.Close() })
			if resp.StatusCode != 200 || !strings.HasPrefix(resp.Header.Get("Content-Type"), c.contentType) || len(resp.Header.Get("X-Proxy-Trace")) != 16 {
				t.Errorf("status %d, headers %v", resp.StatusCode, resp.Header)
			}
			step.Hold.Release()
			return other, i, resp
		}
		t.Run(c.name+" and answered", func(t *testing.T) {
			t.Parallel()
			_, i, resp := open(t, demo.Step{Text: answerText, Hold: demo.HoldAt(0)})
			r := readReply(resp)
			text := strings.TrimLeft(r.body, "\n")
			if c.query == "" {
				list := parse(t, text).list()
				text = ""
				for _, e := range list {
					text += "data: " + e.text() + "\n\n"
				}
			}
			if s := understand(t, gemini, text, true); r.err != nil || s.text != answerText || s.finish != "STOP" {
				t.Errorf("%v: %q", r.err, r.body)
			}
			if rec := i.record(r.trace()); rec.Outcome != "ok" || rec.Key != k1 {
				t.Errorf("journal: %s by %s", rec.Outcome, rec.Key)
			}
		})
		t.Run(c.name+" and failed", func(t *testing.T) {
			t.Parallel()
			other, i, resp := open(t, demo.Step{Status: 503, Hold: demo.HoldAt(0)})
			r := readReply(resp)
			if r.err == nil || strings.TrimSpace(r.body) != "" {
				t.Errorf("a clean end, %v: %q", r.err, r.body)
			}
			if n := len(other.Requests()); n != 0 {
				t.Errorf("%d further keys were asked", n)
			}
			if rec := i.record(r.trace()); rec.Outcome == "ok" || rec.Key != k1 || len(rec.Attempts) != 1 {
				t.Errorf("journal: %s by %s after %d attempts", rec.Outcome, rec.Key, len(rec.Attempts))
			}
			if k := i.keys()[k1]; k.State != "cooling" && len(k.Models) == 0 {
				t.Errorf("the key is %s", k.State)
			}
		})
	}
}
