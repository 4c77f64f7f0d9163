package web

import (
	"context"
	"encoding/json"
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

	Diagnostics map[string]json.RawMessage `json:"diagnostics"` // of accounts, by key
}

func (x *Web) status(w http.ResponseWriter, _ *http.Request) error {
	v := x.pool.View()
	out := struct {
		Tiers []olderTier `json:"tiers"`
	}{[]olderTier{}}
	diagnoses := x.accounts.Diagnoses("")
	for _, t := range v.Tiers {
		tier := olderTierOf(v.Now, t)
		for _, k := range t.Keys {
			if d, ok := diagnoses[k.ID]; ok {
				tier.Diagnostics[k.ID] = d
			}
		}
		out.Tiers = append(out.Tiers, tier)
	}
	writeJSON(w, http.StatusOK, out)
	return nil
}

func olderTierOf(now time.Time, t pool.TierView) olderTier {
	out := olderTier{Name: t.Name, RateLimit: olderRateLimitOf(now, t.Keys), Diagnostics: map[string]json.RawMessage{}}
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

// Accounts are the accounts at providers that people sign in to.
type Accounts interface {
	// SignIns are the logins of the configuration, by name.
	SignIns() map[string]SignIn
	// SignIn begins one, unless it has begun. The error says which ones there are.
	SignIn(name string) error
	// Diagnoses say how the accounts of a provider stand, by key; "" = of all.
	Diagnoses(provider string) map[string]json.RawMessage
	// Models asks for the models of each Copilot account, by key.
	Models(ctx context.Context) map[string]AccountModels
}

// SignIn is a login that was asked for here.
type SignIn struct {
	State        string   `json:"state"` // idle, pending, completed, failed
	Error        string   `json:"error,omitempty"`
	CompletedAgo *float64 `json:"completed_ago_seconds,omitempty"`
	// Where a person goes, while it is pending.
	UserCode        string `json:"user_code,omitempty"`
	VerificationURI string `json:"verification_uri,omitempty"`
	AuthorizeURL    string `json:"authorize_url,omitempty"`
}

// AccountModels are the models of an account. Status is 502 where the list cannot be had, 503 where there is no token for it.
type AccountModels struct {
	Status int             `json:"status"`
	Models json.RawMessage `json:"models,omitempty"`
	Error  string          `json:"error,omitempty"`
}

func noCopilot() error {
	return &Error{http.StatusNotFound, "not_found", "no copilot key is configured"}
}

func (x *Web) copilotDiagnostics(w http.ResponseWriter, _ *http.Request) error {
	keys := x.accounts.Diagnoses("copilot")
	if len(keys) == 0 {
		return noCopilot()
	}
	writeJSON(w, http.StatusOK, struct {
		Keys map[string]json.RawMessage `json:"keys"`
	}{keys})
	return nil
}

// copilotModels is good where one account is; else it is the least hopeless of them.
func (x *Web) copilotModels(w http.ResponseWriter, r *http.Request) error {
	keys := x.accounts.Models(r.Context())
	if len(keys) == 0 {
		return noCopilot()
	}
	status := http.StatusServiceUnavailable
	for _, m := range keys {
		status = min(status, m.Status)
	}
	writeJSON(w, status, struct {
		Keys map[string]AccountModels `json:"keys"`
	}{keys})
	return nil
}

func (x *Web) reauthStatus(w http.ResponseWriter, r *http.Request) error {
	list := x.accounts.SignIns()
	if !isAdmin(r) {
		for name, l := range list { // whoever went there would sign the owner in as himself
			l.UserCode, l.VerificationURI, l.AuthorizeURL = "", "", ""
			list[name] = l
		}
	}
	writeJSON(w, http.StatusOK, struct {
		Providers map[string]SignIn `json:"providers"`
	}{list})
	return nil
}
