package stats

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// asJSON decodes as encoding/json does. Lists without elements are the same as none.
func asJSON(line []byte) (Record, error) {
	var r Record
	err := json.Unmarshal(line, &r)
	return plainLists(r), err
}

func plainLists(r Record) Record {
	if len(r.Attempts) == 0 {
		r.Attempts = nil
	}
	if len(r.Skipped) == 0 {
		r.Skipped = nil
	}
	if len(r.Dropped) == 0 {
		r.Dropped = nil
	}
	return r
}

func sameAsJSON(t *testing.T, s *scanner, line []byte, r *Record) {
	t.Helper()
	want, wantErr := asJSON(line)
	err := s.scan(line, r)
	if (err == nil) != (wantErr == nil) || err == nil && !reflect.DeepEqual(plainLists(*r), want) {
		t.Fatalf("%s\ngot  %+v, %v\nwant %+v, %v", line, *r, err, want, wantErr)
	}
}

// randomRecord is any record, with names that need escapes now and then.
func randomRecord(rnd *rand.Rand, ts time.Time) *Record {
	names := []string{"a", "claude-opus-4-5", "k1", "first", `quo"te`, `back\slash`, "<b>&", "笔记本", "new\nline", "\u2028", strings.Repeat("long", 40)}
	name := func() string {
		switch n := rnd.IntN(4); n {
		case 0:
			return ""
		case 1:
			return fmt.Sprint("name-", rnd.IntN(3000)) // more than are interned
		}
		return names[rnd.IntN(4+(len(names)-4)*(rnd.IntN(20)/19))] // escapes in few
	}
	r := &Record{TS: ts, Trace: fmt.Sprintf("%016x", rnd.Uint64()), Outcome: Outcomes()[rnd.IntN(len(Outcomes()))]}
	v := reflect.ValueOf(r).Elem()
	for i := range v.NumField() {
		if !v.Field(i).IsZero() {
			continue
		}
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString(name())
		case reflect.Int, reflect.Int64:
			f.SetInt(rnd.Int64N(1 << (1 + rnd.IntN(30))))
		case reflect.Bool:
			f.SetBool(rnd.IntN(2) == 0)
		case reflect.Float64:
			f.SetFloat(float64(rnd.IntN(1000)) / float64(1+rnd.IntN(1_000_000)))
		}
	}
	for range rnd.IntN(4) {
		r.Attempts = append(r.Attempts, Attempt{name(), name(), rnd.IntN(600), name(), name(), rnd.Int64N(9999)})
	}
	for range rnd.IntN(3) {
		r.Skipped = append(r.Skipped, Skip{name(), name(), name()})
	}
	for range rnd.IntN(3) {
		r.Dropped = append(r.Dropped, name())
	}
	return r
}

// The scanner reads what was written, as encoding/json does.
func TestScanEqualsEncodingJSON(t *testing.T) {
	rnd, s, r := rand.New(rand.NewPCG(1, 1)), newScanner(), &Record{}
	zones := []*time.Location{time.UTC, time.Local, time.FixedZone("", 3600), time.FixedZone("", -(3*3600 + 1800))}
	for range 20_000 {
		ts := time.Unix(rnd.Int64N(4e9), rnd.Int64N(1e9)*int64(rnd.IntN(2))).In(zones[rnd.IntN(len(zones))])
		line := randomRecord(rnd, ts).appendLine(nil)
		sameAsJSON(t, s, line[:len(line)-1], r)
	}
}

// Every member of a line without escapes takes the fast way: a new one must be told to the scanner.
func TestScanKnowsEveryMember(t *testing.T) {
	full := Record{TS: at("2026-11-29T23:59:59+01:00"), Attempts: []Attempt{{"t", "k", 1, "o", "r", 1}}, Skipped: []Skip{{"t", "k", "g"}}, Dropped: []string{"d", "é"}}
	v := reflect.ValueOf(&full).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString(v.Type().Field(i).Name)
		case reflect.Int, reflect.Int64:
			f.SetInt(int64(i) - 3)
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Float64:
			f.SetFloat(0.125)
		}
	}
	line := full.appendLine(nil)
	p := parser{scanner: newScanner(), in: line[:len(line)-1]}
	if !p.record(&Record{}) || p.at != len(p.in) {
		t.Errorf("not known: %s", p.in[p.at:])
	}
}

// isPlain looks at eight bytes at once.
func TestIsPlain(t *testing.T) {
	for length := range 20 {
		for at := range length {
			for c := range 256 {
				line := bytes.Repeat([]byte{' '}, length)
				line[at] = byte(c)
				if want := c >= 0x20 && c < 0x80 && c != '\\'; isPlain(line) != want {
					t.Fatalf("%q: %v", line, !want)
				}
			}
		}
	}
}

