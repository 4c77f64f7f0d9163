package codectest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"coding-proxy/proxy/ir"
)

// Way is a request's way from a client of one dialect to an upstream of another, with the models that either side has.
type Way struct {
	From, To           string
	FromModel, ToModel string
}

// Loss is something that a request loses on its way A → B → A, and why that must be. The table of them is literal: what it
// does not name comes back as it was.
type Loss struct {
	From, To string // dialects; "" = any
	What     string
	Why      string // facts/protocols.md ("5.2 images"), design/conversion.md ("C3") or the dialect's section
	// Names are the fields of which one must be named as lost where the row changes something, as the client of the row's
	// first or second half calls them; or a path. None: the loss is silent, an equivalence.
	Names []ir.Field
	Path  string
	// Apply changes the request to what comes back, and reports whether it changed anything.
	Apply func(r *ir.Request, w *Way) bool
	// Either is for what depends on the model: it may take over what came back, within the bounds that it states.
	Either func(r, back *ir.Request, w *Way) bool
}

func (l *Loss) on(w *Way) bool {
	return (l.From == "" || l.From == w.From) && (l.To == "" || l.To == w.To)
}

// Lose applies the table to a copy of the request. It returns the rows that changed something.
func Lose(r, back *ir.Request, w Way) (*ir.Request, []*Loss) {
	c := Clone(r)
	var hit []*Loss
	rows := Losses()
	for i := range rows {
		l := &rows[i]
		if l.on(&w) && (l.Apply != nil && l.Apply(c, &w) || l.Either != nil && l.Either(c, back, &w)) {
			hit = append(hit, l)
		}
	}
	return c, hit
}

// Restore gives the tools of a request the names and forms that the client gave them, as the bridge does with the calls of
// an answer.
func Restore(r *ir.Request, book *ir.ToolBook) {
	restore := func(n *ir.ToolName, form *string) {
		b := ir.Block{Kind: ir.ToolCall, ToolName: *n, Form: *form}
		book.Restore(&b)
		*n, *form = b.ToolName, b.Form
	}
	eachBlock(r, func(b *ir.Block) {
		if b.Kind != ir.ToolCall && b.Kind != ir.ToolResult {
			return
		}
		before := b.Form
		restore(&b.ToolName, &b.Form)
		if b.Kind == ir.ToolCall && before == "" && b.Form == ir.FormCustom {
			b.Args = unwrap(b.Args)
		}
	})
	for i := range r.Tools {
		t := &r.Tools[i]
		if t.Kind == ir.ToolHosted {
			continue
		}
		before := t.Form
		restore(&t.ToolName, &t.Form)
		if before == "" && t.Form == ir.FormCustom {
			t.Kind, t.Schema, t.Strict = ir.ToolCustom, nil, nil
		}
	}
	for i := range r.Choice.Names {
		var form string
		restore(&r.Choice.Names[i], &form)
	}
}

func unwrap(args string) string {
	var w struct{ Input string }
	if json.Unmarshal([]byte(args), &w) != nil {
		return args
	}
	return w.Input
}

// Named reports whether the row's loss is among the paths that the two encoders named; names are what the clients of
// either side call the fields.
func (l *Loss) Named(names []*ir.FieldNames, lost []string) bool {
	if len(l.Names) == 0 && l.Path == "" || l.Path != "" && slices.Contains(lost, l.Path) {
		return true
	}
	for _, n := range names {
		for _, f := range l.Names {
			if n != nil && n[f] != "" && slices.Contains(lost, n[f]) {
				return true
			}
		}
	}
	// A dialect that cannot say a field has no name for it: its client cannot have said it, so that nothing is named.
	return !slices.ContainsFunc(l.Names, func(f ir.Field) bool { return names[0] != nil && names[0][f] != "" })
}

// LossTable is the table as text.
func LossTable() string {
	var b strings.Builder
	b.WriteString("What a request loses on its way from a client's dialect to an upstream's and back (proxy/codec/codectest/losses.go).\n")
	b.WriteString("named: the client is told (x-proxy-dropped); silent: an equivalence.\n\n")
	any := func(s string) string {
		if s == "" {
			return "any"
		}
		return s
	}
	for _, l := range Losses() {
		how := "silent"
		if len(l.Names) > 0 || l.Path != "" {
			how = "named"
		}
		fmt.Fprintf(&b, "%-16s -> %-16s  %-6s  %s (%s)\n", any(l.From), any(l.To), how, l.What, l.Why)
	}
	b.WriteString("\nWhat is refused instead, with a 400 that names the field:\n\n")
	for _, f := range Refusals() {
		fmt.Fprintf(&b, "%-16s -> %-16s  %s (%s)\n", "any", any(f.To), f.What, f.Why)
	}
	return b.String()
}

// Refusal is something that a target refuses.
type Refusal struct {
	To        string
	What, Why string
	Is        func(r *ir.Request, w *Way) bool
}

// Refused returns the row that says that the request is refused on its way, nil where it is not.
func Refused(r *ir.Request, w Way) *Refusal {
	rows := Refusals()
	for i := range rows {
		if f := &rows[i]; (f.To == "" || f.To == w.To) && f.Is(r, &w) {
			return f
		}
	}
	return nil
}

// Clone copies a request so far that the copy can be changed.
func Clone(r *ir.Request) *ir.Request {
	c := *r
	c.Lost = slices.Clone(r.Lost)
	c.System = cloneBlocks(r.System)
	c.Turns = slices.Clone(r.Turns)
	for i := range c.Turns {
		c.Turns[i].Blocks = cloneBlocks(c.Turns[i].Blocks)
	}
	c.Tools = slices.Clone(r.Tools)
	c.Stop = slices.Clone(r.Stop)
	c.Choice.Names = slices.Clone(r.Choice.Names)
	return &c
}

func cloneBlocks(blocks []ir.Block) []ir.Block {
	out := slices.Clone(blocks)
	for i := range out {
		out[i].Content = cloneBlocks(out[i].Content)
	}
	return out
}
