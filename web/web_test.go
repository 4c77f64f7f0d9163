package web

import (
	"encoding/json"
	"html"
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

// fixed is a pool and statistics that always say the same.
type fixed struct{}

func (fixed) View() pool.View {
	return pool.View{
		Now: time.Unix(1e9, 0), Today: pool.Limit{Of: 100, Used: 85}, Ready: true,
		Tiers: []pool.TierView{{Name: "default", Keys: []pool.KeyView{
			{ID: "k1", Provider: hostile, Enabled: true, State: "ready", Today: pool.Limit{Of: 100, Used: 85.25}, Models: []pool.ModelView{{Model: hostile, Reason: "rate_limit", Until: time.Unix(1e9, 0)}}},
			{ID: "k2", Enabled: false, State: "disabled", Reason: hostile},
		}}},
	}
}

func (fixed) Totals(r stats.Range) stats.Totals {
	f := stats.Figures{Requests: 1234567, Errors: 2, InputTokens: 9007199254740993, OutputTokens: 42}
	return stats.Totals{Total: f, Models: []stats.ModelFigures{{Model: hostile, Figures: f}}, Days: []stats.DayFigures{{Date: r.From, Models: map[string]stats.Figures{hostile: f}}}}
}

func (fixed) KeyWindows(time.Time) map[string]*stats.Windows[stats.Figures] {
	return map[string]*stats.Windows[stats.Figures]{"k1": {Today: stats.Figures{Requests: 3}}, "gone": {Month: stats.Figures{Requests: 4}}}
}

func (fixed) CallerWindows(time.Time) map[string]*stats.Windows[stats.Figures] {
	return map[string]*stats.Windows[stats.Figures]{"laptop": {Today: stats.Figures{Requests: 3}}, "gone": {}}
}

func get(t *testing.T, method, url string) *httptest.ResponseRecorder {
	t.Helper()
	x := New(fixed{}, fixed{}, []auth.RequestKey{{Code: "laptop", Key: auth.NewSecret("secret-key-0001")}, {Code: "idle"}}, time.Now)
	r := httptest.NewRequest(method, url, nil)
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

// SEC-014: whatever clients and operators name things stays text; nothing runs and nothing is fetched.
func TestSEC014PageIsEscapedAndSelfContained(t *testing.T) {
	w := get(t, "GET", "/stats?window=week")
	body := w.Body.String()
	if w.Code != http.StatusOK || strings.Contains(body, "<img") || strings.Count(body, html.EscapeString("<img src=x")) < 3 {
		t.Fatalf("%d\n%s", w.Code, body)
	}
	for _, bad := range []string{"<script", "src=\"", "@import", "url(", "http://", "https://", "onload", "ZgotmplZ"} {
		if strings.Contains(body, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	if csp := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'; style-src 'sha256-") || strings.Contains(csp, "unsafe") {
		t.Errorf("policy %q", csp)
	}
	if !strings.Contains(body, `<a href="?window=week" aria-current="page">`) {
		t.Error("the window is not marked")
	}
}

// The page shows the API's figures.
func TestPageShowsTheFigures(t *testing.T) {
	body := get(t, "GET", "/stats").Body.String()
	for _, want := range []string{"1,234,567", "9,007,199,254,740,993", ">42<", "Pool: tight", "rate_limit until"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	var api struct {
		Window string
		Total  stats.Figures
		Models []stats.ModelFigures
		Days   []stats.DayFigures
	}
	w := get(t, "GET", "/api/stats")
	if err := json.Unmarshal(w.Body.Bytes(), &api); err != nil || api.Window != "today" || api.Total.InputTokens != 9007199254740993 || len(api.Models) != 1 || len(api.Days) != 1 {
		t.Errorf("%v %s", err, w.Body)
	}
}

func TestParameters(t *testing.T) {
	for url, want := range map[string]int{
		"/api/stats":                   200,
		"/api/stats?window=last_month": 200,
		"/api/stats?window=days:400":   200,
		"/api/stats?window=days:0":     400,
		"/api/stats?window=days:401":   400,
		"/api/stats?window=days:-1":    400,
		"/api/stats?window=year":       400,
		"/api/stats?windw=today":       400,
		"/api/pool/stats?x=1":          400,
		"/healthz":                     200,
		"/readyz":                      200,
		"/api/pool/usage":              200,
		"/api/request-keys/usage":      200,
	} {
		w := get(t, "GET", url)
		if w.Code != want {
			t.Errorf("%s: %d, want %d", url, w.Code, want)
		}
		var e struct {
			Error struct{ Type, Message string }
		}
		if want == 400 && (json.Unmarshal(w.Body.Bytes(), &e) != nil || e.Error.Type != "invalid_request_error" || e.Error.Message == "") {
			t.Errorf("%s: %s", url, w.Body)
		}
	}
	if w := get(t, "POST", "/api/stats"); w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d", w.Code)
	}
}

func TestPoolAPI(t *testing.T) {
	w := get(t, "GET", "/api/pool/stats")
	var v struct {
		State string
		Today limit
		Tiers []tierJSON
	}
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	k := v.Tiers[0].Keys[0]
	if v.State != "tight" || *v.Today.Left != 15 || k.Today.Used != 85 || *k.Today.UsedRatio != 0.8525 || k.Month.Limit != nil || k.Models[0].State != "cooling" {
		t.Errorf("%s", w.Body)
	}
}

// Keys and callers that are gone stay, marked.
func TestUsageAPIs(t *testing.T) {
	var keys struct{ Keys []keyUsage }
	if err := json.Unmarshal(get(t, "GET", "/api/pool/usage").Body.Bytes(), &keys); err != nil || len(keys.Keys) != 3 {
		t.Fatalf("%v %+v", err, keys)
	}
	if k := keys.Keys; !k[0].Configured || k[0].Windows.Today.Requests != 3 || k[2].ID != "gone" || k[2].Configured {
		t.Errorf("%+v", k)
	}
	var callers struct{ Callers []callerUsage }
	if err := json.Unmarshal(get(t, "GET", "/api/request-keys/usage").Body.Bytes(), &callers); err != nil || len(callers.Callers) != 3 {
		t.Fatalf("%v %+v", err, callers)
	}
	if c := callers.Callers; c[0].Windows.Today.Requests != 3 || c[1].Code != "idle" || c[2].Configured {
		t.Errorf("%+v", c)
	}
}
