package rawjson

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// texts are strings as JSON has them, good and bad.
var texts = []string{
	`""`, `"plain"`, `"né漢🙂"`, `"a\"b\\c\/d\b\f\n\r\t"`, `"\u00e9\u6f22"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ude00x"`, `"\ud83d\ud83d\ude00"`,
	`"\ud83dx"`, `"\ud83d\n"`, `"x\ud83d"`, "\"bad \xff utf8\"", "\"\xe2\x82\"", `"\u00E9\uABcd"`, `"<a&b>"`, "\"\u2028\"", `"\u2028"`,
	`"\x"`, `"\u12"`, `"\u12g4"`, "\"a\nb\"", `"a"b"`, `"`, ``, `x`, `"\"`, `"\ud83d\u"`,
}

func TestStringIsWhatEncodingJSONReads(t *testing.T) {
	for _, text := range texts {
		compareString(t, []byte(text))
	}
}

func compareString(t *testing.T, raw []byte) {
	t.Helper()
	var want string
	err := json.Unmarshal(raw, &want)
	if got, ok := String(raw); ok != (err == nil) || ok && got != want {
		t.Errorf("%q: %q %v, want %q %v", raw, got, ok, want, err)
	}
}

func TestAppendStringReadsBack(t *testing.T) {
	for _, text := range texts {
		for _, s := range []string{text, strings.ToValidUTF8(text, "\ufffd") + "\x00\x1f\x7f"} {
			compareAppend(t, s)
		}
	}
}

func compareAppend(t *testing.T, s string) {
	t.Helper()
	out := AppendString(nil, s)
	var back string
	if err := json.Unmarshal(out, &back); err != nil || back != strings.ToValidUTF8(s, "\ufffd") && back != string([]rune(s)) {
		t.Errorf("%q: %s reads as %q (%v)", s, out, back, err)
	}
	if !bytes.Equal(out, AppendString(nil, []byte(s))) {
		t.Errorf("%q: bytes and string differ", s)
	}
	if bytes.Contains(out, []byte(`\u003c`)) {
		t.Errorf("%q: HTML is escaped: %s", s, out)
	}
}

// A text that is cut into pieces anywhere reads as the whole, also between the halves of a surrogate pair.
func TestPieces(t *testing.T) {
	units := []string{"a", `\ud83d`, `\ude00`, "é", `\n`, `\ud83d`, `\ude01`, `\ud83d`, "z", `\ude02`, `\ud83d`}
	var whole string
	if err := json.Unmarshal([]byte(`"`+strings.Join(units, "")+`"`), &whole); err != nil {
		t.Fatal(err)
	}
	for cut := 0; cut <= len(units); cut++ {
		for second := cut; second <= len(units); second++ {
			var p Pieces
			got := ""
			for _, part := range [][]string{units[:cut], units[cut:second], units[second:]} {
				s, ok := p.Next([]byte(`"` + strings.Join(part, "") + `"`))
				if !ok {
					t.Fatalf("cut at %d and %d: refused", cut, second)
				}
				if !utf8.ValidString(s) {
					t.Errorf("cut at %d and %d: %q is no UTF-8", cut, second, s)
				}
				got += s
			}
			if got += p.End(); got != whole || p.End() != "" {
				t.Errorf("cut at %d and %d: %q, want %q", cut, second, got, whole)
			}
		}
	}
	var p Pieces
	if _, ok := p.Next([]byte("12")); ok {
		t.Error("a number is taken for a string")
	}
}

