package codectest

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"coding-proxy/proxy/ir"
)

// instructed takes over an instruction that was added to the system prompt.
func instructed(r, back *ir.Request) bool {
	if n := len(back.System); n > 0 {
		last := back.System[n-1].Text
		if i := strings.LastIndex(last, "\n\nAnswer with "); i >= 0 {
			last = last[i+2:]
		}
		if strings.HasPrefix(last, "Answer with ") && strings.Contains(last, "JSON") {
			r.System = append(r.System, ir.Block{Kind: ir.Text, Text: last})
			return true
		}
	}
	return false
}

func remind(r *ir.Request, _ *Way) (changed bool) {
	for i := range r.Turns {
		t := &r.Turns[i]
		if t.Role != ir.System && t.Role != ir.Developer {
			continue
		}
		t.Role, changed = ir.User, true
		for j := range t.Blocks {
			t.Blocks[j].Text = "<system-reminder>\n" + t.Blocks[j].Text + "\n</system-reminder>"
		}
	}
	return changed
}

func titled(r *ir.Request, w *Way) (changed bool) {
	eachBlock(r, func(b *ir.Block) {
		if b.Kind != ir.Document || b.Media.Data == "" || b.Title != "" || b.Media.Name != "" {
			return
		}
		if changed = true; w.From == anthropic {
			b.Title = "document.pdf"
		} else {
			b.Media.Name = "document.pdf"
		}
	})
	return changed
}

// documents makes texts of plain-text documents.
func documents(before, after string) func(*ir.Request, *Way) bool {
	return func(r *ir.Request, _ *Way) (changed bool) {
		eachBlock(r, func(b *ir.Block) {
			if b.Kind != ir.Document || b.Text == "" {
				return
			}
			head := ""
			switch {
			case b.Title != "" && before == "":
				head = b.Title + after
			case b.Title != "":
				head = before + ": " + b.Title + after
			case before == "[document":
				head = before + after
			}
			*b, changed = ir.Block{Kind: ir.Text, Text: head + b.Text, Cache: b.Cache}, true
		})
		return changed
	}
}

func untitle(r *ir.Request, _ *Way) (changed bool) {
	eachBlock(r, func(b *ir.Block) {
		changed = changed || b.Title != "" || b.Context != "" || b.Media.Name != ""
		b.Title, b.Context, b.Media.Name = "", "", ""
	})
	return changed
}

func noDetail(r *ir.Request, _ *Way) (changed bool) {
	eachBlock(r, func(b *ir.Block) { changed = set(&b.Detail, "") || changed })
	return changed
}

// joinResults joins the texts of each result.
func joinResults(with string) func(*ir.Request, *Way) bool {
	return func(r *ir.Request, _ *Way) (changed bool) {
		eachBlock(r, func(b *ir.Block) {
			if b.Kind != ir.ToolResult || len(b.Content) < 2 {
				return
			}
			var texts []string
			var rest []ir.Block
			for _, c := range b.Content {
				if c.Kind == ir.Text {
					texts = append(texts, c.Text)
				} else {
					rest = append(rest, c)
				}
			}
			if len(texts) > 1 {
				b.Content, changed = append([]ir.Block{{Kind: ir.Text, Text: strings.Join(texts, with)}}, rest...), true
			}
		})
		return changed
	}
}

// textFirst puts the text of a model's turn before its calls.
func textFirst(r *ir.Request, _ *Way) (changed bool) {
	r.Turns = Merged(r.Turns)
	for i := range r.Turns {
		if r.Turns[i].Role == ir.Assistant && !slices.IsSortedFunc(r.Turns[i].Blocks, byCall) {
			r.Turns[i].Blocks, changed = slices.Clone(r.Turns[i].Blocks), true
			slices.SortStableFunc(r.Turns[i].Blocks, byCall)
		}
	}
	return changed
}

func byCall(a, b ir.Block) int {
	rank := func(b *ir.Block) int {
		if b.Kind == ir.ToolCall {
			return 1
		}
		return 0
	}
	return rank(&a) - rank(&b)
}

