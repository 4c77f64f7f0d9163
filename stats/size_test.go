package stats

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// sizeEnv gives the number of lines of the larger journal of TestMemoryDoesNotGrow.
const (
	sizeEnv  = "JOURNAL_LINES"
	childEnv = "JOURNAL_CHILD" // what the child process is to ask; its directory follows
)

// sizeDays is the span of the journal: the last two are plain, the others compressed.
const sizeDays = 30

// makeJournal writes a journal of n lines. Each 2000th is of the rare caller "auditor".
func makeJournal(t *testing.T, data string, n int) (oldTrace string) {
	t.Helper()
	rnd, dir := rand.New(rand.NewPCG(1, 2)), filepath.Join(data, journalsName)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	start, made := at("2026-03-01T00:00:00Z"), 0
	for day := range sizeDays {
		date := start.AddDate(0, 0, day).Format(dateForm)
		f, err := os.Create(filepath.Join(dir, date+journalSuffix))
		if err != nil {
			t.Fatal(err)
		}
		out, lines := bufio.NewWriter(f), n*(day+1)/sizeDays-made
		for i := range lines {
			r := typical(rnd, start.AddDate(0, 0, day).Add(time.Duration(i)*24*time.Hour/time.Duration(lines)), made)
			if made%2000 == 1000 {
				r.Caller = "auditor"
			}
			if made++; made == n/5 {
				oldTrace = r.Trace
			}
			out.Write(r.appendLine(nil))
		}
		if err := out.Flush(); err != nil {
			t.Fatal(err)
		}
		f.Close()
		if day < sizeDays-2 {
			if err := (&packer{ctx: t.Context(), dir: dir, date: date}).pack(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return oldTrace
}

// answer is what a child process found.
type answer struct {
	Found int
	Took  time.Duration
	CPU   time.Duration // with the start of the process
	Peak  int64         // kB
}

// readOnce reads the files' text, and does nothing with it.
func readOnce(data string) (n int, err error) {
	files, err := filepath.Glob(filepath.Join(data, journalsName, "*.jsonl*"))
	for _, path := range files {
		f, e := os.Open(path)
		if e != nil {
			return n, e
		}
		var in io.Reader = f
		if strings.HasSuffix(path, ".gz") {
			if in, e = gzip.NewReader(f); e != nil {
				return n, e
			}
		}
		m, e := io.Copy(io.Discard, in)
		f.Close()
		if e != nil {
			return n, e
		}
		n += int(m)
	}
	return n, err
}

// TestSizeChild is the child process: each question gets a fresh one, for its peak memory.
func TestSizeChild(t *testing.T) {
	what, data, child := strings.Cut(os.Getenv(childEnv), " ")
	if !child {
		t.Skip("only as a child of TestMemoryDoesNotGrow")
	}
	what, trace, _ := strings.Cut(what, "=")
	runtime.GC() // what the collector itself needs belongs to no question
	r, a, start := NewReader(data), answer{}, time.Now()
	var err error
	switch what {
	case "read":
		a.Found, err = readOnce(data)
	case "caller", "newest", "failed":
		f := map[string]Filter{"caller": {Caller: "auditor"}, "failed": {Failed: true}}[what]
		var lines []json.RawMessage
		lines, _, err = r.Requests(context.Background(), f, 50, "")
		a.Found = len(lines)
	case "trace":
		if _, err = r.Request(context.Background(), trace); err == nil {
			a.Found = 1
		}
	case "each":
		sums := map[string]Figures{}
		err = r.Each(context.Background(), Filter{From: at("2026-03-01T00:00:00Z")}, func(date string, rec *Record) error {
			sum := sums[date]
			sum.Add(rec.figures())
			sums[date] = sum
			a.Found++
			return nil
		})
	case "pack":
		p := packer{ctx: context.Background(), dir: filepath.Join(data, journalsName), date: "2026-03-29"}
		err = p.pack()
		a.Found = int(p.text)
	}
	a.Took = time.Since(start)
	if err != nil {
		t.Fatal(err)
	}
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			a.Peak, _ = strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
		}
	}
	out, _ := json.Marshal(a)
	fmt.Printf("answer %s\n", out)
}

func ask(t *testing.T, what, data string) (a answer) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestSizeChild$", "-test.v")
	cmd.Env = append(os.Environ(), childEnv+"="+what+" "+data)
	out, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if rest, ok := strings.CutPrefix(line, "answer "); ok && err == nil {
			err = json.Unmarshal([]byte(rest), &a)
		}
	}
	a.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if err != nil || a.Found == 0 {
		t.Fatalf("%s: %v\n%s", what, err, out)
	}
	return a
}

// Questions need the same memory whatever the length of the journal. JOURNAL_LINES=1000000 compares a million lines with
// 100,000: at most 1.2 times as much, or no more than reading the files needs; the times are only printed.
func TestMemoryDoesNotGrow(t *testing.T) {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("peak memory is only known on Linux")
	}
	n, most := 60_000, 1.5 // below the garbage collector's first round, garbage counts
	if text := os.Getenv(sizeEnv); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
		most = 1.2
	}
	small, large := t.TempDir(), t.TempDir()
	traces := [2]string{makeJournal(t, small, n/10), makeJournal(t, large, n)}
	var read [2]answer
	for _, what := range []string{"read", "newest", "caller", "failed", "trace", "each", "pack"} {
		var got [2]answer
		for i, data := range []string{small, large} {
			question := what
			if what == "trace" {
				question += "=" + traces[i]
			}
			if got[i] = ask(t, question, data); what == "read" {
				read[i] = got[i]
			}
		}
		growth := float64(got[1].Peak) / float64(got[0].Peak)
		show := func(i int) string {
			a := got[i]
			return fmt.Sprintf("%8s = %5.3f of reading (CPU %5.3f), peak %5d kB", a.Took.Round(100*time.Microsecond),
				float64(a.Took)/float64(read[i].Took), float64(a.CPU)/float64(read[i].CPU), a.Peak)
		}
		t.Logf("%-6s  %7d lines: %s   %7d lines: %s   memory × %.2f  (found %d)", what, n/10, show(0), n, show(1), growth, got[1].Found)
		// reading the files alone makes garbage up to the collector's next round
		if least := 1.1 * float64(read[1].Peak); growth > most && float64(got[1].Peak) > least {
			t.Errorf("%s: peak memory grows by %.2f", what, growth)
		}
	}
}
