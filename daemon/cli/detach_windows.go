package cli

import "syscall"

// detachedProcess is DETACHED_PROCESS, which package syscall does not name: no console, not even the parent's.
const detachedProcess = 0x00000008

// detached makes a process that outlives the console it was started from and does not hear its Ctrl-C.
func detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP | detachedProcess}
}
