package demo

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// The JSON shapes of generateContent: facts/protocols.md, 4.4 and 4.5.

type geminiAnswer struct {
	Candidates   []geminiCandidate `json:"candidates"`
	Usage        geminiUsage       `json:"usageMetadata"`
	ModelVersion string            `json:"modelVersion"`
	ResponseID   string            `json:"responseId"`
}

type geminiCandidate struct {
	Content      geminiContent `json:"content"`
	FinishReason string        `json:"finishReason,omitempty"`
	Index        int           `json:"index"`
}

type geminiContent struct {
	Parts []geminiPart `json:"parts"`
	Role  string       `json:"role"`
}

type geminiPart struct {
	Text      *string     `json:"text,omitempty"`
	Thought   bool        `json:"thought,omitempty"`
	Call      *geminiCall `json:"functionCall,omitempty"`
	Signature string      `json:"thoughtSignature,omitempty"`
}

type geminiCall struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

type geminiUsage struct {
	Prompt        int             `json:"promptTokenCount"`
	Cached        int             `json:"cachedContentTokenCount,omitempty"`
	Candidates    int             `json:"candidatesTokenCount,omitempty"`
	Thoughts      int             `json:"thoughtsTokenCount,omitempty"`
	Total         int             `json:"totalTokenCount"`
	PromptDetails []geminiDetails `json:"promptTokensDetails"`
}

type geminiDetails struct {
	Modality string `json:"modality"`
	Tokens   int    `json:"tokenCount"`
}

// gemini are the usage figures when out tokens have come; Google's candidates are without the thoughts.
func (u Usage) gemini(out int) geminiUsage {
	thoughts := min(u.Reasoning, out)
	return geminiUsage{Prompt: u.prompt(), Cached: u.CacheRead, Candidates: out - thoughts, Thoughts: thoughts, Total: u.prompt() + out,
		PromptDetails: []geminiDetails{{"TEXT", u.prompt()}}}
}

// geminiAction answers models/NAME:action.
func (p *Provider) geminiAction(a *answer, body []byte) {
	model, action, _ := geminiTarget(a.r.URL.Path)
	a.array = action == "streamGenerateContent" && a.r.URL.Query().Get("alt") != "sse"
	if !p.serves(model) {
		a.refuse(unknownModel(gemini, model))
		return
	}
	switch action {
	case "generateContent", "streamGenerateContent":
		p.generateContent(a, model, action, body)
	case "countTokens":
		p.countContent(a, model, body)
	case "embedContent", "batchEmbedContents":
		p.embedContent(a, action, body)
	default:
		a.refuse(refuse(http.StatusNotFound, "Requested entity was not found."))
	}
}

func (p *Provider) generateContent(a *answer, model, action string, body []byte) {
	if alt := a.r.URL.Query().Get("alt"); alt != "" && alt != "sse" && alt != "json" {
		a.refuse(bad("Invalid value \"%s\" for query parameter \"alt\".", alt))
		return
	}
	if _, refusal := p.checkGemini("request", model, body); refusal != nil {
		a.refuse(refusal)
		return
	}
	step := p.next()
	whole := p.geminiReply(step, model, len(body))
	whole.stream = action == "streamGenerateContent"
	if a.array {
		whole.asArray()
	}
	a.give(step, whole)
}

func (p *Provider) countContent(a *answer, model string, body []byte) {
	if _, refusal := p.checkGemini("count", model, body); refusal != nil {
		a.refuse(refusal)
		return
	}
	n := tokens(len(body))
	a.json(http.StatusOK, struct {
		Total   int             `json:"totalTokens"`
		Details []geminiDetails `json:"promptTokensDetails"`
	}{n, []geminiDetails{{"TEXT", n}}})
}

// geminiReply renders a step as chunks, and as the one answer that they add up to.
func (p *Provider) geminiReply(step Step, model string, received int) *reply {
	o := p.outline(step, received, "call")
	finish := geminiFinish(o.stop)
	parts, malformed := p.geminiParts(o, step, strings.HasPrefix(model, "gemini-3"))
	if malformed {
		finish = "MALFORMED_FUNCTION_CALL"
	}
	if step.Break == NoFinish {
		finish = ""
	}
	whole := &reply{}
	base := geminiAnswer{ModelVersion: model, ResponseID: p.id("response")}
	chunk := func(parts []geminiPart, finish string, out int) geminiAnswer {
		c := base
		c.Candidates = []geminiCandidate{{Content: geminiContent{parts, "model"}, FinishReason: finish}}
		c.Usage = o.usage.gemini(out)
		return c
	}
	for i := range parts {
		last, out := "", o.usage.Output*(i+1)/len(parts)
		if i == len(parts)-1 {
			last = finish
		}
		whole.events = append(whole.events, geminiFrame(chunk(parts[i:i+1], last, out)))
	}
	if len(parts) == 0 {
		whole.events = append(whole.events, geminiFrame(chunk([]geminiPart{}, finish, o.usage.Output)))
	}
	whole.plain = chunk(joinParts(parts), finish, o.usage.Output)
	whole.failure = func(f *refusal, _ int) []byte { return geminiFrame(f.body(gemini, "")) }
	return whole
}

// geminiFrame writes an event as Google does, with CRLF.
func geminiFrame(value any) []byte {
	return append(append([]byte("data: "), encode(value)...), "\r\n\r\n"...)
}

