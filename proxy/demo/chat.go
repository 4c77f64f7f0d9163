package demo

import (
	"encoding/json"
	"net/http"
)

// The JSON shapes of Chat Completions: facts/protocols.md, 2.2 and 2.3.

type chatAnswer struct {
	ID                string          `json:"id"`
	Object            string          `json:"object"`
	Created           int64           `json:"created"`
	Model             string          `json:"model"`
	Choices           []chatChoice    `json:"choices"`
	Usage             json.RawMessage `json:"usage,omitempty"` // null in the chunks before the one that has it
	ServiceTier       string          `json:"service_tier"`
	SystemFingerprint string          `json:"system_fingerprint"`
}

type chatChoice struct {
	Index        int             `json:"index"`
	Message      *chatMessage    `json:"message,omitempty"`
	Delta        *chatDelta      `json:"delta,omitempty"`
	Logprobs     json.RawMessage `json:"logprobs"`
	FinishReason *string         `json:"finish_reason"`
}

type chatMessage struct {
	Role        string     `json:"role"`
	Content     *string    `json:"content"`
	Reasoning   string     `json:"reasoning_content,omitempty"`
	Refusal     *string    `json:"refusal"`
	ToolCalls   []chatCall `json:"tool_calls,omitempty"`
	Annotations []struct{} `json:"annotations"`
}

type chatDelta struct {
	Role      string          `json:"role,omitempty"`
	Content   json.RawMessage `json:"content,omitempty"`
	Reasoning string          `json:"reasoning_content,omitempty"`
	Refusal   json.RawMessage `json:"refusal,omitempty"`
	ToolCalls []chatCall      `json:"tool_calls,omitempty"`
}

type chatCall struct {
	Index    *int          `json:"index,omitempty"` // in streams
	ID       string        `json:"id,omitempty"`
	Type     string        `json:"type,omitempty"`
	Function *chatFunction `json:"function,omitempty"`
	Custom   *chatCustom   `json:"custom,omitempty"`
}

type chatFunction struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

type chatCustom struct {
	Name  string `json:"name,omitempty"`
	Input string `json:"input"`
}

type chatUsage struct {
	Prompt            int                   `json:"prompt_tokens"`
	Completion        int                   `json:"completion_tokens"`
	Total             int                   `json:"total_tokens"`
	PromptDetails     chatPromptDetails     `json:"prompt_tokens_details"`
	CompletionDetails chatCompletionDetails `json:"completion_tokens_details"`
}

type chatPromptDetails struct {
	Cached     int `json:"cached_tokens"`
	CacheWrite int `json:"cache_write_tokens"`
	Audio      int `json:"audio_tokens"`
}

type chatCompletionDetails struct {
	Reasoning int `json:"reasoning_tokens"`
	Audio     int `json:"audio_tokens"`
	Accepted  int `json:"accepted_prediction_tokens"`
	Rejected  int `json:"rejected_prediction_tokens"`
}

func (u Usage) chat() json.RawMessage {
	return encode(chatUsage{
		Prompt: u.prompt(), Completion: u.Output, Total: u.prompt() + u.Output,
		PromptDetails:     chatPromptDetails{Cached: u.CacheRead, CacheWrite: u.CacheCreation},
		CompletionDetails: chatCompletionDetails{Reasoning: u.Reasoning},
	})
}

// chat answers a chat completion.
func (p *Provider) chat(a *answer, body []byte) {
	request, refusal := p.checkChat(body)
	if refusal != nil {
		a.refuse(refusal)
		return
	}
	step := p.next()
	a.give(step, p.chatReply(step, request, len(body)))
}

func (p *Provider) chatReply(step Step, request *node, received int) *reply {
	o := p.outline(step, received, "call")
	s := chatScript{step: step, wantsUsage: request.get("stream_options").yes("include_usage"), pings: step.Pings}
	s.base = chatAnswer{ID: p.id("chatcmpl"), Object: "chat.completion", Created: p.options.Now().Unix(), Model: request.str("model"),
		ServiceTier: "default", SystemFingerprint: "fp_demo"}
	whole := &reply{stream: request.yes("stream"), plain: s.plain(o)}
	if whole.stream {
		s.script(o)
		whole.events = s.events
	}
	whole.failure = func(f *refusal, _ int) []byte { return unnamed(encode(f.body(openAIChat, ""))) }
	return whole
}

// chatFinish is the finish_reason for Anthropic's word.
func chatFinish(stop string) string {
	switch stop {
	case "tool_use":
		return "tool_calls"
	case "max_tokens", "model_context_window_exceeded":
		return "length"
	case "refusal":
		return "content_filter"
	case "end_turn", "stop_sequence", "pause_turn":
		return "stop"
	}
	return stop // a word of its own
}

