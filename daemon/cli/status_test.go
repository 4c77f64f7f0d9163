package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// TestStatusShowsLimits: what providers told of their limits stands below the keys, with its age.
func TestStatusShowsLimits(t *testing.T) {
	reset := time.Date(2026, 3, 4, 12, 0, 0, 0, time.Local)
	pool, err := json.Marshal(map[string]any{"state": "tight", "tiers": []any{map[string]any{"name": "first", "state": "open", "keys": []any{
		map[string]any{"id": "a", "state": "cooling", "reason": "rate_limit", "until": reset, "upstream_limits": []any{
			map[string]any{"name": "5h", "limit": nil, "remaining": nil, "used_percent": 42.5, "status": "allowed_warning", "reset": reset, "age_seconds": 185},
			map[string]any{"name": "requests", "limit": 1000000, "remaining": 0, "used_percent": nil, "status": nil, "reset": nil, "age_seconds": 0},
			map[string]any{"name": "tokens", "remaining": 7}, map[string]any{"name": "rate", "limit": 20, "age_seconds": 7200},
		}},
		map[string]any{"id": "b", "state": "ready", "upstream_limits": []any{}},
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	(&statusReport{Pool: pool}).printPool(&out)
	want := `
The pool is tight.
  first       open
    a         cooling (rate_limit) until 2026-03-04 12:00:00
      5h        allowed_warning, 42.5% used, reset at 2026-03-04 12:00:00 (told 3m5s ago)
      requests  0 of 1000000 left (told 0s ago)
      tokens    7 left (told 0s ago)
      rate      limit 20 (told 2h0m0s ago)
    b         ready
`
	if got := strings.ReplaceAll(out.String(), "  \n", "\n"); unaligned(got) != unaligned(want) {
		t.Errorf("got%s\nwant%s", got, want)
	}
}

// unaligned takes the alignment out, but not the indentation.
func unaligned(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		body := strings.TrimLeft(line, " ")
		lines = append(lines, line[:len(line)-len(body)]+strings.Join(strings.Fields(body), " "))
	}
	return strings.Join(lines, "\n")
}