func TestValid(t *testing.T) {
	for _, text := range []string{
		`{}`, `[]`, `{"a":[1,2.5,-1e9,"x\n\u00e9",true,false,null,{"b":{}}]}`, ` [ 1 , 2 ] `, `"x"`, `1`,
		`{"a":[1,}`, `[1,]`, `{"a":1,}`, `{"a" 1}`, `{a:1}`, `[1 2]`, `{"a":"\x"}`, `{"a":"\u12"}`, "{\"a\":\"\n\"}", `{"a":01}`, `{"a":tru}`, `[}`, `{]`, ``, `{} x`, `"x`,
	} {
		if got, want := Valid([]byte(text)) == nil, json.Valid([]byte(text)); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
	deep := func(n int) []byte { return []byte(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	if Valid(deep(maxValidDepth)) != nil || Valid(deep(maxValidDepth+1)) == nil {
		t.Error("the bound of nesting is not where it should be")
	}
}

func TestElements(t *testing.T) {
	var got []string
	each := func(_ int, v []byte) error { got = append(got, string(v)); return nil }
	if err := Elements([]byte(` [ 1 , "a,]" , {"b":[2]} ] `), each); err != nil || strings.Join(got, "|") != `1|"a,]"|{"b":[2]}` {
		t.Errorf("%q %v", got, err)
	}
	for _, bad := range []string{``, `{}`, `[1`, `[1 2]`, `[1,]`, `[1] x`} {
		if Elements([]byte(bad), each) == nil {
			t.Errorf("%s passes", bad)
		}
	}
	if Elements([]byte(` [ ] `), func(int, []byte) error { t.Error("an empty array has an element"); return nil }) != nil {
		t.Error("an empty array is refused")
	}
}

// An array that arrives byte by byte gives the same pieces as the whole.
func TestNextElement(t *testing.T) {
	const whole = "[{\"a\":\"]},{\"},\r\n{\"b\":[1,{}]}\n,\n{}]\n"
	var elements []string
	held := ""
	for i := range len(whole) {
		held += whole[i : i+1]
		for {
			n, element := NextElement([]byte(held))
			if n == 0 {
				break
			}
			elements = append(elements, string(element))
			held = held[n:]
		}
	}
	if got := strings.Join(elements, "|"); got != `{"a":"]},{"}|{"b":[1,{}]}|{}|` || strings.TrimSpace(held) != "" {
		t.Errorf("%q, left %q", got, held)
	}
	if n, _ := NextElement([]byte(`<html>`)); n != 0 {
		t.Error("a page has an element")
	}
}

func TestWriter(t *testing.T) {
	var w Writer
	w.Open('{')
	w.Field("a", "x\n")
	w.Optional("none", "")
	w.Key("b")
	w.Open('[')
	w.Int(1)
	w.Bool(true)
	w.Null()
	w.Open('{')
	w.Close('}')
	w.Raw([]byte(`[2]`))
	w.Close(']')
	w.Number("n", -3)
	w.Member("m", []byte(`{}`))
	w.Member("left out", nil)
	w.Close('}')
	if got := string(w.Buf); got != `{"a":"x\n","b":[1,true,null,{},[2]],"n":-3,"m":{}}` {
		t.Error(got)
	}
}

func FuzzString(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) > 1 && raw[0] == '"' && raw[len(raw)-1] == '"' && json.Valid(raw) {
			compareString(t, raw)
		}
		compareAppend(t, string(raw))
	})
}

func FuzzValid(f *testing.F) {
	for _, b := range seeds(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := Valid(b); (err == nil) != json.Valid(b) && (err == nil || !strings.Contains(err.Error(), "deep")) {
			t.Errorf("%q: %v", b, err)
		}
	})
}

func TestAppendObject(t *testing.T) {
	for in, want := range map[string]string{
		"": "{}", " \n": "{}", ` {"a": 1} `: `{"a": 1}`, "[1]": `{"value":[1]}`, `"x"`: `{"value":"x"}`, `{"a`: `{"_raw":"{\"a"}`,
	} {
		if got := string(AppendObject([]byte("x"), in)); got != "x"+want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

func TestBool(t *testing.T) {
	for in, want := range map[string][2]bool{"true": {true, true}, "false": {false, true}, "null": {}, "": {}, "1": {}} {
		if v, ok := Bool([]byte(in)); v != want[0] || ok != want[1] {
			t.Errorf("%q: %t, %t", in, v, ok)
		}
	}
}
