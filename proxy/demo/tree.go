package demo

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"
)

// kind is what a JSON value is.
type kind byte

const (
	absent kind = iota // not given at all
	null
	boolean
	number
	text
	array
	object
)

func (k kind) String() string {
	return [...]string{"nothing", "null", "a boolean", "a number", "a string", "an array", "an object"}[k]
}

// node is a parsed JSON value. A nil node is an absent one, so that paths can be followed without checks.
type node struct {
	kind  kind
	text  string   // what a string says; a number or boolean as it is written
	names []string // of an object's members
	list  []*node  // elements, or the members' values
}

var errNotJSON = errors.New("not valid JSON")

// parseTree reads a whole body.
func parseTree(data []byte) (*node, error) {
	if !json.Valid(data) { // this also bounds the depth
		return nil, errNotJSON
	}
	s := treeScanner{data: data}
	return s.value(), nil
}

// treeScanner walks over JSON that is known to be valid.
type treeScanner struct {
	data []byte
	at   int
}

func (s *treeScanner) value() *node {
	switch s.space(); s.data[s.at] {
	case '{':
		return s.object()
	case '[':
		return s.array()
	case '"':
		return &node{kind: text, text: s.string()}
	case 'n':
		s.at += len("null")
		return &node{kind: null}
	case 't', 'f':
		return &node{kind: boolean, text: s.word()}
	default:
		return &node{kind: number, text: s.word()}
	}
}

func (s *treeScanner) object() *node {
	n := &node{kind: object}
	for s.at++; ; s.at++ {
		if s.space(); s.data[s.at] == '}' {
			break
		}
		n.names = append(n.names, s.string())
		s.space()
		s.at++ // the colon
		n.list = append(n.list, s.value())
		if s.space(); s.data[s.at] == '}' {
			break
		}
	}
	s.at++
	return n
}

func (s *treeScanner) array() *node {
	n := &node{kind: array}
	for s.at++; ; s.at++ {
		if s.space(); s.data[s.at] == ']' {
			break
		}
		n.list = append(n.list, s.value())
		if s.space(); s.data[s.at] == ']' {
			break
		}
	}
	s.at++
	return n
}

func (s *treeScanner) space() {
	for strings.IndexByte(" \t\r\n", s.data[s.at]) >= 0 {
		s.at++
	}
}

func (s *treeScanner) string() string {
	start, plain := s.at, true
	for s.at++; s.data[s.at] != '"'; s.at++ {
		if s.data[s.at] == '\\' {
			plain = false
			s.at++
		}
	}
	s.at++
	quoted := s.data[start:s.at]
	if inner := quoted[1 : len(quoted)-1]; plain && utf8.Valid(inner) {
		return string(inner)
	}
	var decoded string
	_ = json.Unmarshal(quoted, &decoded) // the whole body is valid
	return decoded
}

// word is a number, true or false.
func (s *treeScanner) word() string {
	start := s.at
	for s.at < len(s.data) && strings.IndexByte(" \t\r\n,]}", s.data[s.at]) < 0 {
		s.at++
	}
	return string(s.data[start:s.at])
}

// get returns a member; a camelCase name also finds its snake_case spelling, as in every proto3 API. The last of
// several members of one name counts.
func (n *node) get(name string) *node {
	if n == nil {
		return nil
	}
	for i := len(n.names) - 1; i >= 0; i-- {
		if n.names[i] == name || camel(n.names[i]) == name {
			return n.list[i]
		}
	}
	return nil
}

// path follows members.
func (n *node) path(names ...string) *node {
	for _, name := range names {
		n = n.get(name)
	}
	return n
}

// is holds for the kind; a nil node is absent.
func (n *node) is(k kind) bool { return n != nil && n.kind == k || n == nil && k == absent }

// given holds for a value that is neither absent nor null.
func (n *node) given() bool { return n != nil && n.kind != null }

// has reports whether a member is given.
func (n *node) has(name string) bool { return n.get(name).given() }

// str is a string member's text, else empty.
func (n *node) str(name string) string { return n.get(name).string() }

func (n *node) string() string {
	if n == nil || n.kind != text {
		return ""
	}
	return n.text
}

// yes reports whether a member is true.
func (n *node) yes(name string) bool {
	m := n.get(name)
	return m.is(boolean) && m.text == "true"
}

// items are the elements of an array member.
func (n *node) items(name string) []*node { return n.get(name).elements() }

func (n *node) elements() []*node {
	if n == nil || n.kind != array {
		return nil
	}
	return n.list
}

// canonical writes a value with sorted members and without spaces: equal values give equal text.
func (n *node) canonical() string {
	var b strings.Builder
	n.write(&b)
	return b.String()
}

func (n *node) write(b *strings.Builder) {
	if n == nil {
		return
	}
	switch n.kind {
	case object:
		order := make([]int, len(n.names))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(i, j int) int { return strings.Compare(n.names[i], n.names[j]) })
		b.WriteByte('{')
		for _, i := range order {
			writeString(b, n.names[i])
			b.WriteByte(':')
			n.list[i].write(b)
			b.WriteByte(',')
		}
		b.WriteByte('}')
	case array:
		b.WriteByte('[')
		for _, element := range n.list {
			element.write(b)
			b.WriteByte(',')
		}
		b.WriteByte(']')
	case text:
		writeString(b, n.text)
	case null:
		b.WriteString("null")
	default:
		b.WriteString(n.text)
	}
}

func writeString(b *strings.Builder, s string) {
	quoted, _ := json.Marshal(s) // a string always encodes
	b.Write(quoted)
}

// camel turns snake_case into camelCase.
func camel(name string) string {
	if !strings.Contains(name, "_") {
		return name
	}
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		if name[i] == '_' && i > 0 && i+1 < len(name) && name[i+1] >= 'a' && name[i+1] <= 'z' {
			i++
			b.WriteByte(name[i] - 'a' + 'A')
			continue
		}
		b.WriteByte(name[i])
	}
	return b.String()
}
