package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"coding-proxy/proxy/demo"
)

// steps is an upstream that writes a piece of its one stream when it is told to.
type steps struct {
	url  string
	next chan string // a piece; closed: the stream ends
	gone chan struct{}
}

func newSteps(t *testing.T) *steps {
	t.Helper()
	s := &steps{next: make(chan string), gone: make(chan struct{})}
	s.url = newBackend(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if n > 0 {
			return
		}
		defer close(s.gone)
		pour(w, "")
		for {
			select {
			case piece, ok := <-s.next:
				if !ok {
					return
				}
				pour(w, piece)
			case <-r.Context().Done():
				return
			}
		}
	}).URL
	return s
}

// say writes a piece.
func (s *steps) say(t *testing.T, piece string) {
	t.Helper()
	select {
	case s.next <- piece:
	case <-s.gone:
		t.Fatalf("the upstream request has ended before %q", piece)
	}
}

// brokenAs checks that a stream is what came and then one error event, and returns the error's type.
func brokenAs(t *testing.T, text, came string) string {
	t.Helper()
	end, ok := strings.CutPrefix(text, came)
	var e struct {
		Type  string
		Error struct{ Type, Message string }
	}
	data, isEvent := strings.CutPrefix(end, "event: error\ndata: ")
	data, ends := strings.CutSuffix(data, "\n\n")
	if !ok || !isEvent || !ends || json.Unmarshal([]byte(data), &e) != nil || e.Type != "error" || e.Error.Type == "" || e.Error.Message == "" {
		t.Errorf("the stream does not end with its events and an error event: %q", text)
	}
	return e.Error.Type
}

// The head is held back until there is content; from then on every event flows, however small.
func TestSSE002FixedSizeRelayRead(t *testing.T) {
	t.Parallel()
	t.Run("after content", func(t *testing.T) {
		t.Parallel()
		u := newSteps(t)
		i := start(t, poolOf(poolKey(k1, u.url)))
		answer := make(chan *live)
		go func() { answer <- i.open(question(sonnet, streamed)) }()
		u.say(t, evBegin)
		l := <-answer
		l.expect(evBegin)
		for range 10 {
			u.say(t, evPing)
			l.expect(evPing)
		}
		u.say(t, evRest)
		close(u.next)
		if text, err := l.all(); text != evRest || err != nil {
			t.Errorf("rest %q, %v", text, err)
		}
	})
	t.Run("before content", func(t *testing.T) {
		t.Parallel()
		u := newSteps(t)
		i := start(t, `"failover":{"hold_first_event_seconds":0.01}`, poolOf(poolKey(k1, u.url)))
		l := i.open(question(sonnet, streamed)) // the hold has timed out
		for range 10 {
			u.say(t, evPing)
			l.expect(evPing)
		}
		u.say(t, evAll)
		close(u.next)
		if text, err := l.all(); text != evAll || err != nil {
			t.Errorf("rest %q, %v", text, err)
		}
		if recs := i.records(""); len(recs) != 1 || recs[0].Outcome != "ok" || recs[0].OutputTokens != 7 {
			t.Errorf("journal: %+v", recs)
		}
	})
}

