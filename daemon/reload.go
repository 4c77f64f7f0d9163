package daemon

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"time"

	"coding-proxy/auth"
	"coding-proxy/daemon/config"
	"coding-proxy/pool"
	"coding-proxy/stats"
	"coding-proxy/web"
)

// watchEvery is how often the configuration file is looked at.
const watchEvery = 2 * time.Second

// Reload reads the configuration anew and goes on by it. One that is wrong changes nothing: the error is a
// *config.Problems. Requests in flight finish as they began.
func (d *Daemon) Reload() (web.Reloaded, error) { return d.reload(false) }

// reload is Reload; changed says that a version that is in use already changes nothing.
func (d *Daemon) reload(changed bool) (web.Reloaded, error) {
	d.reloading.Lock()
	defer d.reloading.Unlock()
	before := d.config()
	if changed && before.OnDisk() == before.Digest { // while the lock was waited for
		return web.Reloaded{}, nil
	}
	cfg, err := before.Again()
	if err != nil {
		d.log.Error("the configuration is wrong; the old one goes on", "problems", err)
		return web.Reloaded{}, err
	}
	done := web.Reloaded{Warnings: cfg.Warnings, NeedsRestart: needsRestart(before, cfg)}
	cfg.Server.Host, cfg.Server.Port, cfg.Server.DataDir = before.Server.Host, before.Server.Port, before.Server.DataDir
	cfg.Stats.Dir, cfg.Stats.UsageFile = before.Stats.Dir, before.Stats.UsageFile
	cfg.Log.Format, cfg.Log.File = before.Log.Format, before.Log.File
	cfg.Proxy.Limits.MaxHeaderBytes = before.Proxy.Limits.MaxHeaderBytes
	if r := redactionOf(d.log); r != nil {
		r.configure(cfg)
	}
	d.apply(before, cfg)
	d.cfg.Store(cfg)
	d.log.Info("configuration reloaded", "file", cfg.Path, "keys", len(cfg.Upstreams), "warnings", len(done.Warnings))
	for _, w := range done.Warnings {
		d.log.Warn(w)
	}
	if len(done.NeedsRestart) > 0 {
		d.log.Warn("some changes apply after a restart", "fields", strings.Join(done.NeedsRestart, ", "))
	}
	return done, nil
}

// apply changes the running rooms. The proxy learns of new keys before the pool leases them.
func (d *Daemon) apply(before, cfg *config.Config) {
	callers := auth.NewCallers(cfg.Auth)
	d.accounts.Configure(cfg.Logins)
	d.server.proxy.Configure(cfg.Proxy, callers, d.ways(cfg))
	d.pool.Configure(cfg.Pool)
	d.forgive(cfg, func(id string) bool {
		old, ok := before.Upstreams[id]
		return ok && !reflect.DeepEqual(old, cfg.Upstreams[id])
	})
	d.server.configure(cfg, callers)
	d.backfill()
	d.stats.Keep(cfg.Stats.JournalDays, cfg.Stats.UsageDays)
	d.stats.Price(cfg.Stats.Pricing)
}

// forgive resets what was earned by a credential or an address that is gone: of keys, and of tiers all of whose keys
// have another now.
func (d *Daemon) forgive(cfg *config.Config, isNew func(id string) bool) {
	for _, t := range cfg.Pool.Tiers {
		changed := 0
		for _, k := range t.Keys {
			if isNew(k.ID) {
				changed++
				_ = d.pool.ResetKey(k.ID) // it is there
			}
		}
		if changed > 0 && changed == len(t.Keys) {
			_ = d.pool.ResetTier(t.Name) // it is there
		}
	}
}

// backfill fills the windows of quota guards from the journal.
func (d *Daemon) backfill() {
	err := d.pool.Backfill(func(since time.Time, each func(pool.Past)) error {
		return d.stats.Replay(since, func(r *stats.Record) {
			each(pool.Past{At: r.TS, Tier: r.Tier, Tokens: pool.Tokens{Input: r.InputTokens, Output: r.OutputTokens,
				CacheCreation: r.CacheCreationTokens, CacheRead: r.CacheReadTokens}})
		})
	})
	if err != nil {
		d.log.Error("the windows of quota guards cannot be filled from the journal; they begin empty", "error", err)
	}
}

// needsRestart names what changed and is bound for as long as the process runs.
func needsRestart(a, b *config.Config) []string {
	var names []string
	for name, same := range map[string]bool{
		"server.host": a.Server.Host == b.Server.Host, "server.port": a.Server.Port == b.Server.Port,
		"server.data_dir": a.Server.DataDir == b.Server.DataDir, "log.format": a.Log.Format == b.Log.Format,
		"log.file": a.Log.File == b.Log.File, "limits.max_header_bytes": a.Proxy.Limits.MaxHeaderBytes == b.Proxy.Limits.MaxHeaderBytes,
	} {
		if !same {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// watchFiles reloads when the configuration has changed, notices who has signed in, and keeps proxy.pid in its place. A version
// that is wrong is told of once.
func (d *Daemon) watchFiles(ctx context.Context) {
	tick := time.NewTicker(d.look)
	defer tick.Stop()
	last := d.config().Digest
	d.signedInMeanwhile()
	var complained time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := d.instance.renew(d.store); err != nil && time.Since(complained) >= time.Minute {
			complained = time.Now()
			d.log.Warn("proxy.pid is gone and cannot be written again: commands will not find this instance", "error", err)
		}
		d.lookAtAccounts()
		now := d.config().OnDisk()
		if now != last && now != d.config().Digest { // another version than the one that was last seen, and than that in use
			_, _ = d.reload(true) // it logs what it finds
		}
		last = now
	}
}
