// Package rawjson finds and splices fields in raw JSON without decoding it. A scan runs over the whole top
// level of an object at memory speed: strings are skipped with bytes.IndexByte, nested values by their brackets.
// The grammar is checked where the scan looks (top level, strings' ends, nesting); what lies inside nested
// values is for the receiver to judge.
package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// ErrSyntax says that the text is not the JSON that was asked for.
var ErrSyntax = errors.New("invalid JSON")

// maxDepth bounds nesting, as encoding/json does.
const maxDepth = 10000

// Field is one member of an object: the byte offsets of its key's opening quote and of its value in the text
// that was scanned.
type Field struct {
	KeyStart             int
	ValueStart, ValueEnd int
}

// Value returns the raw value of f in b.
func (f Field) Value(b []byte) []byte { return b[f.ValueStart:f.ValueEnd] }

// Walk calls visit for each member of the object that is the whole of b, in order, repeated keys included. The key
// is decoded and valid during the call only. Walk stops with visit's first error.
func Walk(b []byte, visit func(key []byte, f Field) error) error {
	i := skipSpace(b, 0)
	if i >= len(b) || b[i] != '{' {
		return syntax(i, "object expected")
	}
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == '}' {
		return end(b, i+1)
	}
	for {
		if i >= len(b) || b[i] != '"' {
			return syntax(i, "field name expected")
		}
		f := Field{KeyStart: i}
		n, err := skipString(b, i)
		if err != nil {
			return err
		}
		key, err := unquoteKey(b[i:n])
		if err != nil {
			return syntax(i, "bad field name")
		}
		i = skipSpace(b, n)
		if i >= len(b) || b[i] != ':' {
			return syntax(i, "colon expected")
		}
		f.ValueStart = skipSpace(b, i+1)
		if f.ValueEnd, err = skipValue(b, f.ValueStart); err != nil {
			return err
		}
		if err := visit(key, f); err != nil {
			return err
		}
		i = skipSpace(b, f.ValueEnd)
		if i >= len(b) {
			return syntax(i, "unexpected end")
		}
		switch b[i] {
		case ',':
			i = skipSpace(b, i+1)
		case '}':
			return end(b, i+1)
		default:
			return syntax(i, "comma or closing brace expected")
		}
	}
}

// Get returns the raw value of the first member called key of the object b, or nil when there is none or b is no object.
func Get(b []byte, key string) []byte {
	var value []byte
	_ = Walk(b, func(k []byte, f Field) error {
		if string(k) == key {
			value = f.Value(b)
			return errFound
		}
		return nil
	})
	return value
}

var errFound = errors.New("found")

// Int decodes a raw number as a whole number; null, fractions and everything else give ok false.
func Int(raw []byte) (n int64, ok bool) {
	if len(raw) == 0 || len(raw) > 19 {
		return 0, false
	}
	i := 0
	if raw[0] == '-' {
		i = 1
	}
	if i == len(raw) {
		return 0, false
	}
	for ; i < len(raw); i++ {
		if raw[i] < '0' || raw[i] > '9' {
			return 0, false
		}
		n = n*10 + int64(raw[i]-'0')
	}
	if raw[0] == '-' {
		n = -n
	}
	return n, n >= 0 == (raw[0] != '-') || n == 0
}

// Bool decodes a raw true or false.
func Bool(raw []byte) (v, ok bool) {
	v = string(raw) == "true"
	return v, v || string(raw) == "false"
}

func unquoteKey(quoted []byte) ([]byte, error) {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner, nil
	}
	s, ok := String(quoted)
	if !ok {
		return nil, ErrSyntax
	}
	return []byte(s), nil
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

func end(b []byte, i int) error {
	if i = skipSpace(b, i); i < len(b) {
		return syntax(i, "text after the object")
	}
	return nil
}

// skipString returns the offset after the string whose opening quote is at i. Of the texts that are long, few bytes are
// quotes: the search for them pays, as no other way to look for escapes does.
func skipString(b []byte, i int) (int, error) {
	start := i + 1
	for at := start; ; {
		j := bytes.IndexByte(b[at:], '"')
		if j < 0 {
			return 0, syntax(len(b), "string without end")
		}
		at += j
		if at == start || b[at-1] != '\\' {
			return at + 1, nil
		}
		backslashes := 1
		for k := at - 2; k >= start && b[k] == '\\'; k-- {
			backslashes++
		}
		at++
		if backslashes%2 == 0 {
			return at, nil
		}
	}
}

// skipValue returns the offset after the value that starts at i.
func skipValue(b []byte, i int) (int, error) {
	if i >= len(b) {
		return 0, syntax(i, "value expected")
	}
	switch c := b[i]; {
	case c == '"':
		return skipString(b, i)
	case c == '{' || c == '[':
		return skipNested(b, i)
	case c == 't' && bytes.HasPrefix(b[i:], []byte("true")), c == 'n' && bytes.HasPrefix(b[i:], []byte("null")):
		return i + 4, nil
	case c == 'f' && bytes.HasPrefix(b[i:], []byte("false")):
		return i + 5, nil
	case c == '-' || c >= '0' && c <= '9':
		j := i + 1
		for j < len(b) && isNumberByte(b[j]) {
			j++
		}
		if !json.Valid(b[i:j]) {
			return 0, syntax(i, "bad number")
		}
		return j, nil
	}
	return 0, syntax(i, "value expected")
}

func isNumberByte(c byte) bool {
	return c >= '0' && c <= '9' || c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-'
}

// skipNested follows brackets, two bits of a stack each, from the opening one at i.
func skipNested(b []byte, i int) (int, error) {
	var small [64]byte
	open := small[:0]
	for at := i; at < len(b); at++ {
		switch c := b[at]; c {
		case '"':
			n, err := skipString(b, at)
			if err != nil {
				return 0, err
			}
			at = n - 1
		case '{', '[':
			if len(open) == maxDepth {
				return 0, syntax(at, "nested too deeply")
			}
			open = append(open, c+2) // '{'+2 is '}', '['+2 is ']'
		case '}', ']':
			if open[len(open)-1] != c {
				return 0, syntax(at, "brackets do not match")
			}
			if open = open[:len(open)-1]; len(open) == 0 {
				return at + 1, nil
			}
		}
	}
	return 0, syntax(len(b), "unexpected end")
}

func syntax(offset int, problem string) error {
	return fmt.Errorf("%w: %s at byte %d", ErrSyntax, problem, offset)
}
