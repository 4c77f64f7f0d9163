package daemon

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"coding-proxy/proxy/demo"
)

// Restart in the middle: cooldowns, breakers, quota guards and sessions are as before. The clock stands still meanwhile,
// so that every figure and time must be the same.
func TestRestartInTheMiddle(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	clock := &clock{time: time.Now()}
	var members []string
	providers := map[string]*demo.Provider{}
	tiers := []string{
		`{"name":"budget","strategy":"session-sticky","quota_guard":{"token_budget":60,"weekly_token_budget":1000}}`,
		`{"name":"capped","quota_guard":{}}`,
		`{"name":"down","circuit_breaker":{"failure_threshold":1}}`,
		`{"name":"back","circuit_breaker":{"failure_threshold":1,"recovery_timeout_seconds":30,"success_threshold":3}}`,
		`{"name":"last","strategy":"session-sticky"}`,
	}
	keys := [][2]string{{"b1", "budget"}, {"c1", "capped"}, {"d1", "down"}, {"k1", "back"}, {"l1", "last"}, {"l2", "last"}, {"l3", "last"}}
	var entries []string
	for _, k := range keys {
		p, url := provider(t)
		providers[k[0]] = p
		entries = append(entries, poolKey(k[0], url, fmt.Sprintf(`"tier":%q,"daily_limit_tokens":1000000`, k[1])))
	}
	members = append(members, `"tiers":[`+strings.Join(tiers, ",")+`]`,
		`"pool":{"strategy":"fill-first","max_wait_seconds":0,"keys":[`+strings.Join(entries, ",")+`]}`)
	i := startInAt(t, dir, clock, nil, members...)

	send := func(i *instance, id string) string {
		t.Helper()
		return i.record(i.good(question(sonnet), session(id)).trace()).Key
	}
	for n := 0; send(i, fmt.Sprint("budget-", n)) == "b1"; n++ { // until the guard has had enough
		if n > 100 {
			t.Fatal("the budget is never used up")
		}
	}
	providers["c1"].Push(demo.Step{Status: http.StatusPaymentRequired, Type: "billing_error", Message: "no credit"})
	providers["d1"].Push(demo.Step{Status: 503})
	providers["k1"].Push(demo.Step{Status: 529})
	providers["l1"].Always(demo.Step{Status: 429, Header: http.Header{"Retry-After": {"4000"}}})
	bound := map[string]string{}
	for n := range 12 {
		id := fmt.Sprint("s", n)
		bound[id] = send(i, id)
	}
	clock.set(clock.now().Add(40 * time.Second)) // the breaker of "back" lets probes in
	if key := send(i, "s0"); key != "k1" {
		t.Fatalf("the probe went to %s", key)
	}
	before := poolState(i)
	i.stop()

	i = startInAt(t, dir, clock, nil, members...)
	after := poolState(i)
	if before != after {
		t.Errorf("before the restart\n%s\nafter it\n%s", before, after)
	}
	for _, word := range []string{`"state":"half_open"`, `"successes":`, `"by":"budget"`, `"by":"cap"`, `"state":"open"`, `"reason":"rate_limit"`} {
		if !strings.Contains(before, word) {
			t.Errorf("the state lacks %s:\n%s", word, before)
		}
	}
	if status, body := i.admin("POST", "/admin/keys/k1/disable"); status != 200 { // so that sessions go where they were
		t.Fatal(status, body)
	}
	for session, key := range bound {
		if !strings.HasPrefix(key, "l") {
			continue // it was the request that opened a breaker or a guard
		}
		if got := send(i, session); got != key {
			t.Errorf("session %s was on %s, is on %s", session, key, got)
		}
	}
}

// A credential that was put right while nothing ran is tried at once; one that is the same still cools.
func TestRestartForgives(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	p := demo.New(demo.Options{Name: "strict", Keys: []string{credential(k1)}})
	s := httptest.NewServer(p)
	t.Cleanup(s.Close)
	wrong := fmt.Sprintf(`{"id":%q,"protocol":"anthropic","base_url":%q,"api_key":"credential-of-nobody"}`, k1, s.URL)
	for n, c := range []struct {
		key    string
		status int
	}{{wrong, 503}, {wrong, 429}, {poolKey(k1, s.URL), 200}} {
		i := startIn(t, dir, poolOf(c.key))
		if r := i.message(question(sonnet)); r.status != c.status {
			t.Errorf("start %d: status %d, want %d", n, r.status, c.status)
		}
		i.stop()
	}
}

// poolState is /api/pool/stats without what a restart may change, and without the figures that sending changes.
func poolState(i *instance) string {
	i.t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(i.ask("GET", "/api/pool/stats", "").body), &v); err != nil {
		i.t.Fatal(err)
	}
	var clean func(any)
	clean = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, name := range []string{"now", "last_used"} {
				delete(v, name)
			}
			for _, inner := range v {
				clean(inner)
			}
		case []any:
			for _, inner := range v {
				clean(inner)
			}
		}
	}
	clean(v)
	text, err := json.Marshal(v)
	if err != nil {
		i.t.Fatal(err)
	}
	return string(text)
}
