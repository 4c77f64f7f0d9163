package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func testLog(t *testing.T, path string, most int64) *LogFile {
	t.Helper()
	l := &LogFile{path: path, most: most, kept: logKept, rename: os.Rename}
	if err := l.open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// logLines reads the logs, the oldest first. Each line must be whole, each file bounded.
func logLines(t *testing.T, path string, most int64) (lines []string) {
	t.Helper()
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) > 1+logKept {
		t.Errorf("%v, %v", err, files)
	}
	for n := logKept; n >= 0; n-- {
		name := path
		if n > 0 {
			name += "." + strconv.Itoa(n)
		}
		data, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if int64(len(data)) > most {
			t.Errorf("%s has %d bytes, more than %d", name, len(data), most)
		}
		if len(data) > 0 && data[len(data)-1] != '\n' {
			t.Errorf("%s ends within a line", name)
		}
		for line := range bytes.Lines(data) {
			lines = append(lines, strings.TrimSuffix(string(line), "\n"))
		}
	}
	return lines
}

const (
	logWriters = 8
	logEach    = 5000
)

// flood writes logEach lines from each of logWriters at once.
func flood(w *LogFile) {
	log := slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
			return slog.Attr{}
		}
		return a
	}}))
	var all sync.WaitGroup
	for writer := range logWriters {
		all.Go(func() {
			for n := range logEach {
				log.Info("line", "writer", writer, "n", n, "end", true)
			}
		})
	}
	all.Wait()
}

// counts reads lines of floods, and returns the numbers of each writer in their order.
func counts(t *testing.T, lines []string) [logWriters][]int {
	t.Helper()
	var got [logWriters][]int
	for _, line := range lines {
		var writer, n int
		if _, err := fmt.Sscanf(line, "msg=line writer=%d n=%d end=true", &writer, &n); err != nil || !strings.HasSuffix(line, " end=true") {
			t.Fatalf("a torn line: %q", line)
		}
		got[writer] = append(got[writer], n)
	}
	return got
}

// checkWhole demands every line of a flood, once and in order.
func checkWhole(t *testing.T, lines []string) {
	t.Helper()
	for writer, numbers := range counts(t, lines) {
		if len(numbers) != logEach {
			t.Errorf("writer %d: %d lines", writer, len(numbers))
		}
		for want, n := range numbers {
			if n != want {
				t.Fatalf("writer %d: line %d stands where %d should", writer, n, want)
			}
		}
	}
}

func TestLogRotation(t *testing.T) {
	const most = 300 << 10 // 40,000 lines of 36 bytes are five such files
	path := filepath.Join(t.TempDir(), "proxy.log")
	flood(testLog(t, path, most))
	lines := logLines(t, path, most)
	checkWhole(t, lines)
	if _, err := os.Stat(path + ".4"); err != nil {
		t.Errorf("it was hardly rotated: %v", err)
	}
}

// TestLogRotationDropsTheOldest keeps the end of what was written, without gaps.
func TestLogRotationDropsTheOldest(t *testing.T) {
	const most = 20 << 10
	path := filepath.Join(t.TempDir(), "proxy.log")
	flood(testLog(t, path, most))
	lines := logLines(t, path, most)
	if len(lines) < logKept*most/40 {
		t.Errorf("only %d lines are left", len(lines))
	}
	for writer, numbers := range counts(t, lines) {
		for i, n := range numbers {
			if want := logEach - len(numbers) + i; n != want {
				t.Fatalf("writer %d: line %d stands where %d should", writer, n, want)
			}
		}
	}
}

// TestLogGoesOn is about files that cannot be renamed, as on Windows when somebody reads them.
func TestLogGoesOn(t *testing.T) {
	const most = 300 << 10
	path := filepath.Join(t.TempDir(), "proxy.log")
	l := testLog(t, path, most)
	var tries atomic.Int64
	var busy atomic.Bool
	busy.Store(true)
	l.rename = func(from, to string) error {
		tries.Add(1)
		if busy.Load() && from == path {
			return fs.ErrPermission
		}
		return os.Rename(from, to)
	}
	flood(l)
	checkWhole(t, logLines(t, path, 4<<20))
	if n := tries.Load(); n < 10 || n > 1000 {
		t.Errorf("%d tries to rename", n)
	}
	busy.Store(false)
	flood(l)
	if _, err := os.Stat(path + ".1"); err != nil {
		t.Errorf("never rotated: %v", err)
	}
	lines := logLines(t, path, 4<<20)
	for writer, numbers := range counts(t, lines) {
		if len(numbers) != 2*logEach {
			t.Errorf("writer %d: %d lines", writer, len(numbers))
		}
	}
}

// TestLogWithoutPlace is about a new file that cannot be opened: the old one goes on.
func TestLogWithoutPlace(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the old file must be closed before it is renamed")
	}
	path := filepath.Join(t.TempDir(), "proxy.log")
	l := testLog(t, path, 100<<10)
	l.rename = func(from, to string) error {
		err := os.Rename(from, to)
		if from == path && err == nil {
			err = os.Mkdir(path, 0o700)
		}
		return err
	}
	flood(l)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	checkWhole(t, logLines(t, path, 4<<20))
}

// TestLogOfTwo is about two processes that write one log.
func TestLogOfTwo(t *testing.T) {
	const most = 600 << 10
	path := filepath.Join(t.TempDir(), "proxy.log")
	var both sync.WaitGroup
	for range 2 {
		l := testLog(t, path, most)
		both.Go(func() { flood(l) })
	}
	both.Wait()
	for writer, numbers := range counts(t, logLines(t, path, 3*most)) { // each fills it by its own count, and on while the other rotates
		if len(numbers) != 2*logEach {
			t.Errorf("writer %d: %d lines", writer, len(numbers))
		}
	}
}

func TestLogContinues(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "proxy.log")
	for range 2 {
		l, err := OpenLogFile(path)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(l, "line")
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if _, err := l.Write(nil); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("a write after the end: %v", err)
		}
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "line\nline\n" {
		t.Errorf("%q, %v", data, err)
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestLogHasTheCrash looks for what the runtime prints when the program ends badly, after a rotation.
func TestLogHasTheCrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "proxy.log")
	c := helper(t, "crash")
	c.Env = append(c.Env, "HELPER_LOG="+path)
	if output, err := c.CombinedOutput(); err == nil {
		t.Fatalf("it did not crash: %s", output)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"panic: the walrus", "goroutine ", "helperCrash"} {
		if !bytes.Contains(data, []byte(want)) {
			t.Errorf("no %q in the log:\n%s", want, data)
		}
	}
	if _, err := os.Stat(path + ".1"); err != nil {
		t.Error(err)
	}
}

func helperCrash(path string) {
	l := &LogFile{path: path, most: 1000, kept: logKept, rename: os.Rename, crash: true}
	if err := l.open(); err != nil {
		panic(err)
	}
	for n := range 100 {
		fmt.Fprintln(l, "a line before the crash", n)
	}
	go func() { panic("the walrus") }()
	select {}
}
