package web

import (
	"maps"
	"math"
	"net/http"
	"slices"
	"time"

	"coding-proxy/auth"
	"coding-proxy/pool"
	"coding-proxy/stats"
)

// The documents of design/api.md. The pages are drawn from the same ones.

type statsJSON struct {
	Window string               `json:"window"`
	From   string               `json:"from"`
	To     string               `json:"to"`
	Total  stats.Figures        `json:"total"`
	Models []stats.ModelFigures `json:"models"`
	Days   []stats.DayFigures   `json:"days"`
}

func (x *Web) statsDocument(r *http.Request) (statsJSON, error) {
	name, days, err := span(r.URL.Query().Get("window"), x.now())
	if err != nil {
		return statsJSON{}, err
	}
	t := x.stats.Totals(days)
	return statsJSON{name, days.From, days.To, t.Total, notNil(t.Models), notNil(t.Days)}, nil
}

func (x *Web) apiStats(w http.ResponseWriter, r *http.Request) error {
	doc, err := x.statsDocument(r)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, doc)
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

// whole rounds weighted tokens.
func whole(tokens float64) int64 { return int64(math.Round(tokens)) }

// limit is a limit in JSON: null where there is none.
type limit struct {
	Limit     *int64   `json:"limit"`
	Used      int64    `json:"used"`
	Left      *int64   `json:"left"`
	UsedRatio *float64 `json:"used_ratio"`
	State     string   `json:"state"`
}

