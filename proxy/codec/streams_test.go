package codec_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coding-proxy/proxy/codec"
	"coding-proxy/proxy/codec/codectest"
	"coding-proxy/proxy/ir"
)

// hasCustom reports whether a dialect's clients can have free-text tools; the others are answered with functions.
func hasCustom(d *ir.Dialect) bool { return d.Name != "anthropic" && d.Name != "gemini" }

// upstreamStream is a stream of the dialect that says a canonical answer; ok is false where its fault is no event.
func upstreamStream(d *ir.Dialect, a *codectest.Answer) (wire []byte, frames []codectest.Frame, ok bool) {
	wire = codectest.Stream(d, codectest.Bridged(a.Events, nil), codectest.Reply())
	frames, _ = codectest.Frames(wire)
	return wire, frames, !a.Fault || d.Name != "gemini"
}

// Each dialect's client can be told every canonical answer, by the rules of the dialect; read again it is the same but for
// what the table of losses says, as a stream and plain.
func TestAnswers(t *testing.T) {
	for _, d := range codec.All() {
		for _, a := range codectest.Answers() {
			if a.Custom && !hasCustom(d) || d.Name == "gemini" && a.Name == "arguments in lines" && openFindings()["F5"] != nil {
				continue
			}
			t.Run(d.Name+"/"+a.Name, func(t *testing.T) {
				told := codectest.Bridged(a.Events, nil)
				wire, lost := codectest.StreamLost(d, told, codectest.Reply())
				valid(t, d, wire, &a)
				canonical, fault, _ := codectest.FoldOf(a.Events, nil)
				frames, rest := codectest.Frames(wire)
				if len(rest) > 0 {
					t.Fatalf("rest %q", rest)
				}
				got, gotFault, ok := codectest.FoldOf(codectest.Decode(d, frames, codectest.Source()), nil)
				if a.Fault {
					sameFault(t, d, fault, gotFault, ok)
					return
				}
				if !ok || gotFault != nil {
					t.Fatalf("it ends with %+v, %t\n%s", gotFault, ok, wire)
				}
				got = codectest.ClientFold(got, d.Name)
				want, names := codectest.LoseAnswer(canonical, d.Name)
				if diff := codectest.Diff(codectest.NormalizeAnswer(got), codectest.NormalizeAnswer(want)); diff != "" {
					t.Errorf("the stream says something else:%s\n%s", diff, wire)
				}
				for _, n := range names {
					if !slices.Contains(lost, n) {
						t.Errorf("%q is not named as lost: %q", n, lost)
					}
				}
				plainAnswer(t, d, canonical, got, lost)
			})
		}
	}
}

// plainAnswer checks that a whole answer says what the stream does.
func plainAnswer(t *testing.T, d *ir.Dialect, canonical, streamed *ir.Answer, streamLost []string) {
	t.Helper()
	reply := codectest.Reply()
	reply.Request.Stream = false
	body, lost := d.AppendAnswer([]byte("kept"), canonical, reply)
	body, ok := bytes.CutPrefix(body, []byte("kept"))
	if !ok || !codectest.JSON(body).IsObject() {
		t.Fatalf("no JSON is appended: %s", body)
	}
	slices.Sort(lost)
	slices.Sort(streamLost)
	if !slices.Equal(lost, streamLost) {
		t.Errorf("plain: %q lost, the stream %q", lost, streamLost)
	}
	events, err := d.DecodeAnswer(body, codectest.Source())
	if err != nil {
		t.Fatalf("%v\n%s", err, body)
	}
	got, fault, ended := codectest.FoldOf(events, nil)
	if !ended || fault != nil {
		t.Fatalf("plain: %+v\n%s", fault, body)
	}
	if diff := codectest.Diff(codectest.NormalizeAnswer(got), codectest.NormalizeAnswer(streamed)); diff != "" {
		t.Errorf("the plain answer differs from the stream:%s\n%s", diff, body)
	}
	if got.Model != codectest.Model {
		t.Errorf("model %q", got.Model)
	}
}

func sameFault(t *testing.T, d *ir.Dialect, want, got *ir.Fault, ok bool) {
	t.Helper()
	switch {
	case d.Name == "gemini": // its broken streams end without a word: the connection is aborted
		// A body that ends without finishReason is a whole answer if anything came (routing.md, 4).
		if ok && got != nil {
			t.Errorf("a fault %+v that none said", got)
		}
	case d.Name == "openai-chat" && want.Kind == ir.KindOverloaded && got != nil && got.Kind == ir.KindAPI:
		// An error chunk has no status, and its server_error is any fault of the server's.
	case got == nil || got.Kind != want.Kind:
		t.Errorf("fault %+v, want the kind %s", got, want.Kind)
	}
}

