// Package config reads the configuration file: strict decoding, defaults, environment, older forms, every problem at once.
// Only it knows the file; the rooms below get their own options.
package config

import (
	"crypto/sha256"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"coding-proxy/auth"
	"coding-proxy/auth/oauth"
	"coding-proxy/pool"
	"coding-proxy/proxy"
	"coding-proxy/proxy/upstream"
	"coding-proxy/stats"
	"coding-proxy/web"
)

// Config is what the program runs by. Printed in any form it shows no key.
type Config struct {
	Server    Server
	Log       Log
	Auth      auth.Options
	Pool      pool.Options
	Upstreams map[string]upstream.Options // by key id
	Logins    map[string]oauth.Client     // by name
	Proxy     proxy.Options
	Stats     stats.Options
	Web       web.Options
	Path      string // the file read; "" = none, defaults
	Digest    Digest // of the file read
	origin    func() origin
	Warnings  []string // with line and column where they have one

	DebugUsage bool // keep raw answers of upstreams in the data directory
}

// Server says where the process listens and keeps its files.
type Server struct {
	Host         string
	Port         int    // 0 = any free one
	DataDir      string // relative to the working directory
	AllowedHosts []string
	Shutdown     time.Duration // how long requests in flight may go on at the end

	CORSOrigins    []string       // whose pages may ask the client endpoints; "*" = any, where a request key is needed
	TrustedProxies auth.Addresses // whose forwarded headers are believed; what comes through one is never local
}

// Log says what is logged and where to.
type Log struct {
	Level  slog.Level
	Format string // "text" or "json"
	File   string // "" = standard error
}

// Source is everything that a configuration is made of.
type Source struct {
	Path     string // --config; "" = ./config.json, else .coding-proxy/config.json in Home, else defaults
	Host     string // --host; "" = not given
	Port     *int   // --port
	DataDir  string // --data-dir
	Getenv   func(string) (string, bool)
	Environ  []string // NAME=value, to notice PROXY_API_KEY_ variables without a key
	Home     string
	ReadFile func(string) ([]byte, error)
	Stat     func(string) (fs.FileInfo, error)
}

// Load reads the configuration. Its error is always *Problems, with all of them.
func Load(src Source) (*Config, error) {
	path, data, err := find(src)
	if err != nil {
		return nil, err
	}
	d := &decoder{lookup: src.Getenv, named: make(map[string]bool), seen: make(map[string]value)}
	c, f := defaults(), &file{}
	c.Path, c.Digest, c.origin = path, digest(path, data), func() origin { return origin{src, data} }
	if path != "" {
		root, wrong := parse(data)
		if wrong != nil {
			return nil, &Problems{File: path, List: []Problem{*wrong}}
		}
		root = d.modernize(root)
		d.object(value{root, "", root.at}, rootFields(c, f))
		d.checkMode(src, path)
	}
	d.override(c, src)
	d.debugUsage(c)
	d.pool(c, f)
	d.callers(c, f)
	d.reachable(c, f)
	d.access(c, f)
	d.pricing(c, f)
	d.unsetVariables()
	if len(d.problems) > 0 {
		sortByPlace(d.problems)
		return nil, &Problems{File: path, List: d.problems}
	}
	d.strayVariables(src.Environ, c)
	c.Stats.Dir = c.Server.DataDir
	for i, host := range c.Server.AllowedHosts {
		c.Server.AllowedHosts[i] = strings.ToLower(host)
	}
	c.Web.AllowedHosts = c.Server.AllowedHosts
	sortByPlace(d.warnings)
	c.Warnings = render(path, d.warnings)
	return c, nil
}

// origin is where a configuration came from; behind a function, since it holds secrets and is not to be printed.
type origin struct {
	source Source
	data   []byte
}

// Digest tells whether a file has changed.
type Digest [sha256.Size]byte

func digest(path string, data []byte) Digest {
	return sha256.Sum256(append([]byte(path+"\x00"), data...))
}

// Again reads the configuration anew, from where it came: a file that is gone is an error, not the defaults.
func (c *Config) Again() (*Config, error) { return Load(c.from()) }

// OnDisk is the digest of the file that Again would read now; of none when it cannot be read.
func (c *Config) OnDisk() Digest {
	path, data, err := find(c.from())
	if err != nil {
		return Digest{}
	}
	return digest(path, data)
}

func (c *Config) from() Source {
	src := c.origin().source
	if c.Path != "" {
		src.Path = c.Path
	}
	return src
}

// find reads the first file there is; a file that was asked for must be there.
func find(src Source) (path string, data []byte, err error) {
	paths := []string{"config.json"}
	if src.Path != "" {
		paths = []string{src.Path}
	} else if src.Home != "" {
		paths = append(paths, filepath.Join(src.Home, ".coding-proxy", "config.json"))
	}
	for _, path := range paths {
		data, err := src.ReadFile(path)
		if err == nil {
			return path, data, nil
		}
		if src.Path != "" || !errors.Is(err, fs.ErrNotExist) {
			return "", nil, &Problems{File: path, List: []Problem{{Text: "reading the configuration: " + err.Error()}}, cause: err}
		}
	}
	return "", nil, nil
}

func defaults() *Config {
	return &Config{
		Server: Server{Host: "127.0.0.1", Port: 3456, DataDir: "data", Shutdown: 30 * time.Second},
		Log:    Log{Level: slog.LevelInfo, Format: "text"},
		Pool:   pool.Defaults(),
		Proxy:  proxy.Defaults(),
		Stats:  stats.Defaults(),
	}
}

func (d *decoder) checkMode(src Source, path string) {
	info, err := src.Stat(path)
	if err != nil || runtime.GOOS == "windows" { // there the mode bits say nothing about other users
		return
	}
	if mode := info.Mode().Perm(); mode&0o044 != 0 {
		d.warn(value{path: path}, "other users can read this file (mode %04o); chmod 600 keeps its keys from them", mode)
	}
}

// reachable refuses an address that others can reach without any key.
func (d *decoder) reachable(c *Config, f *file) {
	if isLocal(c.Server.Host, false) || len(f.callers) > 0 || f.localKey.given() {
		return
	}
	d.fail(d.seen["server.host"], "an address that is not loopback needs `auth.request_keys`: anyone could use the pool")
}

func (d *decoder) unsetVariables() {
	for _, m := range d.missing {
		if !m.moot {
			d.warn(m.at, "environment variable %s is not set%s", m.variable, m.effect)
		}
	}
}
