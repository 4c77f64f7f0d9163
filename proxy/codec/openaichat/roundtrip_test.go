package openaichat

import (
	"slices"
	"strings"
	"testing"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// TestRoundTrip: what a client said is still there behind decode, encode and decode; the second trip changes no byte.
func TestRoundTrip(t *testing.T) {
	for name, body := range bodies(t) {
		t.Run(name, func(t *testing.T) {
			r := decoded(t, string(body))
			model := r.Model
			if model == "fake-model" || strings.HasPrefix(model, "my") {
				model = "gpt-4.1" // a name that tells nothing goes to a server of which nothing is known
			}
			out := encoded(t, r, model)
			again := decoded(t, string(out.Body))
			want := bare(r)
			want.Model = model
			want.IncludeUsage = r.Stream // a conversion always asks
			for _, path := range out.Lost {
				switch path {
				case "reasoning_content":
					want.Turns = withoutThinking(want.Turns)
				case "reasoning_effort":
					want.Reasoning = ir.Reasoning{}
				default:
					if !slices.Contains(r.Lost, path) {
						t.Errorf("%s is lost", path)
					}
				}
			}
			same(t, "request", bare(again), want)
			if twice := encoded(t, again, model); string(twice.Body) != string(out.Body) {
				t.Errorf("the second trip changed the bytes:\n%s\n%s", out.Body, twice.Body)
			}
		})
	}
}

func withoutThinking(turns []ir.Turn) []ir.Turn {
	for i := range turns {
		turns[i].Blocks = slices.DeleteFunc(turns[i].Blocks, func(b ir.Block) bool { return b.Kind == ir.Thinking })
	}
	return turns
}

// TestEncodeKeepsRequest: one request is encoded for several keys.
func TestEncodeKeepsRequest(t *testing.T) {
	for name, body := range bodies(t) {
		r := decoded(t, string(body))
		lost := slices.Clone(r.Lost)
		for _, model := range []string{"o3", "deepseek-chat", "gpt-5.6", "x"} {
			if _, err := encodeRequest(r, ir.Target{Model: model}); err != nil && !strings.Contains(err.Error(), "tool_choice") {
				t.Errorf("%s: %v", name, err)
			}
		}
		fresh := decoded(t, string(body))
		same(t, name, r, fresh)
		same(t, name+": lost", r.Lost, lost)
	}
}

// TestDecodeRefuses names the path of what is wrong.
func TestDecodeRefuses(t *testing.T) {
	user := `"messages":[{"role":"user","content":"x"}]`
	for body, path := range map[string]string{
		`[]`:                                                      "body",
		`{}`:                                                      "messages",
		`{"messages":{}}`:                                         "messages",
		`{"messages":["x"]}`:                                      "messages[0]",
		`{"messages":[{}]}`:                                       "messages[0].role",
		`{"messages":[{"role":"king"}]}`:                          "messages[0].role",
		`{"model":1,` + user + `}`:                                "model",
		`{"stream":"yes",` + user + `}`:                           "stream",
		`{"max_tokens":"5",` + user + `}`:                         "max_tokens",
		`{"max_tokens":0,` + user + `}`:                           "max_tokens",
		`{"max_tokens":1.5,` + user + `}`:                         "max_tokens",
		`{"temperature":"1",` + user + `}`:                        "temperature",
		`{"stop":5,` + user + `}`:                                 "stop",
		`{"stop":["a",5],` + user + `}`:                           "stop[1]",
		`{"n":2,` + user + `}`:                                    "n",
		`{"logprobs":true,` + user + `}`:                          "logprobs",
		`{"top_logprobs":3,` + user + `}`:                         "top_logprobs",
		`{"verbosity":"loud",` + user + `}`:                       "verbosity",
		`{"modalities":["text","audio"],` + user + `}`:            "modalities",
		`{"reasoning_effort":"some",` + user + `}`:                "reasoning_effort",
		`{"response_format":{"type":"xml"},` + user + `}`:         "response_format.type",
		`{"response_format":{"type":"json_schema"},` + user + `}`: "response_format.json_schema",
		`{"response_format":{"type":"json_schema","json_schema":{"schema":1}},` + user + `}`: "response_format.json_schema.schema",
		`{"tools":{},` + user + `}`:                                                                     "tools",
		`{"tools":[{"type":"function","function":{}}],` + user + `}`:                                    "tools[0].function.name",
		`{"tools":[{"type":"function","function":{"name":"f","parameters":"x"}}],` + user + `}`:         "tools[0].function.parameters",
		`{"tools":[{"type":"custom","custom":{"name":7}}],` + user + `}`:                                "tools[0].custom.name",
		`{"tool_choice":"sometimes",` + user + `}`:                                                      "tool_choice",
		`{"tool_choice":{"type":"function"},` + user + `}`:                                              "tool_choice.function.name",
		`{"messages":[{"role":"user","content":7}]}`:                                                    "messages[0].content",
		`{"messages":[{"role":"user","content":[{"type":"text","text":7}]}]}`:                           "messages[0].content[0].text",
		`{"messages":[{"role":"user","content":[{"text":"x"}]}]}`:                                       "messages[0].content[0].type",
		`{"messages":[{"role":"user","content":[{"type":"smell"}]}]}`:                                   "messages[0].content[0].type",
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":5}}]}]}`:         "messages[0].content[0].image_url.url",
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"pic.png"}}]}]}`: "messages[0].content[0].image_url.url",
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:x"}}]}]}`:  "messages[0].content[0].image_url.url",
		`{"messages":[{"role":"user","content":[{"type":"file","file":{}}]}]}`:                          "messages[0].content[0].file.file_data",
		`{"messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"AA"}}]}]}`: "messages[0].content[0].input_audio.format",
		`{"messages":[{"role":"assistant","tool_calls":{}}]}`:                                           "messages[0].tool_calls",
		`{"messages":[{"role":"assistant","tool_calls":[{"id":5}]}]}`:                                   "messages[0].tool_calls[0].id",
		`{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":5}}]}]}`:    "messages[0].tool_calls[0].function.arguments",
		`{"messages":[{"role":"assistant","audio":{"id":"a"}}]}`:                                        "messages[0].audio",
		`{"messages":[{"role":"assistant","refusal":5}]}`:                                               "messages[0].refusal",
		`{"messages":[{"role":"tool","tool_call_id":5,"content":"x"}]}`:                                 "messages[0].tool_call_id",
		`{"messages":[{"role":"system","content":[{"type":"image_url","image_url":"https://e.x/a"}]}]}`: "messages[0].content[0]",
	} {
		_, err := decodeRequest(ir.Incoming{Body: []byte(body)})
		refused, ok := err.(*ir.RefusedError)
		if !ok || refused.Field != path {
			t.Errorf("%s: got %v, want a refusal of %s", body, err, path)
		}
	}
}

