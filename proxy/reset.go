package proxy

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"coding-proxy/proxy/rawjson"
)

// longestStated is the longest reset that is believed: anything further off is rubbish, not a limit's window.
const longestStated = 40 * 24 * time.Hour

// stated finds when an upstream says that it will answer again. wide says that the exhausted window is the whole
// account's. Dates in the past and rubbish count as not given; 0 is returned then.
func stated(h http.Header, body []byte, now time.Time) (reset time.Duration, wide bool) {
	windows := rejected(h, now)
	wide, window := windows.account, windows.reset
	if ms, ok := number(h.Get("Retry-After-Ms")); ok && ms >= 0 {
		return atLeast(ms / 1000), wide
	}
	if d := retryAfter(h.Get("Retry-After"), now); d > 0 {
		return d, wide
	}
	if window > 0 {
		return window, wide
	}
	for _, d := range []func() time.Duration{
		func() time.Duration { return exhaustedWindow(h, now) },
		func() time.Duration { return rateLimitReset(h, now) },
		func() time.Duration { return bodyReset(body, now) },
		func() time.Duration { return codexReset(h, now) },
	} {
		if d := d(); d > 0 {
			return d, wide
		}
	}
	return 0, wide
}

// retryAfter reads seconds, also with a fraction or in quotes, or a date. Zero seconds mean at once: one second.
func retryAfter(v string, now time.Time) time.Duration {
	v = strings.Trim(strings.TrimSpace(v), `"`)
	if v == "" {
		return 0
	}
	if s, ok := number(v); ok {
		if s < 0 {
			return 0
		}
		if s > longestStated.Seconds() {
			return instant(s, now)
		}
		return atLeast(s)
	}
	if t, err := http.ParseTime(v); err == nil {
		return until(t, now)
	}
	return 0
}

// unified begins the headers that tell of a subscription's windows.
const unified = "Anthropic-Ratelimit-Unified-"

// rejection is what a subscription's windows say of a refused request.
type rejection struct {
	account bool // a window of the whole account is exhausted
	family  bool // none is, but one of the model's family
	reset   time.Duration
}

// rejected reads which windows are rejected, and until when. A 5 h or 7 d window is the account's. Any other ("7d_opus",
// "7d_oi") is of one model family; since all windows are told with every answer, it is the model's own only where the
// request is rejected as a whole. Which family has the window need not be known: it is the family of the model that was
// asked for.
func rejected(h http.Header, now time.Time) rejection {
	var r rejection
	var account, family time.Duration
	status := h.Get(unified + "Status")
	whole := strings.EqualFold(status, "rejected")
	for name, values := range h {
		claim, ok := strings.CutPrefix(name, unified)
		if !ok || len(values) == 0 || !strings.EqualFold(values[0], "rejected") {
			continue
		}
		claim, ok = strings.CutSuffix(claim, "-Status")
		if !ok || strings.EqualFold(claim, "Overage") {
			continue
		}
		reset := moment(h.Get(unified+claim+"-Reset"), now)
		switch {
		case strings.EqualFold(claim, "5h"), strings.EqualFold(claim, "7d"):
			r.account, account = true, max(account, reset)
		case whole, status == "":
			r.family, family = true, max(family, reset)
		}
	}
	if whole && !r.account && !r.family {
		switch claim := h.Get(unified + "Representative-Claim"); {
		case claim == "five_hour", claim == "seven_day":
			r.account = true
		case strings.HasPrefix(claim, "seven_day_"):
			r.family = true
		}
	}
	r.reset = family
	if r.account {
		r.family, r.reset = false, account
	}
	if r.reset == 0 && whole {
		r.reset = moment(h.Get(unified+"Reset"), now)
	}
	return r
}

// codexReset reads x-codex-{primary,secondary}-*: the latest reset of the windows that are used up.
func codexReset(h http.Header, now time.Time) time.Duration {
	var d time.Duration
	for _, window := range []string{"Primary", "Secondary"} {
		if used, ok := number(h.Get("X-Codex-" + window + "-Used-Percent")); ok && used >= 100 {
			d = max(d, codexWindowReset(h, window, now))
		}
	}
	return d
}

func codexWindowReset(h http.Header, window string, now time.Time) time.Duration {
	if s, ok := number(h.Get("X-Codex-" + window + "-Reset-After-Seconds")); ok && s > 0 && s <= longestStated.Seconds() {
		return atLeast(s)
	}
	return moment(h.Get("X-Codex-"+window+"-Reset-At"), now)
}

// exhaustedWindow reads anthropic-ratelimit-{requests,tokens,…}-{remaining,reset}: the latest reset of those with
// nothing remaining.
func exhaustedWindow(h http.Header, now time.Time) time.Duration {
	var d time.Duration
	for name, values := range h {
		stem, ok := strings.CutSuffix(name, "-Remaining")
		if !ok || !strings.HasPrefix(name, "Anthropic-Ratelimit-") || len(values) == 0 {
			continue
		}
		if n, ok := number(values[0]); ok && n <= 0 {
			d = max(d, moment(h.Get(stem+"-Reset"), now))
		}
	}
	return d
}

