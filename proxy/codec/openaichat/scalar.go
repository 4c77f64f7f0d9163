package openaichat

import (
	"bytes"
	"math"
	"strconv"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// The readers of values below refuse a wrong type. The path is at+name, put together only when it is needed.

func isNull(v []byte) bool { return len(v) == 0 || v[0] == 'n' }

func isString(v []byte) bool { return len(v) > 0 && v[0] == '"' }

func isObject(v []byte) bool { return len(v) > 0 && v[0] == '{' }

func isArray(v []byte) bool { return len(v) > 0 && v[0] == '[' }

func text(at, name string, v []byte) (string, error) {
	s, ok := rawjson.String(v)
	if !ok {
		return "", ir.Refuse(at+name, "must be a string")
	}
	return s, nil
}

func boolean(at, name string, v []byte) (bool, error) {
	on, ok := rawjson.Bool(v)
	if !ok {
		return false, ir.Refuse(at+name, "must be true or false")
	}
	return on, nil
}

// number keeps a number as it is written.
func number(name string, v []byte) (string, error) {
	if len(v) == 0 || v[0] != '-' && (v[0] < '0' || v[0] > '9') {
		return "", ir.Refuse(name, "must be a number")
	}
	return string(v), nil
}

// count reads a whole number from 1 up; 4096.0 is one, too.
func count(name string, v []byte) (int64, error) {
	n, ok := rawjson.Int(v)
	if !ok {
		f, err := strconv.ParseFloat(string(v), 64)
		if err != nil || f != math.Trunc(f) || f > 1<<53 {
			return 0, ir.Refuse(name, "must be a whole number")
		}
		n = int64(f)
	}
	if n < 1 {
		return 0, ir.Refuse(name, "must be at least 1")
	}
	return n, nil
}

// object walks the members of an object that are not null.
func object(at, name string, v []byte, visit func(key string, v []byte) error) error {
	if !isObject(v) {
		return ir.Refuse(at+name, "must be an object")
	}
	return rawjson.Walk(v, func(key []byte, f rawjson.Field) error {
		if value := f.Value(v); !isNull(value) {
			return visit(string(key), value)
		}
		return nil
	})
}

// array walks the elements of an array.
func array(at, name string, v []byte, visit func(i int, v []byte) error) error {
	if !isArray(v) {
		return ir.Refuse(at+name, "must be an array")
	}
	return rawjson.Elements(v, visit)
}

// stringList reads an array of strings.
func stringList(at, name string, v []byte) ([]string, error) {
	var list []string
	err := array(at, name, v, func(i int, v []byte) error {
		s, err := text(at, ir.Element(name, i), v)
		list = append(list, s)
		return err
	})
	return list, err
}

// rawObject keeps an object as it is written, in memory of its own: the request outlives the body's buffer.
func rawObject(at, name string, v []byte) ([]byte, error) {
	if !isObject(v) {
		return nil, ir.Refuse(at+name, "must be an object")
	}
	return bytes.Clone(v), nil
}
