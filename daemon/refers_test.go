package daemon

import (
	"fmt"
	"strings"
	"testing"

	"coding-proxy/proxy/demo"
)

// itemID asks for an answer as a caller, and returns the id of the answer's first item and the key that has it.
func (i *instance) itemID(caller int, stream bool) (id, key string) {
	i.t.Helper()
	r := i.sayWith(responses, []string{shows(caller)}, "gpt-5.5", stream)
	answer := r.body
	if stream {
		_, data := events(i.t, r.body)
		answer = parse(i.t, data[len(data)-1]).get("response").text()
	}
	return parse(i.t, answer).get("output").list()[0].get("id").str(), i.servedBy(r)
}

// refer asks with an input that names an item by its id alone.
func (i *instance) refer(caller int, item string, more ...string) *reply {
	i.t.Helper()
	body := fmt.Sprintf(`{"model":"gpt-5.5","input":[%s,{"role":"user","content":"and now?"}]%s}`, item, rest(more))
	return i.send(responses, "/v1/responses", body, shows(caller))
}

// An item that a request names by its id alone is looked for where it was made, and by its caller alone (routing.md, 2).
func TestItemReferencesStayWithTheirKey(t *testing.T) {
	t.Parallel()
	one, oneURL := strict(t, "one", responses)
	two, twoURL := strict(t, "two", responses)
	i := start(t, twoCallers(), turns(protocolKey(k1, responses, oneURL), protocolKey(k2, responses, twoURL)))
	var of [2]string // an item of each key
	for _, stream := range []bool{false, true, false, true} {
		id, key := i.itemID(1, stream)
		for _, item := range []string{`{"type":"item_reference","id":%q}`, `{"id":%q}`, `{"type":null,"id":%q}`} {
			for range 3 {
				if r := i.refer(1, fmt.Sprintf(item, id)); r.status != 200 || i.servedBy(r) != key {
					t.Errorf("%s of %s: status %d by %s: %s", item, key, r.status, i.servedBy(r), r.body)
				}
			}
		}
		of[map[string]int{k1: 0, k2: 1}[key]] = id
		before := len(one.Requests()) + len(two.Requests())
		f := i.refuses(responses, i.refer(2, fmt.Sprintf(`{"type":"item_reference","id":%q}`, id)), 404, "not_found_error")
		if f.param != "input[0].id" {
			t.Errorf("param %q", f.param)
		}
		if n := len(one.Requests()) + len(two.Requests()) - before; n != 0 {
			t.Errorf("%d requests for another caller", n)
		}
	}
	for n := 0; n < 4 && (of[0] == "" || of[1] == ""); n++ {
		id, key := i.itemID(1, false)
		of[map[string]int{k1: 0, k2: 1}[key]] = id
	}
	both := fmt.Sprintf(`{"type":"item_reference","id":%q},{"type":"item_reference","id":%q}`, of[0], of[1])
	if of[0] == "" || of[1] == "" {
		t.Fatalf("items %q", of)
	}
	f := i.refuses(responses, i.refer(1, both), 400, "invalid_request_error")
	if f.param != "input[1].id" || !strings.Contains(f.message, "whole conversation") {
		t.Errorf("%s: %s", f.param, f.message)
	}
	i.refuses(responses, i.refer(1, `{"type":"item_reference","id":"msg_unknown"}`), 404, "not_found_error")
	i.refuses(responses, i.refer(1, fmt.Sprintf(`{"type":"item_reference","id":%q}`, of[0]), `"previous_response_id":"resp_unknown"`), 404, "not_found_error")
}

// Reasoning that stands in a request by its id alone is no use to another account: it goes, and the request with it no more.
func TestReasoningByItsIDAlone(t *testing.T) {
	t.Parallel()
	p, url := strict(t, "one", responses)
	i := start(t, twoCallers(), poolOf(protocolKey(k1, responses, url)))
	r := i.refer(1, `{"role":"user","content":"a"},{"type":"reasoning","id":"rs_elsewhere","summary":[]},{"type":"message","role":"assistant","id":"msg_1","status":"completed","content":[{"type":"output_text","text":"b","annotations":[]}]}`)
	if r.status != 200 {
		t.Fatalf("status %d: %s", r.status, r.body)
	}
	if got := p.Requests(); len(got) != 2 || strings.Contains(string(got[1].Body), "rs_elsewhere") {
		t.Errorf("%d requests", len(got))
	}
}

