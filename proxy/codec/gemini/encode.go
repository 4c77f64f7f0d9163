package gemini

import (
	"slices"
	"strconv"
	"strings"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// encoding is the writing of one request.
type encoding struct {
	w    rawjson.Writer
	r    *ir.Request // a copy: its losses are ours
	t    ir.Target
	f    family
	own  bool // the client speaks this dialect: what is opaque in its request may go out as it came
	book *ir.ToolBook
}

// encodeRequest implements ir.Dialect.
func encodeRequest(r *ir.Request, t ir.Target) (*ir.Outgoing, error) {
	q := *r
	q.Lost = slices.Clone(r.Lost)
	e := &encoding{r: &q, t: t, f: familyOf(t.Model), own: r.Names == &fieldNames, book: ir.NewToolBook(r, toolNames())}
	if err := e.write(); err != nil {
		return nil, err
	}
	out := &ir.Outgoing{Body: e.w.Buf, Path: path(t.Model, "generateContent"), Tools: e.book, Lost: q.Lost}
	if r.Stream {
		out.Path, out.Query = path(t.Model, "streamGenerateContent"), "alt=sse"
	}
	return out, nil
}

// path is where a model is asked. Names may begin with their collection.
func path(model, action string) string {
	collection := "models"
	if rest, ok := strings.CutPrefix(model, "models/"); ok {
		model = rest
	} else if rest, ok := strings.CutPrefix(model, "tunedModels/"); ok {
		collection, model = "tunedModels", rest
	}
	return "/v1beta/" + collection + "/" + escape(model) + ":" + action
}

// escape writes a model's name as one segment of a path.
func escape(model string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := 0; i < len(model); i++ {
		c := model[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-_.~$&+=:@", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(digits[c>>4])
		b.WriteByte(digits[c&15])
	}
	return b.String()
}

// write writes the body.
func (e *encoding) write() error {
	w := &e.w
	w.Buf = make([]byte, 0, 64<<10)
	w.Open('{')
	e.system()
	w.Key("contents")
	w.Open('[')
	contents := e.arrange()
	for i := range contents {
		if err := e.content(&contents[i]); err != nil {
			return err
		}
	}
	w.Close(']')
	if err := e.tools(); err != nil {
		return err
	}
	if err := e.config(); err != nil {
		return err
	}
	e.tier()
	e.unsaid()
	w.Close('}')
	return nil
}

// system writes systemInstruction.
func (e *encoding) system() {
	open := false
	for i := range e.r.System {
		b := &e.r.System[i]
		if b.Cache != nil {
			e.r.Lose(ir.FieldCacheMark)
		}
		if b.Text == "" {
			continue
		}
		if !open {
			open = true
			e.w.Key("systemInstruction")
			e.w.Open('{')
			e.w.Key("parts")
			e.w.Open('[')
		}
		e.w.Open('{')
		e.w.Field("text", b.Text)
		e.w.Close('}')
	}
	if open {
		e.w.Close(']')
		e.w.Close('}')
	}
}

// tier writes serviceTier.
func (e *encoding) tier() {
	switch e.r.ServiceTier {
	case "", "auto":
	case "default":
		e.w.Field("serviceTier", "standard")
	case "flex", "priority":
		e.w.Field("serviceTier", e.r.ServiceTier)
	default:
		e.r.Lose(ir.FieldServiceTier)
	}
}

// unsaid names what this dialect has no word for. What is kept warm the provider decides itself.
func (e *encoding) unsaid() {
	r := e.r
	for _, f := range [...]struct {
		field ir.Field
		said  bool
	}{
		{ir.FieldLogitBias, len(r.Sampling.LogitBias) > 0}, {ir.FieldVerbosity, r.Verbosity != ""}, {ir.FieldUser, r.User != ""},
		{ir.FieldMetadata, len(r.Metadata) > 0}, {ir.FieldCacheKey, r.Cache.Key != "" || r.Cache.Retention != ""},
		{ir.FieldCacheMark, r.Cache.Auto != nil}, {ir.FieldParallel, r.Parallel != nil && !*r.Parallel},
	} {
		if f.said {
			r.Lose(f.field)
		}
	}
}

// config writes generationConfig, if it says anything.
func (e *encoding) config() error {
	w, r, s := &e.w, e.r, &e.r.Sampling
	if len(r.Stop) > maxStops {
		return ir.Refuse(r.Name(ir.FieldStop), "this provider takes %d stop sequences at most", maxStops)
	}
	from := len(w.Buf)
	before := *w
	w.Key("generationConfig")
	w.Open('{')
	empty := len(w.Buf)
	for _, n := range [...]struct{ name, value string }{
		{"temperature", s.Temperature}, {"topP", s.TopP}, {"topK", s.TopK}, {"seed", e.seed()},
		{"presencePenalty", s.PresencePenalty}, {"frequencyPenalty", s.FrequencyPenalty},
	} {
		w.Member(n.name, []byte(n.value))
	}
	if r.MaxTokens > 0 {
		w.Number("maxOutputTokens", r.MaxTokens)
	}
	if len(r.Stop) > 0 {
		w.Key("stopSequences")
		w.Open('[')
		for _, stop := range r.Stop {
			w.String(stop)
		}
		w.Close(']')
	}
	e.format()
	e.thinking()
	if len(w.Buf) == empty { // nothing is said
		buf := w.Buf[:from]
		*w = before
		w.Buf = buf
		return nil
	}
	w.Close('}')
	return nil
}

// seed is the client's where it is an int32, as the API wants it.
func (e *encoding) seed() string {
	s := e.r.Sampling.Seed
	if s == "" {
		return ""
	}
	if _, err := strconv.ParseInt(s, 10, 32); err != nil {
		e.r.Lose(ir.FieldSeed)
		return ""
	}
	return s
}

// format writes the form of the answer.
func (e *encoding) format() {
	f := &e.r.Format
	if f.Kind == ir.FormatText {
		return
	}
	e.w.Field("responseMimeType", "application/json")
	if f.Kind != ir.FormatSchema {
		return
	}
	schema, lost := cleanSchema(f.Schema)
	if lost {
		e.r.Lose(ir.FieldFormat)
	}
	e.w.Member("responseJsonSchema", schema)
}

// thinking writes thinkingConfig: a level since Gemini 3, a budget before, never both.
func (e *encoding) thinking() {
	re, w := &e.r.Reasoning, &e.w
	asked := re.Mode == ir.ReasoningOn || re.Mode == ir.ReasoningUnset && (re.Effort != "" || re.Budget != 0)
	show := asked
	if re.Show != nil {
		show = *re.Show && re.Mode != ir.ReasoningOff
	}
	if !e.f.thinks() {
		if asked {
			e.r.Lose(ir.FieldReasoning)
		}
		return
	}
	if !asked && re.Mode != ir.ReasoningOff && re.Show == nil {
		return
	}
	w.Key("thinkingConfig")
	w.Open('{')
	switch {
	case re.Mode == ir.ReasoningOff:
		e.thinkingOff()
	case asked && e.f.levels():
		e.level()
	case asked:
		e.budget()
	}
	if show || re.Show != nil {
		w.Key("includeThoughts")
		w.Bool(show)
	}
	w.Close('}')
}

// thinkingOff writes what comes closest to none: pro models, and all since Gemini 3, reason always.
func (e *encoding) thinkingOff() {
	if e.f.levels() {
		e.w.Field("thinkingLevel", e.f.level("off"))
		e.r.Lose(ir.FieldReasoning)
		return
	}
	n := e.f.budget(0)
	if e.w.Number("thinkingBudget", n); n != 0 {
		e.r.Lose(ir.FieldReasoning)
	}
}

// level writes thinkingLevel; a budget that is the model's own choice needs none.
func (e *encoding) level() {
	re := &e.r.Reasoning
	effort := re.Effort
	if effort == "" {
		effort = ir.EffortOf(re.Budget)
	}
	if effort != "" {
		e.w.Field("thinkingLevel", e.f.level(effort))
	}
}

// budget writes thinkingBudget.
func (e *encoding) budget() {
	re := &e.r.Reasoning
	n := re.Budget
	if n == 0 {
		if n = ir.BudgetOf(re.Effort); n == 0 {
			n = -1
		}
	}
	fits := e.f.budget(n)
	if fits < 0 && !e.f.gemini {
		return // Claude must be given a number, or none
	}
	if re.Budget > 0 && fits != re.Budget {
		e.r.Lose(ir.FieldReasoning)
	}
	e.w.Number("thinkingBudget", fits)
}
