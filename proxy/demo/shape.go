package demo

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A grammar says which JSON an endpoint takes. It is written as definitions:
//
//	message = {role! 'user'|'assistant', content! string|[part], name string}
//	part    = textPart | imagePart
//
// A field that is marked ! must be given; * stands for all other names. Words: string, int, number, bool, null, object (any members), any, base64,
// int64 (also as a string, as proto3 has it). 'x' is that string, [t] an array, <t> an object with members of any
// name. Of several objects the one counts whose `type` or `role` is the value's.
type grammar struct {
	definitions map[string]*shape
	proto       bool // as proto3 has it: names in snake_case, too, and enums in any case (AI SDKs write "low" for LOW)
}

// shape is what one place takes: one of its alternatives.
type shape struct {
	words    []string // string, int …
	literals []string
	elements *shape // of an array
	members  *shape // of an object with any names
	refs     []string
	fields   []field
	isObject bool // fields counts, even when empty
}

type field struct {
	name     string
	required bool
	shape    *shape
}

// newGrammar reads definitions. They are constants of this package: a mistake in them is a bug, and panics.
func newGrammar(definitions string, proto bool) *grammar {
	g := &grammar{definitions: map[string]*shape{}, proto: proto}
	s := grammarScanner{tokens: tokenize(definitions)}
	for len(s.tokens) > 0 {
		name := s.next()
		s.want("=")
		g.definitions[name] = s.shape()
	}
	for name, d := range g.definitions {
		for _, ref := range d.references() {
			if g.definitions[ref] == nil {
				panic("demo: " + name + " mentions " + ref + ", which is not defined")
			}
		}
	}
	return g
}

func (s *shape) references() []string {
	if s == nil {
		return nil
	}
	refs := append(append(slices.Clone(s.refs), s.elements.references()...), s.members.references()...)
	for _, f := range s.fields {
		refs = append(refs, f.shape.references()...)
	}
	return refs
}

func tokenize(s string) []string {
	var tokens []string
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case strings.IndexByte(" \t\r\n,", c) >= 0:
			i++
		case strings.IndexByte("={}[]<>|!", c) >= 0:
			tokens = append(tokens, s[i:i+1])
			i++
		case c == '\'':
			end := i + 1 + strings.IndexByte(s[i+1:], '\'')
			tokens = append(tokens, s[i:end])
			i = end + 1
		default:
			end := i
			for end < len(s) && strings.IndexByte(" \t\r\n,={}[]<>|!'", s[end]) < 0 {
				end++
			}
			tokens = append(tokens, s[i:end])
			i = end
		}
	}
	return tokens
}

type grammarScanner struct{ tokens []string }

func (s *grammarScanner) peek() string {
	if len(s.tokens) == 0 {
		return ""
	}
	return s.tokens[0]
}

func (s *grammarScanner) next() string {
	t := s.peek()
	if t == "" {
		panic("demo: a grammar ends within a definition")
	}
	s.tokens = s.tokens[1:]
	return t
}

func (s *grammarScanner) want(token string) {
	if got := s.next(); got != token {
		panic(fmt.Sprintf("demo: grammar has %q for %q before %v", got, token, s.tokens[:min(5, len(s.tokens))]))
	}
}

func (s *grammarScanner) shape() *shape {
	d := &shape{}
	for {
		s.alternative(d)
		if s.peek() != "|" {
			return d
		}
		s.next()
	}
}

func (s *grammarScanner) alternative(d *shape) {
	switch t := s.next(); {
	case t == "[":
		d.elements = s.shape()
		s.want("]")
	case t == "<":
		d.members = s.shape()
		s.want(">")
	case t == "{":
		d.isObject = true
		for s.peek() != "}" {
			f := field{name: s.next()}
			if s.peek() == "!" {
				s.next()
				f.required = true
			}
			f.shape = s.shape()
			d.fields = append(d.fields, f)
		}
		s.next()
	case strings.HasPrefix(t, "'"):
		d.literals = append(d.literals, t[1:])
	case slices.Contains([]string{"string", "int", "number", "bool", "null", "object", "any", "base64", "int64"}, t):
		d.words = append(d.words, t)
	default:
		d.refs = append(d.refs, t)
	}
}

