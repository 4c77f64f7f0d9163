package web

import (
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"coding-proxy/auth"
	"coding-proxy/pool"
	"coding-proxy/stats"
)

func pagePaths() []string {
	return []string{"/stats", "/stats/pool", "/stats/pool/usage", "/stats/request-keys"}
}

// empty is an instance that nobody has used and that has nothing.
func empty() *fixture { return &fixture{pool: pool.View{Now: noon()}} }

// one is a pool of one key.
func one() *fixture {
	f := stats.Figures{Requests: 3, Errors: 1, Failovers: 1, InputTokens: 1000, OutputTokens: 20, CacheReadTokens: 3000, DurationMS: 4500}
	w := stats.Windows[stats.Figures]{Today: f, Week: f, Month: f}
	return &fixture{
		pool: pool.View{Now: noon(), Ready: true, Today: pool.Limit{Of: 5000, Used: 1320}, Tiers: []pool.TierView{{Name: "default", Keys: []pool.KeyView{
			{ID: "work", Provider: "anthropic", Enabled: true, State: "ready", LastUsed: noon(), Today: pool.Limit{Of: 5000, Used: 1320}, RunsOut: noon().Add(3 * time.Hour)},
		}}}},
		totals: stats.Totals{Total: f, Models: []stats.ModelFigures{{Model: "claude-sonnet-5-5", Figures: f}}},
		keys:   map[string]stats.Windows[stats.Figures]{"work": w}, users: map[string]stats.Windows[stats.Figures]{auth.Anonymous: w},
	}
}

// states are all that a key can be in, with their reasons.
func states() []pool.KeyView {
	var out []pool.KeyView
	for c := pool.OK; c <= pool.UnknownModel; c++ {
		out = append(out, pool.KeyView{Enabled: true, State: "cooling", Reason: c.String(), Until: noon().Add(time.Hour)})
	}
	return append(out,
		pool.KeyView{Enabled: true, State: "ready"},
		pool.KeyView{Enabled: true, State: "ready", Today: pool.Limit{Of: 100, Used: 85}, Models: []pool.ModelView{{Model: "claude-opus-5-5", Reason: "overload", Until: noon().Add(50 * time.Hour)}}},
		pool.KeyView{Enabled: true, State: "ready", Models: []pool.ModelView{{Model: "claude-opus-5-5", Family: "opus", Reason: "rate_limit", Until: noon().Add(time.Hour)}}},
		pool.KeyView{Enabled: true, State: "day_limit", Today: pool.Limit{Of: 100, Used: 250}, Until: noon().Add(12 * time.Hour)},
		pool.KeyView{Enabled: true, State: "month_limit", Month: pool.Limit{Of: 100, Used: 100}},
		pool.KeyView{Enabled: true, State: "busy", InFlight: 4, Seen: told()},
		pool.KeyView{State: "disabled", Reason: "switched off in the configuration"},
		pool.KeyView{State: "disabled", Reason: "switched off by the operator"},
		pool.KeyView{State: "disabled", Reason: "environment variable KEY_7 is not set"},
		pool.KeyView{State: "disabled", Reason: "environment variable KEY_7 is empty"},
		pool.KeyView{State: "disabled", Reason: "api_key is empty"},
	)
}

// told are limits of providers in all forms.
func told() []pool.Seen {
	of := func(v float64) *float64 { return &v }
	out := []pool.Seen{
		{Name: "5h", UsedPercent: of(42.5), Status: "allowed", Reset: noon().Add(time.Hour)},
		{Name: "7d", UsedPercent: of(100), Status: "rejected", Reset: noon().Add(-time.Hour)},
		{Name: "7d_oi", UsedPercent: of(0), Status: "allowed_warning"},
		{Name: "requests", Limit: of(1000), Remaining: of(0), Reset: noon().Add(50 * time.Hour)},
		{Name: "tokens", Remaining: of(1234567)}, {Name: "input-tokens", Limit: of(2.5)},
		{Name: "another"},
	}
	for i := range out {
		out[i].At = noon().Add(-time.Duration(i) * time.Minute)
	}
	return out
}