// TestStreamsUnchanged has the forms that an event stream may take. Each comes back byte for byte and is understood.
func TestStreamsUnchanged(t *testing.T) {
	t.Parallel()
	utf8 := strings.Replace(evAll, "walrus ", "né漢🙂", 1)
	separators := strings.Replace(evAll, "walrus ", "a\u2028b\u0085c\u2029d", 1)
	twoLines := "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\ndata: \"delta\":{\"type\":\"text_delta\",\"text\":\"x\"}}\n\n"
	crlf := strings.ReplaceAll(evBegin+twoLines+evRest, "\n", "\r\n")
	cr := strings.ReplaceAll(evBegin+twoLines+evRest, "\n", "\r")
	bare := strings.NewReplacer("event: ", "event:", "data: ", "data:").Replace(evAll)
	nameless := func() string {
		var b strings.Builder
		for line := range strings.Lines(evAll) {
			if !strings.HasPrefix(line, "event: ") {
				b.WriteString(line)
			}
		}
		return b.String()
	}()
	long := func(size int) string {
		return strings.Replace(evDelta, "walrus", strings.Repeat("w", size), 1)
	}
	for _, c := range []struct {
		name string
		text string
		cut  func(string) []string
	}{
		{"SSE-005 one byte at a time", utf8, func(s string) []string {
			var pieces []string
			for i := range len(s) {
				pieces = append(pieces, s[i:i+1])
			}
			return pieces
		}},
		{"SSE-007 cut between CR and LF", crlf, func(s string) []string { return strings.SplitAfter(s, "\r") }},
		{"SSE-007 cut after each line", crlf, func(s string) []string { return strings.SplitAfter(s, "\n") }},
		{"SSE-008 bare CR", cr, func(s string) []string { return strings.SplitAfter(s, "\r") }},
		{"SSE-008 bare CR at once", cr, nil},
		{"SSE-009 Unicode line separators", separators, nil},
		{"SSE-010 no space after the colon", bare, nil},
		{"SSE-012 comments", ": PROCESSING\n\n: PROCESSING\n\n" + evStart + ": PROCESSING\n\n" + evBlock + evDelta + ": x\n\n" + evRest, nil},
		{"SSE-013 keep-alive as data", "data: : keepalive\n\n" + evBegin + "data: : keepalive\n\n" + evRest, nil},
		{"SSE-014 empty data", "data: \n\n" + evBegin + "data: \n\n" + evDelta + "data:\n\n" + evRest, nil},
		{"SSE-019 line of 70 KiB", evBegin + long(70<<10) + evRest, nil},
		{"SSE-019 line of 1.2 MiB", evBegin + long(1200<<10) + evRest, nil},
		{"SSE-019 line of 4 MiB", evStart + evBlock + long(4<<20) + evRest, nil},
		{"SSE-019 long lines with CRLF", strings.ReplaceAll(evBegin+long(200<<10)+twoLines+long(66<<10)+evRest, "\n", "\r\n"), nil},
		{"SSE-019 long event of many lines", evBegin + "data: " + strings.Repeat(strings.Repeat("x", 50)+"\ndata: ", 3000) + "\n\n" + evRest, nil},
		{"no event names", nameless, nil},
		{"byte order mark", "\ufeff" + evAll, nil},
		{"blank lines", "\n\n\n" + evBegin + "\n\n\n" + evRest + "\n\n", nil},
		{"ids and retry times", "retry: 1000\nid: 1\n" + evStart + "id: 2\n" + evBlock + "id: 3\n" + evDelta + evRest, nil},
		{"more after the end", evAll + evPing + ": bye\n\n", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			pieces := []string{c.text}
			if c.cut != nil {
				pieces = c.cut(c.text)
			}
			i := start(t, poolOf(poolKey(k1, newBackend(t, pours(pieces...)).URL)))
			r := i.good(question(sonnet, streamed))
			if r.body != c.text {
				t.Errorf("the stream has changed: %.300q\nwant %.300q", r.body, c.text)
			}
			if rec := i.record(r.trace()); rec.Outcome != "ok" || rec.InputTokens != 10 || rec.OutputTokens != 7 || rec.StopReason != "end_turn" || rec.Estimated {
				t.Errorf("journal: %+v", rec)
			}
			i.untouched(k1)
		})
	}
}

// A stream with bare CR gets through while its connection stays open: nobody waits for an LF.
func TestSSE008BareCR(t *testing.T) {
	t.Parallel()
	u := newSteps(t)
	i := start(t, poolOf(poolKey(k1, u.url)))
	answer := make(chan *live)
	go func() { answer <- i.open(question(sonnet, streamed)) }()
	cr := func(s string) string { return strings.ReplaceAll(s, "\n", "\r") }
	u.say(t, cr(evBegin))
	l := <-answer
	l.expect(cr(evBegin))
	u.say(t, cr(evRest))
	l.expect(cr(evRest))
	l.leave()
}

