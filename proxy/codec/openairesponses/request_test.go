package openairesponses

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// bodies are all requests that there are: ours, the captured ones of the corpus, and those beside the repository.
func bodies(t testing.TB) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for _, path := range files(t, "requests/*.json") {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(path)] = b
	}
	more, _ := filepath.Glob(filepath.Join(root, "bodies/*.json"))
	captures, _ := filepath.Glob("../../../../shared/captures/*.json")
	for _, path := range append(more, captures...) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var c struct {
			Path, Method string
			Body         json.RawMessage
		}
		if json.Unmarshal(b, &c) == nil && len(c.Body) > 4 {
			if !strings.HasSuffix(c.Path, "/responses") || c.Method != "POST" {
				continue
			}
			b = c.Body
		} else if !strings.Contains(path, "bodies") {
			continue
		}
		if rawjson.Get(b, "previous_response_id") == nil && rawjson.Get(b, "input") != nil {
			all[filepath.Base(path)] = b
		}
	}
	return all
}

// TestRoundTrip decodes, encodes and decodes again: what is not named as lost is the same.
func TestRoundTrip(t *testing.T) {
	for name, body := range bodies(t) {
		t.Run(name, func(t *testing.T) {
			first := decode(t, string(body))
			out := encode(t, first, ir.Target{Model: first.Model, Owner: "up"})
			second := decode(t, string(out.Body))
			if len(second.Lost) > 0 {
				t.Errorf("our own request loses %v", second.Lost)
			}
			book := ir.NewToolBook(first, nameRule())
			normal(first, book, out.Lost, "up")
			normal(second, book, out.Lost, "")
			if !reflect.DeepEqual(first, second) {
				a, _ := json.MarshalIndent(first, "", " ")
				b, _ := json.MarshalIndent(second, "", " ")
				t.Errorf("other after encoding\n%s", diff(string(a), string(b)))
			}
		})
	}
}

// normal takes away what is not compared: places, ids of items, and what is lost by name. Reasoning
// is kept where its owner gets it.
func normal(r *ir.Request, book *ir.ToolBook, lost []string, owner string) {
	join := ""
	for _, b := range r.System {
		join += "\n\n" + b.Text
	}
	r.System, r.Lost, r.Names = []ir.Block{{Text: join}}, nil, nil
	var turns []ir.Turn
	for _, t := range r.Turns {
		t.At = ""
		if t.Role == ir.System {
			t.Role = ir.Developer
		}
		t.Blocks = normalBlocks(t.Blocks, book, owner)
		if len(t.Blocks) > 0 {
			turns = append(turns, t)
		}
	}
	r.Turns = turns
	r.Tools = slices.DeleteFunc(r.Tools, func(t ir.Tool) bool { return t.Kind == ir.ToolHosted && t.Hosted.Type != ir.WebSearch })
	for i := range r.Tools {
		t := &r.Tools[i]
		t.At, t.ToolName = "", wired(t.ToolName, book)
		t.Schema, _ = rootSchema(t.Schema)
		if t.Strict == nil && t.Kind == ir.ToolFunction {
			t.Strict = new(bool)
		}
		if typedByForm(t.Form) != nil {
			t.Strict = nil
		}
	}
	for i, n := range r.Choice.Names {
		r.Choice.Names[i] = wired(n, book)
	}
	if len(r.Tools) == 0 {
		r.Choice, r.Parallel = ir.Choice{}, nil
	}
	if r.Reasoning.Mode == ir.ReasoningOff {
		r.Reasoning.Mode = ir.ReasoningUnset
	}
	if slices.Contains(lost, "temperature") {
		r.Sampling.Temperature = ""
	}
	if slices.Contains(lost, "top_p") {
		r.Sampling.TopP = ""
	}
}

