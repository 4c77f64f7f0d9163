package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"coding-proxy/daemon/config"
	"coding-proxy/stats"
)

const (
	fewRequests  = 20 // without --limit
	mostRequests = 10_000
	// Lines with names that somebody made long must not fill the memory.
	mostLineBytes = 64 << 20
)

// requestsAsk is what is asked of the journal.
type requestsAsk struct {
	filter         stats.Filter
	limit          int
	bytes          int // of lines at once
	follow, asJSON bool
}

// requests shows the journal: the newest requests, the last one at the bottom, or one request in detail.
func requests(args []string, env Environment) int {
	fs := newFlags("requests", " [TRACE]", "Shows the requests in the journal, the newest at the bottom, whether an instance runs or not; or with a trace one of them, attempt by attempt.", env)
	src := sourceFlags(fs, env)
	a := requestsAsk{bytes: mostLineBytes}
	fs.StringVar(&a.filter.Trace, "trace", "", "show the one request with this `id` (x-proxy-trace) in detail")
	fs.BoolVar(&a.filter.Failed, "failed", false, "only those that failed")
	fs.StringVar(&a.filter.Caller, "caller", "", "only those of the request key with this `code`")
	fs.StringVar(&a.filter.Model, "model", "", "only those whose requested, resolved or upstream model has this `name`")
	fs.StringVar(&a.filter.Key, "key", "", "only those that the key with this `id` served or was tried for")
	fs.StringVar(&a.filter.Tier, "tier", "", "only those that the tier with this `name` served or was tried for")
	fs.StringVar(&a.filter.Outcome, "outcome", "", "only those with this `outcome`: "+strings.Join(stats.Outcomes(), ", "))
	from := fs.String("from", "", "only those that ended at this `time` or later: a day (2026-03-04) or 2026-03-04T15:04:05Z")
	to := fs.String("to", "", "only those that ended before this `time`, or on this day or earlier")
	fs.IntVar(&a.limit, "limit", fewRequests, "show at most this `number`; with --follow 0 shows new ones alone")
	fs.BoolVar(&a.follow, "follow", false, "go on with new ones until Ctrl-C")
	fs.BoolVar(&a.asJSON, "json", false, "print the lines of the journal as they are")
	words, code, done := parseWords(fs, args, env, 0, 1)
	if done {
		return code
	}
	if err := consistent(fs, words); err != nil {
		fmt.Fprintf(env.Stderr, "coding-proxy requests: %v\n", err)
		return exitUsage
	}
	if len(words) > 0 {
		if a.filter.Trace != "" && a.filter.Trace != words[0] {
			fmt.Fprintln(env.Stderr, "coding-proxy requests: only one trace can be shown")
			return exitUsage
		}
		a.filter.Trace = words[0]
	}
	if err := a.settle(*from, *to); err != nil {
		fmt.Fprintf(env.Stderr, "coding-proxy requests: %v\n", err)
		return exitUsage
	}
	dir := locate(src, env)
	if absent := noJournal(dir); absent != "" {
		fmt.Fprintf(env.Stderr, "coding-proxy requests: %s%s\n", absent, stranger(src))
		return exitFailed
	}
	ctx, _, stop := signals()
	defer stop()
	lacks := damages{}
	err := a.show(ctx, stats.NewReader(dir).Telling(lacks.add), env)
	for _, text := range lacks.texts() {
		fmt.Fprintf(env.Stderr, "warning: %s\n", text)
	}
	if err != nil && ctx.Err() == nil { // Ctrl-C is an end like any other
		fmt.Fprintf(env.Stderr, "coding-proxy requests: %v\n", err)
		return exitFailed
	}
	return exitDone
}

// consistent refuses what would be passed over: a filter without a value, as of a variable that is not set, would show
// everybody's requests, and a trace is of one request, whatever else is asked for.
func consistent(fs *flag.FlagSet, words []string) (err error) {
	if slices.Contains(words, "") {
		return errors.New("the trace is empty; leave it out to ask for all")
	}
	one := len(words) > 0
	fs.Visit(func(f *flag.Flag) { one = one || f.Name == "trace" })
	fs.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "trace", "caller", "model", "key", "tier", "outcome", "from", "to":
			if f.Value.String() == "" {
				err = fmt.Errorf("--%s is empty; leave it out to ask for all", f.Name)
			}
		}
		switch f.Name {
		case "caller", "model", "key", "tier", "outcome", "from", "to", "failed", "limit":
			if one && err == nil {
				err = fmt.Errorf("a trace is of one request: it cannot be asked for with --%s", f.Name)
			}
		}
	})
	return err
}