// The keep-alive interval is a constant of 15 s that no test can set from here: this one waits for it.
func TestSSE015SSE016SSE017KeepAlives(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a keep-alive")
	}
	t.Parallel()
	begin := func(piece string, members ...string) (*steps, *instance, *live) {
		u := newSteps(t)
		i := start(t, append(members, poolOf(poolKey(k1, u.url)))...)
		answer := make(chan *live)
		go func() { answer <- i.open(question(sonnet, streamed)) }()
		if piece != "" {
			u.say(t, piece)
		}
		return u, i, <-answer
	}
	// One is silent in the middle of an event, too long to be held back: nothing may come in between.
	half := "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"" + strings.Repeat("w", 100<<10)
	inside, _, l1 := begin(evBegin + half)
	got := make([]byte, len(evBegin)+64<<10)
	if _, err := io.ReadFull(l1.in, got); err != nil {
		t.Fatal(err)
	}
	// One has an event begun that is still held back: the client is between two events.
	between, _, l2 := begin(evBegin + "id: 7\nevent: content_block_delta\n")
	l2.expect(evBegin)
	// One has sent nothing at all yet.
	before, _, l3 := begin("", `"failover":{"hold_first_event_seconds":0.01}`)

	l2.expect(evPing)
	l3.expect(": keep-alive\n\n")
	rest := "\"}}\n\n" + evRest
	inside.say(t, rest)
	close(inside.next)
	if text, err := l1.all(); string(got)+text != evBegin+half+rest || err != nil {
		t.Errorf("an event was cut in two, or %v: …%.200q", err, text[max(0, len(text)-300):])
	}
	last := strings.TrimPrefix(evDelta, "event: content_block_delta\n")
	between.say(t, last+evRest)
	close(between.next)
	if text, err := l2.all(); text != "id: 7\n"+evDelta+evRest || err != nil {
		t.Errorf("after the ping: %q, %v", text, err)
	}
	before.say(t, evAll)
	close(before.next)
	if text, err := l3.all(); text != evAll || err != nil {
		t.Errorf("after the comment: %q, %v", text, err)
	}
}

// A dead upstream is not hidden: its own idle limit ends the stream, with an error event.
func TestSSE018PingsHideDeadUpstream(t *testing.T) {
	t.Parallel()
	for name, came := range map[string]string{"after message_start": evStart, "after content": evBegin, "in an event": evBegin + "event: ping\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBackend(t, func(w http.ResponseWriter, r *http.Request, _ int) { pour(w, came); hang(r) })
			i := start(t, `"failover":{"hold_first_event_seconds":0.01},"timeouts":{"idle_seconds":0.1}`, poolOf(poolKey(k1, b.URL)))
			r := i.good(question(sonnet, streamed))
			if kind := brokenAs(t, r.body, strings.TrimSuffix(came, "event: ping\n")); kind != "timeout_error" {
				t.Errorf("error type %s", kind)
			}
			if rec := i.record(r.trace()); rec.Outcome != "broken" || rec.InputTokens != 10 {
				t.Errorf("journal: %+v", rec)
			}
			if k := i.keys()[k1]; k.State != "cooling" {
				t.Errorf("the key is %s", k.State)
			}
		})
	}
}

// SSE-022 in Anthropic's form: 200, message_start, then an error event.
func TestSSE022FailedEventUnder200(t *testing.T) {
	t.Parallel()
	for kind, reason := range map[string]string{"overloaded_error": "overload", "rate_limit_error": "rate_limit", "api_error": "fault", "authentication_error": "credential"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			_, one := provider(t, demo.Step{Break: demo.ErrorEvent, After: 3, Type: kind})
			_, two := provider(t)
			i := start(t, poolOf(poolKey(k1, one), poolKey(k2, two)))
			r := i.good(question(sonnet, streamed))
			if i.servedBy(r) != k2 || strings.Count(r.body, "message_start\n") != 1 || strings.Contains(r.body, "event: error") {
				t.Errorf("%s has answered: %q", i.servedBy(r), r.body)
			}
			k := i.keys()[k1]
			if len(k.Models) == 1 {
				k.State, k.Reason = "cooling", k.Models[0].Reason
			}
			if k.State != "cooling" || k.Reason != reason {
				t.Errorf("%+v", k)
			}
		})
	}
}

