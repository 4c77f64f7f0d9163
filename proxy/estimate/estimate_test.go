package estimate

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// oneMessage is a body whose only message has the content given as JSON.
func oneMessage(content string) string {
	return `{"messages":[{"role":"user","content":` + content + `}]}`
}

func count(t testing.TB, body string) int {
	t.Helper()
	n, err := Anthropic([]byte(body))
	if err != nil {
		t.Fatalf("%.200s: %v", body, err)
	}
	return n
}

// The counts are those of the examples of Anthropic's token counting page.
func TestAnthropicDocumentedCounts(t *testing.T) {
	for _, test := range []struct {
		name, body string
		counted    int
	}{
		{"system", `{"system":"You are a scientist","messages":[{"role":"user","content":"Hello, Claude"}]}`, 14},
		{"tool", `{"tools":[{"name":"get_weather","description":"Get the current weather in a given location","input_schema":{"type":"object","properties":{"location":{"type":"string","description":"The city and state, e.g. San Francisco, CA"}},"required":["location"]}}],"messages":[{"role":"user","content":"What's the weather like in San Francisco?"}]}`, 403},
	} {
		got := count(t, test.body)
		if ratio := float64(got) / float64(test.counted); ratio < 1 || ratio > 1.15 {
			t.Errorf("%s: %d, counted %d: ratio %.2f", test.name, got, test.counted, ratio)
		}
	}
}

// bodies are the captured bodies of testdata by file name.
func bodies(t testing.TB) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no captured bodies in testdata: %v", err)
	}
	all := make(map[string][]byte)
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(file)] = body
	}
	return all
}

// What real clients sent; the texts were shortened when they were captured. The bounds are 2.5 to 4.5 bytes a token
// beyond the prompt for tool use, but for the one with an image.
func TestAnthropicCaptures(t *testing.T) {
	fixed := map[string]int{
		"claude-tui-3.json":          0,
		"claude-tui-14.json":         toolPromptAuto,
		"claude-tui-15.json":         toolPromptAuto,
		"claude20-telemetry-1.json":  toolPromptAuto,
		"claude-image-2.json":        toolPromptAuto,
		"sdk-anthropic-count-1.json": 0,
	}
	all := bodies(t)
	if len(all) != len(fixed) {
		t.Errorf("%d bodies in testdata, %d known here", len(all), len(fixed))
	}
	for name, body := range all {
		n := count(t, string(body))
		text := float64(n - fixed[name])
		if len(body) < 200 {
			text += 10 // the envelope is most of it
		}
		if ratio := float64(len(body)) / text; ratio < 2.5 || ratio > 4.5 {
			t.Errorf("%s: %d tokens for %d bytes: %.2f bytes a token", name, n, len(body), ratio)
		}
	}
}

