package proxy

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"coding-proxy/pool"
	"coding-proxy/proxy/upstream"
)

// limitsText writes limits as tests can compare them: 5h 42% rejected @3h0m0s, requests 3/50.
func limitsText(limits []pool.Seen) []string {
	out := []string{}
	for _, s := range limits {
		text := s.Name
		switch {
		case s.Remaining != nil && s.Limit != nil:
			text += fmt.Sprintf(" %g/%g", *s.Remaining, *s.Limit)
		case s.Remaining != nil:
			text += fmt.Sprintf(" %g/", *s.Remaining)
		case s.Limit != nil:
			text += fmt.Sprintf(" /%g", *s.Limit)
		}
		if s.UsedPercent != nil {
			text += fmt.Sprintf(" %g%%", *s.UsedPercent)
		}
		if s.Status != "" {
			text += " " + s.Status
		}
		if !s.Reset.IsZero() {
			text += " @" + s.Reset.Sub(resetNow).String()
		}
		out = append(out, text)
	}
	slices.Sort(out)
	return out
}

func TestHeaderLimits(t *testing.T) {
	const key, sub, open, codex = "anthropic-ratelimit-", "anthropic-ratelimit-unified-", "x-ratelimit-", "x-codex-"
	for _, tc := range []struct {
		name   string
		header http.Header
		want   []string
	}{
		{"none", headerOf("Content-Type", "application/json", "Retry-After", "5"), nil},
		{"a key's", headerOf(key+"requests-limit", "50", key+"requests-remaining", "49", key+"requests-reset", isoIn(time.Minute),
			key+"input-tokens-limit", "40000", key+"input-tokens-remaining", "39000", key+"input-tokens-reset", isoIn(time.Second),
			key+"output-tokens-remaining", "0", key+"tokens-limit", "48000"),
			[]string{"input-tokens 39000/40000 @1s", "output-tokens 0/", "requests 49/50 @1m0s", "tokens /48000"}},
		{"of the priority tier", headerOf("anthropic-priority-input-tokens-limit", "10", "anthropic-priority-output-tokens-remaining", "1"),
			[]string{"priority-input-tokens /10", "priority-output-tokens 1/"}},
		{"a subscription's", headerOf(sub+"status", "allowed_warning", sub+"reset", unixIn(time.Hour), sub+"representative-claim", "five_hour",
			sub+"5h-status", "allowed_warning", sub+"5h-utilization", "0.29", sub+"5h-reset", unixIn(3*time.Hour), sub+"5h-surpassed-threshold", "0.25",
			sub+"7d-status", "allowed", sub+"7d-utilization", "0", sub+"7d-reset", unixIn(100*time.Hour),
			sub+"7d_oi-status", "rejected", sub+"7d_oi-utilization", "1.0", sub+"overage-status", "rejected", sub+"overage-disabled-reason", "out_of_credits",
			sub+"fallback-percentage", "0.5"),
			[]string{"5h 29% allowed_warning @3h0m0s", "7d 0% allowed @100h0m0s", "7d_oi 100% rejected", "overage rejected", "unified allowed_warning @1h0m0s"}},
		{"only how much is used", headerOf(sub+"7d_sonnet-utilization", "0.5"), []string{"7d_sonnet 50%"}},
		{"OpenAI's", headerOf(open+"limit-requests", "500", open+"remaining-requests", "499", open+"reset-requests", "120ms",
			open+"limit-tokens", "30000", open+"remaining-tokens", "29984", open+"reset-tokens", "6m0s"),
			[]string{"requests 499/500 @1s", "tokens 29984/30000 @6m0s"}},
		{"OpenRouter's", headerOf(open+"limit", "20", open+"remaining", "0", open+"reset", msIn(time.Minute)), []string{"rate 0/20 @1m0s"}},
		{"Codex'", headerOf(codex+"primary-used-percent", "12.5", codex+"primary-window-minutes", "300", codex+"primary-reset-after-seconds", "600",
			codex+"secondary-used-percent", "100", codex+"secondary-reset-at", unixIn(time.Hour), codex+"primary-over-secondary-limit-percent", "7"),
			[]string{"codex-primary 12.5% @10m0s", "codex-secondary 100% @1h0m0s"}},
		{"a reset alone tells nothing", headerOf(key+"requests-reset", isoIn(time.Minute), sub+"5h-reset", unixIn(time.Hour), codex+"primary-reset-after-seconds", "5"), nil},
		{"a reset of the past", headerOf(key+"requests-remaining", "3", key+"requests-reset", isoIn(-time.Minute)), []string{"requests 3/"}},
		{"rubbish", headerOf(key+"requests-limit", "many", key+"requests-remaining", "-1", key+"tokens-limit", "NaN", key+"tokens-remaining", "1e300",
			sub+"5h-status", "perhaps", sub+"5h-utilization", "-0.5", codex+"primary-used-percent", "half", open+"remaining", ""), nil},
		{"names of anybody's", headerOf(sub+"<script>-status", "rejected", sub+strings.Repeat("x", 33)+"-status", "rejected", sub+"ä-status", "rejected",
			sub+"-status", "rejected", key+"anything-remaining", "3"), nil},
		{"other headers", headerOf("Set-Cookie", "a=anthropic-ratelimit-requests-limit", "X-Ratelimit-Bucket", "secret", "X-Codex-Turn-State", "secret",
			"Anthropic-Organization-Id", "secret"), nil},
	} {
		if got := limitsText(headerLimits(tc.header, resetNow)); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
	// An instant stays the one that was told, whenever that is read.
	for _, late := range []time.Duration{0, 1, time.Second / 3, time.Second - 1} {
		got := headerLimits(headerOf(sub+"5h-status", "allowed", sub+"5h-reset", unixIn(time.Hour)), resetNow.Add(late))
		if want := resetNow.Add(time.Hour); len(got) != 1 || !got[0].Reset.Equal(want) {
			t.Errorf("read %s late: %v, want %s", late, got, want)
		}
	}
	many := http.Header{}
	for n := range 99 {
		many.Set(fmt.Sprintf("%s%dd-status", sub, n), "allowed")
	}
	if n := len(headerLimits(many, resetNow)); n != mostLimits {
		t.Errorf("%d limits of one answer", n)
	}
}

// geminiQuota is what Google refuses with when a quota of the day is used up.
const geminiQuota = `{"error":{"code":429,"message":"You exceeded your current quota","status":"RESOURCE_EXHAUSTED","details":[
	{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[
		{"quotaMetric":"generativelanguage.googleapis.com/generate_content_free_tier_requests","quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier","quotaDimensions":{"model":"gemini-3-pro"},"quotaValue":"250"},
		{"quotaId":"GenerateContentInputTokensPerModelPerMinute-FreeTier","quotaValue":"125000"}]},
	{"@type":"type.googleapis.com/google.rpc.Help","links":[]},
	{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.2s"}]}}`

func TestDetailLimits(t *testing.T) {
	quota := []string{"input-tokens-per-minute 0/125000 @35s", "requests-per-day 0/250 @35s"}
	for _, tc := range []struct {
		body string
		want []string
	}{
		{geminiQuota, quota},
		{"\n[" + geminiQuota + "\n]", quota},
		{errorWith(`"details":[{"violations":[{"quotaId":"secret words"},{"quotaId":7,"quotaValue":7},7]},{"violations":7},7]`), []string{"quota 0/"}},
		{errorWith(`"details":[{"violations":[{"quotaId":"TokensPerHour","quotaValue":"-1"}]}]`), []string{"tokens-per-hour 0/"}},
		{errorWith(`"details":{}`), nil},
		{`[]`, nil}, {`[7]`, nil}, {`{`, nil}, {`<html>`, nil}, {``, nil},
	} {
		if got := limitsText(detailLimits([]byte(tc.body), resetNow)); !slices.Equal(got, tc.want) {
			t.Errorf("%.80s: %q, want %q", tc.body, got, tc.want)
		}
	}
}

// The end of a body tells once, of its beginning only, and the body itself stays.
func TestDetailsReader(t *testing.T) {
	for _, size := range []int{0, 1, 4096, maxDetails, maxDetails + 1, 3 * maxDetails} {
		var told []int
		text := strings.Repeat("x", size)
		r := &detailsReader{ReadCloser: io.NopCloser(strings.NewReader(text)), done: func(b []byte) { told = append(told, len(b)) }}
		got, err := io.ReadAll(r)
		if err != nil || string(got) != text {
			t.Errorf("%d: %d bytes, %v", size, len(got), err)
		}
		if _, err := r.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("%d: %v", size, err)
		}
		if want := []int{min(size, maxDetails)}; !slices.Equal(told, want) {
			t.Errorf("%d: told %v, want %v", size, told, want)
		}
	}
}

