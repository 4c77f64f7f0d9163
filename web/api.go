package web

import (
	"maps"
	"math"
	"net/http"
	"slices"
	"time"

	"coding-proxy/pool"
	"coding-proxy/stats"
)

func (x *Web) apiStats(w http.ResponseWriter, r *http.Request) error {
	name, days, err := span(r.URL.Query().Get("window"), x.now())
	if err != nil {
		return err
	}
	t := x.stats.Totals(days)
	writeJSON(w, http.StatusOK, struct {
		Window string               `json:"window"`
		From   string               `json:"from"`
		To     string               `json:"to"`
		Total  stats.Figures        `json:"total"`
		Models []stats.ModelFigures `json:"models"`
		Days   []stats.DayFigures   `json:"days"`
	}{name, days.From, days.To, t.Total, notNil(t.Models), notNil(t.Days)})
	return nil
}

// notNil makes an empty list [] in JSON.
func notNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// moment makes the zero time null in JSON.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// limit is a limit in JSON: null where there is none. Weighted tokens are rounded.
type limit struct {
	Limit     *int64   `json:"limit"`
	Used      int64    `json:"used"`
	Left      *int64   `json:"left"`
	UsedRatio *float64 `json:"used_ratio"`
	State     string   `json:"state"`
}

func limitOf(l pool.Limit) limit {
	out := limit{Used: int64(math.Round(l.Used)), State: l.State()}
	if l.Of > 0 {
		of, left, ratio := int64(l.Of), max(0, int64(math.Round(l.Of-l.Used))), l.Used/l.Of
		out.Limit, out.Left, out.UsedRatio = &of, &left, &ratio
	}
	return out
}

// poolState is the pool in one word.
func poolState(v pool.View) string {
	switch {
	case !v.Ready:
		return "exhausted"
	case v.Today.State() != "healthy" || v.Month.State() != "healthy":
		return "tight"
	}
	return "healthy"
}

type modelJSON struct {
	Model  string     `json:"model"`
	State  string     `json:"state"`
	Reason string     `json:"reason"`
	Until  *time.Time `json:"until"`
}

type keyJSON struct {
	ID             string      `json:"id"`
	Provider       string      `json:"provider"`
	Protocols      []string    `json:"protocols"`
	Enabled        bool        `json:"enabled"`
	State          string      `json:"state"`
	Reason         *string     `json:"reason"`
	Until          *time.Time  `json:"until"`
	Streak         int         `json:"streak"`
	InFlight       int         `json:"in_flight"`
	Sessions       int         `json:"sessions"`
	LastUsed       *time.Time  `json:"last_used"`
	Today          limit       `json:"today"`
	Month          limit       `json:"month"`
	RunsOut        *time.Time  `json:"runs_out"`
	Models         []modelJSON `json:"models"`
	UpstreamLimits []struct{}  `json:"upstream_limits"`
}

type tierJSON struct {
	Name    string     `json:"name"`
	State   string     `json:"state"`
	Reason  *string    `json:"reason"`
	Until   *time.Time `json:"until"`
	Breaker *struct{}  `json:"breaker"`
	Guard   *struct{}  `json:"quota_guard"`
	Keys    []keyJSON  `json:"keys"`
}

func (x *Web) apiPool(w http.ResponseWriter, _ *http.Request) error {
	v := x.pool.View()
	out := struct {
		Now      time.Time  `json:"now"`
		State    string     `json:"state"`
		Today    limit      `json:"today"`
		Month    limit      `json:"month"`
		NextFree *time.Time `json:"next_free"`
		Tiers    []tierJSON `json:"tiers"`
	}{v.Now, poolState(v), limitOf(v.Today), limitOf(v.Month), moment(v.NextFree), []tierJSON{}}
	for _, t := range v.Tiers {
		tj := tierJSON{Name: t.Name, State: "open", Keys: []keyJSON{}}
		for _, k := range t.Keys {
			kj := keyJSON{
				ID: k.ID, Provider: k.Provider, Protocols: notNil(k.Protocols), Enabled: k.Enabled, State: k.State,
				Reason: optional(k.Reason), Until: moment(k.Until), Streak: k.Streak, InFlight: k.InFlight, Sessions: k.Sessions,
				LastUsed: moment(k.LastUsed), Today: limitOf(k.Today), Month: limitOf(k.Month), RunsOut: moment(k.RunsOut),
				Models: []modelJSON{}, UpstreamLimits: []struct{}{},
			}
			for _, m := range k.Models {
				kj.Models = append(kj.Models, modelJSON{m.Model, "cooling", m.Reason, moment(m.Until)})
			}
			tj.Keys = append(tj.Keys, kj)
		}
		out.Tiers = append(out.Tiers, tj)
	}
	writeJSON(w, http.StatusOK, out)
	return nil
}

type windows = stats.Windows[stats.Figures]

type keyUsage struct {
	ID         string  `json:"id"`
	Tier       string  `json:"tier"`
	Provider   string  `json:"provider"`
	Configured bool    `json:"configured"`
	Daily      *int64  `json:"daily_limit_tokens"`
	Monthly    *int64  `json:"monthly_limit_tokens"`
	Windows    windows `json:"windows"`
}

// apiPoolUsage lists the configured keys in their order, then those that only the statistics still know.
func (x *Web) apiPoolUsage(w http.ResponseWriter, _ *http.Request) error {
	now := x.now()
	used := x.stats.KeyWindows(now)
	keys := []keyUsage{}
	for _, t := range x.pool.View().Tiers {
		for _, k := range t.Keys {
			u := keyUsage{ID: k.ID, Tier: t.Name, Provider: k.Provider, Configured: true,
				Daily: limitOf(k.Today).Limit, Monthly: limitOf(k.Month).Limit}
			if w := used[k.ID]; w != nil {
				u.Windows = *w
			}
			delete(used, k.ID)
			keys = append(keys, u)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(used)) {
		keys = append(keys, keyUsage{ID: id, Windows: *used[id]})
	}
	writeJSON(w, http.StatusOK, struct {
		Now  time.Time  `json:"now"`
		Keys []keyUsage `json:"keys"`
	}{now, keys})
	return nil
}

type callerUsage struct {
	Code       string  `json:"code"`
	Group      string  `json:"group"`
	Configured bool    `json:"configured"`
	Windows    windows `json:"windows"`
}

// apiCallers lists the configured callers, then those that are gone.
func (x *Web) apiCallers(w http.ResponseWriter, _ *http.Request) error {
	now := x.now()
	used := x.stats.CallerWindows(now)
	callers := []callerUsage{}
	for _, k := range x.callers {
		u := callerUsage{Code: k.Code, Group: k.Group, Configured: true}
		if w := used[k.Code]; w != nil {
			u.Windows = *w
		}
		delete(used, k.Code)
		callers = append(callers, u)
	}
	for _, code := range slices.Sorted(maps.Keys(used)) {
		callers = append(callers, callerUsage{Code: code, Windows: *used[code]})
	}
	writeJSON(w, http.StatusOK, struct {
		Now     time.Time     `json:"now"`
		Callers []callerUsage `json:"callers"`
	}{now, callers})
	return nil
}