// chatScript gathers the chunks of a stream.
type chatScript struct {
	step       Step
	base       chatAnswer
	wantsUsage bool
	pings      int
	events     [][]byte
}

func (s *chatScript) plain(o outline) chatAnswer {
	m := &chatMessage{Role: "assistant", Reasoning: o.thinking, Annotations: []struct{}{}}
	if o.text != "" || len(o.tools) == 0 {
		m.Content = &o.text
	}
	for _, tool := range o.tools {
		m.ToolCalls = append(m.ToolCalls, callOf(tool, tool.arguments(), tool.Custom))
	}
	answer := s.base
	answer.Choices = []chatChoice{{Message: m}}
	if s.step.Break != NoFinish {
		finish := chatFinish(o.stop)
		answer.Choices[0].FinishReason = &finish
	}
	answer.Usage = o.usage.chat()
	return answer
}

func callOf(tool Tool, arguments, input string) chatCall {
	if tool.Custom != "" {
		return chatCall{ID: tool.ID, Type: "custom", Custom: &chatCustom{tool.Name, input}}
	}
	return chatCall{ID: tool.ID, Type: "function", Function: &chatFunction{tool.Name, arguments}}
}

func (s *chatScript) script(o outline) {
	s.base.Object = "chat.completion.chunk"
	first := chatDelta{Role: "assistant", Content: json.RawMessage(`""`), Refusal: json.RawMessage("null")}
	if o.text == "" && len(o.tools) > 0 {
		first.Content = json.RawMessage("null")
	}
	s.delta(first)
	for _, word := range words(o.thinking) {
		s.delta(chatDelta{Reasoning: word})
	}
	for _, word := range words(o.text) {
		s.delta(chatDelta{Content: encode(word)})
	}
	s.calls(o.tools)
	if s.step.Break != NoFinish {
		finish := chatFinish(o.stop)
		s.chunk([]chatChoice{{Delta: &chatDelta{}, FinishReason: &finish}}, json.RawMessage("null"))
	}
	if s.wantsUsage {
		s.chunk([]chatChoice{}, o.usage.chat())
	}
	s.events = append(s.events, unnamed([]byte("[DONE]")))
}

// calls writes the calls one after the other, or their pieces in turn.
func (s *chatScript) calls(tools []Tool) {
	var turns [][]chatCall
	for i, tool := range tools {
		start := callOf(tool, "", "")
		start.Index = &i
		list := []chatCall{start}
		if tool.Custom != "" {
			for _, piece := range pieces(tool.Custom) {
				list = append(list, chatCall{Index: &i, Custom: &chatCustom{Input: piece}})
			}
		} else {
			for _, piece := range pieces(tool.arguments()) {
				list = append(list, chatCall{Index: &i, Function: &chatFunction{Arguments: piece}})
			}
		}
		turns = append(turns, list)
	}
	for len(turns) > 0 {
		n := len(turns[0])
		if s.step.Interleave {
			n = 1
		}
		for _, call := range turns[0][:n] {
			s.delta(chatDelta{ToolCalls: []chatCall{call}})
		}
		rest := turns[0][n:]
		turns = turns[1:]
		if len(rest) > 0 {
			turns = append(turns, rest)
		}
	}
}

func (s *chatScript) delta(d chatDelta) {
	s.chunk([]chatChoice{{Delta: &d}}, json.RawMessage("null"))
}

func (s *chatScript) chunk(choices []chatChoice, usage json.RawMessage) {
	c := s.base
	c.Choices = choices
	if s.wantsUsage {
		c.Usage = usage
	}
	event := unnamed(encode(c))
	for ; s.pings > 0 && len(s.events) > 0; s.pings-- {
		event = append([]byte(": ping\n\n"), event...)
	}
	s.events = append(s.events, event)
}

// models answers a list of models, or one, in the dialect of the request.
func (p *Provider) models(a *answer, _ []byte) {
	id := modelOf(a.r.URL.Path)
	switch {
	case a.dialect == anthropic && id == "":
		p.listModels(a)
	case a.dialect == anthropic:
		p.showModel(a, id)
	case id != "" && !p.serves(id):
		a.refuse(unknownModel(a.dialect, id))
	case a.dialect == gemini && id != "":
		a.json(http.StatusOK, describeGemini(id))
	case a.dialect == gemini:
		p.listGemini(a)
	case id != "":
		a.json(http.StatusOK, describeOpenAI(id))
	default:
		list := openAIList{Object: "list", Data: []openAIModel{}}
		for _, name := range p.names(a.dialect) {
			list.Data = append(list.Data, describeOpenAI(name))
		}
		a.json(http.StatusOK, list)
	}
}
