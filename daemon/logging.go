package daemon

import (
	"context"
	"io"
	"log/slog"
	"strings"

	"coding-proxy/daemon/config"
)

// minSecret is the shortest key material that is looked for: shorter text would hit ordinary words.
const minSecret = 8

// NewLogger returns a logger in which no configured key can appear.
func NewLogger(cfg *config.Config, w io.Writer) *slog.Logger {
	o := &slog.HandlerOptions{Level: cfg.Log.Level}
	var h slog.Handler = slog.NewTextHandler(w, o)
	if cfg.Log.Format == "json" {
		h = slog.NewJSONHandler(w, o)
	}
	var secrets []string
	add := func(s string) {
		if len(s) >= minSecret {
			secrets = append(secrets, s, "***")
		}
	}
	for _, k := range cfg.Auth.RequestKeys {
		add(k.Key.Reveal())
	}
	for _, u := range cfg.Upstreams {
		add(u.APIKey.Reveal())
		for _, v := range u.Headers {
			add(v.Reveal())
		}
	}
	if secrets != nil {
		h = &redacting{h, strings.NewReplacer(secrets...)}
	}
	return slog.New(h)
}

// redacting replaces key material in messages and attributes.
type redacting struct {
	slog.Handler
	replacer *strings.Replacer
}

func (h *redacting) Handle(ctx context.Context, r slog.Record) error {
	clean := slog.NewRecord(r.Time, r.Level, h.replacer.Replace(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(h.attr(a))
		return true
	})
	return h.Handler.Handle(ctx, clean)
}

func (h *redacting) attr(a slog.Attr) slog.Attr {
	a.Key = h.replacer.Replace(a.Key)
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		return slog.String(a.Key, h.replacer.Replace(v.String()))
	case slog.KindGroup:
		var group []slog.Attr
		for _, g := range v.Group() {
			group = append(group, h.attr(g))
		}
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(group...)}
	case slog.KindAny:
		if err, ok := v.Any().(error); ok {
			return slog.String(a.Key, h.replacer.Replace(err.Error()))
		}
		return slog.String(a.Key, h.replacer.Replace(v.String()))
	}
	return a
}

func (h *redacting) WithAttrs(attrs []slog.Attr) slog.Handler {
	clean := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		clean[i] = h.attr(a)
	}
	return &redacting{h.Handler.WithAttrs(clean), h.replacer}
}

func (h *redacting) WithGroup(name string) slog.Handler {
	return &redacting{h.Handler.WithGroup(h.replacer.Replace(name)), h.replacer}
}
