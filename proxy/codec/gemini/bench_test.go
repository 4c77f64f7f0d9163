package gemini

import (
	"fmt"
	"strings"
	"testing"

	"coding-proxy/proxy/ir"
)

// conversation is a coding session of about 400 kB: a hundred turns of calls and results, twenty tools.
func conversation() []byte {
	var b strings.Builder
	b.WriteString(`{"systemInstruction":{"parts":[{"text":"` + strings.Repeat("You are a coder. ", 1000) + `"}]},"contents":[{"role":"user","parts":[{"text":"go"}]}`)
	for i := range 50 {
		fmt.Fprintf(&b, `,{"role":"model","parts":[{"text":"Reading file %d."},{"functionCall":{"id":"c%d","name":"tool_%d","args":{"path":"/a/b/c%d.go","limit":%d}},"thoughtSignature":"%s"}]}`,
			i, i, i%20, i, i, strings.Repeat("c2ln", 60))
		fmt.Fprintf(&b, `,{"role":"user","parts":[{"functionResponse":{"id":"c%d","name":"tool_%d","response":{"output":"%s"}}}]}`,
			i, i%20, strings.Repeat(`if err != nil {\n\treturn fmt.Errorf(\"x: %w\", err)\n}\n`, 120))
	}
	b.WriteString(`],"tools":[{"functionDeclarations":[`)
	for i := range 20 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"name":"tool_%d","description":"%s","parametersJsonSchema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"path":{"type":"string","description":"where"},"limit":{"type":"integer","exclusiveMinimum":0},"opts":{"type":"object","properties":{"a":{"type":["string","null"]},"b":{"type":"array","items":{"type":"string"}}}}},"required":["path"],"additionalProperties":false}}`,
			i, strings.Repeat("Does a thing. ", 100))
	}
	b.WriteString(`]}],"generationConfig":{"temperature":1,"thinkingConfig":{"thinkingLevel":"HIGH"}}}`)
	return []byte(b.String())
}

func BenchmarkDecodeRequest400k(b *testing.B) {
	body := conversation()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decodeRequest(ir.Incoming{Body: body, Model: "m"}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodeRequest400k(b *testing.B) {
	body := conversation()
	r := decode(b, string(body))
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := encodeRequest(r, ir.Target{Model: model, Owner: owner}); err != nil {
			b.Fatal(err)
		}
	}
}

var deltaChunk = []byte(`{"candidates":[{"content":{"parts":[{"text":"some words of an answer "}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":1234,"candidatesTokenCount":56,"totalTokenCount":1290},"modelVersion":"gemini-3.1-pro-preview","responseId":"abc"}`)

func BenchmarkDecoderEvent(b *testing.B) {
	d := newDecoder(ir.Source{Owner: owner, Seed: "5eed"})
	var events []ir.Event
	b.ReportAllocs()
	for b.Loop() {
		events = d.Event(events[:0], nil, deltaChunk)
	}
}

func BenchmarkTapEvent(b *testing.B) {
	t := &tap{}
	b.ReportAllocs()
	for b.Loop() {
		t.Mark(nil, deltaChunk)
	}
}

func BenchmarkEncoderEvent(b *testing.B) {
	e := newEncoder(reply)
	start := ir.Event{Kind: ir.EventBlock, Start: &ir.Block{Kind: ir.Text}}
	delta := ir.Event{Kind: ir.EventDelta, Text: "some words of an answer "}
	out := e.Append(nil, &start)
	b.ReportAllocs()
	for b.Loop() {
		out = e.Append(out[:0], &delta)
	}
}

// PRF-004: what is allocated stays a small multiple of the body, and grows with it.
func TestPRF004Allocations(t *testing.T) {
	measure := func(tools int) float64 {
		r := request(user(say("a")))
		for i := range tools {
			tl := tool(fmt.Sprintf("t%d", i))
			tl.Schema = []byte(`{"type":"object","properties":{"a":{"type":"string","description":"` + strings.Repeat("x", 1000) + `"}}}`)
			r.Tools = append(r.Tools, tl)
		}
		return testing.AllocsPerRun(5, func() {
			if _, err := encodeRequest(r, ir.Target{Model: model}); err != nil {
				t.Fatal(err)
			}
		})
	}
	if a, b := measure(50), measure(200); b > 6*a {
		t.Errorf("%v allocations for 50 tools, %v for 200", a, b)
	}
}
