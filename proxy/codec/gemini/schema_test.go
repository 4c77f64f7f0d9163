package gemini

import (
	"fmt"
	"strings"
	"testing"
)

func TestCleanParameters(t *testing.T) {
	for _, c := range []struct {
		name, in, want string
		lost           bool
	}{
		{"none", `{}`, ``, false},
		{"no properties", `{"type":"object","properties":{},"additionalProperties":false}`, ``, false},
		{"true", `true`, ``, false},
		{"as it is", `{"type":"object","properties":{"a":{"type":"string","description":"x","enum":["p","q"]},"n":{"type":"integer","minimum":1,"maximum":9}},"required":["a"],"additionalProperties":false}`,
			`{"type":"object","properties":{"a":{"description":"x","type":"string","enum":["p","q"]},"n":{"type":"integer","minimum":1,"maximum":9}},"required":["a"],"additionalProperties":false}`, false},
		{"case_35 properties called like keywords", `{"type":"object","properties":{"title":{"type":"string"},"$ref":{"type":"string"},"not":{"type":"string"},"type":{"type":"string"},"a\"\u00e9":{"type":"string"}},"required":["title","not"]}`,
			`{"type":"object","properties":{"title":{"type":"string"},"$ref":{"type":"string"},"not":{"type":"string"},"type":{"type":"string"},"a\"é":{"type":"string"}},"required":["title","not"]}`, false},
		{"CNV-001 references", `{"type":"object","properties":{"a":{"type":"array","items":{"$ref":"#/$defs/T"}}},"$defs":{"T":{"type":"object","properties":{"x":{"type":"string"}}}}}`,
			`{"type":"object","properties":{"a":{"type":"array","items":{"type":"object","properties":{"x":{"type":"string"}}}}}}`, false},
		{"a reference with words of its own", `{"type":"object","properties":{"a":{"$ref":"#/definitions/T","description":"mine"}},"definitions":{"T":{"type":"string","description":"theirs"}}}`,
			`{"type":"object","properties":{"a":{"description":"mine","type":"string"}}}`, false},
		{"a reference to nothing", `{"type":"object","properties":{"a":{"$ref":"#/$defs/T"},"b":{"$ref":"https://x/y"}}}`,
			`{"type":"object","properties":{"a":{},"b":{}}}`, true},
		{"a reference to itself alone", `{"type":"object","properties":{"a":{"$ref":"#/$defs/T"}},"$defs":{"T":{"$ref":"#/$defs/T"}}}`,
			`{"type":"object","properties":{"a":{}}}`, true},
		{"pointers with escapes", `{"type":"object","properties":{"a":{"$ref":"#/x~1y/1"}},"x/y":[{},{"type":"number"}]}`,
			`{"type":"object","properties":{"a":{"type":"number"}}}`, false},
		{"CNV-002 constants and bounds", `{"$schema":"s","$comment":"c","type":"object","properties":{"k":{"const":"x"},"n":{"type":"integer","exclusiveMinimum":0,"exclusiveMaximum":10},"f":{"type":"number","exclusiveMinimum":0.5}},"x-y":1}`,
			`{"type":"object","properties":{"k":{"type":"string","enum":["x"]},"n":{"type":"integer","minimum":1,"maximum":9},"f":{"description":"(greater than 0.5)","type":"number","minimum":0.5}}}`, false},
		{"bounds of both kinds", `{"type":"object","properties":{"a":{"type":"integer","minimum":-9007199254740991,"exclusiveMinimum":0,"maximum":5,"exclusiveMaximum":9},"b":{"type":"number","minimum":0,"exclusiveMinimum":0}}}`,
			`{"type":"object","properties":{"a":{"type":"integer","minimum":1,"maximum":5},"b":{"description":"(greater than 0)","type":"number","minimum":0}}}`, false},
		{"CNV-002 what has no keyword becomes words", `{"type":"object","properties":{"s":{"type":"string","description":"A.","pattern":"^a\"","minLength":1,"maxLength":5,"format":"uri","default":"x"},"l":{"type":"array","items":{"type":"string","format":"date-time"},"uniqueItems":true}}}`,
			`{"type":"object","properties":{"s":{"description":"A. (pattern: ^a\", at least 1 characters, at most 5 characters, default: x, format: uri)","type":"string"},"l":{"description":"(no item twice)","type":"array","items":{"type":"string","format":"date-time"}}}}`, false},
		{"CNV-002 what cannot be said", `{"type":"object","properties":{"m":{"type":"object","patternProperties":{"^a":{"type":"string"}},"additionalProperties":false,"propertyNames":{"pattern":"x"}}}}`,
			`{"type":"object","properties":{"m":{"type":"object"}}}`, true},
		{"CNV-004 booleans", `{"type":"object","properties":{"any":true,"none":false,"list":{"type":"array","items":true}},"required":["any","none"]}`,
			`{"type":"object","properties":{"any":{},"list":{"type":"array","items":{}}},"required":["any"]}`, false},
		{"CNV-005 conditions", `{"type":"object","properties":{"k":{"type":"string"}},"if":{"properties":{"k":{"const":"a"}}},"then":{"properties":{"x":{"type":"string"}},"required":["x"]},"else":{"properties":{"y":{"type":"number"}}}}`,
			`{"type":"object","properties":{"k":{"type":"string"},"x":{"type":"string"},"y":{"type":"number"}}}`, true},
		{"allOf", `{"allOf":[{"properties":{"a":{"type":"string"}},"required":["a"]},{"properties":{"b":{"type":"string"},"a":{"type":"number"}},"required":["b","a"]}]}`,
			`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"required":["a","b"]}`, false},
		{"alternatives at the root", `{"type":"object","oneOf":[{"properties":{"a":{"type":"string"}},"required":["a"]},{"properties":{"b":{"type":"string"}}}]}`,
			`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}}}`, true},
		{"alternatives of required names", `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"anyOf":[{"required":["a"]},{"required":["b"]}]}`,
			`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}}}`, true},
		{"case_34 several types", `{"type":"object","properties":{"a":{"type":["string","null"],"description":"d","enum":["x",null]},"b":{"type":["integer","array"],"minimum":1,"items":{"type":"string"}}}}`,
			`{"type":"object","properties":{"a":{"description":"d","anyOf":[{"type":"string","enum":["x"]},{"type":"null"}]},"b":{"anyOf":[{"type":"integer","minimum":1},{"type":"array","items":{"type":"string"}}]}}}`, false},
		{"any type", `{"type":"object","properties":{"a":{"type":["string","number","boolean","array","object","null"]}}}`,
			`{"type":"object","properties":{"a":{}}}`, false},
		{"nullable", `{"type":"object","properties":{"a":{"nullable":true,"type":"STRING"}}}`,
			`{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]}}}`, false},
		{"anyOf with null", `{"type":"object","properties":{"b":{"anyOf":[{"$ref":"#/$defs/T"},{"type":"null"}],"default":null}},"$defs":{"T":{"type":"string"}}}`,
			`{"type":"object","properties":{"b":{"description":"(default: null)","anyOf":[{"type":"string"},{"type":"null"}]}}}`, false},
		{"one alternative", `{"type":"object","properties":{"b":{"description":"d","oneOf":[{"type":"array","items":{"type":"number"}}]}}}`,
			`{"type":"object","properties":{"b":{"description":"d","type":"array","items":{"type":"number"}}}}`, false},
		{"an alternative that is anything", `{"type":"object","properties":{"b":{"anyOf":[{"type":"string"},{}]}}}`,
			`{"type":"object","properties":{"b":{}}}`, false},
		{"alternatives that take the type from outside", `{"type":"object","properties":{"b":{"type":"string","anyOf":[{"format":"date"},{"enum":["now"]}]}}}`,
			`{"type":"object","properties":{"b":{"anyOf":[{"type":"string","format":"date"},{"type":"string","enum":["now"]}]}}}`, false},
		{"enumerations", `{"type":"object","properties":{"a":{"enum":["","x"]},"b":{"enum":[1,2]},"c":{"enum":[true,false]},"d":{"enum":[1.5]},"e":{"enum":[{"a":1}]},"f":{"type":"string","enum":[1]}}}`,
			`{"type":"object","properties":{"a":{"description":"(one of [\"\",\"x\"])","type":"string","enum":["x"]},"b":{"type":"integer","enum":[1,2]},"c":{"description":"(one of [true,false])","type":"boolean"},"d":{"type":"number","enum":[1.5]},"e":{"description":"(one of [{\"a\":1}])"},"f":{"type":"string"}}}`, false},
		{"tuples", `{"type":"object","properties":{"a":{"prefixItems":[{"type":"string"},true],"items":false},"b":{"type":"array","items":[{"type":"string"}]},"c":{"type":"array"}}}`,
			`{"type":"object","properties":{"a":{"type":"array","prefixItems":[{"type":"string"},{}]},"b":{"type":"array","prefixItems":[{"type":"string"}]},"c":{"type":"array","items":{}}}}`, false},
		{"maps", `{"type":"object","properties":{"a":{"additionalProperties":{"type":"string"}},"b":{"type":"object","additionalProperties":true}}}`,
			`{"type":"object","properties":{"a":{"type":"object","additionalProperties":{"type":"string"}},"b":{"type":"object","additionalProperties":true}}}`, false},
		{"required without property, and twice", `{"type":"object","properties":{"a":{}},"required":["b","a","a",5]}`,
			`{"type":"object","properties":{"a":{}},"required":["a"]}`, false},
		{"nonsense", `{"type":5,"properties":{"a":{"type":"strange","enum":5,"minimum":"x","items":7,"required":"a","anyOf":{},"description":3}}}`,
			`{"type":"object","properties":{"a":{"type":"array","items":{}}}}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, lost := cleanParameters([]byte(c.in))
			if string(out) != c.want || lost != c.lost {
				t.Errorf("\n%s\nwant\n%s\nlost %v", out, c.want, lost)
			}
			if out != nil {
				if err := checkSchema(out, ""); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// CNV-001: a schema that contains itself is cut at depth 8 and named.
func TestCNV001Recursion(t *testing.T) {
	out, lost := cleanParameters([]byte(`{"type":"object","properties":{"a":{"type":"array","items":{"$ref":"#/$defs/T"}},"b":{"anyOf":[{"$ref":"#/$defs/T"},{"type":"null"}]}},"$defs":{"T":{"type":"object","properties":{"t":{"$ref":"#/$defs/T"}}}}}`))
	if err := checkSchema(out, ""); err != nil || !lost {
		t.Errorf("%v %v", err, lost)
	}
	if n := strings.Count(string(out), `"t":`); n < 8 || n > 20 {
		t.Errorf("%d levels: %s", n, out)
	}
}

// Schemas that explode by their references stay small.
func TestSchemaExplosion(t *testing.T) {
	var chain, wide, tree strings.Builder
	for i := range 40 {
		fmt.Fprintf(&chain, `"d%d":{"type":"object","properties":{"a":{"$ref":"#/$defs/d%d"},"b":{"$ref":"#/$defs/d%d"}}},`, i, i+1, i+1)
	}
	for i := range 2000 {
		fmt.Fprintf(&wide, `"p%d":{"$ref":"#/$defs/big"},`, i)
	}
	for i := range 10 {
		fmt.Fprintf(&tree, `"p%d":{"$ref":"#"},`, i)
	}
	for name, schema := range map[string]string{
		"chain": `{"type":"object","properties":{"x":{"$ref":"#/$defs/d0"}},"$defs":{` + chain.String() + `"d40":{"type":"string"}}}`,
		"wide":  `{"type":"object","properties":{` + wide.String() + `"z":{}},"$defs":{"big":{"type":"string","description":"` + strings.Repeat("x", 100_000) + `"}}}`,
		"tree":  `{"type":"object","properties":{` + tree.String() + `"z":{"type":"string"}}}`,
		"deep":  strings.Repeat(`{"type":"array","items":`, 300) + `{}` + strings.Repeat(`}`, 300),
		"all":   `{"$ref":"#/a","a":{"allOf":[{"$ref":"#/b"},{"$ref":"#/b"},{"$ref":"#"}]},"b":{"allOf":[{"$ref":"#/a"},{"$ref":"#/a"}],"properties":{"x":{"type":"string"}}}}`,
	} {
		out, lost := cleanSchema([]byte(schema))
		if err := checkSchema(out, ""); err != nil || !lost || len(out) > 16*len(schema)+1<<20 {
			t.Errorf("%s: %v, lost %v, %d bytes of %d", name, err, lost, len(out), len(schema))
		}
	}
}
