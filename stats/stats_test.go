package stats

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"
)

// disk is Files without ceremony; fail makes its writes fail.
type disk struct{ fail error }

func (d *disk) Write(path string, data []byte) error {
	if d.fail != nil {
		return d.fail
	}
	return os.WriteFile(path, data, 0o600)
}

func (d *disk) SetAside(path string) (string, error) {
	return path + ".bad", os.Rename(path, path+".bad")
}

var quiet = slog.New(slog.DiscardHandler)

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t
}

// open opens statistics at a fixed time.
func open(t *testing.T, dir string, now time.Time) *Stats {
	t.Helper()
	s, err := Open(Options{Dir: dir, JournalDays: 62, UsageDays: 400}, &disk{}, func() time.Time { return now }, quiet)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func record(ts time.Time, trace string) *Record {
	return &Record{
		TS: ts, Trace: trace, Caller: "laptop", Resolved: "m", Key: "k1", Outcome: OutcomeOK, Status: 200,
		Attempts: []Attempt{{Key: "k0", Outcome: "rate_limit"}, {Key: "k1", Outcome: "ok"}}, InputTokens: 10, OutputTokens: 5, CacheReadTokens: 7, DurationMS: 3,
	}
}

// The hand-written line is what encoding/json makes of the struct.
func TestLineEqualsEncodingJSON(t *testing.T) {
	full := Record{}
	v := reflect.ValueOf(&full).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString("x\n\"\\<é\u2028\x00\x7f\u009b2J\u202e\U000e0001 笔" + v.Type().Field(i).Name)
		case reflect.Int, reflect.Int64:
			f.SetInt(int64(i) - 3)
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Float64:
			f.SetFloat(0.125)
		}
	}
	full.TS = at("2026-11-29T23:59:59+01:00").Add(123456789)
	full.Attempts = []Attempt{{"t", "k", 429, "rate_limit", "r", 5}, {Key: "k2", Outcome: "ok"}}
	full.Skipped = []Skip{{"t", "k", "cooling"}, {Gate: "busy"}, {Key: "k", Gate: "g"}}
	full.Dropped = []string{"a", "b\n"}
	for _, r := range []Record{full, {TS: full.TS}, *record(full.TS, "t1")} {
		line := r.appendLine(nil)
		if n := bytes.Count(line, []byte("\n")); n != 1 || line[len(line)-1] != '\n' {
			t.Errorf("%d line ends in %q", n, line)
		}
		want, err := json.Marshal(r)
		if err != nil || string(line) != string(Harmless(want))+"\n" {
			t.Errorf("line\n%swant\n%s\n%v", line, want, err)
		}
		var back Record
		if err := json.Unmarshal(line, &back); err != nil || !reflect.DeepEqual(back, r) {
			t.Errorf("read back: %+v, %v", back, err)
		}
		if i := bytes.IndexFunc(line[:len(line)-1], func(c rune) bool { return !unicode.IsPrint(c) }); i >= 0 {
			t.Errorf("%q is not harmless", line[i:])
		}
	}
}

func TestHarmless(t *testing.T) {
	if got := string(Harmless([]byte("{\"a\x7f\u009b\u202e\U000e0001é\":1}\n"))); got != `{"a\u007f\u009b\u202e\udb40\udc01é":1}`+"\n" {
		t.Error(got)
	}
}

func TestAddThenRestart(t *testing.T) {
	dir, now := t.TempDir(), at("2026-11-29T12:00:00Z")
	s := open(t, dir, now)
	for i := range 5 {
		s.Add(record(now, fmt.Sprint(i)))
	}
	s.save()
	for i := range 3 { // after the save: only the journal has them
		s.Add(record(now, fmt.Sprint(5+i)))
	}
	want := s.Totals(LastDays(now, 1))
	if want.Total.Requests != 8 || want.Total.Failovers != 8 || want.Total.InputTokens != 80 || want.Total.CacheReadTokens != 56 {
		t.Fatalf("%+v", want.Total)
	}
	for range 2 { // a killed process: no stop, no save
		s = open(t, dir, now)
		if got := s.Totals(LastDays(now, 1)); !reflect.DeepEqual(got, want) {
			t.Fatalf("after a restart\n%+v\nwant\n%+v", got, want)
		}
	}
	s.save()
	os.RemoveAll(filepath.Join(dir, journalsName)) // the aggregate stands alone
	if got := open(t, dir, now).Totals(LastDays(now, 1)); !reflect.DeepEqual(got, want) {
		t.Fatalf("without the journal %+v", got)
	}
}

