package gemini

import (
	"strconv"
	"strings"

	"coding-proxy/proxy/rawjson"
)

// sub writes a schema that stands inside another one; true and {} are any value.
func (c *cleaner) sub(v []byte, depth int) {
	var n node
	c.gather(&n, v, false, depth)
	c.node(&n, depth)
}

// node writes a schema.
func (c *cleaner) node(n *node, depth int) {
	c.nodes--
	c.w.Open('{')
	defer c.w.Close('}')
	if len(c.w.Buf) > 8*len(c.root)+1<<18 {
		c.nodes = 0
	}
	if c.nodes <= 0 || depth > maxSchemaDepth {
		c.lost = true
		return
	}
	mark := len(c.refs)
	defer func() { c.refs = c.refs[:mark] }()
	if len(n.props) > 0 && len(n.anyOf) > 0 {
		c.flatten(n, depth)
	}
	c.refs = append(c.refs, n.refs...)
	e := valuesOf(n.enum)
	n.infer(&e)
	c.bounds(n)
	branches := c.branches(n, depth)
	if len(branches) == 1 && n.types&isNullType == 0 { // one alternative is none
		b := branches[0]
		keep(&b.title, n.title)
		keep(&b.description, n.description)
		b.hints = append(n.hints, b.hints...)
		n, branches = b, nil
		c.refs = append(c.refs, n.refs...)
		e = valuesOf(n.enum)
		n.infer(&e)
		c.bounds(n)
		if len(n.anyOf) > 0 { // alternatives inside the only one
			c.lost, n.anyOf = true, nil
		}
	}
	c.words(n)
	switch {
	case len(branches) > 0:
		c.anyOf(n, branches, depth)
	case n.types.one():
		c.typed(n, n.types, &e, depth)
	default:
		c.w.Key("anyOf")
		c.w.Open('[')
		for i := range typeNames {
			if t := n.types & (1 << i); t != 0 {
				c.w.Open('{')
				c.typed(n, t, &e, depth+1)
				c.w.Close('}')
			}
		}
		c.w.Close(']')
	}
}

// branches are a node's alternatives, gathered; none where anything goes.
func (c *cleaner) branches(n *node, depth int) (all []*node) {
	if len(n.anyOf) == 0 {
		return nil
	}
	c.lost = c.lost || len(n.anyOf) > 1
	anything := false
	_ = rawjson.Elements(n.anyOf[0], func(_ int, v []byte) error {
		b := &node{}
		c.gather(b, v, false, depth+1)
		switch {
		case string(v) == "false":
		case b.types|n.types == 0 && b.enum == nil && len(b.props)+len(b.anyOf) == 0 && b.items == nil && b.prefix == nil && b.additional == nil:
			if len(b.required) > 0 || b.open {
				c.lost = true
				return nil
			}
			anything = true
		default:
			if b.types == 0 && b.enum == nil && len(b.anyOf) == 0 {
				b.types = n.types &^ isNullType
			}
			all = append(all, b)
		}
		return nil
	})
	if anything {
		return nil
	}
	return all
}

// anyOf writes alternatives.
func (c *cleaner) anyOf(n *node, branches []*node, depth int) {
	c.w.Key("anyOf")
	c.w.Open('[')
	null := n.types&isNullType != 0
	for _, b := range branches {
		null = null && b.types != isNullType
		c.node(b, depth+1)
	}
	if null {
		c.w.Raw([]byte(`{"type":"null"}`))
	}
	c.w.Close(']')
}

// bounds turns exclusive bounds into what Gemini has: exact for whole numbers, else with words.
func (c *cleaner) bounds(n *node) {
	for _, b := range [...]struct {
		exclusive, to *[]byte
		step          int64
		word          string
	}{{&n.lowerExclusive, &n.lower, 1, "greater than "}, {&n.upperExclusive, &n.upper, -1, "less than "}} {
		v := *b.exclusive
		if v == nil {
			continue
		}
		*b.exclusive = nil
		bound := v
		i, exact := rawjson.Int(v)
		if exact = exact && n.types == isIntegerType && i < 1<<53 && i > -1<<53; exact {
			bound = strconv.AppendInt(nil, i+b.step, 10)
		}
		if *b.to != nil && !tighter(bound, *b.to, b.step) {
			continue // the other one says more
		}
		if *b.to = bound; !exact {
			n.hints = append(n.hints, b.word+string(v))
		}
	}
}