// flaw is what is wrong with a value.
type flaw struct {
	path  place
	what  mistake
	name  string   // of an unknown or missing field
	value string   // what a wrong value says
	want  []string // what would be right
	got   kind
}

type mistake int

const (
	unknownField mistake = iota
	missingField
	wrongType
	wrongValue
)

// place is where a value is: names, and numbers as they are written in paths.
type place []string

func (p place) at(step string) place { return append(slices.Clip(p), step) }
func (p place) index(i int) place    { return p.at(strconv.Itoa(i)) }

// dots writes contents.0.parts, as Anthropic does.
func (p place) dots() string { return strings.Join(p, ".") }

// brackets writes contents[0].parts, as OpenAI and Google do.
func (p place) brackets() string {
	var b strings.Builder
	for i, step := range p {
		switch _, err := strconv.Atoi(step); {
		case err == nil:
			b.WriteString("[" + step + "]")
		case i > 0:
			b.WriteString("." + step)
		default:
			b.WriteString(step)
		}
	}
	return b.String()
}

// check compares a value with a definition and returns the first flaw.
func (g *grammar) check(name string, n *node) *flaw { return g.match(g.definitions[name], n, nil) }

func (g *grammar) match(s *shape, n *node, at place) *flaw {
	s = g.resolve(s, n)
	switch n.kind {
	case object:
		switch {
		case s.isObject:
			return g.matchFields(s, n, at)
		case s.members != nil:
			for i, name := range n.names {
				if f := g.match(s.members, n.list[i], at.at(name)); f != nil {
					return f
				}
			}
			return nil
		case len(s.refs) > 0: // none of several objects
			return g.noneOf(s, n, at)
		}
	case array:
		if s.elements != nil {
			for i, element := range n.list {
				if f := g.match(s.elements, element, at.index(i)); f != nil {
					return f
				}
			}
			return nil
		}
	case text:
		if slices.ContainsFunc(s.literals, func(l string) bool { return l == n.text || g.proto && strings.EqualFold(l, n.text) }) {
			return nil
		}
	}
	for _, word := range s.words {
		if n.fits(word) {
			return nil
		}
	}
	if n.kind == text && len(s.literals) > 0 {
		return &flaw{path: at, what: wrongValue, value: n.text, want: s.literals, got: text}
	}
	return &flaw{path: at, what: wrongType, want: g.wants(s), got: n.kind, value: n.text}
}

func (n *node) fits(word string) bool {
	switch word {
	case "any":
		return true
	case "string":
		return n.kind == text
	case "number":
		return n.kind == number
	case "int":
		_, err := strconv.ParseInt(n.text, 10, 64)
		return n.kind == number && err == nil
	case "int64":
		value, err := strconv.ParseFloat(n.text, 64)
		return (n.kind == number || n.kind == text) && err == nil && value == float64(int64(value))
	case "bool":
		return n.kind == boolean
	case "null":
		return n.kind == null
	case "object":
		return n.kind == object
	case "base64":
		return n.kind == text && isBase64(n.text)
	}
	return false
}

// isBase64 takes the standard and the URL alphabet, padded or not.
func isBase64(s string) bool {
	s = strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(s), "=")
	_, err := base64.RawStdEncoding.DecodeString(s)
	return err == nil
}

// resolve follows references: all alternatives of a value that is no object, the fitting one of an object.
func (g *grammar) resolve(s *shape, n *node) *shape {
	if len(s.refs) == 0 {
		return s
	}
	flat := g.flatten(s)
	if n.kind != object {
		return flat
	}
	objects := g.objects(s)
	if len(objects) == 1 {
		return objects[0]
	}
	for _, o := range objects {
		if g.selects(o, n) {
			return o
		}
	}
	return flat
}

