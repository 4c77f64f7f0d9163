package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestWriteReplacesWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f.json")
	for _, text := range []string{"first", "", "a longer second"} {
		if err := (Store{}).Write(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Fatalf("%q %v", got, err)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v %v", info.Mode(), err)
	}
	if n := names(t, dir); len(n) != 1 {
		t.Errorf("left behind: %v", n)
	}
}

// CFG-010: a target that somebody holds open for a moment is waited for; one that stays closed leaves the old file
// whole and no litter.
func TestCFG010RenameBusy(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f.json")
	os.WriteFile(path, []byte("old"), 0o600)
	for _, tc := range []struct {
		failures int
		want     string
	}{{3, "new"}, {99, "old"}} {
		os.WriteFile(path, []byte("old"), 0o600)
		n := 0
		s := Store{Rename: func(from, to string) error {
			if n++; n <= tc.failures {
				return &fs.PathError{Op: "rename", Path: to, Err: fs.ErrPermission}
			}
			return os.Rename(from, to)
		}}
		err := s.Write(path, []byte("new"))
		if got, _ := os.ReadFile(path); string(got) != tc.want || (err != nil) != (tc.want == "old") {
			t.Errorf("%d failures: %q %v", tc.failures, got, err)
		}
		if n := names(t, dir); len(n) != 1 {
			t.Errorf("%d failures: left behind: %v", tc.failures, n)
		}
	}
	s := Store{Rename: func(string, string) error { return errors.New("broken") }}
	if err := s.Write(path, nil); err == nil {
		t.Error("another fault passes")
	}
}

func TestSetAside(t *testing.T) {
	dir := t.TempDir()
	s := Store{Now: func() time.Time { return time.Date(2026, 11, 29, 1, 2, 3, 0, time.UTC) }}
	path := filepath.Join(dir, "f.json")
	for _, want := range []string{"f.json.bad-20261129T010203", "f.json.bad-20261129T010203-2"} {
		os.WriteFile(path, []byte(want), 0o600)
		got, err := s.SetAside(path)
		if err != nil || filepath.Base(got) != want {
			t.Fatalf("%q %v", got, err)
		}
		if text, _ := os.ReadFile(got); string(text) != want {
			t.Errorf("%q", text)
		}
	}
	if _, err := s.SetAside(path); err == nil {
		t.Error("a file that is not there is set aside")
	}
}
