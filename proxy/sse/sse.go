// Package sse cuts event streams (WHATWG HTML, "Server-sent events") into events without changing a byte. Line ends
// are LF, CRLF or CR, as the standard allows.
package sse

import "bytes"

// Next returns the length of the first whole event of b, the blank line that ends it included, or 0 when b holds
// none yet. Blank lines before an event and comments count as events of their own when a blank line follows them.
// A CR that ends b ends its line: an LF that follows later is an empty event.
func Next(b []byte) int {
	i := bytes.Index(b, []byte("\n\n"))
	if i < 0 {
		if bytes.IndexByte(b, '\r') < 0 {
			return 0
		}
		return nextByLine(b)
	}
	if bytes.IndexByte(b[:i], '\r') >= 0 {
		return nextByLine(b)
	}
	if i == 0 || b[0] == '\n' { // blank lines in front
		return 1
	}
	return i + 2
}

// HasBlank reports whether an event may end in b: whether two line ends follow each other.
func HasBlank(b []byte) bool {
	return bytes.Contains(b, []byte("\n\n")) || bytes.Contains(b, []byte("\n\r")) || bytes.Contains(b, []byte("\r\r"))
}

func nextByLine(b []byte) int {
	for at := 0; at < len(b); {
		n, end := line(b[at:])
		if end == 0 {
			return 0
		}
		at += end
		if n == 0 {
			return at
		}
	}
	return 0
}

// line returns the length of b's first line and the offset after its end; end is 0 when the line has none yet.
func line(b []byte) (n, end int) {
	n = bytes.IndexByte(b, '\n')
	if n < 0 {
		n = len(b)
	} else {
		end = n + 1
	}
	switch cr := bytes.IndexByte(b[:n], '\r'); {
	case cr < 0:
		return n, end
	case cr == n-1 && end > 0: // CRLF
		return cr, end
	default:
		return cr, cr + 1
	}
}

// Parse returns the name and the data of a whole event. Several data lines are joined by LF; comments, ids, retry
// times and unknown fields are passed over. Both slices share the event's memory where they can.
func Parse(event []byte) (name, data []byte) {
	seen := false
	for at := 0; at < len(event); {
		n, end := line(event[at:])
		text := event[at : at+n]
		if end == 0 {
			end = n
		}
		at += end
		field, value, _ := bytes.Cut(text, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			name = value
		case "data":
			if !seen {
				data, seen = value, true
				continue
			}
			joined := make([]byte, 0, len(data)+1+len(value))
			joined = append(append(joined, data...), '\n')
			data = append(joined, value...)
		}
	}
	return name, data
}

// Append appends an event.
func Append(dst []byte, name string, data []byte) []byte {
	dst = append(dst, "event: "...)
	dst = append(dst, name...)
	dst = append(dst, "\ndata: "...)
	dst = append(dst, data...)
	return append(dst, "\n\n"...)
}
