package anthropic

import (
	"errors"
	"strings"
	"testing"

	"coding-proxy/proxy/ir"
)

func bools(v bool) *bool { return &v }

// The maximum is the client's, else the family's, and never more than that.
func TestMaxTokens(t *testing.T) {
	for _, tc := range []struct {
		model     string
		has, want int64
		lost      bool
	}{
		{"claude-opus-5-5", 0, 128000, false}, {"claude-opus-5-5", 500, 500, false}, {"claude-opus-5-5", 999999, 128000, true},
		{"claude-opus-4-20250514", 0, 32000, false}, {"claude-opus-4-1-20250805", 0, 32000, false}, {"claude-opus-4-5", 0, 64000, false}, {"anthropic/claude-opus-4.6", 0, 128000, false},
		{"claude-sonnet-4-5-20250929", 0, 64000, false}, {"claude-sonnet-4-5[1m]", 0, 64000, false}, {"us.anthropic.claude-sonnet-4-20250514-v1:0", 0, 64000, false}, {"claude-haiku-4-5", 0, 64000, false},
		{"claude-3-7-sonnet-latest", 0, 64000, false}, {"claude-3-5-haiku-20241022", 0, 8192, false}, {"claude-3.5-sonnet", 0, 8192, false}, {"claude-3-haiku-20240307", 0, 4096, false},
		{"claude-2.1", 0, 4096, false}, {"claude-opus", 0, 128000, false}, {"glm-4.7", 0, 8192, false}, {"glm-4.7", 999999, 999999, false},
	} {
		r := foreignRequest(userTurn(say("a")))
		r.MaxTokens = tc.has
		o, v := encode(t, r, tc.model)
		if got := dig(v, "max_tokens"); got != float64(tc.want) || (len(o.Lost) > 0) != tc.lost {
			t.Errorf("%s, %d: %v, lost %q", tc.model, tc.has, got, o.Lost)
		}
		if o.Path != "/v1/messages" || o.Headers[0] != [2]string{"anthropic-version", "2023-06-01"} {
			t.Errorf("%s %q", o.Path, o.Headers)
		}
	}
}

// Case 51 and the rest of the row: what the model refuses is not sent, and named.
func TestSampling(t *testing.T) {
	for _, tc := range []struct {
		name, model string
		in          ir.Sampling
		reason      ir.Reasoning
		want        string
		lost        []string
	}{
		{"case_51", "claude-opus-4-7", ir.Sampling{Temperature: "0.7", TopP: "0.99", TopK: "5"}, ir.Reasoning{}, `{}`, []string{"temperature", "top_p", "top_k"}},
		{"one is taken by all", "claude-opus-5-5", ir.Sampling{Temperature: "1.0"}, ir.Reasoning{}, `{"temperature":1.0}`, nil},
		{"CNV-041 as written", "claude-3-5-haiku", ir.Sampling{TopP: "0.95", TopK: "40"}, ir.Reasoning{}, `{"top_p":0.95,"top_k":40}`, nil},
		{"clamped", "claude-sonnet-4-5", ir.Sampling{Temperature: "1.7"}, ir.Reasoning{}, `{"temperature":1}`, []string{"temperature"}},
		{"one of the two", "claude-sonnet-4-5", ir.Sampling{Temperature: "0.5", TopP: "0.9"}, ir.Reasoning{}, `{"temperature":0.5}`, []string{"top_p"}},
		{"both for older ones", "claude-3-5-sonnet", ir.Sampling{Temperature: "0.5", TopP: "0.9"}, ir.Reasoning{}, `{"temperature":0.5,"top_p":0.9}`, nil},
		{"while it reasons", "claude-sonnet-4-5", ir.Sampling{Temperature: "0.5", TopK: "3", TopP: "0.97"}, ir.Reasoning{Effort: "low"}, `{"top_p":0.97}`, []string{"temperature", "top_k"}},
		{"others' models", "glm-4.7", ir.Sampling{Temperature: "0.5", TopP: "0.9", TopK: "3"}, ir.Reasoning{}, `{"temperature":0.5,"top_p":0.9,"top_k":3}`, nil},
		{"never known", "claude-3-5-haiku", ir.Sampling{FrequencyPenalty: "1", PresencePenalty: "1", Seed: "7", LogitBias: []byte(`{}`)}, ir.Reasoning{}, `{}`,
			[]string{"frequency_penalty", "presence_penalty", "seed", "logit_bias"}},
	} {
		r := foreignRequest(userTurn(say("a")))
		r.Sampling, r.Reasoning = tc.in, tc.reason
		o, v := encode(t, r, tc.model)
		got := jsonObject{}
		for _, k := range []string{"temperature", "top_p", "top_k"} {
			if dig(v, k) != nil {
				got[k] = v[k]
			}
		}
		same(t, tc.name, got, tc.want)
		lost(t, o, tc.lost...)
		if tc.in.Temperature == "1.0" && !strings.Contains(string(o.Body), `"temperature":1.0`) {
			t.Error("the number was rewritten")
		}
	}
}

