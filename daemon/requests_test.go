package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coding-proxy/proxy/demo"
	"coding-proxy/stats"
)

// journalLines are the lines on disk, oldest first.
func (i *instance) journalLines() (lines []string) {
	i.t.Helper()
	files, err := filepath.Glob(filepath.Join(i.dir, "journal", "*.jsonl"))
	if err != nil {
		i.t.Fatal(err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			i.t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	return lines
}

// requestsPage asks for a part of the journal.
func (i *instance) requestsPage(query url.Values) (lines []string, next *string) {
	i.t.Helper()
	r := i.ask("GET", "/api/requests?"+query.Encode(), "")
	var page struct {
		Requests []json.RawMessage
		Next     *string
	}
	if err := json.Unmarshal([]byte(r.body), &page); err != nil || r.status != http.StatusOK {
		i.t.Fatalf("%v: %d %s", query, r.status, r.body)
	}
	for _, l := range page.Requests {
		lines = append(lines, string(l))
	}
	return lines, page.Next
}

// The pages' requests are the journal's lines, byte for byte, each once, whatever the size of a page.
func TestRequestsAreTheJournal(t *testing.T) {
	t.Parallel()
	busy := demo.Step{Status: http.StatusTooManyRequests, Message: "busy"}
	_, first := provider(t, busy)
	_, second := provider(t)
	i := start(t, poolOf(poolKey(k1, first), poolKey(k2, second)), oneCaller())
	key := "x-api-key: " + requestKey
	var traces []string
	const hostile = "clear\x1b[2J <&>\u2028\u202e"
	for n, model := range []string{sonnet, opus, hostile, "通义千问", sonnet, sonnet, opus} {
		name, err := json.Marshal(model)
		if err != nil {
			t.Fatal(err)
		}
		body := strings.Replace(question("M", `"stream":`+fmt.Sprint(n%2 == 1)), `"M"`, string(name), 1)
		traces = append(traces, i.message(body, key).trace())
	}
	traces = append(traces, i.message(`{"model":`, key).trace()) // an error
	disk := i.journalLines()
	if len(disk) != len(traces) || slices.Contains(traces, "") {
		t.Fatalf("%d lines, traces %q", len(disk), traces)
	}
	slices.Reverse(disk)
	for limit := 1; limit <= len(disk)+1; limit++ {
		var walked []string
		q := url.Values{"limit": {fmt.Sprint(limit)}}
		for next := new(string); next != nil; {
			if *next != "" {
				q.Set("cursor", *next)
			}
			var lines []string
			lines, next = i.requestsPage(q)
			walked = append(walked, lines...)
			if len(lines) > limit || len(walked) > len(disk) {
				t.Fatalf("limit %d: %d lines of a page, %d in all", limit, len(lines), len(walked))
			}
		}
		if !slices.Equal(walked, disk) {
			t.Errorf("limit %d:\n%s\nwant\n%s", limit, strings.Join(walked, "\n"), strings.Join(disk, "\n"))
		}
	}
	for n, trace := range traces {
		r := i.ask("GET", "/api/requests/"+trace, "")
		if want := disk[len(disk)-1-n]; r.status != http.StatusOK || r.body != want {
			t.Errorf("%s: %d %s, want %s", trace, r.status, r.body, want)
		}
	}
	if r := i.ask("GET", "/api/requests/ffffffffffffffff", ""); r.status != http.StatusNotFound {
		t.Errorf("an unknown trace: %d %s", r.status, r.body)
	}
	for query, want := range map[string]int{
		"caller=laptop": len(disk), "caller=nobody": 0, "failed=true": 1, "outcome=ok": len(disk) - 1, "key=" + k1: 5, "model=" + opus: 2, "from=2020-01-01": len(disk),
		"to=2020-01-01": 0, "model=" + url.QueryEscape(hostile): 1, "trace=" + traces[0]: 1,
	} {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if lines, _ := i.requestsPage(q); len(lines) != want {
			t.Errorf("%s: %d lines, want %d: %s", query, len(lines), want, lines)
		}
	}
	for _, cursor := range []string{"x", "2026-03-04", "2026-03-04:-1", "2026-03-04:1:2", "../../x:0", "9999-99-99:0"} {
		if r := i.ask("GET", "/api/requests?cursor="+url.QueryEscape(cursor), ""); r.status != http.StatusBadRequest || !strings.Contains(r.body, "cursor") {
			t.Errorf("cursor %s: %d %s", cursor, r.status, r.body)
		}
	}
}

// What the usage command counts in the journal is what the pages show.
func TestUsageIsThePages(t *testing.T) {
	t.Parallel()
	_, url := provider(t, demo.Step{Status: http.StatusInternalServerError, Message: "no"})
	i := start(t, poolOf(poolKey(k1, url), poolKey(k2, url)), oneCaller())
	key := "x-api-key: " + requestKey
	for _, body := range []string{question(sonnet), question(opus, streamed), question("unknown-model"), `{"model":1}`} {
		i.message(body, key)
	}
	i.ask("POST", "/v1/messages/count_tokens", question(sonnet), version, key) // local
	var pages struct {
		From, To string
		Total    stats.Figures
	}
	r := i.ask("GET", "/api/stats?window=days:2", "")
	if err := json.Unmarshal([]byte(r.body), &pages); err != nil || pages.Total.Requests != 3 || pages.Total.Failovers != 1 {
		t.Fatalf("%v: %s", err, r.body)
	}
	for _, by := range []string{stats.ByDay, stats.ByModel, stats.ByKey, stats.ByTier} {
		rows := stats.NewRows(stats.Range{From: pages.From, To: pages.To}, []string{by})
		err := stats.NewReader(i.dir).Each(context.Background(), stats.Filter{}, func(date string, rec *stats.Record) error {
			rows.Add(date, rec)
			return nil
		})
		if err != nil || rows.Total() != pages.Total {
			t.Errorf("by %s: %v\n%+v\nwant\n%+v", by, err, rows.Total(), pages.Total)
		}
	}
}
