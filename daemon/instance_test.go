package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"coding-proxy/daemon/store"
)

func TestParseStat(t *testing.T) {
	const rest = " 1920 1920 31998 0 -1 4194304 101 0 0 0 0 0 0 0 20 0 1 0 1201051 3133440 362 18446744073709551615"
	two := strings.Replace(rest, "20 0 1 0", "20 0 2 0", 1)
	for _, tc := range []struct {
		line        string
		want        stat
		ended, good bool
	}{
		{"1924 (cat) R" + rest, stat{"R", 1, "1201051"}, false, true},
		{"1924 (a b) S 2 (c) Z" + rest + "\n", stat{"Z", 1, "1201051"}, true, true},
		{"1924 (:)) (() S" + rest, stat{"S", 1, "1201051"}, false, true},
		{"1924 (new\nline) T" + rest, stat{"T", 1, "1201051"}, false, true},
		{"1924 () X" + rest, stat{"X", 1, "1201051"}, true, true},
		{"1924 (proxy) Z" + two, stat{"Z", 2, "1201051"}, false, true},
		{"", stat{}, false, false},
		{"1924 cat R" + rest, stat{}, false, false},
		{"1924 (cat)", stat{}, false, false},
		{"1924 (cat) R 1 1920", stat{}, false, false},
		{"1924 (cat) R" + strings.Replace(rest, "20 0 1 0", "20 0 x 0", 1), stat{}, false, false},
	} {
		s, err := parseStat(tc.line)
		if s != tc.want || s.ended() != tc.ended || (err == nil) != tc.good {
			t.Errorf("%q: %+v, ended %t, %v", tc.line, s, s.ended(), err)
		}
	}
}

func TestParsePS(t *testing.T) {
	for _, tc := range []struct {
		output, state, start string
		wrong                bool
	}{
		{output: "Ss   Mon Nov 30 02:04:29 2026    \n", state: "Ss", start: "Mon Nov 30 02:04:29 2026"},
		{output: "Z+   Tue Dec  1 02:04:29 2026\n", state: "Z+", start: "Tue Dec 1 02:04:29 2026"},
		{output: "", wrong: true},
		{output: "Ss\n", wrong: true},
		{output: "Mon Nov 30 02:04:29 2026\n", wrong: true},
	} {
		state, start, err := parsePS(tc.output)
		if state != tc.state || start != tc.start || (err != nil) != tc.wrong {
			t.Errorf("%q: %q, %q, %v", tc.output, state, start, err)
		}
	}
	for state, want := range map[string]bool{"Z": true, "Z+": true, "X": true, "x": true, "S": false, "Ss": false, "R+": false, "T": false, "": false} {
		if ended(state) != want {
			t.Errorf("state %q: ended %t", state, !want)
		}
	}
}