// forty is a pool of 40 keys in 4 tiers, in all states.
func forty() *fixture {
	f := one()
	f.pool = pool.View{Now: noon(), NextFree: noon().Add(time.Minute), Tiers: []pool.TierView{
		{Name: "first", Refuses: true, Reason: "breaker_open", Until: noon().Add(time.Minute), Breaker: &pool.BreakerView{State: "open", Failures: 3, Recovery: time.Minute, Until: noon().Add(time.Minute)}},
		{Name: "second", Refuses: true, Reason: "breaker_half_open", Breaker: &pool.BreakerView{State: "half_open", Successes: 1, Recovery: 2 * time.Minute}, Guard: &pool.GuardView{State: "exceeded", By: "cap", Until: noon().Add(time.Hour)}},
		{Name: "third", Refuses: true, Reason: "quota_guard", Breaker: &pool.BreakerView{State: "closed"}, Guard: &pool.GuardView{State: "exceeded", By: "budget", Used: 500, Budget: 400, WeekUsed: 700, WeekBudget: 9000}},
		{Name: "fourth", Guard: &pool.GuardView{State: "within", Used: 1, Budget: 400}},
	}}
	all := states()
	for i := range 40 {
		k := all[i%len(all)]
		k.ID, k.Provider = fmt.Sprintf("key-%02d", i), "zhipu"
		f.pool.Tiers[i%4].Keys = append(f.pool.Tiers[i%4].Keys, k)
		f.callers = append(f.callers, auth.RequestKey{Code: fmt.Sprintf("caller-%02d", i), Group: "all"})
	}
	return f
}

// Each page in each language, whatever there is to show: whole, valid in its language, without a word of the other.
func TestPages(t *testing.T) {
	marker := map[string]string{"/stats": "empty.stats", "/stats/pool": "empty.pool", "/stats/pool/usage": "empty.usage", "/stats/request-keys": "empty.caller"}
	for name, f := range map[string]*fixture{"empty": empty(), "1": one(), "40": forty()} {
		for _, l := range langs() {
			for _, path := range pagePaths() {
				w := f.ask(t, "GET", path+"?lang="+string(l))
				body := w.Body.String()
				if w.Code != http.StatusOK || !strings.HasSuffix(body, "</html>\n") && !strings.Contains(body, "</html>") {
					t.Fatalf("%s %s: %d %s", name, path, w.Code, body)
				}
				if !strings.Contains(body, `<html lang="`+l.tag()+`">`) || w.Header().Get("Content-Language") != l.tag() {
					t.Errorf("%s %s: not in %s", name, path, l)
				}
				if strings.Contains(body, phrases()[marker[path]].in(l)) != (name == "empty") {
					t.Errorf("%s %s %s: what is said of nothing", name, path, l)
				}
				for _, bad := range []string{"ZgotmplZ", "%!", "&lt;nil&gt;", " style=", "<style"} {
					if strings.Contains(body, bad) {
						t.Errorf("%s %s: has %q", name, path, bad)
					}
				}
				if found := visible(body); l == chinese && strings.Contains(found, "Share of") {
					t.Errorf("%s %s: English in %s", name, path, found)
				}
			}
		}
	}
}

// visible is the text of a page without its names.
func visible(body string) string {
	body = regexp.MustCompile(`(?s)<head>.*</head>|<bdi.*?</bdi>|<a [^>]*hreflang.*?</a>|<a href="/api.*?</a>|<p class="product">.*?</p>`).ReplaceAllString(body, " ")
	return html.UnescapeString(regexp.MustCompile(`(?s)<[^>]*>`).ReplaceAllString(body, " "))
}

// In Chinese no Latin word is left but names, units and what is a name of a field.
func TestChineseIsWhole(t *testing.T) {
	for _, f := range []*fixture{empty(), one(), forty()} {
		for _, path := range pagePaths() {
			text := visible(f.ask(t, "GET", path+"?lang=zh").Body.String())
			for _, word := range regexp.MustCompile(`[A-Za-z_]{2,}`).FindAllString(text, -1) {
				switch word {
				case "JSON", "ms", "api_key", "KEY_", "first", "second", "third", "fourth", "default": // of captions: names of tiers
				default:
					t.Errorf("%s: %q is not translated", path, word)
				}
			}
		}
	}
}

// The policy of every page, and who may keep what of it.
func TestPageHeaders(t *testing.T) {
	const want = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	for _, path := range pagePaths() {
		w := get(t, path)
		for name, value := range map[string]string{
			"Content-Security-Policy": want, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "Cache-Control": "no-store",
			"Content-Type": "text/html; charset=utf-8", "Vary": "Accept-Language, Cookie", "Set-Cookie": "",
		} {
			if got := w.Header().Get(name); got != value {
				t.Errorf("%s: %s: %q, want %q", path, name, got, value)
			}
		}
	}
	for path, kind := range map[string]string{cssPath: "text/css; charset=utf-8", scriptPath: "text/javascript; charset=utf-8"} {
		if w := get(t, path); w.Code != 200 || w.Header().Get("Content-Type") != kind || w.Body.Len() < 1000 || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %s", path, w.Code, w.Header())
		}
	}
}

