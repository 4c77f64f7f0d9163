//go:build unix

package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"coding-proxy/daemon"
)

const backgroundRounds = 50

// TestBackground runs start, stop, restart and status of the built binary. Faults: CFG-002 (stale files), CFG-004 (a crash in
// rounds and status), CFG-005 (the port taken, in rounds), CFG-006 (stop and reload are calls, not signals: admin calls).
func TestBackground(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "coding-proxy")
	ctx, cancel := context.WithTimeout(t.Context(), backgroundTime)
	defer cancel()
	if output, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "coding-proxy").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, output)
	}
	t.Run("all", func(t *testing.T) { // returns when the parallel ones have
		for name, test := range map[string]func(*testing.T, string){
			"rounds": testRounds, "all at once": testAllAtOnce, "stale files": testStaleFiles, "second instance": testSecondInstance, "restart": testRestart,
			"status": testStatus, "wrong configuration": testWrongConfiguration, "wrong use": testWrongUse, "admin calls": testAdminCalls,
			"grace": testGrace, "no answer": testNoAnswer, "token of another": testTokenOfAnother, "never healthy": testNeverHealthy,
			"interrupted": testInterrupted, "crash output": testCrashOutput, "all addresses": testAllAddresses,
			"hangup reloads": testHangupReloads, "foreground": testForeground, "stopped from outside": testStoppedFromOutside,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, binary)
			})
		}
	})
}

// testRounds starts and stops again and again, with all in between that may come between.
func testRounds(t *testing.T, binary string) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	b := newBackground(t, binary, anyPort)
	steps := []func(){
		func() { b.start(); b.stop() },
		func() { b.start(); b.crash(); b.must(3, "stop")("ended without a clean stop"); b.start(); b.stop() },
		func() { strangerRound(b) },
		func() { portTakenRound(b) },
		func() { brokenRound(b) },
		func() { b.startMany(2); b.stop() },
		func() { b.start(); b.crash(); b.startMany(5); b.stop() },
		func() { b.startMany(5); b.stop(); b.must(3, "stop")("nothing runs in " + b.data) },
		func() {
			first := b.start()
			b.must(0, "start")(fmt.Sprintf("is already running: http://%s, PID %d", first.Address, first.PID))
			if second := b.status("running"); second.PID != first.PID {
				t.Errorf("another process: %d, then %d", first.PID, second.PID)
			}
			b.stop()
		},
		func() {
			first := b.start()
			b.must(0, "restart")("has stopped (PID "+strconv.Itoa(first.PID)+")", "is running in the background")
			if second := b.status("running"); second.PID == first.PID {
				t.Error("the same process")
			}
			b.stop()
		},
	}
	begun := time.Now()
	var order []int
	for round := range backgroundRounds {
		if len(order) == 0 {
			order = random.Perm(len(steps))
		}
		steps[order[0]]()
		order = order[1:]
		if t.Failed() {
			t.Fatalf("in round %d", round+1)
		}
	}
	t.Logf("%d rounds in %v", backgroundRounds, time.Since(begun).Round(time.Millisecond))
}

// testAllAtOnce runs commands against each other, kills in between: in the end there is one process or none, and status
// knows it.
func testAllAtOnce(t *testing.T, binary string) {
	const hands, each = 4, 12
	b := newBackground(t, binary, anyPort)
	if err := os.Mkdir(b.data, 0o700); err != nil {
		t.Fatal(err)
	}
	names := []string{"start", "start", "start", "stop", "restart", "status", "kill"}
	for range 3 {
		var all sync.WaitGroup
		for range hands {
			all.Go(func() {
				for range each {
					name := names[rand.IntN(len(names))]
					if name == "kill" {
						if i, err := daemon.ReadInstance(b.data); err == nil {
							if p, ok := i.Process(); ok {
								_ = p.Kill() // it may have ended
								if err := p.Wait(b.ctx); err != nil {
									t.Error(err)
								}
								p.Release()
							}
						}
						continue
					}
					command := exec.CommandContext(b.ctx, binary, append([]string{name}, b.flags...)...)
					command.Dir, command.Env = b.home, b.env
					output, err := command.CombinedOutput()
					if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
						t.Errorf("%s: %v", name, err)
					} else if err != nil && exit.ExitCode() == 2 {
						t.Errorf("%s: %v: %s", name, err, output)
					}
				}
			})
		}
		all.Wait()
		switch len(b.processes()) {
		case 0:
			if r := b.command("status"); r.exit != 3 {
				t.Fatalf("nothing runs: %v", r)
			}
		case 1:
			b.status("running")
		default:
			t.Fatalf("processes: %v", b.processes())
		}
	}
	if r := b.command("start"); r.exit != 0 {
		t.Fatal(r)
	}
	b.stop()
}

