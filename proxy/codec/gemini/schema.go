package gemini

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"coding-proxy/proxy/rawjson"
)

// Gemini honours a part of JSON Schema and, by model, passes over or refuses the rest (facts/protocols.md 4.2). A schema
// is written anew with that part alone: references inlined, conditions and intersections merged, what cannot be said but
// is short put into the description. Only schema nodes are looked at: a property called "title" is data.

const (
	maxSchemaDepth = 64 // nesting of what is written
	// maxRecursion is how deep references that contain themselves are inlined.
	maxRecursion = 8
	// maxHint bounds a keyword's value in a description, in bytes.
	maxHint = 200
)

// cleanParameters returns the schema of a function's arguments as Gemini takes it, nil where it says nothing; lost tells
// whether the meaning suffered.
func cleanParameters(schema []byte) (out []byte, lost bool) {
	return clean(schema, true)
}

// cleanSchema does the same for any schema.
func cleanSchema(schema []byte) (out []byte, lost bool) {
	return clean(schema, false)
}

// clean writes a schema. One that grows out of measure by its references is written again with fewer of them.
func clean(schema []byte, parameters bool) (out []byte, lost bool) {
	if !isObject(schema) {
		return nil, false
	}
	for recursion := maxRecursion; ; recursion /= 2 {
		c := cleaner{root: schema, recursion: recursion, nodes: 4096 + len(schema)/4, work: 16<<20 + 32*len(schema), targets: map[string][]byte{}}
		n := node{}
		c.gather(&n, schema, false, 0)
		if parameters {
			n.types = isObjectType
			c.flatten(&n, 0)
			if len(n.props) == 0 {
				return nil, c.lost
			}
		}
		c.node(&n, 0)
		if c.nodes > 0 || recursion == 0 {
			return c.w.Buf, c.lost
		}
	}
}

// types is a set of JSON types.
type types uint8

const (
	isStringType types = 1 << iota
	isNumberType
	isIntegerType
	isBooleanType
	isArrayType
	isObjectType
	isNullType
	allTypes = isNullType<<1 - 1
)

// typeNames are in the order of the bits. Nobody changes the table.
var typeNames = [...]string{"string", "number", "integer", "boolean", "array", "object", "null"}

func typeOf(name string) types {
	for i, n := range typeNames {
		if strings.EqualFold(n, name) {
			return 1 << i
		}
	}
	return 0
}

func (t types) one() bool { return t&(t-1) == 0 }

// cleaner is the writing of one schema.
type cleaner struct {
	w         rawjson.Writer
	root      []byte
	recursion int
	nodes     int      // that may still be written
	work      int      // bytes that may still be read behind references
	refs      []string // that are being inlined
	targets   map[string][]byte
	lost      bool
}

// node is a schema with what it refers to and what it is an intersection of: raw values, the first one of each wins.
type node struct {
	types                            types
	title, description, format       []byte
	enum, items, prefix, additional  []byte
	minItems, maxItems, lower, upper []byte
	lowerExclusive, upperExclusive   []byte
	props, required, anyOf           [][]byte
	hints                            []string
	refs                             []string
	open                             bool // additional properties are allowed by patterns
	nullable                         bool
}

func keep(to *[]byte, v []byte) {
	if *to == nil {
		*to = v
	}
}

// gather reads a schema into a node. optional: its properties are not required here.
func (c *cleaner) gather(n *node, v []byte, optional bool, depth int) {
	if !isObject(v) || depth > maxSchemaDepth {
		c.lost = c.lost || depth > maxSchemaDepth
		return
	}
	var ref, all, then, otherwise []byte
	_ = rawjson.Walk(v, func(key []byte, f rawjson.Field) error {
		value := f.Value(v)
		switch string(key) {
		case "$ref", "$dynamicRef", "$recursiveRef":
			keep(&ref, value)
		case "allOf":
			all = value
		case "then":
			then = value
		case "else":
			otherwise = value
		case "required":
			if !optional && isArray(value) {
				n.required = append(n.required, value)
			}
		default:
			c.keyword(n, string(key), value)
		}
		return nil
	})
	if ref != nil {
		c.follow(n, rawText(ref), optional, depth)
	}
	if isArray(all) {
		_ = rawjson.Elements(all, func(_ int, v []byte) error {
			c.gather(n, v, optional, depth+1)
			return nil
		})
	}
	c.branch(n, then, depth)
	c.branch(n, otherwise, depth)
}

