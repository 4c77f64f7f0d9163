package gemini

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"coding-proxy/proxy/ir"
)

// foreign are the names of a client of another dialect.
var foreign = ir.FieldNames{
	ir.FieldCacheMark: "cache_control", ir.FieldThinking: "thinking", ir.FieldStop: "stop_sequences", ir.FieldSchema: "input_schema",
	ir.FieldReasoning: "thinking", ir.FieldToolChoice: "tool_choice", ir.FieldTools: "tools", ir.FieldParallel: "parallel_tool_calls",
	ir.FieldStrict: "strict", ir.FieldSeed: "seed", ir.FieldVerbosity: "verbosity", ir.FieldUser: "user", ir.FieldMetadata: "metadata",
	ir.FieldCacheKey: "prompt_cache_key", ir.FieldLogitBias: "logit_bias", ir.FieldServiceTier: "service_tier", ir.FieldDetail: "detail",
	ir.FieldCitations: "citations", ir.FieldDocument: "document", ir.FieldPhase: "phase", ir.FieldFormat: "output_config.format",
}

func request(turns ...ir.Turn) *ir.Request { return &ir.Request{Names: &foreign, Turns: turns} }

func user(blocks ...ir.Block) ir.Turn      { return ir.Turn{Role: ir.User, Blocks: blocks} }
func assistant(blocks ...ir.Block) ir.Turn { return ir.Turn{Role: ir.Assistant, Blocks: blocks} }

func say(s string) ir.Block { return ir.Block{Kind: ir.Text, Text: s} }

func call(id, name, args string) ir.Block {
	return ir.Block{Kind: ir.ToolCall, ID: id, ToolName: ir.ToolName{Name: name}, Args: args}
}

func result(id string, content ...ir.Block) ir.Block {
	return ir.Block{Kind: ir.ToolResult, ID: id, Content: content}
}

func image(data string) ir.Block {
	return ir.Block{Kind: ir.Image, At: "messages[0].content[1]", Media: ir.Media{MIME: "image/png", Data: data}}
}

const png = "iVBORw0KGgo="

// contents is what the conversation became, for comparison.
func contents(t *testing.T, r *ir.Request, model string) string {
	t.Helper()
	return member(t, encodeFor(t, r, model).Body, "contents")
}

