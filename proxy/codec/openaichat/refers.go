package openaichat

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
		_ = rawjson.Elements(rawjson.Get(message, "content"), func(j int, part []byte) error { // text has no parts
			if id, ok := rawjson.String(rawjson.Get(rawjson.Get(part, "file"), "file_id")); ok && id != "" {
				visit(ir.Reference{At: "messages[" + strconv.Itoa(i) + "].content[" + strconv.Itoa(j) + "].file.file_id", ID: id})
			}
			return nil
		})
		return nil
	})
}
