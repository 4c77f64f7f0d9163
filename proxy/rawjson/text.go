package rawjson

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// String decodes a raw string value; ok is false when raw is no JSON string. What is no UTF-8, and half a surrogate
// pair, become U+FFFD, as with encoding/json.
func String(raw []byte) (s string, ok bool) {
	s, half, ok := text(raw, 0)
	if half != 0 {
		s += string(utf8.RuneError)
	}
	return s, ok
}

// Pieces decodes strings that are one text cut into pieces. Some providers cut between the halves of a surrogate pair
// ("\ud83d", then "\ude00"): the first half waits for the next piece. The zero Pieces is ready.
type Pieces struct {
	half rune // 0: none waits
}

// Next decodes the next piece.
func (p *Pieces) Next(raw []byte) (s string, ok bool) {
	s, half, ok := text(raw, p.half)
	if ok {
		p.half = half
	}
	return s, ok
}

// End returns what is left: U+FFFD for a half that no other followed, else "".
func (p *Pieces) End() string {
	if p.half == 0 {
		return ""
	}
	p.half = 0
	return string(utf8.RuneError)
}

// text decodes a raw string behind a high surrogate that waits (0: none), and returns the one that waits after it.
func text(raw []byte, half rune) (s string, waits rune, ok bool) {
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' {
		return "", 0, false
	}
	in := raw[1 : len(raw)-1]
	if half == 0 && plainRun(in, 0) == len(in) {
		return string(in), 0, true
	}
	out := make([]byte, 0, len(in)+utf8.UTFMax)
	for i := 0; i < len(in); {
		c := in[i]
		escaped := c == '\\' && i+1 < len(in) && in[i+1] == 'u'
		if half != 0 && !escaped {
			out, half = utf8.AppendRune(out, utf8.RuneError), 0
		}
		switch {
		case escaped:
			r, ok := hex4(in[i+2:])
			if !ok {
				return "", 0, false
			}
			i += 6
			switch {
			case half != 0 && r >= 0xdc00 && r < 0xe000:
				out, half = utf8.AppendRune(out, utf16.DecodeRune(half, r)), 0
				continue
			case half != 0:
				out, half = utf8.AppendRune(out, utf8.RuneError), 0
			}
			if r >= 0xd800 && r < 0xdc00 {
				half = r
				continue
			}
			out = utf8.AppendRune(out, r) // a low half alone becomes U+FFFD
		case c == '\\':
			if i+1 >= len(in) {
				return "", 0, false
			}
			plain, ok := unescape(in[i+1])
			if !ok {
				return "", 0, false
			}
			out = append(out, plain)
			i += 2
		default:
			n := run(in[i:])
			if n == 0 {
				r, size := utf8.DecodeRune(in[i:])
				if c < utf8.RuneSelf {
					return "", 0, false
				}
				out = utf8.AppendRune(out, r)
				i += size
				continue
			}
			out = append(out, in[i:i+n]...)
			i += n
		}
	}
	return unsafe.String(unsafe.SliceData(out), len(out)), half, true // nobody else has out
}

// run returns how many bytes of b stand for themselves in a JSON string: up to an escape, a quote, a control character or
// what is no UTF-8.
func run(b []byte) int {
	i := 0
	for {
		if i = plainRun(b, i); i == len(b) || b[i] < utf8.RuneSelf {
			return i
		}
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
}

func unescape(c byte) (byte, bool) {
	switch c {
	case '"', '\\', '/':
		return c, true
	case 'b':
		return '\b', true
	case 'f':
		return '\f', true
	case 'n':
		return '\n', true
	case 'r':
		return '\r', true
	case 't':
		return '\t', true
	}
	return 0, false
}

func hex4(b []byte) (r rune, ok bool) {
	if len(b) < 4 {
		return 0, false
	}
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// AppendString appends s as a JSON string. Unlike encoding/json it leaves <, > and & alone, also U+2028; what is no
// UTF-8 becomes U+FFFD.
func AppendString[T string | []byte](dst []byte, s T) []byte {
	const digits = "0123456789abcdef"
	b := []byte(nil)
	switch v := any(s).(type) {
	case string:
		b = unsafe.Slice(unsafe.StringData(v), len(v)) // it is only read
	case []byte:
		b = v
	}
	dst = append(dst, '"')
	for i := 0; ; {
		n := run(b[i:])
		dst = append(dst, b[i:i+n]...)
		if i += n; i == len(b) {
			return append(dst, '"')
		}
		switch c := b[i]; c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			if c >= utf8.RuneSelf {
				dst = append(dst, "\ufffd"...)
			} else {
				dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
			}
		}
		i++
	}
}

// AppendObject appends a text that should be a JSON object as one: nothing is {}, another value becomes the member value,
// and what is no JSON the member _raw.
func AppendObject(dst []byte, text string) []byte {
	value := bytes.TrimSpace([]byte(text))
	switch {
	case len(value) == 0:
		return append(dst, "{}"...)
	case Valid(value) != nil:
		dst = AppendString(append(dst, `{"_raw":`...), text)
	case value[0] == '{':
		return append(dst, value...)
	default:
		dst = append(append(dst, `{"value":`...), value...)
	}
	return append(dst, '}')
}
