package cli

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"coding-proxy/daemon/config"
	"coding-proxy/stats"
)

const (
	fewDays  = 7   // without --days
	mostDays = 400 // as in /api/stats
)

// usageAsk is what is asked of the statistics.
type usageAsk struct {
	days          int
	by            []string
	csv, asJSON   bool
	dir, usageOld string // the data directory, and its usage file
}

// usage shows what the requests of some days have used, in groups.
func usage(args []string, env Environment) int {
	fs := newFlags("usage", "", "Shows what the requests of the last days have used, whether an instance runs or not. Days are those of the local calendar, today is the last one.", env)
	src := sourceFlags(fs, env)
	var a usageAsk
	fs.IntVar(&a.days, "days", fewDays, "count this `number` of days")
	by := fs.String("by", "day,tier,key,model", "group by these `words`, in this order: "+strings.Join(stats.Groupings(), ", "))
	fs.BoolVar(&a.csv, "csv", false, "print CSV")
	fs.BoolVar(&a.asJSON, "json", false, "print JSON")
	if code, done := parse(fs, args, env); done {
		return code
	}
	switch err := a.readBy(*by); {
	case err != nil:
		fmt.Fprintf(env.Stderr, "coding-proxy usage: --by: %v\n", err)
		return exitUsage
	case a.days < 1 || a.days > mostDays:
		fmt.Fprintf(env.Stderr, "coding-proxy usage: --days must be from 1 to %d\n", mostDays)
		return exitUsage
	case a.csv && a.asJSON:
		fmt.Fprintln(env.Stderr, "coding-proxy usage: --csv or --json, not both")
		return exitUsage
	}
	a.dir = locate(src, env)
	if cfg, err := config.Load(*src); err == nil { // what is wrong with it is told by now
		a.usageOld = cfg.Stats.UsageFile
	}
	if absent := noJournal(a.dir); absent != "" {
		fmt.Fprintf(env.Stderr, "coding-proxy usage: %s%s\n", absent, stranger(src))
		return exitFailed
	}
	ctx, _, stop := signals()
	defer stop()
	if err := a.run(ctx, time.Now(), env); err != nil {
		fmt.Fprintf(env.Stderr, "coding-proxy usage: %v\n", err)
		return exitFailed
	}
	return exitDone
}

// run counts the days that end with now's, and prints them.
func (a *usageAsk) run(ctx context.Context, now time.Time, env Environment) error {
	u, err := a.count(ctx, now)
	if err != nil {
		return err
	}
	for _, w := range u.warnings {
		fmt.Fprintf(env.Stderr, "warning: %s\n", w)
	}
	switch {
	case a.asJSON:
		text, err := json.MarshalIndent(u, "", "  ")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(env.Stdout, "%s\n", stats.Harmless(text))
		return err
	case a.csv:
		return u.writeCSV(env.Stdout)
	}
	return u.print(env.Stdout, colours(env))
}

// readBy reads words with commas between them.
func (a *usageAsk) readBy(text string) error {
	known := stats.Groupings()
	for w := range strings.SplitSeq(text, ",") {
		switch w = strings.ToLower(strings.TrimSpace(w)); {
		case !slices.Contains(known, w):
			return unknownWord("word", w, known)
		case slices.Contains(a.by, w):
			return fmt.Errorf("%s is there twice", w)
		}
		a.by = append(a.by, w)
	}
	return nil
}

// used is what usage has found, as --json prints it.
type used struct {
	From      string        `json:"from"`
	To        string        `json:"to"`
	By        []string      `json:"by"`
	Rows      []stats.Row   `json:"rows"`
	Total     stats.Figures `json:"total"`
	NoPrice   []string      `json:"models_without_price"`
	UsageFile bool          `json:"from_usage_file"` // some days are no more in the journal

	warnings []string
}

// count reads the journal, and for what is older than it the usage file.
func (a *usageAsk) count(ctx context.Context, now time.Time) (*used, error) {
	span := stats.LastDays(now, a.days)
	rows, lacks := stats.NewRows(span, a.by), damages{}
	err := stats.NewReader(a.dir).Telling(lacks.add).Days(ctx, span, func(date string, r *stats.Record) error {
		rows.Add(date, r)
		return nil
	})
	if err != nil {
		if ctx.Err() != nil {
			err = errors.New("interrupted")
		}
		return nil, err
	}
	u := &used{From: span.From, To: span.To, By: a.by, warnings: lacks.texts()}
	if u.UsageFile, err = rows.AddAggregate(a.dir, a.usageOld); err != nil {
		u.warnings = append(u.warnings, "days that the journal has no more are missing: "+err.Error())
	}
	u.Rows, u.Total, u.NoPrice = rows.Rows(), rows.Total(), append([]string{}, rows.Unpriced()...)
	return u, nil
}

// writeCSV writes one line a row, without a total: programs sum the columns.
func (u *used) writeCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	var head []string
	for _, by := range u.By {
		if by == stats.ByModel {
			head = append(head, "requested_model", "upstream_model")
		} else {
			head = append(head, by)
		}
	}
	_ = out.Write(append(head, "requests", "errors", "failovers", "input_tokens", "output_tokens", "cache_creation_tokens", "cache_read_tokens",
		"reasoning_tokens", "estimated", "unpriced", "average_ms", "cost_usd")) // its error stays
	for _, r := range u.Rows {
		var line []string
		for _, by := range u.By {
			for _, name := range groupNames(r.Group, by) {
				line = append(line, harmless(name))
			}
		}
		for _, n := range []int64{r.Requests, r.Errors, r.Failovers, r.InputTokens, r.OutputTokens, r.CacheCreationTokens, r.CacheReadTokens, r.ReasoningTokens,
			r.Estimated, r.Unpriced, average(r.Figures)} {
			line = append(line, strconv.FormatInt(n, 10))
		}
		_ = out.Write(append(line, strconv.FormatFloat(r.CostUSD, 'f', -1, 64)))
	}
	out.Flush()
	return out.Error()
}

