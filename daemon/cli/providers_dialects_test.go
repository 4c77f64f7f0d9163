//go:build linux

package cli_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// The conversation that a client of each dialect holds: a question, a call of the tool, its result, an answer.
const (
	lookTool   = "look"
	lookSchema = `{"type":"object","properties":{"at":{"type":"string"}},"required":["at"]}`
	lookInput  = `{"at":"stripes"}`
	lookResult = "The zebra has stripes."
)

// rigCall is the tool call that a client was told to make.
type rigCall struct{ id, name, input, signature string }

// question is the body of a request in a dialect; call is what the answer before it asked for, nil: it is the first.
func (r *providerRig) question(dialect, model string, stream bool, call *rigCall) string {
	history, head := "", fmt.Sprintf(`{"model":%q,"stream":%t,`, model, stream)
	switch dialect {
	case "anthropic":
		if call != nil {
			history = fmt.Sprintf(`,{"role":"assistant","content":[{"type":"tool_use","id":%q,"name":%q,"input":%s}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":%q,"content":%q}]}`,
				call.id, call.name, call.input, call.id, lookResult)
		}
		return head + fmt.Sprintf(`"max_tokens":512,"tools":[{"name":%q,"description":"Looks.","input_schema":%s}],"messages":[{"role":"user","content":%q}%s]}`,
			lookTool, lookSchema, e2ePrompt, history)
	case "openai-chat":
		if call != nil {
			history = fmt.Sprintf(`,{"role":"assistant","content":null,"tool_calls":[{"id":%q,"type":"function","function":{"name":%q,"arguments":%q}}]},{"role":"tool","tool_call_id":%q,"content":%q}`,
				call.id, call.name, call.input, call.id, lookResult)
		}
		if stream {
			head += `"stream_options":{"include_usage":true},`
		}
		return head + fmt.Sprintf(`"tools":[{"type":"function","function":{"name":%q,"description":"Looks.","parameters":%s}}],"messages":[{"role":"user","content":%q}%s]}`,
			lookTool, lookSchema, e2ePrompt, history)
	case "openai-responses":
		if call != nil {
			history = fmt.Sprintf(`,{"type":"function_call","call_id":%q,"name":%q,"arguments":%q},{"type":"function_call_output","call_id":%q,"output":%q}`,
				call.id, call.name, call.input, call.id, lookResult)
		}
		return head + fmt.Sprintf(`"store":false,"tools":[{"type":"function","name":%q,"description":"Looks.","parameters":%s,"strict":false}],"input":[{"role":"user","content":%q}%s]}`,
			lookTool, lookSchema, e2ePrompt, history)
	}
	if call != nil {
		id, signature := "", ""
		if call.id != "" {
			id = fmt.Sprintf(`"id":%q,`, call.id)
		}
		if call.signature != "" {
			signature = fmt.Sprintf(`,"thoughtSignature":%q`, call.signature)
		}
		history = fmt.Sprintf(`,{"role":"model","parts":[{"functionCall":{%s"name":%q,"args":%s}%s}]},{"role":"user","parts":[{"functionResponse":{%s"name":%q,"response":{"output":%q}}}]}`,
			id, call.name, call.input, signature, id, call.name, lookResult)
	}
	return fmt.Sprintf(`{"tools":[{"functionDeclarations":[{"name":%q,"description":"Looks.","parameters":%s}]}],"contents":[{"role":"user","parts":[{"text":%q}]}%s]}`,
		lookTool, lookSchema, e2ePrompt, history)
}

// say asks as a client of a dialect does; each shows its key in its own way.
func (r *providerRig) say(dialect, model string, stream bool, call *rigCall) rigAnswer {
	r.t.Helper()
	header := []string{"Content-Type: application/json", map[string]string{
		"anthropic": "X-Api-Key: " + rigCallerKey, "gemini": "X-Goog-Api-Key: " + rigCallerKey,
		"openai-chat": "Authorization: Bearer " + rigCallerKey, "openai-responses": "Authorization: Bearer " + rigCallerKey,
	}[dialect]}
	path := map[string]string{"anthropic": "/v1/messages", "openai-chat": "/v1/chat/completions", "openai-responses": "/v1/responses", "gemini": "/v1beta/models/" + model + ":generateContent"}[dialect]
	switch {
	case dialect == "anthropic":
		header = append(header, "Anthropic-Version: 2023-06-01")
	case dialect == "gemini" && stream:
		path = "/v1beta/models/" + model + ":streamGenerateContent?alt=sse"
	}
	return r.ask("POST", path, r.question(dialect, model, stream, call), header...)
}

// heard is what a client understood of an answer.
type heard struct {
	text  string
	calls []rigCall
	ended bool // it said that this is all
}

