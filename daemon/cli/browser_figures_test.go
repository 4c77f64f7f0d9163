//go:build unix

package cli_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// shownValue is a value as a page shows it: where it is in the API's document, and what it is.
type shownValue struct {
	Path, Kind, Value, Text, Title string
}

// shownValues reads what a page has marked.
const shownValues = `[...document.querySelectorAll("[data-f], [data-share]")].map((e) => ({
  path: e.dataset.f ?? e.dataset.share,
  kind: e.dataset.share ? "share" : e.tagName === "DATA" ? e.className.split(" ")[0] : e.tagName === "TIME" ? "time" : e.tagName === "BDI" ? "name" : "word",
  value: e.getAttribute("value") ?? e.dataset.v ?? e.getAttribute("datetime"),
  text: e.textContent, title: e.title,
}))`

// checkFigures compares all that the page shows with the API, and all that the API says with the page.
func (p *tab) checkFigures(t *testing.T, doc any) {
	t.Helper()
	sumDays(doc)
	var values []shownValue
	p.run(t, shownValues, &values)
	on := map[string]bool{}
	for _, v := range values {
		on[v.Path] = true
		if problem := v.compare(doc); problem != "" {
			t.Errorf("%s: the page shows %q (%s), but %s", v.Path, v.Text, v.Value, problem)
		}
	}
	leaves(doc, "", func(path string, value any) {
		if !on[path] && !unshown(path, value, lookup(doc, "from") == lookup(doc, "to")) {
			t.Errorf("%s: the API says %v, the page does not show it", path, value)
		}
	})
}

// sumDays adds up each day's models as "sum": that is what the page shows of a day.
func sumDays(doc any) {
	days, _ := lookup(doc, "days").([]any)
	for _, day := range days {
		models, _ := lookup(day, "models").(map[string]any)
		sum := map[string]int64{}
		cost := 0.0
		for _, model := range models {
			leaves(model, "", func(name string, value any) {
				if name == "cost_usd" {
					usd, _ := value.(json.Number)
					f, _ := usd.Float64()
					cost = math.Round((cost+f)*1e10) / 1e10
					return
				}
				n, err := strconv.ParseInt(fmt.Sprint(value), 10, 64)
				if err != nil {
					return
				}
				sum[name] += n
				switch name {
				case "input_tokens", "output_tokens", "cache_creation_tokens", "cache_read_tokens":
					sum["tokens"] += n
				}
			})
		}
		all := map[string]any{}
		for name, n := range sum {
			all[name] = json.Number(strconv.FormatInt(n, 10))
		}
		if cost > 0 {
			all["cost_usd"] = json.Number(strconv.FormatFloat(cost, 'f', -1, 64))
		}
		day.(map[string]any)["sum"] = all
	}
}

// compare says what is wrong with the value, "" when it is the API's.
func (v shownValue) compare(doc any) string {
	api := lookup(doc, v.Path)
	switch v.Kind {
	case "n":
		n, _ := api.(json.Number)
		if api == nil {
			n = "0" // absent means 0
		}
		if n.String() != v.Value || v.Title != v.Value || strings.ReplaceAll(v.Text, ",", "") != v.Value || !groupedWell(v.Text) {
			return fmt.Sprintf("the API says %v", api)
		}
	case "d":
		n, _ := api.(json.Number)
		if api == nil {
			n = "0"
		}
		a, err := n.Float64()
		b, err2 := strconv.ParseFloat(v.Value, 64)
		if err != nil || err2 != nil || a != b || v.Text == "" {
			return fmt.Sprintf("the API says %v", api)
		}
		if strings.HasSuffix(v.Text, "%") && v.Text != strconv.FormatFloat(100*a, 'f', 1, 64)+"%" {
			return fmt.Sprintf("it should be %.1f%%", 100*a)
		}
	case "share":
		figure := func(name string) float64 {
			n, _ := lookup(doc, v.Path+"."+name).(json.Number)
			f, _ := n.Float64() // absent means 0
			return f
		}
		read := figure("cache_read_tokens")
		if want := strconv.FormatFloat(100*read/(read+figure("input_tokens")+figure("cache_creation_tokens")), 'f', 1, 64) + "%"; v.Text != want {
			return "it should be " + want
		}
	case "time":
		a, err := time.Parse(time.RFC3339Nano, fmt.Sprint(api))
		b, err2 := time.Parse(time.RFC3339Nano, v.Value)
		if !strings.Contains(fmt.Sprint(api), "T") { // a day
			if fmt.Sprint(api) != v.Value {
				return fmt.Sprintf("the API says %v", api)
			}
			break
		}
		slack := time.Duration(0)
		if strings.HasSuffix(v.Path, "runs_out") {
			slack = time.Minute + browserPatience // it is extrapolated from now
		}
		if err != nil || err2 != nil || a.Sub(b).Abs() > slack || !strings.Contains(v.Text, b.In(a.Location()).Format("15:04:05")) {
			return fmt.Sprintf("the API says %v", api)
		}
	default:
		if fmt.Sprint(api) != v.Value || v.Text == "" {
			return fmt.Sprintf("the API says %v", api)
		}
	}
	return ""
}

