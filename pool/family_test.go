package pool_test

import (
	"testing"
	"time"

	"coding-proxy/pool"
)

const (
	opus   = "claude-opus-4-8"
	opus3  = "anthropic.claude-3-opus@20240229"
	sonnet = "claude-sonnet-4-5-20250929"
	haiku  = "claude-3-5-haiku-20241022"
)

// failing lets a request for the model fail with the key.
func (r *rig) failing(key, model string, o pool.Outcome) {
	r.t.Helper()
	w := ask("")
	w.Model = model
	r.leaseOf(key, w).Close(o, pool.Tokens{})
}

func family(d time.Duration) pool.Outcome {
	return pool.Outcome{Class: pool.RateLimit, FamilyWide: true, Reset: d}
}

// A window of one model family takes all models of that family out, and no other.
func TestFamilyWindow(t *testing.T) {
	for _, tc := range []struct {
		asked, other string
		out          bool
	}{
		{opus, opus, true},
		{opus, opus3, true},
		{opus, "claude-opus-latest", true},
		{opus, "Claude-Opus-9[1m]", true},
		{opus3, opus, true},
		{opus, sonnet, false},
		{opus, haiku, false},
		{haiku, "claude-haiku-4-5", true},
		{haiku, opus, false},
		{opus, "gpt-5.5", false},
		{opus, "opus", false},
		// Names without a family stand for themselves.
		{"claude-2.1", "claude-2.1", true},
		{"claude-2.1", "claude-2.0", false},
		{"claude-v2", "claude-v1", false},
		{"gpt-5.5", "gpt-5.5", true},
		{"gpt-5.5", "gpt-5.5-mini", false},
		{"glm-4.7", opus, false},
	} {
		r := pair(t)
		r.failing("k", tc.asked, family(90*time.Second))
		if d := r.out("k", tc.other, ""); tc.out != within(d, 90*time.Second) || !tc.out && d != 0 {
			t.Errorf("%s was refused; %s is out for %s", tc.asked, tc.other, d)
		}
		if d := r.out("spare", tc.other, ""); d != 0 {
			t.Errorf("the other key is out for %s", d)
		}
	}
}

// The account's window outranks the family's, and a plain rate limit is the model's alone.
func TestFamilyAndAccount(t *testing.T) {
	r := pair(t)
	r.failing("k", opus, pool.Outcome{Class: pool.RateLimit, KeyWide: true, FamilyWide: true, Reset: minute})
	if d := r.out("k", sonnet, ""); !within(d, minute) {
		t.Errorf("the account's window: sonnet is out for %s", d)
	}
	r = pair(t)
	r.failing("k", opus, reset(pool.RateLimit, minute))
	equal(t, "another opus", r.out("k", opus3, ""), 0)
	for _, class := range []pool.Class{pool.Overload, pool.UnknownModel} {
		r = pair(t)
		r.failing("k", opus, pool.Outcome{Class: class, FamilyWide: true})
		equal(t, class.String()+": another opus", r.out("k", opus3, ""), 0)
	}
}

// Hints that are missing back off; a success of any model of the family begins anew.
func TestFamilyStreak(t *testing.T) {
	r := pair(t)
	for _, want := range []time.Duration{30 * time.Second, minute, 2 * minute} {
		r.failing("k", opus, family(0))
		if d := r.out("k", opus3, ""); !within(d, want) {
			t.Errorf("out for %s, want %s", d, want)
		}
		r.add(time.Hour)
	}
	w := ask("")
	w.Model = opus3
	equal(t, "served by", r.serve(w), "k")
	r.failing("k", opus, family(0))
	if d := r.out("k", opus, ""); !within(d, 30*time.Second) {
		t.Errorf("after a success: out for %s", d)
	}
}

// What a caller's own credential earned is that caller's alone.
func TestFamilyOfACredential(t *testing.T) {
	r := newRig(t, options(pool.FillFirst, pool.Key{ID: "k", Passthrough: true}, pool.Key{ID: "spare"}), nil)
	w := ask("")
	w.Model, w.Credential = opus, "mine"
	r.fail(w, family(minute))
	if d := r.out("k", opus3, "mine"); !within(d, minute) {
		t.Errorf("mine is out for %s", d)
	}
	equal(t, "mine, sonnet", r.out("k", sonnet, "mine"), 0)
	equal(t, "another's", r.out("k", opus, "another's"), 0)
}

// It survives a restart, is shown, and goes with a reset.
func TestFamilyIsKeptAndShown(t *testing.T) {
	o := options(pool.FillFirst, plain("k", "spare")...)
	r := newRig(t, o, nil)
	r.failing("k", opus, family(minute))
	again := r.reopened(o)
	equal(t, "another opus after a restart", again.out("k", opus3, ""), r.out("k", opus3, ""))
	equal(t, "sonnet after a restart", again.out("k", sonnet, ""), 0)
	for _, r := range []*rig{r, again} {
		k := r.key("k")
		equal(t, "state", k.State, "ready")
		if len(k.Models) != 1 || k.Models[0].Model != opus || k.Models[0].Family != "opus" || k.Models[0].Reason != "rate_limit" {
			t.Errorf("models: %+v", k.Models)
		}
	}
	if err := r.ResetKey("k"); err != nil {
		t.Fatal(err)
	}
	equal(t, "after a reset", r.out("k", opus3, ""), 0)
}