// Each block's cost is what it adds to a message of another, empty block list.
func TestAnthropicBlocks(t *testing.T) {
	long := strings.Repeat("word ", 100) // 106 tokens
	png := base64Of(encoded(t, "png"))
	picture := Image(testWidth, testHeight)
	pdf := base64Of([]byte("%PDF-1.4 <</Type/Pages/Count 2>> <</Type/Page>> <</Type /Page>> <</Type /Pages>>"))
	for _, test := range []struct {
		name, block string
		low, high   int
	}{
		{"text", `{"type":"text","text":"` + long + `","cache_control":{"type":"ephemeral"}}`, 106, 106},
		{"text with citations", `{"type":"text","text":"` + long + `","citations":[{"cited_text":"` + long + `"}]}`, 106, 106},
		{"empty text", `{"type":"text","text":""}`, 0, 0},
		{"image", `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + png + `"}}`, picture, picture},
		{"image with escapes", `{"type":"image","source":{"type":"base64","data":"` + strings.ReplaceAll(png, "/", `\/`) + `"}}`, picture, picture},
		{"image in lines", `{"type":"image","source":{"type":"base64","data":"` + png[:20] + `\n` + png[20:] + `"}}`, picture, picture},
		{"broken image", `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + strings.Repeat("A", 1<<20) + `"}}`, 1600, 1600},
		{"image by url", `{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}}`, 1600, 1600},
		{"image by file", `{"type":"image","source":{"type":"file","file_id":"file_1"}}`, 1600, 1600},
		{"image without source", `{"type":"image"}`, 1600, 1600},
		{"PDF", `{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"` + pdf + `"}}`, 6000, 6000},
		{"PDF of hidden pages", `{"type":"document","source":{"type":"base64","data":"` + base64Of(make([]byte, 170_000)) + `"}}`, 12000, 12000},
		{"text document", `{"type":"document","title":"A title","context":"Some context","source":{"type":"text","media_type":"text/plain","data":"` + long + `"}}`, 108, 112},
		{"content document", `{"type":"document","source":{"type":"content","content":"` + long + `"}}`, 106, 106},
		{"document of blocks", `{"type":"document","source":{"type":"content","content":[{"type":"text","text":"` + long + `"},{"type":"image","source":{"type":"base64","data":"` + png + `"}}]}}`, 106 + picture, 106 + picture},
		{"document by url", `{"type":"document","source":{"type":"url","url":"https://example.com/a.pdf"}}`, 15000, 15000},
		{"tool_use", `{"type":"tool_use","id":"toolu_1","name":"Bash","input":{"command":"` + long + `"}}`, 120, 135},
		{"tool_use of base64 text", `{"type":"tool_use","id":"t","name":"Write","input":{"content":"` + strings.Repeat("aB3d", 5000) + `"}}`, 5000, 30000},
		{"server_tool_use", `{"type":"server_tool_use","id":"s","name":"web_search","input":{"query":"` + long + `"}}`, 120, 135},
		{"mcp_tool_use", `{"type":"mcp_tool_use","id":"m","name":"add","server_name":"demo","input":{"a":1}}`, 15, 40},
		{"tool_result", `{"type":"tool_result","tool_use_id":"t","content":"` + long + `"}`, 110, 125},
		{"tool_result without content", `{"type":"tool_result","tool_use_id":"t"}`, 5, 20},
		{"tool_result null", `{"type":"tool_result","tool_use_id":"t","content":null}`, 5, 20},
		{"tool_result with image", `{"type":"tool_result","content":[{"type":"text","text":"` + long + `"},{"type":"image","source":{"type":"base64","data":"` + png + `"}}]}`, 110 + picture, 125 + picture},
		{"mcp_tool_result", `{"type":"mcp_tool_result","tool_use_id":"m","content":[{"type":"text","text":"` + long + `"}]}`, 110, 125},
		{"thinking", `{"type":"thinking","thinking":"` + long + `","signature":"` + strings.Repeat("A", 4000) + `"}`, 106, 106},
		{"omitted thinking", `{"type":"thinking","thinking":"","signature":"` + strings.Repeat("A", 1600) + `"}`, 300, 300},
		{"redacted_thinking", `{"type":"redacted_thinking","data":"` + strings.Repeat("A", 1600) + `"}`, 300, 300},
		{"search_result", `{"type":"search_result","source":"https://example.com","title":"A title","content":[{"type":"text","text":"` + long + `"}]}`, 110, 120},
		{"web_search_tool_result", `{"type":"web_search_tool_result","tool_use_id":"s","content":[{"type":"web_search_result","url":"https://example.com","title":"A","encrypted_content":"` + strings.Repeat("A", 1600) + `"}]}`, 320, 380},
		{"web_search_tool_result error", `{"type":"web_search_tool_result","tool_use_id":"s","content":{"type":"web_search_tool_result_error","error_code":"unavailable"}}`, 10, 60},
		{"web_fetch_tool_result", `{"type":"web_fetch_tool_result","content":{"type":"web_fetch_result","url":"https://example.com","content":{"type":"document","source":{"type":"base64","data":"` + pdf + `"}}}}`, 6010, 6030},
		{"web_fetch_tool_result error", `{"type":"web_fetch_tool_result","content":{"type":"web_fetch_tool_error","error_code":"unavailable"}}`, 5, 20},
		{"code_execution_tool_result", `{"type":"code_execution_tool_result","content":{"type":"code_execution_result","stdout":"` + long + `","return_code":0}}`, 120, 170},
		{"unknown block", `{"type":"hologram","words":"` + long + `","count":3}`, 110, 130},
		{"unknown block with odd fields", `{"type":"hologram","text":5,"source":[1],"content":{"a":null}}`, 10, 40},
		{"unknown block with base64", `{"type":"audio","source":{"type":"base64","data":"` + strings.Repeat("A", 1<<20) + `"}}`, 1600, 1640},
		{"block without type", `{"text":"` + long + `"}`, 105, 120},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := count(t, oneMessage("["+test.block+"]")) - count(t, oneMessage("[]"))
			if got < test.low || got > test.high {
				t.Errorf("%d tokens, want %d to %d", got, test.low, test.high)
			}
		})
	}
}

