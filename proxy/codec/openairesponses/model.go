package openairesponses

import "strings"

// model is what the name of an upstream's model tells of what it takes. Names that are not OpenAI's tell nothing, and
// are taken to be able to do what the dialect can say.
type model struct {
	known        bool // one of OpenAI's
	reasons      bool // reasoning.effort, encrypted reasoning
	major, minor int  // of gpt-N.M; 0 for the o-series
	codexMax     bool
}

// modelOf reads a name such as gpt-5.2-codex or openai/o3-mini.
func modelOf(name string) model {
	name = strings.ToLower(name[strings.LastIndexByte(name, '/')+1:])
	if len(name) > 1 && name[0] == 'o' && isDigit(name[1]) || strings.HasPrefix(name, "codex-mini") {
		return model{known: true, reasons: true}
	}
	if strings.HasPrefix(name, "chatgpt-") {
		return model{known: true}
	}
	rest, ok := strings.CutPrefix(name, "gpt-")
	if !ok || rest == "" || !isDigit(rest[0]) {
		return model{}
	}
	m := model{known: true, codexMax: strings.Contains(rest, "codex-max")}
	m.major, rest = leadingInt(rest)
	if len(rest) > 1 && rest[0] == '.' {
		m.minor, rest = leadingInt(rest[1:])
	}
	m.reasons = m.major >= 5 && !strings.HasPrefix(rest, "-chat")
	return m
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func leadingInt(s string) (n int, rest string) {
	i := 0
	for ; i < len(s) && i < 6 && isDigit(s[i]); i++ {
		n = n*10 + int(s[i]-'0')
	}
	return n, s[i:]
}

// atLeast compares the version of a gpt model.
func (m model) atLeast(major, minor int) bool {
	return m.major > major || m.major == major && m.minor >= minor
}

// effort returns the nearest level that the model lists: gpt-5 has minimal to high, gpt-5.1 none to high, gpt-5.2 and the
// codex-max models xhigh, the o-series low to high. Other models get what every reasoning model has.
func (m model) effort(level string) string {
	switch level {
	case "minimal":
		if m.major == 5 && m.minor == 0 {
			return level
		}
		return "low"
	case "xhigh", "max":
		if m.atLeast(5, 2) || m.codexMax {
			return "xhigh"
		}
		return "high"
	}
	return level
}

// off returns the level that is nearest to no reasoning; "" is none that could be said.
func (m model) off() string {
	switch {
	case !m.reasons:
		return ""
	case m.atLeast(5, 1):
		return "none"
	case m.major == 5:
		return "minimal"
	}
	return "low"
}

// takesBreakpoints reports whether the model knows prompt_cache_breakpoint (facts/protocols.md, 5.2).
func (m model) takesBreakpoints() bool { return m.atLeast(5, 6) }
