package codectest

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"coding-proxy/proxy/ir"
)

// Generator makes canonical requests, the same ones for the same seed. They are what clients could mean: calls have
// results, but for a few that were lost on the way, as they are in real histories.
type Generator struct {
	*rand.Rand
	n    int
	open []ir.Block // calls of the last turn, without results
}

// NewGenerator returns the one of a seed.
func NewGenerator(seed uint64) *Generator {
	return &Generator{Rand: rand.New(rand.NewPCG(seed, 0x5eed))}
}

func (g *Generator) chance(percent int) bool { return g.IntN(100) < percent }

func pick[T any](g *Generator, of ...T) T { return of[g.IntN(len(of))] }

var words = []string{
	"the", "file", "is", "naïve", "日本語", "emoji 😀 here", "tab\there", "\"quoted\"", "back\\slash", "line\nbreak", "<b>&amp;</b>",
	"\u2028", "json", "a/b", "{\"not\":\"parsed\"}", "Ω", "control\u0001", "$schema", "data: [DONE]", "event: x", "nul\u0000byte",
}

func (g *Generator) text() string {
	g.n++
	var b strings.Builder
	fmt.Fprintf(&b, "t%d", g.n)
	for i := g.IntN(6); i >= 0; i-- {
		b.WriteByte(' ')
		b.WriteString(words[g.IntN(len(words))])
	}
	return b.String() + "." // no blank at the end: Anthropic trims it there (case 58)
}

// Request makes the next request.
func (g *Generator) Request() *ir.Request {
	r := &ir.Request{Model: "client-model", Stream: g.chance(70)}
	g.open = nil
	for i := g.IntN(3); i > 0; i-- {
		r.System = append(r.System, ir.Block{Kind: ir.Text, Text: g.text(), Cache: g.mark(20)})
	}
	g.tools(r)
	g.turns(r)
	g.settings(r)
	return r
}

func (g *Generator) mark(percent int) *ir.CacheMark {
	if !g.chance(percent) {
		return nil
	}
	return &ir.CacheMark{TTL: pick(g, "", "5m", "1h")}
}

// names of tools: legal ones, and what some dialect does not take.
var toolNames = []string{
	"Bash", "Read", "mcp__demo__add", "get_weather", "with-dash", "a.b:c", "has space", "ünï", "9starts_with_digit",
	"a_name_of_more_than_sixty_four_bytes_which_is_what_most_of_them_take_at_most_x1",
	"a_name_of_more_than_sixty_four_bytes_which_is_what_most_of_them_take_at_most_x2",
}

var schemas = []string{
	"", `{"type":"object","properties":{}}`,
	`{"type":"object","properties":{"title":{"type":"string","description":"A title"},"format":{"type":"string"}},"required":["title"]}`,
	`{"type":"object","properties":{"n":{"type":"integer","minimum":0,"maximum":9007199254740993},"list":{"type":"array","items":{"type":"string"},"minItems":1}},"additionalProperties":false}`,
	`{"type":"object","properties":{"kind":{"type":"string","enum":["a","b"]},"nested":{"type":"object","properties":{"x":{"type":"number"}},"required":["x"]}},"required":["kind"],"additionalProperties":false}`,
}

func (g *Generator) tools(r *ir.Request) {
	if g.chance(25) {
		return
	}
	for _, i := range g.Perm(len(toolNames))[:1+g.IntN(4)] {
		t := ir.Tool{ToolName: ir.ToolName{Name: toolNames[i]}, Cache: g.mark(10)}
		if g.chance(80) {
			t.Description = g.text()
		}
		if t.Schema = []byte(pick(g, schemas...)); len(t.Schema) == 0 {
			t.Schema = nil
		}
		if g.chance(20) {
			t.Strict = ptr(g.chance(50))
		}
		switch {
		case g.chance(10):
			t.Kind, t.Form, t.Schema, t.Strict = ir.ToolCustom, ir.FormCustom, nil, nil
			if g.chance(50) {
				t.Grammar = []byte(`{"type":"grammar","syntax":"lark","definition":"start: \"x\""}`)
			}
		case g.chance(10):
			t.Namespace = "ns"
		}
		r.Tools = append(r.Tools, t)
	}
	if g.chance(10) {
		h := ir.Hosted{Type: ir.WebSearch}
		if g.chance(50) {
			h.AllowedDomains = []string{"example.com"}
		}
		if g.chance(30) {
			h.Location = []byte(`{"type":"approximate","city":"Bern","country":"CH"}`)
		}
		r.Tools = append(r.Tools, ir.Tool{Kind: ir.ToolHosted, ToolName: ir.ToolName{Name: ir.WebSearch}, Hosted: h})
	}
	switch g.IntN(8) {
	case 0:
		r.Choice.Mode = ir.ChoiceAuto
	case 1:
		r.Choice.Mode = ir.ChoiceNone
	case 2:
		r.Choice.Mode = ir.ChoiceRequired
	case 3:
		r.Choice = ir.Choice{Mode: ir.ChoiceOne, Names: []ir.ToolName{r.Tools[0].ToolName}}
	case 4:
		r.Choice = ir.Choice{Mode: pick(g, ir.ChoiceAuto, ir.ChoiceRequired), Names: []ir.ToolName{r.Tools[0].ToolName}}
	}
	if g.chance(20) {
		r.Parallel = ptr(g.chance(30))
	}
}

