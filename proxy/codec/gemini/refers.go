package gemini

import (
	"bytes"
	"strconv"
	"strings"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// refers tells of a prompt that was cached and of uploaded files. The API's words come in two spellings.
func refers(key string, value []byte, visit func(ir.Reference)) {
	switch key {
	case "cachedContent", "cached_content":
		if id, ok := rawjson.String(value); ok && id != "" {
			visit(ir.Reference{At: "cachedContent", ID: id})
		}
	case "contents":
		if !bytes.Contains(value, []byte(`"fileUri"`)) && !bytes.Contains(value, []byte(`"file_uri"`)) {
			return
		}
		_ = rawjson.Elements(value, func(i int, content []byte) error {
			_ = rawjson.Elements(rawjson.Get(content, "parts"), func(j int, part []byte) error {
				if uri := fileURI(part); uploaded(uri) {
					visit(ir.Reference{At: "contents[" + strconv.Itoa(i) + "].parts[" + strconv.Itoa(j) + "].fileData.fileUri", ID: uri})
				}
				return nil
			})
			return nil
		})
	}
}

func fileURI(part []byte) string {
	for _, name := range [...][2]string{{"fileData", "fileUri"}, {"file_data", "file_uri"}} {
		if uri, ok := rawjson.String(rawjson.Get(rawjson.Get(part, name[0]), name[1])); ok {
			return uri
		}
	}
	return ""
}

// uploaded reports whether a file is one of the Files API. Others are read from where the address says, by any account.
func uploaded(uri string) bool {
	rest, ok := strings.CutPrefix(uri, "https://generativelanguage.googleapis.com/")
	return ok && strings.Contains(rest, "/files/")
}