func TestRebuiltFromTheJournal(t *testing.T) {
	dir, now := t.TempDir(), at("2026-11-29T12:00:00Z")
	s := open(t, dir, now)
	s.Add(record(now, "1"))
	s.save()
	for n := range 20 { // torn at 20 places (CFG-007)
		path := filepath.Join(dir, "usage.json")
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data[:len(data)*n/20], 0o600); err != nil {
			t.Fatal(err)
		}
		s = open(t, dir, now)
		if got := s.Totals(LastDays(now, 1)).Total.Requests; got != 1 {
			t.Fatalf("torn at %d/20: %d requests", n, got)
		}
		if _, err := os.Stat(path + ".bad"); err != nil {
			t.Fatalf("torn at %d/20: not set aside: %v", n, err)
		}
		s.save()
	}
}

func TestNewerVersionIsRefusedAndUntouched(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "usage.json")
	text := `{"version": 3, "keys": {}}`
	os.WriteFile(path, []byte(text), 0o600)
	if _, err := Open(Options{Dir: dir}, &disk{}, time.Now, quiet); err == nil || !strings.Contains(err.Error(), "newer") {
		t.Fatalf("%v", err)
	}
	if got, _ := os.ReadFile(path); string(got) != text {
		t.Errorf("the file is now %s", got)
	}
}

func TestOlderFiles(t *testing.T) {
	now := at("2026-11-29T12:00:00Z")
	for _, tc := range []struct{ name, text, key string }{
		{"version 1 at the top", `{"m": {"2026-11-29": {"requests": 2, "input_tokens": 10, "output_tokens": 5, "cache_creation_input_tokens": 3, "cache_read_tokens": 4}}, "note": "x"}`, legacyKey},
		{"version 1 below models", `{"version": 1, "models": {"m": {"2026-11-29": {"count": 2, "input": 10, "output": 5, "cache_creation": 3, "cache_read": 4}}}}`, legacyKey},
		{"version 2 of reference 2", `{"version": 2, "keys": {"k": {"m": {"2026-11-29": {"requests": 2, "input_tokens": 10, "output_tokens": 5, "cache_creation_tokens": 3, "cache_read_tokens": 4}}}}, "request_records": {}}`, "k"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			os.WriteFile(filepath.Join(dir, "usage.json"), []byte(tc.text), 0o600)
			s := open(t, dir, now)
			want := Figures{Requests: 2, InputTokens: 10, OutputTokens: 5, CacheCreationTokens: 3, CacheReadTokens: 4}
			if got := s.KeyWindows(now)[tc.key]; got == nil || got.Today != want {
				t.Fatalf("%+v", got)
			}
			s.Add(record(now, "1"))
			s.save()
			s = open(t, dir, now)
			if got := s.Totals(LastDays(now, 1)).Total.Requests; got != 3 {
				t.Errorf("%d requests after the take-over", got)
			}
		})
	}
}

// A crash may cut the last line, or leave rubbish: it is skipped, and the next line stands alone.
func TestCutLastLine(t *testing.T) {
	now := at("2026-11-29T12:00:00Z")
	for _, tail := range []string{`{"ts":"2026-11-2`, "\x00\x00\x00", strings.Repeat("x", 2*maxLine), `{"outcome":""}`, "\n\n"} {
		dir := t.TempDir()
		s := open(t, dir, now)
		s.Add(record(now, "1"))
		path := filepath.Join(dir, journalsName, "2026-11-29.jsonl")
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		f.WriteString(tail)
		f.Close()
		s = open(t, dir, now)
		s.Add(record(now, "2"))
		if got := open(t, dir, now).Totals(LastDays(now, 1)).Total.Requests; got != 2 {
			t.Errorf("tail %.20q: %d requests, want 2", tail, got)
		}
	}
}