// The row of reasoning (facts/protocols.md 5.5), with cases 28 and 50.
func TestReasoning(t *testing.T) {
	one := func(r *ir.Request) {}
	forced := func(r *ir.Request) {
		r.Tools = []ir.Tool{{ToolName: ir.ToolName{Name: "f"}}}
		r.Choice = ir.Choice{Mode: ir.ChoiceRequired}
	}
	loop := func(r *ir.Request) {
		r.Turns = append(r.Turns, modelTurn(callOf("t", "f", "{}")), userTurn(resultOf("t", "x")))
	}
	signed := func(r *ir.Request) {
		b := ir.Block{Kind: ir.Thinking, Text: "hm", State: &ir.State{Owner: "anthropic/a", Data: "anthropic/a:sig"}}
		r.Turns = append(r.Turns, modelTurn(b, callOf("t", "f", "{}")), userTurn(resultOf("t", "x")))
	}
	small := func(r *ir.Request) { r.MaxTokens = 1000 }
	for _, tc := range []struct {
		name, model string
		in          ir.Reasoning
		change      func(*ir.Request)
		thinking    string
		output      string
		lost        []string
	}{
		{"effort, adaptive", "claude-opus-5-5", ir.Reasoning{Effort: "high"}, one, `{"type":"adaptive"}`, `{"effort":"high"}`, nil},
		{"minimal is low", "claude-opus-5-5", ir.Reasoning{Effort: "minimal"}, one, `{"type":"adaptive"}`, `{"effort":"low"}`, nil},
		{"budget, adaptive", "claude-opus-4-6", ir.Reasoning{Mode: ir.ReasoningOn, Budget: 8000}, one, `{"type":"adaptive"}`, `{"effort":"medium"}`, nil},
		{"as it likes", "claude-opus-5-5", ir.Reasoning{Mode: ir.ReasoningOn, Budget: -1}, one, `{"type":"adaptive"}`, `null`, nil},
		{"budget", "claude-sonnet-4-5", ir.Reasoning{Mode: ir.ReasoningOn, Budget: 4000}, one, `{"type":"enabled","budget_tokens":4000}`, `null`, nil},
		{"too small a budget", "claude-sonnet-4-5", ir.Reasoning{Mode: ir.ReasoningOn, Budget: 100}, one, `{"type":"enabled","budget_tokens":1024}`, `null`, nil},
		{"too large a budget", "claude-sonnet-4-5", ir.Reasoning{Mode: ir.ReasoningOn, Budget: 99999}, one, `{"type":"enabled","budget_tokens":7999}`, `null`, nil},
		{"effort as budget", "claude-sonnet-4-5", ir.Reasoning{Effort: "high"}, one, `{"type":"enabled","budget_tokens":6000}`, `null`, nil},
		{"usual budget", "claude-sonnet-4-5", ir.Reasoning{Mode: ir.ReasoningOn}, func(r *ir.Request) { r.MaxTokens = 0 }, `{"type":"enabled","budget_tokens":8192}`, `null`, nil},
		{"no room", "claude-sonnet-4-5", ir.Reasoning{Mode: ir.ReasoningOn, Budget: 4000}, small, `{"type":"disabled"}`, `null`, []string{"reasoning_effort"}},
		{"off", "claude-opus-5-5", ir.Reasoning{Mode: ir.ReasoningOff}, one, `{"type":"disabled"}`, `null`, nil},
		{"unset", "claude-opus-5-5", ir.Reasoning{}, one, `null`, `null`, nil},
		{"cannot", "claude-3-5-haiku", ir.Reasoning{Effort: "low"}, one, `null`, `null`, []string{"reasoning_effort"}},
		{"effort of 4.5", "claude-opus-4-5", ir.Reasoning{Effort: "max"}, one, `{"type":"enabled","budget_tokens":6000}`, `{"effort":"high"}`, nil},
		{"shown", "claude-opus-5-5", ir.Reasoning{Mode: ir.ReasoningOn, Show: bools(true)}, one, `{"type":"adaptive","display":"summarized"}`, `null`, nil},
		{"hidden", "claude-opus-5-5", ir.Reasoning{Mode: ir.ReasoningOn, Show: bools(false)}, one, `{"type":"adaptive","display":"omitted"}`, `null`, nil},
		{"summary", "claude-opus-5-5", ir.Reasoning{Effort: "low", Summary: "auto"}, one, `{"type":"adaptive","display":"summarized"}`, `{"effort":"low"}`, nil},
		{"case_50 forced", "claude-sonnet-4-5", ir.Reasoning{Mode: ir.ReasoningOn, Budget: 4000}, forced, `{"type":"disabled"}`, `null`, []string{"reasoning_effort"}},
		{"case_28 open loop", "claude-sonnet-4-5", ir.Reasoning{Mode: ir.ReasoningOn, Budget: 4000}, loop, `{"type":"disabled"}`, `null`, []string{"reasoning_effort"}},
		{"signed loop", "claude-sonnet-4-5", ir.Reasoning{Mode: ir.ReasoningOn, Budget: 4000}, signed, `{"type":"enabled","budget_tokens":4000}`, `null`, nil},
		{"others' models", "glm-4.7", ir.Reasoning{Mode: ir.ReasoningOn, Budget: 4000}, one, `{"type":"enabled","budget_tokens":4000}`, `null`, nil},
	} {
		r := foreignRequest(userTurn(say("a")))
		r.Reasoning = tc.in
		tc.change(r)
		o, v := encode(t, r, tc.model)
		same(t, tc.name+", thinking", dig(v, "thinking"), tc.thinking)
		same(t, tc.name+", output_config", dig(v, "output_config"), tc.output)
		lost(t, o, tc.lost...)
	}
}