// turns makes a conversation that ends with the user.
func (g *Generator) turns(r *ir.Request) {
	g.user(r)
	for i := g.IntN(5); i > 0; i-- {
		g.assistant(r)
		if g.chance(6) {
			r.Turns = append(r.Turns, ir.Turn{Role: pick(g, ir.System, ir.Developer), Blocks: []ir.Block{{Kind: ir.Text, Text: g.text()}}})
		}
		g.user(r)
	}
}

const (
	png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
	pdf = "JVBERi0xLjQKJcOkw7zDtsOfCjIgMCBvYmoK"
	wav = "UklGRiQAAABXQVZFZm10IBAAAAABAAEA"
)

func (g *Generator) user(r *ir.Request) {
	t := ir.Turn{Role: ir.User}
	calls := g.open
	g.open = nil
	for i := range calls {
		if g.chance(97) {
			t.Blocks = append(t.Blocks, g.result(&calls[i]))
		}
	}
	if len(t.Blocks) == 0 || g.chance(40) {
		t.Blocks = append(t.Blocks, ir.Block{Kind: ir.Text, Text: g.text(), Cache: g.mark(10)})
	}
	if g.chance(15) {
		t.Blocks = append(t.Blocks, g.media())
	}
	r.Turns = append(r.Turns, t)
}

func (g *Generator) media() ir.Block {
	switch g.IntN(8) {
	case 0:
		return ir.Block{Kind: ir.Image, Media: ir.Media{URL: "https://example.com/a.png"}}
	case 1, 2:
		return ir.Block{Kind: ir.Document, Media: ir.Media{MIME: "application/pdf", Data: pdf, Name: pick(g, "", "paper.pdf")}}
	case 3:
		return ir.Block{Kind: ir.Document, Text: g.text(), Title: pick(g, "", "Notes")}
	case 4:
		if g.chance(30) {
			return ir.Block{Kind: ir.Audio, Media: ir.Media{MIME: "audio/wav", Data: wav}}
		}
	}
	return ir.Block{Kind: ir.Image, Media: ir.Media{MIME: "image/png", Data: png}, Detail: pick(g, "", "", "high", "low")}
}

func (g *Generator) result(call *ir.Block) ir.Block {
	b := ir.Block{Kind: ir.ToolResult, ID: call.ID, ToolName: call.ToolName, Form: call.Form, IsError: g.chance(15)}
	for i := pick(g, 0, 1, 1, 1, 1, 2); i > 0; i-- {
		b.Content = append(b.Content, ir.Block{Kind: ir.Text, Text: g.text()})
	}
	switch {
	case g.chance(5):
		b.Content = []ir.Block{{Kind: ir.Text, Text: `{"stdout":"x","code":0}`}}
	case g.chance(8):
		b.Content = append(b.Content, ir.Block{Kind: ir.Image, Media: ir.Media{MIME: "image/png", Data: png}})
	}
	return b
}

var arguments = []string{
	`{}`, ``, `{"command":"ls -la","timeout":120000}`, `{"big":9007199254740993,"float":1.0,"exp":1e400,"neg":-0}`,
	`{"b":1,"a":2,"title":"x","format":"y"}`, `{"text":"\u003c😀\n\\ \"q\""}`, `{"deep":{"er":[1,[2,{"x":null}]],"t":true}}`,
}