// oddLines are lines that appendLine does not write, or nearly.
func oddLines() []string {
	return []string{
		`{}`, `{"outcome":"ok"}`, ` {"outcome":"ok"} `, `{"outcome": "ok"}`, `{"outcome":"ok"}x`, `{"outcome":"ok",}`, `{"outcome":"ok"`, `[]`, `null`, ``,
		`{"Outcome":"ok"}`, `{"outcome":null}`, `{"outcome":"a","outcome":"b"}`, `{"outcome":"\u006fk"}`, "{\"outcome\":\"\xff\"}", "{\"outcome\":\"\x01\"}",
		`{"status":1.0}`, `{"status":1e2}`, `{"status":01}`, `{"status":-0}`, `{"status":99999999999}`, `{"input_tokens":999999999999999999}`, `{"input_tokens":9999999999999999999}`,
		`{"cost_usd":1.}`, `{"cost_usd":.5}`, `{"cost_usd":01.5}`, `{"cost_usd":-1.5e+3}`, `{"cost_usd":1e999}`, `{"cost_usd":inf}`, `{"cost_usd":0x1p3}`, `{"cost_usd":1_0}`, `{"cost_usd":-}`,
		`{"stream":true,"stream":false}`, `{"stream":tru}`, `{"stream":truefalse}`, `{"estimated":1}`, `{"unknown":{"a":[1]}}`,
		`{"attempts":[]}`, `{"attempts":[{}]}`, `{"attempts":[{},]}`, `{"attempts":[null]}`, `{"attempts":[{"key":"a","ms":3}],"attempts":[{"ms":5}]}`, `{"attempts":[],"attempts":[{"ms":5}]}`, `{"attempts":{}}`,
		`{"attempts":[{"other":1}]}`, `{"skipped":[{"tier":"a"}],"skipped":[]}`, `{"dropped":["a",null]}`, `{"dropped":["a"],"dropped":["b","c"]}`,
		`{"ts":"2026-11-29T12:00:00Z","ts":"2026-11-29T12:00:01Z"}`, `{"ts":"2026-11-29 12:00:00Z"}`, `{"ts":"2026-11-29T12:00:00,5Z"}`, `{"ts":"2026-11-29T12:00:00"}`, `{"ts":""}`, `{"ts":"2026-02-30T12:00:00Z"}`, `{"ts":"2026-11-29T24:00:00Z"}`,
	}
}

func TestScanOddLines(t *testing.T) {
	s, r := newScanner(), &Record{}
	for _, line := range oddLines() {
		sameAsJSON(t, s, []byte(line), r)
	}
}

// Names that clients choose do not fill the memory, and stay what they were.
func TestInternedWordsStay(t *testing.T) {
	s := newScanner()
	var kept []string
	for i := range 5000 {
		var r Record
		if err := s.scan(fmt.Appendf(nil, `{"caller":"c%d","outcome":"ok"}`, i), &r); err != nil {
			t.Fatal(err)
		}
		kept = append(kept, r.Caller)
	}
	if i := slices.IndexFunc(kept, func(c string) bool { return !strings.HasPrefix(c, "c") }); i >= 0 || kept[77] != "c77" {
		t.Errorf("%d: %q", i, kept[77])
	}
}

func FuzzScan(f *testing.F) {
	for _, line := range oddLines() {
		f.Add([]byte(line))
	}
	rnd := rand.New(rand.NewPCG(2, 2))
	for range 20 {
		f.Add(randomRecord(rnd, at("2026-11-29T12:00:00Z")).appendLine(nil))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		s, r := newScanner(), record(time.Time{}, "before") // nothing of what was there stays
		sameAsJSON(t, s, line, r)
		sameAsJSON(t, s, line, r) // now with interned words
	})
}

func BenchmarkScan(b *testing.B) {
	line := typical(rand.New(rand.NewPCG(1, 1)), at("2026-11-29T12:00:00Z"), 1).appendLine(nil)
	line = line[:len(line)-1]
	b.Run("scanner", func(b *testing.B) {
		s, r := newScanner(), Record{}
		b.ReportAllocs()
		b.SetBytes(int64(len(line)))
		for b.Loop() {
			if s.scan(line, &r) != nil {
				b.Fatal()
			}
		}
	})
	b.Run("encoding-json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var r Record
			if json.Unmarshal(line, &r) != nil {
				b.Fatal()
			}
		}
	})
}
