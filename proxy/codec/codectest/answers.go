package codectest

import (
	"fmt"
	"strings"

	"coding-proxy/proxy/ir"
)

// Answer is a canonical answer: the events as a decoder would say them.
type Answer struct {
	Name   string
	Events []ir.Event
	Fault  bool // it ends with one
	// Buffered says what an encoder may hold back beyond its wire event: interleaved calls where blocks are serial.
	Interleaved bool
	Custom      bool // has calls whose input is unwrapped at their end
}

// script writes events.
type script struct {
	events []ir.Event
	n      int // next ordinal
	mark   int // next marker
}

func (s *script) add(e ir.Event) *script {
	s.events = append(s.events, e)
	return s
}

func (s *script) start() *script {
	return s.add(ir.Event{Kind: ir.EventStart, ID: "upstream-id", Model: "upstream-model"})
}

func (s *script) open(b ir.Block) int {
	s.add(ir.Event{Kind: ir.EventBlock, Block: s.n, Start: &b})
	s.n++
	return s.n - 1
}

func (s *script) delta(n int, pieces ...string) *script {
	for _, p := range pieces {
		s.add(ir.Event{Kind: ir.EventDelta, Block: n, Text: p})
	}
	return s
}

func (s *script) close(n int) *script { return s.add(ir.Event{Kind: ir.EventClose, Block: n}) }

// marked puts a marker into a piece, so that a check can find it on the wire: m000m, m001m, …
func (s *script) marked(text string) string {
	s.mark++
	return fmt.Sprintf("%s m%03dm", text, s.mark-1)
}

func (s *script) block(b ir.Block, pieces ...string) *script {
	n := s.open(b)
	for _, p := range pieces {
		s.delta(n, s.marked(p))
	}
	return s.close(n)
}

func (s *script) text(pieces ...string) *script { return s.block(ir.Block{Kind: ir.Text}, pieces...) }

func (s *script) thinking(state *ir.State, pieces ...string) *script {
	n := s.open(ir.Block{Kind: ir.Thinking})
	for _, p := range pieces {
		s.delta(n, s.marked(p))
	}
	if state != nil {
		s.add(ir.Event{Kind: ir.EventState, Block: n, State: state})
	}
	return s.close(n)
}

func call(id, name string) ir.Block {
	return ir.Block{Kind: ir.ToolCall, ID: id, ToolName: ir.ToolName{Name: name}}
}

func (s *script) call(b ir.Block, pieces ...string) *script {
	n := s.open(b)
	return s.delta(n, pieces...).close(n)
}

// args are arguments in pieces, each with a marker.
func (s *script) args() []string {
	first, second := s.marked("a"), s.marked("b")
	return []string{`{"path":"` + first, `","text":"` + second, `","n":9007199254740993}`}
}

func (s *script) usage(u ir.Usage) *script { return s.add(ir.Event{Kind: ir.EventUsage, Usage: u}) }

func (s *script) finish(reason ir.StopReason) *script {
	return s.add(ir.Event{Kind: ir.EventFinish, Stop: ir.Stop{Reason: reason, Native: "native-word"}})
}

func (s *script) end() []ir.Event { return s.add(ir.Event{Kind: ir.EventEnd}).events }

func (s *script) fault(f ir.Fault) []ir.Event {
	return s.add(ir.Event{Kind: ir.EventFault, Fault: &f}).events
}

// Figures are all figures of a usage, all different.
func Figures() ir.Usage {
	return ir.Usage{Input: 1000, Output: 700, CacheCreation: 30, CacheRead: 200, Reasoning: 50, Known: 31}
}

func begin() *script { return (&script{}).start() }

func signed(data string) *ir.State   { return &ir.State{Owner: Owner, Data: data} }
func redacted(data string) *ir.State { return &ir.State{Owner: Owner, Data: data, Redacted: true} }

// Answers is the corpus.
func Answers() []Answer {
	var all []Answer
	add := func(name string, events []ir.Event) *Answer {
		all = append(all, Answer{Name: name, Events: events})
		return &all[len(all)-1]
	}
	textAnswers(add)
	reasoningAnswers(add)
	callAnswers(add)
	endings(add)
	return append(all, faultAnswers()...)
}

type adder func(name string, events []ir.Event) *Answer