// rigPiece are the members of all dialects' answers and events.
type rigPiece struct {
	Type, ID, Name string
	Text           json.RawMessage // a settings object where a response repeats them
	Thought        bool
	Signature      string `json:"thoughtSignature"`
	Input, Args    json.RawMessage
	Partial        string `json:"partial_json"`
	CallID         string `json:"call_id"`
	Arguments      string
	Status         string
	StopReason     string `json:"stop_reason"`

	Delta        json.RawMessage
	ContentBlock *rigPiece `json:"content_block"`
	Content      json.RawMessage
	Choices      []struct {
		Message, Delta *rigMessage
		Finish         string `json:"finish_reason"`
	}
	Output     []rigPiece
	Response   *rigPiece
	Call       *rigPiece `json:"functionCall"`
	Candidates []struct {
		Content struct{ Parts []rigPiece }
		Finish  string `json:"finishReason"`
	}
}

type rigMessage struct {
	Content string
	Calls   []struct {
		ID       string
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
}

// hear reads an answer as a client of a dialect does.
func hear(t *testing.T, dialect, body string, stream bool) heard {
	t.Helper()
	var h heard
	if !stream {
		h.piece(t, dialect, body)
		return h
	}
	for line := range strings.Lines(body) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		switch {
		case !ok:
		case data == "[DONE]":
			h.ended = dialect == "openai-chat"
		default:
			h.piece(t, dialect, data)
		}
	}
	return h
}

func (h *heard) piece(t *testing.T, dialect, data string) {
	t.Helper()
	var p rigPiece
	if err := json.Unmarshal([]byte(data), &p); err != nil {
		t.Errorf("%s: %v: %s", dialect, err, data)
		return
	}
	switch dialect {
	case "anthropic":
		h.claude(&p)
	case "openai-chat":
		for _, c := range p.Choices {
			m := c.Delta
			if c.Message != nil {
				m, h.ended = c.Message, c.Finish != ""
			}
			h.chat(m)
		}
	case "openai-responses":
		if p.Response != nil {
			p = *p.Response
		}
		if p.Status == "completed" {
			h.responses(&p)
		}
	default:
		for _, c := range p.Candidates {
			for _, part := range c.Content.Parts {
				h.gemini(&part)
			}
			h.ended = h.ended || c.Finish != ""
		}
	}
}

func (h *heard) claude(p *rigPiece) {
	var delta rigPiece
	_ = json.Unmarshal(p.Delta, &delta) // there may be none
	switch p.Type {
	case "message":
		var blocks []rigPiece
		_ = json.Unmarshal(p.Content, &blocks) // what is missing is noticed
		for _, b := range blocks {
			if h.text += said(b.Text); b.Type == "tool_use" {
				h.calls = append(h.calls, rigCall{id: b.ID, name: b.Name, input: string(b.Input)})
			}
		}
		h.ended = p.StopReason != ""
	case "content_block_start":
		if b := p.ContentBlock; b.Type == "tool_use" {
			h.calls = append(h.calls, rigCall{id: b.ID, name: b.Name})
		}
	case "content_block_delta":
		if h.text += said(delta.Text); delta.Partial != "" {
			h.calls[len(h.calls)-1].input += delta.Partial
		}
	case "message_stop":
		h.ended = true
	}
}

func (h *heard) chat(m *rigMessage) {
	if m == nil {
		return
	}
	h.text += m.Content
	for _, c := range m.Calls {
		if c.ID != "" {
			h.calls = append(h.calls, rigCall{id: c.ID, name: c.Function.Name})
		}
		h.calls[len(h.calls)-1].input += c.Function.Arguments
	}
}

func (h *heard) responses(p *rigPiece) {
	for _, item := range p.Output {
		switch item.Type {
		case "message":
			var parts []rigPiece
			_ = json.Unmarshal(item.Content, &parts) // what is missing is noticed
			for _, part := range parts {
				h.text += said(part.Text)
			}
		case "function_call":
			h.calls = append(h.calls, rigCall{id: item.CallID, name: item.Name, input: item.Arguments})
		}
	}
	h.ended = true
}

func (h *heard) gemini(part *rigPiece) {
	switch {
	case part.Call != nil:
		h.calls = append(h.calls, rigCall{id: part.Call.ID, name: part.Call.Name, input: string(part.Call.Args), signature: part.Signature})
	case !part.Thought:
		h.text += said(part.Text)
	}
}

// said is a text that is JSON.
func said(raw json.RawMessage) (text string) {
	_ = json.Unmarshal(raw, &text) // there may be none
	return text
}

// wantError checks that an error has the dialect's form and no other's.
func wantError(t *testing.T, dialect string, a rigAnswer) {
	t.Helper()
	var e struct {
		Type  string
		Error struct {
			Code          any
			Message, Type string
			Status        string
		}
	}
	if err := json.Unmarshal([]byte(a.body), &e); err != nil || e.Error.Message == "" {
		t.Errorf("%s: status %d: %v: %s", dialect, a.status, err, a.body)
		return
	}
	good := false
	switch dialect {
	case "anthropic":
		good = e.Type == "error" && e.Error.Type != ""
	case "gemini":
		code, _ := e.Error.Code.(float64)
		good = int(code) == a.status && e.Error.Status != ""
	default:
		good = e.Type == "" && e.Error.Type != ""
	}
	if !good {
		t.Errorf("%s: not its form: status %d: %s", dialect, a.status, a.body)
	}
}
