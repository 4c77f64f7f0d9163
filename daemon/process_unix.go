//go:build unix && !linux

package daemon

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

const terminateSignal = syscall.SIGTERM

// processStart returns the start time of a process to the second, as an opaque text, or an error that is
// os.ErrProcessDone when there is none.
func processStart(pid int) (string, error) {
	if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
		return "", os.ErrProcessDone
	}
	ps := exec.Command("/bin/ps", "-o", "stat=", "-o", "lstart=", "-p", strconv.Itoa(pid))
	ps.Env = []string{"LC_ALL=C", "TZ=UTC0"} // it prints local time: the reader's zone must be the writer's
	output, err := ps.Output()
	if exit := new(exec.ExitError); errors.As(err, &exit) && len(output) == 0 {
		return "", os.ErrProcessDone
	}
	if err != nil {
		return "", fmt.Errorf("start time of process %d: %w", pid, err)
	}
	state, start, err := parsePS(string(output))
	if err != nil {
		return "", fmt.Errorf("start time of process %d: %w", pid, err)
	}
	if ended(state) {
		return "", os.ErrProcessDone
	}
	return start, nil
}
