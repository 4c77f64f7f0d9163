package config

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds how deep values may be nested; a configuration needs six levels.
const maxDepth = 64

type kind int

const (
	kindNull kind = iota
	kindBool
	kindNumber
	kindString
	kindList
	kindObject
)

func (k kind) String() string {
	return [...]string{"null", "true or false", "a number", "a string", "a list", "an object"}[k]
}

// position counts lines and characters from 1.
type position struct{ line, column int }

// node is one JSON value and where it begins.
type node struct {
	at      position
	kind    kind
	text    string // a string's text; a number or literal as it is written
	items   []*node
	members []member // in the order of the file; a name may be there twice
}

type member struct {
	at    position // of the name
	name  string
	value *node
}

// parser reads strict JSON: encoding/json knows neither lines nor the order of names, and drops repeated ones.
// No error repeats letters or digits of the file, they could be part of a key.
type parser struct {
	data  []byte
	next  int
	at    position
	depth int
}

func parse(data []byte) (*node, *Problem) {
	p := &parser{data: bytes.TrimPrefix(data, []byte("\uFEFF")), at: position{1, 1}}
	p.space()
	if p.ended() {
		return nil, p.fail("the file is empty; the least is {}")
	}
	root, err := p.value()
	if err != nil {
		return nil, err
	}
	if root.kind != kindObject {
		return nil, problemAt(root.at, "the file must hold an object, not "+root.kind.String())
	}
	if p.space(); !p.ended() {
		return nil, p.unexpected("the end of the file")
	}
	return root, nil
}

func (p *parser) ended() bool { return p.next == len(p.data) }

// peek returns the next byte, 0 at the end.
func (p *parser) peek() byte {
	if p.ended() {
		return 0
	}
	return p.data[p.next]
}

func (p *parser) step() {
	switch c := p.data[p.next]; {
	case c == '\n':
		p.at = position{p.at.line + 1, 1}
	case utf8.RuneStart(c):
		p.at.column++
	}
	p.next++
}

func (p *parser) space() {
	for !p.ended() && strings.IndexByte(" \t\r\n", p.peek()) >= 0 {
		p.step()
	}
}

func (p *parser) fail(format string, args ...any) *Problem {
	return problemAt(p.at, fmt.Sprintf(format, args...))
}

func problemAt(at position, text string) *Problem {
	return &Problem{Line: at.line, Column: at.column, Text: text}
}

func (p *parser) unexpected(wanted string) *Problem {
	switch c := p.peek(); {
	case p.ended():
		return p.fail("the file ends here, expected %s", wanted)
	case c == '/' || c == '#':
		return p.fail("expected %s; JSON has no comments", wanted)
	case c < ' ' || c > '~' || isAlphanumeric(rune(c)):
		return p.fail("expected %s", wanted)
	default:
		return p.fail("expected %s, found %q", wanted, string(c))
	}
}

func (p *parser) value() (*node, *Problem) {
	if p.depth++; p.depth > maxDepth {
		return nil, p.fail("nested more than %d deep", maxDepth)
	}
	defer func() { p.depth-- }()
	n := &node{at: p.at}
	var err *Problem
	switch c := p.peek(); {
	case c == '{':
		n.kind = kindObject
		n.members, err = p.object()
	case c == '[':
		n.kind = kindList
		n.items, err = p.list()
	case c == '"':
		n.kind = kindString
		n.text, err = p.str()
	case c == '-' || '0' <= c && c <= '9':
		n.kind = kindNumber
		n.text, err = p.number()
	default:
		err = p.literal(n)
	}
	return n, err
}

func (p *parser) literal(n *node) *Problem {
	for _, word := range []string{"null", "true", "false"} {
		if bytes.HasPrefix(p.data[p.next:], []byte(word)) {
			for range len(word) {
				p.step()
			}
			if n.text = word; word != "null" {
				n.kind = kindBool
			}
			return nil
		}
	}
	return p.unexpected("a value")
}

