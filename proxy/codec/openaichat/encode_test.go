package openaichat

import (
	"slices"
	"strings"
	"testing"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// The fields as an Anthropic client would call them.
var theirNames = ir.FieldNames{
	ir.FieldTemperature: "temperature", ir.FieldTopP: "top_p", ir.FieldTopK: "top_k", ir.FieldStop: "stop_sequences",
	ir.FieldReasoning: "thinking", ir.FieldCacheMark: "cache_control", ir.FieldCacheKey: "key", ir.FieldMetadata: "metadata",
	ir.FieldServiceTier: "service_tier", ir.FieldToolChoice: "tool_choice", ir.FieldTools: "tools", ir.FieldThinking: "messages.thinking",
	ir.FieldCitations: "citations", ir.FieldDocument: "document", ir.FieldVerbosity: "verbosity", ir.FieldLogitBias: "logit_bias",
	ir.FieldFrequencyPenalty: "frequency_penalty", ir.FieldPresencePenalty: "presence_penalty", ir.FieldSeed: "seed",
}

func said1(role ir.Role, blocks ...ir.Block) ir.Turn { return ir.Turn{Role: role, Blocks: blocks} }

func txt(s string) ir.Block { return ir.Block{Kind: ir.Text, Text: s} }

func callOf(id, name, args string) ir.Block {
	return ir.Block{Kind: ir.ToolCall, ID: id, ToolName: ir.ToolName{Name: name}, Args: args}
}

func resultOf(id string, blocks ...ir.Block) ir.Block {
	return ir.Block{Kind: ir.ToolResult, ID: id, Content: blocks}
}

func ask(turns ...ir.Turn) *ir.Request { return &ir.Request{Names: &theirNames, Turns: turns} }

func hello() *ir.Request { return ask(said1(ir.User, txt("hi"))) }

// lostIs compares what was named as lost.
func lostIs(t *testing.T, out *ir.Outgoing, want ...string) {
	t.Helper()
	if !slices.Equal(out.Lost, want) {
		t.Errorf("lost %q, want %q", out.Lost, want)
	}
}

func fn(name string) ir.Tool { return ir.Tool{ToolName: ir.ToolName{Name: name}} }

// TestEncodeParameters: the rows of facts 5.2 that are numbers and words, by model.
func TestEncodeParameters(t *testing.T) {
	ptr := func(b bool) *bool { return &b }
	for _, c := range []struct {
		name, model string
		set         func(r *ir.Request)
		want        map[string]string
		lost        []string
	}{
		{"max openai", "gpt-4.1", func(r *ir.Request) { r.MaxTokens = 9 }, map[string]string{"max_completion_tokens": "9", "max_tokens": ""}, nil},
		{"max o", "openai/o3-mini", func(r *ir.Request) { r.MaxTokens = 9 }, map[string]string{"max_completion_tokens": "9", "max_tokens": ""}, nil},
		{"max vendor", "deepseek-chat", func(r *ir.Request) { r.MaxTokens = 9 }, map[string]string{"max_completion_tokens": "", "max_tokens": "9"}, nil},
		{"max oss", "gpt-oss-120b", func(r *ir.Request) { r.MaxTokens = 9 }, map[string]string{"max_tokens": "9"}, nil},
		{"no max", "x", func(*ir.Request) {}, map[string]string{"max_tokens": "", "stream": "", "tools": "", "stop": ""}, nil},
		{"sampling kept", "gpt-4o", func(r *ir.Request) {
			r.Sampling = ir.Sampling{Temperature: "0.95", TopP: "1e-1", Seed: "9007199254740993", FrequencyPenalty: "1", LogitBias: []byte(`{"1":2}`)}
		}, map[string]string{"temperature": "0.95", "top_p": "1e-1", "seed": "9007199254740993", "frequency_penalty": "1", "logit_bias": `{"1":2}`}, nil},
		{"case_51", "gpt-5.2", func(r *ir.Request) {
			r.Sampling = ir.Sampling{Temperature: "0.7", TopP: "0.9", TopK: "40", FrequencyPenalty: "1", PresencePenalty: "0", LogitBias: []byte(`{}`)}
		}, map[string]string{"temperature": "", "top_p": "", "top_k": "", "frequency_penalty": "", "presence_penalty": "0", "logit_bias": ""},
			[]string{"temperature", "top_p", "frequency_penalty", "top_k", "logit_bias"}},
		{"temperature one", "o1", func(r *ir.Request) { r.Sampling.Temperature = "1.0" }, map[string]string{"temperature": "1.0"}, nil},
		{"gpt-5-chat", "gpt-5-chat-latest", func(r *ir.Request) { r.Sampling.Temperature = "0.2" }, map[string]string{"temperature": "0.2", "messages.0.role": `"system"`}, nil},
		{"CNV032 stop", "gpt-4o", func(r *ir.Request) { r.Stop = []string{"END"} }, map[string]string{"stop": `["END"]`}, nil},
		{"stop o3", "o3", func(r *ir.Request) { r.Stop = []string{"END"} }, map[string]string{"stop": ""}, []string{"stop_sequences"}},
		{"stop o4", "o4-mini", func(r *ir.Request) { r.Stop = []string{"1", "2", "3", "4", "5"} }, map[string]string{"stop": ""}, []string{"stop_sequences"}},
		{"developer", "gpt-5.1", func(*ir.Request) {}, map[string]string{"messages.0.role": `"developer"`}, nil},
		{"developer o", "o1", func(*ir.Request) {}, map[string]string{"messages.0.role": `"developer"`}, nil},
		{"system 4o", "gpt-4o", func(*ir.Request) {}, map[string]string{"messages.0.role": `"system"`}, nil},
		{"system vendor", "claude-opus-4", func(*ir.Request) {}, map[string]string{"messages.0.role": `"system"`}, nil},
		{"stream", "x", func(r *ir.Request) { r.Stream = true }, map[string]string{"stream": "true", "stream_options": `{"include_usage":true}`}, nil},
		{"json", "x", func(r *ir.Request) { r.Format.Kind = ir.FormatJSON }, map[string]string{"response_format": `{"type":"json_object"}`}, nil},
		{"schema", "x", func(r *ir.Request) { r.Format = ir.Format{Kind: ir.FormatSchema, Schema: []byte(`{"type":"object"}`)} },
			map[string]string{"response_format": `{"type":"json_schema","json_schema":{"name":"response","schema":{"type":"object"}}}`}, nil},
		{"schema strict", "x", func(r *ir.Request) {
			r.Format = ir.Format{Kind: ir.FormatSchema, Name: "a b", Schema: []byte(`{}`), Strict: ptr(true)}
		}, map[string]string{"response_format.json_schema.strict": "true", "response_format.json_schema.name": `"` + toolNames().Fit("a b") + `"`}, nil},
		{"verbosity", "gpt-5", func(r *ir.Request) { r.Verbosity = "low" }, map[string]string{"verbosity": `"low"`}, nil},
		{"verbosity old", "gpt-4.1", func(r *ir.Request) { r.Verbosity = "low" }, map[string]string{"verbosity": ""}, []string{"verbosity"}},
		{"openai alone", "kimi-k2", func(r *ir.Request) {
			r.ServiceTier, r.Metadata, r.Cache.Key, r.User = "flex", []byte(`{"a":"b"}`), "k", strings.Repeat("u", 65)
		}, map[string]string{"service_tier": "", "metadata": "", "prompt_cache_key": "", "user": `"` + ir.Shorten(strings.Repeat("u", 65), 64) + `"`},
			[]string{"key", "service_tier", "metadata"}},
		{"user", "gpt-4o", func(r *ir.Request) {
			r.User, r.Cache.Key = `{"device_id":"d","account_uuid":"","session_id":"s-1"}`, "s-1"
		},
			map[string]string{"prompt_cache_key": `"s-1"`, "user": ""}, nil},
		{"parallel without tools", "gpt-4o", func(r *ir.Request) { r.Parallel, r.Choice.Mode = ptr(false), ir.ChoiceAuto },
			map[string]string{"parallel_tool_calls": "", "tool_choice": ""}, nil},
		{"auto mark", "gpt-5.6", func(r *ir.Request) { r.Cache.Auto = &ir.CacheMark{TTL: "1h"} },
			map[string]string{"prompt_cache_options": `{"mode":"implicit","ttl":"12h"}`}, nil},
		{"auto mark older", "gpt-5.5", func(r *ir.Request) { r.Cache.Auto = &ir.CacheMark{} }, map[string]string{"prompt_cache_options": ""}, []string{"cache_control"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := hello()
			r.System = []ir.Block{txt("sys")}
			c.set(r)
			out := encoded(t, r, c.model)
			expect(t, out.Body, c.want)
			lostIs(t, out, c.lost...)
			if out.Path != "/v1/chat/completions" || member(out.Body, "model") != `"`+c.model+`"` {
				t.Errorf("%s %s", out.Path, out.Body)
			}
		})
	}
}

// TestEncodeReasoning: facts 5.5 by model.
func TestEncodeReasoning(t *testing.T) {
	on := func(effort string, budget int64) ir.Reasoning {
		return ir.Reasoning{Mode: ir.ReasoningOn, Effort: effort, Budget: budget}
	}
	off := ir.Reasoning{Mode: ir.ReasoningOff}
	for _, c := range []struct {
		model  string
		how    ir.Reasoning
		stream bool
		want   map[string]string
		lost   bool
	}{
		{"gpt-5", on("high", 0), false, map[string]string{"reasoning_effort": `"high"`}, false},
		{"gpt-5", on("", 500), false, map[string]string{"reasoning_effort": `"minimal"`}, false},
		{"gpt-5", on("", 8000), false, map[string]string{"reasoning_effort": `"medium"`}, false},
		{"gpt-5", on("max", 0), false, map[string]string{"reasoning_effort": `"high"`}, false},
		{"gpt-5", off, false, map[string]string{"reasoning_effort": `"minimal"`}, true},
		{"gpt-5.1", off, false, map[string]string{"reasoning_effort": `"none"`}, false},
		{"gpt-5.2", on("max", 0), false, map[string]string{"reasoning_effort": `"xhigh"`}, false},
		{"gpt-5.2", on("minimal", 0), false, map[string]string{"reasoning_effort": `"low"`}, false},
		{"gpt-6-sol", on("", 40000), false, map[string]string{"reasoning_effort": `"xhigh"`}, false},
		{"o3", off, false, map[string]string{"reasoning_effort": `"low"`}, true},
		{"o3", on("", -1), false, map[string]string{"reasoning_effort": ""}, false},
		{"gpt-4.1", on("high", 0), false, map[string]string{"reasoning_effort": ""}, true},
		{"claude-x", on("high", 0), false, map[string]string{"reasoning_effort": ""}, true},
		{"gpt-oss-20b", on("xhigh", 0), false, map[string]string{"reasoning_effort": `"high"`}, false},
		{"gemini-3-flash", off, false, map[string]string{"reasoning_effort": `"none"`}, false},
		{"gemini-3-pro", off, false, map[string]string{"reasoning_effort": `"minimal"`}, true},
		{"deepseek-chat", on("minimal", 0), false, map[string]string{"thinking": `{"type":"enabled"}`, "reasoning_effort": `"low"`}, false},
		{"deepseek-chat", on("xhigh", 0), false, map[string]string{"reasoning_effort": `"high"`}, false},
		{"deepseek-chat", on("max", 0), false, map[string]string{"reasoning_effort": `"max"`}, false},
		{"deepseek-chat", off, false, map[string]string{"thinking": `{"type":"disabled"}`, "reasoning_effort": ""}, false},
		{"kimi-k2-thinking", on("", 0), false, map[string]string{"thinking": `{"type":"enabled"}`}, false},
		{"kimi-k2-thinking", on("high", 0), false, map[string]string{"thinking": `{"type":"enabled"}`}, true},
		{"zai-org/GLM-4.6", off, false, map[string]string{"thinking": `{"type":"disabled"}`}, false},
		{"qwen3-max", on("low", 0), true, map[string]string{"enable_thinking": "true", "thinking_budget": "1024"}, false},
		{"qwen3-max", on("", 99), true, map[string]string{"enable_thinking": "true", "thinking_budget": "99"}, false},
		{"qwen3-max", on("low", 0), false, map[string]string{"enable_thinking": "false", "thinking_budget": ""}, true},
		{"minimax-m2", on("low", 0), false, map[string]string{"thinking": "", "reasoning_effort": ""}, true},
	} {
		r := hello()
		r.Reasoning, r.Stream = c.how, c.stream
		out := encoded(t, r, c.model)
		if got := len(out.Lost) > 0; got != c.lost {
			t.Errorf("%s %+v: lost %q", c.model, c.how, out.Lost)
		}
		expect(t, out.Body, c.want)
	}
	r := hello()
	r.Reasoning.Summary = "auto"
	lostIs(t, encoded(t, r, "gpt-5"), "reasoning.summary")
}

func TestEncodeRefuses(t *testing.T) {
	file := ir.Block{Kind: ir.Document, At: "b", Media: ir.Media{FileID: "f"}}
	for name, c := range map[string]struct {
		r     *ir.Request
		field string
	}{
		"five stops":    {&ir.Request{Names: &theirNames, Stop: []string{"1", "2", "3", "4", "5"}}, "stop_sequences"},
		"file id":       {ask(said1(ir.User, file)), "b"},
		"image id":      {ask(said1(ir.User, ir.Block{Kind: ir.Image, At: "b", Media: ir.Media{FileID: "f"}})), "b"},
		"document url":  {ask(said1(ir.User, ir.Block{Kind: ir.Document, At: "b", Media: ir.Media{URL: "https://e.x/a.pdf"}})), "b"},
		"audio":         {ask(said1(ir.User, ir.Block{Kind: ir.Audio, At: "b", Media: ir.Media{MIME: "audio/flac", Data: "AA"}})), "b"},
		"video":         {ask(said1(ir.User, ir.Block{Kind: ir.Video, At: "b", Media: ir.Media{MIME: "video/mp4", Data: "AA"}})), "b"},
		"video result":  {ask(said1(ir.Assistant, callOf("c", "f", "")), said1(ir.User, resultOf("c", ir.Block{Kind: ir.Video, At: "b", Media: ir.Media{Data: "AA"}}))), "b"},
		"forced hosted": {&ir.Request{Names: &theirNames, Tools: []ir.Tool{{Kind: ir.ToolHosted, ToolName: ir.ToolName{Name: "code"}, Hosted: ir.Hosted{Type: "code_execution"}}}, Choice: ir.Choice{Mode: ir.ChoiceOne, Names: []ir.ToolName{{Name: "code"}}}}, "tool_choice"},
		"forced search": {&ir.Request{Names: &theirNames, Tools: []ir.Tool{{Kind: ir.ToolHosted, ToolName: ir.ToolName{Name: "web_search"}, Hosted: ir.Hosted{Type: ir.WebSearch}}}, Choice: ir.Choice{Mode: ir.ChoiceRequired}}, "tool_choice"},
	} {
		_, err := encodeRequest(c.r, ir.Target{Model: "gpt-4.1"})
		refused, ok := err.(*ir.RefusedError)
		if !ok || refused.Field != c.field {
			t.Errorf("%s: got %v, want a refusal of %s", name, err, c.field)
		}
	}
	deep := resultOf("c", txt("x"))
	for range 12 {
		deep = resultOf("c", deep)
	}
	if _, err := encodeRequest(ask(said1(ir.Assistant, callOf("c", "f", "")), said1(ir.User, deep)), ir.Target{}); err == nil {
		t.Error("results within results have no end")
	}
}

// TestEncodeTools: definitions and rules.
func TestEncodeTools(t *testing.T) {
	strict := true
	patch := ir.Tool{Kind: ir.ToolCustom, Form: ir.FormCustom, ToolName: ir.ToolName{Name: "patch"}, Description: "d", Grammar: []byte(`{"type":"grammar","syntax":"lark","definition":"start: A"}`)}
	r := hello()
	r.Tools = []ir.Tool{{ToolName: ir.ToolName{Name: "f"}, Description: "<d>", Schema: []byte(`{"b":1,"a":1.10}`), Strict: &strict, Cache: &ir.CacheMark{}}, fn("g"), patch}
	r.Choice = ir.Choice{Mode: ir.ChoiceOne, Names: []ir.ToolName{{Name: "patch"}}}
	no := false
	r.Parallel = &no
	out := encoded(t, r, "gpt-5")
	lostIs(t, out, "cache_control")
	expect(t, out.Body, map[string]string{
		"tools.0":             `{"type":"function","function":{"name":"f","description":"<d>","parameters":{"b":1,"a":1.10},"strict":true}}`,
		"tools.1":             `{"type":"function","function":{"name":"g","parameters":{"type":"object","properties":{}}}}`,
		"tools.2":             `{"type":"custom","custom":{"name":"patch","description":"d","format":{"type":"grammar","grammar":{"syntax":"lark","definition":"start: A"}}}}`,
		"tool_choice":         `{"type":"custom","custom":{"name":"patch"}}`,
		"parallel_tool_calls": "false",
	})
	out = encoded(t, r, "llama-4") // case_46: no free text there
	expect(t, out.Body, map[string]string{
		"tools.2.function.parameters": ir.CustomSchema,
		"tool_choice":                 `{"type":"function","function":{"name":"patch"}}`,
	})
	if !strings.Contains(member(out.Body, "tools.2.function.description"), "start: A") {
		t.Error("the grammar is gone")
	}
	r.Choice = ir.Choice{Mode: ir.ChoiceRequired, Names: []ir.ToolName{{Name: "f"}, {Name: "g"}}}
	expect(t, encoded(t, r, "gpt-5").Body, map[string]string{
		"tool_choice":  `{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}}]}}`,
		"tools.2.type": `"custom"`,
	})
	expect(t, encoded(t, r, "llama-4").Body, map[string]string{"tool_choice": `"required"`, "tools.1.function.name": `"g"`, "tools.2": ""})
	r.Choice = ir.Choice{Mode: ir.ChoiceNone}
	expect(t, encoded(t, r, "llama-4").Body, map[string]string{"tool_choice": `"none"`, "tools.2.type": `"function"`})
}

// TestEncodeSearch: web search where the model searches by itself, or where nothing is known of it.
func TestEncodeSearch(t *testing.T) {
	r := hello()
	r.Tools = []ir.Tool{{Kind: ir.ToolHosted, ToolName: ir.ToolName{Name: "web_search"}, Hosted: ir.Hosted{Type: ir.WebSearch, Location: []byte(`{"type":"approximate","city":"Berlin"}`), AllowedDomains: []string{"e.x"}}}}
	r.Choice = ir.Choice{Mode: ir.ChoiceOne, Names: []ir.ToolName{{Name: "web_search"}}}
	out := encoded(t, r, "gpt-4o-search-preview")
	expect(t, out.Body, map[string]string{"web_search_options": `{"user_location":{"type":"approximate","approximate":{"city":"Berlin"}}}`, "tools": "", "tool_choice": ""})
	lostIs(t, out, "tool_choice", "tools")
	r.Choice = ir.Choice{}
	r.Tools = append(r.Tools, fn("f"))
	out = encoded(t, r, "gpt-5")
	expect(t, out.Body, map[string]string{"web_search_options": "", "tools.0.function.name": `"f"`})
	lostIs(t, out, "tools")
	if member(encoded(t, r, "some-model").Body, "web_search_options") == "" {
		t.Error("a model of which nothing is known lost it")
	}
}

// TestEncodeContent: parts by kind.
func TestEncodeContent(t *testing.T) {
	pdf := ir.Block{Kind: ir.Document, Title: "T", Media: ir.Media{MIME: "application/pdf", Data: "JVBERg=="}}
	r := ask(said1(ir.User, txt("a"), txt(""), ir.Block{Kind: ir.Image, Detail: "low", Media: ir.Media{Data: "/9j/AA=="}},
		ir.Block{Kind: ir.Image, Media: ir.Media{URL: "https://e.x/a.png"}}, pdf, ir.Block{Kind: ir.Document, Title: "N", Context: "c", Text: "body"},
		ir.Block{Kind: ir.Document, Media: ir.Media{MIME: "text/csv", Data: "YSxi", Name: "t.csv"}},
		ir.Block{Kind: ir.Audio, Media: ir.Media{MIME: "audio/mpeg", Data: "AA=="}}))
	expect(t, encoded(t, r, "gpt-4.1").Body, map[string]string{"messages.0.content": `[{"type":"text","text":"a"},` +
		`{"type":"image_url","image_url":{"url":"data:image/jpeg;base64,/9j/AA==","detail":"low"}},{"type":"image_url","image_url":{"url":"https://e.x/a.png"}},` +
		`{"type":"file","file":{"filename":"T","file_data":"data:application/pdf;base64,JVBERg=="}},{"type":"text","text":"[document: N]\n[context: c]\nbody"},` +
		`{"type":"text","text":"[document: t.csv]\na,b"},{"type":"input_audio","input_audio":{"data":"AA==","format":"mp3"}}]`})
	r = ask(said1(ir.User, txt("a"), txt("b")))
	r.System = []ir.Block{txt("s"), txt("t")}
	expect(t, encoded(t, r, "claude-x").Body, map[string]string{"messages.0.content": `[{"type":"text","text":"s"},{"type":"text","text":"t"}]`})
	expect(t, encoded(t, r, "deepseek-chat").Body, map[string]string{"messages.0.content": `"s\n\nt"`, "messages.1.content": `"a\n\nb"`})
	r = ask(said1(ir.User, ir.Block{Kind: ir.Video, Media: ir.Media{MIME: "video/mp4", Data: "AA=="}}))
	expect(t, encoded(t, r, "qwen-vl").Body, map[string]string{"messages.0.content": `[{"type":"video_url","video_url":{"url":"data:video/mp4;base64,AA=="}}]`})
}

// TestEncodeCacheMarks: only gpt-5.6 and newer have a place for them.
func TestEncodeCacheMarks(t *testing.T) {
	mark := func(b ir.Block, ttl string) ir.Block {
		b.Cache = &ir.CacheMark{TTL: ttl}
		return b
	}
	r := ask(said1(ir.User, mark(txt("u"), "5m")), said1(ir.Assistant, callOf("c", "f", "{}")), said1(ir.User, mark(resultOf("c", txt("r")), "1h")))
	r.System = []ir.Block{mark(txt("s"), "")}
	out := encoded(t, r, "gpt-5.6-codex")
	lostIs(t, out)
	expect(t, out.Body, map[string]string{
		"messages.0.content": `[{"type":"text","text":"s","prompt_cache_breakpoint":{"mode":"explicit"}}]`,
		"messages.1.content": `[{"type":"text","text":"u","prompt_cache_breakpoint":{"mode":"explicit","ttl":"30m"}}]`,
		"messages.3.content": `[{"type":"text","text":"r","prompt_cache_breakpoint":{"mode":"explicit","ttl":"12h"}}]`,
	})
	for _, model := range []string{"gpt-5.5", "gpt-4.1", "kimi-k2", "x"} {
		out := encoded(t, r, model)
		lostIs(t, out, "cache_control")
		if strings.Contains(string(out.Body), "cache") {
			t.Errorf("%s: %s", model, out.Body)
		}
	}
	r = ask(said1(ir.Assistant, txt("a"), mark(callOf("c", "f", "{}"), "")))
	lostIs(t, encoded(t, r, "gpt-5.6"), "cache_control")
}

// TestFamily: what names tell.
func TestFamily(t *testing.T) {
	for name, want := range map[string]family{
		"gpt-5.6":                   {vendor: openAI, major: 5, minor: 6},
		"openai/gpt-6.2-sol":        {vendor: openAI, major: 6, minor: 2},
		"gpt-4o-2024-08-06":         {vendor: openAI, major: 4},
		"gpt-35-turbo":              {vendor: openAI, major: 3},
		"chatgpt-4o-latest":         {vendor: openAI, major: 4},
		"o3-mini":                   {vendor: openAI, series: 3},
		"o1":                        {vendor: openAI, series: 1},
		"gpt-5-codex":               {vendor: openAI, major: 5, few: true},
		"olmo-2":                    {},
		"o":                         {},
		"":                          {},
		"gpt-x":                     {},
		"deepseek-r1-distill-qwen":  {vendor: deepSeek},
		"moonshotai/Kimi-K2":        {vendor: kimi},
		"accounts/f/models/glm-4p6": {vendor: glm},
		"gpt-oss-120b":              {vendor: openWeights},
	} {
		if got := familyOf(name); got != want {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
	for model, vendor := range map[string]bool{"gpt-5": false, "o3": false, "deepseek-chat": true, "qwq-32b": true, "mimo-7b": true, "MiniMax-M2": true, "grok-4": false, "x": false} {
		if got := familyOf(model).replays(); got != vendor {
			t.Errorf("%s replays: %v", model, got)
		}
	}
}

// TestBodyIsStable: CNV-042, the same request gives the same bytes, and nothing in it is escaped needlessly.
func TestCNV042BodyIsStable(t *testing.T) {
	const body = `{"model":"m","tools":[{"type":"function","function":{"name":"f","parameters":{"z":{"title":"t","format":"x"},"a":[1.10,1e22,9007199254740993]}}}],
		"messages":[{"role":"system","content":"<a&b>\u2028"},{"role":"user","content":"x"}]}`
	a, b := encoded(t, decoded(t, body), "x"), encoded(t, decoded(t, body), "x")
	if string(a.Body) != string(b.Body) {
		t.Error("the bytes differ")
	}
	expect(t, a.Body, map[string]string{
		"tools.0.function.parameters": `{"z":{"title":"t","format":"x"},"a":[1.10,1e22,9007199254740993]}`,
		"messages.0.content":          "\"<a&b>\u2028\"",
	})
	if rawjson.Get(a.Body, "stream") != nil {
		t.Error("a stream was asked for")
	}
}
