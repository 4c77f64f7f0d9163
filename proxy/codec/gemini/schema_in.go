package gemini

import (
	"bytes"

	"coding-proxy/proxy/rawjson"
)

// Gemini's Schema is a subset of OpenAPI's: types in capitals, nullable instead of a null type, whole numbers in quotes,
// names in either spelling. Clients write the same in their JSON Schemas, too.

// schema makes JSON Schema of a client's schema. What is JSON Schema already stays as it is written.
func (rd *reader) schema(v []byte) []byte {
	s := schemaReader{}
	s.node(v, 0)
	if s.ordered {
		rd.r.LosePath("propertyOrdering")
	}
	if !s.changed {
		return bytes.Clone(v)
	}
	return s.w.Buf
}

type schemaReader struct {
	w       rawjson.Writer
	changed bool
	ordered bool // an order of properties was said apart from them
}

// node writes a schema.
func (s *schemaReader) node(v []byte, depth int) {
	if !isObject(v) || depth > maxSchemaDepth {
		s.w.Raw(v)
		return
	}
	nullable, hasType := false, false
	_ = rawjson.Walk(v, func(key []byte, f rawjson.Field) error {
		switch value := f.Value(v); string(key) {
		case "nullable":
			nullable = string(value) == "true"
		case "type":
			hasType = value[0] == '"'
		}
		return nil
	})
	s.w.Open('{')
	if nullable && !hasType { // beside anyOf or an enumeration alone
		s.changed = true
		s.w.Key("anyOf")
		s.w.Open('[')
		s.w.Open('{')
		s.members(v, false, depth)
		s.w.Close('}')
		s.w.Raw([]byte(`{"type":"null"}`))
		s.w.Close(']')
	} else {
		s.members(v, nullable, depth)
	}
	s.w.Close('}')
}

// members writes a schema's members; nullable adds null to its types and its values.
func (s *schemaReader) members(v []byte, nullable bool, depth int) {
	_ = rawjson.Walk(v, func(key []byte, f rawjson.Field) error {
		value, name := f.Value(v), camel(key)
		if isNull(value) && string(name) != "default" && string(name) != "const" {
			s.changed = true
			return nil
		}
		switch string(name) {
		case "nullable":
			s.changed = true
			return nil
		case "propertyOrdering":
			s.changed, s.ordered = true, true
			return nil
		case "type":
			s.types(value, nullable)
			return nil
		case "example":
			s.changed = true
			s.w.Key("examples")
			s.w.Open('[')
			s.w.Raw(value)
			s.w.Close(']')
			return nil
		case "enum":
			if nullable && isArray(value) {
				s.changed = true
				s.w.Key("enum")
				s.w.Raw(withNull(value))
				return nil
			}
		}
		if s.keyword(name) {
			s.changed = s.changed || !bytes.Equal(name, key)
			key = name
		}
		s.w.Key(string(key))
		s.value(string(key), value, depth)
		return nil
	})
}

// keyword reports whether a name is one of Schema's, which may come in snake case.
func (s *schemaReader) keyword(name []byte) bool {
	switch string(name) {
	case "minItems", "maxItems", "minProperties", "maxProperties", "minLength", "maxLength", "anyOf", "additionalProperties", "prefixItems":
		return true
	}
	return false
}

// value writes the value of a keyword, schemas in it as schemas.
func (s *schemaReader) value(keyword string, v []byte, depth int) {
	switch keyword {
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
		if isObject(v) {
			s.w.Open('{')
			_ = rawjson.Walk(v, func(key []byte, f rawjson.Field) error {
				s.w.Key(string(key))
				s.node(f.Value(v), depth+1)
				return nil
			})
			s.w.Close('}')
			return
		}
	case "items", "prefixItems", "anyOf", "oneOf", "allOf":
		if isArray(v) {
			s.w.Open('[')
			_ = rawjson.Elements(v, func(_ int, v []byte) error {
				s.node(v, depth+1)
				return nil
			})
			s.w.Close(']')
			return
		}
		s.node(v, depth+1)
		return
	case "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames":
		s.node(v, depth+1)
		return
	case "minItems", "maxItems", "minProperties", "maxProperties", "minLength", "maxLength":
		if n, ok := numeral(v); ok && v[0] == '"' {
			s.changed = true
			v = []byte(n)
		}
	}
	s.w.Raw(v)
}

// types writes a type in lower case.
func (s *schemaReader) types(v []byte, nullable bool) {
	if v[0] == '"' {
		lower := bytes.ToLower(v)
		s.changed = s.changed || nullable || !bytes.Equal(lower, v)
		if string(lower) == `"type_unspecified"` {
			return
		}
		s.w.Key("type")
		if nullable && string(lower) != `"null"` {
			s.w.Open('[')
			s.w.Raw(lower)
			s.w.String("null")
			s.w.Close(']')
			return
		}
		s.w.Raw(lower)
		return
	}
	s.w.Key("type")
	lower := bytes.ToLower(v)
	s.changed = s.changed || !bytes.Equal(lower, v)
	s.w.Raw(lower)
}

// withNull adds null to an enumeration.
func withNull(v []byte) []byte {
	var w rawjson.Writer
	w.Open('[')
	null := false
	_ = rawjson.Elements(v, func(_ int, v []byte) error {
		null = null || isNull(v)
		w.Raw(v)
		return nil
	})
	if !null {
		w.Null()
	}
	w.Close(']')
	return w.Buf
}
