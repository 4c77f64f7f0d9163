package codec_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coding-proxy/proxy/codec"
	"coding-proxy/proxy/codec/codectest"
	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// FuzzConvert: any JSON object as a request of any dialect, to any other: a refusal that names the field, or valid JSON that
// the target's own decoder reads; and the request that was decoded is not changed,
// nor does it live in the body's memory.
func FuzzConvert(f *testing.F) {
	all := codec.All()
	n := 0
	for i, d := range all {
		for _, b := range bodies(f, d) {
			f.Add(b.in.Body, uint8(i), uint8(n))
			n++
		}
		files, _ := filepath.Glob("../../testdata/" + d.Name + "/requests/*.json")
		for _, file := range files {
			if b, err := os.ReadFile(file); err == nil {
				f.Add(b, uint8(i), uint8(n))
			}
		}
	}
	g := codectest.NewGenerator(2)
	for i := range 40 {
		d := all[i%len(all)]
		if out, err := d.EncodeRequest(g.Request(), target(codectest.Models(d)[0])); err == nil {
			f.Add(out.Body, uint8(i%len(all)), uint8(i/4))
			n++
		}
	}
	if n < 100 {
		f.Fatalf("%d seeds", n)
	}
	f.Fuzz(func(t *testing.T, body []byte, from, to uint8) {
		if rawjson.Valid(body) != nil || !codectest.JSON(body).IsObject() {
			return
		}
		a, b := all[int(from)%len(all)], all[int(to)%len(all)]
		lent := bytes.Clone(body)
		r, err := a.DecodeRequest(ir.Incoming{Body: lent, Model: "a-model"})
		if err != nil {
			refusedWell(t, a, err)
			return
		}
		before := codectest.Normalize(r)
		for i := range lent { // what is kept of it shows
			lent[i] = '#'
		}
		model := codectest.Models(b)[int(to)/len(all)%2]
		out, err := b.EncodeRequest(r, target(model))
		if diff := codectest.Diff(codectest.Normalize(r), before); diff != "" {
			t.Errorf("%s changes the request:%s", b.Name, diff)
		}
		if err != nil {
			refusedWell(t, b, err)
			return
		}
		if rawjson.Valid(out.Body) != nil || !codectest.JSON(out.Body).IsObject() {
			t.Fatalf("%s writes no JSON: %s", b.Name, out.Body)
		}
		if _, err := b.DecodeRequest(incoming(out, model)); err != nil {
			t.Errorf("%s to %s: what it wrote it does not read: %v\n%s", a.Name, b.Name, err, out.Body)
		}
	})
}

// refusedWell checks that an error is a refusal that names a field, or that the body is no request at all.
func refusedWell(t *testing.T, d *ir.Dialect, err error) {
	var no *ir.RefusedError
	if !errors.As(err, &no) || no.Field == "" || no.Problem == "" {
		t.Errorf("%s: %v is no refusal", d.Name, err)
	}
}

// FuzzStream: any bytes as a stream of any dialect, to a client of any: no panic, and what the client gets is in order by its
// own rules wherever it came to its end.
func FuzzStream(f *testing.F) {
	all := codec.All()
	n := 0
	for i, d := range all {
		for _, s := range sources(f, d) {
			if len(s.wire) < 20_000 {
				f.Add(s.wire, uint8(i), uint8(n))
				n++
			}
		}
	}
	if n < 100 {
		f.Fatalf("%d seeds", n)
	}
	f.Fuzz(func(t *testing.T, wire []byte, from, to uint8) {
		b, a := all[int(from)%len(all)], all[int(to)%len(all)]
		c := codectest.NewConversion(b, a, codectest.Reply(), nil)
		frames, _ := codectest.Frames(wire)
		for _, f := range frames {
			c.Feed(f)
		}
		if !c.End() {
			return
		}
		fault, custom := false, false
		for _, e := range c.Heard {
			fault = fault || e.Kind == ir.EventFault
			custom = custom || e.Kind == ir.EventBlock && e.Start.Form != ""
		}
		if custom && !hasCustom(a) {
			return // no client of this dialect has such tools, so that no upstream is told of them
		}
		if openFindings()["F5"] != nil && a.Name == "gemini" && slices.ContainsFunc(c.Told, func(e ir.Event) bool { return e.Kind == ir.EventDelta && strings.ContainsAny(e.Text, "\r\n") }) {
			return
		}
		problems, done, _ := codectest.Validate(a.Name, c.Wire, codectest.Expect{Usage: true, Fault: fault})
		if done && len(problems) > 0 {
			t.Errorf("%s to %s: %q\nupstream:\n%s\nclient:\n%s", b.Name, a.Name, problems, wire, c.Wire)
		}
	})
}
