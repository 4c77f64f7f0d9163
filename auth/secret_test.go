package auth

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
)

const hunter = "hunter2-geheim-密"

// leaks reports whether text shows any part of the secret, plain, quoted or in hexadecimal digits.
func leaks(text string) bool {
	for _, part := range []string{"hunter", "geheim", "密", fmt.Sprintf("%x", "hunter"), fmt.Sprintf("%X", "hunter"), fmt.Sprintf("% x", "hunter"), "104 117 110"} {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

// Secret prints itself as *** whatever verb gets hold of it, alone and inside others.
func TestSecretNeverPrints(t *testing.T) {
	s := NewSecret(hunter)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "% x", "%#x", "%10s", "%-10v", "%.3s", "%T",
		"%d", "%t", "%c", "%U", "%e", "%g", "%o", "%b", "%p", "%w", "%z", "%!"} {
		var shown []string
		for name, text := range map[string]string{
			"itself":   fmt.Sprintf(verb, s),
			"pointer":  fmt.Sprintf(verb, &s),
			"list":     fmt.Sprintf(verb, []Secret{s}),
			"map":      fmt.Sprintf(verb, map[string]Secret{"k": s}),
			"map key":  fmt.Sprintf(verb, map[Secret]int{s: 1}),
			"options":  fmt.Sprintf(verb, RequestKey{Code: "c", Key: s}),
			"embedded": fmt.Sprintf(verb, struct{ Secret }{s}),
			"any":      fmt.Sprintf(verb, struct{ A any }{s}),
		} {
			if leaks(text) {
				shown = append(shown, name)
			}
		}
		slices.Sort(shown)
		if len(shown) > 0 {
			t.Errorf("%s shows the secret of: %s", verb, strings.Join(shown, ", "))
		}
	}
	for _, text := range []string{fmt.Sprint(s), fmt.Sprintln(s), s.String(), fmt.Sprintf("%s", s), fmt.Sprintf("%v", s)} {
		if strings.TrimSpace(text) != "***" {
			t.Errorf("it prints as %q", text)
		}
	}
	if text := fmt.Errorf("key %v: %w", s, errors.New("refused")).Error(); text != "key ***: refused" {
		t.Errorf("in an error: %q", text)
	}
}

// fmt calls no methods on unexported fields: there, too, the text must not show. Upstreams and callers hold secrets in
// such fields.
func TestSecretInUnexportedFields(t *testing.T) {
	type holder struct {
		name   string
		secret Secret
	}
	h := holder{"n", NewSecret(hunter)}
	callers := NewCallers(Options{RequestKeys: []RequestKey{{Code: "one", Key: NewSecret(hunter)}}})
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		for name, text := range map[string]string{"a field": fmt.Sprintf(verb, h), "a pointer": fmt.Sprintf(verb, &h), "callers": fmt.Sprintf(verb, callers)} {
			if leaks(text) {
				t.Errorf("%s of %s shows the secret", verb, name)
			}
		}
	}
}

func TestSecretInEncoders(t *testing.T) {
	s := NewSecret(hunter)
	key := RequestKey{Code: "c", Key: s}
	text, err := json.Marshal(struct {
		S Secret
		P *Secret
		L []Secret
		M map[Secret]Secret
		K RequestKey
	}{s, &s, []Secret{s}, map[Secret]Secret{s: s}, key})
	if err != nil || leaks(string(text)) || strings.Count(string(text), "***") != 6 {
		t.Errorf("JSON: %s, %v", text, err)
	}
	type document struct{ S Secret }
	if text, err := xml.Marshal(document{s}); err != nil || leaks(string(text)) {
		t.Errorf("XML: %s, %v", text, err)
	}
	var buf bytes.Buffer
	_ = gob.NewEncoder(&buf).Encode(key) // it may refuse
	if leaks(buf.String()) {
		t.Errorf("gob: %q", buf.String())
	}
	var back Secret
	if err := json.Unmarshal([]byte(`"***"`), &back); err == nil && back.Reveal() == "***" {
		t.Error("a masked file reads back as a key")
	}
}

func TestSecretInLogs(t *testing.T) {
	s := NewSecret(hunter)
	for name, handler := range map[string]func(*bytes.Buffer) slog.Handler{
		"text": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
		"json": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
	} {
		var buf bytes.Buffer
		log := slog.New(handler(&buf)).With("with", s).WithGroup("g")
		log.Info("m", "secret", s, "pointer", &s, "list", []Secret{s}, "options", RequestKey{Code: "c", Key: s},
			"group", slog.GroupValue(slog.Any("s", s)), "error", fmt.Errorf("key %v", s))
		if leaks(buf.String()) || !strings.Contains(buf.String(), "***") {
			t.Errorf("%s: %s", name, buf.String())
		}
	}
}

func TestSecret(t *testing.T) {
	if s := NewSecret(hunter); s.Reveal() != hunter || s.IsZero() {
		t.Errorf("reveals %q", s.Reveal())
	}
	for _, s := range []Secret{{}, NewSecret("")} {
		if !s.IsZero() || s.Reveal() != "" || s.String() != "" {
			t.Errorf("empty: %q", s)
		}
	}
	if NewSecret("short").String() != NewSecret(strings.Repeat("long", 99)).String() {
		t.Error("the mask tells the length")
	}
}
