package codec_test

import (
	"strings"
	"testing"
	"time"

	"coding-proxy/proxy/codec"
	"coding-proxy/proxy/codec/codectest"
	"coding-proxy/proxy/ir"
)

// kinds are all kinds with the statuses that they come with (facts/protocols.md, 5.7).
var kinds = []struct {
	kind   string
	status int
}{
	{ir.KindInvalid, 400}, {ir.KindInvalid, 422}, {ir.KindAuth, 401}, {ir.KindBilling, 402}, {ir.KindPermission, 403}, {ir.KindNotFound, 404},
	{ir.KindConflict, 409}, {ir.KindTooLarge, 413}, {ir.KindRate, 429}, {ir.KindAPI, 500}, {ir.KindAPI, 502}, {ir.KindOverloaded, 503},
	{ir.KindOverloaded, 529}, {ir.KindTimeout, 504},
}

// otherKinds are the kinds that a dialect cannot tell apart, and what they become there.
var otherKinds = map[string]string{
	"gemini " + ir.KindTooLarge: ir.KindInvalid, // 5.7: 400 INVALID_ARGUMENT
	"gemini " + ir.KindBilling:  ir.KindRate,    // 5.7: RESOURCE_EXHAUSTED
}

// kindIn is the kind as which a dialect tells a fault.
func kindIn(d *ir.Dialect, kind string, status int) string {
	if d.Name == "gemini" && status == 502 { // 5.9, empty upstream stream: 502 UNAVAILABLE
		return ir.KindOverloaded
	}
	if other := otherKinds[d.Name+" "+kind]; other != "" {
		return other
	}
	return kind
}

// Every fault keeps its kind, its status and what a client steers by, in every dialect.
func TestErrors(t *testing.T) {
	for _, d := range codec.All() {
		for _, k := range kinds {
			for _, known := range []int{k.status, 0} { // of an event there is no status
				f := ir.Fault{Status: known, Kind: k.kind, Message: "it \"went\" wrong\n😀", Param: "messages[2].content", Reset: 1500 * time.Millisecond}
				body := d.AppendError([]byte("kept"), &f, "trace-id")
				rest, ok := strings.CutPrefix(string(body), "kept")
				if !ok || !codectest.JSON([]byte(rest)).IsObject() {
					t.Fatalf("%s: no JSON is appended: %s", d.Name, body)
				}
				status := d.Status(&f)
				if status < 400 || status > 599 || status == 529 && d.Name != "anthropic" {
					t.Errorf("%s: status %d of %d %s", d.Name, status, known, k.kind)
				}
				got := d.Fault(status, []byte(rest))
				want := kindIn(d, k.kind, known)
				if got.Kind != want || got.Status != status || !strings.Contains(got.Message, f.Message) {
					t.Errorf("%s: %d %s comes back as %+v\n%s", d.Name, known, k.kind, got, rest)
				}
				if strings.HasPrefix(d.Name, "openai") && got.Param != f.Param {
					t.Errorf("%s: param %q\n%s", d.Name, got.Param, rest)
				}
			}
		}
	}
}

// A prompt that is too long is told in the words that each dialect's clients look for, whatever the upstream said.
func TestErrorTooLong(t *testing.T) {
	for _, d := range codec.All() {
		f := ir.Fault{Status: 400, Kind: ir.KindInvalid, Code: ir.CodeTooLong, Message: "too much of it"}
		body := string(d.AppendError(nil, &f, ""))
		got := d.Fault(d.Status(&f), []byte(body))
		if got.Kind != ir.KindInvalid || got.Status != 400 {
			t.Errorf("%s: %+v", d.Name, got)
		}
		switch {
		case d.Name == "anthropic":
			if !strings.HasPrefix(got.Message, "prompt is too long") {
				t.Errorf("the words are missing: %s", body)
			}
		case strings.HasPrefix(d.Name, "openai"):
			if got.Code != ir.CodeTooLong {
				t.Errorf("%s: the code is missing: %s", d.Name, body)
			}
		case d.Name == "gemini":
			if !strings.Contains(body, "INVALID_ARGUMENT") {
				t.Errorf("gemini: %s", body)
			}
		}
	}
}

// An error of one dialect, told in another and read there, is of the same kind.
func TestErrorsBetweenAll(t *testing.T) {
	for _, b := range codec.All() {
		for _, a := range codec.All() {
			for _, k := range kinds {
				f := ir.Fault{Status: k.status, Kind: k.kind, Message: "wrong"}
				heard := b.Fault(b.Status(&f), b.AppendError(nil, &f, ""))
				told := a.Fault(a.Status(&heard), a.AppendError(nil, &heard, ""))
				if told.Kind != k.kind && told.Kind != kindIn(a, heard.Kind, heard.Status) {
					t.Errorf("%s to %s: %d %s: heard %s, told %s", b.Name, a.Name, k.status, k.kind, heard.Kind, told.Kind)
				}
			}
		}
	}
}

// Usage keeps its figures on the way from an upstream to a client (facts/protocols.md, 5.6).
func TestUsage(t *testing.T) {
	for name, u := range map[string]ir.Usage{
		"all":         codectest.Figures(),
		"no cache":    {Input: 7, Output: 5, Known: ir.UsageInput | ir.UsageOutput},
		"cached":      {Input: 100, CacheRead: 900, Output: 5, Known: ir.UsageInput | ir.UsageOutput | ir.UsageCacheRead},
		"all cached":  {CacheRead: 900, Output: 5, Known: ir.UsageInput | ir.UsageOutput | ir.UsageCacheRead},
		"reasoned":    {Input: 1, Output: 603, Reasoning: 405, Known: ir.UsageInput | ir.UsageOutput | ir.UsageReasoning},
		"only thinks": {Input: 1, Output: 405, Reasoning: 405, Known: ir.UsageInput | ir.UsageOutput | ir.UsageReasoning},
	} {
		for _, a := range codec.All() {
			for _, b := range codec.All() {
				got := u
				for _, d := range []*ir.Dialect{a, b, a} {
					body, _ := d.AppendAnswer(nil, &ir.Answer{Blocks: []ir.Block{{Kind: ir.Text, Text: "x"}}, Usage: got, Stop: ir.Stop{Reason: ir.StopEnd}}, codectest.Reply())
					events, err := d.DecodeAnswer(body, codectest.Source())
					if err != nil {
						t.Fatal(err)
					}
					answer, _, _ := codectest.FoldOf(events, nil)
					got = answer.Usage
				}
				want := u
				if a.Name == "gemini" || b.Name == "gemini" { // it has no figure for what was written to the cache
					want.Input, want.CacheCreation = u.Input+u.CacheCreation, 0
				}
				got.Known, want.Known = 0, 0
				if got != want {
					t.Errorf("%s, %s, %s: %s: %+v, want %+v", a.Name, b.Name, a.Name, name, got, want)
				}
			}
		}
	}
}