// SSE-024 in Anthropic's form: a message without content and usage is a refusal.
func TestSSE024EmptyCompleted(t *testing.T) {
	t.Parallel()
	noUsage := strings.Replace(evStart, `,"usage":{"input_tokens":10,"output_tokens":1}`, "", 1)
	for name, text := range map[string]string{"no output and no usage": noUsage + evStop, "nothing": "", "only pings": evPing + evPing, "head alone": evStart} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, two := provider(t)
			i := start(t, poolOf(poolKey(k1, newBackend(t, pours(text)).URL), poolKey(k2, two)))
			if r := i.good(question(sonnet, streamed)); i.servedBy(r) != k2 {
				t.Errorf("%s has answered: %q", i.servedBy(r), r.body)
			}
		})
	}
}

// TestBreaks breaks a stream at every event in every way: before content the next key takes over and nothing is seen
// of it, after it the client never sees a clean end.
func TestBreaks(t *testing.T) {
	t.Parallel()
	const events, content, finish = 7, 4, 6 // of a one-word answer; the first delta; the stop reason
	for how, name := range map[demo.Break]string{demo.ErrorEvent: "error event", demo.Cut: "cut", demo.End: "end"} {
		for after := 1; after <= events; after++ {
			t.Run(fmt.Sprintf("%s after %d", name, after), func(t *testing.T) {
				t.Parallel()
				_, one := provider(t, demo.Step{Text: answerText, Break: how, After: after})
				_, two := provider(t)
				i := start(t, poolOf(poolKey(k1, one), poolKey(k2, two)))
				r := i.good(question(sonnet, streamed))
				rec := i.record(r.trace())
				whole := strings.HasSuffix(r.body, evStop) && !strings.Contains(r.body, "event: error")
				broken := strings.Count(r.body, "event: error") == 1 && !strings.Contains(r.body, "message_stop")
				switch {
				case after < content:
					if !whole || rec.Key != k2 || rec.Outcome != "ok" {
						t.Errorf("%s, %s: %q", rec.Key, rec.Outcome, r.body)
					}
				case after == events: // the end had come already
					if !strings.Contains(r.body, evStop) || rec.Key != k1 || rec.Outcome != "ok" {
						t.Errorf("%s, %s: %q", rec.Key, rec.Outcome, r.body)
					}
				case after == finish && how == demo.End: // only the terminal marker is missing
					if strings.Contains(r.body, "event: error") || rec.Key != k1 || rec.Outcome != "ok" {
						t.Errorf("%s, %s: %q", rec.Key, rec.Outcome, r.body)
					}
				default:
					if !broken || rec.Key != k1 || rec.Outcome != "broken" || rec.OutputTokens < 1 {
						t.Errorf("%s, %s: %q", rec.Key, rec.Outcome, r.body)
					}
				}
			})
		}
	}
}

func TestSSE027EOFWithoutTerminal(t *testing.T) {
	t.Parallel()
	chunk := func(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }
	head := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
	came := evBegin + evDelta
	for name, text := range map[string]string{
		"closed":                    head + "Connection: close\r\n\r\n" + came,
		"chunked without an end":    head + "Transfer-Encoding: chunked\r\n\r\n" + chunk(came),
		"chunked cut in a chunk":    head + "Transfer-Encoding: chunked\r\n\r\n" + chunk(came) + "1000\r\nevent: content_bl",
		"shorter than was promised": head + "Content-Length: 100000\r\n\r\n" + came,
		"ended clean":               head + "Transfer-Encoding: chunked\r\n\r\n" + chunk(came) + "0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := start(t, poolOf(poolKey(k1, answering(t, text))))
			r := i.good(question(sonnet, streamed))
			brokenAs(t, r.body, came)
			if rec := i.record(r.trace()); rec.Outcome != "broken" || rec.InputTokens != 10 || rec.OutputTokens < 1 || !rec.Estimated {
				t.Errorf("journal: %+v", rec)
			}
		})
	}
}

// A plain answer that is cut is aborted: its length promises more, or its last chunk is missing.
func TestPlainAnswerCut(t *testing.T) {
	t.Parallel()
	for _, how := range []demo.Break{demo.Cut, demo.End} {
		_, url := provider(t, demo.Step{Break: how, After: 1})
		i := start(t, poolOf(poolKey(k1, url)))
		r := i.message(question(sonnet))
		if r.err == nil {
			t.Errorf("a clean end of half an answer: %s", r.body)
		}
		if rec := i.records(""); len(rec) != 1 || rec[0].Outcome != "broken" {
			t.Errorf("journal: %+v", rec)
		}
	}
}

