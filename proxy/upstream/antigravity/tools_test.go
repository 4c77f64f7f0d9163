package antigravity

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestClaudeTools(t *testing.T) {
	for _, tc := range []struct {
		name, in, want string
		strict         bool
	}{
		{"a schema moves", `{"name":"a","parametersJsonSchema":{"type":"object","properties":{"p":{"type":"string"}},"required":["p"]}, "description":"d"}`,
			`{"name":"a","parameters":{"type":"OBJECT","properties":{"p":{"type":"STRING"}},"required":["p"]},"description":"d"}`, true},
		{"what cannot be said goes", `{"parametersJsonSchema":{"$schema":"x","type":"object","additionalProperties":false,"properties":{"additionalProperties":{"type":"string","format":"uri","minLength":1},
			"list":{"type":"array","prefixItems":[{}],"items":{"type":"integer","minimum":1,"enum":[1]},"maxItems":3}},"required":["list"],"$defs":{}}}`,
			`{"parameters":{"type":"OBJECT","properties":{"additionalProperties":{"type":"STRING"},"list":{"type":"ARRAY","items":{"type":"INTEGER","minimum":1},"maxItems":3}},"required":["list"]}}`, true},
		{"anything", `{"parametersJsonSchema":{"type":"object","properties":{"a":{"description":"d"},"b":true,"c":{"type":["string","number"]},"d":{"type":"array"},"e":{"enum":["x"]},"f":{"items":{"type":"null"}}}}}`,
			`{"parameters":{"type":"OBJECT","properties":{"a":{"description":"d","anyOf":ANY},"b":{"anyOf":ANY},"c":{"anyOf":ANY},"d":{"type":"ARRAY","items":{"anyOf":ANY}},"e":{"type":"STRING","enum":["x"]},"f":{"type":"ARRAY","items":{"anyOf":ANY}}}}}`, false},
		{"null", `{"parametersJsonSchema":{"properties":{"a":{"type":["string","null"]},"b":{"anyOf":[{"type":"string","enum":["x"]},{"type":"null"}],"oneOf":[]}}}}`,
			`{"parameters":{"type":"OBJECT","properties":{"a":{"type":"STRING","nullable":true},"b":{"anyOf":[{"type":"STRING","enum":["x"]}],"nullable":true}}}}`, false},
		{"no schema", `{"name":"a"}`, `{"name":"a","parameters":{"type":"OBJECT","properties":{}}}`, false},
		{"Gemini's own stays", `{"name":"a","parameters": {"type":"OBJECT", "required":[ "x" ],"format":"f"}}`, `{"name":"a","parameters":{"type":"OBJECT", "required":[ "x" ],"format":"f"}}`, true},
		{"nothing is required", `{"parameters":{"required":[]}}`, `{"parameters":{"required":[]}}`, false},
	} {
		got, strict := claudeTools([]byte(`[{"googleSearch":{}},{"functionDeclarations":[` + tc.in + `]}]`))
		want := strings.ReplaceAll(tc.want, "ANY", `[{"type":"STRING"},{"type":"NUMBER"},{"type":"BOOLEAN"},{"type":"OBJECT"},{"type":"ARRAY","items":{"type":"STRING"}}]`)
		if want = `[{"googleSearch":{}},{"functionDeclarations":[` + want + `]}]`; string(got) != want || strict != tc.strict {
			t.Errorf("%s: %v\n%s, want\n%s", tc.name, strict, got, want)
		}
	}
	if _, strict := claudeTools([]byte(`[{"functionDeclarations":[{"parameters":{"required":["a"]}},{"name":"b"}]}]`)); strict {
		t.Error("VALIDATED is asked for with a function that requires nothing")
	}
	for _, odd := range []string{`null`, `{}`, `["x"]`, `[{"functionDeclarations":{}}]`, `[{"functionDeclarations":["a"]}]`} {
		if got, strict := claudeTools([]byte(odd)); string(got) != odd || strict {
			t.Errorf("%s becomes %s", odd, got)
		}
	}
	deep := strings.Repeat(`{"items":`, 200) + `{}` + strings.Repeat(`}`, 200)
	if got, _ := claudeTools([]byte(`[{"functionDeclarations":[{"parametersJsonSchema":` + deep + `}]}]`)); !json.Valid(got) || len(got) > 4000 {
		t.Errorf("a deep schema becomes %d bytes", len(got))
	}
}
