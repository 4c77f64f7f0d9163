package daemon

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"coding-proxy/auth"
	"coding-proxy/daemon/config"
)

// minSecret is the shortest key material that is looked for: shorter text would hit ordinary words.
const minSecret = 8

// NewLogger returns a logger in which no configured key can appear.
func NewLogger(cfg *config.Config, w io.Writer) *slog.Logger {
	r := &redaction{known: map[string]bool{}}
	o := &slog.HandlerOptions{Level: &r.level}
	var h slog.Handler = slog.NewTextHandler(w, o)
	if cfg.Log.Format == "json" {
		h = slog.NewJSONHandler(w, o)
	}
	r.configure(cfg)
	return slog.New(&redacting{h, r})
}

// redaction is what a logger and its children have in common.
type redaction struct {
	level    slog.LevelVar
	replacer atomic.Pointer[strings.Replacer]

	mu    sync.Mutex
	known map[string]bool // key material, also that of older configurations: requests in flight may still use it
}

// configure takes the level and the secrets of a configuration over.
func (r *redaction) configure(cfg *config.Config) {
	r.level.Set(cfg.Log.Level)
	secrets := []auth.Secret{cfg.Auth.AdminKey}
	for _, k := range cfg.Auth.RequestKeys {
		secrets = append(secrets, k.Key)
	}
	ways := slices.AppendSeq(slices.Collect(maps.Values(cfg.Upstreams)), maps.Values(cfg.Proxy.MCP))
	for _, u := range ways {
		secrets = append(append(secrets, u.APIKey, u.Antigravity.ClientSecret, u.Proxy), slices.Collect(maps.Values(u.Headers))...)
		if at, err := url.Parse(u.Proxy.Reveal()); err == nil {
			word, _ := at.User.Password()
			secrets = append(secrets, auth.NewSecret(word))
		}
	}
	for _, l := range cfg.Logins {
		secrets = append(secrets, l.ClientSecret)
	}
	r.hide(secrets...)
}

// hide adds secrets.
func (r *redaction) hide(secrets ...auth.Secret) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range secrets {
		if text := s.Reveal(); len(text) >= minSecret {
			r.known[text] = true
		}
	}
	// One secret may hold another: the longer one goes first.
	texts := slices.SortedFunc(maps.Keys(r.known), func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	var pairs []string
	for _, text := range texts {
		pairs = append(pairs, text, "***")
	}
	r.replacer.Store(strings.NewReplacer(pairs...))
}

// redactionOf returns a logger's redaction; nil for a logger that NewLogger has not made.
func redactionOf(log *slog.Logger) *redaction {
	if h, ok := log.Handler().(*redacting); ok {
		return h.redaction
	}
	return nil
}

// redacting replaces key material in messages and attributes.
type redacting struct {
	slog.Handler
	*redaction
}

func (h *redacting) replace(s string) string { return h.replacer.Load().Replace(s) }

func (h *redacting) Handle(ctx context.Context, r slog.Record) error {
	clean := slog.NewRecord(r.Time, r.Level, h.replace(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(h.attr(a))
		return true
	})
	return h.Handler.Handle(ctx, clean)
}

func (h *redacting) attr(a slog.Attr) slog.Attr {
	a.Key = h.replace(a.Key)
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		return slog.String(a.Key, h.replace(v.String()))
	case slog.KindGroup:
		var group []slog.Attr
		for _, g := range v.Group() {
			group = append(group, h.attr(g))
		}
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(group...)}
	case slog.KindAny:
		if err, ok := v.Any().(error); ok {
			return slog.String(a.Key, h.replace(err.Error()))
		}
		return slog.String(a.Key, h.replace(v.String()))
	}
	return a
}

func (h *redacting) WithAttrs(attrs []slog.Attr) slog.Handler {
	clean := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		clean[i] = h.attr(a)
	}
	return &redacting{h.Handler.WithAttrs(clean), h.redaction}
}

func (h *redacting) WithGroup(name string) slog.Handler {
	return &redacting{h.Handler.WithGroup(h.replace(name)), h.redaction}
}
