package web

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"coding-proxy/auth"
	"coding-proxy/pool"
	"coding-proxy/stats"
)

const hostile = `<img src=x onerror="alert(1)">'</script>`

// fixture is a pool and statistics that always say the same.
type fixture struct {
	pool    pool.View
	totals  stats.Totals
	keys    map[string]stats.Windows[stats.Figures]
	users   map[string]stats.Windows[stats.Figures]
	callers []auth.RequestKey

	accounts accounts
	journal  Journal
	opt      Options
	standing auth.Standing
	metrics  stats.Metrics
}

func (f *fixture) View() pool.View { return f.pool }

func (f *fixture) Standing(string, auth.Limits, time.Time) auth.Standing { return f.standing }

func (f *fixture) Totals(r stats.Range) stats.Totals { return f.totals }

func (f *fixture) KeyWindows(time.Time) map[string]*stats.Windows[stats.Figures] {
	return pointers(f.keys)
}

func (f *fixture) CallerWindows(time.Time) map[string]*stats.Windows[stats.Figures] {
	return pointers(f.users)
}

// pointers returns a copy, which the caller may change.
func pointers(m map[string]stats.Windows[stats.Figures]) map[string]*stats.Windows[stats.Figures] {
	out := map[string]*stats.Windows[stats.Figures]{}
	for k, v := range m {
		out[k] = &v
	}
	return out
}

// noon is when the fixtures are.
func noon() time.Time { return time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC) }

// small is a pool of two keys, whose names somebody hostile has chosen.
func small() *fixture {
	f := stats.Figures{Requests: 1234567, Errors: 2, InputTokens: 9007199254740993, OutputTokens: 42}
	return &fixture{
		pool: pool.View{
			Now: noon(), Today: pool.Limit{Of: 100, Used: 85}, Ready: true,
			Tiers: []pool.TierView{{Name: "default", Keys: []pool.KeyView{
				{ID: "k1", Provider: hostile, Enabled: true, State: "ready", Today: pool.Limit{Of: 100, Used: 85.25}, Models: []pool.ModelView{{Model: hostile, Reason: "rate_limit", Until: noon().Add(time.Minute)}}},
				{ID: "k2", Enabled: false, State: "disabled", Reason: hostile},
			}}},
		},
		totals: stats.Totals{Total: f, Models: []stats.ModelFigures{{Model: hostile, Figures: f}},
			Days: []stats.DayFigures{{Date: "2026-03-04", Models: map[string]stats.Figures{hostile: f}}}},
		keys:    map[string]stats.Windows[stats.Figures]{"k1": {Today: stats.Figures{Requests: 3}}, "gone": {Month: stats.Figures{Requests: 4}}},
		users:   map[string]stats.Windows[stats.Figures]{"laptop": {Today: stats.Figures{Requests: 3}}, "gone": {}},
		callers: []auth.RequestKey{{Code: "laptop", Key: auth.NewSecret("secret-key-0001")}, {Code: "idle"}},
	}
}

func (f *fixture) web() *Web {
	return New(Sources{f, f, f.accounts, f, f.journal}, f.callers, f.opt, noon)
}

// ask sends a request to the fixture; more are header lines.
func (f *fixture) ask(t *testing.T, method, url string, more ...string) *httptest.ResponseRecorder {
	t.Helper()
	x := f.web()
	r := httptest.NewRequest(method, url, nil)
	for _, line := range more {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	route := Find(Routes(), r.URL.Path)
	if route == nil {
		t.Fatalf("no route for %s", url)
	}
	w := httptest.NewRecorder()
	x.Serve(w, r, route)
	if strings.Contains(w.Body.String(), "secret-key") {
		t.Errorf("%s shows a key", url)
	}
	return w
}

func get(t *testing.T, url string) *httptest.ResponseRecorder {
	t.Helper()
	return small().ask(t, "GET", url)
}

// Every route refuses a parameter that it does not take, and names it.
func TestUnknownParameters(t *testing.T) {
	for _, r := range Routes() {
		for _, name := range []string{"x", "langs", "Window"} {
			w := get(t, r.Path+"?"+name+"=1")
			var e struct {
				Error struct{ Type, Message string }
			}
			if w.Code == http.StatusMethodNotAllowed { // takes POST
				continue
			}
			if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || w.Code != 400 || e.Error.Type != "invalid_request_error" || !strings.Contains(e.Error.Message, `"`+name+`"`) {
				t.Errorf("%s?%s: %d %s", r.Path, name, w.Code, w.Body)
			}
		}
	}
}

func TestParameters(t *testing.T) {
	for url, want := range map[string]int{
		"/api/stats":                     200,
		"/api/stats?window=last_month":   200,
		"/api/stats?window=days:400":     200,
		"/api/stats?window=days:0":       400,
		"/api/stats?window=days:401":     400,
		"/api/stats?window=days:-1":      400,
		"/api/stats?window=year":         400,
		"/api/stats?lang=en":             400,
		"/stats?window=days:7&lang=zh":   200,
		"/stats?window=year":             400,
		"/stats?lang=fr":                 400,
		"/stats?lang=":                   400,
		"/stats/pool?lang=zh":            200,
		"/stats/pool?window=today":       400,
		"/stats/pool/usage":              200,
		"/stats/request-keys?lang=en-GB": 400,
		"/healthz":                       200,
		"/readyz":                        200,
		"/health":                        200,
		"/api/pool/usage":                200,
		"/api/request-keys/usage":        200,
		"/api/status":                    200,
		"/api/reauth/status":             200,
		"/api/copilot/models":            404,
	} {
		if w := get(t, url); w.Code != want {
			t.Errorf("%s: %d, want %d", url, w.Code, want)
		}
	}
	if w := small().ask(t, "POST", "/api/stats"); w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d", w.Code)
	}
}
