package gemini

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"coding-proxy/proxy/ir"
)

// What goes out for the dialect itself comes back as it was, but for what is named as lost.
func TestRoundTrip(t *testing.T) {
	for name, body := range bodies(t) {
		t.Run(name, func(t *testing.T) {
			r := decode(t, string(body))
			owned(r)
			m := "gemini-2.5-flash" // no placeholders, budgets
			if r.Reasoning.Effort != "" {
				m = "gemini-3.8-flash"
			}
			out := encodeFor(t, r, m)
			again := decode(t, string(out.Body))
			owned(again)
			merged(r)
			if name == "snake" { // its nullable property becomes an anyOf; see TestCNV026SnakeCase
				r.Tools[0].Schema, again.Tools[0].Schema = nil, nil
			}
			if m == "gemini-2.5-flash" && strings.Contains(name, "results") {
				return // the image of a result moves; see case_40
			}
			if d := difference(r, again); d != "" {
				t.Errorf("%s\nlost %v", d, out.Lost)
			}
		})
	}
}

// owned gives reasoning and states to the target: those of the client's own provider go nowhere.
func owned(r *ir.Request) {
	for i := range r.Turns {
		for j := range r.Turns[i].Blocks {
			b := &r.Turns[i].Blocks[j]
			if b.Kind == ir.Thinking && b.State == nil {
				b.State = &ir.State{}
			}
			if b.State != nil && b.State.Owner == "" {
				b.State.Owner = owner
			}
		}
	}
}

// merged does to turns what the encoder does: neighbours of one role become one.
func merged(r *ir.Request) {
	var out []ir.Turn
	for _, t := range r.Turns {
		if n := len(out); n > 0 && out[n-1].Role == t.Role && out[n-1].Blocks[0].Kind != ir.ToolResult {
			out[n-1].Blocks = append(out[n-1].Blocks, t.Blocks...)
			continue
		}
		out = append(out, t)
	}
	r.Turns = out
}

func TestDecodeEverything(t *testing.T) {
	all := bodies(t)
	r := decode(t, string(all["everything"]))
	if len(r.System) != 2 || r.System[1].Text != "Be <brief> & exact." {
		t.Errorf("system %+v", r.System)
	}
	if len(r.Turns) != 5 || r.Turns[1].Role != ir.Assistant || r.Turns[2].Role != ir.User || r.Turns[4].At != "contents[4]" {
		t.Fatalf("turns %+v", r.Turns)
	}
	image := r.Turns[0].Blocks[1]
	if image.Kind != ir.Image || image.Media.MIME != "image/jpeg" || image.Media.Data != "iVBORw0KGgo/+w==" || image.At != "contents[0].parts[1]" {
		t.Errorf("image %+v", image)
	}
	said := r.Turns[1].Blocks
	if said[0].Kind != ir.Thinking || *said[0].State != (ir.State{Owner: owner, Data: "sig-1"}) {
		t.Errorf("thinking %+v %+v", said[0], said[0].State)
	}
	if c := said[2]; c.Kind != ir.ToolCall || c.ID != "fc_1_0" || c.State.Data != "sig-2" || c.Args != `{"path": "a.go", "n": 9007199254740993, "f": 1.10}` {
		t.Errorf("call %+v", c)
	}
	results := r.Turns[2].Blocks
	if results[0].ID != "fc_1_0" || results[0].IsError || results[0].Content[0].Text != "package a" {
		t.Errorf("result %+v", results[0])
	}
	if results[1].ID != "fc_1_1" || !results[1].IsError || results[1].Content[0].Text != "no such file" {
		t.Errorf("result %+v", results[1])
	}
	want := ir.Sampling{Temperature: "0.95", TopP: "1", TopK: "64", Seed: "7", PresencePenalty: "0.5", FrequencyPenalty: "-0.5"}
	if !reflect.DeepEqual(r.Sampling, want) {
		t.Errorf("sampling %+v", r.Sampling)
	}
	if r.MaxTokens != 8192 || r.Stop[0] != "END" || r.Format.Kind != ir.FormatSchema || r.ServiceTier != "flex" {
		t.Errorf("%+v", r)
	}
	if re := r.Reasoning; re.Mode != ir.ReasoningOn || re.Effort != "high" || re.Show == nil || !*re.Show {
		t.Errorf("reasoning %+v", re)
	}
	if r.Choice.Mode != ir.ChoiceRequired || len(r.Choice.Names) != 2 || len(r.Lost) > 0 {
		t.Errorf("choice %+v, lost %v", r.Choice, r.Lost)
	}
}