// strangerRound: the PID in proxy.pid now is that of a process that is none of ours.
func strangerRound(b *background) {
	s := b.stranger()
	b.claim(s.Process.Pid)
	b.status("crashed")
	b.must(3, "stop")("nothing runs in ")
	b.must(3, "reload")("nothing runs in ")
	b.start()
	b.stop()
	b.claim(s.Process.Pid)
	b.must(0, "restart")("is running in the background")
	b.status("running")
	b.crash()
	b.stopAfterCrash()
	s.survived(b.t)
}

func (b *background) stopAfterCrash() {
	b.t.Helper()
	b.must(3, "stop")("ended without a clean stop")
	b.status("crashed")
}

// portTakenRound: start says which port and why, and leaves nothing.
func portTakenRound(b *background) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.t.Fatal(err)
	}
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	before := b.pidText()
	b.must(1, "start", "--port", port)("listen on 127.0.0.1:"+port, "address already in use")
	b.nothingStarted(before)
}

func (b *background) pidText() string {
	text, _ := os.ReadFile(b.pidFile())
	return string(text)
}

// nothingStarted demands that a start that failed has left no process and no file of its own.
func (b *background) nothingStarted(before string) {
	b.t.Helper()
	if pids := b.processes(); len(pids) > 0 || b.pidText() != before {
		b.t.Errorf("left: processes %v, proxy.pid %q", pids, b.pidText())
	}
	if before == "" {
		b.status("stopped")
	}
}

// brokenRound: start prints every problem and starts nothing.
func brokenRound(b *background) {
	before := b.pidText()
	b.configure(`{"server": {"port": 70000, "hots": "x"}, "pool": 7}`)
	b.must(1, "start")("config.json:1:21: server.port", `did you mean "host"`, "pool: must be an object")
	b.nothingStarted(before)
	b.configure(anyPort)
}

