package demo

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestTree(t *testing.T) {
	n, err := parseTree([]byte(` {"a_b": [1, -2.5e3, true, null, "x\"\u00e4\ud83d\ude00", {}, []], "c" : {"z":1,"a":2}, "d":1, "d":2} `))
	if err != nil {
		t.Fatal(err)
	}
	if got := n.canonical(); got != `{"a_b":[1,-2.5e3,true,null,"x\"ä😀",{},[],],"c":{"a":2,"z":1,},"d":1,"d":2,}` {
		t.Error(got)
	}
	if n.get("aB") == nil || n.get("d").text != "2" || n.path("c", "z").text != "1" || n.path("x", "y", "z") != nil {
		t.Error("members are not found")
	}
	for _, bad := range []string{"", " ", "{", `{"a"}`, `[1,]`, `"a`, "nul", "1 2", strings.Repeat("[", 20000)} {
		if _, err := parseTree([]byte(bad)); err == nil {
			t.Errorf("%.20q is taken", bad)
		}
	}
}

func TestCamel(t *testing.T) {
	for name, want := range map[string]string{"a": "a", "max_output_tokens": "maxOutputTokens", "_a": "_a", "a_": "a_", "a_1": "a_1", "top_p": "topP"} {
		if got := camel(name); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestGrammarMistakesPanic(t *testing.T) {
	for _, definitions := range []string{"a = b", "a {}", "a = [string", "a = {b string]"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s is taken", definitions)
				}
			}()
			newGrammar(definitions, false)
		}()
	}
}

// FuzzTree compares the tree with encoding/json: both read the same values.
func FuzzTree(f *testing.F) {
	f.Add(`{"a":[1,"\u00e4",{"b":null}],"a":2}`)
	f.Add(`[[],{},"\ud800",1e400]`)
	f.Fuzz(func(t *testing.T, body string) {
		n, err := parseTree([]byte(body))
		if (err == nil) != json.Valid([]byte(body)) {
			t.Fatalf("%v", err)
		}
		var decoded string
		if err == nil && n.kind == text && (json.Unmarshal([]byte(body), &decoded) != nil || decoded != n.text) {
			t.Fatalf("%q, want %q", n.text, decoded)
		}
	})
}
