package upstreamtest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"coding-proxy/proxy/ir"
)

// crowd is how many requests come at once.
const crowd = 500

// good sends a request that must be answered.
func (g *rig) good(asked Request) {
	g.t.Helper()
	if out := g.do(context.Background(), asked); out.fault != nil || out.err != nil || out.status != http.StatusOK || out.body != g.c.Plain {
		g.t.Errorf("%s: status %d, body %q, fault %v, error %v, want 200 and %q", asked.Name, out.status, out.body, said(out.fault), out.err, g.c.Plain)
	}
}

func (g *rig) wantExchanges(n int) {
	g.t.Helper()
	if got, _ := g.counts(); got != n {
		g.t.Errorf("%d exchanges, want %d", got, n)
	}
}

func said(f *ir.Fault) string {
	if f == nil {
		return "none"
	}
	return fmt.Sprintf("%d %s %s %s: %s (reset %v)", f.Status, f.Kind, f.Type, f.Code, f.Message, f.Reset)
}

func testSent(t *testing.T, c Case) {
	for _, asked := range c.Requests {
		t.Run(asked.Name, func(t *testing.T) {
			g := newRig(t, c)
			g.t = t
			g.good(asked)
			seen := g.arrivals()
			if len(seen) != 1 {
				t.Fatalf("%d requests came, want 1", len(seen))
			}
			switch {
			case c.Sent != nil:
				c.Sent(t, asked, seen[0].body)
			case string(seen[0].body) != asked.Body:
				t.Errorf("the body has changed:\n%s\nwas\n%s", seen[0].body, asked.Body)
			}
			if got := seen[0].header.Get("User-Agent"); strings.Contains(got, "some-client") {
				t.Errorf("it calls itself %q", got)
			}
			if token, _ := c.Grant(1); seen[0].header.Get("Authorization") != "Bearer "+token {
				t.Error("it does not carry the token")
			}
		})
	}
}

func testReuse(t *testing.T, c Case) {
	g := newRig(t, c)
	for range 3 {
		for _, asked := range c.Requests {
			g.good(asked)
		}
	}
	g.wantExchanges(1)
}

func testExpired(t *testing.T, c Case) {
	g := newRig(t, c)
	g.good(c.Requests[0])
	g.clock.advance(c.Life + time.Second)
	g.good(c.Requests[0])
	g.wantExchanges(2)
	first, _ := c.Grant(1)
	if seen := g.arrivals(); len(seen) != 2 || seen[1].header.Get("Authorization") == "Bearer "+first {
		t.Errorf("of %d requests the second carries the old token", len(seen))
	}
}

func testRefusedToken(t *testing.T, c Case) {
	g := newRig(t, c)
	g.good(c.Requests[0])
	first, _ := c.Grant(1)
	g.set(func() { g.revoked[first] = true })
	for range 2 {
		g.good(c.Requests[0])
	}
	g.wantExchanges(2)
	seen := g.arrivals()
	if len(seen) != 4 {
		t.Fatalf("%d requests came, want 4: one good, one refused, its second try, one more good", len(seen))
	}
	if string(seen[1].body) != string(seen[2].body) && c.Sent == nil {
		t.Error("the second try had another body")
	}
}

func testRefusedKey(t *testing.T, c Case) {
	g := newRig(t, c)
	g.good(c.Requests[0])
	g.set(func() { g.refuse = true })
	out := g.do(context.Background(), c.Requests[0])
	if out.status != http.StatusUnauthorized || out.sends != 2 {
		t.Errorf("status %d after %d tries (fault %s), want 401 after 2", out.status, out.sends, said(out.fault))
	}
	g.set(func() { g.refuse = false })
	g.good(c.Requests[0])
}

func testVerdicts(t *testing.T, c Case) {
	for _, status := range []int{400, 404, 413, 422, 429, 500, 503} {
		if slices.Contains(c.Moves, status) {
			continue
		}
		g := newRig(t, c)
		g.set(func() {
			g.answers = []Refusal{{status, `{"error":{"type":"some_error","status":"SOME","message":"no"}}`}}
		})
		out := g.do(context.Background(), c.Requests[0])
		if out.status != status || out.sends != 1 {
			t.Errorf("%d: status %d after %d tries, want one", status, out.status, out.sends)
		}
		g.wantExchanges(1)
	}
}

func testExchangeFails(t *testing.T, c Case) {
	for _, how := range []Refusal{
		{500, `{"message":"the backend is away, %s"}`}, {503, ``}, {200, `<html>a gateway</html>`}, {200, `{}`}, {302, ``},
	} {
		g := newRig(t, c)
		g.set(func() { g.failing = &how })
		out := g.do(context.Background(), c.Requests[0])
		f := out.fault
		if f == nil {
			t.Fatalf("%d %q: no fault, status %d", how.Status, how.Body, out.status)
		}
		if f.Status < 500 || f.Reset <= 0 || f.Kind == "" || f.Type == "" || f.Message == "" {
			t.Errorf("%d %q: the fault is %s; want a 5xx with kind, type, message and a reset", how.Status, how.Body, said(f))
		}
		g.wantQuiet(f)
		if _, n := g.counts(); n != 0 {
			t.Errorf("%d requests were sent without a token", n)
		}
		// The next one does not ask again at once.
		if out = g.do(context.Background(), c.Requests[0]); out.fault == nil {
			t.Error("no fault right after a failed exchange")
		}
		g.wantExchanges(1)
		g.set(func() { g.failing = nil })
		g.clock.advance(f.Reset + 10*time.Minute)
		g.good(c.Requests[0])
	}
}

