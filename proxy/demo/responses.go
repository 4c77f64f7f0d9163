package demo

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

// responses answers everything below /responses.
func (p *Provider) responses(a *answer, body []byte) {
	path, post := a.r.URL.Path, a.r.Method == http.MethodPost
	_, id, hasID := cutLast(path, "/responses/")
	switch {
	case a.r.Header.Get("upgrade") != "": // Codex then takes HTTP at once
		a.refuse(refuse(http.StatusUpgradeRequired, "This endpoint does not speak WebSocket here."))
	case post && !hasID:
		p.respond(a, body)
	case post && id == "input_tokens":
		p.countInput(a, body)
	case post && id == "compact":
		p.compact(a, body)
	case a.r.Method == http.MethodGet && hasID:
		p.recall(a, id)
	default:
		notFound(a, body)
	}
}

func (p *Provider) respond(a *answer, body []byte) {
	request, refusal := p.checkResponses("request", body)
	if refusal != nil {
		a.refuse(refusal)
		return
	}
	step := p.next()
	a.give(step, p.responsesReply(step, request, body))
}

func (p *Provider) countInput(a *answer, body []byte) {
	if _, refusal := p.checkResponses("count", body); refusal != nil {
		a.refuse(refusal)
		return
	}
	a.json(http.StatusOK, struct {
		Object string `json:"object"`
		Tokens int    `json:"input_tokens"`
	}{"response.input_tokens", tokens(len(body))})
}

// compact answers a compaction: one item that only this provider can read.
func (p *Provider) compact(a *answer, body []byte) {
	if _, refusal := p.checkResponses("compact", body); refusal != nil {
		a.refuse(refusal)
		return
	}
	item := responseItem{ID: p.id("cmp"), Type: "compaction"}
	item.Encrypted = encryptedPrefix + p.seal(sealReasoning, item.ID)
	a.json(http.StatusOK, struct {
		ID        string         `json:"id"`
		Object    string         `json:"object"`
		CreatedAt int64          `json:"created_at"`
		Output    []responseItem `json:"output"`
		Usage     *responseUsage `json:"usage"`
	}{p.id("resp"), "response.compaction", p.options.Now().Unix(), []responseItem{item}, Usage{Input: tokens(len(body)), Output: 1}.responses()})
}

// keptResponses bounds the store.
const keptResponses = 1000

// storedResponse is one that was answered without store:false.
type storedResponse struct {
	id    string
	body  json.RawMessage
	items []responseItem
}

func (p *Provider) keep(r response) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stored = append(p.stored, storedResponse{r.ID, encode(r), r.Output})
	if len(p.stored) > keptResponses {
		p.stored = slices.Delete(p.stored, 0, 1)
	}
}

// recollect returns what the store has under an id.
func (p *Provider) recollect(id string) (storedResponse, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.stored, func(s storedResponse) bool { return s.id == id })
	if i < 0 {
		return storedResponse{}, false
	}
	return p.stored[i], true
}

// remembers reports whether an item of that id was answered and stored.
func (p *Provider) remembers(itemID string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.stored, func(s storedResponse) bool {
		return slices.ContainsFunc(s.items, func(i responseItem) bool { return i.ID == itemID })
	})
}

func (p *Provider) recall(a *answer, id string) {
	kept, found := p.recollect(id)
	if !found {
		f := refuse(http.StatusNotFound, "Response with id '"+id+"' not found.")
		f.code = noCode
		a.refuse(f)
		return
	}
	a.json(http.StatusOK, kept.body)
}

func (p *Provider) responsesReply(step Step, request *node, body []byte) *reply {
	o := p.outline(step, len(body), "call")
	s := &responseScript{response: p.startResponse(request, body), pings: step.Pings}
	s.event(responseEvent{Type: "response.created", Response: s.snapshot()})
	s.event(responseEvent{Type: "response.in_progress", Response: s.snapshot()})
	if o.thinking != "" {
		id := p.id("rs")
		s.reasoning(id, o.thinking, encryptedPrefix+p.seal(sealReasoning, id))
	}
	switch {
	case o.text != "" && o.stop == "refusal":
		s.refusal(p.id("msg"), o.text)
	case o.text != "":
		s.message(p.id("msg"), o.text)
	}
	for _, tool := range o.tools {
		s.call(p.id(itemKind(tool)), tool)
	}
	s.finish(o, p.options.Now().Unix())
	if s.response.Store && !step.breaks() && step.Status < http.StatusBadRequest {
		p.keep(s.response)
	}
	whole := &reply{stream: request.yes("stream"), plain: s.response, events: s.events, failure: s.failure}
	if step.Break == NoFinish { // a plain answer is left in progress
		whole.events = s.events[:len(s.events)-1]
		s.response.Status, s.response.CompletedAt, s.response.Usage = "in_progress", nil, nil
		whole.plain = s.response
	}
	return whole
}