func (g *Generator) assistant(r *ir.Request) {
	t := ir.Turn{Role: ir.Assistant}
	if g.chance(25) {
		t.Blocks = append(t.Blocks, g.thinking())
	}
	if g.chance(70) {
		t.Blocks = append(t.Blocks, ir.Block{Kind: ir.Text, Text: g.text(), Cache: g.mark(5)})
	}
	for i := pick(g, 0, 0, 1, 1, 2, 3); i > 0 && len(r.Tools) > 0; i-- {
		tool := &r.Tools[g.IntN(len(r.Tools))]
		if tool.Kind == ir.ToolHosted {
			continue
		}
		g.n++
		c := ir.Block{
			Kind: ir.ToolCall, ToolName: tool.ToolName, Form: tool.Form, Args: pick(g, arguments...),
			ID: pick(g, "toolu_01ABC", "call_", "functions.Bash:", "exec_command:") + fmt.Sprint(g.n),
		}
		if c.Form == ir.FormCustom {
			c.Args = g.text()
		}
		if g.chance(10) {
			c.State = &ir.State{Owner: Owner, Data: fmt.Sprintf("c2ln%04d", g.n%10000)}
		}
		t.Blocks = append(t.Blocks, c)
		g.open = append(g.open, c)
	}
	if len(t.Blocks) == 0 || g.chance(5) {
		t.Blocks = append(t.Blocks, ir.Block{Kind: ir.Text, Text: g.text()})
	}
	r.Turns = append(r.Turns, t)
}

func (g *Generator) thinking() ir.Block {
	b := ir.Block{Kind: ir.Thinking, Text: g.text()}
	switch g.IntN(4) {
	case 0:
		b.State = &ir.State{Owner: Owner, Data: "c2lnbmF0dXJl"}
	case 1:
		b.Text, b.State = "", &ir.State{Owner: Owner, Data: "cmVkYWN0ZWQ=", Redacted: true}
	case 2:
		b.State = &ir.State{Owner: "another owner", Data: "Zm9yZWlnbg=="}
	}
	return b
}

func (g *Generator) settings(r *ir.Request) {
	if g.chance(70) {
		r.MaxTokens = pick[int64](g, 1024, 4096, 8192)
	}
	s := &r.Sampling
	for _, f := range []*string{&s.Temperature, &s.TopP} {
		if g.chance(15) {
			*f = pick(g, "0", "0.5", "0.70", "1", "1.0")
		}
	}
	if g.chance(5) {
		s.TopK = "40"
	}
	if g.chance(5) {
		s.FrequencyPenalty, s.PresencePenalty, s.Seed = "0.5", "-0.25", "42"
	}
	if g.chance(3) {
		s.LogitBias = []byte(`{"50256":-100}`)
	}
	if g.chance(15) {
		r.Stop = []string{"STOP", "\n\nHuman:", "</end>", "four", "five", "six"}[:1+g.IntN(6)]
	}
	switch g.IntN(12) {
	case 0:
		r.Format.Kind = ir.FormatJSON
	case 1:
		r.Format = ir.Format{Kind: ir.FormatSchema, Name: pick(g, "", "answer"), Schema: []byte(schemas[4]), Strict: pick[*bool](g, nil, ptr(true))}
	}
	switch g.IntN(6) {
	case 0:
		r.Reasoning.Mode = ir.ReasoningOff
	case 1:
		r.Reasoning.Effort = pick(g, "minimal", "low", "medium", "high", "xhigh", "max")
	case 2:
		r.Reasoning = ir.Reasoning{Mode: ir.ReasoningOn, Budget: pick[int64](g, -1, 1024, 2000, 8192)}
	case 3:
		r.Reasoning = ir.Reasoning{Mode: ir.ReasoningOn, Effort: pick(g, "low", "medium", "high"), Show: pick[*bool](g, nil, ptr(true), ptr(false))}
	}
	if g.chance(10) {
		r.Verbosity = pick(g, "low", "medium", "high")
	}
	if g.chance(10) {
		r.Cache.Key = "cache-key"
	}
	if g.chance(5) {
		r.Cache.Retention = "24h"
	}
	if g.chance(10) {
		r.Cache.Auto = &ir.CacheMark{TTL: pick(g, "", "1h")}
	}
	if g.chance(20) {
		r.User = pick(g, "user-1", strings.Repeat("u", 100), strings.Repeat("u", 300))
	}
	if g.chance(10) {
		r.Metadata = []byte(`{"team":"a","project":"b"}`)
	}
	if g.chance(10) {
		r.ServiceTier = pick(g, "auto", "default", "flex", "priority")
	}
	r.IncludeUsage = g.chance(30)
}

func ptr[T any](v T) *T { return &v }
