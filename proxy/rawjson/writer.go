package rawjson

import "strconv"

// Writer builds JSON text. It puts the commas; that brackets match and names stand where they must is the caller's
// to know. The zero Writer is ready; Buf may hold text to append to, which must not end inside an object or array.
type Writer struct {
	Buf   []byte
	comma bool // a value stands before, on this level
}

func (w *Writer) next() {
	if w.comma {
		w.Buf = append(w.Buf, ',')
	}
	w.comma = true
}

// Open begins an object ('{') or an array ('[').
func (w *Writer) Open(bracket byte) {
	w.next()
	w.Buf = append(w.Buf, bracket)
	w.comma = false
}

// Close ends what Open began: '}' or ']'.
func (w *Writer) Close(bracket byte) {
	w.Buf = append(w.Buf, bracket)
	w.comma = true
}

// Key writes a member's name. A value must follow.
func (w *Writer) Key(name string) {
	w.next()
	w.Buf = append(AppendString(w.Buf, name), ':')
	w.comma = false
}

// String writes a string value.
func (w *Writer) String(s string) {
	w.next()
	w.Buf = AppendString(w.Buf, s)
}

// Raw writes a value that is JSON text.
func (w *Writer) Raw(value []byte) {
	w.next()
	w.Buf = append(w.Buf, value...)
}

// Int writes a whole number.
func (w *Writer) Int(n int64) {
	w.next()
	w.Buf = strconv.AppendInt(w.Buf, n, 10)
}

// Bool writes true or false.
func (w *Writer) Bool(v bool) {
	w.next()
	w.Buf = strconv.AppendBool(w.Buf, v)
}

// Null writes null.
func (w *Writer) Null() {
	w.next()
	w.Buf = append(w.Buf, "null"...)
}

// Field writes a member with a string value.
func (w *Writer) Field(name, value string) {
	w.Key(name)
	w.String(value)
}

// Optional writes a member with a string value unless that is empty.
func (w *Writer) Optional(name, value string) {
	if value != "" {
		w.Field(name, value)
	}
}

// Member writes a member whose value is JSON text, unless that is empty.
func (w *Writer) Member(name string, value []byte) {
	if len(value) > 0 {
		w.Key(name)
		w.Raw(value)
	}
}

// Number writes a member with a whole number.
func (w *Writer) Number(name string, n int64) {
	w.Key(name)
	w.Int(n)
}
