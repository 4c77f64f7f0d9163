package proxy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"coding-proxy/proxy/ir"
)

// thought is reasoning that an owner signed.
func thought(text string) ir.Block {
	return ir.Block{Kind: ir.Thinking, Text: text, State: &ir.State{Owner: "o", Data: "sig of " + text}}
}

func asked(blocks ...ir.Block) *ir.Request {
	blocks = slices.Clone(blocks)
	return &ir.Request{Turns: []ir.Turn{{Role: ir.User, Blocks: []ir.Block{{Kind: ir.Text, Text: "hi"}}}, {Role: ir.Assistant, Blocks: blocks}}}
}

// What an answer held beside its calls is back in the request that brings the calls again.
func TestRecall(t *testing.T) {
	var r recall
	l := &listener{r: &r, caller: "me"}
	signed := &ir.State{Owner: "o", Data: "of the call"}
	for _, e := range ir.Unfold(nil, &ir.Answer{Blocks: []ir.Block{
		thought("first"), {Kind: ir.Text, Text: "text"}, thought("second"),
		{Kind: ir.ToolCall, ID: "c1", State: signed}, {Kind: ir.ToolCall, ID: "c2"},
	}}) {
		l.hear(&e)
	}
	history := []ir.Block{{Kind: ir.Thinking, Text: "unsigned, as a client sends it"}, {Kind: ir.Text, Text: "text"}, {Kind: ir.ToolCall, ID: "c1"}, {Kind: ir.ToolCall, ID: "c2"}}
	req := asked(history...)
	r.restore("me", req)
	var got []string
	for _, b := range req.Turns[1].Blocks {
		word := fmt.Sprint(b.Kind, b.Text, b.ID)
		if b.State != nil {
			word += "!" + b.State.Data
		}
		got = append(got, word)
	}
	want := fmt.Sprintf("%dfirst!sig of first|%dsecond!sig of second|%dtext|%dc1!of the call|%dc2", ir.Thinking, ir.Thinking, ir.Text, ir.ToolCall, ir.ToolCall)
	if strings.Join(got, "|") != want {
		t.Errorf("%s\nwant %s", strings.Join(got, "|"), want)
	}

	other := asked(history...)
	if r.restore("somebody else", other); other.Turns[1].Blocks[2].State != nil {
		t.Error("another caller is given what it never got")
	}
}

func TestRecallIsBounded(t *testing.T) {
	var r recall
	for i := range maxRecalled + 10 {
		r.put("me", fmt.Sprint(i), nil, &ir.State{})
	}
	if len(r.m) > maxRecalled || r.get("me", "0") != nil || r.get("me", fmt.Sprint(maxRecalled+9)) == nil {
		t.Errorf("%d entries; the oldest must go first", len(r.m))
	}
	r.get("me", "10") // used: it is no longer the oldest
	big := thought(strings.Repeat("x", maxRecalledBytes/8-1000))
	for i := range 20 {
		r.put("me", fmt.Sprint("big", i), []ir.Block{big}, nil)
	}
	if r.bytes > maxRecalledBytes {
		t.Errorf("%d bytes", r.bytes)
	}
	r.put("me", "huge", []ir.Block{thought(strings.Repeat("x", maxRecalledBytes))}, nil)
	if r.get("me", "huge") != nil {
		t.Error("one answer may take all the memory")
	}
	sum := 0
	for e := r.order.Front(); e != nil; e = e.Next() {
		sum += e.Value.(*recalled).size
	}
	if sum != r.bytes || r.order.Len() != len(r.m) {
		t.Errorf("the books say %d bytes of %d, %d entries of %d", r.bytes, sum, len(r.m), r.order.Len())
	}
}

// Each call of a turn gets its state back, and each piece of reasoning its place.
func TestRecallOfSeveralCalls(t *testing.T) {
	var r recall
	state := func(data string) *ir.State { return &ir.State{Owner: "o", Data: data} }
	thought := func(text string) ir.Block { return ir.Block{Kind: ir.Thinking, Text: text} }
	r.put("c", "a", []ir.Block{thought("first")}, state("sa"))
	r.put("c", "b", nil, state("sb"))
	r.put("c", "d", []ir.Block{thought("second")}, nil)
	req := &ir.Request{Turns: []ir.Turn{{Role: ir.Assistant, Blocks: []ir.Block{
		{Kind: ir.Text, Text: "text"}, thought("the client's"), {Kind: ir.ToolCall, ID: "a"}, {Kind: ir.ToolCall, ID: "b"}, {Kind: ir.ToolCall, ID: "d"},
	}}}}
	r.restore("c", req)
	var got []string
	for _, b := range req.Turns[0].Blocks {
		text := b.Text + b.ID
		if b.State != nil {
			text += "+" + b.State.Data
		}
		got = append(got, text)
	}
	if want := []string{"first", "text", "a+sa", "b+sb", "second", "d"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
