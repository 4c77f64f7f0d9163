package proxy

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"coding-proxy/proxy/codec/anthropic"
)

// watched is a writer whose stream has begun, in a bubble with a clock of its own.
func watched() (*clientWriter, *httptest.ResponseRecorder) {
	rec := httptest.NewRecorder()
	p := &Proxy{now: time.Now, keepAlive: keepAliveEvery}
	p.live.Store(&settings{opt: Defaults()})
	w := newClientWriter(rec, p)
	w.stream(anthropic.Dialect(), false)
	w.WriteHeader(200)
	return w, rec
}

// sent returns what the client has got, and forgets it.
func sent(w *clientWriter, rec *httptest.ResponseRecorder) string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	got := rec.Body.String()
	rec.Body.Reset()
	return got
}

// A silent stream gets something at least every 15 s: a comment before the message has begun, a ping after.
func TestKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, rec := watched()
		time.Sleep(40 * time.Second)
		if got := sent(w, rec); got != ": keep-alive\n\n: keep-alive\n\n" {
			t.Fatalf("%q", got)
		}
		w.Write([]byte(evStart))
		time.Sleep(16 * time.Second)
		if got := sent(w, rec); got != evStart+evPing {
			t.Fatalf("%q", got)
		}
		w.stop()
		time.Sleep(time.Minute)
		if got := sent(w, rec); got != "" {
			t.Fatalf("after stop %q", got)
		}
	})
}

// A stream that talks hears nothing from us, and its timer is one for all its life.
func TestNoKeepAliveWhileTheStreamTalks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, rec := watched()
		for range 20 {
			time.Sleep(10 * time.Second)
			w.Write([]byte(evDelta))
		}
		w.stop()
		if got := sent(w, rec); got != strings.Repeat(evDelta, 20) {
			t.Fatalf("%q", got)
		}
	})
}

// SSE-015: never inside an event.
func TestSSE015NoKeepAliveInsideAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, rec := watched()
		w.Write([]byte("event: content_block_delta\n"))
		time.Sleep(time.Minute)
		w.Write([]byte("data: {}\n\n"))
		if got := sent(w, rec); got != "event: content_block_delta\ndata: {}\n\n" {
			t.Fatalf("%q", got)
		}
		time.Sleep(16 * time.Second)
		w.stop()
		if got := rec.Body.String(); got != ": keep-alive\n\n" {
			t.Fatalf("%q", got)
		}
	})
}

// The watchdog ends an attempt that is silent for too long, and only then (SSE-018: our own keep-alives are no sign of
// life of the upstream).
func TestWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		d := newWatchdog(cancel, 10*time.Second, time.Now)
		time.Sleep(9 * time.Second)
		d.idle(time.Minute)
		time.Sleep(10 * time.Minute) // nobody waits: the client is slow
		for range 10 {
			d.waiting()
			time.Sleep(50 * time.Second)
			d.alive()
		}
		if ctx.Err() != nil {
			t.Fatal("bitten while alive")
		}
		d.waiting()
		time.Sleep(121 * time.Second)
		if cause := context.Cause(ctx); cause != errTimeout || !d.fired() {
			t.Fatalf("after silence: %v", cause)
		}
		d.stop()
	})
}
