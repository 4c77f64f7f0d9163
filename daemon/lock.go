package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// dirLock keeps a second instance off a data directory. It is the operating system's lock on an open file, so that a
// killed process leaves none behind; the file's text says who has it.
type dirLock struct{ file *os.File }

// LockedError says that another instance has the data directory.
type LockedError struct {
	Dir string
	PID string // "" when it cannot be read
}

func (e *LockedError) Error() string {
	who := "another instance"
	if e.PID != "" {
		who = "the process " + e.PID
	}
	return fmt.Sprintf("the data directory %s is in use by %s", e.Dir, who)
}

func lockDir(dir string) (*dirLock, error) {
	path := filepath.Join(dir, "lock")
	f, busy, err := openLocked(path)
	if busy {
		text, _ := os.ReadFile(path) // who has it is told if it can be
		return nil, &LockedError{Dir: dir, PID: strings.TrimSpace(string(text))}
	}
	if err != nil {
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteString(strconv.Itoa(os.Getpid()) + "\n")
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}
	return &dirLock{f}, nil
}

func (l *dirLock) release() {
	_ = l.file.Truncate(0)
	_ = l.file.Close()
}

// lockPause is between two looks at a lock that somebody else has, for as long as the work takes.
const lockPause = 10 * time.Millisecond

// waitLocked is openLocked that waits, until ctx ends, while somebody else has the lock.
func waitLocked(ctx context.Context, path string) (*os.File, error) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%s is in use by another process: %w", path, context.Cause(ctx))
		case <-pause.C:
		}
		f, busy, err := openLocked(path)
		if !busy {
			return f, err
		}
		pause.Reset(lockPause)
	}
}
