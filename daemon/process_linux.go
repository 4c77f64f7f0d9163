package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

const terminateSignal = syscall.SIGTERM

// processStart returns the start time of a process, as an opaque text that no other process ever has, or an error that
// is os.ErrProcessDone when there is none.
func processStart(pid int) (string, error) {
	path := "/proc/" + strconv.Itoa(pid) + "/stat"
	line, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return "", os.ErrProcessDone
	}
	if err != nil {
		return "", fmt.Errorf("start time of process %d: %w", pid, err)
	}
	s, err := parseStat(string(line))
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if s.ended() {
		return "", os.ErrProcessDone
	}
	// Ticks begin again with each boot. A sandbox may not show its boot's id: then they have to do.
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(boot)) + "/" + s.start, nil
}