// SEC-014: whatever clients and operators name things stays text; nothing runs and nothing is fetched from elsewhere.
func TestSEC014PagesAreEscapedAndSelfContained(t *testing.T) {
	for _, name := range []string{
		hostile, `<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, "javascript:alert(1)", strings.Repeat("long", 50), "a\u202eb", "{{.}}", "a%b%s",
	} {
		f := forty()
		f.totals.Models[0].Model = name
		f.pool.Tiers[0].Name, f.pool.Tiers[0].Keys[0].ID, f.pool.Tiers[0].Keys[0].Provider, f.pool.Tiers[0].Keys[0].Reason = name, name, name, name
		f.pool.Tiers[0].Keys[0].Models = []pool.ModelView{{Model: name, Family: name, Reason: name}}
		f.pool.Tiers[0].Keys[0].Seen = []pool.Seen{{Name: name, Status: name}}
		f.keys[name+"gone"], f.users[name+"gone"] = stats.Windows[stats.Figures]{}, stats.Windows[stats.Figures]{}
		f.callers = append(f.callers, auth.RequestKey{Code: name, Group: name})
		for path, least := range map[string]int{"/stats": 2, "/stats/pool": 14, "/stats/pool/usage": 6, "/stats/request-keys": 6} {
			body := f.ask(t, "GET", path).Body.String()
			if n := strings.Count(html.UnescapeString(body), name); n < least {
				t.Errorf("%s shows %q %d times, want %d", path, name, n, least)
			}
			for _, bad := range []string{"<img", "<script>", "<svg", "ZgotmplZ", `href="javascript`, "http://", "https://", "@import", "url("} {
				if strings.Contains(body, bad) {
					t.Errorf("%s with the name %q has %q", path, name, bad)
				}
			}
			if n := strings.Count(body, "<script"); n != 1 {
				t.Errorf("%s has %d scripts", path, n)
			}
		}
	}
}

// The page shows the API's figures; the browser's tests compare all of them.
func TestPageShowsTheFigures(t *testing.T) {
	body := get(t, "/stats").Body.String()
	for _, want := range []string{
		`<data class="n" value="1234567" title="1234567" data-f="total.requests">1,234,567</data>`, "9,007,199,254,740,993", ">42<",
		`<a href="/stats?window=today" aria-current="true">`, `<a href="/stats" aria-current="page">`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	body = get(t, "/stats/pool").Body.String()
	for _, want := range []string{
		`<span class="badge warn" data-f="state" data-v="tight">tight</span>`, `value="85" aria-label="k1, Today: 85.2% used"`, `until <time datetime="2026-03-04T12:01:00Z"`, ">0:01:00<",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, path := range []string{"/stats/pool/usage", "/stats/request-keys"} {
		if body := get(t, path).Body.String(); strings.Count(body, "no longer configured") != 1 {
			t.Errorf("%s: what is gone is not marked", path)
		}
	}
	if body := forty().ask(t, "GET", "/stats/pool").Body.String(); strings.Count(body, `aria-current="step"`) != 1 || !strings.Contains(body, `<li class="tier open" aria-current="step">`) || !strings.Contains(body, "New requests go here") {
		t.Error("the tier that serves is not marked")
	}
}

// What providers told of their limits, and how long ago, in both languages.
func TestPageShowsTheLimitsOfProviders(t *testing.T) {
	f := one()
	f.pool.Tiers[0].Keys[0].Seen = told()
	squeeze := func(lang string) string {
		return strings.Join(strings.Fields(html.UnescapeString(regexp.MustCompile(`(?s)<[^>]*>`).ReplaceAllString(f.ask(t, "GET", "/stats/pool?lang="+lang).Body.String(), ""))), " ")
	}
	for lang, wants := range map[string][]string{
		"en": {
			"Limits, as the provider told them: 5 hours: allowed 42.5% used reset at 13:00:00 1:00:00 told at 12:00:00, 0:00:00 ago",
			"7 days: used up 100% used reset at 11:00:00 told at 11:59:00, 0:01:00 ago", "7 days, oi: nearly used up 0% used told at 11:58:00",
			"requests: 0 of 1,000 left reset at 6 Mar 14:00:00 2 d 2:00:00 told at 11:57:00, 0:03:00 ago", "tokens: 1,234,567 left told at", "input tokens: limit 2.5 told at", "another: told at",
		},
		"zh": {"提供商告知的限额： 5 小时：允许 已用 42.5% 重置时间 13:00:00 1:00:00 告知时间 12:00:00，距今 0:00:00", "7 天（oi）：即将用尽", "请求：剩余 0 / 1,000"},
	} {
		text := squeeze(lang)
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in %s", lang, want, text)
			}
		}
	}
	if strings.Contains(one().ask(t, "GET", "/stats/pool").Body.String(), "as the provider") {
		t.Error("limits of a key whose provider told none")
	}
}

