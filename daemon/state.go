package daemon

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"

	"coding-proxy/pool"
	"coding-proxy/proxy/upstream"
)

// stateFile is state.json: the pool's state, and digests that tell whether a key's credential or address is another one
// since. They are salted, anew for each data directory, and cut off: nobody can tell a credential by them.
type stateFile struct {
	pool.State
	Salt []byte            `json:"salt"`
	Ways map[string]string `json:"ways"` // key id → digest
}

const (
	saltBytes = 16
	wayBytes  = 8
)

func (d *Daemon) encodeState() ([]byte, error) {
	if len(d.salt) != saltBytes {
		d.salt = make([]byte, saltBytes)
		_, _ = rand.Read(d.salt) // it never fails
	}
	f := stateFile{State: *d.pool.SnapshotState(), Salt: d.salt, Ways: map[string]string{}}
	for id, o := range d.config().Upstreams {
		f.Ways[id] = wayDigest(d.salt, o)
	}
	return json.Marshal(f)
}

// restoreState takes over what the file says, but for what another credential or address has earned.
func (d *Daemon) restoreState(data []byte) error {
	var f struct {
		Salt []byte
		Ways map[string]string
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	if err := d.pool.RestoreState(data); err != nil {
		return err
	}
	d.salt = f.Salt
	cfg := d.config()
	d.forgive(cfg, func(id string) bool {
		was, ok := f.Ways[id]
		return ok && was != wayDigest(f.Salt, cfg.Upstreams[id])
	})
	return nil
}

// wayDigest is of all that makes a key's way to its provider.
func wayDigest(salt []byte, o upstream.Options) string {
	h := hmac.New(sha256.New, salt)
	write := func(s string) { fmt.Fprintf(h, "%d:%s", len(s), s) }
	for _, e := range o.Endpoints {
		if e.Protocol != upstream.Anthropic { // that was the only one when the first digests were written
			write(e.Protocol)
		}
		if e.BaseURL != nil {
			write(e.BaseURL.String())
		}
		write(e.HeaderName)
		write(e.HeaderPrefix)
	}
	write(o.APIKey.Reveal())
	if o.Account != "" || o.Provider != "" {
		write(o.Account)
		write(o.Provider)
		for _, u := range []*url.URL{o.TokenURL, o.Copilot.BaseURL, o.Antigravity.BaseURL} {
			if u != nil {
				write(u.String())
			}
		}
		write(o.Antigravity.ClientID)
	}
	for _, name := range slices.Sorted(maps.Keys(o.Headers)) {
		write(name)
		write(o.Headers[name].Reveal())
	}
	return hex.EncodeToString(h.Sum(nil)[:wayBytes])
}