func normalBlocks(blocks []ir.Block, book *ir.ToolBook, owner string) []ir.Block {
	var kept []ir.Block
	for _, b := range blocks {
		if b.Kind == ir.Thinking {
			if b.State == nil || b.State.Owner != owner {
				continue
			}
			b.State = &ir.State{Data: b.State.Data} // it is the provider's own again
		}
		b.At, b.ItemID, b.ToolName = "", "", wired(b.ToolName, book)
		b.Content = normalBlocks(b.Content, book, owner)
		kept = append(kept, b)
	}
	return kept
}

func wired(n ir.ToolName, book *ir.ToolBook) ir.ToolName {
	if n == (ir.ToolName{}) {
		return n
	}
	return ir.ToolName{Name: book.Wire(n)}
}

// diff shows the first lines that differ.
func diff(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range x {
		if i >= len(y) || x[i] != y[i] {
			return strings.Join(x[max(0, i-8):min(len(x), i+6)], "\n") + "\n--- became ---\n" + strings.Join(y[max(0, i-8):min(len(y), i+6)], "\n")
		}
	}
	return "more lines"
}

// TestSealedBackToOwner: only who made a state gets it back, and its place is the same.
func TestSealedBackToOwner(t *testing.T) {
	body, err := os.ReadFile(filepath.Join(root, "requests/sealed.json"))
	if err != nil {
		t.Fatal(err)
	}
	r := decode(t, string(body))
	wants(t, input(t, encode(t, r, ir.Target{Model: "gpt-5.5", Owner: "up"})), `
{"type":"message","role":"user","content":[{"type":"input_text","text":"go"}]}
{"type":"reasoning","summary":[{"type":"summary_text","text":"One."},{"type":"summary_text","text":"Two."}],"encrypted_content":"gAAAAxyz"}
{"type":"message","role":"assistant","content":[{"type":"output_text","text":"So."}]}
{"type":"reasoning","summary":[],"encrypted_content":"gAAAAxyz"}
{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"}
{"type":"function_call_output","call_id":"c1","output":""}
{"type":"message","role":"assistant","content":[{"type":"output_text","text":"end"}]}
{"type":"message","role":"user","content":[{"type":"input_text","text":"more"}]}`)
	out := encode(t, r, ir.Target{Model: "gpt-5.5", Owner: "other"})
	if got := input(t, out); strings.Contains(got, "reasoning") {
		t.Errorf("another owner got %s", got)
	}
	if !slices.Equal(out.Lost, []string{"reasoning.encrypted_content"}) {
		t.Errorf("lost %v", out.Lost)
	}
	if len(r.Lost) != 0 {
		t.Errorf("the request itself was changed: %v", r.Lost)
	}
}

// TestCallStateOfAnotherDialect: a call's state comes as reasoning of its own, and goes to the call.
func TestCallStateOfAnotherDialect(t *testing.T) {
	events := []ir.Event{
		{Kind: ir.EventStart},
		{Kind: ir.EventBlock, Start: &ir.Block{Kind: ir.ToolCall, ID: "c1", ToolName: ir.ToolName{Name: "f"}, State: &ir.State{Owner: "gem", Data: "sig"}}},
		{Kind: ir.EventDelta, Text: `{"a":1}`}, {Kind: ir.EventClose},
		{Kind: ir.EventFinish, Stop: ir.Stop{Reason: ir.StopTool}}, {Kind: ir.EventEnd},
	}
	out, _ := encoded(t, events)
	last := validate(t, out)
	output := rawjson.Get(last, "output")
	r := decode(t, `{"model":"m","input":`+string(output)+`}`)
	if len(r.Turns) != 1 || len(r.Turns[0].Blocks) != 1 {
		t.Fatalf("%+v", r.Turns)
	}
	s := r.Turns[0].Blocks[0].State
	if s == nil || s.Owner != "gem" || s.Data != "sig" || s.Attach != ir.AttachCall {
		t.Errorf("state %+v", s)
	}
	if got := input(t, encode(t, r, ir.Target{Model: "gpt-5", Owner: "up"})); strings.Contains(got, "encrypted") {
		t.Errorf("went to another: %s", got)
	}
}