func testRefusedCredential(t *testing.T, c Case) {
	if c.Refused.Status == 0 {
		t.Skip("the case names none")
	}
	g := newRig(t, c)
	g.set(func() { g.failing = &c.Refused })
	for range 2 {
		out := g.do(context.Background(), c.Requests[0])
		f := out.fault
		if f == nil || f.Status != http.StatusUnauthorized || f.Type == "" || strings.Trim(f.Type, "abcdefghijklmnopqrstuvwxyz_") != "" || f.Message == "" {
			t.Fatalf("the fault is %s; want a 401 whose type is a closed word", said(f))
		}
		g.wantQuiet(f)
	}
	if _, n := g.counts(); n != 0 {
		t.Errorf("%d requests were sent without a token", n)
	}
}

func testCancel(t *testing.T, c Case) {
	g := newRig(t, c)
	holding := g.holdExchanges()
	ctx, cancel := context.WithCancel(context.Background())
	left, stays := make(chan outcome, 1), make(chan outcome, 1)
	go func() { left <- g.do(ctx, c.Requests[0]) }()
	<-holding
	go func() { stays <- g.do(context.Background(), c.Requests[0]) }()
	cancel()
	if out := <-left; out.fault == nil {
		t.Errorf("a cancelled request came to status %d, error %v; want a fault", out.status, out.err)
	} else if g.wantQuiet(out.fault); out.fault.Reset != 0 || out.fault.Status == http.StatusUnauthorized {
		t.Errorf("leaving is held against the key: %s", said(out.fault))
	}
	g.release()
	if out := <-stays; out.status != http.StatusOK {
		t.Errorf("who stayed got status %d, fault %s", out.status, said(out.fault))
	}
	g.wantExchanges(1)
}

// all sends a crowd at once and returns what came of it.
func (g *rig) all() []outcome {
	outs := make([]outcome, crowd)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range outs {
		wg.Go(func() {
			<-start
			outs[i] = g.do(context.Background(), g.c.Requests[i%len(g.c.Requests)])
		})
	}
	close(start)
	wg.Wait()
	return outs
}

func testCrowd(t *testing.T, c Case) {
	g := newRig(t, c)
	g.good(c.Requests[0])
	g.clock.advance(c.Life + time.Second)
	for _, out := range g.all() {
		if out.status != http.StatusOK || out.sends != 1 {
			t.Fatalf("status %d after %d tries, fault %s, error %v", out.status, out.sends, said(out.fault), out.err)
		}
	}
	g.wantExchanges(2)

	g.clock.advance(c.Life + time.Second)
	g.set(func() { g.failing = &Refusal{500, ``} })
	for _, out := range g.all() {
		if out.fault == nil {
			t.Fatalf("status %d while the exchange fails", out.status)
		}
	}
	g.wantExchanges(3)
	g.set(func() { g.failing = nil })
	g.clock.advance(10 * time.Minute)
	g.good(c.Requests[0])
	g.wantExchanges(4)
}

func testRefusedCrowd(t *testing.T, c Case) {
	g := newRig(t, c)
	g.good(c.Requests[0])
	first, _ := c.Grant(1)
	g.set(func() { g.revoked[first] = true })
	for _, out := range g.all() {
		if out.status != http.StatusOK || out.sends > 2 {
			t.Fatalf("status %d after %d tries, fault %s, error %v", out.status, out.sends, said(out.fault), out.err)
		}
	}
	g.wantExchanges(2)
}

func testSecrets(t *testing.T, c Case) {
	g := newRig(t, c)
	g.good(c.Requests[0])
	texts := []string{fmt.Sprintf("%v", g.kind), fmt.Sprintf("%+v", g.kind), fmt.Sprintf("%#v", g.kind), fmt.Sprintf("%s", g.kind)}
	if b, err := json.Marshal(g.kind); err == nil {
		texts = append(texts, string(b))
	}
	if c.Diagnose != nil {
		b, err := json.Marshal(c.Diagnose(g.kind))
		if err != nil {
			t.Errorf("the diagnosis: %v", err)
		}
		texts = append(texts, string(b))
	}
	for _, text := range texts {
		g.quiet(text)
	}
}

// wantQuiet checks that a fault shows no secret.
func (g *rig) wantQuiet(f *ir.Fault) {
	g.t.Helper()
	g.quiet(said(f))
}

func (g *rig) quiet(text string) {
	g.t.Helper()
	token, _ := g.c.Grant(1)
	for _, s := range append(slices.Clone(g.c.Secrets), token) {
		if strings.Contains(text, s) {
			g.t.Errorf("a secret shows in %q", text)
		}
	}
}
