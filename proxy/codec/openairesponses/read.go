package openairesponses

import (
	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// isNull reports whether a value is absent or null, which mean the same.
func isNull(raw []byte) bool { return len(raw) == 0 || string(raw) == "null" }

// textOf decodes an optional string; at+field is its path.
func textOf(at, field string, raw []byte) (string, error) {
	if isNull(raw) {
		return "", nil
	}
	s, ok := rawjson.String(raw)
	if !ok {
		return "", ir.Refuse(at+field, "must be a string")
	}
	return s, nil
}

// boolOf decodes an optional boolean.
func boolOf(at, field string, raw []byte) (*bool, error) {
	if isNull(raw) {
		return nil, nil
	}
	v, ok := rawjson.Bool(raw)
	if !ok {
		return nil, ir.Refuse(at+field, "must be true or false")
	}
	return &v, nil
}

// numberOf keeps a number as it was written.
func numberOf(at, field string, raw []byte) (string, error) {
	if isNull(raw) {
		return "", nil
	}
	if c := raw[0]; c != '-' && (c < '0' || c > '9') {
		return "", ir.Refuse(at+field, "must be a number")
	}
	return string(raw), nil
}

// countOf decodes an optional whole number that is not negative.
func countOf(at, field string, raw []byte) (int64, error) {
	if isNull(raw) {
		return 0, nil
	}
	n, ok := rawjson.Int(raw)
	if !ok || n < 0 {
		return 0, ir.Refuse(at+field, "must be a whole number")
	}
	return n, nil
}

// objectOf walks an object, null excluded.
func objectOf(at, field string, raw []byte, visit func(key string, value []byte) error) error {
	if raw[0] != '{' {
		return ir.Refuse(at+field, "must be an object")
	}
	return rawjson.Walk(raw, func(key []byte, f rawjson.Field) error { return visit(string(key), f.Value(raw)) })
}

// listOf walks an array; null is an empty one.
func listOf(at, field string, raw []byte, visit func(i int, value []byte) error) error {
	if isNull(raw) {
		return nil
	}
	if raw[0] != '[' {
		return ir.Refuse(at+field, "must be an array")
	}
	return rawjson.Elements(raw, visit)
}

// textsOf decodes an optional array of strings.
func textsOf(at, field string, raw []byte) (list []string, err error) {
	err = listOf(at, field, raw, func(_ int, v []byte) error {
		s, ok := rawjson.String(v)
		if !ok {
			return ir.Refuse(at+field, "must be an array of strings")
		}
		list = append(list, s)
		return nil
	})
	return list, err
}

// isObject reports whether a text is one JSON object.
func isObject(text string) bool {
	b := []byte(text)
	for _, c := range b {
		switch c {
		case ' ', '\n', '\r', '\t':
			continue
		case '{':
			return rawjson.Valid(b) == nil
		}
		return false
	}
	return false
}
