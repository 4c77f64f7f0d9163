package gemini

import "strings"

// family says what a model takes. There is no other way to know than its name.
type family struct {
	gemini    bool
	major     int // gemini-2.5 is 2, 5; names without a number (gemini-flash-latest) are taken for 3.1
	minor     int
	pro, lite bool
	claude    bool // behind Google's address
}

// familyOf reads a model's name: "gemini-3.1-pro-preview", "publishers/google/models/gemini-2.5-flash".
func familyOf(model string) family {
	name := strings.ToLower(model[strings.LastIndexByte(model, '/')+1:])
	f := family{
		pro: strings.Contains(name, "-pro"), lite: strings.Contains(name, "-lite"),
		claude: strings.Contains(name, "claude"),
	}
	_, rest, ok := strings.Cut(name, "gemini-")
	if !ok {
		return f
	}
	f.gemini = true
	if rest == "" || rest[0] < '0' || rest[0] > '9' {
		f.major, f.minor = 3, 1
		return f
	}
	f.major = int(rest[0] - '0')
	if len(rest) > 2 && rest[1] == '.' && rest[2] >= '0' && rest[2] <= '9' {
		f.minor = int(rest[2] - '0')
	}
	return f
}

// from reports whether the model is Gemini major.minor or newer.
func (f family) from(major, minor int) bool {
	return f.gemini && (f.major > major || f.major == major && f.minor >= minor)
}

// levels: since Gemini 3 reasoning has levels, before it has budgets. Both together are refused.
func (f family) levels() bool { return f.from(3, 0) }

// thinks reports whether thinkingConfig is taken: from 2.5 on, and by Claude.
func (f family) thinks() bool { return f.claude || f.from(2, 5) }

// signs: since Gemini 3 a call of the current turn without a signature is refused.
func (f family) signs() bool { return f.from(3, 0) }

// resultMedia: since Gemini 3 results may hold images themselves.
func (f family) resultMedia() bool { return f.from(3, 0) }

// level fits an effort to the model: pro models begin at LOW, the first of them knew no MEDIUM. off is the lowest.
func (f family) level(effort string) string {
	switch effort {
	case "off", "minimal":
		if f.pro {
			return "LOW"
		}
		return "MINIMAL"
	case "low":
		return "LOW"
	case "medium":
		if f.pro && !f.from(3, 1) {
			return "HIGH"
		}
		return "MEDIUM"
	}
	return "HIGH"
}

// budget fits a number of tokens to the model (Google's table of 2.5). -1 stays: as the model likes.
func (f family) budget(n int64) int64 {
	if n < 0 || !f.gemini {
		return n
	}
	lowest, highest := int64(0), int64(24576)
	switch {
	case f.pro:
		lowest, highest = 128, 32768
	case f.lite:
		lowest = 512
	}
	if n == 0 && !f.pro {
		return 0
	}
	return min(max(n, lowest), highest)
}
