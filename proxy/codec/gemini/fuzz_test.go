package gemini

import (
	"bytes"
	"testing"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
	"coding-proxy/proxy/sse"
)

// What decodes goes out as a body that the API's rules allow, and decodes again.
func FuzzDecodeRequest(f *testing.F) {
	for _, body := range bodies(f) {
		f.Add(body)
	}
	f.Add([]byte(`{"contents":[{"role":"model","parts":[{"executableCode":{"code":"1"}},{"functionResponse":{"name":"f","response":{"error":{}}}}]},{"parts":{"text":"a"}}],"tools":[{"codeExecution":{}}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if rawjson.Valid(body) != nil {
			return
		}
		r, err := decodeRequest(ir.Incoming{Body: body, Model: "m"})
		if err != nil {
			return
		}
		for _, m := range []string{model, "gemini-2.5-flash", "claude-x"} {
			out, err := encodeRequest(r, ir.Target{Model: m, Owner: owner})
			if err != nil {
				continue
			}
			if err := checkBody(out.Body, m); err != nil && !hasOpaque(r) {
				t.Fatalf("%v\n%s", err, out.Body)
			}
			if _, err := decodeRequest(ir.Incoming{Body: out.Body, Model: "m"}); err != nil {
				t.Fatalf("%v\n%s", err, out.Body)
			}
		}
		for how := ir.RepairSealed; how <= ir.RepairAll; how++ {
			out, _, err := repair(body, how)
			if err != nil || out == nil {
				continue
			}
			if err := rawjson.Valid(out); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		}
	})
}

// hasOpaque: what is opaque goes out as it came, whatever it holds.
func hasOpaque(r *ir.Request) bool {
	for _, turn := range r.Turns {
		for _, b := range turn.Blocks {
			if b.Kind == ir.Opaque {
				return true
			}
		}
	}
	return false
}

// Any bytes make events that keep to the rules, and a stream that does.
func FuzzDecoder(f *testing.F) {
	for _, stream := range corpus(f, "streams", ".sse", true) {
		f.Add(stream)
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		d, tp := newDecoder(ir.Source{Owner: owner, Seed: "5eed"}), &tap{}
		enc := newEncoder(reply)
		bridge := ir.Bridge{}
		var events, told []ir.Event
		var out []byte
		for rest := stream; ; {
			n := sse.Next(rest)
			if n == 0 {
				break
			}
			name, data := sse.Parse(rest[:n])
			rest = rest[n:]
			tp.Mark(name, data)
			events = d.Event(events, name, data)
		}
		events = d.End(events)
		if err := checkEvents(events); err != nil {
			t.Fatalf("%v\n%s", err, all(events))
		}
		size := 0
		for i := range events {
			size += len(events[i].Text)
			told = bridge.Next(told[:0], events[i])
			for j := range told {
				out = enc.Append(out, &told[j])
			}
		}
		if size > 8*len(stream)+maxValues*maxIndex {
			t.Fatalf("%d bytes of text from %d", size, len(stream))
		}
		for _, c := range frames(string(out)) {
			if err := rawjson.Valid(c); err != nil {
				t.Fatalf("%v: %s", err, c)
			}
		}
		_, _ = decodeAnswer(stream, ir.Source{})
	})
}

func FuzzFault(f *testing.F) {
	for _, stream := range corpus(f, "streams", ".sse", true) {
		for _, c := range frames(string(stream)) {
			f.Add(c)
		}
	}
	f.Add([]byte(`[{"error":{"code":400,"details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{}]}]}}]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		got := fault(0, body)
		if got.Kind == "" || got.Status < 400 || got.Status > 599 {
			t.Fatalf("%+v", got)
		}
		if told := appendError(nil, &got, "t"); rawjson.Valid(told) != nil {
			t.Fatalf("%s", told)
		}
	})
}

// Any schema becomes one that Gemini honours, of measured size.
func FuzzSchema(f *testing.F) {
	for _, body := range bodies(f) {
		_ = rawjson.Elements(rawjson.Get(body, "tools"), func(_ int, v []byte) error {
			list := rawjson.Get(v, "functionDeclarations")
			if list == nil {
				return nil
			}
			return rawjson.Elements(list, func(_ int, v []byte) error {
				if s := rawjson.Get(v, "parametersJsonSchema"); s != nil {
					f.Add(bytes.Clone(s))
				}
				return nil
			})
		})
	}
	f.Add([]byte(`{"$ref":"#/a","a":{"allOf":[{"$ref":"#"},{"anyOf":[{"$ref":"#/a"},true,{"required":["x"]}]}],"if":{},"then":{"properties":{"x":{"enum":[1,"",null,{}]}}}}}`))
	f.Fuzz(func(t *testing.T, schema []byte) {
		if rawjson.Valid(schema) != nil {
			return
		}
		for _, parameters := range []bool{true, false} {
			out, _ := clean(schema, parameters)
			if out == nil {
				continue
			}
			if err := rawjson.Valid(out); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if err := checkSchema(out, ""); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if len(out) > 16*len(schema)+1<<20 {
				t.Fatalf("%d bytes of %d", len(out), len(schema))
			}
		}
		rd := reader{r: &ir.Request{}}
		if err := rawjson.Valid(rd.schema(schema)); err != nil {
			t.Fatalf("%v\n%s", err, rd.schema(schema))
		}
	})
}
