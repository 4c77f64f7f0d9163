package codec_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"coding-proxy/proxy/codec/codectest"
	"coding-proxy/proxy/ir"
)

// kit runs one case: requests from A to B, streams from B to A.
type kit struct {
	*testing.T
}

// sse makes a stream: Chat's and Gemini's of JSON texts, the others' with the type as the event's name.
func sse(events ...string) string {
	var b strings.Builder
	for _, e := range events {
		if typ := codectest.JSON([]byte(e)).At("type").Str(); typ != "" {
			b.WriteString("event: " + typ + "\n")
		}
		b.WriteString("data: " + e + "\n\n")
	}
	return b.String()
}

// chunk is a Chat chunk with a delta; finish may be "".
func chunk(delta, finish string) string {
	reason := "null"
	if finish != "" {
		reason = `"` + finish + `"`
	}
	return `{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + reason + `}]}`
}

func toolDelta(index int, id, name, args string) string {
	head := fmt.Sprintf(`{"tool_calls":[{"index":%d,`, index)
	if id != "" {
		head += `"id":"` + id + `","type":"function",`
	}
	if name != "" {
		return head + `"function":{"name":"` + name + `","arguments":` + quote(args) + `}}]}`
	}
	return head + `"function":{"arguments":` + quote(args) + `}}]}`
}

func quote(s string) string { return codectest.QuoteJSON(s) }

// stream takes an upstream's stream to a client, who must find it in order.
func (k kit) stream(from, to, wire string) string {
	k.Helper()
	out, ended := k.streamRaw(from, to, wire, nil)
	if !ended {
		k.Errorf("no end: %s", out)
	}
	return out
}

func (k kit) streamRaw(from, to, wire string, book *ir.ToolBook) (out string, ended bool) {
	k.Helper()
	c := codectest.NewConversion(dialect(k, from), dialect(k, to), codectest.Reply(), book)
	frames, _ := codectest.Frames([]byte(wire))
	for _, f := range frames {
		c.Feed(f)
	}
	ended = c.End()
	fault := false
	for _, e := range c.Heard {
		fault = fault || e.Kind == ir.EventFault
	}
	if problems, done, _ := codectest.Validate(to, c.Wire, codectest.Expect{Usage: true, Fault: fault}); len(problems) > 0 || ended && !done && (!fault || to != "gemini") {
		k.Errorf("%s (ended %t)\n%s", strings.Join(problems, "\n"), done, c.Wire)
	}
	return string(c.Wire), ended
}

// answer is what a client makes of the stream.
func (k kit) answer(from, to, wire string) *ir.Answer {
	k.Helper()
	frames, _ := codectest.Frames([]byte(k.stream(from, to, wire)))
	a, fault, ok := codectest.FoldOf(codectest.Decode(dialect(k, to), frames, codectest.Source()), nil)
	if !ok || fault != nil {
		k.Fatalf("%+v", fault)
	}
	return a
}

// kinds are the blocks of an answer in words.
func said(a *ir.Answer) string {
	var out []string
	for _, b := range a.Blocks {
		switch b.Kind {
		case ir.Text:
			out = append(out, "text("+b.Text+")")
		case ir.Thinking:
			out = append(out, "thinking("+b.Text+")")
		case ir.ToolCall:
			out = append(out, "call("+b.Name+" "+b.Args+")")
		default:
			out = append(out, fmt.Sprintf("kind %d", b.Kind))
		}
	}
	return strings.Join(append(out, string(a.Stop.Reason)), " ")
}

func (k kit) says(a *ir.Answer, want string) {
	k.Helper()
	if got := said(a); got != want {
		k.Errorf("got  %s\nwant %s", got, want)
	}
}

// request takes a client's request to an upstream's model.
func (k kit) request(from, to, model, body string) (out *ir.Outgoing, json codectest.Node) {
	k.Helper()
	out, err := k.tryRequest(from, to, model, body, codectest.Owner)
	if err != nil {
		k.Fatalf("%v\n%s", err, body)
	}
	return out, codectest.JSON(out.Body)
}

func (k kit) tryRequest(from, to, model, body, owner string) (*ir.Outgoing, error) {
	k.Helper()
	if !codectest.JSON([]byte(body)).IsObject() {
		k.Fatalf("no JSON: %s", body)
	}
	r, err := dialect(k, from).DecodeRequest(ir.Incoming{Body: []byte(body), Model: map[bool]string{true: "m"}[from == "gemini"]})
	if err != nil {
		return nil, err
	}
	out, err := dialect(k, to).EncodeRequest(r, ir.Target{Model: model, Owner: owner})
	if err == nil && !codectest.JSON(out.Body).IsObject() {
		k.Errorf("no JSON: %s", out.Body)
	}
	return out, err
}

// refused checks that a request is refused with the field.
func (k kit) refused(from, to, model, body, field string) {
	k.Helper()
	_, err := k.tryRequest(from, to, model, body, "")
	var no *ir.RefusedError
	if !errors.As(err, &no) || !strings.HasPrefix(no.Field, field) {
		k.Errorf("not refused for %s: %v", field, err)
	}
}

// at checks a value of a JSON text.
func (k kit) at(n codectest.Node, path, want string) {
	k.Helper()
	if got := n.At(path).String(); got != codectest.Canonical([]byte(want)) {
		k.Errorf("%s is %s, want %s\nin %s", path, got, want, n)
	}
}

func (k kit) has(text string, parts ...string) {
	k.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			k.Errorf("%q is missing in\n%s", p, text)
		}
	}
}

func (k kit) hasNot(text string, parts ...string) {
	k.Helper()
	for _, p := range parts {
		if strings.Contains(text, p) {
			k.Errorf("%q is in\n%s", p, text)
		}
	}
}
