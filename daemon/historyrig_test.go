package daemon

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"coding-proxy/proxy/demo"
)

// histModel is the model that clients of these tests ask for.
const histModel = "work"

// histTier is a tier of one key whose provider speaks one dialect and knows its own signatures alone. It notes the verdict
// on each request.
type histTier struct {
	name, dialect, model string
	provider             *demo.Provider
	url                  string

	mu       sync.Mutex
	verdicts []histVerdict
}

// histVerdict is what a provider said of a request.
type histVerdict struct {
	tier, path string
	body       string
	status     int
	said       string // of an error
}

// refused reports whether the provider found fault with the request; errors that a test ordered are none.
func (v *histVerdict) refused() bool { return v.status >= 400 && v.status < 500 }

// histModels are upstream names whose families differ in what they ask of a history: the first and the second variant.
var histModels = map[string][2]string{
	"anthropic":        {"claude-sonnet-4-5", "claude-opus-5-5"},
	"openai-chat":      {"gpt-5.5", "deepseek-reasoner"},
	"openai-responses": {"gpt-5.5", "gpt-5.5-codex"},
	"gemini":           {"gemini-3.1-pro-preview", "gemini-3.8-flash"},
}

func newHistTier(t *testing.T, name, dialect string, variant int) *histTier {
	t.Helper()
	tier := &histTier{name: name, dialect: dialect, model: histModels[dialect][variant]}
	tier.provider = demo.New(demo.Options{
		Name: name, Dialects: []string{dialect}, CheckSignatures: true, ReplayReasoning: strings.HasPrefix(tier.model, "deepseek"),
	})
	tier.url = listen(t, tier)
	return tier
}

// ServeHTTP hands a request to the provider and notes what came of it.
func (h *histTier) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	h.provider.ServeHTTP(&histWriter{ResponseWriter: w, tier: h, verdict: histVerdict{tier: h.name, path: r.URL.Path, body: string(body)}}, r)
}

// take returns the verdicts since the last call.
func (h *histTier) take() []histVerdict {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := h.verdicts
	h.verdicts = nil
	return list
}

// histWriter notes the status, and the text of an error, before they are sent.
type histWriter struct {
	http.ResponseWriter
	tier    *histTier
	verdict histVerdict
}

