package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"coding-proxy/stats"
)

// damages are what of the journal could not be read, by day.
type damages map[string]stats.Damage

// add keeps the most that was found of a day: it may be read more than once.
func (d damages) add(found stats.Damage) {
	was := d[found.Date]
	d[found.Date] = stats.Damage{Date: found.Date, Lines: max(was.Lines, found.Lines), Parts: max(was.Parts, found.Parts)}
}

// texts tell of each day.
func (d damages) texts() (all []string) {
	for _, date := range slices.Sorted(maps.Keys(d)) {
		var parts []string
		for _, p := range []struct {
			n    int
			what string
		}{{d[date].Lines, "lines"}, {d[date].Parts, "compressed parts"}} {
			switch {
			case p.n == 1:
				parts = append(parts, "1 "+strings.TrimSuffix(p.what, "s"))
			case p.n > 1:
				parts = append(parts, thousands(int64(p.n))+" "+p.what)
			}
		}
		all = append(all, fmt.Sprintf("of the journal of %s cannot be read, and is missing here: %s", date, strings.Join(parts, ", ")))
	}
	return all
}
