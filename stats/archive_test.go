package stats

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// fullDays has n days of a journal and the day after them.
func fullDays(t *testing.T, seed uint64, n, lines int) *ledger {
	l := newLedger(t, seed)
	for range n {
		l.append(lines)
		l.day = l.day.AddDate(0, 0, 1)
	}
	l.append(1)
	return l
}

func (l *ledger) path(date, suffix string) string { return filepath.Join(l.dir, date+suffix) }

func (l *ledger) pack(date string) {
	l.t.Helper()
	if err := (&packer{ctx: l.t.Context(), dir: l.dir, date: date}).pack(); err != nil {
		l.t.Fatal(err)
	}
}

// check compares the whole journal, both ways, and what a start folds in.
func (l *ledger) check(what string) {
	l.t.Helper()
	r := NewReader(l.data)
	lines, _, err := r.Requests(l.t.Context(), Filter{}, len(l.entries)+9, "")
	if err != nil {
		l.t.Fatal(err)
	}
	var got, each []string
	for _, line := range slices.Backward(lines) {
		got = append(got, string(line))
	}
	sameLines(l.t, what+": newest first", got, l.want(Filter{}))
	if err := r.Each(l.t.Context(), Filter{}, func(_ string, rec *Record) error {
		each = append(each, string(bytes.TrimSpace(rec.appendLine(nil))))
		return nil
	}); err != nil {
		l.t.Fatal(err)
	}
	sameLines(l.t, what+": each", each, l.want(Filter{}))
	want := newAggregate()
	for i := range l.entries {
		want.add(l.entries[i].date, &l.entries[i].Record)
	}
	s := open(l.t, l.data, l.day)
	s.journal.close()
	if got := s.agg.totals(Range{"", "9"}); !reflect.DeepEqual(got, want.totals(Range{"", "9"})) {
		l.t.Fatalf("%s: folded in %+v", what, got.Total)
	}
}

