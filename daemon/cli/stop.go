package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"coding-proxy/daemon"
)

const (
	stopAsk    = 2 * time.Second // for the answer to the call that asks for the end
	stopQuiet  = time.Second     // before it is said what is waited for
	stopMargin = 6 * time.Second // for handlers and data after the last request
	stopKilled = 5 * time.Second // for the system to take a killed process away
	mostGrace  = 24 * time.Hour
)

// stop ends the running instance, after its requests.
func stop(args []string, env Environment) int {
	fs := newFlags("stop", "", "Ends what runs in the background, after the requests in flight.", env)
	src := sourceFlags(fs, env)
	grace := graceFlag(fs)
	if code, done := parse(fs, args, env); done {
		return code
	}
	unbroken()
	i, absent := present(locate(src, env))
	if i == nil {
		fmt.Fprintf(env.Stderr, "coding-proxy stop: %s%s\n", absent, stranger(src))
		return exitAbsent
	}
	return halt(i, *grace, env)
}

// graceFlag takes 30s as well as 30.
func graceFlag(fs *flag.FlagSet) *time.Duration {
	grace := 30 * time.Second
	fs.Func("grace", "give requests in flight up to this `time` (default 30s)", func(s string) error {
		if _, err := strconv.Atoi(s); err == nil {
			s += "s"
		}
		d, err := time.ParseDuration(strings.TrimSpace(s))
		if err != nil || d < 0 || d > mostGrace {
			return errors.New("a time is written as 30s, 2m or 0, up to 24h")
		}
		grace = d
		return nil
	})
	return &grace
}

// halt ends an instance: it is asked, then told by signal, then killed.
func halt(i *daemon.Instance, grace time.Duration, env Environment) int {
	p, ok := i.Process()
	if !ok {
		fmt.Fprintf(env.Stdout, "coding-proxy has ended (PID %d)\n", i.PID)
		return exitDone
	}
	defer p.Release()
	how, err := end(i, p, grace, env.Stdout)
	if err != nil {
		fmt.Fprintf(env.Stderr, "coding-proxy stop: process %d goes on: %v\n", i.PID, err)
		return exitFailed
	}
	if err := i.Discard(); err != nil { // a clean end has removed it
		fmt.Fprintf(env.Stderr, "warning: %v\n", err)
	}
	fmt.Fprintf(env.Stdout, "coding-proxy has %s (PID %d)\n", how, i.PID)
	return exitDone
}

// end returns when the process is gone, with what it took.
func end(i *daemon.Instance, p *daemon.Process, grace time.Duration, out io.Writer) (how string, err error) {
	if err := request(i, grace); err != nil {
		// Windows has no signal for it.
		if signalErr := p.Terminate(); signalErr != nil && !errors.Is(signalErr, os.ErrProcessDone) {
			return "been killed: it could not be asked to stop (" + err.Error() + ")", kill(p)
		}
	}
	if gone(p, min(grace, stopQuiet)) {
		return "stopped", nil
	}
	if grace > stopQuiet {
		fmt.Fprintf(out, "waiting for requests in flight, up to %v\n", grace)
	}
	if gone(p, grace-min(grace, stopQuiet)) {
		return "stopped", nil
	}
	// One that was asked by a signal may have a longer time configured: a second one ends that.
	_ = p.Terminate()
	if gone(p, stopMargin) {
		return "stopped", nil
	}
	return fmt.Sprintf("been killed: it did not end within %v", grace+stopMargin), kill(p)
}

// request asks the instance to end after its requests.
func request(i *daemon.Instance, grace time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopAsk)
	defer cancel()
	seconds := strconv.FormatFloat(grace.Seconds(), 'f', -1, 64)
	_, err := connect(i).call(ctx, http.MethodPost, "/admin/shutdown?grace="+seconds)
	return err
}

func gone(p *daemon.Process, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	return p.Wait(ctx) == nil
}

func kill(p *daemon.Process) error {
	_ = p.Kill() // whether it helped is seen
	if !gone(p, stopKilled) {
		return errors.New("it cannot be killed")
	}
	return nil
}
