package antigravity_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"coding-proxy/proxy/codec"
	"coding-proxy/proxy/demo"
	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/upstream/antigravity"
)

// TestConvertedRequests sends what Anthropic's clients ask for, converted, to Gemini's models and to Claude's: the strict
// service takes all of it.
func TestConvertedRequests(t *testing.T) {
	files, err := filepath.Glob("../../../testdata/anthropic/bodies/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no requests in the corpus: %v", err)
	}
	dialects := map[string]*ir.Dialect{}
	for _, d := range codec.All() {
		dialects[d.Name] = d
	}
	g := newRig(t, 1, demo.CodeAssistOptions{}, antigravity.Options{})
	tools := 0
	for _, name := range files {
		body, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, model := range []string{"gemini-2.5-pro", "claude-sonnet-5-5"} {
			asked, err := dialects["anthropic"].DecodeRequest(ir.Incoming{Body: body})
			if err != nil {
				break // a case of what is refused
			}
			out, err := dialects["gemini"].EncodeRequest(asked, ir.Target{Model: model, Owner: "x"})
			if err != nil {
				continue
			}
			if len(asked.Tools) > 0 {
				tools++
			}
			status, answer, _, f := g.ask(out.Path, out.Query, string(out.Body))
			if status != 200 {
				t.Errorf("%s for %s: %d %s %v", name, model, status, answer, f)
			}
			sent := g.sim[0].Requests()
			if !json.Valid(sent[len(sent)-1].Body) {
				t.Errorf("%s for %s: no JSON was sent", name, model)
			}
		}
	}
	if tools == 0 {
		t.Error("no request of the corpus has tools")
	}
}