func (p *parser) object() ([]member, *Problem) {
	var members []member
	err := p.elements('}', func() *Problem {
		m := member{at: p.at}
		if p.peek() != '"' {
			return p.unexpected("a name in double quotes")
		}
		var err *Problem
		if m.name, err = p.str(); err != nil {
			return err
		}
		if p.space(); p.peek() != ':' {
			return p.unexpected(`":"`)
		}
		p.step()
		p.space()
		if m.value, err = p.value(); err != nil {
			return err
		}
		members = append(members, m)
		return nil
	})
	return members, err
}

func (p *parser) list() ([]*node, *Problem) {
	var items []*node
	err := p.elements(']', func() *Problem {
		n, err := p.value()
		items = append(items, n)
		return err
	})
	return items, err
}

// elements reads what stands between an opening bracket and closing, separated by commas.
func (p *parser) elements(closing byte, element func() *Problem) *Problem {
	p.step()
	if p.space(); p.peek() == closing {
		p.step()
		return nil
	}
	for {
		if err := element(); err != nil {
			return err
		}
		p.space()
		switch p.peek() {
		case closing:
			p.step()
			return nil
		case ',':
			comma := p.at
			p.step()
			if p.space(); p.peek() == closing {
				return problemAt(comma, fmt.Sprintf("a comma before %q", string(closing)))
			}
		default:
			return p.unexpected(fmt.Sprintf(`"," or %q`, string(closing)))
		}
	}
}

func (p *parser) number() (string, *Problem) {
	start := p.next
	digits := func() bool {
		first := p.next
		for c := p.peek(); '0' <= c && c <= '9'; c = p.peek() {
			p.step()
		}
		return p.next > first
	}
	if p.peek() == '-' {
		p.step()
	}
	if p.peek() == '0' {
		p.step()
	} else if !digits() {
		return "", p.unexpected("a digit")
	}
	if p.peek() == '.' {
		if p.step(); !digits() {
			return "", p.unexpected("a digit")
		}
	}
	if c := p.peek(); c == 'e' || c == 'E' {
		p.step()
		if c := p.peek(); c == '+' || c == '-' {
			p.step()
		}
		if !digits() {
			return "", p.unexpected("a digit")
		}
	}
	return string(p.data[start:p.next]), nil
}

func (p *parser) str() (string, *Problem) {
	open := p.at
	p.step()
	var text strings.Builder
	for {
		switch c := p.peek(); {
		case p.ended() || c == '\n':
			return "", problemAt(open, "the string that begins here is not closed on its line")
		case c == '"':
			p.step()
			return text.String(), nil
		case c < ' ':
			return "", p.fail("a control character in a string must be written as \\t, \\r or \\u00XX")
		case c == '\\':
			if err := p.escape(&text); err != nil {
				return "", err
			}
		default:
			r, size := utf8.DecodeRune(p.data[p.next:])
			if r == utf8.RuneError && size == 1 {
				return "", p.fail("the file is not UTF-8 here")
			}
			text.WriteRune(r)
			for range size {
				p.step()
			}
		}
	}
}

func (p *parser) escape(text *strings.Builder) *Problem {
	start := p.at
	p.step()
	c := p.peek()
	if c == 'u' {
		r, ok := p.unicode()
		if ok && utf16.IsSurrogate(r) {
			second := rune(0)
			if ok = p.peek() == '\\'; ok {
				p.step()
				second, ok = p.unicode()
			}
			r = utf16.DecodeRune(r, second)
			ok = ok && r != utf8.RuneError
		}
		if !ok {
			return problemAt(start, "expected \\u and four hexadecimal digits, both halves of a surrogate pair")
		}
		text.WriteRune(r)
		return nil
	}
	i := strings.IndexByte(`"\/bfnrt`, c)
	if p.ended() || i < 0 {
		return problemAt(start, `unknown escape; a backslash itself is written \\`)
	}
	text.WriteByte("\"\\/\b\f\n\r\t"[i])
	p.step()
	return nil
}

// unicode reads uXXXX.
func (p *parser) unicode() (rune, bool) {
	if p.peek() != 'u' {
		return 0, false
	}
	p.step()
	var r rune
	for range 4 {
		digit := strings.IndexByte("0123456789abcdefABCDEF", p.peek())
		if digit < 0 {
			return 0, false
		}
		if digit >= 16 {
			digit -= 6
		}
		r = r<<4 | rune(digit)
		p.step()
	}
	return r, true
}