func TestRefused(t *testing.T) {
	for body, field := range map[string]string{
		`{"input":"x","previous_response_id":"resp_1"}`:                          "previous_response_id",
		`{"input":"x","conversation":"conv_1"}`:                                  "conversation",
		`{"input":"x","background":true}`:                                        "background",
		`{"input":"x","prompt":{"id":"p"}}`:                                      "prompt",
		`{"input":[{"type":"item_reference","id":"msg_1"}]}`:                     "input[0]",
		`{"input":[{"id":"rs_1"}]}`:                                              "input[0]",
		`{"input":[{}]}`:                                                         "input[0].type",
		`{"input":[{"type":"compaction","encrypted_content":"x"}]}`:              "input[0]",
		`{"input":"x","n":2}`:                                                    "n",
		`{"input":"x","top_logprobs":3}`:                                         "top_logprobs",
		`{"input":"x","include":["message.output_text.logprobs"]}`:               "include",
		`{"input":"x","stream":"yes"}`:                                           "stream",
		`{"input":"x","max_output_tokens":1.5}`:                                  "max_output_tokens",
		`{"input":"x","temperature":"hot"}`:                                      "temperature",
		`{"input":5}`:                                                            "input",
		`{"input":[5]}`:                                                          "input[0]",
		`{"input":[{"role":"tool","content":"x"}]}`:                              "input[0].role",
		`{"input":[{"role":"user","content":[{"type":"input_text","text":5}]}]}`: "input[0].content[0].text",
		`{"input":[{"role":"user","content":[{"type":"new_part"}]}]}`:            "input[0].content[0].type",
		`{"input":[{"role":"user","content":[{"type":"input_image"}]}]}`:         "input[0].content[0].image_url",
		`{"input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,"}]}]}`:          "input[0].content[0].image_url",
		`{"input":[{"type":"function_call","call_id":"c","name":"f","arguments":{}}]}`:                                 "input[0].arguments",
		`{"input":[{"type":"function_call_output","call_id":5}]}`:                                                      "input[0].call_id",
		`{"input":"x","tools":[{"type":"function","name":"f","parameters":[]}]}`:                                       "tools[0].parameters",
		`{"input":"x","tools":[{"type":"function"}]}`:                                                                  "tools[0].name",
		`{"input":"x","tools":[{"type":"namespace","name":"a","tools":[{"type":"function","name":"f","strict":1}]}]}`:  "tools[0].tools[0].strict",
		`{"input":"x","tool_choice":"maybe"}`:                                                                          "tool_choice",
		`{"input":"x","tool_choice":{"type":"function"}}`:                                                              "tool_choice.name",
		`{"input":"x","text":{"format":{"type":"xml"}}}`:                                                               "text.format.type",
		`{"input":"x","reasoning":"high"}`:                                                                             "reasoning",
		`{"input":"x","modalities":["text","audio"]}`:                                                                  "modalities",
		`{"input":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"aGk=","format":"flac"}}]}]}`: "input[0].content[0].input_audio.format",
		`{"input":[{"type":"local_shell_call","call_id":"c","action":"ls"}]}`:                                          "input[0].action",
		`{"input":[{"type":"reasoning","summary":[{"type":"summary_text"}]}]}`:                                         "input[0].summary[0].text",
	} {
		_, err := decodeRequest(ir.Incoming{Body: []byte(body)})
		var refused *ir.RefusedError
		if !errors.As(err, &refused) || refused.Field != field {
			t.Errorf("%s: %v, want %s", body, err, field)
		}
	}
}

