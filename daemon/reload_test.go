package daemon

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"coding-proxy/proxy/demo"
)

// rewrite writes the instance's configuration file anew, as an editor does that replaces it.
func (i *instance) rewrite(members ...string) {
	i.t.Helper()
	i.write(fmt.Sprintf(`{"server":{"port":0,"data_dir":%q}%s}`, i.dir, rest(members)))
}

func (i *instance) write(text string) {
	i.t.Helper()
	path := i.config().Path
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		i.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		i.t.Fatal(err)
	}
}

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal(what, "does not come true")
		}
	}
}

// connections counts the open ones of a server.
type connections struct{ n atomic.Int64 }

func (c *connections) state(_ net.Conn, s http.ConnState) {
	switch s {
	case http.StateNew:
		c.n.Add(1)
	case http.StateClosed, http.StateHijacked:
		c.n.Add(-1)
	}
}

// counted serves a simulated provider that takes one credential alone.
func counted(t *testing.T, c *connections, key string) (*demo.Provider, string) {
	t.Helper()
	p := demo.New(demo.Options{Name: key, Keys: []string{credential(key)}})
	s := httptest.NewUnstartedServer(p)
	s.Config.ConnState = c.state
	s.Start()
	t.Cleanup(s.Close)
	return p, s.URL
}

// 200 streams in flight and short requests beside them, 20 reloads, every third one invalid: no request is lost or
// misrouted, no goroutine or connection is left behind.
func TestReloadUnderLoad(t *testing.T) {
	const streams, reloads = 200, 20
	open := &connections{}
	providers, urls := map[string]*demo.Provider{}, map[string]string{}
	for _, id := range []string{k1, k2, k3} {
		providers[id], urls[id] = counted(t, open, id)
	}
	callers := fmt.Sprintf(`"auth":{"request_keys":[{"code":"one","api_key":%q,"group":"g1"},{"code":"two","api_key":%q,"group":"g2"}],
		"groups":[{"name":"g1","keys":[%q]},{"name":"g2","tiers":["second"]}]}`, requestKey+"-1", requestKey+"-2", k1)
	version := func(n int) []string {
		// The order of the tiers, limits, a key that comes and goes, timeouts and so the transports change.
		first, second := `{"name":"first","circuit_breaker":{}}`, `{"name":"second","quota_guard":{"token_budget":1000000000}}`
		if n%2 == 1 {
			first, second = second, first
		}
		keys := []string{
			poolKey(k1, urls[k1], `"tier":"first"`, fmt.Sprintf(`"daily_limit_tokens":%d`, 1_000_000_000+n)),
			poolKey(k2, urls[k2], `"tier":"second"`, `"daily_limit_tokens":1000000000`),
		}
		if n%4 > 1 {
			keys = append(keys, poolKey(k3, urls[k3], `"tier":"second"`, `"daily_limit_tokens":1000000000`))
		}
		return []string{callers, `"tiers":[` + first + "," + second + `]`, `"pool":{"keys":[` + strings.Join(keys, ",") + `]}`,
			fmt.Sprintf(`"timeouts":{"connect_seconds":%d}`, 5+n%3)}
	}
	i := start(t, version(0)...)
	i.good(question(sonnet), "x-api-key: "+requestKey+"-1")
	i.good(question(sonnet), "x-api-key: "+requestKey+"-2")
	i.transport.CloseIdleConnections()
	i.server.proxy.CloseIdle()
	eventually(t, "no connection before", func() bool { return open.n.Load() == 0 })
	before := runtime.NumGoroutine()

	hold := demo.HoldAt(5)
	for _, p := range providers {
		p.Always(demo.Step{Hold: hold})
	}
	var held []*live
	for n := range streams {
		held = append(held, i.open(question(sonnet, streamed), fmt.Sprintf("x-api-key: %s-%d", requestKey, 1+n%2), session(fmt.Sprint("s", n))))
	}
	for _, p := range providers {
		p.Always(demo.Step{})
	}
	busy, done := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	var short atomic.Int64
	for w := range 4 {
		workers.Go(func() {
			for busy.Err() == nil {
				if r := i.message(question(sonnet), fmt.Sprintf("x-api-key: %s-%d", requestKey, 1+w%2)); r.status != 200 {
					t.Errorf("a short request: %d %s", r.status, r.body)
					return
				}
				short.Add(1)
			}
		})
	}
	for n := 1; n <= reloads; n++ {
		seen := short.Load()
		if n%3 == 0 {
			i.write(`{"pool":`)
			if _, err := i.Reload(); err == nil {
				t.Error("half a file was accepted")
			}
		} else {
			i.rewrite(version(n)...)
			if _, err := i.Reload(); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "requests between reloads", func() bool { return short.Load() > seen+3 || t.Failed() })
	}
	done()
	workers.Wait()
	hold.Release()
	for n, l := range held {
		if text, err := l.all(); err != nil || l.status != 200 || !strings.Contains(text, "message_stop") {
			t.Errorf("stream %d: status %d, %v: %q", n, l.status, err, text)
		}
	}
	i.checkGroups(t, streams+int(short.Load())+2)
	i.transport.CloseIdleConnections()
	i.server.proxy.CloseIdle()
	eventually(t, "no connection left", func() bool { return open.n.Load() == 0 })
	eventually(t, "no goroutine left", func() bool { return runtime.NumGoroutine() <= before })
	t.Logf("%d streams and %d short requests over %d reloads", streams, short.Load(), reloads)
}

