package pool

import (
	"context"
	"slices"
	"testing"
	"time"
)

// A tier that has no key for a request is passed over, and the journal says why: as for a key that a gate refuses.
func TestTiersWithoutAKeySayWhy(t *testing.T) {
	opt := Defaults()
	opt.MaxWait = 0
	key := func(id, dialect, model string) Key {
		return Key{ID: id, Protocols: []string{dialect}, Models: map[string]string{model: model}}
	}
	opt.Tiers = []Tier{
		{Name: "first", Strategy: FillFirst, Keys: []Key{key("a", "anthropic", "m"), key("b", "gemini", "n")}},
		{Name: "second", Strategy: FillFirst, Keys: []Key{key("c", "gemini", "n")}},
		{Name: "empty"},
		{Name: "last", Strategy: FillFirst, Keys: []Key{key("d", "anthropic", "m"), key("e", "gemini", "m")}},
	}
	for _, c := range []struct {
		name string
		want Want
		key  string
		skip []Skip
	}{
		{"no group", Want{Scope: Everything(), Model: "m"}, "a", nil},
		{"scope", Want{Scope: Only("d"), Model: "m"}, "d", []Skip{{"first", "", GateScope}, {"second", "", GateModel}}},
		{"model", Want{Scope: Everything(), Model: "n"}, "b", nil},
		{"dialect", Want{Scope: Everything(), Model: "m", Speaks: []string{"openai"}}, "", []Skip{{"first", "", GateDialect}, {"second", "", GateDialect}, {"last", "", GateDialect}}},
		{"dialect and model", Want{Scope: Everything(), Model: "m", Speaks: []string{"gemini"}}, "e", []Skip{{"first", "", GateModel}, {"second", "", GateModel}}},
		{"pinned", Want{Scope: Everything(), Model: "m", Key: "d"}, "d", []Skip{{"first", "", GatePinned}, {"second", "", GatePinned}}},
		{"pinned out of scope", Want{Scope: Only("a"), Model: "m", Key: "d"}, "", []Skip{{"first", "", GatePinned}, {"second", "", GatePinned}, {"last", "", GateScope}}},
		{"nobody's", Want{Scope: Only(), Model: "m"}, "", []Skip{{"first", "", GateScope}, {"second", "", GateModel}, {"last", "", GateScope}}},
	} {
		p := New(opt, nil, time.Now, 1)
		l, err := p.Lease(context.Background(), &c.want)
		if got := ""; err == nil {
			if got = l.Key; got != c.key {
				t.Errorf("%s: %s, want %s", c.name, got, c.key)
			}
		} else if c.key != "" {
			t.Errorf("%s: %v", c.name, err)
		}
		if !slices.Equal(c.want.Skipped, c.skip) {
			t.Errorf("%s: skipped %v, want %v", c.name, c.want.Skipped, c.skip)
		}
	}
}
