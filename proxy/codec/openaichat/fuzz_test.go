package openaichat

import (
	"bytes"
	"testing"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// FuzzDecodeRequest: no request panics; what decodes can be said again, and then says the same.
func FuzzDecodeRequest(f *testing.F) {
	for _, b := range bodies(f) {
		f.Add(b, "gpt-4.1")
		f.Add(b, "deepseek-chat")
	}
	f.Fuzz(func(t *testing.T, body []byte, model string) {
		if rawjson.Valid(body) != nil {
			return
		}
		r, err := decodeRequest(ir.Incoming{Body: body})
		if err != nil {
			return
		}
		out, err := encodeRequest(r, ir.Target{Model: model, Owner: "us"})
		if err != nil {
			return
		}
		if err := rawjson.Valid(out.Body); err != nil {
			t.Fatalf("%v\n%s", err, out.Body)
		}
		again, err := decodeRequest(ir.Incoming{Body: out.Body})
		if err != nil {
			t.Fatalf("%v\n%s", err, out.Body)
		}
		paired(t, out.Body)
		if _, err := encodeRequest(again, ir.Target{Model: model, Owner: "us"}); err != nil {
			t.Fatalf("%v\n%s", err, out.Body)
		}
	})
}

// paired checks that behind each assistant message stands one result for each of its calls, in order, and no result
// anywhere else.
func paired(t *testing.T, body []byte) {
	t.Helper()
	var due []string
	_ = rawjson.Elements(rawjson.Get(body, "messages"), func(_ int, m []byte) error {
		if role, _ := rawjson.String(rawjson.Get(m, "role")); role == "tool" {
			id, _ := rawjson.String(rawjson.Get(m, "tool_call_id"))
			if len(due) == 0 || due[0] != id {
				t.Fatalf("a result for %q, due are %q:\n%s", id, due, body)
			}
			due = due[1:]
			return nil
		}
		if len(due) > 0 {
			t.Fatalf("no result for %q:\n%s", due, body)
		}
		if calls := rawjson.Get(m, "tool_calls"); isArray(calls) {
			_ = rawjson.Elements(calls, func(_ int, c []byte) error {
				id, _ := rawjson.String(rawjson.Get(c, "id"))
				if id == "" {
					t.Fatalf("a call without an id:\n%s", body)
				}
				due = append(due, id)
				return nil
			})
		}
		return nil
	})
}

// FuzzDecoder: whatever an upstream sends, the events keep to the contract, and both lanes survive it.
func FuzzDecoder(f *testing.F) {
	for _, b := range streams(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		events := eventsOf(b)
		checkEvents(t, events)
		d := newDecoder(ir.Source{Owner: "up", Seed: "5eed"})
		var more []ir.Event
		frames(b, func(name, data []byte) {
			more = d.Event(more[:0], name, data)
			if d.waitingSize > maxWaiting || len(d.calls) > maxCalls || len(d.blank) > maxWaiting {
				t.Fatal("more is held than is allowed")
			}
		})
		e := newEncoder(reply(nil))
		var out []byte
		for _, ev := range bridged(events, nil) {
			out = e.Append(out, &ev)
		}
		rest := frames(out, func(_, data []byte) {
			if string(data) != done && rawjson.Valid(data) != nil {
				t.Fatalf("%s", data)
			}
		})
		if len(rest) > 0 {
			t.Fatalf("half an event: %q", rest)
		}
		tp, _, _, _ := tapped(b)
		if out, _ := tp.Finish(nil); out != nil && !bytes.HasSuffix(out, []byte("\n\n")) {
			t.Fatalf("%q", out)
		}
		isBulk(b)
	})
}

// FuzzPlain: whatever body an upstream answers with.
func FuzzPlain(f *testing.F) {
	for name, a := range answers() {
		body, _ := appendAnswer(nil, a, reply(nil))
		if len(body) == 0 {
			f.Fatal(name)
		}
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		events, err := decodeAnswer(body, ir.Source{Owner: "up", Seed: "5eed"})
		if err != nil {
			return
		}
		checkEvents(t, events)
		a, fault := folded(t, events, nil)
		if fault != nil {
			return
		}
		out, _ := appendAnswer(nil, a, reply(nil))
		if err := rawjson.Valid(out); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	})
}

// FuzzFault: whatever an error body is, an error can be said of it.
func FuzzFault(f *testing.F) {
	for _, s := range []string{`{"error":{"message":"m","type":"t","param":"p","code":"c"}}`, `{"error":"x"}`, `[{"error":{"code":5}}]`, `<html>`, ``, `{"error":{"code":1e99}}`} {
		f.Add(429, []byte(s))
		f.Add(0, []byte(s))
	}
	f.Fuzz(func(t *testing.T, code int, body []byte) {
		got := fault(code, body)
		if got.Kind == "" || code != 0 && got.Status != code {
			t.Fatalf("%+v", got)
		}
		out := appendError(nil, &got, "t")
		if rawjson.Valid(out) != nil {
			t.Fatalf("%s", out)
		}
		if s := status(&got); s < 400 || s > 599 {
			t.Fatalf("status %d", s)
		}
	})
}

// FuzzRepair: a repaired body is JSON, and needs no second repair.
func FuzzRepair(f *testing.F) {
	for _, b := range bodies(f) {
		f.Add(b, uint8(2))
	}
	f.Fuzz(func(t *testing.T, body []byte, how uint8) {
		if rawjson.Valid(body) != nil {
			return
		}
		out, removed, err := repair(body, ir.Repair(how%3))
		if err != nil || out == nil {
			return
		}
		if rawjson.Valid(out) != nil || len(removed) == 0 {
			t.Fatalf("%q\n%s", removed, out)
		}
		if again, _, _ := repair(out, ir.Repair(how%3)); again != nil {
			t.Fatalf("twice:\n%s\n%s", out, again)
		}
	})
}
