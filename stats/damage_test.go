package stats

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
)

// An index that is missing, cut, damaged or another file's is not used, and changes nothing.
func TestIndexIsNeverTheTruth(t *testing.T) {
	l := fullDays(t, 4, 2, 100)
	l.pack("2026-03-01")
	l.pack("2026-03-02")
	path := l.path("2026-03-01", indexSuffix)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	others, err := os.ReadFile(l.path("2026-03-02", indexSuffix))
	if err != nil {
		t.Fatal(err)
	}
	used := func() bool {
		d, err := openDay(l.dir, "2026-03-01", newQuery(Filter{}))
		if err != nil {
			t.Fatal(err)
		}
		d.close()
		return d.indexed
	}
	if l.check("good"); !used() {
		t.Fatal("not used")
	}
	for name, data := range map[string][]byte{
		"empty": {}, "cut": good[:len(good)/2], "without its end": good[:len(good)-1], "longer": append(slices.Clone(good), 0),
		"another day's": others, "no index": []byte(strings.Repeat("x", 4000)),
	} {
		os.WriteFile(path, data, 0o600)
		if used() {
			t.Errorf("%s: used", name)
		}
		l.check(name)
	}
	for n := 0; n < len(good); n += 1 + len(good)/100 {
		bad := slices.Clone(good)
		bad[n] ^= 0x10
		os.WriteFile(path, bad, 0o600)
		if used() {
			t.Errorf("damaged at %d: used", n)
		}
	}
	os.Remove(path)
	l.check("missing")
}

// What can be read of a damaged gzip file is read, with or without the index; nothing is invented, and it is no error.
func TestDamagedGzip(t *testing.T) {
	l := fullDays(t, 5, 1, 300)
	l.pack("2026-03-01")
	path, index := l.path("2026-03-01", packedSuffix), l.path("2026-03-01", indexSuffix)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	ofDay := l.entries[:len(l.entries)-1]
	known := map[string]bool{}
	for _, e := range ofDay {
		known[e.Trace] = true
	}
	for round := range 40 {
		bad := slices.Clone(good)
		switch at := l.rnd.IntN(len(bad)); round % 4 {
		case 0:
			bad[at] ^= 1 << l.rnd.IntN(8)
		case 1:
			clear(bad[at:min(len(bad), at+4096)])
		case 2:
			bad = bad[:at]
		case 3:
			bad = append(bad[:at:at], bad[min(len(bad), at+100):]...)
		}
		os.WriteFile(path, bad, 0o600)
		if round == 20 {
			os.Remove(index)
		}
		var log bytes.Buffer
		r := &Reader{dir: l.dir, log: slog.New(slog.NewTextHandler(&log, nil))}
		n := 0
		if err := r.Each(t.Context(), Filter{To: at("2026-03-02T00:00:00Z")}, func(_ string, rec *Record) error {
			if n++; !known[rec.Trace] {
				t.Errorf("round %d: %s is invented", round, rec.Trace)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if least := len(ofDay) * 6 / 10; n < least && round%4 != 2 {
			t.Errorf("round %d: %d lines of %d", round, n, len(ofDay))
		}
		if n < len(ofDay) && !strings.Contains(log.String(), "cannot be read") && round%4 != 2 {
			t.Errorf("round %d: nothing is logged of %d lines", round, len(ofDay)-n)
		}
		lines, _, err := r.Requests(t.Context(), Filter{To: at("2026-03-02T00:00:00Z")}, 1000, "")
		if err != nil || len(lines) != n {
			t.Errorf("round %d: %d lines newest first, %d oldest first, %v", round, len(lines), n, err)
		}
	}
}

// After a damaged member the next is read whole, at its own offset, or where that is no longer possible right behind.
func TestAfterDamage(t *testing.T) {
	member := func(offset int64, text string, damaged bool) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		z.Extra = memberExtra(offset)
		z.Write([]byte(text))
		z.Close()
		if damaged {
			b.Bytes()[b.Len()-8] ^= 1 // of the check sum
		}
		return b.Bytes()
	}
	const second = "line 0001\n"
	for name, c := range map[string]struct {
		first string
		want  string
	}{
		"only the sum":           {"line 0000\n", "line 0000\n" + second},
		"shorter":                {"line", "line\n    \n" + second},
		"shorter by one":         {"line 0000", "line 0000\n" + second},
		"shorter by a line":      {"line\n", "line\n    \n" + second},
		"longer":                 {"line 0000\nmore\n", "line 0000\nmore\n" + second},
		"longer within the line": {"line 00000000", "line 00000000\n" + second},
	} {
		packed := append(member(0, c.first, true), member(10, second, false)...)
		packed = append(packed, member(20, second, false)...)
		m := newMembers()
		m.reset(bytes.NewReader(packed), int64(len(packed)), 0, 0)
		got, err := io.ReadAll(m)
		if want := c.want + second; err != nil || string(got) != want || m.corrupt != 1 {
			t.Errorf("%s: %q, want %q, %d corrupt, %v", name, got, want, m.corrupt, err)
		}
	}
}

// Another program's gzip file is read too.
func TestGzipOfOthers(t *testing.T) {
	l := fullDays(t, 6, 1, 60)
	plain, err := os.ReadFile(l.path("2026-03-01", journalSuffix))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for part := range slices.Chunk(plain, 100_001) { // as bgzip and cat make them: not at line ends
		z := gzip.NewWriter(&out)
		z.Write(part)
		z.Close()
	}
	os.WriteFile(l.path("2026-03-01", packedSuffix), out.Bytes(), 0o600)
	os.Remove(l.path("2026-03-01", journalSuffix))
	l.check("others")
}

func FuzzIndex(f *testing.F) {
	index, packed := indexOf(f, 3)
	f.Add(index)
	f.Add([]byte(indexMagic))
	f.Fuzz(func(t *testing.T, data []byte) {
		blocks, ok := decodeIndex(bytes.NewReader(data), int64(len(data)), bytes.NewReader(packed), 100, newQuery(Filter{}))
		if bytes.Equal(data, index) && (!ok || len(blocks) != 3) {
			t.Fatalf("%d blocks, %v", len(blocks), ok)
		}
		for i, b := range blocks {
			if ok && (b.end <= b.start || b.packed < 0 || b.packed >= 100 || i > 0 && b.start != blocks[i-1].end) {
				t.Fatalf("%+v", blocks)
			}
		}
		body := bytes.NewReader(data) // without the check sum, which the fuzzer cannot guess
		decodeBlocks(body, int64(len(data)), block{start: 1 << 40, packed: 1 << 40}, int64(len(data)/indexEntry), newQuery(Filter{Trace: "x"}))
	})
}

func FuzzMembers(f *testing.F) {
	var packed bytes.Buffer
	for n := range int64(3) {
		z := gzip.NewWriter(&packed)
		z.Extra = memberExtra(n * 10)
		fmt.Fprintf(z, "line %04d\n", n)
		z.Close()
	}
	f.Add(packed.Bytes(), uint8(0))
	f.Add(packed.Bytes()[3:], uint8(9))
	f.Fuzz(func(t *testing.T, data []byte, start uint8) {
		m := newMembers()
		m.reset(bytes.NewReader(data), int64(len(data)), int64(start), 0)
		n, err := io.Copy(io.Discard, io.LimitReader(m, 1<<20))
		if err != nil || n < 1<<20 && n != m.text {
			t.Fatalf("%d bytes, at %d, %v", n, m.text, err)
		}
	})
}
