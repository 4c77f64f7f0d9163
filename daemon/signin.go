package daemon

import (
	"maps"
	"net/http"
	"reflect"
	"slices"

	"coding-proxy/daemon/config"
	"coding-proxy/pool"
	"coding-proxy/proxy/upstream"
)

// ways builds the upstreams of a configuration. Keys that are as they were keep theirs, and with it their tokens.
func (d *Daemon) ways(cfg *config.Config) map[string]*upstream.Upstream {
	env := upstream.Env{
		Transport: func(outbound string) http.RoundTripper { return d.server.proxy.Transport(outbound) },
		Accounts:  d.accounts, Now: d.now, Version: Version(),
	}
	ups := upstreams(cfg, env)
	before := d.cfg.Load()
	for id, u := range d.upstreams {
		if ups[id] != nil && reflect.DeepEqual(before.Upstreams[id], cfg.Upstreams[id]) {
			ups[id] = u
		}
	}
	d.upstreams = ups
	return ups
}

func upstreams(cfg *config.Config, env upstream.Env) map[string]*upstream.Upstream {
	ups := make(map[string]*upstream.Upstream, len(cfg.Upstreams))
	for _, id := range slices.Sorted(maps.Keys(cfg.Upstreams)) { // of keys that share a login, the last one's proxy is its way
		ups[id] = upstream.New(cfg.Upstreams[id], env)
	}
	return ups
}

// switchboard is the pool's for an operator: what resets a key resets its sign-in, too.
type switchboard struct {
	*pool.Pool
	d *Daemon
}

// Reset resets a tier, a key or, by no name, everything.
func (s switchboard) Reset(name string) error {
	if err := s.Pool.Reset(name); err != nil {
		return err
	}
	for _, t := range s.Pool.View().Tiers {
		for _, k := range t.Keys {
			if name == "" || name == t.Name || name == k.ID {
				s.renew(k.ID)
			}
		}
	}
	return nil
}

// ResetKey resets a key.
func (s switchboard) ResetKey(id string) error {
	err := s.Pool.ResetKey(id)
	if err == nil {
		s.renew(id)
	}
	return err
}

func (s switchboard) renew(id string) {
	if u := s.d.reauth.ups()[id]; u != nil {
		u.Reset()
	}
}
