package estimate

import (
	"strings"
	"unicode/utf8"
)

// Costs of text in hundredths of a token. Anthropic publishes no current tokenizer and has two in use: from Opus 4.7 and
// Sonnet 5 on, Latin text gives about 30 % more tokens than before (its token counting page), other scripts the same.
// So the costs of Latin text, digits and punctuation are fitted to lie in between, at 1.1 times the older generation, as
// a reconstruction of its tokenizer (npm bpe-lite) counts prose, Go, Python, JavaScript, JSON, Markdown and listings.
// For the other scripts they follow published ratios, the dearer ones where these differ.
const (
	token = 100 // the unit

	wordCost       = 106 // a word of up to wordLetters letters
	wordLetters    = 7
	moreLetters    = 25  // each further letter: long words break into pieces
	accentCost     = 120 // each accented Latin letter, on top of its place in the word
	digitsPerToken = 3   // Claude groups digits by at most three ...
	digitsCost     = 130 // ... and often by less

	markCost     = 106 // the first punctuation mark of a run
	nextMarkCost = 20  // a further, different one: `":`, `});` and the like are common tokens
	sameMarkCost = 24  // a further, equal one

	blanksCost = 160 // a run of white space: a line break with its indentation, a gap between columns
	blankCost  = 6   // each further character of it; the single space before a word is part of the word

	cyrillicCost = 55 // 2 characters a token, with the spaces between words
	semiticCost  = 75 // Arabic, Hebrew: 1.6
	greekCost    = 120
	kanaCost     = 105
	hanCost      = 115
	hangulCost   = 125
	indicCost    = 130 // and Thai, Georgian, Ethiopic and the other scripts with few tokens of their own
	signCost     = 150 // typographic marks, arrows, box drawing
	emojiCost    = 250
)

// Text estimates the tokens of s, by script: about 4 characters a token for English prose, 3 for code, 2 for Cyrillic,
// 1 or less for Chinese, Japanese and Korean. It is 0 only for the empty string.
func Text(s string) int {
	if s == "" {
		return 0
	}
	return max(1, (cost(s)+token/2)/token)
}

// cost is the estimate of s in hundredths of a token.
func cost(s string) int {
	total := 0
	for i := 0; i < len(s); {
		n, c := 0, 0
		switch b := s[i]; {
		case isLetter(b):
			n, c = word(s[i:])
		case isDigit(b):
			n, c = digits(s[i:])
		case isBlank(b):
			n, c = blanks(s[i:])
		case b < utf8.RuneSelf:
			n, c = marks(s[i:])
		default:
			r, size := utf8.DecodeRuneInString(s[i:])
			if isLatin(r) {
				n, c = word(s[i:])
			} else {
				n, c = runes(s[i:], r, size)
			}
		}
		i += n
		total += c
	}
	return total
}

// word measures the Latin word at the head of s; camelCase is two words.
func word(s string) (length, c int) {
	letters, accents, lower := 0, 0, false
	for length < len(s) {
		b, size := s[length], 1
		if b >= utf8.RuneSelf {
			var r rune
			r, size = utf8.DecodeRuneInString(s[length:])
			if !isLatin(r) {
				break
			}
			accents++
		} else if !isLetter(b) || lower && b <= 'Z' {
			break
		}
		lower = b >= 'a' && b < utf8.RuneSelf
		letters++
		length += size
	}
	return length, wordCost + accents*accentCost + max(0, letters-wordLetters)*moreLetters
}

func digits(s string) (length, c int) {
	for length < len(s) && isDigit(s[length]) {
		length++
	}
	return length, (length + digitsPerToken - 1) / digitsPerToken * digitsCost
}

func blanks(s string) (length, c int) {
	for length < len(s) && isBlank(s[length]) {
		length++
	}
	if s[0] == ' ' && length == 1 {
		return 1, 0
	}
	return length, blanksCost + (length-1)*blankCost
}

// marks measures the run of ASCII punctuation (and control characters) at the head of s.
func marks(s string) (length, c int) {
	for length < len(s) {
		b := s[length]
		if b >= utf8.RuneSelf || isLetter(b) || isDigit(b) || isBlank(b) {
			break
		}
		switch {
		case length == 0:
			c += markCost
		case b == s[length-1]:
			c += sameMarkCost
		default:
			c += nextMarkCost
		}
		length++
	}
	return length, c
}

// runes measures the head of s, one character r of size bytes or a run of one sign, such as a ruler of box drawing.
func runes(s string, r rune, size int) (length, c int) {
	length, c = size, runeCost(r)
	if c != signCost {
		return length, c
	}
	for strings.HasPrefix(s[length:], s[:size]) {
		length += size
		c += sameMarkCost
	}
	return length, c
}

func runeCost(r rune) int {
	switch {
	case r >= 0x0370 && r < 0x0400:
		return greekCost
	case r >= 0x0400 && r < 0x0530:
		return cyrillicCost
	case r >= 0x0590 && r < 0x0780, r >= 0xFB1D && r < 0xFE00:
		return semiticCost
	case r < 0x0370, r >= 0x2000 && r < 0x2600, r >= 0x3000 && r < 0x3040, r >= 0xFE30 && r < 0xFE70, r >= 0xFF00 && r < 0xFF60:
		return signCost
	case r >= 0x3040 && r < 0x3130, r >= 0xFF60 && r < 0xFFA0:
		return kanaCost
	case r >= 0x3400 && r < 0xA000, r >= 0xF900 && r < 0xFB00:
		return hanCost
	case r >= 0x1100 && r < 0x1200, r >= 0x3130 && r < 0x3190, r >= 0xAC00 && r < 0xD7B0:
		return hangulCost
	case r >= 0x2600 && r < 0x2800, r >= 0xFE00 && r < 0xFE10, r >= 0x1F000:
		return emojiCost
	default:
		return indicCost
	}
}

// isLatin covers the accented Latin letters, Vietnamese included.
func isLatin(r rune) bool {
	return r >= 0xC0 && r < 0x250 && r != '×' && r != '÷' || r >= 0x1E00 && r < 0x1F00
}

func isLetter(b byte) bool { return b|0x20 >= 'a' && b|0x20 <= 'z' }
func isDigit(b byte) bool  { return b >= '0' && b <= '9' }
func isBlank(b byte) bool  { return b == ' ' || b >= '\t' && b <= '\r' }