func (w *histWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *histWriter) WriteHeader(status int) {
	if w.verdict.status = status; status < 400 {
		w.note()
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *histWriter) Write(p []byte) (int, error) {
	if w.verdict.status >= 400 {
		w.verdict.said = string(p)
		w.note()
	}
	return w.ResponseWriter.Write(p)
}

func (w *histWriter) note() {
	w.tier.mu.Lock()
	defer w.tier.mu.Unlock()
	w.tier.verdicts = append(w.tier.verdicts, w.verdict)
}

// key is the tier's entry of pool.keys.
func (h *histTier) key() string {
	return fmt.Sprintf(`{"id":"key-%[1]s","tier":%[1]q,"provider":%[1]q,"protocol":%q,"base_url":%q,"api_key":%q,"models":{%q:%q}}`,
		h.name, h.dialect, h.url, credential(h.name), histModel, h.model)
}

// overload is the answer of a provider that has no time.
func (h *histTier) overload() demo.Step {
	status := http.StatusServiceUnavailable
	if h.dialect == "anthropic" {
		status = 529
	}
	return demo.Step{Status: status, Header: http.Header{"Retry-After": {"1"}}}
}

// histRig is a proxy before tiers, with a clock that makes cooldowns pass.
type histRig struct {
	*instance
	clock *clock
	tiers []*histTier
	dir   string

	requests, asked int           // of the client, and of the providers
	repaired        int           // requests that a provider took the second time only
	last            []histVerdict // of the last request, in the order of the tiers
	sentTo, sent    string        // the last request itself
}

func histMembers(tiers []*histTier) []string {
	var names, keys []string
	for _, h := range tiers {
		names = append(names, fmt.Sprintf(`{"name":%q}`, h.name))
		keys = append(keys, h.key())
	}
	return []string{`"tiers":[` + strings.Join(names, ",") + `]`, poolOf(keys...)}
}

// newHistRig starts a proxy before tiers of these dialects. Providers of one dialect have different names.
func newHistRig(t *testing.T, variant int, dialects ...string) *histRig {
	t.Helper()
	g := &histRig{clock: &clock{time: time.Now()}, dir: t.TempDir()}
	for n, d := range dialects {
		g.tiers = append(g.tiers, newHistTier(t, fmt.Sprintf("%s-%d", d, n), d, variant))
	}
	g.instance = startInAt(t, g.dir, g.clock, nil, histMembers(g.tiers)...)
	return g
}

// restart ends the proxy and starts it anew: what was only in memory is lost.
func (g *histRig) restart(t *testing.T) {
	t.Helper()
	g.stop()
	g.instance = startInAt(t, g.dir, g.clock, nil, histMembers(g.tiers)...)
}

// send lets the tier at an index answer with a step, all others being overloaded, and gives the client the answer.
func (g *histRig) send(c histClient, session string, tier int, step demo.Step) (*reply, error) {
	g.clock.set(g.clock.now().Add(2 * time.Second)) // cooldowns are over
	for n, h := range g.tiers {
		if h.provider.Always(h.overload()); n == tier {
			h.provider.Always(step)
		}
	}
	path, body := c.request()
	g.requests++
	g.sentTo, g.sent = path, body
	header := []string{version}
	if session != "" {
		header = append(header, "x-session-id: "+session)
	}
	r := g.ask("POST", path, body, header...)
	g.last = g.last[:0]
	for _, h := range g.tiers {
		g.last = append(g.last, h.take()...)
	}
	g.asked += len(g.last)
	if r.status != http.StatusOK || r.err != nil {
		return r, fmt.Errorf("the client gets %d %s (%v)", r.status, r.body, r.err)
	}
	if got := r.header.Get("X-Proxy-Tier"); got != g.tiers[tier].name {
		return r, fmt.Errorf("served by %s, not by %s", got, g.tiers[tier].name)
	}
	return r, nil
}

// history tells what the providers said of the last request.
func (g *histRig) history() string {
	var b strings.Builder
	for _, v := range g.last {
		fmt.Fprintf(&b, "\n- %s %s: %d %s\n  %s", v.tier, v.path, v.status, v.said, v.body)
	}
	return b.String()
}

// served is the request that the provider answered.
func (g *histRig) served() histVerdict {
	for _, v := range g.last {
		if v.status == http.StatusOK {
			return v
		}
	}
	return histVerdict{}
}

// refusals are what the providers found fault with in the last request.
func (g *histRig) refusals() []histVerdict {
	return slices.DeleteFunc(slices.Clone(g.last), func(v histVerdict) bool { return !v.refused() })
}

// The clients. Each keeps what it was answered, as it was, and knows nothing of other dialects.

// histClient is a client of one dialect.
type histClient interface {
	ask(n int, text string)
	results(n int, calls []histCall)
	request() (path, body string)
	fold(stream string) (histSaid, error)
}

// histCall is a call that a client was asked to make.
type histCall struct{ id, name, args string }

// histSaid is an answer as its user sees it.
type histSaid struct {
	text, thinking string
	calls          []histCall
}

func (s *histSaid) call(id, name, args string) { s.calls = append(s.calls, histCall{id, name, args}) }

type object = map[string]any

func rawOf(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimSpace(b.Bytes())
}

const histImage = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="

// histSchema is the parameters of the one tool.
func histSchema() object {
	return object{"type": "object", "properties": object{"q": object{"type": "string"}}, "required": []string{"q"}}
}

// histResult is what the n-th round's call at an index gives: plain text, a failure, or text with a picture.
func histResult(n, index int) (text string, failed, picture bool) {
	return fmt.Sprintf("r%02d-%d;", n, index), (n+index)%3 == 1, (n+index)%3 == 2
}

var errNoEnd = errors.New("the stream has no end")

// histEvents are the data of a stream's events.
func histEvents(stream string) []string {
	var list []string
	for _, event := range strings.Split(strings.ReplaceAll(stream, "\r\n", "\n"), "\n\n") {
		for _, line := range strings.Split(event, "\n") {
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				list = append(list, data)
			}
		}
	}
	return list
}