func TestLost(t *testing.T) {
	r := decode(t, `{"model":"m","input":[{"role":"user","content":"x","new":1}],"store":true,"truncation":"auto","client_metadata":{"a":1},"reasoning":{"context":"all_turns","mode":"pro"},
		"stream_options":{},"include":[],"parallel_tool_calls":null,"context_management":[],"service_tier":"ultrafast","prompt_cache_options":{"ttl":"30m"},"mein feld":1,"user":"a","safety_identifier":"b",
		"tools":[{"type":"function","name":"f","defer_loading":true,"async":false,"output_schema":null}]}`)
	want := []string{"new", "store", "truncation", "client_metadata", "reasoning.context", "reasoning.mode", "context_management", "service_tier", "prompt_cache_options", "unknown_fields", "tools.defer_loading", "user"}
	if !slices.Equal(r.Lost, want) {
		t.Errorf("lost %q, want %q", r.Lost, want)
	}
	many := `{"input":"x"`
	for i := range 5000 {
		many += `,"k` + strings.Repeat("x", i%50) + string(rune('a'+i%26)) + `":1`
	}
	if r := decode(t, many+`}`); len(r.Lost) > 65 {
		t.Errorf("%d names", len(r.Lost))
	}
}

// TestTargetLoses names what the dialect cannot say of another's request, and nothing of it is sent.
func TestTargetLoses(t *testing.T) {
	names := ir.FieldNames{}
	for i := range names {
		names[i] = "f" + string(rune('A'+i))
	}
	r := &ir.Request{
		Names: &names, Turns: []ir.Turn{user("x")}, Stop: []string{"END"},
		Sampling: ir.Sampling{Temperature: "0.5", TopP: "1.0", TopK: "4", FrequencyPenalty: "1", PresencePenalty: "1", Seed: "7", LogitBias: []byte(`{"1":2}`)},
		Cache:    ir.Cache{Auto: &ir.CacheMark{}}, Choice: ir.Choice{Mode: ir.ChoiceRequired},
	}
	out := encode(t, r, ir.Target{Model: "gpt-5.2"})
	for _, f := range []ir.Field{ir.FieldTemperature, ir.FieldTopK, ir.FieldFrequencyPenalty, ir.FieldPresencePenalty, ir.FieldSeed, ir.FieldLogitBias, ir.FieldStop, ir.FieldCacheMark, ir.FieldToolChoice} {
		if !slices.Contains(out.Lost, names[f]) {
			t.Errorf("%d is not named in %v", f, out.Lost)
		}
	}
	if len(out.Lost) != 9 {
		t.Errorf("lost %v", out.Lost)
	}
	wants(t, string(out.Body), `{"model":"gpt-5.2","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"x"}]}],"store":false,"include":["reasoning.encrypted_content"]}`)
	if got := encode(t, r, ir.Target{Model: "gpt-4o"}); strings.Contains(string(got.Body), "include") || !strings.Contains(string(got.Body), `"temperature":0.5`) {
		t.Errorf("gpt-4o: %s", got.Body)
	}
}

