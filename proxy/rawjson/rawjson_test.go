package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWalk(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{`{}`, ""},
		{` { } `, ""},
		{`{"a":1}`, "a=1;"},
		{"{\n\t\"a\" :\r 1.5e3 , \"b\":\"x\\\"y\" }", `a=1.5e3;b="x\"y";`},
		{`{"mod\u0065l":"m","b":{"c":[1,{"model":"no"}]}}`, `model="m";b={"c":[1,{"model":"no"}]};`},
		{`{"a":"\\","b":null,"c":true,"d":false,"e":[]}`, `a="\\";b=null;c=true;d=false;e=[];`},
		{`{"a":1,"a":2}`, "a=1;a=2;"},
		{`{"a":"]}\\\\","b":"[{"}`, `a="]}\\\\";b="[{";`},
	} {
		var got strings.Builder
		err := Walk([]byte(tc.in), func(k []byte, f Field) error {
			got.Write(k)
			got.WriteByte('=')
			got.Write(f.Value([]byte(tc.in)))
			got.WriteByte(';')
			return nil
		})
		if err != nil || got.String() != tc.want {
			t.Errorf("Walk(%s) = %q, %v; want %q", tc.in, got.String(), err, tc.want)
		}
	}
}

func TestWalkRefuses(t *testing.T) {
	for _, in := range []string{
		``, ` `, `[]`, `"a"`, `{`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{,}`, `{"a" 1}`, `{"a":1}}`, `{"a":1} x`,
		`{a:1}`, `{"a":tru}`, `{"a":nul}`, `{"a":1.}`, `{"a":01}`, `{"a":-}`, `{"a":[}`, `{"a":{]}`, `{"a":"x}`, `{"a":"x\"}`, `{"a":]}`,
		`{"\x":1}`, `{"a":1 "b":2}`,
	} {
		if err := Walk([]byte(in), func([]byte, Field) error { return nil }); !errors.Is(err, ErrSyntax) {
			t.Errorf("Walk(%s) = %v, want ErrSyntax", in, err)
		}
	}
	deep := `{"a":` + strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1) + `}`
	if err := Walk([]byte(deep), func([]byte, Field) error { return nil }); !errors.Is(err, ErrSyntax) {
		t.Errorf("too deep: %v", err)
	}
}

func TestGetAndScalars(t *testing.T) {
	b := []byte(`{"a":{"b":"x"},"n":12,"s":"\u00e9\n"}`)
	if got := string(Get(Get(b, "a"), "b")); got != `"x"` {
		t.Errorf("Get = %s", got)
	}
	if Get(b, "zz") != nil || Get([]byte("[]"), "a") != nil {
		t.Error("absent field found")
	}
	if s, ok := String(Get(b, "s")); !ok || s != "é\n" {
		t.Errorf("String = %q %v", s, ok)
	}
	if _, ok := String([]byte("12")); ok {
		t.Error("number taken as string")
	}
	for in, want := range map[string]int64{"12": 12, "-3": -3, "0": 0, "-0": 0, "9007199254740993": 9007199254740993} {
		if n, ok := Int([]byte(in)); !ok || n != want {
			t.Errorf("Int(%s) = %d %v", in, n, ok)
		}
	}
	for _, in := range []string{"", "-", "1.5", "1e3", "null", `"1"`, "99999999999999999999", "9999999999999999999"} {
		if n, ok := Int([]byte(in)); ok {
			t.Errorf("Int(%s) = %d", in, n)
		}
	}
}

func TestAppendString(t *testing.T) {
	for _, s := range []string{"", "plain", "a\"b\\c", "<a&b>", "é\u2028\n\x00", "\xff"} {
		got := AppendString(nil, s)
		var back string
		if err := json.Unmarshal(got, &back); err != nil || back != strings.ToValidUTF8(s, "\uFFFD") {
			t.Errorf("AppendString(%q) = %s (%v)", s, got, err)
		}
		if bytes.Contains(got, []byte(`\u003c`)) {
			t.Errorf("AppendString(%q) = %s escapes HTML", s, got)
		}
	}
}

func TestRemove(t *testing.T) {
	drop := map[string]bool{"x": true, "y": true}
	for in, want := range map[string]string{
		`{"a":1}`:                              `{"a":1}`,
		`{"x":1}`:                              `{}`,
		`{"x":1,"y":2}`:                        `{}`,
		`{"x":1,"a":2}`:                        `{"a":2}`,
		`{"x":1, "y":[2] , "a":2}`:             `{"a":2}`,
		`{"a":1,"x":{"a":3}}`:                  `{"a":1}`,
		`{ "a":1 , "x":2 , "b":3,"y":4,"c":5}`: `{ "a":1 , "b":3,"c":5}`,
		`{"a":1,"x":2,"x":3}`:                  `{"a":1}`,
	} {
		edits, err := Remove([]byte(in), drop)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(bytes.Join(Splice([]byte(in), edits...), nil)); got != want {
			t.Errorf("Remove(%s) = %s, want %s", in, got, want)
		}
	}
}

// seeds are the bodies of captured requests.
func seeds(tb testing.TB) [][]byte {
	files, _ := filepath.Glob("../../testdata/anthropic/bodies/*.json")
	if len(files) == 0 {
		tb.Fatal("no seeds in testdata/anthropic/bodies")
	}
	var out [][]byte
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			tb.Fatal(err)
		}
		out = append(out, b)
	}
	return out
}

// FuzzWalk: what encoding/json takes as an object Walk takes too, with the same members; splicing a member's
// value and dropping members give what the decoded object would.
func FuzzWalk(f *testing.F) {
	for _, s := range seeds(f) {
		f.Add(s)
	}
	f.Add([]byte(`{"a":1,"a":"\"}","b":[{}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		last := map[string]string{}
		err := Walk(b, func(k []byte, fld Field) error {
			last[string(k)] = string(fld.Value(b))
			return nil
		})
		var want map[string]json.RawMessage
		if json.Unmarshal(b, &want) != nil || want == nil {
			return // Walk is more tolerant inside nested values, that is fine
		}
		if err != nil {
			t.Fatalf("Walk refuses valid JSON: %v", err)
		}
		for k, v := range last {
			if w, ok := want[strings.ToValidUTF8(k, "\uFFFD")]; ok && json.Valid([]byte(v)) && len(last) == len(want) && string(w) != v {
				t.Fatalf("%q: %s, want %s", k, v, w)
			}
		}
		edits, err := Remove(b, map[string]bool{"metadata": true, "a": true})
		if err != nil {
			t.Fatal(err)
		}
		out := bytes.Join(Splice(b, edits...), nil)
		var rest map[string]json.RawMessage
		if err := json.Unmarshal(out, &rest); err != nil {
			t.Fatalf("Remove leaves %q: %v", out, err)
		}
		if _, left := rest["a"]; left {
			t.Fatalf("a is left in %q", out)
		}
	})
}

func BenchmarkWalk400k(b *testing.B) {
	body := []byte(`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("some words of a prompt\\n", 17000) + `"}],"stream":true}`)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if err := Walk(body, func([]byte, Field) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}