func TestAnthropicEscapesAreRead(t *testing.T) {
	plain := count(t, oneMessage(`[{"type":"tool_use","name":"a","input":{"text":"你好"}}]`))
	escaped := count(t, oneMessage(`[{"type":"tool_use","name":"a","input":  {"text" :"\u4f60\u597d" } }]`))
	if plain != escaped {
		t.Errorf("%d tokens plain, %d escaped and spaced", plain, escaped)
	}
}

func TestAnthropicTools(t *testing.T) {
	const message = `"messages":[{"role":"user","content":"hi"}]`
	const add = `{"name":"add","description":"Adds two numbers","input_schema":{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}}}}`
	base := count(t, "{"+message+"}")
	for _, test := range []struct {
		name, fields string
		low, high    int
	}{
		{"none", `"tools":[]`, 0, 0},
		{"null", `"tools":null,"tool_choice":null,"system":null`, 0, 0},
		{"one", `"tools":[` + add + `]`, 346 + 30, 346 + 70},
		{"two", `"tools":[` + add + `,` + add + `]`, 346 + 60, 346 + 140},
		{"auto", `"tools":[` + add + `],"tool_choice":{"type":"auto"}`, 346 + 30, 346 + 70},
		{"forced", `"tools":[` + add + `],"tool_choice":{"type":"tool","name":"add"}`, 313 + 30, 313 + 70},
		{"any", `"tools":[` + add + `],"tool_choice":{"type":"any"}`, 313 + 30, 313 + 70},
		{"bash", `"tools":[{"type":"bash_20250124","name":"bash"}]`, 346 + 245, 346 + 290},
		{"text editor", `"tools":[{"type":"text_editor_20250728","name":"str_replace_based_edit_tool"}]`, 346 + 700, 346 + 750},
		{"computer", `"tools":[{"type":"computer_20250124","name":"computer"}]`, 346 + 1234, 346 + 1290},
		{"web search", `"tools":[{"type":"web_search_20250305","name":"web_search","max_uses":8}]`, 346 + 700, 346 + 750},
		{"unknown type", `"tools":[{"type":"teleport_20300101","name":"teleport"}]`, 346 + 700, 346 + 750},
		{"schema for the answer", `"output_config":{"format":{"type":"json_schema","schema":{"type":"object","properties":{"a":{"type":"number"}}}}}`, 10, 40},
		{"schema in the older field", `"output_format":{"type":"json_schema","schema":{"type":"object","properties":{"a":{"type":"number"}}}}`, 10, 40},
		{"fields that cost nothing", `"model":"m","max_tokens":5,"metadata":{"user_id":"u"},"stream":true,"new_field":{"a":1}`, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := count(t, "{"+test.fields+","+message+"}") - base
			if got < test.low || got > test.high {
				t.Errorf("%d tokens, want %d to %d", got, test.low, test.high)
			}
		})
	}
}