func itemKind(tool Tool) string {
	if tool.Custom != "" {
		return "ctc"
	}
	return "fc"
}

// startResponse is the response before anything was said: it repeats what was asked for.
func (p *Provider) startResponse(request *node, body []byte) response {
	r := response{
		ID: p.id("resp"), Object: "response", CreatedAt: p.options.Now().Unix(), Status: "in_progress", Model: request.str("model"),
		Output: []responseItem{}, ParallelToolCalls: true, ServiceTier: "default", Store: true, Truncation: "disabled",
		Reasoning: json.RawMessage(`{"effort":null,"summary":null}`), Text: json.RawMessage(`{"format":{"type":"text"}}`),
		ToolChoice: json.RawMessage(`"auto"`), Tools: json.RawMessage("[]"), Metadata: json.RawMessage("{}"),
		Temperature: json.RawMessage("1"), TopP: json.RawMessage("1"),
	}
	var asked response
	_ = json.Unmarshal(body, &asked) // only its raw fields are taken, and the body was checked
	for _, pair := range []struct{ to, from *json.RawMessage }{
		{&r.Instructions, &asked.Instructions}, {&r.MaxOutputTokens, &asked.MaxOutputTokens}, {&r.Reasoning, &asked.Reasoning},
		{&r.Temperature, &asked.Temperature}, {&r.Text, &asked.Text}, {&r.ToolChoice, &asked.ToolChoice}, {&r.Tools, &asked.Tools},
		{&r.TopP, &asked.TopP}, {&r.Metadata, &asked.Metadata},
	} {
		if !isNull(*pair.from) {
			*pair.to = *pair.from
		}
	}
	if n := request.get("parallel_tool_calls"); n.given() {
		r.ParallelToolCalls = request.yes("parallel_tool_calls")
	}
	if n := request.get("store"); n.given() {
		r.Store = request.yes("store")
	}
	r.PreviousID = optional(request.str("previous_response_id"))
	return r
}

// responseScript gathers the events of a stream; the response grows with them.
type responseScript struct {
	response response
	events   [][]byte
	pings    int
}

func (s *responseScript) snapshot() *response {
	r := s.response
	r.Output = slices.Clone(r.Output)
	return &r
}

func (s *responseScript) event(e responseEvent) {
	e.Sequence = len(s.events)
	data := named(e.Type, encode(e))
	for ; s.pings > 0 && len(s.events) > 0; s.pings-- {
		data = append([]byte(": ping\n\n"), data...)
	}
	s.events = append(s.events, data)
}

// failure is the end of a stream that breaks: the response as it was left, with the error.
func (s *responseScript) failure(f *refusal, written int) []byte {
	r := s.response
	r.Status, r.CompletedAt, r.Usage, r.IncompleteDetails, r.Output = "failed", nil, nil, nil, []responseItem{}
	code := f.code
	if code == "" {
		if code = openAICode(f.status); code == noCode {
			code = "server_error"
		}
	}
	r.Error = &responseError{code, f.message}
	return named("response.failed", encode(responseEvent{Type: "response.failed", Sequence: written, Response: &r}))
}

// item opens an item, and returns its index and the function that closes it.
func (s *responseScript) open(item responseItem) (index *int) {
	n := len(s.response.Output)
	s.event(responseEvent{Type: "response.output_item.added", OutputIndex: &n, Item: &item})
	return &n
}

func (s *responseScript) close(item responseItem, index *int) {
	s.response.Output = append(s.response.Output, item)
	s.event(responseEvent{Type: "response.output_item.done", OutputIndex: index, Item: &item})
}

func (s *responseScript) reasoning(id, thought, encrypted string) {
	item := responseItem{ID: id, Type: "reasoning", Summary: &[]responsePart{}}
	index, zero := s.open(item), new(int)
	whole := responsePart{Type: "summary_text", Text: &thought}
	s.event(responseEvent{Type: "response.reasoning_summary_part.added", ItemID: id, OutputIndex: index, SummaryIndex: zero, Part: &responsePart{Type: "summary_text", Text: new(string)}})
	for _, word := range words(thought) {
		s.event(responseEvent{Type: "response.reasoning_summary_text.delta", ItemID: id, OutputIndex: index, SummaryIndex: zero, Delta: &word})
	}
	s.event(responseEvent{Type: "response.reasoning_summary_text.done", ItemID: id, OutputIndex: index, SummaryIndex: zero, Text: &thought})
	s.event(responseEvent{Type: "response.reasoning_summary_part.done", ItemID: id, OutputIndex: index, SummaryIndex: zero, Part: &whole})
	item.Summary, item.Encrypted = &[]responsePart{whole}, encrypted
	s.close(item, index)
}

