package demo

import (
	"bytes"
	"encoding/json"
	"hash/fnv"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
)

type openAIModel struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

type openAIList struct {
	Object string        `json:"object"`
	Data   []openAIModel `json:"data"`
}

func describeOpenAI(id string) openAIModel {
	return openAIModel{ID: id, Object: "model", Created: 1_767_225_600, OwnedBy: "demo"}
}

// sideGrammar is what the endpoints beside chat and responses take.
const sideGrammar = `
embeddings = {model! string, input! string|[string|number|[number]], encoding_format 'float'|'base64', dimensions int, user string}
completions = {model! string, prompt! any, best_of int|null, echo bool|null, frequency_penalty number|null, logit_bias <number>|null, logprobs int|null,
	max_tokens int|null, n int|null, presence_penalty number|null, seed int|null, stop string|[string]|null, stream bool|null, stream_options object|null,
	suffix string|null, temperature number|null, top_p number|null, user string}
moderations = {input! string|[string|object], model string}
images/generations = {prompt! string, model string|null, background string|null, moderation string|null, n int|null, output_compression int|null,
	output_format string|null, partial_images int|null, quality string|null, response_format 'url'|'b64_json'|null, size string|null, stream bool|null,
	style string|null, user string}
audio/speech = {input! string, model! string, voice! string|object, instructions string, response_format 'mp3'|'opus'|'aac'|'flac'|'wav'|'pcm', speed number,
	stream_format 'sse'|'audio'}
`

// side answers the endpoints beside chat and responses: the shapes alone, nothing clever.
func (p *Provider) side(a *answer, body []byte) {
	name := openAISide(a.r.URL.Path)
	if name == "audio/transcriptions" {
		p.transcribe(a, body)
		return
	}
	request, refusal := readOpenAI(p.grammar.side(), name, body)
	if refusal == nil && request.has("model") && !p.serves(request.str("model")) {
		refusal = unknownModel(openAIChat, request.str("model"))
	}
	if refusal != nil {
		a.refuse(refusal)
		return
	}
	switch name {
	case "embeddings":
		embeddings(a, request)
	case "completions":
		p.complete(a, request, len(body))
	case "moderations":
		p.moderate(a, request)
	case "images/generations":
		a.json(http.StatusOK, struct {
			Created int64   `json:"created"`
			Data    []image `json:"data"`
		}{p.options.Now().Unix(), []image{{B64: onePixel}}})
	case "audio/speech":
		a.body(http.StatusOK, "audio/mpeg", []byte("ID3 demo speech: "+request.str("input")))
	}
}

type image struct {
	B64 string `json:"b64_json"`
}

// onePixel is a PNG.
const onePixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="

// vector makes a small embedding that depends on the text alone.
func vector(text string) []float64 {
	h := fnv.New64a()
	h.Write([]byte(text))
	sum := h.Sum64()
	values := make([]float64, 8)
	for i := range values {
		values[i] = float64(int8(sum>>(8*i))) / 128
	}
	return values
}

type embedding struct {
	Object    string    `json:"object"`
	Index     int       `json:"index"`
	Embedding []float64 `json:"embedding"`
}

type promptUsage struct {
	Prompt int `json:"prompt_tokens"`
	Total  int `json:"total_tokens"`
}

func embeddings(a *answer, request *node) {
	inputs := request.items("input")
	if request.get("input").is(text) || len(inputs) > 0 && inputs[0].is(number) {
		inputs = []*node{request.get("input")}
	}
	answer := struct {
		Object string      `json:"object"`
		Data   []embedding `json:"data"`
		Model  string      `json:"model"`
		Usage  promptUsage `json:"usage"`
	}{Object: "list", Data: []embedding{}, Model: request.str("model")}
	for i, input := range inputs {
		answer.Data = append(answer.Data, embedding{"embedding", i, vector(input.canonical())})
		answer.Usage.Prompt += tokens(len(input.canonical()))
	}
	answer.Usage.Total = answer.Usage.Prompt
	a.json(http.StatusOK, answer)
}

