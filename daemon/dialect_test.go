package daemon

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"coding-proxy/proxy/demo"
)

// The dialects of the clients, which are the protocols of the providers too.
const (
	claude    = "anthropic"
	chat      = "openai-chat"
	responses = "openai-responses"
	gemini    = "gemini"
)

func allDialects() []string { return []string{claude, chat, responses, gemini} }

// modelOf is a model name in a dialect's own manner. Each simulated provider takes any.
func modelOf(dialect string) string {
	switch dialect {
	case claude:
		return sonnet
	case gemini:
		return "gemini-2.5-flash"
	}
	return "gpt-5.5"
}

// protocolKey is an entry of pool.keys for a provider of one protocol.
func protocolKey(id, protocol, url string, more ...string) string {
	return fmt.Sprintf(`{"id":%q,"protocol":%q,"base_url":%q,"api_key":%q%s}`, id, protocol, baseOf(protocol, url), credential(id), rest(more))
}

// baseOf is a base URL as the dialect's providers name theirs.
func baseOf(protocol, url string) string {
	switch protocol {
	case claude:
		return url
	case gemini:
		return url + "/v1beta"
	}
	return url + "/v1"
}

// polyglotKey is an entry of pool.keys for a provider of several protocols; none named means all.
func polyglotKey(id, url string, protocols []string, more ...string) string {
	if protocols == nil {
		protocols = allDialects()
	}
	var ends []string
	for _, p := range protocols {
		ends = append(ends, fmt.Sprintf(`%q:%q`, p, baseOf(p, url)))
	}
	return fmt.Sprintf(`{"id":%q,"endpoints":{%s},"api_key":%q%s}`, id, strings.Join(ends, ","), credential(id), rest(more))
}

// strict runs a simulated provider of one protocol that takes nothing which the real one would refuse.
func strict(t *testing.T, name string, protocols ...string) (*demo.Provider, string) {
	t.Helper()
	p := demo.New(demo.Options{Name: name, Dialects: protocols, CheckSignatures: true})
	p.Always(demo.Step{Text: answerText})
	return p, listen(t, p)
}

// pathOf is where a client of a dialect asks.
func pathOf(dialect, model string, stream bool) string {
	switch dialect {
	case claude:
		return "/v1/messages"
	case chat:
		return "/v1/chat/completions"
	case responses:
		return "/v1/responses"
	}
	if stream {
		return "/v1beta/models/" + url.PathEscape(model) + ":streamGenerateContent?alt=sse"
	}
	return "/v1beta/models/" + url.PathEscape(model) + ":generateContent"
}