// valid checks a client's stream by the rules of its dialect, in all forms that it has.
func valid(t *testing.T, d *ir.Dialect, wire []byte, a *codectest.Answer) {
	t.Helper()
	x := codectest.Expect{Usage: true, Fault: a.Fault}
	problems, done, known := codectest.Validate(d.Name, wire, x)
	if len(problems) > 0 {
		t.Errorf("%s\n%s", strings.Join(problems, "\n"), wire)
	}
	if known && done == (a.Fault && d.Name == "gemini") {
		t.Errorf("ended: %t\n%s", done, wire)
	}
	reply := codectest.Reply()
	reply.Request.IncludeUsage = false
	wire = codectest.Stream(d, codectest.Bridged(a.Events, nil), reply)
	if problems, _, _ := codectest.Validate(d.Name, wire, codectest.Expect{Fault: a.Fault}); len(problems) > 0 {
		t.Errorf("without usage: %s\n%s", strings.Join(problems, "\n"), wire)
	}
	reply.Array = true
	wire = codectest.Stream(d, codectest.Bridged(a.Events, nil), reply)
	if d.Name == "gemini" && !a.Fault {
		if problems, done, _ := codectest.Validate(d.Name, wire, codectest.Expect{Array: true}); len(problems) > 0 || !done || !codectest.JSON(wire).IsList() {
			t.Errorf("array: %s\n%s", strings.Join(problems, "\n"), wire)
		}
	}
}

// handwritten are the upstream streams that the dialect's own tests were written from.
func handwritten(t testing.TB, d *ir.Dialect) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	files, _ := filepath.Glob("../../testdata/" + d.Name + "/streams/*.sse")
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(f)] = b
	}
	return out
}

// source is a stream of an upstream.
type source struct {
	name string
	wire []byte
}

// sources are all streams that an upstream of the dialect is tried with, in the order of their names.
func sources(t testing.TB, d *ir.Dialect) (out []source) {
	for name, wire := range handwritten(t, d) {
		out = append(out, source{name, wire})
	}
	for _, a := range codectest.Answers() {
		if wire, _, ok := upstreamStream(d, &a); ok && (!a.Custom || hasCustom(d)) {
			out = append(out, source{a.Name, wire})
		}
	}
	slices.SortFunc(out, func(a, b source) int { return strings.Compare(a.name, b.name) })
	return out
}

// The events are the same wherever the bytes are cut, and in every form that the standard allows.
func TestStreamsInEveryForm(t *testing.T) {
	for _, d := range codec.All() {
		t.Run(d.Name, func(t *testing.T) {
			if len(handwritten(t, d)) == 0 {
				t.Error("no streams on disk")
			}
			for _, s := range sources(t, d) {
				name, wire := s.name, s.wire
				frames, _ := codectest.Frames(wire)
				want := codectest.Events(codectest.Decode(d, frames, codectest.Source()))
				if len(want) == 0 && len(frames) > 0 && !strings.Contains(name, "nothing") {
					t.Logf("%s says nothing", name)
				}
				cuts(t, d, name, wire, frames, want)
				for _, form := range codectest.Forms() {
					if form.Name == "data in several lines" && !strings.Contains(string(wire), "data: {") {
						continue
					}
					if strings.Contains(string(wire), "\r") && strings.HasPrefix(form.Name, "CR") {
						continue // it has such line ends already
					}
					again, rest := codectest.Frames(form.Of(frames))
					if len(rest) > 0 {
						t.Errorf("%s, %s: rest %q", name, form.Name, rest)
					}
					if diff := codectest.Diff(codectest.Events(codectest.Decode(d, again, codectest.Source())), want); diff != "" {
						t.Errorf("%s, %s:%s", name, form.Name, diff)
					}
				}
			}
		})
	}
}

// cuts feeds the stream in two writes, cut at every byte. How it is cut into frames depends on nothing but the frames next to
// the cut, so that these are looked at; what is decoded then cannot differ, and is tried at some cuts all the same.
func cuts(t *testing.T, d *ir.Dialect, name string, wire []byte, frames []codectest.Frame, want []string) {
	t.Helper()
	for k := range frames {
		near := frames[k:min(k+3, len(frames))]
		window := slices.Concat(raws(near)...)
		for at := range len(near[0].Raw) + 1 {
			if !sameFrames(inTwo(window, at), near) {
				t.Errorf("%s cut at %d of %q: other events", name, at, window)
				return
			}
		}
	}
	for at := 0; at <= len(wire); at += max(1, len(wire)/8) {
		if diff := codectest.Diff(codectest.Events(codectest.Decode(d, inTwo(wire, at), codectest.Source())), want); diff != "" {
			t.Errorf("%s cut at %d:%s", name, at, diff)
			return
		}
	}
}

