package proxy

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"regexp"
	"strings"
	"time"

	"coding-proxy/pool"
	"coding-proxy/proxy/rawjson"
)

const (
	// mostLimits bounds the limits that are read of one answer.
	mostLimits = 16
	// maxDetails bounds the error body that is looked through for limits.
	maxDetails = 64 << 10
)

// sawLimits hands the pool what an answer tells of its provider's limits: in its headers, and Google's in the body of a
// 429 once that has been read.
func sawLimits(lease *pool.Lease, resp *http.Response, now time.Time) {
	lease.Saw(headerLimits(resp.Header, now))
	if resp.StatusCode == http.StatusTooManyRequests {
		resp.Body = &detailsReader{ReadCloser: resp.Body, done: func(body []byte) { lease.Saw(detailLimits(body, now)) }}
	}
}

// detailsReader gives the beginning of a body to done when its end was read.
type detailsReader struct {
	io.ReadCloser
	body []byte
	done func(body []byte)
}

func (r *detailsReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.body = append(r.body, p[:min(n, maxDetails-len(r.body))]...)
	if err == io.EOF && r.done != nil {
		r.done(r.body)
		r.done = nil
	}
	return n, err
}

// The limits of API keys: how their headers begin, then what they count, which is followed by what is told of it.
var keyLimits = []struct{ stem, name string }{
	{"Anthropic-Ratelimit-Requests-", "requests"},
	{"Anthropic-Ratelimit-Tokens-", "tokens"},
	{"Anthropic-Ratelimit-Input-Tokens-", "input-tokens"},
	{"Anthropic-Ratelimit-Output-Tokens-", "output-tokens"},
	{"Anthropic-Priority-Input-Tokens-", "priority-input-tokens"},
	{"Anthropic-Priority-Output-Tokens-", "priority-output-tokens"},
}

// Of others the words come the other way round: X-Ratelimit-Remaining-Requests.
var openLimits = []struct{ end, name string }{{"-Requests", "requests"}, {"-Tokens", "tokens"}, {"", "rate"}}

// headerLimits reads the limits of facts/providers-and-peers.md, 3.4 and 3.5, and facts/protocols.md. Names and states are
// closed words but for a subscription's windows, whose names are checked; all else is numbers.
func headerLimits(h http.Header, now time.Time) []pool.Seen {
	if !tellsLimits(h) {
		return nil
	}
	var list limitList
	for _, l := range keyLimits {
		list.add(pool.Seen{Name: l.name, Limit: figure(h.Get(l.stem + "Limit")), Remaining: figure(h.Get(l.stem + "Remaining")),
			Reset: momentAt(h.Get(l.stem+"Reset"), now)})
	}
	for _, l := range openLimits {
		list.add(pool.Seen{Name: l.name, Limit: figure(h.Get("X-Ratelimit-Limit" + l.end)), Remaining: figure(h.Get("X-Ratelimit-Remaining" + l.end)),
			Reset: momentAt(h.Get("X-Ratelimit-Reset"+l.end), now)})
	}
	for _, window := range []string{"Primary", "Secondary"} {
		list.add(pool.Seen{Name: "codex-" + strings.ToLower(window), UsedPercent: figure(h.Get("X-Codex-" + window + "-Used-Percent")),
			Reset: after(codexWindowReset(h, window, now), now)})
	}
	list.addUnified(h, now)
	return list
}

// tellsLimits reports whether there is anything to read: most answers of most providers have nothing.
func tellsLimits(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(name, "Anthropic-Ratelimit-") || strings.HasPrefix(name, "Anthropic-Priority-") ||
			strings.HasPrefix(name, "X-Ratelimit-") || strings.HasPrefix(name, "X-Codex-") {
			return true
		}
	}
	return false
}

// limitList are the limits of one answer, each name once.
type limitList []pool.Seen

// add adds a limit of which something was told.
func (l *limitList) add(s pool.Seen) {
	if s.Limit == nil && s.Remaining == nil && s.UsedPercent == nil && s.Status == "" {
		return
	}
	if len(*l) >= mostLimits || !pool.IsSeenName(s.Name) {
		return
	}
	for _, have := range *l {
		if have.Name == s.Name {
			return
		}
	}
	*l = append(*l, s)
}