// imagesOut moves what is no text out of results, behind the last result of the turn, each behind the label that came
// back there.
func imagesOut(r, back *ir.Request, _ *Way) (changed bool) {
	r.Turns = Merged(r.Turns)
	theirs := Merged(back.Turns)
	for i := range r.Turns {
		t := &r.Turns[i]
		var moved []ir.Block
		results := 0
		for j := range t.Blocks {
			if t.Blocks[j].Kind == ir.ToolResult {
				results = j + 1
			}
		}
		for j := range t.Blocks {
			b := &t.Blocks[j]
			if b.Kind != ir.ToolResult {
				continue
			}
			var kept, out []ir.Block
			for _, c := range b.Content {
				if c.Kind == ir.Text {
					kept = append(kept, c)
				} else {
					out = append(out, c)
				}
			}
			if len(out) > 0 {
				label := ir.Block{Kind: ir.Text}
				if at := results + len(moved); i < len(theirs) && at < len(theirs[i].Blocks) {
					label.Text = theirs[i].Blocks[at].Text
				}
				b.Content, moved = kept, append(append(moved, label), out...)
			}
		}
		if len(moved) > 0 {
			t.Blocks, changed = slices.Insert(slices.Clone(t.Blocks), results, moved...), true
		}
	}
	return changed
}

// bothMarks visits the marks of two requests that have the same blocks and tools.
func bothMarks(r, back *ir.Request, visit func(m, b **ir.CacheMark)) {
	var theirs []**ir.CacheMark
	eachMark(back, func(m **ir.CacheMark) { theirs = append(theirs, m) })
	n := 0
	eachMark(r, func(**ir.CacheMark) { n++ })
	if n != len(theirs) {
		return
	}
	n = 0
	eachMark(r, func(m **ir.CacheMark) {
		visit(m, theirs[n])
		n++
	})
	visit(&r.Cache.Auto, &back.Cache.Auto)
}

func marksGone(r, back *ir.Request, w *Way) (changed bool) {
	if a, b := r.Cache.Auto, back.Cache.Auto; w.From == anthropic && w.To != anthropic && a != nil && b != nil && *a != *b {
		r.Cache.Auto, changed = b, true // lost, and another one put in on the way back
	}
	bothMarks(r, back, func(m, b **ir.CacheMark) {
		if *m != nil && *b == nil {
			*m, changed = nil, true
		}
	})
	return changed
}

func marksMoved(r, back *ir.Request, _ *Way) (changed bool) {
	length := func(m *ir.CacheMark) int { return slices.Index([]string{"", "5m", "30m", "1h", "12h"}, m.TTL) }
	bothMarks(r, back, func(m, b **ir.CacheMark) {
		if *m != nil && *b != nil && (*m).TTL != (*b).TTL && (length(*b) > length(*m) || (*b).TTL == "1h") {
			*m, changed = *b, true
		}
	})
	return changed
}

func plainFormat(r *ir.Request, w *Way) bool {
	f := &r.Format
	if f.Kind != ir.FormatSchema {
		return false
	}
	name := "response"
	if w.From == anthropic || w.From == gemini {
		name = ""
	}
	changed := set(&f.Name, name) || f.Strict != nil
	f.Strict = nil
	return set(&f.Description, "") || changed
}

// closed takes over a schema that differs in nothing but that its objects are closed.
func closed(r, back *ir.Request, _ *Way) (changed bool) {
	open := func(schema []byte) string {
		return strings.ReplaceAll(strings.ReplaceAll(Canonical(schema), `"additionalProperties":false,`, ""), `"additionalProperties":false`, "")
	}
	take := func(at *[]byte, theirs []byte) {
		if Canonical(*at) != Canonical(theirs) && open(*at) == open(theirs) {
			*at, changed = theirs, true
		}
	}
	take(&r.Format.Schema, back.Format.Schema)
	for i := range min(len(r.Tools), len(back.Tools)) {
		take(&r.Tools[i].Schema, back.Tools[i].Schema)
	}
	return changed
}

// strict reports whether one of the models refuses sampling, or some of it.
func strict(w *Way) bool {
	for _, m := range []string{w.FromModel, w.ToModel} {
		if strings.HasPrefix(m, "claude") || strings.HasPrefix(m, "gpt-5") {
			return true
		}
	}
	return false
}

// sampler is the row of a number that strict models refuse.
func sampler(name string, field ir.Field, of func(s *ir.Sampling) *string) Loss {
	return Loss{What: name + " that the model refuses", Why: "C4, 1.1", Names: []ir.Field{field}, Either: func(r, back *ir.Request, w *Way) bool {
		return strict(w) && *of(&back.Sampling) == "" && set(of(&r.Sampling), "")
	}}
}

func dropPenalties(r *ir.Request, _ *Way) bool {
	s := &r.Sampling
	a, b, c := set(&s.FrequencyPenalty, ""), set(&s.PresencePenalty, ""), set(&s.Seed, "")
	return a || b || c
}

func dropBias(r *ir.Request, _ *Way) bool { return clear(&r.Sampling.LogitBias) }

func dropTopK(r *ir.Request, _ *Way) bool { return set(&r.Sampling.TopK, "") }

func dropVerbosity(r *ir.Request, _ *Way) bool { return set(&r.Verbosity, "") }