func raws(frames []codectest.Frame) (out [][]byte) {
	for _, f := range frames {
		out = append(out, f.Raw)
	}
	return out
}

// inTwo are the frames of a stream that comes in two writes.
func inTwo(wire []byte, at int) []codectest.Frame {
	first, rest := codectest.Frames(wire[:at])
	second, _ := codectest.Frames(slices.Concat(rest, wire[at:]))
	return append(first, second...)
}

// sameFrames compares what frames say; blank lines between them are none.
func sameFrames(a, b []codectest.Frame) bool {
	say := func(list []codectest.Frame) []codectest.Frame {
		return slices.DeleteFunc(slices.Clone(list), func(f codectest.Frame) bool { return f.Name == "" && f.Data == nil })
	}
	return slices.EqualFunc(say(a), say(b), func(x, y codectest.Frame) bool {
		return x.Name == y.Name && string(x.Data) == string(y.Data)
	})
}

// Halves of a surrogate pair in two pieces become the character.
func TestSurrogates(t *testing.T) {
	halves := strings.NewReplacer("QQ1QQ", `\ud83d`, "QQ2QQ", `\ude00`)
	for _, d := range codec.All() {
		for _, kind := range []ir.BlockKind{ir.Text, ir.Thinking, ir.ToolCall} {
			start := ir.Block{Kind: kind}
			pieces := []string{"a QQ1QQ", "QQ2QQ b"}
			if kind == ir.ToolCall {
				start.ID, start.Name = "call_1", "Read"
				pieces = []string{`{"a":"QQ1QQ`, `QQ2QQ"}`}
			}
			events := []ir.Event{{Kind: ir.EventStart}, {Kind: ir.EventBlock, Start: &start}, {Kind: ir.EventDelta, Text: pieces[0]}, {Kind: ir.EventDelta, Text: pieces[1]},
				{Kind: ir.EventClose}, {Kind: ir.EventFinish, Stop: ir.Stop{Reason: ir.StopEnd}}, {Kind: ir.EventEnd}}
			wire := halves.Replace(string(codectest.Stream(d, codectest.Bridged(events, nil), codectest.Reply())))
			frames, _ := codectest.Frames([]byte(wire))
			a, _, ok := codectest.FoldOf(codectest.Decode(d, frames, codectest.Source()), nil)
			if !ok || len(a.Blocks) != 1 || !strings.Contains(a.Blocks[0].Text+codectest.Canonical([]byte(codectest.Args(&a.Blocks[0]))), "😀") || strings.Contains(a.Blocks[0].Text+a.Blocks[0].Args, "\ufffd") {
				t.Errorf("%s: kind %d: %+v\n%s", d.Name, kind, a, wire)
			}
		}
	}
}

// lineBreaks names the finding about arguments with line breaks between their tokens.
func lineBreaks(b, a *ir.Dialect, answer *codectest.Answer, form codectest.Form) string {
	if answer.Name == "arguments in lines" && (a.Name == "gemini" || b.Name == "gemini") || form.Name == "data in several lines" && a.Name == "gemini" && b.Name == "gemini" {
		return "F5"
	}
	return ""
}

// Every answer of every upstream reaches every client as it is, but for what the table of losses says; the plain answer and
// the stream say the same; and nothing waits for an event that it does not need.
func TestStreamsBetweenAll(t *testing.T) {
	open := openFindings()
	defer open.settle(t)
	for _, b := range codec.All() {
		for _, a := range codec.All() {
			t.Run(b.Name+" to "+a.Name, func(t *testing.T) {
				for _, answer := range codectest.Answers() {
					if !answer.Custom || hasCustom(a) && hasCustom(b) {
						for _, form := range append(codectest.Forms(), codectest.Form{Name: "as it is"}) {
							p := between(b, a, &answer, form)
							if !open.excuse(lineBreaks(b, a, &answer, form), p) && p != "" {
								t.Errorf("%s, %s: %s", answer.Name, form.Name, p)
							}
						}
					}
				}
			})
		}
	}
}

