package openairesponses

import (
	"slices"
	"strings"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// writer encodes one request.
type writer struct {
	rawjson.Writer
	r     *ir.Request
	t     ir.Target
	model model
	book  *ir.ToolBook
	own   bool       // the request was in this dialect
	lost  ir.Request // gathers what is lost: the request itself may be encoded for another target, too

	pairs   *ir.Pairing
	open    []*ir.Pair // calls that are written and wait for their results
	message string     // the role of the message that is open, "" none
	phase   string     // of the turn
}

// encodeRequest writes a request for an upstream.
func encodeRequest(r *ir.Request, t ir.Target) (*ir.Outgoing, error) {
	w := &writer{r: r, t: t, model: modelOf(t.Model), own: r.Names == &fieldNames}
	w.lost = ir.Request{Names: r.Names, Lost: slices.Clone(r.Lost)}
	w.book = ir.NewToolBook(r, nameRule())
	w.pairs = ir.NewPairing(r.Turns, nameRule())
	w.Buf = make([]byte, 0, sizeOf(r))
	w.Open('{')
	w.Field("model", t.Model)
	if r.Stream {
		w.Key("stream")
		w.Bool(true)
	}
	system := w.system()
	if len(r.Turns) > 0 {
		w.Optional("instructions", system)
	}
	w.Key("input")
	w.Open('[')
	if len(r.Turns) == 0 && system != "" { // the API wants an input
		w.instruction(system)
	}
	if w.needsJSONWord(system) {
		w.instruction("Answer with a JSON object.")
	}
	if err := w.turns(); err != nil {
		return nil, err
	}
	w.Close(']')
	if err := w.tools(); err != nil {
		return nil, err
	}
	w.limits()
	w.reasoning()
	w.text()
	w.caller()
	w.Key("store")
	w.Bool(false)
	if !w.model.known || w.model.reasons { // others refuse the wish (gpt-4o: "not supported with this model")
		w.Key("include")
		w.Raw([]byte(`["reasoning.encrypted_content"]`))
	}
	w.Close('}')
	return &ir.Outgoing{Body: w.Buf, Path: endpoint, Tools: w.book, Lost: w.lost.Lost}, nil
}

// sizeOf guesses how long a request will be, in bytes, so that its buffer need not grow often.
func sizeOf(r *ir.Request) int {
	n := 1024
	add := func(blocks []ir.Block) {
		for i := range blocks {
			b := &blocks[i]
			n += len(b.Text) + len(b.Args) + len(b.Media.Data) + len(b.Raw) + 128
			if b.State != nil {
				n += len(b.State.Data)
			}
		}
	}
	add(r.System)
	for i := range r.Turns {
		add(r.Turns[i].Blocks)
		for j := range r.Turns[i].Blocks {
			add(r.Turns[i].Blocks[j].Content)
		}
	}
	for i := range r.Tools {
		n += len(r.Tools[i].Description) + len(r.Tools[i].Schema) + 128
	}
	return n + n/16 // escapes
}

// system joins the instructions, as the API joins them in its own prompts; marks and boundaries are lost.
func (w *writer) system() string {
	var text strings.Builder
	for i := range w.r.System {
		b := &w.r.System[i]
		if b.Cache != nil {
			w.lost.Lose(ir.FieldCacheMark)
		}
		if b.Text == "" {
			continue
		}
		if text.Len() > 0 {
			text.WriteString("\n\n")
		}
		text.WriteString(b.Text)
	}
	return text.String()
}

// instruction writes a developer's message.
func (w *writer) instruction(text string) {
	w.openMessage("developer")
	w.textPart("input_text", text, nil)
	w.closeMessage()
}

// needsJSONWord reports whether JSON is asked for in a conversation that does not say the word: the API refuses that.
func (w *writer) needsJSONWord(system string) bool {
	if w.r.Format.Kind != ir.FormatJSON || strings.Contains(strings.ToLower(system), "json") && len(w.r.Turns) == 0 {
		return false
	}
	for i := range w.r.Turns {
		for j := range w.r.Turns[i].Blocks {
			if b := &w.r.Turns[i].Blocks[j]; b.Kind == ir.Text && strings.Contains(strings.ToLower(b.Text), "json") {
				return false
			}
		}
	}
	return true
}

// minOutput is the least max_output_tokens that the API takes.
const minOutput = 16

// limits writes sampling and bounds. What reasoning models refuse is left out.
func (w *writer) limits() {
	if n := w.r.MaxTokens; n > 0 {
		w.Number("max_output_tokens", max(n, minOutput))
	}
	s := &w.r.Sampling
	w.sampling("temperature", s.Temperature, ir.FieldTemperature)
	w.sampling("top_p", s.TopP, ir.FieldTopP)
	for _, f := range [...]struct {
		value string
		field ir.Field
	}{
		{s.TopK, ir.FieldTopK}, {s.FrequencyPenalty, ir.FieldFrequencyPenalty}, {s.PresencePenalty, ir.FieldPresencePenalty},
		{s.Seed, ir.FieldSeed}, {string(s.LogitBias), ir.FieldLogitBias},
	} {
		if f.value != "" {
			w.lost.Lose(f.field)
		}
	}
	if len(w.r.Stop) > 0 {
		w.lost.Lose(ir.FieldStop)
	}
}

func (w *writer) sampling(name, value string, field ir.Field) {
	switch {
	case value == "":
	case !w.model.reasons:
		w.Member(name, []byte(value))
	case value != "1" && value != "1.0": // 1 is what they take it for
		w.lost.Lose(field)
	}
}

// reasoning says how much the model shall reason, in the words that it lists.
func (w *writer) reasoning() {
	q := &w.r.Reasoning
	effort := q.Effort
	if effort == "" {
		effort = ir.EffortOf(q.Budget)
	}
	switch {
	case w.model.known && !w.model.reasons:
		if effort != "" || q.Mode == ir.ReasoningOn || q.Summary != "" {
			w.lost.Lose(ir.FieldReasoning)
		}
		return
	case q.Mode == ir.ReasoningOff:
		if effort = w.model.off(); effort == "" {
			w.lost.Lose(ir.FieldReasoning)
		}
	default:
		effort = w.model.effort(effort)
	}
	summary := q.Summary
	if summary == "" && q.Show != nil && *q.Show {
		summary = "auto"
	}
	if effort == "" && summary == "" {
		return
	}
	w.Key("reasoning")
	w.Open('{')
	w.Optional("effort", effort)
	w.Optional("summary", summary)
	w.Close('}')
}

// text says the form of the answer's text.
func (w *writer) text() {
	f := &w.r.Format
	verbosity := w.r.Verbosity
	if verbosity != "" && w.model.known && !w.model.atLeast(5, 0) {
		w.lost.Lose(ir.FieldVerbosity)
		verbosity = ""
	}
	if f.Kind == ir.FormatText && verbosity == "" {
		return
	}
	w.Key("text")
	w.Open('{')
	if f.Kind != ir.FormatText {
		w.Key("format")
		w.format(f)
	}
	w.Optional("verbosity", verbosity)
	w.Close('}')
}

func (w *writer) format(f *ir.Format) {
	w.Open('{')
	switch f.Kind {
	case ir.FormatJSON:
		w.Field("type", "json_object")
	case ir.FormatSchema:
		w.Field("type", "json_schema")
		name := "response"
		if f.Name != "" {
			name = nameRule().Fit(f.Name)
		}
		w.Field("name", name)
		w.Optional("description", f.Description)
		w.Member("schema", f.Schema)
		if f.Strict != nil {
			w.Key("strict")
			w.Bool(*f.Strict)
		}
	default:
		w.Field("type", "text")
	}
	w.Close('}')
}

// The longest ids that the API takes, in bytes.
const (
	maxUser     = 128
	maxCacheKey = 64
)

// caller says who asks and what may be kept warm.
func (w *writer) caller() {
	r := w.r
	w.Optional("safety_identifier", ir.Shorten(r.User, maxUser))
	w.Optional("prompt_cache_key", ir.Shorten(r.Cache.Key, maxCacheKey))
	w.Optional("prompt_cache_retention", r.Cache.Retention)
	if r.Cache.Auto != nil { // OpenAI caches by itself; how long cannot be said
		w.lost.Lose(ir.FieldCacheMark)
	}
	w.Member("metadata", r.Metadata)
	w.Optional("service_tier", r.ServiceTier)
}
