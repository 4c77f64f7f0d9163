package anthropic

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

const corpus = "../../../testdata/anthropic"

// bodies are captured requests of this dialect.
func bodies(tb testing.TB) map[string][]byte {
	tb.Helper()
	files, _ := filepath.Glob(corpus + "/bodies/*.json")
	if len(files) == 0 {
		tb.Fatal("no bodies in the corpus")
	}
	out := map[string][]byte{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			tb.Fatal(err)
		}
		out[filepath.Base(f)] = b
	}
	return out
}

// decode decodes a request that must be good.
func decode(tb testing.TB, body string) *ir.Request {
	tb.Helper()
	if err := rawjson.Valid([]byte(body)); err != nil {
		tb.Fatalf("%s: %v", body, err)
	}
	r, err := decodeRequest(ir.Incoming{Body: []byte(body)})
	if err != nil {
		tb.Fatalf("%s: %v", body, err)
	}
	return r
}

// encode writes a request that must be good, checks it, and gives it back as JSON values.
func encode(tb testing.TB, r *ir.Request, model string) (o *ir.Outgoing, v jsonObject) {
	tb.Helper()
	o, err := encodeRequest(r, ir.Target{Model: model, Owner: "anthropic/a"})
	if err != nil {
		tb.Fatal(err)
	}
	if err := json.Unmarshal(o.Body, &v); err != nil || rawjson.Valid(o.Body) != nil {
		tb.Fatalf("%s: %v", o.Body, err)
	}
	if problem := judge(o.Body, "anthropic/a"); problem != "" {
		tb.Fatalf("%s\n%s", problem, o.Body)
	}
	return o, v
}

// jsonObject is a decoded JSON object, of tests alone.
type jsonObject = map[string]any

