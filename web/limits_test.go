package web

import (
	"html"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"coding-proxy/auth"
)

// limitedCallers are one with all limits and one without any.
func limitedCallers() *fixture {
	f := one()
	f.callers = []auth.RequestKey{
		{Code: "ci", Group: "cheap", Models: []string{"claude-haiku-*"}, Expires: noon().Add(time.Hour), Addresses: auth.Addresses{netip.MustParsePrefix("192.0.2.0/24")},
			Limits: auth.Limits{RequestsPerMinute: 60, MaxInFlight: 4, DailyTokens: 2000, MonthlyTokens: 50000, DailyUSD: 1.5}},
		{Code: "laptop"},
	}
	f.standing = auth.Standing{InFlight: 3, RequestsLeft: 7, Spent: auth.Spent{Today: 2000, Month: 12500, TodayUSD: 0.0042}, Refused: auth.LimitDay, Until: noon().Add(12 * time.Hour)}
	return f
}

// What a caller may use and how it stands, as JSON.
func TestCallersSayTheirLimits(t *testing.T) {
	f := limitedCallers()
	f.callers = append(f.callers, auth.RequestKey{Code: "old", Expires: noon()})
	body := f.ask(t, "GET", "/api/request-keys/usage").Body.String()
	for _, want := range []string{
		`"limits":{"requests_per_minute":60,"requests_left":7,"max_in_flight":4,"in_flight":3,"today":{"limit":2000,"used":2000,"left":0,"used_ratio":1,"state":"exhausted"},` +
			`"month":{"limit":50000,"used":12500,"left":37500,"used_ratio":0.25,"state":"healthy"},"daily_limit_usd":1.5,"today_usd":0.0042,"expires":"2026-03-04T13:00:00Z","expired":false,` +
			`"addresses":["192.0.2.0/24"],"models":["claude-haiku-*"],"reason":"caller_day_limit","until":"2026-03-05T00:00:00Z"}`,
		`{"code":"laptop","group":"","configured":true`, `"limits":null}`,
		`"limits":{"requests_per_minute":null,"requests_left":null,"max_in_flight":null,"in_flight":null,"today":{"limit":null,`, `"expired":true`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in %s", want, body)
		}
	}
}

// The same on the page, in both languages; a caller without limits has no row.
func TestPageShowsTheLimitsOfCallers(t *testing.T) {
	for lang, wants := range map[string][]string{
		"en": {"Limits Checked before a request is served", "ci day used up until 5 Mar 00:00:00", "100.0% 2,000 of 2,000 0 left", "12,500 of 50,000", "0.0042 of 1.50", "60 , 7 at once now", "3 of 4", "13:00:00", "192.0.2.0/24", "models: claude-haiku-*"},
		"zh": {"限额", "日限额已满", "60 ，现可连续 7", "模型： claude-haiku-*"},
	} {
		page := limitedCallers().ask(t, "GET", "/stats/request-keys?lang="+lang).Body.String()
		text := strings.Join(strings.Fields(html.UnescapeString(regexp.MustCompile(`(?s)<[^>]*>`).ReplaceAllString(page, " "))), " ")
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in %s", lang, want, text)
			}
		}
		if n := strings.Count(page, `<bdi class="name">laptop</bdi>`); n != 0 {
			t.Errorf("%s: a row for a caller without limits", lang)
		}
	}
	f := limitedCallers()
	f.callers[0].Expires = noon()
	if body := f.ask(t, "GET", "/stats/request-keys").Body.String(); !strings.Contains(body, ">expired<") {
		t.Error("a key that has expired is not marked")
	}
	f.callers = f.callers[1:]
	if body := f.ask(t, "GET", "/stats/request-keys").Body.String(); strings.Contains(body, `id="limits"`) {
		t.Error("limits where nobody has any")
	}
}