// rateLimitReset reads x-ratelimit-reset, -reset-requests, -reset-tokens: a duration ("6m0s", "1s"), seconds or an
// instant.
func rateLimitReset(h http.Header, now time.Time) time.Duration {
	var d time.Duration
	for name, values := range h {
		if !strings.HasPrefix(name, "X-Ratelimit-Reset") || len(values) == 0 {
			continue
		}
		if left, ok := number(h.Get(strings.Replace(name, "Reset", "Remaining", 1))); ok && left > 0 {
			continue // this window is not the exhausted one
		}
		d = max(d, moment(values[0], now))
	}
	return d
}

// regain is how Anthropic names the end of a spend limit in the message.
var regain = regexp.MustCompile(`regain access on (\d{4}-\d{2}-\d{2})(?: at (\d{2}:\d{2}))?`)

// bodyReset reads resets_at, resets_in_seconds and Google's details of an error body, and the date in a spend limit's
// message.
func bodyReset(body []byte, now time.Time) time.Duration {
	if body = bytes.TrimLeft(body, " \t\r\n"); len(body) > 0 && body[0] == '[' { // as Google's streams say it
		_, body = rawjson.NextElement(body)
	}
	fault := rawjson.Get(body, "error")
	at := rawjson.Get(fault, "resets_at")
	text, ok := rawjson.String(at)
	if !ok {
		text = string(at)
	}
	if d := moment(text, now); d > 0 {
		return d
	}
	if s, ok := number(string(rawjson.Get(fault, "resets_in_seconds"))); ok && s > 0 && s <= longestStated.Seconds() {
		return atLeast(s)
	}
	if d := detailsReset(fault, now); d > 0 {
		return d
	}
	message, _ := rawjson.String(rawjson.Get(fault, "message"))
	if m := regain.FindStringSubmatch(message); m != nil {
		at := m[2]
		if at == "" {
			at = "00:00"
		}
		if t, err := time.Parse("2006-01-02 15:04", m[1]+" "+at); err == nil {
			return until(t, now)
		}
	}
	return 0
}

// detailsReset reads Google's RetryInfo, or the end of a quota in an ErrorInfo: where that is used up or nothing else is
// said.
func detailsReset(fault []byte, now time.Time) time.Duration {
	var details []json.RawMessage
	if json.Unmarshal(rawjson.Get(fault, "details"), &details) != nil {
		return 0
	}
	var retry, quota time.Duration
	usedUp := false
	for _, d := range details {
		text, _ := rawjson.String(rawjson.Get(d, "retryDelay"))
		if delay, err := time.ParseDuration(text); err == nil && delay > 0 && retry == 0 {
			retry = atLeast(delay.Seconds())
		}
		for _, name := range []string{"quotaResetDelay", "quotaResetTimeStamp"} {
			text, _ := rawjson.String(rawjson.Get(rawjson.Get(d, "metadata"), name))
			if quota == 0 {
				quota = moment(text, now)
			}
		}
		reason, _ := rawjson.String(rawjson.Get(d, "reason"))
		usedUp = usedUp || reason == quotaExhausted
	}
	if usedUp || retry == 0 {
		return max(retry, quota)
	}
	return retry
}

// quotaExhausted is the reason by which Google's Code Assist tells that a model's quota is used up.
const quotaExhausted = "QUOTA_EXHAUSTED"

// moment reads an instant (RFC 3339, or epoch seconds or milliseconds), a Go-like duration or plain seconds.
func moment(v string, now time.Time) time.Duration {
	v = strings.TrimSpace(v)
	if v == "" {
		return 0
	}
	if n, ok := number(v); ok {
		return instant(n, now)
	}
	if t, err := time.Parse(time.RFC3339, v); err == nil {
		return until(t, now)
	}
	if d, err := time.ParseDuration(v); err == nil && d > 0 {
		return atLeast(d.Seconds())
	}
	return 0
}

// instant tells seconds from now, epoch seconds and epoch milliseconds apart by their size.
func instant(n float64, now time.Time) time.Duration {
	switch {
	case n <= 0:
		return 0
	case n <= longestStated.Seconds():
		return atLeast(n)
	case n > 1e11: // milliseconds since 1970; as seconds this would be the year 5138
		n /= 1000
	}
	if n > 1e11 {
		return 0
	}
	return until(time.Unix(int64(n), 0), now)
}

func until(t, now time.Time) time.Duration {
	d := t.Sub(now)
	if d <= 0 || d > longestStated {
		return 0
	}
	return atLeast(d.Seconds())
}

// atLeast rounds up to whole seconds, one at the least.
func atLeast(seconds float64) time.Duration {
	return time.Duration(max(math.Ceil(min(seconds, longestStated.Seconds())), 1)) * time.Second
}

func number(v string) (float64, bool) {
	n, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
	return n, err == nil && !math.IsNaN(n) && !math.IsInf(n, 0)
}
