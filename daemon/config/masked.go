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
	writeNode(&out, root, "\n", false)
	out.WriteByte('\n')
	return out.Bytes()
}

// isSecret reports whether a field holds key material.
func isSecret(field string) bool {
	switch field {
	case "proxy_url", "headers", "database": // the last is of an older form and ignored: nobody knows what is in it
		return true
	}
	for _, end := range []string{"_key", "_token", "_secret", "password"} {
		if strings.HasSuffix(field, end) {
			return true
		}
	}
	return false
}

// writeNode writes a value, in the file's own order. newline is what goes before each of its elements, a line end and the
// indent; "" writes it on one line. Below a secret field every text is masked.
func writeNode(out *bytes.Buffer, n *node, newline string, secret bool) {
	switch n.kind {
	case kindString:
		text := n.text
		if secret && text != "" {
			text = "***"
		}
		writeText(out, text)
	case kindList:
		writeAll(out, "[]", newline, len(n.items), func(i int, inner string) {
			writeNode(out, n.items[i], inner, secret)
		})
	case kindObject:
		writeAll(out, "{}", newline, len(n.members), func(i int, inner string) {
			m := n.members[i]
			writeText(out, m.name)
			out.WriteString(": ")
			writeNode(out, m.value, inner, secret || isSecret(m.name))
		})
	case kindNull:
		out.WriteString("null")
	default:
		out.WriteString(n.text)
	}
}

// writeAll writes n elements between brackets.
func writeAll(out *bytes.Buffer, brackets, newline string, n int, each func(i int, inner string)) {
	inner, between := "", ", "
	if newline != "" {
		inner = newline + "  "
		between = "," + inner
	}
	out.WriteByte(brackets[0])
	for i := range n {
		if i == 0 {
			out.WriteString(inner)
		} else {
			out.WriteString(between)
		}
		each(i, inner)
	}
	if n > 0 {
		out.WriteString(newline)
	}
	out.WriteByte(brackets[1])
}

func writeText(out *bytes.Buffer, s string) {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(strings.ToValidUTF8(s, "\uFFFD")) // a string into memory cannot fail
	out.Truncate(out.Len() - 1)                          // the line end
}
