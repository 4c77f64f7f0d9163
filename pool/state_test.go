package pool_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"coding-proxy/pool"
)

// reopened is a pool of the same keys that has read the state of r, as JSON.
func (r *rig) reopened(o pool.Options) *rig {
	r.t.Helper()
	data, err := json.Marshal(r.SnapshotState())
	if err != nil {
		r.t.Fatal(err)
	}
	again := &rig{Pool: pool.New(o, nil, r.now, 2), clock: r.clock, t: r.t}
	if err := again.RestoreState(data); err != nil {
		r.t.Fatal(err)
	}
	return again
}

// Cooldowns survive a restart with scope, reason, time and streak.
func TestCooldownsSurviveARestart(t *testing.T) {
	o := options(pool.FillFirst, plain("k", "spare")...)
	for _, class := range []pool.Class{pool.RateLimit, pool.Overload, pool.Fault, pool.Credential, pool.Cap, pool.UnknownModel} {
		r := newRig(t, o, nil)
		r.failOn("k", is(class))
		for _, model := range []string{"m", "another"} {
			equal(t, fmt.Sprintf("%s, %s is out for", class, model), r.reopened(o).out("k", model, ""), r.out("k", model, ""))
		}
		again := r.reopened(o).key("k")
		equal(t, "state", again.State, r.key("k").State)
		equal(t, "reason", again.Reason, r.key("k").Reason)
		equal(t, "streak", again.Streak, r.key("k").Streak)
	}
	for _, class := range []pool.Class{pool.RateLimit, pool.Overload, pool.Fault} {
		r := newRig(t, o, nil)
		for want := 30 * time.Second; want < 10*minute; want *= 2 {
			r.failOn("k", is(class))
			if d := r.out("k", "m", ""); !within(d, want) {
				t.Errorf("%s: out for %s after a restart, want %s", class, d, want)
			}
			r.add(time.Hour)
			r = r.reopened(o)
			equal(t, "out when it was over", r.out("k", "m", ""), 0)
		}
	}
}

// What a caller's own credential earned is not written: state.json would tell credentials apart.
func TestCredentialsCooldownsAreNotWritten(t *testing.T) {
	o := options(pool.FillFirst, pool.Key{ID: "k", Passthrough: true}, pool.Key{ID: "spare"})
	r := newRig(t, o, nil)
	for _, class := range []pool.Class{pool.Credential, pool.Cap, pool.RateLimit} {
		w := ask("")
		w.Credential = fmt.Sprint("hash-of-mine-", class)
		r.fail(w, is(class))
	}
	data, err := json.Marshal(r.SnapshotState())
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "state", string(data), `{"version":1,"cooldowns":[],"breakers":{},"quota_guards":{}}`)
}

// state.json is written when it has changed (design/data.md): the same state must read the same.
func TestStateIsStable(t *testing.T) {
	var keys []pool.Key
	for n := range 12 {
		keys = append(keys, pool.Key{ID: fmt.Sprint("k", n)})
	}
	r := newRig(t, options(pool.FillFirst, keys...), nil)
	for _, k := range keys {
		r.failOn(k.ID, is(pool.Cap))
	}
	first := ""
	for range 20 {
		data, err := json.Marshal(r.SnapshotState())
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = string(data)
		}
		if string(data) != first {
			t.Fatalf("nothing has changed, yet\n%.200s… is now\n%.200s…", first, data)
		}
	}
}

// Rubbish is an error and changes nothing.
func TestRubbishStateChangesNothing(t *testing.T) {
	for _, text := range []string{
		"", "{", "[]", `"x"`, "7", `{"version":2,"cooldowns":[]}`, `{"version":"1"}`, `{"cooldowns":{}}`, `{"cooldowns":[7]}`,
		`{"cooldowns":[{"key":7}]}`, `{"cooldowns":[{"key":"spare","until":"soon"}]}`,
		`{"version":1,"cooldowns":[{"key":"spare","until":"2026-03-10T13:00:00Z","reason":"cap"},{"key":"k","rate":"many"}]}`,
		`{"version":1,"cooldowns":[{"key":"spare","until":"2026-03-10T13:00:00Z","reason":"cap"}]`,
	} {
		r := pair(t)
		r.failOn("k", reset(pool.Cap, minute))
		if err := r.RestoreState([]byte(text)); err == nil {
			t.Errorf("%s: no error", text)
		} else if !strings.Contains(err.Error(), "state") {
			t.Errorf("%s: the error does not say of what: %v", text, err)
		}
		if d := r.out("k", "m", ""); !within(d, minute) {
			t.Errorf("%s: k is out for %s", text, d)
		}
		equal(t, text+": the spare key is out for", r.out("spare", "m", ""), 0)
	}
}

// Values that no state of ours has do no harm: a cooldown is never longer than 7 days, and never switched off.
func TestOddStateDoesNoHarm(t *testing.T) {
	for name, text := range map[string]string{
		"until the year 9999": `{"key":"k","until":"9999-01-01T00:00:00Z","reason":"cap"}`,
		"set in the future":   `{"key":"k","until":"2026-03-10T11:00:00Z","reason":"cap","set":"2036-03-10T12:00:00Z"}`,
		"negative streaks":    `{"key":"k","until":"2026-03-10T11:00:00Z","reason":"fault","fault":-7,"rate":-7,"overload":-7}`,
		"huge streaks":        `{"key":"k","until":"2026-03-10T11:00:00Z","reason":"fault","fault":9223372036854775807}`,
		"another reason":      `{"key":"k","until":"2026-03-10T11:00:00Z","reason":"boredom"}`,
		"nothing":             `{}`,
		"an unknown key":      `{"key":"gone","until":"2026-03-10T13:00:00Z","reason":"cap"}`,
	} {
		t.Run(name, func(t *testing.T) {
			r := pair(t)
			if err := r.RestoreState([]byte(`{"version":1,"cooldowns":[` + text + `]}`)); err != nil {
				t.Fatal(err)
			}
			if d := r.out("k", "m", ""); d > 7*day {
				t.Errorf("k is out for %s", d)
			}
			r.View()
			if r.out("k", "m", "") == 0 {
				r.failOn("k", is(pool.Fault))
				if d := r.out("k", "m", ""); d < 30*time.Second || d > 33*time.Minute {
					t.Errorf("a fault puts k out for %s", d)
				}
			}
		})
	}
}
