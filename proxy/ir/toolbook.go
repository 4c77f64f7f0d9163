package ir

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// NameRule says which tool names a dialect takes.
type NameRule struct {
	Max   int                           // bytes
	Legal func(c byte, first bool) bool // may this byte stand here
}

// PlainRule takes letters, digits, _ and -.
func PlainRule(limit int) NameRule {
	return NameRule{Max: limit, Legal: func(c byte, _ bool) bool { return PlainLetter(c) }}
}

// PlainLetter reports whether a byte is a letter, a digit, _ or -.
func PlainLetter(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// VisibleRule takes all printable ASCII but blanks, quotes and backslashes.
func VisibleRule(limit int) NameRule {
	return NameRule{Max: limit, Legal: func(c byte, _ bool) bool { return c > ' ' && c < 0x7f && c != '"' && c != '\\' }}
}

// ToolBook holds the names under which a request's tools go to an upstream, one for each: the client's own where that
// is legal, else a short form with a hash. They are the same in every request that has the same tools.
type ToolBook struct {
	rule   NameRule
	wire   map[ToolName]string
	client map[string]entry
}

// entry is what a name on the wire stands for.
type entry struct {
	ToolName
	form string
}

// NewToolBook gives names to the tools, calls, results and choices of a request. Legal names are given first, so that no
// short form takes one.
func NewToolBook(r *Request, rule NameRule) *ToolBook {
	b := &ToolBook{rule: rule, wire: map[ToolName]string{}, client: map[string]entry{}}
	for _, legal := range [...]bool{true, false} {
		for i := range r.Tools {
			if t := &r.Tools[i]; t.Kind != ToolHosted {
				b.add(t.ToolName, t.Form, legal)
			}
		}
		for i := range r.Turns {
			for j := range r.Turns[i].Blocks {
				if c := &r.Turns[i].Blocks[j]; c.Kind == ToolCall || c.Kind == ToolResult && c.Name != "" {
					b.add(c.ToolName, c.Form, legal)
				}
			}
		}
		for _, n := range r.Choice.Names {
			b.add(n, "", legal)
		}
	}
	return b
}

// add names a tool if its own name is as legal as is asked for.
func (b *ToolBook) add(n ToolName, form string, legal bool) {
	if _, ok := b.wire[n]; ok {
		return
	}
	name := n.Name
	if n.Namespace != "" {
		name = n.Namespace + "__" + n.Name
	}
	if b.legal(name) && b.client[name] == (entry{}) {
		if !legal {
			return // cannot be: the first round gave it
		}
	} else if legal {
		return
	} else {
		name = b.short(n, name)
	}
	b.wire[n] = name
	b.client[name] = entry{n, form}
}

func (b *ToolBook) legal(name string) bool {
	if name == "" || len(name) > b.rule.Max {
		return false
	}
	for i := 0; i < len(name); i++ {
		if !b.rule.Legal(name[i], i == 0) {
			return false
		}
	}
	return true
}

// short makes a legal name that nobody has: what can stay of the name, and a hash of the whole.
func (b *ToolBook) short(n ToolName, name string) string {
	clean := strings.Map(func(r rune) rune {
		if r < 0x80 && b.rule.Legal(byte(r), false) {
			return r
		}
		return '_'
	}, name)
	if clean == "" || !b.rule.Legal(clean[0], true) {
		clean = "t" + clean
	}
	for salt := 0; ; salt++ {
		sum := sha256.Sum256([]byte(n.Namespace + "\x00" + n.Name + "\x00" + strconv.Itoa(salt)))
		hash := hex.EncodeToString(sum[:4])
		made := clean[:min(len(clean), b.rule.Max-1-len(hash))] + "_" + hash
		if b.client[made] == (entry{}) {
			return made
		}
	}
}

// Wire returns the name on the wire of a tool that the request names.
func (b *ToolBook) Wire(n ToolName) string {
	if name, ok := b.wire[n]; ok {
		return name
	}
	return n.Name
}

// Restore gives a call of an answer the client's name and form. A nil book, or a name that the request never had, changes
// nothing.
func (b *ToolBook) Restore(call *Block) {
	if b == nil {
		return
	}
	if e, ok := b.client[call.Name]; ok {
		call.ToolName, call.Form = e.ToolName, e.form
	}
}

// Shorten replaces an id that is longer than a dialect takes (64 bytes or more) by its hash.
func Shorten(id string, limit int) string {
	if len(id) <= limit {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])
}

// Fit makes an id of a call legal, the same id always the same way.
func (rule NameRule) Fit(id string) string {
	b := ToolBook{rule: rule}
	if b.legal(id) {
		return id
	}
	return b.short(ToolName{Name: id}, id)
}