// TestDecodeNames: what no other dialect can say is named, null and what changes nothing is not.
func TestDecodeNames(t *testing.T) {
	const body = `{"model":"m","n":1,"logprobs":false,"top_logprobs":null,"store":true,"moderation":{"a":1},"prediction":{"type":"content"},
		"stream_options":{"include_obfuscation":false,"other":1},"modalities":["text"],"audio":{"format":"wav"},"service_tier":"scale",
		"temperature":null,"tools":null,"stop":null,"user":"u","novel":1,
		"messages":[{"role":"user","name":"bob","content":"x","odd":2},{"role":"assistant","content":"y","annotations":[]}]}`
	want := []string{"moderation", "prediction", "store", "stream_options.other", "audio", "service_tier", "novel", "name", "odd", "annotations"}
	r := decoded(t, body)
	slices.Sort(want)
	got := slices.Clone(r.Lost)
	slices.Sort(got)
	same(t, "lost", got, want)
	if r.Name(ir.FieldUser) != "user" {
		t.Errorf("the user is called %q", r.Name(ir.FieldUser))
	}
}

func TestDecodeManyUnknown(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"messages":[{"role":"user","content":"x"}]`)
	for i := range 500 {
		b.WriteString(`,"k` + strings.Repeat("x", i) + `":1`)
	}
	b.WriteString("}")
	if r := decoded(t, b.String()); len(r.Lost) > 65 {
		t.Errorf("%d names", len(r.Lost))
	}
}

// TestDecodeForms: the same thing in the forms that clients and vendors have for it.
func TestDecodeForms(t *testing.T) {
	one := func(content string) *ir.Block {
		r := decoded(t, `{"messages":[{"role":"user","content":[`+content+`]}]}`)
		return &r.Turns[0].Blocks[0]
	}
	t.Run("case_56", func(t *testing.T) {
		b := one(`{"type":"image_url","image_url":{"url":"data:image/jpg;name=a.jpg;base64,_9j-"}}`)
		same(t, "media", b.Media, ir.Media{MIME: "image/jpeg", Data: "/9j+"})
		b = one(`{"type":"image_url","image_url":"https://e.x/a.png"}`)
		same(t, "media", b.Media, ir.Media{URL: "https://e.x/a.png"})
	})
	t.Run("text file", func(t *testing.T) {
		b := one(`{"type":"file","file":{"filename":"a.txt","file_data":"data:text/plain;base64,aGk="}}`)
		if b.Kind != ir.Document || b.Text != "hi" || b.Title != "a.txt" {
			t.Errorf("got %+v", b)
		}
	})
	t.Run("bare pdf", func(t *testing.T) {
		b := one(`{"type":"file","file":{"filename":"a.pdf","file_data":"JVBERg=="}}`)
		same(t, "media", b.Media, ir.Media{MIME: "application/pdf", Data: "JVBERg==", Name: "a.pdf"})
	})
	t.Run("maximum", func(t *testing.T) {
		r := decoded(t, `{"max_tokens":5,"max_completion_tokens":4096.0,"messages":[]}`)
		if r.MaxTokens != 4096 || r.Name(ir.FieldMaxTokens) != "max_completion_tokens" {
			t.Errorf("%d %s", r.MaxTokens, r.Name(ir.FieldMaxTokens))
		}
		r = decoded(t, `{"max_tokens":5,"messages":[]}`)
		if r.MaxTokens != 5 || r.Name(ir.FieldMaxTokens) != "max_tokens" {
			t.Errorf("%d %s", r.MaxTokens, r.Name(ir.FieldMaxTokens))
		}
	})
	t.Run("stop", func(t *testing.T) {
		same(t, "stop", decoded(t, `{"stop":"a","messages":[]}`).Stop, []string{"a"})
	})
	t.Run("cache marks", func(t *testing.T) {
		r := decoded(t, `{"tools":[{"type":"function","function":{"name":"f"},"cache_control":{"type":"ephemeral","ttl":"1h"}}],
			"messages":[{"role":"system","content":"s","cache_control":{"type":"ephemeral"}},
			{"role":"user","content":[{"type":"text","text":"a","prompt_cache_breakpoint":{"mode":"explicit","ttl":"30m"}}]}]}`)
		same(t, "tool", r.Tools[0].Cache, &ir.CacheMark{TTL: "1h"})
		same(t, "system", r.System[0].Cache, &ir.CacheMark{})
		same(t, "user", r.Turns[0].Blocks[0].Cache, &ir.CacheMark{TTL: "30m"})
	})
	t.Run("flat function", func(t *testing.T) {
		r := decoded(t, `{"tools":[{"type":"function","name":"f","parameters":{}}],"messages":[]}`)
		if r.Tools[0].Name != "f" || string(r.Tools[0].Schema) != "{}" {
			t.Errorf("%+v", r.Tools[0])
		}
	})
	t.Run("hosted", func(t *testing.T) {
		r := decoded(t, `{"tools":[{"type":"web_search_preview"},{"type":"builtin_function","function":{"name":"$web_search"}}],"messages":[]}`)
		if r.Tools[0].Hosted.Type != ir.WebSearch || r.Tools[1].Hosted.Type != "builtin_function" || r.Tools[1].Kind != ir.ToolHosted {
			t.Errorf("%+v", r.Tools)
		}
	})
	t.Run("allowed tools", func(t *testing.T) {
		r := decoded(t, `{"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"f"}}]}},"messages":[]}`)
		same(t, "choice", r.Choice, ir.Choice{Mode: ir.ChoiceAuto, Names: []ir.ToolName{{Name: "f"}}})
	})
	for body, want := range map[string]ir.Reasoning{
		`"reasoning_effort":"none"`:                          {Mode: ir.ReasoningOff},
		`"reasoning_effort":"max"`:                           {Mode: ir.ReasoningOn, Effort: "max"},
		`"thinking":{"type":"disabled"}`:                     {Mode: ir.ReasoningOff},
		`"thinking":{"type":"enabled","budget_tokens":2000}`: {Mode: ir.ReasoningOn, Budget: 2000},
		`"enable_thinking":true,"thinking_budget":100`:       {Mode: ir.ReasoningOn, Budget: 100},
		`"reasoning":{"effort":"low"}`:                       {Mode: ir.ReasoningOn, Effort: "low"},
	} {
		same(t, body, decoded(t, `{`+body+`,"messages":[]}`).Reasoning, want)
	}
}

