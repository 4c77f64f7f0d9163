package gemini

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

const owner = "up-1"

// model answers Gemini 3, whose rules are the strictest.
const model = "gemini-3.1-pro-preview"

func decode(t testing.TB, body string) *ir.Request {
	t.Helper()
	r, err := decodeRequest(ir.Incoming{Body: []byte(body), Model: "m"})
	if err != nil {
		t.Fatalf("decode: %v\n%s", err, body)
	}
	return r
}

// encodeFor encodes and checks what every body must keep to.
func encodeFor(t testing.TB, r *ir.Request, model string) *ir.Outgoing {
	t.Helper()
	before := fmt.Sprintf("%+v", r)
	out, err := encodeRequest(r, ir.Target{Model: model, Owner: owner})
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	if after := fmt.Sprintf("%+v", r); after != before {
		t.Errorf("encoding changed the request:\n%s\n%s", before, after)
	}
	if err := checkBody(out.Body, model); err != nil {
		t.Errorf("%v\n%s", err, out.Body)
	}
	return out
}

func encoded(t testing.TB, r *ir.Request) string {
	t.Helper()
	return string(encodeFor(t, r, model).Body)
}

// member returns what a path of names and indices leads to, as text.
func member(t testing.TB, body []byte, path ...any) string {
	t.Helper()
	at := body
	for _, p := range path {
		switch p := p.(type) {
		case string:
			at = rawjson.Get(at, p)
		case int:
			var found []byte
			if at != nil {
				_ = rawjson.Elements(at, func(i int, v []byte) error {
					if i == p {
						found = v
					}
					return nil
				})
			}
			at = found
		}
	}
	return string(at)
}

func has(list []string, want string) bool {
	for _, s := range list {
		if s == want {
			return true
		}
	}
	return false
}

// The API's rules, as far as a body can be judged by itself (facts/protocols.md 4.2, 4.3). A body may break none.

type wirePart struct {
	Text             *string          `json:"text"`
	Thought          bool             `json:"thought"`
	ThoughtSignature string           `json:"thoughtSignature"`
	InlineData       *json.RawMessage `json:"inlineData"`
	FunctionCall     *struct {
		ID, Name string
		Args     map[string]json.RawMessage
	} `json:"functionCall"`
	FunctionResponse *struct {
		ID, Name string
		Response map[string]json.RawMessage
	} `json:"functionResponse"`
}

type wireContent struct {
	Role  string
	Parts []wirePart
}

type wireBody struct {
	Contents          []wireContent
	SystemInstruction *wireContent
	Tools             []struct {
		FunctionDeclarations []struct {
			Name                 string
			ParametersJSONSchema json.RawMessage `json:"parametersJsonSchema"`
		}
	}
}

func checkBody(body []byte, model string) error {
	if err := rawjson.Valid(body); err != nil {
		return err
	}
	var b wireBody
	if err := json.Unmarshal(body, &b); err != nil {
		return err
	}
	if len(b.Contents) == 0 {
		return fmt.Errorf("no contents")
	}
	if err := checkContents(b.Contents, familyOf(model).signs()); err != nil {
		return err
	}
	if s := b.SystemInstruction; s != nil && len(s.Parts) == 0 {
		return fmt.Errorf("systemInstruction without parts")
	}
	rule, seen := toolNames(), map[string]bool{}
	for _, t := range b.Tools {
		for _, f := range t.FunctionDeclarations {
			if rule.Fit(f.Name) != f.Name || seen[f.Name] {
				return fmt.Errorf("function name %q", f.Name)
			}
			seen[f.Name] = true
			if f.ParametersJSONSchema == nil {
				continue
			}
			if err := checkSchema(f.ParametersJSONSchema, f.Name); err != nil {
				return err
			}
			if string(rawjson.Get(f.ParametersJSONSchema, "type")) != `"object"` {
				return fmt.Errorf("%s: parameters are no object", f.Name)
			}
		}
	}
	return nil
}

