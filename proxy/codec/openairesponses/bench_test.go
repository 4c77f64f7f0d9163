package openairesponses

import (
	"fmt"
	"strings"
	"testing"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// conversation is a request of about 400 kB: a hundred steps of a coding agent, with tools.
func conversation() []byte {
	var w rawjson.Writer
	w.Open('{')
	w.Field("model", "gpt-5.5")
	w.Field("instructions", strings.Repeat("You are an agent that writes code.\n", 500))
	w.Key("input")
	w.Open('[')
	code := strings.Repeat("\tif err != nil {\n\t\treturn fmt.Errorf(\"read %q: %w\", path, err)\n\t}\n", 50)
	w.Raw([]byte(`{"type":"message","role":"user","content":[{"type":"input_text","text":"Fix the tests."}]}`))
	for i := range 100 {
		seal := ir.Seal(ir.State{Owner: "up", Data: strings.Repeat("gAAAA", 40)})
		w.Raw(fmt.Appendf(nil, `{"type":"reasoning","id":"rs_%d","summary":[{"type":"summary_text","text":"I shall read the file."}],"encrypted_content":%q}`, i, seal))
		w.Raw(fmt.Appendf(nil, `{"type":"function_call","id":"fc_%d","call_id":"call_%d","name":"read","arguments":"{\"path\":\"/a/%d.go\"}"}`, i, i, i))
		w.Open('{')
		w.Field("type", "function_call_output")
		w.Field("call_id", fmt.Sprintf("call_%d", i))
		w.Field("output", code)
		w.Close('}')
	}
	w.Close(']')
	w.Key("tools")
	w.Open('[')
	for i := range 20 {
		w.Raw(fmt.Appendf(nil, `{"type":"function","name":"tool_%d","description":"Does a thing","strict":false,"parameters":{"type":"object","properties":{"path":{"type":"string","description":"A path"},"limit":{"type":"integer"}},"required":["path"]}}`, i))
	}
	w.Close(']')
	w.Close('}')
	return w.Buf
}

func BenchmarkDecodeRequest400k(b *testing.B) {
	body := conversation()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decodeRequest(ir.Incoming{Body: body}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodeRequest400k(b *testing.B) {
	r, err := decodeRequest(ir.Incoming{Body: conversation()})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		out, err := encodeRequest(r, ir.Target{Model: "gpt-5.5", Owner: "up"})
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(out.Body)))
	}
}

func BenchmarkDecoderEvent(b *testing.B) {
	d := newDecoder(ir.Source{Owner: "up"})
	name := []byte("response.output_text.delta")
	data := []byte(`{"type":"response.output_text.delta","item_id":"msg_0123456789abcdef","output_index":0,"content_index":0,"delta":" some words","logprobs":[],"sequence_number":17,"obfuscation":"abcdefgh"}`)
	var events []ir.Event
	b.ReportAllocs()
	for b.Loop() {
		events = d.Event(events[:0], name, data)
	}
}

func BenchmarkEncoderEvent(b *testing.B) {
	e := &encoder{reply: reply(), limit: 1 << 62}
	block := ir.Event{Kind: ir.EventBlock, Start: &ir.Block{Kind: ir.Text}}
	delta := ir.Event{Kind: ir.EventDelta, Text: " some words"}
	out := e.Append(nil, &block)
	b.ReportAllocs()
	for b.Loop() {
		out = e.Append(out[:0], &delta)
		if o := e.blocks[0]; len(o.text) > 1<<20 {
			o.text = o.text[:0]
		}
	}
}

func BenchmarkTapEvent(b *testing.B) {
	tap := &tap{}
	name := []byte("response.output_text.delta")
	data := []byte(`{"type":"response.output_text.delta","item_id":"msg_0123456789abcdef","output_index":0,"content_index":0,"delta":" some words","logprobs":[],"sequence_number":17,"obfuscation":"abcdefgh"}`)
	b.ReportAllocs()
	for b.Loop() {
		tap.Mark(name, data)
	}
}