// testStaleFiles: whatever stands in proxy.pid, it blocks no start and is replaced.
func testStaleFiles(t *testing.T, binary string) {
	b := newBackground(t, binary, anyPort)
	write := func(text string) func() error {
		return func() error { return os.WriteFile(b.pidFile(), []byte(text), 0o600) }
	}
	gone := exec.CommandContext(b.ctx, binary, "version")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	claim := func(pid int) func() error { return func() error { b.claim(pid); return nil } }
	for name, tc := range map[string]struct {
		put   func() error
		state string
	}{
		"dead PID": {claim(gone.Process.Pid), "crashed"}, "PID 1": {claim(1), "crashed"}, "own PID": {claim(os.Getpid()), "crashed"},
		"PID 0": {claim(0), "stopped"}, "PID -1": {claim(-1), "stopped"}, "impossible PID": {claim(1 << 40), "crashed"},
		"empty": {write(""), "stopped"}, "abc": {write("abc"), "stopped"}, "a number": {write("1"), "stopped"},
		"half": {write(`{"pid":1,"st`), "stopped"}, "zeros": {write(strings.Repeat("\x00", 4096)), "stopped"},
		"directory":      {func() error { return os.Mkdir(b.pidFile(), 0o700) }, "stopped"},
		"full directory": {func() error { return os.MkdirAll(filepath.Join(b.pidFile(), "x"), 0o700) }, "stopped"},
		"pipe":           {func() error { return syscall.Mkfifo(b.pidFile(), 0o600) }, "stopped"},
		"symlink":        {func() error { return os.Symlink("nowhere", b.pidFile()) }, "stopped"},
		"device":         {func() error { return os.Symlink("/dev/zero", b.pidFile()) }, "stopped"},
		"unreadable": {func() error {
			return errors.Join(os.WriteFile(b.pidFile(), []byte("abc"), 0o600), os.Chmod(b.pidFile(), 0))
		}, "stopped"},
	} {
		if err := errors.Join(os.MkdirAll(b.data, 0o700), os.RemoveAll(b.pidFile()), tc.put()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		b.status(tc.state)
		b.must(3, "stop")()
		b.start()
		b.stop()
		if t.Failed() {
			t.Fatalf("with %s", name)
		}
	}
}

// testSecondInstance: another port, by flag or variable, is another instance with a data directory of its own.
func testSecondInstance(t *testing.T, binary string) {
	b := newBackground(t, binary, anyPort)
	b.flags = nil
	b.must(0, "start")("127.0.0.1:")
	b.data = filepath.Join(b.home, "data")
	first := b.pidText()

	other := *b
	port := ""
	for range 5 { // somebody else may take the port in between
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ = net.SplitHostPort(listener.Addr().String())
		listener.Close()
		r := other.command("start", "--port", port)
		if r.exit == 0 {
			r.check(t, "start", 0, "is running in the background: http://127.0.0.1:"+port, "data-"+port, "stop --port="+port)
			break
		}
		r.check(t, "start", 1, "address already in use")
	}
	other.env = append(other.env, "PROXY_PORT="+port)
	if pids := b.processes(); len(pids) != 0 && len(pids) != 2 { // without flags a command line does not name the folder
		t.Errorf("processes: %v", pids)
	}
	other.must(0, "status")("http://127.0.0.1:"+port, "data-"+port)
	other.must(0, "stop")("has stopped")
	other.must(3, "status")("not running in " + filepath.Join(b.home, "data-"+port))
	if b.pidText() != first {
		t.Error("the first instance's proxy.pid has changed")
	}
	b.must(0, "status")("is running")
	b.must(0, "stop")("has stopped")
	if i, err := daemon.ReadInstance(b.data); err == nil {
		t.Errorf("left: %v", i)
	}
}

// testRestart: a wrong configuration leaves the old process alone; without one, restart is start.
func testRestart(t *testing.T, binary string) {
	b := newBackground(t, binary, anyPort)
	b.must(0, "restart")("is running in the background")
	first := b.status("running")
	b.configure(`{"server": {"port": "x"}}`)
	b.must(1, "restart")("the configuration is wrong", "config.json:1:21: server.port", "goes on as it is: process "+strconv.Itoa(first.PID))
	b.configure(`{"server": `)
	b.must(1, "restart")("the configuration is wrong", "goes on as it is: process "+strconv.Itoa(first.PID))
	if now := b.status("running"); now.PID != first.PID {
		t.Errorf("another process: %d, then %d", first.PID, now.PID)
	}
	b.configure(anyPort)
	b.must(0, "restart", "--grace", "5")("has stopped", "is running in the background")
	b.stop()
}

// twoKeys is a configuration with two tiers.
func twoKeys(url string) string {
	return fmt.Sprintf(`{"server": {"port": 0}, "auth": {"request_keys": [{"code": "laptop", "api_key": "request-key-of-laptop"}]}, "pool": {"strategy": "fill-first", "keys": [
  {"id": "key-a", "provider": "sim", "protocol": "anthropic", "base_url": %[1]q, "api_key": "credential-of-key-a"},
  {"id": "key-b", "provider": "sim", "protocol": "anthropic", "base_url": %[1]q, "api_key": "credential-of-key-b"}]}}`, url)
}

func testStatus(t *testing.T, binary string) {
	b := newBackground(t, binary, twoKeys("http://127.0.0.1:1"))
	b.must(3, "status")("is not running in " + b.data)
	if s := b.status("stopped"); s.DataDir != b.data || s.PID != 0 || s.Address != "" || s.Pool != nil {
		t.Errorf("%+v", s)
	}
	before := time.Now()
	b.start()
	s := b.status("running")
	version := b.version()
	if s.Started.Before(before.Add(-time.Second)) || s.Started.After(time.Now().Add(time.Second)) || s.Log != filepath.Join(b.data, "proxy.log") ||
		s.DataDir != b.data || !strings.Contains(version, s.Version) || s.Version == "" || s.LastSign != nil || s.Uptime == nil || s.Problem != "" {
		t.Errorf("%+v, version %s", s, version)
	}
	if p := s.Pool; p == nil || p.State != "healthy" || len(p.Tiers) != 1 || p.Tiers[0].State != "open" || len(p.Tiers[0].Keys) != 2 ||
		p.Tiers[0].Keys[1].ID != "key-b" || p.Tiers[0].Keys[1].State != "ready" {
		t.Errorf("%+v", p)
	}
	b.must(0, "status")("is running", "http://"+s.Address, strconv.Itoa(s.PID), "uptime", s.Version, s.Log, "The pool is healthy.", "open", "key-a", "key-b", "ready")
	b.must(0, "disable", "key-b")("key-b")
	b.must(0, "status")("key-b  disabled")
	token := struct{ Token string }{}
	if err := json.Unmarshal([]byte(b.pidText()), &token); err != nil || token.Token == "" {
		t.Fatal(err)
	}
	if text := b.command("status").String() + b.command("status", "--json").String() + b.log(); strings.Contains(text, token.Token) || strings.Contains(text, "credential-of") {
		t.Error("a secret shows")
	}
	b.crash()
	b.must(3, "status")("it ended without a clean stop", s.Started.Local().Format("2006-01-02 15:04:05"), "last sign of life", s.Log, strconv.Itoa(s.PID))
	b.start()
	b.stop()
}

func (b *background) version() string {
	b.t.Helper()
	output, err := exec.CommandContext(b.ctx, b.binary, "version").Output()
	if err != nil {
		b.t.Fatal(err)
	}
	return string(output)
}

func (b *background) log() string {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.data, "proxy.log"))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}