// asArray makes a stream one JSON array, whose elements come as they are made.
func (r *reply) asArray() {
	r.contentType = "application/json; charset=UTF-8"
	for i, e := range r.events {
		r.events[i] = arrayElement(e, i)
	}
	failure := r.failure
	r.failure = func(f *refusal, written int) []byte { return arrayElement(failure(f, written), written) }
	r.tail = func(int) []byte { return []byte("\n]\n") }
}

// arrayElement turns an event into an element of the array.
func arrayElement(event []byte, index int) []byte {
	data := strings.TrimSuffix(strings.TrimPrefix(string(event), "data: "), "\r\n\r\n")
	if index == 0 {
		return []byte("[" + indent(data))
	}
	return []byte("\n,\r\n" + indent(data))
}

func (p *Provider) geminiParts(o outline, step Step, signs bool) (parts []geminiPart, malformed bool) {
	for _, word := range words(o.thinking) {
		parts = append(parts, geminiPart{Text: &word, Thought: true})
	}
	for _, word := range words(o.text) {
		parts = append(parts, geminiPart{Text: &word})
	}
	called := false
	for i, tool := range o.tools {
		args := tool.input()
		if args == "" {
			args = "{}"
		}
		if !json.Valid([]byte(args)) { // Google leaves such a call out
			malformed = true
			continue
		}
		part := geminiPart{Call: &geminiCall{ID: step.Tools[i].ID, Name: tool.Name, Args: json.RawMessage(args)}}
		if tree, err := parseTree([]byte(args)); signs && !called && err == nil {
			part.Signature = p.seal(sealCall, tool.Name+tree.canonical())
		}
		called = true
		parts = append(parts, part)
	}
	if signs && !called && len(parts) > 0 { // text is signed at its end, in a part of its own
		parts = append(parts, geminiPart{Text: new(string), Signature: p.seal(sealText, "")})
	}
	return parts, malformed
}

// joinParts makes the parts of a plain answer: neighbours of one kind are one part.
func joinParts(parts []geminiPart) []geminiPart {
	joined := []geminiPart{}
	for _, part := range parts {
		if n := len(joined); n > 0 && part.Text != nil && joined[n-1].Text != nil && part.Thought == joined[n-1].Thought {
			whole := *joined[n-1].Text + *part.Text
			joined[n-1].Text, joined[n-1].Signature = &whole, part.Signature
			continue
		}
		joined = append(joined, part)
	}
	return joined
}

// geminiFinish is the finishReason for Anthropic's word.
func geminiFinish(stop string) string {
	switch stop {
	case "end_turn", "tool_use", "stop_sequence", "pause_turn":
		return "STOP"
	case "max_tokens", "model_context_window_exceeded":
		return "MAX_TOKENS"
	case "refusal":
		return "SAFETY"
	}
	return stop // a word of its own
}

type geminiModel struct {
	Name        string   `json:"name"`
	Version     string   `json:"version"`
	DisplayName string   `json:"displayName"`
	Description string   `json:"description"`
	InputLimit  int      `json:"inputTokenLimit"`
	OutputLimit int      `json:"outputTokenLimit"`
	Methods     []string `json:"supportedGenerationMethods"`
	Temperature float64  `json:"temperature"`
	TopP        float64  `json:"topP"`
	TopK        int      `json:"topK"`
	Thinking    bool     `json:"thinking"`
}

func describeGemini(id string) geminiModel {
	return geminiModel{Name: "models/" + id, Version: "001", DisplayName: id, Description: "A simulated model", InputLimit: 1_048_576, OutputLimit: 65_536,
		Methods: []string{"generateContent", "countTokens"}, Temperature: 1, TopP: 0.95, TopK: 64, Thinking: true}
}

// listGemini answers a page of ?pageSize= models; the page token is where the next begins.
func (p *Provider) listGemini(a *answer) {
	names, query := p.names(gemini), a.r.URL.Query()
	size, start := 50, 0
	var err error
	if text := query.Get("pageSize"); text != "" {
		if size, err = strconv.Atoi(text); err != nil || size < 0 {
			a.refuse(bad("Invalid value at 'page_size' (TYPE_INT32), \"%s\"", text))
			return
		}
	}
	if text := query.Get("pageToken"); text != "" {
		if start, err = strconv.Atoi(text); err != nil || start < 0 || start > len(names) {
			a.refuse(bad("Invalid page token."))
			return
		}
	}
	if size == 0 {
		size = 50
	}
	page := struct {
		Models []geminiModel `json:"models"`
		Next   string        `json:"nextPageToken,omitempty"`
	}{Models: []geminiModel{}}
	end := min(len(names), start+size)
	for _, name := range names[start:end] {
		page.Models = append(page.Models, describeGemini(name))
	}
	if end < len(names) {
		page.Next = strconv.Itoa(end)
	}
	a.json(http.StatusOK, page)
}

// embedContent answers one vector, or one for each request.
func (p *Provider) embedContent(a *answer, action string, body []byte) {
	request, refusal := p.readGemini(action, body)
	if refusal != nil {
		a.refuse(refusal)
		return
	}
	type embedding struct {
		Values []float64 `json:"values"`
	}
	if action == "embedContent" {
		a.json(http.StatusOK, struct {
			Embedding embedding `json:"embedding"`
		}{embedding{vector(request.get("content").canonical())}})
		return
	}
	list := []embedding{}
	for _, one := range request.items("requests") {
		list = append(list, embedding{vector(one.get("content").canonical())})
	}
	a.json(http.StatusOK, struct {
		Embeddings []embedding `json:"embeddings"`
	}{list})
}
