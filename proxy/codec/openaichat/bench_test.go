package openaichat

import (
	"fmt"
	"strings"
	"testing"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// coding is a conversation of about 400 kB: 100 turns with calls and results, 20 tools.
func coding() []byte {
	w := rawjson.Writer{}
	w.Open('{')
	w.Field("model", "gpt-5.2")
	w.Key("stream")
	w.Bool(true)
	w.Key("tools")
	w.Open('[')
	for i := range 20 {
		w.Raw(fmt.Appendf(nil, `{"type":"function","function":{"name":"tool_%d","description":%q,"parameters":{"type":"object","properties":{"path":{"type":"string","description":%q}},"required":["path"]}}}`,
			i, strings.Repeat("does things; ", 100), strings.Repeat("a path ", 20)))
	}
	w.Close(']')
	w.Key("messages")
	w.Open('[')
	w.Raw(rawjson.AppendString([]byte(`{"role":"system","content":`), strings.Repeat("You are an agent.\n", 1000)))
	w.Buf = append(w.Buf, '}')
	code := strings.Repeat("\tif err != nil {\n\t\treturn fmt.Errorf(\"read %s: %w\", path, err)\n\t}\n", 45)
	for i := range 100 {
		w.Raw(fmt.Appendf(nil, `{"role":"assistant","content":"I look at it.","tool_calls":[{"id":"call_%d","type":"function","function":{"name":"tool_%d","arguments":"{\"path\":\"/a/b/c.go\",\"limit\":100}"}}]}`, i, i%20))
		w.Raw(append(rawjson.AppendString(fmt.Appendf(nil, `{"role":"tool","tool_call_id":"call_%d","content":`, i), code), '}'))
	}
	w.Raw([]byte(`{"role":"user","content":"go on"}`))
	w.Close(']')
	w.Close('}')
	return w.Buf
}

func BenchmarkDecodeRequest400k(b *testing.B) {
	body := coding()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decodeRequest(ir.Incoming{Body: body}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodeRequest400k(b *testing.B) {
	body := coding()
	r := decoded(b, string(body))
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := encodeRequest(r, ir.Target{Model: "gpt-5.2"}); err != nil {
			b.Fatal(err)
		}
	}
}

var benchChunk = []byte(`{"id":"chatcmpl-Bxyz","object":"chat.completion.chunk","created":1700000000,"model":"gpt-5.2-2026-01-01","service_tier":"default","system_fingerprint":"fp_1","choices":[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"abcdef"}`)

func BenchmarkDecoderEvent(b *testing.B) {
	d := newDecoder(ir.Source{Owner: "up", Seed: "5eed"})
	var events []ir.Event
	b.ReportAllocs()
	for b.Loop() {
		events = d.Event(events[:0], nil, benchChunk)
	}
}

func BenchmarkDecoderArgs(b *testing.B) {
	d := newDecoder(ir.Source{Owner: "up", Seed: "5eed"})
	events := d.Event(nil, nil, []byte(`{"id":"a","choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":\""}}]}}]}`))
	piece := []byte(`{"id":"a","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"some code"}}]},"finish_reason":null}]}`)
	b.ReportAllocs()
	for b.Loop() {
		events = d.Event(events[:0], nil, piece)
	}
}

func BenchmarkEncoderEvent(b *testing.B) {
	e := newEncoder(reply(&ir.Request{IncludeUsage: true}))
	buf := e.Append(nil, &ir.Event{Kind: ir.EventStart})
	buf = e.Append(buf, &ir.Event{Kind: ir.EventBlock, Start: &ir.Block{Kind: ir.Text}})
	delta := ir.Event{Kind: ir.EventDelta, Text: " token"}
	b.ReportAllocs()
	for b.Loop() {
		buf = e.Append(buf[:0], &delta)
	}
}

func BenchmarkTapMark(b *testing.B) {
	t := &tap{}
	b.ReportAllocs()
	for b.Loop() {
		t.Mark(nil, benchChunk)
	}
}

func BenchmarkIsBulk(b *testing.B) {
	event := append(append([]byte("data: "), benchChunk...), "\n\n"...)
	b.ReportAllocs()
	for b.Loop() {
		if !isBulk(event) {
			b.Fatal("not bulk")
		}
	}
}