func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// A crash before any change of the folder neither loses nor doubles a line, and the next start ends the work.
func TestCrashWhileCompressing(t *testing.T) {
	l := fullDays(t, 1, 1, 120)
	day := "2026-03-01"
	copies := map[string]string{}
	order := []string{}
	copyNow := func(step string) {
		name := fmt.Sprintf("%d %s", len(order), filepath.Base(step))
		to := t.TempDir()
		if err := os.CopyFS(to, os.DirFS(l.data)); err != nil {
			t.Fatal(err)
		}
		copies[name] = to
		order = append(order, name)
	}
	p := packer{ctx: t.Context(), dir: l.dir, date: day, step: copyNow}
	if err := p.pack(); err != nil {
		t.Fatal(err)
	}
	copyNow("end")
	if len(order) < 7 {
		t.Fatalf("only %q", order)
	}
	for _, name := range order {
		c := *l
		c.data, c.dir = copies[name], filepath.Join(copies[name], journalsName)
		c.check(name)
		s := open(t, c.data, c.day.AddDate(0, 0, 1))
		if err := s.pack(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.journal.close()
		want := []string{day + indexSuffix, day + packedSuffix, "2026-03-02.jsonl", "2026-03-03.jsonl"}
		if got := files(t, c.dir); !slices.Equal(got, want) {
			t.Errorf("%s: %q", name, got)
		}
		c.check(name + ", compressed")
	}
}

// Where both files of a day are there the plain one counts, also for who goes on writing: it may be the longer one, since
// a compressed day that is made plain again is both for a moment.
func TestPlainFileCounts(t *testing.T) {
	l := fullDays(t, 10, 1, 50)
	l.day = at("2026-03-02T00:00:00Z")
	os.Remove(l.path("2026-03-03", journalSuffix)) // the second is the newest
	l.entries = slices.DeleteFunc(l.entries, func(e entry) bool { return e.date == "2026-03-03" })
	l.append(20)
	plain, err := os.ReadFile(l.path("2026-03-02", journalSuffix))
	if err != nil {
		t.Fatal(err)
	}
	l.pack("2026-03-02")
	os.WriteFile(l.path("2026-03-02", journalSuffix), plain, 0o600)
	l.append(5)
	l.check("both") // also opens it
	l.append(5)
	l.check("both, longer")
}

// What a crash left of temporary files is removed, and nothing else.
func TestTemporaryFilesAreRemoved(t *testing.T) {
	l := newLedger(t, 1)
	for _, name := range []string{"2026-01-01.jsonl.gz.tmp", "2026-01-01.index.tmp", "2026-01-01.jsonl.tmp", "notes.tmp", "2026-01-01.txt"} {
		os.WriteFile(filepath.Join(l.dir, name), []byte("x"), 0o600)
	}
	s := open(t, l.data, l.day)
	if err := s.pack(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := files(t, l.dir), []string{"2026-01-01.txt", "2026-03-01.jsonl", "notes.tmp"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// The gzip file is one to every program, readable by its owner only, and its index leads to each block.
func TestCompressedFile(t *testing.T) {
	l := fullDays(t, 2, 1, 300)
	plain, err := os.ReadFile(l.path("2026-03-01", journalSuffix))
	if err != nil {
		t.Fatal(err)
	}
	l.pack("2026-03-01")
	f, err := os.Open(l.path("2026-03-01", packedSuffix))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(z); err != nil || !bytes.Equal(text, plain) {
		t.Fatalf("%d bytes, want %d, %v", len(text), len(plain), err)
	}
	for _, suffix := range []string{packedSuffix, indexSuffix} {
		if info, err := os.Stat(l.path("2026-03-01", suffix)); err != nil || info.Mode().Perm() != 0o600 && runtime.GOOS != "windows" {
			t.Errorf("%s: %v, %v", suffix, info.Mode(), err)
		}
	}
	d, err := openDay(l.dir, "2026-03-01", newQuery(Filter{}))
	if err != nil || !d.indexed || len(d.blocks) < 4 {
		t.Fatalf("%d blocks, %v", len(d.blocks), err)
	}
	defer d.close()
	for _, b := range d.blocks {
		m := newMembers()
		m.reset(d.file, d.size, b.packed, b.start)
		text, err := io.ReadAll(io.LimitReader(m, b.end-b.start))
		if err != nil || !bytes.Equal(text, plain[b.start:b.end]) || text[len(text)-1] != '\n' {
			t.Errorf("block at %d: %d bytes, %v", b.start, len(text), err)
		}
	}
}

// A trace look-up reads few blocks.
func TestIndexLeadsToFewBlocks(t *testing.T) {
	l := fullDays(t, 3, 1, 600)
	l.pack("2026-03-01")
	all, read := 0, 0
	for i := range l.entries {
		if l.entries[i].date != "2026-03-01" {
			continue
		}
		d, err := openDay(l.dir, "2026-03-01", newQuery(Filter{Trace: l.entries[i].Trace}))
		if err != nil || !d.indexed || len(d.blocks) == 0 {
			t.Fatalf("%d blocks, %v", len(d.blocks), err)
		}
		read += len(d.blocks) - 1
		all += 600 * 9 << 10 / blockText
		d.close()
	}
	if read*50 > all {
		t.Errorf("%d blocks are read for nothing, of %d", read, all)
	}
	d, err := openDay(l.dir, "2026-03-01", newQuery(Filter{From: at("2026-03-20T00:00:00Z")}))
	if err != nil || !d.indexed || len(d.blocks) != 0 {
		t.Errorf("%d blocks for another time, %v", len(d.blocks), err)
	}
	d.close()
}

// A last line that a crash cut gets its line end; an empty day stays one.
func TestOddDays(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "\n": "\n", `{"outcome":"ok"}`: "{\"outcome\":\"ok\"}\n", `{"outcome":"o`: "{\"outcome\":\"o\n",
		strings.Repeat("z", 3*maxLine): strings.Repeat("z", 3*maxLine) + "\n",
	} {
		l := newLedger(t, 1)
		os.WriteFile(l.path("2026-02-01", journalSuffix), []byte(text), 0o600)
		l.pack("2026-02-01")
		if err := unpack(l.dir, "2026-02-01"); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(l.path("2026-02-01", journalSuffix)); err != nil || string(got) != want {
			t.Errorf("%.20q became %.20q, %v", text, got, err)
		}
	}
}

// The day that is written to is compressed neither, nor yesterday; where the clock has stepped back, the newest file is
// plain again before it is appended to.
func TestOnlyOldDaysAreCompressed(t *testing.T) {
	dir, start := t.TempDir(), at("2026-03-05T12:00:00Z")
	s := open(t, dir, start)
	for n := range 5 {
		s.Add(record(start.AddDate(0, 0, n-4), fmt.Sprint(n))) // all in the file of the fifth
		s.Add(record(start.AddDate(0, 0, n), fmt.Sprint("later ", n)))
	}
	now := start.AddDate(0, 0, 4)
	s.now = func() time.Time { return now }
	if err := s.pack(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"2026-03-05.index", "2026-03-05.jsonl.gz", "2026-03-06.index", "2026-03-06.jsonl.gz", "2026-03-07.index", "2026-03-07.jsonl.gz", "2026-03-08.jsonl", "2026-03-09.jsonl"}
	if got := files(t, s.journal.dir); !slices.Equal(got, want) {
		t.Fatalf("%q", got)
	}
	s.save()
	s.journal.close()
	for _, name := range []string{"journal/2026-03-08.jsonl", "journal/2026-03-09.jsonl", "usage.json"} {
		os.Remove(filepath.Join(dir, name))
	}
	s = open(t, dir, start.AddDate(0, 0, -1)) // the newest is the compressed seventh
	s.Add(record(start, "back"))
	want = append(want[:4], "2026-03-07.jsonl")
	if got := files(t, s.journal.dir); !slices.Equal(got, want) {
		t.Fatalf("%q", got)
	}
	if err := s.pack(t.Context()); err != nil { // nothing is old now
		t.Fatal(err)
	}
	if got := files(t, s.journal.dir); !slices.Equal(got, want) {
		t.Fatalf("%q", got)
	}
	lines, _, err := s.Reader().Requests(t.Context(), Filter{}, 9, "")
	if err != nil || len(lines) != 8 || !strings.Contains(string(lines[0]), `"trace":"back"`) {
		t.Errorf("%s, %v", lines, err)
	}
}

// While nothing is asked, the file that is open stays plain however old it is.
func TestOpenFileStaysPlain(t *testing.T) {
	start := at("2026-03-05T12:00:00Z")
	s := open(t, t.TempDir(), start)
	s.Add(record(start, "1"))
	s.now = func() time.Time { return start.AddDate(0, 0, 9) }
	if err := s.pack(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := files(t, s.journal.dir); !slices.Equal(got, []string{"2026-03-05.jsonl"}) {
		t.Errorf("%q", got)
	}
}

// prune deletes all files of a day.
func TestPruneOfCompressedDays(t *testing.T) {
	l := fullDays(t, 7, 3, 5)
	l.pack("2026-03-01")
	l.pack("2026-03-02")
	s, err := Open(Options{Dir: l.data, JournalDays: 3, UsageDays: 400}, &disk{}, func() time.Time { return l.day }, quiet)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"2026-03-02.index", "2026-03-02.jsonl.gz", "2026-03-03.jsonl", "2026-03-04.jsonl"}
	if got := files(t, s.journal.dir); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// The position in usage.json stays right when its day is compressed.
func TestFoldAfterCompressing(t *testing.T) {
	l := fullDays(t, 8, 1, 100)
	l.append(30)
	s := open(t, l.data, l.day)
	s.save()
	s.journal.close()
	l.append(40)
	l.day = l.day.AddDate(0, 0, 1)
	l.append(10)
	l.pack("2026-03-01")
	l.pack("2026-03-02") // the one that usage.json names
	for _, index := range []bool{true, false} {
		if !index {
			os.Remove(l.path("2026-03-02", indexSuffix))
		}
		l.check(fmt.Sprint("with an index: ", index))
	}
}

// Compressing begins after the start and goes on after midnight, and ends with the program.
func TestRunCompresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s, err := Open(Options{Dir: dir, JournalDays: 62, UsageDays: 400}, &disk{}, time.Now, quiet)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { s.Run(ctx); close(done) }()
		for range 4 {
			s.Add(record(time.Now(), "x"))
			time.Sleep(24 * time.Hour)
		}
		synctest.Wait()
		var days []string
		for n := range 4 {
			days = append(days, time.Now().AddDate(0, 0, n-4).Format(dateForm))
		}
		want := []string{days[0] + indexSuffix, days[0] + packedSuffix, days[1] + indexSuffix, days[1] + packedSuffix, days[2] + indexSuffix, days[2] + packedSuffix, days[3] + journalSuffix}
		if got := files(t, s.journal.dir); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		cancel()
		<-done
	})
}

// An end of the program while a day is compressed leaves the plain file and nothing else.
func TestCompressingIsCut(t *testing.T) {
	l := fullDays(t, 9, 1, 100)
	before := files(t, l.dir)
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	p := packer{ctx: ctx, dir: l.dir, date: "2026-03-01", step: func(string) {
		if n++; n == 3 {
			cancel()
		}
	}}
	if err := p.pack(); err == nil {
		t.Error("no error")
	}
	if got := files(t, l.dir); !slices.Equal(got, before) {
		t.Errorf("%q", got)
	}
}

// The end of a line that is too long to be ours is no line, wherever it is cut.
func TestEndOfALongLineIsNoLine(t *testing.T) {
	for _, before := range []int{0, 1000, blockText - 1} {
		for _, length := range []int{maxLine, 2 * maxLine, 3*maxLine - before} {
			l := newLedger(t, 1)
			inside := string(record(l.day, "inside").appendLine(nil))
			text := strings.Repeat("\n", before) + strings.Repeat("z", length) + inside + string(record(l.day, "after").appendLine(nil))
			os.WriteFile(l.path("2026-02-01", journalSuffix), []byte(text), 0o600)
			for _, packed := range []bool{false, true} {
				if packed {
					l.pack("2026-02-01")
				}
				n := 0
				if err := NewReader(l.data).Each(t.Context(), Filter{Model: "m"}, func(_ string, r *Record) error {
					if n++; r.Trace != "after" {
						t.Errorf("%d before, %d long, compressed %t: %q is no line", before, length, packed, r.Trace)
					}
					return nil
				}); err != nil || n == 0 {
					t.Errorf("%d before, %d long, compressed %t: %d lines, %v", before, length, packed, n, err)
				}
			}
		}
	}
}