func TestAnthropicDeferredTools(t *testing.T) {
	body := func(deferred bool, content string) string {
		return fmt.Sprintf(`{"tools":[{"name":"ToolSearch"},{"name":"mcp__demo__add","description":%q,"defer_loading":%t}],"messages":[{"role":"user","content":%s}]}`,
			strings.Repeat("word ", 1000), deferred, content)
	}
	loaded, hidden := count(t, body(false, `"hi"`)), count(t, body(true, `"hi"`))
	if loaded-hidden < 1000 {
		t.Errorf("%d tokens with a deferred tool, %d with it loaded", hidden, loaded)
	}
	for _, block := range []string{
		`{"type":"tool_result","content":[{"type":"tool_reference","tool_name":"mcp__demo__add"}]}`,
		`{"type":"tool_search_tool_result","content":{"type":"tool_search_tool_search_result","tool_references":[{"type":"tool_reference","tool_name":"mcp__demo__add"}]}}`,
	} {
		if found := count(t, body(true, "["+block+"]")); found < loaded {
			t.Errorf("%d tokens once it was found, %d with it loaded: %s", found, loaded, block)
		}
	}
	if n := count(t, body(true, `[{"type":"tool_search_tool_result","content":{"type":"tool_search_tool_result_error","error_code":"unavailable"}}]`)); n > hidden+20 {
		t.Errorf("%d tokens after a failed search, %d before", n, hidden)
	}
}

func TestAnthropicIsMonotone(t *testing.T) {
	messages := []string{
		`{"role":"user","content":"hi"}`,
		`{"role":"user","content":""}`,
		`{"role":"user","content":[]}`,
		`{"role":"system","content":"Answer in French."}`,
		`{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":""}]}`,
		`{"role":"assistant","content":[{"type":"tool_use","name":"a","input":{}}]}`,
		`{"role":"user","content":[{"type":"tool_result","content":[{"type":"image"}]}]}`,
		`{"role":"user","content":[{"type":"hologram"}]}`,
		`{"content":"no role"}`,
	}
	last := 0
	for i := range len(messages) + 1 {
		n := count(t, `{"system":[{"type":"text","text":"Be brief."}],"messages":[`+strings.Join(messages[:i], ",")+`]}`)
		if n <= last {
			t.Errorf("%d tokens with %d messages, %d with one less", n, i, last)
		}
		last = n
	}
}

// A deep body costs no more than its text, and no more time than a flat one: were every level looked into, this test
// would run for minutes.
func TestAnthropicDepth(t *testing.T) {
	for _, wrap := range []string{
		`{"type":"tool_result","content":[`,
		`{"type":"document","source":{"type":"content","content":[`,
		`{"type":"web_fetch_tool_result","content":{"content":`,
	} {
		closing := map[byte]string{'[': "]", '{': "}"}
		end := ""
		for i := range len(wrap) {
			if c, ok := closing[wrap[i]]; ok {
				end = c + end
			}
		}
		const levels = 2000 // encoding/json itself stops at 10,000
		innermost := `{"type":"image","source":{"data":"` + strings.Repeat("A", 1<<20) + `"}}`
		body := oneMessage("[" + strings.Repeat(wrap, levels) + innermost + strings.Repeat(end, levels) + "]")
		if n := count(t, body); n < levels || n > 60*levels {
			t.Errorf("%s: %d tokens for %d levels", wrap, n, levels)
		}
	}
}

