// Package store writes whole files so that a crash at any moment leaves the old file or the new one.
package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// Store is the file system as the rooms see it.
type Store struct {
	Now func() time.Time
	// Rename replaces a file; nil means os.Rename. Tests make it fail.
	Rename func(from, to string) error
}

// Write replaces the file at path: temporary file in the same folder, fsync, rename. The file is readable by its
// owner only. On an error the old file is whole and no temporary file is left.
func (s Store) Write(path string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if _, err = f.Write(data); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err = f.Sync(); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err = f.Close(); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err = s.rename(f.Name(), path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	syncDir(filepath.Dir(path))
	return nil
}

// renameTries and renamePause bound the patience with a virus scanner or editor that holds the target open on
// Windows.
const (
	renameTries = 5
	renamePause = 20 * time.Millisecond
)

func (s Store) rename(from, to string) (err error) {
	rename := s.Rename
	if rename == nil {
		rename = os.Rename
	}
	for try := range renameTries {
		if err = rename(from, to); err == nil || !errors.Is(err, fs.ErrPermission) {
			return err
		}
		time.Sleep(renamePause << try)
	}
	return err
}

// syncDir makes the rename itself survive a power cut. Windows has no such call; elsewhere a failure leaves a whole
// file all the same.
func syncDir(dir string) {
	if runtime.GOOS == "windows" {
		return
	}
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		d.Close()
	}
}

// SetAside renames a file that cannot be read to NAME.bad-TIME, so that nothing overwrites it, and returns the new
// path.
func (s Store) SetAside(path string) (string, error) {
	base := path + ".bad-" + s.Now().Format("20060102T150405")
	aside := base
	for n := 2; ; n++ {
		if _, err := os.Lstat(aside); errors.Is(err, fs.ErrNotExist) {
			break
		}
		aside = fmt.Sprintf("%s-%d", base, n)
	}
	if err := os.Rename(path, aside); err != nil {
		return "", fmt.Errorf("set aside: %w", err)
	}
	return aside, nil
}
