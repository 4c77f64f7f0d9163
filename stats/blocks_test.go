package stats

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// indexOf is an index of n blocks of one record each, and the compressed file that it fits.
func indexOf(t testing.TB, n int) (index, packed []byte) {
	t.Helper()
	var out bytes.Buffer
	w := newIndexWriter(&out)
	for i := range int64(n) {
		w.begin(i*10, i*5)
		w.add(record(at("2026-11-29T12:00:00Z").AddDate(0, 0, int(i)), fmt.Sprint(i)))
		w.end()
	}
	if err := w.finish(100, [8]byte([]byte("pppppppp")), int64(n)*10); err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), []byte(strings.Repeat("p", 100))
}

func TestIndexFits(t *testing.T) {
	index, packed := indexOf(t, 3)
	for name, c := range map[string]struct {
		packed []byte
		fits   bool
	}{
		"its own":    {packed, true},
		"longer":     {append([]byte("p"), packed...), false},
		"shorter":    {packed[1:], false},
		"other tail": {append(packed[:99:99], 'q'), false},
		"empty":      {nil, false},
	} {
		_, ok := decodeIndex(bytes.NewReader(index), int64(len(index)), bytes.NewReader(c.packed), int64(len(c.packed)), newQuery(Filter{}))
		if ok != c.fits {
			t.Errorf("%s: %v", name, ok)
		}
	}
}

// Blocks that cannot have what is asked for are left out, no other ones.
func TestIndexChooses(t *testing.T) {
	index, packed := indexOf(t, 9)
	noon := at("2026-11-29T12:00:00Z")
	for _, c := range []struct {
		filter Filter
		want   string // the blocks' offsets
	}{
		{Filter{}, "0 10 20 30 40 50 60 70 80"},
		{Filter{Trace: "7"}, "70"},
		{Filter{Trace: "x"}, ""},
		{Filter{From: noon.AddDate(0, 0, 7)}, "70 80"},
		{Filter{To: noon.AddDate(0, 0, 2)}, "0 10 20"}, // to the millisecond
		{Filter{From: noon.AddDate(0, 0, 3).Add(1e6), To: noon.AddDate(0, 0, 5).Add(-1e6)}, "40"},
		{Filter{Caller: "laptop", Trace: "2"}, "20"},
		{Filter{Failed: true}, ""},
		{Filter{Outcome: OutcomeOK, Key: "k0", Trace: "1"}, "10"},
	} {
		blocks, ok := decodeIndex(bytes.NewReader(index), int64(len(index)), bytes.NewReader(packed), 100, newQuery(c.filter))
		var got []string
		for _, b := range blocks {
			got = append(got, fmt.Sprint(b.start))
		}
		if !ok || strings.Join(got, " ") != c.want {
			t.Errorf("%+v: %q, want %q, %v", c.filter, got, c.want, ok)
		}
	}
}

// Whatever a filter may ask for and a record has, its terms have.
func TestTermsOfFilters(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 3))
	for range 2000 {
		r := randomRecord(rnd, at("2026-11-29T12:00:00Z"))
		terms := map[uint64]bool{}
		r.terms(func(t uint64) { terms[t] = true })
		filters := []Filter{{Trace: r.Trace}, {Caller: r.Caller}, {Model: r.Requested}, {Model: r.Resolved}, {Model: r.UpstreamModel}, {Key: r.Key}, {Tier: r.Tier}, {Outcome: r.Outcome}}
		for _, a := range r.Attempts {
			filters = append(filters, Filter{Key: a.Key}, Filter{Tier: a.Tier})
		}
		for _, f := range filters {
			for _, term := range newQuery(f).terms {
				if !terms[term] {
					t.Fatalf("%+v is not among the terms of %+v", f, r)
				}
			}
		}
	}
}

// The hashes are in files.
func TestTermsStay(t *testing.T) {
	if got := term(termTrace, "0123456789abcdef"); got != 0x13f774cf3ae3b63 {
		t.Errorf("%#x", got)
	}
}