// checkGroups reads the journal: every request ended well, with a key of its caller's group.
func (i *instance) checkGroups(t *testing.T, want int) {
	t.Helper()
	n := 0
	for _, r := range i.records("") {
		n++
		if r.Outcome != "ok" || r.Caller == "one" && r.Key != k1 || r.Caller == "two" && r.Key != k2 && r.Key != k3 || len(r.Attempts) != 1 {
			t.Errorf("journal: %+v", r)
		}
	}
	if n != want {
		t.Errorf("%d requests in the journal, want %d", n, want)
	}
}

// An editor that writes slowly: the old configuration stays until a whole one is there, and the last write counts.
func TestCFG011ReloadOfHalfFile(t *testing.T) {
	t.Parallel()
	_, url := provider(t)
	i := prepare(t, filepath.Join(t.TempDir(), "data"), poolOf(poolKey(k1, url)))
	i.look = time.Millisecond
	i.serve()
	path := i.config().Path
	whole := fmt.Sprintf(`{"server":{"port":0,"data_dir":%q},%s}`, i.dir, poolOf(poolKey(k2, url)))
	refusals := func() int { return strings.Count(i.log.String(), "the configuration is wrong") }
	for n, text := range []string{"", whole[:len(whole)/2]} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the refusal", func() bool { return refusals() > n })
		if rec := i.record(i.good(question(sonnet)).trace()); rec.Key != k1 {
			t.Errorf("key %s", rec.Key)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the refusal of none", func() bool { return refusals() > 2 })
	if err := os.WriteFile(path, []byte(whole), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the reload", func() bool { return strings.Contains(i.log.String(), "configuration reloaded") })
	if rec := i.record(i.good(question(sonnet)).trace()); rec.Key != k2 {
		t.Errorf("key %s", rec.Key)
	}
}

// A pool that has no usable key learns of one without a restart, and of a credential that was put right.
func TestKEY018RepairedKeysAreSeen(t *testing.T) {
	t.Parallel()
	p := demo.New(demo.Options{Name: "strict", Keys: []string{credential(k1)}})
	s := httptest.NewServer(p)
	t.Cleanup(s.Close)
	wrong := fmt.Sprintf(`{"id":%q,"protocol":"anthropic","base_url":%q,"api_key":"credential-of-nobody"}`, k1, s.URL)
	i := start(t, poolOf(wrong))
	if r := i.message(question(sonnet)); r.status != 503 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if r := i.message(question(sonnet)); r.status != 429 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	i.rewrite(poolOf(poolKey(k1, s.URL)))
	if status, body := i.admin("POST", "/admin/reload"); status != 200 {
		t.Fatal(status, body)
	}
	i.good(question(sonnet))
}

// What a reload cannot change is named.
func TestReloadNamesWhatNeedsARestart(t *testing.T) {
	t.Parallel()
	_, url := provider(t)
	i := start(t, poolOf(poolKey(k1, url)))
	i.write(fmt.Sprintf(`{"server":{"port":4000,"data_dir":"elsewhere"},"log":{"format":"json","level":"debug"},%s}`, poolOf(poolKey(k1, url))))
	status, body := i.admin("POST", "/admin/reload")
	if status != 200 || fmt.Sprint(body["needs_restart"]) != "[log.format server.data_dir server.port]" {
		t.Errorf("%d %v", status, body)
	}
	i.good(question(sonnet))
}

// What an operator switched off stays off until the next reload: that is not the file's watcher, which sees a version that
// is in use already.
func TestOneReloadOfOneChange(t *testing.T) {
	t.Parallel()
	_, url := provider(t)
	i := prepare(t, filepath.Join(t.TempDir(), "data"), poolOf(poolKey(k1, url)))
	i.look = time.Millisecond
	i.serve()
	tick := func() {
		t.Helper()
		path := filepath.Join(i.dir, instanceName)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		eventually(t, "proxy.pid", func() bool { _, err := os.Stat(path); return err == nil })
	}
	// The watcher may be quicker than the call; then the call is a reload more, and the last one either way.
	i.rewrite(poolOf(poolKey(k1, url), poolKey(k2, url)))
	if status, body := i.admin("POST", "/admin/reload"); status != 200 {
		t.Fatal(status, body)
	}
	i.admin("POST", "/admin/keys/"+k1+"/disable")
	for range 3 {
		tick()
	}
	away := i.config().Path + ".away"
	if err := os.Rename(i.config().Path, away); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the refusal", func() bool { return strings.Contains(i.log.String(), "the configuration is wrong") })
	if err := os.Rename(away, i.config().Path); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		tick()
	}
	if state := i.keys()[k1].State; state != "disabled" {
		t.Errorf("the key is %s", state)
	}
}

// A late answer to a credential that is gone says nothing of the one that replaced it; and a tier whose keys were all put
// right begins anew.
func TestReloadForgives(t *testing.T) {
	t.Parallel()
	answer := make(chan struct{})
	p := demo.New(demo.Options{Name: "p", Keys: []string{credential(k1)}})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key") == "credential-of-nobody" {
			if r.Header.Get("X-Late") != "" {
				<-answer
			}
			say(w, 401, failure("authentication_error", "invalid x-api-key"))
			return
		}
		p.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	down := newBackend(t, says(529, failure("overloaded_error", "overloaded")))
	tiers := `"tiers":[{"name":"one","circuit_breaker":{"failure_threshold":1}},{"name":"two"}]`
	pool := func(first string) string {
		return `"pool":{"strategy":"fill-first","max_wait_seconds":0,"keys":[` + first + `,` + poolKey(k2, s.URL, `"tier":"two"`, `"enabled":false`) + `]}`
	}
	// The breaker of an address that is gone.
	i := start(t, tiers, pool(poolKey(k1, down.URL, `"tier":"one"`)))
	i.message(question(sonnet))
	i.rewrite(tiers, pool(poolKey(k1, s.URL, `"tier":"one"`)))
	if _, err := i.Reload(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(i.ask("GET", "/api/pool/stats", "").body, `"state":"closed"`) {
		t.Error("the breaker is still open")
	}
	i.good(question(sonnet))
	// The credential of before, with an answer that comes later.
	wrong := fmt.Sprintf(`{"id":%q,"tier":"one","protocol":"anthropic","base_url":%q,"api_key":"credential-of-nobody"}`, k1, s.URL)
	i.rewrite(tiers, pool(wrong))
	if _, err := i.Reload(); err != nil {
		t.Fatal(err)
	}
	late := i.background(t.Context(), question(sonnet), "x-late: yes")
	eventually(t, "the request in flight", func() bool { return i.keys()[k1].InFlight == 1 })
	i.rewrite(tiers, pool(poolKey(k1, s.URL, `"tier":"one"`)))
	if _, err := i.Reload(); err != nil {
		t.Fatal(err)
	}
	i.good(question(sonnet))
	close(answer)
	if r := <-late; r.status != 503 {
		t.Errorf("the late answer: %d", r.status)
	}
	i.good(question(sonnet))
}
