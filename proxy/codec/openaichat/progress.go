package openaichat

// progress follows JSON text that arrives in pieces and knows when the value is whole, in constant memory: the arguments
// of a call. It does not check the grammar.
type progress struct {
	depth  int
	begun  bool
	str    bool
	escape bool
	scalar bool // the top-level value is no object or array: it never proves whole
	length int
	hash   uint64
}

// The constants of FNV-1a, by which text that comes a second time is known.
const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// add takes the next piece.
func (p *progress) add(s string) {
	if p.length == 0 {
		p.hash = fnvOffset
	}
	p.length += len(s)
	for i := 0; i < len(s); i++ {
		c := s[i]
		p.hash = (p.hash ^ uint64(c)) * fnvPrime
		switch {
		case p.escape:
			p.escape = false
		case p.str:
			p.escape = c == '\\'
			p.str = c != '"'
		default:
			p.outside(c)
		}
	}
}

func (p *progress) outside(c byte) {
	switch c {
	case '"':
		p.str, p.begun = true, true
		p.scalar = p.scalar || p.depth == 0
	case '{', '[':
		p.depth++
		p.begun = true
	case '}', ']':
		p.depth--
	case ' ', '\t', '\r', '\n':
	default:
		p.begun = true
		p.scalar = p.scalar || p.depth == 0
	}
}

// whole reports whether an object or array has come to its end.
func (p *progress) whole() bool { return p.begun && !p.scalar && !p.str && p.depth <= 0 }

// cut reports whether text has come that is no whole value yet.
func (p *progress) cut() bool { return p.begun && !p.scalar && !p.whole() }

// follows reports whether s begins with all that has come so far.
func (p *progress) follows(s string) bool {
	if len(s) < p.length {
		return false
	}
	var q progress
	q.add(s[:p.length])
	return p.length == 0 || q.hash == p.hash
}
