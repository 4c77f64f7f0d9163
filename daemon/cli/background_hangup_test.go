//go:build linux

package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"coding-proxy/daemon"
)

// TestTerminal is about the process that runs in the foreground of a terminal. SIGHUP reads the configuration again as
// long as the terminal is there; that the terminal is gone is an end like SIGTERM, but for a process that was told to
// outlive it (nohup).
func TestTerminal(t *testing.T) {
	binary := buildProxy(t.Context(), t)
	for _, nohup := range []bool{false, true} {
		b := newBackground(t, binary, "")
		log := filepath.Join(b.home, "my.log")
		b.configure(fmt.Sprintf(`{"server": {"port": 0}, "log": {"file": %q}}`, log))
		logged := func(text string, times int) func() bool {
			return func() bool {
				data, _ := os.ReadFile(log)
				return strings.Count(string(data), text) >= times
			}
		}
		master, slave := openTerminal(t)
		command := append([]string{binary, "serve"}, b.flags...)
		if nohup {
			command = append([]string{"/bin/sh", "-c", `trap "" HUP; exec "$0" "$@"`}, command...)
		}
		serving := &running{Cmd: exec.CommandContext(b.ctx, command[0], command[1:]...)}
		serving.Dir, serving.Env = b.home, b.env
		serving.Stdin, serving.Stdout, serving.Stderr = slave, slave, slave
		serving.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		if err := serving.Start(); err != nil {
			t.Fatal(err)
		}
		slave.Close()
		b.begun[serving.Process.Pid] = true
		b.until("it is announced", func() bool {
			i, err := daemon.ReadInstance(b.data)
			return err == nil && i.PID == serving.Process.Pid
		})
		const reloaded = "configuration reloaded"
		b.signal(syscall.SIGHUP)
		b.until("it is read again", logged(reloaded, 1))
		b.status("running")
		master.Close()
		if nohup {
			b.until("it is read again", logged(reloaded, 2))
			b.status("running")
			b.must(0, "stop")("has stopped")
		}
		b.end(serving).check(t, "serve", 0)
		if !logged("msg=stopped", 1)() {
			t.Error("the end is not logged")
		}
		b.status("stopped")
	}
}

// openTerminal returns both sides of a new pseudo terminal.
func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	var number, locked uint32
	for request, to := range map[uintptr]*uint32{syscall.TIOCGPTN: &number, syscall.TIOCSPTLCK: &locked} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, master.Fd(), request, uintptr(unsafe.Pointer(to))); errno != 0 {
			t.Fatal(errno)
		}
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}
