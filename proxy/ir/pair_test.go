package ir

import (
	"strings"
	"testing"
)

func TestPairing(t *testing.T) {
	call := func(id, name string) Block { return Block{Kind: ToolCall, ID: id, ToolName: ToolName{Name: name}} }
	result := func(id, name, text string) Block {
		return Block{Kind: ToolResult, ID: id, ToolName: ToolName{Name: name}, Text: text}
	}
	for _, c := range []struct {
		name  string
		turns [][]Block
		want  string // each call's id and result, then the orphans
	}{
		{"in order", [][]Block{{call("a", "f"), call("b", "f")}, {result("b", "", "2"), result("a", "", "1")}}, "a=1 b=2"},
		{"the last of two", [][]Block{{call("a", "f")}, {result("a", "", "1"), result("a", "", "2")}}, "a=2"},
		{"one id twice in a turn", [][]Block{{call("a", "f"), call("a", "f")}, {result("a", "", "1"), result("a", "", "2"), result("a", "", "3")}}, "a=1 a_2=3"},
		{"one id in two turns", [][]Block{{call("a", "f")}, {result("a", "", "1")}, {call("a", "f")}, {result("a", "", "2")}}, "a=1 a_2=2"},
		{"a made id that the client has", [][]Block{{call("a", "f"), call("a", "f"), call("a_2", "f")}}, "a= a_2= a_2_2="},
		{"an illegal id", [][]Block{{call("a b", "f")}, {result("a b", "", "1")}}, "a_b_5307a95c=1"},
		{"before its call", [][]Block{{result("a", "", "0")}, {call("a", "f")}}, "a= orphan 0"},
		{"by name", [][]Block{{call("", "f"), call("", "g")}, {result("", "g", "2"), result("", "", "1"), result("", "f", "0")}}, "call_0_0=1 call_0_1=2 orphan 0"},
		{"no such name", [][]Block{{call("", "f")}, {result("", "h", "0")}}, "call_0_0= orphan 0"},
	} {
		var turns []Turn
		for _, blocks := range c.turns {
			turns = append(turns, Turn{Blocks: blocks})
		}
		p := NewPairing(turns, PlainRule(64))
		var got, orphans []string
		for i := range turns {
			for j := range turns[i].Blocks {
				switch b := &turns[i].Blocks[j]; {
				case b.Kind == ToolCall:
					text := ""
					if r := p.Of(b).Result; r != nil {
						text = r.Text
					}
					got = append(got, p.Of(b).ID+"="+text)
				case p.Orphan(b):
					orphans = append(orphans, "orphan "+b.Text)
				}
			}
		}
		if s := strings.Join(append(got, orphans...), " "); s != c.want {
			t.Errorf("%s: %s, want %s", c.name, s, c.want)
		}
	}
}