// Every name is read in either spelling (CNV-026 is what happens otherwise); arguments are data and stay.
func TestCNV026SnakeCase(t *testing.T) {
	r := decode(t, string(bodies(t)["snake"]))
	if len(r.System) != 1 || r.MaxTokens != 100 || r.Sampling.TopK != "40" || r.Reasoning.Budget != 2048 || len(r.Lost) > 0 {
		t.Errorf("%+v", r)
	}
	c := r.Turns[1].Blocks[0]
	if c.Args != `{"snake_case_arg": {"thought_signature": 1}}` || c.State == nil || c.State.Data != "sig-2" {
		t.Errorf("call %+v %+v", c, c.State)
	}
	if r.Choice.Mode != ir.ChoiceOne || r.Choice.Names[0].Name != "f" {
		t.Errorf("choice %+v", r.Choice)
	}
	want := `{"type":"object","properties":{"a_b":{"type":["string","null"]},"l":{"type":"array","minItems":1,"items":{"type":"integer"}}}}`
	if got := string(r.Tools[0].Schema); got != want {
		t.Errorf("schema %s", got)
	}
	if out := string(encodeFor(t, r, model).Body); !strings.Contains(out, `"systemInstruction":{"parts"`) {
		t.Error(out)
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct{ body, field string }{
		{`{"contents":[{"role":"assistant","parts":[]}]}`, "contents[0].role"},
		{`{"contents":[{"parts":[{"text":"a"}]},{"parts":[{"text":5}]}]}`, "contents[1].parts[0].text"},
		{`{"contents":"hi"}`, "contents"},
		{`[]`, "request"},
		{`{"contents":[{"parts":[{"fileData":{"fileUri":"https://x/y"}}]}]}`, "contents[0].parts[0].fileData"},
		{`{"contents":[{"parts":[{"inlineData":{"mimeType":"image/png"}}]}]}`, "contents[0].parts[0].inlineData.data"},
		{`{"contents":[{"role":"model","parts":[{"functionCall":{"args":{}}}]}]}`, "contents[0].parts[0].functionCall.name"},
		{`{"contents":[{"role":"model","parts":[{"functionCall":{"name":"f","args":[1]}}]}]}`, "contents[0].parts[0].functionCall.args"},
		{`{"contents":[{"parts":[{"functionResponse":{"name":"f","response":"x"}}]}]}`, "contents[0].parts[0].functionResponse.response"},
		{`{"cachedContent":"cachedContents/1"}`, "cachedContent"},
		{`{"generationConfig":{"candidateCount":2}}`, "generationConfig.candidateCount"},
		{`{"generationConfig":{"responseLogprobs":true}}`, "generationConfig.responseLogprobs"},
		{`{"generationConfig":{"logprobs":3}}`, "generationConfig.logprobs"},
		{`{"generationConfig":{"responseModalities":["TEXT","IMAGE"]}}`, "generationConfig.responseModalities[1]"},
		{`{"generationConfig":{"responseMimeType":"text/x.enum"}}`, "generationConfig.responseMimeType"},
		{`{"generationConfig":{"maxOutputTokens":-1}}`, "generationConfig.maxOutputTokens"},
		{`{"generationConfig":{"temperature":"hot"}}`, "generationConfig.temperature"},
		{`{"generationConfig":{"thinkingConfig":{"thinkingBudget":1.5}}}`, "generationConfig.thinkingConfig.thinkingBudget"},
		{`{"tools":[{"mcpServers":[]}]}`, "tools[0].mcpServers"},
		{`{"tools":[{"functionDeclarations":[{"description":"x"}]}]}`, "tools[0].functionDeclarations[0].name"},
		{`{"tools":[{"functionDeclarations":[{"name":"x","parameters":[]}]}]}`, "tools[0].functionDeclarations[0].parameters"},
		{`{"toolConfig":{"functionCallingConfig":{"mode":"SOME"}}}`, "toolConfig.functionCallingConfig.mode"},
		{`{"systemInstruction":{"parts":[{"inlineData":{"data":"aaaa"}}]}}`, "systemInstruction.parts[0]"},
	} {
		_, err := decodeRequest(ir.Incoming{Body: []byte(c.body), Model: "m"})
		var refused *ir.RefusedError
		if !errors.As(err, &refused) || refused.Field != c.field {
			t.Errorf("%s: %v, want %s", c.body, err, c.field)
		}
	}
}

func TestLost(t *testing.T) {
	for _, c := range []struct{ body, lost string }{
		{`{"safetySettings":[]}`, "safetySettings"},
		{`{"labels":{"a":"b"}}`, "labels"},
		{`{"store":true}`, "store"},
		{`{"generationConfig":{"mediaResolution":"MEDIA_RESOLUTION_LOW"}}`, "generationConfig.mediaResolution"},
		{`{"generationConfig":{"speechConfig":{}}}`, "generationConfig.speechConfig"},
		{`{"contents":[{"parts":[{"text":"a","videoMetadata":{}}]}]}`, "parts.videoMetadata"},
		{`{"contents":[{"role":"model","parts":[{"functionCall":{"name":"f"}}]},{"parts":[{"functionResponse":{"name":"f","response":{},"scheduling":"SILENT"}}]}]}`, "functionResponse.scheduling"},
		{`{"tools":[{"functionDeclarations":[{"name":"f","behavior":"BLOCKING"}]}]}`, "functionDeclarations.behavior"},
		{`{"tools":[{"googleSearch":{"timeRangeFilter":{}}}]}`, "tools.googleSearch.timeRangeFilter"},
		{`{"toolConfig":{"retrievalConfig":{}}}`, "toolConfig.retrievalConfig"},
		{`{"toolConfig":{"functionCallingConfig":{"mode":"VALIDATED"}}}`, "toolConfig.functionCallingConfig.mode"},
		{`{"tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":"OBJECT","propertyOrdering":["a"]}}]}]}`, "propertyOrdering"},
	} {
		if r := decode(t, c.body); !reflect.DeepEqual(r.Lost, []string{c.lost}) {
			t.Errorf("%s: %v", c.body, r.Lost)
		}
	}
}

func TestThinkingConfig(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		config string
		want   ir.Reasoning
	}{
		{`{"thinkingBudget":0}`, ir.Reasoning{Mode: ir.ReasoningOff}},
		{`{"thinkingBudget":-1}`, ir.Reasoning{Mode: ir.ReasoningOn, Budget: -1}},
		{`{"thinkingBudget":8192}`, ir.Reasoning{Mode: ir.ReasoningOn, Budget: 8192}},
		{`{"thinkingLevel":"MINIMAL"}`, ir.Reasoning{Mode: ir.ReasoningOn, Effort: "minimal"}},
		{`{"thinkingLevel":"THINKING_LEVEL_UNSPECIFIED"}`, ir.Reasoning{}},
		{`{"thinkingBudget":null}`, ir.Reasoning{}},
		{`{"includeThoughts":true}`, ir.Reasoning{Mode: ir.ReasoningOn, Budget: -1, Show: &yes}},
		{`{"includeThoughts":false}`, ir.Reasoning{Show: &no}},
	} {
		r := decode(t, `{"generationConfig":{"thinkingConfig":`+c.config+`}}`)
		if !reflect.DeepEqual(r.Reasoning, c.want) {
			t.Errorf("%s: %+v", c.config, r.Reasoning)
		}
	}
}

