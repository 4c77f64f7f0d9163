package config

import (
	"strings"
	"testing"
)

func TestDebugUsage(t *testing.T) {
	for text, want := range map[string]bool{"": false, "0": false, "false": false, "1": true, "true": true, "TRUE": true} {
		c := mustLoad(t, source(`{"server":{"data_dir":"there"}}`, map[string]string{"PROXY_DEBUG_USAGE": text}))
		told := strings.Join(c.Warnings, "\n")
		if c.DebugUsage != want || strings.Contains(told, "PROXY_DEBUG_USAGE") != want {
			t.Errorf("%q: %v, warnings %q", text, c.DebugUsage, told)
		}
		if want && !strings.Contains(strings.ReplaceAll(told, `\`, "/"), "there/debug") {
			t.Errorf("%q: the warning does not say where: %q", text, told)
		}
	}
	if mustLoad(t, source(`{}`, nil)).DebugUsage {
		t.Error("it is on without being asked for")
	}
	for _, text := range []string{"yes", "2", " ", "on"} {
		lines := problems(t, source(`{}`, map[string]string{"PROXY_DEBUG_USAGE": text}))
		if len(lines) != 1 || !strings.Contains(lines[0], "PROXY_DEBUG_USAGE: must be 1 or 0") {
			t.Errorf("%q: %q", text, lines)
		}
	}
}