// seenOf are the limits that the pool keeps of a key.
func (r *rig) seenOf(key string) []pool.Seen {
	for _, t := range r.pool.View().Tiers {
		for _, k := range t.Keys {
			if k.ID == key {
				return k.Seen
			}
		}
	}
	return nil
}

func messageOf(model string) []byte {
	return fmt.Appendf(nil, `{"model":%q,"max_tokens":10,"messages":[{"role":"user","content":"hi"}]}`, model)
}

const plainAnswer = `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`

// What a good answer tells, and what an error tells, is kept for the key that gave it.
func TestLimitsAreKeptByKey(t *testing.T) {
	r := newRig(t, 2, nil, nil, func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "application/json")
		if r.Header.Get("X-Api-Key") == "secret-of-k1" {
			h.Set("Anthropic-Ratelimit-Unified-5h-Status", "rejected")
			h.Set("Anthropic-Ratelimit-Unified-5h-Utilization", "1.0")
			h.Set("Anthropic-Ratelimit-Unified-Secret-of-K1-Status", "rejected")
			w.WriteHeader(429)
			io.WriteString(w, string(apiError("rate_limit_error", "", "no")))
			return
		}
		h.Set("Anthropic-Ratelimit-Requests-Limit", "50")
		h.Set("Anthropic-Ratelimit-Requests-Remaining", "7")
		io.WriteString(w, plainAnswer)
	})
	if resp, body := r.post(t, messageOf("claude-opus-4-8")); resp.StatusCode != 200 || resp.Header.Get("Anthropic-Ratelimit-Requests-Remaining") != "7" {
		t.Fatalf("%d %v %s", resp.StatusCode, resp.Header, body)
	}
	for key, want := range map[string]string{"k1": "5h 100% rejected", "k2": "requests 7/50"} {
		if got := strings.Join(limitsText(r.seenOf(key)), ", "); got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
}

