package daemon

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Process is a handle on the process of an instance: what is done to it cannot hit another process that was given the
// same number since. Where the system has such handles (Linux, Windows) they say so; elsewhere the start time is
// looked at right before.
type Process struct {
	instance *Instance
	handle   *os.Process
}

// Process returns a handle on the instance's process, or false when that process is gone.
func (i *Instance) Process() (*Process, bool) {
	if i.PID <= 0 { // these numbers mean groups of processes
		return nil, false
	}
	handle, err := os.FindProcess(i.PID)
	if err != nil {
		return nil, false
	}
	// Only now: whatever has the number from here on, the handle stays with the one that was looked at.
	if !i.Running() {
		_ = handle.Release()
		return nil, false
	}
	return &Process{i, handle}, true
}

// Terminate asks the process to end, as a service manager does. Windows knows no such signal: an error.
func (p *Process) Terminate() error { return p.signal(terminateSignal) }

// Kill ends the process at once.
func (p *Process) Kill() error { return p.signal(os.Kill) }

func (p *Process) signal(s os.Signal) error {
	if !p.instance.Running() {
		return os.ErrProcessDone
	}
	if err := p.handle.Signal(s); err != nil {
		return fmt.Errorf("signal %v to process %d: %w", s, p.instance.PID, err)
	}
	return nil
}

// Release gives the handle back.
func (p *Process) Release() { _ = p.handle.Release() }

// How often Wait looks. The systems tell only a parent of an end.
const (
	waitLeast = 2 * time.Millisecond
	waitMost  = 50 * time.Millisecond
)

// Wait returns nil when the process is gone, or the context's error.
func (p *Process) Wait(ctx context.Context) error {
	for pause := waitLeast; ; pause = min(2*pause, waitMost) {
		if alive, _ := p.instance.alive(); !alive { // what cannot be told has not ended
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// stat is what a line of Linux's /proc/PID/stat says.
type stat struct {
	state   string // field 3
	threads int    // field 20
	start   string // field 22: clock ticks since the boot
}

// parseStat reads a line. Field 2 is the command's name in parentheses, which may hold spaces and parentheses itself.
func parseStat(line string) (s stat, err error) {
	end := strings.LastIndexByte(line, ')')
	if end < 0 {
		return s, fmt.Errorf("no command name in %q", line)
	}
	fields := strings.Fields(line[end+1:])
	const first = 3
	if len(fields) <= 22-first {
		return s, fmt.Errorf("only %d fields behind the command name", len(fields))
	}
	if s.threads, err = strconv.Atoi(fields[20-first]); err != nil {
		return s, fmt.Errorf("the number of threads: %w", err)
	}
	s.state, s.start = fields[3-first], fields[22-first]
	return s, nil
}

// ended reports whether the process is over. One whose first thread is a zombie while others are still ending has its
// files and its lock yet.
func (s stat) ended() bool { return ended(s.state) && s.threads <= 1 }

// parsePS reads what `ps -o stat= -o lstart= -p PID` prints: the state, and the start time with seconds.
func parsePS(output string) (state, start string, err error) {
	fields := strings.Fields(output)
	const words = 6 // Ss Mon Nov 30 02:04:29 2026
	if len(fields) != words {
		return "", "", fmt.Errorf("expected a state and a time: %q", output)
	}
	return fields[0], strings.Join(fields[1:], " "), nil
}

// ended reports whether a state means that the process does not run any more: a zombie only waits for its parent.
func ended(state string) bool {
	return strings.HasPrefix(state, "Z") || strings.HasPrefix(strings.ToUpper(state), "X")
}
