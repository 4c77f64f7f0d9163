package anthropic

import (
	"bytes"
	"strconv"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// refers tells of uploaded files.
func refers(key string, value []byte, visit func(ir.Reference)) {
	if key != "messages" || !bytes.Contains(value, []byte(`"file_id"`)) {
		return
	}
	_ = rawjson.Elements(value, func(i int, message []byte) error {
		files("messages["+strconv.Itoa(i)+"].content", rawjson.Get(message, "content"), true, visit)
		return nil
	})
}

// files tells of those among the blocks of a message and, where results are looked into, of a tool's result. Calls are
// not: what a tool is given is no file of the provider's.
func files(at string, blocks []byte, results bool, visit func(ir.Reference)) {
	_ = rawjson.Elements(blocks, func(i int, b []byte) error { // text has no blocks
		at := at + "[" + strconv.Itoa(i) + "]"
		for _, in := range [...]struct {
			at    string
			value []byte
		}{{at + ".source.file_id", rawjson.Get(rawjson.Get(b, "source"), "file_id")}, {at + ".file_id", rawjson.Get(b, "file_id")}} {
			if id, ok := rawjson.String(in.value); ok && id != "" {
				visit(ir.Reference{At: in.at, ID: id})
			}
		}
		if results {
			files(at+".content", rawjson.Get(b, "content"), false, visit)
		}
		return nil
	})
}