func TestSSE028TruncatedFrame(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, came, half string }{
		{"in a delta", evBegin, evDelta[:len(evDelta)-10]},
		{"without its blank line", evBegin, strings.TrimSuffix(evDelta, "\n\n")},
		{"in the first line", evBegin, "event: content"},
		{"in message_delta", evBegin + evEnd, evFinish[:len(evFinish)-20]},
		{"in message_stop, no stop reason", evBegin + evEnd, "event: message_stop\ndata: {\"ty"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			i := start(t, poolOf(poolKey(k1, newBackend(t, pours(c.came+c.half)).URL)))
			r := i.good(question(sonnet, streamed))
			brokenAs(t, r.body, c.came)
			if rec := i.record(r.trace()); rec.Outcome != "broken" {
				t.Errorf("journal: %+v", rec)
			}
		})
	}
	// The stop reason is there, so that the answer is whole (routing.md, section 4). What is left of an event is not.
	for _, c := range []struct{ name, tail, want string }{
		{"half a message_stop", "event: message_stop\ndata: {\"ty", ""},
		{"half a ping", "event: ping\ndata: {\"ty", ""},
		{"a message_stop without its blank line", strings.TrimSuffix(evStop, "\n\n"), strings.TrimSuffix(evStop, "\n\n")},
	} {
		t.Run("after the finish: "+c.name, func(t *testing.T) {
			t.Parallel()
			i := start(t, poolOf(poolKey(k1, newBackend(t, pours(evBegin+evEnd+evFinish+c.tail)).URL)))
			r := i.good(question(sonnet, streamed))
			if got := strings.TrimPrefix(r.body, evBegin+evEnd+evFinish); strings.TrimRight(got, "\n") != c.want && got != evStop {
				t.Errorf("after the finish comes %q", got)
			}
			if rec := i.record(r.trace()); rec.Outcome != "ok" {
				t.Errorf("journal: %+v", rec)
			}
		})
	}
}

// A half event that has flowed, because it is too long to be held back, is not followed by an error event: aborted.
func TestHalfLongEventAborts(t *testing.T) {
	t.Parallel()
	half := strings.Replace(evDelta, "walrus", strings.Repeat("w", 200<<10), 1)
	half = half[:len(half)-20]
	i := start(t, poolOf(poolKey(k1, newBackend(t, pours(evBegin+half)).URL)))
	if r := i.message(question(sonnet, streamed)); r.err == nil {
		t.Errorf("a clean end: …%q", r.body[len(r.body)-200:])
	}
}

// outlast runs a stream beyond a limit: silent is a request that the limit ends, so the limit has passed.
func outlast(t *testing.T, members string, silent string, silentHead string) {
	t.Helper()
	ended := make(chan struct{})
	b := newBackend(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if n > 0 {
			if silentHead != "" {
				pour(w, silentHead)
			}
			hang(r)
			return
		}
		pour(w, evBegin)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				pour(w, evPing)
				continue
			case <-ended:
				pour(w, evRest)
			case <-r.Context().Done():
			}
			return
		}
	})
	i := start(t, members, poolOf(poolKey(k1, b.URL)))
	l := i.open(question(sonnet, streamed))
	l.expect(evBegin)
	i.message(silent)
	close(ended)
	text, err := l.all()
	if err != nil || !strings.HasSuffix(text, evRest) {
		t.Errorf("the stream was cut by a limit that is none of its: %v, …%q", err, text[max(0, len(text)-200):])
	}
}

func TestSSE033ReadTimeoutCancelsStream(t *testing.T) {
	t.Parallel()
	// idle_seconds bounds the reading of a body, the silence of an upstream and of a client that does not read.
	outlast(t, `"failover":{"hold_first_event_seconds":0.01},"timeouts":{"idle_seconds":3}`, question(sonnet, streamed), evStart)

	_, url := provider(t)
	i := start(t, poolOf(poolKey(k1, url)))
	if s := i.http; s.ReadTimeout != 0 || s.WriteTimeout != 0 || s.ReadHeaderTimeout <= 0 || s.IdleTimeout <= 0 {
		t.Errorf("timeouts: read %v, write %v, header %v, idle %v", s.ReadTimeout, s.WriteTimeout, s.ReadHeaderTimeout, s.IdleTimeout)
	}
}