func TestAnthropicErrors(t *testing.T) {
	for _, test := range []struct{ body, want string }{
		{``, "body: must be a JSON object"},
		{`null`, "body: must be a JSON object"},
		{`[]`, "body: must be a JSON object"},
		{`"messages"`, "body: must be a JSON object"},
		{`{"messages":[}`, "body: is not valid JSON"},
		{`hello`, "body: is not valid JSON"},
		{`{"messages":[]} {}`, "body: is not valid JSON"},
		{`{}`, "messages: is required"},
		{`{"messages":null}`, "messages: is required"},
		{`{"messages":{}}`, "messages: must be an array"},
		{`{"messages":"hi"}`, "messages: must be an array"},
		{`{"messages":["hi"]}`, "messages.0: must be an object"},
		{`{"messages":[null]}`, "messages.0: must be an object"},
		{`{"messages":[{"content":"a"},{"role":5,"content":"a"}]}`, "messages.1.role: must be a string"},
		{`{"messages":[{"role":"user"}]}`, "messages.0.content: is required"},
		{oneMessage(`null`), "messages.0.content: is required"},
		{oneMessage(`5`), "messages.0.content: must be a string or an array of blocks"},
		{oneMessage(`{"type":"text"}`), "messages.0.content: must be a string or an array of blocks"},
		{oneMessage(`["a"]`), "messages.0.content.0: must be an object"},
		{oneMessage(`[null]`), "messages.0.content.0: must be an object"},
		{oneMessage(`[{"type":7}]`), "messages.0.content.0.type: must be a string"},
		{oneMessage(`[{"type":"text","text":"a"},{"type":"text","text":["b"]}]`), "messages.0.content.1.text: must be a string"},
		{oneMessage(`[{"type":"image","source":"a"}]`), "messages.0.content.0.source: must be an object"},
		{oneMessage(`[{"type":"image","source":{"data":1}}]`), "messages.0.content.0.source.data: must be a string"},
		{oneMessage(`[{"type":"document","title":{}}]`), "messages.0.content.0.title: must be a string"},
		{oneMessage(`[{"type":"document","source":{"type":"content"}}]`), "messages.0.content.0.source.content: is required"},
		{oneMessage(`[{"type":"thinking","thinking":1}]`), "messages.0.content.0.thinking: must be a string"},
		{oneMessage(`[{"type":"tool_use","name":1}]`), "messages.0.content.0.name: must be a string"},
		{oneMessage(`[{"type":"tool_result","content":1}]`), "messages.0.content.0.content: must be a string or an array of blocks"},
		{oneMessage(`[{"type":"tool_result","content":[{"type":"text","text":1}]}]`), "messages.0.content.0.content.0.text: must be a string"},
		{oneMessage(`[{"type":"search_result","title":1}]`), "messages.0.content.0.title: must be a string"},
		{oneMessage(`[{"type":"web_fetch_tool_result","content":{"content":1}}]`), "messages.0.content.0.content.content: must be an object"},
		{oneMessage(`[{"type":"tool_reference","tool_name":1}]`), "messages.0.content.0.tool_name: must be a string"},
		{oneMessage(`[{"type":"tool_search_tool_result","content":{"tool_references":1}}]`), "messages.0.content.0.content.tool_references: must be an array"},
		{`{"messages":[],"system":5}`, "system: must be a string or an array of blocks"},
		{`{"messages":[],"system":[{"type":"text","text":5}]}`, "system.0.text: must be a string"},
		{`{"messages":[],"tools":{}}`, "tools: must be an array"},
		{`{"messages":[],"tools":["a"]}`, "tools.0: must be an object"},
		{`{"messages":[],"tools":[{"name":"a"},{"name":5}]}`, "tools.1.name: must be a string"},
		{`{"messages":[],"tools":[{"name":"a","defer_loading":"yes"}]}`, "tools.0.defer_loading: must be a boolean"},
		{`{"messages":[],"tool_choice":"auto"}`, "tool_choice: must be an object"},
		{`{"messages":[],"output_config":{"format":5}}`, "output_config.format: must be an object"},
	} {
		n, err := Anthropic([]byte(test.body))
		var field *FieldError
		if !errors.As(err, &field) || err.Error() != test.want || n != 0 {
			t.Errorf("%.120s: %d, %v; want %s", test.body, n, err, test.want)
		}
	}
}

func TestAnthropicNeedsNoCompactBody(t *testing.T) {
	for name, body := range bodies(t) {
		var indented strings.Builder
		encoder := json.NewEncoder(&indented)
		encoder.SetIndent("", "\t")
		if err := encoder.Encode(json.RawMessage(body)); err != nil {
			t.Fatal(err)
		}
		if compact, spaced := count(t, string(body)), count(t, indented.String()); compact != spaced {
			t.Errorf("%s: %d tokens compact, %d indented", name, compact, spaced)
		}
	}
}