type completion struct {
	ID      string             `json:"id"`
	Object  string             `json:"object"`
	Created int64              `json:"created"`
	Model   string             `json:"model"`
	Choices []completionChoice `json:"choices"`
	Usage   json.RawMessage    `json:"usage,omitempty"`
}

type completionChoice struct {
	Text         string          `json:"text"`
	Index        int             `json:"index"`
	Logprobs     json.RawMessage `json:"logprobs"`
	FinishReason *string         `json:"finish_reason"`
}

// complete answers the legacy completions, of text alone.
func (p *Provider) complete(a *answer, request *node, received int) {
	step := p.next()
	o := p.outline(step, received, "call")
	finish := chatFinish(o.stop)
	base := completion{ID: p.id("cmpl"), Object: "text_completion", Created: p.options.Now().Unix(), Model: request.str("model")}
	chunk := func(text string, finish *string) completion {
		c := base
		c.Choices = []completionChoice{{Text: text, FinishReason: finish}}
		return c
	}
	plain := chunk(o.text, &finish)
	plain.Usage = o.usage.chat()
	whole := &reply{stream: request.yes("stream"), plain: plain}
	for _, word := range words(o.text) {
		whole.events = append(whole.events, unnamed(encode(chunk(word, nil))))
	}
	whole.events = append(whole.events, unnamed(encode(chunk("", &finish))), unnamed([]byte("[DONE]")))
	whole.failure = func(f *refusal, _ int) []byte { return unnamed(encode(f.body(openAIChat, ""))) }
	a.give(step, whole)
}

func (p *Provider) moderate(a *answer, request *node) {
	type result struct {
		Flagged    bool               `json:"flagged"`
		Categories map[string]bool    `json:"categories"`
		Scores     map[string]float64 `json:"category_scores"`
	}
	inputs := request.items("input")
	if request.get("input").is(text) {
		inputs = []*node{request.get("input")}
	}
	answer := struct {
		ID      string   `json:"id"`
		Model   string   `json:"model"`
		Results []result `json:"results"`
	}{ID: p.id("modr"), Model: "omni-moderation-latest", Results: []result{}}
	for range inputs {
		answer.Results = append(answer.Results, result{Categories: map[string]bool{"violence": false}, Scores: map[string]float64{"violence": 0.01}})
	}
	a.json(http.StatusOK, answer)
}

// maxForm bounds how much of a form is kept in memory.
const maxForm = 1 << 20

// transcribe answers a multipart form with the model and the size of the file, so that a test sees both arrived.
func (p *Provider) transcribe(a *answer, body []byte) {
	kind, params, err := mime.ParseMediaType(a.r.Header.Get("content-type"))
	if err != nil || kind != "multipart/form-data" {
		a.refuse(bad("We could not parse your request: the content type must be multipart/form-data."))
		return
	}
	form, err := multipart.NewReader(bytes.NewReader(body), params["boundary"]).ReadForm(maxForm)
	if err != nil {
		a.refuse(bad("Could not parse multipart form"))
		return
	}
	defer form.RemoveAll()
	if len(form.File["file"]) != 1 {
		a.refuse(badParam("file", "missing_required_parameter", "Missing required parameter: 'file'."))
		return
	}
	model := strings.Join(form.Value["model"], ",")
	if model == "" || strings.Contains(model, ",") {
		a.refuse(badParam("model", "missing_required_parameter", "you must provide a model parameter"))
		return
	}
	if !p.serves(model) {
		a.refuse(unknownModel(openAIChat, model))
		return
	}
	file, err := form.File["file"][0].Open()
	if err != nil {
		a.refuse(bad("Could not read the file"))
		return
	}
	defer file.Close()
	size, err := io.Copy(io.Discard, file)
	if err != nil {
		a.refuse(bad("Could not read the file"))
		return
	}
	a.json(http.StatusOK, struct {
		Text  string `json:"text"`
		Model string `json:"model"`
		Bytes int64  `json:"bytes"`
	}{"A recording.", model, size})
}
