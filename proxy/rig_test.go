package proxy

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"coding-proxy/auth"
	"coding-proxy/pool"
	"coding-proxy/proxy/upstream"
	"coding-proxy/stats"
)

// records keeps what the proxy records.
type records struct {
	mu   sync.Mutex
	list []stats.Record
}

func (r *records) Add(rec *stats.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, *rec)
}

func (r *records) last(t *testing.T) stats.Record {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.list) == 0 {
		t.Fatal("nothing was recorded")
	}
	return r.list[len(r.list)-1]
}

// rig is a proxy over keys k1, k2, … that all go to one upstream, without a server around it.
type rig struct {
	*Proxy
	records *records
	url     string
	options pool.Options
}

// rest makes a new pool, in which nothing cools.
func (r *rig) rest() { r.Proxy.pool = pool.New(r.options, nil, time.Now, 1) }

func newRig(t testing.TB, keys int, models map[string]string, change func(*Options), h http.HandlerFunc) *rig {
	t.Helper()
	return newRigOf(t, Anthropic, keys, models, change, h)
}

// newRigOf is newRig with an upstream of any dialect.
func newRigOf(t testing.TB, dialect string, keys int, models map[string]string, change func(*Options), h http.HandlerFunc) *rig {
	t.Helper()
	up := httptest.NewServer(h)
	t.Cleanup(up.Close)
	base, err := url.Parse(up.URL)
	if err != nil {
		t.Fatal(err)
	}
	po := pool.Defaults()
	po.MaxWait = 0
	tier := pool.Tier{Name: "default", Strategy: pool.FillFirst}
	ups := map[string]*upstream.Upstream{}
	for i := range keys {
		id := "k" + string(rune('1'+i))
		tier.Keys = append(tier.Keys, pool.Key{ID: id, Provider: "test", Protocols: []string{dialect}, Models: models})
		ups[id] = upstream.New(upstream.Options{KeyID: id, APIKey: auth.NewSecret("secret-of-" + id),
			Endpoints: []upstream.Endpoint{{Protocol: dialect, BaseURL: base, HeaderName: "x-api-key"}}}, upstream.Env{})
	}
	po.Tiers = []pool.Tier{tier}
	opt := Defaults()
	if change != nil {
		change(&opt)
	}
	rec := &records{}
	p := New(opt, pool.New(po, nil, time.Now, 1), auth.NewCallers(auth.Options{}), ups, rec, slog.New(slog.DiscardHandler), time.Now)
	routes := Routes()
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		route, path, id, err := Match(routes, r.Method, r.URL.EscapedPath())
		if err != nil {
			p.WriteError(w, r, "trace", err)
			return
		}
		started := time.Now()
		if r.Header.Get("X-Test-Late") != "" { // as if the client had been waiting for a long time
			started = started.Add(-time.Hour)
		}
		p.Serve(w, r, Entry{Trace: "trace", Route: route, Path: path, ID: id, Caller: auth.Caller{Code: "tester"}, Started: started})
	}))
	t.Cleanup(func() {
		front.Close()
		p.CloseIdle()
	})
	return &rig{p, rec, front.URL, po}
}

// post sends a body to /v1/messages.
func (r *rig) post(t testing.TB, body []byte) (*http.Response, []byte) {
	t.Helper()
	resp, err := http.Post(r.url+"/v1/messages?beta=true", "application/json", readerOf(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, got
}

// relay makes a relay over src, as if an attempt of k1 had come to it.
func (r *rig) relay(t testing.TB, src io.Reader, stream bool) *relay {
	t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	in, err := http.NewRequestWithContext(ctx, http.MethodPost, "/v1/messages", nil)
	if err != nil {
		t.Fatal(err)
	}
	d := r.dialects[Anthropic]
	c := &call{p: r.Proxy, set: r.settings(), in: in, dialect: d, stream: stream,
		Entry: Entry{Trace: "trace", Route: &Route{Dialect: Anthropic}, Started: time.Now()}}
	c.record.Caller = "tester"
	c.writer = newClientWriter(httptest.NewRecorder(), r.Proxy)
	c.want = pool.Want{Scope: pool.Everything(), Model: "m"}
	lease, err := r.pool.Lease(ctx, &c.want)
	if err != nil {
		t.Fatal(err)
	}
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(src)}
	up := r.settings().upstreams["k1"]
	return newRelay(ctx, c, lease, &lane{up: up, way: up.Endpoint(Anthropic), dialect: d}, resp, newWatchdog(cancel, time.Minute, time.Now))
}
