package config

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Masked returns the file that was read, as JSON with its secrets replaced by ***; {} where there was none.
func (c *Config) Masked() []byte {
	root, wrong := parse(c.origin().data)
	if c.Path == "" || wrong != nil {
		return []byte("{}")
	}
	var out bytes.Buffer
	writeNode(&out, root, "", false)
	out.WriteByte('\n')
	return out.Bytes()
}

// isSecret reports whether a field holds key material.
func isSecret(field string) bool {
	switch field {
	case "api_key", "admin_key", "local_api_key", "github_token", "client_secret", "refresh_token", "proxy_url":
		return true
	}
	return false
}

// writeNode writes a value, in the file's own order, on lines of its own below the indent or, for noIndent, on one line.
// Below a secret field every text is masked.
func writeNode(out *bytes.Buffer, n *node, indent string, secret bool) {
	switch n.kind {
	case kindString:
		text := n.text
		if secret && text != "" {
			text = "***"
		}
		writeText(out, text)
	case kindList:
		writeAll(out, "[]", indent, len(n.items), func(i int, inner string) {
			writeNode(out, n.items[i], inner, secret)
		})
	case kindObject:
		writeAll(out, "{}", indent, len(n.members), func(i int, inner string) {
			m := n.members[i]
			writeText(out, m.name)
			out.WriteString(": ")
			writeNode(out, m.value, inner, secret || isSecret(m.name) || m.name == "headers")
		})
	case kindNull:
		out.WriteString("null")
	default:
		out.WriteString(n.text)
	}
}

const noIndent = "-"

// writeAll writes n elements between brackets.
func writeAll(out *bytes.Buffer, brackets, indent string, n int, each func(i int, inner string)) {
	inner, first, between, last := indent+"  ", "\n"+indent+"  ", ",\n"+indent+"  ", "\n"+indent
	if indent == noIndent {
		inner, first, between, last = noIndent, "", ", ", ""
	}
	out.WriteByte(brackets[0])
	for i := range n {
		if i == 0 {
			out.WriteString(first)
		} else {
			out.WriteString(between)
		}
		each(i, inner)
	}
	if n > 0 {
		out.WriteString(last)
	}
	out.WriteByte(brackets[1])
}

func writeText(out *bytes.Buffer, s string) {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(strings.ToValidUTF8(s, "\uFFFD")) // a string into memory cannot fail
	out.Truncate(out.Len() - 1)                          // the line end
}
