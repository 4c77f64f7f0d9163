package daemon

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"
)

// limitsOfKey is what the API says of what the key's provider told of its limits.
func (i *instance) limitsOfKey(key string) string {
	i.t.Helper()
	var page struct {
		Tiers []struct {
			Keys []struct {
				ID     string
				Limits json.RawMessage `json:"upstream_limits"`
			}
		}
	}
	if err := json.Unmarshal([]byte(i.ask("GET", "/api/pool/stats", "").body), &page); err != nil {
		i.t.Fatal(err)
	}
	for _, t := range page.Tiers {
		for _, k := range t.Keys {
			if k.ID == key {
				return string(k.Limits)
			}
		}
	}
	i.t.Fatalf("no key %s", key)
	return ""
}

// What a provider tells of its limits is shown with its age, survives a restart, and goes when the key's credential
// changes, at a reload as at a restart. Of a key that passes its callers' credentials on nothing is kept.
func TestUpstreamLimits(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	began := time.Now().UTC().Truncate(time.Second)
	clock := &clock{time: began}
	b := newBackend(t, says(200, whole, "Anthropic-Ratelimit-Unified-5h-Status: allowed", "Anthropic-Ratelimit-Unified-5h-Utilization: 0.42",
		fmt.Sprintf("Anthropic-Ratelimit-Unified-5h-Reset: %d", began.Add(time.Hour).Unix()), "Set-Cookie: 5h=secret"))
	told := func(age int) string {
		return fmt.Sprintf(`[{"name":"5h","limit":null,"remaining":null,"used_percent":42,"status":"allowed","reset":%q,"seen":%q,"age_seconds":%d}]`,
			began.Add(time.Hour).Format(time.RFC3339), began.Format(time.RFC3339), age)
	}
	check := func(i *instance, when, want string) {
		t.Helper()
		if got := i.limitsOfKey(k1); got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	another := fmt.Sprintf(`{"id":%q,"protocol":"anthropic","base_url":%q,"api_key":"another-credential"}`, k1, b.URL)
	i := startInAt(t, dir, clock, nil, poolOf(poolKey(k1, b.URL)))
	check(i, "before any request", "[]")
	i.good(question(sonnet))
	check(i, "after a request", told(0))
	clock.set(clock.now().Add(90 * time.Second))
	check(i, "later", told(90))
	i.stop()

	i = startInAt(t, dir, clock, nil, poolOf(poolKey(k1, b.URL)))
	check(i, "after a restart", told(90))
	i.rewrite(poolOf(another))
	if _, err := i.Reload(); err != nil {
		t.Fatal(err)
	}
	check(i, "after a reload with another credential", "[]")
	i.good(question(sonnet))
	i.stop()

	i = startInAt(t, dir, clock, nil, poolOf(poolKey(k1, b.URL)))
	check(i, "after a restart with another credential", "[]")
	i.rewrite(poolOf(passthroughKey(k1, b.URL)))
	if _, err := i.Reload(); err != nil {
		t.Fatal(err)
	}
	i.good(question(sonnet), "Authorization: Bearer of-the-client")
	check(i, "of a caller's own credential", "[]")
}