func TestPrefill(t *testing.T) {
	r := foreignRequest(userTurn(say("a")), modelTurn(say("The answer: \n")))
	_, v := encode(t, r, "claude-sonnet-4-5")
	same(t, "case_58 trimmed", dig(v, "messages", 1), `{"role":"assistant","content":"The answer:"}`)
	var refused *ir.RefusedError
	for _, model := range []string{"claude-opus-4-6", "claude-opus-5-5"} {
		if _, err := encodeRequest(r, ir.Target{Model: model}); !errors.As(err, &refused) || refused.Field != "messages[1]" {
			t.Errorf("%s: %v", model, err)
		}
	}
	// An empty last turn of the user is no prefill.
	_, v = encode(t, foreignRequest(userTurn(say("a")), modelTurn(say("b")), userTurn(say(" "))), "claude-opus-5-5")
	same(t, "filler", dig(v, "messages", -1), `{"role":"user","content":"(no content)"}`)
	r.Reasoning.Effort = "high"
	o, v := encode(t, r, "claude-sonnet-4-5")
	if lost(t, o, "reasoning_effort"); dig(v, "thinking") != nil {
		t.Error("reasoning with a prefill")
	}
}

// Histories as other dialects have them, with the cases of facts/protocols.md 6 and the faults that touch them.
func TestHistories(t *testing.T) {
	thought := func(owner string) ir.Block {
		return ir.Block{Kind: ir.Thinking, Text: "hm", State: &ir.State{Owner: owner, Data: owner + ":sig"}}
	}
	unsigned := ir.Block{Kind: ir.Thinking, Text: "hm", State: &ir.State{Owner: "anthropic/a"}}
	hidden := ir.Block{Kind: ir.Thinking, State: &ir.State{Owner: "anthropic/a", Data: "anthropic/a:data", Redacted: true}}
	image := ir.Block{Kind: ir.Image, Media: ir.Media{MIME: "image/jpg", Data: "/9j/AA=="}}
	failed := resultOf("t1", "boom")
	failed.IsError = true
	const use1, use2 = `{"type":"tool_use","id":"t1","name":"f","input":{}}`, `{"type":"tool_use","id":"t2","name":"g","input":{}}`
	for _, tc := range []struct {
		name  string
		turns []ir.Turn
		want  string
		lost  []string
	}{
		{"CNV-011 case_38 parallel results", []ir.Turn{userTurn(say("a")), modelTurn(callOf("t1", "f", "{}"), callOf("t2", "g", "{}")), userTurn(resultOf("t2", "B")), userTurn(resultOf("t1", "A"))},
			`[{"role":"user","content":"a"},{"role":"assistant","content":[` + use1 + `,` + use2 + `]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"A"},{"type":"tool_result","tool_use_id":"t2","content":"B"}]}]`, nil},
		{"CNV-013 case_60 text before the result", []ir.Turn{modelTurn(callOf("t1", "f", "{}")), userTurn(say("note"), failed)},
			`[{"role":"assistant","content":[` + use1 + `]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"boom","is_error":true},{"type":"text","text":"note"}]}]`, nil},
		{"CNV-015 case_41 call without result", []ir.Turn{userTurn(say("a")), modelTurn(callOf("t1", "f", "{}")), userTurn(say("go on"))},
			`[{"role":"user","content":"a"},{"role":"assistant","content":[` + use1 + `]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"[no result recorded]","is_error":true},{"type":"text","text":"go on"}]}]`, nil},
		{"orphan result", []ir.Turn{userTurn(say("a")), userTurn(resultOf("t9", "R"))},
			`[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"[result of an earlier tool call]"},{"type":"text","text":"R"}]}]`, nil},
		{"the last of two results", []ir.Turn{modelTurn(callOf("t1", "f", "{}")), userTurn(resultOf("t1", "old")), userTurn(resultOf("t1", "new"))},
			`[{"role":"assistant","content":[` + use1 + `]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"new"}]}]`, nil},
		{"late result", []ir.Turn{modelTurn(callOf("t1", "f", "{}")), userTurn(say("hm")), modelTurn(say("ok")), userTurn(resultOf("t1", "A"), say("b"))},
			`[{"role":"assistant","content":[` + use1 + `]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"A"},{"type":"text","text":"hm"}]},
			{"role":"assistant","content":"ok"},{"role":"user","content":"b"}]`, nil},
		{"system between call and result", []ir.Turn{modelTurn(callOf("t1", "f", "{}")), {Role: ir.System, Blocks: []ir.Block{say("s")}}, userTurn(resultOf("t1", "A"))},
			`[{"role":"assistant","content":[` + use1 + `]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"A"},{"type":"text","text":"<system-reminder>\ns\n</system-reminder>"}]}]`, nil},
		{"CNV-008 case_42 ids", []ir.Turn{modelTurn(callOf("functions.read:0", "f", "{}"), callOf("", "g", "{}")), userTurn(resultOf("functions.read:0", "A"), resultOf("", "B"))},
			`[{"role":"assistant","content":[{"type":"tool_use","id":"functions_read_0_134a93bb","name":"f","input":{}},{"type":"tool_use","id":"call_0_1","name":"g","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"functions_read_0_134a93bb","content":"A"},{"type":"tool_result","tool_use_id":"call_0_1","content":"B"}]}]`, nil},
		{"the same id again", []ir.Turn{modelTurn(callOf("t1", "f", "{}")), userTurn(resultOf("t1", "A")), modelTurn(callOf("t1", "f", "{}")), userTurn(resultOf("t1", "B"))},
			`[{"role":"assistant","content":[` + use1 + `]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"A"}]},
			{"role":"assistant","content":[{"type":"tool_use","id":"t1_2","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1_2","content":"B"}]}]`, nil},
		{"CNV-018 case_31 empty texts", []ir.Turn{userTurn(say(""), say("hi")), modelTurn(say("")), userTurn(say("\n ")), modelTurn(say(""), callOf("t1", "f", "{}")), userTurn(resultOf("t1", ""))},
			`[{"role":"user","content":"hi"},{"role":"assistant","content":[` + use1 + `]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1"}]}]`, nil},
		{"CNV-027 neighbours", []ir.Turn{userTurn(say("a")), userTurn(say("b")), modelTurn(say("x")), modelTurn(say("y")), modelTurn(callOf("t1", "f", "{}")), userTurn(resultOf("t1", "A"))},
			`[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"assistant","content":[{"type":"text","text":"x"},{"type":"text","text":"y"},` + use1 + `]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"A"}]}]`, nil},
		{"CNV-028 the model first", []ir.Turn{modelTurn(say("x")), userTurn(say("a"))}, `[{"role":"assistant","content":"x"},{"role":"user","content":"a"}]`, nil},
		{"CNV-021 own signature", []ir.Turn{userTurn(say("a")), modelTurn(thought("anthropic/a"), hidden, say("x")), userTurn(say("b"))},
			`[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"anthropic/a:sig"},{"type":"redacted_thinking","data":"anthropic/a:data"},{"type":"text","text":"x"}]},
			{"role":"user","content":"b"}]`, nil},
		{"case_25 case_26 foreign and unsigned", []ir.Turn{userTurn(say("a")), modelTurn(thought("gemini/x"), unsigned, ir.Block{Kind: ir.Thinking, Text: "bare"}, say("x")), userTurn(say("b"))},
			`[{"role":"user","content":"a"},{"role":"assistant","content":"x"},{"role":"user","content":"b"}]`, []string{"reasoning"}},
		{"signed call", []ir.Turn{modelTurn(ir.Block{Kind: ir.ToolCall, ID: "t1", ToolName: ir.ToolName{Name: "f"}, State: &ir.State{Owner: "gemini/x", Data: "s", Attach: ir.AttachCall}}), userTurn(resultOf("t1", "A"))},
			`[{"role":"assistant","content":[` + use1 + `]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"A"}]}]`, []string{"reasoning"}},
		{"case_56 image", []ir.Turn{userTurn(image)}, `[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/jpeg","data":"/9j/AA=="}}]}]`, nil},
		{"case_36 image in a result", []ir.Turn{modelTurn(callOf("t1", "f", "{}")), userTurn(ir.Block{Kind: ir.ToolResult, ID: "t1", Content: []ir.Block{say("A"), image}})},
			`[{"role":"assistant","content":[` + use1 + `]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"A"},
			{"type":"image","source":{"type":"base64","media_type":"image/jpeg","data":"/9j/AA=="}}]}]}]`, nil},
		{"case_37 unknown result", []ir.Turn{modelTurn(callOf("t1", "f", "{}")), userTurn(ir.Block{Kind: ir.ToolResult, ID: "t1", Content: []ir.Block{{Kind: ir.Opaque, Type: "odd", Raw: []byte("{}")}}})},
			`[{"role":"assistant","content":[` + use1 + `]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"(no content)"}]}]`, []string{"odd"}},
		{"refusal", []ir.Turn{userTurn(say("a")), modelTurn(ir.Block{Kind: ir.Refusal, Text: "no"}), userTurn(say("b"))}, `[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"text","text":"no"}]},{"role":"user","content":"b"}]`, nil},
		{"hosted", []ir.Turn{userTurn(say("a")), modelTurn(ir.Block{Kind: ir.HostedCall, Type: "web_search_call", Raw: []byte(`{}`)}, say("x")), userTurn(say("b"))},
			`[{"role":"user","content":"a"},{"role":"assistant","content":"x"},{"role":"user","content":"b"}]`, []string{"web_search_call"}},
		{"documents", []ir.Turn{userTurn(ir.Block{Kind: ir.Document, Media: ir.Media{MIME: "application/pdf", Data: "JVBE", Name: "a.pdf"}}, ir.Block{Kind: ir.Document, Media: ir.Media{MIME: "text/csv", Data: "YSxi"}, Context: "C"},
			ir.Block{Kind: ir.Document, Text: "T", Title: "N"}, ir.Block{Kind: ir.Document, Media: ir.Media{URL: "http://x"}})},
			`[{"role":"user","content":[{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBE"},"title":"a.pdf"},{"type":"document","source":{"type":"text","media_type":"text/plain","data":"a,b"},"context":"C"},
			{"type":"document","source":{"type":"text","media_type":"text/plain","data":"T"},"title":"N"},{"type":"document","source":{"type":"url","url":"http://x"}}]}]`, nil},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "_"), func(t *testing.T) {
			o, v := encode(t, foreignRequest(tc.turns...), "claude-sonnet-4-5")
			same(t, "messages", dig(v, "messages"), tc.want)
			lost(t, o, tc.lost...)
		})
	}
}

