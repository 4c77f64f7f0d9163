package anthropic

import (
	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// The readers of values below refuse a wrong type.

// object visits the members of an object that are not null.
func object(raw []byte, at string, visit func(key, v []byte) error) error {
	if len(raw) == 0 || first(raw) != '{' {
		return ir.Refuse(at, "must be an object")
	}
	return rawjson.Walk(raw, func(key []byte, f rawjson.Field) error {
		if v := f.Value(raw); v[0] != 'n' {
			return visit(key, v)
		}
		return nil
	})
}

// array visits the elements of an array.
func array(raw []byte, at string, visit func(i int, v []byte) error) error {
	if len(raw) == 0 || first(raw) != '[' {
		return ir.Refuse(at, "must be an array")
	}
	return rawjson.Elements(raw, visit)
}

// count is how many elements an array has.
func count(raw []byte, at string) (n int, err error) {
	err = array(raw, at, func(int, []byte) error { n++; return nil })
	return n, err
}

// first is the byte with which a value begins.
func first(raw []byte) byte {
	for _, c := range raw {
		if c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return c
		}
	}
	return 0
}

func text(v []byte, at string, to *string) error {
	s, ok := rawjson.String(v)
	if !ok {
		return ir.Refuse(at, "must be a string")
	}
	*to = s
	return nil
}

func boolean(v []byte, at string, to *bool) error {
	on, ok := rawjson.Bool(v)
	if !ok {
		return ir.Refuse(at, "must be true or false")
	}
	*to = on
	return nil
}

// number keeps a number as it was written.
func number(v []byte, at string, to *string) error {
	if c := v[0]; c != '-' && (c < '0' || c > '9') {
		return ir.Refuse(at, "must be a number")
	}
	*to = string(v)
	return nil
}