// Uploaded files and cached prompts live in one account that we cannot know: they go to the only key that it can be, and
// nowhere where there are several or none (routing.md, 2; conversion.md, 2).
func TestFilesOfOneAccount(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, dialect, body, field, other string }{
		{"Anthropic", claude, `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"document","source":{"type":"file","file_id":"file_1"}}]}]}`, "messages[0].content[0].source.file_id", chat},
		{"Anthropic in a result", claude, `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"n","input":{"file_id":"no"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"image","source":{"type":"file","file_id":"file_1"}}]}]}]}`, "messages[2].content[0].content[0].source.file_id", chat},
		{"Anthropic upload", claude, `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"container_upload","file_id":"file_1"}]}]}`, "messages[0].content[0].file_id", chat},
		{"Chat", chat, `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"q"},{"type":"file","file":{"file_id":"file-1"}}]}]}`, "messages[0].content[1].file.file_id", claude},
		{"Responses", responses, `{"model":"m","input":[{"role":"user","content":[{"type":"input_file","file_id":"file-1"}]}]}`, "input[0].content[0].file_id", claude},
		{"Responses in a result", responses, `{"model":"m","input":[{"role":"user","content":"q"},{"type":"function_call","call_id":"c","name":"n","arguments":"{\"file_id\":\"no\"}"},{"type":"function_call_output","call_id":"c","output":[{"type":"input_image","file_id":"file-1"}]}]}`, "input[2].output[0].file_id", claude},
		{"Gemini", gemini, `{"contents":[{"role":"user","parts":[{"fileData":{"fileUri":"https://generativelanguage.googleapis.com/v1beta/files/1"}}]}]}`, "contents[0].parts[0].fileData.fileUri", claude},
		{"Gemini's cache", gemini, `{"contents":[{"role":"user","parts":[{"text":"q"}]}],"cachedContent":"cachedContents/1"}`, "cachedContent", claude},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBackend(t, says(200, plainAnswer(c.dialect)))
			far, farURL := strict(t, "far", c.other)
			ask := func(i *instance) *reply { return i.in(t).send(c.dialect, pathOf(c.dialect, "m", false), c.body) }

			i := start(t, poolOf(protocolKey(k1, c.other, farURL), protocolKey(k2, c.dialect, b.URL)))
			for range 3 {
				if r := ask(i); r.status != 200 || i.servedBy(r) != k2 {
					t.Errorf("the only key: status %d by %s: %s", r.status, i.servedBy(r), r.body)
				}
			}
			i = start(t, poolOf(protocolKey(k1, c.dialect, b.URL), protocolKey(k2, c.dialect, b.URL)))
			if f := i.refuses(c.dialect, ask(i), 404, "not_found_error"); !strings.Contains(f.message, c.field) {
				t.Errorf("two keys: %s", f.message)
			}
			i = start(t, poolOf(protocolKey(k1, c.other, farURL)))
			if f := i.refuses(c.dialect, ask(i), 400, "invalid_request_error"); !strings.Contains(f.message, c.field) {
				t.Errorf("no key: %s", f.message)
			}
			if n := len(far.Requests()); n != 0 {
				t.Errorf("%d requests went to another provider", n)
			}
		})
	}
	t.Run("not what a tool is given, nor a file of the web", func(t *testing.T) {
		t.Parallel()
		p := demo.New(demo.Options{Name: "p", Dialects: []string{claude, gemini}})
		url := listen(t, p)
		i := start(t, poolOf(protocolKey(k1, claude, url), protocolKey(k2, claude, url)))
		r := i.send(claude, "/v1/messages", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"\"file_id\""},{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"n","input":{"file_id":"no","content":[{"file_id":"no"}]}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"x"}]}]}`)
		if r.status != 200 {
			t.Errorf("a call: status %d: %s", r.status, r.body)
		}
		i = start(t, poolOf(protocolKey(k1, gemini, url), protocolKey(k2, gemini, url)))
		r = i.send(gemini, pathOf(gemini, "m", false), `{"contents":[{"role":"user","parts":[{"fileData":{"fileUri":"https://example.org/v1beta/files/1","mimeType":"image/png"}},{"text":"q"}]}]}`)
		if r.status != 200 {
			t.Errorf("a file of the web: status %d: %s", r.status, r.body)
		}
	})
}
