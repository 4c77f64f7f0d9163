package cli

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

// What a terminal gets is one line of text of a bounded width.
func TestShown(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"", 5, "–"}, {"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"通义千问", 8, "通义千问"}, {"通义千问", 7, "通义千…"}, {"通义千问", 6, "通义…"}, {"a\nb", 9, `a\nb`},
		{"\x1b[2J", 9, `\x1b[2J`}, {"\x1b[2J", 4, "…"}, {"\u009b2J", 9, `\u009b2J`}, {"\xff", 9, "\ufffd"}, {"\u202eabc", 9, `\u202eabc`}, {"é", 1, "é"}, {"e\u0301", 2, "e\u0301"},
		{"a" + strings.Repeat("\u0301", 100), 2, "a" + strings.Repeat("\u0301", 7) + "…"}, {"\x00\r\t", 20, `\x00\r\t`}, {`'"`, 5, `'"`},
	} {
		got := shown(c.text, c.most)
		if got != c.want || displayWidth(got) > max(1, c.most) {
			t.Errorf("%q in %d: %q, %d wide, want %q", c.text, c.most, got, displayWidth(got), c.want)
		}
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567"} {
		if got := thousands(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
	for v, want := range map[float64]string{0: "0.00", 0.00004: "<0.0001", 0.00005: "0.0001", 0.5: "0.5000", 1: "1.00", 1234.567: "1,234.57"} {
		if got := dollars(v); got != want {
			t.Errorf("%g: %s", v, got)
		}
	}
}

// Colours are for terminals, and their columns are as wide as without them.
func TestTableColours(t *testing.T) {
	var plain, coloured bytes.Buffer
	for _, c := range []struct {
		w       io.Writer
		colours bool
	}{{&plain, false}, {&coloured, true}} {
		table := newTable([]column{{name: "a", most: 9}, {name: "b", most: 9, right: true}}, c.colours)
		row := []cell{{"通义\x1b[2J", red}, {"7", plainColour}}
		table.fit(row)
		if err := errors.Join(table.head(c.w), table.print(c.w, row)); err != nil {
			t.Fatal(err)
		}
	}
	if want := "a          b\n通义\\x1b…  7\n"; plain.String() != want {
		t.Errorf("%q", plain.String())
	}
	if want := "\x1b[1ma\x1b[0m          \x1b[1mb\x1b[0m\n\x1b[31m通义\\x1b…\x1b[0m  7\n"; coloured.String() != want {
		t.Errorf("%q", coloured.String())
	}
	env, _, _ := testEnvironment()
	env.Getenv = func(name string) (string, bool) {
		if name == "TERM" {
			return "xterm", true
		}
		return "", false
	}
	if colours(env) {
		t.Error("a buffer has colours")
	}
	for _, c := range []struct {
		system, environment string
		want                bool
	}{
		{"linux", "TERM=xterm-256color", true}, {"linux", "TERM=dumb", false}, {"linux", "", false}, {"linux", "TERM=xterm NO_COLOR=1", false}, {"linux", "TERM=xterm NO_COLOR=", true},
		{"windows", "TERM=xterm", false}, {"windows", "WT_SESSION=1", true}, {"windows", "WT_SESSION=1 NO_COLOR=1", false},
	} {
		has := hasColours(c.system, func(name string) (string, bool) {
			for _, pair := range strings.Fields(c.environment) {
				if n, v, _ := strings.Cut(pair, "="); n == name {
					return v, true
				}
			}
			return "", false
		})
		if has != c.want {
			t.Errorf("%s, %s: %t", c.system, c.environment, has)
		}
	}
}
