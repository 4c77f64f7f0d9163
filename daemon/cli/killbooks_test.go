//go:build linux

package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The books: the journal, counted here once more.

// killLine is a line of the journal.
type killLine struct {
	Trace, Caller, Key, Outcome string

	Model      string `json:"resolved_model"`
	Stream     bool
	Status     int
	Attempts   []struct{ Key string }
	Estimated  bool
	DurationMS int64 `json:"duration_ms"`
	killJournalTokens
}

// killJournalTokens are killTokens by the journal's names.
type killJournalTokens struct {
	Input         int64 `json:"input_tokens"`
	Output        int64 `json:"output_tokens"`
	CacheCreation int64 `json:"cache_creation_tokens"`
	CacheRead     int64 `json:"cache_read_tokens"`
}

// killFigures are the sums of journal lines. The models have no price, so there is no cost.
type killFigures struct {
	Requests   int64   `json:"requests"`
	Errors     int64   `json:"errors"`
	Failovers  int64   `json:"failovers"`
	Reasoning  int64   `json:"reasoning_tokens"`
	Estimated  int64   `json:"estimated"`
	Cost       float64 `json:"cost_usd"`
	DurationMS int64   `json:"duration_ms"`
	killJournalTokens
}

func (f *killFigures) add(g killFigures) {
	f.Requests += g.Requests
	f.Errors += g.Errors
	f.Failovers += g.Failovers
	f.Estimated += g.Estimated
	f.DurationMS += g.DurationMS
	f.Input += g.Input
	f.Output += g.Output
	f.CacheCreation += g.CacheCreation
	f.CacheRead += g.CacheRead
}

func (l *killLine) figures() killFigures {
	f := killFigures{Requests: 1, DurationMS: l.DurationMS, killJournalTokens: l.killJournalTokens}
	if l.Outcome != "ok" && l.Outcome != "cancelled" {
		f.Errors = 1
	}
	keys := make(map[string]bool)
	for _, a := range l.Attempts {
		keys[a.Key] = true
	}
	if len(keys) > 1 {
		f.Failovers = 1
	}
	if l.Estimated {
		f.Estimated = 1
	}
	return f
}

// killPlace is what figures are summed by.
type killPlace struct{ day, key, model, caller string }

// killBooks has the whole journal. It is read while nothing is in flight.
type killBooks struct {
	data    string
	offsets map[string]int64    // by file: how far it was read
	lines   map[string]killLine // by trace
	sums    map[killPlace]killFigures
	torn    int // lines that a kill cut short
}

func newKillBooks(data string) *killBooks {
	return &killBooks{data, make(map[string]int64), make(map[string]killLine), make(map[killPlace]killFigures), 0}
}

func (b *killBooks) files(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(b.data, "journal", "*.jsonl"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no journal: %v", err)
	}
	return names
}

// read reads on in the journal.
func (b *killBooks) read(t *testing.T) {
	t.Helper()
	for _, name := range b.files(t) {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.Seek(b.offsets[name], io.SeekStart); err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		b.offsets[name] += int64(len(text))
		day := strings.TrimSuffix(filepath.Base(name), ".jsonl")
		for line := range bytes.Lines(text) {
			b.add(t, day, line)
		}
	}
}

func (b *killBooks) add(t *testing.T, day string, text []byte) {
	t.Helper()
	var l killLine
	if err := json.Unmarshal(text, &l); err != nil {
		b.torn++
		return
	}
	if _, again := b.lines[l.Trace]; again || l.Trace == "" {
		t.Errorf("trace %q stands twice in the journal", l.Trace)
	}
	b.lines[l.Trace] = l
	place := killPlace{day, l.Key, l.Model, l.Caller}
	sum := b.sums[place]
	sum.add(l.figures())
	b.sums[place] = sum
}

// by sums the figures under the names that name gives to places; "" is left out.
func (b *killBooks) by(name func(killPlace) string) map[string]killFigures {
	sums := make(map[string]killFigures)
	for place, f := range b.sums {
		if n := name(place); n != "" {
			sum := sums[n]
			sum.add(f)
			sums[n] = sum
		}
	}
	return sums
}

