package anthropic

import (
	"slices"
	"strconv"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// version is the API's version that our requests are written in. The one of 2026-10 refuses sampling, which older models
// take.
const version = "2023-06-01"

// maxUser is how long a user_id may be; a longer one is replaced by its hash.
const maxUser = 256

// maxMarks is how many cache marks a request may have.
const maxMarks = 4

// encoding is the writing of one request.
type encoding struct {
	w     rawjson.Writer
	r     *ir.Request // a copy: its losses are ours
	t     ir.Target
	f     family
	own   bool // the client speaks this dialect: what is opaque in its request may go out as it came
	book  *ir.ToolBook
	spare int // cache marks that are too many: so many of the first ones go

	out       []message
	maxTokens int64
	thinks    bool   // reasoning is on for this request
	budget    int64  // of it, for models that need one
	effort    string // output_config.effort
}

// encodeRequest implements ir.Dialect.
func encodeRequest(r *ir.Request, t ir.Target) (*ir.Outgoing, error) {
	q := *r
	q.Lost = slices.Clone(r.Lost)
	e := &encoding{r: &q, t: t, f: familyOf(t.Model), own: r.Names == &names, book: ir.NewToolBook(r, toolRule())}
	tools := e.tools()
	if err := e.checkChoice(tools); err != nil {
		return nil, err
	}
	e.out = e.arrange()
	e.limits()
	e.reason()
	if err := e.checkEnd(); err != nil {
		return nil, err
	}
	if err := e.write(tools); err != nil {
		return nil, err
	}
	return &ir.Outgoing{
		Body: e.w.Buf, Path: "/v1/messages", Headers: [][2]string{{"anthropic-version", version}}, Tools: e.book, Lost: q.Lost,
	}, nil
}

// checkEnd refuses to let a model go on with a client's own beginning of the answer where it cannot.
func (e *encoding) checkEnd() error {
	n := len(e.out)
	if n == 0 || e.out[n-1].role != ir.Assistant {
		return nil
	}
	if !e.f.prefill() {
		return ir.Refuse(e.out[n-1].at, "the model does not continue an assistant's turn: the last turn must be the user's")
	}
	return nil
}

// write writes the body.
func (e *encoding) write(tools []ir.Tool) error {
	w := &e.w
	e.countMarks(tools)
	w.Buf = make([]byte, 0, 64<<10)
	w.Open('{')
	w.Field("model", e.t.Model)
	w.Number("max_tokens", e.maxTokens)
	if err := e.writeTools(tools); err != nil {
		return err
	}
	e.writeSystem()
	w.Key("messages")
	w.Open('[')
	for i := range e.out {
		if err := e.message(&e.out[i]); err != nil {
			return err
		}
	}
	w.Close(']')
	e.sampling()
	e.stop()
	e.writeReasoning()
	e.options()
	if e.r.Stream {
		w.Key("stream")
		w.Bool(true)
	}
	w.Close('}')
	return nil
}

// limits settles max_tokens, which the API wants always.
func (e *encoding) limits() {
	e.maxTokens = e.r.MaxTokens
	if e.maxTokens == 0 {
		if e.maxTokens = e.f.max; e.maxTokens == 0 {
			e.maxTokens = defaultMaxTokens
		}
	}
	if e.f.max > 0 && e.maxTokens > e.f.max {
		e.maxTokens = e.f.max
		e.r.Lose(ir.FieldMaxTokens)
	}
}

// sampling writes what the model takes of it.
func (e *encoding) sampling() {
	s := &e.r.Sampling
	for _, f := range [...]struct {
		field ir.Field
		set   bool
	}{
		{ir.FieldFrequencyPenalty, s.FrequencyPenalty != ""}, {ir.FieldPresencePenalty, s.PresencePenalty != ""},
		{ir.FieldSeed, s.Seed != ""}, {ir.FieldLogitBias, len(s.LogitBias) > 0},
	} {
		if f.set {
			e.r.Lose(f.field)
		}
	}
	temperature, topP, topK := e.samplers()
	for _, f := range [...]struct {
		name, has, want string
		field           ir.Field
	}{
		{"temperature", temperature, s.Temperature, ir.FieldTemperature}, {"top_p", topP, s.TopP, ir.FieldTopP}, {"top_k", topK, s.TopK, ir.FieldTopK},
	} {
		if f.has != f.want {
			e.r.Lose(f.field)
		}
		if f.has != "" {
			e.w.Key(f.name)
			e.w.Raw([]byte(f.has))
		}
	}
}

// samplers are the values that the model takes: none but a temperature of 1 where it is newer than 4.6; while it reasons
// no other temperature, no top_k, and top_p from 0.95 on.
func (e *encoding) samplers() (temperature, topP, topK string) {
	s := &e.r.Sampling
	temperature, topP, topK = s.Temperature, s.TopP, s.TopK
	t, err := strconv.ParseFloat(temperature, 64)
	if err != nil {
		temperature = ""
	} else if t > 1 {
		temperature, t = "1", 1
	}
	fixed := !e.f.sampling() || e.thinks && e.f.claude
	if fixed {
		topK = ""
		if t != 1 {
			temperature = ""
		}
		if p, err := strconv.ParseFloat(topP, 64); !e.f.sampling() || err != nil || p < 0.95 {
			topP = ""
		}
	}
	if temperature != "" && e.f.oneSampler() {
		topP = ""
	}
	return temperature, topP, topK
}

// stop writes the stop sequences. The API refuses blank ones.
func (e *encoding) stop() {
	var stop []string
	for _, s := range e.r.Stop {
		if blank(s) {
			e.r.Lose(ir.FieldStop)
		} else {
			stop = append(stop, s)
		}
	}
	if len(stop) > 0 {
		e.strings("stop_sequences", stop)
	}
}

func (e *encoding) strings(name string, list []string) {
	e.w.Key(name)
	e.w.Open('[')
	for _, s := range list {
		e.w.String(s)
	}
	e.w.Close(']')
}

// options writes what is left.
func (e *encoding) options() {
	r, w := e.r, &e.w
	if r.User != "" {
		w.Key("metadata")
		w.Open('{')
		w.Field("user_id", ir.Shorten(r.User, maxUser))
		w.Close('}')
	}
	switch r.ServiceTier {
	case "":
	case "auto", "priority": // capacity that was bought ahead is used by "auto"
		w.Field("service_tier", "auto")
	case "default":
		w.Field("service_tier", "standard_only")
	default:
		r.Lose(ir.FieldServiceTier)
	}
	if len(r.Metadata) > 0 {
		r.Lose(ir.FieldMetadata)
	}
	if r.Verbosity != "" {
		r.Lose(ir.FieldVerbosity)
	}
	if (r.Cache.Key != "" || r.Cache.Retention != "") && !e.own {
		r.Lose(ir.FieldCacheKey)
	}
	if m := r.Cache.Auto; m != nil {
		e.mark(m)
	} else if !e.own && !e.marked() { // OpenAI's and Gemini's clients never say it, their providers cache by themselves
		e.mark(&ir.CacheMark{})
	}
}

// marks visits all cache marks that are written, in the order of the prompt.
func (e *encoding) marks(tools []ir.Tool, visit func(*ir.CacheMark)) {
	one := func(m *ir.CacheMark) {
		if m != nil {
			visit(m)
		}
	}
	for i := range tools {
		one(tools[i].Cache)
	}
	for i := range e.r.System {
		if !blank(e.r.System[i].Text) {
			one(e.r.System[i].Cache)
		}
	}
	for i := range e.out {
		for _, p := range e.out[i].parts {
			if p.Kind == ir.Thinking {
				continue
			}
			for _, b := range e.flat(nil, p.Content) {
				one(b.Cache)
			}
			one(p.Cache)
		}
	}
}

func (e *encoding) marked() bool {
	n := 0
	e.marks(e.r.Tools, func(*ir.CacheMark) { n++ })
	return n > 0
}

// countMarks finds out how many marks are too many: the last ones stay, they cover the most.
func (e *encoding) countMarks(tools []ir.Tool) {
	e.spare = -maxMarks
	if e.r.Cache.Auto != nil {
		e.spare++
	}
	e.marks(tools, func(*ir.CacheMark) { e.spare++ })
}

// cache writes a block's mark unless it is one too many.
func (e *encoding) cache(m *ir.CacheMark) {
	if m == nil {
		return
	}
	if e.spare > 0 {
		e.spare--
		e.r.Lose(ir.FieldCacheMark)
		return
	}
	e.mark(m)
}

// mark writes a cache_control. It knows 5m and 1h alone.
func (e *encoding) mark(m *ir.CacheMark) {
	e.w.Key("cache_control")
	e.w.Open('{')
	e.w.Field("type", "ephemeral")
	switch m.TTL {
	case "", "5m", "1h":
		e.w.Optional("ttl", m.TTL)
	default:
		e.w.Field("ttl", "1h")
		e.r.Lose(ir.FieldCacheMark)
	}
	e.w.Close('}')
}