func dropKey(r *ir.Request, _ *Way) bool {
	a, b := set(&r.Cache.Key, ""), set(&r.Cache.Retention, "")
	return a || b
}

// reasons reports whether a request asks for reasoning.
func reasons(r *ir.Request) bool {
	q := &r.Reasoning
	return q.Mode == ir.ReasoningOn || q.Mode == ir.ReasoningUnset && (q.Effort != "" && q.Effort != "none" || q.Budget != 0)
}

func levels(r, back *ir.Request, _ *Way) bool {
	return reasons(r) == reasons(back) && takeLevel(r, back)
}

func takeLevel(r, back *ir.Request) bool {
	q, b := &r.Reasoning, &back.Reasoning
	x, y, z := set(&q.Mode, b.Mode), set(&q.Effort, b.Effort), set(&q.Budget, b.Budget)
	return x || y || z
}

func shown(r, back *ir.Request, _ *Way) bool {
	changed := set(&r.Reasoning.Summary, back.Reasoning.Summary)
	r.Reasoning.Show = back.Reasoning.Show
	return changed
}

// eachMark visits the places of cache marks but the one of the whole request.
func eachMark(r *ir.Request, visit func(m **ir.CacheMark)) {
	eachBlock(r, func(b *ir.Block) { visit(&b.Cache) })
	for i := range r.Tools {
		visit(&r.Tools[i].Cache)
	}
}

// set changes a value and reports whether it was another one.
func set[T comparable](at *T, to T) bool {
	changed := *at != to
	*at = to
	return changed
}

func clear[T any](list *[]T) bool {
	changed := len(*list) > 0
	*list = nil
	return changed
}

// eachBlock visits the blocks of a request and those of its results.
func eachBlock(r *ir.Request, visit func(b *ir.Block)) {
	var all func(blocks []ir.Block)
	all = func(blocks []ir.Block) {
		for i := range blocks {
			visit(&blocks[i])
			all(blocks[i].Content)
		}
	}
	all(r.System)
	for i := range r.Turns {
		all(r.Turns[i].Blocks)
	}
}

// dropBlocks takes blocks out of the turns, and turns that are left empty.
func dropBlocks(r *ir.Request, drop func(b *ir.Block) bool) (changed bool) {
	for i := range r.Turns {
		n := len(r.Turns[i].Blocks)
		r.Turns[i].Blocks = slices.DeleteFunc(r.Turns[i].Blocks, func(b ir.Block) bool { return drop(&b) })
		changed = changed || n != len(r.Turns[i].Blocks)
	}
	r.Turns = slices.DeleteFunc(r.Turns, func(t ir.Turn) bool { return len(t.Blocks) == 0 })
	return changed
}

func dropThinking(r *ir.Request, _ *Way) bool {
	changed := dropBlocks(r, func(b *ir.Block) bool { return b.Kind == ir.Thinking })
	eachBlock(r, func(b *ir.Block) {
		changed = changed || b.State != nil
		b.State = nil
	})
	return changed
}

// joinModelTexts joins the texts that follow each other in the model's turns.
func joinModelTexts(r *ir.Request, _ *Way) (changed bool) {
	for i := range r.Turns {
		t := &r.Turns[i]
		for j := 1; t.Role == ir.Assistant && j < len(t.Blocks); j++ {
			if x, y := &t.Blocks[j-1], t.Blocks[j]; x.Kind == ir.Text && y.Kind == ir.Text {
				x.Text += y.Text
				t.Blocks = slices.Delete(t.Blocks, j, j+1)
				j--
				changed = true
			}
		}
	}
	return changed
}

func joinSystem(r *ir.Request, _ *Way) bool {
	if len(r.System) < 2 {
		return false
	}
	var texts []string
	for _, b := range r.System {
		texts = append(texts, b.Text)
	}
	r.System = []ir.Block{{Kind: ir.Text, Text: strings.Join(texts, "\n\n")}}
	return true
}

func allParallel(r *ir.Request) bool {
	said := r.Parallel != nil
	r.Parallel = nil
	return said
}

// flatten joins namespaces and names.
func flatten(r *ir.Request, _ *Way) (changed bool) {
	join := func(n *ir.ToolName) {
		if n.Namespace != "" {
			n.Name, n.Namespace, changed = n.Namespace+"__"+n.Name, "", true
		}
	}
	for i := range r.Tools {
		join(&r.Tools[i].ToolName)
	}
	for i := range r.Choice.Names {
		join(&r.Choice.Names[i])
	}
	eachBlock(r, func(b *ir.Block) { join(&b.ToolName) })
	return changed
}