func TestSSE034ClientTimeoutCoversBody(t *testing.T) {
	t.Parallel()
	outlast(t, `"timeouts":{"first_byte_seconds":3,"first_byte_nonstream_seconds":3,"connect_seconds":3}`, question(sonnet, streamed), "")
	outlast(t, `"timeouts":{"first_byte_seconds":3,"first_byte_nonstream_seconds":3,"connect_seconds":3}`, question(sonnet), "")
}

// cancelled lets a client leave once the upstream has its request.
func cancelled(t *testing.T, body string, step demo.Step) {
	t.Helper()
	p, url := provider(t, step)
	_, other := provider(t)
	i := start(t, poolOf(poolKey(k1, url), poolKey(k2, other)))
	ctx, leave := context.WithCancel(t.Context())
	answer := i.background(ctx, body)
	<-step.Hold.Reached()
	leave()
	<-answer
	wait, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := p.Wait(wait, 1); err != nil {
		t.Fatal(err)
	}
	if got := p.Requests(); len(got) != 1 || got[0].Outcome != demo.CutByClient {
		t.Errorf("the upstream's request ended as %q", got[0].Outcome)
	}
	await(t, "the end of the request", func() bool { return i.server.proxy.InFlight() == 0 })
	recs := i.records("")
	if len(recs) != 1 || recs[0].Outcome != "cancelled" || recs[0].Status != 499 || len(recs[0].Attempts) != 1 {
		t.Errorf("journal: %+v", recs)
	}
	i.untouched(k1, k2)
	if k := i.keys()[k1]; k.InFlight != 0 {
		t.Errorf("%d are in flight", k.InFlight)
	}
}

func TestSSE036CancelBeforeFirstByte(t *testing.T) {
	t.Parallel()
	cancelled(t, question(sonnet, streamed), demo.Step{Hold: demo.HoldAt(0)})
	cancelled(t, question(sonnet, streamed), demo.Step{Hold: demo.HoldAt(2)}) // in the head that is held back
}

func TestSSE037CancelNonStream(t *testing.T) {
	t.Parallel()
	cancelled(t, question(sonnet), demo.Step{Hold: demo.HoldAt(0)})
}

// A client that leaves in the middle ends the upstream's request at once.
func TestCancelMidStream(t *testing.T) {
	t.Parallel()
	p, url := provider(t, demo.Step{Text: "walrus walrus walrus", Hold: demo.HoldAt(6)})
	i := start(t, poolOf(poolKey(k1, url)))
	l := i.open(question(sonnet, streamed))
	l.leave()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := p.Wait(ctx, 1); err != nil {
		t.Fatal(err)
	}
	await(t, "the end of the request", func() bool { return i.server.proxy.InFlight() == 0 })
	if recs := i.records(""); len(recs) != 1 || recs[0].Outcome != "cancelled" || recs[0].InputTokens < 1 {
		t.Errorf("journal: %+v", recs)
	}
	i.untouched(k1)
}

// The end of a compressed body is known before the last chunk has come. The client is watched all the same.
func TestCancelAfterCompressedBody(t *testing.T) {
	t.Parallel()
	for _, encoding := range []string{"gzip", "deflate"} {
		t.Run(encoding, func(t *testing.T) {
			t.Parallel()
			hold := demo.HoldAt(0)
			p, url := provider(t, demo.Step{Hold: hold})
			i := start(t, poolOf(poolKey(k1, url)))
			body := packed(t, encoding, question(sonnet, streamed))
			conn, _ := i.raw(fmt.Sprintf("POST /v1/messages HTTP/1.1\r\nHost: localhost\r\n%s\r\nContent-Encoding: %s\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n",
				version, encoding, len(body), body))
			last := make(chan struct{})
			go func() {
				defer close(last)
				_, _ = io.WriteString(conn, "0\r\n\r\n")
			}()
			<-hold.Reached()
			<-last
			conn.Close()
			ctx, cancel := context.WithTimeout(t.Context(), patience/4)
			defer cancel()
			if err := p.Wait(ctx, 1); err != nil {
				t.Errorf("the client is gone, the upstream's request goes on: %v", err)
			}
			hold.Release()
		})
	}
}