func TestDays(t *testing.T) {
	dir, now := t.TempDir(), at("2026-11-29T23:59:59Z")
	s := open(t, dir, now)
	s.Add(record(now, "1"))
	s.Add(record(now.Add(2*time.Second), "2")) // the next day
	s.Add(record(now, "3"))                    // the clock has stepped back: never an earlier file
	read := func(name string) string {
		b, _ := os.ReadFile(filepath.Join(dir, journalsName, name))
		return string(b)
	}
	if a, b := read("2026-11-29.jsonl"), read("2026-11-30.jsonl"); strings.Count(a, "\n") != 1 || strings.Count(b, "\n") != 2 {
		t.Fatalf("first day\n%ssecond day\n%s", a, b)
	}
	check := func(s *Stats) {
		t.Helper()
		if a, b := s.Totals(Range{"2026-11-29", "2026-11-29"}).Total.Requests, s.Totals(Range{"2026-11-30", "2026-11-30"}).Total.Requests; a != 1 || b != 2 {
			t.Fatalf("%d and %d requests", a, b)
		}
	}
	check(s)
	check(open(t, dir, now))
	s.save()
	check(open(t, dir, now))
}

func TestOldDaysAreForgotten(t *testing.T) {
	dir, start := t.TempDir(), at("2026-01-01T12:00:00Z")
	s := open(t, dir, start)
	s.Add(record(start, "1"))
	s.save()
	later := start.AddDate(0, 3, 0)
	s = open(t, dir, later)
	if days, _ := journalDays(s.journal.dir); len(days) != 1 || days[0] != "2026-04-01" {
		t.Errorf("journal has %v", days)
	}
	if got := s.Totals(LastDays(later, 400)).Total.Requests; got != 1 {
		t.Errorf("%d requests: the aggregate is kept longer", got)
	}
	if got := open(t, dir, start.AddDate(2, 0, 0)).Totals(Range{"", "9"}).Total.Requests; got != 0 {
		t.Errorf("%d requests after two years", got)
	}
}

// While the disk refuses, requests go on, one complaint a minute is logged, and nothing is lost when there is room
// again (CFG-008).
func TestDiskRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		var log bytes.Buffer
		files := &disk{}
		s, err := Open(Options{Dir: dir, JournalDays: 62, UsageDays: 400}, files, time.Now, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		s.Add(record(time.Now(), "0"))
		s.save()
		before, _ := os.ReadFile(filepath.Join(dir, "usage.json"))
		working := s.journal.file
		broken, err := os.Open(working.Name()) // read-only: writes fail
		if err != nil {
			t.Fatal(err)
		}
		s.journal.file, files.fail = broken, errors.New("no space left")
		for i := range 20 {
			s.Add(record(time.Now(), fmt.Sprint(1+i)))
			s.save()
		}
		if n := strings.Count(log.String(), "level=ERROR"); n != 1 {
			t.Errorf("%d complaints in one minute:\n%s", n, log.String())
		}
		time.Sleep(2 * time.Minute)
		s.Add(record(time.Now(), "21"))
		if n := strings.Count(log.String(), "level=ERROR"); n != 2 {
			t.Errorf("%d complaints after two minutes", n)
		}
		if after, _ := os.ReadFile(filepath.Join(dir, "usage.json")); !bytes.Equal(before, after) {
			t.Error("usage.json was touched")
		}
		if got := s.Totals(LastDays(time.Now(), 2)).Total.Requests; got != 22 {
			t.Errorf("%d requests in memory", got)
		}
		s.journal.file, files.fail = working, nil // room again
		s.save()
		broken.Close()
		data, _ := os.ReadFile(working.Name())
		if n := bytes.Count(data, []byte("\n")); n != 22 {
			t.Errorf("%d lines in the journal", n)
		}
		s, err = Open(Options{Dir: dir, JournalDays: 62, UsageDays: 400}, files, time.Now, quiet)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Totals(LastDays(time.Now(), 2)).Total.Requests; got != 22 {
			t.Errorf("%d requests after a restart", got)
		}
		if m := s.Metrics(); m.Faults != 0 || m.Lost != 0 {
			t.Errorf("%d faults, %d lost", m.Faults, m.Lost)
		}
	})
}

func TestRunSaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s, err := Open(Options{Dir: dir, JournalDays: 62, UsageDays: 400}, &disk{}, time.Now, quiet)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { s.Run(ctx); close(done) }()
		saved := func() int {
			synctest.Wait()
			data, err := os.ReadFile(filepath.Join(dir, "usage.json"))
			if err != nil {
				return 0
			}
			a, _, err := decodeUsage(data)
			if err != nil {
				t.Fatal(err)
			}
			return int(a.totals(Range{"", "9"}).Total.Requests)
		}
		s.Add(record(time.Now(), "x"))
		time.Sleep(29 * time.Second)
		if n := saved(); n != 0 {
			t.Errorf("%d after 29 s", n)
		}
		time.Sleep(2 * time.Second)
		if n := saved(); n != 1 {
			t.Errorf("%d after 31 s", n)
		}
		time.Sleep(6 * time.Second)
		for range saveRecords {
			s.Add(record(time.Now(), "x"))
		}
		if n := saved(); n != 1+saveRecords {
			t.Errorf("%d after %d records", n, saveRecords)
		}
		for range saveRecords {
			s.Add(record(time.Now(), "x"))
		}
		if n := saved(); n != 1+saveRecords {
			t.Errorf("%d right after: not more often than once in 5 s", n)
		}
		time.Sleep(6 * time.Second)
		if n := saved(); n != 1+2*saveRecords {
			t.Errorf("%d after 6 s more", n)
		}
		s.Add(record(time.Now(), "x"))
		cancel()
		<-done
		if n := saved(); n != 2+2*saveRecords {
			t.Errorf("%d after the stop", n)
		}
	})
}

func TestWindows(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err) // the zones are in the test's own program
	}
	day := func(y int, m time.Month, d int) time.Time { return time.Date(y, m, d, 0, 30, 0, 0, berlin) }
	for _, tc := range []struct {
		now  time.Time
		want Windows[Range]
	}{
		{day(2026, 11, 29), Windows[Range]{Range{"2026-11-29", "2026-11-29"}, Range{"2026-11-23", "2026-11-29"}, Range{"2026-11-01", "2026-11-29"}, Range{"2026-11-16", "2026-11-22"}, Range{"2026-10-01", "2026-10-31"}}},
		{day(2026, 3, 31), Windows[Range]{Range{"2026-03-31", "2026-03-31"}, Range{"2026-03-30", "2026-03-31"}, Range{"2026-03-01", "2026-03-31"}, Range{"2026-03-23", "2026-03-29"}, Range{"2026-02-01", "2026-02-28"}}},
		{day(2027, 1, 1), Windows[Range]{Range{"2027-01-01", "2027-01-01"}, Range{"2026-12-28", "2027-01-01"}, Range{"2027-01-01", "2027-01-01"}, Range{"2026-12-21", "2026-12-27"}, Range{"2026-12-01", "2026-12-31"}}},
		{day(2028, 3, 1), Windows[Range]{Range{"2028-03-01", "2028-03-01"}, Range{"2028-02-28", "2028-03-01"}, Range{"2028-03-01", "2028-03-01"}, Range{"2028-02-21", "2028-02-27"}, Range{"2028-02-01", "2028-02-29"}}},
	} {
		if got := WindowsAt(tc.now); got != tc.want {
			t.Errorf("%s\ngot  %v\nwant %v", tc.now, got, tc.want)
		}
	}
	if got := LastDays(day(2026, 3, 29), 1); got != (Range{"2026-03-29", "2026-03-29"}) { // USE-014
		t.Errorf("one day is %v", got)
	}
	if got := LastDays(day(2026, 3, 1), 2); got != (Range{"2026-02-28", "2026-03-01"}) {
		t.Errorf("two days are %v", got)
	}
}