// histAnthropic is a client of /v1/messages.
type histAnthropic struct {
	thinking json.RawMessage
	messages []json.RawMessage
}

func (c *histAnthropic) say(role string, content any) {
	c.messages = append(c.messages, rawOf(object{"role": role, "content": content}))
}

func (c *histAnthropic) ask(n int, text string) {
	if n%2 == 0 {
		c.say("user", text)
		return
	}
	c.say("user", []object{{"type": "text", "text": text, "cache_control": object{"type": "ephemeral"}}})
	if len(c.messages) > 3 { // the breakpoints of a client move on
		for i := range c.messages[:len(c.messages)-1] {
			c.messages[i] = json.RawMessage(strings.ReplaceAll(string(c.messages[i]), `"cache_control":{"type":"ephemeral"},`, ""))
		}
	}
}

func (c *histAnthropic) results(n int, calls []histCall) {
	var blocks []object
	for i, call := range calls {
		text, failed, picture := histResult(n, i)
		b := object{"type": "tool_result", "tool_use_id": call.id, "content": text}
		if failed {
			b["is_error"] = true
		}
		if picture {
			b["content"] = []object{{"type": "text", "text": text}, {"type": "image", "source": object{"type": "base64", "media_type": "image/png", "data": histImage}}}
		}
		blocks = append(blocks, b)
	}
	if n%2 == 1 { // what Claude Code adds
		blocks = append(blocks, object{"type": "text", "text": "<system-reminder>go on</system-reminder>"})
	}
	c.say("user", blocks)
}

func (c *histAnthropic) request() (path, body string) {
	return "/v1/messages", string(rawOf(object{
		"model": histModel, "max_tokens": 20000, "stream": true, "system": []object{{"type": "text", "text": "You help."}},
		"thinking": c.thinking, "messages": c.messages,
		"tools": []object{{"name": "lookup", "description": "looks up", "input_schema": histSchema()}},
	}))
}

func (c *histAnthropic) fold(stream string) (said histSaid, err error) {
	type block struct{ Type, ID, Name, Data string }
	var blocks []any
	var open block
	var text, signature strings.Builder
	err = errNoEnd
	for _, data := range histEvents(stream) {
		var e struct {
			Type  string
			Index int
			Block json.RawMessage `json:"content_block"`
			Delta struct {
				Text, Thinking, Signature string
				Partial                   string `json:"partial_json"`
			}
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return said, err
		}
		switch e.Type {
		case "content_block_start":
			open = block{}
			text.Reset()
			signature.Reset()
			if err := json.Unmarshal(e.Block, &open); err != nil || e.Index != len(blocks) {
				return said, fmt.Errorf("block %d of %d: %w", e.Index, len(blocks), err)
			}
		case "content_block_delta":
			text.WriteString(e.Delta.Text + e.Delta.Thinking + e.Delta.Partial)
			signature.WriteString(e.Delta.Signature)
		case "content_block_stop":
			switch open.Type {
			case "thinking":
				said.thinking += text.String()
				blocks = append(blocks, object{"type": "thinking", "thinking": text.String(), "signature": signature.String()})
			case "redacted_thinking":
				blocks = append(blocks, object{"type": "redacted_thinking", "data": open.Data})
			case "text":
				said.text += text.String()
				blocks = append(blocks, object{"type": "text", "text": text.String()})
			case "tool_use":
				args := text.String()
				if args == "" {
					args = "{}"
				}
				said.call(open.ID, open.Name, args)
				blocks = append(blocks, object{"type": "tool_use", "id": open.ID, "name": open.Name, "input": json.RawMessage(args)})
			default:
				return said, fmt.Errorf("a block of the type %q", open.Type)
			}
		case "error":
			return said, errors.New(data)
		case "message_stop":
			err = nil
		}
	}
	if blocks == nil {
		blocks = []any{}
	}
	c.say("assistant", blocks)
	return said, err
}

