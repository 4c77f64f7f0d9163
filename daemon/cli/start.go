package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"coding-proxy/daemon"
	"coding-proxy/daemon/config"
)

const (
	startPatience = 15 * time.Second
	startTick     = 10 * time.Millisecond
	startMostTick = time.Second
)

// start runs serve as a process of its own and waits until it serves.
func start(args []string, env Environment) int {
	fs := newFlags("start", "", "Runs in the background. Where an instance runs already, it is left alone.", env)
	src := sourceFlags(fs, env)
	if code, done := parse(fs, args, env); done {
		return code
	}
	unbroken()
	cfg, err := config.Load(*src)
	if err != nil {
		fmt.Fprintf(env.Stderr, "coding-proxy: %s\n", explain(err))
		return exitFailed
	}
	return launch("start", cfg, src, env)
}

// restart replaces the running instance. The configuration is read first: with a wrong one the old instance goes on.
func restart(args []string, env Environment) int {
	fs := newFlags("restart", "", "Stops what runs in the background, and starts it with the configuration as it is now. A wrong one is refused, the old process goes on.", env)
	src := sourceFlags(fs, env)
	grace := graceFlag(fs)
	if code, done := parse(fs, args, env); done {
		return code
	}
	unbroken()
	cfg, err := config.Load(*src)
	if err != nil {
		fmt.Fprintf(env.Stderr, "coding-proxy: %s\n", explain(err))
		if i, _ := present(locate(src, Environment{Stderr: nowhere{}})); i != nil {
			fmt.Fprintf(env.Stderr, "The instance that runs goes on as it is: process %d at http://%s.\n", i.PID, i.Address)
		}
		return exitFailed
	}
	if i, absent := present(cfg.Server.DataDir); i != nil {
		if code := halt(i, *grace, env); code != exitDone {
			return code
		}
	} else if other := stranger(src); other != "" {
		fmt.Fprintf(env.Stderr, "coding-proxy restart: %s%s\n", absent, other)
		return exitFailed
	}
	return launch("restart", cfg, src, env)
}

// nowhere swallows what is written.
type nowhere struct{}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }

// launcher starts the background process of a configuration.
type launcher struct {
	dir, log string
	args     []string // of the process
	env      Environment
}

// unbroken keeps a reader that goes away (| head -1) from ending a command half-way.
func unbroken() { signal.Ignore(syscall.SIGPIPE) }

func launch(command string, cfg *config.Config, src *config.Source, env Environment) int {
	interrupt, _, stop := signals()
	defer stop()
	ctx, cancel := context.WithTimeout(interrupt, startPatience)
	defer cancel()
	printWarnings(cfg, env)
	l := &launcher{
		dir: cfg.Server.DataDir, log: absolute(logPath(cfg, true)),
		args: append([]string{"serve"}, sourceArguments(*src)...), env: env,
	}
	err := l.start(ctx)
	switch {
	case err == nil:
		return exitDone
	case interrupt.Err() != nil:
		err = errors.New("interrupted: nothing was started")
	}
	fmt.Fprintf(env.Stderr, "coding-proxy %s: %v\n", command, err)
	return exitFailed
}

// start returns when an instance serves, its own or another one. A process that finds the directory taken has lost to
// another start, or to an instance that is about to end: then it looks again.
func (l *launcher) start(ctx context.Context) error {
	for pause := startTick; ; pause = min(2*pause, startMostTick) {
		if done, err := l.join(ctx); done {
			return err
		}
		err := l.spawn(ctx)
		if taken := new(takenError); !errors.As(err, &taken) {
			return err
		}
		for end := time.Now().Add(pause); time.Now().Before(end); {
			if i, _ := present(l.dir); i != nil {
				break
			}
			if !wait(ctx, startTick) {
				return err
			}
		}
	}
}

// wait returns false when ctx ends before the time is over.
func wait(ctx context.Context, pause time.Duration) bool {
	select {
	case <-time.After(pause):
		return true
	case <-ctx.Done():
		return false
	}
}