// between takes a canonical answer through an upstream of b to a client of a; it returns what is wrong.
func between(b, a *ir.Dialect, answer *codectest.Answer, form codectest.Form) string {
	wire, frames, ok := upstreamStream(b, answer)
	if !ok {
		return ""
	}
	if form.Of != nil {
		wire = form.Of(frames)
		frames, _ = codectest.Frames(wire)
	}
	c := codectest.NewConversion(b, a, codectest.Reply(), nil)
	for _, f := range frames {
		c.Feed(f)
		if p := prompt(c, f, answer); p != "" {
			return fmt.Sprintf("%s\nupstream:\n%s\nclient:\n%s", p, wire, c.Wire)
		}
	}
	ended := c.End()
	problems, done, known := codectest.Validate(a.Name, c.Wire, codectest.Expect{Usage: true, Fault: answer.Fault})
	if len(problems) > 0 {
		return fmt.Sprintf("%s\n%s", strings.Join(problems, "\n"), c.Wire)
	}
	heard, fault, _ := codectest.FoldOf(c.Heard, nil)
	if answer.Fault {
		if fault == nil {
			return fmt.Sprintf("the fault is lost\n%s", wire)
		}
		return ""
	}
	if !ended || known && !done {
		return fmt.Sprintf("no end\n%s", c.Wire)
	}
	told, _ := codectest.Frames(c.Wire)
	got, _, _ := codectest.FoldOf(codectest.Decode(a, told, codectest.Source()), nil)
	got = codectest.ClientFold(got, a.Name)
	want, names := codectest.LoseAnswer(heard, a.Name)
	if diff := codectest.Diff(codectest.NormalizeAnswer(got), codectest.NormalizeAnswer(want)); diff != "" {
		return fmt.Sprintf("the client hears something else:%s\nupstream:\n%s\nclient:\n%s", diff, wire, c.Wire)
	}
	for _, n := range names {
		if !slices.Contains(c.Lost(), n) {
			return fmt.Sprintf("%q is not named as lost: %q", n, c.Lost())
		}
	}
	return plainBetween(b, a, answer, got)
}

// plainBetween does the same with plain answers and compares with what the stream told.
func plainBetween(b, a *ir.Dialect, answer *codectest.Answer, streamed *ir.Answer) string {
	canonical, _, _ := codectest.FoldOf(answer.Events, nil)
	body, _ := b.AppendAnswer(nil, canonical, codectest.Reply())
	events, err := b.DecodeAnswer(body, codectest.Source())
	if err != nil {
		return fmt.Sprintf("plain: %v\n%s", err, body)
	}
	heard, _, _ := codectest.FoldOf(events, nil)
	out, _ := a.AppendAnswer(nil, heard, codectest.Reply())
	events, err = a.DecodeAnswer(out, codectest.Source())
	if err != nil {
		return fmt.Sprintf("plain: %v\n%s", err, out)
	}
	got, _, ok := codectest.FoldOf(events, nil)
	if !ok {
		return fmt.Sprintf("plain: no end\n%s", out)
	}
	if b.Name == "openai-chat" { // a plain answer of Chat has no order, a stream has
		got, streamed = codectest.ClientFold(got, b.Name), codectest.ClientFold(streamed, b.Name)
		for i := range streamed.Blocks { // blank lines part the reasoning before a call from that behind it, once or twice
			streamed.Blocks[i].Text = strings.ReplaceAll(streamed.Blocks[i].Text, "\n\n\n\n", "\n\n")
		}
	}
	if answer.Name == "length within a call" {
		return "" // a plain answer of Anthropic or Gemini cannot say half an object as the upstream would
	}
	if diff := codectest.Diff(codectest.NormalizeAnswer(got), codectest.NormalizeAnswer(streamed)); diff != "" {
		return fmt.Sprintf("plain and stream differ:%s\nupstream:\n%s\nclient:\n%s", diff, body, out)
	}
	return ""
}

// prompt checks that what the frame brought is heard and told: its markers, if it is the first frame that has them (the
// last events of Responses repeat all). What the design holds back is let be: interleaved calls where blocks are serial,
// calls towards Gemini, inputs that are unwrapped.
func prompt(c *codectest.Conversion, f codectest.Frame, answer *codectest.Answer) string {
	for _, m := range markers(string(f.Data)) {
		heard := slices.IndexFunc(c.Heard, func(e ir.Event) bool { return e.Kind == ir.EventDelta && strings.Contains(e.Text, m) })
		if heard < 0 {
			return "the decoder holds back " + m
		}
		serial := c.To.Name == "anthropic" || c.To.Name == "gemini"
		if answer.Interleaved && serial || answer.Custom || c.To.Name == "gemini" && openCall(c) {
			continue
		}
		if !strings.Contains(string(c.Wire), m) {
			return "the encoder holds back " + m
		}
	}
	return ""
}

// openCall reports whether the last block that began is a call that is not whole.
func openCall(c *codectest.Conversion) bool {
	for i := len(c.Told) - 1; i >= 0; i-- {
		switch e := &c.Told[i]; e.Kind {
		case ir.EventClose:
			return false
		case ir.EventBlock:
			return e.Start.Kind == ir.ToolCall
		}
	}
	return false
}

func markers(text string) (out []string) {
	for i := 0; i+5 <= len(text); i++ {
		if text[i] == 'm' && text[i+4] == 'm' && strings.Trim(text[i+1:i+4], "0123456789") == "" {
			out = append(out, text[i:i+5])
		}
	}
	return out
}
