package demo

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

// inputPiece is how many bytes of a tool's input one delta carries.
const inputPiece = 24

// outline is a step with its defaults filled in: what is said, in no dialect.
type outline struct {
	thinking string
	text     string
	tools    []Tool
	stop     string // Anthropic's word
	usage    Usage
}

// outline fills in what the step leaves open; received are the bytes of the request, idKind begins the calls' ids.
func (p *Provider) outline(step Step, received int, idKind string) outline {
	o := outline{thinking: step.Thinking, text: step.Text, stop: step.StopReason, usage: step.Usage}
	if o.text == "" && o.thinking == "" && len(step.Tools) == 0 {
		o.text = "Hello from " + p.options.Name + "."
	}
	size := len(o.text) + len(o.thinking)
	for _, tool := range step.Tools {
		if tool.ID == "" {
			tool.ID = p.id(idKind)
		}
		size += len(tool.Input) + len(tool.Custom)
		o.tools = append(o.tools, tool)
	}
	if o.stop == "" {
		o.stop = "end_turn"
		if len(o.tools) > 0 {
			o.stop = "tool_use"
		}
	}
	if o.usage.Input == 0 {
		o.usage.Input = tokens(received)
	}
	if o.usage.Output == 0 {
		o.usage.Output = tokens(size)
	}
	return o
}

// prompt is all that went in, as OpenAI and Google count it.
func (u Usage) prompt() int { return u.Input + u.CacheCreation + u.CacheRead }

// input is the call's input for a dialect without custom tools; empty means {}.
func (t Tool) input() string {
	if t.Custom == "" {
		return string(t.Input)
	}
	return string(encode(struct {
		Input string `json:"input"`
	}{t.Custom}))
}

// arguments is the input as OpenAI writes it: never empty.
func (t Tool) arguments() string {
	if len(t.Input) == 0 {
		return "{}"
	}
	return string(t.Input)
}

// words are the pieces in which text is streamed.
func words(text string) []string {
	var list []string
	for _, word := range strings.SplitAfter(text, " ") {
		if word != "" {
			list = append(list, word)
		}
	}
	return list
}

// pieces are those in which a tool's input is streamed.
func pieces(s string) []string {
	var list []string
	for s != "" {
		var piece string
		piece, s = cutRunes(s, inputPiece)
		list = append(list, piece)
	}
	return list
}

// cutRunes cuts s after at most n bytes, but within no rune.
func cutRunes(s string, n int) (piece, rest string) {
	if len(s) <= n {
		return s, ""
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	if n == 0 { // no rune at all
		return s, ""
	}
	return s[:n], s[n:]
}

// What a seal stands on. One that was moved to another kind of place is none there.
const (
	sealThinking  = "thinking"
	sealRedacted  = "redacted"
	sealReasoning = "reasoning"
	sealCall      = "call"
	sealText      = "text"
)

// encryptedPrefix is how OpenAI's encrypted_content begins.
const encryptedPrefix = "gAAAA"

// seal makes a signature that shows whose it is, what it stands on, and of which content.
func (p *Provider) seal(kind, content string) string {
	head := "demo:" + p.options.Name + ":" + p.id("sig") + ":" + kind + ":"
	own := digest(head)
	return base64.StdEncoding.EncodeToString([]byte(head + own + ":" + digest(own+content)))
}

// sealed reports whether a signature is this provider's own and stands where it belongs. Empty content is not
// compared: thinking may have been sent without its text.
func (p *Provider) sealed(signature, kind, content string) bool {
	whole, err := base64.StdEncoding.DecodeString(signature)
	if err != nil {
		return false
	}
	rest, of, _ := cutLast(string(whole), ":")
	head, own, _ := cutLast(rest, ":")
	head += ":"
	return strings.HasPrefix(head, "demo:"+p.options.Name+":") && strings.HasSuffix(head, ":"+kind+":") &&
		own == digest(head) && (content == "" || of == digest(own+content))
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:8])
}
