package daemon

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"coding-proxy/proxy/demo"
	"coding-proxy/web"
)

const adminKey = "admin-key-of-the-owner"

// The admin key opens the pages from anywhere; wrong ones are limited to five a minute and address.
func TestAdminKeyOpensPages(t *testing.T) {
	t.Parallel()
	_, url := provider(t)
	clock := &clock{time: time.Now()}
	i := startAt(t, clock, nil, poolOf(poolKey(k1, url)), fmt.Sprintf(`"auth":{"admin_key":%q}`, adminKey))
	visit := func(address, token string) int {
		r := httptest.NewRequest("GET", "/stats", nil)
		r.RemoteAddr, r.Host = address, "proxy.test:3456"
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		w := httptest.NewRecorder()
		i.server.ServeHTTP(w, r)
		return w.Code
	}
	if got := visit("192.168.1.20:1", adminKey); got != 200 {
		t.Errorf("with the admin key: %d", got)
	}
	for n := range 7 {
		want := 401
		if n >= 5 {
			want = 429
		}
		if got := visit("192.168.1.20:1", "guess"); got != want {
			t.Errorf("guess %d: %d, want %d", n, got, want)
		}
	}
	if got := visit("192.168.1.20:1", adminKey); got != 429 {
		t.Errorf("the right key after the guesses: %d", got)
	}
	if got := visit("192.168.1.21:1", adminKey); got != 200 {
		t.Errorf("another address: %d", got)
	}
	clock.set(clock.now().Add(time.Minute))
	if got := visit("192.168.1.20:1", adminKey); got != 200 {
		t.Errorf("a minute later: %d", got)
	}
}

// admin makes an admin call with the token and returns its status and answer.
func (i *instance) admin(method, path string) (int, map[string]any) {
	i.t.Helper()
	r := i.ask(method, path, "", "authorization: Bearer "+i.instance.Token)
	var body map[string]any
	if err := json.Unmarshal([]byte(r.body), &body); err != nil {
		i.t.Fatalf("%s %s: %d %s", method, path, r.status, r.body)
	}
	return r.status, body
}

func TestAdminCalls(t *testing.T) {
	t.Parallel()
	p, url := provider(t)
	i := start(t, poolOf(poolKey(k1, url), poolKey(k2, url, `"enabled":false`)))
	p.Push(demo.Step{Status: 429, Header: http.Header{"Retry-After": {"3600"}}})
	if r := i.message(question(sonnet)); r.status != 429 {
		t.Fatalf("status %d", r.status)
	}
	if r := i.message(question(sonnet)); r.status != 429 || !strings.Contains(r.body, "key pool exhausted") {
		t.Fatalf("status %d: %s", r.status, r.body)
	}
	for _, c := range []struct {
		method, path string
		status       int
		says         string
	}{
		{"POST", "/admin/reset?name=nobody", 404, "no key and no tier"},
		{"POST", "/admin/reset?nam=" + k1, 400, "unknown parameter"},
		{"POST", "/admin/reset?name=", 400, "name is empty"},
		{"POST", "/admin/reset?name=%zz", 400, "cannot be read"},
		{"POST", "/admin/reset?name=a&name=b", 400, "more than once"},
		{"POST", "/admin/shutdown?grace=", 400, "grace"},
		{"POST", "/admin/keys/nobody/enable", 404, "no key"},
		{"GET", "/admin/reset", 405, "POST"},
		{"POST", "/admin/sessions/0123/unbind", 404, "no session"},
		{"POST", "/admin/shutdown?grace=-1", 400, "grace"},
		{"POST", "/admin/shutdown?grace=soon", 400, "grace"},
		{"GET", "/admin/route", 400, "model"},
		{"GET", "/admin/route?model=m&caller=nobody", 404, "caller"},
		{"POST", "/api/reauth/copilot", 404, "reauth"},
		{"POST", "/admin/keys/" + k1 + "/reset", 200, "reset"},
	} {
		status, body := i.admin(c.method, c.path)
		if text := fmt.Sprint(body); status != c.status || !strings.Contains(text, c.says) {
			t.Errorf("%s %s: %d %s", c.method, c.path, status, text)
		}
	}
	i.good(question(sonnet))
	if status, _ := i.admin("POST", "/admin/keys/"+k1+"/disable"); status != 200 {
		t.Error("disable")
	}
	if r := i.message(question(sonnet)); r.status != 429 || !strings.Contains(r.body, "2 disabled") {
		t.Errorf("%d %s", r.status, r.body)
	}
	if status, _ := i.admin("POST", "/admin/keys/"+k2+"/enable"); status != 200 {
		t.Error("enable")
	}
	if rec := i.record(i.good(question(sonnet)).trace()); rec.Key != k2 {
		t.Errorf("key %s", rec.Key)
	}
	status, body := i.admin("GET", "/admin/config")
	if text := fmt.Sprint(body); status != 200 || !strings.Contains(text, "api_key:***") || !strings.Contains(text, url) {
		t.Errorf("config: %d %s", status, text)
	}
	// Reference 1's reset.
	if status, body := i.admin("POST", "/api/reset"); status != 200 || fmt.Sprint(body) != "map[status:ok]" {
		t.Errorf("%d %v", status, body)
	}
	r := i.ask("POST", "/api/reset", `{"vendors":["zhipu"]}`, "authorization: Bearer "+i.instance.Token)
	if r.status != 400 || !strings.Contains(r.body, "nothing was reset") {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// The end that an admin call asks for is as graceful as a signal's.
func TestAdminShutdown(t *testing.T) {
	t.Parallel()
	hold := demo.HoldAt(5)
	_, url := provider(t, demo.Step{Hold: hold})
	i := start(t, poolOf(poolKey(k1, url)))
	held := i.open(question(sonnet, streamed))
	<-hold.Reached()
	if status, body := i.admin("POST", "/admin/shutdown?grace=60"); status != 202 {
		t.Fatalf("%d %v", status, body)
	}
	if r := i.message(question(sonnet)); r.err == nil && r.status != 503 {
		t.Errorf("while it drains: %d", r.status)
	}
	for _, path := range []string{"/healthz", "/readyz", "/health"} {
		if r := i.ask("GET", path, ""); r.status != 503 {
			t.Errorf("%s while it drains: %d", path, r.status)
		}
	}
	hold.Release()
	if text, err := held.all(); err != nil || !strings.Contains(text, "message_stop") {
		t.Errorf("the stream in flight: %v %q", err, text)
	}
	i.transport.CloseIdleConnections()
	i.wait()
	if _, err := ReadInstance(i.dir); err == nil {
		t.Error("proxy.pid is still there")
	}
}

// The route of the routes' own table: a new admin call needs a test above.
func TestAdminRoutesAreKnown(t *testing.T) {
	var got []string
	for _, r := range web.AdminRoutes() {
		got = append(got, r.Method+" "+r.Pattern)
	}
	want := []string{"POST /admin/shutdown", "POST /admin/reload", "POST /admin/reset", "POST /admin/keys/{id}/enable", "POST /admin/keys/{id}/disable",
		"POST /admin/keys/{id}/reset", "POST /admin/sessions/{id}/unbind", "GET /admin/config", "GET /admin/route", "POST /api/reset", "POST /api/reauth/{id}"}
	if !slices.Equal(got, want) {
		t.Errorf("admin calls %q, want %q", got, want)
	}
}
