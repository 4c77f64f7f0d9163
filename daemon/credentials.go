package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"coding-proxy/auth/oauth"
	"coding-proxy/daemon/store"
)

const (
	credentialsName    = "credentials.json"
	credentialsVersion = 1
	mostCredentials    = 4 << 20 // bytes of the file
	lockPatience       = 5 * time.Second
	othersMayRead      = 0o077
)

// Credentials keeps in credentials.json what people have signed in to. Several processes may use one file.
type Credentials struct {
	// Warn is told, once each, what a person should know. It may be set before the first use.
	Warn func(message string)

	dir     string
	store   store.Store
	open    atomic.Bool // the file was seen with a mode that lets others read
	changed func()      // tests: before a change is written
}

var _ oauth.Vault = (*Credentials)(nil)

// OpenVault returns the credentials of a data directory, which is made when something is kept.
func OpenVault(dir string, now func() time.Time) *Credentials {
	return &Credentials{dir: dir, store: store.Store{Now: now}, Warn: func(string) {}}
}

func (c *Credentials) path() string { return filepath.Join(c.dir, credentialsName) }

// errDamaged says that the file is not one of ours.
var errDamaged = errors.New("it is damaged")

// Read returns what is kept. It waits for nobody: the file is always whole.
func (c *Credentials) Read() (map[string]oauth.Credential, error) {
	kept, err := c.read()
	if !errors.Is(err, errDamaged) {
		return kept, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), lockPatience)
	defer cancel()
	err = c.locked(ctx, credentialsLock(""), func() (err error) {
		kept, err = c.readOrSetAside()
		return err
	})
	return kept, err
}

// Update changes what is kept while no other process can.
func (c *Credentials) Update(ctx context.Context, change func(kept map[string]oauth.Credential) error) error {
	return c.locked(ctx, credentialsLock(""), func() error {
		kept, err := c.readOrSetAside()
		if err != nil {
			return err
		}
		if err := change(kept); err != nil {
			return err
		}
		data, err := encodeCredentials(kept)
		if err != nil {
			return fmt.Errorf("%s: %w", credentialsName, err)
		}
		if c.changed != nil {
			c.changed()
		}
		c.sweep()
		return c.store.Write(c.path(), data)
	})
}

// Hold does the work while nobody else does any of the same name.
func (c *Credentials) Hold(ctx context.Context, name string, work func() error) error {
	return c.locked(ctx, credentialsLock(name), work)
}

// credentialsLock is the file whose lock is that of an account, or of the whole file for "". Names may hold what file names
// cannot.
func credentialsLock(name string) string {
	if name == "" {
		return "credentials.lock"
	}
	sum := sha256.Sum256([]byte(name))
	return "credentials-" + hex.EncodeToString(sum[:4]) + ".lock"
}

func (c *Credentials) locked(ctx context.Context, name string, work func() error) error {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	f, err := waitLocked(ctx, filepath.Join(c.dir, name))
	if err != nil {
		return fmt.Errorf("lock the credentials: %w", err)
	}
	defer f.Close()
	return work()
}

// readOrSetAside reads the file. One that is damaged is set aside and counts as empty: people can sign in again. Its caller
// has the lock, so no other process has just put a good one there.
func (c *Credentials) readOrSetAside() (map[string]oauth.Credential, error) {
	kept, err := c.read()
	if !errors.Is(err, errDamaged) {
		return kept, err
	}
	aside, err := c.store.SetAside(c.path())
	if err != nil {
		return nil, fmt.Errorf("%s is damaged and cannot be set aside: %w", credentialsName, err)
	}
	_ = os.Chmod(aside, 0o600) // it may hold tokens
	c.Warn(fmt.Sprintf("%s could not be read; it is set aside as %s, and everybody has to sign in again", credentialsName, filepath.Base(aside)))
	return map[string]oauth.Credential{}, nil
}

func (c *Credentials) read() (map[string]oauth.Credential, error) {
	f, err := os.Open(c.path())
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]oauth.Credential{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the credentials: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil {
		c.lookAt(info.Mode())
	}
	data, err := io.ReadAll(io.LimitReader(f, mostCredentials+1))
	if err != nil {
		return nil, fmt.Errorf("read the credentials: %w", err)
	}
	return decodeCredentials(data)
}

// lookAt warns of a file that others can read. Windows has other means, which the mode does not tell.
func (c *Credentials) lookAt(mode fs.FileMode) {
	if runtime.GOOS == "windows" || mode.Perm()&othersMayRead == 0 || !c.open.CompareAndSwap(false, true) {
		return
	}
	c.Warn(fmt.Sprintf("%s can be read or changed by other users of this machine (mode %04o): run `chmod 600 %s`, and sign in again if you do not trust them",
		credentialsName, mode.Perm(), c.path()))
}

// sweep removes what processes that were killed while writing have left: it may hold tokens. Nobody writes meanwhile.
func (c *Credentials) sweep() {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if name := e.Name(); strings.HasPrefix(name, "."+credentialsName+".") && strings.HasSuffix(name, ".tmp") {
			_ = os.Remove(filepath.Join(c.dir, name))
		}
	}
}

// credentialsFile is credentials.json.
type credentialsFile struct {
	Version     int                         `json:"version"`
	Credentials map[string]oauth.Credential `json:"credentials"`
}

func encodeCredentials(kept map[string]oauth.Credential) ([]byte, error) {
	data, err := json.MarshalIndent(credentialsFile{credentialsVersion, kept}, "", "  ")
	return append(data, '\n'), err
}

// decodeCredentials reads the file's text. errDamaged: it is none; any other error: it is of a newer version. The errors of
// json would tell what is in it.
func decodeCredentials(data []byte) (map[string]oauth.Credential, error) {
	var version struct{ Version int }
	if len(data) > mostCredentials || json.Unmarshal(data, &version) != nil || version.Version < 1 {
		return nil, fmt.Errorf("%s: %w", credentialsName, errDamaged)
	}
	if version.Version > credentialsVersion {
		return nil, fmt.Errorf("%s is of version %d, from a newer coding-proxy; this one knows version %d and leaves it alone",
			credentialsName, version.Version, credentialsVersion)
	}
	var f credentialsFile
	if json.Unmarshal(data, &f) != nil {
		return nil, fmt.Errorf("%s: %w", credentialsName, errDamaged)
	}
	kept := map[string]oauth.Credential{}
	maps.Copy(kept, f.Credentials)
	return kept, nil
}
