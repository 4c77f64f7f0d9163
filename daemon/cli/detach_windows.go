package cli

import "syscall"

// The creation flags that package syscall does not name.
const (
	detachedProcess = 0x00000008 // no console, not even the parent's
	createNoWindow  = 0x08000000
)

// detached makes a process that outlives the console it was started from and does not hear its Ctrl-C.
func detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP | detachedProcess | createNoWindow}
}
