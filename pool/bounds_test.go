package pool

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// Credentials, as model names, are the clients' to choose: made-up ones that a passthrough key's provider refuses do
// not fill the memory. The latest stay, and so do the cooldowns of whole keys.
func TestCooldownsOfCredentialsAreBounded(t *testing.T) {
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	opt := Defaults()
	opt.Tiers = []Tier{{Name: "t", Strategy: FillFirst, Keys: []Key{{ID: "k", Passthrough: true}, {ID: "own"}, {ID: "spare"}}}}
	p := New(opt, nil, func() time.Time { return now }, 1)
	fail := func(key, credential string) {
		w := &Want{Scope: Everything(), Model: "m", Credential: credential}
		for range 3 {
			l, err := p.Lease(context.Background(), w)
			if err != nil {
				t.Fatal(err)
			}
			if l.Key == key {
				l.Close(Outcome{Class: Credential}, Tokens{})
				return
			}
			l.Close(Outcome{Class: Cancelled}, Tokens{})
		}
	}
	fail("own", "")
	for n := range maxCooldowns + 1000 {
		now = now.Add(time.Millisecond)
		fail("k", fmt.Sprint("made-up-", n))
	}
	if n := len(p.cool.m); n > maxCooldowns {
		t.Errorf("%d cooldowns are kept", n)
	}
	for who, key := range map[string]string{fmt.Sprint("made-up-", maxCooldowns+999): "k", "": "own"} {
		w := &Want{Scope: Only(key), Model: "m", Credential: who}
		if l, err := p.Lease(context.Background(), w); err == nil {
			t.Errorf("%s cools no more: %v", key, l)
		}
	}
}
