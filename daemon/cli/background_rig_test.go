//go:build unix

package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"coding-proxy/daemon"
)

const (
	backgroundTime   = 100 * time.Second
	backgroundInside = "CODING_PROXY_STRANGER" // set in the process that is the stranger
)

// background is a folder in which the commands of the background mode are run.
type background struct {
	t      *testing.T
	ctx    context.Context
	binary string
	home   string   // also the working directory
	data   string   // data directory
	flags  []string // of every command
	env    []string
	begun  map[int]bool // PIDs of commands that have not ended
}

// newBackground makes the folder. Whatever runs in it when the test is over is killed, and is a failure.
func newBackground(t *testing.T, binary, configuration string) *background {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), backgroundTime)
	home := t.TempDir()
	b := &background{t: t, ctx: ctx, binary: binary, home: home, data: filepath.Join(home, "data"), begun: make(map[int]bool)}
	b.flags = []string{"--config", filepath.Join(home, "config.json"), "--data-dir", b.data}
	b.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GORACE=atexit_sleep_ms=0"} // with the race detector it would sleep
	b.configure(configuration)
	t.Cleanup(func() {
		defer cancel()
		for _, pid := range b.processes() {
			t.Errorf("process %d is left", pid)
			b.killLeft(pid)
		}
	})
	return b
}

// killLeft ends a process of this folder: the handle is taken before it is looked at once more.
func (b *background) killLeft(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		for _, still := range b.processes() {
			if still == pid {
				_ = p.Kill()
			}
		}
		_ = p.Release()
	}
}

func (b *background) configure(text string) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.home, "config.json"), []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// anyPort is a configuration that needs nothing.
const anyPort = `{"server": {"port": 0}}`

// commandRun is how a command ended.
type commandRun struct {
	exit           int
	stdout, stderr string
}

func (r commandRun) String() string {
	return fmt.Sprintf("exit %d\n%s%s", r.exit, r.stdout, r.stderr)
}

// command runs a command of the program to its end.
func (b *background) command(name string, more ...string) commandRun {
	b.t.Helper()
	return b.end(b.begin(name, more...))
}

// running is a command that has not ended.
type running struct {
	*exec.Cmd
	stdout, stderr bytes.Buffer
}

func (b *background) begin(name string, more ...string) *running {
	b.t.Helper()
	r := &running{Cmd: exec.CommandContext(b.ctx, b.binary, append(append([]string{name}, b.flags...), more...)...)}
	r.Dir, r.Env, r.Stdout, r.Stderr = b.home, b.env, &r.stdout, &r.stderr
	if err := r.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.begun[r.Process.Pid] = true
	return r
}

func (b *background) end(r *running) commandRun {
	b.t.Helper()
	defer delete(b.begun, r.Process.Pid)
	err := r.Wait() // also until nobody has its output any more: a process that it left would keep it
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) || b.ctx.Err() != nil {
		b.t.Fatalf("%v: %v, %v\n%s%s", r.Args, err, b.ctx.Err(), &r.stdout, &r.stderr)
	}
	return commandRun{r.ProcessState.ExitCode(), r.stdout.String(), r.stderr.String()}
}

// must runs a command that has to end with this exit code and say each of the texts.
func (b *background) must(exit int, name string, more ...string) func(texts ...string) commandRun {
	b.t.Helper()
	r := b.command(name, more...)
	return func(texts ...string) commandRun {
		b.t.Helper()
		r.check(b.t, name, exit, texts...)
		return r
	}
}

func (r commandRun) check(t *testing.T, name string, exit int, texts ...string) {
	t.Helper()
	if r.exit != exit {
		t.Fatalf("%s: want exit %d: %v", name, exit, r)
	}
	for _, text := range texts {
		if !strings.Contains(r.stdout+r.stderr, text) {
			t.Errorf("%s does not say %q: %v", name, text, r)
		}
	}
}

