package proxy

import (
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
	wide, window := unifiedWindow(h, now)
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

// unifiedWindow reads the windows of a subscription: which is rejected, and until when. A 5 h or 7 d window is the
// account's, one with a model family's name only that family's.
func unifiedWindow(h http.Header, now time.Time) (wide bool, d time.Duration) {
	const prefix = "Anthropic-Ratelimit-Unified-"
	for name, values := range h {
		claim, ok := strings.CutPrefix(name, prefix)
		if !ok || len(values) == 0 || !strings.EqualFold(values[0], "rejected") {
			continue
		}
		claim, ok = strings.CutSuffix(claim, "-Status")
		if !ok || strings.EqualFold(claim, "Overage") {
			continue
		}
		if strings.EqualFold(claim, "5h") || strings.EqualFold(claim, "7d") {
			wide = true
		}
		if t := moment(h.Get(prefix+claim+"-Reset"), now); t > d {
			d = t
		}
	}
	if d == 0 && strings.EqualFold(h.Get(prefix+"Status"), "rejected") {
		d = moment(h.Get(prefix+"Reset"), now)
	}
	return wide, d
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

// bodyReset reads resets_at, resets_in_seconds and Google's RetryInfo of an error body, and the date in a spend
// limit's message.
func bodyReset(body []byte, now time.Time) time.Duration {
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
	var details []json.RawMessage
	if json.Unmarshal(rawjson.Get(fault, "details"), &details) == nil {
		for _, d := range details {
			text, _ := rawjson.String(rawjson.Get(d, "retryDelay"))
			if delay, err := time.ParseDuration(text); err == nil && delay > 0 {
				return atLeast(delay.Seconds())
			}
		}
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