func noDollarSchema(r *ir.Request, _ *Way) (changed bool) {
	for i := range r.Tools {
		var members map[string]json.RawMessage
		if json.Unmarshal(r.Tools[i].Schema, &members) != nil || members["$schema"] == nil {
			continue
		}
		delete(members, "$schema")
		r.Tools[i].Schema, _ = json.Marshal(members)
		changed = true
	}
	return changed
}

// sameProperties takes over schemas that have the same top-level properties.
func sameProperties(r, back *ir.Request, _ *Way) (changed bool) {
	names := func(schema []byte) []string {
		var s struct {
			Properties map[string]json.RawMessage
			Required   []string
		}
		_ = json.Unmarshal(schema, &s)
		return append(slices.Sorted(maps.Keys(s.Properties)), s.Required...)
	}
	for i := range min(len(r.Tools), len(back.Tools)) {
		t, b := &r.Tools[i], &back.Tools[i]
		if Canonical(t.Schema) != Canonical(b.Schema) && slices.Equal(names(t.Schema), names(b.Schema)) {
			t.Schema, changed = b.Schema, true
		}
	}
	return changed
}

// sortResults puts the results of a turn into the order of the calls before it.
func sortResults(r *ir.Request, _ *Way) (changed bool) {
	r.Turns = Merged(r.Turns)
	order := map[string]int{}
	for i := range r.Turns {
		blocks := r.Turns[i].Blocks
		var at []int
		var results []ir.Block
		for j := range blocks {
			switch blocks[j].Kind {
			case ir.ToolCall:
				order[blocks[j].ID] = len(order)
			case ir.ToolResult:
				at, results = append(at, j), append(results, blocks[j])
			}
		}
		by := func(a, b ir.Block) int { return order[a.ID] - order[b.ID] }
		if slices.IsSortedFunc(results, by) {
			continue
		}
		slices.SortStableFunc(results, by)
		r.Turns[i].Blocks = slices.Clone(blocks)
		for k, j := range at {
			r.Turns[i].Blocks[j] = results[k]
		}
		changed = true
	}
	return changed
}

// narrow takes out the tools that the choice does not allow.
func narrow(r *ir.Request) bool {
	c := &r.Choice
	if len(c.Names) == 0 || c.Mode == ir.ChoiceOne {
		return false
	}
	r.Tools = slices.DeleteFunc(r.Tools, func(t ir.Tool) bool { return !slices.Contains(c.Names, t.ToolName) })
	c.Names = nil
	return true
}

func noSchema(r *ir.Request, _ *Way) (changed bool) {
	for i := range r.Tools {
		if t := &r.Tools[i]; strings.Contains(Canonical(t.Schema), `"properties":{}`) {
			t.Schema, changed = nil, true
		}
	}
	return changed
}

func strictSchemas(r, back *ir.Request, _ *Way) (changed bool) {
	for i := range min(len(r.Tools), len(back.Tools)) {
		t, b := &r.Tools[i], &back.Tools[i]
		if t.Strict != nil && *t.Strict && Canonical(t.Schema) != Canonical(b.Schema) {
			t.Schema, changed = b.Schema, true
		}
	}
	return changed
}

func emptySchema(r *ir.Request, _ *Way) (changed bool) {
	for i := range r.Tools {
		if t := &r.Tools[i]; t.Kind == ir.ToolFunction && len(t.Schema) == 0 {
			t.Schema, changed = []byte(`{"type":"object","properties":{}}`), true
		}
	}
	return changed
}

// strictness changes one value of functions' strictness to another.
func strictness(r *ir.Request, from, to *bool) (changed bool) {
	for i := range r.Tools {
		t := &r.Tools[i]
		if t.Kind == ir.ToolFunction && t.Form == "" && (t.Strict == nil) == (from == nil) && (from == nil || *t.Strict == *from) {
			t.Strict, changed = to, true
		}
	}
	return changed
}

func grammarText(r, back *ir.Request, _ *Way) (changed bool) {
	for i := range min(len(r.Tools), len(back.Tools)) {
		t, b := &r.Tools[i], &back.Tools[i]
		if len(t.Grammar) > 0 && len(b.Grammar) == 0 && strings.HasPrefix(b.Description, t.Description) && strings.Contains(b.Description, "start: ") {
			t.Grammar, t.Description, changed = nil, b.Description, true
		}
	}
	return changed
}

func filler(r *ir.Request, _ *Way) (changed bool) {
	eachBlock(r, func(b *ir.Block) {
		if b.Kind == ir.ToolResult && b.IsError && len(b.Content) == 0 {
			b.Content, changed = []ir.Block{{Kind: ir.Text, Text: "(no content)"}}, true
		}
	})
	return changed
}
