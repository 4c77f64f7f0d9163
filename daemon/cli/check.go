package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"coding-proxy/daemon"
	"coding-proxy/daemon/config"
)

// checked is what check finds, as --json prints it.
type checked struct {
	File     string          `json:"file"`
	OK       bool            `json:"ok"`
	Problems []string        `json:"problems"`
	Warnings []string        `json:"warnings"`
	Tiers    int             `json:"tiers"`
	Keys     int             `json:"keys"`
	Live     []daemon.Tryout `json:"live,omitempty"`
}

// check says everything that is wrong with the configuration, and with --live tries each key.
func check(args []string, env Environment) int {
	fs := newFlags("check", "", "Reads the configuration and says everything that is wrong with it.", env)
	src := sourceFlags(fs, env)
	live := fs.Bool("live", false, "send one tiny request to each address of each key, too")
	asJSON := fs.Bool("json", false, "print JSON")
	if code, done := parse(fs, args, env); done {
		return code
	}
	first, _, stop := signals()
	defer stop()
	out := checked{Problems: []string{}, Warnings: []string{}}
	cfg, err := config.Load(*src)
	if err != nil {
		out.Problems = problemLines(err)
	} else {
		out.File, out.Warnings = cfg.Path, append(out.Warnings, cfg.Warnings...)
		out.Tiers, out.Keys, out.Problems = len(cfg.Pool.Tiers), len(cfg.Upstreams), append(out.Problems, incomplete(cfg)...)
	}
	out.OK = len(out.Problems) == 0
	if !*asJSON {
		out.print(env.Stdout)
	}
	if *live && cfg != nil {
		out.try(first, cfg, env.Stdout, *asJSON)
	}
	if *asJSON {
		printJSON(env.Stdout, out)
	}
	if !out.OK {
		return exitFailed
	}
	return exitDone
}

func problemLines(err error) []string {
	var problems *config.Problems
	if !errors.As(err, &problems) {
		return []string{err.Error()}
	}
	return problems.Lines()
}

// incomplete names the keys that lack their credential: the program would run without them, a check fails.
func incomplete(cfg *config.Config) (lines []string) {
	for _, t := range cfg.Pool.Tiers {
		for _, k := range t.Keys {
			if k.Disabled && k.Incomplete {
				lines = append(lines, fmt.Sprintf("key %q is disabled: %s", k.ID, k.DisabledReason))
			}
		}
	}
	return lines
}

func (c *checked) print(w io.Writer) {
	for _, line := range c.Warnings {
		fmt.Fprintf(w, "warning: %s\n", line)
	}
	for _, line := range c.Problems {
		fmt.Fprintf(w, "wrong:   %s\n", line)
	}
	switch {
	case !c.OK:
		fmt.Fprintf(w, "%d wrong\n", len(c.Problems))
	case c.File == "":
		fmt.Fprintln(w, "no configuration file: each client's own credential is passed on to Anthropic")
	default:
		fmt.Fprintf(w, "%s is good: %s, %s\n", c.File, counted(c.Tiers, "tier"), counted(c.Keys, "key"))
	}
}

// try sends the requests and tells of each as its answer comes.
func (c *checked) try(ctx context.Context, cfg *config.Config, w io.Writer, quiet bool) {
	daemon.TryKeys(ctx, cfg, func(t daemon.Tryout) {
		c.Live, c.OK = append(c.Live, t), c.OK && t.OK()
		if quiet {
			return
		}
		switch {
		case t.Skipped != "":
			fmt.Fprintf(w, "%-20s skipped: %s\n", t.Key, t.Skipped)
		case t.Status == 0:
			fmt.Fprintf(w, "%-20s failed: %s\n", t.Key, t.Error)
		default:
			fmt.Fprintf(w, "%-20s %d in %d ms, %s", t.Key, t.Status, t.MS, t.Tried())
			if words := cmp.Or(t.Error, t.Note); words != "" {
				fmt.Fprintf(w, ": %s", words)
			}
			fmt.Fprintln(w)
		}
		for _, name := range slices.Sorted(maps.Keys(t.Limits)) {
			fmt.Fprintf(w, "%-20s   %s: %s\n", "", name, t.Limits[name])
		}
	})
}

func printJSON(w io.Writer, v any) {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // a reader that is gone needs no error
}

// counted is a number of things: 1 tier, 2 tiers.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