func TestChoice(t *testing.T) {
	for _, c := range []struct {
		config string
		mode   ir.ChoiceMode
		names  int
	}{
		{`{"mode":"AUTO"}`, ir.ChoiceAuto, 0}, {`{"mode":"NONE","allowedFunctionNames":["a"]}`, ir.ChoiceNone, 0},
		{`{"mode":"ANY"}`, ir.ChoiceRequired, 0}, {`{"mode":"ANY","allowedFunctionNames":["a"]}`, ir.ChoiceOne, 1},
		{`{"mode":"ANY","allowedFunctionNames":["a","b"]}`, ir.ChoiceRequired, 2}, {`{"mode":"MODE_UNSPECIFIED"}`, ir.ChoiceUnset, 0},
		{`{}`, ir.ChoiceUnset, 0},
	} {
		r := decode(t, `{"toolConfig":{"functionCallingConfig":`+c.config+`}}`)
		if r.Choice.Mode != c.mode || len(r.Choice.Names) != c.names {
			t.Errorf("%s: %+v", c.config, r.Choice)
		}
	}
}

// Calls and results without ids are paired by name and order, and get the same ids each time.
func TestCNV010SameNamesPaired(t *testing.T) {
	body := `{"contents":[{"parts":[{"text":"x"}]},
	 {"role":"model","parts":[{"functionCall":{"name":"f","args":{"n":1}}},{"functionCall":{"name":"g","args":{"n":1}}},{"functionCall":{"name":"f","args":{"n":2}}}]},
	 {"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":"A"}}},{"functionResponse":{"name":"f","response":{"output":"B"}}},{"functionResponse":{"name":"g","response":{"output":"C"}}}]}]}`
	r := decode(t, body)
	calls, results := r.Turns[1].Blocks, r.Turns[2].Blocks
	for i, want := range []struct {
		call int
		text string
	}{{0, "A"}, {2, "B"}, {1, "C"}} {
		if results[i].ID != calls[want.call].ID || results[i].Content[0].Text != want.text {
			t.Errorf("result %d: %+v", i, results[i])
		}
	}
	if !same(r, decode(t, body)) {
		t.Error("the ids differ from one request to the next")
	}
	out := encodeFor(t, r, "gemini-2.5-pro")
	for i, want := range []string{"A", "C", "B"} { // the order of the calls
		if got := member(t, out.Body, "contents", 2, "parts", i, "functionResponse", "response"); got != `{"output":"`+want+`"}` {
			t.Errorf("result %d: %s", i, got)
		}
	}
}

