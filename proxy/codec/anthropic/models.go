package anthropic

import "strings"

// family is what must be known of a model to write a request for it. The figures are from facts/protocols.md 1.1 and 1.5
// and facts/clients.md 1 (what Claude Code sends to which model); those of 4.5 and 4.6 are the vendor's tables.
type family struct {
	claude  bool  // false: another vendor's model behind this dialect; it is asked for nothing that is not common
	version int   // 405 is 4.5
	max     int64 // max_tokens; 0 = not known
	opus    bool
}

// defaultMaxTokens is sent where neither the client nor the family says a maximum.
const defaultMaxTokens = 8192

// maxima are the families' longest answers, the first row that fits.
var maxima = [...]struct {
	line   string // "" = any
	from   int    // version
	tokens int64
}{
	{"", 500, 128000}, {"opus", 406, 128000}, {"opus", 405, 64000}, {"opus", 400, 32000}, {"", 400, 64000},
	{"", 307, 64000}, {"", 305, 8192}, {"", 0, 4096},
}

// newest is what a Claude without a version counts as.
const newest = 505

// familyOf reads a model's name. Gateways write it with dots ("claude-opus-4.6"), behind a vendor ("anthropic/claude-…")
// and with suffixes ("…-20250929", "…[1m]").
func familyOf(model string) family {
	_, name, ok := strings.Cut(strings.ToLower(model), "claude-")
	if !ok {
		return family{}
	}
	line, parts, version := "", 0, 0
	for _, word := range strings.FieldsFunc(name, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }) {
		if len(word) == len("20250929") && word[0] == '2' { // a date ends what matters
			break
		}
		if n, ok := small(word); ok && parts < 2 {
			version = version*100 + n
			parts++
		} else if !ok && line == "" {
			line = word
		}
	}
	switch parts {
	case 0:
		version = newest
	case 1:
		version *= 100
	}
	f := family{claude: true, version: version, opus: line == "opus"}
	for _, m := range maxima {
		if f.version >= m.from && (m.line == "" || m.line == line) {
			f.max = m.tokens
			break
		}
	}
	return f
}

// small reads a part of a version: one or two digits.
func small(word string) (n int, ok bool) {
	if len(word) > 2 {
		return 0, false
	}
	for i := 0; i < len(word); i++ {
		if word[i] < '0' || word[i] > '9' {
			return 0, false
		}
		n = n*10 + int(word[i]-'0')
	}
	return n, true
}

// sampling reports whether the model takes temperature, top_p and top_k; those after 4.6 refuse them.
func (f family) sampling() bool { return !f.claude || f.version <= 406 }

// oneSampler reports whether the model refuses temperature and top_p together.
func (f family) oneSampler() bool { return f.claude && f.version >= 401 }

// thinks reports whether the model can reason at all, adaptive whether it does so as it likes, by effort.
func (f family) thinks() bool   { return !f.claude || f.version >= 307 }
func (f family) adaptive() bool { return f.claude && f.version >= 406 }

// effort reports whether the model knows output_config.effort.
func (f family) effort() bool { return f.adaptive() || f.opus && f.version == 405 }

// prefill reports whether the model goes on with an assistant turn that the client began.
func (f family) prefill() bool { return !f.claude || f.version < 406 }

// system reports whether the model takes system messages in the middle of a conversation.
func (f family) system() bool { return f.claude && f.version >= 500 }

// format reports whether the model knows output_config.format and strict tools.
func (f family) format() bool { return f.claude && (f.version >= 405 || f.opus && f.version >= 401) }