// join waits until an instance that runs already serves. It is not done when none runs, or runs no more.
func (l *launcher) join(ctx context.Context) (done bool, err error) {
	i, _ := present(l.dir)
	if i == nil {
		return false, nil
	}
	for {
		if err = connect(i).healthy(ctx); err == nil {
			fmt.Fprintf(l.env.Stdout, "coding-proxy is already running: http://%s, PID %d\n", i.Address, i.PID)
			return true, nil
		}
		if !i.Running() {
			return false, nil
		}
		if !wait(ctx, startTick) && isStopping(err) {
			return true, fmt.Errorf("process %d is stopping, and its requests in flight take longer than %v; try again, or stop it with --grace 0", i.PID, startPatience)
		} else if ctx.Err() != nil {
			return true, fmt.Errorf("process %d is running in %s, but does not answer at %s: %w", i.PID, absolute(l.dir), i.Address, err)
		}
	}
}

// takenError says that another process has the data directory.
type takenError struct{ text string }

func (e *takenError) Error() string { return e.text }

// spawn starts the process and waits until it serves. When it does not, it is gone on return.
func (l *launcher) spawn(ctx context.Context) error {
	report, err := os.CreateTemp("", "coding-proxy-start-*.json")
	if err != nil {
		return err
	}
	defer os.Remove(report.Name())
	if err := report.Close(); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the program itself: %w", err)
	}
	child := exec.Command(self, append(l.args, "--background", "--report="+report.Name())...)
	child.Env = l.env.Environ
	child.SysProcAttr = detached()
	if err := child.Start(); err != nil {
		return fmt.Errorf("start the process: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		_ = child.Wait() // its state says how it ended
		close(ended)
	}()
	i, err := l.await(ctx, child, ended)
	if err == nil && i != nil {
		l.greet(i)
		return nil
	}
	_ = child.Process.Kill() // it may have ended
	<-ended
	if i, readErr := daemon.ReadInstance(l.dir); readErr == nil && i.PID == child.Process.Pid {
		_ = i.Discard() // what is left says itself that it is nobody's
	}
	if err != nil {
		return err
	}
	return l.explain(report.Name(), child)
}

// await returns the instance when it serves, nil when the process has ended, or an error when it takes too long.
func (l *launcher) await(ctx context.Context, child *exec.Cmd, ended <-chan struct{}) (*daemon.Instance, error) {
	tick := time.NewTicker(startTick)
	defer tick.Stop()
	var last error = errors.New("it does not listen")
	for {
		select {
		case <-ended:
			return nil, nil
		case <-ctx.Done():
			return nil, fmt.Errorf("process %d did not serve within %v and was killed (%w); its log: %s", child.Process.Pid, startPatience, last, l.log)
		case <-tick.C:
		}
		i, _ := present(l.dir)
		if i == nil || i.PID != child.Process.Pid {
			continue
		}
		if last = connect(i).healthy(ctx); last == nil {
			return i, nil
		}
	}
}

// explain says why the process ended, in its own words if it left any.
func (l *launcher) explain(path string, child *exec.Cmd) error {
	var r startReport
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	switch {
	case r.Text == "" && child.ProcessState.Success(): // another command has stopped it already
		return &takenError{fmt.Sprintf("process %d was stopped before it was seen to serve; its log: %s", child.Process.Pid, l.log)}
	case err != nil || r.Text == "":
		return fmt.Errorf("process %d ended (%v) before it served; its log: %s", child.Process.Pid, child.ProcessState, l.log)
	case r.Locked:
		return &takenError{r.Text}
	}
	return errors.New(r.Text)
}

func (l *launcher) greet(i *daemon.Instance) {
	url := "http://" + i.Address
	fmt.Fprintf(l.env.Stdout, "coding-proxy is running in the background: %s, PID %d\n", url, i.PID)
	fmt.Fprintf(l.env.Stdout, "log:        %s\n", l.log)
	fmt.Fprintf(l.env.Stdout, "statistics: %s/stats\n", url)
	var words []string
	for _, word := range append([]string{os.Args[0], "stop"}, l.args[1:]...) {
		words = append(words, quoted(word))
	}
	fmt.Fprintf(l.env.Stdout, "stop it:    %s\n", strings.Join(words, " "))
}

// quoted writes a word so that a shell takes it for one.
func quoted(word string) string {
	if word != "" && !strings.ContainsAny(word, " \t\n\"'\\$`!*?()[]{}<>|&;~#") {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
