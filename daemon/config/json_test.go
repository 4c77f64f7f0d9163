package config

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestParse compares with encoding/json what both must understand alike.
func TestParse(t *testing.T) {
	for _, text := range []string{
		`""`, `"a b"`, `"\"\\\/\b\f\n\r\t"`, `"\u0041\u00e9\u00EF\uABCD\uabcd\u0000"`, `"\ud83d\ude00 😀 ä € \uFFFD �"`, `"\u2028"`,
		`0`, `-0`, `-12`, `1.5`, `0.25e2`, `1E+2`, `1e-2`, `true`, `false`, `null`, `[]`, `[ 1 , [ ] , { } ]`, `{"a":{"b":[1,"c"]},"d":null}`,
	} {
		root, wrong := parse([]byte("{ \"x\" :\r\n\t" + text + " }"))
		if wrong != nil {
			t.Errorf("%s: %v", text, wrong)
			continue
		}
		var want any
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.UseNumber()
		if err := decoder.Decode(&want); err != nil {
			t.Fatal(err)
		}
		got := root.members[0].value
		equal(t, text, compact(t, got), marshal(t, want))
		equal(t, "place of "+text, got.at, position{2, 2})
	}
}

// compact writes a node as encoding/json would.
func compact(t *testing.T, n *node) string {
	var parts []string
	switch n.kind {
	case kindString:
		return marshal(t, n.text)
	case kindList:
		for _, item := range n.items {
			parts = append(parts, compact(t, item))
		}
		return "[" + strings.Join(parts, ",") + "]"
	case kindObject:
		for _, m := range n.members {
			parts = append(parts, marshal(t, m.name)+":"+compact(t, m.value))
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	return n.text
}

func marshal(t *testing.T, v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