// killSame compares figures under names.
func killSame(t *testing.T, what string, got, want map[string]killFigures) {
	t.Helper()
	names := make(map[string]bool)
	for _, m := range []map[string]killFigures{got, want} {
		for name := range maps.Keys(m) {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if got[name] != want[name] {
			t.Errorf("%s, %s:\n%+v, the journal sums up to\n%+v", what, name, got[name], want[name])
		}
	}
}

// compareUsageFile compares usage.json, as it is after a graceful stop.
func (b *killBooks) compareUsageFile(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(b.data, "usage.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Through struct {
			File   string
			Offset int64
		}
		Keys           map[string]map[string]map[string]killFigures
		RequestRecords map[string]map[string]killFigures `json:"request_records"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	last := slices.Max(b.files(t))
	if file.Through.File != filepath.Base(last) || file.Through.Offset != b.offsets[last] {
		t.Errorf("usage.json has read through %+v, the journal ends at %s, %d", file.Through, filepath.Base(last), b.offsets[last])
	}
	keys, callers := make(map[string]killFigures), make(map[string]killFigures)
	for key, models := range file.Keys {
		for model, days := range models {
			for day, f := range days {
				keys[key+" "+model+" "+day] = f
			}
		}
	}
	for caller, days := range file.RequestRecords {
		for day, f := range days {
			callers[caller+" "+day] = f
		}
	}
	killSame(t, "usage.json, keys", keys, b.by(func(p killPlace) string { return p.key + " " + p.model + " " + p.day }))
	killSame(t, "usage.json, callers", callers, b.by(func(p killPlace) string { return p.caller + " " + p.day }))
}

// compareAPI compares what the proxy tells.
func (b *killBooks) compareAPI(ctx context.Context, t *testing.T, url string) {
	t.Helper()
	var all struct {
		Total  killFigures
		Models []struct {
			Model string
			killFigures
		}
		Days []struct {
			Date   string
			Models map[string]killFigures
		}
	}
	killGet(ctx, t, url+"/api/stats?window=days:2", &all)
	models, days := make(map[string]killFigures), make(map[string]killFigures)
	for _, m := range all.Models {
		models[m.Model] = m.killFigures
	}
	for _, d := range all.Days {
		for model, f := range d.Models {
			days[d.Date+" "+model] = f
		}
	}
	killSame(t, "/api/stats", map[string]killFigures{"total": all.Total}, b.by(func(killPlace) string { return "total" }))
	killSame(t, "/api/stats, models", models, b.by(func(p killPlace) string { return p.model }))
	killSame(t, "/api/stats, days", days, b.by(func(p killPlace) string { return p.day + " " + p.model }))

	b.compareWindows(ctx, t, url+"/api/pool/usage", func(p killPlace) string { return p.key })
	b.compareWindows(ctx, t, url+"/api/request-keys/usage", func(p killPlace) string { return p.caller })
}

// compareWindows compares the figures of keys or callers over the five windows.
func (b *killBooks) compareWindows(ctx context.Context, t *testing.T, url string, name func(killPlace) string) {
	t.Helper()
	type owner struct {
		ID, Code string
		Windows  map[string]killFigures
	}
	var answer struct {
		Now           time.Time
		Keys, Callers []owner
	}
	killGet(ctx, t, url, &answer)
	got := make(map[string]map[string]killFigures)
	for _, o := range append(answer.Keys, answer.Callers...) {
		for window, f := range o.Windows {
			if got[window] == nil {
				got[window] = make(map[string]killFigures)
			}
			got[window][o.ID+o.Code] = f
		}
	}
	week := func(d time.Time) string { y, w := d.ISOWeek(); return fmt.Sprint(y, w) }
	month := func(d time.Time) string { return d.Format("2006-01") }
	now := answer.Now
	for window, has := range map[string]func(day time.Time) bool{
		"today":      func(d time.Time) bool { return d.Format(time.DateOnly) == now.Format(time.DateOnly) },
		"week":       func(d time.Time) bool { return week(d) == week(now) },
		"month":      func(d time.Time) bool { return month(d) == month(now) },
		"last_week":  func(d time.Time) bool { return week(d) == week(now.AddDate(0, 0, -7)) },
		"last_month": func(d time.Time) bool { return month(d) == month(now.AddDate(0, 0, -now.Day())) },
	} {
		killSame(t, url+", "+window, got[window], b.by(func(p killPlace) string {
			if day, err := time.Parse(time.DateOnly, p.day); err != nil || !has(day) {
				return ""
			}
			return name(p)
		}))
	}
}

func killGet(ctx context.Context, t *testing.T, url string, into any) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s", url, response.Status)
	}
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		t.Fatalf("GET %s: %v", url, err)
	}
}