// Arguments go out as they came; what is no object is made one.
func TestArguments(t *testing.T) {
	for _, tc := range []struct{ form, args, want string }{
		{"", `{"id":9007199254740993,"n":1.10,"b":1e22, "z":1,"a":2}`, `{"id":9007199254740993,"n":1.10,"b":1e22, "z":1,"a":2}`},
		{"", ``, `{}`}, {"", `[1]`, `{"value":[1]}`}, {"", `null`, `{"value":null}`}, {"", `{"path":"/a`, `{"_raw":"{\"path\":\"/a"}`},
		{"custom", `*** Begin "Patch"`, `{"input":"*** Begin \"Patch\""}`}, {"custom", ``, `{"input":""}`},
	} {
		c := callOf("t1", "f", tc.args)
		c.Form = tc.form
		o, _ := encode(t, foreignRequest(modelTurn(c), userTurn(resultOf("t1", "A"))), "claude-sonnet-4-5")
		if !strings.Contains(string(o.Body), `"input":`+tc.want+`}`) {
			t.Errorf("%s: %s", tc.args, o.Body)
		}
	}
}

func TestWhatIsRefused(t *testing.T) {
	at := func(b ir.Block) ir.Block { b.At = "here"; return b }
	for name, b := range map[string]ir.Block{
		"audio":       {Kind: ir.Audio, Media: ir.Media{Data: "A"}},
		"video":       {Kind: ir.Video, Media: ir.Media{URL: "A"}},
		"heic":        {Kind: ir.Image, Media: ir.Media{MIME: "image/heic", Data: "A"}},
		"image file":  {Kind: ir.Image, Media: ir.Media{FileID: "f"}},
		"file":        {Kind: ir.Document, Media: ir.Media{FileID: "f"}},
		"word":        {Kind: ir.Document, Media: ir.Media{MIME: "application/msword", Data: "A"}},
		"broken text": {Kind: ir.Document, Media: ir.Media{MIME: "text/plain", Data: "%"}},
	} {
		for _, turns := range [][]ir.Turn{{userTurn(at(b))}, {modelTurn(callOf("t", "f", "")), userTurn(ir.Block{Kind: ir.ToolResult, ID: "t", Content: []ir.Block{at(b)}})}} {
			var refused *ir.RefusedError
			if _, err := encodeRequest(foreignRequest(turns...), ir.Target{Model: "claude-sonnet-4-5"}); !errors.As(err, &refused) || refused.Field != "here" {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestOptions(t *testing.T) {
	r := foreignRequest(userTurn(say("a")))
	r.System = []ir.Block{say("s1"), say(""), say("s2")}
	r.Stop, r.Stream, r.User, r.ServiceTier = []string{"END", " \n"}, true, strings.Repeat("u", 300), "priority"
	r.Metadata, r.Verbosity, r.Cache.Key = []byte(`{"a":"b"}`), "low", "k"
	o, v := encode(t, r, "claude-opus-5-5")
	same(t, "system", dig(v, "system"), `[{"type":"text","text":"s1"},{"type":"text","text":"s2"}]`)
	same(t, "stop", dig(v, "stop_sequences"), `["END"]`)
	same(t, "tier", dig(v, "service_tier"), `"auto"`)
	same(t, "cache", dig(v, "cache_control"), `{"type":"ephemeral"}`)
	if user, _ := dig(v, "metadata", "user_id").(string); len(user) != 64 || dig(v, "stream") != true {
		t.Errorf("%q", user)
	}
	lost(t, o, "stop", "metadata", "verbosity", "prompt_cache_key")
	if len(r.Lost) > 0 {
		t.Error("encoding changed the request")
	}

	r.Cache.Key, r.ServiceTier, r.User = "", "flex", "u"
	o, v = encode(t, r, "claude-opus-5-5")
	if lost(t, o, "stop", "metadata", "verbosity", "service_tier"); dig(v, "service_tier") != nil || dig(v, "metadata", "user_id") != "u" {
		t.Errorf("%v", v)
	}
}

// At most four marks go out: the last ones, which cover the most.
func TestCacheMarks(t *testing.T) {
	marked := func(s, ttl string) ir.Block { b := say(s); b.Cache = &ir.CacheMark{TTL: ttl}; return b }
	r := foreignRequest(userTurn(marked("a", ""), marked("b", "30m")), modelTurn(marked("c", "1h")), userTurn(marked("d", "5m")))
	r.System = []ir.Block{marked("s", "")}
	r.Tools = []ir.Tool{{ToolName: ir.ToolName{Name: "f"}, Cache: &ir.CacheMark{}}}
	o, v := encode(t, r, "claude-sonnet-4-5")
	if n := strings.Count(string(o.Body), "cache_control"); n != 4 || dig(v, "tools", 0, "cache_control") != nil || dig(v, "cache_control") != nil || dig(v, "system") != "s" && dig(v, "system", 0, "cache_control") != nil {
		t.Errorf("%d marks: %s", n, o.Body)
	}
	same(t, "a long life", dig(v, "messages", 0, "content", 1, "cache_control"), `{"type":"ephemeral","ttl":"1h"}`)
	lost(t, o, "cache_control")
}

func TestFormats(t *testing.T) {
	r := foreignRequest(userTurn(say("a")))
	r.System = []ir.Block{say("s")}
	r.Format = ir.Format{Kind: ir.FormatSchema, Name: "n", Schema: []byte(`{"type":"object","properties":{"a":{"type":"string","minLength":3,"format":"uuid","description":"D"},"b":{"oneOf":[{"type":"integer","minimum":1},true]}},"required":["a"]}`)}
	o, v := encode(t, r, "claude-opus-5-5")
	same(t, "native", dig(v, "output_config"), `{"format":{"type":"json_schema","schema":{"type":"object","properties":{"a":{"type":"string","format":"uuid","description":"D\n\n{minLength: 3}"},
		"b":{"anyOf":[{"type":"integer","description":"{minimum: 1}"},{}]}},"required":["a"],"additionalProperties":false}}}`)
	lost(t, o)
	o, v = encode(t, r, "claude-3-5-haiku")
	if s, _ := dig(v, "system", 1, "text").(string); !strings.Contains(s, `"minLength":3`) || dig(v, "output_config") != nil {
		t.Errorf("%v", v)
	}
	lost(t, o, "response_format")
	r.Format = ir.Format{Kind: ir.FormatJSON}
	o, v = encode(t, r, "claude-opus-5-5")
	if s, _ := dig(v, "system", 1, "text").(string); !strings.Contains(s, "JSON object") || dig(v, "output_config") != nil {
		t.Errorf("%v", v)
	}
	lost(t, o, "response_format")
}

func TestTools(t *testing.T) {
	long := strings.Repeat("n", 70)
	fn := func(name string) ir.Tool { return ir.Tool{ToolName: ir.ToolName{Name: name}} }
	r := foreignRequest(userTurn(say("a")))
	r.Tools = []ir.Tool{
		{ToolName: ir.ToolName{Name: "f"}, Description: "D", Schema: []byte(`{"type":"object","properties":{"x":{"$ref":"#/$defs/a"}},"$defs":{"a":{}}}`), Strict: bools(false)},
		{ToolName: ir.ToolName{Name: "s"}, Schema: []byte(`{"type":"object","properties":{"x":{"type":"string","maxLength":2}},"required":["x"],"additionalProperties":false}`), Strict: bools(true)},
		{ToolName: ir.ToolName{Name: "apply_patch"}, Kind: ir.ToolCustom, Form: ir.FormCustom, Description: "P", Grammar: []byte(`{"type":"grammar","syntax":"lark","definition":"start: X"}`)},
		fn(long), fn("a.b"), {ToolName: ir.ToolName{Namespace: "ns", Name: "f"}}, fn("f"),
		{Kind: ir.ToolHosted, Hosted: ir.Hosted{Type: ir.WebSearch, AllowedDomains: []string{"x.y"}, MaxUses: 2, Location: []byte(`{"type":"approximate"}`)}},
		{Kind: ir.ToolHosted, Hosted: ir.Hosted{Type: "code_interpreter"}},
	}
	r.Choice, r.Parallel = ir.Choice{Mode: ir.ChoiceOne, Names: []ir.ToolName{{Name: long}}}, bools(false)
	o, v := encode(t, r, "claude-sonnet-4-5")
	same(t, "function", dig(v, "tools", 0), `{"name":"f","description":"D","input_schema":{"type":"object","properties":{"x":{"$ref":"#/$defs/a"}},"$defs":{"a":{}}}}`)
	same(t, "strict", dig(v, "tools", 1), `{"name":"s","input_schema":{"type":"object","properties":{"x":{"type":"string","description":"{maxLength: 2}"}},"required":["x"],"additionalProperties":false},"strict":true}`)
	same(t, "case_46 custom", dig(v, "tools", 2), `{"name":"apply_patch","description":"P\n\nThe input must follow this grammar (lark):\nstart: X","input_schema":`+ir.CustomSchema+`}`)
	short, _ := dig(v, "tools", 3, "name").(string)
	if len(short) != 64 || dig(v, "tool_choice", "name") != short {
		t.Errorf("case_52: %q, %v", short, dig(v, "tool_choice"))
	}
	same(t, "case_59 no schema", dig(v, "tools", 3, "input_schema"), `{"type":"object","properties":{}}`)
	same(t, "namespace", dig(v, "tools", 5, "name"), `"ns__f"`)
	same(t, "web search", dig(v, "tools", 6), `{"type":"web_search_20250305","name":"web_search","allowed_domains":["x.y"],"max_uses":2,"user_location":{"type":"approximate"}}`)
	if dig(v, "tools", 7) != nil || dig(v, "tool_choice", "disable_parallel_tool_use") != true {
		t.Errorf("%v", v)
	}
	lost(t, o, "tools")
	back := callOf("x", short, "")
	if o.Tools.Restore(&back); back.Name != long {
		t.Errorf("restored %q", back.Name)
	}
}

func TestChoices(t *testing.T) {
	tools := []ir.Tool{{ToolName: ir.ToolName{Name: "f"}}, {ToolName: ir.ToolName{Name: "g"}}, {Kind: ir.ToolHosted, Hosted: ir.Hosted{Type: "file_search"}}}
	f := []ir.ToolName{{Name: "f"}}
	for _, tc := range []struct {
		name     string
		choice   ir.Choice
		parallel *bool
		want     string
		tools    int
	}{
		{"unset", ir.Choice{}, nil, `null`, 2}, {"single", ir.Choice{}, bools(false), `{"type":"auto","disable_parallel_tool_use":true}`, 2}, {"many", ir.Choice{}, bools(true), `null`, 2},
		{"none", ir.Choice{Mode: ir.ChoiceNone}, bools(false), `{"type":"none"}`, 2}, {"some", ir.Choice{Mode: ir.ChoiceRequired}, nil, `{"type":"any"}`, 2},
		{"one", ir.Choice{Mode: ir.ChoiceOne, Names: f}, nil, `{"type":"tool","name":"f"}`, 2}, {"allowed", ir.Choice{Mode: ir.ChoiceAuto, Names: f}, nil, `{"type":"auto"}`, 1},
		{"some of", ir.Choice{Mode: ir.ChoiceRequired, Names: f}, nil, `{"type":"any"}`, 1},
	} {
		r := foreignRequest(userTurn(say("a")))
		r.Tools, r.Choice, r.Parallel = tools, tc.choice, tc.parallel
		_, v := encode(t, r, "claude-sonnet-4-5")
		list, _ := dig(v, "tools").([]any)
		if same(t, tc.name, dig(v, "tool_choice"), tc.want); len(list) != tc.tools {
			t.Errorf("%s: %v", tc.name, list)
		}
	}
	for _, c := range []ir.Choice{{Mode: ir.ChoiceOne, Names: []ir.ToolName{{Name: "file_search"}}}, {Mode: ir.ChoiceOne, Names: []ir.ToolName{{Name: "h"}}}, {Mode: ir.ChoiceRequired, Names: []ir.ToolName{{Name: "file_search"}}}} {
		r := foreignRequest(userTurn(say("a")))
		r.Tools, r.Choice = tools, c
		var refused *ir.RefusedError
		if _, err := encodeRequest(r, ir.Target{Model: "claude-sonnet-4-5"}); !errors.As(err, &refused) || refused.Field != "tool_choice" {
			t.Errorf("%+v: %v", c, err)
		}
	}
	r := foreignRequest(userTurn(say("a")))
	r.Choice.Mode = ir.ChoiceAuto
	if _, v := encode(t, r, "claude-sonnet-4-5"); dig(v, "tool_choice") != nil {
		t.Error("a choice without tools")
	}
	r.Tools = []ir.Tool{{Kind: ir.ToolHosted, Hosted: ir.Hosted{Type: ir.WebSearch}}}
	r.Choice = ir.Choice{Mode: ir.ChoiceOne, Names: []ir.ToolName{{Name: "web_search"}}}
	_, v := encode(t, r, "claude-sonnet-4-5")
	same(t, "hosted", dig(v, "tool_choice"), `{"type":"tool","name":"web_search"}`)
}

func TestToolSchema(t *testing.T) {
	for _, tc := range []struct {
		in, want string
		whole    bool
	}{
		{``, ir.EmptySchema, true}, {`true`, ir.EmptySchema, true}, {`false`, ir.EmptySchema, false}, {`null`, ir.EmptySchema, true},
		{`{"type":"object","b":1,"a":[true,false]}`, `{"type":"object","b":1,"a":[true,false]}`, true},
		{`{"properties":{"a\"b":true}}`, `{"type":"object","properties":{"a\"b":true}}`, true},
		{`{"type":["object","null"]}`, `{"type":"object"}`, true},
		{`{"type":"string"}`, ir.EmptySchema, false},
		{`{"allOf":[{"type":"object","properties":{"a":{}},"required":["a"]},{"properties":{"b":{}},"required":["b","a"]}],"title":"t"}`, `{"type":"object","title":"t","properties":{"a":{},"b":{}},"required":["a","b"]}`, true},
		{`{"type":"object","properties":{"k":{}},"anyOf":[{"properties":{"a":{"type":"string"}},"required":["k","a"]},{"properties":{"a":{"type":"integer"}},"required":["k"]}]}`,
			`{"type":"object","properties":{"k":{},"a":{"anyOf":[{"type":"string"},{"type":"integer"}]}},"required":["k"]}`, false},
		{`{"$ref":"#/$defs/A~1B","$defs":{"A/B":{"type":"object","properties":{"x":{"$ref":"#/$defs/A~1B"}}}}}`, `{"type":"object","$defs":{"A/B":{"type":"object","properties":{"x":{"$ref":"#/$defs/A~1B"}}}},"properties":{"x":{"$ref":"#/$defs/A~1B"}}}`, true},
		{`{"$ref":"#/a","a":{"$ref":"#/a"}}`, `{"type":"object","a":{"$ref":"#/a"},"properties":{}}`, false},
		{`{"$ref":"http://x"}`, `{"type":"object","properties":{}}`, false},
	} {
		got, whole := toolSchema([]byte(tc.in))
		if string(got) != tc.want || whole != tc.whole {
			t.Errorf("%s:\n got %s %v\nwant %s %v", tc.in, got, whole, tc.want, tc.whole)
		}
	}
	deep := strings.Repeat(`{"items":`, 200) + "{}" + strings.Repeat("}", 200)
	if len(strictSchema([]byte(deep))) == 0 {
		t.Error("a deep schema is lost")
	}
}

func TestFamilies(t *testing.T) {
	for name, want := range map[string]family{
		"claude-opus-5-5": {true, 505, 128000, true}, "claude-sonnet-4-5-20250929": {true, 405, 64000, false}, "claude-3-opus-20240229": {true, 300, 4096, true},
		"claude-fable-6": {true, 600, 128000, false}, "gpt-5": {}, "CLAUDE-Opus-4.1": {true, 401, 32000, true}, "claude-opus-4-20250514": {true, 400, 32000, true},
	} {
		if got := familyOf(name); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

// A schema that contains itself many times over ends, and says that it is not whole.
func TestSchemaOfItself(t *testing.T) {
	schema := `{"type":"object","properties":{"a":{}},"anyOf":[{"$ref":"#"}` + strings.Repeat(`,{"$ref":"#"}`, 1000) + `]}`
	got, whole := toolSchema([]byte(schema))
	if whole || string(got) != `{"type":"object","properties":{"a":{}}}` {
		t.Errorf("%t, %s", whole, got)
	}
}
