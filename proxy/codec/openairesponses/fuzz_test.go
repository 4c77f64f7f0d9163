package openairesponses

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
	"coding-proxy/proxy/sse"
)

// FuzzDecodeRequest: no request makes the decoder panic, and what it takes can be encoded and decoded again.
func FuzzDecodeRequest(f *testing.F) {
	for _, b := range bodies(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if rawjson.Valid(body) != nil {
			return
		}
		r, err := decodeRequest(ir.Incoming{Body: body})
		if err != nil {
			return
		}
		for _, target := range []ir.Target{{Model: "gpt-5.6", Owner: "up"}, {Model: "m"}} {
			out, err := encodeRequest(r, target)
			if err != nil {
				return
			}
			if err := rawjson.Valid(out.Body); err != nil {
				t.Fatalf("%v in %s", err, out.Body)
			}
			again, err := decodeRequest(ir.Incoming{Body: out.Body})
			if err != nil {
				t.Fatalf("%v of our own %s", err, out.Body)
			}
			if _, err := encodeRequest(again, target); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// FuzzDecoder: no stream makes the decoder panic or break what it promises, or the encoder write what is no stream.
func FuzzDecoder(f *testing.F) {
	for _, path := range files(f, "streams/*.sse") {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		events := decodeFrames(framesOf(stream), "up")
		sound(t, events)
		e := newEncoder(reply())
		var out []byte
		for _, ev := range bridged(events, nil) {
			out = e.Append(out, &ev)
		}
		for rest := out; len(rest) > 0; {
			n := sse.Next(rest)
			if n == 0 {
				t.Fatalf("half an event: %q", rest)
			}
			if _, data := sse.Parse(rest[:n]); rawjson.Valid(data) != nil {
				t.Fatalf("no JSON: %s", data)
			}
			rest = rest[n:]
		}
		if n := len(events); n > 0 && events[n-1].Kind == ir.EventEnd {
			validate(t, string(out))
		}
		tap := &tap{}
		for _, fr := range framesOf(stream) {
			tap.Mark([]byte(fr.name), []byte(fr.data))
		}
	})
}

// FuzzFault: any error body gives a fault that can be told to a client, and is understood again.
func FuzzFault(f *testing.F) {
	f.Add(429, []byte(`{"error":{"message":"m","type":"tokens","code":"rate_limit_exceeded"}}`))
	f.Add(0, []byte(`{"type":"error","status":429,"error":{"type":"usage_limit_reached"}}`))
	f.Add(400, []byte(`{"detail":{"code":"x"}}`))
	f.Add(502, []byte(`<html>`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		if status != 0 && (status < 400 || status > 599) {
			return
		}
		fault := readFault(status, body)
		if fault.Kind == "" || fault.Status < 400 {
			t.Fatalf("%+v", fault)
		}
		told := appendError(nil, &fault, "7ace")
		if err := rawjson.Valid(told); err != nil {
			t.Fatalf("%v in %s", err, told)
		}
		if again := readFault(statusFor(&fault), told); again.Message != strings.ToValidUTF8(fault.Message, "\ufffd") {
			t.Fatalf("%q became %q", fault.Message, again.Message)
		}
		broken := (&tap{}).Break(nil, &fault, "7ace")
		if n := sse.Next(broken); n != len(broken) || bytes.Count(broken, []byte("\n")) != 3 {
			t.Fatalf("%q", broken)
		}
	})
}
