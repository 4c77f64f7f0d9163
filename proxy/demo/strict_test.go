package demo_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"coding-proxy/proxy/demo"
)

func TestCredentials(t *testing.T) {
	_, url := serve(t, demo.Options{Keys: []string{"sk-sim-1", "sk-sim-2"}})
	for name, test := range map[string]struct {
		key, bearer string
		want        int
	}{
		"x-api-key":        {key: "sk-sim-1", want: 200},
		"bearer":           {bearer: "Bearer sk-sim-2", want: 200},
		"both":             {key: "sk-sim-1", bearer: "Bearer sk-sim-2", want: 200},
		"none":             {want: 401},
		"unknown":          {key: "sk-other", want: 401},
		"unknown bearer":   {bearer: "Bearer sk-other", want: 401},
		"one that leaks":   {key: "sk-sim-1", bearer: "Bearer proxy-key-laptop-0001", want: 401},
		"no bearer scheme": {bearer: "Basic c2stc2ltLTE=", want: 401},
	} {
		t.Run(name, func(t *testing.T) {
			response := post(t, url+"/v1/messages", `{`+hello+`}`, func(h http.Header) {
				h.Del("x-api-key")
				if test.key != "" {
					h.Set("x-api-key", test.key)
				}
				if test.bearer != "" {
					h.Set("authorization", test.bearer)
				}
			})
			if response.StatusCode != test.want {
				t.Fatalf("status %d, want %d", response.StatusCode, test.want)
			}
			if test.want == http.StatusUnauthorized {
				if e := readError(t, response); e.Error.Type != "authentication_error" || strings.Contains(e.Error.Message, "sk-") {
					t.Errorf("%+v", e)
				}
			}
		})
	}
}

func TestVersions(t *testing.T) {
	_, url := serve(t, demo.Options{})
	for version, want := range map[string]int{"": 400, "2023-06-01": 200, "2026-10-21": 200, "2024-01-01": 400} {
		response := post(t, url+"/v1/messages", `{`+hello+`}`, func(h http.Header) {
			h.Del("anthropic-version")
			if version != "" {
				h.Set("anthropic-version", version)
			}
		})
		if response.StatusCode != want {
			t.Errorf("version %q: status %d, want %d", version, response.StatusCode, want)
		}
	}
}

// TestRefusedBodies has bodies in which one thing is wrong; the message names it.
func TestRefusedBodies(t *testing.T) {
	_, url := serve(t, demo.Options{})
	tools := func(list string) string { return `{` + hello + `,"tools":` + list + `}` }
	for name, test := range map[string]struct{ body, want string }{
		"no JSON":               {`hello`, "not valid JSON"},
		"no object":             {`[]`, "not valid JSON"},
		"no model":              {`{"max_tokens":1,"messages":[{"role":"user","content":"hi"}]}`, "model: Field required"},
		"empty model":           {`{"model":"","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}`, "model:"},
		"no messages":           {`{"model":"m","max_tokens":1}`, "messages: Field required"},
		"empty messages":        {`{"model":"m","max_tokens":1,"messages":[]}`, "messages: at least one"},
		"no max_tokens":         {`{"model":"m","messages":[{"role":"user","content":"hi"}]}`, "max_tokens: Field required"},
		"negative max_tokens":   {`{"model":"m","max_tokens":-1,"messages":[{"role":"user","content":"hi"}]}`, "max_tokens:"},
		"unknown field":         {`{` + hello + `,"parallel_tool_calls":true}`, "parallel_tool_calls: Extra inputs"},
		"beta field alone":      {`{` + hello + `,"context_management":{"edits":[]}}`, "context_management: Extra inputs"},
		"wrong type":            {`{"model":"m","max_tokens":"1","messages":[{"role":"user","content":"hi"}]}`, "max_tokens"},
		"small thinking budget": {`{` + hello + `,"thinking":{"type":"enabled","budget_tokens":1000}}`, "budget_tokens"},
		"large thinking budget": {`{` + hello + `,"thinking":{"type":"enabled","budget_tokens":2048}}`, "must be greater than"},
		"empty system block":    {`{` + hello + `,"system":[{"type":"text","text":""}]}`, "system.0"},
		"tool name":             {tools(`[{"name":"a.b","input_schema":{"type":"object"}}]`), "tools.0.custom.name"},
		"tool twice":            {tools(`[{"name":"a","input_schema":{"type":"object"}},{"name":"a","input_schema":{"type":"object"}}]`), "must be unique"},
		"tool without schema":   {tools(`[{"name":"a"}]`), "tools.0.custom.input_schema"},
	} {
		t.Run(name, func(t *testing.T) { wantRefusal(t, url, test.body, test.want) })
	}
}

