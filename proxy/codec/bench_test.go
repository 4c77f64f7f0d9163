package codec_test

import (
	"fmt"
	"strings"
	"testing"

	"coding-proxy/proxy/codec"
	"coding-proxy/proxy/codec/codectest"
	"coding-proxy/proxy/ir"
)

// codingSession is a conversation of an agent, about 400 kB: 20 tools, 100 turns of a call and its result each.
func codingSession() *ir.Request {
	r := &ir.Request{Stream: true, MaxTokens: 32000, System: []ir.Block{{Kind: ir.Text, Text: strings.Repeat("You are a coding agent. ", 800)}}}
	for i := range 20 {
		r.Tools = append(r.Tools, ir.Tool{
			ToolName: ir.ToolName{Name: fmt.Sprint("tool_", i)}, Description: strings.Repeat("What it does. ", 60),
			Schema: []byte(`{"type":"object","properties":{"path":{"type":"string","description":"A path"},"limit":{"type":"integer"}},"required":["path"],"additionalProperties":false}`),
		})
	}
	r.Turns = append(r.Turns, ir.Turn{Blocks: []ir.Block{{Kind: ir.Text, Text: "Mend the tests."}}})
	code := strings.Repeat("\tif err != nil {\n\t\treturn fmt.Errorf(\"x: %w\", err)\n\t}\n", 64)
	for i := range 100 {
		id := fmt.Sprint("call_", i)
		name := ir.ToolName{Name: fmt.Sprint("tool_", i%20)}
		r.Turns = append(r.Turns,
			ir.Turn{Role: ir.Assistant, Blocks: []ir.Block{{Kind: ir.Text, Text: "I read the next file."}, {Kind: ir.ToolCall, ID: id, ToolName: name, Args: `{"path":"a/b.go","limit":100}`}}},
			ir.Turn{Blocks: []ir.Block{{Kind: ir.ToolResult, ID: id, ToolName: name, Content: []ir.Block{{Kind: ir.Text, Text: code}}}}})
	}
	return r
}

// BenchmarkConvertRequest400k decodes a client's request and encodes it for an upstream.
func BenchmarkConvertRequest400k(b *testing.B) {
	for _, from := range codec.All() {
		sent, err := from.EncodeRequest(codingSession(), target(codectest.Models(from)[0]))
		if err != nil {
			b.Fatal(err)
		}
		in := incoming(sent, codectest.Models(from)[0])
		for _, to := range codec.All() {
			b.Run(from.Name+" to "+to.Name, func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(sent.Body)))
				for b.Loop() {
					r, err := from.DecodeRequest(in)
					if err != nil {
						b.Fatal(err)
					}
					if _, err := to.EncodeRequest(r, target(codectest.Models(to)[0])); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkStreamEvent takes one event with text from an upstream of Chat to an Anthropic client.
func BenchmarkStreamEvent(b *testing.B) {
	benchmarkStream(b, dialect(b, "openai-chat"), dialect(b, "anthropic"))
}

// BenchmarkStreamEventAll does so between all dialects.
func BenchmarkStreamEventAll(b *testing.B) {
	for _, from := range codec.All() {
		for _, to := range codec.All() {
			b.Run(from.Name+" to "+to.Name, func(b *testing.B) { benchmarkStream(b, from, to) })
		}
	}
}

func benchmarkStream(b *testing.B, from, to *ir.Dialect) {
	events := []ir.Event{{Kind: ir.EventStart}, {Kind: ir.EventBlock, Start: &ir.Block{Kind: ir.Text}}, {Kind: ir.EventDelta, Text: "first"}}
	enc := from.NewEncoder(codectest.Reply())
	var head, delta []byte
	for i := range events {
		head = enc.Append(head, &events[i])
	}
	delta = enc.Append(nil, &ir.Event{Kind: ir.EventDelta, Text: " of the words"})
	frames, _ := codectest.Frames(head)
	piece, _ := codectest.Frames(delta)
	if len(piece) != 1 {
		b.Fatalf("%q", delta)
	}
	dec, out, bridge := from.NewDecoder(codectest.Source()), to.NewEncoder(codectest.Reply()), ir.Bridge{}
	var heard, told []ir.Event
	var wire []byte
	step := func(f codectest.Frame) {
		heard = dec.Event(heard[:0], []byte(f.Name), f.Data)
		for _, e := range heard {
			told = bridge.Next(told[:0], e)
			for i := range told {
				wire = out.Append(wire[:0], &told[i])
			}
		}
	}
	for _, f := range frames {
		step(f)
	}
	b.ReportAllocs()
	for b.Loop() {
		step(piece[0])
	}
	if !strings.Contains(string(wire), " of the words") {
		b.Fatalf("%s", wire)
	}
}
