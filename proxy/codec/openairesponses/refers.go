package openairesponses

import (
	"bytes"
	"strconv"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// refers tells of items that the request does not repeat, and of uploaded files.
func refers(key string, value []byte, visit func(ir.Reference)) {
	if key != "input" || !bytes.Contains(value, []byte(`"id"`)) && !bytes.Contains(value, []byte(`"file_id"`)) {
		return
	}
	_ = rawjson.Elements(value, func(i int, item []byte) error {
		if !isObjectRaw(item) {
			return nil
		}
		at := "input[" + strconv.Itoa(i) + "]"
		id := stringOf(item, "id")
		if id != "" && isReference(item) {
			visit(ir.Reference{At: at + ".id", ID: id})
			return nil
		}
		for _, list := range [...]string{"content", "output"} {
			uploads(at+"."+list, rawjson.Get(item, list), visit)
		}
		return nil
	})
}

// isReference reports whether an item is nothing but the id of another one; its type may be missing.
func isReference(item []byte) bool {
	kind := stringOf(item, "type")
	return kind == "item_reference" || kind == "" && rawjson.Get(item, "role") == nil
}

// uploads tells of the uploaded files among the parts of a message or of a result.
func uploads(at string, parts []byte, visit func(ir.Reference)) {
	if !bytes.Contains(parts, []byte(`"file_id"`)) {
		return
	}
	_ = rawjson.Elements(parts, func(i int, part []byte) error {
		if !isObjectRaw(part) {
			return nil
		}
		if id := stringOf(part, "file_id"); id != "" {
			visit(ir.Reference{At: at + "[" + strconv.Itoa(i) + "].file_id", ID: id})
		}
		return nil
	})
}
