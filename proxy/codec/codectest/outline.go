package codectest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"coding-proxy/proxy/ir"
)

var digits = regexp.MustCompile(`[0-9]+`)

// Canonical is JSON text with sorted members and no blanks; numbers keep their text. What is no JSON comes back as it is,
// quoted.
func Canonical(raw []byte) string {
	if len(bytes.TrimSpace(raw)) == 0 {
		return ""
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil || d.More() {
		return "no JSON: " + strconv.Quote(string(raw))
	}
	return string(appendCanonical(nil, v))
}

func appendCanonical(dst []byte, v any) []byte {
	switch v := v.(type) {
	case map[string]any:
		dst = append(dst, '{')
		for i, k := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(append(strconv.AppendQuote(dst, k), ':'), appendCanonical(nil, v[k])...)
		}
		return append(dst, '}')
	case []any:
		dst = append(dst, '[')
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendCanonical(dst, e)
		}
		return append(dst, ']')
	case string:
		return strconv.AppendQuote(dst, v)
	case json.Number:
		return append(dst, v...)
	case nil:
		return append(dst, "null"...)
	}
	return fmt.Append(dst, v)
}

// outline writes what is said as lines "path: value", of which two can be compared.
type outline struct {
	lines []string
	ids   map[string]string
}

func (o *outline) line(path, format string, args ...any) {
	o.lines = append(o.lines, path+": "+fmt.Sprintf(format, args...))
}

func (o *outline) say(path, value string) {
	if value != "" {
		o.line(path, "%q", value)
	}
}

func (o *outline) json(path string, raw []byte) {
	if s := Canonical(raw); s != "" {
		o.line(path, "%s", s)
	}
}

func (o *outline) flag(path string, b *bool) {
	if b != nil {
		o.line(path, "%t", *b)
	}
}

// id is an id by the order of its first appearance: dialects spell them in their own ways.
func (o *outline) id(id string) string {
	if id == "" {
		return "none"
	}
	if o.ids[id] == "" {
		o.ids[id] = "#" + strconv.Itoa(len(o.ids))
	}
	return o.ids[id]
}

// Normalize is a request as lines, without what is no part of what it means: paths, names, spelling of ids, neighbours of
// one role, the model. Two requests that say the same have the same lines.
func Normalize(r *ir.Request) []string {
	o := &outline{ids: map[string]string{}}
	o.line("stream", "%t", r.Stream)
	o.blocks("system", r.System)
	turns := Merged(r.Turns)
	for i := range turns {
		path := fmt.Sprintf("turns[%d]", i)
		o.line(path+".role", "%s", [...]string{"user", "assistant", "system", "developer"}[turns[i].Role])
		o.say(path+".phase", turns[i].Phase)
		o.blocks(path, turns[i].Blocks)
	}
	for i := range r.Tools {
		o.tool(fmt.Sprintf("tools[%d]", i), &r.Tools[i])
	}
	if r.Choice.Mode != ir.ChoiceUnset {
		o.line("choice", "%s %v", [...]string{"", "auto", "none", "required", "one"}[r.Choice.Mode], r.Choice.Names)
	}
	o.flag("parallel", r.Parallel)
	if r.MaxTokens != 0 {
		o.line("max_tokens", "%d", r.MaxTokens)
	}
	s := &r.Sampling
	for _, f := range [][2]string{
		{"temperature", s.Temperature}, {"top_p", s.TopP}, {"top_k", s.TopK}, {"frequency", s.FrequencyPenalty},
		{"presence", s.PresencePenalty}, {"seed", s.Seed},
	} {
		o.say("sampling."+f[0], f[1])
	}
	o.json("sampling.logit_bias", s.LogitBias)
	if len(r.Stop) > 0 {
		o.line("stop", "%q", r.Stop)
	}
	if r.Format.Kind != ir.FormatText {
		o.line("format", "%s %q %q", [...]string{"", "json", "schema"}[r.Format.Kind], r.Format.Name, r.Format.Description)
		o.json("format.schema", r.Format.Schema)
		o.flag("format.strict", r.Format.Strict)
	}
	q := &r.Reasoning
	if q.Mode != ir.ReasoningUnset || q.Effort != "" || q.Budget != 0 {
		o.line("reasoning", "%s %q %d", [...]string{"unset", "off", "on"}[q.Mode], q.Effort, q.Budget)
	}
	o.say("reasoning.summary", q.Summary)
	o.flag("reasoning.show", q.Show)
	o.say("verbosity", r.Verbosity)
	o.say("cache.key", r.Cache.Key)
	o.say("cache.retention", r.Cache.Retention)
	o.mark("cache.auto", r.Cache.Auto)
	o.say("user", r.User)
	o.json("metadata", r.Metadata)
	o.say("tier", r.ServiceTier)
	if r.IncludeUsage {
		o.line("include_usage", "true")
	}
	return o.lines
}