func TestParseInstance(t *testing.T) {
	const good = `{"pid":12,"start":"boot/34","address":"127.0.0.1:3456","token":"t","started":"2026-11-30T02:04:29Z","version":"v"}`
	for text, ok := range map[string]bool{
		good: true, " " + good + "\n": true,
		strings.Replace(good, `"pid"`, `"more":[1],"pid"`, 1): true, // of a later version
		"": false, "abc": false, "12": false, "12\n": false, "null": false, "[]": false, "{}": false, good[:len(good)-1]: false,
		good + "x":                                 false,
		strings.Replace(good, "12", "0", 1):        false,
		strings.Replace(good, "12", "-1", 1):       false,
		strings.Replace(good, "12", "1e99", 1):     false,
		strings.Replace(good, "boot/34", "", 1):    false,
		strings.Replace(good, ":3456", "", 1):      false,
		strings.Replace(good, `"t"`, `""`, 1):      false,
		strings.Replace(good, `"t"`, `{"a":1}`, 1): false,
	} {
		i := &Instance{}
		if err := i.parse([]byte(text)); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// FuzzInstance reads what may stand in a proxy.pid, a stat line or the output of ps.
func FuzzInstance(f *testing.F) {
	for _, text := range []string{
		`{"pid":12,"start":"boot/34","address":"127.0.0.1:3456","token":"t"}`, "abc", "1924 (cat) R 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20",
		"Ss Mon Nov 30 02:04:29 2026",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		i := &Instance{}
		if err := i.parse([]byte(text)); err == nil && (i.PID <= 0 || i.Start == "" || i.Token == "" || i.Address == "") {
			t.Errorf("half an instance: %q", text)
		}
		if s, err := parseStat(text); err == nil && (s.state == "" || s.start == "") {
			t.Errorf("half a line: %q", text)
		}
		if state, start, err := parsePS(text); err == nil && (state == "" || start == "") {
			t.Errorf("half an output: %q", text)
		}
	})
}

func testStore() store.Store { return store.Store{Now: time.Now} }

func TestInstance(t *testing.T) {
	dir := t.TempDir()
	if _, err := ReadInstance(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	i, err := announce(testStore(), dir, "127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	read, err := ReadInstance(dir)
	if err != nil || !read.Running() || read.PID != os.Getpid() || read.Address != "127.0.0.1:1" || read.Token != i.Token || read.Start != i.Start || read.Version == "" {
		t.Errorf("%v, %+v", err, read)
	}
	if info, err := os.Stat(filepath.Join(dir, instanceName)); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	second, err := announce(testStore(), dir, "127.0.0.1:2")
	if err != nil || second.Token == i.Token || len(second.Token) < 43 { // 256 bits in base64
		t.Fatalf("%v: a token twice, or a short one", err)
	}
	i.withdraw()
	if read, err := ReadInstance(dir); err != nil || read.Address != "127.0.0.1:2" {
		t.Errorf("the file of another instance is gone: %v", err)
	}
	second.withdraw()
	second.withdraw()
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("%v, left: %v", err, entries)
	}
}

// TestInstanceOfAnother is about a number that now means another process.
func TestInstanceOfAnother(t *testing.T) {
	start, err := processStart(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if again, err := processStart(os.Getpid()); err != nil || again != start {
		t.Errorf("%q, then %q, %v", start, again, err)
	}
	for _, i := range []*Instance{
		{PID: os.Getpid(), Start: start + "0"}, {PID: os.Getpid()}, {PID: 1, Start: start}, {PID: 1 << 30, Start: start},
		{PID: 0, Start: start}, {PID: -1, Start: start}, {PID: -os.Getpid(), Start: start},
	} {
		if i.Running() {
			t.Errorf("%d with start %q runs", i.PID, i.Start)
		}
		if _, ok := i.Process(); ok {
			t.Errorf("%d with start %q has a process", i.PID, i.Start)
		}
	}
}

func TestInstanceHidesItsToken(t *testing.T) {
	i := Instance{PID: 1, Address: "a:1", Token: "ZEBRA"}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "value", i, "pointer", &i)
	text := fmt.Sprintf("%v %+v %#v %s %q %x %v %+v %#v", i, i, i, i, i, i, &i, &i, []any{&i}) + log.String()
	if strings.Contains(text, "ZEBRA") || !strings.Contains(text, "process 1 at a:1") {
		t.Error(text)
	}
	if data, err := json.Marshal(i); err != nil || !strings.Contains(string(data), "ZEBRA") {
		t.Errorf("the file lacks the token: %s, %v", data, err)
	}
}

func TestAnnounceOverStale(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"dead": func(path string) error {
			return os.WriteFile(path, []byte(`{"pid":1073741824,"start":"x","address":"a:1","token":"t"}`), 0o600)
		},
		"number":           func(path string) error { return os.WriteFile(path, []byte("1\n"), 0o600) },
		"empty":            func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"abc":              func(path string) error { return os.WriteFile(path, []byte("abc"), 0o600) },
		"huge":             func(path string) error { return os.WriteFile(path, make([]byte, 1<<20), 0o600) },
		"not readable":     func(path string) error { return os.WriteFile(path, []byte("abc"), 0) },
		"directory":        func(path string) error { return os.Mkdir(path, 0o700) },
		"full directory":   func(path string) error { return os.MkdirAll(filepath.Join(path, "more"), 0o700) },
		"dangling symlink": func(path string) error { return os.Symlink(path+".nowhere", path) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := put(filepath.Join(dir, instanceName)); err != nil {
				if runtime.GOOS == "windows" && strings.Contains(name, "symlink") {
					t.Skip(err) // it needs a privilege there
				}
				t.Fatal(err)
			}
			if i, err := ReadInstance(dir); err == nil && i.Running() {
				t.Error("it counts as running")
			} else if unreadable := new(UnreadableError); err != nil && !errors.As(err, &unreadable) && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%T %v", err, err)
			}
			i, err := announce(testStore(), dir, "127.0.0.1:1")
			if err != nil {
				t.Fatal(err)
			}
			if read, err := ReadInstance(dir); err != nil || !read.Running() {
				t.Errorf("%v", err)
			}
			i.withdraw()
			if _, err := ReadInstance(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("after the end: %v", err)
			}
		})
	}
}

