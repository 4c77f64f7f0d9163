package stats

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

const (
	noKey = "(none)"  // requests that no key served
	other = "(other)" // models beyond maxModels
	// maxModels are pairs of key and model a day. Client-chosen names must not fill the memory; the codes of callers are
	// the configuration's own, and their limits are counted here.
	maxModels = 1000
)

type keyModel struct{ key, model string }

// day has one local day's figures. A day before the newest is never changed again, so snapshots share it.
type day struct {
	keys    map[keyModel]Figures
	callers map[string]Figures
}

func newDay() *day { return &day{map[keyModel]Figures{}, map[string]Figures{}} }

func (d *day) clone() *day { return &day{maps.Clone(d.keys), maps.Clone(d.callers)} }

// aggregate has all days. It is not safe for concurrent use.
type aggregate struct {
	days   map[string]*day
	newest string
}

func newAggregate() *aggregate { return &aggregate{days: map[string]*day{}} }

func (a *aggregate) day(date string) *day {
	d := a.days[date]
	if d == nil {
		d = newDay()
		a.days[date] = d
		a.newest = max(a.newest, date)
	}
	return d
}

// add counts a record. Local answers cost nothing and are not counted.
func (a *aggregate) add(date string, r *Record) {
	if r.Outcome == OutcomeLocal {
		return
	}
	d, f := a.day(date), r.figures()
	d.addCaller(r.Caller, f)
	if r.Resolved == "" {
		return
	}
	key := r.Key
	if key == "" {
		key = noKey
	}
	d.addKey(keyModel{key, r.Resolved}, f)
}

func (d *day) addKey(k keyModel, f Figures) {
	sum, known := d.keys[k]
	if !known && len(d.keys) >= maxModels {
		k.model = other
		sum = d.keys[k]
	}
	sum.Add(f)
	d.keys[k] = sum
}

func (d *day) addCaller(code string, f Figures) {
	if code == "" {
		return
	}
	sum := d.callers[code]
	sum.Add(f)
	d.callers[code] = sum
}

// snapshot returns a copy that later records do not change. Only the newest day can still change.
func (a *aggregate) snapshot() *aggregate {
	s := &aggregate{days: maps.Clone(a.days), newest: a.newest}
	if d := s.days[s.newest]; d != nil {
		s.days[s.newest] = d.clone()
	}
	return s
}

// forget drops days before the first one that is kept.
func (a *aggregate) forget(first string) {
	maps.DeleteFunc(a.days, func(date string, _ *day) bool { return date < first })
}

// Totals are figures summed over a span of days.
type Totals struct {
	Total  Figures
	Models []ModelFigures // the most tokens first
	Days   []DayFigures   // in order; days without requests are left out
}

// ModelFigures are one model's.
type ModelFigures struct {
	Model string `json:"model"`
	Figures
}

// DayFigures are one day's by model.
type DayFigures struct {
	Date   string             `json:"date"`
	Models map[string]Figures `json:"models"`
}

func (a *aggregate) totals(r Range) Totals {
	var t Totals
	models := map[string]Figures{}
	for _, date := range slices.Sorted(maps.Keys(a.days)) {
		if !r.Has(date) {
			continue
		}
		df := DayFigures{Date: date, Models: map[string]Figures{}}
		for k, f := range a.days[date].keys {
			sum, of := models[k.model], df.Models[k.model]
			sum.Add(f)
			of.Add(f)
			models[k.model], df.Models[k.model] = sum, of
			t.Total.Add(f)
		}
		if len(df.Models) > 0 {
			t.Days = append(t.Days, df)
		}
	}
	for name, f := range models {
		t.Models = append(t.Models, ModelFigures{name, f})
	}
	slices.SortFunc(t.Models, func(a, b ModelFigures) int {
		if ta, tb := a.tokens(), b.tokens(); ta != tb {
			return int(min(max(tb-ta, -1), 1))
		}
		return int(min(max(b.Requests-a.Requests, -1), 1))*2 + cmp.Compare(a.Model, b.Model)
	})
	return t
}

func (f Figures) tokens() int64 {
	return f.InputTokens + f.OutputTokens + f.CacheCreationTokens + f.CacheReadTokens
}

// windows sums each name's figures over the five spans; names gives the figures of one day by name.
func (a *aggregate) windows(now time.Time, names func(*day, func(string, Figures))) map[string]*Windows[Figures] {
	spans := WindowsAt(now)
	out := map[string]*Windows[Figures]{}
	for date, d := range a.days {
		names(d, func(name string, f Figures) {
			w := out[name]
			if w == nil {
				w = &Windows[Figures]{}
				out[name] = w
			}
			for _, s := range []struct {
				span Range
				sum  *Figures
			}{
				{spans.Today, &w.Today}, {spans.Week, &w.Week}, {spans.Month, &w.Month},
				{spans.LastWeek, &w.LastWeek}, {spans.LastMonth, &w.LastMonth},
			} {
				if s.span.Has(date) {
					s.sum.Add(f)
				}
			}
		})
	}
	return out
}

func byKey(d *day, add func(string, Figures)) {
	for k, f := range d.keys {
		add(k.key, f)
	}
}

func byCaller(d *day, add func(string, Figures)) {
	for code, f := range d.callers {
		add(code, f)
	}
}
