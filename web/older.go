package web

import (
	"math"
	"net/http"
	"time"

	"coding-proxy/pool"
)

// The endpoints that the older systems had (design/http.md). Their shapes are the older ones.

func (x *Web) health(w http.ResponseWriter, _ *http.Request) error {
	writeJSON(w, http.StatusOK, struct {
		Status string `json:"status"`
	}{"ok"})
	return nil
}

type olderBreaker struct {
	State           string   `json:"state"`
	Failures        int      `json:"failure_count"`
	Successes       int      `json:"success_count"`
	RecoverySeconds float64  `json:"current_recovery_seconds"`
	LastFailure     *float64 `json:"last_failure_time"` // was monotonic seconds: means nothing outside the process
}

type olderGuard struct {
	State   string  `json:"state"`
	Used    int64   `json:"window_usage_tokens"`
	Budget  int64   `json:"budget_tokens"`
	Percent float64 `json:"usage_percent"`
}

type olderRateLimit struct {
	Limited   bool    `json:"is_rate_limited"`
	Remaining float64 `json:"remaining_seconds"`
}

type olderTier struct {
	Name      string         `json:"name"`
	Breaker   *olderBreaker  `json:"circuit_breaker,omitempty"`
	Guard     *olderGuard    `json:"quota_guard,omitempty"`
	RateLimit olderRateLimit `json:"rate_limit"`

	Diagnostics struct{} `json:"diagnostics"` // of sign-ins, which this version does not have
}

func (x *Web) status(w http.ResponseWriter, _ *http.Request) error {
	v := x.pool.View()
	out := struct {
		Tiers []olderTier `json:"tiers"`
	}{[]olderTier{}}
	for _, t := range v.Tiers {
		out.Tiers = append(out.Tiers, olderTierOf(v.Now, t))
	}
	writeJSON(w, http.StatusOK, out)
	return nil
}

func olderTierOf(now time.Time, t pool.TierView) olderTier {
	out := olderTier{Name: t.Name, RateLimit: olderRateLimitOf(now, t.Keys)}
	if b := t.Breaker; b != nil {
		out.Breaker = &olderBreaker{State: b.State, Failures: b.Failures, Successes: b.Successes, RecoverySeconds: b.Recovery.Seconds()}
	}
	if g := t.Guard; g != nil {
		out.Guard = &olderGuard{State: "within_quota", Used: whole(g.Used), Budget: whole(g.Budget)}
		if g.State != "within" {
			out.Guard.State = "quota_exceeded"
		}
		if g.Budget > 0 {
			out.Guard.Percent = tenth(100 * g.Used / g.Budget)
		}
	}
	return out
}

// olderRateLimitOf: a tier is limited when each of its enabled keys cools, until the first is free.
func olderRateLimitOf(now time.Time, keys []pool.KeyView) olderRateLimit {
	var first time.Time
	for _, k := range keys {
		if !k.Enabled {
			continue
		}
		if k.State != "cooling" {
			return olderRateLimit{}
		}
		if first.IsZero() || k.Until.Before(first) {
			first = k.Until
		}
	}
	if first.IsZero() {
		return olderRateLimit{}
	}
	return olderRateLimit{true, max(0, tenth(first.Sub(now).Seconds()))}
}

func tenth(v float64) float64 { return math.Round(10*v) / 10 }

// noCopilot answers for a provider that this version does not have.
func (x *Web) noCopilot(http.ResponseWriter, *http.Request) error {
	return &Error{http.StatusNotFound, "not_found", "no copilot key is configured"}
}

func (x *Web) reauthStatus(w http.ResponseWriter, _ *http.Request) error {
	writeJSON(w, http.StatusOK, struct {
		Providers struct{} `json:"providers"`
	}{})
	return nil
}
