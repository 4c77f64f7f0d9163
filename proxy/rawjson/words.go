package rawjson

import (
	"encoding/binary"
	"math/bits"
)

// Eight bytes are looked at together. In each word the lowest byte that is found is exact, the ones above it need not be.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// zeroIn marks the bytes of x that are zero.
func zeroIn(x uint64) uint64 { return (x - ones) &^ x & highs }

// plainRun returns the index of the first byte from i on that is no printable ASCII, a quote or a backslash; 0x7f counts
// as printable.
func plainRun(b []byte, i int) int {
	for ; i+8 <= len(b); i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		found := zeroIn(x^ones*'"') | zeroIn(x^ones*'\\') | (x-ones*0x20)&^x&highs | x&highs
		if found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for ; i < len(b) && b[i] >= 0x20 && b[i] < 0x80 && b[i] != '"' && b[i] != '\\'; i++ {
	}
	return i
}
