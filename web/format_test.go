package web

import (
	"strings"
	"testing"
)

// People read costs: no exponents, however small.
func TestDollars(t *testing.T) {
	for usd, want := range map[float64]string{0: "0.00", 1.5: "1.50", 0.01: "0.01", 0.0042: "0.0042", 0.00996: "0.01", 0.001: "0.001", 0.00004: "0.00004", 2.8e-9: "0.0000000028", 1e-10: "0.0000000001"} {
		if got, err := dollars("x", usd); err != nil || !strings.HasSuffix(string(got), ">"+want+"</data>") {
			t.Errorf("%v: %s, %v, want %s", usd, got, err, want)
		}
	}
}