// Google tells of a used-up quota in the body of its 429.
func TestGeminiLimitsAreKept(t *testing.T) {
	r := newRigOf(t, upstream.Gemini, 1, nil, nil, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(429)
		io.WriteString(w, geminiQuota)
	})
	resp, body := r.post(t, messageOf("gemini-3-pro"))
	if resp.StatusCode != 429 {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	var names []string
	for _, s := range r.seenOf("k1") {
		names = append(names, s.Name)
	}
	if got := strings.Join(names, " "); got != "input-tokens-per-minute requests-per-day" {
		t.Errorf("kept: %q", got)
	}
}

// A window of one model family that is used up takes that family off the key: its other models go to the next key at
// once, other families stay.
func TestFamilyWindowOnTheWire(t *testing.T) {
	for _, window := range []string{"7d_oi", "7d_opus"} {
		var mu sync.Mutex
		var asked []string
		r := newRig(t, 2, nil, nil, func(w http.ResponseWriter, r *http.Request) {
			var body struct{ Model string }
			_ = json.NewDecoder(r.Body).Decode(&body)
			key := strings.TrimPrefix(r.Header.Get("X-Api-Key"), "secret-of-")
			mu.Lock()
			asked = append(asked, key+" "+body.Model)
			mu.Unlock()
			h := w.Header()
			h.Set("Content-Type", "application/json")
			for name, v := range map[string]string{"5h-status": "allowed", "7d-status": "allowed_warning", window + "-status": "rejected", window + "-reset": fmt.Sprint(time.Now().Add(time.Hour).Unix())} {
				h.Set("Anthropic-Ratelimit-Unified-"+name, v)
			}
			if key == "k1" && strings.Contains(body.Model, "opus") {
				h.Set("Anthropic-Ratelimit-Unified-Status", "rejected")
				w.WriteHeader(429)
				w.Write(apiError("rate_limit_error", "", "This request would exceed your account's usage cap."))
				return
			}
			h.Set("Anthropic-Ratelimit-Unified-Status", "allowed")
			io.WriteString(w, plainAnswer)
		})
		for _, model := range []string{"claude-opus-4-8", "claude-3-opus-20240229", "claude-sonnet-5-5"} {
			if resp, body := r.post(t, messageOf(model)); resp.StatusCode != 200 {
				t.Fatalf("%s: %d %s", model, resp.StatusCode, body)
			}
		}
		want := []string{"k1 claude-opus-4-8", "k2 claude-opus-4-8", "k2 claude-3-opus-20240229", "k1 claude-sonnet-5-5"}
		if !slices.Equal(asked, want) {
			t.Errorf("%s: asked %q, want %q", window, asked, want)
		}
	}
}

