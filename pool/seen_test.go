package pool_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"coding-proxy/pool"
)

func some(v float64) *float64 { return &v }

// saw lets an answer of the key tell limits.
func (r *rig) saw(key string, limits ...pool.Seen) {
	r.t.Helper()
	l := r.lease(&pool.Want{Scope: pool.Only(key), Model: "m"})
	l.Saw(limits)
	l.Close(pool.Outcome{}, pool.Tokens{})
}

func names(limits []pool.Seen) string {
	var out []string
	for _, s := range limits {
		out = append(out, s.Name)
	}
	return strings.Join(out, " ")
}

// Each limit is kept as it was told last, with the time of that.
func TestSeenLimits(t *testing.T) {
	r := pair(t)
	if seen := r.key("k").Seen; len(seen) != 0 {
		t.Errorf("of a new key: %v", seen)
	}
	first := pool.Seen{Name: "requests", Limit: some(50), Remaining: some(49), Reset: noon.Add(minute)}
	r.saw("k", first, pool.Seen{Name: "5h", UsedPercent: some(42), Status: "allowed"})
	r.add(minute)
	r.saw("k", pool.Seen{Name: "requests", Remaining: some(3), At: noon.Add(-time.Hour)})
	r.saw("k")
	want := []pool.Seen{
		{Name: "5h", UsedPercent: some(42), Status: "allowed", At: noon},
		{Name: "requests", Remaining: some(3), At: noon.Add(minute)},
	}
	if got := r.key("k").Seen; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if seen := r.key("spare").Seen; len(seen) != 0 {
		t.Errorf("of another key: %v", seen)
	}
}

// They are bounded: the names, and how many there are. What was told longest ago goes first.
func TestSeenLimitsAreBounded(t *testing.T) {
	r := pair(t)
	for n := range 40 {
		r.saw("k", pool.Seen{Name: fmt.Sprintf("limit-%02d", n), Remaining: some(1)}, pool.Seen{Name: "5h", Remaining: some(1)})
		r.add(time.Second)
	}
	if got := names(r.key("k").Seen); !strings.HasPrefix(got, "5h limit-25 ") || !strings.HasSuffix(got, " limit-39") || strings.Count(got, " ") != 15 {
		t.Errorf("kept: %s", got)
	}
	r = pair(t)
	for _, name := range []string{"", "Requests", "a b", "a\x00", "a\n", "<b>", "ä", strings.Repeat("x", 33)} {
		r.saw("k", pool.Seen{Name: name, Remaining: some(1)})
	}
	equal(t, "kept", names(r.key("k").Seen), "")
	r.saw("k", pool.Seen{Name: strings.Repeat("x", 32)}, pool.Seen{Name: "7d_oi"})
	equal(t, "kept", len(r.key("k").Seen), 2)
}

// A key that passes its callers' credentials on has as many accounts as callers: nothing is kept.
func TestSeenLimitsOfCallersAreNotKept(t *testing.T) {
	r := newRig(t, options(pool.FillFirst, pool.Key{ID: "k", Passthrough: true}), nil)
	r.saw("k", pool.Seen{Name: "5h", UsedPercent: some(42)})
	if seen := r.key("k").Seen; len(seen) != 0 {
		t.Errorf("%v", seen)
	}
}

// With another credential they are gone, and an answer to the old one brings none back.
func TestSeenLimitsGoWithTheCredential(t *testing.T) {
	r := pair(t)
	late := r.leaseOf("k", ask(""))
	r.saw("k", pool.Seen{Name: "5h", UsedPercent: some(42)})
	r.add(time.Second)
	if err := r.ResetKey("k"); err != nil {
		t.Fatal(err)
	}
	late.Saw([]pool.Seen{{Name: "7d", UsedPercent: some(1)}})
	equal(t, "kept", names(r.key("k").Seen), "")
	r.saw("k", pool.Seen{Name: "7d", UsedPercent: some(2)})
	equal(t, "kept", names(r.key("k").Seen), "7d")
}

// They survive a reload and a restart; a key that is gone takes its own along.
func TestSeenLimitsSurvive(t *testing.T) {
	o := options(pool.FillFirst, plain("k", "spare")...)
	r := newRig(t, o, nil)
	r.saw("k", pool.Seen{Name: "tokens", Limit: some(1e6), Remaining: some(0), Reset: noon.Add(time.Hour), Status: "rejected"})
	r.add(minute)
	want := r.key("k").Seen
	r.Configure(o)
	for what, r := range map[string]*rig{"reload": r, "restart": r.reopened(o)} {
		if got := r.key("k").Seen; !reflect.DeepEqual(got, want) {
			t.Errorf("after a %s: %+v, want %+v", what, got, want)
		}
	}
	r.Configure(options(pool.FillFirst, plain("spare")...))
	equal(t, "limits", len(r.SnapshotState().Limits), 0)
	r.Configure(o)
	equal(t, "of a key that was gone", names(r.key("k").Seen), "")
}

// What no state of ours has does no harm.
func TestOddSeenLimits(t *testing.T) {
	long := strings.Repeat(`{"name":"x","remaining":1,"seen":"2026-03-10T11:00:00Z"},`, 99)
	for text, want := range map[string]string{
		`{"k":[{"name":"a b"},{"name":""},{}]}`: "",
		`{"gone":[{"name":"5h"}]}`:              "",
		`{"k":null}`:                            "",
		`{"k":[` + long + `{"name":"5h","seen":"9999-01-01T00:00:00Z"}]}`: "5h x",
	} {
		r := pair(t)
		if err := r.RestoreState([]byte(`{"version":1,"upstream_limits":` + text + `}`)); err != nil {
			t.Errorf("%.60s: %v", text, err)
		}
		equal(t, text[:min(60, len(text))], names(r.key("k").Seen), want)
		for _, s := range r.key("k").Seen {
			if s.At.After(noon) {
				t.Errorf("%s was told at %s", s.Name, s.At)
			}
		}
	}
	r := newRig(t, options(pool.FillFirst, pool.Key{ID: "k", Passthrough: true}), nil)
	if err := r.RestoreState([]byte(`{"version":1,"upstream_limits":{"k":[{"name":"5h"}]}}`)); err != nil {
		t.Fatal(err)
	}
	equal(t, "of callers", names(r.key("k").Seen), "")
}

// What is written of them: nothing that was not told.
func TestSeenLimitsAsJSON(t *testing.T) {
	r := pair(t)
	r.saw("k", pool.Seen{Name: "5h", UsedPercent: some(42.5)})
	data, err := json.Marshal(r.SnapshotState())
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "state", string(data), `{"version":1,"cooldowns":[],"breakers":{},"quota_guards":{},"upstream_limits":{"k":[{"name":"5h","used_percent":42.5,"seen":"2026-03-10T12:00:00Z"}]}}`)
}