// dig follows a path of names and indices.
func dig(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(jsonObject)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p < 0 {
				p += len(l)
			}
			if p < 0 || p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

func jsonText(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

// same compares a value with JSON text.
func same(tb testing.TB, what string, got any, want string) {
	tb.Helper()
	var w any
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		tb.Fatalf("%s: %v", want, err)
	}
	if jsonText(got) != jsonText(w) {
		tb.Errorf("%s:\n got %s\nwant %s", what, jsonText(got), jsonText(w))
	}
}

func lost(tb testing.TB, o *ir.Outgoing, fields ...string) {
	tb.Helper()
	if !slices.Equal(slices.Sorted(slices.Values(o.Lost)), slices.Sorted(slices.Values(fields))) {
		tb.Errorf("lost %q, want %q", o.Lost, fields)
	}
}

// otherNames are those of a client of another dialect.
var otherNames = ir.FieldNames{
	ir.FieldTemperature: "temperature", ir.FieldTopP: "top_p", ir.FieldTopK: "top_k", ir.FieldFrequencyPenalty: "frequency_penalty", ir.FieldPresencePenalty: "presence_penalty",
	ir.FieldSeed: "seed", ir.FieldLogitBias: "logit_bias", ir.FieldMaxTokens: "max_tokens", ir.FieldStop: "stop", ir.FieldFormat: "response_format", ir.FieldStrict: "tools.strict",
	ir.FieldReasoning: "reasoning_effort", ir.FieldVerbosity: "verbosity", ir.FieldCacheMark: "cache_control", ir.FieldCacheKey: "prompt_cache_key", ir.FieldMetadata: "metadata",
	ir.FieldServiceTier: "service_tier", ir.FieldToolChoice: "tool_choice", ir.FieldTools: "tools", ir.FieldSchema: "tools.parameters", ir.FieldThinking: "reasoning",
	ir.FieldCitations: "annotations", ir.FieldDetail: "detail", ir.FieldPhase: "phase",
}

// foreignRequest is a request of another dialect.
func foreignRequest(turns ...ir.Turn) *ir.Request {
	return &ir.Request{Names: &otherNames, MaxTokens: 8000, Turns: turns}
}

func userTurn(blocks ...ir.Block) ir.Turn {
	return ir.Turn{At: "messages[0]", Role: ir.User, Blocks: blocks}
}
func modelTurn(blocks ...ir.Block) ir.Turn {
	return ir.Turn{At: "messages[1]", Role: ir.Assistant, Blocks: blocks}
}
func say(s string) ir.Block { return ir.Block{Kind: ir.Text, Text: s} }
func callOf(id, name, args string) ir.Block {
	return ir.Block{Kind: ir.ToolCall, ID: id, ToolName: ir.ToolName{Name: name}, Args: args}
}
func resultOf(id, text string) ir.Block {
	return ir.Block{Kind: ir.ToolResult, ID: id, Content: []ir.Block{say(text)}}
}

// judge is a strict reader of requests: what is wrong with the body by the rules of facts/protocols.md 1.3, "" if nothing
// is. Signatures must begin with the owner.
func judge(body []byte, owner string) string {
	var r struct {
		Thinking *struct{ Type string }
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return err.Error()
	}
	type block struct {
		Type, Text, Thinking, Signature, Data, ID string
		Input                                     json.RawMessage
		ToolUseID                                 string `json:"tool_use_id"`
	}
	if len(r.Messages) == 0 {
		return "no messages"
	}
	open := map[string]bool{} // calls of the message before
	seen := map[string]bool{}
	last, reasoned := "", false
	results := false
	for i, m := range r.Messages {
		var blocks []block
		if m.Content[0] == '"' {
			blocks = []block{{Type: "text"}}
			_ = json.Unmarshal(m.Content, &blocks[0].Text)
		} else if err := json.Unmarshal(m.Content, &blocks); err != nil {
			return err.Error()
		}
		if len(blocks) == 0 {
			return "an empty message"
		}
		if i > 0 && m.Role == r.Messages[i-1].Role {
			return "roles do not alternate: " + m.Role
		}
		if m.Role == "assistant" && len(open) > 0 {
			return "calls without results"
		}
		if m.Role != "system" {
			last, results = m.Role, false
		}
		texts := false
		for j, b := range blocks {
			switch b.Type {
			case "text":
				texts = true
				if strings.TrimSpace(b.Text) == "" {
					return "an empty text"
				}
				if m.Role == "assistant" && i == len(r.Messages)-1 && j == len(blocks)-1 && strings.TrimRight(b.Text, " \n") != b.Text {
					return "blanks at the end of the last text"
				}
			case "thinking":
				if m.Role != "assistant" || !strings.HasPrefix(b.Signature, owner) || b.Signature == "" {
					return "a foreign signature " + b.Signature
				}
			case "redacted_thinking":
				if m.Role != "assistant" || !strings.HasPrefix(b.Data, owner) || b.Data == "" {
					return "foreign data " + b.Data
				}
			case "tool_use":
				if m.Role != "assistant" || b.ID == "" || seen[b.ID] || len(b.Input) == 0 || b.Input[0] != '{' || strings.Trim(b.ID, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
					return "a bad call " + b.ID
				}
				seen[b.ID], open[b.ID] = true, true
			case "tool_result":
				if m.Role != "user" || texts || !open[b.ToolUseID] {
					return "a result at a wrong place: " + b.ToolUseID
				}
				delete(open, b.ToolUseID)
				results = true
			}
		}
		if m.Role == "user" && len(open) > 0 {
			return "calls without results"
		}
		if m.Role == "assistant" {
			reasoned = strings.HasSuffix(blocks[0].Type, "thinking")
		}
	}
	if r.Thinking != nil && r.Thinking.Type == "enabled" && last == "user" && results && !reasoned {
		return "reasoning is on, but the open tool loop does not begin with it"
	}
	return ""
}

func fuzzRequest(t *testing.T, body []byte) {
	if rawjson.Valid(body) != nil {
		return
	}
	r, err := decodeRequest(ir.Incoming{Body: body})
	if err != nil {
		return
	}
	for _, model := range []string{r.Model, "claude-opus-5-5", "claude-3-5-haiku", "glm"} {
		o, err := encodeRequest(r, ir.Target{Model: model, Owner: "anthropic/a"})
		if err != nil {
			continue
		}
		if err := rawjson.Valid(o.Body); err != nil {
			t.Fatalf("%s: %v", o.Body, err)
		}
		if _, err := decodeRequest(ir.Incoming{Body: o.Body}); err != nil {
			t.Fatalf("%s: %v", o.Body, err)
		}
	}
}

func decodeJSON(tb testing.TB, b []byte, to any) {
	tb.Helper()
	if err := json.Unmarshal(b, to); err != nil {
		tb.Fatalf("%s: %v", b, err)
	}
}