// histChat is a client of /v1/chat/completions: it has no place for reasoning.
type histChat struct {
	messages []json.RawMessage
}

func (c *histChat) say(m object) { c.messages = append(c.messages, rawOf(m)) }

func (c *histChat) ask(n int, text string) {
	if len(c.messages) == 0 {
		c.say(object{"role": "developer", "content": "You help."})
	}
	c.say(object{"role": "user", "content": text})
}

func (c *histChat) results(n int, calls []histCall) {
	picture := false
	for i, call := range calls {
		text, _, p := histResult(n, i)
		c.say(object{"role": "tool", "tool_call_id": call.id, "content": text})
		picture = picture || p
	}
	if picture {
		c.say(object{"role": "user", "content": []object{{"type": "text", "text": "see"}, {"type": "image_url", "image_url": object{"url": "data:image/png;base64," + histImage}}}})
	}
}

func (c *histChat) request() (path, body string) {
	return "/v1/chat/completions", string(rawOf(object{
		"model": histModel, "stream": true, "reasoning_effort": "medium", "messages": c.messages,
		"tools": []object{{"type": "function", "function": object{"name": "lookup", "description": "looks up", "parameters": histSchema()}}},
	}))
}

func (c *histChat) fold(stream string) (said histSaid, err error) {
	err = errNoEnd
	for _, data := range histEvents(stream) {
		if data == "[DONE]" {
			err = nil
			break
		}
		var e struct {
			Error   json.RawMessage
			Choices []struct {
				Delta struct {
					Content   string
					Reasoning string `json:"reasoning_content"`
					Calls     []struct {
						Index    int
						ID       string
						Function struct{ Name, Arguments string }
					} `json:"tool_calls"`
				}
			}
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return said, err
		}
		if e.Error != nil {
			return said, errors.New(data)
		}
		for _, choice := range e.Choices {
			said.text += choice.Delta.Content
			said.thinking += choice.Delta.Reasoning
			for _, piece := range choice.Delta.Calls {
				for len(said.calls) <= piece.Index {
					said.calls = append(said.calls, histCall{})
				}
				call := &said.calls[piece.Index]
				call.id += piece.ID
				call.name += piece.Function.Name
				call.args += piece.Function.Arguments
			}
		}
	}
	m := object{"role": "assistant", "content": said.text}
	var calls []object
	for _, call := range said.calls {
		calls = append(calls, object{"id": call.id, "type": "function", "function": object{"name": call.name, "arguments": call.args}})
	}
	if calls != nil {
		m["tool_calls"] = calls
		if said.text == "" {
			m["content"] = nil
		}
	}
	c.say(m)
	return said, err
}

// histResponses is a client of /v1/responses that stores nothing, as Codex.
type histResponses struct {
	input []json.RawMessage
}

func (c *histResponses) ask(n int, text string) {
	content := []object{{"type": "input_text", "text": text}}
	c.input = append(c.input, rawOf(object{"type": "message", "role": "user", "content": content}))
}

func (c *histResponses) results(n int, calls []histCall) {
	for i, call := range calls {
		text, _, picture := histResult(n, i)
		item := object{"type": "function_call_output", "call_id": call.id, "output": text}
		if picture {
			item["output"] = []object{{"type": "input_text", "text": text}, {"type": "input_image", "image_url": "data:image/png;base64," + histImage}}
		}
		c.input = append(c.input, rawOf(item))
	}
}