// groupedWell reports whether there is a comma before each three digits.
func groupedWell(text string) bool {
	parts := strings.Split(text, ",")
	return len(parts[0]) <= 3 && !slices.ContainsFunc(parts[1:], func(s string) bool { return len(s) != 3 })
}

// lookup finds a value by its path: names of members and indices.
func lookup(doc any, path string) any {
	for name := range strings.SplitSeq(path, ".") {
		switch v := doc.(type) {
		case map[string]any:
			doc = v[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			doc = v[i]
		default:
			return nil
		}
	}
	return doc
}

// leaves calls f for all values that are neither objects nor lists.
func leaves(doc any, path string, f func(string, any)) {
	join := func(name string) string { return strings.TrimPrefix(path+"."+name, ".") }
	switch v := doc.(type) {
	case map[string]any:
		for name, value := range v {
			leaves(value, join(name), f)
		}
	case []any:
		for i, value := range v {
			leaves(value, join(strconv.Itoa(i)), f)
		}
	default:
		f(path, doc)
	}
}

// unshown are the values that a page has no need of, each for a reason.
func unshown(path string, value any, oneDay bool) bool {
	if value == nil || value == "" { // nothing to show
		return true
	}
	last := path[strings.LastIndexByte(path, '.')+1:]
	switch {
	case path == "now", path == "window", path == "to": // the clock and the marked link say them; to: of a single day from does
		return true
	case strings.Contains(path, ".models.") && strings.HasPrefix(path, "days."): // a day's sum is shown
		return true
	case strings.HasPrefix(path, "days."): // where there is more than one
		return oneDay
	case strings.Contains(path, ".protocols."), last == "enabled": // state says the latter
		return true
	case last == "age_seconds": // goes on meanwhile; seen is shown
		return true
	case last == "state" && value == "healthy": // of a key's or caller's limit: only what is not gets a word
		return strings.Contains(path, ".keys.") || strings.HasPrefix(path, "callers.")
	case last == "expired": // a badge where it is
		return value == false
	case last == "week_used", last == "week_budget", last == "budget": // 0 = none
		return fmt.Sprint(value) == "0" || last == "week_used"
	}
	return false
}

// TestBrowserFiguresCanFail shows that the comparison finds what it is for.
func TestBrowserFiguresCanFail(t *testing.T) {
	doc := map[string]any{"n": json.Number("1234"), "w": "cooling", "t": "2026-01-02T03:04:05Z"}
	for _, v := range []shownValue{
		{"n", "n", "1235", "1,235", "1235"}, {"n", "n", "1234", "1234", "1234"}, {"n", "n", "1234", "1,234", ""}, {"n", "n", "1234", "1,243", "1234"},
		{"w", "word", "ready", "ready", ""}, {"w", "word", "cooling", "", ""}, {"x", "word", "cooling", "cooling", ""},
		{"t", "time", "2026-01-02T03:04:06Z", "03:04:06", ""}, {"t", "time", "2026-01-02T03:04:05Z", "03:04:06", ""}, {"n", "d", "1234.5", "1", ""}, {"n", "share", "1", "1%", ""},
	} {
		if v.compare(doc) == "" {
			t.Errorf("%+v passes", v)
		}
	}
	if v := (shownValue{"n", "n", "1234", "1,234", "1234"}); v.compare(doc) != "" {
		t.Error(v.compare(doc))
	}
}