func (s *responseScript) message(id, said string) {
	item := responseItem{ID: id, Type: "message", Status: "in_progress", Role: "assistant", Content: &[]responsePart{}}
	index, zero, none := s.open(item), new(int), &[]struct{}{}
	whole := responsePart{Type: "output_text", Text: &said, Annotations: none, Logprobs: none}
	s.event(responseEvent{Type: "response.content_part.added", ItemID: id, OutputIndex: index, ContentIndex: zero,
		Part: &responsePart{Type: "output_text", Text: new(string), Annotations: none, Logprobs: none}})
	for _, word := range words(said) {
		s.event(responseEvent{Type: "response.output_text.delta", ItemID: id, OutputIndex: index, ContentIndex: zero, Delta: &word, Logprobs: none})
	}
	s.event(responseEvent{Type: "response.output_text.done", ItemID: id, OutputIndex: index, ContentIndex: zero, Text: &said, Logprobs: none})
	s.event(responseEvent{Type: "response.content_part.done", ItemID: id, OutputIndex: index, ContentIndex: zero, Part: &whole})
	item.Status, item.Content = "completed", &[]responsePart{whole}
	s.close(item, index)
}

func (s *responseScript) refusal(id, said string) {
	item := responseItem{ID: id, Type: "message", Status: "in_progress", Role: "assistant", Content: &[]responsePart{}}
	index, zero := s.open(item), new(int)
	whole := responsePart{Type: "refusal", Refusal: &said}
	s.event(responseEvent{Type: "response.content_part.added", ItemID: id, OutputIndex: index, ContentIndex: zero, Part: &responsePart{Type: "refusal", Refusal: new(string)}})
	for _, word := range words(said) {
		s.event(responseEvent{Type: "response.refusal.delta", ItemID: id, OutputIndex: index, ContentIndex: zero, Delta: &word})
	}
	s.event(responseEvent{Type: "response.refusal.done", ItemID: id, OutputIndex: index, ContentIndex: zero, Refusal: &said})
	s.event(responseEvent{Type: "response.content_part.done", ItemID: id, OutputIndex: index, ContentIndex: zero, Part: &whole})
	item.Status, item.Content = "completed", &[]responsePart{whole}
	s.close(item, index)
}

func (s *responseScript) call(id string, tool Tool) {
	item := responseItem{ID: id, Type: "function_call", Status: "in_progress", CallID: tool.ID, Name: tool.Name, Namespace: tool.Namespace, Arguments: new(string)}
	arguments, custom := tool.arguments(), tool.Custom != ""
	if custom {
		item.Type, item.Arguments, item.Input = "custom_tool_call", nil, new(string)
		arguments = tool.Custom
	}
	index := s.open(item)
	kind := "response.function_call_arguments"
	done := responseEvent{ItemID: id, OutputIndex: index, Arguments: &arguments, Name: tool.Name}
	if custom {
		kind = "response.custom_tool_call_input"
		done = responseEvent{ItemID: id, OutputIndex: index, Input: &arguments}
	}
	for _, piece := range pieces(arguments) {
		s.event(responseEvent{Type: kind + ".delta", ItemID: id, OutputIndex: index, Delta: &piece})
	}
	done.Type = kind + ".done"
	s.event(done)
	item.Status = "completed"
	if custom {
		item.Input = &arguments
	} else {
		item.Arguments = &arguments
	}
	s.close(item, index)
}

// finish writes the terminal event.
func (s *responseScript) finish(o outline, now int64) {
	s.response.Usage = o.usage.responses()
	s.response.Status, s.response.CompletedAt = "completed", &now
	refused := slices.ContainsFunc(s.response.Output, func(i responseItem) bool {
		return i.Content != nil && strings.HasPrefix((*i.Content)[0].Type, "refusal")
	})
	switch {
	case o.stop == "max_tokens" || o.stop == "model_context_window_exceeded":
		s.incomplete("max_output_tokens")
	case o.stop == "refusal" && !refused:
		s.incomplete("content_filter")
	}
	s.event(responseEvent{Type: "response." + s.response.Status, Response: s.snapshot()})
}

// incomplete marks the response, and its last item, as cut.
func (s *responseScript) incomplete(reason string) {
	s.response.Status, s.response.CompletedAt, s.response.IncompleteDetails = "incomplete", nil, &incompleteDetails{reason}
}
