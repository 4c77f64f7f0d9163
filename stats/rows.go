package stats

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// What usage can be grouped by.
const (
	ByDay    = "day"
	ByModel  = "model" // requested and upstream
	ByKey    = "key"
	ByTier   = "tier"
	ByCaller = "caller"
)

// Groupings are what usage can be grouped by.
func Groupings() []string { return []string{ByDay, ByModel, ByKey, ByTier, ByCaller} }

const (
	unknown = "(unknown)" // what usage.json does not tell
	// Client-chosen names must not fill the memory.
	maxRows     = 10_000
	maxName     = 256 // bytes
	maxUnpriced = 20  // models that are named
)

// Group is what the requests of a row have in common. What is not grouped by is empty.
type Group struct {
	Day       string `json:"day,omitempty"`
	Tier      string `json:"tier,omitempty"`
	Key       string `json:"key,omitempty"`
	Requested string `json:"requested_model,omitempty"`
	Upstream  string `json:"upstream_model,omitempty"` // "" where no key served
	Caller    string `json:"caller,omitempty"`
}

// Row is the figures of a group.
type Row struct {
	Group
	Figures
}

// Rows sums figures by group. Like the pages it leaves out local answers, and requests that named no model except
// where callers alone are counted. It is not safe for concurrent use.
type Rows struct {
	by       []string
	days     Range
	sums     map[Group]*Figures
	total    Figures
	unpriced map[string]bool // models without a known price
	most     int             // groups
	read     map[string]bool // days that the journal's records were of…
	day      string          // …and that of the last one
}

// NewRows returns an empty table of the days, in groups.
func NewRows(days Range, by []string) *Rows {
	return &Rows{by: by, days: days, sums: map[Group]*Figures{}, unpriced: map[string]bool{}, most: maxRows, read: map[string]bool{}}
}

func (r *Rows) has(by string) bool { return slices.Contains(r.by, by) }

// ofCallers reports whether the table is one of callers, as their page is.
func (r *Rows) ofCallers() bool {
	return r.has(ByCaller) && !r.has(ByModel) && !r.has(ByKey) && !r.has(ByTier)
}

// Add counts a record of the journal's file of that day.
func (r *Rows) Add(date string, rec *Record) {
	if date != r.day {
		r.day = date
		r.read[date] = true
	}
	named := rec.Resolved
	if r.ofCallers() {
		named = rec.Caller
	}
	if rec.Outcome == OutcomeLocal || named == "" || !r.days.Has(date) {
		return
	}
	f := rec.figures()
	if f.Unpriced > 0 && len(r.unpriced) < maxUnpriced {
		r.unpriced[shortName(cmp.Or(rec.UpstreamModel, rec.Resolved))] = true
	}
	r.add(Group{date, rec.Tier, cmp.Or(rec.Key, noKey), rec.Requested, rec.UpstreamModel, rec.Caller}, f)
}

func (r *Rows) add(g Group, f Figures) {
	r.total.Add(f)
	g = r.reduce(g)
	sum := r.sums[g]
	if sum == nil && len(r.sums) >= r.most {
		g = r.reduce(Group{g.Day, other, other, other, "", other})
		sum = r.sums[g]
	}
	if sum == nil {
		sum = new(Figures)
		r.sums[g.clone()] = sum // the record's strings are the reader's
	}
	sum.Add(f)
}

// reduce leaves what the table is grouped by.
func (r *Rows) reduce(g Group) Group {
	keep := func(by string, names ...*string) {
		for _, name := range names {
			*name = shortName(*name)
			if !r.has(by) {
				*name = ""
			}
		}
	}
	keep(ByDay, &g.Day)
	keep(ByTier, &g.Tier)
	keep(ByKey, &g.Key)
	keep(ByModel, &g.Requested, &g.Upstream)
	keep(ByCaller, &g.Caller)
	return g
}

func (g Group) clone() Group {
	return Group{strings.Clone(g.Day), strings.Clone(g.Tier), strings.Clone(g.Key), strings.Clone(g.Requested), strings.Clone(g.Upstream),
		strings.Clone(g.Caller)}
}

func shortName(s string) string {
	if len(s) <= maxName {
		return s
	}
	n := maxName
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.Clone(s[:n]) + "…"
}

// AddAggregate counts the days that the usage file still has and the journal, older than its first file, has no more. The
// file knows keys with resolved models, and callers, but not which belong together, nor tiers. What an older program has
// counted is in no journal. A day that was deleted since its records were added is not counted again. It reports whether there was anything. usageFile "" is the one in the data directory.
func (r *Rows) AddAggregate(dataDir, usageFile string) (added bool, err error) {
	data, err := os.ReadFile(cmp.Or(usageFile, filepath.Join(dataDir, "usage.json")))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("usage file: %w", err)
	}
	agg, _, err := decodeUsage(data)
	if err != nil {
		return false, err
	}
	journal, err := journalDays(filepath.Join(dataDir, journalsName))
	if err != nil {
		return false, err
	}
	for _, date := range slices.Sorted(maps.Keys(agg.days)) {
		if r.days.Has(date) && r.addDay(date, agg.days[date], !r.read[date] && (len(journal) == 0 || date < journal[0])) {
			added = true
		}
	}
	return added, nil
}

// addDay counts a day of the aggregate; of one that the journal has, what an older program has counted alone.
func (r *Rows) addDay(date string, d *day, all bool) (added bool) {
	if r.ofCallers() {
		for code, f := range d.callers {
			if all {
				r.add(Group{Day: date, Caller: code}, f)
				added = true
			}
		}
		return added
	}
	for k, f := range d.keys {
		if all || k.key == legacyKey {
			r.add(Group{date, unknown, k.key, k.model, unknown, unknown}, f)
			added = true
		}
	}
	return added
}

// Total is the sum of all rows.
func (r *Rows) Total() Figures { return r.total }

// Unpriced names models without a known price, at most maxUnpriced.
func (r *Rows) Unpriced() []string { return slices.Sorted(maps.Keys(r.unpriced)) }

// Rows returns the rows: by day and names in the order of the grouping, else those with the most tokens first.
func (r *Rows) Rows() []Row {
	out := make([]Row, 0, len(r.sums))
	for g, f := range r.sums {
		out = append(out, Row{g, *f})
	}
	slices.SortFunc(out, func(a, b Row) int {
		if !r.has(ByDay) {
			if c := cmp.Or(cmp.Compare(b.tokens(), a.tokens()), cmp.Compare(b.Requests, a.Requests)); c != 0 {
				return c
			}
		}
		for _, by := range r.by {
			if c := a.compare(b.Group, by); c != 0 {
				return c
			}
		}
		return 0
	})
	return out
}

func (g Group) compare(with Group, by string) int {
	switch by {
	case ByDay:
		return cmp.Compare(g.Day, with.Day)
	case ByTier:
		return cmp.Compare(g.Tier, with.Tier)
	case ByKey:
		return cmp.Compare(g.Key, with.Key)
	case ByCaller:
		return cmp.Compare(g.Caller, with.Caller)
	}
	return cmp.Or(cmp.Compare(g.Requested, with.Requested), cmp.Compare(g.Upstream, with.Upstream))
}