func TestReasoningOf(t *testing.T) {
	yes := true
	for _, c := range []struct {
		model string
		q     ir.Reasoning
		want  string
	}{
		{"gpt-5", ir.Reasoning{Mode: ir.ReasoningOn, Effort: "minimal"}, `{"effort":"minimal"}`},
		{"gpt-5.1", ir.Reasoning{Mode: ir.ReasoningOn, Effort: "minimal"}, `{"effort":"low"}`},
		{"gpt-5.1-codex-max", ir.Reasoning{Mode: ir.ReasoningOn, Effort: "max"}, `{"effort":"xhigh"}`},
		{"gpt-5.1-codex", ir.Reasoning{Mode: ir.ReasoningOn, Effort: "xhigh"}, `{"effort":"high"}`},
		{"openai/gpt-5.5", ir.Reasoning{Mode: ir.ReasoningOn, Budget: 32000}, `{"effort":"xhigh"}`},
		{"gpt-5.5", ir.Reasoning{Mode: ir.ReasoningOn, Budget: 8192}, `{"effort":"medium"}`},
		{"gpt-5.5", ir.Reasoning{Mode: ir.ReasoningOn, Budget: -1, Show: &yes}, `{"summary":"auto"}`},
		{"gpt-5.5", ir.Reasoning{Mode: ir.ReasoningOff}, `{"effort":"none"}`},
		{"gpt-5", ir.Reasoning{Mode: ir.ReasoningOff}, `{"effort":"minimal"}`},
		{"o3", ir.Reasoning{Mode: ir.ReasoningOff}, `{"effort":"low"}`},
		{"o4-mini", ir.Reasoning{Effort: "high", Summary: "detailed"}, `{"effort":"high","summary":"detailed"}`},
		{"grok-4", ir.Reasoning{Mode: ir.ReasoningOff}, ``},
		{"gpt-4o", ir.Reasoning{Mode: ir.ReasoningOn, Effort: "high"}, ``},
		{"gpt-5-chat-latest", ir.Reasoning{Mode: ir.ReasoningOn, Effort: "high"}, ``},
		{"grok-4", ir.Reasoning{Effort: "max"}, `{"effort":"high"}`},
	} {
		r := &ir.Request{Names: &fieldNames, Turns: []ir.Turn{user("x")}, Reasoning: c.q}
		out := encode(t, r, ir.Target{Model: c.model})
		if got := string(rawjson.Get(out.Body, "reasoning")); got != c.want {
			t.Errorf("%s %+v: %s, want %s", c.model, c.q, got, c.want)
		}
		if c.want == "" && !slices.Equal(out.Lost, []string{"reasoning"}) {
			t.Errorf("%s: lost %v", c.model, out.Lost)
		}
	}
}

func TestToolSchemas(t *testing.T) {
	for _, c := range []struct{ in, out string }{
		{``, `{"type":"object","properties":{}}`},
		{`{"type":"object","properties":{"title":{"type":"string"}}}`, `{"type":"object","properties":{"title":{"type":"string"}}}`},
		{`{"properties":{"a":{}},"$schema":"x"}`, `{"type":"object","properties":{"a":{}},"$schema":"x"}`},
		{`{"type":"object"}`, `{"type":"object","properties":{}}`},
		{`{"anyOf":[{"properties":{"a":{"type":"string"}},"required":["a"]},{"properties":{"b":{},"a":{}}}],"description":"d\"q"}`,
			`{"type":"object","properties":{"a":{"type":"string"},"b":{}},"description":"d\"q"}`},
	} {
		r := &ir.Request{Names: &fieldNames, Turns: []ir.Turn{user("x")}, Tools: []ir.Tool{{ToolName: ir.ToolName{Name: "f"}, Schema: []byte(c.in)}}}
		out := encode(t, r, ir.Target{Model: "m"})
		var tools []struct {
			Parameters json.RawMessage
			Strict     *bool
		}
		if err := json.Unmarshal(rawjson.Get(out.Body, "tools"), &tools); err != nil {
			t.Fatal(err)
		}
		if got := string(tools[0].Parameters); got != c.out || tools[0].Strict == nil || *tools[0].Strict {
			t.Errorf("%s: %s strict %v", c.in, got, tools[0].Strict)
		}
		if union := strings.Contains(c.in, "anyOf"); union != slices.Contains(out.Lost, "tools.parameters") {
			t.Errorf("%s: lost %v", c.in, out.Lost)
		}
	}
}

// TestCallerFields: long ids are hashed.
func TestCallerFields(t *testing.T) {
	long := encode(t, &ir.Request{Turns: []ir.Turn{user("x")}, User: strings.Repeat("u", 200), Cache: ir.Cache{Key: strings.Repeat("k", 65)}}, ir.Target{Model: "m"})
	if len(stringOf(long.Body, "safety_identifier")) != 64 || len(stringOf(long.Body, "prompt_cache_key")) != 64 {
		t.Errorf("%s", long.Body)
	}
}
