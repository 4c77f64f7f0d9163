package rawjson

import "bytes"

// Members watches a JSON object that arrives in pieces and keeps the values of some members of its top level, in
// bounded memory however long the text is. The zero Members with Want set is ready.
type Members struct {
	Want  []string // names of the members to keep, written without escapes
	Limit int      // longest value kept, in bytes; a longer one is dropped
	List  string   // name of a member that is an array of objects: only their ids are kept; "" = none

	values [][]byte
	state  memberState
	depth  int
	begun  bool              // the opening brace has come
	str    bool              // inside a string
	escape bool              // the byte before was a backslash inside a string
	at     int               // index in Want of the member whose value is being read, -1 for none
	key    [maxName + 2]byte // the member's name with its quotes
	keyLen int               // over len(key): too long to be wanted
	kept   []byte
	item   *Members // the element of List that is being read
	ids    []string
}

// maxIDs bounds how many ids of List are kept.
const maxIDs = 1000

// maxName bounds the names that can be wanted.
const maxName = 62

type memberState uint8

const (
	atKey   memberState = iota // before or in a member's name
	atColon                    // after it
	atValue                    // in the value
)

// Write feeds the next piece. It never fails.
func (m *Members) Write(p []byte) (int, error) {
	if m.values == nil {
		m.values = make([][]byte, len(m.Want))
		m.at = -1
	}
	for i := 0; i < len(p); {
		if m.str {
			i = m.inString(p, i)
			continue
		}
		if m.depth > 1 || m.state == atValue {
			if m.at < 0 { // nothing to keep: run to what matters
				j := bytes.IndexAny(p[i:], "\"{}[],")
				if j < 0 {
					return len(p), nil
				}
				i += j
			}
		}
		m.outside(p[i])
		i++
	}
	return len(p), nil
}

// inString takes bytes of a string up to its end or the end of p, and returns the index after them.
func (m *Members) inString(p []byte, i int) int {
	start := i
	for i < len(p) && m.str {
		if m.escape {
			m.escape = false
			i++
			continue
		}
		end := len(p) // of what stands before the next quote
		if j := bytes.IndexByte(p[i:], '"'); j >= 0 {
			end = i + j
		}
		backslashes := 0
		for end-backslashes > i && p[end-backslashes-1] == '\\' {
			backslashes++
		}
		switch {
		case backslashes%2 == 1:
			m.escape = true
			i = end
		case end < len(p):
			m.str = false
			i = end + 1
		default:
			i = end
		}
	}
	m.keep(p[start:i])
	if !m.str && m.state == atKey && m.depth == 1 {
		m.state = atColon
		m.at = -1
		for n, w := range m.Want {
			if m.named(w) {
				m.at = n
			}
		}
		if m.List != "" && m.named(m.List) {
			m.at = len(m.Want)
		}
		m.keyLen = 0
	}
	return i
}

// keep stores bytes of the name or of a wanted value.
func (m *Members) keep(p []byte) {
	switch {
	case m.state == atKey && m.depth == 1:
		if m.keyLen < len(m.key) {
			copy(m.key[m.keyLen:], p)
		}
		m.keyLen += len(p)
	case m.state == atValue && m.at == len(m.Want):
		m.element(p)
	case m.state == atValue && m.at >= 0:
		if len(m.kept)+len(p) > m.Limit {
			m.at, m.kept = -1, m.kept[:0]
			return
		}
		if m.kept == nil {
			m.kept = make([]byte, 0, 256)
		}
		m.kept = append(m.kept, p...)
	}
}

// named reports whether the name that was read is this one.
func (m *Members) named(name string) bool {
	return m.keyLen == len(name)+2 && string(m.key[1:m.keyLen-1]) == name
}

// element takes a string or a byte that is in none from the array List.
func (m *Members) element(p []byte) {
	if m.item == nil {
		if p[0] == '{' && len(m.ids) < maxIDs {
			m.item = &Members{Want: []string{"id"}, Limit: m.Limit}
			m.item.Write(p)
		}
		return
	}
	if m.item.Write(p); !m.item.Complete() {
		return
	}
	if id, ok := String(m.item.Value("id")); ok && id != "" {
		m.ids = append(m.ids, id)
	}
	m.item = nil
}

func (m *Members) keepByte(c byte) {
	b := [1]byte{c}
	m.keep(b[:])
}

// outside takes one byte that is in no string.
func (m *Members) outside(c byte) {
	switch c {
	case '"':
		m.str = true
		m.keepByte(c)
		return
	case ':':
		if m.state == atColon && m.depth == 1 {
			m.state = atValue
			return
		}
	case ',':
		if m.depth == 1 {
			m.end()
			return
		}
	case '{', '[':
		m.depth++
		m.begun = true
	case '}', ']':
		if m.depth == 1 {
			m.end()
		}
		m.depth--
		if m.depth <= 0 {
			return
		}
	case ' ', '\n', '\r', '\t':
		return
	}
	if m.state == atValue {
		m.keepByte(c)
	}
}

// end closes the member that was being read.
func (m *Members) end() {
	if m.state == atValue && m.at >= 0 && m.at < len(m.Want) {
		m.values[m.at] = append(m.values[m.at][:0], m.kept...)
	}
	m.state, m.at, m.kept = atKey, -1, m.kept[:0]
}

// Value returns the raw value of a wanted member, or nil while it has not wholly come.
func (m *Members) Value(name string) []byte {
	for n, w := range m.Want {
		if w == name && n < len(m.values) {
			return m.values[n]
		}
	}
	return nil
}

// IDs returns the ids of List's elements that have wholly come, at most 1000.
func (m *Members) IDs() []string { return m.ids }

// Complete reports whether the object has ended.
func (m *Members) Complete() bool { return m.begun && m.depth == 0 }