// Merged are the turns with neighbours of one role in one.
func Merged(turns []ir.Turn) (out []ir.Turn) {
	for _, t := range turns {
		if n := len(out); n > 0 && out[n-1].Role == t.Role && out[n-1].Phase == t.Phase {
			out[n-1].Blocks = append(slices.Clone(out[n-1].Blocks), t.Blocks...)
			continue
		}
		out = append(out, t)
	}
	return out
}

func (o *outline) mark(path string, m *ir.CacheMark) {
	if m != nil {
		o.line(path, "mark %q", m.TTL)
	}
}

func (o *outline) tool(path string, t *ir.Tool) {
	o.line(path, "%s %q %q %s", [...]string{"function", "custom", "hosted"}[t.Kind], t.Namespace, t.Name, t.Form)
	o.say(path+".description", t.Description)
	o.json(path+".schema", t.Schema)
	o.flag(path+".strict", t.Strict)
	o.json(path+".grammar", t.Grammar)
	if t.Kind == ir.ToolHosted {
		h := &t.Hosted
		o.line(path+".hosted", "%s allowed %q blocked %q uses %d", h.Type, h.AllowedDomains, h.BlockedDomains, h.MaxUses)
		o.json(path+".location", h.Location)
	}
	o.mark(path+".cache", t.Cache)
}

func (o *outline) blocks(path string, blocks []ir.Block) {
	for i := range blocks {
		o.block(fmt.Sprintf("%s[%d]", path, i), &blocks[i])
	}
}

var kindNames = [...]string{"none", "text", "image", "document", "audio", "video", "thinking", "call", "result", "refusal",
	"hosted call", "hosted result", "opaque"}

func (o *outline) block(path string, b *ir.Block) {
	switch b.Kind {
	case ir.ToolCall:
		o.line(path, "call %s %q %q %s", o.id(b.ID), b.Namespace, b.Name, b.Form)
		if args := Args(b); b.Form == ir.FormCustom {
			o.line(path+".input", "%q", args)
		} else {
			o.line(path+".args", "%s", Canonical([]byte(args)))
		}
	case ir.ToolResult:
		o.line(path, "result of %s, error %t", o.id(b.ID), b.IsError)
		o.blocks(path, b.Content)
	case ir.HostedCall, ir.HostedResult, ir.Opaque:
		o.line(path, "%s %s", kindNames[b.Kind], b.Type)
		o.json(path+".raw", b.Raw)
	default:
		o.line(path, "%s %q", kindNames[b.Kind], b.Text)
	}
	if m := b.Media; m != (ir.Media{}) {
		o.line(path+".media", "%s data %q url %q file %q name %q", m.MIME, m.Data, m.URL, m.FileID, m.Name)
	}
	o.say(path+".detail", b.Detail)
	o.say(path+".title", b.Title)
	o.say(path+".context", b.Context)
	o.json(path+".citations", b.Citations)
	if len(b.Breaks) > 0 {
		o.line(path+".breaks", "%v", b.Breaks)
	}
	if s := Innermost(b.State); s != nil {
		o.line(path+".state", "%q %q redacted %t", s.Owner, s.Data, s.Redacted)
	}
	o.mark(path+".cache", b.Cache)
}

// Args are a call's arguments; none of a function are {}.
func Args(b *ir.Block) string {
	if b.Args == "" && b.Form != ir.FormCustom {
		return "{}"
	}
	return b.Args
}

