package ir

import (
	"encoding/base64"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestSealComesBack(t *testing.T) {
	for _, s := range []State{
		{Owner: "o"}, {Owner: "o", Data: "sig=="}, {Owner: "a/b", Data: "line\nline", Redacted: true},
		{Owner: "o", Data: "x", Attach: AttachCall}, {Owner: "o", Redacted: true, Attach: AttachCall},
	} {
		text := Seal(s)
		if _, err := base64.StdEncoding.DecodeString(text); err != nil || !strings.HasPrefix(text, SealPrefix) {
			t.Errorf("%+v is sealed as %q: %v", s, text, err)
		}
		if got := Unseal(text); got != s || !Sealed(text) {
			t.Errorf("%+v comes back as %+v", s, got)
		}
	}
}

// What is not ours, or was cut, is a state that the client's own provider gave.
func TestUnsealLeavesOthersAlone(t *testing.T) {
	whole := Seal(State{Owner: "o", Data: "data"})
	for _, text := range []string{"", "EqQBCkYIARgCIkD", SealPrefix, SealPrefix + "!", SealPrefix + "AAAA", whole[:len(whole)-3], Seal(State{Data: "nobody's"})} {
		if got := Unseal(text); got != (State{Data: text}) {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func TestStateFor(t *testing.T) {
	s := &State{Owner: "o", Data: "d"}
	if data, ok := s.For("o"); !ok || data != "d" {
		t.Error("the owner does not get it")
	}
	for _, owner := range []string{"", "p"} {
		if _, ok := s.For(owner); ok {
			t.Errorf("%q gets it", owner)
		}
	}
	var none *State
	if _, ok := none.For(""); ok {
		t.Error("nothing is somebody's")
	}
	if _, ok := (&State{Data: "native"}).For(""); ok {
		t.Error("a state without owner is somebody's")
	}
}

func TestEfforts(t *testing.T) {
	for budget, want := range map[int64]string{-1: "", 0: "", 1: "minimal", 512: "minimal", 513: "low", 1024: "low", 8192: "medium", 24576: "high", 24577: "xhigh", 1 << 40: "xhigh"} {
		if got := EffortOf(budget); got != want {
			t.Errorf("%d: %q, want %q", budget, got, want)
		}
	}
	if BudgetOf("high") != 24576 || BudgetOf("none") != 0 {
		t.Error("budgets")
	}
}

var rule = NameRule{Max: 16, Legal: func(c byte, first bool) bool {
	return c >= 'a' && c <= 'z' || c == '_' || !first && c >= '0' && c <= '9'
}}

func tools(names ...string) *Request {
	r := &Request{}
	for _, n := range names {
		r.Tools = append(r.Tools, Tool{ToolName: ToolName{Name: n}})
	}
	return r
}

func TestToolBook(t *testing.T) {
	r := tools("plain", "Über.tool", "a_name_that_is_far_too_long", "a_name_that_is_far_too_lonh", "9lives")
	r.Tools = append(r.Tools, Tool{ToolName: ToolName{"ns", "t"}, Form: FormCustom, Kind: ToolCustom}, Tool{ToolName: ToolName{Name: "hosted!"}, Kind: ToolHosted})
	b, again := NewToolBook(r, rule), NewToolBook(r, rule)
	seen := map[string]bool{}
	for _, tool := range r.Tools[:6] {
		name := b.Wire(tool.ToolName)
		if !b.legal(name) || seen[name] || again.Wire(tool.ToolName) != name {
			t.Errorf("%v goes as %q", tool.ToolName, name)
		}
		seen[name] = true
		call := Block{Kind: ToolCall, ToolName: ToolName{Name: name}}
		if b.Restore(&call); call.ToolName != tool.ToolName || call.Form != tool.Form {
			t.Errorf("%q comes back as %+v", name, call)
		}
	}
	if b.Wire(ToolName{Name: "plain"}) != "plain" || b.Wire(ToolName{"ns", "t"}) != "ns__t" {
		t.Error("a legal name was changed")
	}
	call := Block{ToolName: ToolName{Name: "never_heard_of"}}
	if b.Restore(&call); call.Name != "never_heard_of" {
		t.Error("a name that the request never had was changed")
	}
	var none *ToolBook
	none.Restore(&call)
}

// A legal name is never taken by the short form of another, in whatever order they come, and names of the history and of
// the choice count.
func TestToolBookKeepsApart(t *testing.T) {
	short := NewToolBook(tools("x!"), rule).Wire(ToolName{Name: "x!"})
	for _, names := range [][]string{{"x!", short}, {short, "x!"}} {
		b := NewToolBook(tools(names...), rule)
		if b.Wire(ToolName{Name: short}) != short || b.Wire(ToolName{Name: "x!"}) == short {
			t.Errorf("%v: %q and %q", names, b.Wire(ToolName{Name: short}), b.Wire(ToolName{Name: "x!"}))
		}
	}
	r := tools()
	r.Turns = []Turn{{Role: Assistant, Blocks: []Block{{Kind: ToolCall, ToolName: ToolName{Name: "old!"}}}}}
	r.Choice.Names = []ToolName{{Name: "wanted!"}}
	b := NewToolBook(r, rule)
	for _, n := range []string{"old!", "wanted!"} {
		if !b.legal(b.Wire(ToolName{Name: n})) {
			t.Errorf("%s goes as %s", n, b.Wire(ToolName{Name: n}))
		}
	}
	// a__b of the namespace a, and a__b of none
	r = tools("a__b")
	r.Tools = append(r.Tools, Tool{ToolName: ToolName{"a", "b"}})
	if b := NewToolBook(r, rule); b.Wire(ToolName{Name: "a__b"}) == b.Wire(ToolName{"a", "b"}) {
		t.Error("two tools go under one name")
	}
}

func TestFit(t *testing.T) {
	for _, id := range []string{"call_a", "functions.read:0", "", strings.Repeat("x", 80), "日本"} {
		fit := rule.Fit(id)
		if !(&ToolBook{rule: rule}).legal(fit) || rule.Fit(id) != fit {
			t.Errorf("%q fits as %q", id, fit)
		}
	}
	if rule.Fit("call_a") != "call_a" || rule.Fit("a.b") == rule.Fit("a:b") {
		t.Error("a legal id was changed, or two fell together")
	}
}

// through runs events through a bridge.
func through(b *Bridge, events ...Event) []Event {
	var out []Event
	for _, e := range events {
		out = b.Next(out, e)
	}
	return out
}

func kinds(events []Event) string {
	names := [...]string{"", "start", "block", "delta", "break", "state", "cite", "close", "usage", "finish", "fault", "end", "alive"}
	var out []string
	for _, e := range events {
		out = append(out, names[e.Kind])
	}
	return strings.Join(out, " ")
}

func TestBridgeOrders(t *testing.T) {
	text := func() *Block { return &Block{Kind: Text} }
	for _, tc := range []struct {
		name string
		in   []Event
		want string
	}{
		{"as it should be", []Event{{Kind: EventStart}, {Kind: EventBlock, Start: text()}, {Kind: EventDelta, Text: "a"}, {Kind: EventClose}, {Kind: EventFinish, Stop: Stop{Reason: StopEnd}}, {Kind: EventEnd}},
			"start block delta close finish end"},
		{"usage late", []Event{{Kind: EventFinish, Stop: Stop{Reason: StopEnd}}, {Kind: EventUsage, Usage: Usage{Input: 1, Known: UsageInput}}, {Kind: EventEnd}}, "start usage finish end"},
		{"no start, nothing closed", []Event{{Kind: EventBlock, Start: text()}, {Kind: EventDelta, Text: "a"}, {Kind: EventEnd}}, "start block delta close finish end"},
		{"two starts", []Event{{Kind: EventStart}, {Kind: EventStart}, {Kind: EventEnd}}, "start finish end"},
		{"after the end", []Event{{Kind: EventEnd}, {Kind: EventDelta, Text: "a"}, {Kind: EventFault, Fault: &Fault{}}}, "start finish end"},
		{"a fault", []Event{{Kind: EventStart}, {Kind: EventFault, Fault: &Fault{}}, {Kind: EventEnd}}, "start fault"},
		{"what was never opened", []Event{{Kind: EventStart}, {Kind: EventDelta, Block: 3, Text: "a"}, {Kind: EventClose, Block: 1}, {Kind: EventEnd}}, "start finish end"},
	} {
		if got := kinds(through(&Bridge{}, tc.in...)); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}

func TestBridgeSettlesTheEnd(t *testing.T) {
	call := []Event{{Kind: EventStart}, {Kind: EventBlock, Start: &Block{Kind: ToolCall}}, {Kind: EventClose}}
	cut := call[:2]
	finish := func(reasons ...StopReason) (out []Event) {
		for _, r := range reasons {
			out = append(out, Event{Kind: EventFinish, Stop: Stop{Reason: r}})
		}
		return append(out, Event{Kind: EventEnd})
	}
	for _, tc := range []struct {
		name   string
		before []Event
		end    []Event
		want   StopReason
	}{
		{"a call and stop", call, finish(StopEnd), StopTool},
		{"a call, its reason, and stop after it", call, finish(StopTool, StopEnd), StopTool},
		{"a call and the limit", call, finish(StopLength), StopLength},
		{"no call but its reason", nil, finish(StopTool), StopEnd},
		{"a natural end that is corrected", nil, finish(StopEnd, StopLength), StopLength},
		{"nothing said", nil, finish(), StopEnd},
		{"nothing said, with a call", call, finish(), StopTool},
		{"nothing said, in a call", cut, finish(), StopLength},
		{"the limit in a call", cut, finish(StopLength), StopLength},
	} {
		b := &Bridge{}
		out := through(b, append(append([]Event(nil), tc.before...), tc.end...)...)
		if got := out[len(out)-2]; got.Kind != EventFinish || got.Stop.Reason != tc.want || !b.Ended() {
			t.Errorf("%s: %+v, want %s", tc.name, got.Stop, tc.want)
		}
	}
}

// The input of a free-text tool that an upstream took for a function is unwrapped; one that is free text there is not.
func TestBridgeUnwraps(t *testing.T) {
	r := tools()
	r.Tools = []Tool{{ToolName: ToolName{Name: "patch!"}, Kind: ToolCustom, Form: FormCustom}}
	book := NewToolBook(r, rule)
	for _, tc := range []struct{ form, args, want string }{
		{"", WrapCustom("a\n\"b\"<c>"), "a\n\"b\"<c>"},
		{"", `not the schema`, `not the schema`},
		{"", `{"other":1}`, `{"other":1}`},
		{FormCustom, `{"input":"stays"}`, `{"input":"stays"}`},
		{"", WrapCustom(""), ""},
	} {
		in := []Event{{Kind: EventBlock, Start: &Block{Kind: ToolCall, ToolName: ToolName{Name: book.Wire(ToolName{Name: "patch!"})}, Form: tc.form}}}
		for _, c := range tc.args {
			in = append(in, Event{Kind: EventDelta, Text: string(c)})
		}
		f := Fold{Limit: 1000}
		for _, e := range through(&Bridge{Tools: book}, append(in, Event{Kind: EventClose}, Event{Kind: EventEnd})...) {
			if err := f.Add(&e); err != nil {
				t.Fatal(err)
			}
		}
		a, _, ok := f.Answer()
		if got := a.Blocks[0]; !ok || got.Args != tc.want || got.Name != "patch!" || got.Form != FormCustom {
			t.Errorf("%s: %+v", tc.args, got)
		}
	}
}

func TestFoldOfUnfold(t *testing.T) {
	a := &Answer{ID: "i", Model: "m", Usage: Usage{Input: 3, Output: 4, Known: UsageInput | UsageOutput}, Stop: Stop{Reason: StopTool},
		Blocks: []Block{
			{Kind: Thinking, Text: "one two", Breaks: []int{4}, State: &State{Owner: "o", Data: "s"}},
			{Kind: Text, Text: "né", Citations: []byte(`[{"a":"]}"},{"b":[1]}]`)},
			{Kind: ToolCall, ID: "c", ToolName: ToolName{Name: "f"}, Args: `{"a":1}`, State: &State{Owner: "o"}},
			{Kind: ToolCall, ID: "d", ToolName: ToolName{Name: "g"}},
			{Kind: Opaque, Type: "x", Raw: []byte(`{}`)},
		}}
	f := Fold{Limit: 1000}
	for _, e := range Unfold(nil, a) {
		if err := f.Add(&e); err != nil {
			t.Fatal(err)
		}
	}
	got, fault, ok := f.Answer()
	if !ok || fault != nil || !reflect.DeepEqual(got, a) {
		t.Errorf("%+v\nwant %+v", got, a)
	}
}

func TestFoldIsBounded(t *testing.T) {
	f := Fold{Limit: 10}
	if err := f.Add(&Event{Kind: EventBlock, Start: &Block{Kind: Text}}); err != nil {
		t.Fatal(err)
	}
	if err := f.Add(&Event{Kind: EventDelta, Text: strings.Repeat("x", 10)}); err != nil {
		t.Fatal(err)
	}
	if err := f.Add(&Event{Kind: EventDelta, Text: "y"}); err != ErrTooLong {
		t.Error(err)
	}
}

func TestLose(t *testing.T) {
	r := &Request{Names: &FieldNames{FieldTopK: "top_k"}}
	r.Lose(FieldTopK)
	r.Lose(FieldTopK)
	r.Lose(FieldSeed) // its dialect cannot say it
	r.LosePath("metadata")
	if !reflect.DeepEqual(r.Lost, []string{"top_k", "metadata"}) || r.Name(FieldTopK) != "top_k" {
		t.Errorf("%v", r.Lost)
	}
	if err := Refuse("a[0]", "must be %s", "text"); err.Error() != "a[0]: must be text" {
		t.Error(err)
	}
}

// Clients and upstreams may invent any number of words: they are bounded, and no text of theirs is repeated.
func TestAppendLostIsBounded(t *testing.T) {
	var lost []string
	for i := range 1000 {
		lost = AppendLost(lost, fmt.Sprint("field", i))
	}
	if len(lost) != maxLost+1 || lost[maxLost] != "unknown_fields" {
		t.Errorf("%d names, the last %q", len(lost), lost[len(lost)-1])
	}
	lost = AppendLost(AppendLost(AppendLost(nil, "tools[0].x"), "what, a secret"), strings.Repeat("x", 129))
	if got := strings.Join(lost, " "); got != "tools[0].x unknown_fields" {
		t.Error(got)
	}
}

// An answer of endless blocks ends with a fault: bridge and encoders remember something of each.
func TestBridgeBoundsBlocks(t *testing.T) {
	var b Bridge
	var out []Event
	for n := 0; !b.Ended(); n++ {
		if n > maxBlocks {
			t.Fatal("no end")
		}
		out = b.Next(out[:0], Event{Kind: EventBlock, Block: n, Start: &Block{Kind: Text}})
		out = b.Next(out, Event{Kind: EventClose, Block: n})
	}
	if f := out[0].Fault; f == nil || f.Status != 502 {
		t.Errorf("%+v", out)
	}
}

// Arguments are gathered where a client has calls whole: they are bounded, too.
func TestBridgeBoundsArguments(t *testing.T) {
	b := Bridge{}
	out := b.Next(nil, Event{Kind: EventBlock, Start: &Block{Kind: ToolCall}})
	piece := strings.Repeat("x", 1<<20)
	for range maxArgs >> 20 {
		out = b.Next(out[:0], Event{Kind: EventDelta, Text: piece})
	}
	if b.Ended() {
		t.Error("ended too early")
	}
	if out = b.Next(out[:0], Event{Kind: EventDelta, Text: "x"}); len(out) != 1 || out[0].Fault == nil || !b.Ended() {
		t.Errorf("%+v", out)
	}
}

func TestDescribed(t *testing.T) {
	free := Tool{Kind: ToolCustom, Description: "Patches.", Grammar: []byte(`{"type":"grammar","syntax":"lark","definition":"start: X"}`)}
	if got := free.Described(); got != "Patches.\n\nThe input must follow this grammar (lark):\nstart: X" {
		t.Errorf("%q", got)
	}
	if free.Grammar = nil; free.Described() != "Patches." {
		t.Errorf("%q", free.Described())
	}
}
