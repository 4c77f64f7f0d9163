package estimate

import (
	"bytes"
	"encoding/json"
	"strings"
)

// minOpaque is the length from which a string of nothing but base64 is taken for data and not for text; the longest
// words and identifiers are far shorter.
const minOpaque = 512

// jsonTokens estimates valid JSON as the model reads it: without the white space between the values and with the
// strings unescaped, as "\u4f60" and "你" are the same to it.
func jsonTokens(raw json.RawMessage) int {
	return jsonCost(raw, cost)
}

// opaqueJSON estimates valid JSON of a shape unknown here, in which a long base64 string is an encrypted text or some
// new kind of media, and no more than an image.
func opaqueJSON(raw json.RawMessage) int {
	return jsonCost(raw, func(s string) int {
		if len(s) >= minOpaque && isBase64(s) {
			return min(maxImage, opaque(len(s))) * token
		}
		return cost(s)
	})
}

// jsonCost walks valid JSON and returns its tokens, with stringCost in hundredths of a token for each string. Brackets,
// quotes, colons and commas are runs of marks between the values.
func jsonCost(raw json.RawMessage, stringCost func(string) int) int {
	if absent(raw) {
		return 0
	}
	total, run := 0, 0
	for i := 0; i < len(raw); {
		n := 1
		switch b := raw[i]; {
		case b == '"':
			n = literalLength(raw[i:])
			total += runCost(run+1) + stringCost(unquote(raw[i:i+n]))
			run = 1
		case isBlank(b):
		case strings.IndexByte("{}[]:,", b) >= 0:
			run++
		default:
			for i+n < len(raw) && strings.IndexByte("{}[]:, \t\r\n", raw[i+n]) < 0 {
				n++
			}
			total += runCost(run) + cost(string(raw[i:i+n]))
			run = 0
		}
		i += n
	}
	return (total + runCost(run) + token - 1) / token
}

// runCost is the cost of n marks in a row, in hundredths of a token.
func runCost(n int) int {
	if n == 0 {
		return 0
	}
	return markCost + (n-1)*nextMarkCost
}

// literalLength is the length of the string literal, quotes included, at the head of raw.
func literalLength(raw []byte) int {
	for i := 1; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(raw)
}

func unquote(literal []byte) string {
	var s string
	if bytes.IndexByte(literal, '\\') < 0 || json.Unmarshal(literal, &s) != nil {
		return string(literal[1 : len(literal)-1])
	}
	return s
}

// opaque estimates the text behind n characters of base64: three bytes in four characters, four bytes a token.
func opaque(n int) int { return n * 3 / 16 }

func isBase64(s string) bool {
	for i := 0; i < len(s); i++ {
		if b := s[i]; !isLetter(b) && !isDigit(b) && strings.IndexByte("+/-_=\r\n", b) < 0 {
			return false
		}
	}
	return true
}