// Names that clients choose do not fill the memory (PRF-005).
func TestNamesAreBounded(t *testing.T) {
	s, now := open(t, t.TempDir(), at("2026-11-29T12:00:00Z")), at("2026-11-29T12:00:00Z")
	for i := range 3 * maxModels {
		r := record(now, "x")
		r.Resolved = fmt.Sprint("model-", i)
		s.Add(r)
	}
	got := s.Totals(LastDays(now, 1))
	if len(got.Models) > maxModels+1 || got.Total.Requests != 3*maxModels {
		t.Errorf("%d models, %d requests", len(got.Models), got.Total.Requests)
	}
}

// Each caller is counted, however many there are: their limits are.
func TestCallersAreCounted(t *testing.T) {
	s, now := open(t, t.TempDir(), at("2026-11-29T12:00:00Z")), at("2026-11-29T12:00:00Z")
	for i := range 2 * maxModels {
		r := record(now, "x")
		r.Caller = fmt.Sprint("caller-", i)
		s.Add(r)
	}
	got := s.CallerWindows(now)
	if last := got[fmt.Sprint("caller-", 2*maxModels-1)]; len(got) != 2*maxModels || last == nil || last.Today.Requests != 1 {
		t.Errorf("%d callers, the last %+v", len(got), last)
	}
}

func TestLocalAnswersCostNothing(t *testing.T) {
	s, now := open(t, t.TempDir(), at("2026-11-29T12:00:00Z")), at("2026-11-29T12:00:00Z")
	r := record(now, "x")
	r.Outcome = OutcomeLocal
	s.Add(r)
	if got := s.Totals(LastDays(now, 1)).Total; got != (Figures{}) || len(s.CallerWindows(now)) != 0 {
		t.Errorf("%+v", got)
	}
}

// A snapshot does not change with later records.
func TestSnapshot(t *testing.T) {
	a := newAggregate()
	a.add("2026-11-29", record(time.Time{}, ""))
	s := a.snapshot()
	a.add("2026-11-29", record(time.Time{}, ""))
	a.add("2026-11-30", record(time.Time{}, ""))
	if n := s.totals(Range{"", "9"}).Total.Requests; n != 1 {
		t.Errorf("the snapshot has %d requests", n)
	}
}

func FuzzDecodeUsage(f *testing.F) {
	f.Add([]byte(`{"version": 2, "through": {"file": "2026-11-29.jsonl", "offset": 3}, "keys": {"k": {"m": {"2026-11-29": {"requests": 2}}}}, "request_records": {"c": {"2026-11-29": {}}}}`))
	f.Add([]byte(`{"m": {"2026-11-29": {"requests": 2}}}`))
	f.Add([]byte(`{"version": 1, "models": {"m": {}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, _, err := decodeUsage(data)
		if err != nil {
			return
		}
		text, err := a.encode(position{})
		if err != nil {
			t.Skip() // names that are no UTF-8 become the same
		}
		b, _, err := decodeUsage(text)
		if err != nil || !reflect.DeepEqual(a.totals(Range{"", "9"}).Total, b.totals(Range{"", "9"}).Total) {
			t.Fatalf("%v: %s", err, text)
		}
	})
}

func BenchmarkAdd(b *testing.B) {
	dir := b.TempDir()
	s, err := Open(Options{Dir: dir, JournalDays: 62, UsageDays: 400}, &disk{}, time.Now, quiet)
	if err != nil {
		b.Fatal(err)
	}
	r := record(time.Now(), "0123456789abcdef")
	b.ReportAllocs()
	for b.Loop() {
		s.Add(r)
	}
}