// settle checks what is asked for.
func (a *requestsAsk) settle(from, to string) (err error) {
	f := &a.filter
	switch known := stats.Outcomes(); {
	case f.Trace != "" && !stats.IsTrace(f.Trace):
		return fmt.Errorf("%q is no trace: one has 16 digits of 0-9 and a-f", f.Trace)
	case f.Trace != "" && a.follow:
		return errors.New("a trace is of one request: there is nothing to follow")
	case f.Outcome != "" && !slices.Contains(known, f.Outcome):
		return unknownWord("outcome", f.Outcome, known)
	case a.limit < 1 && !(a.follow && a.limit == 0) || a.limit > mostRequests:
		return fmt.Errorf("--limit must be from 1 to %s", thousands(mostRequests))
	}
	f.From, f.To, err = stats.Between(from, to, time.Local)
	if err != nil {
		err = fmt.Errorf("--%w", err)
	}
	return err
}

// unknownWord refuses a word and names the nearest known one.
func unknownWord(what, word string, known []string) error {
	if near := config.Nearest(word, known); near != "" {
		return fmt.Errorf("unknown %s %q; did you mean %q?", what, word, near)
	}
	return fmt.Errorf("unknown %s %q; there are %s", what, word, strings.Join(known, ", "))
}

// noJournal says that there is no journal in a data directory, "" where there is one.
func noJournal(dir string) string {
	info, err := os.Stat(filepath.Join(dir, "journal"))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Sprintf("there is no journal in %s: no instance has run with this data directory", absolute(dir))
	case err != nil:
		return fmt.Sprintf("the journal cannot be read: %v", err)
	case !info.IsDir():
		return fmt.Sprintf("%s is no folder", filepath.Join(absolute(dir), "journal"))
	}
	return ""
}

func (a *requestsAsk) show(ctx context.Context, r *stats.Reader, env Environment) error {
	if a.filter.Trace != "" {
		return a.showOne(ctx, r, env)
	}
	end, err := r.Tail(ctx) // first, so that nothing is between what is listed and what follows
	if err != nil {
		return err
	}
	lines, err := a.newest(ctx, r, end.Cursor())
	if err != nil {
		return err
	}
	if len(lines) == 0 && !a.follow && !a.asJSON {
		fmt.Fprintln(env.Stderr, "no requests like that are in the journal")
		return nil
	}
	p := &requestPrinter{w: env.Stdout, asJSON: a.asJSON, terminal: onTerminal(env), table: newTable(requestColumns(), colours(env))}
	if a.follow {
		p.table.least(usualWidths()...)
	}
	if err := p.first(lines); err != nil {
		return err
	}
	if !a.follow {
		return nil
	}
	return end.Follow(ctx, a.filter, p.next)
}

// newest returns the newest lines before the cursor, the oldest of them first.
func (a *requestsAsk) newest(ctx context.Context, r *stats.Reader, cursor string) (all []json.RawMessage, err error) {
	for size := 0; cursor != "" && len(all) < a.limit; {
		if size > a.bytes {
			return nil, fmt.Errorf("the newest %d lines are longer than %s bytes: set --limit to less", len(all), thousands(int64(a.bytes)))
		}
		lines, next, err := r.Requests(ctx, a.filter, min(a.limit-len(all), 200), cursor)
		if err != nil {
			return nil, err
		}
		for _, l := range lines {
			size += len(l)
		}
		all, cursor = append(all, lines...), next
	}
	slices.Reverse(all)
	return all, nil
}

