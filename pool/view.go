package pool

import (
	"cmp"
	"slices"
	"time"
)

// View is the state of the pool at one moment, for people.
type View struct {
	Now      time.Time
	Today    Limit
	Month    Limit
	NextFree time.Time // zero when a key is free now or nobody knows
	Ready    bool      // some key can be leased
	Tiers    []TierView
}

// TierView is one tier of a View. It refuses when its breaker or its guard does.
type TierView struct {
	Name    string
	Refuses bool
	Reason  string    // "breaker_open", "breaker_half_open" (its probe is under way) or "quota_guard" when it refuses
	Until   time.Time // when it lets the next request in; zero: nobody knows
	Breaker *BreakerView
	Guard   *GuardView
	Keys    []KeyView
}

// BreakerView is the state of a tier's breaker: closed, open or half_open.
type BreakerView struct {
	State               string
	Failures, Successes int           // consecutive
	Recovery            time.Duration // current
	Until               time.Time     // of an open one: when it will be half-open
}

// GuardView is the state of a tier's quota guard: within or exceeded.
type GuardView struct {
	State                string
	By                   string // "budget" or "cap" when exceeded
	Used, Budget         float64
	WeekUsed, WeekBudget float64   // WeekBudget 0 = none
	Until                time.Time // of an exceeded one: when it lets the next probe through
}

// KeyView is one key of a View. State is ready, cooling, day_limit, month_limit, busy or disabled.
type KeyView struct {
	ID, Provider string
	Protocols    []string
	Enabled      bool
	State        string
	Reason       string
	Until        time.Time
	Streak       int
	InFlight     int
	Sessions     int
	LastUsed     time.Time
	Today, Month Limit
	RunsOut      time.Time // at today's pace, when that is before the day ends
	Models       []ModelView
	Seen         []Seen // limits of the provider, by name
}

// ModelView is a model that cools on a key, and all others of its family with it if that is named.
type ModelView struct {
	Model, Family, Reason string
	Until                 time.Time
}

// Limit is a limit in weighted tokens; Of is 0 where there is none.
type Limit struct{ Of, Used float64 }

// State returns healthy, tight (from 80 %) or exhausted.
func (l Limit) State() string {
	switch {
	case l.Of <= 0 || l.Used < 0.8*l.Of:
		return "healthy"
	case l.Used < l.Of:
		return "tight"
	}
	return "exhausted"
}

// View returns the state of all tiers and keys.
func (p *Pool) View() View {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	sessions := p.sessions.count(now)
	v := View{Now: now}
	unlimitedDay, unlimitedMonth := false, false
	for i, t := range p.tiers {
		tv := p.tierView(now, i)
		for _, k := range t.keys {
			kv := p.keyView(now, k)
			kv.Sessions = sessions[k.ID]
			tv.Keys = append(tv.Keys, kv)
			if k.Disabled {
				continue
			}
			unlimitedDay = unlimitedDay || k.DailyLimit <= 0
			unlimitedMonth = unlimitedMonth || k.MonthlyLimit <= 0
			v.Today.Of, v.Today.Used = v.Today.Of+kv.Today.Of, v.Today.Used+kv.Today.Used
			v.Month.Of, v.Month.Used = v.Month.Of+kv.Month.Of, v.Month.Used+kv.Month.Used
			free := later(kv.Until, tv.Until)
			switch {
			case kv.State == "ready" && !tv.Refuses:
				v.Ready = true
			case !free.IsZero() && (v.NextFree.IsZero() || free.Before(v.NextFree)):
				v.NextFree = free
			}
		}
		v.Tiers = append(v.Tiers, tv)
	}
	if v.Ready {
		v.NextFree = time.Time{}
	}
	if unlimitedDay {
		v.Today.Of = 0
	}
	if unlimitedMonth {
		v.Month.Of = 0
	}
	return v
}

// tierView is the tier without its keys. What it refuses is a request that any tier behind it could serve.
func (p *Pool) tierView(now time.Time, i int) TierView {
	t := p.tiers[i]
	v := TierView{Name: t.Name}
	if t.breaker != nil {
		v.Breaker = t.breaker.view(now)
		behind := slices.ContainsFunc(p.tiers[i+1:], func(t *tier) bool {
			return slices.ContainsFunc(t.keys, func(k *key) bool { return !k.Disabled })
		})
		if !t.breaker.allows(now) && behind {
			v.Refuses, v.Reason, v.Until = true, "breaker_"+v.Breaker.State, v.Breaker.Until
		}
	}
	if t.guard != nil {
		v.Guard = t.guard.view(now)
		if !t.guard.allows(now) {
			if !v.Refuses {
				v.Refuses, v.Reason = true, "quota_guard"
			}
			v.Until = later(v.Until, v.Guard.Until)
		}
	}
	return v
}

func (p *Pool) keyView(now time.Time, k *key) KeyView {
	g, until := p.gate(now, k, "", "")
	kv := KeyView{
		ID: k.ID, Provider: k.Provider, Protocols: k.Protocols, Enabled: !k.Disabled,
		State: g.String(), Until: until, InFlight: k.inFlight, LastUsed: k.lastUsed,
		Today: Limit{float64(k.DailyLimit), k.used.today}, Month: Limit{float64(k.MonthlyLimit), k.used.months},
	}
	switch g {
	case GateDisabled:
		kv.Reason = k.DisabledReason
	case GateCooling:
		_, why := p.cool.until(now, k.ID, "", "")
		kv.Reason = why.String()
	}
	for ck, e := range p.cool.m {
		if ck.key != k.ID || ck.credential != "" {
			continue
		}
		kv.Streak = max(kv.Streak, e.streak())
		if (ck.model != "" || ck.family != "") && e.until.After(now) {
			kv.Models = append(kv.Models, ModelView{e.model, ck.family, e.reason.String(), e.until})
		}
	}
	slices.SortFunc(kv.Models, func(a, b ModelView) int {
		return cmp.Or(cmp.Compare(a.Model, b.Model), cmp.Compare(a.Family, b.Family))
	})
	kv.RunsOut = runsOut(now, kv.Today)
	kv.Seen = k.limits()
	return kv
}

// runsOut extrapolates today's pace; zero when the limit holds out.
func runsOut(now time.Time, today Limit) time.Time {
	if today.Of <= 0 || today.Used <= 0 || today.Used >= today.Of {
		return time.Time{}
	}
	y, m, d := now.Date()
	start := midnight(y, m, d, now.Location())
	rest := float64(now.Sub(start)) * (today.Of - today.Used) / today.Used
	if rest >= float64(NextDay(now).Sub(now)) {
		return time.Time{}
	}
	return now.Add(time.Duration(rest))
}