func checkContents(contents []wireContent, signs bool) error {
	var calls []wirePart
	role := ""
	for i, c := range contents {
		if len(c.Parts) == 0 {
			return fmt.Errorf("contents[%d] is empty", i)
		}
		if c.Role != "user" && c.Role != "model" || i == 0 && c.Role != "user" || c.Role == "model" && role == "model" {
			return fmt.Errorf("contents[%d] has the role %q after %q", i, c.Role, role)
		}
		var made, results []wirePart
		for j, p := range c.Parts {
			if p.Text != nil && *p.Text == "" && p.ThoughtSignature == "" {
				return fmt.Errorf("contents[%d].parts[%d] is an empty text", i, j)
			}
			if p.FunctionCall != nil {
				made = append(made, p)
				if p.FunctionCall.Name == "" || p.FunctionCall.Args == nil {
					return fmt.Errorf("contents[%d].parts[%d]: call without name or arguments", i, j)
				}
			} else if len(made) > 0 && !p.Thought {
				return fmt.Errorf("contents[%d].parts[%d] stands after a call", i, j)
			}
			if p.FunctionResponse != nil {
				results = append(results, p)
			}
		}
		if len(made) > 0 && c.Role != "model" || len(results) > 0 && c.Role != "user" {
			return fmt.Errorf("contents[%d]: a call or result has the wrong role", i)
		}
		if signs && len(made) > 0 && made[0].ThoughtSignature == "" {
			return fmt.Errorf("contents[%d]: Function call is missing a thought_signature", i)
		}
		if len(results) > 0 && len(results) != len(c.Parts) {
			return fmt.Errorf("contents[%d] holds more than responses", i)
		}
		if len(results) != len(calls) {
			return fmt.Errorf("contents[%d]: %d responses for %d calls", i, len(results), len(calls))
		}
		for j := range results {
			call, r := calls[j].FunctionCall, results[j].FunctionResponse
			if r.Name == "" || r.Name != call.Name || r.ID != call.ID || r.Response == nil {
				return fmt.Errorf("contents[%d].parts[%d]: response %q %q for the call %q %q", i, j, r.Name, r.ID, call.Name, call.ID)
			}
		}
		calls, role = made, c.Role
	}
	return nil
}

// checkSchema looks for anything that Gemini does not honour.
func checkSchema(v []byte, at string) error {
	if !isObject(v) {
		return fmt.Errorf("%s is no object: %s", at, v)
	}
	props, required := map[string]bool{}, []byte(nil)
	err := rawjson.Walk(v, func(key []byte, f rawjson.Field) error {
		value, path := f.Value(v), at+"."+string(key)
		switch string(key) {
		case "type":
			if rawText(value) == "" || typeOf(rawText(value)) == 0 {
				return fmt.Errorf("%s: %s", path, value)
			}
		case "title", "description", "format", "minItems", "maxItems", "minimum", "maximum":
		case "enum":
			return rawjson.Elements(value, func(_ int, v []byte) error {
				if v[0] != '"' && v[0] != '-' && (v[0] < '0' || v[0] > '9') || string(v) == `""` {
					return fmt.Errorf("%s: %s", path, v)
				}
				return nil
			})
		case "required":
			required = value
		case "properties":
			return rawjson.Walk(value, func(key []byte, f rawjson.Field) error {
				if props[string(key)] {
					return fmt.Errorf("%s.%s twice", path, key)
				}
				props[string(key)] = true
				return checkSchema(f.Value(value), path+"."+string(key))
			})
		case "items":
			return checkSchema(value, path)
		case "additionalProperties":
			if isObject(value) {
				return checkSchema(value, path)
			}
		case "anyOf", "prefixItems":
			n := 0
			err := rawjson.Elements(value, func(_ int, v []byte) error { n++; return checkSchema(v, path) })
			if n == 0 && err == nil {
				err = fmt.Errorf("%s is empty", path)
			}
			return err
		default:
			return fmt.Errorf("%s is not honoured", path)
		}
		return nil
	})
	if err != nil || required == nil {
		return err
	}
	return rawjson.Elements(required, func(_ int, v []byte) error {
		if !props[rawText(v)] {
			return fmt.Errorf("%s.required names %s", at, v)
		}
		return nil
	})
}

