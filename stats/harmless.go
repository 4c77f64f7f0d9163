package stats

import (
	"fmt"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Harmless escapes in a text of JSON what encoding/json leaves as it is and a terminal may obey: further control characters,
// marks of direction. It is in strings alone, so that the meaning stays.
func Harmless(text []byte) []byte { return appendHarmless(nil, text) }

func appendHarmless(b, text []byte) []byte {
	for _, r := range string(text) {
		switch {
		case r < 0x7f || unicode.IsPrint(r):
			b = utf8.AppendRune(b, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			b = fmt.Appendf(b, `\u%04x\u%04x`, high, low)
		default:
			b = fmt.Appendf(b, `\u%04x`, r)
		}
	}
	return b
}
