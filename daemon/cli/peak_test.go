//go:build linux

package cli_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// peakOf runs a command and returns what it prints, the time until it begins to, and its peak memory in KiB then. Its
// output goes into a pipe that is full, so that it is alive when its memory is looked at. (What the system says of a
// process that has ended is no less than the memory of the one that started it.)
func peakOf(ctx context.Context, t *testing.T, command ...string) (out []byte, took time.Duration, peak int64) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	junk := fill(t, w)
	var stderr bytes.Buffer
	c := exec.CommandContext(ctx, command[0], command[1:]...)
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	if zone, ok := os.LookupEnv("TZ"); ok {
		c.Env = append(c.Env, "TZ="+zone)
	}
	c.Stdout, c.Stderr = w, &stderr
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	began := time.Now()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	tick := time.NewTicker(200 * time.Microsecond)
	defer tick.Stop()
	for !printing(t, c.Process.Pid) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("waited for the output")
		}
	}
	took, peak = time.Since(began), memoryStatus(t, c.Process.Pid, "VmHWM")
	all, err := io.ReadAll(r)
	if err := errors.Join(err, c.Wait()); err != nil {
		t.Fatalf("%v: %v: %s", command, err, &stderr)
	}
	return all[junk:], took, peak
}

// fill writes into a pipe until there is no more room.
func fill(t *testing.T, w *os.File) (n int) {
	t.Helper()
	fd := int(w.Fd()) // makes it a blocking one, as a child wants it
	if err := syscall.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	for page := make([]byte, 4096); ; page = page[:max(1, len(page)/2)] {
		for {
			written, err := syscall.Write(fd, page)
			if errors.Is(err, syscall.EAGAIN) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			n += written
		}
		if len(page) == 1 {
			break
		}
	}
	if err := syscall.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
	return n
}

// printing reports whether the process is in the midst of write(1, …). One that has ended without it fails the test.
func printing(t *testing.T, pid int) bool {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
	if err != nil {
		t.Fatal(err)
	}
	alive := false
	for _, path := range tasks {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended
		}
		alive = true
		if call := strings.Fields(string(text)); len(call) > 2 && call[0] == fmt.Sprint(syscall.SYS_WRITE) && call[1] == "0x1" {
			return true
		}
	}
	if state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); !alive || err != nil || strings.Contains(string(state), ") Z ") {
		t.Fatalf("process %d has ended and printed nothing", pid)
	}
	return false
}