// harmless keeps a spreadsheet from taking a name for a formula, and a terminal from taking it for a command: clients
// choose names.
func harmless(name string) string {
	if name = printable(name); name != "" && strings.ContainsRune("=+-@", rune(name[0])) {
		return "'" + name
	}
	return name
}

// groupNames are the names that a row has by this word.
func groupNames(g stats.Group, by string) []string {
	switch by {
	case stats.ByDay:
		return []string{g.Day}
	case stats.ByTier:
		return []string{g.Tier}
	case stats.ByKey:
		return []string{g.Key}
	case stats.ByCaller:
		return []string{g.Caller}
	}
	return []string{g.Requested, g.Upstream}
}

func average(f stats.Figures) int64 {
	if f.Requests == 0 {
		return 0
	}
	return (f.DurationMS + f.Requests/2) / f.Requests
}

// print writes the table for people.
func (u *used) print(w io.Writer, colours bool) error {
	if len(u.Rows) == 0 {
		_, err := fmt.Fprintf(w, "No requests from %s to %s.\n", u.From, u.To)
		return err
	}
	columns, together := u.columns()
	t := newTable(columns, colours)
	var rows [][]cell
	for _, r := range u.Rows {
		var row []cell
		for i, by := range u.By {
			switch {
			case together && by == stats.ByTier:
				row = append(row, cell{joined(r.Tier, "/", r.Key), plainColour})
			case together && by == stats.ByKey && i > 0: // it is beside its tier
			default:
				for _, name := range groupNames(r.Group, by) {
					row = append(row, cell{name, plainColour})
				}
			}
		}
		rows = append(rows, append(row, u.figures(r.Figures, plainColour)...))
	}
	names := len(columns) - len(figureColumns())
	total := []cell{{"total", bold}}
	for range names - 1 {
		total = append(total, cell{" ", plainColour})
	}
	total = append(total, u.figures(u.Total, bold)...)
	t.fit(append(rows, total)...)
	err := t.head(w)
	for _, row := range append(rows, total) {
		if err == nil {
			err = t.print(w, row)
		}
	}
	if err == nil {
		err = u.notes(w)
	}
	return err
}

// columns are those of the table. A key that follows its tier is in one column with it.
func (u *used) columns() (all []column, together bool) {
	if i := slices.Index(u.By, stats.ByTier); i >= 0 && i+1 < len(u.By) && u.By[i+1] == stats.ByKey {
		together = true
	}
	for _, by := range u.By {
		switch {
		case by == stats.ByModel:
			all = append(all, column{name: "requested model", most: 40}, column{name: "upstream model", most: 40})
		case together && by == stats.ByTier:
			all = append(all, column{name: "tier/key", most: 40})
		case together && by == stats.ByKey:
		default:
			all = append(all, column{name: by, most: 32})
		}
	}
	return append(all, figureColumns()...), together
}

func figureColumns() (all []column) {
	for _, name := range []string{"requests", "errors", "input", "output", "cached", "failovers", "average", "cost USD"} {
		all = append(all, column{name: name, most: 24, right: true})
	}
	return all
}

func (u *used) figures(f stats.Figures, colour string) (row []cell) {
	cost := dollars(f.CostUSD)
	switch {
	case f.Unpriced > 0 && f.CostUSD == 0:
		cost = "?"
	case f.Unpriced > 0:
		cost += "?"
	case u.Total.Unpriced > 0:
		cost += " " // below the others
	}
	errorColour := colour
	if f.Errors > 0 && colour == plainColour {
		errorColour = red
	}
	return []cell{
		{thousands(f.Requests), colour}, {thousands(f.Errors), errorColour}, {thousands(f.InputTokens), colour}, {thousands(f.OutputTokens), colour},
		{thousands(f.CacheCreationTokens + f.CacheReadTokens), colour}, {thousands(f.Failovers), colour}, {period(average(f)), colour}, {cost, colour},
	}
}

// notes explain what is not as it seems.
func (u *used) notes(w io.Writer) error {
	var notes []string
	if u.Total.Unpriced > 0 {
		names := make([]string, 0, len(u.NoPrice))
		for _, n := range u.NoPrice {
			names = append(names, shown(n, 60))
		}
		of := ""
		if len(names) > 0 {
			of = ", to " + strings.Join(names, ", ")
		}
		notes = append(notes, fmt.Sprintf("? No price is known for %s of %s requests%s. They are not in the cost; pricing in the configuration sets one.", thousands(u.Total.Unpriced), thousands(u.Total.Requests), of))
	}
	if u.Total.Estimated > 0 {
		notes = append(notes, fmt.Sprintf("Estimated are the tokens of %s of %s requests, whose providers told none.", thousands(u.Total.Estimated), thousands(u.Total.Requests)))
	}
	if u.UsageFile {
		notes = append(notes, "Days that the journal has no more are from usage.json: their models are the resolved ones, and tiers are not known.")
	}
	for i, n := range notes {
		if i == 0 {
			n = "\n" + n
		}
		if _, err := fmt.Fprintln(w, n); err != nil {
			return err
		}
	}
	return nil
}