// same compares what two requests say, but for places in bodies and what was lost.
func same(a, b *ir.Request) bool {
	return reflect.DeepEqual(bare(a), bare(b))
}

func bare(r *ir.Request) *ir.Request {
	c := *r
	c.Lost, c.Model, c.Stream, c.Names = nil, "", false, nil
	c.System = bareBlocks(r.System)
	c.Turns = nil
	for _, t := range r.Turns {
		t.At, t.Blocks = "", bareBlocks(t.Blocks)
		c.Turns = append(c.Turns, t)
	}
	c.Tools = nil
	for _, t := range r.Tools {
		t.At, t.Schema = "", sorted(t.Schema)
		c.Tools = append(c.Tools, t)
	}
	c.Format.Schema = sorted(r.Format.Schema)
	return &c
}

// sorted is a schema in a form that does not depend on order and blanks; one without properties says nothing.
func sorted(schema []byte) []byte {
	if p := rawjson.Get(schema, "properties"); p == nil || string(p) == "{}" {
		return nil
	}
	var v any
	if json.Unmarshal(schema, &v) != nil {
		return schema
	}
	if m, ok := v.(map[string]any); ok {
		delete(m, "$schema")
	}
	out, _ := json.Marshal(v)
	return out
}

func bareBlocks(in []ir.Block) (out []ir.Block) {
	for _, b := range in {
		b.At, b.Content = "", bareBlocks(b.Content)
		out = append(out, b)
	}
	return out
}

// corpus reads files below testdata/gemini; a folder that is ours must not be empty.
func corpus(t testing.TB, folder, ext string, must bool) map[string][]byte {
	t.Helper()
	return readAll(t, filepath.Join("..", "..", "..", "testdata", "gemini", folder, "*"+ext), must)
}

func readAll(t testing.TB, pattern string, must bool) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 && must {
		t.Fatalf("the corpus %s is empty", pattern)
	}
	all := map[string][]byte{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(filepath.Base(f), filepath.Ext(f))] = b
	}
	return all
}

// bodies are all requests that we have: our own, those that another corpus holds, and what real clients sent.
func bodies(t testing.TB) map[string][]byte {
	t.Helper()
	all := corpus(t, "requests", ".json", true)
	for name, b := range corpus(t, "bodies", ".json", false) {
		all["bodies/"+name] = b
	}
	for _, client := range []string{"gemini-*", "opencode-*google*", "sdk-genai-*"} {
		pattern := filepath.Join("..", "..", "..", "..", "shared", "captures", client+".json")
		for name, b := range readAll(t, pattern, false) {
			if body := rawjson.Get(b, "body"); rawjson.Get(body, "contents") != nil {
				all["captures/"+name] = body
			}
		}
	}
	return all
}

// difference is where two requests part, "" where they are the same.
func difference(a, b *ir.Request) string {
	if same(a, b) {
		return ""
	}
	x, y := lines(a), lines(b)
	for i := 0; i < len(x) && i < len(y); i++ {
		if x[i] != y[i] {
			return fmt.Sprintf("line %d\n%s\n%s", i, strings.Join(x[max(0, i-3):min(len(x), i+3)], "\n"), strings.Join(y[max(0, i-3):min(len(y), i+3)], "\n"))
		}
	}
	return fmt.Sprintf("%d and %d lines", len(x), len(y))
}

func lines(r *ir.Request) []string {
	b := bare(r)
	for i := range b.Tools {
		b.Tools[i].Description += " " + string(b.Tools[i].Schema)
	}
	out, _ := json.MarshalIndent(b, "", " ")
	return strings.Split(string(out), "\n")
}