func textAnswers(add adder) {
	add("text", begin().text("Hello ", "world").usage(Figures()).finish(ir.StopEnd).end())
	add("nothing", begin().usage(Figures()).finish(ir.StopEnd).end())
	add("usage before", begin().usage(ir.Usage{Input: 1000, Known: ir.UsageInput}).text("Hello ").usage(Figures()).finish(ir.StopEnd).end())
	add("usage after", begin().text("Hello ").finish(ir.StopEnd).usage(Figures()).end())
	add("no usage", begin().text("Hello ").finish(ir.StopEnd).end())
	add("odd text", begin().text("naïve 日本語 😀", "\u2028</script>&amp;\"\\", "\n\r\n\tdata: x\n\nevent: y", "nul\u0000 control\u0001", "[DONE]", " ").usage(Figures()).finish(ir.StopEnd).end())
	var long []string
	for range 120 {
		long = append(long, strings.Repeat("lorem ipsum ", 8))
	}
	add("long text", begin().text(long...).usage(Figures()).finish(ir.StopEnd).end())
	s := begin().add(ir.Event{Kind: ir.EventAlive})
	add("keep-alives", s.text("Hello ").add(ir.Event{Kind: ir.EventAlive}).usage(Figures()).finish(ir.StopEnd).end())
	s = begin()
	n := s.open(ir.Block{Kind: ir.Text})
	s.delta(n, s.marked("cited")).add(ir.Event{Kind: ir.EventCite, Block: n, Raw: []byte(`{"type":"web_search_result_location","url":"https://example.com","title":"T","cited_text":"c","encrypted_index":"e"}`)})
	add("citation", s.close(n).usage(Figures()).finish(ir.StopEnd).end())
	add("two texts", begin().text("one").text("two").usage(Figures()).finish(ir.StopEnd).end())
}

func reasoningAnswers(add adder) {
	add("thinking and text", begin().thinking(signed("c2ln"), "hmm ", "so").text("Hello").usage(Figures()).finish(ir.StopEnd).end())
	add("unsigned thinking", begin().thinking(&ir.State{Owner: Owner}, "hmm").text("Hello").usage(Figures()).finish(ir.StopEnd).end())
	add("redacted thinking", begin().thinking(redacted("cmVk")).text("Hello").usage(Figures()).finish(ir.StopEnd).end())
	s := begin().thinking(signed("c2ln"))
	add("signature alone and call", s.call(call("call_1", "Read"), s.args()...).usage(Figures()).finish(ir.StopTool).end())
	s = begin().thinking(signed("c2ln"), "hmm")
	add("thinking and call", s.call(call("call_1", "Read"), s.args()...).usage(Figures()).finish(ir.StopTool).end())
	s = begin().thinking(signed("c2lnMQ=="), "one")
	s.call(call("call_1", "Read"), s.args()...).thinking(signed("c2lnMg=="), "two")
	add("thinking, call, thinking, call", s.call(call("call_2", "Read"), s.args()...).usage(Figures()).finish(ir.StopTool).end())
	s = begin()
	n := s.open(ir.Block{Kind: ir.Thinking})
	s.delta(n, s.marked("part one")).add(ir.Event{Kind: ir.EventBreak, Block: n}).delta(n, s.marked("part two"))
	s.add(ir.Event{Kind: ir.EventState, Block: n, State: signed("c2ln")}).close(n)
	add("thinking in parts", s.text("Hello").usage(Figures()).finish(ir.StopEnd).end())
	add("thinking alone", begin().thinking(signed("c2ln"), "hmm").usage(Figures()).finish(ir.StopEnd).end())
	signedCall := call("call_1", "Read")
	signedCall.State = signed("Z2VtaW5p")
	s = begin()
	add("signed call", s.call(signedCall, s.args()...).usage(Figures()).finish(ir.StopTool).end())
}