func wantRefusal(t *testing.T, url, body, want string) {
	t.Helper()
	response := post(t, url+"/v1/messages", body)
	e := readError(t, response)
	if response.StatusCode != http.StatusBadRequest || e.Error.Type != "invalid_request_error" || !strings.Contains(e.Error.Message, want) {
		t.Errorf("%d %+v, want %q", response.StatusCode, e, want)
	}
}

// Parts of conversations.
const (
	asks     = `{"role":"user","content":"hi"}`
	calls    = `{"role":"assistant","content":[{"type":"text","text":"ok"},{"type":"tool_use","id":"toolu_1","name":"a","input":{}}]}`
	callsTwo = `{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"a","input":{}},{"type":"tool_use","id":"toolu_2","name":"a","input":{}}]}`
	result   = `{"type":"tool_result","tool_use_id":"toolu_1","content":"done"}`
	result2  = `{"type":"tool_result","tool_use_id":"toolu_2","content":[{"type":"text","text":"done"}]}`
	says     = `{"role":"assistant","content":"well"}`
)

func user(blocks ...string) string {
	return `{"role":"user","content":[` + strings.Join(blocks, ",") + `]}`
}

func conversation(messages ...string) string {
	return `{"model":"m","max_tokens":1,"messages":[` + strings.Join(messages, ",") + `]}`
}

func TestConversations(t *testing.T) {
	_, url := serve(t, demo.Options{})
	text := func(s string) string { return `{"type":"text","text":"` + s + `"}` }
	for name, test := range map[string]struct {
		messages []string
		want     string // part of the refusal; empty: accepted
	}{
		"turns":                       {messages: []string{asks, says, asks}},
		"assistant first":             {messages: []string{says, asks}},
		"prefill":                     {messages: []string{asks, says}},
		"system messages":             {messages: []string{asks, `{"role":"system","content":"now"}`, calls, `{"role":"system","content":"now"}`, user(result)}},
		"same role twice":             {messages: []string{asks, asks, callsTwo, user(result), user(result2, text("go on"))}},
		"calls over two messages":     {messages: []string{asks, says, calls, user(result)}},
		"parallel calls":              {messages: []string{asks, callsTwo, user(result2, result, text("go on"))}},
		"unknown role":                {[]string{`{"role":"tool","content":"x"}`}, "messages.0.role"},
		"no content":                  {[]string{`{"role":"user","content":null}`}, "messages.0: user messages must have non-empty content"},
		"no blocks":                   {[]string{asks, says, user()}, "messages.2"},
		"content of a wrong type":     {[]string{`{"role":"user","content":7}`}, "content is neither"},
		"block without a type":        {[]string{user(`{"text":"x"}`)}, "messages.0.content.0.type"},
		"empty string":                {[]string{`{"role":"user","content":""}`}, "must be non-empty"},
		"empty text block":            {[]string{user(text("a"), text(""))}, "messages.0.content.1.text: text content blocks must be non-empty"},
		"blank text block":            {[]string{user(text(" "))}, "non-whitespace"},
		"prefill that ends in space":  {[]string{asks, `{"role":"assistant","content":"well "}`}, "trailing whitespace"},
		"call without result":         {[]string{asks, calls, asks}, "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1"},
		"call at the end":             {[]string{asks, calls}, "messages.1: `tool_use` ids"},
		"one of two results":          {[]string{asks, callsTwo, user(result)}, "immediately after: toolu_2"},
		"result without call":         {[]string{asks, says, user(result)}, "messages.2.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_1"},
		"result first of all":         {[]string{user(result)}, "messages.0.content.0: unexpected"},
		"result a turn late":          {[]string{asks, calls, user(result), says, user(result)}, "messages.4.content.0: unexpected"},
		"result twice":                {[]string{asks, calls, user(result, result)}, "single result"},
		"result after text":           {[]string{asks, calls, user(text("so"), result)}, "must come first"},
		"call twice":                  {[]string{asks, calls, calls, user(result)}, "must be unique"},
		"tool_use id":                 {[]string{asks, strings.Replace(calls, "toolu_1", "call.1", 1), user(result)}, "messages.1.content.1.tool_use.id"},
		"cache_control on thinking":   {[]string{asks, `{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"x","cache_control":{"type":"ephemeral"}},` + text("ok") + `]}`, asks}, "thinking.cache_control"},
		"five cache_controls":         {[]string{user(strings.Repeat(`{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},`, 4) + `{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}`)}, "Found 5"},
		"foreign signature is passed": {messages: []string{asks, `{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"x"},` + text("ok") + `]}`, asks}},
	} {
		t.Run(name, func(t *testing.T) {
			body := conversation(test.messages...)
			if test.want != "" {
				wantRefusal(t, url, body, test.want)
				return
			}
			if response := post(t, url+"/v1/messages", body); response.StatusCode != http.StatusOK {
				t.Errorf("%d: %s", response.StatusCode, read(t, response))
			}
		})
	}
}

