//go:build unix

package cli

import "syscall"

// detached makes a process that outlives the terminal it was started from: it leads a session of its own.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
