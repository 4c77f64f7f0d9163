package codectest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Expect is what is known of a stream beside its bytes.
type Expect struct {
	Usage bool // a Chat client asked for the usage chunk
	Array bool // the array form of a Gemini stream
	Fault bool // the answer ended with a fault: no terminal event is due
}

// Validate checks a client's stream by what its SDKs demand (facts/protocols.md 1.7, 2.3, 3.4, 4.5). It uses no codec. known
// is false for a dialect that it has no rules for; done reports whether the stream came to its end as the dialect says it.
func Validate(dialect string, wire []byte, x Expect) (problems []string, done, known bool) {
	v := &validator{x: x}
	var one func(v *validator, f Frame)
	switch dialect {
	case anthropic:
		one = newAnthropicRules().frame
	case chat:
		one = (&chatRules{}).frame
	case responses:
		one = newResponsesRules().frame
	case gemini:
		one = (&geminiRules{}).frame
	default:
		return nil, false, false
	}
	frames, rest := Frames(wire)
	if x.Array {
		frames, rest = Elements(wire)
		v.done = len(wire) > 0 && bytes.HasSuffix(wire, []byte("]"))
		v.array = true
	}
	if len(rest) > 0 {
		v.bad("an event without end: %.100q", rest)
	}
	for _, f := range frames {
		if f.Name == "" && f.Data == nil {
			continue // a comment or a blank line
		}
		if v.done && !v.array {
			v.bad("%q after the end", f.Raw)
		}
		one(v, f)
	}
	return v.problems, v.done, true
}

// validator gathers what is wrong.
type validator struct {
	x        Expect
	problems []string
	done     bool // the terminal event has come
	array    bool
}

func (v *validator) bad(format string, args ...any) {
	if len(v.problems) < 10 {
		v.problems = append(v.problems, fmt.Sprintf(format, args...))
	}
}

func (v *validator) must(ok bool, format string, args ...any) {
	if !ok {
		v.bad(format, args...)
	}
}

// Node is a JSON value that can be asked.
type Node struct{ v any }

// JSON reads a value; one that is none has no members.
func JSON(raw []byte) Node {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil || d.More() {
		return Node{}
	}
	return Node{v}
}

// At walks down a path of members and indices: "choices.0.delta".
func (n Node) At(path string) Node {
	for _, step := range strings.Split(path, ".") {
		switch v := n.v.(type) {
		case map[string]any:
			n = Node{v[step]}
		case []any:
			i := -1
			if _, err := fmt.Sscanf(step, "%d", &i); err != nil || i < 0 || i >= len(v) {
				return Node{}
			}
			n = Node{v[i]}
		default:
			return Node{}
		}
	}
	return n
}

// Has reports whether the object has the member, null or not.
func (n Node) Has(name string) bool {
	m, ok := n.v.(map[string]any)
	_, has := m[name]
	return ok && has
}

// Str is a string's text, else "".
func (n Node) Str() string {
	s, _ := n.v.(string)
	return s
}

// IsStr reports whether it is a string.
func (n Node) IsStr() bool {
	_, ok := n.v.(string)
	return ok
}

// Int is a whole number; ok is false for anything else.
func (n Node) Int() (i int64, ok bool) {
	num, ok := n.v.(json.Number)
	if !ok {
		return 0, false
	}
	i, err := num.Int64()
	return i, err == nil
}

// List are an array's elements, nil of anything else.
func (n Node) List() (out []Node) {
	list, _ := n.v.([]any)
	for _, v := range list {
		out = append(out, Node{v})
	}
	return out
}

// IsList and IsObject tell the kind.
func (n Node) IsList() bool {
	_, ok := n.v.([]any)
	return ok
}

// IsObject reports whether it is an object.
func (n Node) IsObject() bool {
	_, ok := n.v.(map[string]any)
	return ok
}

// Some reports whether there is a value other than null.
func (n Node) Some() bool { return n.v != nil }

// String is the value as JSON with sorted members.
func (n Node) String() string { return string(appendCanonical(nil, n.v)) }

// QuoteJSON is a JSON string.
func QuoteJSON(s string) string {
	b, _ := json.Marshal(s) // a string cannot fail
	return string(b)
}