// A result belongs to the last turn that calls: not to an old call of the name that was never answered.
func TestPairNewestTurn(t *testing.T) {
	r := decode(t, `{"contents":[{"role":"model","parts":[{"functionCall":{"name":"f"}}]},{"parts":[{"text":"no"}]},
	 {"role":"model","parts":[{"functionCall":{"name":"f"}}]},{"parts":[{"functionResponse":{"name":"f","response":{"output":"x"}}}]}]}`)
	if got, want := r.Turns[3].Blocks[0].ID, r.Turns[2].Blocks[0].ID; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestPairClientNumbersResultsOnly(t *testing.T) {
	r := decode(t, `{"contents":[{"role":"model","parts":[{"functionCall":{"name":"f"}}]},{"parts":[{"functionResponse":{"id":"z","name":"f","response":{"output":"x"}}},{"functionResponse":{"name":"h","response":{}}}]}]}`)
	if r.Turns[1].Blocks[0].ID != r.Turns[0].Blocks[0].ID || r.Turns[1].Blocks[1].ID == "" || len(r.Turns[1].Blocks[1].Content) != 0 && r.Turns[1].Blocks[1].Content[0].Text != "{}" {
		t.Errorf("%+v", r.Turns)
	}
}

// opencode's form and any other object are said as they are written.
func TestResultForms(t *testing.T) {
	r := decode(t, string(bodies(t)["results"]))
	results := r.Turns[2].Blocks
	if got := results[0].Content[0].Text; got != `{"name": "bash", "content": "README.md\n"}` {
		t.Error(got)
	}
	if b := results[1]; b.IsError || b.Content[0].Text != `{"error":"not one"}` {
		t.Errorf("%+v", b)
	}
	if c := results[2].Content; len(c) != 2 || c[1].Kind != ir.Image || c[1].At != "contents[2].parts[2].functionResponse.parts[0]" {
		t.Errorf("%+v", c)
	}
	if r.Tools[0].Hosted.Type != ir.WebSearch || r.Tools[0].Kind != ir.ToolHosted {
		t.Errorf("%+v", r.Tools)
	}
	out := encodeFor(t, r, model)
	for i, want := range []string{`{"name": "bash", "content": "README.md\n"}`, `{"output":"{\"error\":\"not one\"}"}`, `{"output":"here"}`} {
		if got := member(t, out.Body, "contents", 2, "parts", i, "functionResponse", "response"); got != want {
			t.Errorf("%d: %s", i, got)
		}
	}
	again := decode(t, string(out.Body))
	merged(r)
	if d := difference(r, again); d != "" {
		t.Error(d)
	}
}

// A state of a call that a thought part carries belongs to the call behind it.
func TestCarriedState(t *testing.T) {
	seal := ir.Seal(ir.State{Owner: "other", Data: "x", Attach: ir.AttachCall})
	r := decode(t, `{"contents":[{"role":"model","parts":[{"text":"","thought":true,"thoughtSignature":"`+seal+`"},{"functionCall":{"name":"f"}},{"functionCall":{"name":"f"}}]}]}`)
	b := r.Turns[0].Blocks
	if len(b) != 2 || b[0].State == nil || b[0].State.Owner != "other" || b[1].State != nil {
		t.Errorf("%+v", b)
	}
}

// Clients keep reasoning as it was streamed to them: in pieces, the signature in an empty part behind them.
func TestThoughtInPieces(t *testing.T) {
	seal := ir.Seal(ir.State{Owner: "other", Data: "x"})
	piece := func(s, more string) string { return `{"text":"` + s + `","thought":true` + more + `}` }
	for _, body := range []string{
		`{"contents":[{"role":"model","parts":[` + piece("a", "") + `,` + piece("b", "") + `,` + piece("", `,"thoughtSignature":"`+seal+`"`) + `,` + piece("c", "") + `,{"text":"x"}]}]}`,
		`{"contents":[{"role":"model","parts":[` + piece("a", "") + `]},{"role":"model","parts":[` + piece("b", "") + `,` + piece("", `,"thoughtSignature":"`+seal+`"`) + `,` + piece("c", "") + `]},{"role":"model","parts":[{"text":"x"}]}]}`,
	} {
		var got []string
		for _, turn := range decode(t, body).Turns {
			for _, b := range turn.Blocks {
				got = append(got, fmt.Sprintf("%v %s %v", b.Kind == ir.Thinking, b.Text, b.State != nil && b.State.Owner == "other"))
			}
		}
		if want := "[true ab true true c false false x false]"; fmt.Sprint(got) != want {
			t.Error(got)
		}
	}
}

// CNV-006: parametersJsonSchema is taken as it is written, and nothing is invented.
func TestCNV006ParametersJsonSchema(t *testing.T) {
	r := decode(t, `{"tools":[{"functionDeclarations":[{"name":"f","parametersJsonSchema":{"type":"object", "properties":{}}}]}]}`)
	if got := string(r.Tools[0].Schema); got != `{"type":"object", "properties":{}}` {
		t.Error(got)
	}
	out := encodeFor(t, r, model)
	if got := member(t, out.Body, "tools", 0, "functionDeclarations", 0); got != `{"name":"f"}` {
		t.Error(got)
	}
}

func TestSchemaIn(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"type":"OBJECT","properties":{"type":{"type":"STRING","nullable":true,"enum":["a"]}}}`, `{"type":"object","properties":{"type":{"type":["string","null"],"enum":["a",null]}}}`},
		{`{"nullable":true,"anyOf":[{"type":"STRING"}]}`, `{"anyOf":[{"anyOf":[{"type":"string"}]},{"type":"null"}]}`},
		{`{"type":"STRING","example":"x","nullable":false}`, `{"type":"string","examples":["x"]}`},
		{`{"type":"TYPE_UNSPECIFIED","any_of":[{"type":"NUMBER"}]}`, `{"anyOf":[{"type":"number"}]}`},
		{`{"type": "object", "properties": {"nullable": {"type": "string"}}}`, `{"type": "object", "properties": {"nullable": {"type": "string"}}}`},
		{`{"type":"STRING","minLength":"3","title":null}`, `{"type":"string","minLength":3}`},
	} {
		rd := &reader{r: &ir.Request{}}
		if got := string(rd.schema([]byte(c.in))); got != c.want {
			t.Errorf("%s: %s", c.in, got)
		}
	}
}
