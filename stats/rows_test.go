package stats

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// groupings are all that usage can be asked for, but for their order.
func groupings() (all [][]string) {
	words := Groupings()
	for set := 1; set < 1<<len(words); set++ {
		var by []string
		for i, w := range words {
			if set>>i&1 == 1 {
				by = append(by, w)
			}
		}
		all = append(all, by)
	}
	return all
}

// rowsOf reads the journal as the usage command does.
func rowsOf(t *testing.T, dir string, days Range, by []string) *Rows {
	t.Helper()
	rows := NewRows(days, by)
	err := NewReader(dir).Each(context.Background(), Filter{}, func(date string, r *Record) error {
		rows.Add(date, r)
		return nil
	})
	if err == nil {
		_, err = rows.AddAggregate(dir, "")
	}
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// random is any request that a journal may have.
func random(rnd *rand.Rand, ts time.Time, n int) *Record {
	pick := func(words ...string) string { return words[rnd.IntN(len(words))] }
	r := &Record{
		TS: ts, Trace: fmt.Sprintf("%016x", n), Caller: pick("laptop", "ci", "笔记本", ""), Requested: pick("opus", "sonnet", "=1+1"), Resolved: pick("opus", "glm-5.1", ""),
		UpstreamModel: pick("", "glm-5.1-air", "opus"), Tier: pick("first", "second", ""), Key: pick("k1", "k2", ""), Outcome: pick(Outcomes()...),
		InputTokens: rnd.Int64N(1000), OutputTokens: rnd.Int64N(1000), CacheCreationTokens: rnd.Int64N(9), CacheReadTokens: rnd.Int64N(99),
		Estimated: rnd.IntN(9) == 0, DurationMS: rnd.Int64N(5000), CostUSD: float64(rnd.IntN(64)) / 64,
	}
	for range rnd.IntN(3) {
		r.Attempts = append(r.Attempts, Attempt{Tier: r.Tier, Key: pick("k1", "k2"), Outcome: "ok"})
	}
	return r
}

// The total of any grouping is what the pages show for the same days, also where the clocks change and where the journal
// begins later than the statistics.
func TestRowsAreThePages(t *testing.T) {
	for _, c := range []struct {
		zone string
		now  string // the last day
	}{{"UTC", "2026-03-31T23:00:00Z"}, {"Europe/Berlin", "2026-03-30T12:00:00+02:00"}, {"America/Havana", "2026-11-03T12:00:00-05:00"}} {
		z, dir, rnd := zone(t, c.zone), t.TempDir(), rand.New(rand.NewPCG(1, 2))
		now := at(c.now).In(z)
		s := open(t, dir, now.AddDate(0, 0, -8))
		for n := range 500 {
			s.Add(random(rnd, now.Add(time.Duration(n-500)*20*time.Minute), n)) // seven days
		}
		s.save()
		old, err := s.journal.names()
		if err != nil || len(old) < 7 {
			t.Fatalf("%v, %v", old, err)
		}
		for _, name := range old[:2] { // as after journal_days
			if err := os.Remove(filepath.Join(dir, journalsName, name)); err != nil {
				t.Fatal(err)
			}
		}
		for _, days := range []int{1, 3, 6, 9} {
			span := LastDays(now, days)
			want := s.Totals(span).Total
			var callers Figures
			for date, d := range s.agg.days {
				for _, f := range d.callers {
					if span.Has(date) {
						callers.Add(f)
					}
				}
			}
			for _, by := range groupings() {
				rows, want := rowsOf(t, dir, span, by), want
				if rows.ofCallers() {
					want = callers
				}
				var sum Figures
				for _, r := range rows.Rows() {
					sum.Add(r.Figures)
				}
				if rows.Total() != want || sum != want {
					t.Errorf("%s, %d days by %v:\n%+v\nrows\n%+v\nwant\n%+v", c.zone, days, by, rows.Total(), sum, want)
				}
			}
		}
		if f := rowsOf(t, dir, LastDays(now, 9), []string{ByDay}).Rows(); len(f) < 7 || f[0].Day >= f[1].Day {
			t.Errorf("%s: days %+v", c.zone, f)
		}
	}
}

// What usage.json does not tell is named so.
func TestRowsOfTheUsageFile(t *testing.T) {
	dir := t.TempDir()
	text := `{"version":2,"keys":{"k1":{"m":{"2026-03-01":{"requests":2,"input_tokens":5},"2026-03-02":{"requests":9}}},"(legacy)":{"m":{"2026-03-02":{"requests":4}}}},
		"request_records":{"laptop":{"2026-03-01":{"requests":3},"2026-03-02":{"requests":8}}}}`
	file := filepath.Join(dir, "usage.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, journalsName), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, journalsName, "2026-03-02.jsonl.gz"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"2026-02-01.jsonl.bak", "2026-02-02.index", "2026-02-03.txt"} { // no journal's
		if err := os.WriteFile(filepath.Join(dir, journalsName, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ by, want string }{
		{"day,tier,key,model", "2026-03-01/(unknown)/k1/m/(unknown)/:2 2026-03-02/(unknown)/(legacy)/m/(unknown)/:4"},
		{"day,caller", "2026-03-01/////laptop:3"},
		{"key,caller", "//k1///(unknown):2 //(legacy)///(unknown):4"},
		{"day", "2026-03-01/////:2 2026-03-02/////:4"},
	} {
		rows := NewRows(Range{"2026-03-01", "2026-03-02"}, strings.Split(c.by, ","))
		added, err := rows.AddAggregate(dir, file)
		if err != nil || !added {
			t.Fatal(added, err)
		}
		var got []string
		for _, r := range rows.Rows() {
			got = append(got, strings.Join([]string{r.Day, r.Tier, r.Key, r.Requested, r.Upstream, r.Caller}, "/")+fmt.Sprintf(":%d", r.Requests))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v", c.by, got)
		}
	}
	rows := NewRows(Range{"2026-03-01", "2026-03-02"}, []string{ByDay})
	for file, text := range map[string]string{"newer.json": `{"version":3}`, "cut.json": `{"version":2,"keys":{`} {
		file = filepath.Join(dir, file)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if added, err := rows.AddAggregate(dir, file); added || err == nil {
			t.Errorf("%s: %t, %v", file, added, err)
		}
	}
	if added, err := rows.AddAggregate(t.TempDir(), ""); added || err != nil {
		t.Errorf("no file: %t, %v", added, err)
	}
}

// Names that clients choose do not fill the memory, and nothing is lost of the sums.
func TestRowsAreBounded(t *testing.T) {
	rows := NewRows(Range{"2026-03-01", "2026-03-02"}, []string{ByDay, ByModel})
	rows.most = 100
	long := strings.Repeat("é", 4000)
	for n := range 1000 {
		r := &Record{Requested: fmt.Sprintf("m%d", n), Resolved: "m", Outcome: OutcomeOK, InputTokens: 1}
		if n == 0 {
			r.Requested = long
		}
		rows.Add("2026-03-01", r)
	}
	all := rows.Rows()
	if len(all) != 101 || rows.Total().Requests != 1000 {
		t.Fatalf("%d rows, %d requests", len(all), rows.Total().Requests)
	}
	i := slices.IndexFunc(all, func(r Row) bool { return r.Requested == other })
	if i < 0 || all[i].InputTokens != 900 || all[i].Day != "2026-03-01" || all[i].Key != "" {
		t.Errorf("%+v", all)
	}
	if !slices.ContainsFunc(all, func(r Row) bool {
		return strings.HasPrefix(r.Requested, "éé") && len(r.Requested) <= maxName+3 && strings.HasSuffix(r.Requested, "é…")
	}) {
		t.Error("a long name is not cut at a character")
	}
}

// Local answers and other days are not counted. Without days the most tokens come first.
func TestRowsLeaveOut(t *testing.T) {
	rows := NewRows(Range{"2026-03-01", "2026-03-01"}, []string{ByModel, ByCaller})
	rows.Add("2026-03-01", &Record{Requested: "b", Resolved: "b", Outcome: OutcomeOK, Caller: "c"})
	rows.Add("2026-03-01", &Record{Requested: "a", Resolved: "a", Outcome: OutcomeOK, OutputTokens: 1})
	rows.Add("2026-03-01", &Record{Requested: "a", Resolved: "a", Outcome: OutcomeLocal, OutputTokens: 1})
	rows.Add("2026-03-02", &Record{Requested: "a", Resolved: "a", Outcome: OutcomeOK, OutputTokens: 1})
	all := rows.Rows()
	if len(all) != 2 || all[0].Requested != "a" || all[0].OutputTokens != 1 || all[1].Caller != "c" {
		t.Errorf("%+v", all)
	}
}

// A day that is deleted between the journal and the usage file is counted once.
func TestRowsOfADayThatIsDeleted(t *testing.T) {
	dir, now := t.TempDir(), at("2026-03-01T12:00:00Z")
	s := open(t, dir, now)
	for d := range 3 {
		s.Add(record(now.AddDate(0, 0, d), "x"))
	}
	s.save()
	for _, early := range []bool{true, false} { // before it is read, or after
		gone := filepath.Join(dir, journalsName, now.Format(dateForm)+journalSuffix)
		text, err := os.ReadFile(gone)
		if err != nil {
			t.Fatal(err)
		}
		if early {
			os.Remove(gone)
		}
		rows := NewRows(Range{"2026-03-01", "2026-03-03"}, []string{ByDay})
		if err := NewReader(dir).Each(t.Context(), Filter{}, func(date string, r *Record) error { rows.Add(date, r); return nil }); err != nil {
			t.Fatal(err)
		}
		os.Remove(gone)
		if _, err := rows.AddAggregate(dir, ""); err != nil || rows.Total().Requests != 3 {
			t.Errorf("deleted early: %t: %d requests, want 3, %v", early, rows.Total().Requests, err)
		}
		os.WriteFile(gone, text, 0o600)
	}
}