// FuzzLimits: whatever an upstream says, what is read of it is bounded and can be shown and written.
func FuzzLimits(f *testing.F) {
	for _, v := range []string{"", "0", "-1", "42", "0.5", "1e308", "NaN", "rejected", "6m0s", "2026-08-01T00:00:00Z", "1785000000000", "secret"} {
		f.Add("7d_oi", v, []byte(geminiQuota))
		f.Add(v, v, []byte(`{"error":{"details":[{"violations":[{"quotaId":"`+v+`","quotaValue":"`+v+`"}],"retryDelay":"`+v+`"}]}}`))
	}
	f.Fuzz(func(t *testing.T, name, v string, body []byte) {
		const stem = "Anthropic-Ratelimit-"
		h := http.Header{stem + name + "-Status": {v}, stem + name + "-Utilization": {v}, stem + "Unified-" + name: {v}, stem + "Unified-" + name + "-Status": {v},
			stem + "Unified-" + name + "-Utilization": {v}, stem + "Requests-Remaining": {v}, stem + "Requests-Reset": {v}, stem + "Unified-5h-Utilization": {v},
			"X-Ratelimit-" + name: {v}, "X-Ratelimit-Limit": {v}, "X-Codex-Primary-Used-Percent": {v}, "X-Codex-Primary-Reset-At": {v}, "X-Codex-" + name: {}}
		for _, limits := range [][]pool.Seen{headerLimits(h, resetNow), detailLimits(body, resetNow)} {
			names := map[string]bool{}
			for _, s := range limits {
				if !pool.IsSeenName(s.Name) || names[s.Name] {
					t.Errorf("name %q", s.Name)
				}
				names[s.Name] = true
				for _, n := range []*float64{s.Limit, s.Remaining, s.UsedPercent} {
					if n != nil && !(*n >= 0 && *n <= 1e17) {
						t.Errorf("%s: %g", s.Name, *n)
					}
				}
				if d := s.Reset.Sub(resetNow); !s.Reset.IsZero() && (d < 0 || d > longestStated) {
					t.Errorf("%s: reset in %s", s.Name, d)
				}
				if s.Status != "" && !strings.EqualFold(s.Status, v) {
					t.Errorf("%s: status %q", s.Name, s.Status)
				}
			}
			if _, err := json.Marshal(limits); err != nil || len(limits) > mostLimits {
				t.Errorf("%d limits: %v", len(limits), err)
			}
		}
	})
}