func TestCases(t *testing.T) {
	const old = "gemini-2.5-flash" // no placeholders
	signed := func(b ir.Block, owner, data string) ir.Block {
		b.State = &ir.State{Owner: owner, Data: data}
		return b
	}
	thought := func(s, owner, data string) ir.Block {
		return signed(ir.Block{Kind: ir.Thinking, Text: s}, owner, data)
	}
	for _, c := range []struct {
		name, model string
		turns       []ir.Turn
		want        string
	}{
		{"case_25 foreign thinking goes, its call gets the placeholder", model,
			[]ir.Turn{user(say("a")), assistant(thought("hm", "other", "s"), signed(call("t1", "f", `{}`), "other", "s")), user(result("t1", say("r")))},
			`[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"id":"t1","name":"f","args":{}},"thoughtSignature":"skip_thought_signature_validator"}]},{"role":"user","parts":[{"functionResponse":{"id":"t1","name":"f","response":{"output":"r"}}}]}]`},
		{"case_26 never to Claude", "claude-opus-4-6-thinking",
			[]ir.Turn{user(say("a")), assistant(thought("hm", "other", "s"), call("t1", "f", `{}`)), user(result("t1", say("r")))},
			`[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"id":"t1","name":"f","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"id":"t1","name":"f","response":{"output":"r"}}}]}]`},
		{"case_27 own reasoning as it was", model,
			[]ir.Turn{user(say("a")), assistant(thought(" <hm>\n", owner, "s+/="), say("b")), user(say("c"))},
			`[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"text":" <hm>\n","thought":true,"thoughtSignature":"s+/="},{"text":"b"}]},{"role":"user","parts":[{"text":"c"}]}]`},
		{"case_29 each signature on its own part", model,
			[]ir.Turn{user(say("a")), assistant(signed(call("t1", "f", `{}`), owner, "s1"), call("t2", "f", `{}`)), user(result("t1", say("r")), result("t2", say("r"))), assistant(signed(call("t3", "f", ``), owner, "s3")), user(result("t3"))},
			`[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"id":"t1","name":"f","args":{}},"thoughtSignature":"s1"},{"functionCall":{"id":"t2","name":"f","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"id":"t1","name":"f","response":{"output":"r"}}},{"functionResponse":{"id":"t2","name":"f","response":{"output":"r"}}}]},{"role":"model","parts":[{"functionCall":{"id":"t3","name":"f","args":{}},"thoughtSignature":"s3"}]},{"role":"user","parts":[{"functionResponse":{"id":"t3","name":"f","response":{"output":""}}}]}]`},
		{"case_31 empty texts go", old,
			[]ir.Turn{user(say(""), say("a")), assistant(say("")), user(say("b"))},
			`[{"role":"user","parts":[{"text":"a"},{"text":"b"}]}]`},
		{"case_32 CNV-025 instruction in the middle stays at its place", old,
			[]ir.Turn{user(say("a")), {Role: ir.System, Blocks: []ir.Block{say("note")}}, {Role: ir.Developer, Blocks: []ir.Block{say("dev")}}, user(say("b"))},
			`[{"role":"user","parts":[{"text":"a"},{"text":"<system-reminder>\nnote\n</system-reminder>"},{"text":"<system-reminder>\ndev\n</system-reminder>"},{"text":"b"}]}]`},
		{"case_37 a result of unknown blocks is a result", old,
			[]ir.Turn{user(say("a")), assistant(call("t1", "f", `{}`)), user(result("t1", ir.Block{Kind: ir.Opaque, Type: "x", Raw: []byte(`{"type":"x"}`)}))},
			`[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"id":"t1","name":"f","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"id":"t1","name":"f","response":{"type":"x"}}}]}]`},
		{"case_38 results of several turns in one content, in the order of the calls", old,
			[]ir.Turn{user(say("a")), assistant(call("1", "f", `{}`), call("2", "g", `{}`), call("3", "f", `{}`)), user(result("3", say("C"))), user(result("1", say("A"))), user(result("2", say("B")))},
			`[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"id":"1","name":"f","args":{}}},{"functionCall":{"id":"2","name":"g","args":{}}},{"functionCall":{"id":"3","name":"f","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"id":"1","name":"f","response":{"output":"A"}}},{"functionResponse":{"id":"2","name":"g","response":{"output":"B"}}},{"functionResponse":{"id":"3","name":"f","response":{"output":"C"}}}]}]`},
		{"case_40 images before Gemini 3 follow in a content of their own", old,
			[]ir.Turn{user(say("a")), assistant(call("1", "f", `{}`), call("2", "f", `{}`)), user(result("1", say("A"), image(png)), result("2", say("B")), say("c"))},
			`[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"id":"1","name":"f","args":{}}},{"functionCall":{"id":"2","name":"f","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"id":"1","name":"f","response":{"output":"A"}}},{"functionResponse":{"id":"2","name":"f","response":{"output":"B"}}}]},{"role":"user","parts":[{"text":"[attached to the result of f (1)]"},{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}},{"text":"c"}]}]`},
		{"case_40 since Gemini 3 inside", model,
			[]ir.Turn{user(say("a")), assistant(call("1", "f", `{}`)), user(result("1", image(png)))},
			`[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"id":"1","name":"f","args":{}},"thoughtSignature":"skip_thought_signature_validator"}]},{"role":"user","parts":[{"functionResponse":{"id":"1","name":"f","response":{"output":""},"parts":[{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}}]}}]}]`},
		{"case_41 an orphan becomes text, a duplicate's last one wins", old,
			[]ir.Turn{user(result("z", say("lost")), say("a")), assistant(call("1", "f", `{}`)), user(result("1", say("old"))), user(result("1", say("new")))},
			`[{"role":"user","parts":[{"text":"[result of an earlier tool call]"},{"text":"lost"},{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"id":"1","name":"f","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"id":"1","name":"f","response":{"output":"new"}}}]}]`},
		{"case_42 an id is the same on both sides", old,
			[]ir.Turn{user(say("a")), assistant(call("a b\"c", "f", `{}`)), user(result("a b\"c", say("r")))},
			`[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"id":"a_b_c_fc24ac71","name":"f","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"id":"a_b_c_fc24ac71","name":"f","response":{"output":"r"}}}]}]`},
		{"case_60 results first, texts after", old,
			[]ir.Turn{user(say("a")), assistant(call("1", "f", `{}`)), user(say("reminder"), result("1", say("r")))},
			`[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"id":"1","name":"f","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"id":"1","name":"f","response":{"output":"r"}}}]},{"role":"user","parts":[{"text":"reminder"}]}]`},
		{"CNV-009 CNV-029 the name is the call's, nothing said", old,
			[]ir.Turn{user(say("a")), assistant(call("toolu_tool-1234", "Read", `{}`)), user(ir.Block{Kind: ir.ToolResult, ID: "toolu_tool-1234"})},
			`[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"id":"toolu_tool-1234","name":"Read","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"id":"toolu_tool-1234","name":"Read","response":{"output":""}}}]}]`},
		{"CNV-012 calls last", old,
			[]ir.Turn{user(say("u")), assistant(say("a"), call("1", "f", `{}`), say("b")), user(result("1", say("r")))},
			`[{"role":"user","parts":[{"text":"u"}]},{"role":"model","parts":[{"text":"a"},{"text":"b"},{"functionCall":{"id":"1","name":"f","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"id":"1","name":"f","response":{"output":"r"}}}]}]`},
		{"CNV-014 a result in the assistant's turn", old,
			[]ir.Turn{user(say("u")), assistant(call("1", "f", `{}`), result("1", say("r"))), user(say("next"))},
			`[{"role":"user","parts":[{"text":"u"}]},{"role":"model","parts":[{"functionCall":{"id":"1","name":"f","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"id":"1","name":"f","response":{"output":"r"}}}]},{"role":"user","parts":[{"text":"next"}]}]`},
		{"CNV-015 a call without result", old,
			[]ir.Turn{user(say("u")), assistant(call("1", "f", `{}`)), user(say("go on"))},
			`[{"role":"user","parts":[{"text":"u"}]},{"role":"model","parts":[{"functionCall":{"id":"1","name":"f","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"id":"1","name":"f","response":{"error":"[no result recorded]"}}}]},{"role":"user","parts":[{"text":"go on"}]}]`},
		{"a call at the end is left alone", old,
			[]ir.Turn{user(say("u")), assistant(call("1", "f", `{}`))},
			`[{"role":"user","parts":[{"text":"u"}]},{"role":"model","parts":[{"functionCall":{"id":"1","name":"f","args":{}}}]}]`},
		{"CNV-018 nothing but empty parts", old,
			[]ir.Turn{user(say(""))}, `[{"role":"user","parts":[{"text":" "}]}]`},
		{"CNV-018 the last turn was empty", old,
			[]ir.Turn{user(say("a")), assistant(say("b")), user(say(""))},
			`[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"text":"b"}]},{"role":"user","parts":[{"text":" "}]}]`},
		{"CNV-027 neighbours of one role", old,
			[]ir.Turn{user(say("a")), user(say("b")), assistant(say("x")), assistant(say("y"))},
			`[{"role":"user","parts":[{"text":"a"},{"text":"b"}]},{"role":"model","parts":[{"text":"x"},{"text":"y"}]}]`},
		{"CNV-028 a history that begins with the model", old,
			[]ir.Turn{assistant(call("1", "f", `{}`)), user(result("1", say("r")))},
			`[{"role":"user","parts":[{"text":" "}]},{"role":"model","parts":[{"functionCall":{"id":"1","name":"f","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"id":"1","name":"f","response":{"output":"r"}}}]}]`},
		{"CNV-041 digits stay", old,
			[]ir.Turn{user(say("a")), assistant(call("1", "f", `{"id":9007199254740993,"n":1.10,"big":1e22}`)), user(result("1", say("r")))},
			`[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"id":"1","name":"f","args":{"id":9007199254740993,"n":1.10,"big":1e22}}}]},{"role":"user","parts":[{"functionResponse":{"id":"1","name":"f","response":{"output":"r"}}}]}]`},
		{"arguments that are no object", old,
			[]ir.Turn{user(say("a")), assistant(call("1", "f", `[1]`), call("2", "f", `{"a`)), user(result("1"), result("2"))},
			`[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"id":"1","name":"f","args":{"value":[1]}}},{"functionCall":{"id":"2","name":"f","args":{"_raw":"{\"a"}}}]},{"role":"user","parts":[{"functionResponse":{"id":"1","name":"f","response":{"output":""}}},{"functionResponse":{"id":"2","name":"f","response":{"output":""}}}]}]`},
		{"ids that are missing", old,
			[]ir.Turn{user(say("a")), assistant(call("", "f", `{}`), call("", "g", `{}`)), user(ir.Block{Kind: ir.ToolResult, ToolName: ir.ToolName{Name: "g"}, Content: []ir.Block{say("G")}}, result("", say("F")))},
			`[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"id":"call_1_0","name":"f","args":{}}},{"functionCall":{"id":"call_1_1","name":"g","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"id":"call_1_0","name":"f","response":{"output":"F"}}},{"functionResponse":{"id":"call_1_1","name":"g","response":{"output":"G"}}}]}]`},
		{"an id twice in a turn", old,
			[]ir.Turn{user(say("a")), assistant(call("x", "f", `{}`), call("x", "f", `{}`)), user(result("x", say("A")), result("x", say("B")))},
			`[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"id":"x","name":"f","args":{}}},{"functionCall":{"id":"x_2","name":"f","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"id":"x","name":"f","response":{"output":"A"}}},{"functionResponse":{"id":"x_2","name":"f","response":{"output":"B"}}}]}]`},
		{"case_46 free text", old,
			[]ir.Turn{user(say("a")), assistant(ir.Block{Kind: ir.ToolCall, ID: "1", ToolName: ir.ToolName{Name: "apply_patch"}, Form: ir.FormCustom, Args: "*** <Begin>"}), user(result("1", say("ok")))},
			`[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"id":"1","name":"apply_patch","args":{"input":"*** \u003cBegin\u003e"}}}]},{"role":"user","parts":[{"functionResponse":{"id":"1","name":"apply_patch","response":{"output":"ok"}}}]}]`},
		{"own text signatures and refusals", model,
			[]ir.Turn{user(say("a")), assistant(signed(say("b"), owner, "sb"), signed(say(""), owner, "se"), ir.Block{Kind: ir.Refusal, Text: "no"}), user(say("c"))},
			`[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"text":"b","thoughtSignature":"sb"},{"text":"","thoughtSignature":"se"},{"text":"no"}]},{"role":"user","parts":[{"text":"c"}]}]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := contents(t, request(c.turns...), c.model); got != c.want {
				t.Errorf("\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestCNV042SameBytes(t *testing.T) {
	r := decode(t, string(bodies(t)["everything"]))
	a, b := encoded(t, r), encoded(t, r)
	if a != b || !strings.Contains(a, "Be <brief> & exact.") {
		t.Errorf("%s\n%s", a, b)
	}
}

func TestCNV024System(t *testing.T) {
	r := request(user(say("a")))
	r.System = []ir.Block{{Kind: ir.Text, Text: "one", Cache: &ir.CacheMark{}}, say(""), say("two")}
	out := encodeFor(t, r, model)
	if got := member(t, out.Body, "systemInstruction"); got != `{"parts":[{"text":"one"},{"text":"two"}]}` {
		t.Error(got)
	}
	if !has(out.Lost, "cache_control") {
		t.Error(out.Lost)
	}
}

func TestPaths(t *testing.T) {
	for _, c := range []struct {
		model  string
		stream bool
		want   string
	}{
		{"gemini-2.5-pro", false, "/v1beta/models/gemini-2.5-pro:generateContent?"},
		{"gemini-2.5-pro", true, "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse"},
		{"models/gemini-2.5-pro", false, "/v1beta/models/gemini-2.5-pro:generateContent?"},
		{"tunedModels/my one", false, "/v1beta/tunedModels/my%20one:generateContent?"},
		{"a/b?c", false, "/v1beta/models/a%2Fb%3Fc:generateContent?"},
	} {
		r := request(user(say("a")))
		r.Stream = c.stream
		out := encodeFor(t, r, c.model)
		if got := out.Path + "?" + out.Query; got != c.want {
			t.Error(got)
		}
	}
}

func TestConfig(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		name, model string
		set         func(r *ir.Request)
		want        string
		lost        string
	}{
		{"nothing", model, func(*ir.Request) {}, ``, ""},
		{"sampling as written", model, func(r *ir.Request) {
			r.Sampling = ir.Sampling{Temperature: "0.95", TopP: "1.0", TopK: "40", Seed: "7", PresencePenalty: "0.1", FrequencyPenalty: "-0.10"}
		}, `{"temperature":0.95,"topP":1.0,"topK":40,"seed":7,"presencePenalty":0.1,"frequencyPenalty":-0.10}`, ""},
		{"a seed that is no int32", model, func(r *ir.Request) { r.Sampling.Seed = "5000000000" }, ``, "seed"},
		{"limits CNV-032", model, func(r *ir.Request) { r.MaxTokens = 5; r.Stop = []string{"END"} }, `{"maxOutputTokens":5,"stopSequences":["END"]}`, ""},
		{"json", model, func(r *ir.Request) { r.Format.Kind = ir.FormatJSON }, `{"responseMimeType":"application/json"}`, ""},
		{"schema", model, func(r *ir.Request) {
			r.Format = ir.Format{Kind: ir.FormatSchema, Schema: []byte(`{"$schema":"x","type":"array","items":{"type":"string"}}`)}
		}, `{"responseMimeType":"application/json","responseJsonSchema":{"type":"array","items":{"type":"string"}}}`, ""},
		{"level", "gemini-3.8-flash", func(r *ir.Request) { r.Reasoning = ir.Reasoning{Mode: ir.ReasoningOn, Effort: "minimal"} }, `{"thinkingConfig":{"thinkingLevel":"MINIMAL","includeThoughts":true}}`, ""},
		{"level of pro", model, func(r *ir.Request) { r.Reasoning = ir.Reasoning{Effort: "minimal"} }, `{"thinkingConfig":{"thinkingLevel":"LOW","includeThoughts":true}}`, ""},
		{"level by budget", model, func(r *ir.Request) { r.Reasoning = ir.Reasoning{Mode: ir.ReasoningOn, Budget: 8000} }, `{"thinkingConfig":{"thinkingLevel":"MEDIUM","includeThoughts":true}}`, ""},
		{"most", model, func(r *ir.Request) { r.Reasoning = ir.Reasoning{Mode: ir.ReasoningOn, Effort: "max", Show: &no} }, `{"thinkingConfig":{"thinkingLevel":"HIGH","includeThoughts":false}}`, ""},
		{"as the model likes", model, func(r *ir.Request) { r.Reasoning = ir.Reasoning{Mode: ir.ReasoningOn, Budget: -1} }, `{"thinkingConfig":{"includeThoughts":true}}`, ""},
		{"off is not to be had", model, func(r *ir.Request) { r.Reasoning = ir.Reasoning{Mode: ir.ReasoningOff} }, `{"thinkingConfig":{"thinkingLevel":"LOW"}}`, "thinking"},
		{"off", "gemini-2.5-flash", func(r *ir.Request) { r.Reasoning = ir.Reasoning{Mode: ir.ReasoningOff, Show: &yes} }, `{"thinkingConfig":{"thinkingBudget":0,"includeThoughts":false}}`, ""},
		{"off of pro", "gemini-2.5-pro", func(r *ir.Request) { r.Reasoning = ir.Reasoning{Mode: ir.ReasoningOff} }, `{"thinkingConfig":{"thinkingBudget":128}}`, "thinking"},
		{"budget", "gemini-2.5-flash", func(r *ir.Request) { r.Reasoning = ir.Reasoning{Mode: ir.ReasoningOn, Budget: 2048} }, `{"thinkingConfig":{"thinkingBudget":2048,"includeThoughts":true}}`, ""},
		{"budget by effort", "gemini-2.5-pro", func(r *ir.Request) { r.Reasoning = ir.Reasoning{Mode: ir.ReasoningOn, Effort: "max"} }, `{"thinkingConfig":{"thinkingBudget":32768,"includeThoughts":true}}`, ""},
		{"too much", "gemini-2.5-flash", func(r *ir.Request) { r.Reasoning = ir.Reasoning{Mode: ir.ReasoningOn, Budget: 63999} }, `{"thinkingConfig":{"thinkingBudget":24576,"includeThoughts":true}}`, "thinking"},
		{"an old model", "gemini-2.0-flash", func(r *ir.Request) { r.Reasoning = ir.Reasoning{Mode: ir.ReasoningOn, Budget: 2048} }, ``, "thinking"},
		{"Claude", "claude-sonnet-4-5", func(r *ir.Request) { r.Reasoning = ir.Reasoning{Mode: ir.ReasoningOn, Budget: -1} }, `{"thinkingConfig":{"includeThoughts":true}}`, ""},
		{"to be shown only", model, func(r *ir.Request) { r.Reasoning = ir.Reasoning{Show: &yes} }, `{"thinkingConfig":{"includeThoughts":true}}`, ""},
		{"verbosity", model, func(r *ir.Request) { r.Verbosity = "low" }, ``, "verbosity"},
		{"user", model, func(r *ir.Request) { r.User = "u" }, ``, "user"},
		{"metadata", model, func(r *ir.Request) { r.Metadata = []byte(`{"a":"b"}`) }, ``, "metadata"},
		{"cache key", model, func(r *ir.Request) { r.Cache.Key = "k" }, ``, "prompt_cache_key"},
		{"bias", model, func(r *ir.Request) { r.Sampling.LogitBias = []byte(`{"1":2}`) }, ``, "logit_bias"},
		{"parallel", model, func(r *ir.Request) { r.Parallel = &no }, ``, "parallel_tool_calls"},
		{"parallel wanted", model, func(r *ir.Request) { r.Parallel = &yes }, ``, ""},
		{"tier", model, func(r *ir.Request) { r.ServiceTier = "fast" }, ``, "service_tier"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := request(user(say("a")))
			c.set(r)
			out := encodeFor(t, r, c.model)
			if got := member(t, out.Body, "generationConfig"); got != c.want {
				t.Error(got)
			}
			if lost := strings.Join(out.Lost, " "); lost != c.lost {
				t.Errorf("lost %q, want %q", lost, c.lost)
			}
		})
	}
}

func TestTier(t *testing.T) {
	for tier, want := range map[string]string{"": "", "auto": "", "default": `"standard"`, "flex": `"flex"`, "priority": `"priority"`} {
		r := request(user(say("a")))
		r.ServiceTier = tier
		if got := member(t, encodeFor(t, r, model).Body, "serviceTier"); got != want {
			t.Errorf("%s: %s", tier, got)
		}
	}
}

func tool(name string) ir.Tool {
	return ir.Tool{ToolName: ir.ToolName{Name: name}, Description: "does " + name, Schema: []byte(`{"type":"object","properties":{"a":{"type":"string"}}}`)}
}

func TestToolChoice(t *testing.T) {
	pick := func(list ...string) (out []ir.ToolName) {
		for _, n := range list {
			out = append(out, ir.ToolName{Name: n})
		}
		return out
	}
	for _, c := range []struct {
		choice ir.Choice
		want   string
		tools  int
	}{
		{ir.Choice{}, ``, 3},
		{ir.Choice{Mode: ir.ChoiceAuto}, `{"functionCallingConfig":{"mode":"AUTO"}}`, 3},
		{ir.Choice{Mode: ir.ChoiceAuto, Names: pick("a", "c")}, `{"functionCallingConfig":{"mode":"AUTO"}}`, 2},
		{ir.Choice{Mode: ir.ChoiceNone}, `{"functionCallingConfig":{"mode":"NONE"}}`, 3},
		{ir.Choice{Mode: ir.ChoiceRequired}, `{"functionCallingConfig":{"mode":"ANY"}}`, 3},
		{ir.Choice{Mode: ir.ChoiceRequired, Names: pick("a", "b")}, `{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["a","b"]}}`, 3},
		{ir.Choice{Mode: ir.ChoiceOne, Names: pick("b")}, `{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["b"]}}`, 3},
	} {
		r := request(user(say("a")))
		r.Tools, r.Choice = []ir.Tool{tool("a"), tool("b"), tool("c")}, c.choice
		out := encodeFor(t, r, model)
		if got := member(t, out.Body, "toolConfig"); got != c.want {
			t.Errorf("%+v: %s", c.choice, got)
		}
		var list []json.RawMessage
		_ = json.Unmarshal([]byte(member(t, out.Body, "tools", 0, "functionDeclarations")), &list)
		if len(list) != c.tools || len(out.Lost) > 0 {
			t.Errorf("%+v: %d tools, lost %v", c.choice, len(list), out.Lost)
		}
	}
}

func TestHostedTools(t *testing.T) {
	search := ir.Tool{Kind: ir.ToolHosted, ToolName: ir.ToolName{Name: "web_search"}, Hosted: ir.Hosted{Type: ir.WebSearch, MaxUses: 8}}
	r := request(user(say("a")))
	r.Tools = []ir.Tool{search}
	r.Choice = ir.Choice{Mode: ir.ChoiceOne, Names: []ir.ToolName{{Name: "web_search"}}} // as Claude Code searches
	out := encodeFor(t, r, model)
	if got := member(t, out.Body, "tools"); got != `[{"googleSearch":{}}]` || strings.Join(out.Lost, " ") != "tools tool_choice" {
		t.Errorf("%s %v", got, out.Lost)
	}
	r.Tools = append(r.Tools, tool("f"))
	if _, err := encodeRequest(r, ir.Target{Model: model}); err == nil {
		t.Error("a forced search beside functions must be refused")
	}
	r.Choice = ir.Choice{}
	out = encodeFor(t, r, model)
	if got := member(t, out.Body, "tools", 0, "googleSearch"); got != "" || !has(out.Lost, "tools") {
		t.Errorf("%s %v", out.Body, out.Lost)
	}
	r.Tools = []ir.Tool{{Kind: ir.ToolHosted, Hosted: ir.Hosted{Type: "code_execution_20260120"}}}
	out = encodeFor(t, r, model)
	if got := member(t, out.Body, "tools"); got != "" || !has(out.Lost, "tools") {
		t.Errorf("%s %v", out.Body, out.Lost)
	}
	own := decode(t, `{"contents":[{"parts":[{"text":"a"}]}],"tools":[{"codeExecution":{}},{"urlContext":{}}]}`)
	if got := member(t, encodeFor(t, own, model).Body, "tools"); got != `[{"codeExecution":{}},{"urlContext":{}}]` {
		t.Error(got)
	}
}

func TestCase52ToolNames(t *testing.T) {
	long := strings.Repeat("x", 70)
	r := request(user(say("a")), assistant(call("1", long, `{}`), call("2", "9 é", `{}`)), user(result("1"), result("2")))
	r.Tools = []ir.Tool{tool(long), tool("9 é"), {ToolName: ir.ToolName{Namespace: "ns", Name: "x"}}}
	r.Choice = ir.Choice{Mode: ir.ChoiceOne, Names: []ir.ToolName{{Name: long}}}
	out := encodeFor(t, r, model)
	wire := member(t, out.Body, "tools", 0, "functionDeclarations", 0, "name")
	if got := member(t, out.Body, "toolConfig", "functionCallingConfig", "allowedFunctionNames", 0); got != wire || len(wire) != 66 {
		t.Errorf("%s %s", got, wire)
	}
	if got := member(t, out.Body, "contents", 1, "parts", 0, "functionCall", "name"); got != wire {
		t.Error(got)
	}
	if got := member(t, out.Body, "tools", 0, "functionDeclarations", 2); got != `{"name":"ns__x"}` {
		t.Error(got)
	}
	b := ir.Block{ToolName: ir.ToolName{Name: strings.Trim(wire, `"`)}}
	if out.Tools.Restore(&b); b.Name != long {
		t.Error(b.Name)
	}
}