// branch offers the properties of one that holds under a condition.
func (c *cleaner) branch(n *node, v []byte, depth int) {
	if v == nil {
		return
	}
	var b node
	c.gather(&b, v, true, depth+1)
	n.props, n.refs = append(n.props, b.props...), append(n.refs, b.refs...)
	c.lost = true
}

// keyword takes over what one keyword says.
func (c *cleaner) keyword(n *node, key string, v []byte) {
	switch key {
	case "type":
		c.types(n, v)
	case "nullable":
		n.nullable = string(v) == "true"
	case "title":
		keepString(&n.title, v)
	case "description":
		keepString(&n.description, v)
	case "format":
		keepString(&n.format, v)
	case "enum":
		if isArray(v) {
			keep(&n.enum, v)
		}
	case "const":
		keep(&n.enum, append(append([]byte{'['}, v...), ']'))
	case "items":
		keep(&n.items, v)
	case "prefixItems":
		if isArray(v) {
			keep(&n.prefix, v)
		}
	case "properties":
		if isObject(v) && !isEmpty(v) {
			n.props = append(n.props, v)
		}
	case "additionalProperties":
		keep(&n.additional, v)
	case "minItems":
		keepNumber(&n.minItems, v)
	case "maxItems":
		keepNumber(&n.maxItems, v)
	case "minimum":
		keepNumber(&n.lower, v)
	case "maximum":
		keepNumber(&n.upper, v)
	case "exclusiveMinimum":
		keepNumber(&n.lowerExclusive, v)
	case "exclusiveMaximum":
		keepNumber(&n.upperExclusive, v)
	case "anyOf", "oneOf":
		if isArray(v) {
			n.anyOf = append(n.anyOf, v)
		}
	case "patternProperties":
		n.open, c.lost = true, true
	case "not", "if", "propertyNames", "contains", "minContains", "maxContains", "dependentRequired", "dependentSchemas",
		"dependencies", "additionalItems", "unevaluatedItems", "unevaluatedProperties":
		c.lost = true
	default:
		c.hint(n, key, v)
	}
}

func isEmpty(object []byte) bool {
	return rawjson.Walk(object, func([]byte, rawjson.Field) error { return errStop }) == nil
}

var errStop = errors.New("stop")

func keepString(to *[]byte, v []byte) {
	if v[0] == '"' {
		keep(to, v)
	}
}

func keepNumber(to *[]byte, v []byte) {
	if v[0] == '-' || v[0] >= '0' && v[0] <= '9' {
		keep(to, v)
	}
}

// types takes over a type, or several. Of an intersection the first one counts.
func (c *cleaner) types(n *node, v []byte) {
	if n.types != 0 {
		return
	}
	if !isArray(v) {
		n.types = typeOf(rawText(v))
		return
	}
	_ = rawjson.Elements(v, func(_ int, v []byte) error {
		n.types |= typeOf(rawText(v))
		return nil
	})
	if n.types == allTypes || n.types == allTypes&^isIntegerType {
		n.types = 0 // anything
	}
}

// hint keeps a keyword that Gemini has not for the description. Annotations ($schema, $comment, examples, x-…) go.
func (c *cleaner) hint(n *node, key string, v []byte) {
	says := ""
	if len(v) <= maxHint {
		if says = string(v); v[0] == '"' {
			says = rawText(v)
		}
	}
	switch key {
	case "pattern":
		says = "pattern: " + says
	case "minLength":
		says = "at least " + says + " characters"
	case "maxLength":
		says = "at most " + says + " characters"
	case "minProperties":
		says = "at least " + says + " properties"
	case "maxProperties":
		says = "at most " + says + " properties"
	case "multipleOf":
		says = "a multiple of " + says
	case "default":
		says = "default: " + says
	case "uniqueItems":
		if says != "true" {
			return
		}
		says = "no item twice"
	default:
		return
	}
	if len(v) > maxHint {
		c.lost = true
		return
	}
	n.hints = append(n.hints, says)
}

