package sse

import (
	"bytes"
	"slices"
	"testing"
)

// split cuts all of b, delivered in pieces, into events; the rest is what was left.
func split(pieces ...[]byte) (events []string, rest string) {
	var b []byte
	for _, p := range pieces {
		b = append(b, p...)
		for {
			n := Next(b)
			if n == 0 {
				break
			}
			events = append(events, string(b[:n]))
			b = b[n:]
		}
	}
	return events, string(b)
}

func TestNext(t *testing.T) {
	for _, tc := range []struct {
		in     string
		events []string
		rest   string
	}{
		{"", nil, ""},
		{"data: a\n", nil, "data: a\n"},
		{"data: a\n\n", []string{"data: a\n\n"}, ""},
		{"data: a\n\ndata: b\n\nda", []string{"data: a\n\n", "data: b\n\n"}, "da"},
		{"data: a\r\n\r\ndata: b\r\n\r\n", []string{"data: a\r\n\r\n", "data: b\r\n\r\n"}, ""},
		{"data: a\r\rdata: b\r", []string{"data: a\r\r"}, "data: b\r"},
		{": ping\n\ndata: a\n\n", []string{": ping\n\n", "data: a\n\n"}, ""},
		{"\n\n\ndata: a\n\n", []string{"\n", "\n", "\n", "data: a\n\n"}, ""},
		{"data: a\n\r\nx", []string{"data: a\n\r\n"}, "x"},
	} {
		events, rest := split([]byte(tc.in))
		if !slices.Equal(events, tc.events) || rest != tc.rest {
			t.Errorf("%q: %q %q, want %q %q", tc.in, events, rest, tc.events, tc.rest)
		}
	}
}

// SSE-007: CR at the end of one piece and LF at the start of the next is one line end.
func TestSSE007CRLFCutBetweenPieces(t *testing.T) {
	events, rest := split([]byte("data: A\r"), []byte("\ndata: B\r\n\r\n"))
	if len(events) != 1 || rest != "" {
		t.Fatalf("%q %q", events, rest)
	}
	if _, data := Parse([]byte(events[0])); string(data) != "A\nB" {
		t.Errorf("data = %q", data)
	}
}

// SSE-008: an event with lone CR line ends is whole at its second CR.
func TestSSE008BareCR(t *testing.T) {
	in := []byte("event: message_stop\rdata: {\"type\":\"message_stop\"}\r\r")
	if n := Next(in); n != len(in) {
		t.Fatalf("Next = %d, want %d", n, len(in))
	}
	if name, data := Parse(in); string(name) != "message_stop" || string(data) != `{"type":"message_stop"}` {
		t.Errorf("%q %q", name, data)
	}
}

func TestParse(t *testing.T) {
	for _, tc := range []struct{ in, name, data string }{
		{"event: x\ndata: 1\n\n", "x", "1"},
		{"event:x\ndata:{\"a\":1}\n\n", "x", `{"a":1}`}, // SSE-010
		{"data:  two blanks\n\n", "", " two blanks"},
		{"data: a\ndata: b\ndata:\n\n", "", "a\nb\n"},
		{": comment\nid: 1\nretry: 5\ndata\n\n", "", ""},
		{"data: \u2028x\u0085\n\n", "", "\u2028x\u0085"}, // SSE-009
		{"data: a", "", "a"},
	} {
		name, data := Parse([]byte(tc.in))
		if string(name) != tc.name || string(data) != tc.data {
			t.Errorf("%q: %q %q, want %q %q", tc.in, name, data, tc.name, tc.data)
		}
	}
}

// FuzzSplit: cutting loses no byte, and where the stream is cut into pieces changes no event's name and data.
func FuzzSplit(f *testing.F) {
	f.Add([]byte("event: a\ndata: {}\n\ndata: b\r\n\r\n: c\r\r"), 3)
	f.Add([]byte("\n\r\n\r\ndata: x\n\n"), 2)
	f.Fuzz(func(t *testing.T, b []byte, at int) {
		events, rest := split(b)
		var all []byte
		for _, e := range events {
			all = append(all, e...)
		}
		if !bytes.Equal(append(all, rest...), b) {
			t.Fatal("bytes lost")
		}
		if at < 0 || at > len(b) {
			return
		}
		cut, _ := split(b[:at], b[at:])
		parsed := func(events []string) (out []string) {
			for _, e := range events {
				if name, data := Parse([]byte(e)); len(name)+len(data) > 0 {
					out = append(out, string(name)+"\x00"+string(data))
				}
			}
			return out
		}
		if !slices.Equal(parsed(events), parsed(cut)) {
			t.Fatalf("cut at %d: %q, want %q", at, parsed(cut), parsed(events))
		}
	})
}
