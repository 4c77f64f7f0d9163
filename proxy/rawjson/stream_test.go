package rawjson

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestMembersAtEveryCut(t *testing.T) {
	in := ` {"a":{"usage":{"no":1}}, "content":[{"text":"say \"usage\": {} \\"}],"usage" : {"input_tokens":3, "d":{"e":[1,2,"x y\"}"]}},"stop_reason":"end\nturn","n":12,"usage2":1,"z":null}`
	want := map[string]string{
		"usage":       `{"input_tokens":3,"d":{"e":[1,2,"x y\"}"]}}`,
		"stop_reason": `"end\nturn"`,
		"n":           "12",
		"z":           "null",
		"absent":      "",
	}
	for cut := 0; cut <= len(in); cut++ {
		m := Members{Want: []string{"usage", "stop_reason", "n", "z", "absent"}, Limit: 1000}
		m.Write([]byte(in[:cut]))
		if m.Complete() && cut < len(in) {
			t.Fatalf("complete after %d bytes", cut)
		}
		m.Write([]byte(in[cut:]))
		for name, w := range want {
			if got := string(m.Value(name)); got != w {
				t.Fatalf("cut at %d: %s = %s, want %s", cut, name, got, w)
			}
		}
		if !m.Complete() {
			t.Fatalf("cut at %d: not complete", cut)
		}
	}
}

func TestMembersBounded(t *testing.T) {
	m := Members{Want: []string{"usage", "text"}, Limit: 100}
	m.Write([]byte(`{"` + strings.Repeat("k", 1000) + `":1,"text":"`))
	for range 1000 {
		m.Write(bytes.Repeat([]byte("x"), 1000))
	}
	m.Write([]byte(`","usage":{"a":1}}`))
	if m.Value("text") != nil || string(m.Value("usage")) != `{"a":1}` {
		t.Errorf("text %s, usage %s", m.Value("text"), m.Value("usage"))
	}
	if cap(m.kept) > 1000 {
		t.Errorf("keeps %d bytes", cap(m.kept))
	}
}

// FuzzMembers: for what encoding/json takes as an object without repeated names, Members finds the same values.
func FuzzMembers(f *testing.F) {
	for _, s := range seeds(f) {
		if len(s) < 4000 {
			f.Add(s, 7)
		}
	}
	f.Add([]byte(`{"usage":{"a":[1,"]"]},"model":"x"}`), 3)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		m := Members{Want: []string{"usage", "model"}, Limit: 1 << 20}
		if cut < 0 || cut > len(b) {
			cut = 0
		}
		m.Write(b[:cut])
		m.Write(b[cut:])
		var want map[string]json.RawMessage
		if json.Unmarshal(b, &want) != nil || want == nil {
			return
		}
		n := map[string]int{}
		escaped := false
		_ = Walk(b, func(k []byte, fld Field) error {
			n[string(k)]++
			escaped = escaped || bytes.IndexByte(b[fld.KeyStart:fld.ValueStart], '\\') >= 0
			return nil
		})
		for _, name := range m.Want {
			if n[name] > 1 || escaped {
				continue
			}
			var compact bytes.Buffer
			if raw, ok := want[name]; ok {
				_ = json.Compact(&compact, raw)
			}
			if got := m.Value(name); !bytes.Equal(got, compact.Bytes()) {
				t.Fatalf("%s = %s, want %s", name, got, compact.Bytes())
			}
		}
	})
}
