package anthropic

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
)

// captures are the bodies of recorded requests of clients of this dialect, the shared ones where they are at hand.
func captures(tb testing.TB) map[string][]byte {
	out := bodies(tb)
	files, _ := filepath.Glob("../../../../shared/captures/*.json")
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			tb.Fatal(err)
		}
		var c struct {
			Path string
			Body json.RawMessage
		}
		if json.Unmarshal(b, &c) == nil && strings.HasSuffix(c.Path, "/messages") && len(c.Body) > 0 && c.Body[0] == '{' {
			out["captures/"+filepath.Base(f)] = c.Body
		}
	}
	return out
}

// bare takes away what may differ between a request and its re-encoding.
func bare(r *ir.Request) *ir.Request {
	c := *r
	c.Lost, c.Cache.Key = nil, ""
	c.System = bareBlocks(c.System)
	c.Tools = slices.Clone(c.Tools)
	for i := range c.Tools {
		c.Tools[i].At = ""
	}
	c.Turns = slices.Clone(c.Turns)
	for i := range c.Turns {
		c.Turns[i].At = ""
		c.Turns[i].Blocks = bareBlocks(c.Turns[i].Blocks)
	}
	return &c
}

func bareBlocks(list []ir.Block) []ir.Block {
	var out []ir.Block
	for _, b := range list {
		if b.Kind == ir.Thinking || b.Kind == ir.Text && b.Text == "" { // dropped: of no owner; empty
			continue
		}
		b.At = ""
		b.Content = bareBlocks(b.Content)
		out = append(out, b)
	}
	slices.SortStableFunc(out, func(a, b ir.Block) int { // results come in the order of their calls
		if a.Kind != ir.ToolResult || b.Kind != ir.ToolResult {
			return 0
		}
		return strings.Compare(a.ID, b.ID)
	})
	return out
}

// What clients really send is the same after decoding, encoding and decoding.
func TestRoundTripOfCaptures(t *testing.T) {
	for name, body := range captures(t) {
		r, err := decodeRequest(ir.Incoming{Body: body})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		o, err := encodeRequest(r, ir.Target{Model: r.Model, Owner: "anthropic/a"})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if problem := judge(o.Body, "anthropic/a"); problem != "" {
			t.Errorf("%s: %s", name, problem)
		}
		again, err := decodeRequest(ir.Incoming{Body: o.Body})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		a, b := bare(r), bare(again)
		if slices.Contains(o.Lost, "thinking") { // the loop has lost its block: reasoning is off
			a.Reasoning, b.Reasoning = ir.Reasoning{}, ir.Reasoning{}
		}
		if !familyOf(r.Model).system() { // reminders take the place of system messages
			continue
		}
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%s:\n%+v\n%+v", name, a, b)
		}
	}
}