// windowName is what names a subscription's window: how long it is, and whose models it counts where not all; or what is
// paid beyond the windows.
var windowName = regexp.MustCompile(`^(?i:\d{1,3}[a-z](_[a-z\d]{1,16})?|overage)$`)

// addUnified adds a subscription's windows. Which there are is the provider's to say, the known ones come first.
func (l *limitList) addUnified(h http.Header, now time.Time) {
	add := func(window string) {
		if !windowName.MatchString(window) {
			return
		}
		stem := unified + window + "-"
		s := pool.Seen{Name: strings.ToLower(window), Status: unifiedStatus(h.Get(stem + "Status")), Reset: momentAt(h.Get(stem+"Reset"), now)}
		if used := figure(h.Get(stem + "Utilization")); used != nil {
			percent := math.Round(*used*1e4) / 100
			s.UsedPercent = &percent
		}
		l.add(s)
	}
	l.add(pool.Seen{Name: "unified", Status: unifiedStatus(h.Get(unified + "Status")), Reset: momentAt(h.Get(unified+"Reset"), now)})
	add("5h")
	add("7d")
	for name := range h {
		claim, ok := strings.CutPrefix(name, unified)
		if !ok {
			continue
		}
		window, ok := strings.CutSuffix(claim, "-Status")
		if !ok {
			window, ok = strings.CutSuffix(claim, "-Utilization")
		}
		if ok {
			add(window)
		}
	}
}

func unifiedStatus(v string) string {
	switch v = strings.ToLower(v); v {
	case "allowed", "allowed_warning", "rejected":
		return v
	}
	return ""
}

// detailLimits reads Google's QuotaFailure: which quotas are used up. What they count is told by the words of their
// names, as in GenerateRequestsPerDayPerProjectPerModel-FreeTier.
func detailLimits(body []byte, now time.Time) []pool.Seen {
	if body = bytes.TrimLeft(body, " \t\r\n"); len(body) > 0 && body[0] == '[' { // a stream's error comes in a list
		_, body = rawjson.NextElement(body)
	}
	fault := rawjson.Get(body, "error")
	var details []json.RawMessage
	if json.Unmarshal(rawjson.Get(fault, "details"), &details) != nil {
		return nil
	}
	reset := after(detailsReset(fault, now), now)
	var list limitList
	for _, d := range details {
		var violations []json.RawMessage
		if json.Unmarshal(rawjson.Get(d, "violations"), &violations) != nil {
			continue
		}
		for _, v := range violations {
			id, _ := rawjson.String(rawjson.Get(v, "quotaId"))
			value, _ := rawjson.String(rawjson.Get(v, "quotaValue"))
			zero := 0.0
			list.add(pool.Seen{Name: quotaName(id), Limit: figure(value), Remaining: &zero, Reset: reset})
		}
	}
	return list
}

// quotaName is the closed word for a quota of Google's.
func quotaName(id string) string {
	name := "quota"
	for _, w := range []struct{ in, word string }{{"InputToken", "input-tokens"}, {"Token", "tokens"}, {"Request", "requests"}} {
		if strings.Contains(id, w.in) {
			name = w.word
			break
		}
	}
	for _, w := range []struct{ in, word string }{{"PerDay", "-per-day"}, {"PerHour", "-per-hour"}, {"PerMinute", "-per-minute"}} {
		if strings.Contains(id, w.in) {
			return name + w.word
		}
	}
	return name
}

// figure reads a count, nil where there is none that can be true.
func figure(v string) *float64 {
	n, ok := number(v)
	if !ok || n < 0 || n > 1e15 {
		return nil
	}
	return &n
}

// momentAt is the instant that moment reads, zero where it reads none.
func momentAt(v string, now time.Time) time.Time { return after(moment(v, now), now) }

// after is the second in which d from now is over; the zero time where nothing is told.
func after(d time.Duration, now time.Time) time.Time {
	if d <= 0 {
		return time.Time{}
	}
	return now.Add(d).Truncate(time.Second)
}
