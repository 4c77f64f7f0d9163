package rawjson

import "sort"

// Edit replaces b[Start:End] by Text.
type Edit struct {
	Start, End int
	Text       []byte
}

// Splice returns b with the edits applied, as pieces that share b's memory. Edits must not overlap.
func Splice(b []byte, edits ...Edit) [][]byte {
	sort.Slice(edits, func(i, j int) bool { return edits[i].Start < edits[j].Start })
	pieces := make([][]byte, 0, 2*len(edits)+1)
	at := 0
	add := func(p []byte) {
		if len(p) > 0 {
			pieces = append(pieces, p)
		}
	}
	for _, e := range edits {
		add(b[at:e.Start])
		add(e.Text)
		at = e.End
	}
	add(b[at:])
	return pieces
}

// Remove returns the edits that take the named members out of the top level of b, with one comma each, so that
// what is left is an object again.
func Remove(b []byte, keys map[string]bool) ([]Edit, error) {
	var edits []Edit
	kept := false // a member before this one stays
	var pending []int
	prevEnd := 0
	err := Walk(b, func(key []byte, f Field) error {
		switch {
		case !keys[string(key)]:
			for _, k := range pending { // nothing stays before them: they take the comma behind
				edits[k].End = f.KeyStart
			}
			if n := len(pending); n > 1 { // one edit for the whole leading run
				edits = append(edits[:len(edits)-n], Edit{Start: edits[len(edits)-n].Start, End: f.KeyStart})
			}
			pending, kept = nil, true
		case kept:
			edits = append(edits, Edit{Start: prevEnd, End: f.ValueEnd})
		default:
			edits = append(edits, Edit{Start: f.KeyStart, End: f.ValueEnd})
			pending = append(pending, len(edits)-1)
		}
		prevEnd = f.ValueEnd
		return nil
	})
	if n := len(pending); err == nil && n > 1 { // every member goes
		edits = []Edit{{Start: edits[0].Start, End: prevEnd}}
	}
	return edits, err
}