// What Claude Code says is kept or named: nothing else is lost.
func TestLossesOfClaudeCode(t *testing.T) {
	for name, body := range bodies(t) {
		r, err := decodeRequest(ir.Incoming{Body: body})
		if err != nil {
			t.Fatal(name, err)
		}
		for _, l := range r.Lost {
			if !slices.Contains([]string{"context_management", "defer_loading", "eager_input_streaming", "metadata", "caller", "messages.output_config", "custom_extra_field"}, l) {
				t.Errorf("%s: %q is lost", name, l)
			}
		}
		if strings.HasPrefix(name, "claude-hi") && (r.Cache.Key == "" || r.User == "" || r.MaxTokens == 0 || len(r.Tools) == 0) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestDecodeTopLevel(t *testing.T) {
	r := decode(t, `{"model":"m","max_tokens":10,"stream":true,"temperature":0.70,"top_p":0.95,"top_k":4e1,"stop_sequences":["END"],
		"metadata":{"user_id":"u","other":1},"service_tier":"standard_only","cache_control":{"type":"ephemeral","ttl":"1h"},
		"thinking":{"type":"enabled","budget_tokens":2048,"display":"omitted"},"output_config":{"effort":"high","task_budget":{},"format":{"type":"json_schema","schema":{"b":1,"a":2}}},
		"context_management":{"edits":[]},"speed":"fast","inference_geo":null,"fallbacks":"default","thread":{"type":"create"},"bad\nkey":1,
		"messages":[{"role":"user","content":"hi"}]}`)
	s := r.Sampling
	if r.Model != "m" || r.MaxTokens != 10 || !r.Stream || s.Temperature != "0.70" || s.TopP != "0.95" || s.TopK != "4e1" || !slices.Equal(r.Stop, []string{"END"}) ||
		r.User != "u" || r.ServiceTier != "default" || r.Cache.Auto.TTL != "1h" || r.Reasoning.Mode != ir.ReasoningOn || r.Reasoning.Budget != 2048 || *r.Reasoning.Show ||
		r.Reasoning.Effort != "high" || r.Format.Kind != ir.FormatSchema || string(r.Format.Schema) != `{"b":1,"a":2}` {
		t.Errorf("%+v", r)
	}
	if want := []string{"context_management", "speed", "fallbacks", "thread", "unknown_fields", "metadata", "output_config.task_budget"}; !slices.Equal(r.Lost, want) {
		t.Errorf("lost %q, want %q", r.Lost, want)
	}
	if r := decode(t, `{"messages":[],"thinking":{"type":"adaptive"},"max_tokens":null,"system":null,"tools":null}`); r.Reasoning.Budget != -1 || r.Reasoning.Mode != ir.ReasoningOn {
		t.Errorf("%+v", r.Reasoning)
	}
	if r := decode(t, `{"messages":[],"max_tokens":0}`); r.MaxTokens != 1 || !slices.Equal(r.Lost, []string{"max_tokens"}) {
		t.Errorf("%+v", r)
	}
	if r, err := decodeRequest(ir.Incoming{Body: []byte(`{"messages":[]}`), Model: "p", Stream: true}); err != nil || r.Model != "p" || !r.Stream {
		t.Errorf("%+v %v", r, err)
	}
}

// Wrong types are refused with the path of what is wrong, and never with the text.
func TestRefusals(t *testing.T) {
	for body, field := range map[string]string{
		`{}`:               "messages",
		`{"messages":{}}`:  "messages",
		`{"messages":[1]}`: "messages[0]",
		`{"messages":[{"role":"bot","content":""}]}`:            "messages[0].role",
		`{"messages":[{"role":"user"}]}`:                        "messages[0].content",
		`{"messages":[{"role":"user","content":7}]}`:            "messages[0].content",
		`{"messages":[{"role":"user","content":[null]}]}`:       "messages[0].content[0]",
		`{"messages":[{"role":"user","content":[{"a":1}]}]}`:    "messages[0].content[0].type",
		`{"messages":[{"role":"user","content":[{"type":7}]}]}`: "messages[0].content[0].type",
		`{"messages":[{"role":"user","content":"a"},{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":7}]}]}`: "messages[1].content[1].text",
		`{"messages":[{"role":"user","content":[{"type":"text"}]}]}`:                                                                   "messages[0].content[0].text",
		`{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"file","file_id":"f"}}]}]}`:                           "messages[0].content[0].source",
		`{"messages":[{"role":"user","content":[{"type":"document","source":{"type":"file","file_id":"f"}}]}]}`:                        "messages[0].content[0].source",
		`{"messages":[{"role":"user","content":[{"type":"image","source":7}]}]}`:                                                       "messages[0].content[0].source",
		`{"messages":[{"role":"user","content":[{"type":"image"}]}]}`:                                                                  "messages[0].content[0].source",
		`{"messages":[{"role":"user","content":[{"type":"tool_result"}]}]}`:                                                            "messages[0].content[0].tool_use_id",
		`{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","is_error":"x"}]}]}`:                           "messages[0].content[0].is_error",
		`{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a"}]}]}`:                                                 "messages[0].content[0].name",
		`{"messages":[{"role":"user","content":[{"type":"text","text":"a","cache_control":7}]}]}`:                                      "messages[0].content[0].cache_control",
		`{"messages":[],"system":[{"type":"image","source":{"type":"url","url":"u"}}]}`:                                                "system[0]",
		`{"messages":[],"max_tokens":1.5}`:                                                                                             "max_tokens",
		`{"messages":[],"max_tokens":-1}`:                                                                                              "max_tokens",
		`{"messages":[],"temperature":"1"}`:                                                                                            "temperature",
		`{"messages":[],"stream":"true"}`:                                                                                              "stream",
		`{"messages":[],"model":7}`:                                                                                                    "model",
		`{"messages":[],"stop_sequences":"a"}`:                                                                                         "stop_sequences",
		`{"messages":[],"stop_sequences":[7]}`:                                                                                         "stop_sequences[0]",
		`{"messages":[],"tools":[{"description":"d"}]}`:                                                                                "tools[0].name",
		`{"messages":[],"tools":[{"name":"a","input_schema":[]}]}`:                                                                     "tools[0].input_schema",
		`{"messages":[],"tools":[{"type":"web_search_20250305","max_uses":"a"}]}`:                                                      "tools[0].max_uses",
		`{"messages":[],"tool_choice":"auto"}`:                                                                                         "tool_choice",
		`{"messages":[],"tool_choice":{"type":"some"}}`:                                                                                "tool_choice.type",
		`{"messages":[],"tool_choice":{"type":"tool"}}`:                                                                                "tool_choice.name",
		`{"messages":[],"thinking":{"type":"enabled","budget_tokens":"x"}}`:                                                            "thinking.budget_tokens",
		`{"messages":[],"output_config":{"format":{"type":"text"}}}`:                                                                   "output_config.format",
		`{"messages":[],"container":"c"}`:                                                                                              "container",
		`{"messages":[],"mcp_servers":[{}]}`:                                                                                           "mcp_servers",
		`{"messages":[],"compaction":{"type":"summarize"}}`:                                                                            "compaction",
		`{"messages":[],"thread":{"type":"continue","previous_message_id":"m"}}`:                                                       "thread.previous_message_id",
	} {
		_, err := decodeRequest(ir.Incoming{Body: []byte(body)})
		var refused *ir.RefusedError
		if !errors.As(err, &refused) || refused.Field != field {
			t.Errorf("%s: %v, want %s", body, err, field)
		}
	}
	nested := `"x"`
	for range 12 {
		nested = `[{"type":"tool_result","tool_use_id":"a","content":` + nested + `}]`
	}
	if _, err := decodeRequest(ir.Incoming{Body: []byte(`{"messages":[{"role":"user","content":` + nested + `}]}`)}); err == nil {
		t.Error("deep results pass")
	}
	if r := decode(t, `{"messages":[],"mcp_servers":[]}`); len(r.Lost) != 1 && len(r.Lost) != 0 {
		t.Errorf("%q", r.Lost)
	}
}

func TestDecodeBlocks(t *testing.T) {
	sealed := ir.Seal(ir.State{Owner: "openai/x", Data: "gAAAA"})
	ofCall := ir.Seal(ir.State{Owner: "gemini/x", Data: "sig", Attach: ir.AttachCall})
	hidden := ir.Seal(ir.State{Owner: "anthropic/b", Data: "R", Redacted: true})
	at := "messages[0].content[0]"
	for name, tc := range map[string]struct {
		role, block string
		want        []ir.Block
		lost        []string
	}{
		"text":          {"user", `{"type":"text","text":"a\u00e9","cache_control":{"type":"ephemeral","ttl":"1h","scope":"x"}}`, []ir.Block{{Kind: ir.Text, Text: "aé", Cache: &ir.CacheMark{TTL: "1h"}}}, []string{"cache_control.scope"}},
		"citations":     {"assistant", `{"type":"text","text":"a","citations":[{"type":"char_location"}]}`, []ir.Block{{Kind: ir.Text, Text: "a", Citations: []byte(`[{"type":"char_location"}]`)}}, nil},
		"no citations":  {"assistant", `{"type":"text","text":"a","citations":null}`, []ir.Block{{Kind: ir.Text, Text: "a"}}, nil},
		"image":         {"user", `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="},"transformations":{}}`, []ir.Block{{Kind: ir.Image, Media: ir.Media{MIME: "image/png", Data: "AA=="}}}, []string{"transformations"}},
		"image url":     {"user", `{"type":"image","source":{"type":"url","url":"http://x"}}`, []ir.Block{{Kind: ir.Image, Media: ir.Media{URL: "http://x"}}}, nil},
		"pdf":           {"user", `{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"AA=="},"title":"T","context":"C","citations":{"enabled":true}}`, []ir.Block{{Kind: ir.Document, Media: ir.Media{MIME: "application/pdf", Data: "AA=="}, Title: "T", Context: "C"}}, []string{"citations"}},
		"pdf url":       {"user", `{"type":"document","source":{"type":"url","url":"http://x"},"citations":{"enabled":false}}`, []ir.Block{{Kind: ir.Document, Media: ir.Media{MIME: "application/pdf", URL: "http://x"}}}, nil},
		"text document": {"user", `{"type":"document","source":{"type":"text","media_type":"text/plain","data":"abc"}}`, []ir.Block{{Kind: ir.Document, Text: "abc", Media: ir.Media{MIME: "text/plain"}}}, nil},
		"document of blocks": {"user", `{"type":"document","source":{"type":"content","content":[{"type":"text","text":"a"},{"type":"image","source":{"type":"url","url":"u"}},{"type":"text","text":"b"}]}}`,
			[]ir.Block{{Kind: ir.Document, Text: "a\nb", Media: ir.Media{MIME: "text/plain"}}, {Kind: ir.Image, At: at + ".source.content[1]", Media: ir.Media{URL: "u"}}}, nil},
		"search result": {"user", `{"type":"search_result","source":"http://s","title":"T","content":[{"type":"text","text":"a"}],"citations":{"enabled":true}}`,
			[]ir.Block{{Kind: ir.Text, Text: "Search result: T\nSource: http://s\n\na"}}, []string{"citations"}},
		"thinking":          {"assistant", `{"type":"thinking","thinking":"hm","signature":"S"}`, []ir.Block{{Kind: ir.Thinking, Text: "hm", State: &ir.State{Data: "S"}}}, nil},
		"unsigned thinking": {"assistant", `{"type":"thinking","thinking":"hm"}`, []ir.Block{{Kind: ir.Thinking, Text: "hm"}}, nil},
		"sealed thinking":   {"assistant", `{"type":"thinking","thinking":"","signature":"` + sealed + `"}`, []ir.Block{{Kind: ir.Thinking, State: &ir.State{Owner: "openai/x", Data: "gAAAA"}}}, nil},
		"redacted":          {"assistant", `{"type":"redacted_thinking","data":"D"}`, []ir.Block{{Kind: ir.Thinking, State: &ir.State{Data: "D", Redacted: true}}}, nil},
		"sealed redacted":   {"assistant", `{"type":"redacted_thinking","data":"` + hidden + `"}`, []ir.Block{{Kind: ir.Thinking, State: &ir.State{Owner: "anthropic/b", Data: "R", Redacted: true}}}, nil},
		"signed call": {"assistant", `{"type":"thinking","thinking":"","signature":"` + ofCall + `"},{"type":"tool_use","id":"t","name":"f","input":{}}`,
			[]ir.Block{{Kind: ir.ToolCall, At: "messages[0].content[1]", ID: "t", ToolName: ir.ToolName{Name: "f"}, Args: "{}", State: &ir.State{Owner: "gemini/x", Data: "sig", Attach: ir.AttachCall}}}, nil},
		"CNV-041 call": {"assistant", `{"type":"tool_use","id":"t","name":"f","input":{"id":9007199254740993,"n":1.10,"b":1e22},"caller":{"type":"direct"}}`,
			[]ir.Block{{Kind: ir.ToolCall, ID: "t", ToolName: ir.ToolName{Name: "f"}, Args: `{"id":9007199254740993,"n":1.10,"b":1e22}`}}, nil},
		"CNV-022 call":    {"assistant", `{"type":"tool_use","id":"t","name":"f","input":{},"signature":""}`, []ir.Block{{Kind: ir.ToolCall, ID: "t", ToolName: ir.ToolName{Name: "f"}, Args: "{}"}}, nil},
		"toolset":         {"assistant", `{"type":"tool_use","id":"t","name":"f","input":{},"toolset_name":"x","caller":{"type":"code_execution_20250825"}}`, []ir.Block{{Kind: ir.ToolCall, ID: "t", ToolName: ir.ToolName{Name: "f"}, Args: "{}"}}, []string{"caller", "toolset_name"}},
		"result":          {"user", `{"type":"tool_result","tool_use_id":"t","content":"r","is_error":true}`, []ir.Block{{Kind: ir.ToolResult, ID: "t", IsError: true, Content: []ir.Block{{Kind: ir.Text, At: at + ".content", Text: "r"}}}}, nil},
		"CNV-029 result":  {"user", `{"type":"tool_result","tool_use_id":"t"}`, []ir.Block{{Kind: ir.ToolResult, ID: "t"}}, nil},
		"null result":     {"user", `{"type":"tool_result","tool_use_id":"t","content":null}`, []ir.Block{{Kind: ir.ToolResult, ID: "t"}}, nil},
		"empty result":    {"user", `{"type":"tool_result","tool_use_id":"t","content":[]}`, []ir.Block{{Kind: ir.ToolResult, ID: "t", Content: []ir.Block{}}}, nil},
		"tool reference":  {"user", `{"type":"tool_result","tool_use_id":"t","content":[{"type":"tool_reference","tool_name":"Web"}]}`, []ir.Block{{Kind: ir.ToolResult, ID: "t", Content: []ir.Block{{Kind: ir.Text, At: at + ".content[0]", Text: "Tool loaded: Web"}}}}, nil},
		"hosted call":     {"assistant", `{"type":"server_tool_use","id":"s","name":"web_search","input":{"query":"q"}}`, []ir.Block{{Kind: ir.HostedCall, ID: "s", ToolName: ir.ToolName{Name: "web_search"}, Type: "server_tool_use", Raw: []byte(`{"type":"server_tool_use","id":"s","name":"web_search","input":{"query":"q"}}`)}}, nil},
		"hosted result":   {"assistant", `{"type":"web_search_tool_result","tool_use_id":"s","content":[]}`, []ir.Block{{Kind: ir.HostedResult, ID: "s", Type: "web_search_tool_result", Raw: []byte(`{"type":"web_search_tool_result","tool_use_id":"s","content":[]}`)}}, nil},
		"mcp call":        {"assistant", `{"type":"mcp_tool_use","id":"s","name":"n"}`, []ir.Block{{Kind: ir.HostedCall, ID: "s", ToolName: ir.ToolName{Name: "n"}, Type: "mcp_tool_use", Raw: []byte(`{"type":"mcp_tool_use","id":"s","name":"n"}`)}}, nil},
		"mcp result":      {"assistant", `{"type":"mcp_tool_result","tool_use_id":"s"}`, []ir.Block{{Kind: ir.HostedResult, ID: "s", Type: "mcp_tool_result", Raw: []byte(`{"type":"mcp_tool_result","tool_use_id":"s"}`)}}, nil},
		"upload":          {"user", `{"type":"container_upload","file_id":"f"}`, []ir.Block{{Kind: ir.Opaque, Type: "container_upload", Raw: []byte(`{"type":"container_upload","file_id":"f"}`)}}, nil},
		"block of future": {"user", `{"type":"next","x":1}`, []ir.Block{{Kind: ir.Opaque, Type: "next", Raw: []byte(`{"type":"next","x":1}`)}}, nil},
	} {
		r := decode(t, `{"messages":[{"role":"`+tc.role+`","content":[`+tc.block+`]}]}`)
		for i := range tc.want {
			if tc.want[i].At == "" {
				tc.want[i].At = at
			}
		}
		if !reflect.DeepEqual(r.Turns[0].Blocks, tc.want) || !slices.Equal(r.Lost, tc.lost) {
			t.Errorf("%s:\n got %+v %q\nwant %+v %q", name, r.Turns[0].Blocks, r.Lost, tc.want, tc.lost)
		}
	}
}

func TestDecodeTools(t *testing.T) {
	r := decode(t, `{"messages":[],"tools":[
		{"name":"f","description":"d","input_schema":{"type":"object","title":"t"},"strict":true,"cache_control":{"type":"ephemeral"},"defer_loading":true,"eager_input_streaming":false},
		{"type":"custom","name":"g"},
		{"type":"bash_20250124","name":"bash"},{"type":"text_editor_20250728","name":"str_replace_based_edit_tool","max_characters":10},{"type":"memory_20250818","name":"memory"},
		{"type":"computer_20250124","name":"computer","display_width_px":800},{"type":"browser_toolset_20260801"},
		{"type":"web_search_20250305","name":"web_search","max_uses":8,"allowed_domains":["a.b"],"user_location":{"type":"approximate","city":"X"}},
		{"type":"code_execution_20250825","name":"code_execution"}],
		"tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true}}`)
	yes := true
	want := ir.Tool{At: "tools[0]", ToolName: ir.ToolName{Name: "f"}, Description: "d", Schema: []byte(`{"type":"object","title":"t"}`), Strict: &yes, Cache: &ir.CacheMark{}}
	if !reflect.DeepEqual(r.Tools[0], want) || !slices.Equal(r.Lost, []string{"defer_loading"}) {
		t.Errorf("%+v, lost %q", r.Tools[0], r.Lost)
	}
	for i, name := range []string{"g", "bash", "str_replace_based_edit_tool", "memory", "computer", "browser"} {
		tool := r.Tools[i+1]
		if tool.Name != name || tool.Kind != ir.ToolFunction || i > 0 && (!json.Valid(tool.Schema) || tool.Description == "") {
			t.Errorf("%+v", tool)
		}
	}
	if !strings.Contains(r.Tools[3].Description, "max_characters: 10") || !strings.Contains(r.Tools[5].Description, "display_width_px: 800") {
		t.Error("the settings of typed tools are gone")
	}
	h := r.Tools[7].Hosted
	if r.Tools[7].Kind != ir.ToolHosted || h.Type != ir.WebSearch || h.MaxUses != 8 || !slices.Equal(h.AllowedDomains, []string{"a.b"}) || string(h.Location) != `{"type":"approximate","city":"X"}` {
		t.Errorf("%+v", h)
	}
	if r.Tools[8].Hosted.Type != "code_execution_20250825" {
		t.Errorf("%+v", r.Tools[8])
	}
	if r.Choice.Mode != ir.ChoiceOne || r.Choice.Names[0].Name != "f" || *r.Parallel {
		t.Errorf("%+v", r.Choice)
	}
	for kind, mode := range map[string]ir.ChoiceMode{"auto": ir.ChoiceAuto, "any": ir.ChoiceRequired, "none": ir.ChoiceNone} {
		if r := decode(t, `{"messages":[],"tool_choice":{"type":"`+kind+`"}}`); r.Choice.Mode != mode || r.Parallel != nil {
			t.Errorf("%s: %+v", kind, r.Choice)
		}
	}
}

// The session in the user id of Claude Code becomes the cache key.
func TestCacheKey(t *testing.T) {
	id := "11111111-2222-3333-4444-555555555555"
	for user, want := range map[string]string{
		`{"device_id":"d","account_uuid":"","session_id":"` + id + `"}`: id,
		"user_abc_account__session_" + id:                               id,
		"user_abc_account_x_session_" + id:                              id,
		"me@example.com":                                                "",
		"a_session_b":                                                   "",
		"":                                                              "",
		"user_1_session_" + strings.Repeat("x", 65):                     "2d8b3a3d", // its hash
	} {
		got := cacheKey(user)
		if len(got) > 64 || got != want && !(want == "2d8b3a3d" && len(got) == 64 && got == cacheKey(user)) {
			t.Errorf("%q: %q", user, got)
		}
	}
}

// Case 32, CNV-025: system messages in the middle keep their place, with their own effort.
func TestCNV025SystemMessages(t *testing.T) {
	r := decode(t, `{"messages":[{"role":"user","content":"a"},{"role":"system","content":"note","output_config":{"effort":"low"}},{"role":"developer","content":"dev"},
		{"role":"user","content":"b"},{"role":"system","content":[{"type":"text","text":"late"}],"clear_at":"next_user_message","output_config":{"effort":"high"}}],"system":"s"}`)
	var roles []ir.Role
	for _, turn := range r.Turns {
		roles = append(roles, turn.Role)
	}
	if !slices.Equal(roles, []ir.Role{ir.User, ir.System, ir.Developer, ir.User, ir.System}) || r.Reasoning.Effort != "high" || !slices.Equal(r.Lost, []string{"clear_at"}) {
		t.Errorf("%v %+v %q", roles, r.Reasoning, r.Lost)
	}
	_, v := encode(t, r, "claude-opus-5-5")
	same(t, "5.5", dig(v, "messages"), `[{"role":"user","content":"a"},{"role":"system","content":[{"type":"text","text":"note"},{"type":"text","text":"dev"}]},
		{"role":"user","content":"b"},{"role":"system","content":"late"}]`)
	_, v = encode(t, r, "claude-sonnet-4-5")
	same(t, "4.5", dig(v, "messages"), `[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"<system-reminder>\nnote\n</system-reminder>"},
		{"type":"text","text":"<system-reminder>\ndev\n</system-reminder>"},{"type":"text","text":"b"},{"type":"text","text":"<system-reminder>\nlate\n</system-reminder>"}]}]`)
	if dig(v, "system") != "s" {
		t.Error("an instruction was hoisted")
	}
}

// CNV-014: results in the assistant's message.
func TestCNV014ResultInAssistant(t *testing.T) {
	r := decode(t, `{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{}},{"type":"tool_result","tool_use_id":"t1","content":"r"}]},{"role":"user","content":"go"}]}`)
	if len(r.Turns) != 3 || r.Turns[1].Role != ir.User || r.Turns[1].Blocks[0].Kind != ir.ToolResult || len(r.Turns[0].Blocks) != 1 {
		t.Fatalf("%+v", r.Turns)
	}
	_, v := encode(t, r, "claude-sonnet-4-5")
	same(t, "messages", dig(v, "messages", 1), `{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"r"},{"type":"text","text":"go"}]}`)
}

// CNV-024: both forms of the system prompt.
func TestCNV024SystemShapes(t *testing.T) {
	_, v := encode(t, decode(t, `{"system":"abc","messages":[{"role":"user","content":"a"}]}`), "claude-sonnet-4-5")
	same(t, "string", dig(v, "system"), `"abc"`)
	_, v = encode(t, decode(t, `{"system":[{"type":"text","text":"abc","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":"a"}]}`), "claude-sonnet-4-5")
	same(t, "blocks", dig(v, "system"), `[{"type":"text","text":"abc","cache_control":{"type":"ephemeral"}}]`)
}

// CNV-042: the same request gives the same bytes, schemas and texts as they came.
func TestCNV042BytesAreStable(t *testing.T) {
	body := `{"system":"<a&b>","tools":[{"name":"f","input_schema":{"type":"object","z":1,"a":"<&>","properties":{"b":{},"a":{}}}}],"messages":[{"role":"user","content":"x"}]}`
	a, _ := encode(t, decode(t, body), "claude-opus-5-5")
	b, _ := encode(t, decode(t, body), "claude-opus-5-5")
	if string(a.Body) != string(b.Body) || !strings.Contains(string(a.Body), `"<a&b>"`) || !strings.Contains(string(a.Body), `{"type":"object","z":1,"a":"<&>","properties":{"b":{},"a":{}}}`) {
		t.Errorf("%s\n%s", a.Body, b.Body)
	}
}

// The request's slices must not lie in the body, whose memory is used again.
func TestRequestOutlivesItsBody(t *testing.T) {
	for name, body := range bodies(t) {
		again := slices.Clone(body)
		r, err := decodeRequest(ir.Incoming{Body: again})
		if err != nil {
			t.Fatal(err)
		}
		want, err := encodeRequest(r, ir.Target{Model: "claude-opus-5-5", Owner: "a"})
		if err != nil {
			continue
		}
		for i := range again {
			again[i] = 'x'
		}
		got, err := encodeRequest(r, ir.Target{Model: "claude-opus-5-5", Owner: "a"})
		if err != nil || string(got.Body) != string(want.Body) {
			t.Fatalf("%s: the request changed with its body", name)
		}
	}
}

// FuzzDecodeRequest: no panic; what decodes encodes to JSON that decodes again.
func FuzzDecodeRequest(f *testing.F) {
	for _, b := range bodies(f) {
		if len(b) < 20000 {
			f.Add(b)
		}
	}
	f.Add([]byte(`{"model":"claude-opus-5-5","messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a.b","name":"f","input":[1]},{"type":"tool_result","tool_use_id":"a.b"}]},{"role":"user","content":[{"type":"text","text":""}]}]}`))
	f.Add([]byte(`{"messages":[{"role":"user","content":[{"type":"document","source":{"type":"content","content":[{"type":"search_result","content":"x"}]}}]}],"tools":[{"name":"f","input_schema":{"anyOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"$ref":"#"}}},"strict":true}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		fuzzRequest(t, body)
	})
}
