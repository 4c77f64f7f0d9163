package anthropic

import (
	"fmt"
	"strings"
	"testing"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// conversation is a coding session of about 400 kB: a hundred turns with calls, results of files, and a dozen tools.
func conversation() []byte {
	var b strings.Builder
	file := strings.Repeat("\tif err := step(ctx, \"name\"); err != nil { return fmt.Errorf(\"step: %w\", err) }\n", 45)
	b.WriteString(`{"model":"claude-opus-5-5","max_tokens":32000,"stream":true,"thinking":{"type":"adaptive"},"system":[{"type":"text","text":"You are a coder","cache_control":{"type":"ephemeral"}}],"tools":[`)
	for i := range 12 {
		fmt.Fprintf(&b, `{"name":"tool_%d","description":"Does something useful","input_schema":{"type":"object","properties":{"path":{"type":"string"},"text":{"type":"string"}},"required":["path"]}},`, i)
	}
	b.WriteString(`{"name":"last","input_schema":{"type":"object"}}],"messages":[{"role":"user","content":"go"}`)
	for i := range 100 {
		fmt.Fprintf(&b, `,{"role":"assistant","content":[{"type":"thinking","thinking":"I must look","signature":"%s"},{"type":"text","text":"Reading."},{"type":"tool_use","id":"toolu_%d","name":"tool_1","input":{"path":"/src/file%d.go"}}]}`,
			ir.Seal(ir.State{Owner: "anthropic/a", Data: strings.Repeat("S", 200)}), i, i)
		fmt.Fprintf(&b, `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_%d","content":%s}]}`, i, rawjson.AppendString(nil, file))
	}
	b.WriteString(`]}`)
	return []byte(b.String())
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
	body := conversation()
	r, err := decodeRequest(ir.Incoming{Body: body})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := encodeRequest(r, ir.Target{Model: "claude-opus-5-5", Owner: "anthropic/a"}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRepair400k(b *testing.B) {
	body := conversation()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if out, _, err := repair(body, ir.RepairSealed); err != nil || out == nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecoderEvent(b *testing.B) {
	d := newDecoder(theSource())
	events := d.Event(nil, []byte("content_block_start"), []byte(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`))
	name, data := []byte("content_block_delta"), []byte(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a piece of text"}}`)
	b.ReportAllocs()
	for b.Loop() {
		events = d.Event(events[:0], name, data)
	}
}

func BenchmarkEncoderEvent(b *testing.B) {
	e := newEncoder(theReply())
	var out []byte
	for _, ev := range []ir.Event{{Kind: ir.EventStart}, begin(0, ir.Block{Kind: ir.Text})} {
		out = e.Append(out, &ev)
	}
	piece := more(0, "a piece of text")
	b.ReportAllocs()
	for b.Loop() {
		out = e.Append(out[:0], &piece)
	}
}

func BenchmarkMark(b *testing.B) {
	t := Dialect().Raw.NewTap()
	name, data := []byte("message_delta"), []byte(`{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"input_tokens":3,"output_tokens":70}}`)
	b.ReportAllocs()
	for b.Loop() {
		t.Mark(name, data)
	}
}
