package pool

import "strings"

// familyOf names the family of a Claude model: the first word behind "claude", wherever its version stands, as in
// "claude-opus-4-8" and "anthropic.claude-3-5-haiku-20241022". It is "" where the name tells none: then the model stands
// for itself.
func familyOf(model string) string {
	_, rest, _ := strings.Cut(strings.ToLower(model), "claude-")
	for word := range strings.SplitSeq(rest, "-") {
		letters := 0
		for letters < len(word) && 'a' <= word[letters] && word[letters] <= 'z' {
			letters++
		}
		if letters > 2 { // not the "v" of a version
			return word[:letters]
		}
	}
	return ""
}
