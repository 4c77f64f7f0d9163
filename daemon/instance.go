package daemon

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"coding-proxy/daemon/store"
)

const (
	instanceName = "proxy.pid"
	mostInstance = 64 << 10 // bytes of the file
	tokenBytes   = 32
)

// Instance is what a running daemon says of itself in proxy.pid, for the commands that find it there. It prints itself
// without the token.
type Instance struct {
	PID     int       `json:"pid"`
	Start   string    `json:"start"` // of that process, as the operating system has it: opaque
	Address string    `json:"address"`
	Token   string    `json:"token"` // opens the admin calls
	Started time.Time `json:"started"`
	Version string    `json:"version"`

	dir string
}

// UnreadableError says that there is a proxy.pid, but not one of ours.
type UnreadableError struct {
	Path string
	Err  error
}

func (e *UnreadableError) Error() string { return fmt.Sprintf("%s cannot be read: %v", e.Path, e.Err) }

func (e *UnreadableError) Unwrap() error { return e.Err }

// errNoStartTime says that the system does not tell when this process began.
var errNoStartTime = errors.New("the start time of this process cannot be read")

// announce writes proxy.pid with a fresh token. An errNoStartTime is no reason not to serve. The caller has the lock of the directory, so whatever stands there is
// left over and is replaced.
func announce(s store.Store, dir, address string) (*Instance, error) {
	start, err := processStart(os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoStartTime, err)
	}
	secret := make([]byte, tokenBytes)
	_, _ = rand.Read(secret) // it never fails
	i := &Instance{
		PID: os.Getpid(), Start: start, Address: address, Token: base64.RawURLEncoding.EncodeToString(secret),
		Started: s.Now(), Version: Version(), dir: dir,
	}
	if err := i.write(s); err != nil {
		return nil, fmt.Errorf("announce the instance: %w", err)
	}
	return i, nil
}

func (i *Instance) write(s store.Store) error {
	data, err := json.Marshal(i)
	if err != nil {
		return err
	}
	path := filepath.Join(i.dir, instanceName)
	if info, err := os.Lstat(path); err == nil && info.IsDir() { // a rename does not replace it
		if _, err := s.SetAside(path); err != nil {
			return err
		}
	}
	return s.Write(path, append(data, '\n'))
}

// renew writes proxy.pid again when somebody has removed or changed it: without it no command finds the instance. The
// caller has the lock of the directory, so what stands there is nobody else's.
func (i *Instance) renew(s store.Store) error {
	if i == nil {
		return nil
	}
	if now, err := ReadInstance(i.dir); err == nil && now.same(i) {
		return nil
	}
	if err := os.MkdirAll(i.dir, 0o700); err != nil {
		return err
	}
	return i.write(s)
}

func (i *Instance) same(as *Instance) bool {
	return i.PID == as.PID && i.Start == as.Start && i.Token == as.Token
}

// withdraw removes proxy.pid if it is still ours. The caller has the lock of the directory.
func (i *Instance) withdraw() {
	_ = i.remove() // a reader takes it for what it is: the rest of a process that is gone
}

// Discard removes the proxy.pid of a process that is gone, unless another instance has put its own there or is about to.
func (i *Instance) Discard() error {
	lock, err := lockDir(i.dir)
	if locked := new(LockedError); errors.As(err, &locked) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.release()
	return i.remove()
}

// removeTries and removePause bound the patience with a reader that has the file open on Windows.
const (
	removeTries = 5
	removePause = 10 * time.Millisecond
)

func (i *Instance) remove() (err error) {
	for try := range removeTries {
		if now, err := ReadInstance(i.dir); err != nil || !now.same(i) {
			return nil
		}
		if err = os.Remove(filepath.Join(i.dir, instanceName)); err == nil || !errors.Is(err, fs.ErrPermission) {
			return err
		}
		time.Sleep(removePause << try)
	}
	return err
}

// ReadInstance reads proxy.pid. The error is fs.ErrNotExist where there is none, else an *UnreadableError.
func ReadInstance(dir string) (*Instance, error) {
	path := filepath.Join(dir, instanceName)
	i := &Instance{dir: dir}
	if err := i.read(path); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no instance in %s: %w", dir, fs.ErrNotExist)
	} else if err != nil {
		return nil, &UnreadableError{path, err}
	}
	return i, nil
}

func (i *Instance) read(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() { // a pipe would keep its reader waiting
		return errors.New("not a file")
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, mostInstance))
	if err != nil {
		return err
	}
	return i.parse(data)
}

func (i *Instance) parse(data []byte) error {
	if err := json.Unmarshal(data, i); err != nil {
		return errors.New("not what an instance writes") // the text of the error could hold a part of the token
	}
	if _, _, err := net.SplitHostPort(i.Address); err != nil || i.PID <= 0 || i.Start == "" || i.Token == "" {
		return errors.New("something is missing")
	}
	return nil
}

// Running reports whether that very process is alive, not another one that was given its number.
func (i *Instance) Running() bool {
	alive, err := i.alive()
	return alive && err == nil
}

// alive is Running with why it cannot be told; then the process may well run.
func (i *Instance) alive() (bool, error) {
	if i.PID <= 0 || i.Start == "" {
		return false, nil
	}
	start, err := processStart(i.PID)
	if errors.Is(err, os.ErrProcessDone) {
		return false, nil
	}
	return err != nil || start == i.Start, err
}

// String names the instance without its token.
func (i Instance) String() string { return fmt.Sprintf("process %d at %s", i.PID, i.Address) }

// Format keeps every verb of fmt from showing the token.
func (i Instance) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, i.String()) } // fmt has no place for the error

// LogValue keeps loggers from showing the token.
func (i Instance) LogValue() slog.Value { return slog.StringValue(i.String()) }

// Version names the build.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	v, revision := "devel", ""
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		v = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			revision = " " + s.Value[:12]
		}
	}
	return v + revision + " " + info.GoVersion
}
