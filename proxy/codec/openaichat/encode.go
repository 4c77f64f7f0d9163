package openaichat

import (
	"slices"
	"strconv"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// writer encodes one request.
type writer struct {
	r      *ir.Request // a copy: losses are noted here
	target ir.Target
	family family
	w      rawjson.Writer
	book   *ir.ToolBook
	pairs  *ir.Pairing

	parts []part // of the message that is being written
	media []*ir.Block
	free  map[ir.ToolName]bool // tools that go as free text ("custom")
}

// encodeRequest writes a request for an upstream that speaks Chat.
func encodeRequest(r *ir.Request, t ir.Target) (*ir.Outgoing, error) {
	c := *r
	c.Lost = slices.Clone(r.Lost)
	e := &writer{r: &c, target: t, family: familyOf(t.Model), book: ir.NewToolBook(r, toolNames()), pairs: ir.NewPairing(r.Turns, callIDs())}
	e.w.Buf = make([]byte, 0, 4096+size(r))
	e.w.Open('{')
	e.w.Field("model", t.Model)
	e.findFree()
	if err := e.messages(); err != nil {
		return nil, err
	}
	if err := e.tools(); err != nil {
		return nil, err
	}
	if err := e.sampling(); err != nil {
		return nil, err
	}
	e.format()
	e.reasoning()
	e.session()
	e.options()
	if r.Stream {
		e.w.Key("stream")
		e.w.Bool(true)
		e.w.Key("stream_options")
		e.w.Raw([]byte(`{"include_usage":true}`))
	}
	e.w.Close('}')
	return &ir.Outgoing{Body: e.w.Buf, Path: path, Tools: e.book, Lost: c.Lost}, nil
}

// size is about how many bytes a request's text takes.
func size(r *ir.Request) int {
	n := 0
	var add func(blocks []ir.Block, depth int)
	add = func(blocks []ir.Block, depth int) {
		for i := range blocks {
			b := &blocks[i]
			n += len(b.Text) + len(b.Text)/16 + len(b.Args) + len(b.Args)/8 + len(b.Media.Data) + len(b.Raw) + 128
			if depth < maxResultDepth {
				add(b.Content, depth+1)
			}
		}
	}
	add(r.System, 0)
	for i := range r.Turns {
		add(r.Turns[i].Blocks, 0)
	}
	for i := range r.Tools {
		n += len(r.Tools[i].Schema) + len(r.Tools[i].Description) + len(r.Tools[i].Description)/16 + 128
	}
	return n
}

// number writes a member whose value is kept as it was written.
func (e *writer) number(name, value string) {
	if value != "" {
		e.w.Key(name)
		e.w.Raw([]byte(value))
	}
}

// sampling writes limits and numbers. What the model refuses is dropped and named (design/conversion.md, 4).
func (e *writer) sampling() error {
	r, s, f := e.r, &e.r.Sampling, e.family
	if r.MaxTokens > 0 {
		name := "max_tokens"
		if f.vendor == openAI {
			name = "max_completion_tokens"
		}
		e.w.Number(name, r.MaxTokens)
	}
	fixed := func(name, value, only string, field ir.Field) {
		if value != "" && f.reasons() && !equal(value, only) {
			r.Lose(field)
			return
		}
		e.number(name, value)
	}
	fixed("temperature", s.Temperature, "1", ir.FieldTemperature)
	fixed("top_p", s.TopP, "1", ir.FieldTopP)
	fixed("frequency_penalty", s.FrequencyPenalty, "0", ir.FieldFrequencyPenalty)
	fixed("presence_penalty", s.PresencePenalty, "0", ir.FieldPresencePenalty)
	if s.TopK != "" {
		r.Lose(ir.FieldTopK)
	}
	e.number("seed", s.Seed)
	if f.reasons() && len(s.LogitBias) > 0 {
		r.Lose(ir.FieldLogitBias)
	} else {
		e.w.Member("logit_bias", s.LogitBias)
	}
	return e.stop()
}

// equal compares numbers as they are written: 1, 1.0, 1e0.
func equal(value, only string) bool {
	if value == only {
		return true
	}
	v, err := strconv.ParseFloat(value, 64)
	o, _ := strconv.ParseFloat(only, 64)
	return err == nil && v == o
}

// maxStop is how many stop sequences the dialect takes.
const maxStop = 4

func (e *writer) stop() error {
	r := e.r
	switch {
	case len(r.Stop) == 0:
		return nil
	case e.family.noStop():
		r.Lose(ir.FieldStop)
		return nil
	case len(r.Stop) > maxStop:
		return ir.Refuse(r.Name(ir.FieldStop), "must hold at most %d sequences for this model", maxStop)
	}
	e.w.Key("stop")
	e.w.Open('[')
	for _, s := range r.Stop {
		e.w.String(s)
	}
	e.w.Close(']')
	return nil
}

// format writes response_format.
func (e *writer) format() {
	f := &e.r.Format
	switch {
	case f.Kind == ir.FormatText:
	case f.Kind == ir.FormatJSON || len(f.Schema) == 0:
		e.w.Key("response_format")
		e.w.Raw([]byte(`{"type":"json_object"}`))
	default:
		e.w.Key("response_format")
		e.w.Open('{')
		e.w.Field("type", "json_schema")
		e.w.Key("json_schema")
		e.w.Open('{')
		name := f.Name
		if name == "" {
			name = "response"
		}
		e.w.Field("name", toolNames().Fit(name))
		e.w.Optional("description", f.Description)
		e.w.Member("schema", f.Schema)
		if f.Strict != nil {
			e.w.Key("strict")
			e.w.Bool(*f.Strict)
		}
		e.w.Close('}')
		e.w.Close('}')
	}
}

// reasoning writes how much the model shall reason, in the vendor's own words (facts/protocols.md, 2.5 and 5.5).
func (e *writer) reasoning() {
	g := &e.r.Reasoning
	if g.Summary != "" {
		e.r.LosePath("reasoning.summary")
	}
	if g.Mode == ir.ReasoningUnset && g.Effort == "" && g.Budget == 0 {
		return
	}
	want := g.Effort
	switch {
	case g.Mode == ir.ReasoningOff:
		want = "none"
	case want == "":
		want = ir.EffortOf(g.Budget)
	}
	switch e.family.vendor {
	case deepSeek:
		e.thinking(want != "none")
		switch want {
		case "", "none":
		case "minimal", "low":
			e.w.Field("reasoning_effort", "low")
		case "max":
			e.w.Field("reasoning_effort", "max")
		default:
			e.w.Field("reasoning_effort", "high")
		}
	case kimi, glm:
		e.thinking(want != "none")
		if want != "" && want != "none" {
			e.r.Lose(ir.FieldReasoning) // how much: they know on and off
		}
	case qwen:
		e.qwen(want)
	default:
		if want == "" { // on, as the model likes: a model that reasons does that
			if level, _ := e.family.effort("medium"); level == "" && e.family.vendor != miniMax && e.family.vendor != miMo && e.family.vendor != grok {
				e.r.Lose(ir.FieldReasoning)
			}
			return
		}
		level, exact := e.family.effort(want)
		if level == "" || want == "none" && !exact {
			e.r.Lose(ir.FieldReasoning)
		}
		e.w.Optional("reasoning_effort", level)
	}
}

func (e *writer) thinking(on bool) {
	kind := "disabled"
	if on {
		kind = "enabled"
	}
	e.w.Key("thinking")
	e.w.Open('{')
	e.w.Field("type", kind)
	e.w.Close('}')
}

// qwen: many deployments reason in streams alone, and refuse JSON mode beside it.
func (e *writer) qwen(want string) {
	on := want != "none"
	if on && (!e.r.Stream || e.r.Format.Kind != ir.FormatText) {
		on = false
		e.r.Lose(ir.FieldReasoning)
	}
	e.w.Key("enable_thinking")
	e.w.Bool(on)
	budget := e.r.Reasoning.Budget
	if budget <= 0 {
		budget = ir.BudgetOf(want)
	}
	if on && budget > 0 {
		e.w.Number("thinking_budget", budget)
	}
}

// session writes who asks, and what may be kept warm for it.
func (e *writer) session() {
	r := e.r
	own := e.family.vendor == openAI
	switch {
	case r.User == "":
	case own:
		e.w.Field("safety_identifier", ir.Shorten(r.User, 128))
	default:
		e.w.Field("user", ir.Shorten(r.User, 64))
	}
	key := r.Cache.Key
	switch {
	case own:
		e.w.Optional("prompt_cache_key", ir.Shorten(key, 64))
		e.w.Optional("prompt_cache_retention", r.Cache.Retention)
	default:
		if key != "" {
			r.Lose(ir.FieldCacheKey)
		}
		if r.Cache.Retention != "" {
			r.LosePath("prompt_cache_retention")
		}
	}
	if auto := r.Cache.Auto; auto != nil {
		if !e.family.breakpoints() {
			r.Lose(ir.FieldCacheMark)
			return
		}
		e.w.Key("prompt_cache_options")
		e.w.Open('{')
		e.w.Field("mode", "implicit")
		e.w.Optional("ttl", ttl(auto.TTL))
		e.w.Close('}')
	}
}

// ttl gives the time that the dialect knows and that is not shorter than the client's.
func ttl(want string) string {
	switch want {
	case "5m", "30m":
		return "30m"
	case "1h", "12h":
		return "12h"
	}
	return ""
}

// options writes what OpenAI alone knows.
func (e *writer) options() {
	r := e.r
	own := e.family.vendor == openAI
	if r.Verbosity != "" {
		if e.family.from(5, 0) {
			e.w.Field("verbosity", r.Verbosity)
		} else {
			r.Lose(ir.FieldVerbosity)
		}
	}
	if r.ServiceTier != "" {
		if own {
			e.w.Field("service_tier", r.ServiceTier)
		} else {
			r.Lose(ir.FieldServiceTier)
		}
	}
	if len(r.Metadata) > 0 {
		if own {
			e.w.Member("metadata", r.Metadata)
		} else {
			r.Lose(ir.FieldMetadata)
		}
	}
}
