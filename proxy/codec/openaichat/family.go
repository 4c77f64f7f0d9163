package openaichat

import (
	"strconv"
	"strings"
)

// vendor is who made a model, as far as its name tells.
type vendor uint8

const (
	unknown vendor = iota
	openAI
	openWeights // gpt-oss: OpenAI's levels of effort behind other vendors' servers
	deepSeek
	kimi
	glm
	qwen
	miniMax
	miMo
	grok
	gemini
)

// family says what the server of a model takes. There is no other way to know than the model's name.
type family struct {
	vendor
	major, minor int  // gpt-5.6 is 5, 6; 0 for OpenAI's o-series
	series       int  // o3 is 3
	plain        bool // of gpt-5 without reasoning
	search       bool // searches the web by itself
	few          bool // knows no effort below low: codex and pro models
}

// vendorWords are the parts of names by which models of other vendors are known. Distilled models carry two: the first here
// decides.
var vendorWords = [...]struct {
	word string
	vendor
}{
	{"gpt-oss", openWeights}, {"deepseek", deepSeek}, {"kimi", kimi}, {"moonshot", kimi}, {"glm", glm}, {"qwen", qwen},
	{"qwq", qwen}, {"minimax", miniMax}, {"mimo", miMo}, {"grok", grok}, {"gemini", gemini},
}

// familyOf reads a model's name: "gpt-5.6", "openai/o3-mini", "accounts/x/models/kimi-k2".
func familyOf(model string) family {
	name := strings.ToLower(model[strings.LastIndexByte(model, '/')+1:])
	f := family{search: strings.Contains(name, "search") || strings.Contains(name, "sonar")}
	f.few = strings.Contains(name, "codex") || strings.Contains(name, "-pro")
	for _, w := range vendorWords {
		if strings.Contains(name, w.word) {
			f.vendor = w.vendor
			return f
		}
	}
	switch {
	case strings.HasPrefix(name, "gpt-"):
		f.version(name[len("gpt-"):])
	case strings.HasPrefix(name, "chatgpt-"), strings.HasPrefix(name, "ft:gpt-"):
		f.vendor, f.major = openAI, 4
	case strings.HasPrefix(name, "codex-"):
		f.vendor, f.major = openAI, 5
	case len(name) > 1 && name[0] == 'o' && name[1] >= '1' && name[1] <= '9' && (len(name) == 2 || name[2] == '-'):
		f.vendor, f.series = openAI, int(name[1]-'0')
	}
	f.plain = f.major == 5 && f.minor == 0 && strings.HasPrefix(name, "gpt-5-chat")
	return f
}

// version reads "5.6-codex", "4o", "35-turbo" (Azure's spelling of 3.5).
func (f *family) version(s string) {
	digits := func() int {
		n := 0
		for n < len(s) && s[n] >= '0' && s[n] <= '9' {
			n++
		}
		v, err := strconv.Atoi(s[:n])
		s = s[n:]
		if err != nil || v > 99 {
			return 0
		}
		return v
	}
	if f.major = digits(); f.major == 0 {
		return
	}
	f.vendor = openAI
	if f.major == 35 {
		f.major = 3
	}
	if strings.HasPrefix(s, ".") {
		s = s[1:]
		f.minor = digits()
	}
}

// from reports whether the model is OpenAI's gpt-major.minor or newer.
func (f family) from(major, minor int) bool {
	return f.vendor == openAI && (f.major > major || f.major == major && f.minor >= minor)
}

// reasons reports whether it is one of OpenAI's reasoning models: no sampling, `developer` for instructions.
func (f family) reasons() bool { return f.series > 0 || f.from(5, 0) && !f.plain }

// noStop: o3 and o4-mini take no stop sequences.
func (f family) noStop() bool { return f.series >= 3 }

// custom: free-text tools came with gpt-5.
func (f family) custom() bool { return f.from(5, 0) }

// breakpoints: marks in the prompt for the cache came with gpt-5.6.
func (f family) breakpoints() bool { return f.from(5, 6) }

// replays reports whether the vendor takes reasoning back as text, whoever made it.
func (f family) replays() bool {
	switch f.vendor {
	case deepSeek, kimi, glm, qwen, miniMax, miMo:
		return true
	}
	return false
}

// insists: with reasoning on, a turn that calls tools is refused without its reasoning.
func (f family) insists() bool { return f.vendor == deepSeek || f.vendor == kimi }

// flat: content that is text alone goes as one string. These vendors' servers began with strings and not all of their
// deployments read parts of text.
func (f family) flat() bool { return f.replays() }

// effort fits a level of reasoning to the model; exact is false where it had to be another one, level "" where none can be
// said.
func (f family) effort(want string) (level string, exact bool) {
	lowest, highest := "low", "high"
	switch {
	case f.vendor == openAI && f.reasons():
		switch {
		case f.from(5, 1):
			if want == "none" && !f.few {
				return want, true
			}
			if f.from(5, 2) || f.few {
				highest = "xhigh"
			}
		case f.series == 0 && !f.few:
			lowest = "minimal"
		}
	case f.vendor == gemini:
		if want == "none" && !f.few {
			return want, true
		}
		lowest = "minimal" // the pro models cannot be without
	case f.vendor == openWeights:
	default:
		return "", false
	}
	i, low, high := rank(want), rank(lowest), rank(highest)
	if i < low {
		return lowest, false
	}
	if i > high {
		return highest, false
	}
	return want, true
}

// rank orders the levels.
func rank(level string) int {
	for i, l := range [...]string{"none", "minimal", "low", "medium", "high", "xhigh", "max"} {
		if l == level {
			return i
		}
	}
	return 3
}