// bodyOf is a small question in a dialect; more are further members.
func bodyOf(dialect, model string, stream bool, more ...string) string {
	if stream && dialect != gemini {
		more = append([]string{streamed}, more...)
	}
	switch dialect {
	case claude:
		return question(model, more...)
	case chat:
		return fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}]%s}`, model, prompt, rest(more))
	case responses:
		return fmt.Sprintf(`{"model":%q,"input":%q%s}`, model, prompt, rest(more))
	}
	return fmt.Sprintf(`{"contents":[{"role":"user","parts":[{"text":%q}]}]%s}`, prompt, rest(more))
}

// say asks as a client of a dialect does, with further members in the body.
func (i *instance) say(dialect, model string, stream bool, more ...string) *reply {
	i.t.Helper()
	return i.sayWith(dialect, nil, model, stream, more...)
}

// sayWith is say with headers.
func (i *instance) sayWith(dialect string, header []string, model string, stream bool, more ...string) *reply {
	i.t.Helper()
	return i.send(dialect, pathOf(dialect, model, stream), bodyOf(dialect, model, stream, more...), header...)
}

// send posts a body as a client of a dialect does.
func (i *instance) send(dialect, path, body string, header ...string) *reply {
	i.t.Helper()
	if dialect == claude {
		header = append([]string{version}, header...)
	}
	return i.ask("POST", path, body, append([]string{"Content-Type: application/json"}, header...)...)
}

// spoken is what a client understood of an answer.
type spoken struct {
	text, thinking  string
	tools           []spokenTool
	id              string
	prompt, cached  int64 // prompt with what was cached, and that part
	written         int64 // of the prompt, what was put into a cache
	output, thought int64
	usages          int    // events with usage
	finish          string // in the dialect's word
	ends            int    // terminal events
	fault           string // message of an error that ended the stream
	unknown         []string
}

type spokenTool struct{ id, name, input string }

// total is all that the answer cost.
func (s *spoken) total() int64 { return s.prompt + s.output }

// events splits an event stream as a strict client does: whole events alone, each with data.
func events(t *testing.T, text string) (names, data []string) {
	t.Helper()
	text = strings.ReplaceAll(text, "\r\n", "\n")
	if text != "" && !strings.HasSuffix(text, "\n\n") {
		t.Errorf("the stream ends inside an event: …%q", text[max(0, len(text)-200):])
	}
	for event := range strings.SplitSeq(strings.TrimSuffix(text, "\n\n"), "\n\n") {
		name, lines := "", []string(nil)
		for line := range strings.SplitSeq(event, "\n") {
			if v, ok := strings.CutPrefix(line, "event: "); ok {
				name = v
			} else if v, ok := strings.CutPrefix(line, "data: "); ok {
				lines = append(lines, v)
			} else if line != "" && !strings.HasPrefix(line, ":") {
				t.Errorf("a line that no client reads: %q", line)
			}
		}
		if lines != nil {
			names, data = append(names, name), append(data, strings.Join(lines, "\n"))
		}
	}
	return names, data
}

// understand reads an answer as a client of the dialect does.
func understand(t *testing.T, dialect, body string, stream bool) *spoken {
	t.Helper()
	s := &spoken{}
	read := map[string]func(*testing.T, *spoken, string, string){claude: claudeEvent, chat: chatChunk, responses: responsesEvent, gemini: geminiChunk}[dialect]
	if !stream {
		switch dialect {
		case claude:
			claudeAnswer(t, s, body)
		case responses:
			responsesAnswer(t, s, parse(t, body))
		default:
			read(t, s, "", body)
		}
		s.ends++
		return s
	}
	names, data := events(t, body)
	for n := range data {
		if s.ends > 0 {
			t.Errorf("after the end came %q", data[n])
		}
		read(t, s, names[n], data[n])
	}
	if dialect == gemini && s.finish != "" {
		s.ends++
	}
	return s
}

// tree is JSON of any shape.
type tree struct{ v any }

func parse(t *testing.T, text string) tree {
	t.Helper()
	in := json.NewDecoder(strings.NewReader(text))
	in.UseNumber()
	var v any
	if err := in.Decode(&v); err != nil {
		t.Errorf("no JSON: %v: %s", err, text)
	}
	return tree{v}
}

func (n tree) get(path ...string) tree {
	for _, name := range path {
		m, _ := n.v.(map[string]any)
		n = tree{m[name]}
	}
	return n
}

func (n tree) has(name string) bool {
	m, _ := n.v.(map[string]any)
	_, ok := m[name]
	return ok
}

func (n tree) list() (out []tree) {
	l, _ := n.v.([]any)
	for _, v := range l {
		out = append(out, tree{v})
	}
	return out
}

func (n tree) str() string {
	s, _ := n.v.(string)
	return s
}

func (n tree) int() int64 {
	number, _ := n.v.(json.Number)
	i, _ := number.Int64()
	return i
}

// text is the value as JSON with its members sorted.
func (n tree) text() string {
	b, _ := json.Marshal(n.v)
	return string(b)
}

// last is where the pieces of the newest tool call go.
func (s *spoken) last(t *testing.T) *spokenTool {
	t.Helper()
	if len(s.tools) == 0 {
		t.Error("a piece of a tool call that has not begun")
		s.tools = append(s.tools, spokenTool{})
	}
	return &s.tools[len(s.tools)-1]
}

func (s *spoken) claudeUsage(u tree) {
	if u.has("output_tokens") {
		s.usages++
		s.output = u.get("output_tokens").int()
		s.thought = u.get("output_tokens_details", "thinking_tokens").int()
	}
	if u.has("input_tokens") {
		s.cached, s.written = u.get("cache_read_input_tokens").int(), u.get("cache_creation_input_tokens").int()
		s.prompt = u.get("input_tokens").int() + s.cached + s.written
	}
}

func claudeAnswer(t *testing.T, s *spoken, body string) {
	t.Helper()
	a := parse(t, body)
	s.id, s.finish = a.get("id").str(), a.get("stop_reason").str()
	for _, b := range a.get("content").list() {
		switch b.get("type").str() {
		case "text":
			s.text += b.get("text").str()
		case "thinking":
			s.thinking += b.get("thinking").str()
		case "tool_use":
			s.tools = append(s.tools, spokenTool{b.get("id").str(), b.get("name").str(), b.get("input").text()})
		default:
			s.unknown = append(s.unknown, b.text())
		}
	}
	s.claudeUsage(a.get("usage"))
}

func claudeEvent(t *testing.T, s *spoken, name, data string) {
	t.Helper()
	e := parse(t, data)
	if e.get("type").str() != name {
		t.Errorf("the event %q says it is %q", name, e.get("type").str())
	}
	switch name {
	case "message_start":
		s.id = e.get("message", "id").str()
		s.claudeUsage(e.get("message", "usage"))
	case "content_block_start":
		if b := e.get("content_block"); b.get("type").str() == "tool_use" {
			s.tools = append(s.tools, spokenTool{b.get("id").str(), b.get("name").str(), ""})
		}
	case "content_block_delta":
		d := e.get("delta")
		s.text += d.get("text").str()
		s.thinking += d.get("thinking").str()
		if p := d.get("partial_json").str(); p != "" {
			s.last(t).input += p
		}
	case "message_delta":
		s.finish = e.get("delta", "stop_reason").str()
		s.claudeUsage(e.get("usage"))
	case "message_stop":
		s.ends++
	case "error":
		s.fault = e.get("error", "message").str()
		s.ends++
	case "ping", "content_block_stop":
	default:
		s.unknown = append(s.unknown, data)
	}
}

func (s *spoken) openAIUsage(u tree, prompt, output string) {
	if u.v == nil {
		return
	}
	s.usages++
	s.prompt, s.output = u.get(prompt).int(), u.get(output).int()
	s.cached, s.written = u.get(prompt+"_details", "cached_tokens").int(), u.get(prompt+"_details", "cache_write_tokens").int()
	s.thought = u.get(output+"_details", "reasoning_tokens").int()
}

// chatChunk reads a chunk, and a plain answer, too.
func chatChunk(t *testing.T, s *spoken, _, data string) {
	t.Helper()
	if data == "[DONE]" {
		s.ends++
		return
	}
	e := parse(t, data)
	if e.has("error") {
		s.fault = e.get("error", "message").str()
		s.ends++
		return
	}
	s.id = e.get("id").str()
	for _, c := range e.get("choices").list() {
		d := c.get("delta")
		if c.has("message") {
			d = c.get("message")
		}
		s.text += d.get("content").str()
		s.thinking += d.get("reasoning_content").str()
		for _, call := range d.get("tool_calls").list() {
			if call.get("id").str() != "" {
				s.tools = append(s.tools, spokenTool{id: call.get("id").str(), name: call.get("function", "name").str()})
			}
			s.last(t).input += call.get("function", "arguments").str()
		}
		if f := c.get("finish_reason").str(); f != "" {
			s.finish = f
		}
	}
	s.openAIUsage(e.get("usage"), "prompt_tokens", "completion_tokens")
}

func responsesAnswer(_ *testing.T, s *spoken, a tree) {
	s.id, s.finish = a.get("id").str(), a.get("status").str()
	if reason := a.get("incomplete_details", "reason").str(); reason != "" {
		s.finish = reason
	}
	s.text, s.thinking, s.tools = "", "", nil
	for _, item := range a.get("output").list() {
		switch item.get("type").str() {
		case "message":
			for _, p := range item.get("content").list() {
				s.text += p.get("text").str()
			}
		case "reasoning":
			for _, p := range item.get("summary").list() {
				s.thinking += p.get("text").str()
			}
		case "function_call":
			s.tools = append(s.tools, spokenTool{item.get("call_id").str(), item.get("name").str(), item.get("arguments").str()})
		default:
			s.unknown = append(s.unknown, item.text())
		}
	}
	s.openAIUsage(a.get("usage"), "input_tokens", "output_tokens")
}

func responsesEvent(t *testing.T, s *spoken, name, data string) {
	t.Helper()
	e := parse(t, data)
	if e.get("type").str() != name {
		t.Errorf("the event %q says it is %q", name, e.get("type").str())
	}
	switch name {
	case "response.created":
		s.id = e.get("response", "id").str()
	case "response.output_text.delta":
		s.text += e.get("delta").str()
	case "response.completed", "response.incomplete":
		before := s.text
		responsesAnswer(t, s, e.get("response"))
		if s.text != before {
			t.Errorf("the deltas said %q, the end says %q", before, s.text)
		}
		s.ends++
	case "response.failed":
		if id := e.get("response", "id").str(); id != s.id {
			t.Errorf("%s has failed, not %s", id, s.id)
		}
		s.fault = e.get("response", "error", "message").str()
		s.ends++
	}
}

// geminiChunk reads a chunk, and a plain answer, too.
func geminiChunk(t *testing.T, s *spoken, _, data string) {
	t.Helper()
	e := parse(t, data)
	if e.has("error") {
		s.fault = e.get("error", "message").str()
	}
	if id := e.get("responseId").str(); id != "" {
		s.id = id
	}
	for _, c := range e.get("candidates").list() {
		for _, p := range c.get("content", "parts").list() {
			call := p.get("functionCall")
			switch {
			case call.v != nil:
				s.tools = append(s.tools, spokenTool{call.get("id").str(), call.get("name").str(), call.get("args").text()})
			case p.get("thought").v == true:
				s.thinking += p.get("text").str()
			default:
				s.text += p.get("text").str()
			}
		}
		if f := c.get("finishReason").str(); f != "" {
			s.finish = f
		}
	}
	if u := e.get("usageMetadata"); u.v != nil {
		s.usages++
		s.prompt, s.cached = u.get("promptTokenCount").int(), u.get("cachedContentTokenCount").int()
		s.thought = u.get("thoughtsTokenCount").int()
		s.output = u.get("candidatesTokenCount").int() + s.thought
	}
}