// follow reads what a reference points at. One that contains itself is followed to a depth of maxRecursion.
func (c *cleaner) follow(n *node, ref string, optional bool, depth int) {
	target, known := c.targets[ref]
	if !known {
		target = c.resolve(ref)
		c.targets[ref] = target
		c.work -= len(c.root)
	}
	if c.work -= len(target); target == nil || c.work < 0 {
		if c.lost = true; c.work < 0 {
			c.nodes = 0
		}
		return
	}
	again := false
	for _, r := range n.refs {
		again = again || r == ref // it is nothing but itself
	}
	if !again && len(c.refs)+len(n.refs) >= c.recursion {
		for _, r := range c.refs {
			again = again || r == ref
		}
	}
	if again {
		c.lost = true
		if n.types == 0 {
			c.types(n, orNull(rawjson.Get(target, "type")))
		}
		if d := rawjson.Get(target, "description"); d != nil {
			keepString(&n.description, d)
		}
		return
	}
	n.refs = append(n.refs, ref)
	c.gather(n, target, optional, depth+1)
}

func orNull(v []byte) []byte {
	if v == nil {
		return []byte("null")
	}
	return v
}

// resolve finds what a local reference points at; nil = nothing.
func (c *cleaner) resolve(ref string) []byte {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil
	}
	at := c.root
	if path == "" {
		return at
	}
	if path[0] != '/' {
		return nil
	}
	for _, step := range strings.Split(path[1:], "/") {
		step = strings.NewReplacer("~1", "/", "~0", "~", "%24", "$", "%20", " ").Replace(step)
		if isArray(at) {
			want, err := strconv.Atoi(step)
			var found []byte
			if err == nil {
				_ = rawjson.Elements(at, func(i int, v []byte) error {
					if i == want {
						found = v
					}
					return nil
				})
			}
			at = found
		} else {
			at = rawjson.Get(at, step)
		}
		if at == nil {
			return nil
		}
	}
	return at
}

// flatten offers the properties of all alternatives: the arguments of a function are one object.
func (c *cleaner) flatten(n *node, depth int) {
	alternatives := n.anyOf
	n.anyOf = nil
	for _, list := range alternatives {
		c.lost = true
		_ = rawjson.Elements(list, func(_ int, v []byte) error {
			var b node
			c.gather(&b, v, true, depth+1)
			if len(b.anyOf) > 0 && depth < maxSchemaDepth {
				c.flatten(&b, depth+1)
			}
			n.props, n.refs = append(n.props, b.props...), append(n.refs, b.refs...)
			return nil
		})
	}
}

// values are an enumeration's, by kind.
type values struct {
	types   types
	strings [][]byte
	numbers [][]byte
	rest    bool // what Gemini has no enumerations of
	empty   bool // the empty string is one
}

func valuesOf(list []byte) (e values) {
	if list == nil {
		return e
	}
	_ = rawjson.Elements(list, func(_ int, v []byte) error {
		switch v[0] {
		case '"':
			if e.types |= isStringType; string(v) == `""` {
				e.empty = true // it is refused as a value
			} else {
				e.strings = append(e.strings, v)
			}
		case 't', 'f':
			e.types |= isBooleanType
			e.rest = true
		case 'n':
			e.types |= isNullType
		case '{', '[':
			e.rest = true
		default:
			if _, ok := rawjson.Int(v); ok {
				e.types |= isIntegerType
			} else {
				e.types |= isNumberType
			}
			e.numbers = append(e.numbers, v)
		}
		return nil
	})
	if e.types&isNumberType != 0 {
		e.types &^= isIntegerType
	}
	return e
}

// infer gives a node without a type the one that its keywords stand for.
func (n *node) infer(e *values) {
	switch {
	case n.types != 0:
	case len(n.props) > 0 || n.additional != nil && isObject(n.additional):
		n.types = isObjectType
	case n.items != nil || n.prefix != nil:
		n.types = isArrayType
	case len(n.anyOf) == 0:
		n.types = e.types
	}
	if n.nullable && n.types != 0 {
		n.types |= isNullType
	}
	if e.rest || e.empty {
		var b bytes.Buffer
		if len(n.enum) <= maxHint && json.Compact(&b, n.enum) == nil {
			n.hints = append(n.hints, "one of "+b.String())
		}
	}
}