func limitOf(l pool.Limit) limit {
	out := limit{Used: whole(l.Used), State: l.State()}
	if l.Of > 0 {
		of, left, ratio := int64(l.Of), max(0, whole(l.Of-l.Used)), l.Used/l.Of
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
	Family *string    `json:"family"` // all models of which cool with it
	State  string     `json:"state"`
	Reason string     `json:"reason"`
	Until  *time.Time `json:"until"`
}

// seenJSON is a limit of the provider as it was last told: null is what it did not tell.
type seenJSON struct {
	Name        string     `json:"name"`
	Limit       *float64   `json:"limit"`
	Remaining   *float64   `json:"remaining"`
	UsedPercent *float64   `json:"used_percent"`
	Status      *string    `json:"status"`
	Reset       *time.Time `json:"reset"`
	Seen        time.Time  `json:"seen"`
	AgeSeconds  int64      `json:"age_seconds"`
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
	UpstreamLimits []seenJSON  `json:"upstream_limits"`
}

func keyOf(now time.Time, k pool.KeyView) keyJSON {
	out := keyJSON{
		ID: k.ID, Provider: k.Provider, Protocols: notNil(k.Protocols), Enabled: k.Enabled, State: k.State,
		Reason: optional(k.Reason), Until: moment(k.Until), Streak: k.Streak, InFlight: k.InFlight, Sessions: k.Sessions,
		LastUsed: moment(k.LastUsed), Today: limitOf(k.Today), Month: limitOf(k.Month), RunsOut: moment(k.RunsOut),
		Models: []modelJSON{}, UpstreamLimits: []seenJSON{},
	}
	for _, m := range k.Models {
		out.Models = append(out.Models, modelJSON{m.Model, optional(m.Family), "cooling", m.Reason, moment(m.Until)})
	}
	for _, s := range k.Seen {
		out.UpstreamLimits = append(out.UpstreamLimits, seenJSON{s.Name, s.Limit, s.Remaining, s.UsedPercent, optional(s.Status),
			moment(s.Reset), s.At, max(0, int64(now.Sub(s.At).Seconds()))})
	}
	return out
}

type breakerJSON struct {
	State           string     `json:"state"`
	Failures        int        `json:"failures"`
	Successes       int        `json:"successes"`
	RecoverySeconds float64    `json:"recovery_seconds"`
	Until           *time.Time `json:"until"`
}

type guardJSON struct {
	State      string     `json:"state"`
	By         *string    `json:"by"`
	Used       int64      `json:"used"`
	Budget     int64      `json:"budget"`
	WeekUsed   int64      `json:"week_used"`
	WeekBudget int64      `json:"week_budget"`
	Until      *time.Time `json:"until"`
}

type tierJSON struct {
	Name    string       `json:"name"`
	State   string       `json:"state"`
	Reason  *string      `json:"reason"`
	Until   *time.Time   `json:"until"`
	Breaker *breakerJSON `json:"breaker"`
	Guard   *guardJSON   `json:"quota_guard"`
	Keys    []keyJSON    `json:"keys"`
}

func tierStateOf(now time.Time, t pool.TierView) tierJSON {
	out := tierJSON{Name: t.Name, State: "open", Reason: optional(t.Reason), Until: moment(t.Until), Keys: []keyJSON{}}
	if t.Refuses {
		out.State = "refusing"
	}
	if b := t.Breaker; b != nil {
		out.Breaker = &breakerJSON{b.State, b.Failures, b.Successes, b.Recovery.Seconds(), moment(b.Until)}
	}
	if g := t.Guard; g != nil {
		out.Guard = &guardJSON{g.State, optional(g.By), whole(g.Used), whole(g.Budget), whole(g.WeekUsed), whole(g.WeekBudget), moment(g.Until)}
	}
	for _, k := range t.Keys {
		out.Keys = append(out.Keys, keyOf(now, k))
	}
	return out
}

type poolJSON struct {
	Now      time.Time  `json:"now"`
	State    string     `json:"state"`
	Today    limit      `json:"today"`
	Month    limit      `json:"month"`
	NextFree *time.Time `json:"next_free"`
	Tiers    []tierJSON `json:"tiers"`
}

func (x *Web) poolDocument() poolJSON {
	v := x.pool.View()
	out := poolJSON{v.Now, poolState(v), limitOf(v.Today), limitOf(v.Month), moment(v.NextFree), []tierJSON{}}
	for _, t := range v.Tiers {
		out.Tiers = append(out.Tiers, tierStateOf(v.Now, t))
	}
	return out
}

func (x *Web) apiPool(w http.ResponseWriter, _ *http.Request) error {
	writeJSON(w, http.StatusOK, x.poolDocument())
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

type usageJSON struct {
	Now  time.Time  `json:"now"`
	Keys []keyUsage `json:"keys"`
}

// usageDocument lists the configured keys in their order, then those that only the statistics still know.
func (x *Web) usageDocument() usageJSON {
	out := usageJSON{x.now(), []keyUsage{}}
	used := x.stats.KeyWindows(out.Now)
	for _, t := range x.pool.View().Tiers {
		for _, k := range t.Keys {
			u := keyUsage{ID: k.ID, Tier: t.Name, Provider: k.Provider, Configured: true,
				Daily: limitOf(k.Today).Limit, Monthly: limitOf(k.Month).Limit}
			if w := used[k.ID]; w != nil {
				u.Windows = *w
			}
			delete(used, k.ID)
			out.Keys = append(out.Keys, u)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(used)) {
		out.Keys = append(out.Keys, keyUsage{ID: id, Windows: *used[id]})
	}
	return out
}

func (x *Web) apiPoolUsage(w http.ResponseWriter, _ *http.Request) error {
	writeJSON(w, http.StatusOK, x.usageDocument())
	return nil
}

type callerUsage struct {
	Code       string  `json:"code"`
	Group      string  `json:"group"`
	Configured bool    `json:"configured"`
	Windows    windows `json:"windows"`

	Limits *callerLimits `json:"limits"` // null where nothing limits the caller, and for one that is gone
}

// callerLimits are what a caller may use, and how it stands. What is null is not limited.
type callerLimits struct {
	RequestsPerMinute *int64     `json:"requests_per_minute"`
	RequestsLeft      *int64     `json:"requests_left"` // at once
	MaxInFlight       *int64     `json:"max_in_flight"`
	InFlight          *int64     `json:"in_flight"`
	Today             limit      `json:"today"`
	Month             limit      `json:"month"`
	DailyUSD          *float64   `json:"daily_limit_usd"`
	TodayUSD          float64    `json:"today_usd"`
	Expires           *time.Time `json:"expires"`
	Expired           bool       `json:"expired"`
	Addresses         []string   `json:"addresses"` // empty: any
	Models            []string   `json:"models"`    // empty: any
	Reason            *string    `json:"reason"`    // why it is refused now
	Until             *time.Time `json:"until"`
}

// Limited reports whether any caller has limits.
func (c callersJSON) Limited() bool {
	return slices.ContainsFunc(c.Callers, func(u callerUsage) bool { return u.Limits != nil })
}

// limitsOf are the limits of a configured caller; nil where it has none.
func (x *Web) limitsOf(k auth.RequestKey, now time.Time) *callerLimits {
	if k.Limits == (auth.Limits{}) && k.Expires.IsZero() && len(k.Addresses)+len(k.Models) == 0 {
		return nil
	}
	s := x.limiter.Standing(k.Code, k.Limits, now)
	out := &callerLimits{
		Today:    limitOf(pool.Limit{Of: float64(k.DailyTokens), Used: s.Today}),
		Month:    limitOf(pool.Limit{Of: float64(k.MonthlyTokens), Used: s.Month}),
		TodayUSD: s.TodayUSD, Expires: moment(k.Expires), Expired: !k.Expires.IsZero() && !now.Before(k.Expires),
		Addresses: []string{}, Models: notNil(k.Models), Reason: optional(s.Refused), Until: moment(s.Until),
	}
	whole := func(n int) *int64 { v := int64(n); return &v }
	if k.RequestsPerMinute > 0 {
		out.RequestsPerMinute, out.RequestsLeft = whole(k.RequestsPerMinute), whole(s.RequestsLeft)
	}
	if k.MaxInFlight > 0 {
		out.MaxInFlight, out.InFlight = whole(k.MaxInFlight), whole(s.InFlight)
	}
	if k.DailyUSD > 0 {
		out.DailyUSD = &k.DailyUSD
	}
	for _, a := range k.Addresses {
		out.Addresses = append(out.Addresses, a.String())
	}
	return out
}

type callersJSON struct {
	Now     time.Time     `json:"now"`
	Callers []callerUsage `json:"callers"`
}

// callersDocument lists the configured callers, then those that are gone.
func (x *Web) callersDocument() callersJSON {
	out := callersJSON{x.now(), []callerUsage{}}
	used := x.stats.CallerWindows(out.Now)
	for _, k := range x.callers {
		u := callerUsage{Code: k.Code, Group: k.Group, Configured: true, Limits: x.limitsOf(k, out.Now)}
		if w := used[k.Code]; w != nil {
			u.Windows = *w
		}
		delete(used, k.Code)
		out.Callers = append(out.Callers, u)
	}
	for _, code := range slices.Sorted(maps.Keys(used)) {
		out.Callers = append(out.Callers, callerUsage{Code: code, Windows: *used[code]})
	}
	return out
}

func (x *Web) apiCallers(w http.ResponseWriter, _ *http.Request) error {
	writeJSON(w, http.StatusOK, x.callersDocument())
	return nil
}
