package cli

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"coding-proxy/daemon/config"
)

// testEnvironment takes what a command prints.
func testEnvironment() (env Environment, stdout, stderr *bytes.Buffer) {
	stdout, stderr = new(bytes.Buffer), new(bytes.Buffer)
	return Environment{
		Getenv:  func(string) (string, bool) { return "", false },
		HomeDir: func() (string, error) { return "", errors.New("none") },
		Stdout:  stdout, Stderr: stderr,
	}, stdout, stderr
}

// TestUsage compares the usage text with the table of commands, and asks each of them for help.
func TestUsage(t *testing.T) {
	var told, known []string
	for line := range strings.Lines(usageText) {
		if words := strings.Fields(line); strings.HasPrefix(line, "  ") && len(words) > 0 {
			told = append(told, words[0])
		}
	}
	for _, c := range commands() {
		known = append(known, c.name)
		env, _, stderr := testEnvironment()
		if code := Main([]string{c.name, "-h"}, env); code != exitDone || !strings.Contains(stderr.String(), "Usage") {
			t.Errorf("%s -h: exit %d: %s", c.name, code, stderr)
		}
		if strings.Contains(stderr.String(), hidden) {
			t.Errorf("%s -h shows what is not for people: %s", c.name, stderr)
		}
	}
	if !slices.Equal(told, known) {
		t.Errorf("the usage text has %v, the table %v", told, known)
	}
}

// TestSourceArguments: the process that start starts is to read the same flags.
func TestSourceArguments(t *testing.T) {
	for _, args := range [][]string{
		nil, {"--port=0"}, {"--config=a b.json", "--host=::1", "--data-dir=-d", "--port=65535"}, {"--host=localhost"},
	} {
		env, _, _ := testEnvironment()
		read := func(args []string) config.Source {
			fs := newFlags("x", "", "", env)
			src := sourceFlags(fs, env)
			if code, done := parse(fs, args, env); done {
				t.Fatalf("%q: exit %d", args, code)
			}
			src.Getenv, src.ReadFile, src.Stat = nil, nil, nil // no functions can be compared
			return *src
		}
		first := read(args)
		again := sourceArguments(first)
		if !slices.Equal(again, args) && len(args) > 0 || !reflect.DeepEqual(read(again), first) {
			t.Errorf("%q became %q", args, again)
		}
	}
}

func TestParseWords(t *testing.T) {
	for _, tc := range []struct {
		args  []string
		words []string
		port  string
		code  int
	}{
		{args: nil, code: exitUsage},
		{args: []string{"a"}, words: []string{"a"}},
		{args: []string{"a", "-port", "1"}, words: []string{"a"}, port: "1"},
		{args: []string{"-port", "1", "a", "b"}, words: []string{"a", "b"}, port: "1"},
		{args: []string{"a", "--port=1", "b"}, words: []string{"a", "b"}, port: "1"},
		{args: []string{"a", "b", "c"}, code: exitUsage},
		{args: []string{"a", "-x"}, code: exitUsage},
	} {
		env, _, stderr := testEnvironment()
		fs := newFlags("x", "", "", env)
		port := fs.String("port", "", "")
		words, code, done := parseWords(fs, tc.args, env, 1, 2)
		if !slices.Equal(words, tc.words) || code != tc.code || done != (code != 0) || !done && *port != tc.port || done && stderr.Len() == 0 {
			t.Errorf("%q: %q, port %q, exit %d, done %t: %s", tc.args, words, *port, code, done, stderr)
		}
	}
}

func TestGraceFlag(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"30s": 30 * time.Second, "30": 30 * time.Second, "0": 0, "2m": 2 * time.Minute, "1.5s": 1500 * time.Millisecond, "24h": 24 * time.Hour,
		"": -1, "x": -1, "-1": -1, "-1s": -1, "1.5": -1, "25h": -1, "99999999999": -1,
	} {
		fs := flag.NewFlagSet("x", flag.ContinueOnError)
		fs.SetOutput(io.Discard)
		grace := graceFlag(fs)
		err := fs.Parse([]string{"--grace=" + text})
		if (err != nil) != (want < 0) || err == nil && *grace != want {
			t.Errorf("%q: %v, %v", text, *grace, err)
		}
	}
}

func TestReachable(t *testing.T) {
	for address, want := range map[string][]string{
		"127.0.0.1:3456":         {"127.0.0.1:3456", "127.0.0.1:3456"},
		"[::1]:3456":             {"[::1]:3456", "[::1]:3456"},
		"0.0.0.0:3456":           {"localhost:3456", "127.0.0.1:3456", "[::1]:3456"},
		"[::]:3456":              {"localhost:3456", "127.0.0.1:3456", "[::1]:3456"},
		"192.168.1.5:3456":       {"192.168.1.5:3456", "192.168.1.5:3456"},
		"[fe80::1%eth0]:3456":    {"localhost:3456", "[fe80::1%eth0]:3456"},
		"[::ffff:0.0.0.0]:3456":  {"[::ffff:0.0.0.0]:3456", "[::ffff:0.0.0.0]:3456"},
		"name.of.a.machine:3456": {"name.of.a.machine:3456", "name.of.a.machine:3456"},
	} {
		host, dial := reachable(address)
		if got := append([]string{host}, dial...); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", address, got, want)
		}
	}
}

// TestLocateIsLenient: a command that looks for an instance says what is wrong and goes on.
func TestLocateIsLenient(t *testing.T) {
	env, _, stderr := testEnvironment()
	fs := newFlags("x", "", "", env)
	src := sourceFlags(fs, env)
	src.ReadFile = func(string) ([]byte, error) { return []byte(`{"server": {"data_dir": "elsewhere"}, "pool": `), nil }
	if dir := locate(src, env); dir != "elsewhere" || !strings.Contains(stderr.String(), "config.json:1:") || !strings.Contains(stderr.String(), absolute("elsewhere")) {
		t.Errorf("%q: %s", dir, stderr)
	}
}
