// Package daemon is the process: it builds the graph of rooms from a configuration and runs it.
package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"coding-proxy/auth"
	"coding-proxy/auth/oauth"
	"coding-proxy/daemon/config"
	"coding-proxy/daemon/store"
	"coding-proxy/pool"
	"coding-proxy/proxy"
	"coding-proxy/proxy/upstream"
	"coding-proxy/stats"
	"coding-proxy/web"
)

const (
	stateEvery    = 30 * time.Second
	headerTimeout = 15 * time.Second
	idleTimeout   = 2 * time.Minute
)

// Daemon is one running instance.
type Daemon struct {
	cfg       atomic.Pointer[config.Config]
	reloading sync.Mutex
	log       *slog.Logger
	now       func() time.Time
	store     store.Store
	accounts  *oauth.Manager
	reauth    *reauth
	upstreams map[string]*upstream.Upstream // as configured last
	lock      *dirLock
	instance  *Instance
	stats     *stats.Stats
	pool      *pool.Pool
	server    *server
	http      *http.Server
	listener  net.Listener
	state     []byte             // state.json as last written
	salt      []byte             // of the digests in it
	asked     chan time.Duration // an admin call asks for the end, and how long it may take
	look      time.Duration      // how often files are looked at that others may change
	stop      context.CancelFunc
	running   sync.WaitGroup
}

// New builds an instance and binds its address. The caller must Serve it, or Close it.
func New(cfg *config.Config, log *slog.Logger) (*Daemon, error) { return newDaemon(cfg, log, time.Now) }

func newDaemon(cfg *config.Config, log *slog.Logger, now func() time.Time) (_ *Daemon, err error) {
	d := &Daemon{log: log, now: now, store: store.Store{Now: now}, asked: make(chan time.Duration, 1), look: watchEvery}
	d.cfg.Store(cfg)
	dir := cfg.Server.DataDir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if d.lock, err = lockDir(dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			d.Close()
		}
	}()
	statsOptions := cfg.Stats
	statsOptions.Dir = dir
	if d.stats, err = stats.Open(statsOptions, d.store, now, log); err != nil {
		return nil, err
	}
	vault := OpenVault(dir, now)
	vault.Warn = func(message string) { d.log.Warn(message) }
	d.accounts = oauth.NewManager(vault, now, func() http.RoundTripper { return d.server.proxy.Transport("") })
	d.accounts.Configure(cfg.Logins)
	d.reauth = newReauth(d)
	d.pool = pool.New(cfg.Pool, usage{d.stats}, now, rand.Uint64())
	d.restore("sessions.json", d.pool.RestoreSessions)
	d.restore("state.json", d.restoreState)
	d.backfill()
	d.server = d.newServer(cfg, now)
	d.recallPace()
	d.http = &http.Server{
		Handler:           d.server,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    cfg.Proxy.Limits.MaxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	address := net.JoinHostPort(cfg.Server.Host, strconv.Itoa(cfg.Server.Port))
	if d.listener, err = net.Listen("tcp", address); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return d, d.announce(dir)
}

// announce lets commands find the instance.
func (d *Daemon) announce(dir string) (err error) {
	d.instance, err = announce(d.store, dir, d.Addr())
	if errors.Is(err, errNoStartTime) {
		d.log.Warn("no proxy.pid is written: status, stop and the like will not find this instance", "error", err)
		return nil
	}
	if err != nil {
		return err
	}
	d.server.token = d.instance.Token
	if r := redactionOf(d.log); r != nil {
		r.hide(auth.NewSecret(d.instance.Token))
	}
	return nil
}

func (d *Daemon) newServer(cfg *config.Config, now func() time.Time) *server {
	callers := auth.NewCallers(cfg.Auth)
	limiter := auth.NewLimiter(spending{d})
	s := &server{
		proxy:       proxy.New(cfg.Proxy, d.pool, callers, d.ways(cfg), d.stats, d.log, now),
		proxyRoutes: proxy.Routes(), webRoutes: web.Routes(), adminRoutes: web.AdminRoutes(),
		admin: web.NewAdmin(switchboard{d.pool, d}, d.pool, d, d.reauth, proxy.Dialects()), crossOrigin: http.NewCrossOriginProtection(),
		show: func(cfg *config.Config) *web.Web {
			return web.New(web.Sources{Pool: d.pool, Stats: d.stats, Accounts: d.reauth, Limiter: limiter, Journal: d.stats.Reader()}, cfg.Auth.RequestKeys, cfg.Web, now)
		},
		limiter: limiter, log: d.log, now: now,
	}
	if cfg.DebugUsage {
		s.proxy.KeepAnswers(newAnswers(cfg.Server.DataDir, d.log, now))
	}
	s.configure(cfg, callers)
	return s
}

// config returns the configuration that the instance runs by.
func (d *Daemon) config() *config.Config { return d.cfg.Load() }

// Shutdown asks for a graceful end: what is in flight gets the time, a negative one is the configured one.
func (d *Daemon) Shutdown(grace time.Duration) {
	if grace < 0 {
		grace = d.config().Server.Shutdown
	}
	select {
	case d.asked <- grace:
	default: // it is ending already
	}
}

// Config returns the configuration file as JSON without its secrets.
func (d *Daemon) Config() []byte { return d.config().Masked() }