// TestDecodeHistory: the turns that messages become.
func TestDecodeHistory(t *testing.T) {
	sealed := ir.Seal(ir.State{Owner: "g", Data: "SIG", Attach: ir.AttachCall})
	r := decoded(t, `{"messages":[{"role":"system","content":""},{"role":"developer","content":"d"},{"role":"user","content":""},
		{"role":"assistant","content":null,"reasoning":"hm","reasoning_details":[{"type":"reasoning.encrypted","data":"E"}],
		 "tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{ \"n\": 1.0 }"},"extra_content":{"google":{"thought_signature":"`+sealed+`"}}},
		               {"id":"b","type":"custom","custom":{"name":"p","input":"raw"}},{"id":"c","function":{"name":"g","arguments":{"x":9007199254740993}}}]},
		{"role":"tool","tool_call_id":"b","content":[{"type":"text","text":"1"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]},
		{"role":"tool","tool_call_id":"a","content":null},{"role":"system","content":"mid"},{"role":"user","content":"u"}]}`)
	if len(r.System) != 1 || r.System[0].Text != "d" || len(r.Turns) != 4 {
		t.Fatalf("%d system blocks, %d turns", len(r.System), len(r.Turns))
	}
	a := r.Turns[0].Blocks
	same(t, "thinking", a[0], ir.Block{Kind: ir.Thinking, At: "messages[3]", Text: "hm"})
	same(t, "state", a[1].State, &ir.State{Owner: "g", Data: "SIG"})
	if a[1].Args != `{ "n": 1.0 }` || a[2].Form != ir.FormCustom || a[2].Args != "raw" || a[3].Args != `{"x":9007199254740993}` {
		t.Errorf("calls %+v", a[1:])
	}
	res := r.Turns[1]
	if res.Role != ir.User || len(res.Blocks) != 2 || res.Blocks[0].Form != ir.FormCustom || res.Blocks[1].Content != nil {
		t.Errorf("results %+v", res)
	}
	if r.Turns[2].Role != ir.System || r.Turns[2].At != "messages[6]" {
		t.Errorf("system in the middle: %+v", r.Turns[2])
	}
	same(t, "lost", r.Lost, []string{"reasoning_details"})
	if r.Name(ir.FieldThinking) != "reasoning" {
		t.Error(r.Name(ir.FieldThinking))
	}
}

func TestDecodeFunctionMessages(t *testing.T) {
	r := decoded(t, `{"functions":[{"name":"f"}],"messages":[{"role":"user","content":"x"},
		{"role":"assistant","function_call":{"name":"f","arguments":"{}"}},{"role":"function","name":"f","content":"1"},
		{"role":"assistant","function_call":{"name":"f","arguments":"{}"}},{"role":"function","name":"f","content":"2"}]}`)
	out := encoded(t, r, "gpt-4.1")
	for call, result := range map[string]string{"messages.1.tool_calls.0.id": "messages.2.tool_call_id", "messages.3.tool_calls.0.id": "messages.4.tool_call_id"} {
		if c := member(out.Body, call); c == "" || c != member(out.Body, result) {
			t.Errorf("%s is %s, %s is %s", call, c, result, member(out.Body, result))
		}
	}
	if rawjson.Get(out.Body, "functions") != nil || member(out.Body, "tools.0.function.parameters") != `{"type":"object","properties":{}}` {
		t.Errorf("%s", out.Body)
	}
}