// tighter reports whether a bound leaves less than another one: a lower bound (step 1) that is not less, or an upper one
// that is not more.
func tighter(bound, than []byte, step int64) bool {
	a, err1 := strconv.ParseFloat(string(bound), 64)
	b, err2 := strconv.ParseFloat(string(than), 64)
	return err1 == nil && err2 == nil && float64(step)*(a-b) >= 0
}

// honoured reports whether a format is one that Gemini takes; of others the word goes into the description.
func honoured(format string) bool {
	switch format {
	case "date-time", "date", "time", "enum", "int32", "int64", "float", "double":
		return true
	}
	return false
}

// words writes title and description, with what has no keyword.
func (c *cleaner) words(n *node) {
	if f := rawText(n.format); f != "" && !honoured(f) {
		n.hints = append(n.hints, "format: "+f)
		n.format = nil
	}
	c.w.Member("title", n.title)
	if len(n.hints) == 0 {
		c.w.Member("description", n.description)
		return
	}
	d := rawText(n.description)
	if d != "" {
		d += " "
	}
	c.w.Field("description", d+"("+strings.Join(n.hints, ", ")+")")
}

// typed writes what a node says of values of one type (0: of any).
func (c *cleaner) typed(n *node, t types, e *values, depth int) {
	for i, name := range typeNames {
		if t == 1<<i {
			c.w.Field("type", name)
		}
	}
	switch t {
	case isStringType:
		c.w.Member("format", n.format)
		c.list("enum", e.strings)
	case isNumberType, isIntegerType:
		c.w.Member("format", n.format)
		c.list("enum", e.numbers)
		c.w.Member("minimum", n.lower)
		c.w.Member("maximum", n.upper)
	case isArrayType:
		c.array(n, depth)
	case isObjectType:
		c.object(n, depth)
	}
}

func (c *cleaner) list(name string, values [][]byte) {
	if len(values) == 0 {
		return
	}
	c.w.Key(name)
	c.w.Open('[')
	for _, v := range values {
		c.w.Raw(v)
	}
	c.w.Close(']')
}

func (c *cleaner) array(n *node, depth int) {
	prefix := n.prefix
	if isArray(n.items) { // tuples of older drafts
		keep(&prefix, n.items)
		n.items = nil
	}
	if prefix != nil {
		c.w.Key("prefixItems")
		c.w.Open('[')
		_ = rawjson.Elements(prefix, func(_ int, v []byte) error {
			c.sub(v, depth+1)
			return nil
		})
		c.w.Close(']')
	}
	if string(n.items) != "false" && (n.items != nil || prefix == nil) { // an array without items is refused
		c.w.Key("items")
		c.sub(n.items, depth+1)
	}
	c.w.Member("minItems", n.minItems)
	c.w.Member("maxItems", n.maxItems)
}

func (c *cleaner) object(n *node, depth int) {
	written := map[string]bool{}
	if len(n.props) > 0 {
		c.w.Key("properties")
		c.w.Open('{')
		for _, props := range n.props {
			_ = rawjson.Walk(props, func(key []byte, f rawjson.Field) error {
				v := f.Value(props)
				if string(v) == "false" || written[string(key)] {
					return nil
				}
				written[string(key)] = true
				c.w.Key(string(key))
				c.sub(v, depth+1)
				return nil
			})
		}
		c.w.Close('}')
	}
	c.required(n, written)
	switch {
	case n.additional == nil || n.open:
	case isObject(n.additional):
		c.w.Key("additionalProperties")
		c.sub(n.additional, depth+1)
	case string(n.additional) == "false" || string(n.additional) == "true":
		c.w.Member("additionalProperties", n.additional)
	}
}

// required writes the names that are required and have a property.
func (c *cleaner) required(n *node, written map[string]bool) {
	open := false
	for _, list := range n.required {
		_ = rawjson.Elements(list, func(_ int, v []byte) error {
			name, ok := rawjson.String(v)
			if !ok || !written[name] {
				return nil
			}
			written[name] = false // once
			if !open {
				open = true
				c.w.Key("required")
				c.w.Open('[')
			}
			c.w.String(name)
			return nil
		})
	}
	if open {
		c.w.Close(']')
	}
}
