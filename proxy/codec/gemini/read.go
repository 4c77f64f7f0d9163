package gemini

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// The readers of values below refuse a wrong type. What they return lives on in memory of its own.

func isNull(v []byte) bool { return len(v) == 0 || v[0] == 'n' }

func isObject(v []byte) bool { return len(v) > 0 && v[0] == '{' }

func isArray(v []byte) bool { return len(v) > 0 && v[0] == '[' }

// camel is a member's name as proto3 JSON writes it: it reads max_output_tokens, too.
func camel(key []byte) []byte {
	if bytes.IndexByte(key, '_') <= 0 {
		return key
	}
	out := make([]byte, 0, len(key))
	for i := 0; i < len(key); i++ {
		if key[i] == '_' && i+1 < len(key) && key[i+1] >= 'a' && key[i+1] <= 'z' {
			i++
			out = append(out, key[i]-'a'+'A')
			continue
		}
		out = append(out, key[i])
	}
	return out
}

// object walks the members of an object that are not null, by their names in camel case.
func object(v []byte, at string, visit func(key, v []byte) error) error {
	if !isObject(v) {
		return ir.Refuse(pathOr(at), "must be an object")
	}
	return rawjson.Walk(v, func(key []byte, f rawjson.Field) error {
		if value := f.Value(v); !isNull(value) {
			return visit(camel(key), value)
		}
		return nil
	})
}

func pathOr(at string) string {
	if at == "" {
		return "request"
	}
	return at
}

// array walks the elements of an array that are not null.
func array(v []byte, at string, visit func(i int, v []byte) error) error {
	if !isArray(v) {
		return ir.Refuse(at, "must be an array")
	}
	return rawjson.Elements(v, func(i int, value []byte) error {
		if isNull(value) {
			return nil
		}
		return visit(i, value)
	})
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

// numeral is a number as it is written; proto3 JSON takes it in quotes, too.
func numeral(v []byte) (string, bool) {
	s := string(v)
	if len(v) > 0 && v[0] == '"' {
		s, _ = rawjson.String(v)
	}
	if s == "" || s[0] != '-' && (s[0] < '0' || s[0] > '9') || !json.Valid([]byte(s)) {
		return "", false
	}
	return s, true
}

func number(v []byte, at string, to *string) error {
	s, ok := numeral(v)
	if !ok {
		return ir.Refuse(at, "must be a number")
	}
	*to = s
	return nil
}

// whole reads an int64: 7, "7" or 7.0.
func whole(v []byte, at string, to *int64) error {
	s, ok := numeral(v)
	if !ok {
		return ir.Refuse(at, "must be a whole number")
	}
	if n, ok := rawjson.Int([]byte(s)); ok {
		*to = n
		return nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return ir.Refuse(at, "must be a whole number")
	}
	*to = int64(f)
	return nil
}

// texts reads an array of strings.
func texts(v []byte, at string, to *[]string) error {
	return array(v, at, func(i int, v []byte) error {
		var s string
		err := text(v, ir.Element(at, i), &s)
		*to = append(*to, s)
		return err
	})
}

// unseal reads a signature of a client's history.
func unseal(signature string) ir.State {
	if s := ir.Unseal(ir.StandardBase64(signature)); s.Owner != "" {
		return s
	}
	return ir.State{Data: signature}
}