func (c *histResponses) request() (path, body string) {
	return "/v1/responses", string(rawOf(object{
		"model": histModel, "stream": true, "store": false, "instructions": "You help.", "input": c.input,
		"include": []string{"reasoning.encrypted_content"}, "reasoning": object{"effort": "medium", "summary": "auto"},
		"tools": []object{{"type": "function", "name": "lookup", "description": "looks up", "parameters": histSchema(), "strict": false}},
	}))
}

func (c *histResponses) fold(stream string) (said histSaid, err error) {
	err = errNoEnd
	for _, data := range histEvents(stream) {
		var e struct {
			Type string
			Item json.RawMessage
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return said, err
		}
		switch e.Type {
		case "response.output_item.done":
			var item struct {
				Type, Name, Arguments string
				CallID                string `json:"call_id"`
				Content, Summary      []struct{ Text string }
			}
			if err := json.Unmarshal(e.Item, &item); err != nil {
				return said, err
			}
			for _, p := range item.Content {
				said.text += p.Text
			}
			for _, p := range item.Summary {
				said.thinking += p.Text
			}
			if item.Type == "function_call" {
				said.call(item.CallID, item.Name, item.Arguments)
			}
			c.input = append(c.input, e.Item)
		case "response.failed", "error":
			return said, errors.New(data)
		case "response.completed", "response.incomplete":
			err = nil
		}
	}
	return said, err
}

// histGemini is a client of streamGenerateContent.
type histGemini struct {
	contents []json.RawMessage
}

func (c *histGemini) say(role string, parts any) {
	c.contents = append(c.contents, rawOf(object{"role": role, "parts": parts}))
}

func (c *histGemini) ask(n int, text string) { c.say("user", []object{{"text": text}}) }

func (c *histGemini) results(n int, calls []histCall) {
	var parts []object
	for i, call := range calls {
		text, failed, picture := histResult(n, i)
		r := object{"name": call.name, "response": object{"output": text}}
		if failed {
			r["response"] = object{"error": text}
		}
		if picture {
			r["parts"] = []object{{"inlineData": object{"mimeType": "image/png", "data": histImage}}}
		}
		if call.id != "" {
			r["id"] = call.id
		}
		parts = append(parts, object{"functionResponse": r})
	}
	c.say("user", parts)
}

func (c *histGemini) request() (path, body string) {
	return "/v1beta/models/" + histModel + ":streamGenerateContent?alt=sse", string(rawOf(object{
		"contents": c.contents, "systemInstruction": object{"parts": []object{{"text": "You help."}}},
		"generationConfig": object{"thinkingConfig": object{"includeThoughts": true}},
		"tools":            []object{{"functionDeclarations": []object{{"name": "lookup", "description": "looks up", "parametersJsonSchema": histSchema()}}}},
	}))
}

func (c *histGemini) fold(stream string) (said histSaid, err error) {
	parts := []json.RawMessage{}
	err = errNoEnd
	for _, data := range histEvents(stream) {
		var e struct {
			Error      json.RawMessage
			Candidates []struct {
				Content      struct{ Parts []json.RawMessage }
				FinishReason string
			}
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return said, err
		}
		if e.Error != nil {
			return said, errors.New(data)
		}
		for _, candidate := range e.Candidates {
			if candidate.FinishReason != "" {
				err = nil
			}
			for _, raw := range candidate.Content.Parts {
				var p struct {
					Text    string
					Thought bool
					Call    *struct {
						ID, Name string
						Args     json.RawMessage
					} `json:"functionCall"`
				}
				if err := json.Unmarshal(raw, &p); err != nil {
					return said, err
				}
				switch {
				case p.Call != nil:
					said.call(p.Call.ID, p.Call.Name, string(p.Call.Args))
				case p.Thought:
					said.thinking += p.Text
				default:
					said.text += p.Text
				}
				parts = append(parts, raw)
			}
		}
	}
	if len(parts) > 0 { // Google's SDKs keep no content without parts
		c.say("model", parts)
	}
	return said, err
}