// testWrongConfiguration: what runs is found even when the file has been broken since.
func testWrongConfiguration(t *testing.T, binary string) {
	b := newBackground(t, binary, anyPort)
	b.configure(fmt.Sprintf(`{"server": {"port": 0, "data_dir": %q}}`, b.data))
	b.flags = []string{"--config", filepath.Join(b.home, "config.json")}
	first := b.start()
	b.configure(fmt.Sprintf(`{"server": {"port": 0, "data_dir": %q, "hots": 1}, "pool": [`, b.data))
	if now := b.status("running"); now.PID != first.PID {
		t.Errorf("%+v", now)
	}
	b.must(0, "status")("warning: the configuration is wrong", "is running")
	b.must(0, "stop")("has stopped")
	b.must(3, "stop")("nothing runs in " + b.data)
	b.must(1, "start")("the configuration is wrong")
	b.status("stopped")
}

func testWrongUse(t *testing.T, binary string) {
	b := newBackground(t, binary, anyPort)
	for _, args := range [][]string{
		{"start", "now"}, {"start", "--prot", "1"}, {"stop", "--grace", "soon"}, {"stop", "--grace", "-1s"}, {"status", "--port", "70000"},
		{"enable"}, {"disable", "a", "b"}, {"reset", "a", "b"}, {"reload", "x"}, {"stopp"}, {"status", "--jsn"},
	} {
		b.must(2, args[0], args[1:]...)()
	}
	b.must(2, "strat")(`did you mean "start"?`)
	for _, name := range []string{"start", "stop", "restart", "status", "reload", "reset", "enable", "disable", "serve"} {
		r := b.must(0, name, "-h")("Usage: coding-proxy "+name, "-config", "-port", "-data-dir")
		if strings.Contains(r.stderr+r.stdout, "report") {
			t.Errorf("%s -h shows what is not for people:\n%v", name, r)
		}
	}
	for _, name := range []string{"stop", "status", "reload", "reset"} {
		b.must(3, name)()
	}
	b.must(3, "enable", "key-a")()
	if pids := b.processes(); len(pids) > 0 {
		t.Errorf("started: %v", pids)
	}
}

func testAdminCalls(t *testing.T, binary string) {
	b := newBackground(t, binary, twoKeys("http://127.0.0.1:1"))
	b.start()
	b.must(0, "disable", "key-a")("key-a")
	b.must(0, "status")("key-a  disabled", "key-b  ready")
	b.must(0, "enable", "key-a")("key-a")
	b.must(0, "status")("key-a  ready")
	b.must(1, "disable", "key-c")("key-c")
	b.must(1, "enable", "../key a?x=1")()
	b.must(0, "reset")()
	b.must(0, "reset", "key-a")("key-a")
	b.must(1, "reset", "key-c")("key-c")
	b.must(0, "reload")("reloaded")
	b.configure(strings.Replace(twoKeys("http://127.0.0.1:1"), "key-b", "key-z", 1))
	b.must(0, "reload")("reloaded")
	b.must(0, "status")("key-z  ready")
	b.configure(`{"server": {"port": "x"}}`)
	b.must(1, "reload")("the configuration is wrong", "config.json:1:21: server.port")
	b.must(0, "status")("key-z  ready")
	b.must(0, "stop")("has stopped")
	b.must(3, "reload")()
}

