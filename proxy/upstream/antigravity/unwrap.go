package antigravity

const (
	// maxFront bounds what is held of an object until it shows whether it is an envelope.
	maxFront = 64 << 10
	maxWord  = 32 // of a member's name
)

// unwrapper takes objects out of their envelopes, {"response": {…}, "traceId": "…"}, in a text that arrives in pieces: one
// object, an array of them, or with lines the data of an event stream. Wherever the text is cut, the result is the same.
// It holds back no more than an object's front, up to the member that tells, and at most 64 KiB of that. What is no
// envelope stays byte for byte, and so does what is no JSON. The zero unwrapper is ready.
type unwrapper struct {
	lines bool // the text is an event stream
	flat  bool // of an array only its first object is left

	state   state
	begun   bool // something else than blanks has come
	bracket bool // and it was an array's
	given   bool // an object has ended
	asIs    bool // for good: the text is no JSON

	// of an event stream's line
	name    []byte // its field, as far as it has come
	inValue bool   // behind the colon
	started bool   // something stands in the line
	cr      bool   // the byte before was a CR

	// of an object
	depth  int
	str    bool // in a string
	escape bool // behind a backslash in one
	held   []byte
	word   []byte // of the front: the last member's name, with its quotes
	inWord bool
	key    bool // the next string is a member's name
	colon  bool // the next byte is the first one of a member's value
}

type state uint8

const (
	outside    state = iota // of objects
	inFront                 // of an object, which is held
	inResponse              // in what the envelope holds
	inRest                  // of the envelope, which is left out
	inWhole                 // in an object that is no envelope
)

// tells reports whether an answer without an envelope has a member of this name.
func tells(word []byte) bool {
	switch string(word) {
	case `"candidates"`, `"error"`, `"promptFeedback"`, `"usageMetadata"`, `"modelVersion"`, `"responseId"`, `"totalTokens"`:
		return true
	}
	return false
}

// write appends to dst what becomes of the next piece.
func (u *unwrapper) write(dst, p []byte) []byte {
	for len(p) > 0 {
		if u.asIs {
			return append(dst, p...)
		}
		if n := u.run(p); n > 0 {
			if u.state != inRest {
				dst = append(dst, p[:n]...)
			}
			p = p[n:]
			continue
		}
		if u.lines {
			dst = u.line(dst, p[0])
		} else {
			dst = u.json(dst, p[0])
		}
		p = p[1:]
	}
	return dst
}

// end appends what is left when the text has ended.
func (u *unwrapper) end(dst []byte) []byte {
	if u.state == inFront {
		dst = append(dst, u.held...)
		u.state = outside
	}
	return dst
}

// run returns how many of the next bytes change nothing: nearly all do.
func (u *unwrapper) run(p []byte) int {
	if u.state < inResponse || u.escape || u.lines && !u.isData() {
		return 0
	}
	for i, c := range p {
		switch c {
		case '"', '\n', '\r':
			return i
		case '\\':
			if u.str {
				return i
			}
		case '{', '}', '[', ']':
			if !u.str {
				return i
			}
		}
	}
	return len(p)
}

func (u *unwrapper) isData() bool { return u.inValue && string(u.name) == "data" }

// line takes a byte of an event stream. An event's data may stand in several lines.
func (u *unwrapper) line(dst []byte, c byte) []byte {
	switch {
	case c == '\n' && u.cr: // one line end with the byte before
		u.cr = false
		return u.structure(dst, c)
	case c == '\n' || c == '\r':
		u.cr = c == '\r'
		if !u.started { // a blank line ends the event, whatever is missing in it
			dst = u.end(dst)
			u.state = outside
		}
		u.name, u.inValue, u.started = u.name[:0], false, false
		return u.structure(dst, c)
	}
	u.cr, u.started = false, true
	switch {
	case u.isData():
		return u.json(dst, c)
	case u.inValue:
	case c == ':':
		u.inValue = true
	case len(u.name) < maxWord:
		u.name = append(u.name, c)
	}
	return u.structure(dst, c)
}

// structure takes a byte of the stream's own form.
func (u *unwrapper) structure(dst []byte, c byte) []byte {
	if u.state == inFront {
		u.held = append(u.held, c)
		return u.bound(dst)
	}
	return append(dst, c)
}

// json takes a byte of JSON text.
func (u *unwrapper) json(dst []byte, c byte) []byte {
	switch u.state {
	case outside:
		return u.between(dst, c)
	case inFront:
		return u.front(dst, c)
	case inResponse, inWhole:
		dst = append(dst, c)
	}
	if u.nest(c); u.depth == 0 {
		u.leave()
	}
	return dst
}

// leave goes on behind an object that has ended.
func (u *unwrapper) leave() {
	if u.state == inResponse {
		u.state, u.depth = inRest, 1
		return
	}
	u.state, u.given = outside, true
}

// nest follows strings and brackets.
func (u *unwrapper) nest(c byte) {
	if u.str {
		switch {
		case u.escape:
			u.escape = false
		case c == '\\':
			u.escape = true
		case c == '"':
			u.str = false
		}
		return
	}
	switch c {
	case '"':
		u.str = true
	case '{', '[':
		u.depth++
	case '}', ']':
		u.depth--
	}
}

// between takes a byte that is in no object.
func (u *unwrapper) between(dst []byte, c byte) []byte {
	if !u.begun && !u.lines && !isBlank(c) {
		u.begun, u.bracket = true, c == '['
		if c != '[' && c != '{' {
			u.asIs = true
		}
	}
	flat := u.flat && u.bracket
	switch {
	case c == '{':
		u.depth, u.str, u.escape, u.inWord, u.key, u.colon = 1, false, false, false, true, false
		if u.state = inFront; flat && u.given {
			u.state = inRest
		}
		u.held = append(u.held[:0], c)
		return dst
	case flat:
		return dst
	}
	return append(dst, c)
}

// front takes a byte of an object that has not shown yet what it is.
func (u *unwrapper) front(dst []byte, c byte) []byte {
	u.held = append(u.held, c)
	if u.depth == 1 && !u.str {
		switch {
		case isBlank(c):
		case u.colon:
			u.colon = false
			if string(u.word) != `"response"` {
				break
			}
			if c == '{' {
				u.state, u.held = inResponse, u.held[:0]
				return append(dst, c)
			}
			u.nest(c)
			return u.flush(dst)
		case c == ':':
			u.colon = true
		case c == ',':
			u.key = true
		case c == '"' && u.key:
			u.inWord, u.key, u.word = true, false, u.word[:0]
		}
	}
	if u.inWord && len(u.word) < maxWord {
		u.word = append(u.word, c)
	}
	u.nest(c)
	if u.inWord && !u.str {
		if u.inWord = false; tells(u.word) {
			return u.flush(dst)
		}
	}
	if u.depth == 0 {
		return u.flush(dst)
	}
	return u.bound(dst)
}

// bound gives up on an object that is too long before it tells.
func (u *unwrapper) bound(dst []byte) []byte {
	if len(u.held) > maxFront {
		return u.flush(dst)
	}
	return dst
}

// flush lets an object go that is no envelope.
func (u *unwrapper) flush(dst []byte) []byte {
	dst = append(dst, u.held...)
	u.held = u.held[:0]
	if u.state = inWhole; u.depth == 0 {
		u.leave()
	}
	return dst
}

func isBlank(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }
