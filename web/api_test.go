package web

import (
	"encoding/json"
	"testing"
	"time"

	"coding-proxy/pool"
	"coding-proxy/stats"
)

func decode(t *testing.T, data []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
}

func TestStatsAPI(t *testing.T) {
	var api struct {
		Window string
		Total  stats.Figures
		Models []stats.ModelFigures
		Days   []stats.DayFigures
	}
	w := get(t, "/api/stats")
	decode(t, w.Body.Bytes(), &api)
	if api.Window != "today" || api.Total.InputTokens != 9007199254740993 || len(api.Models) != 1 || len(api.Days) != 1 {
		t.Errorf("%s", w.Body)
	}
}

func TestPoolAPI(t *testing.T) {
	w := get(t, "/api/pool/stats")
	var v struct {
		State string
		Today limit
		Tiers []tierJSON
	}
	decode(t, w.Body.Bytes(), &v)
	k := v.Tiers[0].Keys[0]
	if v.State != "tight" || *v.Today.Left != 15 || k.Today.Used != 85 || *k.Today.UsedRatio != 0.8525 || k.Month.Limit != nil || k.Models[0].State != "cooling" {
		t.Errorf("%s", w.Body)
	}
}

// What providers told of their limits: null is what they did not tell.
func TestLimitsAPI(t *testing.T) {
	f := one()
	f.pool.Tiers[0].Keys[0].Seen = told()[2:4]
	var v struct {
		Tiers []struct{ Keys []map[string]json.RawMessage }
	}
	decode(t, f.ask(t, "GET", "/api/pool/stats").Body.Bytes(), &v)
	const want = `[{"name":"7d_oi","limit":null,"remaining":null,"used_percent":0,"status":"allowed_warning","reset":null,"seen":"2026-03-04T11:58:00Z","age_seconds":120},` +
		`{"name":"requests","limit":1000,"remaining":0,"used_percent":null,"status":null,"reset":"2026-03-06T14:00:00Z","seen":"2026-03-04T11:57:00Z","age_seconds":180}]`
	if got := string(v.Tiers[0].Keys[0]["upstream_limits"]); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	decode(t, one().ask(t, "GET", "/api/pool/stats").Body.Bytes(), &v)
	if got := string(v.Tiers[0].Keys[0]["upstream_limits"]); got != "[]" {
		t.Errorf("of none: %s", got)
	}
}

// The tiers' breakers and guards, exactly as design/api.md has them.
func TestTierAPI(t *testing.T) {
	f := small()
	until := noon().Add(5 * time.Minute)
	f.pool.Tiers = []pool.TierView{
		{Name: "a", Refuses: true, Reason: "breaker_open", Until: until, Breaker: &pool.BreakerView{State: "open", Failures: 3, Recovery: 90 * time.Second, Until: until}},
		{Name: "b", Guard: &pool.GuardView{State: "within", Used: 41.6, Budget: 100, WeekUsed: 7, WeekBudget: 900}},
		{Name: "c", Refuses: true, Reason: "quota_guard", Guard: &pool.GuardView{State: "exceeded", By: "cap"}},
	}
	var v struct{ Tiers []json.RawMessage }
	decode(t, f.ask(t, "GET", "/api/pool/stats").Body.Bytes(), &v)
	for i, want := range []string{
		`{"name":"a","state":"refusing","reason":"breaker_open","until":"2026-03-04T12:05:00Z","breaker":{"state":"open","failures":3,"successes":0,"recovery_seconds":90,"until":"2026-03-04T12:05:00Z"},"quota_guard":null,"keys":[]}`,
		`{"name":"b","state":"open","reason":null,"until":null,"breaker":null,"quota_guard":{"state":"within","by":null,"used":42,"budget":100,"week_used":7,"week_budget":900,"until":null},"keys":[]}`,
		`{"name":"c","state":"refusing","reason":"quota_guard","until":null,"breaker":null,"quota_guard":{"state":"exceeded","by":"cap","used":0,"budget":0,"week_used":0,"week_budget":0,"until":null},"keys":[]}`,
	} {
		if string(v.Tiers[i]) != want {
			t.Errorf("got  %s\nwant %s", v.Tiers[i], want)
		}
	}
}

// Keys and callers that are gone stay, marked.
func TestUsageAPIs(t *testing.T) {
	var keys usageJSON
	decode(t, get(t, "/api/pool/usage").Body.Bytes(), &keys)
	if k := keys.Keys; len(k) != 3 || !k[0].Configured || k[0].Windows.Today.Requests != 3 || k[2].ID != "gone" || k[2].Configured {
		t.Errorf("%+v", k)
	}
	var callers callersJSON
	decode(t, get(t, "/api/request-keys/usage").Body.Bytes(), &callers)
	if c := callers.Callers; len(c) != 3 || c[0].Windows.Today.Requests != 3 || c[1].Code != "idle" || c[2].Configured {
		t.Errorf("%+v", c)
	}
}

// What the older systems answered.
func TestOlderEndpoints(t *testing.T) {
	f := small()
	cooling := func(seconds float64) pool.KeyView {
		return pool.KeyView{Enabled: true, State: "cooling", Until: noon().Add(time.Duration(seconds * float64(time.Second)))}
	}
	f.pool.Tiers = []pool.TierView{
		{Name: "a", Breaker: &pool.BreakerView{State: "half_open", Failures: 3, Successes: 1, Recovery: 600 * time.Second}, Keys: []pool.KeyView{cooling(90), cooling(12.34), {State: "disabled"}}},
		{Name: "b", Guard: &pool.GuardView{State: "within", Used: 333.3, Budget: 1000}, Keys: []pool.KeyView{cooling(5), {Enabled: true, State: "ready"}}},
		{Name: "c", Guard: &pool.GuardView{State: "exceeded", By: "cap", Used: 5}, Keys: []pool.KeyView{{State: "disabled"}}},
	}
	for url, want := range map[string]string{
		"/health": `{"status":"ok"}`,
		"/api/status": `{"tiers":[` +
			`{"name":"a","circuit_breaker":{"state":"half_open","failure_count":3,"success_count":1,"current_recovery_seconds":600,"last_failure_time":null},"rate_limit":{"is_rate_limited":true,"remaining_seconds":12.3},"diagnostics":{}},` +
			`{"name":"b","quota_guard":{"state":"within_quota","window_usage_tokens":333,"budget_tokens":1000,"usage_percent":33.3},"rate_limit":{"is_rate_limited":false,"remaining_seconds":0},"diagnostics":{}},` +
			`{"name":"c","quota_guard":{"state":"quota_exceeded","window_usage_tokens":5,"budget_tokens":0,"usage_percent":0},"rate_limit":{"is_rate_limited":false,"remaining_seconds":0},"diagnostics":{}}]}`,
		"/api/reauth/status":       `{"providers":{}}`,
		"/api/copilot/diagnostics": `{"error":{"type":"not_found","message":"no copilot key is configured"}}`,
		"/api/copilot/models":      `{"error":{"type":"not_found","message":"no copilot key is configured"}}`,
	} {
		if got := f.ask(t, "GET", url).Body.String(); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", url, got, want)
		}
	}
}