// testGrace: stop waits for what is in flight, but no longer than it was told to.
func testGrace(t *testing.T, binary string) {
	arrived, release := make(chan struct{}, 1), make(chan struct{})
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		arrived <- struct{}{}
		select {
		case <-release:
		case <-r.Context().Done():
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"the walrus"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`)
	}))
	t.Cleanup(provider.Close)
	b := newBackground(t, binary, twoKeys(provider.URL))
	ask := func(s backgroundStatus) <-chan string {
		answer := make(chan string, 1)
		go func() {
			request, err := http.NewRequestWithContext(b.ctx, http.MethodPost, "http://"+s.Address+"/v1/messages",
				strings.NewReader(`{"model":"claude-sonnet-5-5","max_tokens":9,"messages":[{"role":"user","content":"?"}]}`))
			if err != nil {
				answer <- err.Error()
				return
			}
			request.Header.Set("X-Api-Key", "request-key-of-laptop")
			response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
			if err != nil {
				answer <- err.Error()
				return
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			answer <- fmt.Sprint(response.StatusCode, string(body), err)
		}()
		<-arrived
		return answer
	}

	answer := ask(b.start())
	stopping := b.begin("stop")
	b.until("the end is logged", func() bool { return strings.Contains(b.log(), "stopping") })
	b.status("stopping")
	again := b.begin("start") // waits for its end, and is the next one
	close(release)
	b.end(stopping).check(t, "stop", 0, "has stopped")
	if text := <-answer; !strings.HasPrefix(text, "200") || !strings.Contains(text, "walrus") {
		t.Errorf("the request in flight: %s", text)
	}
	b.end(again).check(t, "start", 0, "is running in the background")
	b.status("running")
	b.stop()
	b.status("stopped")

	release = make(chan struct{})
	answer = ask(b.start())
	b.must(0, "stop", "--grace", "100ms")("has stopped")
	if text := <-answer; strings.Contains(text, "walrus") {
		t.Errorf("the request that was cut: %s", text)
	}
	b.status("stopped")
}

// testNoAnswer: a process that is alive and does nothing is told apart, and is killed in the end.
func testNoAnswer(t *testing.T, binary string) {
	b := newBackground(t, binary, anyPort)
	b.start()
	b.signal(syscall.SIGSTOP)
	b.until("it does not answer any more", func() bool { return b.command("status").exit == 1 })
	if s := b.status("not answering"); s.Problem == "" {
		t.Errorf("%+v", s)
	}
	b.must(1, "status")("alive but not answering")
	b.must(0, "stop", "--grace", "0")("has been killed")
	if s := b.status("stopped"); s.Problem != "" {
		t.Errorf("%+v", s)
	}
	b.start()
	b.stop()
}

// testTokenOfAnother: when the call is refused, the signal does it.
func testTokenOfAnother(t *testing.T, binary string) {
	b := newBackground(t, binary, anyPort)
	b.start()
	var i map[string]any
	if err := json.Unmarshal([]byte(b.pidText()), &i); err != nil {
		t.Fatal(err)
	}
	i["token"] = "another"
	text, err := json.Marshal(i)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(b.pidFile(), text, 0o600); err != nil {
		t.Fatal(err)
	}
	b.must(1, "reload")()
	b.stop()
}

// testNeverHealthy: a process that does not come to serve is killed. It hangs at a pipe that nobody writes.
func testNeverHealthy(t *testing.T, binary string) {
	b := newBackground(t, binary, anyPort)
	b.hang()
	b.must(1, "start")("did not serve within 15s and was killed", "proxy.log")
	b.nothingStarted("")
	if err := os.Remove(filepath.Join(b.data, "usage.json")); err != nil {
		t.Fatal(err)
	}
	b.start()
	b.stop()
}

// hang makes the next process wait for ever while it starts.
func (b *background) hang() {
	b.t.Helper()
	if err := errors.Join(os.MkdirAll(b.data, 0o700), syscall.Mkfifo(filepath.Join(b.data, "usage.json"), 0o600)); err != nil {
		b.t.Fatal(err)
	}
}

// testInterrupted: Ctrl-C while start waits leaves nothing.
func testInterrupted(t *testing.T, binary string) {
	b := newBackground(t, binary, anyPort)
	b.hang()
	starting := b.begin("start")
	b.until("the process is there", func() bool {
		text, _ := os.ReadFile(filepath.Join(b.data, "lock"))
		return len(text) > 0
	})
	if err := starting.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	b.end(starting).check(t, "start", 1, "interrupted")
	b.nothingStarted("")
}

// testCrashOutput: what the runtime says at the end of a crash is in the log.
func testCrashOutput(t *testing.T, binary string) {
	b := newBackground(t, binary, anyPort)
	b.start()
	_, p := b.signal(syscall.SIGQUIT)
	if err := p.Wait(b.ctx); err != nil {
		t.Fatal(err)
	}
	b.status("crashed")
	if log := b.log(); !strings.Contains(log, "SIGQUIT") || !strings.Contains(log, "goroutine ") {
		t.Errorf("the log:\n%s", log)
	}
	b.start()
	b.stop()
}

// testAllAddresses: a listener on all addresses is asked by loopback.
func testAllAddresses(t *testing.T, binary string) {
	b := newBackground(t, binary, twoKeys("http://127.0.0.1:1"))
	for _, host := range []string{"0.0.0.0", "::"} {
		r := b.command("start", "--host", host)
		if strings.Contains(r.stderr, "not supported") || strings.Contains(r.stderr, "cannot assign") {
			t.Logf("no address %s here: %s", host, r.stderr)
			continue
		}
		r.check(t, "start", 0, "is running in the background")
		b.must(0, "status")("is running", "key-a  ready")
		b.must(0, "reload")()
		b.must(0, "stop")("has stopped")
		b.status("stopped")
	}
}

// testHangupReloads: SIGHUP reads the configuration again; a wrong one changes nothing.
func testHangupReloads(t *testing.T, binary string) {
	b := newBackground(t, binary, twoKeys("http://127.0.0.1:1"))
	first := b.start()
	for round, id := range []string{"key-x", "key-y"} {
		b.configure(strings.Replace(twoKeys("http://127.0.0.1:1"), "key-b", id, 1))
		b.signal(syscall.SIGHUP)
		b.until("the key "+id, func() bool { return strings.Contains(b.command("status").stdout, id+"  ready") })
		if now := b.status("running"); now.PID != first.PID {
			t.Errorf("round %d: %+v", round, now)
		}
	}
	b.configure("{")
	b.signal(syscall.SIGHUP)
	b.until("the refusal", func() bool { return strings.Contains(b.log(), "the old one goes on") })
	b.status("running")
	b.must(0, "stop")("has stopped")
}

// testForeground: what runs in the foreground is found, too, and logs into log.file if there is one.
func testForeground(t *testing.T, binary string) {
	b := newBackground(t, binary, anyPort)
	log := filepath.Join(b.home, "logs", "my.log")
	for _, configuration := range []string{anyPort, fmt.Sprintf(`{"server": {"port": 0}, "log": {"file": %q}}`, log)} {
		b.configure(configuration)
		serving := b.begin("serve")
		b.until("it is announced", func() bool {
			i, err := daemon.ReadInstance(b.data)
			return err == nil && i.PID == serving.Process.Pid
		})
		s := b.status("running")
		if want := map[bool]string{true: log}[configuration != anyPort]; s.Log != want {
			t.Errorf("its log: %q, want %q", s.Log, want)
		}
		b.must(0, "start")(fmt.Sprintf("is already running: http://%s, PID %d", s.Address, s.PID))
		b.must(0, "stop")("has stopped")
		b.end(serving).check(t, "serve", 0, "coding-proxy listening on http://"+s.Address)
		b.status("stopped")
	}
	if text, err := os.ReadFile(log); err != nil || !strings.Contains(string(text), "stopping") {
		t.Errorf("log.file: %q, %v", text, err)
	}
}

// testStoppedFromOutside: a service manager's signal is a clean end.
func testStoppedFromOutside(t *testing.T, binary string) {
	b := newBackground(t, binary, anyPort)
	b.start()
	_, p := b.signal(syscall.SIGTERM)
	if err := p.Wait(b.ctx); err != nil {
		t.Fatal(err)
	}
	b.status("stopped")
	if log := b.log(); !strings.Contains(log, "msg=started") || !strings.Contains(log, "msg=stopped") {
		t.Errorf("the log:\n%s", log)
	}
}