// processes lists those that have the folder in their command line and are no command that the test waits for: all that
// the commands have started.
func (b *background) processes() (pids []int) {
	b.t.Helper()
	for pid, line := range commandLines(b.t) {
		if strings.Contains(line, b.home) && !b.begun[pid] {
			pids = append(pids, pid)
		}
	}
	return pids
}

// commandLines lists all processes that run. A zombie has no command line.
func commandLines(t *testing.T) map[int]string {
	t.Helper()
	lines := make(map[int]string)
	if runtime.GOOS == "linux" {
		paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
		if err != nil || len(paths) == 0 {
			t.Fatalf("no processes: %v", err)
		}
		for _, path := range paths {
			if text, err := os.ReadFile(path); err == nil { // else it has ended
				pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
				lines[pid] = strings.ReplaceAll(string(text), "\x00", " ")
			}
		}
		return lines
	}
	output, err := exec.Command("/bin/ps", "-axww", "-o", "pid=", "-o", "command=").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(output)) {
		number, command, _ := strings.Cut(strings.TrimSpace(line), " ")
		if pid, err := strconv.Atoi(number); err == nil {
			lines[pid] = command
		}
	}
	return lines
}

// backgroundStatus is what status --json prints.
type backgroundStatus struct {
	State    string
	PID      int
	Address  string
	Started  time.Time
	Uptime   *int64 `json:"uptime_seconds"`
	Version  string
	LastSign *time.Time `json:"last_sign_of_life"`
	DataDir  string     `json:"data_dir"`
	Log      string
	Problem  string
	Pool     *struct {
		State string
		Tiers []struct {
			Name, State string
			Keys        []struct{ ID, State string }
		}
	}
}

// status reads what status --json says, and compares it with the truth: the processes that there are.
func (b *background) status(want string) backgroundStatus {
	b.t.Helper()
	r := b.command("status", "--json")
	var s backgroundStatus
	decoder := json.NewDecoder(strings.NewReader(r.stdout))
	if err := decoder.Decode(&s); err != nil || decoder.Decode(new(any)) != io.EOF {
		b.t.Fatalf("status --json is no JSON: %v: %v", err, r)
	}
	pids := b.processes()
	exit := map[string]int{"running": 0, "not answering": 1, "stopping": 1, "stopped": 3, "crashed": 3}[s.State]
	if s.State != want || r.exit != exit {
		b.t.Fatalf("status is %q, want %q; processes: %v; %v", s.State, want, pids, r)
	}
	if serving := b.begun[s.PID]; serving { // in the foreground
		pids = append(pids, s.PID)
	}
	alive := s.State == "running" || s.State == "not answering" || s.State == "stopping"
	if alive && (len(pids) != 1 || pids[0] != s.PID) || !alive && len(pids) != 0 {
		b.t.Fatalf("status is a lie: processes: %v; %v", pids, r)
	}
	if s.State == "running" {
		b.get("http://" + s.Address + "/healthz")
	}
	return s
}

func (b *background) get(url string) string {
	b.t.Helper()
	request, err := http.NewRequestWithContext(b.ctx, http.MethodGet, url, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		b.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		b.t.Fatalf("GET %s: %s, %v", url, response.Status, err)
	}
	return string(body)
}

// start runs the command, which has to start a process.
func (b *background) start(more ...string) backgroundStatus {
	b.t.Helper()
	b.must(0, "start", more...)("is running in the background: http://127.0.0.1:", "/stats")
	return b.status("running")
}

// stop runs the command, which has to end a process cleanly.
func (b *background) stop() {
	b.t.Helper()
	b.must(0, "stop")("has stopped")
	if s := b.status("stopped"); s.Problem != "" {
		b.t.Errorf("after stop: %+v", s)
	}
	if _, err := os.Stat(b.pidFile()); !errors.Is(err, os.ErrNotExist) {
		b.t.Errorf("proxy.pid is left: %v", err)
	}
}

func (b *background) pidFile() string { return filepath.Join(b.data, "proxy.pid") }

// signal sends a signal to the process that runs, through a handle on it.
func (b *background) signal(s os.Signal) (*daemon.Instance, *daemon.Process) {
	b.t.Helper()
	i, err := daemon.ReadInstance(b.data)
	if err != nil {
		b.t.Fatal(err)
	}
	handle, err := os.FindProcess(i.PID)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = handle.Release() }()
	p, ok := i.Process()
	if !ok {
		b.t.Fatal("nothing runs")
	}
	b.t.Cleanup(p.Release)
	if err := handle.Signal(s); err != nil {
		b.t.Fatal(err)
	}
	return i, p
}

// crash ends the process as kill -9 does.
func (b *background) crash() {
	b.t.Helper()
	_, p := b.signal(os.Kill)
	if err := p.Wait(b.ctx); err != nil {
		b.t.Fatal(err)
	}
	s := b.status("crashed")
	if s.PID == 0 || s.Started.IsZero() || s.LastSign == nil || s.LastSign.Before(s.Started.Add(-time.Second)) {
		b.t.Errorf("after a crash: %+v", s)
	}
}

// startMany runs start several times at once. One process is to be there, and all of them know it.
func (b *background) startMany(n int) {
	b.t.Helper()
	var commands []*running
	for range n {
		commands = append(commands, b.begin("start"))
	}
	started, pids := 0, make(map[string]bool)
	for _, c := range commands {
		r := b.end(c)
		r.check(b.t, "start", 0, ", PID ")
		if strings.Contains(r.stdout, "is running in the background") {
			started++
		} else if !strings.Contains(r.stdout, "is already running") {
			b.t.Errorf("%d starts at once: %v", n, r)
		}
		first, _, _ := strings.Cut(r.stdout, "\n")
		_, pid, _ := strings.Cut(first, ", PID ")
		pids[pid] = true
	}
	s := b.status("running")
	if started != 1 || len(pids) != 1 || !pids[strconv.Itoa(s.PID)] {
		b.t.Fatalf("%d starts at once: %d have started a process; PIDs %v, %d runs", n, started, pids, s.PID)
	}
}

// stranger is a process that has nothing to do with the proxy. It ends when its standard input does.
type stranger struct {
	*exec.Cmd
	in io.WriteCloser
}

// TestBackgroundStranger is the stranger's side.
func TestBackgroundStranger(t *testing.T) {
	if os.Getenv(backgroundInside) != "" {
		fmt.Println("ready")
		_, _ = io.Copy(io.Discard, os.Stdin)
	}
}

func (b *background) stranger() *stranger {
	b.t.Helper()
	self, err := os.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	s := &stranger{Cmd: exec.CommandContext(b.ctx, self, "-test.run=^TestBackgroundStranger$")}
	s.Env = append(os.Environ(), backgroundInside+"=1")
	if s.in, err = s.StdinPipe(); err != nil {
		b.t.Fatal(err)
	}
	out, err := s.StdoutPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		b.t.Fatal(err)
	}
	var once sync.Once
	b.t.Cleanup(func() { once.Do(func() { s.in.Close() }) })
	if _, err := io.ReadFull(out, make([]byte, len("ready"))); err != nil {
		b.t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return s
}

// survived ends the stranger, which must have lived until now: it ends well only by itself.
func (s *stranger) survived(t *testing.T) {
	t.Helper()
	s.in.Close()
	if err := s.Wait(); err != nil {
		t.Fatalf("the stranger was hit: %v", err)
	}
}

// claim writes a proxy.pid as an instance with this PID, which started at another time, has left it.
func (b *background) claim(pid int) {
	b.t.Helper()
	if err := os.MkdirAll(b.data, 0o700); err != nil {
		b.t.Fatal(err)
	}
	text := fmt.Sprintf(`{"pid":%d,"start":"00000000-0000-0000-0000-000000000000/1","address":"127.0.0.1:1","token":"t","started":"2026-01-02T03:04:05Z","version":"v"}`, pid)
	if err := os.WriteFile(b.pidFile(), []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// until waits for what no event tells: the state of processes and files that others have.
func (b *background) until(what string, ok func() bool) {
	b.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-b.ctx.Done():
			b.t.Fatalf("never: %s", what)
		}
	}
}
