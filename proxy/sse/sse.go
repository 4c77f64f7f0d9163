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

// line returns the length of b's first line and the offset after its end; end is 0 when the line has none yet. It looks
// at a window at a time, so that many short lines do not cost a search of the whole each.
func line(b []byte) (n, end int) {
	const window = 1 << 10
	for from := 0; from < len(b); from += window {
		w := b[from:min(from+window, len(b))]
		lf := bytes.IndexByte(w, '\n')
		if lf >= 0 {
			w = w[:lf]
		}
		if cr := bytes.IndexByte(w, '\r'); cr >= 0 {
			n, end = from+cr, from+cr+1
			if end < len(b) && b[end] == '\n' {
				end++
			}
			return n, end
		}
		if lf >= 0 {
			return from + lf, from + lf + 1
		}
	}
	return len(b), 0
}

// Parse returns the name and the data of a whole event. Several data lines are joined by LF; comments, ids, retry
// times and unknown fields are passed over. Both slices share the event's memory where they can.
func Parse(event []byte) (name, data []byte) {
	lines := 0 // of data
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
			switch lines++; lines {
			case 1:
				data = value
				continue
			case 2: // from here on in memory of its own
				data = append(make([]byte, 0, len(event)), data...)
			}
			data = append(append(data, '\n'), value...)
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