func callAnswers(add adder) {
	s := begin().text("I read")
	add("text and call", s.call(call("call_1", "Read"), s.args()...).usage(Figures()).finish(ir.StopTool).end())
	s = begin()
	for i := range 3 {
		s.call(call(fmt.Sprint("call_", i), "Read"), s.args()...)
	}
	add("parallel calls", s.usage(Figures()).finish(ir.StopTool).end())
	s = begin().text("both")
	a, b := s.open(call("call_a", "Read")), s.open(call("call_b", "Bash"))
	first, second := s.args(), s.args()
	for i := range first {
		s.delta(a, first[i]).delta(b, second[i])
	}
	add("interleaved calls", s.close(a).close(b).usage(Figures()).finish(ir.StopTool).end()).Interleaved = true
	add("empty arguments", begin().call(call("call_1", "now")).usage(Figures()).finish(ir.StopTool).end())
	add("empty object", begin().call(call("call_1", "now"), "{}").usage(Figures()).finish(ir.StopTool).end())
	args := `{"command":"echo \"ä\" 😀","list":[1,2.50,-0,1e400],"a":{"b":null,"title":"t"}}`
	var shards []string
	for _, r := range args {
		shards = append(shards, string(r))
	}
	add("arguments in shards", begin().call(call("call_1", "Bash"), shards...).usage(Figures()).finish(ir.StopTool).end())
	add("arguments in lines", begin().call(call("call_1", "Bash"), "{\n  \"a\": 1,\r\n  \"b\": [\n    2\n  ]\n}").usage(Figures()).finish(ir.StopTool).end())
	s = begin().text("before")
	s.call(call("call_1", "Read"), s.args()...)
	add("text after a call", s.text("after").usage(Figures()).finish(ir.StopTool).end())
	custom := call("call_1", "apply_patch")
	custom.Form = ir.FormCustom
	add("custom call", begin().call(custom, "*** Begin", " Patch\n", "\"x\" 😀").usage(Figures()).finish(ir.StopTool).end()).Custom = true
	hosted := ir.Block{Kind: ir.HostedCall, Type: "server_tool_use", ToolName: ir.ToolName{Name: "web_search"}, ID: "srvtoolu_1", Raw: []byte(`{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"q"}}`)}
	add("hosted call", begin().call(hosted).text("found").usage(Figures()).finish(ir.StopEnd).end())
	add("no id", begin().call(call("", "Read"), "{}").call(call("", "Read"), `{"a":1}`).usage(Figures()).finish(ir.StopTool).end())
	add("odd id", begin().call(call("functions.Read:0", "Read"), "{}").usage(Figures()).finish(ir.StopTool).end())
	add("reason says end", begin().call(call("call_1", "Read"), "{}").usage(Figures()).finish(ir.StopEnd).end())
	add("reason says call", begin().text("none").usage(Figures()).finish(ir.StopTool).end())
}

func endings(add adder) {
	add("refusal in words", begin().block(ir.Block{Kind: ir.Refusal}, "I ", "cannot").usage(Figures()).finish(ir.StopRefusal).end())
	add("refusal", begin().text("Well").usage(Figures()).add(ir.Event{Kind: ir.EventFinish, Stop: ir.Stop{Reason: ir.StopRefusal}}).end())
	add("length", begin().text("and then").usage(Figures()).finish(ir.StopLength).end())
	s := begin()
	n := s.open(call("call_1", "Read"))
	add("length within a call", s.delta(n, `{"path":"cut`).usage(Figures()).finish(ir.StopLength).end())
	add("stop sequence", begin().text("one").usage(Figures()).add(ir.Event{Kind: ir.EventFinish, Stop: ir.Stop{Reason: ir.StopSequence, Sequence: "STOP"}}).end())
	add("context", begin().text("one").usage(Figures()).finish(ir.StopContext).end())
	add("pause", begin().text("one").usage(Figures()).finish(ir.StopPause).end())
}

func faultAnswers() (all []Answer) {
	for _, f := range []struct {
		name  string
		fault ir.Fault
		after func() *script
	}{
		{"at once", ir.Fault{Status: 529, Kind: ir.KindOverloaded, Message: "overloaded"}, func() *script { return &script{} }},
		{"after the start", ir.Fault{Status: 500, Kind: ir.KindAPI, Message: "broken"}, begin},
		{"after text", ir.Fault{Status: 429, Kind: ir.KindRate, Message: "too many"}, func() *script { return begin().text("half ", "a") }},
		{"within text", ir.Fault{Status: 529, Kind: ir.KindOverloaded, Message: "overloaded"}, func() *script {
			s := begin()
			return s.delta(s.open(ir.Block{Kind: ir.Text}), s.marked("half"))
		}},
		{"within thinking", ir.Fault{Status: 500, Kind: ir.KindAPI, Message: "broken"}, func() *script {
			s := begin()
			return s.delta(s.open(ir.Block{Kind: ir.Thinking}), s.marked("half"))
		}},
		{"within a call", ir.Fault{Status: 503, Kind: ir.KindOverloaded, Message: "overloaded"}, func() *script {
			s := begin()
			return s.delta(s.open(call("call_1", "Read")), `{"a":`)
		}},
		{"after the reason", ir.Fault{Status: 500, Kind: ir.KindAPI, Message: "broken"}, func() *script { return begin().text("all").finish(ir.StopEnd) }},
	} {
		all = append(all, Answer{Name: "fault " + f.name, Events: f.after().fault(f.fault), Fault: true})
	}
	return all
}