// Resolve returns the resolved name of a model and the caller with the code; for "" the one of an instance without request
// keys, else somebody without a group. Errors are of auth.Callers.ByCode and auth.Limiter.May.
func (d *Daemon) Resolve(model, caller string) (string, auth.Caller, error) {
	resolved := d.pool.Resolve(model)
	callers := d.server.live.Load().callers
	if caller == "" && !callers.Open() {
		return resolved, auth.Caller{}, nil
	}
	now := d.server.now()
	who, err := callers.ByCode(caller, now)
	if err == nil {
		err = d.server.limiter.May(&who, now)
	}
	return resolved, who, err
}

// restore reads a state file. One that cannot be read is set aside: nothing else is lost for it.
func (d *Daemon) restore(name string, read func([]byte) error) {
	path := filepath.Join(d.config().Server.DataDir, name)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		err = read(data)
	}
	if err == nil {
		return
	}
	aside, asideErr := d.store.SetAside(path)
	d.log.Error("a state file cannot be read; it is set aside and the program goes on without it",
		"file", name, "aside", aside, "error", errors.Join(err, asideErr))
}

// Addr returns the address that the instance listens on.
func (d *Daemon) Addr() string { return d.listener.Addr().String() }

// Serve serves until ctx ends or an admin call asks for the end, then drains: what is in flight gets
// server.shutdown_seconds, new requests a 503. When force ends too, it stops at once. All data is written when it
// returns.
func (d *Daemon) Serve(ctx, force context.Context) error {
	background, stop := context.WithCancel(context.Background())
	d.stop = stop
	for _, run := range []func(context.Context){d.stats.Run, d.keepState, d.watchFiles} {
		d.running.Go(func() { run(background) })
	}
	failed := make(chan error, 1)
	go func() { failed <- d.http.Serve(d.listener) }()
	var err error
	select {
	case err = <-failed:
	case grace := <-d.asked:
		d.drain(force, grace)
	case <-ctx.Done():
		d.drain(force, d.config().Server.Shutdown)
	}
	d.Close()
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}

// drain waits until nothing is in flight, the time is up or force ends. An admin call may shorten the time.
func (d *Daemon) drain(force context.Context, grace time.Duration) {
	d.server.draining.Store(true)
	d.log.Info("stopping", "in_flight", d.server.proxy.InFlight(), "at_most", grace)
	end := time.Now().Add(grace)
	up := time.NewTimer(grace)
	defer up.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for d.server.proxy.Pending() > 0 {
		select {
		case shorter := <-d.asked:
			up.Reset(min(shorter, time.Until(end)))
			continue
		case <-tick.C:
			continue
		case <-up.C:
		case <-force.Done():
		}
		d.log.Warn("requests in flight are cut off", "in_flight", d.server.proxy.InFlight())
		return
	}
	if d.server.proxy.InFlight() > 0 {
		return
	}
	ctx, cancel := context.WithTimeout(force, closeWait)
	defer cancel()
	_ = d.http.Shutdown(ctx) // what is left is closed right after
}

// closeWait is how long handlers get to write their records after their connections were closed.
const closeWait = 5 * time.Second

// Close ends what is open and writes all data.
func (d *Daemon) Close() {
	if d.http != nil {
		_ = d.http.Close()
	}
	if d.listener != nil {
		_ = d.listener.Close()
	}
	if d.server != nil {
		for end := time.Now().Add(closeWait); d.server.proxy.InFlight() > 0 && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		d.server.proxy.CloseIdle()
	}
	if d.reauth != nil {
		d.reauth.close()
	}
	if d.stop != nil {
		d.stop()
		d.running.Wait()
	}
	if d.instance != nil {
		d.instance.withdraw()
		d.instance = nil
	}
	if d.lock != nil {
		d.lock.release()
		d.lock = nil
	}
}

// keepState writes sessions.json and state.json when they have changed, and once more at the end.
func (d *Daemon) keepState(ctx context.Context) {
	tick := time.NewTicker(stateEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			d.saveState()
		case <-ctx.Done():
			d.saveState()
			return
		}
	}
}

func (d *Daemon) saveState() {
	if s := d.pool.SnapshotSessions(); s != nil {
		if err := d.save("sessions.json", s); err != nil {
			d.pool.KeepSessions()
		}
	}
	state, err := d.encodeState()
	if err == nil && string(state) != string(d.state) && d.save("state.json", json.RawMessage(state)) == nil {
		d.state = state
	}
}

func (d *Daemon) save(name string, v any) error {
	data, err := json.Marshal(v)
	if err == nil {
		err = d.store.Write(filepath.Join(d.config().Server.DataDir, name), data)
	}
	if err != nil {
		d.log.Error("state cannot be written; it stays in memory", "file", name, "error", err)
	}
	return err
}

// usage lets the pool start its counts from the statistics.
type usage struct{ stats *stats.Stats }

func (u usage) Today(key string, now time.Time, w pool.Weights) float64 {
	return weigh(u.stats.KeyFigures(key, stats.WindowsAt(now).Today), w)
}

func (u usage) Month(key string, now time.Time, w pool.Weights) float64 {
	return weigh(u.stats.KeyFigures(key, stats.WindowsAt(now).Month), w)
}

func weigh(f stats.Figures, w pool.Weights) float64 {
	return w.Input*float64(f.InputTokens) + w.Output*float64(f.OutputTokens) +
		w.CacheCreation*float64(f.CacheCreationTokens) + w.CacheRead*float64(f.CacheReadTokens)
}
