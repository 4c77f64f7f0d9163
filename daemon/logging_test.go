package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// No form in which a key may get to the log lets it through.
func TestLogRedacts(t *testing.T) {
	t.Parallel()
	const configured = "configured-header-secret"
	cfg, err := load(t, t.TempDir(), oneCaller(), poolOf(poolKey(k1, "http://127.0.0.1:1", `"headers":{"X-Org":"`+configured+`"}`)))
	if err != nil {
		t.Fatal(err)
	}
	type detail struct{ Header string }
	for _, format := range []string{"text", "json"} {
		cfg.Log.Format = format
		for _, secret := range []string{requestKey, credential(k1), configured} {
			text := "shown: " + secret + "."
			for name, write := range map[string]func(*slog.Logger){
				"message":       func(l *slog.Logger) { l.Info(text) },
				"attribute":     func(l *slog.Logger) { l.Info("m", "a", text) },
				"error":         func(l *slog.Logger) { l.Error("m", "error", fmt.Errorf("get: %w", errors.New(text))) },
				"group":         func(l *slog.Logger) { l.Warn("m", slog.Group("g", slog.Group("h", "a", text))) },
				"any":           func(l *slog.Logger) { l.Info("m", "a", detail{text}) },
				"pointer":       func(l *slog.Logger) { l.Info("m", "a", &detail{text}) },
				"list":          func(l *slog.Logger) { l.Info("m", "a", []string{text}) },
				"bytes":         func(l *slog.Logger) { l.Info("m", "a", []byte(text)) },
				"with":          func(l *slog.Logger) { l.With("a", text).Info("m") },
				"with group":    func(l *slog.Logger) { l.WithGroup("g").With("a", text).Info("m") },
				"of the server": func(l *slog.Logger) { slog.NewLogLogger(l.Handler(), slog.LevelWarn).Print(text) },
				"configuration": func(l *slog.Logger) { l.Info("m", "a", cfg, "b", cfg.Auth, "c", cfg.Upstreams) },
				"printed values": func(l *slog.Logger) {
					l.Info(fmt.Sprintf("%v %+v %#v %s %x", cfg, cfg, cfg, cfg.Auth.AdminKey, cfg.Auth.RequestKeys[0].Key))
				},
			} {
				var out bytes.Buffer
				write(NewLogger(cfg, &out))
				if got := out.String(); got == "" || strings.Contains(got, secret) {
					t.Errorf("%s, %s: %s", format, name, got)
				}
			}
		}
	}
}
