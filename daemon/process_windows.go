package daemon

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

const terminateSignal = syscall.SIGTERM // os.Process.Signal refuses it here

// queryLimited is PROCESS_QUERY_LIMITED_INFORMATION, errInvalid is ERROR_INVALID_PARAMETER: no such process.
const (
	queryLimited               = 0x1000
	errInvalid   syscall.Errno = 87
)

// processStart returns the start time of a process, as an opaque text that no other process ever has, or an error that
// is os.ErrProcessDone when there is none.
func processStart(pid int) (string, error) {
	h, err := syscall.OpenProcess(queryLimited|syscall.SYNCHRONIZE, false, uint32(pid))
	if errors.Is(err, errInvalid) {
		return "", os.ErrProcessDone
	}
	if err != nil {
		return "", fmt.Errorf("open process %d: %w", pid, err)
	}
	defer syscall.CloseHandle(h)
	// A process that has ended can be opened as long as anybody has a handle on it.
	if event, err := syscall.WaitForSingleObject(h, 0); err == nil && event == syscall.WAIT_OBJECT_0 {
		return "", os.ErrProcessDone
	}
	var created, exited, kernel, user syscall.Filetime
	if err := syscall.GetProcessTimes(h, &created, &exited, &kernel, &user); err != nil {
		return "", fmt.Errorf("start time of process %d: %w", pid, err)
	}
	return strconv.FormatInt(created.Nanoseconds(), 10), nil
}