func TestSignaturesOfOthersAreRefusedOnDemand(t *testing.T) {
	for signer, want := range map[string]int{"one": 200, "two": 400} {
		p, url := serve(t, demo.Options{Name: signer})
		p.Push(demo.Step{Thinking: "hm", Text: "ok"})
		var answer struct{ Content json.RawMessage }
		if err := json.Unmarshal([]byte(read(t, post(t, url+"/v1/messages", `{`+hello+`}`))), &answer); err != nil {
			t.Fatal(err)
		}
		_, other := serve(t, demo.Options{Name: "one", CheckSignatures: true})
		body := conversation(asks, fmt.Sprintf(`{"role":"assistant","content":%s}`, answer.Content), asks)
		if response := post(t, other+"/v1/messages", body); response.StatusCode != want {
			t.Errorf("signed by %s: %d %s", signer, response.StatusCode, read(t, response))
		}
	}
}

func TestFieldsFollowVersionBetaAndEndpoint(t *testing.T) {
	_, url := serve(t, demo.Options{})
	count := `"model":"m","messages":[` + asks + `]`
	for _, test := range []struct {
		path, body, version, beta string
		want                      int
	}{
		{"/v1/messages", `{` + hello + `,"temperature":1}`, "2023-06-01", "", 200},
		{"/v1/messages", `{` + hello + `,"temperature":1}`, "2026-10-21", "", 400},
		{"/v1/messages", `{` + hello + `,"context_management":{"edits":[]}}`, "2023-06-01", "a-2025,context-management-2025-06-27", 200},
		{"/v1/messages", `{` + hello + `,"mcp_servers":[]}`, "2026-10-21", "mcp-client-2026-09-15", 200},
		{"/v1/messages", `{` + hello + `,"mcp_servers":[]}`, "2026-10-21", "fast-mode-2026-02-01", 400},
		{"/v1/messages", `{` + hello + `,"fallbacks":"default"}`, "2026-10-21", "server-side-fallback-2026-07-01", 200},
		{"/v1/messages/count_tokens", `{` + count + `,"system":"be brief"}`, "2026-10-21", "", 200},
		{"/v1/messages/count_tokens", `{` + count + `,"stream":true}`, "2026-10-21", "", 400},
		{"/v1/messages/count_tokens", `{` + count + `,"max_tokens":1}`, "2026-10-21", "", 400},
	} {
		response := post(t, url+test.path, test.body, func(h http.Header) {
			h.Set("anthropic-version", test.version)
			h.Set("anthropic-beta", test.beta)
		})
		if response.StatusCode != test.want {
			t.Errorf("%+v: %d %s", test, response.StatusCode, read(t, response))
		}
	}
}

func TestUnknownModel(t *testing.T) {
	_, url := serve(t, demo.Options{Models: []string{"claude-opus-5-5"}})
	response := post(t, url+"/v1/messages", conversation(asks))
	if e := readError(t, response); response.StatusCode != http.StatusNotFound || e.Error.Type != "not_found_error" || e.Error.Message != "model: m" {
		t.Errorf("%d %+v", response.StatusCode, e)
	}
}

func TestHugeBody(t *testing.T) {
	_, url := serve(t, demo.Options{})
	body := `{"model":"` + strings.Repeat("m", 32<<20) + `"}`
	response := post(t, url+"/v1/messages", body)
	if e := readError(t, response); response.StatusCode != http.StatusRequestEntityTooLarge || e.Error.Type != "request_too_large" {
		t.Errorf("%d %+v", response.StatusCode, e)
	}
}
