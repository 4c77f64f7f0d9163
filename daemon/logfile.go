package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
)

// A log file is rotated before it grows over logSize bytes; of the older ones logKept are kept.
const (
	logSize = 10 << 20
	logKept = 5
)

// LogFile is a log that is rotated: NAME becomes NAME.1, that one NAME.2 and so on. Each Write must be of whole lines;
// none is torn or lost by a rotation. Where a file cannot be renamed the log goes on in the one it has.
type LogFile struct {
	path   string
	most   int64
	kept   int
	rename func(from, to string) error
	crash  bool // what the runtime prints when the program crashes goes there too

	mu     sync.Mutex
	file   *os.File // nil: it could not be opened again
	size   int64
	next   int64 // the size from which on a rotation is tried
	closed bool
}

// OpenLogFile opens a log for writing at its end, and sends there what the runtime prints in a crash.
func OpenLogFile(path string) (*LogFile, error) {
	l := &LogFile{path: path, most: logSize, kept: logKept, rename: os.Rename, crash: true}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("log file: %w", err)
	}
	if err := l.open(); err != nil {
		return nil, fmt.Errorf("log file: %w", err)
	}
	return l, nil
}

// open replaces the file that is written. On an error the old one stays.
func (l *LogFile) open() error {
	f, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return err
	}
	if l.crash {
		_ = debug.SetCrashOutput(f, debug.CrashOptions{}) // without it a crash is only on standard error
	}
	if l.file != nil {
		_ = l.file.Close()
	}
	l.file, l.size, l.next = f, info.Size(), l.most
	return nil
}

// Write appends lines.
func (l *LogFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return 0, fs.ErrClosed
	}
	if l.file != nil && l.size > 0 && l.size+int64(len(p)) > l.next {
		l.rotate()
	}
	if l.file == nil {
		if err := l.open(); err != nil {
			return 0, fmt.Errorf("log file: %w", err)
		}
	}
	n, err := l.file.Write(p)
	l.size += int64(n)
	return n, err
}

// rotate begins a new file. When that fails it is tried again after another tenth of the size.
func (l *LogFile) rotate() {
	turn, busy, _ := openLocked(filepath.Join(filepath.Dir(l.path), "."+filepath.Base(l.path)+".lock"))
	if busy { // another process that writes the same log rotates it now: two at once would overwrite. The next write looks again
		return
	}
	if turn != nil {
		defer turn.Close()
	}
	ours, _ := l.file.Stat()
	if runtime.GOOS == "windows" { // an open file cannot be renamed, nor one that the runtime holds
		if l.crash {
			_ = debug.SetCrashOutput(nil, debug.CrashOptions{})
		}
		_ = l.file.Close()
		l.file = nil
	}
	// Another process that writes the same log may have rotated it: then only the new one is opened.
	now, err := os.Stat(l.path)
	if err == nil && ours != nil && os.SameFile(now, ours) {
		err = l.shift()
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if openErr := l.open(); err != nil || openErr != nil {
		l.next = max(l.size, l.most) + l.most/10
	}
}

// shift renames the files, the oldest first. It stops at the first failure: what is not renamed is not overwritten.
func (l *LogFile) shift() error {
	for n := l.kept; n > 0; n-- {
		from := l.path
		if n > 1 {
			from += "." + strconv.Itoa(n-1)
		}
		if err := l.rename(from, l.path+"."+strconv.Itoa(n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("rotate the log: %w", err)
		}
	}
	return nil
}

// Close ends the log.
func (l *LogFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.crash {
		_ = debug.SetCrashOutput(nil, debug.CrashOptions{})
	}
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}
