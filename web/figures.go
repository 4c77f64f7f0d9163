package web

import (
	"fmt"
	"html/template"
	"slices"

	"coding-proxy/stats"
)

// Columns that are not a field of the figures, or not a whole one.
const (
	cacheShareColumn = "cache_share"
	averageColumn    = "average"
	costColumn       = "cost_usd"
)

// cell is one figure as it is shown.
type cell struct {
	Name  string // the heading is "figure." and this
	Shown template.HTML
}

// columnNames are the headings of a page's tables: what no provider has told of anything on the page is left out.
func columnNames(all []stats.Figures) []string {
	var sum stats.Figures
	for _, f := range all {
		sum.Add(f)
	}
	out := []string{
		"requests", "errors", "failovers", "input_tokens", "output_tokens", "cache_creation_tokens", "cache_read_tokens", cacheShareColumn,
	}
	if sum.ReasoningTokens > 0 {
		out = append(out, "reasoning_tokens")
	}
	if sum.Estimated > 0 {
		out = append(out, "estimated")
	}
	if sum.CostUSD > 0 || sum.Unpriced > 0 {
		out = append(out, costColumn)
	}
	return append(out, averageColumn)
}

// cells are the figures of the columns.
func (tr *translator) cells(path string, f stats.Figures, columns []string) ([]cell, error) {
	out := make([]cell, 0, len(columns))
	for _, name := range columns {
		shown, err := tr.shownFigure(path, name, f)
		if err != nil {
			return nil, err
		}
		out = append(out, cell{name, shown})
	}
	return out, nil
}

func (tr *translator) shownFigure(path, name string, f stats.Figures) (template.HTML, error) {
	switch name {
	case cacheShareColumn:
		return shareCell(path, f), nil
	case averageColumn:
		return averageCell(path, f), nil
	case costColumn:
		return tr.costCell(path, f)
	}
	n, ok := map[string]int64{
		"requests": f.Requests, "errors": f.Errors, "failovers": f.Failovers,
		"input_tokens": f.InputTokens, "output_tokens": f.OutputTokens,
		"cache_creation_tokens": f.CacheCreationTokens, "cache_read_tokens": f.CacheReadTokens,
		"reasoning_tokens": f.ReasoningTokens, "estimated": f.Estimated,
	}[name]
	if !ok {
		return "", fmt.Errorf("no figure %q", name)
	}
	return number(at(path, name), n)
}

// costCell shows the cost, and how many requests it lacks.
func (tr *translator) costCell(path string, f stats.Figures) (template.HTML, error) {
	cost, err := dollars(at(path, costColumn), f.CostUSD)
	if err != nil || f.Unpriced == 0 {
		return cost, err
	}
	n, err := number(at(path, "unpriced"), f.Unpriced)
	if err != nil {
		return "", err
	}
	hint, err := tr.text("figure.unpriced.hint", grouped(f.Unpriced))
	if err != nil {
		return "", err
	}
	mark, err := tr.html("figure.unpriced", n)
	return cost + template.HTML(fmt.Sprintf(`<div class="soft" title="%s">%s</div>`, template.HTMLEscapeString(hint), mark)), err
}

// figuresOf are all figures of a document.
func figuresOf(doc any) []stats.Figures {
	var out []stats.Figures
	add := func(w windows) {
		for _, row := range windowRows(w) {
			out = append(out, row.Figures)
		}
	}
	switch doc := doc.(type) {
	case statsJSON:
		out = append(out, doc.Total)
	case usageJSON:
		for _, k := range doc.Keys {
			add(k.Windows)
		}
	case callersJSON:
		for _, c := range doc.Callers {
			add(c.Windows)
		}
	}
	return out
}

// dayRow is one day over all models.
type dayRow struct {
	Index   int // in the API's list
	Date    string
	Figures stats.Figures
}

// Tokens are all tokens of the day.
func (d dayRow) Tokens() int64 {
	return d.Figures.InputTokens + d.Figures.OutputTokens + d.Figures.CacheCreationTokens + d.Figures.CacheReadTokens
}

// DayRows are the days, the newest first.
func (s statsJSON) DayRows() []dayRow {
	var out []dayRow
	for i, d := range slices.Backward(s.Days) {
		row := dayRow{Index: i, Date: d.Date}
		for _, f := range d.Models {
			row.Figures.Add(f)
		}
		out = append(out, row)
	}
	return out
}

// Busiest is the largest number of tokens of a day, at least 1.
func (s statsJSON) Busiest() int64 {
	most := int64(1)
	for _, d := range s.DayRows() {
		most = max(most, d.Tokens())
	}
	return most
}

// windowRow is one of the five windows.
type windowRow struct {
	Name    string
	Figures stats.Figures
}

func windowRows(w windows) []windowRow {
	return []windowRow{{"today", w.Today}, {"week", w.Week}, {"month", w.Month}, {"last_week", w.LastWeek}, {"last_month", w.LastMonth}}
}

// Serving is the index of the tier that new requests go to: the first that is open and has a ready key; -1: none.
func (p poolJSON) Serving() int {
	for i, t := range p.Tiers {
		if t.State == "open" && t.Ready() > 0 {
			return i
		}
	}
	return -1
}

// Ready counts the keys that can be leased.
func (t tierJSON) Ready() int {
	n := 0
	for _, k := range t.Keys {
		if k.State == "ready" {
			n++
		}
	}
	return n
}