func TestCustomTool(t *testing.T) {
	r := request(user(say("a")))
	r.Tools = []ir.Tool{{Kind: ir.ToolCustom, Form: ir.FormCustom, ToolName: ir.ToolName{Name: "apply_patch"}, Description: "Patches.", Grammar: []byte(`{"type":"grammar","syntax":"lark","definition":"start: x"}`)}}
	got := member(t, encodeFor(t, r, model).Body, "tools", 0, "functionDeclarations", 0)
	want := `{"name":"apply_patch","description":"Patches.\n\nThe input must follow this grammar (lark):\nstart: x","parametersJsonSchema":{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}}`
	if got != want {
		t.Error(got)
	}
}

func TestToolTwice(t *testing.T) {
	strict := true
	r := request(user(say("a")))
	r.Tools = []ir.Tool{tool("f"), tool("f"), tool("g")}
	r.Tools[2].Strict = &strict
	out := encodeFor(t, r, model)
	if strings.Join(out.Lost, " ") != "tools strict" {
		t.Error(out.Lost)
	}
}

func TestEncodeRefused(t *testing.T) {
	at := "messages[0].content[1]"
	for _, c := range []struct {
		name, field string
		r           *ir.Request
	}{
		{"address", at, request(user(ir.Block{Kind: ir.Image, At: at, Media: ir.Media{URL: "https://x/y.png"}}))},
		{"file", at, request(user(ir.Block{Kind: ir.Document, At: at, Media: ir.Media{FileID: "file_1"}}))},
		{"video", at, request(user(ir.Block{Kind: ir.Video, At: at, Media: ir.Media{URL: "https://x/y.mp4"}}))},
		{"no data", at, request(user(ir.Block{Kind: ir.Audio, At: at, Media: ir.Media{Data: "%%%%"}}))},
		{"address in a result", at, request(assistant(call("1", "f", "")), user(result("1", ir.Block{Kind: ir.Image, At: at, Media: ir.Media{URL: "https://x/y.png"}})))},
		{"stop", "stop_sequences", &ir.Request{Names: &foreign, Stop: []string{"1", "2", "3", "4", "5", "6"}}},
		{"unknown tool forced", "tool_choice", &ir.Request{Names: &foreign, Choice: ir.Choice{Mode: ir.ChoiceOne, Names: []ir.ToolName{{Name: "x"}}}, Tools: []ir.Tool{tool("a")}}},
	} {
		_, err := encodeRequest(c.r, ir.Target{Model: model, Owner: owner})
		var refused *ir.RefusedError
		if !errors.As(err, &refused) || refused.Field != c.field {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestEncodeLost(t *testing.T) {
	for _, c := range []struct {
		name string
		turn ir.Turn
		lost string
	}{
		{"cache mark", user(ir.Block{Kind: ir.Text, Text: "a", Cache: &ir.CacheMark{}}), "cache_control"},
		{"thinking", assistant(ir.Block{Kind: ir.Thinking, Text: "a"}), "thinking"},
		{"detail", user(ir.Block{Kind: ir.Image, Media: ir.Media{MIME: "image/jpg", Data: png}, Detail: "high"}), "detail"},
		{"citations", assistant(ir.Block{Kind: ir.Text, Text: "a", Citations: []byte(`[{}]`)}), "citations"},
		{"hosted", assistant(ir.Block{Kind: ir.HostedCall, Type: "server_tool_use", Raw: []byte(`{}`)}), "server_tool_use"},
		{"title", user(ir.Block{Kind: ir.Document, Title: "t", Media: ir.Media{MIME: "application/pdf", Data: "JVBERi0xLjQ="}}), "document"},
		{"phase", ir.Turn{Role: ir.Assistant, Phase: "commentary", Blocks: []ir.Block{say("a")}}, "phase"},
	} {
		out := encodeFor(t, request(user(say("x")), c.turn, user(say("y"))), model)
		if lost := strings.Join(out.Lost, " "); lost != c.lost {
			t.Errorf("%s: lost %q", c.name, lost)
		}
	}
}

func TestCase56Media(t *testing.T) {
	got := contents(t, request(user(
		ir.Block{Kind: ir.Image, Media: ir.Media{MIME: "image/jpg; name=x", Data: "/9j/4AAQ"}},
		ir.Block{Kind: ir.Image, Media: ir.Media{Data: "iVBO\r\nRw0KGgo"}},
		ir.Block{Kind: ir.Document, Media: ir.Media{MIME: "text/plain"}, Title: "a.txt", Text: "hi"},
		ir.Block{Kind: ir.Audio, Media: ir.Media{MIME: "audio/wav", Data: "UklGRg=="}},
	)), model)
	want := `[{"role":"user","parts":[{"inlineData":{"mimeType":"image/jpeg","data":"/9j/4AAQ"}},{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}},{"text":"Document: a.txt\n\nhi"},{"inlineData":{"mimeType":"audio/wav","data":"UklGRg=="}}]}]`
	if got != want {
		t.Error(got)
	}
}

func TestFamily(t *testing.T) {
	for name, want := range map[string]family{
		"gemini-2.5-flash-lite":                      {gemini: true, major: 2, minor: 5, lite: true},
		"publishers/google/models/gemini-3.1-pro-x":  {gemini: true, major: 3, minor: 1, pro: true},
		"gemini-flash-latest":                        {gemini: true, major: 3, minor: 1},
		"gemini-3-pro-preview":                       {gemini: true, major: 3, pro: true},
		"claude-opus-4-6-thinking":                   {claude: true},
		"gpt-oss-120b":                               {},
		"models/gemini-2.0-flash-thinking-exp-01-21": {gemini: true, major: 2},
	} {
		if got := familyOf(name); got != want {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if l := familyOf("gemini-3-pro-preview").level("medium"); l != "HIGH" {
		t.Error(l)
	}
}