// TestInstanceDiscard is about the file of a process that was killed: it goes, unless another instance has the directory.
func TestInstanceDiscard(t *testing.T) {
	dir := t.TempDir()
	i, err := announce(testStore(), dir, "127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := i.Discard(); err != nil {
		t.Error(err)
	}
	if _, err := ReadInstance(dir); err != nil {
		t.Errorf("gone although the directory is in use: %v", err)
	}
	lock.release()
	if err := i.Discard(); err != nil {
		t.Error(err)
	}
	if _, err := ReadInstance(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("still there: %v", err)
	}
}

// TestInstanceRenew is about a proxy.pid that somebody has spoiled while the instance runs.
func TestInstanceRenew(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, instanceName)
	i, err := announce(testStore(), dir, "127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := i.renew(testStore()); err != nil {
		t.Error(err)
	}
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
		t.Errorf("a good file was written again: %v", err)
	}
	for name, spoil := range map[string]func() error{
		"removed":  func() error { return os.Remove(path) },
		"changed":  func() error { return os.WriteFile(path, []byte("abc"), 0o600) },
		"replaced": func() error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
	} {
		if err := errors.Join(spoil(), i.renew(testStore())); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if read, err := ReadInstance(dir); err != nil || !read.same(i) {
			t.Errorf("%s: %v, %v", name, read, err)
		}
	}
}

const helperVariable = "CODING_PROXY_HELPER"

// TestHelperProcess is what other tests run as a process of its own: it does what its environment says.
func TestHelperProcess(t *testing.T) {
	switch what := os.Getenv(helperVariable); what {
	case "":
	case "wait": // until standard input ends
		fmt.Println("ready")
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "crash":
		helperCrash(os.Getenv("HELPER_LOG"))
	default:
		t.Fatalf("unknown: %s", what)
	}
}

func helper(t *testing.T, what string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	c := exec.CommandContext(ctx, self, "-test.run=^TestHelperProcess$")
	c.Env = append(os.Environ(), helperVariable+"="+what)
	return c
}

// TestProcess ends a process through the handle, and sees that it is gone even while its parent does not ask.
func TestProcess(t *testing.T) {
	c := helper(t, "wait")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Wait() //nolint:errcheck // it is killed
	if _, err := io.ReadFull(out, make([]byte, len("ready"))); err != nil {
		t.Fatal(err)
	}
	start, err := processStart(c.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if own, err := processStart(os.Getpid()); err != nil || own == start && runtime.GOOS == "linux" {
		t.Errorf("two processes with one start time: %s, %v", start, err)
	}
	i := &Instance{PID: c.Process.Pid, Start: start}
	p, ok := i.Process()
	if !ok {
		t.Fatal("it does not run")
	}
	defer p.Release()
	stranger := &Process{&Instance{PID: i.PID, Start: "another"}, p.handle}
	if err := stranger.Kill(); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("kill with another start time: %v", err)
	}
	if err := stranger.Wait(t.Context()); err != nil {
		t.Errorf("wait with another start time: %v", err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Wait(over); !errors.Is(err, context.Canceled) {
		t.Errorf("it has ended: %v", err)
	}
	if err := p.Kill(); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := p.Wait(ctx); err != nil || i.Running() {
		t.Errorf("it goes on: %v", err)
	}
	if _, ok := i.Process(); ok {
		t.Error("a zombie has a process")
	}
	if err := p.Terminate(); err == nil {
		t.Error("a process that is gone was told to end")
	}
}
