package cli

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// summer is noon of a summer's day, at which all zones of these tests differ.
var summer = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// zoneFile is a zone with one offset in seconds, in version 1 of TZif (RFC 9636, section 3).
func zoneFile(offset uint32) string {
	file := append([]byte("TZif"), make([]byte, 16)...)
	for _, count := range []uint32{0, 0, 0, 0, 1, 4} { // one type, and its name of 4 bytes
		file = binary.BigEndian.AppendUint32(file, count)
	}
	return string(binary.BigEndian.AppendUint32(file, offset)) + "\x00\x00ABC\x00"
}

func TestApplyZone(t *testing.T) {
	if !alone(t) {
		return
	}
	dir := t.TempDir()
	file, text := filepath.Join(dir, "zone"), filepath.Join(dir, "text")
	for path, content := range map[string]string{file: zoneFile(7200), text: "Europe/Berlin"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const unset, unknown = "(not set)", "no time zone is called so"
	for _, tc := range []struct {
		tz     string
		offset int // of summer, in minutes
		wrong  string
	}{
		{unset, 345, ""}, // the system's, as the test has set it
		{"", 0, ""}, {"UTC", 0, ""}, {":", 0, ""},
		{"Asia/Shanghai", 480, ""}, {":Asia/Shanghai", 480, ""},
		{"America/New_York", -240, ""}, {"Australia/Lord_Howe", 630, ""}, {"Asia/Kolkata", 330, ""}, {"Europe/Berlin", 120, ""},
		{"EST5EDT", -240, ""}, {"Etc/GMT+3", -180, ""},
		{file, 120, ""}, {":" + file, 120, ""},
		{"Asia/Shangai", 0, unknown}, {"asia/shanghai ", 0, unknown}, {"UTC0", 0, unknown}, {"CET-1CEST", 0, unknown},
		{"CET-1CEST,M3.5.0,M10.5.0/3", 0, unknown}, {"Local", 0, unknown}, {"../UTC", 0, unknown}, {" ", 0, unknown},
		{filepath.Join(dir, "none"), 0, "that file cannot be read"}, {text, 0, "that file is no zone file"}, {dir, 0, "that file cannot be read"},
	} {
		t.Run(tc.tz, func(t *testing.T) {
			time.Local = time.FixedZone("system", 345*60)
			env, _, stderr := testEnvironment()
			if tc.tz != unset {
				env.Getenv = func(name string) (string, bool) { return tc.tz, name == "TZ" }
			}
			code := Main([]string{"check", "--config=" + filepath.Join(dir, "absent.json")}, env)
			if tc.wrong != "" {
				want := fmt.Sprintf("coding-proxy check: TZ is %q, and %s", tc.tz, tc.wrong)
				if code != exitUsage || !strings.HasPrefix(stderr.String(), want) || !strings.Contains(stderr.String(), "CET-1CEST are not read") {
					t.Errorf("exit %d: %s", code, stderr)
				}
				return
			}
			if code != exitFailed || strings.Contains(stderr.String(), "TZ") {
				t.Errorf("exit %d: %s", code, stderr)
			}
			if _, offset := summer.Local().Zone(); offset != tc.offset*60 {
				t.Errorf("summer is %v", summer.Local())
			}
		})
	}
}

// Each command refuses a TZ that names no zone, but for those that have nothing to do with days; help is always given.
func TestUnknownZoneRefusesCommands(t *testing.T) {
	indifferent := map[string]bool{"stop": true, "reload": true, "reset": true, "enable": true, "disable": true, "logout": true, "version": true, "help": true}
	for _, c := range commands() {
		for _, args := range [][]string{{c.name, "--no-such-flag"}, {c.name, "-h"}, {c.name, "-help"}} {
			env, _, stderr := testEnvironment()
			env.Getenv = func(name string) (string, bool) { return "Mars/Olympus", name == "TZ" }
			code := Main(args, env)
			switch refused := strings.Contains(stderr.String(), "TZ is"); {
			case args[1] != "--no-such-flag" && (refused || code != exitDone):
				t.Errorf("%v: exit %d: %s", args, code, stderr)
			case args[1] == "--no-such-flag" && (refused == indifferent[c.name] || code != exitUsage):
				t.Errorf("%v: exit %d: %s", args, code, stderr)
			}
		}
	}
}

// zonePrinter makes the test's own program a process that prints its local time, as a child of start would have it.
const zonePrinter = "CODING_PROXY_TEST_ZONE"

// TestZoneOfProcess runs in a process of its own: TZ is read once in a process.
func TestZoneOfProcess(t *testing.T) {
	if os.Getenv(zonePrinter) != "" {
		if err := applyZone(Environment{Getenv: os.LookupEnv}); err != nil {
			t.Fatal(err)
		}
		fmt.Println("local:", summer.Local().Format(time.RFC3339), time.Unix(summer.Unix(), 0).Format("-0700"))
		return
	}
	for tz, want := range map[string]string{
		"Asia/Kolkata": "2026-07-01T17:30:00+05:30 +0530", "America/Sao_Paulo": "2026-07-01T09:00:00-03:00 -0300", "": "2026-07-01T12:00:00Z +0000",
	} {
		child := exec.Command(os.Args[0], "-test.run=^TestZoneOfProcess$", "-test.v")
		child.Env = []string{zonePrinter + "=1", "TZ=" + tz, "ZONEINFO=" + filepath.Join(t.TempDir(), "none"), "SYSTEMROOT=" + os.Getenv("SYSTEMROOT")}
		out, err := child.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "local: "+want) {
			t.Errorf("TZ=%s: %v: %s", tz, err, out)
		}
	}
}