// flatten joins the alternatives behind references; objects stay references.
func (g *grammar) flatten(s *shape) *shape {
	flat := *s
	flat.refs = nil
	for _, name := range s.refs {
		d := g.definitions[name]
		if d.isObject {
			flat.refs = append(flat.refs, name)
		}
		inner := g.flatten(d)
		flat.words = append(slices.Clip(flat.words), inner.words...)
		flat.literals = append(slices.Clip(flat.literals), inner.literals...)
		flat.refs = append(slices.Clip(flat.refs), inner.refs...)
		if inner.elements != nil {
			flat.elements = inner.elements
		}
		if inner.members != nil {
			flat.members = inner.members
		}
	}
	return &flat
}

// objects are the alternatives of a shape that are objects.
func (g *grammar) objects(s *shape) []*shape {
	var list []*shape
	if s.isObject {
		list = append(list, s)
	}
	for _, name := range s.refs {
		list = append(list, g.objects(g.definitions[name])...)
	}
	return list
}

// selects reports whether the value's type and role are those of the object.
func (g *grammar) selects(s *shape, n *node) bool {
	if !n.has("type") && n.has("role") && s.field("role") == nil {
		return false
	}
	for _, name := range []string{"type", "role"} {
		f := s.field(name)
		if f == nil || len(f.shape.literals) == 0 {
			continue
		}
		value := n.get(name)
		if !value.given() && !f.required {
			continue
		}
		if !slices.Contains(f.shape.literals, value.string()) {
			return false
		}
	}
	return true
}

// noneOf explains why no alternative was taken: its type or role is unknown or missing.
func (g *grammar) noneOf(s *shape, n *node, at place) *flaw {
	lacks := ""
	for _, name := range []string{"type", "role"} {
		var values []string
		for _, o := range g.objects(s) {
			if f := o.field(name); f != nil {
				values = append(values, f.shape.literals...)
			}
		}
		switch {
		case len(values) == 0 || slices.Contains(values, n.str(name)):
		case n.get(name) == nil:
			lacks = name
		case !n.get(name).is(text):
			return &flaw{path: at.at(name), what: wrongType, want: []string{"a string"}, got: n.get(name).kind}
		default:
			return &flaw{path: at.at(name), what: wrongValue, value: n.str(name), want: values, got: text}
		}
	}
	if lacks != "" {
		return &flaw{path: at, what: missingField, name: lacks}
	}
	return &flaw{path: at, what: wrongType, want: []string{"another object"}, got: object}
}

func (s *shape) field(name string) *field {
	for i := range s.fields {
		if s.fields[i].name == name {
			return &s.fields[i]
		}
	}
	return nil
}

func (g *grammar) matchFields(s *shape, n *node, at place) *flaw {
	for _, name := range []string{"type", "role"} { // a value of another kind is told so, not what it lacks
		if f, value := s.field(name), n.get(name); f != nil && value != nil {
			if wrong := g.match(f.shape, value, at.at(name)); wrong != nil {
				return wrong
			}
		}
	}
	for _, f := range s.fields {
		if f.required && n.get(f.name) == nil {
			return &flaw{path: at, what: missingField, name: f.name}
		}
	}
	for i, name := range n.names {
		f := s.field(name)
		if f == nil && g.proto {
			f = s.field(camel(name))
		}
		if f == nil {
			f = s.field("*")
		}
		if f == nil {
			return &flaw{path: at, what: unknownField, name: name}
		}
		if wrong := g.match(f.shape, n.list[i], at.at(name)); wrong != nil {
			return wrong
		}
	}
	return nil
}

// wants names the alternatives for a message.
func (g *grammar) wants(s *shape) []string {
	var list []string
	for _, word := range s.words {
		list = append(list, map[string]string{"string": "a string", "int": "an integer", "int64": "an integer", "number": "a number",
			"bool": "a boolean", "null": "null", "object": "an object", "base64": "base64"}[word])
	}
	if len(s.literals) > 0 {
		list = append(list, "a string")
	}
	if s.elements != nil {
		list = append(list, "an array")
	}
	if s.isObject || s.members != nil || len(s.refs) > 0 {
		list = append(list, "an object")
	}
	return list
}
