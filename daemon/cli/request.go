package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"coding-proxy/stats"
)

// longest is how wide a name may be where one request is told.
const longest = 120

// teller writes one request in lines of a name and a text.
type teller struct {
	w   io.Writer
	err error
}

func (t *teller) printf(format string, args ...any) {
	if t.err == nil {
		_, t.err = fmt.Fprintf(t.w, format, args...)
	}
}

// line writes the parts that are not empty.
func (t *teller) line(name string, parts ...string) {
	var there []string
	for _, p := range parts {
		if p != "" {
			there = append(there, p)
		}
	}
	if len(there) > 0 {
		t.printf("%-10s %s\n", name, strings.Join(there, ", "))
	}
}

// word prints a name, after what it is; nothing where there is none.
func word(before, name string) string {
	if name == "" {
		return ""
	}
	return before + shown(name, longest)
}

// tellRequest tells all that the journal has of a request: what was asked, the way it took, what came of it.
func tellRequest(w io.Writer, r *stats.Record) error {
	t := &teller{w: w}
	t.line("trace", shown(r.Trace, longest))
	t.line("ended", moment(r.TS), "after "+period(r.DurationMS), firstByte(r))
	t.line("caller", word("", r.Caller), word("group ", r.Group), word("client ", r.Client), word("session ", r.Session))
	how := "plain"
	if r.Stream {
		how = "streamed"
	}
	t.line("asked", cmp.Or(word("", r.Requested), "no model"), word("in ", r.Dialect), how, thousands(r.RequestBytes)+" bytes")
	if r.Resolved != r.Requested {
		t.line("resolved", word("to ", r.Resolved))
	}
	if r.UpstreamModel != r.Resolved {
		t.line("sent", word("as ", r.UpstreamModel))
	}
	t.way(r)
	dropped := make([]string, len(r.Dropped))
	for i, d := range r.Dropped {
		dropped[i] = shown(d, longest)
	}
	t.line("dropped", dropped...)
	t.line("answer", strings.TrimSpace(fmt.Sprintf("%d %s", r.Status, shown(r.Outcome, longest))), word("", r.ErrorType), word("stop reason ", r.StopReason), thousands(r.ResponseBytes)+" bytes")
	t.line("served by", word("", r.Key), word("of tier ", r.Tier), word("provider ", r.Provider), word("in ", r.Upstream))
	t.tokens(r)
	return t.err
}

func firstByte(r *stats.Record) string {
	if r.FirstByteMS == 0 {
		return ""
	}
	return "first byte after " + period(r.FirstByteMS)
}

// way tells who was passed over and who was tried.
func (t *teller) way(r *stats.Record) {
	if r.Outcome == stats.OutcomeLocal {
		t.line("the way", "answered by the proxy itself, no provider asked")
		return
	}
	if len(r.Skipped)+len(r.Attempts) == 0 {
		t.line("the way", "no key was looked for")
		return
	}
	t.printf("the way\n")
	for _, s := range r.Skipped {
		if s.Tier == "" && s.Key == "" { // a limit of the caller's
			t.printf("  refused      %s\n", shown(s.Gate, longest))
			continue
		}
		t.printf("  passed over  %s: %s\n", keyOf(s.Tier, s.Key), shown(s.Gate, longest))
	}
	for i, a := range r.Attempts {
		status := "no answer"
		if a.Status != 0 {
			status = fmt.Sprint(a.Status)
		}
		said := shown(a.Outcome, longest)
		if a.Reason != "" {
			said += ": " + shown(a.Reason, longest)
		}
		t.printf("  attempt %-4d %s: %s, %s, %s\n", i+1, keyOf(a.Tier, a.Key), status, said, period(a.MS))
	}
}

func keyOf(tier, key string) string {
	switch {
	case key == "":
		return "tier " + shown(tier, longest)
	case tier == "":
		return shown(key, longest)
	}
	return shown(key, longest) + " of tier " + shown(tier, longest)
}

func (t *teller) tokens(r *stats.Record) {
	if r.InputTokens+r.OutputTokens+r.CacheCreationTokens+r.CacheReadTokens == 0 {
		return
	}
	parts := []string{thousands(r.InputTokens) + " in", thousands(r.OutputTokens) + " out"}
	for _, p := range []struct {
		n    int64
		what string
	}{{r.CacheCreationTokens, "written to the cache"}, {r.CacheReadTokens, "read from it"}, {r.ReasoningTokens, "of the output for reasoning"}} {
		if p.n > 0 {
			parts = append(parts, thousands(p.n)+" "+p.what)
		}
	}
	if r.Estimated {
		parts = append(parts, "estimated: the provider told none")
	}
	t.line("tokens", parts...)
	if r.Unpriced {
		t.line("cost", "unknown: no price is known for this model (pricing in the configuration sets one)")
	} else {
		t.line("cost", dollars(r.CostUSD)+" USD")
	}
}