// A column for what nothing tells of is left out.
func TestColumns(t *testing.T) {
	if body := one().ask(t, "GET", "/stats").Body.String(); strings.Contains(body, "Reasoning") || strings.Contains(body, "Cost") || !strings.Contains(body, "75.0%") || !strings.Contains(body, "1.5 s") {
		t.Error("columns of one")
	}
	f := one()
	f.totals.Total.CostUSD, f.totals.Total.ReasoningTokens, f.totals.Total.Estimated = 0.125, 9, 1
	if body := f.ask(t, "GET", "/stats").Body.String(); !strings.Contains(body, "Reasoning tokens") || !strings.Contains(body, `value="0.125"`) || !strings.Contains(body, "Estimated") {
		t.Error("columns that are told of are missing")
	}
}

// What a cost lacks is said beside it, in both languages, and where there is no cost at all.
func TestCostLacks(t *testing.T) {
	f := one()
	f.totals.Total.CostUSD, f.totals.Total.Unpriced = 0.125, 1234
	f.totals.Models[0].CostUSD = 0.125
	f.totals.Models = append(f.totals.Models, stats.ModelFigures{Model: "house", Figures: stats.Figures{Requests: 1234, Unpriced: 1234}})
	for lang, want := range map[string]string{
		"en": `<div class="soft" title="Requests of models without a known price, which this cost lacks: 1,234">+ <data class="n" value="1234" title="1234" data-f="%s.unpriced">1,234</data> without a price</div>`,
		"zh": `<div class="soft" title="此费用不含价格未知的模型的请求：1,234 次">另有 <data class="n" value="1234" title="1234" data-f="%s.unpriced">1,234</data> 次无价格</div>`,
	} {
		body := f.ask(t, "GET", "/stats?lang="+lang).Body.String()
		for _, path := range []string{"total", "models.1"} {
			if want := fmt.Sprintf(want, path); !strings.Contains(body, want) {
				t.Errorf("%s: no %s", lang, want)
			}
		}
		if strings.Contains(body, `data-f="models.0.unpriced"`) {
			t.Errorf("%s: the cost of a model with a price lacks something", lang)
		}
	}
	f = one()
	w := f.keys["work"]
	w.Today.Unpriced = 2
	f.keys["work"], f.users[auth.Anonymous] = w, w
	for path, mark := range map[string]string{"/stats/pool/usage": `data-f="keys.0.windows.today.unpriced"`, "/stats/request-keys": `.windows.today.unpriced"`} {
		if body := f.ask(t, "GET", path).Body.String(); !strings.Contains(body, mark) || !strings.Contains(body, "Cost (USD)") {
			t.Errorf("%s: no mark beside no cost", path)
		}
	}
}

// While the disk refuses the journal each page says so, and what was lost stays there.
func TestPagesTellOfTheDisk(t *testing.T) {
	for _, page := range pageNames() {
		path, _ := pagePath(page)
		f := small()
		if body := f.ask(t, "GET", path).Body.String(); strings.Contains(body, `role="alert"`) {
			t.Errorf("%s: a good disk", page)
		}
		f.metrics = stats.Metrics{Waiting: 12345}
		if body := f.ask(t, "GET", path).Body.String(); strings.Count(body, `role="alert"`) != 1 || !strings.Contains(body, "refuses") || !strings.Contains(body, grouped(12345)) {
			t.Errorf("%s: lines wait", page)
		}
		f.metrics = stats.Metrics{Lost: 6789}
		if body := f.ask(t, "GET", path).Body.String(); strings.Count(body, `role="alert"`) != 1 || !strings.Contains(body, "are lost") || !strings.Contains(body, grouped(6789)) {
			t.Errorf("%s: lines are lost", page)
		}
	}
}