func (a *requestsAsk) showOne(ctx context.Context, r *stats.Reader, env Environment) error {
	line, err := r.Request(ctx, a.filter.Trace)
	if errors.Is(err, stats.ErrNoRequest) {
		return fmt.Errorf("the journal has no request with the trace %s; it may be older than what is kept (stats.journal_days)", a.filter.Trace)
	}
	if err != nil {
		return err
	}
	if a.asJSON {
		return (&requestPrinter{w: env.Stdout, terminal: onTerminal(env)}).line(line)
	}
	var rec stats.Record
	if err := json.Unmarshal(line, &rec); err != nil {
		return err
	}
	return tellRequest(env.Stdout, &rec)
}

func requestColumns() []column {
	return []column{
		{name: "time", most: 19}, {name: "trace", most: 16}, {name: "caller", most: 16}, {name: "model", most: 56}, {name: "tier/key", most: 32},
		{name: "outcome", most: 36}, {name: "tries", most: 5, right: true}, {name: "in", most: 13, right: true}, {name: "out", most: 13, right: true},
		{name: "cost USD", most: 12, right: true}, {name: "took", most: 14, right: true},
	}
}

// usualWidths are those of the columns where the requests are still to come.
func usualWidths() []int { return []int{19, 16, 8, 24, 16, 8, 5, 7, 5, 8, 6} }

// requestPrinter prints requests as they come.
type requestPrinter struct {
	w        io.Writer
	asJSON   bool
	terminal bool
	table    *table
}

// line prints a line of the journal as it is, but for what a terminal would obey.
func (p *requestPrinter) line(line []byte) error {
	if p.terminal {
		line = stats.Harmless(line)
	}
	_, err := fmt.Fprintf(p.w, "%s\n", line)
	return err
}

// first prints what is there already, in columns that are as wide as it needs.
func (p *requestPrinter) first(lines []json.RawMessage) error {
	var rows [][]cell
	for _, l := range lines {
		if p.asJSON {
			if err := p.line(l); err != nil {
				return err
			}
			continue
		}
		var rec stats.Record
		if err := json.Unmarshal(l, &rec); err != nil {
			return err
		}
		rows = append(rows, requestCells(&rec))
	}
	if p.asJSON {
		return nil
	}
	p.table.fit(rows...)
	err := p.table.head(p.w)
	for _, row := range rows {
		if err == nil {
			err = p.table.print(p.w, row)
		}
	}
	return err
}

// next prints one more.
func (p *requestPrinter) next(rec *stats.Record) error {
	if !p.asJSON {
		return p.table.print(p.w, requestCells(rec))
	}
	line, err := json.Marshal(rec) // what the journal has
	if err != nil {
		return err
	}
	return p.line(line)
}

func requestCells(r *stats.Record) []cell {
	colour := plainColour
	switch r.Outcome {
	case stats.OutcomeOK, stats.OutcomeLocal:
	case stats.OutcomeCancelled:
		colour = yellow
	default:
		colour = red
	}
	tokens := func(n int64) string {
		if r.Estimated && n > 0 {
			return "~" + thousands(n)
		}
		return thousands(n)
	}
	return []cell{
		{moment(r.TS), dim}, {r.Trace, plainColour}, {r.Caller, plainColour}, {models(r.Requested, r.UpstreamModel), plainColour},
		{joined(r.Tier, "/", r.Key), plainColour}, {strings.TrimSpace(fmt.Sprintf("%d %s %s", r.Status, r.Outcome, r.ErrorType)), colour},
		{fmt.Sprint(len(r.Attempts)), plainColour}, {tokens(r.InputTokens + r.CacheCreationTokens + r.CacheReadTokens), plainColour}, {tokens(r.OutputTokens), plainColour},
		{recordCost(r), plainColour}, {period(r.DurationMS), plainColour},
	}
}

// recordCost is what a request has cost, "?" where no price is known.
func recordCost(r *stats.Record) string {
	switch {
	case r.Unpriced:
		return "?"
	case r.CostUSD == 0:
		return ""
	}
	return dollars(r.CostUSD)
}

// models tells which model was asked for, and which one the provider was asked for.
func models(requested, upstream string) string {
	if upstream == "" || upstream == requested {
		return requested
	}
	// Each gets its half of the column, so that a long name does not hide the other.
	return shown(requested, 26) + " → " + shown(upstream, 26)
}

// joined joins what is there.
func joined(a, with, b string) string {
	if a == "" || b == "" {
		return cmp.Or(a, b)
	}
	return a + with + b
}
