package proxy

import (
	"fmt"
	"strings"
	"testing"

	"coding-proxy/proxy/ir"
)

// carried are the starts of the calls of an answer, as a client that drops reasoning keeps them.
func carried(t *testing.T, blocks ...ir.Block) (calls []ir.Block) {
	t.Helper()
	var k carrier
	for _, e := range ir.Unfold(nil, &ir.Answer{Blocks: blocks}) {
		if k.hear(&e); e.Kind == ir.EventBlock && e.Start.Kind == ir.ToolCall {
			calls = append(calls, *e.Start)
		}
	}
	return calls
}

// The first call carries the reasoning before it, and gives it back where the client has lost it.
func TestCarrier(t *testing.T) {
	own := &ir.State{Owner: "o", Data: "of the call"}
	calls := carried(t, thought("why: not"), ir.Block{Kind: ir.Text, Text: "text"}, ir.Block{Kind: ir.ToolCall, ID: "c1"}, ir.Block{Kind: ir.ToolCall, ID: "c2"},
		thought("again"), ir.Block{Kind: ir.ToolCall, ID: "c3", State: own})
	if calls[0].State == nil || calls[1].State != nil || calls[2].State != own {
		t.Fatalf("%+v", calls)
	}
	sealed := ir.Unseal(ir.Seal(*calls[0].State)) // through the client
	call := ir.Block{Kind: ir.ToolCall, ID: "c1", State: &sealed}
	text, copied := ir.Block{Kind: ir.Text, Text: "text"}, ir.Block{Kind: ir.Thinking, Text: "why: not"}
	want := "why: not!sig of why: not|text|c1"
	for name, history := range map[string][]ir.Block{
		"dropped":                {text, call},
		"kept without signature": {copied, text, call},
		"kept whole":             {thought("why: not"), text, call},
	} {
		r := asked(history...)
		uncarry(r)
		var got []string
		for _, b := range r.Turns[1].Blocks {
			word := b.Text + b.ID
			if b.State != nil {
				word += "!" + b.State.Data
			}
			got = append(got, word)
		}
		if name == "kept whole" && strings.Join(got, "|") != want || name != "kept whole" && strings.Join(got, "|") != "text|why: not!sig of why: not|c1" {
			t.Errorf("%s: %s", name, strings.Join(got, "|"))
		}
	}
}

// A state that is no carried reasoning stays what it is.
func TestUncarryLeavesOthersAlone(t *testing.T) {
	for _, s := range []*ir.State{nil, {Data: "native"}, {Owner: "o", Data: "sig"}, {Owner: "o", Data: "9:short", Attach: ir.AttachBefore}, {Owner: "o", Data: "x:y", Attach: ir.AttachBefore}} {
		r := asked(ir.Block{Kind: ir.ToolCall, ID: "c", State: s})
		if uncarry(r); len(r.Turns[1].Blocks) != 1 || r.Turns[1].Blocks[0].State != s {
			t.Errorf("%s: %+v", fmt.Sprint(s), r.Turns[1].Blocks)
		}
	}
}
