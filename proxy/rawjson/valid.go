package rawjson

// maxValidDepth bounds the nesting of what Valid takes: what is converted is walked by recursion.
const maxValidDepth = 512

// Valid checks that b is one JSON value, through and through, nested no deeper than 512. Errors wrap ErrSyntax.
func Valid(b []byte) error {
	i, err := validValue(b, skipSpace(b, 0), 0)
	if err != nil {
		return err
	}
	return end(b, i)
}

func validValue(b []byte, i, depth int) (int, error) {
	if i >= len(b) {
		return 0, syntax(i, "value expected")
	}
	switch b[i] {
	case '{', '[':
		if depth == maxValidDepth {
			return 0, syntax(i, "nested too deeply")
		}
		return validNested(b, i, depth+1)
	case '"':
		return validString(b, i)
	}
	return skipValue(b, i)
}

// validNested checks the object or array that begins at i.
func validNested(b []byte, i, depth int) (int, error) {
	object, closing := b[i] == '{', b[i]+2 // '{'+2 is '}', '['+2 is ']'
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == closing {
		return i + 1, nil
	}
	for {
		var err error
		if object {
			if i >= len(b) || b[i] != '"' {
				return 0, syntax(i, "field name expected")
			}
			if i, err = validString(b, i); err != nil {
				return 0, err
			}
			if i = skipSpace(b, i); i >= len(b) || b[i] != ':' {
				return 0, syntax(i, "colon expected")
			}
			i = skipSpace(b, i+1)
		}
		if i, err = validValue(b, i, depth); err != nil {
			return 0, err
		}
		switch i = skipSpace(b, i); {
		case i >= len(b):
			return 0, syntax(i, "unexpected end")
		case b[i] == closing:
			return i + 1, nil
		case b[i] != ',':
			return 0, syntax(i, "comma or closing bracket expected")
		}
		i = skipSpace(b, i+1)
	}
}

func validString(b []byte, i int) (int, error) {
	for at := i + 1; ; at++ {
		if at = plainRun(b, at); at >= len(b) {
			return 0, syntax(len(b), "string without end")
		}
		switch c := b[at]; {
		case c == '"':
			return at + 1, nil
		case c < 0x20:
			return 0, syntax(at, "control character in a string")
		case c == '\\':
			if at++; at >= len(b) {
				return 0, syntax(at, "string without end")
			}
			if b[at] == 'u' {
				if _, ok := hex4(b[at+1:]); !ok {
					return 0, syntax(at, "bad escape")
				}
				at += 4
			} else if _, ok := unescape(b[at]); !ok {
				return 0, syntax(at, "bad escape")
			}
		}
	}
}

// Elements calls visit for each element of the array that is the whole of b, in order. It stops with visit's first error.
func Elements(b []byte, visit func(i int, value []byte) error) error {
	i := skipSpace(b, 0)
	if i >= len(b) || b[i] != '[' {
		return syntax(i, "array expected")
	}
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == ']' {
		return end(b, i+1)
	}
	for n := 0; ; n++ {
		stop, err := skipValue(b, i)
		if err != nil {
			return err
		}
		if err := visit(n, b[i:stop]); err != nil {
			return err
		}
		i = skipSpace(b, stop)
		if i >= len(b) {
			return syntax(i, "unexpected end")
		}
		switch b[i] {
		case ',':
			i = skipSpace(b, i+1)
		case ']':
			return end(b, i+1)
		default:
			return syntax(i, "comma or closing bracket expected")
		}
	}
}

// NextElement returns the length of the next piece of an array that arrives in pieces, and the element in it: blanks and
// the bracket or comma before it belong to the piece. The closing bracket is a piece without element. n is 0 while the
// piece is not whole, or is none.
func NextElement(b []byte) (n int, element []byte) {
	i := skipSpace(b, 0)
	if i < len(b) && (b[i] == '[' || b[i] == ',') {
		i = skipSpace(b, i+1)
	}
	if i >= len(b) {
		return 0, nil
	}
	if b[i] == ']' {
		return i + 1, nil
	}
	if b[i] != '{' {
		return 0, nil
	}
	end, err := skipNested(b, i)
	if err != nil {
		return 0, nil
	}
	return end, b[i:end]
}