// Innermost unpacks a state that was sealed once for each hop: what the first provider gave.
func Innermost(s *ir.State) *ir.State {
	if s == nil {
		return nil
	}
	for in := *s; ; {
		next := ir.Unseal(in.Data)
		if next.Owner == "" {
			return &in
		}
		next.Attach = ir.AttachSelf // where it travelled is no part of it
		in = next
	}
}

// NormalizeAnswer is an answer as lines, as Normalize is for requests; the id and the model are the relay's. Arguments that
// are no JSON stand in an object of their own where a plain answer must have one.
func NormalizeAnswer(a *ir.Answer) []string {
	o := &outline{ids: map[string]string{}}
	c := *a
	a, c.Blocks = &c, slices.Clone(a.Blocks)
	for i := range c.Blocks {
		if raw := JSON([]byte(c.Blocks[i].Args)).At("_raw"); raw.IsStr() {
			c.Blocks[i].Args = raw.Str()
		}
	}
	o.blocks("blocks", a.Blocks)
	o.line("stop", "%s %q", a.Stop.Reason, a.Stop.Sequence)
	o.say("stop.text", a.Stop.Text)
	u := &a.Usage
	o.line("usage", "input %d output %d written %d cached %d reasoning %d", u.Input, u.Output, u.CacheCreation, u.CacheRead, u.Reasoning)
	return o.lines
}

// Events are events as lines, without keep-alives; blanks between the tokens of JSON are no part of what they say.
func Events(events []ir.Event) []string {
	names := [...]string{"", "start", "block", "delta", "break", "state", "cite", "close", "usage", "finish", "fault", "end", "alive"}
	var out []string
	for i := range events {
		e := &events[i]
		if e.Kind == ir.EventAlive {
			continue
		}
		text, raw := e.Text, Canonical(e.Raw)
		if strings.HasPrefix(text, "{") && JSON([]byte(text)).IsObject() {
			text = Canonical([]byte(text))
		}
		o := &outline{ids: map[string]string{}}
		o.line(names[e.Kind], "%d %q %q %q %s %+v %+v", e.Block, e.ID, e.Model, text, raw, e.Usage, e.Stop)
		if e.Start != nil {
			o.line("id", "%q %q", e.Start.ID, e.Start.ItemID)
			o.block("start", e.Start)
		}
		if e.State != nil {
			o.line("state", "%+v", *e.State)
		}
		if e.Fault != nil {
			o.line("fault", "%+v", *e.Fault)
		}
		out = append(out, strings.Join(o.lines, " | "))
	}
	return out
}

// Paths names the places where two lists of lines differ, the first few.
func Paths(got, want []string) string {
	side := func(lines []string) map[string]string {
		m := map[string]string{}
		for _, l := range lines {
			path, value, _ := strings.Cut(l, ": ")
			m[path] = value
		}
		return m
	}
	a, b := side(got), side(want)
	differs := map[string]bool{}
	for _, m := range []map[string]string{a, b} {
		for path := range m {
			x, inA := a[path]
			y, inB := b[path]
			if inA != inB || x != y {
				differs[digits.ReplaceAllString(path, "")] = true
			}
		}
	}
	paths := slices.Sorted(maps.Keys(differs))
	return strings.Join(paths[:min(len(paths), 3)], " ")
}

// Diff tells how two lists of lines differ, at most a few lines of it; "" where they do not.
func Diff(got, want []string) string {
	if slices.Equal(got, want) {
		return ""
	}
	for len(got) > 0 && len(want) > 0 && got[0] == want[0] {
		got, want = got[1:], want[1:]
	}
	for len(got) > 0 && len(want) > 0 && got[len(got)-1] == want[len(want)-1] {
		got, want = got[:len(got)-1], want[:len(want)-1]
	}
	var b strings.Builder
	for _, side := range []struct {
		sign  string
		lines []string
	}{{"got  ", got}, {"want ", want}} {
		for i, l := range side.lines {
			if i == 6 {
				fmt.Fprintf(&b, "\n  %s… %d more", side.sign, len(side.lines)-i)
				break
			}
			if len(l) > 400 {
				l = l[:400] + "…"
			}
			fmt.Fprintf(&b, "\n  %s%s", side.sign, l)
		}
	}
	return b.String()
}
