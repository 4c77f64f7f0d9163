package antigravity

import (
	"bytes"
	"strings"

	"coding-proxy/proxy/rawjson"
)

// maxSchema bounds how deep schemas are followed.
const maxSchema = 64

// claudeTools returns tools as Claude's models behind the service must have them. It hands them only schemas that stand
// under "parameters", in the subset of OpenAPI that Gemini knows; without one the model's own API refuses the tool. strict
// reports whether the mode VALIDATED can be asked for, which wants a required parameter of each function.
func claudeTools(tools []byte) (text []byte, strict bool) {
	w := &rawjson.Writer{Buf: make([]byte, 0, len(tools)+len(tools)/4)}
	strict = true
	w.Open('[')
	err := rawjson.Elements(tools, func(_ int, tool []byte) error {
		w.Open('{')
		defer w.Close('}')
		return rawjson.Walk(tool, func(key []byte, f rawjson.Field) error {
			w.Key(string(key))
			if name := string(key); name != "functionDeclarations" && name != "function_declarations" {
				w.Raw(f.Value(tool))
				return nil
			}
			w.Open('[')
			defer w.Close(']')
			return rawjson.Elements(f.Value(tool), func(_ int, declaration []byte) error {
				required, err := claudeFunction(w, declaration)
				strict = strict && required
				return err
			})
		})
	})
	w.Close(']')
	if err != nil { // for the service to judge
		return tools, false
	}
	return w.Buf, strict
}

// claudeFunction writes one declaration, and reports whether it has a required parameter.
func claudeFunction(w *rawjson.Writer, declaration []byte) (required bool, err error) {
	w.Open('{')
	defer w.Close('}')
	var schema []byte
	err = rawjson.Walk(declaration, func(key []byte, f rawjson.Field) error {
		v := f.Value(declaration)
		switch string(key) {
		case "parameters":
			schema = v
			w.Key("parameters")
			w.Raw(v)
		case "parametersJsonSchema", "parameters_json_schema":
			schema = v
			w.Key("parameters")
			openSchema(w, v, 0)
		default:
			w.Key(string(key))
			w.Raw(v)
		}
		return nil
	})
	if schema == nil {
		w.Key("parameters")
		w.Raw([]byte(`{"type":"OBJECT","properties":{}}`))
	}
	list := bytes.TrimSpace(rawjson.Get(schema, "required"))
	return len(list) > 2 && list[0] == '[', err
}

// openSchema writes a JSON schema in the subset that stands under "parameters". What that cannot say is left out, as it is
// for all models whose schemas must be written there: the model is told a little less, and calls stay what they are.
func openSchema(w *rawjson.Writer, v []byte, depth int) {
	m := map[string][]byte{}
	_ = rawjson.Walk(v, func(key []byte, f rawjson.Field) error {
		m[string(key)] = f.Value(v)
		return nil
	})
	branches := m["anyOf"]
	if branches == nil {
		branches = m["oneOf"]
	}
	word, null := typeOf(m["type"])
	words := m["enum"]
	if !allStrings(words) || word != "" && word != "string" {
		words = nil // other values have no place in an enum there
	}
	switch {
	case word != "":
	case depth == 0, m["properties"] != nil:
		word = "object"
	case m["items"] != nil:
		word = "array"
	case words != nil:
		word = "string"
	}
	w.Open('{')
	defer w.Close('}')
	w.Member("title", m["title"])
	w.Member("description", m["description"])
	switch {
	case depth > maxSchema, word == "" && branches == nil:
		anything(w)
		return
	case word != "":
		w.Field("type", strings.ToUpper(word))
	}
	w.Member("enum", words)
	if word == "array" {
		w.Key("items")
		openSchema(w, m["items"], depth+1)
	}
	openProperties(w, m["properties"], depth)
	for _, name := range [...]string{"required", "minItems", "maxItems", "minimum", "maximum"} {
		w.Member(name, m[name])
	}
	if branches != nil {
		null = openBranches(w, branches, depth) || null
	}
	if null {
		w.Key("nullable")
		w.Bool(true)
	}
}

// anything writes what allows every value: a schema must have a type there.
func anything(w *rawjson.Writer) {
	w.Key("anyOf")
	w.Raw([]byte(`[{"type":"STRING"},{"type":"NUMBER"},{"type":"BOOLEAN"},{"type":"OBJECT"},{"type":"ARRAY","items":{"type":"STRING"}}]`))
}

func openProperties(w *rawjson.Writer, properties []byte, depth int) {
	if properties == nil {
		return
	}
	w.Key("properties")
	w.Open('{')
	_ = rawjson.Walk(properties, func(key []byte, f rawjson.Field) error {
		w.Key(string(key))
		openSchema(w, f.Value(properties), depth+1)
		return nil
	})
	w.Close('}')
}

// openBranches writes alternatives but null, and reports whether that is one.
func openBranches(w *rawjson.Writer, list []byte, depth int) (null bool) {
	w.Key("anyOf")
	w.Open('[')
	_ = rawjson.Elements(list, func(_ int, branch []byte) error {
		if word, isNull := typeOf(rawjson.Get(branch, "type")); word == "" && isNull {
			null = true
			return nil
		}
		openSchema(w, branch, depth+1)
		return nil
	})
	w.Close(']')
	return null
}

// typeOf reads a type: "" where there is none or several are allowed, and whether null is one.
func typeOf(v []byte) (word string, null bool) {
	if text, ok := rawjson.String(v); ok {
		if text == "null" {
			return "", true
		}
		return text, false
	}
	several := false
	_ = rawjson.Elements(v, func(_ int, one []byte) error {
		switch text, _ := rawjson.String(one); {
		case text == "null":
			null = true
		case word == "":
			word = text
		default:
			several = true
		}
		return nil
	})
	if several {
		return "", false
	}
	return word, null
}

// allStrings reports whether a list holds strings alone.
func allStrings(list []byte) bool {
	all := true
	err := rawjson.Elements(list, func(_ int, v []byte) error {
		all = all && len(v) > 0 && v[0] == '"'
		return nil
	})
	return err == nil && all
}