// A client that stops reading holds nothing for longer than idle_seconds. That is the client's fault: while it does
// not read, the proxy does not either, and the upstream's silence in that time says nothing of the upstream.
func TestClientThatStopsReading(t *testing.T) {
	t.Parallel()
	stopped := make(chan error, 1)
	b := newBackend(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		pour(w, evBegin)
		for {
			if _, err := io.WriteString(w, strings.Repeat(evDelta, 100)); err != nil {
				stopped <- err
				return
			}
		}
	})
	i := start(t, `"timeouts":{"idle_seconds":2}`, poolOf(poolKey(k1, b.URL)))
	_, in := i.raw(post(question(sonnet, streamed), version))
	select {
	case <-stopped:
	case <-time.After(patience):
		t.Fatal("the upstream still writes")
	}
	rawReply(t, in) // it reads on, too late
	await(t, "the end of the request", func() bool { return i.server.proxy.InFlight() == 0 })
	if recs := i.records(""); len(recs) != 1 || recs[0].Outcome != "cancelled" || recs[0].OutputTokens < 100 {
		t.Errorf("journal: %+v", recs)
	}
	if k := i.keys()[k1]; k.InFlight != 0 || k.State != "ready" {
		t.Errorf("%+v", k)
	}
}

// What a client has seen the end of is in the journal, even while the upstream keeps its connection.
func TestJournalBeforeTheEnd(t *testing.T) {
	t.Parallel()
	t.Run("stream", func(t *testing.T) {
		t.Parallel()
		b := newBackend(t, func(w http.ResponseWriter, r *http.Request, _ int) { pour(w, evAll); hang(r) })
		i := start(t, poolOf(poolKey(k1, b.URL)))
		l := i.open(question(sonnet, streamed))
		l.expect(evAll)
		if rec := i.record(l.header.Get("X-Proxy-Trace")); rec.Outcome != "ok" || rec.OutputTokens != 7 {
			t.Errorf("journal: %+v", rec)
		}
		l.leave()
	})
	t.Run("plain", func(t *testing.T) {
		t.Parallel()
		url := rawUpstream(t, func(conn *net.TCPConn, in *bufio.Reader, _ int) {
			if r, err := http.ReadRequest(in); err == nil {
				_, _ = io.Copy(io.Discard, r.Body)
				fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(whole), whole)
				_, _ = io.Copy(io.Discard, in)
			}
		})
		i := start(t, poolOf(poolKey(k1, url)))
		l := i.open(question(sonnet))
		l.expect(whole)
		if rec := i.record(l.header.Get("X-Proxy-Trace")); rec.Outcome != "ok" || rec.OutputTokens != 7 {
			t.Errorf("journal: %+v", rec)
		}
	})
}

// The journal's sizes are those of the bodies, though its line is written before the last bytes go out.
func TestJournalSizes(t *testing.T) {
	t.Parallel()
	refused := failure("invalid_request_error", "no")
	for _, c := range []struct {
		name, ask, body string
		status          int
		contentType     string
	}{
		{"plain", question(sonnet), whole, 200, "application/json"},
		{"stream", question(sonnet, streamed), evAll, 200, "text/event-stream"},
		{"error", question(sonnet), refused, 400, "application/json"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			i := start(t, poolOf(poolKey(k1, newBackend(t, says(c.status, c.body, "Content-Type: "+c.contentType)).URL)))
			r := i.message(c.ask)
			if rec := i.record(r.trace()); r.body != c.body || rec.ResponseBytes != int64(len(c.body)) || rec.RequestBytes != int64(len(c.ask)) {
				t.Errorf("request %d and response %d bytes, want %d and %d", rec.RequestBytes, rec.ResponseBytes, len(c.ask), len(c.body))
			}
		})
	}
}
